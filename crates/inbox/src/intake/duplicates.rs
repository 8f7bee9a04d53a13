//! Decides which submissions of a batch are new, which repeat an earlier one, and which are held because of a
//! flood. No function reads a clock or the database.
//!
//! Submissions are processed in order of arrival, as if each had been stored before the next one, so the
//! outcome does not depend on how arrivals are grouped into batches. A submission may repeat an earlier one,
//! its original, if their content hashes are equal and the original is young enough ([`MaxAges`]). The reuse
//! of an idempotency key for different content is only logged.
//!
//! A repeat must not be treated worse than a new submission:
//!
//! - If a configured channel should get the original but will not deliver it soon, the submission is new. If
//!   the original is not held but suspicious, only suspicious and held submissions are repeats.
//! - A submission that screening holds repeats a held original only if both have the same source, because
//!   the operator may discard everything from one source. The source of an unconfirmed original is ignored.
//! - A submission that is not held is new if the operator holds the original. Otherwise it releases a held
//!   original, or renews its confirmation if both need one. If the submission belongs to a flood, it does
//!   not release the original: if both have the same source, the flood then holds the original; if not, the
//!   submission is new.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::flood::{self, Rates};
use crate::store::{Hash, HoldCause, Original};

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts that occur in any combination")]
pub(crate) struct Candidate {
    pub id: Uuid,
    /// When the submission was received, as Unix time in milliseconds.
    pub received_at: i64,
    pub content: Hash,
    /// Whether this can repeat a submission with the same content that is older than [`MaxAges::window`].
    pub is_lasting: bool,
    /// The hash of the idempotency key that the sender sent, if there was one.
    pub key: Option<Hash>,
    pub form: String,
    pub source: Hash,
    pub network: Hash,
    /// Whether the submission can be delivered, or no configured channel would get it; see
    /// [`Original::is_deliverable`].
    pub is_deliverable: bool,
    /// Whether screening holds the submission.
    pub is_held: bool,
    pub is_suspicious: bool,
    /// Whether the visitor must confirm the address before the submission is delivered.
    pub needs_confirmation: bool,
}

/// The stored submissions that a batch may repeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// The newest submission with each content hash.
    pub contents: HashMap<Hash, Original>,
    /// When the newest submission with each idempotency key was received, as Unix time in milliseconds.
    pub keys: HashMap<Hash, i64>,
}

/// The outcome for a candidate: a new submission, or a repeat of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    New {
        /// Whether the idempotency key was used before with different content.
        reuses_key: bool,
        /// Why the submission is held, if it is; never [`HoldCause::Operator`].
        hold: HoldCause,
        /// The rank of the submission's deliveries; see [`flood::rank`].
        rank: i64,
    },
    /// A repeat of the submission with this id.
    Repeat(Uuid),
}

/// How a repeat changes the hold on its original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Eased {
    /// When the repeat was received, as Unix time in milliseconds.
    pub at: i64,
    /// Whether the original stays held, now only because of a flood. If false, the repeat releases it.
    pub is_flood: bool,
    /// Whether the original is suspicious after the repeat.
    pub is_suspicious: bool,
    /// The new rank of the original's deliveries. If the original was already counted for its network, its
    /// deliveries keep their old rank if that is lower.
    pub rank: i64,
    /// True if screening held the original, so it did not count towards its network's load.
    pub was_uncounted: bool,
}

/// A new submission is compared only with submissions and idempotency keys that are younger than this, in
/// milliseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct MaxAges<'a> {
    /// The maximum age of idempotency keys, and of submissions unless [`Candidate::is_lasting`] is set.
    pub window: i64,
    /// The maximum age of all submissions: half of the retention period. Retention would soon remove an older
    /// submission, and the only record of its repeat.
    pub lasting: i64,
    /// Replaces [`MaxAges::lasting`] for forms with their own retention period, by form name.
    pub own: BTreeMap<&'a str, i64>,
}

