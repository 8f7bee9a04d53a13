//! Composes the e-mail message for a notification (RFC 5322). The same notification always produces the same
//! bytes.
//!
//! Text that a visitor wrote appears only in the body, in the subject and, if it is a valid address, in
//! `Reply-To`. The message is 7-bit clean, its lines end in CRLF, and control characters are made visible.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use mail_builder::MessageBuilder;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;
use mail_builder::mime::MimePart;

use super::notification::{Notification, Topic};
use frontdesk_forms::FieldValue;
use frontdesk_forms::email::Mailbox;
use frontdesk_forms::text::{escape_html, shorten, visible, visible_lines};
use frontdesk_inbox::submission::first_email;

/// The header that lets mail filters recognize the canary's mails. Its value is the id of the run.
pub const CANARY_HEADER: &str = "X-Frontdesk-Canary";

/// Longer subjects are truncated and end in `…`.
pub const MAX_SUBJECT_CHARS: usize = 150;

/// Maximum length, in characters, of a value that is written on one line. Longer values and multi-line values
/// are written as indented blocks.
const MAX_LINE_CHARS: usize = 200;

/// Maximum number of octets between `=?utf-8?Q?` and `?=`. Keeps each line, including the header's name,
/// within 76 octets (RFC 2047 §2).
const MAX_WORD_OCTETS: usize = 52;

#[derive(Clone, Debug)]
pub struct MailAddresses {
    /// The sender's address, which is also the envelope sender.
    pub(super) from: String,
    from_name: String,
    /// The addresses of all recipients, at least one.
    pub(crate) to: Vec<String>,
    /// Selects the recipients of each submission from `to`. `None` sends every submission to all of them.
    by_value: Option<Box<RecipientsByValue>>,
}

/// Recipients that depend on the value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipientsByValue {
    pub field: String,
    /// Values of the field, each with its recipients. A submission that has several of these values goes to
    /// the recipients of each.
    pub cases: Vec<(FieldValue, Vec<String>)>,
    /// The recipients of submissions that get none from `cases`. At least one.
    pub otherwise: Vec<String>,
}

impl RecipientsByValue {
    /// The recipients of a submission with the value `given` in the field (`None`: no value): those of all
    /// matching cases, or `otherwise` if these have none. Repeats an address that several of them contain.
    pub fn of(&self, given: Option<&FieldValue>) -> impl Iterator<Item = &str> {
        let has = |value: &FieldValue| given.is_some_and(|given| given.has(value));
        let mut chosen: Vec<&String> =
            self.cases.iter().filter(|(value, _)| has(value)).flat_map(|(_, to)| to).collect();
        if chosen.is_empty() {
            chosen.extend(&self.otherwise);
        }
        chosen.into_iter().map(String::as_str)
    }
}

impl MailAddresses {
    /// Checks that each address is a Mailbox (RFC 5321) and that there is at least one recipient. The error
    /// names the invalid option. The display name may be empty. Repeated recipients are dropped.
    pub fn new(from: &str, from_name: &str, to: &[String]) -> Result<MailAddresses, String> {
        if Mailbox::parse(from).is_none() {
            return Err("`from` is not an e-mail address.".to_owned());
        }
        if to.is_empty() {
            return Err("`to` has no recipient.".to_owned());
        }
        if let Some(at) = to.iter().position(|address| Mailbox::parse(address).is_none()) {
            return Err(format!("`to`: entry {} is not an e-mail address.", at + 1));
        }
        let from_name = visible(from_name.trim());
        // Skip duplicates: if a server refuses the second copy, the address would count as not delivered.
        let to = to.iter().enumerate().filter(|(at, address)| !to[..*at].contains(address));
        let to = to.map(|(_, address)| address.clone()).collect();
        Ok(MailAddresses { from: from.to_owned(), from_name, to, by_value: None })
    }

    /// Sends each submission only to the recipients for its value. Addresses that are not in `to` get
    /// nothing.
    #[must_use]
    pub fn with_recipients_by_value(self, by_value: RecipientsByValue) -> MailAddresses {
        MailAddresses { by_value: Some(Box::new(by_value)), ..self }
    }

    /// The rule that selects recipients by a field's value, if there is one.
    pub fn by_value(&self) -> Option<&RecipientsByValue> {
        self.by_value.as_deref()
    }

