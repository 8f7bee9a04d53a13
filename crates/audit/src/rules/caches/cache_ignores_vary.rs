//! Caches that do not respect `Vary: Accept` by default do not store pages with two representations.

use super::misserved::wanted;
use super::shared::KEY_FIXES;
use crate::cache_status::{BUNNY, CLOUDFLARE, CLOUDFRONT, CacheOutcome, cache_evidence, cache_statuses};
use crate::exchange::{Exchange, Representation};
use crate::page::representation_of_page;
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "cache-ignores-vary",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "A cache whose key is only the URL by default does not store pages with two representations.",
    matters: "Cloudflare, CloudFront and bunny.net ignore `Vary: Accept` (RFC 9111 §4.1) unless they are \
              configured otherwise: the first client decides what all others get.",
    hurts: "People and agents, who may get the representation that another client requested.",
    fixes: KEY_FIXES,
    check,
};

/// Reports the first 200 response for the page that Cloudflare, CloudFront or bunny.net may store: its
/// lifetime is not zero, and the cache's field says something else than a bypass. Reports nothing if the site
/// does not negotiate, if hits of both representations show that the cache separates them, or if any client
/// got another representation than its own.
fn check(survey: &Survey, findings: &mut Findings) {
    let caches = &survey.caches;
    let sequences =
        || [&caches.at_page_url, &caches.agent_first, &caches.browser_first].into_iter().flatten();
    // The representation that the client got. `wanted` returns the representation that it must get.
    let got = |exchange: &Exchange| exchange.success().map(representation_of_page);
    let is_hit = |kind| {
        sequences().any(|exchange| {
            wanted(exchange) == kind
                && got(exchange) == Some(kind)
                && exchange.response().and_then(cache_evidence).is_some()
        })
    };
    let is_wrong = sequences().any(|exchange| got(exchange).is_some_and(|got| got != wanted(exchange)));
    if !caches.negotiates() || is_wrong || is_hit(Representation::Html) && is_hit(Representation::Markdown) {
        return;
    }
    for exchange in sequences() {
        let Some(response) = exchange.success().filter(|response| response.shared_lifetime() != Some(0))
        else {
            continue;
        };
        let statuses = cache_statuses(response);
        let Some(status) = statuses.iter().find(|status| {
            status.outcome != CacheOutcome::Bypass
                && [CLOUDFLARE, CLOUDFRONT, BUNNY].contains(&&*status.product)
        }) else {
            continue;
        };
        let (product, field) = (&status.product, &status.field);
        let message = format!(
            "{product} may store this page (`{field}`), and no response showed that it separates HTML and \
             Markdown: add `Accept` to the cache key"
        );
        findings.report(&[exchange], message);
        return;
    }
}