impl MaxAges<'_> {
    /// The maximum age of an original with the candidate's content, and that of idempotency keys. Neither
    /// exceeds half of the retention period.
    fn of(&self, candidate: &Candidate) -> (i64, i64) {
        let lasting = self.own.get(candidate.form.as_str()).copied().unwrap_or(self.lasting);
        let window = self.window.min(lasting);
        (if candidate.is_lasting { lasting } else { window }, window)
    }
}

/// The changes to make for a batch of submissions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// One fate for each candidate, in the same order.
    pub fates: Vec<Fate>,
    /// How many times the batch repeats each submission, whether stored earlier or in this batch.
    pub repeats: BTreeMap<Uuid, i64>,
    /// Held originals that a repeat releases, or that are now held only because of a flood.
    pub eased: BTreeMap<Uuid, Eased>,
    /// Held originals, and when their last held repeat was received, as Unix time in milliseconds. They count
    /// as held since then.
    pub held_again: BTreeMap<Uuid, i64>,
    /// Originals that are not held, each with the lowest rank ([`flood::rank`]) among its repeats from other
    /// sources.
    pub ranks: BTreeMap<Uuid, i64>,
    /// Unconfirmed originals, and when the last repeat that screening did not hold was received, as Unix time
    /// in milliseconds.
    pub renewed: BTreeMap<Uuid, i64>,
}

/// Decides the fate of each candidate. The candidates must be in order of arrival. Counts in `rates` the new
/// submissions that screening does not hold, and the repeats that may change the rank of their original.
pub(crate) fn decide(
    candidates: &[Candidate],
    mut known: Known,
    ages: &MaxAges<'_>,
    rates: &mut Rates,
) -> Decision {
    let mut decision = Decision::default();
    for candidate in candidates {
        let fate = decide_one(candidate, &mut known, ages, rates, &mut decision);
        decision.fates.push(fate);
    }
    decision
}

/// Decides the fate of one candidate by the rules at the top of this file: a repeat if `is_repeat` is true
/// for a young enough original, unless the repeat belongs to a flood and would release an original from
/// another source; otherwise new, and held by screening, by a flood or until its confirmation, whichever
/// applies first. Updates `known` and `rates` for the next candidates, and adds the changes to originals to
/// `decision`.
fn decide_one(
    candidate: &Candidate,
    known: &mut Known,
    ages: &MaxAges<'_>,
    rates: &mut Rates,
    decision: &mut Decision,
) -> Fate {
    let age = |earlier: i64| candidate.received_at.saturating_sub(earlier);
    let (most, window) = ages.of(candidate);
    let original =
        known.contents.get_mut(&candidate.content).filter(|original| age(original.received_at) < most);
    let has_original = original.is_some();
    let mut counted = None;
    if let Some(original) = original.filter(|original| is_repeat(candidate, original)) {
        // A repeat that needs no confirmation would be delivered if it were new, so it releases the original.
        let awaits_confirmation = original.hold == HoldCause::Unconfirmed && candidate.needs_confirmation;
        if original.hold == HoldCause::None || awaits_confirmation || candidate.is_held {
            record_repeat(candidate, original, rates, decision);
            return Fate::Repeat(original.id);
        }
        let load = rates.count(&candidate.form, candidate.network, candidate.received_at);
        if !load.is_flood || candidate.source == original.source {
            ease_hold(candidate, original, load, decision);
            return Fate::Repeat(original.id);
        }
        // The submission is new. `rates` has already counted it, so do not count it again below.
        counted = Some(load);
    }
    let key_used_at = candidate.key.and_then(|key| known.keys.insert(key, candidate.received_at));
    let (hold, network) = if candidate.is_held {
        (HoldCause::Screening, flood::NetworkLoad::default())
    } else {
        let count = || rates.count(&candidate.form, candidate.network, candidate.received_at);
        let load = counted.unwrap_or_else(count);
        let hold = match (load.is_flood, candidate.needs_confirmation) {
            (true, _) => HoldCause::Flood,
            (false, true) => HoldCause::Unconfirmed,
            (false, false) => HoldCause::None,
        };
        (hold, load.network)
    };
    let Candidate { id, received_at, is_suspicious, source, is_deliverable, .. } = *candidate;
    let original = Original { id, received_at, hold, is_suspicious, source, is_deliverable };
    known.contents.insert(candidate.content, original);
    Fate::New {
        reuses_key: !has_original && key_used_at.is_some_and(|used_at| age(used_at) < window),
        hold,
        rank: flood::rank(network, is_suspicious || candidate.is_held),
    }
}

