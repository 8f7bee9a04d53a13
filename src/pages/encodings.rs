//! Strong encodings on the disk: made once for each content, in the background, and used from then on.
//!
//! One file for each content, which is named by the content's hash and written under another name first, so that whoever reads it
//! finds all of it or nothing. A hash of the whole is its end: what is damaged is as good as not there. Nothing depends on any of
//! it: the folder may be removed at any time, and where nothing can be written encodings are made anew at each start.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use blake3::Hash;
use bytes::Bytes;

use super::Site;
use super::file::{Effort, Encoded, File, encode};
use super::negotiate::Encoding;

/// Where strong encodings are kept.
#[derive(Debug)]
pub struct Encodings {
    folder: PathBuf,
}

/// What a file begins with: other versions of this program may encode and write otherwise.
const BEGINNING: &[u8] = b"frontdesk encodings 1\n";

/// What is longer, in bytes, keeps the quick encodings: the strongest Brotli needs two seconds for a megabyte.
const LONGEST: usize = 512 << 10;

/// In the place of a length: the encoding is not worth sending.
const NOT_WORTH_SENDING: u32 = u32::MAX;

/// A file that another process writes at this moment is left alone; what is older was forgotten.
const LONGEST_WRITE: Duration = Duration::from_mins(10);

impl Encodings {
    /// Keeps them in `folder`, which is created when there is something to be kept, if the folder above it exists.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn file(&self, content: Hash) -> PathBuf {
        self.folder.join(content.to_hex().as_str())
    }

    /// The encodings of a content, if they are there and whole.
    pub(super) fn read(&self, content: Hash) -> Option<Encoded> {
        parse(&fs::read(self.file(content)).ok()?.into(), content)
    }

    /// Makes and keeps the strong encodings of all files of `site` that have none yet, and removes what is of no use to this site.
    /// Takes minutes for a large site, so that it looks at `stop` after each file. Returns whether there are new ones.
    pub fn strengthen(&self, site: &Site, stop: &AtomicBool) -> io::Result<bool> {
        let mut files: Vec<&File> = site.files().into_iter().map(AsRef::as_ref).collect();
        files.retain(|file| file.compressible);
        files.sort_by_key(|file| (file.identity().bytes.len(), *file.hash.as_bytes()));
        files.dedup_by_key(|file| file.hash);
        let mut is_new = false;
        for file in &files {
            if stop.load(Ordering::Relaxed) {
                return Ok(is_new);
            }
            if file.is_strong() {
                continue;
            }
            let bytes = &file.identity().bytes;
            if self.read(file.hash).is_some() {
                // Somebody has made them since, another process or an earlier run whose word was lost.
                is_new |= bytes.len() <= LONGEST;
                continue;
            }
            is_new |= bytes.len() <= LONGEST;
            let encoded = make(file);
            self.write(file.hash, &encoded)?;
        }
        self.sweep(&files.iter().map(|file| file.hash.to_hex().to_string()).collect())?;
        Ok(is_new)
    }

    fn write(&self, content: Hash, encoded: &Encoded) -> io::Result<()> {
        if !self.folder.is_dir() {
            // Not recursive: a data folder that is missing may be on a file system that is unmounted.
            DirBuilder::new().mode(0o700).create(&self.folder)?;
            fs::set_permissions(&self.folder, Permissions::from_mode(0o700))?;
        }
        let draft = self.folder.join(format!("{}.{}", content.to_hex(), std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)
            .and_then(|mut file| file.write_all(&compose(content, encoded)))
            // Not synced: what a power cut spoils is recognised by its hash.
            .and_then(|()| fs::rename(&draft, self.file(content)));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// Removes what is not in use, another version's files and forgotten drafts among it.
    fn sweep(&self, used: &HashSet<String>) -> io::Result<()> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_ours = name.len() >= 64 && name.as_bytes()[..64].iter().all(u8::is_ascii_hexdigit);
            let is_written = || {
                let modified = entry.metadata().and_then(|meta| meta.modified());
                let age = modified.ok().and_then(|then| SystemTime::now().duration_since(then).ok());
                name.len() > 64 && age.is_none_or(|age| age < LONGEST_WRITE)
            };
            if is_ours && !used.contains(name) && !is_written() {
                // Another process may have been quicker.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

/// The strongest encodings that are worth their time.
pub(super) fn make(file: &File) -> Encoded {
    let bytes = &file.identity().bytes;
    if bytes.len() > LONGEST {
        file.compress();
        return Encoding::PREFERENCE
            .map(|encoding| file.has(encoding).then(|| file.body(encoding).bytes.clone()));
    }
    Encoding::PREFERENCE.map(|encoding| {
        let encoded = encode(encoding, bytes, Effort::Strong)?;
        (encoded.len() < bytes.len()).then(|| encoded.into())
    })
}

/// What a file holds: the beginning, the content's hash, each encoding behind its length, and a hash of all that.
fn compose(content: Hash, encoded: &Encoded) -> Vec<u8> {
    let mut text = Vec::from(BEGINNING);
    text.extend(content.as_bytes());
    for encoded in encoded {
        let length = encoded.as_ref().map_or(NOT_WORTH_SENDING, |encoded| {
            // A body has 512 MiB at the most, and this is less.
            u32::try_from(encoded.len()).unwrap_or(NOT_WORTH_SENDING)
        });
        text.extend(length.to_le_bytes());
        text.extend(encoded.iter().flatten());
    }
    let hash = blake3::hash(&text);
    text.extend(hash.as_bytes());
    text
}

/// None unless it is exactly what [`compose`] has written for this content.
fn parse(file: &Bytes, content: Hash) -> Option<Encoded> {
    let (text, hash) = file.split_last_chunk::<32>()?;
    if blake3::hash(text) != Hash::from_bytes(*hash) {
        return None;
    }
    let rest = text.strip_prefix(BEGINNING)?.strip_prefix(content.as_bytes())?;
    let mut at = text.len() - rest.len();
    let end = text.len();
    let mut encoded = Encoded::default();
    for encoded in &mut encoded {
        let length = u32::from_le_bytes(*file[at..end].first_chunk()?);
        at += 4;
        if length != NOT_WORTH_SENDING {
            let next = at.checked_add(usize::try_from(length).ok()?).filter(|next| *next <= end)?;
            *encoded = Some(file.slice(at..next));
            at = next;
        }
    }
    (at == end).then_some(encoded)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pages::file::Cache;
    use crate::pages::{Entry, Page, Role};

    const TEXT: &str = "text/plain; charset=utf-8";

    fn site(texts: &[&str]) -> Site {
        let missing = Arc::new(File::new(TEXT, Cache::Revalidate, "none"));
        let page = Page { html: missing.clone(), markdown: missing, path: "/".into(), twin: "/".into() };
        let mut site = Site::new("https://www.example.com", page);
        for (number, text) in texts.iter().enumerate() {
            site.insert_resource(
                &format!("/{number}"),
                File::new(TEXT, Cache::Revalidate, (*text).to_owned()),
            );
        }
        site
    }

    fn file(site: &Site, path: &str) -> Arc<File> {
        match site.get(path) {
            Some(Entry::File(file, Role::Resource)) => file.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn names(encodings: &Encodings) -> Vec<String> {
        let entries = fs::read_dir(encodings.folder()).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    static GO: AtomicBool = AtomicBool::new(false);

    #[test]
    fn what_is_kept_is_used_by_the_next_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let encodings = Encodings::new(folder.path().join("encodings"));
        let text = "A line that repeats itself, more or less.\n".repeat(50);
        let first = site(&[&text, "short"]);
        first.compress_with(usize::MAX, Some(&encodings));
        let quick = file(&first, "/0").body(Encoding::Gzip).etag().to_owned();
        assert!(encodings.strengthen(&first, &GO).expect("it can be written"));
        assert_eq!(names(&encodings).len(), 1, "the short one is sent as it is");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode(encodings.folder()), 0o700);
        assert_eq!(mode(&encodings.folder().join(&names(&encodings)[0])), 0o600);
        assert!(
            encodings.strengthen(&first, &GO).expect("it can be read"),
            "this site does not have them yet"
        );
        let with_them = first.strengthened(&encodings);
        assert!(
            !encodings.strengthen(&with_them, &GO).expect("it can be read"),
            "nothing is left to be done"
        );

        let second = site(&[&text]);
        second.compress_with(usize::MAX, Some(&encodings));
        let (strong, swapped) = (file(&second, "/0"), file(&first.strengthened(&encodings), "/0"));
        assert!(strong.is_strong() && swapped.is_strong() && !file(&first, "/0").is_strong());
        for encoding in Encoding::PREFERENCE {
            assert!(strong.has(encoding));
            assert_eq!(strong.body(encoding).bytes, swapped.body(encoding).bytes);
        }
        assert_ne!(strong.body(Encoding::Gzip).etag(), quick, "other bytes have another validator");
        assert_eq!(strong.identity().etag(), file(&first, "/0").identity().etag());
        let mut unpacked = Vec::new();
        brotli::BrotliDecompress(&mut &strong.body(Encoding::Brotli).bytes[..], &mut unpacked)
            .expect("brotli");
        assert_eq!(unpacked, text.as_bytes());
    }

    #[test]
    fn what_is_damaged_is_as_good_as_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let encodings = Encodings::new(folder.path());
        let text = "A line that repeats itself.\n".repeat(20);
        let site = site(&[&text]);
        encodings.strengthen(&site, &GO).expect("it can be written");
        let content = blake3::hash(text.as_bytes());
        let whole = fs::read(encodings.file(content)).expect("it is there");
        assert!(encodings.read(content).is_some());
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(parse(&flipped.into(), content).is_none(), "a bit of byte {at}");
            assert!(parse(&whole[..at].to_vec().into(), content).is_none(), "cut off at {at}");
        }
        // The hash is right, and the lengths are not.
        for lengths in [[u32::MAX - 1, 0, 0], [0, 0, 1], [NOT_WORTH_SENDING; 3].map(|length| length - 1)] {
            let mut text = [BEGINNING, content.as_bytes()].concat();
            text.extend(lengths.iter().flat_map(|length| length.to_le_bytes()));
            let hash = blake3::hash(&text);
            text.extend(hash.as_bytes());
            assert!(parse(&text.into(), content).is_none(), "{lengths:?}");
        }
        assert!(parse(&whole.clone().into(), blake3::hash(b"another")).is_none(), "under another's name");
        // It is made again.
        fs::write(encodings.file(content), &whole[..40]).expect("it can be written");
        assert!(encodings.strengthen(&site, &GO).expect("it can be written"));
        assert_eq!(fs::read(encodings.file(content)).expect("it is there"), whole);
    }

    #[test]
    fn what_is_of_no_use_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let encodings = Encodings::new(folder.path());
        let [one, two] = ["One line of many.\n", "Two lines of many.\n"].map(|line| line.repeat(30));
        encodings.strengthen(&site(&[&one, &two]), &GO).expect("it can be written");
        assert_eq!(names(&encodings).len(), 2);
        let of = |text: &str| blake3::hash(text.as_bytes()).to_hex().to_string();
        let draft = format!("{}.1", of(&two));
        for other in ["inbox.sqlite", draft.as_str()] {
            fs::write(folder.path().join(other), "x").expect("it can be written");
        }
        encodings.strengthen(&site(&[&one]), &GO).expect("it can be written");
        let mut left = [of(&one), "inbox.sqlite".to_owned(), draft];
        left.sort();
        assert_eq!(names(&encodings), left);
        let stopped = AtomicBool::new(true);
        assert!(!encodings.strengthen(&site(&[&two]), &stopped).expect("nothing is done"));
        assert_eq!(names(&encodings), left);
    }

    #[test]
    fn a_missing_data_folder_is_not_recreated() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let encodings = Encodings::new(data.join("encodings"));
        let site = site(&["A line that repeats itself.\n".repeat(20).as_str()]);
        let error = encodings.strengthen(&site, &GO).expect_err("the data folder is missing");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!data.exists());
        fs::create_dir(&data).expect("it can be created");
        assert!(encodings.strengthen(&site, &GO).expect("it can be written"));
        assert_eq!(names(&encodings).len(), 1);
    }

    #[test]
    fn where_nothing_can_be_written_files_are_served_all_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("file"), "x").expect("it can be written");
        let encodings = Encodings::new(folder.path().join("file/encodings"));
        let site = site(&["A line that repeats itself.\n".repeat(20).as_str()]);
        site.compress_with(usize::MAX, Some(&encodings));
        assert!(file(&site, "/0").has(Encoding::Brotli));
        assert!(encodings.strengthen(&site, &GO).is_err());
    }
}
