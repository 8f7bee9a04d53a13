//! The HTTP client: one request per connection, a time limit for each phase, and size limits for responses.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore};

use super::address_check;
use super::response::{FetchResponse, MAX_BODY_BYTES, ResponseRecorder};
use super::url::{Host, Url, UrlScheme};
use super::verifier::CertificateVerifier;

const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Maximum number of header fields. More than fit into [`MAX_HEADER_BYTES`], so only that limit applies.
const MAX_HEADERS: usize = 4096;

/// Maximum number of addresses that the client tries per address family.
const MAX_ADDRESSES: usize = 2;

/// The time limits of a request. Together, they limit its whole duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchTimeouts {
    pub resolve: Duration,
    /// Time limit for all connection attempts together.
    pub connect: Duration,
    pub tls: Duration,
    /// Time limit from sending the request to the end of the response header.
    pub answer: Duration,
    /// Time limit for reading the response's body, up to the client's limit of bytes.
    pub body: Duration,
}

/// Certificates of authorities or single servers, trusted in addition to the public authorities.
#[derive(Clone, Debug)]
pub struct ExtraRoots(pub(crate) Vec<CertificateDer<'static>>);

/// Removes all byte order marks (U+FEFF) from a PEM file. Editors on Windows write one at the beginning of
/// each file, so concatenated files have several. Invalid UTF-8 is replaced with U+FFFD.
pub fn without_byte_order_marks(pem: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(pem).replace('\u{feff}', "").into_bytes()
}

impl ExtraRoots {
    /// Parses one or more PEM certificates, and skips other PEM sections. Fails if there is no certificate,
    /// or if one of them is invalid. The error is a sentence for the operator.
    pub fn parse(pem: &[u8]) -> Result<ExtraRoots, String> {
        let expected = "expected one or more certificates (`-----BEGIN CERTIFICATE-----`)";
        let pem = without_byte_order_marks(pem);
        let certificates: Vec<_> =
            CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(|_| expected)?;
        if certificates.is_empty() {
            return Err(expected.to_owned());
        }
        let mut store = RootCertStore::empty();
        for certificate in &certificates {
            store.add(certificate.clone()).map_err(|error| format!("{expected}: {error}"))?;
        }
        Ok(ExtraRoots(certificates))
    }
}

/// A function that returns the IP addresses of a host name.
pub type Resolve = Box<dyn Fn(&str) -> Vec<IpAddr> + Send + Sync>;

/// Looks up the IP addresses of host names. The client checks all addresses of a name before it connects to
/// one of them.
pub enum NameResolver {
    /// The resolver of the C library.
    System,
    /// Resolves names with a function, for tests.
    Custom(Resolve),
}

impl NameResolver {
    /// The unchecked addresses of a host. IP addresses need no lookup. For a name without addresses, the C
    /// library's resolver usually fails; a custom one returns an empty list.
    pub async fn resolve(&self, host: &Host, port: u16) -> io::Result<Vec<IpAddr>> {
        match (self, host) {
            (_, Host::Address(address)) => Ok(vec![*address]),
            (NameResolver::System, Host::Name(name)) => {
                let found = tokio::net::lookup_host((name.as_str(), port)).await?;
                Ok(found.map(|address| address.ip()).collect())
            }
            (NameResolver::Custom(answer), Host::Name(name)) => Ok(answer(name)),
        }
    }
}

/// The part of a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchPhase {
    /// Looking up the addresses of the host name, and checking whether they are permitted.
    Resolve,
    Connect,
    Tls,
    /// Sending the request and reading the response.
    Exchange,
}

/// Why a server's certificate was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateFault {
    Expired,
    NotYetValid,
    WrongName,
    UnknownIssuer,
    Other,
}

