//! How processes that share a database tell each other that something has changed in it.
//!
//! Whoever has committed touches the database's time stamp, and whoever wants to know has the kernel watch for that, or looks at the
//! stamp twice a second where the kernel has no watch left to give. The file itself is never opened for it: closing it again
//! would drop the locks that SQLite holds.
//!
//! Over PostgreSQL it is NOTIFY and LISTEN.

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

use super::postgres::Server;
use super::postgres::link::{Heard, Link, Session};
use super::sql::{Dialect, Sql};
use super::{Place, StoreError};

/// Tells everybody who listens that something was committed.
pub(super) fn ring(database: &Path) {
    // Both stamps: a modification alone would look like every write that SQLite does.
    let now = Timestamps {
        last_access: rustix::fs::Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        last_modification: rustix::fs::Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    // Nobody depends on being told: who listens also looks from time to time.
    let _ = utimensat(CWD, database, &now, AtFlags::empty());
}

/// Tells everybody who listens to a PostgreSQL server that something is committed, once the transaction is. A file is rung instead.
pub(super) fn announce(sql: &dyn Sql) -> Result<(), StoreError> {
    match sql.dialect() {
        Dialect::Sqlite => Ok(()),
        Dialect::Postgres => sql.execute("NOTIFY frontdesk", &[]).map(drop),
    }
}

/// How often the stamp is looked at where it cannot be watched.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Hears when something is committed in a database, by whatever process.
#[derive(Debug)]
pub struct Bell(Kind);

#[derive(Debug)]
enum Kind {
    File(FileBell),
    Server(Box<ServerBell>),
}

impl Bell {
    /// Listens from now on. The database need not be there yet.
    pub fn listen(place: &Place) -> Bell {
        Bell(match place {
            Place::Sqlite(path) => Kind::File(FileBell::listen(path)),
            Place::Postgres(server) => Kind::Server(Box::new(ServerBell::listen(server))),
        })
    }

    /// Waits until something was committed since the last call, or until the time is over, and says which. However often the
    /// bell was rung meanwhile, it is heard once. Over a server true may also mean that nobody would have been heard, or that it is
    /// time for a look: not everything is announced there.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        match &mut self.0 {
            Kind::File(bell) => bell.wait(timeout),
            Kind::Server(bell) => bell.wait(timeout),
        }
    }
}

/// Listens to what a PostgreSQL server's clients announce.
#[derive(Debug)]
struct ServerBell {
    server: Server,
    /// Nothing while there is no connection.
    heard: Option<(Receiver<()>, Link)>,
}

/// How often one looks though nobody rang: what a replica does is announced a few times a second at most, and not at all when
/// it ends in the same moment.
const LOOK_AT_SERVER: Duration = Duration::from_secs(2);
/// A connection for listening asks nothing that takes long.
const LISTENING: Session = Session { writes: true, statement: Duration::from_secs(5) };

impl ServerBell {
    fn listen(server: &Server) -> ServerBell {
        let mut bell = ServerBell { server: server.clone(), heard: None };
        bell.connect();
        bell
    }

    fn connect(&mut self) {
        if self.heard.as_ref().is_some_and(|(_, link)| !link.is_lost()) {
            return;
        }
        let (sender, heard) = sync_channel(1);
        let ring: Heard = Box::new(move || {
            // One that waits to be heard is as good as two.
            let _ = sender.try_send(());
        });
        let link = Link::open_hearing(&self.server, LISTENING, Some(ring));
        let link = link.and_then(|link| link.execute("LISTEN frontdesk", &[]).map(|_| link));
        self.heard = link.ok().map(|link| (heard, link));
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        let is_due = timeout >= LOOK_AT_SERVER;
        let timeout = timeout.min(LOOK_AT_SERVER);
        let began = Instant::now();
        self.connect();
        let left = timeout.saturating_sub(began.elapsed());
        let Some((heard, _)) = &self.heard else {
            std::thread::sleep(left);
            return is_due;
        };
        match heard.recv_timeout(left) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => is_due,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(timeout.saturating_sub(began.elapsed()));
                is_due
            }
        }
    }
}

/// Watches a file's time stamps.
#[derive(Debug)]
struct FileBell {
    database: PathBuf,
    /// Nothing where a user's instances are all in use: the kernel allows 128, as a rule.
    inotify: Option<OwnedFd>,
    watch: Option<i32>,
    /// The stamp and the file that it belongs to, as they were when we last looked.
    seen: Option<(u64, i64, i64)>,
}

