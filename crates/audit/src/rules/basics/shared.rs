//! Reports elements of pages and responses, for several rules of the group.

use std::collections::HashSet;

use frontdesk_convert::{HtmlElement, Selector};

use crate::page::Page;
use crate::rule::Findings;
use crate::survey::Survey;

/// Reports each readable page in which no element matches the CSS selector and the condition. Panics if the
/// selector is invalid.
pub(super) fn report_lacking(
    survey: &Survey,
    findings: &mut Findings,
    css: &str,
    is_right: impl Fn(HtmlElement<'_>) -> bool,
    message: &str,
) {
    for page in survey.readable_pages() {
        if !page.select(css).into_iter().any(&is_right) {
            findings.report(&[&page.html], message);
        }
    }
}

/// Reports each readable page in which `find` finds wrong elements: how many there are, what is wrong, and
/// the first.
pub(super) fn report_elements<'a>(
    survey: &'a Survey,
    findings: &mut Findings,
    find: impl Fn(&'a Page) -> Vec<HtmlElement<'a>>,
    (one, several): (&str, &str),
) {
    for page in survey.readable_pages() {
        let wrong = find(page);
        let Some(first) = wrong.first().map(|element| tag(*element)) else { continue };
        let message = match wrong.len() {
            1 => format!("{one}: {first}"),
            count => format!("{count} {several}, starting with {first}"),
        };
        findings.report(&[&page.html], message);
    }
}

/// An element's start tag in backticks, with its `id`, or else its `name`, `src`, `href` or `content`.
pub(super) fn tag(element: HtmlElement<'_>) -> String {
    let known = ["id", "name", "src", "href", "content"];
    let found = known.iter().find_map(|name| Some((name, element.attribute(name)?)));
    let attribute = found.map_or_else(String::new, |(name, value)| {
        format!(" {name}=\"{}\"", excerpt(value).replace('`', "'"))
    });
    format!("`<{}{attribute}>`", element.name())
}

/// The first 80 characters of a text from the site, without control characters.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// Whether an element has this attribute with a value that is not blank.
pub(super) fn has_value(element: HtmlElement<'_>, name: &str) -> bool {
    element.attribute(name).is_some_and(|value| !value.trim().is_empty())
}

/// Whether an element has `aria-label`, `aria-labelledby` or `title` with a value. Does not check that the
/// ids in `aria-labelledby` exist.
pub(super) fn is_named(element: HtmlElement<'_>) -> bool {
    ["aria-label", "aria-labelledby", "title"].iter().any(|name| has_value(element, name))
}

/// Whether the HTML hides an element from people and their software, by itself or by an element around it.
/// `inert`, `<template>` and `<noscript>` count as hiding. Does not read stylesheets.
pub(super) fn is_hidden(element: HtmlElement<'_>) -> bool {
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

/// The elements without a label: no `<label>` contains them or refers to their `id`.
pub(super) fn without_label<'a>(
    page: &'a Page,
    elements: impl Iterator<Item = HtmlElement<'a>>,
) -> impl Iterator<Item = HtmlElement<'a>> {
    let labels = page.select("label[for]");
    let targets = labels.iter().filter_map(|label| label.attribute("for"));
    let labelled: HashSet<String> = targets.map(str::to_owned).collect();
    elements.filter(move |element| {
        let is_named = element.attribute("id").is_some_and(|id| labelled.contains(id));
        !is_named && !element.ancestors().any(|ancestor| ancestor.name() == "label")
    })
}

/// Whether a link or a button has neither text nor an image or attribute that names it. False for elements
/// that are hidden or have `tabindex=-1`.
pub(super) fn lacks_text(element: &HtmlElement<'_>) -> bool {
    let element = *element;
    let Ok(named) = Selector::parse("[alt], [aria-label], [aria-labelledby], [title]") else { return false };
    let is_found = |inner: HtmlElement<'_>| has_value(inner, "alt") || is_named(inner);
    let is_skipped = is_hidden(element) || element.attribute("tabindex") == Some("-1");
    let is_nameless = element.text().is_empty() && !is_named(element);
    is_nameless && !is_skipped && !element.all(&named).into_iter().any(is_found)
}
