//! One connection to a mail server, from the DNS lookup to the reply to a message.

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;

use super::error::{NO_LOGIN, NOT_OFFERED, RefusedRecipient, SmtpError, SmtpErrorKind, SmtpPhase};
use super::reply::{MAX_REPLY_BYTES, ReplyReader, SmtpReply};
use super::{SmtpDeadlines, SmtpLogin, SmtpOptions, SmtpTls};
use crate::uncertain_delivery;
use frontdesk_fetch::addresses_to_try;

/// Maximum number of octets of a message that are sent within the time limit of a command.
const CHUNK: usize = 16 * 1024;

/// Maximum number of octets of a command, without CR LF (RFC 5321 §4.5.3.1.4).
const MAX_COMMAND_BYTES: usize = 510;

/// Minimum length, in characters, of a part of a token that is removed from the error of a login. A shorter
/// one may be a word of the reply.
const MIN_TOKEN_CHARS: usize = 12;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub struct SmtpSession {
    dialogue: Dialogue<Box<dyn Stream>>,
    pub(super) sent: u32,
    pub(super) idle_since: Instant,
}

/// A message that the server accepted for at least one recipient.
#[derive(Debug)]
pub struct Transmission {
    /// The reply to the message.
    pub answer: String,
    /// The recipients that the server did not accept, and why.
    pub refused: Vec<RefusedRecipient>,
    /// Whether the connection can be used for another message.
    pub is_reusable: bool,
}

impl SmtpSession {
    /// Connects, and starts TLS and logs in if `options` say so. Commands end before `ends`; connecting and
    /// the TLS handshake have only their own limits.
    pub async fn open(
        options: &SmtpOptions,
        trust: &Arc<ClientConfig>,
        ends: Instant,
    ) -> Result<SmtpSession, SmtpError> {
        let stream = connect(options).await?;
        // Commands are short, and the client waits for each reply, so Nagle's algorithm would only add delay.
        let _ = stream.set_nodelay(true);
        let literal = stream.local_addr().ok().map(|address| address_literal(address.ip()));
        let literal = literal.as_deref();
        let mut dialogue: Dialogue<Box<dyn Stream>>;
        let capabilities;
        if options.tls == SmtpTls::Implicit {
            dialogue =
                Dialogue::new(Box::new(tls_handshake(SmtpPhase::Tls, stream, options, trust).await?), ends);
            dialogue.greeting(options).await?;
            capabilities = dialogue.hello(SmtpPhase::Ehlo, options, literal).await?;
        } else {
            let mut plain = Dialogue::new(stream, ends);
            plain.greeting(options).await?;
            let offered = plain.hello(SmtpPhase::Ehlo, options, literal).await?;
            if options.tls == SmtpTls::None {
                dialogue = Dialogue { stream: Box::new(plain.stream), input: plain.input, ends };
                capabilities = offered;
            } else {
                dialogue = plain.start_tls(&offered, options, trust).await?;
                capabilities = dialogue.hello(SmtpPhase::StartTls, options, literal).await?;
            }
        }
        if let Some(login) = &options.login {
            let result = dialogue.login(login, &capabilities, options.deadlines).await;
            result.map_err(|error| without_login(error, login))?;
        }
        Ok(SmtpSession { dialogue, sent: 0, idle_since: Instant::now() })
    }

