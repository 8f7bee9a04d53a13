//! `frontdesk doctor`: tests each channel, the DNS records of the senders' domains, and the inbox.

#![expect(clippy::disallowed_methods, reason = "a command reads the clock once")]

mod dns;
mod mail_domain;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::bail;
use jiff::Timestamp;

use super::output::{DIM, ERROR, GOOD, counted, exit_code, plural};
use crate::config::Config;
use dns::Resolver;
use frontdesk_deliver::digest::Digest;
use frontdesk_deliver::{ChannelOptions, TransportOptions, test_message};
use frontdesk_forms::text::visible;
use frontdesk_inbox::store::{Filter, InboxReader, StoreError};
use frontdesk_inbox::submission::Status;
use frontdesk_inbox::submission::delivery::DeliveryState;
use frontdesk_inbox::submission::visitor_mail::is_visitor_channel;
use frontdesk_limits::rate_limiter;
use frontdesk_site::fault::Fault;
pub(super) use mail_domain::CheckResult;

#[derive(Debug, clap::Args)]
pub(super) struct DoctorOptions {
    /// Test only this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// DKIM selector: the name under which your mail provider publishes its key
    #[arg(long, value_name = "NAME")]
    dkim_selector: Option<String>,
    /// Name server to query, instead of this machine's own
    #[arg(long, value_name = "ADDR:PORT")]
    resolver: Option<SocketAddr>,
}

