//! `Content-Type` says what the body is.

use super::shared::texts;
use crate::exchange::{Representation, Response};
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "content-type-untrue",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A body that is called Markdown is Markdown, and one that is called HTML is HTML.",
    matters: "Clients choose by `Content-Type` how to read a body (RFC 9110 §8.3): an agent takes HTML for \
              Markdown, or a browser shows Markdown as one paragraph.",
    hurts: "Agents and people.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Set `Content-Type` where the representation is chosen. If a fallback page answers for a \
               missing `.md` file, answer with 404 instead.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    for (exchange, response) in texts(survey) {
        let (claimed, is) = (response.media_type(), response.representation());
        if claimed.ends_with("markdown") && is == Representation::Html {
            findings.report(&[exchange], format!("The body is HTML, but `Content-Type` is `{claimed}`"));
        } else if claimed == "text/html" && is_plain_markdown(response) {
            findings.report(&[exchange], "The body is Markdown, but `Content-Type` is `text/html`");
        }
    }
}

/// Whether a body begins as only Markdown does and has no tag of a page.
fn is_plain_markdown(response: &Response) -> bool {
    let text = response.text();
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let lower = text.to_ascii_lowercase();
    let has_tags =
        ["<html", "<body", "<p>", "<p ", "<div", "<main", "<h1"].iter().any(|tag| lower.contains(tag));
    !has_tags && (text.starts_with("# ") || text.starts_with("---\n") || text.starts_with("---\r\n"))
}
