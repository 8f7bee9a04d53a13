//! Counts the recent senders of near-identical messages, in a fixed amount of memory.
//!
//! Each run of [`RUN`] words in a message (ignoring case, digits, punctuation and the paths of links) is
//! hashed, and the [`KEPT`] smallest hashes represent the message (MinHash). A different name or greeting
//! changes only a few of these hashes, and a message counts as repeated if [`AGREEING`] of them have been
//! seen from other sources.
//!
//! The hash has a random key, so an attacker cannot choose messages that collide. Messages of fewer than
//! [`MIN_WORDS`] words are ignored: many people send the same short message, such as a request to be called
//! back, and an attacker must not be able to make that message look like a campaign.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::tokenizer::{Token, TokenizedText};

/// How long a message is remembered after it was last seen.
pub const WINDOW: Duration = Duration::from_hours(24);
/// Maximum number of senders that are counted for a message.
pub const MAX_SENDERS: usize = 5;
/// Messages of fewer words than this are ignored. In scripts that do not separate words, each character
/// counts as a word.
const MIN_WORDS: usize = 20;
/// Messages with fewer letters than this are ignored too, because [`MIN_WORDS`] characters of a script that
/// does not separate words are only a short sentence.
const MIN_LETTERS: u32 = 80;
/// Number of words that are hashed together.
const RUN: usize = 6;
/// Number of hashes that represent a message.
const KEPT: usize = 5;
/// Number of hashes that two messages must have in common to count as the same message.
const AGREEING: usize = 3;
/// Number of sets in the table. 4,096 sets of eight 32-byte slots take 1 MiB.
const SETS: usize = 4096;
/// Number of slots in a set. A hash may be in any slot of its set.
const WAYS: usize = 8;

/// One hash of a message, and the senders of messages with that hash.
#[derive(Clone, Copy, Default)]
struct SenderSlot {
    hash: u64,
    /// When the hash was last seen, in seconds since [`Repeats::start`] plus one; 0 if the slot is free.
    seen: u32,
    /// Keyed hashes of the senders; 0 for an unused entry.
    senders: [u32; MAX_SENDERS],
}

impl SenderSlot {
    fn sender_count(&self) -> usize {
        self.senders.iter().filter(|sender| **sender != 0).count()
    }
}

/// The hashes of recent messages and their senders, shared by all workers.
pub struct Repeats {
    key: RandomState,
    /// Keys derived from `key`: one for each word of a run, and two for combining the products.
    keys: [u64; RUN + 2],
    start: Instant,
    /// The table of hashes; empty until the first message is observed.
    table: Mutex<Vec<[SenderSlot; WAYS]>>,
}

impl fmt::Debug for Repeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repeats").finish_non_exhaustive()
    }
}

impl Repeats {
    /// Creates an empty table. `now` must not be later than the first message.
    pub fn new(now: Instant) -> Repeats {
        let key = RandomState::new();
        Repeats {
            keys: std::array::from_fn(|at| key.hash_one((3u8, at))),
            key,
            start: now,
            table: Mutex::default(),
        }
    }

    /// Records a message from `source`, an address or a keyed hash of it. Returns the number of other sources
    /// that have sent nearly the same message, up to `MAX_SENDERS`; zero if the message is too short. The
    /// senders of a message are forgotten once it has not been seen for `WINDOW`, or if the table is full.
    pub fn observe(&self, text: &TokenizedText<'_>, source: impl Hash, now: Instant) -> u32 {
        let Some(hashes) = self.smallest_hashes(text.message()) else { return 0 };
        let sender = self.key.hash_one((0u8, source)).to_le_bytes();
        let sender = u32::from_le_bytes([sender[0], sender[1], sender[2], sender[3]]).max(1);
        // Count seconds from 1, because 0 marks a free slot.
        let seconds = now.saturating_duration_since(self.start).as_secs().saturating_add(1);
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.resize(SETS, [SenderSlot::default(); WAYS]);
        let mut others = hashes.map(|hash| {
            let set = usize::try_from(hash % SETS as u64).unwrap_or_default();
            observe_hash(&mut table[set], hash, sender, seconds)
        });
        drop(table);
        // Return the `AGREEING`th largest count: at least `AGREEING` hashes have that many other senders.
        others.sort_unstable_by(|a, b| b.cmp(a));
        u32::try_from(others[AGREEING - 1]).unwrap_or_default()
    }

