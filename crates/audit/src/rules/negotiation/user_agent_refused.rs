//! The server does not refuse agents that `robots.txt` permits.

use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "user-agent-refused",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "A page is no error for an agent that `robots.txt` permits.",
    matters: "`robots.txt` is where a site says which agents may read it (RFC 9309). A firewall that \
              refuses others contradicts it, often by a default that the operator never chose.",
    hurts: "Agents, and the people who ask them about the site.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Permit the agent in the firewall, or forbid it in `robots.txt`. If the firewall permits \
                   the agent from its own addresses only, nothing is wrong: this request came from another \
                   address.",
        },
        Fix {
            platform: Platform::Cloudflare,
            text: "See the settings to block AI bots and the rules of the Web Application Firewall \
                   (Security).",
        },
    ],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    if let Some(reason) = survey.caches.fresh_refusal() {
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
                "{token} gets {refusal} although robots.txt permits it, and other clients get the page \
                 (asked from another address than its own)"
            ),
        );
    }
}
