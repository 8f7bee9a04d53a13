//! `[store]` and `[digest]`: the database, retention, encryption, disk space, and the time of the digest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::reader::{Reader, deliveries, restart};
use super::value_parsers::{self, ParseResult, Raw};
use frontdesk_deliver::maintenance::MaintenanceOptions;
use frontdesk_inbox::store::DatabaseUrl;
use frontdesk_site as pages;

/// Maximum retention period of submissions: about a century.
const MAX_RETENTION: Duration = Duration::from_hours(24 * 36_500);

/// Reads `[store]`: the data folder, the inbox, and retention, encryption and disk space. Resolves the path
/// of a SQLite file against the data folder. [`read_digest`] reads the time of the digest.
pub(super) fn read(r: &mut Reader<'_>) -> (PathBuf, DatabaseUrl, MaintenanceOptions) {
    let data_dir = r.folder(
        restart("store.data_dir").show_in_starter_file(),
        &default_data_dir(r.site_folder()),
        "The folder for submissions, relative to this folder. Back it up; keep it out of version control.",
    );
    let url = r.get(
        restart("store.url").connection_url(),
        "sqlite:inbox.sqlite",
        "The database: a file, relative to the data folder, or a PostgreSQL server that several machines \
         share, such as \"postgres://frontdesk@db.example.com/frontdesk\" (docs/pages/scale.md). \
         FRONTDESK_STORE__URL_FILE names a file with the URL, including its password.",
        value_parsers::database_url,
    );
    let url = resolve_path(&data_dir, url);
    (data_dir, url, read_maintenance(r))
}

/// Reads the time of day at which the team gets a digest. `None` disables the digest.
pub(super) fn read_digest(r: &mut Reader<'_>) -> Option<jiff::civil::Time> {
    r.get(
        deliveries("digest.at"),
        "07:00",
        "The time of day, in UTC, at which the team gets a digest if submissions are held, parked or due for a \
         follow-up, a channel fails, or disk space is low; \"off\" disables it.",
        value_parsers::optional_time,
    )
}

/// Parses a database URL in the format of `store.url`. The path of a file is relative to `data_dir`. The
/// error describes the expected value.
pub(super) fn parse_url(url: &str, data_dir: &Path) -> Result<DatabaseUrl, String> {
    value_parsers::database_url(&Raw::Text(url.to_owned())).map(|url| resolve_path(data_dir, url))
}

/// Returns a parser for a retention period; `None` means forever.
pub(super) fn retention() -> impl Fn(&Raw) -> ParseResult<Option<Duration>> {
    value_parsers::off_or(value_parsers::duration(Duration::from_hours(24)..=MAX_RETENTION))
}

/// Reads the keys of `[store]` that control disk space, retention and encryption. The other options are off.
fn read_maintenance(r: &mut Reader<'_>) -> MaintenanceOptions {
    MaintenanceOptions {
        min_free: r.get(
            deliveries("store.min_free"),
            "auto",
            "Disk space to keep free on the database's file system: \"auto\" (5 %, at most 1 GiB), a size \
             such as \"2GiB\", or \"off\". While less is free, submissions of more than 4 KiB are refused \
             with 500; smaller ones are accepted until the disk is full. It has no effect with PostgreSQL.",
            value_parsers::min_free,
        ),
        retention: r.get(
            deliveries("store.retention"),
            "off",
            "How long submissions are kept, such as \"365d\"; \"off\" keeps them forever. Pending, held and \
             parked submissions are kept longer. If the same content arrives after half of this time, \
             it is a new submission.",
            retention(),
        ),
        // `forms::read` reads the retention of each form.
        form_retention: BTreeMap::new(),
        retention_held: r.get(
            deliveries("store.retention_held"),
            "off",
            "How long held submissions are kept, such as \"30d\", counted from when they were held; \"off\" \
             keeps them until you release or discard them.",
            retention(),
        ),
        retention_unconfirmed: r.get(
            deliveries("store.retention_unconfirmed"),
            "off",
            "How long waitlist entries are kept after the link that confirms their address has expired, such as \
             \"30d\"; \"off\" keeps them like held submissions.",
            retention(),
        ),
        recipient: r.get(
            deliveries("store.recipient"),
            "",
            "Your public key from `age-keygen`. Names, addresses and messages are encrypted to it after \
             delivery, so this server can no longer read them. A held submission that a channel would \
             deliver after its release stays readable until then. With `--identity FILE`, `frontdesk inbox` \
             decrypts them with your secret key.",
            value_parsers::optional(value_parsers::recipient),
        ),
        digest_at: None,
        reminders: None,
    }
}

/// The default data folder: `data` in the site's folder. For a build, the absolute path of a folder beside
/// it, `NAME-data`, because a rebuild removes everything in the build's folder. If that path is not UTF-8 or
/// has no name, `data` as well.
fn default_data_dir(folder: &Path) -> String {
    let beside = || {
        let folder = std::path::absolute(folder).ok()?;
        let name = folder.file_name()?.to_str()?;
        Some(folder.with_file_name(format!("{name}-data")).to_str()?.to_owned())
    };
    let beside = if pages::is_build(folder) { beside() } else { None };
    beside.unwrap_or("data".to_owned())
}

/// Resolves the path of a SQLite file against the data folder.
fn resolve_path(data_dir: &Path, url: DatabaseUrl) -> DatabaseUrl {
    match url {
        DatabaseUrl::Sqlite(path) => DatabaseUrl::Sqlite(data_dir.join(path)),
        url @ DatabaseUrl::Postgres(_) => url,
    }
}
