//! Pages over HTTP/1.1 on one core: HTML, Markdown, 304s and compressed bodies, compared with other servers
//! and the yardstick.

use std::collections::HashMap;

use anyhow::{Context as _, Result, ensure};

use super::Outcome;
use crate::Bench;
use crate::content::{Files, LARGE, Page, SMALL, check_headers, write_site};
use crate::figures::{Column, Row, Table, Target, Unit};
use crate::http::{ClientKind, get, send};
use crate::load::{self, Cycle, Expected, Load, Sample};
use crate::machine::Cores;
use crate::peer::{FileServer, Peer, caddy, folder, frontdesk, nginx, static_web_server, yardstick};
use crate::rounds::{self, Rounds, Spread, interleave};

/// Busy connections.
const CONNECTIONS: usize = 64;
/// The `Accept-Encoding` of a browser.
const ENCODINGS: &str = "gzip, deflate, br, zstd";

/// Row of frontdesk with default settings.
pub const FRONTDESK: &str = "frontdesk";
/// Row of frontdesk without its fast path.
const GENERAL_PATH: &str = "frontdesk, general path";

/// A measured request.
struct Case {
    name: &'static str,
    title: &'static str,
    page: Page,
    client: ClientKind,
    representation: Representation,
    encodings: &'static str,
    /// Whether the client sends the current ETag.
    is_cached: bool,
    /// Minimum ratios to nginx and to the yardstick.
    targets: Option<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Representation {
    Html,
    /// Markdown at its own address.
    Markdown,
    /// Markdown at the address of the page.
    NegotiatedMarkdown,
}

const BASE: Case = Case {
    name: "",
    title: "",
    page: LARGE,
    client: ClientKind::Browser,
    representation: Representation::Html,
    encodings: "identity",
    is_cached: false,
    targets: None,
};

const CASES: [Case; 8] = [
    Case { name: "html-1k", title: "HTML, 1 KB", page: SMALL, targets: Some((1.6, 0.9)), ..BASE },
    Case { name: "html-12k", title: "HTML, 12 KB", targets: Some((1.35, 0.9)), ..BASE },
    Case {
        name: "304-1k",
        title: "304, 1 KB page",
        page: SMALL,
        is_cached: true,
        targets: Some((1.6, 0.9)),
        ..BASE
    },
    Case { name: "304-12k", title: "304, 12 KB page", is_cached: true, targets: Some((1.35, 0.9)), ..BASE },
    Case { name: "compressed-12k", title: "HTML, 12 KB, compressed", encodings: ENCODINGS, ..BASE },
    Case {
        name: "twin-1k",
        title: "Markdown at its own address, 1 KB",
        page: SMALL,
        representation: Representation::Markdown,
        ..BASE
    },
    Case {
        name: "markdown-1k",
        title: "Markdown by content negotiation, 1 KB",
        page: SMALL,
        client: ClientKind::Agent,
        representation: Representation::NegotiatedMarkdown,
        ..BASE
    },
    Case {
        name: "markdown-12k",
        title: "Markdown by content negotiation, 12 KB",
        client: ClientKind::Agent,
        representation: Representation::NegotiatedMarkdown,
        ..BASE
    },
];

/// All running servers.
struct Servers {
    site: tempfile::TempDir,
    files: Files,
    // Dropped before the folder that they serve.
    peers: Vec<Peer>,
    _root: tempfile::TempDir,
}

impl Servers {
    /// Starts nginx with and without sendfile, because the faster one depends on the page size.
    fn start(bench: &Bench) -> Result<Self> {
        let (site, root) = (folder()?, folder()?);
        write_site(site.path())?;
        let first = frontdesk::start(bench, &frontdesk::Options::new(FRONTDESK, site.path()))?;
        let files = Files::fetch(first.address, root.path())?;
        let mut peers = vec![first];
        if let Some(options) = general_path(bench, site.path())? {
            peers.push(frontdesk::start(bench, &options)?);
        }
        let options =
            FileServer { root: root.path(), cores: Cores::Servers, headers: &files.headers, tls: None };
        peers.push(nginx::start(bench, "nginx", &options, true)?);
        peers.push(nginx::start(bench, NGINX_WITHOUT_SENDFILE, &options, false)?);
        peers.push(caddy::start(bench, &options)?);
        peers.push(static_web_server::start(bench, &options)?);
        Ok(Self { site, files, peers, _root: root })
    }

