//! Writes `docs/pages/performance.md` with its plots, and the tables of `docs/pages/scale.md`, from the
//! stored figures; or checks that they match.

mod comparison;
mod cost;
mod targets;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::figures::{self, Column, Figures, NOT_MEASURED, Row, Section, Spread, Table, Unit};
use crate::settings::{Bench, report_progress};
use crate::suites;
use crate::svg;
use crate::versions;

const INTRODUCTION: &str = include_str!("report/introduction.md");
const METHOD: &str = include_str!("report/method.md");

/// A suite in `docs/pages/performance.md`. Its other tables are only in the stored figures.
struct Chapter {
    suite: &'static str,
    title: &'static str,
    about: &'static str,
    tables: &'static [Shown],
}

/// A table of the page.
enum Shown {
    /// A row for each table that compares the cost of a request.
    Costs,
    /// Columns of stored tables with the same rows, side by side: the name of each table, and what precedes
    /// the titles of its columns.
    Columns { tables: &'static [(&'static str, &'static str)], titles: &'static [&'static str] },
}

const CHAPTERS: [Chapter; 7] = [
    Chapter {
        suite: "pages",
        title: "Pages",
        about: include_str!("report/pages.md"),
        tables: &[Shown::Costs],
    },
    Chapter {
        suite: "connections",
        title: "Connections",
        about: include_str!("report/connections.md"),
        tables: &[],
    },
    Chapter { suite: "tls", title: "HTTPS", about: include_str!("report/tls.md"), tables: &[Shown::Costs] },
    Chapter {
        suite: "memory",
        title: "Memory",
        about: include_str!("report/memory.md"),
        tables: &[Shown::Columns {
            tables: &[("memory-idle", "idle: "), ("memory-connections", "10,000 connections: ")],
            titles: &["resident", "per connection"],
        }],
    },
    Chapter {
        suite: "submissions",
        title: "Submissions",
        about: include_str!("report/submissions.md"),
        tables: &[
            Shown::Columns {
                tables: &[("submissions-64", "64 visitors: "), ("submissions-256", "256: ")],
                titles: &["requests/s", "p99"],
            },
            Shown::Columns { tables: &[("submissions-alone", "alone: ")], titles: &["p50", "p99"] },
        ],
    },
    Chapter {
        suite: "sustained",
        title: "Submissions for a minute",
        about: include_str!("report/sustained.md"),
        tables: &[Shown::Columns {
            tables: &[("submissions-sustained", "")],
            titles: &["requests/s", "p99", "processed/s", "unprocessed at the end"],
        }],
    },
    Chapter {
        suite: "loading",
        title: "Loading a site",
        about: include_str!("report/loading.md"),
        tables: &[
            Shown::Columns {
                tables: &[("loading", "")],
                titles: &["peak, first load", "first load", "one text changed"],
            },
            Shown::Columns { tables: &[("loading-generators", "")], titles: &["time", "peak memory"] },
        ],
    },
];

/// The page with the tables of the suites `scale` and `kept`.
const SCALE: &str = "pages/scale.md";
const END_OF_TABLE: &str = "<!-- end of table -->";

const PLOTS: &str = "docs/assets/performance";
const FIGURES: &str = "docs/assets/performance/figures.json";

/// Cases that are only in the stored figures, because they resemble others.
const HIDDEN_CASES: [&str; 5] =
    ["pages-png-1k", "pages-png-12k", "pages-304-12k", "pages-compressed-12k", "pages-markdown-12k"];

/// Columns that `scripts/bench SUITE` does not print.
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
        write_rows(&mut text, table, &printed_columns(table), true)?;
        write!(text, "\n{END_OF_TABLE}")?;
        rest = after;
    }
    Ok(text + rest)
}

