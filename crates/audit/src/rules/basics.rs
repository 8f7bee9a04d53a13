//! Rules of the group basics.

mod charset_undeclared;
mod content_late;
mod control_label_missing;
mod description_missing;
mod duplicate_host;
mod duplicate_id;
mod heading_first_missing;
mod heading_first_repeated;
mod heading_levels_skipped;
mod hsts_missing;
mod http2_missing;
mod http_not_redirected;
mod https_missing;
mod image_alt_missing;
mod language_invalid;
mod language_missing;
mod link_text_missing;
mod main_landmark_missing;
mod meta_refresh;
mod mixed_content;
mod no_compression;
mod noindex_listed;
mod page_size;
mod server_errors;
mod slow_first_byte;
#[cfg(test)]
mod tests;
mod title_missing;
mod viewport_missing;

use frontdesk_convert::HtmlElement;

use crate::page::Page;
use crate::rule::{Findings, Rule};
use crate::survey::Survey;

pub(super) const RULES: &[&Rule] = &[
    &server_errors::RULE,
    &https_missing::RULE,
    &http_not_redirected::RULE,
    &mixed_content::RULE,
    &hsts_missing::RULE,
    &http2_missing::RULE,
    &duplicate_host::RULE,
    &slow_first_byte::RULE,
    &no_compression::RULE,
    &page_size::RULE,
    &content_late::RULE,
    &noindex_listed::RULE,
    &meta_refresh::RULE,
    &charset_undeclared::RULE,
    &language_missing::RULE,
    &language_invalid::RULE,
    &title_missing::RULE,
    &description_missing::RULE,
    &viewport_missing::RULE,
    &heading_first_missing::RULE,
    &heading_first_repeated::RULE,
    &heading_levels_skipped::RULE,
    &main_landmark_missing::RULE,
    &image_alt_missing::RULE,
    &control_label_missing::RULE,
    &link_text_missing::RULE,
    &duplicate_id::RULE,
];

/// Reports each page in which no element matches the CSS selector and the condition.
fn report_lacking(
    survey: &Survey,
    findings: &mut Findings,
    css: &str,
    is_right: impl Fn(HtmlElement<'_>) -> bool,
    message: &str,
) {
    for page in &survey.basis.pages {
        if !page.select(css).into_iter().any(&is_right) {
            findings.report(&[&page.html], message);
        }
    }
}

/// Reports each page in which `find` finds wrong elements: how many there are, what is wrong, and the first.
fn report_elements<'a>(
    survey: &'a Survey,
    findings: &mut Findings,
    find: impl Fn(&'a Page) -> Vec<HtmlElement<'a>>,
    (one, several): (&str, &str),
) {
    for page in &survey.basis.pages {
        let wrong = find(page);
        let Some(first) = wrong.first().map(|element| tag(*element)) else { continue };
        let message = match wrong.len() {
            1 => format!("{one}: {first}"),
            count => format!("{count} {several}, first {first}"),
        };
        findings.report(&[&page.html], message);
    }
}

/// The start of an element with the attribute that identifies it best, in backticks.
fn tag(element: HtmlElement<'_>) -> String {
    let known = ["id", "name", "src", "href", "content"];
    let found = known.iter().find_map(|name| Some((name, element.attribute(name)?)));
    let attribute = found.map_or_else(String::new, |(name, value)| {
        format!(" {name}=\"{}\"", excerpt(value).replace('`', "'"))
    });
    format!("`<{}{attribute}>`", element.name())
}

/// The start of a text of the site, without control characters.
fn excerpt(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// Whether an attribute is there and not blank.
fn has(element: HtmlElement<'_>, name: &str) -> bool {
    element.attribute(name).is_some_and(|value| !value.trim().is_empty())
}

/// Whether ARIA or `title` names an element.
fn is_named(element: HtmlElement<'_>) -> bool {
    ["aria-label", "aria-labelledby", "title"].iter().any(|name| has(element, name))
}

/// Whether people and their software never meet an element, as far as the HTML shows.
fn is_hidden(element: HtmlElement<'_>) -> bool {
    std::iter::once(element).chain(element.ancestors()).any(|element| {
        let style = element.attribute("style").map(|style| style.replace(' ', "").to_ascii_lowercase());
        element.attribute("hidden").is_some()
            || element.attribute("inert").is_some()
            || element.attribute("aria-hidden").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || style
                .is_some_and(|style| style.contains("display:none") || style.contains("visibility:hidden"))
            || matches!(element.name(), "template" | "noscript")
    })
}
