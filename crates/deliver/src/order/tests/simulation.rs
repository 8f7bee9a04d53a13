//! Simulates processing, delivery workers, retries and the database many times, with a virtual clock. Each
//! simulation can be reproduced from its seed.
//!
//! The store (in memory), the order of deliveries, the [`Dispatcher`] and the retry schedule are real. Time,
//! receivers, crashes and clock changes are simulated. `FRONTDESK_TEST_SEEDS` is the number of simulations.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use frontdesk_inbox::submission::delivery::{ChannelTarget, Claimed, DailyQuota, Route};
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome};
use frontdesk_inbox::submission::schedule;
use frontdesk_inbox::testing::inbox::Options;
use frontdesk_inbox::testing::memory::MemoryInbox;
use frontdesk_screening::verdict::ScreeningVerdict;
use jiff::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use crate::circuit_breaker::{Dispatcher, HealthChange};
use crate::order;

const LEASE: Duration = Duration::from_mins(3);
/// How long a worker waits for a peer that does not reply. Shorter than a lease, so leases need not be
/// extended.
const SILENCE: Duration = Duration::from_mins(2);
const DAY: u64 = 86_400_000;

#[test]
fn every_submission_is_delivered_or_parked_and_no_lease_is_held_twice() {
    let seeds: u64 = std::env::var("FRONTDESK_TEST_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            std::thread::spawn(move || {
                let mut total = Totals::default();
                // One database for all runs of a thread, so that its statements are compiled once.
                let mut database = Some(MemoryInbox::default());
                for seed in (thread..seeds).step_by(usize::try_from(threads).unwrap()) {
                    let empty = database.take().unwrap();
                    let life = AssertUnwindSafe(move || World::new(seed, empty).run());
                    let (totals, mut used) = std::panic::catch_unwind(life)
                        .unwrap_or_else(|_| panic!("the run with seed {seed} failed"));
                    total.add(&totals);
                    used.clear();
                    database = Some(used);
                }
                total
            })
        })
        .collect();
    let mut total = Totals::default();
    for worker in workers {
        total.add(&worker.join().unwrap());
    }
    eprintln!("{seeds} seeds: {total:?}");
    // The simulation must not succeed only because nothing happened.
    for (what, count) in [
        ("delivered", total.delivered),
        ("parked", total.parked),
        ("repeated", total.repeated),
        ("ends of processes", total.ends),
        ("pauses", total.pauses),
        ("clocks set", total.clocks_set),
        ("stalls", total.stalls),
        ("leases that ran out", total.run_out),
        ("repeats of a submission", total.repeats),
        ("held", total.held),
        ("processing that was cut off", total.cut_off),
    ] {
        assert!(count > 0, "no simulation covered this: {what}");
    }
}

#[derive(Debug, Default)]
struct Totals {
    delivered: usize,
    parked: usize,
    attempts: usize,
    repeated: usize,
    ends: usize,
    pauses: usize,
    clocks_set: usize,
    stalls: usize,
    run_out: usize,
    repeats: usize,
    held: usize,
    cut_off: usize,
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        self.delivered += other.delivered;
        self.parked += other.parked;
        self.attempts += other.attempts;
        self.repeated += other.repeated;
        self.ends += other.ends;
        self.pauses += other.pauses;
        self.clocks_set += other.clocks_set;
        self.stalls += other.stalls;
        self.run_out += other.run_out;
        self.repeats += other.repeats;
        self.held += other.held;
        self.cut_off += other.cut_off;
    }
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % below
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

/// How a channel's receiver behaves.
#[derive(Clone, Copy, Debug)]
enum Peer {
    /// Accepts everything quickly.
    Fine,
    /// Accepts four attempts in nine, on average.
    Flaky,
    /// Is unreachable from a point in time, for a duration, both in milliseconds.
    Away(u64, u64),
    /// Never replies in time, but sometimes accepts the message anyway.
    Silent,
    /// Accepts certain messages with replies that cannot be read, and all others with good ones.
    Mumbling,
    /// Asks the sender to retry later, the first few times.
    Busy,
    /// Permanently refuses certain messages, and accepts all others.
    Picky,
    /// Fails on certain messages, and accepts all others.
    Poisoned,
    /// Replies, from this time on, that it is gone.
    GoneAfter(u64),
}

