//! Reads the metrics of a WOFF2 font (W3C Recommendation), so that a substitute can be scaled to its size.
//!
//! Reads only the tables that contain the metrics: `head`, `hhea`, `hmtx`, `cmap`, `OS/2` and `fvar`. Does
//! not interpret the outlines.

use compu::decoder::{BrotliC, Decoder as _};

/// Maximum size of the uncompressed tables in bytes.
const MAX_TABLES_BYTES: usize = 32 << 20;

const DAMAGED: &str = "is damaged: a table of the font cannot be read";

/// The metrics of a font. Lengths are multiples of the font's size.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FontFacts {
    ascent: f64,
    /// Below the baseline; positive.
    descent: f64,
    line_gap: f64,
    /// The average width of the letters in English text.
    width: f64,
    /// The minimum and the maximum weight of a variable font.
    pub weights: Option<(u16, u16)>,
}

/// The values of the `@font-face` descriptors that give Arial the metrics of another font, as factors.
#[derive(Debug, PartialEq)]
pub(super) struct SubstituteMetrics {
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

/// The average of `width` over the letters of English text.
fn average(width: impl Fn(char, u16) -> Option<f64>) -> Option<f64> {
    let mut sums = (0.0, 0.0);
    for (letter, count, in_arial) in LETTERS {
        let count = f64::from(count);
        sums = (sums.0 + count * width(letter, in_arial)?, sums.1 + count);
    }
    Some(sums.0 / sums.1)
}

impl FontFacts {
    /// Reads a WOFF2 file. The error continues a sentence about the file.
    pub fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        let tables = Tables::unpack(bytes)?;
        let [head, hhea, cmap, hmtx] = [HEAD, HHEA, CMAP, HMTX].map(|tag| tables.find(tag));
        let os2 = tables.find(OS2).unwrap_or_default();
        let (Some(head), Some(hhea), Some(cmap), Some(hmtx)) = (head, hhea, cmap, hmtx) else {
            return Err("is not a font for text: it lacks the table head, hhea, cmap or hmtx");
        };
        let units = u16_at(head, 18).filter(|units| (16..=16384).contains(units)).ok_or(DAMAGED)?;
        let units = f64::from(units);
        // Bit 7 of fsSelection: the typographic metrics in OS/2 replace those in hhea.
        let (table, at) =
            if u16_at(os2, 62).is_some_and(|flags| flags & 0x80 != 0) { (os2, 68) } else { (hhea, 4) };
        let metric = |index: usize| i16_at(table, at + 2 * index).map(|value| f64::from(value) / units);
        let (Some(ascent), Some(descent), Some(line_gap)) = (metric(0), metric(1), metric(2)) else {
            return Err(DAMAGED);
        };
        let long_metrics = usize::from(u16_at(hhea, 34).ok_or(DAMAGED)?);
        let is_transformed = tables.is_transformed(HMTX);
        let width = average(|letter, _| {
            let glyph = find_glyph(cmap, letter)?;
            let index = glyph.min(long_metrics.checked_sub(1)?);
            // The transformed table has a byte of flags, and then all widths without the side bearings.
            let at = if is_transformed { 1 + 2 * index } else { 4 * index };
            Some(f64::from(u16_at(hmtx, at)?) / units)
        });
        let width = width.filter(|width| *width > 0.0).ok_or("has no glyphs for the letters a to z")?;
        let weights = tables.find(FVAR).and_then(weight_axis);
        Ok(Self { ascent, descent: -descent, line_gap: line_gap.max(0.0), width, weights })
    }

    /// How Arial must be scaled to take up the same space as this font.
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

type TableTag = [u8; 4];

const CMAP: TableTag = *b"cmap";
const HEAD: TableTag = *b"head";
const HHEA: TableTag = *b"hhea";
const HMTX: TableTag = *b"hmtx";
const OS2: TableTag = *b"OS/2";
const GLYF: TableTag = *b"glyf";
const LOCA: TableTag = *b"loca";
const FVAR: TableTag = *b"fvar";

/// The tag of the table with this number in the table directory (WOFF2 §4.1); all zeros if the table is not
/// needed.
fn known_tag(number: u8) -> TableTag {
    match number {
        0 => CMAP,
        1 => HEAD,
        2 => HHEA,
        3 => HMTX,
        6 => OS2,
        10 => GLYF,
        11 => LOCA,
        47 => FVAR,
        _ => TableTag::default(),
    }
}

/// The uncompressed tables of a WOFF2 file.
struct Tables {
    data: Vec<u8>,
    entries: Vec<TableEntry>,
}

struct TableEntry {
    tag: TableTag,
    start: usize,
    length: usize,
    is_transformed: bool,
}

impl Tables {
    fn unpack(bytes: &[u8]) -> Result<Self, &'static str> {
        const HEADER_BYTES: usize = 48;
        if !bytes.starts_with(b"wOF2") || bytes.len() < HEADER_BYTES {
            return Err("is not a WOFF2 font");
        }
        if bytes[4..8] == *b"ttcf" {
            return Err("is a collection of fonts");
        }
        let count = u16_at(bytes, 12).ok_or(DAMAGED)?;
        let mut directory = &bytes[HEADER_BYTES..];
        let (mut entries, mut start) = (Vec::new(), 0_usize);
        for _ in 0..count {
            let entry = TableEntry::read(&mut directory, start)
                .ok_or("is damaged: its table directory ends early")?;
            start = start.saturating_add(entry.length);
            entries.push(entry);
        }
        if start > MAX_TABLES_BYTES {
            return Err("is too large: its tables have more than 32 MiB");
        }
        let compressed = u32_at(bytes, 20)
            .and_then(|length| directory.get(..length))
            .ok_or("is damaged: it ends early")?;
        let mut data = vec![0; start];
        let mut decoder = BrotliC::new().ok_or("cannot be decompressed")?;
        let result = decoder.decode(compressed, &mut data);
        if result.status.is_err() || result.output_remain > 0 {
            return Err("is damaged: it cannot be decompressed");
        }
        Ok(Self { data, entries })
    }

