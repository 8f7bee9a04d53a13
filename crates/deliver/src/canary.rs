//! Sends the canary's messages with the delivery worker's own channels, so that a stuck worker or a channel
//! that fails is noticed. The messages are not submissions, and no delivery is recorded.

#![expect(clippy::disallowed_methods, reason = "a reply is compared with this machine's clock")]

use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::channel::{Channel, ChannelOptions, TransportOptions};
use super::notification::{Notification, Topic};
use super::test_message;
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome};
use frontdesk_process::panics::{self, Part};

/// Time limit for sending one message through one channel.
pub const CHANNEL_TIMEOUT: Duration = Duration::from_mins(2);

/// The connection between the canary and the delivery worker: messages to send, and whether this process runs
/// the inbox's maintenance.
#[derive(Debug)]
pub struct CanaryLink {
    requests: Mutex<Vec<CanaryRequest>>,
    pub(super) added: Notify,
    leads: watch::Sender<bool>,
}

impl Default for CanaryLink {
    fn default() -> CanaryLink {
        CanaryLink { requests: Mutex::default(), added: Notify::new(), leads: watch::channel(false).0 }
    }
}

/// A request to the worker to send one message through the selected channels.
#[derive(Debug)]
struct CanaryRequest {
    notice: Notification,
    receivers: Receivers,
    /// Sends one report to the canary for each channel that was tried. Dropped after the last report.
    reports: mpsc::UnboundedSender<ChannelReport>,
}

/// Selects the channels through which a message is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receivers {
    All,
    /// Only the first channel that accepts the message. The channels named in `last` are tried last.
    FirstWorking {
        last: Vec<String>,
    },
}

/// The result of sending the canary's message through one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelReport {
    pub name: String,
    /// Whether the channel sends mail to a server.
    pub is_mail: bool,
    /// The receiver's reply. The error says what is wrong and what to check.
    pub result: Result<String, String>,
    pub took: Duration,
    /// The time in the response of a webhook's receiver, and this machine's time at that moment.
    pub times: Option<ReceiverTime>,
}

/// The times of two clocks at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverTime {
    pub theirs: Timestamp,
    pub ours: Timestamp,
}

impl CanaryLink {
    /// Asks the worker to send a message. The reports arrive as the channels respond, and end after the last
    /// channel that is tried. Without a running worker, none arrives and the stream does not end.
    pub fn send(&self, notice: Notification, receivers: Receivers) -> mpsc::UnboundedReceiver<ChannelReport> {
        let (reports, received) = mpsc::unbounded_channel();
        let request = CanaryRequest { notice, receivers, reports };
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        self.added.notify_one();
        received
    }

    /// Watches whether this process runs the inbox's maintenance. The same process runs the canary.
    pub fn leads(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// Marks this process as the one that runs maintenance, until the returned value is dropped.
    pub(super) fn lead(&self) -> Lead<'_> {
        self.leads.send_replace(true);
        Lead(self)
    }

    /// Spawns a task in `sending` for each waiting message, and does not wait for it.
    pub(super) fn start(&self, channels: &[OpenChannel], sending: &mut JoinSet<()>) {
        let waiting = std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner));
        for request in waiting {
            sending.spawn_local(serve(request, channels.to_vec()));
        }
    }
}

pub(super) struct Lead<'a>(&'a CanaryLink);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.leads.send_replace(false);
    }
}

/// Returns the message that checks a channel. `run` is the id of the canary's run.
pub fn message(run: Uuid, site: &str, now: Timestamp) -> Notification {
    Notification {
        id: run,
        topic: Topic::Canary,
        created_at: now,
        dated_at: now,
        form: None,
        definition: None,
        is_suspicious: false,
        title: format!("Canary of {site}: deliveries work"),
        lines: vec![
            format!(
                "frontdesk at {site} checks regularly that submissions reach you. This message is the last step."
            ),
            "It is not a submission. No action is needed, and you can let a filter move it to another folder (docs/pages/canary.md)."
                .to_owned(),
        ],
        fields: Vec::new(),
        may_be_there: false,
        lead: frontdesk_forms::LeadSource::default(),
    }
}

/// The notification that submissions may be lost. `run` becomes its id. Each of `faults` is a sentence.
pub fn fault_notification(run: Uuid, site: &str, faults: Vec<String>, now: Timestamp) -> Notification {
    let mut lines = vec![format!(
        "The canary of {site} failed: submissions may be lost, or may not reach you, until this is fixed."
    )];
    lines.extend(faults);
    lines.push("You get one message for each outage; `frontdesk doctor` shows the current state.".to_owned());
    Notification {
        topic: Topic::CanaryFault,
        title: format!("{site}: submissions may be lost"),
        lines,
        ..message(run, site, now)
    }
}

