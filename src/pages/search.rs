//! Builds the search index, which the theme's `search.js` loads when a visitor searches for the first time.
//!
//! The index is a JSON array with an entry `[path, title, description, sections, words]` for each page. A
//! section is `[anchor, heading, text]`; the text before the first heading has an empty anchor and heading.
//! Each language has its own index. If it would exceed [`max_bytes`], texts are cut: a page keeps the
//! beginnings of its sections and, in `words`, the rarest of its other words: those that the fewest pages
//! contain.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use blake3::{Hash, Hasher};
use serde_json::{Value, json};

use super::file::{Blob, Effort, encode};
use super::html::id_attributes;
use super::language::Language;
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
    pub html: &'a str,
}

/// The index of one language in the last load, which the next load reuses if its documents are the same.
#[derive(Debug, Default)]
pub(super) struct SearchCache {
    last: Option<(Hash, Blob)>,
}

impl SearchCache {
    /// The index of these documents, in their order.
    pub fn build(&mut self, documents: &[SearchDocument<'_>]) -> Blob {
        let mut hasher = Hasher::new();
        for document in documents {
            for text in [&*document.path, document.title, document.description, document.html] {
                hasher.update(&text.len().to_le_bytes()).update(text.as_bytes());
            }
        }
        let inputs = hasher.finalize();
        match &self.last {
            Some((before, index)) if *before == inputs => index.clone(),
            _ => {
                let index = Blob::new(build_index(documents));
                self.last = Some((inputs, index.clone()));
                index
            }
        }
    }
}

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

/// Builds the index as JSON. If titles alone exceed the limit, leaves out the last pages.
fn build_index(documents: &[SearchDocument<'_>]) -> String {
    let limit = max_bytes(documents.len());
    let parts = in_parallel(documents, |document| read_parts(document.html));
    let pages: Vec<(&SearchDocument<'_>, Vec<TextPart>)> = documents.iter().zip(parts).collect();
    let lengths: Vec<usize> = pages.iter().map(|(_, parts)| text_length(parts)).collect();
    let (texts, words) = (OnceCell::new(), OnceCell::new());
    // An estimate of the largest uncompressed index that is small enough after compression.
    let mut most = limit.saturating_mul(MAX_RATIO);
    let numbers: Vec<usize> = (0..pages.len()).collect();
    for detail in levels_of_detail() {
        let size = lengths.iter().fold(0, |sum: usize, length| sum.saturating_add(*length.min(&detail.text)));
        if size > most {
            continue;
        }
        let words: &[Vec<&str>] = match detail.text {
            usize::MAX => &[],
            _ => words.get_or_init(|| ranked_words(texts.get_or_init(|| lower_case_texts(&pages)))),
        };
        let entries = in_parallel(&numbers, |number| {
            let (document, parts) = &pages[*number];
            entry(document, parts, detail, words.get(*number).map_or(&[], Vec::as_slice)).to_string()
        });
        let index = format!("[{}]", entries.join(","));
        let bytes = compressed_size(&index, limit);
        if bytes <= limit {
            return index;
        }
        most = most.min(index.len().saturating_mul(limit) / bytes);
    }
    let title =
        |document: &SearchDocument<'_>| json!([document.path, cut(document.title, MAX_TITLE), "", [], ""]);
    let mut titles: Vec<Value> = documents.iter().map(title).collect();
    loop {
        titles.truncate(titles.len() / 2);
        let index = json!(titles).to_string();
        if titles.is_empty() || compressed_size(&index, limit) <= limit {
            return index;
        }
    }
}

/// The size of the index after compression with gzip. Returns the size before compression if it does not
/// exceed the limit.
fn compressed_size(index: &str, limit: usize) -> usize {
    if index.len() <= limit {
        return index.len();
    }
    encode(Encoding::Gzip, index.as_bytes(), Effort::Quick).map_or(index.len(), |bytes| bytes.len())
}

/// A part of a page: a heading and the text up to the next heading.
#[derive(Debug, Default, PartialEq)]
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

fn lower_case_texts(pages: &[(&SearchDocument<'_>, Vec<TextPart>)]) -> Vec<String> {
    in_parallel(pages, |(_, parts)| {
        let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
        texts.join(" ").to_lowercase()
    })
}

/// The distinct words of each text, those in the fewest texts first. Leaves out words that are in more than
/// half of all texts.
fn ranked_words(texts: &[String]) -> Vec<Vec<&str>> {
    // Each word gets a number at its first occurrence, because looking up a number is faster than hashing a
    // word.
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut frequencies: Vec<WordFrequency> = Vec::new();
    let mut words_of_texts: Vec<Vec<(usize, &str)>> = Vec::with_capacity(texts.len());
    for (text, content) in texts.iter().enumerate() {
        let mut words = Vec::new();
        for word in words_of(content) {
            let number = *numbers.entry(word).or_insert(frequencies.len());
            if number == frequencies.len() {
                frequencies.push(WordFrequency { texts: 0, last_text: None });
            }
            let frequency = &mut frequencies[number];
            if frequency.last_text != Some(text) {
                *frequency = WordFrequency { texts: frequency.texts + 1, last_text: Some(text) };
                words.push((number, word));
            }
        }
        words_of_texts.push(words);
    }
    in_parallel(&words_of_texts, |words| {
        let counted = words.iter().map(|(number, word)| (frequencies[*number].texts, *word));
        let mut rare: Vec<(usize, &str)> = counted.filter(|(count, _)| count * 2 <= texts.len()).collect();
        // Stable, so that words of the same frequency stay in their order.
        rare.sort_by_key(|(count, _)| *count);
        rare.into_iter().map(|(_, word)| word).collect()
    })
}

/// The number of texts with a word.
struct WordFrequency {
    texts: usize,
    /// The last text with the word so far, by its index.
    last_text: Option<usize>,
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
    for (index, word) in text.split_whitespace().enumerate() {
        if (index > 0 || text.starts_with(char::is_whitespace)) && needs_space(target) {
            target.push(' ');
        }
        target.push_str(word);
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
    use super::*;

    fn page<'a>(path: &'a str, title: &'a str, html: &'a str) -> SearchDocument<'a> {
        SearchDocument { path: path.into(), title, description: "", html }
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
        let index = build_index(&[page("/a/", "Á", "<p>日本語の文章 text</p><h2 id=\"h\">H</h2>")]);
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
        let texts: Vec<(String, String, String)> = (0..500)
            .map(|page| (format!("/docs/page-{page}/"), format!("Page number {page}"), long_text(page, 650)))
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
        let documents: Vec<SearchDocument<'_>> =
            titles.iter().map(|(path, title)| page(path, title, "")).collect();
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
        let document = page("/a/", "A", &html);
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
        let before = cache.build(&[page("/a/", "A", "<p>x</p>")]);
        let same = cache.build(&[page("/a/", "A", "<p>x</p>")]);
        assert_eq!(before.bytes.as_ptr(), same.bytes.as_ptr());
        let other = cache.build(&[page("/a/", "A", "<p>y</p>")]);
        assert_ne!(before.hash, other.hash);
        assert_eq!(other.bytes, build_index(&[page("/a/", "A", "<p>y</p>")]));
    }
}
