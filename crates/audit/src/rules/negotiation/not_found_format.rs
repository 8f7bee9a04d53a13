//! Agents get errors in the format that they read.

use crate::exchange::Representation;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "not-found-format",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "On a site with Markdown, an agent that prefers Markdown gets a 404 as Markdown or short text.",
    matters: "Agents guess URLs and get many 404s. An HTML error page costs them as much as a real page; a \
              few lines with links help them to go on.",
    hurts: "Agents, which spend tokens on an HTML error page and find no links to go on with.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Negotiate errors, too: return 404 as Markdown with `Vary: Accept` and links to the home page, \
               `llms.txt` or the search.",
    }],
    check,
};

/// Reports a 404 response to an agent that is HTML. Ignores other statuses.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(exchange) = &survey.caches.not_found_markdown else { return };
    let Some(response) = exchange.response().filter(|response| response.status == 404) else { return };
    if response.representation() == Representation::Html {
        findings.report(&[exchange], "An agent that prefers Markdown gets the 404 as HTML: send Markdown");
    }
}
