//! Ten million delivered submissions, in SQLite and in PostgreSQL: the size on disk, and the time and memory
//! of what operators do with them.
//!
//! The server has one core. Commands and PostgreSQL, which `scripts/bench` starts, use both.

mod database;
mod retention;
mod timed;
mod web;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use self::database::{COMMON, Database, FORMS, Plan, RARE};
use self::timed::Measured;
use self::web::Session;
use super::submissions::{CONTACT, Channel, copy_starter, frontdesk_options};
use crate::figures::{Row, Section, Spread, Table, Unit};
use crate::http;
use crate::peer::{Peer, Reserved, frontdesk};
use crate::settings::{Bench, Cores, report_progress};
use crate::submission::fixed_request;

/// The limit of a command, and of copying the whole inbox.
const LIMIT: Duration = Duration::from_mins(5);
const COPY_LIMIT: Duration = Duration::from_mins(30);
/// The limit of a page of the inbox in a browser.
const PAGE_LIMIT: Duration = Duration::from_mins(1);

const DAY: i64 = 24 * 3_600_000;
const SPAN: i64 = 730 * DAY;
/// Free bytes on the disk for each submission: the inbox, its backup, and temporary files.
const BYTES_NEEDED: u64 = 2_000;
/// The address of [`fixed_request`].
const ADDRESS: &str = "ada.0@example.com";

/// A form as the starter site has none.
const FORM: &str = "title = \"Form\"\ndescription = \"A form.\"\n\n[[field]]\nname = \"email\"\ntype = \"email\"\n\
    label = \"E-mail\"\nrequired = true\n\n[[field]]\nname = \"name\"\ntype = \"text\"\nlabel = \"Name\"\n\n\
    [[field]]\nname = \"message\"\ntype = \"multiline\"\nlabel = \"Message\"\nrequired = true\n";

pub fn run(bench: &Bench) -> Result<Section> {
    let root = tempfile::tempdir_in(fs::canonicalize(&bench.out)?)?;
    let disk = rustix::fs::statvfs(root.path())?;
    let needed = bench.kept * BYTES_NEEDED;
    ensure!(
        disk.f_bavail * disk.f_frsize >= needed,
        "{} submissions need {} of free disk space",
        bench.kept,
        Unit::Bytes.format(needed as f64)
    );
    let site = copy_starter(bench, Channel::Dead)?;
    fs::create_dir_all(site.path().join("forms"))?;
    for form in FORMS.iter().filter(|form| **form != "contact") {
        fs::write(site.path().join(format!("forms/{form}.toml")), FORM)?;
    }
    let mut section = Section::default();
    section.add_condition("submissions", Unit::Count.format(bench.kept as f64));
    let mut all = Vec::new();
    for kind in ["SQLite", "PostgreSQL"] {
        let data = root.path().join(kind);
        fs::create_dir(&data)?;
        let database = if kind == "SQLite" { Database::Sqlite(data.clone()) } else { Database::postgres()? };
        if let Some(version) = database.version()? {
            section.add_condition(kind, version);
        }
        let mut inbox = Inbox { bench, site: site.path(), data, database, seen: Seen::default() };
        inbox.measure().with_context(|| kind.to_owned())?;
        inbox.database.empty()?;
        fs::remove_dir_all(&inbox.data)?;
        section.record("kept", kind, &inbox.seen.raw())?;
        all.push((kind, inbox.seen));
    }
    section.tables = tables(&all, bench.kept);
    Ok(section)
}

/// The figures of one database, in the order of the table.
#[derive(Debug, Default)]
struct Seen {
    operations: Vec<(String, Measured)>,
    /// Names and bytes.
    sizes: Vec<(&'static str, f64)>,
}

impl Seen {
    fn add(&mut self, operation: &str, measured: Measured) {
        report_progress(&format!("{operation}: {}", Unit::Millis.format_spread(&measured.millis)));
        self.operations.push((operation.to_owned(), measured));
    }

