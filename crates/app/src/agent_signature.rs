//! Web Bot Auth: verifies which agent sent a request, using HTTP Message Signatures (RFC 9421) and the key
//! directories that the operator allows.
//!
//! Signing is optional: the result only labels the submission. It authenticates the sender, not the body.

mod directory;
mod error;
mod key;
mod replays;
pub mod signature;
mod signature_base;

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use jiff::Timestamp;
use tokio::time::Instant;

use directory::Directory;
use frontdesk_fetch::{ExtraRoots, FetchClient, FetchTimeouts, NameResolver, Url};
use frontdesk_http::host_of;
use signature::Claim;

pub use directory::{MEDIA_TYPE, WELL_KNOWN};
pub use error::SignatureError;
pub use key::{AgentKey, Algorithm};
pub use signature_base::{SiteOrigin, signature_base};

/// The time limits for each step of fetching a directory of keys. The agent's request that needs the key
/// waits no longer than [`AgentOptions::key_timeout`].
pub const FETCH_TIMEOUTS: FetchTimeouts = FetchTimeouts {
    resolve: Duration::from_secs(5),
    connect: Duration::from_secs(5),
    tls: Duration::from_secs(5),
    answer: Duration::from_secs(5),
    body: Duration::from_secs(5),
};

/// The default for [`AgentOptions::key_timeout`].
pub const KEY_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The origins of the allowed key directories, as URLs without a path.
    pub directories: Vec<Url>,
    /// Whether a directory's host name may resolve to private addresses.
    pub allow_private: bool,
    pub extra_roots: Option<ExtraRoots>,
    /// The public origin of the site. Signatures must be made for this origin.
    pub origin: SiteOrigin,
    /// The maximum total time that one request waits for keys to be fetched.
    pub key_timeout: Duration,
}

/// Verifies agents' signatures with the keys in the allowed directories.
pub struct Agents {
    directories: Vec<Arc<Directory>>,
    client: Arc<FetchClient>,
    origin: SiteOrigin,
    key_timeout: Duration,
}

impl Agents {
    /// Creates a verifier without keys. A directory is fetched only when a request needs its keys.
    pub fn new(options: &AgentOptions) -> Agents {
        let client = FetchClient::new(
            NameResolver::System,
            options.allow_private,
            options.extra_roots.as_ref(),
            FETCH_TIMEOUTS,
        );
        Agents {
            directories: options.directories.iter().map(|url| Arc::new(Directory::new(url))).collect(),
            client: Arc::new(client),
            origin: options.origin.clone(),
            key_timeout: options.key_timeout,
        }
    }

    /// Verifies a request's agent signatures in order, at most three, until one is valid. Records that one as
    /// used, and returns the host (and port) of its key directory. `None` without an agent signature; if all
    /// are invalid, the first one's error, which is [`SignatureError::Authority`] instead of `Signature` if
    /// `Host` names another site. If no directory is allowed, any signature is an error.
    ///
    /// Waits only to fetch keys, at most [`AgentOptions::key_timeout`]. Requires a Tokio runtime.
    pub async fn verify(&self, head: &Parts, now: Timestamp) -> Result<Option<String>, SignatureError> {
        if self.directories.is_empty() {
            let is_signed = signature::is_signed(&head.headers);
            return if is_signed { Err(SignatureError::Directory) } else { Ok(None) };
        }
        let deadline = Instant::now() + self.key_timeout;
        let mut status = Ok(None);
        for claim in signature::claims(head, &self.origin) {
            let result = match claim {
                Ok(claim) => self.verify_claim(&claim, now, deadline).await,
                Err(why) => Err(why),
            };
            match result {
                Ok(agent) => return Ok(Some(agent)),
                // If the signature is wrong and `Host` names another site, report the latter: the agent
                // may have signed for that site.
                Err(SignatureError::Signature)
                    if host_of(head).is_some_and(|host| !self.origin.matches_host(host)) =>
                {
                    status = status.and(Err(SignatureError::Authority));
                }
                Err(why) => status = status.and(Err(why)),
            }
        }
        status
    }

    /// Verifies one signature and records it as used. Returns the host (and port) of the directory that has
    /// its key. If no directory has it, returns the error of the last one that may have it, or
    /// [`SignatureError::Directory`] if `Signature-Agent` names none of them. An invalid or used signature is
    /// an error at once, without asking further directories.
    async fn verify_claim(
        &self,
        claim: &Claim,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<String, SignatureError> {
        claim.check_time(now)?;
        let mut why = SignatureError::Directory;
        for directory in &self.directories {
            // Skip directories other than the one in `Signature-Agent`. Without that header, try all of them.
            if claim.directory.as_ref().is_some_and(|text| !directory.matches_url(text)) {
                continue;
            }
            match directory.keys_with(&self.client, &claim.key_id, now, deadline).await {
                Ok(keys) => {
                    claim.check_key(&keys, now)?;
                    directory.record(claim, now)?;
                    return Ok(directory.name());
                }
                Err(reason) => why = reason,
            }
        }
        Err(why)
    }
}
