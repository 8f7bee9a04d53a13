//! An on-disk cache of the conversions of a build's pages, so that a restart converts only changed pages.
//!
//! Each conversion has one file, named after the hash of all that it depends on: the page, its address, the
//! options, and the code of the converter. Like the other caches, the folder can be removed at any time. If
//! it is not writable, every start converts all pages.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use blake3::Hash;
use bytes::{Buf as _, Bytes};

use super::conversion::{Conversion, Facts};
use frontdesk_process::cache_files::{
    begins_with_hash, build_cache_file, parse_cache_file, remove_files, write_file,
};
use frontdesk_process::page_spill::PageSpill;
use frontdesk_process::parallel::in_parallel;

/// The beginning of each cache file. Increment the number if the format changes.
const MAGIC: &[u8] = b"frontdesk conversion 1\n";

/// The length of the Markdown in the cache file of a conversion that has no Markdown.
const NO_MARKDOWN: u32 = u32::MAX;

/// A folder that caches conversions, with one file for each. A damaged file counts as missing.
#[derive(Debug)]
pub struct ConversionCache {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The input hashes of the conversions that the last load used.
    used: HashSet<Hash>,
    /// The conversions in `used` that may be missing from the folder.
    new: Vec<(Hash, Conversion)>,
    /// Whether a call of [`ConversionCache::store`] has failed, and no later call has completed.
    has_failed: bool,
}

/// The storage that a load uses for the conversions of its pages, and for large bodies.
#[derive(Debug, Default)]
pub(crate) struct CachePlaces {
    pub conversions: Option<Arc<ConversionCache>>,
    pub spill: Arc<PageSpill>,
}

impl ConversionCache {
    /// A cache in `folder`. The first write creates the folder, but not its parent folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), state: Mutex::default() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The stored conversion of a page with these inputs. `None` if it is missing or damaged.
    pub(super) fn read(&self, inputs: &Hash) -> Option<Conversion> {
        parse(&fs::read(self.folder.join(inputs.to_hex().as_str())).ok()?.into(), inputs)
    }

    /// Sets the conversions that the last load uses. `new` has those of them that the folder lacks. Writes
    /// nothing.
    pub(super) fn set_used(&self, used: HashSet<Hash>, new: impl IntoIterator<Item = (Hash, Conversion)>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Keep earlier conversions that could not be stored yet, if they are still used.
        state.new.retain(|(inputs, _)| used.contains(inputs));
        state.new.extend(new);
        state.used = used;
    }

    /// Stores the new conversions of the last load on all cores, and removes all that the load does not use.
    /// Once `stop` is set, writes no more, and removes nothing if new conversions are left. Of several
    /// failures in a row, only the first is returned, so that the log has one warning; the others return
    /// `Ok`.
    pub fn store(&self, stop: &AtomicBool) -> io::Result<()> {
        let result = self.try_to_store(stop);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let has_failed = match result {
            Ok(is_complete) => state.has_failed && !is_complete,
            Err(_) => true,
        };
        if std::mem::replace(&mut state.has_failed, has_failed) { Ok(()) } else { result.map(drop) }
    }

    /// Like [`Self::store`], but returns every failure. Returns true if all new conversions were written and
    /// unused files removed, and false if `stop` interrupted the writing. After an interruption or a failed
    /// write, keeps all new conversions for the next call, including those already written.
    fn try_to_store(&self, stop: &AtomicBool) -> io::Result<bool> {
        let (new, used) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            (std::mem::take(&mut state.new), state.used.clone())
        };
        // Stop at the first failure: if the disk is full, further writes fail as well.
        let has_failed = AtomicBool::new(false);
        let results = in_parallel(&new, |(inputs, conversion)| {
            if stop.load(Ordering::Relaxed) || has_failed.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let content = serialize(inputs, conversion)?;
            let written = write_file(&self.folder, inputs.to_hex().as_str(), &content);
            has_failed.fetch_or(written.is_err(), Ordering::Relaxed);
            written.map(|()| true)
        });
        let results: io::Result<Vec<bool>> = results.into_iter().collect();
        if !results.as_ref().is_ok_and(|results| results.iter().all(|is_written| *is_written)) {
            // Keep the new conversions, so that a later call can store them.
            self.state.lock().unwrap_or_else(PoisonError::into_inner).new.extend(new);
            return results.map(|_| false);
        }
        let used: HashSet<String> = used.iter().map(|inputs| inputs.to_hex().to_string()).collect();
        remove_files(&self.folder, |name| begins_with_hash(name) && !used.contains(name))?;
        Ok(true)
    }
}

/// The bytes of a cache file: the length of the Markdown, the Markdown, and the facts as JSON. Fails if the
/// length does not fit into 32 bits.
pub(super) fn serialize(inputs: &Hash, Conversion { facts, markdown }: &Conversion) -> io::Result<Vec<u8>> {
    let length = match markdown {
        Some(text) => u32::try_from(text.len()).map_err(io::Error::other)?,
        None => NO_MARKDOWN,
    };
    let text = markdown.as_deref().unwrap_or_default();
    let facts = serde_json::to_vec(&**facts)?;
    let content = [&length.to_le_bytes()[..], text, &facts].concat();
    Ok(build_cache_file(&[MAGIC, inputs.as_bytes()], &content))
}

/// Parses the output of [`serialize`]. `None` if the file is damaged or belongs to other inputs.
pub(super) fn parse(file: &Bytes, inputs: &Hash) -> Option<Conversion> {
    let mut rest = parse_cache_file(file, &[MAGIC, inputs.as_bytes()])?;
    let length = u32::from_le_bytes(*rest.first_chunk()?);
    rest.advance(4);
    let markdown = if length == NO_MARKDOWN {
        None
    } else {
        let length = usize::try_from(length).ok().filter(|length| *length <= rest.len())?;
        let text = rest.split_to(length);
        str::from_utf8(&text).ok()?;
        Some(text)
    };
    let facts: Facts = serde_json::from_slice(&rest).ok()?;
    Some(Conversion { facts: Arc::new(facts), markdown })
}
