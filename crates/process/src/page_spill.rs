//! Keeps the pages of large sites on disk instead of on the heap.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;

use super::spill::Spill;

/// Pages stay on the heap if they have fewer bytes than this in total.
const MIN_TOTAL: u64 = 64 << 20;

/// After this many bytes were read from disk, the mapped memory is released. The kernel also maps the blocks
/// around those that are read, so several times as much may be mapped.
const MAX_MAPPED: usize = 4 << 20;

/// Stores the pages of a site: on disk for a large site, and otherwise on the heap.
#[derive(Debug)]
pub struct PageSpill {
    spill: Spill,
    min_total: u64,
    is_active: AtomicBool,
    read: AtomicUsize,
}

impl Default for PageSpill {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl PageSpill {
    /// Uses the first of `folders` whose file system supports unnamed files (`O_TMPFILE`) and has enough free
    /// space. Without such a folder, all pages are on the heap.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self {
            spill: Spill::new(folders),
            min_total: MIN_TOTAL,
            is_active: AtomicBool::default(),
            read: AtomicUsize::default(),
        }
    }

    /// Sets the total size from which pages are kept on disk, so that tests can use small sites.
    pub fn set_min_total(&mut self, bytes: u64) {
        self.min_total = bytes;
    }

    /// Decides where pages that are stored from now on are kept: on disk if their `total` size in bytes
    /// reaches the minimum, and otherwise on the heap.
    pub fn begin(&self, total: u64) {
        self.is_active.store(total >= self.min_total, Ordering::Relaxed);
    }

    /// Whether [`Self::store`] currently moves pages to disk.
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Moves a representation of a page to disk if [`Self::is_active`]. Otherwise keeps it on the heap; after
    /// a failure, also all later ones.
    pub fn store(&self, bytes: Vec<u8>) -> Bytes {
        if self.is_active() { self.spill.store(bytes) } else { bytes.into() }
    }

    /// Releases the mapped memory from time to time, because it counts as this process's memory. Call this
    /// after reading `length` bytes of pages.
    pub fn note_read(&self, length: usize) {
        if self.is_active() && self.read.fetch_add(length, Ordering::Relaxed) + length >= MAX_MAPPED {
            self.read.store(0, Ordering::Relaxed);
            self.spill.release_pages();
        }
    }
}
