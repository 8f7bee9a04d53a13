//! One connection from its first byte to its last: whose it is, what is spoken on it, and who answers its requests.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::connection::{Observed, keep_watch, last_request};
use super::protocol::{Protocol, Rewound, tell};
use super::socket::{Peer, Scheme, Stream};
use super::source::{Place, is_trusted};
use super::{Desk, http1, http2, proxy};

/// Answers one connection's requests until it ends, is idle for too long or the server stops.
pub(super) async fn attend(
    desk: &Arc<Desk>,
    _scheme: Scheme,
    mut stream: Stream,
    mut peer: Peer,
    mut place: Place,
    stop: watch::Receiver<bool>,
) {
    let options = desk.live.load().options.clone();
    if options.proxy_protocol && is_trusted(&options, peer) {
        let header = tokio::time::timeout(options.first_byte_timeout, proxy::read(&mut stream)).await;
        let Ok(Ok(client)) = header else { return };
        if let Some(client) = client {
            peer = Peer { address: client, is_local: false };
            if !place.belongs_to(peer, &options) {
                return;
            }
        }
    }
    serve_cleartext(desk, stream, peer, stop).await;
}

/// In the clear, nothing but the first bytes tells which protocol a client means (RFC 9113 §3.3). The deadlines are those of an
/// HTTP/1 request until it is known: half a preface is no better than half a header.
async fn serve_cleartext<S>(desk: &Arc<Desk>, stream: S, peer: Peer, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let clock = http1::Clock::new(&desk.live.load().options);
    let mut stream = Observed::new(stream, clock.clone());
    let told = {
        let telling = std::pin::pin!(tell(&mut stream));
        tokio::select! {
            told = keep_watch(|| clock.deadline(), telling) => told,
            () = last_request(&mut stop) => None,
        }
    };
    match told {
        Some(Ok((Protocol::Http1, read))) => {
            http1::serve(desk, Rewound::new(read, stream), peer, clock, stop).await;
        }
        Some(Ok((Protocol::Http2, read))) => {
            http2::serve(desk, Rewound::new(read, stream.into_inner()), peer, stop).await;
        }
        // Nothing was said, or too slowly, or the peer is gone.
        Some(Err(_)) | None => {}
    }
}

/// For a stream of which it is known what is spoken on it, as ALPN tells it (RFC 7301).
#[expect(dead_code, reason = "what comes out of TLS enters here")]
pub(super) async fn serve<S>(
    desk: &Arc<Desk>,
    stream: S,
    peer: Peer,
    protocol: Protocol,
    stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match protocol {
        Protocol::Http1 => {
            let clock = http1::Clock::new(&desk.live.load().options);
            http1::serve(desk, Observed::new(stream, clock.clone()), peer, clock, stop).await;
        }
        Protocol::Http2 => http2::serve(desk, stream, peer, stop).await,
    }
}
