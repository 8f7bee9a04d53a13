//! Reads and writes PNG images row by row (W3C, Portable Network Graphics, third edition).
//!
//! Supports what images on websites have: all colour types and depths, but neither interlacing nor animation.
//! Rows are converted to eight bits per channel.

use std::io::{self, Read, Write as _};

use flate2::Crc;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The channels of a pixel, each with eight bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    Grey = 1,
    GreyAlpha = 2,
    Colour = 3,
    ColourAlpha = 4,
}

/// The reason why a PNG cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PngError {
    /// The image is animated, interlaced or has another feature that this reader lacks.
    Unsupported,
    Damaged(&'static str),
}

impl From<io::Error> for PngError {
    fn from(_: io::Error) -> Self {
        Self::Damaged("the compressed data are invalid or end early")
    }
}

/// Reads the rows of an image from top to bottom.
pub struct PngReader<'a> {
    pub width: u32,
    pub height: u32,
    pub channels: Channels,
    /// The chunks that describe the colours, to be copied into other versions of the image.
    pub colour_chunks: Vec<&'a [u8]>,
    depth: usize,
    /// The number of samples per pixel in the file. A palette index is one sample.
    samples: usize,
    /// The colours of an image with a palette.
    palette: Option<Vec<[u8; 4]>>,
    data: ZlibDecoder<ChunkData<'a>>,
    /// The previous row, unfiltered.
    above: Vec<u8>,
    /// The current row with its filter's number.
    row: Vec<u8>,
    pixels: Vec<u8>,
}

/// The concatenated content of the image data chunks.
struct ChunkData<'a>(std::vec::IntoIter<&'a [u8]>, &'a [u8]);

impl Read for ChunkData<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.1.is_empty() {
            let Some(next) = self.0.next() else { return Ok(0) };
            self.1 = next;
        }
        self.1.read(buffer)
    }
}

/// A chunk: its type, its content, and all of its bytes.
struct Chunk<'a> {
    kind: &'a [u8],
    content: &'a [u8],
    whole: &'a [u8],
}

/// The chunks after the signature, up to the first one that is cut off or has a wrong checksum.
fn chunks(bytes: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    let mut rest = bytes.get(SIGNATURE.len()..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_be_bytes(*rest.first_chunk()?)).ok()?;
        let whole = rest.get(..length.checked_add(12)?)?;
        let (checked, sum) = whole[4..].split_last_chunk::<4>()?;
        rest = &rest[whole.len()..];
        (checksum(checked) == u32::from_be_bytes(*sum)).then(|| Chunk {
            kind: &checked[..4],
            content: &checked[4..],
            whole,
        })
    })
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

