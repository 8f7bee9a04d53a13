//! The statuses of errors are documented.

use super::shared::{name, refusals};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-error-undocumented",
    group: Group::Forms,
    severity: Severity::Advice,
    checks: "The API description lists each error's status in `responses`, or has `4XX` or `default` there.",
    matters: "An agent plans for the documented responses (OpenAPI Specification, \"Responses Object\").",
    hurts: "Agents, which do not know what to do next.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Add the status to `responses`, or a `default` response for all errors.",
    }],
    check,
};

/// Reports each refusal with a 4xx status that the description lacks, also as `4XX` or `default`, apart from
/// 401, 403, 404, 405, 410 and 429.
fn check(survey: &Survey, findings: &mut Findings) {
    for tested in &survey.forms.operations {
        for (exchange, response) in refusals(tested) {
            let status = response.status;
            // A proxy may send 401, 403 or 429, and another rule reports operations that do not exist (404,
            // 405, 410).
            let is_judged =
                status.is_client_error() && !matches!(status.as_u16(), 401 | 403..=405 | 410 | 429);
            if is_judged && tested.responses.documented(status).is_none() {
                let message = format!(
                    "{} returns {}, which its description lacks: add it to `responses`",
                    name(tested),
                    status.as_u16()
                );
                findings.report(&[exchange], message);
            }
        }
    }
}
