//! Documented operations with GET work.

use serde_json::Value;

use crate::exchange::Response;
use crate::openapi::is_json;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::forms::DescribedResponses;

pub(super) static RULE: Rule = Rule {
    id: "api-get-broken",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "An operation with GET that needs no parameters exists, and returns a documented media type.",
    matters: "The description promises that the operation works. An agent that calls it fails (OpenAPI \
              Specification, \"Responses Object\").",
    hurts: "Agents, which cannot read what the description promises.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Correct the path, `servers` or the media type in the description, or deploy the operation.",
    }],
    check,
};

/// Reports the 404, 405, 410 or 5xx of the requested operation unless the description has exactly this
/// status, or a 200 with an undocumented media type.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(tested) = &survey.forms.get else { return };
    let Some(response) = tested.exchange.response() else { return };
    let (path, status) = (tested.exchange.url().path(), response.status);
    let is_failure = matches!(status.as_u16(), 404 | 405 | 410) || status.is_server_error();
    if is_failure && !tested.responses.documents_exactly(status) {
        let message = format!(
            "The API description has GET {path}, which returns {}: correct the description, or deploy the operation",
            status.as_u16()
        );
        findings.report(&[&tested.exchange], message);
    } else if status == 200
        && let Some((severity, kind)) = wrong_type(&tested.responses, response)
    {
        let documented = tested.responses.media_types(status).join(" or ");
        let message = format!("GET {path} returns {kind}, but its description has {documented}");
        findings.report_as(severity, &[&tested.exchange], message);
    }
}

/// The media type of a response, if it is not documented. Advice if the body is JSON as documented, or
/// incomplete.
fn wrong_type(responses: &DescribedResponses, response: &Response) -> Option<(Severity, String)> {
    let documented = responses.media_types(response.status);
    let kind = response.media_type();
    let is_kind = |range: &&str| {
        let range = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        range == "*/*"
            || range == kind
            || range.strip_suffix('*').is_some_and(|start| start.ends_with('/') && kind.starts_with(start))
    };
    if documented.iter().any(is_kind) {
        return None;
    }
    let is_readable = documented.iter().any(|range| is_json(range))
        && serde_json::from_slice::<Value>(&response.body).is_ok();
    let severity = if is_readable || !response.is_whole { Severity::Advice } else { Severity::Broken };
    Some((severity, if kind.is_empty() { "no `Content-Type`".to_owned() } else { kind }))
}
