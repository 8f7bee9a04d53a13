//! An on-disk cache of strong encodings (`Effort::Strong`), filled by a background thread.
//!
//! Each body has one file, named after the body's hash. Variants of images are in the same folder
//! (`image_variants.rs`). Files are replaced atomically. Each file ends with a hash of the bytes before it,
//! and a damaged file is treated as missing. The folder can be removed at any time. If the folder is not
//! writable, the bodies are encoded again at every start.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blake3::Hash;
use bytes::{Buf as _, Bytes};

use crate::compression::{Effort, Encoded, encode};
use crate::served_file::File;
use frontdesk_negotiate::Encoding;
use frontdesk_process::cache_files::{self, begins_with_hash, build_cache_file, parse_cache_file};

/// The cache in a folder. Damaged and foreign files count as missing. `Site::strengthen` creates missing
/// files.
#[derive(Debug)]
pub struct Encodings {
    pub folder: PathBuf,
}

/// The beginning of each cache file. Increment the number if the format or an encoder changes.
const MAGIC: &[u8] = b"frontdesk encodings 2\n";

/// Bodies longer than this, in bytes, keep their quick encodings, because Brotli at its highest level takes
/// two seconds per megabyte.
const MAX_STRONG: usize = 512 << 10;

/// Written to a cache file instead of an encoding's length if the encoding is not smaller than the body.
const NOT_WORTH_SENDING: u32 = u32::MAX;

impl Encodings {
    /// A cache in `folder`. The first write creates the folder, but not its parent folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn file_path(&self, content: Hash) -> PathBuf {
        self.folder.join(content.to_hex().as_str())
    }

    /// The stored encodings of the body with the hash `content`. `None` if they are missing or damaged.
    pub fn read(&self, content: Hash) -> Option<Encoded> {
        parse_encodings(&fs::read(self.file_path(content)).ok()?.into(), content)
    }

    /// Creates and stores the missing strong encodings of `files`, and removes the encodings of other bodies.
    /// A body longer than `MAX_STRONG` is stored with its quick encodings. Takes minutes for a large site;
    /// once `stop` is set, stops early and removes nothing. Returns whether the cache has strong encodings
    /// that these files do not use yet. Skips files that are not compressible or already strong, and
    /// calls `done` once for each distinct body of the others, the shortest first. Fails at the first file
    /// that cannot be written, or if the cache cannot be listed.
    pub fn strengthen(
        &self,
        mut files: Vec<&Arc<File>>,
        stop: &AtomicBool,
        done: impl Fn(&File),
    ) -> io::Result<bool> {
        files.retain(|file| file.compressible);
        files.sort_unstable_by_key(|file| (file.unencoded().memory_len(), *file.hash.as_bytes()));
        files.dedup_by_key(|file| file.hash);
        let mut is_new = false;
        for file in &files {
            if stop.load(Ordering::Relaxed) {
                return Ok(is_new);
            }
            if file.is_strong() {
                continue;
            }
            is_new |= file.unencoded().memory_len() <= MAX_STRONG;
            // Another process or an earlier run may already have created the encodings.
            if self.read(file.hash).is_none() {
                self.write_encodings(file.hash, &encode_strongly(file))?;
            }
            done(file);
        }
        self.remove_unused_files(&files.iter().map(|file| file.hash.to_hex().to_string()).collect())?;
        Ok(is_new)
    }

    fn write_encodings(&self, content: Hash, encoded: &Encoded) -> io::Result<()> {
        self.write_file(content.to_hex().as_str(), &serialize_encodings(content, encoded))
    }

    /// Replaces a file atomically; see [`cache_files::write_file`].
    pub fn write_file(&self, name: &str, content: &[u8]) -> io::Result<()> {
        cache_files::write_file(&self.folder, name, content)
    }

    /// Removes encodings that are not in `used`, including those of other versions of frontdesk, and
    /// abandoned temporary files.
    fn remove_unused_files(&self, used: &HashSet<String>) -> io::Result<()> {
        self.remove_files(begins_with_hash, used)
    }

    /// Removes the files whose names satisfy `is_ours`, except those in `used`, see
    /// [`cache_files::remove_files`].
    pub fn remove_files(&self, is_ours: impl Fn(&str) -> bool, used: &HashSet<String>) -> io::Result<()> {
        cache_files::remove_files(&self.folder, |name| is_ours(name) && !used.contains(name))
    }
}

/// Encodes `file` with [`Effort::Strong`]. If it is longer than 512 KiB, prepares its quick encodings and
/// returns those. `None` for an encoding that is not smaller than the body.
pub fn encode_strongly(file: &File) -> Encoded {
    if file.unencoded().memory_len() > MAX_STRONG {
        file.compress();
        return Encoding::PREFERENCE
            .map(|encoding| file.has_encoding(encoding).then(|| file.body(encoding).bytes.clone()));
    }
    let bytes = file.unencoded().in_one_piece();
    Encoding::PREFERENCE.map(|encoding| {
        let encoded = encode(encoding, &bytes, Effort::Strong)?;
        (encoded.len() < bytes.len()).then(|| encoded.into_boxed_slice().into())
    })
}

