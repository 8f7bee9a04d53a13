//! A file as the server sends it: its body, in memory in every encoding that is worth sending or on the disk,
//! its headers and how caches may keep it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_ENCODING};
use http::{HeaderName, HeaderValue};

use crate::compression::{Effort, Encoded, encode, is_worth_compressing};
use frontdesk_negotiate::Encoding;
use frontdesk_process::page_spill::PageSpill;
use frontdesk_publish::disk_file::DiskFile;

/// How long caches may use a response without revalidation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Caches must revalidate each time, because the content at this path may change.
    Revalidate,
    /// Caches may keep the response for a year, because the file's name contains the hash of its content.
    Immutable,
}

impl Cache {
    /// The value of `Cache-Control` (RFC 9111 §5.2, RFC 8246).
    pub const fn control(self) -> &'static str {
        match self {
            Self::Revalidate => "no-cache",
            Self::Immutable => "public, max-age=31536000, immutable",
        }
    }
}

/// The bytes of a file, with their hash.
#[derive(Debug, Clone)]
pub struct Blob {
    /// The content; empty if it is on the disk.
    pub bytes: Bytes,
    pub hash: blake3::Hash,
    pub disk: Option<Arc<DiskFile>>,
}

impl Blob {
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { hash: blake3::hash(&bytes), bytes, disk: None }
    }

    /// A blob whose content stays on the disk. `hash` must be the hash of the content.
    pub fn on_disk(file: Arc<DiskFile>, hash: blake3::Hash) -> Self {
        Self { bytes: Bytes::new(), hash, disk: Some(file) }
    }

    /// Stores the bytes on disk if `spill` is active. If not, or if writing fails, keeps them on the heap.
    pub fn in_spill(bytes: impl Into<Vec<u8>>, spill: &PageSpill) -> Self {
        let bytes = bytes.into();
        Self { hash: blake3::hash(&bytes), bytes: spill.store(bytes), disk: None }
    }

    /// The first `length` hexadecimal digits of the hash. Panics if `length` is more than 64.
    pub fn fingerprint(&self, length: usize) -> String {
        self.hash.to_hex()[..length].to_owned()
    }
}

/// The first `length` hexadecimal digits of the hash of `bytes`. `length` must be at most 64.
pub fn fingerprint(bytes: &[u8], length: usize) -> String {
    blake3::hash(bytes).to_hex()[..length].to_owned()
}

/// The value of `doc_version` in the front matter of a page's Markdown, which changes with the page's text.
pub fn document_version(markdown: &str) -> String {
    fingerprint(markdown.as_bytes(), 12)
}

/// Number of values that [`EncodedBody::cached`] can store.
pub const CACHE_SLOTS: usize = 8;

/// The body of a file in one encoding.
#[derive(Debug)]
pub struct EncodedBody {
    /// The content; empty if it is on the disk or consists of parts.
    pub bytes: Bytes,
    disk: Option<Arc<DiskFile>>,
    parts: Option<Parts>,
    etag: Bytes,
    cached: [OnceLock<Box<[u8]>>; CACHE_SLOTS],
}

impl EncodedBody {
    fn new(bytes: Bytes, etag: String) -> Self {
        Self { bytes, disk: None, parts: None, etag: etag.into(), cached: Default::default() }
    }

    /// The file with the content, if it is not in memory.
    pub fn disk_file(&self) -> Option<&Arc<DiskFile>> {
        self.disk.as_ref()
    }

    /// The parts of the content, if it is not in one piece.
    pub fn parts(&self) -> Option<&Arc<[Bytes]>> {
        self.parts.as_ref().map(|parts| &parts.pieces)
    }

    /// The length of the content in bytes.
    pub fn len(&self) -> u64 {
        self.disk.as_ref().map_or(self.memory_len() as u64, |file| file.len())
    }

    /// The length of the content in bytes; 0 if it is on the disk.
    pub fn memory_len(&self) -> usize {
        self.parts.as_ref().map_or(self.bytes.len(), |parts| parts.length)
    }

