//! Pages do not vary on the `User-Agent`.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "vary-user-agent",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "Pages do not carry `Vary: User-Agent`.",
    matters: "`User-Agent` has thousands of values, so a cache hardly ever has a response for the next \
              client (RFC 9110 §12.5.5). `Accept` selects the representation, and CSS adapts the layout.",
    hurts: "People and agents, who wait for the origin; operators, who pay for the load.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Choose representations by `Accept`, and remove `User-Agent` from `Vary`.",
        },
        Fix {
            platform: Platform::Apache,
            text: "Remove `Header append Vary User-Agent`, which old mod_deflate configurations contain.",
        },
    ],
    check,
};

/// Reports each 200 response for a page, to a browser or an agent, with `User-Agent` in `Vary`.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        for exchange in [Some(&page.html), page.agent.as_ref()].into_iter().flatten() {
            let Some(response) = exchange.success() else { continue };
            if response.vary().iter().any(|name| name == "user-agent") {
                let message = "`Vary` names `User-Agent`, so caches can rarely reuse a response: remove it";
                findings.report(&[exchange], message);
            }
        }
    }
}
