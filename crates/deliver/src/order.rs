//! The order of deliveries: which of the due ones a channel sends next. Pure.
//!
//! Lower ranks come first (`intake::flood::rank` in `frontdesk-inbox`): a network's first submissions before
//! those of networks that have sent many, and in either case suspicious ones last. First attempts precede
//! retries of the same class. Some attempts are drawn for other deliveries, because each order on its own
//! lets an attacker delay the rest. The draws are pseudorandom rather than periodic: if attempts begin one at
//! a time, retries and the receiver's refusals could otherwise alternate in step, and some deliveries would
//! never be sent.
//!
//! Each rule names the test that fails without it.

use std::cmp::Reverse;

use frontdesk_inbox::submission::delivery::{Candidate, Candidates, ClaimRequest, SUSPICIOUS_RANK};
use frontdesk_inbox::submission::schedule::splitmix64;

/// One in this many attempts, on average, is for the delivery of its kind that has been due the longest,
/// regardless of its rank, so that no delivery waits forever.
const OLDEST_EVERY: u64 = 8;
/// One in this many attempts, on average, is for the newest delivery with the lowest rank, so that a visitor who
/// writes while a receiver is slow does not have to wait for the whole backlog.
const NEWEST_EVERY: u64 = 2;
/// One in this many attempts, on average, is a retry, if one is due, so that first attempts cannot block retries.
const RETRY_EVERY: u64 = 4;

/// Chooses the deliveries to send now, one for each attempt that may begin.
pub fn choose(request: &ClaimRequest, candidates: Candidates) -> Vec<Candidate> {
    let Candidates { mut due, mut high_volume } = candidates;
    let mut retries = request.capacity.retries;
    let mut chosen = Vec::new();
    for attempt in 0..request.capacity.any {
        let may_begin =
            |found: &Candidate| (!found.is_retry() || retries > 0) && (!found.is_paced() || high_volume > 0);
        let draw = Draw::of_attempt(request.turn.wrapping_add(attempt));
        let Some(next) = next(&due, draw, may_begin) else { break };
        let found = due.swap_remove(next);
        retries -= usize::from(found.is_retry());
        high_volume -= usize::from(found.is_paced());
        chosen.push(found);
    }
    chosen
}

/// What an attempt is for.
#[derive(Clone, Copy, Debug)]
struct Draw {
    prefers_retry: bool,
    prefers_oldest: bool,
    prefers_newest: bool,
}

impl Draw {
    fn of_attempt(attempt: usize) -> Draw {
        let random = splitmix64(attempt as u64);
        let is_drawn = |every: u64| splitmix64(random ^ every).is_multiple_of(every);
        Draw {
            prefers_retry: is_drawn(RETRY_EVERY),
            prefers_oldest: is_drawn(OLDEST_EVERY),
            prefers_newest: is_drawn(NEWEST_EVERY),
        }
    }
}

/// The index of the delivery to send next.
fn next(due: &[Candidate], draw: Draw, may_begin: impl Fn(&Candidate) -> bool) -> Option<usize> {
    let all = || due.iter().enumerate().filter(|(_, found)| may_begin(found));
    // A class has the ranks of submissions that differ only in how many their networks have sent.
    let class = |found: &Candidate| found.rank / SUSPICIOUS_RANK;
    let key = |found: &Candidate| (class(found), found.is_retry(), found.rank);
    let (_, first) = all().min_by_key(|(_, found)| (draw.prefers_retry && !found.is_retry(), key(found)))?;
    let of_kind = all().filter(|(_, found)| found.is_retry() == first.is_retry());
    let next = if draw.prefers_oldest {
        of_kind.min_by_key(|(_, found)| (found.due_at, found.submission))
    } else {
        let of_rank = of_kind.filter(|(_, found)| found.rank == first.rank);
        if draw.prefers_newest && !first.is_retry() {
            of_rank.min_by_key(|(_, found)| Reverse((found.due_at, found.submission)))
        } else {
            of_rank.min_by_key(|(_, found)| (found.due_at, found.submission))
        }
    };
    next.map(|(index, _)| index)
}

#[cfg(test)]
mod tests;
