//! The documents that the API catalog names exist.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-catalog-link-broken",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "The links in the API catalog to descriptions, documentation and metadata on this site resolve.",
    matters: "Clients begin at the catalog (RFC 9727); a broken link ends there.",
    hurts: "Agents, which cannot learn how to call the API.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Generate the catalog from what is deployed, and remove broken links.",
    }],
    check,
};

/// Reports each requested document of the API catalog that has the status 404 or 410.
fn check(survey: &Survey, findings: &mut Findings) {
    for exchange in &survey.files.catalog_links {
        let Some(response) = exchange.response() else { continue };
        if matches!(response.status.as_u16(), 404 | 410) {
            let evidence: Vec<_> = std::iter::once(exchange).chain(&survey.files.api_catalog).collect();
            let (url, status) = (exchange.url(), response.status.as_u16());
            findings.report(
                &evidence,
                format!(
                    "The API catalog links to {url}, which returns {status}: publish it or remove the link"
                ),
            );
        }
    }
}
