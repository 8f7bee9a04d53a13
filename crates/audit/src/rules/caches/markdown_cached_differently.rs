//! HTML and Markdown may be cached for similar times.

use std::sync::Arc;

use crate::exchange::{Exchange, Representation};
use crate::page::representation_of_page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "markdown-cached-differently",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "The lifetimes of the HTML and of the Markdown of a page are similar.",
    matters: "After a change, one representation is new and the other stays old until its lifetime ends (RFC \
              9111 §4.2): people and agents may read different prices.",
    hurts: "People or agents, who read an old page.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Send the same `Cache-Control` with both representations.",
    }],
    check,
};

/// Reports the page's HTML and Markdown, at most once, if the lifetime of one is at least an hour longer and
/// at least ten times as long. Compares the first response of each kind at one address, because some sites
/// have other lifetimes for addresses with a query. Responses without a lifetime are not judged.
fn check(survey: &Survey, findings: &mut Findings) {
    let lifetime = |exchange: &Exchange| exchange.success()?.shared_lifetime();
    for sequence in [&survey.caches.agent_first, &survey.caches.at_page_url] {
        let first = |kind| {
            let is_kind = |exchange: &&Arc<Exchange>| {
                exchange.success().is_some_and(|response| representation_of_page(response) == kind)
            };
            sequence.iter().find(is_kind)
        };
        let (html, markdown) = (first(Representation::Html), first(Representation::Markdown));
        let (Some(html), Some(markdown)) = (html, markdown) else { continue };
        let (Some(first), Some(second)) = (lifetime(html), lifetime(markdown)) else { continue };
        let (short, long) = (first.min(second), first.max(second));
        if long - short >= 3600 && long / 10 >= short {
            let message = format!(
                "Caches may keep the HTML for {first} seconds, but the Markdown for {second}: send the same \
                 lifetime"
            );
            findings.report(&[html, markdown], message);
            return;
        }
    }
}
