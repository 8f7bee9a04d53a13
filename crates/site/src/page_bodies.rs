//! Rendered page bodies. A reload reuses a body unless one of its inputs has changed.

use std::ops::{Deref, Range};
use std::sync::Arc;

use blake3::Hash;
use bytes::Bytes;
use memchr::memmem;

use super::document::Document;
use super::markdown::{self, BodyFacts, BodyWarning, RenderedBody};
use super::site_files::SourceFile;
use super::structure::Structure;
use crate::fault::Fault;
use frontdesk_process::hash_maps::HashMap;
use frontdesk_process::memo::MemoMap;
use frontdesk_process::page_spill::PageSpill;
use frontdesk_process::panics::{self, Part};
use frontdesk_publish::FileChanged;
use frontdesk_typeset::highlight::Highlighter;

/// Text that may be a slice of a larger shared buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Text(Bytes);

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        // The bytes are valid UTF-8: they come from a `String`, or from a slice of a page with the same
        // bytes.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Text {
    /// The length in bytes. Unlike `str::len`, this does not read and validate the text.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// The position of `part` in `whole`, at or after `from`.
///
/// Searches for the first 64 bytes of `part`, and compares the rest at up to 1,000 candidates, so the time
/// stays linear even if a page repeats the beginning of `part` many times. `None` if no candidate matches.
fn find_part(whole: &[u8], part: &[u8], from: usize) -> Option<usize> {
    let beginning = &part[..part.len().min(64)];
    let candidates = memmem::find_iter(whole.get(from..)?, beginning).map(|at| from + at);
    candidates.take(1_000).find(|at| whole[*at..].starts_with(part))
}

/// A [`RenderedBody`] whose texts may be on disk, or slices of larger buffers.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub html: Text,
    pub markdown: Text,
    /// Each rendering creates new facts, so two `Content`s that share facts are equal.
    pub facts: Arc<BodyFacts>,
    /// The code blocks found in the HTML, each as a hash of its info string and source, and its byte range.
    pub blocks: Arc<[(Hash, Range<usize>)]>,
}

impl Content {
    /// Creates the content of a page. Moves its texts to `spill` if the site is large. Leaves out code
    /// blocks that the HTML does not contain.
    pub fn new(
        RenderedBody { mut html, mut markdown, facts, blocks }: RenderedBody,
        spill: &PageSpill,
    ) -> Self {
        html.shrink_to_fit();
        markdown.shrink_to_fit();
        let mut end = 0;
        let positions = blocks.into_iter().filter_map(|(hash, block)| {
            let start = find_part(html.as_bytes(), block.as_bytes(), end)?;
            end = start + block.len();
            Some((hash, start..end))
        });
        let blocks = positions.collect();
        let [html, markdown] = [html, markdown].map(|text| Text(spill.store(text.into_bytes())));
        Self { html, markdown, facts: Arc::new(facts), blocks }
    }

    /// The time to read the body, rounded up to whole minutes; at least 1.
    pub fn reading_minutes(&self) -> usize {
        /// A common estimate of adults' silent reading speed.
        const WORDS_A_MINUTE: usize = 220;
        self.facts.words.div_ceil(WORDS_A_MINUTE).max(1)
    }

    /// The HTML of each code block, by the hash of its info string and source.
    pub fn blocks(&self) -> HashMap<Hash, &str> {
        let html: &str = &self.html;
        self.blocks.iter().filter_map(|(of, at)| Some((*of, html.get(at.clone())?))).collect()
    }

    /// Whether both texts are those of `other` in memory, not only equal ones.
    pub fn has_texts_of(&self, other: &Self) -> bool {
        let is_same = |a: &Text, b: &Text| a.0.as_ptr_range() == b.0.as_ptr_range();
        is_same(&self.html, &other.html) && is_same(&self.markdown, &other.markdown)
    }

