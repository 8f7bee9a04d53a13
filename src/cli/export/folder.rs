//! Puts an export into its place: all of it at once, and never over anything that is not an export.
//!
//! Everything is written into a new folder beside the one that is wanted, synced, and exchanged with that by one rename. Of what
//! was there, the files that its own manifest lists are removed afterwards, if they are still what the manifest says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;

use super::is_within;
use crate::pages::file::fingerprint;

/// The manifest's name.
pub(super) const MANIFEST: &str = "manifest.json";
/// By which an export is recognised.
pub(super) const GENERATOR: &str = "frontdesk export";
/// What a reader of the manifest may rely on.
pub(super) const FORMAT: u32 = 1;
/// Members of the manifest.
pub(super) const FILES: &str = "files";
pub(super) const BYTES: &str = "bytes";
pub(super) const BLAKE3: &str = "blake3";

/// Folders of a site that are read when it is loaded.
const SOURCES: [&str; 5] = ["pages", "posts", "assets", "static", "theme"];

/// Where an export goes to.
#[derive(Debug)]
pub(super) struct Folder {
    /// Absolute; no part of it is a link, but the last may be new.
    path: PathBuf,
}

/// What is there already.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Empty,
    /// The files of an earlier export.
    Export(BTreeSet<String>),
}

impl Folder {
    /// Looks whether an export may be put at `output`.
    pub fn claim(output: &Path, site: &Path) -> anyhow::Result<Self> {
        let path = resolve(output)?;
        if let Some(name) = SOURCES.iter().find(|name| is_within(&path, &site.join(name))) {
            bail!(
                "{} is within the site's own {name}/, and would be part of the next export",
                output.display()
            );
        }
        if site.canonicalize().is_ok_and(|site| site.starts_with(&path)) {
            bail!("{} is the site's own folder, or above it", output.display());
        }
        let folder = Self { path };
        folder.look()?;
        Ok(folder)
    }

    /// Absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn look(&self) -> anyhow::Result<Found> {
        let shown = self.path.display();
        let is_folder = match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            found => found.with_context(|| format!("cannot look at {shown}"))?.is_dir(),
        };
        if !is_folder {
            bail!("{shown} is there, and no folder");
        }
        let files = files_below(&self.path).with_context(|| format!("cannot read {shown}"))?;
        if files.is_empty() {
            return Ok(Found::Empty);
        }
        let listed = listed(&self.path).ok_or_else(|| {
            anyhow!("{shown} is not empty, and no export\nhint: name a folder that is empty or not there yet")
        })?;
        for name in &files {
            let is_ours = name == MANIFEST
                || listed.get(name).is_some_and(|hash| {
                    fs::read(self.path.join(name)).is_ok_and(|bytes| fingerprint(&bytes, 64) == *hash)
                });
            if !is_ours {
                bail!(
                    "{shown} holds `{name}`, which the export that is there did not write like that\nhint: move it away, or name another folder"
                );
            }
        }
        Ok(Found::Export(files))
    }

    /// Puts `files`, by their names, in the place of what is there, and says whether that was an export.
    pub fn fill(&self, files: &BTreeMap<String, Bytes>) -> anyhow::Result<bool> {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or("export");
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let draft = parent.join(format!(".{name}.{}", std::process::id()));
        let written = write(&draft, files)
            .with_context(|| format!("cannot write {}", draft.display()))
            // Once more: writing takes its time, and somebody may have come meanwhile.
            .and_then(|()| self.look())
            .and_then(|found| {
                exchange(&draft, &self.path, &found)
                    .with_context(|| format!("cannot put {} in its place", self.path.display()))?;
                Ok(found)
            });
        let found = match written {
            Ok(found) => found,
            Err(error) => {
                remove(&draft, files.keys());
                return Err(error);
            }
        };
        // The new name is on the disk before the old files go.
        if let Ok(parent) = fs::File::open(parent) {
            let _ = parent.sync_all();
        }
        match found {
            Found::Nothing => Ok(false),
            Found::Empty => {
                let _ = fs::remove_dir(&draft);
                Ok(false)
            }
            Found::Export(old) => {
                remove(&draft, old.iter());
                if draft.exists() {
                    bail!(
                        "the export is in its place; of the old one something is left in {}",
                        draft.display()
                    );
                }
                Ok(true)
            }
        }
    }
}

/// The absolute path without links. What is not there yet is below something that is.
fn resolve(path: &Path) -> anyhow::Result<PathBuf> {
    let absolute = std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))?;
    let mut rest = Vec::new();
    let mut known = absolute.as_path();
    loop {
        match known.canonicalize() {
            Ok(real) => return Ok(rest.iter().rev().fold(real, |path, name| path.join(name))),
            Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(known).is_err() => {
                let (Some(parent), Some(name)) = (known.parent(), known.file_name()) else {
                    return Err(anyhow!(error).context(format!("cannot find {}", path.display())));
                };
                rest.push(name);
                known = parent;
            }
            Err(error) => return Err(anyhow!(error).context(format!("cannot find {}", path.display()))),
        }
    }
}

