//! Reads the changed files in a site's folder, and gives assets fingerprinted names.

#![expect(clippy::disallowed_methods, reason = "the age of a file is measured with the system clock")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use blake3::Hash;
use jiff::civil::Date;

use super::file::{Blob, media_type};
use super::maps::HashMap;
use super::parallel::in_parallel;
use super::path::{self, encode};
use super::theme::Theme;
use crate::fault::{Fault, Severity};

/// A Markdown file below `pages/` or `posts/`.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// The name relative to the site's folder.
    pub file: String,
    pub hash: Hash,
    /// The date of the last change, in UTC.
    pub changed: Date,
    at: PathBuf,
    /// `None` if the file is unchanged and has not been read, or if the text was taken.
    text: Mutex<Option<String>>,
}

/// The error for a file that has changed since its metadata was checked.
#[derive(Debug)]
pub(super) struct FileChanged;

impl SourceFile {
    /// Calls `read` with the text.
    pub fn with_text<T>(&self, read: impl FnOnce(&str) -> T) -> Result<T, FileChanged> {
        match &*self.text.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(text) => Ok(read(text)),
            None => self.read_again().map(|text| read(&text)),
        }
    }

    /// The text, which is not kept.
    pub fn take_text(&self) -> Result<String, FileChanged> {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).take();
        text.map_or_else(|| self.read_again(), Ok)
    }

    fn read_again(&self) -> Result<String, FileChanged> {
        let bytes = std::fs::read(&self.at).map_err(|_| FileChanged)?;
        if blake3::hash(&bytes) != self.hash {
            return Err(FileChanged);
        }
        String::from_utf8(bytes).map(normalize_line_ends).map_err(|_| FileChanged)
    }
}

/// Ends each line with LF. As in CommonMark, a line may end with LF, CR or CR LF.
fn normalize_line_ends(text: String) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text }
}

type FileSignature = ([u64; 3], [i64; 4]);

/// The metadata that changes whenever a file's content changes. Includes the inode change time, which
/// programs cannot set, unlike the modification time.
fn signature(file: &Metadata) -> FileSignature {
    let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
    ([file.dev(), file.ino(), file.size()], times)
}

/// The coarsest resolution of file timestamps, that of FAT. A file that changed within the last two seconds
/// may change again without getting a new timestamp, so every load reads such a file again.
const COARSEST_STAMP: Duration = Duration::from_secs(2);

/// Whether every change to the file after `now` will also change its metadata.
pub(super) fn is_settled(file: &Metadata, now: SystemTime) -> bool {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).ok();
    let since = since.and_then(|since| i64::try_from(since.checked_sub(COARSEST_STAMP)?.as_secs()).ok());
    since.is_some_and(|since| file.ctime() < since)
}

/// The files from the last load, keyed by their names relative to the site's or the build's folder.
#[derive(Debug, Default)]
pub(super) struct FileCache(HashMap<String, CachedFile>);

impl FileCache {
    fn insert(&mut self, name: String, file: &Metadata, now: SystemTime, content: FileContent) {
        let (signature, settled) = (signature(file), is_settled(file, now));
        self.0.insert(name, CachedFile { signature, settled, content });
    }

    /// Makes the next load read every file.
    pub fn invalidate(&mut self) {
        self.0.values_mut().for_each(|seen| seen.settled = false);
    }

    /// Makes the next load read only files whose metadata has changed.
    #[cfg(test)]
    pub fn trust(&mut self) {
        self.0.values_mut().for_each(|seen| seen.settled = true);
    }
}

#[derive(Debug)]
struct CachedFile {
    signature: FileSignature,
    /// Whether an unchanged signature means unchanged content.
    settled: bool,
    content: FileContent,
}

/// The cached content of a file: only the hash for a source, whose text is not needed after rendering.
#[derive(Debug, Clone)]
enum FileContent {
    Source(Hash),
    Blob(Blob),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Source,
    Asset,
    Verbatim,
    Theme,
    /// The file is not published.
    None,
}

impl Purpose {
    /// The purpose of the file `name` in the folder `part`, which is one of [`SITE_FOLDERS`].
    fn of_file(part: &str, name: &str) -> Self {
        match part {
            "pages" | "posts" if name.ends_with(".md") || name.ends_with(".markdown") => Self::Source,
            "pages" | "posts" if !is_media_file(name) => Self::None,
            "pages" | "posts" | "assets" => Self::Asset,
            "static" => Self::Verbatim,
            _ => Self::Theme,
        }
    }
}

/// The subfolders of the site's folder that are loaded.
pub const SITE_FOLDERS: [&str; 5] = ["pages", "posts", "assets", "static", "theme"];