/// Records a repeat that leaves the cause of its original's hold unchanged. Adds one to the original's
/// repeats, and:
///
/// - If the original is not held, counts a repeat from another source for its network. If the repeat's rank
///   is lower than that of the original's deliveries, they get it.
/// - If the original is unconfirmed, renews its confirmation, unless screening holds the repeat.
/// - Otherwise, the original counts as held since the repeat, so that it is kept as long as the repeat would
///   be.
fn record_repeat(candidate: &Candidate, original: &Original, rates: &mut Rates, decision: &mut Decision) {
    *decision.repeats.entry(original.id).or_default() += 1;
    if original.hold == HoldCause::None {
        // A repeat from the same source, for example after a double click, does not use up any allowance.
        if candidate.source == original.source {
            return;
        }
        let network = rates.count_for_network(&candidate.form, candidate.network, candidate.received_at);
        let rank = flood::rank(network, original.is_suspicious);
        let lowest = decision.ranks.entry(original.id).or_insert(rank);
        *lowest = rank.min(*lowest);
    } else if original.hold == HoldCause::Unconfirmed {
        // A repeat that screening holds triggers no further email: the address may be a third party's.
        if !candidate.is_held {
            let last = decision.renewed.entry(original.id).or_insert(candidate.received_at);
            *last = candidate.received_at.max(*last);
        }
    } else {
        let last = decision.held_again.entry(original.id).or_insert(candidate.received_at);
        *last = candidate.received_at.max(*last);
    }
}

/// Records a repeat that releases its held original or, if the repeat belongs to a flood, makes the flood the
/// cause of the original's hold. Also decides anew whether the original is suspicious, and its rank. Updates
/// `original` for the next candidates.
fn ease_hold(candidate: &Candidate, original: &mut Original, load: flood::Load, decision: &mut Decision) {
    *decision.repeats.entry(original.id).or_default() += 1;
    // A repeat must not mark its original as suspicious if screening found the original clean.
    let was_clean =
        matches!(original.hold, HoldCause::Flood | HoldCause::Unconfirmed) && !original.is_suspicious;
    original.is_suspicious = candidate.is_suspicious && !was_clean;
    let was_screened = original.hold == HoldCause::Screening;
    original.hold = if load.is_flood { HoldCause::Flood } else { HoldCause::None };
    let rank = flood::rank(load.network, original.is_suspicious);
    let earlier = decision.eased.get(&original.id);
    let eased = Eased {
        at: candidate.received_at,
        is_flood: load.is_flood,
        is_suspicious: original.is_suspicious,
        rank: earlier.map_or(rank, |earlier| earlier.rank.min(rank)),
        was_uncounted: was_screened || earlier.is_some_and(|earlier| earlier.was_uncounted),
    };
    decision.eased.insert(original.id, eased);
    decision.held_again.remove(&original.id);
}

/// Whether a submission counts as a repeat of a stored one with the same content. False if the original is
/// not deliverable ([`Original::is_deliverable`]), or if screening judged the candidate better than an
/// original that the candidate cannot release: one that is not held but suspicious, or one that the operator
/// holds. A candidate that screening holds repeats a held original from the same source only, or an
/// unconfirmed one. In a flood, `decide_one` makes some of these repeats new submissions.
fn is_repeat(candidate: &Candidate, original: &Original) -> bool {
    original.is_deliverable
        && match original.hold {
            // Counts as a repeat: the repeat or a confirmation of the address releases the original.
            HoldCause::Unconfirmed => true,
            HoldCause::None => candidate.is_held || candidate.is_suspicious || !original.is_suspicious,
            _ if candidate.is_held => candidate.source == original.source,
            // Counts as a repeat, which releases the original unless the repeat is in a flood (see
            // `decide_one`).
            HoldCause::Flood | HoldCause::Screening => true,
            HoldCause::Operator => false,
        }
}

#[cfg(test)]
mod tests;
