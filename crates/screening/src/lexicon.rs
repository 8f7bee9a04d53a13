//! The lexicon: phrases of many languages, each of which shows a feature, matched in one pass over the words
//! of a text.
//!
//! A file of the lexicon has a table `phrases` with a list for each feature; docs/pages/screening.md explains
//! how a phrase is written. A phrase counts only once in a text.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::fault::LexiconFault;
use super::features::{self, FeatureId, FeatureKind, FeatureSet, Shape};
use super::text::{Token, Tokenizer, Word, extend_hash};

/// The files that are part of the binary, with their names.
pub(super) const BUILT_IN: [(&str, &str); 1] = [("en.toml", include_str!("../lexicon/en.toml"))];

/// Maximum number of words that a `~` matches.
const GAP: usize = 3;
/// The weight of a phrase that states none, and the greatest one.
const DEFAULT_WEIGHT: u8 = 2;
/// The weight at which a feature has its full strength.
pub(super) const FULL_WEIGHT: u8 = 4;

/// The ID of a word in the lexicon.
type Id = u16;
/// The ID of all words that are not in the lexicon.
const UNKNOWN: Id = 0;
/// Marks the end of a sentence among the IDs of words.
const BREAK: Id = Id::MAX;
/// Maximum number of words and of phrases; IDs have 16 bits.
const MAX_ENTRIES: usize = 60_000;

/// A place in a phrase that one word fills.
struct Step {
    /// Whether up to [`GAP`] other words may precede the step.
    gap: bool,
    /// The words that fit, sorted; more than one if the phrase has alternatives or a prefix.
    words: Vec<Id>,
}

struct Phrase {
    feature: FeatureId,
    weight: u8,
    steps: Vec<Step>,
}

/// A phrase that begins with a given word.
#[derive(Clone, Copy)]
struct Lead {
    phrase: u16,
    /// The mask of the words in the second step ([`id_mask`]). Rules out most phrases early.
    near: u64,
}

/// The features and their phrases.
pub struct Lexicon {
    pub(super) features: FeatureSet,
    /// The features that the code computes, by [`Shape`].
    pub(super) shapes: [Option<FeatureId>; Shape::ALL.len()],
    /// Hash table with open addressing; its length is a power of two. Each slot holds a part of a word's hash,
    /// and the word's ID.
    table: Vec<(u32, Id)>,
    phrases: Vec<Phrase>,
    /// The phrases that begin with a word, by the word's ID.
    first: Vec<Vec<Lead>>,
    /// Whether a word is significant enough on its own to be recognized in disguise, by the word's ID.
    telling: Vec<bool>,
    /// The ID of the word `0`, which matches any number in the text.
    any_number: Id,
}

impl std::fmt::Debug for Lexicon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lexicon of {} phrases", self.phrases.len())
    }
}

