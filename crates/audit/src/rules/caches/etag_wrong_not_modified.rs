//! The `ETag` of the HTML does not validate the Markdown.

use super::shared::ETAG_FIXES;
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "etag-wrong-not-modified",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "An agent that sends the `ETag` of the HTML in `If-None-Match` gets the Markdown, not 304.",
    matters: "A cache that stored only the HTML validates it for an agent with its `ETag` (RFC 9111 §4.3.1). \
              A 304 tells the cache that the HTML is right for this agent (RFC 9110 §13.1.2).",
    hurts: "Agents behind a cache, which get HTML; people, who get Markdown in the same way.",
    fixes: ETAG_FIXES,
    check,
};

/// Reports a 304 response to an agent that sent the `ETag` of the HTML. That request is sent only if the
/// Markdown has another `ETag`: another rule reports a shared one.
fn check(survey: &Survey, findings: &mut Findings) {
    let page = &survey.first_requests.pages[survey.caches.page];
    let Some(html_etag_as_agent) = &survey.caches.html_etag_as_agent else { return };
    if html_etag_as_agent.response().is_some_and(|response| response.status == 304) {
        let mut evidence = vec![html_etag_as_agent, &page.html];
        evidence.extend(page.agent.as_ref());
        let message = "An agent sent the `ETag` of the HTML in `If-None-Match` and got 304, although the \
                       Markdown has another `ETag`: return 200 with the Markdown";
        findings.report(&evidence, message);
    }
}
