//! Reads the files of a site's folder and gives assets their fingerprinted names. What has been read before and has not changed
//! since is not read again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use blake3::Hash;
use jiff::civil::Date;

use super::blob::Blob;
use super::file::media_type;
use super::in_parallel;
use super::path::{self, encode};
use super::theme::Theme;
use crate::fault::Fault;

/// A Markdown file below `pages/` or `posts/`.
#[derive(Debug)]
pub(super) struct Source {
    /// Its name, relative to the site's folder.
    pub file: String,
    /// Of its bytes.
    pub hash: Hash,
    /// The day on which it was last changed, in UTC.
    pub changed: Date,
    at: PathBuf,
    /// None where it has not been read, because it is known.
    text: Option<String>,
}

/// A file has changed since it was found to be the same as before.
#[derive(Debug)]
pub(super) struct Stale;

impl Source {
    /// What stands in it; a known file is read for it.
    pub fn text(&self) -> Result<Cow<'_, str>, Stale> {
        if let Some(text) = &self.text {
            return Ok(text.into());
        }
        let bytes = std::fs::read(&self.at).map_err(|_| Stale)?;
        if blake3::hash(&bytes) != self.hash {
            return Err(Stale);
        }
        String::from_utf8(bytes).map(|text| normal(text).into()).map_err(|_| Stale)
    }
}

/// Lines end as they do on Unix.
fn normal(text: String) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n") } else { text }
}

/// What the kernel says of a file; a change of its content changes something of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Signature {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// Set by the kernel with every change, and by nobody else.
    changed: (i64, i64),
}

/// Time stamps of file systems are coarse, two seconds at the worst: what has changed within this time may change once more without
/// showing it, and is read again until it is older.
const COARSEST_STAMP: Duration = Duration::from_secs(2);

impl Signature {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

/// Whether a change of the file that comes after `now` will show.
pub(super) fn is_settled(file: &Metadata, now: SystemTime) -> bool {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).ok();
    let since = since.and_then(|since| i64::try_from(since.checked_sub(COARSEST_STAMP)?.as_secs()).ok());
    since.is_some_and(|since| file.ctime() < since)
}

/// The files that earlier reading has found, by their name relative to the site's folder.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<String, Seen>);

impl Known {
    /// Has everything read again.
    pub fn distrust(&mut self) {
        self.0.values_mut().for_each(|seen| seen.settled = false);
    }

    /// As if all of it had been written long ago.
    #[cfg(test)]
    pub fn trust(&mut self) {
        self.0.values_mut().for_each(|seen| seen.settled = true);
    }
}

#[derive(Debug)]
struct Seen {
    signature: Signature,
    /// Whether a file with the same signature is the same.
    settled: bool,
    content: Content,
}

/// Of a source only the hash is kept: once it is rendered nobody needs its text.
#[derive(Debug, Clone)]
enum Content {
    Source(Hash),
    Blob(Blob),
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Source,
    Asset,
    Verbatim,
    Theme,
    /// Lies beside pages and is not published.
    None,
}

impl Purpose {
    fn of(part: &str, name: &str) -> Self {
        match part {
            "pages" | "posts" if name.ends_with(".md") || name.ends_with(".markdown") => Self::Source,
            "pages" | "posts" if !is_beside_pages(name) => Self::None,
            "pages" | "posts" | "assets" => Self::Asset,
            "static" => Self::Verbatim,
            _ => Self::Theme,
        }
    }
}

/// The folders from which files are published.
const PARTS: [&str; 5] = ["pages", "posts", "assets", "static", "theme"];

/// The files of the site's folder by what they are for.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub sources: Vec<Source>,
    /// The path at which it is published, and content.
    pub assets: Vec<(String, Blob)>,
    /// Name below `static/`, and content.
    pub verbatim: Vec<(String, Blob)>,
    /// Name in the theme's folder, and content.
    pub theme: Vec<(String, Blob)>,
}

/// A file that was found.
struct Found {
    /// Relative to its part.
    name: String,
    at: PathBuf,
    metadata: Metadata,
}

