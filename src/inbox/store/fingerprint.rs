//! Keyed hashes: what makes a repeat recognisable, and a source address unreadable.
//!
//! The key is a secret of the database, so that neither kind of hash says anything to who finds it
//! elsewhere. (An IPv4 address can be guessed by who holds both hash and secret; that is the operator.)

use std::io::{self, Read};

use super::Arrival;
use crate::inbox::form::Sameness;
use crate::inbox::limit::Source;
use crate::inbox::parse::Entry;

/// The key of every hash in one database.
#[derive(Clone)]
pub(super) struct Secret([u8; 32]);

impl Secret {
    /// A new one, from the operating system's generator.
    pub(super) fn generate() -> io::Result<Secret> {
        let mut secret = [0; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
        Ok(Secret(secret))
    }

    pub(super) fn from_bytes(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Where a submission came from: 16 bytes.
    pub(super) fn source(&self, source: Source) -> [u8; 16] {
        let mut hash = Hash::new(self, "source");
        hash.part(source.as_bytes());
        let mut short = [0; 16];
        hash.0.finalize_xof().fill(&mut short);
        short
    }

    /// What a submission says, as far as its form tells two apart.
    pub(super) fn content(&self, entry: &Entry) -> [u8; 32] {
        let mut hash = Hash::new(self, "content");
        hash.part(entry.form().name.as_bytes());
        match entry.form().sameness {
            Sameness::Address => {
                hash.part(entry.get("email").unwrap_or_default().to_ascii_lowercase().as_bytes());
            }
            Sameness::Content => {
                for (name, value) in entry.fields() {
                    hash.part(name.as_bytes());
                    hash.part(value.as_bytes());
                }
            }
        }
        hash.0.finalize().into()
    }

    /// The sender's own name for the submission. It counts for his source alone, so that two strangers who
    /// happen upon the same key never swallow each other's submission.
    pub(super) fn idempotency_key(&self, arrival: &Arrival) -> Option<[u8; 32]> {
        let key = arrival.idempotency_key.as_ref()?;
        let mut hash = Hash::new(self, "idempotency key");
        hash.part(arrival.entry.form().name.as_bytes());
        hash.part(arrival.source.as_bytes());
        hash.part(key.as_bytes());
        Some(hash.0.finalize().into())
    }
}

/// Parts are preceded by their length: no two lists of parts look alike.
struct Hash(blake3::Hasher);

impl Hash {
    fn new(secret: &Secret, purpose: &str) -> Hash {
        let mut hash = Hash(blake3::Hasher::new_keyed(&secret.0));
        hash.part(purpose.as_bytes());
        hash
    }

    fn part(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }
}
