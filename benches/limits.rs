//! Measures the cost and accuracy of the limiter with many sources: `cargo bench -p frontdesk-benches
//! --bench limits`.
//!
//! Most sources send about one request in a simulated hour, in random order. One request in eleven comes from
//! a few sources that send a thousand an hour. An exact table with an entry for each source decides the same
//! requests, and the benchmark counts the decisions that differ. Then an attacker exhausts the quotas of many
//! sources, each in a separate network, and the benchmark counts the requests of other sources that are
//! refused.
//!
//! With few sources, a check seems expensive, because few requests share the cost of the hourly pass over all
//! cells.

#![allow(clippy::disallowed_methods, reason = "tests and benchmarks read clocks and wait")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::cast_precision_loss, reason = "approximate figures suffice")]

use std::time::{Duration, Instant};

use frontdesk_limits::{Admission, LimitOptions, LocalLimiter, MAX_QUOTA, Quota, Source};

const PER_MINUTE: u32 = 30;
const PER_HOUR: u32 = 300;

fn main() {
    // Effectively disable the quotas for networks and forms, because the exact table has quotas only for
    // sources.
    let wide = Quota { per_minute: MAX_QUOTA, per_hour: MAX_QUOTA };
    let source = Quota { per_minute: PER_MINUTE, per_hour: PER_HOUR };
    let options = LimitOptions { enabled: true, source, network: wide, form: wide };

    println!(
        "{:>12} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "sources", "memory MiB", "ns per check", "estimated", "refused", "differ"
    );
    for keys in [1_000, 100_000, 1_000_000, 10_000_000] {
        let before = resident();
        let limiter = LocalLimiter::new(&options);
        let (start, begun) = (Instant::now(), processor_nanos());
        let decisions = decide(keys, |source, now| allows(&limiter, source, start + now));
        let took = processor_nanos() - begun;
        // Exclude the memory of the list of decisions.
        let memory = resident().saturating_sub(before + decisions.len() as u64 * 8);
        let mut table = vec![[0.0; 2]; (keys + heavy(keys)) as usize];
        let exact = decide(keys, |source, now| rule(&mut table[unscattered(source) as usize], now));
        let requests = u64::from(requests(keys));
        let refused: u32 = exact.iter().map(|word| word.count_zeros()).sum();
        let refused = u64::from(refused) - (exact.len() as u64 * 64 - requests);
        let differ: u32 = exact.iter().zip(&decisions).map(|(a, b)| (a ^ b).count_ones()).sum();
        println!(
            "{keys:>12} {:>12.1} {:>12.0} {:>12} {:>11.3}% {:>11.5}%",
            memory as f64 / 1_048_576.0,
            took as f64 / requests as f64,
            limiter.estimate_sources(),
            refused as f64 * 100.0 / requests as f64,
            f64::from(differ) * 100.0 / requests as f64,
        );
    }

    println!("\n{:>12} {:>24}", "exhausted", "other sources refused");
    for attackers in [10_000, 100_000, 1_000_000] {
        let (limiter, start) = (LocalLimiter::new(&options), Instant::now());
        for n in 0..attackers {
            while allows(&limiter, scattered(n), start) {}
        }
        let strangers = 1_000_000;
        let refused = (0..strangers).filter(|n| !allows(&limiter, scattered(100_000_000 + n), start)).count();
        println!("{attackers:>12} {:>23.5}%", refused as f64 * 100.0 / f64::from(strangers));
    }
}

/// Passes all requests to `decision`. Returns one bit per request, set if the request was allowed.
fn decide(keys: u32, mut decision: impl FnMut(Source, Duration) -> bool) -> Vec<u64> {
    let requests = requests(keys);
    let between = Duration::from_hours(1) / requests;
    let mut decisions = vec![0; requests.div_ceil(64) as usize];
    let mut random = 1u64;
    for request in 0..requests {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let draw = u32::try_from(random >> 33).expect("31 bits");
        let key = if request.is_multiple_of(11) { draw % heavy(keys) } else { heavy(keys) + draw % keys };
        let allowed = decision(scattered(key), between * request);
        decisions[(request / 64) as usize] |= u64::from(allowed) << (request % 64);
    }
    decisions
}

/// The number of sources that exceed their quota.
fn heavy(keys: u32) -> u32 {
    (keys / 10_000).max(1)
}

/// The number of requests: about one for each source, and one in eleven from the few that exceed their quota.
fn requests(keys: u32) -> u32 {
    keys / 10 * 11
}

fn allows(limiter: &LocalLimiter, source: Source, now: Instant) -> bool {
    matches!(limiter.check(source, now).admission, Admission::Allowed)
}

/// Decides a request with exact GCRA. `arrivals` holds the source's theoretical arrival time for each quota.
fn rule(arrivals: &mut [f64; 2], now: Duration) -> bool {
    let now = now.as_secs_f64();
    let policies = [(f64::from(PER_MINUTE), 60.0), (f64::from(PER_HOUR), 3600.0)];
    let fits = policies
        .iter()
        .zip(&*arrivals)
        .all(|((quota, window), arrival)| arrival - now <= window / quota * (quota - 1.0) + 1e-6);
    if fits {
        for ((quota, window), arrival) in policies.iter().zip(arrivals) {
            *arrival = arrival.max(now) + window / quota;
        }
    }
    fits
}

/// The n-th source. Few sources share a network.
fn scattered(n: u32) -> Source {
    Source::V4(n.wrapping_mul(0x9e37_79b1).to_be_bytes())
}

/// The number of the source: the inverse of [`scattered`].
fn unscattered(source: Source) -> u32 {
    let Source::V4(octets) = source else { unreachable!("all sources are IPv4") };
    // The inverse of the factor in `scattered`, modulo 2^32.
    u32::from_be_bytes(octets).wrapping_mul(0x0e8b_2f51)
}

/// CPU time of this thread in nanoseconds. Unlike wall-clock time, it excludes other programs.
fn processor_nanos() -> u64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    line.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("a number")
}

/// Resident memory in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") * 1024
}
