//! Discrete-event simulation of submissions that several replicas store in one PostgreSQL database.
//!
//! A replica spends CPU time on each submission, checks the limits in Redis, and queues the submission for
//! its writer. Once the previous batch is committed, the writer takes all waiting submissions as the next
//! batch. A batch occupies one of PostgreSQL's cores, and is then synced together with all other batches that
//! are waiting for the disk. All times are in the same unit, which is microseconds for the tables.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::queue::ServerPool;
use crate::random::Random;

/// CPU and waiting times of the system's parts, in microseconds in the stored figures. `replica`, `redis` and
/// `postgres` are CPU times for each submission, and those with `_batch` for each batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    pub replica: f64,
    pub replica_batch: f64,
    pub redis: f64,
    pub postgres: f64,
    pub postgres_batch: f64,
    /// Duration of a sync, which covers all batches that are synced together.
    pub sync: f64,
    /// Remaining latency of a batch: messages and thread wake-ups.
    pub wait: f64,
}

/// The simulated machines. Times are in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct System {
    pub replicas: usize,
    pub replica_cores: usize,
    pub postgres_cores: usize,
    /// Network round trip between two machines.
    pub round_trip: f64,
    /// Additional time until the standby confirms a commit.
    pub standby: f64,
    pub costs: Costs,
}

/// Number of network round trips to PostgreSQL for each batch.
const EXCHANGES: f64 = 2.0;

/// The rates at which the replicas, Redis and PostgreSQL saturate. Batches are then too large for their fixed
/// cost to matter.
pub fn saturation(system: &System) -> [f64; 3] {
    let costs = &system.costs;
    // A replica has one writer with one connection, which uses one of PostgreSQL's cores at a time.
    let cores = system.replicas.min(system.postgres_cores) as f64;
    let replicas = (system.replicas * system.replica_cores) as f64;
    [replicas / costs.replica, 1.0 / costs.redis, cores / costs.postgres]
}

/// The result of a simulation. Utilisations are shares of the simulated time.
#[derive(Debug, Clone)]
pub struct Prediction {
    pub replica: f64,
    pub redis: f64,
    pub postgres: f64,
    pub disk: f64,
    pub batch_size: f64,
    pub batches_per_sync: f64,
    /// Response times in ascending order.
    pub responses: Vec<f64>,
}

/// An event in the simulation. Most events contain the index of a replica.
#[derive(Debug, Clone, Copy)]
enum Event {
    Arrived,
    /// A replica has read a submission that arrived at this time.
    Read(usize, f64),
    /// Redis has allowed a submission that arrived at this time.
    Allowed(usize, f64),
    /// The batch of a replica has reached PostgreSQL.
    Sent(usize),
    /// The batch of a replica has been executed and must be synced.
    Executed(usize),
    Synced,
    /// The batch of a replica is committed.
    Committed(usize),
}

#[derive(Debug, Default)]
struct Replica {
    cores: ServerPool,
    /// Arrival times of submissions that are waiting for the writer.
    waiting: Vec<f64>,
    /// Arrival times of the submissions in the current batch; empty while the writer is idle.
    batch: Vec<f64>,
}

#[derive(Debug, Default)]
struct Simulation {
    system: System,
    /// Pending events, keyed by time and scheduling order. The time is stored as the bits of a non-negative
    /// float, because the bits sort in the same order as the float.
    events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    replicas: Vec<Replica>,
    redis: ServerPool,
    postgres: ServerPool,
    /// Replicas whose batches are waiting for the disk.
    unsynced: Vec<usize>,
    syncing: Vec<usize>,
    syncs: u64,
    batches: u64,
}

