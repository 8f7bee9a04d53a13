//! Measures free space on the inbox's disk, and says when it is so low that large submissions must be
//! refused.
//!
//! A thread samples the file system once a second, so requests only read a flag, and a file system that hangs
//! blocks only that thread.

#![expect(clippy::disallowed_methods, reason = "a thread samples the file system")]

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::panics::{self, Part};

/// The maximum size of a request body when space is low, in bytes.
pub const SMALL_BODY_BYTES: usize = 4 * 1024;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// The free space below which large submissions are refused (setting `store.min_free`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinFree {
    /// 5 % of the file system, at most 1 GiB.
    #[default]
    Auto,
    Off,
    Bytes(u64),
}

impl MinFree {
    /// The reserve for a file system of `size` bytes, in bytes.
    pub fn bytes(self, size: u64) -> u64 {
        match self {
            MinFree::Auto => (size / 20).min(1 << 30),
            MinFree::Off => 0,
            MinFree::Bytes(bytes) => bytes,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes available to unprivileged users (`f_bavail`).
    pub free: u64,
    pub size: u64,
}

impl Space {
    /// Samples the file system that contains `path`.
    pub fn sample(path: &Path) -> io::Result<Space> {
        let found = rustix::fs::statvfs(path)?;
        Ok(Space {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            size: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }

    /// Whether the file system reports a size of zero, as FUSE file systems without `statfs` do.
    fn is_unknown(self) -> bool {
        self.size == 0
    }
}

/// How many files a file system can hold, and how many more can be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inodes {
    /// The number of inodes available to unprivileged users (`f_favail`).
    pub free: u64,
    /// The total number of inodes; 0 if the file system has no fixed number.
    pub total: u64,
}

impl Inodes {
    /// Inodes count as exhausted if fewer than this many are free: the database and a Maildir create files
    /// all the time.
    const FEW: u64 = 100;

    /// Samples the file system that contains `path`.
    pub fn sample(path: &Path) -> io::Result<Inodes> {
        let found = rustix::fs::statvfs(path)?;
        Ok(Inodes { free: found.f_favail, total: found.f_files })
    }

    /// Whether fewer than 100 inodes are free, so that hardly any file can be created. False if the file
    /// system has no fixed number of them.
    pub fn are_exhausted(self) -> bool {
        self.total > 0 && self.free < Inodes::FEW
    }

    /// Whether fewer than 2 % of the inodes are free. False if the file system has no fixed number of them.
    pub fn are_low(self) -> bool {
        self.total > 0 && self.free < self.total / 50
    }
}

/// A shortage of disk space: less than twice the reserve is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub space: Space,
    pub reserve: u64,
}

impl Shortage {
    /// Samples the disk with the inbox's file. Returns `None` if at least twice the reserve is free, if the
    /// file system cannot be sampled, or if the inbox is on a PostgreSQL server and has no file.
    pub fn check(file: Option<&Path>, min_free: MinFree) -> Option<Shortage> {
        let space = Space::sample(file?.parent()?).ok()?;
        Shortage::from_space(space, min_free)
    }

    /// The shortage that a sample of the file system shows; `None` if at least twice the reserve is free, or
    /// if the file system reports a size of zero.
    pub fn from_space(space: Space, min_free: MinFree) -> Option<Shortage> {
        let reserve = min_free.bytes(space.size);
        (!space.is_unknown() && space.free < reserve.saturating_mul(2)).then_some(Shortage { space, reserve })
    }
}

/// Says how much is free, and which submissions are or will be refused.
impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { space, reserve } = *self;
        let [free, size, reserve_text] = [space.free, space.size, reserve].map(format_bytes);
        let kib = SMALL_BODY_BYTES / 1024;
        write!(f, "Only {free} of {size} is free on the inbox's disk. ")?;
        if space.free < reserve {
            write!(
                f,
                "Submissions of more than {kib} KiB are refused until {reserve_text} is free (store.min_free)."
            )
        } else {
            write!(
                f,
                "Below {reserve_text} (store.min_free), submissions of more than {kib} KiB are refused."
            )
        }
    }
}

/// Formats a number of bytes in the largest unit that does not exceed it, with one decimal place, rounded
/// down.
fn format_bytes(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} bytes"),
    }
}

