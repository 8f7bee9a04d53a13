//! Writes a `mailto:` link for a reply (RFC 6068), with the message quoted.

use super::request::encode;
use frontdesk_forms::text::{cut_by, visible, with_line_feeds};
use frontdesk_inbox::submission::Submission;

/// Maximum length of a link in bytes. Some mail programs ignore longer links.
const MAX_LINK: usize = 1_999;
/// Maximum length of the site's title in a subject, in bytes before encoding.
const MAX_TITLE: usize = 200;

/// Maximum length in bytes of the fixed text of a reply's template, encoded for a link, without placeholders.
const MAX_REPLY_TEXT: usize = 900;
/// Maximum number of placeholders in the text of a reply.
const MAX_PLACEHOLDERS: usize = 8;
/// Maximum length in bytes of each value except the quotation, encoded for the link.
const MAX_VALUE: usize = 90;

/// The text of replies to a form's submissions, with placeholders in braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyTemplate(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The name of the site.
    Site,
    /// The visitor's message, with `> ` at the start of each line.
    Quote,
    Field(String),
}

impl ReplyTemplate {
    /// Parses a text with the placeholders `{quote}`, `{site}` and the names of fields for which `is_field`
    /// returns true; spaces around a name do not matter. `{{` and `}}` stand for braces. The error says what
    /// is wrong, such as more than `MAX_REPLY_TEXT` bytes, encoded for a link, or `MAX_PLACEHOLDERS`
    /// placeholders.
    pub fn parse(text: &str, is_field: impl Fn(&str) -> bool) -> Result<ReplyTemplate, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = ["{{", "}}"].iter().find_map(|brace| rest.strip_prefix(brace)) {
                literal.push_str(&rest[..1]);
                rest = after;
                continue;
            }
            let Some((name, after)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
                return Err("it has a brace without its counterpart; write {{ or }} for a brace".to_owned());
            };
            parts.push(Part::Text(std::mem::take(&mut literal)));
            parts.push(match name.trim() {
                "quote" => Part::Quote,
                "site" => Part::Site,
                name if is_field(name) => Part::Field(name.to_owned()),
                name => {
                    return Err(format!(
                        "`{{{name}}}` is neither {{quote}}, {{site}} nor a field of the form"
                    ));
                }
            });
            rest = after;
        }
        parts.push(Part::Text(literal + rest));
        let size = |part: &Part| if let Part::Text(text) = part { encode_lines(text).len() } else { 0 };
        if parts.iter().map(size).sum::<usize>() > MAX_REPLY_TEXT {
            return Err(format!("it has more than {MAX_REPLY_TEXT} bytes as part of a link"));
        }
        if parts.iter().filter(|part| !matches!(part, Part::Text(_))).count() > MAX_PLACEHOLDERS {
            return Err(format!("it has more than {MAX_PLACEHOLDERS} placeholders"));
        }
        Ok(ReplyTemplate(parts))
    }

    /// The text for a submission, encoded, with at most `limit` bytes. Cuts the quotation; other values are
    /// cut to [`MAX_VALUE`] bytes. Several quotations share the space equally. A field that was not filled in
    /// is empty. `None` if the text is too long without the quotation.
    fn render(&self, submission: &Submission, site: &str, limit: usize) -> Option<String> {
        let value = |text: &str| encode(cut_by(&visible(text.trim()), MAX_VALUE, encoded_length));
        let pieces = self.0.iter().map(|part| match part {
            Part::Text(text) => Some(encode_lines(text)),
            Part::Site => Some(value(site)),
            Part::Field(name) => {
                let found = submission.fields.iter().find(|(field, _)| field == name);
                Some(found.map(|(_, field)| value(&field.display())).unwrap_or_default())
            }
            Part::Quote => None,
        });
        let pieces: Vec<Option<String>> = pieces.collect();
        let fixed: usize = pieces.iter().flatten().map(String::len).sum();
        let quotes = pieces.iter().filter(|piece| piece.is_none()).count().max(1);
        let left = limit.checked_sub(fixed)? / quotes;
        // The text that replaces each `{quote}` placeholder; `pieces` contains `None` in its place.
        let quote = submission.preview().map(|message| quote_lines(&message, left)).unwrap_or_default();
        Some(pieces.into_iter().map(|piece| piece.unwrap_or_else(|| quote.clone())).collect())
    }
}

