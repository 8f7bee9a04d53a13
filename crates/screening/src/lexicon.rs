//! The lexicon: phrases of many languages, each of which shows a feature, matched in one pass over the words
//! of a text.
//!
//! A file of the lexicon has a table `phrases` with a list for each feature; docs/pages/screening.md explains
//! how a phrase is written. A phrase counts only once in a text.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, OnceLock};

use serde::Deserialize;

use super::feature_set::{self, FeatureId, FeatureKind, FeatureSet, Shape};
use super::lexicon_fault::LexiconFault;
use super::phrase_weight_sum::PhrasesOfWord;
use super::tokenizer::{PREFIX_LENGTHS, Token, Tokenizer, Word, extend_hash};

/// The names and contents of the built-in files with phrases, one for each language.
pub(super) const BUILT_IN: [(&str, &str); 22] = [
    ("ar.toml", include_str!("../lexicon/ar.toml")),
    ("cs.toml", include_str!("../lexicon/cs.toml")),
    ("da.toml", include_str!("../lexicon/da.toml")),
    ("de.toml", include_str!("../lexicon/de.toml")),
    ("en.toml", include_str!("../lexicon/en.toml")),
    ("es.toml", include_str!("../lexicon/es.toml")),
    ("fi.toml", include_str!("../lexicon/fi.toml")),
    ("fr.toml", include_str!("../lexicon/fr.toml")),
    ("hu.toml", include_str!("../lexicon/hu.toml")),
    ("it.toml", include_str!("../lexicon/it.toml")),
    ("ja.toml", include_str!("../lexicon/ja.toml")),
    ("ko.toml", include_str!("../lexicon/ko.toml")),
    ("nb.toml", include_str!("../lexicon/nb.toml")),
    ("nl.toml", include_str!("../lexicon/nl.toml")),
    ("pl.toml", include_str!("../lexicon/pl.toml")),
    ("pt.toml", include_str!("../lexicon/pt.toml")),
    ("ro.toml", include_str!("../lexicon/ro.toml")),
    ("ru.toml", include_str!("../lexicon/ru.toml")),
    ("sv.toml", include_str!("../lexicon/sv.toml")),
    ("tr.toml", include_str!("../lexicon/tr.toml")),
    ("uk.toml", include_str!("../lexicon/uk.toml")),
    ("zh.toml", include_str!("../lexicon/zh.toml")),
];

/// Maximum number of words that a `~` matches.
const GAP: usize = 3;
/// The weight of a phrase that does not end with ` =` and a weight.
const DEFAULT_WEIGHT: u8 = 2;
/// The maximum weight of a phrase, and the weight at which a feature has its full strength.
pub(super) const FULL_WEIGHT: u8 = 4;

/// The ID of a word in the lexicon.
type Id = u16;
/// The ID of all words that are not in the lexicon.
const UNKNOWN: Id = 0;
/// Marks the end of a sentence among the IDs of words.
const BREAK: Id = Id::MAX;
/// Maximum number of files with frequent words: languages are bits of a `u32`.
const MAX_LANGUAGES: u32 = 32;
/// A text with fewer frequent words than this in every language counts as a text in all languages.
const MIN_COMMON: u32 = 3;
/// A text also counts as a text in another language if its number of frequent words of that language is at
/// least this percentage of the number for its main language.
const SAME_LANGUAGE_PERCENT: u32 = 60;
/// Maximum number of words and of phrases. IDs have 16 bits, and [`BREAK`] must remain free.
const MAX_ENTRIES: usize = 60_000;

/// A position in a phrase, which one word of the text must fill.
struct Step {
    /// Whether up to [`GAP`] other words may precede the step.
    gap: bool,
    /// The word that fills this position.
    word: Id,
    /// The number of the list in [`Tables::others`] with further words that match, because the phrase has
    /// alternatives or a prefix; 0 without any.
    others: u32,
}

impl Step {
    #[inline]
    fn fits(&self, others: &Lists<Id>, id: Id) -> bool {
        self.word == id || self.others > 0 && others.get(self.others as usize).binary_search(&id).is_ok()
    }
}