#[derive(Debug, Default)]
pub(super) struct SiteFiles {
    pub has_pages_folder: bool,
    pub sources: Vec<SourceFile>,
    /// By public path.
    pub assets: Vec<(String, Blob)>,
    /// The files in `static/`, by their names relative to that folder.
    pub verbatim: Vec<(String, Blob)>,
    /// The files in `theme/`, by their names relative to that folder.
    pub theme: Vec<(String, Blob)>,
}

struct FoundFile {
    /// The name relative to the folder that was listed.
    name: String,
    at: PathBuf,
    metadata: Metadata,
}

impl SiteFiles {
    /// Reads the changed files, updates the cache, and reports unreadable files.
    pub fn read(folder: &Path, known: &mut FileCache, faults: &mut Vec<Fault>) -> Self {
        let now = SystemTime::now();
        let mut tree = Self { has_pages_folder: folder.join("pages").is_dir(), ..Self::default() };
        if !tree.has_pages_folder {
            let fault = Fault::error("pages/", None, "the site's folder has no `pages` folder");
            faults.push(fault.hint("`frontdesk init DIR` writes a small site to start from"));
        }
        let before = std::mem::take(known);
        let published: Vec<PathBuf> =
            SITE_FOLDERS.iter().filter_map(|part| folder.join(part).canonicalize().ok()).collect();
        for part in SITE_FOLDERS {
            let found = list_files(folder, part, &published, faults);
            let read = in_parallel(&found, |file| {
                let place = [part, "/", &file.name].concat();
                let purpose = Purpose::of_file(part, &file.name);
                let content = read_file(file, &place, purpose, before.0.get(&place));
                (place, purpose, content)
            });
            known.0.reserve(found.len());
            for (file, (place, purpose, content)) in found.into_iter().zip(read) {
                let read = content.map_err(|fault| faults.push(fault));
                let Ok((content, text)) = read else { continue };
                known.insert(place.clone(), &file.metadata, now, content.clone());
                match content {
                    FileContent::Source(hash) => {
                        let changed = modification_date(&file.metadata);
                        tree.sources.push(SourceFile {
                            file: place,
                            hash,
                            changed,
                            at: file.at,
                            text: Mutex::new(text),
                        });
                    }
                    FileContent::Blob(blob) => match purpose {
                        Purpose::Verbatim => tree.verbatim.push((file.name, blob)),
                        Purpose::Theme => tree.theme.push((file.name, blob)),
                        _ => tree.assets.push((path::public_path(&place), blob)),
                    },
                }
            }
        }
        tree
    }
}

/// A file in a build.
#[derive(Debug)]
pub(super) struct BuildFile {
    /// The name relative to the build's folder.
    pub name: String,
    pub blob: Blob,
    /// The date of the last change, in UTC.
    pub changed: Date,
}

/// Reads the changed files in a build, updates the cache, and reports unreadable files.
pub(super) fn read_build(folder: &Path, known: &mut FileCache, faults: &mut Vec<Fault>) -> Vec<BuildFile> {
    let now = SystemTime::now();
    let before = std::mem::take(known);
    let published: Vec<PathBuf> = folder.canonicalize().into_iter().collect();
    let mut unlisted = Vec::new();
    let found = list_files(folder, "", &published, &mut unlisted);
    // Warnings, because the build is served without the files that cannot be published, such as symbolic
    // links to system files.
    faults.extend(unlisted.into_iter().map(|fault| Fault { severity: Severity::Warning, ..fault }));
    let read =
        in_parallel(&found, |file| read_file(file, &file.name, Purpose::Verbatim, before.0.get(&file.name)));
    let mut files = Vec::with_capacity(found.len());
    for (file, content) in found.into_iter().zip(read) {
        match content {
            Ok((FileContent::Blob(blob), _)) => {
                known.insert(file.name.clone(), &file.metadata, now, FileContent::Blob(blob.clone()));
                files.push(BuildFile { name: file.name, blob, changed: modification_date(&file.metadata) });
            }
            Ok((FileContent::Source(_), _)) => {}
            Err(fault) => faults.push(fault),
        }
    }
    files
}

/// Returns a file's content, and the text if the file is a source and has changed.
fn read_file(
    file: &FoundFile,
    place: &str,
    purpose: Purpose,
    before: Option<&CachedFile>,
) -> Result<(FileContent, Option<String>), Fault> {
    if purpose == Purpose::None {
        let fault = Fault::warning(place, None, "is not published");
        return Err(fault.hint(
            "only images, audio, video and PDFs are published from pages/ and posts/; move other files to assets/ or static/",
        ));
    }
    let is_same = |seen: &&CachedFile| seen.settled && seen.signature == signature(&file.metadata);
    if let Some(seen) = before.filter(is_same) {
        return Ok((seen.content.clone(), None));
    }
    let bytes = std::fs::read(&file.at).map_err(|error| Fault::error(place, None, error.to_string()))?;
    if purpose != Purpose::Source {
        let unchanged = before.and_then(|seen| match &seen.content {
            FileContent::Blob(blob) if blob.bytes == bytes => Some(blob.clone()),
            _ => None,
        });
        return Ok((FileContent::Blob(unchanged.unwrap_or_else(|| Blob::new(bytes))), None));
    }
    let hash = blake3::hash(&bytes);
    match String::from_utf8(bytes) {
        Ok(text) => Ok((FileContent::Source(hash), Some(normalize_line_ends(text)))),
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.split(|byte| *byte == b'\n').count();
            Err(Fault::error(place, Some(line), "the file is not valid UTF-8"))
        }
    }
}

