//! Pages over HTTP/1.1 on one core: HTML, Markdown, 304s and compressed bodies, compared with other servers
//! and the yardstick.

use std::time::Duration;

use anyhow::Result;

use crate::content::Representation::{self, NegotiatedMarkdown};
use crate::content::{ARTICLE, BOOK, CHAPTER, Content, LARGE, Page, PageRequest, SMALL};
use crate::figures::{Row, Section, Spread, Table, Target, Unit};
use crate::http::{Response, send};
use crate::load::{self, Load, Sample};
use crate::peer::file_server::{NGINX, NGINX_SETTINGS, SENDFILE, has_brotli};
use crate::peer::yardstick::{self, LONG};
use crate::peer::{Peer, frontdesk};
use crate::rounds::{Rounds, interleave};
use crate::settings::{Bench, Cores, report_progress};

const CONNECTIONS: usize = 64;

struct Case {
    name: &'static str,
    title: &'static str,
    request: PageRequest,
    /// Minimum ratio to nginx. For [`LONG`] bodies, it compares CPU time: the load generator needs more time
    /// for them than the server. For others, the ratio to the yardstick is then a target, too.
    target: Option<f64>,
    /// Whether to compare frontdesk only with nginx and the yardstick, and for half of the
    /// time.
    is_brief: bool,
}

const fn case(name: &'static str, title: &'static str, request: PageRequest, target: Option<f64>) -> Case {
    Case { name, title, request, target, is_brief: false }
}

const fn brief(name: &'static str, title: &'static str, request: PageRequest, target: Option<f64>) -> Case {
    Case { is_brief: true, ..case(name, title, request, target) }
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

const fn encoded(page: Page, encodings: &'static str) -> PageRequest {
    PageRequest { encodings, ..PageRequest::html(page) }
}

const fn picture(page: Page) -> PageRequest {
    markdown(page, Representation::Picture)
}

const CASES: [Case; 21] = [
    case("html-1k", "HTML, 1 KB", PageRequest::html(SMALL), Some(1.5)),
    case("html-12k", "HTML, 12 KB", PageRequest::html(LARGE), Some(1.4)),
    case("html-28k", "HTML, 28 KB", PageRequest::html(ARTICLE), Some(1.3)),
    brief("html-64k", "HTML, 64 KB", PageRequest::html(CHAPTER), Some(1.3)),
    brief("html-256k", "HTML, 256 KB", PageRequest::html(BOOK), Some(1.3)),
    brief("png-1k", "PNG, 1 KB", picture(SMALL), None),
    brief("png-12k", "PNG, 12 KB", picture(LARGE), None),
    brief("png-28k", "PNG, 28 KB", picture(ARTICLE), Some(1.3)),
    brief("png-64k", "PNG, 64 KB", picture(CHAPTER), Some(1.3)),
    brief("png-256k", "PNG, 256 KB", picture(BOOK), Some(1.3)),
    case("304-1k", "304, 1 KB page", cached(SMALL), Some(1.3)),
    brief("304-12k", "304, 12 KB page", cached(LARGE), Some(1.3)),
    brief("gzip-28k", "HTML, 28 KB, gzip", encoded(ARTICLE, "gzip"), None),
    brief("gzip-256k", "HTML, 256 KB, gzip", encoded(BOOK, "gzip"), None),
    brief("brotli-28k", "HTML, 28 KB, Brotli", encoded(ARTICLE, "br"), None),
    brief("brotli-256k", "HTML, 256 KB, Brotli", encoded(BOOK, "br"), None),
    brief("zstd-256k", "HTML, 256 KB, Zstandard", encoded(BOOK, "zstd"), None),
    case("compressed-12k", "HTML, 12 KB, compressed", COMPRESSED, None),
    brief("twin-1k", "Markdown at its own address, 1 KB", TWIN, None),
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
        files.start_caddy(bench)?,
        files.start_static_web_server(bench)?,
    ];
    let nginx = NGINX_SETTINGS.map(|settings| files.start_nginx(bench, settings));
    let nginx = nginx.into_iter().collect::<Result<Vec<_>>>()?;
    let mut section = Section::default();
    section.add_condition("connections", CONNECTIONS.to_string());
    for case in &CASES {
        report_progress(case.title);
        measure_case(bench, &content, &peers, &nginx, case, &mut section)?;
    }
    drop((peers, nginx));
    report_progress("both cores");
    compare_core_counts(bench, &content, &mut section)?;
    Ok(section)
}

