//! Pages are small enough for clients to read.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "page-size",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "The HTML of a page has less than 2 MiB.",
    matters: "Agents cut long pages, or run out of context; phones need seconds to read them.",
    hurts: "Agents, which miss a part of the page; people with slow connections, who wait.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Move data, scripts, styles and images out of the HTML into files, and split long lists \
               into pages.",
    }],
    check,
};

/// Reports each page whose HTML exceeds the limit of the audit, 2 MiB.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        if page.response().is_too_long() {
            findings
                .report(&[&page.html], "The HTML has more than 2 MiB, but agents cut it: make it shorter");
        }
    }
}
