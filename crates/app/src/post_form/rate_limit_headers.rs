//! The headers that tell a client how much of its quotas is left.

use bytes::BytesMut;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use frontdesk_limits::QuotaStatuses;

/// Inserts `RateLimit-Policy` and `RateLimit`, which are lists (RFC 9651), according to
/// draft-ietf-httpapi-ratelimit-headers-11. There is no partition key (`pk`), because it would identify the
/// source.
pub(super) fn insert_rate_limit_headers(statuses: &QuotaStatuses, headers: &mut HeaderMap) {
    // 256 bytes are nearly always enough for both rate limit headers, so one allocation suffices.
    let mut lines = BytesMut::with_capacity(256);
    let mut list = |members: [(&str, u64, &str, u64); 4]| {
        for (at, (first, a, second, b)) in members.into_iter().enumerate() {
            lines.extend_from_slice(if at == 0 { b"\"" } else { b", \"" });
            lines.extend_from_slice(statuses[at].name.as_bytes());
            lines.extend_from_slice(first.as_bytes());
            lines.extend_from_slice(itoa::Buffer::new().format(a).as_bytes());
            lines.extend_from_slice(second.as_bytes());
            lines.extend_from_slice(itoa::Buffer::new().format(b).as_bytes());
        }
        HeaderValue::from_maybe_shared(lines.split().freeze())
    };
    let policy = list(statuses.map(|of| ("\";q=", of.quota.into(), ";w=", of.window_seconds)));
    let state = list(statuses.map(|of| ("\";r=", of.remaining.into(), ";t=", of.effective_window_seconds)));
    for (name, value) in [("ratelimit-policy", policy), ("ratelimit", state)] {
        if let Ok(value) = value {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use sfv::{BareItem, ListEntry, Parser};

    use super::*;
    use frontdesk_limits::{LimitOptions, LocalLimiter, Source};

    #[test]
    fn rate_limit_headers_are_structured_fields() {
        let source = Source::V4([192, 0, 2, 1]);
        let decision = LocalLimiter::new(&LimitOptions::default()).check(source, Instant::now());
        let mut headers = HeaderMap::new();
        insert_rate_limit_headers(&decision.statuses.expect("limits are enabled"), &mut headers);
        let read = |name: &str, parameters: [&str; 2]| -> Vec<(String, i64, i64)> {
            let list: sfv::List = Parser::new(headers[name].as_bytes()).parse().expect("a structured field");
            let number = |value: &BareItem| i64::from(value.as_integer().expect("a number"));
            let member = |entry: &ListEntry| {
                let ListEntry::Item(item) = entry else { panic!("{entry:?}") };
                assert_eq!(item.params.len(), 2, "{entry:?}");
                let name = item.bare_item.as_string().expect("a string").as_str().to_owned();
                let [first, second] = parameters.map(|key| number(&item.params[key]));
                (name, first, second)
            };
            list.iter().map(member).collect()
        };
        let expected = |rows: [(&str, i64, i64); 4]| rows.map(|(name, a, b)| (name.to_owned(), a, b));
        assert_eq!(
            read("ratelimit-policy", ["q", "w"]),
            expected([
                ("minute", 30, 60),
                ("hour", 300, 3600),
                ("network-minute", 300, 60),
                ("network-hour", 3000, 3600)
            ])
        );
        assert_eq!(
            read("ratelimit", ["r", "t"]),
            expected([
                ("minute", 29, 2),
                ("hour", 299, 12),
                ("network-minute", 299, 1),
                ("network-hour", 2999, 2)
            ])
        );
    }
}
