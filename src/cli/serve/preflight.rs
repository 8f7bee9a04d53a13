//! Checks before the server starts: the clock, the database, the certificate and the inbox.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::cli::diagnostics::{count_faults, print_faults, with_hint};
use frontdesk_config::Config;
use frontdesk_deliver::maintenance::BUILT_AT;
use frontdesk_inbox::store::{self, Store, StoreError};
use frontdesk_site::fault::Severity;

/// Logs an error if the clock is more than a day before the time at which this release was built, or if the
/// time zone in `TZ` is unknown.
#[expect(clippy::disallowed_methods, reason = "the clock is checked here")]
pub(super) fn report_environment() {
    if let Some(built_at) = BUILT_AT.and_then(|at| later_build_time(Timestamp::now(), at)) {
        tracing::error!(
            %built_at,
            "the clock shows a time before this version was built, so valid certificates may be refused: set it, for example with `timedatectl set-ntp true`"
        );
    }
    // Check the time zone only if `TZ` is set: a machine may have no time zone, and uses UTC then.
    if std::env::var_os("TZ").is_some()
        && let Err(error) = TimeZone::try_system()
    {
        tracing::error!(
            %error,
            "the time zone is unknown, so times are in UTC: set `TZ` to a name such as Europe/Berlin, and install tzdata"
        );
    }
}

/// Returns the time of the build if `now` is more than a day earlier. `None` if it is not, or if `built_at`
/// is not a number of seconds in Unix time.
fn later_build_time(now: Timestamp, built_at: &str) -> Option<Timestamp> {
    let built_at = Timestamp::from_second(built_at.parse().ok()?).ok()?;
    (now < built_at.saturating_sub(SignedDuration::from_hours(24)).unwrap_or(built_at)).then_some(built_at)
}

/// Fails if this version can never use the database, for example because of its encoding. A database that is
/// missing or cannot be reached passes. Logs a warning about its collation.
pub(super) fn require_usable_database(config: &Config) -> anyhow::Result<()> {
    let warning = store::check_environment(&config.store.url)
        .with_context(|| format!("cannot store submissions in {}", config.store.url))?;
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// Prints the errors of the certificates and their keys, and fails if there are any. Leaves out warnings.
pub(super) fn require_usable_certificate(config: &Config) -> anyhow::Result<()> {
    let mut faults = config.certificate_faults();
    faults.retain(|fault| fault.severity == Severity::Error);
    if faults.is_empty() {
        return Ok(());
    }
    print_faults(&faults);
    bail!("cannot serve over TLS ({})", count_faults(&faults));
}

/// Fails if the inbox is not writable. Otherwise every form would answer 500, and only the log would say so.
/// Checks up to three times, a second apart, while the database cannot be reached or does not respond: a
/// database server that is busy or starting may respond a moment later.
#[expect(clippy::disallowed_methods, reason = "the start waits for the database; nothing is served yet")]
pub(super) fn require_writable_inbox(store: &Store, config: &Config) -> anyhow::Result<()> {
    // Ask for the writer's health first: it has already tried to open the database, and its error names the
    // cause.
    let check = || store.health().and_then(|()| store.check_writable());
    let mut checked = check();
    for _ in 0..2 {
        if !matches!(checked, Err(StoreError::Unreachable { .. } | StoreError::Slow)) {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
        checked = check();
    }
    checked.map_err(|error| {
        let pages_only = "`--pages-only` serves the pages without the inbox";
        let hint = match error.hint() {
            Some(hint) => format!("{hint}; {pages_only}"),
            None => pages_only.to_owned(),
        };
        let error =
            anyhow::Error::new(error).context(format!("cannot write to the inbox at {}", config.store.url));
        with_hint(error, hint)
    })
}

/// Creates the data folder if the inbox is in PostgreSQL; with SQLite, the store has created the folder of
/// its file, and nothing else needs a data folder elsewhere (the ACME client creates its own). Only logs a
/// warning if that fails. After the start, the server never creates the folder: if it disappears, its file
/// system may have been unmounted.
pub(super) fn create_data_folder(config: &Config) {
    if config.store.url.file().is_some() {
        return;
    }
    if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir) {
        tracing::warn!(%error, "cannot create the data folder {}; starting without the caches in it", config.data_dir.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_from_before_the_build_is_wrong() {
        let built_at: Timestamp = "2026-11-20T14:00:00Z".parse().expect("a time");
        let text = built_at.as_second().to_string();
        for (now, is_wrong) in [
            ("1970-01-01T00:00:00Z", true),
            ("2026-11-19T13:59:59Z", true),
            ("2026-11-19T14:00:00Z", false),
            ("2030-01-01T00:00:00Z", false),
        ] {
            let found = later_build_time(now.parse().expect("a time"), &text);
            assert_eq!(found, is_wrong.then_some(built_at), "{now}");
        }
        assert_eq!(later_build_time(Timestamp::UNIX_EPOCH, "no number"), None);
    }
}