impl<'a> PngReader<'a> {
    /// Reads everything before the image data. Memory holds two rows and the palette.
    pub fn new(bytes: &'a [u8]) -> Result<Self, PngError> {
        let mut found = chunks(bytes).peekable();
        let header = found.next().filter(|chunk| bytes.starts_with(SIGNATURE) && chunk.kind == b"IHDR");
        let header = header.ok_or(PngError::Damaged("it has no header"))?.content;
        let &[w1, w2, w3, w4, h1, h2, h3, h4, depth, colour, 0, 0, interlace] = header else {
            return Err(PngError::Damaged("its header is invalid"));
        };
        if interlace != 0 {
            return Err(PngError::Unsupported);
        }
        let mut palette = None;
        let mut transparency: Option<&[u8]> = None;
        let mut colour_chunks = Vec::new();
        let mut data = Vec::new();
        for Chunk { kind, content, whole } in found {
            match kind {
                b"PLTE" => {
                    palette =
                        Some(content.chunks_exact(3).map(|rgb| [rgb[0], rgb[1], rgb[2], 255]).collect());
                }
                b"tRNS" => transparency = Some(content),
                b"acTL" | b"cICP" => return Err(PngError::Unsupported),
                b"iCCP" | b"sRGB" | b"gAMA" | b"cHRM" => colour_chunks.push(whole),
                b"IDAT" => data.push(content),
                _ => {}
            }
        }
        let (samples, channels) = match (colour, transparency.is_some()) {
            (0, false) => (1, Channels::Grey),
            (2, false) => (3, Channels::Colour),
            (3, false) => (1, Channels::Colour),
            (3, true) => (1, Channels::ColourAlpha),
            (4, _) => (2, Channels::GreyAlpha),
            (6, _) => (4, Channels::ColourAlpha),
            // A single colour that is transparent.
            (0 | 2, true) => return Err(PngError::Unsupported),
            _ => return Err(PngError::Damaged("its colour type is invalid")),
        };
        let is_valid_depth = match colour {
            0 => matches!(depth, 1 | 2 | 4 | 8 | 16),
            3 => matches!(depth, 1 | 2 | 4 | 8),
            _ => matches!(depth, 8 | 16),
        };
        let mut palette: Option<Vec<[u8; 4]>> = palette.filter(|_| colour == 3);
        let (width, height) = (u32::from_be_bytes([w1, w2, w3, w4]), u32::from_be_bytes([h1, h2, h3, h4]));
        if !is_valid_depth || (colour == 3 && palette.is_none()) || width == 0 || height == 0 {
            return Err(PngError::Damaged("its header is invalid"));
        }
        for (entry, alpha) in palette.iter_mut().flatten().zip(transparency.unwrap_or_default()) {
            entry[3] = *alpha;
        }
        let depth = usize::from(depth);
        let bits = usize::try_from(width).ok().and_then(|width| width.checked_mul(samples * depth));
        let length = bits.ok_or(PngError::Unsupported)?.div_ceil(8);
        Ok(Self {
            width,
            height,
            channels,
            colour_chunks,
            depth,
            samples,
            palette,
            data: ZlibDecoder::new(ChunkData(data.into_iter(), &[])),
            above: vec![0; length],
            row: vec![0; length + 1],
            pixels: Vec::new(),
        })
    }

    /// Reads the next row. The caller stops after the last one.
    pub fn next_row(&mut self) -> Result<&[u8], PngError> {
        self.data.read_exact(&mut self.row)?;
        let (filter, row) = self.row.split_first_mut().ok_or(PngError::Damaged("it has no rows"))?;
        unfilter(*filter, row, &self.above, (self.samples * self.depth).div_ceil(8))?;
        self.above.copy_from_slice(row);
        self.pixels.clear();
        match (&self.palette, self.depth) {
            (None, 8) => self.pixels.extend_from_slice(&self.above),
            // The upper half of each sample.
            (None, 16) => self.pixels.extend(self.above.iter().step_by(2)),
            (palette, depth) => {
                let width = usize::try_from(self.width).unwrap_or(usize::MAX);
                let mask = (1_u16 << depth) - 1;
                let samples = (0..width).map(|x| {
                    let shift = 8 - depth - x * depth % 8;
                    u16::from(self.above[x * depth / 8]) >> shift & mask
                });
                if let Some(colours) = palette {
                    let size = self.channels as usize;
                    for index in samples {
                        // Browsers show black for an index beyond the palette.
                        let colour = colours.get(usize::from(index)).unwrap_or(&[0, 0, 0, 255]);
                        self.pixels.extend_from_slice(&colour[..size]);
                    }
                } else {
                    let grey = samples.map(|sample| u8::try_from(sample * 255 / mask).unwrap_or(255));
                    self.pixels.extend(grey);
                }
            }
        }
        Ok(&self.pixels)
    }
}

/// Reverses the filter of a row. `size` is the number of bytes of a pixel, at least one.
fn unfilter(filter: u8, row: &mut [u8], above: &[u8], size: usize) -> Result<(), PngError> {
    if filter > 4 {
        return Err(PngError::Damaged("a row has an unknown filter"));
    }
    for (at, up) in above.iter().enumerate().take(row.len()) {
        let left = at.checked_sub(size);
        let of = |row: &[u8]| left.map_or(0, |left| row[left]);
        let predicted = predict(filter, of(row), *up, of(above));
        row[at] = row[at].wrapping_add(predicted);
    }
    Ok(())
}

