//! Redirects keep the representation.

use crate::exchange::{Representation, Response};
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "redirect-loses-representation",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The URL of a page leads an agent to the same Markdown with and without `/` at its end.",
    matters: "A redirect to a fixed file such as `index.html` bypasses the negotiation (RFC 9110 §12.1).",
    hurts: "Agents, which get HTML at one of the two URLs.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Redirect to the URL of the page, not to one of its files.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let Some(probe) = survey.links.slash.as_ref().filter(|probe| probe.chain.len() > 1) else { return };
    let last = probe.last();
    let is_html = |response: &Response| response.representation() == Representation::Html;
    if last.success().is_some_and(is_html) {
        findings.report(
            &[&probe.chain[0], last],
            format!(
                "An agent that prefers Markdown is redirected to {} and gets HTML: Markdown is right, which \
                 the page has",
                last.url()
            ),
        );
    }
}