    fn raw(&self) -> Vec<(&str, Spread, Option<f64>)> {
        self.operations
            .iter()
            .map(|(name, measured)| (name.as_str(), measured.millis, measured.peak))
            .collect()
    }
}

/// The tables of sizes and of operations, with columns for each database.
fn tables(all: &[(&str, Seen)], count: u64) -> Vec<Table> {
    let Some((_, first)) = all.first() else { return Vec::new() };
    let sizes = first.sizes.iter().enumerate().map(|(place, (name, _))| {
        Row::new(*name, all.iter().map(|(_, seen)| Spread::exactly(seen.sizes[place].1)))
    });
    let operations = first.operations.iter().map(|(name, _)| {
        let cells = all.iter().flat_map(|(_, seen)| {
            let found = seen.operations.iter().find(|(known, _)| known == name);
            let measured = found.map(|(_, measured)| measured);
            let peak = measured.and_then(|measured| measured.peak).map_or(Spread::none(), Spread::exactly);
            [measured.map_or(Spread::none(), |measured| measured.millis), peak]
        });
        Row::new(name, cells)
    });
    let columns = all.iter().flat_map(|(name, _)| {
        [((*name).to_owned(), Unit::Millis), (format!("{name}, peak memory"), Unit::Bytes)]
    });
    let title = format!("An inbox of {} submissions", Unit::Count.format(count as f64));
    vec![
        Table::new("kept", title.as_str(), "", columns, operations),
        Table::new(
            "kept-size",
            format!("{title}, on disk"),
            "",
            all.iter().map(|(name, _)| (*name, Unit::Bytes)),
            sizes,
        ),
    ]
}

struct Inbox<'a> {
    bench: &'a Bench,
    site: &'a Path,
    /// The server's data folder.
    data: PathBuf,
    database: Database,
    seen: Seen,
}

