//! Keeps large read-only bodies in unnamed files on disk, mapped into memory, instead of on the heap.
//!
//! The kernel reads a page of such a body when it is used, and may drop it at any time. The files have no
//! name, so no other program can change or truncate them, and they disappear with the process.

#![expect(unsafe_code, reason = "mapping a file has no safe interface")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use rustix::fs::{FallocateFlags, OFlags, fallocate, fstatvfs};

/// Length of a file in bytes. A longer body gets a file of its own length. Only used parts take space on
/// disk.
const SEGMENT: u64 = 64 << 20;

/// A new file must leave at least this many bytes free on its file system, so that submissions still fit.
const MIN_FREE: u64 = 1 << 30;

/// Bodies in unnamed files. Dropping the last reference to a body frees its space on disk.
#[derive(Debug, Default)]
pub struct Spill {
    folders: Vec<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The segment that gets the next body, and its length so far.
    current: Option<(Arc<Segment>, u64)>,
    segments: Vec<Weak<Segment>>,
    has_failed: bool,
}

/// A file that contains bodies, and its memory mapping.
#[derive(Debug)]
struct Segment {
    file: File,
    start: NonNull<libc::c_void>,
    length: usize,
}

// SAFETY: the mapping is read-only, belongs to no thread, and is unmapped only when the segment is dropped.
unsafe impl Send for Segment {}
// SAFETY: the mapping is read-only, so several threads may read it at the same time.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates an unnamed file in `folder`, and maps it into memory. Fails if the file system does not
    /// support unnamed files, or would have less than [`MIN_FREE`] left.
    fn new(folder: &Path, length: u64) -> io::Result<Self> {
        let flags = (OFlags::TMPFILE | OFlags::CLOEXEC).bits().cast_signed();
        let file = File::options().read(true).write(true).mode(0o600).custom_flags(flags).open(folder)?;
        let space = fstatvfs(&file)?;
        if space.f_bavail.saturating_mul(space.f_frsize) < length + MIN_FREE {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.set_len(length)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY: the kernel chooses the address, so the mapping replaces no other. Only this process can
        // open the file, and never truncates it, so that reading the mapping raises no SIGBUS, except if the
        // disk fails.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { file, start, length })
    }

    /// Drops the mapped pages from this process's memory. The kernel maps them again when they are used.
    fn release_pages(&self) {
        // SAFETY: the range is this mapping. It is shared and never written, so its pages equal the file's.
        unsafe { libc::madvise(self.start.as_ptr(), self.length, libc::MADV_DONTNEED) };
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: no `Body` still refers to the mapping, because each `Body` keeps its segment alive.
        unsafe { libc::munmap(self.start.as_ptr(), self.length) };
    }
}

/// One body: a range of bytes in a segment.
struct Body {
    segment: Arc<Segment>,
    offset: usize,
    length: usize,
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the range was written before the body was created, is inside the mapping, and is not
        // written again: offsets only grow, and a hole is punched only when the body is dropped.
        unsafe {
            let start = self.segment.start.as_ptr().cast::<u8>().add(self.offset);
            std::slice::from_raw_parts(start, self.length)
        }
    }
}

impl Drop for Body {
    /// Frees the body's space on disk, if the file system can free a part of a file.
    fn drop(&mut self) {
        // Free whole blocks, because the next body begins at a new block.
        let (offset, length) = (self.offset as u64, (self.length as u64).next_multiple_of(BLOCK));
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(&self.segment.file, flags, offset, length);
    }
}

