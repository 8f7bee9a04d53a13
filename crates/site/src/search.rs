//! Builds the search index, which the theme's `search.js` loads when a visitor searches for the first time.
//!
//! The index is a JSON array with an entry `[path, title, description, sections, words]` for each page. A
//! section is `[anchor, heading, text]`; the text before the first heading has an empty anchor and heading.
//! Each language has its own index. If an index would exceed [`max_bytes`], texts are cut: a page keeps the
//! beginnings of its sections and, in `words`, the rarest of its other words: those that the fewest pages
//! contain.

mod entry;
mod text;
mod words;

use std::hash::BuildHasher as _;
use std::ops::Range;
use std::sync::Arc;

use entry::{Detail, write_entry, write_title};
use text::PageText;
use words::WordHash;

pub(super) use self::entry::SearchDocument;
use super::file::{Blob, Effort, encode, gzip_size_after};
use super::markdown::BodyFacts;
use frontdesk_negotiate::Encoding;
use frontdesk_process::hash_maps::{HashMap, HashSet};
use frontdesk_process::parallel::in_parallel;

/// Sites with fewer listed pages than this have no search, unless `site.search` is `true`.
pub(super) const MIN_PAGES: usize = 10;

/// Maximum size of the compressed index of a site with up to 500 pages, in bytes.
const SMALL_SITE_BYTES: usize = 100_000;
/// Maximum size of the compressed index per page of a site with more than 500 pages, up to [`MAX_BYTES`].
const BYTES_PER_PAGE: usize = 200;
const MAX_BYTES: usize = 500_000;

/// Text rarely compresses by more than this factor, so an index whose text exceeds the size limit by a larger
/// factor is not even built.
const MAX_RATIO: usize = 5;

/// The index of one language in the last load. The next load reads only the changed pages again, and writes
/// only their entries and those whose words have become more or less frequent.
#[derive(Debug, Default)]
pub(super) struct SearchCache {
    /// The pages, in the order of the index.
    pages: Vec<IndexedPage>,
    /// The number of pages that contain each word.
    frequencies: HashMap<WordHash, u32>,
    /// The compressed sizes of the index's chunks, by a hash of each chunk and of the text before the chunk.
    sizes: HashMap<u64, usize>,
    index: Option<Blob>,
}

/// A page in the index, with the inputs of its entry.
#[derive(Debug)]
struct IndexedPage {
    path: String,
    title: String,
    description: String,
    /// Identifies the rendered body: a body that is rendered again has new facts.
    facts: Arc<BodyFacts>,
    /// The length of the page's text in bytes.
    length: usize,
    /// The hashes of the page's words, in the order of [`PageText::words`].
    word_hashes: Vec<WordHash>,
    /// The page's entries, each with its level of detail as an index in [`levels_of_detail`].
    entries: Vec<(usize, Arc<str>)>,
}

impl IndexedPage {
    /// Creates the index's record of a page, without entries.
    fn new(document: &SearchDocument<'_>, text: &PageText, word_hashes: Vec<WordHash>) -> Self {
        Self {
            path: document.path.clone().into_owned(),
            title: document.title.to_owned(),
            description: document.description.to_owned(),
            facts: document.content.facts.clone(),
            length: text.length(),
            word_hashes,
            entries: Vec::new(),
        }
    }

    /// Whether the entries of this page were written from the same body, path, title and description.
    fn has_inputs_of(&self, document: &SearchDocument<'_>) -> bool {
        Arc::ptr_eq(&self.facts, &document.content.facts)
            && self.path == document.path
            && self.title == document.title
            && self.description == document.description
    }

    fn entry(&self, level: usize) -> Option<&Arc<str>> {
        self.entries.iter().find(|(of, _)| *of == level).map(|(_, entry)| entry)
    }
}

/// The text of each page; `None` for a page that this load has not read.
type ReadTexts = Vec<Option<PageText>>;

