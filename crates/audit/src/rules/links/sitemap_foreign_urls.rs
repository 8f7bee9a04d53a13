//! The sitemap lists addresses of its own host.

use frontdesk_convert::Url;

use super::production::production_host;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "sitemap-foreign-urls",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "The sitemap lists addresses of its own scheme and host.",
    matters: "Search engines ignore addresses of other hosts (sitemaps.org, “Sitemap file location”). \
              A wrong base URL in a generator excludes all pages.",
    hurts: "Search engines, which ignore the sitemap.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Set the base URL of the generator to the public address, with `https` and with \
                   or without `www.` as it is served.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let Some(sitemap) = survey.basis.sitemaps.last() else { return };
    let urls = &survey.basis.sitemap_urls;
    let own = sitemap.url().origin();
    let production = production_host(survey);
    let is_production = |url: &Url| production.is_some() && production.as_deref() == url.host_str();
    let foreign: Vec<_> = urls.iter().filter(|url| url.origin() != own && !is_production(url)).collect();
    if let Some(first) = foreign.first() {
        findings.report(
            &[sitemap],
            format!("{} of {} addresses of the sitemap are of another origin than {}, first {first}; a copy for tests may have them", foreign.len(), urls.len(), own.ascii_serialization()),
        );
    }
}
