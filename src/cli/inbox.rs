//! `frontdesk inbox`: lists, exports and changes submissions and their deliveries. The commands open the
//! database themselves, so they work with and without a running server.

mod abuse;
mod change;
mod console;
mod csv;
mod json;
mod list;
mod removal;
mod selection;
mod show;
mod stats;
mod table;
mod time;
mod watch;
mod width;

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use self::change::RetryOptions;
use self::console::Console;
use self::list::SubmissionExport;
use self::removal::DiscardOptions;
use self::selection::{IdentityOption, SelectionOptions};
use crate::config::Config;
use crate::forms::FORMS;

#[derive(Debug, clap::Subcommand)]
pub(super) enum InboxCommand {
    /// List submissions, newest first
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: SelectionOptions,
    },
    /// Show one submission in full, with its deliveries and every attempt
    Show {
        /// Id of the submission, or an unambiguous prefix of it
        id: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        key: IdentityOption,
    },
    /// Export submissions, newest first, as CSV or as JSON lines
    Export(SubmissionExport),
    /// Print submissions as they arrive, until Ctrl-C
    Watch {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        /// Only submissions to this form
        #[arg(long, value_name = "NAME", value_parser = FORMS.map(|form| form.name))]
        form: Option<String>,
        #[command(flatten)]
        key: IdentityOption,
    },
    /// Count submissions by day, form and status, and deliveries by channel
    Stats {
        /// Show rate-limited sources, held submissions by signal, and agents
        #[arg(long)]
        abuse: bool,
        /// Show the last N days, including today in UTC. Without --abuse, the totals cover all days. Refusals
        /// are recorded for 30 days
        #[arg(
            long,
            value_name = "N",
            default_value_t = 30,
            value_parser = clap::value_parser!(u16).range(1..),
        )]
        days: u16,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print what needs attention, as in today's digest
    Digest,
    /// Retry deliveries now: parked ones, and those waiting for their next attempt
    Retry(RetryOptions),
    /// Hold submissions: stop deliveries that have not started
    Hold {
        /// Ids of submissions, or unambiguous prefixes of them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Reason, shown with the submission
        #[arg(long, value_name = "TEXT")]
        because: Option<String>,
    },
    /// Release held submissions for delivery to the channels that are configured now
    Release {
        /// Ids of submissions, or unambiguous prefixes of them
        #[arg(required_unless_present = "all", value_name = "ID")]
        ids: Vec<String>,
        /// Release all held submissions
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
    /// Permanently remove held submissions
    Discard(DiscardOptions),
    /// Permanently remove all submissions from an e-mail address
    Erase {
        /// The address, regardless of case
        #[arg(long, value_name = "ADDRESS")]
        email: String,
        /// Do not ask for confirmation; required if standard input is not a terminal
        #[arg(long)]
        yes: bool,
    },
}

pub(super) fn run(command: &InboxCommand, config: &Config) -> anyhow::Result<ExitCode> {
    Console::with_standard_streams(config, |console| execute(command, console))
}

/// How long a command waits for the server to process accepted submissions.
const CATCH_UP: Duration = Duration::from_millis(500);

/// Opens the inbox, waits briefly for accepted submissions to be processed, and runs the command.
fn execute(command: &InboxCommand, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    console.inbox = selection::open_inbox(console.place)?.map(Rc::new);
    match &console.inbox {
        // Listings include unprocessed submissions, but do not count a repeat until it has been processed.
        Some(inbox) => {
            inbox.catch_up(CATCH_UP)?;
        }
        None => {
            writeln!(console.err, "Nothing has been received yet: there is no inbox at {}.", console.place)?;
        }
    }
    match command {
        InboxCommand::List { json: true, which } => list::print_json(which, console),
        InboxCommand::List { json: false, which } => list::print_table(which, console),
        InboxCommand::Show { id, json, key } => show::run(id, *json, key, console),
        InboxCommand::Export(options) => list::export(options, console),
        InboxCommand::Watch { json, form, key } => {
            // Close the inbox, so that it can be replaced while the command runs.
            console.inbox = None;
            watch::run(*json, form.as_deref(), key, console)
        }
        InboxCommand::Stats { abuse: true, days, json } => abuse::run(*days, *json, console),
        InboxCommand::Stats { abuse: false, days, json } => stats::run(*days, *json, console),
        InboxCommand::Digest => stats::digest(console),
        InboxCommand::Retry(options) => change::retry(options, console),
        InboxCommand::Hold { ids, because } => change::hold(ids, because.as_deref(), console),
        InboxCommand::Release { ids, all: _ } => change::release(ids, console),
        InboxCommand::Discard(options) => removal::discard(options, console),
        InboxCommand::Erase { email, yes } => removal::erase(email, *yes, console),
    }
}

#[cfg(test)]
mod tests;
