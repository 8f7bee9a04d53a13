//! Agents get errors in the format that they read.

use crate::exchange::Representation;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "not-found-format",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "The 404 of a site with Markdown is Markdown or short text for an agent that prefers Markdown.",
    matters: "Agents guess addresses and reach many 404s. A page with the layout and the navigation of the \
              site costs them as much as a real one; a few lines with links help them to go on.",
    hurts: "Agents.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Negotiate errors as well: send status 404 with Markdown that links to the start page, \
               `llms.txt` or the search, and `Vary: Accept`.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let Some(exchange) = &survey.caches.not_found_markdown else { return };
    let Some(response) = exchange.response().filter(|response| response.status == 404) else { return };
    if response.representation() == Representation::Html {
        findings.report(
            &[exchange],
            "An agent that prefers Markdown gets the 404 as HTML; Markdown would be right",
        );
    }
}
