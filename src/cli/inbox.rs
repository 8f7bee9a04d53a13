//! `frontdesk inbox`: lists, exports and changes submissions and their deliveries. The commands open the
//! database themselves, so they work with and without a running server.

mod abuse;
pub(super) mod annotate;
pub(super) mod command_context;
pub(super) mod count_table;
pub(super) mod delivery_commands;
mod list;
mod log;
mod login;
pub(super) mod removal;
pub(super) mod selection;
pub(super) mod show;
pub(super) mod stats;
mod table;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use self::command_context::Console;
use self::delivery_commands::{DeliverOptions, RetryOptions};
use self::list::SubmissionExport;
use self::removal::DiscardOptions;
use self::selection::{IdentityOption, SelectionOptions, SubmissionIds};
use super::config_and_site_loading::{SiteFolder, refuse_served_folder};
use super::config_needs::{self, ConfigNeeds};
use frontdesk_config::Config;
use frontdesk_forms::text::visible;
use frontdesk_inbox::store::{DatabaseUrl, InboxReader, StoreError};

#[derive(Debug, clap::Subcommand)]
pub(super) enum InboxCommand {
    /// List submissions, newest first
    #[command(visible_alias = "ls")]
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
        #[command(flatten)]
        folder: SiteFolder,
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
        #[command(flatten)]
        folder: SiteFolder,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        /// Only submissions to this form
        #[arg(long, value_name = "NAME", value_parser = selection::parse_form_name)]
        form: Option<String>,
        #[command(flatten)]
        key: IdentityOption,
    },
    /// Count submissions by day, form and status, and deliveries by channel
    Stats {
        #[command(flatten)]
        folder: SiteFolder,
        /// Show rate-limited sources, held submissions by signal, and agents
        #[arg(long)]
        abuse: bool,
        /// Show the last N days, including today. Without --abuse, the totals cover all days. Refusals
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
    Digest(SiteFolder),
    /// Retry deliveries now: parked ones, and those waiting for their next attempt
    Retry(RetryOptions),
    /// Hold submissions: stop deliveries that have not started
    Hold {
        /// Ids of submissions, or unambiguous prefixes of them
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        /// Reason, shown with the submission
        #[arg(long, value_name = "TEXT")]
        because: Option<String>,
    },
    /// Release held submissions for delivery to the channels that are configured now
    Release {
        /// Ids of submissions, or unambiguous prefixes of them
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        /// Release all held submissions
        #[arg(long)]
        all: bool,
    },
    /// Deliver submissions to configured channels that have not received them, such as those received before
    /// a channel existed
    Deliver(DeliverOptions),
    /// Mark submissions as spam: hold them unless they are delivered, and teach screening
    Spam(SubmissionIds),
    /// Mark submissions as not spam: release those that are held as spam, and teach screening
    Ham(SubmissionIds),
    /// Mark submissions as done, so that lists of open ones leave them out, or as open again
    Done {
        #[command(flatten)]
        which: SubmissionIds,
        /// Mark them as open again
        #[arg(long)]
        undo: bool,
    },
    /// Mark submissions as open again, like `done --undo`
    #[command(hide = true)]
    Reopen(SubmissionIds),
    /// Add a private note to a submission; it is never sent, and is removed with the submission
    Note {
        /// Id of the submission, or an unambiguous prefix of it
        id: String,
        /// The note, up to 4000 characters; `-` reads it from standard input
        text: String,
        #[command(flatten)]
        folder: SiteFolder,
    },
    /// Assign submissions to a user of the inbox
    Assign {
        /// Ids of submissions, or unambiguous prefixes of them, and the user's name last
        #[arg(value_name = "ID… USER", required = true)]
        words: Vec<String>,
        /// Assign them to no user
        #[arg(long)]
        none: bool,
    },
    /// Set the day on which to come back to a submission
    FollowUp {
        /// Id of the submission, or an unambiguous prefix of it
        id: String,
        /// The day, such as 2026-11-30, today or tomorrow
        #[arg(value_name = "DATE", required_unless_present = "none")]
        day: Option<String>,
        /// Remove the submission's day
        #[arg(long)]
        none: bool,
        #[command(flatten)]
        folder: SiteFolder,
    },
    /// Record that you replied to the visitors
    Replied {
        /// Ids of submissions, or unambiguous prefixes of them
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        /// Record that no user replied
        #[arg(long)]
        undo: bool,
    },
    /// Print who changed what and when, newest first
    Log {
        #[command(flatten)]
        folder: SiteFolder,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        /// At most the N newest entries
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Open the web interface with a login link that works once and expires in ten minutes (and print the
    /// link)
    Open {
        #[command(flatten)]
        folder: SiteFolder,
        /// The URL of the web interface, if the configuration does not name it
        #[arg(long, value_name = "URL")]
        address: Option<String>,
        /// Do not open a browser
        #[arg(long)]
        print: bool,
    },
    /// List the sessions of the web interface, or end them
    Sessions {
        #[command(flatten)]
        folder: SiteFolder,
        /// End the session with this id
        #[arg(long, value_name = "ID")]
        revoke: Option<String>,
        /// End all sessions, and make unused links invalid
        #[arg(long, conflicts_with = "revoke")]
        all: bool,
    },
    /// Permanently remove held submissions
    Discard(DiscardOptions),
    /// Permanently remove all submissions from an e-mail address
    Erase {
        #[command(flatten)]
        folder: SiteFolder,
        /// The address, regardless of case
        #[arg(long, value_name = "ADDRESS", value_parser = removal::parse_email)]
        email: String,
        /// Do not ask for confirmation; required if standard input is not a terminal
        #[arg(long)]
        yes: bool,
    },
}

impl InboxCommand {
    /// The part of the configuration that the command needs.
    pub(super) fn needs(&self) -> ConfigNeeds {
        match self {
            Self::Release { .. } | Self::Deliver(_) => config_needs::ROUTING,
            Self::Export(export) if export.file().is_some() => config_needs::STORE_AND_BUILD,
            Self::Open { .. } | Self::Assign { none: false, .. } => config_needs::WEB_INTERFACE,
            _ => config_needs::STORE,
        }
    }

    /// Removes the site's folder from the arguments, and returns it. In a list of ids, the folder is the
    /// argument that is not an id: it has characters other than hexadecimal digits and `-`. (After a user's
    /// name, [`take_folder_after_user`] finds it; with `follow-up --none`, it may be in the day's place.)
    /// Fails if there are several such arguments, if the remaining ones select nothing, or if they select
    /// both by ids and by options where only one is allowed.
    pub(super) fn take_site_folder(&mut self) -> Result<Option<PathBuf>, String> {
        // The ids; whether other options select submissions; whether ids may be combined with such options;
        // and the names of the options.
        let (ids, has_filter, may_combine, options) = match self {
            Self::List { which, .. } | Self::Export(SubmissionExport { which, .. }) => {
                return Ok(which.folder.site.take());
            }
            Self::Show { folder, .. }
            | Self::Watch { folder, .. }
            | Self::Stats { folder, .. }
            | Self::Digest(folder)
            | Self::Note { folder, .. }
            | Self::Log { folder, .. }
            | Self::Open { folder, .. }
            | Self::Sessions { folder, .. }
            | Self::FollowUp { none: false, folder, .. }
            | Self::Erase { folder, .. } => return Ok(folder.site.take()),
            Self::FollowUp { day, none: true, folder, .. } => {
                return Ok(folder.site.take().or_else(|| day.take().map(PathBuf::from)));
            }
            Self::Assign { words, none: false } => return take_folder_after_user(words),
            Self::Retry(options) => {
                let has_filter = options.has_filter();
                (
                    &mut options.ids,
                    has_filter,
                    true,
                    "`--parked`, `--channel`, `--since`, `--until` or `--form`",
                )
            }
            Self::Hold { ids, .. }
            | Self::Replied { ids, .. }
            | Self::Assign { words: ids, none: true }
            | Self::Done { which: SubmissionIds { ids }, .. }
            | Self::Reopen(SubmissionIds { ids })
            | Self::Spam(SubmissionIds { ids })
            | Self::Ham(SubmissionIds { ids }) => (ids, false, true, ""),
            Self::Release { ids, all } => (ids, *all, false, "`--all`"),
            Self::Deliver(DeliverOptions { ids, kept, .. }) => (ids, *kept, false, "`--kept`"),
            Self::Discard(DiscardOptions { ids, held, .. }) => (ids, *held, false, "`--held`"),
        };
        let is_id = |word: &String| word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        let folder = ids.iter().position(|word| !is_id(word)).map(|at| ids.remove(at));
        if let (Some(folder), Some(word)) = (&folder, ids.iter().find(|word| !is_id(word))) {
            let (folder, word) = (visible(folder), visible(word));
            return Err(format!(
                "`{folder}` and `{word}` are not ids, and only one argument can be the site's folder"
            ));
        }
        match (ids.is_empty(), has_filter) {
            (true, false) if options.is_empty() => Err("give the id of a submission".to_owned()),
            (true, false) => Err(format!("give the id of a submission, or {options}")),
            (false, true) if !may_combine => Err(format!("give either ids or {options}, not both")),
            _ => Ok(folder.map(PathBuf::from)),
        }
    }
}

/// Removes the site's folder from ids and a user's name, and returns it: the last of at least three
/// arguments, if it is an existing folder. Fails if fewer than two arguments remain.
fn take_folder_after_user(words: &mut Vec<String>) -> Result<Option<PathBuf>, String> {
    let is_folder = |word: &String| std::path::Path::new(word).is_dir();
    let folder = if words.len() > 2 { words.pop_if(|word| is_folder(word)) } else { None };
    if words.len() < 2 {
        return Err("give the ids of submissions and the name of a user, or `--none`".to_owned());
    }
    Ok(folder.map(PathBuf::from))
}

/// Runs the command, and prints times in UTC or in the time zone of this machine (`TZ`, /etc/localtime).
/// Refuses to write an export into a folder whose files are published.
pub(super) fn run(command: &InboxCommand, config: &Config, is_utc: bool) -> anyhow::Result<ExitCode> {
    if let InboxCommand::Export(export) = command
        && let Some(output) = export.file()
    {
        refuse_served_folder(config, output, "an export")?;
    }
    Console::with_standard_streams(config, is_utc, |console| match command {
        InboxCommand::Open { address, print, folder: _ } => {
            console.inbox = frontdesk_inbox::open(console.url)?.map(Rc::new);
            login::open(config, address.as_deref(), *print, console)
        }
        command => execute(command, console),
    })
}

/// How long a command waits for the server to process accepted submissions.
const CATCH_UP: Duration = Duration::from_millis(500);

/// Opens the inbox, and waits up to [`CATCH_UP`] for accepted submissions to be processed. `None` if nothing
/// has been received yet.
pub(super) fn open_inbox(url: &DatabaseUrl) -> Result<Option<InboxReader>, StoreError> {
    let inbox = frontdesk_inbox::open(url)?;
    if let Some(inbox) = &inbox {
        // Until the server has processed a repeated submission, listings show it as a separate one.
        inbox.catch_up(CATCH_UP)?;
    }
    Ok(inbox)
}

/// Opens the inbox and runs the command. If there is no inbox yet, prints a note and runs the command without
/// one. Panics for [`InboxCommand::Open`], which [`run`] handles.
fn execute(command: &InboxCommand, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    console.inbox = open_inbox(console.url)?.map(Rc::new);
    if console.inbox.is_none() {
        writeln!(console.err, "Nothing has been received yet: there is no inbox at {}.", console.url)?;
    }
    match command {
        InboxCommand::List { json: true, which } => list::print_json(which, console),
        InboxCommand::List { json: false, which } => list::print_table(which, console),
        InboxCommand::Show { id, json, key, folder: _ } => show::run(id, *json, key, console),
        InboxCommand::Export(options) => list::export(options, console),
        InboxCommand::Watch { json, form, key, folder: _ } => {
            // Close the inbox, so that it can be replaced while the command runs.
            console.inbox = None;
            watch::run(*json, form.as_deref(), key, console)
        }
        InboxCommand::Stats { abuse: true, days, json, folder: _ } => abuse::run(*days, *json, console),
        InboxCommand::Stats { abuse: false, days, json, folder: _ } => stats::run(*days, *json, console),
        InboxCommand::Digest(_) => stats::digest(console),
        InboxCommand::Retry(options) => delivery_commands::retry(options, console),
        InboxCommand::Hold { ids, because } => delivery_commands::hold(ids, because.as_deref(), console),
        InboxCommand::Release { ids, all: _ } => delivery_commands::release(ids, console),
        InboxCommand::Deliver(options) => delivery_commands::deliver(options, console),
        InboxCommand::Spam(which) => annotate::set_spam(&which.ids, true, console),
        InboxCommand::Ham(which) => annotate::set_spam(&which.ids, false, console),
        InboxCommand::Done { which, undo } => annotate::set_done(&which.ids, !undo, console),
        InboxCommand::Reopen(which) => annotate::set_done(&which.ids, false, console),
        InboxCommand::Note { id, text, folder: _ } => annotate::add_note(id, text, console),
        InboxCommand::Assign { words, none: true } => annotate::assign(words, None, console),
        InboxCommand::Assign { words, none: false } => {
            let (user, ids) = words.split_last().expect("the command line requires words");
            annotate::assign(ids, Some(user), console)
        }
        InboxCommand::FollowUp { id, day, none, folder: _ } => {
            let day = day.as_deref().filter(|_| !none).map(annotate::DayArgument::parse).transpose();
            annotate::follow_up(id, day.map_err(anyhow::Error::msg)?, console)
        }
        InboxCommand::Replied { ids, undo } => annotate::set_replied(ids, !undo, console),
        InboxCommand::Log { json, limit, folder: _ } => log::print(*json, *limit, console),
        InboxCommand::Open { .. } => unreachable!("`run` handles it, because it needs the configuration"),
        InboxCommand::Sessions { revoke, all, folder: _ } => {
            login::sessions(revoke.as_deref(), *all, console)
        }
        InboxCommand::Discard(options) => removal::discard(options, console),
        InboxCommand::Erase { email, yes, folder: _ } => removal::erase(email, *yes, console),
    }
}

#[cfg(test)]
mod tests;
