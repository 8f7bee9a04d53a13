//! Notifies other processes of commits.
//!
//! A process that has committed to a SQLite file updates the file's timestamps. Listeners watch the
//! timestamps with inotify, or check them twice a second if no inotify instance or watch is available.
//! Listeners never open the file, because closing it would drop the locks that SQLite holds on it.
//!
//! With PostgreSQL, processes use NOTIFY and LISTEN.

#![expect(clippy::disallowed_methods, reason = "a thread waits for changes")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Timestamps, UTIME_NOW, inotify, utimensat};
use rustix::io::Errno;
use tokio::sync::Notify;

use super::postgres::BRIEF;
use super::postgres::connection::PgConnection;
use super::sql::Sql;
use super::url::DatabaseUrl;
use frontdesk_postgres::{OnNotification, Server};
use frontdesk_process::panics;

/// Notifies the listeners of a SQLite file by setting its timestamps. Ignores errors.
pub(super) fn notify(database: &Path) {
    // Set both timestamps: inotify reports that as `ATTRIB`, the event that listeners watch for. It does not
    // report SQLite's own writes that way.
    let now = Timestamps {
        last_access: rustix::fs::Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        last_modification: rustix::fs::Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    // Ignore a failure to set the timestamps: processes also look for changes from time to time.
    let _ = utimensat(CWD, database, &now, AtFlags::empty());
}

/// How often the timestamps are checked without inotify.
const STAMP_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Listens for commits by any process.
pub enum ChangeListener {
    File(FileListener),
    Server(Box<ServerListener>),
}

impl ChangeListener {
    /// Starts listening. The database need not exist yet. If a PostgreSQL server cannot be reached,
    /// [`ChangeListener::wait`] tries again.
    pub fn listen(place: &DatabaseUrl) -> ChangeListener {
        match place {
            DatabaseUrl::Sqlite(path) => ChangeListener::File(FileListener::listen(path)),
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

/// Listens on a PostgreSQL connection.
pub struct ServerListener {
    server: Server,
    /// The connection with the receiver of its notifications; `None` while disconnected.
    heard: Option<(Receiver<()>, PgConnection)>,
    /// Whether a pooler prevents listening, so that every wait only sleeps.
    is_pooled: bool,
}

/// How often to assume a commit without a notification: replicas announce at most ten commits per second, and
/// a replica that stops may leave its last commits unannounced.
const SERVER_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How often to assume a commit behind a pooler, through which no notifications arrive.
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
        let ring: OnNotification = Box::new(move || {
            // Ignore a full channel: one pending notification is enough.
            let _ = sender.try_send(());
        });
        let link = PgConnection::open_listening(&self.server, BRIEF, Some(ring));
        self.is_pooled = link.as_ref().is_ok_and(PgConnection::is_pooled);
        if self.is_pooled {
            self.heard = None;
            return;
        }
        let link = link.and_then(|link| link.execute("LISTEN frontdesk", &[]).map(|_| link));
        self.heard = link.ok().map(|link| (heard, link));
    }

    /// See [`ChangeListener::wait`]. Reconnects if the connection is lost; until that succeeds, only sleeps.
    fn wait(&mut self, timeout: Duration) -> bool {
        let began = Instant::now();
        self.connect();
        let interval = if self.is_pooled { POOLED_CHECK_INTERVAL } else { SERVER_CHECK_INTERVAL };
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

/// Watches a SQLite file.
pub struct FileListener {
    database: PathBuf,
    /// `None` if the user has no inotify instances left; by default, the kernel allows 128 per user.
    inotify: Option<OwnedFd>,
    /// The inotify watch of the file; `None` if it is missing.
    watch: Option<i32>,
    /// The result of [`FileListener::read_stamp`] at the end of the last wait.
    seen: Option<(u64, i64, i64)>,
}

impl FileListener {
    fn listen(database: &Path) -> FileListener {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        FileListener::with_inotify(database, inotify::init(flags).ok())
    }

    /// Starts to listen: with inotify or, if that is `None`, by checking the timestamps.
    fn with_inotify(database: &Path, inotify: Option<OwnedFd>) -> FileListener {
        let mut listener = FileListener { database: database.to_owned(), inotify, watch: None, seen: None };
        listener.seen = listener.read_stamp();
        listener.watch_file();
        listener
    }

    /// The inode and modification time (seconds, nanoseconds) of the file; `None` if they cannot be read.
    fn read_stamp(&self) -> Option<(u64, i64, i64)> {
        let metadata = std::fs::metadata(&self.database).ok()?;
        Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
    }

    /// Watches the file that is now at the path, which may have replaced the file that was watched before.
    fn watch_file(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let flags =
            inotify::WatchFlags::ATTRIB | inotify::WatchFlags::DELETE_SELF | inotify::WatchFlags::MOVE_SELF;
        let found = inotify::add_watch(inotify, &self.database, flags).ok();
        if self.watch != found
            && let Some(former) = self.watch
        {
            // Ignore the error if the watch was removed together with its file.
            let _ = inotify::remove_watch(inotify, former);
        }
        self.watch = found;
    }

    /// See [`ChangeListener::wait`]. Also returns true if the file was removed, renamed or replaced.
    fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            self.watch_file();
            let left = deadline.saturating_duration_since(Instant::now());
            let heard = match &self.inotify {
                Some(inotify) if self.watch.is_some() => {
                    let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 60, tv_nsec: 0 });
                    match poll(&mut [PollFd::new(inotify, PollFlags::IN)], Some(&timeout)) {
                        Ok(ready) => ready > 0 && drain_events(inotify),
                        Err(Errno::INTR) => false,
                        Err(_) => self.check_stamp(left),
                    }
                }
                // Check the timestamps if there is no inotify instance, or no file to watch yet.
                _ => self.check_stamp(left),
            };
            if heard || Instant::now() >= deadline {
                self.seen = self.read_stamp();
                return heard;
            }
        }
    }

    /// Whether the timestamp has changed since the last check. If not, sleeps for `left` or
    /// [`STAMP_CHECK_INTERVAL`], whichever is shorter, and checks again.
    fn check_stamp(&self, left: Duration) -> bool {
        if self.read_stamp() != self.seen {
            return true;
        }
        std::thread::sleep(left.min(STAMP_CHECK_INTERVAL));
        self.read_stamp() != self.seen
    }
}

