//! `[limits]`: byte budgets of the forms, and quotas, which servers may share through Redis.

use std::time::Duration;

use super::reader::{Reader, requests};
use super::value_parsers::{ParseResult, Raw};
use super::{channel, value_parsers};
use frontdesk_forms::MAX_BODY_BYTES;
use frontdesk_limits::rate_limiter;
use frontdesk_limits::{self as limits, Quota};

#[derive(Debug, Clone)]
pub struct LimitValues {
    pub requests: limits::LimitOptions,
    pub bytes: limits::ByteOptions,
    /// The Redis server through which servers share their counts; `None` if this server counts alone.
    pub shared: Option<rate_limiter::RedisOptions>,
}

/// Reads `[limits]`. The limiters later raise a quota or budget of a network that is less than that of a
/// source.
pub(super) fn read(r: &mut Reader<'_>) -> LimitValues {
    let enabled = r.get(
        requests("limits.enabled"),
        "true",
        "Whether requests to the forms are limited, and how many one source (an IPv4 address or IPv6 /64) may \
         send per minute and per hour. Beyond a quota, the response is 429.",
        value_parsers::parse_bool,
    );
    let source = Quota {
        per_minute: r.get(requests("limits.per_minute"), "30", "", quota()),
        per_hour: r.get(requests("limits.per_hour"), "300", "", quota()),
    };
    let network = Quota {
        per_minute: r.get(
            requests("limits.network_per_minute"),
            "300",
            "The same for a network, an IPv4 /24 or IPv6 /48; at least the quota of a source.",
            quota(),
        ),
        per_hour: r.get(requests("limits.network_per_hour"), "3000", "", quota()),
    };
    // Every budget must admit at least one body of maximum size.
    let budget = || value_parsers::bytes(MAX_BODY_BYTES as u64..=limits::MAX_BYTES);
    let bytes = limits::ByteOptions {
        enabled,
        source: r.get(
            requests("limits.bytes_per_day"),
            "8MiB",
            "Bytes of accepted submissions per day from one source and from one network; at least the budget \
             of a source. Beyond a budget, the response is 429. A budget refills steadily, so up to two of \
             them can be used in the first 24 hours. Each server counts for itself, even with `shared_url`.",
            budget(),
        ),
        network: r.get(requests("limits.network_bytes_per_day"), "80MiB", "", budget()),
    };
    let form = Quota {
        per_minute: r.get(
            requests("limits.form_per_minute"),
            "600",
            "Submissions that one form accepts for delivery from all sources together; at least the quota of \
             a network. Submissions beyond it are stored, and may be held.",
            quota(),
        ),
        per_hour: r.get(requests("limits.form_per_hour"), "6000", "", quota()),
    };
    let shared = read_shared(r);
    LimitValues { requests: limits::LimitOptions { enabled, source, network, form }, bytes, shared }
}

/// Returns a parser for the number of requests or submissions in a quota.
pub(super) fn quota() -> impl Fn(&Raw) -> ParseResult<u32> {
    value_parsers::count(1..=i64::from(limits::MAX_QUOTA))
}

/// Reads the keys for the Redis server. `None` if no URL is set. Refuses a certificate authority without TLS.
/// Warns if the URL has no password, and if hashed addresses are protected by neither a secret nor a
/// password.
fn read_shared(r: &mut Reader<'_>) -> Option<rate_limiter::RedisOptions> {
    let mut shared = r.get(
        requests("limits.shared_url").connection_url(),
        "",
        "A Redis or Valkey server that shares these limits among several servers (docs/pages/scale.md); empty if \
         this server counts alone. The URL needs a password, so set it in FRONTDESK_LIMITS__SHARED_URL, or \
         in a file that FRONTDESK_LIMITS__SHARED_URL_FILE names: \"redis://:PASSWORD@HOST:6379\", or \
         \"rediss://…\" for TLS. `shared_ca_file` is a PEM file with your own certificate authority.",
        value_parsers::optional(value_parsers::redis),
    );
    let ca = channel::read_pem(r, requests("limits.shared_ca_file"), "").map(|(pem, _)| pem);
    let secret = r.get(
        requests("limits.shared_secret").secret(),
        "",
        "The secret with which addresses are hashed before they are sent to that server: at least 16 \
         characters, such as `openssl rand -base64 24` prints, and the same on all servers. If empty, the password in \
         `shared_url` is used. Set it in FRONTDESK_LIMITS__SHARED_SECRET, or in a file that \
         FRONTDESK_LIMITS__SHARED_SECRET_FILE names.",
        value_parsers::optional(value_parsers::shared_secret),
    );
    r.refuse_if(
        ca.is_some() && !shared.as_ref().is_some_and(rate_limiter::RedisOptions::is_tls),
        "limits.shared_ca_file",
        "is set, but `limits.shared_url` is not a `rediss://` URL",
    );
    r.warn_if(
        shared.as_ref().is_some_and(|shared| shared.password().is_empty()),
        "limits.shared_url",
        "`limits.shared_url` has no password",
        "anyone who can reach that server can change the limits: add a password, as in redis://:PASSWORD@…",
    );
    let timeout = r.get(
        requests("limits.shared_timeout"),
        "15ms",
        "How long a request waits for that server before this one decides alone.",
        value_parsers::duration(Duration::from_millis(1)..=Duration::from_mins(1)),
    );
    if let Some(shared) = &mut shared {
        (shared.ca, shared.timeout, shared.secret) = (ca, timeout, secret);
    }
    r.warn_if(
        shared.as_ref().is_some_and(|shared| shared.describe_hash_secret().is_err()),
        "limits.shared_secret",
        "`limits.shared_secret` is not set, and `limits.shared_url` has no password",
        "anyone who can read that server's data can find out which addresses have sent requests: set the same secret on all servers, such as the output of `openssl rand -base64 24`",
    );
    shared
}
