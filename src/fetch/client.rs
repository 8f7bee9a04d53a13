//! One request over one connection, each phase with a deadline, and of the answer no more than is looked at.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT,
};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::address;
use super::url::{Host, Scheme, Url};

/// The most of an answer's header that is taken, in bytes.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// The most of an answer's body that is read, in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// The most addresses of either family that are tried.
const MAX_ADDRESSES: usize = 2;

/// How long each phase of a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// To find the name's addresses.
    pub resolve: Duration,
    /// To connect, all addresses taken together.
    pub connect: Duration,
    /// To shake hands.
    pub tls: Duration,
    /// To send the request and receive the whole header of the answer.
    pub answer: Duration,
    /// To receive as much of the answer's body as is looked at.
    pub body: Duration,
}

/// Certificate authorities that are trusted beside the public ones.
#[derive(Clone, Debug)]
pub struct Roots(Vec<CertificateDer<'static>>);

impl Roots {
    /// Reads one or more certificates in PEM, or says what would be right.
    pub fn parse(pem: &[u8]) -> Result<Roots, String> {
        let expected = "expected one or more certificates (`-----BEGIN CERTIFICATE-----`)";
        let certificates: Vec<_> =
            CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| expected)?;
        if certificates.is_empty() {
            return Err(expected.to_owned());
        }
        let mut store = RootCertStore::empty();
        for certificate in &certificates {
            store.add(certificate.clone()).map_err(|error| format!("{expected}: {error}"))?;
        }
        Ok(Roots(certificates))
    }
}

/// What a test answers for a name.
#[cfg(test)]
pub(crate) type TestResolver = Box<dyn Fn(&str) -> Vec<IpAddr> + Send + Sync>;

/// Who says which addresses a name has.
pub enum Resolver {
    /// The system.
    System,
    /// A test.
    #[cfg(test)]
    Test(TestResolver),
}

impl Resolver {
    async fn resolve(&self, host: &Host, port: u16) -> io::Result<Vec<IpAddr>> {
        match (self, host) {
            (_, Host::Address(address)) => Ok(vec![*address]),
            (Resolver::System, Host::Name(name)) => {
                let found = tokio::net::lookup_host((name.as_str(), port)).await?;
                Ok(found.map(|address| address.ip()).collect())
            }
            #[cfg(test)]
            (Resolver::Test(answer), Host::Name(name)) => Ok(answer(name)),
        }
    }
}

/// What came back.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// The beginning of its body, 64 KiB at most.
    pub body: Vec<u8>,
    /// Whether that is all of it.
    pub is_whole: bool,
}

/// Why nothing came back.
#[derive(Debug)]
pub struct Failed {
    /// Whether the other side may have read the request: what is in it may be the reason then.
    pub is_sent: bool,
    /// A sentence that says in which phase it happened; whoever the request was to goes before it.
    pub sentence: String,
}

impl Failed {
    fn unsent(sentence: String) -> Failed {
        Failed { is_sent: false, sentence }
    }
}

/// What all requests to one place share.
pub struct Client {
    resolver: Resolver,
    allow_private: bool,
    tls: Result<TlsConnector, String>,
    deadlines: Deadlines,
}

impl Client {
    /// Makes it ready; nobody is connected to.
    pub fn new(
        resolver: Resolver,
        allow_private: bool,
        extra_roots: Option<&Roots>,
        deadlines: Deadlines,
    ) -> Client {
        Client { resolver, allow_private, tls: connector(extra_roots), deadlines }
    }

    /// Posts JSON.
    pub async fn post(
        &self,
        url: &Url,
        headers: Vec<(&'static str, HeaderValue)>,
        body: String,
    ) -> Result<Answer, Failed> {
        let mut request = request(Method::POST, url)
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, body.len());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        self.ask(url, request.body(Full::new(Bytes::from(body)))).await
    }

