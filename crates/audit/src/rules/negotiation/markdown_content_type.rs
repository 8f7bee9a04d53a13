//! Markdown is sent as `text/markdown`.

use std::sync::Arc;

use super::shared::texts;
use crate::exchange::{Representation, is_almost_markdown};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "markdown-content-type",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "Markdown has the media type `text/markdown`.",
    matters: "The media type is registered (RFC 7763). Agents look for it; browsers download \
              `application/octet-stream`.",
    hurts: "Agents, which do not recognize the Markdown.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Send `Content-Type: text/markdown; charset=utf-8` with Markdown.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`location ~ \\.md$ { types { text/markdown md; } charset utf-8; charset_types \
                   text/markdown; }`",
        },
        Fix { platform: Platform::Apache, text: "`AddType text/markdown .md` and `AddCharset utf-8 .md`." },
        Fix {
            platform: Platform::Netlify,
            text: "In `_headers`, under `/*.md`: `Content-Type: text/markdown; charset=utf-8`.",
        },
        Fix {
            platform: Platform::Cloudflare,
            text: "Pages: in `_headers`, under `/*.md`: `Content-Type: text/markdown; charset=utf-8`.",
        },
    ],
    check,
};

/// Reports each decoded 200 response ([`texts`]) to an agent, from a twin, or to a browser at a path that
/// ends with `.md`, if it is not HTML and has a usual substitute for `text/markdown`, such as `text/plain` or
/// no type. Broken only if a response to an agent is `application/octet-stream`.
fn check(survey: &Survey, findings: &mut Findings) {
    for (exchange, response) in texts(survey) {
        let is_page = survey.first_requests.pages.iter().any(|page| Arc::ptr_eq(&page.html, exchange));
        let is_markdown = !is_page || exchange.url().path().ends_with(".md");
        let kind = response.media_type();
        if is_markdown && is_almost_markdown(&kind) && response.representation() != Representation::Html {
            // Browsers save `application/octet-stream` as a file instead of showing the page, and agents
            // refuse it.
            let mut agents = survey.first_requests.pages.iter().filter_map(|page| page.agent.as_ref());
            let is_negotiated = agents.any(|agent| Arc::ptr_eq(agent, exchange));
            let is_refused = is_negotiated && kind == "application/octet-stream";
            let severity = if is_refused { Severity::Broken } else { Severity::Advice };
            let kind = if kind.is_empty() { "no `Content-Type`".to_owned() } else { format!("`{kind}`") };
            findings.report_as(
                severity,
                &[exchange],
                format!("The Markdown has {kind} instead of `text/markdown`"),
            );
        }
    }
}
