//! Reads the metrics of a WOFF2 font, so that a substitute can be scaled to its size.

use compu::decoder::{BrotliC, Decoder as _};
use ttf_parser::{Face, Tag};

/// Maximum size of the uncompressed tables in bytes.
const MAX_TABLES_BYTES: usize = 32 << 20;

/// The metrics of a font. All lengths are in em.
#[derive(Debug, Clone, PartialEq)]
pub struct FontMetrics {
    ascent: f64,
    /// The descent below the baseline in em, as a positive number.
    descent: f64,
    line_gap: f64,
    /// The average width of the letters and spaces in English text, in em.
    width: f64,
    /// The minimum and the maximum weight of a variable font.
    pub weights: Option<(u16, u16)>,
}

/// The values of the `@font-face` descriptors that give Arial the metrics of another font. 1 means 100 %.
#[derive(Debug, PartialEq)]
pub struct SubstituteMetrics {
    pub size: f64,
    pub ascent: f64,
    pub descent: f64,
    pub line_gap: f64,
}

/// How often a letter occurs per 1,000 letters of English text with spaces, and its width in Arial in units
/// of 1/2048.
const LETTERS: [(char, u16, u16); 27] = [
    (' ', 182, 569),
    ('a', 67, 1139),
    ('b', 12, 1139),
    ('c', 23, 1024),
    ('d', 35, 1139),
    ('e', 104, 1139),
    ('f', 18, 569),
    ('g', 16, 1139),
    ('h', 50, 1139),
    ('i', 57, 455),
    ('j', 1, 455),
    ('k', 6, 1024),
    ('l', 33, 455),
    ('m', 20, 1706),
    ('n', 55, 1139),
    ('o', 61, 1139),
    ('p', 16, 1139),
    ('q', 1, 1139),
    ('r', 49, 682),
    ('s', 52, 1024),
    ('t', 74, 569),
    ('u', 22, 1139),
    ('v', 8, 1024),
    ('w', 19, 1479),
    ('x', 1, 1024),
    ('y', 16, 1024),
    ('z', 1, 1024),
];

/// The average of `width`, which gets a letter and its width in Arial, over the letters of English text.
/// `None` if `width` returns `None` for one of them.
fn average(width: impl Fn(char, u16) -> Option<f64>) -> Option<f64> {
    let mut sums = (0.0, 0.0);
    for (letter, count, in_arial) in LETTERS {
        let count = f64::from(count);
        sums = (sums.0 + count * width(letter, in_arial)?, sums.1 + count);
    }
    Some(sums.0 / sums.1)
}

impl FontMetrics {
    /// Reads a WOFF2 file with one font, which must have glyphs for the space and for a to z. The error is a
    /// predicate for the file, such as "is not a WOFF2 font".
    pub fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        let font = unpack(bytes)?;
        let face = Face::parse(&font, 0).map_err(|_| "is damaged: a table of the font cannot be read")?;
        let units = f64::from(face.units_per_em());
        let width = average(|letter, _| {
            let glyph = face.glyph_index(letter)?;
            Some(f64::from(face.glyph_hor_advance(glyph)?) / units)
        });
        let metric = |value: i16| f64::from(value) / units;
        Ok(Self {
            ascent: metric(face.ascender()),
            descent: -metric(face.descender()),
            line_gap: metric(face.line_gap()).max(0.0),
            width: width
                .filter(|width| *width > 0.0)
                .ok_or("lacks glyphs for the space or for letters from a to z")?,
            weights: weights(&face),
        })
    }

    /// The descriptors that scale Arial so that it takes up the same space as this font.
    pub fn as_arial(&self) -> SubstituteMetrics {
        let arial = average(|_, width| Some(f64::from(width) / 2048.0)).unwrap_or(1.0);
        let size = self.width / arial;
        SubstituteMetrics {
            size,
            ascent: self.ascent / size,
            descent: self.descent / size,
            line_gap: self.line_gap / size,
        }
    }
}

