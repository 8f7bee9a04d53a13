//! Files for `sendfile(2)`: copies of long bodies in files without names, from which the kernel sends without
//! copying.
//!
//! On loopback, a body of 28 KB that is sent from a file takes 0.74 of the processor time that it takes from
//! the heap, one of 64 KB 0.70, and one of 256 KB 0.6. This applies to HTTP/1.1 without TLS, which is all
//! traffic behind a proxy. The copies are in addition to the bodies, so only those that are requested again
//! get one, and their total is limited.
//!
//! A file on a disk is better than a memory file (`memfd_create(2)`), which is the fallback: most file
//! systems keep it in blocks of more than one page, with which the kernel takes a sixth less time for 256 KB,
//! and the system can write it to the disk if it is short of memory.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::response_body::FileBody;

/// Minimum length in bytes of a body that gets a copy. A shorter one is sent just as fast from the heap,
/// because sending from a file takes another system call.
pub(super) const MIN_COPIED: usize = 16 * 1024;

/// Maximum length in bytes of a file that holds copies. There are at most two files; see [`State`].
const MAX_SEGMENT: u64 = 32 << 20;

/// A file has at most `server.max_memory` divided by this, so the two files together have at most a
/// sixteenth.
const SEGMENTS_OF_MEMORY: u64 = 32;

/// A body is copied at its second request, so that one pass of a crawler causes no copies.
const REQUESTS_BEFORE_COPY: u32 = 2;

/// Once this many bodies are remembered, those without a copy are forgotten.
const MAX_REMEMBERED: usize = 1024;

/// Copies begin at multiples of this size, because the kernel sends whole pages with fewer instructions.
const PAGE: u64 = 4096;

/// The copies that all workers share.
#[derive(Debug, Default)]
pub(super) struct BodyCopies {
    state: Mutex<State>,
    /// The folder for the unnamed files. If it is `None`, or its file system lacks `O_TMPFILE`, the files are
    /// in memory.
    folder: Option<PathBuf>,
}

/// Copies are appended to a file. When it is full, the next one is started, and the one before is dropped
/// with its copies. Nothing is overwritten: the kernel may still be sending it.
#[derive(Debug, Default)]
struct State {
    /// The bodies that have been requested, by their address in memory.
    bodies: HashMap<usize, CopiedBody>,
    segment: Option<Segment>,
    full: Option<Segment>,
    /// The address of the last request's snapshot. A new address shows that the site was reloaded.
    snapshot: usize,
    /// Whether the system has refused to create or extend a file, so that no further copies are made.
    is_unavailable: bool,
}

#[derive(Debug)]
struct CopiedBody {
    /// Keeps the body's memory allocated, so that no other body gets the same address.
    body: Bytes,
    requests: u32,
    copy: Option<FileBody>,
}

#[derive(Debug)]
struct Segment {
    file: Arc<File>,
    used: u64,
}

impl BodyCopies {
    pub(super) fn in_folder(folder: PathBuf) -> Self {
        Self { folder: Some(folder), ..Self::default() }
    }

    /// Counts a request for `body`, and returns its copy, which is made at request [`REQUESTS_BEFORE_COPY`].
    /// `None` if the body has no copy. The caller ensures that `body` has at least [`MIN_COPIED`] bytes and
    /// belongs to the snapshot at the address `snapshot`. After a reload, first forgets bodies that only the
    /// former site had. `max_memory` is the limit of the server's memory.
    pub(super) fn find(&self, body: &Bytes, snapshot: usize, max_memory: Option<u64>) -> Option<FileBody> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.snapshot != snapshot {
            state.snapshot = snapshot;
            // Forget the bodies that only this map still refers to: no snapshot of the site has them.
            state.bodies.retain(|_, known| !known.body.is_unique());
        }
        let address = body.as_ptr().addr();
        if let Some(known) = state.bodies.get_mut(&address) {
            known.requests += 1;
            if known.body.len() != body.len() || known.requests < REQUESTS_BEFORE_COPY {
                return None;
            }
            if known.copy.is_some() {
                return known.copy.clone();
            }
            return state.copy(address, body, segment_limit(max_memory), self.folder.as_deref());
        }
        state.remember(address, body);
        None
    }

    /// The memory of all copies in bytes. For files on a disk, this memory is part of the page cache.
    pub(super) fn bytes(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.segment.iter().chain(&state.full).map(|segment| segment.used).sum()
    }
}

