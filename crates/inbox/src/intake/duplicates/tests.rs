//! New submissions, repeats, and repeats that release a held submission.

use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::store::FormRate;
use crate::submission::delivery::SUSPICIOUS_RANK;
use frontdesk_limits::Quota;

const WINDOW: i64 = 1000;
const AGES: MaxAges<'_> = MaxAges { window: WINDOW, lasting: i64::MAX, own: BTreeMap::new() };
static NO_QUOTAS: BTreeMap<String, Quota> = BTreeMap::new();

/// Candidate `number`, received at this time with this content and possibly a key.
fn arrival(number: u128, received_at: i64, content: u8, key: Option<u8>) -> Candidate {
    Candidate {
        id: Uuid::from_u128(number),
        received_at,
        content: [content; 16],
        is_lasting: false,
        key: key.map(|key| [key; 16]),
        form: "contact".to_owned(),
        source: [0; 16],
        network: [0; 16],
        is_deliverable: true,
        is_held: false,
        is_suspicious: false,
        needs_confirmation: false,
    }
}

fn held(candidate: &Candidate) -> Candidate {
    Candidate { is_held: true, ..candidate.clone() }
}

fn suspicious(candidate: &Candidate) -> Candidate {
    Candidate { is_suspicious: true, ..candidate.clone() }
}

#[test]
fn only_a_clean_repeat_renews_an_unconfirmed_submission() {
    let clean = Candidate { needs_confirmation: true, ..arrival(2, 10, 1, None) };
    for (candidate, renewed) in
        [(clean.clone(), Some(10)), (elsewhere(&clean), Some(10)), (held(&elsewhere(&clean)), None)]
    {
        let decision = decide(&[candidate], stored(HoldCause::Unconfirmed));
        let id = Uuid::from_u128(1);
        assert_eq!(decision.fates, [Fate::Repeat(id)]);
        assert_eq!((decision.renewed.get(&id).copied(), decision.repeats.get(&id)), (renewed, Some(&1)));
        assert!(decision.eased.is_empty() && decision.held_again.is_empty());
    }
    let fates = decide(&[clean.clone(), held(&arrival(3, 10, 2, None))], Known::default()).fates;
    let holds: Vec<_> =
        fates.iter().map(|fate| if let Fate::New { hold, .. } = fate { Some(*hold) } else { None }).collect();
    assert_eq!(holds, [Some(HoldCause::Unconfirmed), Some(HoldCause::Screening)]);
}

/// The same candidate from a different source.
fn elsewhere(candidate: &Candidate) -> Candidate {
    Candidate { source: [9; 16], ..candidate.clone() }
}

/// A stored submission with content 1.
fn stored(hold: HoldCause) -> Known {
    let original = Original {
        id: Uuid::from_u128(1),
        received_at: 0,
        hold,
        is_suspicious: false,
        source: [0; 16],
        is_deliverable: true,
    };
    Known { contents: HashMap::from([([1; 16], original)]), ..Known::default() }
}

/// Like [`stored`], but no channel can deliver the submission.
fn undeliverable(hold: HoldCause) -> Known {
    let mut known = stored(hold);
    known.contents.values_mut().for_each(|original| original.is_deliverable = false);
    known
}

fn decide(candidates: &[Candidate], known: Known) -> Decision {
    super::decide(candidates, known, &AGES, &mut Rates::new(None, &NO_QUOTAS, i64::MAX))
}

/// The fates without the ranks of deliveries.
fn fates(candidates: &[Candidate], known: Known) -> Vec<Fate> {
    unranked(decide(candidates, known).fates)
}

fn unranked(fates: Vec<Fate>) -> Vec<Fate> {
    let without_rank = |fate| match fate {
        Fate::New { reuses_key, hold, .. } => Fate::New { reuses_key, hold, rank: 0 },
        repeat @ Fate::Repeat(_) => repeat,
    };
    fates.into_iter().map(without_rank).collect()
}

