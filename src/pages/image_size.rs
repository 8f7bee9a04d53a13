//! Reads the dimensions of images from their headers: PNG, JPEG, GIF, WebP, AVIF and SVG.
//!
//! Decodes no pixels. Every read is bounds-checked, and the time is linear in the size of the header.

use super::html::attributes;

/// The dimensions in CSS pixels, as a browser shows the image: after the rotation that a JPEG's Exif data
/// specifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub struct ImageSize {
    pub width: u32,
    pub height: u32,
}

impl ImageSize {
    const fn new(width: u32, height: u32) -> Self {
        Self { width, height }
    }

    /// The size with this width and the same proportions.
    #[must_use]
    pub fn scaled_to(self, width: u32) -> Self {
        let height = (u64::from(self.height) * u64::from(width) + u64::from(self.width) / 2)
            .checked_div(self.width.into())
            .unwrap_or(0);
        Self { width, height: u32::try_from(height).unwrap_or(u32::MAX).max(1) }
    }

    #[must_use]
    pub fn swapped(self) -> Self {
        Self { width: self.height, height: self.width }
    }
}

/// Number of bytes at the beginning of an SVG that are searched for the root element.
const MAX_SVG_HEADER: usize = 64 << 10;

/// Number of bytes at the beginning of an AVIF that are searched for the dimensions.
const MAX_AVIF_HEADER: usize = 64 << 10;

/// Whether the size of images with this media type can be read.
pub fn is_sized_format(media_type: &str) -> bool {
    let formats = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"];
    formats.contains(&media_type)
}

/// The size of the image. Detects the format from the content, because a file's extension may be wrong.
/// `None` if the header is damaged, or if an SVG has no size.
pub fn read_size(bytes: &[u8]) -> Option<ImageSize> {
    let size = match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => read_png(bytes),
        [0xff, 0xd8, ..] => read_jpeg(bytes).map(JpegHeader::shown_size),
        [b'G', b'I', b'F', b'8', ..] => {
            Some(ImageSize::new(little_endian(bytes, 6, 2)?, little_endian(bytes, 8, 2)?))
        }
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => read_webp(bytes),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => read_avif(bytes),
        _ => read_svg(bytes),
    };
    size.filter(|size| size.width > 0 && size.height > 0)
}

