//! TLS 1.2 and 1.3 on the public sockets: whose certificate is shown, how a handshake is held to its deadlines, and HSTS.
//!
//! What is spoken inside is none of this module's business: it offers protocols by ALPN and hands the stream on.

mod acme;
mod examine;
mod files;
mod identity;
mod redirect;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::StatusCode;
use http::header::HeaderValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::server::{Acceptor, ClientHello, NoServerSessionStorage, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::answer::{secure, text};
use super::metrics::Shed;
use super::protocol::Protocol;
use super::socket::Stream;

pub use acme::Acme;
pub use examine::{Finding, examine};
pub use files::Files;
pub use identity::{Defect, Identity, Part};
pub use redirect::Redirect;
pub(super) use redirect::elsewhere;

/// HTTP/2's name in ALPN (RFC 7301).
const H2: &[u8] = b"h2";

/// What is offered by ALPN, the most preferred first.
const PROTOCOLS: [&[u8]; 2] = [H2, b"http/1.1"];

/// What client and server have agreed on; HTTP/1 with whoever did not ask.
pub(super) fn protocol(stream: &TlsStream<Stream>) -> Protocol {
    if stream.get_ref().1.alpn_protocol() == Some(H2) { Protocol::Http2 } else { Protocol::Http1 }
}

/// What a plain request on a TLS socket may say before it is told so, in bytes.
const PLAIN_REQUEST: usize = 16 * 1024;

/// How TLS is spoken. Where the sockets are is said elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where the certificate comes from; none if nothing is served over TLS.
    pub source: Option<Source>,
    /// Where requests in the clear are sent; none if they are answered.
    pub redirect: Option<Redirect>,
    /// What browsers are told to remember.
    pub hsts: Option<Hsts>,
}

/// Where the certificate and its key come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Two files that somebody else renews.
    Files(Files),
    /// A certificate authority that is asked over ACME (RFC 8555).
    Acme(Acme),
}

/// `Strict-Transport-Security` (RFC 6797): that for so long this host is to be reached over TLS only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hsts(HeaderValue);

impl Hsts {
    /// For `max_age`, to the second; for the hosts below this one too, and for the list that browsers are shipped with, if wanted.
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

    /// The header's value as text.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// The header's value.
    pub(super) fn value(&self) -> HeaderValue {
        self.0.clone()
    }
}

/// The TLS side of a running server, shared by all of its threads.
#[derive(Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    current: Arc<Current>,
    renewal: Renewal,
}

/// How a certificate gets replaced.
#[derive(Debug)]
enum Renewal {
    Files(files::Watched),
    /// By a thread that talks to the authority; connections by which that looks whether the name is ours are answered from here.
    Acme {
        challenge: Arc<ServerConfig>,
    },
}

/// The certificate that new connections are shown; none until the first one is there. Connections that are open keep theirs.
#[derive(Debug, Default)]
struct Current(ArcSwapOption<Identity>);

