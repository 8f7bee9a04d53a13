//! Handles form submissions: rate limits, parsing and storage. Responses are JSON; those to HTML forms show
//! the same outcome as a page (`no_script_answer.rs`).

#![expect(clippy::disallowed_methods, reason = "submissions are timestamped here")]

mod canary;
mod rate_limit_headers;
pub(super) mod refusal;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, ORIGIN, REFERER, VARY,
};
use http::request::Parts;
use jiff::Timestamp;
use uuid::Uuid;

use self::canary::{GenuineToken, token_in_body, token_in_header};
use self::rate_limit_headers::insert_rate_limit_headers;
use self::refusal::FormRefusal;
use super::cors;
use super::get_page::field_values;
use super::metrics::SubmissionResult;
use super::no_script_answer;
use super::response::{HttpResponse, accepted};
use super::state::{AppState, Snapshot};
use frontdesk_forms::form_post::PostedForm;
use frontdesk_forms::multipart::parameter;
use frontdesk_forms::{
    BodyEncoding, Form, LeadSource, MAX_BODY_BYTES, MAX_ENCODED_BYTES, ParsedForm, Rejection,
    parse_with_extras,
};
use frontdesk_http::{Charge, Peer, RequestBody, RequestId, X_REQUEST_ID, client_ip, host_of};
use frontdesk_inbox::intake::Arrival;
use frontdesk_inbox::store::StoreError;
use frontdesk_limits::{Admission, QuotaStatuses, Source};
use frontdesk_process::disk_space::SMALL_BODY_BYTES;
use frontdesk_screening::{Evidence, Origin, Rate, RequestFacts};

/// How long counts of refused requests stay in memory before they are stored.
const REFUSALS_INTERVAL: Duration = Duration::from_mins(1);

pub(super) struct FormRequest<'a> {
    pub(super) app: &'a Arc<AppState>,
    pub(super) snapshot: &'a Snapshot,
    pub(super) form: &'static Form,
    pub(super) peer: Peer,
    pub(super) head: &'a Parts,
}

