//! Errors have the documented form.

use serde_json::Value;

use super::shared::{name, refusals};
use crate::exchange::Response;
use crate::openapi::{OpenApi, is_json};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::forms::TestedOperation;

pub(super) static RULE: Rule = Rule {
    id: "api-error-format",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "A client that requests JSON gets errors in the documented JSON format, not as an HTML page.",
    matters: "An agent reads the reason from the documented format (OpenAPI Specification, \"Response \
              Object\", or RFC 9457), and cannot correct its request without it.",
    hurts: "Agents, which do not learn what was wrong.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Return errors of an API as JSON, such as `{\"error\": \"`email` is required.\"}` or \
                   problem details (RFC 9457).",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`proxy_intercept_errors off;` for the API, so that error pages do not replace its \
                   responses.",
        },
    ],
    check,
};

/// Reports each response to an invalid POST, with the status 400, 409, 413, 415 or 422, whose body has a
/// [`fault`].
fn check(survey: &Survey, findings: &mut Findings) {
    for tested in &survey.forms.operations {
        for (exchange, response) in refusals(tested) {
            // Responses with other statuses usually come from a proxy or a framework, not from the operation.
            if !matches!(response.status.as_u16(), 400 | 409 | 413 | 415 | 422) {
                continue;
            }
            if let Some((severity, fault)) = fault(survey.files.api.as_ref(), tested, response) {
                let message = format!("{} returns {} {fault}", name(tested), response.status.as_u16());
                findings.report_as(severity, &[exchange], message);
            }
        }
    }
}

/// A clause that says what is wrong with the body of an error: it is an HTML page (advice if the description
/// documents one), it is not JSON although only JSON is documented, or, as advice, it lacks a property that
/// the schema requires. Without a documented JSON body, only an HTML page is wrong.
fn fault(api: Option<&OpenApi>, tested: &TestedOperation, response: &Response) -> Option<(Severity, String)> {
    let content = tested
        .responses
        .documented(response.status)
        .and_then(|described| described.get("content")?.as_object());
    let is_html = |kind: &String| kind.starts_with("text/html");
    if response.is_page() {
        let is_documented = content.is_some_and(|content| content.keys().any(is_html));
        let severity = if is_documented { Severity::Advice } else { Severity::Broken };
        return Some((severity, "with an HTML page to a client that requested JSON: send JSON".to_owned()));
    }
    let (_, media) = content?.iter().find(|(kind, _)| is_json(kind))?;
    let Ok(body) = serde_json::from_slice::<Value>(&response.body) else {
        let is_only = content?.keys().all(|kind| is_json(kind));
        return is_only.then(|| {
            (Severity::Broken, "with a body that is not JSON, although the description says so".to_owned())
        });
    };
    let schema = api?.resolve(media.get("schema")?)?;
    let required = schema.get("required")?.as_array()?.iter().filter_map(Value::as_str);
    let missing = required.into_iter().find(|name| body.get(name).is_none())?;
    Some((Severity::Advice, format!("without `{missing}`, which its description requires")))
}
