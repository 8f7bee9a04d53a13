//! A page names one canonical URL.

use http::header::LINK;

use crate::link_header::parse_link_header;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "canonical-disagrees",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "The `Link` field and all `<link>` elements of a page name the same canonical URL.",
    matters: "A page has one canonical URL (RFC 6596 §3). Search engines ignore all of them if they differ.",
    hurts: "Search engines and agents, which choose a URL themselves.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Declare the canonical URL in one place only, or generate all declarations from the same value.",
    }],
    check,
};

/// Reports each page that declares two different canonical URLs in `<link>` elements or `Link` headers.
/// Fragments do not count, nor do elements in the body, where search engines ignore them.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        let elements = page.select("head link[rel~=canonical i][href]");
        let in_head = elements.iter().filter_map(|link| page.resolve(link.attribute("href")?));
        let links = parse_link_header(&page.response().header(LINK));
        let in_field = links.iter().filter(|link| link.has_rel("canonical"));
        let in_field = in_field.filter_map(|link| link.resolve(&page.url));
        let mut declared: Vec<_> = in_head.chain(in_field).collect();
        declared.dedup();
        if let [first, second, ..] = &declared[..] {
            let message = format!("The page names both {first} and {second} as canonical: name one");
            findings.report(&[&page.html], message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::fixtures::{found, page, public, survey};

    #[test]
    fn canonical_urls_are_compared_without_fragments() {
        for (field, html, expected) in [
            ("</a#x>; rel=canonical", "<link rel=canonical href='/a#x'>", vec![]),
            ("</a#x>; rel=canonical", "<link rel=canonical href='/a'>", vec![]),
            ("</a>; rel=canonical, </a#x>; rel=canonical", "", vec![]),
            ("</b#x>; rel=canonical", "<link rel=canonical href='/a#x'>", vec![Severity::Advice]),
            ("</b>; rel=canonical", "<link rel=CANONICAL href='/a'>", vec![Severity::Advice]),
            ("</b>; rel=canonical", "<p>x<link rel=canonical href='/a'>", vec![]),
        ] {
            let survey = survey(&page("https://example.com/a", &[("link", field)], html), public());
            assert_eq!(found(&RULE, &survey), expected, "{field} {html}");
        }
    }
}
