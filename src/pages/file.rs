//! One answer's body, in memory, in every encoding that is worth sending.

use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::negotiate::Encoding;

/// How long a cache may use an answer without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Store it, but ask each time: the name stays, the content may change.
    Revalidate,
    /// For ever: the name carries the content's fingerprint.
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

/// A body in one encoding, with the header fields that belong to exactly these bytes.
#[derive(Debug)]
pub struct Body {
    /// What is sent.
    pub bytes: Bytes,
    /// The fields as HTTP/1.1 writes them: `etag`, then what 304 says as well, then what only goes with the body.
    fields: Bytes,
    /// Where the validator ends, its field, and what 304 says.
    ends: [usize; 3],
}

/// Before the validator.
const ETAG: &str = "etag: ";

impl Body {
    /// `etag` is quoted, as it stands in the header.
    fn new(of: &Described, etag: &str, encoding: Encoding, bytes: Bytes) -> Self {
        let mut fields = format!("{ETAG}{etag}");
        let validator = fields.len();
        fields.push_str("\r\n");
        let field = fields.len();
        fields.push_str(&format!("cache-control: {}\r\n", of.cache.control()));
        if let Some(link) = &of.link {
            fields.push_str(&format!("link: {}\r\n", String::from_utf8_lossy(link)));
        }
        let unmodified = fields.len();
        fields.push_str(&format!("content-type: {}\r\n", of.media_type));
        if let Some(token) = encoding.token() {
            fields.push_str(&format!("content-encoding: {token}\r\n"));
        }
        fields.push_str(&format!("content-length: {}\r\n", bytes.len()));
        Self { bytes, fields: fields.into(), ends: [validator, field, unmodified] }
    }

    /// The strong validator (RFC 9110 §8.8.3), quoted, as it stands in the header.
    pub fn etag(&self) -> &str {
        std::str::from_utf8(&self.fields[ETAG.len()..self.ends[0]]).unwrap_or_default()
    }

    /// The same bytes, without a copy.
    pub fn shared_etag(&self) -> Bytes {
        self.fields.slice(ETAG.len()..self.ends[0])
    }

    /// `etag`, `cache-control`, `link`, `content-type`, `content-encoding` and `content-length`, those that there are, as lines of a
    /// header (RFC 9112 §5).
    pub fn fields(&self) -> &[u8] {
        &self.fields
    }

    /// Those of them that an answer has which says that nothing has changed (RFC 9110 §15.4.5).
    pub fn fields_unmodified(&self) -> &[u8] {
        &self.fields[..self.ends[2]]
    }

    /// All of them but the validator.
    pub fn fields_unvalidated(&self) -> &[u8] {
        &self.fields[self.ends[1]..]
    }
}

/// What is the same of a file in whatever encoding.
#[derive(Debug)]
struct Described {
    media_type: &'static str,
    cache: Cache,
    link: Option<Bytes>,
}

/// Something to send: a representation, a resource or an asset.
#[derive(Debug)]
pub struct File {
    described: Described,
    /// Content types that are compressed already gain nothing from another coding, and then it is not negotiated.
    pub compressible: bool,
    /// Of the body as it is.
    pub(super) hash: blake3::Hash,
    identity: Body,
    encoded: [OnceLock<Option<Body>>; 3],
    /// Whether the encodings are as small as they get.
    is_strong: AtomicBool,
}

/// Below this size, in bytes, a coding saves less than its header costs.
const WORTH_ENCODING: usize = 200;

impl File {
    /// A file whose encodings are yet to be prepared.
    pub fn new(media_type: &'static str, cache: Cache, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let hash = blake3::hash(&bytes);
        Self::with_hash(media_type, cache, bytes, hash)
    }

    /// The same for bytes whose hash is known.
    pub(super) fn with_hash(
        media_type: &'static str,
        cache: Cache,
        bytes: Bytes,
        hash: blake3::Hash,
    ) -> Self {
        let compressible = is_compressible(media_type) && bytes.len() >= WORTH_ENCODING;
        let etag = format!("\"{}\"", &hash.to_hex()[..22]);
        let described = Described { media_type, cache, link: None };
        let identity = Body::new(&described, &etag, Encoding::Identity, bytes);
        let encoded = Default::default();
        Self { described, compressible, hash, identity, encoded, is_strong: AtomicBool::new(false) }
    }

