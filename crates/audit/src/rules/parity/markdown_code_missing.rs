//! The Markdown has the code of the HTML.

use super::code::{Code, LineMatch};
use super::comparison::{CONVERT, Comparison};
use crate::markdown::BlockKind;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::words::excerpt;

pub(super) static RULE: Rule = Rule {
    id: "markdown-code-missing",
    group: Group::Parity,
    severity: Severity::Advice,
    checks: "The Markdown has the code blocks of the HTML.",
    matters: "Agents copy code from the Markdown. Without it, they guess.",
    hurts: "Agents, which invent code; people, who run it.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Write code as fenced blocks, including code that a component takes from a file or shows \
                   in tabs.",
        },
        CONVERT,
    ],
    check,
};

/// Reports how many lines of code of each compared page are missing. Broken if the Markdown has no code and
/// most of several lines are missing. Skips Markdown that is another text ([`Comparison::is_other_text`]).
fn check(survey: &Survey, findings: &mut Findings) {
    for comparison in Comparison::all(survey).iter().filter(|comparison| !comparison.is_other_text()) {
        let code = Code::compare(comparison);
        let missing: Vec<_> =
            code.lines.iter().filter(|(_, line_match)| *line_match == LineMatch::Missing).collect();
        let [(first, _), ..] = missing[..] else { continue };
        let (count, total) = (missing.len(), code.lines.len());
        let has_code = comparison.markdown.blocks.iter().any(|block| block.kind == BlockKind::Code);
        let is_broken = !has_code && total > 1 && count * 2 > total;
        let severity = if is_broken { Severity::Broken } else { Severity::Advice };
        let line = excerpt(first, 12);
        findings.report_as(
            severity,
            &[comparison.exchange, &comparison.page.html],
            format!(
                "The Markdown lacks {count} of {total} lines of code in the HTML, starting with `{line}`"
            ),
        );
    }
}