/// The names of all that is no folder. Of names that are no UTF-8 none is ours.
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

/// What the manifest in a folder lists, with the hashes; none if it is not one of ours.
fn listed(folder: &Path) -> Option<BTreeMap<String, String>> {
    let manifest: Value = serde_json::from_slice(&fs::read(folder.join(MANIFEST)).ok()?).ok()?;
    if manifest["generator"] != GENERATOR {
        return None;
    }
    let files = manifest[FILES].as_object()?.iter();
    files.map(|(name, file)| Some((name.clone(), file[BLAKE3].as_str()?.to_owned()))).collect()
}

fn write(folder: &Path, files: &BTreeMap<String, Bytes>) -> std::io::Result<()> {
    fs::create_dir(folder)?;
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::File::create_new(path)?.write_all(bytes)?;
    }
    // Once for the whole file system: for each of ten thousand files it would take minutes.
    Ok(rustix::fs::syncfs(fs::File::open(folder)?)?)
}

/// One rename. Where the file system cannot exchange two folders, the old one is moved away first, and the name is without
/// anything for a moment.
fn exchange(draft: &Path, path: &Path, found: &Found) -> std::io::Result<()> {
    if *found == Found::Nothing {
        return Ok(renameat_with(CWD, draft, CWD, path, RenameFlags::NOREPLACE).or_else(
            |error| match error {
                rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS => rustix::fs::rename(draft, path),
                error => Err(error),
            },
        )?);
    }
    match renameat_with(CWD, draft, CWD, path, RenameFlags::EXCHANGE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            let aside = draft.with_extension("old");
            fs::rename(path, &aside)?;
            fs::rename(draft, path)?;
            fs::rename(aside, draft)
        }
        done => Ok(done?),
    }
}

/// Removes these files, and then the folders that are empty without them. What somebody else has put there stays.
fn remove<'a>(folder: &Path, names: impl Iterator<Item = &'a String>) {
    let mut folders = BTreeSet::from([folder.to_owned()]);
    for name in names {
        let path = folder.join(name);
        let _ = fs::remove_file(&path);
        let above = path.ancestors().skip(1).take_while(|above| above.starts_with(folder));
        folders.extend(above.map(Path::to_owned));
    }
    for folder in folders.iter().rev() {
        // Those that hold something are not removed.
        let _ = fs::remove_dir(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An export of one file with this text.
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
            let folder = Folder::claim(&output, Path::new("/nowhere")).expect("it may be put there");
            folder.fill(&export(text)).expect("it can be put there")
        };
        assert!(!put("one"));
        assert_eq!(names(&output), ["manifest.json", "public/one.txt"]);
        assert!(put("two"));
        assert_eq!(names(&output), ["manifest.json", "public/two.txt"]);
        let beside: Vec<_> = fs::read_dir(place.path().join("new")).expect("a folder").collect();
        assert_eq!(beside.len(), 1, "{beside:?}");
        let empty = place.path().join("empty");
        fs::create_dir(&empty).expect("it can be created");
        let folder = Folder::claim(&empty, Path::new("/nowhere")).expect("it may be put there");
        assert!(!folder.fill(&export("one")).expect("it can be put there"));
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let place = tempfile::tempdir().expect("a folder");
        let output = place.path().join("site");
        let claim = || Folder::claim(&output, Path::new("/nowhere"));
        let refused = |words: &str| {
            let said = claim().expect_err("it must not be put there").to_string();
            assert!(said.contains(words), "{said}");
        };
        fs::create_dir(&output).expect("it can be created");
        fs::write(output.join("mine.txt"), "mine").expect("it can be written");
        refused("no export");
        fs::remove_file(output.join("mine.txt")).expect("it can be removed");
        let folder = claim().expect("it is empty");
        folder.fill(&export("one")).expect("it can be put there");
        fs::write(output.join("public/mine.txt"), "mine").expect("it can be written");
        refused("`public/mine.txt`");
        // It came while the export was made.
        folder.fill(&export("two")).expect_err("it must not be put there");
        assert_eq!(names(&output), ["manifest.json", "public/mine.txt", "public/one.txt"]);
        fs::remove_file(output.join("public/mine.txt")).expect("it can be removed");
        fs::write(output.join("public/one.txt"), "changed").expect("it can be written");
        refused("`public/one.txt`");
        assert_eq!(fs::read_dir(place.path()).expect("a folder").count(), 1, "no draft is left");
    }

    #[test]
    fn an_export_is_no_part_of_its_site() {
        let place = tempfile::tempdir().expect("a folder");
        fs::create_dir(place.path().join("static")).expect("it can be created");
        let check = |output: &str, expected: bool| {
            assert_eq!(Folder::claim(&place.path().join(output), place.path()).is_ok(), expected, "{output}");
        };
        check("static", false);
        check("static/x", false);
        check("", false);
        check("..", false);
        check("public", true);
        check("statically", true);
    }
}