    /// Whether the other file is answered with the same header and the same body.
    pub fn is_like(&self, other: &Self) -> bool {
        self.identity.fields == other.identity.fields
    }

    /// Adds a `Link` header, unless it could not stand in one. To be called before the encodings are prepared, which carry it as well.
    #[must_use]
    pub fn with_link(mut self, link: String) -> Self {
        // The characters of RFC 9110 §5.5 but obs-text; a line break would begin another field.
        let may_stand = link.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte));
        self.describe(may_stand.then(|| link.into()));
        self
    }

    fn describe(&mut self, link: Option<Bytes>) {
        self.described.link = link;
        let bytes = std::mem::take(&mut self.identity.bytes);
        self.identity = Body::new(&self.described, self.identity.etag(), Encoding::Identity, bytes);
    }

    /// The value of `Content-Type`.
    pub fn media_type(&self) -> &'static str {
        self.described.media_type
    }

    /// What caches may do.
    pub fn cache(&self) -> Cache {
        self.described.cache
    }

    /// The value of `Link` (RFC 8288), if there is one.
    pub fn link(&self) -> Option<Bytes> {
        self.described.link.clone()
    }

    /// The body as it is.
    pub fn identity(&self) -> &Body {
        &self.identity
    }

    /// Whether the body is prepared in `encoding`.
    pub fn has(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Identity || self.slot(encoding).is_some()
    }

    /// The body in `encoding`, or as it is where that encoding is not prepared.
    pub fn body(&self, encoding: Encoding) -> &Body {
        self.slot(encoding).unwrap_or(&self.identity)
    }

    fn slot(&self, encoding: Encoding) -> Option<&Body> {
        let place = Encoding::PREFERENCE.iter().position(|candidate| *candidate == encoding)?;
        self.encoded[place].get()?.as_ref()
    }

    /// Prepares every encoding that is smaller than the body itself, quickly. Takes milliseconds; any thread may do it, at any time.
    pub fn compress(&self) {
        for encoding in Encoding::PREFERENCE {
            self.supply(encoding, || {
                let bytes = encode(encoding, &self.identity.bytes, Effort::Quick)?;
                (bytes.len() < self.identity.bytes.len()).then(|| bytes.into())
            });
        }
    }

    /// Puts a body into the place of an encoding that is not prepared yet; none where it is not worth sending.
    fn supply(&self, encoding: Encoding, make: impl FnOnce() -> Option<Bytes>) {
        let place = Encoding::PREFERENCE.iter().position(|candidate| *candidate == encoding);
        let Some(slot) = place.map(|place| &self.encoded[place]).filter(|_| self.compressible) else {
            return;
        };
        slot.get_or_init(|| {
            let bytes = make()?;
            // Of the encoded bytes: another encoder, or more effort, may give others.
            let etag = format!("\"{}-{}\"", fingerprint(&bytes, 22), encoding.token().unwrap_or_default());
            Some(Body::new(&self.described, &etag, encoding, bytes))
        });
    }

    /// Takes strong encodings that were made before; where others are prepared already nothing changes.
    pub(super) fn supply_strong(&self, encoded: Encoded) {
        if self.encoded.iter().all(|slot| slot.get().is_none()) {
            self.is_strong.store(true, Ordering::Relaxed);
        }
        for (encoding, bytes) in Encoding::PREFERENCE.into_iter().zip(encoded) {
            self.supply(encoding, || bytes);
        }
    }

    /// Takes the encodings of another file with the same body.
    pub(super) fn supply_from(&self, other: &Self) {
        self.is_strong.store(other.is_strong(), Ordering::Relaxed);
        for encoding in Encoding::PREFERENCE {
            self.supply(encoding, || other.slot(encoding).map(|body| body.bytes.clone()));
        }
    }

    /// Whether the encodings are as small as they get.
    pub(super) fn is_strong(&self) -> bool {
        self.is_strong.load(Ordering::Relaxed)
    }

    /// The same file before anything was encoded.
    pub(super) fn unencoded(&self) -> Self {
        let Described { media_type, cache, .. } = self.described;
        let mut file = Self::with_hash(media_type, cache, self.identity.bytes.clone(), self.hash);
        file.describe(self.link());
        file
    }

    /// Whether [`File::compress`] still has something to do.
    pub fn awaits_compression(&self) -> bool {
        self.compressible && self.encoded.iter().any(|slot| slot.get().is_none())
    }
}