/// A channel to the team that the worker has opened, with its options.
pub(super) type OpenChannel = (ChannelOptions, Rc<Channel>);

/// Sends the message to the receivers of a request, and reports how each channel responded. Tries all
/// channels at the same time for [`Receivers::All`], and one after another until one accepts otherwise.
async fn serve(request: CanaryRequest, mut channels: Vec<OpenChannel>) {
    let CanaryRequest { notice, receivers, reports } = request;
    match receivers {
        Receivers::All => {
            let mut sending = JoinSet::new();
            for channel in channels {
                let (notice, reports) = (notice.clone(), reports.clone());
                sending.spawn_local(async move {
                    let _ = reports.send(send(&channel, &notice).await);
                });
            }
            drop(reports);
            while sending.join_next().await.is_some() {}
        }
        Receivers::FirstWorking { last } => {
            channels.sort_by_key(|(options, _)| last.contains(&options.name));
            for channel in channels {
                let report = send(&channel, &notice).await;
                let is_accepted = report.result.is_ok();
                let _ = reports.send(report);
                if is_accepted {
                    return;
                }
            }
        }
    }
}

/// Sends the message through one channel.
async fn send((options, channel): &OpenChannel, notice: &Notification) -> ChannelReport {
    report(options, channel.send_dated(notice)).await
}

