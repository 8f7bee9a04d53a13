//! Pages over HTTP/1.1 on one core: HTML, Markdown, 304s and compressed bodies, compared with other servers
//! and the yardstick.

use anyhow::Result;

use crate::content::Representation::{self, NegotiatedMarkdown};
use crate::content::{ARTICLE, Content, LARGE, Page, PageRequest, SMALL};
use crate::figures::{Row, Section, Spread, Table, Target, Unit};
use crate::http::{Response, send};
use crate::load::{self, Load, Sample};
use crate::machine::Cores;
use crate::peer::{Peer, frontdesk, yardstick};
use crate::rounds::{Rounds, interleave};
use crate::settings::{Bench, report_progress};

const CONNECTIONS: usize = 64;

struct Case {
    name: &'static str,
    title: &'static str,
    request: PageRequest,
    /// Minimum ratios to nginx and to the yardstick.
    targets: Option<(f64, f64)>,
}

const fn case(name: &'static str, title: &'static str, request: PageRequest) -> Case {
    Case { name, title, request, targets: None }
}

const fn cached(page: Page) -> PageRequest {
    PageRequest { is_cached: true, ..PageRequest::html(page) }
}

const fn compressed(page: Page) -> PageRequest {
    // The `Accept-Encoding` of a browser.
    PageRequest { encodings: "gzip, deflate, br, zstd", ..PageRequest::html(page) }
}

const fn markdown(page: Page, representation: Representation) -> PageRequest {
    PageRequest { representation, ..PageRequest::html(page) }
}

const CASES: [Case; 9] = [
    Case { targets: Some((1.5, 0.9)), ..case("html-1k", "HTML, 1 KB", PageRequest::html(SMALL)) },
    Case { targets: Some((1.4, 0.9)), ..case("html-12k", "HTML, 12 KB", PageRequest::html(LARGE)) },
    Case { targets: Some((1.3, 0.9)), ..case("html-28k", "HTML, 28 KB", PageRequest::html(ARTICLE)) },
    Case { targets: Some((1.3, 0.9)), ..case("304-1k", "304, 1 KB page", cached(SMALL)) },
    Case { targets: Some((1.3, 0.9)), ..case("304-12k", "304, 12 KB page", cached(LARGE)) },
    case("compressed-12k", "HTML, 12 KB, compressed", compressed(LARGE)),
    case("twin-1k", "Markdown at its own address, 1 KB", markdown(SMALL, Representation::Markdown)),
    case("markdown-1k", "Markdown by content negotiation, 1 KB", markdown(SMALL, NegotiatedMarkdown)),
    case("markdown-12k", "Markdown by content negotiation, 12 KB", markdown(LARGE, NegotiatedMarkdown)),
];

const NGINX_WITHOUT_SENDFILE: &str = "nginx without sendfile";

pub fn run(bench: &Bench) -> Result<Section> {
    let (content, ours) = Content::start(bench, None)?;
    let files = content.file_server(None);
    let peers = [
        ours,
        content.start_general_path(bench)?,
        // The page size determines whether nginx is faster with sendfile or without it.
        files.start_nginx(bench, "nginx", true)?,
        files.start_nginx(bench, NGINX_WITHOUT_SENDFILE, false)?,
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

struct Entrant<'a> {
    peer: &'a Peer,
    exchange: [(Vec<u8>, Response); 1],
}

impl Entrant<'_> {
    fn is_nginx(&self) -> bool {
        self.peer.name.starts_with("nginx")
    }

    /// The label in the table: "nginx" for nginx both with and without sendfile.
    fn table_label(&self) -> &str {
        if self.is_nginx() { "nginx" } else { &self.peer.name }
    }

    fn measure(&self, load: &Load) -> Result<Sample> {
        load::run(load, self.peer, load::cycle(&self.exchange))
    }
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
    let mut entrants = Vec::new();
    for peer in peers {
        if peer.is_frontdesk() || case.request.representation != NegotiatedMarkdown {
            entrants.push(Entrant { peer, exchange: [content.exchange(peer, case.request)?] });
        }
    }
    let expected = send(minimal.address, &request)?;
    entrants.push(Entrant { peer: &minimal, exchange: [(request, expected)] });
    let load = Load::new(bench, CONNECTIONS);
    let faster = keep_the_faster_nginx(&load, &mut entrants)?;

    let servers =
        interleave(bench.rounds, &entrants, Entrant::table_label, |entrant| entrant.measure(&load))?;
    section.record_disturbance(case.title, &servers);
    let (head, body) = (ours.head_length, ours.body.len());
    let note = format!("Response of frontdesk: {head} header bytes, {body} body bytes.{faster}");
    section.add_table(&format!("pages-{}", case.name), case.title, &note, &servers, "nginx")?;
    if let Some((nginx, yardstick)) = case.targets {
        section.compare(case.title, &servers, "nginx", nginx)?;
        section.compare(case.title, &servers, yardstick::NAME, yardstick)?;
    }
    Ok(())
}

/// Compares nginx with and without sendfile, and removes the slower one from `entrants`. Returns a sentence
/// for the report.
fn keep_the_faster_nginx(load: &Load, entrants: &mut Vec<Entrant<'_>>) -> Result<&'static str> {
    let cost = |entrant: &Entrant<'_>| {
        Ok::<_, anyhow::Error>(entrant.measure(load)?.cost().min(entrant.measure(load)?.cost()))
    };
    let nginx = entrants.iter().filter(|entrant| entrant.is_nginx());
    let costs = nginx.map(cost).collect::<Result<Vec<f64>>>()?;
    let [with, without] = costs[..] else { return Ok("") };
    let (slower, faster) = if with < without {
        (NGINX_WITHOUT_SENDFILE, " nginx is faster with sendfile.")
    } else {
        ("nginx", " nginx is faster without sendfile.")
    };
    entrants.retain(|entrant| entrant.peer.name != slower);
    Ok(faster)
}

/// Measures frontdesk on one core and on both. The load generator shares the cores, so the comparison uses
/// requests per CPU time of the busiest thread, which would be the first to reach its limit.
fn compare_core_counts(bench: &Bench, content: &Content, section: &mut Section) -> Result<()> {
    let start = |name, cores| -> Result<(Peer, Load)> {
        let peer = frontdesk::start(bench, frontdesk::Options { cores, ..content.options(name) })?;
        let connections = CONNECTIONS * bench.machine.core_numbers(cores).len();
        Ok((peer, Load { cores: Cores::Both, ..Load::new(bench, connections) }))
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
