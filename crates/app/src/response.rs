//! Builds plain-text and JSON responses, among them errors, and adds the security headers to any response.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, VARY,
};
use http::{Response, StatusCode};

use frontdesk_forms::FormSet;
use frontdesk_http::{ResponseBody, SECURITY_HEADERS};
use frontdesk_site::{AllowedOrigin, ContentOrigins};

pub(super) type HttpResponse = Response<ResponseBody>;

/// The content security policy if no other hosts are permitted: no inline scripts or styles, and no content
/// from other sites.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                      media-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// The content security policy (CSP Level 3) of every response without one of its own: no inline scripts or
/// styles, and content from other sites only if `allowed` names their origins.
pub fn content_security_policy(allowed: &ContentOrigins) -> HeaderValue {
    if *allowed == ContentOrigins::default() {
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

/// Adds the security headers that the response lacks, with `policy` as its `Content-Security-Policy`.
pub(super) fn add_security_headers(mut response: HttpResponse, policy: &HeaderValue) -> HttpResponse {
    let headers = response.headers_mut();
    headers.reserve(1 + SECURITY_HEADERS.len());
    headers.entry(CONTENT_SECURITY_POLICY).or_insert_with(|| policy.clone());
    for (name, value) in SECURITY_HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Sets a header. Replaces other values of the same name.
pub(super) fn with_header(mut response: HttpResponse, name: HeaderName, value: &'static str) -> HttpResponse {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

/// A plain-text response that is not cached.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> HttpResponse {
    let mut response = Response::new(body.into().into());
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

/// 503 with `Retry-After`, for a file on the disk that cannot be opened, or has changed since the site was
/// loaded: its validator and length are those of its former content.
pub(super) fn file_unavailable() -> HttpResponse {
    let response =
        text(StatusCode::SERVICE_UNAVAILABLE, "This file is being replaced. Try again in a minute.\n");
    with_header(response, RETRY_AFTER, "60")
}

/// 200 for a stored submission.
pub(super) fn accepted() -> HttpResponse {
    json_response(StatusCode::OK, "{\"ok\":true}")
}

pub(super) fn json_response(status: StatusCode, body: impl Into<Bytes>) -> HttpResponse {
    with_header(text(status, body), CONTENT_TYPE, "application/json")
}

/// 404 for a path below `/api/` that is not an endpoint, for any method and `Accept`.
pub(super) fn unknown_endpoint(forms: &FormSet) -> HttpResponse {
    missing_endpoint(forms, StatusCode::NOT_FOUND, "There is no endpoint at this address.")
}

/// 410 for a path below `/api/` that the configuration marks as removed, for any method and `Accept`.
pub(super) fn removed_endpoint(forms: &FormSet) -> HttpResponse {
    missing_endpoint(forms, StatusCode::GONE, "This endpoint has been removed.")
}

/// An API error whose message lists the endpoints.
fn missing_endpoint(forms: &FormSet, status: StatusCode, reason: &str) -> HttpResponse {
    error(status, &format!("{reason}{}", list_endpoints(forms)))
}

/// A space and a sentence that lists the endpoints; empty if the site has no endpoints.
fn list_endpoints(forms: &FormSet) -> String {
    let endpoints: Vec<String> = forms.iter().map(|form| format!("POST {}", form.path)).collect();
    match &endpoints[..] {
        [] => String::new(),
        [endpoint] => format!(" The endpoint is {endpoint}; /openapi.json describes it."),
        [endpoints @ .., last] => {
            let endpoints = endpoints.join(", ");
            format!(" The endpoints are {endpoints} and {last}; /openapi.json describes them.")
        }
    }
}

/// An API error, with the body `{"error": "<sentence>"}`.
pub(super) fn error(status: StatusCode, sentence: &str) -> HttpResponse {
    json_response(status, serde_json::json!({ "error": sentence }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_endpoint_names_the_others() {
        let list = |forms: &[&str]| {
            let forms = FormSet::built_in().iter().filter(|form| forms.contains(&form.name));
            list_endpoints(&FormSet::new(forms))
        };
        assert_eq!(list(&[]), "");
        assert_eq!(list(&["contact"]), " The endpoint is POST /api/contact; /openapi.json describes it.");
        let both =
            " The endpoints are POST /api/waitlist and POST /api/contact; /openapi.json describes them.";
        assert_eq!(list(&["waitlist", "contact"]), both);
    }

    #[test]
    fn the_policy_names_permitted_hosts_in_their_directives() {
        let origins = |hosts: &[&str]| -> Vec<AllowedOrigin> {
            hosts.iter().map(|host| AllowedOrigin::parse(host).expect(host)).collect()
        };
        assert_eq!(content_security_policy(&ContentOrigins::default()), POLICY);
        let allowed = ContentOrigins {
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
