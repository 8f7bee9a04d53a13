//! A client that accepts neither HTML nor Markdown gets 406 or the HTML.

use crate::exchange::Representation;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "not-acceptable",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A client that accepts neither HTML nor Markdown gets 406 or the HTML.",
    matters: "A server may return 406 or disregard `Accept` (RFC 9110 §12.5.1, §15.5.7). A 404 says that the \
              page does not exist, a 5xx that the server failed, and 200 without a body that the page is \
              empty.",
    hurts: "Feed readers and programs, which misread the status; operators, who get false alerts.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Return 406 with a short text that names the available types, or the HTML with 200.",
    }],
    check,
};

/// Judges the response to a client that accepts only PDF: 404, 410, 5xx and a 2xx without a body are broken;
/// other 4xx, a 200 with Markdown, and a 406 without a body are advice. Redirects, 401, 403, 429 and a 406
/// with a body are no finding.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(exchange) = &survey.caches.not_acceptable else { return };
    let Some(response) = exchange.response() else { return };
    let status = response.status;
    let is_empty = response.is_whole && response.encoded_length == 0;
    if status == 404 || status == 410 || status.is_server_error() {
        let message = format!("A client that accepts only PDF gets {status}: return 406 or the HTML");
        findings.report(&[exchange], message);
    } else if status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 406 | 429) {
        let message = format!("A client that accepts only PDF gets {status}: return 406 or the HTML");
        findings.report_as(Severity::Advice, &[exchange], message);
    } else if status == 200 && response.representation() == Representation::Markdown {
        let message = "A client that accepts only PDF gets Markdown: return 406 or the HTML";
        findings.report_as(Severity::Advice, &[exchange], message);
    } else if status.is_success() && is_empty {
        let message =
            format!("A client that accepts only PDF gets {status} without a body: return 406 or the HTML");
        findings.report(&[exchange], message);
    } else if status == 406 && is_empty {
        let message = "A client that accepts only PDF gets 406 without a body: name the available types";
        findings.report_as(Severity::Advice, &[exchange], message);
    }
}
