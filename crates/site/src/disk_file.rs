//! A large file that is served from the disk, so that its content is never in the process's memory.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use blake3::{Hash, Hasher};
use frontdesk_publish::{ContentMark, FileChanged, FoundFile, examine, open_unchanged};

use super::media_type::media_type;

/// Files longer than this, in bytes, are served from the disk if their format is compressed already.
pub const MIN_ON_DISK: u64 = 256 << 10;

/// Maximum number of files that the process keeps open, so that a file that is replaced or removed is served
/// until the next load. Further files are opened for each request.
pub const MAX_HELD_OPEN: u64 = 256;

/// At most one of so many descriptors that the process may have is used for these files.
const DESCRIPTORS_PER_FILE: u64 = 16;

/// Length in bytes of the pieces that are examined and hashed.
const WINDOW: usize = 1 << 20;

/// How much of a window is examined again with the next one, because a mark may be on the border.
const OVERLAP: usize = 64 << 10;

/// A file on disk whose content was hashed when the site was loaded.
#[derive(Debug)]
pub struct DiskFile {
    at: PathBuf,
    /// The metadata from before the content was read.
    metadata: Metadata,
    held: OnceLock<Arc<File>>,
    is_change_reported: AtomicBool,
}

/// The file has been changed or removed since the site was loaded, or cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFileChanged;

/// What [`DiskFile::read`] finds out about a file.
pub(super) enum DiskContent {
    Published(Arc<DiskFile>, Hash),
    Excluded(ContentMark),
}

impl DiskFile {
    /// Reads the file once, in pieces: hashes it, and stops at a mark that `is_excluded` accepts. The mark of
    /// a published file, if any, comes last in the result. Fails if the file changes meanwhile.
    pub(super) fn read(
        found: &FoundFile,
        is_excluded: impl Fn(ContentMark) -> bool,
    ) -> Result<io::Result<(DiskContent, Option<ContentMark>)>, FileChanged> {
        let mut file = match open_unchanged(&found.at, &found.metadata)? {
            Ok(file) => file,
            Err(error) => return Ok(Err(error)),
        };
        let (mut hasher, mut length, mut mark) = (Hasher::new(), 0, None);
        let mut window = Vec::with_capacity(WINDOW);
        loop {
            let before = window.len();
            let count = match (&mut file).take((WINDOW - before) as u64).read_to_end(&mut window) {
                Ok(count) => count,
                Err(error) => return Ok(Err(error)),
            };
            hasher.update(&window[before..]);
            length += count as u64;
            mark = mark.or_else(|| examine(&found.name, &window));
            if let Some(mark) = mark.filter(|mark| is_excluded(*mark)) {
                return Ok(Ok((DiskContent::Excluded(mark), None)));
            }
            if window.len() < WINDOW {
                break;
            }
            window.drain(..WINDOW - OVERLAP);
        }
        let read = Self {
            at: found.at.clone(),
            metadata: found.metadata.clone(),
            held: OnceLock::new(),
            is_change_reported: AtomicBool::new(false),
        };
        if length != read.len() || !file.metadata().is_ok_and(|now| read.is_described_by(&now)) {
            return Err(FileChanged);
        }
        Ok(Ok((DiskContent::Published(Arc::new(read), hasher.finalize()), mark)))
    }

    /// Keeps the file open, unless it has changed since it was read.
    pub(super) fn hold_open(&self) {
        if self.held.get().is_none()
            && let Ok(file) = self.open()
        {
            let _ = self.held.set(file);
        }
    }

    pub fn len(&self) -> u64 {
        self.metadata.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time of the last modification, in seconds since 1970 and nanoseconds.
    pub fn modified(&self) -> (i64, i64) {
        (self.metadata.mtime(), self.metadata.mtime_nsec())
    }

    /// The open file, with the content that was hashed: it is the same file, with the same length and time of
    /// modification. The path may lead to another file meanwhile, if this one is held open.
    pub fn open(&self) -> Result<Arc<File>, DiskFileChanged> {
        let file = match self.held.get() {
            Some(file) => file.clone(),
            None => match open_unchanged(&self.at, &self.metadata) {
                Ok(Ok(file)) => Arc::new(file),
                _ => return Err(self.report_change()),
            },
        };
        match file.metadata() {
            Ok(now) if self.is_described_by(&now) => Ok(file),
            _ => Err(self.report_change()),
        }
    }

    /// Whether the metadata is that of the same file with the same content. The inode change time does not
    /// count, because renaming and removing the file change it.
    fn is_described_by(&self, now: &Metadata) -> bool {
        let facts = |file: &Metadata| (file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec());
        facts(now) == facts(&self.metadata)
    }

    fn report_change(&self) -> DiskFileChanged {
        if !self.is_change_reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                file = %self.at.display(),
                "a file has changed or cannot be opened since the site was loaded; requests for it get 503 until a reload"
            );
        }
        DiskFileChanged
    }
}

/// How many files the process may keep open.
pub(super) fn held_open_limit() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(MAX_HELD_OPEN, |limit| MAX_HELD_OPEN.min(limit / DESCRIPTORS_PER_FILE))
}

/// Whether a file of this name and length is served from the disk. Texts and other formats that compress well
/// are not: their encodings are in memory. `is_image_read` says whether the load needs the content of images.
pub(super) fn is_served_from_disk(name: &str, length: u64, is_image_read: bool) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    // The type of a file without an extension may depend on its content.
    if length <= MIN_ON_DISK || !file.contains('.') {
        return false;
    }
    match media_type(name) {
        "application/pdf" => true,
        image if image.starts_with("image/") && is_image_read => false,
        font if font.starts_with("font/") => false,
        other => !super::file::is_compressible(other),
    }
}
