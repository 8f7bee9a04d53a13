//! The Markdown begins with the title of the page.

use super::comparison::{CONVERT, Comparison};
use crate::markdown::BlockKind;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "markdown-title-missing",
    group: Group::Parity,
    severity: Severity::Advice,
    checks: "The Markdown has the title of the page: as a first-level heading or as `title` in the \
             front matter.",
    matters: "Agents that have read several pages tell them apart by their titles.",
    hurts: "Agents, which cannot name what they cite.",
    fixes: &[Fix { platform: Platform::Any, text: "Begin the Markdown with `# Title`." }, CONVERT],
    check,
};

/// Reports each compared page whose Markdown has no heading of level 1, no `<h1>`, and no `title` in its
/// front matter.
fn check(survey: &Survey, findings: &mut Findings) {
    for comparison in Comparison::all(survey) {
        let has_heading = comparison.markdown.headings.iter().any(|(level, _)| *level == 1);
        // The Markdown may also have its title as raw HTML, in an `<h1>`.
        let has_html = comparison.markdown.html.iter().any(|html| html.contains("<h1"));
        let is_declared = comparison.markdown.front_matter.lines().any(|line| line.starts_with("title"));
        if has_heading || has_html || is_declared {
            continue;
        }
        let first = comparison.markdown.blocks.first();
        let start = match first.map(|block| block.kind) {
            Some(BlockKind::Heading(level)) => format!("begins with a heading of level {level}"),
            _ => "has no first-level heading".to_owned(),
        };
        let title = comparison.page.converted.metadata.title.as_deref().unwrap_or("Title");
        findings.report(
            &[comparison.exchange],
            format!("The Markdown {start} and has no `title` in its front matter: begin it with `# {title}`"),
        );
    }
}
