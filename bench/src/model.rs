//! Predicts the capacity of several machines by simulation, from costs measured on one core. Writes the
//! tables in `docs/pages/scale.md`.

mod calibration;
mod measure;
mod queue;
mod submissions;
mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::figures;
use crate::{Bench, report};

/// Number of requests or submissions to simulate for each table row.
const SIMULATED: usize = 400_000;

const DOCUMENT: &str = "docs/pages/scale.md";
const FIGURES: &str = "docs/assets/scale/figures.json";
const END_OF_TABLE: &str = "<!-- end of table -->";

/// Measures the costs, compares the model's predictions with measurements, and writes the tables.
pub fn measure(bench: &Bench) -> Result<()> {
    figures::write(Path::new(FIGURES), &measure::run(bench)?)?;
    write(bench)
}

pub fn write(bench: &Bench) -> Result<()> {
    fs::write(DOCUMENT, fill_in_tables(&fs::read_to_string(DOCUMENT)?)?)?;
    bench.log("wrote the tables in docs/pages/scale.md");
    Ok(())
}

pub fn check(bench: &Bench) -> Result<()> {
    let text = fs::read_to_string(DOCUMENT)?;
    ensure!(text == fill_in_tables(&text)?, "{DOCUMENT} does not match its figures: run scripts/bench model");
    bench.log("docs/pages/scale.md matches its figures and those of docs/pages/performance.md");
    Ok(())
}

fn fill_in_tables(text: &str) -> Result<String> {
    let pages = figures::read(Path::new(report::FIGURES))?;
    let calibration = figures::read(Path::new(FIGURES)).context("run scripts/bench model --measure first")?;
    replace_tables(text, &tables::all_tables(&pages, &calibration)?).context(DOCUMENT)
}

/// Replaces each table between `<!-- table: NAME -->` and the end marker. The document and `tables` must
/// contain the same names.
fn replace_tables(document: &str, tables: &BTreeMap<&str, String>) -> Result<String> {
    let mut text = String::with_capacity(document.len());
    let mut placed = Vec::new();
    let mut rest = document;
    while let Some((before, from)) = rest.split_once("<!-- table: ") {
        let (name, inside) = from.split_once(" -->").context("the marker of a table is not closed")?;
        let (_, after) =
            inside.split_once(END_OF_TABLE).with_context(|| format!("table '{name}' has no end marker"))?;
        let table = tables.get(name).with_context(|| format!("unknown table '{name}'"))?;
        text += before;
        text += &format!("<!-- table: {name} -->\n\n{table}\n{END_OF_TABLE}");
        placed.push(name);
        rest = after;
    }
    for name in tables.keys() {
        ensure!(placed.contains(name), "the document has no marker for the table '{name}'");
    }
    Ok(text + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "before\n<!-- table: a -->\nold\n<!-- end of table -->\nafter\n";

    #[test]
    fn a_new_table_replaces_the_old_one() {
        let tables = BTreeMap::from([("a", "| new |\n".to_owned())]);
        let filled = replace_tables(DOCUMENT, &tables).expect("the document has the table");
        assert_eq!(filled, "before\n<!-- table: a -->\n\n| new |\n\n<!-- end of table -->\nafter\n");
        assert_eq!(replace_tables(&filled, &tables).ok(), Some(filled));
    }

    #[test]
    fn a_missing_table_or_place_is_an_error() {
        let named = |name| BTreeMap::from([(name, String::new())]);
        assert!(replace_tables(DOCUMENT, &named("b")).is_err());
        assert!(replace_tables("nothing", &named("a")).is_err());
        assert!(replace_tables("<!-- table: a -->", &named("a")).is_err());
    }
}
