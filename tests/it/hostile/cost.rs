//! The cost of attacks: the requests, addresses and bytes that an attacker needs, from one IPv6 /48 and from
//! 100 IPv4 addresses.
//!
//! Each test prints a row for the table in docs/pages/security.md, which `scripts/attack-cost` collects, and
//! fails if the attack succeeds.

use std::io::Write as _;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use frontdesk_forms::{CONTACT, MAX_BODY_BYTES, parse};
use frontdesk_inbox::intake::{Arrival, Intake, IntakeOptions};
use frontdesk_inbox::store::{Store, StoreOptions};
use frontdesk_inbox::submission::delivery::{Capacity, ChannelTarget, ClaimRequest, Route};
use frontdesk_limits::{Admission, ByteLimiter, ByteOptions, LimitOptions, LocalLimiter, Source};
use frontdesk_screening::{Evidence, RequestFacts};
use jiff::Timestamp;
use serde_json::json;

use super::many_connections::{connect_from, metric, more_descriptors};
use crate::support::channel_site::until;
use crate::support::{Connection, NO_DEADLINES, TestServer, small_site};

/// The n-th source of an attacker.
type NthSource = fn(u32) -> Source;

/// The attackers, each with its addresses.
const ATTACKERS: [(&str, NthSource); 2] =
    [("one IPv6 /48", of_one_network), ("100 IPv4 addresses", of_a_hundred_addresses)];

/// The n-th /64 of one /48.
fn of_one_network(n: u32) -> Source {
    let [_, _, high, low] = n.to_be_bytes();
    Source::V6([0x20, 0x01, 0x0d, 0xb8, 0, 1, high, low])
}

/// The n-th of 100 addresses, each in a different /24.
fn of_a_hundred_addresses(n: u32) -> Source {
    Source::V4([10, 0, u8::try_from(n % 100).expect("less than 100"), 1])
}

/// Prints a row of the table.
pub(super) fn row(attack: &str, attacker: &str, result: &str) {
    eprintln!("attack-cost: | {attack} | {attacker} | {result} |");
}

/// The sources of all requests that the limits allow within an hour.
fn allowed_within_an_hour(limiter: &LocalLimiter, source: impl Fn(u32) -> Source) -> Vec<Source> {
    let start = Instant::now();
    let mut allowed = Vec::new();
    for minute in 0..60 {
        let now = start + Duration::from_mins(minute);
        for n in 0..100 {
            let source = source(n);
            while matches!(limiter.check(source, now).admission, Admission::Allowed) {
                allowed.push(source);
            }
        }
    }
    allowed
}

#[test]
fn twenty_gigabytes_cannot_be_written_within_a_day() {
    /// The maximum volume of writes, in megabytes.
    const BAR: u64 = 20_000;
    /// Bytes written per byte of a body, in percent: about 100 in the database, and up to 280 in a Maildir.
    const WRITTEN: u64 = 380;
    for (attacker, source) in ATTACKERS {
        let (limiter, bytes) =
            (LocalLimiter::new(&LimitOptions::default()), ByteLimiter::new(&ByteOptions::default()));
        let start = Instant::now();
        let (mut accepted, mut requests) = (0, 0_u64);
        for minute in (0..24 * 60).step_by(10) {
            let now = start + Duration::from_mins(minute);
            for n in 0..100 {
                let source = source(n);
                while matches!(limiter.check(source, now).admission, Admission::Allowed) {
                    requests += 1;
                    if bytes.charge(source, MAX_BODY_BYTES, now) != Admission::Allowed {
                        break;
                    }
                    accepted += MAX_BODY_BYTES as u64;
                }
            }
        }
        let written = accepted * WRITTEN / 100 / 1_000_000;
        row(
            "write 20 GB within a day",
            attacker,
            &format!(
                "no: {requests} requests write {written} MB; it takes {} times as many addresses or networks",
                BAR / written + 1
            ),
        );
        assert!(written < BAR, "{attacker}: {written}");
    }
}

#[test]
#[ignore = "thousands of submissions one after the other: scripts/test door"]
fn a_visitor_is_delivered_while_a_form_is_flooded() {
    for (attacker, source) in ATTACKERS {
        let settings = [("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1")];
        let server = TestServer::with(&small_site(), &settings);
        let mut connection = server.connect();
        let mut post = |from: &str, message: &str| {
            let body = json!({ "name": "Ada", "email": "ada@example.com", "message": message }).to_string();
            let headers = [("Content-Type", "application/json"), ("X-Forwarded-For", from)];
            connection.request("POST", "/api/contact", &headers, body.as_bytes()).expect("an answer").status
        };
        let mut sent = 0;
        for n in 0..100 {
            let from = address(source(n));
            while post(&from, &format!("Number {sent} of a flood")) == 200 {
                sent += 1;
            }
        }
        assert_eq!(post("198.51.100.1", "Which plan allows two teams?"), 200);
        let inbox = server.inbox();
        let held = inbox.iter().filter(|submission| submission["status"] == "held").count();
        let visitor = inbox.iter().find(|submission| submission["message"] == "Which plan allows two teams?");
        assert_eq!(visitor.expect("it is there")["status"], "kept");
        row(
            "hold the submission of a visitor from another network",
            attacker,
            &format!(
                "no: {sent} requests within a minute, {held} of them held themselves, and the visitor's is delivered"
            ),
        );
        server.expect_anything();
    }
}

