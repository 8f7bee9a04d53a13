//! What is under way in which channel, how much more may be, and whether a channel is tried at all: a state machine without
//! clock, database or network.
//!
//! A channel has a number of places. At most half of them, rounded up, go to repeated attempts, so that what fails slowly again
//! and again leaves room for what has just come. A channel that fails [`TRIP_AFTER`] times in a row is paused and probed until an
//! attempt gets through. How long the pauses are depends on what fails ([`Cause`]), so that a sender cannot delay the deliveries of others
//! by content that the receiver always answers with an error:
//!
//! - Where the content cannot be the cause (no connection, a failed login), one delivery probes the channel after 5, 10, 20, 40 and then
//!   every 60 seconds.
//! - Where the content may be the reason (HTTP 403, 404 or 5xx), up to [`PROBES`] deliveries probe the channel every five seconds, however
//!   long it fails. Deliveries of the lowest rank come first, so these are of different networks: content from a hundred networks delays
//!   others by minutes. A receiver that is down gets less than one request a second, and only as long as deliveries are due, each of which
//!   is tried ten times in three days.
//! - Where the other side refuses for now (a mail server's 4xx, HTTP 429), deliveries go one at a time from the first refusal on, after
//!   3, 6, 12 and then every 15 seconds, so that the lowest rank gets the next message that a rate limiter lets through.
//!
//! Time is what has passed since the start, by a clock that never jumps.

use std::time::Duration;

use jiff::Timestamp;

use crate::submission::delivery::{Claimed, Claims, Lease, Room, Target, Want};
use crate::submission::outcome::{Cause, Outcome};

/// This many failures in a row, each the channel's own, pause it.
pub const TRIP_AFTER: u32 = 5;
/// The number of attempts that may follow a pause before the next one, where the content may be the reason for failures.
pub const PROBES: usize = 4;
/// How long the first pause is.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause, unless the other side asks for more time.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// How long a channel is left alone after the other side has refused for now.
const FIRST_DEFERRAL: Duration = Duration::from_secs(3);
/// How long it is left alone after several rounds of such refusals.
const LONGEST_DEFERRAL: Duration = Duration::from_secs(15);
/// After refusals for now, deliveries go one at a time with a gap between them, an eighth shorter each time one arrives, so that a rate
/// limiter refuses few of them. Gaps below this are none.
const SHORTEST_GAP: Duration = Duration::from_millis(100);

/// What works again before this has had no outage.
const SHORTEST_OUTAGE: Duration = Duration::from_secs(30);
/// The longest that one `Retry-After` pauses the whole channel. The delivery that it was said of waits for as long as was asked; others are
/// tried before that, because a receiver that limits each sender's volume counts them as one sender.
const LONGEST_RESPITE: Duration = Duration::from_mins(5);
/// The same where the content may be the reason for the answer.
const LONGEST_UNCLEAR_RESPITE: Duration = Duration::from_secs(15);

/// What an outcome changed for its channel as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing.
    None,
    /// It is paused from now on.
    Paused,
    /// It works again.
    Resumed {
        /// It failed for so long that it was the channel: what waits because of that needs to wait no longer. After a short time
        /// it may have been a few deliveries that it is ill from, and those would only be the next to fail again.
        after_outage: bool,
    },
    /// It is switched off until the operator says otherwise.
    Off,
}

/// What is due and yet was not claimed has a reason that takes at least this long to pass.
const SHORTEST_SLEEP: Duration = Duration::from_millis(50);

/// While there is room nowhere, the store is asked no more often than this, however much comes in: all it could say is that the
/// operator has switched a channel on or off.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// All channels with what is under way in them.
#[derive(Debug)]
pub struct Roster {
    posts: Vec<(Target, Lane)>,
    under_way: Vec<Lease>,
}

/// What follows from a look into the store for one channel.
#[derive(Debug, Default)]
pub struct Begun {
    /// What is to be sent now.
    pub claimed: Vec<Claimed>,
    /// For how long there will be nothing more to begin, unless something ends or comes in. Nothing: for ever.
    pub sleep: Option<Duration>,
    /// Whether the channel was found switched on or off, other than it was believed to be.
    pub switched: Option<bool>,
}

