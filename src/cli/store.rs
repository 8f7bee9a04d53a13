//! `frontdesk store`: creates the inbox's tables, or copies the inbox to another database.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use clap::Subcommand;

use super::config_and_site_loading::{SiteFolder, refuse_served_folder};
use super::diagnostics::{counted, with_hint};
use frontdesk_config::Config;
use frontdesk_inbox::store::{self, CopyError, StoreError};
use frontdesk_process::progress_bar::{Progress, describe_duration};

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Create the tables if they are missing, as the server does when it starts, and check their layout
    Migrate(SiteFolder),
    /// Copy the whole inbox to another database and verify the copy, while no server is running
    Move {
        #[command(flatten)]
        folder: SiteFolder,
        /// New `store.url`, or `@FILE` to read it from a file and keep a password off the command line
        #[arg(long, value_name = "URL")]
        to: String,
    },
}

impl StoreCommand {
    /// Removes the site's folder from the arguments, and returns it.
    pub(super) fn take_site_folder(&mut self) -> Option<PathBuf> {
        let (Self::Migrate(folder) | Self::Move { folder, .. }) = self;
        folder.site.take()
    }
}

/// Creates an empty inbox if there is none, and fails if the existing one has another layout; or copies the
/// inbox and leaves the original unchanged. Refuses to copy it into a folder whose files are published, into
/// an inbox with submissions, or while a server uses one of the two.
pub(super) fn run(command: &StoreCommand, config: &Config) -> anyhow::Result<ExitCode> {
    let from = &config.store.url;
    match command {
        StoreCommand::Migrate(_) => {
            store::create_if_missing(from)?;
            writeln!(anstream::stderr(), "The inbox at {from} is up to date.")?;
        }
        StoreCommand::Move { to, folder: _ } => {
            let url = read_url(to)?;
            let to = config.database_url(&url).map_err(|expected| anyhow!("`--to` must be {expected}"))?;
            if let Some(file) = to.file() {
                refuse_served_folder(config, file, "an inbox")?;
            }
            let began = Instant::now();
            let progress = Progress::start("Copying");
            let copied = store::copy_inbox(from, &to);
            drop(progress);
            let copied = copied.map_err(add_hint)?;
            let submissions = counted(copied.submissions, "submission");
            let (rows, took) = (copied.rows, describe_duration(began.elapsed()));
            writeln!(
                anstream::stderr(),
                "Copied {submissions} ({rows} rows, verified, in {took}) from {from} to {to}.\n\
                 The inbox at {from} is unchanged. Set `store.url` to the new database before you start a server."
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the URL as typed, or the content of the file after `@` without white space at both ends and a byte
/// order mark.
fn read_url(typed: &str) -> anyhow::Result<String> {
    let Some(file) = typed.strip_prefix('@') else { return Ok(typed.to_owned()) };
    let text = std::fs::read_to_string(Path::new(file)).with_context(|| format!("cannot read {file}"))?;
    Ok(text.trim_start_matches('\u{feff}').trim().to_owned())
}

/// Adds advice to an error that the operator can resolve. Returns other errors without additional advice.
fn add_hint(error: CopyError) -> anyhow::Error {
    let hint = match &error {
        CopyError::InUse(_) => {
            "stop every server that uses the inbox, move it, and start the servers with the new `store.url`"
        }
        CopyError::Occupied(_) => "name a database without submissions: two inboxes are never merged",
        CopyError::Store(StoreError::Missing(_)) => {
            "name the site with `--site DIR`, or the folder with its submissions with `--data-dir DIR`"
        }
        _ => return error.into(),
    };
    with_hint(error, hint)
}
