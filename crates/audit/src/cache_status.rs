//! Reads the fields in which caches report what they did with a request.

use sfv::{BareItem, List, ListEntry, Parser};

use crate::exchange::Response;

/// How a cache handled a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// The response came from the cache: fresh, stale or validated.
    Hit,
    /// The response came from the origin, and the cache may store it.
    Miss,
    /// The cache does not store the response, for example because it is configured to pass the request on.
    Bypass,
}

/// The status that one cache reports in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// The product, or the cache's name in `Cache-Status`; `a cache` if both are unknown.
    pub product: String,
    pub outcome: CacheOutcome,
    /// The field as received, for example `CF-Cache-Status: HIT`. Long values are truncated.
    pub field: String,
}

/// Header fields with values such as `HIT`, and the product that sends each field. Many products send
/// `X-Cache`.
const FIELDS: [(&str, &str); 16] = [
    ("CF-Cache-Status", CLOUDFLARE),
    ("X-Vercel-Cache", VERCEL),
    ("X-Nextjs-Cache", NEXTJS),
    ("X-Opennext-Cache", "OpenNext"),
    ("CDN-Cache", BUNNY),
    ("X-77-Cache", "CDN77"),
    ("Fly-Cache-Status", "Fly.io"),
    ("X-Sucuri-Cache", "Sucuri"),
    ("X-Kinsta-Cache", "Kinsta"),
    ("X-Litespeed-Cache", "LiteSpeed"),
    ("X-QC-Cache", "QUIC.cloud"),
    ("X-Drupal-Cache", "Drupal"),
    ("X-Proxy-Cache", UNNAMED),
    ("X-Cache-Status", UNNAMED),
    ("X-FastCGI-Cache", "nginx"),
    ("X-Cache", UNNAMED),
];

pub(crate) const CLOUDFLARE: &str = "Cloudflare";
pub(crate) const CLOUDFRONT: &str = "CloudFront";
pub(crate) const BUNNY: &str = "bunny.net";
pub(crate) const VERCEL: &str = "Vercel";
pub(crate) const NEXTJS: &str = "Next.js";
const UNNAMED: &str = "a cache";

/// Maximum number of characters of a value in [`CacheStatus::field`]; longer values are truncated.
const MAX_VALUE: usize = 60;

/// The statuses of all caches that report one in the response, first those in `Cache-Status`. Ignores unknown
/// values.
pub fn cache_statuses(response: &Response) -> Vec<CacheStatus> {
    let mut statuses = standard_statuses(response);
    for (name, product) in FIELDS {
        let value = response.header(name);
        if let Some(outcome) = outcome_of_words(&value, product) {
            let product = if name == "X-Cache" { sender_of_x_cache(response, &value) } else { product };
            statuses.push(CacheStatus { product: product.to_owned(), outcome, field: field(name, &value) });
        }
    }
    // Varnish sends the ID of the request and, for a hit, also the ID of the request that filled the cache.
    let numbers = response.header("X-Varnish");
    let outcome = match numbers
        .split_ascii_whitespace()
        .map(|number| number.parse::<u64>().is_ok())
        .collect::<Vec<_>>()[..]
    {
        [true] => CacheOutcome::Miss,
        [true, true] => CacheOutcome::Hit,
        _ => return statuses,
    };
    statuses.push(CacheStatus {
        product: "Varnish".to_owned(),
        outcome,
        field: field("X-Varnish", &numbers),
    });
    statuses
}

/// The field that shows that a response came from a cache: a hit, or an `Age` above zero. `None` if no field
/// shows that, whether or not there is a cache.
pub fn cache_evidence(response: &Response) -> Option<String> {
    let hit = cache_statuses(response).into_iter().find(|status| status.outcome == CacheOutcome::Hit);
    let age = || age(response).filter(|age| *age > 0).map(|age| format!("Age: {age}"));
    hit.map(|status| status.field).or_else(age)
}

