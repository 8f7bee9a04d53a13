//! POST: one form, from the bytes on the wire to the row on the disk.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use hyper::body::Incoming;

use super::answer::{Answer, Refusal, accepted};
use super::source::client;
use super::{Desk, body};
use crate::inbox::form::Form;
use crate::inbox::limit::{Decision, Source};
use crate::inbox::parse::parse;
use crate::inbox::screen::Verdict;
use crate::inbox::store::Arrival;

/// Answers a request for a form's endpoint.
pub(super) async fn answer(
    desk: &Arc<Desk>,
    form: &'static Form,
    peer: IpAddr,
    head: &Parts,
    body: &mut Incoming,
) -> Answer {
    if head.method != Method::POST {
        return Refusal::Method.into_answer();
    }
    let source = Source::from(client(peer, &head.headers, &desk.options.trusted_proxies));
    let decision = desk.limiter.take(source, Instant::now());
    let result = if decision.allowed {
        submit(desk, form, source, head, body).await
    } else {
        // Rounded up, so that who waits as long as told is let in.
        let seconds = decision.retry_after.as_millis().div_ceil(1000).max(1);
        Err(Refusal::TooMany(seconds.try_into().unwrap_or(u64::MAX)))
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
    head: &Parts,
    body: &mut Incoming,
) -> Result<(), Refusal> {
    if !is_json(&head.headers) {
        return Err(Refusal::MediaType);
    }
    let idempotency_key = idempotency_key(&head.headers);
    let bytes = body::read(&head.headers, body, desk.options.body_timeout).await?;
    let entry = parse(form, &bytes).map_err(|rejection| Refusal::Invalid(rejection.to_string()))?;
    let arrival = Arrival {
        entry,
        idempotency_key,
        source,
        received_at: jiff::Timestamp::now(),
        verdict: Verdict::default(),
        agent: None,
    };
    let accepted = desk.store.accept(arrival).await.map_err(|error| {
        tracing::error!(form = form.name, %error, "a submission could not be kept");
        Refusal::NotKept
    })?;
    if desk.options.confirmed_forms.contains(&form.name) {
        confirmed(desk, form, accepted.id()).await?;
    }
    Ok(())
}

/// Waits until a channel has taken the submission over, for operators who want a 200 to mean that. If none has in time it is kept
/// and goes on being delivered all the same; sent again, it is recognised and waited for again.
async fn confirmed(desk: &Arc<Desk>, form: &'static Form, id: uuid::Uuid) -> Result<(), Refusal> {
    match desk.confirmations.wait(&desk.store, id, desk.options.confirm_timeout).await {
        Ok(true) => Ok(()),
        Ok(false) => {
            tracing::warn!(form = form.name, %id, "no channel has confirmed a submission in time");
            Err(Refusal::NotConfirmed)
        }
        Err(error) => {
            tracing::error!(form = form.name, %id, %error, "it is not known whether a submission is delivered");
            Err(Refusal::NotConfirmed)
        }
    }
}

/// The key under which a client sends the same submission again
/// (draft-ietf-httpapi-idempotency-key-header).
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What the client calls this submission; none where it says nothing, or several things.
fn idempotency_key(headers: &HeaderMap) -> Option<String> {
    let mut lines = headers.get_all(IDEMPOTENCY_KEY).iter();
    let key = lines.next()?.to_str().ok()?.trim();
    (lines.next().is_none() && !matches!(key, "" | "\"\"")).then(|| key.to_owned())
}

/// `application/json`, with whatever parameters; said once, or the same each time.
fn is_json(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(CONTENT_TYPE).iter().peekable();
    lines.peek().is_some()
        && lines.all(|line| {
            let media_type = line.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
            media_type.trim_ascii().eq_ignore_ascii_case(b"application/json")
        })
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
