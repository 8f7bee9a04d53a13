//! The worker on a real inbox, with Maildirs as channels: nothing but this process takes part.

use std::fs;
use std::path::Path;

use super::*;
use crate::deliver::{Kind, Options as ChannelOptions, maildir};
use crate::forms::{CONTACT, parse};
use crate::limits::Source;
use crate::screening::{self, Signal};
use crate::store::tests::fresh::Fresh;
use crate::store::{self, Arrival, Editor, Filter, Reader};
use crate::submission::delivery::{Room, Want};
use crate::submission::{Status, Submission};

#[test]
fn what_comes_in_is_delivered_by_every_channel_at_once() {
    let desk = Desk::new(&["box", "copy"]);
    let worker = desk.start();
    for n in 0..20 {
        desk.accept(&format!("message {n}"));
    }
    desk.wait("all are delivered", || desk.statuses().iter().all(|status| *status == Status::Delivered));
    assert_eq!((desk.mails("box").len(), desk.mails("copy").len()), (20, 20));
    worker.stop();
}

#[test]
fn what_was_queued_while_nobody_delivered_is_delivered_later() {
    let desk = Desk::in_file(&["box"]);
    let id = desk.accept("Hello");
    // As if the process had ended in the middle of an attempt.
    let target = Target { name: "box".to_owned(), leads_to: String::new() };
    let want = Want { target, room: Room { any: 1, again: 1 }, turn: 0 };
    let claims = desk.store.claim(vec![want], Vec::new(), Timestamp::now(), LEASE);
    assert_eq!(desk.runtime.block_on(claims).unwrap()[0].claimed.len(), 1);
    let _worker = desk.start();
    desk.wait("it is delivered", || desk.statuses() == [Status::Delivered]);
    assert_eq!(Reader::open(&desk.options.place).unwrap().deliveries(id).unwrap()[0].attempts.len(), 2);
}

#[test]
fn of_two_that_share_an_inbox_one_delivers_and_the_other_takes_over() {
    let desk = Desk::new(&["box"]);
    let (first, second) = (desk.start(), desk.start());
    desk.accept("one");
    desk.wait("it is delivered", || desk.statuses() == [Status::Delivered]);
    first.stop();
    desk.accept("two");
    desk.wait("both are delivered", || desk.statuses() == [Status::Delivered; 2]);
    second.stop();
    assert_eq!(desk.mails("box").len(), 2);
}

#[test]
fn what_the_operator_releases_from_elsewhere_is_delivered_at_once() {
    let desk = Desk::new(&["box"]);
    let _worker = desk.start();
    let id = desk.runtime.block_on(desk.store.keep(arrival("Hello").held_for(&[(Signal::Links, "4 links")])));
    let id = id.unwrap().id();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(desk.mails("box").len(), 0);
    assert!(Editor::open(&desk.options.place).unwrap().release(id, &[], Timestamp::now()).unwrap());
    // Well before the worker would look by itself.
    desk.wait("it is delivered", || desk.statuses() == [Status::Delivered]);
}

#[test]
fn a_confirmation_is_waited_for_as_long_as_it_takes_or_as_is_allowed() {
    let desk = Desk::new(&["box"]);
    let id = desk.accept("Hello");
    let patience = Duration::from_millis(50);
    let early = Confirmations::default();
    assert!(!desk.runtime.block_on(early.wait(&desk.store, id, patience)).unwrap());
    assert_eq!(early.lock().len(), 0, "nothing is left of it");
    let given_up = async {
        tokio::select! {
            _ = early.wait(&desk.store, id, Duration::from_mins(1)) => panic!("nobody delivers it"),
            () = tokio::time::sleep(patience) => {}
        }
    };
    desk.runtime.block_on(given_up);
    assert_eq!(early.lock().len(), 0, "nothing is left of one who hangs up either");
    let worker = desk.start();
    let confirmations = worker.confirmations();
    assert!(desk.runtime.block_on(confirmations.wait(&desk.store, id, Duration::from_secs(20))).unwrap());
    let held = arrival("held").held_for(&[(Signal::Links, "4 links")]);
    let held = desk.runtime.block_on(desk.store.keep(held)).unwrap().id();
    let is_confirmed = desk.runtime.block_on(confirmations.wait(&desk.store, held, patience)).unwrap();
    assert!(!is_confirmed, "no channel has what is held");
}

