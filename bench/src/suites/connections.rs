//! The 1 KB page on 1 to 10,000 busy connections: requests per second and p99.

use std::time::Duration;

use anyhow::Result;

use crate::content::{Content, PageRequest, SMALL};
use crate::figures::{Curve, Line, Section, Target, Unit};
use crate::load::{self, Load, Sample};
use crate::peer::file_server::NGINX_WITHOUT_SENDFILE;
use crate::peer::{FRONTDESK, Peer, yardstick};
use crate::rounds::{find, interleave};
use crate::settings::{Bench, report_progress};

const COUNTS: [usize; 6] = [1, 8, 64, 256, 1_000, 10_000];
/// Smallest number of connections that keeps the servers fully busy, so that their p99 can be compared.
const BUSY: usize = 64;
const REQUEST: PageRequest = PageRequest::html(SMALL);

/// Measures frontdesk, nginx and the yardstick with each number of connections. From [`BUSY`] connections on,
/// the p99 has a target.
pub fn run(bench: &Bench) -> Result<Section> {
    let (content, ours) = Content::start(bench, None)?;
    let (_, response) = content.exchange(&ours, REQUEST)?;
    let peers = [
        ours,
        content.start_general_path(bench)?,
        // nginx is faster without sendfile for this page size.
        content.file_server(None).start_nginx(bench, NGINX_WITHOUT_SENDFILE)?,
        yardstick::start(bench, &response)?,
    ];
    let mut section = Section::default();
    let mut measured = Vec::new();
    for connections in COUNTS {
        let title = format!("{connections} connections");
        report_progress(&title);
        let mut load = Load::new(bench, connections);
        // Extend the warm-up, so that each connection receives its first response before the measurement.
        load.warm_up += Duration::from_micros(60 * connections as u64);
        let servers = interleave(
            bench.rounds,
            &peers,
            |peer| &peer.name,
            |peer| load::run(&load, peer, load::cycle(&[content.exchange(peer, REQUEST)?])),
        )?;
        if connections >= BUSY {
            section.record_disturbance(&title, &servers);
            let p99 = |name| Ok::<_, anyhow::Error>(find(&servers, name)?.spread(|sample| sample.p99).median);
            let ratio = p99(FRONTDESK)? / p99("nginx")?;
            let what = format!("{connections} busy connections: p99, frontdesk / nginx");
            section.targets.push(Target::at_most(what, 1.0, ratio, Unit::Ratio));
        }
        section.add_table(&format!("connections-{connections}"), &title, "", &servers, "nginx")?;
        measured.push(servers);
    }
    section.tables.iter_mut().for_each(|table| table.is_plotted = false);
    let lines = |figure: fn(&Sample) -> f64| -> Vec<Line> {
        let counts = COUNTS.map(|count| count as f64).into_iter();
        let line = |(number, peer): (usize, &Peer)| {
            Line::new(
                &peer.name,
                counts.clone(),
                measured.iter().map(|servers| servers[number].spread(figure)),
            )
        };
        peers.iter().enumerate().map(line).collect()
    };
    let (rates, latencies) = (lines(Sample::rate), lines(|sample| sample.p99 / 1e3));
    let [name, by] = ["connections", "by number of busy connections"];
    let (rate, p99) = (("requests/s", Unit::Count), ("p99", Unit::Millis));
    section.curves = vec![
        Curve::new("connections-rate", &format!("Requests a second, {by}"), name, rate, false, rates),
        Curve::new("connections-p99", &format!("p99, {by}"), name, p99, true, latencies),
    ];
    Ok(section)
}
