//! Inputs of the canary that the server provides: the site's pages and scripts, and checks of its disk,
//! certificate files and inbox, and of the DNS records of senders' domains.

#![expect(clippy::disallowed_methods, reason = "checks compare with the current time")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Time;
use jiff::{SignedDuration, Timestamp};

use crate::cli::diagnostics::counted;
use crate::cli::doctor::{self, CheckResult};
use frontdesk_canary::{CertificateValidity, Outcome, ServerCheck, SiteContent, SitePage, Step, StepResult};
use frontdesk_config::Config;
use frontdesk_deliver::{TransportOptions, maintenance};
use frontdesk_http::tls::{CertificateFiles, CertificateSource};
use frontdesk_inbox::store::{DatabaseUrl, InboxReader, Readership};
use frontdesk_process::disk_space::{Inodes, MinFree, Shortage, Space};
use frontdesk_site::{Site, SiteEntry};

/// Number of days after which unread submissions are a problem if no operator uses the inbox.
const UNREAD_DAYS: i64 = 7;

/// Completes the canary's options with the inbox's URL, the content of the loaded site, and the server's
/// checks. Does nothing if the canary is off.
pub(super) fn complete(config: &mut Config, site: &Site) {
    if config.canary.every.is_none() {
        return;
    }
    config.canary.inbox_url = config.inbox_authority(None).map(|authority| format!("https://{authority}"));
    config.canary.site = Arc::new(site_content(config, site));
    config.canary.server_checks = server_checks(config);
}

/// The site's pages and scripts. Shares their bytes with the site instead of copying them.
fn site_content(config: &Config, site: &Site) -> SiteContent {
    let mut content = SiteContent { accepts_posts: config.web.forms.html_posts, ..SiteContent::default() };
    for (path, entry) in site.entries() {
        match entry {
            SiteEntry::Page(page) => content
                .pages
                .push(SitePage { path: page.path.to_string(), html: page.html.unencoded().bytes.clone() }),
            SiteEntry::File(file, _) if file.media_type.contains("javascript") => {
                let path = frontdesk_site::path::encode(&path).into_owned();
                content.scripts.push((path, file.unencoded().bytes.clone()));
            }
            _ => {}
        }
    }
    content
}

/// Checks of the inbox's disk, of the certificate files, of the DNS records of senders' domains, and whether
/// the digest and the inbox reach their readers. Leaves out certificates from ACME and senders at an IP
/// address.
fn server_checks(config: &Config) -> Vec<ServerCheck> {
    let (url, min_free) = (config.store.url.clone(), config.maintenance.min_free);
    let place = url.clone();
    let mut checks = vec![server_check(Step::Disk, "inbox", move || check_disk(&place, min_free))];
    let sources = [config.web.http.tls.source.as_ref(), config.inbox_certificate.as_ref()];
    for source in sources.into_iter().flatten() {
        if let CertificateSource::Files(files) = source.clone() {
            let subject = files.certificate.display().to_string();
            checks.push(server_check(Step::Certificate, &subject, move || vec![check_files(&files)]));
        }
    }
    let domains: BTreeSet<String> = config
        .channels
        .iter()
        .filter_map(|channel| match &channel.kind {
            TransportOptions::Smtp(smtp) => Some(smtp.addresses.domain().to_owned()),
            _ => None,
        })
        .filter(|domain| !domain.starts_with('['))
        .collect();
    for domain in domains {
        checks.push(server_check(Step::MailDomain, &domain.clone(), move || check_mail_domain(&domain)));
    }
    let (digest_at, has_channels) = (config.maintenance.digest_at, !config.channels.is_empty());
    checks.push(server_check(Step::Digest, "inbox", move || check_readers(&url, digest_at, has_channels)));
    checks
}

fn server_check(
    step: Step,
    subject: &str,
    run: impl Fn() -> Vec<StepResult> + Send + Sync + 'static,
) -> ServerCheck {
    ServerCheck { step, subject: subject.to_owned(), run: Arc::new(run) }
}

