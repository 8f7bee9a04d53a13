//! Finds the signals in a submission's own text: links, words, spelling and names.

use std::sync::LazyLock;

use super::domain_lists::{Domains, sorted_lines_contain};
use super::feature_set::Shape;
use super::lexicon::{Words, split_words};
use super::offer::{MAX_POINTS, Offer, Weights};
use super::site_profile::SiteProfile;
use super::tokenizer::{Markup, TextLink, Token, TokenizedText, Tokenizer};
use crate::verdict::Signal;
use crate::{ScreeningOptions, wording_model};
use frontdesk_forms::mailbox_identity::is_provider;
use frontdesk_forms::{Entry, FieldKind};

/// Each link beyond this number is suspicious, regardless of the length of the text.
const MAX_HARMLESS_LINKS: usize = 3;
/// Text with fewer capital letters than this never counts as shouting.
const MIN_SHOUTED_CAPITALS: u32 = 30;

/// Minimum length, in letters, of a word that is checked for gibberish. Shorter words of real languages can
/// look random.
const MIN_GIBBERISH_LETTERS: usize = 9;

/// The domains of URL shorteners, sorted, one per line.
const SHORTENERS: &str = include_str!("shorteners.txt");

/// The domains of providers of free mailboxes, sorted, one per line.
const FREE_MAIL: &str = include_str!("free_mail.txt");

/// A text with at least this many words is long, and one with fewer than [`FEW_WORDS`] is short.
const MANY_WORDS: usize = 60;
const FEW_WORDS: usize = 15;
/// Minimum number of long words in a text for comparing its words with those of the site's pages.
const MIN_LONG_WORDS: usize = 12;
/// A text uses the site's words if at least this percentage of its long words is frequent there, and foreign
/// ones if less than [`FOREIGN_PERCENT`] is.
const SITE_PERCENT: usize = 20;
const FOREIGN_PERCENT: usize = 5;

/// Domains whose links open a chat in a messenger.
const MESSENGERS: [&str; 7] =
    ["api.whatsapp.com", "chat.whatsapp.com", "m.me", "t.me", "telegram.me", "viber.click", "wa.me"];

/// The hashes of the names of messengers.
static MESSENGER_NAMES: LazyLock<[u64; 5]> = LazyLock::new(|| {
    let hash = |name| split_words(name).first().map(|word| word.hash).unwrap_or_default();
    wording_model::MESSENGERS.map(hash)
});

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SignalFinding {
    pub(super) signal: Signal,
    /// The strength of the signal, as a percentage of its maximum points.
    pub(super) percent: u32,
    pub(super) detail: String,
}

#[derive(Clone, Default)]
pub(super) struct Findings(pub(super) Vec<SignalFinding>);

impl Findings {
    /// Adds a signal, unless `percent` is 0. A strength above 100 percent counts as 100.
    pub(super) fn add<D: Into<String>>(&mut self, signal: Signal, percent: u32, detail: impl FnOnce() -> D) {
        if percent > 0 {
            self.0.push(SignalFinding { signal, percent: percent.min(100), detail: detail().into() });
        }
    }
}

/// The strength of a signal that is either present (100 percent) or absent (0).
pub(super) fn full_strength_if(is_present: bool) -> u32 {
    100 * u32::from(is_present)
}