/// Simulates `count` submissions that arrive at random, on average `rate` per unit of time.
pub fn simulate(system: &System, rate: f64, count: usize, seed: u64) -> Prediction {
    let mut random = Random::seeded(seed);
    let replica = |_| Replica { cores: ServerPool::new(system.replica_cores), ..Replica::default() };
    let mut simulation = Simulation {
        system: *system,
        replicas: (0..system.replicas).map(replica).collect(),
        redis: ServerPool::new(1),
        postgres: ServerPool::new(system.postgres_cores),
        ..Simulation::default()
    };
    let costs = system.costs;
    let (mut arrived, mut committed, mut now) = (0, 0, 0.0);
    let mut responses = Vec::with_capacity(count);
    simulation.schedule(random.exponential(1.0 / rate), Event::Arrived);
    while let Some(((at, _), event)) = simulation.events.pop_first() {
        now = f64::from_bits(at);
        match event {
            Event::Arrived => {
                arrived += 1;
                if arrived < count {
                    simulation.schedule(now + random.exponential(1.0 / rate), Event::Arrived);
                }
                let replica = random.below(simulation.replicas.len());
                let read = simulation.replicas[replica].cores.serve(now, costs.replica, 0.0);
                simulation.schedule(read, Event::Read(replica, now));
            }
            Event::Read(replica, since) => {
                let decided = simulation.redis.serve(now, costs.redis, 0.0);
                simulation.schedule(decided + system.round_trip, Event::Allowed(replica, since));
            }
            Event::Allowed(replica, since) => {
                simulation.replicas[replica].waiting.push(since);
                simulation.start_batch(replica, now);
            }
            Event::Sent(replica) => {
                let rows = simulation.replicas[replica].batch.len() as f64;
                let done = simulation.postgres.serve(now, costs.postgres_batch + rows * costs.postgres, 0.0);
                simulation.schedule(done, Event::Executed(replica));
            }
            Event::Executed(replica) => {
                simulation.unsynced.push(replica);
                simulation.start_sync(now);
            }
            Event::Synced => {
                for replica in std::mem::take(&mut simulation.syncing) {
                    simulation.schedule(now + system.standby + costs.wait, Event::Committed(replica));
                }
                simulation.start_sync(now);
            }
            Event::Committed(replica) => {
                for since in std::mem::take(&mut simulation.replicas[replica].batch) {
                    committed += 1;
                    // Discard the first tenth of the submissions, because the system starts empty.
                    if committed > count / 10 {
                        responses.push(now - since);
                    }
                }
                simulation.start_batch(replica, now);
            }
        }
    }
    responses.sort_by(f64::total_cmp);
    let busy: f64 = simulation.replicas.iter().map(|replica| replica.cores.utilisation(now)).sum();
    Prediction {
        replica: busy / simulation.replicas.len() as f64,
        redis: simulation.redis.utilisation(now),
        postgres: simulation.postgres.utilisation(now),
        disk: simulation.syncs as f64 * costs.sync / now,
        batch_size: committed as f64 / simulation.batches as f64,
        batches_per_sync: simulation.batches as f64 / simulation.syncs as f64,
        responses,
    }
}

impl Simulation {
    fn schedule(&mut self, at: f64, event: Event) {
        self.scheduled += 1;
        self.events.insert((at.to_bits(), self.scheduled), event);
    }

    /// Sends a replica's waiting submissions as a batch, unless the writer is storing another batch.
    fn start_batch(&mut self, number: usize, now: f64) {
        let replica = &mut self.replicas[number];
        if replica.waiting.is_empty() || !replica.batch.is_empty() {
            return;
        }
        std::mem::swap(&mut replica.waiting, &mut replica.batch);
        self.batches += 1;
        let sent = replica.cores.interrupt(now, self.system.costs.replica_batch);
        self.schedule(sent + EXCHANGES * self.system.round_trip, Event::Sent(number));
    }

