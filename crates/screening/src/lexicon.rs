//! The lexicon of bulk sales messages: weighted phrases, grouped by topic, which are matched in one pass over
//! the words of a text.
//!
//! `lexicon.txt` explains the format. A phrase counts only once, and a topic counts for [`MOST_OF_A_TOPIC`]
//! at most, so that a long text about search engines is not held just for its length.

use std::sync::LazyLock;

use super::text::{Token, Tokenizer, Word, extend_hash};

/// Maximum weight of one topic.
const MOST_OF_A_TOPIC: u32 = 10;
/// Maximum number of words that a `~` in the lexicon matches.
const GAP: usize = 3;

/// The topics of the lexicon, with the titles that the operator sees.
pub(super) const TOPICS: [(&str, &str); 13] = [
    ("pitch", "cold pitch"),
    ("search", "search ranking"),
    ("placement", "paid links"),
    ("design", "web design"),
    ("leads", "address lists"),
    ("money", "quick money"),
    ("loans", "loans"),
    ("gambling", "gambling"),
    ("pills", "pills"),
    ("dating", "dating"),
    ("threat", "threats and false alarms"),
    ("fame", "bought followers"),
    ("goods", "dubious goods"),
];

/// The section of the lexicon whose phrases are typical of genuine enquiries and reduce the score.
const OURS: &str = "ours";
/// Maximum reduction of the score by enquiry phrases: enough for topics that an enquiry mentions in passing,
/// but too little for a bulk sales message to pass.
const MOST_OF_OURS: u32 = 5;
/// Text whose enquiry phrases have at least this weight is clearly an enquiry. Its topics are probably the
/// writer's trade, so each counts for [`MOST_OF_A_TRADE`] at most: bookmakers and brokers also buy software.
const CLEARLY_OURS: u32 = 3;
const MOST_OF_A_TRADE: u32 = 4;

/// The topics that promise money; see [`Signal::Lure`](crate::verdict::Signal::Lure).
const MONEY: [&str; 3] = ["money", "loans", "gambling"];

/// The ID of a word in the lexicon.
type Id = u16;
/// The ID of all words that are not in the lexicon.
const UNKNOWN: Id = 0;
/// Marks the end of a sentence among the IDs of words.
const BREAK: Id = Id::MAX;

/// Number of slots in the hash table of words, a power of two: enough that most are free, and few enough that
/// the table fits into a fast CPU cache.
const SLOTS: usize = 8192;

/// A place in a phrase that one word fills.
struct Step {
    /// Whether up to [`GAP`] other words may precede the step.
    gap: bool,
    /// The words that fit; more than one if the phrase has alternatives.
    words: Vec<Id>,
}

struct Phrase {
    /// The index in [`TOPICS`]; `None` for phrases of [`OURS`].
    topic: Option<usize>,
    weight: u32,
    steps: Vec<Step>,
}

/// A phrase that begins with a given word.
#[derive(Clone, Copy)]
struct Lead {
    phrase: u16,
    /// The mask of the words in the second step ([`id_mask`]). Rules out most phrases early.
    near: u64,
}

struct Lexicon {
    /// Hash table with open addressing. Each slot holds a part of a word's hash, and the word's ID.
    table: Vec<(u32, Id)>,
    phrases: Vec<Phrase>,
    /// The phrases that begin with a word, by the word's ID.
    first: Vec<Vec<Lead>>,
    /// Whether a word is significant enough on its own to be recognized in disguise, by the word's ID.
    telling: Vec<bool>,
    /// The ID of the word `0`, which matches any number in the text.
    any_number: Id,
}

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::parse(include_str!("lexicon.txt")));

impl Lexicon {
    /// Parses `lexicon.txt`. Skips invalid lines.
    fn parse(text: &str) -> Lexicon {
        let mut lexicon = Lexicon {
            table: vec![(0, UNKNOWN); SLOTS],
            phrases: Vec::new(),
            first: vec![Vec::new()],
            telling: vec![false],
            any_number: UNKNOWN,
        };
        lexicon.any_number = lexicon.find_or_add(extend_hash(0, '0'));
        let mut topic = None;
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                let known = TOPICS.iter().position(|(known, _)| *known == name);
                topic = if name == OURS { Some(None) } else { known.map(Some) };
                continue;
            }
            let (Some(topic), Some((weight, phrase))) = (topic, line.split_once(' ')) else { continue };
            let Ok(weight) = weight.parse() else { continue };
            lexicon.add_phrase(topic, weight, phrase);
        }
        lexicon
    }

    /// Parses a phrase, and adds it to a topic, or to the enquiry phrases if `topic` is `None`. An
    /// alternative of several words counts as its first word.
    fn add_phrase(&mut self, topic: Option<usize>, weight: u32, phrase: &str) {
        let mut steps: Vec<Step> = Vec::new();
        let mut gap = false;
        for part in phrase.split_whitespace() {
            if part == "~" {
                gap = true;
                continue;
            }
            if part.contains('|') {
                let firsts = part.split('|').filter_map(|word| split_words(word).first().copied());
                let words = firsts.map(|word| self.id_of_word(word)).collect();
                steps.push(Step { gap, words });
            } else {
                for (at, word) in split_words(part).into_iter().enumerate() {
                    steps.push(Step { gap: gap && at == 0, words: vec![self.id_of_word(word)] });
                }
            }
            gap = false;
        }
        let number = u16::try_from(self.phrases.len()).unwrap_or(u16::MAX);
        if let Some(step) = steps.first() {
            let near = steps.get(1).map_or(ALWAYS_NEAR, |step| id_mask(0, &step.words));
            for id in step.words.clone() {
                self.first[usize::from(id)].push(Lead { phrase: number, near });
                self.telling[usize::from(id)] |= steps.len() == 1 && weight >= 3 && topic.is_some();
            }
        }
        self.phrases.push(Phrase { topic, weight, steps });
    }

    /// The index of the slot that contains a hash or, if there is none, of the first free slot for it.
    fn find_slot(&self, hash: u64) -> usize {
        let (place, tag) = split_hash(hash);
        let fits = |at: &usize| matches!(self.table[*at], (known, id) if id == UNKNOWN || known == tag);
        (place..SLOTS).chain(0..place).find(fits).unwrap_or(place)
    }

    /// The ID of the word with this hash. Adds the word if it is new.
    fn find_or_add(&mut self, hash: u64) -> Id {
        let slot = self.find_slot(hash);
        if self.table[slot].1 == UNKNOWN {
            let id = Id::try_from(self.first.len()).unwrap_or(BREAK);
            self.table[slot] = (split_hash(hash).1, id);
            self.first.push(Vec::new());
            self.telling.push(false);
        }
        self.table[slot].1
    }

    /// Like [`Lexicon::find_or_add`], except that all words without letters share one ID.
    fn id_of_word(&mut self, word: Word) -> Id {
        if word.is_number() { self.any_number } else { self.find_or_add(word.hash) }
    }

    /// The ID of the word with this hash; [`UNKNOWN`] if it is not in the lexicon.
    fn find_id(&self, hash: u64) -> Id {
        self.table[self.find_slot(hash)].1
    }
}

