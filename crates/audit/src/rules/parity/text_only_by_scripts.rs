//! Pages have their text without scripts.

use super::comparison::markdown_of;
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "text-only-by-scripts",
    group: Group::Parity,
    severity: Severity::Broken,
    checks: "The HTML of a page has its text before scripts run.",
    matters: "Most agents and crawlers run no scripts: they get an empty page with status 200.",
    hurts: "Agents and search engines, which find no text; people, if a script fails.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Render pages on the server or at build time: most frameworks have a setting for it.",
        },
        Fix {
            platform: Platform::Any,
            text: "For the reference of an API, add `<link rel=\"service-desc\" href=\"/openapi.json\">` and a \
                   link in `<noscript>`.",
        },
        Fix {
            platform: Platform::Any,
            text: "Otherwise serve the text as Markdown to clients that ask for `text/markdown`.",
        },
    ],
    check,
};

/// Pages with fewer letters and digits count as pages without text.
const FEW_LETTERS: usize = 200;

/// Elements that JavaScript frameworks fill with the content of the page.
const ROOTS: &str =
    "#root, #app, #__next, #__nuxt, #svelte, #q-app, #___gatsby, app-root, [data-reactroot], [ng-app]";

/// Reports each page whose text only scripts add. Advice if it has Markdown with text, or shows the
/// reference of an API.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in survey.first_requests.pages.iter().filter(|page| is_api_reference(page)) {
        let message = "Scripts draw the reference of the API: agents that get this page see nothing of it. Link to \
                       the OpenAPI description from the page";
        findings.report_as(Severity::Advice, &[&page.html], message);
    }
    for page in survey.first_requests.pages.iter().filter(|page| is_filled_by_scripts(page)) {
        let letters = page.converted.page_letters;
        let has_markdown = markdown_of(page).is_some_and(|(_, markdown)| markdown.text.len() > FEW_LETTERS);
        let severity = if has_markdown { Severity::Advice } else { Severity::Broken };
        findings.report_as(
            severity,
            &[&page.html],
            format!(
                "The HTML has only {letters} letters, and scripts, which most agents do not run, add the \
                 rest: send the text in the HTML"
            ),
        );
    }
}

/// Whether a page with scripts has hardly any text without them. False for a page that cannot be read
/// completely.
fn is_blank(page: &Page) -> bool {
    let has_scripts = !page.select("script").is_empty();
    has_scripts && page.converted.page_letters < FEW_LETTERS && page.response().unreadable().is_none()
}

/// Whether a page without text shows Swagger UI or Redoc. Agents can read the OpenAPI description instead.
fn is_api_reference(page: &Page) -> bool {
    is_blank(page) && !page.select("#swagger-ui, redoc, #redoc, #redoc-container").is_empty()
}

/// Whether a page with scripts has hardly any text, and an element that scripts fill or a note that asks for
/// JavaScript. False for the reference of an API.
fn is_filled_by_scripts(page: &Page) -> bool {
    let has_root = || page.select(ROOTS).iter().any(|root| root.text().len() < FEW_LETTERS);
    let has_note = || page.select("noscript").iter().any(|note| note.text().contains("JavaScript"));
    is_blank(page) && !is_api_reference(page) && (has_root() || has_note())
}
