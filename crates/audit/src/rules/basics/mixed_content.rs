//! `https` pages load scripts, styles and frames over `https`.

use http::header::CONTENT_SECURITY_POLICY;
use regex_lite::Regex;

use super::shared::tag;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::basics::SCRIPT;
use crate::target_url::is_loopback;

pub(super) static RULE: Rule = Rule {
    id: "mixed-content",
    group: Group::Basics,
    severity: Severity::Broken,
    checks: "An `https` page loads no script, style sheet, font or frame over `http`.",
    matters: "Browsers block them (W3C Mixed Content).",
    hurts: "People, who see a page without its styles or functions.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Change the URLs to `https`. As a stopgap: `Content-Security-Policy: \
               upgrade-insecure-requests`.",
    }],
    check,
};

/// The first `http` URL in a stylesheet without comments that is imported, or is the first source of a font.
/// Browsers load images over `https` instead.
const LOADED_BY_STYLES: &str =
    r#"(?i)(?:@import\s*(?:url\(\s*)?|@font-face\s*\{[^}]*?\bsrc\s*:\s*url\(\s*)["']?(http://[^"')\s;]+)"#;

/// Reports each script that modern browsers run ([`SCRIPT`]), stylesheet, frame and embedded document with an
/// `http` URL, in pages with `https`, and the first URL of each `<style>` ([`LOADED_BY_STYLES`]). Skips pages
/// with `upgrade-insecure-requests`, alternative and disabled stylesheets, URLs of the local machine, and
/// documents that are embedded as the fallback of another element.
fn check(survey: &Survey, findings: &mut Findings) {
    let Ok(loaded_by_styles) = Regex::new(LOADED_BY_STYLES) else { return };
    let css = format!(
        "{SCRIPT}, link[rel~=stylesheet i][href]:not([rel~=alternate i], [disabled]), iframe[src], style, \
         :is(embed[src], object[data]):not(:is(video, audio, canvas, object[data]) *)"
    );
    for page in survey.first_requests.pages.iter().filter(|page| page.url.scheme() == "https") {
        let policies = page.select("meta[http-equiv=content-security-policy i][content]");
        let mut policies: Vec<_> = policies.iter().filter_map(|meta| meta.attribute("content")).collect();
        let header = page.response().header(CONTENT_SECURITY_POLICY);
        policies.push(&header);
        if policies.iter().any(|policy| policy.to_ascii_lowercase().contains("upgrade-insecure-requests")) {
            continue;
        }
        for element in page.select(&css) {
            let style = if element.name() == "style" { element.text() } else { String::new() };
            let style = without_comments(&style);
            let in_style = loaded_by_styles.captures(&style).and_then(|found| Some(found.get(1)?.as_str()));
            let address = ["src", "href", "data"].iter().find_map(|name| element.attribute(name));
            let address = in_style.or(address).and_then(|to| page.resolve(to));
            if let Some(url) = address.filter(|url| url.scheme() == "http" && !is_loopback(url)) {
                let by = tag(element);
                let message =
                    format!("The page loads {url} over `http` with {by}, which browsers block: use `https`");
                findings.report(&[&page.html], message);
            }
        }
    }
}

/// Removes the comments of a stylesheet, including one without an end.
fn without_comments(css: &str) -> String {
    let mut parts = css.split("/*");
    let first = parts.next().unwrap_or_default();
    let others = parts.filter_map(|part| Some(part.split_once("*/")?.1));
    std::iter::once(first).chain(others).collect()
}
