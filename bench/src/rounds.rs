//! Interleaved rounds, their medians, and the comparison of servers.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::figures::{Column, Row, Table, Unit};
use crate::load::Sample;

/// Median, minimum and maximum of several rounds, stored as an array with six significant digits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 3]", into = "[f64; 3]")]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// Median, minimum and maximum of the values; all zero if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (values.first().copied(), values.last().copied()) else {
            return Self::exactly(0.0);
        };
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Self { median, least, most }
    }

    pub fn exactly(value: f64) -> Self {
        Self { median: value, least: value, most: value }
    }

    /// The spread of the per-round ratios. A slow phase of the machine affects both values of a round, and so
    /// cancels out.
    pub fn of_ratios(above: &[f64], below: &[f64]) -> Self {
        Self::of(above.iter().zip(below).map(|(above, below)| above / below))
    }
}

impl From<[f64; 3]> for Spread {
    fn from([median, least, most]: [f64; 3]) -> Self {
        Self { median, least, most }
    }
}

impl From<Spread> for [f64; 3] {
    fn from(Spread { median, least, most }: Spread) -> Self {
        [median, least, most].map(|value| format!("{value:.5e}").parse().unwrap_or(value))
    }
}

/// A percentile of `sorted` by the nearest-rank method. `share` is 0.99 for the 99th percentile. Panics if
/// `sorted` is empty.
pub fn percentile<T: Copy>(sorted: &[T], share: f64) -> T {
    let rank = (sorted.len() as f64 * share).ceil().max(1.0) as usize;
    sorted[rank.min(sorted.len()) - 1]
}

/// Measures each of `peers` in turn, `rounds` times, so that a slow phase of the machine affects all of them.
pub fn interleave<P>(
    rounds: usize,
    peers: &[P],
    label: impl Fn(&P) -> &str,
    mut measure: impl FnMut(&P) -> Result<Sample>,
) -> Result<Vec<Rounds>> {
    let mut seen: Vec<Rounds> =
        peers.iter().map(|peer| Rounds { label: label(peer).to_owned(), samples: Vec::new() }).collect();
    for round in 1..=rounds {
        for (peer, seen) in peers.iter().zip(&mut seen) {
            let sample = measure(peer).with_context(|| format!("round {round}, {}", seen.label))?;
            seen.samples.push(sample);
        }
    }
    Ok(seen)
}

pub fn find<'a>(servers: &'a [Rounds], label: &str) -> Result<&'a Rounds> {
    servers.iter().find(|rounds| rounds.label == label).with_context(|| format!("{label} was not measured"))
}

/// At or above this CPU utilisation, the load generator may be the bottleneck.
const SATURATED: f64 = 0.97;

/// If the server and the load generator both stay below this CPU utilisation, other programs must have used
/// their cores.
const UNDISTURBED: f64 = 0.9;

type Figure = fn(&Sample) -> f64;

#[derive(Debug, Clone)]
pub struct Rounds {
    pub label: String,
    pub samples: Vec<Sample>,
}

impl Rounds {
    pub fn rates(&self) -> Vec<f64> {
        self.samples.iter().map(Sample::rate).collect()
    }

    /// Requests per second of CPU time in each round.
    pub fn capacities(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| 1e6 / sample.cost()).collect()
    }

    pub fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(figure))
    }

    /// Whether neither the server nor the load generator was busy, although requests were waiting.
    pub fn were_disturbed(&self) -> bool {
        self.spread(|sample| sample.busy().max(sample.generator)).median < UNDISTURBED
    }

    /// Whether the load generator limited at least half of the rounds.
    pub fn is_limited_by_the_generator(&self) -> bool {
        self.spread(|sample| sample.generator).median >= SATURATED
    }
}

/// The ratio of `one` to `other`, both on one core: in requests per second if both were at their limit,
/// otherwise in requests per second of CPU time. Also returns the name of this measure.
pub fn ratio(one: &Rounds, other: &Rounds) -> (Spread, &'static str) {
    if [one, other].iter().any(|rounds| rounds.is_limited_by_the_generator() || rounds.were_disturbed()) {
        (Spread::of_ratios(&one.capacities(), &other.capacities()), "requests per CPU time")
    } else {
        (Spread::of_ratios(&one.rates(), &other.rates()), "requests/s")
    }
}

