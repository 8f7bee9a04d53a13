//! Tests the worker with a real inbox, and with Maildirs as channels.

use std::fs;
use std::path::Path;

use uuid::Uuid;

use super::*;
use crate::mail::MailAddresses;
use crate::{ChannelOptions, TransportOptions, maildir};
use frontdesk_forms::{CONTACT, parse};
use frontdesk_inbox::intake::Arrival;
use frontdesk_inbox::store::{Editor, Filter, InboxReader};
use frontdesk_inbox::submission::delivery::{Capacity, ClaimRequest, Condition};
use frontdesk_inbox::submission::{Status, Submission};
use frontdesk_inbox::testing::fresh::Fresh;
use frontdesk_inbox::testing::inbox::{Options as InboxOptions, TestInbox};
use frontdesk_limits::Source;
use frontdesk_screening::Evidence;
use frontdesk_screening::verdict::{ScreeningVerdict, Signal};

#[test]
fn a_submission_is_delivered_to_every_channel_at_once() {
    let fixture = Fixture::new(&["box", "copy"]);
    let worker = fixture.start();
    for n in 0..20 {
        fixture.accept(&format!("message {n}"));
    }
    fixture
        .wait("all are delivered", || fixture.statuses().iter().all(|status| *status == Status::Delivered));
    assert_eq!((fixture.mails("box").len(), fixture.mails("copy").len()), (20, 20));
    worker.stop();
}

#[test]
fn submissions_queued_without_a_worker_are_delivered_later() {
    let fixture = Fixture::in_file(&["box"]);
    let id = fixture.accept("Hello");
    // Simulate a process that ended during an attempt.
    let target = ChannelTarget { name: "box".to_owned(), destination: String::new() };
    let want = ClaimRequest { target, capacity: Capacity { any: 1, retries: 1 }, earlier_attempts: 0 };
    let claims = fixture.store.claim_by_rank(vec![want], Vec::new(), Timestamp::now(), LEASE);
    assert_eq!(fixture.runtime.block_on(claims).unwrap()[0].claimed.len(), 1);
    let _worker = fixture.start();
    fixture.wait("it is delivered", || fixture.statuses() == [Status::Delivered]);
    assert_eq!(InboxReader::open(&fixture.options.url).unwrap().deliveries(id).unwrap()[0].attempts.len(), 2);
}

#[test]
fn one_of_two_workers_delivers_and_the_other_takes_over() {
    let fixture = Fixture::new(&["box"]);
    let (first, second) = (fixture.start(), fixture.start());
    fixture.accept("one");
    fixture.wait("it is delivered", || fixture.statuses() == [Status::Delivered]);
    first.stop();
    fixture.accept("two");
    fixture.wait("both are delivered", || fixture.statuses() == [Status::Delivered; 2]);
    second.stop();
    assert_eq!(fixture.mails("box").len(), 2);
}

#[test]
fn a_release_by_another_process_is_delivered_at_once() {
    let fixture = Fixture::new(&["box"]);
    let _worker = fixture.start();
    let id = fixture
        .runtime
        .block_on(fixture.store.accept_and_process(arrival("Hello").held_for(&[(Signal::Links, "4 links")])));
    let id = id.unwrap().id();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(fixture.mails("box").len(), 0);
    assert!(Editor::open(&fixture.options.url).unwrap().release(id, &[], Timestamp::now()).unwrap());
    // `wait` times out before the worker would wake up without a notification.
    fixture.wait("it is delivered", || fixture.statuses() == [Status::Delivered]);
}

#[test]
fn waiting_for_a_confirmation_ends_at_the_timeout() {
    let fixture = Fixture::new(&["box"]);
    let id = fixture.accept("Hello");
    let patience = Duration::from_millis(50);
    let early = Confirmations::default();
    assert!(!fixture.runtime.block_on(early.wait(&fixture.store, id, patience)).unwrap());
    assert_eq!(early.lock().len(), 0, "the registration has been removed");
    let given_up = async {
        tokio::select! {
            _ = early.wait(&fixture.store, id, Duration::from_mins(1)) => panic!("there is no worker to deliver it"),
            () = tokio::time::sleep(patience) => {}
        }
    };
    fixture.runtime.block_on(given_up);
    assert_eq!(early.lock().len(), 0, "the registration of a disconnected client has been removed");
    let worker = fixture.start();
    let confirmations = worker.confirmations.clone();
    assert!(
        fixture.runtime.block_on(confirmations.wait(&fixture.store, id, Duration::from_secs(20))).unwrap()
    );
    let held = arrival("held").held_for(&[(Signal::Links, "4 links")]);
    let held = fixture.runtime.block_on(fixture.store.accept_and_process(held)).unwrap().id();
    let is_confirmed = fixture.runtime.block_on(confirmations.wait(&fixture.store, held, patience)).unwrap();
    assert!(!is_confirmed, "no channel has received a held submission");
}

