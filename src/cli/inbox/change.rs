//! `frontdesk inbox retry`, `hold` and `release`.

use std::process::ExitCode;

use anyhow::Context as _;

use super::console::Console;
use super::selection::{PeriodOptions, find_all};
use crate::cli::output::{counted, exit_code, plural};
use crate::forms::FORMS;
use crate::forms::text::visible;
use crate::store::{Editor, Filter, InboxReader, Retry, StoreError};
use crate::submission::Status;
use crate::submission::delivery::DeliveryState;

/// At least one option is required, so that an operator cannot retry everything by accident.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(required = true, multiple = true, args = ["ids", "parked", "channel", "since", "until", "form"])]
pub struct RetryOptions {
    /// Ids of submissions, or unambiguous prefixes of them
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Only parked deliveries; without other options, all of them
    #[arg(long)]
    parked: bool,
    /// Only deliveries to this channel, which is switched on again if it was switched off
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    #[command(flatten)]
    period: PeriodOptions,
    /// Only submissions to this form
    #[arg(long, value_name = "NAME", value_parser = FORMS.map(|form| form.name))]
    form: Option<String>,
}

/// Makes the selected deliveries due now, and prints their number, or why no delivery matches.
pub(super) fn retry(options: &RetryOptions, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let (found, missing) = find_all(&options.ids, console)?;
    let filter = Filter { form: options.form.clone(), ..options.period.filter(console.now) };
    let filters: Vec<Filter> = if options.ids.is_empty() {
        vec![filter]
    } else {
        found.iter().map(|submission| Filter { id: Some(submission.id), ..filter.clone() }).collect()
    };
    if let Some(inbox) = console.inbox.clone().filter(|_| !filters.is_empty()) {
        let mut count = 0;
        let mut editor = Editor::open(console.place)?;
        for which in &filters {
            let retry =
                Retry { which: which.clone(), channel: options.channel.clone(), parked_only: options.parked };
            count += editor
                .retry(&retry, console.now)
                .context("some deliveries were not queued; run the same command again")?;
        }
        match count {
            0 => explain_nothing_to_retry(&inbox, options, &filters, console)?,
            n => writeln!(console.out, "{}.", describe_retried(n))?,
        }
    }
    Ok(exit_code(missing == 0))
}

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
        writeln!(console.err, "The inbox has no channel with that name. Channels with deliveries: {names}.")?;
    }
    let held = |filter: &Filter| -> Result<usize, StoreError> {
        reader.count(&Filter { status: Some(Status::Held), ..filter.clone() })
    };
    let held = filters.iter().map(held).sum::<Result<usize, StoreError>>()?;
    if held > 0 {
        let held = format!("{} {}", counted(held, "submission"), plural(held, "is", "are"));
        writeln!(console.err, "{held} held: `frontdesk inbox release` delivers them.")?;
    }
    Ok(())
}

fn describe_retried(count: usize) -> String {
    let (deliveries, are) = (counted(count, "delivery"), plural(count, "is", "are"));
    format!("{deliveries} {are} due now and will be attempted as soon as the server is running")
}

/// Holds the given submissions. Deliveries that have already started are not stopped.
pub(super) fn hold(
    ids: &[String],
    because: Option<&str>,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let (found, mut missing) = find_all(ids, console)?;
    let Some(inbox) = console.inbox.clone().filter(|_| !found.is_empty()) else {
        return Ok(ExitCode::FAILURE);
    };
    let mut editor = Editor::open(console.place)?;
    for submission in found {
        let id = submission.id;
        if !editor.hold(id, because.unwrap_or("held by the operator"), console.now)? {
            let why = if submission.held.is_some() {
                "is already held"
            } else {
                "is already delivered: there is nothing to hold"
            };
            missing += report_unchanged(&inbox, id, why, console)?;
            continue;
        }
        let deliveries = inbox.deliveries(id)?;
        let states = deliveries.iter().map(|delivery| delivery.state);
        let gone =
            states.filter(|state| matches!(state, DeliveryState::Delivered | DeliveryState::Sending)).count();
        let late = match gone {
            0 => String::new(),
            n => format!(" ({n} of {} deliveries had arrived or were under way)", deliveries.len()),
        };
        writeln!(console.out, "{id} is held until `frontdesk inbox release`{late}.")?;
    }
    Ok(exit_code(missing == 0))
}

/// Releases the held submissions with these ids, or all held submissions if `ids` is empty.
pub(super) fn release(ids: &[String], console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let inbox = console.inbox.clone();
    let (found, mut missing) = if ids.is_empty() {
        let held = Filter { status: Some(Status::Held), ..Filter::default() };
        let held = inbox.as_ref().map(|inbox| inbox.list(&held)).transpose()?.into_iter().flatten();
        (held.collect::<Result<Vec<_>, _>>()?, 0)
    } else {
        find_all(ids, console)?
    };
    if ids.is_empty() && found.is_empty() {
        writeln!(console.out, "No submission is held.")?;
    }
    if let Some(inbox) = inbox.filter(|_| !found.is_empty()) {
        let mut editor = Editor::open(console.place)?;
        for submission in found {
            let id = submission.id;
            if !editor.release(id, console.channels, console.now)? {
                missing += report_unchanged(&inbox, id, "is not held", console)?;
                continue;
            }
            let waiting = inbox.deliveries(id)?.iter().filter(|d| d.due_at.is_some()).count();
            let what = match waiting {
                0 => "there is nothing to deliver".to_owned(),
                n => describe_retried(n),
            };
            writeln!(console.out, "{id} is released: {what}.")?;
        }
    }
    Ok(exit_code(missing == 0))
}

/// Reports that a submission did not change. Returns 1 if it was removed in the meantime, otherwise 0.
fn report_unchanged(
    reader: &InboxReader,
    id: uuid::Uuid,
    already: &str,
    console: &mut Console<'_>,
) -> anyhow::Result<usize> {
    if reader.get(id)?.is_some() {
        writeln!(console.out, "{id} {already}.")?;
        Ok(0)
    } else {
        writeln!(console.err, "error: {id} is no longer in the inbox")?;
        Ok(1)
    }
}