/// Lexica are equal only if they are the same one.
impl PartialEq for Lexicon {
    fn eq(&self, other: &Lexicon) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Lexicon {}

static DEFAULT: LazyLock<Arc<Lexicon>> = LazyLock::new(|| {
    let built = Lexicon::with_files(&BTreeMap::new());
    Arc::new(built.unwrap_or_else(|fault| panic!("the lexicon in the binary is faulty: {fault}")))
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LexiconFile {
    #[serde(default)]
    phrases: BTreeMap<String, Vec<String>>,
}

/// The name of the file that declares features.
const FEATURES: &str = "features.toml";

impl Lexicon {
    /// The lexicon that is part of the binary.
    pub fn built_in() -> Arc<Lexicon> {
        DEFAULT.clone()
    }

    /// The built-in lexicon with the operator's files, by name: a file replaces the built-in one with the same
    /// name; others are added. `features.toml` replaces single features, and adds new ones.
    pub fn with_files(own: &BTreeMap<String, String>) -> Result<Lexicon, LexiconFault> {
        let declarations = std::iter::once(features::BUILT_IN).chain(own.get(FEATURES).map(String::as_str));
        let features = FeatureSet::parse(declarations)
            .map_err(|fault| LexiconFault { file: FEATURES.to_owned(), ..fault })?;
        let mut builder = Builder::new(features);
        let built_in = BUILT_IN.into_iter().filter(|(name, _)| !own.contains_key(*name));
        let own = own.iter().filter(|(name, _)| *name != FEATURES);
        for (name, text) in built_in.chain(own.map(|(name, text)| (name.as_str(), text.as_str()))) {
            builder.add_file(text).map_err(|fault| LexiconFault { file: name.to_owned(), ..fault })?;
        }
        Ok(builder.build())
    }

    /// The ID of a word: that of the same word, or of the longest prefix in the lexicon with which it begins.
    fn find_id(&self, word: &Word) -> Id {
        if word.is_number() {
            return self.any_number;
        }
        let whole = self.find_hash(word.hash);
        if whole != UNKNOWN {
            return whole;
        }
        let mut found = word.prefixes.iter().rev().filter(|prefix| **prefix != 0);
        found
            .find_map(|prefix| Some(self.find_hash(prefix_key(*prefix))).filter(|id| *id != UNKNOWN))
            .unwrap_or(UNKNOWN)
    }

    /// The ID of the word with this hash; [`UNKNOWN`] if it is not in the lexicon.
    fn find_hash(&self, hash: u64) -> Id {
        self.table[find_slot(&self.table, hash)].1
    }
}

/// The key in the hash table of a prefix, whose hash is shortened.
fn prefix_key(prefix: u32) -> u64 {
    (u64::from(prefix) << 32 | 0x5f5f).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Splits a hash into a value from which the slot follows, and the value to compare there.
fn split_hash(hash: u64) -> (usize, u32) {
    let place = usize::try_from(hash >> 40).unwrap_or_default();
    (place, u32::try_from(hash >> 8 & 0xffff_ffff).unwrap_or_default())
}

/// The index of the slot that contains a hash or, if there is none, of the first free slot for it.
fn find_slot(table: &[(u32, Id)], hash: u64) -> usize {
    let (place, tag) = split_hash(hash);
    let mut at = place & (table.len() - 1);
    while table[at].1 != UNKNOWN && table[at].0 != tag {
        at = (at + 1) & (table.len() - 1);
    }
    at
}

/// A word or a prefix of the lexicon while it is built.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Word(u64),
    Prefix(u32),
}

struct Builder {
    features: FeatureSet,
    ids: HashMap<Key, Id>,
    /// The words and prefixes by ID.
    words: Vec<Word>,
    phrases: Vec<Phrase>,
}

impl Builder {
    fn new(features: FeatureSet) -> Builder {
        Builder { features, ids: HashMap::new(), words: vec![Word::default()], phrases: Vec::new() }
    }

    /// Adds the phrases of a file. The error says what is wrong, and what would be right.
    fn add_file(&mut self, text: &str) -> Result<(), LexiconFault> {
        let file: LexiconFile = toml::from_str(text).map_err(|error| LexiconFault::in_toml(text, &error))?;
        for (name, phrases) in file.phrases {
            let feature = self.features.find(&name).ok_or_else(|| {
                let known: Vec<&str> = self.features.names().collect();
                let known = known.join(", ");
                let message =
                    format!("`{name}` is no feature: declare it in {FEATURES}, or use one of {known}");
                LexiconFault::at(text, text.find(&name), message)
            })?;
            for phrase in &phrases {
                self.add_phrase(feature, phrase)
                    .map_err(|message| LexiconFault::at(text, text.find(phrase), message))?;
            }
        }
        Ok(())
    }

    /// Adds a phrase. An alternative of several words counts as its first word.
    fn add_phrase(&mut self, feature: FeatureId, written: &str) -> Result<(), String> {
        let (phrase, weight) = match written.rsplit_once(" =") {
            None => (written, DEFAULT_WEIGHT),
            Some((phrase, weight)) => match weight.parse() {
                Ok(weight @ 1..=FULL_WEIGHT) => (phrase, weight),
                _ => {
                    return Err(format!("the weight of `{written}` must be a number from 1 to {FULL_WEIGHT}"));
                }
            },
        };
        let mut steps: Vec<Step> = Vec::new();
        let mut gap = false;
        for part in phrase.split_whitespace() {
            if part == "~" {
                gap = true;
                continue;
            }
            if part.contains('|') {
                let words = part.split('|').filter_map(|part| self.ids_of(part).first().copied()).collect();
                steps.push(Step { gap, words });
            } else {
                for (at, id) in self.ids_of(part).into_iter().enumerate() {
                    steps.push(Step { gap: gap && at == 0, words: vec![id] });
                }
            }
            gap = false;
        }
        if steps.is_empty() || steps.iter().any(|step| step.words.is_empty()) {
            return Err(format!("`{written}` is no phrase: it needs words"));
        }
        if self.phrases.len() >= MAX_ENTRIES || self.words.len() >= MAX_ENTRIES {
            return Err(format!("the lexicon has more than {MAX_ENTRIES} phrases or words"));
        }
        self.phrases.push(Phrase { feature, weight, steps });
        Ok(())
    }

    /// The IDs of the words of a part of a phrase; adds them. The last one is a prefix if the part ends with `*`.
    fn ids_of(&mut self, part: &str) -> Vec<Id> {
        let words = split_words(part);
        let last = words.len().saturating_sub(1);
        let key = |at: usize, word: &Word| {
            let prefix = word.prefixes.iter().rev().copied().find(|prefix| *prefix != 0);
            match prefix.filter(|_| at == last && part.ends_with('*')) {
                Some(prefix) => Key::Prefix(prefix),
                None if word.is_number() => Key::Word(ANY_NUMBER),
                None => Key::Word(word.hash),
            }
        };
        let keys: Vec<(Key, Word)> =
            words.iter().enumerate().map(|(at, word)| (key(at, word), *word)).collect();
        keys.into_iter().map(|(key, word)| self.id(key, word)).collect()
    }

    fn id(&mut self, key: Key, word: Word) -> Id {
        *self.ids.entry(key).or_insert_with(|| {
            self.words.push(word);
            Id::try_from(self.words.len() - 1).unwrap_or(BREAK)
        })
    }

    fn build(mut self) -> Lexicon {
        let number = self.id(Key::Word(ANY_NUMBER), Word::default());
        let covered = self.covered_ids();
        for step in self.phrases.iter_mut().flat_map(|phrase| &mut phrase.steps) {
            let more = step.words.iter().filter_map(|id| covered.get(id)).flatten();
            let more: Vec<Id> = more.copied().collect();
            step.words.extend(more);
            step.words.sort_unstable();
            step.words.dedup();
        }
        let mut table = vec![(0, UNKNOWN); (self.words.len() * 3).next_power_of_two()];
        for (key, id) in &self.ids {
            let hash = match *key {
                Key::Word(hash) => hash,
                Key::Prefix(prefix) => prefix_key(prefix),
            };
            let slot = find_slot(&table, hash);
            table[slot] = (split_hash(hash).1, *id);
        }
        let mut first = vec![Vec::new(); self.words.len()];
        let mut telling = vec![false; self.words.len()];
        for (number, phrase) in self.phrases.iter().enumerate() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let near = phrase.steps.get(1).map_or(ALWAYS_NEAR, |step| id_mask(0, &step.words));
            let kind = self.features.get(phrase.feature).kind;
            let is_telling = phrase.steps.len() == 1
                && phrase.weight > DEFAULT_WEIGHT
                && matches!(kind, FeatureKind::Topic | FeatureKind::Vice);
            for id in &phrase.steps[0].words {
                first[usize::from(*id)].push(Lead { phrase: number, near });
                telling[usize::from(*id)] |= is_telling;
            }
        }
        let shapes = Shape::ALL.map(|shape| self.features.find(shape.name()));
        let Builder { features, phrases, .. } = self;
        Lexicon { features, shapes, table, phrases, first, telling, any_number: number }
    }

    /// For each prefix, the IDs of all words and longer prefixes that begin with it: a word of a text has one ID
    /// only, that of its longest entry.
    fn covered_ids(&self) -> HashMap<Id, Vec<Id>> {
        let mut covered: HashMap<Id, Vec<Id>> = HashMap::new();
        for id in self.ids.values() {
            for prefix in self.words[usize::from(*id)].prefixes.iter().filter(|prefix| **prefix != 0) {
                if let Some(shorter) = self.ids.get(&Key::Prefix(*prefix)).filter(|shorter| *shorter != id) {
                    covered.entry(*shorter).or_default().push(*id);
                }
            }
        }
        covered
    }
}

/// The hash under which all numbers are in the table.
const ANY_NUMBER: u64 = 0x6e75_6d62_6572_0000;

/// The words of a text. Drops links and the ends of sentences.
pub(super) fn split_words(text: &str) -> Vec<Word> {
    let word = |token| if let Token::Word(word) = token { Some(word) } else { None };
    Tokenizer::new(text).filter_map(word).collect()
}

/// The words of a text, in order, as lexicon IDs.
pub(super) struct Words<'a> {
    lexicon: &'a Lexicon,
    ids: Vec<Id>,
    /// The number of consecutive single letters, such as `c a s i n o`, and the hash of the word they form.
    spelled: (usize, u64),
    /// Number of disguised words that are significant on their own.
    pub disguised: usize,
    /// Number of disguised words that are not significant on their own, such as `serv1ces`.
    pub doubtful: usize,
}

impl Words<'_> {
    pub fn new(lexicon: &Lexicon, words: usize) -> Words<'_> {
        Words { lexicon, ids: Vec::with_capacity(words), spelled: (0, 0), disguised: 0, doubtful: 0 }
    }

    /// Adds a word. Counts it if it is a word of the lexicon in disguise, and takes it for that word.
    pub fn push(&mut self, word: &Word) {
        let lexicon = self.lexicon;
        let mut id = lexicon.find_id(word);
        if word.is_disguised() {
            let looks = lexicon.find_hash(word.looks);
            if lexicon.telling[usize::from(looks)] {
                self.disguised += 1;
                id = looks;
            } else if looks != UNKNOWN && word.letters >= 2 && word.letters + word.digits >= 4 {
                self.doubtful += 1;
                id = looks;
            }
        }
        if word.letters == 1 && word.digits == 0 {
            // Find the letter with this hash, and extend the hash of the spelled word with it.
            let letter = ('a'..='z').find(|c| extend_hash(0, *c) == word.hash);
            self.spelled = (self.spelled.0 + 1, letter.map_or(0, |c| extend_hash(self.spelled.1, c)));
        } else {
            self.end_spelled_word();
        }
        self.ids.push(id);
    }

    /// Ends the sentence: no phrase continues across this point.
    pub fn end_sentence(&mut self) {
        self.end_spelled_word();
        if self.ids.last().is_some_and(|last| *last != BREAK) {
            self.ids.push(BREAK);
        }
    }

    /// Ends a sequence of single letters. If at least five letters form a significant word, counts it as
    /// disguised, and adds it.
    fn end_spelled_word(&mut self) {
        let (letters, hash) = std::mem::take(&mut self.spelled);
        if letters >= 5 {
            let id = self.lexicon.find_hash(hash);
            if self.lexicon.telling[usize::from(id)] {
                self.disguised += 1;
                self.ids.push(id);
            }
        }
    }

    /// Ends the text, and returns the sum of the weights of the phrases found, by feature, at most
    /// [`FULL_WEIGHT`]. Each phrase counts once.
    pub fn weigh_phrases(&mut self) -> Vec<u8> {
        self.end_sentence();
        let lexicon = self.lexicon;
        let mut found = vec![false; lexicon.phrases.len()];
        let mut weights = vec![0; lexicon.features.len()];
        for (at, id) in self.ids.iter().enumerate() {
            if matches!(*id, UNKNOWN | BREAK) {
                continue;
            }
            let following = &self.ids[at + 1..];
            let around = id_mask(ALWAYS_NEAR, following.iter().take(GAP + 1));
            for lead in &lexicon.first[usize::from(*id)] {
                if lead.near & around == 0 {
                    continue;
                }
                let number = usize::from(lead.phrase);
                let phrase = &lexicon.phrases[number];
                if !found[number] && begins_with_steps(&phrase.steps[1..], following) {
                    found[number] = true;
                    let weight: &mut u8 = &mut weights[phrase.feature];
                    *weight = FULL_WEIGHT.min(*weight + phrase.weight);
                }
            }
        }
        weights
    }
}

