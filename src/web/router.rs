//! Routes the requests that arrive on the public address.

use std::sync::Arc;

use http::header::{CONNECTION, EXPECT, HOST, HeaderValue, STRICT_TRANSPORT_SECURITY};
use http::request::Parts;
use http::{Request, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::access_log::ServedRequest;
use super::body::RequestBody;
use super::confirm::ConfirmRequest;
use super::get_page::Choice;
use super::metrics::{Class, RequestLabels};
use super::post_form::FormRequest;
use super::preferences::HeaderPreferences;
use super::request_id::{RequestId, X_REQUEST_ID};
use super::response::{HttpResponse, add_security_headers, bad_request};
use super::slot::Slot;
use super::socket::{Peer, Scheme};
use super::state::Snapshot;
use super::worker::WorkerState;
use super::{access_log, ambiguity, confirm, get_page, live_reload, slot, tls};
use frontdesk_forms::Form;
use frontdesk_process::panics;
use frontdesk_site::path;

/// Responds to one request on the public address. Waits until the body has been read or discarded.
pub(super) async fn respond(
    worker: &WorkerState,
    scheme: Scheme,
    peer: Peer,
    request: Request<Incoming>,
    slot: &Arc<Slot>,
) -> HttpResponse {
    let began = Instant::now();
    let app = &worker.app;
    // Use one snapshot for the whole request, so that a reload halfway through does not affect it.
    let snapshot = app.snapshot.load();
    let (head, body) = request.into_parts();
    let _charge = slot.charge(slot::fields_cost(&head.headers));
    let mut body = RequestBody::new(body, slot);
    let Routed { mut response, labels, has_all_headers } =
        route(worker, &snapshot, scheme, peer, &head, &mut body, began).await;
    let served = ServedRequest {
        method: head.method.as_str(),
        path: head.uri.path(),
        labels,
        status: response.status(),
        length: response.body().size_hint().upper().unwrap_or_default(),
        took: began.elapsed(),
    };
    access_log::record(app, &snapshot, &served, || {
        let lines = get_page::field_values(&head.headers, X_REQUEST_ID);
        let new = || RequestId::from_proxy_or_new(peer, lines, &snapshot.options.trusted_proxies);
        response.headers().get(X_REQUEST_ID).cloned().map_or_else(new, RequestId)
    });
    // Discard an unread body, so that a client that is still sending it receives the response. Do not wait
    // for a client that is itself waiting for 100 Continue (RFC 9110 §10.1.1), or that was already too slow.
    let skips_drain = head.headers.contains_key(EXPECT) || response.status() == StatusCode::REQUEST_TIMEOUT;
    let is_read = body.is_fully_read() || (!skips_drain && body.drain().await);
    // An HTTP/2 connection stays open: only the stream of this request is reset.
    if !is_read && head.version != Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if has_all_headers {
        return response;
    }
    // Send HSTS only over TLS (RFC 6797 §7.2).
    if scheme == Scheme::Https
        && let Some(hsts) = &snapshot.options.tls.hsts
    {
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, hsts.value());
    }
    add_security_headers(response, &snapshot.options.content_security_policy)
}

struct Routed {
    response: HttpResponse,
    labels: RequestLabels,
    /// Whether the response already has the headers of all responses.
    has_all_headers: bool,
}

impl From<(HttpResponse, RequestLabels)> for Routed {
    fn from((response, labels): (HttpResponse, RequestLabels)) -> Self {
        Self { response, labels, has_all_headers: false }
    }
}

/// Refuses ambiguous requests, redirects to HTTPS, or lets the form or the site respond.
async fn route(
    worker: &WorkerState,
    snapshot: &Snapshot,
    scheme: Scheme,
    peer: Peer,
    head: &Parts,
    body: &mut RequestBody,
    began: Instant,
) -> Routed {
    const FORM: RequestLabels = RequestLabels::other(Class::Form);
    const NONE: RequestLabels = RequestLabels::other(Class::None);
    let (app, options) = (&worker.app, &snapshot.options);
    panics::inject("request", head.uri.path());
    if let Some(response) = ambiguity::refusal(head) {
        return (response, NONE).into();
    }
    if !has_one_host(head) {
        return (bad_request("the request must name exactly one host"), NONE).into();
    }
    if let Some(response) =
        tls::redirect_to_https(options.tls.redirect.as_ref(), &options.trusted_proxies, scheme, peer, head)
    {
        return (response, RequestLabels::other(Class::Redirect)).into();
    }
    let path = match path::decode(head.uri.path()) {
        Ok(path) => path,
        Err(error) => return (bad_request(&error.to_string()), NONE).into(),
    };
    // Boxed, because otherwise the future of every request would be as large as these.
    if let Some(form) = Form::at(&path) {
        let request = FormRequest { app, snapshot, form, peer, head };
        return (Box::pin(request.respond(body)).await, FORM).into();
    }
    if confirm::is_link(&path) && snapshot.site.confirms_waitlist {
        let request = ConfirmRequest { app, snapshot, peer, head, path: &path };
        return (Box::pin(request.respond()).await, NONE).into();
    }
    if let Some(live_reload) = &app.live_reload
        && live_reload::is_wait(&path, head)
    {
        return (Box::pin(live_reload.respond(head, options.timeouts.exchange)).await, NONE).into();
    }
    let preferences = HeaderPreferences { headers: &head.headers, cache: &worker.preferences };
    let views = options.count_views.then_some(&app.page_views);
    let (choice, labels) = get_page::choose_and_count(&snapshot.site, &path, head, &preferences, views);
    if let Choice::Send(selection) = choice {
        let response = worker.heads.borrow_mut().respond(&selection, scheme, snapshot, began);
        return Routed { response, labels, has_all_headers: true };
    }
    (choice.into_response(&snapshot.site, head.uri.query()), labels).into()
}

/// Whether the request names exactly one host. If a request names several, a proxy and this server may choose
/// different ones. HTTP/1.1 requires one Host (RFC 9112 §3.2); in HTTP/2, Host must not differ from
/// `:authority` (RFC 9113 §8.3.1).
fn has_one_host(head: &Parts) -> bool {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (host, is_single) = (hosts.next(), hosts.next().is_none());
    match (head.version, head.uri.authority(), host) {
        (Version::HTTP_2, Some(authority), Some(host)) => {
            is_single && host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes())
        }
        (Version::HTTP_2, Some(_), None) => true,
        (Version::HTTP_2, None, None) => false,
        (version, _, None) => version != Version::HTTP_11,
        (_, _, Some(_)) => is_single,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn check(version: Version, uri: &str, hosts: &[&str], expected: bool) {
        let mut request = Request::builder().version(version).uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        assert_eq!(has_one_host(&head), expected, "{version:?} {uri} {hosts:?}");
    }

    #[test]
    fn a_request_has_one_host() {
        check(Version::HTTP_10, "/", &[], true);
        check(Version::HTTP_10, "/", &["a"], true);
        check(Version::HTTP_10, "/", &["a", "b"], false);
        check(Version::HTTP_11, "/", &[], false);
        check(Version::HTTP_11, "/", &["a"], true);
        check(Version::HTTP_11, "/", &["a", "a"], false);
        check(Version::HTTP_2, "/", &[], false);
        check(Version::HTTP_2, "/", &["a"], true);
        check(Version::HTTP_2, "/", &["a", "a"], false);
        check(Version::HTTP_2, "http://a/", &[], true);
        check(Version::HTTP_2, "http://a:80/", &["A:80"], true);
        check(Version::HTTP_2, "http://a/", &["b"], false);
        check(Version::HTTP_2, "http://a/", &["a", "a"], false);
    }
}
