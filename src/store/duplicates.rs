//! Decides which submissions of a batch are new, which repeat an earlier one, and which are held because of a flood. Pure.
//!
//! Submissions are decided in order of arrival. The outcome is the same as if each had been kept before the next one was looked at,
//! so it does not depend on how arrivals are grouped into batches.
//!
//! Two submissions are the same if their content hashes are equal (see [`Secret::content`](super::fingerprint::Secret::content)).
//! An idempotency key never makes different content a repeat: it only marks a submission whose key was used before.
//!
//! A submission only counts as a repeat if it is treated no worse than it would be by itself:
//!
//! - A held submission is released by a repeat that is not held.
//! - While a submission is held, only its own source repeats it: the operator may discard everything that one source has sent.
//! - A repeat of one that no channel delivers, or of a suspicious one without being suspicious itself, is a new submission.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::fingerprint::Hash;
use super::flood::{self, Rates};

/// A submission to be decided.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, in any combination")]
pub(super) struct Candidate {
    /// Its id, should it be new.
    pub id: Uuid,
    /// When it was received: Unix time in milliseconds.
    pub received_at: i64,
    /// Hash of its content.
    pub content: Hash,
    /// Whether the same content is a repeat for as long as the earlier submission is kept, and not only within the window.
    pub is_lasting: bool,
    /// Hash of the sender's idempotency key.
    pub key: Option<Hash>,
    /// The form's name.
    pub form: String,
    /// Hash of the source that it came from.
    pub source: Hash,
    /// Hash of the network that it came from.
    pub network: Hash,
    /// Whether a channel can deliver it, or none takes its form: see [`Original::is_deliverable`].
    pub is_deliverable: bool,
    /// Whether screening holds it.
    pub is_held: bool,
    /// Whether screening marks it as suspicious.
    pub is_suspicious: bool,
}

/// Why a submission is held back from delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// It is not held.
    None,
    /// It came in a flood, and is released when that ends.
    Flood,
    /// Screening holds it.
    Screening,
    /// The operator holds it.
    Operator,
}

/// A stored submission that a candidate may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Original {
    pub id: Uuid,
    /// Unix time in milliseconds.
    pub received_at: i64,
    pub hold: Hold,
    /// Whether it is marked as suspicious.
    pub is_suspicious: bool,
    /// Hash of the source that it came from.
    pub source: Hash,
    /// Whether it has been delivered, or would be delivered by a configured channel once it is not held. Also true if no configured
    /// channel takes its form.
    pub is_deliverable: bool,
}

/// What is stored already, as far as it concerns a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The newest submission with each content.
    pub contents: HashMap<Hash, Original>,
    /// When the newest submission with each idempotency key was received: Unix time in milliseconds.
    pub keys: HashMap<Hash, i64>,
}

/// What becomes of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is kept as a submission of its own.
    New {
        /// Whether its idempotency key was used before, for other content.
        reuses_key: bool,
        /// Whether it is held: never by the operator.
        hold: Hold,
        /// The rank of its deliveries.
        rank: i64,
    },
    /// It repeats this submission.
    Repeat(Uuid),
}

/// What a repeat changes about the hold of the submission that it repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Eased {
    /// When the repeat was received: Unix time in milliseconds.
    pub at: i64,
    /// Whether it is still held until a flood ends. Otherwise it is released.
    pub is_flood: bool,
    /// Whether it is marked as suspicious.
    pub is_suspicious: bool,
    /// The rank of its deliveries.
    pub rank: i64,
}

/// What a batch changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// One for each candidate, in their order.
    pub fates: Vec<Fate>,
    /// How often each submission was repeated, new ones included.
    pub repeats: BTreeMap<Uuid, i64>,
    /// Held submissions that a repeat which screening did not hold has released, or has left held only until a flood ends.
    pub eased: BTreeMap<Uuid, Eased>,
    /// Held submissions that were repeated by held ones, and when the last of these was received: Unix time in milliseconds. They count
    /// as held since then.
    pub held_again: BTreeMap<Uuid, i64>,
    /// Submissions that are not held, and the lowest rank that their repeats would have.
    pub ranks: BTreeMap<Uuid, i64>,
}

