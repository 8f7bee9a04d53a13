//! Signals between processes through the timestamps of a file.
//!
//! Listeners watch the timestamps with inotify, or check them twice a second if no inotify instance or watch
//! is available. They never open the file: closing a file of SQLite would drop the locks that SQLite holds on
//! it.

#![expect(clippy::disallowed_methods, reason = "a thread waits for signals")]

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Timestamps, UTIME_NOW, inotify, utimensat};
use rustix::io::Errno;

/// Signals all listeners of a file by setting its timestamps. Ignores errors, such as a missing file.
pub fn signal(file: &Path) {
    // Set both timestamps: inotify reports that as `ATTRIB`, the event that listeners watch for. It does not
    // report writes to the file that way.
    let now = Timestamps {
        last_access: rustix::fs::Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        last_modification: rustix::fs::Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    // Ignore a failure to set the timestamps: processes also look for changes from time to time.
    let _ = utimensat(CWD, file, &now, AtFlags::empty());
}

/// How often the timestamps are checked without inotify.
const STAMP_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Listens for signals through a file.
pub struct FileSignalListener {
    file: PathBuf,
    /// `None` if inotify cannot be used, usually because the user has no instances left (128 by default).
    inotify: Option<OwnedFd>,
    /// The inotify watch of the file; `None` if the file is missing or cannot be watched.
    watch: Option<i32>,
    /// The result of [`FileSignalListener::read_stamp`] at the end of the last wait.
    seen: Option<(u64, i64, i64)>,
}

impl FileSignalListener {
    /// Starts to listen. The file need not exist yet.
    pub fn listen(file: &Path) -> FileSignalListener {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        FileSignalListener::with_inotify(file, inotify::init(flags).ok())
    }

    /// Starts to listen: with inotify or, if that is `None`, by checking the timestamps.
    fn with_inotify(file: &Path, inotify: Option<OwnedFd>) -> FileSignalListener {
        let mut listener = FileSignalListener { file: file.to_owned(), inotify, watch: None, seen: None };
        listener.seen = listener.read_stamp();
        listener.watch_file();
        listener
    }

    /// The inode and modification time (seconds, nanoseconds) of the file; `None` if they cannot be read.
    fn read_stamp(&self) -> Option<(u64, i64, i64)> {
        let metadata = std::fs::metadata(&self.file).ok()?;
        Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
    }

    /// Watches the file that is now at the path, which may have replaced the file that was watched before.
    fn watch_file(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let flags =
            inotify::WatchFlags::ATTRIB | inotify::WatchFlags::DELETE_SELF | inotify::WatchFlags::MOVE_SELF;
        let found = inotify::add_watch(inotify, &self.file, flags).ok();
        if self.watch != found
            && let Some(former) = self.watch
        {
            // Ignore the error if the watch was removed together with its file.
            let _ = inotify::remove_watch(inotify, former);
        }
        self.watch = found;
    }

    /// Waits for a signal, or until the timeout, and returns whether there may have been a signal. Returns at
    /// once if there was one since the last call. Also returns true if the file was created, removed, renamed
    /// or replaced.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            let is_watched = self.watch.is_some();
            self.watch_file();
            let left = deadline.saturating_duration_since(Instant::now());
            let heard = match &self.inotify {
                // The file may have been created and signaled before the watch was added.
                Some(_) if !is_watched && self.read_stamp() != self.seen => true,
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

    /// Whether the file has changed since the last wait ([`Self::read_stamp`]). If not, sleeps for `left` or
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_heard_once_however_often_it_was_rung() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("inbox.db");
        std::fs::write(&path, "").unwrap();
        for listen in [FileSignalListener::listen, |path: &Path| FileSignalListener::with_inotify(path, None)]
        {
            let mut listener = listen(&path);
            assert!(!listener.wait(Duration::from_millis(1)));
            // Wait for a kernel tick, which is the resolution of timestamps.
            std::thread::sleep(Duration::from_millis(20));
            for _ in 0..500 {
                signal(&path);
            }
            assert!(listener.wait(Duration::from_mins(1)));
            assert!(!listener.wait(Duration::from_millis(1)));
        }
    }

    #[test]
    fn a_file_that_comes_later_or_takes_the_place_of_another_is_heard_as_well() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("inbox.db");
        for (round, listen) in
            [FileSignalListener::listen, |path: &Path| FileSignalListener::with_inotify(path, None)]
                .into_iter()
                .enumerate()
        {
            let mut listener = listen(&path);
            signal(&path);
            assert!(!listener.wait(Duration::from_millis(1)));
            for file in 0..2 {
                std::fs::write(&path, "").unwrap();
                assert!(listener.wait(Duration::from_mins(1)), "{round}, {file}");
                while listener.wait(Duration::from_millis(1)) {}
                std::thread::sleep(Duration::from_millis(20));
                signal(&path);
                assert!(listener.wait(Duration::from_mins(1)), "{round}, {file}");
                std::fs::rename(&path, folder.path().join("away")).unwrap();
                while listener.wait(Duration::from_millis(1)) {}
            }
        }
    }
}