#[test]
fn once_delivered_only_the_recipient_can_read_it() {
    let desk = Desk::in_file(&["box"]);
    let recipient =
        Recipient::parse("age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p").unwrap();
    let _worker = desk.start_with(Housekeeping { recipient: Some(recipient), ..Housekeeping::default() });
    desk.accept("sesame");
    desk.wait("it is sealed", || desk.list()[0].sealed.is_some());
    assert!(desk.list()[0].fields.is_empty());
    // Neither the database nor its log has it any more.
    desk.wait("its log is cut off", || !desk.files_hold("sesame") && !desk.files_hold("ada@example.com"));
    assert!(desk.mails("box")[0].contains("sesame"), "the search would find it");
}

/// An inbox with Maildirs beside it.
struct Desk {
    fresh: Fresh,
    options: store::Options,
    channels: Vec<ChannelOptions>,
    store: Store,
    runtime: tokio::runtime::Runtime,
}

impl Desk {
    /// With the database that the tests are run over.
    fn new(channels: &[&str]) -> Desk {
        Desk::with(Fresh::place(), channels)
    }

    /// For what is SQLite's alone.
    fn in_file(channels: &[&str]) -> Desk {
        Desk::with(Fresh::file(), channels)
    }

    fn with(fresh: Fresh, channels: &[&str]) -> Desk {
        let mut options = store::Options::in_place(fresh.place.clone());
        let channels: Vec<ChannelOptions> = channels
            .iter()
            .map(|name| ChannelOptions {
                name: (*name).to_owned(),
                forms: Vec::new(),
                concurrency: 4,
                kind: Kind::Maildir(maildir::Options {
                    path: fresh.folder.path().join(name),
                    from: "desk@example.com".to_owned(),
                    from_name: "Desk".to_owned(),
                    to: vec!["team@example.com".to_owned()],
                }),
            })
            .collect();
        options.channels = channels.iter().map(ChannelOptions::route).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Desk { store: Store::open(&options).unwrap(), options, channels, runtime, fresh }
    }

    fn start(&self) -> Worker {
        self.start_with(Housekeeping::default())
    }

    fn start_with(&self, housekeeping: Housekeeping) -> Worker {
        let options = Options {
            place: self.options.place.clone(),
            channels: self.channels.clone(),
            housekeeping,
            grace: Duration::from_secs(5),
        };
        Worker::start(options, self.store.clone()).unwrap()
    }

    fn accept(&self, message: &str) -> Uuid {
        self.runtime.block_on(self.store.keep(arrival(message))).unwrap().id()
    }

    fn list(&self) -> Vec<Submission> {
        let inbox = Reader::open(&self.options.place).unwrap();
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
        let folder = self.options.place.file().and_then(Path::parent).unwrap();
        let mut contents = fs::read_dir(folder).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
        contents.any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }

    /// Well within the minute after which the worker would look by itself.
    #[track_caller]
    fn wait(&self, what: &str, until: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !until() {
            assert!(Instant::now() < deadline, "waited in vain until {what}: {:?}", self.statuses());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn arrival(message: &str) -> Arrival {
    let body = serde_json::json!({"message": message, "email": "ada@example.com", "name": "Ada"});
    Arrival {
        entry: parse(&CONTACT, body.to_string().as_bytes()).unwrap(),
        idempotency_key: None,
        source: Source::V4([192, 0, 2, 1]),
        received_at: Timestamp::now(),
        evidence: screening::Evidence::Verdict(screening::Verdict::default()),
        agent: None,
    }
}
