//! Recognizes the operator's private files, also under other names: behind symbolic links, hard links and
//! mounts, and on file systems that do not distinguish cases.

use std::fs::Metadata;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use blake3::Hash;

use super::private_content::is_certificate;

/// A map without protection against keys that an attacker chooses: visitors do not choose these keys.
type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// A private file or folder of the operator, which need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivatePath {
    pub path: PathBuf,
    /// Why the path is private, such as "`tls.key` names it".
    pub reason: String,
    /// Whether files in the same folder are private too if their names begin with the name of the private
    /// file, such as `inbox.sqlite-wal`.
    pub has_companions: bool,
}

/// The device and the inode of a file.
type FileIdentity = (u64, u64);

fn file_id(file: &Metadata) -> FileIdentity {
    (file.dev(), file.ino())
}

/// The operator's private files and folders, by path and by identity.
#[derive(Debug)]
pub(crate) struct PrivateFiles<'a> {
    /// The paths, canonical as far as they exist.
    paths: Vec<(PathBuf, &'a PrivatePath)>,
    /// The identities of the files and folders, of the companions of files, and of the direct entries of
    /// folders.
    ids: HashMap<FileIdentity, &'a PrivatePath>,
    /// The identities of all files below the folders. Determined only if a served file has several hard
    /// links, or if a mount may show it under another path.
    inner_ids: OnceLock<HashMap<FileIdentity, &'a PrivatePath>>,
    /// Whether a mount below a served folder may show one of the private files. Mounts do not increase the
    /// link count. True if the mounts are unknown.
    has_mounts: bool,
    /// The private files whose size is in [`COPIED_BYTES`], except certificates, by the hash of their
    /// content.
    contents: HashMap<Hash, &'a PrivatePath>,
}

/// The sizes in bytes of the private files whose copies are recognized. Shorter files have no secrets; longer
/// ones would take too long to hash.
const COPIED_BYTES: RangeInclusive<u64> = 8..=64 << 10;

impl<'a> PrivateFiles<'a> {
    /// Finds the files in `private`, which need not exist yet. Skips folders that are or contain one of the
    /// served folders `roots`, such as a data folder that also contains the site. Private files in such
    /// folders must be in `private` themselves.
    pub fn new(private: &'a [PrivatePath], roots: &[PathBuf]) -> Self {
        let resolved = private.iter().map(|own| (resolve_path(&own.path), own));
        let paths: Vec<_> =
            resolved.filter(|(path, _)| !roots.iter().any(|root| root.starts_with(path))).collect();
        let mut ids: HashMap<FileIdentity, &PrivatePath> = HashMap::default();
        for (path, own) in &paths {
            if let Ok(file) = std::fs::metadata(path) {
                ids.entry(file_id(&file)).or_insert(own);
            }
            let (folder, name) = match path.parent().zip(path.file_name()) {
                Some((folder, name)) if own.has_companions => (folder, name.as_encoded_bytes()),
                _ => (path.as_path(), &b""[..]),
            };
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let is_own = entry.file_name().as_encoded_bytes().starts_with(name);
                if let Ok(file) = entry.metadata()
                    && is_own
                {
                    ids.entry(file_id(&file)).or_insert(own);
                }
            }
        }
        let contents = paths.iter().filter_map(|(path, own)| Some((content_hash(path)?, *own))).collect();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo");
        let has_mounts = mounts.map_or(true, |mounts| has_mount_in(&mounts, roots));
        Self { paths, ids, inner_ids: OnceLock::new(), has_mounts, contents }
    }

    /// Returns why the file or folder is private, if it is. `real` is its canonical path. Recognizes also
    /// hard links, and files behind mounts; the first search for such a file reads all private folders.
    pub fn find(&self, real: &Path, file: &Metadata) -> Option<&'a str> {
        let is_private = |(path, own): &&(PathBuf, &PrivatePath)| {
            real.starts_with(path) || (own.has_companions && is_companion(real, path))
        };
        let by_path = self.paths.iter().find(is_private).map(|(_, own)| *own);
        let by_id = || self.ids.get(&file_id(file)).copied();
        let by_link = || {
            let has_other_names = file.is_file() && (file.nlink() > 1 || self.has_mounts);
            has_other_names.then(|| self.inner_ids().get(&file_id(file)).copied()).flatten()
        };
        by_path.or_else(by_id).or_else(by_link).map(|own| own.reason.as_str())
    }

    /// Returns why a file with this content is private, if it is a copy of one of the operator's small
    /// private files.
    pub fn find_copied(&self, content: &Hash) -> Option<&'a str> {
        self.contents.get(content).map(|own| own.reason.as_str())
    }

    /// The identities of all files below the folders. The first call reads these folders. Skips folders that
    /// cannot be read.
    fn inner_ids(&self) -> &HashMap<FileIdentity, &'a PrivatePath> {
        self.inner_ids.get_or_init(|| {
            let mut ids = HashMap::default();
            let mut folders: Vec<(PathBuf, &PrivatePath)> =
                self.paths.iter().filter(|(path, _)| path.is_dir()).cloned().collect();
            while let Some((folder, own)) = folders.pop() {
                for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                    match entry.metadata() {
                        Ok(found) if found.is_dir() => folders.push((entry.path(), own)),
                        Ok(found) => drop(ids.insert(file_id(&found), own)),
                        Err(_) => {}
                    }
                }
            }
            ids
        })
    }
}

