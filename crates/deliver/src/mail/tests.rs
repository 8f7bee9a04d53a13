//! Checks composed messages with an independent parser and a corpus of injections.

use jiff::Timestamp;
use mail_parser::{HeaderValue, MessageParser, MimeHeaders as _, PartType};
use uuid::Uuid;

use super::*;
use crate::corpus;
use frontdesk_forms::definition::FormFile;
use frontdesk_forms::{FieldValue, Form, FormSet, parse};
use frontdesk_inbox::submission::Submission;

#[test]
fn the_headers_have_the_operator_as_sender_and_the_visitor_as_reply_to() {
    let fields = [("name", "Ada"), ("email", "ada@example.org"), ("message", "Hello.")];
    let dated_at = "2027-01-08T09:00:00Z".parse().expect("a time");
    let message = composed(&Notification { dated_at, ..submission(&fields) });
    let head = message.split("\r\n\r\n").next().expect("a head");
    let lines: Vec<&str> = head.lines().collect();
    assert_eq!(
        lines,
        [
            "From: \"Example & Co\" <desk@example.com>",
            "To: <team@example.com>, <\"the boss\"@[192.0.2.7]>",
            "Reply-To: <ada@example.org>",
            "References: <01940000-0000-7000-8000-000000000001.conversation@example.com>",
            "Thread-Index: AQHdePfdAZQAAAAAcACAAAAAAAAAAQ==",
            "Subject: Contact: Ada",
            "Date: Fri, 8 Jan 2027 09:00:00 +0000",
            "Message-ID: <01940000-0000-7000-8000-000000000001.submission@example.com>",
            "X-Frontdesk-Id: 01940000-0000-7000-8000-000000000001",
            "MIME-Version: 1.0",
            "Content-Type: multipart/alternative;",
            " boundary=\"=_a3af535ea113c2cf6ef3f952cf0472c9\"",
        ],
    );
}

#[test]
fn the_text_names_each_field_by_its_label() {
    let message = composed(&submission(&[
        ("name", "Ada"),
        ("email", "ada@example.org"),
        ("message", "One\r\n.\r\nTwo"),
    ]));
    let message = MessageParser::default().parse(message.as_bytes()).expect("a message");
    assert_eq!(
        message.body_text(0).expect("a text").replace("\r\n", "\n"),
        "Name: Ada\nE-mail: ada@example.org\nMessage:\n\n    One\n    .\n    Two\n\n\
         Received: 2026-11-20T14:03:05.120Z\nId: 01940000-0000-7000-8000-000000000001\n"
    );
}

#[test]
fn a_form_of_the_operator_has_its_title_and_the_labels_of_then() {
    let text = "title = \"Book <b>a demo\"\ndescription = \"D.\"\nsubmit = \"S\"\nheading = \"place\"\n\
                [[field]]\nname = \"work\"\ntype = \"email\"\nlabel = \"Work <i> e-mail\"\nrequired = true\n\
                [[field]]\nname = \"place\"\ntype = \"text\"\nlabel = \"Place\"\n";
    let form = FormFile::read("book", text, "forms/book.toml").unwrap().form;
    let fields = vec![("work".to_owned(), "ada@example.org".into()), ("place".to_owned(), "Harbor".into())];
    let notice = Notification::from_submission(&stored("book", Some(form), fields.clone()));
    let message = composed(&notice);
    assert!(message.contains("\r\nSubject: Book <b>a demo: Harbor\r\n"), "{message}");
    assert!(message.contains("\r\nReply-To: <ada@example.org>\r\n"), "{message}");
    let parsed = MessageParser::default().parse(message.as_bytes()).expect("a message");
    assert!(parsed.body_text(0).unwrap().starts_with("Work <i> e-mail: ada@example.org\r\nPlace: Harbor"));
    assert!(parsed.body_html(0).unwrap().contains("<dt>Work &lt;i&gt; e-mail</dt>"));
    // Without a known definition, the names stand for the labels.
    let unknown = Notification::from_submission(&stored("book", None, fields));
    assert_eq!((unknown.title.as_str(), unknown.label("work")), ("Book", "work".to_owned()));
}

