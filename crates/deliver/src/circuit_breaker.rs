//! Limits the number of attempts in progress on each channel, and pauses failing channels (a circuit
//! breaker). The dispatcher is a state machine that uses no clock, database or network.
//!
//! After [`TRIP_AFTER`] consecutive failures a channel is paused, and then probed until an attempt succeeds.
//! The length of a pause depends on the [`Cause`], so that a sender whose content always makes the receiver
//! fail cannot delay other senders' deliveries. Deliveries with the lowest rank are sent first, so the probes
//! carry submissions from different networks. docs/pages/deliveries.md describes the pauses.
//!
//! Times are durations since the worker started, measured by a monotonic clock.

use std::time::Duration;

use jiff::Timestamp;

use frontdesk_inbox::submission::delivery::{Capacity, ChannelTarget, ClaimRequest, Claimed, Claims, Lease};
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome};

/// Number of consecutive failures after which a channel is paused.
pub const TRIP_AFTER: u32 = 5;
/// Maximum number of attempts between two pauses, if the content may be the cause of the failures.
pub const PROBES: usize = 4;
/// Length of the first pause, and of all pauses if the content may be the cause of the failures. A
/// `Retry-After` overrides the length of any pause, up to the maximum for its cause.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Length of the first pause after a temporary refusal. A refusal also sets the gap between deliveries to at
/// least this length.
const FIRST_DEFERRAL: Duration = Duration::from_secs(3);
const LONGEST_DEFERRAL: Duration = Duration::from_secs(15);
/// Maximum gap between deliveries, which are sent one at a time after a temporary refusal. A refusal after a
/// success doubles the gap, and each success shortens it by an eighth. Gaps below `SHORTEST_GAP` become zero.
const LONGEST_GAP: Duration = Duration::from_secs(15);
const SHORTEST_GAP: Duration = Duration::from_millis(100);

/// Pauses of at least this length count as outages.
const SHORTEST_OUTAGE: Duration = Duration::from_secs(30);
/// Maximum pause of the whole channel because of one `Retry-After`, so that one visitor's content cannot stop
/// all deliveries. The refused delivery itself waits for as long as the receiver asked.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(5);
/// How long the channel ignores `Retry-After` in temporary refusals after the receiver has accepted a
/// delivery during a delay that it had asked for, which shows that its delays apply only to some content.
const DISTRUST: Duration = Duration::from_hours(1);
/// Like [`MAX_RETRY_AFTER`], but for the first in a series of temporary refusals. Long enough for a receiver
/// that accepts two messages a minute.
const MAX_DEFERRED_RETRY_AFTER: Duration = Duration::from_secs(40);
/// Maximum delay from `Retry-After` after a failure that the content may have caused.
const MAX_UNCLEAR_RETRY_AFTER: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthChange {
    None,
    Paused,
    Resumed {
        /// Whether the pause counts as an outage. If so, the deliveries that failed can be retried at once.
        /// A short pause may have been caused by a few deliveries, which would only fail again.
        after_outage: bool,
    },
    /// A receiver that recently deferred messages has accepted one, so deferred messages can be retried now.
    Accepting,
    /// The channel is switched off until the operator switches it on.
    Off,
}

/// Minimum sleep until a delivery is due. Prevents a busy loop while a due delivery cannot be claimed.
const MIN_SLEEP: Duration = Duration::from_millis(50);

/// Minimum time between two claims while no channel has capacity. Such claims only detect that the operator
/// has switched a channel on or off.
const MIN_CLAIM_INTERVAL: Duration = Duration::from_millis(250);

/// The health of all channels, and the attempts in progress. Channels are identified by their index.
#[derive(Debug)]
pub struct Dispatcher {
    channels: Vec<(ChannelTarget, ChannelHealth)>,
    /// The leases of all attempts in progress.
    pub under_way: Vec<Lease>,
}

