//! The stored figures of all suites, `docs/assets/performance/figures.json`: the source of the report and its
//! plots.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Figures {
    pub sections: Vec<Section>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Section {
    pub suite: String,
    /// Date of the measurement, such as 2026-11-20.
    pub measured: String,
    pub machine: Vec<(String, String)>,
    /// Names and values of the conditions, such as the number of rounds.
    pub conditions: Vec<(String, String)>,
    pub tables: Vec<Table>,
    pub curves: Vec<Curve>,
    pub targets: Vec<Target>,
    /// The results of all rounds, which go to a separate file in the output folder.
    #[serde(skip)]
    pub raw: Vec<Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Table {
    /// Name of the plot file without its extension, in lower case with hyphens.
    pub name: String,
    pub title: String,
    pub note: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// Whether a bar chart shows the first column.
    pub is_plotted: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Column {
    pub title: String,
    pub unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A number, or a rate per second.
    Count,
    Micros,
    Millis,
    /// Bytes, written in KB or MB (powers of 1,024).
    Bytes,
    Ratio,
    Share,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub label: String,
    pub cells: Vec<Spread>,
}

/// A line plot with a logarithmic horizontal axis.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Curve {
    pub name: String,
    pub title: String,
    pub x: String,
    /// Label and format of the vertical axis.
    pub y: Column,
    pub log_y: bool,
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    pub label: String,
    pub points: Vec<(f64, Spread)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Target {
    pub name: String,
    /// Whether `threshold` is a minimum. Otherwise it is a maximum.
    pub at_least: bool,
    pub threshold: f64,
    pub measured: f64,
    pub unit: Unit,
}

impl Target {
    /// A ratio that must be `threshold` or more.
    pub fn at_least(name: impl Into<String>, threshold: f64, measured: f64) -> Self {
        Self { name: name.into(), at_least: true, threshold, measured, unit: Unit::Ratio }
    }

    /// A figure that must be `threshold` or less.
    pub fn at_most(name: impl Into<String>, threshold: f64, measured: f64, unit: Unit) -> Self {
        Self { name: name.into(), at_least: false, threshold, measured, unit }
    }

    pub fn is_met(&self) -> bool {
        if self.at_least { self.measured >= self.threshold } else { self.measured <= self.threshold }
    }
}

impl Table {
    pub fn new<C: Into<Column>>(
        name: impl Into<String>,
        title: impl Into<String>,
        note: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
        rows: impl IntoIterator<Item = Row>,
    ) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            note: note.into(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().collect(),
            is_plotted: false,
        }
    }

    pub fn plotted(self) -> Self {
        Self { is_plotted: true, ..self }
    }

    pub fn cell(&self, row: &str, column: &str) -> Option<Spread> {
        let column = self.columns.iter().position(|known| known.title == column)?;
        self.rows.iter().find(|known| known.label == row)?.cells.get(column).copied()
    }
}

impl<T: Into<String>> From<(T, Unit)> for Column {
    fn from((title, unit): (T, Unit)) -> Self {
        Self { title: title.into(), unit }
    }
}

impl Row {
    pub fn new(label: impl Into<String>, cells: impl IntoIterator<Item = Spread>) -> Self {
        Self { label: label.into(), cells: cells.into_iter().collect() }
    }
}

impl Curve {
    pub fn new(
        name: &str,
        title: &str,
        x: &str,
        y: (&str, Unit),
        log_y: bool,
        lines: impl Into<Vec<Line>>,
    ) -> Self {
        let (name, title, x) = (name.into(), title.into(), x.into());
        Self { name, title, x, y: y.into(), log_y, lines: lines.into() }
    }
}

impl Line {
    pub fn new(label: &str, xs: impl Iterator<Item = f64>, ys: impl Iterator<Item = Spread>) -> Self {
        Self { label: label.to_owned(), points: xs.zip(ys).collect() }
    }
}

impl Unit {
    /// Formats a figure with its unit. Small times and sizes get up to two decimal places.
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Count => format_with_commas(value),
            Self::Micros => format!("{} µs", format_three_digits(value)),
            Self::Millis => format!("{} ms", format_three_digits(value)),
            Self::Bytes if value.abs() < 1_048_576.0 => format!("{} KB", format_three_digits(value / 1024.0)),
            Self::Bytes => format!("{} MB", format_three_digits(value / 1_048_576.0)),
            Self::Ratio => format!("{value:.2} ×"),
            Self::Share => format!("{:.0} %", value * 100.0),
        }
    }

    /// Formats the median without the range.
    pub fn format_median(self, spread: &Spread) -> String {
        if spread.is_none() {
            return NOT_MEASURED.to_owned();
        }
        let median = self.format(spread.median);
        if spread.is_above() { format!("> {median}") } else { median }
    }

    /// Formats the median, with the range in parentheses unless its ends look the same.
    pub fn format_spread(self, spread: &Spread) -> String {
        if spread.is_none() || spread.is_above() {
            return self.format_median(spread);
        }
        let [median, least, most] =
            [spread.median, spread.least, spread.most].map(|value| self.format(value));
        if least == most {
            return median;
        }
        let bare = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
        format!("{median} ({}–{})", bare(&least), bare(&most))
    }
}

