//! Submissions stored per second, compared with a plain log and with other form backends.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::figures::{Curve, Line, Row, Section, Spread, Table, Target, Unit};
use crate::http::{self, Response};
use crate::load::{self, Load, Sample};
use crate::peer::log::Growth;
use crate::peer::{FRONTDESK, Peer, forms, frontdesk, log};
use crate::process;
use crate::rounds::{Rounds, find, interleave};
use crate::settings::{Bench, report_progress};
use crate::submission::{Form, fixed_request, visitors};

pub const CONTACT: Form = Form { path: "/api/contact", has_message: true };
const ITEMS: Form = Form { path: "/items/contact", has_message: true };
const WAITLIST: Form = Form { path: "/api/waitlist", has_message: false };

/// Numbers of concurrent visitors, each with the target ratio to the yardstick.
const CONNECTIONS: [(usize, f64); 2] = [(64, 0.45), (256, 0.4)];
/// Number of concurrent visitors in all other measurements.
const VISITORS: usize = 64;
/// Inbox sizes.
const GROWTH: [u64; 4] = [0, 10_000, 100_000, 1_000_000];

/// A quota that no source exceeds, so that requests are counted but never refused.
const QUOTA: &str = "1000000";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// A webhook that refuses connections, so that deliveries wait.
    Dead,
    Maildir,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Log(Growth),
    Frontdesk(Channel),
    Node,
    Php,
    Directus,
}

type NamedServer = (&'static str, Server);

const YARDSTICK: NamedServer = ("yardstick (log, append)", Server::Log(Growth::Appended));
const OURS: NamedServer = (FRONTDESK, Server::Frontdesk(Channel::Dead));
const DIRECTUS: NamedServer = ("Directus", Server::Directus);

/// All servers, in the order of the tables.
const SERVERS: [NamedServer; 7] = [
    YARDSTICK,
    OURS,
    ("yardstick (log, preallocated)", Server::Log(Growth::Preallocated)),
    ("frontdesk, delivering", Server::Frontdesk(Channel::Maildir)),
    ("Node, own handler", Server::Node),
    ("PHP-FPM, own handler", Server::Php),
    DIRECTUS,
];

struct Running {
    server: Server,
    peer: Peer,
    /// The folder with the stored submissions.
    data: PathBuf,
}

struct Setup<'a> {
    bench: &'a Bench,
    /// Copies of the starter site, indexed by channel.
    sites: [TempDir; 2],
    /// frontdesk's response, which the log servers imitate.
    like: Response,
}

pub fn run(bench: &Bench) -> Result<Section> {
    let mut section = Section::default();
    let sites = [copy_starter(bench, Channel::Dead)?, copy_starter(bench, Channel::Maildir)?];
    let like = {
        let peer = frontdesk::start(bench, frontdesk_options(sites[0].path()))?;
        http::send(peer.address, &fixed_request(CONTACT))?
    };
    ensure!(is_accepted(&like), "a submission returned status {}", like.status);
    let setup = Setup { bench, sites, like };
    section.add_condition("disk", "all servers store submissions on the same disk");
    for (connections, target) in CONNECTIONS {
        setup.measure_contact_form(connections, target, &mut section)?;
    }
    setup.measure_single_visitor(&mut section)?;
    setup.measure_waitlist_form(&mut section)?;
    setup.measure_inbox_growth(&mut section)?;
    Ok(section)
}