    /// Combines the text of this content with the other fields of `other`, which must have the same text.
    pub fn with_facts_of(&self, other: &Self) -> Self {
        Self { html: self.html.clone(), markdown: self.markdown.clone(), ..other.clone() }
    }

    /// The same content as slices of the page's HTML and Markdown files, so that memory holds the text only
    /// once. A text that its file does not contain is kept as it is.
    pub fn as_slices_of(&self, html: &Bytes, markdown: &Bytes) -> Self {
        let slice = |text: &Text, whole: &Bytes| {
            let at = find_part(whole, &text.0, 0);
            at.map_or_else(|| text.clone(), |at| Text(whole.slice(at..at + text.0.len())))
        };
        Self { html: slice(&self.html, html), markdown: slice(&self.markdown, markdown), ..self.clone() }
    }
}

/// Two contents are equal if one rendering produced both, or if all values that templates use are equal.
impl PartialEq for Content {
    /// Ignores links, warnings and the positions of code blocks.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.facts, &other.facts)
            || (self.html == other.html
                && self.markdown == other.markdown
                && self.facts.words == other.facts.words
                && self.facts.headings == other.facts.headings)
    }
}

/// The rendered bodies of a site.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    by_file: MemoMap<BodyInputs, Content>,
    /// The structure of the last load, with its link catalog.
    structure: Option<Arc<Structure>>,
    /// The number of loads so far.
    loads: usize,
    /// The empty content of generated pages.
    empty: Content,
    /// The storage that holds the bodies of a large site on disk until its pages are laid out.
    spill: Arc<PageSpill>,
}

/// The inputs of a rendered body.
#[derive(Debug, PartialEq)]
struct BodyInputs {
    source: Hash,
    path: String,
    /// The number of the load whose link catalog was used. As long as later catalogs resolve the links of the
    /// body as that one does, the number stays the same.
    links_of_load: usize,
}

impl Bodies {
    /// An empty cache that keeps the bodies of a large site in `spill`.
    pub fn new(spill: Arc<PageSpill>) -> Self {
        Self { spill, ..Self::default() }
    }

    /// Drops all bodies, but keeps the storage for new ones.
    #[must_use]
    pub fn cleared(self) -> Self {
        Self::new(self.spill)
    }

    pub fn spill(&self) -> &Arc<PageSpill> {
        &self.spill
    }

