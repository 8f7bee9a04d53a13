//! One connection to a mail server, from the DNS lookup to the reply to a message.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use lettre::transport::smtp;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Response;
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::error::{NOT_OFFERED, SmtpError, SmtpErrorKind, SmtpPhase};
use super::{SmtpDeadlines, SmtpLogin, SmtpOptions, SmtpTls};
use crate::deliver::mail::MailAddresses;

const MAX_ADDRESSES: usize = 4;

/// The trusted root certificates: `config` for implicit TLS, and `parameters` for STARTTLS, which the SMTP
/// library performs.
#[derive(Clone)]
pub struct TrustedRoots {
    pub config: Arc<tokio_rustls::rustls::ClientConfig>,
    pub parameters: smtp::client::TlsParameters,
}

pub struct SmtpSession {
    connection: AsyncSmtpConnection,
    pub(super) sent: u32,
    pub(super) idle_since: Instant,
}

impl SmtpSession {
    pub async fn open(options: &SmtpOptions, trust: &TrustedRoots) -> Result<SmtpSession, SmtpError> {
        let deadlines = options.deadlines;
        let stream = connect(options).await?;
        let peer =
            stream.peer_addr().map_err(|error| SmtpError::broken(SmtpPhase::Connect, error.to_string()))?;
        // Commands are short, and the client waits for each reply, so Nagle's algorithm would only add delay.
        let _ = stream.set_nodelay(true);

        let has_spoken = Arc::new(AtomicBool::new(false));
        let spoken = has_spoken.clone();
        let stream: Box<dyn AsyncTokioStream> = if options.tls == SmtpTls::Implicit {
            Box::new(LineStream::new(tls_handshake(stream, options, trust).await?, peer, spoken))
        } else {
            Box::new(LineStream::new(stream, peer, spoken))
        };

        let hello = ClientId::Domain(options.addresses.domain().to_owned());
        let greeting = AsyncSmtpConnection::connect_with_transport(stream, &hello);
        let mut connection =
            smtp_reply_within(deadlines.command, SmtpPhase::Greeting, greeting).await.map_err(|error| {
                let phase =
                    if has_spoken.load(Ordering::Relaxed) { SmtpPhase::Ehlo } else { SmtpPhase::Greeting };
                SmtpError { phase, ..error }
            })?;

        if options.tls == SmtpTls::StartTls {
            // Never continue in plain text: an attacker on the path can remove STARTTLS from the reply.
            if !connection.can_starttls() {
                return Err(SmtpError::broken(SmtpPhase::StartTls, NOT_OFFERED));
            }
            let upgrade = connection.starttls(trust.parameters.clone(), &hello);
            smtp_reply_within(deadlines.tls, SmtpPhase::StartTls, upgrade).await?;
        }
        if let Some(SmtpLogin { username, password }) = &options.login {
            let credentials = Credentials::new(username.clone(), password.expose_secret().to_owned());
            let login = connection.auth(&[Mechanism::Plain, Mechanism::Login], &credentials);
            smtp_reply_within(deadlines.command, SmtpPhase::Auth, login).await?;
        }
        Ok(SmtpSession { connection, sent: 0, idle_since: Instant::now() })
    }

    /// Sends one message to all recipients in one transaction, and returns the server's reply. If the server
    /// refuses any recipient, the transaction fails.
    pub async fn transmit(
        &mut self,
        addresses: &MailAddresses,
        message: &[u8],
        deadlines: SmtpDeadlines,
    ) -> Result<String, SmtpError> {
        // Each address is a Mailbox (RFC 5321), so it has no line breaks, and angle brackets only in quotes.
        let limit = deadlines.command;
        let sender = format!("MAIL FROM:<{}>\r\n", addresses.from);
        self.send_command(SmtpPhase::Mail, 200..=299, &sender, limit).await?;
        for recipient in &addresses.to {
            let recipient = format!("RCPT TO:<{recipient}>\r\n");
            self.send_command(SmtpPhase::Rcpt, 200..=299, &recipient, limit).await?;
        }
        self.send_command(SmtpPhase::Data, 354..=354, "DATA\r\n", limit).await?;
        // The library escapes leading dots, and adds a line break before the final dot, so remove the
        // message's own last line break.
        let message = message.strip_suffix(b"\r\n").unwrap_or(message);
        let answer = self.connection.message(message);
        let answer = smtp_reply_within(deadlines.message, SmtpPhase::Message, answer).await?;
        self.sent += 1;
        self.idle_since = Instant::now();
        check_reply(SmtpPhase::Message, 200..=299, &answer)
    }