impl Inbox<'_> {
    /// Fills the inbox, and measures all operations: those that only read before those that change it.
    fn measure(&mut self) -> Result<()> {
        let plan = self.fill()?;
        let web = Reserved::new()?.address;
        let began = Instant::now();
        let server = self.start(&[("INBOX__LISTEN", web.to_string())])?;
        self.add_for_server("start of the server", Spread::exactly(millis_since(began)), &server)?;
        self.read(&plan)?;
        self.read_in_browser(&server, web)?;
        let erase = self.command(&["inbox", "erase", "--yes", "--email", ADDRESS]);
        self.run_once("`inbox erase`", &erase, LIMIT)?;
        let left = self.database.count()?;
        ensure!(
            (self.bench.kept - Plan::PERSON..self.bench.kept).contains(&left),
            "{left} submissions are left"
        );
        drop(server);
        self.measure_retention(&plan)?;
        self.copy()
    }

    /// Creates the inbox with one submission of [`ADDRESS`], and then all others.
    fn fill(&mut self) -> Result<Plan> {
        let server = self.start(&[])?;
        http::send(server.address, &fixed_request(CONTACT))?;
        let began = Instant::now();
        while self.database.count()? == 0 {
            ensure!(
                began.elapsed() < Duration::from_mins(1),
                "a submission was not processed: {}",
                server.last_output()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        let sender = self.database.latest_sender()?;
        drop(server);
        let first = jiff::Timestamp::now().as_millisecond() - SPAN;
        let plan = Plan { count: self.bench.kept, first, span: SPAN, sender };
        report_progress(&format!("filling {}", self.database.name()));
        let began = Instant::now();
        self.bench.run_on(Cores::Both, || self.database.fill(&plan))??;
        let stored = self.database.count()?;
        ensure!(stored == plan.count + 1, "the inbox has {stored} submissions");
        report_progress(&format!("filled in {} s", began.elapsed().as_secs()));
        self.seen.sizes.push(("inbox", self.database.size()?));
        self.seen.sizes.push(("each submission", self.database.size()? / stored as f64));
        Ok(plan)
    }

    /// Commands that only read.
    fn read(&mut self, plan: &Plan) -> Result<()> {
        let id = self.database.first_id_at(plan.first + SPAN / 2)?;
        let form = FORMS[1];
        for (operation, arguments, expected) in [
            ("`inbox list --limit 50`", &["inbox", "list", "--limit", "50"][..], Some(50)),
            ("the same, one form", &["inbox", "list", "--limit", "50", "--form", form], Some(50)),
            (
                "the same, *delivered* (all)",
                &["inbox", "list", "--limit", "50", "--status", "delivered"],
                Some(50),
            ),
            ("the same, *parked* (none)", &["inbox", "list", "--limit", "50", "--status", "parked"], Some(0)),
            ("the same, *kept* (none)", &["inbox", "list", "--limit", "50", "--status", "kept"], Some(0)),
            ("`inbox show ID`", &["inbox", "show", &id], None),
            (
                "`inbox list --text`, common word",
                &["inbox", "list", "--limit", "50", "--text", COMMON],
                Some(50),
            ),
            ("`inbox list --text`, rare word", &["inbox", "list", "--limit", "50", "--text", RARE], Some(10)),
            ("`inbox stats`", &["inbox", "stats"], None),
        ] {
            let mut arguments = arguments.to_vec();
            if expected.is_some() {
                arguments.push("--json");
            }
            let command = self.command(&arguments);
            let rounds = self.bench.rounds;
            let measured = self.bench.run_on(Cores::Both, || timed::measure(&command, LIMIT, rounds))?;
            let measured = measured.context(operation)?;
            let lines = measured.output.lines().count();
            let is_right =
                measured.millis.is_above() || expected.map_or(lines > 0, |expected| expected == lines);
            ensure!(is_right, "{operation} printed {lines} lines: {}", measured.output);
            self.seen.add(operation, measured);
        }
        Ok(())
    }

    /// Pages of the inbox in a browser.
    fn read_in_browser(&mut self, server: &Peer, web: SocketAddr) -> Result<()> {
        let url = format!("http://{web}");
        let open = self.command(&["inbox", "open", "--print", "--address", &url]);
        let link = timed::measure(&open, LIMIT, 1)?.output;
        let session = Session::log_in(web, &link)?;
        for (operation, path) in [
            ("browser: open submissions", "/?state=open".to_owned()),
            ("browser: common word", format!("/?q={COMMON}")),
            ("browser: rare word, first part", format!("/?q={RARE}")),
            ("browser: statistics", "/statistics".to_owned()),
        ] {
            server.forget_peak()?;
            let (millis, _) = session.read(&path, PAGE_LIMIT, self.bench.rounds)?;
            self.add_for_server(operation, millis, server)?;
        }
        Ok(())
    }

    /// Removes the oldest hundredth by `store.retention`, while visitors send submissions.
    fn measure_retention(&mut self, plan: &Plan) -> Result<()> {
        let until = plan.first + SPAN / 100;
        let (digest, age) = (retention::next_digest(jiff::Timestamp::now()), (SPAN - SPAN / 100) / 1000);
        let environment =
            [("STORE__RETENTION", format!("{age}s")), ("DIGEST__AT", digest.strftime("%H:%M").to_string())];
        let server = self.start(&environment)?;
        server.forget_peak()?;
        let seen = retention::measure(self.bench, &server, &self.database, until, digest)?;
        self.seen.add("p99 of a submission", Measured::time(seen.calm));
        self.add_for_server("`store.retention` of 1 %", seen.duration, &server)?;
        self.seen.add("p99 meanwhile", Measured::time(seen.meanwhile));
        Ok(())
    }

    /// Backs up the inbox, removes it, and restores it.
    fn copy(&mut self) -> Result<()> {
        let before = self.database.count()?;
        let file = self.data.join("backup");
        let [backup, restore] = match &self.database {
            Database::Sqlite(_) => [
                self.command(&["backup", &file.to_string_lossy()]),
                self.command(&["restore", &file.to_string_lossy()]),
            ],
            Database::Postgres(url) => {
                let [mut dump, mut restore] = ["pg_dump", "pg_restore"].map(Command::new);
                dump.args(["--format=custom", "--file"]).arg(&file).arg(url);
                restore.args(["--clean", "--if-exists", "--no-owner", "--dbname", url]).arg(&file);
                [dump, restore]
            }
        };
        self.run_once("`backup`, `pg_dump`", &backup, COPY_LIMIT)?;
        self.seen.sizes.push(("backup", fs::metadata(&file).map_or(0.0, |file| file.len() as f64)));
        self.database.empty()?;
        let is_complete = self.run_once("`restore`, `pg_restore`", &restore, COPY_LIMIT)?;
        if is_complete {
            let after = self.database.count()?;
            ensure!(after == before, "the restored inbox has {after} of {before} submissions");
        }
        Ok(fs::remove_file(file)?)
    }

    fn start(&self, environment: &[(&str, String)]) -> Result<Peer> {
        let mut options =
            frontdesk::Options { data: Some(self.data.clone()), ..frontdesk_options(self.site) };
        for (name, value) in environment {
            options = options.set(name, value);
        }
        if let Database::Postgres(url) = &self.database {
            options = options.set("STORE__URL", url);
        }
        frontdesk::start_answering(self.bench, options, TempDir::new()?)
    }

    /// A command of frontdesk for this inbox.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.bench.frontdesk);
        command.args(arguments).arg("--site").arg(self.site).arg("--data-dir").arg(&self.data);
        if let Database::Postgres(url) = &self.database {
            command.env("FRONTDESK_STORE__URL", url);
        }
        command
    }

    /// Measures a command that cannot be repeated. Returns whether it ended within the limit.
    fn run_once(&mut self, operation: &str, command: &Command, limit: Duration) -> Result<bool> {
        let measured = self.bench.run_on(Cores::Both, || timed::measure(command, limit, 1))?;
        let measured = measured.with_context(|| operation.to_owned())?;
        let is_complete = !measured.millis.is_above();
        self.seen.add(operation, measured);
        Ok(is_complete)
    }

    /// Adds an operation of the server, with the server's peak of memory.
    fn add_for_server(&mut self, operation: &str, millis: Spread, server: &Peer) -> Result<()> {
        let peak = Some(server.peak()? as f64);
        self.seen.add(operation, Measured { peak, ..Measured::time(millis) });
        Ok(())
    }
}

fn millis_since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
