//! Redirects lead to hosts that clients can reach.

use crate::client::redirect_target;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::target_url::is_loopback;

pub(super) static RULE: Rule = Rule {
    id: "redirect-to-loopback",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "No redirect leads to `localhost` or another loopback address.",
    matters: "A loopback address is the client's own computer (RFC 6761 §6.3). The application takes it from \
              its own address if the proxy does not forward the host.",
    hurts: "People and agents, who get a connection error.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Redirect to a path instead of a full URL, or set the public URL of the application.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`proxy_set_header Host $host;` and `proxy_set_header X-Forwarded-Proto $scheme;`.",
        },
    ],
    check,
};

/// Reports only the first redirect to the loopback address. The audited site may redirect to another port of
/// its own host; a site at that address may redirect to another loopback name at the same port.
fn check(survey: &Survey, findings: &mut Findings) {
    let own = &survey.first_requests.url;
    for exchange in &survey.exchanges {
        let Some(target) = redirect_target(exchange).filter(is_loopback) else { continue };
        // A site in development may redirect to another port of its host, for HTTPS, or from one loopback
        // name to another at the same port.
        let is_own = target.host_str() == own.host_str()
            || (is_loopback(own) && target.port_or_known_default() == own.port_or_known_default());
        if !is_own {
            let message = format!("The redirect leads to {target}, which only the server itself can reach");
            // Report only the first redirect to the loopback address: all of them have the same cause.
            findings.report(&[exchange], message);
            return;
        }
    }
}
