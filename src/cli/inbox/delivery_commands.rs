//! `frontdesk inbox retry`, `hold`, `release` and `deliver` control the deliveries of submissions.

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};

use super::command_context::Console;
use super::selection::{PeriodOptions, find_all, parse_form_name};
use crate::cli::diagnostics::{counted, exit_code, plural, with_hint};
use frontdesk_forms::text::visible;
use frontdesk_inbox::change::{Changes, Held, Queued, Released};
use frontdesk_inbox::store::lock::Lock;
use frontdesk_inbox::store::{DatabaseUrl, Filter, InboxReader, Retry, StoreError};
use frontdesk_inbox::submission::delivery::Route;
use frontdesk_inbox::submission::{Status, Submission};
use frontdesk_process::progress;
use frontdesk_process::progress_bar::Progress;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct RetryOptions {
    /// Ids of submissions, or unambiguous prefixes of them
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Only parked deliveries; without other options, all of them
    #[arg(long)]
    parked: bool,
    /// Only deliveries to this channel, which is switched on again if it was switched off
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    #[command(flatten)]
    period: PeriodOptions,
    /// Only submissions to this form
    #[arg(long, value_name = "NAME", value_parser = parse_form_name)]
    form: Option<String>,
}

impl RetryOptions {
    /// Whether an option other than the ids selects deliveries.
    pub(super) fn has_filter(&self) -> bool {
        self.parked || self.channel.is_some() || self.form.is_some() || self.period.is_set()
    }
}

/// Makes the selected deliveries due now, restarts their schedules, and switches their channels on. Without
/// `--channel`, also requeues submissions that could not be processed. Of held submissions, retries only
/// mails that ask for a confirmation. Retries mails to visitors only with ids or `--channel`. Prints how many
/// deliveries and submissions there are, or why none matches, and whether the channel of `--channel` was
/// switched off or paused. Returns failure if an id has no submission.
pub(super) fn retry(options: &RetryOptions, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let (found, missing) = find_all(&options.ids, console)?;
    let filter = Filter { form: options.form.clone(), ..options.period.filter(&console.now) };
    let filters: Vec<Filter> = if options.ids.is_empty() {
        vec![filter]
    } else {
        found.iter().map(|submission| Filter { id: Some(submission.id), ..filter.clone() }).collect()
    };
    if let Some(inbox) = console.inbox.clone().filter(|_| !filters.is_empty()) {
        let mut count = 0;
        let obstacle = match &options.channel {
            Some(name) => inbox.obstacles()?.into_iter().find(|(channel, _)| channel == name),
            None => None,
        };
        let mut changes = Changes::open(console.url, &inbox, &console.user)?;
        let progress = Progress::start("Retrying");
        for which in &filters {
            let retry =
                Retry { which: which.clone(), channel: options.channel.clone(), parked_only: options.parked };
            count += changes
                .retry(&retry, console.now.timestamp())
                .context("some deliveries were not queued; run the same command again")?;
        }
        drop(progress);
        match count {
            0 => explain_nothing_to_retry(&inbox, options, &filters, console)?,
            n => writeln!(console.out, "{}.", describe_due_retries(n, console.url))?,
        }
        if let Some((name, obstacle)) = obstacle {
            let resumed = if obstacle.off { "switched on" } else { "resumed" };
            writeln!(console.out, "Channel \"{}\" is {resumed}.", visible(&name))?;
        }
    }
    Ok(exit_code(missing == 0))
}

/// Prints that nothing matches, and what may be the reason: a channel that the inbox does not know, or held
/// submissions.
fn explain_nothing_to_retry(
    reader: &InboxReader,
    options: &RetryOptions,
    filters: &[Filter],
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let channels = reader.channels()?;
    let states = if options.parked { "is parked" } else { "is waiting or parked" };
    let channel = match &options.channel {
        Some(name) => format!(" for channel \"{}\"", visible(name)),
        None => String::new(),
    };
    writeln!(console.out, "Nothing to retry: no such delivery{channel} {states}.")?;
    if let Some(name) = &options.channel
        && !channels.iter().any(|channel| channel.name == *name)
    {
        let names = channels.iter().map(|channel| visible(&channel.name)).reduce(|a, b| a + ", " + &b);
        let names = names.unwrap_or_else(|| "none".to_owned());
        let name = visible(name);
        writeln!(
            console.err,
            "The inbox contains no delivery to a channel \"{name}\". Channels with deliveries: {names}."
        )?;
    }
    let held = |filter: &Filter| -> Result<usize, StoreError> {
        reader.count(&Filter { status: Some(Status::Held), ..filter.clone() })
    };
    let held = filters.iter().map(held).sum::<Result<usize, StoreError>>()?;
    if held > 0 {
        let (are, them) = (plural(held, "is", "are"), plural(held, "it", "them"));
        let held = counted(held, "submission");
        writeln!(console.err, "{held} {are} held: `frontdesk inbox release` delivers {them}.")?;
    }
    Ok(())
}