impl FileBell {
    fn listen(database: &Path) -> FileBell {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        FileBell::with(database, inotify::init(flags).ok())
    }

    fn with(database: &Path, inotify: Option<OwnedFd>) -> FileBell {
        let mut bell = FileBell { database: database.to_owned(), inotify, watch: None, seen: None };
        bell.seen = bell.stamp();
        bell.watch_file();
        bell
    }

    fn stamp(&self) -> Option<(u64, i64, i64)> {
        let metadata = std::fs::metadata(&self.database).ok()?;
        Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
    }

    /// The file that has the name at present; another one may have taken the place of the one that was watched.
    fn watch_file(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let flags =
            inotify::WatchFlags::ATTRIB | inotify::WatchFlags::DELETE_SELF | inotify::WatchFlags::MOVE_SELF;
        let found = inotify::add_watch(inotify, &self.database, flags).ok();
        if self.watch != found
            && let Some(former) = self.watch
        {
            // It may be gone with its file.
            let _ = inotify::remove_watch(inotify, former);
        }
        self.watch = found;
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            self.watch_file();
            let left = deadline.saturating_duration_since(Instant::now());
            let heard = match &self.inotify {
                Some(inotify) if self.watch.is_some() => {
                    let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 60, tv_nsec: 0 });
                    match poll(&mut [PollFd::new(inotify, PollFlags::IN)], Some(&timeout)) {
                        Ok(ready) => ready > 0 && drain(inotify),
                        Err(Errno::INTR) => false,
                        Err(_) => self.look_again(left),
                    }
                }
                // A file that isn't there yet can't be watched either.
                _ => self.look_again(left),
            };
            if heard || Instant::now() >= deadline {
                self.seen = self.stamp();
                return heard;
            }
        }
    }

    fn look_again(&self, left: Duration) -> bool {
        if self.stamp() != self.seen {
            return true;
        }
        std::thread::sleep(left.min(LOOK_EVERY));
        self.stamp() != self.seen
    }
}

/// Reads what the kernel has to say, and whether it was anything.
fn drain(inotify: &OwnedFd) -> bool {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(inotify, &mut buffer);
    let mut heard = false;
    while reader.next().is_ok() {
        heard = true;
    }
    heard
}

/// Has `told` notified of each ring, until nobody else holds it. Listens on a thread of its own.
pub fn tell(place: &Place, told: &Arc<Notify>) -> io::Result<()> {
    /// How long the thread may outlive whoever wanted to be told.
    const LOOK_UP: Duration = Duration::from_mins(1);
    let mut bell = Bell::listen(place);
    let told = Arc::downgrade(told);
    let listen = move || {
        loop {
            let rung = bell.wait(LOOK_UP);
            match told.upgrade() {
                Some(told) if rung => told.notify_one(),
                Some(_) => {}
                None => return,
            }
        }
    };
    std::thread::Builder::new().name("bell".into()).spawn(listen).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_heard_once_however_often_it_was_rung() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("inbox.db");
        std::fs::write(&path, "").unwrap();
        for listen in [FileBell::listen, |path: &Path| FileBell::with(path, None)] {
            let mut bell = listen(&path);
            assert!(!bell.wait(Duration::from_millis(1)));
            // The stamp of a file is no finer than the kernel's tick.
            std::thread::sleep(Duration::from_millis(20));
            for _ in 0..500 {
                ring(&path);
            }
            assert!(bell.wait(Duration::from_mins(1)));
            assert!(!bell.wait(Duration::from_millis(1)));
        }
    }

    #[test]
    fn a_file_that_comes_later_or_takes_the_place_of_another_is_heard_as_well() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("inbox.db");
        for (round, listen) in
            [FileBell::listen, |path: &Path| FileBell::with(path, None)].into_iter().enumerate()
        {
            let mut bell = listen(&path);
            ring(&path);
            assert!(!bell.wait(Duration::from_millis(1)));
            for file in 0..2 {
                std::fs::write(&path, "").unwrap();
                while bell.wait(Duration::from_millis(1)) {}
                std::thread::sleep(Duration::from_millis(20));
                ring(&path);
                assert!(bell.wait(Duration::from_mins(1)), "{round}, {file}");
                std::fs::rename(&path, folder.path().join("away")).unwrap();
                while bell.wait(Duration::from_millis(1)) {}
            }
        }
    }
}