    /// Renders the documents' bodies in parallel, and reports the warnings of all of them. Reuses a body if
    /// its source, its path, its link targets and the site's words, base URL and permitted hosts are
    /// unchanged. If rendering a body panics, its source is shown. If a source has changed since it was
    /// listed, forgets all bodies and fails.
    pub fn update(
        &mut self,
        structure: &Arc<Structure>,
        sources: &[SourceFile],
        faults: &mut Vec<Fault>,
    ) -> Result<(), FileChanged> {
        let sources: HashMap<&str, &SourceFile> =
            sources.iter().map(|source| (source.file.as_str(), source)).collect();
        let written: Vec<(&Document, &SourceFile)> = structure
            .all()
            .iter()
            .filter_map(|document| Some((document, *sources.get(document.file.as_str())?)))
            .collect();
        // A rendered body has about three times the size of its source.
        self.spill.begin(3 * written.iter().map(|(_, source)| source.size()).sum::<u64>());
        let spill = &self.spill;
        let (catalog, highlighter) = (&structure.catalog, Highlighter::default());
        let before = self.structure.take();
        let languages = &structure.inputs.languages;
        let has_same_words = before.as_ref().is_some_and(|before| {
            let before = before.inputs.languages.iter();
            before.map(|language| &language.words).eq(languages.iter().map(|language| &language.words))
        });
        let before = before.as_ref().map(|before| &before.catalog);
        let is_same_catalog = before.is_some_and(|before| std::ptr::eq(before, catalog) || before == catalog);
        // Render all bodies again if the base URL or the permitted hosts have changed: the checks for content
        // from other sites use them, and `lookups` does not record that.
        let has_same_hosts = before
            .is_some_and(|before| catalog.base_url == before.base_url && catalog.allowed == before.allowed);
        self.loads += 1;
        let inputs = |(document, source): &(&Document, &SourceFile), last: Option<&(BodyInputs, Content)>| {
            let resolves_as_before = |last: &&(BodyInputs, Content)| {
                let lookups = &last.1.facts.lookups;
                is_same_catalog || (has_same_hosts && lookups.are_current(document.origin(), catalog))
            };
            let last = last.filter(|(inputs, _)| has_same_words && inputs.path == document.path);
            let last = last.filter(resolves_as_before);
            let links_of_load = last.map_or(self.loads, |(inputs, _)| inputs.links_of_load);
            BodyInputs { source: source.hash, path: document.path.clone(), links_of_load }
        };
        let render = |(document, source): &(&Document, &SourceFile), _: &_, last: Option<&Content>| {
            let text = source.take_text()?;
            let blocks = last.map(Content::blocks).unwrap_or_default();
            let (body, first_line) = (&text[document.body_at..], document.body_line);
            let rendered = panics::catch(Part::Content, || {
                panics::inject("page", &document.file);
                let words = &languages[document.language].words;
                markdown::render(body, first_line, document.origin(), catalog, &highlighter, words, &blocks)
            });
            let rendered =
                rendered.unwrap_or_else(|panic| RenderedBody::from_source(body, first_line, &panic));
            Ok(Content::new(rendered, spill))
        };
        let contents = self.by_file.get_all(&written, |(document, _)| &document.file, inputs, render);
        let Ok(contents) = contents.into_iter().collect::<Result<Vec<_>, FileChanged>>() else {
            // Some bodies now come from this load and some from an earlier load, so drop all of them.
            *self = std::mem::take(self).cleared();
            return Err(FileChanged);
        };
        for ((document, _), content) in written.iter().zip(contents) {
            for BodyWarning { line, message, hint } in &content.facts.warnings {
                faults.push(Fault::warning(&document.file, Some(*line), message).hint(*hint));
            }
        }
        self.by_file.keep_only(written.iter().map(|(document, _)| document.file.as_str()));
        self.structure = Some(structure.clone());
        Ok(())
    }

    /// The content of a page; empty for a generated page.
    pub fn of(&self, document: &Document) -> &Content {
        self.by_file.get(&document.file).unwrap_or(&self.empty)
    }

    /// Replaces the content of a page with an equal one. Does nothing for a generated page.
    pub fn set(&mut self, document: &Document, content: Content) {
        if let Some((_, known)) = self.by_file.get_mut(&document.file) {
            *known = content;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_becomes_a_slice_of_its_page() {
        let body = "<p>".to_owned() + &"ä word ".repeat(40) + "</p>";
        let rendered =
            RenderedBody { html: body.clone(), markdown: "missing".into(), ..RenderedBody::default() };
        let content = Content::new(rendered, &PageSpill::default());
        let page = Bytes::from(format!("<p>{}<main>{body}</main>", &body[..80]));
        let within = content.as_slices_of(&page, &Bytes::from_static(b"nothing"));
        assert_eq!(&*within.html, body);
        assert!(page.as_ptr_range().contains(&within.html.0.as_ptr()), "a slice of the page");
        assert_eq!(&*within.markdown, "missing", "text that is not in the page is kept");
        assert!(within == content);
    }

    #[test]
    fn blocks_are_found_again_in_their_order() {
        let block = |number: u8| (blake3::hash(&[number]), "<pre>same</pre>".to_owned());
        let rendered = RenderedBody {
            html: "<pre>same</pre><p>x</p><pre>same</pre>".into(),
            blocks: vec![block(1), block(2), block(3)],
            ..RenderedBody::default()
        };
        let content = Content::new(rendered, &PageSpill::default());
        let blocks = content.blocks();
        assert_eq!(blocks.len(), 2, "there are only two blocks");
        assert!(blocks.values().all(|html| *html == "<pre>same</pre>"));
    }
}
