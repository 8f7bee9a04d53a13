//! `frontdesk doctor`: tests each channel, shows the submissions that it gets, and checks the DNS records of
//! the senders' domains, and the inbox.

#![expect(clippy::disallowed_methods, reason = "a command reads the clock once")]

mod canary;
mod check_result;
mod dns_client;
mod inbox;
mod mail_domain;
mod routing;
mod watch;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::bail;
use jiff::Timestamp;

use super::diagnostics::{DIM, ERROR, GOOD, counted, exit_code, print_faults};
use super::{config_and_site_loading, config_needs};
pub(super) use check_result::CheckResult;
use dns_client::Resolver;
use frontdesk_config::{Config, Flag};
use frontdesk_deliver::{ChannelOptions, TransportOptions, test_message};
use frontdesk_forms::text::visible;
use frontdesk_limits::rate_limiter;
use frontdesk_site::fault::Fault;
pub(super) use inbox::{describe_undelivered, examine_canary, examine_inbox};
use routing::{print_table, routing_table};

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
    /// Show the state of the inbox, the channels and the canary until Ctrl-C, and send nothing
    #[arg(long, conflicts_with_all = ["channel", "dkim_selector", "resolver"])]
    watch: bool,
}

/// Prints the errors of the configuration, and the warnings that are not about `frontdesk.toml`. Sends a test
/// message through each selected channel, runs the other checks, and prints one line for each result and a
/// summary. Returns failure if there is a problem. Fails if the configuration file cannot be read as a whole.
/// With `--watch`, sends nothing, and shows the state of the inbox instead; fails if a fault prevents that.
pub(super) fn run(folder: &Path, flags: &[Flag], options: &DoctorOptions) -> anyhow::Result<ExitCode> {
    let (config, errors, warnings) = config_and_site_loading::read_with_errors(folder, flags)?;
    print_faults(&warnings);
    if options.watch {
        if errors.iter().any(|fault| config_needs::STORE.is_prevented_by(fault)) {
            print_faults(&errors);
            bail!("the inbox cannot be read, because of the faults above");
        }
        return watch::run(&config.with_base_url(None));
    }
    let mut report = DoctorReport { out: anstream::stdout().lock(), problem_count: 0 };
    for error in &errors {
        report.print_fault(error)?;
    }
    check(&config, &errors, options, &mut report)
}

/// Runs all checks that the errors of the configuration, which have been reported, do not prevent: sends a
/// test message through each selected channel, and prints the results and a summary. Returns failure if there
/// was a problem, also one reported before.
fn check(
    config: &Config,
    errors: &[Fault],
    options: &DoctorOptions,
    report: &mut DoctorReport<impl Write>,
) -> anyhow::Result<ExitCode> {
    let wrong_keys = report.problem_count;
    let channels = select_channels(config, errors, options)?;
    test_channels(&channels, errors, report)?;
    if errors.iter().any(|fault| config_needs::ROUTING.is_prevented_by(fault)) {
        report.print_note("forms and channels", "not shown, because of the faults above")?;
    } else if !channels.is_empty() {
        let rows = routing_table(&config.store.channels, &config.channels, &config.pages.form_set);
        print_table(&rows, &mut report.out)?;
    }
    let failed = report.problem_count - wrong_keys;
    let domains = check_domains(&channels, options, report)?;
    let records = report.problem_count - wrong_keys - failed;
    check_shared_limits(config, report)?;
    check_rspamd(config, report)?;
    // Also report unusable certificates, and files with secrets that every user of this machine can read.
    let faults = config.clone().with_base_url(None).certificate_faults();
    for fault in faults.into_iter().chain(config.exposed_secrets()) {
        report.print_fault(&fault)?;
    }
    if errors.iter().any(|fault| config_needs::STORE.is_prevented_by(fault)) {
        report.print_note("inbox", "not checked, because of the faults above")?;
    } else {
        for finding in examine_inbox(config)? {
            report.print_result("inbox", finding)?;
        }
        for (subject, finding) in examine_canary(config)? {
            // Skip the canary's results for domains whose records `check_domains` has just printed.
            let is_printed = |domain: &&str| subject.starts_with(&format!("canary mail-domain {domain} "));
            if domains.iter().any(is_printed) {
                continue;
            }
            report.print_result(&subject, finding)?;
        }
    }
    let others = report.problem_count - failed - records;
    writeln!(report.out, "{}", summarize(channels.len(), failed, records, others))?;
    report.out.flush()?;
    Ok(exit_code(report.problem_count == 0))
}

/// The channel that `--channel` names, or all channels. If there is no such channel: none if an error of the
/// configuration is about it, and otherwise an error.
fn select_channels<'a>(
    config: &'a Config,
    errors: &[Fault],
    options: &DoctorOptions,
) -> anyhow::Result<Vec<&'a ChannelOptions>> {
    let Some(name) = &options.channel else { return Ok(config.channels.iter().collect()) };
    let Some(channel) = config.channels.iter().find(|channel| channel.name == *name) else {
        let table = format!("channel.{name}");
        if errors.iter().any(|fault| fault.concerns(&[&table])) {
            return Ok(Vec::new());
        }
        let names = config.channels.iter().map(|channel| channel.name.clone()).reduce(|a, b| a + ", " + &b);
        let names = names.unwrap_or_else(|| "none".to_owned());
        bail!("there is no channel `{name}`; configured channels: {names}");
    };
    Ok(vec![channel])
}

