//! Adds up the weights of phrases that begin with the same word of a text.

/// The phrases of one feature that begin with one word of a text.
#[derive(Clone, Default)]
pub(super) struct PhrasesOfWord {
    /// The position of the word.
    at: usize,
    /// The languages that the phrases added most recently have in common, as a bit set.
    languages: u32,
    /// The total weight of the phrases in these languages.
    weight: u8,
    /// The largest total weight of the phrases in one language.
    counted: u8,
}

impl PhrasesOfWord {
    /// Adds a phrase that begins at a position, and returns the weight to add to the feature. A short text
    /// may be in any language, and a word such as *bitcoin* is in the files of many: it must not count once
    /// for each. The phrases of one word come in the order of their files.
    pub fn add(&mut self, at: usize, languages: u32, weight: u8) -> u8 {
        if self.at != at {
            *self = PhrasesOfWord { at, ..PhrasesOfWord::default() };
        }
        self.languages &= languages;
        if self.languages == 0 {
            (self.languages, self.weight) = (languages, 0);
        }
        self.weight = self.weight.saturating_add(weight);
        let added = self.weight.saturating_sub(self.counted);
        self.counted += added;
        added
    }
}
