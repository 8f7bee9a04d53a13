//! What screening says of a submission: a score, with its reasons.

/// What screening says of a submission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The points of all reasons together.
    pub score: u32,
    /// Those signals that added points, most points first.
    pub reasons: Vec<Reason>,
    /// Whether it is to be held.
    pub hold: bool,
    /// How many points would hold it.
    pub threshold: u32,
}

/// A signal that added points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Which one.
    pub signal: Signal,
    /// How many, at least one.
    pub points: u32,
    /// What was found, in words and figures for the operator: nothing that the visitor wrote, but for the domain names of links
    /// and of the address.
    pub detail: String,
}

/// Something about a submission that spam has more often than what the operator wants to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// The source has used up most of its quota.
    Rate,
    /// The form as a whole has had more than its limit.
    FormRate,
    /// Others have sent the same lately.
    Repeated,
    /// There are many links.
    Links,
    /// The e-mail address is a throw-away one.
    Disposable,
    /// The address or a link belongs to a domain that the operator blocks.
    Listed,
    /// A field that nobody sees was filled in.
    Honeypot,
    /// The form was filled in faster than a person does.
    TimeToFill,
    /// A browser sent it from another site, or does not say from which.
    Origin,
    /// It has the words of mass offers.
    Content,
}

impl Signal {
    /// All there are.
    pub const ALL: [Signal; 10] = [
        Signal::Rate,
        Signal::FormRate,
        Signal::Repeated,
        Signal::Links,
        Signal::Disposable,
        Signal::Listed,
        Signal::Honeypot,
        Signal::TimeToFill,
        Signal::Origin,
        Signal::Content,
    ];

    /// As it is kept and shown: `form-rate`.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Rate => "rate",
            Signal::FormRate => "form-rate",
            Signal::Repeated => "repeated",
            Signal::Links => "links",
            Signal::Disposable => "disposable",
            Signal::Listed => "listed",
            Signal::Honeypot => "honeypot",
            Signal::TimeToFill => "time-to-fill",
            Signal::Origin => "origin",
            Signal::Content => "content",
        }
    }

    /// The signal of that name.
    pub fn named(name: &str) -> Option<Signal> {
        Signal::ALL.into_iter().find(|signal| signal.name() == name)
    }
}

impl Verdict {
    /// Everything on one line: `hidden field filled in (60), 4 links (30); 90 of 50 points`. Empty if there is nothing to say.
    pub fn because(&self) -> String {
        let reasons = self.reasons.iter().map(|reason| format!("{} ({})", reason.detail, reason.points));
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        if reasons.is_empty() {
            return reasons;
        }
        format!("{reasons}; {} of {} points", self.score, self.threshold)
    }
}