/// Adds the signals in the texts that visitors write: at most one finding for each signal. Does not examine
/// e-mail addresses, except for features of an offer that concern their domains. Returns the text's features.
pub(super) fn find_text_signals(
    text: &TokenizedText<'_>,
    options: &ScreeningOptions,
    findings: &mut Findings,
) -> Weights {
    let entry = text.entry;
    let scan = TextScan::run(text, options);
    let TextScan { links, words, .. } = scan;
    findings.add(Signal::Links, link_strength(links, words), || {
        format!("{links} link{} among {words} words", if links == 1 { "" } else { "s" })
    });
    if let Some(domain) = &scan.shortener {
        findings.add(Signal::Shortener, 100, || format!("link through {domain}"));
    }
    let markup = [0, 50, 100][scan.markup.min(2)];
    findings.add(Signal::Markup, markup, || "links in forum or HTML markup");
    if let Some(domain) = &scan.blocked {
        findings.add(Signal::Listed, 100, || format!("link to {domain}, which is blocked"));
    }
    findings
        .add(Signal::Offer, scan.offer.points * 100 / MAX_POINTS, || scan.offer.explain(&options.lexicon));
    let is_offer = scan.offer.points > 0;
    let lure = if scan.money >= 2 { 100 } else { 50 * u32::from(is_offer) };
    let lure = lure * u32::from(scan.messenger);
    findings.add(Signal::Lure, lure, || "asks to continue in a messenger");
    let is_long = |name: &str| entry.kind(name) == Some(FieldKind::Multiline);
    if entry.texts().any(|(name, text)| is_long(name) && is_random_letters(text)) {
        findings.add(Signal::Disguise, 100, || "only random letters");
    } else {
        // One word can be disguised in several ways, so take the maximum of the counts and not their sum.
        let disguises = scan.disguised.max(scan.hidden).max(scan.mixed).max(scan.decorative);
        findings.add(Signal::Disguise, [0, 40, 80, 100][disguises.min(3)], || {
            format!("{disguises} disguised word{}", if disguises == 1 { "" } else { "s" })
        });
    }
    let is_loud = scan.upper >= MIN_SHOUTED_CAPITALS && scan.upper >= 2 * scan.lower;
    findings.add(Signal::Shouting, full_strength_if(is_loud), || "written in capitals");
    let (percent, detail) = find_name_signal(entry);
    findings.add(Signal::Name, percent, || detail);
    scan.weights
}

/// The features found in a text, with their weights.
pub(super) fn weigh_features(text: &TokenizedText<'_>, options: &ScreeningOptions) -> Weights {
    TextScan::run(text, options).weights
}

/// The strength of [`Signal::Links`], in percent; [`Findings::add`] limits it to 100. Genuine reports also
/// contain links, but with more words around them.
fn link_strength(links: usize, words: usize) -> u32 {
    if links == 0 {
        return 0;
    }
    let many = links.saturating_sub(MAX_HARMLESS_LINKS) * 5;
    // Links per hundred words, with four words added to the text. One link in an enquiry of twelve words
    // gives 6, which adds nothing to the strength; one link next to a single word gives 20.
    let dense = (links * 100 / (words + 4)).saturating_sub(6) * 3;
    u32::try_from(many.min(50) + dense).unwrap_or(100)
}

/// The results of one pass over the tokens of a text.
#[derive(Default)]
struct TextScan {
    /// The total weight of words about getting rich quickly.
    money: u32,
    /// The number of links. Excludes links to the site itself, and names such as `Booking.com`.
    links: usize,
    /// The number of words, including names such as `Booking.com`.
    words: usize,
    /// The sum over all links with markup: 2 for each link in forum markup, 1 for each in HTML.
    markup: usize,
    /// The domain of the first link through a URL shortener.
    shortener: Option<String>,
    /// The domain of the first link to a blocked domain.
    blocked: Option<String>,
    /// Whether the text names a messenger or links to one.
    messenger: bool,
    /// The number of uppercase letters.
    upper: u32,
    /// The number of lowercase letters.
    lower: u32,
    /// The number of words with invisible characters.
    hidden: usize,
    /// The number of words with letters from several alphabets.
    mixed: usize,
    /// The number of words with at least three decorative letters.
    decorative: usize,
    /// The number of disguised words that the lexicon contains.
    disguised: usize,
    offer: Offer,
    weights: Weights,
}

