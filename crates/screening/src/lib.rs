//! Scores submissions and gives the reasons.
//!
//! [`screen()`] is a pure function of the submission, facts about its request and the operator's options.
//! Each [`Signal`] adds points, up to its maximum. A submission with
//! [`ScreeningOptions::suspicious_threshold`] points or more is marked as suspicious and delivered, and one
//! with [`ScreeningOptions::threshold`] or more is held for the operator's review.
//!
//! No single signal proves that a submission is spam, and most hold a submission only in combination with
//! others. Programs may use the forms too, so what only browsers send (`Origin`, the time taken to fill in
//! the form) counts only if it is present. The `User-Agent` is never read.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks"))]

mod domain_lists;
mod feature_set;
mod hashed_tokens;
pub mod learned;
mod lexicon;
mod lexicon_fault;
mod offer;
mod origin;
mod phrase_weight_sum;
mod repeats;
mod site_profile;
#[cfg(test)]
mod tests;
mod text_signals;
mod tokenizer;
pub mod verdict;
pub mod wording_model;

use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use domain_lists::{Domains, NotADomain};
pub use feature_set::FeatureKind;
pub use hashed_tokens::TokenKey;
use learned::{LearnedModel, Resemblance, Tokens};
pub use lexicon::Lexicon;
pub use lexicon_fault::LexiconFault;
pub use origin::Origin;
pub use repeats::Repeats;
pub use site_profile::SiteProfile;
use text_signals::{Findings, SignalFinding, full_strength_if};
pub use tokenizer::TokenizedText;

use crate::verdict::{ScreeningReason, ScreeningVerdict, Signal};
use frontdesk_forms::email::Mailbox;
use frontdesk_forms::{Entry, Extras, Field, Form};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreeningOptions {
    pub enabled: bool,
    /// A submission with at least this many points is held; 0 counts as 1. Points for [`Signal::Rate`] do not
    /// count. Points for [`Signal::Learned`] count only if the other points reach the midpoint of the two
    /// thresholds.
    pub threshold: u32,
    /// A submission with at least this many points is marked as suspicious, unless it is held; 0 counts as 1.
    pub suspicious_threshold: u32,
    /// Signals that add no points. Has no effect on signals that always hold a submission.
    pub ignored: Vec<Signal>,
    /// Additions to the built-in list of disposable domains, and exceptions to it.
    pub disposable: Domains,
    /// A submission is always held if its e-mail address is at one of these domains, or if it links to one.
    pub blocked: Domains,
    /// The phrases to find in texts, and the points that they add.
    pub lexicon: Arc<Lexicon>,
    /// The site's trade and vocabulary.
    pub profile: Arc<SiteProfile>,
    /// Whether screening learns from the operator's decisions, and whether learned evidence adds points.
    pub learn: bool,
}

impl ScreeningOptions {
    /// Whether an opinion of rspamd adds points.
    pub fn counts_opinions(&self) -> bool {
        self.enabled && !self.ignored.contains(&Signal::Opinion)
    }
}

impl Default for ScreeningOptions {
    fn default() -> ScreeningOptions {
        ScreeningOptions {
            enabled: true,
            threshold: 100,
            suspicious_threshold: 50,
            ignored: Vec::new(),
            disposable: Domains::default(),
            blocked: Domains::default(),
            lexicon: Lexicon::built_in(),
            profile: Arc::default(),
            learn: true,
        }
    }
}

impl Signal {
    /// Maximum number of points that the signal adds. `None` if it always reaches the threshold on its own.
    pub fn points(self) -> Option<u32> {
        match self {
            Signal::FormRate | Signal::Listed => None,
            Signal::Shouting => Some(10),
            Signal::Rate | Signal::Name => Some(20),
            Signal::Disposable | Signal::Shortener => Some(25),
            Signal::TimeToFill => Some(30),
            Signal::Origin | Signal::Lure => Some(35),
            Signal::Repeated | Signal::Disguise => Some(40),
            Signal::Markup | Signal::Opinion => Some(50),
            Signal::Links | Signal::Learned => Some(60),
            Signal::Offer => Some(80),
            Signal::Honeypot => Some(100),
        }
    }
}

