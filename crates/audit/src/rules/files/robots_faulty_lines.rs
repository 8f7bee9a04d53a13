//! Each line of `robots.txt` can be read.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "robots-faulty-lines",
    group: Group::Files,
    severity: Severity::Advice,
    checks: "Each line of `robots.txt` is a field, a comment or blank, and rules follow a `User-agent`.",
    matters: "Crawlers skip lines that they cannot read, and rules that belong to no crawler (RFC 9309 \
              §2.2).",
    hurts: "Operators, whose rules have no effect.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write `NAME: VALUE` on each line, begin comments with `#`, and write `User-agent: *` above \
               the first rule.",
    }],
    check,
};

/// Reports one finding for all faulty lines, and one for all rules before the first `User-agent`. Names at
/// most five lines of each. Ignores a file that is an HTML page or lacks status 200.
fn check(survey: &Survey, findings: &mut Findings) {
    let (robots, rules) = (&survey.first_requests.robots, &survey.first_requests.rules);
    let numbers = |lines: &[usize]| lines.iter().take(5).map(usize::to_string).collect::<Vec<_>>().join(", ");
    if !rules.faulty_lines.is_empty() {
        let lines = numbers(&rules.faulty_lines);
        findings.report(
            &[robots],
            format!("Crawlers skip lines of robots.txt that are not `NAME: VALUE`: lines {lines}"),
        );
    }
    if !rules.stray_lines.is_empty() {
        let lines = numbers(&rules.stray_lines);
        findings.report(
            &[robots],
            format!("Crawlers skip rules of robots.txt before the first `User-agent`: lines {lines}"),
        );
    }
}