    /// Sends one message to all recipients that the server accepts, in one transaction. Omits those in
    /// `refused`, and adds those that the server refuses; on success, or if all are refused, moves them to
    /// the result. Fails if the server accepts no recipient, ends the session (421), or refuses the sender or
    /// the message. All steps before the final dot end before `ends`. On a reused connection, the first
    /// command has the limit `deadlines.reused`.
    pub async fn transmit(
        &mut self,
        from: &str,
        to: &[&str],
        refused: &mut Vec<RefusedRecipient>,
        message: &[u8],
        deadlines: SmtpDeadlines,
        ends: Instant,
    ) -> Result<Transmission, SmtpError> {
        let dialogue = &mut self.dialogue;
        dialogue.ends = ends;
        // A server or a firewall may have dropped an idle connection without a sign. The transaction is then
        // repeated over a new connection, so a shorter limit costs nothing.
        let first = if self.sent > 0 { deadlines.reused } else { deadlines.command };
        // Each address is a Mailbox (RFC 5321), so it has no line breaks, and angle brackets only in quotes.
        let reply = dialogue.command(SmtpPhase::Mail, &format!("MAIL FROM:<{from}>"), first).await?;
        expect_positive(SmtpPhase::Mail, &reply)?;
        dialogue.recipients(to, refused, deadlines.command).await?;
        if refused.len() == to.len() {
            return Err(SmtpError::refused_recipients(std::mem::take(refused)));
        }
        let reply = dialogue.command(SmtpPhase::Data, "DATA", deadlines.command).await?;
        if reply.code != 354 {
            return Err(unexpected(SmtpPhase::Data, &reply));
        }
        let (reply, is_reusable) = dialogue.message(message, deadlines).await?;
        self.sent += 1;
        self.idle_since = Instant::now();
        if reply.is_positive() {
            let answer = format!("{} {}", reply.code, reply.text());
            return Ok(Transmission { answer, refused: std::mem::take(refused), is_reusable });
        }
        match unexpected(SmtpPhase::Message, &reply) {
            // The rest of the reply is missing, so the connection cannot be used for another message.
            error if !is_reusable => Err(SmtpError { is_cut_off: true, ..error }),
            error => Err(error),
        }
    }

    /// Sends QUIT, waits up to `deadline` for the reply, and closes the connection. Ignores errors.
    pub async fn quit(mut self, deadline: Duration) {
        self.dialogue.ends = Instant::now() + deadline;
        let _ = self.dialogue.command(SmtpPhase::Mail, "QUIT", deadline).await;
    }
}

/// The extensions from a server's reply to EHLO that this client can use.
#[derive(Debug, Default)]
struct Capabilities {
    starttls: bool,
    /// The mechanisms for logins that the server offers, in capital letters.
    auth: Vec<String>,
}

impl Capabilities {
    /// Reads STARTTLS and AUTH after the first line, which greets the client, and ignores other extensions.
    /// Keywords may have any case (RFC 5321 §4.1.1.1). `AUTH=LOGIN` is the notation of old versions of
    /// Exchange.
    fn parse(reply: &SmtpReply) -> Capabilities {
        let mut found = Capabilities::default();
        for line in reply.lines.iter().skip(1) {
            let line = line.to_ascii_uppercase();
            let mut words = line.split([' ', '\t', '=']).filter(|word| !word.is_empty());
            match words.next() {
                Some("STARTTLS") => found.starttls = true,
                Some("AUTH") => found.auth.extend(words.map(str::to_owned)),
                _ => {}
            }
        }
        found
    }

    fn has_mechanism(&self, name: &str) -> bool {
        self.auth.iter().any(|mechanism| mechanism == name)
    }
}

/// Commands and their replies over a stream.
struct Dialogue<S> {
    stream: S,
    /// Octets that were received and not yet read.
    input: Vec<u8>,
    /// The time at which the whole attempt ends, except that the reply to the final dot has its own limit.
    ends: Instant,
}

impl<S: Stream> Dialogue<S> {
    fn new(stream: S, ends: Instant) -> Dialogue<S> {
        Dialogue { stream, input: Vec::new(), ends }
    }

    async fn greeting(&mut self, options: &SmtpOptions) -> Result<(), SmtpError> {
        let deadlines = options.deadlines;
        let reply = self.reply(SmtpPhase::Greeting, deadlines.command).await?;
        expect_positive(SmtpPhase::Greeting, &reply)
    }

