//! Scores submissions, with reasons: a submission is delivered, delivered with a mark, or held for the operator to look at.
//!
//! [`screen()`] is a pure function of the submission, of facts about its request and of the operator's options. Each
//! [`Signal`] adds points, never more than the operator gives it. A submission with [`Options::suspicious_threshold`] points or more is
//! marked as suspicious and delivered, and one with [`Options::threshold`] or more is held. Nothing is dropped: held submissions are
//! kept until the operator releases or discards them.
//!
//! No signal is a proof, and most need company to hold anything. What
//! a browser would show (`Origin`, the time that filling in took) is looked at only where it is there, because programs are welcome,
//! and the `User-Agent` never.

mod content;
mod domains;
mod lexicon;
mod name;
mod origin;
mod repeats;
#[cfg(test)]
mod tests;
mod text;

use std::fmt::Write as _;
use std::hash::Hash;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use domains::{Domains, NotADomain};
pub use origin::Origin;
pub use repeats::Repeats;
pub use text::Reading;

use crate::forms::WAITLIST;
use crate::forms::email::Mailbox;
use crate::forms::parse::{Entry, Extras};

/// What the operator decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether submissions are scored.
    pub enabled: bool,
    /// From how many points on a submission is held; 0 counts as 1. Points of [`Signal::Rate`] do not count.
    pub threshold: u32,
    /// From how many points on a submission that is not held is marked as suspicious; 0 counts as 1.
    pub suspicious_threshold: u32,
    /// How much each signal weighs.
    pub points: Points,
    /// What the operator adds to the built-in list of disposable domains, and takes out of it.
    pub disposable: Domains,
    /// Domains whose mail and links are always held.
    pub blocked: Domains,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            enabled: true,
            threshold: 100,
            suspicious_threshold: 50,
            points: Points::default(),
            disposable: Domains::default(),
            blocked: Domains::default(),
        }
    }
}

/// The most points that each signal can add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Points([u32; Signal::ALL.len()]);

impl Default for Points {
    fn default() -> Points {
        Points(Signal::ALL.map(|signal| signal.default_points().unwrap_or_default()))
    }
}

impl Points {
    /// What a signal weighs; nothing for those that reach the threshold by themselves.
    pub fn get(&self, signal: Signal) -> u32 {
        self.0[signal as usize]
    }

    /// Gives a signal another weight; 0 switches it off.
    pub fn set(&mut self, signal: Signal, points: u32) {
        self.0[signal as usize] = points;
    }
}

/// Something about a submission that spam has more often than what the operator wants to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// The source has used up most of its quota.
    Rate,
    /// The form has had more submissions than its quota, and this one's network is part of that flood. It is held until the flood ends.
    /// Screening never adds this signal; processing does.
    FormRate,
    /// Others have sent the same lately.
    Repeated,
    /// There are many links, or hardly anything but links.
    Links,
    /// A link leads through a URL shortener, which hides where.
    Shortener,
    /// Links are written as forums or HTML want them.
    Markup,
    /// The e-mail address is a throw-away one.
    Disposable,
    /// The address or a link belongs to a domain that the operator blocks. This alone holds.
    Listed,
    /// A field that nobody sees was filled in.
    Honeypot,
    /// The form was filled in faster than a person does.
    TimeToFill,
    /// A browser sent it from another site, or does not say from which.
    Origin,
    /// It has the words of mass offers.
    Offer,
    /// It asks to go on in a messenger or on the phone, with money to be had.
    Lure,
    /// Words are disguised: invisible characters, letters of other scripts, digits for letters.
    Disguise,
    /// It is written in capitals.
    Shouting,
    /// The name is none: a web address, or letters at random.
    Name,
}

impl Signal {
    /// All there are, in the order of the documentation.
    pub const ALL: [Signal; 16] = [
        Signal::Rate,
        Signal::FormRate,
        Signal::Repeated,
        Signal::Links,
        Signal::Shortener,
        Signal::Markup,
        Signal::Disposable,
        Signal::Listed,
        Signal::Honeypot,
        Signal::TimeToFill,
        Signal::Origin,
        Signal::Offer,
        Signal::Lure,
        Signal::Disguise,
        Signal::Shouting,
        Signal::Name,
    ];

    /// As it is kept and shown: `form-rate`.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Rate => "rate",
            Signal::FormRate => "form-rate",
            Signal::Repeated => "repeated",
            Signal::Links => "links",
            Signal::Shortener => "shortener",
            Signal::Markup => "markup",
            Signal::Disposable => "disposable",
            Signal::Listed => "listed",
            Signal::Honeypot => "honeypot",
            Signal::TimeToFill => "time-to-fill",
            Signal::Origin => "origin",
            Signal::Offer => "offer",
            Signal::Lure => "lure",
            Signal::Disguise => "disguise",
            Signal::Shouting => "shouting",
            Signal::Name => "name",
        }
    }

    /// The signal of that name.
    pub fn named(name: &str) -> Option<Signal> {
        Signal::ALL.into_iter().find(|signal| signal.name() == name)
    }

    /// How much it weighs where the operator says nothing; none where it has no weight, because it reaches
    /// the threshold by itself.
    pub fn default_points(self) -> Option<u32> {
        match self {
            Signal::FormRate | Signal::Listed => None,
            Signal::Shouting => Some(10),
            Signal::Rate | Signal::Name => Some(20),
            Signal::Disposable | Signal::Shortener => Some(25),
            Signal::TimeToFill => Some(30),
            Signal::Origin | Signal::Lure => Some(35),
            Signal::Repeated | Signal::Disguise => Some(40),
            Signal::Markup => Some(50),
            Signal::Links => Some(60),
            Signal::Offer => Some(80),
            Signal::Honeypot => Some(100),
        }
    }
}

