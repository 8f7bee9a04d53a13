//! `frontdesk inbox`: shows, exports and changes what was sent and where it is on its way. It opens the database itself,
//! so it works whether or not a server runs.

mod abuse;
mod change;
mod csv;
mod digest;
mod discard;
mod erase;
mod filter;
mod find;
mod json;
mod list;
mod moment;
mod removal;
mod show;
mod stats;
mod table;
mod watch;
mod width;

use std::io::{self, BufRead, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;

use crate::config::Config;
use crate::forms::FORMS;
use crate::store::disk::MinFree;
use crate::store::{Place, Reader, StoreError};
use crate::submission::delivery::Route;
pub use discard::Discarded;
pub use filter::{Again, Key, Which};

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
        /// What opens sealed ones
        #[command(flatten)]
        key: Key,
    },
    /// Show one submission in full, with its deliveries and every attempt
    Show {
        /// The submission's id, or as much of its beginning as no other id shares
        id: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
        /// What opens a sealed one
        #[command(flatten)]
        key: Key,
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
        /// Replace the file if it is there
        #[arg(long, requires = "output")]
        force: bool,
        /// Which of them
        #[command(flatten)]
        which: Which,
        /// What opens sealed ones
        #[command(flatten)]
        key: Key,
    },
    /// Print submissions as they come, until Ctrl-C
    Watch {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
        /// Those of one form only
        #[arg(long, value_name = "NAME", value_parser = FORMS.map(|form| form.name))]
        form: Option<String>,
        /// What opens sealed ones
        #[command(flatten)]
        key: Key,
    },
    /// Count submissions by day, form and status, and deliveries by channel
    Stats {
        /// Tell who pressed the door, what was held for which reasons, and which agents there were
        #[arg(long)]
        abuse: bool,
        /// The last N days, today in UTC among them; totals without --abuse are of all submissions. Refusals are known for 30 days
        #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
        days: u16,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Say what needs attention, as the digest of today would
    Digest,
    /// Try deliveries again at once: parked ones, and those that wait for their next attempt
    Retry {
        /// Which of them
        #[command(flatten)]
        again: Again,
    },
    /// Keep back what is not delivered yet
    Hold {
        /// The submissions' ids, or as much of the beginning as no other id shares
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Why, for whoever looks at it later
        #[arg(long, value_name = "TEXT")]
        because: Option<String>,
    },
    /// Deliver what was held, to the channels that are configured now
    Release {
        /// The submissions' ids, or as much of the beginning as no other id shares
        #[arg(required_unless_present = "all", value_name = "ID")]
        ids: Vec<String>,
        /// Everything that is held
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
    /// Remove held submissions for good
    Discard {
        /// Which of them
        #[command(flatten)]
        which: Discarded,
        /// Do not ask; needed where standard input is no terminal
        #[arg(long)]
        yes: bool,
    },
    /// Remove for good everything that came from an e-mail address
    Erase {
        /// The address, in upper or lower case
        #[arg(long, value_name = "ADDRESS")]
        email: String,
        /// Do not ask; needed where standard input is no terminal
        #[arg(long)]
        yes: bool,
    },
}

/// Where a command's words go, and what it knows of the world around it.
struct Console<'a> {
    now: Timestamp,
    /// How much space is to be free where the inbox is.
    min_free: MinFree,
    /// The configured channels.
    channels: &'a [Route],
    /// How many columns a line of a table may have.
    width: usize,
    /// Whether `out` is a terminal, where somebody reads it.
    is_terminal: bool,
    has_colours: bool,
    has_unicode: bool,
    /// Who answers questions, where anybody can be asked.
    answers: Option<&'a mut dyn BufRead>,
    /// For data.
    out: &'a mut dyn Write,
    /// For everything else.
    err: &'a mut dyn Write,
}

/// Does it, with data on standard output and everything else on standard error.
pub fn run(command: &InboxCommand, config: &Config) -> anyhow::Result<ExitCode> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let mut answers = stdin.lock();
    let is_terminal = stdout.is_terminal();
    let has_colours = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
    let width = if is_terminal { terminal_width(&stdout) } else { DEFAULT_WIDTH };
    let mut out = BufWriter::new(stdout.lock());
    let mut console = Console {
        now: Timestamp::now(),
        min_free: config.housekeeping.min_free,
        channels: &config.store.channels,
        width,
        is_terminal,
        has_colours,
        has_unicode: ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .filter_map(std::env::var_os)
            .find(|value| !value.is_empty())
            .is_some_and(|value| says_utf_8(&value.to_string_lossy())),
        answers: if stdin.is_terminal() { Some(&mut answers) } else { None },
        out: &mut out,
        err: &mut io::stderr().lock(),
    };
    let code = execute(command, &config.store.place, &mut console)?;
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

/// Whether a locale such as `de_DE.UTF-8` has more than ASCII.
fn says_utf_8(locale: &str) -> bool {
    locale.to_ascii_lowercase().replace('-', "").contains("utf8")
}

/// How long a command waits for the server to process what was accepted before.
const CATCH_UP: Duration = Duration::from_millis(500);

fn execute(command: &InboxCommand, place: &Place, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let inbox = match Reader::open(place) {
        Ok(inbox) => {
            // What was accepted a moment ago is listed in any case; now its repeats are counted, too.
            inbox.catch_up(CATCH_UP)?;
            Some(inbox)
        }
        Err(StoreError::Missing(_)) => None,
        Err(error) => return Err(error.into()),
    };
    if inbox.is_none() {
        writeln!(console.err, "Nothing has been received yet: there is no inbox at {place}.")?;
    }
    let reader = inbox.as_ref();
    match command {
        InboxCommand::List { json: true, which, key } => list::json(reader, which, key, console),
        InboxCommand::List { json: false, which, key } => list::table(reader, which, key, console),
        InboxCommand::Show { id, json, key } => show::run(reader, id, *json, key, console),
        InboxCommand::Export { jsonl, output, force, which, key, .. } => {
            let to = output.as_deref().map(|path| list::To { path, force: *force });
            list::export(reader, which, key, !jsonl, to, console)
        }
        InboxCommand::Watch { json, form, key } => {
            // It may be replaced while it is watched.
            drop(inbox);
            watch::run(place, *json, form.as_deref(), key, console)
        }
        InboxCommand::Stats { abuse: true, days, json } => abuse::run(reader, *days, *json, console),
        InboxCommand::Stats { abuse: false, days, json } => stats::run(reader, *days, *json, console),
        InboxCommand::Digest => digest::run(reader, place, console),
        InboxCommand::Retry { again } => change::retry(reader, place, again, console),
        InboxCommand::Hold { ids, because } => change::hold(reader, place, ids, because.as_deref(), console),
        InboxCommand::Release { ids, all: _ } => change::release(reader, place, ids, console),
        InboxCommand::Discard { which, yes } => discard::run(reader, place, which, *yes, console),
        InboxCommand::Erase { email, yes } => erase::run(reader.is_some(), place, email, *yes, console),
    }
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}

#[cfg(test)]
mod tests;
