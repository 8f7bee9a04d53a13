//! Tests the order of deliveries: as a function, against attacks, and in simulations of whole inboxes.

use frontdesk_inbox::submission::delivery::{Capacity, ChannelTarget, HIGH_VOLUME_RANK};
use frontdesk_inbox::testing::memory::MemoryInbox;
use jiff::Timestamp;
use uuid::Uuid;

use super::*;

mod pacing;
mod simulation;

/// The store does not fetch all due deliveries, so an attacker could hide a visitor's if it fetched too few.
#[test]
fn the_stores_candidates_are_enough_to_choose_as_if_all_were_fetched() {
    let mut inbox = MemoryInbox::default();
    for seed in 0..60 {
        let mut random = seed;
        let mut roll = |below: u64| {
            random = splitmix64(random);
            random % below
        };
        // Many deliveries of few ranks, or few of many.
        let (count, ranks) = (roll(120), 1 + roll(6));
        let mut all = Vec::new();
        for n in 0..count {
            let rank = [0, 1, 2, SUSPICIOUS_RANK, HIGH_VOLUME_RANK + 2, HIGH_VOLUME_RANK + 5];
            let found = DueDelivery {
                submission: Uuid::from_u128(u128::from(n) + 1),
                channel: "box".to_owned(),
                rank: rank[usize::try_from(roll(ranks)).expect("it is small")],
                due_at: Timestamp::from_millisecond(i64::try_from(roll(2000)).expect("it is small"))
                    .expect("it is a time"),
                is_sending: false,
                attempts: 0,
                failures: u32::from(roll(3) == 0),
                interrupted: 0,
            };
            inbox.queue(&found);
            all.push(found);
        }
        let now = Timestamp::from_millisecond(1000).expect("it is a time");
        all.retain(|found| found.due_at <= now);
        for turn in 0..10 {
            let any = 1 + usize::try_from(roll(6)).expect("it is small");
            let target = ChannelTarget { name: "box".to_owned(), destination: String::new() };
            let capacity = Capacity { any, retries: any / 2 };
            let request = ClaimRequest { target, capacity, turn: turn * 100 };
            let ids = |chosen: Vec<DueDelivery>| -> Vec<Uuid> {
                chosen.into_iter().map(|found| found.submission).collect()
            };
            for high_volume in [0, 2, usize::MAX] {
                let fetched = inbox.candidates(&request, high_volume, now);
                let expected = choose(&request, Candidates { due: all.clone(), high_volume });
                assert_eq!(ids(choose(&request, fetched)), ids(expected), "{seed} {turn} {high_volume}");
            }
        }
        inbox.clear();
    }
}
