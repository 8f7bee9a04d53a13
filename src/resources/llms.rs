//! `/llms.txt`, a guide to the site for language models (llmstxt.org), and `/llms-full.txt`, which contains
//! all pages. The guide to a large site links to guides to its folders, such as `/docs/llms.txt`.

use std::collections::BTreeMap;

use super::text::list_item;
use crate::pages::{PageSummary, PagesOptions, Site, escape_brackets};

/// Maximum length of the lists in a guide, in characters. With its introduction and links, a guide has fewer
/// than 50,000 characters, so that it fits into a model's context.
const MAX_LISTED: usize = 40_000;

/// Builds `llms.txt` and the further guides of a large site. Returns the percent-encoded path and the text of
/// each, `llms.txt` first.
pub(super) fn build_guides(pages: &[PageSummary], options: &PagesOptions) -> Vec<(String, String)> {
    let base = &options.base_url;
    let introduction = format!(
        "# {}\n\n> {}\n\n\
         Every page is available as Markdown: at its own address with `Accept: text/markdown`, or at the address \
         with `.md`, as linked here. The two forms (waitlist and contact) are described in \
         [agents.md]({base}/agents.md) and, for programs, at {base}/openapi.json. Obtain the user's explicit \
         confirmation of the content before you submit either form.\n",
        options.title, options.description
    );
    let pages: Vec<&PageSummary> = pages.iter().filter(|page| !page.is_generated).collect();
    let mut guides = Vec::new();
    add_guides(&mut guides, options, "/", introduction, &pages);
    let (_, text) = &mut guides[0];
    text.push_str(&format!(
        "\n## Optional\n\n- [Agent guide]({base}/agents.md): how to read this site and send its forms\n- [Sitemap]({base}/sitemap.md): every page with the date of its last change\n"
    ));
    guides
}

/// Builds the guide to the pages in `folder`, which begins with `introduction`, and adds it to `guides`. If
/// the list of pages is too long for one guide, also adds a guide for each subfolder.
fn add_guides(
    guides: &mut Vec<(String, String)>,
    options: &PagesOptions,
    folder: &str,
    introduction: String,
    pages: &[&PageSummary],
) {
    let base = &options.base_url;
    let line = |page: &PageSummary| list_item(base, &page.twin, page);
    let length: usize = pages.iter().map(|page| line(page).chars().count()).sum();
    // The length of the part of the page's path that names the subfolder; 0 if there is none.
    let folder_of = |page: &PageSummary| {
        let end = page.path.strip_prefix(folder).and_then(|rest| rest.find('/'));
        end.map_or(0, |at| folder.len() + at + 1)
    };
    let mut folders: BTreeMap<&str, Vec<&PageSummary>> = BTreeMap::new();
    if length > MAX_LISTED {
        for page in pages {
            folders.entry(&page.path[..folder_of(page)]).or_default().push(page);
        }
        folders.retain(|path, pages| !path.is_empty() && pages.len() > 1);
    }
    let own = pages.iter().filter(|page| !folders.contains_key(&page.path[..folder_of(page)]));
    let own: Vec<_> = own.collect();
    let of_kind = |is_post| own.iter().filter(move |page| page.is_post == is_post).map(|page| line(page));
    let sections = folders.iter().map(|(path, pages)| {
        let index = pages.iter().find(|page| page.path == *path);
        let title = index.map_or_else(|| (*path).to_owned(), |page| escape_brackets(&page.title));
        format!("- [{title}]({base}{path}llms.txt): {} pages\n", pages.len())
    });
    let lists = [
        ("Sections", sections.collect::<Vec<_>>()),
        ("Pages", of_kind(false).collect()),
        ("Posts", of_kind(true).collect()),
    ];
    let mut parts = vec![introduction];
    let mut room = MAX_LISTED;
    for (title, lines) in lists {
        let mut is_first = true;
        for line in lines {
            let length = line.chars().count();
            if length > room {
                room = MAX_LISTED;
                parts.push(format!("# {}: part {}\n", options.title, parts.len() + 1));
                is_first = true;
            }
            room = room.saturating_sub(length);
            let text = parts.last_mut().expect("there is a first part");
            if std::mem::take(&mut is_first) {
                text.push_str(&format!("\n## {title}\n\n"));
            }
            text.push_str(&line);
        }
    }
    let path = |part: usize| {
        if part == 1 { format!("{folder}llms.txt") } else { format!("{folder}llms-{part}.txt") }
    };
    if parts.len() > 1 {
        let more = (2..=parts.len()).map(|part| format!("- [Part {part}]({base}{})\n", path(part)));
        let more: String = more.collect();
        parts[0].push_str(&format!("\n## More pages\n\n{more}"));
    }
    guides.extend(parts.into_iter().enumerate().map(|(index, text)| (path(index + 1), text)));
    for (path, pages) in &folders {
        let introduction =
            format!("# {}: {path}\n\n> Part of the [guide to this site]({base}/llms.txt).\n", options.title);
        add_guides(guides, options, path, introduction, pages);
    }
}

