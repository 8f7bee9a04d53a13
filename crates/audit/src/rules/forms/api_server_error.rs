//! Invalid submissions do not cause server errors.

use http::StatusCode;

use super::shared::{name, refusals};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-server-error",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "An operation returns a status of 400 to 499 for an invalid body.",
    matters: "A server error says that the same request may succeed later (RFC 9110 §15.6): agents repeat \
              it, and do not learn what is wrong.",
    hurts: "Agents, which repeat a request that cannot succeed; operators, who get false alerts.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Catch errors of parsing and validation, and return 400 or 422.",
    }],
    check,
};

/// Reports each operation that responds to an invalid body with 500. Ignores other 5xx statuses.
fn check(survey: &Survey, findings: &mut Findings) {
    for tested in &survey.forms.operations {
        for (exchange, response) in refusals(tested) {
            if response.status == StatusCode::INTERNAL_SERVER_ERROR {
                let message = format!("{} returns 500 for an invalid body: return 400 or 422", name(tested));
                // A second finding about this operation is ignored, because its message is the same.
                findings.report_at(Severity::Broken, tested.url.as_str(), &[exchange], message);
            }
        }
    }
}