/// Unpacks the font in a WOFF2 file. Fails for collections, and above [`MAX_TABLES_BYTES`].
fn unpack(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    if !bytes.starts_with(b"wOF2") {
        return Err("is not a WOFF2 font");
    }
    if bytes.get(4..8) == Some(b"ttcf") {
        return Err("is a collection of fonts, but must be a single font");
    }
    let mut error = "is damaged: its header or its table directory is invalid";
    let mut decompress = |compressed: &[u8], length: usize| {
        error = "is too large: its tables have more than 32 MiB";
        if length > MAX_TABLES_BYTES {
            return Err(error.into());
        }
        error = "is damaged: it cannot be decompressed";
        let mut tables = vec![0; length];
        let result = BrotliC::new().ok_or(error)?.decode(compressed, &mut tables);
        if result.status.is_err() || result.output_remain > 0 {
            return Err(error.into());
        }
        error = "is damaged: a table of the font cannot be read";
        Ok(tables)
    };
    wuff::decompress_woff2_with_custom_brotli(bytes, &mut decompress).map_err(|_| error)
}

/// The range of the axis `wght`; `None` if the axis is missing, or if the range is not within 1 to 1000.
fn weights(face: &Face<'_>) -> Option<(u16, u16)> {
    let axis = face.variation_axes().into_iter().find(|axis| axis.tag == Tag::from_bytes(b"wght"))?;
    let is_weight = |weight: f32| (1.0..=1000.0).contains(&weight);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 1000")]
    (is_weight(axis.min_value) && is_weight(axis.max_value))
        .then_some((axis.min_value as u16, axis.max_value as u16))
}

#[cfg(test)]
mod tests {
    use compu::encoder::{BrotliOptions, EncodeOp, Encoder as _};

    use super::*;

    /// Tables with their flags in the directory.
    type Packed = Vec<(u8, Vec<u8>)>;

