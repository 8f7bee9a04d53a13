//! One connection to a mail server, from the look-up of its name to the answer to a message.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lettre::transport::smtp;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Response;
use secrecy::ExposeSecret as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::trouble::{Phase, Trouble, What};
use super::wire::Wire;
use super::{Deadlines, Login, Options, Tls};
use crate::deliver::mail::Addresses;

/// The most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;

/// The certificates that a server's own may be signed by, for both ways to TLS.
#[derive(Clone)]
pub struct Trust {
    /// For TLS from the start.
    pub config: Arc<tokio_rustls::rustls::ClientConfig>,
    /// For STARTTLS, which the library does itself.
    pub parameters: smtp::client::TlsParameters,
}

/// A connection on which messages can be sent, one after the other.
pub struct Session {
    connection: AsyncSmtpConnection,
    sent: u32,
    idle_since: Instant,
}

impl Session {
    /// Connects, and goes as far as the login.
    pub async fn open(options: &Options, trust: &Trust, hello: &str) -> Result<Session, Trouble> {
        let deadlines = options.deadlines;
        let stream = connect(options).await?;
        let peer = stream.peer_addr().map_err(|error| Trouble::broken(Phase::Connect, error.to_string()))?;
        // Commands are short and each waits for its answer.
        let _ = stream.set_nodelay(true);

        let has_spoken = Arc::new(AtomicBool::new(false));
        let stream: Box<dyn AsyncTokioStream> = if options.tls == Tls::Implicit {
            let stream = handshake(stream, options, trust).await?;
            Box::new(Wire::new(stream, peer, Arc::clone(&has_spoken)))
        } else {
            Box::new(Wire::new(stream, peer, Arc::clone(&has_spoken)))
        };

        let hello = ClientId::Domain(hello.to_owned());
        let greeting = AsyncSmtpConnection::connect_with_transport(stream, &hello);
        let mut connection =
            within(deadlines.command, Phase::Greeting, greeting).await.map_err(|trouble| {
                let phase = if has_spoken.load(Ordering::Relaxed) { Phase::Ehlo } else { Phase::Greeting };
                Trouble { phase, ..trouble }
            })?;

        if options.tls == Tls::StartTls {
            // What is not offered is not done without: somebody in between may have struck it out.
            if !connection.can_starttls() {
                return Err(Trouble::broken(Phase::StartTls, "the server does not offer it"));
            }
            let upgrade = connection.starttls(trust.parameters.clone(), &hello);
            within(deadlines.tls, Phase::StartTls, upgrade).await?;
        }
        if let Some(Login { username, password }) = &options.login {
            let credentials = Credentials::new(username.clone(), password.expose_secret().to_owned());
            let login = connection.auth(&[Mechanism::Plain, Mechanism::Login], &credentials);
            within(deadlines.command, Phase::Auth, login).await?;
        }
        Ok(Session { connection, sent: 0, idle_since: Instant::now() })
    }

    /// Hands one message over. `Ok` is the server's word that it has it, and what it said. All recipients are in one transaction:
    /// it fails if one of them is refused.
    pub async fn transmit(
        &mut self,
        addresses: &Addresses,
        message: &[u8],
        deadlines: Deadlines,
    ) -> Result<String, Trouble> {
        // The addresses are Mailboxes: neither a line break nor an angle bracket outside of quotes is in them.
        self.command(Phase::Mail, 200..=299, &format!("MAIL FROM:<{}>\r\n", addresses.from()), deadlines)
            .await?;
        for recipient in addresses.to() {
            self.command(Phase::Rcpt, 200..=299, &format!("RCPT TO:<{recipient}>\r\n"), deadlines).await?;
        }
        self.command(Phase::Data, 354..=354, "DATA\r\n", deadlines).await?;
        // The library doubles leading dots, and writes a line end of its own before the final dot.
        let message = message.strip_suffix(b"\r\n").unwrap_or(message);
        let answer = self.connection.message(message);
        let answer = within(deadlines.message, Phase::Message, answer).await?;
        self.sent += 1;
        self.idle_since = Instant::now();
        expect(Phase::Message, 200..=299, &answer)
    }

