//! A test of the benchmark: one short round of frontdesk and the yardstick, without a comparison.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::Bench;
use crate::content::{Files, LARGE, SMALL, check_headers, write_site};
use crate::http::{ClientKind, get, send};
use crate::load::{self, Cycle, Expected, Load, NoResponses, Sample};
use crate::peer::{Peer, folder, frontdesk, yardstick};

/// A round is not repeated beyond this length.
const LONGEST_ROUND: Duration = Duration::from_secs(20);

/// Checks HTML, Markdown and 304 responses of both sizes.
pub fn run(bench: &Bench) -> Result<()> {
    let (site, root) = (folder()?, folder()?);
    write_site(site.path())?;
    let ours = frontdesk::start(bench, &frontdesk::Options::new("frontdesk", site.path()))?;
    let files = Files::fetch(ours.address, root.path())?;
    let mut exchanges = Vec::new();
    for page in [SMALL, LARGE] {
        for (client, file) in [(ClientKind::Browser, page.file), (ClientKind::Agent, page.twin)] {
            let request = get(client, page.path, "identity", None);
            let response = send(ours.address, &request)?;
            check_headers(&response, true)?;
            ensure!(response.body == files.body(file, None)?, "{} differs from {file}", page.path);
            let etag = response.header("etag").context("no ETag")?;
            let again = get(client, page.path, "identity", Some(etag));
            let known = send(ours.address, &again)?;
            ensure!(known.status == 304 && known.body.is_empty(), "a known ETag gets {}", known.status);
            exchanges.push((request, Expected::like(&response)));
            exchanges.push((again, Expected::like(&known)));
        }
    }
    let load = bench.load(16);
    let seen = measure(&load, &ours, &exchanges)?;
    bench.log(&format!(
        "frontdesk: {} correct responses, {:.1} µs of CPU time each",
        seen.responses,
        seen.cost()
    ));
    let request = get(ClientKind::Browser, SMALL.path, "identity", None);
    let minimal = yardstick::start(bench, &yardstick::bytes_like(&send(ours.address, &request)?))?;
    let exchange = [(request.clone(), Expected::like(&send(minimal.address, &request)?))];
    let seen = measure(&load, &minimal, &exchange)?;
    bench.log(&format!(
        "yardstick: {} correct responses, {:.1} µs of CPU time each",
        seen.responses,
        seen.cost()
    ));
    Ok(())
}

/// Measures one round. On a machine too busy to answer a single request, repeats it with twice the length.
fn measure(load: &Load, peer: &Peer, exchanges: &[(Vec<u8>, Expected)]) -> Result<Sample> {
    let mut load = *load;
    loop {
        match load::run(&load, peer.address, peer.process(), |_, count| Cycle::new(exchanges, count)) {
            Err(error) if error.is::<NoResponses>() && load.length < LONGEST_ROUND => load.length *= 2,
            result => return result,
        }
    }
}