    fn named(&self, name: &str) -> Result<&Peer> {
        self.peers.iter().find(|peer| peer.name == name).with_context(|| format!("{name} was not started"))
    }
}

const NGINX_WITHOUT_SENDFILE: &str = "nginx without sendfile";

/// frontdesk without its fast path, if this build can disable it.
pub fn general_path(bench: &Bench, site: &std::path::Path) -> Result<Option<frontdesk::Options>> {
    let options = frontdesk::Options::new(GENERAL_PATH, site).set("FRONTDESK_SERVER__FAST_LANE", "false");
    Ok(frontdesk::has_key(bench, site, "server.fast_lane")?.then_some(options))
}

pub fn run(bench: &Bench) -> Result<Outcome> {
    let servers = Servers::start(bench)?;
    let mut outcome = Outcome::default();
    outcome.condition("connections", CONNECTIONS.to_string());
    for case in &CASES {
        bench.log(case.title);
        measure(bench, &servers, case, &mut outcome)?;
    }
    drop(servers.peers);
    bench.log("both cores");
    both_cores(bench, servers.site.path(), &servers.files, &mut outcome)?;
    Ok(outcome)
}

/// A server with its request and the expected response.
struct Entrant<'a> {
    label: &'a str,
    peer: &'a Peer,
    exchange: [(Vec<u8>, Expected); 1],
}

fn measure(bench: &Bench, servers: &Servers, case: &Case, outcome: &mut Outcome) -> Result<()> {
    let mut entrants = Vec::new();
    for peer in &servers.peers {
        let is_ours = peer.name.starts_with(FRONTDESK);
        if is_ours || case.representation != Representation::NegotiatedMarkdown {
            entrants.push(Entrant { label: &peer.name, peer, exchange: [prepare(servers, peer, case)?] });
        }
    }
    let request = entrants[0].exchange[0].0.clone();
    let ours = send(servers.named(FRONTDESK)?.address, &request)?;
    let minimal = yardstick::start(bench, &yardstick::bytes_like(&ours))?;
    let expected = Expected::like(&send(minimal.address, &request)?);
    entrants.push(Entrant { label: "yardstick", peer: &minimal, exchange: [(request, expected)] });
    let faster = keep_the_faster_nginx(bench, &mut entrants)?;

    let load = bench.load(CONNECTIONS);
    let seen = interleave(
        bench.rounds,
        &entrants,
        |entrant| entrant.label.into(),
        |entrant| measure_round(&load, entrant),
    )?;
    let rounds: Vec<Rounds> = entrants
        .iter()
        .zip(seen)
        .map(|(entrant, samples)| {
            let label = if entrant.label.starts_with("nginx") { "nginx" } else { entrant.label };
            Rounds { label: label.into(), samples }
        })
        .collect();
    for rounds in &rounds {
        outcome.record(case.name, &rounds.label, &rounds.samples)?;
    }
    outcome.record_disturbance(case.title, &rounds);
    let note = format!(
        "Response of frontdesk: {} header bytes, {} body bytes.{}",
        ours.head_length,
        ours.body.len(),
        faster.map_or(String::new(), |faster| format!(" nginx is faster {faster}.")),
    );
    outcome.tables.push(rounds::table(&format!("pages-{}", case.name), case.title, &note, &rounds, "nginx"));
    if let Some((nginx, yardstick)) = case.targets {
        for (other, target) in [("nginx", nginx), ("yardstick", yardstick)] {
            let find =
                |label: &str| rounds.iter().find(|rounds| rounds.label == label).context("it was measured");
            let (ratio, measure) = rounds::ratio(find(FRONTDESK)?, find(other)?);
            let name = format!("{}: frontdesk / {other}, {measure}", case.title);
            outcome.targets.push(Target::at_least(name, target, ratio.median, Unit::Ratio));
        }
    }
    Ok(())
}

/// The request for a server, and its expected response, which is compared with the files.
fn prepare(servers: &Servers, peer: &Peer, case: &Case) -> Result<(Vec<u8>, Expected)> {
    let is_ours = peer.name.starts_with(FRONTDESK);
    let Page { path, twin, file, .. } = case.page;
    let (address, content) = match (case.representation, is_ours) {
        (Representation::Html, true) => (path, file),
        (Representation::Html, false) => (file, file),
        (Representation::Markdown, _) => (twin, twin),
        (Representation::NegotiatedMarkdown, _) => (path, twin),
    };
    let request = get(case.client, address, case.encodings, None);
    let response = send(peer.address, &request).with_context(|| peer.name.clone())?;
    ensure!(response.status == 200, "{address} gets {} from {}", response.status, peer.name);
    let encoding = response.header("content-encoding");
    ensure!(
        encoding.is_some() == (case.encodings == ENCODINGS),
        "{} sends {address} with the encoding {encoding:?}",
        peer.name
    );
    ensure!(
        response.body == servers.files.body(content, encoding)?,
        "{} sends another body for {address}",
        peer.name
    );
    if is_ours {
        check_headers(&response, case.representation != Representation::Markdown)?;
    }
    if !case.is_cached {
        return Ok((request, Expected::like(&response)));
    }
    let etag = response.header("etag");
    let mut request = get(case.client, address, case.encodings, etag);
    if etag.is_none() {
        let since = response
            .header("last-modified")
            .with_context(|| format!("{} sends no ETag and no Last-Modified", peer.name))?;
        request.truncate(request.len() - 2);
        request.extend_from_slice(format!("If-Modified-Since: {since}\r\n\r\n").as_bytes());
    }
    let response = send(peer.address, &request)?;
    ensure!(response.status == 304, "{} sends {} for a cached page", peer.name, response.status);
    if is_ours {
        check_headers(&response, true)?;
    }
    Ok((request, Expected::like(&response)))
}