/// Checks the free space and the free inodes of the inbox's file system: failed below the reserve, a
/// warning below twice the reserve, and skipped if the inbox is on a database server or the free space cannot
/// be measured. Few free inodes add a second step.
fn check_disk(url: &DatabaseUrl, min_free: MinFree) -> Vec<StepResult> {
    let Some(folder) = url.file().and_then(|file| file.parent()) else {
        let text = "the inbox is on a database server, whose disk cannot be seen from here";
        return vec![step(Step::Disk, "inbox", Outcome::Skipped, text.to_owned())];
    };
    let (outcome, text) = match Space::sample(folder).map(|space| Shortage::from_space(space, min_free)) {
        Ok(None) => (Outcome::Ok, "enough space is free".to_owned()),
        Ok(Some(shortage)) => {
            let is_short = shortage.space.free < shortage.reserve;
            let outcome = if is_short { Outcome::Failed } else { Outcome::Warning };
            (outcome, format!("{shortage} Free some space."))
        }
        Err(error) => (Outcome::Skipped, format!("the free space cannot be measured: {error}")),
    };
    let mut steps = vec![step(Step::Disk, "inbox", outcome, text)];
    if let Ok(inodes) = Inodes::sample(folder)
        && inodes.are_low()
    {
        let outcome = if inodes.are_exhausted() { Outcome::Failed } else { Outcome::Warning };
        let text = format!(
            "only {} of {} files can still be created on the inbox's disk (inodes, `df -i`): remove small files",
            inodes.free, inodes.total
        );
        steps.push(step(Step::Disk, "inbox inodes", outcome, text));
    }
    steps
}

/// Checks the certificate in `files`, which may differ from the one that the server has loaded.
fn check_files(files: &CertificateFiles) -> StepResult {
    let subject = files.certificate.display().to_string();
    match files.read() {
        Ok(certificate) => {
            let (not_before, not_after) = certificate.validity_period();
            CertificateValidity { not_before, not_after }.step(&subject, Timestamp::now())
        }
        Err(defect) => {
            let text = format!("{defect}: the server would not start with these files");
            step(Step::Certificate, &subject, Outcome::Failed, text)
        }
    }
}

/// Checks the records of a domain that mails come from. Problems are warnings: receivers may treat mail as
/// spam. Skipped if no name server is configured on this machine.
fn check_mail_domain(domain: &str) -> Vec<StepResult> {
    let Some(results) = doctor::check_mail_domain(domain) else {
        let text = "not checked, because no name server is configured on this machine";
        return vec![step(Step::MailDomain, domain, Outcome::Skipped, text.to_owned())];
    };
    let judge = |(record, result): (&str, CheckResult)| {
        let (outcome, text) = match result {
            CheckResult::Good(text) => (Outcome::Ok, text),
            CheckResult::Bad(text) => (Outcome::Warning, text),
            CheckResult::Unknown(text) => (Outcome::Skipped, text),
        };
        step(Step::MailDomain, &format!("{domain} {record}"), outcome, text)
    };
    results.into_iter().map(judge).collect()
}

/// Checks whether the digest was accepted by a channel, and whether operators use the inbox. Leaves out the
/// digest if it is off or there is no channel. A single skipped step if the inbox cannot be read.
fn check_readers(url: &DatabaseUrl, digest_at: Option<Time>, has_channels: bool) -> Vec<StepResult> {
    let now = Timestamp::now();
    let before = now - SignedDuration::from_hours(24 * UNREAD_DAYS);
    let digest_at = digest_at.filter(|_| has_channels);
    let found = InboxReader::open(url.clone()).and_then(|inbox| {
        Ok((maintenance::undelivered_digest(&inbox, digest_at, now)?, inbox.readership(before)?))
    });
    match found {
        Ok((undelivered, readership)) => {
            let digest = digest_at.map(|_| judge_digest(undelivered));
            digest.into_iter().chain([judge_readership(readership, before, has_channels)]).collect()
        }
        Err(error) => {
            let digest = digest_at.map_or("", |_| " and the digest");
            let text = format!("the inbox cannot be read, so its use{digest} could not be checked: {error}");
            vec![step(Step::Digest, "inbox", Outcome::Skipped, text)]
        }
    }
}

/// Warns if no channel has accepted the last digest. `undelivered` is then the time the digest was due.
fn judge_digest(undelivered: Option<Timestamp>) -> StepResult {
    let (outcome, text) = match undelivered {
        Some(due) => (
            Outcome::Warning,
            format!(
                "no channel has accepted the digest that was due at {due:.0}: see the steps of the channels; \
                 `frontdesk inbox digest` shows it"
            ),
        ),
        None => (Outcome::Ok, "the last digest is not waiting for a channel".to_owned()),
    };
    step(Step::Digest, "digest", outcome, text)
}

