//! The host for which a local build or a preview was made.

use frontdesk_convert::Url;

use crate::survey::Survey;
use crate::survey::links::canonical;

/// The host of the public site, if the audited one has a private address, and the canonical addresses of its
/// pages and the sitemap agree on another host. Either may be missing. `llms.txt` does not matter: a local
/// server may have made it.
pub(super) fn production_host(survey: &Survey) -> Option<String> {
    let basis = &survey.basis;
    if survey.basics.is_public {
        return None;
    }
    let canonicals: Vec<_> = basis.pages.iter().filter_map(canonical).collect();
    let named = || canonicals.iter().chain(&basis.sitemap_urls);
    let host = named().filter_map(Url::domain).find(|host| host.contains('.'))?;
    named().all(|url| url.domain() == Some(host)).then(|| host.to_owned())
}
