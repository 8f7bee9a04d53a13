//! Pages over HTTP/1.1 on one core: HTML, Markdown, 304s and compressed bodies, compared with other servers
//! and the yardstick.

use anyhow::Result;

use crate::content::Representation::{self, NegotiatedMarkdown};
use crate::content::{ARTICLE, Content, LARGE, Page, PageRequest, SMALL};
use crate::figures::{Row, Section, Spread, Table, Target, Unit};
use crate::http::{Response, send};
use crate::load::{self, Load, Sample};
use crate::peer::{Peer, frontdesk, yardstick};
use crate::rounds::{Rounds, interleave};
use crate::settings::{Bench, Cores, report_progress};

const CONNECTIONS: usize = 64;

struct Case {
    name: &'static str,
    title: &'static str,
    request: PageRequest,
    /// Minimum ratio to nginx. The ratio to the yardstick is then a target, too.
    target: Option<f64>,
}

const fn case(name: &'static str, title: &'static str, request: PageRequest, target: Option<f64>) -> Case {
    Case { name, title, request, target }
}

const fn cached(page: Page) -> PageRequest {
    PageRequest { is_cached: true, ..PageRequest::html(page) }
}

const fn markdown(page: Page, representation: Representation) -> PageRequest {
    PageRequest { representation, ..PageRequest::html(page) }
}

const TWIN: PageRequest = markdown(SMALL, Representation::Markdown);
/// With the `Accept-Encoding` of a browser.
const COMPRESSED: PageRequest =
    PageRequest { encodings: "gzip, deflate, br, zstd", ..PageRequest::html(LARGE) };

const CASES: [Case; 9] = [
    case("html-1k", "HTML, 1 KB", PageRequest::html(SMALL), Some(1.5)),
    case("html-12k", "HTML, 12 KB", PageRequest::html(LARGE), Some(1.4)),
    case("html-28k", "HTML, 28 KB", PageRequest::html(ARTICLE), Some(1.3)),
    case("304-1k", "304, 1 KB page", cached(SMALL), Some(1.3)),
    case("304-12k", "304, 12 KB page", cached(LARGE), Some(1.3)),
    case("compressed-12k", "HTML, 12 KB, compressed", COMPRESSED, None),
    case("twin-1k", "Markdown at its own address, 1 KB", TWIN, None),
    case("markdown-1k", "Markdown by content negotiation, 1 KB", markdown(SMALL, NegotiatedMarkdown), None),
    case("markdown-12k", "Markdown by content negotiation, 12 KB", markdown(LARGE, NegotiatedMarkdown), None),
];

/// Measures all cases on one core, and then the small page on one core and on both.
pub fn run(bench: &Bench) -> Result<Section> {
    let (content, ours) = Content::start(bench, None)?;
    let files = content.file_server(None);
    let peers = [
        ours,
        content.start_general_path(bench)?,
        // The page size determines whether nginx is faster with sendfile or without it.
        files.start_nginx(bench, true)?,
        files.start_nginx(bench, false)?,
        files.start_caddy(bench)?,
        files.start_static_web_server(bench)?,
    ];
    let mut section = Section::default();
    section.add_condition("connections", CONNECTIONS.to_string());
    for case in &CASES {
        report_progress(case.title);
        measure_case(bench, &content, &peers, case, &mut section)?;
    }
    drop(peers);
    report_progress("both cores");
    compare_core_counts(bench, &content, &mut section)?;
    Ok(section)
}

/// A server, and the request to measure with its expected response.
type Entrant<'a> = (&'a Peer, [(Vec<u8>, Response); 1]);

fn measure(load: &Load, (peer, exchange): &Entrant<'_>) -> Result<Sample> {
    load::run(load, peer, load::cycle(exchange))
}

