//! Double opt-in: link-following scanners, the button, forged links, restarts and kills.

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mail_parser::MessageParser;
use serde_json::{Value, json};

use crate::support::channel_site::{ChannelSite, smtp, until};
use crate::support::mail_server::{MailServer, Software};
use crate::support::random::Random;
use crate::support::smtp_peer::{Received, Script, SmtpPeer};

const ASKS: &str = "visitor:confirmation";
const TEXT: &str = "---\nsubject: Please confirm\n---\nPlease [confirm your address]({confirm_link}), or copy this link:\n\n\
                    {confirm_link}\n\nSee <https://www.example.com/>.\n";
const FILE: (&str, &str) = ("confirm.md", TEXT);
const SET: (&str, &str) = ("FRONTDESK_FORMS__WAITLIST__CONFIRM", "mails/confirm.md");

fn open(port: u16, environment: &[(&str, &str)]) -> ChannelSite {
    let environment = [&[SET], environment].concat();
    ChannelSite::with_files(&smtp("mail", port, ""), &[FILE], &environment)
}

fn join(site: &ChannelSite, email: &str) -> Vec<u8> {
    let answer = site.server.post("/api/waitlist", &json!({ "email": email }));
    assert_eq!(answer.status, 200);
    answer.body
}

/// The messages to this address.
fn mails_to(peer: &SmtpPeer, email: &str) -> Vec<Received> {
    peer.record().received.iter().filter(|mail| mail.to == [email]).cloned().collect()
}

/// All links in both versions of a mail.
fn links_in(message: &[u8]) -> Vec<String> {
    let message = MessageParser::default().parse(message).expect("a message");
    let (text, html) = (message.body_text(0).expect("a text"), message.body_html(0).expect("a text"));
    let ends = |c: char| c.is_whitespace() || "<>\"".contains(c);
    [text, html]
        .iter()
        .flat_map(|body| {
            let starts = body.match_indices("http").map(|(at, _)| &body[at..]);
            starts.map(|rest| rest.split(ends).next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        })
        .collect()
}

/// The path of the link that confirms an address.
fn link_in(message: &[u8]) -> String {
    let links = links_in(message);
    let own: HashSet<&str> =
        links.iter().filter_map(|link| Some(&link[link.find("/_frontdesk/")?..])).collect();
    assert_eq!(own.len(), 1, "{links:?}");
    own.into_iter().next().expect("one").to_owned()
}

fn wait_for_mail(peer: &SmtpPeer, email: &str) -> String {
    let mail = until(|| mails_to(peer, email).pop()).expect("a mail");
    link_in(&mail.message())
}

fn status(site: &ChannelSite, email: &str) -> Value {
    let inbox = site.server.inbox();
    inbox.iter().find(|entry| entry["email"] == email).map_or(Value::Null, |entry| entry["status"].clone())
}

#[test]
fn an_address_is_confirmed_by_the_button_and_by_nothing_else() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let site = open(peer.address.port(), &[]);
    let first = join(&site, "ada@example.org");
    let link = wait_for_mail(&peer, "ada@example.org");
    assert_eq!(status(&site, "ada@example.org"), "unconfirmed");
    let mail = mails_to(&peer, "ada@example.org").remove(0).message();
    let text = String::from_utf8(mail.clone()).expect("it is ASCII");
    assert!(
        text.contains("Subject: Please confirm\r\n") && text.contains("Auto-Submitted: auto-replied\r\n")
    );
    assert!(!link.contains("ada") && !link.contains('@'), "{link}");
    // A mail scanner follows every link, with GET and HEAD.
    let links = links_in(&mail);
    assert!(links.len() >= 4, "{links:?}");
    for link in links.iter().filter_map(|link| Some(&link[link.find("/_frontdesk/")?..])) {
        for method in ["HEAD", "GET", "GET"] {
            let answer = site.server.request(method, link, &[], b"");
            assert_eq!(answer.status, 200);
            for (name, value) in [
                ("cache-control", "no-store"),
                ("referrer-policy", "no-referrer"),
                ("x-robots-tag", "noindex"),
                ("content-type", "text/html; charset=utf-8"),
            ] {
                assert_eq!(answer.header(name), Some(value), "{method}");
            }
            assert!(
                answer
                    .header("content-security-policy")
                    .is_some_and(|policy| policy.contains("form-action 'self'"))
            );
            assert_eq!(
                answer.text().contains("<form method=\"post\">"),
                method == "GET",
                "{}",
                answer.text()
            );
        }
    }
    assert_eq!((status(&site, "ada@example.org"), peer.record().received.len()), ("unconfirmed".into(), 1));
    for method in ["PUT", "DELETE", "OPTIONS"] {
        let answer = site.server.request(method, &link, &[], b"");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD, POST")), "{method}");
    }
    // The button, twice.
    for _ in 0..2 {
        let answer = site.server.request("POST", &link, &[], b"");
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("Address confirmed") && !answer.text().contains("<form"));
    }
    let id = site.server.inbox()[0]["id"].as_str().expect("an id").parse().expect("a UUID");
    site.wait_for(id, "mail", |one| one.state.name() == "delivered");
    assert_eq!(status(&site, "ada@example.org"), "delivered");
    assert!(site.server.inbox()[0]["_confirmed_at"].is_string());
    // The response to a known address, confirmed or not, has the same bytes, and there is no mail.
    join(&site, "eve@example.org");
    wait_for_mail(&peer, "eve@example.org");
    for email in ["ADA@example.org", "eve@example.org", "eve@example.org"] {
        assert_eq!(join(&site, email), first, "{email}");
    }
    site.server.catch_up();
    assert_eq!((mails_to(&peer, "ada@example.org").len(), mails_to(&peer, "eve@example.org").len()), (1, 1));
    assert_eq!(peer.record().received.iter().filter(|mail| mail.to == ["team@example.com"]).count(), 1);
    assert!(!site.server.log().contains(&link["/_frontdesk/confirm/".len()..]), "the log has no token");
}

