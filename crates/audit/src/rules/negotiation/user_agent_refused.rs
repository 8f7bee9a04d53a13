//! The server does not refuse agents that `robots.txt` allows.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "user-agent-refused",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "An agent that `robots.txt` allows gets the page, not an error.",
    matters: "`robots.txt` says which agents may read a site (RFC 9309). A firewall that refuses an allowed \
              agent contradicts it, often by a default that the operator did not choose.",
    hurts: "Agents and the people who ask them, who do not get the page.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Allow the agent in the firewall, or disallow it in `robots.txt`. If the firewall allows \
                   the agent only from its published IP addresses, nothing is wrong: the audit has another \
                   one.",
        },
        Fix {
            platform: Platform::Cloudflare,
            text: "Under Security, check the settings that block AI bots, and the rules of the web \
                   application firewall.",
        },
    ],
    check,
};

/// Reports each crawler that gets no response, or a status other than 2xx, 3xx and 429. Reports nothing if
/// the client with `*/*` does not get the page. Noted as not judged if cache-busting URLs are refused.
fn check(survey: &Survey, findings: &mut Findings) {
    if let Some(reason) = survey.caches.cache_busting_refusal() {
        findings.not_judged(reason);
    }
    let is_served = survey.negotiation.any.as_ref().is_some_and(|any| any.success().is_some());
    for (token, exchange) in survey.negotiation.crawlers.iter().filter(|_| is_served) {
        let refusal = match &exchange.outcome {
            Ok(response) if matches!(response.status.as_u16(), 200..400 | 429) => continue,
            Ok(response) => response.status.to_string(),
            Err(error) => format!("no response ({error})"),
        };
        findings.report(
            &[exchange],
            format!(
                "{token} gets {refusal}, although robots.txt allows it and other clients get the page \
                 (requested from an IP address that is not the agent's)"
            ),
        );
    }
}