/// Measures a request on `peers` and the yardstick in turn, and adds a table and its targets.
fn measure_case(
    bench: &Bench,
    content: &Content,
    peers: &[Peer],
    case: &Case,
    section: &mut Section,
) -> Result<()> {
    let (request, ours) = content.exchange(&peers[0], case.request)?;
    let minimal = yardstick::start(bench, &ours)?;
    let mut entrants: Vec<Entrant<'_>> = Vec::new();
    for peer in peers {
        if peer.is_frontdesk() || case.request.representation != NegotiatedMarkdown {
            entrants.push((peer, [content.exchange(peer, case.request)?]));
        }
    }
    let expected = send(minimal.address, &request)?;
    entrants.push((&minimal, [(request, expected)]));
    let load = Load::new(bench, CONNECTIONS);
    let faster = keep_the_faster_nginx(&load, &mut entrants)?;

    let servers =
        interleave(bench.rounds, &entrants, |(peer, _)| &peer.name, |entrant| measure(&load, entrant))?;
    section.record_disturbance(case.title, &servers);
    let (head, body) = (ours.head_length, ours.body.len());
    let note = format!("Response of frontdesk: {head} header bytes, {body} body bytes.{faster}");
    section.add_table(&format!("pages-{}", case.name), case.title, &note, &servers, "nginx")?;
    if let Some(target) = case.target {
        section.compare(case.title, &servers, "nginx", target)?;
        section.compare(case.title, &servers, yardstick::NAME, 0.9)?;
    }
    Ok(())
}

/// Compares nginx with and without sendfile, and removes the slower one from `entrants`. Returns a sentence
/// for the report.
fn keep_the_faster_nginx(load: &Load, entrants: &mut Vec<Entrant<'_>>) -> Result<&'static str> {
    let Some(with) = entrants.iter().position(|(peer, _)| peer.name == "nginx") else { return Ok("") };
    let without = with + 1;
    let cost = |place: usize| -> Result<f64> {
        let entrant = &entrants[place];
        Ok(measure(load, entrant)?.cost().min(measure(load, entrant)?.cost()))
    };
    let (slower, sentence) = if cost(with)? < cost(without)? {
        (without, " nginx is faster with sendfile.")
    } else {
        (with, " nginx is faster without sendfile.")
    };
    entrants.remove(slower);
    Ok(sentence)
}

/// Measures frontdesk on one core and on both. The load generator shares the cores, so the comparison uses
/// requests per CPU time of the busiest thread, which would be the first to reach its limit.
fn compare_core_counts(bench: &Bench, content: &Content, section: &mut Section) -> Result<()> {
    let start = |name, cores| -> Result<(Peer, Load)> {
        let peer = frontdesk::start(bench, frontdesk::Options { cores, ..content.options(name) })?;
        let connections = CONNECTIONS * bench.core_numbers(cores).len();
        Ok((peer, Load { cores: bench.core_numbers(Cores::Both), ..Load::new(bench, connections) }))
    };
    let peers = [start("frontdesk, one core", Cores::Servers)?, start("frontdesk, both cores", Cores::Both)?];
    let servers = interleave(
        bench.rounds,
        &peers,
        |(peer, _)| peer.name.trim_start_matches("frontdesk, "),
        |(peer, load)| {
            load::run(load, peer, load::cycle(&[content.exchange(peer, PageRequest::html(SMALL))?]))
        },
    )?;
    let limits = |rounds: &Rounds| -> Vec<f64> {
        rounds.samples.iter().map(|sample| sample.responses as f64 / sample.busiest).collect()
    };
    let one_core = limits(&servers[0]);
    let rows = servers.iter().map(|rounds| {
        let figures = [
            rounds.spread(Sample::rate),
            rounds.spread(Sample::cost),
            rounds.spread(|sample| sample.busiest / sample.server),
            Spread::of(limits(rounds)),
            Spread::of_ratios(&limits(rounds), &one_core),
        ];
        Row::new(&rounds.label, figures)
    });
    let columns = [
        ("requests/s, measured", Unit::Count),
        ("CPU time per request", Unit::Micros),
        ("share of the busiest thread", Unit::Share),
        ("requests/s at the limit", Unit::Count),
        ("× one core", Unit::Ratio),
    ];
    let note = "With 64 connections for each core. The load generator shares both cores, so the limit is calculated from the CPU \
                time of the busiest thread.";
    let title = "HTML, 1 KB, one core and both";
    section.tables.push(Table::new("pages-both-cores", title, note, columns, rows));
    section.record_all("pages-both-cores", &servers)?;
    let ratio = Spread::of_ratios(&limits(&servers[1]), &one_core).median;
    section.targets.push(Target::at_least("HTML, 1 KB: frontdesk on both cores / one core", 1.8, ratio));
    Ok(())
}
