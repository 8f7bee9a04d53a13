//! Writes a `mailto:` link for a reply (RFC 6068), with the message quoted.

use super::request::encode;
use frontdesk_forms::text::cut_by;
use frontdesk_inbox::submission::Submission;

/// Maximum length of a link in bytes: some programs do nothing with longer ones.
const MAX_LINK: usize = 1_999;
/// Maximum length of the site's title in a subject, in bytes before encoding.
const MAX_TITLE: usize = 200;

/// A link that opens the operator's mail program, of at most [`MAX_LINK`] bytes. `None` without an address.
pub(super) fn reply_link(submission: &Submission, site: &str) -> Option<String> {
    let address = submission.email().filter(|address| !address.is_empty())?;
    let site = cut_by(site, MAX_TITLE, char::len_utf8);
    let subject =
        if site.is_empty() { "Re: your message".to_owned() } else { format!("Re: your message to {site}") };
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, ""));
    let start = format!("mailto:{}@{}?subject={}&body=", encode(local), encode(domain), encode(&subject));
    let body = submission.preview().map(|message| quote(&message, MAX_LINK.saturating_sub(start.len())));
    Some(start + &body.unwrap_or_default())
}

/// The message as a quotation below two empty lines, encoded. Cuts the message so that the result has at most
/// `limit` bytes; it is empty if not even the beginning of the message fits.
fn quote(message: &str, limit: usize) -> String {
    let quoted = |text: &str, end: &str| {
        let lines = text.lines().map(|line| format!("> {line}\r\n")).collect::<String>();
        encode(&format!("\r\n\r\n{lines}{end}"))
    };
    let whole = quoted(message, "");
    if whole.len() <= limit {
        return whole;
    }
    let end = "> …\r\n";
    let encoded_length = |c: char| match c {
        '\r' => 0,
        '\n' => encode("\r\n> ").len(),
        c => encode(c.encode_utf8(&mut [0; 4])).len(),
    };
    // The first line's mark and the last line's end.
    let fixed = quoted("", end).len() + encode("> \r\n").len();
    let shown = cut_by(message, limit.saturating_sub(fixed), encoded_length);
    if shown.is_empty() { String::new() } else { quoted(shown, end) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_inbox::submission::Status;

    fn link(fields: &[(&str, &str)]) -> Option<String> {
        link_from(fields, "A & B")
    }

    fn link_from(fields: &[(&str, &str)], site: &str) -> Option<String> {
        let submission = Submission {
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
        };
        reply_link(&submission, site)
    }

    #[test]
    fn the_message_is_quoted() {
        assert_eq!(
            link(&[("email", "ada@example.com"), ("message", "Hi,\r\nyou")]).unwrap(),
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