impl Roster {
    /// Channels with so many places each.
    pub fn new(channels: impl IntoIterator<Item = (Target, usize)>) -> Roster {
        let posts = channels.into_iter().map(|(target, places)| (target, Lane::new(places)));
        Roster { posts: posts.collect(), under_way: Vec::new() }
    }

    /// Where a channel leads.
    pub fn target(&self, post: usize) -> &Target {
        &self.posts[post].0
    }

    /// What to ask the store for, a channel each.
    pub fn wants(&self, elapsed: Duration) -> Vec<Want> {
        let want = |(target, lane): &(Target, Lane)| Want {
            target: target.clone(),
            room: lane.room(elapsed),
            turn: lane.begun,
        };
        self.posts.iter().map(want).collect()
    }

    /// For how long the store need not be asked, which was asked so long ago: nothing could be begun. Nothing where it is to be
    /// asked now.
    pub fn rest(&self, elapsed: Duration, asked: Duration) -> Option<Duration> {
        let rest = self.posts.iter().try_fold(ASK_EVERY.saturating_sub(asked), |rest, (_, lane)| {
            let pause = lane.wakes_at(elapsed).map_or(rest, |at| at.saturating_sub(elapsed));
            (lane.room(elapsed).any == 0).then(|| rest.min(pause))
        });
        rest.filter(|rest| !rest.is_zero())
    }

    /// The attempts that are under way here.
    pub fn under_way(&self) -> &[Lease] {
        &self.under_way
    }

    /// Takes what the store had for a channel at `now`.
    pub fn begin(&mut self, post: usize, claims: Claims, now: Timestamp, elapsed: Duration) -> Begun {
        let lane = &mut self.posts[post].1;
        if claims.is_off != lane.is_off() {
            lane.switch(!claims.is_off);
            let sleep = (!claims.is_off).then_some(SHORTEST_SLEEP);
            return Begun { sleep, switched: Some(!claims.is_off), ..Begun::default() };
        }
        if lane.is_reported() && !claims.is_paused && claims.claimed.is_empty() {
            // The operator wants it tried at once.
            lane.switch(true);
            return Begun { sleep: Some(SHORTEST_SLEEP), ..Begun::default() };
        }
        lane.note(claims.is_paused);
        for claimed in &claims.claimed {
            lane.begin(claimed.again);
            self.under_way.push(claimed.lease.clone());
        }
        let room = lane.room(elapsed);
        let until = |due: Option<Timestamp>, places: usize| {
            let due = due.filter(|_| places > 0)?;
            Some(Duration::try_from(due.duration_since(now)).unwrap_or_default().max(SHORTEST_SLEEP))
        };
        let pause = lane.wakes_at(elapsed).map(|at| at.saturating_sub(elapsed));
        let next = claims.next;
        let sleep =
            [until(next.first, room.any), until(next.again, room.again), pause].into_iter().flatten().min();
        Begun { claimed: claims.claimed, sleep, switched: None }
    }

    /// Frees the place of an attempt that has ended and was recorded.
    pub fn end(
        &mut self,
        post: usize,
        lease: &Lease,
        again: bool,
        outcome: &Outcome,
        elapsed: Duration,
    ) -> Turn {
        self.under_way.retain(|other| other != lease);
        self.posts[post].1.end(again, outcome, elapsed)
    }
}

/// One channel's places and health.
#[derive(Debug)]
pub struct Lane {
    places: usize,
    first: usize,
    again: usize,
    /// How many attempts have ever begun.
    begun: usize,
    /// Failures in a row that were the channel's own.
    failures: u32,
    health: Health,
    /// How long to wait after a delivery has arrived before the next one, and until when that is. Zero without recent refusals for now.
    gap: Duration,
    gap_ends: Duration,
    /// Whether another process has noted that it is paused, and we find that it works.
    is_paused_elsewhere: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Well,
    Paused(Pause),
    Off,
}

/// Nothing begins before `until`, and then only probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    since: Duration,
    until: Duration,
    /// How long it is by itself; the next one follows from this.
    length: Duration,
    /// What it is for: [`Cause::Channel`], [`Cause::Unclear`] or [`Cause::Deferred`].
    cause: Cause,
    /// How many attempts may begin before the next pause.
    probes: usize,
    /// Whether the operator is told. A short pause after a refusal for now is nothing to report.
    is_reported: bool,
}