/// A server with its name in the table, and the request to measure with its expected response.
struct Entrant<'a> {
    label: String,
    peer: &'a Peer,
    exchange: [(Vec<u8>, Response); 1],
}

fn measure(load: &Load, entrant: &Entrant<'_>) -> Result<Sample> {
    load::run(load, entrant.peer, load::cycle(&entrant.exchange))
}

/// Measures a request on frontdesk, nginx with two settings, the yardstick if there is a target, and the
/// `others` behind frontdesk unless the case is one of the additional ones, in turn. Adds a table and its
/// targets.
fn measure_case(
    bench: &Bench,
    content: &Content,
    peers: &[Peer],
    nginx: &[Peer],
    case: &Case,
    section: &mut Section,
) -> Result<()> {
    let (request, ours) = content.exchange(&peers[0], case.request)?;
    let entrant = |peer| -> Result<Entrant<'_>> {
        let exchange = [content.exchange(peer, case.request)?];
        Ok(Entrant { label: peer.name.clone(), peer, exchange })
    };
    let is_possible = |peer: &&Peer| peer.is_frontdesk() || case.request.representation != NegotiatedMarkdown;
    let peers = if case.is_brief { &peers[..1] } else { peers };
    let mut entrants = peers.iter().filter(is_possible).map(entrant).collect::<Result<Vec<_>>>()?;
    // There are many cases: the suite takes ten minutes with the default length.
    let length = if case.is_brief { bench.length / 4 } else { bench.length / 2 };
    let load = Load { length, ..Load::new(bench, CONNECTIONS) };
    let mut note = String::new();
    if !nginx_supports(case.request.encodings) {
        note = format!(" nginx has no module for {} here.", case.request.encodings);
    } else if case.request.representation != NegotiatedMarkdown {
        let settings = nginx.iter().map(entrant).collect::<Result<Vec<_>>>()?;
        let kept = keep_the_fastest_settings(&load, settings)?;
        note = format!(" *nginx* is the fastest of its settings: {}.", kept[0].peer.name);
        entrants.extend(kept);
    }
    let minimal = yardstick::start(bench, &ours)?;
    let expected = send(minimal.address, &request)?;
    if case.target.is_some() || !case.is_brief {
        let label = minimal.name.clone();
        entrants.push(Entrant { label, peer: &minimal, exchange: [(request, expected)] });
    }
    let servers =
        interleave(bench.rounds, &entrants, |entrant| &entrant.label, |entrant| measure(&load, entrant))?;
    section.record_disturbance(case.title, &servers);
    let (head, body) = (ours.head_length, ours.body.len());
    let note = format!("Response of frontdesk: {head} header bytes, {body} body bytes.{note}");
    section.add_table(&format!("pages-{}", case.name), case.title, &note, &servers, NGINX)?;
    match case.target {
        Some(target) if body >= LONG => section.compare_cost(case.title, &servers, NGINX, target)?,
        Some(target) => {
            section.compare(case.title, &servers, NGINX, target)?;
            section.compare(case.title, &servers, yardstick::NAME, 0.9)?;
        }
        None => {}
    }
    Ok(())
}

/// Whether nginx can send files in this encoding. There is no Debian package for Zstandard.
fn nginx_supports(encodings: &str) -> bool {
    match encodings {
        "zstd" => false,
        "br" => has_brotli(),
        _ => true,
    }
}

/// The length of a trial of nginx's settings.
const MAX_TRIAL: Duration = Duration::from_millis(300);

/// Measures nginx briefly with each of its settings. Keeps the faster ones of those with sendfile
/// and of those without it. The fastest is the first, and is called just nginx.
fn keep_the_fastest_settings<'a>(load: &Load, settings: Vec<Entrant<'a>>) -> Result<Vec<Entrant<'a>>> {
    let brief = Load { length: load.length.min(MAX_TRIAL), ..load.clone() };
    let mut costs = Vec::new();
    for entrant in settings {
        costs.push((measure(&brief, &entrant)?.cost(), entrant));
    }
    costs.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let mut kept: Vec<Entrant<'a>> = Vec::new();
    for (_, entrant) in costs {
        let has_sendfile = |entrant: &Entrant<'_>| entrant.peer.name.starts_with(SENDFILE);
        if kept.iter().all(|other| has_sendfile(other) != has_sendfile(&entrant)) {
            kept.push(entrant);
        }
    }
    NGINX.clone_into(&mut kept[0].label);
    Ok(kept)
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
