//! Checks the inbox and the canary's last run: without a message, and without a connection except to the
//! database.

#![expect(clippy::disallowed_methods, reason = "a command reads the clock once")]

use jiff::Timestamp;

use super::canary;
use super::check_result::CheckResult;
use crate::cli::diagnostics::{counted, plural};
use frontdesk_config::Config;
use frontdesk_deliver::problem_digest::Digest;
use frontdesk_inbox::store::{Filter, InboxReader, StoreError};
use frontdesk_inbox::submission::Status;
use frontdesk_inbox::submission::delivery::DeliveryState;
use frontdesk_inbox::submission::visitor_mail::is_visitor_channel;

/// Checks the inbox and its disk for problems that need the operator's attention: those in a digest (without
/// follow-ups, the canary and panics of the server), waiting or held deliveries for a channel that is no
/// longer configured, and a changed collation. Adds notes about submissions that were never delivered, and
/// about a pooler. Connects to no system except the database. An inbox that does not exist yet is only a
/// note; one that cannot be opened is a problem in the result; a query that fails is an error.
pub(in crate::cli) fn examine_inbox(config: &Config) -> Result<Vec<CheckResult>, StoreError> {
    let inbox = match InboxReader::open(&config.store.url) {
        Ok(inbox) => inbox,
        Err(StoreError::Missing(_)) => {
            return Ok(vec![CheckResult::Unknown("nothing has been received yet".to_owned())]);
        }
        Err(error) => return Ok(vec![CheckResult::Bad(error.to_string())]),
    };
    let digest = Digest::read(&inbox, &config.store.url, config.maintenance.min_free, Timestamp::now())?;
    // Leave out follow-ups, which are not problems, and the canary, which `examine_canary` reports.
    let digest = Digest { follow_ups: Vec::new(), canary: None, ..digest };
    let undelivered = describe_undelivered(&inbox, !config.channels.is_empty())?;
    let mut findings: Vec<CheckResult> = undelivered.into_iter().map(CheckResult::Unknown).collect();
    if inbox.is_pooled() {
        findings.push(CheckResult::Unknown(
            "a connection pooler is in front of the database, so it can take a second until changes by other \
             processes are noticed"
                .to_owned(),
        ));
    }
    let is_known = |name: &str| {
        is_visitor_channel(name) || config.store.channels.iter().any(|channel| channel.name == name)
    };
    for channel in digest.channels.iter().filter(|channel| !is_known(&channel.name)) {
        let waiting = channel.count(DeliveryState::Waiting) + channel.count(DeliveryState::Held);
        if waiting > 0 {
            let (name, deliveries) = (&channel.name, counted(waiting, "delivery"));
            let (are, resume) = (plural(waiting, "is", "are"), plural(waiting, "it resumes", "they resume"));
            findings.push(CheckResult::Bad(format!(
                "{deliveries} {are} waiting for the channel {name}, which is no longer configured: {resume} once a channel has that name again"
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

/// The result of the canary's last run, as pairs of a subject and a result. Empty if the inbox cannot be
/// opened.
pub(in crate::cli) fn examine_canary(config: &Config) -> Result<Vec<(String, CheckResult)>, StoreError> {
    let Ok(inbox) = InboxReader::open(&config.store.url) else { return Ok(Vec::new()) };
    Ok(canary::describe(inbox.canary_status()?.as_ref(), config.canary.every.is_some(), Timestamp::now()))
}

/// Describes how many submissions were never delivered to anyone, and what the operator can do: deliver them,
/// or without a channel, list them. `None` if there are none.
pub(in crate::cli) fn describe_undelivered(
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
