//! Pages have a description.

use super::shared::{has_value, report_lacking};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "description-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "A page has a `<meta name=\"description\">`.",
    matters: "Search results, link previews and generators of `llms.txt` show it. Without it, they show an \
              arbitrary excerpt.",
    hurts: "People and agents, who choose pages by it.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Add `<meta name=\"description\" content=\"…\">` with a sentence about this page.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let message = "The page has no `<meta name=\"description\">` with text: add a sentence about the page";
    report_lacking(survey, findings, "meta[name=description i]", |meta| has_value(meta, "content"), message);
}
