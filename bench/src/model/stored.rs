//! What was measured, as `docs/scale/figures.json` keeps it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::figures::{Unit, flatten};
use crate::rounds::Spread;

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// The day.
    pub measured: String,
    /// Where: pairs of what and which.
    pub machine: Vec<(String, String)>,
    /// How often.
    pub rounds: usize,
    /// How long each time.
    pub seconds: f64,
    /// What a submission takes.
    pub keeping: Keeping,
    /// The same, until it is delivered.
    pub delivering: Delivering,
    /// What it comes to.
    pub bytes: Bytes,
    /// Where model and machine were compared.
    pub points: Vec<Point>,
}

/// What keeping a submission takes, in microseconds: of a processor, where nothing else is said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Keeping {
    /// How many a second were kept by one desk with all connections busy.
    pub most: Spread,
    /// A desk's, for each.
    pub desk: f64,
    /// A desk's, for a batch.
    pub desk_batch: f64,
    /// Redis's, for each.
    pub redis: f64,
    /// PostgreSQL's, for each.
    pub postgres: f64,
    /// PostgreSQL's, for a batch.
    pub postgres_batch: f64,
    /// Of the disk that syncs PostgreSQL's log.
    pub sync: f64,
    /// What a batch waits for beside that.
    pub wait: f64,
}

/// What keeping and delivering a submission takes, into one Maildir: microseconds of a processor, where nothing else is said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivering {
    /// PostgreSQL's, for each of a few.
    pub alone: f64,
    /// PostgreSQL's, for each of many that come at once.
    pub many: f64,
    /// A desk's, likewise.
    pub desk: f64,
    /// So many were delivered a second then.
    pub rate: Spread,
}

/// Bytes for each submission: of PostgreSQL's log, and of its tables with their indexes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bytes {
    /// Log, of an inbox that is all in recently written pages.
    pub wal_fresh: f64,
    /// Log, with its delivery.
    pub wal_delivered: f64,
    /// Log, just after a checkpoint, in an inbox that has grown.
    pub wal_cold: f64,
    /// The same with `wal_compression = lz4`.
    pub wal_compressed: f64,
    /// Of the table of submissions.
    pub submission: f64,
    /// Of the deliveries.
    pub delivery: f64,
    /// Of the attempts to deliver.
    pub attempt: f64,
}

impl Bytes {
    /// On the disk, of all tables together.
    pub fn kept(&self) -> f64 {
        self.submission + self.delivery + self.attempt
    }
}

/// One load at which model and machine were compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// What load.
    pub what: String,
    /// Requests a second.
    pub rate: f64,
    /// What was compared.
    pub figures: Vec<Compared>,
}

/// A figure that the model has said and the machine has shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// What it is.
    pub what: String,
    /// How it is written.
    pub unit: Unit,
    /// What the model says.
    pub predicted: f64,
    /// What was measured.
    pub measured: Spread,
}

impl Compared {
    /// One figure.
    pub fn new(what: &str, unit: Unit, predicted: f64, measured: Spread) -> Self {
        Self { what: what.to_owned(), unit, predicted, measured }
    }

    /// By which share the model is above what was measured, or below it.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured.median - 1.0
    }
}

impl Stored {
    /// Where it is kept.
    pub fn path(repository: &Path) -> PathBuf {
        repository.join("docs/scale/figures.json")
    }

    /// What was measured last.
    pub fn read(repository: &Path) -> Result<Self> {
        let path = Self::path(repository);
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!("{} cannot be read: scripts/bench model --measure makes it", path.display())
        })?;
        serde_json::from_str(&text).with_context(|| format!("{} is not as it should be", path.display()))
    }

    /// Keeps it.
    pub fn write(&self, repository: &Path) -> Result<()> {
        let path = Self::path(repository);
        std::fs::create_dir_all(path.parent().context("it is in a folder")?)?;
        std::fs::write(&path, flatten(&serde_json::to_string_pretty(self)?) + "\n")?;
        Ok(())
    }
}
