//! Pages that exist in two representations say so in `Vary`.

use super::shared::{VARY_FIXES, kind, negotiated_pages, report_without_vary};
use crate::group::Group;
use crate::rule::{Findings, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "vary-missing-page",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "Every 200 of a URL that has HTML and Markdown carries `Vary: Accept`.",
    matters: "Without it, a cache may serve what it stored for one client to all others (RFC 9111 §4.1).",
    hurts: "People, who see raw Markdown; agents, which get HTML.",
    fixes: VARY_FIXES,
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    for (_, html, markdown) in negotiated_pages(survey) {
        for exchange in [html, markdown] {
            let kind = exchange.response().map_or("page", kind);
            let difference = "the URL also has another representation";
            report_without_vary(findings, exchange, &format!("The {kind}"), difference);
        }
    }
}
