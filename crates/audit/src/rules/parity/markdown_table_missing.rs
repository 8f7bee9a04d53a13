//! The Markdown has the tables of the HTML.

use std::collections::BTreeSet;

use super::comparison::{CONVERT, Comparison};
use crate::markdown::Table;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::words::{excerpt, words};

pub(super) static RULE: Rule = Rule {
    id: "markdown-table-missing",
    group: Group::Parity,
    severity: Severity::Broken,
    checks: "The Markdown has the contents of the tables of the HTML, as tables or in another form.",
    matters: "Tables hold prices, limits and parameters. Without them, agents guess.",
    hurts: "Agents, which invent values; people, who rely on them.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Write tables as GitHub Flavored Markdown, also those that a component makes from data.",
        },
        CONVERT,
    ],
    check,
};

/// Minimum number of distinct cell texts of a compared table: smaller tables may be layout.
const MIN_CELLS: usize = 4;

/// Minimum percentage of missing cells for a table to count as missing.
const MISSING: usize = 50;

/// Minimum percentage of missing cells for a table to count as clearly missing.
const CLEARLY_MISSING: usize = 80;

/// Reports the first missing table of each compared page, and how many more. Broken if the heading of a
/// clearly missing table is there. Skips Markdown that is another text ([`Comparison::is_other_text`]).
fn check(survey: &Survey, findings: &mut Findings) {
    for comparison in Comparison::all(survey).iter().filter(|comparison| !comparison.is_other_text()) {
        let tables = comparison.page.reference.tables.iter();
        let missing: Vec<_> =
            tables.filter_map(|table| Some((table, missing_percentage(comparison, table)?))).collect();
        let [(first, _), ..] = missing[..] else { continue };
        // Report `Broken` only if a missing table's heading is present: a site may omit a whole section.
        let headings: Vec<_> = comparison.markdown.headings.iter().map(|(_, text)| words(text)).collect();
        let is_broken = missing.iter().any(|(table, percentage)| {
            *percentage >= CLEARLY_MISSING && headings.contains(&words(&table.heading))
        });
        let severity = if is_broken { Severity::Broken } else { Severity::Advice };
        let more = missing.len() - 1;
        let more = if more > 0 { format!(", and {more} more tables") } else { String::new() };
        let start =
            excerpt(&first.rows.iter().take(2).map(|row| row.join(" ")).collect::<Vec<_>>().join(" "), 14);
        findings.report_as(
            severity,
            &[comparison.exchange, &comparison.page.html],
            format!(
                "The Markdown lacks the table of {} rows that starts with “{start}” in the HTML{more}",
                first.rows.len()
            ),
        );
    }
}

/// The percentage of different cells that the Markdown lacks, apart from cells that several pages have.
/// `None` unless the table belongs to the content, is a grid of at least [`MIN_CELLS`] different cells, and
/// lacks at least [`MISSING`] percent.
fn missing_percentage(comparison: &Comparison<'_>, table: &Table) -> Option<usize> {
    let is_grid = table.rows.len() >= 2 && table.rows.iter().all(|row| row.len() >= 2);
    let cells: BTreeSet<_> = table.rows.iter().flatten().filter(|cell| !words(cell).is_empty()).collect();
    let is_surrounding = comparison.is_surrounding(&table.rows.concat().join(" "));
    if !is_grid || is_surrounding || cells.len() < MIN_CELLS {
        return None;
    }
    let lost = cells.iter().filter(|cell| !comparison.has(cell) && !comparison.is_recurring(cell)).count();
    Some(lost * 100 / cells.len()).filter(|percentage| *percentage >= MISSING)
}
