//! Servers side by side: their rounds as a table, and the ratio that a bar is about.

use crate::figures::{Column, Row, Table, Unit};
use crate::load::Sample;
use crate::rounds::Spread;

/// From this share of its core on, the load generator may be what limits a server.
pub const SATURATED: f64 = 0.97;

/// Somebody who always has something to do has his core for at least this share of the time.
const UNDISTURBED: f64 = 0.9;

/// One server's rounds.
#[derive(Debug, Clone)]
pub struct Rounds {
    /// As it is called in the report.
    pub label: String,
    /// In their order.
    pub samples: Vec<Sample>,
}

impl Rounds {
    /// Answers a second, round by round.
    pub fn rates(&self) -> Vec<f64> {
        self.samples.iter().map(Sample::rate).collect()
    }

    /// Answers for a second of processor time, round by round.
    pub fn capacities(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| 1e6 / sample.cost()).collect()
    }

    /// The middle of one of a sample's figures, and how far they are apart.
    pub fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(figure))
    }

    /// Whether neither server nor load generator was busy all the time although there was always something to do: something else
    /// has used their cores.
    pub fn were_disturbed(&self) -> bool {
        self.spread(|sample| sample.busy().max(sample.generator)).median < UNDISTURBED
    }

    /// Whether the load generator had nothing left in half of the rounds.
    pub fn is_limited_by_the_generator(&self) -> bool {
        self.spread(|sample| sample.generator).median >= SATURATED
    }
}

/// How many times as many answers `one` gives as `other`, on one core: a second where both were at their limit, or for a second
/// of processor time where the load generator was at its own, or something else took the core. The second value says which.
pub fn ratio(one: &Rounds, other: &Rounds) -> (Spread, &'static str) {
    let was_at_its_limit =
        |rounds: &Rounds| !rounds.is_limited_by_the_generator() && !rounds.were_disturbed();
    if !was_at_its_limit(one) || !was_at_its_limit(other) {
        (Spread::of_ratios(&one.capacities(), &other.capacities()), "for the same processor time")
    } else {
        (Spread::of_ratios(&one.rates(), &other.rates()), "in the same time")
    }
}

/// A table of all that a sample tells, with the ratio to `reference` by both measures.
pub fn table(name: &str, title: &str, note: &str, servers: &[Rounds], reference: &str) -> Table {
    let base = servers.iter().find(|rounds| rounds.label == reference);
    let mut columns = vec![
        Column::new("answers a second", Unit::Count),
        Column::new("processor time an answer", Unit::Micros),
        Column::new("p50", Unit::Micros),
        Column::new("p99", Unit::Micros),
        Column::new("p99.9", Unit::Micros),
        Column::new("server busy", Unit::Share),
        Column::new("generator busy", Unit::Share),
    ];
    if base.is_some() {
        columns.push(Column::new(format!("× {reference}, answers a second"), Unit::Ratio));
        columns.push(Column::new(format!("× {reference}, answers for processor time"), Unit::Ratio));
    }
    let rows = servers.iter().map(|rounds| {
        let mut cells = vec![
            rounds.spread(Sample::rate),
            rounds.spread(Sample::cost),
            rounds.spread(|sample| sample.p50),
            rounds.spread(|sample| sample.p99),
            rounds.spread(|sample| sample.p999),
            Spread::exactly(rounds.spread(Sample::busy).median),
            Spread::exactly(rounds.spread(|sample| sample.generator).median),
        ];
        if let Some(base) = base {
            cells.push(Spread::of_ratios(&rounds.rates(), &base.rates()));
            cells.push(Spread::of_ratios(&rounds.capacities(), &base.capacities()));
        }
        Row::new(&rounds.label, cells)
    });
    Table {
        name: name.into(),
        title: title.into(),
        note: note.into(),
        rows: rows.collect(),
        columns,
        plotted: Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(rate: u64, server: f64, generator: f64) -> Rounds {
        let sample = Sample { answers: rate, seconds: 1.0, server, generator, ..Sample::default() };
        Rounds { label: rate.to_string(), samples: vec![sample] }
    }

    #[test]
    fn servers_at_their_limit_are_compared_by_the_clock() {
        let (ratio, by) = ratio(&rounds(200, 1.0, 0.9), &rounds(100, 1.0, 0.5));
        assert_eq!((ratio.median, by), (2.0, "in the same time"));
    }

    #[test]
    fn where_the_core_was_shared_processor_time_decides() {
        let (ratio, by) = ratio(&rounds(200, 0.5, 0.6), &rounds(100, 1.0, 0.5));
        assert_eq!((ratio.median, by), (4.0, "for the same processor time"));
    }

    #[test]
    fn where_the_generator_is_at_its_limit_processor_time_decides() {
        let (ratio, by) = ratio(&rounds(200, 0.5, 1.0), &rounds(100, 1.0, 0.5));
        assert_eq!((ratio.median, by), (4.0, "for the same processor time"));
    }

    #[test]
    fn a_disturbance_is_noticed() {
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
