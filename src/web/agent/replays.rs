//! Which signatures have counted already: an intercepted request cannot be sent again as the agent's own.

use std::collections::HashMap;
use std::fmt;

use jiff::Timestamp;

use super::Why;

/// The most signatures of one directory's agents that are remembered, at about 50 bytes each.
const MAX_SIGNATURES: usize = 20_000;

/// What tells a signature from the others of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// The nonce that it covers.
    Nonce(&'a str),
    /// The part of a signature without a nonce that cannot be changed.
    Signature(&'a [u8]),
}

/// The signatures that have counted and have not expired.
#[derive(Default)]
pub(super) struct Replays {
    /// When a signature expires, by a hash of its key and its identity.
    seen: HashMap<[u8; 16], i64>,
}

impl Replays {
    /// Records a signature by this key that is valid until `expires` (seconds since 1970).
    ///
    /// # Errors
    ///
    /// [`Why::Replayed`] if it was recorded before. A full memory refuses every new signature in the same way, until some have expired:
    /// if it forgot one instead, that one could be sent again.
    pub(super) fn record(
        &mut self,
        key_id: &str,
        identity: Identity<'_>,
        expires: i64,
        now: Timestamp,
    ) -> Result<(), Why> {
        // A thumbprint has neither a line feed nor a zero byte.
        let (separator, identity) = match identity {
            Identity::Nonce(nonce) => (b"\n", nonce.as_bytes()),
            Identity::Signature(bytes) => (b"\0", bytes),
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
            return Err(Why::Replayed);
        }
        self.seen.insert(hash, expires);
        Ok(())
    }
}

/// How many there are.
impl fmt::Debug for Replays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replays({})", self.seen.len())
    }
}

#[cfg(test)]
mod tests {
    use super::Identity::{Nonce, Signature};
    use super::*;

    #[test]
    fn a_signature_counts_once_while_it_is_valid() {
        let mut replays = Replays::default();
        for (key, identity, expires, now, expected) in [
            ("a", Nonce("1"), 100, 50, Ok(())),
            ("a", Nonce("1"), 100, 99, Err(Why::Replayed)),
            ("b", Nonce("1"), 100, 99, Ok(())),
            ("a", Nonce("2"), 100, 99, Ok(())),
            ("a", Signature(b"1"), 100, 50, Ok(())),
            ("a", Signature(b"1"), 100, 99, Err(Why::Replayed)),
            ("b", Signature(b"1"), 100, 99, Ok(())),
            ("a", Signature(b"2"), 100, 99, Ok(())),
            // The signature that had this nonce before has expired: this is another one.
            ("a", Nonce("1"), 200, 100, Ok(())),
            ("a", Nonce("1"), 200, 101, Err(Why::Replayed)),
        ] {
            assert_eq!(replays.record(key, identity, expires, at(now)), expected, "{key} {identity:?} {now}");
        }
    }

    #[test]
    fn a_full_memory_forgets_only_what_has_expired() {
        let mut replays = Replays::default();
        for number in 0..MAX_SIGNATURES {
            let expires = if number == 0 { 60 } else { 100 };
            let number = number.to_string();
            let identity = if number.len() % 2 == 0 { Nonce(&number) } else { Signature(number.as_bytes()) };
            assert_eq!(replays.record("a", identity, expires, at(50)), Ok(()));
        }
        for new in [Nonce("new"), Signature(b"new")] {
            assert_eq!(replays.record("a", new, 100, at(59)), Err(Why::Replayed));
        }
        assert_eq!(replays.record("a", Signature(b"new"), 100, at(60)), Ok(()));
        assert_eq!(replays.record("a", Signature(b"1"), 100, at(60)), Err(Why::Replayed));
        assert_eq!(replays.seen.len(), MAX_SIGNATURES);
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }
}
