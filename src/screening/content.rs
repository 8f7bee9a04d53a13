//! The signals that a submission's own text gives: its links, its words, its writing and its names.

use std::sync::LazyLock;

use super::domains::Domains;
use super::lexicon::{Weights, Words};
use super::text::{Markup, TextLink, Token, TokenizedText, Tokenizer};
use crate::forms::parse::Entry;
use crate::submission::verdict::Signal;

/// Minimum weight of an offer. Single words of the lexicon also occur in enquiries.
const LEAST_OFFER: u32 = 3;
/// Number of links that is not suspicious.
const FEW_LINKS: usize = 3;
/// Minimum number of capital letters of shouting.
const LOUD: u32 = 30;

/// Minimum length of a word in letters for the gibberish check: shorter words of real languages look random.
const LONG: usize = 9;

/// URL shorteners, which hide the destination of a link.
const SHORTENERS: [&str; 30] = [
    "adf.ly",
    "bit.do",
    "bit.ly",
    "bl.ink",
    "buff.ly",
    "clck.ru",
    "cutt.ly",
    "goo.gl",
    "goo.su",
    "is.gd",
    "kutt.it",
    "lnkd.in",
    "ow.ly",
    "qrco.de",
    "rb.gy",
    "rebrand.ly",
    "s.id",
    "short.gy",
    "shorte.st",
    "shorturl.at",
    "snip.ly",
    "t.co",
    "t.ly",
    "t2m.io",
    "tiny.cc",
    "tiny.one",
    "tinyurl.com",
    "u.to",
    "urlz.fr",
    "v.gd",
];

/// Domains whose links open a chat in a messenger.
const MESSENGERS: [&str; 7] =
    ["api.whatsapp.com", "chat.whatsapp.com", "m.me", "t.me", "telegram.me", "viber.click", "wa.me"];

static MESSENGER_NAMES: LazyLock<[u64; 5]> =
    LazyLock::new(|| ["whatsapp", "telegram", "viber", "wechat", "телеграм"].map(word_hash));

fn word_hash(name: &str) -> u64 {
    Tokenizer::new(name)
        .find_map(|token| if let Token::Word(word) = token { Some(word.hash) } else { None })
        .unwrap_or_default()
}

/// The strength of a signal, in percent of its points, and its description.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SignalFinding {
    pub(super) signal: Signal,
    pub(super) percent: u32,
    pub(super) detail: String,
}

impl SignalFinding {
    /// None if `percent` is 0; `detail` is then not evaluated.
    pub(super) fn new(
        signal: Signal,
        percent: u32,
        detail: impl FnOnce() -> String,
    ) -> Option<SignalFinding> {
        (percent > 0).then(|| SignalFinding { signal, percent: percent.min(100), detail: detail() })
    }
}

/// Adds the signals of the text and of the names.
pub(super) fn find_signals(text: &TokenizedText<'_>, blocked: &Domains, findings: &mut Vec<SignalFinding>) {
    let entry = text.entry();
    let scan = TextScan::new(text, blocked);
    let TextScan { links, words, .. } = scan;
    findings.extend(SignalFinding::new(Signal::Links, link_percent(links, words), || {
        format!("{links} link{} beside {words} words", if links == 1 { "" } else { "s" })
    }));
    if let Some(domain) = &scan.shortener {
        findings.extend(SignalFinding::new(Signal::Shortener, 100, || format!("link through {domain}")));
    }
    findings.extend(SignalFinding::new(
        Signal::Markup,
        match scan.markup {
            0 => 0,
            1 => 50,
            _ => 100,
        },
        || "links in the markup of forums or HTML".to_owned(),
    ));
    if let Some(domain) = &scan.blocked {
        findings.extend(SignalFinding::new(Signal::Listed, 100, || {
            format!("link to {domain}, which is blocked")
        }));
    }
    let offer = scan.offer.sum();
    findings.extend(SignalFinding::new(
        Signal::Offer,
        if offer < LEAST_OFFER { 0 } else { offer * 13 },
        || format!("words of mass offers: {}", scan.offer.named()),
    ));
    findings.extend(SignalFinding::new(
        Signal::Lure,
        if scan.messenger && scan.offer.money() >= 2 {
            100
        } else if scan.messenger && offer >= LEAST_OFFER {
            50
        } else {
            0
        },
        || "asks to go on in a messenger".to_owned(),
    ));
    let disguises = scan.disguises();
    findings.extend(if entry.get("message").is_some_and(is_random) {
        SignalFinding::new(Signal::Disguise, 100, || "nothing but letters at random".to_owned())
    } else {
        SignalFinding::new(
            Signal::Disguise,
            match disguises {
                0 => 0,
                1 => 40,
                2 => 80,
                _ => 100,
            },
            || format!("{disguises} disguised word{}", if disguises == 1 { "" } else { "s" }),
        )
    });
    let loud = scan.upper >= LOUD && scan.upper >= 2 * scan.lower;
    findings.extend(SignalFinding::new(Signal::Shouting, if loud { 100 } else { 0 }, || {
        "written in capitals".to_owned()
    }));
    findings.extend(find_name_signal(entry));
}