    fn entry(&self, tag: TableTag) -> Option<&TableEntry> {
        self.entries.iter().find(|entry| entry.tag == tag)
    }

    fn find(&self, tag: TableTag) -> Option<&[u8]> {
        let entry = self.entry(tag)?;
        self.data.get(entry.start..)?.get(..entry.length)
    }

    fn is_transformed(&self, tag: TableTag) -> bool {
        self.entry(tag).is_some_and(|entry| entry.is_transformed)
    }
}

impl TableEntry {
    /// Reads an entry of the directory, and removes it from `directory`. `start` is the offset at which the
    /// entry's table begins.
    fn read(directory: &mut &[u8], start: usize) -> Option<Self> {
        let flags = *directory.split_off_first()?;
        let tag = match flags & 0x3f {
            0x3f => directory.split_off(..4)?.try_into().ok()?,
            number => known_tag(number),
        };
        let original = read_base128(directory)?;
        let version = flags >> 6;
        let is_transformed = if tag == GLYF || tag == LOCA { version != 3 } else { version != 0 };
        let length = if is_transformed { read_base128(directory)? } else { original };
        Some(Self { tag, start, length, is_transformed })
    }
}

/// Reads a number in the format `UIntBase128` (WOFF2 §4.1).
fn read_base128(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0_u32;
    for place in 0..5 {
        let byte = *bytes.split_off_first()?;
        if (place == 0 && byte == 0x80) || number >> 25 != 0 {
            return None;
        }
        number = number << 7 | u32::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return usize::try_from(number).ok();
        }
    }
    None
}

/// Maximum number of subtables of `cmap` that are searched. Fonts have fewer than ten.
const MAX_SUBTABLES: usize = 16;

/// The glyph of a letter in the table `cmap`; `None` if the font lacks it.
fn find_glyph(cmap: &[u8], letter: char) -> Option<usize> {
    let count = usize::from(u16_at(cmap, 2)?).min(MAX_SUBTABLES);
    let code = usize::try_from(u32::from(letter)).ok()?;
    (0..count).find_map(|index| {
        let record = cmap.get(4 + 8 * index..)?;
        // Unicode: platform 0, or platform 3 with encoding 1 or 10.
        if !matches!((u16_at(record, 0)?, u16_at(record, 2)?), (0, _) | (3, 1 | 10)) {
            return None;
        }
        let table = cmap.get(u32_at(record, 4)?..)?;
        let glyph = match u16_at(table, 0)? {
            4 => glyph_in_segments(table, code),
            12 => glyph_in_groups(table, code),
            _ => None,
        };
        glyph.filter(|glyph| *glyph != 0)
    })
}

/// Finds a glyph in a subtable of format 4.
fn glyph_in_segments(table: &[u8], code: usize) -> Option<usize> {
    let doubled = usize::from(u16_at(table, 6)?);
    let segment = (0..doubled / 2)
        .find(|segment| u16_at(table, 14 + 2 * segment).is_some_and(|end| usize::from(end) >= code))?;
    let field = |row: usize| u16_at(table, 16 + row * doubled + 2 * segment).map(usize::from);
    let (start, delta, offset) = (field(1)?, field(2)?, field(3)?);
    let of_code = code.checked_sub(start)?;
    if offset == 0 {
        return Some((code + delta) & 0xffff);
    }
    let glyph = usize::from(u16_at(table, 16 + 3 * doubled + 2 * segment + offset + 2 * of_code)?);
    Some(if glyph == 0 { 0 } else { (glyph + delta) & 0xffff })
}

/// Finds a glyph in a subtable of format 12.
fn glyph_in_groups(table: &[u8], code: usize) -> Option<usize> {
    let count = u32_at(table, 12)?;
    table.get(16..)?.chunks_exact(12).take(count).find_map(|group| {
        let (start, end, glyph) = (u32_at(group, 0)?, u32_at(group, 4)?, u32_at(group, 8)?);
        (start..=end).contains(&code).then(|| glyph + code - start)
    })
}

