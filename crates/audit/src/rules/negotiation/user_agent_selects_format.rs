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
    checks: "The same `Accept` gets the same representation for every `User-Agent`.",
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

/// Reports one finding for all crawlers that get Markdown while the client with `*/*` gets HTML.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(other) = that_gets(survey.negotiation.any.as_ref(), Representation::Html) else { return };
    // The first crawler sends no `Accept`: skip it if other clients without `Accept` get Markdown, too.
    let without_accept = that_gets(survey.negotiation.no_accept.as_ref(), Representation::Markdown);
    let crawlers = survey.negotiation.crawlers.iter().skip(usize::from(without_accept.is_some()));
    let selected: Vec<_> =
        crawlers.filter(|(_, exchange)| gets(exchange, Representation::Markdown)).collect();
    let severities = selected.iter().filter_map(|(_, exchange)| exchange.success()).map(severity_by_cache);
    let Some(severity) = severities.min() else { return };
    let (tokens, mut evidence): (Vec<_>, Vec<_>) =
        selected.iter().map(|(token, exchange)| (*token, exchange)).unzip();
    let verb = if tokens.len() == 1 { "gets" } else { "get" };
    evidence.push(other);
    findings.report_as(
        severity,
        &evidence,
        format!(
            "Without a preference in `Accept`, {} {verb} Markdown and other clients get HTML",
            tokens.join(" and ")
        ),
    );
}
