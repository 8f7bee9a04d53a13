//! First-come, first-served queues that model a core, Redis, or PostgreSQL's cores. All times are in the same
//! unit.

use crate::random::Random;

/// Identical servers with a shared queue.
#[derive(Debug, Clone, Default)]
pub struct ServerPool {
    free_at: Vec<f64>,
    busy: f64,
}

impl ServerPool {
    pub fn new(count: usize) -> Self {
        Self { free_at: vec![0.0; count], busy: 0.0 }
    }

    /// Serves a request that arrives at `now`. This takes `service`, plus `wake_up` if a server is idle.
    /// Returns the time at which the request is done. Calls must be in order of `now`.
    pub fn serve(&mut self, now: f64, service: f64, wake_up: f64) -> f64 {
        let Some(free_at) = self.free_at.iter_mut().min_by(|a, b| a.total_cmp(b)) else { return f64::MAX };
        let (start, duration) = if *free_at <= now { (now, service + wake_up) } else { (*free_at, service) };
        *free_at = start + duration;
        self.busy += duration;
        *free_at
    }

    /// Serves a request immediately, ahead of queued ones, which are delayed by `service`. Models a thread
    /// that shares a core with other threads.
    pub fn interrupt(&mut self, now: f64, service: f64) -> f64 {
        self.serve(now, service, 0.0);
        now + service
    }

    /// The share of the time until `now` during which the servers were busy.
    pub fn utilisation(&self, now: f64) -> f64 {
        let not_yet_done: f64 = self.free_at.iter().map(|free_at| (free_at - now).max(0.0)).sum();
        (self.busy - not_yet_done) / (now * self.free_at.len() as f64)
    }
}

/// A server that each request passes through.
#[derive(Debug, Clone, Copy)]
pub struct Stage {
    pub service: f64,
    /// Additional service time if the server was idle.
    pub wake_up: f64,
}

/// Simulates requests that arrive at random, on average `rate` per unit of time, and pass through all stages.
/// Returns the utilisation of each stage, and the response times in ascending order.
pub fn simulate(stages: &[Stage], rate: f64, requests: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut random = Random::seeded(seed);
    let mut now = 0.0;
    let mut paths: Vec<(f64, f64)> = (0..requests)
        .map(|_| {
            now += random.exponential(1.0 / rate);
            (now, now)
        })
        .collect();
    let mut utilisation = Vec::new();
    for stage in stages {
        let mut servers = ServerPool::new(1);
        for (_, at) in &mut paths {
            *at = servers.serve(*at, stage.service, stage.wake_up);
        }
        let end = paths.iter().map(|(_, at)| *at).fold(0.0, f64::max);
        utilisation.push(servers.utilisation(end));
    }
    // Discard the first tenth of the requests, because the system starts empty.
    let mut responses: Vec<f64> =
        paths.iter().skip(requests / 10).map(|(arrived, done)| done - arrived).collect();
    responses.sort_by(f64::total_cmp);
    (utilisation, responses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::percentile;

    const REQUESTS: usize = 2_000_000;

    /// Simulates random arrivals at `count` servers with exponential service times of mean 1. Returns the
    /// utilisation, and the response times in ascending order.
    fn exponential(count: usize, rate: f64, seed: u64) -> (f64, Vec<f64>) {
        let (mut random, mut servers, mut now) = (Random::seeded(seed), ServerPool::new(count), 0.0);
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
            let (utilisation, responses) =
                simulate(&[Stage { service: 1.0, wake_up: 0.0 }], load, REQUESTS, 2);
            check(utilisation[0], load);
            check(mean(&responses), 1.0 + load / (2.0 * (1.0 - load)));
        }
    }

    #[test]
    fn several_servers_are_m_m_k() {
        // The Erlang C formula for four servers at 80 % utilisation.
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
    fn a_server_with_a_wake_up_time_matches_theory() {
        // M/G/1 with a longer first service in each busy period (Welch, 1964).
        let (rate, service, wake_up): (f64, f64, f64) = (0.5, 1.0, 2.0);
        let load = rate * service;
        let wakes = (1.0 - load) / (1.0 + rate * wake_up);
        let wait = rate * service * service / (2.0 * (1.0 - load));
        let (first, later) = ((service + wake_up).powi(2), service.powi(2));
        let extra = rate * (first - later) / (2.0 * (1.0 + rate * wake_up));
        let (utilisation, responses) = simulate(&[Stage { service, wake_up }], rate, REQUESTS, 4);
        check(utilisation[0], load + rate * wake_up * wakes);
        check(mean(&responses), service + wakes * wake_up + wait + extra);
    }

    #[test]
    fn an_interrupt_delays_waiting_requests() {
        let mut servers = ServerPool::new(1);
        check(servers.serve(0.0, 2.0, 0.0), 2.0);
        check(servers.interrupt(1.0, 0.5), 1.5);
        check(servers.serve(1.0, 2.0, 0.0), 4.5);
        check(servers.utilisation(4.5), 1.0);
    }

    #[test]
    fn every_request_leaves() {
        let stages = [Stage { service: 0.6, wake_up: 0.0 }, Stage { service: 0.5, wake_up: 0.1 }];
        let (_, responses) = simulate(&stages, 1.0, 100_000, 5);
        assert_eq!(responses.len(), 90_000);
        // The minimum is the time that both stages take without queueing.
        assert!(responses[0] > 1.1 - 1e-9, "{}", responses[0]);
    }

    #[test]
    fn the_queue_length_matches_little_s_law() {
        let (mut random, mut servers) = (Random::seeded(6), ServerPool::new(1));
        let (mut now, mut there, mut stayed) = (0.0, 0, 0.0);
        let mut leaving = std::collections::VecDeque::new();
        for _ in 0..REQUESTS {
            now += random.exponential(1.0 / 0.7);
            while leaving.front().is_some_and(|leaves| *leaves <= now) {
                leaving.pop_front();
            }
            // Random arrivals see the average queue (PASTA).
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
        let stages = [Stage { service: 1.0, wake_up: 0.0 }];
        let (a, b) = (simulate(&stages, 0.5, 1000, 7), simulate(&stages, 0.5, 1000, 7));
        assert_eq!(a, b);
        assert_ne!(a, simulate(&stages, 0.5, 1000, 8));
    }
}
