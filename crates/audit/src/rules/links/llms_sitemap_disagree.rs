//! llms.txt and the sitemap name the same pages.

use frontdesk_convert::Url;
use std::collections::HashSet;
use std::sync::Arc;

use super::list_texts::{page_path, sitemap_texts};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::first_requests::{MAX_SITEMAP_URLS, sitemap_entries};

pub(super) static RULE: Rule = Rule {
    id: "llms-sitemap-disagree",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "The pages that `llms.txt` links are in the sitemap.",
    matters: "If the two lists differ, one of them is not maintained.",
    hurts: "Agents or search engines, which read the older list.",
    fixes: &[Fix { platform: Platform::Any, text: "Generate both lists from the same pages." }],
    check,
};

/// Minimum number of `llms.txt` pages for the comparison: with fewer, a difference means little.
const MIN_LINKS: usize = 4;

/// Reports if more than half of at least [`MIN_LINKS`] pages in `llms.txt` on the site's host are not in the
/// sitemap, by their paths ([`page_path`]). An index, a cut sitemap and an empty one are not judged.
fn check(survey: &Survey, findings: &mut Findings) {
    let first_requests = &survey.first_requests;
    let Some(llms) = &first_requests.llms else { return };
    // Skip sitemap indexes: the audit reads only one of their parts, so the lists cannot be compared.
    let [sitemap] = &sitemap_texts(survey)[..] else { return };
    // The last sitemap may be an index, if its first part was not requested. An index lists no pages.
    let has_pages = first_requests.sitemaps.last().is_some_and(|last| sitemap_entries(last).0 == "urlset");
    if !has_pages
        || !first_requests.sitemaps.iter().all(|own| Arc::ptr_eq(own, sitemap.0))
        || first_requests.sitemap_urls.len() >= MAX_SITEMAP_URLS
    {
        return;
    }
    let listed: HashSet<_> = first_requests.sitemap_urls.iter().map(|url| page_path(url.path())).collect();
    let same_host = |url: &&Url| url.host_str() == first_requests.url.host_str();
    // Files such as `/openapi.json` and `/llms-full.txt` are not pages.
    let is_page = |url: &&Url| {
        let name = url.path().rsplit('/').next().unwrap_or_default();
        !name.contains('.') || name.ends_with(".md") || name.ends_with(".html")
    };
    let linked: Vec<_> = first_requests.llms_links.iter().filter(same_host).filter(is_page).collect();
    let missing: Vec<_> = linked.iter().filter(|url| !listed.contains(page_path(url.path()))).collect();
    if let [first, ..] = missing[..]
        && linked.len() >= MIN_LINKS
        && missing.len() * 2 > linked.len()
        && !listed.is_empty()
    {
        let (count, total) = (missing.len(), linked.len());
        let message = format!(
            "{count} of {total} pages in llms.txt are not in the sitemap, starting with {first}: list the \
             same pages in both"
        );
        findings.report(&[llms, sitemap.0], message);
    }
}
