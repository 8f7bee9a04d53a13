//! The host for which a local build or a preview was made.

use frontdesk_convert::Url;

use crate::survey::Survey;
use crate::survey::links::canonical;

/// The host of the public site, if the audited site has a private address, and all canonical URLs of its
/// pages and all URLs of its sitemap name one domain with a dot. Pages without a canonical URL do not matter,
/// nor does a missing sitemap. `llms.txt` is not read: a local server may have made it.
pub(super) fn production_host(survey: &Survey) -> Option<String> {
    let first_requests = &survey.first_requests;
    if survey.basics.is_public {
        return None;
    }
    let canonicals: Vec<_> = first_requests.pages.iter().filter_map(canonical).collect();
    let named = || canonicals.iter().chain(&first_requests.sitemap_urls);
    let host = named().filter_map(Url::domain).find(|host| host.contains('.'))?;
    named().all(|url| url.domain() == Some(host)).then(|| host.to_owned())
}