impl Tree {
    /// Reads everything; what cannot be read is a fault. Files that are `known` and look unchanged are not read; afterwards those
    /// that there are now are known.
    pub fn read(folder: &Path, known: &mut Known, faults: &mut Vec<Fault>) -> Self {
        let now = SystemTime::now();
        let mut tree = Self::default();
        if !folder.join("pages").is_dir() {
            faults.push(
                Fault::error("pages/", None, "the site's folder has no folder `pages`")
                    .hint("`frontdesk init DIR` writes a small site to begin with"),
            );
        }
        let before = std::mem::take(known);
        let published: Vec<PathBuf> =
            PARTS.iter().filter_map(|part| folder.join(part).canonicalize().ok()).collect();
        for part in PARTS {
            let found = walk(folder, part, &published, faults);
            let read = in_parallel(&found, |file| {
                let place = format!("{part}/{}", file.name);
                let purpose = Purpose::of(part, &file.name);
                let content = (purpose != Purpose::None).then(|| read(file, purpose, before.0.get(&place)));
                (place, purpose, content)
            });
            known.0.reserve(found.len());
            for (file, (place, purpose, content)) in found.into_iter().zip(read) {
                let Some(content) = content else {
                    let fault = Fault::warning(place, None, "is not published");
                    faults.push(fault.hint("images, audio and video may lie beside pages; anything else goes into assets/ or static/"));
                    continue;
                };
                let (content, text) = match content {
                    Ok(read) => read,
                    Err((line, message)) => {
                        faults.push(Fault::error(place, line, message));
                        continue;
                    }
                };
                let (signature, settled) = (Signature::of(&file.metadata), is_settled(&file.metadata, now));
                known.0.insert(place.clone(), Seen { signature, settled, content: content.clone() });
                match content {
                    Content::Source(hash) => {
                        let changed = changed(&file.metadata);
                        tree.sources.push(Source { file: place, hash, changed, at: file.at, text });
                    }
                    Content::Blob(blob) => match purpose {
                        Purpose::Verbatim => tree.verbatim.push((file.name, blob)),
                        Purpose::Theme => tree.theme.push((file.name, blob)),
                        _ => tree.assets.push((path::published(&place), blob)),
                    },
                }
            }
        }
        tree
    }
}

/// The content of a file, with the text of a source that had to be read; or the line and what is wrong.
fn read(
    file: &Found,
    purpose: Purpose,
    before: Option<&Seen>,
) -> Result<(Content, Option<String>), (Option<usize>, String)> {
    let is_same = |seen: &&Seen| seen.settled && seen.signature == Signature::of(&file.metadata);
    if let Some(seen) = before.filter(is_same) {
        return Ok((seen.content.clone(), None));
    }
    let bytes = std::fs::read(&file.at).map_err(|error| (None, error.to_string()))?;
    if purpose != Purpose::Source {
        let unchanged = before.and_then(|seen| match &seen.content {
            Content::Blob(blob) if blob.bytes == bytes => Some(blob.clone()),
            _ => None,
        });
        return Ok((Content::Blob(unchanged.unwrap_or_else(|| Blob::new(bytes))), None));
    }
    let hash = blake3::hash(&bytes);
    match String::from_utf8(bytes) {
        Ok(text) => Ok((Content::Source(hash), Some(normal(text)))),
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.split(|byte| *byte == b'\n').count();
            Err((Some(line), "the file is not valid UTF-8".to_owned()))
        }
    }
}

/// Whether a file that lies beside pages is meant to be shown with them: notes and backups are not.
fn is_beside_pages(name: &str) -> bool {
    let kind = media_type(name);
    ["image/", "audio/", "video/"].iter().any(|shown| kind.starts_with(shown)) || kind == "application/pdf"
}

/// Files are kept in memory; what is larger belongs on a server for downloads.
const LARGEST_FILE: u64 = 512 << 20;

