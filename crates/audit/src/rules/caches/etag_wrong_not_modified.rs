//! The `ETag` of the HTML does not validate the Markdown.

use super::shared::ETAG_FIXES;
use crate::group::Group;
use crate::rule::{Findings, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "etag-wrong-not-modified",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "An agent that sends the `ETag` of the HTML gets the Markdown and no 304.",
    matters: "A cache that has only the HTML sends its `ETag` for the agent (RFC 9111 §4.3.1). A 304 says \
              that the stored HTML is the right answer (RFC 9110 §13.1.2), so the agent gets it.",
    hurts: "Agents behind a cache, which get HTML, and people, who get Markdown in the same way.",
    fixes: ETAG_FIXES,
    check,
};

/// Not applied if both representations have one `ETag`, which is another rule's finding.
fn check(survey: &Survey, findings: &mut Findings) {
    let page = &survey.basis.pages[survey.caches.page];
    let Some(crossed) = &survey.caches.crossed else { return };
    if crossed.response().is_some_and(|response| response.status == 304) {
        let mut evidence = vec![crossed, &page.html];
        evidence.extend(page.agent.as_ref());
        let message = "An agent sent the `ETag` of the HTML and got 304, but the Markdown has another \
                       `ETag`: it must get 200 with the Markdown";
        findings.report(&evidence, message);
    }
}
