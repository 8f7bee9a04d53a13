//! Delivered mails: SMTP commands, headers, MIME parts and what a mail reader shows.

use std::collections::HashMap;
use std::path::Path;

use frontdesk_forms::CONTACT;
use mail_parser::MessageParser;

use super::{Sent, assert_inert};
use crate::support::smtp_peer::Record;

/// Checks that every SMTP command is one of five fixed ones, without data from a visitor.
pub(super) fn check_commands(record: &Record) {
    let ours =
        ["EHLO example.com", "MAIL FROM:<desk@example.com>", "RCPT TO:<team@example.com>", "DATA", "QUIT"];
    for command in &record.commands {
        assert!(ours.contains(&command.as_str()), "{command:?}");
    }
    let messages = record.commands.iter().filter(|command| *command == "DATA").count();
    assert_eq!(messages, record.received.len());
}

/// The messages in a Maildir, by submission id, with the line ends that SMTP has.
pub(super) fn read_maildir(mailbox: &Path) -> HashMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(mailbox.join("new")).expect("it is there");
    let read =
        |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path()).expect("it can be read as text");
    let messages = entries.map(|entry| read(entry.expect("an entry")));
    let messages = messages.map(|message| {
        assert!(!message.contains('\r'), "{message:?}");
        message.replace('\n', "\r\n").into_bytes()
    });
    messages.map(|message| (id(&message), message)).collect()
}

/// The submission's id in the message's header.
pub(super) fn id(message: &[u8]) -> String {
    let (head, _) = split(&String::from_utf8_lossy(message));
    let ids: Vec<_> = head.into_iter().filter(|(name, _)| name == "X-Frontdesk-Id").collect();
    assert_eq!(ids.len(), 1);
    ids[0].1.clone()
}

/// The text of a message before and after its date.
pub(super) fn without_date(message: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(message);
    let (before, rest) = text.split_once("\r\nDate: ").expect("a date");
    (before.to_owned(), rest.split_once("\r\n").expect("further headers").1.to_owned())
}

/// Checks that a message has exactly the expected headers, parts and lines.
pub(super) fn check(message: &[u8], sent: &Sent) {
    let raw = std::str::from_utf8(message).expect("it is ASCII");
    assert!(raw.is_ascii() && raw.ends_with("\r\n"));
    for line in raw.split_terminator("\r\n") {
        assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\t'), "{line:?}");
        assert!(line.len() <= 998);
    }
    let (head, body) = split(raw);
    let one = |wanted: &str| {
        let mut values = head.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let value = values.next().unwrap_or_else(|| panic!("there is no {wanted}: {raw}"));
        assert_eq!(values.next(), None, "{wanted} occurs twice: {raw}");
        value
    };
    let mut names: Vec<_> = head.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "Content-Type",
        "Date",
        "From",
        "MIME-Version",
        "Message-ID",
        "References",
        "Reply-To",
        "Subject",
        "Thread-Index",
        "To",
        "X-Frontdesk-Id",
    ];
    assert_eq!(names, expected, "{raw}");
    assert_eq!(one("From"), "\"Example\" <desk@example.com>");
    assert_eq!(one("To"), "<team@example.com>");
    assert_eq!(one("Reply-To"), format!("<{}>", sent.get("email").expect("an address")));
    assert_eq!(one("X-Frontdesk-Id"), sent.id);
    assert_eq!(one("Message-ID"), format!("<{}.submission@example.com>", sent.id));
    check_parts(one("Content-Type"), &body);

    let parsed = MessageParser::default().parse(message).expect("a message");
    let subject = parsed.subject().expect("a subject");
    assert!(subject.starts_with("Contact: "), "{subject:?}");
    assert_inert(subject);
    assert!(!subject.contains('\n'), "{subject:?}");
    assert_eq!((parsed.text_body.len(), parsed.html_body.len(), parsed.attachments.len()), (1, 1, 0));
    check_text(&parsed.body_text(0).expect("a text"), sent);
    check_html(&parsed.body_html(0).expect("a page"), sent);
}

/// Header fields, unfolded, and the body.
fn split(text: &str) -> (Vec<(String, String)>, String) {
    let (head, body) = text.split_once("\r\n\r\n").expect("an empty line");
    let head = head.replace("\r\n ", " ").replace("\r\n\t", " ");
    let fields = head.split("\r\n").map(|line| {
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no header field: {line:?}"));
        (name.to_owned(), value.trim().to_owned())
    });
    (fields.collect(), body.to_owned())
}

/// Checks the two parts, which are enclosed by three boundary lines.
fn check_parts(content_type: &str, body: &str) {
    let boundary = content_type.split_once("boundary=\"").expect("a boundary").1;
    let boundary = boundary.split_once('"').expect("its end").0;
    let (open, close) = (format!("--{boundary}"), format!("--{boundary}--"));
    let marks: Vec<_> = body.split("\r\n").filter(|line| line.starts_with(&open)).collect();
    assert_eq!(marks, [&open, &open, &close], "{body}");
    let parts: Vec<_> = body.split(&open).skip(1).take(2).collect();
    for (part, media_type) in parts.iter().zip(["text/plain", "text/html"]) {
        let (mut head, _) = split(part.strip_prefix("\r\n").expect("a line end"));
        head.sort();
        let names: Vec<_> = head.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Content-Transfer-Encoding", "Content-Type"], "{part}");
        assert!(head[1].1.starts_with(media_type), "{part}");
    }
}

/// Checks that each line without indentation is an expected label, and that each label appears once.
fn check_text(text: &str, sent: &Sent) {
    let text = text.replace("\r\n", "\n");
    assert_inert(&text.replace('\t', " "));
    let mut expected: Vec<_> = sent
        .fields
        .iter()
        .map(|(name, _)| CONTACT.field(name).expect("a field").label)
        .chain(["Received", "Id"])
        .collect();
    let mut found: Vec<_> = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("    "))
        .map(|line| {
            line.split_once(':').unwrap_or_else(|| panic!("{line:?} is not an expected label: {text}")).0
        })
        .collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected, "{text}");
    for value in sent.plain_values() {
        assert!(text.contains(&format!(": {value}\n")), "{value:?} is not there: {text}");
    }
    assert!(text.trim_end().ends_with(&format!("\nId: {}", sent.id)), "{text}");
}

/// Checks that the HTML has only the expected elements and attributes.
fn check_html(html: &str, sent: &Sent) {
    assert_inert(&html.replace('\t', " ").replace("\r\n", "\n"));
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for tag in html.split('<').skip(1) {
        let tag = tag.split_once('>').unwrap_or_else(|| panic!("{tag:?} does not end: {html}")).0;
        *counts.entry(tag).or_default() += 1;
    }
    let fields = sent.fields.len();
    let line_breaks = counts.remove("br").unwrap_or_default();
    assert!(line_breaks >= 1, "{html}");
    let once = [
        "!doctype html",
        "html",
        "head",
        "meta charset=\"utf-8\"",
        "title",
        "/title",
        "/head",
        "body",
        "dl",
        "/dl",
        "p",
        "/p",
        "/body",
        "/html",
    ];
    let mut expected: HashMap<&str, usize> = once.into_iter().map(|tag| (tag, 1)).collect();
    expected.extend(
        ["dt", "/dt", "dd dir=\"auto\" style=\"white-space:pre-wrap\"", "/dd", "bdi", "/bdi"]
            .map(|tag| (tag, fields)),
    );
    assert_eq!(counts, expected, "{html}");
}
