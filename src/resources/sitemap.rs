//! `/sitemap-index.xml` and its sitemaps (sitemaps.org 0.9), and `/sitemap.md`.

use std::fmt::{Display, Write as _};

use jiff::civil::Date;

use super::text::{escape_xml, list_item};
use crate::pages::{PageSummary, PagesOptions};

type Section = fn(&PageSummary) -> bool;

const NAMESPACE: &str = "http://www.sitemaps.org/schemas/sitemap/0.9";

/// Maximum number of URLs in one file (sitemaps.org, "Using Sitemap index files").
const MAX_URLS: usize = 50_000;

/// Divides the pages into sitemaps. Returns each sitemap's path and pages.
pub(super) fn divide(pages: &[PageSummary]) -> Vec<(String, &[PageSummary])> {
    let parts = pages.len().div_ceil(MAX_URLS).max(1);
    (0..parts)
        .map(|part| {
            let path =
                if part == 0 { "/sitemap.xml".to_owned() } else { format!("/sitemap-{}.xml", part + 1) };
            let end = pages.len().min((part + 1) * MAX_URLS);
            (path, &pages[part * MAX_URLS..end])
        })
        .collect()
}

/// The sitemap index. Each sitemap has the date of its most recently updated page.
pub(super) fn sitemap_index(pages: &[PageSummary], options: &PagesOptions) -> String {
    let sitemaps = divide(pages)
        .into_iter()
        .map(|(path, pages)| (path, pages.iter().map(|page| page.updated).max().unwrap_or(options.today)));
    list_as_xml("sitemapindex", "sitemap", &options.base_url, sitemaps)
}

pub(super) fn to_xml(pages: &[PageSummary], options: &PagesOptions) -> String {
    let pages = pages.iter().map(|page| (&page.path, page.updated));
    list_as_xml("urlset", "url", &options.base_url, pages)
}

fn list_as_xml(
    root: &str,
    entry: &str,
    base_url: &str,
    paths: impl Iterator<Item = (impl Display, Date)>,
) -> String {
    let mut text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root} xmlns=\"{NAMESPACE}\">\n");
    for (path, changed) in paths {
        let location = escape_xml(&format!("{base_url}{path}"));
        text.push_str(&format!(
            "  <{entry}>\n    <loc>{location}</loc>\n    <lastmod>{changed}</lastmod>\n  </{entry}>\n"
        ));
    }
    text + &format!("</{root}>\n")
}

pub(super) fn sitemap_markdown(pages: &[PageSummary], options: &PagesOptions) -> String {
    let mut text = format!("# Sitemap of {}\n", options.title);
    let sections: [(&str, Section); 3] = [
        ("Pages", |page| !page.is_post && !page.is_generated),
        ("Posts", |page| page.is_post),
        ("Lists", |page| page.is_generated),
    ];
    for (title, wanted) in sections {
        let mut listed = pages.iter().filter(|page| wanted(page)).peekable();
        if listed.peek().is_none() {
            continue;
        }
        let _ = write!(text, "\n## {title}\n\n");
        for page in listed {
            let item = list_item(&options.base_url, &page.twin, page);
            let _ = writeln!(text, "{} (last changed {})", item.trim_end(), page.updated);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sitemap_has_more_addresses_than_it_may() {
        let page = PageSummary {
            path: "/x/".into(),
            twin: "/x.md".into(),
            title: "X".into(),
            description: None,
            date: None,
            updated: jiff::civil::date(2026, 1, 2),
            author: None,
            tags: Vec::new(),
            is_post: false,
            is_generated: false,
            feed_html: String::new(),
        };
        let options = PagesOptions { base_url: "https://www.example.com".into(), ..PagesOptions::default() };
        for (pages, expected) in
            [(0, vec![0]), (1, vec![1]), (50_000, vec![50_000]), (50_001, vec![50_000, 1])]
        {
            let pages = vec![page.clone(); pages];
            let sizes: Vec<usize> = divide(&pages).iter().map(|(_, pages)| pages.len()).collect();
            assert_eq!(sizes, expected);
            let index = sitemap_index(&pages, &options);
            assert_eq!(index.matches("<sitemap>").count(), expected.len());
            let second = "https://www.example.com/sitemap-2.xml";
            assert_eq!(index.contains(second), expected.len() > 1, "{index}");
        }
    }
}
