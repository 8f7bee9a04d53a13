//! The contents of `docs/assets/scale/figures.json`: the measured costs that the model uses, and its
//! predictions compared with measurements.

use serde::{Deserialize, Serialize};

use super::submissions::Costs;
use crate::figures::Unit;
use crate::rounds::Spread;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    pub measured: String,
    pub machine: Vec<(String, String)>,
    pub rounds: usize,
    pub seconds: f64,
    /// Submissions per second that one replica stored while all connections were busy.
    pub max_rate: Spread,
    pub costs: Costs,
    pub delivery: DeliveryCosts,
    pub bytes: SubmissionBytes,
    pub comparisons: Vec<Comparison>,
}

/// CPU time in microseconds to store a submission and deliver it to one Maildir, and deliveries per second
/// (`rate`). All of them were measured at the highest rate, except for `postgres_low_rate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveryCosts {
    pub postgres_low_rate: f64,
    pub postgres: f64,
    pub replica: f64,
    pub rate: Spread,
}

/// Bytes per submission, in the write-ahead log (WAL) and in the tables with their indexes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubmissionBytes {
    /// WAL bytes if all affected database pages have been written recently.
    pub wal_fresh: f64,
    pub wal_delivered: f64,
    /// WAL bytes in a large inbox just after a checkpoint.
    pub wal_cold: f64,
    /// Like `wal_cold`, but with `wal_compression = lz4`.
    pub wal_compressed: f64,
    pub submission: f64,
    pub delivery: f64,
    pub attempt: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub load: String,
    /// Requests per second.
    pub rate: f64,
    pub figures: Vec<ComparedFigure>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedFigure {
    pub name: String,
    pub unit: Unit,
    pub predicted: f64,
    pub measured: Spread,
}

impl ComparedFigure {
    pub fn new(name: &str, unit: Unit, predicted: f64, measured: Spread) -> Self {
        Self { name: name.to_owned(), unit, predicted, measured }
    }
}
