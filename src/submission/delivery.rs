//! One submission on its way down one channel, as the inbox keeps it.

use std::fmt;

use jiff::Timestamp;
use uuid::Uuid;

use crate::submission::Submission;

/// A channel as far as it decides what is queued for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The channel's name, to which deliveries belong.
    pub name: String,
    /// The forms whose submissions it takes; all of them if this is empty.
    pub forms: Vec<String>,
    /// Whether its receiver takes a limited number of messages a day, as mail providers do.
    pub has_daily_quota: bool,
}

impl Route {
    /// One for all forms, without a daily quota.
    pub fn new(name: &str) -> Route {
        Route { name: name.to_owned(), forms: Vec::new(), has_daily_quota: false }
    }

    /// Whether submissions of this form go down this channel.
    pub fn takes(&self, form: &str) -> bool {
        self.forms.is_empty() || self.forms.iter().any(|name| name == form)
    }
}

/// How far a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It is sent as soon as it is due.
    Waiting,
    /// An attempt is under way.
    Sending,
    /// The other side has it.
    Delivered,
    /// Its submission is held.
    Held,
    /// It is not tried again unless the operator says so.
    Parked,
}

impl State {
    /// All of them.
    pub const ALL: [State; 5] =
        [State::Waiting, State::Sending, State::Delivered, State::Held, State::Parked];

    /// Its name in the inbox and in every listing.
    pub const fn name(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Sending => "sending",
            State::Delivered => "delivered",
            State::Held => "held",
            State::Parked => "parked",
        }
    }

    /// The state of that name.
    pub fn named(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A submission's way down one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The channel's name. A channel that is configured no more keeps its deliveries.
    pub channel: String,
    /// How far it is.
    pub state: State,
    /// When it is tried next, or, while it is being sent, until when that may take.
    pub due_at: Option<Timestamp>,
    /// Why nothing is sent down this channel at present, if that is so.
    pub obstacle: Option<Obstacle>,
    /// Its attempts, the first one first.
    pub attempts: Vec<Attempt>,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// From 1, over all attempts of a delivery.
    pub number: u32,
    /// When it began.
    pub began_at: Timestamp,
    /// How it ended. Of an attempt that is under way, or that was interrupted, nothing is known.
    pub end: Option<End>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// When.
    pub at: Timestamp,
    /// Whether the other side took it.
    pub delivered: bool,
    /// What it said, or what went wrong.
    pub answer: String,
}

/// What keeps a whole channel from delivering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Whether it is switched off (the other side said that it is gone), or just paused and probed from time to time.
    pub off: bool,
    /// Since when.
    pub since: Timestamp,
    /// What the other side said.
    pub answer: String,
}

/// Which attempt this is. Its number is the token of the lease: whoever reports about an attempt that isn't the delivery's last
/// one has lost the lease meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The submission.
    pub submission: Uuid,
    /// The channel's name.
    pub channel: String,
    /// The attempt's number.
    pub number: u32,
}

/// How many deliveries of a channel may begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Room {
    /// Of any kind.
    pub any: usize,
    /// Of them, such as have failed before.
    pub again: usize,
}

/// Where a channel leads, for the store to tell whether it still leads there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The channel's name.
    pub name: String,
    /// Its URL or whatever stands for it.
    pub leads_to: String,
}

/// How many deliveries may begin in a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The channel.
    pub target: Target,
    /// How many.
    pub room: Room,
    /// Which form comes first, as a number that grows with each attempt: forms take turns.
    pub turn: usize,
}

/// What is to be sent down a channel, and when there will be more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Attempts that have begun with this.
    pub claimed: Vec<Claimed>,
    /// The channel is switched off; what waited for it is parked.
    pub is_off: bool,
    /// The channel is noted as paused. The operator's retry takes that note away.
    pub is_paused: bool,
    /// Some of what waits are submissions of busy networks, which this channel sends at a limited pace.
    pub is_paced: bool,
    /// What is left.
    pub next: Next,
}

/// When the next delivery is due. In the past, where there was no room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// Of those that have not failed since they were queued.
    pub first: Option<Timestamp>,
    /// Of those that have.
    pub again: Option<Timestamp>,
}

/// An attempt that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Under which its end is reported.
    pub lease: Lease,
    /// What is to be sent.
    pub submission: Submission,
    /// How many attempts have failed since it was queued.
    pub failures: u32,
    /// Whether it took a place of those that have failed before.
    pub again: bool,
}
