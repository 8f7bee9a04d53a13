//! `Accept` chooses between HTML and Markdown, not the `User-Agent`.

use super::shared::{gets, severity_by_cache, that_gets};
use crate::exchange::{Exchange, Representation};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
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

/// Reports one finding for all crawlers that get Markdown while the client with `*/*` gets HTML. Leaves out
/// the crawler that sends no `Accept` if other clients without `Accept` get Markdown, too. The severity is
/// the worst that [`severity_by_cache`] returns for one of them.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(other) = that_gets(survey.negotiation.any.as_ref(), Representation::Html) else { return };
    let without_accept = that_gets(survey.negotiation.no_accept.as_ref(), Representation::Markdown);
    let is_selected = |exchange: &Exchange| {
        gets(exchange, Representation::Markdown)
            && (exchange.request.has_accept() || without_accept.is_none())
    };
    let crawlers = survey.negotiation.crawlers.iter();
    let selected: Vec<_> = crawlers.filter(|(_, exchange)| is_selected(exchange)).collect();
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
            "Without a preference in `Accept`, {} {verb} Markdown and other clients get HTML: decide by `Accept` alone",
            tokens.join(" and ")
        ),
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rules::fixtures::{exchange, found, page, public, response, survey};

    const URL: &str = "https://www.example.com/";

    #[test]
    fn only_the_crawler_without_accept_may_get_the_same_as_other_clients() {
        let html = page(URL, &[], "<title>Home</title><h1>Home</h1>");
        let markdown = |accept: &[&str]| {
            let mut exchange = exchange(URL, response(200, &[("content-type", "text/markdown")], "# Home\n"));
            let own = Arc::get_mut(&mut exchange).expect("the only reference");
            own.request = accept.iter().fold(own.request.clone(), |request, line| request.accept(line));
            exchange
        };
        for (crawlers, expected) in [
            (vec![("ClaudeBot", markdown(&[]))], 0),
            (vec![("ClaudeBot", markdown(&[])), ("ChatGPT-User", markdown(&["*/*"]))], 1),
            // The request of the crawler without `Accept` was not sent.
            (vec![("ChatGPT-User", markdown(&["*/*"]))], 1),
        ] {
            let mut survey = survey(&html, public());
            survey.negotiation.any = Some(html.clone());
            survey.negotiation.no_accept = Some(markdown(&[]));
            survey.negotiation.crawlers = crawlers;
            assert_eq!(found(&RULE, &survey).len(), expected);
        }
    }
}
