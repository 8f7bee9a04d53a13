//! The steps of a request as benchmark cases: `micro.rs` measures their time, `instructions.rs` counts their
//! CPU instructions.

use std::fmt::Write as _;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use frontdesk_app::{AppState, PublicSite, WebOptions};
use frontdesk_forms::{CONTACT, Form, ParsedForm, WAITLIST, parse_with_extras};
use frontdesk_http::{Options, ShutdownPhase, Worker};
use frontdesk_inbox::intake::{Intake, IntakeOptions};
use frontdesk_inbox::store::{Store, StoreOptions};
use frontdesk_limits::{self as limits, LocalLimiter, MAX_QUOTA, Quota, Source};
use frontdesk_negotiate::{Codings, Encoding, choose};
use frontdesk_screening::{self, RequestSignals, TokenizedText, screen};
use frontdesk_site::{self as pages, Site, path};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::runtime::Runtime;
use tokio::sync::watch::Sender;
use tokio::task::LocalSet;

/// A function that runs a case once.
pub type Run = Box<dyn FnMut()>;

/// A step of a request. Do not rename a case: `instructions.toml` stores its count under this name.
#[derive(Debug)]
pub struct Case {
    pub name: &'static str,
    /// Prepares the case; not measured.
    pub prepare: fn() -> Run,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The cases that are quick to prepare, even under valgrind.
pub const CASES: [Case; 15] = [
    Case { name: "negotiation_browser", prepare: || negotiation(BROWSER.to_owned()) },
    Case { name: "negotiation_agent", prepare: || negotiation(AGENT.to_owned()) },
    Case { name: "negotiation_450_ranges", prepare: || negotiation(many_ranges()) },
    Case { name: "encoding_browser", prepare: encoding },
    Case { name: "path_lookup", prepare: || lookup(generated_site(10)) },
    Case { name: "validation_waitlist", prepare: || validation(&WAITLIST, WAITLIST_BODY) },
    Case { name: "validation_contact", prepare: || validation(&CONTACT, CONTACT_BODY) },
    Case { name: "screening_waitlist", prepare: || screening(&WAITLIST, WAITLIST_BODY) },
    Case { name: "screening_contact", prepare: || screening(&CONTACT, CONTACT_BODY) },
    Case { name: "limiter_allows", prepare: || limiter(MAX_QUOTA, 1_000) },
    Case { name: "limiter_refuses", prepare: || limiter(1, 1) },
    Case { name: "answer_by_fast_path", prepare: || answer(true, "") },
    Case { name: "answer_304_by_fast_path", prepare: || answer(true, "if-none-match: *\r\n") },
    Case { name: "answer_by_hyper", prepare: || answer(false, "") },
    Case { name: "answer_over_http2", prepare: answer_over_http2 },
];

/// The `Accept` header of Chrome.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,\
                       application/signed-exchange;v=b3;q=0.7";

/// The `User-Agent` of Chrome.
const USER_AGENT: &str =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";

/// The longest known `Accept` header of a coding agent.
const AGENT: &str = "text/markdown, text/plain;q=0.9, application/json;q=0.9, text/html;q=0.8, application/pdf;q=0.7, video/*;q=0.7, */*;q=0.5";

const WAITLIST_BODY: &str = r#"{"email": "ada.lovelace@analytical.example.com", "desk_ms": 8300}"#;

const CONTACT_BODY: &str = r#"{"name": "Ada Lovelace", "email": "ada.lovelace@analytical.example.com", "desk_ms": 48300, "message": "Good morning,\n\nwe run about forty coding agents for our engineers, and would like to know what they do on our hosts before we let them write to production. Two questions. Does the gateway work where outgoing traffic passes a proxy with its own certificate authority? And can decisions be exported to the log store that we have, or only be looked at in the console?\n\nA short call next week would be fine as well: Tuesday or Thursday, after ten. What we have written about our own rules so far is at https://engineering.example.com/agents.\n\nKind regards\nAda Lovelace"}"#;

/// An `Accept` header of about 13 KB. Only its last media range matches HTML or Markdown.
fn many_ranges() -> String {
    let mut header = String::new();
    for n in 0..450 {
        write!(header, "application/x-{n:03};q=0.{n:03}, ").expect("a string");
    }
    header + "text/html"
}

fn negotiation(header: String) -> Run {
    assert!(choose([header.as_bytes()]).is_some());
    Box::new(move || {
        black_box(choose([black_box(header.as_bytes())]));
    })
}

fn encoding() -> Run {
    Box::new(|| {
        let all_but_brotli = |encoding| encoding != Encoding::Brotli;
        black_box(Codings::parse([black_box(&b"gzip, deflate, br, zstd"[..])]).choose(all_but_brotli));
    })
}

/// Looks up a page, its Markdown, and a missing page in a [`generated_site`].
pub fn lookup(site: Site) -> Run {
    let paths = ["/p5/", "/p5.md", "/p5-which-is-not-there/"];
    assert_eq!(paths.map(|path| site.get(path).is_some()), [true, true, false]);
    Box::new(move || {
        for path in paths {
            let path = path::decode(black_box(path)).expect("a valid path");
            black_box(site.get(&path));
        }
    })
}

fn validation(form: &'static Form, body: &'static str) -> Run {
    Box::new(move || {
        black_box(parse_with_extras(form, black_box(body.as_bytes())).expect("a valid body"));
    })
}

/// Screens an entry that is not held.
fn screening(form: &'static Form, body: &'static str) -> Run {
    let ParsedForm { entry, extras, .. } = parse_with_extras(form, body.as_bytes()).expect("a valid body");
    let (signals, options) = (RequestSignals::default(), frontdesk_screening::ScreeningOptions::default());
    assert!(!screen(&TokenizedText::new(&entry), &extras, &signals, &options).hold);
    Box::new(move || {
        black_box(screen(&TokenizedText::new(black_box(&entry)), &extras, &signals, &options));
    })
}

/// Checks requests from the sources in turn, one per simulated millisecond. Every source already has an
/// entry.
pub fn limiter(quota: u32, sources: u32) -> Run {
    let all = Quota { per_minute: MAX_QUOTA, per_hour: MAX_QUOTA };
    let source = Quota { per_minute: quota, per_hour: quota };
    let limiter = LocalLimiter::new(&limits::LimitOptions { enabled: true, source, network: all, form: all });
    let mut now = Instant::now();
    let mut turn = 0_u32;
    let mut check = move || {
        turn = (turn + 1) % sources;
        now += Duration::from_millis(1);
        // Scatter the addresses, so that few sources share a network.
        let source = Source::V4(turn.wrapping_mul(0x9e37_79b1).to_be_bytes());
        black_box(limiter.check(source, now));
    };
    (0..sources).for_each(|_| check());
    Box::new(check)
}

/// A server of a [`generated_site`], and an in-memory connection to it.
struct Exchange {
    client: DuplexStream,
    runtime: Runtime,
    local: LocalSet,
    _kept: (TempDir, Sender<ShutdownPhase>, AppState),
}

/// Starts a server with an empty inbox on the current thread, and connects to it in memory.
fn connect(fast_path: bool) -> Exchange {
    let folder = tempfile::tempdir().expect("a folder");
    let site = generated_site(10);
    site.compress(usize::MAX, None);
    let store = Store::open(&StoreOptions::new(folder.path().join("inbox.sqlite"))).expect("a store");
    let intake = Intake::start(store, IntakeOptions::default()).expect("a thread");
    let http = Options { fast_path, ..Options::default() };
    let app = AppState::new(site, intake, WebOptions { http, ..WebOptions::default() });
    let worker = Rc::new(Worker::new(app.server.clone(), PublicSite::new(&app)));
    let (client, server) = tokio::io::duplex(1 << 16);
    let (sender, stage) = tokio::sync::watch::channel(ShutdownPhase::Serving);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let local = LocalSet::new();
    let peer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    local.spawn_local(async move { worker.serve_stream(server, peer, stage).await });
    Exchange { client, runtime, local, _kept: (folder, sender, app) }
}

/// Requests a page repeatedly over HTTP/1.1. The figures include the client's work, which is constant.
fn answer(fast_path: bool, more: &str) -> Run {
    let mut exchange = connect(fast_path);
    let request = format!(
        "GET /p5/ HTTP/1.1\r\nhost: www.example.com\r\nconnection: keep-alive\r\naccept: {BROWSER}\r\n\
         user-agent: {USER_AGENT}\r\n\
         accept-encoding: gzip, deflate, br, zstd\r\naccept-language: en\r\n{more}\r\n"
    );
    let Exchange { client, runtime, local, .. } = &mut exchange;
    let mut answer = local.block_on(runtime, first_answer(client, request.as_bytes()));
    let status: &[u8] = if more.is_empty() { b"HTTP/1.1 200 " } else { b"HTTP/1.1 304 " };
    assert!(answer.starts_with(status), "{}", answer.escape_ascii());
    Box::new(move || {
        let Exchange { client, runtime, local, .. } = &mut exchange;
        local.block_on(runtime, async {
            client.write_all(black_box(request.as_bytes())).await.expect("an open connection");
            client.read_exact(&mut answer).await.expect("a response");
        });
    })
}

/// Requests a page repeatedly over HTTP/2. The figures include the client's work, which is constant.
fn answer_over_http2() -> Run {
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    let mut exchange = connect(false);
    let mut block = vec![0x82, 0x86];
    // Fields that are not indexed (RFC 7541 §6.2.2), with names from the static table or in the field itself.
    let mut field = |index: u8, name: &str, value: &str| {
        block.push(index);
        for text in [name, value].into_iter().filter(|text| !text.is_empty()) {
            block.push(u8::try_from(text.len()).expect("a short text"));
            block.extend_from_slice(text.as_bytes());
        }
    };
    field(4, "", "/p5/");
    field(1, "", "www.example.com");
    let accept = BROWSER.split_at(BROWSER.find(",image/avif").expect("a long header")).0;
    for (name, value) in [
        ("accept", accept),
        ("user-agent", USER_AGENT),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("accept-language", "en"),
    ] {
        field(0, name, value);
    }
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    let opening = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[]),
        frame(8, 0, 0, &0x7000_0000_u32.to_be_bytes()),
    ];
    let Exchange { client, runtime, local, .. } = &mut exchange;
    local.block_on(runtime, async { client.write_all(&opening.concat()).await }).expect("an open connection");
    let mut stream = 1_u32;
    let mut received = vec![0; 1 << 16];
    Box::new(move || {
        let Exchange { client, runtime, local, .. } = &mut exchange;
        local.block_on(runtime, async {
            let request = frame(1, END_STREAM | END_HEADERS, stream, black_box(&block));
            client.write_all(&request).await.expect("an open connection");
            loop {
                client.read_exact(&mut received[..9]).await.expect("a frame");
                let [a, b, c, _, flags, of @ ..] = *received.first_chunk::<9>().expect("nine bytes");
                let length = u32::from_be_bytes([0, a, b, c]) as usize;
                client.read_exact(&mut received[..length]).await.expect("a payload");
                if u32::from_be_bytes(of) == stream && flags & END_STREAM != 0 {
                    break;
                }
            }
        });
        stream += 2;
    })
}

