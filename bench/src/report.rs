//! Writes `docs/performance.md` and its plots from the stored figures, and compares them with what is there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::Bench;
use crate::figures::{Bar, Figures, Section, Table};
use crate::suites::ALL;
use crate::svg;

/// What stands before the figures and behind them.
const BEGINNING: &str = include_str!("report/beginning.md");
const END: &str = include_str!("report/end.md");

/// Takes over the last figures of each suite, and writes everything.
pub fn write(bench: &Bench) -> Result<()> {
    let stored = stored(&bench.repository);
    let mut figures = Figures::read(&stored)?;
    let order: Vec<&str> = ALL.iter().map(|suite| suite.name).collect();
    for suite in ALL {
        for section in Figures::read(&bench.out.join(format!("{}.json", suite.name)))?.sections {
            figures.replace(section, &order);
        }
    }
    ensure!(!figures.sections.is_empty(), "nothing was measured yet: scripts/bench SUITE");
    let folder = stored.parent().context("the figures are in a folder")?;
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    fs::write(&stored, figures.to_json()?)?;
    for (name, text) in compose(&figures)? {
        fs::write(bench.repository.join("docs").join(name), text)?;
    }
    let missed = figures.sections.iter().flat_map(|section| &section.bars).filter(|bar| !bar.holds());
    for bar in missed {
        bench.say(&format!(
            "missed: {}: {} ({})",
            bar.what,
            bar.unit.write(bar.measured),
            bar.unit.write(bar.wanted)
        ));
    }
    bench.say("docs/performance.md is written");
    Ok(())
}

/// An error if a document or a plot is not what the stored figures make of it.
pub fn check(bench: &Bench) -> Result<()> {
    let figures = Figures::read(&stored(&bench.repository))?;
    ensure!(!figures.sections.is_empty(), "there are no figures in docs/performance/figures.json");
    let docs = bench.repository.join("docs");
    let files = compose(&figures)?;
    for (name, text) in &files {
        let there =
            fs::read_to_string(docs.join(name)).with_context(|| format!("docs/{name} cannot be read"))?;
        ensure!(there == *text, "docs/{name} is not what its figures say: scripts/bench report");
    }
    for entry in fs::read_dir(docs.join("performance"))? {
        let name = format!("performance/{}", entry?.file_name().display());
        ensure!(files.contains_key(&name) || name.ends_with("/figures.json"), "docs/{name} is of no figure");
    }
    bench.say("docs/performance.md says what its figures say");
    Ok(())
}

fn stored(repository: &Path) -> PathBuf {
    repository.join("docs/performance/figures.json")
}

/// The document and its plots, by their names in `docs`.
fn compose(figures: &Figures) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut text = BEGINNING.to_owned();
    machine(&mut text, figures)?;
    bars(&mut text, figures)?;
    for section in &figures.sections {
        describe(&mut text, section, &mut files)?;
    }
    text += "\n";
    text += END;
    files.insert("performance.md".to_owned(), text);
    Ok(files)
}

/// Once, where all suites were measured on the same one with the same programs.
fn machine(text: &mut String, figures: &Figures) -> Result<()> {
    text.push_str("\n## The machine\n");
    let mut machines: Vec<&[(String, String)]> = Vec::new();
    for section in &figures.sections {
        if !machines.contains(&section.machine.as_slice()) {
            machines.push(&section.machine);
        }
    }
    for pairs in &machines {
        if machines.len() > 1 {
            let suites = figures.sections.iter().filter(|section| section.machine == **pairs);
            let suites: Vec<&str> = suites.map(|section| section.suite.as_str()).collect();
            writeln!(text, "\nFor {}:", suites.join(", "))?;
        }
        text.push_str("\n| | |\n| --- | --- |\n");
        for (what, which) in *pairs {
            writeln!(text, "| {what} | {which} |")?;
        }
    }
    Ok(())
}

fn bars(text: &mut String, figures: &Figures) -> Result<()> {
    text.push_str(
        "\n## What was to be reached\n\n| | bar | measured | reached |\n| --- | ---: | ---: | --- |\n",
    );
    for bar in figures.sections.iter().flat_map(|section| &section.bars) {
        let sign = sign(bar);
        let reached = if bar.holds() { "yes" } else { "**no**" };
        let (wanted, measured) = (bar.unit.write(bar.wanted), bar.unit.write(bar.measured));
        writeln!(text, "| {} | {sign} {wanted} | {measured} | {reached} |", bar.what)?;
    }
    Ok(())
}

fn sign(bar: &Bar) -> &'static str {
    if bar.at_least { "≥" } else { "≤" }
}