/// The facts about a request that screening uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSignals<'a> {
    pub rate: Rate,
    /// Number of other sources that recently sent nearly the same message; see [`Repeats::observe`].
    pub repeats: u32,
    pub origin: Origin,
    /// The agent whose signature was verified (Web Bot Auth), if any. Signals based on data that only
    /// browsers send do not apply to agents.
    pub agent: Option<&'a str>,
}

/// How much of its quota a source has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    used: u32,
    quota: u32,
}

impl Rate {
    /// The rate for the window with the highest percentage of its quota used. Each window is given as the
    /// number of requests that remain, and its quota. Without windows, the rate is zero.
    pub fn most_used(windows: impl IntoIterator<Item = (u32, u32)>) -> Rate {
        let rates = windows
            .into_iter()
            .map(|(remaining, quota)| Rate { used: quota.saturating_sub(remaining), quota });
        rates.max_by_key(|rate| rate.percent()).unwrap_or_default()
    }

    /// The used part of the quota in percent, at most 100. A quota of 0 counts as 1.
    fn percent(self) -> u32 {
        let percent = u64::from(self.used) * 100 / u64::from(self.quota.max(1));
        u32::try_from(percent).unwrap_or(100).min(100)
    }
}

/// Facts about a request, stored with the submission until it is processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestFacts {
    pub rate: Rate,
    pub origin: Origin,
    pub extras: Extras,
}

/// The input to screening: the facts about a request, or an earlier verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    Facts(RequestFacts),
    Verdict(ScreeningVerdict),
}

impl Evidence {
    /// Returns the earlier verdict, if any. Otherwise screens the submission, and records in `repeats` that
    /// `source` (an address or a keyed hash of it) sent the message, also if screening is disabled.
    #[expect(clippy::too_many_arguments, reason = "the facts and the state of one judgment")]
    pub fn judge(
        &self,
        entry: &Entry,
        source: impl Hash,
        agent: Option<&str>,
        repeats: &Repeats,
        learned: Option<&Learned>,
        options: &ScreeningOptions,
        now: Instant,
    ) -> ScreeningVerdict {
        let facts = match self {
            Evidence::Facts(facts) => facts,
            Evidence::Verdict(verdict) => return verdict.clone(),
        };
        let text = TokenizedText::new(entry);
        let signals = RequestSignals {
            rate: facts.rate,
            repeats: repeats.observe(&text, source, now),
            origin: facts.origin,
            agent,
        };
        screen_with(&text, &facts.extras, &signals, learned, options)
    }
}

/// Screens a submission without learned evidence; see [`screen_with`].
pub fn screen(
    text: &TokenizedText<'_>,
    extras: &Extras,
    signals: &RequestSignals<'_>,
    options: &ScreeningOptions,
) -> ScreeningVerdict {
    screen_with(text, extras, signals, None, options)
}

/// Screens a submission: finds signals in its text and its request, compares it with what the operator
/// taught, if `options.learn` is set and there are enough lessons, and adds up the points. Finds no signals
/// if screening is disabled.
pub fn screen_with(
    text: &TokenizedText<'_>,
    extras: &Extras,
    signals: &RequestSignals<'_>,
    learned: Option<&Learned>,
    options: &ScreeningOptions,
) -> ScreeningVerdict {
    let mut findings = Findings::default();
    if !options.enabled {
        return score_findings(findings, options);
    }
    find_request_signals(text.entry, extras, signals, &mut findings);
    for address in text.entry.emails() {
        find_sender_signals(address, options, &mut findings);
    }
    let features = text_signals::find_text_signals(text, options, &mut findings);
    if let Some(learned) = learned.filter(|learned| options.learn && learned.model.is_ready()) {
        let fresh = score_findings(findings.clone(), options).text_points();
        let tokens = hashed_tokens::collect(text, &features.names(&options.lexicon), fresh, &learned.key);
        if let Some(resemblance) = learned.model.judge(&tokens) {
            apply_resemblance(resemblance, &mut findings);
        }
    }
    score_findings(findings, options)
}

