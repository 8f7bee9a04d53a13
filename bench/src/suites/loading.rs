//! Loading time of a site, by number of pages, and reload time after a change.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Outcome, RawRound};
use crate::Bench;
use crate::figures::{Column, Curve, Line, Row, Table, Target, Unit};
use crate::rounds::Spread;

/// Sizes of the site. The last one is measured only in a long run.
const PAGES: [u64; 6] = [10, 100, 1_000, 2_000, 10_000, 100_000];
/// Size for the targets.
const TARGET_PAGES: u64 = 2_000;

/// Names in the output of the benchmark, and titles.
const TIMES: [(&str, &str); 5] = [
    ("load", "first load"),
    ("again", "nothing changed"),
    ("body", "one text changed"),
    ("title", "a title changed"),
    ("template", "the template changed"),
];

/// Runs `cargo bench --bench load`, which loads sites like a server.
pub fn run(bench: &Bench) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    outcome.condition(
        "pages",
        "generated, 8 KB of Markdown each, with links between them; a few are in the navigation",
    );
    let count = if bench.long { PAGES.len() } else { PAGES.len() - 1 };
    let mut rows = Vec::new();
    let mut lines = TIMES.map(|(_, label)| Line { label: label.into(), points: Vec::new() });
    for pages in &PAGES[..count] {
        bench.log(&format!("{pages} pages"));
        let figures = measure(bench, *pages)?;
        let figure = |name: &str| {
            let figure = figures[name].as_f64().with_context(|| format!("no {name} of {pages} pages"))?;
            Ok::<_, anyhow::Error>(Spread::exactly(figure))
        };
        let mut cells = vec![megabytes(&figure("bodies_mib")?), megabytes(&figure("memory_mib")?)];
        for ((name, _), line) in TIMES.iter().zip(&mut lines) {
            let took = figure(&format!("{name}_ms"))?;
            cells.push(took);
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            line.points.push((*pages as f64, took));
        }
        if *pages == TARGET_PAGES {
            let [load, _, body, ..] = &lines;
            let last = |line: &Line| line.points.last().map_or(f64::NAN, |(_, took)| took.median);
            outcome.targets = vec![
                Target::at_most("2,000 pages: first load", 1_000.0, last(load), Unit::Millis),
                Target::at_most("2,000 pages: reload, one text changed", 50.0, last(body), Unit::Millis),
            ];
        }
        rows.push(Row::new(format!("{pages} pages"), cells));
        outcome.raw.push(RawRound { case: pages.to_string(), server: "frontdesk".into(), result: figures });
    }
    let mut columns = vec![Column::new("bodies", Unit::Bytes), Column::new("memory", Unit::Bytes)];
    columns.extend(TIMES.map(|(_, title)| Column::new(title, Unit::Millis)));
    outcome.tables.push(Table {
        name: "loading".into(),
        title: "Time until a site can be served".into(),
        note: "Minimum of three, on both cores. The memory is that of the benchmark, which loads the site several times.".into(),
        columns,
        rows,
        plotted: None,
    });
    outcome.curves.push(Curve {
        name: "loading".into(),
        title: "Time until a site can be served, by number of pages".into(),
        x: "pages".into(),
        y: Column::new("milliseconds", Unit::Millis),
        log_y: true,
        lines: lines.into(),
    });
    Ok(outcome)
}

fn megabytes(figure: &Spread) -> Spread {
    Spread::exactly(figure.median * 1_048_576.0)
}

fn measure(bench: &Bench, pages: u64) -> Result<Value> {
    let mut command = Command::new("cargo");
    command.current_dir(&bench.repository).args(["bench", "--quiet", "--locked", "--bench", "load", "--"]);
    let output = command.args(["--json", "--rounds", "3", "--pages", &pages.to_string()]).output()?;
    ensure!(output.status.success(), "cargo bench: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().find(|line| line.starts_with('{')).context("the benchmark prints no figures")?;
    Ok(serde_json::from_str(line)?)
}