/// Whether pages can show the file. Other files in `pages/` and `posts/`, such as notes and backups, are not
/// published.
fn is_media_file(name: &str) -> bool {
    let kind = media_type(name);
    ["image/", "audio/", "video/"].iter().any(|shown| kind.starts_with(shown)) || kind == "application/pdf"
}

/// Maximum size of a file in bytes. The site is kept in memory, so larger files belong on a download server.
const MAX_FILE_BYTES: u64 = 512 << 20;

/// Lists the files below a folder, sorted by name. Skips backups and hidden files, except `.well-known`.
///
/// The folder itself must not be a symbolic link to a place outside the site's folder. Symbolic links inside
/// the folder must point into published folders, because the site's folder also contains the configuration,
/// the inbox and perhaps the certificate's key.
fn list_files(root: &Path, part: &str, published: &[PathBuf], faults: &mut Vec<Fault>) -> Vec<FoundFile> {
    let top = root.join(part);
    let boundary = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let mut found = Vec::new();
    let error = |file: &Path, message: String| Fault::error(relative_name(root, file), None, message);
    if top.exists() && !top.canonicalize().is_ok_and(|real| real.starts_with(&boundary)) {
        faults.push(outside_link_fault(part, "the site's folder"));
        return found;
    }
    // With their names relative to `top`, which end with a slash unless they are empty.
    let mut folders = if top.exists() { vec![(top, String::new())] } else { Vec::new() };
    let mut seen = BTreeSet::new();
    while let Some((folder, relative)) = folders.pop() {
        // Visit each folder only once, because a link may point to a folder that contains it.
        if !folder.canonicalize().is_ok_and(|real| seen.insert(real)) {
            continue;
        }
        let entries = std::fs::read_dir(&folder);
        let entries = entries.map_err(|why| faults.push(error(&folder, why.to_string())));
        let Ok(entries) = entries else { continue };
        for entry in entries.flatten() {
            let file = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                faults.push(error(&file, "the file's name is not valid UTF-8".to_owned()));
                continue;
            };
            if is_hidden_or_backup(name) {
                continue;
            }
            let kind = entry.file_type().ok();
            let is_link = kind.is_some_and(|kind| kind.is_symlink());
            let leads_to = is_link.then(|| file.canonicalize());
            let is_inside = |real: &Path| published.iter().any(|part| real.starts_with(part));
            if let Some(Err(_)) = &leads_to {
                faults.push(error(&file, "the symbolic link is broken".to_owned()));
            } else if leads_to
                .is_some_and(|real| !real.is_ok_and(|real| is_inside(&real) && !is_hidden(&real, published)))
            {
                let place = relative_name(root, &file);
                faults.push(outside_link_fault(&place, "the published folders"));
            } else if kind.is_some_and(|kind| kind.is_dir()) || (is_link && file.is_dir()) {
                folders.push((file, [&relative, name, "/"].concat()));
            } else if let Some(metadata) = if is_link { file.metadata() } else { entry.metadata() }
                .ok()
                .filter(|meta| meta.is_file() && meta.len() <= MAX_FILE_BYTES)
            {
                found.push(FoundFile { name: [&relative, name].concat(), at: file, metadata });
            } else {
                let mebibytes = MAX_FILE_BYTES >> 20;
                faults
                    .push(error(&file, format!("is not a regular file, or is larger than {mebibytes} MiB")));
            }
        }
    }
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    found
}

fn is_hidden_or_backup(name: &str) -> bool {
    (name.starts_with('.') && name != ".well-known") || name.ends_with('~')
}

/// Whether a file in the published folders has a hidden name or is in a hidden folder.
fn is_hidden(real: &Path, published: &[PathBuf]) -> bool {
    let below = published.iter().find_map(|part| real.strip_prefix(part).ok()).unwrap_or(real);
    below.components().any(|part| is_hidden_or_backup(&part.as_os_str().to_string_lossy()))
}

fn outside_link_fault(place: &str, boundary: &str) -> Fault {
    Fault::error(place, None, format!("the symbolic link points outside {boundary}"))
        .hint("replace the link with a copy of its target")
}

