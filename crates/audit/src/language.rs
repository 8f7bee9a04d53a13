//! The languages of pages, and of clients.

use frontdesk_convert::Url;

use crate::link_header::{LinkValue, parse_link_header};
use crate::page::Page;

/// Languages that are common on websites, in the order in which the audit requests them.
const FREQUENT: [&str; 7] = ["de", "fr", "es", "ja", "zh", "pt", "en"];

/// Deprecated or narrower subtags, each with the subtag that sites usually use for the same language.
const USUAL_SUBTAGS: [&str; 7] = ["nb_no", "nn_no", "iw_he", "in_id", "tl_fil", "cmn_zh", "yue_zh"];

/// The primary subtag of a language tag, in lower case, replaced by its usual form ([`USUAL_SUBTAGS`]).
pub(crate) fn primary_subtag(tag: &str) -> String {
    let primary = tag.split(['-', '_']).next().unwrap_or_default().trim().to_ascii_lowercase();
    let mut pairs = USUAL_SUBTAGS.iter().filter_map(|pair| pair.split_once('_'));
    pairs.find(|(subtag, _)| *subtag == primary).map_or(primary, |(_, usual)| usual.to_owned())
}

/// The versions of a page that `<link rel=alternate hreflang>` and then the field `Link` declare, with their
/// languages in lower case, in order. The page itself and `x-default` are included if it declares them. Skips
/// targets that cannot be requested, and those with another type than HTML, such as feeds and Markdown.
pub fn languages(page: &Page) -> Vec<(Url, String)> {
    let css = "link[rel~=alternate][hreflang][href]:is(:not([type]), [type=''], [type*=html i])";
    let mut found: Vec<_> = page
        .select(css)
        .into_iter()
        .filter_map(|link| {
            let language = link.attribute("hreflang").unwrap_or_default().to_ascii_lowercase();
            Some((page.resolve(link.attribute("href")?)?, language))
        })
        .collect();
    let links = parse_link_header(&page.response().header(http::header::LINK));
    let is_version = |link: &&LinkValue| {
        let is_html = link.media_type.is_empty() || link.media_type.contains("html");
        link.has_rel("alternate") && !link.language.is_empty() && is_html
    };
    found.extend(
        links
            .iter()
            .filter(is_version)
            .filter_map(|link| Some((link.resolve(&page.url)?, link.language.to_ascii_lowercase()))),
    );
    found
}

/// The `lang` attribute of a page; empty if the page has none.
pub(crate) fn lang_of(page: &Page) -> String {
    let html = page.select("html[lang]");
    html.first().and_then(|html| html.attribute("lang")).unwrap_or_default().trim().to_owned()
}

/// At most seven languages other than that of the page, as primary subtags: first those of its declared
/// versions, then frequent ones. Never empty.
pub(crate) fn other_languages(page: &Page) -> Vec<String> {
    let own = primary_subtag(&lang_of(page));
    let declared = languages(page).into_iter().map(|(_, language)| primary_subtag(&language));
    let mut others: Vec<String> = Vec::new();
    for language in declared.chain(FREQUENT.map(str::to_owned)) {
        if language != own && language != "x" && !language.is_empty() && !others.contains(&language) {
            others.push(language);
        }
    }
    others.truncate(FREQUENT.len());
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::fixtures::page;

    #[test]
    fn usual_names_of_a_language_are_one_language() {
        for (one, other, is_same) in [
            ("nb-NO", "no", true),
            ("iw", "HE-il", true),
            ("fil", "tl", true),
            ("zh-HK", "yue-HK", true),
            ("sr-Latn", "sr", true),
            ("pt", "es", false),
        ] {
            assert_eq!(primary_subtag(one) == primary_subtag(other), is_same, "{one} {other}");
        }
    }

    #[test]
    fn versions_are_html_and_may_be_in_the_link_field() {
        let head = "<link rel=alternate type=application/rss+xml hreflang=de href=/de.xml>\
                    <link rel=alternate type=text/markdown hreflang=de href=/de.md>\
                    <link rel=alternate type=text/html hreflang=DE href=/de/>";
        let field =
            "</fr/>; rel=alternate; hreflang=fr, </fr.md>; rel=alternate; hreflang=fr; type=text/markdown";
        let page = Page::read(&page("https://example.com/", &[("link", field)], head)).unwrap();
        let found: Vec<_> =
            languages(&page).iter().map(|(url, tag)| format!("{} {tag}", url.path())).collect();
        assert_eq!(found, ["/de/ de", "/fr/ fr"]);
    }
}
