//! The ACME library's HTTP client: one HTTPS connection per request, with time and size limits.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

use frontdesk_fetch::url::UrlScheme;
use frontdesk_fetch::{ExtraRoots, FetchClient, FetchTimeouts, NameResolver, Url};

const DEADLINES: FetchTimeouts = FetchTimeouts {
    resolve: Duration::from_secs(10),
    connect: Duration::from_secs(10),
    tls: Duration::from_secs(10),
    answer: Duration::from_secs(30),
    body: Duration::from_secs(30),
};

/// The cap on `Retry-After` in seconds: a huge value would overflow the library's clock and make it panic.
const MAX_RETRY_AFTER: u64 = 24 * 60 * 60;

/// The HTTP client of the ACME library.
#[derive(Clone)]
pub(super) struct Http(Arc<FetchClient>);

impl Http {
    /// Creates a client that trusts `roots` in addition to the public roots. Private addresses are permitted,
    /// because the operator chose the authority.
    pub fn new(roots: Option<&ExtraRoots>) -> Self {
        Self(Arc::new(FetchClient::new(NameResolver::System, true, roots, DEADLINES)))
    }
}

impl HttpClient for Http {
    /// Sends a request to an HTTPS URL, and checks the response as described at `send_and_check`.
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await;
            let response =
                async { send_and_check(&client, &head, &https_url(&head.uri)?, body.to_bytes()).await };
            response.await.map(BytesResponse::from).map_err(|error| Error::Other(error.into()))
        })
    }
}

/// Parses a URL from the configuration or from the authority. Only HTTPS is permitted (RFC 8555 §6.1).
fn https_url(uri: &Uri) -> Result<Url, String> {
    let url = Url::parse(&uri.to_string()).map_err(|error| format!("invalid URL {uri}: {error}"))?;
    if url.scheme() == UrlScheme::Https {
        Ok(url)
    } else {
        Err(format!("the URL {uri} must begin with https://"))
    }
}

/// Sends a request. Of the headers in `head`, passes on only `Content-Type`. Fails with a clear message where
/// the library would panic or report a misleading error: if the response is incomplete, if its status is not
/// 2xx (except for problem documents in response to a POST), or if a GET does not return a directory. Cuts a
/// `Retry-After` in seconds to [`MAX_RETRY_AFTER`].
async fn send_and_check(
    client: &FetchClient,
    head: &Parts,
    url: &Url,
    body: Bytes,
) -> Result<Response<Full<Bytes>>, String> {
    let content_type = head.headers.get(CONTENT_TYPE).map(|value| (CONTENT_TYPE, value.clone()));
    let answer = client.send(head.method.clone(), url, content_type, body).await;
    let answer = answer.map_err(|failed| format!("{}: {}", url.host_and_port(), failed.sentence))?;
    if !answer.is_whole {
        return Err(format!("{}: the response is too long or incomplete", url.host_and_port()));
    }
    // Reject other errors here: the library understands only problem documents (RFC 8555 §6.7), and does not
    // check the status of the directory response.
    let is_problem = head.method == Method::POST && answer.body.trim_ascii_start().starts_with(b"{");
    if !answer.status.is_success() && !is_problem {
        return Err(format!("{}: the response status is {}", url.host_and_port(), answer.status));
    }
    // The library uses GET only for the directory.
    if head.method == Method::GET && !is_directory(&answer.body) {
        return Err(format!("{}: the response is not an ACME directory", url.host_and_port()));
    }
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    if let Some(value) = response.headers_mut().get_mut(RETRY_AFTER) {
        let seconds = value.to_str().ok().and_then(|value| value.trim().parse::<u64>().ok());
        if seconds.is_some_and(|seconds| seconds > MAX_RETRY_AFTER) {
            *value = HeaderValue::from(MAX_RETRY_AFTER);
        }
    }
    Ok(response)
}