/// A link that opens the operator's mail program, of at most [`MAX_LINK`] bytes. `None` without an address.
/// Without a template, or if the link has no space for its text, the message is quoted below two empty lines.
pub(super) fn reply_link(
    submission: &Submission,
    site: &str,
    template: Option<&ReplyTemplate>,
) -> Option<String> {
    let address = submission.email().filter(|address| !address.is_empty())?;
    let site = cut_by(site, MAX_TITLE, char::len_utf8);
    let subject =
        if site.is_empty() { "Re: your message".to_owned() } else { format!("Re: your message to {site}") };
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, ""));
    let start = format!("mailto:{}@{}?subject={}&body=", encode(local), encode(domain), encode(&subject));
    let limit = MAX_LINK.saturating_sub(start.len());
    let body = template.and_then(|template| template.render(submission, site, limit));
    let body = body.or_else(|| submission.preview().map(|message| quote(&message, limit)));
    Some(start + &body.unwrap_or_default())
}

/// The message as a quotation below two empty lines, encoded. Cuts the message so that the result has at most
/// `limit` bytes; it is empty if not even the beginning of the message fits.
fn quote(message: &str, limit: usize) -> String {
    let space = encode("\r\n\r\n");
    let lines = quote_lines(message, limit.saturating_sub(space.len()));
    if lines.is_empty() { lines } else { space + &lines }
}

/// The message as a quotation of at most `limit` bytes, encoded. If it is too long, cuts it and adds a line
/// with `…`; empty if not even the beginning of the message fits.
fn quote_lines(message: &str, limit: usize) -> String {
    let message = with_line_feeds(message);
    let quoted = |text: &str, end: &str| {
        let lines = text.lines().map(|line| format!("> {line}\r\n")).collect::<String>();
        encode(&format!("{lines}{end}"))
    };
    let whole = quoted(&message, "");
    if whole.len() <= limit {
        return whole;
    }
    let end = "> …\r\n";
    let encoded_length = |c: char| match c {
        '\n' => encode("\r\n> ").len(),
        c => encoded_length(c),
    };
    // Reserve bytes for the `> ` and the line break of the first line, and for the line with `…` at the end.
    let fixed = quoted("", end).len() + encode("> \r\n").len();
    let shown = cut_by(&message, limit.saturating_sub(fixed), encoded_length);
    if shown.is_empty() { String::new() } else { quoted(shown, end) }
}

fn encoded_length(c: char) -> usize {
    encode(c.encode_utf8(&mut [0; 4])).len()
}