    /// Sends EHLO. If the server refuses the name, repeats it with `literal`, the address of this end of the
    /// connection: a server that hosts the sender's domain may refuse this domain as the name of another
    /// machine. If the server does not know EHLO and neither TLS nor a login is needed, sends HELO (RFC 5321
    /// §3.2).
    async fn hello(
        &mut self,
        phase: SmtpPhase,
        options: &SmtpOptions,
        literal: Option<&str>,
    ) -> Result<Capabilities, SmtpError> {
        let (name, limit) = (options.hello_name(), options.deadlines.command);
        let reply = self.command(phase, &format!("EHLO {name}"), limit).await?;
        if let Some(literal) = literal.filter(|_| matches!(reply.code, 501 | 504 | 550..=599)) {
            let second = self.command(phase, &format!("EHLO {literal}"), limit).await;
            // If the server refuses both names, return its first reply, which is about the configured name.
            if let Some(second) = second.ok().filter(SmtpReply::is_positive) {
                return Ok(Capabilities::parse(&second));
            }
        }
        let is_unknown = matches!(reply.code, 500..=504 | 550 | 554);
        if is_unknown && options.tls == SmtpTls::None && options.login.is_none() {
            let helo = self.command(phase, &format!("HELO {name}"), limit).await;
            // If the server refuses HELO too, return its reply to EHLO, which says more.
            if helo.is_ok_and(|helo| helo.is_positive()) {
                return Ok(Capabilities::default());
            }
        }
        expect_positive(phase, &reply)?;
        Ok(Capabilities::parse(&reply))
    }

    /// Logs in with PLAIN or LOGIN, whichever the server offers, and fails if it offers neither. If it offers
    /// both and refuses PLAIN with a 5xx code, tries LOGIN as well.
    async fn login(
        &mut self,
        login: &SmtpLogin,
        capabilities: &Capabilities,
        deadlines: SmtpDeadlines,
    ) -> Result<(), SmtpError> {
        let (has_plain, has_login) =
            (capabilities.has_mechanism("PLAIN"), capabilities.has_mechanism("LOGIN"));
        let reply = match (has_plain, has_login) {
            (true, false) => self.login_plain(login, deadlines.command).await?,
            (false, true) => self.login_with_prompts(login, deadlines.command).await?,
            (true, true) => {
                let reply = self.login_plain(login, deadlines.command).await?;
                // Some servers, such as those of QQ and Naver, offer PLAIN and refuse it. The reply says no
                // more than for a wrong password.
                if reply.code < 500 {
                    reply
                } else {
                    let second = self.login_with_prompts(login, deadlines.command).await;
                    // After a wrong password, a server may refuse the second attempt for another reason, such
                    // as too many errors, or close the connection. The first reply then says what is wrong.
                    let is_about_login = |reply: &SmtpReply| matches!(reply.code, 200..300 | 534 | 535);
                    second.ok().filter(is_about_login).unwrap_or(reply)
                }
            }
            (false, false) if capabilities.auth.is_empty() => {
                return Err(SmtpError::broken(SmtpPhase::Auth, NO_LOGIN));
            }
            (false, false) => {
                let offered = capabilities.auth.join(" ");
                return Err(SmtpError::broken(SmtpPhase::Auth, format!("{NO_LOGIN}, but {offered}")));
            }
        };
        expect_positive(SmtpPhase::Auth, &reply)
    }

    /// Logs in with AUTH PLAIN (RFC 4616), and returns the last reply.
    async fn login_plain(&mut self, login: &SmtpLogin, limit: Duration) -> Result<SmtpReply, SmtpError> {
        let token = plain_token(login);
        let command = format!("AUTH PLAIN {token}");
        // A longer token must follow in a line of its own (RFC 4954 §4), which has a higher limit.
        let command = if command.len() > MAX_COMMAND_BYTES { "AUTH PLAIN" } else { &command };
        let reply = self.command(SmtpPhase::Auth, command, limit).await?;
        // A server that got no token, or ignored the token in the command, requests it with a 334 reply.
        if reply.code == 334 { self.command(SmtpPhase::Auth, &token, limit).await } else { Ok(reply) }
    }

