//! The canonical URL is on the same host.

use frontdesk_convert::Url;

use super::production_host::production_host;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::links::canonical;

pub(super) static RULE: Rule = Rule {
    id: "canonical-foreign",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "The canonical URL of a page is on the host that serves the page, with or without `www.`, \
             and has `https` if the page has it.",
    matters: "Search engines index the canonical URL instead of the page (RFC 6596). With a wrong host, the \
              page disappears from search results.",
    hurts: "Search engines and agents, which cite the wrong URL.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Set the base URL of the generator to the public address. A copy for tests \
                   may name it, too.",
    }],
    check,
};

/// Reports each page whose canonical URL is on another host (apart from `www.`), or has `http` although the
/// page has `https`. A private copy may name the host of the public site.
fn check(survey: &Survey, findings: &mut Findings) {
    let production = production_host(survey);
    for page in &survey.first_requests.pages {
        let Some(canonical) = canonical(page) else { continue };
        if production.is_some() && production.as_deref() == canonical.host_str() {
            continue;
        }
        if let Some(fault) = fault(&page.url, &canonical) {
            findings.report(
                &[&page.html],
                format!(
                    "The page names {canonical} as canonical, which is {fault}: the public URL of the page is \
                     right"
                ),
            );
        }
    }
}

/// The fault of a canonical URL: another host, apart from `www.`, or `http` for a page with `https`. `None`
/// if it has neither.
fn fault(page: &Url, canonical: &Url) -> Option<&'static str> {
    let host = |url: &Url| url.host_str().map(|host| host.trim_start_matches("www.").to_owned());
    if host(canonical) != host(page) {
        Some("on another host")
    } else if (page.scheme(), canonical.scheme()) == ("https", "http") {
        Some("not encrypted")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hosts_and_schemes_are_foreign() {
        for (page, canonical, expected) in [
            ("https://example.com/", "https://www.example.com/", None),
            ("https://example.com/", "https://example.net/", Some("on another host")),
            ("https://example.com/", "http://example.com/", Some("not encrypted")),
            ("http://example.com/", "https://example.com/", None),
        ] {
            let url = |text| Url::parse(text).unwrap();
            assert_eq!(fault(&url(page), &url(canonical)), expected, "{page} {canonical}");
        }
    }
}