impl SearchCache {
    /// Builds the index of these documents, in their order, or returns the last index if nothing has changed.
    pub fn build(&mut self, documents: &[SearchDocument<'_>]) -> Blob {
        self.build_within(documents, max_bytes(documents.len()))
    }

    /// Like [`Self::build`], with a maximum size after compression. Keeps the last [`Blob`] if its text is
    /// the same.
    fn build_within(&mut self, documents: &[SearchDocument<'_>], limit: usize) -> Blob {
        let is_same = |(page, document): (&IndexedPage, _)| page.has_inputs_of(document);
        let are_same = self.pages.len() == documents.len() && self.pages.iter().zip(documents).all(is_same);
        if let Some(index) = self.index.as_ref().filter(|_| are_same) {
            return index.clone();
        }
        let texts = self.update_pages(documents);
        let index = Blob::new(self.write_index(documents, &texts, limit));
        let same = self.index.take().filter(|before| before.hash == index.hash);
        self.index.insert(same.unwrap_or(index)).clone()
    }

    /// Reads the changed pages, counts their words, and discards the entries that these words may change.
    /// Returns the texts that it read.
    fn update_pages(&mut self, documents: &[SearchDocument<'_>]) -> ReadTexts {
        let count = self.pages.len();
        let (mut pages, gone) = reuse_pages(std::mem::take(&mut self.pages), documents);
        let numbers: Vec<usize> = (0..documents.len()).filter(|number| pages[*number].is_none()).collect();
        let new = in_parallel(&numbers, |number| {
            let document = &documents[*number];
            let (text, word_hashes) = document.read_text();
            (IndexedPage::new(document, &text, word_hashes), text)
        });

        let mut differences: HashMap<WordHash, i32> = HashMap::default();
        for word in gone.iter().flat_map(|page| &page.word_hashes) {
            *differences.entry(*word).or_default() -= 1;
        }
        for word in new.iter().flat_map(|(page, _)| &page.word_hashes) {
            *differences.entry(*word).or_default() += 1;
        }
        for word in differences.keys() {
            self.frequencies.entry(*word).or_default();
        }
        let mut changed = HashSet::default();
        self.frequencies.retain(|word, frequency| {
            // Entries leave out common words, so only the frequencies of the others matter. Whether a word is
            // common depends on the number of pages, too.
            let before = Some(*frequency).filter(|frequency| !is_common(*frequency, count));
            *frequency = frequency.saturating_add_signed(differences.get(word).copied().unwrap_or_default());
            let after = Some(*frequency).filter(|frequency| !is_common(*frequency, documents.len()));
            if before != after {
                changed.insert(*word);
            }
            *frequency > 0
        });
        for page in pages.iter_mut().flatten().filter(|_| !changed.is_empty()) {
            if page.word_hashes.iter().any(|word| changed.contains(word)) {
                page.entries.clear();
            }
        }
        let mut texts: ReadTexts = documents.iter().map(|_| None).collect();
        for (number, (page, text)) in numbers.into_iter().zip(new) {
            pages[number] = Some(page);
            texts[number] = Some(text);
        }
        self.pages = pages.into_iter().flatten().collect();
        texts
    }

    /// Writes the index as JSON, with the most detail that fits into `limit` bytes, compressed. Skips levels
    /// of detail that are too large judging by the length of the texts or a sample of the pages. If titles
    /// alone exceed the limit, drops the last half of the pages until the others fit. Keeps the entries of
    /// the levels that it tried for the next load, and discards the others.
    fn write_index(&mut self, documents: &[SearchDocument<'_>], texts: &ReadTexts, limit: usize) -> String {
        let chunks: Vec<Range<usize>> = (0..documents.len())
            .step_by(CHUNK_PAGES)
            .map(|start| start..documents.len().min(start + CHUNK_PAGES))
            .collect();
        let samples: Vec<Range<usize>> = chunks.iter().step_by(SAMPLE_DISTANCE).cloned().collect();
        // An estimate of the largest uncompressed index that is small enough after compression.
        let mut most = limit.saturating_mul(MAX_RATIO);
        let mut tried = Vec::new();
        // The new map uses the hasher of the old map, so that equal texts have equal hashes in both.
        let mut sizes = HashMap::with_hasher(self.sizes.hasher().clone());
        let mut found = None;
        for (level, detail) in levels_of_detail().enumerate() {
            let add = |sum: usize, page: &IndexedPage| sum.saturating_add(page.length.min(detail.text));
            if self.pages.iter().fold(0, add) > most {
                continue;
            }
            tried.push(level);
            if chunks.len() > MAX_UNSAMPLED_CHUNKS {
                self.write_entries(level, detail, &samples, documents, texts);
                let (length, size) = self.measure(level, &samples, &mut sizes);
                let estimate = size * chunks.len() / samples.len();
                // Accept a slightly larger estimate: the sample may compress less well than the whole index.
                if estimate > limit + limit / 16 {
                    most = most.min((length * chunks.len() / samples.len()).saturating_mul(limit) / estimate);
                    continue;
                }
            }
            self.write_entries(level, detail, &chunks, documents, texts);
            let index = join_entries(self.pages.iter().filter_map(|page| page.entry(level)).map(Arc::as_ref));
            if index.len() > limit {
                let (length, size) = self.measure(level, &chunks, &mut sizes);
                if size > limit {
                    most = most.min(length.saturating_mul(limit) / size);
                    continue;
                }
            }
            found = Some(index);
            break;
        }
        self.sizes = sizes;
        self.pages.iter_mut().for_each(|page| page.entries.retain(|(level, _)| tried.contains(level)));
        found.unwrap_or_else(|| write_titles(documents, limit))
    }

    /// Writes the entries that the pages in these chunks lack at this level of detail. Reads the texts again
    /// that this load has not read.
    fn write_entries(
        &mut self,
        level: usize,
        detail: Detail,
        chunks: &[Range<usize>],
        documents: &[SearchDocument<'_>],
        texts: &ReadTexts,
    ) {
        let missing = chunks.iter().cloned().flatten();
        let missing: Vec<usize> = missing.filter(|page| self.pages[*page].entry(level).is_none()).collect();
        let entries = in_parallel(&missing, |number| {
            let (document, page) = (&documents[*number], &self.pages[*number]);
            let write = |text: &PageText| {
                let words = detail.cuts(text).then(|| self.rare_words(page, text));
                Arc::from(write_entry(document, text, detail, words.as_deref()))
            };
            texts[*number].as_ref().map_or_else(|| write(&document.read_text().0), write)
        });
        for (number, entry) in missing.into_iter().zip(entries) {
            self.pages[number].entries.push((level, entry));
        }
    }

    /// The sum of the lengths of these chunks of the index, and the sum of their compressed sizes. Takes
    /// known sizes from the last load, and adds the sizes to `sizes`.
    fn measure(
        &self,
        level: usize,
        chunks: &[Range<usize>],
        sizes: &mut HashMap<u64, usize>,
    ) -> (usize, usize) {
        let entries =
            |chunk: &Range<usize>| self.pages[chunk.clone()].iter().filter_map(|page| page.entry(level));
        let length = chunks.iter().flat_map(entries).map(|entry| entry.len() + 1).sum();
        let mut text = String::with_capacity(length);
        let mut ranges = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let start = text.len();
            for entry in entries(chunk) {
                text.push_str(entry);
                text.push(',');
            }
            ranges.push(start..text.len());
        }
        let text = text.as_bytes();
        let parts: Vec<(&[u8], &[u8])> = ranges
            .into_iter()
            .map(|range| (&text[range.start.saturating_sub(CONTEXT_BYTES)..range.start], &text[range]))
            .collect();
        let hashes: Vec<u64> = parts.iter().map(|part| self.sizes.hasher().hash_one(part)).collect();
        let known = hashes.iter().filter_map(|hash| Some((*hash, *self.sizes.get(hash)?)));
        sizes.extend(known);
        let new: Vec<_> = hashes.iter().zip(&parts).filter(|(hash, _)| !sizes.contains_key(hash)).collect();
        sizes.extend(in_parallel(&new, |(hash, part)| (**hash, gzip_size_after(part.0, part.1))));
        (text.len(), hashes.iter().filter_map(|hash| sizes.get(hash)).sum())
    }

    /// The words of a page, except those that more than half of the pages contain. Words on the fewest pages
    /// come first.
    fn rare_words<'a>(&self, page: &IndexedPage, text: &'a PageText) -> Vec<(WordHash, &'a str)> {
        let words = page.word_hashes.iter().copied().zip(text.words.split(' '));
        let words =
            words.map(|(hash, word)| (self.frequencies.get(&hash).copied().unwrap_or_default(), hash, word));
        let mut rare: Vec<_> =
            words.filter(|(frequency, ..)| !is_common(*frequency, self.pages.len())).collect();
        // The sort is stable, so words of the same frequency stay in the order of the page's text.
        rare.sort_by_key(|(frequency, ..)| *frequency);
        rare.into_iter().map(|(_, hash, word)| (hash, word)).collect()
    }
}

/// Moves the unchanged pages of the last load into the order of the documents, with `None` for documents that
/// are new, have changed or repeat a path. Also returns the other pages of the last load, whose words no
/// longer count.
fn reuse_pages(
    before: Vec<IndexedPage>,
    documents: &[SearchDocument<'_>],
) -> (Vec<Option<IndexedPage>>, Vec<IndexedPage>) {
    let mut before: Vec<Option<IndexedPage>> = before.into_iter().map(Some).collect();
    // Most documents are at the position that they had.
    let at_position = |(number, document): (usize, &SearchDocument<'_>)| {
        before.get_mut(number)?.take_if(|page| page.path == *document.path)
    };
    let mut pages: Vec<Option<IndexedPage>> = documents.iter().enumerate().map(at_position).collect();
    let mut known: HashMap<String, IndexedPage> = HashMap::default();
    let mut gone = Vec::new();
    for page in before.into_iter().flatten() {
        gone.extend(known.insert(page.path.clone(), page));
    }
    for (page, document) in pages.iter_mut().zip(documents) {
        if page.is_none() {
            *page = known.remove(&*document.path);
        }
        gone.extend(page.take_if(|page| !page.has_inputs_of(document)));
    }
    gone.extend(known.into_values());
    (pages, gone)
}

/// Whether a word that `frequency` pages contain is on more than half of the site's pages. Entries of pages
/// whose text is cut leave out such words.
fn is_common(frequency: u32, pages: usize) -> bool {
    frequency as usize * 2 > pages
}

/// The compressed size of an index is measured as the sum of the sizes of chunks of this many pages, so that
/// a reload compresses only a few chunks.
const CHUNK_PAGES: usize = 16;

/// A chunk is compressed with this many bytes of the text before it as its context, because pages repeat
/// words of the pages before them. For real pages, the sum is 1 to 5 % above the size of the index.
const CONTEXT_BYTES: usize = 16 << 10;

/// The compressed size of a large index is first estimated from every fourth chunk, because a first load
/// tries several levels of detail.
const SAMPLE_DISTANCE: usize = 4;
/// An index with more chunks than this is compressed only after a sample shows that it is likely to fit.
const MAX_UNSAMPLED_CHUNKS: usize = 64;

/// Maximum size of the index of a site with this many pages, in bytes, after compression with gzip.
fn max_bytes(pages: usize) -> usize {
    pages.saturating_mul(BYTES_PER_PAGE).clamp(SMALL_SITE_BYTES, MAX_BYTES)
}

/// Levels of detail, in descending order. The index uses the first level that makes it small enough.
fn levels_of_detail() -> impl Iterator<Item = Detail> {
    let texts =
        [usize::MAX, 16_000, 11_000, 8_000, 5_600, 4_000, 2_800, 2_000, 1_400, 1_000, 700, 500, 350, 240];
    let cut_texts =
        texts.into_iter().map(|text| Detail { text, sections: usize::MAX, has_description: true });
    let short = [(160, 12, true), (80, 4, true), (0, 0, true), (0, 0, false)];
    let short = short.map(|(text, sections, has_description)| Detail { text, sections, has_description });
    cut_texts.chain(short)
}

/// An index of titles alone, for a site whose titles together exceed the limit: drops the last half of the
/// pages, at least once, until the index is small enough.
fn write_titles(documents: &[SearchDocument<'_>], limit: usize) -> String {
    let mut titles: Vec<String> = documents.iter().map(write_title).collect();
    loop {
        titles.truncate(titles.len() / 2);
        let index = join_entries(titles.iter().map(String::as_str));
        if titles.is_empty() || index.len() <= limit || compressed_size(&index) <= limit {
            return index;
        }
    }
}

/// The index as JSON: an array of the entries, which are JSON already.
fn join_entries<'a>(entries: impl Iterator<Item = &'a str> + Clone) -> String {
    let mut index = String::with_capacity(2 + entries.clone().map(|entry| entry.len() + 1).sum::<usize>());
    index.push('[');
    for entry in entries {
        index.push_str(entry);
        index.push(',');
    }
    if index.ends_with(',') {
        index.pop();
    }
    index.push(']');
    index
}

/// The size in bytes after compression with gzip.
fn compressed_size(text: &str) -> usize {
    encode(Encoding::Gzip, text.as_bytes(), Effort::Quick).map_or(text.len(), |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::entry::MAX_TITLE;
    use super::*;
    use frontdesk_process::page_spill::PageSpill;

    use crate::markdown::RenderedBody;
    use crate::page_bodies::Content;

    fn content(html: &str) -> Content {
        let rendered = RenderedBody { html: html.to_owned(), ..RenderedBody::default() };
        Content::new(rendered, &PageSpill::default())
    }

    fn page<'a>(path: &'a str, title: &'a str, content: &'a Content) -> SearchDocument<'a> {
        SearchDocument { path: path.into(), title, description: "", content, spill: None }
    }

    fn build_index(documents: &[SearchDocument<'_>]) -> String {
        let index = SearchCache::default().build(documents);
        String::from_utf8(index.bytes.to_vec()).expect("text")
    }

    fn parse(index: &str) -> Vec<Value> {
        serde_json::from_str(index).expect("JSON")
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
                .is_some_and(|bytes| bytes.len() <= MAX_BYTES)
        );
        let pages = parse(&index);
        assert!(pages.len() > 1_000 && pages.len() < 9_000, "{}", pages.len());
        assert_eq!(pages[0][1].as_str().map(str::len), Some(MAX_TITLE));
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

    /// Applies an edit to a list with at least one page. Never removes the last page.
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
