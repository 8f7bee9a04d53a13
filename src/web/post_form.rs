//! Handles form submissions: rate limits, parsing and storage.

#![expect(clippy::disallowed_methods, reason = "submissions are timestamped here")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY};
use http::request::Parts;
use jiff::Timestamp;

use super::ambiguity::host_of;
use super::body::RequestBody;
use super::client::client_ip;
use super::cors;
use super::get_page::field_values;
use super::html_answer;
use super::metrics::SubmissionResult;
use super::request_id::{RequestId, X_REQUEST_ID};
use super::response::{HttpResponse, Refusal, accepted};
use super::slot::Charge;
use super::socket::Peer;
use super::state::{AppState, Snapshot};
use frontdesk_forms::parse::{ParsedForm, parse_with_extras};
use frontdesk_forms::urlencoded::PostedForm;
use frontdesk_forms::{BodyEncoding, Form};
use frontdesk_inbox::intake::Arrival;
use frontdesk_inbox::screening::{Evidence, Origin, Rate, RequestFacts};
use frontdesk_inbox::store::disk::SMALL_BODY_BYTES;
use frontdesk_limits::{Admission, QuotaStatuses, Source};

/// How long counts of refused requests stay in memory before they are stored.
const PRESSURE_INTERVAL: Duration = Duration::from_mins(1);

pub(super) struct FormRequest<'a> {
    pub(super) app: &'a Arc<AppState>,
    pub(super) snapshot: &'a Snapshot,
    pub(super) form: &'static Form,
    pub(super) peer: Peer,
    pub(super) head: &'a Parts,
}

