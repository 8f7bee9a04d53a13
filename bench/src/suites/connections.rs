//! The 1 KB page on 1 to 10,000 busy connections: requests a second and p99.

use anyhow::{Context as _, Result, ensure};

use super::Outcome;
use super::pages::{FRONTDESK, general_path};
use crate::Bench;
use crate::content::{Files, SMALL, check_headers, write_site};
use crate::figures::{Column, Curve, Line, Target, Unit};
use crate::http::{ClientKind, get, send};
use crate::load::{self, Cycle, Expected, Sample};
use crate::machine::Cores;
use crate::peer::{FileServer, Peer, folder, frontdesk, nginx, yardstick};
use crate::rounds::{self, Rounds, interleave};

const COUNTS: [usize; 6] = [1, 8, 64, 256, 1_000, 10_000];
/// From this number on a server is busy, and p99 is compared.
const BUSY: usize = 64;

/// Measures all counts.
pub fn run(bench: &Bench) -> Result<Outcome> {
    let (site, root) = (folder()?, folder()?);
    write_site(site.path())?;
    let ours = frontdesk::start(bench, &frontdesk::Options::new(FRONTDESK, site.path()))?;
    let files = Files::fetch(ours.address, root.path())?;
    let mut peers = vec![ours];
    if let Some(options) = general_path(bench, site.path())? {
        peers.push(frontdesk::start(bench, &options)?);
    }
    let options = FileServer { root: root.path(), cores: Cores::Servers, headers: &files.headers, tls: None };
    // nginx is faster without sendfile for this page size.
    peers.push(nginx::start(bench, "nginx", &options, false)?);
    let ours = send(peers[0].address, &get(ClientKind::Browser, SMALL.path, "identity", None))?;
    peers.push(yardstick::start(bench, &yardstick::bytes_like(&ours))?);

    let mut outcome = Outcome::default();
    let mut lines: Vec<(Line, Line)> =
        peers.iter().map(|peer| (line(&peer.name), line(&peer.name))).collect();
    for connections in COUNTS {
        bench.log(&format!("{connections} connections"));
        let seen = interleave(
            bench.rounds,
            &peers,
            |peer| peer.name.clone(),
            |peer| measure(bench, &files, peer, connections),
        )?;
        let mut rounds = Vec::new();
        for ((peer, samples), (rates, latencies)) in peers.iter().zip(seen).zip(&mut lines) {
            outcome.record(&format!("{connections} connections"), &peer.name, &samples)?;
            let of = Rounds { label: peer.name.clone(), samples };
            rates.points.push((connections as f64, of.spread(Sample::rate)));
            latencies.points.push((connections as f64, of.spread(|sample| sample.p99 / 1e3)));
            rounds.push(of);
        }
        if connections >= BUSY {
            outcome.record_disturbance(&format!("{connections} connections"), &rounds);
            let p99 = |name: &str| -> Result<f64> {
                let of = rounds.iter().find(|rounds| rounds.label == name).context("it was measured")?;
                Ok(of.spread(|sample| sample.p99).median)
            };
            let what = format!("{connections} busy connections: p99, frontdesk / nginx");
            outcome.targets.push(Target::at_most(what, 1.0, p99(FRONTDESK)? / p99("nginx")?, Unit::Ratio));
        }
        let title = format!("{connections} connections");
        let mut table = rounds::table(&format!("connections-{connections}"), &title, "", &rounds, "nginx");
        table.plotted = None;
        outcome.tables.push(table);
    }
    let (rates, latencies) = lines.into_iter().unzip();
    outcome.curves = vec![
        Curve {
            name: "connections-rate".into(),
            title: "Requests a second, by number of busy connections".into(),
            x: "connections".into(),
            y: Column::new("requests/s", Unit::Count),
            log_y: false,
            lines: rates,
        },
        Curve {
            name: "connections-p99".into(),
            title: "p99, by number of busy connections".into(),
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
    let request = get(ClientKind::Browser, path, "identity", None);
    let response = send(peer.address, &request)?;
    ensure!(
        response.status == 200 && response.body == files.body(SMALL.file, None)?,
        "{} sends a wrong response",
        peer.name
    );
    if is_ours {
        check_headers(&response, true)?;
    }
    let exchange = [(request, Expected::like(&response))];
    let mut load = bench.load(connections);
    // Each connection needs a first response before the measurement begins.
    load.warm_up += std::time::Duration::from_micros(60 * connections as u64);
    load::run(&load, peer.address, peer.process(), |_, count| Cycle::new(&exchange, count))
}