impl TextScan {
    /// Scans the tokens, and looks up the domains of web addresses. In a text without words, counts the links
    /// and finds no features.
    fn run(text: &TokenizedText<'_>, options: &ScreeningOptions) -> TextScan {
        let ScreeningOptions { blocked, lexicon, profile, .. } = options;
        let mut scan = TextScan::default();
        let mut site_words = SiteWords::default();
        let messengers = &*MESSENGER_NAMES;
        let mut words = Words::new(lexicon, text.tokens.len());
        for token in &text.tokens {
            match token {
                Token::Word(word) => {
                    scan.words += 1;
                    scan.upper += word.upper;
                    scan.lower += word.lower;
                    scan.hidden += usize::from(word.hidden > 0);
                    scan.mixed += usize::from(word.is_mixed());
                    scan.decorative += usize::from(word.decorative > 2);
                    scan.messenger |= messengers.contains(&word.hash);
                    site_words.count(profile.has_word(word));
                    words.push(word);
                }
                Token::Link(link) if link.is_name || profile.is_own_domain(link.domain) => {
                    scan.words += usize::from(link.is_name);
                    scan.look_up(link.domain, blocked);
                }
                Token::Link(link) => scan.count_link(*link, blocked),
                Token::Break => words.end_sentence(),
            }
        }
        scan.look_up_web_addresses(text.entry, blocked);
        if scan.words == 0 {
            return scan;
        }
        // A single word with digits may be a model number, so count only every third one as a disguise.
        scan.disguised = words.disguised + words.doubtful / 3;
        let mut weights = Weights::new(words.weigh_phrases());
        for shape in scan.shapes(text, &site_words, profile) {
            weights.add_shape(lexicon, shape);
        }
        weights.count_steps(lexicon);
        scan.money = weights.money_weight(lexicon);
        scan.offer = weights.judge(lexicon, profile, wording_odds(text.entry));
        scan.weights = weights;
        scan
    }

    /// The features that follow from the shape of the text, not from phrases of the lexicon, except for
    /// [`Shape::ManySteps`] and [`Shape::Wording`]. Those about the site's words need a profile with enough
    /// words, and [`MIN_LONG_WORDS`] in the text.
    fn shapes(&self, text: &TokenizedText<'_>, site_words: &SiteWords, profile: &SiteProfile) -> Vec<Shape> {
        let entry = text.entry;
        let domains: Vec<&str> =
            entry.emails().filter_map(|address| Some(address.rsplit_once('@')?.1)).collect();
        let is_company = |domain: &&str| !sorted_lines_contain(FREE_MAIL, domain) && !is_provider(domain);
        let links_to = |domain: &&str| {
            let links = text
                .tokens
                .iter()
                .filter_map(|token| if let Token::Link(link) = token { Some(link.domain) } else { None });
            let is_foreign = |link: &&str| !profile.is_own_domain(link);
            links.into_iter().filter(is_foreign).any(|link| link.eq_ignore_ascii_case(domain))
        };
        let asks = entry.texts().any(|(_, text)| is_question(text));
        let companies: Vec<&str> = domains.into_iter().filter(is_company).collect();
        let has_digits =
            text.tokens.iter().any(|token| matches!(token, Token::Word(word) if word.digits > 0));
        let shapes = [
            (Shape::CompanyAddress, !companies.is_empty()),
            (Shape::Link, self.links > 0),
            (Shape::OwnLink, companies.iter().any(links_to)),
            (Shape::NoQuestion, !asks),
            (Shape::Long, self.words >= MANY_WORDS),
            (Shape::Short, self.words < FEW_WORDS),
            (
                Shape::SiteWords,
                profile.knows_words() && site_words.percent().is_some_and(|share| share >= SITE_PERCENT),
            ),
            (
                Shape::ForeignWords,
                profile.knows_words() && site_words.percent().is_some_and(|share| share < FOREIGN_PERCENT),
            ),
            (Shape::Digits, has_digits),
        ];
        shapes.into_iter().filter(|(_, has)| *has).map(|(shape, _)| shape).collect()
    }

    /// Looks up the domains in fields for web addresses. Such addresses do not count as links.
    fn look_up_web_addresses(&mut self, entry: &Entry, blocked: &Domains) {
        for (_, text) in entry.texts().filter(|(name, _)| entry.kind(name) == Some(FieldKind::Url)) {
            for token in Tokenizer::new(text) {
                if let Token::Link(link) = token {
                    self.look_up(link.domain, blocked);
                }
            }
        }
    }

