//! `frontdesk inbox list` and `frontdesk inbox export`.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::filter::{Key, Selected, Which, submissions};
use super::{Console, csv, json, table};
use crate::store::Reader;
use crate::submission::Submission;

/// How many lines a table on a terminal has unless told otherwise.
const SCREENFUL: usize = 50;

/// The file that an export is written to.
#[derive(Clone, Copy)]
pub(super) struct To<'a> {
    /// Its name.
    pub(super) path: &'a Path,
    /// Whether it may replace one that is there.
    pub(super) force: bool,
}

/// A table for people.
pub(super) fn table(
    reader: Option<&Reader>,
    which: &Which,
    key: &Key,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let identity = key.read()?;
    let limit = which.limit.or(console.is_terminal.then_some(SCREENFUL));
    // One more, to know whether there are more.
    let ask = limit.map(|limit| limit.saturating_add(1));
    let mut selected = Selected::of(reader, which, ask, identity.as_ref(), console.now, &mut *console.err)?;
    let mut last = None;
    let mut lines = (&mut selected).take(limit.unwrap_or(usize::MAX)).inspect(|submission| {
        last = submission.as_ref().ok().map(|submission| submission.id);
    });
    let count = table::write(&mut lines, console.width, console.has_colours, &mut *console.out)?;
    let more = console.is_terminal && count > 0 && selected.next().transpose()?.is_some();
    selected.finish()?;
    let code = exit_code(selected.failed);
    if count == 0 && reader.is_some() {
        writeln!(console.err, "No submissions to list.")?;
    }
    if let Some(last) = last.filter(|_| more) {
        console.out.flush()?;
        writeln!(
            console.err,
            "There are more: `--before {last}` goes on here, `--limit N` shows more at once."
        )?;
    }
    Ok(code)
}

/// One JSON object a line.
pub(super) fn json(
    reader: Option<&Reader>,
    which: &Which,
    key: &Key,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let identity = key.read()?;
    let (now, err) = (console.now, &mut *console.err);
    let mut selected = Selected::of(reader, which, which.limit, identity.as_ref(), now, err)?;
    json::write(&mut selected, &mut *console.out)?;
    selected.finish()?;
    Ok(exit_code(selected.failed))
}

/// All of it, to standard output or into a file that only its owner can read.
pub(super) fn export(
    reader: Option<&Reader>,
    which: &Which,
    key: &Key,
    as_csv: bool,
    to: Option<To<'_>>,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let identity = key.read()?;
    let (now, err) = (console.now, &mut *console.err);
    let mut selected = Selected::of(reader, which, which.limit, identity.as_ref(), now, err)?;
    let count = match to {
        Some(to) => export_to_file(&mut selected, as_csv, to)?,
        None => write(&mut selected, as_csv, console.is_terminal, &mut *console.out)?,
    };
    selected.finish()?;
    selected.tell_sealed()?;
    let code = exit_code(selected.failed);
    if let Some(To { path, .. }) = to {
        writeln!(console.err, "{} written to {}.", submissions(count), path.display())?;
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
    to: To<'_>,
) -> anyhow::Result<usize> {
    let path = to.path;
    let mut write = || -> anyhow::Result<usize> {
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        let file = if to.force {
            let file = options.create(true).truncate(true).open(path)?;
            // One that was there has its own mode. A device or a pipe keeps it.
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
        Err(error) if is_there(&error) => {
            bail!("{} is there already\nhint: `--force` replaces it", path.display())
        }
        written => written.with_context(|| format!("cannot write {}", path.display())),
    }
}

/// Whether it failed because there is a file of that name.
fn is_there(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
}
