//! Mails to users of the inbox: plain text, with headers that tell programs not to reply.

use jiff::Timestamp;
use mail_builder::MessageBuilder;
use mail_builder::headers::address::Address;
use mail_builder::headers::date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;

use super::mail::{subject_line, unstructured_header};
use super::smtp::{Smtp, SmtpOptions};
use frontdesk_inbox::submission::delivery_outcome::Outcome;

/// A mail to one user of the inbox: a login link, or the daily reminder.
pub struct UserMail<'a> {
    /// The user's address.
    pub to: &'a str,
    pub subject: String,
    pub text: String,
    /// The part of the message's id before the `@`.
    pub id: String,
    /// The time in the header `Date`.
    pub at: Timestamp,
}

impl UserMail<'_> {
    /// Sends the mail over a new connection, which is then closed. A refused recipient does not count against
    /// the mail server.
    pub async fn send(self, options: &SmtpOptions) -> Outcome {
        let addresses = options.addresses.for_recipient(self.to);
        let mut bytes = Vec::new();
        MessageBuilder::new()
            .from(addresses.sender())
            .to(Address::new_address(None::<&str>, self.to))
            .header("Subject", unstructured_header(&subject_line(&self.subject)))
            .date(date::Date::new(self.at.as_second()))
            .message_id(MessageId::new(format!("{}@{}", self.id, addresses.domain())))
            // Programs must not reply to this mail (RFC 3834). The second header stops automatic replies of
            // Exchange.
            .header("Auto-Submitted", Raw::new("auto-generated"))
            .header("X-Auto-Response-Suppress", Raw::new("All"))
            .text_body(self.text)
            .serialize(&mut bytes);
        let smtp = Smtp::new(options.clone());
        // `true`: a refused recipient counts against this mail, not the server, and the outcome does not name
        // it.
        let outcome = smtp.send_message(&addresses.from, &[self.to], &bytes, true).await;
        smtp.close().await;
        outcome
    }
}