impl Pause {
    /// The pause that follows a failure: the first one, or the one after `last`.
    fn after(last: Option<Pause>, cause: Cause, asked: Option<Duration>, now: Duration) -> Pause {
        let (first, longest, longest_respite, probes) = match cause {
            Cause::Deferred => (FIRST_DEFERRAL, LONGEST_DEFERRAL, LONGEST_RESPITE, PROBES),
            Cause::Unclear => (FIRST_PAUSE, FIRST_PAUSE, LONGEST_UNCLEAR_RESPITE, PROBES),
            _ => (FIRST_PAUSE, LONGEST_PAUSE, LONGEST_RESPITE, 1),
        };
        let same = last.filter(|last| last.cause == cause && asked.is_none());
        let length = same.map_or(first, |last| (last.length * 2).min(longest));
        let is_reported = last.is_some_and(|last| last.is_reported)
            || asked.is_some()
            || cause != Cause::Deferred
            || length == longest;
        Pause {
            since: last.map_or(now, |last| last.since),
            until: now + asked.map_or(length, |asked| asked.min(longest_respite)),
            length,
            cause,
            probes,
            is_reported,
        }
    }
}

impl Lane {
    /// A channel that is believed to work, with room for `places` deliveries at a time.
    pub fn new(places: usize) -> Lane {
        Lane {
            places: places.max(1),
            first: 0,
            again: 0,
            begun: 0,
            failures: 0,
            health: Health::Well,
            gap: Duration::ZERO,
            gap_ends: Duration::ZERO,
            is_paused_elsewhere: false,
        }
    }

    /// How many deliveries may begin now.
    pub fn room(&self, now: Duration) -> Room {
        let under_way = self.first + self.again;
        match self.health {
            Health::Off => Room::default(),
            Health::Paused(pause) if now < pause.until => Room::default(),
            Health::Paused(pause) => {
                let places = if pause.cause == Cause::Unclear { self.places } else { 1 };
                let probes = places.saturating_sub(under_way).min(pause.probes);
                Room { any: probes, again: probes }
            }
            Health::Well => {
                let places = if self.gap.is_zero() { self.places } else { usize::from(now >= self.gap_ends) };
                let any = places.saturating_sub(under_way);
                Room { any, again: any.min(self.places.div_ceil(2).saturating_sub(self.again)) }
            }
        }
    }

    /// When there will be room without anything coming to its end, if that is a matter of time.
    pub fn wakes_at(&self, now: Duration) -> Option<Duration> {
        match self.health {
            Health::Paused(Pause { until, cause, .. })
                if until > now && (cause == Cause::Unclear || self.first + self.again == 0) =>
            {
                Some(until)
            }
            Health::Well if !self.gap.is_zero() && self.gap_ends > now && self.first + self.again == 0 => {
                Some(self.gap_ends)
            }
            _ => None,
        }
    }

    /// Whether it is paused and the operator was told.
    pub fn is_reported(&self) -> bool {
        matches!(self.health, Health::Paused(Pause { is_reported: true, .. }))
    }

    /// Whether it is switched off.
    pub fn is_off(&self) -> bool {
        self.health == Health::Off
    }

    /// Switches it off, or believes in it again.
    pub fn switch(&mut self, on: bool) {
        self.health = if on { Health::Well } else { Health::Off };
        self.failures = 0;
        self.gap = Duration::ZERO;
    }

    /// Takes note of what the store has noted of the channel: that it is paused. Where we know nothing of that, another process has noted it, which
    /// may have ended since.
    fn note(&mut self, is_paused: bool) {
        self.is_paused_elsewhere = is_paused && !self.is_reported() && !self.is_off();
    }

    /// A delivery is under way from now on: its first attempt since it was queued, or a repeated one.
    pub fn begin(&mut self, again: bool) {
        *(if again { &mut self.again } else { &mut self.first }) += 1;
        self.begun = self.begun.wrapping_add(1);
        if let Health::Paused(pause) = &mut self.health {
            pause.probes = pause.probes.saturating_sub(1);
        }
    }

