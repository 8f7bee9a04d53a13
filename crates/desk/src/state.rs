//! The state that all requests to the web interface share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};

use super::html::Templates;
use super::readers::Readers;
use super::strangers::StrangerLimiter;
use frontdesk_http::Address;
use frontdesk_inbox::store::{DatabaseUrl, Store};

/// Maximum number of open streams of events; further pages are not live.
const MAX_STREAMS: usize = 32;

/// Maximum number of exports at a time. Each one occupies a thread while its client reads it.
pub(super) const MAX_EXPORTS: usize = 4;

pub(super) struct DeskState {
    pub(super) store: Store,
    /// The address of the listener, with its actual port. `None` if it has none of its own.
    pub(super) address: Option<Address>,
    /// Limits requests without a login.
    pub(super) strangers: StrangerLimiter,
    pub(super) readers: Readers,
    pub(super) templates: Templates,
    pub(super) live: LiveList,
    pub(super) exports: Arc<Semaphore>,
    /// The results of test messages since the start, by channel.
    pub(super) tests: Mutex<HashMap<String, ChannelTest>>,
    /// Channels through which a test message is being sent.
    pub(super) testing: Mutex<HashSet<String>>,
}

/// The streams of events, and the version of the list that they announce.
pub(super) struct LiveList {
    /// Grows with each announced change of the list.
    pub(super) version: watch::Sender<u64>,
    pub(super) streams: Arc<Semaphore>,
}

/// The result of a test message.
#[derive(Debug, Clone)]
pub(super) struct ChannelTest {
    pub(super) at: Timestamp,
    /// The result in a sentence.
    pub(super) sentence: String,
    /// The receiver's reply, and where to find the message or what to check.
    pub(super) outcome: Result<String, String>,
}

impl DeskState {
    pub(super) fn new(store: Store, database: DatabaseUrl, address: Option<Address>) -> Self {
        let live =
            LiveList { version: watch::Sender::new(0), streams: Arc::new(Semaphore::new(MAX_STREAMS)) };
        Self {
            store,
            address,
            strangers: StrangerLimiter::new(),
            readers: Readers::new(database),
            templates: Templates::new(),
            live,
            exports: Arc::new(Semaphore::new(MAX_EXPORTS)),
            tests: Mutex::default(),
            testing: Mutex::default(),
        }
    }
}
