//! The state that all requests to the web interface share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};

use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};

use super::html::Templates;
use super::login_sources::LoginSources;
use super::options::{DeskOptions, MAX_EXPORTS};
use super::reader_pool::Readers;
use super::unauthenticated_limits::StrangerLimiter;
use frontdesk_http::Address;
use frontdesk_inbox::store::{DatabaseUrl, Store};
use frontdesk_limits::{LimitOptions, LocalLimiter, Quota};

/// Maximum number of open streams of events. Further pages are not updated live.
const MAX_STREAMS: usize = 32;

/// Requests for mails with login links that a client's address and its network may send. The quota `form` is
/// not used.
const MAIL_LIMITS: LimitOptions = LimitOptions {
    enabled: true,
    source: Quota { per_minute: 5, per_hour: 20 },
    network: Quota { per_minute: 20, per_hour: 100 },
    form: Quota { per_minute: 1, per_hour: 1 },
};
/// Maximum number of mails that are sent at a time; further requests send none.
const MAX_MAILS: usize = 8;

pub(super) struct DeskState {
    pub(super) store: Store,
    /// The address of the listener, with its actual port. `None` if the interface has no listener of its own.
    pub(super) address: Option<Address>,
    /// Limits requests without a login.
    pub(super) strangers: StrangerLimiter,
    /// Limits requests for mails with login links.
    pub(super) login_requests: LocalLimiter,
    /// Limits the login links that one network can request for one user.
    pub(super) login_sources: LoginSources,
    /// Limits the number of mails that are sent at the same time.
    pub(super) login_mails: Arc<Semaphore>,
    /// The options for which sessions of removed users were last ended, so that each reload ends them once.
    pub(super) known_options: Mutex<Option<Weak<DeskOptions>>>,
    pub(super) readers: Readers,
    pub(super) templates: Templates,
    pub(super) live: LiveList,
    /// Limits the number of simultaneous downloads.
    pub(super) exports: Arc<Semaphore>,
    /// The last result of a test message through each channel since the server started.
    pub(super) tests: Mutex<HashMap<String, ChannelTest>>,
    /// Channels through which a test message is being sent.
    pub(super) testing: Mutex<HashSet<String>>,
}

/// Announces changes of the list to browsers that show it.
pub(super) struct LiveList {
    /// Increases with each announced change of the list.
    pub(super) version: watch::Sender<u64>,
    /// Limits the streams of events to browsers.
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
            login_requests: LocalLimiter::small(&MAIL_LIMITS),
            login_sources: LoginSources::default(),
            login_mails: Arc::new(Semaphore::new(MAX_MAILS)),
            known_options: Mutex::default(),
            readers: Readers::new(database),
            templates: Templates::new(),
            live,
            exports: Arc::new(Semaphore::new(MAX_EXPORTS)),
            tests: Mutex::default(),
            testing: Mutex::default(),
        }
    }
}
