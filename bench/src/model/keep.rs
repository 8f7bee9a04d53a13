//! Submissions through several desks into one PostgreSQL: an event after the other.
//!
//! A submission takes a desk's processor, asks Redis, and waits for its desk's writer, which takes everything that waits when its last batch is
//! kept. A batch takes one of PostgreSQL's processors, and is then synced together with whatever else waits for the disk. Times are seconds.

use std::collections::BTreeMap;

use super::queue::{Servers, percentile};
use super::random::Random;

/// What things take.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// A desk's processor, for each submission.
    pub desk: f64,
    /// A desk's processor, for each batch.
    pub desk_batch: f64,
    /// Redis, for each submission.
    pub redis: f64,
    /// One of PostgreSQL's processors, for each submission.
    pub postgres: f64,
    /// One of PostgreSQL's processors, for each batch.
    pub postgres_batch: f64,
    /// The disk, for whatever is synced together.
    pub sync: f64,
    /// What a batch waits for beside all of that: messages on their way, threads that wake.
    pub wait: f64,
}

/// Who is there.
#[derive(Debug, Clone, Copy)]
pub struct System {
    /// How many desks.
    pub desks: usize,
    /// Processors of each.
    pub desk_cores: usize,
    /// Processors of PostgreSQL's machine.
    pub postgres_cores: usize,
    /// A round trip between two of the machines.
    pub round_trip: f64,
    /// How much longer a commit takes because a standby confirms it.
    pub standby: f64,
    /// What things take.
    pub costs: Costs,
}

/// Two exchanges with PostgreSQL make a batch.
const EXCHANGES: f64 = 2.0;

/// Submissions a second at which each part has no time left, by its name. Batches are then as long as they like, so that only what each
/// submission takes counts.
pub fn saturation(system: &System) -> [(&'static str, f64); 3] {
    let costs = &system.costs;
    // A desk has one writer, and that has one connection: one processor of PostgreSQL's at a time.
    let processors = system.desks.min(system.postgres_cores) as f64;
    [
        ("desks", (system.desks * system.desk_cores) as f64 / costs.desk),
        ("Redis", 1.0 / costs.redis),
        ("PostgreSQL", processors / costs.postgres),
    ]
}

/// What was seen.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The share of their time in which these were busy.
    pub desk: f64,
    /// Likewise.
    pub redis: f64,
    /// Likewise.
    pub postgres: f64,
    /// Likewise, of the disk that syncs.
    pub disk: f64,
    /// How many submissions a batch had.
    pub batch: f64,
    /// How many batches the disk synced together.
    pub together: f64,
    /// How long each has waited for its answer, in ascending order.
    responses: Vec<f64>,
}

impl Seen {
    /// The time that `share` of them did not exceed.
    pub fn percentile(&self, share: f64) -> f64 {
        percentile(&self.responses, share)
    }
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// Another submission comes.
    Arrival,
    /// A desk has read one that came then.
    Read { desk: usize, came: f64 },
    /// Redis has allowed it.
    Allowed { desk: usize, came: f64 },
    /// A desk's batch is with PostgreSQL.
    Asked { desk: usize },
    /// It is executed, and to be synced.
    Executed { desk: usize },
    /// A sync is done.
    Synced,
    /// A desk's batch is kept.
    Kept { desk: usize },
}

/// A desk.
#[derive(Debug)]
struct Desk {
    cores: Servers,
    /// When those came who wait for the writer.
    waiting: Vec<f64>,
    /// When those came whose batch is under way; empty while the writer has none.
    batch: Vec<f64>,
}

#[derive(Debug)]
struct World<'a> {
    system: &'a System,
    /// By the bits of their times, which have the order of the times because none is negative, and by the order in which they were planned.
    events: BTreeMap<(u64, u64), What>,
    planned: u64,
    desks: Vec<Desk>,
    redis: Servers,
    postgres: Servers,
    /// Desks whose batches wait for the disk, and those that are being synced.
    unsynced: Vec<usize>,
    syncing: Vec<usize>,
    syncs: u64,
    batches: u64,
}

