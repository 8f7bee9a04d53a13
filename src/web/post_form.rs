//! POST: one form, from the bytes on the wire to the row on the disk.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::Desk;
use super::answer::{Answer, Refusal, accepted};
use super::source::client;
use crate::inbox::form::{Form, MAX_BODY_BYTES};
use crate::inbox::limit::{Decision, Source};
use crate::inbox::parse::parse;
use crate::inbox::store::Arrival;

/// Answers a request for a form's endpoint.
pub(super) async fn answer(
    desk: &Arc<Desk>,
    form: &'static Form,
    peer: IpAddr,
    request: Request<Incoming>,
) -> Answer {
    if request.method() != Method::POST {
        return Refusal::Method.into_answer();
    }
    let source = Source::from(client(peer, request.headers(), &desk.options.trusted_proxies));
    let decision = desk.limiter.take(source, Instant::now());
    let result = if decision.allowed {
        submit(desk, form, source, request).await
    } else {
        // Rounded up, so that who waits as long as told is let in.
        Err(Refusal::TooMany(
            decision.retry_after.as_millis().div_ceil(1000).max(1).try_into().unwrap_or(u64::MAX),
        ))
    };
    let mut answer = match result {
        Ok(()) => accepted(),
        Err(refusal) => refusal.into_answer(),
    };
    describe_limits(&decision, answer.headers_mut());
    answer
}

/// Takes one submission in. When this returns, it is on stable storage, or nothing of it is.
async fn submit(
    desk: &Arc<Desk>,
    form: &'static Form,
    source: Source,
    request: Request<Incoming>,
) -> Result<(), Refusal> {
    let (head, body) = request.into_parts();
    if !is_json(&head.headers) {
        return Err(Refusal::MediaType);
    }
    let idempotency_key =
        head.headers.get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok()).map(str::to_owned);
    let bytes = read(&head.headers, body, desk.options.body_timeout).await?;
    let entry = parse(form, &bytes).map_err(|rejection| Refusal::Invalid(rejection.to_string()))?;
    let arrival = Arrival { entry, idempotency_key, source, received_at: jiff::Timestamp::now() };
    match desk.store.accept(arrival).await {
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::error!(form = form.name, %error, "a submission could not be kept");
            Err(Refusal::NotKept)
        }
    }
}

/// The key under which a client sends the same submission again
/// (draft-ietf-httpapi-idempotency-key-header).
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// `application/json`, with whatever parameters; said once, or the same each time.
fn is_json(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(CONTENT_TYPE).iter().peekable();
    lines.peek().is_some()
        && lines.all(|line| {
            let media_type = line.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
            media_type.trim_ascii().eq_ignore_ascii_case(b"application/json")
        })
}

/// The whole body, within its limits of length and time.
async fn read(headers: &HeaderMap, body: Incoming, timeout: std::time::Duration) -> Result<Bytes, Refusal> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > MAX_BODY_BYTES as u64) {
        return Err(Refusal::TooLong);
    }
    match tokio::time::timeout(timeout, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::TooLong),
        Ok(Err(_)) => Err(Refusal::Broken),
        Err(_) => Err(Refusal::Slow),
    }
}

/// `RateLimit-Policy` and `RateLimit` as structured fields (draft-ietf-httpapi-ratelimit-headers, RFC 9651).
fn describe_limits(decision: &Decision, headers: &mut HeaderMap) {
    let limits = decision.limits.as_slice();
    if limits.is_empty() {
        return;
    }
    let join = |members: Vec<String>| HeaderValue::from_str(&members.join(", ")).ok();
    let policy =
        limits.iter().map(|limit| format!("\"{}\";q={};w={}", limit.name, limit.quota, limit.window_seconds));
    let state = limits
        .iter()
        .map(|limit| format!("\"{}\";r={};t={}", limit.name, limit.remaining, limit.reset_seconds));
    if let (Some(policy), Some(state)) = (join(policy.collect()), join(state.collect())) {
        headers.insert(HeaderName::from_static("ratelimit-policy"), policy);
        headers.insert(HeaderName::from_static("ratelimit"), state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_is_json() {
        for (lines, expected) in [
            (vec!["application/json"], true),
            (vec!["Application/JSON; charset=utf-8"], true),
            (vec!["application/json ;x=y"], true),
            (vec![], false),
            (vec![""], false),
            (vec!["text/plain"], false),
            (vec!["application/x-www-form-urlencoded"], false),
            (vec!["application/json-seq"], false),
            (vec!["application/json", "text/plain"], false),
        ] {
            let mut headers = HeaderMap::new();
            for line in &lines {
                headers.append(CONTENT_TYPE, HeaderValue::from_static(line));
            }
            assert_eq!(is_json(&headers), expected, "{lines:?}");
        }
    }
}
