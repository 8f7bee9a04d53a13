//! A large file that is served from the disk, so that it is never in the process's memory as a whole.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use blake3::{Hash, Hasher};

use super::file_list::{FileChanged, FoundFile, open_unchanged};
use super::publication::{ContentMark, examine};

/// Maximum number of files that the process keeps open, so that a file that is replaced or removed is served
/// until the next load. Further files are opened for each request.
pub const MAX_HELD_OPEN: u64 = 256;

/// The number of files kept open is at most the process's limit of file descriptors divided by this.
const HELD_OPEN_DIVISOR: u64 = 16;

/// Length in bytes of the pieces that are examined and hashed.
const WINDOW: usize = 1 << 20;

/// The overlap of consecutive windows in bytes, so that a private key across their border is found.
const OVERLAP: usize = 64 << 10;

/// A file on disk whose content was hashed when the site was loaded.
#[derive(Debug)]
pub struct DiskFile {
    at: PathBuf,
    /// The file's metadata, which was read before the content.
    metadata: Metadata,
    held: OnceLock<Arc<File>>,
    is_change_reported: AtomicBool,
}

/// The error for a file that has changed or been removed since the site was loaded, or cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFileChanged;

/// The result of [`DiskFile::read`]: whether the file's content permits publishing it.
pub enum DiskContent {
    Published(Arc<DiskFile>, Hash),
    Excluded(ContentMark),
}

impl DiskFile {
    /// Reads the file once, in pieces: hashes it, and returns [`DiskContent::Excluded`] if `is_excluded`
    /// accepts its first mark; later marks have no effect. Each piece is examined as if it were a file with
    /// this name, but [`ContentMark::KeyName`] counts only in the first piece. The second value is the mark
    /// of a published file, if it has one. Fails with [`FileChanged`] if the file has changed since it was
    /// listed. The inner error means that it cannot be read.
    pub fn read(
        found: &FoundFile,
        is_excluded: impl Fn(ContentMark) -> bool,
    ) -> Result<io::Result<(DiskContent, Option<ContentMark>)>, FileChanged> {
        let mut file = match open_unchanged(&found.canonical_path, &found.metadata)? {
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
            // Ignore `ContentMark::KeyName` in later windows: only the beginning of a file shows its format.
            let is_start = length == count as u64;
            let found_here = examine(&found.path_in_folder, &window);
            mark = mark.or(found_here.filter(|mark| is_start || *mark != ContentMark::KeyName));
            if let Some(mark) = mark.filter(|mark| is_excluded(*mark)) {
                return Ok(Ok((DiskContent::Excluded(mark), None)));
            }
            if window.len() < WINDOW {
                break;
            }
            window.drain(..WINDOW - OVERLAP);
        }
        let read = Self {
            at: found.canonical_path.clone(),
            metadata: found.metadata.clone(),
            held: OnceLock::new(),
            is_change_reported: AtomicBool::new(false),
        };
        if length != read.len() || !file.metadata().is_ok_and(|now| read.is_described_by(&now)) {
            return Err(FileChanged);
        }
        Ok(Ok((DiskContent::Published(Arc::new(read), hasher.finalize()), mark)))
    }

    /// Keeps the file open, unless [`Self::open`] fails.
    pub fn hold_open(&self) {
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
    /// modification. The path may lead to another file meanwhile, if this one is held open. Logs a warning at
    /// the first failure.
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

    /// The error for a file that has changed. The first call logs a warning.
    fn report_change(&self) -> DiskFileChanged {
        if !self.is_change_reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                file = %self.at.display(),
                "a file has changed since the site was loaded, or cannot be opened; requests for it get 503: reload the site (SIGHUP) once the file is complete and readable"
            );
        }
        DiskFileChanged
    }
}