fn describe(text: &mut String, section: &Section, files: &mut BTreeMap<String, String>) -> Result<()> {
    let title =
        ALL.iter().find(|suite| suite.name == section.suite).map_or(&*section.suite, |suite| suite.title);
    writeln!(text, "\n## {title}\n\nMeasured on {} by `scripts/bench {}`.", section.measured, section.suite)?;
    let about = about(&section.suite);
    if !about.is_empty() {
        writeln!(text, "\n{}", about.trim())?;
    }
    text.push('\n');
    for (what, which) in &section.conditions {
        writeln!(text, "- {what}: {which}")?;
    }
    for curve in &section.curves {
        if let Some(plot) = svg::lines(curve) {
            let name = format!("performance/{}.svg", curve.name);
            writeln!(text, "\n![{}]({name})", curve.title)?;
            files.insert(name, plot);
        }
    }
    for table in &section.tables {
        tabulate(text, table)?;
        if let Some(plot) = table.plotted.and_then(|column| svg::bars(table, column)) {
            let name = format!("performance/{}.svg", table.name);
            writeln!(text, "\n![{}]({name})", table.title)?;
            files.insert(name, plot);
        }
    }
    Ok(())
}

fn tabulate(text: &mut String, table: &Table) -> Result<()> {
    writeln!(text, "\n### {}\n", table.title)?;
    if !table.note.is_empty() {
        writeln!(text, "{}\n", table.note)?;
    }
    let titles: Vec<&str> = table.columns.iter().map(|column| column.title.as_str()).collect();
    writeln!(text, "| | {} |\n| --- |{}", titles.join(" | "), " ---: |".repeat(titles.len()))?;
    for row in &table.rows {
        write!(text, "| {} |", row.label)?;
        for (cell, column) in row.cells.iter().zip(&table.columns) {
            let cell = cell.as_ref().map_or(String::new(), |spread| column.unit.write_spread(spread));
            write!(text, " {cell} |")?;
        }
        text.push('\n');
    }
    Ok(())
}

/// A suite's tables and bars as text, for whoever waits for them.
pub fn brief(section: &Section) -> Result<String> {
    let mut text = String::new();
    for table in &section.tables {
        tabulate(&mut text, table)?;
    }
    text.push('\n');
    for bar in &section.bars {
        let (sign, reached) = (sign(bar), if bar.holds() { "reached" } else { "MISSED " });
        let (wanted, measured) = (bar.unit.write(bar.wanted), bar.unit.write(bar.measured));
        writeln!(text, "{reached}  {}: {measured}, wanted {sign} {wanted}", bar.what)?;
    }
    Ok(text)
}

/// What is to be said of a suite beside its figures.
fn about(suite: &str) -> &'static str {
    match suite {
        "pages" => include_str!("report/pages.md"),
        "connections" => include_str!("report/connections.md"),
        "tls" => include_str!("report/tls.md"),
        "memory" => include_str!("report/memory.md"),
        "submissions" => include_str!("report/submissions.md"),
        "loading" => include_str!("report/loading.md"),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Column, Row, Unit};
    use crate::rounds::Spread;

    fn figures(wanted: f64) -> Figures {
        let table = Table {
            name: "pages-html".into(),
            title: "HTML".into(),
            columns: vec![Column::new("answers a second", Unit::Count)],
            rows: vec![Row::new("frontdesk", [Spread { median: 2000.0, least: 1000.0, most: 3000.0 }])],
            plotted: Some(0),
            ..Table::default()
        };
        Figures {
            sections: vec![Section {
                suite: "pages".into(),
                measured: "2026-11-20".into(),
                machine: vec![("cores".into(), "2".into())],
                conditions: vec![("rounds".into(), "5".into())],
                tables: vec![table],
                curves: Vec::new(),
                bars: vec![Bar::at_least("HTML", wanted, 1.7, Unit::Ratio)],
            }],
        }
    }

    #[test]
    fn the_report_has_what_the_figures_say() {
        let files = compose(&figures(1.6)).expect("it can be composed");
        let text = &files["performance.md"];
        for part in [
            "| HTML | ≥ 1.60 × | 1.70 × | yes |",
            "| frontdesk | 2,000 (1,000–3,000) |",
            "![HTML](performance/pages-html.svg)",
            "| cores | 2 |",
            "Measured on 2026-11-20 by `scripts/bench pages`.",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(files["performance/pages-html.svg"].contains("frontdesk"));
    }

    #[test]
    fn a_bar_that_was_missed_stands_out() {
        let files = compose(&figures(1.8)).expect("it can be composed");
        assert!(files["performance.md"].contains("| HTML | ≥ 1.80 × | 1.70 × | **no** |"));
    }
}