/// `count` submissions come at random, `rate` a second on the average, and all of them are kept in the end.
pub fn simulate(system: &System, rate: f64, count: usize, seed: u64) -> Seen {
    let mut random = Random::seeded(seed);
    let desk = || Desk { cores: Servers::new(system.desk_cores), waiting: Vec::new(), batch: Vec::new() };
    let mut world = World {
        system,
        events: BTreeMap::new(),
        planned: 0,
        desks: (0..system.desks.max(1)).map(|_| desk()).collect(),
        redis: Servers::new(1),
        postgres: Servers::new(system.postgres_cores),
        unsynced: Vec::new(),
        syncing: Vec::new(),
        syncs: 0,
        batches: 0,
    };
    let costs = system.costs;
    let (mut come, mut kept, mut now) = (0, 0, 0.0);
    let mut responses = Vec::with_capacity(count);
    world.plan(random.exponential(1.0 / rate), What::Arrival);
    while let Some(((at, _), what)) = world.events.pop_first() {
        now = f64::from_bits(at);
        match what {
            What::Arrival => {
                come += 1;
                if come < count {
                    world.plan(now + random.exponential(1.0 / rate), What::Arrival);
                }
                let desk = random.one_of(world.desks.len());
                let read = world.desks[desk].cores.serve(now, costs.desk, 0.0);
                world.plan(read, What::Read { desk, came: now });
            }
            What::Read { desk, came } => {
                let decided = world.redis.serve(now, costs.redis, 0.0);
                world.plan(decided + system.round_trip, What::Allowed { desk, came });
            }
            What::Allowed { desk, came } => {
                world.desks[desk].waiting.push(came);
                world.begin(desk, now);
            }
            What::Asked { desk } => {
                let rows = world.desks[desk].batch.len() as f64;
                let done = world.postgres.serve(now, costs.postgres_batch + rows * costs.postgres, 0.0);
                world.plan(done, What::Executed { desk });
            }
            What::Executed { desk } => {
                world.unsynced.push(desk);
                world.sync(now);
            }
            What::Synced => {
                for desk in std::mem::take(&mut world.syncing) {
                    world.plan(now + system.standby + costs.wait, What::Kept { desk });
                }
                world.sync(now);
            }
            What::Kept { desk } => {
                for came in std::mem::take(&mut world.desks[desk].batch) {
                    // Those who come at the beginning find everything empty.
                    kept += 1;
                    if kept > count / 10 {
                        responses.push(now - came);
                    }
                }
                world.begin(desk, now);
            }
        }
    }
    responses.sort_by(f64::total_cmp);
    let desks = world.desks.iter().map(|desk| desk.cores.utilisation(now)).sum::<f64>();
    Seen {
        desk: desks / world.desks.len() as f64,
        redis: world.redis.utilisation(now),
        postgres: world.postgres.utilisation(now),
        disk: world.syncs as f64 * costs.sync / now,
        batch: kept as f64 / world.batches as f64,
        together: world.batches as f64 / world.syncs as f64,
        responses,
    }
}

