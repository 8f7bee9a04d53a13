//! `frontdesk restore`: puts a backup in the inbox's place, and keeps what was there.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use jiff::Timestamp;

use super::backup::{describe, explain, file_of};
use crate::store::{self, BackupError, Place, StoreError};

/// Verifies the backup, puts a copy of it where the inbox is, and says what is in it.
pub(super) fn run(from: &Path, place: &Place, force: bool) -> anyhow::Result<ExitCode> {
    let database = file_of(place)?;
    let began = Instant::now();
    let restored = store::restore(from, database, force, Timestamp::now())
        .map_err(|error| explain(&error, hint(&error)))?;
    let mut stderr = anstream::stderr().lock();
    let what = describe(&restored.backup, began.elapsed());
    match restored.kept {
        Some(kept) => writeln!(
            stderr,
            "Restored {what} to {}; what was there is kept as {}: delete it when you need it no longer.",
            database.display(),
            kept.display()
        )?,
        None => writeln!(stderr, "Restored {what} to {}.", database.display())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn hint(error: &BackupError) -> Option<&'static str> {
    match error {
        BackupError::InUse(_) => Some("stop the server, restore, and start it again"),
        BackupError::Occupied { .. } | BackupError::Unreadable { .. } => {
            Some("`--force` puts the backup in its place and keeps it under another name")
        }
        BackupError::IsTheInbox(_) => Some("name the file that `frontdesk backup` wrote"),
        BackupError::Damaged { .. }
        | BackupError::Store(StoreError::NotAnInbox(_) | StoreError::Missing(_)) => {
            Some("the inbox was left as it is; restore another backup")
        }
        _ => None,
    }
}
