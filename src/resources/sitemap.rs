//! `/sitemap-index.xml` with the sitemap it names (sitemaps.org 0.9), and `/sitemap.md` for readers of Markdown.

use std::fmt::Write as _;

use super::{Options, list_item, xml};
use crate::pages::Summary;

/// Which pages belong to a section.
type Section = fn(&Summary) -> bool;

const NAMESPACE: &str = "http://www.sitemaps.org/schemas/sitemap/0.9";

/// The index: one sitemap, changed when its newest page was.
pub(super) fn index(pages: &[Summary], options: &Options) -> String {
    let latest = pages.iter().map(|page| page.updated).max().unwrap_or(options.today);
    let location = xml(&format!("{}/sitemap.xml", options.base_url));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<sitemapindex xmlns=\"{NAMESPACE}\">\n  <sitemap>\n    <loc>{location}</loc>\n    <lastmod>{latest}</lastmod>\n  </sitemap>\n</sitemapindex>\n"
    )
}

/// Every page with the date of its last change.
pub(super) fn urls(pages: &[Summary], options: &Options) -> String {
    let mut text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"{NAMESPACE}\">\n");
    for page in pages {
        let location = xml(&format!("{}{}", options.base_url, page.path));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  <url>\n    <loc>{location}</loc>\n    <lastmod>{}</lastmod>\n  </url>",
            page.updated
        );
    }
    text.push_str("</urlset>\n");
    text
}

/// The same for readers of Markdown, with links to the Markdown.
pub(super) fn markdown(pages: &[Summary], options: &Options) -> String {
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
