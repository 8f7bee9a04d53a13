//! `frontdesk inbox retry`, `hold` and `release`: what the operator decides about deliveries.

use std::process::ExitCode;

use anyhow::Context as _;

use super::filter::{Again, submissions};
use super::{Console, find};
use crate::forms::text::visible;
use crate::store::{Editor, Filter, Place, Reader, Retry, StoreError};
use crate::submission::Status;
use crate::submission::delivery::State;

/// What the inbox says where the operator gave no reason.
const NO_REASON: &str = "the operator decided so";

/// Has deliveries tried again at once, and says how many. Where there are none, it says why.
pub(super) fn retry(
    reader: Option<&Reader>,
    place: &Place,
    again: &Again,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let (found, missing) = find::look_for_all(reader, &again.ids, console.err)?;
    let filter = again.filter(console.now);
    let filters: Vec<Filter> = if again.ids.is_empty() {
        vec![filter]
    } else {
        found.iter().map(|submission| Filter { id: Some(submission.id), ..filter.clone() }).collect()
    };
    let mut count = 0;
    if let Some(reader) = reader
        && !filters.is_empty()
    {
        let mut editor = Editor::open(place)?;
        for which in &filters {
            let retry =
                Retry { which: which.clone(), channel: again.channel.clone(), parked_only: again.parked };
            count += editor
                .retry(&retry, console.now)
                .context("some deliveries are not queued; run the same command again")?;
        }
        match count {
            0 => tell_why_none(reader, again, &filters, console)?,
            1 => writeln!(console.out, "1 delivery is tried now, or as soon as the server runs.")?,
            n => writeln!(console.out, "{n} deliveries are tried now, or as soon as the server runs.")?,
        }
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell_why_none(
    reader: &Reader,
    again: &Again,
    filters: &[Filter],
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let channels = reader.channels()?;
    let states = if again.parked { "is parked" } else { "waits or is parked" };
    let channel = match &again.channel {
        Some(name) => format!(" for channel \"{}\"", visible(name)),
        None => String::new(),
    };
    writeln!(console.out, "Nothing to try again: no such delivery{channel} {states}.")?;
    if let Some(name) = &again.channel
        && !channels.iter().any(|channel| channel.name == *name)
    {
        let names: Vec<_> = channels.iter().map(|channel| visible(&channel.name)).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        writeln!(console.err, "The inbox knows no channel of that name. Those with deliveries: {names}.")?;
    }
    let held = |filter: &Filter| -> Result<usize, StoreError> {
        reader.count(&Filter { status: Some(Status::Held), ..filter.clone() })
    };
    let held = filters.iter().map(held).sum::<Result<usize, StoreError>>()?;
    if held > 0 {
        let verb = if held == 1 { "is" } else { "are" };
        writeln!(console.err, "{} {verb} held: `frontdesk inbox release` delivers them.", submissions(held))?;
    }
    Ok(())
}

/// Keeps back what is not delivered yet of each.
pub(super) fn hold(
    reader: Option<&Reader>,
    place: &Place,
    ids: &[String],
    because: Option<&str>,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let (found, mut missing) = find::look_for_all(reader, ids, console.err)?;
    let Some(reader) = reader.filter(|_| !found.is_empty()) else { return Ok(ExitCode::FAILURE) };
    let mut editor = Editor::open(place)?;
    for submission in found {
        let id = submission.id;
        if !editor.hold(id, because.unwrap_or(NO_REASON), console.now)? {
            let why = if submission.held.is_some() {
                "is held already"
            } else {
                "is delivered: there is nothing to hold"
            };
            missing += tell_unchanged(reader, id, why, console)?;
            continue;
        }
        let gone = |state: &State| matches!(state, State::Delivered | State::Sending);
        let deliveries = reader.deliveries(id)?;
        let gone = deliveries.iter().filter(|delivery| gone(&delivery.state)).count();
        let late = match gone {
            0 => String::new(),
            n => format!(" ({n} of {} deliveries had arrived or were under way)", deliveries.len()),
        };
        writeln!(console.out, "{id} is held until `frontdesk inbox release`{late}.")?;
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Delivers what was held: these, or everything where there are none.
pub(super) fn release(
    reader: Option<&Reader>,
    place: &Place,
    ids: &[String],
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let (found, mut missing) = if ids.is_empty() {
        let held = Filter { status: Some(Status::Held), ..Filter::default() };
        let held = reader.map(|reader| reader.list(&held)).transpose()?.into_iter().flatten();
        (held.collect::<Result<Vec<_>, _>>()?, 0)
    } else {
        find::look_for_all(reader, ids, console.err)?
    };
    if ids.is_empty() && found.is_empty() {
        writeln!(console.out, "No submission is held.")?;
    }
    if let Some(reader) = reader
        && !found.is_empty()
    {
        let mut editor = Editor::open(place)?;
        for submission in found {
            let id = submission.id;
            if !editor.release(id, console.channels, console.now)? {
                missing += tell_unchanged(reader, id, "is not held", console)?;
                continue;
            }
            let waiting = reader.deliveries(id)?.iter().filter(|d| d.due_at.is_some()).count();
            let what = match waiting {
                0 => "there is nothing to deliver".to_owned(),
                1 => "1 delivery is tried now, or as soon as the server runs".to_owned(),
                n => format!("{n} deliveries are tried now, or as soon as the server runs"),
            };
            writeln!(console.out, "{id} is released: {what}.")?;
        }
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says why nothing was changed, and how many submissions are missing: it may have been erased since it was found.
fn tell_unchanged(
    reader: &Reader,
    id: uuid::Uuid,
    already: &str,
    console: &mut Console<'_>,
) -> anyhow::Result<usize> {
    if reader.get(id)?.is_some() {
        writeln!(console.out, "{id} {already}.")?;
        Ok(0)
    } else {
        writeln!(console.err, "error: {id} is not in the inbox any more")?;
        Ok(1)
    }
}
