//! Redirects keep the representation.

use crate::exchange::{Representation, Response};
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "redirect-loses-representation",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The address of a page with or without `/` at its end leads an agent to the same Markdown.",
    matters: "A redirect to a fixed file such as `index.html` leaves out the negotiation (RFC 9110 §12.1).",
    hurts: "Agents, which get HTML for one form of an address.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Redirect to the address of the page, not to one of its files.",
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
            format!("An agent that asks for Markdown is redirected to {} and gets HTML, but the page has Markdown", last.url()),
        );
    }
}
