//! The screening verdict on a submission: its points, the signals that added them, and whether to hold the
//! submission.

use serde::{Deserialize, Serialize};

use frontdesk_forms::named_enum;

named_enum! {
    /// A property of a submission that is more common in spam than in genuine messages.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Signal {
        /// The source has used more than half of its quota.
        Rate = "rate",
        /// The submission is part of a flood, and is held until the flood ends. Added by processing, not
        /// screening.
        FormRate = "form-rate",
        /// At least two other sources have recently sent nearly the same message.
        Repeated = "repeated",
        /// The text contains many links, or little except links.
        Links = "links",
        /// A link uses a URL shortener, which hides its target.
        Shortener = "shortener",
        /// Links are written in forum or HTML markup.
        Markup = "markup",
        /// The e-mail address is disposable.
        Disposable = "disposable",
        /// The operator blocks the domain of the address or of a link. Always holds the submission.
        Listed = "listed",
        /// The hidden field was filled in.
        Honeypot = "honeypot",
        /// Filling in the form took less than twice the shortest time that a person needs.
        TimeToFill = "time-to-fill",
        /// A browser sent the submission from another site or from an unknown one.
        Origin = "origin",
        /// The text contains phrases that are typical of mass-mailed offers.
        Offer = "offer",
        /// The text contains a mass-mailed offer or promises money, and asks the reader to continue in a
        /// messenger app.
        Lure = "lure",
        /// Words are disguised with invisible characters, letters of other scripts, decorative letters,
        /// digits or spaces, or the message consists of random letters.
        Disguise = "disguise",
        /// The text is written in capitals.
        Shouting = "shouting",
        /// The name is a web address or random letters, or first and last name are the same.
        Name = "name",
        /// The text resembles messages that the operator marked as spam.
        Learned = "learned",
        /// rspamd, which the operator runs, takes the submission for spam. Added after processing, not by
        /// screening.
        Opinion = "opinion",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreeningVerdict {
    pub score: u32,
    /// The signals that added points, most points first.
    pub reasons: Vec<ScreeningReason>,
    pub hold: bool,
    /// Whether to mark the submission as suspicious. Never true if `hold` is.
    #[serde(default)]
    pub suspicious: bool,
    /// A submission with at least this many points is held. [`Signal::Rate`] and [`Signal::Opinion`] do not
    /// count, and [`Signal::Learned`] only if the submission is strongly suspicious without it.
    pub threshold: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreeningReason {
    pub signal: Signal,
    /// The points that the signal adds, at least one.
    pub points: u32,
    /// Explains the signal to operators. Contains no text of the visitor except domains. Empty in a sealed
    /// submission.
    pub detail: String,
}

impl Signal {
    /// Whether the signal comes from the visitor's text, not from its transmission, from lessons, or from the
    /// operator's list of domains.
    pub fn is_in_text(self) -> bool {
        match self {
            Signal::Links
            | Signal::Shortener
            | Signal::Markup
            | Signal::Disposable
            | Signal::Offer
            | Signal::Lure
            | Signal::Disguise
            | Signal::Shouting
            | Signal::Name => true,
            Signal::Rate
            | Signal::FormRate
            | Signal::Repeated
            | Signal::Listed
            | Signal::Honeypot
            | Signal::TimeToFill
            | Signal::Origin
            | Signal::Learned
            | Signal::Opinion => false,
        }
    }
}

impl ScreeningReason {
    #[must_use]
    pub fn without_detail(self) -> ScreeningReason {
        ScreeningReason { detail: String::new(), ..self }
    }
}

impl ScreeningVerdict {
    #[must_use]
    pub fn without_details(self) -> ScreeningVerdict {
        ScreeningVerdict {
            reasons: self.reasons.into_iter().map(ScreeningReason::without_detail).collect(),
            ..self
        }
    }

    /// The points of the signals for which [`Signal::is_in_text`] is true.
    pub fn text_points(&self) -> u32 {
        let in_text = self.reasons.iter().filter(|reason| reason.signal.is_in_text());
        in_text.fold(0, |sum, reason| sum.saturating_add(reason.points))
    }

    /// Adds [`Signal::Opinion`] with all of its points. Marks the submission as suspicious if it then has
    /// `marked_from` points or more, and is not held. 0 counts as 1. Never changes `hold`. Changes nothing if
    /// it has an opinion already.
    #[must_use]
    pub fn with_opinion(mut self, detail: String, marked_from: u32) -> ScreeningVerdict {
        let signal = Signal::Opinion;
        if self.reasons.iter().any(|reason| reason.signal == signal) {
            return self;
        }
        let points = signal.points().unwrap_or_default();
        let place = self.reasons.iter().take_while(|reason| reason.points >= points).count();
        self.reasons.insert(place, ScreeningReason { signal, points, detail });
        self.score = self.score.saturating_add(points);
        self.suspicious |= !self.hold && self.score >= marked_from.max(1);
        self
    }

    /// Adds [`Signal::FormRate`], whose points alone reach the threshold, as the first reason. Does not set
    /// `hold`.
    #[must_use]
    pub fn in_flood(mut self) -> ScreeningVerdict {
        let detail = "the form has had more than its quota".to_owned();
        self.reasons.insert(0, ScreeningReason { signal: Signal::FormRate, points: self.threshold, detail });
        self.score = self.score.saturating_add(self.threshold);
        self
    }

    /// The verdict on one line: `hidden field filled in (100), written in capitals (10); 110 of 100 points`.
    /// A reason without details is given by its signal's name. Empty if there are no reasons.
    pub fn because(&self) -> String {
        let reason = |ScreeningReason { signal, points, detail }: &ScreeningReason| {
            format!("{} ({points})", if detail.is_empty() { signal.name() } else { detail })
        };
        let reasons: Vec<String> = self.reasons.iter().map(reason).collect();
        if reasons.is_empty() {
            return String::new();
        }
        format!("{}; {} of {} points", reasons.join(", "), self.score, self.threshold)
    }
}
