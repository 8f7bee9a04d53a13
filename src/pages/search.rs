//! Builds the search index, which the theme's `search.js` loads when a visitor searches for the first time.
//!
//! The index is a JSON array with an entry `[path, title, description, sections, words]` for each page. A
//! section is `[anchor, heading, text]`; the text before the first heading has an empty anchor and heading.
//! Each language has its own index. If it would exceed [`max_bytes`], texts are cut: a page keeps the
//! beginnings of its sections and, in `words`, the rarest of its other words: those that the fewest pages
//! contain.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;

use blake3::Hash;
use serde_json::{Value, json};

use super::content::Content;
use super::file::{Blob, Effort, encode};
use super::html::id_attributes;
use super::language::Language;
use super::markdown::BodyFacts;
use super::negotiate::Encoding;
use super::parallel::in_parallel;

/// The path of the index of the pages in one language. It has no fingerprint: otherwise each page would
/// change whenever another page does.
pub(super) fn index_path(language: &Language) -> String {
    if language.prefix.is_empty() {
        "/_frontdesk/search.json".to_owned()
    } else {
        format!("/_frontdesk/search.{}.json", language.tag)
    }
}

/// Sites with fewer pages than this have no search, unless `site.search` is set.
pub(super) const MIN_PAGES: usize = 10;

/// Maximum size of the compressed index of a site with up to 500 pages, in bytes.
const MAX_BYTES: usize = 100_000;
/// A larger site may use this many bytes for each page, up to [`MOST_BYTES`].
const BYTES_PER_PAGE: usize = 200;
const MOST_BYTES: usize = 500_000;

/// Text rarely compresses by more than this factor, so an index whose text exceeds the size limit by a larger
/// factor is not even built.
const MAX_RATIO: usize = 5;

/// Maximum lengths of titles and descriptions, in bytes.
const MAX_TITLE: usize = 200;
const MAX_DESCRIPTION: usize = 300;

/// Lengths in characters of words that are worth keeping when a text is cut.
const WORD_LENGTHS: std::ops::RangeInclusive<usize> = 3..=24;

/// A page to search.
#[derive(Debug, Clone)]
pub(super) struct SearchDocument<'a> {
    /// Percent-encoded.
    pub path: Cow<'a, str>,
    pub title: &'a str,
    pub description: &'a str,
    /// The body, without the title.
    pub content: &'a Content,
}

/// The index of one language in the last load. The next load reads only the changed pages again, and writes
/// only their entries and those whose words have become more or less frequent.
#[derive(Debug, Default)]
pub(super) struct SearchCache {
    /// In the order of the index.
    pages: Vec<IndexedPage>,
    frequencies: WordMap<usize>,
    /// Compressed sizes of parts of the index, by the hash of the part.
    sizes: HashMap<Hash, usize>,
    index: Option<Blob>,
}

/// A page in the index, with the inputs of its entry.
#[derive(Debug)]
struct IndexedPage {
    path: String,
    title: String,
    description: String,
    /// Identifies the rendered body; see [`Content`].
    facts: Arc<BodyFacts>,
    /// The length of the text in bytes.
    length: usize,
    /// The page's distinct words.
    words: Vec<WordHash>,
    /// The page's entries, each with its level of detail as an index in [`levels_of_detail`].
    entries: Vec<(usize, String)>,
}

impl IndexedPage {
    fn new(document: &SearchDocument<'_>, parts: &[TextPart]) -> Self {
        let text = lower_case_text(parts);
        let mut seen = WordSet::default();
        let new = words_of(&text).map(hash_word).filter(|word| seen.insert(*word));
        Self {
            path: document.path.clone().into_owned(),
            title: document.title.to_owned(),
            description: document.description.to_owned(),
            facts: document.content.facts.clone(),
            length: text_length(parts),
            words: new.collect(),
            entries: Vec::new(),
        }
    }

    fn has_inputs_of(&self, document: &SearchDocument<'_>) -> bool {
        Arc::ptr_eq(&self.facts, &document.content.facts)
            && self.path == document.path
            && self.title == document.title
            && self.description == document.description
    }