/// Splits a hash into the slot where the search in the hash table begins, and the value to compare there.
fn split_hash(hash: u64) -> (usize, u32) {
    let bytes = hash.to_be_bytes();
    let place = u16::from_be_bytes([bytes[0], bytes[1]]);
    (usize::from(place) % SLOTS, u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]))
}

/// The words of a text. Drops links and the ends of sentences.
pub(super) fn split_words(text: &str) -> Vec<Word> {
    let word = |token| if let Token::Word(word) = token { Some(word) } else { None };
    Tokenizer::new(text).filter_map(word).collect()
}

/// The words of a text, in order, as lexicon IDs.
#[derive(Default)]
pub(super) struct Words {
    ids: Vec<Id>,
    /// The number of consecutive single letters, such as `c a s i n o`, and the hash of the word they form.
    spelled: (usize, u64),
    /// Number of disguised words that are significant on their own.
    pub disguised: usize,
    /// Number of disguised words that are not significant on their own, such as `serv1ces`.
    pub doubtful: usize,
}

impl Words {
    pub fn with_capacity(words: usize) -> Words {
        Words { ids: Vec::with_capacity(words), ..Words::default() }
    }

    /// Adds a word. Counts it if it is a word of the lexicon in disguise, and takes it for that word.
    pub fn push(&mut self, word: Word) {
        let lexicon = &*LEXICON;
        let mut id = if word.is_number() { lexicon.any_number } else { lexicon.find_id(word.hash) };
        if word.is_disguised() {
            let looks = lexicon.find_id(word.looks);
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
            let id = LEXICON.find_id(hash);
            if LEXICON.telling[usize::from(id)] {
                self.disguised += 1;
                self.ids.push(id);
            }
        }
    }

    /// Ends the text, and returns the weights of the phrases found, by topic. Each phrase counts once.
    pub fn weigh_phrases(&mut self) -> Weights {
        self.end_sentence();
        let lexicon = &*LEXICON;
        let mut found = vec![false; lexicon.phrases.len()];
        let mut weights = Weights::default();
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
                    weights.add_phrase(phrase.topic, phrase.weight);
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
        if step.words.contains(id) && begins_with_steps(rest, &ids[at + 1..]) {
            return true;
        }
    }
    false
}

/// The weights of the phrases found, by topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weights {
    topics: [u32; TOPICS.len()],
    ours: u32,
}

impl Weights {
    fn add_phrase(&mut self, topic: Option<usize>, weight: u32) {
        match topic {
            Some(topic) => self.topics[topic] = (self.topics[topic] + weight).min(MOST_OF_A_TOPIC),
            None => self.ours = (self.ours + weight).min(MOST_OF_OURS),
        }
    }

    /// The score: the weight of each topic up to a cap, plus one for each topic after the first, minus the
    /// weight of enquiry phrases; never below zero. The cap is lower if the text is clearly an enquiry. The
    /// added points reflect that an enquiry may mention one topic, but rarely two.
    pub fn score(&self) -> u32 {
        let most = if self.ours >= CLEARLY_OURS { MOST_OF_A_TRADE } else { MOST_OF_A_TOPIC };
        let topics = self.topics.iter().filter(|weight| **weight > 0).count();
        let weights: u32 = self.topics.iter().map(|weight| (*weight).min(most)).sum();
        let offer = weights + u32::try_from(topics.saturating_sub(1)).unwrap_or_default();
        offer.saturating_sub(self.ours)
    }

    /// The total weight of the topics in [`MONEY`].
    pub fn money_weight(&self) -> u32 {
        let topics = self.topics.iter().zip(TOPICS);
        topics.filter(|(_, (name, _))| MONEY.contains(name)).map(|(weight, _)| weight).sum()
    }

    /// The topics found, with their weights, in descending order: `cold pitch 4, search ranking 3`.
    pub fn describe_topics(&self) -> String {
        let topics = self.topics.iter().zip(TOPICS).map(|(weight, (_, title))| (*weight, title));
        let mut topics: Vec<(u32, &str)> = topics.filter(|(weight, _)| *weight > 0).collect();
        topics.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        topics.iter().map(|(weight, title)| format!("{title} {weight}")).collect::<Vec<_>>().join(", ")
    }
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
