//! Writes an export into its folder. Replaces only an empty folder or an unmodified export.
//!
//! Writes all files into a new folder beside the output, syncs them, and exchanges the two folders:
//! atomically if the file system supports it. Then removes the files of the earlier export.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde_json::Value;

use crate::cli::diagnostics::with_hint;
use frontdesk_site::file::fingerprint;
use frontdesk_site::find_containing_folder;

pub(super) const MANIFEST: &str = "manifest.json";
/// Marks a manifest as written by this command.
pub(super) const GENERATOR: &str = "frontdesk export";
pub(super) const FORMAT: u32 = 1;
/// Names of members in the manifest.
pub(super) const FILES: &str = "files";
pub(super) const BYTES: &str = "bytes";
pub(super) const BLAKE3: &str = "blake3";

/// The output folder of an export.
#[derive(Debug)]
pub(super) struct ExportFolder {
    /// The path of the folder, absolute and without symbolic links. The folder may not exist yet.
    pub path: PathBuf,
}

/// The content of the output folder before the export.
#[derive(Debug, PartialEq, Eq)]
enum ExistingContent {
    Nothing,
    Empty,
    Export(BTreeSet<String>),
}

impl ExportFolder {
    /// Checks that an export of `site`, whose files are in the folders `served`, may be written to `output`,
    /// and resolves the path of `output`. Refuses a place in one of these folders, the site's folder itself,
    /// a folder above it, a mount point, and a folder with content other than an unmodified export. Writes
    /// nothing.
    pub fn claim(output: &Path, site: &Path, served: &[PathBuf]) -> anyhow::Result<Self> {
        let path = resolve(output)?;
        if let Some(folder) = find_containing_folder(output, served) {
            let (shown, folder) = (output.display(), folder.display());
            bail!(
                "{shown} is inside {folder}, whose files are published, so it would be part of the next export"
            );
        }
        if site.canonicalize().is_ok_and(|site| site.starts_with(&path)) {
            bail!("{} is the site's own folder, or contains it: name another folder", output.display());
        }
        let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
        let above = path.parent().and_then(device);
        if above.zip(device(&path)).is_some_and(|(above, own)| above != own) {
            return Err(refuse_mount_point(&path));
        }
        let folder = Self { path };
        folder.examine()?;
        Ok(folder)
    }

    /// Determines what the folder contains. Fails if an export must not replace it: it is not a folder, or
    /// contains a file that no earlier export wrote, or that has changed since. Missing files, except the
    /// manifest, and empty folders do not matter.
    fn examine(&self) -> anyhow::Result<ExistingContent> {
        let shown = self.path.display();
        let cannot = || format!("cannot read {shown}");
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ExistingContent::Nothing),
            Ok(found) if !found.is_dir() => bail!("{shown} is not a folder"),
            found => found.with_context(cannot)?,
        };
        if fs::read_dir(&self.path).with_context(cannot)?.next().is_none() {
            return Ok(ExistingContent::Empty);
        }
        let files = files_below(&self.path).with_context(cannot)?;
        let listed = read_manifest(&self.path).ok_or_else(|| {
            with_hint(
                anyhow!("{shown} is not empty and is not an export"),
                "name a folder that is empty or does not exist yet",
            )
        })?;
        for name in &files {
            let is_ours = name == MANIFEST
                || listed.get(name).is_some_and(|hash| {
                    fs::read(self.path.join(name)).is_ok_and(|bytes| fingerprint(&bytes, 64) == *hash)
                });
            if !is_ours {
                return Err(with_hint(
                    anyhow!(
                        "{shown} contains `{name}`, which was added, changed or made unreadable after the earlier export"
                    ),
                    "move it away, or name another folder",
                ));
            }
        }
        Ok(ExistingContent::Export(files))
    }

    /// Replaces the content with `files`, by path in the folder. Creates the folders above if they are
    /// missing. Returns whether there was an earlier export. If writing fails, the earlier content stays in
    /// place. Also fails if the export is complete, but parts of the earlier one could not be removed.
    pub fn fill(&self, files: &BTreeMap<String, Bytes>) -> anyhow::Result<bool> {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or("export");
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let draft = parent.join(format!(".{name}.{}", std::process::id()));
        let replace = || -> anyhow::Result<ExistingContent> {
            write_files(&draft, files).with_context(|| format!("cannot write {}", draft.display()))?;
            // Check the folder again, because it may have changed during the write.
            let found = self.examine()?;
            match exchange(&draft, &self.path, &found) {
                // A bind mount can be on the same device as its parent folder, so `claim` may not detect it.
                Err(error) if error.kind() == ErrorKind::ResourceBusy => Err(refuse_mount_point(&self.path)),
                done => {
                    done.with_context(|| format!("cannot replace {}", self.path.display())).map(|()| found)
                }
            }
        };
        // After the exchange, `draft` contains the previous content of the output folder.
        let found = replace().inspect_err(|_| remove_files(&draft, files.keys()))?;
        // Sync the rename to disk before the old files are removed.
        if let Ok(parent) = fs::File::open(parent) {
            let _ = parent.sync_all();
        }
        match found {
            ExistingContent::Nothing => Ok(false),
            ExistingContent::Empty => {
                let _ = fs::remove_dir(&draft);
                Ok(false)
            }
            ExistingContent::Export(old) => {
                remove_files(&draft, old.iter());
                if draft.exists() {
                    let shown = draft.display();
                    bail!(
                        "the export is complete, but parts of the earlier one remain in {shown}: remove that folder"
                    );
                }
                Ok(true)
            }
        }
    }
}

