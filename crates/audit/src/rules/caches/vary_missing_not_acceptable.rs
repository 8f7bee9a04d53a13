//! A 406 says in `Vary` that it depends on `Accept`.

use super::shared::{VARY_FIXES, report_without_vary};
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "vary-missing-not-acceptable",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "A 406 carries `Vary: Accept`.",
    matters: "A cache that stores a 406 under the URL alone serves it to browsers as well (RFC 9111 §4.1). \
              Without an explicit lifetime, only caches with rules of their own store a 406.",
    hurts: "People and agents, who get an error instead of the page.",
    fixes: VARY_FIXES,
    check,
};

/// Reports a 406 response without `Vary: Accept`, unless no cache may store it. Ignores other statuses.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(exchange) = &survey.caches.not_acceptable else { return };
    if exchange.response().is_some_and(|response| response.status == 406) {
        let difference = "other clients get the page";
        report_without_vary(findings, exchange, "The 406 for a client that accepts only PDF", difference);
    }
}