/// Composes `docs/pages/performance.md` and its plots.
fn compose_report(figures: &Figures) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut text = INTRODUCTION.to_owned();
    cost::write_costs_of_things(&mut text, figures)?;
    let is_shown = |section: &&Section| CHAPTERS.iter().any(|chapter| chapter.suite == section.suite);
    let figures = &Figures { sections: figures.sections.iter().filter(is_shown).cloned().collect() };
    for section in &figures.sections {
        write_section(&mut text, section, &mut files)?;
    }
    targets::write_missed(&mut text, &figures.sections)?;
    text += METHOD;
    write_machines(&mut text, figures)?;
    files.insert("pages/performance.md".to_owned(), text);
    Ok(files)
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
        let known = pairs.iter().filter(|(_, value)| value != versions::NOT_FOUND);
        let described: Vec<String> = known.map(|(name, value)| format!("{name}: {value}")).collect();
        let suites = figures.sections.iter().filter(|section| section.machine == **pairs);
        let suites: Vec<&str> = suites.map(|section| section.suite.as_str()).collect();
        let scope = if machines.len() > 1 { format!("For {}: ", suites.join(", ")) } else { String::new() };
        writeln!(text, "\n{scope}{}.", described.join("; "))?;
    }
    Ok(())
}

/// Writes the conditions, plots and tables of a suite. Adds the plots to `files`.
fn write_section(text: &mut String, section: &Section, files: &mut BTreeMap<String, String>) -> Result<()> {
    let chapter = CHAPTERS.iter().find(|chapter| chapter.suite == section.suite);
    let chapter = chapter.with_context(|| format!("unknown suite {}", section.suite))?;
    write!(text, "\n## {}\n\n", chapter.title)?;
    if !chapter.about.is_empty() {
        writeln!(text, "{}\n", chapter.about.trim_end())?;
    }
    let mut facts = vec![format!("Measured {}, `scripts/bench {}`", section.measured, section.suite)];
    let conditions = section.conditions.iter().filter(|(name, _)| !is_hidden_condition(name));
    facts.extend(conditions.map(|(name, value)| format!("{name}: {value}")));
    writeln!(text, "{}.", facts.join("; "))?;
    for curve in &section.curves {
        if let Some(plot) = svg::draw_lines(curve) {
            let name = format!("assets/performance/{}.svg", curve.name);
            writeln!(text, "\n![{}](../{name})", curve.title)?;
            files.insert(name, plot);
        }
    }
    for shown in chapter.tables {
        write_shown(text, shown, &section.tables)?;
    }
    // A chart of the first table that may have one: the others are alike.
    let mut plotted = section.tables.iter().filter(|_| section.suite == "submissions");
    if let Some((table, plot)) = plotted.find_map(|table| Some((table, svg::draw_bars(table)?))) {
        let name = format!("assets/performance/{}.svg", table.name);
        writeln!(text, "\n![{}](../{name})", table.title)?;
        files.insert(name, plot);
    }
    Ok(())
}

/// Conditions that all suites share, and those that only explain targets.
fn is_hidden_condition(name: &str) -> bool {
    matches!(name, "rounds" | "disk") || name.starts_with("one sync")
}

/// Writes a table of the page, unless nothing of it was measured.
fn write_shown(text: &mut String, shown: &Shown, stored: &[Table]) -> Result<()> {
    let find = |name: &str| stored.iter().find(|table| table.name == name);
    match shown {
        Shown::Costs => {
            let is_shown =
                |table: &&Table| comparison::is_case(table) && !HIDDEN_CASES.contains(&&*table.name);
            let cases: Vec<&Table> = stored.iter().filter(is_shown).collect();
            comparison::write_costs(text, &cases)
        }
        Shown::Columns { tables, titles } => {
            let tables = tables.iter().filter_map(|(name, prefix)| Some((find(name)?, *prefix)));
            let merged = merge_columns(&tables.collect::<Vec<_>>(), titles);
            if merged.rows.is_empty() {
                return Ok(());
            }
            text.push('\n');
            write_rows(text, &merged, &merged.columns.iter().collect::<Vec<_>>(), false)
        }
    }
}

/// Joins the columns with these titles of several tables. The rows are those of the first table; a cell that
/// another one does not have is empty.
fn merge_columns(tables: &[(&Table, &str)], titles: &[&str]) -> Table {
    let Some((first, _)) = tables.first() else { return Table::default() };
    let mut columns: Vec<Column> = Vec::new();
    let mut rows: Vec<Row> = first.rows.iter().map(|row| Row::new(&row.label, [])).collect();
    for (table, prefix) in tables {
        for column in table.columns.iter().filter(|column| titles.contains(&&*column.title)) {
            columns.push((format!("{prefix}{}", column.title), column.unit).into());
            for row in &mut rows {
                row.cells.push(table.cell(&row.label, &column.title).unwrap_or_else(Spread::none));
            }
        }
    }
    Table { columns, rows, ..Table::default() }
}

