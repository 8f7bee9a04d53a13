//! Who an agent says it is, verified: Web Bot Auth, by HTTP Message Signatures (RFC 9421) and the directories of keys that the
//! operator allows.
//!
//! Nobody is asked to sign, and nobody is turned away for it: what is found here is a label and a number in the metrics. A
//! signature says who sends the request; of the body it says nothing.

mod component;
mod directory;
mod key;
mod replays;
pub mod signature;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::HOST;
use http::request::Parts;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::fetch::{Client, Deadlines, Resolver, Roots, Url};
use directory::Directory;
use signature::Claim;

pub use component::{Origin, signature_base};
pub use directory::{MEDIA_TYPE, WELL_KNOWN};
pub use key::{Algorithm, Key};

/// How long each phase of a fetch may take. Nobody waits for that long: see [`PATIENCE`].
pub const DEADLINES: Deadlines = Deadlines {
    resolve: Duration::from_secs(5),
    connect: Duration::from_secs(5),
    tls: Duration::from_secs(5),
    answer: Duration::from_secs(5),
    body: Duration::from_secs(5),
};

/// How long a request waits for keys that are not known yet.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// What the operator says of agents.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose agents are recognised: the places at which their directories are, without a path.
    pub directories: Vec<Url>,
    /// Whether a directory's name may lead to addresses that the Internet at large cannot reach.
    pub allow_private: bool,
    /// Certificate authorities that are trusted beside the public ones.
    pub extra_roots: Option<Roots>,
    /// Where the public reaches the site: what a signature must be made for.
    pub origin: Origin,
    /// How long each phase of a fetch may take.
    pub deadlines: Deadlines,
    /// How long a request waits for keys that are not known yet, in all.
    pub patience: Duration,
}

/// What is known of who sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not signed, or for another purpose.
    Unsigned,
    /// It is signed by an agent of a directory that the operator allows.
    Verified(Agent),
    /// It is signed, and the signature does not count.
    Unverified(Why),
}

impl Standing {
    /// Its name in the metrics: `unsigned`, `verified`, or the reason.
    pub const fn name(&self) -> &'static str {
        match self {
            Standing::Unsigned => "unsigned",
            Standing::Verified(_) => "verified",
            Standing::Unverified(why) => why.name(),
        }
    }

    /// The agent, if it is verified: the label that is kept with a submission.
    pub fn agent(&self) -> Option<&str> {
        match self {
            Standing::Verified(agent) => Some(&agent.directory),
            _ => None,
        }
    }
}

/// An agent that is who it says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The host of its directory, `agent.example.com`.
    pub directory: String,
}

/// Why a signature does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It cannot be read, or lacks what it must say: `keyid`, `created`, `expires`, the signature itself.
    Malformed,
    /// It does not cover whom it is for or its `Signature-Agent`, or covers what is not there or not known.
    Components,
    /// It was made for a time to come.
    Early,
    /// It is over.
    Expired,
    /// It is valid for longer than a day.
    Long,
    /// The agent's directory is none that the operator allows.
    Directory,
    /// The directory cannot be had.
    Unavailable,
    /// The directory does not hold the key, or not for now.
    Key,
    /// The algorithm is not known, or not the key's.
    Algorithm,
    /// The key has not made it of this request.
    Signature,
    /// The same, and the request names another host than the site's: it may be right, for somebody else.
    Authority,
    /// It has counted before, or too many have for another one to be remembered.
    Replayed,
}

impl Why {
    /// Its name in the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Why::Malformed => "malformed",
            Why::Components => "components",
            Why::Early => "early",
            Why::Expired => "expired",
            Why::Long => "long",
            Why::Directory => "directory",
            Why::Unavailable => "unavailable",
            Why::Key => "key",
            Why::Algorithm => "algorithm",
            Why::Signature => "signature",
            Why::Authority => "authority",
            Why::Replayed => "replayed",
        }
    }
}

/// Recognises agents.
pub struct Agents {
    directories: Vec<Arc<Directory>>,
    client: Arc<Client>,
    origin: Origin,
    patience: Duration,
}

impl Agents {
    /// Makes it ready; nothing is fetched before a request needs it.
    pub fn new(options: &Options) -> Agents {
        let client = Client::new(
            Resolver::System,
            options.allow_private,
            options.extra_roots.as_ref(),
            options.deadlines,
        );
        Agents {
            directories: options.directories.iter().map(|url| Arc::new(Directory::new(url))).collect(),
            client: Arc::new(client),
            origin: options.origin.clone(),
            patience: options.patience,
        }
    }

    /// Who sends this request, at this time. It takes no longer than the operator's patience, and where nothing has to be fetched no
    /// time at all; it must be called within a Tokio runtime.
    ///
    /// Of several signatures one that counts is enough; otherwise it is said what is wrong with the first.
    pub async fn verify(&self, head: &Parts, now: Timestamp) -> Standing {
        if self.directories.is_empty() {
            let is_signed = signature::is_signed(&head.headers);
            return if is_signed { Standing::Unverified(Why::Directory) } else { Standing::Unsigned };
        }
        let deadline = Instant::now() + self.patience;
        let mut standing = Standing::Unsigned;
        for claim in signature::claims(head, &self.origin) {
            let result = match claim {
                Ok(claim) => self.check(&claim, now, deadline).await,
                Err(why) => Err(why),
            };
            match result {
                Ok(agent) => return Standing::Verified(agent),
                Err(why) if standing == Standing::Unsigned => {
                    standing = Standing::Unverified(self.explain(why, head));
                }
                Err(_) => {}
            }
        }
        standing
    }

    async fn check(&self, claim: &Claim, now: Timestamp, deadline: Instant) -> Result<Agent, Why> {
        claim.check_time(now)?;
        let mut why = Why::Directory;
        for directory in &self.directories {
            // An agent that does not say where its key is may be anybody's that the operator allows.
            if claim.directory.as_ref().is_some_and(|text| !directory.is_meant_by(text)) {
                continue;
            }
            let keys = directory.keys_with(&self.client, &claim.key_id, now, deadline).await;
            let keys = match keys {
                Ok(keys) => keys,
                Err(reason) => {
                    why = reason;
                    continue;
                }
            };
            claim.check_key(&keys, now)?;
            directory.record(claim, now)?;
            return Ok(Agent { directory: directory.name() });
        }
        Err(why)
    }

    fn explain(&self, why: Why, head: &Parts) -> Why {
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| head.uri.authority().map(http::uri::Authority::as_str));
        match why {
            Why::Signature if host.is_some_and(|host| !self.origin.is_named_by(host)) => Why::Authority,
            why => why,
        }
    }
}

impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agents").field("directories", &self.directories).finish_non_exhaustive()
    }
}