/// Samples the file system of the data folder. Shared by all workers.
#[derive(Debug)]
pub struct DiskMonitor {
    folder: PathBuf,
    state: Mutex<MonitorState>,
    is_low: AtomicBool,
}

#[derive(Debug)]
struct MonitorState {
    min_free: MinFree,
    last: Option<(Space, u64)>,
}

impl DiskMonitor {
    /// A monitor that samples nothing and reports no shortage.
    pub fn idle() -> DiskMonitor {
        DiskMonitor::new(PathBuf::new(), MinFree::Off)
    }

    fn new(folder: PathBuf, min_free: MinFree) -> DiskMonitor {
        let state = Mutex::new(MonitorState { min_free, last: None });
        DiskMonitor { folder, state, is_low: AtomicBool::new(false) }
    }

    /// Samples the file system of `folder` now, and then once a second until the monitor is dropped. Fails
    /// only if the thread cannot be started; a failed sample is not an error.
    pub fn start(folder: PathBuf, min_free: MinFree) -> io::Result<Arc<DiskMonitor>> {
        let monitor = Arc::new(DiskMonitor::new(folder, min_free));
        monitor.sample();
        let weak = Arc::downgrade(&monitor);
        std::thread::Builder::new().name("disk".into()).spawn(move || {
            loop {
                std::thread::sleep(SAMPLE_INTERVAL);
                let Some(monitor) = weak.upgrade() else { return };
                // Ignore a panic: it is counted, and logging one each second would not help.
                let _ = panics::catch(Part::Background, || monitor.sample());
            }
        })?;
        Ok(monitor)
    }

    /// Changes the reserve, starting with the next sample.
    pub fn reconfigure(&self, min_free: MinFree) {
        self.lock_state().min_free = min_free;
    }

    /// Whether less than the reserve was free at the last successful sample. Stays true until a sixteenth
    /// more than the reserve is free, so that the result does not flip with each submission.
    pub fn is_low(&self) -> bool {
        self.is_low.load(Relaxed)
    }

    /// The last sample, and the reserve in bytes. `None` if the file system could not be sampled or reports a
    /// size of zero.
    pub fn last(&self) -> Option<(Space, u64)> {
        self.lock_state().last
    }

    /// Takes a sample. If the file system cannot be sampled, forgets the last sample, and leaves `is_low` as
    /// it is.
    fn sample(&self) {
        match Space::sample(&self.folder) {
            Ok(space) => self.record_sample(space),
            // Logs nothing: if the folder has been removed, the inbox's writer logs that and refuses
            // submissions.
            Err(_) => self.lock_state().last = None,
        }
    }

