//! Requests that the server refuses before a handler sees them.

use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, LOCATION};
use http::{Response, StatusCode};

use super::response_body::ResponseBody;

/// Why the server does not pass a request to its handler, and how it responds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// 400: other servers may parse the request differently, or it does not name exactly one host. Contains a
    /// clause with the reason. `closes` is set if the connection may carry data that is not HTTP.
    Ambiguous { reason: &'static str, closes: bool },
    /// 501: the request's transfer coding is not a single `chunked`. The connection closes.
    TransferCoding,
    /// 400: plain text on a TLS socket. The connection closes.
    PlainText,
    /// 421: the request is for a name that this connection does not serve (RFC 9110 §15.5.20).
    Misdirected,
    /// 308: a plain HTTP request for a site that is served over TLS. Contains the value of `Location`.
    Redirect(HeaderValue),
}

impl Refusal {
    pub(super) const fn ambiguous(reason: &'static str) -> Self {
        Self::Ambiguous { reason, closes: false }
    }

    /// Builds a plain-text response with `Cache-Control: no-store`, and with `Connection: close` if the
    /// connection closes. The sender of [`Self::PlainText`] adds that header itself.
    pub fn into_response(self) -> Response<ResponseBody> {
        let (status, text) = match &self {
            Self::Ambiguous { reason, .. } => {
                (StatusCode::BAD_REQUEST, format!("This request cannot be answered: {reason}.\n"))
            }
            Self::TransferCoding => (
                StatusCode::NOT_IMPLEMENTED,
                "The only supported transfer coding is `chunked`, applied once.\n".to_owned(),
            ),
            Self::PlainText => (
                StatusCode::BAD_REQUEST,
                "This port expects HTTPS, but the request was plain HTTP. Use https:// instead.\n".to_owned(),
            ),
            Self::Misdirected => (
                StatusCode::MISDIRECTED_REQUEST,
                "This connection does not serve the host of this request. Open a new connection for it.\n"
                    .to_owned(),
            ),
            // 308 keeps the method (RFC 9110 §15.4.9), so browsers resubmit forms over TLS.
            Self::Redirect(_) => {
                (StatusCode::PERMANENT_REDIRECT, "This site is served over HTTPS.\n".to_owned())
            }
        };
        let mut response = Response::new(ResponseBody::from(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match self {
            Self::Ambiguous { closes: true, .. } | Self::TransferCoding => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Self::Redirect(location) => {
                headers.insert(LOCATION, location);
            }
            Self::Ambiguous { .. } | Self::PlainText | Self::Misdirected => {}
        }
        response
    }
}
