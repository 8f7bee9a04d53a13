//! The host for which a local build or a preview was made.

use frontdesk_convert::Url;

use crate::survey::Survey;
use crate::survey::links::canonical;

/// The host of the public site, if the audited one has a private address, and the canonical addresses of its
/// pages, the sitemap and `llms.txt` agree on another host. Any of them may be missing.
pub(super) fn production_host(survey: &Survey) -> Option<String> {
    let basis = &survey.basis;
    if survey.basics.is_public {
        return None;
    }
    let canonicals: Vec<_> = basis.pages.iter().filter_map(canonical).collect();
    let named = basis.sitemap_urls.iter().chain(&basis.llms_links);
    let host = canonicals.iter().chain(named).filter_map(Url::domain).find(|host| host.contains('.'))?;
    let is_there = |url: &Url| url.domain() == Some(host);
    let is_own = |url: &Url| url.host_str() == basis.url.host_str();
    let llms = &basis.llms_links;
    // `llms.txt` may also link to other sites.
    let is_agreed = canonicals.iter().chain(&basis.sitemap_urls).all(is_there)
        && !llms.iter().any(is_own)
        && (llms.is_empty() || llms.iter().any(is_there));
    is_agreed.then(|| host.to_owned())
}