/// Adds each word's bit to a mask. Words can share a bit, but two sets of words whose masks have no bit in
/// common have no word in common.
fn id_mask<'a>(bits: u64, ids: impl IntoIterator<Item = &'a Id>) -> u64 {
    ids.into_iter().fold(bits, |bits, id| bits | 1 << (id % 64))
}

/// The mask of a phrase that has only one step. Every mask of following words has this bit too.
const ALWAYS_NEAR: u64 = 1;

/// Whether `ids` begin with the steps of a phrase, within one sentence. Phrases have few steps and fewer
/// gaps, which bounds the work for each word of the text.
fn begins_with_steps(steps: &[Step], ids: &[Id]) -> bool {
    let Some((step, rest)) = steps.split_first() else { return true };
    for (at, id) in ids.iter().take(if step.gap { GAP + 1 } else { 1 }).enumerate() {
        if *id == BREAK {
            return false;
        }
        if step.words.binary_search(id).is_ok() && begins_with_steps(rest, &ids[at + 1..]) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_lexicon_is_a_weight_and_steps() {
        let lexicon = Lexicon::parse(
            "# head\n2 nowhere\n[money]\n3 casino # comment\n2 win|earn ~ e-mail now|today\n2 single\n\
             [nonsense]\n4 casino\n[pills]\ncasino alone\n1 7 day",
        );
        let topic = |name: &str| TOPICS.iter().position(|(known, _)| *known == name).unwrap();
        let steps = |phrase: &Phrase| -> Vec<(bool, usize)> {
            phrase.steps.iter().map(|step| (step.gap, step.words.len())).collect()
        };
        let read = lexicon.phrases.iter().map(|phrase| (phrase.topic.unwrap(), phrase.weight, steps(phrase)));
        assert_eq!(
            read.collect::<Vec<_>>(),
            [
                (topic("money"), 3, vec![(false, 1)]),
                (topic("money"), 2, vec![(false, 2), (true, 1), (false, 1), (false, 2)]),
                (topic("money"), 2, vec![(false, 1)]),
                (topic("pills"), 1, vec![(false, 1), (false, 1)]),
            ]
        );
        assert_eq!(lexicon.phrases[3].steps[0].words, [lexicon.any_number]);
        let id = |word: &str| usize::from(lexicon.find_id(split_words(word)[0].hash));
        for (word, begins) in [("casino", vec![0]), ("win", vec![1]), ("earn", vec![1]), ("now", vec![])] {
            let leads: Vec<u16> = lexicon.first[id(word)].iter().map(|lead| lead.phrase).collect();
            assert_eq!(leads, begins, "{word}");
            assert_eq!(lexicon.telling[id(word)], word == "casino", "{word}");
        }
        assert!(!lexicon.telling[id("single")], "its weight is too low to be recognized in disguise");
        assert_eq!(id("unheard"), usize::from(UNKNOWN));
    }

    #[test]
    fn every_word_of_the_lexicon_has_a_number_of_its_own() {
        let numbers: Vec<Id> = LEXICON.table.iter().map(|(_, id)| *id).filter(|id| *id != UNKNOWN).collect();
        let distinct: std::collections::HashSet<&Id> = numbers.iter().collect();
        assert_eq!((numbers.len(), distinct.len()), (LEXICON.first.len() - 1, LEXICON.first.len() - 1));
        assert!(numbers.len() * 2 < SLOTS, "the table is mostly free: {}", numbers.len());
    }

    #[test]
    fn steps_follow_each_other_within_a_sentence() {
        let step = |gap, word| Step { gap, words: vec![word, 9] };
        for (steps, ids, expected) in [
            (vec![], vec![], true),
            (vec![step(false, 5)], vec![5], true),
            (vec![step(false, 5)], vec![9, 5], true),
            (vec![step(false, 5)], vec![], false),
            (vec![step(false, 5)], vec![1, 5], false),
            (vec![step(false, 5), step(false, 5)], vec![5], false),
            (vec![step(false, 5), step(false, 5)], vec![5, 5], true),
            (vec![step(true, 5)], vec![5], true),
            (vec![step(true, 5)], vec![1, 1, 1, 5], true),
            (vec![step(true, 5)], vec![1, 1, 1, 1, 5], false),
            (vec![step(true, 5)], vec![1, BREAK, 5], false),
            (vec![step(true, 5), step(false, 6)], vec![5, 1, 5, 6], true),
            (vec![step(true, 5), step(false, 6)], vec![5, 1, 6], false),
            (vec![step(true, 5), step(true, 6)], vec![1, 5, 1, 6], true),
        ] {
            assert_eq!(begins_with_steps(&steps, &ids), expected, "{ids:?}");
        }
    }

    #[test]
    fn sets_of_words_have_a_bit_in_common_where_they_have_a_word_in_common() {
        assert_eq!(id_mask(0, &[]), 0);
        assert_eq!(id_mask(ALWAYS_NEAR, &[2]), 0b101);
        assert_eq!(id_mask(0, &[1, 2, 2, 65]), 0b110);
        assert_eq!(id_mask(0, &[63, BREAK]), 1 << 63);
    }

    #[test]
    fn a_phrase_counts_wherever_it_stands_and_once() {
        for (text, named) in [
            ("casino", "gambling 4"),
            ("one two casino", "gambling 4"),
            ("casino casino. casino", "gambling 4"),
            ("earn lots of quick money", "quick money 7"),
            ("earn. money", ""),
        ] {
            assert_eq!(weights(text).describe_topics(), named, "{text}");
        }
    }

    #[test]
    fn letters_that_stand_alone_are_put_together_from_five_on() {
        for (text, disguised) in [
            ("c a s i n o", 1),
            ("c-a-s-i-n-o x", 0),
            ("c-a-s-i-n-o, and", 1),
            ("the c a s i n o. c a s i n o", 2),
            ("c a s i n o 7", 1),
            ("c a s i 7 n o", 0),
            ("c a s", 0),
            ("casino", 0),
            ("s e o", 0),
        ] {
            let mut words = read(text);
            words.end_sentence();
            assert_eq!(words.disguised, disguised, "{text}");
        }
    }

    #[test]
    fn topics_add_up_and_each_further_one_counts_one_more() {
        let mut weights = Weights::default();
        assert_eq!(
            (weights.score(), weights.money_weight(), weights.describe_topics()),
            (0, 0, String::new())
        );
        weights.topics[0] = 3;
        assert_eq!((weights.score(), weights.money_weight()), (3, 0));
        for (at, (name, _)) in TOPICS.iter().enumerate() {
            if MONEY.contains(name) {
                weights.topics[at] = 4;
            }
        }
        assert_eq!((weights.score(), weights.money_weight()), (3 + 12 + 3, 12));
        assert_eq!(weights.describe_topics(), "quick money 4, loans 4, gambling 4, cold pitch 3");
    }

    #[test]
    fn words_of_enquiries_take_off_and_never_below_nothing() {
        for (text, sum) in [
            ("casino", 4),
            ("casino sandbox", 2),
            ("casino sandbox sandbox", 2),
            ("sandbox", 0),
            ("online casino", 10),
            ("online casino sandbox", 8),
            ("online casino sandbox Kubernetes", 4 - 3),
            ("casino. A sandbox, an invoice number, SSO, SCIM, on-prem, an audit log, Kubernetes", 0),
            (
                "casino, viagra, backlinks. A sandbox, SSO, on-prem, an audit log, Kubernetes",
                14 - MOST_OF_OURS,
            ),
        ] {
            assert_eq!(weights(text).score(), sum, "{text}");
        }
    }

    #[test]
    fn words_that_say_little_are_doubtful_where_they_look_like_others() {
        for (text, doubtful) in [
            ("s3rvice", 1),
            ("service", 0),
            ("w3b", 0),
            ("cas1no", 0),
            ("b1cycle", 0),
            ("r4nking, s3rvice. w3bsite", 3),
        ] {
            assert_eq!(read(text).doubtful, doubtful, "{text}");
        }
    }

    fn read(text: &str) -> Words {
        let mut words = Words::default();
        for token in Tokenizer::new(text) {
            match token {
                Token::Word(word) => words.push(word),
                Token::Break => words.end_sentence(),
                Token::Link(_) => {}
            }
        }
        words
    }

    fn weights(text: &str) -> Weights {
        read(text).weigh_phrases()
    }
}