/// Why the client received no response to a request.
#[derive(Debug)]
pub struct FetchError {
    /// Whether the client began to send the request. If so, the server may have received it, and the
    /// request's content may have caused the error.
    pub is_sent: bool,
    /// Whether a time limit ended the request.
    pub is_timeout: bool,
    pub phase: FetchPhase,
    /// Set if the TLS handshake failed because of the server's certificate.
    pub certificate: Option<CertificateFault>,
    /// The cause, in most cases preceded by the phase of the request. Callers prepend the server's name.
    pub sentence: String,
}

/// An error that is no timeout and occurred before the request was sent. Its phase is
/// [`FetchPhase::Exchange`] until the caller sets another.
impl From<String> for FetchError {
    fn from(sentence: String) -> FetchError {
        let (phase, certificate) = (FetchPhase::Exchange, None);
        FetchError { is_sent: false, is_timeout: false, phase, certificate, sentence }
    }
}

impl FetchError {
    fn in_phase(self, phase: FetchPhase) -> FetchError {
        FetchError { phase, ..self }
    }
}

/// An HTTP client whose requests share the same time limits and trusted certificate authorities.
pub struct FetchClient {
    resolver: NameResolver,
    allow_private: bool,
    /// The TLS settings. If this is an error, each request to an `https` URL fails with it.
    tls: Result<Arc<ClientConfig>, String>,
    timeouts: FetchTimeouts,
    user_agent: HeaderValue,
    max_body_bytes: usize,
}

impl FetchClient {
    /// A client that offers HTTP/1.1 only, and connects to hosts in private networks only if `allow_private`
    /// is set ([`address_check::check_addresses`]). Never fails: if the TLS configuration cannot be built,
    /// each request to an `https` URL returns the error.
    pub fn new(
        resolver: NameResolver,
        allow_private: bool,
        extra_roots: Option<&ExtraRoots>,
        timeouts: FetchTimeouts,
    ) -> FetchClient {
        let user_agent = HeaderValue::from_static(concat!("frontdesk/", env!("CARGO_PKG_VERSION")));
        let tls = tls_config(extra_roots).map(|mut config| {
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Arc::new(config)
        });
        FetchClient { resolver, allow_private, tls, timeouts, user_agent, max_body_bytes: MAX_BODY_BYTES }
    }

    /// Sets the `User-Agent` to send instead of `frontdesk/VERSION`.
    #[must_use]
    pub fn with_user_agent(self, user_agent: HeaderValue) -> FetchClient {
        FetchClient { user_agent, ..self }
    }

    /// Sets the maximum number of bytes of a response's body that are read, instead of 64 KiB.
    #[must_use]
    pub fn with_max_body(self, max_body_bytes: usize) -> FetchClient {
        FetchClient { max_body_bytes, ..self }
    }

    /// The protocol that an `https` server selects if the client offers HTTP/2 and HTTP/1.1 (ALPN, RFC 7301),
    /// such as `h2`; `None` if it ignores the offer. Sends no request.
    pub async fn negotiate_protocol(&self, url: &Url) -> Result<Option<String>, FetchError> {
        let stream = self.connect(url).await?;
        let mut config = ClientConfig::clone(&*self.tls.clone()?);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = self.start_tls(url, stream, Arc::new(config)).await?;
        let selected = stream.get_ref().1.alpn_protocol();
        Ok(selected.map(|name| String::from_utf8_lossy(name).into_owned()))
    }

    /// The server's certificate in DER, after a successful handshake. `None` for an `http` URL. Sends no
    /// request.
    pub async fn certificate(&self, url: &Url) -> Result<Option<Vec<u8>>, FetchError> {
        if url.scheme() == UrlScheme::Http {
            return Ok(None);
        }
        let stream = self.connect(url).await?;
        let stream = self.start_tls(url, stream, self.tls.clone()?).await?;
        let chain = stream.get_ref().1.peer_certificates();
        Ok(chain.and_then(<[_]>::first).map(|certificate| certificate.to_vec()))
    }

