//! Makes the ids of submissions: UUIDs of version 7 (RFC 9562 §5.7), which ascend in the order in which they are made.
//!
//! Below the milliseconds are 42 bits that count up, from another random number in each millisecond, and 32 that are random in
//! each id. The system is asked for randomness once, and not for each id, which would be a system call.

use std::io;

use jiff::Timestamp;
use uuid::{Builder, Uuid};

use super::fingerprint::Secret;

/// How many bits count; the first one is clear at the beginning of a millisecond, so that there is room.
const COUNTER_BITS: u32 = 42;
/// How many of them come after the variant's bits.
const LOW_BITS: u32 = 30;

/// Makes ids. Two of these make different ones.
pub(super) struct Ids {
    /// Of the last id, since the Unix epoch.
    millisecond: u64,
    counter: u64,
    random: blake3::OutputReader,
    /// What is left of the last block of random numbers.
    left: Vec<u64>,
}

impl Ids {
    /// With randomness from the operating system.
    pub fn new() -> io::Result<Ids> {
        Ok(Ids::seeded(Secret::generate()?.as_bytes()))
    }

    fn seeded(seed: &[u8; 32]) -> Ids {
        let random = blake3::Hasher::new_keyed(seed).finalize_xof();
        Ids { millisecond: 0, counter: 0, random, left: Vec::new() }
    }

    /// The next one, for what came at that time. If the clock is behind the last id, that one's time goes on.
    pub fn next(&mut self, at: Timestamp) -> Uuid {
        let millisecond = u64::try_from(at.as_millisecond()).unwrap_or_default();
        self.counter += 1;
        let is_full = self.counter >> COUNTER_BITS > 0;
        if millisecond > self.millisecond || is_full {
            self.millisecond = millisecond.max(self.millisecond + u64::from(is_full));
            self.counter = self.draw() >> (u64::BITS - COUNTER_BITS + 1);
        }
        let (high, low) = (self.counter >> LOW_BITS, self.counter & ((1 << LOW_BITS) - 1));
        // From the end: 32 random bits, 30 of the counter, two for the variant, and the counter's first 12.
        let bits = u128::from(high) << 64 | u128::from(low) << 32 | u128::from(self.draw() >> 32);
        let bits: [u8; 16] = bits.to_be_bytes();
        let mut end = [0; 10];
        end.copy_from_slice(&bits[6..]);
        Builder::from_unix_timestamp_millis(self.millisecond, &end).into_uuid()
    }

    fn draw(&mut self) -> u64 {
        if self.left.is_empty() {
            let mut block = [0; 64];
            self.random.fill(&mut block);
            self.left.extend(block.as_chunks().0.iter().map(|eight| u64::from_le_bytes(*eight)));
        }
        self.left.pop().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use uuid::{Variant, Version};

    use super::*;

    const NOW: i64 = 1_800_000_000_123;

    #[test]
    fn an_id_tells_its_version_and_its_millisecond() {
        let id = Ids::new().unwrap().next(at(NOW));
        assert_eq!((id.get_version(), id.get_variant()), (Some(Version::SortRand), Variant::RFC4122));
        assert_eq!(millisecond(id), NOW);
    }

    #[test]
    fn ids_ascend_whatever_the_clock_does() {
        let mut ids = Ids::new().unwrap();
        let mut last = Uuid::nil();
        for step in 0..10_000i64 {
            // Forwards on the whole, and again and again a little back.
            let id = ids.next(at(NOW + step / 100 - step % 7));
            assert!(id > last, "{step}");
            last = id;
        }
        assert_eq!(millisecond(last), NOW + 99);
    }

    #[test]
    fn a_millisecond_that_is_full_borrows_from_the_next() {
        let mut ids = Ids::new().unwrap();
        let first = ids.next(at(NOW));
        ids.counter = (1 << COUNTER_BITS) - 2;
        let (last, next) = (ids.next(at(NOW)), ids.next(at(NOW)));
        assert!(first < last && last < next);
        assert_eq!([first, last, next].map(millisecond), [NOW, NOW, NOW + 1]);
    }

    #[test]
    fn no_id_leads_to_another() {
        let mut all = HashSet::new();
        for _ in 0..20 {
            let mut ids = Ids::new().unwrap();
            // The counter's beginning differs from one to the next, and the end in each.
            assert!(all.insert(ids.next(at(NOW)).as_u128() >> 32));
            assert_ne!(ids.next(at(NOW)).as_u128() << 96, ids.next(at(NOW)).as_u128() << 96);
        }
        let (mut one, mut same) = (Ids::seeded(&[7; 32]), Ids::seeded(&[7; 32]));
        let mut another = Ids::seeded(&[8; 32]);
        assert_eq!(one.next(at(NOW)), same.next(at(NOW)), "nothing but the seed decides");
        assert_ne!(one.next(at(NOW)), another.next(at(NOW)));
    }

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    fn millisecond(id: Uuid) -> i64 {
        let (seconds, nanos) = id.get_timestamp().unwrap().to_unix();
        i64::try_from(seconds * 1000 + u64::from(nanos) / 1_000_000).unwrap()
    }
}
