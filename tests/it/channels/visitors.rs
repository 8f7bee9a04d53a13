//! Mails to visitors: who gets one, what is in it, and that a visitor's text is never sent to anyone else.

use frontdesk_inbox::submission::delivery::DeliveryState;
use mail_parser::MessageParser;
use serde_json::json;

use crate::corpus;
use crate::support::channel_site::{ChannelSite, EMAIL, MESSAGE, NAME, smtp, until};
use crate::support::mail_server::{MailServer, Software};
use crate::support::smtp_peer::{Received, Script, SmtpPeer};

const THANKS: &str = "visitor:acknowledgement";
const TEXT: &str = "---\nsubject: Thanks from {site}\nreply_to: sales@example.com\n---\n\
                    We *read* it on {date}. Read [our answers](https://example.com/faq).\n";
const FILE: (&str, &str) = ("thanks.md", TEXT);
const SET: (&str, &str) = ("FRONTDESK_FORMS__CONTACT__ACKNOWLEDGE", "mails/thanks.md");

fn open(port: u16, environment: &[(&str, &str)]) -> ChannelSite {
    let environment = [&[SET], environment].concat();
    ChannelSite::with_files(&smtp("mail", port, ""), &[FILE], &environment)
}

/// The messages that were sent to anyone but the team.
fn to_visitors(peer: &SmtpPeer) -> Vec<Received> {
    let record = peer.record();
    let of_visitor = |received: &&Received| received.to != ["team@example.com"];
    record.received.iter().filter(of_visitor).cloned().collect()
}

#[test]
fn a_visitor_gets_the_operators_text_and_the_team_the_message() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let site = open(peer.address.port(), &[]);
    let id = site.submit(1);
    let delivered = |channel| site.wait_for(id, channel, |one| one.state == DeliveryState::Delivered);
    delivered("mail");
    delivered(THANKS);
    let [mail] = &to_visitors(&peer)[..] else { panic!("one mail") };
    assert_eq!((mail.from.as_str(), &mail.to[..]), ("desk@example.com", &[EMAIL.to_owned()][..]));
    let text = String::from_utf8(mail.message()).expect("it is ASCII");
    for header in [
        "Auto-Submitted: auto-replied\r\n",
        "X-Auto-Response-Suppress: All\r\n",
        "Reply-To: <sales@example.com>\r\n",
        "Subject: Thanks from Example\r\n",
    ] {
        assert!(text.contains(header), "{text}");
    }
    let parsed = MessageParser::default().parse(text.as_bytes()).expect("a message");
    let plain = parsed.body_text(0).expect("a text");
    assert!(plain.contains("We read it on 20") && plain.contains("our answers <https://example.com/faq>."));
    let html = parsed.body_html(0).expect("a text");
    assert!(
        html.contains("<em>read</em>") && html.contains("<a href=\"https://example.com/faq\">"),
        "{html}"
    );
    for secret in [NAME, "Grace", MESSAGE, "team@example.com"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(site.server.inbox()[0]["status"], "delivered");
    site.assert_discreet();
}

#[test]
fn what_is_repeated_held_or_suspicious_is_not_acknowledged() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let site = open(peer.address.port(), &[]);
    let post = |email: &str, message: &str, more: serde_json::Value| {
        let mut body = json!({ "name": NAME, "email": email, "message": message });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        assert_eq!(site.server.post("/api/contact", &body).status, 200);
    };
    post("held@example.org", "Buy this", json!({ "desk_note": "filled in by a bot" }));
    post(
        "suspicious@example.org",
        "see https://a.example https://b.example https://c.example https://d.example",
        json!({}),
    );
    for email in
        ["no-reply@example.org", "desk@example.com", "team@example.com", "root@localhost", "a@[127.0.0.1]"]
    {
        post(email, &format!("Hello from {email}"), json!({}));
    }
    site.submit(1);
    site.post(1);
    site.submit(2);
    let statuses: Vec<String> = site.server.inbox().iter().map(|one| one["status"].to_string()).collect();
    assert!(statuses.contains(&"\"held\"".to_owned()), "{statuses:?}");
    let is_suspicious = |one: &serde_json::Value| one["_suspicious"] == true;
    assert!(site.server.inbox().iter().any(is_suspicious), "{:?}", site.server.inbox());
    site.wait_for_count(THANKS, DeliveryState::Delivered, 1);
    site.wait_for_count("mail", DeliveryState::Delivered, statuses.len() - 1);
    let mails = to_visitors(&peer);
    assert_eq!(mails.iter().map(|mail| mail.to.concat()).collect::<Vec<_>>(), [EMAIL]);
    // A release delivers the message to the team, and sends the visitor nothing.
    let held = site.server.inbox().iter().find(|one| one["status"] == "held").expect("one")["id"].clone();
    site.inbox(&["release", held.as_str().expect("an id")]);
    site.wait_for_count("mail", DeliveryState::Delivered, statuses.len());
    assert_eq!(to_visitors(&peer).len(), 1);
}

