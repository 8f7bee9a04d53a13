//! Injection attempts pass through the real binary to every output. The tests check byte by byte that each
//! payload stays in its field.
//!
//! The readers in this file follow the output formats and share no code with the writers: they split a mail
//! at its empty lines and boundaries, CSV at its quotes, and a terminal's output at its line ends.

mod chat;
mod definition;
mod mailed;
mod printed;

use std::collections::HashMap;

use frontdesk_inbox::submission::delivery::DeliveryState;
use serde_json::{Map, Value};

use crate::corpus;
use crate::support::channel_site::{ChannelSite, maildir, smtp, webhook};
use crate::support::http_peer::{HttpPeer, Reply, Request};
use crate::support::smtp_peer::{Script, SmtpPeer};
use crate::support::{Answer, Connection};

/// All channels, by name.
const CHANNELS: [&str; 9] =
    ["mail", "box", "standard", "slack", "mattermost", "discord", "teams", "telegram", "ntfy"];

/// The minimum number of payloads that at least one field must accept if all payloads are sent.
const AT_LEAST: usize = 500;

/// The payloads to send: as many as the environment variable says, or a sample of the corpus by default.
fn payloads() -> Vec<String> {
    let all = corpus::payloads();
    let wanted =
        std::env::var("FRONTDESK_TEST_PAYLOADS").ok().and_then(|count| count.parse().ok()).unwrap_or(90);
    let step = (all.len() / wanted.max(1)).max(1);
    all.into_iter().step_by(step).collect()
}

/// A submission that was accepted, with its values as sent.
struct Sent {
    id: String,
    received_at: String,
    /// Names and values in the form's order.
    fields: Vec<(&'static str, String)>,
}

impl Sent {
    fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find_map(|(field, value)| (*field == name).then_some(value.as_str()))
    }

    /// Values that every output must show unchanged: short, on one line, in printable ASCII.
    fn plain_values(&self) -> impl Iterator<Item = &str> {
        let values = self.fields.iter().map(|(_, value)| value.as_str());
        values.filter(|value| value.len() <= 100 && value.bytes().all(|byte| (b' '..=b'~').contains(&byte)))
    }
}

#[test]
fn hostile_text_stays_in_its_field_in_every_output() {
    let mails = SmtpPeer::start(vec![Script::usual()]);
    let bodies = ["standard", "slack", "mattermost", "discord", "teams", "telegram", "ntfy"];
    let hooks = bodies.map(|_| HttpPeer::start([Reply::status(200)]));
    let boxes = tempfile::tempdir().expect("a folder");
    let mailbox = boxes.path().join("box");
    let mut channels = vec![smtp("mail", mails.address.port(), ""), maildir("box", &mailbox)];
    for (body, hook) in bodies.iter().zip(&hooks) {
        let keys = if *body == "telegram" { chat::TELEGRAM_KEYS } else { "" };
        channels.push(webhook(body, &hook.url("/in"), &format!("body = {body:?}\n{keys}")));
    }
    // Screening is off: many payloads look like spam, and held submissions are not delivered.
    let site = ChannelSite::open(&channels.concat(), &[("FRONTDESK_SCREENING__ENABLED", "false")]);

    let payloads = payloads();
    let (sent, accepted) = send(&site, &payloads);
    let wanted = if payloads.len() >= AT_LEAST { AT_LEAST } else { payloads.len() / 2 };
    assert!(accepted >= wanted, "{accepted} of {} payloads were accepted", payloads.len());
    for channel in CHANNELS {
        site.wait_for_count(channel, DeliveryState::Delivered, sent.len());
    }
    eprintln!("{accepted} of {} payloads accepted, in {} submissions", payloads.len(), sent.len());

    let record = mails.record();
    mailed::check_commands(&record);
    let by_mail: HashMap<String, Vec<u8>> = record
        .received
        .iter()
        .map(|received| {
            assert_eq!(
                (&*received.from, &received.to[..]),
                ("desk@example.com", &["team@example.com".to_owned()][..])
            );
            let message = received.message();
            (mailed::id(&message), message)
        })
        .collect();
    assert_eq!(by_mail.len(), record.received.len());
    let by_box = mailed::read_maildir(&mailbox);
    assert_eq!((by_mail.len(), by_box.len()), (sent.len(), sent.len()), "no message more and none less");
    let by_hook = hooks.each_ref().map(|hook| by_id(hook.requests()));
    for one in &sent {
        mailed::check(&by_mail[&one.id], one);
        assert_eq!(
            mailed::without_date(&by_box[&one.id]),
            mailed::without_date(&by_mail[&one.id]),
            "the same message in the Maildir, which may be written in another second"
        );
        chat::check_standard(&by_hook[0][&one.id], one);
        chat::check_slack(&by_hook[1][&one.id], one);
        chat::check_mattermost(&by_hook[2][&one.id], one);
        chat::check_discord(&by_hook[3][&one.id], one);
        chat::check_teams(&by_hook[4][&one.id], one);
        chat::check_telegram(&by_hook[5][&one.id], one);
        chat::check_ntfy(&by_hook[6][&one.id], one);
    }
    for requests in &by_hook {
        assert_eq!(requests.len(), sent.len(), "no request more and none less");
    }
    printed::check(&site, &sent);
    check_log(&site);
}