/// Sends a test message through each channel, one after another, and reports how the receiver responded.
/// Prints a note if there is none, or if channels are left out because of faults.
fn test_channels(
    channels: &[&ChannelOptions],
    errors: &[Fault],
    report: &mut DoctorReport<impl Write>,
) -> anyhow::Result<()> {
    if errors.iter().any(|fault| fault.concerns(&["channel"])) {
        report.print_note("channels", "those with faults are not tested")?;
    } else if channels.is_empty() {
        report.print_note(
            "channels",
            "none is configured: submissions stay in the inbox, and no message is sent",
        )?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for channel in channels {
        let began = Instant::now();
        let sent = test_message::send(channel, "`frontdesk doctor`", Timestamp::now());
        let outcome = runtime.block_on(sent);
        let finding = test_message::describe(&channel.kind, &outcome, began.elapsed());
        report.print_result(&format!("channel {}", channel.name), CheckResult::from(finding))?;
    }
    Ok(())
}

/// Checks a domain's records with this machine's name servers. `None` if the machine has no name server.
pub(super) fn check_mail_domain(domain: &str) -> Option<[(&'static str, CheckResult); 4]> {
    Resolver::of_this_machine().map(|resolver| mail_domain::check_records(&resolver, domain, None))
}

/// Checks the MX, SPF, DKIM and DMARC records of the sender's domain of each SMTP channel, once for each
/// domain. Prints a note if that is not possible: the sender is at an IP address, or no name server is known.
/// Returns the domains whose records were checked.
fn check_domains<'a>(
    channels: &[&'a ChannelOptions],
    options: &DoctorOptions,
    report: &mut DoctorReport<impl Write>,
) -> anyhow::Result<BTreeSet<&'a str>> {
    let senders = channels.iter().filter_map(|channel| match &channel.kind {
        TransportOptions::Smtp(smtp) => Some(smtp.addresses.domain()),
        _ => None,
    });
    let senders: BTreeSet<&str> = senders.collect();
    let mut checked = BTreeSet::new();
    let resolver = options.resolver.map(Resolver::at).or_else(Resolver::of_this_machine);
    for domain in senders {
        let Some(resolver) = resolver.as_ref().filter(|_| !domain.starts_with('[')) else {
            let why = if domain.starts_with('[') {
                "an IP address has no records to check"
            } else {
                "no name server is configured here: MX, SPF, DKIM and DMARC were not checked"
            };
            report.print_note(domain, why)?;
            continue;
        };
        let selector = options.dkim_selector.as_deref();
        for (record, finding) in mail_domain::check_records(resolver, domain, selector) {
            report.print_result(&format!("{domain} {record}"), finding)?;
        }
        checked.insert(domain);
    }
    Ok(checked)
}

/// Checks the connection to the Redis server of `limits.shared_url`, and the secret that protects the hashed
/// addresses on it. Prints nothing if no server is configured.
fn check_shared_limits(config: &Config, report: &mut DoctorReport<impl Write>) -> anyhow::Result<()> {
    let Some(shared) = &config.limits.shared else { return Ok(()) };
    let connection = match rate_limiter::test_connection(shared) {
        Ok(took) => Ok(format!("{shared} responds in {:.1} ms", took.as_secs_f64() * 1000.0)),
        Err(why) => {
            Err(format!("{shared}: {why}. While this lasts, each server counts requests separately."))
        }
    };
    report.print_result("limits.shared_url", connection.into())?;
    report.print_result("limits.shared_secret", shared.describe_hash_secret().into())
}

/// Checks that rspamd answers. Prints nothing if `screening.rspamd_url` is not set.
fn check_rspamd(config: &Config, report: &mut DoctorReport<impl Write>) -> anyhow::Result<()> {
    let Some(rspamd) = &config.intake.rspamd else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (began, server) = (Instant::now(), rspamd.url.authority());
    let answer = match runtime.block_on(frontdesk_rspamd::ping(rspamd)) {
        Ok(()) => {
            Ok(format!("rspamd at {server} answers in {:.1} ms", began.elapsed().as_secs_f64() * 1000.0))
        }
        Err(why) => Err(format!(
            "rspamd at {server}: {why}. While this lasts, submissions are delivered without its opinion."
        )),
    };
    report.print_result("screening.rspamd_url", answer.into())
}

/// Summarizes the checks in one sentence. `channels` is the number of tested channels, `failed` the number of
/// failed ones, `records` the number of problems in DNS records, and `others` that of all other problems.
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

struct DoctorReport<W> {
    out: W,
    /// Number of problems printed.
    problem_count: usize,
}

impl<W: Write> DoctorReport<W> {
    /// Prints a note, for example that a check was not possible.
    fn print_note(&mut self, what: &str, words: &str) -> anyhow::Result<()> {
        self.print_result(what, CheckResult::Unknown(words.to_owned()))
    }

    /// Prints a fault as a problem, with its line and its advice.
    fn print_fault(&mut self, fault: &Fault) -> anyhow::Result<()> {
        let line = fault.line.map(|line| format!(":{line}")).unwrap_or_default();
        let hint = fault.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let text = format!("{}{hint}", fault.message);
        self.print_result(&format!("{}{line}", fault.place), CheckResult::Bad(text))
    }

    /// Prints the result of a check of `what` on one line. Counts problems in `problem_count`.
    fn print_result(&mut self, what: &str, finding: CheckResult) -> anyhow::Result<()> {
        let style = match finding {
            CheckResult::Good(_) => GOOD,
            CheckResult::Unknown(_) => DIM,
            CheckResult::Bad(_) => {
                self.problem_count += 1;
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