/// Encodes text for a link, with CR LF as line breaks (RFC 6068 §5).
fn encode_lines(text: &str) -> String {
    encode(&with_line_feeds(text).replace('\n', "\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_inbox::submission::Status;

    fn link(fields: &[(&str, &str)]) -> Option<String> {
        link_from(fields, "A & B")
    }

    fn link_from(fields: &[(&str, &str)], site: &str) -> Option<String> {
        reply_link(&submission(fields), site, None)
    }

    fn submission(fields: &[(&str, &str)]) -> Submission {
        Submission {
            id: uuid::Uuid::nil(),
            form: "contact".to_owned(),
            definition: None,
            received_at: jiff::Timestamp::UNIX_EPOCH,
            status: Status::Kept,
            held: None,
            screening: None,
            released_at: None,
            error: None,
            agent: None,
            confirmation: None,
            sealed: None,
            fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect(),
            source: String::new(),
            repeats: 0,
            lead: frontdesk_forms::LeadSource::default(),
        }
    }

    fn template(text: &str) -> Result<ReplyTemplate, String> {
        ReplyTemplate::parse(text, |name| ["name", "email"].contains(&name))
    }

    #[test]
    fn a_template_places_values_and_the_quotation() {
        let found =
            submission(&[("email", "ada@example.com"), ("name", "Ada & Bob\r\nEve"), ("message", "Hi\nyou")]);
        let text = template("Dear {name},\n\n{ quote }{{}} {site}{email}").unwrap();
        let link = reply_link(&found, "A & B", Some(&text)).unwrap();
        let body = link.split_once("&body=").unwrap().1;
        let expected = "Dear Ada & Bob⏎Eve,\r\n\r\n> Hi\r\n> you\r\n{} A & Bada@example.com";
        assert_eq!(body, encode(expected));
        let without = submission(&[("email", "ada@example.com")]);
        let link = reply_link(&without, "", Some(&template("Dear {name},{quote}").unwrap())).unwrap();
        assert_eq!(link.split_once("&body=").unwrap().1, encode("Dear ,"));
    }

    #[test]
    fn a_link_from_a_template_has_less_than_2000_bytes() {
        let long = "水泵".repeat(900);
        let found = submission(&[("email", "ada@example.com"), ("name", &long), ("message", &long)]);
        for text in [
            "{quote}{quote}{name}{name}{name}{site}{site}{site}".to_owned(),
            format!("{}{{quote}}", "x".repeat(MAX_REPLY_TEXT)),
        ] {
            let link = reply_link(&found, &long, Some(&template(&text).unwrap())).unwrap();
            assert!(link.len() < 2000, "{}", link.len());
            assert!(link.contains("%3E%20%E6%B0%B4"), "{link}");
        }
    }

    #[test]
    fn a_wrong_template_is_refused_with_the_reason() {
        for (text, reason) in [
            ("Dear {company}", "`{company}` is neither {quote}, {site} nor a field of the form"),
            ("Dear {name", "it has a brace without its counterpart; write {{ or }} for a brace"),
            ("Dear name}", "it has a brace without its counterpart; write {{ or }} for a brace"),
        ] {
            assert_eq!(template(text), Err(reason.to_owned()));
        }
        assert!(template(&"ä".repeat(MAX_REPLY_TEXT / 2)).unwrap_err().contains("more than 900 bytes"));
        assert!(template(&"{name}".repeat(9)).unwrap_err().contains("more than 8 placeholders"));
    }

    #[test]
    fn the_message_is_quoted() {
        assert_eq!(
            link(&[("email", "ada@example.com"), ("message", "Hi,\u{b}you")]).unwrap(),
            "mailto:ada@example.com?subject=Re%3A%20your%20message%20to%20A%20%26%20B&body=%0D%0A%0D%0A%3E%20Hi%2C%0D%0A%3E%20you%0D%0A"
        );
        assert_eq!(link(&[("name", "Ada")]), None);
    }

    #[test]
    fn a_link_has_less_than_2000_bytes_in_any_script() {
        let local = format!("\"{}\"", "%".repeat(60));
        let address = format!("{local}@{}.example", "a".repeat(60));
        for text in [
            "Добрый день, нам нужна цена на насос. ",
            "请报一下水泵的价格，谢谢。",
            "👨‍👩‍👧‍👦",
            "x\r\n",
            "\n",
            "Hello ",
        ] {
            let message = text.repeat(500);
            for (address, site) in [("ada@example.com", "A"), (&address, &*"水泵".repeat(200))] {
                let link = link_from(&[("email", address), ("message", &message)], site).unwrap();
                assert!(link.len() < 2000, "{}", link.len());
                assert!(
                    link.len() > 1900 - 60 && link.ends_with("%3E%20%E2%80%A6%0D%0A"),
                    "{} {link}",
                    link.len()
                );
            }
        }
        let family = link(&[("email", "ada@example.com"), ("message", &"👨‍👩‍👧‍👦".repeat(99))]).unwrap();
        let whole = encode("👨‍👩‍👧‍👦");
        let rest = family.split("%3E%20").nth(1).unwrap().strip_suffix("%0D%0A").unwrap().replace(&whole, "");
        assert_eq!(rest, "", "no family is divided");
    }

    #[test]
    fn an_address_cannot_add_headers_or_recipients() {
        let link =
            link(&[("email", "a?bcc=b&cc=c,d@example.com"), ("message", &"x&bcc=y ".repeat(1000))]).unwrap();
        assert!(link.starts_with("mailto:a%3Fbcc%3Db%26cc%3Dc%2Cd@example.com?subject="), "{link}");
        assert_eq!(link.matches(['&', '?']).count(), 2, "{link}");
        assert!(link.len() < 2000, "{}", link.len());
    }
}
