//! `frontdesk store`: the inbox's database itself, brought up to date or carried over into another one.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use clap::Subcommand;

use crate::config::Config;
use crate::store::{self, CarryError, StoreError};

/// What to do with the database.
#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Bring the database's layout up to date, as the server does when it starts, and make it where there is none
    Migrate,
    /// Copy the whole inbox into another database, verified, while no server runs; the old one stays as it is
    Move {
        /// Where to: what `store.url` is to say from then on, or `@FILE` for a file that holds it, so that no password is typed
        #[arg(long, value_name = "URL")]
        to: String,
    },
}

pub(super) fn run(command: &StoreCommand, config: &Config) -> anyhow::Result<ExitCode> {
    let mut stderr = anstream::stderr().lock();
    let place = &config.store.place;
    match command {
        StoreCommand::Migrate => {
            store::migrate(place)?;
            writeln!(stderr, "The inbox at {place} is up to date.")?;
        }
        StoreCommand::Move { to } => {
            let url = url(to)?;
            let to = config.place(&url).map_err(|expected| anyhow!("`--to` must be {expected}"))?;
            let began = Instant::now();
            let carried = store::carry(place, &to).map_err(explain)?;
            let (submissions, rows, took) = (carried.submissions, carried.rows, began.elapsed().as_millis());
            writeln!(
                stderr,
                "Carried {submissions} submissions ({rows} rows, verified, in {took} ms) from {place} to {to}.\n\
                 The inbox at {place} is as it was. Set `store.url` to the new one before a server starts again."
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn url(typed: &str) -> anyhow::Result<String> {
    let Some(file) = typed.strip_prefix('@') else { return Ok(typed.to_owned()) };
    let text = std::fs::read_to_string(Path::new(file)).with_context(|| format!("cannot read {file}"))?;
    Ok(text.trim().to_owned())
}

/// The error, with a line below it that says what would help.
fn explain(error: CarryError) -> anyhow::Error {
    let hint = match &error {
        CarryError::InUse(_) => {
            "stop every server that works with it, carry it over, and start them with the new `store.url`"
        }
        CarryError::Occupied(_) => "name a database without submissions: two inboxes are never made into one",
        CarryError::Store(StoreError::Missing(_)) => {
            "`--site DIR` or `--data-dir DIR` says where submissions are kept"
        }
        CarryError::Store(StoreError::TooOld(_)) => "`frontdesk store migrate` brings it up to date",
        _ => return error.into(),
    };
    anyhow!("{error}\nhint: {hint}")
}
