//! `/.well-known/security.txt` (RFC 9116) and `/.well-known/api-catalog` (RFC 9727).

use jiff::ToSpan;
use serde_json::json;

use super::formatting::has_page;
use crate::{PageSummary, PagesOptions};

/// Builds `security.txt` with the e-mail address `contact`. It expires 180 days after the site was loaded;
/// RFC 9116 §2.5.5 recommends less than a year. Links to the page `/security/` if that is listed.
pub(super) fn security_txt(pages: &[PageSummary], options: &PagesOptions, contact: &str) -> String {
    let expires = options.today.saturating_add(180.days());
    let base = &options.base_url;
    let languages = if options.languages.is_empty() {
        std::slice::from_ref(&options.language)
    } else {
        &options.languages
    };
    let mut text = format!(
        "Contact: mailto:{contact}\nExpires: {expires}T00:00:00Z\nPreferred-Languages: {}\n",
        languages.join(", ")
    );
    if has_page(pages, "/security/") {
        text.push_str(&format!("Policy: {base}/security/\n"));
    }
    text.push_str(&format!("Canonical: {base}/.well-known/security.txt\n"));
    text
}

/// Builds the API catalog: a link set (RFC 9264) with the forms, their description and their documentation.
/// Without forms, it has no description of an API. Links to the page `/developers/` if that is listed.
pub(super) fn api_catalog(pages: &[PageSummary], options: &PagesOptions) -> String {
    let at = |path: &str| format!("{}{path}", options.base_url);
    let mut documents = vec![json!({ "href": at("/agents.md"), "type": "text/markdown" })];
    if has_page(pages, "/developers/") {
        documents.push(json!({ "href": at("/developers/"), "type": "text/html" }));
    }
    let mut anchor = json!({ "anchor": at("/") });
    if options.form_set.iter().len() > 0 {
        anchor["service-desc"] = json!([{ "href": at("/openapi.json"), "type": "application/json" }]);
    }
    anchor["service-doc"] = documents.into();
    anchor["service-meta"] = json!([{ "href": at("/llms.txt"), "type": "text/plain" }]);
    let items: Vec<_> = options.form_set.iter().map(|form| json!({ "href": at(form.path) })).collect();
    let catalog = json!({ "anchor": at("/.well-known/api-catalog"), "item": items });
    format!("{:#}\n", json!({ "linkset": [catalog, anchor] }))
}