/// A [`Step`] while the lexicon is being built, with all words that match it.
struct ParsedStep {
    gap: bool,
    words: Vec<Id>,
}

struct Phrase {
    feature: FeatureId,
    /// The bit of the phrase's language; all bits if it counts in every text.
    languages: u32,
    weight: u8,
}

/// Numbered lists in two allocations. The lexicon has tens of thousands of lists with one or two elements;
/// each would take an allocation of its own.
struct Lists<T> {
    items: Box<[T]>,
    /// The start of each list in `items`, followed by the end of the last list.
    bounds: Box<[u32]>,
}

impl<T> Lists<T> {
    fn new(lists: impl IntoIterator<Item = Vec<T>>) -> Lists<T> {
        let (mut items, mut bounds) = (Vec::new(), vec![0]);
        for list in lists {
            items.extend(list);
            bounds.push(u32::try_from(items.len()).unwrap_or(u32::MAX));
        }
        Lists { items: items.into(), bounds: bounds.into() }
    }

    #[inline]
    fn get(&self, number: usize) -> &[T] {
        &self.items[self.bounds[number] as usize..self.bounds[number + 1] as usize]
    }
}

/// A phrase that begins with a given word.
#[derive(Clone, Copy)]
struct Lead {
    phrase: u16,
    /// Whether other words may be between the first step and the second.
    gap: bool,
    /// The languages of the phrase, as a bit set.
    languages: u32,
    /// The mask of the words in the second step ([`id_mask`]), which quickly rules out most phrases.
    near: u64,
}

/// The features and their phrases. The built-in lexicon is parsed on first use, because parsing takes as long
/// as starting a command that does not need it.
pub struct Lexicon(OnceLock<Tables>);

/// Parses the built-in lexicon at the first use. Panics if its files are faulty.
impl Deref for Lexicon {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        self.0.get_or_init(|| {
            let built = Tables::with_files(&BTreeMap::new());
            built.unwrap_or_else(|fault| panic!("the lexicon in the binary is faulty: {fault}"))
        })
    }
}

/// The features and phrases of a lexicon, in tables that find the phrases in a text quickly.
pub struct Tables {
    pub(super) features: FeatureSet,
    /// The features that the code computes, by [`Shape`].
    pub(super) shapes: [Option<FeatureId>; Shape::ALL.len()],
    /// Hash table with open addressing; its length is a power of two. Each slot holds a part of a word's
    /// hash, and the word's ID.
    table: Vec<(u32, Id)>,
    phrases: Box<[Phrase]>,
    /// The steps of each phrase.
    steps: Lists<Step>,
    /// The other words that match in a step, sorted; see [`Step::others`]. The first list is empty.
    others: Lists<Id>,
    /// The phrases that begin with a word, by the word's ID.
    phrases_by_first_word: Lists<Lead>,
    /// The languages in which a word is frequent, by the word's ID, as a bit set.
    frequent_in: Vec<u32>,
    /// Whether a word is significant enough on its own to be recognized in disguise, by the word's ID.
    is_significant: Vec<bool>,
    /// The ID of the word `0`, which matches any number in the text.
    any_number: Id,
}

impl std::fmt::Debug for Lexicon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.get() {
            Some(tables) => write!(f, "Lexicon of {} phrases", tables.phrases.len()),
            None => write!(f, "Lexicon of the binary"),
        }
    }
}

