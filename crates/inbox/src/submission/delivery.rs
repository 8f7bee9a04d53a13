//! Deliveries of submissions to channels, and the data that the worker and the store exchange.

use jiff::Timestamp;
use uuid::Uuid;

use crate::submission::Submission;
pub use crate::submission::route::{Condition, DailyQuota, Route, choose};
use frontdesk_forms::named_enum;

named_enum! {
    /// The state of a delivery.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum DeliveryState {
        /// The delivery is sent when it is due.
        Waiting = "waiting",
        Sending = "sending",
        Delivered = "delivered",
        Held = "held",
        /// A dead letter: only the operator can retry it.
        Parked = "parked",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The name of the channel, which may no longer be configured.
    pub channel: String,
    pub state: DeliveryState,
    /// When the next attempt begins or, during an attempt, when its lease ends. `None` if no attempt is to
    /// follow.
    pub due_at: Option<Timestamp>,
    pub obstacle: Option<Obstacle>,
    /// All attempts, oldest first.
    pub attempts: Vec<Attempt>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The number of the attempt, counted from 1 for each delivery.
    pub number: u32,
    pub began_at: Timestamp,
    /// How the attempt ended; `None` if it is in progress or was interrupted.
    pub end: Option<AttemptEnd>,
}

impl AttemptEnd {
    /// The outcome in one word, for operators: `delivered`, `failed` or `uncertain`.
    pub fn outcome(&self) -> &'static str {
        match self.delivered {
            Some(true) => "delivered",
            Some(false) => "failed",
            None => "uncertain",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptEnd {
    pub at: Timestamp,
    /// Whether the receiver accepted the submission. `None` if that is not known: see
    /// [`Cause::Uncertain`](crate::submission::delivery_outcome::Cause::Uncertain).
    pub delivered: Option<bool>,
    /// The receiver's reply or the error.
    pub answer: String,
}

/// The reason why a channel does not deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// True if the channel is switched off because the receiver is gone, false if it is paused and probed.
    pub off: bool,
    pub since: Timestamp,
    /// The receiver's reply or the error.
    pub answer: String,
}

/// Identifies an attempt. The attempt's number is the token of its lease: only the latest attempt's failure
/// changes the delivery, because the leases of earlier attempts have expired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub submission: Uuid,
    pub channel: String,
    pub number: u32,
}

/// The number of attempts that a channel may start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Capacity {
    /// The maximum number of attempts, retries included.
    pub any: usize,
    /// The maximum number of retries, which also count towards `any`.
    pub retries: usize,
}

/// A channel and its configured destination. If the destination differs from the one that the store recorded
/// when it switched the channel off, the channel is switched on again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelTarget {
    pub name: String,
    /// Where the channel delivers: a URL, a host and port, or a path.
    pub destination: String,
}

/// A request to claim due deliveries of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    pub target: ChannelTarget,
    pub capacity: Capacity,
    /// The number of attempts on this channel so far. Seeds pseudorandom choices.
    pub earlier_attempts: usize,
}

/// The lowest rank of suspicious submissions. Submissions that are not suspicious have lower ranks if their
/// networks are within the daily allowance.
pub const SUSPICIOUS_RANK: i64 = 64;
/// The lowest rank of a submission from a high-volume network: one that has used up its daily allowance.
/// Submissions from other networks have a rank of at most 7, the bit length of the number of earlier
/// submissions from the network, which is at most 72, or of 7 more than [`SUSPICIOUS_RANK`].
pub const HIGH_VOLUME_RANK: i64 = 128;

/// A due delivery that may be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDelivery {
    pub submission: Uuid,
    pub channel: String,
    /// The priority of the delivery: deliveries with lower ranks are sent first.
    pub rank: i64,
    pub due_at: Timestamp,
    /// Whether the latest attempt is recorded as in progress. If the delivery is due, its lease has expired.
    pub is_sending: bool,
    /// The number of attempts so far, interrupted ones included.
    pub attempts: u32,
    /// The number of failures since the delivery was queued.
    pub failures: u32,
    /// The number of consecutive interrupted attempts, not counting one that is recorded as in progress.
    pub interrupted: u32,
}

impl DueDelivery {
    pub fn is_retry(&self) -> bool {
        self.failures > 0
    }

    /// Whether an attempt counts towards [`Candidates::high_volume`]: a first attempt for a high-volume
    /// network. An interrupted attempt was counted when it began.
    pub fn is_paced(&self) -> bool {
        self.rank >= HIGH_VOLUME_RANK && !self.is_retry() && !self.is_sending
    }

    /// Whether one of the leases in `under_way` is for any attempt of this delivery.
    pub(crate) fn is_leased(&self, under_way: &[Lease]) -> bool {
        under_way.iter().any(|lease| lease.submission == self.submission && lease.channel == self.channel)
    }
}

/// The due deliveries of a channel, or at least those that any order by rank, by due time or newest first
/// would choose.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    pub due: Vec<DueDelivery>,
    /// How many first attempts to deliver submissions from high-volume networks may begin now.
    pub high_volume: usize,
}

/// Chooses the deliveries to claim, at most as many as [`ClaimRequest::capacity`] permits.
pub type Choose = fn(&ClaimRequest, Candidates) -> Vec<DueDelivery>;

/// The store's reply to a [`ClaimRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    pub claimed: Vec<Claimed>,
    /// Whether the channel is switched off and its deliveries are parked.
    pub is_off: bool,
    /// Whether the store records the channel as paused. A retry by the operator clears the record.
    pub is_paused: bool,
    /// Whether the rate limit for high-volume networks delays some of the waiting deliveries.
    pub is_paced: bool,
    /// When the next delivery that was not claimed is due, or the next lease ends.
    pub next: NextDue,
}

/// When the next deliveries are due, or the next leases end. A time in the past means that due deliveries
/// were not claimed, for instance because the capacity was exhausted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextDue {
    /// When the next delivery without failures is due, or its lease ends.
    pub first: Option<Timestamp>,
    /// When the next delivery that has failed before is due, or its lease ends.
    pub retry: Option<Timestamp>,
}

/// An attempt that the store has recorded as started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub lease: Lease,
    pub submission: Submission,
    /// The number of failures since the delivery was queued.
    pub failures: u32,
    /// The number of earlier attempts whose outcome is uncertain.
    pub uncertain: u32,
    /// The recipients that have received the submission in an earlier attempt.
    pub reached: Vec<String>,
    /// The date of a message: when this attempt began, or the earliest one of the last four days that may
    /// have sent the same message.
    pub dated_at: Timestamp,
    /// Whether the attempt counts towards [`Capacity::retries`].
    pub is_retry: bool,
    /// The token in the confirmation link; `None` unless the mail asks a visitor to confirm an address.
    pub link: Option<String>,
}
