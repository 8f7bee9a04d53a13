//! The interface between a server and its handlers.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body::Body;
use tokio::time::Instant;

use super::fast_path::plain_request::PlainRequest;
use super::fast_path::plain_response::PlainResponse;
use super::options::Options;
use super::refusal::Refusal;
use super::request_body::RequestBody;
use super::response_body::ResponseBody;
use super::socket::{Peer, Scheme};

/// Responds to requests. Each thread has its own handler, which may therefore keep caches without locks.
pub trait Handler: 'static {
    /// Everything that a reload replaces at once. A request uses one snapshot from beginning to end.
    type Snapshot: Send + Sync + 'static;

    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + 'static;

    /// Responds to one request. The server then discards what has not been read of the request's body. A
    /// panic ends the connection (HTTP/1) or the stream (HTTP/2).
    fn respond(
        &self,
        snapshot: &Arc<Self::Snapshot>,
        request: Request<'_>,
    ) -> impl Future<Output = Response<Self::Body>>;
}

/// A handler for public addresses: its responses are in memory or in files, so that the server can bound the
/// memory and the time that a client takes.
pub trait PublicHandler: Handler<Body = ResponseBody, Snapshot: AsRef<Options>> {
    /// Turns a refusal into a response. `request` is `None` if the request has not been parsed.
    fn refuse(
        &self,
        _snapshot: &Arc<Self::Snapshot>,
        _request: Option<&Request<'_>>,
        refusal: Refusal,
    ) -> Response<ResponseBody> {
        refusal.into_response()
    }

    /// Responds to a plain request at once, without [`Handler::respond`] and hyper, and returns the time at
    /// which the response was ready. With `None`, the default, [`Handler::respond`] serves this request and
    /// all later ones on the connection. The two must send the same responses.
    fn respond_plain(
        &self,
        _snapshot: &Arc<Self::Snapshot>,
        _context: RequestContext,
        _request: &PlainRequest<'_, '_>,
        _response: &mut PlainResponse<'_>,
    ) -> Option<Instant> {
        None
    }
}

/// A request whose header has been read. Holds references, because moving the header takes 300 instructions,
/// more than one percent of a response (commit e92276aa).
pub struct Request<'a> {
    pub head: &'a Parts,
    pub body: &'a mut RequestBody,
    pub context: RequestContext,
}

/// How and when a request reached the server.
#[derive(Debug, Clone, Copy)]
pub struct RequestContext {
    pub peer: Peer,
    /// The scheme of the connection. A proxy may have terminated TLS.
    pub scheme: Scheme,
    /// The time at which the header was complete.
    pub began: Instant,
}
