//! Compares the lines of code in the HTML with those in the Markdown.

use std::collections::{HashMap, HashSet};

use super::comparison::Comparison;
use crate::markdown::BlockKind;

/// Shorter lines, in letters and digits, may occur anywhere by chance.
const MIN_LETTERS: usize = 8;

/// The most lines of a page that are compared.
const MAX_LINES: usize = 1000;

/// The lines of code of the HTML, in order, with their states.
pub(super) struct Code<'a> {
    pub lines: Vec<(&'a str, LineState)>,
}

/// The state of a line of code in the Markdown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineState {
    Found,
    /// The Markdown has the letters and digits, but other characters: this line.
    Altered(String),
    Missing,
}

impl<'a> Code<'a> {
    /// Compares lines without white space, and without prompts and marks of changes at their start. Code that
    /// other pages have, or that surrounds the content, is left out.
    pub fn compare(comparison: &'a Comparison<'_>) -> Code<'a> {
        let markdown = comparison.markdown;
        let blocks = markdown.blocks.iter().flat_map(|block| block.text.lines());
        let own: Vec<_> = blocks.chain(markdown.html.iter().flat_map(|html| html.lines())).collect();
        let exact: HashSet<_> = own.iter().map(|line| compact(line)).collect();
        let by_letters: HashMap<_, _> = own.iter().map(|line| (letters(&decode(line)), *line)).collect();
        let everything: String = own.iter().map(|line| compact(line)).collect();
        let all_letters: String = own.iter().map(|line| letters(&decode(line))).collect();
        let blocks = comparison.page.reference.blocks.iter().filter(|block| block.kind == BlockKind::Code);
        let blocks = blocks.filter(|block| !comparison.is_surrounding(&block.text));
        let lines = blocks.flat_map(|block| block.text.lines());
        let lines = lines.filter(|line| letters(line).len() >= MIN_LETTERS).take(MAX_LINES);
        let lines = lines.map(|line| {
            let state = if exact.contains(&compact(line)) || everything.contains(&compact(line)) {
                LineState::Found
            } else if let Some(other) = by_letters.get(&letters(line)) {
                LineState::Altered((*other).to_owned())
            } else if all_letters.contains(&letters(line)) {
                // The line is divided or joined with others, so its characters cannot be compared.
                LineState::Found
            } else {
                LineState::Missing
            };
            (line, state)
        });
        Code { lines: lines.collect() }
    }
}

/// A line without white space, a prompt or a mark of a change.
fn compact(line: &str) -> String {
    let line = line.trim_start().trim_start_matches(['$', '>', '#', '+', '-', '%', '❯']);
    line.chars().filter(|c| !c.is_whitespace()).collect()
}

fn letters(line: &str) -> String {
    line.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// A line without character references, which converters leave in code by mistake.
fn decode(line: &str) -> String {
    let references = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    references.iter().fold(line.to_owned(), |line, (reference, character)| line.replace(reference, character))
}
