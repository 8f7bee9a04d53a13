//! What was measured, as it is stored: `docs/performance/figures.json`, from which the report and its plots are drawn.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::rounds::Spread;

/// All suites, in the order of the report.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Figures {
    /// One for each suite that was measured.
    pub sections: Vec<Section>,
}

/// What one suite has measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Section {
    /// The suite's name, as it is called by.
    pub suite: String,
    /// The day, such as 2026-11-20.
    pub measured: String,
    /// Where: pairs of what and which, as `machine::describe` has them.
    pub machine: Vec<(String, String)>,
    /// How: rounds, their length and whatever else a reader must know.
    pub conditions: Vec<(String, String)>,
    /// The figures.
    pub tables: Vec<Table>,
    /// Figures that depend on something.
    pub curves: Vec<Curve>,
    /// What was to be reached.
    pub bars: Vec<Bar>,
}

/// Rows of figures. It is also drawn where a column is named for that.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Table {
    /// Names the plot's file: lower case and hyphens.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What a reader must know to understand it; may be empty.
    pub note: String,
    /// The columns behind the first one, which has the rows' labels.
    pub columns: Vec<Column>,
    /// As many cells as there are columns in each.
    pub rows: Vec<Row>,
    /// The column that is drawn as bars.
    pub plotted: Option<usize>,
}

/// What is in a column.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Column {
    /// Its heading.
    pub title: String,
    /// How its figures are written.
    pub unit: Unit,
}

/// How a figure is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A number of things, or of things a second.
    Count,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Nanoseconds.
    Nanos,
    /// Bytes, written as KB or MB (powers of 1,024).
    Bytes,
    /// How many times as much.
    Ratio,
    /// A share of the whole.
    Share,
}

/// One line of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Whose figures they are.
    pub label: String,
    /// One for each column; none where there is nothing to tell.
    pub cells: Vec<Option<Spread>>,
}

/// Lines over a common axis.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Curve {
    /// Names the plot's file.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What is along the bottom; its steps are drawn as powers of ten.
    pub x: String,
    /// What is up the side, and how it is written.
    pub y: Column,
    /// Whether the side has powers of ten too.
    pub log_y: bool,
    /// One for each server or case.
    pub lines: Vec<Line>,
}

/// One line of a curve.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// Whose it is.
    pub label: String,
    /// Where and how much.
    pub points: Vec<(f64, Spread)>,
}

/// What was to be reached, and what was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Bar {
    /// What of what.
    pub what: String,
    /// Whether more is better.
    pub at_least: bool,
    /// The bar.
    pub wanted: f64,
    /// What was measured.
    pub measured: f64,
    /// How both are written.
    pub unit: Unit,
}

impl Bar {
    /// That `measured` is to be `wanted` or more.
    pub fn at_least(what: impl Into<String>, wanted: f64, measured: f64, unit: Unit) -> Self {
        Self { what: what.into(), at_least: true, wanted, measured, unit }
    }

    /// That `measured` is to be `wanted` or less.
    pub fn at_most(what: impl Into<String>, wanted: f64, measured: f64, unit: Unit) -> Self {
        Self { what: what.into(), at_least: false, wanted, measured, unit }
    }

    /// Whether it was reached.
    pub fn holds(&self) -> bool {
        if self.at_least { self.measured >= self.wanted } else { self.measured <= self.wanted }
    }
}

impl Column {
    /// A column with this heading.
    pub fn new(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit }
    }
}

impl Row {
    /// A row whose figures are all there.
    pub fn new(label: impl Into<String>, cells: impl IntoIterator<Item = Spread>) -> Self {
        Self { label: label.into(), cells: cells.into_iter().map(Some).collect() }
    }
}

impl Unit {
    /// A figure with three significant digits, and its unit where it is not a mere number.
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Count => grouped(value),
            Self::Nanos => format!("{} ns", digits(value)),
            Self::Micros => format!("{} µs", digits(value)),
            Self::Millis => format!("{} ms", digits(value)),
            Self::Bytes if value.abs() < 1_048_576.0 => format!("{} KB", digits(value / 1024.0)),
            Self::Bytes => format!("{} MB", digits(value / 1_048_576.0)),
            Self::Ratio => format!("{value:.2} ×"),
            Self::Share => format!("{:.0} %", value * 100.0),
        }
    }

    /// The median, and the range where there is one.
    pub fn write_spread(self, spread: &Spread) -> String {
        let (median, least, most) =
            (self.write(spread.median), self.write(spread.least), self.write(spread.most));
        if least == most {
            return median;
        }
        let mut text = median;
        let bare = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
        let _ = write!(text, " ({}–{})", bare(&least), bare(&most));
        text
    }
}

