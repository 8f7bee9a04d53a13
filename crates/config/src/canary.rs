//! `[canary]`: test submissions through the public address.

use std::sync::Arc;
use std::time::Duration;

use super::channel;
use super::reader::{Reader, requests};
use super::value_parsers::{self, ParseResult, Raw};
use frontdesk_canary::CanaryOptions;
use frontdesk_fetch::Url;

/// Valid range of the interval between runs.
const INTERVAL: std::ops::RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_hours(24 * 7);

/// Reads `[canary]` and the file `canary.ca_file`. [`Config::with_base_url`](super::Config::with_base_url)
/// fills in the public address and the forms. The server sets `inbox_url`, `site` and `server_checks`.
pub(super) fn read(r: &mut Reader<'_>) -> CanaryOptions {
    CanaryOptions {
        every: r.get(
            requests("canary.every"),
            "off",
            "How often a test submission is sent to each form through the public address (`base_url`), followed to each \
             channel and removed, such as \"6h\"; \"off\" disables this. You are notified if a step fails: docs/pages/canary.md.",
            value_parsers::off_or(value_parsers::duration(INTERVAL)),
        ),
        ping_url: r.get(
            requests("canary.ping_url").secret(),
            "",
            "A URL of an outside service that is requested after each success, and raises an alarm when these requests stop.",
            value_parsers::optional(parse_url),
        ),
        mailbox: r.file(
            requests("canary.mailbox"),
            "A Maildir on this machine in which mail to the team arrives: the canary then also notices mail that a server \
             accepts and loses. It removes its own mails from there.",
        ),
        extra_roots: channel::read_pem(
            r,
            requests("canary.ca_file"),
            "A PEM file with your own certificate authority, if the public address or `canary.ping_url` uses one.",
        )
        .map(|(_, roots)| roots),
        base_url: String::new(),
        forms: Vec::new(),
        inbox_url: None,
        site: Arc::default(),
        server_checks: Vec::new(),
    }
}

fn parse_url(raw: &Raw) -> ParseResult<Url> {
    let text = raw.as_text().ok_or("a URL such as \"https://ping.example.com/…\"")?;
    Url::parse_unencrypted(text).map_err(|why| format!("a URL that is requested with GET: {why}"))
}
