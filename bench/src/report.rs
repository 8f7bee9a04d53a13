//! Writes `docs/pages/performance.md` with its plots, and the tables of `docs/pages/scale.md`, from the
//! stored figures; or checks that they match.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::figures::{self, Column, Figures, Section, Table, Unit};
use crate::settings::{Bench, report_progress};
use crate::suites;
use crate::svg;

const INTRODUCTION: &str = include_str!("report/introduction.md");
const METHOD: &str = include_str!("report/method.md");
const CONCLUSION: &str = include_str!("report/conclusion.md");

/// The suites in `docs/pages/performance.md`, with a title and a text.
const CHAPTERS: [(&str, &str, &str); 7] = [
    ("pages", "Pages", include_str!("report/pages.md")),
    ("connections", "Connections", include_str!("report/connections.md")),
    ("tls", "HTTPS", include_str!("report/tls.md")),
    ("memory", "Memory", include_str!("report/memory.md")),
    ("submissions", "Submissions", include_str!("report/submissions.md")),
    ("sustained", "Submissions for a minute", include_str!("report/sustained.md")),
    ("loading", "Loading a site", include_str!("report/loading.md")),
];

/// The page with the tables of the suite `scale`.
const SCALE: &str = "pages/scale.md";
const END_OF_TABLE: &str = "<!-- end of table -->";

const PLOTS: &str = "docs/assets/performance";
const FIGURES: &str = "docs/assets/performance/figures.json";

/// Columns that are stored, but omitted from the document.
const HIDDEN_COLUMNS: [&str; 4] = ["p99.9", "server CPU", "generator CPU", "requests per CPU time"];

/// Merges the figures in the output folder into the stored ones, and writes both documents and the plots,
/// which replace all earlier plots.
pub fn write(bench: &Bench) -> Result<()> {
    let mut figures = figures::read(Path::new(FIGURES))?;
    let order = suites::ALL.map(|(name, _)| name);
    for name in order {
        let path = bench.out.join(format!("{name}.json"));
        if path.exists() {
            figures.sections.retain(|section| section.suite != name);
            figures.sections.extend(figures::read(&path)?.sections);
        }
    }
    figures.sections.sort_by_key(|section| order.iter().position(|known| *known == section.suite));
    fs::remove_dir_all(PLOTS)?;
    figures::write(Path::new(FIGURES), &figures)?;
    for (name, text) in compose_documents(&figures)? {
        fs::write(Path::new("docs").join(name), text)?;
    }
    report_progress("wrote docs/pages/performance.md and docs/pages/scale.md");
    Ok(())
}

/// Fails if a document or a plot does not match the stored figures.
pub fn check() -> Result<()> {
    let figures = figures::read(Path::new(FIGURES))?;
    for (name, text) in compose_documents(&figures)? {
        let stored = fs::read_to_string(Path::new("docs").join(&name));
        let stored = stored.with_context(|| format!("cannot read docs/{name}"))?;
        ensure!(stored == text, "docs/{name} does not match its figures: run scripts/bench report");
    }
    report_progress("docs/pages/performance.md and docs/pages/scale.md match their figures");
    Ok(())
}

/// Composes both documents and the plots, keyed by their names in `docs`.
fn compose_documents(figures: &Figures) -> Result<BTreeMap<String, String>> {
    let scale = Path::new("docs").join(SCALE);
    let scale = replace_tables(&fs::read_to_string(&scale)?, figures).context(SCALE)?;
    let mut files = compose_report(figures)?;
    files.insert(SCALE.to_owned(), scale);
    Ok(files)
}

/// Replaces each table between `<!-- table: NAME -->` and the end marker.
fn replace_tables(document: &str, figures: &Figures) -> Result<String> {
    let mut text = String::new();
    let mut rest = document;
    while let Some((before, from)) = rest.split_once("<!-- table: ") {
        let (name, inside) = from.split_once(" -->").context("the marker of a table is not closed")?;
        let (_, after) =
            inside.split_once(END_OF_TABLE).with_context(|| format!("table '{name}' has no end marker"))?;
        let table = figures.table(name).with_context(|| format!("unknown table '{name}'"))?;
        write!(text, "{before}<!-- table: {name} -->\n\n")?;
        write_rows(&mut text, table)?;
        write!(text, "\n{END_OF_TABLE}")?;
        rest = after;
    }
    Ok(text + rest)
}