/// Sends the first request and reads the response. All later responses have the same length.
async fn first_answer(client: &mut DuplexStream, request: &[u8]) -> Vec<u8> {
    client.write_all(request).await.expect("an open connection");
    let mut answer = Vec::new();
    let header = loop {
        client.read_buf(&mut answer).await.expect("a response");
        if let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = std::str::from_utf8(&answer[..header]).expect("text").to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.filter(|_| !text.starts_with("http/1.1 304 "));
    let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
    let read = answer.len();
    answer.resize(header + length, 0);
    client.read_exact(&mut answer[read..]).await.expect("the rest");
    answer
}

/// A site with the pages `/`, `/p1/` and so on, without code blocks.
pub fn generated_site(pages: usize) -> Site {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("pages")).expect("a folder");
    for page in 0..pages {
        let text = format!(
            "---\ntitle: Page {page}\ndescription: Generated page number {page}.\nupdated: 2026-01-01\n---\n\n{}",
            PARAGRAPH.repeat(10)
        );
        let name = if page == 0 { "index.md".to_owned() } else { format!("p{page}.md") };
        std::fs::write(folder.path().join("pages").join(name), text).expect("a file");
    }
    let options = pages::PagesOptions {
        title: "Generated".into(),
        language: "en".into(),
        base_url: "https://www.example.com".into(),
        ..pages::PagesOptions::default()
    };
    load(folder.path(), &options)
}

/// Loads a site. Panics with its faults if it is invalid.
pub fn load(folder: &Path, options: &pages::PagesOptions) -> Site {
    let loaded = pages::load(folder, options, &[]);
    loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults))
}

const PARAGRAPH: &str = "Each decision is *written down* before the call goes on, with its reasons and the rule that led to it, so that \
                         [a page](/) can say later who allowed what, and when.\n\n";