/// What the request showed beside what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals<'a> {
    /// How much of its quota the source has used.
    pub rate: Rate,
    /// From how many other sources the same content came lately; see [`Repeats::observe`].
    pub repeats: u32,
    /// Where a browser says that it was sent from.
    pub origin: Origin,
    /// The agent whose signature was verified (Web Bot Auth). What only browsers show says nothing about it.
    pub agent: Option<&'a str>,
}

/// How much of its quota a source has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    used: u32,
    quota: u32,
}

impl Rate {
    /// The fullest of several windows, each as what remains of it and what it holds; nothing used if there are none.
    pub fn of(windows: impl IntoIterator<Item = (u32, u32)>) -> Rate {
        let rates = windows
            .into_iter()
            .map(|(remaining, quota)| Rate { used: quota.saturating_sub(remaining), quota });
        rates.max_by_key(|rate| rate.percent()).unwrap_or_default()
    }

    fn percent(self) -> u32 {
        let percent = u64::from(self.used) * 100 / u64::from(self.quota.max(1));
        u32::try_from(percent).unwrap_or(100).min(100)
    }
}

/// What is known of a request beside its fields and its agent when it is accepted, as far as screening needs it. It is stored with the
/// submission until that is processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// How much of its quota the source has used.
    pub rate: Rate,
    /// Where a browser says that it was sent from.
    pub origin: Origin,
    /// What was sent beside the form's fields.
    pub extras: Extras,
}

/// What there is to screen a submission by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// It is screened when it is processed.
    Facts(Facts),
    /// It is screened already.
    Verdict(Verdict),
}

impl Evidence {
    /// The verdict, where there is one. Otherwise the submission is screened, and counted among those with the same message; `source` as
    /// for [`Repeats::observe`].
    pub fn judge(
        &self,
        entry: &Entry,
        source: impl Hash,
        agent: Option<&str>,
        repeats: &Repeats,
        options: &Options,
    ) -> Verdict {
        let facts = match self {
            Evidence::Facts(facts) => facts,
            Evidence::Verdict(verdict) => return verdict.clone(),
        };
        let reading = Reading::of(entry);
        let signals = Signals {
            rate: facts.rate,
            repeats: repeats.observe(&reading, source, Instant::now()),
            origin: facts.origin,
            agent,
        };
        screen(&reading, &facts.extras, &signals, options)
    }
}

/// What screening says of a submission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The points of all reasons together.
    pub score: u32,
    /// Those signals that added points, most points first.
    pub reasons: Vec<Reason>,
    /// Whether it is to be held.
    pub hold: bool,
    /// Whether it is to be marked as suspicious; never with `hold`.
    #[serde(default)]
    pub suspicious: bool,
    /// How many points would hold it.
    pub threshold: u32,
}

/// A signal that added points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Which one.
    pub signal: Signal,
    /// How many, at least one.
    pub points: u32,
    /// What was found, in words and figures for the operator: nothing that the visitor wrote, but for the domain names of links
    /// and of the address.
    pub detail: String,
}

impl Reason {
    /// Signal and points alone: a detail may name a domain of the visitor's.
    #[must_use]
    pub fn without_detail(self) -> Reason {
        Reason { detail: String::new(), ..self }
    }
}

impl Verdict {
    /// The same with signals and points alone.
    #[must_use]
    pub fn without_details(self) -> Verdict {
        Verdict { reasons: self.reasons.into_iter().map(Reason::without_detail).collect(), ..self }
    }

    /// The same submission, held until a flood of its form ends.
    #[must_use]
    pub fn in_flood(mut self) -> Verdict {
        let detail = "the form has had more than its quota".to_owned();
        self.reasons.insert(0, Reason { signal: Signal::FormRate, points: self.threshold, detail });
        self.score = self.score.saturating_add(self.threshold);
        self
    }

    /// Everything on one line: `hidden field filled in (60), 4 links (30); 90 of 50 points`. A signal without a detail is named. Empty if
    /// there is nothing to say.
    pub fn because(&self) -> String {
        let mut line = String::new();
        for (i, Reason { signal, points, detail }) in self.reasons.iter().enumerate() {
            // Writing to a string does not fail.
            let what = if detail.is_empty() { signal.name() } else { detail };
            let _ = write!(line, "{}{what} ({points})", if i == 0 { "" } else { ", " });
        }
        if !line.is_empty() {
            let _ = write!(line, "; {} of {} points", self.score, self.threshold);
        }
        line
    }
}