#[test]
fn no_field_can_add_a_recipient_a_header_or_a_word() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let site = open(peer.address.port(), &[("FRONTDESK_SCREENING__ENABLED", "false")]);
    let payloads: Vec<String> = corpus::payloads().into_iter().step_by(25).collect();
    let mut accepted = 0;
    for (number, payload) in payloads.iter().enumerate() {
        let email = format!("v{number}@example.org");
        let body = json!({ "name": payload, "email": email, "message": format!("{payload} {number}") });
        accepted += usize::from(site.server.post("/api/contact", &body).status == 200);
        // An address with more than an address is refused, so it cannot be one of two recipients.
        let email = format!("w{number}@example.org{payload}");
        let body = json!({ "name": NAME, "email": email, "message": "Hello" });
        assert_ne!(site.server.post("/api/contact", &body).status, 500);
    }
    assert!(accepted > 5, "{accepted}");
    for email in [
        "x@example.org\r\nBcc: y@example.org",
        "x@example.org,y@example.org",
        "x@example.org> <y@example.org",
    ] {
        let body = json!({ "name": NAME, "email": email, "message": "Hello" });
        assert_eq!(site.server.post("/api/contact", &body).status, 400, "{email}");
    }
    let expected = site.server.inbox().len();
    site.wait_for_count("mail", DeliveryState::Delivered, expected);
    let counted = || {
        let channels = site.reader().channels().expect("it can be read");
        let thanks = channels.into_iter().find(|channel| channel.name == THANKS).expect("it has sent some");
        (thanks.count(DeliveryState::Waiting) + thanks.count(DeliveryState::Sending) == 0).then_some(thanks)
    };
    let sent = until(counted).expect("all are sent").count(DeliveryState::Delivered);
    let mails = to_visitors(&peer);
    assert_eq!(mails.len(), sent);
    let body_of = |mail: &Received| {
        let message = mail.message();
        let parsed = MessageParser::default().parse(&message).expect("a message").into_owned();
        let names: Vec<String> = parsed.headers().iter().map(|header| header.name().to_owned()).collect();
        (names, parsed.body_text(0).map(Into::into), parsed.body_html(0).map(Into::into))
    };
    let first: (Vec<String>, Option<String>, Option<String>) = body_of(&mails[0]);
    for mail in &mails {
        assert_eq!(mail.to.len(), 1, "{:?}", mail.to);
        assert_eq!(body_of(mail), first);
    }
}