/// The released submissions, and when they are released.
fn released(decision: &Decision) -> Vec<(u128, i64)> {
    decision
        .eased
        .iter()
        .filter(|(_, eased)| !eased.is_flood)
        .map(|(id, eased)| (id.as_u128(), eased.at))
        .collect()
}

const NEW: Fate = Fate::New { reuses_key: false, hold: HoldCause::None, rank: 0 };
const MARKED: Fate = Fate::New { reuses_key: false, hold: HoldCause::None, rank: SUSPICIOUS_RANK };
const HELD: Fate = Fate::New { reuses_key: false, hold: HoldCause::Screening, rank: 0 };
const FIRST: Fate = Fate::Repeat(Uuid::from_u128(1));

#[test]
fn the_same_content_is_a_repeat_until_its_time_is_over() {
    let batch = [arrival(1, 0, 1, None), arrival(2, 999, 1, None), arrival(3, 1000, 1, None)];
    let decision = decide(&batch, Known::default());
    assert_eq!(unranked(decision.fates), [NEW, FIRST, NEW]);
    assert_eq!(decision.repeats, BTreeMap::from([(Uuid::from_u128(1), 1)]));
}

#[test]
fn content_that_lasts_is_a_repeat_however_late_it_comes() {
    let lasting = Candidate { is_lasting: true, ..arrival(2, 1000 * WINDOW, 1, None) };
    assert_eq!(fates(&[lasting], stored(HoldCause::None)), [FIRST]);
}

#[test]
fn a_key_never_makes_other_content_a_repeat() {
    let batch = [
        arrival(1, 0, 1, Some(9)),
        arrival(2, 1, 2, Some(9)),
        arrival(3, 2, 1, Some(9)),
        arrival(4, 3, 3, Some(8)),
    ];
    let reused = Fate::New { reuses_key: true, hold: HoldCause::None, rank: 0 };
    assert_eq!(fates(&batch, Known::default()), [NEW, reused, FIRST, NEW]);
    // The key does not count as reused after the window, or if the operator holds the same content.
    assert_eq!(
        fates(&[arrival(1, 0, 1, Some(9)), arrival(2, WINDOW, 2, Some(9))], Known::default()),
        [NEW, NEW]
    );
    let known = Known { keys: HashMap::from([([9; 16], 0)]), ..stored(HoldCause::Operator) };
    assert_eq!(fates(&[arrival(2, 1, 1, Some(9))], known), [NEW]);
}

#[test]
fn a_repeat_that_is_not_held_releases_what_screening_holds() {
    for (known, batch) in [
        (stored(HoldCause::Screening), vec![arrival(2, 5, 1, None)]),
        (Known::default(), vec![held(&arrival(1, 0, 1, None)), arrival(2, 5, 1, None)]),
    ] {
        let decision = decide(&batch, known);
        assert_eq!(decision.fates.last(), Some(&FIRST));
        assert_eq!(released(&decision), [(1, 5)]);
    }
}

#[test]
fn a_held_repeat_of_a_held_submission_has_the_same_source() {
    let one = held(&arrival(2, 5, 1, None));
    for hold in [HoldCause::Flood, HoldCause::Screening, HoldCause::Operator] {
        let decision = decide(&[one.clone(), held(&arrival(3, 4, 1, None))], stored(hold));
        assert_eq!((decision.fates, decision.eased), (vec![FIRST; 2], BTreeMap::new()), "{hold:?}");
        assert_eq!(decision.held_again, BTreeMap::from([(Uuid::from_u128(1), 5)]));
        let decision = decide(&[elsewhere(&one)], stored(hold));
        assert_eq!(
            (unranked(decision.fates), decision.held_again),
            (vec![HELD], BTreeMap::new()),
            "{hold:?}"
        );
    }
}

