//! `frontdesk inbox digest`: what a digest would say now.

use std::process::ExitCode;

use super::Console;
use crate::deliver::digest::Digest;
use crate::forms::text::visible;
use crate::store::{Place, Reader};

/// A line for each thing that needs attention.
pub(super) fn run(
    reader: Option<&Reader>,
    place: &Place,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let digest = reader.map(|inbox| Digest::read(inbox, place, console.min_free, console.now));
    let lines = digest.transpose()?.unwrap_or_default().lines();
    if lines.is_empty() {
        writeln!(console.out, "Nothing needs your attention.")?;
    }
    for line in lines {
        writeln!(console.out, "{}", visible(&line))?;
    }
    Ok(ExitCode::SUCCESS)
}