/// An event of the simulation. Its key in [`World::events`] is its time, and a number that breaks ties.
#[derive(Clone, Debug)]
enum Event {
    Arrival,
    /// A worker's process processes a batch of the intake.
    Process(usize),
    /// A worker looks for work.
    Wake(usize),
    /// An attempt ends.
    End {
        worker: usize,
        life: u32,
        attempt: usize,
    },
    /// A worker's process is killed, and starts again later.
    Kill(usize),
    Start(usize),
    /// A worker's process stalls for longer than its leases last, then continues as if nothing had happened.
    Stall(usize),
    /// The wall clock is changed by this many milliseconds.
    SetClock(i64),
    /// From this time on, no submissions arrive and no process is killed.
    Calm,
}

struct Attempt {
    post: usize,
    claimed: Claimed,
    outcome: Outcome,
    /// Whether the receiver closed the connection while the worker was stalled.
    is_broken: bool,
}

struct Worker {
    /// `None` while no process is running.
    dispatcher: Option<Dispatcher>,
    /// The number of processes that have run.
    life: u32,
    started: u64,
    /// When the worker looks for work next.
    wakes_at: Option<u64>,
    /// When the worker's stall ends.
    stalled_until: u64,
    attempts: HashMap<usize, Attempt>,
}

struct World {
    dice: Dice,
    inbox: MemoryInbox,
    options: Options,
    /// Milliseconds since the simulation began; clock changes do not affect it.
    now: u64,
    /// The difference between the wall clock and `now`.
    offset: i64,
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    targets: Vec<ChannelTarget>,
    peers: Vec<Peer>,
    places: Vec<usize>,
    workers: Vec<Worker>,
    /// Whether there are two workers without a lock, so that only leases keep them apart.
    two: bool,
    arrived: Vec<Uuid>,
    /// How often each peer has accepted each submission.
    taken: HashMap<(Uuid, usize), u32>,
    /// The deliveries that are actually being sent.
    sending: BTreeSet<(Uuid, usize)>,
    /// When each delivery was first attempted.
    begun: HashMap<(Uuid, usize), u64>,
    next_attempt: usize,
    totals: Totals,
}

impl World {
    fn new(seed: u64, inbox: MemoryInbox) -> World {
        let mut dice = Dice(seed);
        let peers: Vec<Peer> = (0..=dice.roll(3))
            .map(|_| match dice.roll(10) {
                0 => Peer::Flaky,
                1 => Peer::Away(dice.roll(DAY), dice.roll(9 * DAY)),
                2 => Peer::Away(0, dice.roll(10 * 60_000)),
                3 => Peer::Silent,
                4 => Peer::Busy,
                5 => Peer::Picky,
                6 => Peer::GoneAfter(dice.roll(DAY)),
                7 => Peer::Poisoned,
                8 => Peer::Mumbling,
                _ => Peer::Fine,
            })
            .collect();
        let two = dice.one_in(4);
        let mut world = World {
            inbox,
            options: Options {
                channels: (0..peers.len())
                    .map(|n| Route {
                        // The first channel sends submissions from high-volume networks at a limited pace.
                        quota: (n == 0).then(|| DailyQuota { account: String::new(), recipients: 1 }),
                        ..Route::new(&format!("c{n}"))
                    })
                    .collect(),
                ..Options::new(std::path::Path::new("unused"))
            },
            now: 0,
            offset: 1_700_000_000_000,
            events: BTreeMap::new(),
            next_event: 0,
            targets: (0..peers.len())
                .map(|n| ChannelTarget {
                    name: format!("c{n}"),
                    destination: format!("https://{n}.example.com/"),
                })
                .collect(),
            places: peers.iter().map(|_| 1 + usize::try_from(dice.roll(4)).unwrap()).collect(),
            peers,
            workers: Vec::new(),
            two,
            arrived: Vec::new(),
            taken: HashMap::new(),
            sending: BTreeSet::new(),
            begun: HashMap::new(),
            next_attempt: 0,
            totals: Totals::default(),
            dice,
        };
        world.plan();
        world
    }

