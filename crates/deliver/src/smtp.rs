//! The SMTP channel: sends each notification to a mail server (RFC 5321).
//!
//! A message counts as delivered when the server replies to the final dot with a 2xx code. If the server
//! refuses some recipients, the others get the message. Idle connections are kept for a while and reused.
//! Certificates are always verified, and if TLS is configured, no message is sent without it.

mod advice;
mod enhanced_code;
pub mod error;
pub mod reply;
mod session;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use secrecy::SecretString;
use tokio::time::Instant;
use tokio_rustls::rustls::ClientConfig;

use super::mail::{self, MailAddresses};
use super::notification::Notification;
use error::{SmtpError, partial_outcome, reply_text};
use frontdesk_fetch::{ExtraRoots, tls_config};
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome};
use session::{SmtpSession, Transmission};

/// Maximum number of idle connections.
const MAX_IDLE: usize = 4;

/// Maximum number of new connections for one message. The second and the third omit the recipients at which
/// the server ended the session, or that it had refused before.
const MAX_CONNECTIONS: usize = 3;

/// Maximum number of messages per connection. Lower than the limits of common servers.
const MAX_MESSAGES: u32 = 50;

#[derive(Clone, Debug)]
pub struct SmtpOptions {
    /// The server's host name or IP address. The server's certificate must be valid for it.
    pub host: String,
    /// Usually 25, 465 (implicit TLS) or 587.
    pub port: u16,
    pub tls: SmtpTls,
    pub login: Option<SmtpLogin>,
    /// The name of this machine in EHLO: a domain or an address literal (RFC 5321 §4.1.1.1). `None` means the
    /// domain of the sender.
    pub helo: Option<String>,
    /// The sender and the recipients. The server must accept the sender's address.
    pub addresses: MailAddresses,
    /// Certificate authorities that are trusted in addition to the public ones.
    pub extra_roots: Option<ExtraRoots>,
    pub deadlines: SmtpDeadlines,
}

impl SmtpOptions {
    /// The name of this machine in EHLO.
    fn hello_name(&self) -> &str {
        self.helo.as_deref().unwrap_or_else(|| self.addresses.domain())
    }

