//! Pages do not vary on the `User-Agent`.

use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "vary-user-agent",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "Pages do not carry `Vary: User-Agent`.",
    matters: "There are thousands of values, so that a cache hardly ever has a response for the next client \
              (RFC 9110 §12.5.5). `Accept` says which representation a client wants, and layouts adapt by \
              themselves.",
    hurts: "People and agents, who wait for the origin, and operators, who pay for it.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Choose representations by `Accept`, and remove `User-Agent` from `Vary`.",
        },
        Fix {
            platform: Platform::Apache,
            text: "Remove `Header append Vary User-Agent`, which old configurations of mod_deflate contain.",
        },
    ],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.basis.pages {
        for exchange in [Some(&page.html), page.agent.as_ref()].into_iter().flatten() {
            let Some(response) = exchange.success() else { continue };
            if response.vary().iter().any(|name| name == "user-agent") {
                let message =
                    "`Vary` names `User-Agent`: a cache stores one response for each version of each client";
                findings.report(&[exchange], message);
            }
        }
    }
}
