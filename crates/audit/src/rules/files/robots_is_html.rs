//! `robots.txt` is a text file.

use super::shared::NO_FALLBACK;
use crate::exchange::Response;
use crate::group::Group;
use crate::rule::{Findings, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "robots-is-html",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "`/robots.txt` is plain text, or does not exist.",
    matters: "A crawler reads `robots.txt` line by line and skips what it does not know (RFC 9309 §2.2): \
              in a page it finds no rule, so that everything is permitted.",
    hurts: "The operator, whose rules have no effect, and search engines, which report a faulty file.",
    fixes: NO_FALLBACK,
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let robots = &survey.basis.robots;
    if robots.success().is_some_and(Response::is_page) {
        findings.report(
            &[robots],
            "/robots.txt answers 200 with an HTML page: send the rules as text/plain, or 404 if there are none",
        );
    }
}
