//! What a body has become: kept from one load to the next, for as long as nothing that it depends on changes.

use std::collections::HashMap;
use std::ops::{Deref, Range};
use std::sync::Arc;

use blake3::Hash;
use bytes::Bytes;

use super::link::Target;
use super::markdown::{Consulted, Heading, Remark, Rendered};

/// Text that may be a part of something larger, which it keeps in memory then.
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
        // It was text when it was made, and every piece of it is cut where text was found.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Text {
    /// The same text as a part of `whole`, if it stands in there.
    fn within(&self, whole: &Bytes) -> Option<Self> {
        let text = std::str::from_utf8(whole).ok()?;
        let at = position(text, self, 0)?;
        Some(Self(whole.slice(at..at + self.len())))
    }
}

/// Where `part` begins in `whole`, not before `from`. Both may be long, and share long pieces only where one is the other's copy.
fn position(whole: &str, part: &str, from: usize) -> Option<usize> {
    let beginning = &part[..part.floor_char_boundary(64)];
    let candidates = whole.get(from..)?.match_indices(beginning).map(|(at, _)| from + at);
    candidates.take(1_000).find(|at| whole[*at..].starts_with(part))
}

/// A body in both representations.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    /// For people, without the title.
    pub html: Text,
    /// For everybody else, every link absolute.
    pub markdown: Text,
    /// What is known of it. Made with the two, so that whoever has the same has the same text.
    pub facts: Arc<Facts>,
}

/// What is known of a body.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub headings: Vec<Heading>,
    pub links: Vec<(Target, usize)>,
    pub remarks: Vec<Remark>,
    pub words: usize,
    pub consulted: Consulted,
    /// Where blocks of code stand in the HTML.
    blocks: Vec<(Hash, Range<usize>)>,
}

impl From<Rendered> for Content {
    fn from(rendered: Rendered) -> Self {
        let Rendered { html, markdown, headings, links, remarks, words, consulted, blocks } = rendered;
        let mut end = 0;
        let blocks = blocks.into_iter().filter_map(|(of, block)| {
            let start = position(&html, &block, end)?;
            end = start + block.len();
            Some((of, start..end))
        });
        let blocks = blocks.collect();
        let facts = Facts { headings, links, remarks, words, consulted, blocks };
        Self { html: html.into(), markdown: markdown.into(), facts: Arc::new(facts) }
    }
}

impl Content {
    /// Blocks of code by what they were made of.
    pub fn blocks(&self) -> HashMap<Hash, &str> {
        let html: &str = &self.html;
        self.facts.blocks.iter().filter_map(|(of, at)| Some((*of, html.get(at.clone())?))).collect()
    }

    /// The same as parts of the two files of a page: where both are in memory anyway, nothing is there twice.
    pub fn within(&self, html: &Bytes, markdown: &Bytes) -> Self {
        let part = |text: &Text, whole| text.within(whole).unwrap_or_else(|| text.clone());
        Self {
            html: part(&self.html, html),
            markdown: part(&self.markdown, markdown),
            facts: self.facts.clone(),
        }
    }
}

/// Content is the same where it was made by the same rendering, or reads the same.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.facts, &other.facts)
            || (self.html == other.html
                && self.markdown == other.markdown
                && self.facts.words == other.facts.words
                && self.facts.headings == other.facts.headings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_found_in_the_page_that_holds_it() {
        let body = "<p>".to_owned() + &"ä word ".repeat(40) + "</p>";
        let rendered = Rendered { html: body.clone(), markdown: "missing".into(), ..Rendered::default() };
        let content = Content::from(rendered);
        let page = Bytes::from(format!("<p>{}<main>{body}</main>", &body[..80]));
        let within = content.within(&page, &Bytes::from_static(b"nothing"));
        assert_eq!(&*within.html, body);
        assert!(page.as_ptr_range().contains(&within.html.0.as_ptr()), "it is a part of the page");
        assert_eq!(&*within.markdown, "missing", "what is not found stays as it is");
        assert!(within == content);
    }

    #[test]
    fn blocks_are_found_again_in_their_order() {
        let block = |number: u8| (blake3::hash(&[number]), "<pre>same</pre>".to_owned());
        let rendered = Rendered {
            html: "<pre>same</pre><p>x</p><pre>same</pre>".into(),
            blocks: vec![block(1), block(2), block(3)],
            ..Rendered::default()
        };
        let content = Content::from(rendered);
        let blocks = content.blocks();
        assert_eq!(blocks.len(), 2, "a third one is not there");
        assert!(blocks.values().all(|html| *html == "<pre>same</pre>"));
    }
}