    /// Logs in with AUTH LOGIN (draft-murchison-sasl-login), and returns the last reply: other codes than 334
    /// end the exchange early. Ignores the text of the prompts, which differs between servers.
    async fn login_with_prompts(
        &mut self,
        login: &SmtpLogin,
        limit: Duration,
    ) -> Result<SmtpReply, SmtpError> {
        let mut reply = self.command(SmtpPhase::Auth, "AUTH LOGIN", limit).await?;
        for answer in [login.username.as_str(), login.password.expose_secret()] {
            if reply.code != 334 {
                break;
            }
            reply = self.command(SmtpPhase::Auth, &STANDARD.encode(answer), limit).await?;
        }
        Ok(reply)
    }

    /// Sends the recipients that are not in `refused`, and adds each one that the server refuses. If the
    /// session ends, the error names all in `refused`: some servers close the connection after they have
    /// refused a recipient. If the server has refused none in this session, the recipient at which it ended
    /// is added first.
    async fn recipients(
        &mut self,
        to: &[&str],
        refused: &mut Vec<RefusedRecipient>,
        limit: Duration,
    ) -> Result<(), SmtpError> {
        let omitted = refused.len();
        for address in to {
            if refused.iter().any(|recipient| recipient.address == *address) {
                continue;
            }
            let reply = self.command(SmtpPhase::Rcpt, &format!("RCPT TO:<{address}>"), limit).await;
            let Err(error) = reply.and_then(|reply| expect_positive(SmtpPhase::Rcpt, &reply)) else {
                continue;
            };
            let is_end = error.breaks_connection();
            if !is_end || refused.len() == omitted {
                refused.push(RefusedRecipient::new(address, &error));
            }
            if is_end {
                let recipients = refused.iter().map(|recipient| recipient.address.clone()).collect();
                return Err(SmtpError { recipients, ..error });
            }
        }
        Ok(())
    }

    /// Sends a command (`line` has no line end) and returns the reply. If a 421 reply has already arrived,
    /// returns that reply and does not send the command. If the command cannot be written, returns the
    /// negative reply that the server sent before, if any.
    async fn command(
        &mut self,
        phase: SmtpPhase,
        line: &str,
        limit: Duration,
    ) -> Result<SmtpReply, SmtpError> {
        if let Some(reply) = self.discard_input().await {
            return Ok(reply);
        }
        let written = self.write(phase, format!("{line}\r\n").as_bytes(), limit).await;
        match written {
            Ok(()) => self.reply(phase, limit).await,
            // The server may have sent a reply that says why it closes the connection.
            Err(error) => self.closing_reply(phase).await.ok_or(error),
        }
    }

    /// Discards what has arrived before a command, and cannot be the reply to it: some servers send two
    /// replies to one command. Returns a 421, with which a server may end the session at any time.
    async fn discard_input(&mut self) -> Option<SmtpReply> {
        while self.input.len() < MAX_REPLY_BYTES {
            let mut read = pin!(self.stream.read_buf(&mut self.input));
            // Read once without waiting: only input that has already arrived is discarded.
            match poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await {
                Poll::Ready(Ok(1..)) => {}
                _ => break,
            }
        }
        let mut input = std::mem::take(&mut self.input);
        while let Ok(Some(reply)) = ReplyReader::default().read(&mut input) {
            if reply.code == 421 {
                return Some(reply);
            }
        }
        None
    }