fn write_title(text: &mut String, table: &Table) -> Result<()> {
    writeln!(text, "\n### {}\n", table.title)?;
    if !table.note.is_empty() {
        writeln!(text, "{}\n", table.note)?;
    }
    Ok(())
}

/// The columns that the terminal and `docs/pages/scale.md` show.
fn printed_columns(table: &Table) -> Vec<&Column> {
    let is_hidden = |column: &Column| HIDDEN_COLUMNS.iter().any(|hidden| column.title.ends_with(hidden));
    table.columns.iter().filter(|column| !is_hidden(column)).collect()
}

/// Writes these columns. `has_ranges` adds the ranges of counts and ratios; otherwise, a unit that all cells
/// of a column share stands in its title.
fn write_rows(text: &mut String, table: &Table, columns: &[&Column], has_ranges: bool) -> Result<()> {
    let mut titles = Vec::new();
    let mut cells: Vec<Vec<String>> = Vec::new();
    for column in columns {
        // Not every row has a cell in the last columns.
        let found = table.rows.iter().map_while(|row| table.cell(&row.label, &column.title));
        let mut found: Vec<String> = found.map(|cell| format_cell(column.unit, &cell, has_ranges)).collect();
        let unit = if has_ranges { None } else { take_common_unit(&mut found) };
        titles.push(unit.map_or_else(|| column.title.clone(), |unit| format!("{}, {unit}", column.title)));
        cells.push(found);
    }
    writeln!(text, "| | {} |\n| --- |{}", titles.join(" | "), " ---: |".repeat(titles.len()))?;
    for (place, row) in table.rows.iter().enumerate() {
        write!(text, "| {} |", row.label)?;
        for cell in cells.iter().filter_map(|column| column.get(place)) {
            write!(text, " {cell} |")?;
        }
        text.push('\n');
    }
    Ok(())
}

fn format_cell(unit: Unit, cell: &Spread, has_ranges: bool) -> String {
    match unit {
        Unit::Count | Unit::Ratio if has_ranges => unit.format_spread(cell),
        _ => unit.format_median(cell),
    }
}

/// Removes the unit of all cells, if they have the same one, and returns it.
fn take_common_unit(cells: &mut [String]) -> Option<String> {
    let is_measured = |cell: &&mut String| **cell != NOT_MEASURED;
    let units: Vec<String> = cells
        .iter_mut()
        .filter(is_measured)
        .map(|cell| cell.rsplit_once(' ').map_or_else(String::new, |(_, unit)| unit.to_owned()))
        .collect();
    let unit = units.first().filter(|unit| !unit.is_empty())?.clone();
    if units.iter().any(|other| *other != unit) || unit.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    for cell in cells.iter_mut().filter(is_measured) {
        cell.truncate(cell.len() - unit.len() - 1);
    }
    Some(unit)
}