/// Describes the result of a hold as the end of a sentence. `None` if the submission no longer exists.
pub(in crate::cli) fn describe_hold(held: Held) -> Option<String> {
    Some(match held {
        Held::Held { gone, deliveries } => {
            let late = match gone {
                0 => String::new(),
                n => format!(" ({n} of {deliveries} deliveries had arrived or were under way)"),
            };
            format!("is held until `frontdesk inbox release`{late}")
        }
        Held::AlreadyHeld => "is already held".to_owned(),
        Held::NothingToHold => "has no delivery to hold: it is delivered, or not processed yet".to_owned(),
        Held::Missing => return None,
    })
}

/// The result of a release, as the rest of a sentence about the submission, which had this status before.
/// `None` if it no longer exists.
pub(in crate::cli) fn describe_release(
    released: Released,
    before: Status,
    url: &DatabaseUrl,
) -> Option<String> {
    let without = match before {
        Status::Unconfirmed => ", although the visitor has not confirmed the address",
        _ => "",
    };
    Some(match released {
        Released::Released(0) => format!("is released{without}: there is nothing to deliver"),
        Released::Released(n) => format!("is released{without}: {}", describe_due_deliveries(n, url)),
        Released::AsksVisitor => "is released, but waits until the visitor confirms the address: another `release` delivers it without a confirmation".to_owned(),
        Released::NotHeld => "is not held".to_owned(),
        Released::Missing => return None,
    })
}

/// States that this many deliveries are due now, and when they are attempted: now if a server is running, or
/// once one is.
fn describe_due_deliveries(count: usize, url: &DatabaseUrl) -> String {
    describe_due(count, "delivery", url)
}

/// Like [`describe_due_deliveries`], but about the count of [`Changes::retry`], which includes submissions
/// that are processed again.
pub(in crate::cli) fn describe_due_retries(count: usize, url: &DatabaseUrl) -> String {
    describe_due(count, "retry", url)
}

/// Says that `count` deliveries or retries are due now, and when the server attempts them. `noun` is
/// `delivery` or `retry`.
fn describe_due(count: usize, noun: &str, url: &DatabaseUrl) -> String {
    let (things, are) = (counted(count, noun), plural(count, "is", "are"));
    if Lock::is_held_elsewhere(url) {
        let them = plural(count, "it", "them");
        return format!("{things} {are} due now, and the running server attempts {them}");
    }
    format!("{things} {are} due now and will be attempted as soon as the server is running")
}

/// The result of a change to one submission. Its text completes a sentence that begins with the id.
pub(super) enum Outcome {
    Done(String),
    /// The change made this many deliveries due now.
    Queued(usize),
    /// The change was not made. The text gives the reason.
    Failed(&'static str),
    /// The submission has not been processed yet, or was removed.
    Missing,
}

impl Outcome {
    /// Returns `Done` with the given words, or `Missing` without words.
    pub(super) fn described(words: Option<String>) -> Outcome {
        words.map_or(Outcome::Missing, Outcome::Done)
    }
}

/// Applies a change to each submission, and prints a sentence about each. Returns failure if one could not be
/// changed, if there are none, or if `missing`, the number of ids without a submission, is not 0. An error of
/// the database ends the command; changes before it stay.
pub(super) fn change_each(
    (found, missing): (Vec<Submission>, usize),
    console: &mut Console<'_>,
    mut change: impl FnMut(&mut Changes<'_>, &Submission, &Console<'_>) -> Result<Outcome, StoreError>,
) -> anyhow::Result<ExitCode> {
    let Some(inbox) = console.inbox.clone().filter(|_| !found.is_empty()) else {
        return Ok(ExitCode::FAILURE);
    };
    let mut failed = missing;
    let mut changes = Changes::open(console.url, &inbox, &console.user)?.teaching_with(&console.lexicon);
    for submission in found {
        let id = submission.id;
        match change(&mut changes, &submission, console)? {
            Outcome::Done(words) => writeln!(console.out, "{id} {words}.")?,
            Outcome::Queued(n) => {
                writeln!(console.out, "{id}: {}.", describe_due_deliveries(n, console.url))?;
            }
            Outcome::Failed(words) => {
                failed += 1;
                writeln!(console.out, "{id} {words}.")?;
            }
            Outcome::Missing => {
                failed += 1;
                writeln!(
                    console.err,
                    "error: {id} is unchanged, because the submission has not been processed yet or was removed; \
                     run the command again in a moment"
                )?;
            }
        }
    }
    Ok(exit_code(failed == 0))
}

/// Holds the given submissions. Deliveries that have already started are not stopped. If screening learns, a
/// submission that becomes held loses its lesson. Reports and skips ids without a submission.
pub(super) fn hold(
    ids: &[String],
    because: Option<&str>,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    change_each(find_all(ids, console)?, console, |changes, submission, console| {
        let held = changes.hold(submission, because, console.now.timestamp())?;
        Ok(Outcome::described(describe_hold(held)))
    })
}

/// Releases the held submissions with these ids, or all held submissions if `ids` is empty. Those that the
/// visitor must confirm may stay held until then. If screening learns, submissions that it had held may
/// become lessons about honest texts. Reports and skips ids without a submission.
pub(super) fn release(ids: &[String], console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let found = if ids.is_empty() {
        let held = Filter { status: Some(Status::Held), ..Filter::default() };
        let held = console.inbox.as_ref().map(|inbox| inbox.list(&held)).transpose()?.into_iter().flatten();
        let held = held.collect::<Result<Vec<_>, _>>()?;
        if held.is_empty() {
            writeln!(console.out, "No submission is held.")?;
            return Ok(ExitCode::SUCCESS);
        }
        (held, 0)
    } else {
        find_all(ids, console)?
    };
    change_each(found, console, |changes, submission, console| {
        let released = changes.release(submission.id, console.channels, console.now.timestamp())?;
        Ok(Outcome::described(describe_release(released, submission.status, console.url)))
    })
}

/// Options that select submissions to deliver.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DeliverOptions {
    /// Ids of submissions, or unambiguous prefixes of them
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// All submissions that have no delivery, because no channel accepted their form when they arrived
    #[arg(long)]
    pub(super) kept: bool,
    /// Only to this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
}