    /// Identifies the account that the provider's daily quota applies to.
    pub fn account(&self) -> String {
        let username = self.login.as_ref().map_or("", |login| login.username.as_str());
        format!("{username}@{}", self.host)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpTls {
    /// No encryption. Allowed only if the server runs on this machine.
    None,
    /// STARTTLS (RFC 3207). If the server does not offer it, the attempt fails.
    StartTls,
    /// TLS from the first octet (RFC 8314).
    Implicit,
}

#[derive(Clone, Debug)]
pub struct SmtpLogin {
    pub username: String,
    pub password: SecretString,
}

/// Time limits for the steps of an attempt. The defaults are those of RFC 5321 §4.5.3.2 or longer: with
/// shorter ones, a message is sent again although a slow server accepts it (RFC 1047).
#[derive(Clone, Copy, Debug)]
pub struct SmtpDeadlines {
    /// Time limit for the DNS lookup and the connection attempts to all addresses together.
    pub connect: Duration,
    pub tls: Duration,
    /// Time limit for the greeting, for sending a command or 16 KiB of a message, and for a command's reply.
    pub command: Duration,
    /// Limit for the first command on a connection that was idle. Without a reply in this time, the message
    /// is sent over a new connection.
    pub reused: Duration,
    /// Time limit for the reply to the final dot, which ends a message.
    pub message: Duration,
    pub quit: Duration,
    /// Limit for the whole attempt up to the final dot. The sum of this limit, `message` and `quit` is less
    /// than [`frontdesk_inbox::submission::delivery_outcome::LONGEST_ATTEMPT`].
    pub attempt: Duration,
    /// How long an idle connection may be reused.
    pub idle: Duration,
}

impl Default for SmtpDeadlines {
    fn default() -> SmtpDeadlines {
        SmtpDeadlines {
            connect: Duration::from_secs(15),
            tls: Duration::from_secs(15),
            command: Duration::from_mins(5),
            reused: Duration::from_secs(20),
            message: Duration::from_mins(10),
            quit: Duration::from_secs(5),
            attempt: Duration::from_mins(20),
            idle: Duration::from_secs(30),
        }
    }
}

pub struct Smtp {
    options: Box<SmtpOptions>,
    /// The TLS configuration with the trusted roots, or the reason why TLS cannot be set up.
    trust: Result<Arc<ClientConfig>, String>,
    idle: Mutex<Vec<SmtpSession>>,
}

impl Smtp {
    /// Creates the transport. If TLS cannot be set up, each attempt fails with the reason.
    pub fn new(options: SmtpOptions) -> Smtp {
        let trust = load_roots(&options);
        Smtp { options: Box::new(options), trust, idle: Mutex::default() }
    }

    /// Sends one notification to all of its recipients.
    pub async fn send(&self, notice: &Notification) -> Outcome {
        self.send_except(notice, &[]).await
    }

    /// Sends one notification to the recipients that do not have it yet. `reached` are those that have it; if
    /// none is left, succeeds without sending.
    pub async fn send_except(&self, notice: &Notification, reached: &[String]) -> Outcome {
        let addresses = self.options.addresses.for_notification(notice);
        let to: Vec<&str> = addresses.to.iter().map(String::as_str).collect();
        let to: Vec<&str> = to.into_iter().filter(|to| !reached.iter().any(|other| other == to)).collect();
        if to.is_empty() {
            return Outcome::delivered("all recipients in `to` already have it");
        }
        self.send_message(&addresses.from, &to, &mail::compose(&addresses, notice), false).await
    }

    /// Sends one message. If an idle connection turns out to be closed, uses a new one. If the server refuses
    /// some recipients, the outcome is a failure that lists those that got the message. `is_to_visitor` says
    /// that a refused recipient is the fault of this message, not of the channel.
    pub async fn send_message(
        &self,
        from: &str,
        to: &[&str],
        message: &[u8],
        is_to_visitor: bool,
    ) -> Outcome {
        let trust = match &self.trust {
            Ok(trust) => trust,
            Err(sentence) => return Outcome::failed(Cause::Channel, sentence.as_str()),
        };
        let (result, done) = self.transmit_message(trust, from, to, message).await;
        if let Some(session) = done {
            session.quit(self.options.deadlines.quit).await;
        }
        match result {
            Ok(sent) if sent.refused.is_empty() => Outcome::delivered(reply_text(&sent.answer)),
            Ok(sent) => {
                let is_refused = |to: &str| sent.refused.iter().any(|refused| refused.address == to);
                let reached = to.iter().filter(|to| !is_refused(to)).map(|to| (*to).to_owned()).collect();
                partial_outcome(&sent.answer, &sent.refused, reached)
                    .with_advice(Some("Check the refused address in `to`."))
            }
            Err(error) => {
                let advice = self.options.advise(&error);
                error.outcome(&self.server_address(), is_to_visitor).with_advice(advice)
            }
        }
    }

    /// Sends the message over an idle connection or, if there is none or it is closed, over a new one. If the
    /// server ends a session at a recipient, or after it has refused some, repeats the transaction for the
    /// others over a new connection, at most [`MAX_CONNECTIONS`] in all: before DATA, no recipient can have
    /// the message. Returns the server's reply, and the connection if the caller must close it.
    async fn transmit_message(
        &self,
        trust: &Arc<ClientConfig>,
        from: &str,
        to: &[&str],
        message: &[u8],
    ) -> (Result<Transmission, SmtpError>, Option<SmtpSession>) {
        let deadlines = self.options.deadlines;
        let ends = Instant::now() + deadlines.attempt;
        if let Some(mut session) = self.take_idle() {
            match session.transmit(from, to, &mut Vec::new(), message, deadlines, ends).await {
                Err(error) if error.is_repeatable() => {}
                result => return self.finish_transmission(session, result),
            }
        }
        let mut refused = Vec::new();
        let mut connections = 1;
        loop {
            let mut session = match SmtpSession::open(&self.options, trust, ends).await {
                Ok(session) => session,
                Err(error) => return (Err(error), None),
            };
            let omitted = refused.len();
            let result = session.transmit(from, to, &mut refused, message, deadlines, ends).await;
            let has_others = omitted < refused.len() && refused.len() < to.len();
            match result {
                Err(error) if error.is_repeatable() && has_others && connections < MAX_CONNECTIONS => {
                    connections += 1;
                }
                result => return self.finish_transmission(session, result),
            }
        }
    }

    /// Keeps the connection for reuse, drops it if it is unusable, or returns it if the caller must close it.
    fn finish_transmission(
        &self,
        session: SmtpSession,
        result: Result<Transmission, SmtpError>,
    ) -> (Result<Transmission, SmtpError>, Option<SmtpSession>) {
        match result {
            Ok(sent) if !sent.is_reusable => (Ok(sent), None),
            Ok(sent) => (Ok(sent), self.keep_idle(session)),
            Err(error) if error.breaks_connection() => (Err(error), None),
            Err(error) => (Err(error), Some(session)),
        }
    }

    /// Takes the idle connection that was used last, and drops those that have been idle for too long,
    /// without QUIT.
    fn take_idle(&self) -> Option<SmtpSession> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| session.idle_since.elapsed() < self.options.deadlines.idle);
        idle.pop()
    }

    /// Keeps the connection for reuse. Returns it after [`MAX_MESSAGES`] messages or if [`MAX_IDLE`] are kept
    /// already: the caller must then close it.
    fn keep_idle(&self, session: SmtpSession) -> Option<SmtpSession> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if session.sent >= MAX_MESSAGES || idle.len() >= MAX_IDLE {
            return Some(session);
        }
        idle.push(session);
        None
    }

    /// Closes the idle connections. Some servers log a connection that ends without QUIT as an error.
    pub async fn close(self) {
        for session in self.idle.into_inner().unwrap_or_else(PoisonError::into_inner) {
            session.quit(self.options.deadlines.quit).await;
        }
    }

    fn server_address(&self) -> String {
        format!("{}:{}", self.options.host, self.options.port)
    }
}

/// Whether a host is `localhost` or a loopback address, to which mail may be sent without TLS.
pub fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The TLS configuration with the public and the extra roots. The error is a sentence for the operator.
fn load_roots(options: &SmtpOptions) -> Result<Arc<ClientConfig>, String> {
    let config = tls_config(options.extra_roots.as_ref());
    let hint = if options.extra_roots.is_some() { "; check the channel's `ca_file`" } else { "" };
    config.map(Arc::new).map_err(|error| format!("TLS cannot be set up{hint}: {error}"))
}

#[cfg(test)]
mod tests;
