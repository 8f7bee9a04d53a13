//! Writes a submission as a mail, because rspamd examines mails.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::tz::TimeZone;
use uuid::Uuid;

/// Maximum length of a line in bytes, without its end (RFC 5322 §2.1.1).
const MAX_LINE: usize = 998;

/// The parts of a submission that are sent to rspamd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The name of the form.
    pub form: String,
    /// The visitor's e-mail address, if any.
    pub from: Option<String>,
    /// The texts of the fields.
    pub texts: Vec<String>,
    pub received_at: Timestamp,
}

/// The submission as a message (RFC 5322) with a plain text. It has the fields that every mail has (`To`,
/// `Date`, `Message-ID`), because rspamd takes their absence as a sign of spam (7.5 points), and each address
/// has another domain, because a `Message-ID` in the recipient's domain is a sign of spam, too. Replaces a
/// missing or unusable `from`, and drops all but visible ASCII characters of the form's name.
pub(crate) fn compose(id: Uuid, content: &Content) -> String {
    let from = content.from.as_deref().filter(|from| is_address(from)).unwrap_or("visitor@visitor.invalid");
    let form: String = content.form.chars().filter(char::is_ascii_graphic).collect();
    let date = DateTimePrinter::new().zoned_to_string(&content.received_at.to_zoned(TimeZone::UTC));
    let mut mail = format!("From: <{from}>\r\nTo: <form@inbox.invalid>\r\nSubject: {form}\r\n");
    if let Ok(date) = date {
        let _ = write!(mail, "Date: {date}\r\n");
    }
    let _ = write!(
        mail,
        "Message-ID: <{id}@frontdesk.invalid>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Transfer-Encoding: 8bit\r\n\r\n"
    );
    for text in &content.texts {
        for line in text.lines() {
            push_line(line, &mut mail);
        }
        mail.push_str("\r\n");
    }
    mail
}

/// Whether an address is safe between angle brackets in a header field.
fn is_address(address: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '<' | '>');
    address.contains('@') && address.chars().all(is_plain)
}

/// Adds a line of a body. Wraps it if it is too long, and drops NUL and bare carriage returns, which no mail
/// may contain.
fn push_line(line: &str, mail: &mut String) {
    let mut length = 0;
    for c in line.chars().filter(|c| !matches!(c, '\0' | '\r')) {
        if length + c.len_utf8() > MAX_LINE {
            mail.push_str("\r\n");
            length = 0;
        }
        mail.push(c);
        length += c.len_utf8();
    }
    mail.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submission_becomes_a_complete_mail() {
        let content = Content {
            form: "contact".to_owned(),
            from: Some("ada@example.com".to_owned()),
            texts: vec!["Ada Lovelace".to_owned(), "Grüße\nfrom here".to_owned()],
            received_at: "2026-11-20T10:30:00Z".parse().unwrap(),
        };
        let expected = "From: <ada@example.com>\r\nTo: <form@inbox.invalid>\r\nSubject: contact\r\n\
             Date: Fri, 20 Nov 2026 10:30:00 +0000\r\nMessage-ID: <00000000-0000-0000-0000-000000000000@frontdesk.invalid>\r\n\
             MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\
             Ada Lovelace\r\n\r\nGrüße\r\nfrom here\r\n\r\n";
        assert_eq!(compose(Uuid::nil(), &content), expected);
    }

    #[test]
    fn a_visitor_cannot_add_fields_or_break_lines() {
        for from in ["a@b\r\nX: y", "a@b>\u{0}", "a b@c", "nothing", "a@b\u{85}"] {
            let content =
                Content { from: Some(from.to_owned()), form: "a\r\nX: y".to_owned(), ..Content::default() };
            let mail = compose(Uuid::nil(), &content);
            assert!(mail.starts_with("From: <visitor@visitor.invalid>\r\n"), "{from:?}: {mail}");
            assert!(!mail.contains("\r\nX:"), "{mail}");
        }
        let texts = vec![format!("{}\rx\0y\r\n.", "ä".repeat(MAX_LINE))];
        let mail = compose(Uuid::nil(), &Content { texts, ..Content::default() });
        let (_, body) = mail.split_once("\r\n\r\n").unwrap();
        let lines: Vec<&str> = body.split("\r\n").collect();
        assert_eq!((lines[0].len(), lines[1].len(), lines[2], lines[3]), (MAX_LINE, MAX_LINE, "xy", "."));
        assert!(lines.iter().all(|line| !line.contains(['\r', '\n', '\0'])));
    }
}
