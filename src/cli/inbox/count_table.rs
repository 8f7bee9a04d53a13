//! Formats a table of names and numbers for a terminal.

use std::io::{self, Write};

use crate::cli::text_width::{columns, pad, shorten};

/// Minimum width of the column of names.
const MIN_NAME: usize = 12;
/// Minimum width of a column of numbers, including the gap before it.
const MIN_NUMBER_WIDTH: usize = 10;

/// Writes an empty line and a table of names and numbers. Cuts names so that lines fit `width`, unless that
/// leaves less than [`MIN_NAME`]. Writes nothing if there are no rows.
pub(in crate::cli) fn write_table<const N: usize>(
    head: [&str; N],
    rows: Vec<(String, Vec<String>)>,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let numbers: usize = head[1..].iter().map(|title| number_column_width(title)).sum();
    let widest =
        rows.iter().map(|(name, _)| columns(name)).chain([columns(head[0])]).max().unwrap_or_default();
    let name = widest.min(width.saturating_sub(numbers).max(MIN_NAME));
    let titles = head[1..].iter().map(|title| (*title).to_owned()).collect();
    for (first, numbers) in std::iter::once((head[0].to_owned(), titles)).chain(rows) {
        let mut line = pad(&shorten(&first, name), name);
        for (title, number) in head[1..].iter().zip(numbers) {
            line.push_str(&format!("{number:>0$}", number_column_width(title)));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// The width of a column of numbers with this title, including the gap before it.
fn number_column_width(title: &str) -> usize {
    (title.len() + 2).max(MIN_NUMBER_WIDTH)
}
