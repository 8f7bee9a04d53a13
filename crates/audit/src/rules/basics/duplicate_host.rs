//! A site has one host name.

use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "duplicate-host",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "The host with `www.` redirects to the one without, or the other way round.",
    matters: "Search engines, caches and agents treat the two as different sites with the same pages (RFC \
              6596).",
    hurts: "Operators, whose pages compete with each other in search results.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Redirect one host to the other with 301 or 308, or name one URL in `<link \
                   rel=\"canonical\">`.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "In a `server` block for the other name: `return 301 https://www.example.com$request_uri;`",
        },
        Fix {
            platform: Platform::Caddy,
            text: "In the block for `www.example.com`: `redir https://example.com{uri} 301`",
        },
        Fix {
            platform: Platform::Netlify,
            text: "Automatic if the site has both domains and one is the primary domain.",
        },
        Fix { platform: Platform::Vercel, text: "Under Domains, redirect one to the other." },
    ],
    check,
};

/// Reports the page at the host with or without `www.` that was not audited, if it is HTML with status 200,
/// unless both pages name a canonical URL on the same host.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(other) = &survey.basics.other_host else { return };
    let Some(page) = Page::read(other) else { return };
    let own = &survey.first_requests.pages[0];
    let canonical = canonical_host(&page);
    if canonical.is_none() || canonical != canonical_host(own) {
        let [audited, host] = [&own.url, other.url()].map(|url| url.host_str().unwrap_or_default());
        let message = format!(
            "The page is served at both {audited} and {host}: redirect one to the other, or name one canonical URL in both"
        );
        findings.report(&[other, &own.html], message);
    }
}

/// The host of a page's first `<link rel=canonical>`. Ignores the `Link` header field.
fn canonical_host(page: &Page) -> Option<String> {
    let links = page.select("link[rel~=canonical i][href]");
    page.resolve(links.first()?.attribute("href")?)?.host_str().map(str::to_owned)
}
