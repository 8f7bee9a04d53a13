//! Clients get only codings that they accept.

use crate::cache_status::cache_evidence;
use crate::exchange::{Exchange, Response};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "encoding-mixed",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "A client gets only content codings that its `Accept-Encoding` names, and `Content-Encoding` \
             declares them.",
    matters: "A client cannot decode a coding that it does not support (RFC 9110 §12.5.3) or that \
              `Content-Encoding` does not declare (§8.4).",
    hurts: "Agents and scripts, which get unreadable bytes.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Compress once, only for clients that accept the coding, and send `Vary: Accept-Encoding`. \
                   Caches must obey it. Keep an uncompressed copy beside precompressed files.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`gzip_static always;` needs `gunzip on;` and `gzip_vary on;`. Remove `Vary` from \
                   `proxy_ignore_headers`.",
        },
    ],
    check,
};

/// The content codings that compress a body. Browsers ignore other values, such as `utf-8`.
const COMPRESSIONS: [&str; 5] = ["gzip", "br", "deflate", "compress", "zstd"];

/// The first bytes of gzip (RFC 1952 §2.3.1).
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// Reports the first response that is compressed with a coding the request did not accept, or whose text is
/// gzip that `Content-Encoding` does not declare (other undeclared codings are not recognized). Stops there,
/// because one cause usually affects all codings. Notes if cache-busting URLs are refused.
fn check(survey: &Survey, findings: &mut Findings) {
    if let Some(reason) = survey.caches.cache_busting_refusal() {
        findings.not_judged(reason);
    }
    for exchange in &survey.caches.encodings {
        let Some(response) = exchange.success() else { continue };
        let (accepted, coding) = (accepted_coding(exchange), response.encoding());
        let mut codings = coding.split(',').map(|coding| coding.trim().trim_start_matches("x-"));
        let defect = if codings.any(|coding| COMPRESSIONS.contains(&coding) && coding != accepted) {
            format!("{coding}, which it cannot decode: send an accepted coding or none")
        } else if let Some(defect) = undeclared(response) {
            defect.to_owned()
        } else {
            continue;
        };
        let cache =
            cache_evidence(response).map_or_else(String::new, |field| format!(" from a cache (`{field}`)"));
        findings
            .report(&[exchange], format!("A client with `Accept-Encoding: {accepted}` got{cache} {defect}"));
        return;
    }
}

/// The request's `Accept-Encoding`, which names at most one coding in this survey; empty if missing.
fn accepted_coding(exchange: &Exchange) -> String {
    let mut headers = exchange.request.headers.iter();
    let value = headers.find(|(name, _)| name == http::header::ACCEPT_ENCODING);
    value.map(|(_, value)| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

/// The defect, as a clause, of a body of a `text/` type that begins like gzip and so is compressed once more
/// than `Content-Encoding` says, which is never intended. `None` for other bodies and other codings than
/// gzip.
fn undeclared(response: &Response) -> Option<&'static str> {
    let is_compressed = response.body.starts_with(GZIP_MAGIC) && response.media_type().starts_with("text/");
    match &*response.encoding() {
        "gzip" if is_compressed => {
            Some("gzip that was compressed twice: `Content-Encoding` must name each coding")
        }
        "" if is_compressed => {
            Some("gzip without `Content-Encoding: gzip`: declare the coding, or do not compress")
        }
        _ => None,
    }
}