fn big_endian(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

fn little_endian(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

/// The chunk `IHDR` is always the first one (PNG §11.2.1).
fn read_png(bytes: &[u8]) -> Option<ImageSize> {
    (bytes.get(12..16)? == b"IHDR").then_some(())?;
    Some(ImageSize::new(big_endian(bytes, 16, 4)?, big_endian(bytes, 20, 4)?))
}

/// The fields of a JPEG header that concern the size.
#[derive(Debug, Clone, Copy)]
pub(super) struct JpegHeader {
    /// The size of the stored image, before rotation.
    pub stored: ImageSize,
    /// The orientation from the Exif data, 1 to 8. The values from 5 to 8 swap width and height.
    pub orientation: u8,
    pub is_progressive: bool,
}

impl JpegHeader {
    /// The size after rotation.
    pub fn shown_size(self) -> ImageSize {
        if self.orientation >= 5 { self.stored.swapped() } else { self.stored }
    }
}

/// Reads the segments before the image data (ITU T.81 §B.1).
pub(super) fn read_jpeg(bytes: &[u8]) -> Option<JpegHeader> {
    let mut at = 2;
    let mut orientation = None;
    loop {
        // A marker may be preceded by fill bytes.
        (*bytes.get(at)? == 0xff).then_some(())?;
        let marker = *bytes.get(at + 1)?;
        if marker == 0xff {
            at += 1;
            continue;
        }
        at += 2;
        // Markers without a segment.
        if matches!(marker, 0x01 | 0xd0..=0xd7) {
            continue;
        }
        let length = usize::try_from(big_endian(bytes, at, 2)?).ok()?;
        let segment = bytes.get(at + 2..at.checked_add(length)?)?;
        match marker {
            // The start of a frame, but not the markers of Huffman tables, extensions and arithmetic coding.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let stored = ImageSize::new(big_endian(segment, 3, 2)?, big_endian(segment, 1, 2)?);
                let is_progressive = matches!(marker, 0xc2 | 0xc6 | 0xca | 0xce);
                return Some(JpegHeader { stored, orientation: orientation.unwrap_or(1), is_progressive });
            }
            0xe1 if orientation.is_none() => orientation = exif_orientation(segment),
            0xd9 | 0xda => return None,
            _ => {}
        }
        at += length;
    }
}

/// The tag `Orientation` in the first directory of the Exif data (Exif 2.32 §4.6).
fn exif_orientation(segment: &[u8]) -> Option<u8> {
    let tiff = segment.strip_prefix(b"Exif\0\0")?;
    let read = match tiff.get(..2)? {
        b"II" => little_endian,
        b"MM" => big_endian,
        _ => return None,
    };
    let directory = usize::try_from(read(tiff, 4, 4)?).ok()?;
    let entries = usize::try_from(read(tiff, directory, 2)?).ok()?;
    (0..entries).find_map(|number| {
        let entry = directory.checked_add(2 + 12 * number)?;
        (read(tiff, entry, 2)? == 0x0112).then_some(())?;
        u8::try_from(read(tiff, entry.checked_add(8)?, 2)?).ok().filter(|value| (1..=8).contains(value))
    })
}

/// The first chunk of a WebP file: lossy, lossless, or extended (RFC 9649 §2).
fn read_webp(bytes: &[u8]) -> Option<ImageSize> {
    match bytes.get(12..16)? {
        // The key frame's start code, then 14 bits of the width and of the height (RFC 6386 §9.1).
        b"VP8 " => {
            (bytes.get(23..26)? == [0x9d, 0x01, 0x2a]).then_some(())?;
            Some(ImageSize::new(little_endian(bytes, 26, 2)? & 0x3fff, little_endian(bytes, 28, 2)? & 0x3fff))
        }
        b"VP8L" => {
            (*bytes.get(20)? == 0x2f).then_some(())?;
            let bits = little_endian(bytes, 21, 4)?;
            Some(ImageSize::new((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some(ImageSize::new(little_endian(bytes, 24, 3)? + 1, little_endian(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

/// The `ispe` property of the largest item, which is the image; smaller items are thumbnails or tiles
/// (ISO/IEC 23008-12 §6.5.3). If `irot` rotates the image by 90 or 270 degrees, width and height are swapped.
fn read_avif(bytes: &[u8]) -> Option<ImageSize> {
    let header = &bytes[..bytes.len().min(MAX_AVIF_HEADER)];
    ["avif", "avis"].iter().any(|brand| contains(header.get(8..64.min(header.len())), brand)).then_some(())?;
    let meta = find_box(header, b"meta")?;
    // `meta` is a full box: four bytes of version and flags come first.
    let properties = find_box(find_box(meta.get(4..)?, b"iprp")?, b"ipco")?;
    let mut largest: Option<ImageSize> = None;
    let mut is_rotated = false;
    for (kind, content) in boxes(properties) {
        if kind == b"ispe" {
            let size = ImageSize::new(big_endian(content, 4, 4)?, big_endian(content, 8, 4)?);
            let area = |size: ImageSize| u64::from(size.width) * u64::from(size.height);
            largest = largest.filter(|known| area(*known) >= area(size)).or(Some(size));
        } else if kind == b"irot" {
            is_rotated = content.first()? & 1 == 1;
        }
    }
    largest.map(|size| if is_rotated { size.swapped() } else { size })
}

fn contains(bytes: Option<&[u8]>, word: &str) -> bool {
    bytes.is_some_and(|bytes| bytes.windows(word.len()).any(|window| window == word.as_bytes()))
}

fn find_box<'a>(bytes: &'a [u8], kind: &[u8]) -> Option<&'a [u8]> {
    boxes(bytes).find(|(found, _)| *found == kind).map(|(_, content)| content)
}

/// The boxes in a box, with their types (ISO/IEC 14496-12 §4.2). The last one may be truncated.
fn boxes(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..)?;
        let length = usize::try_from(big_endian(rest, 0, 4)?).ok()?;
        // A length of 0 means the rest; 1 announces a length of 64 bits, which no header needs.
        let length = if length == 0 { rest.len() } else { length };
        (length >= 8).then_some(())?;
        at = at.checked_add(length)?;
        Some((rest.get(4..8)?, &rest[8..length.min(rest.len())]))
    })
}

/// The attributes `width` and `height` of the root element, completed from its `viewBox` (SVG 2 §8.3).
fn read_svg(bytes: &[u8]) -> Option<ImageSize> {
    let header = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_SVG_HEADER)]);
    let mut from = 0;
    // Skip comments, which may contain another element.
    let start = loop {
        let rest = &header[from..];
        let element = rest.find("<svg")?;
        match rest.find("<!--").filter(|comment| *comment < element) {
            Some(comment) => from += comment + 4 + rest[comment + 4..].find("-->")?,
            None => break from + element,
        }
    };
    let root = &header[start..];
    let root = &root[..root.find('>')?];
    let value = |name: &str| {
        let mut named = attributes(root).filter(|(found, _)| *found == name);
        named.next().map(|(_, range)| root[range].trim())
    };
    let length = |name: &str| {
        let number: f64 = value(name)?.trim_end_matches("px").trim().parse().ok()?;
        Some(number).filter(|number| number.is_finite() && *number > 0.0)
    };
    let view_box: Option<Vec<f64>> = value("viewBox").and_then(|text| {
        let numbers = text.split(|c: char| c.is_whitespace() || c == ',').filter(|part| !part.is_empty());
        numbers.map(|part| part.parse().ok()).collect()
    });
    let ratio = match view_box.as_deref() {
        Some([_, _, width, height]) if *width > 0.0 && *height > 0.0 => Some((*width, *height)),
        _ => None,
    };
    let (width, height) = match (length("width"), length("height"), ratio) {
        (Some(width), Some(height), _) => (width, height),
        (Some(width), None, Some(ratio)) => (width, width * ratio.1 / ratio.0),
        (None, Some(height), Some(ratio)) => (height * ratio.0 / ratio.1, height),
        (None, None, Some(ratio)) => ratio,
        _ => return None,
    };
    // The conversion saturates, and the range excludes negative numbers.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
    let rounded = |number: f64| number.round().clamp(1.0, 100_000.0) as u32;
    Some(ImageSize::new(rounded(width), rounded(height)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn jpeg(orientation: Option<u8>) -> Vec<u8> {
        let mut bytes = vec![0xff, 0xd8];
        if let Some(orientation) = orientation {
            let mut exif = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
            exif.extend([orientation, 0, 0, 0, 0, 0, 0]);
            bytes.extend([0xff, 0xe1, 0, u8::try_from(exif.len() + 2).expect("a short segment")]);
            bytes.extend(exif);
        }
        bytes.extend([0xff, 0xff, 0xc2, 0, 11, 8, 2, 0, 3, 0, 1, 1, 0x11, 0]);
        bytes
    }

    fn avif(rotation: &[u8]) -> Vec<u8> {
        let wrap = |kind: &[u8], content: &[u8]| {
            let length = u32::try_from(8 + content.len()).expect("a short box");
            [&length.to_be_bytes(), kind, content].concat()
        };
        let size = |width: u8, height: u8| wrap(b"ispe", &[0, 0, 0, 0, 0, 0, 1, width, 0, 0, 1, height]);
        let rotation = if rotation.is_empty() { Vec::new() } else { wrap(b"irot", rotation) };
        let properties = wrap(b"ipco", &[size(1, 2), size(0, 1), rotation].concat());
        let meta = [&[0; 4], &*wrap(b"hdlr", &[0; 8]), &wrap(b"iprp", &properties)].concat();
        [wrap(b"ftyp", b"avif\0\0\0\0mif1"), wrap(b"meta", &meta)].concat()
    }

    #[test]
    fn sizes_are_read_from_headers() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x03\0\0\0\x02\0\x08\x06\0\0\0";
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\0\x43\0\x02";
        let lossless =
            [&b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f"[..], &(0x2ff_u32 | 0x1ff << 14).to_le_bytes()].concat();
        let extended = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0\xff\x02\0\xff\x01\0";
        for (bytes, size) in [
            (&png[..], (768, 512)),
            (&jpeg(None), (768, 512)),
            (&jpeg(Some(3)), (768, 512)),
            (&jpeg(Some(6)), (512, 768)),
            (b"GIF89a\0\x03\0\x02", (768, 512)),
            (lossy, (768, 512)),
            (&lossless, (768, 512)),
            (extended, (768, 512)),
            (&avif(&[]), (257, 258)),
            (&avif(&[1]), (258, 257)),
            (b"<?xml version=\"1.0\"?><!-- <svg width=\"1\" height=\"1\"> --><svg width=\"24px\" height='12.4'>", (24, 12)),
            (b"<svg viewBox=\"0 0 300 150\" width=\"100%\" height=\"100%\">", (300, 150)),
            (b"<svg viewBox='0,0,300,150' height=\"75\">", (150, 75)),
        ] {
            let (width, height) = size;
            let name = String::from_utf8_lossy(bytes);
            assert_eq!(read_size(bytes), Some(ImageSize { width, height }), "{name}");
            if !name.contains("<svg") {
                for end in 0..bytes.len() - 3 {
                    // A truncated AVIF may still contain a smaller item.
                    let found = read_size(&bytes[..end]);
                    assert!(found.is_none() || name.contains("ftyp") || end > 20, "{name} cut at {end}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn an_image_without_a_size_has_none() {
        for bytes in [
            &b""[..],
            b"text",
            b"<svg>",
            b"<svg width=\"10mm\" height=\"10mm\">",
            b"<svg viewBox=\"0 0 0 0\">",
            b"<svg width=\"nan\" height=\"inf\">",
            b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\0\0\0\x02\0",
            b"\xff\xd8\xff\xda\0\x04\0\0",
            b"\xff\xd8\xff\xe0\0\0",
        ] {
            assert_eq!(read_size(bytes), None, "{}", String::from_utf8_lossy(bytes));
        }
    }

    proptest! {
        #[test]
        fn damaged_headers_are_harmless(
            which in 0_usize..3, at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let mut bytes = [jpeg(Some(6)), avif(&[1]), b"<svg viewBox='0 0 1 1'>".to_vec()][which].clone();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            read_size(&bytes);
        }
    }
}
