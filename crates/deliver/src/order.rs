//! The order of deliveries: which of the due ones a channel sends next. Pure.
//!
//! Lower ranks come first (`intake::flood::rank` in `frontdesk-inbox`): a network's first submissions before
//! those of networks that have sent many, and suspicious ones last of all. Some attempts, drawn at random,
//! ignore the rank, because an order by rank alone lets an attacker delay other deliveries. The draws are
//! pseudorandom: if they were periodic, an attempt drawn for the oldest delivery would always be a retry, and
//! a stream of both would block other first attempts
//! (`an_endless_stream_of_first_submissions_blocks_no_other_delivery`).

use frontdesk_inbox::submission::delivery::{Candidates, ClaimRequest, DueDelivery, SUSPICIOUS_RANK};
use frontdesk_inbox::submission::schedule::splitmix64;

/// One in this many attempts, on average, is a retry, if one is due, so that an endless stream of first
/// submissions blocks no retry (`an_endless_stream_of_first_submissions_blocks_no_other_delivery`).
const RETRY_EVERY: u64 = 4;
/// One in this many attempts, on average, is for the delivery that has been due the longest, among first
/// attempts or among retries, regardless of its rank, so that an endless stream of first submissions blocks
/// no other first attempt (the test named at [`RETRY_EVERY`]).
const OLDEST_EVERY: u64 = 8;
/// One in this many attempts, on average, is for the newest delivery with the lowest rank, so that a visitor
/// who writes while a receiver is slow does not have to wait for the whole backlog (`pacing/attacks.rs`:
/// `content_on_which_a_receiver_hangs_delays_others_by_minutes`).
const NEWEST_EVERY: u64 = 2;

/// Chooses the deliveries to send now, in the order that this file describes: at most as many deliveries and
/// as many retries as the channel has capacity for, and at most `candidates.high_volume` paced ones
/// ([`DueDelivery::is_paced`]). Drops the other candidates.
pub fn choose(request: &ClaimRequest, candidates: Candidates) -> Vec<DueDelivery> {
    let Candidates { mut due, mut high_volume } = candidates;
    let mut retries = request.capacity.retries;
    let mut chosen = Vec::new();
    for attempt in 0..request.capacity.any {
        let may_begin = |found: &DueDelivery| {
            (!found.is_retry() || retries > 0) && (!found.is_paced() || high_volume > 0)
        };
        let attempt = request.earlier_attempts.wrapping_add(attempt);
        let Some(next) = next(&due, attempt, may_begin) else { break };
        let found = due.swap_remove(next);
        retries -= usize::from(found.is_retry());
        high_volume -= usize::from(found.is_paced());
        chosen.push(found);
    }
    chosen
}

/// The index of the delivery for attempt number `attempt`, which seeds the draws. `None` if no due delivery
/// may begin. The order is: not suspicious, first attempt, lowest rank, due the longest. Three draws vary it.
/// The first puts retries before all others. The second takes the delivery that has been due the longest
/// among all of the same kind (first attempts or retries). The third takes the newest of the same kind and
/// rank.
fn next(due: &[DueDelivery], attempt: usize, may_begin: impl Fn(&DueDelivery) -> bool) -> Option<usize> {
    let random = splitmix64(attempt as u64);
    let is_drawn = |every: u64| splitmix64(random ^ every).is_multiple_of(every);
    let (prefers_retry, prefers_oldest, prefers_newest) =
        (is_drawn(RETRY_EVERY), is_drawn(OLDEST_EVERY), is_drawn(NEWEST_EVERY));
    let all = || due.iter().enumerate().filter(|(_, found)| may_begin(found));
    // First attempts precede retries among suspicious deliveries and among all others, even if their networks
    // have sent more submissions. Without any one of the three sort keys, a test in `pacing/retries.rs`
    // fails.
    let place = |found: &DueDelivery| (found.rank / SUSPICIOUS_RANK, found.is_retry(), found.rank);
    let age = |found: &DueDelivery| (found.due_at, found.submission);
    let (_, first) = all().min_by_key(|(_, found)| (prefers_retry && !found.is_retry(), place(found)))?;
    let of_kind = all().filter(|(_, found)| found.is_retry() == first.is_retry());
    let next = if prefers_oldest {
        of_kind.min_by_key(|(_, found)| age(found))
    } else {
        let of_rank = of_kind.filter(|(_, found)| found.rank == first.rank);
        if prefers_newest {
            of_rank.max_by_key(|(_, found)| age(found))
        } else {
            of_rank.min_by_key(|(_, found)| age(found))
        }
    };
    next.map(|(index, _)| index)
}

#[cfg(test)]
mod tests;
