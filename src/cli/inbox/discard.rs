//! `frontdesk inbox discard`: removes held submissions for good.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use uuid::Uuid;

use super::filter::submissions;
use super::moment::{self, When};
use super::{Console, find, removal};
use crate::screening::Signal;
use crate::store::{Editor, Erased, HeldFilter, Place, Reader, SourcePrefix};
use crate::submission::{Status, Submission};

/// Which held submissions to remove.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Discarded {
    /// The submissions' ids, or as much of the beginning as no other id shares
    #[arg(required_unless_present = "held", value_name = "ID")]
    ids: Vec<String>,
    /// Everything that is held, or as much of it as the other options select together. What only a flood holds stays, because it
    /// is released when the flood ends; `--reason form-rate` selects it
    #[arg(long, conflicts_with = "ids")]
    held: bool,
    /// Those for which screening gave this signal only
    #[arg(long, value_name = "SIGNAL", requires = "held", conflicts_with = "ids", value_parser = Signal::ALL.map(Signal::name))]
    reason: Option<String>,
    /// Those received before then only: 2026-11-20T14:00:00Z, 2026-11-20 (midnight in UTC), or an age such as 30m, 2h, 3d
    #[arg(long, value_name = "TIME", requires = "held", conflicts_with = "ids", value_parser = When::parse)]
    before: Option<When>,
    /// Those of one source only: its hash, or the beginning of it, as `show` and `stats --abuse` print it
    #[arg(long, value_name = "HASH", requires = "held", conflicts_with = "ids", value_parser = source)]
    source: Option<SourcePrefix>,
}

fn source(digits: &str) -> Result<SourcePrefix, String> {
    SourcePrefix::parse(digits).ok_or_else(|| "it must be 1 to 32 hexadecimal digits".to_owned())
}

impl Discarded {
    fn filter(&self, now: Timestamp) -> HeldFilter {
        HeldFilter {
            signal: self.reason.as_deref().and_then(Signal::named),
            before: self.before.map(|when| when.at(now)),
            source: self.source,
        }
    }
}

/// Asks for confirmation, removes the selected held submissions, and prints what was removed and which copies remain elsewhere.
pub(super) fn run(
    reader: Option<&Reader>,
    place: &Place,
    which: &Discarded,
    yes: bool,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    if let Some(refused) = removal::refuse_unasked(yes, console)? {
        return Ok(refused);
    }
    if which.held {
        selected(reader, place, which, yes, console)
    } else {
        named(reader, place, &which.ids, yes, console)
    }
}

/// Removes everything that is held and that the options select.
fn selected(
    reader: Option<&Reader>,
    place: &Place,
    which: &Discarded,
    yes: bool,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let Some(reader) = reader else {
        writeln!(console.out, "nothing")?;
        return Ok(ExitCode::SUCCESS);
    };
    let filter = which.filter(console.now);
    let held = reader.held(&filter)?;
    if let Some(source) = which.source.filter(|_| held.sources > 1) {
        writeln!(
            console.err,
            "error: held submissions of {} sources have a hash that begins with `{source}`\n\
             hint: give more digits of the hash; `frontdesk inbox show ID` prints all of them",
            held.sources
        )?;
        return Ok(ExitCode::FAILURE);
    }
    if held.left_in_floods > 0 {
        writeln!(
            console.err,
            "{} held only until a flood ends, and {}: `--reason form-rate` selects {}.",
            are(held.left_in_floods),
            if held.left_in_floods == 1 { "stays" } else { "stay" },
            if held.left_in_floods == 1 { "it" } else { "them" },
        )?;
    }
    if !yes
        && let Some((first, last)) = held.received
        && !removal::is_confirmed(&question(held.submissions, first, last), console)?
    {
        return Ok(ExitCode::FAILURE);
    }
    // What has come since it was counted was not asked about, and stays.
    let before = held.received.map_or(Timestamp::MIN, |(_, last)| last + Duration::from_millis(1));
    let filter = HeldFilter { before: Some(before), ..filter };
    let erased = remove(place, |editor| editor.discard_held(&filter))?;
    Ok(removal::tell(&erased, place, console)?)
}

/// Removes those of these submissions that are held, and says why the others stay.
fn named(
    reader: Option<&Reader>,
    place: &Place,
    ids: &[String],
    yes: bool,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let (found, missing) = find::look_for_all(reader, ids, console.err)?;
    if reader.is_none() {
        return Ok(ExitCode::FAILURE);
    }
    let (held, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|submission| submission.held.is_some());
    for submission in &others {
        writeln!(console.err, "{}", refusal(submission))?;
    }
    let received = || held.iter().map(|submission| submission.received_at);
    if !yes
        && let (Some(first), Some(last)) = (received().min(), received().max())
        && !removal::is_confirmed(&question(held.len(), first, last), console)?
    {
        return Ok(ExitCode::FAILURE);
    }
    let ids: Vec<Uuid> = held.iter().map(|submission| submission.id).collect();
    // Even if there are none: an earlier call may have left its own in the log.
    let erased = remove(place, |editor| editor.discard(&ids))?;
    let code = removal::tell(&erased, place, console)?;
    let stayed = held.len().saturating_sub(erased.submissions);
    if stayed > 0 {
        writeln!(console.err, "error: {} released or removed by another program meanwhile", were(stayed))?;
    }
    Ok(if missing + others.len() + stayed == 0 { code } else { ExitCode::FAILURE })
}

fn were(count: usize) -> String {
    format!("{} {}", submissions(count), if count == 1 { "was" } else { "were" })
}

fn are(count: usize) -> String {
    format!("{} {}", submissions(count), if count == 1 { "is" } else { "are" })
}

fn remove(
    place: &Place,
    discard: impl FnOnce(&mut Editor) -> Result<Erased, crate::store::StoreError>,
) -> anyhow::Result<Erased> {
    let mut editor = Editor::open(place)?;
    discard(&mut editor).context("not all of them are removed; the same command goes on")
}

fn question(count: usize, first: Timestamp, last: Timestamp) -> String {
    let held = if count == 1 { "1 held submission".to_owned() } else { format!("{count} held submissions") };
    let received = if first == last {
        format!("received at {}", moment::text(first))
    } else {
        format!("received from {} to {}", moment::text(first), moment::text(last))
    };
    format!("Remove {held}, {received}, for good?")
}

/// Why a submission is not removed, and what would remove it.
fn refusal(submission: &Submission) -> String {
    let id = submission.id;
    let erase = "`frontdesk inbox erase --email ADDRESS` removes everything that came from an address";
    let can_be_held = submission.status != Status::Delivered && submission.error.is_none();
    let hint = if can_be_held {
        format!("`frontdesk inbox hold {id}` holds it, and then it can be discarded; {erase}")
    } else {
        erase.to_owned()
    };
    format!(
        "error: {id} is not held ({}), and only held submissions are discarded\nhint: {hint}",
        submission.status
    )
}
