//! `frontdesk backup` and what it has in common with `frontdesk restore`: how a copy of the inbox is told.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use crate::store::{self, Backup, BackupError, Place, StoreError};

/// Writes a verified copy of the inbox, while a server works with it or not, and says what it holds.
pub(super) fn run(place: &Place, to: &Path, force: bool) -> anyhow::Result<ExitCode> {
    let database = file_of(place)?;
    let began = Instant::now();
    let backup = store::backup(database, to, force).map_err(|error| explain(&error, hint(&error)))?;
    let mut stderr = anstream::stderr().lock();
    writeln!(stderr, "Backed up {} to {}.", describe(&backup, began.elapsed()), to.display())?;
    Ok(ExitCode::SUCCESS)
}

/// The inbox's file; with a server there is none, and the server has tools of its own.
pub(super) fn file_of(place: &Place) -> anyhow::Result<&Path> {
    place.file().ok_or_else(|| {
        anyhow!(
            "the inbox is in {place}, and not in a file\nhint: `pg_dump` and `pg_restore` copy it; `frontdesk store move` carries it over into a file"
        )
    })
}

fn hint(error: &BackupError) -> Option<&'static str> {
    match error {
        BackupError::Exists(_) => {
            Some("`--force` replaces it; a name of its own for each backup keeps them all")
        }
        BackupError::IsTheInbox(_) => Some("name another file, best on another disk or machine"),
        BackupError::Store(StoreError::Missing(_)) => {
            Some("`--site DIR` or `--data-dir DIR` says where submissions are kept")
        }
        _ => None,
    }
}

/// The error, with a line below it that says what would help.
pub(super) fn explain(error: &BackupError, hint: Option<&str>) -> anyhow::Error {
    match hint {
        Some(hint) => anyhow!("{error}\nhint: {hint}"),
        None => anyhow!("{error}"),
    }
}

/// `2 submissions, the newest of 2026-11-20T14:03:05.120Z (36 KiB, in 12 ms)`
pub(super) fn describe(backup: &Backup, took: Duration) -> String {
    let count = match backup.submissions {
        1 => "1 submission".to_owned(),
        count => format!("{count} submissions"),
    };
    let newest = backup.newest.map(|newest| format!(", the newest of {newest:.3}")).unwrap_or_default();
    format!("{count}{newest} ({} KiB, in {} ms)", backup.bytes.div_ceil(1024), took.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_told_in_one_line() {
        let check = |submissions, newest: Option<&str>, expected: &str| {
            let newest = newest.map(|time| time.parse().unwrap());
            let backup = Backup { submissions, newest, bytes: 36_000 };
            assert_eq!(describe(&backup, Duration::from_micros(12_345)), expected);
        };
        check(0, None, "0 submissions (36 KiB, in 12 ms)");
        let time = "2026-11-20T14:03:05.120Z";
        check(1, Some(time), &format!("1 submission, the newest of {time} (36 KiB, in 12 ms)"));
        check(2, Some(time), &format!("2 submissions, the newest of {time} (36 KiB, in 12 ms)"));
    }
}
