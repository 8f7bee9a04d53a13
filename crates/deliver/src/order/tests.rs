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
            let all_ranks = [0, 1, 2, SUSPICIOUS_RANK, HIGH_VOLUME_RANK + 2, HIGH_VOLUME_RANK + 5];
            let rank = all_ranks[usize::try_from(roll(ranks)).expect("it is small")];
            let (failures, due_at) = (u32::from(roll(3) == 0), roll(2000).cast_signed());
            let found = due(u128::from(n) + 1, rank, failures, due_at);
            inbox.queue(&found);
            all.push(found);
        }
        let now = Timestamp::from_millisecond(1000).expect("it is a time");
        all.retain(|found| found.due_at <= now);
        for turn in 0..10 {
            let any = 1 + usize::try_from(roll(6)).expect("it is small");
            let mut request = request(turn * 100, any);
            request.capacity.retries = any / 2;
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

/// An attacker with enough networks always has first submissions that are due, and retries of others.
#[test]
fn an_endless_stream_of_first_submissions_blocks_no_other_delivery() {
    for (rank, failures) in [(HIGH_VOLUME_RANK + 3, 0), (SUSPICIOUS_RANK, 0), (2, 0), (0, 1)] {
        let other = due(u128::MAX, rank, failures, 0);
        let is_sent = |turn: i64| {
            let stream =
                (0..8).map(|n| due(u128::from(turn.unsigned_abs()) * 8 + n, 0, u32::from(n > 3), turn + 1));
            let request = request(usize::try_from(turn).expect("it is small"), 1);
            let due = stream.chain([other.clone()]).collect();
            choose(&request, Candidates { due, high_volume: 1 }) == [other.clone()]
        };
        assert!((0..99).any(is_sent), "{rank} {failures}");
    }
}

#[test]
fn ranks_decide_unless_an_attempt_is_drawn_for_another_delivery() {
    // In this order: by rank, a retry after first attempts of its class, and suspicious ones last.
    let ranks = [(0, 0), (1, 0), (0, 1), (SUSPICIOUS_RANK, 0), (HIGH_VOLUME_RANK, 0)];
    let all: Vec<DueDelivery> =
        (1..).zip(ranks).map(|(id, (rank, failures))| due(id, rank, failures, 0)).collect();
    let reversed = all.iter().rev().cloned().collect();
    assert_eq!(choose(&request(1, 5), Candidates { due: reversed, high_volume: 1 }), all);
    let paced = choose(&request(1, 5), Candidates { due: all.clone(), high_volume: 0 });
    assert_eq!(paced, all[..4], "the pace permits no attempt for a high-volume network");
}

fn request(earlier_attempts: usize, any: usize) -> ClaimRequest {
    let target = ChannelTarget { name: "box".to_owned(), destination: String::new() };
    ClaimRequest { target, capacity: Capacity { any, retries: any }, earlier_attempts }
}

fn due(id: u128, rank: i64, failures: u32, due_at: i64) -> DueDelivery {
    DueDelivery {
        submission: Uuid::from_u128(id),
        channel: "box".to_owned(),
        rank,
        due_at: Timestamp::from_millisecond(due_at).expect("it is a time"),
        is_sending: false,
        attempts: failures,
        failures,
        interrupted: 0,
    }
}
