//! Advice for a command on a folder that is not a site.

use std::path::{Path, PathBuf};

use super::reader::FILE_NAME;
use frontdesk_site as pages;

/// Maximum number of folder entries that [`hint_at_site`] examines.
const MAX_ENTRIES: usize = 1000;

/// The extensions of HTML files.
const HTML: [&str; 3] = ["html", "htm", "xhtml"];

/// Advice for a command on `folder`, which is not a site: names the site above it or the only one in it.
/// Otherwise, for a folder with HTML files, says what it lacks, or how to serve it although it has Markdown
/// sources. For other folders, says how to create a site.
pub(super) fn hint_at_site(folder: &Path) -> String {
    let is_site = |folder: &PathBuf| folder.join(FILE_NAME).is_file();
    let above = match folder.components().next_back() {
        Some(std::path::Component::Normal(_)) => folder.parent().map(Path::to_owned),
        _ => Some(folder.join("..")),
    };
    let inside = std::fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES).flatten();
    let inside: Vec<PathBuf> = inside.map(|entry| entry.path()).collect();
    let is_html = |path: &PathBuf| {
        path.extension().is_some_and(|extension| HTML.iter().any(|html| extension.eq_ignore_ascii_case(html)))
    };
    let has_html = inside.iter().any(is_html);
    let inside: Vec<PathBuf> = inside.into_iter().filter(is_site).collect();
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
        None if has_html => {
            "the folder has HTML files, but no index.html; to serve it as the output of a site generator, add that file, \
             or a line such as `/ /en/ 302` to a file _redirects"
                .to_owned()
        }
        None => {
            format!(
                "is {} a site folder? `frontdesk init DIR` writes a small site to start from",
                folder.display()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_html_files_gets_no_starter_site() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(hint_at_site(folder.path()).contains("frontdesk init"));
        std::fs::write(folder.path().join("Home.HTM"), "<p>").expect("written");
        assert!(hint_at_site(folder.path()).starts_with("the folder has HTML files, but no index.html"));
    }
}
