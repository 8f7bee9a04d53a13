//! The Markdown has the text of the HTML.

use super::comparison::Comparison;
use crate::finding::Severity;
use crate::rule::{Findings, Fix, Group, Platform, Rule};
use crate::survey::Survey;
use crate::words::excerpt;

pub(super) static RULE: Rule = Rule {
    id: "markdown-text-missing",
    group: Group::Parity,
    severity: Severity::Broken,
    checks: "The Markdown has each paragraph of the HTML, without menus, footers and comments.",
    matters: "Both are representations of one resource (RFC 9110 §3.2): a client that prefers one must \
              not miss what the other says.",
    hurts: "Agents, which answer without the missing text.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Generate the Markdown from the same source as the HTML, after includes, \
                   components and data are expanded.",
        },
        Fix {
            platform: Platform::Frontdesk,
            text: "Leave out your own Markdown of the page: `frontdesk serve` converts the HTML.",
        },
    ],
    check,
};

/// From this number of missing words on, or [`BROKEN_SHARE`] of the prose, a finding is not only advice.
const BROKEN_WORDS: usize = 25;
const BROKEN_SHARE: f64 = 0.1;

fn check(survey: &Survey, findings: &mut Findings) {
    for comparison in Comparison::all(survey) {
        let (missing, total) = comparison.missing();
        let Some(first) = missing.iter().find(|lost| lost.is_inside).or(missing.first()) else { continue };
        let count = |is_counted: bool| -> usize {
            missing.iter().filter(|lost| lost.is_inside || is_counted).map(|lost| lost.words).sum()
        };
        // What follows the content may be comments or related pages, which the Markdown need not have.
        let (inside, all) = (count(false), count(true));
        let is_broken = inside >= BROKEN_WORDS
            || (inside > 0 && inside as f64 >= BROKEN_SHARE * total as f64)
            || all * 2 > total;
        let severity = if is_broken { Severity::Broken } else { Severity::Advice };
        let text = excerpt(&first.block.text, 14);
        findings.report_as(
            severity,
            &[comparison.exchange, &comparison.page.html],
            format!("The Markdown lacks {all} of {total} words that the HTML shows, first: “{text}”"),
        );
    }
}
