//! A file for programs is not an HTML page.

use std::sync::Arc;

use frontdesk_convert::Url;

use super::shared::NO_FALLBACK;
use crate::exchange::{Exchange, Response};
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::files::OpenApiSource;

pub(super) static RULE: Rule = Rule {
    id: "file-is-page",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "`/llms.txt`, `/sitemap.xml`, the files in `/.well-known/` and the API description are what their \
             names say, or do not exist.",
    matters: "A program that gets 200 takes the page for the file (RFC 9110 §15.3.1). A 404 would tell it \
              that the file does not exist.",
    hurts: "Agents, which read a page as instructions or report a broken file.",
    fixes: NO_FALLBACK,
    check,
};

/// Reports one finding for all of these that return 200 with an HTML page: `llms.txt`, `security.txt`, the
/// API catalog, the index of skills, an API description at a guessed URL, and sitemaps with the extension
/// `.xml` that `robots.txt` does not name. Skips redirects to a known page.
fn check(survey: &Survey, findings: &mut Findings) {
    let (first_requests, files) = (&survey.first_requests, &survey.files);
    // Another rule checks an API description that the site declares; check only a guessed URL here.
    let openapi = files.openapi.as_ref().filter(|_| files.openapi_source == OpenApiSource::Guess);
    let known = [&first_requests.llms, &files.security_txt, &files.api_catalog, &files.skills_index];
    // Another rule checks the sitemaps that `robots.txt` names.
    let is_named = |url: &Url| {
        first_requests
            .rules
            .sitemaps
            .iter()
            .any(|name| first_requests.robots.url().join(name).is_ok_and(|named| named == *url))
    };
    let is_unnamed = |url: &Url| url.path().ends_with(".xml") && !is_named(url);
    let sitemaps = first_requests.sitemaps.iter().filter(|sitemap| is_unnamed(sitemap.url()));
    let is_page = |file: &&Arc<Exchange>| {
        // Ignore a redirect to a known page: the client sees that it was sent to another URL.
        let is_direct = *file.url() != first_requests.url
            && !first_requests.pages.iter().any(|page| page.url == *file.url());
        is_direct && file.success().is_some_and(Response::is_page)
    };
    let pages: Vec<_> = known.into_iter().flatten().chain(openapi).chain(sitemaps).filter(is_page).collect();
    if !pages.is_empty() {
        let paths: Vec<_> = pages.iter().map(|file| file.url().path()).collect();
        let answer = if paths.len() == 1 { "returns" } else { "return" };
        findings.report(
            &pages,
            format!("{} {answer} 200 with an HTML page: publish the file, or return 404", paths.join(", ")),
        );
    }
}
