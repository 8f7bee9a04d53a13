//! Splits text into folded words, links and sentence breaks, in one pass.
//!
//! A word is identified by a hash of its folded letters: in lower case, without most accents, without a
//! plural `s`, and with plain letters in place of full-width and decorative ones. In scripts without spaces
//! between words, each character is a word. A link is a single token, and its parts do not count as words.

use frontdesk_forms::text::is_invisible;
use frontdesk_forms::{Entry, FieldKind};

/// The text of a submission, tokenized once for the lexicon and for the detection of repeated messages.
pub struct TokenizedText<'a> {
    pub(super) entry: &'a Entry,
    /// The tokens of all texts that visitors write, except addresses, with a break after each field. The
    /// message is last.
    pub(super) tokens: Vec<Token<'a>>,
    /// The index of the message's first token.
    message: usize,
}

impl<'a> TokenizedText<'a> {
    /// Tokenizes single lines and telephone numbers in the form's order, then the message, which is all
    /// multiline texts. Leaves out e-mail addresses, web addresses and dates, for which the form asks, and
    /// options, which the operator wrote.
    pub fn new(entry: &'a Entry) -> TokenizedText<'a> {
        let length: usize = entry.texts().map(|(_, text)| text.len()).sum();
        let mut tokens = Vec::with_capacity(length / 5);
        let mut message = 0;
        for kinds in [&[FieldKind::Text, FieldKind::Tel][..], &[FieldKind::Multiline]] {
            message = tokens.len();
            for (_, text) in
                entry.texts().filter(|(name, _)| entry.kind(name).is_some_and(|kind| kinds.contains(&kind)))
            {
                for token in Tokenizer::new(text) {
                    tokens.push(token);
                }
                tokens.push(Token::Break);
            }
        }
        TokenizedText { entry, tokens, message }
    }

    /// The tokens of the message, with a break at the end; empty if there is no message.
    pub(super) fn message(&self) -> &[Token<'a>] {
        &self.tokens[self.message..]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(Word),
    Link(TextLink<'a>),
    /// The end of a sentence.
    Break,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// The hash of the folded letters.
    pub hash: u64,
    /// The hash with Latin letters in place of the digits and foreign letters that resemble them.
    pub lookalike_hash: u64,
    pub letters: u32,
    pub digits: u32,
    pub upper: u32,
    pub lower: u32,
    /// Number of invisible characters in the word, except where its script needs such characters.
    pub hidden: u32,
    /// Number of mathematical or enclosed letters, which look like plain ones.
    pub decorative: u32,
    /// The scripts of the letters, as a bit set of [`Script`]s.
    scripts: u8,
    /// Whether the non-Latin letters are an ending or a symbol; see [`Alphabets::has_ending`].
    has_ending: bool,
    /// For each of [`PREFIX_LENGTHS`], the hash of that many first letters and digits; 0 if the word is
    /// shorter.
    pub prefixes: [u32; PREFIX_COUNT],
}

/// The lengths of the prefixes of words that the lexicon can contain, in characters.
pub(super) const PREFIX_LENGTHS: std::ops::RangeInclusive<usize> = 3..=8;
const PREFIX_COUNT: usize = 6;

/// Sets the hash of the first `length` characters of a word, unless no prefix has this length.
fn set_prefix(prefixes: &mut [u32; PREFIX_COUNT], length: usize, hash: u64) {
    if let Some(prefix) = prefixes.get_mut(length.wrapping_sub(*PREFIX_LENGTHS.start())) {
        *prefix = shorten(hash);
    }
}

/// Shortens the hash of a prefix to 32 bits, and never returns 0.
fn shorten(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

impl Word {
    /// Whether the word has no letters.
    pub fn is_number(self) -> bool {
        self.letters == 0
    }

    /// Whether a word of more than three letters mixes alphabets in a way that no language does.
    pub fn is_mixed(self) -> bool {
        self.has_several_alphabets() && !self.has_ending
    }

    /// Whether a word of more than three letters has letters from several alphabets.
    fn has_several_alphabets(self) -> bool {
        // This bitwise AND is nonzero only if at least two bits are set.
        self.scripts & self.scripts.wrapping_sub(1) != 0 && self.letters > 3
    }

    /// Whether the word may be another word in disguise: has more than three letters from several alphabets,
    /// invisible characters, decorative letters, or a digit beside at least two letters.
    pub fn is_disguised(self) -> bool {
        (self.hidden | self.decorative) > 0
            || (self.digits > 0 && self.letters > 1)
            || self.has_several_alphabets()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextLink<'a> {
    /// The host name as written, without `www.` and a port. May be empty.
    pub domain: &'a str,
    /// The markup around the link; `None` for plain text.
    pub markup: Option<Markup>,
    /// Whether it is only a host that begins with a capital letter, without markup: usually the name of a
    /// company or product, such as `Booking.com` or `ASP.NET`.
    pub is_name: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Markup {
    /// `<a href="…">`, which people may quote when they write about web pages.
    Html,
    /// `[url=…]`, which only forums use.
    Forum,
}

/// Iterates over the tokens of a text.
pub(super) struct Tokenizer<'a> {
    text: &'a str,
    /// The byte offset of the next token.
    at: usize,
}

impl<'a> Tokenizer<'a> {
    pub fn new(text: &'a str) -> Tokenizer<'a> {
        Tokenizer { text, at: 0 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteClass {
    Letter,
    Digit,
    /// A character that ends a sentence unless an ASCII letter or digit follows.
    Stop,
    /// An apostrophe (`'`), which is ignored inside words.
    Nothing,
    Other,
    NotAscii,
}

const BYTE_CLASSES: [ByteClass; 256] = {
    let mut classes = [ByteClass::Other; 256];
    let mut at = 0;
    while at < 256 {
        classes[at] = match at {
            0x41..=0x5a | 0x61..=0x7a => ByteClass::Letter,
            0x30..=0x39 => ByteClass::Digit,
            0x21 | 0x2e | 0x3b | 0x3f => ByteClass::Stop,
            0x27 => ByteClass::Nothing,
            0x80.. => ByteClass::NotAscii,
            _ => ByteClass::Other,
        };
        at += 1;
    }
    classes
};

impl<'a> Iterator for Tokenizer<'a> {
    type Item = Token<'a>;

    /// The next word, sign or link, or a break at the end of a sentence. Skips white space and other
    /// punctuation. A dot within a name such as `example.com` is no break.
    #[inline]
    fn next(&mut self) -> Option<Token<'a>> {
        let bytes = self.text.as_bytes();
        loop {
            let byte = *bytes.get(self.at)?;
            match BYTE_CLASSES[usize::from(byte)] {
                ByteClass::Letter | ByteClass::Digit => {
                    let start = self.at;
                    let word = self.read_word();
                    // A link has one of these characters directly after its first word.
                    if matches!(bytes.get(self.at), Some(b'.' | b'-' | b':'))
                        && let Some((link, end)) = parse_link(self.text, start)
                    {
                        self.at = end;
                        return Some(Token::Link(link));
                    }
                    return Some(Token::Word(word));
                }
                ByteClass::Stop => {
                    self.at += 1;
                    // A dot within `example.com` or `v.i.a` does not end the sentence.
                    if bytes.get(self.at).is_none_or(|next| !next.is_ascii_alphanumeric()) {
                        return Some(Token::Break);
                    }
                }
                ByteClass::Nothing | ByteClass::Other => self.at += 1,
                ByteClass::NotAscii => {
                    let c = self.text[self.at..].chars().next()?;
                    match fold_char(c) {
                        // Between words, these characters are ignored.
                        Folded::Other | Folded::Mark | Folded::Unseen => self.at += c.len_utf8(),
                        Folded::Stop => {
                            self.at += c.len_utf8();
                            return Some(Token::Break);
                        }
                        Folded::Sign(sign) => {
                            self.at += c.len_utf8();
                            let hash = extend_hash(0, sign);
                            let word = Word { hash, lookalike_hash: hash, letters: 1, ..Word::default() };
                            return Some(Token::Word(word));
                        }
                        _ => return Some(Token::Word(self.read_word())),
                    }
                }
            }
        }
    }
}

impl Tokenizer<'_> {
    /// A fast path of [`Tokenizer::read_word`] for words of ASCII letters. `None` for other words, which it
    /// does not consume.
    #[expect(clippy::inline_always, reason = "saves 3 % of the instructions for screening a contact message")]
    #[inline(always)]
    fn read_ascii_word(&mut self) -> Option<Word> {
        let rest = &self.text.as_bytes()[self.at..];
        let (mut before, mut hash) = (0, 0);
        let (mut letters, mut lower) = (0, 0);
        // The hash after each of the first letters. Storing also those of lengths below the shortest prefix
        // saves a check per letter.
        let mut begin = [0; *PREFIX_LENGTHS.end()];
        let mut add = |byte: u8| {
            let small = byte | 0x20;
            let is_letter = small.is_ascii_lowercase();
            if is_letter {
                (before, hash) = (hash, extend_hash(hash, char::from(small)));
                letters += 1;
                // Of the letters, only lowercase ones have this bit, so each of them adds 32.
                lower += usize::from(byte & 0x20);
            }
            is_letter.then_some(hash)
        };
        for (byte, prefix) in rest.iter().zip(&mut begin) {
            let Some(hash) = add(*byte) else { break };
            *prefix = shorten(hash);
        }
        if begin[begin.len() - 1] != 0 {
            let _ = rest[begin.len()..].iter().find(|byte| add(**byte).is_none());
        }
        let prefixes = std::array::from_fn(|at| begin[at + PREFIX_LENGTHS.start() - 1]);
        if letters == 0
            || rest.get(letters).is_some_and(|next| {
                !matches!(BYTE_CLASSES[usize::from(*next)], ByteClass::Other | ByteClass::Stop)
            })
        {
            return None;
        }
        self.at += letters;
        let is_plural = letters > 3 && rest[letters - 1] | 0x20 == b's' && rest[letters - 2] | 0x20 != b's';
        let hash = if is_plural { before } else { hash };
        let letters = u32::try_from(letters).unwrap_or(u32::MAX);
        let lower = u32::try_from(lower / 0x20).unwrap_or(u32::MAX);
        Some(Word {
            hash,
            lookalike_hash: hash,
            letters,
            upper: letters - lower,
            lower,
            scripts: Script::Latin as u8,
            prefixes,
            ..Word::default()
        })
    }

    /// The next character of a word, and its length in bytes. `None` at the end of the word. Does not consume
    /// the character.
    fn fold_next(&self) -> Option<(Folded, usize)> {
        let byte = *self.text.as_bytes().get(self.at)?;
        let next = match BYTE_CLASSES[usize::from(byte)] {
            ByteClass::Letter => {
                let case = if byte.is_ascii_uppercase() { Case::Upper } else { Case::Lower };
                (Folded::Letter(char::from(byte.to_ascii_lowercase()), Script::Latin, case), 1)
            }
            ByteClass::Digit => (Folded::Digit(char::from(byte)), 1),
            ByteClass::Nothing => (Folded::Mark, 1),
            ByteClass::NotAscii => {
                let c = self.text[self.at..].chars().next()?;
                (fold_char(c), c.len_utf8())
            }
            ByteClass::Stop | ByteClass::Other => return None,
        };
        Some(next).filter(|(folded, _)| !matches!(folded, Folded::Sign(_) | Folded::Stop | Folded::Other))
    }

    /// Consumes the word that begins here, and folds and counts its letters.
    #[inline]
    fn read_word(&mut self) -> Word {
        self.read_ascii_word().unwrap_or_else(|| self.read_any_word())
    }

    /// The slow path of [`Tokenizer::read_word`], for words that are not only ASCII letters.
    #[inline(never)]
    fn read_any_word(&mut self) -> Word {
        let mut word = Word::default();
        // Each pair contains the hash without the last letter, which may be a plural `s`, and the full hash.
        let (mut hash, mut lookalike_hash) = ((0, 0), (0, 0));
        let mut last = ['\0'; 2];
        let mut taken = 0;
        let mut unseen = 0;
        let mut alphabets = Alphabets::default();
        // Whether the previous letter belongs to a script other than Latin, Cyrillic and Greek.
        let mut after_other_script = false;
        while let Some((folded, length)) = self.fold_next() {
            let start = self.at;
            self.at += length;
            let c = match folded {
                Folded::Letter(c, script, case) => {
                    word.letters += 1;
                    word.scripts |= script as u8;
                    alphabets.add(c, script, &case);
                    word.upper += u32::from(case == Case::Upper);
                    word.lower += u32::from(case == Case::Lower);
                    after_other_script = script == Script::Other;
                    if after_other_script {
                        unseen = 0;
                    }
                    c
                }
                Folded::Decorative(c) => {
                    word.letters += 1;
                    word.scripts |= Script::Latin as u8;
                    word.decorative += 1;
                    after_other_script = false;
                    c
                }
                Folded::Digit(c) => {
                    word.digits += 1;
                    c
                }
                Folded::Unseen => {
                    // Ignore invisible characters after letters of other scripts: Persian uses them as
                    // joiners, and Hebrew uses them to mark the direction of a Latin word.
                    unseen += u32::from(!after_other_script);
                    continue;
                }
                _ => {
                    alphabets.after_apostrophe = self.text[start..].starts_with(APOSTROPHES);
                    continue;
                }
            };
            // Count invisible characters only between letters: those at the end of a word may be left over
            // from pasting.
            if word.scripts != 0 {
                word.hidden += unseen;
            }
            unseen = 0;
            hash = (hash.1, extend_hash(hash.1, c));
            lookalike_hash = (lookalike_hash.1, extend_hash(lookalike_hash.1, latin_lookalike(c)));
            taken += 1;
            set_prefix(&mut word.prefixes, taken, hash.1);
            last = [last[1], c];
        }
        let is_plural = last[1] == 's' && last[0] != 's' && word.letters > 3;
        (word.hash, word.lookalike_hash) =
            if is_plural { (hash.0, lookalike_hash.0) } else { (hash.1, lookalike_hash.1) };
        word.has_ending = alphabets.has_ending(word.scripts);
        word
    }
}

/// Extends the hash of a word by its next character. The hash need not resist attackers: a collision with a
/// word in the lexicon has the same effect as that word itself.
pub(super) fn extend_hash(hash: u64, c: char) -> u64 {
    (hash.rotate_left(5) ^ u64::from(u32::from(c))).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// The alphabet of a letter, as a bit of [`Word::scripts`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    /// Another script, or a Greek letter that Latin words contain, as in `μm`. Never counts as mixed.
    Other = 0,
    Latin = 1,
    Cyrillic = 2,
    Greek = 4,
}

/// Apostrophes that may separate a Latin name from an ending in another alphabet, as in `iPhone'ов`.
const APOSTROPHES: [char; 3] = ['\'', '\u{2019}', '\u{2bc}'];

/// Facts about a word's letters that distinguish names with foreign endings (`iPhone'ов`) from disguises.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the letters of a word")]
struct Alphabets {
    /// The script of the last letter; 0 before the first one.
    last: u8,
    /// The number of times that the alphabet changes between two letters.
    changes: u32,
    /// Whether the last character is an apostrophe.
    after_apostrophe: bool,
    /// Whether an apostrophe precedes the letter at which the alphabet changed last.
    changes_at_apostrophe: bool,
    /// Whether the word has a Cyrillic or Greek letter that resembles no Latin letter.
    has_own_letter: bool,
    has_small_latin: bool,
    /// Whether the word has a Cyrillic or Greek letter that is not lower case.
    has_other_capital: bool,
}

impl Alphabets {
    /// Adds the next letter of the word, `c` in its folded form. Ignores letters of [`Script::Other`].
    fn add(&mut self, c: char, script: Script, case: &Case) {
        let after_apostrophe = std::mem::take(&mut self.after_apostrophe);
        match script {
            Script::Other => return,
            Script::Latin => self.has_small_latin |= *case != Case::Upper,
            Script::Cyrillic | Script::Greek => {
                self.has_own_letter |= latin_lookalike(c) == c;
                self.has_other_capital |= *case != Case::Lower;
            }
        }
        if self.last != 0 && self.last != script as u8 {
            self.changes += 1;
            self.changes_at_apostrophe = after_apostrophe;
        }
        self.last = script as u8;
    }

    /// Whether a word of Latin and other letters is one that people write: a Latin name with an ending of
    /// another alphabet (`iPhone'ов`, `PDFка`, `SEOшник`), or Latin capitals with small Greek letters
    /// (`TNFα`, `NFκB`). A disguise replaces letters by others that resemble them, so an ending after small
    /// letters has a letter that resembles none, or follows an apostrophe.
    fn has_ending(&self, scripts: u8) -> bool {
        let is_acronym = !self.has_small_latin && !self.has_other_capital;
        let is_symbol = is_acronym && scripts == Script::Latin as u8 | Script::Greek as u8;
        let is_ending = self.changes == 1
            && scripts & Script::Latin as u8 != 0
            && (self.has_own_letter || self.changes_at_apostrophe || is_acronym);
        is_ending || is_symbol
    }
}

#[derive(PartialEq, Eq)]
enum Case {
    Upper,
    Lower,
    None,
}

/// The role of a character in a word, and the letter that it is folded to.
enum Folded {
    Letter(char, Script, Case),
    /// A mathematical or enclosed letter.
    Decorative(char),
    /// An ASCII digit.
    Digit(char),
    /// A character that is a word on its own.
    Sign(char),
    /// A character that belongs to the previous letter, such as an accent or an apostrophe.
    Mark,
    /// An invisible character.
    Unseen,
    /// A character that ends a sentence.
    Stop,
    /// A character between words, such as a quotation mark.
    Other,
}

/// The letters from U+00C0 to U+017F without their accents; `*` marks characters that are not letters.
const LATIN: &[u8; 192] = b"aaaaaaaceeeeiiiidnooooo*ouuuuytsaaaaaaaceeeeiiiidnooooo*ouuuuyty\
aaaaaaccccccccddddeeeeeeeeeegggggggghhhhiiiiiiiiiiiijjkkklllllll\
lllnnnnnnnnnoooooooorrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzzs";

/// Folds a non-ASCII character. Letters become lower-case ones, those up to U+017F without their accents, and
/// full-width and decorative ones plain ones.
fn fold_char(c: char) -> Folded {
    let code = u32::from(c);
    let case = || match c {
        c if c.is_lowercase() => Case::Lower,
        c if c.is_uppercase() => Case::Upper,
        _ => Case::None,
    };
    let lower = |c: char| c.to_lowercase().next().unwrap_or(c);
    match code {
        0xc0..=0x17f => {
            let at = usize::try_from(code - 0xc0).unwrap_or_default();
            match LATIN[at] {
                b'*' => Folded::Other,
                base => Folded::Letter(char::from(base), Script::Latin, case()),
            }
        }
        // Combining accents, apostrophes, variation selectors, and the soft hyphens in text copied from the
        // web.
        0xad | 0x2bc | 0x300..=0x34e | 0x350..=0x36f | 0x483..=0x489 | 0x2019 | 0xfe00..=0xfe0f => {
            Folded::Mark
        }
        0x180..=0x24f | 0x1e00..=0x1eff => Folded::Letter(lower(c), Script::Latin, case()),
        0x370..=0x3ff | 0x1f00..=0x1fff if c.is_alphabetic() => {
            // Units and constants combine these letters with Latin ones, so they do not count as Greek.
            let script =
                if matches!(c, 'μ' | 'Ω' | 'Δ' | 'π' | 'β') { Script::Other } else { Script::Greek };
            Folded::Letter(lower(c), script, case())
        }
        // A fast path for the basic Cyrillic letters.
        0x410..=0x42f => {
            Folded::Letter(char::from_u32(code + 0x20).unwrap_or(c), Script::Cyrillic, Case::Upper)
        }
        0x430..=0x44f => Folded::Letter(c, Script::Cyrillic, Case::Lower),
        0x400..=0x52f => Folded::Letter(lower(c), Script::Cyrillic, case()),
        0x3002 | 0xff01 | 0xff0e | 0xff1f | 0x61f | 0x6d4 | 0x964 | 0x2026 => Folded::Stop,
        0xff21..=0xff3a | 0xff41..=0xff5a => {
            let c = char::from_u32(code - 0xfee0).unwrap_or(c).to_ascii_lowercase();
            Folded::Letter(c, Script::Latin, Case::None)
        }
        0x1d400..=0x1d6a3 => Folded::Decorative(latin_letter((code - 0x1d400) % 26)),
        0x24b6..=0x24e9 => Folded::Decorative(latin_letter((code - 0x24b6) % 26)),
        // Letters in squares and dark circles. The symbols between these alphabets are not letters.
        0x1f130..=0x1f149 | 0x1f150..=0x1f169 | 0x1f170..=0x1f189 => {
            Folded::Decorative(latin_letter((code - 0x1f130) % 32))
        }
        // Checked after the most common scripts, but before other letters, because Unicode classifies the
        // Hangul fillers as letters.
        _ if is_invisible(c) => Folded::Unseen,
        // Kana, ideographs and the scripts of South-East Asia, which have no spaces between words.
        0xe00..=0xeff
        | 0x1000..=0x109f
        | 0x1780..=0x17ff
        | 0x3041..=0x30ff
        | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff
        | 0xf900..=0xfaff
        | 0x20000..=0x323af => Folded::Sign(c),
        _ if c.is_alphanumeric() => Folded::Letter(lower(c), Script::Other, case()),
        _ => Folded::Other,
    }
}

/// The letter at this position in the alphabet, counted from 0.
fn latin_letter(at: u32) -> char {
    char::from_u32(u32::from('a') + at).unwrap_or('a')
}

/// The Latin letter that a digit or a Cyrillic or Greek letter in lower case resembles. Returns other
/// characters unchanged.
fn latin_lookalike(c: char) -> char {
    match c {
        '0' | 'о' | 'ο' | 'σ' => 'o',
        '1' | 'і' | 'ι' => 'i',
        '3' | 'е' | 'ё' | 'ε' | 'є' => 'e',
        '4' | 'а' | 'α' => 'a',
        '5' | 'ѕ' => 's',
        '7' | 'т' | 'τ' => 't',
        'р' | 'ρ' => 'p',
        'с' | 'ϲ' => 'c',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        'к' | 'κ' => 'k',
        'м' => 'm',
        'н' | 'η' => 'n',
        'в' => 'b',
        'ј' => 'j',
        'ν' => 'v',
        'υ' => 'u',
        c => c,
    }
}

/// Detects the markup of a link from the text before it.
fn detect_markup(before: &[u8]) -> Option<Markup> {
    let unquoted = before.strip_suffix(b"\"").or_else(|| before.strip_suffix(b"'"));
    let before = unquoted.unwrap_or(before);
    let ends = |with: &str| {
        before.len() >= with.len()
            && before[before.len() - with.len()..].eq_ignore_ascii_case(with.as_bytes())
    };
    if ends("href=") {
        Some(Markup::Html)
    } else if ["[url=", "[url]", "[link=", "[img]"].into_iter().any(ends) {
        Some(Markup::Forum)
    } else {
        None
    }
}

/// A name with one of these top-level domains is a link even without a scheme. Other names also need `www.`
/// or a path.
const COMMON_ENDINGS: [&str; 24] = [
    "com", "net", "org", "info", "biz", "xyz", "top", "site", "online", "shop", "store", "club", "live",
    "click", "link", "icu", "vip", "win", "bet", "casino", "ru", "cn", "ly", "me",
];

/// The link that begins at byte `at` with a scheme, `www.` or a domain, and the byte offset of its end.
/// `None` if no link begins there, as in an e-mail address or in the middle of a word. A domain alone is a
/// link if it has a path or one of the [`COMMON_ENDINGS`].
fn parse_link(text: &str, at: usize) -> Option<(TextLink<'_>, usize)> {
    let bytes = text.as_bytes();
    let rest = &bytes[at..];
    let is_host = |b: &u8| b.is_ascii_alphanumeric() || *b == b'.' || *b == b'-';
    let begins =
        |with: &str| rest.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()));
    let scheme = ["https://", "http://"].into_iter().find(|scheme| begins(scheme));
    let mut host = at + scheme.map_or(0, str::len);
    if scheme.is_none() {
        // A link must begin at the start of a name. Otherwise, parsing `a-a-a-…` would take quadratic time.
        if at > 0 && matches!(bytes[at - 1], b'@' | b'/' | b'.' | b'-' | b'_') {
            return None;
        }
        // Return early for most words, which have no dot after them.
        let word = rest.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'-').unwrap_or(rest.len());
        if rest.get(word) != Some(&b'.') || rest.get(word + 1).is_none_or(|b| !b.is_ascii_alphanumeric()) {
            return None;
        }
    }
    let host_end =
        |from: usize| from + bytes[from..].iter().position(|b| !is_host(b)).unwrap_or(bytes.len() - from);
    let mut end = host_end(host);
    // Skip a user name and a password, which may look like a domain: `https://example.com:x@example.net/`.
    let may_go_on = bytes.get(end).is_some_and(|b| *b != b'/' && !b.is_ascii_whitespace());
    if scheme.is_some() && may_go_on {
        let ends = |b: &u8| b.is_ascii_whitespace() || b"/?#\\<>\"'`()[]{}|".contains(b);
        let authority = &bytes[host..];
        let authority = &authority[..authority.iter().position(ends).unwrap_or(authority.len())];
        if let Some(mark) = authority.iter().rposition(|b| *b == b'@') {
            host += mark + 1;
            end = host_end(host);
        }
    }
    let name = text[host..end].trim_end_matches(['.', '-']);
    let has_path = bytes.get(end) == Some(&b'/');
    let www = name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("www."));
    let domain = if www { &name[4..] } else { name };
    if scheme.is_none() {
        let ending = domain.rsplit_once('.').map_or("", |(_, ending)| ending);
        let is_ending = ending.len() >= 2 && ending.bytes().all(|b| b.is_ascii_alphabetic());
        let common = || COMMON_ENDINGS.iter().any(|common| common.eq_ignore_ascii_case(ending));
        let address = bytes.get(end) == Some(&b'@');
        if address || !is_ending || !(www || has_path || common()) {
            return None;
        }
    }
    let after = &text[host + name.len()..];
    let stop = |c: char| {
        c.is_whitespace()
            || c.is_control()
            || "<>\"'`)]}|".contains(c)
            || ('\u{3000}'..='\u{9fff}').contains(&c)
    };
    let tail =
        after.find(stop).map_or(after, |end| &after[..end]).trim_end_matches(['.', ',', ';', ':', '!', '?']);
    let tail = if tail.starts_with(['/', ':', '?', '#']) { tail.len() } else { 0 };
    let markup = detect_markup(&bytes[..at]);
    let is_bare = scheme.is_none() && !www && markup.is_none() && tail == 0;
    let is_name = is_bare && bytes[at].is_ascii_uppercase();
    Some((TextLink { domain, markup, is_name }, host + name.len() + tail))
}

#[cfg(test)]
mod tests;
