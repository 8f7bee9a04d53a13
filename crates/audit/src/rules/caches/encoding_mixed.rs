//! Clients get only codings that they accept.

use crate::cache_status::cache_evidence;
use crate::exchange::{Exchange, Response};
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "encoding-mixed",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "A client that accepts gzip, brotli or no compression gets that or plain bytes, and each is \
             declared.",
    matters: "A coding that `Accept-Encoding` does not name cannot be decoded by the client (RFC 9110 \
              §12.5.3), nor can one that `Content-Encoding` does not declare (§8.4).",
    hurts: "Agents and scripts that get unreadable bytes.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Compress only for clients that accept the coding, once, and send `Vary: \
                   Accept-Encoding`. A cache in between must respect it. Stored compressed files need a \
                   plain copy beside them.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`gunzip on;` with `gzip_static always;`, and `gzip_vary on;`. Remove `Vary` from \
                   `proxy_ignore_headers`.",
        },
    ],
    check,
};

/// The codings that change bytes. Browsers ignore other values, such as `utf-8`.
const COMPRESSIONS: [&str; 5] = ["gzip", "br", "deflate", "compress", "zstd"];

/// The first bytes of gzip (RFC 1952 §2.3.1).
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// Reports one finding: a cache that mixes up one coding mixes up the others, too.
fn check(survey: &Survey, findings: &mut Findings) {
    if let Some(reason) = survey.caches.fresh_refusal() {
        findings.not_judged(reason);
    }
    for exchange in &survey.caches.encodings {
        let Some(response) = exchange.success() else { continue };
        let (accepted, coding) = (accepted_coding(exchange), response.encoding());
        let mut codings = coding.split(',').map(|coding| coding.trim().trim_start_matches("x-"));
        let defect = if codings.any(|coding| COMPRESSIONS.contains(&coding) && coding != accepted) {
            format!("{coding}, which it cannot decode")
        } else if let Some(defect) = undeclared(response) {
            defect.to_owned()
        } else {
            continue;
        };
        let cache =
            cache_evidence(response).map_or_else(String::new, |field| format!(" from a cache (`{field}`)"));
        findings.report(&[exchange], format!("A client that accepts only {accepted} got{cache} {defect}"));
        return;
    }
}

/// The only value of `Accept-Encoding` of a request of this survey.
fn accepted_coding(exchange: &Exchange) -> String {
    let mut headers = exchange.request.headers.iter();
    let value = headers.find(|(name, _)| name == http::header::ACCEPT_ENCODING);
    value.map(|(_, value)| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

/// Bytes that are compressed once more than `Content-Encoding` says, which no page is on purpose.
fn undeclared(response: &Response) -> Option<&'static str> {
    let is_compressed = response.body.starts_with(GZIP_MAGIC) && response.media_type().starts_with("text/");
    match &*response.encoding() {
        "gzip" if is_compressed => Some("bytes that were compressed twice"),
        "" if is_compressed => Some("gzip without `Content-Encoding`"),
        _ => None,
    }
}
