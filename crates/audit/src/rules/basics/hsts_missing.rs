//! Browsers remember that a site uses TLS.

use http::header::STRICT_TRANSPORT_SECURITY;

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "hsts-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "An `https` site sends `Strict-Transport-Security`.",
    matters: "Without it, the first request of each visit may use `http`, and an attacker on the network \
              path can answer it (RFC 6797).",
    hurts: "People on untrusted networks, who may get the page of an attacker.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Send `Strict-Transport-Security: max-age=31536000` once every page works over `https`.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`add_header Strict-Transport-Security \"max-age=31536000\" always;`",
        },
        Fix { platform: Platform::Caddy, text: "`header Strict-Transport-Security max-age=31536000`" },
        Fix {
            platform: Platform::Apache,
            text: "`Header always set Strict-Transport-Security \"max-age=31536000\"` (mod_headers).",
        },
    ],
    check,
};

/// Reports the first page of a public `https` site if it lacks `Strict-Transport-Security`, or turns it off
/// with `max-age=0`.
fn check(survey: &Survey, findings: &mut Findings) {
    let page = &survey.first_requests.pages[0];
    if !survey.basics.is_public || page.url.scheme() != "https" {
        return;
    }
    let value = page.response().header(STRICT_TRANSPORT_SECURITY).to_ascii_lowercase();
    let is_off = value.replace([' ', '"'], "").split(';').any(|directive| directive == "max-age=0");
    if value.is_empty() || is_off {
        let found = if is_off {
            "turns `Strict-Transport-Security` off with `max-age=0`: send a long `max-age`"
        } else {
            "has no `Strict-Transport-Security`: send it with a long `max-age`"
        };
        findings.report(&[&page.html], format!("The page {found}"));
    }
}