    /// Schedules all events that do not follow from other events.
    fn plan(&mut self) {
        let span = [60_000, 3_600_000, DAY][usize::try_from(self.dice.roll(3)).unwrap()];
        let mut arrivals = Vec::new();
        for _ in 0..2 + self.dice.roll(10) {
            let at = self.dice.roll(span);
            arrivals.push(at);
            self.at(at, Event::Arrival);
        }
        for worker in 0..if self.two { 2 } else { 1 } {
            self.workers.push(Worker {
                dispatcher: None,
                life: 0,
                started: 0,
                wakes_at: None,
                stalled_until: 0,
                attempts: HashMap::new(),
            });
            self.at(0, Event::Start(worker));
            for _ in 0..self.dice.roll(4) {
                let at = self.dice.roll(2 * span);
                self.at(at, Event::Kill(worker));
            }
        }
        if self.two && self.dice.one_in(2) {
            let worker = usize::try_from(self.dice.roll(2)).unwrap();
            let at = self.dice.roll(span);
            self.at(at, Event::Stall(worker));
        }
        // Change the clock only if there is a single worker: if there were two, leases could expire early,
        // and one worker would take over deliveries that the other is still sending.
        if !self.two && self.dice.one_in(3) {
            for _ in 0..=self.dice.roll(2) {
                let by =
                    i64::try_from(self.dice.roll(400 * DAY)).unwrap() - i64::try_from(200 * DAY).unwrap();
                // Prefer a time when an attempt is likely to be under way.
                let at = match self.dice.roll(3) {
                    0 => self.dice.roll(3 * DAY),
                    _ => {
                        arrivals[usize::try_from(self.dice.roll(arrivals.len() as u64)).unwrap()]
                            + self.dice.roll(2_000)
                    }
                };
                self.at(at, Event::SetClock(by));
            }
        }
        self.at(10 * DAY, Event::Calm);
    }

    fn at(&mut self, moment: u64, event: Event) {
        self.next_event += 1;
        self.events.insert((moment.max(self.now), self.next_event), event);
    }

    fn clock(&self) -> Timestamp {
        let shown = i64::try_from(self.now).unwrap() + self.offset;
        Timestamp::from_millisecond(shown).unwrap()
    }

    /// Runs the simulation. Also returns the inbox in its final state.
    fn run(mut self) -> (Totals, MemoryInbox) {
        while let Some(((moment, _), event)) = self.events.pop_first() {
            self.now = moment;
            assert!(self.now < 60 * DAY, "the run does not end");
            match event {
                Event::Arrival => self.arrive(),
                Event::Process(worker) => self.process(worker),
                Event::Wake(worker) => self.wake(worker),
                Event::End { worker, life, attempt } => self.end(worker, life, attempt),
                Event::Kill(worker) => self.kill(worker),
                Event::Start(worker) => self.start(worker),
                Event::Stall(worker) => self.stall(worker),
                Event::SetClock(by) => {
                    self.offset += by;
                    self.totals.clocks_set += 1;
                    // Workers sleep for a minute at most.
                    for worker in 0..self.workers.len() {
                        self.wake_at(worker, self.now + 60_000);
                    }
                }
                Event::Calm => {}
            }
        }
        self.check_the_end();
        (self.totals, self.inbox)
    }

    /// A submission arrives. It sometimes repeats an earlier one or is held by screening.
    fn arrive(&mut self) {
        let id = Uuid::from_u64_pair(self.now << 16 | 0x7000, self.dice.roll(u64::MAX) | 1 << 63);
        let content = [u8::try_from(self.dice.roll(30)).unwrap(); 16];
        let verdict = ScreeningVerdict { hold: self.dice.one_in(10), ..ScreeningVerdict::default() };
        self.inbox.append(id, self.clock(), content, verdict, self.targets.len());
        self.arrived.push(id);
        for worker in 0..self.workers.len() {
            let pause = self.dice.roll(100);
            self.at(self.now + pause, Event::Process(worker));
        }
    }

    /// A worker processes a batch of the intake. Sometimes its process is killed before it commits.
    fn process(&mut self, worker: usize) {
        if self.workers[worker].dispatcher.is_none() {
            return;
        }
        if self.workers[worker].stalled_until > self.now {
            self.at(self.workers[worker].stalled_until, Event::Process(worker));
            return;
        }
        let most = 1 + usize::try_from(self.dice.roll(4)).unwrap();
        let (dice, mut is_cut_off) = (&mut self.dice, false);
        let rows = self.inbox.process(&self.options, most, |rows| {
            is_cut_off = rows > 0 && dice.one_in(10);
            !is_cut_off
        });
        if is_cut_off {
            self.totals.cut_off += 1;
            self.kill(worker);
            return;
        }
        if rows == most {
            self.at(self.now + 1, Event::Process(worker));
        }
        for worker in 0..self.workers.len() {
            self.wake_at(worker, self.now);
        }
    }

