//! Compressed responses say in `Vary` that they depend on `Accept-Encoding`.

use super::shared::{severity_without_vary, vary_of};
use crate::cache_status::cache_evidence;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "vary-missing-encoding",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "A response that is compressed only for some clients carries `Vary: Accept-Encoding`.",
    matters: "Without it, a cache may serve compressed bytes to a client that cannot decode them (RFC 9110 \
              §12.5.3, RFC 9111 §4.1). This is advice without a lifetime, and if a cache on the way separates \
              the codings.",
    hurts: "Agents and scripts that accept no compression and get unreadable bytes.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Send `Vary: Accept-Encoding` with the compressed and the uncompressed response.",
        },
        Fix { platform: Platform::Nginx, text: "`gzip_vary on;`." },
    ],
    check,
};

/// Reports the page if it is compressed for a client that accepts gzip, not for one that accepts no coding,
/// and lacks `Vary: Accept-Encoding`. Advice if shared caches get no lifetime above zero, or if one of the
/// responses came from a cache, which then separates the codings. Reports nothing with `no-store`.
fn check(survey: &Survey, findings: &mut Findings) {
    let [compressed, plain, ..] = &*survey.caches.encodings else { return };
    let (Some(response), Some(other)) = (compressed.success(), plain.success()) else { return };
    let depends = !response.encoding().is_empty() && other.encoding().is_empty();
    if !depends || response.varies_on("accept-encoding") {
        return;
    }
    let Some(severity) = severity_without_vary(response) else { return };
    let is_stored = response.shared_lifetime().is_some_and(|seconds| seconds > 0);
    // The two responses differ in coding. If a cache served either, it stores the codings separately.
    let is_separated = [response, other].into_iter().any(|response| cache_evidence(response).is_some());
    let severity = if is_stored && !is_separated { severity } else { Severity::Advice };
    let (coding, vary) = (response.encoding(), vary_of(response));
    let message = format!(
        "The response is {coding} for clients that accept it, but has {vary}: send `Vary: Accept-Encoding`, \
         or a cache may serve it to clients that cannot decode it"
    );
    findings.report_as(severity, &[compressed, plain], message);
}
