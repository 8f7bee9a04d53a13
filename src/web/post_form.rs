//! POST: one form, from the bytes on the wire to the row on the disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use http::Method;
use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use jiff::Timestamp;

use super::answer::{Answer, Refusal, accepted};
use super::body::Upload;
use super::client::client_of;
use super::metrics::Verdict;
use super::request_id::{RequestId, names};
use super::socket::Peer;
use super::{Desk, Live};
use crate::forms::Form;
use crate::forms::parse::{Parsed, parse_with_extras};
use crate::limits::{Admission, Source, Standings};
use crate::screening::{Evidence, Facts, Origin, Rate};
use crate::store::Arrival;
use crate::store::disk::SMALL_BODY_BYTES;

/// What the limiter refuses is written down about so often.
const PRESSURE_IS_NOTED: Duration = Duration::from_mins(1);

/// Answers a request for a form's endpoint.
pub(super) async fn answer(
    desk: &Arc<Desk>,
    live: &Live,
    form: &'static Form,
    peer: Peer,
    head: &Parts,
    body: &mut Upload,
) -> Answer {
    let now = Instant::now();
    let source = Source::from(client_of(peer, &head.headers, &live.options));
    let (result, standings) = if head.method == Method::POST {
        let decision = live.limiter.take(source, now).await;
        let result = match decision.admission {
            Admission::Allowed => {
                let sender = Sender { peer, source, rate: rate(decision.standings.as_ref()) };
                let result = submit(desk, live, form, &sender, head, body).await;
                if let Err(Refusal::OverBudget(_)) = &result {
                    note_pressure(desk, source, form);
                }
                result
            }
            Admission::Refused { retry_after, .. } => {
                note_pressure(desk, source, form);
                Err(Refusal::TooMany(whole_seconds(retry_after)))
            }
        };
        desk.metrics.submission(form, result.as_ref().map_or_else(Refusal::verdict, |verdict| *verdict));
        (result, decision.standings)
    } else {
        (Err(Refusal::Method), live.limiter.look(source, now).await)
    };
    let mut answer = match result {
        Ok(_) => accepted(),
        Err(refusal) => refusal.into_answer(),
    };
    if let Some(standings) = &standings {
        describe_limits(standings, answer.headers_mut());
    }
    answer
}

/// Rounded up, so that a client that waits as long as told is let in.
fn whole_seconds(retry_after: Duration) -> u64 {
    retry_after.as_nanos().div_ceil(1_000_000_000).try_into().unwrap_or(u64::MAX)
}

/// Who submits, as the limiter sees it.
struct Sender {
    peer: Peer,
    source: Source,
    rate: Rate,
}

/// How much of its own quota a source has used; the network's is shared with others.
fn rate(standings: Option<&Standings>) -> Rate {
    let own = standings.into_iter().flatten().take(2);
    Rate::of(own.map(|standing| (standing.remaining, standing.quota)))
}

/// Takes one submission in. When this returns, it is on stable storage, or nothing of it is.
async fn submit(
    desk: &Desk,
    live: &Live,
    form: &'static Form,
    sender: &Sender,
    head: &Parts,
    body: &mut Upload,
) -> Result<Verdict, Refusal> {
    if !is_json(&head.headers) {
        return Err(Refusal::MediaType);
    }
    let idempotency_key = idempotency_key(&head.headers);
    // Keep the charge: the parsed fields take as much memory as the body.
    let (bytes, _charge) = body.read(&head.headers, live.options.body_timeout).await?;
    let Parsed { entry, extras } =
        parse_with_extras(form, &bytes).map_err(|rejection| Refusal::Invalid(rejection.to_string()))?;
    let request = || RequestId::of(sender.peer, names(&head.headers), &live.options);
    if bytes.len() > SMALL_BODY_BYTES && desk.disk.is_low() {
        let request = request();
        tracing::warn!(%request, form = form.name, bytes = bytes.len(), "a large submission was refused: little space is free");
        return Err(Refusal::LowDisk(request));
    }
    // Charge the budget last, because only the store can refuse now: a submission that is not written must cost nothing.
    live.byte_limiter
        .charge(sender.source, bytes.len(), Instant::now())
        .map_err(|over| Refusal::OverBudget(whole_seconds(over.retry_after)))?;
    drop(bytes);
    let received_at = Timestamp::now();
    let standing = live.agents.verify(head, received_at).await;
    let evidence =
        Evidence::Facts(Facts { rate: sender.rate, origin: origin(head, live.site.base_url()), extras });
    let agent = standing.agent().map(str::to_owned);
    let arrival = Arrival { entry, idempotency_key, source: sender.source, received_at, evidence, agent };
    let id = desk.store.accept(arrival).await.map_err(|error| {
        let request = request();
        tracing::error!(%request, form = form.name, %error, "a submission could not be kept");
        Refusal::NotKept(request)
    })?;
    if live.options.confirmed_forms.contains(&form.name) {
        confirmed(desk, live, form, id, request).await?;
    }
    Ok(Verdict::Accepted)
}

