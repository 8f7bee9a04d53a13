//! The sitemaps that `robots.txt` names exist.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "robots-sitemap-broken",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "Each `Sitemap` line of `robots.txt` has an absolute URL, and the first four on this site lead to \
             sitemaps.",
    matters: "Search engines find the sitemap by this line (sitemaps.org, \"Submitting your sitemap\"), and \
              skip a relative URL.",
    hurts: "Search engines, which miss pages.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write the absolute URL, such as `Sitemap: https://www.example.com/sitemap.xml`, and publish \
               the file there.",
    }],
    check,
};

/// Maximum number of `Sitemap` lines that are checked.
const MAX_SITEMAPS: usize = 20;

/// Reports the first relative `Sitemap` as advice, and each sitemap of the first [`MAX_SITEMAPS`] that is
/// missing, an error of the server, or an HTML page, if the audit has requested it.
fn check(survey: &Survey, findings: &mut Findings) {
    let first_requests = &survey.first_requests;
    if let Some(relative) = first_requests.rules.sitemaps.iter().find(|sitemap| !sitemap.contains("://")) {
        findings.report_as(
            Severity::Advice,
            &[&first_requests.robots],
            format!("robots.txt says `Sitemap: {relative}`: an absolute URL is required"),
        );
    }
    for sitemap in first_requests.rules.sitemaps.iter().take(MAX_SITEMAPS) {
        let Ok(url) = first_requests.robots.url().join(sitemap) else { continue };
        let mut requested = first_requests.sitemaps.iter().chain(&survey.files.further_sitemaps);
        let Some(exchange) = requested.find(|exchange| *exchange.url() == url) else { continue };
        let Some(response) = exchange.response() else { continue };
        let status = response.status.as_u16();
        let is_missing = matches!(status, 404 | 410) || response.status.is_server_error();
        if is_missing || (status == 200 && response.is_page()) {
            let page = if is_missing { "" } else { " with an HTML page" };
            findings.report(
                &[exchange, &first_requests.robots],
                format!(
                    "robots.txt names the sitemap {url}, which returns {status}{page}: publish it or remove \
                     the line"
                ),
            );
        }
    }
}
