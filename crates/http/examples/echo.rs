//! Responds to each request with its method, its path and its body: `echo [ADDR:PORT]`.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use frontdesk_http::{
    Handler, Options, PublicHandler, Request, ResponseBody, Scheme, Server, ShutdownPhase, Socket,
};
use http::{Response, StatusCode};

struct Echo;

impl Handler for Echo {
    type Snapshot = Options;
    type Body = ResponseBody;

    async fn respond(&self, _: &Arc<Options>, request: Request<'_>) -> Response<ResponseBody> {
        let Request { head, body, .. } = request;
        let read = body.read(&head.headers, 64 * 1024, Duration::from_secs(5)).await;
        let (status, body) = match &read {
            Ok((body, _charge)) => (StatusCode::OK, String::from_utf8_lossy(body).into_owned()),
            Err(error) => (StatusCode::BAD_REQUEST, format!("{error:?}")),
        };
        let text = format!("{} {}\n{body}\n", head.method, head.uri.path());
        let mut response = Response::new(ResponseBody::from(text));
        *response.status_mut() = status;
        response
    }
}

impl PublicHandler for Echo {}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:8090".into()).parse()?;
    let socket = Socket::bind(&address)?;
    println!("listening on http://{}", socket.address()?);
    let (_running, phase) = tokio::sync::watch::channel(ShutdownPhase::Serving);
    let server = Arc::new(Server::new(Arc::new(ArcSwap::from_pointee(Options::default())), None));
    Ok(server.run(vec![(Scheme::Http, socket)], || Echo, &phase)?)
}
