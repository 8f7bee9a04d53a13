//! `frontdesk inbox discard` and `erase`: remove submissions permanently, after a confirmation.

use std::io;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;

use super::command_context::Console;
use super::selection::find_all;
use crate::cli::diagnostics::{counted, exit_code, plural, with_hint};
use frontdesk_desk::time::{TimeArgument, format_time};
use frontdesk_forms::email::{Mailbox, with_ascii_domain};
use frontdesk_forms::text::{is_blank, visible};
use frontdesk_inbox::discard_preview::{
    DiscardPreview, Discarded, HeldPreview, confirmed_filter, preview_held,
};
use frontdesk_inbox::store::{self, DatabaseUrl, Editor, Erased, HeldFilter, SourcePrefix};
use frontdesk_inbox::submission::{Status, Submission};
use frontdesk_process::progress;
use frontdesk_process::progress_bar::Progress;
use frontdesk_screening::verdict::Signal;

/// Options that select held submissions.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DiscardOptions {
    /// Ids of submissions, or unambiguous prefixes of them
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Select all held submissions, or those that match all other options. Submissions held only because of a
    /// flood are not selected, because they are released when it ends; `--reason form-rate` selects them
    #[arg(long)]
    pub(super) held: bool,
    /// Only submissions to which screening assigned this signal
    #[arg(
        long,
        value_name = "SIGNAL",
        requires = "held",
        value_parser = Signal::ALL.map(Signal::name),
    )]
    reason: Option<String>,
    /// Only submissions received before this time: 2026-11-20T14:00:00Z, 2026-11-20 (midnight), or an age
    /// such as 30m, 2h, 3d
    #[arg(
        long,
        value_name = "TIME",
        requires = "held",
        value_parser = TimeArgument::parse,
    )]
    before: Option<TimeArgument>,
    /// Only submissions from this source: its hash, or a prefix of it, as `show` and `stats --abuse` print it
    #[arg(long, value_name = "HASH", requires = "held", value_parser = parse_source)]
    source: Option<SourcePrefix>,
    /// Do not ask for confirmation; required if standard input is not a terminal
    #[arg(long)]
    yes: bool,
}

fn parse_source(digits: &str) -> Result<SourcePrefix, String> {
    SourcePrefix::parse(digits).ok_or_else(|| "it must be 1 to 32 hexadecimal digits".to_owned())
}

/// Removes the selected held submissions after a confirmation, which `--yes` replaces. If screening learns,
/// submissions that it held or that are marked as spam may become lessons about spam. Returns the exit code 2
/// without `--yes` and without a terminal for the confirmation.
pub(super) fn discard(options: &DiscardOptions, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    if let Some(refused) = refuse_unconfirmed(options.yes, console)? {
        return Ok(refused);
    }
    if options.held { discard_matching(options, console) } else { discard_by_id(options, console) }
}

