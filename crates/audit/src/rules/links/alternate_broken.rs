//! The declared Markdown of a page exists.

use crate::declared_markdown::declared_twin;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "alternate-broken",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The Markdown that a page declares with `<link rel=\"alternate\" type=\"text/markdown\">` \
             or `Link` exists.",
    matters: "Agents that get HTML follow this link to the Markdown (RFC 8288).",
    hurts: "Agents, which get an error instead of the page.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Publish the Markdown, or remove the link from pages without it.",
    }],
    check,
};

/// Reports each requested URL of declared Markdown that returns 404, 410 or 5xx. Does not follow redirects.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in survey.first_requests.pages.iter().filter(|page| declared_twin(page).is_some()) {
        let Some(twin) = &page.twin else { continue };
        let Some(status) = twin.response().map(|response| response.status) else { continue };
        if matches!(status.as_u16(), 404 | 410) || status.is_server_error() {
            findings.report(
                &[&page.html, twin],
                format!(
                    "The page declares its Markdown at {}, which returns {}: publish it or remove the link",
                    twin.url(),
                    status.as_u16()
                ),
            );
        }
    }
}