/// Two lexicons are equal only if they are the same instance.
impl PartialEq for Lexicon {
    fn eq(&self, other: &Lexicon) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Lexicon {}

static DEFAULT: LazyLock<Arc<Lexicon>> = LazyLock::new(|| Arc::new(Lexicon(OnceLock::new())));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LexiconFile {
    /// Frequent words of the language, separated by spaces: the phrases count only in texts that have about
    /// as many of them as of any other language's. Without them, the phrases count in all texts.
    common: Option<String>,
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

    /// The built-in lexicon with the operator's files, by name: a file replaces the built-in one with the
    /// same name; others are added. `features.toml` replaces single features, and adds new ones. Fails at the
    /// first fault.
    pub fn with_files(own: &BTreeMap<String, String>) -> Result<Lexicon, LexiconFault> {
        Tables::with_files(own).map(|tables| Lexicon(OnceLock::from(tables)))
    }

    /// Parses the built-in lexicon if it has not been used yet, so that its first use does not take longer.
    pub fn prepare(&self) {
        let _ = &**self;
    }
}

impl Tables {
    /// Builds the tables of [`Lexicon::with_files`]. The fault names the file.
    fn with_files(own: &BTreeMap<String, String>) -> Result<Tables, LexiconFault> {
        let declarations =
            std::iter::once(feature_set::BUILT_IN).chain(own.get(FEATURES).map(String::as_str));
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

    /// The names and kinds of all features, in the order of the names.
    pub fn features(&self) -> impl Iterator<Item = (&str, FeatureKind)> {
        (0..self.features.len()).map(|feature| (self.features.name(feature), self.features.get(feature).kind))
    }

    /// The ID of a word: that of the same word, or of the longest prefix in the lexicon with which it begins;
    /// [`UNKNOWN`] if there is none. All numbers have the same ID.
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

/// The key under which the hash table stores a prefix, computed from the shortened hash of the prefix.
fn prefix_key(prefix: u32) -> u64 {
    // Both the slot and the compared value ([`split_hash`]) need bits that depend on all bits of the prefix.
    let mixed = u64::from(prefix).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

/// Splits a hash into a value that determines the slot, and a value to compare in the slot.
fn split_hash(hash: u64) -> (usize, u32) {
    let place = usize::try_from(hash >> 40).unwrap_or_default();
    (place, u32::try_from(hash >> 8 & 0xffff_ffff).unwrap_or_default())
}

/// The index of the slot that contains a hash or, if there is none, of the first free slot for it. Hashes
/// whose compared parts are equal count as the same.
fn find_slot(table: &[(u32, Id)], hash: u64) -> usize {
    let (place, tag) = split_hash(hash);
    let mut at = place & (table.len() - 1);
    while table[at].1 != UNKNOWN && table[at].0 != tag {
        at = (at + 1) & (table.len() - 1);
    }
    at
}

/// A word or a prefix, while the lexicon is being built.
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
    phrases: Vec<(Phrase, Vec<ParsedStep>)>,
    /// The number of languages so far: each file with `common` words is one.
    languages: u32,
    /// The languages in which a word is frequent, as a bit set.
    frequent_in: HashMap<Id, u32>,
}

impl Builder {
    fn new(features: FeatureSet) -> Builder {
        Builder {
            features,
            ids: HashMap::new(),
            words: vec![Word::default()],
            phrases: Vec::new(),
            languages: 0,
            frequent_in: HashMap::new(),
        }
    }

    /// Adds the phrases and the `common` words of a file. With `common` words, the file stands for a
    /// language, and its phrases count only in texts that may be in it. The error says what is wrong, and
    /// what would be right.
    fn add_file(&mut self, text: &str) -> Result<(), LexiconFault> {
        let file: LexiconFile = toml::from_str(text).map_err(|error| LexiconFault::in_toml(text, &error))?;
        let mut languages = u32::MAX;
        if let Some(common) = file.common {
            if self.languages == MAX_LANGUAGES {
                let message = format!(
                    "there are more than {MAX_LANGUAGES} files with `common` words: merge files, or remove `common` from one"
                );
                return Err(LexiconFault::at(text, text.find("common"), message));
            }
            languages = 1 << self.languages;
            self.languages += 1;
            for id in self.ids_of(&common) {
                *self.frequent_in.entry(id).or_default() |= languages;
            }
            self.check_size().map_err(|message| LexiconFault::at(text, text.find("common"), message))?;
        }
        for (name, phrases) in file.phrases {
            let feature = self.features.find(&name).ok_or_else(|| {
                let known: Vec<&str> = self.features.names().collect();
                let known = known.join(", ");
                let message =
                    format!("`{name}` is not a feature: declare it in {FEATURES}, or use one of {known}");
                LexiconFault::at(text, text.find(&name), message)
            })?;
            for phrase in &phrases {
                self.add_phrase(feature, languages, phrase)
                    .map_err(|message| LexiconFault::at(text, text.find(phrase), message))?;
            }
        }
        Ok(())
    }

    /// Adds a phrase, or fails with the reason. Of an alternative (`a|b`) that consists of several words,
    /// only the first word counts. Drops alternatives without words.
    fn add_phrase(&mut self, feature: FeatureId, languages: u32, written: &str) -> Result<(), String> {
        let (phrase, weight) = match written.rsplit_once(" =") {
            None => (written, DEFAULT_WEIGHT),
            Some((phrase, weight)) => match weight.parse() {
                Ok(weight @ 1..=FULL_WEIGHT) => (phrase, weight),
                _ => {
                    return Err(format!(
                        "the weight of `{written}` must be a number from 1 to {FULL_WEIGHT}"
                    ));
                }
            },
        };
        let mut steps: Vec<ParsedStep> = Vec::new();
        let mut gap = false;
        for part in phrase.split_whitespace() {
            if part == "~" {
                gap = true;
                continue;
            }
            if part.contains('|') {
                let words = part.split('|').filter_map(|part| self.ids_of(part).first().copied()).collect();
                steps.push(ParsedStep { gap, words });
            } else {
                for (at, id) in self.ids_of(part).into_iter().enumerate() {
                    steps.push(ParsedStep { gap: gap && at == 0, words: vec![id] });
                }
            }
            gap = false;
        }
        if steps.is_empty() || steps.iter().any(|step| step.words.is_empty()) {
            return Err(format!(
                "`{written}` is not a phrase: it and each of its alternatives must contain a word"
            ));
        }
        let short = |part: &&str| {
            part.ends_with('*') && split_words(part).last().is_none_or(|word| word.prefixes[0] == 0)
        };
        if let Some(part) = phrase.split([' ', '|']).find(short) {
            return Err(format!(
                "`{part}` in `{written}` needs at least {} letters before the `*`",
                PREFIX_LENGTHS.start()
            ));
        }
        self.check_size()?;
        self.phrases.push((Phrase { feature, languages, weight }, steps));
        Ok(())
    }

    /// Fails if there is no room for another phrase, or if there are too many words.
    fn check_size(&self) -> Result<(), String> {
        if self.phrases.len() >= MAX_ENTRIES || self.words.len() >= MAX_ENTRIES {
            return Err(format!("the lexicon has more than {MAX_ENTRIES} phrases or words"));
        }
        Ok(())
    }

    /// Registers the words of a part of a phrase, and returns their IDs. If the part ends with `*`, the last
    /// word is a prefix, of at most as many letters as the longest of [`PREFIX_LENGTHS`].
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

    /// The ID of a word or prefix. Adds it if it is new. [`BREAK`] for words that no longer fit, which
    /// [`Self::check_size`] rejects.
    fn id(&mut self, key: Key, word: Word) -> Id {
        *self.ids.entry(key).or_insert_with(|| {
            self.words.push(word);
            Id::try_from(self.words.len() - 1).unwrap_or(BREAK)
        })
    }

    /// Builds the tables. Steps with a prefix also get the words and longer prefixes that begin with it.
    fn build(mut self) -> Tables {
        let number = self.id(Key::Word(ANY_NUMBER), Word::default());
        let covered = self.covered_ids();
        for step in self.phrases.iter_mut().flat_map(|(_, steps)| steps) {
            let more = step.words.iter().filter_map(|id| covered.get(id)).flatten();
            let more: Vec<Id> = more.copied().collect();
            step.words.extend(more);
            step.words.sort_unstable();
            step.words.dedup();
        }
        let mut table = vec![(0, UNKNOWN); (self.words.len() * 3 / 2).next_power_of_two()];
        for (key, id) in &self.ids {
            let hash = match *key {
                Key::Word(hash) => hash,
                Key::Prefix(prefix) => prefix_key(prefix),
            };
            let slot = find_slot(&table, hash);
            table[slot] = (split_hash(hash).1, *id);
        }
        let mut phrases_by_first_word = vec![Vec::new(); self.words.len()];
        let mut is_significant = vec![false; self.words.len()];
        for (number, (phrase, steps)) in self.phrases.iter().enumerate() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let near = steps.get(1).map_or(ALWAYS_NEAR, |step| id_mask(0, &step.words));
            let gap = steps.get(1).is_some_and(|step| step.gap);
            let kind = self.features.get(phrase.feature).kind;
            let is_significant_word = steps.len() == 1
                && phrase.weight > DEFAULT_WEIGHT
                && matches!(kind, FeatureKind::Topic | FeatureKind::Vice);
            for id in &steps[0].words {
                phrases_by_first_word[usize::from(*id)].push(Lead {
                    phrase: number,
                    gap,
                    languages: phrase.languages,
                    near,
                });
                is_significant[usize::from(*id)] |= is_significant_word;
            }
        }
        let mut frequent_in = vec![0; self.words.len()];
        self.frequent_in.iter().for_each(|(id, languages)| frequent_in[usize::from(*id)] = *languages);
        let shapes = Shape::ALL.map(|shape| self.features.find(shape.name()));
        let (phrases, steps): (Vec<_>, Vec<_>) = self.phrases.into_iter().unzip();
        let mut others = vec![Vec::new()];
        let mut pack = |ParsedStep { gap, words }: ParsedStep| {
            let [word, rest @ ..] = &*words else { unreachable!("add_phrase permits no step without words") };
            let mut step = Step { gap, word: *word, others: 0 };
            if !rest.is_empty() {
                step.others = u32::try_from(others.len()).unwrap_or_default();
                others.push(rest.to_vec());
            }
            step
        };
        let steps = Lists::new(steps.into_iter().map(|steps| steps.into_iter().map(&mut pack).collect()));
        Tables {
            features: self.features,
            shapes,
            table,
            phrases: phrases.into(),
            steps,
            others: Lists::new(others),
            phrases_by_first_word: Lists::new(phrases_by_first_word),
            frequent_in,
            is_significant,
            any_number: number,
        }
    }

    /// For each prefix, the IDs of all words and longer prefixes that begin with it: a word of a text has one
    /// ID only, that of its longest entry.
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

/// The hash under which the table stores all numbers.
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
    /// Number of disguised significant words of the lexicon, such as `c4sino` and `c a s i n o`.
    pub disguised: usize,
    /// Number of other disguised words of the lexicon, such as `serv1ces`.
    pub doubtful: usize,
}

impl Words<'_> {
    pub fn new(lexicon: &Lexicon, capacity: usize) -> Words<'_> {
        Words { lexicon, ids: Vec::with_capacity(capacity), spelled: (0, 0), disguised: 0, doubtful: 0 }
    }