/// The strength of [`Signal::Links`], in percent. Reports also contain links, but more words around them.
fn link_percent(links: usize, words: usize) -> u32 {
    if links == 0 {
        return 0;
    }
    let many = links.saturating_sub(FEW_LINKS) * 5;
    // Links per hundred words: 6 is a short enquiry with one link, 20 is a link with one to four words.
    let dense = (links * 100 / (words + 4)).saturating_sub(6) * 3;
    u32::try_from(many.min(50) + dense).unwrap_or(100)
}

/// The counts of one pass over the texts.
#[derive(Default)]
struct TextScan {
    links: usize,
    words: usize,
    markup: usize,
    shortener: Option<String>,
    blocked: Option<String>,
    messenger: bool,
    upper: u32,
    lower: u32,
    hidden: usize,
    mixed: usize,
    decorative: usize,
    disguised: usize,
    offer: Weights,
}

impl TextScan {
    fn new(text: &TokenizedText<'_>, blocked: &Domains) -> TextScan {
        let mut scan = TextScan::default();
        let messengers = &*MESSENGER_NAMES;
        let mut words = Words::with_room_for(text.tokens().len());
        for token in text.tokens() {
            match token {
                Token::Word(word) => {
                    scan.words += 1;
                    scan.upper += word.upper;
                    scan.lower += word.lower;
                    scan.hidden += usize::from(word.hidden > 0);
                    scan.mixed += usize::from(word.is_mixed());
                    scan.decorative += usize::from(word.decorative > 2);
                    scan.messenger |= messengers.contains(&word.hash);
                    words.push(*word);
                }
                Token::Link(link) => scan.add_link(*link, blocked),
                Token::Break => words.end_sentence(),
            }
        }
        // One word with digits may be a model number; three are a disguise.
        scan.disguised = words.disguised + words.doubtful / 3;
        scan.offer = words.weigh();
        scan
    }

    fn add_link(&mut self, TextLink { domain, markup }: TextLink<'_>, blocked: &Domains) {
        self.links += 1;
        self.markup += match markup {
            None => 0,
            Some(Markup::Html) => 1,
            Some(Markup::Forum) => 2,
        };
        let is_one_of = |list: &[&str]| list.iter().any(|known| known.eq_ignore_ascii_case(domain));
        if self.shortener.is_none() && is_one_of(&SHORTENERS) {
            self.shortener = Some(domain.to_ascii_lowercase());
        }
        self.messenger |= is_one_of(&MESSENGERS);
        if self.blocked.is_none() && blocked.lists(domain) {
            self.blocked = Some(domain.to_ascii_lowercase());
        }
    }

    /// Number of disguised words. The counts overlap, so this is their maximum.
    fn disguises(&self) -> usize {
        self.disguised.max(self.hidden.max(self.mixed).max(self.decorative))
    }
}

/// The strongest signal of the name fields.
fn find_name_signal(entry: &Entry) -> Option<SignalFinding> {
    let names = ["name", "firstname", "lastname"].map(|field| entry.get(field));
    let addresses = names.iter().flatten().any(|name| has_link(name));
    if addresses {
        return SignalFinding::new(Signal::Name, 100, || "web address for a name".to_owned());
    }
    let same = |a: Option<&str>, b: Option<&str>| a.is_some() && a.map(str::trim) == b.map(str::trim);
    let company = entry.get("company");
    if same(names[1], names[2]) && same(names[1], company) {
        return SignalFinding::new(Signal::Name, 100, || {
            "one word for first name, last name and company".to_owned()
        });
    }
    if names.iter().flatten().any(|name| name.split_whitespace().any(is_gibberish)) {
        return SignalFinding::new(Signal::Name, 100, || "letters at random for a name".to_owned());
    }
    let halves = if same(names[1], names[2]) { 50 } else { 0 };
    SignalFinding::new(Signal::Name, halves, || "one word for first name and last name".to_owned())
}

fn has_link(name: &str) -> bool {
    Tokenizer::new(name).any(|token| matches!(token, Token::Link(_)))
}

/// Whether every word of a text, apart from links, consists of random letters.
fn is_random(text: &str) -> bool {
    let mut words = text.split_whitespace().filter(|word| !has_link(word)).peekable();
    words.peek().is_some() && words.all(is_gibberish)
}

/// Whether an ASCII word has fewer vowels than one in seven letters, or capitals in several places inside it.
/// Slavic and Germanic names have long runs of consonants, but not more than this.
fn is_gibberish(word: &str) -> bool {
    if word.len() < LONG || !word.bytes().all(|b| b.is_ascii_alphabetic()) {
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
    use crate::forms::CONTACT;
    use crate::forms::parse::parse;

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
            assert_eq!(is_random(text), expected, "{text}");
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
        // A vowel for seven letters is enough, and one for eight is not.
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
        assert_eq!(find_name_signal(&entry).map_or(0, |finding| finding.percent), percent, "{names}");
    }
}