/// The hash of a file. `None` for certificates, which are public, and for files that cannot be read or have a
/// size outside of [`COPIED_BYTES`].
fn content_hash(path: &Path) -> Option<Hash> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || !COPIED_BYTES.contains(&metadata.len()) {
        return None;
    }
    let mut content = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(*COPIED_BYTES.end()).read_to_end(&mut content).ok()?;
    (!is_certificate(&content)).then(|| blake3::hash(&content))
}

/// Whether something is mounted on, or below, one of the folders, according to `/proc/self/mountinfo`.
fn has_mount_in(mounts: &str, folders: &[PathBuf]) -> bool {
    // In `mountinfo`, a space in a path is `\040`.
    let escaped = |folder: &PathBuf| {
        let mut name = folder.to_string_lossy().replace('\\', "\\134");
        for (character, code) in [(' ', "\\040"), ('\t', "\\011"), ('\n', "\\012")] {
            name = name.replace(character, code);
        }
        PathBuf::from(name)
    };
    let folders: Vec<PathBuf> = folders.iter().map(escaped).collect();
    let mut points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    points.any(|point| folders.iter().any(|folder| Path::new(point).starts_with(folder)))
}

/// Whether `real` is in the folder of `path`, and has a name that begins with the name of `path`.
fn is_companion(real: &Path, path: &Path) -> bool {
    let names = real.file_name().zip(path.file_name());
    real.parent() == path.parent()
        && names.is_some_and(|(real, own)| real.as_encoded_bytes().starts_with(own.as_encoded_bytes()))
}

/// Maximum number of symbolic links in a chain that ends at a missing file, as in Linux.
const MAX_LINKS: usize = 40;

/// Makes a path absolute and, as far as it exists, canonical. If the path is a symbolic link to a missing
/// file, returns the path of that file, because a program that writes to the link creates it.
pub fn resolve_path(path: &Path) -> PathBuf {
    let mut path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for _ in 0..MAX_LINKS {
        match (path.canonicalize(), path.read_link(), path.parent()) {
            (Err(_), Ok(target), Some(folder)) => path = folder.join(target),
            _ => break,
        }
    }
    let known = path
        .ancestors()
        .find_map(|ancestor| Some((ancestor.canonicalize().ok()?, path.strip_prefix(ancestor).ok()?)));
    let Some((mut resolved, rest)) = known else { return path };
    for part in rest.components() {
        match part {
            Component::ParentDir => drop(resolved.pop()),
            part => resolved.push(part),
        }
    }
    resolved
}

