//! The parts of an audit.

/// The parts of an audit, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    Caches,
    Negotiation,
    Parity,
    Links,
    Files,
    Forms,
    Basics,
}

impl Group {
    pub const ALL: [Group; 7] = [
        Group::Caches,
        Group::Negotiation,
        Group::Parity,
        Group::Links,
        Group::Files,
        Group::Forms,
        Group::Basics,
    ];

    /// The heading of the group in the report, and its name in JSON.
    pub fn title(self) -> &'static str {
        match self {
            Group::Caches => "caches",
            Group::Negotiation => "negotiation",
            Group::Parity => "parity",
            Group::Links => "links",
            Group::Files => "files",
            Group::Forms => "forms",
            Group::Basics => "basics",
        }
    }
}