    /// The smallest hashes of the runs of words in a message. Skips numbers; a link counts as a word. `None`
    /// if the message has too few words, letters or different runs.
    fn smallest_hashes(&self, text: &[Token<'_>]) -> Option<[u64; KEPT]> {
        let mut words = 0;
        let mut letters = 0;
        let mut run = [0u64; RUN];
        let mut smallest = [u64::MAX; KEPT];
        for token in text {
            let hash = match token {
                Token::Word(word) if word.is_number() => continue,
                Token::Word(word) => {
                    letters += word.letters;
                    word.hash
                }
                Token::Link(link) => self.key.hash_one((1u8, link.domain)),
                Token::Break => continue,
            };
            run.rotate_left(1);
            run[RUN - 1] = hash;
            words += 1;
            if words >= RUN {
                insert_smallest(&mut smallest, self.hash_run(run));
            }
        }
        (words >= MIN_WORDS && letters >= MIN_LETTERS && smallest[KEPT - 1] != u64::MAX).then_some(smallest)
    }

    /// Hashes a run of words. Combines the words with secret keys and multiplies them in pairs, which is
    /// faster than SipHash. Speed matters because a message has about as many runs as words.
    fn hash_run(&self, run: [u64; RUN]) -> u64 {
        let keyed: [u64; RUN] = std::array::from_fn(|at| run[at] ^ self.keys[at]);
        let [first, second, third] = [0, 2, 4].map(|at| multiply_fold(keyed[at], keyed[at + 1]));
        let (second, third) = (second.rotate_left(21), third.rotate_left(42));
        multiply_fold(first ^ second ^ self.keys[RUN], second.wrapping_add(third) ^ self.keys[RUN + 1])
    }
}

/// Multiplies two numbers, and combines the halves of the product with exclusive or.
fn multiply_fold(a: u64, b: u64) -> u64 {
    let (low, high) = a.carrying_mul(b, 0);
    low ^ high
}

/// Replaces the largest hash in the sorted array with `hash`, unless `hash` is larger or already present.
fn insert_smallest(smallest: &mut [u64; KEPT], hash: u64) {
    if hash >= smallest[KEPT - 1] || smallest.contains(&hash) {
        return;
    }
    smallest[KEPT - 1] = hash;
    smallest.sort_unstable();
}

/// Adds `sender` to the senders of a hash, up to [`MAX_SENDERS`] in all, and returns the number of its other
/// senders. A new hash takes a free or expired slot. In a full set, it replaces the hash with the
/// fewest senders or, if several have equally few, the one seen least recently.
fn observe_hash(set: &mut [SenderSlot; WAYS], hash: u64, sender: u32, seconds: u32) -> usize {
    let window = u32::try_from(WINDOW.as_secs()).unwrap_or(u32::MAX);
    let is_live = |slot: &SenderSlot| slot.seen != 0 && seconds.saturating_sub(slot.seen) <= window;
    let known = set.iter().position(|slot| is_live(slot) && slot.hash == hash);
    let worth = |slot: &SenderSlot| if is_live(slot) { (slot.sender_count(), slot.seen) } else { (0, 0) };
    let at = known.or_else(|| (0..WAYS).min_by_key(|at| worth(&set[*at]))).unwrap_or_default();
    let slot = &mut set[at];
    if known.is_none() {
        *slot = SenderSlot { hash, ..SenderSlot::default() };
    }
    slot.seen = seconds;
    let others = slot.senders.iter().filter(|known| **known != 0 && **known != sender).count();
    if !slot.senders.contains(&sender)
        && let Some(free) = slot.senders.iter_mut().find(|known| **known == 0)
    {
        *free = sender;
    }
    others
}

#[cfg(test)]
mod tests {
    use frontdesk_limits::Source;
    use std::net::IpAddr;

    use super::*;
    use frontdesk_forms::{CONTACT, Entry, WAITLIST, parse};

    const CAMPAIGN: &str = "Hello, I was looking at your website today and saw that it could bring you many more customers than \
         it does. Our team has helped firms like yours for years, and I would like to send you a free report about it.";