#[derive(Debug, Default)]
pub struct StartedAttempts {
    pub claimed: Vec<Claimed>,
    /// Time until the next attempt can start, unless an attempt ends or a submission arrives earlier. `None`
    /// if only one of these events allows an attempt.
    pub sleep: Option<Duration>,
    /// The channel's new state, if the store reports that it has been switched on (`true`) or off (`false`).
    pub switched_on: Option<bool>,
}

impl Dispatcher {
    pub fn new(channels: impl IntoIterator<Item = (ChannelTarget, usize)>) -> Dispatcher {
        let channels =
            channels.into_iter().map(|(target, concurrency)| (target, ChannelHealth::new(concurrency)));
        Dispatcher { channels: channels.collect(), under_way: Vec::new() }
    }

    pub fn target(&self, index: usize) -> &ChannelTarget {
        &self.channels[index].0
    }

    /// One claim request per channel, in order, for as many deliveries as the channel can start now.
    pub fn claim_requests(&self, elapsed: Duration) -> Vec<ClaimRequest> {
        let request = |(target, channel): &(ChannelTarget, ChannelHealth)| ClaimRequest {
            target: target.clone(),
            capacity: channel.capacity(elapsed),
            earlier_attempts: channel.begun,
        };
        self.channels.iter().map(request).collect()
    }

    /// How long the worker can wait before its next claim while no channel can start an attempt. `asked` is
    /// the time since the last claim. `None` if the worker must claim now.
    pub fn idle_time(&self, elapsed: Duration, asked: Duration) -> Option<Duration> {
        let rest =
            self.channels.iter().try_fold(MIN_CLAIM_INTERVAL.saturating_sub(asked), |rest, (_, channel)| {
                let pause = channel.wakes_at(elapsed).map_or(rest, |at| at.saturating_sub(elapsed));
                (channel.capacity(elapsed).any == 0).then(|| rest.min(pause))
            });
        rest.filter(|rest| !rest.is_zero())
    }

    /// Records the attempts that the store has claimed for a channel at `now`. If the channel was switched on
    /// or off in the store, or its pause was cleared there and nothing was claimed, records that instead.
    pub fn begin(
        &mut self,
        index: usize,
        claims: Claims,
        now: Timestamp,
        elapsed: Duration,
    ) -> StartedAttempts {
        let channel = &mut self.channels[index].1;
        if claims.is_off != channel.is_off() {
            let is_on = !claims.is_off;
            channel.set_enabled(is_on);
            let sleep = is_on.then_some(MIN_SLEEP);
            return StartedAttempts { sleep, switched_on: Some(is_on), ..StartedAttempts::default() };
        }
        if channel.is_reported() && !claims.is_paused && claims.claimed.is_empty() {
            // The operator has cleared the stored pause: try the channel at once.
            channel.set_enabled(true);
            return StartedAttempts { sleep: Some(MIN_SLEEP), ..StartedAttempts::default() };
        }
        channel.note_stored_pause(claims.is_paused);
        for claimed in &claims.claimed {
            channel.begin(claimed.is_retry);
            self.under_way.push(claimed.lease.clone());
        }
        let capacity = channel.capacity(elapsed);
        let until = |due: Option<Timestamp>, concurrency: usize| {
            let due = due.filter(|_| concurrency > 0)?;
            Some(Duration::try_from(due.duration_since(now)).unwrap_or_default().max(MIN_SLEEP))
        };
        let pause = channel.wakes_at(elapsed).map(|at| at.saturating_sub(elapsed));
        let next = claims.next;
        let sleep = [until(next.first, capacity.any), until(next.retry, capacity.retries), pause]
            .into_iter()
            .flatten()
            .min();
        StartedAttempts { claimed: claims.claimed, sleep, switched_on: None }
    }

    /// Records the outcome of an attempt ([`ChannelHealth::end`]) and forgets its lease.
    pub fn end(
        &mut self,
        index: usize,
        lease: &Lease,
        is_retry: bool,
        outcome: &Outcome,
        elapsed: Duration,
    ) -> HealthChange {
        self.under_way.retain(|other| other != lease);
        self.channels[index].1.end(is_retry, outcome, elapsed)
    }
}

