//! Each documented operation exists.

use super::shared::{name, refusals};
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-path-missing",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "A documented operation does not return 404, 405 or 501 to its method.",
    matters: "The description promises that the operation exists. An agent that calls it fails (RFC 9110 \
              §15.5.5, §15.5.6).",
    hurts: "Agents, which cannot do what a person asked of them.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Correct the path or `servers` in the description, or deploy the operation. Behind a proxy, \
               forward the path without changing it.",
    }],
    check,
};

/// Reports each operation that refuses an invalid body with 404, 405, 410 or 501, once, unless the
/// description has exactly this status. Operations that were not tested are noted as not judged.
fn check(survey: &Survey, findings: &mut Findings) {
    for (reason, names) in &survey.forms.skipped {
        let more = if names.len() > 1 { format!(" and {} others", names.len() - 1) } else { String::new() };
        findings.not_judged(format!("{}{more} of the API: {reason}", names[0]));
    }
    for tested in &survey.forms.operations {
        for (exchange, response) in refusals(tested) {
            let status = response.status.as_u16();
            if matches!(status, 404 | 405 | 410 | 501) && !tested.responses.documents_exactly(response.status)
            {
                let message = format!(
                    "The description has {}, which returns {status}: correct the description, or deploy the \
                     operation",
                    name(tested)
                );
                findings.report_at(Severity::Broken, tested.url.as_str(), &[exchange], message);
                break;
            }
        }
    }
}
