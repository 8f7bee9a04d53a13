//! `/llms.txt`, a guide to the site for language models (llmstxt.org), and `/llms-full.txt`, which contains
//! all pages. The guide to a large site links to guides to its folders, such as `/docs/llms.txt`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::formatting::{heading, list_item};
use super::wording;
use crate::file::{Cache, File};
use crate::{Language, PageSummary, PagesOptions, Site, WordList, escape_sentence, escape_text};

/// Maximum length of the lists in a guide, in characters. With its introduction and links, a guide has fewer
/// than 50,000 characters, so that it fits into a model's context.
const MAX_LISTED: usize = 40_000;

/// Builds `llms.txt` in a language: a heading, a summary, and lists of links to the Markdown of its pages,
/// except generated ones. Returns the percent-encoded path and the text of `llms.txt`, followed by those of
/// each further guide. `llms.txt` ends with links to `/agents.md` and `/sitemap.md`; in the default language,
/// links to the guides in other languages precede these.
pub(super) fn build_guides(
    pages: &[PageSummary],
    languages: &[Language],
    options: &PagesOptions,
    language: usize,
) -> Vec<(String, String)> {
    let Language { name, description, words, .. } = &languages[language];
    let base = options.base_url.as_str();
    let heading = heading(name, description);
    let forms = describe_forms(words, options);
    let introduction = format!("{heading}\n{}{forms}\n", words.get("guide_introduction"));
    let is_listed = |page: &&PageSummary| page.language == language && !page.is_generated;
    let pages: Vec<&PageSummary> = pages.iter().filter(is_listed).collect();
    let mut guides = Vec::new();
    let context = Guide { base, language: &languages[language] };
    add_guides(&mut guides, context, &languages[language].home(), introduction, &pages);
    let (_, text) = &mut guides[0];
    if language == 0 && languages.len() > 1 {
        text.push_str(&format!("\n## {}\n\n", words.get("languages")));
        for other in &languages[1..] {
            let name = other.words.get("language_name");
            let description = escape_sentence(other.description.trim());
            let separator = if description.is_empty() { "" } else { ": " };
            text.push_str(&format!("- [{name}]({base}{}/llms.txt){separator}{description}\n", other.prefix));
        }
    }
    let word = |name| words.get(name);
    text.push_str(&format!(
        "\n## Optional\n\n- [{}]({base}/agents.md): {}\n- [{}]({base}/sitemap.md): {}\n",
        word("guide_agents"),
        word(if forms.is_empty() { "guide_agents_pages" } else { "guide_agents_description" }),
        word("sitemap"),
        word("sitemap_description")
    ));
    guides
}

/// A sentence about where the forms are described, with a leading space. Empty if there are no forms.
fn describe_forms(words: &WordList, options: &PagesOptions) -> String {
    let count = options.form_set.iter().len();
    if count == 0 {
        return String::new();
    }
    let titles = escape_text(&wording::titles(&options.form_set)).into_owned();
    let values = [("base", options.base_url.as_str()), ("forms", &titles)];
    let sentence = if wording::has_default_forms(&options.form_set) {
        words.fill("guide_two_forms", &values)
    } else {
        words.plural_with("guide_forms", count, &values)
    };
    format!(" {sentence}")
}

/// The values that all guides in one language share.
#[derive(Clone, Copy)]
struct Guide<'a> {
    base: &'a str,
    language: &'a Language,
}

