//! Keeps the pages of large sites on disk instead of on the heap.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::file::Blob;
use frontdesk_process::spill::Spill;

/// Pages stay on the heap if they have fewer bytes than this in total.
const MIN_TOTAL: u64 = 64 << 20;

/// After this many bytes were read from disk, the mapped memory is released.
const MAX_MAPPED: usize = 16 << 20;

/// Where the pages of a build, or those made from Markdown, are.
#[derive(Debug)]
pub(super) struct PageSpill {
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

    /// Keeps smaller sites on disk, too.
    #[cfg(test)]
    pub fn set_min_total(&mut self, bytes: u64) {
        self.min_total = bytes;
    }

    /// Decides whether pages that are read from now on are on disk: if they have `total` bytes or more.
    pub fn begin(&self, total: u64) {
        self.is_active.store(total >= self.min_total, Ordering::Relaxed);
    }

    /// A representation of a page, with its hash.
    pub fn blob(&self, bytes: impl Into<Vec<u8>>) -> Blob {
        let bytes = bytes.into();
        if !self.is_active.load(Ordering::Relaxed) {
            return Blob::new(bytes);
        }
        let hash = blake3::hash(&bytes);
        Blob { bytes: self.spill.store(bytes), hash }
    }

    /// To be called after `length` bytes of pages were read: mapped pages of memory count as this process's
    /// memory until they are released.
    pub fn note_read(&self, length: usize) {
        if self.is_active.load(Ordering::Relaxed)
            && self.read.fetch_add(length, Ordering::Relaxed) + length >= MAX_MAPPED
        {
            self.read.store(0, Ordering::Relaxed);
            self.spill.release_pages();
        }
    }
}