/// The files below a folder, sorted by name. Hidden ones are left out, except `.well-known`. The folder must not be a symbolic link
/// out of the site's folder, and one in it must lead below what is published anyway: beside that are the configuration, the
/// inbox and perhaps the certificate's key.
fn walk(root: &Path, part: &str, published: &[PathBuf], faults: &mut Vec<Fault>) -> Vec<Found> {
    let top = root.join(part);
    let boundary = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let mut found = Vec::new();
    if top.exists() && !top.canonicalize().is_ok_and(|real| real.starts_with(&boundary)) {
        faults.push(leads_out(part, "the site's folder"));
        return found;
    }
    let mut folders = if top.exists() { vec![top.clone()] } else { Vec::new() };
    let mut seen = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        // A link back to a folder that contains it would be walked for ever.
        if !folder.canonicalize().is_ok_and(|real| seen.insert(real)) {
            continue;
        }
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                faults.push(Fault::error(display(root, &folder), None, error.to_string()));
                continue;
            }
        };
        for entry in entries.flatten() {
            let file = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                faults.push(Fault::error(display(root, &file), None, "the file's name is not valid UTF-8"));
                continue;
            };
            if is_left_out(name) {
                continue;
            }
            let kind = entry.file_type().ok();
            let is_link = kind.is_some_and(|kind| kind.is_symlink());
            let leads_to = is_link.then(|| file.canonicalize());
            let is_inside = |real: &Path| published.iter().any(|part| real.starts_with(part));
            if let Some(Err(_)) = &leads_to {
                faults.push(Fault::error(display(root, &file), None, "the symbolic link leads nowhere"));
            } else if leads_to
                .is_some_and(|real| !real.is_ok_and(|real| is_inside(&real) && !is_hidden(&real, published)))
            {
                faults.push(leads_out(&display(root, &file), "the folders that are published"));
            } else if kind.is_some_and(|kind| kind.is_dir()) || (is_link && file.is_dir()) {
                folders.push(file);
            } else if let Some(metadata) =
                file.metadata().ok().filter(|meta| meta.is_file() && meta.len() <= LARGEST_FILE)
            {
                if let Ok(relative) = file.strip_prefix(&top) {
                    let name = relative.to_string_lossy().into_owned();
                    found.push(Found { name, at: file, metadata });
                }
            } else {
                let message = format!("is no regular file of at most {} MiB", LARGEST_FILE >> 20);
                faults.push(Fault::error(display(root, &file), None, message));
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn is_left_out(name: &str) -> bool {
    (name.starts_with('.') && name != ".well-known") || name.ends_with('~')
}

/// Whether a file below what is published is left out under its own name.
fn is_hidden(real: &Path, published: &[PathBuf]) -> bool {
    let below = published.iter().find_map(|part| real.strip_prefix(part).ok()).unwrap_or(real);
    below.components().any(|part| is_left_out(&part.as_os_str().to_string_lossy()))
}

fn leads_out(place: &str, of: &str) -> Fault {
    Fault::error(place, None, format!("the symbolic link leads out of {of}")).hint("copy the file into it")
}

fn display(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

/// The day on which a file was last changed, in UTC.
fn changed(file: &Metadata) -> Date {
    file.modified()
        .ok()
        .and_then(|time| jiff::Timestamp::try_from(time).ok())
        .map(|at| at.to_zoned(jiff::tz::TimeZone::UTC).date())
        .unwrap_or_default()
}

/// An asset under both its names.
#[derive(Debug)]
pub(super) struct Asset {
    /// Decoded, `/assets/diagram.svg`.
    pub path: String,
    /// Percent-encoded, `/assets/diagram.0a1b2c3d4e.svg`.
    pub fingerprinted: String,
    pub blob: Blob,
}

/// Gives every asset its fingerprinted name; also returns the URLs by the names that templates use.
pub(super) fn name_assets<'a>(
    files: impl Iterator<Item = &'a (String, Blob)>,
    theme: &'a Theme,
) -> (Vec<Asset>, BTreeMap<String, String>) {
    let themed = theme.assets().map(|(name, blob)| (path::published(&format!("assets/{name}")), blob));
    let own = files.map(|(path, blob)| (path.clone(), blob));
    // The operator's come last and win.
    let all: BTreeMap<String, &Blob> = themed.chain(own).collect();
    let assets: Vec<Asset> = all
        .into_iter()
        .map(|(path, blob)| {
            let print = blob.print(10);
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path.as_str()));
            let fingerprinted = match name.rsplit_once('.') {
                Some((stem, ending)) => format!("{folder}/{stem}.{print}.{ending}"),
                None => format!("{folder}/{name}.{print}"),
            };
            let fingerprinted = encode(&fingerprinted).into_owned();
            Asset { path, fingerprinted, blob: blob.clone() }
        })
        .collect();
    let named = |asset: &Asset| asset.path.trim_start_matches("/assets/").trim_start_matches('/').to_owned();
    let urls = assets.iter().map(|asset| (named(asset), asset.fingerprinted.clone())).collect();
    (assets, urls)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// What is found in `static/` and what is faulty if there is a link `static/link` to `target`.
    fn check(target: &str, found: &[&str], fault: Option<&str>) {
        let outside = tempfile::tempdir().expect("a folder");
        std::fs::write(outside.path().join("secret"), "secret").expect("it can be written");
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for part in ["pages", "static/.git", "assets", "data"] {
            std::fs::create_dir_all(root.join(part)).expect("a folder");
        }
        for file in
            ["frontdesk.toml", "data/inbox.sqlite", "static/.git/config", "static/a.txt", "assets/b.txt"]
        {
            std::fs::write(root.join(file), "x").expect("it can be written");
        }
        let target = target.replace("OUTSIDE", outside.path().to_str().expect("a name"));
        symlink(&target, root.join("static/link")).expect("a link");
        let mut faults = Vec::new();
        let tree = Tree::read(root, &mut Known::default(), &mut faults);
        let names: Vec<&str> = tree.verbatim.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, found, "{target}");
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), usize::from(fault.is_some()), "{target}: {said:?}");
        assert!(fault.is_none_or(|fault| said[0].contains(fault)), "{target}: {said:?}");
    }

    #[test]
    fn a_symbolic_link_leads_to_what_is_published_anyway_or_is_a_fault() {
        check("a.txt", &["a.txt", "link"], None);
        check("../assets/b.txt", &["a.txt", "link"], None);
        check("../assets", &["a.txt", "link/b.txt"], None);
        // Back to where it is: walked once.
        check(".", &["a.txt"], None);
        let out = Some("static/link: the symbolic link leads out of the folders that are published");
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
        check("../none", &["a.txt"], Some("static/link: the symbolic link leads nowhere"));
        check("link", &["a.txt"], Some("static/link: the symbolic link leads nowhere"));
    }

    #[test]
    fn a_part_that_leads_out_of_the_site_is_a_fault() {
        let (outside, folder) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        std::fs::write(outside.path().join("a.txt"), "x").expect("it can be written");
        std::fs::create_dir(folder.path().join("pages")).expect("a folder");
        symlink(outside.path(), folder.path().join("static")).expect("a link");
        let mut faults = Vec::new();
        assert!(Tree::read(folder.path(), &mut Known::default(), &mut faults).verbatim.is_empty());
        assert_eq!(faults.len(), 1);
        assert!(faults[0].to_string().contains("static: the symbolic link leads out of the site's folder"));
    }
}
