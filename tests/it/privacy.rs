//! Visitors' data appears in no log, metric or file except the inbox, regardless of the outcome, the log
//! level and the encoding.
//!
//! Panic messages are not tested here, because no input can cause a panic; `src/cli/serve/log.rs` tests them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::support::channel_site::{ChannelSite, smtp, until, webhook};
use crate::support::http_peer::{HttpPeer, Reply};
use crate::support::smtp_peer::{At, Do, Script, SmtpPeer};
use crate::support::{Answer, Connection};

/// Parts of the submitted values, each used in one place. They consist of letters and digits, so that quoting
/// does not change them.
const MARKERS: [&str; 21] = [
    "qzname1x",
    "qzlocal2x",
    "qzdomain3x",
    "qzmessage4x",
    "qzfirst5x",
    "qzlast6x",
    "qzcompany7x",
    "qzquery8x",
    "qzpath9x",
    "qzagent10x",
    "qzreferer11x",
    "qzkey12x",
    "qzrequest13x",
    "qzmember14x",
    "qzmethod15x",
    "qzheader16x",
    "qzlate17x",
    "qzcookie18x",
    "qzhost19x",
    "qzlarge20x",
    "qzlead21x",
];

/// Parts of all source addresses that the proxy reports, in every notation: 203.0.113.N and
/// 2001:db8:ca:fe::N.
const ADDRESSES: [&str; 7] = [
    "203.0.113.",
    "203, 0, 113",
    "cb0071",
    "2001:db8:ca",
    "2001:0db8:00ca",
    "20010db800ca",
    "32, 1, 13, 184",
];

/// The reply from a receiver that repeats what it received.
const ECHO: &str = "I do not want qzname1x, qzlocal2x@qzdomain3x.example and qzmessage4x";

#[test]
fn no_output_has_visitors_data_with_json_logs_behind_a_proxy() {
    check("json", true);
}

#[test]
fn no_output_has_visitors_data_with_text_logs_without_a_proxy() {
    check("text", false);
}

#[test]
fn a_marker_is_found_in_every_encoding() {
    for text in [
        "to qzname1x.",
        "QZNAME1X",
        "%71%7a%6e%61%6d%65%31%78",
        "717a6e616d653178",
        "717A6E616D653178",
        "[113, 122, 110, 97, 109, 101, 49, 120]",
        // `to qzname1x.`, `xqzname1x` and `xxqzname1x!` in Base64.
        "dG8gcXpuYW1lMXgu",
        "eHF6bmFtZTF4",
        "eHhxem5hbWUxeCE=",
    ] {
        assert_eq!(find(text.as_bytes()), ["qzname1x"], "{text}");
    }
    assert_eq!(find(b"{\"source\":\"203.0.113.9\"}"), ["203.0.113."]);
    assert!(find(b"nothing of it").is_empty());
    assert!(find(b"request 01a20268-5994-74c6-8642-fa23cb007102").is_empty());
    assert_eq!(find(b"cb007102"), ["cb0071"]);
}

