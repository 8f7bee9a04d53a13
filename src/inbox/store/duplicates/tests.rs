//! What is new, what repeats an earlier submission, and what releases one.

use std::ops::Range;

use proptest::prelude::*;

use super::*;

const WINDOW: i64 = 1000;

/// A submission that arrives as number `number`, at that time, with this content and perhaps a key.
fn arrival(number: u128, received_at: i64, content: u8, key: Option<u8>) -> Candidate {
    Candidate {
        id: Uuid::from_u128(number),
        received_at,
        content: [content; 16],
        is_lasting: false,
        key: key.map(|key| [key; 16]),
        is_held: false,
    }
}

fn held(candidate: &Candidate) -> Candidate {
    Candidate { is_held: true, ..candidate.clone() }
}

/// A stored submission with content 1.
fn stored(hold: Hold) -> Known {
    let original = Original { id: Uuid::from_u128(1), received_at: 0, hold };
    Known { contents: HashMap::from([([1; 16], original)]), ..Known::default() }
}

fn decide(candidates: &[Candidate], known: Known) -> Decision {
    super::decide(candidates, known, WINDOW)
}

const NEW: Fate = Fate::New { reuses_key: false };
const FIRST: Fate = Fate::Repeat(Uuid::from_u128(1));

#[test]
fn the_same_content_is_a_repeat_until_its_time_is_over() {
    let batch = [arrival(1, 0, 1, None), arrival(2, 999, 1, None), arrival(3, 1000, 1, None)];
    let decision = decide(&batch, Known::default());
    assert_eq!(decision.fates, [NEW, FIRST, NEW]);
    assert_eq!(decision.repeats, BTreeMap::from([(Uuid::from_u128(1), 1)]));
}

#[test]
fn content_that_lasts_is_a_repeat_however_late_it_comes() {
    let lasting = Candidate { is_lasting: true, ..arrival(2, 1000 * WINDOW, 1, None) };
    assert_eq!(decide(&[lasting], stored(Hold::None)).fates, [FIRST]);
}

#[test]
fn a_key_never_makes_other_content_a_repeat() {
    let batch = [
        arrival(1, 0, 1, Some(9)),
        arrival(2, 1, 2, Some(9)),
        arrival(3, 2, 1, Some(9)),
        arrival(4, 3, 3, Some(8)),
    ];
    let reused = Fate::New { reuses_key: true };
    assert_eq!(decide(&batch, Known::default()).fates, [NEW, reused, FIRST, NEW]);
    // Its time is over; and the operator holds the same content under the same key.
    assert_eq!(
        decide(&[arrival(1, 0, 1, Some(9)), arrival(2, WINDOW, 2, Some(9))], Known::default()).fates,
        [NEW, NEW]
    );
    let known = Known { keys: HashMap::from([([9; 16], 0)]), ..stored(Hold::Operator) };
    assert_eq!(decide(&[arrival(2, 1, 1, Some(9))], known).fates, [NEW]);
}

#[test]
fn a_repeat_that_is_not_held_releases_what_screening_holds() {
    for (known, batch) in [
        (stored(Hold::Screening), vec![arrival(2, 5, 1, None)]),
        (Known::default(), vec![held(&arrival(1, 0, 1, None)), arrival(2, 5, 1, None)]),
    ] {
        let decision = decide(&batch, known);
        assert_eq!(decision.fates.last(), Some(&FIRST));
        assert_eq!(decision.released, BTreeMap::from([(Uuid::from_u128(1), 5)]));
    }
}

#[test]
fn a_repeat_that_is_held_changes_nothing_about_the_first() {
    for hold in [Hold::None, Hold::Screening, Hold::Operator] {
        let decision = decide(&[held(&arrival(2, 5, 1, None))], stored(hold));
        assert_eq!((decision.fates, decision.released), (vec![FIRST], BTreeMap::new()), "{hold:?}");
    }
}

#[test]
fn what_the_operator_holds_stays_held_and_the_repeat_is_kept_beside_it() {
    let decision = decide(&[arrival(2, 5, 1, None), arrival(3, 6, 1, None)], stored(Hold::Operator));
    assert_eq!(decision.fates, [NEW, Fate::Repeat(Uuid::from_u128(2))]);
    assert_eq!(decision.released, BTreeMap::new());
}

/// What was decided so far, as a database would keep it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stored {
    submissions: BTreeMap<Uuid, Kept>,
    fates: Vec<Fate>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    content: Hash,
    key: Option<Hash>,
    received_at: i64,
    is_held: bool,
    repeats: i64,
}

impl Stored {
    fn keep(&mut self, batch: &[Candidate]) {
        let mut known = Known::default();
        // In order of arrival: the newest stays.
        for (id, kept) in &self.submissions {
            let hold = if kept.is_held { Hold::Screening } else { Hold::None };
            known.contents.insert(kept.content, Original { id: *id, received_at: kept.received_at, hold });
            known.keys.extend(kept.key.map(|key| (key, kept.received_at)));
        }
        let decision = decide(batch, known);
        for (candidate, fate) in batch.iter().zip(&decision.fates) {
            let &Candidate { content, key, received_at, is_held, .. } = candidate;
            if matches!(fate, Fate::New { .. }) {
                let kept = Kept { content, key, received_at, is_held, repeats: 0 };
                self.submissions.insert(candidate.id, kept);
            }
        }
        for (id, times) in decision.repeats {
            self.submissions.get_mut(&id).expect("what is repeated is there").repeats += times;
        }
        for id in decision.released.keys() {
            self.submissions.get_mut(id).expect("what is released is there").is_held = false;
        }
        self.fates.extend(decision.fates);
    }
}

fn arrivals() -> impl Strategy<Value = Vec<Candidate>> {
    let one = (0..3u8, proptest::option::of(10..13u8), 0..400i64, any::<bool>());
    proptest::collection::vec(one, 0..40).prop_map(|all| {
        let mut now = 0;
        let candidate = |(number, (content, key, later, is_held)): (usize, (u8, Option<u8>, i64, bool))| {
            now += later;
            Candidate { is_held, ..arrival(number as u128 + 1, now, content, key) }
        };
        all.into_iter().enumerate().map(candidate).collect()
    })
}

proptest! {
    #[test]
    fn any_division_into_batches_comes_to_the_same(all in arrivals(), sizes in proptest::collection::vec(1..9usize, 40)) {
        let (mut one_by_one, mut in_batches) = (Stored::default(), Stored::default());
        for candidate in all.chunks(1) {
            one_by_one.keep(candidate);
        }
        let mut rest: &[Candidate] = &all;
        for size in sizes {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            in_batches.keep(batch);
            rest = later;
        }
        prop_assert_eq!(one_by_one, in_batches);
    }

    #[test]
    fn what_is_not_held_is_delivered_itself_or_as_what_it_repeats(all in arrivals(), cut in any::<proptest::sample::Index>()) {
        let mut stored = Stored::default();
        let first: Range<usize> = 0..cut.index(all.len() + 1);
        stored.keep(&all[first.clone()]);
        stored.keep(&all[first.end..]);
        for (candidate, fate) in all.iter().zip(&stored.fates) {
            let kept = match fate {
                Fate::New { .. } => candidate.id,
                Fate::Repeat(original) => *original,
            };
            prop_assert!(candidate.is_held || !stored.submissions[&kept].is_held);
        }
    }
}