impl FormRequest<'_> {
    /// Responds with JSON, or with a page or a redirect if `html_posts` is set, the client prefers HTML and
    /// the body is not JSON. Counts the outcome of a POST, and the source of a request that exceeds a limit.
    /// Answers CORS preflights before any limit, and refuses methods other than POST. Does not count test
    /// submissions of the canary; their responses have no headers about quotas or CORS.
    pub(super) async fn respond(&self, body: &mut RequestBody) -> HttpResponse {
        let Self { app, snapshot, form, head, .. } = *self;
        let options = &snapshot.options.forms;
        if let Some(response) = cors::preflight(&options.allowed_origins, head) {
            return response;
        }
        let wants_page =
            options.html_posts && !is_json(&head.headers) && no_script_answer::is_preferred(head);
        // `Some` if the body was read to check for a test submission, but is an ordinary submission.
        let early = match self.read_announced_canary(body).await {
            Ok(posted) => posted,
            Err(response) => return response,
        };
        let source = self.source();
        let (admitted, quotas) = self.admit(source).await;
        let (posted, outcome) = match admitted {
            Ok(rate) => match self.read_unless(early, body).await {
                Ok(posted) => {
                    if let Some(response) = self.accept_canary(&posted).await {
                        return response;
                    }
                    let outcome = self.accept(source, rate, &posted).await;
                    (Some(posted), outcome)
                }
                Err(refusal) => (None, Err(refusal)),
            },
            // Read the body of the refused request, because the error page shows the visitor's text.
            Err(refusal @ FormRefusal::TooMany(_)) if wants_page => {
                (self.read(body).await.ok(), Err(refusal))
            }
            Err(refusal) => (None, Err(refusal)),
        };
        let result =
            outcome.as_ref().map_or_else(|refusal| refusal.outcome().0, |()| SubmissionResult::Accepted);
        if head.method == Method::POST {
            app.metrics.record_submission(form, result);
        }
        if result == SubmissionResult::Limited {
            record_refusal(app, source, form);
        }
        let mut response = if wants_page {
            let page = no_script_answer::Answer::new(&snapshot.site, form, head);
            page.respond(&outcome, posted.as_ref().and_then(Posted::html), body)
        } else {
            outcome.as_ref().map_or_else(FormRefusal::to_response, |()| accepted())
        };
        self.add_headers(quotas.as_ref(), response.headers_mut());
        response
    }

    /// Checks the method and the quotas of the source and its network. A POST counts towards the quotas;
    /// other methods are refused without counting. Returns the used share of the source's quota, and the
    /// state of all quotas if there are limits.
    async fn admit(&self, source: Source) -> (Result<Rate, FormRefusal>, Option<QuotaStatuses>) {
        let (limiter, now) = (&self.snapshot.limiter, Instant::now());
        if self.head.method != Method::POST {
            return (Err(FormRefusal::Method), limiter.status(source, now).await);
        }
        let decision = limiter.check(source, now).await;
        let admitted = match decision.admission {
            Admission::Allowed => Ok(quota_use(decision.statuses.as_ref())),
            Admission::Refused { retry_after, .. } => Err(FormRefusal::TooMany(whole_seconds(retry_after))),
        };
        (admitted, decision.statuses)
    }

    /// Reads the body if a genuine token in the header announces a test submission of the canary, without
    /// counting it towards limits. The error is the response to a test submission; otherwise the request is
    /// an ordinary one, whose body is returned if this function has read it.
    async fn read_announced_canary(&self, body: &mut RequestBody) -> Result<Option<Posted>, HttpResponse> {
        let token = token_in_header(&self.head.headers).filter(|_| self.head.method == Method::POST);
        let Some(token) = token else { return Ok(None) };
        let token = GenuineToken::verify(token, self.form, &self.app.store).await;
        let Some(token) = token else { return Ok(None) };
        match self.read(body).await {
            Ok(posted) => self.accept_canary(&posted).await.map_or(Ok(Some(posted)), Err),
            Err(refusal) => Err(token.prove(refusal.to_response())),
        }
    }

    /// Stores a test submission of the canary, and returns the response; `None` if the body is no JSON with a
    /// genuine token, or the token cannot be used up ([`GenuineToken::use_up`]). Uses the token up, even if
    /// the submission is then refused.
    async fn accept_canary(&self, posted: &Posted) -> Option<HttpResponse> {
        let Content::Json(bytes) = &posted.content else { return None };
        let token = token_in_body(bytes)?;
        let token = GenuineToken::verify(&token, self.form, &self.app.store).await?;
        if !token.use_up(self.form, &self.app.store).await {
            return None;
        }
        let response = match posted.parse(self.form) {
            Ok(parsed) => {
                let stored = self.app.intake.accept_canary(parsed.entry, token.nonce, canary::now()).await;
                stored.map_or_else(|error| self.not_stored(&error).to_response(), |_| accepted())
            }
            Err(rejection) => FormRefusal::from(rejection).to_response(),
        };
        Some(token.prove(response))
    }

    /// Logs that a submission could not be stored, and returns the refusal for the client.
    fn not_stored(&self, error: &StoreError) -> FormRefusal {
        let request = self.id();
        tracing::error!(%request, form = self.form.name, %error, "the submission could not be stored; the visitor got a 500 and can try again");
        FormRefusal::NotStored(request)
    }

    /// Returns the body from `early` if it has already been read. Otherwise, reads it.
    async fn read_unless(
        &self,
        early: Option<Posted>,
        body: &mut RequestBody,
    ) -> Result<Posted, FormRefusal> {
        match early {
            Some(posted) => Ok(posted),
            None => self.read(body).await,
        }
    }

    /// Reads an uncompressed body of a media type and length that the form accepts. An HTML form must come
    /// from this site or a permitted origin, and its fields are decoded; with `multipart/form-data` from
    /// elsewhere, the error is [`FormRefusal::MediaType`]. JSON may come from anywhere.
    async fn read(&self, body: &mut RequestBody) -> Result<Posted, FormRefusal> {
        let Self { snapshot, form, head, .. } = *self;
        let html_posts = snapshot.options.forms.html_posts;
        let encoding = if html_posts && is_html_form(&head.headers) {
            BodyEncoding::Urlencoded
        } else if html_posts && is_multipart(&head.headers) && self.is_from_this_site() {
            BodyEncoding::Multipart
        } else if is_json(&head.headers) {
            BodyEncoding::Json
        } else {
            return Err(FormRefusal::MediaType);
        };
        if encoding == BodyEncoding::Urlencoded && !self.is_from_this_site() {
            return Err(FormRefusal::OtherSite);
        }
        if let Some(coding) = content_coding(&head.headers) {
            return Err(FormRefusal::ContentCoding(coding));
        }
        let timeout = snapshot.options.http.timeouts.body;
        let (bytes, mut charge) = body.read(&head.headers, MAX_ENCODED_BYTES, timeout).await?;
        let length = encoding.decoded_length(&bytes);
        if length > MAX_BODY_BYTES {
            return Err(FormRefusal::TooLong);
        }
        let parameter = |name| parameter(head.headers.get(CONTENT_TYPE)?.as_bytes(), name);
        let posted = match encoding {
            BodyEncoding::Json => {
                return Ok(Posted { content: Content::Json(bytes), length, _charge: charge });
            }
            BodyEncoding::Urlencoded => PostedForm::decode_declared(form, &bytes, parameter(b"charset")),
            BodyEncoding::Multipart => {
                let boundary = parameter(b"boundary").unwrap_or_default();
                PostedForm::decode_multipart(form, &bytes, boundary, parameter(b"charset"))
            }
        };
        // The decoded fields stay in memory too: the page shows them again if storing fails. Text in an
        // encoding other than UTF-8 becomes longer.
        charge.resize(bytes.len() + length.max(posted.values_length()));
        Ok(Posted { content: Content::Html(posted), length, _charge: charge })
    }

    /// Counts the bytes of a valid submission towards the source's byte limit, and then stores it. `rate` is
    /// the used share of the source's quota. On success, the submission is on stable storage, and a channel
    /// has confirmed it if the form is one of `confirmed_forms`. After an error other than
    /// [`FormRefusal::NotConfirmed`], it is not stored (see `Store::append`). Ignores an invalid signature of
    /// an agent.
    async fn accept(&self, source: Source, rate: Rate, posted: &Posted) -> Result<(), FormRefusal> {
        let Self { app, snapshot, form, head, .. } = *self;
        let ParsedForm { entry, extras, lead } = posted.parse(form)?;
        if posted.length > SMALL_BODY_BYTES && app.disk.is_low() {
            let request = self.id();
            tracing::warn!(%request, form = form.name, bytes = posted.length, "large submission refused with a 500, because the inbox's disk has less room than `store.min_free`");
            return Err(FormRefusal::LowDisk(request));
        }
        // Check the byte limit last: a submission refused for another reason must not count towards it.
        let charged = snapshot.byte_limiter.charge(source, posted.length, Instant::now());
        if let Admission::Refused { retry_after, .. } = charged {
            return Err(FormRefusal::OverBudget(whole_seconds(retry_after)));
        }
        let received_at = Timestamp::now();
        let agent = snapshot.agents.verify(head, received_at).await.ok().flatten();
        // `read` accepts an HTML form only from this site or a permitted origin; both count as `Same`.
        let origin = if posted.html().is_some() { Origin::Same } else { self.origin() };
        let evidence = Evidence::Facts(RequestFacts { rate, origin, extras });
        let idempotency_key = idempotency_key(&head.headers);
        let lead = self.complete_lead(lead);
        let arrival = Arrival { entry, idempotency_key, source, received_at, evidence, agent, lead };
        let id = app.intake.accept(arrival).await.map_err(|error| self.not_stored(&error))?;
        if snapshot.options.confirmed_forms.contains(&form.name) {
            self.wait_for_confirmation(id).await?;
        }
        Ok(())
    }

    /// Completes the source of the lead, as the body states it, from the form's address and from a `Referer`
    /// on this site, which browsers send without JavaScript too. A permitted origin counts as another site.
    /// Removes a referrer that is this site. Empty if the operator has switched the source off.
    fn complete_lead(&self, mut lead: LeadSource) -> LeadSource {
        let Self { snapshot, form, head, .. } = *self;
        let (options, base_url) = (&snapshot.options.forms, snapshot.site.base_url.as_str());
        if !options.lead_source {
            return LeadSource::default();
        }
        // Ignore a `Referer` with the endpoint's path: it is an error page, not the page with the form.
        let referer = no_script_answer::own_referer(head, base_url);
        let referer = referer.filter(|page| page.split('?').next() != Some(form.path));
        for page in [no_script_answer::named_page(head), referer.map(Cow::from)].into_iter().flatten() {
            lead.complete_from(&page);
        }
        let origin = cors::permitted_origin(&options.allowed_origins, &head.headers);
        let origin = origin.as_ref().and_then(|origin| origin.to_str().ok());
        lead.set_origin(origin.filter(|origin| *origin != base_url));
        let own = base_url.split_once("://").map_or("", |(_, own)| own);
        let name = |host: &str| {
            let host = host.rsplit_once(':').map_or(host, |(host, _)| host).to_ascii_lowercase();
            host.strip_prefix("www.").map(str::to_owned).unwrap_or(host)
        };
        let is_own = |host: &str| {
            [own, host_of(head).unwrap_or_default()].into_iter().any(|own| name(own) == name(host))
        };
        lead.remove_own_referrer(is_own);
        lead
    }

    /// Waits for a channel's confirmation. Returns [`FormRefusal::NotConfirmed`] after the timeout or if the
    /// store fails; delivery then continues. If the client repeats the submission, the repeat waits as well.
    async fn wait_for_confirmation(&self, id: Uuid) -> Result<(), FormRefusal> {
        let Self { app, snapshot, form, .. } = *self;
        let confirmed = snapshot.confirmations.wait(&app.store, id, snapshot.options.confirm_timeout).await;
        if let Ok(true) = confirmed {
            return Ok(());
        }
        let request = self.id();
        if let Err(error) = confirmed {
            tracing::error!(%request, form = form.name, %id, %error, "could not determine whether a submission was delivered; the response is a 500, and delivery continues");
        } else {
            tracing::warn!(%request, form = form.name, %id, "no channel confirmed a submission in time; the response is a 500, and delivery continues");
        }
        Err(FormRefusal::NotConfirmed(request))
    }

    /// Adds the headers of the form's responses: quotas, `Vary`, and CORS. Responses to preflights and to
    /// test submissions do not get them.
    fn add_headers(&self, quotas: Option<&QuotaStatuses>, headers: &mut HeaderMap) {
        let options = &self.snapshot.options.forms;
        if options.html_posts {
            headers.append(VARY, HeaderValue::from_static("Accept"));
        }
        if let Some(quotas) = quotas {
            insert_rate_limit_headers(quotas, headers);
        }
        if !options.allowed_origins.is_empty() {
            headers.append(VARY, HeaderValue::from_static("Origin"));
        }
        if let Some(origin) = cors::permitted_origin(&options.allowed_origins, &self.head.headers) {
            cors::expose(headers, origin);
        }
    }

    /// The address or network to which limits apply. A trusted proxy may supply the client's address.
    fn source(&self) -> Source {
        let options = &self.snapshot.options.http;
        let (headers, proxies) = (&self.head.headers, &options.trusted_proxies);
        Source::from(client_ip(self.peer, headers, proxies, options.forwarded_header))
    }

    /// Where the form was submitted from, according to the headers that browsers send. A permitted origin
    /// counts as this site.
    fn origin(&self) -> Origin {
        let Self { snapshot, head, .. } = *self;
        let is_permitted =
            cors::permitted_origin(&snapshot.options.forms.allowed_origins, &head.headers).is_some();
        if is_permitted { Origin::Same } else { origin(head, &snapshot.site.base_url) }
    }

    /// Whether the browser says that the form is on this site or on a permitted one. Text browsers send
    /// neither `Origin` nor `Sec-Fetch-Site`; then `Referer` must name this site.
    fn is_from_this_site(&self) -> bool {
        let is_same = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"same-origin");
        match self.origin() {
            Origin::Same => true,
            Origin::NotABrowser => has_own_referer(self.head, &self.snapshot.site.base_url),
            // From pages with the policy `no-referrer`, browsers send `Origin: null`; use `Sec-Fetch-Site`.
            _ => self.head.headers.get(SEC_FETCH_SITE).is_some_and(is_same),
        }
    }

    /// The request ID from a trusted proxy, or else a new ID on each call.
    fn id(&self) -> RequestId {
        let lines = field_values(&self.head.headers, X_REQUEST_ID);
        RequestId::from_proxy_or_new(self.peer, lines, &self.snapshot.options.http.trusted_proxies)
    }
}

