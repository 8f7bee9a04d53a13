//! How processes that share a database tell each other that something has changed in it.
//!
//! Whoever has committed touches the database's time stamp, and whoever wants to know has the kernel watch for that, or looks at the
//! stamp twice a second where the kernel has no watch left to give. The file itself is never opened for it: closing it again
//! would drop the locks that SQLite holds.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Timestamps, UTIME_NOW, inotify, utimensat};
use rustix::io::Errno;
use tokio::sync::Notify;

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

/// How often the stamp is looked at where it cannot be watched.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Hears when something is committed in a database, by whatever process.
#[derive(Debug)]
pub struct Bell {
    database: PathBuf,
    /// Nothing where a user's instances are all in use: the kernel allows 128, as a rule.
    inotify: Option<OwnedFd>,
    watch: Option<i32>,
    /// The stamp and the file that it belongs to, as they were when we last looked.
    seen: Option<(u64, i64, i64)>,
}

impl Bell {
    /// Listens from now on. The database need not be there yet.
    pub fn listen(database: &Path) -> Bell {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        Bell::with(database, inotify::init(flags).ok())
    }

    fn with(database: &Path, inotify: Option<OwnedFd>) -> Bell {
        let mut bell = Bell { database: database.to_owned(), inotify, watch: None, seen: None };
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

    /// Waits until something was committed since the last call, or until the time is over, and says which. However often the
    /// bell was rung meanwhile, it is heard once.
    pub fn wait(&mut self, timeout: Duration) -> bool {
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
pub fn tell(database: &Path, told: &Arc<Notify>) -> io::Result<()> {
    /// How long the thread may outlive whoever wanted to be told.
    const LOOK_UP: Duration = Duration::from_mins(1);
    let mut bell = Bell::listen(database);
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
        for listen in [Bell::listen, |path: &Path| Bell::with(path, None)] {
            let mut bell = listen(&path);
            assert!(!bell.wait(Duration::from_millis(1)));
            // The stamp of a file is no finer than the kernel's tick.
            std::thread::sleep(Duration::from_millis(20));
            for _ in 0..500 {
                ring(&path);
            }
            assert!(bell.wait(Duration::from_secs(10)));
            assert!(!bell.wait(Duration::from_millis(1)));
        }
    }

    #[test]
    fn a_file_that_comes_later_or_takes_the_place_of_another_is_heard_as_well() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("inbox.db");
        for (round, listen) in [Bell::listen, |path: &Path| Bell::with(path, None)].into_iter().enumerate() {
            let mut bell = listen(&path);
            ring(&path);
            assert!(!bell.wait(Duration::from_millis(1)));
            for file in 0..2 {
                std::fs::write(&path, "").unwrap();
                while bell.wait(Duration::from_millis(1)) {}
                std::thread::sleep(Duration::from_millis(20));
                ring(&path);
                assert!(bell.wait(Duration::from_secs(10)), "{round}, {file}");
                std::fs::rename(&path, folder.path().join("away")).unwrap();
                while bell.wait(Duration::from_millis(1)) {}
            }
        }
    }
}