    /// The content in one piece; empty if it is on the disk. Copies the content if it consists of parts.
    pub fn in_one_piece(&self) -> Bytes {
        self.parts.as_ref().map_or_else(|| self.bytes.clone(), |parts| parts.pieces.concat().into())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The strong validator, in quotes as in `ETag` (RFC 9110 §8.8.3).
    pub fn etag(&self) -> &str {
        std::str::from_utf8(&self.etag).unwrap_or_default()
    }

    /// Like [`EncodedBody::etag`], but as bytes that can be cloned without copying.
    pub fn shared_etag(&self) -> Bytes {
        self.etag.clone()
    }

    /// The cached bytes in `slot`, created by `make` on first use. The server stores serialized response
    /// headers here, so that they live exactly as long as the body. `slot` must be less than [`CACHE_SLOTS`].
    pub fn cached(&self, slot: usize, make: impl FnOnce() -> Box<[u8]>) -> &[u8] {
        self.cached[slot].get_or_init(make)
    }
}

/// Content that other files and this one share. It is sent part by part, because a copy of all Markdown of a
/// large site would take tens of megabytes of memory, and a large part of a reload.
#[derive(Debug, Clone)]
struct Parts {
    pieces: Arc<[Bytes]>,
    /// The sum of the pieces' lengths in bytes.
    length: usize,
}

/// A representation, resource or asset, in every encoding that is worth sending.
#[derive(Debug)]
pub struct File {
    pub media_type: &'static str,
    pub cache: Cache,
    /// The value of `Link` (RFC 8288).
    pub link: Option<Bytes>,
    /// Additional headers, which replace the server's own headers of the same name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether the encoding is negotiated. `false` for small bodies, for formats that are already compressed,
    /// and for files on the disk.
    pub compressible: bool,
    /// The hash of the unencoded body, or, for [`File::joined`], of the parts that determine it.
    pub hash: blake3::Hash,
    identity: EncodedBody,
    /// The encodings, in the order of [`Encoding::PREFERENCE`]. An empty cell is not prepared yet, and `None`
    /// is not worth sending.
    encoded: [OnceLock<Option<EncodedBody>>; 3],
    is_strong: AtomicBool,
}

/// Number of hexadecimal digits of the content hash in an `ETag`: 88 bits, enough to rule out accidental
/// collisions.
const ETAG_DIGITS: usize = 22;

/// The header that permits pages of other origins to read a file in `/.well-known/`, as NIP-05, Matrix,
/// SEP-1 and others require. `None` for other paths.
pub fn cors_header(path: &str) -> Option<(HeaderName, HeaderValue)> {
    let header = || (ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    path.starts_with("/.well-known/").then(header)
}

/// The header of a page's Markdown if a `<meta>` in the HTML asks crawlers not to index the page: Markdown
/// has no such element.
pub fn noindex_header() -> (HeaderName, HeaderValue) {
    (HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex"))
}

impl File {
    pub fn new(media_type: &'static str, cache: Cache, bytes: impl Into<Bytes>) -> Self {
        Self::from_blob(media_type, cache, Blob::new(bytes))
    }

    /// A file without `Link`, additional headers and encodings. It is compressible if its media type
    /// compresses well and its body in memory has at least 200 bytes.
    pub fn from_blob(media_type: &'static str, cache: Cache, blob: Blob) -> Self {
        let etag = format!("\"{}\"", blob.fingerprint(ETAG_DIGITS));
        Self {
            media_type,
            cache,
            link: None,
            headers: Vec::new(),
            // A file on the disk is not compressed, because its encodings would be in memory. Its `bytes` are
            // empty.
            compressible: is_worth_compressing(media_type, blob.bytes.len()),
            hash: blob.hash,
            identity: EncodedBody { disk: blob.disk, ..EncodedBody::new(blob.bytes, etag) },
            encoded: Default::default(),
            is_strong: AtomicBool::new(false),
        }
    }

    /// A text that consists of an introduction and the bodies of `files`, each after `separator`. Its hash is
    /// that of the introduction and the hashes of the bodies, because hashing tens of megabytes again would
    /// take a large part of a reload. Stored encodings are found by this hash: change its context string if
    /// the parts are joined differently. The bodies are shared, not copied. Of a file on the disk, only the
    /// separator is included. Returns `last` if its hash is the same, without comparing its headers.
    pub fn joined(
        media_type: &'static str,
        cache: Cache,
        introduction: &str,
        separator: &'static [u8],
        files: &[&Self],
        last: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        let mut hasher = blake3::Hasher::new_derive_key("frontdesk joined files");
        hasher.update(&introduction.len().to_le_bytes()).update(introduction.as_bytes());
        hasher.update(&separator.len().to_le_bytes()).update(separator);
        for file in files {
            hasher.update(file.hash.as_bytes());
        }
        let hash = hasher.finalize();
        if let Some(last) = last.filter(|last| last.hash == hash) {
            return last.clone();
        }
        let bodies =
            files.iter().flat_map(|file| [Bytes::from_static(separator), file.identity.bytes.clone()]);
        let pieces: Arc<[Bytes]> =
            [Bytes::copy_from_slice(introduction.as_bytes())].into_iter().chain(bodies).collect();
        let length = pieces.iter().map(Bytes::len).sum();
        let mut file = Self::from_blob(media_type, cache, Blob { bytes: Bytes::new(), hash, disk: None });
        file.compressible = is_worth_compressing(media_type, length);
        file.identity.parts = Some(Parts { pieces, length });
        Arc::new(file)
    }

    /// Declares that the body is already encoded with `coding`. The server then offers no other encoding.
    #[must_use]
    pub fn encoded_as(mut self, coding: &'static str) -> Self {
        self.compressible = false;
        self.headers.push((CONTENT_ENCODING, HeaderValue::from_static(coding)));
        self
    }

    /// Whether both files have the same headers and the same unencoded body. Ignores prepared encodings.
    pub fn is_like(&self, other: &Self) -> bool {
        let head = |file: &Self| (file.hash, file.media_type, file.cache);
        head(self) == head(other) && self.link == other.link && self.headers == other.headers
    }

    /// Sets the value of `Link`. If it contains characters that headers must not contain, removes `Link`
    /// instead.
    #[must_use]
    pub fn with_link(mut self, link: String) -> Self {
        // Permit the characters of RFC 9110 §5.5 except obs-text. A line break would begin another header
        // field.
        let is_valid = link.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte));
        self.link = is_valid.then(|| link.into());
        self
    }

    pub fn unencoded(&self) -> &EncodedBody {
        &self.identity
    }

    /// Whether the encoding is prepared and worth sending. Always `true` for identity.
    pub fn has_encoding(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Identity || self.prepared_body(encoding).is_some()
    }

    /// The body in `encoding`, or the unencoded body if that encoding is not prepared or not worth sending.
    pub fn body(&self, encoding: Encoding) -> &EncodedBody {
        self.prepared_body(encoding).unwrap_or(&self.identity)
    }

    /// The body in this encoding. `None` for identity, or if the encoding is missing or not worth sending.
    fn prepared_body(&self, encoding: Encoding) -> Option<&EncodedBody> {
        let slot = Encoding::PREFERENCE.iter().position(|candidate| *candidate == encoding)?;
        self.encoded[slot].get()?.as_ref()
    }

    /// Prepares the missing encodings of a compressible file with `Effort::Quick`, except those that are not
    /// smaller than the body. Does nothing for other files.
    pub fn compress(&self) {
        self.compress_to(|bytes| bytes.into_boxed_slice().into());
    }

    /// Like [`File::compress`]. `keep` stores an encoding. It must not keep unused capacity of the `Vec`, as
    /// `Bytes::from` does, because that is several times the content's length.
    pub fn compress_to(&self, keep: impl Fn(Vec<u8>) -> Bytes) {
        if !self.awaits_compression() {
            return;
        }
        let content = self.identity.in_one_piece();
        self.prepare_missing(|_, encoding| {
            let bytes = encode(encoding, &content, Effort::Quick)?;
            (bytes.len() < content.len()).then(|| keep(bytes))
        });
    }

    /// Prepares the missing encodings. `make` gets the position in [`Encoding::PREFERENCE`] and the encoding.
    /// It returns `None` for an encoding that is not worth sending; this is remembered, so later calls do not
    /// try it again. Does nothing for a file that is not compressible.
    fn prepare_missing(&self, make: impl Fn(usize, Encoding) -> Option<Bytes>) {
        if !self.compressible {
            return;
        }
        for (slot, encoding) in Encoding::PREFERENCE.into_iter().enumerate() {
            self.encoded[slot].get_or_init(|| {
                let bytes = make(slot, encoding)?;
                // Hash the encoded bytes, because another encoder or effort may produce different bytes.
                let token = encoding.token().unwrap_or_default();
                let etag = format!("\"{}-{token}\"", fingerprint(&bytes, ETAG_DIGITS));
                Some(EncodedBody::new(bytes, etag))
            });
        }
    }

    /// Prepares the missing encodings from the result of an earlier `encode_strongly`. The file counts as
    /// strong only if none of its encodings was prepared before.
    pub fn use_strong_encodings(&self, encoded: &Encoded) {
        if self.encoded.iter().all(|slot| slot.get().is_none()) {
            self.is_strong.store(true, Ordering::Relaxed);
        }
        self.prepare_missing(|slot, _| encoded[slot].clone());
    }

    /// Copies the missing encodings from `other`, which must have the same body, and whether they are strong.
    /// Encodings that `other` lacks count as not worth sending, so compress it first.
    pub fn copy_encodings_from(&self, other: &Self) {
        self.is_strong.store(other.is_strong(), Ordering::Relaxed);
        self.prepare_missing(|_, encoding| other.prepared_body(encoding).map(|body| body.bytes.clone()));
    }

    /// Whether all encodings come from `encode_strongly`, so that the background thread cannot improve them.
    pub fn is_strong(&self) -> bool {
        self.is_strong.load(Ordering::Relaxed)
    }

    /// A copy of the file with its headers, but only the unencoded body.
    #[must_use]
    pub fn without_encodings(&self) -> Self {
        let EncodedBody { bytes, disk, parts, .. } = &self.identity;
        let blob = Blob { bytes: bytes.clone(), hash: self.hash, disk: disk.clone() };
        let mut file = Self::from_blob(self.media_type, self.cache, blob);
        file.identity.parts.clone_from(parts);
        Self {
            link: self.link.clone(),
            headers: self.headers.clone(),
            compressible: self.compressible,
            ..file
        }
    }

    /// Whether the body compresses well, but at least one encoding has not been prepared yet.
    pub fn awaits_compression(&self) -> bool {
        self.compressible && self.encoded.iter().any(|slot| slot.get().is_none())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn joined_files_have_a_validator_for_their_content() {
        let part = |text: &str| File::new("text/markdown", Cache::Revalidate, text.to_owned());
        let join = |introduction: &str, parts: &[&str]| {
            let parts: Vec<File> = parts.iter().map(|text| part(text)).collect();
            let parts: Vec<&File> = parts.iter().collect();
            let joined = File::joined("text/plain", Cache::Revalidate, introduction, b"\n", &parts, None);
            assert_eq!(joined.unencoded().len(), joined.unencoded().in_one_piece().len() as u64);
            (joined.unencoded().in_one_piece().to_vec(), joined.unencoded().etag().to_owned())
        };
        let (bytes, etag) = join("all", &["a", "b"]);
        assert_eq!((bytes, &etag), (b"all\na\nb".to_vec(), &join("all", &["a", "b"]).1));
        for (introduction, parts) in [
            ("all", &["b", "a"][..]),
            ("all", &["a"]),
            ("all", &["a", "c"]),
            ("al", &["la", "b"]),
            ("all\na", &["b"]),
        ] {
            assert_ne!(join(introduction, parts).1, etag, "{introduction} {parts:?}");
        }
    }

    #[test]
    fn joined_files_are_reused_if_all_parts_are_the_same() {
        let [a, b] = ["a", "b"].map(|text| File::new("text/markdown", Cache::Revalidate, text));
        let join = |files: &[&File], last: Option<&Arc<File>>| {
            File::joined("text/plain", Cache::Revalidate, "all", b"\n", files, last)
        };
        let first = join(&[&a, &b], None);
        assert!(Arc::ptr_eq(&join(&[&a, &b], Some(&first)), &first));
        assert_eq!(join(&[&b, &a], Some(&first)).unencoded().in_one_piece(), "all\nb\na");
    }

    #[test]
    fn joined_files_share_the_bodies_of_their_parts_and_are_compressed() {
        let part = File::new("text/markdown", Cache::Revalidate, "A line that repeats itself.\n".repeat(50));
        let joined = File::joined("text/plain", Cache::Revalidate, "all", b"\n", &[&part, &part], None);
        let pieces = joined.unencoded().parts().expect("parts");
        assert!(pieces.iter().any(|piece| piece.as_ptr() == part.unencoded().bytes.as_ptr()));
        let again = joined.without_encodings();
        for file in [&*joined, &again] {
            file.compress();
            let unpacked = zstd::bulk::decompress(&file.body(Encoding::Zstd).bytes, 10_000).expect("zstd");
            assert_eq!(unpacked, joined.unencoded().in_one_piece());
        }
        let short = File::joined("text/plain", Cache::Revalidate, "all", b"\n", &[], None);
        assert!(!short.compressible);
    }

    #[test]
    fn each_encoding_has_the_same_content_and_its_own_validator() {
        let text = "A line that repeats itself.\n".repeat(100);
        let file = File::new("text/plain; charset=utf-8", Cache::Revalidate, text.clone());
        assert!(file.awaits_compression());
        assert!(!file.has_encoding(Encoding::Gzip));
        assert_eq!(
            file.body(Encoding::Gzip).bytes,
            text.as_bytes(),
            "an encoding that is not prepared is replaced with the unencoded body"
        );
        file.compress();
        assert!(!file.awaits_compression());

        let mut unpacked = String::new();
        flate2::read::GzDecoder::new(&file.body(Encoding::Gzip).bytes[..])
            .read_to_string(&mut unpacked)
            .expect("gzip");
        assert_eq!(unpacked, text);
        let mut unpacked = Vec::new();
        brotli_decompressor::BrotliDecompress(&mut &file.body(Encoding::Brotli).bytes[..], &mut unpacked)
            .expect("brotli");
        assert_eq!(unpacked, text.as_bytes());
        let unpacked = zstd::bulk::decompress(&file.body(Encoding::Zstd).bytes, text.len()).expect("zstd");
        assert_eq!(unpacked, text.as_bytes());

        let mut etags: Vec<&str> = [Encoding::Identity, Encoding::Gzip, Encoding::Brotli, Encoding::Zstd]
            .map(|encoding| file.body(encoding).etag())
            .to_vec();
        etags.sort_unstable();
        etags.dedup();
        assert_eq!(etags.len(), 4);
        assert!(etags.iter().all(|etag| etag.starts_with('"') && etag.ends_with('"')));
    }

    #[test]
    fn small_and_compressed_files_are_not_encoded() {
        let image = File::new("image/png", Cache::Immutable, vec![0_u8; 4096]);
        image.compress();
        assert!(!image.compressible && !image.has_encoding(Encoding::Brotli));
        let short = File::new("text/plain; charset=utf-8", Cache::Revalidate, "short");
        assert!(!short.compressible);
    }
}