/// The value that a filter predicts from the bytes on the left, above, and above on the left (§9.2).
fn predict(filter: u8, left: u8, above: u8, corner: u8) -> u8 {
    match filter {
        1 => left,
        2 => above,
        3 => left.midpoint(above),
        4 => {
            let estimate = i16::from(left) + i16::from(above) - i16::from(corner);
            let distance = |value: u8| (estimate - i16::from(value)).abs();
            if distance(left) <= distance(above) && distance(left) <= distance(corner) {
                left
            } else if distance(above) <= distance(corner) {
                above
            } else {
                corner
            }
        }
        _ => 0,
    }
}

/// Writes an image with eight bits per channel. `colour_chunks` are copied. `pixels` must contain at least
/// one row.
pub fn write(
    width: u32,
    height: u32,
    channels: Channels,
    colour_chunks: &[&[u8]],
    pixels: &[u8],
) -> io::Result<Vec<u8>> {
    let size = channels as usize;
    let length = usize::try_from(width).unwrap_or(usize::MAX).saturating_mul(size);
    let mut data = ZlibEncoder::new(Vec::new(), flate2::Compression::new(8));
    let empty = vec![0; length];
    let mut above: &[u8] = &empty;
    for row in pixels.chunks_exact(length.max(1)) {
        let filtered = (0..=4).map(|filter| filter_row(filter, row, above, size));
        // The usual heuristic: rows with small differences compress well (§12.7).
        let cost = |row: &Vec<u8>| {
            row[1..].iter().map(|byte| u64::from(byte.cast_signed().unsigned_abs())).sum::<u64>()
        };
        data.write_all(&filtered.min_by_key(cost).unwrap_or_default())?;
        above = row;
    }
    let colour = match channels {
        Channels::Grey => 0,
        Channels::Colour => 2,
        Channels::GreyAlpha => 4,
        Channels::ColourAlpha => 6,
    };
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([8, colour, 0, 0, 0]);
    let mut bytes = SIGNATURE.to_vec();
    push_chunk(&mut bytes, b"IHDR", &header);
    for chunk in colour_chunks {
        bytes.extend_from_slice(chunk);
    }
    push_chunk(&mut bytes, b"IDAT", &data.finish()?);
    push_chunk(&mut bytes, b"IEND", &[]);
    Ok(bytes)
}

fn filter_row(filter: u8, row: &[u8], above: &[u8], size: usize) -> Vec<u8> {
    let bytes = row.iter().enumerate().map(|(at, byte)| {
        let left = at.checked_sub(size);
        let of = |row: &[u8]| left.map_or(0, |left| row[left]);
        byte.wrapping_sub(predict(filter, of(row), above[at], of(above)))
    });
    std::iter::once(filter).chain(bytes).collect()
}

