//! `Content-Type` says what the body is.

use super::shared::texts;
use crate::exchange::{Representation, Response};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "content-type-untrue",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A body that is sent as Markdown is Markdown, and a body that is sent as HTML is HTML.",
    matters: "Clients choose by `Content-Type` how to read a body (RFC 9110 §8.3).",
    hurts: "Agents, which read markup as Markdown; people, who see Markdown as one paragraph.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Set `Content-Type` where the representation is chosen. Return 404 for a missing `.md` file, \
               not a fallback page.",
    }],
    check,
};

/// Reports, among the decoded 200 responses for pages and their twins ([`texts`]), HTML that is declared as
/// Markdown, and obvious Markdown ([`is_plain_markdown`]) that is declared as HTML.
fn check(survey: &Survey, findings: &mut Findings) {
    for (exchange, response) in texts(survey) {
        let (claimed, is) = (response.media_type(), response.representation());
        if claimed.ends_with("markdown") && is == Representation::Html {
            findings.report(
                &[exchange],
                format!("The body is HTML, but `Content-Type` is `{claimed}`: use `text/html`"),
            );
        } else if claimed == "text/html" && is_plain_markdown(response) {
            findings.report(
                &[exchange],
                "The body is Markdown, but `Content-Type` is `text/html`: use `text/markdown`",
            );
        }
    }
}

/// Whether a body starts with a Markdown heading or front matter and has none of the usual HTML tags.
fn is_plain_markdown(response: &Response) -> bool {
    let text = response.text();
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let lower = text.to_ascii_lowercase();
    let has_tags =
        ["<html", "<body", "<p>", "<p ", "<div", "<main", "<h1"].iter().any(|tag| lower.contains(tag));
    !has_tags && (text.starts_with("# ") || text.starts_with("---\n") || text.starts_with("---\r\n"))
}
