//! The URLs of the sitemap lead to pages.

use super::shared::report_broken;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::first_requests::sitemap_entries;
use crate::survey::links::FollowedLink;

pub(super) static RULE: Rule = Rule {
    id: "sitemap-link-broken",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The URLs in the sitemap lead to pages, and those in an index to sitemaps.",
    matters: "A sitemap lists pages to index. Search engines trust it less with each URL that fails.",
    hurts: "Search engines and agents, which request missing pages.",
    fixes: &[Fix { platform: Platform::Any, text: "Generate the sitemap together with the pages." }],
    check,
};

/// Reports the followed URLs of the sitemap, and the first part of an index, if they
/// [failed](FollowedLink::failure). Skips a part that was requested at another URL than the index names, as
/// in a local copy.
fn check(survey: &Survey, findings: &mut Findings) {
    report_broken(findings, "The sitemap", &survey.links.sitemap);
    if let [index, part] = &survey.first_requests.sitemaps[..]
        && sitemap_entries(index).1.first() == Some(part.url())
    {
        let part = FollowedLink { source: index.clone(), chain: vec![part.clone()] };
        report_broken(findings, "The index of sitemaps", [&part]);
    }
}