    /// Writes `bytes` within `limit`, and before the time limit of the whole attempt.
    async fn write(&mut self, phase: SmtpPhase, bytes: &[u8], limit: Duration) -> Result<(), SmtpError> {
        let limit = limit.min(self.ends.saturating_duration_since(Instant::now()));
        let writing = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        match timeout(limit, writing).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(SmtpError::broken(phase, error.to_string())),
            Err(_) => Err(SmtpError::silence(phase, limit)),
        }
    }

    /// The negative reply that a server sent before it closed the connection, if any. Waits up to
    /// [`REST_OF_REPLY`].
    async fn closing_reply(&mut self, phase: SmtpPhase) -> Option<SmtpReply> {
        let reply = self.reply(phase, REST_OF_REPLY).await.ok()?;
        (reply.code >= 400).then_some(reply)
    }

    async fn reply(&mut self, phase: SmtpPhase, limit: Duration) -> Result<SmtpReply, SmtpError> {
        self.read_reply(&mut ReplyReader::default(), phase, limit).await
    }

    /// Reads one reply within `limit`, and before the attempt ends. Waits only [`REST_OF_REPLY`] longer once
    /// the code of the reply to a message is known, or a line has no code. `reader` keeps what was read of a
    /// reply that is not complete.
    async fn read_reply(
        &mut self,
        reader: &mut ReplyReader,
        phase: SmtpPhase,
        limit: Duration,
    ) -> Result<SmtpReply, SmtpError> {
        let limit = limit.min(self.ends.saturating_duration_since(Instant::now()));
        let mut ends = Instant::now() + limit;
        let mut is_shortened = false;
        loop {
            match reader.read(&mut self.input) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(error) => return Err(SmtpError::broken(phase, error.to_string())),
            }
            // The first code decides about a message. A server that sends lines without a code may not speak
            // SMTP, so do not wait for minutes.
            let is_decided = phase == SmtpPhase::Message && reader.cut_off().is_some();
            if !is_shortened && (is_decided || reader.has_skipped()) {
                is_shortened = true;
                ends = ends.min(Instant::now() + REST_OF_REPLY);
            }
            match timeout_at(ends, self.stream.read_buf(&mut self.input)).await {
                Ok(Ok(0)) => return Err(SmtpError::broken(phase, "the connection was closed")),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(SmtpError::broken(phase, error.to_string())),
                Err(_) if reader.has_skipped() => {
                    return Err(SmtpError::broken(phase, "the reply is not valid SMTP"));
                }
                Err(_) => return Err(SmtpError::silence(phase, limit)),
            }
        }
    }

    /// Sends the message and the final dot, and marks the possible receipt before the dot. Returns the reply,
    /// and whether it is complete: a reply that is cut off counts if its code can be read. If the content
    /// cannot be sent, returns the refusal with which the server closed the connection, if there is one, as
    /// the error.
    async fn message(
        &mut self,
        message: &[u8],
        deadlines: SmtpDeadlines,
    ) -> Result<(SmtpReply, bool), SmtpError> {
        let phase = SmtpPhase::Content;
        if let Some(reply) = self.discard_input().await {
            return Err(unexpected(phase, &reply));
        }
        for chunk in escape_dots(message).chunks(CHUNK) {
            if let Err(error) = self.write(phase, chunk, deadlines.command).await {
                return match self.closing_reply(phase).await {
                    Some(reply) => {
                        Err(SmtpError { is_cut_off: true, ..unexpected(SmtpPhase::Message, &reply) })
                    }
                    None => Err(error),
                };
            }
        }
        // From here on, the server may have the whole message.
        uncertain_delivery::mark();
        let phase = SmtpPhase::Message;
        self.ends = Instant::now() + deadlines.message;
        let mut reader = ReplyReader::default();
        // Even if writing the dot fails, the server may have sent a reply, so read the reply in both cases.
        let written = self.write(phase, b".\r\n", deadlines.message).await;
        let limit = if written.is_ok() { deadlines.message } else { REST_OF_REPLY };
        match self.read_reply(&mut reader, phase, limit).await {
            Ok(reply) => Ok((reply, true)),
            Err(error) => match reader.cut_off() {
                Some(reply) => Ok((reply, false)),
                None => Err(written.err().unwrap_or(error)),
            },
        }
    }
}

