//! Passes one request to the handler: checks it first, and discards an unread body afterwards.

use std::sync::Arc;

use http::header::{CONNECTION, EXPECT, HeaderValue};
use http::{Response, StatusCode, Version};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::connection_memory::{self, Slot};
use super::handler::{PublicHandler, Request, RequestContext};
use super::request_body::RequestBody;
use super::response_body::ResponseBody;
use super::socket::{Peer, Scheme};
use super::worker_context::Worker;
use super::{ambiguity, tls};

/// Responds to one request on a public address. Refuses an ambiguous one (`ambiguity.rs`), refuses or
/// redirects one for the private name, redirects plain HTTP to HTTPS if that is configured, and passes all
/// others to the handler. Then discards the rest of the body, up to a limit, except after a 408 or if the
/// request has `Expect`. If the body has not been read to its end, an HTTP/1 connection closes after the
/// response.
pub(super) async fn respond<H: PublicHandler>(
    worker: &Worker<H>,
    scheme: Scheme,
    peer: Peer,
    request: http::Request<Incoming>,
    slot: &Arc<Slot>,
) -> Response<ResponseBody> {
    let context = RequestContext { peer, scheme, began: Instant::now() };
    // Use one snapshot for the whole request, so that a reload halfway through does not affect it.
    let snapshot = worker.server.snapshot.load();
    let (head, body) = request.into_parts();
    let _charge = slot.charge(connection_memory::fields_cost(&head.headers));
    let mut body = RequestBody::new(body, slot, None);
    let options = (**snapshot).as_ref();
    let refusal = ambiguity::refusal(&head).or_else(|| {
        let (redirect, proxies) = (options.tls.redirect.as_ref(), &options.trusted_proxies);
        let name = worker.server.private_name.as_deref();
        name.and_then(|name| name.refusal(proxies, scheme, peer, &head))
            .or_else(|| tls::redirect_to_https(redirect, proxies, scheme, peer, &head))
    });
    let request = Request { head: &head, body: &mut body, context };
    let mut response = match refusal {
        Some(refusal) => worker.handler.refuse(&snapshot, Some(&request), refusal),
        None => worker.handler.respond(&snapshot, request).await,
    };
    // Discard an unread body, so that a client that is still sending it receives the response. Do not wait
    // for a client that is itself waiting for 100 Continue (RFC 9110 §10.1.1), or that was already too slow.
    let skips_drain = head.headers.contains_key(EXPECT) || response.status() == StatusCode::REQUEST_TIMEOUT;
    let is_read = body.is_fully_read() || (!skips_drain && body.drain().await);
    // Close an HTTP/1 connection whose request body is unread. HTTP/2 resets only the stream.
    if !is_read && head.version != Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
