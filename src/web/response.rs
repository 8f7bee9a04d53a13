//! Builds responses: the headers that every response has, and the mapping from errors to statuses.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use http_body_util::Full;

use super::metrics::SubmissionResult;
use super::request_id::{RequestId, X_REQUEST_ID};
use frontdesk_forms::{FORMS, MAX_BODY_BYTES};
use frontdesk_inbox::store::disk::SMALL_BODY_BYTES;
use frontdesk_site::{AllowedHosts, AllowedOrigin};

/// A response whose body is in memory.
pub(super) type HttpResponse = Response<Full<Bytes>>;

/// Headers of every response, in addition to the content security policy.
pub(super) const SECURITY: [(HeaderName, &str); 5] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (HeaderName::from_static("referrer-policy"), "strict-origin-when-cross-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=(), browsing-topics=()",
    ),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
];

/// The policy without permitted hosts: no inline scripts or styles, and no other sites' content.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                      media-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// The content security policy (CSP Level 3) of every response without one of its own.
pub fn content_security_policy(allowed: &AllowedHosts) -> HeaderValue {
    if *allowed == AllowedHosts::default() {
        return HeaderValue::from_static(POLICY);
    }
    let mut policy = POLICY.to_owned();
    let kinds = [
        ("script-src 'self'", &allowed.script),
        ("style-src 'self'", &allowed.style),
        ("img-src 'self' data:", &allowed.image),
        ("font-src 'self'", &allowed.font),
        ("connect-src 'self'", &allowed.connect),
    ];
    for (directive, origins) in kinds {
        let origins: String = origins.iter().map(|origin| format!(" {}", origin.as_str())).collect();
        policy = policy.replacen(directive, &format!("{directive}{origins}"), 1);
    }
    if !allowed.frame.is_empty() {
        let origins: Vec<&str> = allowed.frame.iter().map(AllowedOrigin::as_str).collect();
        policy.push_str(&format!("; frame-src {}", origins.join(" ")));
    }
    // Origins are ASCII, so the conversion does not fail.
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static(POLICY))
}

pub(super) const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

pub(super) const CONTENT_SECURITY_POLICY: HeaderName = HeaderName::from_static("content-security-policy");

