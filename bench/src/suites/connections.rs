//! Pages of 1 KB on 1 to 10,000 connections, all of them busy: answers a second and the slowest hundredth of them.

use anyhow::{Context as _, Result, ensure};

use super::Outcome;
use super::pages::{FRONTDESK, general_lane};
use crate::Bench;
use crate::compare::{self, Rounds};
use crate::content::{Files, SMALL, check_headers, write_site};
use crate::cores::Cores;
use crate::figures::{Bar, Column, Curve, Line, Unit};
use crate::http::{Asker, ask, get};
use crate::load::{self, Cycle, Expected, Load, Sample};
use crate::peer::{Peer, folder, frontdesk, nginx, yardstick};
use crate::rounds::interleave;

const COUNTS: [usize; 6] = [1, 8, 64, 256, 1_000, 10_000];
/// From this number on a server is busy, and the slowest hundredth is compared.
const BUSY: usize = 64;

/// Measures all counts.
pub fn run(bench: &Bench) -> Result<Outcome> {
    let (site, root) = (folder()?, folder()?);
    write_site(site.path())?;
    let ours = frontdesk::start(bench, &frontdesk::Options::new(FRONTDESK, site.path()))?;
    let files = Files::fetch(ours.address, root.path())?;
    let mut peers = vec![ours];
    if let Some(options) = general_lane(bench, site.path())? {
        peers.push(frontdesk::start(bench, &options)?);
    }
    let options = nginx::Options {
        name: "nginx",
        root: root.path(),
        cores: Cores::Servers,
        headers: &files.headers,
        // Faster for a page of 1 KB.
        sendfile: false,
        gzip_static: true,
        tls: None,
    };
    peers.push(nginx::start(bench, &options)?);
    let ours = ask(peers[0].address, &get(Asker::Browser, SMALL.path, "identity", None))?;
    peers.push(yardstick::start(bench, &yardstick::bytes_like(&ours))?);

    let mut outcome = Outcome::default();
    let mut lines: Vec<(Line, Line)> =
        peers.iter().map(|peer| (line(&peer.name), line(&peer.name))).collect();
    for connections in COUNTS {
        bench.say(&format!("{connections} connections"));
        let seen = interleave(
            bench.rounds,
            &peers,
            |peer| peer.name.clone(),
            |peer| measure(bench, &files, peer, connections),
        )?;
        let mut rounds = Vec::new();
        for ((peer, samples), (rates, latencies)) in peers.iter().zip(seen).zip(&mut lines) {
            outcome.keep(&format!("{connections} connections"), &peer.name, &samples)?;
            let of = Rounds { label: peer.name.clone(), samples };
            rates.points.push((connections as f64, of.spread(Sample::rate)));
            latencies.points.push((connections as f64, of.spread(|sample| sample.p99 / 1e3)));
            rounds.push(of);
        }
        if connections >= BUSY {
            outcome.look_for_disturbance(&format!("{connections} connections"), &rounds);
            let p99 = |name: &str| -> Result<f64> {
                let of = rounds.iter().find(|rounds| rounds.label == name).context("it was measured")?;
                Ok(of.spread(|sample| sample.p99).median)
            };
            let what = format!(
                "{connections} busy connections: the slowest hundredth of frontdesk's answers beside nginx's"
            );
            outcome.bars.push(Bar::at_most(what, 1.0, p99(FRONTDESK)? / p99("nginx")?, Unit::Ratio));
        }
        let title = format!("{connections} connections");
        let mut table = compare::table(&format!("connections-{connections}"), &title, "", &rounds, "nginx");
        table.plotted = None;
        outcome.tables.push(table);
    }
    let (rates, latencies) = lines.into_iter().unzip();
    outcome.curves = vec![
        Curve {
            name: "connections-rate".into(),
            title: "Answers a second, by the number of busy connections".into(),
            x: "connections".into(),
            y: Column::new("answers a second", Unit::Count),
            log_y: false,
            lines: rates,
        },
        Curve {
            name: "connections-p99".into(),
            title: "The slowest hundredth of answers, by the number of busy connections".into(),
            x: "connections".into(),
            y: Column::new("p99", Unit::Millis),
            log_y: true,
            lines: latencies,
        },
    ];
    Ok(outcome)
}

fn line(label: &str) -> Line {
    Line { label: label.into(), points: Vec::new() }
}

fn measure(bench: &Bench, files: &Files, peer: &Peer, connections: usize) -> Result<Sample> {
    let is_ours = peer.name.starts_with(FRONTDESK);
    let path = if is_ours { SMALL.path } else { SMALL.file };
    let request = get(Asker::Browser, path, "identity", None);
    let answer = ask(peer.address, &request)?;
    ensure!(
        answer.status == 200 && answer.body == files.body(SMALL.file, None)?,
        "{} answers wrongly",
        peer.name
    );
    if is_ours {
        check_headers(&answer, true)?;
    }
    let exchange = [(request, Expected::like(&answer))];
    let load = Load {
        machine: bench.machine,
        cores: Cores::Generator,
        connections,
        // Each connection is to have had an answer before anything is counted.
        warm_up: bench.warm_up + std::time::Duration::from_micros(60 * connections as u64),
        length: bench.length,
    };
    load::run(&load, peer.address, peer.process(), |_, count| Cycle::new(&exchange, count))
}
