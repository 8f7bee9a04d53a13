//! Pages fit the screens of phones.

use super::shared::{has_value, report_lacking};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "viewport-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "A page has a `<meta name=\"viewport\">`.",
    matters: "Without it, phones draw the page as wide as a desktop window, with tiny text.",
    hurts: "People with phones, who see tiny text.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Add `<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">`.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let message = "The page has no `<meta name=\"viewport\">`, so phones show it as wide as a desktop \
                   window: add it";
    report_lacking(survey, findings, "meta[name=viewport i]", |meta| has_value(meta, "content"), message);
}