fn measure_round(load: &Load, entrant: &Entrant<'_>) -> Result<Sample> {
    load::run(load, entrant.peer.address, entrant.peer.process(), |_, count| {
        Cycle::new(&entrant.exchange, count)
    })
}

/// Measures nginx with and without sendfile, and removes the slower one. Returns "with sendfile" or "without
/// sendfile".
fn keep_the_faster_nginx(bench: &Bench, entrants: &mut Vec<Entrant<'_>>) -> Result<Option<&'static str>> {
    let load = bench.load(CONNECTIONS);
    let mut costs = HashMap::new();
    for entrant in entrants.iter().filter(|entrant| entrant.label.starts_with("nginx")) {
        let samples = [measure_round(&load, entrant)?, measure_round(&load, entrant)?];
        costs.insert(entrant.label.to_owned(), samples.iter().map(Sample::cost).fold(f64::MAX, f64::min));
    }
    let (Some(with), Some(without)) = (costs.get("nginx"), costs.get(NGINX_WITHOUT_SENDFILE)) else {
        return Ok(None);
    };
    let (slower, faster) = if with < without {
        (NGINX_WITHOUT_SENDFILE, "with sendfile")
    } else {
        ("nginx", "without sendfile")
    };
    entrants.retain(|entrant| entrant.label != slower);
    Ok(Some(faster))
}

/// frontdesk on one core and on both, with the same number of connections for each core. The load generator
/// shares the cores, so requests for CPU time of the busiest thread are compared: that thread would be the
/// first at its limit.
fn both_cores(bench: &Bench, site: &std::path::Path, files: &Files, outcome: &mut Outcome) -> Result<()> {
    let request = get(ClientKind::Browser, SMALL.path, "identity", None);
    let start = |label: &str, cores| -> Result<(Peer, Load)> {
        let peer = frontdesk::start(bench, &frontdesk::Options::new(label, site).on(cores))?;
        let connections = CONNECTIONS * bench.machine.numbers(cores).len();
        Ok((peer, Load { cores: Cores::Both, ..bench.load(connections) }))
    };
    let peers = [start("one core", Cores::Servers)?, start("both cores", Cores::Both)?];
    let mut rounds = Vec::new();
    let seen = interleave(
        bench.rounds,
        &peers,
        |(peer, _)| peer.name.clone(),
        |(peer, load)| {
            let response = send(peer.address, &request)?;
            ensure!(response.body == files.body(SMALL.file, None)?, "frontdesk sends another body");
            let exchange = [(request.clone(), Expected::like(&response))];
            load::run(load, peer.address, peer.process(), |_, count| Cycle::new(&exchange, count))
        },
    )?;
    for ((peer, _), samples) in peers.iter().zip(seen) {
        outcome.record("both-cores", &peer.name, &samples)?;
        rounds.push(Rounds { label: peer.name.clone(), samples });
    }
    let limits = |rounds: &Rounds| -> Vec<f64> {
        rounds.samples.iter().map(|sample| sample.responses as f64 / sample.busiest).collect()
    };
    let (one, both) = (limits(&rounds[0]), limits(&rounds[1]));
    let ratio = Spread::of_ratios(&both, &one);
    let row = |rounds: &Rounds, limits: &[f64]| {
        Row::new(
            &rounds.label,
            [
                rounds.spread(Sample::rate),
                rounds.spread(Sample::cost),
                rounds.spread(|sample| sample.busiest / sample.server),
                Spread::of(limits.iter().copied()),
                Spread::of_ratios(limits, &one),
            ],
        )
    };
    outcome.tables.push(Table {
        name: "pages-both-cores".into(),
        title: "HTML, 1 KB, one core and both".into(),
        note: "With 64 connections for each core. The load generator shares both cores, so the limit is calculated from the CPU \
               time of the busiest thread."
            .into(),
        columns: vec![
            Column::new("requests/s, measured", Unit::Count),
            Column::new("CPU time per request", Unit::Micros),
            Column::new("share of the busiest thread", Unit::Share),
            Column::new("requests/s at the limit", Unit::Count),
            Column::new("× one core", Unit::Ratio),
        ],
        rows: vec![row(&rounds[0], &one), row(&rounds[1], &both)],
        plotted: None,
    });
    let name = "HTML, 1 KB: frontdesk on both cores / one core";
    outcome.targets.push(Target::at_least(name, 1.8, ratio.median, Unit::Ratio));
    Ok(())
}