/// The bodies of one content in the order of [`Encoding::PREFERENCE`]; none where that one is not worth sending.
pub(super) type Encoded = [Option<Bytes>; 3];

/// How much work an encoding is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// Somebody may be waiting.
    Quick,
    /// It is done once and kept.
    Strong,
}

/// Brotli's levels for [`Effort::Quick`] and [`Effort::Strong`]. Without optimisation the highest takes half a second even for a site of
/// four pages, which every server that a test starts would pay.
const BROTLI_LEVELS: (i32, i32) = if cfg!(debug_assertions) { (2, 5) } else { (6, 11) };

/// None where a coder fails, which none does on memory; the file is then sent without that encoding.
pub(super) fn encode(encoding: Encoding, bytes: &[u8], effort: Effort) -> Option<Vec<u8>> {
    // For a page of 28 KB gzip and zstd gain little above the quick levels. Brotli takes 0.4 ms for 6.7 KB here; at its
    // highest level it is 5.9 KB, but for 22 ms, which a start cannot afford for every page.
    let is_quick = effort == Effort::Quick;
    match encoding {
        Encoding::Identity => None,
        Encoding::Gzip => {
            let level = flate2::Compression::new(if is_quick { 7 } else { 9 });
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).ok()?;
            encoder.finish().ok()
        }
        Encoding::Brotli => {
            let mut encoded = Vec::new();
            let window = 18;
            let parameters = brotli::enc::BrotliEncoderParams {
                quality: if is_quick { BROTLI_LEVELS.0 } else { BROTLI_LEVELS.1 },
                lgwin: window,
                size_hint: bytes.len(),
                ..Default::default()
            };
            brotli::BrotliCompress(&mut &bytes[..], &mut encoded, &parameters).ok()?;
            Some(encoded)
        }
        Encoding::Zstd => zstd::bulk::compress(bytes, if is_quick { 9 } else { 19 }).ok(),
    }
}

/// The first `length` characters of a content hash, in lower-case hexadecimal (two characters a byte, 64 at the most).
pub fn fingerprint(bytes: &[u8], length: usize) -> String {
    let mut hex = blake3::hash(bytes).to_hex().to_string();
    hex.truncate(length);
    hex
}

fn is_compressible(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or_default();
    name.starts_with("text/")
        || name.ends_with("+json")
        || name.ends_with("+xml")
        || matches!(
            name,
            "application/json"
                | "application/xml"
                | "application/wasm"
                | "application/pdf"
                | "font/ttf"
                | "font/otf"
        )
}

/// The media type of a file by its name's ending. Unknown endings are sent as plain bytes.
pub fn media_type(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "md" | "markdown" => "text/markdown; charset=utf-8",
        "txt" | "text" => "text/plain; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "xml" | "xsl" => "application/xml",
        "rss" => "application/rss+xml",
        "atom" => "application/atom+xml",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "otf" => "font/otf",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "mp3" => "audio/mpeg",
        "ogg" => "audio/ogg",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "asc" => "application/pgp-keys",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn every_encoding_carries_the_same_content_and_its_own_validator() {
        let text = "A line that repeats itself.\n".repeat(100);
        let file = File::new("text/plain; charset=utf-8", Cache::Revalidate, text.clone());
        assert!(file.awaits_compression());
        assert!(!file.has(Encoding::Gzip));
        assert_eq!(
            file.body(Encoding::Gzip).bytes,
            text.as_bytes(),
            "until it is prepared, identity stands in"
        );
        file.compress();
        assert!(!file.awaits_compression());

        let mut unpacked = String::new();
        flate2::read::GzDecoder::new(&file.body(Encoding::Gzip).bytes[..])
            .read_to_string(&mut unpacked)
            .expect("gzip");
        assert_eq!(unpacked, text);
        let mut unpacked = Vec::new();
        brotli::BrotliDecompress(&mut &file.body(Encoding::Brotli).bytes[..], &mut unpacked).expect("brotli");
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
    fn what_gains_nothing_is_not_encoded() {
        let image = File::new("image/png", Cache::Immutable, vec![0_u8; 4096]);
        image.compress();
        assert!(!image.compressible && !image.has(Encoding::Brotli));
        let short = File::new("text/plain; charset=utf-8", Cache::Revalidate, "short");
        assert!(!short.compressible);
    }
}
