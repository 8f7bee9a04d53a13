//! Sites offer HTTP/2.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "http2-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "TLS selects HTTP/2 for clients that offer it (ALPN, RFC 7301).",
    matters: "With HTTP/1.1, a browser loads about six files at a time over as many connections; HTTP/2 \
              (RFC 9113) needs one.",
    hurts: "People with slow connections, who wait longer.",
    fixes: &[
        Fix { platform: Platform::Any, text: "Enable HTTP/2 in the server that terminates TLS." },
        Fix { platform: Platform::Nginx, text: "`http2 on;` (since 1.25.1)." },
        Fix { platform: Platform::Apache, text: "`Protocols h2 http/1.1` with mod_http2." },
        Fix { platform: Platform::Caddy, text: "On by default." },
    ],
    check,
};

/// Reports a server that does not select `h2` in the TLS handshake. A failed handshake is not judged.
fn check(survey: &Survey, findings: &mut Findings) {
    match &survey.basics.protocol {
        Some(Ok(protocol)) if protocol != "h2" => {
            let message =
                format!("The server selects `{protocol}`, although the client offers `h2`: enable HTTP/2");
            findings.report(&[&survey.first_requests.pages[0].html], message);
        }
        Some(Err(error)) => {
            findings.not_judged(format!("the TLS handshake that offers HTTP/2 failed: {error}"));
        }
        _ => {}
    }
}