/// The attempts in progress and the circuit breaker of one channel.
#[derive(Debug, Default)]
pub struct ChannelHealth {
    concurrency: usize,
    /// Number of first attempts in progress.
    first_attempts: usize,
    /// Number of retries in progress.
    retries: usize,
    /// Number of attempts that have started so far.
    begun: usize,
    /// Number of consecutive failures that the channel may have caused.
    failures: u32,
    health: HealthState,
    /// The time between a success and the next attempt. Zero unless the receiver has recently refused a
    /// delivery temporarily.
    gap: Duration,
    gap_ends: Duration,
    /// The receiver asked the channel to send nothing before this time.
    asked_until: Duration,
    /// The channel ignores `Retry-After` in temporary refusals until this time; see [`DISTRUST`].
    distrusts_until: Duration,
    /// Whether another process has recorded a pause although this process has reported none.
    is_paused_elsewhere: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HealthState {
    #[default]
    Well,
    Paused(Pause),
    Off,
}

/// A pause of a channel. No attempts start before `until`, and only probes start after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    since: Duration,
    until: Duration,
    /// The length without `Retry-After`. If the next pause has the same cause, it is twice as long, up to a
    /// limit.
    length: Duration,
    /// The cause of the pause: [`Cause::Channel`], [`Cause::Unclear`] or [`Cause::Deferred`].
    cause: Cause,
    /// Number of attempts that may start before the next pause.
    probes: usize,
    /// Whether an earlier pause has ended and no attempt has succeeded since.
    was_in_vain: bool,
    /// Whether the pause is reported to the operator: false for short pauses after temporary refusals.
    is_reported: bool,
}

impl Pause {
    /// The channel's first pause, or the one that follows `last` in the same outage. A pause is twice as long
    /// as the last one if the cause is the same, up to a limit. `asked`, the `Retry-After`, replaces the
    /// length, up to the maximum for its cause.
    fn following(last: Option<Pause>, cause: Cause, asked: Option<Duration>, now: Duration) -> Pause {
        // One probe is enough for a receiver that limits the rate, and causes the fewest refusals. If the
        // probe fails, its content may be the cause, so try several deliveries.
        let was_in_vain = last.is_some_and(|last| last.was_in_vain || now >= last.until);
        let (first, longest, max_retry_after, probes) = match cause {
            Cause::Deferred if was_in_vain => {
                (FIRST_DEFERRAL, LONGEST_DEFERRAL, MAX_UNCLEAR_RETRY_AFTER, PROBES)
            }
            Cause::Deferred => (FIRST_DEFERRAL, LONGEST_DEFERRAL, MAX_DEFERRED_RETRY_AFTER, 1),
            Cause::Unclear => (FIRST_PAUSE, FIRST_PAUSE, MAX_UNCLEAR_RETRY_AFTER, PROBES),
            _ => (FIRST_PAUSE, LONGEST_PAUSE, MAX_RETRY_AFTER, 1),
        };
        let same = last.filter(|last| last.cause == cause && asked.is_none());
        let length = same.map_or(first, |last| (last.length * 2).min(longest));
        let is_reported = last.is_some_and(|last| last.is_reported)
            || asked.is_some()
            || cause != Cause::Deferred
            || length == longest;
        Pause {
            since: last.map_or(now, |last| last.since),
            until: now + asked.map_or(length, |asked| asked.min(max_retry_after)),
            length,
            cause,
            probes,
            was_in_vain,
            is_reported,
        }
    }
}

impl ChannelHealth {
    /// The health of a channel that works, with no attempt in progress. A `concurrency` of 0 counts as 1.
    pub fn new(concurrency: usize) -> ChannelHealth {
        ChannelHealth { concurrency: concurrency.max(1), ..ChannelHealth::default() }
    }