#[test]
fn a_label_with_punctuation_gets_no_second_colon() {
    let text = "title = \"Visit\"\ndescription = \"D.\"\nsubmit = \"S\"\n\
                [[field]]\nname = \"how\"\ntype = \"text\"\nlabel = \"How was it?\"\n\
                [[field]]\nname = \"why\"\ntype = \"text\"\nlabel = \"Why: \"\n";
    let form = FormFile::read("visit", text, "forms/visit.toml").unwrap().form;
    let fields = vec![("how".to_owned(), "Good".into()), ("why".to_owned(), "Sun".into())];
    let message = composed(&Notification::from_submission(&stored("visit", Some(form), fields)));
    let parsed = MessageParser::default().parse(message.as_bytes()).expect("a message");
    assert!(parsed.body_text(0).unwrap().starts_with("How was it? Good\r\nWhy: Sun\r\n"), "{message}");
    assert_eq!(parsed.subject(), Some("Visit"));
}

#[test]
fn only_submissions_have_a_reply_to() {
    for topic in [Topic::Digest, Topic::Test] {
        let notice = Notification { topic, ..submission(&[("email", "ada@example.org")]) };
        assert!(!composed(&notice).contains("Reply-To"));
    }
    assert!(
        !composed(&submission(&[("email", "not an address\r\nBcc: x@example.org")])).contains("\r\nReply-To")
    );
}