#[test]
fn a_held_repeat_of_what_is_delivered_only_counts_for_its_network() {
    let repeat = arrival(2, 5, 1, None);
    // A repeat from another source, even a held one, moves the delivery up to the rank of its own network.
    for (repeat, ranks) in [(&repeat, vec![]), (&elsewhere(&repeat), vec![(Uuid::from_u128(1), 0)])] {
        let decision = decide(&[held(repeat)], stored(HoldCause::None));
        assert_eq!(
            decision,
            Decision {
                fates: vec![FIRST],
                repeats: BTreeMap::from([(Uuid::from_u128(1), 1)]),
                ranks: ranks.into_iter().collect(),
                ..Decision::default()
            }
        );
    }
}

#[test]
fn an_undeliverable_original_absorbs_no_repeat() {
    for hold in [HoldCause::None, HoldCause::Flood, HoldCause::Screening, HoldCause::Operator] {
        let repeat = arrival(2, 5, 1, None);
        let batch = [repeat.clone(), Candidate { id: Uuid::from_u128(3), ..repeat.clone() }];
        let decision = decide(&batch, undeliverable(hold));
        assert_eq!(unranked(decision.fates), [NEW, Fate::Repeat(Uuid::from_u128(2))], "{hold:?}");
        assert_eq!(decision.eased, BTreeMap::new());
        assert_eq!(fates(&[held(&repeat)], undeliverable(hold)), [HELD], "{hold:?}");
    }
    let encrypted = Candidate { is_deliverable: false, ..arrival(1, 0, 1, None) };
    assert_eq!(fates(&[encrypted, arrival(2, 1, 1, None)], Known::default()), [NEW, NEW]);
}

#[test]
fn in_a_flood_a_repeat_is_held_by_itself_unless_its_source_is_the_same() {
    let mut rates = Rates::new(Some(Quota { per_minute: 1, per_hour: 1 }), &NO_QUOTAS, i64::MAX);
    let flood: Vec<Candidate> = (10..14).map(|n| arrival(n, 0, u8::try_from(n).unwrap(), None)).collect();
    super::decide(&flood, Known::default(), &AGES, &mut rates);
    let in_flood = Fate::New { reuses_key: false, hold: HoldCause::Flood, rank: 0 };
    for hold in [HoldCause::Flood, HoldCause::Screening] {
        let batch = [elsewhere(&arrival(2, 5, 1, None))];
        let decision = super::decide(&batch, stored(hold), &AGES, &mut rates);
        assert_eq!((unranked(decision.fates), decision.eased), (vec![in_flood], BTreeMap::new()), "{hold:?}");
        let batch = [arrival(2, 5, 1, None), held(&arrival(3, 6, 1, None))];
        let decision = super::decide(&batch, stored(hold), &AGES, &mut rates);
        assert_eq!(decision.fates, [FIRST, FIRST]);
        assert!(decision.eased[&Uuid::from_u128(1)].is_flood);
        assert_eq!(decision.held_again, BTreeMap::from([(Uuid::from_u128(1), 6)]));
    }
}

#[test]
fn an_operators_hold_stays_and_the_repeat_is_a_new_submission() {
    let decision = decide(&[arrival(2, 5, 1, None), arrival(3, 6, 1, None)], stored(HoldCause::Operator));
    assert_eq!(unranked(decision.fates), [NEW, Fate::Repeat(Uuid::from_u128(2))]);
    assert_eq!(decision.eased, BTreeMap::new());
}

#[test]
fn an_unsuspicious_repeat_of_a_marked_submission_is_kept_beside_it() {
    let batch = [
        suspicious(&arrival(1, 0, 1, None)),
        suspicious(&arrival(2, 1, 1, None)),
        arrival(3, 2, 1, None),
        suspicious(&arrival(4, 3, 1, None)),
    ];
    let decision = decide(&batch, Known::default());
    assert_eq!(decision.fates[0], MARKED);
    assert_eq!(unranked(decision.fates)[1..], [FIRST, NEW, Fate::Repeat(Uuid::from_u128(3))]);
}