/// The source as an address.
fn address(source: Source) -> String {
    match source {
        Source::V4(octets) => std::net::Ipv4Addr::from(octets).to_string(),
        Source::V6(network) => {
            let mut octets = [0; 16];
            octets[..8].copy_from_slice(&network);
            octets[15] = 1;
            Ipv6Addr::from(octets).to_string()
        }
    }
}

#[test]
#[ignore = "thousands of submissions one after the other: scripts/test door"]
fn an_hour_of_flood_delays_no_delivery_by_an_hour() {
    /// The number of messages that a slow mail server accepts per minute.
    const PER_MINUTE: usize = 20;
    for (attacker, source) in ATTACKERS {
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = StoreOptions::new(folder.path().join("inbox.db"));
        options.channels = vec![Route::new("box")];
        let store = Store::open(&options).expect("it can be made");
        let form_quota = LimitOptions::default().form_quota();
        let intake = Intake::start(store.clone(), IntakeOptions { form_quota, ..IntakeOptions::default() })
            .expect("a thread");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let now = Timestamp::now();
        let accept = |source: Source, message: String| {
            let body = json!({ "name": "Ada", "email": "ada@example.com", "message": message }).to_string();
            let arrival = Arrival {
                entry: parse(&CONTACT, body.as_bytes()).expect("it is valid"),
                idempotency_key: None,
                source,
                received_at: now,
                evidence: Evidence::Facts(RequestFacts::default()),
                agent: None,
                lead: frontdesk_forms::LeadSource::default(),
            };
            intake.accept(arrival)
        };
        // The first 3,000 requests of an hour. Those within the form's quota are already enough to fill every
        // queue.
        let mut flood = allowed_within_an_hour(&LocalLimiter::new(&LimitOptions::default()), source);
        flood.truncate(3_000);
        let visitor = runtime.block_on(async {
            let mut last = None;
            for (n, source) in flood.iter().enumerate() {
                last = Some(accept(*source, format!("Number {n} of a flood")).await.expect("it is kept"));
            }
            let visitor =
                accept(Source::V4([198, 51, 100, 1]), "Which plan?".to_owned()).await.expect("it is kept");
            store.settle(last.expect("there are some")).await.expect("it is processed");
            store.settle(visitor).await.expect("it is processed");
            visitor
        });
        let mut before = 0;
        loop {
            let target = ChannelTarget { name: "box".to_owned(), destination: String::new() };
            let want =
                ClaimRequest { target, capacity: Capacity { any: 1, retries: 1 }, earlier_attempts: before };
            let (now, lease) = (now + Duration::from_mins(1), Duration::from_mins(3));
            let claims = store.claim(vec![want], Vec::new(), now, lease, frontdesk_deliver::order::choose);
            let claims = runtime.block_on(claims).expect("it can be read");
            let claimed = claims[0].claimed.first().expect("there is more to deliver");
            if claimed.submission.id == visitor {
                break;
            }
            before += 1;
        }
        let minutes = before.div_ceil(PER_MINUTE);
        row(
            "delay a visitor's mail by an hour (20 mails a minute)",
            attacker,
            &format!("no: {} submissions, {before} mails come first: {minutes} min", flood.len()),
        );
        assert!(minutes < 60, "{attacker}: {before}");
    }
}

#[test]
#[ignore = "ten thousand connections take a while: scripts/test door"]
fn a_visitor_gets_a_connection_to_a_full_server() {
    /// Enough of a request that the connection is not idle, so the server cannot evict it.
    const IN_PROGRESS: &[u8] =
        b"POST /api/contact HTTP/1.1\r\nHost: example.com\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    const VISITORS: u8 = 10;
    more_descriptors();
    for (attack, beginning) in
        [("idle connections", &b""[..]), ("connections with requests in progress", IN_PROGRESS)]
    {
        for (attacker, networks) in [("one IPv4 /24", 1_u8), ("100 IPv4 addresses", 100)] {
            let server = TestServer::with(&small_site(), &NO_DEADLINES);
            let mut crowd = Vec::new();
            for n in 0..100 {
                let source = if networks == 1 { [127, 0, 9, n + 1] } else { [127, 0, n + 1, 1] };
                // More connections than one source may have.
                crowd.extend((0..120).map(|_| {
                    let mut stream = connect_from(source, server.address);
                    // The server may have closed the connection already because of a limit.
                    let _ = stream.write_all(beginning);
                    stream
                }));
            }
            // While connections are being closed, a browser's first attempt may fail.
            let mut attempts = 0;
            for visitor in 1..=VISITORS {
                until(|| {
                    attempts += 1;
                    let mut visitor = Connection::over(connect_from([127, 1, visitor, 1], server.address));
                    visitor.request("GET", "/", &[], b"").ok().filter(|answer| answer.status == 200)
                })
                .expect("a visitor is served");
            }
            let open = metric(&server, "frontdesk_connections_open");
            row(
                &format!("use up all connections ({attack})"),
                attacker,
                &format!(
                    "no: of {} connections {open} are open, and {VISITORS} visitors are served after {attempts} attempts",
                    crowd.len()
                ),
            );
        }
    }
}