    async fn command(
        &mut self,
        phase: Phase,
        expected: std::ops::RangeInclusive<u16>,
        command: &str,
        deadlines: Deadlines,
    ) -> Result<String, Trouble> {
        let answer = within(deadlines.command, phase, self.connection.command(command)).await?;
        expect(phase, expected, &answer)
    }

    /// How many messages it has carried.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// How long ago it carried the last one.
    pub fn idle_for(&self) -> Duration {
        self.idle_since.elapsed()
    }

    /// Says good-bye. What the server says to that is of no consequence.
    pub async fn quit(mut self, deadline: Duration) {
        let _ = timeout(deadline, self.connection.quit()).await;
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("sent", &self.sent).finish_non_exhaustive()
    }
}

/// Tries the addresses of the host in turn, each with its share of the time.
async fn connect(options: &Options) -> Result<TcpStream, Trouble> {
    let limit = options.deadlines.connect;
    let silence = || Trouble { phase: Phase::Connect, what: What::Silence(limit) };
    let broken = |words: String| Trouble::broken(Phase::Connect, words);

    let started = Instant::now();
    let lookup = tokio::net::lookup_host((options.host.as_str(), options.port));
    let found: Vec<SocketAddr> = timeout(limit, lookup)
        .await
        .map_err(|_| silence())?
        .map_err(|error| broken(format!("the name cannot be looked up: {error}")))?
        .take(MAX_ADDRESSES)
        .collect();
    // The configuration has been checked for it; names can change what they lead to.
    if options.tls == Tls::None && !found.iter().all(|address| address.ip().to_canonical().is_loopback()) {
        return Err(broken("without TLS, only this machine itself may be spoken to".to_owned()));
    }
    let mut trouble = broken("the name leads to no address".to_owned());
    for (tried, address) in found.iter().enumerate() {
        let left = limit.saturating_sub(started.elapsed());
        let share = left / u32::try_from(found.len() - tried).unwrap_or(1);
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => trouble = broken(error.to_string()),
            Err(_) => trouble = silence(),
        }
    }
    Err(trouble)
}

async fn handshake(
    stream: TcpStream,
    options: &Options,
    trust: &Trust,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Trouble> {
    use tokio_rustls::rustls::pki_types::ServerName;

    let name = ServerName::try_from(options.host.clone())
        .map_err(|_| Trouble::broken(Phase::Tls, "the host's name cannot stand in a certificate"))?;
    let connector = tokio_rustls::TlsConnector::from(Arc::clone(&trust.config));
    let limit = options.deadlines.tls;
    match timeout(limit, connector.connect(name, stream)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(Trouble::broken(Phase::Tls, error.to_string())),
        Err(_) => Err(Trouble { phase: Phase::Tls, what: What::Silence(limit) }),
    }
}

async fn within<T>(
    limit: Duration,
    phase: Phase,
    answer: impl Future<Output = Result<T, smtp::Error>>,
) -> Result<T, Trouble> {
    match timeout(limit, answer).await {
        Ok(answer) => answer.map_err(|error| Trouble::of(phase, &error)),
        Err(_) => Err(Trouble { phase, what: What::Silence(limit) }),
    }
}

/// A positive answer that is not the one to this question, a 250 to DATA say, means that the two sides are out of step.
fn expect(
    phase: Phase,
    expected: std::ops::RangeInclusive<u16>,
    answer: &Response,
) -> Result<String, Trouble> {
    let code = u16::from(answer.code());
    if expected.contains(&code) {
        let lines: Vec<&str> = answer.message().collect();
        Ok(format!("{code} {}", lines.join(" ")))
    } else {
        Err(Trouble::broken(phase, format!("{code} is no answer to this")))
    }
}