    #[test]
    fn the_same_text_is_counted_by_its_other_senders() {
        let (repeats, now) = new();
        assert_eq!(observe(&repeats, &message(CAMPAIGN), source(1), now), 0);
        assert_eq!(
            observe(&repeats, &message(CAMPAIGN), source(1), now),
            0,
            "repetitions by one sender are not a campaign"
        );
        assert_eq!(observe(&repeats, &message(CAMPAIGN), source(2), now), 1);
        assert_eq!(observe(&repeats, &message(CAMPAIGN), source(1), now), 1);
        for n in 3..50 {
            assert_eq!(
                observe(&repeats, &message(CAMPAIGN), source(n), now),
                (u32::from(n) - 1).min(5),
                "{n}"
            );
        }
    }

    /// Tests whose result depends on the random key use this many counters, each with its own key.
    const COUNTERS: usize = 200;

    /// The number of counters, out of [`COUNTERS`], that recognize the second text as a repetition of the
    /// first.
    fn recognized(first: &str, second: &str) -> usize {
        let [first, second] = [first, second].map(message);
        let is_recognized = || {
            let (repeats, now) = new();
            observe(&repeats, &first, source(1), now);
            observe(&repeats, &second, source(2), now) >= 1
        };
        (0..COUNTERS).filter(|_| is_recognized()).count()
    }

    /// A changed text is recognized if three of its five hashes are unchanged, which depends on the key. Each
    /// of these variants is recognized with at least 19 of 20 keys, so a counter misses it with a probability
    /// of at most 1/20. The probability that 60 of 200 counters miss it is below 1e-25.
    #[test]
    fn campaigns_are_recognized_in_spite_of_variations() {
        for variant in [
            CAMPAIGN.replace("free report", "free report (4711)"),
            CAMPAIGN.replace("Hello,", "Hello dear team of Example,"),
            format!("{CAMPAIGN} 17"),
        ] {
            let found = recognized(CAMPAIGN, &variant);
            assert!(found > COUNTERS * 7 / 10, "{found}: {variant}");
        }
        for variant in [CAMPAIGN.to_uppercase(), CAMPAIGN.replace(' ', "  \n")] {
            assert_eq!(recognized(CAMPAIGN, &variant), COUNTERS, "{variant}");
        }
        let linked = |path: &str| format!("{CAMPAIGN} See https://offers.example.net/{path} for it all.");
        let found = recognized(&linked("a1b2"), &linked("c3d4?x=y"));
        assert!(found > COUNTERS * 7 / 10, "{found}");
    }

    /// Four of about forty runs of words are the same in both texts. The probability that three of them are
    /// among the five smallest hashes of both texts is below 4/1000, and the probability that this happens
    /// with 20 of 200 keys is below 1e-19.
    #[test]
    fn texts_that_only_resemble_each_other_are_not_the_same() {
        let other = "Hello, I was looking at your website today and wondered whether the second plan allows us to keep all of \
             our submissions in Zurich, because our lawyers insist on it. Our team would start with about forty people.";
        let found = recognized(CAMPAIGN, other);
        assert!(found < COUNTERS / 10, "{found}");
    }

