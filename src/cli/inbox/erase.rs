//! `frontdesk inbox erase`: removes for good what came from an e-mail address.

use std::process::ExitCode;

use anyhow::Context as _;

use super::filter::submissions;
use super::{Console, removal};
use crate::forms::text::visible;
use crate::store::{Editor, Place};

/// Asks for confirmation, removes everything from the address, and prints what was removed and which copies remain elsewhere.
pub(super) fn run(
    is_there: bool,
    place: &Place,
    email: &str,
    yes: bool,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    if let Some(refused) = removal::refuse_unasked(yes, console)? {
        return Ok(refused);
    }
    if !is_there {
        writeln!(console.out, "nothing")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut editor = Editor::open(place)?;
    let count = editor.count_from(email)?;
    let question = format!("Remove {} from {} for good?", submissions(count), visible(email));
    if !yes && count > 0 && !removal::is_confirmed(&question, console)? {
        return Ok(ExitCode::FAILURE);
    }
    let erased = editor.erase(email).context("only part of it was removed; run the same command again")?;
    Ok(removal::tell(&erased, place, console)?)
}