    /// A delivery that had begun is under way no longer, with this outcome.
    pub fn end(&mut self, again: bool, outcome: &Outcome, now: Duration) -> Turn {
        let count = if again { &mut self.again } else { &mut self.first };
        *count = count.saturating_sub(1);
        let (cause, asked) = match outcome {
            Outcome::Delivered(_) => (None, None),
            Outcome::Failed(failure) => (Some(failure.cause), failure.retry_after),
        };
        match cause {
            _ if self.is_off() => Turn::None,
            Some(Cause::Gone) => {
                self.switch(false);
                Turn::Off
            }
            Some(cause @ (Cause::Channel | Cause::Unclear | Cause::Deferred)) => self.fail(cause, asked, now),
            // Delivered, or refused by a channel that works.
            Some(Cause::Notice | Cause::Refused) => self.succeed(false, now),
            None => self.succeed(true, now),
        }
    }

    /// An attempt has failed, and perhaps the channel is the reason.
    fn fail(&mut self, cause: Cause, asked: Option<Duration>, now: Duration) -> Turn {
        let last = match self.health {
            Health::Paused(last) => Some(last),
            _ => None,
        };
        let is_next = match last {
            None => {
                self.failures += 1;
                asked.is_some() || cause == Cause::Deferred || self.failures >= TRIP_AFTER
            }
            // A sender's content may be the reason: the other probes decide.
            Some(last) if cause == Cause::Unclear => now >= last.until && last.probes == 0,
            // What was under way when the channel was paused says nothing new, unless the other side asks for time.
            Some(last) => {
                asked.is_some() || now >= last.until && (last.probes == 0 || cause == Cause::Channel)
            }
        };
        if !is_next {
            return Turn::None;
        }
        if cause == Cause::Deferred {
            self.gap = FIRST_DEFERRAL;
        }
        let pause = Pause::after(last, cause, asked, now);
        self.health = Health::Paused(pause);
        let was_reported = last.is_some_and(|last| last.is_reported);
        if pause.is_reported && !was_reported { Turn::Paused } else { Turn::None }
    }