impl Setup<'_> {
    /// Measures all servers. Adds a table, and targets for the rate and for the p99, which is compared with
    /// the duration of a sync.
    fn measure_contact_form(&self, connections: usize, target: f64, section: &mut Section) -> Result<()> {
        // Directus needs half a minute to start, so it keeps running during all rounds.
        let directus = self.start(DIRECTUS, None)?;
        let (mut number, mut syncs) = (0, Vec::new());
        let servers = interleave(
            self.bench.rounds,
            &SERVERS,
            |(name, _)| name,
            |server| {
                number += 1;
                report_progress(&format!("{connections} connections, {}", server.0));
                if *server == OURS {
                    syncs.push(measure_sync(self.bench)?);
                }
                if *server == DIRECTUS {
                    return self.measure(connections, &directus, ITEMS, number);
                }
                self.measure(connections, &self.start(*server, None)?, CONTACT, number)
            },
        )?;
        let ours = find(&servers, FRONTDESK)?;
        for (name, label, target) in [("yardstick", YARDSTICK.0, target), (DIRECTUS.0, DIRECTUS.0, 20.0)] {
            let ratio = Spread::of_ratios(&ours.rates(), &find(&servers, label)?.rates()).median;
            let name = format!("submissions/s, {connections} connections: frontdesk / {name}");
            section.targets.push(Target::at_least(name, target, ratio));
        }
        // A batch contains at most one submission from each connection, which limits its CPU time.
        let sync = Spread::of(syncs);
        let batch = ours.spread(Sample::cost).median * connections as f64;
        let median = Unit::Micros.format(sync.median);
        section.targets.push(Target::at_most(
            format!("p99, {connections} connections: five syncs of {median} and a batch"),
            5.0 * sync.median + batch,
            ours.spread(|sample| sample.p99).median,
            Unit::Micros,
        ));
        section.add_condition(
            &format!("one sync, {connections} connections"),
            format!("{} for overwriting 64 KiB", Unit::Micros.format_spread(&sync)),
        );
        let title = format!("Contact form, {connections} concurrent visitors");
        section.add_table(&format!("submissions-{connections}"), &title, "", &servers, YARDSTICK.0)
    }

    /// Measures both forms of frontdesk on one connection. The target of the median response time depends on
    /// the duration of a sync.
    fn measure_single_visitor(&self, section: &mut Section) -> Result<()> {
        let mut all = Vec::new();
        for form in [CONTACT, WAITLIST] {
            let (rounds, sync) = self.rounds(format!("frontdesk, {}", form.path), form, 1)?;
            section.targets.push(Target::at_most(
                format!(
                    "one visitor alone, {}: two syncs of {} and 200 µs",
                    form.path,
                    Unit::Micros.format(sync)
                ),
                2.0 * sync + 200.0,
                rounds.spread(|sample| sample.p50).median,
                Unit::Micros,
            ));
            all.push(rounds);
        }
        section.add_table("submissions-alone", "One visitor alone", "", &all, "")
    }

    fn measure_waitlist_form(&self, section: &mut Section) -> Result<()> {
        let rounds = |visitors| self.rounds(format!("frontdesk, {visitors} visitors"), WAITLIST, visitors);
        let all = [rounds(16)?.0, rounds(64)?.0, rounds(256)?.0];
        section.add_table("submissions-waitlist", "Waitlist", "", &all, "")
    }

    /// Measures frontdesk alone, and the median sync in microseconds. Each round has an inbox of its own.
    fn rounds(&self, label: String, form: Form, connections: usize) -> Result<(Rounds, f64)> {
        let (mut samples, mut syncs) = (Vec::new(), Vec::new());
        for _ in 0..self.bench.rounds {
            syncs.push(measure_sync(self.bench)?);
            samples.push(self.measure(connections, &self.start(OURS, None)?, form, 0)?);
        }
        Ok((Rounds { label, samples }, Spread::of(syncs).median))
    }

    /// Measures frontdesk with larger and larger inboxes, beside the yardstick. The target limits how much
    /// the CPU time of a submission may grow.
    fn measure_inbox_growth(&self, section: &mut Section) -> Result<()> {
        let folder = tempfile::tempdir_in(&self.bench.out)?;
        let (mut rows, mut costs) = (Vec::new(), Vec::new());
        let (mut number, mut stored) = (0, 0);
        for size in GROWTH {
            report_progress(&format!("an inbox of {size} submissions"));
            if size > 0 {
                fill_inbox(folder.path(), stored, size)?;
            }
            stored = size;
            let servers = interleave(
                self.bench.rounds,
                &[OURS, YARDSTICK],
                |(name, _)| name,
                |server| {
                    number += 1;
                    let data = (*server == OURS).then_some(folder.path());
                    self.measure(VISITORS, &self.start(*server, data)?, CONTACT, number)
                },
            )?;
            section.record_all(&format!("growth-{size}"), &servers)?;
            let [ours, yardstick] = &servers[..] else { continue };
            let p99 = ours.spread(|sample| sample.p99);
            let cells = [ours.spread(Sample::rate), p99, yardstick.spread(Sample::rate)];
            rows.push(Row::new(Unit::Count.format(size as f64), cells));
            costs.push(ours.spread(Sample::cost).median);
        }
        section.targets.push(Target::at_most(
            format!("CPU time of a submission: inbox of {} / empty inbox", Unit::Count.format(stored as f64)),
            1.3,
            costs[costs.len() - 1] / costs[0],
            Unit::Ratio,
        ));
        // A logarithmic axis has no zero, so draw the empty inbox at 1,000.
        let sizes = GROWTH.map(|size| size.max(1_000) as f64).into_iter();
        let line =
            |label, column: usize| Line::new(label, sizes.clone(), rows.iter().map(|row| row.cells[column]));
        let (rate, p99) = (("submissions/s", Unit::Count), ("p99", Unit::Micros));
        let x = "submissions in the inbox";
        let by = "by size of the inbox (1,000: empty)";
        let rates = vec![line(FRONTDESK, 0), line("yardstick", 2)];
        for (name, title, y, lines) in [
            ("submissions-growth-rate", format!("Submissions a second, {by}"), rate, rates),
            ("submissions-growth-p99", format!("p99, {by}"), p99, vec![line(FRONTDESK, 1)]),
        ] {
            section.curves.push(Curve::new(name, &title, x, y, true, lines));
        }
        let note = "64 concurrent visitors. All submissions in the inbox are delivered.";
        let title = "Contact form, by size of the inbox";
        let columns = [rate, p99, ("yardstick", Unit::Count)];
        section.tables.push(Table::new("submissions-growth", title, note, columns, rows));
        Ok(())
    }

    /// Starts a server. frontdesk stores its data in `data`, or in a temporary folder if `data` is `None`.
    fn start(&self, (name, server): NamedServer, data: Option<&Path>) -> Result<Running> {
        let bench = self.bench;
        let folder = tempfile::tempdir_in(std::fs::canonicalize(&bench.out)?)?;
        let data = data.unwrap_or(folder.path()).to_owned();
        let peer = match server {
            Server::Log(growth) => log::start(bench, name, growth, &self.like, folder),
            Server::Frontdesk(channel) => {
                let options = frontdesk_options(self.sites[channel as usize].path());
                let options = frontdesk::Options { name, data: Some(data.clone()), ..options };
                frontdesk::start_in(bench, options, folder)
            }
            Server::Node => forms::start_node(bench, folder),
            Server::Php => forms::start_php(bench, folder),
            Server::Directus => forms::start_directus(bench, folder),
        }?;
        Ok(Running { server, peer, data })
    }

    /// Measures one round. Fails if an acknowledged submission is missing.
    fn measure(&self, connections: usize, running: &Running, form: Form, number: u64) -> Result<Sample> {
        let load = Load::new(self.bench, connections);
        let before = running.count_stored()?;
        let sample = send(&load, &running.peer, form, number)?;
        if let (Some(before), Some(after)) = (before, running.count_stored()?) {
            check_stored(&load, &running.peer, &sample, after - before)?;
        }
        Ok(sample)
    }
}