/// Causes every outcome of a submission, then searches all logs, metrics and files for the markers.
#[expect(clippy::too_many_lines, reason = "one sequence of steps")]
fn check(format: &str, is_proxied: bool) {
    let mails = SmtpPeer::start(vec![Script::with(
        At::End,
        Do::Say("554 I do not want qzname1x, qzlocal2x@qzdomain3x.example and qzmessage4x"),
    )]);
    let hooks = HttpPeer::start([Reply::Answer {
        status: 400,
        headers: vec![("X-Echo".to_owned(), ECHO.to_owned())],
        body: ECHO.into(),
        delay: Duration::ZERO,
    }]);
    let channels = [smtp("mail", mails.address.port(), ""), webhook("hook", &hooks.url("/in"), "")].concat();
    let mut settings = vec![
        ("FRONTDESK_LOG__FORMAT", format),
        ("FRONTDESK_LOG__LEVEL", "trace"),
        ("FRONTDESK_LOG__REQUESTS", "true"),
        ("FRONTDESK_SERVER__BODY_TIMEOUT", "1s"),
        ("FRONTDESK_SERVER__HEADER_TIMEOUT", "1s"),
        ("FRONTDESK_SERVER__IDLE_TIMEOUT", "1s"),
        ("FRONTDESK_FORMS__WAITLIST__ACCEPT", "delivered"),
        ("FRONTDESK_FORMS__CONFIRM_TIMEOUT", "1s"),
        ("RUST_LOG", "trace"),
        ("RUST_BACKTRACE", "1"),
    ];
    if is_proxied {
        settings.extend([
            ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1"),
            ("FRONTDESK_LIMITS__ENABLED", "true"),
            ("FRONTDESK_LIMITS__PER_MINUTE", "5"),
        ]);
    }
    let mut site = ChannelSite::open(&channels, &settings);
    let sender = Sender { site: &site, is_proxied };

    let contact = json!({ "name": "Ada qzname1x", "email": "qzlocal2x@qzdomain3x.example", "message": "Hello qzmessage4x", "desk_page": "/qzlead21x/",
        "desk_referrer": "qzlead21x.example", "desk_utm_campaign": "qzlead21x", "desk_ref": "qzlead21x" });
    let company = json!({ "firstname": "qzfirst5x", "lastname": "qzlast6x", "email": "qzlocal2x@qzdomain3x.example", "company": "qzcompany7x" });
    for body in [&contact, &contact, &company] {
        assert_eq!(sender.post(1, "/api/contact", &body.to_string()).status, 200);
    }
    // No channel confirms this submission.
    let waitlist = json!({ "email": "qzlocal2x@qzdomain3x.example" });
    assert_eq!(sender.post(2, "/api/waitlist", &waitlist.to_string()).status, 500);
    sender.be_refused();
    sender.be_slow_and_break_off();
    sender.say_what_is_no_http();
    sender.look_at_pages();
    if is_proxied {
        let statuses: Vec<u16> =
            (0..8).map(|_| sender.post(99, "/api/contact", &contact.to_string()).status).collect();
        assert!(statuses.contains(&429), "{statuses:?}");
    }

    // Each channel has refused its message with a reply that repeats the message.
    let inbox = site.server.inbox();
    let ids: Vec<_> =
        inbox.iter().map(|line| line["id"].as_str().expect("an id").parse().expect("an id")).collect();
    assert!(
        inbox.iter().any(|line| line["lead"]["ref"] == "qzlead21x"),
        "the inbox has the source of the lead"
    );
    for id in &ids {
        for channel in ["mail", "hook"] {
            site.wait_for(*id, channel, |delivery| {
                delivery.attempts.iter().any(|attempt| attempt.end.is_some())
            });
        }
    }
    assert!(
        site.inbox(&["show", &ids[0].to_string()]).contains("I do not want"),
        "the operator sees the reply"
    );
    site.inbox(&["hold", &ids[0].to_string(), "--because", "qzmessage4x"]);
    site.inbox(&["release", &ids[0].to_string()]);

    let away = site.server.data_dir().with_extension("away");
    std::fs::rename(site.server.data_dir(), &away).expect("it can be moved");
    std::fs::write(site.server.data_dir(), "no folder").expect("something else stands there");
    let other = json!({ "name": "qzname1x", "email": "qzlocal2x@qzdomain3x.example", "message": "Another qzmessage4x" });
    assert_eq!(sender.post(3, "/api/contact", &other.to_string()).status, 500);
    std::fs::remove_file(site.server.data_dir()).expect("it can be removed");
    std::fs::rename(&away, site.server.data_dir()).expect("it can be moved back");
    until(|| (site.server.ops("/readyz").status == 200).then_some(())).expect("it recovers");

    let metrics = site.server.ops("/metrics").text().to_owned();
    let ready = site.server.ops("/readyz").text().to_owned();
    assert_eq!(site.server.terminate().0, Some(0));
    let log =
        until(|| Some(site.server.log()).filter(|log| log.contains("stopped"))).expect("the log is complete");
    for words in
        ["answered", "submission could not be stored", "no channel confirmed", "delivery attempt failed"]
    {
        assert!(log.contains(words), "{words:?} is not in {log}");
    }
    for (place, text) in
        [("metrics", metrics), ("readyz", ready), ("stderr", log), ("stdout", site.server.told())]
    {
        assert_eq!(find(text.as_bytes()), [""; 0], "{place}: {text}");
    }
    let (files, has_it) = look_at_files(&site.server.data_dir());
    assert!(has_it, "the inbox itself has what was sent, or this test sees nothing");
    assert_eq!(files, [""; 0]);
}

/// A visitor whose submitted values are unique markers.
struct Sender<'a> {
    site: &'a ChannelSite,
    is_proxied: bool,
}