pub(super) fn build_llms_full_txt(site: &Site, options: &PagesOptions) -> String {
    let pages = site.pages.iter().filter(|page| !page.is_generated);
    let bodies: Vec<&[u8]> =
        pages.filter_map(|page| Some(&site.markdown(&page.path)?.unencoded().bytes[..])).collect();
    let mut text = format!("# {}\n\n> {}\n", options.title, options.description);
    text.reserve(bodies.iter().map(|body| body.len() + 2).sum());
    for body in bodies {
        text.push_str("\n\n");
        // The body is always valid UTF-8, and `from_utf8` is faster than `from_utf8_lossy`.
        text.push_str(std::str::from_utf8(body).unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The guides to a site with pages at these paths.
    fn guides_of(paths: impl Iterator<Item = String>) -> Vec<(String, String)> {
        let page = |(number, path): (usize, String)| PageSummary {
            twin: format!("{}.md", path.trim_end_matches('/')),
            title: format!("Page {path}"),
            path,
            description: Some("What it is about, told in a sentence or two.".into()),
            date: None,
            updated: jiff::civil::date(2026, 1, 2),
            author: None,
            tags: Vec::new(),
            is_post: number % 2 == 1,
            is_generated: false,
            feed_html: String::new(),
        };
        let pages: Vec<PageSummary> = paths.enumerate().map(page).collect();
        let base_url = "https://www.example.com".to_owned();
        build_guides(&pages, &PagesOptions { base_url, ..PagesOptions::default() })
    }

    /// Checks that the guides are short and list each page once, and that every guide except `/llms.txt` is
    /// linked from another guide.
    fn check(guides: &[(String, String)], pages: usize) {
        let listed: Vec<&str> = guides.iter().flat_map(|(_, text)| text.lines()).collect();
        let listed: Vec<_> = listed.iter().filter(|line| line.contains(".md): What it is about")).collect();
        assert_eq!(listed.len(), pages);
        assert_eq!(listed.iter().collect::<HashSet<_>>().len(), pages);
        for (path, text) in guides {
            assert!(text.chars().count() < 50_000, "{path}: {}", text.chars().count());
            let link = format!("](https://www.example.com{path})");
            assert!(path == "/llms.txt" || guides.iter().any(|(_, text)| text.contains(&link)), "{path}");
        }
    }

    #[test]
    fn the_guide_of_a_small_site_is_one_file() {
        let guides = guides_of((0..100).map(|number| format!("/docs/p{number}/")));
        assert_eq!(guides.len(), 1);
        check(&guides, 100);
    }

    #[test]
    fn the_guide_of_a_large_site_is_divided_by_folders() {
        let path = |number: usize| match number {
            0 => "/".to_owned(),
            1 => "/about".to_owned(),
            2 => "/docs/".to_owned(),
            3..100 => format!("/blog/p{number}/"),
            _ => format!("/docs/chapter-{}/p{number}.html", number % 30),
        };
        let guides = guides_of((0..10_000).map(path));
        let paths: Vec<&str> = guides.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            &paths[..4],
            ["/llms.txt", "/blog/llms.txt", "/docs/llms.txt", "/docs/chapter-0/llms.txt"]
        );
        let root = &guides[0].1;
        assert!(
            root.contains("- [Page /docs/](https://www.example.com/docs/llms.txt): 9901 pages\n"),
            "{root}"
        );
        assert!(root.contains("- [Page /about](https://www.example.com/about.md)"), "{root}");
        check(&guides, 10_000);
    }

    #[test]
    fn pages_without_folders_are_divided_into_parts() {
        let guides = guides_of((0..10_000).map(|number| format!("/p{number}/")));
        assert_eq!(guides[1].0, "/llms-2.txt");
        check(&guides, 10_000);
    }
}
