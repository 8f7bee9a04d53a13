//! Reads the dimensions of images from their headers: PNG, JPEG, GIF, WebP, AVIF and SVG. Decodes no pixels.

use exif::{In, Tag};
use jpeg_decoder::{CodingProcess, Decoder};

use crate::svg_size;

/// The dimensions in CSS pixels, as a browser shows the image: after the rotation that a JPEG's Exif data
/// specifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub struct ImageSize {
    pub width: u32,
    pub height: u32,
}

impl ImageSize {
    /// The size with this width and the same proportions. The height is at least 1.
    #[must_use]
    pub fn scaled_to(self, width: u32) -> Self {
        let height = (u64::from(self.height) * u64::from(width) + u64::from(self.width) / 2)
            .checked_div(self.width.into())
            .unwrap_or(0);
        Self { width, height: u32::try_from(height).unwrap_or(u32::MAX).max(1) }
    }

    #[must_use]
    pub(crate) fn swapped(self) -> Self {
        Self { width: self.height, height: self.width }
    }
}

/// Number of bytes at the beginning of an AVIF that are searched for the dimensions.
const MAX_AVIF_HEADER: usize = 64 << 10;

/// Maximum length of a side of an SVG in pixels. A longer side is shortened to this length.
const MAX_SVG_SIDE: f64 = 100_000.0;

/// Whether [`read_size`] reads images with this media type.
pub fn is_sized_format(media_type: &str) -> bool {
    let formats = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"];
    formats.contains(&media_type)
}

/// The size of an image; of a JPEG, after the rotation in its Exif data. Detects the format from the content,
/// because a file's extension may be wrong. Also reads HEIF images other than AVIF. `None` if the header is
/// damaged or of another format, or if an SVG states no size. The sides of an SVG are rounded to whole
/// pixels, at least 1 and at most 100,000.
pub fn read_size(bytes: &[u8]) -> Option<ImageSize> {
    match bytes {
        [0xff, 0xd8, ..] => read_jpeg(bytes).map(JpegHeader::shown_size),
        [0x89, b'P', ..] | [b'G', b'I', b'F', ..] | [b'R', b'I', b'F', b'F', ..] => {
            read_with_imagesize(bytes)
        }
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => {
            read_with_imagesize(&bytes[..bytes.len().min(MAX_AVIF_HEADER)])
        }
        _ => {
            let (width, height) = svg_size::read_size(bytes)?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
            let rounded = |number: f64| number.round().clamp(1.0, MAX_SVG_SIDE) as u32;
            Some(ImageSize { width: rounded(width), height: rounded(height) })
        }
    }
}

/// Width and height of an image, both positive, whose ratio matters and whose unit does not. Like
/// [`read_size`], but the sides of an SVG are neither rounded nor shortened, so that they keep their ratio.
pub fn read_proportions(bytes: &[u8]) -> Option<(f64, f64)> {
    svg_size::read_size(bytes).filter(|_| !is_bitmap(bytes)).or_else(|| {
        let size = read_size(bytes)?;
        Some((size.width.into(), size.height.into()))
    })
}

fn is_bitmap(bytes: &[u8]) -> bool {
    imagesize::image_type(bytes).is_ok() || bytes.starts_with(&[0xff, 0xd8])
}

/// The size of a PNG, GIF, WebP or HEIF, such as AVIF; `None` for other formats, or if a side is 0.
fn read_with_imagesize(bytes: &[u8]) -> Option<ImageSize> {
    let size = imagesize::blob_size(bytes).ok()?;
    let size = ImageSize { width: size.width.try_into().ok()?, height: size.height.try_into().ok()? };
    (size.width > 0 && size.height > 0).then_some(size)
}

/// The fields of a JPEG header that concern the size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JpegHeader {
    /// The size of the stored image, before rotation.
    pub(crate) stored: ImageSize,
    /// The orientation from the Exif data, 1 to 8. The values from 5 to 8 swap width and height.
    pub(crate) orientation: u8,
    pub(crate) is_progressive: bool,
}

impl JpegHeader {
    /// The size after rotation.
    pub(crate) fn shown_size(self) -> ImageSize {
        if self.orientation >= 5 { self.stored.swapped() } else { self.stored }
    }
}

/// Reads the header of a JPEG; `None` if it is damaged. Without valid Exif data, the orientation is 1.
pub(crate) fn read_jpeg(bytes: &[u8]) -> Option<JpegHeader> {
    let mut decoder = Decoder::new(bytes);
    decoder.read_info().ok()?;
    let info = decoder.info()?;
    Some(JpegHeader {
        stored: ImageSize { width: info.width.into(), height: info.height.into() },
        orientation: decoder.exif_data().and_then(orientation).unwrap_or(1),
        is_progressive: info.coding_process == CodingProcess::DctProgressive,
    })
}

/// The orientation in the Exif data; `None` if it is missing or not from 1 to 8.
fn orientation(exif: &[u8]) -> Option<u8> {
    let exif = exif::Reader::new().read_raw(exif.to_vec()).ok()?;
    let value = exif.get_field(Tag::Orientation, In::PRIMARY)?.value.get_uint(0)?;
    u8::try_from(value).ok().filter(|value| (1..=8).contains(value))
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
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\0\x03\0\x02";
        let lossless =
            [&b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f"[..], &(0x2ff_u32 | 0x1ff << 14).to_le_bytes()].concat();
        let extended = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0\xff\x02\0\xff\x01\0";
        for (bytes, size) in [
            (&png[..], (768, 512)),
            (&jpeg(None), (768, 512)),
            (&jpeg(Some(3)), (768, 512)),
            (&jpeg(Some(6)), (512, 768)),
            (b"GIF89a\0\x03\0\x02\0\0\0", (768, 512)),
            (lossy, (768, 512)),
            (&lossless, (768, 512)),
            (extended, (768, 512)),
            (&avif(&[]), (257, 258)),
            (&avif(&[1]), (258, 257)),
            (b"<svg width='24px' height='12.4'>", (24, 12)),
            (b"<svg viewBox='0 0 0.4 9e9'>", (1, 100_000)),
        ] {
            let (width, height) = size;
            let name = String::from_utf8_lossy(bytes);
            assert_eq!(read_size(bytes), Some(ImageSize { width, height }), "{name}");
        }
    }

    #[test]
    fn an_image_without_a_size_has_none() {
        for bytes in [
            &b""[..],
            b"text",
            b"<svg>",
            b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\0\0\0\x02\0",
            b"\xff\xd8\xff\xda\0\x04\0\0",
            b"\xff\xd8\xff\xe0\0\0",
            b"RIFF\0\0\0\0WEBP",
            b"GIF",
        ] {
            assert_eq!(read_size(bytes), None, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn proportions_are_not_rounded() {
        assert_eq!(read_proportions(b"<svg viewBox='0 0 3 0.5'>"), Some((3.0, 0.5)));
        assert_eq!(read_proportions(&jpeg(Some(6))), Some((512.0, 768.0)));
        assert_eq!(read_proportions(b"text"), None);
    }

    proptest! {
        #[test]
        fn damaged_headers_are_harmless(
            which in 0_usize..3, at in any::<prop::sample::Index>(), byte in any::<u8>(), end in any::<prop::sample::Index>(),
        ) {
            let mut bytes = [jpeg(Some(6)), avif(&[1]), b"<svg viewBox='0 0 1 1'>".to_vec()][which].clone();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(end.index(bytes.len()));
            read_size(&bytes);
            read_proportions(&bytes);
        }
    }
}