impl Dialogue<TcpStream> {
    /// Starts TLS on a plain connection. Fails if the server does not offer STARTTLS, which an attacker on
    /// the path can remove from the reply to EHLO: never continues in plain text.
    async fn start_tls(
        mut self,
        offered: &Capabilities,
        options: &SmtpOptions,
        trust: &Arc<ClientConfig>,
    ) -> Result<Dialogue<Box<dyn Stream>>, SmtpError> {
        let phase = SmtpPhase::StartTls;
        if !offered.starttls {
            return Err(SmtpError::broken(phase, NOT_OFFERED));
        }
        let reply = self.command(phase, "STARTTLS", options.deadlines.command).await?;
        expect_positive(phase, &reply)?;
        // Refuse more data: an attacker on the path can add a reply, which must not count as one under TLS
        // (CVE-2011-0411).
        if !self.input.is_empty() {
            return Err(SmtpError::broken(
                phase,
                "data without encryption followed the reply to the command",
            ));
        }
        let stream = tls_handshake(phase, self.stream, options, trust).await?;
        Ok(Dialogue::new(Box::new(stream), self.ends))
    }
}

/// The address literal of an IP address (RFC 5321 §4.1.3).
fn address_literal(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => format!("[{address}]"),
        IpAddr::V6(address) => format!("[IPv6:{address}]"),
    }
}

/// How long to wait for the rest of a reply once its code is known or a line without a code has arrived, and
/// for a reply after the connection has failed.
const REST_OF_REPLY: Duration = Duration::from_secs(5);

/// Doubles the dot at the beginning of each line, and ends the last line (RFC 5321 §4.5.2).
fn escape_dots(message: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(message.len() + message.len() / 64 + 2);
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            escaped.push(b'.');
        }
        escaped.extend_from_slice(line);
    }
    if !escaped.ends_with(b"\r\n") {
        escaped.extend_from_slice(b"\r\n");
    }
    escaped
}

fn expect_positive(phase: SmtpPhase, reply: &SmtpReply) -> Result<(), SmtpError> {
    if reply.is_positive() { Ok(()) } else { Err(unexpected(phase, reply)) }
}

/// The name and the password as AUTH PLAIN sends them (RFC 4616).
fn plain_token(login: &SmtpLogin) -> String {
    STANDARD.encode(format!("\0{}\0{}", login.username, login.password.expose_secret()))
}

/// Removes the password from the error of a login: Sendmail and other servers quote a line that they do not
/// expect, or a part of it. Replaces each part of a token with [`MIN_TOKEN_CHARS`] characters or more.
fn without_login(error: SmtpError, login: &SmtpLogin) -> SmtpError {
    let tokens = [plain_token(login), STANDARD.encode(login.password.expose_secret())];
    let is_separator = |c: char| !c.is_ascii_alphanumeric() && c != '+' && c != '/';
    let redact_part = |text: &str| {
        let part = text.trim_end_matches(is_separator);
        let is_of_token = tokens.iter().any(|token| token.contains(part));
        if part.len() >= MIN_TOKEN_CHARS && is_of_token { text.replace(part, "…") } else { text.to_owned() }
    };
    let redact = |text: String| -> String {
        let text = tokens.iter().fold(text, |text, token| text.replace(token, "…"));
        text.split_inclusive(is_separator).map(redact_part).collect()
    };
    let kind = match error.kind {
        SmtpErrorKind::Refusal(code, text) => SmtpErrorKind::Refusal(code, redact(text)),
        SmtpErrorKind::Broken(text) => SmtpErrorKind::Broken(redact(text)),
        silence @ SmtpErrorKind::Silence(_) => silence,
    };
    SmtpError { kind, ..error }
}

/// The error for a reply with another code than expected. A positive one, such as 250 to DATA, is a protocol
/// error: client and server are out of step.
fn unexpected(phase: SmtpPhase, reply: &SmtpReply) -> SmtpError {
    if reply.code >= 400 {
        SmtpError::new(phase, SmtpErrorKind::Refusal(reply.code, reply.text()))
    } else {
        SmtpError::broken(phase, format!("unexpected reply {}", reply.code))
    }
}