/// Removes the held submissions that match the options: those received up to the last one that the
/// confirmation counted. Prints how many others are held only until a flood ends. Returns failure if the
/// prefix of a source matches several sources, if the operator does not confirm, or if the database's log
/// cannot be wiped.
fn discard_matching(options: &DiscardOptions, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let Some(inbox) = &console.inbox else {
        writeln!(console.out, "nothing")?;
        return Ok(ExitCode::SUCCESS);
    };
    let filter = HeldFilter {
        signal: options.reason.as_deref().and_then(Signal::from_name),
        before: options.before.map(|when| when.at(&console.now)),
        source: options.source,
    };
    let held = match preview_held(inbox, &filter)? {
        HeldPreview::Held(held) => held,
        HeldPreview::SeveralSources(count) => {
            let source = options.source.map(|source| source.to_string()).unwrap_or_default();
            console.report(&with_hint(
                anyhow!("{count} sources of held submissions have a hash that begins with `{source}`"),
                "give more digits of the hash; `frontdesk inbox show ID` prints all of them",
            ))?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let left = held.left_in_floods;
    if left > 0 {
        let (are, them) = (plural(left, "is", "are"), plural(left, "it", "them"));
        writeln!(
            console.err,
            "{} {are} held only until a flood ends and {are} not selected: `--reason form-rate` selects {them}.",
            counted(left, "submission")
        )?;
    }
    if !options.yes && !confirm_discard(held.submissions, held.received, console)? {
        return Ok(ExitCode::FAILURE);
    }
    // Exclude submissions that arrived after the last one that was counted.
    let filter = confirmed_filter(&filter, &held);
    let mut editor = Editor::open(console.url)?.on_behalf_of(&console.user).teaching_with(&console.lexicon);
    let now = console.now.timestamp();
    let erased = show_removal(held.submissions, || editor.discard_held(&filter, now)).context(INCOMPLETE)?;
    Ok(report_removal(&erased, console)?)
}

/// Removes the given submissions that are held, and reports why the others were not removed. Returns failure
/// if there are others, also ids without a submission, if the operator does not confirm, or if the database's
/// log cannot be wiped.
fn discard_by_id(options: &DiscardOptions, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let (found, missing) = find_all(&options.ids, console)?;
    if console.inbox.is_none() {
        return Ok(ExitCode::FAILURE);
    }
    let preview = DiscardPreview::new(found);
    for submission in &preview.others {
        console.report(&refusal(submission))?;
    }
    if !options.yes && !confirm_discard(preview.held.len(), preview.received(), console)? {
        return Ok(ExitCode::FAILURE);
    }
    // Go on even if no submission is left to remove: that wipes the database's log, in which an earlier run
    // may have left removed data.
    let mut editor = Editor::open(console.url)?.on_behalf_of(&console.user).teaching_with(&console.lexicon);
    let (count, now) = (preview.held.len(), console.now.timestamp());
    let Discarded { erased, stayed } =
        show_removal(count, || preview.discard(&mut editor, now)).context(INCOMPLETE)?;
    let code = report_removal(&erased, console)?;
    if stayed > 0 {
        let were = plural(
            stayed,
            "was not removed by this command: it was",
            "were not removed by this command: they were",
        );
        let remain = plural(stayed, "it if it remains", "those that remain");
        writeln!(
            console.err,
            "error: {} {were} released or removed while it was running; `frontdesk inbox list` shows {remain}",
            counted(stayed, "submission")
        )?;
    }
    Ok(if missing + preview.others.len() + stayed == 0 { code } else { ExitCode::FAILURE })
}

/// Shows the progress of `remove`, which removes `count` submissions.
fn show_removal<T>(count: usize, remove: impl FnOnce() -> T) -> T {
    let _progress = Progress::start("Removing");
    progress::begin("submissions", count as u64);
    remove()
}

/// The context for an error that may occur after some submissions have been removed.
const INCOMPLETE: &str = "some submissions may not have been removed; run the same command again";

/// Asks whether to remove `count` submissions, which were received from the first to the last time.
/// Without these times, there is no submission: asks nothing and returns true.
fn confirm_discard(
    count: usize,
    received: Option<(Timestamp, Timestamp)>,
    console: &mut Console<'_>,
) -> io::Result<bool> {
    let Some((first, last)) = received else { return Ok(true) };
    let (held, zone) = (counted(count, "held submission"), console.now.time_zone());
    let received = if first == last {
        format!("received at {}", format_time(first, zone))
    } else {
        format!("received from {} to {}", format_time(first, zone), format_time(last, zone))
    };
    confirm(&format!("Remove {held}, {received}, for good?"), console)
}

/// The error for a submission that is not held, with a hint on how to remove it.
pub(in crate::cli) fn refusal(submission: &Submission) -> anyhow::Error {
    let id = submission.id;
    let erase = "`frontdesk inbox erase --email ADDRESS` removes everything that came from an address";
    let hint = if submission.status != Status::Delivered && submission.error.is_none() {
        format!("`frontdesk inbox hold {id}` holds it, so that it can be discarded; {erase}")
    } else {
        erase.to_owned()
    };
    with_hint(anyhow!("submission {id} is {}, not held, so it cannot be discarded", submission.status), hint)
}

/// Parses an e-mail address. Ignores white space and invisible characters around it, which copying adds, and
/// converts an internationalized domain to Punycode, as the forms do.
pub(super) fn parse_email(text: &str) -> Result<String, String> {
    let address = with_ascii_domain(text.trim_matches(is_blank));
    let is_valid = Mailbox::parse(&address).is_some();
    if is_valid { Ok(address.into_owned()) } else { Err("it is not an e-mail address".to_owned()) }
}

/// Removes all submissions with this address in a field for e-mail addresses, regardless of case. Asks for a
/// confirmation first, unless `yes` is set or there are none. Returns failure if the operator does not
/// confirm, or if the database's log cannot be wiped. Without `yes` and without a terminal, removes nothing
/// and returns the exit code 2.
pub(super) fn erase(email: &str, yes: bool, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    if let Some(refused) = refuse_unconfirmed(yes, console)? {
        return Ok(refused);
    }
    if console.inbox.is_none() {
        writeln!(console.out, "nothing")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut editor = Editor::open(console.url)?.on_behalf_of(&console.user);
    let count = editor.count_from(email)?;
    let question = format!("Remove {} from {} for good?", counted(count, "submission"), visible(email));
    if !yes && count > 0 && !confirm(&question, console)? {
        return Ok(ExitCode::FAILURE);
    }
    let erased = show_removal(count, || editor.erase(email)).context(INCOMPLETE)?;
    Ok(report_removal(&erased, console)?)
}

/// Prints an error and returns the exit code 2 if there is no `--yes` and standard input is not a terminal on
/// which the operator could confirm.
fn refuse_unconfirmed(yes: bool, console: &mut Console<'_>) -> io::Result<Option<ExitCode>> {
    if yes || console.input.is_terminal {
        return Ok(None);
    }
    writeln!(
        console.err,
        "error: nothing was removed: standard input is not a terminal on which to confirm; `--yes` skips the question"
    )?;
    // The exit code for incorrect usage.
    Ok(Some(ExitCode::from(2)))
}

/// Asks a yes-or-no question. Only `y` and `yes`, in upper or lower case, mean yes; after any other answer,
/// prints that nothing was removed. Without a terminal, asks nothing and returns false.
fn confirm(question: &str, console: &mut Console<'_>) -> io::Result<bool> {
    if !console.input.is_terminal {
        return Ok(false);
    }
    write!(console.err, "{question} [y/N] ")?;
    console.err.flush()?;
    let mut answer = String::new();
    console.input.reader.read_line(&mut answer)?;
    let is_confirmed = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if !is_confirmed {
        writeln!(console.err, "Nothing was removed.")?;
    }
    Ok(is_confirmed)
}

/// The result of a removal, for the operator.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct RemovalReport {
    /// The numbers of removed rows, such as `1 submission removed`; empty if nothing was removed.
    pub(in crate::cli) removed: Vec<String>,
    /// Warnings and remarks, each with its label.
    pub(in crate::cli) remarks: Vec<String>,
    /// False if the log of a SQLite database may still contain removed data. Always true with PostgreSQL, for
    /// which a remark says how long removed data may stay.
    pub(in crate::cli) is_wiped: bool,
}

impl RemovalReport {
    /// Describes a removal from the inbox at `url`, and names the copies of removed data that it may not have
    /// reached.
    pub(in crate::cli) fn new(erased: &Erased, url: &DatabaseUrl) -> RemovalReport {
        let mut report = RemovalReport { is_wiped: true, ..RemovalReport::default() };
        if erased.submissions > 0 {
            report.removed = [
                (erased.submissions, "submission"),
                (erased.deliveries, "delivery"),
                (erased.attempts, "attempt"),
            ]
            .map(|(count, noun)| format!("{} removed", counted(count, noun)))
            .into();
            if erased.delivered > 0 {
                let (had, copies) = (
                    counted(erased.delivered, "delivery"),
                    plural(erased.delivered, "a copy is", "copies are"),
                );
                report.remarks.push(format!(
                    "warning: {had} had arrived: {copies} in a mailbox or another system, which this command cannot reach."
                ));
            }
            report.remarks.push("warning: earlier backups still contain the removed data.".to_owned());
        }
        let Some(file) = url.file() else {
            if erased.submissions > 0 {
                report.remarks.push(
                    "warning: PostgreSQL overwrites removed rows some time after the next vacuum; its write-ahead log and its archives may contain them longer."
                        .to_owned(),
                );
            }
            return report;
        };
        if !erased.is_wiped {
            report.remarks.push(
                "warning: another program is reading the inbox, so the database's log could not be wiped and may still contain removed data.\n\
                 hint: run the same command again once that program has ended"
                    .to_owned(),
            );
        } else if erased.submissions > 0 {
            report.remarks.push(
                "The database's log was wiped: no removed data is left in the inbox's files.".to_owned(),
            );
        }
        report.remarks.extend(store::replaced_by_restores(file).iter().map(|kept| {
            format!(
                "warning: {} is an earlier inbox (or its log), which a restore kept; the file was not searched and may contain the \
                 data to be removed: delete the file when you no longer need it",
                kept.display()
            )
        }));
        report.is_wiped = erased.is_wiped;
        report
    }
}

/// Prints what was removed. Returns failure if the database's log could not be wiped.
fn report_removal(erased: &Erased, console: &mut Console<'_>) -> io::Result<ExitCode> {
    let report = RemovalReport::new(erased, console.url);
    if report.removed.is_empty() {
        writeln!(console.out, "nothing")?;
    }
    for line in &report.removed {
        writeln!(console.out, "{line}")?;
    }
    console.out.flush()?;
    for line in &report.remarks {
        writeln!(console.err, "{line}")?;
    }
    Ok(exit_code(report.is_wiped))
}
