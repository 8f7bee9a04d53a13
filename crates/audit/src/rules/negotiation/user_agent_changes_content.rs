//! Agents get the content that people get.

use std::collections::HashSet;
use std::sync::Arc;

use frontdesk_convert::{Options, convert};

use super::shared::{severity_by_cache, that_gets};
use crate::exchange::{Exchange, Representation};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

/// Pages with fewer distinct words are not compared, because scripts probably add their content.
const MIN_WORDS: usize = 20;

pub(super) static RULE: Rule = Rule {
    id: "user-agent-changes-content",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A page has the same main content for agents and for other clients.",
    matters: "People who ask an agent about a page expect what they would see. Without `Vary: User-Agent` \
              (RFC 9110 §12.5.5), a cache may also serve the content for agents to people.",
    hurts: "Agents and the people who ask them, who get other content.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Serve the same page to all clients. Disallow unwanted agents in `robots.txt`, and exempt the \
               others from bot challenges.",
    }],
    check,
};

/// Reports each crawler whose HTML has less than 70 percent of the words that the client with `*/*` gets.
/// Reports nothing if that client did not get HTML from the origin, or fewer than [`MIN_WORDS`] words. Notes
/// as not judged a response that cannot be read, and a page that changes from request to request, or for
/// which no request of a browser shows whether it does.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(other) = that_gets(survey.negotiation.any.as_ref(), Representation::Html) else { return };
    let expected = words(other);
    if expected.len() < MIN_WORDS {
        return;
    }
    for (token, exchange) in &survey.negotiation.crawlers {
        let Some(response) = exchange.success().filter(|r| r.representation() == Representation::Html) else {
            continue;
        };
        if let Some(reason) = response.unreadable() {
            findings.not_judged(format!("the page for {token}: {reason}"));
            continue;
        }
        let kept = percentage(&expected, &words(exchange));
        if kept >= 70 {
            continue;
        }
        // Do not report a difference if the page also differs between two requests of other clients.
        let Some((_, browser)) = survey.negotiation.browsers.first() else {
            findings.not_judged("no page for browsers was requested, to compare it");
            return;
        };
        if percentage(&expected, &words(browser)) < 90 {
            findings.not_judged("the content of the page differs from request to request");
            return;
        }
        findings.report_as(
            severity_by_cache(response),
            &[exchange, other],
            format!("{token} gets {kept}% of the words that other clients get: all must get the same page"),
        );
    }
}

/// The distinct words of the main content, in lower case. Empty unless the status is 200.
fn words(exchange: &Arc<Exchange>) -> HashSet<String> {
    let Some(response) = exchange.success() else { return HashSet::new() };
    let options = Options { url: Some(exchange.url().clone()), ..Options::default() };
    let markdown = convert(&response.text(), &options).markdown.to_lowercase();
    markdown.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// The percentage of the `expected` words that `found` contains, rounded down.
fn percentage(expected: &HashSet<String>, found: &HashSet<String>) -> usize {
    expected.intersection(found).count() * 100 / expected.len().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_profiles::FIREFOX;
    use crate::rules::fixtures::{page, public, survey};

    #[test]
    fn a_page_is_said_to_differ_only_if_two_requests_show_it() {
        let text = |word: &str| (0..40).map(|n| format!("{word}{n} ")).collect::<String>();
        let page = |word| page("https://example.com/", &[], &format!("<main><p>{}</main>", text(word)));
        for (browser, expected) in [
            (None, vec!["no page for browsers was requested, to compare it"]),
            (Some("b"), vec!["the content of the page differs from request to request"]),
            (Some("a"), vec![]),
        ] {
            let mut survey = survey(&page("a"), public());
            survey.negotiation.any = Some(page("a"));
            survey.negotiation.browsers = browser.map(|word| (FIREFOX, page(word))).into_iter().collect();
            survey.negotiation.crawlers = vec![("GPTBot", page("c"))];
            let mut findings = Findings::new(&RULE);
            check(&survey, &mut findings);
            assert_eq!(findings.not_judged, expected);
            assert_eq!(findings.found.len(), usize::from(browser == Some("a")));
        }
    }
}