    /// Counts a link and its markup (twice for the markup of forums), and looks up its domain.
    fn count_link(&mut self, TextLink { domain, markup, .. }: TextLink<'_>, blocked: &Domains) {
        self.links += 1;
        self.markup += match markup {
            None => 0,
            Some(Markup::Html) => 1,
            Some(Markup::Forum) => 2,
        };
        self.look_up(domain, blocked);
    }

    /// Notes whether the domain is a messenger's, and the domain if it is the first of a URL shortener or the
    /// first that is blocked.
    fn look_up(&mut self, domain: &str, blocked: &Domains) {
        if self.shortener.is_none() && sorted_lines_contain(SHORTENERS, domain) {
            self.shortener = Some(domain.to_ascii_lowercase());
        }
        self.messenger |= MESSENGERS.iter().any(|known| known.eq_ignore_ascii_case(domain));
        if self.blocked.is_none() && blocked.lists(domain) {
            self.blocked = Some(domain.to_ascii_lowercase());
        }
    }
}

/// Whether a text has a question mark. One before an ASCII letter or digit does not count, because it may be
/// in a link. One before any other letter does: scripts without spaces between words have it there. A
/// semicolon after a Greek letter is one as well.
fn is_question(text: &str) -> bool {
    let is_greek = |c: char| matches!(u32::from(c), 0x370..=0x3ff | 0x1f00..=0x1fff);
    text.match_indices('?').any(|(at, _)| !text[at + 1..].starts_with(|c: char| c.is_ascii_alphanumeric()))
        || (!text.is_ascii()
            && (text.contains(['？', '؟', '\u{37e}'])
                || text.match_indices(';').any(|(at, _)| text[..at].ends_with(is_greek))))
}

/// The log-odds, in hundredths, that the multi-line fields are worded like an offer; 0 if their text is too
/// short.
fn wording_odds(entry: &Entry) -> i32 {
    let is_long = |name: &str| entry.kind(name) == Some(FieldKind::Multiline);
    let texts = entry.texts().filter(|(name, _)| is_long(name)).map(|(_, text)| text);
    wording_model::odds(texts).unwrap_or_default()
}

/// Counts of a text's long words.
#[derive(Default)]
struct SiteWords {
    known: usize,
    all: usize,
}

impl SiteWords {
    /// Counts a word; `is_known` is whether it is frequent on the site's pages, or `None` for a short word.
    fn count(&mut self, is_known: Option<bool>) {
        self.all += usize::from(is_known.is_some());
        self.known += usize::from(is_known == Some(true));
    }

    /// The percentage of known words; `None` if there are too few words.
    fn percent(&self) -> Option<usize> {
        (self.all >= MIN_LONG_WORDS).then(|| self.known * 100 / self.all)
    }
}

/// The strength in percent and the description of [`Signal::Name`], from the fields `name`, `firstname`,
/// `lastname` and `company` only. The description does not apply if the strength is 0.
fn find_name_signal(entry: &Entry) -> (u32, &'static str) {
    let names = ["name", "firstname", "lastname"].map(|field| entry.get(field));
    let any_name = |is_odd: fn(&str) -> bool| names.iter().flatten().any(|name| is_odd(name));
    let same = |a: Option<&str>, b: Option<&str>| a.is_some() && a.map(str::trim) == b.map(str::trim);
    let is_one_word = same(names[1], names[2]);
    if any_name(has_link) {
        (100, "web address as a name")
    } else if is_one_word && same(names[1], entry.get("company")) {
        (100, "same word as first name, last name and company")
    } else if any_name(|name| name.split_whitespace().any(is_gibberish)) {
        (100, "random letters as a name")
    } else {
        (if is_one_word { 50 } else { 0 }, "same word as first name and last name")
    }
}

fn has_link(text: &str) -> bool {
    Tokenizer::new(text).any(|token| matches!(token, Token::Link(_)))
}

/// Whether the text has words apart from links, and all of them consist of random letters.
fn is_random_letters(text: &str) -> bool {
    let mut words = text.split_whitespace().filter(|word| !has_link(word)).peekable();
    words.peek().is_some() && words.all(is_gibberish)
}