impl Running {
    /// Counts the stored submissions; `None` for a log that wraps around.
    fn count_stored(&self) -> Result<Option<u64>> {
        let (file, rows) = match self.server {
            Server::Log(Growth::Preallocated) => return Ok(None),
            Server::Log(Growth::Appended) => return log::count_stored(&self.data).map(Some),
            Server::Frontdesk(_) => {
                ("inbox.sqlite", "(SELECT count(*) FROM submission) + (SELECT count(*) FROM intake)")
            }
            Server::Node | Server::Php | Server::Directus => (forms::DATABASE, "count(*) FROM contact"),
        };
        let count = forms::sqlite(&self.data.join(file), &format!("SELECT {rows}"))?;
        count.trim().parse().map(Some).context("invalid count")
    }
}

/// Sends one submission, whose response is the expected one for all others, and then submissions from
/// `load`'s connections as fast as the server responds. `number` must differ from that of earlier rounds with
/// the same inbox.
pub fn send(load: &Load, peer: &Peer, form: Form, number: u64) -> Result<Sample> {
    let response = http::send(peer.address, &fixed_request(form))?;
    ensure!(is_accepted(&response), "a submission returned status {} from {}", response.status, peer.name);
    let sample = load::run(load, peer, visitors(form, &response, number))?;
    // Give the server time to store the last submissions.
    std::thread::sleep(Duration::from_millis(500));
    Ok(sample)
}