#[test]
fn forged_links_get_the_same_page_and_change_nothing() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let site = open(peer.address.port(), &[]);
    join(&site, "ada@example.org");
    let link = wait_for_mail(&peer, "ada@example.org");
    let token = &link["/_frontdesk/confirm/".len()..];
    let swapped: String = token.chars().rev().collect();
    let mut pages = HashSet::new();
    for forged in [
        "",
        "x",
        "..%2f..%2fapi",
        &token[1..],
        &format!("{token}A"),
        &swapped,
        &"A".repeat(48),
        &format!("{token}/"),
        "%00",
    ] {
        for method in ["GET", "POST"] {
            let answer = site.server.request(method, &format!("/_frontdesk/confirm/{forged}"), &[], b"");
            assert!([400, 404].contains(&answer.status), "{method} {forged}: {}", answer.status);
            if answer.status == 404 {
                pages.insert(answer.text().to_owned());
            }
        }
    }
    assert_eq!(pages.len(), 1);
    assert!(pages.iter().all(|page| page.contains("This link is not valid")));
    assert_eq!(status(&site, "ada@example.org"), "unconfirmed");
    // The query and the body do not matter; a page of another site cannot read or forge the token.
    let headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Origin", "https://evil.example")];
    let answer =
        site.server.request("POST", &format!("{link}?utm=x"), &headers, b"a=b&redirect=https://evil.example");
    assert_eq!((answer.status, answer.header("location")), (200, None));
}

#[test]
fn without_double_opt_in_there_are_no_links() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let site = ChannelSite::open(&smtp("mail", peer.address.port(), ""), &[]);
    join(&site, "ada@example.org");
    let answer = site.server.get("/_frontdesk/confirm/x", &[]);
    assert_eq!(answer.status, 404);
    assert!(!answer.text().contains("This link is not valid"));
    assert!(until(|| (status(&site, "ada@example.org") == "delivered").then_some(())).is_some());
}

#[test]
fn a_click_is_limited_like_a_form() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let site = open(
        peer.address.port(),
        &[("FRONTDESK_LIMITS__ENABLED", "true"), ("FRONTDESK_LIMITS__PER_MINUTE", "5")],
    );
    let path = format!("/_frontdesk/confirm/{}", "A".repeat(48));
    let statuses: Vec<u16> = (0..8).map(|_| site.server.get(&path, &[]).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 404).count(), 5, "{statuses:?}");
    let limited = site.server.get(&path, &[]);
    assert_eq!((limited.status, limited.header("retry-after").is_some()), (429, true));
}

