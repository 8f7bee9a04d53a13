//! The time to load a site and to reload it after a change, by number of pages; and the comparison with
//! static site generators.

use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::Bench;
use crate::figures::{Curve, Line, Row, Section, Table, Target, Unit};
use crate::machine::Cores;
use crate::process;
use crate::rounds::Spread;

pub mod generators;

/// Numbers of pages. The last one is measured only with `--long`.
const PAGES: [u64; 6] = [10, 100, 1_000, 2_000, 10_000, 100_000];
const TARGET_PAGES: u64 = 2_000;
const MEMORY_TARGET_PAGES: u64 = 10_000;

const MEBIBYTE: f64 = 1_048_576.0;

const TIMES: [(&str, &str); 5] = [
    ("load", "first load"),
    ("again", "nothing changed"),
    ("body", "one text changed"),
    ("title", "a title changed"),
    ("template", "the template changed"),
];

/// Runs `cargo bench --bench load`, which loads sites as a server does, and site generators.
pub fn run(bench: &Bench) -> Result<Section> {
    bench.machine.run_on(Cores::Both, || measure(bench))?
}

/// The command of the load benchmark, without its options. It builds the benchmark first if necessary.
fn load_command() -> Command {
    let mut command = Command::new("cargo");
    command.args(["bench", "--quiet", "--locked", "--bench", "load", "--"]);
    command
}

fn measure(bench: &Bench) -> Result<Section> {
    let mut section = Section::default();
    section.add_condition(
        "pages",
        "generated, 8 KB of Markdown each, with links between them; a few are in the navigation",
    );
    let count = if bench.long { PAGES.len() } else { PAGES.len() - 1 };
    let mut rows = Vec::new();
    let mut lines = TIMES.map(|(_, label)| Line { label: label.to_owned(), points: Vec::new() });
    for pages in &PAGES[..count] {
        bench.log(&format!("{pages} pages"));
        let mut command = load_command();
        command.args(["--json", "--rounds", "3", "--pages", &pages.to_string()]);
        let text = process::output(&mut command)?;
        let line = text.lines().find(|line| line.starts_with('{')).context("no figures were printed")?;
        let figures: Value = serde_json::from_str(line)?;
        let figure =
            |name: &str| figures[name].as_f64().with_context(|| format!("no {name} for {pages} pages"));
        let [bodies, peak, memory] = [figure("bodies_mib")?, figure("peak_mib")?, figure("memory_mib")?];
        let mut cells = [bodies, peak, memory].map(|figure| figure * MEBIBYTE).to_vec();
        for ((name, _), line) in TIMES.iter().zip(&mut lines) {
            let took = figure(&format!("{name}_ms"))?;
            cells.push(took);
            line.points.push((*pages as f64, Spread::exactly(took)));
        }
        if *pages == TARGET_PAGES {
            let [load, body] = [figure("load_ms")?, figure("body_ms")?];
            section.targets = vec![
                Target::at_most("2,000 pages: first load", 500.0, load, Unit::Millis),
                Target::at_most("2,000 pages: reload, one text changed", 20.0, body, Unit::Millis),
            ];
        }
        if *pages == MEMORY_TARGET_PAGES {
            let name = "10,000 pages: peak memory of the first load";
            section.targets.push(Target::at_most(name, 600.0 * MEBIBYTE, peak * MEBIBYTE, Unit::Bytes));
        }
        rows.push(Row::new(format!("{pages} pages"), cells.into_iter().map(Spread::exactly)));
        section.record(&pages.to_string(), "frontdesk", &[figures])?;
    }
    let columns = ["bodies", "peak, first load", "memory"].map(|title| (title, Unit::Bytes)).into_iter();
    let columns = columns.chain(TIMES.map(|(_, title)| (title, Unit::Millis)));
    let title = "Time until a site can be served";
    let note = "Minimum of three, on both cores. The peak is that of resident memory until the end of the first load. The memory is that of the benchmark after \
                several loads.";
    section.tables.push(Table::new("loading", title, note, columns, rows));
    let (title, millis) = (format!("{title}, by number of pages"), ("milliseconds", Unit::Millis));
    section.curves.push(Curve::new("loading", &title, "pages", millis, true, lines));
    generators::compare(bench, &mut section)?;
    Ok(section)
}