#[test]
fn the_server_cannot_be_used_to_flood_third_parties() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let environment =
        [("FRONTDESK_FORMS__VISITOR_MAILS_PER_HOUR", "10"), ("FRONTDESK_SCREENING__ENABLED", "false")];
    let site = open(peer.address.port(), &environment);
    // One address, a hundred times, also with subaddresses.
    for number in 0..100 {
        let email = if number % 2 == 0 { EMAIL.to_owned() } else { format!("grace+{number}@EXAMPLE.org") };
        let body = json!({ "name": NAME, "email": email, "message": number.to_string() });
        assert_eq!(site.server.post("/api/contact", &body).status, 200);
    }
    for number in 0..20 {
        let body = json!({ "name": NAME, "email": format!("v{number}@example.org"), "message": "Hello" });
        assert_eq!(site.server.post("/api/contact", &body).status, 200);
    }
    site.wait_for_count("mail", DeliveryState::Delivered, 120);
    // All come from one network, which can use up half of the limit.
    site.wait_for_count(THANKS, DeliveryState::Delivered, 5);
    let mut to: Vec<String> = to_visitors(&peer).iter().map(|mail| mail.to.concat().to_lowercase()).collect();
    to.sort_unstable();
    assert_eq!(to.len(), 5);
    assert_eq!(to.iter().filter(|to| to.starts_with("grace")).count(), 1, "{to:?}");
    let said = || site.server.log().matches("a limit on mails to visitors is reached").count();
    until(|| (said() > 0).then_some(())).expect("the log says so");
    assert_eq!(said(), 1, "{}", site.server.log());
    // The team gets one message, and the digest has a line.
    let is_notice =
        |mail: &Received| String::from_utf8_lossy(&mail.message()).contains("have reached their limit");
    let notices =
        || peer.record().received.iter().filter(|mail| is_notice(mail)).cloned().collect::<Vec<_>>();
    let first = until(|| notices().pop()).expect("the team gets a message");
    assert_eq!(first.to, ["team@example.com"]);
    let body = json!({ "name": NAME, "email": "last@example.net", "message": "Hello" });
    assert_eq!(site.server.post("/api/contact", &body).status, 200);
    site.wait_for_count("mail", DeliveryState::Delivered, 121);
    assert_eq!(notices().len(), 1);
    assert!(site.inbox(&["digest"]).contains("reached the limit `forms.visitor_mails_per_hour`"));
    let metrics = site.server.ops("/metrics");
    let skipped = metrics
        .text()
        .lines()
        .find(|line| line.starts_with("frontdesk_visitor_mails_skipped_total{limit=\"all\"}"));
    assert!(skipped.is_some_and(|line| !line.ends_with(" 0")), "{skipped:?}");
}

#[test]
fn a_domain_that_takes_all_addresses_gets_a_few_mails() {
    const LIMIT: usize = 10;
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let confirm = "---\nsubject: Please confirm\n---\nPlease [confirm]({confirm_link}).\n";
    let environment = [
        SET,
        ("FRONTDESK_FORMS__WAITLIST__CONFIRM", "mails/confirm.md"),
        ("FRONTDESK_FORMS__VISITOR_MAILS_PER_DOMAIN_PER_HOUR", "10"),
        ("FRONTDESK_SCREENING__ENABLED", "false"),
        ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.0/8"),
    ];
    let site = ChannelSite::with_files(
        &smtp("mail", peer.address.port(), ""),
        &[FILE, ("confirm.md", confirm)],
        &environment,
    );
    // From one IPv6 /48, each from another /64, to names below one domain.
    for number in 0..400 {
        let from = format!("2001:db8:1:{number:x}::1");
        let headers = [("Content-Type", "application/json"), ("X-Forwarded-For", from.as_str())];
        let email = format!("v{number}@a{}.catch-all.example", number % 7);
        let (path, body) = if number % 2 == 0 {
            ("/api/contact", json!({ "name": NAME, "email": email, "message": number.to_string() }))
        } else {
            ("/api/waitlist", json!({ "email": email }))
        };
        assert_eq!(site.server.request("POST", path, &headers, body.to_string().as_bytes()).status, 200);
    }
    site.wait_for_count("mail", DeliveryState::Delivered, 200);
    let waits = |entry: &serde_json::Value| {
        entry["_held"]["because"].as_str().is_some_and(|because| because.contains("per_domain_per_hour"))
    };
    let is_settled = || {
        let inbox = site.server.inbox();
        let entries = inbox.iter().filter(|one| one["form"] == "waitlist");
        let settled = entries.filter(|entry| waits(entry) || entry["_asked_at"].is_string()).count();
        (settled == 200).then_some(inbox)
    };
    let inbox = until(is_settled).expect("each entry is asked, or waits and says so");
    assert_eq!(inbox.len(), 400);
    let asked = inbox.iter().filter(|entry| entry["_asked_at"].is_string()).count();
    site.wait_for_count(THANKS, DeliveryState::Delivered, LIMIT - asked);
    site.wait_for_count("visitor:confirmation", DeliveryState::Delivered, asked);
    assert_eq!(to_visitors(&peer).len(), LIMIT);
    assert!(inbox.iter().filter(|one| one["form"] == "waitlist").all(|one| one["status"] == "unconfirmed"));
    for part in ["catch-all", "2001:db8"] {
        assert!(!site.server.log().contains(part), "{}", site.server.log());
        assert!(!site.server.ops("/metrics").text().contains(part));
    }
}

