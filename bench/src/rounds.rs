//! Interleaved rounds, their medians, and the comparison of servers.

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::json;

use crate::figures::{Column, Row, Section, Spread, Table, Target, Unit};
use crate::load::Sample;
use crate::peer;

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
    fn capacities(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| 1e6 / sample.cost()).collect()
    }

    pub fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(figure))
    }

    /// Whether neither the server nor the load generator was busy in at least half of the rounds, although
    /// requests were waiting.
    fn were_disturbed(&self) -> bool {
        self.spread(|sample| sample.busy().max(sample.generator)).median < UNDISTURBED
    }

    /// Whether the load generator limited at least half of the rounds.
    fn is_limited_by_the_generator(&self) -> bool {
        self.spread(|sample| sample.generator).median >= SATURATED
    }
}

/// The ratio of `one` to `other`, both on one core: in requests per second if both were at their limit,
/// otherwise in requests per second of CPU time. Also returns the name of this measure.
fn ratio(one: &Rounds, other: &Rounds) -> (Spread, &'static str) {
    if [one, other].iter().any(|rounds| rounds.is_limited_by_the_generator() || rounds.were_disturbed()) {
        (Spread::of_ratios(&one.capacities(), &other.capacities()), "requests per CPU time")
    } else {
        (Spread::of_ratios(&one.rates(), &other.rates()), "requests/s")
    }
}

impl Section {
    /// Adds a server's rounds to the raw results, which go to a separate file.
    pub fn record(&mut self, case: &str, server: &str, samples: &[impl Serialize]) -> Result<()> {
        for sample in samples {
            self.raw.push(json!({ "case": case, "server": server, "result": serde_json::to_value(sample)? }));
        }
        Ok(())
    }

    /// Adds a table of each server's figures, and the raw results. If `reference` is one of the servers, the
    /// table includes the ratios to it, in requests per second and in requests per CPU time.
    pub fn add_table(
        &mut self,
        name: &str,
        title: &str,
        note: &str,
        servers: &[Rounds],
        reference: &str,
    ) -> Result<()> {
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
        let mut columns: Vec<Column> = figures.map(|(title, unit, _)| (title, unit).into()).into();
        if base.is_some() {
            let ratios = ["requests/s", "requests per CPU time"];
            columns.extend(ratios.map(|of| (format!("× {reference}, {of}"), Unit::Ratio).into()));
        }
        let rows = servers.iter().map(|rounds| {
            let mut cells = figures.map(|(_, _, figure)| rounds.spread(figure)).to_vec();
            cells.extend(base.map(|base| Spread::of_ratios(&rounds.rates(), &base.rates())));
            cells.extend(base.map(|base| Spread::of_ratios(&rounds.capacities(), &base.capacities())));
            Row::new(&rounds.label, cells)
        });
        self.tables.push(Table::new(name, title, note, columns, rows).plotted());
        self.record_all(name, servers)
    }

    pub fn record_all(&mut self, case: &str, servers: &[Rounds]) -> Result<()> {
        servers.iter().try_for_each(|rounds| self.record(case, &rounds.label, &rounds.samples))
    }

    /// Adds a condition if some of these servers, all under full load, were disturbed by other programs.
    pub fn record_disturbance(&mut self, case: &str, servers: &[Rounds]) {
        let disturbed = servers.iter().filter(|rounds| rounds.were_disturbed());
        let disturbed: Vec<&str> = disturbed.map(|rounds| &*rounds.label).collect();
        if !disturbed.is_empty() {
            self.add_condition("disturbed by other programs", format!("{case} ({})", disturbed.join(", ")));
        }
    }

    /// Adds a target: a minimum ratio of frontdesk to another server.
    pub fn compare(&mut self, title: &str, servers: &[Rounds], other: &str, target: f64) -> Result<()> {
        let (ratio, measure) = ratio(find(servers, peer::FRONTDESK)?, find(servers, other)?);
        let name = format!("{title}: frontdesk / {other}, {measure}");
        self.targets.push(Target::at_least(name, target, ratio.median));
        Ok(())
    }

    /// Like [`Self::compare`], but always in requests per CPU time.
    pub fn compare_cost(&mut self, title: &str, servers: &[Rounds], other: &str, target: f64) -> Result<()> {
        let (ours, theirs) = (find(servers, peer::FRONTDESK)?, find(servers, other)?);
        let ratio = Spread::of_ratios(&ours.capacities(), &theirs.capacities());
        let name = format!("{title}: frontdesk / {other}, requests per CPU time");
        self.targets.push(Target::at_least(name, target, ratio.median));
        Ok(())
    }

    pub fn add_condition(&mut self, name: &str, value: impl Into<String>) {
        self.conditions.push((name.into(), value.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut section = Section::default();
        let servers = [rounds(200, 1.0, 0.9), rounds(100, 1.0, 0.5)];
        section.add_table("a", "b", "", &servers, "100").expect("the results are JSON");
        assert_eq!(section.tables[0].columns.len(), 9);
        assert!(section.tables[0].rows.iter().all(|row| row.cells.len() == 9));
    }
}