/// The bytes of a cache file for the body with the hash `content`: each encoding is preceded by its length,
/// and [`NOT_WORTH_SENDING`] stands for a missing one.
fn serialize_encodings(content: Hash, encoded: &Encoded) -> Vec<u8> {
    let mut text = Vec::new();
    for encoded in encoded {
        let length = encoded.as_ref().map_or(NOT_WORTH_SENDING, |encoded| {
            // The length fits: an encoding is smaller than its body, and no body is as long as 4 GiB.
            u32::try_from(encoded.len()).unwrap_or(NOT_WORTH_SENDING)
        });
        text.extend(length.to_le_bytes());
        text.extend(encoded.iter().flatten());
    }
    build_cache_file(&[MAGIC, content.as_bytes()], &text)
}

/// Parses the output of [`serialize_encodings`]. `None` if the file is damaged or belongs to another body.
fn parse_encodings(file: &Bytes, content: Hash) -> Option<Encoded> {
    let mut rest = parse_cache_file(file, &[MAGIC, content.as_bytes()])?;
    let mut encoded = Encoded::default();
    for encoded in &mut encoded {
        let length = u32::from_le_bytes(*rest.first_chunk()?);
        rest.advance(4);
        if length != NOT_WORTH_SENDING {
            let length = usize::try_from(length).ok().filter(|length| *length <= rest.len())?;
            *encoded = Some(rest.split_to(length));
        }
    }
    rest.is_empty().then_some(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served_file::Cache;

    fn files(texts: &[&str]) -> Vec<Arc<File>> {
        let file =
            |text: &&str| File::new("text/plain; charset=utf-8", Cache::Revalidate, (*text).to_owned());
        texts.iter().map(|text| Arc::new(file(text))).collect()
    }

    fn strengthen(texts: &[&str], encodings: &Encodings, stop: &AtomicBool) -> io::Result<bool> {
        encodings.strengthen(files(texts).iter().collect(), stop, |_| {})
    }

    fn names(encodings: &Encodings) -> Vec<String> {
        let entries = fs::read_dir(&encodings.folder).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    static GO: AtomicBool = AtomicBool::new(false);

    #[test]
    fn damaged_files_count_as_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let encodings = Encodings::new(folder.path());
        let text = "A line that repeats itself.\n".repeat(20);
        strengthen(&[&text], &encodings, &GO).expect("the cache is writable");
        let content = blake3::hash(text.as_bytes());
        let whole = fs::read(encodings.file_path(content)).expect("the file exists");
        assert!(encodings.read(content).is_some());
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(parse_encodings(&flipped.into(), content).is_none(), "a bit of byte {at}");
            assert!(parse_encodings(&whole[..at].to_vec().into(), content).is_none(), "cut off at {at}");
        }
        // The hash is correct, but the lengths are wrong.
        for lengths in [[u32::MAX - 1, 0, 0], [0, 0, 1], [NOT_WORTH_SENDING; 3].map(|length| length - 1)] {
            let mut text = [MAGIC, content.as_bytes()].concat();
            text.extend(lengths.iter().flat_map(|length| length.to_le_bytes()));
            let hash = blake3::hash(&text);
            text.extend(hash.as_bytes());
            assert!(parse_encodings(&text.into(), content).is_none(), "{lengths:?}");
        }
        assert!(
            parse_encodings(&whole.clone().into(), blake3::hash(b"another")).is_none(),
            "named by the hash of another content"
        );
        // The next run repairs the damaged file.
        fs::write(encodings.file_path(content), &whole[..40]).expect("the cache is writable");
        assert!(strengthen(&[&text], &encodings, &GO).expect("the cache is writable"));
        assert_eq!(fs::read(encodings.file_path(content)).expect("the file exists"), whole);
    }

    #[test]
    fn only_unused_encodings_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let encodings = Encodings::new(folder.path());
        let [one, two] = ["One line of many.\n", "Two lines of many.\n"].map(|line| line.repeat(30));
        strengthen(&[&one, &two], &encodings, &GO).expect("the cache is writable");
        assert_eq!(names(&encodings).len(), 2);
        let of = |text: &str| blake3::hash(text.as_bytes()).to_hex().to_string();
        let draft = format!("{}.1", of(&two));
        for other in ["inbox.sqlite", draft.as_str()] {
            fs::write(folder.path().join(other), "x").expect("the cache is writable");
        }
        strengthen(&[&one], &encodings, &GO).expect("the cache is writable");
        let mut left = [of(&one), "inbox.sqlite".to_owned(), draft];
        left.sort();
        assert_eq!(names(&encodings), left);
        let stopped = AtomicBool::new(true);
        assert!(!strengthen(&[&two], &encodings, &stopped).expect("stops before writing"));
        assert_eq!(names(&encodings), left);
    }

    #[test]
    fn a_missing_data_folder_is_not_recreated() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let encodings = Encodings::new(data.join("encodings"));
        let text = "A line that repeats itself.\n".repeat(20);
        let error = strengthen(&[&text], &encodings, &GO).expect_err("the data folder is missing");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!data.exists());
        fs::create_dir(&data).expect("the parent exists");
        assert!(strengthen(&[&text], &encodings, &GO).expect("the cache is writable"));
        assert_eq!(names(&encodings).len(), 1);
    }
}
