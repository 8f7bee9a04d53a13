//! Generates the ids of submissions: version 7 UUIDs (RFC 9562 §5.7) in ascending order.
//!
//! The milliseconds are followed by a 42-bit counter, which starts at a random number in each millisecond,
//! and by 32 random bits. The random numbers come from a generator in this process, because system calls
//! would be slow.

use jiff::Timestamp;
use uuid::{ContextV7, Uuid};

/// Generates ids that no other generator produces.
#[derive(Default)]
pub(crate) struct Ids(ContextV7);

impl Ids {
    /// Returns the next id, for a submission that arrived at `at`. If `at` is earlier than the last id's
    /// time, that time is reused; if the counter of a millisecond is exhausted, the next millisecond is used.
    pub fn next(&mut self, at: Timestamp) -> Uuid {
        let seconds = u64::try_from(at.as_second()).unwrap_or_default();
        let nanoseconds = u32::try_from(at.subsec_nanosecond()).unwrap_or_default();
        Uuid::new_v7(uuid::Timestamp::from_unix(&self.0, seconds, nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use uuid::{Variant, Version};

    use super::*;

    const NOW: i64 = 1_800_000_000_123;

    #[test]
    fn an_id_has_its_version_and_its_millisecond() {
        let id = Ids::default().next(at(NOW));
        assert_eq!((id.get_version(), id.get_variant()), (Some(Version::SortRand), Variant::RFC4122));
        assert_eq!(millisecond(id), NOW);
    }

    #[test]
    fn ids_ascend_whatever_the_clock_does() {
        let mut ids = Ids::default();
        let mut last = Uuid::nil();
        for step in 0..10_000i64 {
            // The clock mostly moves forwards, and sometimes slightly backwards.
            let id = ids.next(at(NOW + step / 100 - step % 7));
            assert!(id > last, "{step}");
            last = id;
        }
        assert_eq!(millisecond(last), NOW + 99);
    }

    #[test]
    fn no_id_leads_to_another() {
        let mut all = HashSet::new();
        for _ in 0..20 {
            let mut ids = Ids::default();
            // The counter's start differs between generators, and the last bits between ids.
            assert!(all.insert(ids.next(at(NOW)).as_u128() >> 32));
            assert_ne!(ids.next(at(NOW)).as_u128() << 96, ids.next(at(NOW)).as_u128() << 96);
        }
    }

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    fn millisecond(id: Uuid) -> i64 {
        let (seconds, nanos) = id.get_timestamp().unwrap().to_unix();
        i64::try_from(seconds * 1000 + u64::from(nanos) / 1_000_000).unwrap()
    }
}
