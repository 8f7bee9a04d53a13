//! The verdict of screening on a submission: points, the signals that gave them, and whether to hold it.

use serde::{Deserialize, Serialize};

named_enum! {
    /// A feature of a submission that is more frequent in spam.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Signal {
        /// The source has used up most of its quota.
        Rate = "rate",
        /// The form has had more submissions than its quota, and this one's network is part of that flood.
        /// It is held until the flood ends. Screening never adds this signal; processing does.
        FormRate = "form-rate",
        /// Other sources have sent the same content lately.
        Repeated = "repeated",
        /// It contains many links, or little else.
        Links = "links",
        /// A link uses a URL shortener, which hides its target.
        Shortener = "shortener",
        /// Links are written in forum or HTML markup.
        Markup = "markup",
        /// The e-mail address is disposable.
        Disposable = "disposable",
        /// The address or a link belongs to a domain that the operator blocks. This alone holds.
        Listed = "listed",
        /// The hidden field was filled in.
        Honeypot = "honeypot",
        /// The form was filled in faster than a person does.
        TimeToFill = "time-to-fill",
        /// A browser sent it from another or an unknown site.
        Origin = "origin",
        /// It contains phrases of mass offers.
        Offer = "offer",
        /// It promises money and asks to continue in a messenger or by phone.
        Lure = "lure",
        /// Words are disguised: invisible characters, letters of other scripts, digits for letters.
        Disguise = "disguise",
        /// It is written in capitals.
        Shouting = "shouting",
        /// The name is a web address or random letters.
        Name = "name",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreeningVerdict {
    pub score: u32,
    /// The signals that added points, most points first.
    pub reasons: Vec<ScreeningReason>,
    pub hold: bool,
    /// Whether it is to be marked as suspicious; never with `hold`.
    #[serde(default)]
    pub suspicious: bool,
    /// The number of points from which a submission is held.
    pub threshold: u32,
}

/// A signal that added points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreeningReason {
    pub signal: Signal,
    /// The number of points; at least one.
    pub points: u32,
    /// The finding, for the operator. Contains nothing that the visitor wrote, except the domain names of
    /// links and of the address.
    pub detail: String,
}

impl ScreeningReason {
    /// The signal and its points only: a detail may contain a visitor's domain name.
    #[must_use]
    pub fn without_detail(self) -> ScreeningReason {
        ScreeningReason { detail: String::new(), ..self }
    }
}

impl ScreeningVerdict {
    /// The same verdict, but its reasons have only signals and points.
    #[must_use]
    pub fn without_details(self) -> ScreeningVerdict {
        ScreeningVerdict {
            reasons: self.reasons.into_iter().map(ScreeningReason::without_detail).collect(),
            ..self
        }
    }

    /// The same verdict with [`Signal::FormRate`] added, whose points alone reach the threshold.
    #[must_use]
    pub fn in_flood(mut self) -> ScreeningVerdict {
        let detail = "the form has had more than its quota".to_owned();
        self.reasons.insert(0, ScreeningReason { signal: Signal::FormRate, points: self.threshold, detail });
        self.score = self.score.saturating_add(self.threshold);
        self
    }

    /// The verdict on one line: `hidden field filled in (60), 4 links (30); 90 of 50 points`. A signal
    /// without a detail appears by name. Empty if there are no reasons.
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
