//! Builds answers: the headers that all of them carry, and the only mapping from errors to statuses.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use http_body_util::Full;

use super::metrics::Verdict;
use super::request_id::{RequestId, X_REQUEST_ID};
use crate::forms::{FORMS, MAX_BODY_BYTES};
use crate::store::disk::SMALL_BODY_BYTES;

/// Every body is in memory.
pub(super) type Answer = Response<Full<Bytes>>;

/// What browsers are told with every answer. The policy allows no inline script or style and nothing from elsewhere.
pub(super) const SECURITY: [(HeaderName, &str); 6] = [
    (
        HeaderName::from_static("content-security-policy"),
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; media-src 'self'; \
         connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (HeaderName::from_static("referrer-policy"), "strict-origin-when-cross-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=(), browsing-topics=()",
    ),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
];

/// Who may embed an answer.
pub(super) const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// Adds the headers that every answer carries, unless it says otherwise itself.
pub(super) fn secure(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    headers.reserve(SECURITY.len());
    for (name, value) in SECURITY {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    answer
}

/// An answer in plain text that no cache keeps.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// 400 to a request that means nothing, or different things to different servers.
pub(super) fn bad_request(reason: &str) -> Answer {
    text(StatusCode::BAD_REQUEST, format!("This request cannot be answered: {reason}.\n"))
}

/// 405 with what would be right (RFC 9110 §15.5.6).
pub(super) fn method_not_allowed(allow: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, format!("Only {allow} are answered here.\n"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    answer
}

/// `{"ok": true}`
pub(super) fn accepted() -> Answer {
    json(StatusCode::OK, "{\"ok\":true}")
}

fn json(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = text(status, body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// 404 for a path below `/api/` that is no endpoint, whatever the method and `Accept`.
pub(super) fn unknown_endpoint() -> Answer {
    let endpoints: Vec<String> = FORMS.iter().map(|form| format!("POST {}", form.path)).collect();
    let sentence = format!(
        "There is no endpoint at this address. The endpoints are {}; /openapi.json describes them.",
        endpoints.join(" and ")
    );
    error(StatusCode::NOT_FOUND, &sentence)
}

/// `{"error": "<sentence>"}`, the body of every error of the API.
fn error(status: StatusCode, sentence: &str) -> Answer {
    json(status, serde_json::json!({ "error": sentence }).to_string())
}

/// `Retry-After` for large submissions that are refused for lack of space. A guess: the server cannot know when there will be room.
const LOW_DISK_RETRY_SECONDS: u64 = 600;

/// Why a submission got no 200.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Not a POST.
    Method,
    /// Over the limit; the seconds after which it would be accepted.
    TooMany(u64),
    /// Over the byte budget; the seconds after which it would be accepted.
    OverBudget(u64),
    /// The body is not declared as JSON.
    MediaType,
    /// The body did not arrive in time.
    Slow,
    /// The connection broke while the body was read; nobody hears this.
    Broken,
    /// The body is too long.
    TooLong,
    /// A field is at fault; the sentence names every one.
    Invalid(String),
    /// It could not be kept. The log says why, under this name.
    NotKept(RequestId),
    /// It is large, and less than the reserve is free. The log says so under this name.
    LowDisk(RequestId),
    /// It is kept, and no channel has taken it over in time, which is what this form's 200 would mean. Likewise.
    NotConfirmed(RequestId),
}

impl Refusal {
    /// What it is counted as.
    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Self::Method | Self::MediaType | Self::Invalid(_) => Verdict::Invalid,
            Self::TooMany(_) | Self::OverBudget(_) => Verdict::Limited,
            Self::Slow => Verdict::Slow,
            Self::Broken => Verdict::Broken,
            Self::TooLong => Verdict::TooLarge,
            Self::NotKept(_) => Verdict::NotKept,
            Self::LowDisk(_) => Verdict::LowDisk,
            Self::NotConfirmed(_) => Verdict::NotConfirmed,
        }
    }

    pub(super) fn into_answer(self) -> Answer {
        let is_low_on_disk = matches!(self, Self::LowDisk(_));
        let (status, header, sentence) = match self {
            Self::Method => (
                StatusCode::METHOD_NOT_ALLOWED,
                Some((ALLOW, HeaderValue::from_static("POST"))),
                "Only POST is accepted here, with a JSON object as the body.".to_owned(),
            ),
            Self::TooMany(seconds) => (
                StatusCode::TOO_MANY_REQUESTS,
                Some((RETRY_AFTER, HeaderValue::from(seconds))),
                format!("Too many requests. Try again in {seconds} second{}.", plural(seconds)),
            ),
            Self::OverBudget(seconds) => (
                StatusCode::TOO_MANY_REQUESTS,
                Some((RETRY_AFTER, HeaderValue::from(seconds))),
                format!(
                    "Too much was sent from this address or its network today. Try again in {seconds} second{}, or send less.",
                    plural(seconds)
                ),
            ),
            Self::MediaType => (
                StatusCode::BAD_REQUEST,
                None,
                "The Content-Type must be `application/json` and the body a JSON object.".to_owned(),
            ),
            Self::Slow => (StatusCode::REQUEST_TIMEOUT, None, "The body did not arrive in time.".to_owned()),
            Self::Broken => {
                (StatusCode::BAD_REQUEST, None, "The body ended before it was complete.".to_owned())
            }
            Self::TooLong => (
                StatusCode::PAYLOAD_TOO_LARGE,
                None,
                format!("The body must not be longer than {} KiB.", MAX_BODY_BYTES / 1024),
            ),
            Self::Invalid(sentence) => (StatusCode::BAD_REQUEST, None, sentence),
            // With its name, so that a visitor's complaint can be found in the log.
            Self::NotKept(id) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                Some((X_REQUEST_ID, id.into_value())),
                "The request could not be delivered and was not kept. Please try again in a moment."
                    .to_owned(),
            ),
            Self::LowDisk(id) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                Some((X_REQUEST_ID, id.into_value())),
                format!(
                    "There is too little space to keep a request of more than {} KiB, and nothing of it was kept. Send a shorter one, or \
                     try again later.",
                    SMALL_BODY_BYTES / 1024
                ),
            ),
            Self::NotConfirmed(id) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                Some((X_REQUEST_ID, id.into_value())),
                "The request is kept, but could not be delivered yet; that is tried again. Sent again unchanged, it is recognised."
                    .to_owned(),
            ),
        };
        let mut answer = error(status, &sentence);
        answer.headers_mut().extend(header);
        if is_low_on_disk {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(LOW_DISK_RETRY_SECONDS));
        }
        answer
    }
}

fn plural(seconds: u64) -> &'static str {
    if seconds == 1 { "" } else { "s" }
}
