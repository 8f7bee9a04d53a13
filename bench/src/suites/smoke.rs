//! A test of the benchmark itself: one short round each for frontdesk and the yardstick, without comparing
//! them.

use std::io;
use std::time::Duration;

use anyhow::Result;

use crate::content::{Content, LARGE, PageRequest, Representation, SMALL};
use crate::http::{Response, send};
use crate::load::{self, Load};
use crate::peer::{Peer, yardstick};
use crate::settings::{Bench, report_progress};

/// Rounds of this length or longer are not retried.
const LONGEST_ROUND: Duration = Duration::from_secs(20);

/// Checks the HTML, Markdown and 304 responses for both pages.
pub fn run(bench: &Bench) -> Result<()> {
    let (content, ours) = Content::start(bench, None)?;
    let mut exchanges = Vec::new();
    for page in [SMALL, LARGE] {
        for representation in [Representation::Html, Representation::NegotiatedMarkdown] {
            for is_cached in [false, true] {
                let request = PageRequest { representation, is_cached, ..PageRequest::html(page) };
                exchanges.push(content.exchange(&ours, request)?);
            }
        }
    }
    measure(bench, &ours, &exchanges)?;
    let (request, response) = content.exchange(&ours, PageRequest::html(SMALL))?;
    let minimal = yardstick::start(bench, &response)?;
    let response = send(minimal.address, &request)?;
    measure(bench, &minimal, &[(request, response)])
}

/// Measures one round. If the machine is too busy to answer a single request, retries with twice the length.
fn measure(bench: &Bench, peer: &Peer, exchanges: &[(Vec<u8>, Response)]) -> Result<()> {
    let is_timeout = |error: &anyhow::Error| {
        error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::TimedOut)
    };
    let mut load = Load::new(bench, 16);
    let seen = loop {
        match load::run(&load, peer, load::cycle(exchanges)) {
            Err(error) if is_timeout(&error) && load.length < LONGEST_ROUND => load.length *= 2,
            result => break result?,
        }
    };
    let (name, cost) = (&peer.name, seen.cost());
    report_progress(&format!("{name}: {} correct responses, {cost:.1} µs of CPU time each", seen.responses));
    Ok(())
}
