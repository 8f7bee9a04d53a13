//! What is under way in which channel, how much more may be, and whether a channel is tried at all: a state machine without
//! clock, database or network.
//!
//! A channel has a number of places. At most half of them, rounded up, go to repeated attempts, so that what fails slowly again
//! and again leaves room for what has just come. A channel that fails [`TRIP_AFTER`] times in a row through its own fault is
//! paused: no attempt is wasted on it but a probe, at growing intervals, until one gets through. So is one that asks for time.
//!
//! Time is what has passed since the start, by a clock that never jumps.

use std::time::Duration;

use jiff::Timestamp;

use super::outcome::{Cause, Outcome};
use crate::inbox::delivery::{Claimed, Claims, Lease, Room, Target, Want};

/// This many failures in a row, each the channel's own, pause it.
pub const TRIP_AFTER: u32 = 5;
/// How long the first pause is; each probe that fails doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// No pause is longer, unless the other side asks for it.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// What works again before this has had no outage.
const SHORTEST_OUTAGE: Duration = Duration::from_secs(30);
/// The longest that a whole channel is left alone because the other side asked for time over one delivery.
const LONGEST_RESPITE: Duration = Duration::from_hours(1);

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
        if lane.is_paused() && !claims.is_paused && claims.claimed.is_empty() {
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
    /// Whether another process has noted that it is paused, and we find that it works.
    is_paused_elsewhere: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Well,
    /// Since then nothing begins before `until`, and then one at a time.
    Paused {
        since: Duration,
        until: Duration,
        length: Duration,
    },
    Off,
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
            is_paused_elsewhere: false,
        }
    }

    /// How many deliveries may begin now.
    pub fn room(&self, now: Duration) -> Room {
        let under_way = self.first + self.again;
        match self.health {
            Health::Off => Room::default(),
            Health::Paused { until, .. } => {
                let probe = usize::from(now >= until && under_way == 0);
                Room { any: probe, again: probe }
            }
            Health::Well => {
                let any = self.places.saturating_sub(under_way);
                Room { any, again: any.min(self.places.div_ceil(2).saturating_sub(self.again)) }
            }
        }
    }

    /// When there will be room without anything coming to its end, if that is a matter of time.
    pub fn wakes_at(&self, now: Duration) -> Option<Duration> {
        match self.health {
            Health::Paused { until, .. } if until > now && self.first + self.again == 0 => Some(until),
            _ => None,
        }
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        matches!(self.health, Health::Paused { .. })
    }

    /// Whether it is switched off.
    pub fn is_off(&self) -> bool {
        self.health == Health::Off
    }

    /// Switches it off, or believes in it again.
    pub fn switch(&mut self, on: bool) {
        self.health = if on { Health::Well } else { Health::Off };
        self.failures = 0;
    }

    /// Takes note of what the store has noted of the channel: that it is paused. Where we know nothing of that, another process has noted it, which
    /// may have ended since.
    fn note(&mut self, is_paused: bool) {
        self.is_paused_elsewhere = is_paused && self.health == Health::Well;
    }

    /// A delivery is under way from now on: its first attempt since it was queued, or a repeated one.
    pub fn begin(&mut self, again: bool) {
        *(if again { &mut self.again } else { &mut self.first }) += 1;
        self.begun = self.begun.wrapping_add(1);
    }

    /// A delivery that had begun is under way no longer, with this outcome.
    pub fn end(&mut self, again: bool, outcome: &Outcome, now: Duration) -> Turn {
        let count = if again { &mut self.again } else { &mut self.first };
        *count = count.saturating_sub(1);
        let (cause, asked) = match outcome {
            Outcome::Delivered(_) => (None, None),
            Outcome::Failed(failure) => (Some(failure.cause), failure.retry_after),
        };
        match (self.health, cause) {
            (Health::Off, _) => Turn::None,
            (_, Some(Cause::Gone)) => {
                self.switch(false);
                Turn::Off
            }
            (Health::Well, Some(Cause::Channel)) => {
                self.failures += 1;
                match asked {
                    Some(asked) => self.pause(now, now, asked.min(LONGEST_RESPITE), FIRST_PAUSE),
                    None if self.failures < TRIP_AFTER => return Turn::None,
                    None => self.pause(now, now, FIRST_PAUSE, FIRST_PAUSE),
                }
                Turn::Paused
            }
            // What was under way when the channel was paused says nothing new, unless it asks for time; a probe does.
            (Health::Paused { since, until, length }, Some(Cause::Channel)) => {
                match asked {
                    Some(asked) => self.pause(since, now, asked.min(LONGEST_RESPITE), FIRST_PAUSE),
                    None if now < until => {}
                    None => {
                        let length = (length * 2).min(LONGEST_PAUSE);
                        self.pause(since, now, length, length);
                    }
                }
                Turn::None
            }
            (Health::Well, None) if self.is_paused_elsewhere => {
                self.failures = 0;
                self.is_paused_elsewhere = false;
                Turn::Resumed { after_outage: true }
            }
            // Delivered, or refused by a channel that works.
            (Health::Well, None | Some(Cause::Notice | Cause::Refused)) => {
                self.failures = 0;
                Turn::None
            }
            (Health::Paused { since, .. }, None | Some(Cause::Notice | Cause::Refused)) => {
                self.switch(true);
                Turn::Resumed { after_outage: now.saturating_sub(since) >= SHORTEST_OUTAGE }
            }
        }
    }

    /// Has nothing begin for so long from `now` on; `length` is what the next pause follows from.
    fn pause(&mut self, since: Duration, now: Duration, wait: Duration, length: Duration) {
        self.health = Health::Paused { since, until: now + wait, length };
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::inbox::deliver::outcome::Failure;
    use crate::inbox::delivery::Next;
    use crate::inbox::submission::{Status, Submission};

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
        assert!(lane.is_paused() && !lane.is_paused_elsewhere);
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
        assert!(!lane.is_paused());
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
        assert_eq!(lane.wakes_at(now), Some(now + Duration::from_hours(1)));
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
        paused.pause(START, START, FIRST_PAUSE, FIRST_PAUSE);
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
        assert!(roster.posts[0].1.is_paused());
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
