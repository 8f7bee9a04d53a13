//! Memory of the example site after the start, and with 10,000 idle connections.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Outcome;
use crate::Bench;
use crate::figures::{Column, Row, Table, Target, Unit};
use crate::http::{self, ClientKind, get, send};
use crate::load::connect_from;
use crate::machine::Cores;
use crate::peer::{FileServer, Peer, folder, frontdesk, nginx};
use crate::process::Memory;
use crate::rounds::Spread;

const CONNECTIONS: usize = 10_000;
/// Memory is read once it has been stable for this time.
const STABLE: Duration = Duration::from_secs(2);
/// Starts of each server.
const STARTS: usize = 3;
const PAGE: &str = "/";
const FILE: &str = "/home.html";

/// Measures frontdesk and nginx, each with two workers.
pub fn run(bench: &Bench) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    outcome.condition("site", "the example site of the repository (`site/`)");
    let root = folder()?;
    let (mut idle, mut with) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for start in 1..=STARTS {
        bench.log(&format!("start {start} of {STARTS}"));
        let ours = frontdesk::start(bench, &options(bench))?;
        let page = send(ours.address, &get(ClientKind::Browser, PAGE, "identity", None))?;
        ensure!(page.status == 200, "the home page gets {}", page.status);
        std::fs::write(root.path().join(FILE.trim_start_matches('/')), &page.body)?;
        for (place, (peer, path)) in
            [(ours, PAGE), (start_nginx(bench, root.path())?, FILE)].into_iter().enumerate()
        {
            let before = stable_memory(&peer)?;
            let open = open(&peer, path, &page.body)?;
            let after = stable_memory(&peer)?;
            ensure!(open.iter().all(is_open), "{} closed idle connections", peer.name);
            outcome.record("idle", &peer.name, &[before])?;
            outcome.record("10,000 connections", &peer.name, &[after])?;
            idle[place].push(before);
            with[place].push(after);
        }
    }
    outcome.tables = vec![
        table("memory-idle", "After the start", "", &idle, None),
        table(
            "memory-connections",
            "With 10,000 idle connections, after one response each",
            "Without the memory of the kernel, which is nearly the same for all servers.",
            &with,
            Some(&idle),
        ),
    ];
    let median = |seen: &[Memory], figure: fn(&Memory) -> u64| spread(seen, figure).median;
    outcome.targets = vec![
        Target::at_most(
            "frontdesk idle, example site: resident memory",
            megabytes(15),
            median(&idle[0], |m| m.rss),
            Unit::Bytes,
        ),
        Target::at_most(
            "frontdesk with 10,000 idle connections: resident memory",
            megabytes(100),
            median(&with[0], |m| m.rss),
            Unit::Bytes,
        ),
    ];
    Ok(outcome)
}

fn megabytes(count: u32) -> f64 {
    f64::from(count << 20)
}

fn options(bench: &Bench) -> frontdesk::Options {
    let mut options = frontdesk::Options::new("frontdesk", &bench.repository.join("site")).on(Cores::Both);
    for name in ["IDLE_TIMEOUT", "FIRST_BYTE_TIMEOUT", "HEADER_TIMEOUT"] {
        options = options.set(&format!("FRONTDESK_SERVER__{name}"), "10m");
    }
    options
}

fn start_nginx(bench: &Bench, root: &std::path::Path) -> Result<Peer> {
    let options = FileServer { root, cores: Cores::Both, headers: &[], tls: None };
    nginx::start(bench, "nginx", &options, true)
}

/// Waits until the memory changes by less than 256 KiB, and reads it.
fn stable_memory(peer: &Peer) -> Result<Memory> {
    let began = Instant::now();
    let (mut memory, mut since) = (peer.memory()?, Instant::now());
    while since.elapsed() < STABLE {
        ensure!(
            began.elapsed() < Duration::from_mins(1),
            "the memory of {} does not become stable",
            peer.name
        );
        std::thread::sleep(Duration::from_millis(100));
        let now = peer.memory()?;
        if now.rss.abs_diff(memory.rss) > 256 * 1024 {
            (memory, since) = (now, Instant::now());
        }
    }
    peer.memory()
}

/// Opens all connections, and requests one page on each.
fn open(peer: &Peer, path: &str, body: &[u8]) -> Result<Vec<TcpStream>> {
    let request = get(ClientKind::Browser, path, "identity", None);
    let mut open = Vec::with_capacity(CONNECTIONS);
    for number in 0..CONNECTIONS {
        let mut stream = connect_from(number % 64, peer.address)?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(&request)?;
        let response =
            http::read(&mut stream).with_context(|| format!("connection {number} to {}", peer.name))?;
        ensure!(response.status == 200 && response.body == body, "{} sends a wrong response", peer.name);
        open.push(stream);
    }
    Ok(open)
}

fn is_open(stream: &TcpStream) -> bool {
    let would_block = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    stream.set_nonblocking(true).is_ok() && stream.peek(&mut [0]).is_err_and(would_block)
}

fn spread(seen: &[Memory], figure: impl Fn(&Memory) -> u64) -> Spread {
    Spread::of(seen.iter().map(|memory| figure(memory) as f64))
}

/// Rows for frontdesk and nginx. With `before`, also the memory of each connection.
fn table(
    name: &str,
    title: &str,
    note: &str,
    seen: &[Vec<Memory>; 2],
    before: Option<&[Vec<Memory>; 2]>,
) -> Table {
    let mut columns: Vec<Column> = ["resident", "proportional", "anonymous", "file-backed"]
        .map(|title| Column::new(title, Unit::Bytes))
        .to_vec();
    columns.extend(before.map(|_| Column::new("per connection", Unit::Bytes)));
    let rows = ["frontdesk", "nginx"].into_iter().enumerate().map(|(place, label)| {
        let seen = &seen[place];
        let mut cells = vec![
            spread(seen, |memory| memory.rss),
            spread(seen, |memory| memory.pss),
            spread(seen, |memory| memory.anonymous),
            spread(seen, |memory| memory.file),
        ];
        cells.extend(before.map(|before| {
            let more =
                before[place].iter().zip(seen).map(|(before, after)| after.rss.saturating_sub(before.rss));
            Spread::of(more.map(|more| more as f64 / CONNECTIONS as f64))
        }));
        Row::new(label, cells)
    });
    Table {
        name: name.into(),
        title: title.into(),
        note: note.into(),
        rows: rows.collect(),
        columns,
        plotted: Some(0),
    }
}
