//! Every URL of the public address, on one screen.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::HOST;
use http::{Request, StatusCode, Version};
use hyper::body::Incoming;

use super::answer::{Answer, secure, text};
use super::{Desk, get_page, post_form};
use crate::inbox::form::{CONTACT, WAITLIST};

/// Answers one request of the public address.
pub(super) async fn answer(desk: &Arc<Desk>, peer: IpAddr, request: Request<Incoming>) -> Answer {
    let answer = match request.uri().path() {
        _ if !names_its_host(&request) => {
            text(StatusCode::BAD_REQUEST, "The request must carry exactly one Host header.\n")
        }
        "/api/waitlist" => post_form::answer(desk, &WAITLIST, peer, request).await,
        "/api/contact" => post_form::answer(desk, &CONTACT, peer, request).await,
        // Pages, their Markdown twins, the machine-readable resources and assets: whatever the site holds.
        _ => get_page::answer(&desk.site, &request),
    };
    secure(answer)
}

/// HTTP/1.1 requires it (RFC 9112 §3.2), and proxies before us may have gone by another.
fn names_its_host(request: &Request<Incoming>) -> bool {
    let hosts = request.headers().get_all(HOST).iter().count();
    hosts == 1 || (hosts == 0 && request.version() != Version::HTTP_11)
}
