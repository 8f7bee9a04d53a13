//! The feed that a page declares is a feed.

use crate::exchange::Response;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::xml;

pub(super) static RULE: Rule = Rule {
    id: "feed-invalid",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The feed that a page declares is RSS, Atom or JSON Feed.",
    matters: "Feed readers reject other documents (RFC 4287).",
    hurts: "People and agents that follow the news, who get none.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Escape `&` and `<` in the feed, write nothing before `<?xml`, and exclude its URL from the fallback to a \
               page.",
    }],
    check,
};

/// Checks the requested feeds. Skips incomplete responses, and statuses other than 200.
fn check(survey: &Survey, findings: &mut Findings) {
    for followed in &survey.links.feeds {
        let response = followed.last().success().filter(|response| response.is_whole);
        if let Some(fault) = response.and_then(fault) {
            findings.report(
                &[followed.last(), &followed.source],
                format!("The page declares {} as its feed, but the file {fault}", followed.target()),
            );
        }
    }
}

/// The fault of a feed, as a clause. Checks only the syntax, that no white space precedes `<?xml`, and that
/// JSON has `items` or XML the root element of a feed. `None` also for XML that is too large to be parsed.
fn fault(response: &Response) -> Option<String> {
    let text = response.text();
    let is_late = xml::has_late_declaration(&text);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with('{') {
        let parsed = serde_json::from_str::<serde_json::Value>(text);
        let is_feed = parsed.is_ok_and(|feed| feed.get("items").is_some());
        return (!is_feed).then(|| "is not a JSON Feed".to_owned());
    }
    // Permit a document type declaration (`true`): old feeds may declare entities in it.
    match xml::parse(text, true) {
        Err(roxmltree::Error::NodesLimitReached) => None,
        Err(error) => Some(format!("is not well-formed XML: {error}")),
        Ok(_) if is_late => Some("has white space before `<?xml`, which feed readers refuse".to_owned()),
        Ok(document) => {
            let name = document.root_element().tag_name().name();
            (!matches!(name, "rss" | "feed" | "RDF"))
                .then(|| format!("begins with `<{name}>`, not with `<rss>` or `<feed>`"))
        }
    }
}