/// A body of acceptable length. Its memory is charged to the connection until this value is dropped, because
/// the parsed fields take as much as the body.
struct Posted {
    content: Content,
    /// The length of the body after decoding, in bytes.
    length: usize,
    _charge: Charge,
}

enum Content {
    Json(Bytes),
    Html(PostedForm),
}

impl Posted {
    /// Parses and validates the fields. Ignores `form` for an HTML form, which has already been decoded.
    fn parse(&self, form: &'static Form) -> Result<ParsedForm, Rejection> {
        match &self.content {
            Content::Json(bytes) => parse_with_extras(form, bytes),
            Content::Html(posted) => posted.parse(),
        }
    }

    /// The visitor's text, if the body is an HTML form.
    fn html(&self) -> Option<&PostedForm> {
        match &self.content {
            Content::Json(_) => None,
            Content::Html(posted) => Some(posted),
        }
    }
}

/// Converts a wait to whole seconds, rounded up so that a retry after this time is not too early.
pub(super) fn whole_seconds(retry_after: Duration) -> u64 {
    retry_after.as_nanos().div_ceil(1_000_000_000).try_into().unwrap_or(u64::MAX)
}

/// The larger of the used shares of the source's own two quotas. The network's quotas are left out, because
/// other sources share them.
fn quota_use(statuses: Option<&QuotaStatuses>) -> Rate {
    // The first two quotas belong to the source itself; the network's quotas follow.
    let own = statuses.into_iter().flatten().take(2);
    Rate::most_used(own.map(|status| (status.remaining, status.quota)))
}

