//! The private address: whether the process lives, whether it can take submissions, and what it counts. Never reachable from the
//! public one.
//!
//! A connection brings one request and is gone within [`Options::exchange_timeout`](super::Options::exchange_timeout), whatever the
//! other side does, and there is room for [`MOST_CONNECTIONS`]: who watches can neither hang nor be hung.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::{Semaphore, watch};

use super::answer::{Answer, method_not_allowed, text};
use super::metrics::{Figures, report};
use super::socket::Socket;
use super::source::Connections;
use super::{Desk, Stage};

/// Further ones are closed at once.
const MOST_CONNECTIONS: usize = 64;

/// A request's header may be this long, in bytes.
const HEADER_LIMIT: usize = 8 * 1024;

/// Serves until `ended` becomes true; from [`Stage::Draining`] on, `/readyz` is 503, so that a balancer sends nobody here any more.
pub(super) fn run(
    desk: Arc<Desk>,
    socket: Socket,
    connections: Arc<Connections>,
    stage: watch::Receiver<Stage>,
    mut ended: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = socket.into_listener()?;
        let figures = Figures::new();
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = ended.wait_for(|ended| *ended) => return Ok(()),
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(place) = places.clone().try_acquire_owned() else { continue };
            let (desk, stage, figures) = (desk.clone(), stage.clone(), figures.clone());
            let connections = connections.clone();
            tokio::spawn(async move {
                let longest = desk.live.load().options.exchange_timeout;
                let service = service_fn(|request| {
                    let (desk, connections, figures, stage) =
                        (&desk, &connections, &figures, *stage.borrow());
                    async move {
                        Ok::<_, Infallible>(answer(desk, connections, figures, stage, &request).await)
                    }
                });
                let connection = http1::Builder::new()
                    .keep_alive(false)
                    .max_buf_size(HEADER_LIMIT)
                    .header_read_timeout(None)
                    .serve_connection(TokioIo::new(stream), service);
                let _ = tokio::time::timeout(longest, connection).await;
                drop(place);
            });
        }
    })
}

async fn answer(
    desk: &Desk,
    connections: &Connections,
    figures: &Arc<Figures>,
    stage: Stage,
    request: &Request<Incoming>,
) -> Answer {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return method_not_allowed("GET, HEAD");
    }
    match request.uri().path() {
        "/livez" => text(StatusCode::OK, "alive\n"),
        "/readyz" if stage != Stage::Serving => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        // For a balancer: whoever cannot keep submissions can still serve pages.
        "/readyz" if request.uri().query() == Some("exclude=store") => text(StatusCode::OK, "ready\n"),
        "/readyz" => match desk.store.health() {
            Ok(()) => text(StatusCode::OK, "ready\n"),
            Err(error) => {
                text(StatusCode::SERVICE_UNAVAILABLE, format!("submissions cannot be kept: {error}\n"))
            }
        },
        "/metrics" => {
            let (body, media_type) = report(desk, connections, figures, jiff::Timestamp::now()).await;
            let mut answer = text(StatusCode::OK, body);
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            answer
        }
        _ => text(StatusCode::NOT_FOUND, "This address has /livez, /readyz and /metrics.\n"),
    }
}