    /// Adds a word. Counts a disguised word of the lexicon, and adds the word that it imitates in its place.
    /// If that word is not significant ([`Tables::is_significant`]), counts the disguised one as doubtful; it
    /// must then have at least two letters and four letters and digits. Also collects single letters, which
    /// may spell a word.
    pub fn push(&mut self, word: &Word) {
        let lexicon = self.lexicon;
        let mut id = lexicon.find_id(word);
        if word.is_disguised() {
            let lookalike = lexicon.find_hash(word.lookalike_hash);
            if lexicon.is_significant[usize::from(lookalike)] {
                self.disguised += 1;
                id = lookalike;
            } else if lookalike != UNKNOWN && word.letters >= 2 && word.letters + word.digits >= 4 {
                self.doubtful += 1;
                id = lookalike;
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
            if self.lexicon.is_significant[usize::from(id)] {
                self.disguised += 1;
                self.ids.push(id);
            }
        }
    }

    /// The languages in which the text may be, as a bit set; all bits if it has too few frequent words.
    fn languages(&self) -> u32 {
        let mut counts = [0; MAX_LANGUAGES as usize];
        for id in self.ids.iter().filter(|id| **id != BREAK) {
            let mut languages = self.lexicon.frequent_in[usize::from(*id)];
            while languages != 0 {
                counts[languages.trailing_zeros() as usize] += 1;
                languages &= languages - 1;
            }
        }
        let most: u32 = counts.into_iter().max().unwrap_or_default();
        if most < MIN_COMMON {
            return u32::MAX;
        }
        let is_spoken = |(_, count): &(usize, u32)| count * 100 >= most * SAME_LANGUAGE_PERCENT;
        counts
            .into_iter()
            .enumerate()
            .filter(is_spoken)
            .fold(0, |languages, (language, _)| languages | 1 << language)
    }

    /// Ends the text, and returns the sum of the weights of the phrases found, by feature, at most
    /// [`FULL_WEIGHT`]. Each phrase counts once, and only if the text may be in its language. Of phrases of
    /// different languages that begin with the same word, only those of one language count.
    pub fn weigh_phrases(&mut self) -> Vec<u8> {
        self.end_sentence();
        let lexicon = self.lexicon;
        let languages = self.languages();
        let mut found = vec![0u64; lexicon.phrases.len().div_ceil(64)];
        let mut weights = vec![0; lexicon.features.len()];
        let mut begun = vec![PhrasesOfWord::default(); lexicon.features.len()];
        for (at, id) in self.ids.iter().enumerate() {
            if matches!(*id, UNKNOWN | BREAK) {
                continue;
            }
            let leads = lexicon.phrases_by_first_word.get(usize::from(*id));
            if leads.is_empty() {
                continue;
            }
            let following = &self.ids[at + 1..];
            let next = id_mask(ALWAYS_NEAR, following.first());
            let around = [next, id_mask(next, following.iter().take(GAP + 1).skip(1))];
            for lead in leads {
                if lead.near & around[usize::from(lead.gap)] == 0 || lead.languages & languages == 0 {
                    continue;
                }
                let number = usize::from(lead.phrase);
                let phrase = &lexicon.phrases[number];
                let (place, bit) = (number / 64, 1 << (number % 64));
                if found[place] & bit == 0
                    && begins_with_steps(&lexicon.steps.get(number)[1..], &lexicon.others, following)
                {
                    found[place] |= bit;
                    let added = begun[phrase.feature].add(at, phrase.languages, phrase.weight);
                    let weight: &mut u8 = &mut weights[phrase.feature];
                    *weight = FULL_WEIGHT.min(weight.saturating_add(added));
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

/// The mask of a phrase with only one step: a bit that is set in every mask of following words.
const ALWAYS_NEAR: u64 = 1;

/// Whether `ids` begin with the steps of a phrase, within one sentence. Up to [`GAP`] other words may precede
/// a step with a gap. Phrases have few steps and fewer gaps, which bounds the work for each word of the text.
fn begins_with_steps(steps: &[Step], others: &Lists<Id>, ids: &[Id]) -> bool {
    let Some((step, rest)) = steps.split_first() else { return true };
    let places = if step.gap { GAP + 1 } else { 1 };
    for (at, id) in ids.iter().take(places).enumerate() {
        if *id == BREAK {
            return false;
        }
        if step.fits(others, *id) && begins_with_steps(rest, others, &ids[at + 1..]) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEATURES_OF_TESTS: &str = r#"
base = -10
[feature.topic-money]
kind = "topic"
points = 10
says = "money"
[feature.call]
kind = "pitch"
points = 10
says = "asks for a call"
"#;

    fn lexicon(phrases: &str) -> Result<Lexicon, String> {
        let mut builder = Builder::new(FeatureSet::parse([FEATURES_OF_TESTS]).unwrap());
        let added = builder.add_file(phrases);
        added
            .map(|()| Lexicon(OnceLock::from(builder.build())))
            .map_err(|fault| format!("{}: {}", fault.line.unwrap(), fault.message))
    }

    /// The weights of the features `call` and `topic-money` in a text.
    fn weigh(lexicon: &Lexicon, text: &str) -> [u8; 2] {
        let weights = read(lexicon, text).weigh_phrases();
        ["call", "topic-money"].map(|name| weights[lexicon.features.find(name).unwrap()])
    }

    fn read<'a>(lexicon: &'a Lexicon, text: &str) -> Words<'a> {
        let mut words = Words::new(lexicon, 0);
        for token in Tokenizer::new(text) {
            match token {
                Token::Word(word) => words.push(&word),
                Token::Break => words.end_sentence(),
                Token::Link(_) => {}
            }
        }
        words
    }

    #[test]
    fn a_word_in_the_files_of_several_languages_counts_once() {
        let mut builder = Builder::new(FeatureSet::parse([FEATURES_OF_TESTS]).unwrap());
        for file in [
            "common = 'the of and'\n[phrases]\ntopic-money = ['bitcoin', 'gold =1', 'gold coin =1']",
            "common = 'der und von'\n[phrases]\ntopic-money = ['bitcoin* =3', 'gold =1']\ncall = ['bitcoin =1']",
            "common = 'le la et'\n[phrases]\ntopic-money = ['bitcoin', 'or']",
        ] {
            builder.add_file(file).unwrap();
        }
        let lexicon = Lexicon(OnceLock::from(builder.build()));
        for (text, weights) in [
            ("Bitcoin?", [1, 3]),
            ("The price of gold and bitcoin", [0, 3]),
            ("Bitcoin, or", [1, 4]),
            ("gold", [0, 1]),
            ("gold coin", [0, 2]),
            ("gold, gold coin", [0, 2]),
        ] {
            assert_eq!(weigh(&lexicon, text), weights, "{text}");
        }
    }

    #[test]
    fn a_phrase_shows_its_feature_once() {
        let phrases = r#"phrases = { call = ["quick|short call", "0 minutes", "meet ~ tuesday =1"], topic-money = ["casino =4"] }"#;
        let lexicon = lexicon(phrases).unwrap();
        for (text, weights) in [
            ("", [0, 0]),
            ("A quick call?", [2, 0]),
            ("A quick call, a short call", [2, 0]),
            ("Quick. Call", [0, 0]),
            ("quick one call", [0, 0]),
            ("15 minute", [2, 0]),
            ("Let's meet next Tuesday", [1, 0]),
            ("meet us all on Tuesday", [1, 0]),
            ("meet us all here on Tuesday", [0, 0]),
            ("A short call of 15 minutes: we meet Tuesday at the casino", [4, 4]),
        ] {
            assert_eq!(weigh(&lexicon, text), weights, "{text}");
        }
    }

    #[test]
    fn a_star_stands_for_any_end_of_a_word() {
        let phrases = r#"phrases = { call = ["telefon* =1", "telefonier* bald =1", "telefonat =1"], topic-money = ["kred* geld"] }"#;
        let lexicon = lexicon(phrases).unwrap();
        for (text, weights) in [
            ("Telefon", [1, 0]),
            ("Telefonate", [1, 0]),
            ("ein Telefonat", [2, 0]),
            ("telefonieren wir", [1, 0]),
            ("telefonieren bald", [2, 0]),
            ("Telef", [0, 0]),
            ("Kredit Geld", [0, 2]),
            ("Kre Geld", [0, 0]),
        ] {
            assert_eq!(weigh(&lexicon, text), weights, "{text}");
        }
    }

    #[test]
    fn a_faulty_file_is_refused_with_its_line() {
        for (phrases, expected) in [
            ("phrases = 3", "1: invalid type: integer `3`, expected a map"),
            ("[phrases]\ncall = [\"a =9\"]", "2: the weight of `a =9` must be a number from 1 to 4"),
            (
                "[phrases]\ncall = [\n  \"good\",\n  \"~\"]",
                "4: `~` is not a phrase: it and each of its alternatives must contain a word",
            ),
            (
                "[phrases]\ncalls = [\"a\"]",
                "2: `calls` is not a feature: declare it in features.toml, or use one of call, topic-money",
            ),
            ("[words]\n", "1: unknown field `words`, expected `common` or `phrases`"),
        ] {
            assert_eq!(lexicon(phrases).map(|_| ()), Err(expected.to_owned()), "{phrases}");
        }
    }

    #[test]
    fn too_many_words_are_refused_in_phrases_and_common_words() {
        let letter = |number: usize| char::from(b"abcdefghijklmnopqrstuvwxyz"[number % 26]);
        let word = |n: usize| [n / 17_576, n / 676, n / 26, n].map(letter).iter().collect::<String>();
        let words = |count: usize| (0..count).map(word).collect::<Vec<_>>().join(" ");
        assert!(lexicon(&format!("common = \"{}\"", words(MAX_ENTRIES - 2))).is_ok());
        let expected = |line: usize| Err(format!("{line}: the lexicon has more than 60000 phrases or words"));
        for count in [MAX_ENTRIES, 70_000] {
            let common = format!("\ncommon = \"{}\"\n", words(count));
            assert_eq!(lexicon(&common).map(|_| ()), expected(2), "{count}");
            let phrases = format!("[phrases]\ncall = [\"{}\"]\n", words(count));
            assert_eq!(lexicon(&phrases).map(|_| ()), expected(2), "{count}");
        }
    }

    #[test]
    fn own_files_replace_and_add() {
        let own = |name: &str, text: &str| {
            let files = BTreeMap::from([(name.to_owned(), text.to_owned())]);
            Lexicon::with_files(&files)
        };
        let call = |lexicon: &Lexicon, text: &str| {
            read(lexicon, text).weigh_phrases()[lexicon.features.find("call").unwrap()]
        };
        let built_in = Lexicon::built_in();
        assert_eq!((call(&built_in, "a quick chat"), call(&built_in, "a flumph")), (2, 0));
        let replaced = own("en.toml", "phrases = { call = [\"flumph\"] }").unwrap();
        assert_eq!((call(&replaced, "a quick chat"), call(&replaced, "a flumph")), (0, 2));
        let added = own("own.toml", "phrases = { call = [\"flumph\"] }").unwrap();
        assert_eq!((call(&added, "a quick chat"), call(&added, "a flumph")), (2, 2));
        let feature = "[feature.topic-boats]\nkind = \"topic\"\npoints = 7\nsays = \"boats\"\n";
        let declared = own("features.toml", feature).unwrap();
        assert_eq!(declared.features.get(declared.features.find("topic-boats").unwrap()).points, 7);
        let fault = own("features.toml", "[feature.call]\nkind = \"pitch\"\n").unwrap_err();
        assert_eq!(fault.to_string(), "features.toml: missing field `points`");
    }

    #[test]
    fn every_word_of_the_lexicon_has_an_id_of_its_own() {
        let lexicon = Lexicon::built_in();
        let mut ids: Vec<Id> = lexicon.table.iter().map(|(_, id)| *id).filter(|id| *id != UNKNOWN).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), lexicon.phrases_by_first_word.bounds.len() - 2);
        assert!(lexicon.phrases.len() < MAX_ENTRIES && ids.len() < MAX_ENTRIES);
    }

    #[test]
    fn steps_follow_each_other_within_a_sentence() {
        let others = Lists::new([vec![], vec![9, 11]]);
        let step = |gap, word| Step { gap, word, others: 1 };
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
            assert_eq!(begins_with_steps(&steps, &others, &ids), expected, "{ids:?}");
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
    fn letters_that_stand_alone_are_put_together_from_five_on() {
        let lexicon = lexicon("phrases = { topic-money = [\"casino =4\", \"seo =4\"] }").unwrap();
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
            ("cas1no", 1),
        ] {
            let mut words = read(&lexicon, text);
            words.end_sentence();
            assert_eq!(words.disguised, disguised, "{text}");
        }
    }

    #[test]
    fn words_that_say_little_are_doubtful_where_they_look_like_others() {
        let lexicon = lexicon("phrases = { topic-money = [\"good service\", \"website ranking\"] }").unwrap();
        for (text, doubtful) in
            [("s3rvice", 1), ("service", 0), ("w3b", 0), ("b1cycle", 0), ("r4nking, s3rvice. w3bsite", 3)]
        {
            assert_eq!(read(&lexicon, text).doubtful, doubtful, "{text}");
        }
    }
}