/// The first folder in `folders` that contains the file or folder `path`, or is the same. Neither needs to
/// exist. If `path` is a symbolic link, both the place of the link and its target count.
pub fn find_containing_folder<'a>(path: &Path, folders: &'a [PathBuf]) -> Option<&'a Path> {
    let link = path.parent().zip(path.file_name());
    let link = link.map(|(folder, name)| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        resolve_path(folder).join(name)
    });
    let places: Vec<PathBuf> = link.into_iter().chain([resolve_path(path)]).collect();
    let id = |path: &Path| std::fs::metadata(path).ok().map(|file| file_id(&file));
    let contains = |folder: &Path| {
        let (resolved, own) = (resolve_path(folder), id(folder));
        let mut above = places.iter().flat_map(|place| place.ancestors());
        above.any(|ancestor| ancestor == resolved || (own.is_some() && id(ancestor) == own))
    };
    folders.iter().map(PathBuf::as_path).find(|folder| contains(folder))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn private(path: PathBuf, has_companions: bool) -> PrivatePath {
        PrivatePath { reason: path.display().to_string(), path, has_companions }
    }

    #[test]
    fn the_operators_files_are_found_under_every_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it exists");
        let at = |name: &str| root.join(name);
        for name in ["static", "data/acme/deep", "store", "elsewhere"] {
            fs::create_dir_all(at(name)).expect("a folder");
        }
        let files =
            ["key.pem", "data/inbox", "data/acme/deep/account", "store/db", "store/db-wal", "store/x"];
        for name in files.iter().chain(&["static/other"]) {
            fs::write(at(name), "x").expect("it is written");
        }
        for (from, to) in [
            ("key.pem", "static/key"),
            ("data/inbox", "static/inbox"),
            ("data/acme/deep/account", "static/account"),
            ("store/db-wal", "static/wal"),
            ("store/x", "static/x"),
        ] {
            fs::hard_link(at(from), at(to)).expect("a link");
        }
        symlink(at("data"), at("static/link")).expect("a link");
        let options = [
            private(at("key.pem"), false),
            private(at("data"), false),
            private(at("elsewhere/../store/db"), true),
            private(at("missing"), false),
            // These contain the served folder.
            private(root.clone(), false),
            private(at("static"), false),
        ];
        let files = PrivateFiles::new(&options, &[at("static")]);
        for (name, expected) in [
            ("key.pem", Some("key.pem")),
            ("static/key", Some("key.pem")),
            ("data", Some("data")),
            ("data/acme", Some("data")),
            ("static/inbox", Some("data")),
            ("static/account", Some("data")),
            ("static/link/acme/deep/account", Some("data")),
            ("store/db", Some("elsewhere/../store/db")),
            ("static/wal", Some("elsewhere/../store/db")),
            ("static/x", None),
            ("static/other", None),
            ("static", None),
        ] {
            let real = at(name).canonicalize().expect("it exists");
            let found = files.find(&real, &fs::metadata(&real).expect("it exists"));
            let expected = expected.map(|name| at(name).display().to_string());
            assert_eq!(found, expected.as_deref(), "{name}");
        }
        // A file that did not exist when the list was made.
        let other = fs::metadata(at("static/other")).expect("it exists");
        assert!(files.find(&at("missing/a"), &other).is_some());
        assert!(files.find(&at("missing-not"), &other).is_none());
        assert!(files.find(&at("store/db-journal"), &other).is_some());
    }

    #[test]
    fn mounts_in_a_folder_are_found() {
        let mounts = "22 1 0:20 / / rw - ext4 /dev/a rw\n\
                      31 22 0:21 /key /srv/my\\040site/static/deep/key rw - ext4 /dev/a rw\n";
        for (folder, expected) in [
            ("/srv/my site/static", true),
            ("/srv/my site/static/deep/key", true),
            ("/srv/my site/pages", false),
            ("/srv/my site/sta", false),
            ("/srv/other", false),
        ] {
            assert_eq!(has_mount_in(mounts, &[folder.into()]), expected, "{folder}");
        }
    }

    #[test]
    fn files_deep_in_private_folders_are_found_behind_mounts() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it exists");
        for name in ["static", "data/a/b"] {
            fs::create_dir_all(root.join(name)).expect("a folder");
        }
        fs::write(root.join("data/a/b/c"), "x").expect("it is written");
        let options = [private(root.join("data"), false)];
        let mut files = PrivateFiles::new(&options, &[root.join("static")]);
        // A mount shows the same file under another path.
        let file = fs::metadata(root.join("data/a/b/c")).expect("it exists");
        files.has_mounts = false;
        assert_eq!(files.find(&root.join("static/c"), &file), None);
        files.has_mounts = true;
        assert!(files.find(&root.join("static/c"), &file).is_some());
    }

    #[test]
    fn a_path_is_inside_a_folder_by_any_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let at = |name: &str| root.join(name);
        for name in ["site/static/deep", "outside/inner"] {
            fs::create_dir_all(at(name)).expect("a folder");
        }
        for (to, link) in [
            (at("site/static"), "link"),
            (at("site/static/new"), "broken"),
            (at("outside"), "site/static/out"),
            (at("site/static/deep"), "outside/deep"),
            (at("circle"), "circle"),
        ] {
            symlink(to, at(link)).expect("a link");
        }
        let folders = [at("site/pages"), at("site/static")];
        for (name, is_inside) in [
            ("site/static", true),
            ("site/static/a", true),
            ("site/static/none/a", true),
            ("site/pages/a", true),
            ("site/a", false),
            ("site/static-2", false),
            ("outside/a", false),
            ("outside/../site/static/a", true),
            ("site/static/../a", false),
            ("none/../site/static/a", true),
            ("link/a", true),
            ("broken", true),
            // `..` is the folder above the target of the link.
            ("outside/deep/../a", true),
            // The link is in the folder, although its target is not.
            ("site/static/out", true),
            ("site/static/out/a", false),
            ("circle", false),
        ] {
            let found = find_containing_folder(&at(name), &folders);
            assert_eq!(found.is_some(), is_inside, "{name}");
        }
    }
}
