//! A temporary PostgreSQL server with default settings except for memory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::{Peer, START_TIMEOUT, folder, free_address};
use crate::Bench;
use crate::machine::Cores;

/// A running server with an empty database.
#[derive(Debug)]
pub struct Postgres {
    pub peer: Peer,
    programs: PathBuf,
}

/// Starts it on `cores`. It refuses to run as root, and runs as `postgres` then.
pub fn start(bench: &Bench, cores: Cores) -> Result<Postgres> {
    let programs = programs()?;
    let address = free_address()?;
    let own = folder()?;
    let data = own.path().join("data");
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        let given = Command::new("chown").arg("postgres").arg(own.path()).status()?;
        ensure!(given.success(), "there is no user 'postgres' to run PostgreSQL as");
    }
    let drop_root = ["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig", "TERM", "--"];
    let program = |name: &str| {
        let mut command = Command::new(if is_root { "setpriv".into() } else { programs.join(name) });
        if is_root {
            command.args(drop_root).arg(programs.join(name));
        }
        command
    };
    let made = program("initdb")
        .args(["--username=frontdesk", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--pgdata"])
        .arg(&data)
        .current_dir("/")
        .output()
        .context("initdb cannot be run")?;
    ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
    let mut command = program("postgres");
    command.arg("-D").arg(&data);
    for setting in [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "shared_buffers=1GB",
        "max_wal_size=4GB",
        "track_wal_io_timing=on",
        &format!("port={}", address.port()),
    ] {
        command.args(["-c", setting]);
    }
    let peer = Peer::start(bench, "PostgreSQL", cores, &command, address, own)?;
    let postgres = Postgres { peer, programs };
    // It accepts connections before it is ready for queries.
    let began = Instant::now();
    while let Err(error) = postgres.query("postgres", "SELECT 1") {
        if began.elapsed() > START_TIMEOUT {
            return Err(error.context(postgres.peer.stderr()));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    postgres.query("postgres", "CREATE DATABASE frontdesk")?;
    Ok(postgres)
}

/// The folder of the newest version's programs.
fn programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").context("there is no PostgreSQL")?;
    let newest = versions.flatten().max_by_key(|version| {
        version.file_name().to_str().and_then(|name| name.parse::<u32>().ok()).unwrap_or(0)
    });
    Ok(newest.context("there is no PostgreSQL")?.path().join("bin"))
}

impl Postgres {
    /// The value of `store.url`.
    pub fn url(&self) -> String {
        self.named("frontdesk")
    }

    fn named(&self, database: &str) -> String {
        format!("postgres://frontdesk@{}/{database}", self.peer.address)
    }

    fn query(&self, database: &str, sql: &str) -> Result<String> {
        let output = Command::new(self.programs.join("psql"))
            .arg(self.named(database))
            .args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-c", sql])
            .current_dir(Path::new("/"))
            .output()
            .context("psql cannot be run")?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Runs statements in the inbox.
    pub fn run(&self, sql: &str) -> Result<()> {
        self.query("frontdesk", sql).map(drop)
    }

    /// The result of a query with one number.
    pub fn number(&self, sql: &str) -> Result<f64> {
        self.query("frontdesk", sql)?.parse().with_context(|| format!("not a number: {sql}"))
    }
}