/// What a signal found: how strongly it speaks, in percent of its points, and why.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    signal: Signal,
    percent: u32,
    detail: String,
}

impl Finding {
    /// None where it found nothing, and then nothing need be said of it.
    fn new(signal: Signal, percent: u32, detail: impl FnOnce() -> String) -> Option<Finding> {
        (percent > 0).then(|| Finding { signal, percent: percent.min(100), detail: detail() })
    }
}

/// Scores a submission. The same arguments give the same verdict, always.
pub fn screen(reading: &Reading<'_>, extras: &Extras, signals: &Signals<'_>, options: &Options) -> Verdict {
    let entry = reading.entry();
    let mut findings: Vec<Finding> = Vec::new();
    if options.enabled {
        findings.extend(rate(signals.rate));
        findings.extend(repeated(signals.repeats));
        findings.extend(honeypot(extras));
        if signals.agent.is_none() {
            findings.extend(time_to_fill(entry, extras));
            findings.extend(from_elsewhere(signals.origin));
        }
        sender(entry, options, &mut findings);
        content::look(reading, options, &mut findings);
    }
    verdict(findings, options)
}

fn verdict(findings: Vec<Finding>, options: &Options) -> Verdict {
    let threshold = options.threshold.max(1);
    let mut reasons: Vec<Reason> = findings
        .into_iter()
        .filter_map(|Finding { signal, percent, detail }| {
            let points = match signal.default_points() {
                None => threshold,
                Some(_) => share(options.points.get(signal), percent),
            };
            (points > 0).then_some(Reason { signal, points, detail })
        })
        .collect();
    // Stable, so that those with as many points stay in the order of the documentation.
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.points));
    let score = reasons.iter().fold(0u32, |score, reason| score.saturating_add(reason.points));
    let of_rate =
        reasons.iter().find(|reason| reason.signal == Signal::Rate).map_or(0, |reason| reason.points);
    let hold = score - of_rate >= threshold;
    let suspicious = !hold && score >= options.suspicious_threshold.max(1);
    Verdict { score, reasons, hold, suspicious, threshold }
}

fn share(points: u32, percent: u32) -> u32 {
    u32::try_from(u64::from(points) * u64::from(percent) / 100).unwrap_or(points)
}

/// From half of the quota on, growing to all of it.
fn rate(rate: Rate) -> Option<Finding> {
    let percent = rate.percent().saturating_sub(50) * 2;
    Finding::new(Signal::Rate, percent, || {
        format!("{} of the {} requests that the source may send", rate.used, rate.quota)
    })
}

/// Two people may have the same text from somewhere; more are a campaign.
fn repeated(repeats: u32) -> Option<Finding> {
    let percent = match repeats {
        0 | 1 => 0,
        2 => 50,
        3 => 75,
        _ => 100,
    };
    Finding::new(Signal::Repeated, percent, || format!("the same from {repeats} or more other senders"))
}

fn honeypot(extras: &Extras) -> Option<Finding> {
    let percent = if extras.honeypot { 100 } else { 0 };
    Finding::new(Signal::Honeypot, percent, || "hidden field filled in".to_owned())
}

/// A person with a password manager needs a second for an address, and more for a message that is pasted.
fn time_to_fill(entry: &Entry, extras: &Extras) -> Option<Finding> {
    let taken = extras.time_to_fill?;
    let (no_person, hardly_a_person) = if entry.form() == &WAITLIST { (500, 1000) } else { (1500, 3000) };
    let percent = if taken < Duration::from_millis(no_person) {
        100
    } else if taken < Duration::from_millis(hardly_a_person) {
        50
    } else {
        0
    };
    Finding::new(Signal::TimeToFill, percent, || format!("filled in within {} ms", taken.as_millis()))
}

fn from_elsewhere(origin: Origin) -> Option<Finding> {
    match origin {
        Origin::NotABrowser | Origin::Same => None,
        Origin::Missing => {
            Finding::new(Signal::Origin, 50, || "a browser's request without its origin".to_owned())
        }
        Origin::Foreign => {
            Finding::new(Signal::Origin, 100, || "a browser's request from another site".to_owned())
        }
    }
}

/// The domain of the address that answers would go to.
fn sender(entry: &Entry, options: &Options, findings: &mut Vec<Finding>) {
    let Some(mailbox) = entry.get("email").and_then(Mailbox::parse) else { return };
    let domain = mailbox.domain();
    let blocked = options.blocked.lists(domain);
    let throw_away = domains::is_disposable(domain, &options.disposable);
    findings.extend(Finding::new(Signal::Listed, if blocked { 100 } else { 0 }, || {
        format!("address at {}, which is blocked", domain.to_ascii_lowercase())
    }));
    findings.extend(Finding::new(Signal::Disposable, if throw_away { 100 } else { 0 }, || {
        format!("throw-away address at {}", domain.to_ascii_lowercase())
    }));
}
