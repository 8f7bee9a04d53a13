//! What a submission's own text says: its links, its words and how they are written.

use std::sync::LazyLock;

use super::lexicon::{Weights, Words};
use super::text::{Link, Markup, Reader, Reading, Token};
use super::{Finding, Options, Signal, name};

/// Offers that weigh less say nothing: most words of the lexicon are anybody's.
const LEAST_OFFER: u32 = 3;
/// How many links a text may have before their number says anything.
const FEW_LINKS: usize = 3;
/// How many capital letters a text must have to be shouting.
const LOUD: u32 = 30;

/// Services that make other addresses out of addresses, so that nobody sees where a link leads.
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

/// Where a link opens a conversation in a messenger.
const MESSENGERS: [&str; 7] =
    ["api.whatsapp.com", "chat.whatsapp.com", "m.me", "t.me", "telegram.me", "viber.click", "wa.me"];

static MESSENGER_NAMES: LazyLock<[u64; 5]> =
    LazyLock::new(|| ["whatsapp", "telegram", "viber", "wechat", "телеграм"].map(hash_of));

fn hash_of(name: &str) -> u64 {
    Reader::new(name)
        .find_map(|token| if let Token::Word(word) = token { Some(word.hash) } else { None })
        .unwrap_or_default()
}

/// Adds what the fields of a person's own words show.
pub(super) fn look(reading: &Reading<'_>, options: &Options, findings: &mut Vec<Finding>) {
    let entry = reading.entry();
    let scan = Scan::of(reading, options);
    let Scan { links, words, .. } = scan;
    findings.extend(Finding::new(Signal::Links, crowd_of_links(links, words), || {
        format!("{links} link{} beside {words} words", if links == 1 { "" } else { "s" })
    }));
    if let Some(domain) = &scan.shortener {
        findings.extend(Finding::new(Signal::Shortener, 100, || format!("link through {domain}")));
    }
    findings.extend(Finding::new(
        Signal::Markup,
        match scan.markup {
            0 => 0,
            1 => 50,
            _ => 100,
        },
        || "links in the markup of forums or HTML".to_owned(),
    ));
    if let Some(domain) = &scan.blocked {
        findings.extend(Finding::new(Signal::Listed, 100, || format!("link to {domain}, which is blocked")));
    }
    let offer = scan.offer.sum();
    findings.extend(Finding::new(Signal::Offer, if offer < LEAST_OFFER { 0 } else { offer * 13 }, || {
        format!("words of mass offers: {}", scan.offer.named())
    }));
    findings.extend(Finding::new(
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
    findings.extend(if entry.get("message").is_some_and(name::is_random) {
        Finding::new(Signal::Disguise, 100, || "nothing but letters at random".to_owned())
    } else {
        Finding::new(
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
    findings.extend(Finding::new(Signal::Shouting, if loud { 100 } else { 0 }, || {
        "written in capitals".to_owned()
    }));
    findings.extend(name::look(entry));
}

/// In percent. Reports and lists have links too, but more words around them.
fn crowd_of_links(links: usize, words: usize) -> u32 {
    if links == 0 {
        return 0;
    }
    let many = links.saturating_sub(FEW_LINKS) * 5;
    // How many links there are for a hundred words: 6 is a short enquiry with one, 20 a link with a word or four.
    let dense = (links * 100 / (words + 4)).saturating_sub(6) * 3;
    u32::try_from(many.min(50) + dense).unwrap_or(100)
}

/// What one pass over the texts has found.
#[derive(Default)]
struct Scan {
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

impl Scan {
    fn of(reading: &Reading<'_>, options: &Options) -> Scan {
        let mut scan = Scan::default();
        let messengers = &*MESSENGER_NAMES;
        let mut words = Words::with_room_for(reading.tokens().len());
        for token in reading.tokens() {
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
                Token::Link(link) => scan.link(*link, options),
                Token::Break => words.end_sentence(),
            }
        }
        // A model's name may look like a word, but not one after another.
        scan.disguised = words.disguised + words.doubtful / 3;
        scan.offer = words.weigh();
        scan
    }

    fn link(&mut self, Link { domain, markup }: Link<'_>, options: &Options) {
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
        if self.blocked.is_none() && options.blocked.lists(domain) {
            self.blocked = Some(domain.to_ascii_lowercase());
        }
    }

    /// Words that are not what they look like, each once.
    fn disguises(&self) -> usize {
        self.disguised.max(self.hidden.max(self.mixed).max(self.decorative))
    }
}