    fn start(&mut self, worker: usize) {
        if self.workers[worker].dispatcher.is_some() {
            return;
        }
        let posts = self.targets.iter().cloned().zip(self.places.iter().copied());
        self.workers[worker].dispatcher = Some(Dispatcher::new(posts));
        self.workers[worker].life += 1;
        self.workers[worker].started = self.now;
        if !self.two {
            self.inbox.transaction().recover(self.clock()).unwrap();
            self.inbox.transaction().clamp_due_times(self.clock()).unwrap();
        }
        self.at(self.now, Event::Process(worker));
        self.wake_at(worker, self.now);
    }

    fn kill(&mut self, worker: usize) {
        if self.workers[worker].dispatcher.take().is_none() {
            return;
        }
        self.totals.ends += 1;
        // Receivers may have accepted messages that were being sent.
        let mut attempts: Vec<_> = self.workers[worker].attempts.drain().collect();
        attempts.sort_by_key(|(number, _)| *number);
        for (_, attempt) in attempts {
            let key = (attempt.claimed.lease.submission, attempt.post);
            if !attempt.is_broken {
                self.sending.remove(&key);
            }
            if self.dice.one_in(2) && matches!(attempt.outcome, Outcome::Delivered(_)) {
                *self.taken.entry(key).or_default() += 1;
            }
        }
        let away = self.dice.roll(10 * 60_000);
        self.at(self.now + away, Event::Start(worker));
    }

    /// Schedules a worker to look for work at `moment`, unless it is already scheduled to do so by then.
    fn wake_at(&mut self, worker: usize, moment: u64) {
        let planned = &mut self.workers[worker].wakes_at;
        if planned.is_none_or(|planned| planned > moment) {
            *planned = Some(moment);
            self.at(moment, Event::Wake(worker));
        }
    }

    fn stall(&mut self, worker: usize) {
        let until = self.now + 200_000 + self.dice.roll(1_000_000);
        self.workers[worker].stalled_until = until;
        self.totals.stalls += 1;
        let mut attempts: Vec<_> = self.workers[worker].attempts.values_mut().collect();
        attempts.sort_by_key(|attempt| (attempt.claimed.lease.submission, attempt.post));
        for attempt in attempts {
            let key = (attempt.claimed.lease.submission, attempt.post);
            self.sending.remove(&key);
            attempt.is_broken = true;
            if matches!(attempt.outcome, Outcome::Delivered(_)) && self.dice.one_in(2) {
                attempt.outcome = Outcome::failed(Cause::Channel, "it closed the connection");
                *self.taken.entry(key).or_default() += 1;
            }
        }
    }

    fn wake(&mut self, worker: usize) {
        let (clock, two, life) = (self.clock(), self.two, self.workers[worker].life);
        if self.workers[worker].wakes_at != Some(self.now) {
            return;
        }
        self.workers[worker].wakes_at = None;
        if self.workers[worker].stalled_until > self.now {
            self.wake_at(worker, self.workers[worker].stalled_until);
            return;
        }
        let elapsed = Duration::from_millis(self.now - self.workers[worker].started);
        let Some(dispatcher) = &mut self.workers[worker].dispatcher else { return };
        let (wants, under_way) = (dispatcher.claim_requests(elapsed), dispatcher.under_way.clone());
        let claims = self
            .inbox
            .transaction()
            .claim(&wants, &self.options.channels, &under_way, clock, LEASE, order::choose)
            .unwrap();
        let mut sleep: Option<Duration> = None;
        let mut begun = Vec::new();
        for (post, claims) in claims.into_iter().enumerate() {
            assert!(claims.claimed.len() <= wants[post].capacity.any, "more than the capacity");
            let more = dispatcher.begin(post, claims, clock, elapsed);
            begun.extend(more.claimed.into_iter().map(|claimed| (post, claimed)));
            sleep = [sleep, more.sleep].into_iter().flatten().min();
        }
        for (post, claimed) in begun {
            self.totals.attempts += 1;
            let key = (claimed.lease.submission, post);
            assert!(self.sending.insert(key), "two workers hold a lease at the same time");
            self.totals.repeated += usize::from(claimed.lease.number > 1);
            self.begun.entry(key).or_insert(self.now);
            let (takes, outcome) = self.answer(post, &claimed);
            assert!(takes <= SILENCE);
            let attempt = self.next_attempt;
            self.next_attempt += 1;
            self.workers[worker]
                .attempts
                .insert(attempt, Attempt { post, claimed, outcome, is_broken: false });
            let takes = u64::try_from(takes.as_millis()).unwrap();
            self.at(self.now + takes, Event::End { worker, life, attempt });
        }
        if let Some(sleep) = sleep {
            let sleep = u64::try_from(sleep.as_millis()).unwrap().max(1);
            self.wake_at(worker, self.now + sleep);
        } else if two && !self.sending.is_empty() {
            // Attempts of the other worker are taken over once their leases have expired.
            self.wake_at(worker, self.now + 60_000);
        }
    }