/// Decides a batch, in order of arrival. `window` says in milliseconds for how long content and keys are remembered. Submissions that
/// are to be delivered are counted in `rates`.
pub(super) fn decide(candidates: &[Candidate], mut known: Known, window: i64, rates: &mut Rates) -> Decision {
    let mut decision = Decision::default();
    for candidate in candidates {
        let fate = decide_one(candidate, &mut known, window, rates, &mut decision);
        decision.fates.push(fate);
    }
    decision
}

/// Updates `known` and `rates` by what this candidate changes.
fn decide_one(
    candidate: &Candidate,
    known: &mut Known,
    window: i64,
    rates: &mut Rates,
    decision: &mut Decision,
) -> Fate {
    let is_recent = |earlier: i64| candidate.received_at.saturating_sub(earlier) < window;
    let original = known
        .contents
        .get_mut(&candidate.content)
        .filter(|original| candidate.is_lasting || is_recent(original.received_at));
    let has_original = original.is_some();
    let mut counted = None;
    if let Some(original) = original.filter(|original| is_repeat(candidate, original)) {
        if original.hold == Hold::None || candidate.is_held {
            repeat(candidate, original, rates, decision);
            return Fate::Repeat(original.id);
        }
        let load = rates.count(&candidate.form, candidate.network, candidate.received_at);
        if !load.is_flood || candidate.source == original.source {
            ease(candidate, original, load, decision);
            return Fate::Repeat(original.id);
        }
        counted = Some(load);
    }
    let key_used_at = candidate.key.and_then(|key| known.keys.insert(key, candidate.received_at));
    let (hold, before) = if candidate.is_held {
        (Hold::Screening, 0)
    } else {
        let count = || rates.count(&candidate.form, candidate.network, candidate.received_at);
        let load = counted.unwrap_or_else(count);
        (if load.is_flood { Hold::Flood } else { Hold::None }, load.before)
    };
    let Candidate { id, received_at, is_suspicious, source, is_deliverable, .. } = *candidate;
    let original = Original { id, received_at, hold, is_suspicious, source, is_deliverable };
    known.contents.insert(candidate.content, original);
    Fate::New {
        reuses_key: !has_original && key_used_at.is_some_and(is_recent),
        hold,
        rank: flood::rank(before, is_suspicious || candidate.is_held),
    }
}

/// Counts a repeat that leaves the original held, or delivered, as it is.
fn repeat(candidate: &Candidate, original: &Original, rates: &mut Rates, decision: &mut Decision) {
    *decision.repeats.entry(original.id).or_default() += 1;
    if original.hold != Hold::None {
        let last = decision.held_again.entry(original.id).or_insert(candidate.received_at);
        *last = candidate.received_at.max(*last);
    } else if !candidate.is_held {
        let before = rates.count_for_network(&candidate.form, candidate.network, candidate.received_at);
        let rank = flood::rank(before, original.is_suspicious);
        let lowest = decision.ranks.entry(original.id).or_insert(rank);
        *lowest = rank.min(*lowest);
    }
}

/// Counts a repeat that releases the original, or leaves it held until a flood ends.
fn ease(candidate: &Candidate, original: &mut Original, load: flood::Load, decision: &mut Decision) {
    *decision.repeats.entry(original.id).or_default() += 1;
    // A submission held only by a flood must not become suspicious because of a later copy.
    let was_clean = original.hold == Hold::Flood && !original.is_suspicious;
    original.is_suspicious = candidate.is_suspicious && !was_clean;
    original.hold = if load.is_flood { Hold::Flood } else { Hold::None };
    let rank = flood::rank(load.before, original.is_suspicious);
    let eased = Eased {
        at: candidate.received_at,
        is_flood: load.is_flood,
        is_suspicious: original.is_suspicious,
        rank: decision.eased.get(&original.id).map_or(rank, |earlier| earlier.rank.min(rank)),
    };
    decision.eased.insert(original.id, eased);
    decision.held_again.remove(&original.id);
}

/// Whether a submission with the same content counts as a repeat.
fn is_repeat(candidate: &Candidate, original: &Original) -> bool {
    original.is_deliverable
        && match original.hold {
            Hold::None => candidate.is_held || candidate.is_suspicious || !original.is_suspicious,
            _ if candidate.is_held => candidate.source == original.source,
            // The repeat releases the original, unless it is itself part of a flood: see `decide_one`.
            Hold::Flood | Hold::Screening => true,
            Hold::Operator => false,
        }
}

#[cfg(test)]
mod tests;
