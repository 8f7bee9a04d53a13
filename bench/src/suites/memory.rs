//! Memory: the example site after its start, and 10,000 connections that wait for their next request.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Outcome;
use crate::Bench;
use crate::cores::Cores;
use crate::figures::{Bar, Column, Row, Table, Unit};
use crate::http::{self, Asker, ask, get};
use crate::load::connect_from;
use crate::peer::{Peer, folder, frontdesk, nginx};
use crate::process::Memory;
use crate::rounds::Spread;

const CONNECTIONS: usize = 10_000;
/// Without a change for so long, a server has done what it does after its start.
const SETTLED: Duration = Duration::from_secs(2);
/// How often each server is started.
const STARTS: usize = 3;
const PAGE: &str = "/";
const FILE: &str = "/home.html";

/// Measures both, of frontdesk and nginx, each with two workers.
pub fn run(bench: &Bench) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    outcome.condition("site", "the example site of the repository (`site/`)");
    let root = folder()?;
    let (mut idle, mut with) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for start in 1..=STARTS {
        bench.say(&format!("start {start} of {STARTS}"));
        let ours = frontdesk::start(bench, &options(bench))?;
        let page = ask(ours.address, &get(Asker::Browser, PAGE, "identity", None))?;
        ensure!(page.status == 200, "the home page is answered with {}", page.status);
        std::fs::write(root.path().join(FILE.trim_start_matches('/')), &page.body)?;
        for (place, (peer, path)) in
            [(ours, PAGE), (start_nginx(bench, root.path())?, FILE)].into_iter().enumerate()
        {
            let before = settled(&peer)?;
            let open = open(&peer, path, &page.body)?;
            let after = settled(&peer)?;
            ensure!(open.iter().all(is_open), "{} has closed connections that wait", peer.name);
            outcome.keep("idle", &peer.name, &[before])?;
            outcome.keep("10,000 connections", &peer.name, &[after])?;
            idle[place].push(before);
            with[place].push(after);
        }
    }
    outcome.tables = vec![
        table("memory-idle", "After the start", "", &idle, None),
        table(
            "memory-connections",
            "With 10,000 idle connections, after one answer each",
            "The kernel's memory for them is not in these figures: it is nearly the same for all servers.",
            &with,
            Some(&idle),
        ),
    ];
    let median = |seen: &[Memory], figure: fn(&Memory) -> u64| spread(seen, figure).median;
    outcome.bars = vec![
        Bar::at_most(
            "frontdesk idle, the example site: resident memory",
            megabytes(15),
            median(&idle[0], |m| m.rss),
            Unit::Bytes,
        ),
        Bar::at_most(
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
    let options = nginx::Options {
        name: "nginx",
        root,
        cores: Cores::Both,
        headers: &[],
        sendfile: true,
        gzip_static: true,
        tls: None,
    };
    nginx::start(bench, &options)
}

/// Its memory once that does not change any more.
fn settled(peer: &Peer) -> Result<Memory> {
    let began = Instant::now();
    let (mut memory, mut since) = (peer.memory()?, Instant::now());
    while since.elapsed() < SETTLED {
        ensure!(
            began.elapsed() < Duration::from_mins(1),
            "the memory of {} does not come to rest",
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

/// Opens all connections, and has one page answered on each.
fn open(peer: &Peer, path: &str, body: &[u8]) -> Result<Vec<TcpStream>> {
    let request = get(Asker::Browser, path, "identity", None);
    let mut piece = vec![0; 64 * 1024];
    let mut open = Vec::with_capacity(CONNECTIONS);
    for number in 0..CONNECTIONS {
        let mut stream = connect_from(number % 64, peer.address)?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(&request)?;
        let mut bytes = Vec::new();
        let answer = loop {
            let count =
                stream.read(&mut piece).with_context(|| format!("connection {number} to {}", peer.name))?;
            ensure!(count > 0, "{} has closed connection {number}", peer.name);
            bytes.extend_from_slice(&piece[..count]);
            if let Some((answer, _)) = http::parse(&bytes)? {
                break answer;
            }
        };
        ensure!(answer.status == 200 && answer.body == body, "{} answers wrongly", peer.name);
        open.push(stream);
    }
    Ok(open)
}

fn is_open(stream: &TcpStream) -> bool {
    let nothing_yet = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    stream.set_nonblocking(true).is_ok() && stream.peek(&mut [0]).is_err_and(nothing_yet)
}

fn spread(seen: &[Memory], figure: impl Fn(&Memory) -> u64) -> Spread {
    Spread::of(seen.iter().map(|memory| figure(memory) as f64))
}

/// Rows for frontdesk and nginx; with the memory of `before`, what each connection has added.
fn table(
    name: &str,
    title: &str,
    note: &str,
    seen: &[Vec<Memory>; 2],
    before: Option<&[Vec<Memory>; 2]>,
) -> Table {
    let mut columns: Vec<Column> = ["resident", "proportional", "anonymous", "of files"]
        .map(|title| Column::new(title, Unit::Bytes))
        .to_vec();
    columns.extend(before.map(|_| Column::new("more for each connection", Unit::Bytes)));
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
