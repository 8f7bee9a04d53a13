//! Advice for a command on a folder that is not a site.

use std::path::{Path, PathBuf};

use super::reader::FILE_NAME;
use frontdesk_site as pages;

/// Maximum number of entries of a folder among which [`hint_at_site`] looks for a site.
const MAX_ENTRIES: usize = 1000;

/// Advice for a command on `folder`, which is not a site: names the site above it or the only one in it, or
/// else says how to create one. For a folder with an index.html and with Markdown sources, says how to serve
/// it all the same.
pub(super) fn hint_at_site(folder: &Path) -> String {
    let is_site = |folder: &PathBuf| folder.join(FILE_NAME).is_file();
    let above = match folder.components().next_back() {
        Some(std::path::Component::Normal(_)) => folder.parent().map(Path::to_owned),
        _ => Some(folder.join("..")),
    };
    let inside = std::fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES).flatten();
    let inside: Vec<PathBuf> = inside.map(|entry| entry.path()).filter(is_site).collect();
    let only = if inside.len() == 1 { inside.into_iter().next() } else { None };
    let shown = |site: PathBuf| match site.strip_prefix(".").unwrap_or(&site) {
        here if here.as_os_str().is_empty() => ".".to_owned(),
        site => site.display().to_string(),
    };
    let source = Some(folder).filter(|folder| pages::has_home_page(folder)).and_then(pages::find_source);
    match above.filter(is_site).or(only).map(shown) {
        Some(site) => format!("there is a site in {site}: name that folder in the command"),
        None if let Some(source) = source => {
            format!(
                "the folder has an index.html, but {} is a source without its HTML; to serve the folder as the output of a \
                 site generator all the same, `frontdesk init desk --prebuilt {}` writes a configuration beside it",
                source.display(),
                folder.display()
            )
        }
        None => {
            format!(
                "is {} a site folder? `frontdesk init DIR` writes a small site to start from",
                folder.display()
            )
        }
    }
}
