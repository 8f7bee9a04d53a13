//! POST: one form, from the bytes on the wire to the row on the disk.

use std::sync::Arc;
use std::time::Instant;

use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use hyper::body::Incoming;

use super::answer::{Answer, Refusal, accepted};
use super::metrics::Verdict;
use super::request_id::RequestId;
use super::socket::Peer;
use super::source::client;
use super::{Desk, Live, body};
use crate::inbox::form::Form;
use crate::inbox::limit::{Decision, Source};
use crate::inbox::parse::parse;
use crate::inbox::store::{Accepted, Arrival};

/// Answers a request for a form's endpoint.
pub(super) async fn answer(
    desk: &Arc<Desk>,
    form: &'static Form,
    peer: Peer,
    head: &Parts,
    body: &mut Incoming,
) -> Answer {
    if head.method != Method::POST {
        return Refusal::Method.into_answer();
    }
    // One state of the configuration for the whole request, whatever is reloaded meanwhile.
    let live = desk.live.load_full();
    let source = Source::from(client(peer, &head.headers, &live.options));
    let decision = live.limiter.take(source, Instant::now());
    let result = if decision.allowed {
        submit(desk, &live, form, source, peer, head, body).await
    } else {
        // Rounded up, so that who waits as long as told is let in.
        let seconds = decision.retry_after.as_millis().div_ceil(1000).max(1);
        Err(Refusal::TooMany(seconds.try_into().unwrap_or(u64::MAX)))
    };
    desk.metrics.submission(form, result.as_ref().map_or_else(Refusal::verdict, |verdict| *verdict));
    let mut answer = match result {
        Ok(_) => accepted(),
        Err(refusal) => refusal.into_answer(),
    };
    describe_limits(&decision, answer.headers_mut());
    answer
}

/// Takes one submission in. When this returns, it is on stable storage, or nothing of it is.
async fn submit(
    desk: &Desk,
    live: &Live,
    form: &'static Form,
    source: Source,
    peer: Peer,
    head: &Parts,
    body: &mut Incoming,
) -> Result<Verdict, Refusal> {
    if !is_json(&head.headers) {
        return Err(Refusal::MediaType);
    }
    let idempotency_key = idempotency_key(&head.headers);
    let bytes = body::read(&head.headers, body, live.options.body_timeout).await?;
    let entry = parse(form, &bytes).map_err(|rejection| Refusal::Invalid(rejection.to_string()))?;
    let arrival = Arrival { entry, idempotency_key, source, received_at: jiff::Timestamp::now(), hold: None };
    let is_held = arrival.hold.is_some();
    let request = || RequestId::of(peer, &head.headers, &live.options);
    let accepted = desk.store.accept(arrival).await.map_err(|error| {
        let request = request();
        tracing::error!(%request, form = form.name, %error, "a submission could not be kept");
        Refusal::NotKept(request)
    })?;
    if live.options.confirmed_forms.contains(&form.name) {
        confirmed(desk, live, form, accepted.id(), request).await?;
    }
    Ok(match accepted {
        Accepted::Duplicate(_) => Verdict::Duplicate,
        Accepted::New(_) if is_held => Verdict::Held,
        Accepted::New(_) => Verdict::Accepted,
    })
}

/// Waits until a channel has taken the submission over, for operators who want a 200 to mean that. If none has in time it is kept
/// and goes on being delivered all the same; sent again, it is recognised and waited for again.
async fn confirmed(
    desk: &Desk,
    live: &Live,
    form: &'static Form,
    id: uuid::Uuid,
    request: impl Fn() -> RequestId,
) -> Result<(), Refusal> {
    match live.confirmations.wait(&desk.store, id, live.options.confirm_timeout).await {
        Ok(true) => Ok(()),
        Ok(false) => {
            let request = request();
            tracing::warn!(%request, form = form.name, %id, "no channel has confirmed a submission in time");
            Err(Refusal::NotConfirmed(request))
        }
        Err(error) => {
            let request = request();
            tracing::error!(%request, form = form.name, %id, %error, "it is not known whether a submission is delivered");
            Err(Refusal::NotConfirmed(request))
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
