//! `/llms.txt`, a guide to the site for language models (llmstxt.org), and `/llms-full.txt`, which contains
//! all pages.

use super::text::list_item;
use crate::pages::{PageSummary, PagesOptions, Site};

/// Maximum length of the guide in characters, so that it fits into a model's context. The sitemap lists the
/// remaining pages.
const MAX_CHARACTERS: usize = 50_000;

/// The part of [`MAX_CHARACTERS`] that is reserved for headings, the number of omitted pages, and optional
/// links.
const RESERVED: usize = 2_000;

/// Builds `llms.txt`: a heading, a summary, and lists of links to the Markdown of each page.
pub(super) fn build_llms_txt(pages: &[PageSummary], options: &PagesOptions) -> String {
    let base = &options.base_url;
    let mut text = format!("# {}\n\n> {}\n\n", options.title, options.description);
    text.push_str(&format!(
        "Every page is available as Markdown: at its own address with `Accept: text/markdown`, or at the address \
         with `.md`, as linked here. The two forms (waitlist and contact) are described in \
         [agents.md]({base}/agents.md) and, for programs, at {base}/openapi.json. Obtain the user's explicit \
         confirmation of the content before you submit either form.\n",
    ));
    let mut room = MAX_CHARACTERS - RESERVED - text.chars().count().min(MAX_CHARACTERS - RESERVED);
    let mut section = |title: &str, wanted: &dyn Fn(&PageSummary) -> bool| {
        let mut items = String::new();
        let mut left_out = 0;
        for page in pages.iter().filter(|page| wanted(page)) {
            let item = list_item(base, &page.twin, page);
            match room.checked_sub(item.chars().count()) {
                Some(rest) if left_out == 0 => {
                    room = rest;
                    items.push_str(&item);
                }
                _ => left_out += 1,
            }
        }
        if left_out > 0 {
            let more = format!("- [{left_out} more]({base}/sitemap.md): all of them are in the sitemap\n");
            items.push_str(&more);
        }
        if items.is_empty() { String::new() } else { format!("\n## {title}\n\n{items}") }
    };
    text.push_str(&section("Pages", &|page| !page.is_post && !page.is_generated));
    text.push_str(&section("Posts", &|page| page.is_post));
    text.push_str(&format!(
        "\n## Optional\n\n- [Agent guide]({base}/agents.md): how to read this site and send its forms\n- [Sitemap]({base}/sitemap.md): every page with the date of its last change\n"
    ));
    text
}

pub(super) fn build_llms_full_txt(site: &Site, options: &PagesOptions) -> String {
    let pages = site.pages.iter().filter(|page| !page.is_generated);
    let bodies: Vec<&[u8]> =
        pages.filter_map(|page| Some(&site.markdown(&page.path)?.unencoded().bytes[..])).collect();
    let mut text = format!("# {}\n\n> {}\n", options.title, options.description);
    text.reserve(bodies.iter().map(|body| body.len() + 2).sum());
    for body in bodies {
        text.push_str("\n\n");
        // The body is always valid UTF-8. This check is faster than `from_utf8_lossy`.
        match std::str::from_utf8(body) {
            Ok(body) => text.push_str(body),
            Err(_) => text.push_str(&String::from_utf8_lossy(body)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guide_of(pages: usize) -> String {
        let page = |number: usize| PageSummary {
            path: format!("/p{number}/"),
            twin: format!("/p{number}.md"),
            title: format!("Page {number}"),
            description: Some("What it is about, told in a sentence or two.".into()),
            date: None,
            updated: jiff::civil::date(2026, 1, 2),
            author: None,
            tags: Vec::new(),
            is_post: number % 2 == 1,
            is_generated: false,
            feed_html: String::new(),
        };
        let pages: Vec<PageSummary> = (0..pages).map(page).collect();
        build_llms_txt(
            &pages,
            &PagesOptions { base_url: "https://www.example.com".into(), ..PagesOptions::default() },
        )
    }

    #[test]
    fn the_guide_stays_short_and_counts_omitted_pages() {
        let whole = guide_of(100);
        assert_eq!(whole.matches("\n- [Page ").count(), 100);
        assert!(!whole.contains(" more]"));
        let cut = guide_of(3_000);
        assert!(cut.chars().count() < MAX_CHARACTERS, "{}", cut.chars().count());
        let listed = cut.matches("\n- [Page ").count();
        assert!(listed > 400, "{listed}");
        let left_out =
            cut.split(" more]").filter_map(|before| before.rsplit('[').next()?.parse::<usize>().ok());
        assert_eq!(left_out.sum::<usize>(), 3_000 - listed);
    }
}
