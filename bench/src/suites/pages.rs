//! Pages over HTTP/1.1 on one core: HTML, Markdown, 304s and compressed bodies, beside other servers and the yardstick.

use std::collections::HashMap;

use anyhow::{Context as _, Result, ensure};

use super::Outcome;
use crate::Bench;
use crate::compare::{self, Rounds};
use crate::content::{Files, LARGE, Page, SMALL, check_headers, write_site};
use crate::cores::Cores;
use crate::figures::{Bar, Column, Row, Table, Unit};
use crate::http::{Asker, ask, get};
use crate::load::{self, Cycle, Expected, Load, Sample};
use crate::peer::{Peer, caddy, folder, frontdesk, nginx, static_web_server, yardstick};
use crate::rounds::{Spread, interleave};

/// All of them are busy all the time.
const CONNECTIONS: usize = 64;
/// What a browser takes.
const ENCODINGS: &str = "gzip, deflate, br, zstd";

/// The name of frontdesk's row, as it is unless somebody switches the fast lane off.
pub const FRONTDESK: &str = "frontdesk";
/// The name of the row of frontdesk without its fast lane.
pub const GENERAL: &str = "frontdesk, fast lane off";

/// What is asked for.
struct Case {
    name: &'static str,
    title: &'static str,
    page: Page,
    asker: Asker,
    /// Whether Markdown is wanted, and at its own address.
    what: What,
    encodings: &'static str,
    /// Whether the client has it already.
    is_known: bool,
    /// Times nginx, and times the yardstick.
    bars: Option<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Html,
    Twin,
    Negotiated,
}

const BASE: Case = Case {
    name: "",
    title: "",
    page: LARGE,
    asker: Asker::Browser,
    what: What::Html,
    encodings: "identity",
    is_known: false,
    bars: None,
};

const CASES: [Case; 8] = [
    Case { name: "html-1k", title: "HTML, 1 KB", page: SMALL, bars: Some((1.6, 0.9)), ..BASE },
    Case { name: "html-12k", title: "HTML, 12 KB", bars: Some((1.35, 0.9)), ..BASE },
    Case {
        name: "304-1k",
        title: "304, page of 1 KB",
        page: SMALL,
        is_known: true,
        bars: Some((1.6, 0.9)),
        ..BASE
    },
    Case { name: "304-12k", title: "304, page of 12 KB", is_known: true, bars: Some((1.35, 0.9)), ..BASE },
    Case {
        name: "compressed-12k",
        title: "HTML, 12 KB, compressed as a browser asks",
        encodings: ENCODINGS,
        ..BASE
    },
    Case {
        name: "twin-1k",
        title: "Markdown at its own address, 1 KB",
        page: SMALL,
        what: What::Twin,
        ..BASE
    },
    Case {
        name: "markdown-1k",
        title: "Markdown at the page's address, 1 KB",
        page: SMALL,
        asker: Asker::Agent,
        what: What::Negotiated,
        ..BASE
    },
    Case {
        name: "markdown-12k",
        title: "Markdown at the page's address, 12 KB",
        asker: Asker::Agent,
        what: What::Negotiated,
        ..BASE
    },
];

/// All servers, running.
pub struct Servers {
    site: tempfile::TempDir,
    files: Files,
    /// With the folder of the files last, which the others serve.
    peers: Vec<Peer>,
    _root: tempfile::TempDir,
}

impl Servers {
    /// Starts everybody on `cores`, nginx twice: with sendfile and without, since which is faster depends on the size.
    pub fn start(bench: &Bench) -> Result<Self> {
        let (site, root) = (folder()?, folder()?);
        write_site(site.path())?;
        let first = frontdesk::start(bench, &frontdesk::Options::new(FRONTDESK, site.path()))?;
        let files = Files::fetch(first.address, root.path())?;
        let mut peers = vec![first];
        if let Some(options) = general_lane(bench, site.path())? {
            peers.push(frontdesk::start(bench, &options)?);
        }
        let options = nginx::Options {
            name: "nginx",
            root: root.path(),
            cores: Cores::Servers,
            headers: &files.headers,
            sendfile: true,
            gzip_static: true,
            tls: None,
        };
        peers.push(nginx::start(bench, &options)?);
        peers.push(nginx::start(
            bench,
            &nginx::Options { name: NGINX_WITHOUT_SENDFILE, sendfile: false, ..options },
        )?);
        peers.push(caddy::start(
            bench,
            &caddy::Options {
                root: root.path(),
                cores: Cores::Servers,
                headers: &files.headers,
                precompressed: true,
                tls: None,
            },
        )?);
        peers.push(static_web_server::start(bench, root.path(), Cores::Servers, &files.headers, true)?);
        Ok(Self { site, files, peers, _root: root })
    }

