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

/// Where the pages of a build, or those made from Markdown, are.
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
    /// Pages on the disk of the first of `folders` that has unnamed files. Without folders, all pages are on
    /// the heap.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self {
            spill: Spill::new(folders),
            min_total: MIN_TOTAL,
            is_active: AtomicBool::default(),
            read: AtomicUsize::default(),
        }
    }

    /// Keeps smaller sites on disk, too. For tests.
    pub fn set_min_total(&mut self, bytes: u64) {
        self.min_total = bytes;
    }

    /// Decides whether pages that are read from now on are on disk: if they have `total` bytes or more.
    pub fn begin(&self, total: u64) {
        self.is_active.store(total >= self.min_total, Ordering::Relaxed);
    }

    /// Whether pages are on disk.
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Moves a representation of a page to disk, if pages are on disk.
    pub fn store(&self, bytes: Vec<u8>) -> Bytes {
        if self.is_active() { self.spill.store(bytes) } else { bytes.into() }
    }

    /// To be called after `length` bytes of pages were read: mapped pages of memory count as this process's
    /// memory until they are released.
    pub fn note_read(&self, length: usize) {
        if self.is_active() && self.read.fetch_add(length, Ordering::Relaxed) + length >= MAX_MAPPED {
            self.read.store(0, Ordering::Relaxed);
            self.spill.release_pages();
        }
    }
}
