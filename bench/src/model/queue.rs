//! One queue before one or several servers that are alike, first come, first served: what waits for a core, for Redis, for PostgreSQL's processors.
//!
//! Times are seconds.

use super::random::Random;

/// Servers that take from one queue.
#[derive(Debug, Clone)]
pub struct Servers {
    /// From when on each of them is free.
    free: Vec<f64>,
    /// How long they have been busy, all together.
    busy: f64,
}

impl Servers {
    /// So many, all of them free.
    pub fn new(count: usize) -> Self {
        Self { free: vec![0.0; count.max(1)], busy: 0.0 }
    }

    /// One comes at `now`, which no call is earlier than the one before, and wants `service`, and `waking` more of a server that has nothing to
    /// do. Returns when that is done.
    pub fn serve(&mut self, now: f64, service: f64, waking: f64) -> f64 {
        let mut first = 0;
        for number in 1..self.free.len() {
            if self.free[number] < self.free[first] {
                first = number;
            }
        }
        let (start, takes) =
            if self.free[first] <= now { (now, service + waking) } else { (self.free[first], service) };
        self.free[first] = start + takes;
        self.busy += takes;
        self.free[first]
    }

    /// Something comes at `now` that is not to wait, as a thread of its own that the system runs beside the others: it is done after `service`, and what waits has
    /// to wait for so much longer. Returns when it is done.
    pub fn interrupt(&mut self, now: f64, service: f64) -> f64 {
        self.serve(now, service, 0.0);
        now + service
    }

    /// The share of their time until `now` in which they were busy.
    pub fn utilisation(&self, now: f64) -> f64 {
        // What is still to be done does not count yet.
        let ahead: f64 = self.free.iter().map(|free| (free - now).max(0.0)).sum();
        (self.busy - ahead) / (now * self.free.len() as f64)
    }
}

/// One stage that each request passes: a single server.
#[derive(Debug, Clone, Copy)]
pub struct Stage {
    /// Seconds that a request takes.
    pub service: f64,
    /// Additional seconds if the server was idle before.
    pub waking: f64,
}

/// What was seen.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The share of its time in which each stage was busy.
    pub utilisation: Vec<f64>,
    /// How long each was on the way, in ascending order.
    responses: Vec<f64>,
}

impl Seen {
    /// The time that `share` of them did not exceed.
    pub fn percentile(&self, share: f64) -> f64 {
        percentile(&self.responses, share)
    }
}

/// The value that `share` of `sorted`, which must not be none, do not exceed.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil().max(1.0) as usize;
    sorted[rank.min(sorted.len()) - 1]
}