/// Composes `docs/pages/performance.md` and its plots.
fn compose_report(figures: &Figures) -> Result<BTreeMap<String, String>> {
    let is_shown = |section: &&Section| CHAPTERS.iter().any(|(suite, ..)| *suite == section.suite);
    let figures = &Figures { sections: figures.sections.iter().filter(is_shown).cloned().collect() };
    let mut files = BTreeMap::new();
    let mut text = INTRODUCTION.to_owned();
    write_highlights(&mut text, figures)?;
    write_targets(&mut text, &figures.sections)?;
    for section in &figures.sections {
        write_section(&mut text, section, &mut files)?;
    }
    text.push('\n');
    text += CONCLUSION;
    text += METHOD;
    write_machines(&mut text, figures)?;
    files.insert("pages/performance.md".to_owned(), text);
    Ok(files)
}

/// Writes the table of the most important figures, except those that were not measured.
fn write_highlights(text: &mut String, figures: &Figures) -> Result<()> {
    text.push_str("\n| | frontdesk |\n| --- | ---: |\n");
    for (name, table, row, column, unit) in [
        ("HTML pages of 1 KB, HTTP/1.1, requests/s", "pages-html-1k", "frontdesk", "requests/s", Unit::Count),
        ("relative to nginx", "pages-html-1k", "frontdesk", "× nginx, requests/s", Unit::Ratio),
        ("new TLS connections/s", "tls-handshakes", "frontdesk", "requests/s", Unit::Count),
        ("relative to nginx", "tls-handshakes", "frontdesk", "× nginx, requests/s", Unit::Ratio),
        ("submissions/s, 64 visitors", "submissions-64", "frontdesk", "requests/s", Unit::Count),
        ("p99 of a submission, 64 visitors", "submissions-64", "frontdesk", "p99", Unit::Micros),
        ("memory when idle", "memory-idle", "frontdesk", "resident", Unit::Bytes),
        ("first load of a site with 2,000 pages", "loading", "2000 pages", "first load", Unit::Millis),
    ] {
        if let Some(cell) = figures.table(table).and_then(|table| table.cell(row, column)) {
            writeln!(text, "| {name} | {} |", unit.format(cell.median))?;
        }
    }
    Ok(())
}

/// Writes the machines and versions. If suites were measured on different ones, names the suites of each.
fn write_machines(text: &mut String, figures: &Figures) -> Result<()> {
    text.push_str("\n## Machine and versions\n");
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
        for (name, value) in *pairs {
            writeln!(text, "| {name} | {value} |")?;
        }
    }
    Ok(())
}

/// Writes the table of all targets, and whether they are met.
fn write_targets(text: &mut String, sections: &[Section]) -> Result<()> {
    text.push_str("\n## Targets\n\n| | target | measured | met |\n| --- | ---: | ---: | --- |\n");
    for target in sections.iter().flat_map(|section| &section.targets) {
        let is_met = if target.is_met() { "yes" } else { "**no**" };
        let sign = if target.at_least { "≥" } else { "≤" };
        let [threshold, measured] =
            [target.threshold, target.measured].map(|value| target.unit.format(value));
        writeln!(text, "| {} | {sign} {threshold} | {measured} | {is_met} |", target.name)?;
    }
    Ok(())
}

/// Writes the conditions, plots and tables of a suite. Adds the plots to `files`.
fn write_section(text: &mut String, section: &Section, files: &mut BTreeMap<String, String>) -> Result<()> {
    let (_, title, about) = CHAPTERS
        .iter()
        .find(|(suite, ..)| *suite == section.suite)
        .with_context(|| format!("unknown suite {}", section.suite))?;
    writeln!(text, "\n## {title}\n\n{about}")?;
    writeln!(text, "- measured: {}, `scripts/bench {}`", section.measured, section.suite)?;
    for (name, value) in &section.conditions {
        writeln!(text, "- {name}: {value}")?;
    }
    for curve in &section.curves {
        if let Some(plot) = svg::draw_lines(curve) {
            let name = format!("assets/performance/{}.svg", curve.name);
            writeln!(text, "\n![{}](../{name})", curve.title)?;
            files.insert(name, plot);
        }
    }
    for table in &section.tables {
        write_table(text, table)?;
        if let Some(plot) = svg::draw_bars(table) {
            let name = format!("assets/performance/{}.svg", table.name);
            writeln!(text, "\n![{}](../{name})", table.title)?;
            files.insert(name, plot);
        }
    }
    Ok(())
}

