//! `frontdesk backup` copies a SQLite inbox and verifies the copy; `frontdesk restore` restores the inbox
//! from such a copy.

#![expect(clippy::disallowed_methods, reason = "the name of a backup contains the time")]

use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use jiff::Timestamp;

use super::config_and_site_loading::refuse_served_folder;
use super::diagnostics::{counted, with_hint};
use frontdesk_config::Config;
use frontdesk_inbox::store::{self, Backup, BackupError, DatabaseUrl, StoreError};
use frontdesk_process::progress_bar::{Progress, describe_duration, describe_size};

/// Writes a verified copy of the inbox to the file `to`. Replaces an existing file only with `force`. Fails
/// for an inbox in PostgreSQL, if `to` is `-` or a folder, and if `to` is in a folder whose files are
/// published.
pub(super) fn back_up(config: &Config, to: &Path, force: bool) -> anyhow::Result<ExitCode> {
    let file = require_file(&config.store.url)?;
    refuse_standard_output(to)?;
    refuse_folder(to, "name a file in it")?;
    refuse_served_folder(config, to, "a backup")?;
    let began = Instant::now();
    let progress = Progress::start("Backing up");
    let backup = store::backup(file, to, force);
    drop(progress);
    let backup = backup.map_err(|error| {
        if matches!(error, BackupError::Store(StoreError::Full)) {
            return describe_full_disk(to);
        }
        let hint = match &error {
            BackupError::Exists(_) => {
                "`--force` replaces it; use a different name for each backup to keep them all"
            }
            BackupError::IsTheInbox(_) => "name another file, preferably on another disk or machine",
            BackupError::UnderWay(_) => "wait until it has ended, or name another file",
            BackupError::Store(error) if is_denied_outside(error, file) => {
                "name a file in a folder in which this user may create files"
            }
            BackupError::Store(StoreError::Missing(_)) => {
                "name the site with `--site DIR`, or the folder with its submissions with `--data-dir DIR`"
            }
            _ => return error.into(),
        };
        with_hint(error, hint)
    })?;
    let mut stderr = anstream::stderr().lock();
    writeln!(stderr, "Backed up {} to {}.", describe(&backup, began.elapsed()), to.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Verifies the backup `from` and copies it to the inbox at `url`. Replaces an existing inbox only with
/// `force`, and keeps it under another name. Fails if a server has the inbox open, or if `url` is that of a
/// PostgreSQL database.
pub(super) fn restore(from: &Path, url: &DatabaseUrl, force: bool) -> anyhow::Result<ExitCode> {
    let file = require_file(url)?;
    refuse_folder(from, "name the file in it that `frontdesk backup` wrote")?;
    let began = Instant::now();
    let progress = Progress::start("Restoring");
    let restored = store::restore(from, file, force, Timestamp::now());
    drop(progress);
    let restored = restored.map_err(|error| {
        let hint = match &error {
            BackupError::InUse(_) => "stop the server, restore, and start it again",
            BackupError::Occupied { .. } | BackupError::Unreadable { .. } => {
                "`--force` replaces it with the backup and keeps it under another name"
            }
            BackupError::IsTheInbox(_) | BackupError::Store(StoreError::Missing(_)) => {
                "the inbox was not changed; name the file that `frontdesk backup` wrote"
            }
            BackupError::Damaged { .. } | BackupError::Store(StoreError::NotAnInbox(_)) => {
                "the inbox was not changed; restore another backup"
            }
            BackupError::Store(error) if is_denied_outside(error, file) => {
                "the inbox was not changed; this user must be able to read the backup"
            }
            _ => return error.into(),
        };
        with_hint(error, hint)
    })?;
    let mut stderr = anstream::stderr().lock();
    write!(stderr, "Restored {} to {}", describe(&restored.backup, began.elapsed()), file.display())?;
    match restored.kept {
        Some(kept) => writeln!(
            stderr,
            "; the previous inbox is kept as {}: delete it when you no longer need it.",
            kept.display()
        )?,
        None => writeln!(stderr, ".")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails if `to` is `-`, which usually means standard output.
fn refuse_standard_output(to: &Path) -> anyhow::Result<()> {
    if to != Path::new("-") {
        return Ok(());
    }
    Err(with_hint(
        anyhow!("a backup cannot be written to standard output"),
        "name a file; `./-` is the file with the name `-`",
    ))
}

/// Fails if `path` is a folder, because a backup is a file.
fn refuse_folder(path: &Path, hint: &str) -> anyhow::Result<()> {
    if path.is_dir() { Err(with_hint(anyhow!("{} is a folder", path.display()), hint)) } else { Ok(()) }
}

/// The error for a backup that does not fit. It is written only into the folder of the file `to`, whereas the
/// store's advice is about the disk of the inbox.
fn describe_full_disk(to: &Path) -> anyhow::Error {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let error = anyhow!("the disk of the folder {} is full", folder.display());
    with_hint(error, "free space on that disk, or name a file on another one")
}

/// Returns the inbox's file. Fails for a PostgreSQL database, which PostgreSQL's own tools back up.
fn require_file(url: &DatabaseUrl) -> anyhow::Result<&Path> {
    url.file().ok_or_else(|| {
        with_hint(
            anyhow!("the inbox is in {url}, not in a file"),
            "use `pg_dump` and `pg_restore`, or copy the inbox into a file with `frontdesk store move`",
        )
    })
}

/// Whether this user may not use a file outside of the inbox's folder. The store's advice would give this
/// user the folder of that file, which may be shared. Relative paths count from the working directory.
fn is_denied_outside(error: &StoreError, inbox: &Path) -> bool {
    let StoreError::Io { path, error } = error else { return false };
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let is_inside = inbox.parent().is_some_and(|folder| absolute(path).starts_with(absolute(folder)));
    error.kind() == ErrorKind::PermissionDenied && !is_inside
}

/// Describes a backup: `2 submissions, the newest from 2026-11-20T14:03:05.120Z (36 KiB, in 12 ms)`.
fn describe(backup: &Backup, took: Duration) -> String {
    let newest = backup.newest.map(|newest| format!(", the newest from {newest:.3}")).unwrap_or_default();
    format!(
        "{}{newest} ({}, in {})",
        counted(backup.submissions, "submission"),
        describe_size(backup.bytes),
        describe_duration(took)
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn only_the_folder_of_the_inbox_may_be_given_to_this_user() {
        let check = |path: &str, kind: ErrorKind, expected: bool| {
            let error = StoreError::Io { path: path.into(), error: Arc::new(kind.into()) };
            assert_eq!(is_denied_outside(&error, Path::new("/srv/data/inbox.sqlite")), expected, "{path}");
        };
        check("/root/backup.sqlite", ErrorKind::PermissionDenied, true);
        check("/srv/data/inbox.sqlite", ErrorKind::PermissionDenied, false);
        check("/root/backup.sqlite", ErrorKind::NotADirectory, false);
        let own = std::path::absolute("./data/inbox.sqlite").expect("a working directory");
        let error = StoreError::Io { path: own, error: Arc::new(ErrorKind::PermissionDenied.into()) };
        assert!(!is_denied_outside(&error, Path::new("./data/inbox.sqlite")));
    }

    #[test]
    fn a_full_disk_is_that_of_the_backup() {
        for (to, expected) in [("/mnt/b/inbox.sqlite", "/mnt/b"), ("inbox.sqlite", ".")] {
            let error = describe_full_disk(Path::new(to));
            assert_eq!(error.to_string(), format!("the disk of the folder {expected} is full"));
        }
    }

    #[test]
    fn a_folder_is_no_backup() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = DatabaseUrl::Sqlite(folder.path().join("inbox.sqlite"));
        let error = restore(folder.path(), &url, true).expect_err("it is a folder");
        assert!(error.to_string().ends_with(" is a folder"), "{error}");
        assert!(refuse_folder(&folder.path().join("inbox.sqlite"), "").is_ok());
    }

    #[test]
    fn a_hyphen_is_no_file() {
        assert!(refuse_standard_output(Path::new("-")).is_err());
        assert!(["./-", "a"].iter().all(|path| refuse_standard_output(Path::new(path)).is_ok()));
    }

    #[test]
    fn a_backup_is_described_in_one_line() {
        let check = |submissions, newest: Option<&str>, expected: &str| {
            let newest = newest.map(|time| time.parse().unwrap());
            let backup = Backup { submissions, newest, bytes: 36_000 };
            assert_eq!(describe(&backup, Duration::from_micros(12_345)), expected);
        };
        check(0, None, "0 submissions (36 KiB, in 12 ms)");
        let time = "2026-11-20T14:03:05.120Z";
        check(1, Some(time), &format!("1 submission, the newest from {time} (36 KiB, in 12 ms)"));
        check(2, Some(time), &format!("2 submissions, the newest from {time} (36 KiB, in 12 ms)"));
    }
}
