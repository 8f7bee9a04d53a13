//! A valid submission is accepted.

use http::StatusCode;

use super::shared::name;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-valid-refused",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "An operation returns a documented status of 200 to 299 for a body that its description allows. \
             Tested only with `--submit`.",
    matters: "The description is all that an agent knows of the operation (OpenAPI Specification, \
              \"Request Body Object\").",
    hurts: "Agents, whose correct request fails.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Describe everything that the operation requires, such as fields, formats and lengths, and \
               document the success status.",
    }],
    check,
};

/// Judges the submissions that were sent. A 5xx status has the severity of the rule; a 4xx status other
/// than 429, and an undocumented 2xx status, are advice. Redirects are not reported.
fn check(survey: &Survey, findings: &mut Findings) {
    for tested in &survey.forms.operations {
        let Some(submission) = &tested.submission else { continue };
        let Some(response) = submission.response() else { continue };
        let (status, name) = (response.status, name(tested));
        if status.is_server_error() {
            let message = format!(
                "{name} returns {} for a valid submission: return a documented status from 200 to 299",
                status.as_u16()
            );
            findings.report(&[submission], message);
        } else if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
            let message = format!(
                "{name} returns {} for a submission that its description allows: accept it, or describe what \
                 is required",
                status.as_u16()
            );
            findings.report_as(Severity::Advice, &[submission], message);
        } else if status.is_success() && tested.responses.documented(status).is_none() {
            let message = format!(
                "{name} accepts a submission with the status {}, which its description lacks: document it",
                status.as_u16()
            );
            findings.report_as(Severity::Advice, &[submission], message);
        }
    }
}