    /// Sends a command and returns the reply. Fails unless the reply's code is in `expected`.
    async fn send_command(
        &mut self,
        phase: SmtpPhase,
        expected: RangeInclusive<u16>,
        command: &str,
        limit: Duration,
    ) -> Result<String, SmtpError> {
        let answer = smtp_reply_within(limit, phase, self.connection.command(command)).await?;
        check_reply(phase, expected, &answer)
    }

    /// Sends QUIT and closes the connection, ignoring errors.
    pub async fn quit(mut self, deadline: Duration) {
        let _ = timeout(deadline, self.connection.quit()).await;
    }
}

/// Connects to the first reachable address of the host. The addresses share the time limit.
async fn connect(options: &SmtpOptions) -> Result<TcpStream, SmtpError> {
    let limit = options.deadlines.connect;
    let broken = |words: String| SmtpError::broken(SmtpPhase::Connect, words);

    let started = Instant::now();
    let lookup = tokio::net::lookup_host((options.host.as_str(), options.port));
    let found = limit_time(limit, SmtpPhase::Connect, lookup).await?;
    let found = found.map_err(|error| broken(format!("DNS lookup failed: {error}")))?;
    let found: Vec<SocketAddr> = found.take(MAX_ADDRESSES).collect();
    // The configuration was checked at startup, but a name can resolve to other addresses later.
    if options.tls == SmtpTls::None && !found.iter().all(|address| address.ip().to_canonical().is_loopback())
    {
        return Err(broken("without TLS, only connections to this machine are allowed".to_owned()));
    }
    let mut error = broken("the name has no address".to_owned());
    for (tried, address) in found.iter().enumerate() {
        let left = limit.saturating_sub(started.elapsed());
        let share = left / u32::try_from(found.len() - tried).unwrap_or(1);
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(failure)) => error = broken(failure.to_string()),
            Err(_) => error = SmtpError { phase: SmtpPhase::Connect, kind: SmtpErrorKind::Silence(limit) },
        }
    }
    Err(error)
}

