//! Text is compressed.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "no-compression",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "HTML and Markdown of more than 2,000 bytes are compressed for clients that accept gzip.",
    matters: "Compression shrinks text to a third or less (RFC 9110 §8.4).",
    hurts: "People with slow connections, who wait; operators, who pay for traffic.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Enable gzip, brotli or zstd for text, with `Vary: Accept-Encoding`.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`gzip on; gzip_vary on; gzip_proxied any; gzip_types text/markdown text/plain text/css \
                   text/javascript application/javascript application/json;` (HTML is always included).",
        },
        Fix { platform: Platform::Caddy, text: "`encode zstd gzip`" },
        Fix {
            platform: Platform::Apache,
            text: "`AddOutputFilterByType DEFLATE text/html text/markdown text/plain text/css \
                   text/javascript application/javascript` (mod_deflate, mod_filter).",
        },
    ],
    check,
};

/// Bodies of up to this many bytes need no compression, because it would hardly save any packets.
const MAX_UNCOMPRESSED: usize = 2_000;

/// Reports the uncompressed 200 responses for pages, to browsers and agents, that have more than
/// [`MAX_UNCOMPRESSED`] bytes: only the first of each media type, because compression is a setting of the
/// server. Skips responses with `no-transform`.
fn check(survey: &Survey, findings: &mut Findings) {
    let mut reported = Vec::new();
    let pages = survey.first_requests.pages.iter();
    for exchange in pages.flat_map(|page| [Some(&page.html), page.agent.as_ref()]).flatten() {
        let Some(response) = exchange.success() else { continue };
        let (kind, length) = (response.media_type(), response.body.len());
        let is_permitted = response.cache_directive("no-transform").is_none();
        let is_plain = response.encoding().is_empty() && length > MAX_UNCOMPRESSED && is_permitted;
        if is_plain && !reported.contains(&kind) {
            findings.report(
                &[exchange],
                format!(
                    "A client that accepts gzip got {length} bytes of {kind} uncompressed: compress them"
                ),
            );
            reported.push(kind);
        }
    }
}