impl ResolvesServerCert for Current {
    /// There is one certificate: a client that asks for another name, or for none, sees it and decides for itself.
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load().as_ref().map(|identity| identity.certified_key())
    }
}

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Defect(#[from] Defect),
    /// The authority's own certificate cannot be used.
    #[error("the certificates in `tls.acme_ca_file` cannot be used: {0}")]
    Roots(String),
    /// The library refuses.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// There is no thread to be had, or no folder for what the authority hands out.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Tls {
    /// Reads the certificate, or begins to ask for one, and goes on looking after it from a thread of its own.
    ///
    /// Files must be usable now. An authority is waited for in the background, and handshakes fail until it has answered.
    pub fn start(source: &Source) -> Result<Arc<Self>, StartError> {
        let current = Arc::new(Current::default());
        let config = Arc::new(server_config(current.clone())?);
        let renewal = match source {
            Source::Files(files) => {
                let watched = files::Watched::new(files.clone());
                current.0.store(Some(Arc::new(watched.first()?)));
                Renewal::Files(watched)
            }
            Source::Acme(acme) => Renewal::Acme { challenge: acme::start(acme, current.clone())? },
        };
        let tls = Arc::new(Self { config, current, renewal });
        files::look_after(&tls)?;
        Ok(tls)
    }

    /// Reads the files again, if that is where the certificate comes from. New connections are shown it at once. If it cannot
    /// be used the old one stays, and the log says why, once for each state of the files.
    pub fn reload(&self) {
        let Renewal::Files(watched) = &self.renewal else { return };
        match watched.refresh() {
            None => {}
            Some(Ok(identity)) => {
                tracing::info!(not_after = %identity.not_after(), "there is a new certificate");
                self.current.0.store(Some(Arc::new(identity)));
            }
            Some(Err(defect)) => {
                tracing::error!(%defect, "the new certificate cannot be used, the old one stays");
            }
        }
    }

    /// When the certificate that is shown at present expires; none before there is one.
    pub fn not_after(&self) -> Option<jiff::Timestamp> {
        self.current.0.load().as_ref().map(|identity| identity.not_after())
    }

    /// Shakes hands: the first byte within `first_byte_timeout`, all the rest within `header_timeout` of it. None where that was
    /// all that was wanted.
    pub(super) async fn accept(
        &self,
        stream: Stream,
        options: &super::Options,
    ) -> Result<Option<TlsStream<Stream>>, Shed> {
        let first = timeout(options.first_byte_timeout, stream.first_byte()).await;
        let first = first.map_err(|_| Shed::FirstByte)?.map_err(|_| Shed::Handshake)?;
        let shaken = timeout(options.header_timeout, async {
            match first {
                // No record of TLS begins with a letter; this is the method of a request.
                Some(byte) if byte.is_ascii_alphabetic() => refuse_plain(stream).await.map(|()| None),
                _ => self.shake_hands(stream).await,
            }
        });
        shaken.await.map_err(|_| Shed::Handshake)?.map_err(|_| Shed::Handshake)
    }

    async fn shake_hands(&self, stream: Stream) -> io::Result<Option<TlsStream<Stream>>> {
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        if let Renewal::Acme { challenge } = &self.renewal
            && acme::is_challenge(&hello.client_hello())
        {
            // The handshake is the whole answer (RFC 8737 §3).
            hello.into_stream(challenge.clone()).await?.shutdown().await?;
            return Ok(None);
        }
        hello.into_stream(self.config.clone()).await.map(Some)
    }
}

/// For connections that are not the authority's.
fn server_config(certificates: Arc<Current>) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = PROTOCOLS.iter().map(|protocol| protocol.to_vec()).collect();
    // The client keeps its session itself, under keys that change every few hours: nothing is stored here, however many come.
    // What is sent with the first flight could be replayed, and stays switched off (`max_early_data_size` is 0).
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // One is enough for whoever comes back over one connection at a time, and a handshake need not encrypt and send another.
    config.send_tls13_tickets = 1;
    Ok(config)
}

/// Who speaks plain HTTP to a TLS socket is told so, in words that a person at a terminal understands.
async fn refuse_plain(mut stream: Stream) -> io::Result<()> {
    // Read first, because closing with something unread would take the answer away again.
    let mut request = Vec::new();
    let mut limited = (&mut stream).take(PLAIN_REQUEST as u64);
    while !request.ends_with(b"\r\n\r\n") && limited.read_buf(&mut request).await? > 0 {}
    let body = "This port speaks HTTPS, and the request came in plain HTTP. Ask again with https://.\n";
    let mut answer =
        format!("HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: {}\r\n", body.len())
            .into_bytes();
    for (name, value) in secure(text(StatusCode::BAD_REQUEST, body)).headers() {
        answer.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    answer.extend([b"\r\n", body.as_bytes()].concat());
    stream.write_all(&answer).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hsts_says_what_is_wanted_and_no_more() {
        let check = |hsts: &Hsts, expected: &str| assert_eq!(hsts.value(), expected);
        let year = Duration::from_hours(365 * 24);
        check(&Hsts::new(year, false, false), "max-age=31536000");
        check(&Hsts::new(year, true, false), "max-age=31536000; includeSubDomains");
        check(&Hsts::new(year, true, true), "max-age=31536000; includeSubDomains; preload");
        check(&Hsts::new(Duration::from_millis(1500), false, false), "max-age=1");
    }
}
