//! Accepts connections on one worker's thread and sees each of them to its end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::LocalSet;

use super::connection::{Clock, Timed};
use super::source::{Connections, Place};
use super::{Desk, router};

/// A request's header may be this long, in bytes.
const HEADER_LIMIT: usize = 16 * 1024;

/// A request may have this many header fields.
const HEADER_FIELDS: usize = 100;

/// Without descriptors or memory accepting fails at once, again and again; this long it is left alone.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(50);

/// Runs one worker until `stop` becomes true and its connections have ended or the grace is over.
pub(super) fn run(
    desk: Arc<Desk>,
    listener: std::net::TcpListener,
    connections: Arc<Connections>,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async move {
        let listener = TcpListener::from_std(listener)?;
        let grace = desk.options.shutdown_grace;
        let alive = accept(&desk, &listener, &connections, &stop).await;
        // The socket closes, so that the balancer or the kernel sends nobody here any more.
        drop(listener);
        let ended = async {
            let mut alive = alive;
            while alive.changed().await.is_ok() {}
        };
        let _ = tokio::time::timeout(grace, ended).await;
        Ok(())
    })
}

/// Accepts until told to stop. The channel that is returned closes with the last connection.
async fn accept(
    desk: &Arc<Desk>,
    listener: &TcpListener,
    connections: &Arc<Connections>,
    stop: &watch::Receiver<bool>,
) -> watch::Receiver<()> {
    let (alive, ended) = watch::channel(());
    let alive = Rc::new(alive);
    let mut stopping = stop.clone();
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stop| *stop) => return ended,
        };
        match accepted {
            Ok((stream, peer)) => {
                if std::mem::take(&mut failing) {
                    tracing::info!("connections are accepted again");
                }
                // Too many: closing costs the least, and an answer would have to wait for a request first.
                let Some(place) = connections.admit(peer.ip()) else { continue };
                let (desk, stop, alive) = (desk.clone(), stop.clone(), alive.clone());
                tokio::task::spawn_local(async move {
                    attend(&desk, stream, peer, place, stop).await;
                    drop(alive);
                });
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "connections cannot be accepted for a moment");
                }
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }
}

/// The peer was gone before its connection was accepted; the next one is not affected.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Answers one connection's requests until it ends, is idle for too long or the server stops.
async fn attend(
    desk: &Arc<Desk>,
    stream: TcpStream,
    peer: SocketAddr,
    place: Place,
    mut stop: watch::Receiver<bool>,
) {
    // Answers are written whole: waiting for more to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let clock = Clock::new(&desk.options);
    let service = service_fn(|request| {
        clock.request_began();
        let clock = clock.clone();
        let is_head = request.method() == http::Method::HEAD;
        async move {
            let response = router::answer(desk, peer.ip(), request).await;
            let length = response.body().size_hint().upper().unwrap_or_default();
            clock.answer_began(if is_head { 0 } else { length });
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .max_buf_size(HEADER_LIMIT)
        .max_headers(HEADER_FIELDS)
        // A client that has said all it has to say may still want to hear the answer.
        .half_close(true)
        // The clock has the deadlines of all phases, this one included.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(Timed::new(stream, clock.clone())), service);
    let mut connection = std::pin::pin!(connection);
    let ended = {
        let mut stopping = std::pin::pin!(stop.wait_for(|stop| *stop));
        let mut watched = std::pin::pin!(clock.watch(connection.as_mut()));
        tokio::select! {
            _ = &mut watched => true,
            _ = &mut stopping => false,
        }
    };
    if !ended {
        connection.as_mut().graceful_shutdown();
        // An error here is the peer's: it went away or sent what is no HTTP, and has been answered if that was possible.
        let _ = clock.watch(Pin::new(&mut connection)).await;
    }
    drop(place);
}
