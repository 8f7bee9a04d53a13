//! Reports elements of pages and responses, for several rules of the group.

use frontdesk_convert::HtmlElement;

use crate::page::Page;
use crate::rule::Findings;
use crate::survey::Survey;

/// Reports each readable page in which no element matches the CSS selector and the condition.
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

/// The start of an element with the attribute that identifies it best, in backticks.
pub(super) fn tag(element: HtmlElement<'_>) -> String {
    let known = ["id", "name", "src", "href", "content"];
    let found = known.iter().find_map(|name| Some((name, element.attribute(name)?)));
    let attribute = found.map_or_else(String::new, |(name, value)| {
        format!(" {name}=\"{}\"", excerpt(value).replace('`', "'"))
    });
    format!("`<{}{attribute}>`", element.name())
}

/// The start of a text of the site, without control characters.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// Whether an element has an attribute that is not blank.
pub(super) fn has(element: HtmlElement<'_>, name: &str) -> bool {
    element.attribute(name).is_some_and(|value| !value.trim().is_empty())
}

/// Whether ARIA or `title` names an element.
pub(super) fn is_named(element: HtmlElement<'_>) -> bool {
    ["aria-label", "aria-labelledby", "title"].iter().any(|name| has(element, name))
}

/// Whether the HTML hides an element from people and their software.
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
