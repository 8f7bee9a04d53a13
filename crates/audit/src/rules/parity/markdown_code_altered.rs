//! The code in the Markdown is that of the HTML.

use super::changing_text::OtherResponses;
use super::code::{Code, LineMatch, lost_indentation};
use super::comparison::{CONVERT, Comparison};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::words::excerpt;

pub(super) static RULE: Rule = Rule {
    id: "markdown-code-altered",
    group: Group::Parity,
    severity: Severity::Broken,
    checks: "Lines of code have the same characters and indentation in the Markdown and in the HTML.",
    matters: "A converter that escapes code, or makes quotation marks and dashes typographic, changes \
              what the code does.",
    hurts: "Agents, which copy broken code; people, who run it.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Convert code without escaping, typographic filters or templates: between fences, all \
                   characters are literal.",
        },
        CONVERT,
    ],
    check,
};

/// Reports the first altered line of code of each compared page, or else the first that lost its indentation.
/// Altered lines that another response lacks, too, are skipped.
fn check(survey: &Survey, findings: &mut Findings) {
    for comparison in Comparison::all(survey) {
        let code = Code::compare(&comparison);
        let responses = OtherResponses::new(survey, &comparison);
        let mut altered = code.lines.iter().filter_map(|(line, line_match)| match line_match {
            LineMatch::Altered(other) if !responses.differ(line, other) => Some((line, other)),
            _ => None,
        });
        if let Some((line, other)) = altered.next() {
            let (line, other, more) = (excerpt(line, 12), excerpt(other, 12), altered.count());
            let more =
                if more > 0 { format!(", one of {} lines that differ", more + 1) } else { String::new() };
            findings.report(
                &[comparison.exchange, &comparison.page.html],
                format!(
                    "The code `{line}` in the HTML is `{other}` in the Markdown{more}: keep all characters"
                ),
            );
        } else if let Some(line) = lost_indentation(&comparison) {
            findings.report(
                &[comparison.exchange, &comparison.page.html],
                format!(
                    "The code in the Markdown lacks the indentation of `{}` in the HTML: keep white space",
                    excerpt(line, 12)
                ),
            );
        }
    }
}