/// Judges whether operators use the inbox: a warning if submissions that arrived before the time `before`
/// are unread, no operator has used the inbox since that time, and operators read submissions in the inbox
/// or have no channel to get them elsewhere. Without a warning, good if they read them in the inbox, and
/// otherwise skipped.
fn judge_readership(readership: Readership, before: Timestamp, has_channels: bool) -> StepResult {
    let Readership { unread, last_use, is_read_here } = readership;
    let count = match unread {
        1 => "1 submission has been unread".to_owned(),
        unread => format!("{} have been unread", counted(unread, "submission")),
    };
    let is_used = last_use.is_some_and(|last| last >= before);
    let (outcome, text) = if unread > 0 && !is_used && (is_read_here || !has_channels) {
        let no_use = match last_use {
            Some(last) => format!("no operator has used the inbox since {last:.0}"),
            None => "no operator has ever used the inbox".to_owned(),
        };
        let text = format!(
            "{count} for more than {UNREAD_DAYS} days, and {no_use}: read the inbox, \
             or have another person read it"
        );
        (Outcome::Warning, text)
    } else if is_read_here {
        (Outcome::Ok, "operators use the inbox".to_owned())
    } else {
        let text = "not judged: operators read submissions elsewhere, or there are none yet";
        (Outcome::Skipped, text.to_owned())
    };
    step(Step::Digest, "inbox", outcome, text)
}

fn step(step: Step, subject: &str, outcome: Outcome, text: String) -> StepResult {
    StepResult { step, subject: subject.to_owned(), outcome, text, took: Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + day * 86_400).expect("a time")
    }

    #[test]
    fn unread_submissions_are_a_warning_only_where_they_are_read() {
        for (unread, last_use, is_read_here, has_channels, outcome) in [
            (3, Some(at(0)), true, true, Outcome::Warning),
            (3, Some(at(2)), true, true, Outcome::Ok),
            (0, Some(at(0)), true, true, Outcome::Ok),
            (3, Some(at(0)), false, true, Outcome::Skipped),
            (3, None, false, true, Outcome::Skipped),
            // Without a channel, they can be read nowhere else.
            (3, None, false, false, Outcome::Warning),
            (3, Some(at(0)), false, false, Outcome::Warning),
            (0, None, false, false, Outcome::Skipped),
        ] {
            let found = judge_readership(Readership { unread, last_use, is_read_here }, at(1), has_channels);
            assert_eq!(found.outcome, outcome, "{unread} {last_use:?} {is_read_here} {has_channels}");
        }
        let of = |unread, last_use| {
            judge_readership(Readership { unread, last_use, is_read_here: true }, at(1), false).text
        };
        assert!(of(1, Some(at(0))).starts_with(
            "1 submission has been unread for more than 7 days, and no operator has used the inbox since 2027-01-15"
        ));
        assert!(of(2, None).starts_with(
            "2 submissions have been unread for more than 7 days, and no operator has ever used the inbox"
        ));
    }

    #[test]
    fn a_digest_that_no_channel_accepts_is_a_warning() {
        let waiting = judge_digest(Some(at(0)));
        assert!(waiting.outcome == Outcome::Warning && waiting.text.contains("due at 2027-01-15T08:00:00Z"));
        assert_eq!(judge_digest(None).outcome, Outcome::Ok);
    }

    #[test]
    fn the_disk_is_judged_by_the_reserve() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = DatabaseUrl::Sqlite(folder.path().join("inbox.sqlite"));
        let outcome = |min_free| check_disk(&url, min_free)[0].outcome;
        assert_eq!(outcome(MinFree::Off), Outcome::Ok);
        assert_eq!(outcome(MinFree::Bytes(u64::MAX)), Outcome::Failed);
        drop(folder);
        assert_eq!(outcome(MinFree::Bytes(1)), Outcome::Skipped, "the folder is gone");
    }

    #[test]
    fn certificate_files_that_cannot_be_used_fail() {
        let files =
            CertificateFiles { certificate: "/nonexistent/c.pem".into(), key: "/nonexistent/k.pem".into() };
        let found = check_files(&files);
        assert_eq!((found.outcome, &*found.subject), (Outcome::Failed, "/nonexistent/c.pem"));
        assert!(found.text.contains("cannot be read"), "{}", found.text);
    }
}