/// Waits until `sending` through a channel ends, and reports the result. No reply within [`CHANNEL_TIMEOUT`]
/// and a panic, which is logged, count as failures.
async fn report(
    options: &ChannelOptions,
    sending: impl Future<Output = (Outcome, Option<Timestamp>)>,
) -> ChannelReport {
    let began = Instant::now();
    let sending = panics::catch_async(Part::Delivery, sending);
    let sent = tokio::time::timeout(CHANNEL_TIMEOUT, sending).await;
    let ours = Timestamp::now();
    let (outcome, theirs) = match sent {
        Ok(Ok(sent)) => sent,
        Ok(Err(panic)) => {
            tracing::error!(
                channel = options.name,
                "{panic} ended the sending of a canary message; the channel counts as failed for that message"
            );
            (Outcome::failed(Cause::Unclear, panic.to_string()), None)
        }
        Err(_) => {
            let limit = CHANNEL_TIMEOUT.as_secs();
            let fault = format!(
                "no reply within {limit} s, the time limit of the canary; a delivery would wait longer"
            );
            (Outcome::failed(Cause::Channel, fault), None)
        }
    };
    let result = match outcome {
        Outcome::Delivered(reply) => Ok(reply),
        Outcome::Failed(failure) => Err(test_message::describe_failure(&options.kind, &failure)),
    };
    let is_mail = matches!(options.kind, TransportOptions::Smtp(_));
    let times = theirs.map(|theirs| ReceiverTime { theirs, ours });
    ChannelReport { name: options.name.clone(), is_mail, result, took: began.elapsed(), times }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::MailAddresses;
    use crate::maildir::MaildirOptions;
    use crate::smtp::{SmtpDeadlines, SmtpOptions, SmtpTls};
    use frontdesk_inbox::submission::delivery::Condition;
    use std::path::Path;
    use tokio::task::LocalSet;

    #[tokio::test]
    async fn every_channel_gets_the_message_and_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let channels =
            [maildir("box", &folder.path().join("box")), maildir("gone", Path::new("/dev/null/x"))];
        let mut reports = sent(&channels, Receivers::All).await;
        reports.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(
            reports.iter().map(|it| (&*it.name, it.result.is_ok())).collect::<Vec<_>>(),
            [("box", true), ("gone", false)]
        );
        assert!(reports.iter().all(|report| !report.is_mail));
        assert_eq!(files(&folder.path().join("box")).len(), 1);
    }

    #[tokio::test]
    async fn a_notification_goes_to_the_first_working_channel_only() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        let channels = [maildir("gone", Path::new("/dev/null/x")), maildir("a", &a), maildir("b", &b)];
        let send = |last: &[&str]| {
            let last = last.iter().map(|name| (*name).to_owned()).collect();
            sent(&channels, Receivers::FirstWorking { last })
        };
        let names = |reports: Vec<ChannelReport>| reports.into_iter().map(|it| it.name).collect::<Vec<_>>();
        assert_eq!(names(send(&[]).await), ["gone", "a"]);
        assert_eq!(names(send(&["gone", "a"]).await), ["b"]);
    }

    #[tokio::test]
    async fn a_maildir_keeps_only_the_message_of_the_last_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box");
        let channels = [maildir("box", &path)];
        send_run(&channels, 1, Receivers::All).await;
        let first = files(&path);
        // A mail reader has moved it, and another message must stay.
        std::fs::rename(path.join("new").join(&first[0]), path.join("cur").join(format!("{}:2,S", first[0])))
            .unwrap();
        std::fs::write(path.join("new/1.x-submission.example.com"), "").unwrap();
        send_run(&channels, 2, Receivers::All).await;
        let kept = files(&path);
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert!(
            kept.iter().any(|name| name.contains(&format!("{}-canary.", Uuid::from_u128(2)))),
            "{kept:?}"
        );
        assert_eq!(std::fs::read_dir(path.join("cur")).unwrap().count(), 0);
    }

    #[test]
    fn a_panic_is_the_result_of_its_channel_only() {
        let folder = tempfile::tempdir().unwrap();
        let well = maildir("well", &folder.path().join("well"));
        let smtp = SmtpOptions {
            host: "127.0.0.1".to_owned(),
            port: 9,
            tls: SmtpTls::None,
            login: None,
            helo: None,
            addresses: MailAddresses::new("desk@example.com", "", &["team@example.com".to_owned()]).unwrap(),
            extra_roots: None,
            deadlines: SmtpDeadlines::default(),
        };
        let broken =
            ChannelOptions { kind: TransportOptions::Smtp(smtp), ..maildir("broken", folder.path()) };
        // Sockets panic in this runtime, but files work.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let before = panics::count(Part::Delivery);
        for receivers in [Receivers::All, Receivers::FirstWorking { last: Vec::new() }] {
            let mut reports = runtime.block_on(sent(&[broken.clone(), well.clone()], receivers));
            reports.sort_by(|a, b| a.name.cmp(&b.name));
            let [broken, well] = &reports[..] else { panic!("{reports:?}") };
            assert!(
                broken.result.as_ref().is_err_and(|fault| fault.contains("a defect in frontdesk")),
                "{broken:?}"
            );
            assert!(well.result.is_ok(), "{well:?}");
        }
        assert!(panics::count(Part::Delivery) >= before + 2);
    }

    #[tokio::test]
    async fn a_request_without_a_worker_gets_no_report() {
        let link = CanaryLink::default();
        let mut reports =
            link.send(message(Uuid::nil(), "example.com", Timestamp::UNIX_EPOCH), Receivers::All);
        assert!(reports.try_recv().is_err());
        assert!(!*link.leads().borrow());
        let lead = link.lead();
        assert!(*link.leads().borrow());
        drop(lead);
        assert!(!*link.leads().borrow());
    }

    #[test]
    fn a_chat_shows_the_message_without_a_sound() {
        let notice = message(Uuid::nil(), "example.com", Timestamp::UNIX_EPOCH);
        assert!(notice.is_quiet() && !notice.is_suspicious);
        assert!(
            !fault_notification(Uuid::nil(), "example.com", Vec::new(), Timestamp::UNIX_EPOCH).is_quiet()
        );
    }

    async fn sent(channels: &[ChannelOptions], receivers: Receivers) -> Vec<ChannelReport> {
        send_run(channels, 1, receivers).await
    }

    async fn send_run(channels: &[ChannelOptions], run: u128, receivers: Receivers) -> Vec<ChannelReport> {
        let open = |options: &ChannelOptions| (options.clone(), Rc::new(Channel::open(&options.kind)));
        let channels: Vec<OpenChannel> = channels.iter().map(open).collect();
        let link = CanaryLink::default();
        let notice = message(Uuid::from_u128(run), "example.com", Timestamp::UNIX_EPOCH);
        let mut reports = link.send(notice, receivers);
        LocalSet::new()
            .run_until(async {
                let mut sending = JoinSet::new();
                link.start(&channels, &mut sending);
                let mut found = Vec::new();
                while let Some(report) = reports.recv().await {
                    found.push(report);
                }
                found
            })
            .await
    }

    fn maildir(name: &str, path: &Path) -> ChannelOptions {
        let addresses = MailAddresses::new("desk@example.com", "", &["team@example.com".to_owned()]).unwrap();
        ChannelOptions {
            name: name.to_owned(),
            forms: Vec::new(),
            when: Condition::default(),
            concurrency: 1,
            has_daily_quota: false,
            kind: TransportOptions::Maildir(MaildirOptions { path: path.to_owned(), addresses }),
        }
    }

    /// The names of the messages in `new/` and `cur/`.
    fn files(maildir: &Path) -> Vec<String> {
        let list = |part| std::fs::read_dir(maildir.join(part)).into_iter().flatten().flatten();
        list("new").chain(list("cur")).map(|entry| entry.file_name().into_string().unwrap()).collect()
    }
}