    /// The same sender with the recipients of this notification. The configuration ensures that there is at
    /// least one: `to` contains all recipients of the rule, and the rule has some for other values (`*`).
    /// Notifications that are not about a submission go to all recipients.
    pub(super) fn for_notification(&self, notice: &Notification) -> Cow<'_, MailAddresses> {
        let by_value = self.by_value.as_ref().filter(|_| notice.topic == Topic::Submission);
        let Some(by_value) = by_value else { return Cow::Borrowed(self) };
        let given = notice.fields.iter().find(|(name, _)| *name == by_value.field).map(|(_, value)| value);
        let chosen: Vec<&str> = by_value.of(given).collect();
        let to = self.to.iter().filter(|address| chosen.contains(&address.as_str())).cloned().collect();
        Cow::Owned(MailAddresses { to, by_value: None, ..self.clone() })
    }

    /// The same addresses, but with another display name for the sender.
    #[must_use]
    pub(super) fn with_name(&self, name: &str) -> MailAddresses {
        MailAddresses { from_name: visible(name.trim()), ..self.clone() }
    }

    /// The same sender, but with `email` as the only recipient. It must be a Mailbox (RFC 5321 §4.1.2), which
    /// is not checked here.
    pub(super) fn for_recipient(&self, email: &str) -> MailAddresses {
        MailAddresses { to: vec![email.to_owned()], by_value: None, ..self.clone() }
    }

    /// The sender's and the recipients' addresses.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        [&self.from].into_iter().chain(&self.to).map(String::as_str)
    }

    /// The value of the header `From`.
    pub(super) fn sender(&self) -> Address<'_> {
        let name = (!self.from_name.is_empty()).then_some(self.from_name.as_str());
        Address::new_address(name, self.from.as_str())
    }

    /// The domain of the sender's address, or the address literal with its brackets.
    pub fn domain(&self) -> &str {
        self.from.rsplit_once('@').map_or("localhost", |(_, domain)| domain)
    }
}

/// Composes the message to all of `addresses.to`, which `for_notification` has selected. It ends in CRLF, and
/// no line is longer than 998 octets (RFC 5322 §2.1.1).
pub fn compose(addresses: &MailAddresses, notice: &Notification) -> Vec<u8> {
    let alternatives = alternatives(&plain_text_body(notice), &html_body(notice));
    let bare = |address| Address::new_address(None::<&str>, address);
    let to = addresses.to.iter().map(|address| bare(address.as_str())).collect();
    let mut message = MessageBuilder::new().from(addresses.sender()).to(Address::new_list(to));
    if let Some(visitor) = reply_to(notice) {
        message = message.reply_to(bare(visitor));
    }
    if notice.topic == Topic::Canary {
        message = message.header(CANARY_HEADER, Raw::new(notice.id.to_string()));
    }
    // Submissions, which people sent, are not `Auto-Submitted`: ticket systems, such as GitLab's and
    // Discourse, drop mails with this header.
    message = if notice.topic == Topic::Submission {
        // Gmail and Outlook join mails with the same subject into a conversation unless these headers differ.
        message
            .references(MessageId::new(format!("{}.conversation@{}", notice.id, addresses.domain())))
            .header("Thread-Index", Raw::new(thread_index(notice)))
    } else {
        message.header("Auto-Submitted", Raw::new("auto-generated"))
    };
    let mut bytes = Vec::new();
    message
        .header("Subject", unstructured_header(&subject_line(&notice.title)))
        .date(Date::new(notice.dated_at.as_second()))
        .message_id(MessageId::new(message_id(notice, addresses.domain())))
        .header("X-Frontdesk-Id", Raw::new(notice.id.to_string()))
        .body(alternatives)
        .serialize(&mut bytes);
    bytes
}

/// The body of a message, as plain text and as HTML. Replaces each line feed by CRLF.
pub(super) fn alternatives(text: &str, html: &str) -> MimePart<'static> {
    let (text, html) = (text.replace('\n', "\r\n"), html.replace('\n', "\r\n"));
    // The boundary is a hash of the content, so a sender cannot forge it. `=_` never occurs in
    // quoted-printable text (RFC 2045 §6.7).
    let digest = blake3::Hasher::new().update(text.as_bytes()).update(html.as_bytes()).finalize();
    let boundary = format!("=_{}", &digest.to_hex()[..32]);
    MimePart::new(
        ContentType::new("multipart/alternative").attribute("boundary", boundary),
        vec![MimePart::new("text/plain", text), MimePart::new("text/html", html)],
    )
}

/// The Message-ID without angle brackets, the same for every attempt.
fn message_id(notice: &Notification, domain: &str) -> String {
    format!("{}.{}@{domain}", notice.id, notice.topic.name())
}

/// The header by which Exchange and Outlook find a mail's conversation (MS-OXOMSG §2.2.1.3): a reserved byte,
/// the 40 high bits of the time as a `FILETIME`, and the id of the notification.
fn thread_index(notice: &Notification) -> String {
    // A `FILETIME` counts periods of 100 ns since 1601.
    let time = notice.created_at.as_nanosecond() / 100 + 116_444_736_000_000_000;
    BASE64.encode([&[1], &(time >> 24).to_be_bytes()[11..], &notice.id.as_bytes()[..]].concat())
}