/// The tables and targets of a section, for the terminal.
pub fn summary(section: &Section) -> Result<String> {
    let mut text = String::new();
    for table in &section.tables {
        write_title(&mut text, table)?;
        write_rows(&mut text, table, &printed_columns(table), true)?;
    }
    targets::write_all(&mut text, std::slice::from_ref(section))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Row, Spread, Target};

    fn figures(target: f64) -> Figures {
        let spread = |median| Spread { median, least: 1000.0, most: 3000.0 };
        let columns =
            [("requests/s", Unit::Count), ("CPU time per request", Unit::Micros), ("p99", Unit::Micros)];
        let cells = || [2000.0, 5.0, 40.0].map(spread);
        let case = Table::new("pages-html", "HTML", "", columns, [Row::new("frontdesk", cells())]).plotted();
        let form = Row::new("frontdesk", cells());
        let form = Table::new("submissions-64", "Contact form", "", columns, [form]).plotted();
        let section = |suite: &str, tables: Vec<Table>| Section {
            suite: suite.into(),
            measured: "2026-11-20".into(),
            machine: vec![("cores".into(), "2".into())],
            conditions: vec![("rounds".into(), "5".into())],
            tables,
            ..Section::default()
        };
        let pages = section("pages", vec![case]);
        let targets = vec![Target::at_least("HTML", target, 1.7)];
        Figures { sections: vec![Section { targets, ..pages }, section("submissions", vec![form])] }
    }

    #[test]
    fn the_report_contains_the_figures() {
        let files = compose_report(&figures(1.6)).expect("it can be composed");
        let text = &files["pages/performance.md"];
        for part in [
            "1 of 1 targets are met.",
            // A row of the table of costs, and a table of its own.
            "| HTML | 5.00 |",
            "| | 64 visitors: requests/s | 64 visitors: p99, µs |\n| --- | ---: | ---: |\n| frontdesk | 2,000 | 40.0 |",
            "![Contact form](../assets/performance/submissions-64.svg)",
            "\ncores: 2.\n",
            "Measured 2026-11-20, `scripts/bench pages`.",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(files["assets/performance/submissions-64.svg"].contains("frontdesk"));
        assert_eq!(files.len(), 2, "a case of the table of costs has no plot");
    }

    #[test]
    fn a_missed_target_is_listed() {
        let files = compose_report(&figures(1.8)).expect("it can be composed");
        assert!(files["pages/performance.md"].contains("| HTML | ≥ 1.80 × | 1.70 × |"));
    }

    #[test]
    fn only_a_common_unit_moves_to_the_title() {
        for (cells, expected, unit) in [
            (["1.00 ms", "> 5.00 ms"], ["1.00", "> 5.00"], Some("ms")),
            (["1.00 KB", "5.00 MB"], ["1.00 KB", "5.00 MB"], None),
            (["–", "5.00 MB"], ["–", "5.00"], Some("MB")),
            (["12", "> 15"], ["12", "> 15"], None),
            (["> 12", "> 15"], ["> 12", "> 15"], None),
        ] {
            let mut cells = cells.map(str::to_owned);
            assert_eq!(take_common_unit(&mut cells).as_deref(), unit, "{expected:?}");
            assert_eq!(cells, expected);
        }
    }

    #[test]
    fn columns_of_two_tables_stand_side_by_side() {
        let table = |rows: &[(&str, f64)]| {
            let rows = rows.iter().map(|(label, value)| Row::new(*label, [Spread::exactly(*value)]));
            Table::new("", "", "", [("p99", Unit::Micros)], rows)
        };
        let (few, many) = (table(&[("a", 1.0), ("b", 2.0)]), table(&[("a", 3.0)]));
        let merged = merge_columns(&[(&few, "64: "), (&many, "256: ")], &["p99"]);
        let mut text = String::new();
        write_rows(&mut text, &merged, &merged.columns.iter().collect::<Vec<_>>(), false).expect("a String");
        let (_, rows) = text.split_once("---: |\n").expect("a table");
        assert!(text.starts_with("| | 64: p99, µs | 256: p99, µs |"), "{text}");
        assert_eq!(rows, "| a | 1.00 | 3.00 |\n| b | 2.00 | – |\n");
    }

    #[test]
    fn every_suite_of_the_report_has_a_chapter() {
        // The tables of these are in the page about several servers.
        let is_elsewhere = |name: &str| ["scale", "kept"].contains(&name);
        let known: Vec<&str> =
            suites::ALL.iter().map(|(name, _)| *name).filter(|name| !is_elsewhere(name)).collect();
        let without = known.iter().filter(|name| CHAPTERS.iter().all(|chapter| chapter.suite != **name));
        assert_eq!(without.count(), 0, "{known:?}");
    }

    #[test]
    fn the_page_has_at_most_2500_words() {
        let stored: Figures =
            serde_json::from_str(include_str!("../../docs/assets/performance/figures.json")).expect("JSON");
        let files = compose_report(&stored).expect("it can be composed");
        let words = files["pages/performance.md"].split_whitespace().count();
        assert!(words <= 2500, "{words} words");
    }

    #[test]
    fn a_new_table_replaces_the_old_one() {
        let page = "before\n<!-- table: pages-html -->\nold\n<!-- end of table -->\nafter\n";
        let filled = replace_tables(page, &figures(1.6)).expect("the table is known");
        assert!(filled.starts_with("before\n<!-- table: pages-html -->\n\n| | requests/s |"), "{filled}");
        assert!(filled.contains("| frontdesk | 2,000 (1,000–3,000) | 5.00 µs |"), "{filled}");
        assert!(filled.ends_with("|\n\n<!-- end of table -->\nafter\n"), "{filled}");
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
