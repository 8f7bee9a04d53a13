//! The Markdown that a page declares as its own.

use frontdesk_convert::Url;
use http::header;

use crate::language::{lang_of, primary_subtag};
use crate::link_header::parse_link_header;
use crate::page::Page;

/// The address of the page's Markdown that `<link rel=alternate type=text/markdown>` or else the field `Link`
/// declares. It may be on another site.
pub fn declared_twin(page: &Page) -> Option<Url> {
    declared_in_head(page).into_iter().chain(declared_in_field(page)).next()
}

/// The addresses of the page's Markdown in elements `<link rel=alternate type=text/markdown>`, see
/// [`own_markdown`].
pub fn declared_in_head(page: &Page) -> Vec<Url> {
    let elements = page.select("link[rel~=alternate][type='text/markdown'][href]");
    let declared = elements.iter().filter_map(|link| {
        Some((page.resolve(link.attribute("href")?)?, link.attribute("hreflang").unwrap_or_default()))
    });
    own_markdown(page, declared)
}

/// The Markdown URLs that the page's `Link` header field declares, selected by [`own_markdown`].
pub fn declared_in_field(page: &Page) -> Vec<Url> {
    let links = parse_link_header(&page.response().header(header::LINK));
    let alternates =
        links.iter().filter(|link| link.has_rel("alternate") && link.media_type == "text/markdown");
    own_markdown(page, alternates.filter_map(|link| Some((link.resolve(&page.url)?, &*link.language))))
}

/// Selects from the declared addresses, each with its `hreflang`, those of this page: first in exactly its
/// `lang`, then without a language, then in another variety of its language, then `x-default`. Leaves out
/// other languages, unless the page has no `lang` or declares only one address, because templates often have
/// a wrong `lang`. Leaves out `llms.txt` and `llms-full.txt`, which many sites declare on all pages.
fn own_markdown<'a>(page: &Page, declared: impl Iterator<Item = (Url, &'a str)>) -> Vec<Url> {
    let own = lang_of(page);
    let ranked = declared.filter_map(|(url, language)| {
        let rank = match language.trim() {
            language if language.eq_ignore_ascii_case(&own) => 0,
            language if language.is_empty() || own.is_empty() => 1,
            language if primary_subtag(language) == primary_subtag(&own) => 2,
            "x-default" => 3,
            _ => 4,
        };
        let is_of_site = ["/llms.txt", "/llms-full.txt"].iter().any(|name| url.path().ends_with(name));
        (!is_of_site).then_some((rank, url))
    });
    let mut ranked: Vec<_> = ranked.collect();
    if ranked.len() > 1 {
        ranked.retain(|(rank, _)| *rank < 4);
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, url)| url).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::fixtures::page;

    fn twin(head: &str, field: &str) -> Option<String> {
        let exchange = page("https://example.com/a", &[("link", field)], head);
        Some(declared_twin(&Page::read(&exchange)?)?.path().to_owned())
    }

    #[test]
    fn the_guide_of_a_site_is_not_the_markdown_of_a_page() {
        let guide = "<link rel=alternate type=text/markdown href=/llms.txt>";
        for (head, field, expected) in [
            (guide.to_owned(), "", None),
            (format!("{guide}<link rel=alternate type=text/markdown href=/a.md>"), "", Some("/a.md")),
            (guide.to_owned(), "</a.md>; rel=alternate; type=\"text/markdown\"", Some("/a.md")),
            (String::new(), "</llms-full.txt>; rel=alternate; type=\"text/markdown\"", None),
        ] {
            assert_eq!(twin(&head, field).as_deref(), expected, "{head} {field}");
        }
    }

    #[test]
    fn the_markdown_of_a_page_is_in_its_language() {
        for (lang, languages, expected) in [
            ("en", &["de", ""][..], Some("/1.md")),
            ("en", &["de", "en"], Some("/1.md")),
            ("en", &["", "en"], Some("/1.md")),
            ("en", &["en-GB", ""], Some("/1.md")),
            ("pt-BR", &["pt-PT", "PT-br"], Some("/1.md")),
            ("en-US", &["x-default", "de", "en"], Some("/2.md")),
            ("en", &["de", "x-default"], Some("/1.md")),
            ("en", &["x-default"], Some("/0.md")),
            ("en", &["de"], Some("/0.md")),
            ("en", &["de", "fr"], None),
            ("", &["de", "en"], Some("/0.md")),
        ] {
            let link = |(place, language)| {
                format!("<link rel=alternate type=text/markdown hreflang='{language}' href=/{place}.md>")
            };
            let head: String = languages.iter().enumerate().map(link).collect();
            let found = twin(&format!("<html lang='{lang}'>{head}"), "");
            assert_eq!(found.as_deref(), expected, "{lang} {languages:?}");
        }
        let field = "</de.md>; rel=alternate; type=\"text/markdown\"; hreflang=de, \
                     </en.md>; rel=alternate; type=\"text/markdown\"; hreflang=en";
        assert_eq!(twin("<html lang=en>", field).as_deref(), Some("/en.md"));
    }
}
