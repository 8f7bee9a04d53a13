//! Checks composed mails with an independent parser and a corpus of injections.

use jiff::Timestamp;
use mail_parser::MessageParser;
use uuid::Uuid;

use super::*;
use crate::corpus;
use crate::smtp::{SmtpDeadlines, SmtpTls};
use frontdesk_inbox::submission::visitor_mail::HourlyLimits;
use frontdesk_inbox::submission::{Hold, Status};

#[test]
fn the_headers_name_the_operator_and_stop_automatic_replies() {
    let message =
        composed(&mailer(), &[("name", "Ada"), ("email", "ada@example.org"), ("message", "Hello.")]);
    let head = message.split("\r\n\r\n").next().expect("a head");
    let lines: Vec<&str> = head.lines().collect();
    assert_eq!(
        lines[..9],
        [
            "From: \"Example Desk\" <desk@example.com>",
            "To: <ada@example.org>",
            "Reply-To: <hello@example.com>",
            "Subject: Thanks, it is 2026-11-20",
            "Date: Fri, 8 Jan 2027 09:00:00 +0000",
            "Message-ID: <01940000-0000-7000-8000-000000000001.acknowledgement@example.com>",
            "Auto-Submitted: auto-replied",
            "X-Auto-Response-Suppress: All",
            "MIME-Version: 1.0",
        ],
    );
    let message = MessageParser::default().parse(message.as_bytes()).expect("a message");
    assert_eq!(message.body_text(0).expect("a text"), "We read it on 2026-11-20.\r\n");
    assert_eq!(message.body_html(0).expect("a text"), "<p>We read it on 2026-11-20.</p>\r\n");
}

#[test]
fn a_repeat_that_renews_the_link_has_the_day_of_the_repeat() {
    let mailer = mailer();
    let [(_, text, from)] = &mailer.texts[..] else { panic!("one text") };
    let hold = Hold { since: now(), because: String::new() };
    let entry = Submission { held: Some(hold), ..submission(&[("email", "ada@example.org")]) };
    for (token, day) in [(Some("token"), "2027-01-08"), (None, "2026-11-20")] {
        let bytes = mailer.compose(text, &from.for_recipient("ada@example.org"), &entry, now(), token);
        let message = String::from_utf8(bytes).expect("it is ASCII");
        assert!(message.contains(&format!("We read it on {day}.")), "{message}");
    }
}

#[test]
fn nothing_that_the_visitor_wrote_is_in_the_mail() {
    let plain = composed(&mailer(), &[("email", "ada@example.org")]);
    for payload in corpus::payloads() {
        let fields =
            [("name", payload.as_str()), ("email", "ada@example.org"), ("message", payload.as_str())];
        assert_eq!(composed(&mailer(), &fields), plain, "{payload:?}");
    }
}

#[tokio::test]
async fn an_address_that_gets_no_mail_is_never_sent_to_the_server() {
    // Nothing listens on this port, so an attempt to connect would fail with another cause.
    for email in ["desk@example.com", "no-reply@example.org", "a@[127.0.0.1]", "a\r\nRCPT TO:<b@example.org>"]
    {
        let outcome = mailer().send(&submission(&[("email", email)]), Timestamp::UNIX_EPOCH, None).await;
        let Outcome::Failed(failure) = outcome else { panic!("{email}") };
        assert_eq!(failure.cause, Cause::Refused);
        assert!(failure.answer.starts_with("this address gets no mail: "), "{}", failure.answer);
    }
}

fn mailer() -> VisitorMailer {
    let addresses = MailAddresses::new("desk@example.com", "Example", &["team@example.com".to_owned()]);
    VisitorMailer::new(&VisitorMailOptions {
        rule: VisitorRule {
            mail: VisitorMail::Acknowledgement,
            own_addresses: ["desk@example.com".to_owned()].into(),
            limits: HourlyLimits { all: 1, network: None, domain: None },
            confirmations: Vec::new(),
        },
        texts: vec![(
            "contact".to_owned(),
            MailText {
                subject: "Thanks, it is {date}".to_owned(),
                from_name: "Example Desk".to_owned(),
                reply_to: "hello@example.com".to_owned(),
                text: "We read it on {date}.\n".to_owned(),
                html: "<p>We read it on {date}.</p>\n".to_owned(),
            },
        )],
        smtp: SmtpOptions {
            host: "127.0.0.1".to_owned(),
            port: 9,
            tls: SmtpTls::None,
            login: None,
            helo: None,
            addresses: addresses.expect("they are valid"),
            extra_roots: None,
            deadlines: SmtpDeadlines::default(),
        },
        link: String::new(),
    })
}

fn composed(mailer: &VisitorMailer, fields: &[(&str, &str)]) -> String {
    let submission = submission(fields);
    let [(_, text, from)] = &mailer.texts[..] else { panic!("one text") };
    let addresses = from.for_recipient(submission.get("email").expect("an address"));
    String::from_utf8(mailer.compose(text, &addresses, &submission, now(), None)).expect("it is ASCII")
}

fn now() -> Timestamp {
    "2027-01-08T09:00:00Z".parse().expect("a time")
}

fn submission(fields: &[(&str, &str)]) -> Submission {
    Submission {
        id: Uuid::from_u128(0x0194_0000_0000_7000_8000_0000_0000_0001),
        form: "contact".to_owned(),
        definition: None,
        received_at: "2026-11-20T14:03:05.120Z".parse::<Timestamp>().expect("a time"),
        status: Status::Waiting,
        held: None,
        screening: None,
        released_at: None,
        agent: None,
        error: None,
        fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect(),
        sealed: None,
        source: String::new(),
        repeats: 0,
        confirmation: None,
        lead: frontdesk_forms::LeadSource::default(),
    }
}