/// Puts each array that holds nothing but numbers on one line.
pub fn flatten(json: &str) -> String {
    let mut flat = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(open) = rest.find('[') {
        let (before, from) = rest.split_at(open);
        flat.push_str(before);
        let inside = from.split_once(']').map_or("", |(inside, _)| &inside[1..]);
        // As `serde_json` writes it: a line break behind the bracket, which no text has in it.
        if inside.starts_with('\n')
            && inside.chars().all(|letter| letter.is_whitespace() || ".,-+e0123456789".contains(letter))
        {
            let numbers: Vec<&str> = inside.split(',').map(str::trim).collect();
            flat += &format!("[{}]", numbers.join(", "));
            rest = &from[inside.len() + 2..];
        } else {
            flat.push('[');
            rest = &from[1..];
        }
    }
    flat + rest
}

/// Three significant digits, none after the point from 100 on.
fn digits(value: f64) -> String {
    match value.abs() {
        100.0.. => grouped(value),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A whole number, its thousands told apart by commas. What is small keeps a digit or two.
fn grouped(value: f64) -> String {
    if value.abs() < 10.0 && value.fract() != 0.0 {
        return format!("{value:.2}");
    }
    let whole = format!("{:.0}", value.abs());
    let mut text = String::new();
    if value < 0.0 {
        text.push('-');
    }
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Figures {
    /// Reads them; none at all where there is no such file.
    pub fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text =
            std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} holds no figures", path.display()))
    }

    /// Puts a suite's figures in the place of its last ones; `order` is that of the report.
    pub fn replace(&mut self, section: Section, order: &[&str]) {
        self.sections.retain(|known| known.suite != section.suite);
        self.sections.push(section);
        let place = |suite: &str| order.iter().position(|known| *known == suite).unwrap_or(order.len());
        self.sections.sort_by_key(|section| place(&section.suite));
    }

    /// As they are stored, one line a figure.
    pub fn to_json(&self) -> Result<String> {
        Ok(flatten(&serde_json::to_string_pretty(self)?) + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unit: Unit, value: f64, expected: &str) {
        assert_eq!(unit.write(value), expected);
    }

    #[test]
    fn figures_are_written_with_what_can_be_told() {
        check(Unit::Count, 123_456.7, "123,457");
        check(Unit::Count, 12.0, "12");
        check(Unit::Count, 1.5, "1.50");
        check(Unit::Micros, 4.567, "4.57 µs");
        check(Unit::Millis, 1234.5, "1,234 ms");
        check(Unit::Bytes, 15.0 * 1_048_576.0, "15.0 MB");
        check(Unit::Bytes, 2048.0, "2.00 KB");
        check(Unit::Ratio, 1.599, "1.60 ×");
        check(Unit::Share, 0.987, "99 %");
    }

    #[test]
    fn a_range_is_told_where_there_is_one() {
        let spread = Spread { median: 2.0, least: 1.0, most: 3.0 };
        assert_eq!(Unit::Micros.write_spread(&spread), "2.00 µs (1.00–3.00)");
        assert_eq!(Unit::Count.write_spread(&Spread::exactly(7.0)), "7");
    }

    #[test]
    fn a_bar_holds_where_it_is_reached() {
        assert!(Bar::at_least("a", 1.6, 1.6, Unit::Ratio).holds());
        assert!(!Bar::at_least("a", 1.6, 1.59, Unit::Ratio).holds());
        assert!(Bar::at_most("a", 15.0, 15.0, Unit::Bytes).holds());
        assert!(!Bar::at_most("a", 15.0, 15.1, Unit::Bytes).holds());
    }

    #[test]
    fn what_is_stored_has_a_line_a_figure_and_is_the_same_when_read() {
        let value = serde_json::json!({ "a": [[1.0, 2.5, 3.0], []], "b": "[1,\n 2]", "c": [null, "x"] });
        let flat = flatten(&serde_json::to_string_pretty(&value).expect("it is JSON"));
        assert!(flat.contains("[1.0, 2.5, 3.0]"), "{flat}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&flat).expect("it is JSON"), value);
    }

    #[test]
    fn a_suite_s_new_figures_take_the_place_of_its_old_ones() {
        let section = |suite: &str, measured: &str| Section {
            suite: suite.into(),
            measured: measured.into(),
            machine: Vec::new(),
            conditions: Vec::new(),
            tables: Vec::new(),
            curves: Vec::new(),
            bars: Vec::new(),
        };
        let mut figures = Figures::default();
        for (suite, measured) in [("tls", "1"), ("pages", "1"), ("tls", "2")] {
            figures.replace(section(suite, measured), &["pages", "tls"]);
        }
        let seen: Vec<_> = figures.sections.iter().map(|s| (s.suite.as_str(), s.measured.as_str())).collect();
        assert_eq!(seen, [("pages", "1"), ("tls", "2")]);
    }
}
