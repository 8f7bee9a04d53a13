//! The headers of a build's pages and of the paths that its rules rewrite.

use std::sync::Arc;

use http::header::{CONTENT_SECURITY_POLICY, LINK};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::file::File;
use crate::header_rules::{restrict_content_type, with_headers};
use crate::rules::headers_of_rewritten_paths::RewriteHeaders;
use crate::rules::{HeaderRule, RedirectRule, RuleList, headers_for};
use crate::site::{Page, Site, SiteEntry};

/// The headers of an HTML file with a content security policy. They replace the server's headers of the same
/// name, because generators and their themes use features that the built-in theme does not.
pub(super) fn html_headers(policy: &str) -> Vec<(HeaderName, HeaderValue)> {
    let header = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
    // If the policy is invalid, send an empty one: the server's default would block scripts of the page.
    let policy = HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static(""));
    vec![
        header("cross-origin-opener-policy", "same-origin-allow-popups"),
        header("permissions-policy", "browsing-topics=()"),
        (CONTENT_SECURITY_POLICY, policy),
    ]
}

/// The media types that a rule's `Content-Type` may give to a page.
pub(super) const HTML_TYPES: [&str; 2] = ["text/html", "application/xhtml+xml"];

/// Makes the site serve rewritten paths with the headers of the rules for these paths, instead of those for
/// the path of the page or file. Prepares the headers only for one example path of each rule; another path
/// gets the ones that fit it best, see [`RewriteHeaders::find`]. `redirects` need not be part of the site
/// yet, but the entries to which they lead must be.
pub(super) fn apply_to_rewrites(site: &mut Site, redirects: &[RedirectRule], rules: &RuleList<HeaderRule>) {
    let rewrites = redirects.iter().filter(|rule| rule.status == StatusCode::OK).cloned();
    let rewrites = RuleList::new(rewrites.collect::<Vec<RedirectRule>>());
    if rewrites.all().is_empty() || rules.all().is_empty() {
        return;
    }
    let mut paths: Vec<String> = rules.all().iter().map(HeaderRule::example).collect();
    paths.extend(rewrites.all().iter().map(RedirectRule::example));
    let mut headers = RewriteHeaders::new(rules.clone());
    for path in &paths {
        for rule in rewrites.candidates(path) {
            let Some((target, entry)) = rule.target(path, None).and_then(|to| site.rewrite_target(&to))
            else {
                continue;
            };
            headers.add(&target, path, |path| variant(entry, &target, rules, path));
        }
    }
    site.rewrite_headers = headers;
}

/// A copy of the entry at `target` with the headers of the rules for `path` instead of those for `target`.
/// Keeps a header of [`html_headers`], even from a rule for `target`, unless a rule for `path` sets it.
fn variant(entry: &SiteEntry, target: &str, rules: &RuleList<HeaderRule>, path: &str) -> SiteEntry {
    let replaced = headers_for(rules, target);
    let wanted = headers_for(rules, path);
    if wanted == replaced {
        return entry.clone();
    }
    let file = |file: &Arc<File>, media_types: &[&str]| {
        let mut new = file.without_encodings();
        let mut headers = std::mem::take(&mut new.headers);
        // Keep the build's own headers: without them, the stricter headers of the built-in theme would apply.
        let own = html_headers("");
        let is_own = |name: &HeaderName| own.iter().any(|(own, _)| own == name);
        headers.retain(|header| is_own(&header.0) || !replaced.contains(header));
        let has_link = |header: &&(HeaderName, HeaderValue)| header.0 == LINK;
        let same_link = wanted.iter().find(has_link) == replaced.iter().find(has_link);
        let link = new.link.clone();
        let mut new = with_headers(new, headers, rules, path);
        if same_link {
            new.link = link;
        }
        if !media_types.is_empty() {
            restrict_content_type(&mut new, media_types);
        }
        Arc::new(new)
    };
    match entry {
        SiteEntry::Page(page) => {
            let (html, markdown) = (file(&page.html, &HTML_TYPES), file(&page.markdown, &["text/markdown"]));
            SiteEntry::Page(Page::new(html, markdown, page.path.clone(), page.twin.clone()))
        }
        SiteEntry::File(content, role) => SiteEntry::File(file(content, &[]), role.clone()),
        other => other.clone(),
    }
}
