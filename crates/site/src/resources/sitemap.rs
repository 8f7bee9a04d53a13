//! `/sitemap-index.xml` and its sitemaps (sitemaps.org 0.9), and `/sitemap.md`.

use std::fmt::{Display, Write as _};

use jiff::civil::Date;

use super::formatting::{escape_xml, list_item};
use crate::{Language, PageSummary, PagesOptions};

/// Whether a page belongs to a section of `/sitemap.md`.
type Section = fn(&PageSummary) -> bool;

/// The namespace of links to translations.
const XHTML: &str = "http://www.w3.org/1999/xhtml";
const NAMESPACE: &str = "http://www.sitemaps.org/schemas/sitemap/0.9";

/// Maximum number of URLs in one file (sitemaps.org, "Using Sitemap index files").
const MAX_URLS: usize = 50_000;

/// Divides the pages into sitemaps of at most [`MAX_URLS`] pages. Returns each sitemap's path and pages.
/// There is always at least one sitemap.
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

/// The sitemap index. Each sitemap has the date of its most recently updated page, or the date of the load if
/// it is empty.
pub(super) fn sitemap_index(pages: &[PageSummary], options: &PagesOptions) -> String {
    let sitemaps = divide(pages)
        .into_iter()
        .map(|(path, pages)| (path, pages.iter().map(|page| page.updated).max().unwrap_or(options.today)))
        .map(|(path, updated)| (path, updated, String::new()));
    list_as_xml("sitemapindex", "sitemap", &options.base_url, sitemaps)
}

/// Formats a sitemap as XML. `pages` is one of the lists that [`divide`] returns. Each page with translations
/// links to itself, to all of them and, as `x-default`, to the one in the default language, if there is one.
pub(super) fn to_xml(pages: &[PageSummary], languages: &[Language], base_url: &str) -> String {
    let has_translations = pages.iter().any(|page| !page.translations.is_empty());
    let root = if has_translations { format!("urlset xmlns:xhtml=\"{XHTML}\"") } else { "urlset".to_owned() };
    let pages = pages.iter().map(|page| {
        let link = |language: &str, path: &str| {
            let url = escape_xml(&format!("{base_url}{path}"));
            format!("    <xhtml:link rel=\"alternate\" hreflang=\"{language}\" href=\"{url}\"/>\n")
        };
        let translations = &page.translations;
        let of_languages = translations.iter().map(|(index, path)| link(&languages[*index].tag, path));
        let default = translations.iter().find(|(index, _)| *index == 0);
        let links = of_languages.chain(default.map(|(_, path)| link("x-default", path)));
        (&page.path, page.updated, links.collect::<String>())
    });
    list_as_xml(&root, "url", base_url, pages)
}

/// Formats paths, the dates of their last change and further elements as `entry` elements in a `root`
/// element. `root` may have attributes.
fn list_as_xml(
    root: &str,
    entry: &str,
    base_url: &str,
    paths: impl Iterator<Item = (impl Display, Date, String)>,
) -> String {
    let mut text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root} xmlns=\"{NAMESPACE}\">\n");
    for (path, changed, more) in paths {
        let location = escape_xml(&format!("{base_url}{path}"));
        text.push_str(&format!(
            "  <{entry}>\n    <loc>{location}</loc>\n    <lastmod>{changed}</lastmod>\n{more}  </{entry}>\n"
        ));
    }
    text + &format!("</{}>\n", root.split(' ').next().unwrap_or(root))
}

/// The sitemap in Markdown, which links to the Markdown of each page in any language. Its headings are in
/// `language`. Divides pages, posts and generated lists into sections. Leaves out empty sections.
pub(super) fn sitemap_markdown(pages: &[PageSummary], language: &Language, base_url: &str) -> String {
    let words = &language.words;
    let mut text = format!("# {}\n", words.fill("sitemap_of", &[("site", &language.name)]));
    let sections: [(&str, Section); 3] = [
        ("guide_pages", |page| !page.is_post && !page.is_generated),
        ("guide_posts", |page| page.is_post),
        ("guide_lists", |page| page.is_generated),
    ];
    for (title, wanted) in sections {
        let mut listed = pages.iter().filter(|page| wanted(page)).peekable();
        if listed.peek().is_none() {
            continue;
        }
        let _ = write!(text, "\n## {}\n\n", words.get(title));
        for page in listed {
            let item = list_item(base_url, &page.twin, page);
            let _ = writeln!(
                text,
                "{} ({})",
                item.trim_end(),
                words.fill("last_changed", &[("date", &page.updated.to_string())])
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_with_translations_link_to_all_of_them() {
        let options = PagesOptions::default();
        let language = |tag: &str, prefix: &str| Language {
            tag: tag.into(),
            prefix: prefix.into(),
            words: std::sync::Arc::new(crate::WordList::english()),
            title: options.title.clone(),
            name: String::new(),
            tagline: String::new(),
            description: String::new(),
        };
        let languages = [language("en", ""), language("de", "/de")];
        let page = |path: &str, translations: &[(usize, &str)]| PageSummary {
            path: path.into(),
            translations: translations.iter().map(|(index, path)| (*index, (*path).to_owned())).collect(),
            ..PageSummary::default()
        };
        let both = [(0, "/a/"), (1, "/de/a&b/")];
        let xml = to_xml(&[page("/a/", &both), page("/x/", &[])], &languages, "https://www.example.com");
        let expected = "    <xhtml:link rel=\"alternate\" hreflang=\"en\" href=\"https://www.example.com/a/\"/>\n    \
                        <xhtml:link rel=\"alternate\" hreflang=\"de\" href=\"https://www.example.com/de/a&amp;b/\"/>\n    \
                        <xhtml:link rel=\"alternate\" hreflang=\"x-default\" href=\"https://www.example.com/a/\"/>\n  </url>";
        assert!(xml.contains(expected), "{xml}");
        assert_eq!(xml.matches("<xhtml:link").count(), 3);
        assert!(xml.contains("<urlset xmlns:xhtml=") && xml.ends_with("</urlset>\n"), "{xml}");
        let plain = to_xml(&[page("/x/", &[])], &languages, "https://www.example.com");
        assert!(!plain.contains("xhtml"), "{plain}");
    }

    #[test]
    fn no_sitemap_has_more_addresses_than_it_may() {
        let page = PageSummary {
            path: "/x/".into(),
            twin: "/x.md".into(),
            title: "X".into(),
            updated: jiff::civil::date(2026, 1, 2),
            ..PageSummary::default()
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