/// Whether the body is a directory with a usable `newNonce` URL. The library panics without that URL.
fn is_directory(body: &[u8]) -> bool {
    let directory: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let new_nonce = directory.as_ref().and_then(|directory| directory.get("newNonce")?.as_str());
    new_nonce.is_some_and(|url| url.parse::<Uri>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_peer::{HttpPeer, Reply};

    async fn ask(peer: &HttpPeer, method: Method) -> Result<Response<Full<Bytes>>, String> {
        let request = Request::builder()
            .method(method)
            .uri(peer.url("/acme/new-order"))
            .header(CONTENT_TYPE, "application/jose+json")
            .body(())
            .expect("a request");
        let head = request.into_parts().0;
        // Do not use `https_url`, because the test peer has no certificate.
        let url = Url::parse(&head.uri.to_string()).expect("a URL");
        send_and_check(&Http::new(None).0, &head, &url, Bytes::from_static(b"{}")).await
    }

    #[test]
    fn only_https_urls_are_requested() {
        let check = |url: &str| https_url(&url.parse().expect("a URI")).is_ok();
        assert!(check("https://acme.example.net/new-order"));
        assert!(check("https://localhost:14000/new-order"));
        for refused in
            ["http://acme.example.net/", "http://localhost/", "/new-order", "https://user@acme.example.net/"]
        {
            assert!(!check(refused), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_request_is_sent_and_its_answer_is_returned() {
        let problem = r#"{"type":"urn:ietf:params:acme:error:malformed"}"#;
        let peer = HttpPeer::start([Reply::saying(200, "{}"), Reply::saying(400, problem)]);
        for (status, text) in [(200, "{}"), (400, problem)] {
            let response = ask(&peer, Method::POST).await.expect("an answer");
            assert_eq!(response.status(), status);
            assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), text);
        }
        let request = peer.requests().remove(0);
        assert_eq!((&*request.method, &*request.target), ("POST", "/acme/new-order"));
        assert_eq!(request.header("content-type"), Some("application/jose+json"));
        assert!(request.header("user-agent").is_some_and(|agent| agent.starts_with("frontdesk/")));
        assert_eq!(request.body, b"{}");
    }

    #[tokio::test]
    async fn an_answer_that_the_library_cannot_handle_is_an_error() {
        let directory = |url: &str| Reply::saying(200, &format!(r#"{{"newNonce":"{url}"}}"#));
        let peer = HttpPeer::start([Reply::status(200)]);
        for (method, reply, expected) in [
            (Method::POST, Reply::saying(503, "<html>"), "the response status is 503 Service Unavailable"),
            (
                Method::POST,
                Reply::LongBody { status: 200, bytes: 1 << 20 },
                "the response is too long or incomplete",
            ),
            (Method::POST, Reply::EndlessHeaders, "the response is too long or incomplete"),
            (Method::HEAD, Reply::status(500), "the response status is 500 Internal Server Error"),
            (Method::GET, Reply::saying(500, "{}"), "the response status is 500 Internal Server Error"),
            (Method::GET, Reply::saying(200, "{}"), "the response is not an ACME directory"),
            (Method::GET, directory("https://no url/"), "the response is not an ACME directory"),
        ] {
            peer.follow([reply]);
            let error = ask(&peer, method).await.expect_err(expected);
            assert!(error.contains(expected), "{error:?} does not contain {expected:?}");
        }
        peer.follow([directory("https://acme.example.net/nonce")]);
        assert!(ask(&peer, Method::GET).await.is_ok());
    }

    #[tokio::test]
    async fn a_wait_that_would_overflow_the_clock_is_limited() {
        let peer = HttpPeer::start([Reply::status(200)]);
        for (sent, expected) in [
            ("3", "3"),
            ("18446744073709551615", "86400"),
            ("Fri, 31 Dec 1999 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:59 GMT"),
        ] {
            peer.follow([Reply::with(200, "Retry-After", sent)]);
            let response = ask(&peer, Method::POST).await.expect("an answer");
            assert_eq!(response.headers()[RETRY_AFTER], expected);
        }
    }
}
