//! `frontdesk inbox`: shows and exports what was sent. It reads the database itself, so it works whether or
//! not a server runs.

mod csv;
mod table;

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Map, Value};

use crate::inbox::store::Found;
use crate::inbox::text::{is_unsafe, visible};
use crate::inbox::{FORMS, Filter, Reader, StoreError, Submission};

/// How wide a table is where nobody says how wide the terminal is.
const DEFAULT_WIDTH: usize = 100;

/// What to do with the inbox.
#[derive(Debug, clap::Subcommand)]
pub enum InboxCommand {
    /// List submissions, newest first
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
        /// Which of them
        #[command(flatten)]
        which: Which,
    },
    /// Show one submission in full
    Show {
        /// The submission's id, or as much of its beginning as no other id shares
        id: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Export submissions, newest first, as CSV or as JSON lines
    Export {
        /// Write CSV, as it does unless told otherwise (RFC 4180, UTF-8, safe to open in a spreadsheet)
        #[arg(long)]
        csv: bool,
        /// Write one JSON object a line
        #[arg(long, conflicts_with = "csv")]
        jsonl: bool,
        /// Write to this file, readable by you alone, instead of standard output
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Which of them
        #[command(flatten)]
        which: Which,
    },
}

/// Which submissions.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Which {
    /// No more than the N newest
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Those of one form only
    #[arg(long, value_name = "NAME", value_parser = FORMS.map(|form| form.name))]
    form: Option<String>,
}

/// Does it, with data on standard output and everything else on standard error.
pub fn run(command: &InboxCommand, database: &Path) -> anyhow::Result<ExitCode> {
    let stdout = io::stdout();
    let width = if stdout.is_terminal() { terminal_width(&stdout) } else { DEFAULT_WIDTH };
    let mut out = BufWriter::new(stdout.lock());
    let code = execute(command, database, width, &mut out, &mut io::stderr().lock())?;
    out.flush()?;
    Ok(code)
}

fn terminal_width(stdout: &io::Stdout) -> usize {
    rustix::termios::tcgetwinsize(stdout)
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(DEFAULT_WIDTH)
}

fn execute(
    command: &InboxCommand,
    database: &Path,
    width: usize,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let reader = match Reader::open(database) {
        Ok(reader) => Some(reader),
        Err(StoreError::Missing(_)) => None,
        Err(error) => return Err(error.into()),
    };
    if reader.is_none() {
        writeln!(err, "Nothing has been received yet: there is no inbox at {}.", database.display())?;
    }
    match command {
        InboxCommand::List { json: true, which } => json_lines(select(reader.as_ref(), which)?, out)?,
        InboxCommand::List { json: false, which } => {
            let count = table::write(select(reader.as_ref(), which)?, width, out)?;
            if count == 0 && reader.is_some() {
                writeln!(err, "No submissions to list.")?;
            }
        }
        InboxCommand::Show { id, json } => return show(reader.as_ref(), id, *json, out, err),
        InboxCommand::Export { jsonl, output: None, which, .. } => {
            export(select(reader.as_ref(), which)?, !jsonl, out)?;
        }
        InboxCommand::Export { jsonl, output: Some(path), which, .. } => {
            let count = export_to_file(select(reader.as_ref(), which)?, !jsonl, path)?;
            writeln!(err, "{count} {} written to {}.", plural(count, "submission"), path.display())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn select<'a>(
    reader: Option<&'a Reader>,
    which: &Which,
) -> Result<impl Iterator<Item = Result<Submission, StoreError>> + use<'a>, StoreError> {
    let filter = Filter { form: which.form.clone(), limit: which.limit, ..Filter::default() };
    Ok(reader.map(|reader| reader.list(&filter)).transpose()?.into_iter().flatten())
}

fn show(
    reader: Option<&Reader>,
    id: &str,
    json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    match reader.map_or(Ok(Found::None), |reader| reader.find(id))? {
        Found::One(submission) if json => writeln!(out, "{}", json_line(&submission))?,
        Found::One(submission) => table::write_one(&submission, out)?,
        Found::None => {
            writeln!(err, "error: no submission has an id that begins with `{}`", visible(id))?;
            writeln!(err, "hint: `frontdesk inbox list` shows the ids")?;
            return Ok(ExitCode::FAILURE);
        }
        Found::Several(ids) => {
            writeln!(err, "error: more than one submission has an id that begins with `{}`", visible(id))?;
            for id in ids {
                writeln!(err, "  {id}")?;
            }
            writeln!(err, "hint: give more digits of the id")?;
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn export(
    submissions: impl Iterator<Item = Result<Submission, StoreError>>,
    as_csv: bool,
    out: &mut dyn Write,
) -> anyhow::Result<usize> {
    let mut count = 0;
    let mut counted = submissions.inspect(|_| count += 1);
    if as_csv {
        csv::write(&mut counted, out)?;
    } else {
        json_lines(counted, out)?;
    }
    Ok(count)
}

fn export_to_file(
    submissions: impl Iterator<Item = Result<Submission, StoreError>>,
    as_csv: bool,
    path: &Path,
) -> anyhow::Result<usize> {
    let write = || -> anyhow::Result<usize> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let mut out = BufWriter::new(file);
        let count = export(submissions, as_csv, &mut out)?;
        out.flush()?;
        Ok(count)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn json_lines(
    submissions: impl Iterator<Item = Result<Submission, StoreError>>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for submission in submissions {
        writeln!(out, "{}", json_line(&submission?))?;
    }
    Ok(())
}

/// The same object as one line of text that is safe in a terminal: JSON has an escape for everything.
fn json_line(submission: &Submission) -> String {
    let mut line = String::new();
    for c in to_json(submission).to_string().chars() {
        if is_unsafe(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(line, "\\u{unit:04x}");
            }
        } else {
            line.push(c);
        }
    }
    line
}

/// What the inbox says of a submission, the submission's own fields, and what it says beyond that: those
/// names begin with `_`, as no field's does.
fn to_json(submission: &Submission) -> Value {
    let mut object = Map::new();
    object.insert("id".to_owned(), submission.id.to_string().into());
    object.insert("form".to_owned(), submission.form.as_str().into());
    object.insert("received_at".to_owned(), submission.received_at_text().into());
    object.insert("status".to_owned(), submission.status.name().into());
    for (name, value) in &submission.fields {
        object.insert(name.clone(), value.as_str().into());
    }
    object.insert("_repeats".to_owned(), submission.repeats.into());
    object.insert("_source".to_owned(), submission.source.as_str().into());
    Value::Object(object)
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}

#[cfg(test)]
mod tests;