/// Whether a word looks like random letters: at least [`MIN_GIBBERISH_LETTERS`] ASCII letters, with either
/// fewer than one vowel in seven letters, or at least three capitals that each follow a lower-case letter.
/// Slavic and Germanic names have long runs of consonants, but more vowels than that.
fn is_gibberish(word: &str) -> bool {
    if word.len() < MIN_GIBBERISH_LETTERS || !word.bytes().all(|b| b.is_ascii_alphabetic()) {
        return false;
    }
    let vowels = word.bytes().filter(|b| b"aeiouyAEIOUY".contains(b)).count();
    let rises =
        word.as_bytes().windows(2).filter(|w| w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase()).count();
    vowels * 7 < word.len() || rises >= 3
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use frontdesk_forms::{CONTACT, parse};

    #[test]
    fn questions_are_recognized_in_all_scripts() {
        for (text, expected) in [
            ("Do you ship?", true),
            ("\"Do you?\" she asked", true),
            ("最低起订量是多少？可以吗", true),
            ("多少?可以", true),
            ("هل تشحنون؟نعم", true),
            ("Πόσο κάνει; Ευχαριστώ", true),
            ("Πόσο κάνει\u{37e}", true),
            ("https://example.com/?a=1", false),
            ("One; two", false),
            ("Ένα. One; two", false),
            ("", false),
        ] {
            assert_eq!(is_question(text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_is_random_if_all_words_are() {
        for (text, expected) in [
            ("", false),
            ("https://example.com/", false),
            ("QwXrTbNmLkPzVd", true),
            ("QwXrTbNmLkPzVd\nzxcvbnmqw https://example.com/", true),
            ("QwXrTbNmLkPzVd is my key", false),
            ("Hello", false),
            ("Rechtsschutzversicherung", false),
        ] {
            assert_eq!(is_random_letters(text), expected, "{text}");
        }
    }

    #[test]
    fn names_are_names_in_many_languages() {
        for name in [
            "Ada",
            "Krzysztof Brzęczyszczykiewicz",
            "Hirschsprung",
            "Schwartzkopf",
            "Nguyễn Thị Minh",
            "Ng",
            "山田太郎",
            "Wojciechowski",
            "MacGregor-McDonald",
            "JEAN-PIERRE",
            "van der Bruggen",
            "O'Shaughnessy",
            "Bhattacharyya",
            "Vlk Strch",
            "Dr. med. Ph.D.",
            "مريم",
            "Platform Team",
            "MacDonaldFitzgerald",
            "Szczepański",
        ] {
            check(&json!({"name": name}), 0);
        }
    }

    #[test]
    fn web_addresses_and_random_letters_are_no_names() {
        for name in [
            "https://offers.example.com/x",
            "www.example.org",
            "Win at casino.example.com",
            "qwrtzplkjh",
            "aKdPeXoLqR",
            "xzbcdfghjklmno",
        ] {
            check(&json!({"name": name}), 100);
        }
        check(&json!({"name": "qwrtzplk"}), 0);
        check(&json!({"name": "bcdfghajkl"}), 100);
        check(&json!({"name": "bcdfgae"}), 0);
        check(&json!({"name": "qwrtzplkj"}), 100);
        // Two vowels in 14 letters are enough, but two in 15 are not.
        check(&json!({"name": "bcdfghajklmnop"}), 0);
        check(&json!({"name": "bcdfghajklmnopq"}), 100);
        check(&json!({"name": "abCdeFghIjk"}), 100);
    }

    #[test]
    fn one_word_in_every_field_is_no_name() {
        check(&json!({"firstname": "Lenovix", "lastname": "Lenovix", "company": "Lenovix"}), 100);
        check(&json!({"firstname": "Thomas", "lastname": "Thomas", "company": "Example"}), 50);
        check(&json!({"firstname": "Ada", "lastname": "Example", "company": "Example"}), 0);
    }

    fn check(names: &serde_json::Value, percent: u32) {
        let mut body = names.clone();
        body["email"] = json!("a@example.com");
        if body.get("name").is_some() {
            body["message"] = json!("Hello");
        }
        let entry = parse(&CONTACT, body.to_string().as_bytes()).unwrap();
        assert_eq!(find_name_signal(&entry).0, percent, "{names}");
    }
}
