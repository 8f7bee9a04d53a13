//! What `frontdesk inbox discard` and `erase` have in common: both ask before they remove anything, and say what is gone and what
//! they cannot reach.

use std::io;
use std::process::ExitCode;

use super::{Console, plural};
use crate::store::{self, Erased, Place};

/// The exit code of wrong usage.
const USAGE: u8 = 2;

/// What to exit with where nobody can be asked and `--yes` is missing. Nothing is said otherwise.
pub(super) fn refuse_unasked(yes: bool, console: &mut Console<'_>) -> io::Result<Option<ExitCode>> {
    if yes || console.answers.is_some() {
        return Ok(None);
    }
    writeln!(console.err, "error: nobody can be asked whether to go on; `--yes` goes on without asking")?;
    Ok(Some(ExitCode::from(USAGE)))
}

/// Asks a question that can be answered with yes or no. Anything but yes means no, and is confirmed.
pub(super) fn is_confirmed(question: &str, console: &mut Console<'_>) -> io::Result<bool> {
    let Some(answers) = console.answers.as_mut() else { return Ok(false) };
    write!(console.err, "{question} [y/N] ")?;
    console.err.flush()?;
    let mut answer = String::new();
    answers.read_line(&mut answer)?;
    let is_confirmed = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if !is_confirmed {
        writeln!(console.err, "Nothing was removed.")?;
    }
    Ok(is_confirmed)
}

/// Says what was removed and where it may still be. The command has failed where the database's log could not be wiped.
pub(super) fn tell(erased: &Erased, place: &Place, console: &mut Console<'_>) -> io::Result<ExitCode> {
    if erased.submissions == 0 {
        writeln!(console.out, "nothing")?;
    } else {
        tell_counts(erased, console)?;
    }
    let Some(file) = place.file() else {
        if erased.submissions > 0 {
            writeln!(
                console.err,
                "warning: PostgreSQL overwrites what was removed some time after the next vacuum; its write-ahead log and archives of it may hold it \
                 for longer."
            )?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    if !erased.is_wiped {
        writeln!(
            console.err,
            "warning: another program reads the inbox, so that its log could not be wiped and may still hold what was removed.\n\
             hint: the same command, once that program has ended, wipes it"
        )?;
    } else if erased.submissions > 0 {
        writeln!(console.err, "The database's log was wiped: nothing of it is left in the inbox's files.")?;
    }
    for kept in store::kept_by_restores(file) {
        writeln!(
            console.err,
            "warning: {} was kept by a restore, and was not looked into: delete it when you need it no longer",
            kept.display()
        )?;
    }
    Ok(if erased.is_wiped { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell_counts(erased: &Erased, console: &mut Console<'_>) -> io::Result<()> {
    for (count, noun) in
        [(erased.submissions, "submission"), (erased.deliveries, "delivery"), (erased.attempts, "attempt")]
    {
        let nouns =
            if noun == "delivery" && count != 1 { "deliveries".to_owned() } else { plural(count, noun) };
        writeln!(console.out, "{count} {nouns} removed")?;
    }
    console.out.flush()?;
    if erased.delivered > 0 {
        let had = match erased.delivered {
            1 => "1 delivery had arrived: a copy is".to_owned(),
            n => format!("{n} deliveries had arrived: copies are"),
        };
        writeln!(
            console.err,
            "warning: {had} in a mailbox or another system, where this command does not reach."
        )?;
    }
    writeln!(console.err, "warning: backups that were made before still hold what was removed here.")
}