impl FormRequest<'_> {
    /// Responds to the request. Refuses methods other than POST.
    pub(super) async fn respond(&self, body: &mut RequestBody) -> HttpResponse {
        let Self { app, snapshot, form, peer, head } = *self;
        let now = Instant::now();
        let options = &snapshot.options;
        if let Some(response) = cors::preflight(&options.forms.allowed_origins, head) {
            return response;
        }
        let client = client_ip(peer, &head.headers, &options.trusted_proxies, options.forwarded_header);
        let source = Source::from(client);
        let is_post = head.method == Method::POST;
        let is_html = options.forms.html_posts && !is_json(&head.headers) && html_answer::is_wanted(head);
        let mut posted = None;
        let (outcome, statuses) = if is_post {
            let decision = snapshot.limiter.check(source, now).await;
            let outcome = match decision.admission {
                Admission::Allowed => {
                    self.submit(source, quota_use(decision.statuses.as_ref()), body, &mut posted).await
                }
                Admission::Refused { retry_after, .. } => {
                    // The page with the reason shows the visitor's text again.
                    if is_html && self.is_html_form() && self.is_from_this_site() {
                        let _ = self.read_html_form(body, &mut posted).await;
                    }
                    Err(Refusal::TooMany(whole_seconds(retry_after)))
                }
            };
            (outcome, decision.statuses)
        } else {
            (Err(Refusal::Method), snapshot.limiter.status(source, now).await)
        };
        let page = is_html.then(|| html_answer::Answer::new(&snapshot.site, form, head));
        let (mut response, result) = match outcome {
            Ok(()) => {
                let response = page.map_or_else(accepted, |page| page.redirect_to_thanks());
                (response, SubmissionResult::Accepted)
            }
            Err(refusal) => {
                let message = html_answer::message_of(&refusal);
                let (response, result) = refusal.into_response();
                match page {
                    Some(page) => (page.show(response, &message, posted.as_ref(), body), result),
                    None => (response, result),
                }
            }
        };
        if options.forms.html_posts {
            response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
        }
        if is_post {
            app.metrics.record_submission(form, result);
        }
        if result == SubmissionResult::Limited {
            record_refusal(app, source, form);
        }
        if let Some(statuses) = &statuses {
            insert_rate_limit_headers(statuses, response.headers_mut());
        }
        if !options.forms.allowed_origins.is_empty() {
            response.headers_mut().append(VARY, HeaderValue::from_static("Origin"));
        }
        if let Some(origin) = cors::permitted_origin(&options.forms.allowed_origins, &head.headers) {
            cors::expose(response.headers_mut(), origin);
        }
        response
    }

    /// Stores one submission; `rate` is the used share of the source's quota. On success, the submission is
    /// on stable storage; after an error other than [`Refusal::NotConfirmed`], no part of it is stored.
    async fn submit(
        &self,
        source: Source,
        rate: Rate,
        body: &mut RequestBody,
        posted: &mut Option<PostedForm>,
    ) -> Result<(), Refusal> {
        let Self { app, snapshot, form, head, .. } = *self;
        let idempotency_key = idempotency_key(&head.headers);
        // Keep the charge: the parsed fields take as much memory as the body.
        let (parsed, length, _charge) = if snapshot.options.forms.html_posts && self.is_html_form() {
            if !self.is_from_this_site() {
                return Err(Refusal::OtherSite);
            }
            let (length, charge) = self.read_html_form(body, posted).await?;
            (posted.as_ref().map(PostedForm::parse).transpose(), length, charge)
        } else if is_json(&head.headers) {
            let timeout = snapshot.options.timeouts.body;
            let (bytes, length, charge) = body.read(&head.headers, BodyEncoding::Json, timeout).await?;
            (parse_with_extras(form, &bytes).map(Some), length, charge)
        } else {
            return Err(Refusal::MediaType);
        };
        let parsed = parsed.map_err(|rejection| Refusal::Invalid(rejection.to_string()))?;
        let Some(ParsedForm { entry, extras }) = parsed else { return Err(Refusal::MediaType) };
        if length > SMALL_BODY_BYTES && app.disk.is_low() {
            let request = self.id();
            tracing::warn!(%request, form = form.name, bytes = length, "large submission refused because disk space is low");
            return Err(Refusal::LowDisk(request));
        }
        // Check the byte limit last: a submission refused for another reason must not count towards it.
        let charged = snapshot.byte_limiter.charge(source, length, Instant::now());
        if let Admission::Refused { retry_after, .. } = charged {
            return Err(Refusal::OverBudget(whole_seconds(retry_after)));
        }
        let received_at = Timestamp::now();
        let agent = snapshot.agents.verify(head, received_at).await.ok().flatten();
        // An HTML form got this far only because it is on this site or on a permitted one.
        let origin = if posted.is_some() { Origin::Same } else { self.origin() };
        let evidence = Evidence::Facts(RequestFacts { rate, origin, extras });
        let arrival = Arrival { entry, idempotency_key, source, received_at, evidence, agent };
        let id = app.intake.accept(arrival).await.map_err(|error| {
            let request = self.id();
            tracing::error!(%request, form = form.name, %error, "submission could not be stored");
            Refusal::NotStored(request)
        })?;
        if snapshot.options.confirmed_forms.contains(&form.name) {
            self.wait_for_confirmation(id).await?;
        }
        Ok(())
    }

    /// Waits for a channel's confirmation. Delivery continues after the timeout. If the client repeats the
    /// submission, the repeat waits as well.
    async fn wait_for_confirmation(&self, id: uuid::Uuid) -> Result<(), Refusal> {
        let Self { app, snapshot, form, .. } = *self;
        let confirmed = snapshot.confirmations.wait(&app.store, id, snapshot.options.confirm_timeout).await;
        if let Ok(true) = confirmed {
            return Ok(());
        }
        let request = self.id();
        if let Err(error) = confirmed {
            tracing::error!(%request, form = form.name, %id, %error, "could not determine whether a submission was delivered; delivery continues");
        } else {
            tracing::warn!(%request, form = form.name, %id, "no channel confirmed a submission in time; delivery continues");
        }
        Err(Refusal::NotConfirmed(request))
    }

    /// Where the form was submitted from, according to the headers that browsers send. A permitted origin
    /// counts as this site.
    fn origin(&self) -> Origin {
        let Self { snapshot, head, .. } = *self;
        let is_permitted =
            cors::permitted_origin(&snapshot.options.forms.allowed_origins, &head.headers).is_some();
        if is_permitted { Origin::Same } else { origin(head, &snapshot.site.base_url) }
    }

    /// Whether the browser says that the form is on this site or on a permitted one. If it sends neither
    /// `Origin` nor `Sec-Fetch-Site`, the form may be on any site.
    fn is_from_this_site(&self) -> bool {
        let is_same = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"same-origin");
        self.origin() == Origin::Same || self.head.headers.get(SEC_FETCH_SITE).is_some_and(is_same)
    }

    fn is_html_form(&self) -> bool {
        has_media_type(&self.head.headers, b"application/x-www-form-urlencoded")
    }

    /// Reads an HTML form. Returns the length of its body after decoding.
    async fn read_html_form(
        &self,
        body: &mut RequestBody,
        posted: &mut Option<PostedForm>,
    ) -> Result<(usize, Charge), Refusal> {
        let timeout = self.snapshot.options.timeouts.body;
        let (bytes, length, mut charge) =
            body.read(&self.head.headers, BodyEncoding::Urlencoded, timeout).await?;
        // The decoded fields are kept beside the entry, to show them again if it cannot be stored.
        charge.resize(bytes.len() + length);
        let decoded = PostedForm::decode(self.form, &bytes);
        *posted = Some(decoded.map_err(|rejection| Refusal::Invalid(rejection.to_string()))?);
        Ok((length, charge))
    }

    fn id(&self) -> RequestId {
        let lines = field_values(&self.head.headers, X_REQUEST_ID);
        RequestId::from_proxy_or_new(self.peer, lines, &self.snapshot.options.trusted_proxies)
    }
}