fn push_chunk(bytes: &mut Vec<u8>, kind: &[u8], content: &[u8]) {
    // Images are scaled to at most a few million pixels, so a chunk is far below 4 GiB.
    bytes.extend(u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
    let start = bytes.len();
    bytes.extend_from_slice(kind);
    bytes.extend_from_slice(content);
    bytes.extend(checksum(&bytes[start..]).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A PNG with one unfiltered row of samples, and additional chunks.
    fn file(depth: u8, colour: u8, width: u8, chunks: &[(&[u8; 4], &[u8])], row: &[u8]) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        push_chunk(&mut bytes, b"IHDR", &[0, 0, 0, width, 0, 0, 0, 1, depth, colour, 0, 0, 0]);
        for (kind, content) in chunks {
            push_chunk(&mut bytes, *kind, content);
        }
        let mut data = ZlibEncoder::new(Vec::new(), flate2::Compression::new(1));
        data.write_all(&[&[0], row].concat()).expect("memory");
        let data = data.finish().expect("memory");
        // Image data may be divided anywhere.
        let (first, second) = data.split_at(3);
        push_chunk(&mut bytes, b"IDAT", first);
        push_chunk(&mut bytes, b"IDAT", second);
        push_chunk(&mut bytes, b"IEND", &[]);
        bytes
    }

    #[test]
    fn all_colour_types_and_depths_are_read() {
        let palette: &[(&[u8; 4], &[u8])] = &[(b"PLTE", &[1, 2, 3, 4, 5, 6])];
        let transparent: &[(&[u8; 4], &[u8])] = &[(b"PLTE", &[1, 2, 3, 4, 5, 6]), (b"tRNS", &[9])];
        for (bytes, channels, pixels) in [
            (file(1, 0, 3, &[], &[0b1010_0000]), Channels::Grey, &[255, 0, 255][..]),
            (file(2, 0, 3, &[], &[0b1101_0000]), Channels::Grey, &[255, 85, 0]),
            (file(4, 0, 3, &[], &[0xf1, 0x20]), Channels::Grey, &[255, 17, 34]),
            (file(8, 0, 2, &[], &[1, 2]), Channels::Grey, &[1, 2]),
            (file(16, 0, 2, &[], &[1, 9, 2, 9]), Channels::Grey, &[1, 2]),
            (file(8, 2, 1, &[], &[1, 2, 3]), Channels::Colour, &[1, 2, 3]),
            (file(16, 6, 1, &[], &[1, 9, 2, 9, 3, 9, 4, 9]), Channels::ColourAlpha, &[1, 2, 3, 4]),
            (file(8, 4, 1, &[], &[1, 2]), Channels::GreyAlpha, &[1, 2]),
            (file(1, 3, 3, palette, &[0b0100_0000]), Channels::Colour, &[1, 2, 3, 4, 5, 6, 1, 2, 3]),
            (
                file(8, 3, 3, transparent, &[0, 1, 7]),
                Channels::ColourAlpha,
                &[1, 2, 3, 9, 4, 5, 6, 255, 0, 0, 0, 255],
            ),
        ] {
            let mut reader = PngReader::new(&bytes).expect("a valid header");
            assert_eq!(reader.channels, channels);
            assert_eq!(reader.next_row().expect("a row"), pixels, "{channels:?}");
            assert_eq!(reader.next_row(), Err(PngError::from(io::Error::other(""))), "no more rows");
        }
    }

    #[test]
    fn other_images_are_refused() {
        let changed = |at: usize, byte: u8| {
            let mut bytes = file(8, 0, 2, &[], &[1, 2]);
            bytes[at] = byte;
            let sum = checksum(&bytes[12..29]).to_be_bytes();
            bytes[29..33].copy_from_slice(&sum);
            bytes
        };
        for (bytes, error) in [
            (changed(28, 1), PngError::Unsupported),
            (file(8, 0, 2, &[(b"acTL", &[])], &[1, 2]), PngError::Unsupported),
            (file(8, 0, 2, &[(b"tRNS", &[0, 1])], &[1, 2]), PngError::Unsupported),
            (changed(24, 3), PngError::Damaged("its header is invalid")),
            (changed(25, 5), PngError::Damaged("its colour type is invalid")),
            (changed(25, 3), PngError::Damaged("its header is invalid")),
            (changed(19, 0), PngError::Damaged("its header is invalid")),
            (b"\x89PNG\r\n\x1a\n".to_vec(), PngError::Damaged("it has no header")),
            (Vec::new(), PngError::Damaged("it has no header")),
        ] {
            assert_eq!(PngReader::new(&bytes).err(), Some(error));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            width in 1_u32..20, rows in 1_u32..9, colour in 0_usize..4, bytes in prop::collection::vec(any::<u8>(), 720),
        ) {
            let channels = [Channels::Grey, Channels::GreyAlpha, Channels::Colour, Channels::ColourAlpha][colour];
            let length = usize::try_from(width).expect("small") * channels as usize;
            let pixels = &bytes[..length * usize::try_from(rows).expect("small")];
            let mut profile = Vec::new();
            push_chunk(&mut profile, b"iCCP", b"profile");
            let file = write(width, rows, channels, &[&profile], pixels).expect("memory");
            let mut reader = PngReader::new(&file).expect("a valid header");
            prop_assert_eq!((reader.width, reader.height, reader.channels), (width, rows, channels));
            prop_assert_eq!(&reader.colour_chunks, &[&profile[..]]);
            for row in pixels.chunks(length) {
                prop_assert_eq!(reader.next_row().expect("a row"), row);
            }
        }
    }
}