/// Queues the selected submissions for those of the team's configured channels, or of `--channel`, that
/// accept their forms and do not have them yet. Returns failure if there is no such channel, or if a
/// submission that an id selects could not be queued.
pub(super) fn deliver(options: &DeliverOptions, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let is_wanted = |route: &&Route| {
        route.visitor.is_none() && options.channel.as_ref().is_none_or(|name| *name == route.name)
    };
    let channels: Vec<Route> = console.channels.iter().filter(is_wanted).cloned().collect();
    if channels.is_empty() {
        let team = console.channels.iter().filter(|route| route.visitor.is_none());
        let names: Vec<_> = team.map(|route| visible(&route.name)).collect();
        console.report(&match (&options.channel, &names[..]) {
            (_, []) => with_hint(
                anyhow!("no channel is configured"),
                "add a `[[channel]]` to frontdesk.toml, which sends submissions to a mailbox or a webhook",
            ),
            (name, names) => {
                let name = visible(name.as_deref().unwrap_or_default());
                anyhow!("there is no channel `{name}`; configured channels: {}", names.join(", "))
            }
        })?;
        return Ok(ExitCode::FAILURE);
    }
    if options.kept {
        return deliver_kept(&channels, console);
    }
    change_each(find_all(&options.ids, console)?, console, |changes, submission, console| {
        Ok(match changes.deliver(submission, &channels, console.now.timestamp())? {
            Queued::Queued(n) => Outcome::Queued(n),
            Queued::Held => Outcome::Failed("is held: `frontdesk inbox release` delivers it"),
            Queued::Sealed => Outcome::Failed("is encrypted, so no channel can read it"),
            Queued::NotAccepted => {
                Outcome::Failed("is accepted by none of these channels, because of their `forms` or `when`")
            }
            Queued::SetAside => {
                Outcome::Failed("could not be processed: `frontdesk inbox retry` tries again")
            }
            Queued::AlreadyDelivered => {
                Outcome::Failed("has been delivered to these channels, or is about to be")
            }
            Queued::Missing => Outcome::Missing,
        })
    })
}

/// Queues all submissions without a delivery to the team, except held and encrypted ones, for each of
/// `channels` that accepts them. Prints how many deliveries were added, and how many submissions stay in the
/// inbox only.
fn deliver_kept(channels: &[Route], console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let Some(inbox) = console.inbox.clone() else { return Ok(ExitCode::SUCCESS) };
    let kept = Filter { status: Some(Status::Kept), ..Filter::default() };
    let mut changes = Changes::open(console.url, &inbox, &console.user)?;
    let progress = Progress::start("Queueing");
    progress::begin("submissions", inbox.count(&kept)? as u64);
    let added = changes.editor.deliver_kept(channels, console.now.timestamp());
    drop(progress);
    let added = added.context("some submissions were not queued; run the same command again")?;
    match added {
        0 => writeln!(console.out, "Nothing to deliver.")?,
        n => writeln!(console.out, "{}.", describe_due_deliveries(n, console.url))?,
    }
    let kept = inbox.count(&kept)?;
    if kept > 0 {
        let (kept, stay) = (counted(kept, "submission"), plural(kept, "stays", "stay"));
        writeln!(
            console.err,
            "{kept} {stay} in the inbox only: encrypted, or sent with a form that none of these channels accepts."
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