/// How many files the process may keep open: [`MAX_HELD_OPEN`], or fewer if its limit of descriptors is low.
pub fn held_open_limit() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(MAX_HELD_OPEN, |limit| MAX_HELD_OPEN.min(limit / HELD_OPEN_DIVISOR))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt as _;
    use std::path::Path;

    use super::*;

    fn found(at: &Path) -> FoundFile {
        FoundFile {
            path_in_folder: "film.mp4".into(),
            path_in_site: "film.mp4".into(),
            canonical_path: at.canonicalize().expect("it exists"),
            metadata: at.metadata().expect("it exists"),
            readers: 0o444,
            is_listed: false,
        }
    }

    fn read(at: &Path) -> (DiskContent, Option<ContentMark>) {
        DiskFile::read(&found(at), |_| true).expect("it does not change").expect("it can be read")
    }

    fn publish(at: &Path) -> (Arc<DiskFile>, Hash) {
        match read(at).0 {
            DiskContent::Published(file, hash) => (file, hash),
            DiskContent::Excluded(mark) => panic!("{mark:?}"),
        }
    }

    #[test]
    fn a_file_is_hashed_in_pieces_and_examined_everywhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("film.mp4");
        for length in [0, 1000, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW + 7] {
            let content: Vec<u8> = (128..=255).cycle().flat_map(|byte| [byte; 1000]).take(length).collect();
            fs::write(&at, &content).expect("it can be written");
            let (file, hash) = publish(&at);
            assert_eq!((file.len(), hash), (length as u64, blake3::hash(&content)), "{length}");
        }
        let key = b"\n-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n-----END PRIVATE KEY-----\n";
        for position in [0, WINDOW - 40, 2 * WINDOW + 5] {
            let mut content = vec![b'.'; 3 * WINDOW];
            content[position..position + key.len()].copy_from_slice(key);
            fs::write(&at, &content).expect("it can be written");
            assert!(matches!(read(&at).0, DiskContent::Excluded(ContentMark::PrivateKey)), "{position}");
        }
        // A presentation is a ZIP archive. Only its first piece begins with the signature of ZIP.
        for (start, expected) in [(&b"PK\x03\x04"[..], None), (b"\x01", Some(ContentMark::KeyName))] {
            fs::write(&at, [start, &vec![0x80; 2 * WINDOW]].concat()).expect("it can be written");
            let found = FoundFile { path_in_folder: "talk.key".into(), ..found(&at) };
            let read = DiskFile::read(&found, |_| true).expect("it does not change").expect("it can be read");
            let excluded = if let DiskContent::Excluded(mark) = read.0 { Some(mark) } else { None };
            assert_eq!(excluded, expected);
        }
    }

    #[test]
    fn a_file_that_is_held_open_outlives_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let [held, other] = ["held", "other"].map(|name| folder.path().join(name));
        let files = [&held, &other].map(|at| {
            fs::write(at, b"before").expect("it can be written");
            publish(at).0
        });
        files[0].hold_open();
        for at in [&held, &other] {
            fs::rename(at, folder.path().join("old")).expect("it can be renamed");
            fs::write(at, b"after.").expect("it can be written");
        }
        let mut content = [0; 6];
        files[0].open().expect("the same file").read_exact_at(&mut content, 0).expect("its content");
        assert_eq!(&content, b"before");
        assert_eq!(files[1].open().expect_err("another file"), DiskFileChanged);
    }

    #[test]
    fn a_file_that_changes_in_place_cannot_be_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("film.mp4");
        fs::write(&at, b"before").expect("it can be written");
        let (file, _) = publish(&at);
        file.hold_open();
        let second = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
        let change = |length: u64| {
            let file = fs::File::options().write(true).open(&at).expect("it exists");
            file.set_len(length).and_then(|()| file.set_modified(second)).expect("it can be changed");
        };
        assert!(file.open().is_ok());
        change(6);
        assert_eq!(file.open().expect_err("another time"), DiskFileChanged);
        change(5);
        assert_eq!(file.open().expect_err("another length"), DiskFileChanged);
    }
}
