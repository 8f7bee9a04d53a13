//! Agents get Markdown even after a browser requested the URL.

use super::misserved;
use super::shared::KEY_FIXES;
use crate::exchange::Representation;
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "cache-serves-html-to-agents",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "An agent that prefers Markdown gets Markdown, even if a browser requested the same URL before.",
    matters: "A cache that stores the HTML of the first browser and serves it to all clients hides the \
              Markdown from agents (RFC 9111 §4.1).",
    hurts: "Agents, which get HTML although the site has Markdown.",
    fixes: KEY_FIXES,
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    misserved::report(survey, Representation::Markdown, findings);
}
