//! A client that accepts neither HTML nor Markdown learns that, or gets the page.

use crate::exchange::Representation;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "not-acceptable",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A client that accepts no representation of a page gets 406, or the HTML.",
    matters: "A server answers 406, or disregards `Accept` (RFC 9110 §12.5.1, §15.5.7). With 404, a client \
              believes that there is no such page; with 5xx, that the server is broken.",
    hurts: "Feed readers and programs that ask for other types, and operators, whose monitoring counts \
            errors.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Answer 406 with a short text that names the available types, or send the HTML with status \
               200.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let Some(exchange) = &survey.caches.not_acceptable else { return };
    let Some(response) = exchange.response() else { return };
    let status = response.status;
    if status == 404 || status == 410 || status.is_server_error() {
        let message = format!("A client that accepts only PDF gets {status}; 406 or the HTML would be right");
        findings.report(&[exchange], message);
    } else if status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 406 | 429) {
        let message = format!("A client that accepts only PDF gets {status}; 406 is the status for this");
        findings.report_as(Severity::Advice, &[exchange], message);
    } else if status == 200 && response.representation() == Representation::Markdown {
        let message = "A client that accepts only PDF gets Markdown; 406 or the HTML would be right";
        findings.report_as(Severity::Advice, &[exchange], message);
    }
}