    #[test]
    fn short_texts_and_forms_without_one_do_not_count() {
        let (repeats, now) = new();
        let nineteen = CAMPAIGN.split(' ').take(19).collect::<Vec<_>>().join(" ");
        let twenty = CAMPAIGN.split(' ').take(20).collect::<Vec<_>>().join(" ");
        let few_letters = "私は貴社のサービスについて質問があります。よろしくお願いします。";
        for (text, expected) in [("Please call me.", 0), (&*nineteen, 0), (&twenty, 1), (few_letters, 0)] {
            observe(&repeats, &message(text), source(1), now);
            assert_eq!(observe(&repeats, &message(text), source(2), now), expected, "{text}");
        }
        let waitlist = parse(&WAITLIST, br#"{"email":"a@example.com"}"#).unwrap();
        observe(&repeats, &waitlist, source(1), now);
        assert_eq!(observe(&repeats, &waitlist, source(2), now), 0);
    }

    #[test]
    fn old_messages_are_forgotten() {
        let (repeats, now) = new();
        observe(&repeats, &message(CAMPAIGN), source(1), now);
        assert_eq!(observe(&repeats, &message(CAMPAIGN), source(2), now + WINDOW), 1);
        let later = now + WINDOW + WINDOW + Duration::from_secs(1);
        assert_eq!(observe(&repeats, &message(CAMPAIGN), source(3), later), 0);
    }

    #[test]
    fn a_campaign_outlives_a_flood_of_other_texts() {
        let (repeats, now) = new();
        for n in 1..4 {
            observe(&repeats, &message(CAMPAIGN), source(n), now);
        }
        // 20,000 texts from one sender have about three hashes for each slot.
        for n in 0..20_000u32 {
            let word: String = n.to_string().bytes().map(|digit| char::from(b'a' + digit - b'0')).collect();
            let text = format!("{word} ").repeat(10) + &format!("x{word} ").repeat(15);
            observe(&repeats, &message(&text), source(9), now + Duration::from_secs(1));
        }
        assert_eq!(observe(&repeats, &message(CAMPAIGN), source(4), now + Duration::from_secs(2)), 3);
    }

    #[test]
    fn messages_are_not_in_debug_output() {
        assert_eq!(format!("{:?}", new().0), "Repeats { .. }");
    }

    #[test]
    fn the_smallest_hashes_are_kept_each_once() {
        let mut smallest = [u64::MAX; KEPT];
        for hash in [5, 3, 9, 1, 7, 3, 2, 8, 7] {
            insert_smallest(&mut smallest, hash);
        }
        assert_eq!(smallest, [1, 2, 3, 5, 7]);
    }

    #[test]
    fn a_full_set_evicts_the_fewest_senders_and_then_the_oldest() {
        let mut set = [SenderSlot::default(); WAYS];
        for hash in 1..=8u32 {
            assert_eq!(observe_hash(&mut set, hash.into(), 100, hash), 0, "{hash}");
        }
        assert_eq!(observe_hash(&mut set, 1, 101, 10), 1);
        assert_eq!(
            observe_hash(&mut set, 3, 100, 11),
            0,
            "the hash was seen again, so it is no longer the oldest"
        );
        let hashes = |set: &[SenderSlot; WAYS]| set.map(|slot| slot.hash);
        observe_hash(&mut set, 9, 100, 12);
        assert_eq!(hashes(&set), [1, 9, 3, 4, 5, 6, 7, 8]);
        observe_hash(&mut set, 10, 100, 13);
        assert_eq!(hashes(&set), [1, 9, 3, 10, 5, 6, 7, 8]);
        // Expired entries are evicted first, regardless of how many senders they have.
        let day = 24 * 60 * 60;
        for hash in [9, 3, 10, 5, 6, 7, 8] {
            observe_hash(&mut set, hash, 100, 5 + day);
        }
        observe_hash(&mut set, 11, 100, 11 + day);
        assert_eq!(hashes(&set), [11, 9, 3, 10, 5, 6, 7, 8]);
    }

    #[test]
    fn senders_are_counted_each_once_and_up_to_the_most() {
        let mut set = [SenderSlot::default(); WAYS];
        for (sender, others) in
            [(1, 0), (1, 0), (2, 1), (1, 1), (3, 2), (4, 3), (5, 4), (6, 5), (7, 5), (2, 4)]
        {
            assert_eq!(observe_hash(&mut set, 1, sender, 1), others, "{sender}");
        }
        assert_eq!(set[0].sender_count(), MAX_SENDERS);
    }

    #[test]
    fn memory_is_one_mebibyte_whatever_comes() {
        assert_eq!(SETS * size_of::<[SenderSlot; WAYS]>(), 1 << 20);
    }

    fn new() -> (Repeats, Instant) {
        let now = Instant::now();
        (Repeats::new(now), now)
    }

    fn observe(repeats: &Repeats, entry: &Entry, source: Source, now: Instant) -> u32 {
        repeats.observe(&TokenizedText::new(entry), source, now)
    }

    fn source(n: u8) -> Source {
        Source::from(IpAddr::from([192, 0, 2, n]))
    }

    fn message(text: &str) -> Entry {
        let body = serde_json::json!({"name": "Ada", "email": "ada@example.com", "message": text});
        parse(&CONTACT, body.to_string().as_bytes()).unwrap()
    }
}