    /// The duration and the outcome of an attempt.
    fn answer(&mut self, post: usize, claimed: &Claimed) -> (Duration, Outcome) {
        let longest = if self.dice.one_in(6) { 115_000 } else { 2_000 };
        let soon = Duration::from_millis(1 + self.dice.roll(longest));
        let fine = || Outcome::delivered("250 taken");
        let away = || Outcome::failed(Cause::Channel, "nobody answers");
        match self.peers[post] {
            Peer::Flaky if self.dice.one_in(3) => (soon, Outcome::failed(Cause::Notification, "400")),
            Peer::Flaky if self.dice.one_in(3) => (soon, Outcome::failed(Cause::Deferred, "451")),
            Peer::Away(from, length) if (from..from + length).contains(&self.now) => (soon, away()),
            Peer::Silent => (SILENCE, away()),
            Peer::Busy if claimed.lease.number < 4 => {
                let retry_after = Some(Duration::from_secs(self.dice.roll(20_000)));
                (soon, Outcome::failed(Cause::Channel, "429").with_retry_after(retry_after))
            }
            Peer::Picky if claimed.lease.submission.as_u128() & 2 == 0 => {
                (soon, Outcome::failed(Cause::Refused, "554"))
            }
            Peer::Poisoned if claimed.lease.submission.as_u128() & 2 == 0 => {
                (soon, Outcome::failed(Cause::Unclear, "500"))
            }
            Peer::Mumbling if claimed.lease.submission.as_u128() & 2 == 0 => {
                (soon, Outcome::failed(Cause::Uncertain, "no reply after the final dot"))
            }
            Peer::GoneAfter(at) if self.now >= at => (soon, Outcome::failed(Cause::Gone, "410")),
            _ => (soon, fine()),
        }
    }

    fn end(&mut self, worker: usize, life: u32, attempt: usize) {
        if self.workers[worker].life != life {
            return;
        }
        if self.workers[worker].stalled_until > self.now {
            self.at(self.workers[worker].stalled_until, Event::End { worker, life, attempt });
            return;
        }
        let Some(Attempt { post, claimed, outcome, is_broken }) =
            self.workers[worker].attempts.remove(&attempt)
        else {
            return;
        };
        let clock = self.clock();
        let id = claimed.lease.submission;
        if !is_broken {
            self.sending.remove(&(id, post));
        }
        if matches!(outcome, Outcome::Delivered(_))
            || matches!(self.peers[post], Peer::Mumbling)
            || matches!(self.peers[post], Peer::Silent) && self.dice.one_in(4)
        {
            *self.taken.entry((id, post)).or_default() += 1;
        }
        let verdict = schedule::next_step(&outcome, id, claimed.failures, claimed.uncertain, clock);
        self.inbox.transaction().record(&claimed.lease, &outcome, verdict, clock).unwrap();
        let elapsed = Duration::from_millis(self.now - self.workers[worker].started);
        let dispatcher = self.workers[worker].dispatcher.as_mut().unwrap();
        let target = dispatcher.target(post).clone();
        match dispatcher.end(post, &claimed.lease, claimed.is_retry, &outcome, elapsed) {
            HealthChange::None => {}
            HealthChange::Paused => {
                self.totals.pauses += 1;
                self.inbox.transaction().pause(&target.name, "away", clock).unwrap();
            }
            HealthChange::Resumed { after_outage } => {
                self.inbox.resume(&target.name, after_outage, clock);
            }
            HealthChange::Accepting => {
                let tx = self.inbox.transaction();
                tx.bring_deferred_forward(&target.name, clock).unwrap();
            }
            HealthChange::Off => {
                self.inbox.transaction().switch_off(&target, "410", clock).unwrap();
            }
        }
        self.wake_at(worker, self.now);
    }