/// Runs all checks and prints one line for each. Returns failure if one of them finds a problem.
pub(super) fn run(config: &Config, options: &DoctorOptions) -> anyhow::Result<ExitCode> {
    let mut report = DoctorReport { out: anstream::stdout().lock(), bad: 0 };
    let is_wanted =
        |channel: &&ChannelOptions| options.channel.as_ref().is_none_or(|name| *name == channel.name);
    let channels: Vec<&ChannelOptions> = config.channels.iter().filter(is_wanted).collect();
    match &options.channel {
        Some(name) if channels.is_empty() => {
            let names: Vec<&str> = config.channels.iter().map(|channel| channel.name.as_str()).collect();
            bail!("there is no channel `{name}`; configured channels: {}", names.join(", "));
        }
        None if channels.is_empty() => report.print_note(
            "channels",
            "none is configured: submissions stay in the inbox, and no message is sent",
        )?,
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for channel in &channels {
        let began = Instant::now();
        let sent = test_message::send(channel, "`frontdesk doctor`", Timestamp::now());
        let outcome = runtime.block_on(sent);
        let finding = test_message::describe(&channel.kind, &outcome, began.elapsed());
        let finding = finding.map_or_else(CheckResult::Bad, CheckResult::Good);
        report.print_result(&format!("channel {}", channel.name), finding)?;
    }
    let failed = report.bad;
    // Check the SPF, DKIM and DMARC records of each sender's domain, as receiving mail servers do.
    let senders = channels.iter().filter_map(|channel| match &channel.kind {
        TransportOptions::Smtp(smtp) => Some(smtp.addresses.domain()),
        _ => None,
    });
    let senders: BTreeSet<&str> = senders.collect();
    let resolver = options.resolver.map(Resolver::at).or_else(Resolver::of_this_machine);
    for domain in senders {
        match &resolver {
            _ if domain.starts_with('[') => {
                report.print_note(domain, "an IP address has no records to check")?;
            }
            None => report.print_note(
                domain,
                "no name server is configured here: SPF, DKIM and DMARC were not checked",
            )?,
            Some(resolver) => {
                for (record, finding) in
                    mail_domain::check_records(resolver, domain, options.dkim_selector.as_deref())
                {
                    report.print_result(&format!("{domain} {record}"), finding)?;
                }
            }
        }
    }
    let records = report.bad - failed;
    if let Some(shared) = &config.limits.shared {
        let finding = match rate_limiter::test_connection(shared) {
            Ok(took) => {
                let ms = took.as_secs_f64() * 1000.0;
                CheckResult::Good(format!("{shared} responds in {ms:.1} ms"))
            }
            Err(why) => {
                CheckResult::Bad(format!("{shared}: {why}. While this lasts, each server counts on its own."))
            }
        };
        report.print_result("limits.shared_url", finding)?;
        // This secret protects the hashed addresses on the Redis server.
        let secret = shared.describe_hash_secret();
        let finding =
            secret.map_or_else(|why| CheckResult::Bad(why.into()), |how| CheckResult::Good(how.into()));
        report.print_result("limits.shared_secret", finding)?;
    }
    for fault in examine_files(config) {
        let hint = fault.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        report.print_result(&fault.place, CheckResult::Bad(format!("{}{hint}", fault.message)))?;
    }
    for finding in examine_inbox(config)? {
        report.print_result("inbox", finding)?;
    }
    let others = report.bad - failed - records;
    writeln!(report.out, "{}", summarize(channels.len(), failed, records, others))?;
    report.out.flush()?;
    Ok(exit_code(report.bad == 0))
}

/// Summarizes the results: whether messages arrive, and how many problems there are in DNS records and
/// elsewhere.
fn summarize(channels: usize, failed: usize, records: usize, others: usize) -> String {
    let sending = match (channels, failed) {
        (0, _) => "no channel was tested".to_owned(),
        (_, 0) => {
            format!("{} delivered a test message", if channels == 1 { "the channel" } else { "all channels" })
        }
        _ => format!("{failed} of {} failed", counted(channels, "channel")),
    };
    let records = (records > 0)
        .then(|| format!("{} to fix, or receivers may treat mail as spam", counted(records, "DNS record")));
    let others = (others > 0).then(|| format!("{} to fix", counted(others, "other problem")));
    let parts: Vec<String> = [Some(sending), records, others].into_iter().flatten().collect();
    parts.join("; ")
}

/// Faults of the certificate, and of files with secrets that every user of this machine can read.
fn examine_files(config: &Config) -> Vec<Fault> {
    let mut faults = config.clone().with_base_url(None).certificate_faults();
    faults.append(&mut config.exposed_secrets());
    faults
}

/// Checks the inbox for problems that need the operator's attention. Connects to the database,
/// and to nothing else.
pub(super) fn examine_inbox(config: &Config) -> Result<Vec<CheckResult>, StoreError> {
    let inbox = match InboxReader::open(&config.store.url) {
        Ok(inbox) => inbox,
        Err(StoreError::Missing(_)) => {
            return Ok(vec![CheckResult::Unknown("nothing has been received yet".to_owned())]);
        }
        Err(error) => return Ok(vec![CheckResult::Bad(error.to_string())]),
    };
    let digest = Digest::read(&inbox, &config.store.url, config.maintenance.min_free, Timestamp::now())?;
    let undelivered = describe_undelivered(&inbox, !config.channels.is_empty())?;
    let mut findings: Vec<CheckResult> = undelivered.into_iter().map(CheckResult::Unknown).collect();
    let is_known = |name: &str| {
        is_visitor_channel(name) || config.store.channels.iter().any(|channel| channel.name == name)
    };
    for channel in digest.channels.iter().filter(|channel| !is_known(&channel.name)) {
        let waiting = channel.count(DeliveryState::Waiting) + channel.count(DeliveryState::Held);
        if waiting > 0 {
            let name = &channel.name;
            findings.push(CheckResult::Bad(format!(
                "{waiting} deliveries are waiting for the channel {name}, which is no longer configured: they resume once a channel has that name again"
            )));
        }
    }
    let warning = inbox.collation_warning()?;
    if digest.is_empty() && warning.is_none() {
        findings.push(CheckResult::Good("nothing needs your attention".to_owned()));
    }
    findings.extend(digest.lines().into_iter().chain(warning).map(CheckResult::Bad));
    Ok(findings)
}

/// Describes the submissions that were never delivered to anyone, and how to deliver them. `None` if there
/// are none.
pub(super) fn describe_undelivered(
    inbox: &InboxReader,
    has_channels: bool,
) -> Result<Option<String>, StoreError> {
    let count = inbox.count(&Filter { status: Some(Status::Kept), ..Filter::default() })?;
    let (submissions, were) = (counted(count, "submission"), plural(count, "was", "were"));
    let advice = if has_channels {
        "`frontdesk inbox deliver --kept` sends them to the configured channels"
    } else {
        "`frontdesk inbox list` shows them, and a `[[channel]]` delivers new ones"
    };
    Ok((count > 0).then(|| format!("{submissions} {were} never delivered to anyone: {advice}")))
}

struct DoctorReport<W> {
    out: W,
    bad: usize,
}

impl<W: Write> DoctorReport<W> {
    /// Prints a note, for example that a check was not possible.
    fn print_note(&mut self, what: &str, words: &str) -> anyhow::Result<()> {
        self.print_result(what, CheckResult::Unknown(words.to_owned()))
    }

    /// Prints the result of a check, and counts problems.
    fn print_result(&mut self, what: &str, finding: CheckResult) -> anyhow::Result<()> {
        let style = match finding {
            CheckResult::Good(_) => GOOD,
            CheckResult::Unknown(_) => DIM,
            CheckResult::Bad(_) => {
                self.bad += 1;
                ERROR
            }
        };
        let (word, text) = finding.word_and_text();
        writeln!(self.out, "{style}{word:<5}{style:#} {}: {}", visible(what), visible(&text))?;
        Ok(())
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_separates_delivery_from_dns_records() {
        for (counts, expected) in [
            ([0, 0, 0, 0], "no channel was tested"),
            ([1, 0, 0, 0], "the channel delivered a test message"),
            (
                [2, 0, 1, 0],
                "all channels delivered a test message; 1 DNS record to fix, or receivers may treat mail as spam",
            ),
            ([2, 1, 0, 3], "1 of 2 channels failed; 3 other problems to fix"),
        ] {
            let [channels, failed, records, others] = counts;
            assert_eq!(summarize(channels, failed, records, others), expected);
        }
    }
}
