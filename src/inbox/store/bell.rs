//! How processes that share a database tell each other that something has changed in it.
//!
//! Whoever has committed touches the database's time stamp, and whoever wants to know has the kernel watch for that. The file
//! itself is never opened for it: closing it again would drop the locks that SQLite holds.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
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

/// Hears when something is committed in a database, by whatever process.
#[derive(Debug)]
pub struct Bell {
    database: PathBuf,
    inotify: OwnedFd,
    watch: Option<i32>,
}

impl Bell {
    /// Listens from now on. The database need not be there yet.
    pub fn listen(database: &Path) -> io::Result<Bell> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let mut bell = Bell { database: database.to_owned(), inotify: inotify::init(flags)?, watch: None };
        bell.watch_file();
        Ok(bell)
    }

    /// The file that has the name at present; another one may have taken the place of the one that was watched.
    fn watch_file(&mut self) {
        let flags =
            inotify::WatchFlags::ATTRIB | inotify::WatchFlags::DELETE_SELF | inotify::WatchFlags::MOVE_SELF;
        let found = inotify::add_watch(&self.inotify, &self.database, flags).ok();
        if self.watch != found
            && let Some(former) = self.watch
        {
            // It may be gone with its file.
            let _ = inotify::remove_watch(&self.inotify, former);
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
            // A file that isn't there yet can't be watched.
            let step = if self.watch.is_some() { left } else { left.min(Duration::from_millis(200)) };
            let timeout = Timespec::try_from(step).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
            let heard = match poll(&mut [PollFd::new(&self.inotify, PollFlags::IN)], Some(&timeout)) {
                Ok(ready) => ready > 0 && self.drain(),
                Err(Errno::INTR) => false,
                Err(_) => {
                    std::thread::sleep(step);
                    false
                }
            };
            if heard || Instant::now() >= deadline {
                return heard;
            }
        }
    }

    fn drain(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut heard = false;
        while reader.next().is_ok() {
            heard = true;
        }
        heard
    }
}

/// Has `told` notified of each ring, until nobody else holds it. Listens on a thread of its own.
pub fn tell(database: &Path, told: &Arc<Notify>) -> io::Result<()> {
    /// How long the thread may outlive whoever wanted to be told.
    const LOOK_UP: Duration = Duration::from_mins(1);
    let mut bell = Bell::listen(database)?;
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
        let mut bell = Bell::listen(&path).unwrap();
        assert!(!bell.wait(Duration::from_millis(1)));
        for _ in 0..500 {
            ring(&path);
        }
        assert!(bell.wait(Duration::from_secs(10)));
        assert!(!bell.wait(Duration::from_millis(1)));
    }

    #[test]
    fn a_file_that_comes_later_or_takes_the_place_of_another_is_heard_as_well() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("inbox.db");
        let mut bell = Bell::listen(&path).unwrap();
        ring(&path);
        assert!(!bell.wait(Duration::from_millis(1)));
        for _ in 0..2 {
            std::fs::write(&path, "").unwrap();
            while bell.wait(Duration::from_millis(1)) {}
            ring(&path);
            assert!(bell.wait(Duration::from_secs(10)));
            std::fs::rename(&path, folder.path().join("away")).unwrap();
            while bell.wait(Duration::from_millis(1)) {}
        }
    }
}