    /// Stores a sample, or removes the last one if the size is zero. Sets `is_low`, which stays true until a
    /// sixteenth more than the reserve is free, or until the size is zero. Logs when it changes.
    fn record_sample(&self, space: Space) {
        let reserve = {
            let mut state = self.lock_state();
            let reserve = state.min_free.bytes(space.size);
            state.last = (!space.is_unknown()).then_some((space, reserve));
            reserve
        };
        let was_low = self.is_low();
        let needed = if was_low { reserve.saturating_add(reserve / 16) } else { reserve };
        let is_low = !space.is_unknown() && space.free < needed;
        self.is_low.store(is_low, Relaxed);
        let (folder, free) = (self.folder.display(), space.free);
        match (was_low, is_low) {
            (false, true) => tracing::warn!(
                %folder,
                free,
                reserve,
                "free space is below `store.min_free`: submissions of more than {} KiB are refused until more space is free",
                SMALL_BODY_BYTES / 1024
            ),
            (true, false) => tracing::info!(
                %folder,
                free,
                reserve,
                "free space is above `store.min_free` again: submissions of all sizes are accepted"
            ),
            _ => {}
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, MonitorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_automatic_reserve_is_a_twentieth_but_no_more_than_a_gibibyte() {
        for (min_free, size, reserve) in [
            (MinFree::Auto, 0, 0),
            (MinFree::Auto, 10 * GIB, GIB / 2),
            (MinFree::Auto, 20 * GIB, GIB),
            (MinFree::Auto, 1000 * GIB, GIB),
            (MinFree::Off, 1000 * GIB, 0),
            (MinFree::Bytes(2 * GIB), GIB, 2 * GIB),
        ] {
            assert_eq!(min_free.bytes(size), reserve, "{min_free:?} {size}");
        }
    }

    #[test]
    fn space_is_low_below_the_reserve_until_a_sixteenth_more_is_free() {
        let monitor = DiskMonitor::new(PathBuf::from("/data"), MinFree::Bytes(1600));
        assert_eq!((monitor.is_low(), monitor.last()), (false, None));
        let check = |free: u64, is_low: bool| {
            let space = Space { free, size: 10_000 };
            monitor.record_sample(space);
            assert_eq!((monitor.is_low(), monitor.last()), (is_low, Some((space, 1600))), "{free}");
        };
        check(1600, false);
        check(1599, true);
        check(1600, true);
        check(1699, true);
        check(1700, false);
        check(1600, false);
        check(0, true);
        // The file system reports no sizes.
        monitor.record_sample(Space { free: 0, size: 0 });
        assert_eq!((monitor.is_low(), monitor.last()), (false, None));
        check(0, true);
        monitor.reconfigure(MinFree::Off);
        monitor.record_sample(Space { free: 0, size: 10_000 });
        assert!(!monitor.is_low());
    }

    #[test]
    fn a_running_monitor_knows_the_file_system_from_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let monitor = DiskMonitor::start(folder.path().to_owned(), MinFree::Bytes(u64::MAX)).unwrap();
        let (space, reserve) = monitor.last().unwrap();
        assert!(monitor.is_low() && space.free <= space.size && reserve == u64::MAX, "{space:?}");
        let monitor = DiskMonitor::start(folder.path().join("missing"), MinFree::Bytes(u64::MAX)).unwrap();
        assert_eq!((monitor.is_low(), monitor.last()), (false, None));
    }

    #[test]
    fn a_shortage_is_reported_before_submissions_are_refused() {
        let shortage = |free| Shortage::from_space(Space { free, size: 100 * GIB }, MinFree::Auto);
        assert_eq!(shortage(2 * GIB), None);
        let near = shortage(2 * GIB - 1).unwrap().to_string();
        assert_eq!(
            near,
            "Only 1.9 GiB of 100.0 GiB is free on the inbox's disk. Below 1.0 GiB (store.min_free), submissions of \
             more than 4 KiB are refused."
        );
        let low = shortage(300 << 20).unwrap().to_string();
        assert_eq!(
            low,
            "Only 300.0 MiB of 100.0 GiB is free on the inbox's disk. Submissions of more than 4 KiB are refused until 1.0 GiB is \
             free (store.min_free)."
        );
        assert_eq!(Shortage::from_space(Space { free: 0, size: GIB }, MinFree::Off), None);
        assert_eq!(Shortage::from_space(Space { free: 0, size: 0 }, MinFree::Bytes(GIB)), None);
    }

    #[test]
    fn inodes_are_low_below_a_fiftieth_if_their_number_is_fixed() {
        for (free, total, low, exhausted) in [
            (20_000, 1_000_000, false, false),
            (19_999, 1_000_000, true, false),
            (99, 1_000_000, true, true),
            (0, 0, false, false),
        ] {
            let inodes = Inodes { free, total };
            assert_eq!((inodes.are_low(), inodes.are_exhausted()), (low, exhausted), "{inodes:?}");
        }
        assert!(!Inodes::sample(Path::new("/")).unwrap().are_exhausted());
    }

    #[test]
    fn sizes_are_shown_in_the_largest_fitting_unit() {
        for (bytes, text) in
            [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1535, "1.4 KiB"), (3 << 40, "3.0 TiB")]
        {
            assert_eq!(format_bytes(bytes), text);
        }
        assert_eq!(format_bytes(u64::MAX), "16777215.9 TiB");
    }

    #[test]
    fn an_inbox_on_a_server_has_no_shortage_of_its_own() {
        assert_eq!(Shortage::check(None, MinFree::Bytes(u64::MAX)), None);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("inbox.sqlite");
        assert!(Shortage::check(Some(&file), MinFree::Bytes(u64::MAX)).is_some());
        assert_eq!(Shortage::check(Some(&file), MinFree::Off), None);
    }
}