    /// Sends one request on a new connection, and reads the response. Adds `Host`, `Connection`, for a body
    /// `Content-Length`, and unless `headers` has one, `User-Agent`. A redirect or an error status is a
    /// response like others, and so is a malformed response whose status can be read. If the body is too
    /// long, breaks off or is late, returns its beginning, with `is_whole` set to false.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: impl Into<Bytes>,
    ) -> Result<FetchResponse, FetchError> {
        let body = body.into();
        let mut request = Request::builder()
            .method(method)
            .uri(url.target())
            .header(HOST, url.authority())
            .header(CONNECTION, "close");
        if !body.is_empty() {
            request = request.header(CONTENT_LENGTH, body.len());
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if !request.headers_ref().is_some_and(|headers| headers.contains_key(USER_AGENT)) {
            request = request.header(USER_AGENT, self.user_agent.clone());
        }
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| error.to_string())?;
        let stream = self.connect(url).await?;
        let response = match url.scheme() {
            UrlScheme::Http => self.send_request_over(stream, request).await,
            UrlScheme::Https => {
                let stream = self.start_tls(url, stream, self.tls.clone()?).await?;
                self.send_request_over(stream, request).await
            }
        };
        response.map_err(|error| FetchError { is_sent: true, ..error })
    }

    /// Performs the TLS handshake, in which `config` verifies the certificate for the URL's host.
    async fn start_tls(
        &self,
        url: &Url,
        stream: TcpStream,
        config: Arc<ClientConfig>,
    ) -> Result<TlsStream<TcpStream>, FetchError> {
        let name = match url.host() {
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(|error| error.to_string())?,
            Host::Address(address) => ServerName::from(*address),
        };
        let handshake = TlsConnector::from(config).connect(name, stream);
        with_timeout(self.timeouts.tls, "TLS handshake", handshake)
            .await
            .map_err(|e| e.in_phase(FetchPhase::Tls))
    }

    /// Connects to the first address that accepts, after all addresses of the host have been checked. Tries
    /// [`addresses_to_try`] one after another, each for an equal share of the time limit. Resolves the host
    /// only once: a second lookup could return other addresses. The error is that of the last attempt.
    async fn connect(&self, url: &Url) -> Result<TcpStream, FetchError> {
        let resolving = self.resolver.resolve(url.host(), url.port());
        let found = with_timeout(self.timeouts.resolve, "resolving the name", resolving).await;
        let found = found.and_then(|found| {
            address_check::check_addresses(url.host(), &found, self.allow_private)?;
            Ok(found)
        });
        let found = found.map_err(|error| error.in_phase(FetchPhase::Resolve))?;
        let candidates = addresses_to_try(&found, |address| *address);
        let share = self.timeouts.connect / u32::try_from(candidates.len()).unwrap_or(1).max(1);
        let mut failure =
            FetchError::from("the name has no address".to_owned()).in_phase(FetchPhase::Resolve);
        for address in candidates {
            let connecting = TcpStream::connect(SocketAddr::new(address, url.port()));
            match with_timeout(share, &format!("connecting to {address}"), connecting).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error.in_phase(FetchPhase::Connect),
            }
        }
        Err(failure)
    }

    /// Sends a request over HTTP/1.1, and reads the response. A body that is late, too long or cut off is no
    /// error, but not whole. If hyper rejects the response or its header is late, returns what
    /// [`read_response`](super::read_response) finds in the bytes that have arrived, or else an error.
    async fn send_request_over<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<FetchResponse, FetchError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = ResponseRecorder::new(stream, self.max_body_bytes);
        let received = stream.received();
        // Accept malformed header fields: servers and proxies send them in responses whose status is valid.
        let handshake = http1::Builder::new()
            .max_buf_size(MAX_BODY_BYTES)
            .max_header_size(MAX_HEADER_BYTES)
            .max_headers(MAX_HEADERS)
            .allow_obsolete_multiline_headers_in_responses(true)
            .allow_spaces_after_header_name_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(|error| error_with_causes(&error))?;
        // Ignore the connection's error: the exchange returns a more specific one.
        let driver = async {
            let _ = connection.await;
            std::future::pending().await
        };
        let exchange = async {
            let sent = Instant::now();
            let answer =
                with_timeout(self.timeouts.answer, "waiting for the response", sender.send_request(request))
                    .await?;
            let time_to_header = sent.elapsed();
            let (head, body) = answer.into_parts();
            // An incomplete body is not an error: webhooks need only the status, and other callers check
            // `is_whole`.
            let mut beginning = Vec::new();
            let reading = read_body(body, &mut beginning, self.max_body_bytes);
            let is_whole = timeout(self.timeouts.body, reading).await.unwrap_or(false);
            let (status, headers) = (head.status, head.headers);
            Ok(FetchResponse { status, headers, body: beginning, is_whole, time_to_header })
        };
        let answer = tokio::select! {
            answer = exchange => answer,
            answer = driver => answer,
        };
        // Use a response that hyper rejects: callers need its status, even if the rest of its header is
        // invalid.
        answer.or_else(|error| received.response().ok_or(error))
    }
}

