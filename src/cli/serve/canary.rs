//! What the canary checks besides the way of a submission: the pages that show a form, and this machine.

#![expect(clippy::disallowed_methods, reason = "checks compare with the current time")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::cli::doctor::{self, CheckResult};
use frontdesk_canary::{FormPage, LocalChecks, Outcome, Step, StepResult};
use frontdesk_config::Config;
use frontdesk_deliver::TransportOptions;
use frontdesk_inbox::store::InboxReader;
use frontdesk_inbox::store::disk::Shortage;
use frontdesk_site::{Site, SiteEntry};

/// Maximum number of pages with forms that are checked.
const MAX_PAGES: usize = 20;
/// After this time, unread submissions are a fault if no operator opens the inbox.
const UNREAD_DAYS: i64 = 7;

/// Completes the canary's options with what the loaded site shows, and with checks of this machine. Does nothing if the
/// canary is off.
pub(super) fn complete(config: &mut Config, site: &Site) {
    if config.canary.every.is_some() {
        config.canary.pages = form_pages(config, site);
        config.canary.local = local_checks(config);
    }
}

/// The first pages, by path, whose HTML sends a form to one of the site's endpoints.
fn form_pages(config: &Config, site: &Site) -> Vec<FormPage> {
    let actions: Vec<String> =
        config.pages.form_set.iter().map(|form| format!("action=\"{}\"", form.path)).collect();
    let mut pages: Vec<FormPage> = site
        .entries()
        .filter_map(|(_, entry)| if let SiteEntry::Page(page) = entry { Some(page) } else { None })
        .filter_map(|page| {
            let html = &page.html.unencoded().bytes;
            let shows = |action: &String| html.windows(action.len()).any(|part| part == action.as_bytes());
            actions.iter().any(shows).then(|| FormPage { path: page.path.to_string(), html: html.clone() })
        })
        .collect();
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    pages.dedup_by(|a, b| a.path == b.path);
    pages.truncate(MAX_PAGES);
    pages
}

/// Checks of this machine: disk, DNS records of senders' domains, and whether the inbox is read.
fn local_checks(config: &Config) -> LocalChecks {
    let (url, min_free) = (config.store.url.clone(), config.maintenance.min_free);
    let domains: BTreeSet<String> = config
        .channels
        .iter()
        .filter_map(|channel| match &channel.kind {
            TransportOptions::Smtp(smtp) => Some(smtp.addresses.domain().to_owned()),
            _ => None,
        })
        .filter(|domain| !domain.starts_with('['))
        .collect();
    LocalChecks(Some(Arc::new(move || {
        let mut steps = Vec::new();
        if url.file().is_some() {
            let (outcome, text) = match Shortage::check(&url, min_free) {
                None => (Outcome::Ok, "enough space is free".to_owned()),
                Some(shortage) => {
                    let is_short = shortage.space.free < shortage.reserve;
                    let outcome = if is_short { Outcome::Failed } else { Outcome::Warning };
                    (outcome, format!("{shortage} Free some space."))
                }
            };
            steps.push(step(Step::Disk, "inbox", outcome, text));
        }
        steps.extend(domains.iter().flat_map(|domain| check_mail_domain(domain)));
        if let Ok(inbox) = InboxReader::open(url.clone()) {
            steps.extend(check_unread(&inbox));
        }
        steps
    })))
}

/// Checks the records of a domain that mails come from. Problems are warnings: receivers may treat mail as spam.
fn check_mail_domain(domain: &str) -> Vec<StepResult> {
    let results = doctor::check_mail_domain(domain).into_iter().flatten();
    let judge = |(record, result): (&str, CheckResult)| {
        let (outcome, text) = match result {
            CheckResult::Good(text) => (Outcome::Ok, text),
            CheckResult::Bad(text) => (Outcome::Warning, text),
            CheckResult::Unknown(text) => (Outcome::Skipped, text),
        };
        step(Step::MailDomain, &format!("{domain} {record}"), outcome, text)
    };
    results.map(judge).collect()
}

/// Whether the inbox is read, where its web interface is used at all. `None` if it is not used, or cannot be read now.
fn check_unread(inbox: &InboxReader) -> Option<StepResult> {
    let before = Timestamp::now() - SignedDuration::from_hours(24 * UNREAD_DAYS);
    let unread = inbox.unread_since(before).ok()??;
    let (outcome, text) = if unread.count == 0 || unread.last_read_at > before {
        (Outcome::Ok, "the inbox is read".to_owned())
    } else {
        let text = format!(
            "{} submissions have been unread for more than {UNREAD_DAYS} days, and none was opened since {:.0}: read the digest and the \
             inbox, or name somebody who does",
            unread.count, unread.last_read_at
        );
        (Outcome::Warning, text)
    };
    Some(step(Step::Digest, "inbox", outcome, text))
}

fn step(step: Step, subject: &str, outcome: Outcome, text: String) -> StepResult {
    StepResult { step, subject: subject.to_owned(), outcome, text, took: Duration::ZERO }
}
