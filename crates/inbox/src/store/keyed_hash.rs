//! Keyed hashes of contents, senders, sources and networks.
//!
//! The key is a secret in the database. Without it, a hash reveals nothing. With it, trying all IPv4
//! addresses reveals the one behind a hash.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read as _;

use uuid::Uuid;

use super::error::StoreError;
use super::sql::Sql;
use crate::submission::visitor_mail::MailLimit;
use frontdesk_forms::{DedupKey, Entry, FieldValue};
use frontdesk_limits::source::Source;

/// A hash of 128 bits, which is enough to rule out accidental collisions and, without the secret, forgery.
pub type Hash = [u8; 16];

/// Replaces the first two bytes of a hash with the lowest 16 bits of `day`, a number of days since 1970. The
/// hashes of one day are then adjacent in the index, and index pages of earlier days are no longer touched.
pub fn with_day_prefix(mut hash: Hash, day: i64) -> Hash {
    hash[..2].copy_from_slice(&day.to_be_bytes()[6..]);
    hash
}

/// The key for all hashes in one database.
#[derive(Clone)]
pub struct Secret(pub(crate) [u8; 32]);

impl Secret {
    /// Generates a secret with the operating system's random number generator.
    pub(super) fn generate() -> Result<Secret, StoreError> {
        let mut secret = [0; 32];
        let random = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut secret));
        random.map_err(|error| StoreError::io("/dev/urandom".as_ref(), error))?;
        Ok(Secret(secret))
    }

    pub(super) fn read(sql: &dyn Sql) -> Result<Secret, StoreError> {
        let secret = sql.value("SELECT value FROM meta WHERE name = 'secret'", &[])?;
        secret.map(Secret).ok_or(StoreError::Damaged("its secret is missing"))
    }

    pub(super) fn source(&self, source: Source) -> Hash {
        self.hash("source", [source.as_bytes()])
    }

    /// Hashes the source's network: an IPv4 /24 or an IPv6 /48.
    pub(super) fn network(&self, source: Source) -> Hash {
        self.hash("network", [source.network_as_bytes()])
    }

    /// Hashes the sender's e-mail address, ignoring case.
    pub(super) fn sender(&self, email: &str) -> Hash {
        self.hash("sender", [email.to_lowercase().as_bytes()])
    }

    /// Hashes the result of [`mailbox_key`](frontdesk_forms::mailbox_identity::mailbox_key).
    pub(super) fn mailbox(&self, key: &str) -> Hash {
        self.hash("mailbox", [key.as_bytes()])
    }

    /// Hashes the network, domain or kind of email for which a limit counts emails to visitors.
    pub(super) fn mail_rate(&self, limit: MailLimit, subject: &[u8]) -> Hash {
        self.hash("mail rate", [limit.name().as_bytes(), subject])
    }

    /// Signs a link that confirms the address of a submission. `expires_at` is in seconds.
    pub(super) fn link(&self, submission: Uuid, expires_at: u32) -> Hash {
        self.hash("link", [submission.as_bytes().as_slice(), &expires_at.to_be_bytes()])
    }

    /// The key for hashing the words in lessons.
    pub(super) fn token_key(&self) -> Hash {
        self.hash("lesson", [])
    }

    /// The key of the canary's tokens, derived so that tokens reveal nothing about other hashes.
    pub(super) fn canary_key(&self) -> Secret {
        let mut key = [0; 32];
        blake3::Hasher::new_keyed(&self.0).update(b"canary key").finalize_xof().fill(&mut key);
        Secret(key)
    }

    /// Signs a token of the canary for one form. `expires_at` is in seconds. Call this on the key that
    /// [`Secret::canary_key`] derives.
    pub(super) fn canary_token(&self, form: &str, nonce: &Hash, expires_at: u32) -> Hash {
        self.hash("canary token", [form.as_bytes(), nonce, &expires_at.to_be_bytes()])
    }

    /// The proof that a server with this key received a token. Call this on the key that
    /// [`Secret::canary_key`] derives.
    pub(super) fn canary_proof(&self, nonce: &Hash) -> Hash {
        self.hash("canary proof", [nonce.as_slice()])
    }

    /// Hashes the destination of a channel.
    pub(super) fn target(&self, destination: &str) -> Hash {
        self.hash("target", [destination.as_bytes()])
    }

    /// Hashes the name of the form and what the form compares to detect repeats: one field, ignoring ASCII
    /// case (a missing one counts as empty), or all fields.
    pub(super) fn content(&self, entry: &Entry) -> Hash {
        let form = entry.form().name.as_bytes();
        match entry.form().dedup_key {
            DedupKey::Field(name) => {
                let value = entry.get(name).unwrap_or_default().to_ascii_lowercase();
                // Include the field's name, because another field may be the unique one after a change of the
                // definition.
                self.hash("unique", [form, name.as_bytes(), value.as_bytes()])
            }
            DedupKey::Content => {
                let mut parts: Vec<Cow<'_, str>> = Vec::new();
                entry.fields().for_each(|(name, value)| add_content(&mut parts, name, value));
                self.hash("content", [form].into_iter().chain(parts.iter().map(|part| part.as_bytes())))
            }
        }
    }

    /// Hashes an idempotency key with the form and the source, so that equal keys of different senders or
    /// forms never match.
    pub(super) fn idempotency_key(&self, form: &str, source: Source, key: &str) -> Hash {
        self.hash("idempotency key", [form.as_bytes(), source.as_bytes(), key.as_bytes()])
    }

    /// Hashes the purpose and the parts with this key, each after its length, so that different lists of
    /// parts never have the same hash input.
    fn hash<'a>(&self, purpose: &'a str, parts: impl IntoIterator<Item = &'a [u8]>) -> Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in [purpose.as_bytes()].into_iter().chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut hash = Hash::default();
        hasher.finalize_xof().fill(&mut hash);
        hash
    }
}

/// Adds the name and the value of a field as parts of a hash. Values of different types, and different lists,
/// have different parts: no text has a NUL character.
fn add_content<'a>(parts: &mut Vec<Cow<'a, str>>, name: &'a str, value: &'a FieldValue) {
    parts.push(name.into());
    match value {
        FieldValue::Text(text) => parts.push(text.into()),
        FieldValue::List(items) => {
            parts.push(format!("\0{}", items.len()).into());
            parts.extend(items.iter().map(Cow::from));
        }
        FieldValue::Number(_) | FieldValue::Flag(_) => parts.extend(["\0".into(), value.display()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_query_does_not_count_as_a_missing_secret() {
        let check = |statements: &str, expected: &str| {
            let database = rusqlite::Connection::open_in_memory().unwrap();
            database.execute_batch(statements).unwrap();
            let Err(error) = Secret::read(&database) else { panic!("{statements}") };
            assert!(error.to_string().starts_with(expected), "{statements}: {error}");
            error.is_caused_by_row()
        };
        assert!(!check("", "SQLite reported an error"));
        assert!(check("CREATE TABLE meta (name, value)", "the inbox is damaged: its secret is missing"));
    }
}
