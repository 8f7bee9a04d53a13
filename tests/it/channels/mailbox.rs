//! From the form to the mailbox, through Debian's OpenSMTPD.

use std::collections::HashMap;

use frontdesk_inbox::submission::delivery::DeliveryState;
use mail_parser::MessageParser;

use crate::support::channel_site::{ChannelSite, EMAIL, smtp};
use crate::support::mail_server::{MailServer, Software};

const SUBMISSIONS: usize = 100;

#[test]
#[ignore = "needs unpacked packages and root: scripts/test channels"]
fn a_hundred_submissions_are_a_hundred_mails() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = MailServer::start(Software::OpenSmtpd, folder.path());
    let site = ChannelSite::open(&smtp("mail", server.address.port(), ""), &[]);
    for number in 0..SUBMISSIONS {
        assert_eq!(site.post(number).status, 200);
    }
    site.wait_for_count("mail", DeliveryState::Delivered, SUBMISSIONS);
    let messages = server.messages(SUBMISSIONS);
    assert_eq!(messages.len(), SUBMISSIONS);
    let mut seen: HashMap<String, usize> = HashMap::new();
    for message in &messages {
        let message = MessageParser::default().parse(message).expect("a message");
        let id = message.header("X-Frontdesk-Id").and_then(|id| id.as_text()).expect("an id").to_owned();
        let reply_to = message.reply_to().and_then(|list| list.first()).and_then(|one| one.address());
        assert_eq!(reply_to, Some(EMAIL));
        *seen.entry(id).or_default() += 1;
    }
    for submission in site.server.inbox() {
        let id = submission["id"].as_str().expect("an id");
        assert_eq!(seen.get(id), Some(&1), "{id}");
        assert_eq!(submission["status"], "delivered");
    }
    site.assert_discreet();
}