    /// Sends a request with any method, and with a content type if it has a body. An error is [`Failed::sentence`].
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        content_type: Option<HeaderValue>,
        body: Bytes,
    ) -> Result<Answer, String> {
        let mut request = request(method, url);
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type).header(CONTENT_LENGTH, body.len());
        }
        self.ask(url, request.body(Full::new(body))).await.map_err(|failed| failed.sentence)
    }

    /// Gets what is there, in the media type that is asked for if the server has it. An error is [`Failed::sentence`].
    pub async fn get(&self, url: &Url, accept: &'static str) -> Result<Answer, String> {
        let request = request(Method::GET, url).header(ACCEPT, accept).body(Full::default());
        self.ask(url, request).await.map_err(|failed| failed.sentence)
    }

    async fn ask(
        &self,
        url: &Url,
        request: Result<Request<Full<Bytes>>, http::Error>,
    ) -> Result<Answer, Failed> {
        let request = request.map_err(|error| Failed::unsent(error.to_string()))?;
        let stream = self.connect(url).await.map_err(Failed::unsent)?;
        let sent = |sentence| Failed { is_sent: true, sentence };
        if url.scheme() == Scheme::Http {
            return self.exchange(stream, request).await.map_err(sent);
        }
        let stream = self.secure(url, stream).await.map_err(Failed::unsent)?;
        self.exchange(stream, request).await.map_err(sent)
    }

    async fn secure(&self, url: &Url, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
        let name = match url.host() {
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(|error| error.to_string())?,
            Host::Address(address) => ServerName::from(*address),
        };
        let handshake = self.tls.as_ref().map_err(String::clone)?.connect(name, stream);
        within(self.deadlines.tls, "TLS handshake", handshake).await
    }

    /// Connects to one of the addresses that were checked, and to no other: nothing is resolved a second time.
    async fn connect(&self, url: &Url) -> Result<TcpStream, String> {
        let resolving = self.resolver.resolve(url.host(), url.port());
        let found = within(self.deadlines.resolve, "resolving the name", resolving).await?;
        let permitted = address::permitted(url.host(), &found, self.allow_private)?;
        let candidates = candidates(&permitted);
        let share = self.deadlines.connect / u32::try_from(candidates.len()).unwrap_or(1).max(1);
        let mut failure = "the name has no address".to_owned();
        for address in candidates {
            let connecting = TcpStream::connect(SocketAddr::new(address, url.port()));
            match within(share, &format!("connecting to {address}"), connecting).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn exchange<S>(&self, stream: S, request: Request<Full<Bytes>>) -> Result<Answer, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let handshake = http1::Builder::new()
            .max_buf_size(MAX_BODY_BYTES)
            .max_header_size(MAX_HEADER_BYTES)
            .handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(|error| in_full(&error))?;
        // What ends the connection ends the exchange as well, with an error that says more.
        let driver = async {
            let _ = connection.await;
            std::future::pending::<()>().await;
        };
        let exchange = async {
            let answer =
                within(self.deadlines.answer, "waiting for the answer", sender.send_request(request)).await?;
            let (head, body) = answer.into_parts();
            // The status has decided already: whatever becomes of the body changes nothing.
            let mut beginning = Vec::new();
            let is_whole = timeout(self.deadlines.body, read(body, &mut beginning)).await.unwrap_or(false);
            Ok(Answer { status: head.status, headers: head.headers, body: beginning, is_whole })
        };
        let mut driver = pin!(driver);
        tokio::select! {
            answer = exchange => answer,
            () = &mut driver => Err("the connection has ended".to_owned()),
        }
    }
}

/// TLS 1.2 or 1.3 with the public authorities and those of the operator; certificates are checked in any case.
fn connector(extra_roots: Option<&Roots>) -> Result<TlsConnector, String> {
    let mut roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    for certificate in extra_roots.iter().flat_map(|roots| &roots.0) {
        roots.add(certificate.clone()).map_err(|error| error.to_string())?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn request(method: Method, url: &Url) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(url.target())
        .header(HOST, url.authority())
        .header(USER_AGENT, concat!("frontdesk/", env!("CARGO_PKG_VERSION")))
        .header(CONNECTION, "close")
}

/// The addresses to try, of both families: where one is unreachable, the other may not be.
fn candidates(permitted: &[IpAddr]) -> Vec<IpAddr> {
    let (mut v4, mut v6) = (0, 0);
    let is_wanted = |address: &&IpAddr| {
        let count = if address.is_ipv4() { &mut v4 } else { &mut v6 };
        *count += 1;
        *count <= MAX_ADDRESSES
    };
    permitted.iter().filter(is_wanted).copied().collect()
}

/// Adds what arrives to `beginning` until there is enough. Whether the body ended before that, as it should.
async fn read(mut body: Incoming, beginning: &mut Vec<u8>) -> bool {
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        let Ok(data) = frame.into_data() else { continue };
        let room = MAX_BODY_BYTES - beginning.len();
        beginning.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return false;
        }
    }
    true
}

async fn within<T, E: std::error::Error>(
    limit: Duration,
    phase: &str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(limit, work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(format!("{phase}: {}", in_full(&error))),
        Err(_) => Err(format!("{phase}: not done within {} s", limit.as_secs_f32())),
    }
}

/// An error with its causes, each said once.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("deadlines", &self.deadlines).finish_non_exhaustive()
    }
}
