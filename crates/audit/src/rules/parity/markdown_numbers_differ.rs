//! The numbers in the Markdown are those of the HTML.

use super::changing_text::OtherResponses;
use super::comparison::{CONVERT, Comparison, SENTENCE};
use super::numbers::differences;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::words::excerpt;

pub(super) static RULE: Rule = Rule {
    id: "markdown-numbers-differ",
    group: Group::Parity,
    severity: Severity::Broken,
    checks: "Paragraphs and rows of tables have the same numbers in the Markdown and in the HTML.",
    matters: "A Markdown file that is written by hand, or that a cache keeps, is not updated with the page: \
              it states old prices, versions and limits.",
    hurts: "Agents, which quote wrong numbers; people, who rely on them.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Make the HTML and the Markdown from one source, and purge both from caches when it changes.",
        },
        CONVERT,
    ],
    check,
};

/// A finding is broken if at least this many numbers in sentences differ. Fewer may be counters that a cache
/// has not updated.
const MANY: usize = 3;

/// Reports the first number that differs in each compared page, and how many more. Broken if one is exact, or
/// if many in sentences differ. Texts around the content, or that change with each request, do not count.
/// Skips Markdown that is another text ([`Comparison::is_other_text`]).
fn check(survey: &Survey, findings: &mut Findings) {
    for comparison in Comparison::all(survey).iter().filter(|comparison| !comparison.is_other_text()) {
        let responses = OtherResponses::new(survey, comparison);
        let mut found = differences(&comparison.page.reference, comparison.markdown);
        found.retain(|own| {
            !comparison.is_surrounding(&own.html.text)
                && !responses.differ(&own.html.text, &own.markdown.text)
        });
        let Some(first) = found.first() else { continue };
        let sentences = found.iter().filter(|own| own.html.words >= SENTENCE);
        let is_broken = found.iter().flat_map(|own| &own.numbers).any(|(html, _)| html.is_exact)
            || sentences.map(|own| own.numbers.len()).sum::<usize>() >= MANY;
        let severity = if is_broken { Severity::Broken } else { Severity::Advice };
        let (html, markdown) = &first.numbers[0];
        let more = found.iter().map(|own| own.numbers.len()).sum::<usize>() - 1;
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        findings.report_as(
            severity,
            &[comparison.exchange, &comparison.page.html],
            format!(
                "The Markdown has the number {} where the HTML has {}, in “{}”{more}",
                markdown.written,
                html.written,
                excerpt(&first.html.text, 14)
            ),
        );
    }
}