    fn named(&self, name: &str) -> Result<&Peer> {
        self.peers.iter().find(|peer| peer.name == name).with_context(|| format!("{name} was not started"))
    }
}

const NGINX_WITHOUT_SENDFILE: &str = "nginx without sendfile";

/// frontdesk without its fast lane, if this build has one.
pub fn general_lane(bench: &Bench, site: &std::path::Path) -> Result<Option<frontdesk::Options>> {
    let options = frontdesk::Options::new(GENERAL, site).set("FRONTDESK_SERVER__FAST_LANE", "false");
    Ok(frontdesk::knows(bench, site, "server.fast_lane")?.then_some(options))
}

/// Measures all cases.
pub fn run(bench: &Bench) -> Result<Outcome> {
    let servers = Servers::start(bench)?;
    let mut outcome = Outcome::default();
    outcome.condition("connections", CONNECTIONS.to_string());
    for case in &CASES {
        bench.say(case.title);
        measure(bench, &servers, case, &mut outcome)?;
    }
    drop(servers.peers);
    bench.say("both cores");
    both_cores(bench, servers.site.path(), &servers.files, &mut outcome)?;
    Ok(outcome)
}

/// A server with what it is asked and must answer.
struct Entrant<'a> {
    label: &'a str,
    peer: &'a Peer,
    exchange: [(Vec<u8>, Expected); 1],
}

fn measure(bench: &Bench, servers: &Servers, case: &Case, outcome: &mut Outcome) -> Result<()> {
    let mut entrants = Vec::new();
    for peer in &servers.peers {
        let is_ours = peer.name.starts_with(FRONTDESK);
        if is_ours || case.what != What::Negotiated {
            entrants.push(Entrant { label: &peer.name, peer, exchange: [prepare(servers, peer, case)?] });
        }
    }
    let request = entrants[0].exchange[0].0.clone();
    let ours = ask(servers.named(FRONTDESK)?.address, &request)?;
    let minimal = yardstick::start(bench, &yardstick::bytes_like(&ours))?;
    let expected = Expected::like(&ask(minimal.address, &request)?);
    entrants.push(Entrant { label: "yardstick", peer: &minimal, exchange: [(request, expected)] });
    let chosen = keep_the_faster_nginx(bench, &mut entrants)?;

    let load = load(bench);
    let seen =
        interleave(bench.rounds, &entrants, |entrant| entrant.label.into(), |entrant| put(&load, entrant))?;
    let rounds: Vec<Rounds> = entrants
        .iter()
        .zip(seen)
        .map(|(entrant, samples)| {
            let label = if entrant.label.starts_with("nginx") { "nginx" } else { entrant.label };
            Rounds { label: label.into(), samples }
        })
        .collect();
    for rounds in &rounds {
        outcome.keep(case.name, &rounds.label, &rounds.samples)?;
    }
    outcome.look_for_disturbance(case.title, &rounds);
    let note = format!(
        "{} bytes of head and {} bytes of body from frontdesk.{}",
        ours.head_length,
        ours.body.len(),
        chosen.map_or(String::new(), |chosen| format!(" The faster nginx is the one {chosen}.")),
    );
    outcome.tables.push(compare::table(&format!("pages-{}", case.name), case.title, &note, &rounds, "nginx"));
    if let Some((nginx, minimal)) = case.bars {
        for (other, wanted) in [("nginx", nginx), ("yardstick", minimal)] {
            let find =
                |label: &str| rounds.iter().find(|rounds| rounds.label == label).context("it was measured");
            let (ratio, by) = compare::ratio(find(FRONTDESK)?, find(other)?);
            let what = format!("{}: answers of frontdesk beside {other}, {by}", case.title);
            outcome.bars.push(Bar::at_least(what, wanted, ratio.median, Unit::Ratio));
        }
    }
    Ok(())
}

