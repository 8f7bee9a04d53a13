//! `frontdesk doctor`: sends a marked test message down each channel, looks at what the sender's domain says about its mail, and
//! says what to do.

mod dns;
mod mail_domain;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use jiff::Timestamp;
use uuid::Uuid;

use super::style;
use crate::config::Config;
use crate::deliver::digest::Digest;
use crate::deliver::notice::About;
use crate::deliver::{Channel, Kind, Notice, Options};
use crate::forms::text::visible;
use crate::limits::gate::{self, HashSecret};
use crate::store::{Reader, StoreError};
use crate::submission::delivery::State;
use crate::submission::outcome::LONGEST_ATTEMPT;
use crate::submission::outcome::{Cause, Outcome};
use dns::Resolver;
use mail_domain::Finding;

/// What to look at.
#[derive(Debug, clap::Args)]
pub(super) struct Wanted {
    /// Only this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Under which name your mail provider publishes its key (DKIM)
    #[arg(long, value_name = "NAME")]
    dkim_selector: Option<String>,
    /// The name server to ask, instead of this machine's
    #[arg(long, value_name = "ADDR:PORT")]
    resolver: Option<SocketAddr>,
}

/// Tries everything, one line each on standard output. The exit code is 1 if something has to be mended.
pub(super) fn run(config: &Config, wanted: &Wanted) -> anyhow::Result<ExitCode> {
    let mut report = Report { out: anstream::stdout().lock(), bad: 0 };
    let channels: Vec<&Options> = config.channels.iter().collect();
    if let Some(name) = &wanted.channel
        && !channels.iter().any(|channel| channel.name == *name)
    {
        let names: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
        bail!("no channel is called `{name}`; there are: {}", names.join(", "));
    }
    let is_wanted = |channel: &&&Options| wanted.channel.as_ref().is_none_or(|name| *name == channel.name);
    if channels.is_empty() {
        report
            .note("channels", "none is configured: submissions are kept in the inbox, and nobody is told")?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for channel in channels.iter().filter(is_wanted) {
        let began = Instant::now();
        let outcome = runtime.block_on(canary(channel));
        report.channel(channel, &outcome, began.elapsed())?;
    }
    // Whoever sends through a mail server sends in the name of a domain.
    let senders: BTreeSet<&str> = channels
        .iter()
        .filter(is_wanted)
        .filter_map(|channel| match &channel.kind {
            Kind::Smtp(smtp) => smtp.from.rsplit_once('@').map(|(_, domain)| domain),
            _ => None,
        })
        .collect();
    let resolver = wanted.resolver.map(Resolver::at).or_else(Resolver::of_this_machine);
    for domain in senders {
        match &resolver {
            _ if domain.starts_with('[') => report.note(domain, "an address has no records to look at")?,
            None => report
                .note(domain, "no name server is configured here: SPF, DKIM and DMARC were not looked at")?,
            Some(resolver) => {
                for (record, finding) in
                    mail_domain::examine(resolver, domain, wanted.dkim_selector.as_deref())
                {
                    report.finding(&format!("{domain} {record}"), &finding)?;
                }
            }
        }
    }
    if let Some(shared) = &config.shared_limits {
        report.finding("limits.shared_url", &shared_limits(shared))?;
        report.finding("limits.shared_secret", &hash_secret(shared))?;
    }
    attention(&mut report, config)?;
    report.out.flush()?;
    Ok(if report.bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sends a message that says that it is a test.
async fn canary(channel: &Options) -> Outcome {
    let now = Timestamp::now();
    let notice = Notice {
        is_suspicious: false,
        id: Uuid::now_v7(),
        about: About::Canary,
        created_at: now,
        form: None,
        title: "Test message of frontdesk".to_owned(),
        words: vec![
            format!("This is a test: `frontdesk doctor` sent it down the channel \"{}\".", channel.name),
            "Nobody has written to you. Nothing needs to be done.".to_owned(),
        ],
        fields: Vec::new(),
        may_be_there: false,
    };
    let channel = Channel::open(&channel.kind);
    let sent = tokio::time::timeout(LONGEST_ATTEMPT, channel.send(&notice)).await;
    sent.unwrap_or_else(|_| Outcome::failed(Cause::Channel, "it takes too long"))
}

/// Whether the server that keeps the shared limits does so.
fn shared_limits(shared: &gate::Options) -> Finding {
    match gate::try_out(shared) {
        Ok(took) => {
            let ms = took.as_secs_f64() * 1000.0;
            Finding::Good(format!("{shared} counts requests, in {ms:.1} ms"))
        }
        Err(why) => Finding::Bad(format!("{shared}: {why}. Until then each server counts for itself.")),
    }
}

/// Whether a secret keeps those who read that server from finding out which addresses have sent.
fn hash_secret(shared: &gate::Options) -> Finding {
    match shared.hash_secret() {
        secret @ (HashSecret::Configured | HashSecret::Password) => Finding::Good(secret.to_string()),
        secret @ HashSecret::Missing => Finding::Bad(secret.to_string()),
    }
}

/// What waits for the operator in the inbox.
fn attention<W: Write>(report: &mut Report<W>, config: &Config) -> anyhow::Result<()> {
    let digest = match Reader::open(&config.store.place) {
        Ok(inbox) => {
            Digest::read(&inbox, &config.store.place, config.housekeeping.min_free, Timestamp::now())?
        }
        Err(StoreError::Missing(_)) => return report.note("inbox", "nothing has been received yet"),
        Err(error) => return report.finding("inbox", &Finding::Bad(error.to_string())),
    };
    let is_known = |name: &str| config.store.channels.iter().any(|channel| channel.name == name);
    for channel in digest.channels.iter().filter(|channel| !is_known(&channel.name)) {
        let waiting = channel.count(State::Waiting) + channel.count(State::Held);
        if waiting > 0 {
            let name = &channel.name;
            report.finding("inbox", &Finding::Bad(format!(
                "{waiting} deliveries wait for the channel {name}, which is not configured any more: they are made once a channel has that name again"
            )))?;
        }
    }
    if digest.is_empty() {
        return report.finding("inbox", &Finding::Good("nothing needs your attention".to_owned()));
    }
    for line in digest.lines() {
        report.finding("inbox", &Finding::Bad(line))?;
    }
    Ok(())
}

struct Report<W> {
    out: W,
    bad: usize,
}

impl<W: Write> Report<W> {
    fn channel(&mut self, channel: &Options, outcome: &Outcome, took: Duration) -> anyhow::Result<()> {
        let what = format!("channel {}", channel.name);
        match outcome {
            Outcome::Delivered(answer) => {
                let ms = took.as_millis();
                let to = to(&channel.kind);
                self.finding(
                    &what,
                    &Finding::Good(format!(
                        "a test message was taken in {ms} ms ({answer}); look for it {to}"
                    )),
                )
            }
            Outcome::Failed(failure) => {
                let hint = hint(&channel.kind, failure.cause);
                self.finding(
                    &what,
                    &Finding::Bad(format!("{}. {hint}", failure.answer.trim_end_matches('.'))),
                )
            }
        }
    }

    fn note(&mut self, what: &str, words: &str) -> anyhow::Result<()> {
        self.finding(what, &Finding::Unknown(words.to_owned()))
    }

    fn finding(&mut self, what: &str, finding: &Finding) -> anyhow::Result<()> {
        let (word, style, text) = match finding {
            Finding::Good(text) => ("ok", style::GOOD, text),
            Finding::Unknown(text) => ("note", style::DIM, text),
            Finding::Bad(text) => {
                self.bad += 1;
                ("mend", style::ERROR, text)
            }
        };
        writeln!(self.out, "{style}{word:<5}{} {}: {}", style.render_reset(), visible(what), visible(text))?;
        Ok(())
    }
}

fn to(kind: &Kind) -> String {
    match kind {
        Kind::Smtp(smtp) => format!("in the mailbox of {}", smtp.to.join(", ")),
        Kind::Webhook(_) => "where the webhook leads".to_owned(),
        Kind::Maildir(maildir) => format!("in {}", maildir.path.join("new").display()),
    }
}

/// What to look at first.
fn hint(kind: &Kind, cause: Cause) -> &'static str {
    match (kind, cause) {
        (_, Cause::Deferred) => "The other side takes nothing more for now: try again in a few minutes.",
        (Kind::Webhook(_), Cause::Gone) => "Ask the other side for a new address, and change `url`.",
        (Kind::Webhook(_), Cause::Channel | Cause::Unclear) => {
            "Check `url`, `secret` and `ca_file`, and whether the other side is up."
        }
        (Kind::Webhook(_), _) => {
            "The other side does not take this body: check `body` against what it expects."
        }
        (Kind::Smtp(_), Cause::Channel | Cause::Unclear) => {
            "Check `host`, `port`, `tls`, `username`, `password`, `from` and `to`."
        }
        (Kind::Smtp(_), _) => "The mail server did not take the message: its answer says why.",
        (Kind::Maildir(_), _) => {
            "Check `path`: whether this user may write there, and whether there is room."
        }
    }
}
