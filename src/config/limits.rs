//! `[limits]`: how many requests and bytes the forms accept, and the Redis server that shares the counts.

use std::path::Path;
use std::time::Duration;

use super::reader::{ConfigKey, Reader, key};
use super::{channel, value};
use crate::forms::MAX_BODY_BYTES;
use crate::limits::rate_limiter::{self, HashSecret};
use crate::limits::{self, Quota};

/// The values of `[limits]`.
pub(super) struct LimitValues {
    pub(super) requests: limits::LimitOptions,
    pub(super) bytes: limits::ByteOptions,
    /// The Redis server that shares the counts; none if this server counts alone.
    pub(super) shared: Option<rate_limiter::RedisOptions>,
}

pub(super) fn read(r: &mut Reader<'_>, folder: &Path) -> LimitValues {
    let quota = |r: &mut Reader<'_>, per_minute: ConfigKey, per_hour: ConfigKey| Quota {
        per_minute: r.get(per_minute, value::count(1..=i64::from(limits::MAX_QUOTA))),
        per_hour: r.get(per_hour, value::count(1..=i64::from(limits::MAX_QUOTA))),
    };
    let enabled = r.get(key("limits.enabled", "true"), value::flag);
    let source = quota(r, key("limits.per_minute", "30"), key("limits.per_hour", "300"));
    let network = quota(r, key("limits.network_per_minute", "300"), key("limits.network_per_hour", "3000"));
    // The least budget admits the longest body.
    let budget = || value::bytes(MAX_BODY_BYTES as u64..=limits::MAX_BYTES);
    let bytes = limits::ByteOptions {
        enabled,
        source: r.get(key("limits.bytes_per_day", "8MiB"), budget()),
        network: r.get(key("limits.network_bytes_per_day", "80MiB"), budget()),
    };
    let form = quota(r, key("limits.form_per_minute", "600"), key("limits.form_per_hour", "6000"));
    let shared = read_shared(r, folder);
    LimitValues { requests: limits::LimitOptions { enabled, source, network, form }, bytes, shared }
}

fn read_shared(r: &mut Reader<'_>, folder: &Path) -> Option<rate_limiter::RedisOptions> {
    let shared = r.get(key("limits.shared_url", ""), value::redis);
    let ca = channel::pem(r, key("limits.shared_ca_file", ""), folder).map(|(pem, _)| pem);
    let secret = r.get(key("limits.shared_secret", "").secret(), value::shared_secret);
    r.refuse_if(
        ca.is_some() && !shared.as_ref().is_some_and(rate_limiter::RedisOptions::is_tls),
        "limits.shared_ca_file",
        "is set, and `limits.shared_url` is no `rediss://` address",
    );
    r.warn_if(
        shared.as_ref().is_some_and(|shared| shared.password().is_empty()),
        "limits.shared_url",
        "`limits.shared_url` has no password",
        "anyone who can reach that server can change the limits: redis://:PASSWORD@…",
    );
    let patience = r.get(
        key("limits.shared_timeout", "15ms"),
        value::duration(Duration::from_millis(1)..=Duration::from_mins(1)),
    );
    let shared = shared.map(|shared| shared.trusting(ca).waiting(patience).hashing_with(secret));
    r.warn_if(
        shared.as_ref().is_some_and(|shared| shared.hash_secret() == HashSecret::Missing),
        "limits.shared_secret",
        "`limits.shared_secret` is not set, and `limits.shared_url` has no password",
        "anyone who can read that server can find out which addresses have sent: set the same secret on all servers, such as the output of `openssl rand -base64 24`",
    );
    shared
}