/// The model of the operator's decisions, and the key for hashing its tokens.
#[derive(Debug)]
pub struct Learned {
    pub model: LearnedModel,
    pub key: TokenKey,
}

/// The tokens of a submission for a lesson. `points` are those of the signals in its text. `None` if the
/// message (all multiline texts) has fewer than four words, which is too little to learn from. Needs no
/// options besides the lexicon, because lessons leave out the features that depend on the site's pages.
pub fn lesson_tokens(
    text: &TokenizedText<'_>,
    points: u32,
    lexicon: &Arc<Lexicon>,
    key: &TokenKey,
) -> Option<Tokens> {
    const MIN_WORDS: usize = 4;
    let words = text.message().iter().filter(|token| matches!(token, tokenizer::Token::Word(_))).count();
    let options = ScreeningOptions { lexicon: lexicon.clone(), ..ScreeningOptions::default() };
    let features = text_signals::weigh_features(text, &options);
    (words >= MIN_WORDS).then(|| hashed_tokens::collect(text, &features.names(lexicon), points, key))
}

/// Adds [`Signal::Learned`] to a text that resembles spam. If the text resembles honest messages, takes off
/// points of [`Signal::Offer`], but of no other signal.
fn apply_resemblance(resemblance: Resemblance, findings: &mut Findings) {
    let Resemblance { points, spam_lessons, honest_lessons } = resemblance;
    if points > 0 {
        let most = Signal::Learned.points().unwrap_or_default();
        // Rounded up, so that no point is lost when the percentage is applied.
        let percent = (points.unsigned_abs() * 100).div_ceil(most);
        findings.add(Signal::Learned, percent, || {
            format!("resembles the {spam_lessons} messages that you marked as spam more than the {honest_lessons} that are not spam")
        });
        return;
    }
    let most = Signal::Offer.points().unwrap_or_default();
    let less = points.unsigned_abs() * 100 / most;
    for finding in findings.0.iter_mut().filter(|finding| finding.signal == Signal::Offer) {
        finding.percent = finding.percent.saturating_sub(less);
        finding.detail.push_str("; fewer points because it resembles messages that are not spam");
    }
}

/// The features of a text, by name, with their weights from 1 to 4.
pub fn find_features(text: &TokenizedText<'_>, options: &ScreeningOptions) -> Vec<(String, u8)> {
    let weights = text_signals::weigh_features(text, options);
    weights.named(&options.lexicon).map(|(name, weight)| (name.to_owned(), weight)).collect()
}

/// Converts findings to points, and compares their sum with the thresholds. Signals in `options.ignored` add
/// no points, except for those without a maximum. Points for [`Signal::Rate`] never hold a submission. Points
/// for [`Signal::Learned`] hold one only if the points without both signals reach the midpoint of the two
/// thresholds, or `threshold` if that is lower. Both count for marking. Drops findings that add no points.
fn score_findings(findings: Findings, options: &ScreeningOptions) -> ScreeningVerdict {
    let threshold = options.threshold.max(1);
    let reason = |SignalFinding { signal, percent, detail }| {
        let points = match signal.points() {
            None => threshold,
            Some(_) if options.ignored.contains(&signal) => 0,
            Some(maximum) => maximum * percent / 100,
        };
        (points > 0).then_some(ScreeningReason { signal, points, detail })
    };
    let mut reasons: Vec<ScreeningReason> = findings.0.into_iter().filter_map(reason).collect();
    // The sort is stable, so reasons with equal points stay in the order used in the documentation.
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.points));
    let score = reasons.iter().fold(0u32, |score, reason| score.saturating_add(reason.points));
    let of = |signal| reasons.iter().find(|reason| reason.signal == signal).map_or(0, |reason| reason.points);
    let (counted, marked_from) = (score - of(Signal::Rate), options.suspicious_threshold.max(1));
    // Learned points hold only a submission that is strongly suspicious without them, because the operator's
    // decisions may have been wrong.
    let strong = marked_from.midpoint(threshold).min(threshold);
    let hold = counted >= threshold && counted - of(Signal::Learned) >= strong;
    let suspicious = !hold && score >= marked_from;
    ScreeningVerdict { score, reasons, hold, suspicious, threshold }
}

