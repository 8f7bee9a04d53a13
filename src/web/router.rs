//! Every URL of the public address, on one screen.

use std::sync::Arc;
use std::time::Instant;

use http::header::{CONNECTION, EXPECT, HOST, HeaderValue, STRICT_TRANSPORT_SECURITY};
use http::request::Parts;
use http::{Request, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;

use super::access_log::Exchange;
use super::answer::{Answer, bad_request, secure};
use super::body::Upload;
use super::metrics::{Class, Seen};
use super::request_id::{RequestId, names};
use super::socket::{Peer, Scheme};
use super::source::Slot;
use super::{Desk, Live, access_log, ambiguity, get_page, memory, post_form, tls};
use crate::forms::{CONTACT, Form, WAITLIST};
use crate::pages::path;

/// Answers one request of the public address.
pub(super) async fn answer(
    desk: &Arc<Desk>,
    scheme: Scheme,
    peer: Peer,
    request: Request<Incoming>,
    slot: &Arc<Slot>,
) -> Answer {
    let began = Instant::now();
    // One state of site and configuration for the whole request, whatever is reloaded meanwhile.
    let live = desk.live.load();
    let (head, body) = request.into_parts();
    let _charge = slot.charge(memory::of_fields(&head.headers));
    let mut body = Upload::new(body, slot);
    let (mut answer, seen) = route(desk, &live, scheme, peer, &head, &mut body).await;
    let took = began.elapsed();
    desk.metrics.request(seen, answer.status(), took);
    if live.options.log_requests {
        let id = RequestId::told_in(answer.headers())
            .unwrap_or_else(|| RequestId::of(peer, names(&head.headers), &live.options));
        let exchange = Exchange {
            id,
            method: head.method.as_str(),
            path: head.uri.path(),
            seen,
            status: answer.status(),
            length: answer.body().size_hint().upper().unwrap_or_default(),
            took,
        };
        access_log::log(&live.site, &exchange);
    }
    // An answer to a request whose body nobody read must not be lost because the client is still sending it. One that waits to
    // be told to go on (RFC 9110 §10.1.1), or has been too slow already, is not waited for.
    let waits = head.headers.contains_key(EXPECT) || answer.status() == StatusCode::REQUEST_TIMEOUT;
    let is_read = body.is_read() || (!waits && body.drain().await);
    // HTTP/2 resets the request's stream behind the answer, and the connection goes on.
    if !is_read && head.version != Version::HTTP_2 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    // In the clear anybody could have written it, and browsers do not believe it there (RFC 6797 §7.2).
    if scheme == Scheme::Https
        && let Some(hsts) = &live.options.tls.hsts
    {
        answer.headers_mut().insert(STRICT_TRANSPORT_SECURITY, hsts.value());
    }
    secure(answer)
}

/// The answer, and what it is counted as.
async fn route(
    desk: &Arc<Desk>,
    live: &Live,
    scheme: Scheme,
    peer: Peer,
    head: &Parts,
    body: &mut Upload,
) -> (Answer, Seen) {
    const FORM: Seen = Seen::other(Class::Form);
    const NONE: Seen = Seen::other(Class::None);
    if let Some(answer) = ambiguity::refusal(head) {
        return (answer, NONE);
    }
    if !names_its_host(head) {
        return (bad_request("the request must name exactly one host"), NONE);
    }
    if let Some(answer) = tls::elsewhere(&live.options, scheme, peer, head) {
        return (answer, Seen::other(Class::Redirect));
    }
    let path = match path::decode(head.uri.path()) {
        Ok(path) => path,
        Err(error) => return (bad_request(&error.to_string()), NONE),
    };
    match form_at(&path) {
        // Boxed, because it is large, and every request's future would be.
        Some(form) => (Box::pin(post_form::answer(desk, live, form, peer, head, body)).await, FORM),
        // Pages, their Markdown twins, the machine-readable resources and assets: whatever the site holds.
        None => get_page::answer(&live.site, &path, head),
    }
}

/// The form that is sent to a path.
pub(super) fn form_at(path: &str) -> Option<&'static Form> {
    match path {
        "/api/waitlist" => Some(&WAITLIST),
        "/api/contact" => Some(&CONTACT),
        _ => None,
    }
}

/// Proxies before us may have gone by another host than we would. HTTP/1.1 requires exactly one Host header (RFC 9112 §3.2);
/// HTTP/2 has `:authority` in its place, and where both are there they must not differ (RFC 9113 §8.3.1).
fn names_its_host(head: &Parts) -> bool {
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
        assert_eq!(names_its_host(&head), expected, "{version:?} {uri} {hosts:?}");
    }

    #[test]
    fn a_request_names_one_host() {
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
