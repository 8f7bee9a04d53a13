//! Memory usage of frontdesk and nginx with the example site: after startup, and with 10,000 idle
//! connections.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::figures::{Row, Section, Spread, Table, Target, Unit};
use crate::http::{self, BROWSER, IDENTITY, get, send};
use crate::load::connect_from;
use crate::peer::file_server::FileServer;
use crate::peer::file_server::NGINX_DEFAULT;
use crate::peer::{FRONTDESK, Peer, create_folder, frontdesk};
use crate::settings::{Bench, Cores, report_progress};

const CONNECTIONS: usize = 10_000;
/// How long memory usage must be stable before it is recorded.
const STABLE: Duration = Duration::from_secs(2);
const STARTS: usize = 3;
const PAGE: &str = "/";
const FILE: &str = "/home.html";
const SERVERS: [&str; 2] = [FRONTDESK, "nginx"];
const COLUMNS: [&str; 5] = ["resident", "proportional", "anonymous", "file-backed", "per connection"];

/// Starts both servers three times, and measures each after the start and with idle connections.
pub fn run(bench: &Bench) -> Result<Section> {
    let mut section = Section::default();
    section.add_condition("site", "the example site of the repository (`site/`)");
    let mut options = frontdesk::Options::new(FRONTDESK, Path::new("site"));
    options.cores = Cores::Both;
    for name in ["IDLE_TIMEOUT", "FIRST_BYTE_TIMEOUT", "HEADER_TIMEOUT"] {
        options = options.set(&format!("SERVER__{name}"), "10m");
    }
    let root = create_folder()?;
    let mut seen = SERVERS.map(|_| Vec::new());
    for start in 1..=STARTS {
        report_progress(&format!("start {start} of {STARTS}"));
        let ours = frontdesk::start(bench, options.clone())?;
        let page = send(ours.address, &get(BROWSER, PAGE, IDENTITY, None))?;
        ensure!(page.status == 200, "the home page returned status {}", page.status);
        std::fs::write(root.path().join(FILE.trim_start_matches('/')), &page.body)?;
        let files = FileServer { root: root.path(), cores: Cores::Both, headers: &[], tls: None };
        let nginx = files.start_nginx(bench, NGINX_DEFAULT)?;
        for ((peer, path), seen) in [(ours, PAGE), (nginx, FILE)].into_iter().zip(&mut seen) {
            let idle = stable_memory(&peer)?;
            let open = open_connections(&peer, path, &page.body)?;
            let connected = stable_memory(&peer)?;
            for stream in &open {
                stream.set_nonblocking(true)?;
                let would_block = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
                let is_open = stream.peek(&mut [0]).is_err_and(would_block);
                ensure!(is_open, "{} closed idle connections", peer.name);
            }
            section.record("idle", &peer.name, &[idle])?;
            section.record("10,000 connections", &peer.name, &[connected])?;
            let each = connected[0].saturating_sub(idle[0]) as f64 / CONNECTIONS as f64;
            seen.push([idle, connected].map(|[rss, pss, anonymous, file]| {
                [rss as f64, pss as f64, anonymous as f64, file as f64, each]
            }));
        }
    }
    let table = |name: &str, title: &str, note: &str, moment: usize, columns: usize| {
        let spread = |starts: &[[[f64; 5]; 2]], column: usize| {
            Spread::of(starts.iter().map(|figures| figures[moment][column]))
        };
        let cells = |seen| (0..columns).map(move |column| spread(seen, column));
        let rows = SERVERS.iter().zip(&seen).map(|(label, seen)| Row::new(*label, cells(seen)));
        let columns = COLUMNS[..columns].iter().map(|title| (*title, Unit::Bytes));
        Table::new(name, title, note, columns, rows).plotted()
    };
    let note = "Without the memory of the kernel, which is nearly the same for all servers.";
    section.tables = vec![
        table("memory-idle", "After the start", "", 0, 4),
        table("memory-connections", "With 10,000 idle connections, after one response each", note, 1, 5),
    ];
    for (table, name, mebibytes) in [
        (0, "frontdesk idle, example site: resident memory", 20),
        (1, "frontdesk with 10,000 idle connections: resident memory", 61),
    ] {
        let resident = section.tables[table].rows[0].cells[0].median;
        section.targets.push(Target::at_most(name, f64::from(mebibytes << 20), resident, Unit::Bytes));
    }
    Ok(section)
}

/// Waits until resident memory has changed by at most 256 KiB for [`STABLE`]. Returns the memory usage. Fails
/// after a minute.
fn stable_memory(peer: &Peer) -> Result<[u64; 4]> {
    let began = Instant::now();
    let (mut memory, mut since) = (peer.memory()?, Instant::now());
    while since.elapsed() < STABLE {
        let is_late = began.elapsed() >= Duration::from_mins(1);
        ensure!(!is_late, "the memory usage of {} did not stabilise within a minute", peer.name);
        std::thread::sleep(Duration::from_millis(100));
        let now = peer.memory()?;
        if now[0].abs_diff(memory[0]) > 256 * 1024 {
            (memory, since) = (now, Instant::now());
        }
    }
    peer.memory()
}

/// Opens idle connections: each has received one response, whose body must be `body`.
fn open_connections(peer: &Peer, path: &str, body: &[u8]) -> Result<Vec<TcpStream>> {
    let request = get(BROWSER, path, IDENTITY, None);
    let mut open = Vec::with_capacity(CONNECTIONS);
    for number in 0..CONNECTIONS {
        let mut stream = connect_from(number % 64, peer.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(&request)?;
        let response = http::read_response(&mut stream)
            .with_context(|| format!("connection {number} to {}", peer.name))?;
        ensure!(response.status == 200 && response.body == body, "{} sent a wrong response", peer.name);
        open.push(stream);
    }
    Ok(open)
}
