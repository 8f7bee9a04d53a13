//! TLS 1.2 and 1.3 on the public sockets: options, certificate, handshakes with deadlines, and HSTS.

mod acme;
mod certificate;
mod certificate_reload;
mod check;
mod handshake_write_buffer;
mod redirect;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Response;
use http::header::HeaderValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::server::{Acceptor, NoServerSessionStorage};
use tokio_rustls::rustls::{self, ProtocolVersion, ServerConfig};
use tokio_rustls::server::TlsStream;

use self::certificate::CurrentCertificate;
use self::certificate_reload::WatchedFiles;
use self::handshake_write_buffer::TlsSocket;
use super::counters::CloseReason;
use super::protocol_detection::Protocol;
use super::response_body::ResponseBody;

pub use acme::Acme;
pub use certificate::{CertificateDefect, ServerCertificate, TlsStartError};
pub use certificate_reload::CertificateFiles;
pub use check::{TlsFinding, check_certificate, check_private_certificate};
pub use redirect::HttpsRedirect;
pub(super) use redirect::{is_acme_challenge, is_plain_http, path_and_query, redirect_to_https};

/// The ALPN protocol ID of HTTP/2 (RFC 9113 §3.1).
const H2: &[u8] = b"h2";

/// The ALPN protocols that the server offers, in order of preference.
const PROTOCOLS: [&[u8]; 2] = [H2, b"http/1.1"];

/// The ALPN protocols of the private name.
const PRIVATE_PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// A fatal alert: the server does not serve the requested name (RFC 6066 §3, RFC 8446 §6).
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// The size of the first read in bytes, equal to rustls's read size. Most first messages fit.
const FIRST_READ: usize = 4096;

/// The maximum number of bytes to read from a plain-text request before refusing it.
const MAX_PLAIN_REQUEST: u64 = 16 * 1024;

/// How long a client whose plain-text request was refused may take to read the response and to close the
/// connection.
const REFUSAL_LINGER: Duration = Duration::from_secs(1);

/// The options of TLS and HTTPS redirects.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// Where the certificate comes from. With `None`, TLS is disabled.
    pub source: Option<CertificateSource>,
    /// The HTTPS address to which plain HTTP requests are redirected. With `None`, they are served.
    pub redirect: Option<HttpsRedirect>,
    /// The `Strict-Transport-Security` header. With `None`, it is not sent.
    pub hsts: Option<Hsts>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// Certificate files that another program renews.
    Files(CertificateFiles),
    /// A certificate that the server obtains from an authority over ACME (RFC 8555).
    Acme(Acme),
}

/// The value of the `Strict-Transport-Security` header (RFC 6797), which makes browsers connect to this host
/// only over TLS until `max-age` has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hsts(HeaderValue);

impl Hsts {
    /// `max_age` is rounded down to whole seconds.
    pub fn new(max_age: Duration, include_subdomains: bool, preload: bool) -> Self {
        let mut value = format!("max-age={}", max_age.as_secs());
        if include_subdomains {
            value.push_str("; includeSubDomains");
        }
        if preload {
            value.push_str("; preload");
        }
        Self(HeaderValue::from_str(&value).unwrap_or_else(|_| HeaderValue::from_static("max-age=0")))
    }

    /// Returns a header with the same `max-age`, but without `includeSubDomains` and `preload`.
    #[must_use]
    pub fn for_host_only(&self) -> Self {
        let age = self.as_str().split(';').next().unwrap_or_default();
        Self(HeaderValue::from_str(age).unwrap_or_else(|_| HeaderValue::from_static("max-age=0")))
    }

    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    pub fn value(&self) -> HeaderValue {
        self.0.clone()
    }
}

/// A connection after the handshake.
pub(super) type TlsConn = TlsStream<TlsSocket>;

/// The protocol that ALPN selected; HTTP/1 for clients that did not use ALPN.
pub(super) fn negotiated_protocol(stream: &TlsConn) -> Protocol {
    if stream.get_ref().1.alpn_protocol() == Some(H2) { Protocol::Http2 } else { Protocol::Http1 }
}

