//! Compressed and plain bytes have different strong validators.

use super::etag_invalid::is_entity_tag;
use super::shared::ETAG_FIXES;
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "etag-shared-by-encodings",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "Compressed and uncompressed responses do not share a strong `ETag`.",
    matters: "A strong `ETag` promises identical bytes (RFC 9110 §8.8.3.3). A client that resumes a download \
              with it joins compressed and uncompressed parts.",
    hurts: "Clients that resume downloads, which get damaged files.",
    fixes: ETAG_FIXES,
    check,
};

/// Compares the response to the client that accepts gzip with those in other codings, and reports the first
/// of them that has the same strong, valid `ETag` and the same representation.
fn check(survey: &Survey, findings: &mut Findings) {
    let [first, others @ ..] = &*survey.caches.encodings else { return };
    let Some(response) = first.success() else { return };
    let etag = response.header("etag");
    for exchange in others {
        let Some(other) = exchange.success() else { continue };
        let is_other_coding =
            other.encoding() != response.encoding() && other.representation() == response.representation();
        if is_other_coding && etag.starts_with('"') && is_entity_tag(&etag) && other.header("etag") == etag {
            let name = |coding: String| if coding.is_empty() { "plain".to_owned() } else { coding };
            let (one, two) = (name(response.encoding()), name(other.encoding()));
            let message = format!(
                "The {one} and the {two} bytes have the same strong `ETag: {etag}`: mark it weak (`W/`) \
                 or make it different"
            );
            findings.report(&[first, exchange], message);
            return;
        }
    }
}
