//! A GET to an operation with POST is refused.

use std::sync::Arc;

use frontdesk_convert::Url;
use http::StatusCode;
use http::header::ALLOW;

use crate::exchange::Exchange;
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-method-not-allowed",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "GET on an operation that is described for POST only returns 405 with `Allow`, or 404.",
    matters: "405 with `Allow` says which method is right (RFC 9110 §15.5.6). A server error says that the \
              service failed, and a page with 200 that all is well.",
    hurts: "Agents and people, who do not learn the right method.",
    fixes: &[
        Fix { platform: Platform::Any, text: "Return 405 with `Allow: POST`." },
        Fix {
            platform: Platform::Nginx,
            text: "`limit_except` returns 403. Pass GET to the application, or `if ($request_method = GET) { \
                   add_header Allow POST always; return 405; }`.",
        },
    ],
    check,
};

/// Judges GET requests to operations that describe only POST. A 500 has the severity of the rule; 405
/// without `Allow`, and an HTML page that has no form for the operation, are advice.
fn check(survey: &Survey, findings: &mut Findings) {
    for tested in survey.forms.operations.iter().filter(|tested| !tested.describes_get) {
        let Some(get) = &tested.get else { continue };
        let Some(response) = get.response() else { continue };
        let (status, path) = (response.status, tested.url.path());
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            findings.report(&[get], format!("GET {path} returns 500: return 405 with `Allow: POST`"));
        } else if status == StatusCode::METHOD_NOT_ALLOWED && response.header(ALLOW).is_empty() {
            let message = format!("GET {path} returns 405 without `Allow`: `Allow: POST` is required");
            findings.report_as(Severity::Advice, &[get], message);
        } else if status == StatusCode::OK && response.is_page() && !has_form(get, &tested.url) {
            let message = format!(
                "GET {path} returns 200 with an HTML page to a client that requested JSON: return 405"
            );
            findings.report_as(Severity::Advice, &[get], message);
        }
    }
}

/// Whether the response is a page with a form that sends POST to the path of the operation: people use the
/// operation at the same URL.
fn has_form(get: &Arc<Exchange>, operation: &Url) -> bool {
    let Some(page) = Page::read(get) else { return false };
    page.select("form[method=post i]").iter().any(|form| {
        // An empty `action` means the page itself, regardless of `<base>`.
        let action = form.attribute("action").unwrap_or_default().trim();
        let target = if action.is_empty() { Some(page.url.clone()) } else { page.resolve(action) };
        target.is_some_and(|target| target.path() == operation.path())
    })
}
