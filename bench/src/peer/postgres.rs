//! A temporary PostgreSQL server with default settings, except for memory, WAL size and I/O timing.

use std::fs::DirEntry;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::{Peer, START_TIMEOUT, create_folder, free_address};
use crate::Bench;
use crate::machine::Cores;
use crate::process;

#[derive(Debug)]
pub struct Postgres {
    pub peer: Peer,
    programs: PathBuf,
}

/// Starts PostgreSQL on `cores`. If this process is root, runs PostgreSQL as the user `postgres`, because
/// PostgreSQL refuses to run as root.
pub fn start(bench: &Bench, cores: Cores) -> Result<Postgres> {
    let programs = find_programs()?;
    let (own, address) = (create_folder()?, free_address()?);
    let data = own.path().join("data");
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        let given = Command::new("chown").arg("postgres").arg(own.path()).status()?;
        ensure!(given.success(), "cannot change the owner of the data folder to the user 'postgres'");
    }
    let program = |name: &str| {
        if !is_root {
            return Command::new(programs.join(name));
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig", "TERM", "--"]);
        command.arg(programs.join(name));
        command
    };
    let mut initdb = program("initdb");
    initdb.args(["--username=frontdesk", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--pgdata"]);
    // The user `postgres` may not have permission to enter the current folder.
    process::output(initdb.arg(&data).current_dir("/"))?;
    let mut command = program("postgres");
    command.args(["-h", "127.0.0.1", "-k", "", "-p", &address.port().to_string(), "-D"]).arg(&data);
    for setting in ["shared_buffers=1GB", "max_wal_size=4GB", "track_wal_io_timing=on"] {
        command.args(["-c", setting]);
    }
    let peer = Peer::start(bench, "PostgreSQL", cores, &command, address, own)?;
    let postgres = Postgres { peer, programs };
    // PostgreSQL accepts connections before it is ready for queries, so retry the first query.
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

/// Finds the program folder of the newest installed version of PostgreSQL.
fn find_programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").context("PostgreSQL is not installed")?;
    let number = |version: &DirEntry| version.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
    Ok(versions.flatten().max_by_key(number).context("PostgreSQL is not installed")?.path().join("bin"))
}

impl Postgres {
    pub fn url(&self, database: &str) -> String {
        format!("postgres://frontdesk@{}/{database}", self.peer.address)
    }

    fn query(&self, database: &str, sql: &str) -> Result<String> {
        let mut psql = Command::new(self.programs.join("psql"));
        process::output(psql.arg(self.url(database)).args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-c", sql]))
    }

    pub fn execute(&self, sql: &str) -> Result<()> {
        self.query("frontdesk", sql).map(drop)
    }

    pub fn query_number(&self, sql: &str) -> Result<f64> {
        self.query("frontdesk", sql)?.trim().parse().with_context(|| format!("not a number: {sql}"))
    }
}