impl Sender<'_> {
    /// Sends a form from the source with this number.
    fn post(&self, source: u8, path: &str, body: &str) -> Answer {
        self.send(source, "POST", &format!("{path}?q=qzquery8x"), "application/json", body.as_bytes())
    }

    fn send(&self, source: u8, method: &str, target: &str, media_type: &str, body: &[u8]) -> Answer {
        let hops = match source % 2 {
            0 => format!("203.0.113.{source}"),
            _ => format!("2001:db8:ca:fe{source:02x}::{source:x}"),
        };
        // A proxy's request ID is used, unless it is not safe for a log line.
        let id = if self.is_proxied { "qzrequest13x@" } else { "qzrequest13x" };
        let headers = [
            ("Content-Type", media_type),
            ("X-Forwarded-For", &*hops),
            ("User-Agent", "Mozilla/5.0 qzagent10x"),
            ("Referer", "https://qzreferer11x.example/?qzreferer11x"),
            ("Idempotency-Key", if source == 1 { "" } else { "qzkey12x" }),
            ("Cookie", "qzcookie18x=qzcookie18x"),
            ("X-Qzheader16x", "qzheader16x"),
            ("Accept", "text/html;qzheader16x=1"),
            ("X-Request-Id", id),
        ];
        self.site.server.request(method, target, &headers, body)
    }

    /// Causes each kind of 400, a 405 and a 413.
    fn be_refused(&self) {
        let json = "application/json";
        let cases: [(&str, Vec<u8>, u16); 14] = [
            ("text/qzheader16x", b"qzmessage4x".to_vec(), 400),
            (json, b"qzmessage4x".to_vec(), 400),
            (json, b"\"qzmessage4x\"".to_vec(), 400),
            (json, b"[\"qzmessage4x\"]".to_vec(), 400),
            (json, b"{\"name\": \"qzname1x".to_vec(), 400),
            (json, b"{\"name\": \"qzname1x\xff\"}".to_vec(), 400),
            (json, b"{\"qzmember14x\": \"qzmember14x\"}".to_vec(), 400),
            (json, b"{\"name\": [\"qzname1x\"], \"email\": 7, \"message\": {\"qzmessage4x\": 1}}".to_vec(), 400),
            (json, b"{\"name\": \"qzname1x\", \"email\": \"qzlocal2x@@qzdomain3x\", \"message\": \"qzmessage4x\"}".to_vec(), 400),
            (json, b"{\"name\": \"qzname1x\\u0007\", \"email\": \"a@b.example\", \"message\": \"qzmessage4x\"}".to_vec(), 400),
            (json, b"{\"name\": \"a\", \"email\": \"a@b.example\", \"message\": \"qzmessage4x\\u0000\"}".to_vec(), 400),
            (json, b"{\"name\": \"qzname1x\", \"name\": \"qzname1x\"}".to_vec(), 400),
            (json, format!("{{\"name\": \"{}\"}}", "qzname1x".repeat(100)).into_bytes(), 400),
            (json, "qzlarge20x".repeat(7000).into_bytes(), 413),
        ];
        for (number, (media_type, body, status)) in (10..).zip(cases) {
            let answer = self.send(number, "POST", "/api/contact", media_type, &body);
            assert_eq!(answer.status, status, "{}", String::from_utf8_lossy(&body[..body.len().min(200)]));
        }
        assert_eq!(self.send(40, "QZMETHOD15X", "/api/contact", json, b"").status, 405);
    }

    /// Causes a 408, and ends a request in the middle of its body and another in the middle of its header.
    fn be_slow_and_break_off(&self) {
        let head = "POST /api/contact HTTP/1.1\r\nHost: qzhost19x.example\r\nX-Forwarded-For: 203.0.113.50\r\n\
                    Content-Type: application/json\r\nContent-Length: 400\r\n\r\n{\"name\": \"qzlate17x";
        let mut slow = self.site.server.connect();
        slow.send(head.as_bytes()).expect("sent");
        assert_eq!(slow.answer(false).expect("an answer").status, 408);
        let mut broken = self.site.server.connect();
        broken.send(head.as_bytes()).expect("sent");
        broken.close_writing();
        let _ = broken.rest();
        // An incomplete header.
        let mut half = self.site.server.connect();
        half.send(b"GET /qzpath9x HTTP/1.1\r\nHost: qzhost19x.example\r\nX-A: qzheader16x").expect("sent");
        let _ = half.rest();
    }

    /// Sends malformed requests, and one with an ambiguous path.
    fn say_what_is_no_http(&self) {
        let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX-A: {}\r\n\r\n", "qzheader16x".repeat(10_000));
        for bytes in [
            "qzmethod15x qzpath9x\r\n\r\n",
            "GET /qzpath9x?qzquery8x HTTP/1.1\r\n\r\n",
            "GET /%2e%2e/qzpath9x HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST /api/contact HTTP/1.1\r\nHost: a\r\nContent-Length: qzheader16x\r\n\r\n",
            "POST /api/contact HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: qzheader16x\r\n\r\nqzmessage4x",
            "GET / HTTP/1.1\r\nqzheader16x\r\n\r\n",
            &long,
        ] {
            let mut connection: Connection = self.site.server.connect();
            // The server may close the connection before everything is sent.
            let _ = connection.send(bytes.as_bytes());
            // The server may keep the connection open after its answer; if the client is a proxy, for longer
            // than a test should take.
            connection.close_writing();
            let _ = connection.rest();
        }
    }

    fn look_at_pages(&self) {
        for (target, status) in [
            ("/?email=qzquery8x", 200),
            ("/qzpath9x/qzlocal2x@qzdomain3x.example?qzquery8x", 404),
            ("/contact?qzquery8x", 308),
            ("/llms.txt?qzquery8x", 200),
        ] {
            assert_eq!(self.send(60, "GET", target, "text/plain", b"").status, status, "{target}");
        }
        assert_eq!(self.send(60, "QZMETHOD15X", "/", "text/plain", b"").status, 405);
    }
}

