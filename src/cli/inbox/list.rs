//! `frontdesk inbox list` and `frontdesk inbox export` print submissions as a table, as CSV or as JSON lines.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;

use super::command_context::Console;
use super::selection::{SelectedSubmissions, SelectionOptions};
use super::table;
use crate::cli::diagnostics::{counted, with_hint};
use frontdesk_desk::{csv, submission_json};
use frontdesk_inbox::store::{Filter, InboxReader};
use frontdesk_process::output_file::write_to_file;
use frontdesk_process::progress;
use frontdesk_process::progress_bar::Progress;

/// Default number of submissions in a table on a terminal.
const TERMINAL_LIMIT: usize = 50;

/// Options of `frontdesk inbox export`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub struct SubmissionExport {
    /// Write CSV, the default (RFC 4180, UTF-8, safe to open in a spreadsheet)
    #[arg(long)]
    csv: bool,
    /// Add columns for repeats, the source, and the result of screening
    #[arg(long, conflicts_with = "jsonl")]
    all: bool,
    /// Write one JSON object per line, with all members and times in UTC
    #[arg(long, conflicts_with = "csv")]
    jsonl: bool,
    /// Write to this file, readable only by you, instead of standard output (`-`). It has this name once it
    /// is complete
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    pub(super) which: SelectionOptions,
}

/// Prints the selected submissions. On a terminal, as a table that fits its width, with at most
/// [`TERMINAL_LIMIT`] submissions unless `--limit` is given, and how to see more of them. Otherwise, as lines
/// of tab-separated, whole values: all of them, unless `--limit` is given.
pub(super) fn print_table(which: &SelectionOptions, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let limit = which.limit.or(console.is_terminal.then_some(TERMINAL_LIMIT));
    // Request one submission more than the limit, to find out whether there are more.
    let ask = limit.map(|limit| limit.saturating_add(1));
    let inbox = console.inbox.as_deref();
    let mut selected = SelectedSubmissions::new(inbox, which, ask, &console.now, &mut *console.err)?;
    let mut last = None;
    let mut lines = (&mut selected).take(limit.unwrap_or(usize::MAX)).inspect(|submission| {
        last = submission.as_ref().ok().map(|submission| submission.id);
    });
    let zone = console.now.time_zone();
    let count = if console.is_terminal {
        table::write(&mut lines, zone, console.width, console.has_colors, &mut *console.out)?
    } else {
        table::write_records(&mut lines, zone, &mut *console.out)?
    };
    let more = console.is_terminal && count > 0 && selected.next().transpose()?.is_some();
    let code = selected.finish()?;
    if count == 0 && console.inbox.is_some() {
        writeln!(console.err, "No submissions to list.")?;
    }
    if let Some(last) = last.filter(|_| more) {
        console.out.flush()?;
        writeln!(
            console.err,
            "There are more: `--before {last}` continues here, `--limit N` shows more at once."
        )?;
    }
    Ok(code)
}

/// Prints the selected submissions, one JSON object per line: all of them, unless `--limit` is given.
pub(super) fn print_json(which: &SelectionOptions, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let inbox = console.inbox.as_deref();
    let mut selected = SelectedSubmissions::new(inbox, which, which.limit, &console.now, &mut *console.err)?;
    submission_json::write(&mut selected, inbox, &mut *console.out)?;
    Ok(selected.finish()?)
}

impl SubmissionExport {
    /// The file to write, unless the submissions go to standard output.
    pub(super) fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }
}

/// Writes submissions as CSV or JSON lines to standard output, or to a file that only its owner can read.
/// Replaces an existing file only with `--force`. Then reports submissions that stayed encrypted.
pub(super) fn export(options: &SubmissionExport, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let (which, inbox) = (&options.which, console.inbox.as_deref());
    // Show no progress if the rows go to a terminal, where the progress would appear between them.
    let progress = Progress::start_if(options.file().is_some() || !console.is_terminal, "Exporting");
    let total = inbox.map(|inbox| inbox.count(&Filter::default())).transpose()?.unwrap_or_default();
    progress::begin("submissions read", which.limit.map_or(total, |limit| limit.min(total)) as u64);
    let mut selected = SelectedSubmissions::new(inbox, which, which.limit, &console.now, &mut *console.err)?;
    let definitions = inbox.map(InboxReader::definitions).transpose()?.unwrap_or_default();
    let mut submissions = (&mut selected).inspect(|_| progress::advance(1));
    let mut write = |to_terminal: bool, out: &mut dyn Write| {
        if options.jsonl {
            submission_json::write(&mut submissions, inbox, out)
        } else {
            let zone = console.now.time_zone();
            csv::write(&mut submissions, inbox, &definitions, options.all, zone, to_terminal, out)
        }
    };
    let count = match options.file() {
        Some(path) => {
            let written = write_to_file(path, options.force, |out| write(false, out));
            written.map_err(|error| explain_unwritten(path, error))?
        }
        None => write(console.is_terminal, &mut *console.out)?,
    };
    drop(progress);
    let code = selected.finish()?;
    selected.report_sealed()?;
    if let Some(path) = options.file() {
        writeln!(console.err, "{} written to {}.", counted(count, "submission"), path.display())?;
    }
    Ok(code)
}

/// Adds the path to an error of [`write_to_file`]. If the file exists, also adds a hint on how to replace it.
fn explain_unwritten(path: &Path, error: anyhow::Error) -> anyhow::Error {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    match kind {
        Some(io::ErrorKind::AlreadyExists) => {
            with_hint(anyhow!("{} already exists", path.display()), "`--force` replaces it")
        }
        _ => error.context(format!("cannot write {}", path.display())),
    }
}
