//! `frontdesk inbox list` and `frontdesk inbox export`.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};

use super::console::Console;
use super::selection::{IdentityOption, SelectedSubmissions, SelectionOptions};
use super::{csv, json, table};
use crate::cli::output::{counted, with_hint};
use crate::store::InboxReader;
use crate::submission::Submission;

/// The default limit of a table on a terminal.
const TERMINAL_LIMIT: usize = 50;

/// The file that an export is written to.
#[derive(Clone, Copy)]
pub(super) struct OutputFile<'a> {
    pub(super) path: &'a Path,
    /// Whether to replace an existing file.
    pub(super) force: bool,
}

/// Prints a table.
pub(super) fn table(
    reader: Option<&InboxReader>,
    which: &SelectionOptions,
    key: &IdentityOption,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let identity = key.read()?;
    let limit = which.limit.or(console.is_terminal.then_some(TERMINAL_LIMIT));
    // Asks for one more than the limit, to find out whether there are more.
    let ask = limit.map(|limit| limit.saturating_add(1));
    let mut selected =
        SelectedSubmissions::new(reader, which, ask, identity.as_ref(), console.now, &mut *console.err)?;
    let mut last = None;
    let mut lines = (&mut selected).take(limit.unwrap_or(usize::MAX)).inspect(|submission| {
        last = submission.as_ref().ok().map(|submission| submission.id);
    });
    let count = table::write(&mut lines, console.width, console.has_colors, &mut *console.out)?;
    let more = console.is_terminal && count > 0 && selected.next().transpose()?.is_some();
    selected.report_unsearched()?;
    let code = exit_code(selected.failed);
    if count == 0 && reader.is_some() {
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

/// Prints one JSON object per line.
pub(super) fn json(
    reader: Option<&InboxReader>,
    which: &SelectionOptions,
    key: &IdentityOption,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let identity = key.read()?;
    let (now, err) = (console.now, &mut *console.err);
    let mut selected = SelectedSubmissions::new(reader, which, which.limit, identity.as_ref(), now, err)?;
    json::write(&mut selected, &mut *console.out)?;
    selected.report_unsearched()?;
    Ok(exit_code(selected.failed))
}

/// Writes submissions to standard output, or to a file that only its owner can read.
pub(super) fn export(
    reader: Option<&InboxReader>,
    which: &SelectionOptions,
    key: &IdentityOption,
    as_csv: bool,
    to: Option<OutputFile<'_>>,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let identity = key.read()?;
    let (now, err) = (console.now, &mut *console.err);
    let mut selected = SelectedSubmissions::new(reader, which, which.limit, identity.as_ref(), now, err)?;
    let count = match to {
        Some(to) => export_to_file(&mut selected, as_csv, to)?,
        None => write(&mut selected, as_csv, console.is_terminal, &mut *console.out)?,
    };
    selected.report_unsearched()?;
    selected.report_sealed()?;
    let code = exit_code(selected.failed);
    if let Some(OutputFile { path, .. }) = to {
        writeln!(console.err, "{} written to {}.", counted(count, "submission"), path.display())?;
    }
    Ok(code)
}

fn exit_code(failed: usize) -> ExitCode {
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write(
    submissions: &mut dyn Iterator<Item = anyhow::Result<Submission>>,
    as_csv: bool,
    to_terminal: bool,
    out: &mut dyn Write,
) -> anyhow::Result<usize> {
    if as_csv { csv::write(submissions, to_terminal, out) } else { json::write(submissions, out) }
}

fn export_to_file(
    submissions: &mut dyn Iterator<Item = anyhow::Result<Submission>>,
    as_csv: bool,
    to: OutputFile<'_>,
) -> anyhow::Result<usize> {
    let path = to.path;
    let mut write = || -> anyhow::Result<usize> {
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        let file = if to.force {
            let file = options.create(true).truncate(true).open(path)?;
            // An existing file has its own mode. A device or a pipe keeps it.
            if file.metadata()?.is_file() {
                file.set_permissions(Permissions::from_mode(0o600))?;
            }
            file
        } else {
            options.create_new(true).open(path)?
        };
        let mut out = BufWriter::new(file);
        let count = write(submissions, as_csv, false, &mut out)?;
        out.flush()?;
        Ok(count)
    };
    match write() {
        Err(error) if file_exists(&error) => {
            Err(with_hint(anyhow!("{} is there already", path.display()), "`--force` replaces it"))
        }
        written => written.with_context(|| format!("cannot write {}", path.display())),
    }
}

/// Whether the error is that the file exists.
fn file_exists(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
}
