//! The query is part of a cache's key.

use crate::cache_status::{NEXTJS, VERCEL, cache_evidence, cache_statuses};
use crate::exchange::Response;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "fresh-url-is-cached",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "A cache has no stored response for a query that was never requested.",
    matters: "If the cache key lacks the query, a page that depends on it, such as a search or a paginated \
              list, gets the content of another query. For static pages, this is right.",
    hurts: "People and agents, who get the result of another query.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Add the query to the cache key, or at least the parameters that pages use.",
    }],
    check,
};

/// Reports the first response to a new cache-busting query that came from a cache, of at most two such
/// responses with status 200. Skips platforms that store pages when a site is built and ignore queries by
/// design. Noted as not judged if the site refuses cache-busting URLs.
fn check(survey: &Survey, findings: &mut Findings) {
    let caches = &survey.caches;
    if let Some(reason) = caches.cache_busting_refusal() {
        findings.not_judged(reason);
    }
    // `browser_first` is empty if the site does not negotiate: take the request from `encodings` instead.
    let fresh = [&caches.agent_first, &caches.browser_first, &caches.encodings];
    for exchange in fresh.into_iter().filter_map(|sequence| sequence.first()).take(2) {
        let Some(response) = exchange.success().filter(|response| !ignores_queries(response)) else {
            continue;
        };
        if let Some(field) = cache_evidence(response) {
            let message = format!(
                "A cache had a stored response for a query that was never requested (`{field}`): add the \
                 query to the cache key, unless all pages are static"
            );
            findings.report(&[exchange], message);
            return;
        }
    }
}

/// Whether the response has a cache status of Vercel, Next.js or Netlify, which ignore unknown queries by
/// design.
fn ignores_queries(response: &Response) -> bool {
    let is_build = |product: &str| product == VERCEL || product == NEXTJS || product.starts_with("Netlify");
    cache_statuses(response).iter().any(|status| is_build(&status.product))
}