#[test]
fn messages_are_deterministic_and_each_topic_has_its_own_id() {
    let notice = submission(&[("name", "Ada"), ("message", "Grüße")]);
    assert_eq!(composed(&notice), composed(&notice.clone()));
    let mut ids: Vec<String> = [Topic::Submission, Topic::Digest, Topic::Test]
        .map(|topic| message_id(&Notification { topic, ..notice.clone() }, "example.com"))
        .into();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn each_submission_is_a_conversation_of_its_own() {
    let notice = submission(&[("name", "Ada")]);
    let other = Notification { id: Uuid::from_u128(2), ..notice.clone() };
    let conversation = |notice: &Notification| {
        let message = composed(notice);
        let lines = message
            .lines()
            .filter(|line| line.starts_with("References:") || line.starts_with("Thread-Index:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    // Another attempt, or another channel, has the same.
    let again = Notification { dated_at: Timestamp::UNIX_EPOCH, may_be_there: true, ..notice.clone() };
    assert_eq!(conversation(&again), conversation(&notice));
    assert!(conversation(&other).iter().zip(conversation(&notice)).all(|(one, two)| *one != two));
    assert_eq!((conversation(&other).len(), notice.title), (2, other.title));
    // Digests of several days are one conversation.
    assert_eq!(conversation(&Notification { topic: Topic::Digest, ..again }), [""; 0]);
}

#[test]
fn text_that_resembles_an_encoded_word_is_preserved() {
    check_subject("Contact: =?utf-8?q?boss?=");
    check_subject("Contact: Grüße an 你好 und 😀");
    check_subject("");
    check_subject("Two  spaces, and one at the end of a rather long line that has to be folded somewhere");
    check_subject(&"ü".repeat(MAX_SUBJECT_CHARS));
}

#[test]
fn a_long_subject_is_truncated() {
    assert_eq!(subject_line(&"x".repeat(500)).chars().count(), MAX_SUBJECT_CHARS);
    assert!(subject_line(&"x".repeat(500)).ends_with("x…"));
    assert_eq!(subject_line(" a\r\nb "), "a⏎b");
}

#[test]
fn invalid_addresses_are_neither_sender_nor_recipient() {
    let new = |from: &str, to: &[&str]| {
        let to: Vec<String> = to.iter().map(|to| (*to).to_owned()).collect();
        MailAddresses::new(from, "", &to).expect("valid addresses");
    };
    new("desk@example.com", &["team@example.com"]);
    for (from, to, fault) in [
        ("desk", &["team@example.com"][..], "`from` is not an e-mail address."),
        (
            "desk@example.com>\r\nRCPT TO:<x@example.org",
            &["team@example.com"],
            "`from` is not an e-mail address.",
        ),
        ("desk@example.com", &[], "`to` has no recipient."),
        (
            "desk@example.com",
            &["team@example.com", "team@example.com\r\nDATA"],
            "`to`: entry 2 is not an e-mail address.",
        ),
    ] {
        let to: Vec<String> = to.iter().map(|to| (*to).to_owned()).collect();
        assert_eq!(MailAddresses::new(from, "", &to).unwrap_err(), fault, "{from} {to:?}");
    }
}

#[test]
fn no_accepted_value_leaves_its_part_of_the_message() {
    let payloads = corpus::payloads();
    assert!(payloads.len() >= 500, "{}", payloads.len());
    let mut checked = 0;
    let mut addresses = 0;
    for payload in &payloads {
        for form in FormSet::built_in().iter() {
            let shapes = [Some(&form.fields), form.alternative.as_ref()];
            for shape in shapes.into_iter().flatten() {
                for field in shape {
                    let body: serde_json::Map<String, serde_json::Value> = shape
                        .iter()
                        .map(|other| {
                            let value = if other == field { payload.as_str() } else { other.example };
                            (other.name.to_owned(), value.into())
                        })
                        .collect();
                    let body = serde_json::to_vec(&body).expect("JSON");
                    let Ok(entry) = parse(form, &body) else { continue };
                    checked += 1;
                    addresses += usize::from(field.name == "email");
                    let fields =
                        entry.fields().map(|(name, value)| (name.to_owned(), value.clone())).collect();
                    check_contained(&notice_of(form.name, fields));
                }
            }
        }
    }
    assert!(checked >= 1000, "only {checked} were accepted");
    assert!(addresses >= 100, "only {addresses} were accepted as addresses");
}

#[test]
fn recipients_depend_on_the_value_of_a_field() {
    let all = ["big", "team", "small"].map(|name| format!("{name}@example.com"));
    let [big, team, small] = all.clone();
    let by_value = RecipientsByValue {
        field: "budget".to_owned(),
        cases: vec![
            (FieldValue::from("high"), vec![big.clone(), team.clone()]),
            (FieldValue::from("low"), vec![small.clone(), team.clone()]),
        ],
        otherwise: vec![team.clone()],
    };
    let addresses = MailAddresses::new("desk@example.com", "", &all).unwrap();
    let addresses = addresses.with_recipients_by_value(by_value);
    let list = |options: &[&str]| FieldValue::List(options.iter().map(|it| (*it).to_owned()).collect());
    for (value, expected) in [
        (Some(FieldValue::from("high")), vec![&big, &team]),
        (Some(FieldValue::from("low")), vec![&team, &small]),
        (Some(FieldValue::from("middle")), vec![&team]),
        (Some(list(&["low", "high"])), vec![&big, &team, &small]),
        (None, vec![&team]),
    ] {
        let fields: Vec<_> = value.map(|value| ("budget".to_owned(), value)).into_iter().collect();
        let notice = Notification { fields, ..submission(&[]) };
        let chosen = addresses.for_notification(&notice);
        assert_eq!(chosen.to.iter().collect::<Vec<_>>(), expected, "{:?}", notice.fields);
        let message = String::from_utf8(compose(&chosen, &notice)).unwrap();
        assert_eq!(message.contains("<big@example.com>"), expected.contains(&&big));
    }
    let test = Notification { topic: Topic::Test, ..submission(&[]) };
    assert_eq!(addresses.for_notification(&test).to, all);
}

fn submission(fields: &[(&str, &str)]) -> Notification {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    notice_of("contact", fields)
}

fn notice_of(form: &str, fields: Vec<(String, FieldValue)>) -> Notification {
    Notification::from_submission(&stored(form, FormSet::built_in().named(form), fields))
}

fn stored(form: &str, definition: Option<&'static Form>, fields: Vec<(String, FieldValue)>) -> Submission {
    Submission {
        id: "01940000-0000-7000-8000-000000000001".parse::<Uuid>().expect("an id"),
        form: form.to_owned(),
        definition,
        received_at: "2026-11-20T14:03:05.120Z".parse().expect("a time"),
        status: frontdesk_inbox::submission::Status::Kept,
        held: None,
        screening: None,
        released_at: None,
        error: None,
        agent: None,
        sealed: None,
        fields,
        source: String::new(),
        repeats: 0,
        confirmation: None,
        lead: frontdesk_forms::LeadSource::default(),
    }
}

fn addresses() -> MailAddresses {
    let to = ["team@example.com".to_owned(), "\"the boss\"@[192.0.2.7]".to_owned()];
    MailAddresses::new("desk@example.com", "Example & Co", &to).expect("valid addresses")
}

fn composed(notice: &Notification) -> String {
    String::from_utf8(compose(&addresses(), notice)).expect("ASCII text")
}

#[track_caller]
fn check_subject(title: &str) {
    let message = composed(&Notification { title: title.to_owned(), ..submission(&[]) });
    let parsed = MessageParser::default().parse(message.as_bytes()).expect("a message");
    assert_eq!(parsed.subject().unwrap_or_default(), title);
}

/// Checks that the message has exactly the expected headers and parts, that all octets and line lengths are
/// valid in mail, and that the message contains the submitted values.
#[track_caller]
fn check_contained(notice: &Notification) {
    let email = notice.get("email").expect("each form has it");
    let bytes = compose(&addresses(), notice);
    assert_eq!(bytes, compose(&addresses(), notice), "composing is deterministic");
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' => {
                assert_eq!(bytes.get(at + 1), Some(&b'\n'), "a bare CR in {notice:?} {:?}", notice.fields);
            }
            b'\n' => {
                assert_eq!(bytes.get(at.wrapping_sub(1)), Some(&b'\r'), "a bare LF in {:?}", notice.fields);
            }
            b'\t' | b' '..=b'~' => {}
            other => panic!("{other:#x} in {:?}", notice.fields),
        }
    }
    assert!(bytes.ends_with(b"\r\n"));
    let text = std::str::from_utf8(&bytes).expect("ASCII text");
    // Lines with an address may be longer, because an address cannot be folded.
    for line in text
        .split("\r\n")
        .filter(|line| !line.ends_with("@example.com>") && !line.contains(&format!("<{email}>")))
    {
        assert!(line.len() <= 78, "{} octets: {line}", line.len());
    }
    assert!(text.split("\r\n").all(|line| line.len() <= 998));

    let message = MessageParser::default().parse(&bytes).expect("a message");
    let names: Vec<&str> = message.headers().iter().map(mail_parser::Header::name).collect();
    let mut expected = vec!["From", "To", "Reply-To", "Subject", "Date", "Message-ID", "X-Frontdesk-Id"];
    expected.extend(["Content-Type", "MIME-Version", "References", "Thread-Index"]);
    let sorted = |mut names: Vec<&str>| {
        names.sort_unstable_by_key(|name| name.to_ascii_lowercase());
        names.iter().map(|name| name.to_ascii_lowercase()).collect::<Vec<_>>()
    };
    assert_eq!(sorted(names), sorted(expected), "{:?}", notice.fields);
    // Counts the header fields independently, in case the parser is lenient.
    let head = text.split("\r\n\r\n").next().expect("a head");
    let fields = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t'])).count();
    assert_eq!(fields, 11, "{head}");
    assert!(head.contains(&format!("<{email}>\r\n")), "{head}");

    assert_eq!(message.subject().unwrap_or_default(), subject_line(&notice.title), "{head}");
    assert_eq!(message.parts.len(), 3, "{:?}", notice.fields);
    assert!(matches!(message.parts[0].body, PartType::Multipart(_)));
    for (part, subtype) in [(&message.parts[1], "plain"), (&message.parts[2], "html")] {
        let kind = part.content_type().expect("a type");
        assert_eq!((kind.ctype(), kind.subtype()), ("text", Some(subtype)));
        assert!(part.headers.iter().all(|header| !matches!(header.value, HeaderValue::Empty)));
        assert_eq!(part.headers.len(), 2, "{:?}", notice.fields);
    }

    let unbroken = |text: std::borrow::Cow<'_, str>| text.replace("\r\n", "\n");
    let plain = unbroken(message.body_text(0).expect("a text"));
    let PartType::Html(html) = &message.parts[2].body else { panic!("expected HTML") };
    let html = unbroken(html.as_ref().into());
    for (_, value) in &notice.fields {
        let value = visible_lines(&value.display());
        for line in value.lines() {
            assert!(plain.contains(line), "{line:?} is not in {plain:?}");
        }
        let value = format!("<bdi>{}</bdi>", escape_html(&value).replace('\n', "<br>"));
        assert!(html.contains(&value), "{value:?} is not in {html:?}");
    }
    assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("<a "), "{html}");
    let quiet =
        |text: &str| !text.chars().any(|c| frontdesk_forms::text::is_unsafe(c) && c != '\n' && c != '\t');
    assert!(quiet(&plain) && quiet(&html), "{:?}", notice.fields);
}

#[test]
fn html_keeps_line_breaks_and_indentation() {
    let html = html_body(&submission(&[("message", "listen:\n    port: 80\n\tkey:  a\n\nend")]));
    let value = "<dd dir=\"auto\" style=\"white-space:pre-wrap\"><bdi>listen:<br>    port: 80<br>\tkey:  a<br><br>end</bdi></dd>";
    assert!(html.contains(value), "{html}");
}