/// The markers in files other than the database, with the files' names, and whether the database contains the
/// message's marker.
fn look_at_files(folder: &Path) -> (Vec<String>, bool) {
    let (mut found, mut is_in_inbox) = (Vec::new(), false);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("it can be read") {
            let entry = entry.expect("it can be read");
            if entry.file_type().expect("it has one").is_dir() {
                folders.push(entry.path());
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let markers = find(&std::fs::read(entry.path()).expect("it can be read"));
            if ["inbox.sqlite", "inbox.sqlite-wal", "inbox.sqlite-shm"].contains(&name.as_str()) {
                is_in_inbox |= markers.contains(&"qzmessage4x".to_owned());
            } else {
                found.extend(markers.iter().map(|marker| format!("{name}: {marker}")));
            }
        }
    }
    (found, is_in_inbox)
}

/// Overwrites UUIDs. Request IDs are random UUIDs, whose digits could match an address by chance.
fn blank_uuids(text: &mut [u8]) {
    const LENGTH: usize = 36;
    let is_uuid = |text: &[u8]| {
        text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    for at in 0..(text.len() + 1).saturating_sub(LENGTH) {
        let part = &mut text[at..at + LENGTH];
        if is_uuid(part) {
            part.fill(b' ');
        }
    }
}

/// The markers in `bytes`: plain, percent-encoded, in Base64, in hexadecimal digits or as decimal numbers.
fn find(bytes: &[u8]) -> Vec<String> {
    let mut lower = bytes.to_ascii_lowercase();
    blank_uuids(&mut lower);
    let holds =
        |within: &[u8], wanted: &str| within.windows(wanted.len()).any(|window| window == wanted.as_bytes());
    let is_there = |marker: &str| {
        let each = |before: &str, write: &dyn Fn(u8) -> String, between: &str| {
            marker.bytes().map(|byte| format!("{before}{}", write(byte))).collect::<Vec<_>>().join(between)
        };
        let hex = |byte: u8| format!("{byte:02x}");
        holds(&lower, marker)
            || holds(&lower, &each("", &hex, ""))
            || holds(&lower, &each("%", &hex, ""))
            || holds(&lower, &each("", &|byte| byte.to_string(), ", "))
            || base64_parts(marker).iter().any(|part| holds(bytes, part))
    };
    let markers = MARKERS.iter().filter(|marker| is_there(marker));
    let addresses = ADDRESSES.iter().filter(|address| holds(&lower, address));
    markers.chain(addresses).map(ToString::to_string).collect()
}

/// The parts of a text's Base64 encoding that do not depend on its neighbors, for each position modulo 3.
fn base64_parts(text: &str) -> [String; 3] {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    [0, 1, 2].map(|before| {
        let mut bits = String::new();
        for byte in text.bytes() {
            let _ = write!(bits, "{byte:08b}");
        }
        // This many bits of the first digit belong to the preceding text.
        let shared = (6 - before * 8 % 6) % 6;
        let digits = bits.as_bytes()[shared..].chunks_exact(6);
        let digit = |bits: &[u8]| {
            let number = bits.iter().fold(0, |number, bit| number * 2 + usize::from(bit - b'0'));
            char::from(DIGITS[number])
        };
        digits.map(digit).collect()
    })
}