/// Converts a wait to whole seconds, rounded up so that a retry after this time is not too early.
pub(super) fn whole_seconds(retry_after: Duration) -> u64 {
    retry_after.as_nanos().div_ceil(1_000_000_000).try_into().unwrap_or(u64::MAX)
}

/// The larger of the used shares of the source's own two quotas. The network's quotas are left out, because
/// other sources share them.
fn quota_use(statuses: Option<&QuotaStatuses>) -> Rate {
    let own = statuses.into_iter().flatten().take(2);
    Rate::most_used(own.map(|standing| (standing.remaining, standing.quota)))
}

/// Where the form was submitted from, according to the headers that browsers send.
fn origin(head: &Parts, base_url: &str) -> Origin {
    let text = |name: HeaderName| head.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    Origin::classify(text(ORIGIN), text(SEC_FETCH_SITE), &[base_url, host_of(head).unwrap_or_default()])
}

/// The header in which browsers report how a request's origin relates to this site (Fetch Metadata, W3C).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Counts a refused request. The first one since the counts were last stored schedules a task that stores
/// them. A failure to store them is ignored.
fn record_refusal(app: &Arc<AppState>, source: Source, form: &'static Form) {
    if app.refusals.record(source, form.name) {
        let app = app.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(PRESSURE_INTERVAL).await;
            let _ = app.store_refusals().await;
        });
    }
}

/// The header that identifies retries of the same submission (draft-ietf-httpapi-idempotency-key-header).
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The idempotency key; `None` if it is absent, empty or ambiguous.
fn idempotency_key(headers: &HeaderMap) -> Option<String> {
    let mut lines = headers.get_all(IDEMPOTENCY_KEY).iter();
    let key = lines.next()?.to_str().ok()?.trim();
    (lines.next().is_none() && !matches!(key, "" | "\"\"")).then(|| key.to_owned())
}

/// Whether the request has a `Content-Type`, and each one is `application/json` with any parameters.
fn is_json(headers: &HeaderMap) -> bool {
    has_media_type(headers, b"application/json")
}

/// Whether the request has a `Content-Type`, and each one is `wanted` with any parameters.
fn has_media_type(headers: &HeaderMap, wanted: &[u8]) -> bool {
    let mut lines = headers.get_all(CONTENT_TYPE).iter().peekable();
    lines.peek().is_some()
        && lines.all(|line| {
            let media_type = line.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
            media_type.trim_ascii().eq_ignore_ascii_case(wanted)
        })
}

/// Inserts `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers, RFC 9651).
fn insert_rate_limit_headers(statuses: &QuotaStatuses, headers: &mut HeaderMap) {
    // 256 bytes are nearly always enough for both headers, so one allocation suffices.
    let mut lines = BytesMut::with_capacity(256);
    let mut list = |members: [(&str, u64, &str, u64); 4]| {
        for (at, (first, a, second, b)) in members.into_iter().enumerate() {
            lines.extend_from_slice(if at == 0 { b"\"" } else { b", \"" });
            lines.extend_from_slice(statuses[at].name.as_bytes());
            lines.extend_from_slice(first.as_bytes());
            push_number(&mut lines, a);
            lines.extend_from_slice(second.as_bytes());
            push_number(&mut lines, b);
        }
        HeaderValue::from_maybe_shared(lines.split().freeze())
    };
    let policy = list(statuses.map(|of| ("\";q=", of.quota.into(), ";w=", of.window_seconds)));
    let state = list(statuses.map(|of| ("\";r=", of.remaining.into(), ";t=", of.reset_seconds)));
    for (name, value) in [("ratelimit-policy", policy), ("ratelimit", state)] {
        if let Ok(value) = value {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// Appends a number in decimal digits without the overhead of `write!`.
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
    use frontdesk_limits::{LimitOptions, LocalLimiter};

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

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 7, 10, 300, 1_000_000, u64::MAX] {
            let mut text = BytesMut::new();
            push_number(&mut text, number);
            assert_eq!(text, number.to_string());
        }
    }

    #[test]
    fn only_json_content_types_are_accepted() {
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
