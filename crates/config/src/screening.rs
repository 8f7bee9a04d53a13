//! `[screening]`: when a submission is marked as suspicious or held.

use std::sync::Arc;
use std::time::Duration;

use super::lexicon_files;
use super::named_file;
use super::reader::{Reader, requests};
use super::value_parsers::{self, ParseResult, Raw};
use frontdesk_rspamd::{Password, RspamdOptions};
use frontdesk_screening::verdict::Signal;
use frontdesk_screening::{Domains, ScreeningOptions};

/// Maximum value of a threshold; the default thresholds are 50 and 100.
const MAX_THRESHOLD: i64 = 1000;
const RSPAMD_TIMEOUT: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(10);

/// Reads `[screening]` with the files of domains that it names and the operator's phrases, but without the
/// keys of rspamd ([`read_rspamd`]). Refuses the former table `screening.points`. The site's profile is empty
/// until the site is loaded.
pub(super) fn read(r: &mut Reader<'_>) -> ScreeningOptions {
    r.report_removed(
        "screening.points",
        "`screening.ignored_signals` lists signals that add no points; lower values of `screening.threshold` and \
         `screening.suspicious_threshold` are stricter",
    );
    ScreeningOptions {
        enabled: r.get(
            requests("screening.enabled"),
            "true",
            "Submissions that look like spam are marked as suspicious in their delivery, or held until you \
             release them: docs/pages/screening.md. None are dropped.",
            value_parsers::parse_bool,
        ),
        suspicious_threshold: r.get(
            requests("screening.suspicious_threshold"),
            "50",
            "The scores at which a submission is marked as suspicious, and at which it is held. Lower values \
             are stricter.",
            value_parsers::count(1..=MAX_THRESHOLD),
        ),
        threshold: r.get(requests("screening.threshold"), "100", "", value_parsers::count(1..=MAX_THRESHOLD)),
        ignored: r.get(
            requests("screening.ignored_signals"),
            "[]",
            "Signals that add no points, such as [\"links\", \"shouting\"]: docs/pages/screening.md names them all.",
            parse_signals,
        ),
        learn: r.get(
            requests("screening.learn"),
            "true",
            "Screening learns from what you call spam, release, discard, answer and finish: docs/pages/screening.md. It \
             stores keyed hashes of words.",
            value_parsers::parse_bool,
        ),
        disposable: read_domains(
            r,
            "screening.disposable_domains",
            "Files with one domain per line, relative to this folder: providers of disposable addresses in \
             addition to the built-in list (`-example.com` removes a domain from it), and domains to block: a \
             submission with an address at one, or a link to one, is always held.",
        ),
        blocked: read_domains(r, "screening.blocked_domains", ""),
        lexicon: lexicon_files::read(r),
        profile: Arc::default(),
    }
}

/// Reads the keys of rspamd. `None` if no URL is set; a password is then an error.
pub(super) fn read_rspamd(r: &mut Reader<'_>) -> Option<RspamdOptions> {
    let url = r.get(
        requests("screening.rspamd_url"),
        "",
        "An rspamd server of yours that is asked about new submissions, such as \"http://127.0.0.1:11333\"; empty to ask \
         none. Its opinion marks and never holds. Deliveries wait for it, at most `rspamd_timeout`. Set a password in \
         FRONTDESK_SCREENING__RSPAMD_PASSWORD, or in a file that FRONTDESK_SCREENING__RSPAMD_PASSWORD_FILE names.",
        value_parsers::optional(|raw| {
            let expected = "the URL of an rspamd server such as \"http://127.0.0.1:11333\"";
            let text = raw.as_text().ok_or(expected)?;
            RspamdOptions::parse_url(text).map_err(|why| format!("{expected}: {why}"))
        }),
    );
    let password = r.get(
        requests("screening.rspamd_password").secret(),
        "",
        "",
        value_parsers::optional(|raw| {
            Password::parse(raw.as_text().ok_or("a password of visible ASCII characters")?)
        }),
    );
    let timeout =
        r.get(requests("screening.rspamd_timeout"), "2s", "", value_parsers::duration(RSPAMD_TIMEOUT));
    r.refuse_if(
        password.is_some() && url.is_none(),
        "screening.rspamd_password",
        "has no effect without `screening.rspamd_url`",
    );
    url.map(|url| RspamdOptions { url, password, timeout })
}

/// Parses names of signals. Refuses the signals that hold a submission alone, without points: other keys set
/// their limits and lists.
fn parse_signals(raw: &Raw) -> ParseResult<Vec<Signal>> {
    let can_be_ignored = |signal: &Signal| signal.points().is_some();
    let names: Vec<&str> = Signal::ALL.into_iter().filter(can_be_ignored).map(Signal::name).collect();
    let expected = format!("a list of signals: {}", names.join(", "));
    value_parsers::parse_items(raw, &expected, |name| Signal::from_name(name).filter(can_be_ignored))
}

/// Reads the domains from the file that the key `name` specifies. Returns no domains if the key is not set,
/// or, after recording an error, if the file is unusable.
fn read_domains(r: &mut Reader<'_>, name: &'static str, documentation: &'static str) -> Domains {
    let Some(path) = r.file(requests(name), documentation) else { return Domains::default() };
    let text =
        named_file::read_text(&path).map_err(|error| format!("cannot be read: {}: {error}", path.display()));
    let domains = text.and_then(|text| {
        Domains::parse(&text).map_err(|fault| format!("is invalid: {}, {fault}", path.display()))
    });
    domains.map_err(|fault| r.refuse_if(true, name, &fault)).unwrap_or_default()
}