/// The error for an output that cannot be exchanged for another folder, because it is a mount point.
fn refuse_mount_point(path: &Path) -> anyhow::Error {
    let shown = path.display();
    let hint = format!("name a folder in it, such as {}", path.join("site").display());
    with_hint(anyhow!("{shown} is a mount point, which cannot be replaced as a whole"), hint)
}

/// Returns the absolute path without symbolic links. Its last components need not exist, but a broken link
/// and `..` after a missing component are errors.
fn resolve(path: &Path) -> anyhow::Result<PathBuf> {
    let cannot = || format!("cannot resolve the path `{}`", path.display());
    let absolute = std::path::absolute(path).with_context(cannot)?;
    let mut rest = Vec::new();
    let mut known = absolute.as_path();
    loop {
        match known.canonicalize() {
            Ok(real) => return Ok(rest.iter().rev().fold(real, |path, name| path.join(name))),
            Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(known).is_err() => {
                let (Some(parent), Some(name)) = (known.parent(), known.file_name()) else {
                    return Err(anyhow!(error).context(cannot()));
                };
                rest.push(name);
                known = parent;
            }
            Err(error) => return Err(anyhow!(error).context(cannot())),
        }
    }
}

/// The paths of all files in a folder and its subfolders, relative to the folder; symbolic links count as
/// files. Names that are not UTF-8 are converted with loss; an export contains no such names.
fn files_below(folder: &Path) -> std::io::Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path();
                let name = path.strip_prefix(folder).unwrap_or(&path);
                files.insert(name.to_string_lossy().into_owned());
            }
        }
    }
    Ok(files)
}

/// The hashes of the files in a folder's manifest. `None` if the folder has no valid manifest of an export.
fn read_manifest(folder: &Path) -> Option<BTreeMap<String, String>> {
    let manifest: Value = serde_json::from_slice(&fs::read(folder.join(MANIFEST)).ok()?).ok()?;
    if manifest["generator"] != GENERATOR {
        return None;
    }
    let files = manifest[FILES].as_object()?.iter();
    files.map(|(name, file)| Some((name.clone(), file[BLAKE3].as_str()?.to_owned()))).collect()
}

/// Creates a folder with these files, and waits until everything is on disk. Fails if the folder exists.
fn write_files(folder: &Path, files: &BTreeMap<String, Bytes>) -> std::io::Result<()> {
    fs::create_dir(folder)?;
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::File::create_new(path)?.write_all(bytes)?;
    }
    // Sync the whole file system once, because syncing ten thousand files one by one would take minutes.
    Ok(rustix::fs::syncfs(fs::File::open(folder)?)?)
}

/// Moves the folder `draft` to `path`. If there is a folder at `path`, exchanges the two with one rename, or
/// with [`exchange_in_steps`] if the file system does not support that.
fn exchange(draft: &Path, path: &Path, found: &ExistingContent) -> std::io::Result<()> {
    if *found == ExistingContent::Nothing {
        return match renameat_with(CWD, draft, CWD, path, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(draft, path),
            done => Ok(done?),
        };
    }
    match renameat_with(CWD, draft, CWD, path, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS) => exchange_in_steps(draft, path),
        done => Ok(done?),
    }
}

/// Exchanges two folders with three renames, so `path` does not exist for a moment. If `draft` cannot be
/// moved to `path`, moves the old folder back. If the old folder cannot be moved to `draft`, fails although
/// `path` is new; the old one remains beside it, named like `draft` with the extension `old`.
fn exchange_in_steps(draft: &Path, path: &Path) -> std::io::Result<()> {
    let aside = draft.with_added_extension("old");
    fs::rename(path, &aside)?;
    fs::rename(draft, path).inspect_err(|_| {
        let _ = fs::rename(&aside, path);
    })?;
    fs::rename(aside, draft)
}