    /// The number of attempts that may start now: none while the channel is off or during a pause, and only
    /// probes after it. While there is a gap, one attempt at a time, after the gap has ended. Otherwise,
    /// retries get at most half of the concurrency, rounded up, so that slow failures do not delay new
    /// deliveries.
    pub fn capacity(&self, now: Duration) -> Capacity {
        let under_way = self.first_attempts + self.retries;
        match self.health {
            HealthState::Off => Capacity::default(),
            HealthState::Paused(pause) if now < pause.until => Capacity::default(),
            HealthState::Paused(pause) => {
                let concurrency = if pause.cause == Cause::Channel { 1 } else { self.concurrency };
                let probes = concurrency.saturating_sub(under_way).min(pause.probes);
                Capacity { any: probes, retries: probes }
            }
            HealthState::Well => {
                let concurrency =
                    if self.gap.is_zero() { self.concurrency } else { usize::from(now >= self.gap_ends) };
                let any = concurrency.saturating_sub(under_way);
                Capacity { any, retries: any.min(self.concurrency.div_ceil(2).saturating_sub(self.retries)) }
            }
        }
    }

    /// The end of the pause or gap after which the channel can have capacity even if no attempt ends. `None`
    /// if there is no such pause or gap, or it is over.
    pub fn wakes_at(&self, now: Duration) -> Option<Duration> {
        let is_quiet = self.first_attempts + self.retries == 0;
        let (at, returns) = match self.health {
            HealthState::Paused(pause) => (pause.until, is_quiet || pause.cause != Cause::Channel),
            HealthState::Well => (self.gap_ends, is_quiet && !self.gap.is_zero()),
            HealthState::Off => return None,
        };
        (returns && at > now).then_some(at)
    }

    /// Whether the channel is in a pause that is reported to the operator.
    pub fn is_reported(&self) -> bool {
        matches!(self.health, HealthState::Paused(Pause { is_reported: true, .. }))
    }

    pub fn is_off(&self) -> bool {
        self.health == HealthState::Off
    }

    /// Switches the channel on or off, and resets its failures, its pause and the delay after deferrals.
    pub fn set_enabled(&mut self, on: bool) {
        self.health = if on { HealthState::Well } else { HealthState::Off };
        self.failures = 0;
        self.gap = Duration::ZERO;
    }

    /// Records whether another process has paused the channel: the store has a pause (`is_paused`), but this
    /// process has reported none, and the channel is not off. The next delivery then ends the stored pause
    /// ([`Self::record_success`]), because the process that recorded it may have ended.
    fn note_stored_pause(&mut self, is_paused: bool) {
        self.is_paused_elsewhere = is_paused && !self.is_reported() && !self.is_off();
    }

    /// Records the start of an attempt, which uses up one of the probes of a pause.
    pub fn begin(&mut self, is_retry: bool) {
        *(if is_retry { &mut self.retries } else { &mut self.first_attempts }) += 1;
        self.begun = self.begun.wrapping_add(1);
        if let HealthState::Paused(pause) = &mut self.health {
            pause.probes = pause.probes.saturating_sub(1);
        }
    }

    /// Records the outcome of an attempt. A refusal of one notification shows that the channel works. A
    /// receiver that is gone switches the channel off, and a channel that is off stays off. Returns the
    /// change that the caller must store and report, if any.
    pub fn end(&mut self, is_retry: bool, outcome: &Outcome, now: Duration) -> HealthChange {
        let count = if is_retry { &mut self.retries } else { &mut self.first_attempts };
        *count = count.saturating_sub(1);
        if self.is_off() {
            return HealthChange::None;
        }
        let Outcome::Failed(failure) = outcome else { return self.record_success(true, now) };
        match failure.cause {
            Cause::Gone => {
                self.set_enabled(false);
                HealthChange::Off
            }
            // A refusal of one notification also shows that the channel works.
            Cause::Notification | Cause::Refused => self.record_success(false, now),
            // Without a reply, the content of this notification may be the cause, and not the channel.
            Cause::Uncertain => self.record_failure(Cause::Unclear, failure.retry_after, now),
            cause => self.record_failure(cause, failure.retry_after, now),
        }
    }