/// The range of the axis `wght` in the table `fvar`.
fn weight_axis(fvar: &[u8]) -> Option<(u16, u16)> {
    let (start, count, length) = (u16_at(fvar, 4)?, u16_at(fvar, 8)?, u16_at(fvar, 10)?);
    (0..count).find_map(|index| {
        let axis = fvar.get(usize::from(start) + usize::from(index) * usize::from(length)..)?;
        // The values are fixed-point numbers, whose first two bytes are the whole number.
        let range = (u16_at(axis, 4)?, u16_at(axis, 12)?);
        (axis.starts_with(b"wght") && (1..=1000).contains(&range.0) && (range.0..=1000).contains(&range.1))
            .then_some(range)
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn i16_at(bytes: &[u8], at: usize) -> Option<i16> {
    u16_at(bytes, at).map(u16::cast_signed)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?)).ok()
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
        file[..4].copy_from_slice(b"wOF2");
        file[12..14].copy_from_slice(&u16::try_from(tables.len()).expect("few").to_be_bytes());
        file[20..24].copy_from_slice(&u32::try_from(compressed.len()).expect("few").to_be_bytes());
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
        file
    }

    fn facts() -> FontFacts {
        FontFacts { ascent: 0.9, descent: 0.2, line_gap: 0.05, width: 0.5, weights: None }
    }

    #[test]
    fn metrics_are_read_from_the_tables() {
        assert_eq!(FontFacts::read(&pack(&tables())), Ok(facts()));
    }

    #[test]
    fn typographic_metrics_replace_those_of_hhea_if_a_flag_says_so() {
        let os2 = |flags| table(96, &[(62, flags), (68, 800), (70, 65236), (72, 0)]);
        let mut all = tables();
        all.push((6, os2(0x40)));
        assert_eq!(FontFacts::read(&pack(&all)), Ok(facts()));
        all[4] = (6, os2(0xc0));
        let typographic = FontFacts { ascent: 0.8, descent: 0.3, line_gap: 0.0, ..facts() };
        assert_eq!(FontFacts::read(&pack(&all)), Ok(typographic));
    }

    #[test]
    fn transformed_widths_are_read() {
        let mut all = tables();
        all[3] = (0x40 | 3, [vec![3], words(&[[0].as_slice(), &[500; 27]].concat())].concat());
        assert_eq!(FontFacts::read(&pack(&all)), Ok(facts()));
    }

    #[test]
    fn a_character_map_of_format_12_is_read() {
        let groups = [[0x20, 0x20, 1], [0x61, 0x7a, 2]].concat();
        let groups: Vec<u8> = groups.iter().flat_map(|value: &u32| value.to_be_bytes()).collect();
        let mut all = tables();
        all[0].1 = [words(&[0, 1, 3, 10, 0, 12, 12, 0, 0, 40, 0, 0, 0, 2]), groups].concat();
        assert_eq!(FontFacts::read(&pack(&all)), Ok(facts()));
    }

    #[test]
    fn a_variable_font_has_a_range_of_weights() {
        let mut axis = table(36, &[(4, 16), (8, 1), (10, 20), (20, 100), (24, 400), (28, 900)]);
        axis[16..20].copy_from_slice(b"wght");
        let mut all = tables();
        all.push((47, axis));
        assert_eq!(FontFacts::read(&pack(&all)), Ok(FontFacts { weights: Some((100, 900)), ..facts() }));
    }

    #[test]
    fn arial_is_its_own_substitute() {
        let width = average(|_, width| Some(f64::from(width) / 2048.0)).expect("widths");
        let arial = FontFacts { width, ..facts() };
        let metrics = SubstituteMetrics { size: 1.0, ascent: 0.9, descent: 0.2, line_gap: 0.05 };
        assert_eq!(arial.as_arial(), metrics);
        let wide = FontFacts { width: 2.0 * width, ..facts() }.as_arial();
        assert_eq!((wide.size, wide.ascent), (2.0, 0.45));
    }

    #[test]
    fn a_damaged_font_is_refused() {
        let whole = pack(&tables());
        for length in 0..whole.len() {
            assert!(FontFacts::read(&whole[..length]).is_err(), "{length} bytes");
        }
        let check = |change: &dyn Fn(&mut Packed), why: &str| {
            let mut all = tables();
            change(&mut all);
            assert_eq!(FontFacts::read(&pack(&all)).expect_err("a fault"), why);
        };
        check(
            &|all| drop(all.remove(1)),
            "is not a font for text: it lacks the table head, hhea, cmap or hmtx",
        );
        check(&|all| all[1].1.truncate(18), DAMAGED);
        check(&|all| all[1].1[18..20].fill(0), DAMAGED);
        check(&|all| all[0].1.truncate(20), "has no glyphs for the letters a to z");
        check(&|all| all[3].1.truncate(20), "has no glyphs for the letters a to z");
        let mut huge = whole.clone();
        huge.splice(49..50, [0x8f, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(
            FontFacts::read(&huge).expect_err("a fault"),
            "is too large: its tables have more than 32 MiB"
        );
        assert_eq!(FontFacts::read(b"OTTO").expect_err("a fault"), "is not a WOFF2 font");
    }

    #[test]
    fn no_changed_byte_makes_the_reader_panic() {
        let whole = pack(&tables());
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _ = FontFacts::read(&changed);
            }
        }
    }
}
