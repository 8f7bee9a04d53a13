//! Writes a `mailto:` link for a reply (RFC 6068), with the message quoted.

use super::request::encode;
use crate::submission::Submission;

/// Maximum length of the quoted message in characters: some programs accept links of about 2,000 bytes only.
const MAX_QUOTE: usize = 900;

/// A link that opens the operator's mail program. `None` without an address.
pub(super) fn reply_link(submission: &Submission, site: &str) -> Option<String> {
    let address = submission.get("email").filter(|address| !address.is_empty())?;
    let subject =
        if site.is_empty() { "Re: your message".to_owned() } else { format!("Re: your message to {site}") };
    let mut body = String::new();
    if let Some(message) = submission.get("message") {
        let is_long = message.chars().count() > MAX_QUOTE;
        let shown: String = message.chars().take(MAX_QUOTE).collect();
        let lines = shown.lines().map(|line| format!("> {line}\r\n")).collect::<String>();
        let end = if is_long { "> …\r\n" } else { "" };
        body = format!("\r\n\r\n{lines}{end}");
    }
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, ""));
    Some(format!(
        "mailto:{}@{}?subject={}&body={}",
        encode(local),
        encode(domain),
        encode(&subject),
        encode(&body)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::Status;

    fn link(fields: &[(&str, &str)]) -> Option<String> {
        let submission = Submission {
            id: uuid::Uuid::nil(),
            form: "contact".to_owned(),
            received_at: jiff::Timestamp::UNIX_EPOCH,
            status: Status::Kept,
            held: None,
            screening: None,
            released_at: None,
            error: None,
            agent: None,
            confirmation: None,
            sealed: None,
            fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            source: String::new(),
            repeats: 0,
        };
        reply_link(&submission, "A & B")
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
    fn an_address_cannot_add_headers_or_recipients() {
        let link =
            link(&[("email", "a?bcc=b&cc=c,d@example.com"), ("message", &"x&bcc=y ".repeat(1000))]).unwrap();
        assert!(link.starts_with("mailto:a%3Fbcc%3Db%26cc%3Dc%2Cd@example.com?subject="), "{link}");
        assert_eq!(link.matches(['&', '?']).count(), 2, "{link}");
        assert!(link.len() < 2000, "{}", link.len());
    }
}