#[test]
fn a_suspicious_repeat_releases_what_screening_holds_with_its_mark() {
    let decision = decide(&[suspicious(&arrival(2, 5, 1, None))], stored(HoldCause::Screening));
    assert_eq!(decision.fates, [FIRST]);
    let eased = decision.eased[&Uuid::from_u128(1)];
    assert!(eased.is_suspicious && !eased.is_flood && eased.rank >= SUSPICIOUS_RANK);
    // A submission that only a flood held was not suspicious, and a suspicious copy does not make it so.
    let decision = decide(&[suspicious(&arrival(2, 5, 1, None))], stored(HoldCause::Flood));
    assert!(!decision.eased[&Uuid::from_u128(1)].is_suspicious);
}

#[test]
fn in_a_flood_only_the_networks_that_cause_it_are_held() {
    let mut rates = Rates::new(Some(Quota { per_minute: 5, per_hour: 100 }), &NO_QUOTAS, i64::MAX);
    let mut flood: Vec<Candidate> = (1..=9).map(|n| arrival(n, 0, u8::try_from(n).unwrap(), None)).collect();
    // Screening holds this submission, so it does not count against the quota.
    flood.insert(0, held(&arrival(99, 0, 99, None)));
    let honest = Candidate { network: [1; 16], ..arrival(20, 0, 20, None) };
    // The same content as a submission that is held because of the flood, but from a different network.
    let copy = Candidate { network: [2; 16], ..arrival(21, 0, 9, None) };
    let batch = [flood, vec![honest, copy]].concat();
    let decision = super::decide(&batch, Known::default(), &AGES, &mut rates);
    let holds = decision.fates.iter().map(|fate| match fate {
        Fate::New { hold, .. } => Some(*hold),
        Fate::Repeat(_) => None,
    });
    let expected = [
        vec![Some(HoldCause::Screening)],
        vec![Some(HoldCause::None); 5],
        vec![Some(HoldCause::Flood); 4],
        vec![Some(HoldCause::None), None],
    ];
    assert_eq!(holds.collect::<Vec<_>>(), expected.concat());
    assert_eq!(released(&decision), [(9, 0)]);
}

/// The decisions so far, as a database would store them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stored {
    submissions: BTreeMap<Uuid, Kept>,
    fates: Vec<Fate>,
    forms: BTreeMap<String, FormRate>,
    networks: BTreeMap<(String, Hash), i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    content: Hash,
    key: Option<Hash>,
    received_at: i64,
    hold: HoldCause,
    held_at: i64,
    is_suspicious: bool,
    source: Hash,
    is_deliverable: bool,
    rank: i64,
    repeats: i64,
}

impl Stored {
    fn insert(&mut self, batch: &[Candidate]) {
        let mut known = Known::default();
        // In order of arrival, so that the newest remains.
        for (id, kept) in &self.submissions {
            let &Kept { received_at, hold, is_suspicious, source, is_deliverable, .. } = kept;
            let original = Original { id: *id, received_at, hold, is_suspicious, source, is_deliverable };
            known.contents.insert(kept.content, original);
            known.keys.extend(kept.key.map(|key| (key, kept.received_at)));
        }
        let mut rates = Rates {
            forms: self.forms.clone().into_iter().collect(),
            networks: self.networks.clone().into_iter().collect(),
            ..Rates::new(Some(Quota { per_minute: 4, per_hour: 8 }), &NO_QUOTAS, i64::MAX)
        };
        let decision = super::decide(batch, known, &AGES, &mut rates);
        self.forms = rates.forms.into_iter().collect();
        self.networks = rates.networks.into_iter().collect();
        for (candidate, fate) in batch.iter().zip(&decision.fates) {
            let &Candidate { content, key, received_at, is_suspicious, source, is_deliverable, .. } =
                candidate;
            if let Fate::New { hold, rank, .. } = *fate {
                let (held_at, repeats) = (received_at, 0);
                let kept = Kept {
                    content,
                    key,
                    received_at,
                    hold,
                    held_at,
                    is_suspicious,
                    source,
                    is_deliverable,
                    rank,
                    repeats,
                };
                self.submissions.insert(candidate.id, kept);
            }
        }
        for (id, times) in decision.repeats {
            self.submissions.get_mut(&id).expect("the original is stored").repeats += times;
        }
        for (id, eased) in decision.eased {
            let kept = self.submissions.get_mut(&id).expect("the eased submission is stored");
            kept.hold = if eased.is_flood { HoldCause::Flood } else { HoldCause::None };
            kept.held_at = eased.at;
            kept.is_suspicious = eased.is_suspicious;
            kept.rank = kept.rank.min(eased.rank);
        }
        for (id, at) in decision.held_again {
            let kept = self.submissions.get_mut(&id).expect("the held submission is stored");
            assert_ne!(kept.hold, HoldCause::None);
            kept.held_at = kept.held_at.max(at);
        }
        for (id, rank) in decision.ranks {
            let kept = self.submissions.get_mut(&id).expect("the ranked submission is stored");
            kept.rank = kept.rank.min(rank);
        }
        self.fates.extend(decision.fates);
    }
}