/// Connects to the first reachable address of the host. Tries at most two addresses of each family, which
/// share the time limit. Without TLS, fails if any of them is not a loopback address.
async fn connect(options: &SmtpOptions) -> Result<TcpStream, SmtpError> {
    let limit = options.deadlines.connect;
    let broken = |words: String| SmtpError::broken(SmtpPhase::Connect, words);

    let started = Instant::now();
    let lookup = tokio::net::lookup_host((options.host.as_str(), options.port));
    let silence = |_| SmtpError::silence(SmtpPhase::Connect, limit);
    let found = timeout(limit, lookup).await.map_err(silence)?;
    let found = found.map_err(|error| broken(format!("DNS lookup failed: {error}")))?;
    let found: Vec<SocketAddr> = found.collect();
    let found = addresses_to_try(&found, SocketAddr::ip);
    // The configuration was checked at startup, but the name may now resolve to other addresses.
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
            Err(elapsed) => error = silence(elapsed),
        }
    }
    Err(error)
}

/// Starts TLS, and verifies the server's certificate for the configured host.
async fn tls_handshake(
    phase: SmtpPhase,
    stream: TcpStream,
    options: &SmtpOptions,
    trust: &Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, SmtpError> {
    use tokio_rustls::rustls::pki_types::ServerName;

    let name = ServerName::try_from(options.host.clone())
        .map_err(|_| SmtpError::broken(phase, "no certificate can be valid for this host name"))?;
    let connector = tokio_rustls::TlsConnector::from(Arc::clone(trust));
    let limit = options.deadlines.tls;
    let stream = timeout(limit, connector.connect(name, stream)).await;
    let stream = stream.map_err(|_| SmtpError::silence(phase, limit))?;
    stream.map_err(|error| SmtpError::broken(phase, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reply_that_arrives_before_its_command_is_discarded() {
        let (client, mut server) = tokio::io::duplex(1024);
        let limit = Duration::from_mins(1);
        let mut dialogue = Dialogue::new(client, Instant::now() + limit);
        server.write_all(b"250 again\r\n250 part").await.expect("written");
        let answer = async {
            let mut command = [0; "NOOP\r\n".len()];
            server.read_exact(&mut command).await.expect("a command");
            server.write_all(b"550 no\r\n").await.expect("written");
        };
        let (reply, ()) = tokio::join!(dialogue.command(SmtpPhase::Mail, "NOOP", limit), answer);
        assert_eq!(reply.expect("a reply").code, 550);
        // A 421 says why the server ends an idle session.
        server.write_all(b"250 again\r\n421 idle\r\n").await.expect("written");
        drop(server);
        let reply = dialogue.command(SmtpPhase::Mail, "NOOP", limit).await.expect("a reply");
        assert_eq!((reply.code, reply.text().as_str()), (421, "idle"));
    }

    #[test]
    fn address_literals_have_the_form_of_their_family() {
        for (address, expected) in [
            ("192.0.2.1", "[192.0.2.1]"),
            ("::ffff:192.0.2.1", "[192.0.2.1]"),
            ("2001:db8::1", "[IPv6:2001:db8::1]"),
        ] {
            assert_eq!(address_literal(address.parse().expect("an address")), expected);
        }
    }

    #[test]
    fn keywords_of_extensions_have_any_case_and_notation() {
        for (lines, starttls, auth) in [
            (&["peer", "STARTTLS", "AUTH PLAIN LOGIN"][..], true, &["PLAIN", "LOGIN"][..]),
            (&["peer", "starttls", "auth plain login"], true, &["PLAIN", "LOGIN"]),
            (&["peer", "AUTH=LOGIN", "AUTH  PLAIN\tCRAM-MD5"], false, &["LOGIN", "PLAIN", "CRAM-MD5"]),
            (&["STARTTLS", "SIZE 1"], false, &[]),
            (&["peer", "AUTH", "X-STARTTLS"], false, &[]),
        ] {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            let found = Capabilities::parse(&SmtpReply { code: 250, lines });
            assert_eq!(
                (found.starttls, found.auth),
                (starttls, auth.iter().map(|m| (*m).to_owned()).collect())
            );
        }
    }
}
