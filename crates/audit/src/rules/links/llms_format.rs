//! llms.txt has its form: a title, and lists of links.

use super::list_texts::llms_text;
use crate::markdown::{BlockKind, MarkdownPage};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "llms-format",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "`llms.txt` begins with a first-level heading and has links.",
    matters: "Programs read the name of the site and the links from this format (llmstxt.org).",
    hurts: "Agents and directories, which cannot read the file.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Begin with `# Name`, then a blockquote with a summary, then sections with lists of \
               `[title](https://example.com/page.md): what it says`.",
    }],
    check,
};

/// Reports only the first fault of `llms.txt`: no heading of level 1 at the beginning, or else no links.
/// Ignores a file that is HTML, binary or incomplete, or lacks status 200 ([`llms_text`]).
fn check(survey: &Survey, findings: &mut Findings) {
    let Some((llms, text)) = llms_text(survey) else { return };
    let parsed = MarkdownPage::parse(&text);
    let has_title = parsed.blocks.first().is_some_and(|block| block.kind == BlockKind::Heading(1));
    let message = match (has_title, parsed.links.is_empty()) {
        (true, false) => return,
        (false, _) => "llms.txt does not begin with a heading: its first line must be `# Name of the site`",
        (true, true) => "llms.txt has no links: list the pages as `- [title](URL): what it says`",
    };
    findings.report(&[llms], message);
}
