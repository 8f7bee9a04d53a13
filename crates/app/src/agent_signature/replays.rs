//! Replay protection: remembers used signatures, so that an intercepted request cannot be sent again.

use std::collections::HashMap;

use jiff::Timestamp;

use super::error::SignatureError;

/// The maximum number of remembered signatures per directory, at about 50 bytes each (1 MB).
const MAX_SIGNATURES: usize = 20_000;

/// Identifies a signature among all signatures made with one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureId<'a> {
    Nonce(&'a str),
    /// Identifies a signature without a nonce: the part of the signature that an attacker cannot change.
    Signature(&'a [u8]),
}

#[derive(Debug, Default)]
pub(super) struct Replays {
    /// The expiry time of each signature (seconds since 1970), by a hash of its key ID and [`SignatureId`].
    seen: HashMap<[u8; 16], i64>,
}

impl Replays {
    /// Records a signature that is valid until `expires` (seconds since 1970). Returns an error if it was
    /// recorded before, or if the table is full: dropping an entry would let its signature be replayed.
    pub(super) fn record(
        &mut self,
        key_id: &str,
        identity: SignatureId<'_>,
        expires: i64,
        now: Timestamp,
    ) -> Result<(), SignatureError> {
        // No key ID contains a separator, so a nonce and a signature never have the same hash input.
        let (separator, identity) = match identity {
            SignatureId::Nonce(nonce) => (b"\n", nonce.as_bytes()),
            SignatureId::Signature(bytes) => (b"\0", bytes),
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(key_id.as_bytes()).update(separator).update(identity);
        let mut hash = [0; 16];
        hasher.finalize_xof().fill(&mut hash);
        if self.seen.len() >= MAX_SIGNATURES {
            self.seen.retain(|_, expires| *expires > now.as_second());
        }
        let is_known = self.seen.get(&hash).is_some_and(|expires| *expires > now.as_second());
        if is_known || self.seen.len() >= MAX_SIGNATURES {
            return Err(SignatureError::Replayed);
        }
        self.seen.insert(hash, expires);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::SignatureId::{Nonce, Signature};
    use super::*;

    #[test]
    fn a_signature_is_accepted_once() {
        let mut replays = Replays::default();
        for (key, identity, expires, now, expected) in [
            ("a", Nonce("1"), 100, 50, Ok(())),
            ("a", Nonce("1"), 100, 99, Err(SignatureError::Replayed)),
            ("b", Nonce("1"), 100, 99, Ok(())),
            ("a", Nonce("2"), 100, 99, Ok(())),
            ("a", Signature(b"1"), 100, 50, Ok(())),
            ("a", Signature(b"1"), 100, 99, Err(SignatureError::Replayed)),
            ("b", Signature(b"1"), 100, 99, Ok(())),
            ("a", Signature(b"2"), 100, 99, Ok(())),
            // The earlier signature with this nonce has expired, so this is a new one.
            ("a", Nonce("1"), 200, 100, Ok(())),
            ("a", Nonce("1"), 200, 101, Err(SignatureError::Replayed)),
        ] {
            assert_eq!(replays.record(key, identity, expires, at(now)), expected, "{key} {identity:?} {now}");
        }
    }

    #[test]
    fn a_full_table_drops_only_expired_signatures() {
        let mut replays = Replays::default();
        for number in 0..MAX_SIGNATURES {
            let expires = if number == 0 { 60 } else { 100 };
            let number = number.to_string();
            let identity = if number.len() % 2 == 0 { Nonce(&number) } else { Signature(number.as_bytes()) };
            assert_eq!(replays.record("a", identity, expires, at(50)), Ok(()));
        }
        for new in [Nonce("new"), Signature(b"new")] {
            assert_eq!(replays.record("a", new, 100, at(59)), Err(SignatureError::Replayed));
        }
        assert_eq!(replays.record("a", Signature(b"new"), 100, at(60)), Ok(()));
        assert_eq!(replays.record("a", Signature(b"1"), 100, at(60)), Err(SignatureError::Replayed));
        assert_eq!(replays.seen.len(), MAX_SIGNATURES);
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }
}
