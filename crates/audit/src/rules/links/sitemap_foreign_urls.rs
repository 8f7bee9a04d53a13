//! The sitemap lists URLs of its own host.

use frontdesk_convert::Url;

use super::production_host::production_host;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "sitemap-foreign-urls",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "The sitemap lists URLs of its own scheme and host.",
    matters: "Search engines ignore URLs of other hosts (sitemaps.org, “Sitemap file location”). A wrong \
              base URL in the generator excludes all pages.",
    hurts: "Search engines, which ignore the sitemap.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Set the base URL of the generator to the public URL, with `https`, and with or without `www.` \
               as it is served.",
    }],
    check,
};

/// Reports how many URLs of the last sitemap have another scheme, host or port than the sitemap itself. A
/// private copy may name the host of the public site.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(sitemap) = survey.first_requests.sitemaps.last() else { return };
    let urls = &survey.first_requests.sitemap_urls;
    let own = sitemap.url().origin();
    let production = production_host(survey);
    let is_production = |url: &Url| production.is_some() && production.as_deref() == url.host_str();
    let foreign: Vec<_> = urls.iter().filter(|url| url.origin() != own && !is_production(url)).collect();
    if let Some(first) = foreign.first() {
        findings.report(
            &[sitemap],
            format!(
                "{} of {} URLs in the sitemap have another origin than {}, starting with {first}: only a \
                 staging copy may have them",
                foreign.len(),
                urls.len(),
                own.ascii_serialization()
            ),
        );
    }
}
