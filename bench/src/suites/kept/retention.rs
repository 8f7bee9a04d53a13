//! How long retention takes, and how long visitors wait meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use jiff::{SignedDuration, Timestamp};

use super::database::Database;
use crate::figures::Spread;
use crate::http;
use crate::load::{self, Load, Sample};
use crate::peer::Peer;
use crate::settings::{Bench, report_progress};
use crate::submission::{fixed_request, visitors};
use crate::suites::submissions::CONTACT;

/// The number of concurrent visitors.
const VISITORS: usize = 8;
/// The time between two looks at the oldest submission.
const LOOK: Duration = Duration::from_millis(200);
/// The limit until the removal ends.
const LIMIT: Duration = Duration::from_mins(40);
/// The server needs this long to start, and visitors are measured before the removal.
const LEAD: SignedDuration = SignedDuration::from_secs(30);

#[derive(Debug)]
pub struct Retention {
    /// The time of the removal, in milliseconds.
    pub duration: Spread,
    /// The p99 of a submission before it and during its slowest part, in milliseconds.
    pub calm: Spread,
    pub meanwhile: Spread,
}

/// The time for `digest.at`, which also determines when maintenance runs next: a full minute, at least
/// [`LEAD`] after `now`. Without it, retention would wait for a quarter of an hour.
pub fn next_digest(now: Timestamp) -> Timestamp {
    let minute = (now + LEAD).as_second() / 60 + 1;
    Timestamp::from_second(minute * 60).unwrap_or(now)
}

/// Waits until the server has removed all submissions from before `until`, which begins at `start`, with
/// visitors that send others.
pub fn measure(
    bench: &Bench,
    server: &Peer,
    database: &Database,
    until: i64,
    start: Timestamp,
) -> Result<Retention> {
    let load = Load::new(bench, VISITORS);
    let response = http::send(server.address, &fixed_request(CONTACT))?;
    ensure!(response.status == 200, "a submission returned status {}", response.status);
    let mut number = 0;
    let mut send = || {
        number += 1;
        load::run(&load, server, visitors(CONTACT, &response, number))
    };
    let calm = (0..bench.rounds.min(3)).map(|_| send()).collect::<Result<Vec<Sample>>>()?;
    report_progress("waiting for retention");
    // Visitors begin just before it, because their submissions make the inbox larger.
    let wait = start.duration_since(Timestamp::now()) - SignedDuration::from_secs(1);
    std::thread::sleep(Duration::try_from(wait).unwrap_or_default());
    let is_over = AtomicBool::new(false);
    let (removal, windows) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let seen = watch(database, until);
            is_over.store(true, Ordering::Relaxed);
            seen
        });
        let mut windows = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let began = Instant::now();
            windows.push((began, send()?, Instant::now()));
        }
        let removal = watcher.join().map_err(|_| anyhow!("the watcher panicked"))?;
        anyhow::Ok((removal?, windows))
    })?;
    let Some((began, ended)) = removal else {
        let duration = Spread::above(LIMIT.as_secs_f64() * 1e3);
        return Ok(Retention { duration, calm: p99(&calm), meanwhile: Spread::none() });
    };
    let during = windows.into_iter().filter(|(first, _, last)| *first < ended && began < *last);
    let during: Vec<Sample> = during.map(|(_, sample, _)| sample).collect();
    let slowest = during.iter().map(|sample| sample.p99 / 1e3).fold(0.0, f64::max);
    let duration = Spread::exactly(ended.duration_since(began).as_secs_f64() * 1e3);
    Ok(Retention { duration, calm: p99(&calm), meanwhile: Spread { median: slowest, ..p99(&during) } })
}

fn p99(samples: &[Sample]) -> Spread {
    Spread::of(samples.iter().map(|sample| sample.p99 / 1e3))
}

/// Looks at the oldest submission until it is from `until` or later. Returns when the removal began and
/// when it ended; `None` at the limit.
fn watch(database: &Database, until: i64) -> Result<Option<(Instant, Instant)>> {
    let oldest = || database.first_id_at(0);
    let (first, watched) = (oldest()?, Instant::now());
    let end = format!("{until:012x}");
    ensure!(!first.is_empty() && first < end, "no submission is old enough");
    let (mut last_look, mut began) = (Instant::now(), None);
    while watched.elapsed() < LIMIT {
        let looked = Instant::now();
        let now = oldest().context("cannot read the oldest submission")?;
        if now != first {
            began.get_or_insert(last_look);
        }
        if let Some(began) = began.filter(|_| now >= end || now.is_empty()) {
            return Ok(Some((began, Instant::now())));
        }
        last_look = looked;
        std::thread::sleep(LOOK);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_at_a_full_minute_after_the_lead() {
        for (now, expected) in [
            ("2026-11-20T14:00:10Z", "2026-11-20T14:01:00Z"),
            ("2026-11-20T14:00:31Z", "2026-11-20T14:02:00Z"),
            ("2026-11-20T23:59:40Z", "2026-11-21T00:01:00Z"),
        ] {
            let digest = next_digest(now.parse().expect("a time"));
            assert_eq!(digest.to_string(), expected, "{now}");
        }
    }
}
