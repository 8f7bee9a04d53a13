//! One connection from its first byte to its last: whose it is, what is spoken on it, and who answers its requests.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::connection::{Observed, keep_watch, last_request};
use super::memory::cost;
use super::metrics::Shed;
use super::protocol::{Protocol, Rewound, tell};
use super::share::Accepted;
use super::socket::{Peer, Scheme, Stream, Trust};
use super::source::is_trusted;
use super::visit::Visit;
use super::{Options, Stage, Worker, http1, http2, proxy, tls};

/// For so long a trusted proxy's connection may wait for a request: longer than common proxies and balancers keep one.
const PROXY_IDLE: Duration = Duration::from_secs(75);

/// Answers one connection's requests until it ends, is idle for too long or the server stops.
pub(super) async fn attend(
    worker: &Worker,
    Accepted { scheme, mut stream, mut peer, mut place }: Accepted,
    stage: watch::Receiver<Stage>,
) {
    let desk = &worker.desk;
    let _open = desk.metrics.connection();
    let options = desk.live.load().options.clone();
    if options.proxy_protocol && is_trusted(&options, peer) {
        let header = Box::pin(proxy::read(&mut stream));
        let header = tokio::time::timeout(options.first_byte_timeout, header).await;
        if header.is_err() {
            desk.metrics.shed(Shed::FirstByte);
        }
        let Ok(Ok(client)) = header else { return };
        if let Some(client) = client {
            peer = Peer::at(client);
            if let Err(reason) = place.belongs_to(peer, &options) {
                desk.metrics.shed(reason);
                return;
            }
        } else {
            // The connection stays the proxy's own, and its place stays the proxy's.
            peer.trust = Trust::Never;
        }
    }
    // A proxy keeps connections open for whoever comes next, and takes one that has just been closed for one that works.
    let options = if is_trusted(&options, peer) && options.idle_timeout < PROXY_IDLE {
        Arc::new(Options { idle_timeout: PROXY_IDLE, ..Options::clone(&options) })
    } else {
        options
    };
    let slot = place.slot().clone();
    poll_fn(|cx| {
        slot.is_served_by(cx.waker());
        Poll::Ready(())
    })
    .await;
    let visit = Visit { worker, options, scheme, peer, stage, slot };
    match scheme {
        Scheme::Http => visit.serve_cleartext(stream).await,
        // Boxed, as is what seldom comes below: a connection that waits takes as much memory as the largest of its states.
        Scheme::Https => Box::pin(visit.serve_tls(stream)).await,
    }
}

impl Visit<'_> {
    /// In the clear, nothing but the first bytes tells which protocol a client means (RFC 9113 §3.3). The deadlines are those of an
    /// HTTP/1 request until it is known: half a preface is no better than half a header.
    pub(super) async fn serve_cleartext<S: AsyncRead + AsyncWrite + Unpin>(mut self, stream: S) {
        let clock = http1::Clock::new(&self.options, self.slot.clone());
        let mut stream = Observed::new(stream, clock.clone());
        let told = {
            let telling = std::pin::pin!(tell(&mut stream));
            tokio::select! {
                told = keep_watch(|| clock.deadline(), telling) => told.ok_or(clock.overdue()),
                () = last_request(&mut self.stage) => return,
            }
        };
        match told {
            Ok(Ok((Protocol::Http1, read))) => http1::serve(self, read, stream.into_inner(), clock).await,
            Ok(Ok((Protocol::Http2, read))) => {
                Box::pin(http2::serve(self, Rewound::new(read, stream.into_inner()))).await;
            }
            // The peer is gone.
            Ok(Err(_)) => {}
            // Nothing was said, or too slowly.
            Err(reason) => self.worker.desk.metrics.shed(reason),
        }
    }

    async fn serve_tls(self, stream: Stream) {
        let Some(tls) = &self.worker.desk.tls else { return };
        let charge = self.slot.charge(cost::HANDSHAKE);
        let shaken =
            self.slot.unless_shed(tls.accept(stream, &self.options)).await.unwrap_or(Err(Shed::Memory));
        drop(charge);
        match shaken {
            Ok(Some(stream)) => {
                let _charge = self.slot.charge(cost::TLS);
                let protocol = tls::protocol(&stream);
                self.serve(stream, protocol).await;
            }
            Ok(None) => {}
            Err(reason) => self.worker.desk.metrics.shed(reason),
        }
    }

    /// For a stream of which it is known what is spoken on it, as ALPN tells it (RFC 7301).
    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(self, stream: S, protocol: Protocol) {
        match protocol {
            Protocol::Http1 => {
                let clock = http1::Clock::new(&self.options, self.slot.clone());
                http1::serve(self, Bytes::new(), stream, clock).await;
            }
            Protocol::Http2 => Box::pin(http2::serve(self, stream)).await,
        }
    }
}