impl World<'_> {
    fn plan(&mut self, at: f64, what: What) {
        self.planned += 1;
        self.events.insert((at.to_bits(), self.planned), what);
    }

    /// The writer takes what waits, unless it has a batch under way.
    fn begin(&mut self, number: usize, now: f64) {
        let desk = &mut self.desks[number];
        if desk.waiting.is_empty() || !desk.batch.is_empty() {
            return;
        }
        std::mem::swap(&mut desk.waiting, &mut desk.batch);
        self.batches += 1;
        let sent = desk.cores.interrupt(now, self.system.costs.desk_batch);
        self.plan(sent + EXCHANGES * self.system.round_trip, What::Asked { desk: number });
    }

    /// The disk syncs what waits, unless it is at it.
    fn sync(&mut self, now: f64) {
        if self.unsynced.is_empty() || !self.syncing.is_empty() {
            return;
        }
        std::mem::swap(&mut self.unsynced, &mut self.syncing);
        self.syncs += 1;
        self.plan(now + self.system.costs.sync, What::Synced);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Costs = Costs {
        desk: 0.0,
        desk_batch: 0.0,
        redis: 0.0,
        postgres: 0.0,
        postgres_batch: 0.0,
        sync: 0.0,
        wait: 0.0,
    };
    const ONE: System =
        System { desks: 1, desk_cores: 1, postgres_cores: 1, round_trip: 0.0, standby: 0.0, costs: NOTHING };
    const COUNT: usize = 500_000;

    #[track_caller]
    fn check(seen: f64, known: f64) {
        assert!((seen / known - 1.0).abs() < 0.03, "{seen} instead of {known}");
    }

    fn mean(seen: &Seen) -> f64 {
        seen.responses.iter().sum::<f64>() / seen.responses.len() as f64
    }

    #[test]
    fn everybody_is_answered() {
        let costs = Costs {
            desk: 0.1,
            desk_batch: 0.1,
            redis: 0.1,
            postgres: 0.1,
            postgres_batch: 0.3,
            sync: 1.0,
            wait: 0.2,
        };
        let system =
            System { desks: 3, desk_cores: 2, postgres_cores: 2, round_trip: 0.05, standby: 0.4, costs };
        for rate in [0.1, 1.0, 5.0] {
            let seen = simulate(&system, rate, 10_000, 1);
            assert_eq!(seen.responses.len(), 9_000);
            // Nobody is faster than what alone takes.
            let alone = 0.1 + 0.1 + 0.05 + 0.1 + 0.1 + 0.3 + 0.1 + 1.0 + 0.4 + 0.2;
            assert!(seen.responses[0] > alone - 1e-9, "{} is less than {alone}", seen.responses[0]);
            check(seen.redis, rate * 0.1);
            check(seen.desk, rate * (0.1 + 0.1 / seen.batch) / 6.0);
            check(seen.postgres, rate * (0.1 + 0.3 / seen.batch) / 2.0);
        }
    }

    #[test]
    fn a_batch_is_what_comes_while_the_last_one_is_kept() {
        // A batch is what comes in the time of one, which is Poisson's, or the one that ends an idle while.
        for wait in [0.5_f64, 1.0, 4.0] {
            let system = System { costs: Costs { wait, ..NOTHING }, ..ONE };
            let seen = simulate(&system, 1.0, COUNT, 2);
            check(seen.batch, wait + (-wait).exp());
        }
    }

    #[test]
    fn under_load_one_waits_for_half_of_a_batch_and_then_for_ones_own() {
        let system = System { costs: Costs { wait: 1.0, ..NOTHING }, ..ONE };
        let seen = simulate(&system, 50.0, COUNT, 3);
        check(mean(&seen), 1.5);
        check(seen.percentile(0.99), 1.99);
        check(seen.percentile(0.5), 1.5);
    }

    #[test]
    fn a_processor_that_serves_one_at_a_time_is_m_d_1() {
        // A desk's processor alone: nothing else takes any time.
        let system = System { costs: Costs { desk: 1.0, ..NOTHING }, ..ONE };
        let seen = simulate(&system, 0.8, COUNT, 4);
        check(mean(&seen), 1.0 + 0.8 / (2.0 * 0.2));
        check(seen.desk, 0.8);
    }

    #[test]
    fn desks_share_the_disk_s_syncs() {
        let costs = Costs { sync: 1.0, ..NOTHING };
        let alone = simulate(&System { costs, ..ONE }, 20.0, COUNT, 5);
        let shared = simulate(&System { desks: 8, costs, ..ONE }, 20.0, COUNT, 5);
        check(alone.together, 1.0);
        assert!(shared.together > 2.0, "{}", shared.together);
        check(shared.disk, 1.0);
    }

    #[test]
    fn what_there_is_least_of_is_saturated_first() {
        let costs = Costs { desk: 50e-6, redis: 10e-6, postgres: 100e-6, ..NOTHING };
        let parts = |desks| saturation(&System { desks, desk_cores: 2, postgres_cores: 4, costs, ..ONE });
        assert_eq!(parts(1).map(|(_, rate)| rate.round() as u64), [40_000, 100_000, 10_000]);
        assert_eq!(parts(8).map(|(_, rate)| rate.round() as u64), [320_000, 100_000, 40_000]);
    }

    #[test]
    fn beyond_saturation_the_queue_grows_and_below_it_does_not() {
        let costs = Costs { postgres: 1.0, ..NOTHING };
        let system = System { costs, ..ONE };
        let [.., (_, most)] = saturation(&system);
        let short = |rate| simulate(&system, rate, 2_000, 6).percentile(0.99);
        let long = |rate| simulate(&system, rate, 20_000, 6).percentile(0.99);
        assert!(long(most * 1.2) > 5.0 * short(most * 1.2));
        assert!(long(most * 0.7) < 3.0 * short(most * 0.7));
    }
}