/// The visitor's address, if the notification is about a submission and the address is valid. A Mailbox is
/// ASCII without line breaks, so it cannot inject headers.
fn reply_to(notice: &Notification) -> Option<&str> {
    let email =
        first_email(notice.definition, &notice.fields).filter(|_| notice.topic == Topic::Submission)?;
    Mailbox::parse(email).map(|_| email)
}

/// The title on one line, shortened to [`MAX_SUBJECT_CHARS`], with control characters made visible.
pub(super) fn subject_line(title: &str) -> String {
    shorten(&visible(title.trim()), MAX_SUBJECT_CHARS).into_owned()
}

/// Formats an unstructured header. Encodes all text except short printable ASCII. Also encodes text that
/// looks like an encoded word, because a mail program would decode it, and outer or repeated spaces.
pub(super) fn unstructured_header(text: &str) -> HeaderType<'static> {
    let is_plain = text.len() <= 60
        && text.bytes().all(|b| (b' '..=b'~').contains(&b))
        && !text.contains("=?")
        && !text.contains("  ")
        && text.trim() == text;
    Raw::new(if is_plain { text.to_owned() } else { encoded_words(text) }).into()
}

/// Applies the "Q" encoding of RFC 2047 to everything except ASCII letters and digits. Splits long text into
/// several encoded words, but never within a character (§5).
fn encoded_words(text: &str) -> String {
    let mut words = vec![String::new()];
    for c in text.chars() {
        let mut octets = String::new();
        match c {
            ' ' => octets.push('_'),
            c if c.is_ascii_alphanumeric() => octets.push(c),
            c => {
                octets.extend(c.encode_utf8(&mut [0; 4]).bytes().map(|octet| format!("={octet:02X}")));
            }
        }
        match words.last_mut() {
            Some(word) if word.len() + octets.len() <= MAX_WORD_OCTETS => word.push_str(&octets),
            _ => words.push(octets),
        }
    }
    let words: Vec<String> = words.into_iter().map(|word| format!("=?utf-8?Q?{word}?=")).collect();
    words.join(" ")
}

/// The message as plain text. Values with several lines or more than [`MAX_LINE_CHARS`] characters are
/// indented, so that a visitor's text cannot imitate lines that the server writes.
fn plain_text_body(notice: &Notification) -> String {
    let mut text = String::new();
    for sentence in &notice.lines {
        let _ = writeln!(text, "{}", visible(sentence));
    }
    if !notice.lines.is_empty() {
        text.push('\n');
    }
    for (name, value) in &notice.fields {
        let label = notice.label_with_colon(name);
        let value = visible_lines(&value.display());
        if value.contains('\n') || value.chars().count() > MAX_LINE_CHARS {
            let _ = writeln!(text, "{label}\n");
            for line in value.lines() {
                let _ = writeln!(text, "    {line}");
            }
            text.push('\n');
        } else {
            let _ = writeln!(text, "{label} {value}");
        }
    }
    if !notice.fields.is_empty() && !text.ends_with("\n\n") {
        text.push('\n');
    }
    let _ = writeln!(text, "Received: {}\nId: {}", notice.created_at_text(), notice.id);
    text
}

/// The message as HTML, without scripts or external resources. `bdi` isolates the writing direction of each
/// value, and `pre-wrap` keeps indentation. Line breaks are `br`, for mail programs without that property.
fn html_body(notice: &Notification) -> String {
    let mut html = String::from("<!doctype html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = writeln!(html, "<title>{}</title>\n</head>\n<body>", escape_html(&subject_line(&notice.title)));
    for sentence in &notice.lines {
        let _ = writeln!(html, "<p><bdi>{}</bdi></p>", escape_html(&visible(sentence)));
    }
    if !notice.fields.is_empty() {
        html.push_str("<dl>\n");
        for (name, value) in &notice.fields {
            let value = escape_html(&visible_lines(&value.display())).replace('\n', "<br>");
            let _ = writeln!(
                html,
                "<dt>{}</dt>\n<dd dir=\"auto\" style=\"white-space:pre-wrap\"><bdi>{value}</bdi></dd>",
                escape_html(&notice.label(name))
            );
        }
        html.push_str("</dl>\n");
    }
    let _ = writeln!(html, "<p>Received: {}<br>\nId: {}</p>", notice.created_at_text(), notice.id);
    html.push_str("</body>\n</html>\n");
    html
}

#[cfg(test)]
mod tests;
