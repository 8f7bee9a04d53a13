//! Markdown is sent as `text/markdown`.

use super::shared::texts;
use crate::exchange::Representation;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
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

fn check(survey: &Survey, findings: &mut Findings) {
    for (exchange, response) in texts(survey) {
        let kind = response.media_type();
        let is_asked = exchange
            .request
            .headers
            .iter()
            .any(|(_, value)| value.to_str().is_ok_and(|value| value.contains("text/markdown")));
        let is_markdown = is_asked || exchange.url().path().ends_with(".md");
        let is_other = matches!(&*kind, "" | "text/plain" | "application/octet-stream" | "text/x-markdown");
        if is_markdown && is_other && response.representation() != Representation::Html {
            let kind = if kind.is_empty() { "no `Content-Type`".to_owned() } else { format!("`{kind}`") };
            findings.report(&[exchange], format!("The Markdown has {kind} instead of `text/markdown`"));
        }
    }
}
