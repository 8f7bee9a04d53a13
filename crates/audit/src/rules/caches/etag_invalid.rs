//! Validators have the form that clients can compare.

use http::header::ETAG;

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "etag-invalid",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "An `ETag` is a text between quotation marks, after `W/` if it is weak.",
    matters: "Clients and caches ignore other values or send them back in another form (RFC 9110 §8.8.3), so \
              that each visit transfers the whole page again.",
    hurts: "People with slow connections, and operators, who pay for traffic.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Send `ETag: \"value\"`. A program that marks the compressed bytes adds its mark before the last \
               quotation mark.",
    }],
    check,
};

/// Reports only the first invalid `ETag` among the 200 responses for pages and their twins, because one
/// program generates all of them. A missing `ETag` is no finding.
fn check(survey: &Survey, findings: &mut Findings) {
    let pages = survey.first_requests.pages.iter();
    let exchanges = pages.flat_map(|page| [Some(&page.html), page.agent.as_ref(), page.twin.as_ref()]);
    for exchange in exchanges.flatten() {
        let etag = exchange.success().map(|response| response.header(ETAG)).unwrap_or_default();
        if !etag.is_empty() && !is_entity_tag(&etag) {
            let start: String = etag.chars().take(80).collect();
            findings.report(&[exchange], format!("`ETag: {start}` must be one value in quotation marks"));
            return;
        }
    }
}

/// Whether a field value has the form of an entity tag (RFC 9110 §8.8.3). Between its quotation marks, only
/// spaces and further quotation marks are refused.
pub(super) fn is_entity_tag(value: &str) -> bool {
    let quoted = value.strip_prefix("W/").unwrap_or(value);
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|inner| !inner.contains(['"', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_tag_is_quoted() {
        for (value, expected) in [
            ("\"a\"", true),
            ("W/\"a-gzip\"", true),
            ("\"\"", true),
            ("a", false),
            ("\"a", false),
            ("\"a\"-gzip", false),
            ("w/\"a\"", false),
            ("\"a\", \"b\"", false),
            ("\"", false),
        ] {
            assert_eq!(is_entity_tag(value), expected, "{value}");
        }
    }
}
