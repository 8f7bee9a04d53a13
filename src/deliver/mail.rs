//! Composes the mail message about a notice (RFC 5322), the same bytes for the same notice each time.
//!
//! What a visitor sent stands in the body, in the subject and, if it is an address, in `Reply-To`; nowhere else. The message is
//! 7-bit clean, its lines end in CRLF, and whatever a terminal or a mail program could take for something else than text is made
//! visible first.

use std::fmt::Write as _;

use mail_builder::MessageBuilder;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;
use mail_builder::mime::MimePart;

use super::notice::{About, Notice};
use crate::forms::Form;
use crate::forms::email::Mailbox;
use crate::forms::text::{visible, visible_lines};

/// The most characters of a subject; what is longer ends in `…`.
pub const MAX_SUBJECT_CHARS: usize = 150;

/// A value with more characters than this, or with several lines, stands in a block of its own.
const MAX_LINE_CHARS: usize = 200;

/// The most octets between `=?utf-8?Q?` and `?=`, so that a line with the header's name stays below 76 (RFC 2047 §2).
const MAX_WORD_OCTETS: usize = 52;

/// Whom a channel's messages come from and go to: addresses of the operator's that have been checked.
#[derive(Clone, Debug)]
pub struct Addresses {
    from: String,
    from_name: String,
    to: Vec<String>,
}

impl Addresses {
    /// Each address must be a Mailbox of RFC 5321, and there must be a recipient; the error says in a sentence which is not.
    /// The name may be empty.
    pub fn new(from: &str, from_name: &str, to: &[String]) -> Result<Addresses, String> {
        if Mailbox::parse(from).is_none() {
            return Err("`from` is not an e-mail address.".to_owned());
        }
        if to.is_empty() {
            return Err("`to` names nobody.".to_owned());
        }
        if let Some(at) = to.iter().position(|address| Mailbox::parse(address).is_none()) {
            return Err(format!("`to`: number {} is not an e-mail address.", at + 1));
        }
        let from_name = visible(from_name.trim());
        Ok(Addresses { from: from.to_owned(), from_name, to: to.to_vec() })
    }

    /// The sender, as it stands in the envelope too.
    pub fn from(&self) -> &str {
        &self.from
    }

    /// The recipients; at least one.
    pub fn to(&self) -> &[String] {
        &self.to
    }

    /// The sender's domain, or its address literal with the brackets.
    pub fn domain(&self) -> &str {
        self.from.rsplit_once('@').map_or("localhost", |(_, domain)| domain)
    }
}

/// The whole message. It ends in CRLF, and no line is longer than 998 octets.
pub fn compose(addresses: &Addresses, notice: &Notice) -> Vec<u8> {
    let text = plain_text(notice).replace('\n', "\r\n");
    let html = html(notice).replace('\n', "\r\n");

    // Of a hash of what it divides nobody can write that hash into it; `=_` occurs in no quoted-printable text (RFC 2045 §6.7).
    let digest = blake3::Hasher::new().update(text.as_bytes()).update(html.as_bytes()).finalize();
    let boundary = format!("=_{}", &digest.to_hex()[..32]);
    let alternatives = MimePart::new(
        ContentType::new("multipart/alternative").attribute("boundary", boundary),
        vec![MimePart::new("text/plain", text), MimePart::new("text/html", html)],
    );

    let name = (!addresses.from_name.is_empty()).then_some(addresses.from_name.as_str());
    let to =
        addresses.to.iter().map(|address| Address::new_address(None::<&str>, address.as_str())).collect();
    let mut message = MessageBuilder::new()
        .from(Address::new_address(name, addresses.from.as_str()))
        .to(Address::new_list(to));
    if let Some(visitor) = reply_to(notice) {
        message = message.reply_to(Address::new_address(None::<&str>, visitor));
    }
    let mut bytes = Vec::new();
    message
        .header("Subject", unstructured(&subject(&notice.title)))
        .date(Date::new(notice.created_at.as_second()))
        .message_id(MessageId::new(message_id(notice, addresses.domain())))
        .header("Auto-Submitted", Raw::new("auto-generated"))
        .header("X-Frontdesk-Id", Raw::new(notice.id.to_string()))
        .body(alternatives)
        .serialize(&mut bytes);
    bytes
}