    /// Syncs all waiting batches, unless a sync is in progress.
    fn start_sync(&mut self, now: f64) {
        if self.unsynced.is_empty() || !self.syncing.is_empty() {
            return;
        }
        std::mem::swap(&mut self.unsynced, &mut self.syncing);
        self.syncs += 1;
        self.schedule(now + self.system.costs.sync, Event::Synced);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::percentile;

    const NOTHING: Costs = Costs {
        replica: 0.0,
        replica_batch: 0.0,
        redis: 0.0,
        postgres: 0.0,
        postgres_batch: 0.0,
        sync: 0.0,
        wait: 0.0,
    };
    const ONE: System = System {
        replicas: 1,
        replica_cores: 1,
        postgres_cores: 1,
        round_trip: 0.0,
        standby: 0.0,
        costs: NOTHING,
    };
    const COUNT: usize = 500_000;

    #[track_caller]
    fn check(seen: f64, known: f64) {
        assert!((seen / known - 1.0).abs() < 0.03, "{seen} instead of {known}");
    }

    fn mean(seen: &Prediction) -> f64 {
        seen.responses.iter().sum::<f64>() / seen.responses.len() as f64
    }

    #[test]
    fn every_submission_is_answered() {
        let costs = Costs {
            replica: 0.1,
            replica_batch: 0.1,
            redis: 0.1,
            postgres: 0.1,
            postgres_batch: 0.3,
            sync: 1.0,
            wait: 0.2,
        };
        let system = System {
            replicas: 3,
            replica_cores: 2,
            postgres_cores: 2,
            round_trip: 0.05,
            standby: 0.4,
            costs,
        };
        for rate in [0.1, 1.0, 5.0] {
            let seen = simulate(&system, rate, 10_000, 1);
            assert_eq!(seen.responses.len(), 9_000);
            // The minimum is the response time without queueing.
            let alone = 0.1 + 0.1 + 0.05 + 0.1 + 0.1 + 0.3 + 0.1 + 1.0 + 0.4 + 0.2;
            assert!(seen.responses[0] > alone - 1e-9, "{} is less than {alone}", seen.responses[0]);
            check(seen.redis, rate * 0.1);
            check(seen.replica, rate * (0.1 + 0.1 / seen.batch_size) / 6.0);
            check(seen.postgres, rate * (0.1 + 0.3 / seen.batch_size) / 2.0);
        }
    }

    #[test]
    fn a_batch_is_the_arrivals_during_the_previous_one() {
        // The arrivals during a batch have a Poisson distribution. If there are none, the next arrival forms
        // a batch by itself.
        for wait in [0.5_f64, 1.0, 4.0] {
            let system = System { costs: Costs { wait, ..NOTHING }, ..ONE };
            let seen = simulate(&system, 1.0, COUNT, 2);
            check(seen.batch_size, wait + (-wait).exp());
        }
    }

    #[test]
    fn under_load_a_submission_waits_one_and_a_half_batches() {
        let system = System { costs: Costs { wait: 1.0, ..NOTHING }, ..ONE };
        let seen = simulate(&system, 50.0, COUNT, 3);
        check(mean(&seen), 1.5);
        check(percentile(&seen.responses, 0.99), 1.99);
        check(percentile(&seen.responses, 0.5), 1.5);
    }

    #[test]
    fn one_core_with_fixed_service_time_is_m_d_1() {
        // Only the replica's core takes time.
        let system = System { costs: Costs { replica: 1.0, ..NOTHING }, ..ONE };
        let seen = simulate(&system, 0.8, COUNT, 4);
        check(mean(&seen), 1.0 + 0.8 / (2.0 * 0.2));
        check(seen.replica, 0.8);
    }

    #[test]
    fn replicas_share_syncs() {
        let costs = Costs { sync: 1.0, ..NOTHING };
        let alone = simulate(&System { costs, ..ONE }, 20.0, COUNT, 5);
        let shared = simulate(&System { replicas: 8, costs, ..ONE }, 20.0, COUNT, 5);
        check(alone.batches_per_sync, 1.0);
        assert!(shared.batches_per_sync > 2.0, "{}", shared.batches_per_sync);
        check(shared.disk, 1.0);
    }

    #[test]
    fn saturation_is_limited_by_the_scarcest_part() {
        let costs = Costs { replica: 50e-6, redis: 10e-6, postgres: 100e-6, ..NOTHING };
        let parts =
            |replicas| saturation(&System { replicas, replica_cores: 2, postgres_cores: 4, costs, ..ONE });
        assert_eq!(parts(1).map(|rate| rate.round() as u64), [40_000, 100_000, 10_000]);
        assert_eq!(parts(8).map(|rate| rate.round() as u64), [320_000, 100_000, 40_000]);
    }

    #[test]
    fn the_queue_grows_only_beyond_saturation() {
        let costs = Costs { postgres: 1.0, ..NOTHING };
        let system = System { costs, ..ONE };
        let [.., most] = saturation(&system);
        let short = |rate| percentile(&simulate(&system, rate, 2_000, 6).responses, 0.99);
        let long = |rate| percentile(&simulate(&system, rate, 20_000, 6).responses, 0.99);
        assert!(long(most * 1.2) > 5.0 * short(most * 1.2));
        assert!(long(most * 0.7) < 3.0 * short(most * 0.7));
    }
}
