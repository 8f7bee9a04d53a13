//! A body of an undocumented type is refused.

use super::shared::report_accepted;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-media-type-accepted",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "An operation that takes JSON refuses a body that is `text/plain`.",
    matters: "The server reports success for a format that it does not document; 415 is right (RFC 9110 \
              §15.5.16). Plain text also needs no CORS preflight, so any site can send it from a visitor's \
              browser.",
    hurts: "People, whose message is lost; operators, who get forged messages.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Compare `Content-Type` with the documented types before you read the body, and return 415.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    for tested in &survey.forms.operations {
        report_accepted(tested.wrong_type.as_ref(), "`{` as `text/plain`", "415", findings);
    }
}