/// Where the form was submitted from, according to the headers that browsers send ([`Origin::classify`]). The
/// hosts of this site are those of `base_url` and of the request.
fn origin(head: &Parts, base_url: &str) -> Origin {
    let text = |name: HeaderName| head.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    Origin::classify(text(ORIGIN), text(SEC_FETCH_SITE), &[base_url, host_of(head).unwrap_or_default()])
}

/// Whether `Referer` is a URL of this site: its host matches `base_url` or the request's host.
fn has_own_referer(head: &Parts, base_url: &str) -> bool {
    let referer = head.headers.get(REFERER).and_then(|value| value.to_str().ok());
    let own = [base_url, host_of(head).unwrap_or_default()];
    referer.is_some() && Origin::classify(referer, None, &own) == Origin::Same
}

/// The header in which browsers report how a request's origin relates to this site (Fetch Metadata, W3C).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Counts a refused request. The first one since the counts were last stored schedules a task that stores
/// them. A failure to store them is ignored.
fn record_refusal(app: &Arc<AppState>, source: Source, form: &'static Form) {
    if app.refusals.record(source, form.name) {
        let app = app.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(REFUSALS_INTERVAL).await;
            let _ = app.store_refusals().await;
        });
    }
}

/// The header that identifies retries of the same submission (draft-ietf-httpapi-idempotency-key-header).
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The idempotency key, trimmed, with its quotes if it has any; `None` if it is absent, empty, repeated or
/// not ASCII.
fn idempotency_key(headers: &HeaderMap) -> Option<String> {
    let mut lines = headers.get_all(IDEMPOTENCY_KEY).iter();
    let key = lines.next()?.to_str().ok()?.trim();
    (lines.next().is_none() && !matches!(key, "" | "\"\"")).then(|| key.to_owned())
}

