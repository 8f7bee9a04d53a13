//! Notifies other processes of commits.
//!
//! A process that has committed to a SQLite file signals the file ([`frontdesk_process::file_signal`]). With
//! PostgreSQL, processes use NOTIFY and LISTEN.

#![expect(clippy::disallowed_methods, reason = "a thread waits for changes")]

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::database_url::DatabaseUrl;
use super::postgres::BRIEF;
use super::postgres::connection::PgConnection;
use super::sql::Sql;
use frontdesk_postgres::{OnNotification, Server};
use frontdesk_process::file_signal::FileSignalListener;
use frontdesk_process::panics;

/// Listens for commits by any process.
pub enum ChangeListener {
    File(FileSignalListener),
    Server(Box<ServerListener>),
}

impl ChangeListener {
    /// Starts listening. The database need not exist yet. If a PostgreSQL server cannot be reached,
    /// [`ChangeListener::wait`] tries again.
    pub fn listen(place: &DatabaseUrl) -> ChangeListener {
        match place {
            DatabaseUrl::Sqlite(path) => ChangeListener::File(FileSignalListener::listen(path)),
            DatabaseUrl::Postgres(server) => ChangeListener::Server(Box::new(ServerListener::listen(server))),
        }
    }

    /// Waits for a commit, or until the timeout, and returns whether there may have been a commit. Returns at
    /// once if there was one since the last call. With PostgreSQL, not every commit is announced, so a wait
    /// ends after two seconds (behind a pooler, one second) and returns true, unless the timeout is shorter.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        match self {
            ChangeListener::File(listener) => listener.wait(timeout),
            ChangeListener::Server(listener) => listener.wait(timeout),
        }
    }
}

/// Listens for commits over a PostgreSQL connection.
pub struct ServerListener {
    server: Server,
    /// The receiver of notifications, and the connection that they arrive on; `None` while disconnected.
    heard: Option<(Receiver<()>, PgConnection)>,
    /// Whether a pooler prevents listening, so that every wait only sleeps.
    is_pooled: bool,
}

/// How often to assume a commit without a notification: replicas announce at most ten commits per second, and
/// a replica that stops may leave its last commits unannounced.
const SERVER_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How often to assume a commit if a pooler prevents notifications.
const POOLED_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl ServerListener {
    /// Connects, which blocks. If that fails, [`Self::wait`] tries again.
    fn listen(server: &Server) -> ServerListener {
        let mut listener = ServerListener { server: server.clone(), heard: None, is_pooled: false };
        listener.connect();
        listener
    }

    /// Connects and listens, unless already connected. Ignores failures. Behind a pooler, does nothing from
    /// then on, because no notification would arrive.
    fn connect(&mut self) {
        if self.is_pooled || self.heard.as_ref().is_some_and(|(_, link)| !link.is_lost()) {
            return;
        }
        let (sender, heard) = sync_channel(1);
        let notify: OnNotification = Box::new(move || {
            // Ignore a full channel: one pending notification is enough.
            let _ = sender.try_send(());
        });
        let link = PgConnection::open_listening(&self.server, BRIEF, Some(notify));
        self.is_pooled = link.as_ref().is_ok_and(PgConnection::is_pooled);
        if self.is_pooled {
            self.heard = None;
            return;
        }
        let link = link.and_then(|link| link.execute("LISTEN frontdesk", &[]).map(|_| link));
        self.heard = link.ok().map(|link| (heard, link));
    }

    /// Waits as [`ChangeListener::wait`] describes. Also returns true after the check interval. Reconnects if
    /// the connection is lost; until that succeeds, only sleeps.
    fn wait(&mut self, timeout: Duration) -> bool {
        let began = Instant::now();
        self.connect();
        let interval = if self.is_pooled { POOLED_CHECK_INTERVAL } else { SERVER_CHECK_INTERVAL };
        // After this interval without a notification, assume that there was a commit.
        let is_due = timeout >= interval;
        let timeout = timeout.min(interval);
        let heard = match &self.heard {
            Some((heard, _)) => heard.recv_timeout(timeout.saturating_sub(began.elapsed())),
            None => Err(RecvTimeoutError::Disconnected),
        };
        if heard == Err(RecvTimeoutError::Disconnected) {
            std::thread::sleep(timeout.saturating_sub(began.elapsed()));
        }
        heard.is_ok() || is_due
    }
}

/// Starts a thread that signals `changed` after commits, and sometimes without one, until all other
/// references to `changed` are dropped, and ends up to a minute later.
pub fn notify_on_change(place: &DatabaseUrl, changed: &Arc<Notify>) -> io::Result<()> {
    /// The thread ends at most this long after all other references to `changed` are dropped.
    const REFERENCE_CHECK_INTERVAL: Duration = Duration::from_mins(1);
    let (place, changed) = (place.clone(), Arc::downgrade(changed));
    let listen = move || {
        let mut listener = ChangeListener::listen(&place);
        loop {
            let may_have_changed = listener.wait(REFERENCE_CHECK_INTERVAL);
            match changed.upgrade() {
                Some(changed) if may_have_changed => changed.notify_one(),
                Some(_) => {}
                None => return,
            }
        }
    };
    let listen = move || panics::restart_after_panic("change notifications", &listen);
    std::thread::Builder::new().name("inbox-notifier".into()).spawn(listen).map(drop)
}
