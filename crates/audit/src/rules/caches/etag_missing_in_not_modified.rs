//! A 304 repeats the `ETag`.

use super::shared::{entity_tag, not_modified};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "etag-missing-in-not-modified",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "A 304 carries the `ETag` that matched.",
    matters: "RFC 9110 §15.4.5 requires it. A cache with several stored responses for a URL learns from it \
              which one to refresh (RFC 9111 §4.3.4).",
    hurts: "Operators, whose cache fetches stored responses again or refreshes the wrong one.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Send `ETag`, `Vary`, `Cache-Control` and `Date` with 304, as with 200.",
    }],
    check,
};

/// Reports each 304 response ([`not_modified`]) without an `ETag`.
fn check(survey: &Survey, findings: &mut Findings) {
    for (response, exchange, before) in not_modified(survey) {
        if entity_tag(response).is_none() {
            findings
                .report(&[exchange, before], "The 304 has no `ETag`: it must repeat the one that matched");
        }
    }
}
