//! HTML and Markdown have different validators.

use super::shared::{ETAG_FIXES, entity_tag, negotiated_pages, not_modified};
use crate::group::Group;
use crate::rule::{Findings, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "etag-shared-by-representations",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "The HTML and the Markdown of one address have different `ETag` fields.",
    matters: "An `ETag` tells the representations of one address apart (RFC 9110 §8.8.3). With a common \
              one, a 304 permits a cache that has the HTML to serve it to agents.",
    hurts: "Agents and people behind a cache, who may get the other representation.",
    fixes: ETAG_FIXES,
    check,
};

/// Advice for a weak `ETag`, unless the server answered 304 to it: the server may not compare it at all.
fn check(survey: &Survey, findings: &mut Findings) {
    let validates = not_modified(survey).next().is_some();
    for (_, html, markdown) in negotiated_pages(survey) {
        let (Some(first), Some(second)) = (html.response(), markdown.response()) else { continue };
        let Some(tag) = entity_tag(first).filter(|tag| entity_tag(second).as_ref() == Some(tag)) else {
            continue;
        };
        let is_weak = [first, second].iter().any(|response| response.header("etag").starts_with("W/"));
        let severity = if is_weak && !validates { Severity::Advice } else { Severity::Broken };
        let message = format!("HTML and Markdown have the same `ETag` ({tag}): each needs its own");
        findings.report_as(severity, &[html, markdown], message);
    }
}