    fn words(values: &[u16]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_be_bytes()).collect()
    }

    /// A table of zeros with the given words at byte offsets.
    fn table(length: usize, values: &[(usize, u16)]) -> Vec<u8> {
        let mut table = vec![0; length];
        for (at, value) in values {
            table[*at..*at + 2].copy_from_slice(&value.to_be_bytes());
        }
        table
    }

    /// The tables of a font with 1,000 units, in which the space has glyph 1 and the letters have glyphs 2 to
    /// 27. All of them are 500 units wide.
    fn tables() -> Packed {
        let segments = words(&[
            0, 1, 3, 1, 0, 12, // version, one subtable: platform, encoding, offset
            4, 40, 0, 6, 0, 0, 0, // format, length, language, twice the segments, search
            0x20, 0x7a, 0xffff, 0, // ends
            0x20, 0x61, 0xffff, // starts
            0xffe1, 0xffa1, 1, // deltas
            0, 0, 0, // offsets
        ]);
        let widths: Vec<u8> = [vec![0; 4], words(&[500, 0].repeat(27))].concat();
        vec![
            (0, segments),
            (1, table(54, &[(18, 1000)])),
            (2, table(36, &[(4, 900), (6, 65336), (8, 50), (34, 28)])),
            (3, widths),
            // The number of glyphs.
            (4, table(6, &[(0, 1), (4, 28)])),
        ]
    }

    /// Packs tables, each with its flags, into a WOFF2 file.
    fn pack(tables: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let plain: Vec<u8> = tables.iter().flat_map(|(_, table)| table.clone()).collect();
        let mut encoder = compu::encoder::BrotliC::new(BrotliOptions::new()).expect("an encoder");
        let mut compressed = vec![0; plain.len() + 1024];
        let result = encoder.encode(&plain, &mut compressed, EncodeOp::Finish);
        compressed.truncate(compressed.len() - result.output_remain);
        let mut file = vec![0; 48];
        file[..8].copy_from_slice(b"wOF2\0\x01\0\0");
        file[12..14].copy_from_slice(&u16::try_from(tables.len()).expect("few").to_be_bytes());
        file[20..24].copy_from_slice(&u32::try_from(compressed.len()).expect("few").to_be_bytes());
        // The size of the uncompressed font is only a hint.
        file[16..20].copy_from_slice(&1000_u32.to_be_bytes());
        for (flags, table) in tables {
            let length = table.len();
            assert!(length < 1 << 14);
            let base128 = [
                0x80 | u8::try_from(length >> 7).expect("few"),
                u8::try_from(length & 0x7f).expect("7 bits"),
            ];
            let base128 = if length < 128 { &base128[1..] } else { &base128 };
            file.push(*flags);
            file.extend_from_slice(base128);
            // The original length and the transformed one.
            if flags >> 6 != 0 {
                file.extend_from_slice(base128);
            }
        }
        file.extend(compressed);
        file.resize(file.len().next_multiple_of(4), 0);
        let length = u32::try_from(file.len()).expect("a short file");
        file[8..12].copy_from_slice(&length.to_be_bytes());
        file
    }

    fn metrics() -> FontMetrics {
        FontMetrics { ascent: 0.9, descent: 0.2, line_gap: 0.05, width: 0.5, weights: None }
    }

    #[test]
    fn metrics_are_read_from_the_tables() {
        assert_eq!(FontMetrics::read(&pack(&tables())), Ok(metrics()));
    }

    #[test]
    fn typographic_metrics_replace_those_of_hhea_if_a_flag_says_so() {
        let os2 = |flags| table(96, &[(0, 4), (62, flags), (68, 800), (70, 65236), (72, 0)]);
        let mut all = tables();
        all.push((6, os2(0x40)));
        assert_eq!(FontMetrics::read(&pack(&all)), Ok(metrics()));
        all[5] = (6, os2(0xc0));
        let typographic = FontMetrics { ascent: 0.8, descent: 0.3, line_gap: 0.0, ..metrics() };
        assert_eq!(FontMetrics::read(&pack(&all)), Ok(typographic));
    }

    #[test]
    fn a_character_map_of_format_12_is_read() {
        let groups = [[0x20, 0x20, 1], [0x61, 0x7a, 2]].concat();
        let groups: Vec<u8> = groups.iter().flat_map(|value: &u32| value.to_be_bytes()).collect();
        let mut all = tables();
        all[0].1 = [words(&[0, 1, 3, 10, 0, 12, 12, 0, 0, 40, 0, 0, 0, 2]), groups].concat();
        assert_eq!(FontMetrics::read(&pack(&all)), Ok(metrics()));
    }

    #[test]
    fn a_variable_font_has_a_range_of_weights() {
        let mut axis = table(36, &[(0, 1), (4, 16), (8, 1), (10, 20), (20, 100), (24, 400), (28, 900)]);
        axis[16..20].copy_from_slice(b"wght");
        let mut all = tables();
        all.push((47, axis));
        assert_eq!(
            FontMetrics::read(&pack(&all)),
            Ok(FontMetrics { weights: Some((100, 900)), ..metrics() })
        );
    }

    #[test]
    fn arial_is_its_own_substitute() {
        let width = average(|_, width| Some(f64::from(width) / 2048.0)).expect("widths");
        let arial = FontMetrics { width, ..metrics() };
        let expected = SubstituteMetrics { size: 1.0, ascent: 0.9, descent: 0.2, line_gap: 0.05 };
        assert_eq!(arial.as_arial(), expected);
        let wide = FontMetrics { width: 2.0 * width, ..metrics() }.as_arial();
        assert_eq!((wide.size, wide.ascent), (2.0, 0.45));
    }

    #[test]
    fn a_damaged_font_is_refused() {
        const DAMAGED: &str = "is damaged: a table of the font cannot be read";
        const WITHOUT_LETTERS: &str = "lacks glyphs for the space or for letters from a to z";
        let whole = pack(&tables());
        for length in 0..whole.len() {
            assert!(FontMetrics::read(&whole[..length]).is_err(), "{length} bytes");
        }
        let check = |change: &dyn Fn(&mut Packed), why: &str| {
            let mut all = tables();
            change(&mut all);
            assert_eq!(FontMetrics::read(&pack(&all)).expect_err("a fault"), why);
        };
        check(&|all| drop(all.remove(1)), DAMAGED);
        check(&|all| all[1].1.truncate(18), DAMAGED);
        check(&|all| all[1].1[18..20].fill(0), DAMAGED);
        check(&|all| all[0].1.truncate(20), WITHOUT_LETTERS);
        check(&|all| all[3].1.truncate(20), WITHOUT_LETTERS);
        let mut huge = whole.clone();
        huge.splice(49..50, [0x8f, 0xff, 0xff, 0xff, 0x7f]);
        let why = "is damaged: its header or its table directory is invalid";
        assert_eq!(FontMetrics::read(&huge).expect_err("a fault"), why);
        assert_eq!(FontMetrics::read(b"OTTO").expect_err("a fault"), "is not a WOFF2 font");
    }

    #[test]
    fn no_changed_byte_makes_the_reader_panic() {
        let whole = pack(&tables());
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _ = FontMetrics::read(&changed);
            }
        }
    }
}