async fn tls_handshake(
    stream: TcpStream,
    options: &SmtpOptions,
    trust: &TrustedRoots,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, SmtpError> {
    use tokio_rustls::rustls::pki_types::ServerName;

    let name = ServerName::try_from(options.host.clone())
        .map_err(|_| SmtpError::broken(SmtpPhase::Tls, "no certificate can be valid for this host name"))?;
    let connector = tokio_rustls::TlsConnector::from(Arc::clone(&trust.config));
    let stream = limit_time(options.deadlines.tls, SmtpPhase::Tls, connector.connect(name, stream)).await?;
    stream.map_err(|error| SmtpError::broken(SmtpPhase::Tls, error.to_string()))
}

/// Fails with [`SmtpErrorKind::Silence`] if a step takes longer than `limit`.
async fn limit_time<F: Future>(limit: Duration, phase: SmtpPhase, step: F) -> Result<F::Output, SmtpError> {
    timeout(limit, step).await.map_err(|_| SmtpError { phase, kind: SmtpErrorKind::Silence(limit) })
}

/// Waits up to `limit` for a reply, and converts errors from the SMTP library.
async fn smtp_reply_within<T>(
    limit: Duration,
    phase: SmtpPhase,
    answer: impl Future<Output = Result<T, smtp::Error>>,
) -> Result<T, SmtpError> {
    limit_time(limit, phase, answer).await?.map_err(|error| SmtpError::from_library_error(phase, &error))
}

/// Returns the reply as text. A positive reply with another code, such as 250 to DATA, is a protocol error:
/// client and server are out of step.
fn check_reply(
    phase: SmtpPhase,
    expected: RangeInclusive<u16>,
    answer: &Response,
) -> Result<String, SmtpError> {
    let code = u16::from(answer.code());
    if expected.contains(&code) {
        let lines: Vec<&str> = answer.message().collect();
        Ok(format!("{code} {}", lines.join(" ")))
    } else {
        Err(SmtpError::broken(phase, format!("unexpected reply {code}")))
    }
}

/// Maximum number of octets read between two writes. It is large enough for a certificate chain.
pub const MAX_UNASKED_BYTES: usize = 32 * 1024;

/// Maximum number of lines read between two writes. The library parses the whole reply again after each line.
pub const MAX_UNASKED_LINES: usize = 500;

/// A stream that limits how much a server may send between two writes, and yields at most one line per read.
///
/// The SMTP library reads lines of any length, and keeps bytes that follow a reply. Yielding single lines
/// prevents an attacker on the network path from injecting a reply after the one to STARTTLS, which the
/// library would treat as a reply under TLS. The injected bytes make the handshake fail instead.
pub struct LineStream<S> {
    inner: S,
    peer: SocketAddr,
    /// Bytes read from `inner`. Those from `at` onwards have not been returned yet.
    held: Vec<u8>,
    at: usize,
    bytes_left: usize,
    lines_left: usize,
    has_spoken: Arc<AtomicBool>,
}

impl<S> LineStream<S> {
    /// `has_spoken` is set at the first write, which the client makes after the greeting.
    pub fn new(inner: S, peer: SocketAddr, has_spoken: Arc<AtomicBool>) -> LineStream<S> {
        let (bytes_left, lines_left) = (MAX_UNASKED_BYTES, MAX_UNASKED_LINES);
        LineStream { inner, peer, held: Vec::new(), at: 0, bytes_left, lines_left, has_spoken }
    }
}

fn reply_too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the reply is too long")
}

impl<S: AsyncRead + Unpin> AsyncRead for LineStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if stream.at == stream.held.len() {
            let mut chunk = [0; 4096];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut stream.inner).poll_read(cx, &mut chunk))?;
            let count = chunk.filled().len();
            stream.bytes_left = stream.bytes_left.checked_sub(count).ok_or_else(reply_too_long)?;
            stream.held.clear();
            stream.held.extend_from_slice(chunk.filled());
            stream.at = 0;
        }
        let held = &stream.held[stream.at..];
        let line = held.iter().position(|b| *b == b'\n').map_or(held.len(), |end| end + 1);
        let count = line.min(out.remaining());
        if held[..count].ends_with(b"\n") {
            stream.lines_left = stream.lines_left.checked_sub(1).ok_or_else(reply_too_long)?;
        }
        out.put_slice(&held[..count]);
        stream.at += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LineStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        (stream.bytes_left, stream.lines_left) = (MAX_UNASKED_BYTES, MAX_UNASKED_LINES);
        stream.has_spoken.store(true, Ordering::Relaxed);
        Pin::new(&mut stream.inner).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> AsyncTokioStream for LineStream<S> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl<S> fmt::Debug for LineStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineStream").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn stream(bytes: &[u8]) -> LineStream<&[u8]> {
        LineStream::new(bytes, SocketAddr::from(([127, 0, 0, 1], 25)), Arc::default())
    }

    #[tokio::test]
    async fn each_read_yields_at_most_one_line() {
        let mut stream = stream(b"220 go\r\n250-forged\r\nhalf");
        let mut line = [0; 64];
        let mut lines = Vec::new();
        while let count @ 1.. = stream.read(&mut line).await.expect("the input is short") {
            lines.push(String::from_utf8_lossy(&line[..count]).into_owned());
        }
        assert_eq!(lines, ["220 go\r\n", "250-forged\r\n", "half"]);
    }

    #[tokio::test]
    async fn a_reply_of_unlimited_length_is_refused() {
        for endless in [vec![b'2'; MAX_UNASKED_BYTES + 1], b"250-\r\n".repeat(MAX_UNASKED_LINES + 1)] {
            let mut heard = Vec::new();
            let error = stream(&endless).read_to_end(&mut heard).await.expect_err("the reply is too long");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(heard.len() <= MAX_UNASKED_BYTES && heard.len() < endless.len());
        }
    }
}
