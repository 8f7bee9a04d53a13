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
    /// Until when its content stands for it: Unix time in milliseconds, `None` for as long as the submission is kept.
    pub content_expires_at: Option<i64>,
    /// Hash of the sender's idempotency key, and until when it is remembered.
    pub key: Option<(Hash, i64)>,
    /// Whether screening holds it.
    pub is_held: bool,
}

/// A hash and the submission that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub submission: Uuid,
    /// Unix time in milliseconds; `None` if it never expires.
    pub expires_at: Option<i64>,
}

/// Who holds a submission back from delivery, if anybody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    None,
    Screening,
    Operator,
}

/// What is stored already, as far as it concerns a batch.
#[derive(Default)]
pub(super) struct Known {
    /// The fingerprints among the candidates' hashes.
    pub fingerprints: HashMap<Hash, Fingerprint>,
    /// The submissions that these stand for. A fingerprint can outlive its submission, and then it stands for nothing.
    pub submissions: HashMap<Uuid, Hold>,
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
    /// Fingerprints that were not stored.
    pub added: BTreeMap<Hash, Fingerprint>,
    /// Stored fingerprints that stand for another submission from now on.
    pub changed: BTreeMap<Hash, Fingerprint>,
    /// How often each submission was repeated, new ones included.
    pub repeats: BTreeMap<Uuid, i64>,
    /// Submissions that screening held and that are delivered now, because a repeat was not held; with the time of that repeat.
    pub released: BTreeMap<Uuid, i64>,
}

/// Decides a batch, in order of arrival.
pub(super) fn decide(candidates: &[Candidate], known: Known) -> Decision {
    let mut work = Work { known, decision: Decision::default() };
    for candidate in candidates {
        let fate = work.fate(candidate);
        work.decision.fates.push(fate);
    }
    work.decision
}

/// A batch under decision: `known` includes what the candidates so far have changed.
struct Work {
    known: Known,
    decision: Decision,
}

impl Work {
    fn fate(&mut self, candidate: &Candidate) -> Fate {
        if let Some((original, hold)) = self.original(&candidate.content, candidate.received_at) {
            // A held submission is not delivered, so it must not absorb a repeat that would be. If screening holds it, the repeat
            // releases it. If the operator does, it stays held and the repeat becomes a submission of its own.
            let is_absorbed = candidate.is_held || hold != Hold::Operator;
            if is_absorbed {
                if hold == Hold::Screening && !candidate.is_held {
                    self.known.submissions.insert(original, Hold::None);
                    self.decision.released.insert(original, candidate.received_at);
                }
                *self.decision.repeats.entry(original).or_default() += 1;
                self.remember_key(candidate, original);
                return Fate::Repeat(original);
            }
        }
        let reuses_key =
            candidate.key.is_some_and(|(key, _)| self.original(&key, candidate.received_at).is_some());
        let hold = if candidate.is_held { Hold::Screening } else { Hold::None };
        self.known.submissions.insert(candidate.id, hold);
        self.remember(candidate.content, candidate.id, candidate.content_expires_at);
        self.remember_key(candidate, candidate.id);
        Fate::New { reuses_key }
    }

    /// The submission that a hash stands for at that time.
    fn original(&self, hash: &Hash, at: i64) -> Option<(Uuid, Hold)> {
        let fingerprint = self.known.fingerprints.get(hash)?;
        let is_current = fingerprint.expires_at.is_none_or(|expires_at| expires_at > at);
        let hold = self.known.submissions.get(&fingerprint.submission).filter(|_| is_current)?;
        Some((fingerprint.submission, *hold))
    }

    /// Unless the key stands for that submission already: then its time is not prolonged.
    fn remember_key(&mut self, candidate: &Candidate, submission: Uuid) {
        let Some((key, expires_at)) = candidate.key else { return };
        if self.original(&key, candidate.received_at).is_none_or(|(original, _)| original != submission) {
            self.remember(key, submission, Some(expires_at));
        }
    }

    fn remember(&mut self, hash: Hash, submission: Uuid, expires_at: Option<i64>) {
        let fingerprint = Fingerprint { submission, expires_at };
        let before = self.known.fingerprints.insert(hash, fingerprint);
        let is_added = before.is_none() || self.decision.added.contains_key(&hash);
        let list = if is_added { &mut self.decision.added } else { &mut self.decision.changed };
        list.insert(hash, fingerprint);
    }
}

#[cfg(test)]
mod tests;
