//! Composes and sends mails to visitors. They contain only the operator's text: nothing that the visitor sent
//! except, as the recipient, the address.

use jiff::Timestamp;
use mail_builder::MessageBuilder;
use mail_builder::headers::address::Address;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;

use super::mail::{MailAddresses, alternatives, subject_line, unstructured_header};
use super::smtp::{Smtp, SmtpOptions};
use frontdesk_inbox::submission::Submission;
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome};
use frontdesk_inbox::submission::visitor_mail::{VisitorMail, VisitorRule};

/// The operator's text. `{date}` stands for the day on which the visitor sent the form, and `{confirm_link}`
/// for the link that confirms the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailText {
    pub subject: String,
    /// The sender's display name. If empty, the mail has the display name of the channel's sender.
    pub from_name: String,
    /// The address for replies. If empty, replies go to the sender's address.
    pub reply_to: String,
    pub text: String,
    pub html: String,
}

#[derive(Clone, Debug)]
pub struct VisitorMailOptions {
    pub rule: VisitorRule,
    /// The name of each form, and the text of the mails to its visitors.
    pub texts: Vec<(String, MailText)>,
    /// The mail server, and the sender. The recipients are not used.
    pub smtp: SmtpOptions,
    /// The link that confirms an address, without the token.
    pub link: String,
}

pub struct VisitorMailer {
    rule: VisitorRule,
    /// The name of each form, the text of the mails to its visitors, and their sender.
    texts: Vec<(String, MailText, MailAddresses)>,
    smtp: Smtp,
    link: String,
}

impl VisitorMailer {
    /// Creates the channel without connecting to the mail server.
    pub fn new(options: &VisitorMailOptions) -> VisitorMailer {
        let VisitorMailOptions { rule, texts, smtp, link } = options.clone();
        let with_sender = |(form, text): (String, MailText)| {
            let from = match text.from_name.as_str() {
                "" => smtp.addresses.clone(),
                name => smtp.addresses.with_name(name),
            };
            (form, text, from)
        };
        let texts = texts.into_iter().map(with_sender).collect();
        VisitorMailer { rule, texts, smtp: Smtp::new(smtp), link }
    }

    /// Sends the mail to the address in a submission, with the date `dated_at`. `token` completes the link
    /// that confirms the address. Refuses to send if there is no address, if the rule excludes it, if a mail
    /// that asks for a confirmation has no token, or if the form has no text.
    pub async fn send(&self, submission: &Submission, dated_at: Timestamp, token: Option<&str>) -> Outcome {
        // The rule may have changed since the mail was queued, so check the address again.
        let Some(email) = submission.email().filter(|email| self.rule.permits(email)) else {
            return Outcome::failed(
                Cause::Refused,
                "this address gets no mail: it belongs to a program, a role or the operator, or is no ordinary address",
            );
        };
        let asks = self.rule.mail != VisitorMail::Acknowledgement;
        if asks && token.is_none() {
            return Outcome::failed(Cause::Refused, "the address needs no confirmation any more");
        }
        let Some((_, text, from)) = self.texts.iter().find(|(form, ..)| *form == submission.form) else {
            return Outcome::failed(Cause::Refused, "the form has no such mail any more");
        };
        let addresses = from.for_recipient(email);
        let message = self.compose(text, &addresses, submission, dated_at, token);
        self.smtp.send_message(&addresses.from, &[email], &message, true).await
    }

    /// Composes the message. Dates are in UTC; for an entry that waits for its confirmation, `{date}` is the
    /// day of the last repeat that renewed the mail. Without a token, `{confirm_link}` becomes empty.
    fn compose(
        &self,
        text: &MailText,
        addresses: &MailAddresses,
        submission: &Submission,
        dated_at: Timestamp,
        token: Option<&str>,
    ) -> Vec<u8> {
        let MailText { subject, reply_to, text, html, .. } = text;
        // The hold lasts until the address is confirmed. A repeat that renews the mail restarts it.
        let hold = submission.held.as_ref().filter(|_| token.is_some());
        let day = hold.map_or(submission.received_at, |hold| hold.since).strftime("%Y-%m-%d").to_string();
        let link = token.map(|token| format!("{}{token}", self.link)).unwrap_or_default();
        // A token has no characters that are special in HTML.
        let fill = |text: &str| text.replace("{date}", &day).replace("{confirm_link}", &link);
        let bare = |address| Address::new_address(None::<&str>, address);
        let mail = self.rule.mail.name().trim_start_matches("visitor:");
        // The Message-ID contains the link's expiry time, so that a mail for a renewed confirmation is not
        // taken for a duplicate.
        let confirmation = submission.confirmation.as_ref().filter(|_| token.is_some());
        let expiry = confirmation.map(|it| format!(".{}", it.expires_at.as_second())).unwrap_or_default();
        let mut message = MessageBuilder::new()
            .from(addresses.sender())
            .to(Address::new_list(addresses.to.iter().map(|address| bare(address.as_str())).collect()));
        if !reply_to.is_empty() {
            message = message.reply_to(bare(reply_to.as_str()));
        }
        let mut bytes = Vec::new();
        message
            .header("Subject", unstructured_header(&subject_line(&fill(subject))))
            .date(Date::new(dated_at.as_second()))
            .message_id(MessageId::new(format!("{}.{mail}{expiry}@{}", submission.id, addresses.domain())))
            // Programs must not reply to this mail (RFC 3834). The second header stops automatic replies of
            // Exchange.
            .header("Auto-Submitted", Raw::new("auto-replied"))
            .header("X-Auto-Response-Suppress", Raw::new("All"))
            .body(alternatives(&fill(text), &fill(html)))
            .serialize(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests;
