//! `https` pages load scripts, styles and frames over `https`.

use frontdesk_convert::Url;
use http::header::CONTENT_SECURITY_POLICY;

use super::shared::tag;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "mixed-content",
    group: Group::Basics,
    severity: Severity::Broken,
    checks: "An `https` page loads no script, style sheet or frame over `http`.",
    matters: "Browsers block them (W3C Mixed Content).",
    hurts: "People, who see a page without its styles or functions.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Change the URLs to `https`. As a stopgap: `Content-Security-Policy: \
               upgrade-insecure-requests`.",
    }],
    check,
};

/// Reports each script, stylesheet and frame with an `http` URL, in pages with `https`. Skips pages with
/// `upgrade-insecure-requests`, and URLs of the local machine.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in survey.first_requests.pages.iter().filter(|page| page.url.scheme() == "https") {
        let policies = page.select("meta[http-equiv=content-security-policy i][content]");
        let mut policies: Vec<_> = policies.iter().filter_map(|meta| meta.attribute("content")).collect();
        let header = page.response().header(CONTENT_SECURITY_POLICY);
        policies.push(&header);
        if policies.iter().any(|policy| policy.to_ascii_lowercase().contains("upgrade-insecure-requests")) {
            continue;
        }
        for element in page.select("script[src], link[rel~=stylesheet i][href], iframe[src]") {
            let address =
                element.attribute("src").or(element.attribute("href")).and_then(|to| page.resolve(to));
            let is_local = |url: &Url| matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
            if address.is_some_and(|url| url.scheme() == "http" && !is_local(&url)) {
                findings.report(
                    &[&page.html],
                    format!(
                        "The page loads {} over `http`, which browsers block: `https` is right",
                        tag(element)
                    ),
                );
            }
        }
    }
}