/// Adds the security headers that the response does not have yet, including `policy`.
pub(super) fn add_security_headers(mut response: HttpResponse, policy: &HeaderValue) -> HttpResponse {
    let headers = response.headers_mut();
    headers.reserve(1 + SECURITY.len());
    headers.entry(CONTENT_SECURITY_POLICY).or_insert_with(|| policy.clone());
    for (name, value) in SECURITY {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

pub(super) fn with_header(mut response: HttpResponse, name: HeaderName, value: &'static str) -> HttpResponse {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

/// A plain-text response that is not cached.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> HttpResponse {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A plain-text response with `Vary: Accept`, for a URL whose response depends on that header.
pub(super) fn negotiated_text(status: StatusCode, body: impl Into<Bytes>) -> HttpResponse {
    with_header(text(status, body), VARY, "Accept")
}

/// 400 for a request that is invalid or ambiguous.
pub(super) fn bad_request(reason: &str) -> HttpResponse {
    text(StatusCode::BAD_REQUEST, format!("This request cannot be answered: {reason}.\n"))
}

/// 405 with the allowed methods (RFC 9110 §15.5.6).
pub(super) fn method_not_allowed(allow: &'static str) -> HttpResponse {
    let response = text(StatusCode::METHOD_NOT_ALLOWED, format!("Allowed methods: {allow}.\n"));
    with_header(response, ALLOW, allow)
}

pub(super) fn accepted() -> HttpResponse {
    json_response(StatusCode::OK, "{\"ok\":true}")
}

pub(super) fn json_response(status: StatusCode, body: impl Into<Bytes>) -> HttpResponse {
    with_header(text(status, body), CONTENT_TYPE, "application/json")
}

/// 404 for a path below `/api/` that is not an endpoint, for any method and `Accept`.
pub(super) fn unknown_endpoint() -> HttpResponse {
    missing_endpoint(StatusCode::NOT_FOUND, "There is no endpoint at this address.")
}

/// 410 for a path below `/api/` that the configuration marks as removed, for any method and `Accept`.
pub(super) fn removed_endpoint() -> HttpResponse {
    missing_endpoint(StatusCode::GONE, "This endpoint has been removed.")
}

/// An error with the names of the endpoints.
fn missing_endpoint(status: StatusCode, reason: &str) -> HttpResponse {
    let endpoints: Vec<String> = FORMS.iter().map(|form| format!("POST {}", form.path)).collect();
    let endpoints = endpoints.join(" and ");
    error(status, &format!("{reason} The endpoints are {endpoints}; /openapi.json describes them."))
}

/// An API error, with the body `{"error": "<sentence>"}`.
fn error(status: StatusCode, sentence: &str) -> HttpResponse {
    json_response(status, serde_json::json!({ "error": sentence }).to_string())
}

/// `Retry-After` in seconds for large submissions while disk space is low: a guess.
const LOW_DISK_RETRY_SECONDS: u64 = 600;

/// The reason why the response to a submission is not 200.
pub(super) enum Refusal {
    Method,
    /// The source or its network exceeds a rate limit, for this many more seconds.
    TooMany(u64),
    /// The source or its network exceeds its byte budget, for this many more seconds.
    OverBudget(u64),
    MediaType,
    /// An HTML form whose browser does not say that the form is on this site.
    OtherSite,
    Slow,
    Broken,
    TooLong,
    /// The body or some of its fields are invalid. Contains the message for the client.
    Invalid(String),
    /// The submission could not be stored. The log has the reason, in an entry with this id.
    NotStored(RequestId),
    /// The submission is large, and disk space is low. The log has an entry with this id.
    LowDisk(RequestId),
    /// The submission is stored, but no channel confirmed it in time. The log has an entry with this id.
    NotConfirmed(RequestId),
}

impl Refusal {
    pub(super) fn into_response(self) -> (HttpResponse, SubmissionResult) {
        use SubmissionResult as Result;
        let (result, status) = match &self {
            Self::Method => (Result::Invalid, StatusCode::METHOD_NOT_ALLOWED),
            Self::MediaType | Self::Invalid(_) => (Result::Invalid, StatusCode::BAD_REQUEST),
            Self::OtherSite => (Result::Invalid, StatusCode::FORBIDDEN),
            Self::TooMany(_) | Self::OverBudget(_) => (Result::Limited, StatusCode::TOO_MANY_REQUESTS),
            Self::Slow => (Result::Slow, StatusCode::REQUEST_TIMEOUT),
            Self::Broken => (Result::Broken, StatusCode::BAD_REQUEST),
            Self::TooLong => (Result::TooLarge, StatusCode::PAYLOAD_TOO_LARGE),
            Self::NotStored(_) => (Result::NotKept, StatusCode::INTERNAL_SERVER_ERROR),
            Self::LowDisk(_) => (Result::LowDisk, StatusCode::INTERNAL_SERVER_ERROR),
            Self::NotConfirmed(_) => (Result::NotConfirmed, StatusCode::INTERNAL_SERVER_ERROR),
        };
        let mut response = error(status, &self.sentence());
        let headers = response.headers_mut();
        if result == Result::LowDisk {
            headers.insert(RETRY_AFTER, HeaderValue::from(LOW_DISK_RETRY_SECONDS));
        }
        match self {
            Self::Method => headers.insert(ALLOW, HeaderValue::from_static("POST")),
            Self::TooMany(seconds) | Self::OverBudget(seconds) => headers.insert(RETRY_AFTER, seconds.into()),
            // Include the id, so that operators can find a reported failure in the log.
            Self::NotStored(id) | Self::LowDisk(id) | Self::NotConfirmed(id) => {
                headers.insert(X_REQUEST_ID, id.0)
            }
            _ => None,
        };
        (response, result)
    }

    pub(super) fn sentence(&self) -> String {
        let plural = |seconds: &u64| if *seconds == 1 { "" } else { "s" };
        let sentence = match self {
            Self::Method => "Only POST is accepted here, with a JSON object as the body.",
            Self::TooMany(seconds) => {
                &format!("Too many requests. Try again in {seconds} second{}.", plural(seconds))
            }
            Self::OverBudget(seconds) => &format!(
                "Too much data was sent from this address or its network today. Try again in {seconds} second{}, or send less.",
                plural(seconds)
            ),
            Self::MediaType => "The Content-Type must be `application/json` and the body a JSON object.",
            Self::OtherSite => {
                "HTML forms are accepted only from this site's pages: `Origin` must name this site, or `Sec-Fetch-Site` must be `same-origin`. Send JSON instead."
            }
            Self::Slow => "The body did not arrive in time.",
            Self::Broken => "The body ended before it was complete.",
            Self::TooLong => &format!(
                "The body must not be longer than {} KiB, counted after decoding.",
                MAX_BODY_BYTES / 1024
            ),
            Self::Invalid(sentence) => sentence,
            Self::NotStored(_) => "The submission could not be stored. Try again in a moment.",
            Self::LowDisk(_) => &format!(
                "There is too little space to store a submission of more than {} KiB, so this one was not stored. Send a \
                 shorter one, or try again later.",
                SMALL_BODY_BYTES / 1024
            ),
            Self::NotConfirmed(_) => {
                "The submission is stored but has not been delivered yet; delivery continues. Sending it again unchanged does not create a duplicate."
            }
        };
        sentence.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_permitted_hosts_in_their_directives() {
        let origins = |hosts: &[&str]| -> Vec<AllowedOrigin> {
            hosts.iter().map(|host| AllowedOrigin::parse(host).expect(host)).collect()
        };
        assert_eq!(content_security_policy(&AllowedHosts::default()), POLICY);
        let allowed = AllowedHosts {
            script: origins(&["https://plausible.example.com"]),
            frame: origins(&["https://player.example.com", "https://*.example.org"]),
            connect: origins(&["https://plausible.example.com"]),
            image: origins(&["https://img.example.com:8443"]),
            style: origins(&["https://style.example.com"]),
            font: origins(&["https://font.example.com"]),
        };
        assert_eq!(
            content_security_policy(&allowed),
            "default-src 'none'; script-src 'self' https://plausible.example.com; style-src 'self' https://style.example.com; \
             img-src 'self' data: https://img.example.com:8443; font-src 'self' https://font.example.com; media-src 'self'; \
             connect-src 'self' https://plausible.example.com; manifest-src 'self'; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'none'; frame-src https://player.example.com https://*.example.org"
        );
    }
}