    /// Counts a failure that the channel may have caused, and starts its first or next pause if one is due.
    ///
    /// The first pause starts at [`TRIP_AFTER`] consecutive failures, or at once after a temporary refusal
    /// (which also doubles the gap) or a `Retry-After` (`asked`). The next one starts when a probe fails
    /// because of the channel, or for other causes when a probe fails and no probe is left; a `Retry-After`
    /// starts it at once, except for [`Cause::Unclear`]. The `Retry-After` of a temporary refusal is ignored
    /// during [`DISTRUST`]. Returns [`HealthChange::Paused`] only for the first pause that is reported.
    fn record_failure(&mut self, cause: Cause, asked: Option<Duration>, now: Duration) -> HealthChange {
        let asked = asked.filter(|_| cause != Cause::Deferred || now >= self.distrusts_until);
        if let Some(asked) = asked {
            self.asked_until = self.asked_until.max(now.saturating_add(asked));
        }
        let last = match self.health {
            HealthState::Paused(last) => Some(last),
            _ => None,
        };
        let is_next = match last {
            None => {
                self.failures += 1;
                asked.is_some() || cause == Cause::Deferred || self.failures >= TRIP_AFTER
            }
            // The content may be the cause, so the next pause begins only when the last permitted probe has
            // begun and one fails.
            Some(last) if cause == Cause::Unclear => now >= last.until && last.probes == 0,
            // Ignore failures of attempts that started before the pause, unless the receiver requests a wait.
            Some(last) => {
                asked.is_some() || now >= last.until && (last.probes == 0 || cause == Cause::Channel)
            }
        };
        if !is_next {
            return HealthChange::None;
        }
        if cause == Cause::Deferred && last.is_none() {
            self.gap = (self.gap * 2).clamp(FIRST_DEFERRAL, LONGEST_GAP);
        }
        let pause = Pause::following(last, cause, asked, now);
        self.health = HealthState::Paused(pause);
        let was_reported = last.is_some_and(|last| last.is_reported);
        if pause.is_reported && !was_reported { HealthChange::Paused } else { HealthChange::None }
    }

    /// Records a success or, if `is_delivered` is false, a refusal of one notification by a working channel.
    /// Both end a pause and reset the count of failures. A success also shortens the gap, and starts
    /// [`DISTRUST`] if the receiver had asked for a delay that is not over. Returns [`HealthChange::Resumed`]
    /// if a reported pause ends, or a success shows that a pause recorded by another process is over;
    /// otherwise [`HealthChange::Accepting`] after a success while there is a gap.
    fn record_success(&mut self, is_delivered: bool, now: Duration) -> HealthChange {
        self.failures = 0;
        if is_delivered {
            if now < self.asked_until {
                self.asked_until = Duration::ZERO;
                self.distrusts_until = now + DISTRUST;
            }
            self.gap = self.gap * 7 / 8;
            if self.gap < SHORTEST_GAP {
                self.gap = Duration::ZERO;
            }
            self.gap_ends = now + self.gap;
        }
        let health = std::mem::replace(&mut self.health, HealthState::Well);
        if let HealthState::Paused(Pause { since, is_reported: true, .. }) = health {
            return HealthChange::Resumed { after_outage: now.saturating_sub(since) >= SHORTEST_OUTAGE };
        }
        if is_delivered && self.is_paused_elsewhere {
            self.is_paused_elsewhere = false;
            return HealthChange::Resumed { after_outage: true };
        }
        if is_delivered && !self.gap.is_zero() { HealthChange::Accepting } else { HealthChange::None }
    }
}

#[cfg(test)]
mod tests;