    #[expect(clippy::too_many_lines, reason = "one sequence of steps")]
    fn check_the_end(&mut self) {
        let count = |sql: &str| -> usize {
            let count: i64 = self.inbox.database.query_row(sql, [], |row| row.get(0)).unwrap();
            usize::try_from(count).unwrap()
        };
        assert_eq!(count("SELECT count(*) FROM intake"), 0, "a submission was never processed");
        self.totals.repeats = count("SELECT coalesce(sum(repeats), 0) FROM submission");
        let submissions: BTreeSet<Uuid> = {
            let mut select = self.inbox.database.prepare("SELECT id FROM submission").unwrap();
            let rows = select.query_map([], |row| row.get(0).map(Uuid::from_bytes)).unwrap();
            rows.map(Result::unwrap).collect()
        };
        let accounted = submissions.len() + self.totals.repeats;
        assert_eq!(
            accounted,
            self.arrived.len(),
            "each arrival is a submission or is counted as a repeat, exactly once"
        );
        let ends = u32::try_from(self.totals.ends + self.totals.stalls).unwrap();
        for id in self.arrived.iter().filter(|id| submissions.contains(id)) {
            for (post, target) in self.targets.iter().enumerate() {
                let (state, failures, interrupted, attempts): (String, u32, u32, u32) = self
                    .inbox
                    .database
                    .query_row(
                        "SELECT state, failures, interrupted, attempts FROM delivery WHERE submission = ?1 AND channel = ?2",
                        params![id.as_bytes(), target.name],
                        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
                    )
                    .unwrap();
                let taken = self.taken.get(&(*id, post)).copied().unwrap_or_default();
                let peer = self.peers[post];
                match state.as_str() {
                    "delivered" => {
                        self.totals.delivered += 1;
                        assert!(taken >= 1, "delivered, but never accepted");
                        assert!(
                            taken <= 1 + ends,
                            "accepted {taken} times by {peer:?}, with {ends} process ends"
                        );
                    }
                    "parked" => {
                        self.totals.parked += 1;
                        let justified = match peer {
                            Peer::GoneAfter(_) => true,
                            Peer::Picky => attempts > 0,
                            Peer::Mumbling => {
                                assert!(
                                    (2..=2 + ends).contains(&taken),
                                    "{taken} copies by a peer that mumbles, with {ends} process ends"
                                );
                                true
                            }
                            _ => failures >= 10,
                        };
                        assert!(
                            justified,
                            "parked by {peer:?} after {failures} failures, {interrupted} interruptions"
                        );
                        // A delivery that is brought forward repeatedly is parked earlier.
                        let is_brought_forward = matches!(peer, Peer::Poisoned);
                        if failures >= 10 && self.totals.clocks_set == 0 && !is_brought_forward {
                            let tried = self.now - self.begun[&(*id, post)];
                            assert!(tried >= 28 * DAY / 10, "parked after {} h", tried / 3_600_000);
                        }
                    }
                    "held" => {
                        self.totals.held += 1;
                        assert_eq!((attempts, taken), (0, 0), "held, but attempted");
                    }
                    state => panic!("{state} at the end, by {peer:?}"),
                }
            }
        }
        let unended: usize = self
            .inbox
            .database
            .query_row(
                "SELECT count(*) FROM attempt a JOIN delivery d USING (submission, channel)
                 WHERE a.ended_at IS NULL AND a.number < d.attempts",
                [],
                |row| row.get::<_, i64>(0),
            )
            .map(|count| usize::try_from(count).unwrap())
            .unwrap();
        if self.two {
            self.totals.run_out += unended;
        }
    }
}
