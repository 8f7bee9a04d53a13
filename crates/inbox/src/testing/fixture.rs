//! An inbox with its runtime, and submissions to send to it.

use std::time::Duration;
use uuid::Uuid;

use super::fresh::Fresh;
use super::inbox::{Options, TestInbox};
use crate::intake::Arrival;
use crate::store::{Accepted, InboxReader, StoreError};
use crate::submission::Status;
use crate::submission::delivery::{Delivery, Route};
use frontdesk_forms::{CONTACT, Entry, Form, WAITLIST, parse};
use frontdesk_limits::Source;
use frontdesk_screening::Evidence;
use frontdesk_screening::verdict::ScreeningVerdict;

pub const MILLISECOND: Duration = Duration::from_millis(1);

/// A store in a new database, and a runtime to call it on.
pub struct Fixture {
    pub store: TestInbox,
    pub options: Options,
    pub runtime: tokio::runtime::Runtime,
    pub fresh: Fresh,
}

/// Channels with these names that accept these forms. An empty `forms` means all forms.
pub fn channels(names: &[&str], forms: &[&str]) -> Vec<Route> {
    let forms: Vec<String> = forms.iter().map(|form| (*form).to_owned()).collect();
    names.iter().map(|name| Route { forms: forms.clone(), ..Route::new(name) }).collect()
}

impl Fixture {
    /// A store without channels, in SQLite or PostgreSQL, whichever the tests run with.
    pub fn new() -> Fixture {
        Fixture::with_options(|_| {})
    }

    /// A store without channels in a SQLite file.
    pub fn in_file() -> Fixture {
        Fixture::open(Fresh::file, |_| {})
    }

    pub fn with_options(change: impl FnOnce(&mut Options)) -> Fixture {
        Fixture::open(Fresh::place, change)
    }

    pub fn open(fresh: impl FnOnce() -> Fresh, change: impl FnOnce(&mut Options)) -> Fixture {
        let fresh = fresh();
        let mut options = Options::new(fresh.url.clone());
        change(&mut options);
        Fixture { store: TestInbox::open(&options).unwrap(), options, runtime: runtime(), fresh }
    }

    pub fn with_channels(names: &[&str], forms: &[&str]) -> Fixture {
        Fixture::with_options(|options| options.channels = channels(names, forms))
    }

    pub fn in_file_with_channels(names: &[&str]) -> Fixture {
        Fixture::open(Fresh::file, |options| options.channels = channels(names, &[]))
    }

    /// Accepts a submission, and waits until it is processed.
    pub fn accept(&self, arrival: &Arrival) -> Result<Accepted, StoreError> {
        self.runtime.block_on(self.store.accept_and_process(arrival.clone()))
    }

    /// Accepts all of these concurrently, and waits until they are processed. The results are in the same
    /// order.
    pub fn accept_all(&self, arrivals: &[Arrival]) -> Vec<Result<Accepted, StoreError>> {
        self.runtime.block_on(async {
            let tasks: Vec<_> = arrivals
                .iter()
                .map(|arrival| {
                    let (store, arrival) = (self.store.clone(), arrival.clone());
                    tokio::spawn(async move { store.accept_and_process(arrival).await })
                })
                .collect();
            let mut accepted = Vec::new();
            for task in tasks {
                accepted.push(task.await.unwrap());
            }
            accepted
        })
    }

    /// Accepts a submission, which must not be a repeat, and returns its id.
    pub fn accept_new(&self, arrival: &Arrival) -> Uuid {
        match self.accept(arrival).unwrap() {
            Accepted::New(id) => id,
            Accepted::Duplicate(id) => panic!("mistaken for a repeat of {id}"),
        }
    }

    /// Accepts a submission, which must be a repeat of `original`.
    pub fn accept_repeat(&self, arrival: &Arrival, original: Uuid) {
        assert_eq!(self.accept(arrival).unwrap(), Accepted::Duplicate(original));
    }

    pub fn reader(&self) -> InboxReader {
        InboxReader::open(&self.options.url).unwrap()
    }

    pub fn status(&self, id: Uuid) -> Status {
        self.reader().get(id).unwrap().unwrap().status
    }

    pub fn deliveries(&self, id: Uuid) -> Vec<Delivery> {
        self.reader().deliveries(id).unwrap()
    }
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

pub fn entry(form: &'static Form, body: &str) -> Entry {
    parse(form, body.as_bytes()).unwrap()
}

/// A submission of this entry from the address 192.0.2.1, with a screening verdict of 0 points.
pub fn arrival(entry: Entry) -> Arrival {
    Arrival {
        entry,
        idempotency_key: None,
        source: source(1),
        received_at: "2026-11-20T14:03:05.1204Z".parse().unwrap(),
        evidence: Evidence::Verdict(ScreeningVerdict::default()),
        agent: None,
        lead: frontdesk_forms::LeadSource::default(),
    }
}

pub fn contact(message: &str) -> Arrival {
    let body = serde_json::json!({"message": message, "email": "ada@example.com", "name": "Ada"});
    arrival(entry(&CONTACT, &body.to_string()))
}

pub fn waitlist(email: &str) -> Arrival {
    arrival(entry(&WAITLIST, &serde_json::json!({ "email": email }).to_string()))
}

pub fn source(n: u8) -> Source {
    Source::V4([192, 0, 2, n])
}

pub fn later(arrival: &Arrival, by: Duration) -> Arrival {
    Arrival { received_at: arrival.received_at + by, ..arrival.clone() }
}