    fn entry(&self, level: usize) -> Option<&str> {
        self.entries.iter().find(|(of, _)| *of == level).map(|(_, entry)| entry.as_str())
    }
}

/// A hash of a word. Two words with the same hash, which are rare, count as one word in [`WordMap`].
type WordHash = u32;

fn hash_word(word: &str) -> WordHash {
    // FNV-1a, because the default hasher is slow for short keys.
    word.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A map by words. Their hashes need no further hashing.
type WordMap<T> = HashMap<WordHash, T, BuildHasherDefault<WordHasher>>;
type WordSet = HashSet<WordHash, BuildHasherDefault<WordHasher>>;

#[derive(Debug, Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }

    fn write_u32(&mut self, word: u32) {
        // Spread the bits, because the map uses the highest and the lowest ones.
        self.0 = (self.0 ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}

/// The parts of pages that were read in this load.
type ReadParts = Vec<Option<Vec<TextPart>>>;

impl SearchCache {
    /// The index of these documents, in their order.
    pub fn build(&mut self, documents: &[SearchDocument<'_>]) -> Blob {
        self.build_within(documents, max_bytes(documents.len()))
    }

    fn build_within(&mut self, documents: &[SearchDocument<'_>], limit: usize) -> Blob {
        let is_same = |(page, document): (&IndexedPage, _)| page.has_inputs_of(document);
        let are_same = self.pages.len() == documents.len() && self.pages.iter().zip(documents).all(is_same);
        if let Some(index) = self.index.as_ref().filter(|_| are_same) {
            return index.clone();
        }
        let parts = self.update_pages(documents);
        let index = Blob::new(self.write_index(documents, &parts, limit));
        let same = self.index.take().filter(|before| before.hash == index.hash);
        self.index.insert(same.unwrap_or(index)).clone()
    }

    /// Reads the changed pages, counts their words, and discards the entries that these words may change.
    fn update_pages(&mut self, documents: &[SearchDocument<'_>]) -> ReadParts {
        let count = self.pages.len();
        let mut gone = Vec::new();
        let mut known: HashMap<String, IndexedPage> = HashMap::with_capacity(count);
        for page in self.pages.drain(..) {
            gone.extend(known.insert(page.path.clone(), page));
        }
        let mut same: Vec<Option<IndexedPage>> = Vec::with_capacity(documents.len());
        for document in documents {
            let before = known.remove(&*document.path);
            let (page, changed) = match before {
                Some(page) if page.has_inputs_of(document) => (Some(page), None),
                changed => (None, changed),
            };
            same.push(page);
            gone.extend(changed);
        }
        gone.extend(known.into_values());
        let numbers: Vec<usize> = (0..documents.len()).filter(|number| same[*number].is_none()).collect();
        let new = in_parallel(&numbers, |number| {
            let document = &documents[*number];
            let parts = read_parts(&document.content.html);
            (IndexedPage::new(document, &parts), parts)
        });

        let mut changed: WordMap<usize> = WordMap::default();
        for word in gone.iter().flat_map(|page| &page.words) {
            if let Some(frequency) = self.frequencies.get_mut(word) {
                changed.entry(*word).or_insert(*frequency);
                *frequency -= 1;
            }
        }
        for word in new.iter().flat_map(|(page, _)| &page.words) {
            let frequency = self.frequencies.entry(*word).or_default();
            changed.entry(*word).or_insert(*frequency);
            *frequency += 1;
        }
        changed.retain(|word, before| self.frequencies.get(word) != Some(before));
        self.frequencies.retain(|word, frequency| {
            // Whether a word is common depends on the number of pages, too.
            if is_common(*frequency, count) != is_common(*frequency, documents.len()) {
                changed.insert(*word, 0);
            }
            *frequency > 0
        });
        for page in same.iter_mut().flatten().filter(|page| !page.entries.is_empty()) {
            if page.words.iter().any(|word| changed.contains_key(word)) {
                page.entries.clear();
            }
        }
        let mut parts: ReadParts = (0..documents.len()).map(|_| None).collect();
        for (number, (page, of_page)) in numbers.into_iter().zip(new) {
            same[number] = Some(page);
            parts[number] = Some(of_page);
        }
        self.pages = same.into_iter().flatten().collect();
        parts
    }

    /// Writes the index as JSON. If titles alone exceed the limit, leaves out the last pages.
    fn write_index(&mut self, documents: &[SearchDocument<'_>], parts: &ReadParts, limit: usize) -> String {
        let chunks: Vec<Range<usize>> = (0..documents.len())
            .step_by(CHUNK_PAGES)
            .map(|start| start..documents.len().min(start + CHUNK_PAGES))
            .collect();
        let samples: Vec<Range<usize>> = chunks.iter().step_by(SAMPLE_DISTANCE).cloned().collect();
        // An estimate of the largest uncompressed index that is small enough after compression.
        let mut most = limit.saturating_mul(MAX_RATIO);
        let mut tried = Vec::new();
        let mut measured = HashMap::new();
        let mut found = None;
        for (level, detail) in levels_of_detail().enumerate() {
            let add = |sum: usize, page: &IndexedPage| sum.saturating_add(page.length.min(detail.text));
            if self.pages.iter().fold(0, add) > most {
                continue;
            }
            tried.push(level);
            if chunks.len() > 2 * SAMPLE_DISTANCE {
                self.write_entries(level, detail, &samples, documents, parts);
                let (length, size) = self.measure(level, &samples, &mut measured);
                let estimate = size * chunks.len() / samples.len();
                // The sample may compress less well than the rest.
                if estimate > limit + limit / 16 {
                    most = most.min((length * chunks.len() / samples.len()).saturating_mul(limit) / estimate);
                    continue;
                }
            }
            self.write_entries(level, detail, &chunks, documents, parts);
            let entries: Vec<&str> = self.pages.iter().filter_map(|page| page.entry(level)).collect();
            let index = format!("[{}]", entries.join(","));
            if index.len() > limit {
                let (length, size) = self.measure(level, &chunks, &mut measured);
                if size > limit {
                    most = most.min(length.saturating_mul(limit) / size);
                    continue;
                }
            }
            found = Some(index);
            break;
        }
        self.sizes = measured;
        self.pages.iter_mut().for_each(|page| page.entries.retain(|(level, _)| tried.contains(level)));
        found.unwrap_or_else(|| write_titles(documents, limit))
    }

    /// Writes the missing entries of the pages in these chunks.
    fn write_entries(
        &mut self,
        level: usize,
        detail: Detail,
        chunks: &[Range<usize>],
        documents: &[SearchDocument<'_>],
        parts: &ReadParts,
    ) {
        let missing = chunks.iter().cloned().flatten();
        let missing: Vec<usize> = missing.filter(|page| self.pages[*page].entry(level).is_none()).collect();
        let entries = in_parallel(&missing, |number| {
            let read = || Cow::Owned(read_parts(&documents[*number].content.html));
            let parts = parts[*number].as_deref().map_or_else(read, Cow::Borrowed);
            self.write_entry(&documents[*number], &parts, detail)
        });
        for (number, entry) in missing.into_iter().zip(entries) {
            self.pages[number].entries.push((level, entry));
        }
    }

    /// The sum of the lengths of these chunks of the index, and the sum of their compressed sizes.
    fn measure(
        &self,
        level: usize,
        chunks: &[Range<usize>],
        measured: &mut HashMap<Hash, usize>,
    ) -> (usize, usize) {
        let sizes = in_parallel(chunks, |chunk| {
            let pages = self.pages[chunk.clone()].iter();
            let text = pages.filter_map(|page| page.entry(level)).collect::<Vec<_>>().join(",");
            let hash = blake3::hash(text.as_bytes());
            let known = measured.get(&hash).or_else(|| self.sizes.get(&hash)).copied();
            (hash, text.len(), known.unwrap_or_else(|| compressed_size(&text)))
        });
        measured.extend(sizes.iter().map(|(hash, _, size)| (*hash, *size)));
        sizes.iter().fold((0, 0), |sum, (_, length, size)| (sum.0 + length, sum.1 + size))
    }

    /// A page's entry in the index, as JSON.
    fn write_entry(&self, document: &SearchDocument<'_>, parts: &[TextPart], detail: Detail) -> String {
        let is_cut = text_length(parts) > detail.text || parts.len() > detail.sections;
        if !is_cut {
            return entry(document, parts, detail, &[]).to_string();
        }
        let text = lower_case_text(parts);
        let mut seen = WordSet::default();
        let mut rare: Vec<(usize, &str)> = Vec::new();
        for word in words_of(&text) {
            let hash = hash_word(word);
            let frequency = self.frequencies.get(&hash).copied().unwrap_or_default();
            if seen.insert(hash) && !is_common(frequency, self.pages.len()) {
                rare.push((frequency, word));
            }
        }
        // Stable, so that words of the same frequency stay in their order.
        rare.sort_by_key(|(frequency, _)| *frequency);
        let words: Vec<&str> = rare.into_iter().map(|(_, word)| word).collect();
        entry(document, parts, detail, &words).to_string()
    }
}

/// Whether more than half of a site's pages contain a word. The index leaves out such words of long pages.
fn is_common(frequency: usize, pages: usize) -> bool {
    frequency * 2 > pages
}

/// The compressed size of an index is the sum of the sizes of chunks of this many pages, so that a reload
/// compresses only the chunks with changed pages. Large chunks, because each is compressed alone.
const CHUNK_PAGES: usize = 128;

/// Estimates the compressed size of a large index first from every fourth chunk.
const SAMPLE_DISTANCE: usize = 4;

/// Maximum size of the index of a site with this many pages, in bytes, after compression with gzip.
fn max_bytes(pages: usize) -> usize {
    pages.saturating_mul(BYTES_PER_PAGE).clamp(MAX_BYTES, MOST_BYTES)
}

/// The parts of each page that an index contains.
#[derive(Debug, Clone, Copy)]
struct Detail {
    /// Maximum length of a page's text in bytes.
    text: usize,
    /// Maximum number of sections.
    sections: usize,
    has_description: bool,
}

/// Levels of detail, in descending order. The first one whose index is small enough is used.
fn levels_of_detail() -> impl Iterator<Item = Detail> {
    let texts =
        [usize::MAX, 16_000, 11_000, 8_000, 5_600, 4_000, 2_800, 2_000, 1_400, 1_000, 700, 500, 350, 240];
    let cut_texts =
        texts.into_iter().map(|text| Detail { text, sections: usize::MAX, has_description: true });
    let short = [(160, 12, true), (80, 4, true), (0, 0, true), (0, 0, false)];
    let short = short.map(|(text, sections, has_description)| Detail { text, sections, has_description });
    cut_texts.chain(short)
}

/// An index of titles alone, without the last pages if it would exceed the limit.
fn write_titles(documents: &[SearchDocument<'_>], limit: usize) -> String {
    let title =
        |document: &SearchDocument<'_>| json!([document.path, cut(document.title, MAX_TITLE), "", [], ""]);
    let mut titles: Vec<Value> = documents.iter().map(title).collect();
    loop {
        titles.truncate(titles.len() / 2);
        let index = json!(titles).to_string();
        if titles.is_empty() || index.len() <= limit || compressed_size(&index) <= limit {
            return index;
        }
    }
}

/// The size after compression with gzip.
fn compressed_size(text: &str) -> usize {
    encode(Encoding::Gzip, text.as_bytes(), Effort::Quick).map_or(text.len(), |bytes| bytes.len())
}

/// A part of a page: a heading and the text up to the next heading.
#[derive(Debug, Clone, Default, PartialEq)]
struct TextPart {
    anchor: String,
    heading: String,
    text: String,
}

fn text_length(parts: &[TextPart]) -> usize {
    parts.iter().map(|part| part.text.len()).sum()
}

/// A page's entry in the index. `words` has the page's words, those on the fewest pages first.
fn entry(document: &SearchDocument<'_>, parts: &[TextPart], detail: Detail, words: &[&str]) -> Value {
    let is_cut = text_length(parts) > detail.text || parts.len() > detail.sections;
    let of_words = if is_cut { detail.text / 2 } else { 0 };
    let mut left = detail.text - of_words;
    let shown = &parts[..parts.len().min(detail.sections)];
    let kept = shown.iter().enumerate().map(|(index, part)| {
        let text = if is_cut { cut(&part.text, left / (shown.len() - index)) } else { &part.text };
        left -= if is_cut { text.len() } else { 0 };
        (part, text)
    });
    let kept: Vec<(&TextPart, &str)> = kept.collect();
    let words = if is_cut { other_words(&kept, words, of_words) } else { String::new() };
    let sections: Vec<Value> = kept
        .iter()
        .filter(|(section, text)| !section.heading.is_empty() || !text.is_empty())
        .map(|(section, text)| json!([section.anchor, cut(&section.heading, MAX_TITLE), text]))
        .collect();
    let description = if detail.has_description { cut(document.description, MAX_DESCRIPTION) } else { "" };
    json!([document.path, cut(document.title, MAX_TITLE), description, sections, words])
}

/// The beginning of `text` with at most `length` bytes, without a partial word at the end.
fn cut(text: &str, length: usize) -> &str {
    let part = &text[..text.floor_char_boundary(length)];
    if part.len() == text.len() {
        return part;
    }
    // Languages without spaces have no word boundaries to look for.
    match part.rfind(' ') {
        Some(end) if end >= part.len() / 2 => &part[..end],
        _ => part,
    }
}

/// The first of those `words` that the kept texts do not contain, with a total length of at most `length`
/// bytes.
fn other_words(kept: &[(&TextPart, &str)], words: &[&str], length: usize) -> String {
    let shown = kept.iter().map(|(_, text)| *text).collect::<Vec<_>>().join(" ").to_lowercase();
    let known: HashSet<&str> = words_of(&shown).collect();
    let mut text = String::new();
    for word in words.iter().filter(|word| !known.contains(**word)) {
        if text.len() + word.len() + 1 > length {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

fn lower_case_text(parts: &[TextPart]) -> String {
    let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    texts.join(" ").to_lowercase()
}

/// The words of a text. Leaves out text in languages without spaces, which cannot be split into words here.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| {
        let is_ascii = word.is_ascii();
        let length = if is_ascii { word.len() } else { word.chars().count() };
        WORD_LENGTHS.contains(&length) && (is_ascii || !word.chars().any(is_unspaced))
    })
}

/// Whether a character belongs to a script without spaces: Thai, Lao, Burmese, Khmer, Japanese and Chinese.
fn is_unspaced(c: char) -> bool {
    let thai_and_lao = '\u{e00}'..='\u{eff}';
    let kana = '\u{3040}'..='\u{30ff}';
    let han = ['\u{3400}'..='\u{9fff}', '\u{20000}'..='\u{3ffff}'];
    let burmese_and_khmer = ['\u{1000}'..='\u{109f}', '\u{1780}'..='\u{17ff}'];
    [thai_and_lao, kana].iter().chain(&han).chain(&burmese_and_khmer).any(|script| script.contains(&c))
}

/// Elements whose content is not text.
const HIDDEN: [&str; 5] = ["script", "style", "template", "svg", "math"];

/// Elements that do not separate words.
#[rustfmt::skip]
const INLINE: [&str; 20] = [
    "a", "abbr", "b", "bdi", "cite", "code", "del", "em", "i", "ins", "kbd", "mark", "q", "s", "small", "span",
    "strong", "sub", "u", "wbr",
];

/// Divides HTML into sections at headings of levels 1 to 4 that have an anchor, and removes the markup.
fn read_parts(html: &str) -> Vec<TextPart> {
    let mut sections = vec![TextPart::default()];
    let mut is_heading = false;
    let mut rest = html;
    while let Some((text, tail)) = rest.split_once('<') {
        push_text(&mut sections, is_heading, text);
        if let Some(comment) = tail.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        if !tail.trim_start_matches('/').starts_with(|c: char| c.is_ascii_alphabetic()) {
            push_text(&mut sections, is_heading, "<");
            rest = tail;
            continue;
        }
        let (tag, after) = tail.split_at(tag_length(tail));
        rest = after;
        let name = tag.trim_start_matches('/');
        let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len())];
        let is_one_of = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        let is_end = tag.starts_with('/');
        if !is_end && !tag.ends_with("/>") && is_one_of(&HIDDEN) {
            let is_end = |at: &usize| {
                rest[at + 2..].get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
            };
            let end = rest.match_indices("</").map(|(at, _)| at).find(is_end);
            rest = end.map_or("", |at| &rest[at..]);
            continue;
        }
        if is_one_of(&["h1", "h2", "h3", "h4"]) {
            is_heading = false;
            let opening = format!("<{tag}");
            if let Some(anchor) = id_attributes(&opening).next().filter(|_| !is_end) {
                let anchor = decode_references(anchor).into_owned();
                sections.push(TextPart { anchor, ..TextPart::default() });
                is_heading = true;
            }
        }
        if !is_one_of(&INLINE) {
            push_text(&mut sections, is_heading, " ");
        }
    }
    push_text(&mut sections, is_heading, rest);
    for section in &mut sections {
        for text in [&mut section.heading, &mut section.text] {
            text.truncate(text.trim_end().len());
            text.shrink_to_fit();
        }
    }
    sections.retain(|section| *section != TextPart::default());
    sections
}

/// The length of a tag, including its closing `>`. A `>` in a quoted attribute does not end the tag.
fn tag_length(tag: &str) -> usize {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (byte, quote) {
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'>', None) => return at + 1,
            (byte, Some(open)) if byte == open => quote = None,
            _ => {}
        }
    }
    tag.len()
}

/// Appends text to the heading or text of the last section. Replaces runs of whitespace with a space.
fn push_text(sections: &mut [TextPart], is_heading: bool, text: &str) {
    let Some(section) = sections.last_mut() else { return };
    let target = if is_heading { &mut section.heading } else { &mut section.text };
    let text = decode_references(text);
    let needs_space = |target: &str| !target.is_empty() && !target.ends_with(' ');
    let mut is_apart = text.starts_with(char::is_whitespace);
    let mut push = |run: &str| {
        if is_apart && needs_space(target) {
            target.push(' ');
        }
        is_apart = true;
        target.push_str(run);
    };
    for line in text.split('\n') {
        let line = line.trim();
        let is_control = |byte| matches!(byte, b'\t'..=b'\r');
        // Copy lines as a whole if they have only single spaces, as most have.
        if line.is_ascii() && !line.contains("  ") && !line.bytes().any(is_control) {
            if !line.is_empty() {
                push(line);
            }
        } else {
            line.split_whitespace().for_each(&mut push);
        }
    }
    if text.ends_with(char::is_whitespace) && needs_space(target) {
        target.push(' ');
    }
}

/// Decodes numeric character references and the named ones that Markdown renderers write.
fn decode_references(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        decoded.push_str(before);
        // The longest reference that is decoded is `#x10FFFF`.
        let reference = after.find(';').filter(|end| *end <= 8).map(|end| (&after[..end], &after[end + 1..]));
        let c = reference.and_then(|(name, _)| match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            "nbsp" => Some(' '),
            _ => {
                let number = name.strip_prefix('#')?;
                let hex = number.strip_prefix(['x', 'X']);
                let code =
                    hex.map_or_else(|| number.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok())?;
                char::from_u32(code)
            }
        });
        if let (Some(c), Some((_, tail))) = (c, reference) {
            decoded.push(c);
            rest = tail;
        } else {
            decoded.push('&');
            rest = after;
        }
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pages::markdown::RenderedBody;

    fn content(html: &str) -> Content {
        Content::from(RenderedBody { html: html.to_owned(), ..RenderedBody::default() })
    }

    fn page<'a>(path: &'a str, title: &'a str, content: &'a Content) -> SearchDocument<'a> {
        SearchDocument { path: path.into(), title, description: "", content }
    }

    fn build_index(documents: &[SearchDocument<'_>]) -> String {
        let index = SearchCache::default().build(documents);
        String::from_utf8(index.bytes.to_vec()).expect("text")
    }

    fn parse(index: &str) -> Vec<Value> {
        serde_json::from_str(index).expect("JSON")
    }

    #[test]
    fn a_page_is_divided_at_its_headings() {
        let html = "<p>One <b>tw</b>o &amp; &lt;three&gt;</p><!-- no --><h2 id=\"a&amp;b\"><a class=\"anchor\" \
                    href=\"#a\" title=\"x > y\"></a>A <code>b</code></h2><p>Four</p><p>five &#252; &unknown; a < b</p>\
                    <script>no()</script><h5 id=\"no\">six</h5><h3>No id</h3><h2 id=\"c\">C</h2>";
        let section = |anchor: &str, heading: &str, text: &str| TextPart {
            anchor: anchor.into(),
            heading: heading.into(),
            text: text.into(),
        };
        let expected = [
            section("", "", "One two & <three>"),
            section("a&b", "A b", "Four five ü &unknown; a < b six No id"),
            section("c", "C", ""),
        ];
        assert_eq!(read_parts(html), expected);
        for broken in ["<", "<a", "<!-- x", "<script>x", "<h2 id=\"a", "</", "&#x110000;&#;&"] {
            read_parts(broken);
        }
    }

    #[test]
    fn small_sites_keep_their_whole_text() {
        let html = content("<p>日本語の文章 text</p><h2 id=\"h\">H</h2>");
        let index = build_index(&[page("/a/", "Á", &html)]);
        assert_eq!(index, r#"[["/a/","Á","",[["","","日本語の文章 text"],["h","H",""]],""]]"#);
        assert_eq!(build_index(&[]), "[]");
    }

    /// Text that compresses like real text: words with a skewed distribution, and one rare word for each
    /// page.
    fn long_text(page: usize, words: usize) -> String {
        let mut state = page as u64 + 1;
        let mut next = |most: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % most
        };
        let mut html = String::from("<p>");
        for word in 0..words {
            if word % 150 == 149 {
                html += &format!("</p><h2 id=\"s{word}\">TextPart {} {word}</h2><p>", next(5_000));
            }
            let most = 1 + next(20_000);
            let number = next(most);
            html += &format!("w{number:x}{} ", number % 7);
        }
        html + &format!("rarity{page}x</p>")
    }

    #[test]
    fn the_index_of_500_long_pages_is_at_most_100_kb() {
        let text = |page| content(&long_text(page, 650));
        let texts: Vec<(String, String, Content)> = (0..500)
            .map(|page| (format!("/docs/page-{page}/"), format!("Page number {page}"), text(page)))
            .collect();
        let documents: Vec<SearchDocument<'_>> =
            texts.iter().map(|(path, title, html)| self::page(path, title, html)).collect();
        let index = build_index(&documents);
        // The quick level of Brotli is much lower in test builds than in releases.
        let encodings = [
            (Encoding::Gzip, Effort::Quick),
            (Encoding::Zstd, Effort::Quick),
            (Encoding::Brotli, Effort::Strong),
        ];
        for (encoding, effort) in encodings {
            let bytes = encode(encoding, index.as_bytes(), effort).expect("compressed").len();
            assert!(bytes <= 100_000, "{encoding:?}: {bytes}");
            assert!(bytes > 50_000, "{encoding:?}: the limit is used, not {bytes}");
        }
        let pages = parse(&index);
        assert_eq!(pages.len(), 500, "each page can be found");
        for (number, page) in pages.iter().enumerate() {
            let words = page[4].as_str().expect("words");
            assert!(words.contains(&format!("rarity{number}x")), "{number}: {words}");
            assert!(page[3].as_array().is_some_and(|sections| sections.len() > 3), "{number}");
        }
        assert_eq!(index, build_index(&documents), "the same documents give the same index");
    }

    #[test]
    fn an_index_of_titles_alone_is_cut_as_well() {
        // Hexadecimal digits of hashes, which compress to half of their size.
        let digits = |seed: String| blake3::hash(seed.as_bytes()).to_hex().to_string();
        let title = |page| (0..4).map(|part| digits(format!("{page} {part}"))).collect::<String>();
        let titles: Vec<(String, String)> =
            (0..9_000).map(|page| (format!("/{}/", digits(format!("{page}"))), title(page))).collect();
        let empty = Content::default();
        let documents: Vec<SearchDocument<'_>> =
            titles.iter().map(|(path, title)| page(path, title, &empty)).collect();
        let index = build_index(&documents);
        assert!(
            encode(Encoding::Gzip, index.as_bytes(), Effort::Quick)
                .is_some_and(|bytes| bytes.len() <= MOST_BYTES)
        );
        let pages = parse(&index);
        assert!(pages.len() > 1_000 && pages.len() < 9_000, "{}", pages.len());
        assert_eq!(pages[0][1].as_str().map(str::len), Some(MAX_TITLE));
    }

    #[test]
    fn texts_without_spaces_are_cut_between_characters() {
        let html = format!("<p>{}</p>", "検索できる文章".repeat(20));
        let content = content(&html);
        let document = page("/a/", "A", &content);
        let sections = read_parts(&html);
        let detail = Detail { text: 100, sections: 5, has_description: true };
        let cut = entry(&document, &sections, detail, &[]);
        let text = cut[3][0][2].as_str().expect("text");
        assert!(text.len() > 40 && text.len() <= 50 && html.contains(text), "{text}");
        assert_eq!(cut[4], "");
    }

    #[test]
    fn limits_grow_with_the_number_of_pages() {
        for (pages, expected) in [(0, 100_000), (500, 100_000), (1_000, 200_000), (1_000_000, 500_000)] {
            assert_eq!(max_bytes(pages), expected);
        }
    }

    #[test]
    fn an_unchanged_site_keeps_its_index() {
        let mut cache = SearchCache::default();
        let (x, y) = (content("<p>x</p>"), content("<p>y</p>"));
        let before = cache.build(&[page("/a/", "A", &x)]);
        for same in [&x, &content("<p>x</p>")] {
            let same = cache.build(&[page("/a/", "A", same)]);
            assert_eq!(before.bytes.as_ptr(), same.bytes.as_ptr());
        }
        let other = cache.build(&[page("/a/", "A", &y)]);
        assert_ne!(before.hash, other.hash);
        assert_eq!(other.bytes, build_index(&[page("/a/", "A", &y)]));
    }

    /// An edit to the documents: whether a page is added, removed, moved or changed, where, and a number for
    /// its new text.
    type Edit = (u8, usize, usize);

    fn apply(edit: Edit, pages: &mut Vec<(String, Content)>) {
        let (kind, at, text) = edit;
        let at = at % pages.len();
        let new = content(&long_text(text, 20 + text % 90));
        match kind {
            0 => pages.insert(at, (format!("/added/{text}/"), new)),
            1 if pages.len() > 1 => drop(pages.remove(at)),
            2 => pages.rotate_left(at),
            // Two pages with the same path, which another part of the loader reports.
            3 => pages.push(pages[at].clone()),
            _ => pages[at].1 = new,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

        #[test]
        fn a_cached_index_equals_a_new_one(
            edits in proptest::collection::vec((0_u8..8, 0_usize..2_000, 0_usize..200), 1..6),
            limit in 2_000_usize..60_000,
            size in prop_oneof![4 => 1_usize..300, 1 => 1_100_usize..1_300],
        ) {
            let mut pages: Vec<(String, Content)> =
                (0..size).map(|page| (format!("/{page}/"), content(&long_text(page % 70, 60)))).collect();
            let mut cache = SearchCache::default();
            for edit in edits {
                let list = |pages: &[(String, Content)], cache: &mut SearchCache| {
                    let documents: Vec<SearchDocument<'_>> =
                        pages.iter().map(|(path, content)| page(path, "A page", content)).collect();
                    cache.build_within(&documents, limit).bytes
                };
                list(&pages, &mut cache);
                apply(edit, &mut pages);
                prop_assert_eq!(list(&pages, &mut cache), list(&pages, &mut SearchCache::default()));
            }
        }
    }
}
