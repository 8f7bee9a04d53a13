//! The private address: whether the process lives and whether it can take submissions. Never reachable from the public one.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;

use super::Desk;
use super::answer::{Answer, method_not_allowed, text};
use super::socket::Socket;

/// Serves until `ended` becomes true; once `stop` is, `/readyz` is 503, so that a balancer sends nobody here any more.
pub(super) fn run(
    desk: Arc<Desk>,
    socket: Socket,
    stop: watch::Receiver<bool>,
    mut ended: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = socket.into_listener()?;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = ended.wait_for(|ended| *ended) => return Ok(()),
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (desk, stop) = (desk.clone(), stop.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let answer = answer(&desk, *stop.borrow(), &request);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(Duration::from_secs(10))
                    .serve_connection(TokioIo::new(stream), service);
                let _ = connection.await;
            });
        }
    })
}

fn answer(desk: &Desk, stopping: bool, request: &Request<Incoming>) -> Answer {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return method_not_allowed("GET, HEAD");
    }
    match request.uri().path() {
        "/livez" => text(StatusCode::OK, "alive\n"),
        "/readyz" if stopping => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        "/readyz" => match desk.store.health() {
            Ok(()) => text(StatusCode::OK, "ready\n"),
            Err(error) => {
                text(StatusCode::SERVICE_UNAVAILABLE, format!("submissions cannot be kept: {error}\n"))
            }
        },
        _ => text(StatusCode::NOT_FOUND, "This address has /livez and /readyz.\n"),
    }
}
