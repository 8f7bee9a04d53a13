//! A test of the benchmark itself: one short round each for frontdesk and the yardstick, without comparing
//! them.

use anyhow::Result;

use crate::content::{Content, LARGE, PageRequest, Representation, SMALL};
use crate::http::{Response, send};
use crate::load::{self, Load};
use crate::peer::{Peer, yardstick};
use crate::settings::{Bench, report_progress};

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

fn measure(bench: &Bench, peer: &Peer, exchanges: &[(Vec<u8>, Response)]) -> Result<()> {
    let seen = load::run(&Load::new(bench, 16), peer, load::cycle(exchanges))?;
    let (name, cost) = (&peer.name, seen.cost());
    report_progress(&format!("{name}: {} correct responses, {cost:.1} µs of CPU time each", seen.responses));
    Ok(())
}