    /// The other side has taken a delivery, or refused just this one.
    fn succeed(&mut self, is_delivered: bool, now: Duration) -> Turn {
        self.failures = 0;
        if is_delivered {
            self.gap = self.gap * 7 / 8;
            if self.gap < SHORTEST_GAP {
                self.gap = Duration::ZERO;
            }
            self.gap_ends = now + self.gap;
        }
        let health = std::mem::replace(&mut self.health, Health::Well);
        if let Health::Paused(Pause { since, is_reported: true, .. }) = health {
            return Turn::Resumed { after_outage: now.saturating_sub(since) >= SHORTEST_OUTAGE };
        }
        if is_delivered && self.is_paused_elsewhere {
            self.is_paused_elsewhere = false;
            return Turn::Resumed { after_outage: true };
        }
        Turn::None
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::submission::delivery::Next;
    use crate::submission::outcome::Failure;
    use crate::submission::{Status, Submission};

    const START: Duration = Duration::ZERO;
    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn a_channel_that_another_process_had_paused_and_that_works_is_resumed() {
        let mut lane = Lane::new(2);
        let delivered = Outcome::delivered("250");
        lane.note(true);
        assert_eq!(lane.end(false, &delivered, START), Turn::Resumed { after_outage: true });
        assert_eq!(lane.end(false, &delivered, START), Turn::None);
        lane.note(true);
        lane.note(false);
        assert_eq!(lane.end(false, &delivered, START), Turn::None);
        // What is paused here as well is resumed by its own probes.
        for _ in 0..TRIP_AFTER {
            fail(&mut lane, Cause::Channel, START);
        }
        lane.note(true);
        assert!(lane.is_reported() && !lane.is_paused_elsewhere);
    }

    #[test]
    fn repeated_attempts_leave_half_of_the_places_to_first_ones() {
        let mut lane = Lane::new(4);
        assert_eq!(lane.room(START), Room { any: 4, again: 2 });
        lane.begin(true);
        lane.begin(true);
        assert_eq!(lane.room(START), Room { any: 2, again: 0 });
        lane.begin(false);
        lane.begin(false);
        assert_eq!(lane.room(START), Room::default());
        lane.end(false, &fine(), START);
        assert_eq!(lane.room(START), Room { any: 1, again: 0 });
        lane.end(true, &fine(), START);
        assert_eq!(lane.room(START), Room { any: 2, again: 1 });
        assert_eq!(Lane::new(1).room(START), Room { any: 1, again: 1 });
    }

    #[test]
    fn a_channel_that_fails_five_times_in_a_row_is_paused_and_probed_ever_less_often() {
        let mut lane = Lane::new(4);
        for _ in 1..TRIP_AFTER {
            assert_eq!(fail(&mut lane, Cause::Channel, START), Turn::None);
        }
        assert_eq!(fail(&mut lane, Cause::Channel, START), Turn::Paused);
        let mut now = START;
        for pause in [10, 20, 40, 60, 60] {
            assert_eq!(lane.room(now), Room::default());
            now = lane.wakes_at(now).unwrap();
            assert_eq!(lane.room(now), Room { any: 1, again: 1 });
            let began = now;
            lane.begin(true);
            assert_eq!(lane.room(now), Room::default(), "one probe at a time");
            assert_eq!(lane.wakes_at(now), None);
            assert_eq!(lane.end(true, &failed(Cause::Channel), now), Turn::None);
            assert_eq!(
                lane.wakes_at(now).map(|at| at.saturating_sub(began)),
                Some(Duration::from_secs(pause))
            );
        }
        now = lane.wakes_at(now).unwrap();
        lane.begin(true);
        assert_eq!(lane.end(true, &fine(), now), Turn::Resumed { after_outage: true });
        assert_eq!(lane.room(now), Room { any: 4, again: 2 });
    }

    #[test]
    fn only_what_is_the_channels_own_fault_pauses_it() {
        let mut lane = Lane::new(4);
        for _ in 0..20 {
            assert_eq!(fail(&mut lane, Cause::Notice, START), Turn::None);
            assert_eq!(fail(&mut lane, Cause::Refused, START), Turn::None);
        }
        for _ in 0..20 {
            for _ in 1..TRIP_AFTER {
                assert_eq!(fail(&mut lane, Cause::Channel, START), Turn::None);
            }
            lane.begin(false);
            assert_eq!(lane.end(false, &fine(), START), Turn::None);
        }
        assert!(!lane.is_reported());
    }

    #[test]
    fn what_was_under_way_when_the_pause_began_does_not_prolong_it() {
        let mut lane = Lane::new(8);
        for _ in 0..8 {
            lane.begin(false);
        }
        for _ in 0..8 {
            lane.end(false, &failed(Cause::Channel), START);
        }
        assert_eq!(lane.wakes_at(START), Some(FIRST_PAUSE));
    }

    #[test]
    fn what_was_no_outage_is_not_taken_for_one() {
        let mut lane = Lane::new(4);
        for _ in 0..TRIP_AFTER {
            fail(&mut lane, Cause::Channel, START);
        }
        let now = lane.wakes_at(START).unwrap();
        lane.begin(false);
        assert_eq!(lane.end(false, &fine(), now), Turn::Resumed { after_outage: false });
    }

    #[test]
    fn a_channel_that_asks_for_time_is_left_alone_for_as_long() {
        let mut lane = Lane::new(2);
        let asked = |seconds| {
            Outcome::Failed(Failure {
                cause: Cause::Channel,
                answer: "429".to_owned(),
                retry_after: Some(Duration::from_secs(seconds)),
            })
        };
        lane.begin(false);
        lane.begin(false);
        assert_eq!(lane.end(false, &asked(120), START), Turn::Paused);
        assert_eq!(lane.end(false, &failed(Cause::Channel), START), Turn::None);
        assert_eq!(lane.wakes_at(START), Some(Duration::from_mins(2)));
        let now = Duration::from_mins(2);
        lane.begin(true);
        assert_eq!(lane.end(true, &asked(100_000), now), Turn::None);
        assert_eq!(lane.wakes_at(now), Some(now + LONGEST_RESPITE));
    }

    #[test]
    fn errors_that_content_may_cause_pause_the_channel_for_five_seconds() {
        let mut lane = Lane::new(3);
        for _ in 1..TRIP_AFTER {
            assert_eq!(fail(&mut lane, Cause::Unclear, START), Turn::None);
        }
        assert_eq!(fail(&mut lane, Cause::Unclear, START), Turn::Paused);
        let mut now = START;
        for _ in 0..20 {
            assert_eq!(lane.room(now), Room::default());
            assert_eq!(lane.wakes_at(now), Some(now + FIRST_PAUSE));
            now += FIRST_PAUSE;
            for left in (1..=PROBES).rev() {
                let probes = left.min(3);
                assert_eq!(lane.room(now), Room { any: probes, again: probes });
                assert_eq!(fail(&mut lane, Cause::Unclear, now), Turn::None);
            }
        }
        // A probe whose answer asks for time counts as a probe, and the pause is 15 seconds at most.
        now += FIRST_PAUSE;
        for _ in 1..PROBES {
            fail(&mut lane, Cause::Unclear, now);
        }
        lane.begin(false);
        let asks = failed(Cause::Unclear).with_retry_after(Some(Duration::from_hours(1)));
        assert_eq!(lane.end(false, &asks, now), Turn::None);
        now += LONGEST_UNCLEAR_RESPITE;
        assert_eq!(lane.room(now), Room { any: 3, again: 3 });
        lane.begin(false);
        assert_eq!(lane.end(false, &fine(), now), Turn::Resumed { after_outage: true });
    }

    #[test]
    fn after_a_refusal_for_now_deliveries_go_one_at_a_time() {
        let mut lane = Lane::new(4);
        for _ in 0..3 {
            lane.begin(false);
        }
        for _ in 0..3 {
            assert_eq!(lane.end(false, &failed(Cause::Deferred), START), Turn::None, "it is not reported");
        }
        let mut now = START + FIRST_DEFERRAL;
        assert_eq!(lane.wakes_at(START), Some(now), "late refusals do not prolong it");
        assert_eq!(lane.room(now), Room { any: 1, again: 1 });
        lane.begin(false);
        assert_eq!(lane.room(now), Room::default());
        assert_eq!(lane.end(false, &fine(), now), Turn::None);
        let mut gaps = Vec::new();
        while let Some(ends) = lane.wakes_at(now) {
            assert_eq!(lane.room(now), Room::default());
            gaps.push(ends.saturating_sub(now));
            now = ends;
            assert_eq!(lane.room(now), Room { any: 1, again: 1 });
            lane.begin(false);
            lane.end(false, &fine(), now);
        }
        assert!(gaps.is_sorted_by(|a, b| a > b) && gaps.len() > 20, "{gaps:?}");
        assert_eq!(lane.room(now), Room { any: 4, again: 2 });
    }

    #[test]
    fn a_server_that_refuses_for_long_is_reported_and_left_alone_for_longer() {
        let mut lane = Lane::new(4);
        assert_eq!(fail(&mut lane, Cause::Deferred, START), Turn::None);
        let mut now = START;
        for (pause, turn) in
            [(3, Turn::None), (6, Turn::None), (12, Turn::Paused), (15, Turn::None), (15, Turn::None)]
        {
            let until = now + Duration::from_secs(pause);
            assert_eq!(lane.wakes_at(now), Some(until));
            now = until;
            for _ in 1..PROBES {
                assert_eq!(fail(&mut lane, Cause::Deferred, now), Turn::None);
                assert_eq!(lane.room(now), Room { any: 1, again: 1 });
            }
            assert_eq!(fail(&mut lane, Cause::Deferred, now), turn);
        }
        lane.begin(false);
        assert_eq!(lane.end(false, &fine(), now), Turn::Resumed { after_outage: true });
    }

    #[test]
    fn a_pause_ends_once_the_operator_has_taken_the_note_of_it_away() {
        let target = Target { name: "crm".to_owned(), leads_to: String::new() };
        let mut roster = Roster::new([(target, 4)]);
        let lane = &mut roster.posts[0].1;
        for _ in 0..TRIP_AFTER {
            fail(lane, Cause::Channel, START);
        }
        let noted = Claims { is_paused: true, ..Claims::default() };
        assert_eq!(roster.begin(0, noted, Timestamp::UNIX_EPOCH, START).sleep, Some(FIRST_PAUSE));
        assert_eq!(roster.wants(START)[0].room, Room::default());
        let sleep = roster.begin(0, Claims::default(), Timestamp::UNIX_EPOCH, START).sleep;
        assert_eq!(sleep, Some(SHORTEST_SLEEP));
        assert_eq!(roster.wants(START)[0].room, Room { any: 4, again: 2 });
    }

    #[test]
    fn a_channel_that_is_gone_stays_off_until_it_is_switched_on() {
        let mut lane = Lane::new(2);
        lane.begin(false);
        assert_eq!(fail(&mut lane, Cause::Gone, START), Turn::Off);
        assert_eq!(lane.end(false, &fine(), START), Turn::None);
        assert_eq!(lane.room(Duration::from_hours(99)), Room::default());
        assert_eq!(lane.wakes_at(START), None);
        lane.switch(true);
        assert_eq!(lane.room(START), Room { any: 2, again: 1 });
    }

    #[test]
    fn a_pause_lasts_while_anything_is_under_way_and_until_its_last_moment() {
        for under_way in [&[false][..], &[true], &[false, true]] {
            let mut lane = Lane::new(4);
            for again in under_way {
                lane.begin(*again);
            }
            for _ in 0..TRIP_AFTER {
                fail(&mut lane, Cause::Channel, START);
            }
            assert_eq!(lane.wakes_at(START), None, "{under_way:?}");
            assert_eq!(lane.room(FIRST_PAUSE), Room::default(), "{under_way:?}");
            for again in under_way {
                lane.end(*again, &failed(Cause::Channel), START);
            }
            assert_eq!(lane.wakes_at(START), Some(FIRST_PAUSE), "{under_way:?}");
            assert_eq!(lane.wakes_at(FIRST_PAUSE), None, "it is a matter of time no more");
            assert_eq!(lane.room(FIRST_PAUSE), Room { any: 1, again: 1 });
        }
    }

    #[test]
    fn an_outage_is_told_by_how_long_it_was() {
        for (seconds, after_outage) in [(29, false), (30, true), (31, true)] {
            let mut lane = Lane::new(4);
            let began = Duration::from_secs(1000);
            for _ in 0..TRIP_AFTER {
                fail(&mut lane, Cause::Channel, began);
            }
            lane.begin(false);
            let turn = lane.end(false, &fine(), began + Duration::from_secs(seconds));
            assert_eq!(turn, Turn::Resumed { after_outage }, "{seconds}");
        }
    }

    #[test]
    fn what_has_begun_is_under_way_in_its_channel_until_it_ends() {
        let mut roster = roster();
        let claims = Claims { claimed: vec![claimed(1, false), claimed(2, true)], ..Claims::default() };
        let begun = roster.begin(0, claims.clone(), NOW, START);
        assert_eq!((begun.claimed, begun.switched), (claims.claimed, None));
        assert_eq!(roster.under_way(), [claimed(1, false).lease, claimed(2, true).lease]);
        assert_eq!(rooms(&roster), [Room { any: 2, again: 1 }, Room { any: 1, again: 1 }]);
        assert_eq!(roster.target(1).name, "mail");
        assert_eq!(roster.end(0, &claimed(1, false).lease, false, &fine(), START), Turn::None);
        assert_eq!(roster.under_way(), [claimed(2, true).lease]);
        assert_eq!(rooms(&roster), [Room { any: 3, again: 1 }, Room { any: 1, again: 1 }]);
    }

    #[test]
    fn the_store_is_asked_now_and_then_while_there_is_room_nowhere() {
        let mut roster = roster();
        assert_eq!(roster.rest(START, START), None, "there is room");
        roster.posts[0].1.switch(false);
        assert_eq!(roster.rest(START, START), None, "there is room in one of them");
        roster.posts[1].1.begin(false);
        assert_eq!(roster.rest(START, START), Some(ASK_EVERY));
        assert_eq!(roster.rest(START, ASK_EVERY / 5), Some(ASK_EVERY / 5 * 4));
        assert_eq!(roster.rest(START, ASK_EVERY), None);
        assert_eq!(roster.rest(START, ASK_EVERY * 9), None);
        let paused = &mut roster.posts[1].1;
        paused.end(false, &Outcome::Delivered(String::new()), START);
        paused.health = Health::Paused(Pause::after(None, Cause::Channel, None, START));
        assert_eq!(roster.rest(START, START), Some(ASK_EVERY));
        let soon = FIRST_PAUSE.saturating_sub(ASK_EVERY / 2);
        assert_eq!(roster.rest(soon, START), Some(ASK_EVERY / 2), "a pause ends when it ends");
        assert_eq!(roster.rest(FIRST_PAUSE, START), None);
    }

    #[test]
    fn a_channel_that_was_switched_elsewhere_is_told_once() {
        let mut roster = roster();
        let off = || Claims { is_off: true, ..Claims::default() };
        let begun = roster.begin(0, off(), NOW, START);
        assert_eq!((begun.switched, begun.sleep), (Some(false), None));
        assert_eq!(rooms(&roster)[0], Room::default());
        let begun = roster.begin(0, off(), NOW, START);
        assert_eq!((begun.switched, begun.sleep), (None, None));
        let begun = roster.begin(0, Claims::default(), NOW, START);
        assert_eq!((begun.switched, begun.sleep), (Some(true), Some(SHORTEST_SLEEP)));
        assert_eq!(rooms(&roster)[0], Room { any: 4, again: 2 });
        let begun = roster.begin(0, Claims::default(), NOW, START);
        assert_eq!((begun.switched, begun.sleep), (None, None));
    }

    #[test]
    fn it_sleeps_until_something_is_due_for_which_there_is_room() {
        let at = |milliseconds| Some(Timestamp::from_millisecond(milliseconds).unwrap());
        let check = |under_way: &[bool], first, again, expected: Option<u64>| {
            let claimed = (1..).zip(under_way).map(|(n, again)| claimed(n, *again)).collect();
            let claims = Claims { claimed, next: Next { first, again }, ..Claims::default() };
            let sleep = roster().begin(0, claims, NOW, START).sleep;
            assert_eq!(sleep, expected.map(Duration::from_millis), "{under_way:?} {first:?} {again:?}");
        };
        check(&[], None, None, None);
        check(&[], at(60_000), at(30_000), Some(30_000));
        check(&[], at(20_000), at(30_000), Some(20_000));
        check(&[true, true], at(60_000), at(30_000), Some(60_000));
        check(&[true, true], None, at(30_000), None);
        check(&[false; 4], at(60_000), at(30_000), None);
        // What is overdue has just failed to be claimed.
        check(&[], at(-1), None, Some(50));
        check(&[], at(49), None, Some(50));
        check(&[], at(51), None, Some(51));
    }

    #[test]
    fn a_paused_channel_sleeps_for_what_is_left_of_the_pause_however_much_is_due() {
        let mut roster = roster();
        for _ in 0..TRIP_AFTER {
            fail(&mut roster.posts[0].1, Cause::Channel, START);
        }
        let noted = Claims {
            is_paused: true,
            next: Next { first: Some(NOW), again: Some(NOW) },
            ..Claims::default()
        };
        let later = Duration::from_secs(2);
        let begun = roster.begin(0, noted, NOW, later);
        assert_eq!(begun.sleep, Some(FIRST_PAUSE.saturating_sub(later)));
        // What the store had claimed before it heard of the pause is sent all the same, and ends no pause.
        let claims = Claims { claimed: vec![claimed(1, false)], ..Claims::default() };
        assert_eq!(roster.begin(0, claims, NOW, later).claimed, [claimed(1, false)]);
        assert!(roster.posts[0].1.is_reported());
    }

    fn roster() -> Roster {
        let channel = |name: &str| Target { name: name.to_owned(), leads_to: String::new() };
        Roster::new([(channel("crm"), 4), (channel("mail"), 1)])
    }

    fn rooms(roster: &Roster) -> Vec<Room> {
        roster.wants(START).into_iter().map(|want| want.room).collect()
    }

    fn claimed(n: u8, again: bool) -> Claimed {
        let id = Uuid::from_u128(n.into());
        let submission = Submission {
            id,
            form: "contact".to_owned(),
            received_at: NOW,
            status: Status::Waiting,
            held: None,
            screening: None,
            released_at: None,
            error: None,
            agent: None,
            fields: Vec::new(),
            sealed: None,
            source: String::new(),
            repeats: 0,
        };
        let lease = Lease { submission: id, channel: "crm".to_owned(), number: 1 };
        Claimed { lease, submission, failures: u32::from(again), again }
    }

    fn fail(lane: &mut Lane, cause: Cause, now: Duration) -> Turn {
        lane.begin(false);
        lane.end(false, &failed(cause), now)
    }

    fn fine() -> Outcome {
        Outcome::delivered("fine")
    }

    fn failed(cause: Cause) -> Outcome {
        Outcome::failed(cause, "no")
    }
}
