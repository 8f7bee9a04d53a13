//! HTML and Markdown may be cached for similar times.

use super::shared::negotiated_pages;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
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

/// Reported if one lifetime is at least an hour longer, and at least ten times as long.
fn check(survey: &Survey, findings: &mut Findings) {
    for (_, html, markdown) in negotiated_pages(survey) {
        let lifetime = |exchange: &crate::exchange::Exchange| exchange.response()?.shared_lifetime();
        let (Some(first), Some(second)) = (lifetime(html), lifetime(markdown)) else { continue };
        let (short, long) = (first.min(second), first.max(second));
        if long - short >= 3600 && long / 10 >= short {
            let message = format!(
                "Caches may keep the HTML for {first} seconds, but the Markdown for {second}: send the same \
                 lifetime"
            );
            findings.report(&[html, markdown], message);
        }
    }
}
