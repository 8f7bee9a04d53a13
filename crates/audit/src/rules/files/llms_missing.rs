//! A site with Markdown lists it in `llms.txt`.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "llms-missing",
    group: Group::Files,
    severity: Severity::Advice,
    checks: "A site that serves Markdown to agents has `/llms.txt`.",
    matters: "The file lists the pages worth reading (llmstxt.org), so agents need not guess URLs.",
    hurts: "Agents, which find pages by trial and error.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Publish `/llms.txt`: a heading, a summary as a blockquote, and lists of links with \
               descriptions. Link to it from the pages.",
    }],
    check,
};

/// Reports a missing `llms.txt` (404 or 410) if the site negotiates.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(llms) = survey.first_requests.llms.as_ref().filter(|_| survey.first_requests.negotiates())
    else {
        return;
    };
    let status = llms.response().map(|response| response.status.as_u16());
    if matches!(status, Some(404 | 410)) {
        findings.report(
            &[llms],
            "The site serves Markdown to agents, but has no /llms.txt: publish one that lists the pages",
        );
    }
}