/// Stands for a figure that was not measured.
pub const NOT_MEASURED: &str = "–";

/// The maximum of a measurement that was ended at its limit: JSON has no infinity.
const ENDLESS: f64 = 1e300;

/// Median, minimum and maximum of several rounds, stored as an array with six significant digits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 3]", into = "[f64; 3]")]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// Median, minimum and maximum of the values; all zero if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (values.first().copied(), values.last().copied()) else {
            return Self::exactly(0.0);
        };
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Self { median, least, most }
    }

    pub fn exactly(value: f64) -> Self {
        Self { median: value, least: value, most: value }
    }

    /// A measurement that was ended at `limit`.
    pub fn above(limit: f64) -> Self {
        Self { median: limit, least: limit, most: ENDLESS }
    }

    pub fn is_above(&self) -> bool {
        self.most >= ENDLESS
    }

    /// A figure that was not measured.
    pub fn none() -> Self {
        Self { median: 0.0, least: 0.0, most: -1.0 }
    }

    pub fn is_none(&self) -> bool {
        self.most < self.least
    }

    /// The spread of the per-round ratios. A slow phase of the machine affects both values of a round, and so
    /// cancels out.
    pub fn of_ratios(above: &[f64], below: &[f64]) -> Self {
        Self::of(above.iter().zip(below).map(|(above, below)| above / below))
    }
}

impl From<[f64; 3]> for Spread {
    fn from([median, least, most]: [f64; 3]) -> Self {
        Self { median, least, most }
    }
}

impl From<Spread> for [f64; 3] {
    fn from(Spread { median, least, most }: Spread) -> Self {
        [median, least, most].map(|value| format!("{value:.5e}").parse().unwrap_or(value))
    }
}

fn format_three_digits(value: f64) -> String {
    match value.abs() {
        100.0.. => format_with_commas(value),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats a number without decimals and with commas between thousands. Fractions below 10 keep two decimals.
fn format_with_commas(value: f64) -> String {
    if value.abs() < 10.0 && value.fract() != 0.0 {
        return format!("{value:.2}");
    }
    let mut text = format!("{value:.0}");
    for place in (1..text.len()).rev().filter(|place| (text.len() - place) % 3 == 0).collect::<Vec<_>>() {
        text.insert(place, ',');
    }
    text
}

pub fn read(path: &Path) -> Result<Figures> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))
}

/// Writes figures to a JSON file, with one line for each row of a table. Creates the file's folder.
pub fn write(path: &Path, figures: &Figures) -> Result<()> {
    std::fs::create_dir_all(path.parent().context("the path has no parent folder")?)?;
    Ok(std::fs::write(path, serde_json::to_string(figures)?.replace("},{", "},\n{") + "\n")?)
}

impl Figures {
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.sections.iter().flat_map(|section| &section.tables).find(|table| table.name == name)
    }
}

/// The current date, such as 2026-11-20.
pub fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unit: Unit, value: f64, expected: &str) {
        assert_eq!(unit.format(value), expected);
    }

    #[test]
    fn figures_have_three_digits_and_a_unit() {
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
    fn a_range_is_written_if_it_is_not_empty() {
        let spread = Spread { median: 2.0, least: 1.0, most: 3.0 };
        assert_eq!(Unit::Micros.format_spread(&spread), "2.00 µs (1.00–3.00)");
        assert_eq!(Unit::Count.format_spread(&Spread::exactly(7.0)), "7");
    }

    #[test]
    fn a_measurement_that_was_ended_or_left_out_is_shown_as_such() {
        for format in [Unit::format_spread, Unit::format_median] {
            assert_eq!(format(Unit::Millis, &Spread::above(300_000.0)), "> 300,000 ms");
            assert_eq!(format(Unit::Bytes, &Spread::none()), "–");
        }
        let stored: Spread = <[f64; 3]>::from(Spread::above(5.0)).into();
        assert!(stored.is_above());
    }

    #[test]
    fn a_target_is_met_at_its_exact_value() {
        assert!(Target::at_least("a", 1.6, 1.6).is_met());
        assert!(!Target::at_least("a", 1.6, 1.59).is_met());
        assert!(Target::at_most("a", 15.0, 15.0, Unit::Bytes).is_met());
        assert!(!Target::at_most("a", 15.0, 15.1, Unit::Bytes).is_met());
    }

    #[test]
    fn the_median_of_even_counts_is_the_midpoint() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, least: 1.0, most: 4.0 });
    }

    #[test]
    fn a_spread_is_stored_with_six_digits() {
        let spread = Spread { median: 123_456.789, least: 0.0, most: 1.5e9 };
        let stored = Spread::from(<[f64; 3]>::from(spread));
        assert_eq!(stored, Spread { median: 123_457.0, ..spread });
    }

    #[test]
    fn a_slow_round_cancels_out_in_a_ratio() {
        assert_eq!(Spread::of_ratios(&[20.0, 2.0], &[10.0, 1.0]), Spread::exactly(2.0));
    }
}
