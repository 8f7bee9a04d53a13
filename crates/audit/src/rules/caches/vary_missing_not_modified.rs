//! A 304 repeats the `Vary` of the 200.

use super::shared::{VARY_FIXES, not_modified, vary_of};
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "vary-missing-not-modified",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "A 304 carries the same `Vary` as the 200 of this request.",
    matters: "RFC 9110 §15.4.5 requires it. Most caches keep the stored `Vary`; a cache that replaces its \
              fields with those of the 304 no longer separates the representations.",
    hurts: "People and agents behind such a cache, who may get the other representation.",
    fixes: VARY_FIXES,
    check,
};

/// Reports each 304 response ([`not_modified`]) that lacks the `Vary: Accept` of the 200 response.
fn check(survey: &Survey, findings: &mut Findings) {
    for (response, exchange, before) in not_modified(survey) {
        let had_vary = before.response().is_some_and(|response| response.varies_on("accept"));
        if had_vary && !response.varies_on("accept") {
            let vary = vary_of(response);
            let message = format!("The 304 has {vary}, but the 200 has `Vary: Accept`: both must have it");
            findings.report(&[exchange, before], message);
        }
    }
}
