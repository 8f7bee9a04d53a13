//! Decides which submissions of a batch are new and which repeat an earlier one. Pure.
//!
//! Submissions are decided in order of arrival. The outcome is the same as if each had been kept before the next one was looked at,
//! so it does not depend on how arrivals are grouped into batches.
//!
//! Two submissions are the same if their content hashes are equal (see [`Secret::content`](super::fingerprint::Secret::content)).
//! An idempotency key never makes different content a repeat: it only marks a submission whose key was used before.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::fingerprint::Hash;

/// A submission to be decided.
#[derive(Clone, Debug)]
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
    /// Whether screening holds it.
    pub is_held: bool,
}

/// Who holds a submission back from delivery, if anybody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    None,
    Screening,
    Operator,
}

/// A stored submission that a candidate may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Original {
    pub id: Uuid,
    /// Unix time in milliseconds.
    pub received_at: i64,
    pub hold: Hold,
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
    },
    /// It repeats this submission.
    Repeat(Uuid),
}

/// What a batch changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// One for each candidate, in their order.
    pub fates: Vec<Fate>,
    /// How often each submission was repeated, new ones included.
    pub repeats: BTreeMap<Uuid, i64>,
    /// Submissions that screening held and that are delivered now, because a repeat was not held; with the time of that repeat.
    pub released: BTreeMap<Uuid, i64>,
}

/// Decides a batch, in order of arrival. `window` says in milliseconds for how long content and keys are remembered.
pub(super) fn decide(candidates: &[Candidate], mut known: Known, window: i64) -> Decision {
    let mut decision = Decision::default();
    for candidate in candidates {
        let fate = decide_one(candidate, &mut known, window, &mut decision);
        decision.fates.push(fate);
    }
    decision
}

/// Updates `known` by what this candidate changes.
fn decide_one(candidate: &Candidate, known: &mut Known, window: i64, decision: &mut Decision) -> Fate {
    let is_recent = |earlier: i64| candidate.received_at.saturating_sub(earlier) < window;
    let original = known
        .contents
        .get_mut(&candidate.content)
        .filter(|original| candidate.is_lasting || is_recent(original.received_at));
    let has_original = original.is_some();
    // A held submission is not delivered, so it must not absorb a repeat that would be. If screening holds it, the repeat releases it.
    // If the operator does, it stays held and the repeat becomes a submission of its own.
    if let Some(original) = original.filter(|original| candidate.is_held || original.hold != Hold::Operator) {
        if original.hold == Hold::Screening && !candidate.is_held {
            original.hold = Hold::None;
            decision.released.insert(original.id, candidate.received_at);
        }
        *decision.repeats.entry(original.id).or_default() += 1;
        return Fate::Repeat(original.id);
    }
    let key_used_at = candidate.key.and_then(|key| known.keys.insert(key, candidate.received_at));
    let hold = if candidate.is_held { Hold::Screening } else { Hold::None };
    let original = Original { id: candidate.id, received_at: candidate.received_at, hold };
    known.contents.insert(candidate.content, original);
    Fate::New { reuses_key: !has_original && key_used_at.is_some_and(is_recent) }
}

#[cfg(test)]
mod tests;
