//! The trade and the words of a site, from its own pages: an offer to build websites is spam to a harbor,
//! and an enquiry to an agency.

use std::collections::HashMap;

use super::feature_set::{FeatureId, FeatureKind};
use super::lexicon::{FULL_WEIGHT, Lexicon, Words};
use super::tokenizer::{Token, Tokenizer, Word};

/// Maximum number of frequent words that are kept.
const MAX_WORDS: usize = 300;
/// Words with fewer letters are not counted: most of them are common to all texts of a language.
const MIN_LETTERS: u32 = 6;
/// With fewer frequent words than this, a profile cannot show which words are foreign to the site.
const MIN_WORDS: usize = 60;
/// A subject is the site's own trade if at least two pages, and about one page in this many, cover it.
const TRADE_SHARE: usize = 8;
/// Number of bytes at the beginning of a page's text that are read: the beginning shows the subject.
const MAX_TEXT: usize = 10_000;
/// Maximum number of pages whose texts are read. Reading takes about 10 ms per megabyte.
const MAX_TEXTS: usize = 100;

/// The line of business of a site, its vocabulary and its domain. Empty for a site without pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteProfile {
    /// The subjects of offers that are the site's own trade, sorted.
    own_topics: Vec<FeatureId>,
    /// Hashes of the frequent words' first letters, sorted.
    words: Vec<u32>,
    /// The domain of the site, without `www.`; empty if it is not known.
    domain: String,
}

impl SiteProfile {
    /// Reads the texts of a site's pages: the first `MAX_TEXTS`, and the first `MAX_TEXT` bytes of each. A
    /// topic is the site's own if it has its full strength on enough pages (`TRADE_SHARE`). Counts words by
    /// their first letters, and keeps the `MAX_WORDS` most frequent of those that occur more than once. The
    /// domain stays unknown.
    pub fn read<'a>(lexicon: &Lexicon, texts: impl IntoIterator<Item = &'a str>) -> SiteProfile {
        let mut counts: HashMap<u32, usize> = HashMap::new();
        let mut pages_about: HashMap<FeatureId, usize> = HashMap::new();
        let mut pages = 0;
        for text in texts.into_iter().take(MAX_TEXTS) {
            pages += 1;
            let text = &text[..text.floor_char_boundary(MAX_TEXT)];
            let mut words = Words::new(lexicon, 0);
            for token in Tokenizer::new(text) {
                match token {
                    Token::Word(word) => {
                        words.push(&word);
                        if let Some(stem) = stem(&word) {
                            *counts.entry(stem).or_default() += 1;
                        }
                    }
                    Token::Break => words.end_sentence(),
                    Token::Link(_) => {}
                }
            }
            for (feature, weight) in words.weigh_phrases().into_iter().enumerate() {
                let is_topic = lexicon.features.get(feature).kind == FeatureKind::Topic;
                if is_topic && weight >= FULL_WEIGHT {
                    *pages_about.entry(feature).or_default() += 1;
                }
            }
        }
        let least = (pages / TRADE_SHARE).max(2);
        let mut own_topics: Vec<FeatureId> = pages_about
            .into_iter()
            .filter(|(_, pages)| *pages >= least)
            .map(|(feature, _)| feature)
            .collect();
        own_topics.sort_unstable();
        let mut frequent: Vec<(usize, u32)> =
            counts.into_iter().filter(|(_, count)| *count > 1).map(|(word, count)| (count, word)).collect();
        frequent.sort_unstable_by(|a, b| b.cmp(a));
        frequent.truncate(MAX_WORDS);
        let mut words: Vec<u32> = frequent.into_iter().map(|(_, word)| word).collect();
        words.sort_unstable();
        SiteProfile { own_topics, words, domain: String::new() }
    }

    /// The profile of a site at `host`: links to that host without `www.`, and to names below it, do not
    /// count as links. A host without a dot, such as `localhost`, has no effect.
    #[must_use]
    pub fn at_host(self, host: &str) -> SiteProfile {
        let domain = host.strip_prefix("www.").filter(|rest| rest.contains('.')).unwrap_or(host);
        SiteProfile { domain: if domain.contains('.') { domain.to_owned() } else { String::new() }, ..self }
    }

    /// Whether a domain is the site's domain or one of its subdomains. Ignores case.
    pub(super) fn is_own_domain(&self, domain: &str) -> bool {
        let Some(start) = domain.len().checked_sub(self.domain.len()) else { return false };
        let is_whole = start == 0 || domain.as_bytes()[start - 1] == b'.';
        !self.domain.is_empty()
            && is_whole
            && domain.as_bytes()[start..].eq_ignore_ascii_case(self.domain.as_bytes())
    }

    pub(super) fn is_own_topic(&self, feature: FeatureId) -> bool {
        self.own_topics.binary_search(&feature).is_ok()
    }

    /// Whether the profile has enough words to recognize words that are foreign to the site.
    pub(super) fn knows_words(&self) -> bool {
        self.words.len() >= MIN_WORDS
    }

    /// Whether a word begins like one that is frequent on the site's pages; `None` if it is too short to be
    /// counted.
    pub(super) fn has_word(&self, word: &Word) -> Option<bool> {
        stem(word).map(|stem| self.words.binary_search(&stem).is_ok())
    }
}

/// The hash of a word's first [`MIN_LETTERS`] characters; `None` if it has fewer letters.
fn stem(word: &Word) -> Option<u32> {
    // The shortest prefix has three characters, so the prefix at index 3 has six.
    (word.letters >= MIN_LETTERS).then(|| word.prefixes[3])
}
