//! The table of loads that one core and one gigabyte serve, computed from the figures of all suites.

use std::fmt::Write as _;

use anyhow::Result;

use crate::figures::{Figures, Unit};

const GIGABYTE: f64 = 1_073_741_824.0;

/// Assumptions about visitors.
const REQUESTS_PER_VISIT: f64 = 10.0;
/// The share of a day's visits in its busiest hour, and the share of the core that they may use.
const PEAK_HOUR: f64 = 0.1;
const BUSY: f64 = 0.5;

/// Requests and submissions a second of CPU time.
const MICROS_PER_SECOND: f64 = 1e6;

/// A row: its name, the resource, and the number of things.
type Quantity = (&'static str, &'static str, Option<f64>);

/// Writes the table. Leaves out what was not measured.
pub fn write_costs_of_things(text: &mut String, figures: &Figures) -> Result<()> {
    let rows = quantities(figures);
    if rows.iter().all(|(_, _, count)| count.is_none()) {
        return Ok(());
    }
    writeln!(text, "\n## What one core and one gigabyte serve\n")?;
    writeln!(
        text,
        "A visit has {REQUESTS_PER_VISIT} requests of 12 KB over HTTPS; the busiest hour has {} of a \
         day's visits, and uses the core to {}. For ten million submissions, see [Several servers](scale.md#a-large-inbox).\n",
        Unit::Share.format(PEAK_HOUR),
        Unit::Share.format(BUSY)
    )?;
    text.push_str("| | of | serves |\n| --- | --- | ---: |\n");
    for (name, resource, count) in rows {
        if let Some(count) = count.filter(|count| count.is_finite() && *count > 0.0) {
            writeln!(text, "| {name} | {resource} | {} |", Unit::Count.format(two_digits(count)))?;
        }
    }
    Ok(())
}

/// All rows, in the order of the table. `None` if a figure is missing.
fn quantities(figures: &Figures) -> Vec<Quantity> {
    let cell = |table: &str, row: &str, column: &str| {
        Some(figures.table(table)?.cell(row, column)?.median).filter(|value| *value > 0.0)
    };
    let rate = |table: &str| Some(MICROS_PER_SECOND / cell(table, "frontdesk", "CPU time per request")?);
    let per_gigabyte = |bytes: Option<f64>| Some(GIGABYTE / bytes?);
    let https = rate("tls-http2-12kb");
    let visits = https.map(|rate| rate * BUSY * 3600.0 / REQUESTS_PER_VISIT / PEAK_HOUR);
    let sustained = |column| cell("submissions-sustained", "frontdesk, a minute", column);
    let (core, memory, disk) = ("one core", "1 GB of memory", "1 GB of disk");
    let both_cores = cell("pages-both-cores", "both cores", "requests/s at the limit");
    let mut rows = vec![
        ("pages/s, HTML of 1 KB, HTTP", core, rate("pages-html-1k")),
        ("the same", "two cores", both_cores),
        ("pages/s, HTML of 12 KB, HTTP", core, rate("pages-html-12k")),
        ("pages/s, HTML of 1 KB, HTTPS", core, rate("tls-http2-1kb")),
        ("pages/s, HTML of 12 KB, HTTPS", core, https),
        ("new TLS connections/s", core, rate("tls-handshakes")),
        ("visits a day", core, visits),
        ("submissions/s, accepted for a minute", core, sustained("requests/s")),
        (
            "submissions a day, in the busiest hour as above",
            core,
            sustained("processed/s").map(|rate| rate * BUSY * 3600.0 / PEAK_HOUR),
        ),
        ("idle connections", memory, per_gigabyte(cell("memory-connections", "frontdesk", "per connection"))),
        ("pages of 8 KB of Markdown", memory, per_gigabyte(bytes_per_row(figures, "loading"))),
        ("pages of another generator's build", memory, per_gigabyte(bytes_per_row(figures, "loading-built"))),
    ];
    for (name, database) in [("submissions in SQLite", "SQLite"), ("submissions in PostgreSQL", "PostgreSQL")]
    {
        rows.push((name, disk, per_gigabyte(cell("kept-size", "each submission", database))));
    }
    rows
}

/// The memory of a page at the first load: between the two largest sites of a table, so that the memory of an
/// empty server does not count. Labels of rows begin with the number of pages.
fn bytes_per_row(figures: &Figures, table: &str) -> Option<f64> {
    let table = figures.table(table)?;
    let mut sizes = Vec::new();
    for row in &table.rows {
        let pages: f64 = row.label.split(' ').next()?.replace(',', "").parse().ok()?;
        sizes.push((pages, table.cell(&row.label, "peak, first load")?.median));
    }
    sizes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let [.., (fewer, small), (more, large)] = sizes[..] else { return None };
    Some((large - small) / (more - fewer)).filter(|bytes| bytes.is_finite() && *bytes > 0.0)
}

/// Rounds to two digits: the third differs between machines and runs.
fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    if unit < 1.0 { value.round() } else { (value / unit).round() * unit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Row, Section, Spread, Table};

    fn figures() -> Figures {
        let https = Row::new("frontdesk", [Spread::exactly(10.0)]);
        let https = Table::new("tls-http2-12kb", "", "", [("CPU time per request", Unit::Micros)], [https]);
        let peak = |label: &str, bytes: f64| Row::new(label, [Spread::exactly(bytes)]);
        let rows = [peak("10 pages", 40e6), peak("2000 pages", 100e6), peak("10000 pages", 500e6)];
        let loading = Table::new("loading", "", "", [("peak, first load", Unit::Bytes)], rows);
        let kept = Row::new("each submission", [Spread::exactly(1024.0), Spread::exactly(0.0)]);
        let kept =
            Table::new("kept-size", "", "", [("SQLite", Unit::Bytes), ("PostgreSQL", Unit::Bytes)], [kept]);
        Figures { sections: vec![Section { tables: vec![https, loading, kept], ..Section::default() }] }
    }

    #[test]
    fn quantities_are_computed_and_missing_ones_are_left_out() {
        let mut text = String::new();
        write_costs_of_things(&mut text, &figures()).expect("a String accepts all writes");
        let (_, table) = text.split_once("---: |\n").expect("a table");
        // 100,000 requests/s × ½ × 3,600 s / 10 requests / 10 %
        assert_eq!(
            table,
            "| pages/s, HTML of 12 KB, HTTPS | one core | 100,000 |\n\
             | visits a day | one core | 180,000,000 |\n\
             | pages of 8 KB of Markdown | 1 GB of memory | 21,000 |\n\
             | submissions in SQLite | 1 GB of disk | 1,000,000 |\n"
        );
    }

    #[test]
    fn without_figures_there_is_no_table() {
        let mut text = String::new();
        write_costs_of_things(&mut text, &Figures::default()).expect("a String accepts all writes");
        assert_eq!(text, "");
    }

    #[test]
    fn numbers_are_rounded_to_two_digits() {
        let rounded = [123_456.0, 99.6, 7.4].map(|value| Unit::Count.format(two_digits(value)));
        assert_eq!(rounded, ["120,000", "100", "7"]);
    }
}