/// Adds the signals in how a submission was sent: the source's rate, repeated messages and the hidden field.
/// Unless a verified agent sent it, also the time taken to fill in the form, and the origin.
fn find_request_signals(
    entry: &Entry,
    extras: &Extras,
    signals: &RequestSignals<'_>,
    findings: &mut Findings,
) {
    // The points grow from zero at half of the quota to the maximum at the full quota.
    let rate = signals.rate;
    findings.add(Signal::Rate, rate.percent().saturating_sub(50) * 2, || {
        format!("the source has used {} of its quota of {} requests", rate.used, rate.quota)
    });
    // Two people may have copied the same text from somewhere, but more senders suggest a campaign.
    let repeats = signals.repeats;
    let percent = if repeats < 2 { 0 } else { repeats.min(4) * 25 };
    findings.add(Signal::Repeated, percent, || format!("same message from at least {repeats} other senders"));
    findings.add(Signal::Honeypot, full_strength_if(extras.honeypot), || "hidden field filled in");
    if signals.agent.is_some() {
        return;
    }
    if let Some(taken) = extras.time_to_fill {
        let no_person = min_time_to_fill(entry.form());
        let percent = match taken {
            taken if taken < no_person => 100,
            taken if taken < 2 * no_person => 50,
            _ => 0,
        };
        findings.add(Signal::TimeToFill, percent, || format!("filled in within {} ms", taken.as_millis()));
    }
    match signals.origin {
        Origin::NotABrowser | Origin::Same => {}
        Origin::Missing => findings.add(Signal::Origin, 50, || "browser request without an origin"),
        Origin::Foreign => findings.add(Signal::Origin, 100, || "browser request from another site"),
    }
}

/// The time in which no person fills in a form: half a second for each required field in which visitors
/// write, but at least for one field and at most for five. Of two shapes, the one with fewer such fields
/// counts. A person with a password manager needs a second to fill in an address, and three seconds to paste
/// a name and a message, too.
fn min_time_to_fill(form: &Form) -> Duration {
    let count =
        |fields: &[Field]| fields.iter().filter(|field| field.required && field.kind.is_written()).count();
    let written = form.alternative.iter().map(|fields| count(fields)).chain([count(&form.fields)]).min();
    // Count at most five fields (2.5 seconds), because browsers may fill in a long form automatically.
    Duration::from_millis(500) * u32::try_from(written.unwrap_or_default().clamp(1, 5)).unwrap_or(1)
}

/// Adds the signals in the domain of an e-mail address: whether it is blocked, and whether it is disposable.
/// Finds none if the address is invalid.
fn find_sender_signals(address: &str, options: &ScreeningOptions, findings: &mut Findings) {
    let Some(mailbox) = Mailbox::parse(address) else { return };
    let domain = mailbox.domain();
    let name = || domain.to_ascii_lowercase();
    findings.add(Signal::Listed, full_strength_if(options.blocked.lists(domain)), || {
        format!("address at {}, which is blocked", name())
    });
    findings.add(
        Signal::Disposable,
        full_strength_if(domain_lists::is_disposable(domain, &options.disposable)),
        || format!("disposable address at {}", name()),
    );
}