/// Submissions with three distinct contents from three networks. Each is unmarked, suspicious, or held by
/// screening.
fn arrivals() -> impl Strategy<Value = Vec<Candidate>> {
    // One in four is encrypted and cannot be delivered.
    let one = (0..3u8, proptest::option::of(10..13u8), 0..400i64, 0..3u8, 0..12u8);
    proptest::collection::vec(one, 0..40).prop_map(|all| {
        let mut now = 0;
        let candidate =
            |(number, (content, key, later, network, level)): (usize, (u8, Option<u8>, i64, u8, u8))| {
                now += later;
                Candidate {
                    source: [network; 16],
                    network: [network; 16],
                    is_deliverable: level < 9,
                    is_suspicious: level % 3 == 1,
                    is_held: level % 3 == 2,
                    ..arrival(number as u128 + 1, now, content, key)
                }
            };
        all.into_iter().enumerate().map(candidate).collect()
    })
}

proptest! {
    #[test]
    fn any_division_into_batches_comes_to_the_same(
        all in arrivals(),
        sizes in proptest::collection::vec(1..9usize, 40),
    ) {
        let (mut one_by_one, mut in_batches) = (Stored::default(), Stored::default());
        for candidate in all.chunks(1) {
            one_by_one.insert(candidate);
        }
        let mut rest: &[Candidate] = &all;
        for size in sizes {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            in_batches.insert(batch);
            rest = later;
        }
        prop_assert_eq!(one_by_one, in_batches);
    }

    #[test]
    fn no_submission_is_treated_worse_than_by_itself(
        all in arrivals(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut stored = Stored::default();
        let first: Range<usize> = 0..cut.index(all.len() + 1);
        stored.insert(&all[first.clone()]);
        // Meanwhile, a channel that has not delivered anything yet is renamed.
        for kept in stored.submissions.values_mut() {
            kept.is_deliverable = false;
        }
        stored.insert(&all[first.end..]);
        for (number, (candidate, fate)) in all.iter().zip(&stored.fates).enumerate() {
            let Fate::Repeat(original) = *fate else { continue };
            let kept = &stored.submissions[&original];
            prop_assert!(kept.is_deliverable || first.contains(&number), "{:?}", kept);
            // The operator may discard a source's held submissions, and those that have been held for a long
            // time.
            let is_held_for_itself = kept.source == candidate.source && kept.held_at >= candidate.received_at;
            prop_assert!(kept.hold == HoldCause::None || is_held_for_itself, "{:?}", kept);
            if !candidate.is_held {
                // If a flood holds the original, the end of the flood releases it.
                prop_assert!(matches!(kept.hold, HoldCause::None | HoldCause::Flood), "{:?}", kept);
                prop_assert!(candidate.is_suspicious || !kept.is_suspicious, "{:?}", kept);
            }
        }
    }
}