/// Sends each payload in every field that accepts it. Returns the accepted submissions in the order in which
/// they were sent, and the number of payloads that were accepted in at least one field.
fn send(site: &ChannelSite, payloads: &[String]) -> (Vec<Sent>, usize) {
    let mut connection = site.server.connect();
    let mut taken = Vec::new();
    let mut accepted = 0;
    for (number, payload) in payloads.iter().enumerate() {
        let before = taken.len();
        let email = format!("ada{number}@example.com");
        let mut offer = |fields: Vec<(&'static str, &str)>| {
            let status = post(&mut connection, &fields).status;
            assert!(matches!(status, 200 | 400), "{status} to {payload:?}");
            if status == 200 {
                taken.push(
                    fields.into_iter().map(|(name, value)| (name, value.to_owned())).collect::<Vec<_>>(),
                );
            }
            status == 200
        };
        let everywhere = offer(vec![("name", payload), ("email", &email), ("message", payload)]);
        if !everywhere {
            offer(vec![("name", "Ada"), ("email", &email), ("message", payload)]);
        }
        if payload.contains('@') {
            offer(vec![("name", "Ada"), ("email", payload), ("message", &email)]);
        }
        if everywhere && number % 4 == 0 {
            offer(vec![
                ("firstname", payload),
                ("lastname", payload),
                ("email", &email),
                ("company", payload),
            ]);
        }
        accepted += usize::from(taken.len() > before);
    }
    // The inbox as JSON has exactly the values that were sent, in the same order.
    let mut inbox = site.server.inbox();
    inbox.reverse();
    assert_eq!(inbox.len(), taken.len());
    let sent = inbox.iter().zip(taken).map(|(line, fields)| {
        let text = |name: &str| line[name].as_str().expect("a text").to_owned();
        let kept: Vec<_> = line.as_object().expect("an object").iter().collect();
        let names: Vec<_> = kept.iter().map(|(name, _)| name.as_str()).collect();
        let expected =
            ["id", "form", "received_at", "status"].into_iter().chain(fields.iter().map(|(name, _)| *name));
        assert_eq!(&names[..4 + fields.len()], expected.collect::<Vec<_>>(), "no member more");
        assert!(names[4 + fields.len()..].iter().all(|name| name.starts_with('_')), "{names:?}");
        for (name, value) in &fields {
            assert_eq!(text(name), *value);
        }
        Sent { id: text("id"), received_at: text("received_at"), fields }
    });
    (sent.collect(), accepted)
}

fn post(connection: &mut Connection, fields: &[(&'static str, &str)]) -> Answer {
    let members: Map<String, Value> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
    let body = Value::Object(members).to_string();
    let json = [("Content-Type", "application/json")];
    connection.request("POST", "/api/contact", &json, body.as_bytes()).expect("an answer")
}

fn by_id(requests: Vec<Request>) -> HashMap<String, Request> {
    let count = requests.len();
    let by_id: HashMap<String, Request> = requests
        .into_iter()
        .map(|request| (request.header("webhook-id").expect("an id").to_owned(), request))
        .collect();
    assert_eq!(by_id.len(), count, "each once");
    by_id
}

/// Whether a character is a control character, changes the writing direction, or ends a line or paragraph. No
/// output may contain such a character as text.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[track_caller]
fn assert_inert(text: &str) {
    let found = text.chars().find(|c| *c != '\n' && steers(*c));
    assert_eq!(found, None, "{text:?}");
}

/// Nothing failed, so the log has only the line that each start writes.
fn check_log(site: &ChannelSite) {
    let log = site.server.log();
    let [line] = log.lines().collect::<Vec<_>>()[..] else { panic!("{log}") };
    let event: Value = serde_json::from_str(line).expect("each line is JSON");
    assert_eq!((&event["level"], &event["message"]), (&"INFO".into(), &"serving".into()), "{log}");
    assert!(!line.contains("@example.com") && !line.contains("victim"), "{line:?}");
}