fn write_table(text: &mut String, table: &Table) -> Result<()> {
    writeln!(text, "\n### {}\n", table.title)?;
    if !table.note.is_empty() {
        writeln!(text, "{}\n", table.note)?;
    }
    write_rows(text, table)
}

/// Writes the shown columns, with ranges of counts and ratios.
fn write_rows(text: &mut String, table: &Table) -> Result<()> {
    let is_shown = |column: &&Column| HIDDEN_COLUMNS.iter().all(|hidden| !column.title.ends_with(hidden));
    let titles: Vec<&str> = table.columns.iter().filter(is_shown).map(|column| &*column.title).collect();
    writeln!(text, "| | {} |\n| --- |{}", titles.join(" | "), " ---: |".repeat(titles.len()))?;
    for row in &table.rows {
        write!(text, "| {} |", row.label)?;
        for (cell, column) in row.cells.iter().zip(&table.columns).filter(|(_, column)| is_shown(column)) {
            let cell = match column.unit {
                Unit::Count | Unit::Ratio => column.unit.format_spread(cell),
                unit => unit.format(cell.median),
            };
            write!(text, " {cell} |")?;
        }
        text.push('\n');
    }
    Ok(())
}

/// The tables and targets of a section, for the terminal.
pub fn summary(section: &Section) -> Result<String> {
    let mut text = String::new();
    for table in &section.tables {
        write_table(&mut text, table)?;
    }
    write_targets(&mut text, std::slice::from_ref(section))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Row, Spread, Target};

    fn figures(target: f64) -> Figures {
        let row = Row::new("frontdesk", [Spread { median: 2000.0, least: 1000.0, most: 3000.0 }]);
        let table = Table::new("pages-html", "HTML", "", [("requests/s", Unit::Count)], [row]).plotted();
        Figures {
            sections: vec![Section {
                suite: "pages".into(),
                measured: "2026-11-20".into(),
                machine: vec![("cores".into(), "2".into())],
                conditions: vec![("rounds".into(), "5".into())],
                tables: vec![table],
                targets: vec![Target::at_least("HTML", target, 1.7)],
                ..Section::default()
            }],
        }
    }

    #[test]
    fn the_report_contains_the_figures() {
        let files = compose_report(&figures(1.6)).expect("it can be composed");
        let text = &files["pages/performance.md"];
        for part in [
            "| HTML | ≥ 1.60 × | 1.70 × | yes |",
            "| frontdesk | 2,000 (1,000–3,000) |",
            "![HTML](../assets/performance/pages-html.svg)",
            "| cores | 2 |",
            "- measured: 2026-11-20, `scripts/bench pages`",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(files["assets/performance/pages-html.svg"].contains("frontdesk"));
    }

    #[test]
    fn a_missed_target_is_marked() {
        let files = compose_report(&figures(1.8)).expect("it can be composed");
        assert!(files["pages/performance.md"].contains("| HTML | ≥ 1.80 × | 1.70 × | **no** |"));
    }

    #[test]
    fn a_new_table_replaces_the_old_one() {
        let page = "before\n<!-- table: pages-html -->\nold\n<!-- end of table -->\nafter\n";
        let filled = replace_tables(page, &figures(1.6)).expect("the table is known");
        assert!(filled.starts_with("before\n<!-- table: pages-html -->\n\n| | requests/s |\n"), "{filled}");
        assert!(filled.ends_with("| frontdesk | 2,000 (1,000–3,000) |\n\n<!-- end of table -->\nafter\n"));
        assert_eq!(replace_tables(&filled, &figures(1.6)).ok(), Some(filled));
    }

    #[test]
    fn an_unknown_or_open_table_is_an_error() {
        for page in ["<!-- table: a --><!-- end of table -->", "<!-- table: pages-html -->", "<!-- table: a"]
        {
            assert!(replace_tables(page, &figures(1.6)).is_err(), "{page}");
        }
    }
}
