//! Pages that exist in two representations say so in `Vary`.

use super::shared::{VARY_FIXES, kind, negotiated_pages, severity_without_vary, vary_of};
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
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

/// Reports each page with negotiated Markdown whose HTML or Markdown lacks `Vary: Accept`, unless no cache
/// may store the response. If both lack it, the cause is the same: one finding, with the greater severity.
fn check(survey: &Survey, findings: &mut Findings) {
    for (page, html, markdown) in negotiated_pages(survey) {
        let lacking = [html, markdown].into_iter().filter_map(|exchange| {
            let response = exchange.response().filter(|response| !response.varies_on("accept"))?;
            let severity = severity_without_vary(response)?;
            Some((exchange, severity, format!("the {} has {}", kind(response), vary_of(response))))
        });
        let lacking: Vec<_> = lacking.collect();
        let Some(severity) = lacking.iter().map(|(_, severity, _)| *severity).min() else { continue };
        let evidence: Vec<_> = lacking.iter().map(|(exchange, ..)| *exchange).collect();
        let defects: Vec<_> = lacking.iter().map(|(.., defect)| &**defect).collect();
        let message = format!(
            "The address has two representations, but {}: a cache may serve them to the wrong clients",
            defects.join(" and ")
        );
        findings.report_at(severity, page.url.as_str(), &evidence, message);
    }
}
