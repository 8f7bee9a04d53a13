//! Invalid submissions are refused.

use super::shared::report_accepted;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-invalid-accepted",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "An operation does not accept a body that is no JSON, or that lacks what its description \
             requires.",
    matters: "The sender believes that the message arrived (RFC 9110 §15.3), but there is none. An agent \
              would not try again.",
    hurts: "People, whose message is lost with a thank-you.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Validate the body against the description, and answer 400 or 422 with a sentence that \
                   names the faulty fields.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    for tested in &survey.forms.operations {
        report_accepted(tested.malformed.as_ref(), "`{` (no JSON)", "400", findings);
        report_accepted(tested.empty.as_ref(), "`{}` (required fields are missing)", "400 or 422", findings);
    }
}