/// Where to route a connection, by the server name that the client requests (SNI).
pub(super) enum ServerName<'a> {
    /// The public site.
    Site(&'a Tls),
    /// The private handler.
    Private(&'a Tls),
    /// No handler: only ACME validations are answered.
    ValidationsOnly(&'a Tls),
    /// No destination: the handshake fails.
    Refused,
}

/// A connection after the handshake, with the handler that its server name selects.
pub(super) enum Accepted {
    Site(TlsConn),
    Private(TlsConn),
    /// The connection was an ACME validation or a refused plain-text request, and has been answered.
    Done,
}

/// The TLS state of a running server, shared by all threads.
pub struct Tls {
    config: Arc<ServerConfig>,
    current: Arc<CurrentCertificate>,
    /// The watched certificate files; `None` with ACME.
    files: Option<Arc<WatchedFiles>>,
    /// The configuration for ACME validation handshakes; `None` without ACME.
    challenge: Option<Arc<ServerConfig>>,
}

impl Tls {
    /// Loads the certificate files, which must be usable, or starts the ACME client, and starts the thread
    /// that watches the certificate. With ACME, handshakes fail until the first certificate is issued.
    pub fn start(source: &CertificateSource) -> Result<Arc<Self>, TlsStartError> {
        Self::start_with(source, &PROTOCOLS)
    }

    /// Like [`Tls::start`], but for a private handler: offers only HTTP/1.1.
    pub fn start_private(source: &CertificateSource) -> Result<Arc<Self>, TlsStartError> {
        Self::start_with(source, &PRIVATE_PROTOCOLS)
    }

    /// Like [`Tls::start`], but offers these ALPN protocols.
    fn start_with(source: &CertificateSource, protocols: &[&[u8]]) -> Result<Arc<Self>, TlsStartError> {
        let current = Arc::new(CurrentCertificate::default());
        let config = Arc::new(server_config(current.clone(), protocols)?);
        let (files, challenge) = match source {
            CertificateSource::Files(files) => {
                let watched = WatchedFiles::new(files.clone());
                current.replace(watched.read_if_changed().unwrap_or_else(|| files.read())?);
                (Some(Arc::new(watched)), None)
            }
            CertificateSource::Acme(acme) => (None, Some(acme::start(acme, current.clone())?)),
        };
        certificate_reload::spawn_watcher(files.clone(), &current)?;
        Ok(Arc::new(Self { config, current, files, challenge }))
    }

    /// Rereads the certificate files, if any. If they are unusable, keeps the current certificate and logs
    /// the reason once.
    pub fn reload(&self) {
        if let Some(watched) = &self.files {
            watched.reload(&self.current);
        }
    }

    /// The expiry time of the current certificate; `None` until there is one.
    pub fn not_after(&self) -> Option<jiff::Timestamp> {
        self.current.get().map(|certificate| certificate.not_after)
    }
}

/// Performs the handshake with the certificate that `route` selects by the requested server name: the first
/// byte within `first_byte`, the rest within `header` after that. `refusal` composes the response to a
/// plain-text request. Fails with [`CloseReason::FirstByte`] if nothing arrives in time, and otherwise with
/// [`CloseReason::Handshake`].
pub(super) async fn accept<'a>(
    mut stream: TcpStream,
    first_byte: Duration,
    header: Duration,
    route: impl FnOnce(Option<&str>) -> ServerName<'a>,
    refusal: impl FnOnce() -> Response<ResponseBody>,
) -> Result<Accepted, CloseReason> {
    let first = timeout(first_byte, async {
        // Wait before allocating the buffer: connections that have sent nothing need none.
        stream.readable().await?;
        let mut read = BytesMut::with_capacity(FIRST_READ);
        stream.read_buf(&mut read).await.map(|_| read)
    });
    let read = first.await.map_err(|_| CloseReason::FirstByte)?.map_err(|_| CloseReason::Handshake)?;
    let handshake = timeout(header, async {
        // A TLS record never begins with a letter, but a plain-text request does: its method.
        if read.first().is_some_and(u8::is_ascii_alphabetic) {
            refuse_plain_text(refusal(), read, stream).await.map(|()| Accepted::Done)
        } else {
            handshake(read.freeze(), stream, route).await
        }
    });
    handshake.await.map_err(|_| CloseReason::Handshake)?.map_err(|_| CloseReason::Handshake)
}

/// Performs the handshake after `read` was read from the stream. An ACME validation ends with the handshake.
/// If the handshake fails, or no handler serves the requested name, sends the client an alert, and fails.
async fn handshake<'a>(
    read: Bytes,
    stream: TcpStream,
    route: impl FnOnce(Option<&str>) -> ServerName<'a>,
) -> io::Result<Accepted> {
    let mut hello = LazyConfigAcceptor::new(Acceptor::default(), TlsSocket::new(read, stream)).await?;
    let route = route(hello.client_hello().server_name());
    let (tls, is_private) = match route {
        ServerName::Site(tls) => (Some(tls), false),
        ServerName::Private(tls) | ServerName::ValidationsOnly(tls) => (Some(tls), true),
        ServerName::Refused => (None, true),
    };
    if let Some(challenge) = tls.and_then(|tls| tls.challenge.as_ref())
        && acme::is_challenge(&hello.client_hello())
    {
        // The handshake itself is the response to the challenge (RFC 8737 §3).
        hello.into_stream(challenge.clone()).await?.shutdown().await?;
        return Ok(Accepted::Done);
    }
    let (ServerName::Site(tls) | ServerName::Private(tls)) = route else {
        hello.io.write_all(&UNRECOGNIZED_NAME).await?;
        return Err(io::ErrorKind::NotFound.into());
    };
    hello.io.hold_writes(true);
    match hello.into_stream(tls.config.clone()).into_fallible().await {
        Ok(mut stream) => {
            let (socket, session) = stream.get_mut();
            socket.hold_writes(false);
            // A TLS 1.2 client waits for the rest of the handshake before it sends a request. With TLS
            // 1.3, the rest is the session ticket, which needs no system call of its own if it is sent
            // together with the first response.
            if session.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
                stream.flush().await?;
            }
            Ok(if is_private { Accepted::Private(stream) } else { Accepted::Site(stream) })
        }
        Err((error, mut socket)) => {
            // Send the alert that tells the client why the handshake failed.
            let _ = socket.shutdown().await;
            Err(error)
        }
    }
}

