//! The order of deliveries: which of the due ones a channel sends next. Pure.
//!
//! Lower ranks come first (`intake::flood::rank` in `frontdesk-inbox`): a network's first submissions before
//! those of networks that have sent many, and in either case suspicious ones last. Some attempts are drawn for
//! other deliveries, because an order by rank alone lets an attacker delay the rest. The draws are pseudorandom
//! rather than periodic: if attempts begin one at a time, they and the receiver's refusals could otherwise
//! alternate in step, and some deliveries would never be sent.

use frontdesk_inbox::submission::delivery::{Candidates, ClaimRequest, DueDelivery, SUSPICIOUS_RANK};
use frontdesk_inbox::submission::schedule::splitmix64;

/// One in this many attempts, on average, is for the delivery that has been due the longest, regardless of its
/// rank, so that no delivery waits forever.
const OLDEST_EVERY: u64 = 8;
/// One in this many attempts, on average, is for the newest delivery with the lowest rank, so that a visitor who
/// writes while a receiver is slow does not have to wait for the whole backlog.
const NEWEST_EVERY: u64 = 2;

/// Chooses the deliveries to send now, one for each attempt that may begin.
pub fn choose(request: &ClaimRequest, candidates: Candidates) -> Vec<DueDelivery> {
    let Candidates { mut due, mut high_volume } = candidates;
    let mut retries = request.capacity.retries;
    let mut chosen = Vec::new();
    for attempt in 0..request.capacity.any {
        let may_begin = |found: &DueDelivery| {
            (!found.is_retry() || retries > 0) && (!found.is_paced() || high_volume > 0)
        };
        let attempt = request.turn.wrapping_add(attempt);
        let Some(next) = next(&due, attempt, may_begin) else { break };
        let found = due.swap_remove(next);
        retries -= usize::from(found.is_retry());
        high_volume -= usize::from(found.is_paced());
        chosen.push(found);
    }
    chosen
}

/// The index of the delivery that the attempt with this number is for.
fn next(due: &[DueDelivery], attempt: usize, may_begin: impl Fn(&DueDelivery) -> bool) -> Option<usize> {
    let random = splitmix64(attempt as u64);
    let is_drawn = |every: u64| splitmix64(random ^ every).is_multiple_of(every);
    let all = || due.iter().enumerate().filter(|(_, found)| may_begin(found));
    let age = |found: &DueDelivery| (found.due_at, found.submission);
    if is_drawn(OLDEST_EVERY) {
        return all().min_by_key(|(_, found)| age(found)).map(|(index, _)| index);
    }
    // First attempts precede retries of the same class: ranks that differ only in how many submissions the
    // networks have sent.
    let place = |found: &DueDelivery| (found.rank / SUSPICIOUS_RANK, found.is_retry(), found.rank);
    let first = all().map(|(_, found)| place(found)).min()?;
    let of_place = all().filter(|(_, found)| place(found) == first);
    let next = if is_drawn(NEWEST_EVERY) {
        of_place.max_by_key(|(_, found)| age(found))
    } else {
        of_place.min_by_key(|(_, found)| age(found))
    };
    next.map(|(index, _)| index)
}

#[cfg(test)]
mod tests;
