//! Invalid submissions are refused.

use super::shared::report_accepted;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-invalid-accepted",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "An operation refuses a body that is not JSON, or that lacks what its description requires.",
    matters: "A success status tells the sender that the message arrived (RFC 9110 §15.3), so an agent does \
              not try again. A redirect to a page with 200 looks the same.",
    hurts: "People, whose message is lost without an error.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Validate the body against the description, and return 400 or 422 with a sentence that names \
               the invalid fields.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    for tested in &survey.forms.operations {
        report_accepted(tested.malformed.as_ref(), "`{` (not JSON)", "400", findings);
        report_accepted(tested.empty.as_ref(), "`{}` (required fields are missing)", "400 or 422", findings);
    }
}
