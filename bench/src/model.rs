//! What several machines would do: a model of queues and batches, from what one core was measured to take. It writes the tables of `docs/scale.md`.

mod document;
mod keep;
mod measure;
mod plan;
mod queue;
pub mod random;
mod stored;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use stored::Stored;

use crate::Bench;
use crate::figures::Figures;

/// Measures what the model is made of and compared with, and then the same as [`write()`].
pub fn measure(bench: &Bench) -> Result<()> {
    measure::run(bench)?.write(&bench.repository)?;
    write(bench)
}

/// Writes the tables into the document.
pub fn write(bench: &Bench) -> Result<()> {
    fs::write(place(&bench.repository), filled(&bench.repository)?)?;
    bench.say("the tables of docs/scale.md are written");
    Ok(())
}

/// An error if the document's tables are not what figures and model say.
pub fn check(bench: &Bench) -> Result<()> {
    let there = fs::read_to_string(place(&bench.repository))?;
    ensure!(
        there == filled(&bench.repository)?,
        "docs/scale.md is not what its figures say: scripts/bench model"
    );
    bench.say("docs/scale.md says what its figures and those of docs/performance.md say");
    Ok(())
}

fn place(repository: &Path) -> PathBuf {
    repository.join("docs/scale.md")
}

fn filled(repository: &Path) -> Result<String> {
    let figures = Figures::read(&repository.join("docs/performance/figures.json"))?;
    let document = fs::read_to_string(place(repository)).context("docs/scale.md cannot be read")?;
    document::fill(&document, &plan::tables(&figures, &Stored::read(repository)?)?).context("docs/scale.md")
}
