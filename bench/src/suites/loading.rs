//! Loading: how long a site takes until it can be served, by how many pages it has, and how long after an edit.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Outcome, Raw};
use crate::Bench;
use crate::figures::{Bar, Column, Curve, Line, Row, Table, Unit};
use crate::rounds::Spread;

/// How many pages there are; the last one only in a long run.
const PAGES: [u64; 6] = [10, 100, 1_000, 2_000, 10_000, 100_000];
/// Of this size the bars speak.
const MEASURED: u64 = 2_000;

/// What is told of each size, by its name in the benchmark.
const WHAT: [(&str, &str); 5] = [
    ("load", "first load"),
    ("again", "nothing changed"),
    ("body", "one text changed"),
    ("title", "a title changed"),
    ("template", "the template changed"),
];

/// Has the benchmark of the repository measure it, which loads sites as a server does.
pub fn run(bench: &Bench) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    outcome.condition(
        "pages",
        "generated, 8 KB of Markdown each; all of them link to others, and a few are in the navigation",
    );
    let count = if bench.long { PAGES.len() } else { PAGES.len() - 1 };
    let mut rows = Vec::new();
    let mut lines = WHAT.map(|(_, label)| Line { label: label.into(), points: Vec::new() });
    for pages in &PAGES[..count] {
        bench.say(&format!("{pages} pages"));
        let figures = measure(bench, *pages)?;
        let figure = |name: &str| {
            let figure = figures[name].as_f64().with_context(|| format!("no {name} of {pages} pages"))?;
            Ok::<_, anyhow::Error>(Spread::exactly(figure))
        };
        let mut cells = vec![megabytes(&figure("bodies_mib")?), megabytes(&figure("memory_mib")?)];
        for ((name, _), line) in WHAT.iter().zip(&mut lines) {
            let took = figure(&format!("{name}_ms"))?;
            cells.push(took);
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            line.points.push((*pages as f64, took));
        }
        if *pages == MEASURED {
            let [load, _, body, ..] = &lines;
            let last = |line: &Line| line.points.last().map_or(f64::NAN, |(_, took)| took.median);
            outcome.bars = vec![
                Bar::at_most("2,000 pages: first load", 1_000.0, last(load), Unit::Millis),
                Bar::at_most("2,000 pages: again, one text changed", 50.0, last(body), Unit::Millis),
            ];
        }
        rows.push(Row::new(format!("{pages} pages"), cells));
        outcome.raw.push(Raw { case: pages.to_string(), server: "frontdesk".into(), seen: figures });
    }
    let mut columns = vec![Column::new("bodies", Unit::Bytes), Column::new("memory", Unit::Bytes)];
    columns.extend(WHAT.map(|(_, title)| Column::new(title, Unit::Millis)));
    outcome.tables.push(Table {
        name: "loading".into(),
        title: "Until a site can be served".into(),
        note: "The quickest of three, on both cores. Memory is that of a process which has loaded the site several times, and not what a server keeps.".into(),
        columns,
        rows,
        plotted: None,
    });
    outcome.curves.push(Curve {
        name: "loading".into(),
        title: "Until a site can be served, by its pages".into(),
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
