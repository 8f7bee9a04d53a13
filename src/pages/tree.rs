//! Reads the files of a site's folder and gives assets their fingerprinted names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::civil::Date;

use super::file::{fingerprint, media_type};
use super::path::{encode, published};
use super::theme::Theme;
use crate::fault::Fault;

/// A Markdown file below `pages/` or `posts/`.
#[derive(Debug)]
pub(super) struct Source {
    /// Its name, relative to the site's folder.
    pub file: String,
    pub text: String,
    /// The day on which it was last changed, in UTC.
    pub changed: Date,
}

/// The folders from which files are published.
const PARTS: [&str; 5] = ["pages", "posts", "assets", "static", "theme"];

/// The files of the site's folder by what they are for.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub sources: Vec<Source>,
    /// The path at which it is published, and content.
    pub assets: Vec<(String, Vec<u8>)>,
    /// Name below `static/`, and content.
    pub verbatim: Vec<(String, Vec<u8>)>,
    /// Name in the theme's folder, and content.
    pub theme: Vec<(String, Vec<u8>)>,
}

impl Tree {
    /// Reads everything; what cannot be read is a fault.
    pub fn read(folder: &Path, faults: &mut Vec<Fault>) -> Self {
        let mut tree = Self::default();
        if !folder.join("pages").is_dir() {
            faults.push(
                Fault::error("pages/", None, "the site's folder has no folder `pages`")
                    .hint("`frontdesk init DIR` writes a small site to begin with"),
            );
        }
        let published: Vec<PathBuf> =
            PARTS.iter().filter_map(|part| folder.join(part).canonicalize().ok()).collect();
        for part in PARTS {
            for (name, file) in walk(folder, part, &published, faults) {
                match std::fs::read(&file) {
                    Ok(bytes) => tree.sort_in(part, name, bytes, &file, faults),
                    Err(error) => {
                        faults.push(Fault::error(format!("{part}/{name}"), None, error.to_string()));
                    }
                }
            }
        }
        tree
    }

    fn sort_in(&mut self, part: &str, name: String, bytes: Vec<u8>, file: &Path, faults: &mut Vec<Fault>) {
        match part {
            "pages" | "posts" if name.ends_with(".md") || name.ends_with(".markdown") => {
                let place = format!("{part}/{name}");
                match String::from_utf8(bytes) {
                    Ok(text) => self.sources.push(Source {
                        file: place,
                        text: text.replace("\r\n", "\n"),
                        changed: changed(file),
                    }),
                    Err(error) => {
                        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                        let line = valid.split(|byte| *byte == b'\n').count();
                        faults.push(Fault::error(place, Some(line), "the file is not valid UTF-8"));
                    }
                }
            }
            "pages" | "posts" if !is_beside_pages(&name) => {
                let fault = Fault::warning(format!("{part}/{name}"), None, "is not published");
                faults.push(fault.hint("images, audio and video may lie beside pages; anything else goes into assets/ or static/"));
            }
            "pages" | "posts" | "assets" => self.assets.push((published(&format!("{part}/{name}")), bytes)),
            "static" => self.verbatim.push((name, bytes)),
            _ => self.theme.push((name, bytes)),
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
fn walk(root: &Path, part: &str, published: &[PathBuf], faults: &mut Vec<Fault>) -> Vec<(String, PathBuf)> {
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
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let leads_to = is_link.then(|| file.canonicalize());
            let is_inside = |real: &Path| published.iter().any(|part| real.starts_with(part));
            if let Some(Err(_)) = &leads_to {
                faults.push(Fault::error(display(root, &file), None, "the symbolic link leads nowhere"));
            } else if leads_to
                .is_some_and(|real| !real.is_ok_and(|real| is_inside(&real) && !is_hidden(&real, published)))
            {
                faults.push(leads_out(&display(root, &file), "the folders that are published"));
            } else if file.is_dir() {
                folders.push(file);
            } else if !file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST_FILE) {
                let message = format!("is no regular file of at most {} MiB", LARGEST_FILE >> 20);
                faults.push(Fault::error(display(root, &file), None, message));
            } else if let Ok(relative) = file.strip_prefix(&top) {
                found.push((relative.to_string_lossy().into_owned(), file));
            }
        }
    }
    found.sort();
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
fn changed(file: &Path) -> Date {
    let modified = file.metadata().and_then(|meta| meta.modified()).ok();
    modified
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
    pub bytes: bytes::Bytes,
}

/// Gives every asset its fingerprinted name; also returns the URLs by the names that templates use.
pub(super) fn name_assets<'a>(
    files: impl Iterator<Item = &'a (String, Vec<u8>)>,
    theme: &'a Theme,
) -> (Vec<Asset>, BTreeMap<String, String>) {
    let themed = theme.assets().map(|(name, bytes)| (published(&format!("assets/{name}")), bytes));
    let own = files.map(|(path, bytes)| (path.clone(), bytes.as_slice()));
    // The operator's come last and win.
    let all: BTreeMap<String, &[u8]> = themed.chain(own).collect();
    let assets: Vec<Asset> = all
        .into_iter()
        .map(|(path, bytes)| {
            let print = fingerprint(bytes, 10);
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path.as_str()));
            let fingerprinted = match name.rsplit_once('.') {
                Some((stem, ending)) => format!("{folder}/{stem}.{print}.{ending}"),
                None => format!("{folder}/{name}.{print}"),
            };
            let fingerprinted = encode(&fingerprinted).into_owned();
            Asset { path, fingerprinted, bytes: bytes.to_vec().into() }
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
        let tree = Tree::read(root, &mut faults);
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
        assert!(Tree::read(folder.path(), &mut faults).verbatim.is_empty());
        assert_eq!(faults.len(), 1);
        assert!(faults[0].to_string().contains("static: the symbolic link leads out of the site's folder"));
    }
}