/// The configuration for all handshakes except ACME validations. Permits resumption with session tickets, but
/// no early data.
fn server_config(
    certificates: Arc<CurrentCertificate>,
    protocols: &[&[u8]],
) -> Result<ServerConfig, rustls::Error> {
    let mut config = certificate::tls_config(certificates, protocols)?;
    // Stateless session tickets: clients store their sessions, encrypted with keys that rotate every few
    // hours. Early data stays disabled (`max_early_data_size` is 0), because an attacker can replay it.
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // Clients that resume one connection at a time need one ticket; creating a second would waste work.
    config.send_tls13_tickets = 1;
    Ok(config)
}

/// Reads the header of a plain-text HTTP request on a TLS socket, up to [`MAX_PLAIN_REQUEST`] bytes, responds
/// and closes the connection, at the latest [`REFUSAL_LINGER`] after the response. `request` was already read
/// from the stream. Fails if the request cannot be read or the response cannot be sent.
async fn refuse_plain_text(
    response: Response<ResponseBody>,
    mut request: BytesMut,
    mut stream: TcpStream,
) -> io::Result<()> {
    let mut limited = (&mut stream).take(MAX_PLAIN_REQUEST);
    let has_header = |request: &[u8]| request.windows(4).any(|bytes| bytes == b"\r\n\r\n");
    while !has_header(&request) && limited.read_buf(&mut request).await? > 0 {}
    let (head, mut body) = response.into_parts();
    let body = body.next_piece(usize::MAX).transpose()?.unwrap_or_default();
    let mut response =
        format!("HTTP/1.1 {}\r\nconnection: close\r\ncontent-length: {}\r\n", head.status, body.len())
            .into_bytes();
    for (name, value) in &head.headers {
        response.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    response.extend([b"\r\n", &body[..]].concat());
    stream.write_all(&response).await?;
    // Closing a socket with unread data, such as a body, resets it, and the response may be lost. The request
    // is answered, even if the client resets the connection or leaves it open.
    let _ = stream.shutdown().await;
    let mut rest = stream.take(MAX_PLAIN_REQUEST);
    let _ = timeout(REFUSAL_LINGER, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hsts_has_the_configured_directives_only() {
        let check = |hsts: &Hsts, expected: &str| assert_eq!(hsts.value(), expected);
        let year = Duration::from_hours(365 * 24);
        check(&Hsts::new(year, false, false), "max-age=31536000");
        check(&Hsts::new(year, true, false), "max-age=31536000; includeSubDomains");
        check(&Hsts::new(year, true, true), "max-age=31536000; includeSubDomains; preload");
        check(&Hsts::new(Duration::from_millis(1500), false, false), "max-age=1");
    }

    #[tokio::test]
    async fn a_refused_client_may_leave_the_connection_open_or_reset_it() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        for resets in [false, true] {
            let address = listener.local_addr().expect("it is bound");
            let mut client = TcpStream::connect(address).await.expect("it listens");
            let (stream, _) = listener.accept().await.expect("a client");
            let patience = Duration::from_mins(1);
            let refused =
                accept(stream, patience, patience, |_| ServerName::Refused, || Response::new("no".into()));
            let visit = async {
                client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("sent");
                let mut response = Vec::new();
                client.read_to_end(&mut response).await.expect("a response");
                assert!(response.ends_with(b"\r\n\r\nno"), "{response:?}");
                if resets {
                    client.set_zero_linger().expect("it is open");
                    drop(client);
                    None
                } else {
                    Some(client)
                }
            };
            let (refused, _client) = tokio::join!(refused, visit);
            assert!(matches!(refused, Ok(Accepted::Done)), "{resets}");
        }
    }
}