fn relative_name(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

fn modification_date(file: &Metadata) -> Date {
    file.modified()
        .ok()
        .and_then(|time| jiff::Timestamp::try_from(time).ok())
        .map(|at| at.to_zoned(jiff::tz::TimeZone::UTC).date())
        .unwrap_or_default()
}

#[derive(Debug)]
pub(super) struct Asset {
    /// The decoded path: `/assets/diagram.svg`.
    pub path: String,
    /// The percent-encoded path with the fingerprint: `/assets/diagram.0a1b2c3d4e.svg`.
    pub fingerprinted: String,
    pub blob: Blob,
}

impl Asset {
    pub fn new(path: String, blob: &Blob) -> Self {
        // 40 bits of the hash make it very unlikely that two versions of a file get the same name.
        let print = blob.fingerprint(10);
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path.as_str()));
        let fingerprinted = match name.rsplit_once('.') {
            Some((stem, ending)) => format!("{folder}/{stem}.{print}.{ending}"),
            None => format!("{folder}/{name}.{print}"),
        };
        let fingerprinted = encode(&fingerprinted).into_owned();
        Self { path, fingerprinted, blob: blob.clone() }
    }
}

/// Gives every asset a fingerprinted name. Also returns the assets' URLs, keyed by the names that templates
/// use.
pub(super) fn name_assets<'a>(
    files: impl Iterator<Item = &'a (String, Blob)>,
    theme: &'a Theme,
) -> (Vec<Asset>, BTreeMap<String, String>) {
    let themed = theme.asset_files().map(|(name, blob)| (path::public_path(&format!("assets/{name}")), blob));
    let own = files.map(|(path, blob)| (path.clone(), blob));
    // The operator's assets come last, so that they replace the theme's.
    let all: BTreeMap<String, &Blob> = themed.chain(own).collect();
    let assets: Vec<Asset> = all.into_iter().map(|(path, blob)| Asset::new(path, blob)).collect();
    let named = |asset: &Asset| asset.path.trim_start_matches("/assets/").trim_start_matches('/').to_owned();
    let urls = assets.iter().map(|asset| (named(asset), asset.fingerprinted.clone())).collect();
    (assets, urls)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Makes `static/link` a symbolic link to `target`, and checks that the site then has the files `found`
    /// in `static/` and reports `fault`.
    fn check(target: &str, found: &[&str], fault: Option<&str>) {
        let outside = tempfile::tempdir().expect("a folder");
        std::fs::write(outside.path().join("secret"), "secret").expect("the file is written");
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for part in ["pages", "static/.git", "assets", "data"] {
            std::fs::create_dir_all(root.join(part)).expect("a folder");
        }
        for file in
            ["frontdesk.toml", "data/inbox.sqlite", "static/.git/config", "static/a.txt", "assets/b.txt"]
        {
            std::fs::write(root.join(file), "x").expect("the file is written");
        }
        let target = target.replace("OUTSIDE", outside.path().to_str().expect("a name"));
        symlink(&target, root.join("static/link")).expect("a link");
        let mut faults = Vec::new();
        let tree = SiteFiles::read(root, &mut FileCache::default(), &mut faults);
        let names: Vec<&str> = tree.verbatim.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, found, "{target}");
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), usize::from(fault.is_some()), "{target}: {said:?}");
        assert!(fault.is_none_or(|fault| said[0].contains(fault)), "{target}: {said:?}");
    }

    #[test]
    fn a_symbolic_link_out_of_the_published_folders_is_a_fault() {
        check("a.txt", &["a.txt", "link"], None);
        check("../assets/b.txt", &["a.txt", "link"], None);
        check("../assets", &["a.txt", "link/b.txt"], None);
        // A link to the folder that contains it.
        check(".", &["a.txt"], None);
        let out = Some("static/link: the symbolic link points outside the published folders");
        for target in [
            "OUTSIDE/secret",
            "OUTSIDE",
            "..",
            "../frontdesk.toml",
            "../data",
            "../data/inbox.sqlite",
            ".git",
            ".git/config",
        ] {
            check(target, &["a.txt"], out);
        }
        check("../none", &["a.txt"], Some("static/link: the symbolic link is broken"));
        check("link", &["a.txt"], Some("static/link: the symbolic link is broken"));
    }

    #[test]
    fn a_folder_that_links_out_of_the_site_is_a_fault() {
        let (outside, folder) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        std::fs::write(outside.path().join("a.txt"), "x").expect("the file is written");
        std::fs::create_dir(folder.path().join("pages")).expect("a folder");
        symlink(outside.path(), folder.path().join("static")).expect("a link");
        let mut faults = Vec::new();
        assert!(SiteFiles::read(folder.path(), &mut FileCache::default(), &mut faults).verbatim.is_empty());
        assert_eq!(faults.len(), 1);
        assert!(faults[0].to_string().contains("static: the symbolic link points outside the site's folder"));
    }
}