/// The request for a server, and its right answer. Whatever it answers now is checked to the last byte.
fn prepare(servers: &Servers, peer: &Peer, case: &Case) -> Result<(Vec<u8>, Expected)> {
    let is_ours = peer.name.starts_with(FRONTDESK);
    let Page { path, twin, file, .. } = case.page;
    let (address, content) = match (case.what, is_ours) {
        (What::Html, true) => (path, file),
        (What::Html, false) => (file, file),
        (What::Twin, _) => (twin, twin),
        (What::Negotiated, _) => (path, twin),
    };
    let request = get(case.asker, address, case.encodings, None);
    let answer = ask(peer.address, &request).with_context(|| peer.name.clone())?;
    ensure!(answer.status == 200, "{} answers {address} with {}", peer.name, answer.status);
    let encoding = answer.header("content-encoding");
    ensure!(
        encoding.is_some() == (case.encodings == ENCODINGS),
        "{} answers {address} with the encoding {encoding:?}",
        peer.name
    );
    ensure!(
        answer.body == servers.files.body(content, encoding)?,
        "{} answers {address} with another body",
        peer.name
    );
    if is_ours {
        check_headers(&answer, case.what != What::Twin)?;
    }
    if !case.is_known {
        return Ok((request, Expected::like(&answer)));
    }
    let etag = answer.header("etag");
    let mut request = get(case.asker, address, case.encodings, etag);
    if etag.is_none() {
        let since =
            answer.header("last-modified").with_context(|| format!("{} sends no validator", peer.name))?;
        request.truncate(request.len() - 2);
        request.extend_from_slice(format!("If-Modified-Since: {since}\r\n\r\n").as_bytes());
    }
    let answer = ask(peer.address, &request)?;
    ensure!(answer.status == 304, "{} answers {} to a validator", peer.name, answer.status);
    if is_ours {
        check_headers(&answer, true)?;
    }
    Ok((request, Expected::like(&answer)))
}

fn load(bench: &Bench) -> Load {
    Load {
        machine: bench.machine,
        cores: Cores::Generator,
        connections: CONNECTIONS,
        warm_up: bench.warm_up,
        length: bench.length,
    }
}

fn put(load: &Load, entrant: &Entrant<'_>) -> Result<Sample> {
    load::run(load, entrant.peer.address, entrant.peer.process(), |_, count| {
        Cycle::new(&entrant.exchange, count)
    })
}

/// Tries both ways of sending files, and takes the slower one out. Returns what the faster one is.
fn keep_the_faster_nginx(bench: &Bench, entrants: &mut Vec<Entrant<'_>>) -> Result<Option<&'static str>> {
    let load = load(bench);
    let mut costs = HashMap::new();
    for entrant in entrants.iter().filter(|entrant| entrant.label.starts_with("nginx")) {
        let samples = [put(&load, entrant)?, put(&load, entrant)?];
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

/// frontdesk on one core and on both, with as many connections for each core. The load generator has a core of its own in neither case,
/// so that what is compared is answers for processor time, of the busiest thread: it would be the first at its limit.
fn both_cores(bench: &Bench, site: &std::path::Path, files: &Files, outcome: &mut Outcome) -> Result<()> {
    let request = get(Asker::Browser, SMALL.path, "identity", None);
    let start = |label: &str, cores| -> Result<(Peer, Load)> {
        let peer = frontdesk::start(bench, &frontdesk::Options::new(label, site).on(cores))?;
        let connections = CONNECTIONS * bench.machine.numbers(cores).len();
        Ok((peer, Load { cores: Cores::Both, connections, ..load(bench) }))
    };
    let peers = [start("one core", Cores::Servers)?, start("both cores", Cores::Both)?];
    let mut rounds = Vec::new();
    let seen = interleave(
        bench.rounds,
        &peers,
        |(peer, _)| peer.name.clone(),
        |(peer, load)| {
            let answer = ask(peer.address, &request)?;
            ensure!(answer.body == files.body(SMALL.file, None)?, "frontdesk answers with another body");
            let exchange = [(request.clone(), Expected::like(&answer))];
            load::run(load, peer.address, peer.process(), |_, count| Cycle::new(&exchange, count))
        },
    )?;
    for ((peer, _), samples) in peers.iter().zip(seen) {
        outcome.keep("both-cores", &peer.name, &samples)?;
        rounds.push(Rounds { label: peer.name.clone(), samples });
    }
    let limits = |rounds: &Rounds| -> Vec<f64> {
        rounds.samples.iter().map(|sample| sample.answers as f64 / sample.busiest).collect()
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
        note: "With 64 connections for each core. The load generator shares both cores with the server, so that answers a second do not say what the server could do. What its \
               busiest thread used of its core does: at that rate it would be at its limit."
            .into(),
        columns: vec![
            Column::new("answers a second, as it was", Unit::Count),
            Column::new("processor time an answer", Unit::Micros),
            Column::new("of it, the busiest thread's", Unit::Share),
            Column::new("answers a second at its limit", Unit::Count),
            Column::new("× one core", Unit::Ratio),
        ],
        rows: vec![row(&rounds[0], &one), row(&rounds[1], &both)],
        plotted: None,
    });
    let what = "HTML, 1 KB: answers of frontdesk on both cores beside one";
    outcome.bars.push(Bar::at_least(what, 1.8, ratio.median, Unit::Ratio));
    Ok(())
}