/// The `Age` in seconds (RFC 9111 §5.1); `None` if it is missing or not a number.
pub fn age(response: &Response) -> Option<u64> {
    response.header(http::header::AGE).trim().parse().ok()
}

/// Whether the response has a field that sets a lifetime for caches of the operator, which then ignore
/// `Cache-Control` (RFC 9213). Does not read its value.
pub fn has_own_lifetime(response: &Response) -> bool {
    let names =
        ["cdn-cache-control", "netlify-cdn-cache-control", "vercel-cdn-cache-control", "surrogate-control"];
    names.iter().any(|name| response.headers.contains_key(*name))
}

/// The members of `Cache-Status` (RFC 9211), starting with the cache closest to the origin. A member with a
/// true `hit` is a hit; otherwise, its `fwd` says whether it is a bypass or a miss. Skips members without
/// either, and members whose name is not a string or a token. Empty if the field is missing or invalid.
fn standard_statuses(response: &Response) -> Vec<CacheStatus> {
    let value = response.header("Cache-Status");
    let Ok(caches) = Parser::new(&value).parse::<List>() else { return Vec::new() };
    let statuses = caches.into_iter().filter_map(|entry| {
        let ListEntry::Item(cache) = entry else { return None };
        let product = match &cache.bare_item {
            BareItem::String(name) => name.as_str().to_owned(),
            BareItem::Token(name) => name.as_str().to_owned(),
            _ => return None,
        };
        let forward = cache.params.get("fwd").and_then(|reason| reason.as_token());
        let outcome = match (cache.params.get("hit"), forward.map(sfv::TokenRef::as_str)) {
            (Some(BareItem::Boolean(true)), _) => CacheOutcome::Hit,
            (_, Some("bypass" | "method")) => CacheOutcome::Bypass,
            (_, Some(_)) => CacheOutcome::Miss,
            (_, None) => return None,
        };
        Some(CacheStatus { product, outcome, field: field("Cache-Status", &value) })
    });
    statuses.collect()
}

/// The outcome that a field such as `X-Cache` names, as in `HIT`, `Miss from cloudfront`, `TCP_HIT from …`,
/// `HIT, MISS`, `hit,litespeed` and others: a known word, also within a longer one, before the first ` from
/// `. With several words, a bypass counts before a hit, and a hit before a miss. Only a lone `REVALIDATED`
/// depends on `product`. `None` for other words.
fn outcome_of_words(value: &str, product: &str) -> Option<CacheOutcome> {
    let value = value.split(" from ").next().unwrap_or_default().to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| value.contains(word));
    if product == VERCEL && value == "REVALIDATED" {
        // Vercel's `REVALIDATED` means that the origin sent a new response; elsewhere it is a hit.
        Some(CacheOutcome::Miss)
    } else if has(&["PASS", "DYNAMIC", "NONE", "NOCACHE", "NO-CACHE", "NOSTORE", "UNCACHEABLE"]) {
        Some(CacheOutcome::Bypass)
    } else if has(&["HIT", "STALE", "UPDATING", "REVALIDATED"]) {
        Some(CacheOutcome::Hit)
    } else if has(&["MISS", "EXPIRED"]) {
        Some(CacheOutcome::Miss)
    } else {
        None
    }
}

/// The product that sent `X-Cache`, by its value or by other fields of the response; [`UNNAMED`] if it is
/// unknown.
fn sender_of_x_cache(response: &Response, value: &str) -> &'static str {
    let value = value.to_ascii_lowercase();
    if value.contains("cloudfront") {
        CLOUDFRONT
    } else if value.contains("akamai") {
        "Akamai"
    } else if response.header("X-Served-By").starts_with("cache-") {
        "Fastly"
    } else if response.headers.contains_key("x-azure-ref") {
        "Azure Front Door"
    } else {
        UNNAMED
    }
}