/// Where a browser says that the form was sent from.
fn origin(head: &Parts, base_url: &str) -> Origin {
    let text = |name: HeaderName| head.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(HOST).or(head.uri.authority().map(Authority::as_str)).unwrap_or_default();
    Origin::of(text(ORIGIN), text(SEC_FETCH_SITE), &[base_url, host])
}

/// Fetch Metadata Request Headers.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Counts a refused request. The first one sees to it that all are written down a little later; should that fail, it is no
/// reason to do anything else differently.
fn note_pressure(desk: &Arc<Desk>, source: Source, form: &'static Form) {
    if desk.pressure.note(source, form.name) {
        let desk = desk.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(PRESSURE_IS_NOTED).await;
            let _ = desk.store.pressed(desk.pressure.drain(), Timestamp::now()).await;
        });
    }
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
fn describe_limits(standings: &Standings, headers: &mut HeaderMap) {
    // Both in one piece of memory, as long as they become nearly always: every answer carries them.
    let mut lines = BytesMut::with_capacity(256);
    let mut list = |members: [(&str, u64, &str, u64); 4]| {
        for (at, (first, a, second, b)) in members.into_iter().enumerate() {
            lines.extend_from_slice(if at == 0 { b"\"" } else { b", \"" });
            lines.extend_from_slice(standings[at].name.as_bytes());
            lines.extend_from_slice(first.as_bytes());
            push_number(&mut lines, a);
            lines.extend_from_slice(second.as_bytes());
            push_number(&mut lines, b);
        }
        HeaderValue::from_maybe_shared(lines.split().freeze())
    };
    let policy = list(standings.map(|of| ("\";q=", of.quota.into(), ";w=", of.window_seconds)));
    let state = list(standings.map(|of| ("\";r=", of.remaining.into(), ";t=", of.reset_seconds)));
    for (name, value) in [("ratelimit-policy", policy), ("ratelimit", state)] {
        if let Ok(value) = value {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// Writes a number in decimal digits, without the machinery of formatting.
fn push_number(text: &mut BytesMut, mut number: u64) {
    let mut digits = [0; 20];
    let mut begin = digits.len();
    while begin == digits.len() || number > 0 {
        begin -= 1;
        digits[begin] = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
    text.extend_from_slice(&digits[begin..]);
}

#[cfg(test)]
mod tests {
    use sfv::{BareItem, ListEntry, Parser};

    use super::*;
    use crate::limits::{Limiter, Options};

    #[test]
    fn limits_are_told_as_lists_of_strings_with_parameters() {
        let source = Source::V4([192, 0, 2, 1]);
        let decision = Limiter::new(&Options::default()).take(source, Instant::now());
        let mut headers = HeaderMap::new();
        describe_limits(&decision.standings.expect("it is switched on"), &mut headers);
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

    #[test]
    fn numbers_are_written_with_all_their_digits() {
        for number in [0, 7, 10, 300, 1_000_000, u64::MAX] {
            let mut text = BytesMut::new();
            push_number(&mut text, number);
            assert_eq!(text, number.to_string());
        }
    }

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