/// Builds the guide to the pages in `folder`, which begins with `introduction`, and adds it to `guides`. If
/// the list of pages is too long for one guide, calls itself for each subfolder with several pages, whose
/// guide is divided in the same way, and continues the list of the other pages in `llms-2.txt` and so on.
fn add_guides(
    guides: &mut Vec<(String, String)>,
    context: Guide<'_>,
    folder: &str,
    introduction: String,
    pages: &[&PageSummary],
) {
    let Guide { base, language: Language { words, name: site, prefix, .. } } = context;
    let line = |page: &PageSummary| list_item(base, &page.twin, page);
    let length: usize = pages.iter().map(|page| line(page).chars().count()).sum();
    // The length of the page's path up to the end of the subfolder; 0 if the page is in none.
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
        let title = index.map_or_else(|| (*path).to_owned(), |page| escape_text(&page.title).into_owned());
        format!("- [{title}]({base}{path}llms.txt): {}\n", words.plural("pages", pages.len()))
    });
    let lists = [
        (words.get("guide_sections"), sections.collect::<Vec<_>>()),
        (words.get("guide_pages"), of_kind(false).collect()),
        (words.get("guide_posts"), of_kind(true).collect()),
    ];
    let mut parts = vec![introduction];
    let mut room = MAX_LISTED;
    for (title, lines) in lists {
        let mut is_first = true;
        for line in lines {
            let length = line.chars().count();
            if length > room {
                room = MAX_LISTED;
                let number = (parts.len() + 1).to_string();
                let continued = words.fill("guide_continued", &[("n", &number)]);
                parts.push(heading(&format!("{site}: {continued}"), ""));
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
        let more = (2..=parts.len()).map(|part| {
            format!("- [{}]({base}{})\n", words.fill("guide_part", &[("n", &part.to_string())]), path(part))
        });
        let more: String = more.collect();
        parts[0].push_str(&format!("\n## {}\n\n{more}", words.get("guide_more_pages")));
    }
    guides.extend(parts.into_iter().enumerate().map(|(index, text)| (path(index + 1), text)));
    for (path, pages) in &folders {
        let url = format!("{base}{prefix}/llms.txt");
        let heading = heading(&format!("{site}: {path}"), "");
        let introduction = format!("{heading}\n> {}\n", words.fill("guide_of_folder", &[("url", &url)]));
        add_guides(guides, context, path, introduction, pages);
    }
}

/// Builds `llms-full.txt`: the Markdown of all listed pages in a language, except generated lists.
/// Returns `last` if it has the same content.
pub(super) fn build_llms_full_txt(site: &Site, language: usize, last: Option<&Arc<File>>) -> Arc<File> {
    let Language { name, description, .. } = &site.languages[language];
    let pages = site.pages.iter().filter(|page| page.language == language && !page.is_generated);
    let bodies: Vec<&File> = pages.filter_map(|page| site.markdown(&page.path)).collect();
    let introduction = heading(name, description);
    let kind = "text/plain; charset=utf-8";
    File::joined(kind, Cache::Revalidate, &introduction, b"\n\n", &bodies, last)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::WordList;

    const BASE: &str = "https://www.example.com";

    fn options() -> PagesOptions {
        PagesOptions { base_url: BASE.into(), ..PagesOptions::default() }
    }

    /// The guides to a site with pages at these paths.
    fn guides_of(paths: impl Iterator<Item = String>) -> Vec<(String, String)> {
        let page = |(number, path): (usize, String)| PageSummary {
            twin: format!("{}.md", path.trim_end_matches('/')),
            title: format!("Page {path}"),
            path,
            description: Some("What it is about, told in a sentence or two.".into()),
            updated: jiff::civil::date(2026, 1, 2),
            is_post: number % 2 == 1,
            ..PageSummary::default()
        };
        let pages: Vec<PageSummary> = paths.enumerate().map(page).collect();
        let languages = [language("en", "")];
        build_guides(&pages, &languages, &options(), 0)
    }

    fn language(tag: &str, prefix: &str) -> Language {
        let [title, name, tagline, description] = [(); 4].map(|()| String::new());
        let words = std::sync::Arc::new(WordList::english());
        Language { tag: tag.into(), prefix: prefix.into(), words, title, name, tagline, description }
    }

    #[test]
    fn each_language_has_a_guide_to_its_pages() {
        let page = |path: &str, language| PageSummary {
            path: path.into(),
            twin: format!("{}.md", path.trim_end_matches('/')),
            title: path.into(),
            language,
            ..PageSummary::default()
        };
        let pages = [page("/a/", 0), page("/de/a/", 1)];
        let languages = [language("en", ""), language("de", "/de")];
        let guide = |index| build_guides(&pages, &languages, &options(), index).swap_remove(0);
        let [english, german] = [0, 1].map(guide);
        assert_eq!((&*english.0, &*german.0), ("/llms.txt", "/de/llms.txt"));
        assert!(
            english.1.contains("(https://www.example.com/a.md)") && !english.1.contains("/de/a.md"),
            "{}",
            english.1
        );
        assert!(english.1.contains("](https://www.example.com/de/llms.txt)"), "{}", english.1);
        assert!(
            german.1.contains("(https://www.example.com/de/a.md)") && !german.1.contains("com/a.md"),
            "{}",
            german.1
        );
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
