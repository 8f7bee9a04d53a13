//! Formats the messages that commands print to standard error: errors with hints, faults and counts.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use frontdesk_forms::text::{visible, visible_lines};
use frontdesk_inbox::store::{BackupError, CopyError, StoreError};
use frontdesk_site::fault::{Fault, Severity};

// Styles for the terminal. `anstream` removes them if `NO_COLOR` is set or the output is not a terminal.
pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const DIM: Style = Style::new().dimmed();

/// Wraps an error, and adds advice. The message and the causes stay the same.
#[derive(Debug)]
struct HintedError {
    error: anyhow::Error,
    hint: String,
}

impl fmt::Display for HintedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for HintedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// Adds advice to an error. [`write_error`] prints it.
pub(super) fn with_hint(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> anyhow::Error {
    HintedError { error: error.into(), hint: hint.into() }.into()
}

/// The advice that [`with_hint`] added to an error, or else the hint of a store's error among its causes.
pub(super) fn hint(error: &anyhow::Error) -> Option<String> {
    let added = error.downcast_ref::<HintedError>().map(|hinted| hinted.hint.clone());
    added.or_else(|| error.chain().find_map(|cause| store_error(cause)?.hint()))
}

/// The store's error that `cause` is, or that it contains and displays as its own: the chain of causes lacks
/// the latter.
fn store_error<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a StoreError> {
    if let Some(BackupError::Store(error)) = cause.downcast_ref() {
        return Some(error);
    }
    if let Some(CopyError::Store(error)) = cause.downcast_ref() {
        return Some(error);
    }
    cause.downcast_ref()
}

/// Writes an error after `label`, then each cause and the hint on lines of their own.
pub(super) fn write_error(label: &str, error: &anyhow::Error, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{label} {error}")?;
    for cause in error.chain().skip(1) {
        writeln!(out, "  because: {cause}")?;
    }
    match hint(error) {
        Some(hint) => writeln!(out, "hint: {hint}"),
        None => Ok(()),
    }
}

/// Prints faults to standard error. Ignores write errors: a closed standard error must not stop a command.
pub(super) fn print_faults(faults: &[Fault]) {
    let mut stderr = anstream::stderr().lock();
    for fault in faults {
        let (word, style) = match fault.severity {
            Severity::Error => ("error", ERROR),
            Severity::Warning => ("warning", WARNING),
        };
        // Make the place visible: names of files may contain line ends and escape sequences.
        let shown = Fault { place: visible(&fault.place), ..fault.clone() };
        let shown = visible_lines(&shown.to_string());
        let _ = writeln!(stderr, "{style}{word}:{style:#} {shown}");
    }
}

/// Prints notes to standard error: facts about the site that are not faults. Ignores write errors, like
/// [`print_faults`].
pub(super) fn print_notes(notes: &[String]) {
    let mut stderr = anstream::stderr().lock();
    for note in notes {
        let _ = writeln!(stderr, "{DIM}note:{DIM:#} {note}");
    }
}

/// Formats how many errors and warnings there are: `2 errors, 1 warning`.
pub(super) fn count_faults(faults: &[Fault]) -> String {
    let count = |severity| faults.iter().filter(|fault| fault.severity == severity).count();
    match (count(Severity::Error), count(Severity::Warning)) {
        (0, warnings) => counted(warnings, "warning"),
        (errors, 0) => counted(errors, "error"),
        (errors, warnings) => format!("{}, {}", counted(errors, "error"), counted(warnings, "warning")),
    }
}

/// Formats a count with its noun: `1 submission`, `2 submissions`, `2 deliveries`. A noun in `y` always gets
/// `ies`.
pub(super) fn counted<N: fmt::Display + PartialEq + From<u8> + Copy>(count: N, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if count == N::from(1) => format!("1 {noun}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {noun}s"),
    }
}

/// Returns `one` if `count` is 1, otherwise `several`.
pub(super) fn plural<'a>(count: usize, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}

pub(super) fn exit_code(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_displays_one_of_the_store_has_its_advice() {
        let advice = StoreError::Full.hint();
        assert!(advice.is_some());
        assert_eq!(hint(&BackupError::Store(StoreError::Full).into()), advice);
        assert_eq!(hint(&CopyError::Store(StoreError::Full).into()), advice);
        assert_eq!(hint(&anyhow::Error::new(StoreError::Full).context("cannot copy")), advice);
    }
}