#[test]
fn a_click_that_cannot_be_stored_gets_500_and_works_again() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let site = open(peer.address.port(), &[]);
    join(&site, "ada@example.org");
    let link = wait_for_mail(&peer, "ada@example.org");
    let connection = rusqlite::Connection::open(site.database()).expect("it is there");
    connection.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let answer = site.server.request("POST", &link, &[], b"");
    assert_eq!(answer.status, 500);
    assert!(answer.text().contains("<form method=\"post\">"), "{}", answer.text());
    let request = answer.header("x-request-id").expect("an id").to_owned();
    connection.execute_batch("ROLLBACK").expect("the lock is released");
    let answer =
        until(|| Some(site.server.request("POST", &link, &[], b"")).filter(|answer| answer.status == 200));
    assert!(answer.expect("it works again").text().contains("Address confirmed"));
    until(|| site.server.log().contains(&request).then_some(())).expect("the log has the request's id");
}

#[test]
fn kills_at_random_moments_lose_no_entry_and_no_confirmation() {
    const VISITORS: usize = 24;
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let mut site = open(
        peer.address.port(),
        &[
            ("FRONTDESK_SCREENING__ENABLED", "false"),
            ("FRONTDESK_FORMS__VISITOR_MAILS_PER_DOMAIN_PER_HOUR", "off"),
        ],
    );
    let mut random = Random(7);
    let accepted = Mutex::new(Vec::new());
    // Sends forms while the server is killed again and again.
    for round in 0..4 {
        let is_over = AtomicBool::new(false);
        let address = site.server.address;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..VISITORS / 4 {
                    let email = format!("v{round}-{n}@example.org");
                    let body = json!({ "email": email }).to_string();
                    let head = "POST /api/waitlist HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n";
                    if is_answered_200(address, &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())) {
                        accepted.lock().expect("no panic").push(email);
                    }
                }
                is_over.store(true, Ordering::SeqCst);
            });
            std::thread::sleep(Duration::from_millis(20 + random.below(120)));
            site.server.kill();
        });
        site.server.restart();
    }
    let accepted = accepted.into_inner().expect("no panic");
    let links: Vec<(String, String)> =
        accepted.iter().map(|email| (email.clone(), wait_for_mail(&peer, email))).collect();
    // Confirms while the server is killed.
    let confirmed = Mutex::new(HashSet::new());
    for chunk in links.chunks(links.len().div_ceil(4).max(1)) {
        let address = site.server.address;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (email, link) in chunk {
                    let request = format!(
                        "POST {link} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    );
                    if is_answered_200(address, &request) {
                        confirmed.lock().expect("no panic").insert(email.clone());
                    }
                }
            });
            std::thread::sleep(Duration::from_millis(5 + random.below(60)));
            site.server.kill();
        });
        site.server.restart();
    }
    // No entry that got a 200 is lost, and each confirmation that got one is stored.
    let inbox = site.server.inbox();
    for email in &accepted {
        assert!(inbox.iter().any(|entry| entry["email"] == **email), "{email}");
    }
    for email in confirmed.into_inner().expect("no panic") {
        let entry = inbox.iter().find(|entry| entry["email"] == *email).expect("it is there");
        assert!(entry["_confirmed_at"].is_string(), "{email}");
    }
    // The links still work for the rest, and then everything is delivered.
    for (email, link) in &links {
        assert_eq!(site.server.request("POST", link, &[], b"").status, 200, "{email}");
    }
    for email in &accepted {
        let delivered = until(|| (status(&site, email) == "delivered").then_some(()));
        assert!(delivered.is_some(), "{email}: {}", status(&site, email));
    }
}

/// Sends a request on a connection of its own. Returns whether a complete 200 arrived.
fn is_answered_200(address: std::net::SocketAddr, request: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut answer = Vec::new();
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_to_end(&mut answer).is_ok()
        && answer.starts_with(b"HTTP/1.1 200 ")
}

#[test]
#[ignore = "needs unpacked packages and root: scripts/test channels"]
fn opt_in_goes_through_opensmtpd() {
    const VISITORS: usize = 10;
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = MailServer::start(Software::OpenSmtpd, folder.path());
    let site = open(server.address.port(), &[]);
    for number in 0..VISITORS {
        join(&site, &format!("v{number}@example.org"));
    }
    for message in server.messages(VISITORS) {
        let link = link_in(&message);
        assert_eq!(site.server.get(&link, &[]).status, 200);
        assert_eq!(site.server.request("POST", &link, &[], b"").status, 200);
    }
    server.messages(2 * VISITORS);
    assert!(site.server.inbox().iter().all(|entry| entry["_confirmed_at"].is_string()));
    site.wait_for_count(ASKS, frontdesk_inbox::submission::delivery::DeliveryState::Delivered, VISITORS);
}
