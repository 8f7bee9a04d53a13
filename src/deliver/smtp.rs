//! The SMTP channel: sends each notification to a mail server (RFC 5321).
//!
//! A message counts as delivered when the server replies to the final dot with a 2xx code. Idle connections
//! are kept for a while and reused. Certificates are always verified, and if TLS is configured, no message is
//! sent without it.

mod advice;
pub mod error;
mod session;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lettre::transport::smtp::client::{Certificate, CertificateStore, TlsParameters};
use secrecy::SecretString;

use super::mail::{self, MailAddresses};
use super::notification::Notification;
use crate::fetch::{ExtraRoots, tls_config};
use crate::submission::outcome::{Cause, Outcome};
use error::{SmtpError, reply_text};
use session::{SmtpSession, TrustedRoots};

/// Maximum number of idle connections.
const MAX_IDLE: usize = 4;

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
    /// The sender and the recipients. The server must accept the sender's address.
    pub addresses: MailAddresses,
    /// Certificate authorities that are trusted in addition to the public ones.
    pub extra_roots: Option<ExtraRoots>,
    pub deadlines: SmtpDeadlines,
}

impl SmtpOptions {
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

/// Time limits for the steps of an attempt.
#[derive(Clone, Copy, Debug)]
pub struct SmtpDeadlines {
    /// Limit for the DNS lookup and the connection attempts to all addresses together.
    pub connect: Duration,
    pub tls: Duration,
    /// Limit for a command and its reply, for the greeting together with EHLO, and for the login.
    pub command: Duration,
    pub message: Duration,
    pub quit: Duration,
    /// Limit for the whole attempt except QUIT. The sum of this limit and `quit` is less than
    /// [`crate::submission::outcome::LONGEST_ATTEMPT`].
    pub attempt: Duration,
    /// How long an idle connection is kept open.
    pub idle: Duration,
}

impl Default for SmtpDeadlines {
    fn default() -> SmtpDeadlines {
        SmtpDeadlines {
            connect: Duration::from_secs(15),
            tls: Duration::from_secs(15),
            command: Duration::from_secs(20),
            message: Duration::from_secs(40),
            quit: Duration::from_secs(5),
            attempt: Duration::from_secs(110),
            idle: Duration::from_secs(30),
        }
    }
}

pub struct Smtp {
    options: Box<SmtpOptions>,
    /// The trusted roots, or the reason why TLS cannot be set up.
    trust: Result<Box<TrustedRoots>, String>,
    idle: Mutex<Vec<SmtpSession>>,
}

impl Smtp {
    /// If TLS cannot be set up, each attempt fails with the reason.
    pub fn new(options: SmtpOptions) -> Smtp {
        let trust = load_roots(&options).map(Box::new);
        Smtp { options: Box::new(options), trust, idle: Mutex::default() }
    }

    /// Sends one notification.
    pub async fn send(&self, notice: &Notification) -> Outcome {
        let addresses = &self.options.addresses;
        self.send_message(addresses, &mail::compose(addresses, notice), false).await
    }

    /// Sends one message. If an idle connection turns out to be closed, uses a new one. `is_to_visitor` says
    /// that a refused recipient is the fault of this message, not of the channel.
    pub async fn send_message(
        &self,
        addresses: &MailAddresses,
        message: &[u8],
        is_to_visitor: bool,
    ) -> Outcome {
        let trust = match &self.trust {
            Ok(trust) => trust,
            Err(sentence) => return Outcome::failed(Cause::Channel, sentence.as_str()),
        };
        let limit = self.options.deadlines.attempt;
        let transmission = self.transmit_message(trust, addresses, message);
        let Ok((result, done)) = tokio::time::timeout(limit, transmission).await else {
            let sentence =
                format!("the attempt to send to {} took longer than {limit:?}", self.server_address());
            return Outcome::failed(Cause::Unclear, sentence);
        };
        if let Some(session) = done {
            session.quit(self.options.deadlines.quit).await;
        }
        match result {
            Ok(answer) => Outcome::delivered(reply_text(&answer)),
            Err(error) => {
                let advice = self.options.advise(&error);
                error.outcome(&self.server_address(), is_to_visitor).with_advice(advice)
            }
        }
    }

    /// Returns the server's reply, and the connection if the caller must close it.
    async fn transmit_message(
        &self,
        trust: &TrustedRoots,
        addresses: &MailAddresses,
        message: &[u8],
    ) -> (Result<String, SmtpError>, Option<SmtpSession>) {
        let deadlines = &self.options.deadlines;
        if let Some(mut session) = self.take_idle() {
            match session.transmit(addresses, message, *deadlines).await {
                Err(error) if error.may_be_stale() => {}
                result => return self.finish_transmission(session, result),
            }
        }
        match SmtpSession::open(&self.options, trust).await {
            Ok(mut session) => {
                let result = session.transmit(addresses, message, *deadlines).await;
                self.finish_transmission(session, result)
            }
            Err(error) => (Err(error), None),
        }
    }

    fn finish_transmission(
        &self,
        session: SmtpSession,
        result: Result<String, SmtpError>,
    ) -> (Result<String, SmtpError>, Option<SmtpSession>) {
        match result {
            Ok(answer) => (Ok(answer), self.keep_idle(session)),
            Err(error) if error.breaks_connection() => (Err(error), None),
            Err(error) => (Err(error), Some(session)),
        }
    }

    fn take_idle(&self) -> Option<SmtpSession> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| session.idle_since.elapsed() < self.options.deadlines.idle);
        idle.pop()
    }

    /// Keeps the connection for reuse, or returns it if the caller must close it.
    fn keep_idle(&self, session: SmtpSession) -> Option<SmtpSession> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if session.sent >= MAX_MESSAGES || idle.len() >= MAX_IDLE {
            return Some(session);
        }
        idle.push(session);
        None
    }

    fn server_address(&self) -> String {
        format!("{}:{}", self.options.host, self.options.port)
    }
}

/// Whether a host name or address is this machine, to which mail may be sent without TLS.
pub fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn load_roots(options: &SmtpOptions) -> Result<TrustedRoots, String> {
    let no_tls = |error: &dyn fmt::Display| format!("TLS cannot be set up: {error}");
    let config = tls_config(options.extra_roots.as_ref()).map_err(|error| no_tls(&error))?;
    let mut parameters =
        TlsParameters::builder(options.host.clone()).certificate_store(CertificateStore::WebpkiRoots);
    for certificate in options.extra_roots.iter().flat_map(|roots| &roots.0) {
        let own = Certificate::from_der(certificate.to_vec()).map_err(|error| no_tls(&error))?;
        parameters = parameters.add_root_certificate(own);
    }
    let parameters = parameters.build().map_err(|error| no_tls(&error))?;
    Ok(TrustedRoots { config: Arc::new(config), parameters })
}

#[cfg(test)]
mod tests;