/// Whether the request has a `Content-Type`, and each one is `application/json` with any parameters.
fn is_json(headers: &HeaderMap) -> bool {
    has_media_type(headers, b"application/json")
}

fn is_html_form(headers: &HeaderMap) -> bool {
    has_media_type(headers, b"application/x-www-form-urlencoded")
}

/// Whether the body is `multipart/form-data`: a form with a file field, or a `FormData` object of a script.
fn is_multipart(headers: &HeaderMap) -> bool {
    has_media_type(headers, b"multipart/form-data")
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

/// The content codings that clients use for compression (RFC 9110 §8.4.1).
const CODINGS: [&str; 7] = ["gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"];

/// The first coding in `Content-Encoding` that is one of [`CODINGS`]; `None` if there is none. Ignores other
/// names, such as `utf-8`, which some clients send by mistake.
fn content_coding(headers: &HeaderMap) -> Option<&'static str> {
    let lines = headers.get_all(CONTENT_ENCODING).iter();
    lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).find_map(|name| {
        CODINGS.into_iter().find(|coding| name.trim_ascii().eq_ignore_ascii_case(coding.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_referer_names_this_site_by_its_host() {
        for (referer, expected) in [
            (Some("https://www.example.com/contact/?page=2"), true),
            (Some("http://localhost:8080/"), true),
            (Some("https://www.example.com"), true),
            (Some("https://www.example.com.evil.example/"), false),
            (Some("https://evil.example/www.example.com/"), false),
            (Some("/contact/"), false),
            (Some(""), false),
            (None, false),
        ] {
            let mut request = http::Request::builder().header("host", "localhost:8080");
            if let Some(referer) = referer {
                request = request.header(REFERER, referer);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(has_own_referer(&head, "https://www.example.com"), expected, "{referer:?}");
        }
    }

    #[test]
    fn content_codings_are_read_from_headers() {
        for (line, expected) in [
            ("gzip", Some("gzip")),
            ("identity, BR", Some("br")),
            ("identity", None),
            ("utf-8", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(line))]);
            assert_eq!(content_coding(&headers), expected, "{line}");
        }
        assert_eq!(content_coding(&HeaderMap::new()), None);
    }
}