/// The maximum length of a file in bytes.
fn segment_limit(max_memory: Option<u64>) -> u64 {
    max_memory.map_or(MAX_SEGMENT, |limit| MAX_SEGMENT.min(limit / SEGMENTS_OF_MEMORY))
}

impl State {
    /// Remembers that a body was requested once. Beyond [`MAX_REMEMBERED`], first forgets the bodies without
    /// a copy. Does nothing if there are no more copies.
    fn remember(&mut self, address: usize, body: &Bytes) {
        if self.is_unavailable {
            return;
        }
        if self.bodies.len() >= MAX_REMEMBERED {
            self.bodies.retain(|_, known| known.copy.is_some());
        }
        self.bodies.insert(address, CopiedBody { body: body.clone(), requests: 1, copy: None });
    }

    /// Copies a body to the current file; if that is full, to a new one ([`Self::start_next`]). `None` if the
    /// body is longer than a quarter of `limit`, or if writing fails: a warning is then logged, and there are
    /// no more copies.
    fn copy(&mut self, address: usize, body: &Bytes, limit: u64, folder: Option<&Path>) -> Option<FileBody> {
        let length = body.len() as u64;
        if self.is_unavailable || length > limit / 4 {
            return None;
        }
        if self.segment.as_ref().is_some_and(|segment| segment.used + length > limit) {
            self.start_next();
        }
        let copied = self.append(body, folder);
        self.is_unavailable = copied.is_err();
        let copy = copied.inspect_err(report_unavailable).ok()?;
        self.bodies.get_mut(&address)?.copy = Some(copy.clone());
        Some(copy)
    }

    /// Writes a body at the next page boundary of the current file, which is created if there is none.
    fn append(&mut self, body: &Bytes, folder: Option<&Path>) -> io::Result<FileBody> {
        if self.segment.is_none() {
            self.segment = Some(Segment { file: Arc::new(create_file(folder)?), used: 0 });
        }
        let segment = self.segment.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let (offset, length) = (segment.used, body.len() as u64);
        segment.file.write_all_at(body, offset)?;
        segment.used = (offset + length).next_multiple_of(PAGE);
        Ok(FileBody::new(segment.file.clone(), offset, length))
    }

    /// Starts a new file. Keeps the copies in the current file, and forgets the copies in the previous one.
    fn start_next(&mut self) {
        let full = self.segment.take();
        let Some(old) = std::mem::replace(&mut self.full, full) else { return };
        self.bodies
            .retain(|_, known| known.copy.as_ref().is_none_or(|copy| !Arc::ptr_eq(copy.file(), &old.file)));
    }
}

#[cold]
fn report_unavailable(error: &io::Error) {
    tracing::warn!(%error, "cannot copy a response to a temporary file; long responses are sent from memory, which takes more CPU time");
}

/// Creates a file without a name, which only this process has: in `folder`, or in memory if there is none or
/// creating the file there fails. The file is never shortened and nothing in it is overwritten.
#[cfg(target_os = "linux")]
fn create_file(folder: Option<&Path>) -> io::Result<File> {
    use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let on_disk = folder.and_then(|folder| open(folder, flags, Mode::RUSR | Mode::WUSR).ok());
    Ok(match on_disk {
        Some(file) => file,
        None => memfd_create("frontdesk-bodies", MemfdFlags::CLOEXEC)?,
    }
    .into())
}