#[test]
fn a_delivered_submission_is_readable_by_the_recipient_only() {
    let fixture = Fixture::in_file(&["box"]);
    let recipient =
        Recipient::parse("age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p").unwrap();
    let _worker = fixture
        .start_with(MaintenanceOptions { recipient: Some(recipient), ..MaintenanceOptions::default() });
    fixture.accept("sesame");
    fixture.wait("it is sealed", || fixture.list()[0].sealed.is_some());
    assert!(fixture.list()[0].fields.is_empty());
    // Neither the database nor its write-ahead log may still contain the text.
    fixture.wait("the log is truncated", || {
        !fixture.files_hold("sesame") && !fixture.files_hold("vera@example.com")
    });
    assert!(fixture.mails("box")[0].contains("sesame"), "the search finds plain text");
}

#[test]
fn parent_folders_are_created_only_for_new_maildirs() {
    let fixture = Fixture::new(&["one/box", "two/box"]);
    let exist = || ["one", "two"].map(|folder| fixture.fresh.folder.path().join(folder).is_dir());
    let all = fixture.worker_options(MaintenanceOptions::default());
    let one = WorkerOptions { channels: all.channels[..1].to_vec(), ..all.clone() };
    let worker = DeliveryWorker::start(one, (*fixture.store).clone()).unwrap();
    assert_eq!(exist(), [true, false]);
    // The file system of this Maildir is not mounted.
    fs::remove_dir_all(fixture.fresh.folder.path().join("one")).unwrap();
    worker.reconfigure(all);
    assert_eq!(exist(), [false, true]);
}

#[test]
fn deliveries_start_although_clamping_fails_and_it_is_retried() {
    let fixture = Fixture::in_file(&["box"]);
    let late = fixture.accept("Hello");
    let database = rusqlite::Connection::open(fixture.options.url.file().unwrap()).unwrap();
    let tomorrow = Timestamp::now() + Duration::from_hours(24);
    // Only clamping makes a delivery due earlier.
    let postpone = format!(
        "UPDATE delivery SET due_at = {}, failures = 1 WHERE state = 'waiting'",
        tomorrow.as_millisecond()
    );
    database.execute_batch(&postpone).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE UPDATE ON delivery WHEN old.due_at > new.due_at BEGIN SELECT raise(ABORT, 'refused'); END";
    database.execute_batch(refuse).unwrap();
    fixture.accept("due");
    let (_options, latest) = watch::channel(fixture.worker_options(MaintenanceOptions::default()));
    let (_stop, stopping) = watch::channel(false);
    let shared = ((*fixture.store).clone(), Confirmations::default(), Arc::default());
    let mut work = WorkerLoop::new(latest, stopping, shared, Rc::default());
    let _lock = fixture.runtime.block_on(work.take_over());
    let dispatch = |work: &mut WorkerLoop| {
        LocalSet::new().block_on(&fixture.runtime, work.dispatch());
        work.started_attempts.iter().map(|attempt| attempt.lease.submission == late).collect::<Vec<_>>()
    };
    assert_eq!(dispatch(&mut work), [false], "the other delivery starts");
    database.execute_batch("DROP TRIGGER refuse").unwrap();
    assert_eq!(dispatch(&mut work), [false], "clamping waits for a minute");
    work.clamp_at = work.clamp_at.map(|_| Instant::now());
    assert_eq!(dispatch(&mut work), [false, true]);
    // Another retry is scheduled before the clock is set back by a day.
    fixture.accept("later");
    database.execute_batch(&postpone).unwrap();
    assert_eq!(dispatch(&mut work).len(), 2);
    work.clock = (tomorrow, Instant::now());
    assert_eq!(dispatch(&mut work).len(), 3);
}

