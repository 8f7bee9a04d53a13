//! The sitemap is a sitemap.

use frontdesk_convert::Url;

use super::list_texts::sitemap_texts;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::first_requests::sitemap_locations;
use crate::xml;

pub(super) static RULE: Rule = Rule {
    id: "sitemap-invalid",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The sitemap is well-formed XML with `<urlset>` or `<sitemapindex>`, or a text file of URLs, and its \
             URLs are absolute.",
    matters: "Search engines discard a file that they cannot parse, and relative URLs (sitemaps.org).",
    hurts: "Search engines and agents, which miss the pages.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Escape `&` as `&amp;` in URLs, write nothing before `<?xml`, and set the base URL of the \
               generator.",
    }],
    check,
};

/// The root elements of sitemaps; feeds are accepted as well.
const ROOTS: [&str; 5] = ["urlset", "sitemapindex", "rss", "feed", "RDF"];

/// Reports each sitemap that is not well-formed XML, has white space before `<?xml`, has another root
/// element, or has URLs that are not absolute. Accepts lists of URLs, empty files and files with too many
/// nodes. Does not see HTML, compressed or incomplete responses ([`sitemap_texts`]); the rules
/// `robots-sitemap-broken` and `file-is-page` report HTML.
fn check(survey: &Survey, findings: &mut Findings) {
    for (sitemap, text) in sitemap_texts(survey) {
        let is_list =
            |text: &str| text.lines().map(str::trim).all(|line| line.is_empty() || Url::parse(line).is_ok());
        if text.is_empty() || (!text.starts_with('<') && is_list(&text)) {
            continue;
        }
        let is_late = sitemap.success().is_some_and(|response| xml::has_late_declaration(&response.text()));
        let message = match xml::parse(&text, false) {
            // Skip a sitemap with more XML nodes than the audit parses.
            Err(roxmltree::Error::NodesLimitReached) => continue,
            Err(error) => format!("The sitemap is not well-formed XML: {error}"),
            Ok(_) if is_late => "The sitemap has white space before `<?xml`, which parsers refuse".to_owned(),
            Ok(document) => {
                let name = document.root_element().tag_name().name();
                let relative: Vec<_> =
                    sitemap_locations(&document).filter(|(_, url)| url.is_none()).collect();
                match relative.first() {
                    _ if !ROOTS.contains(&name) => {
                        format!("The sitemap begins with `<{name}>`, not with `<urlset>` or `<sitemapindex>`")
                    }
                    Some((first, _)) => format!(
                        "URLs in the sitemap that are not absolute: {} in total, starting with `{first}`",
                        relative.len()
                    ),
                    None => continue,
                }
            }
        };
        findings.report(&[sitemap], message);
    }
}
