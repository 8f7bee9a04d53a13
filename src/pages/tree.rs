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
        for part in ["pages", "posts", "assets", "static", "theme"] {
            for (name, file) in walk(folder, part, faults) {
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

/// The files below a folder, sorted by name. Hidden ones are left out, except `.well-known`; a symbolic link must not lead
/// out of the site's folder.
fn walk(root: &Path, part: &str, faults: &mut Vec<Fault>) -> Vec<(String, PathBuf)> {
    let top = root.join(part);
    let boundary = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let mut found = Vec::new();
    if top.exists() && !top.canonicalize().is_ok_and(|real| real.starts_with(&boundary)) {
        faults.push(leads_out(part));
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
            if (name.starts_with('.') && name != ".well-known") || name.ends_with('~') {
                continue;
            }
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if is_link && file.canonicalize().is_err() {
                faults.push(Fault::error(display(root, &file), None, "the symbolic link leads nowhere"));
            } else if is_link && !file.canonicalize().is_ok_and(|real| real.starts_with(&boundary)) {
                faults.push(leads_out(&display(root, &file)));
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

fn leads_out(place: &str) -> Fault {
    Fault::error(place, None, "the symbolic link leads out of the site's folder")
        .hint("copy the file into it")
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
