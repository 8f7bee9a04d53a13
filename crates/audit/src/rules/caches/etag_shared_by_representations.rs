//! HTML and Markdown have different validators.

use super::shared::{ETAG_FIXES, entity_tag, negotiated_pages, not_modified};
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "etag-shared-by-representations",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "The HTML and the Markdown of a URL have different `ETag` values.",
    matters: "An `ETag` tells the representations of a URL apart (RFC 9110 §8.8.3). If both share one, a 304 \
              lets a cache that stored the HTML serve it to agents.",
    hurts: "People and agents behind a cache, who may get the other representation.",
    fixes: ETAG_FIXES,
    check,
};

/// Reports each page whose HTML and Markdown share an `ETag`, not counting `W/`. Advice if one of the two
/// tags is weak and no conditional request got 304: then the server may ignore `If-None-Match`.
fn check(survey: &Survey, findings: &mut Findings) {
    let validates = not_modified(survey).next().is_some();
    for (_, html, markdown) in negotiated_pages(survey) {
        let (Some(first), Some(second)) = (html.response(), markdown.response()) else { continue };
        let Some(tag) = entity_tag(first).filter(|tag| entity_tag(second).as_ref() == Some(tag)) else {
            continue;
        };
        let is_weak = [first, second].iter().any(|response| response.header("etag").starts_with("W/"));
        let severity = if is_weak && !validates { Severity::Advice } else { Severity::Broken };
        let message = format!("The HTML and the Markdown have the same `ETag` ({tag}): each needs its own");
        findings.report_as(severity, &[html, markdown], message);
    }
}
