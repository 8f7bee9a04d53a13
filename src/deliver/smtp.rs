//! The channel to mailboxes: hands each notice to a mail server (RFC 5321), and says what each of its answers means.
//!
//! A message counts as delivered once the server has answered its final dot with a 2xx. Connections that are still good are kept for a
//! while and used again. TLS is checked always and never done without once it was asked for.

mod session;
mod trouble;
mod wire;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lettre::transport::smtp::client::{Certificate, CertificateStore, TlsParameters};
use secrecy::SecretString;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use super::mail::{self, Addresses};
use super::notice::Notice;
use crate::submission::outcome::{Cause, Outcome};
use session::{Session, Trust};
use trouble::reply_text;

/// The most connections that are kept while there is nothing to send.
const MAX_IDLE: usize = 4;

/// The most messages on one connection; servers have such limits of their own.
const MAX_MESSAGES: u32 = 50;

/// What the operator says of the channel.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's name, which its certificate must be for, or its address.
    pub host: String,
    /// 25, 465 (TLS from the start) or 587, as a rule.
    pub port: u16,
    /// How the connection is protected.
    pub tls: Tls,
    /// Whom to log in as, if at all.
    pub login: Option<Login>,
    /// The sender: an address that the operator may send from.
    pub from: String,
    /// What stands beside it; may be empty.
    pub from_name: String,
    /// The recipients.
    pub to: Vec<String>,
    /// Certificates (PEM) that are trusted beside the well-known ones.
    pub extra_roots: Option<Vec<u8>>,
    /// How long each step may take.
    pub deadlines: Deadlines,
}

/// How a connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Not at all: on this machine only.
    None,
    /// By STARTTLS (RFC 3207), without which nothing is sent.
    StartTls,
    /// From the first octet (RFC 8314).
    Implicit,
}

/// A name and its password.
#[derive(Clone, Debug)]
pub struct Login {
    /// As the server knows it.
    pub username: String,
    /// Shown to nobody but the server.
    pub password: SecretString,
}

/// How long each step may take.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// From the look-up of the name to the connection, over all of its addresses.
    pub connect: Duration,
    /// The handshake.
    pub tls: Duration,
    /// A command and its answer; also the greeting with EHLO, and the login.
    pub command: Duration,
    /// The message and the answer to its final dot.
    pub message: Duration,
    /// QUIT and its answer.
    pub quit: Duration,
    /// All of it, but QUIT. It ends within [`crate::submission::outcome::LONGEST_ATTEMPT`] with QUIT.
    pub attempt: Duration,
    /// How long a connection without a message is kept.
    pub idle: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines {
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

/// The channel.
#[derive(Debug)]
pub struct Smtp {
    options: Box<Options>,
    /// What is made of the options once, or what is wrong with them.
    ready: Result<Box<Ready>, String>,
    idle: Mutex<Vec<Session>>,
}

struct Ready {
    addresses: Addresses,
    trust: Trust,
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Smtp {
    /// Makes it ready; nobody is connected to yet. With options that cannot work, each attempt fails and says why.
    pub fn new(options: Options) -> Smtp {
        let addresses = Addresses::new(&options.from, &options.from_name, &options.to);
        let ready =
            addresses.and_then(|addresses| Ok(Box::new(Ready { addresses, trust: trust(&options)? })));
        Smtp { options: Box::new(options), ready, idle: Mutex::default() }
    }

    /// Sends one notice. A connection that was kept and turns out to be gone is replaced once.
    pub async fn send(&self, notice: &Notice) -> Outcome {
        let ready = match &self.ready {
            Ok(ready) => ready,
            Err(sentence) => return Outcome::failed(Cause::Channel, sentence.as_str()),
        };
        let message = mail::compose(&ready.addresses, notice);
        let limit = self.options.deadlines.attempt;
        let Ok((outcome, done)) = tokio::time::timeout(limit, self.attempt(ready, &message)).await else {
            let sentence = format!("the whole attempt with {} took longer than {limit:?}", self.server());
            return Outcome::failed(Cause::Unclear, sentence);
        };
        if let Some(session) = done {
            session.quit(self.options.deadlines.quit).await;
        }
        outcome
    }

    /// What became of it, and the connection if that is to be ended.
    async fn attempt(&self, ready: &Ready, message: &[u8]) -> (Outcome, Option<Session>) {
        let deadlines = self.options.deadlines;
        if let Some(mut session) = self.take_idle() {
            match session.transmit(&ready.addresses, message, deadlines).await {
                Err(trouble) if trouble.may_be_age() => {}
                result => return self.conclude(session, result),
            }
        }
        match Session::open(&self.options, &ready.trust, ready.addresses.domain()).await {
            Ok(mut session) => {
                let result = session.transmit(&ready.addresses, message, deadlines).await;
                self.conclude(session, result)
            }
            Err(trouble) => (trouble.outcome(&self.server()), None),
        }
    }

    fn conclude(
        &self,
        session: Session,
        result: Result<String, trouble::Trouble>,
    ) -> (Outcome, Option<Session>) {
        match result {
            Ok(answer) => (Outcome::delivered(reply_text(&answer)), self.keep(session)),
            Err(trouble) if trouble.is_of_connection() => (trouble.outcome(&self.server()), None),
            Err(trouble) => (trouble.outcome(&self.server()), Some(session)),
        }
    }

    /// The connection that was used last and is not too old.
    fn take_idle(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| session.idle_for() < self.options.deadlines.idle);
        idle.pop()
    }

    /// Gives the connection back if it has served its time.
    fn keep(&self, session: Session) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if session.sent() >= MAX_MESSAGES || idle.len() >= MAX_IDLE {
            return Some(session);
        }
        idle.push(session);
        None
    }

    fn server(&self) -> String {
        format!("{}:{}", self.options.host, self.options.port)
    }
}

/// The well-known roots and those of the operator's own.
fn trust(options: &Options) -> Result<Trust, String> {
    let no_tls = |error: &dyn fmt::Display| format!("TLS cannot be set up: {error}");
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let mut parameters =
        TlsParameters::builder(options.host.clone()).certificate_store(CertificateStore::WebpkiRoots);
    if let Some(pem) = &options.extra_roots {
        let wrong = || "`extra_roots` are not certificates in PEM.".to_owned();
        let own: Vec<CertificateDer> =
            CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| wrong())?;
        if own.is_empty() {
            return Err(wrong());
        }
        for certificate in own {
            roots.add(certificate).map_err(|_| wrong())?;
        }
        parameters = parameters.add_root_certificate(Certificate::from_pem(pem).map_err(|_| wrong())?);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| no_tls(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Trust { config: Arc::new(config), parameters: parameters.build().map_err(|error| no_tls(&error))? })
}

#[cfg(test)]
mod tests;
