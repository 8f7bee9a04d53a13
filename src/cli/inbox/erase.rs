//! `frontdesk inbox erase`: removes for good what came from an e-mail address.

use std::process::ExitCode;

use super::filter::submissions;
use super::{Console, plural};
use crate::inbox::store::{self, Editor, Erased, Place};
use crate::inbox::text::visible;

/// The exit code of wrong usage.
const USAGE: u8 = 2;

/// Removes it, after asking where somebody can be asked, and says what is gone and what this command cannot reach.
pub(super) fn run(
    is_there: bool,
    place: &Place,
    email: &str,
    yes: bool,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    if !yes && console.answers.is_none() {
        writeln!(console.err, "error: nobody can be asked whether to go on; `--yes` goes on without asking")?;
        return Ok(ExitCode::from(USAGE));
    }
    if !is_there {
        writeln!(console.out, "nothing")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut editor = Editor::open(place)?;
    let count = editor.count_from(email)?;
    if !yes && count > 0 && !is_confirmed(count, email, console)? {
        writeln!(console.err, "Nothing was removed.")?;
        return Ok(ExitCode::FAILURE);
    }
    let erased = editor.erase(email)?;
    tell(&erased, console)?;
    for kept in place.file().map(store::kept_by_restores).unwrap_or_default() {
        writeln!(
            console.err,
            "warning: {} was kept by a restore, and was not looked into: delete it when you need it no longer",
            kept.display()
        )?;
    }
    Ok(if erased.is_wiped { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_confirmed(count: usize, email: &str, console: &mut Console<'_>) -> std::io::Result<bool> {
    let Some(answers) = console.answers.as_mut() else { return Ok(false) };
    write!(console.err, "Remove {} from {} for good? [y/N] ", submissions(count), visible(email))?;
    console.err.flush()?;
    let mut answer = String::new();
    answers.read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn tell(erased: &Erased, console: &mut Console<'_>) -> std::io::Result<()> {
    if erased.submissions == 0 {
        writeln!(console.out, "nothing")?;
    } else {
        for (count, noun) in [
            (erased.submissions, "submission"),
            (erased.deliveries, "delivery"),
            (erased.attempts, "attempt"),
        ] {
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
        writeln!(console.err, "warning: backups that were made before still hold what was removed here.")?;
    }
    if erased.is_wiped {
        if erased.submissions > 0 {
            writeln!(
                console.err,
                "The database's log was wiped: nothing of it is left in the inbox's files."
            )?;
        }
    } else {
        writeln!(
            console.err,
            "warning: another program reads the inbox, so that its log could not be wiped and may still hold what was removed.\n\
             hint: the same command, once that program has ended, wipes it"
        )?;
    }
    Ok(())
}
