//! Each documented operation exists.

use super::shared::{name, redirect_that_loses_body, refusals};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-path-missing",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "A documented operation does not return 404, 405, 410 or 501 to its method, and does not redirect it with \
             301 or 302 only to add or remove `/` at the end, or to change the scheme or host.",
    matters: "The description promises that the operation exists. An agent that calls it fails (RFC 9110 \
              §15.5.5, §15.5.6). Clients follow these redirects with GET, without the body (§15.4.2).",
    hurts: "Agents, which cannot do what a person asked of them.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Correct the path or `servers` in the description, or deploy the operation. Behind a proxy, \
               forward the path without changing it. Redirect a POST with 308.",
    }],
    check,
};

/// Reports each operation that refuses an invalid body with 404, 405, 410 or 501, or loses it with a
/// redirect, once, unless the description has exactly this status. Operations that were not tested are noted
/// as not judged.
fn check(survey: &Survey, findings: &mut Findings) {
    for (reason, names) in &survey.forms.skipped {
        let more = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
        findings.not_judged(format!("{}{more} of the API: {reason}", names[0]));
    }
    for tested in &survey.forms.operations {
        for (exchange, response) in refusals(tested) {
            let status = response.status.as_u16();
            let lost = redirect_that_loses_body(exchange);
            let is_missing = matches!(status, 404 | 405 | 410 | 501) || lost.is_some();
            if is_missing && !tested.responses.documents_exactly(response.status) {
                let (what, repair) = match lost {
                    Some(to) => (format!(" to {to}, which clients request with GET"), "redirect with 308"),
                    None => (String::new(), "deploy the operation"),
                };
                let message = format!(
                    "The API description has {}, which returns {status}{what}: correct the description, or {repair}",
                    name(tested)
                );
                findings.report_at(Severity::Broken, tested.url.as_str(), &[exchange], message);
                break;
            }
        }
    }
}
