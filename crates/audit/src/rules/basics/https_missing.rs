//! Public sites use TLS.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "https-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "A site with a public IP address is served over `https`.",
    matters: "Without TLS, anyone on the network path can read and change pages and forms. Browsers warn, \
              and disable HTTP/2 and many features.",
    hurts: "People and agents, who cannot trust what they get.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Get a certificate, for example from Let's Encrypt, and redirect `http` to `https`.",
        },
        Fix {
            platform: Platform::Caddy,
            text: "Name the site by its domain: certificates and redirects are automatic.",
        },
        Fix { platform: Platform::Frontdesk, text: "Configure `[tls]`." },
    ],
    check,
};

/// Reports a site with a public address whose first page has an `http` URL.
fn check(survey: &Survey, findings: &mut Findings) {
    let page = &survey.first_requests.pages[0];
    if survey.basics.is_public && page.url.scheme() == "http" {
        findings.report(&[&page.html], "The site is public, but served without TLS: redirect it to `https`");
    }
}
