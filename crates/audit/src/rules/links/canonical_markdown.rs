//! The canonical URL of a page is not its Markdown.

use crate::exchange::Representation;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::links::canonical;

pub(super) static RULE: Rule = Rule {
    id: "canonical-markdown",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The canonical URL of an HTML page is that of the page, not that of its Markdown.",
    matters: "Search engines may show the Markdown to people instead of the page (RFC 6596 §3).",
    hurts: "People from search engines, who see raw Markdown.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Name the page as canonical in the HTML, and in the `Link` field of the Markdown.",
    }],
    check,
};

/// Reports each page with a canonical URL that is the page's Markdown URL or that returned Markdown.
fn check(survey: &Survey, findings: &mut Findings) {
    let followed = survey.links.canonical.as_ref();
    for page in &survey.first_requests.pages {
        let Some(canonical) = canonical(page) else { continue };
        let is_followed = followed.is_some_and(|followed| *followed.target() == canonical)
            && followed
                .and_then(|followed| followed.last().success())
                .is_some_and(|response| response.representation() == Representation::Markdown);
        if is_followed
            || page.twin.as_ref().is_some_and(|twin| page.twin_markdown.is_some() && *twin.url() == canonical)
        {
            findings.report(
                &[&page.html],
                format!("The HTML names its Markdown {canonical} as canonical: name the page's own URL"),
            );
        }
    }
}
