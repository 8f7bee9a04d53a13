//! Reads `llms.txt` and the sitemap for the rules that judge them.

use crate::exchange::{Exchange, Representation};
use crate::survey::Survey;
use std::sync::Arc;

/// The text of `llms.txt`, if it is a complete text with status 200.
pub(super) fn llms_text(survey: &Survey) -> Option<(&Arc<Exchange>, String)> {
    let llms = survey.first_requests.llms.as_ref()?;
    Some((llms, whole_text(llms)?))
}

/// The sitemaps that are complete texts with status 200. Skips compressed sitemaps.
pub(super) fn sitemap_texts(survey: &Survey) -> Vec<(&Arc<Exchange>, String)> {
    let sitemaps = survey.first_requests.sitemaps.iter();
    sitemaps.filter_map(|sitemap| Some((sitemap, whole_text(sitemap)?))).collect()
}

/// The body without a byte order mark and white space at its start. `None` unless it is complete, has
/// status 200, and is neither HTML nor binary.
fn whole_text(exchange: &Exchange) -> Option<String> {
    let response = exchange.success().filter(|response| response.is_whole)?;
    let is_text = response.representation() != Representation::Html && !response.body.contains(&0);
    is_text.then(|| response.text().trim_start_matches('\u{feff}').trim_start().to_owned())
}

/// The part of a URL's path that is the same for a page and its Markdown: without `index.html`, `.md` and the
/// like, and without a slash at its end.
pub(super) fn page_path(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    let endings = [".mdx", ".md", ".markdown", ".txt", ".html", ".htm", "/index"];
    endings.iter().fold(path, |path, ending| path.strip_suffix(ending).unwrap_or(path)).trim_end_matches('/')
}