/// A client configuration for TLS 1.2 and 1.3 that trusts the public authorities and `extra_roots`, also if a
/// server has one of the latter as its own certificate, which may then contain no name. ALPN is not set.
pub fn tls_config(extra_roots: Option<&ExtraRoots>) -> Result<ClientConfig, String> {
    let mut roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    let trusted = extra_roots.map(|roots| roots.0.clone()).unwrap_or_default();
    for certificate in &trusted {
        roots.add(certificate.clone()).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| error.to_string())?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let verifier = Arc::new(CertificateVerifier { authorities, trusted });
    Ok(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// The first two addresses of each family, in order, because this machine may have only IPv4 or only IPv6.
/// Drops the others.
pub fn addresses_to_try<A: Copy>(found: &[A], ip: impl Fn(&A) -> IpAddr) -> Vec<A> {
    let (mut v4, mut v6) = (0, 0);
    let is_wanted = |address: &&A| {
        let count = if ip(address).is_ipv4() { &mut v4 } else { &mut v6 };
        *count += 1;
        *count <= MAX_ADDRESSES
    };
    found.iter().filter(is_wanted).copied().collect()
}

/// Appends up to `max_bytes` of the body to `beginning`. Returns false if the body is longer or breaks off.
async fn read_body(mut body: Incoming, beginning: &mut Vec<u8>, max_bytes: usize) -> bool {
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        let Ok(data) = frame.into_data() else { continue };
        let room = max_bytes - beginning.len();
        beginning.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return false;
        }
    }
    true
}

/// Waits for `work` for at most `limit`. The error's sentence begins with `phase`; the caller sets `is_sent`
/// and the field `phase`.
async fn with_timeout<T, E: std::error::Error + 'static>(
    limit: Duration,
    phase: &str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, FetchError> {
    match timeout(limit, work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => {
            let sentence = format!("{phase}: {}", error_with_causes(&error));
            Err(FetchError { certificate: certificate_fault(&error), ..sentence.into() })
        }
        Err(_) => {
            let sentence = format!("{phase}: timed out after {} s", limit.as_secs_f32());
            Err(FetchError { is_timeout: true, ..sentence.into() })
        }
    }
}

/// Why the certificate was refused, if the error of a handshake says so; `None` for other errors.
fn certificate_fault(error: &(dyn std::error::Error + 'static)) -> Option<CertificateFault> {
    let inner = error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(fault) = inner else { return None };
    Some(match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => CertificateFault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateFault::NotYetValid
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            CertificateFault::WrongName
        }
        CertificateError::UnknownIssuer => CertificateFault::UnknownIssuer,
        _ => CertificateFault::Other,
    })
}

/// The error and its sources, separated by colons. Skips a source whose text is already included.
fn error_with_causes(error: &dyn std::error::Error) -> String {
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