impl Spill {
    /// Keeps bodies in the first of `folders` whose file system supports unnamed files (`O_TMPFILE`) and has
    /// enough free space.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders, state: Mutex::default() }
    }

    /// Moves a body to disk. Returns it on the heap if that fails, for example because the disk is full;
    /// later bodies then stay on the heap as well.
    pub fn store(&self, bytes: Vec<u8>) -> Bytes {
        if bytes.is_empty() {
            return bytes.into();
        }
        // Boxed, because `Bytes` would keep unused capacity.
        self.write(&bytes).unwrap_or_else(|| bytes.into_boxed_slice().into())
    }

    /// Writes a body to a segment. `None` if no range can be reserved, or, after a warning in the log, if
    /// writing fails; all later calls then return `None` as well.
    fn write(&self, bytes: &[u8]) -> Option<Bytes> {
        let (segment, offset) = self.reserve(bytes.len() as u64)?;
        if let Err(error) = segment.file.write_all_at(bytes, offset) {
            tracing::warn!(%error, "cannot keep the texts of the site's pages in a temporary file; keeping this text and all further ones in memory");
            self.state.lock().unwrap_or_else(PoisonError::into_inner).has_failed = true;
            return None;
        }
        let body = Body { segment, offset: usize::try_from(offset).ok()?, length: bytes.len() };
        Some(Bytes::from_owner(body))
    }

    /// Reserves a range of `length` bytes, rounded up to whole blocks. `None` if an earlier call or write has
    /// failed, or if no folder supports unnamed files and has enough free space. The latter is logged, unless
    /// there are no folders.
    fn reserve(&self, length: u64) -> Option<(Arc<Segment>, u64)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.has_failed {
            return None;
        }
        // Bodies start on block boundaries, so that freeing one does not affect its neighbors.
        let end = length.next_multiple_of(BLOCK);
        if let Some((segment, used)) = &mut state.current
            && *used + end <= segment.length as u64
        {
            let offset = *used;
            *used += end;
            return Some((segment.clone(), offset));
        }
        let mut errors = Vec::new();
        let new = self.folders.iter().find_map(|folder| {
            let created = Segment::new(folder, SEGMENT.max(end));
            created.inspect_err(|error| errors.push(format!("{}: {error}", folder.display()))).ok()
        });
        let Some(segment) = new.map(Arc::new) else {
            if !errors.is_empty() {
                let error = errors.join("; ");
                tracing::warn!(
                    error,
                    "cannot create a temporary file for the texts of the site's pages; keeping this text and all further ones in memory"
                );
            }
            state.has_failed = true;
            return None;
        };
        state.segments.retain(|segment| segment.strong_count() > 0);
        state.segments.push(Arc::downgrade(&segment));
        state.current = Some((segment.clone(), end));
        Some((segment, 0))
    }

    /// Drops the bodies from this process's memory until they are used again. Call this while many bodies are
    /// read one after the other.
    pub fn release_pages(&self) {
        let segments = self.state.lock().unwrap_or_else(PoisonError::into_inner).segments.clone();
        segments.iter().filter_map(Weak::upgrade).for_each(|segment| segment.release_pages());
    }
}

/// The size of the blocks of most file systems, and of the smallest pages of memory.
pub const BLOCK: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn disk_use(segment: &Segment) -> u64 {
        segment.file.sync_all().expect("a disk");
        segment.file.metadata().expect("an open file").blocks() * 512
    }

    #[test]
    fn bodies_are_on_disk_until_they_are_dropped() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let spill = Spill::new(vec![folder.path().join("missing"), folder.path().to_owned()]);
        let texts: Vec<Vec<u8>> = (1..=50_u8).map(|byte| vec![byte; usize::from(byte) * 1_000]).collect();
        let mut bodies: Vec<Bytes> = texts.iter().map(|text| spill.store(text.clone())).collect();
        assert_eq!(bodies, texts);
        spill.release_pages();
        assert_eq!(bodies, texts);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "the file has no name");
        let segment = spill.state.lock().expect("no panic").segments[0].upgrade().expect("in use");
        let all = disk_use(&segment);
        assert!(all >= 1_275_000, "{all}");
        let last = bodies.pop().expect("a body");
        let part = last.slice(10..20);
        drop((bodies, last));
        assert!(disk_use(&segment) <= 13 * BLOCK, "{}", disk_use(&segment));
        assert_eq!(part, [50; 10].as_slice());
        // The freed space of one segment is not used again, but its rest is.
        assert_eq!(spill.store(vec![7; 5_000]), [7; 5_000].as_slice());
    }

    #[test]
    fn a_long_body_has_its_own_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let spill = Spill::new(vec![folder.path().to_owned()]);
        let length = usize::try_from(SEGMENT).expect("an address") + 1;
        let body = spill.store(vec![3; length]);
        assert_eq!((body.len(), body[length - 1]), (length, 3));
    }

    #[test]
    fn bodies_stay_on_the_heap_if_there_is_no_disk() {
        let spill = Spill::new(vec!["/nonexistent".into(), "/proc".into()]);
        assert_eq!(spill.store(b"text".to_vec()), "text");
        assert!(spill.state.lock().expect("no panic").has_failed);
        assert_eq!(Spill::default().store(Vec::new()), "");
    }
}
