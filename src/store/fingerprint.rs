//! Keyed hashes of contents, senders, sources and networks.
//!
//! The key is a secret of the database, so the hashes reveal nothing to a reader without it. (With both hash
//! and secret, the operator could guess an IPv4 address.)

use std::io::{self, Read};

use crate::forms::DedupKey;
use crate::forms::parse::Entry;
use crate::forms::source::Source;

/// 128 bits: no accidental collisions, and no forgery without the secret.
pub type Hash = [u8; 16];

/// Replaces the first two bytes of a hash by the day's number, in UTC. So the hashes of one day are
/// neighbours in their index, and the pages of earlier days are no longer touched. 14 bytes of the hash
/// remain.
pub fn of_day(hash: Hash, day: i64) -> Hash {
    let mut hash = hash;
    hash[..2].copy_from_slice(&day.to_be_bytes()[6..]);
    hash
}

/// The key of all hashes in one database.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Generates a secret with the operating system's random generator.
    pub(super) fn generate() -> io::Result<Secret> {
        let mut secret = [0; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
        Ok(Secret(secret))
    }

    pub(super) const fn from_bytes(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The source of a submission.
    pub(super) fn source(&self, source: Source) -> Hash {
        let mut hasher = self.hasher("source");
        hasher.part(source.as_bytes());
        hasher.finish()
    }

    /// The source's network: an IPv4 /24 or an IPv6 /48.
    pub(super) fn network(&self, source: Source) -> Hash {
        let mut hasher = self.hasher("network");
        hasher.part(source.network_as_bytes());
        hasher.finish()
    }

    /// The sender's e-mail address, without regard to case.
    pub(super) fn sender(&self, email: &str) -> Hash {
        let mut hasher = self.hasher("sender");
        hasher.part(email.to_lowercase().as_bytes());
        hasher.finish()
    }

    /// The target of a channel.
    pub(super) fn target(&self, destination: &str) -> Hash {
        let mut hasher = self.hasher("target");
        hasher.part(destination.as_bytes());
        hasher.finish()
    }

    /// The content of a submission, as far as its form compares it.
    pub(super) fn content(&self, entry: &Entry) -> Hash {
        let mut hasher = self.hasher("content");
        hasher.part(entry.form().name.as_bytes());
        match entry.form().dedup_key {
            DedupKey::Address => {
                hasher.part(entry.get("email").unwrap_or_default().to_ascii_lowercase().as_bytes());
            }
            DedupKey::Content => {
                for (name, value) in entry.fields() {
                    hasher.part(name.as_bytes());
                    hasher.part(value.as_bytes());
                }
            }
        }
        hasher.finish()
    }

    /// The sender's idempotency key. The hash includes the source, so that equal keys of two senders never
    /// match.
    pub(super) fn idempotency_key(&self, form: &str, source: Source, key: &str) -> Hash {
        let mut hasher = self.hasher("idempotency key");
        hasher.part(form.as_bytes());
        hasher.part(source.as_bytes());
        hasher.part(key.as_bytes());
        hasher.finish()
    }

    fn hasher(&self, purpose: &str) -> Hasher {
        let mut hasher = Hasher(blake3::Hasher::new_keyed(&self.0));
        hasher.part(purpose.as_bytes());
        hasher
    }
}

/// Hashes each part after its length, so that different lists of parts never hash alike.
struct Hasher(blake3::Hasher);

impl Hasher {
    fn part(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn finish(&self) -> Hash {
        let mut hash = Hash::default();
        self.0.finalize_xof().fill(&mut hash);
        hash
    }
}
