//! The canonical URL of a page is not that of a page with other content.

use std::sync::Arc;

use frontdesk_convert::Url;
use http::header::LINK;

use crate::exchange::Exchange;
use crate::link_header::parse_link_header;
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::links::canonical;
use crate::words::{PhraseSet, words};

/// Minimum number of words of a page that is compared with its canonical page.
const MIN_WORDS: usize = 20;

/// A page is a duplicate if the canonical page has at least this percentage of the page's
/// phrases.
const DUPLICATE: usize = 50;

pub(super) static RULE: Rule = Rule {
    id: "canonical-other-page",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The canonical URL of a page, or of its Markdown, is that of the page or of a duplicate.",
    matters: "Search engines index the canonical URL instead of the page (RFC 6596 §3), so a page that names \
              another page, or its version in another language, disappears from search results.",
    hurts: "People and agents, who do not find the page; agents, which cite another one.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Derive the canonical URL from the URL of each page. Each language is a page of its own: \
               connect languages with `hreflang`.",
    }],
    check,
};

/// Reports the canonical URLs of pages, of the fetched language version and of their Markdown that lead to
/// another fetched page with other content ([`is_other`]). Canonical URLs that were not fetched are not
/// judged, and Markdown that names the same URL as its HTML is not reported again.
fn check(survey: &Survey, findings: &mut Findings) {
    let followed = survey.links.canonical.as_ref();
    let followed_page = followed.and_then(|followed| Some((followed.target(), Page::read(followed.last())?)));
    let find = |url: &Url| {
        let known = survey.first_requests.pages.iter().find(|page| page.url == *url);
        known.or_else(|| followed_page.as_ref().filter(|(target, _)| *target == url).map(|(_, page)| page))
    };
    let language = survey.links.language.as_ref().and_then(|followed| Page::read(followed.last()));
    for page in survey.first_requests.pages.iter().chain(&language) {
        let html = canonical(page);
        for (name, exchange, declared) in [
            ("The page", Some(&page.html), html.clone()),
            ("The Markdown of the page", page.agent.as_ref(), page.agent.as_deref().and_then(in_field)),
            (
                "The declared Markdown of the page",
                page.twin.as_ref(),
                page.twin.as_deref().and_then(in_field),
            ),
        ] {
            let (Some(exchange), Some(declared)) = (exchange, declared) else { continue };
            let is_reported = !Arc::ptr_eq(exchange, &page.html) && html.as_ref() == Some(&declared);
            if declared != page.url
                && !is_reported
                && let Some(other) = find(&declared)
                && is_other(page, other)
            {
                let message = format!(
                    "{name} names {declared} as canonical, which has other content: name {}",
                    page.url
                );
                findings.report(&[exchange, &other.html], message);
            }
        }
    }
}

/// The first canonical URL in the `Link` header field of a response with status 200.
fn in_field(exchange: &Exchange) -> Option<Url> {
    let links = parse_link_header(&exchange.success()?.header(LINK));
    links.iter().find(|link| link.has_rel("canonical"))?.resolve(exchange.url())
}

/// Whether `other` has another title and less than [`DUPLICATE`] percent of `page`'s phrases. False if `page`
/// has fewer than [`MIN_WORDS`] words.
fn is_other(page: &Page, other: &Page) -> bool {
    let title = |page: &Page| page.select("title").first().map(|title| title.text());
    title(page) != title(other)
        && words(&page.reference.text).len() >= MIN_WORDS
        && PhraseSet::new([&*other.reference.text]).percentage(&page.reference.text) < DUPLICATE
}