/// Requests that come at random, `rate` a second on the average, go through `stages` in turn.
pub fn simulate(stages: &[Stage], rate: f64, requests: usize, seed: u64) -> Seen {
    let mut random = Random::seeded(seed);
    let mut now = 0.0;
    // Those who come at the beginning find everything empty.
    let uncounted = requests / 10;
    let mut ways: Vec<(f64, f64)> = (0..requests)
        .map(|_| {
            now += random.exponential(1.0 / rate);
            (now, now)
        })
        .collect();
    let from = ways[uncounted].0;
    let mut utilisation = Vec::new();
    for stage in stages {
        let mut servers = Servers::new(1);
        for (_, at) in &mut ways {
            *at = servers.serve(*at, stage.service, stage.waking);
        }
        let end = ways.iter().map(|(_, at)| *at).fold(0.0, f64::max);
        utilisation.push(servers.utilisation(end));
    }
    let mut responses: Vec<f64> =
        ways.iter().filter(|(came, _)| *came >= from).map(|(came, at)| at - came).collect();
    responses.sort_by(f64::total_cmp);
    Seen { utilisation, responses }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS: usize = 2_000_000;

    /// Requests that come at random, `rate` a second on the average, through `count` servers whose service times are exponential with
    /// mean 1. Returns the utilisation and the response times in ascending order.
    fn exponential(count: usize, rate: f64, seed: u64) -> (f64, Vec<f64>) {
        let (mut random, mut servers, mut now) = (Random::seeded(seed), Servers::new(count), 0.0);
        let mut responses: Vec<f64> = (0..REQUESTS)
            .map(|_| {
                now += random.exponential(1.0 / rate);
                servers.serve(now, random.exponential(1.0), 0.0) - now
            })
            .skip(REQUESTS / 10)
            .collect();
        responses.sort_by(f64::total_cmp);
        (servers.utilisation(now), responses)
    }

    fn mean(responses: &[f64]) -> f64 {
        responses.iter().sum::<f64>() / responses.len() as f64
    }

    #[track_caller]
    fn check(seen: f64, known: f64) {
        assert!((seen / known - 1.0).abs() < 0.03, "{seen} instead of {known}");
    }

    #[test]
    fn one_server_with_exponential_service_is_m_m_1() {
        for load in [0.3, 0.5, 0.8] {
            let (utilisation, responses) = exponential(1, load, 1);
            check(utilisation, load);
            check(mean(&responses), 1.0 / (1.0 - load));
            check(percentile(&responses, 0.5), 2_f64.ln() / (1.0 - load));
            check(percentile(&responses, 0.99), 100_f64.ln() / (1.0 - load));
        }
    }

    #[test]
    fn one_server_with_fixed_service_is_m_d_1() {
        for load in [0.3, 0.5, 0.8] {
            let seen = simulate(&[Stage { service: 1.0, waking: 0.0 }], load, REQUESTS, 2);
            check(seen.utilisation[0], load);
            check(mean(&seen.responses), 1.0 + load / (2.0 * (1.0 - load)));
        }
    }

    #[test]
    fn several_servers_are_m_m_k() {
        // Erlang's formula C for four servers at 80 %.
        let (servers, offered): (usize, f64) = (4, 3.2);
        let (mut term, mut sum) = (1.0, 0.0);
        for number in 0..servers {
            sum += term;
            term *= offered / (number + 1) as f64;
        }
        let queued = term / (1.0 - offered / servers as f64);
        let waits = queued / (sum + queued);
        let (utilisation, responses) = exponential(servers, offered, 3);
        check(utilisation, 0.8);
        check(mean(&responses), 1.0 + waits / (servers as f64 - offered));
    }

    #[test]
    fn a_server_that_is_woken_takes_longer_as_theory_has_it() {
        // M/G/1 whose first customer of each busy period takes longer (Welch, 1964).
        let (rate, service, waking): (f64, f64, f64) = (0.5, 1.0, 2.0);
        let load = rate * service;
        let wakes = (1.0 - load) / (1.0 + rate * waking);
        let wait = rate * service * service / (2.0 * (1.0 - load));
        let (first, later) = ((service + waking).powi(2), service.powi(2));
        let extra = rate * (first - later) / (2.0 * (1.0 + rate * waking));
        let seen = simulate(&[Stage { service, waking }], rate, REQUESTS, 4);
        check(seen.utilisation[0], load + rate * waking * wakes);
        check(mean(&seen.responses), service + wakes * waking + wait + extra);
    }

    #[test]
    fn what_does_not_wait_makes_others_wait() {
        let mut servers = Servers::new(1);
        check(servers.serve(0.0, 2.0, 0.0), 2.0);
        check(servers.interrupt(1.0, 0.5), 1.5);
        check(servers.serve(1.0, 2.0, 0.0), 4.5);
        check(servers.utilisation(4.5), 1.0);
    }

    #[test]
    fn whoever_comes_leaves() {
        let stages = [Stage { service: 0.6, waking: 0.0 }, Stage { service: 0.5, waking: 0.1 }];
        let seen = simulate(&stages, 1.0, 100_000, 5);
        assert_eq!(seen.responses.len(), 90_000);
        // No request takes less time than the two stages take without a queue.
        assert!(seen.responses[0] > 1.1 - 1e-9, "{}", seen.responses[0]);
    }

    #[test]
    fn as_many_are_there_as_little_s_law_says() {
        let (mut random, mut servers) = (Random::seeded(6), Servers::new(1));
        let (mut now, mut there, mut stayed) = (0.0, 0, 0.0);
        let mut leaving = std::collections::VecDeque::new();
        for _ in 0..REQUESTS {
            now += random.exponential(1.0 / 0.7);
            while leaving.front().is_some_and(|leaves| *leaves <= now) {
                leaving.pop_front();
            }
            // Who comes at random sees what there is on the average.
            there += leaving.len();
            let leaves = servers.serve(now, random.exponential(1.0), 0.0);
            stayed += leaves - now;
            leaving.push_back(leaves);
        }
        check(there as f64 / REQUESTS as f64, 0.7 * stayed / REQUESTS as f64);
        check(there as f64 / REQUESTS as f64, 0.7 / 0.3);
    }

    #[test]
    fn the_same_seed_gives_the_same_figures() {
        let stages = [Stage { service: 1.0, waking: 0.0 }];
        let (a, b) = (simulate(&stages, 0.5, 1000, 7), simulate(&stages, 0.5, 1000, 7));
        assert_eq!(a.responses, b.responses);
        assert_ne!(a.responses, simulate(&stages, 0.5, 1000, 8).responses);
    }
}