/// Removes the files with these names from a folder, and folders that become empty, including `folder`.
/// Ignores errors.
fn remove_files<'a>(folder: &Path, names: impl Iterator<Item = &'a String>) {
    let mut folders = BTreeSet::from([folder.to_owned()]);
    for name in names {
        let path = folder.join(name);
        let _ = fs::remove_file(&path);
        let above = path.ancestors().skip(1).take_while(|above| above.starts_with(folder));
        folders.extend(above.map(Path::to_owned));
    }
    for folder in folders.iter().rev() {
        // Ignore the error: the folder stays if it contains other files.
        let _ = fs::remove_dir(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(text: &'static str) -> BTreeMap<String, Bytes> {
        let name = format!("public/{text}.txt");
        let hash = fingerprint(text.as_bytes(), 64);
        let manifest = serde_json::json!({ "generator": GENERATOR, FILES: { &name: { BLAKE3: hash } } });
        BTreeMap::from([
            (name, Bytes::from_static(text.as_bytes())),
            (MANIFEST.to_owned(), manifest.to_string().into()),
        ])
    }

    fn names(folder: &Path) -> Vec<String> {
        files_below(folder).expect("a folder").into_iter().collect()
    }

    #[test]
    fn an_export_replaces_an_export_and_leaves_nothing_behind() {
        let place = tempfile::tempdir().expect("a folder");
        let output = place.path().join("new/site");
        let put = |text| {
            let folder =
                ExportFolder::claim(&output, Path::new("/nowhere"), &[]).expect("the folder is accepted");
            folder.fill(&export(text)).expect("the export is written")
        };
        assert!(!put("one"));
        assert_eq!(names(&output), ["manifest.json", "public/one.txt"]);
        assert!(put("two"));
        assert_eq!(names(&output), ["manifest.json", "public/two.txt"]);
        let beside: Vec<_> = fs::read_dir(place.path().join("new")).expect("a folder").collect();
        assert_eq!(beside.len(), 1, "{beside:?}");
        let empty = place.path().join("empty");
        fs::create_dir(&empty).expect("it can be created");
        let folder = ExportFolder::claim(&empty, Path::new("/nowhere"), &[]).expect("the folder is accepted");
        assert!(!folder.fill(&export("one")).expect("the export is written"));
    }

    #[test]
    fn other_files_are_never_replaced() {
        let place = tempfile::tempdir().expect("a folder");
        let output = place.path().join("site");
        let claim = || ExportFolder::claim(&output, Path::new("/nowhere"), &[]);
        let refused = |words: &str| {
            let said = claim().expect_err("the folder is refused").to_string();
            assert!(said.contains(words), "{said}");
        };
        fs::create_dir(&output).expect("it can be created");
        fs::write(output.join("mine.txt"), "mine").expect("it can be written");
        refused("not an export");
        fs::remove_file(output.join("mine.txt")).expect("it can be removed");
        fs::create_dir(output.join("mine")).expect("it can be created");
        refused("not an export");
        fs::remove_dir(output.join("mine")).expect("it can be removed");
        let folder = claim().expect("it is empty");
        folder.fill(&export("one")).expect("the export is written");
        fs::write(output.join("public/mine.txt"), "mine").expect("it can be written");
        refused("`public/mine.txt`");
        // The file appeared during the export.
        folder.fill(&export("two")).expect_err("the folder is refused");
        assert_eq!(names(&output), ["manifest.json", "public/mine.txt", "public/one.txt"]);
        fs::remove_file(output.join("public/mine.txt")).expect("it can be removed");
        fs::write(output.join("public/one.txt"), "changed").expect("it can be written");
        refused("`public/one.txt`");
        assert_eq!(fs::read_dir(place.path()).expect("a folder").count(), 1, "no draft is left");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_mount_point_is_refused_before_the_export() {
        let error =
            ExportFolder::claim(Path::new("/proc"), Path::new("/nowhere"), &[]).expect_err("it is refused");
        assert!(error.to_string().starts_with("/proc is a mount point"), "{error}");
    }

    #[test]
    fn folders_are_exchanged_in_steps_or_stay_in_place() {
        let place = tempfile::tempdir().expect("a folder");
        let [draft, path] = [".site.1", "site"].map(|name| place.path().join(name));
        fs::create_dir(&path).expect("it can be created");
        fs::write(path.join("old.txt"), "old").expect("it can be written");
        exchange_in_steps(&draft, &path).expect_err("there is no draft");
        assert_eq!(names(&path), ["old.txt"]);
        fs::create_dir(&draft).expect("it can be created");
        exchange_in_steps(&draft, &path).expect("both are there");
        assert_eq!((names(&path).len(), names(&draft)), (0, vec!["old.txt".to_owned()]));
        assert_eq!(fs::read_dir(place.path()).expect("a folder").count(), 2, "nothing else is left");
    }

    #[test]
    fn an_export_is_never_inside_its_site() {
        let place = tempfile::tempdir().expect("a folder");
        fs::create_dir(place.path().join("static")).expect("it can be created");
        let check = |output: &str, expected: bool| {
            let (output, served) = (place.path().join(output), [place.path().join("static")]);
            let claimed = ExportFolder::claim(&output, place.path(), &served);
            assert_eq!(claimed.is_ok(), expected, "{}", output.display());
        };
        check("static", false);
        check("static/x", false);
        check("", false);
        check("..", false);
        check("public", true);
        check("statically", true);
    }
}
