//! Warnings about content that the content security policy of the site's pages blocks.

use comrak::nodes::Sourcepos;

use super::BodyRenderer;
use frontdesk_markdown::raw_html_checks::{
    BLOCKED, BLOCKED_FORM, BLOCKED_IMAGE, BLOCKED_MEDIA, BLOCKED_SCRIPT, element_addresses,
};
use frontdesk_site_rules::content_origins::{AllowedOrigin, any_permits};

impl BodyRenderer<'_, '_> {
    /// Warns about what the content security policy blocks in raw HTML, as far as a search of its text shows:
    /// inline scripts and styles, frames, and images, scripts, media and targets of forms on other hosts.
    /// Misses inline scripts if the text also contains ` src=` or `json`, and misses event handlers and links
    /// to style sheets.
    pub(super) fn warn_about_blocked_html(&mut self, literal: &str, position: Sourcepos) {
        let lower = literal.to_ascii_lowercase().replace(['\t', '\n', '\r', '\x0c'], " ");
        let catalog = self.catalog;
        let allowed = &catalog.allowed;
        for (tag, attribute, what, origins) in [
            ("<img", "src", BLOCKED_IMAGE, &allowed.image[..]),
            ("<video", "poster", BLOCKED_IMAGE, &allowed.image),
            ("<script", "src", BLOCKED_SCRIPT, &allowed.script),
            ("<video", "src", BLOCKED_MEDIA, &[]),
            ("<audio", "src", BLOCKED_MEDIA, &[]),
            ("<source", "src", BLOCKED_MEDIA, &[]),
            ("<form", "action", BLOCKED_FORM, &[]),
        ] {
            for url in element_addresses(&lower, tag, attribute).flatten() {
                self.warn_about_blocked_host(url, what, origins, position);
            }
        }
        for (pattern, hint) in BLOCKED {
            let is_permitted = match pattern {
                // The policy permits scripts from files, and JSON in a script element is only data.
                "<script" => lower.contains(" src=") || lower.contains("json"),
                "<iframe" => element_addresses(&lower, pattern, "src")
                    .all(|url| url.is_some_and(|url| any_permits(&allowed.frame, url))),
                _ => false,
            };
            // `<embed-map>` is a different element from `<embed>`.
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
            let is_found =
                |(at, _)| pattern.ends_with('=') || !lower[at + pattern.len()..].starts_with(is_name);
            if lower.match_indices(pattern).any(is_found) && !is_permitted {
                let what = pattern.trim_matches(['<', ' ', '=']);
                let message = format!("the content security policy blocks this `{what}`");
                self.warn(position, message, hint);
            }
        }
    }

    /// Warns about content on another site, or a form that is sent there, if the content security policy does
    /// not permit its host. Ignores URLs that begin with neither `http:`, `https:` nor `//`.
    pub(super) fn warn_about_blocked_host(
        &mut self,
        url: &str,
        (what, hint): (&str, &'static str),
        permitted: &[AllowedOrigin],
        position: Sourcepos,
    ) {
        let elsewhere = ["http:", "https:", "//"].iter().any(|start| url.starts_with(start));
        if elsewhere && !self.catalog.is_own(url) && !any_permits(permitted, url) {
            let message = format!("the content security policy blocks {what}, such as `{url}`");
            self.warn(position, message, hint);
        }
    }
}
