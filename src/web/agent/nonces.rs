//! Which nonces were seen: whoever has caught a signed request cannot send it again as if it were the agent's own.

use std::collections::HashMap;
use std::fmt;

use jiff::Timestamp;

use super::Why;

/// The most nonces of one directory's agents that are remembered, at about 50 bytes each.
const MAX_NONCES: usize = 20_000;

/// The nonces of signatures that have not expired.
#[derive(Default)]
pub(super) struct Nonces {
    /// When what is seen expires, by a hash of key and nonce.
    seen: HashMap<[u8; 16], i64>,
}

impl Nonces {
    /// Takes note of a nonce, which was signed by this key and is valid until `expires` (seconds since 1970).
    ///
    /// # Errors
    ///
    /// [`Why::Replayed`] if it was seen before. Where there is no room nobody can say whether it was, and it counts as seen: what is
    /// forgotten instead could be sent again.
    pub(super) fn take(
        &mut self,
        key_id: &str,
        nonce: &str,
        expires: i64,
        now: Timestamp,
    ) -> Result<(), Why> {
        let mut hasher = blake3::Hasher::new();
        // A thumbprint has no line feed.
        hasher.update(key_id.as_bytes()).update(b"\n").update(nonce.as_bytes());
        let mut hash = [0; 16];
        hasher.finalize_xof().fill(&mut hash);
        if self.seen.len() >= MAX_NONCES {
            self.seen.retain(|_, expires| *expires > now.as_second());
        }
        let is_known = self.seen.get(&hash).is_some_and(|expires| *expires > now.as_second());
        if is_known || self.seen.len() >= MAX_NONCES {
            return Err(Why::Replayed);
        }
        self.seen.insert(hash, expires);
        Ok(())
    }
}

/// How many there are.
impl fmt::Debug for Nonces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonces({})", self.seen.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_counts_once_while_its_signature_is_valid() {
        let mut nonces = Nonces::default();
        for (key, nonce, expires, now, expected) in [
            ("a", "1", 100, 50, Ok(())),
            ("a", "1", 100, 99, Err(Why::Replayed)),
            ("b", "1", 100, 99, Ok(())),
            ("a", "2", 100, 99, Ok(())),
            // The signature that had it before has expired: this is another one.
            ("a", "1", 200, 100, Ok(())),
            ("a", "1", 200, 101, Err(Why::Replayed)),
        ] {
            assert_eq!(nonces.take(key, nonce, expires, at(now)), expected, "{key} {nonce} {now}");
        }
    }

    #[test]
    fn a_full_memory_forgets_only_what_has_expired() {
        let mut nonces = Nonces::default();
        for number in 0..MAX_NONCES {
            let expires = if number == 0 { 60 } else { 100 };
            assert_eq!(nonces.take("a", &number.to_string(), expires, at(50)), Ok(()));
        }
        assert_eq!(nonces.take("a", "new", 100, at(59)), Err(Why::Replayed));
        assert_eq!(nonces.take("a", "new", 100, at(60)), Ok(()));
        assert_eq!(nonces.take("a", "1", 100, at(60)), Err(Why::Replayed));
        assert_eq!(nonces.seen.len(), MAX_NONCES);
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }
}