/// Fails if an acknowledged submission is missing, or if more were stored than sent.
pub fn check_stored(load: &Load, peer: &Peer, sample: &Sample, stored: u64) -> Result<()> {
    let acknowledged = sample.with_warm_up;
    let (name, sent) = (&peer.name, acknowledged + load.connections as u64 + 1);
    let is_complete = (acknowledged..=sent).contains(&stored);
    ensure!(is_complete, "{name} acknowledged {acknowledged} submissions and stored {stored}");
    Ok(())
}

/// Directus acknowledges a submission with status 204, all others with status 200 and `{"ok":true}`.
fn is_accepted(response: &Response) -> bool {
    response.status == 204 || (response.status == 200 && response.body == b"{\"ok\":true}")
}

/// Measures how long a sync takes after overwriting 64 KiB of a file: the median of 50 runs, in microseconds.
fn measure_sync(bench: &Bench) -> Result<f64> {
    let file = tempfile::tempfile_in(&bench.out)?;
    let bytes = vec![1; 64 * 1024];
    let write = |place: u64| file.write_all_at(&bytes, place * bytes.len() as u64);
    (0..50).try_for_each(write)?;
    file.sync_all()?;
    let mut took = Vec::new();
    for place in 0..50 {
        write(place)?;
        let began = Instant::now();
        file.sync_data()?;
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Spread::of(took).median)
}

/// Copies the starter site, and adds a channel.
pub fn copy_starter(bench: &Bench, channel: Channel) -> Result<TempDir> {
    let keys = match channel {
        Channel::Dead => "kind = \"webhook\"\nurl = \"http://127.0.0.1:9/\"\nallow_private = true\n",
        Channel::Maildir => "kind = \"maildir\"\npath = \"mail\"\nto = [\"team@example.com\"]\n",
    };
    let site = tempfile::tempdir_in(&bench.out)?;
    process::output(Command::new("cp").args(["-r", "starter/."]).arg(site.path()))?;
    let mut file = OpenOptions::new().append(true).open(site.path().join("frontdesk.toml"))?;
    write!(file, "\n[[channel]]\nname = \"team\"\n{keys}")?;
    Ok(site)
}

/// Options with quotas that no source exceeds. Loopback addresses are trusted proxies, so that
/// `X-Forwarded-For` determines the source of each request.
pub fn frontdesk_options(site: &Path) -> frontdesk::Options<'_> {
    let mut options = frontdesk::Options::new(FRONTDESK, site).set("SERVER__TRUSTED_PROXIES", "127.0.0.0/8");
    for limit in ["", "NETWORK_", "FORM_"] {
        for window in ["MINUTE", "HOUR"] {
            options = options.set(&format!("LIMITS__{limit}PER_{window}"), QUOTA);
        }
    }
    options
}

/// Inserts delivered submissions, numbered from `from` + 1 to `to`, while no server uses the inbox.
fn fill_inbox(data: &Path, from: u64, to: u64) -> Result<()> {
    let sixty_days_ago = jiff::Timestamp::now().as_millisecond() - 60 * 24 * 3_600_000;
    let statements = format!(
        include_str!("submissions.sql"),
        from = from,
        to = to,
        first = sixty_days_ago,
        message = "word ".repeat(100),
    );
    forms::sqlite(&data.join("inbox.sqlite"), &statements).map(drop)
}
