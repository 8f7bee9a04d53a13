//! Pages declare their language.

use frontdesk_convert::HtmlElement;

use super::shared::{has_value, report_lacking};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "language-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "The `<html>` element has `lang`.",
    matters: "Screen readers choose the voice by it, browsers offer a translation, and search engines \
              choose the audience (WCAG 3.1.1, HTML §3.2.6.2).",
    hurts: "People who use screen readers or translation, who get the wrong language.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Declare the language, for example `<html lang=\"en\">`.",
    }],
    check,
};

/// Reports each page whose `<html>` has neither `lang` nor `xml:lang`, or only blank values.
fn check(survey: &Survey, findings: &mut Findings) {
    let is_declared = |html: HtmlElement<'_>| has_value(html, "lang") || has_value(html, "xml:lang");
    report_lacking(survey, findings, "html", is_declared, "`<html>` has no `lang`: declare the language");
}
