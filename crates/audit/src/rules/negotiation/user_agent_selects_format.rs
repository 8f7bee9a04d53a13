//! `Accept` chooses between HTML and Markdown, not the `User-Agent`.

use super::shared::{gets, severity_by_cache, that_gets};
use crate::exchange::Representation;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "user-agent-selects-format",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "The same `Accept` gets the same representation, whatever the `User-Agent`.",
    matters: "Without `Vary: User-Agent` (RFC 9110 §12.5.5), a cache serves the Markdown of an agent to \
              people. With it, a cache stores a response for each of thousands of values.",
    hurts: "People and search engines behind a cache, who get Markdown; operators, who pay for cache misses.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Choose by `Accept` alone and send `Vary: Accept`. Agents that accept anything find Markdown \
               by `<link rel=\"alternate\" type=\"text/markdown\">`.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let Some(other) = that_gets(survey.negotiation.any.as_ref(), Representation::Html) else { return };
    for (token, exchange) in &survey.negotiation.crawlers {
        let Some(response) = exchange.success().filter(|_| gets(exchange, Representation::Markdown)) else {
            continue;
        };
        findings.report_as(
            severity_by_cache(response),
            &[exchange, other],
            format!(
                "With `Accept: */*`, {token} gets Markdown and other clients get HTML: HTML is right for all"
            ),
        );
    }
}