#[cfg(not(target_os = "linux"))]
fn create_file(_: Option<&Path>) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn body(number: u8, length: usize) -> Bytes {
        vec![number; length].into()
    }

    /// Requests `body` often enough to have it copied, checks the copy's content, and returns the copy.
    fn copy_of(copies: &BodyCopies, body: &Bytes, max_memory: u64) -> Option<FileBody> {
        let copies: Vec<_> =
            (0..REQUESTS_BEFORE_COPY).map(|_| copies.find(body, 1, Some(max_memory))).collect();
        let copy = copies.into_iter().next_back().flatten()?;
        let mut content = vec![0; body.len()];
        copy.file().read_exact_at(&mut content, copy.offset()).expect("the copy is complete");
        assert!(content == *body && copy.len() == body.len() as u64);
        Some(copy)
    }

    #[test]
    fn a_body_gets_a_copy_at_its_second_request() {
        let (copies, body) = (BodyCopies::default(), body(1, 20_000));
        assert!(copies.find(&body, 1, None).is_none());
        assert_eq!(copies.bytes(), 0);
        let first = copies.find(&body, 1, None).expect("a copy");
        let second = copies.find(&body, 1, None).expect("the same copy");
        assert!(Arc::ptr_eq(first.file(), second.file()) && first.offset() == second.offset());
        assert_eq!(copies.bytes(), 20_480, "whole pages");
        assert!(copies.find(&body.slice(..17_000), 1, None).is_none(), "a part is another body");
    }

    #[test]
    fn the_total_is_limited_and_old_copies_are_dropped() {
        const MEMORY: u64 = SEGMENTS_OF_MEMORY * 100_000;
        let copies = BodyCopies::default();
        let bodies: Vec<Bytes> = (0..12).map(|number| body(number, 20_000)).collect();
        let first = copy_of(&copies, &bodies[0], MEMORY).expect("a copy");
        for body in &bodies[1..] {
            copy_of(&copies, body, MEMORY).expect("a copy");
            assert!(copies.bytes() <= 200_000);
        }
        let again = copy_of(&copies, &bodies[0], MEMORY).expect("a new copy");
        assert!(!Arc::ptr_eq(first.file(), again.file()), "the first copy was dropped");
        let mut content = vec![9; 20_000];
        first.file().read_exact_at(&mut content, first.offset()).expect("a response may still use it");
        assert_eq!(content, bodies[0]);
        assert!(copy_of(&copies, &body(13, 25_001), MEMORY).is_none(), "too long");
    }

    #[test]
    fn files_are_in_the_folder_or_in_memory_and_have_no_names() {
        let folder = tempfile::tempdir().expect("a folder");
        for place in [folder.path().to_owned(), folder.path().join("missing")] {
            let (copies, body) = (BodyCopies::in_folder(place), body(7, 30_000));
            copy_of(&copies, &body, 1 << 30).expect("a copy");
            assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        }
    }

    #[test]
    fn a_reload_forgets_the_bodies_of_the_site_before() {
        let copies = BodyCopies::default();
        let (old, both) = (body(1, 20_000), body(2, 20_000));
        for body in [&old, &both, &old, &both] {
            copies.find(body, 1, None);
        }
        let address = old.as_ptr().addr();
        drop(old);
        assert!(copies.find(&both, 2, None).is_some());
        let state = copies.state.lock().expect("no panic");
        assert!(!state.bodies.contains_key(&address) && state.bodies.len() == 1);
    }

    #[test]
    fn a_crawler_does_not_fill_the_memory() {
        let copies = BodyCopies::default();
        let bodies: Vec<Bytes> = (0..=MAX_REMEMBERED).map(|_| body(1, MIN_COPIED)).collect();
        for body in &bodies {
            assert!(copies.find(body, 1, None).is_none());
        }
        assert_eq!(copies.bytes(), 0);
        assert!(copies.state.lock().expect("no panic").bodies.len() <= MAX_REMEMBERED);
    }
}