/// What a notice is about, as it stands in identifiers.
pub fn kind(about: About) -> &'static str {
    match about {
        About::Submission => "submission",
        About::Digest => "digest",
        About::Flood => "flood",
        About::Canary => "canary",
    }
}

/// Without the angle brackets; the same in every attempt.
fn message_id(notice: &Notice, domain: &str) -> String {
    format!("{}.{}@{domain}", notice.id, kind(notice.about))
}

/// The visitor's address, if it is one. A Mailbox holds neither line breaks nor anything beyond ASCII.
fn reply_to(notice: &Notice) -> Option<&str> {
    let email = notice.get("email").filter(|_| notice.about == About::Submission)?;
    Mailbox::parse(email).map(|_| email)
}

fn subject(title: &str) -> String {
    let title = visible(title.trim());
    if title.chars().count() <= MAX_SUBJECT_CHARS {
        return title;
    }
    title.chars().take(MAX_SUBJECT_CHARS - 1).chain(['…']).collect()
}

/// A header's text, in encoded words unless it is plain. What only looks like an encoded word is encoded as well, because a
/// mail program would decode it to something else.
fn unstructured(text: &str) -> HeaderType<'static> {
    let is_plain = text.len() <= 60
        && text.bytes().all(|b| (b' '..=b'~').contains(&b))
        && !text.contains("=?")
        && !text.contains("  ")
        && text.trim() == text;
    Raw::new(if is_plain { text.to_owned() } else { encoded_words(text) }).into()
}

/// RFC 2047's "Q" encoding of everything but ASCII letters and digits. No character is divided between words (§5).
fn encoded_words(text: &str) -> String {
    let mut words = vec![String::new()];
    for c in text.chars() {
        let mut octets = String::new();
        match c {
            ' ' => octets.push('_'),
            c if c.is_ascii_alphanumeric() => octets.push(c),
            c => {
                for octet in c.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(octets, "={octet:02X}");
                }
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

/// The field's label in the form's definition, or its name where the form has none of that name any more.
fn label(notice: &Notice, name: &str) -> String {
    let form = notice.form.as_deref().and_then(Form::named);
    let fields =
        form.into_iter().flat_map(|form| form.fields.iter().chain(form.alternative.unwrap_or_default()));
    let label = fields.into_iter().find_map(|field| (field.name == name).then_some(field.label));
    label.map_or_else(|| visible(name), str::to_owned)
}

/// Blocks are indented, so that no line of a visitor's can pass for one of ours.
fn plain_text(notice: &Notice) -> String {
    let mut text = String::new();
    for sentence in &notice.words {
        let _ = writeln!(text, "{}", visible(sentence));
    }
    if !notice.words.is_empty() {
        text.push('\n');
    }
    for (name, value) in &notice.fields {
        let label = label(notice, name);
        let value = visible_lines(value);
        if value.contains('\n') || value.chars().count() > MAX_LINE_CHARS {
            let _ = writeln!(text, "{label}:\n");
            for line in value.lines() {
                let _ = writeln!(text, "    {line}");
            }
            text.push('\n');
        } else {
            let _ = writeln!(text, "{label}: {value}");
        }
    }
    if !notice.fields.is_empty() && !text.ends_with("\n\n") {
        text.push('\n');
    }
    let _ = writeln!(text, "Received: {}\nId: {}", received(notice), notice.id);
    text
}

/// The same without style, script or anything to be fetched. Each value is isolated, so that its writing direction ends with it.
fn html(notice: &Notice) -> String {
    let mut html = String::from("<!doctype html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = writeln!(html, "<title>{}</title>\n</head>\n<body>", escape(&subject(&notice.title)));
    for sentence in &notice.words {
        let _ = writeln!(html, "<p><bdi>{}</bdi></p>", escape(&visible(sentence)));
    }
    if !notice.fields.is_empty() {
        html.push_str("<dl>\n");
        for (name, value) in &notice.fields {
            let value = escape(&visible_lines(value)).replace('\n', "<br>\n");
            let _ = writeln!(html, "<dt>{}</dt>\n<dd><bdi>{value}</bdi></dd>", escape(&label(notice, name)));
        }
        html.push_str("</dl>\n");
    }
    let _ = writeln!(html, "<p>Received: {}<br>\nId: {}</p>", received(notice), notice.id);
    html.push_str("</body>\n</html>\n");
    html
}

fn received(notice: &Notice) -> String {
    format!("{:.3}", notice.created_at)
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
