//! The languages of pages, and of clients.

use frontdesk_convert::Url;

use crate::page::Page;

/// Languages that are common on websites, in the order in which the audit requests them.
const FREQUENT: [&str; 7] = ["de", "fr", "es", "ja", "zh", "pt", "en"];

/// The primary subtag of a language tag, in lower case; `no` for `nb` and `nn` (Norwegian).
pub(crate) fn primary_subtag(tag: &str) -> String {
    let primary = tag.split(['-', '_']).next().unwrap_or_default().trim().to_ascii_lowercase();
    if matches!(&*primary, "nb" | "nn") { "no".to_owned() } else { primary }
}

/// The targets of `<link rel=alternate hreflang>` in a page, with their languages in lower case, in order.
/// The page itself and `x-default` are included if it declares them. Skips targets that
/// [`Page::resolve`] refuses, and does not read the field `Link`.
pub fn languages(page: &Page) -> Vec<(Url, String)> {
    let links = page.select("link[rel~=alternate][hreflang][href]").into_iter().filter_map(|link| {
        let language = link.attribute("hreflang").unwrap_or_default().to_ascii_lowercase();
        Some((page.resolve(link.attribute("href")?)?, language))
    });
    links.collect()
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
