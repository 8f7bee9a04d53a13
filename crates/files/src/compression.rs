//! Compresses bodies, and decides which are compressed or stay on the disk.

use std::io::Write as _;

use bytes::Bytes;
use compu::encoder::{BrotliC, BrotliOptions, BrotliQuality, EncodeOp, EncodeStatus, Encoder as _};

use frontdesk_negotiate::Encoding;
use frontdesk_publish::media_type::media_type;

/// Minimum size in bytes of a body that is encoded. For smaller bodies, the additional header outweighs the
/// saving.
const MIN_COMPRESSED: usize = 200;

/// The encodings of one body, in the order of [`Encoding::PREFERENCE`]. `None` for an encoding that is not
/// worth sending.
pub type Encoded = [Option<Bytes>; 3];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Takes milliseconds. Used when the server starts, and while a visitor waits for the result.
    Quick,
    /// Takes seconds. Used for exports, and in the background of a running server.
    Strong,
}

/// Brotli's levels for `Effort::Quick` and [`Effort::Strong`]. Debug builds use lower levels: the highest
/// level takes half a second for a four-page site, and would delay every test that starts a server.
const BROTLI_LEVELS: (BrotliQuality, BrotliQuality) = if cfg!(debug_assertions) {
    (BrotliQuality::Q2, BrotliQuality::Q5)
} else {
    (BrotliQuality::Q6, BrotliQuality::Q11)
};

/// The level of gzip for [`Effort::Quick`].
const QUICK_GZIP_LEVEL: u32 = 7;

/// The approximate number of bytes by which the output of gzip with [`Effort::Quick`] grows if `bytes` follow
/// `context`, whose last 32 KiB count. If the encoder fails, the length of `bytes`.
pub fn gzip_size_after(context: &[u8], bytes: &[u8]) -> usize {
    let mut encoder = flate2::Compress::new(flate2::Compression::new(QUICK_GZIP_LEVEL), false);
    // Reserve more space than the input has: incompressible text is stored in blocks, each with a header of
    // five bytes.
    let mut output = Vec::with_capacity(bytes.len() + bytes.len() / 1_000 + 64);
    let known = if context.is_empty() { Ok(0) } else { encoder.set_dictionary(context) };
    let end = known.and_then(|_| encoder.compress_vec(bytes, &mut output, flate2::FlushCompress::Finish));
    if matches!(end, Ok(flate2::Status::StreamEnd)) { output.len() } else { bytes.len() }
}

/// Compresses `bytes`; the result may be longer. `None` for identity, or if the encoder fails, which cannot
/// happen when it writes to memory.
pub fn encode(encoding: Encoding, bytes: &[u8], effort: Effort) -> Option<Vec<u8>> {
    // For a 28 KB page, gzip and zstd gain little above the quick levels. Brotli compresses it to 6.7 KB in
    // 0.4 ms at the quick level, and to 5.9 KB in 22 ms at its highest level, which is too slow for a server
    // start.
    let is_quick = effort == Effort::Quick;
    match encoding {
        Encoding::Identity => None,
        Encoding::Gzip => {
            let level = flate2::Compression::new(if is_quick { QUICK_GZIP_LEVEL } else { 9 });
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).ok()?;
            encoder.finish().ok()
        }
        Encoding::Brotli => {
            let level = if is_quick { BROTLI_LEVELS.0 } else { BROTLI_LEVELS.1 };
            let mut encoder = BrotliC::new(BrotliOptions::new().quality(level))?;
            let mut output = Vec::new();
            let result = encoder.encode_vec_full(bytes, &mut output, EncodeOp::Finish).ok()?;
            (result.status == EncodeStatus::Finished).then_some(output)
        }
        Encoding::Zstd => zstd::bulk::compress(bytes, if is_quick { 9 } else { 19 }).ok(),
    }
}

/// Files longer than this, in bytes, are served from the disk if [`is_served_from_disk`] permits it for their
/// format.
const MIN_ON_DISK: u64 = 256 << 10;

/// Whether a file of this name and length is served from the disk: if it is longer than 256 KiB and has an
/// extension. Fonts are not, nor are texts and other formats that compress well, except PDF: their
/// encodings are in memory. Images are not if `needs_images` says that the load needs their content.
pub fn is_served_from_disk(name: &str, length: u64, needs_images: bool) -> bool {
    // The type of a file without an extension may depend on its content.
    let has_extension = name.rsplit('/').next().is_some_and(|file| file.contains('.'));
    let is_kept = match media_type(name) {
        "application/pdf" => false,
        other if other.starts_with("image/") && needs_images => true,
        other => other.starts_with("font/") || is_compressible(other),
    };
    length > MIN_ON_DISK && has_extension && !is_kept
}

/// The media types that compress well, apart from `text/…`, `…+json` and `…+xml`.
#[rustfmt::skip]
const COMPRESSIBLE: [&str; 15] = [
    "application/json", "application/json5", "application/pdf", "application/rtf", "application/toml",
    "application/vnd.apple.mpegurl", "application/vnd.ms-fontobject", "application/wasm", "application/x-subrip",
    "application/xml", "application/yaml", "font/otf", "font/ttf", "image/bmp", "image/x-icon",
];

/// Whether a body of this media type, with `length` bytes in memory, compresses well and is long enough.
pub(crate) fn is_worth_compressing(media_type: &str, length: usize) -> bool {
    is_compressible(media_type) && length >= MIN_COMPRESSED
}

/// Whether bodies of this media type compress well. Ignores the parameters of the type.
fn is_compressible(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or_default();
    name.starts_with("text/")
        || ["+json", "+xml"].iter().any(|ending| name.ends_with(ending))
        || COMPRESSIBLE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_files_of_compressed_formats_are_served_from_the_disk() {
        let check = |name: &str, length: u64, needs_images: bool, expected: bool| {
            assert_eq!(is_served_from_disk(name, length, needs_images), expected, "{name} {length}");
        };
        for name in ["film.mp4", "talk.mp3", "a/guide.pdf", "a.zip", "a.tar.gz", "data.bin"] {
            check(name, MIN_ON_DISK + 1, true, true);
            check(name, MIN_ON_DISK, true, false);
        }
        for name in
            ["page.html", "a.css", "a.js", "a.md", "a.json", "a.svg", "a.csv", "a.woff2", "data", "a.b/data"]
        {
            check(name, 1 << 30, false, false);
        }
        check("photo.jpg", 1 << 20, true, false);
        check("photo.jpg", 1 << 20, false, true);
    }
}