/// A table of each server's figures. If `reference` is one of the servers, the table includes the ratios to
/// it, in requests per second and in requests per CPU time.
pub fn table(name: &str, title: &str, note: &str, servers: &[Rounds], reference: &str) -> Table {
    let figures: [(&str, Unit, Figure); 7] = [
        ("requests/s", Unit::Count, Sample::rate),
        ("CPU time per request", Unit::Micros, Sample::cost),
        ("p50", Unit::Micros, |sample| sample.p50),
        ("p99", Unit::Micros, |sample| sample.p99),
        ("p99.9", Unit::Micros, |sample| sample.p999),
        ("server CPU", Unit::Share, Sample::busy),
        ("generator CPU", Unit::Share, |sample| sample.generator),
    ];
    let base = servers.iter().find(|rounds| rounds.label == reference);
    let mut columns: Vec<Column> = figures.iter().map(|(title, unit, _)| (*title, *unit).into()).collect();
    if base.is_some() {
        columns.push((format!("× {reference}, requests/s"), Unit::Ratio).into());
        columns.push((format!("× {reference}, requests per CPU time"), Unit::Ratio).into());
    }
    let rows = servers.iter().map(|rounds| {
        let mut cells: Vec<Spread> = figures.iter().map(|(_, _, figure)| rounds.spread(figure)).collect();
        if let Some(base) = base {
            cells.push(Spread::of_ratios(&rounds.rates(), &base.rates()));
            cells.push(Spread::of_ratios(&rounds.capacities(), &base.capacities()));
        }
        Row::new(&rounds.label, cells)
    });
    Table::new(name, title, note, columns, rows).plotted()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_even_counts_is_the_midpoint() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, least: 1.0, most: 4.0 });
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let sorted: Vec<u64> = (1..=30).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| percentile(&sorted, share)), [1, 15, 30, 30]);
    }

    #[test]
    fn a_spread_is_stored_with_six_digits() {
        let spread = Spread { median: 123_456.789, least: 0.0, most: 1.5e9 };
        let stored = Spread::from(<[f64; 3]>::from(spread));
        assert_eq!(stored, Spread { median: 123_457.0, ..spread });
    }

    #[test]
    fn a_slow_round_cancels_out_in_a_ratio() {
        assert_eq!(Spread::of_ratios(&[20.0, 2.0], &[10.0, 1.0]), Spread::exactly(2.0));
    }

    #[test]
    fn each_round_measures_every_peer() {
        let mut order = Vec::new();
        let seen = interleave(
            2,
            &["a", "b"],
            |peer| peer,
            |peer| {
                order.push(*peer);
                Ok(Sample { responses: order.len() as u64, ..Sample::default() })
            },
        );
        let seen = seen.expect("nothing fails");
        let numbers = |of: &Rounds| of.samples.iter().map(|sample| sample.responses).collect::<Vec<_>>();
        assert_eq!(seen.iter().map(numbers).collect::<Vec<_>>(), [[1, 3], [2, 4]]);
        assert_eq!(order, ["a", "b", "a", "b"]);
    }

    fn rounds(rate: u64, server: f64, generator: f64) -> Rounds {
        let sample = Sample { responses: rate, seconds: 1.0, server, generator, ..Sample::default() };
        Rounds { label: rate.to_string(), samples: vec![sample] }
    }

    #[test]
    fn servers_at_their_limit_are_compared_by_rate() {
        let (ratio, by) = ratio(&rounds(200, 1.0, 0.9), &rounds(100, 1.0, 0.5));
        assert_eq!((ratio.median, by), (2.0, "requests/s"));
    }

    #[test]
    fn disturbed_servers_are_compared_by_cpu_time() {
        let (ratio, by) = ratio(&rounds(200, 0.5, 0.6), &rounds(100, 1.0, 0.5));
        assert_eq!((ratio.median, by), (4.0, "requests per CPU time"));
    }

    #[test]
    fn a_saturated_generator_means_comparison_by_cpu_time() {
        let (ratio, by) = ratio(&rounds(200, 0.5, 1.0), &rounds(100, 1.0, 0.5));
        assert_eq!((ratio.median, by), (4.0, "requests per CPU time"));
    }

    #[test]
    fn a_disturbance_is_detected() {
        assert!(rounds(100, 0.5, 0.6).were_disturbed());
        assert!(!rounds(100, 0.95, 0.6).were_disturbed());
        assert!(!rounds(100, 0.6, 0.95).were_disturbed());
    }

    #[test]
    fn each_server_has_a_cell_in_every_column() {
        let table = table("a", "b", "", &[rounds(200, 1.0, 0.9), rounds(100, 1.0, 0.5)], "100");
        assert_eq!(table.columns.len(), 9);
        assert!(table.rows.iter().all(|row| row.cells.len() == 9));
    }
}
