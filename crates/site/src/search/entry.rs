//! Writes the entry of a page in the search index.

use std::borrow::Cow;

use super::text::{PageText, TextPart};
use super::words::{WordHash, for_each_word};
use crate::page_bodies::Content;
use frontdesk_forms::text::cut_by;
use frontdesk_process::hash_maps::HashSet;
use frontdesk_process::page_spill::PageSpill;

/// Maximum lengths of titles and descriptions, in bytes.
pub(super) const MAX_TITLE: usize = 200;
const MAX_DESCRIPTION: usize = 300;

/// A page to add to the search index.
#[derive(Debug, Clone)]
pub(crate) struct SearchDocument<'a> {
    /// The percent-encoded path.
    pub path: Cow<'a, str>,
    pub title: &'a str,
    pub description: &'a str,
    /// The body, without the title.
    pub content: &'a Content,
    /// The storage that may hold the body on disk.
    pub spill: Option<&'a PageSpill>,
}

impl SearchDocument<'_> {
    /// The text of the body, and the hashes of its words.
    pub(super) fn read_text(&self) -> (PageText, Vec<WordHash>) {
        let read = PageText::read(&self.content.html);
        self.spill.inspect(|spill| spill.note_read(self.content.html.size()));
        read
    }
}

/// The parts of each page that an index contains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Detail {
    /// Maximum length of a page's text in bytes.
    pub text: usize,
    /// Maximum number of sections.
    pub sections: usize,
    pub has_description: bool,
}

impl Detail {
    /// Whether an index with this detail leaves out a part of the page's text, or some of its sections.
    pub fn cuts(&self, page: &PageText) -> bool {
        page.length() > self.text || page.parts().count() > self.sections
    }
}

/// Writes the entry of a page as JSON. `words` has the page's words, those on the fewest pages first; `None`
/// if the text is not cut. In a cut text, half of the length is shared among the sections, and half is for
/// the words that they lack. Titles, headings and descriptions are always cut to their maximum lengths.
/// Leaves out sections whose heading and text are both empty.
pub(super) fn write_entry(
    document: &SearchDocument<'_>,
    page: &PageText,
    detail: Detail,
    words: Option<&[(WordHash, &str)]>,
) -> String {
    let mut shown: Vec<TextPart<'_>> = page.parts().take(detail.sections).collect();
    let words = words.map_or_else(String::new, |words| {
        let (count, of_words) = (shown.len(), detail.text / 2);
        let mut left = detail.text - of_words;
        for (index, part) in shown.iter_mut().enumerate() {
            part.text = cut(part.text, left / (count - index));
            left -= part.text.len();
        }
        other_words(&shown, words, of_words)
    });
    let sections: Vec<(&str, &str, &str)> = shown
        .iter()
        .filter(|part| !part.heading.is_empty() || !part.text.is_empty())
        .map(|part| (part.anchor, cut(part.heading, MAX_TITLE), part.text))
        .collect();
    let description = if detail.has_description { cut(document.description, MAX_DESCRIPTION) } else { "" };
    to_json(&(&document.path, cut(document.title, MAX_TITLE), description, sections, words))
}

/// Writes an entry without text and description.
pub(super) fn write_title(document: &SearchDocument<'_>) -> String {
    to_json(&(&document.path, cut(document.title, MAX_TITLE), "", [""; 0], ""))
}

fn to_json(entry: &impl serde::Serialize) -> String {
    serde_json::to_string(entry).unwrap_or_default()
}

/// The beginning of `text` with at most `length` bytes. If that cuts the text, it ends before a space, or
/// after any character if there is no space in its second half.
fn cut(text: &str, length: usize) -> &str {
    let part = &text[..text.floor_char_boundary(length)];
    if part.len() == text.len() {
        return part;
    }
    // Cut after a character in languages without spaces, which have no word boundaries to look for.
    match part.rfind(' ') {
        Some(end) if end >= part.len() / 2 => &part[..end],
        _ => cut_by(text, length, char::len_utf8),
    }
}

/// The first of those `words` that the shown texts do not contain, with a total length of at most `length`
/// bytes. Leaves out a word with the same hash as a shown one. Stops at the first word that does not fit.
fn other_words(shown: &[TextPart<'_>], words: &[(WordHash, &str)], length: usize) -> String {
    let mut known = HashSet::default();
    for part in shown {
        for_each_word(part.text, |hash, _| {
            known.insert(hash);
        });
    }
    let mut text = String::with_capacity(length);
    for (_, word) in words.iter().filter(|(hash, _)| !known.contains(hash)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_spaces_are_cut_between_characters() {
        let html = format!("<p>{}</p>", "検索できる文章".repeat(20));
        let content = Content::default();
        let document = SearchDocument {
            path: "/a/".into(),
            title: "A",
            description: "",
            content: &content,
            spill: None,
        };
        let detail = Detail { text: 100, sections: 5, has_description: true };
        let entry = write_entry(&document, &PageText::read(&html).0, detail, Some(&[]));
        let cut: serde_json::Value = serde_json::from_str(&entry).expect("JSON");
        let text = cut[3][0][2].as_str().expect("text");
        assert!(text.len() > 40 && text.len() <= 50 && html.contains(text), "{text}");
        assert_eq!(cut[4], "");
    }
}