/// Discards the pending inotify events, and returns whether there were any.
fn drain_events(inotify: &OwnedFd) -> bool {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(inotify, &mut buffer);
    let mut heard = false;
    while reader.next().is_ok() {
        heard = true;
    }
    heard
}

/// Starts a thread that signals commits to `told` until all other references to `told` are dropped, and ends
/// up to a minute later.
pub fn notify_on_change(place: &DatabaseUrl, told: &Arc<Notify>) -> io::Result<()> {
    /// How long the thread may outlive its receiver.
    const RECEIVER_CHECK_INTERVAL: Duration = Duration::from_mins(1);
    let (place, told) = (place.clone(), Arc::downgrade(told));
    let listen = move || {
        let mut listener = ChangeListener::listen(&place);
        loop {
            let rung = listener.wait(RECEIVER_CHECK_INTERVAL);
            match told.upgrade() {
                Some(told) if rung => told.notify_one(),
                Some(_) => {}
                None => return,
            }
        }
    };
    let listen = move || panics::restart_after_panic("change notifications", &listen);
    std::thread::Builder::new().name("inbox-notifier".into()).spawn(listen).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_heard_once_however_often_it_was_rung() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("inbox.db");
        std::fs::write(&path, "").unwrap();
        for listen in [FileListener::listen, |path: &Path| FileListener::with_inotify(path, None)] {
            let mut listener = listen(&path);
            assert!(!listener.wait(Duration::from_millis(1)));
            // Wait for a kernel tick, which is the resolution of timestamps.
            std::thread::sleep(Duration::from_millis(20));
            for _ in 0..500 {
                notify(&path);
            }
            assert!(listener.wait(Duration::from_mins(1)));
            assert!(!listener.wait(Duration::from_millis(1)));
        }
    }

    #[test]
    fn a_file_that_comes_later_or_takes_the_place_of_another_is_heard_as_well() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("inbox.db");
        for (round, listen) in [FileListener::listen, |path: &Path| FileListener::with_inotify(path, None)]
            .into_iter()
            .enumerate()
        {
            let mut listener = listen(&path);
            notify(&path);
            assert!(!listener.wait(Duration::from_millis(1)));
            for file in 0..2 {
                std::fs::write(&path, "").unwrap();
                while listener.wait(Duration::from_millis(1)) {}
                std::thread::sleep(Duration::from_millis(20));
                notify(&path);
                assert!(listener.wait(Duration::from_mins(1)), "{round}, {file}");
                std::fs::rename(&path, folder.path().join("away")).unwrap();
                while listener.wait(Duration::from_millis(1)) {}
            }
        }
    }
}
