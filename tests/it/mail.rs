//! Messages pass through real mail servers unchanged.

use frontdesk_deliver::mail::{self, MailAddresses};
use frontdesk_deliver::notification::{Notification, Topic};
use frontdesk_deliver::smtp::{Smtp, SmtpDeadlines, SmtpOptions, SmtpTls};
use frontdesk_inbox::submission::delivery_outcome::Outcome;

use crate::corpus;
use crate::support::mail_server::{MailServer, Software};

const MESSAGES: usize = 20;

#[test]
#[ignore = "needs unpacked packages and root: scripts/test channels"]
fn twenty_messages_go_through_opensmtpd_and_arrive_as_they_were_written() {
    send_twenty_messages(Software::OpenSmtpd);
}

#[test]
#[ignore = "needs unpacked packages and root: scripts/test channels"]
fn twenty_messages_go_through_postfix_and_arrive_as_they_were_written() {
    send_twenty_messages(Software::Postfix);
}

#[test]
#[ignore = "needs unpacked packages and root: scripts/test channels"]
fn twenty_messages_go_through_exim_and_arrive_as_they_were_written() {
    send_twenty_messages(Software::Exim);
}

fn send_twenty_messages(software: Software) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = MailServer::start(software, folder.path());
    let addresses =
        MailAddresses::new("desk@example.com", "Example Company", &["team@example.com".to_owned()]);
    let addresses = addresses.expect("they are addresses");
    let smtp = Smtp::new(SmtpOptions {
        host: server.address.ip().to_string(),
        port: server.address.port(),
        tls: SmtpTls::None,
        login: None,
        helo: None,
        addresses: addresses.clone(),
        extra_roots: None,
        deadlines: SmtpDeadlines::default(),
    });
    let payloads = corpus::payloads();
    let notices: Vec<Notification> = payloads
        .iter()
        .step_by(payloads.len() / MESSAGES)
        .take(MESSAGES)
        .map(|payload| notice(payload))
        .collect();
    assert_eq!(notices.len(), MESSAGES);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for notice in &notices {
            let outcome = smtp.send(notice).await;
            assert!(matches!(&outcome, Outcome::Delivered(said) if said.starts_with("250 ")), "{outcome:?}");
        }
    });

    let arrived = server.messages(MESSAGES);
    assert_eq!(arrived.len(), MESSAGES);
    for notice in &notices {
        // The server adds lines at the top, and a Maildir has this system's line ends.
        let written =
            String::from_utf8(mail::compose(&addresses, notice)).expect("it is ASCII").replace("\r\n", "\n");
        let copies = arrived.iter().filter(|message| message.ends_with(written.as_bytes())).count();
        assert_eq!(copies, 1, "{written}");
    }
    for message in &arrived {
        let head = String::from_utf8_lossy(message).to_ascii_lowercase();
        assert!(
            head.starts_with("return-path: <desk@example.com>\n") && head.contains("\nreceived: "),
            "{head}"
        );
    }
}

fn notice(payload: &str) -> Notification {
    Notification {
        is_suspicious: false,
        may_be_there: false,
        id: uuid::Uuid::now_v7(),
        topic: Topic::Submission,
        created_at: "2026-11-20T14:03:05.120Z".parse().expect("a time"),
        dated_at: "2026-11-20T14:03:05.120Z".parse().expect("a time"),
        form: Some("contact".to_owned()),
        definition: None,
        title: format!("Contact: {payload}"),
        lines: Vec::new(),
        lead: frontdesk_forms::LeadSource::default(),
        fields: vec![
            ("name".to_owned(), payload.into()),
            ("email".to_owned(), "\"ada l\"@example.org".into()),
            ("message".to_owned(), payload.into()),
        ],
    }
}
