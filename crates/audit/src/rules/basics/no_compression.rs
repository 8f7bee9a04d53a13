//! Text is compressed.

use http::header::CACHE_CONTROL;

use crate::finding::Severity;
use crate::rule::{Findings, Fix, Group, Platform, Rule};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "no-compression",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "HTML and Markdown of more than 2,000 bytes are compressed for clients that accept gzip.",
    matters: "Text shrinks to a third or less (RFC 9110 §8.4).",
    hurts: "People with slow connections, and operators, who pay for traffic.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Enable gzip, brotli or zstd for text, with `Vary: Accept-Encoding`.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`gzip on; gzip_vary on; gzip_proxied any; gzip_types text/markdown text/plain text/css \
                   application/javascript application/json;` (HTML is always included).",
        },
        Fix { platform: Platform::Caddy, text: "`encode zstd gzip`" },
        Fix {
            platform: Platform::Apache,
            text: "`AddOutputFilterByType DEFLATE text/html text/markdown text/plain text/css \
                   application/javascript`",
        },
    ],
    check,
};

/// Shorter texts fit into few packets anyway.
const MIN_LENGTH: usize = 2_000;

fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.basis.pages {
        for exchange in [Some(&page.html), page.agent.as_ref()].into_iter().flatten() {
            let Some(response) = exchange.success() else { continue };
            let is_permitted = !response.header(CACHE_CONTROL).contains("no-transform");
            if response.body.len() > MIN_LENGTH && response.encoding().is_empty() && is_permitted {
                let length = response.body.len();
                let message = format!("{length} bytes of {} are not compressed", response.media_type());
                findings.report(&[exchange], message);
            }
        }
    }
}