/// The field as text, `name: value`, with `…` in place of the characters after [`MAX_VALUE`].
fn field(name: &str, value: &str) -> String {
    let start: String = value.chars().take(MAX_VALUE).collect();
    format!("{name}: {start}{}", if start.len() < value.len() { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use frontdesk_fetch::FetchResponse;

    use super::*;

    fn response(fields: &[(&str, &str)]) -> Response {
        let pairs = fields.iter().map(|(name, value)| {
            (http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
        });
        let (status, time_to_header) = (http::StatusCode::OK, std::time::Duration::ZERO);
        let (headers, body) = (pairs.collect(), Vec::new());
        Response::from_fetched(FetchResponse { status, headers, body, is_whole: true, time_to_header })
    }

    #[test]
    fn each_product_reports_in_its_own_words() {
        use CacheOutcome::{Bypass, Hit, Miss};
        for (name, value, expected) in [
            ("CF-Cache-Status", "HIT", Some(("Cloudflare", Hit))),
            ("CF-Cache-Status", "DYNAMIC", Some(("Cloudflare", Bypass))),
            ("CF-Cache-Status", "EXPIRED", Some(("Cloudflare", Miss))),
            ("CF-Cache-Status", "REVALIDATED", Some(("Cloudflare", Hit))),
            ("X-Vercel-Cache", "REVALIDATED", Some(("Vercel", Miss))),
            ("X-Vercel-Cache", "PRERENDER", None),
            ("X-Cache", "Hit from cloudfront", Some(("CloudFront", Hit))),
            ("X-Cache", "RefreshHit from cloudfront", Some(("CloudFront", Hit))),
            ("X-Cache", "Error from cloudfront", None),
            ("X-Cache", "TCP_MISS from a2.deploy.akamaitechnologies.com", Some(("Akamai", Miss))),
            ("X-Cache", "MISS, HIT", Some(("a cache", Hit))),
            ("X-Cache", "CONFIG_NOCACHE", Some(("a cache", Bypass))),
            ("X-Cache-Status", "BYPASS", Some(("a cache", Bypass))),
            ("X-Litespeed-Cache", "hit,litespeed", Some(("LiteSpeed", Hit))),
            ("X-Varnish", "32770", Some(("Varnish", Miss))),
            ("X-Varnish", "32770 5", Some(("Varnish", Hit))),
            ("X-Varnish", "a b c", None),
            ("Cache-Status", "\"Netlify Edge\"; hit; ttl=31535000", Some(("Netlify Edge", Hit))),
            ("Cache-Status", "Origin; fwd=miss; stored", Some(("Origin", Miss))),
            ("Cache-Status", "Edge; fwd=bypass", Some(("Edge", Bypass))),
            ("Cache-Status", "not; a = list;;", None),
        ] {
            let found = cache_statuses(&response(&[(name, value)]));
            let found = found.first().map(|status| (&*status.product, status.outcome));
            assert_eq!(found, expected, "{name}: {value}");
        }
    }

    #[test]
    fn a_hit_or_an_age_shows_a_cache() {
        for (fields, expected) in [
            (&[("cf-cache-status", "HIT"), ("age", "3")][..], Some("CF-Cache-Status: HIT")),
            (
                &[("cache-status", "Origin; fwd=miss, Edge; hit")],
                Some("Cache-Status: Origin; fwd=miss, Edge; hit"),
            ),
            (&[("cf-cache-status", "MISS"), ("age", "320")], Some("Age: 320")),
            (&[("age", "0")], None),
            (&[("age", "-5")], None),
            (&[], None),
        ] {
            assert_eq!(cache_evidence(&response(fields)).as_deref(), expected, "{fields:?}");
        }
        let long = response(&[("x-cache", &format!("HIT {}", "x".repeat(100)))]);
        assert_eq!(cache_evidence(&long).unwrap().chars().count(), "X-Cache: ".len() + MAX_VALUE + 1);
    }
}
