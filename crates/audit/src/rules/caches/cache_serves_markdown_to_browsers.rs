//! Browsers get HTML even after an agent requested the URL.

use super::misserved;
use super::shared::KEY_FIXES;
use crate::exchange::Representation;
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "cache-serves-markdown-to-browsers",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "A browser gets HTML, even if an agent requested the same URL before.",
    matters: "A cache that stores the Markdown of the first agent and serves it to all clients shows people \
              raw text or a download until the stored response expires (RFC 9111 §4.1).",
    hurts: "People, who see raw Markdown; search engines, which index it.",
    fixes: KEY_FIXES,
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    misserved::report(survey, Representation::Html, findings);
}