#[test]
fn a_digest_does_not_repeat_panics_after_a_reload_or_a_restart() {
    let fixture = Fixture::new(&["box"]);
    let (_options, latest) = watch::channel(fixture.worker_options(MaintenanceOptions::default()));
    let (_stop, stopping) = watch::channel(false);
    let reported_panics: Rc<Cell<u64>> = Rc::default();
    let start = || {
        let (latest, stopping, store) = (latest.clone(), stopping.clone(), (*fixture.store).clone());
        WorkerLoop::new(
            latest,
            stopping,
            (store, Confirmations::default(), Arc::default()),
            Rc::clone(&reported_panics),
        )
    };
    let work = start();
    work.maintenance().reported_panics.set(3);
    // Each configuration has maintenance of its own.
    assert_eq!(work.maintenance().reported_panics.get(), 3);
    assert_eq!(start().maintenance().reported_panics.get(), 3);
}

/// An inbox, with Maildirs in the same folder.
struct Fixture {
    fresh: Fresh,
    options: InboxOptions,
    channels: Vec<ChannelOptions>,
    store: TestInbox,
    runtime: tokio::runtime::Runtime,
}

impl Fixture {
    /// A fixture with the database under test.
    fn new(channels: &[&str]) -> Fixture {
        Fixture::with(Fresh::place(), channels)
    }

    /// A fixture with SQLite.
    fn in_file(channels: &[&str]) -> Fixture {
        Fixture::with(Fresh::file(), channels)
    }

    fn with(fresh: Fresh, channels: &[&str]) -> Fixture {
        let mut options = InboxOptions::new(fresh.url.clone());
        let channels: Vec<ChannelOptions> = channels
            .iter()
            .map(|name| ChannelOptions {
                has_daily_quota: false,
                name: (*name).to_owned(),
                forms: Vec::new(),
                when: Condition::default(),
                concurrency: 4,
                kind: TransportOptions::Maildir(maildir::MaildirOptions {
                    path: fresh.folder.path().join(name),
                    addresses: MailAddresses::new(
                        "desk@example.com",
                        "Desk",
                        &["team@example.com".to_owned()],
                    )
                    .unwrap(),
                }),
            })
            .collect();
        options.channels = channels.iter().map(ChannelOptions::route).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Fixture { store: TestInbox::open(&options).unwrap(), options, channels, runtime, fresh }
    }

    fn start(&self) -> DeliveryWorker {
        self.start_with(MaintenanceOptions::default())
    }

    fn start_with(&self, maintenance: MaintenanceOptions) -> DeliveryWorker {
        DeliveryWorker::start(self.worker_options(maintenance), (*self.store).clone()).unwrap()
    }

    fn worker_options(&self, maintenance: MaintenanceOptions) -> WorkerOptions {
        WorkerOptions {
            place: self.options.url.clone(),
            channels: self.channels.clone(),
            maintenance,
            grace: Duration::from_secs(5),
        }
    }

    fn accept(&self, message: &str) -> Uuid {
        self.runtime.block_on(self.store.accept_and_process(arrival(message))).unwrap().id()
    }

    fn list(&self) -> Vec<Submission> {
        let inbox = InboxReader::open(&self.options.url).unwrap();
        inbox.list(&Filter::default()).unwrap().map(Result::unwrap).collect()
    }

    fn statuses(&self) -> Vec<Status> {
        self.list().iter().map(|submission| submission.status).collect()
    }

    fn mails(&self, channel: &str) -> Vec<String> {
        let Ok(files) = fs::read_dir(self.fresh.folder.path().join(channel).join("new")) else {
            return Vec::new();
        };
        files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
    }

    fn files_hold(&self, text: &str) -> bool {
        let folder = self.options.url.file().and_then(Path::parent).unwrap();
        let mut contents = fs::read_dir(folder).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
        contents.any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }

    /// Waits for at most 30 seconds, which is less than the minute after which the worker wakes up without a
    /// notification.
    #[track_caller]
    fn wait(&self, what: &str, until: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !until() {
            assert!(Instant::now() < deadline, "timed out waiting until {what}: {:?}", self.statuses());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn arrival(message: &str) -> Arrival {
    let body = serde_json::json!({"message": message, "email": "vera@example.com", "name": "Ada"});
    Arrival {
        entry: parse(&CONTACT, body.to_string().as_bytes()).unwrap(),
        idempotency_key: None,
        source: Source::V4([192, 0, 2, 1]),
        received_at: Timestamp::now(),
        evidence: Evidence::Verdict(ScreeningVerdict::default()),
        agent: None,
        lead: frontdesk_forms::LeadSource::default(),
    }
}