#[test]
fn aliases_of_one_mailbox_get_one_mail() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let site = open(peer.address.port(), &[("FRONTDESK_SCREENING__ENABLED", "false")]);
    let aliases = [
        "grace.hopper@proton.me",
        "grace-hopper@pm.me",
        "grace_hopper+1@protonmail.com",
        "grace@fastmail.com",
        "news@grace.fastmail.com",
        "grace+1@fastmail.com",
        "grace.hopper@yandex.com",
        "grace-hopper@ya.ru",
        "grace@icloud.com",
        "grace+1@me.com",
        "grace@outlook.com",
        "Grace+1@Outlook.com",
    ];
    for (number, email) in aliases.iter().enumerate() {
        let body = json!({ "name": NAME, "email": email, "message": number.to_string() });
        assert_eq!(site.server.post("/api/contact", &body).status, 200);
    }
    site.wait_for_count("mail", DeliveryState::Delivered, aliases.len());
    site.wait_for_count(THANKS, DeliveryState::Delivered, 5);
    let mut to: Vec<String> = to_visitors(&peer).iter().map(|mail| mail.to.concat()).collect();
    to.sort_unstable();
    // The first of each mailbox, as it was typed.
    let first = [
        "grace.hopper@proton.me",
        "grace.hopper@yandex.com",
        "grace@fastmail.com",
        "grace@icloud.com",
        "grace@outlook.com",
    ];
    assert_eq!(to, first);
}

#[test]
fn a_refused_address_delays_no_other_mail_and_can_be_retried() {
    let peer = SmtpPeer::start(vec![Script::usual().refusing("grace@example.org")]);
    let site = open(peer.address.port(), &[]);
    let id = site.submit(1);
    site.wait_for(id, THANKS, |one| one.state == DeliveryState::Parked);
    site.wait_for(id, "mail", |one| one.state == DeliveryState::Delivered);
    assert_eq!(site.server.inbox()[0]["status"], "delivered");
    assert!(site.inbox(&["digest"]).contains("Nothing needs your attention"), "{}", site.inbox(&["digest"]));
    peer.follow(vec![Script::usual()]);
    site.inbox(&["retry", &id.to_string()]);
    site.wait_for(id, THANKS, |one| one.state == DeliveryState::Delivered);
}

#[test]
#[ignore = "needs unpacked packages and root: scripts/test channels"]
fn twenty_acknowledgements_go_through_opensmtpd() {
    const VISITORS: usize = 20;
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = MailServer::start(Software::OpenSmtpd, folder.path());
    let site = open(server.address.port(), &[]);
    for number in 0..VISITORS {
        let body = json!({ "name": NAME, "email": format!("v{number}@example.org"), "message": "Hello" });
        assert_eq!(site.server.post("/api/contact", &body).status, 200);
    }
    site.wait_for_count("mail", DeliveryState::Delivered, VISITORS);
    site.wait_for_count(THANKS, DeliveryState::Delivered, VISITORS);
    let messages = server.messages(2 * VISITORS);
    let mut to = Vec::new();
    for message in &messages {
        let parsed = MessageParser::default().parse(message).expect("a message");
        let kind = parsed.header("Auto-Submitted").and_then(|value| value.as_text()).unwrap_or_default();
        if kind == "auto-replied" {
            assert_eq!(parsed.return_path().as_text(), Some("desk@example.com"));
            assert!(parsed.body_text(0).expect("a text").starts_with("We read it on "));
            to.extend(parsed.to().and_then(|to| to.first()).and_then(|one| one.address()).map(str::to_owned));
        }
    }
    to.sort_unstable();
    to.dedup();
    assert_eq!(to.len(), VISITORS);
}
