//! Keyed hashes: what makes a repeat recognisable, and a source address unreadable.
//!
//! The key is a secret of the database, so that neither kind of hash says anything to who finds it
//! elsewhere. (An IPv4 address can be guessed by who holds both hash and secret; that is the operator.)

use std::io::{self, Read};

use super::Arrival;
use crate::forms::Sameness;
use crate::forms::parse::Entry;
use crate::limits::Source;

/// Long enough that two never meet by accident, and nobody without the secret can make them.
pub(super) type Hash = [u8; 16];

/// The same hash among those of one day, in UTC: it begins with the day's number. Stored like this, the hashes of one day are neighbours
/// in their index, and what came on earlier days is not touched any more. 14 bytes of the hash are left.
pub(super) fn of_day(hash: Hash, day: i64) -> Hash {
    let mut hash = hash;
    hash[..2].copy_from_slice(&day.to_be_bytes()[6..]);
    hash
}

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

    /// Where a submission came from.
    pub(super) fn source(&self, source: Source) -> Hash {
        let mut hasher = self.hasher("source");
        hasher.part(source.as_bytes());
        hasher.finish()
    }

    /// The network that a submission came from: an IPv4 /24 or an IPv6 /48.
    pub(super) fn network(&self, source: Source) -> Hash {
        let mut hasher = self.hasher("network");
        hasher.part(source.network_as_bytes());
        hasher.finish()
    }

    /// Who sent a submission: an e-mail address, in whatever case.
    pub(super) fn sender(&self, email: &str) -> Hash {
        let mut hasher = self.hasher("sender");
        hasher.part(email.to_lowercase().as_bytes());
        hasher.finish()
    }

    /// Where a channel leads.
    pub(super) fn target(&self, leads_to: &str) -> Hash {
        let mut hasher = self.hasher("target");
        hasher.part(leads_to.as_bytes());
        hasher.finish()
    }

    /// What a submission says, as far as its form tells two apart.
    pub(super) fn content(&self, entry: &Entry) -> Hash {
        let mut hasher = self.hasher("content");
        hasher.part(entry.form().name.as_bytes());
        match entry.form().sameness {
            Sameness::Address => {
                hasher.part(entry.get("email").unwrap_or_default().to_ascii_lowercase().as_bytes());
            }
            Sameness::Content => {
                for (name, value) in entry.fields() {
                    hasher.part(name.as_bytes());
                    hasher.part(value.as_bytes());
                }
            }
        }
        hasher.finish()
    }

    /// The sender's own name for the submission. It counts for his source alone, so that two strangers who
    /// happen upon the same key never swallow each other's submission.
    pub(super) fn idempotency_key(&self, arrival: &Arrival) -> Option<Hash> {
        let key = arrival.idempotency_key.as_ref()?;
        let mut hasher = self.hasher("idempotency key");
        hasher.part(arrival.entry.form().name.as_bytes());
        hasher.part(arrival.source.as_bytes());
        hasher.part(key.as_bytes());
        Some(hasher.finish())
    }

    fn hasher(&self, purpose: &str) -> Hasher {
        let mut hasher = Hasher(blake3::Hasher::new_keyed(&self.0));
        hasher.part(purpose.as_bytes());
        hasher
    }
}

/// Parts go in with their length before them: no two lists of parts look alike.
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
