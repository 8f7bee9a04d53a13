//! `robots.txt` is a text file.

use super::shared::NO_FALLBACK;
use crate::exchange::Response;
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "robots-is-html",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "`/robots.txt` is plain text, or does not exist.",
    matters: "Crawlers read `robots.txt` line by line and skip what they do not know (RFC 9309 §2.2): they \
              find no rule in a page, so everything is allowed.",
    hurts: "Operators, whose rules have no effect; search engines, which report a broken file.",
    fixes: NO_FALLBACK,
    check,
};

/// Reports a `robots.txt` that is an HTML page with status 200. A redirect to a page is not reported.
fn check(survey: &Survey, findings: &mut Findings) {
    let robots = &survey.first_requests.robots;
    if robots.success().is_some_and(Response::is_page) {
        findings.report(
            &[robots],
            "/robots.txt returns 200 with an HTML page: send the rules as `text/plain`, or 404 if there are \
             none",
        );
    }
}
