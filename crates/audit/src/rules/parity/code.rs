//! Compares the lines of code in the HTML with those in the Markdown.

use std::collections::{HashMap, HashSet};

use super::comparison::Comparison;
use crate::markdown::{BlockKind, MarkdownPage, TextBlock};

/// Minimum number of letters and digits in a compared line: a shorter line may occur anywhere by chance.
const MIN_LETTERS: usize = 8;

/// Maximum number of lines of code to compare per page.
const MAX_LINES: usize = 1000;

/// Each line of code in the HTML, in order, and whether the Markdown has it.
pub(super) struct Code<'a> {
    pub lines: Vec<(&'a str, LineMatch)>,
}

/// Whether the Markdown has a line of code from the HTML.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineMatch {
    Found,
    /// The Markdown has this similar line, which differs only in punctuation or in numbers.
    Altered(String),
    Missing,
}

impl<'a> Code<'a> {
    /// Compares lines without white space, and without prompts and marks of changes at their start. A line
    /// that the Markdown splits, or has within its text, counts as found. Code that other pages have, or that
    /// surrounds the content, is left out, as are lines with few letters and those after the first
    /// [`MAX_LINES`].
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
        let blocks: Vec<_> = blocks.collect();
        let by_shape = lines_without_equal(markdown, &blocks);
        let lines = blocks.into_iter().flat_map(|block| block.text.lines());
        let lines = lines.filter(|line| letters(line).len() >= MIN_LETTERS).take(MAX_LINES);
        let lines = lines.map(|line| {
            let line_match = if exact.contains(&compact(line)) || everything.contains(&compact(line)) {
                LineMatch::Found
            } else if let Some(other) = by_letters.get(&letters(line)) {
                // Only punctuation differs.
                LineMatch::Altered((*other).to_owned())
            } else if all_letters.contains(&letters(line)) {
                // Accept a line that the Markdown splits or joins: its letters and digits occur in sequence.
                LineMatch::Found
            } else if let Some(other) = by_shape.get(&shape(line)) {
                // Only numbers differ.
                LineMatch::Altered((*other).to_owned())
            } else {
                LineMatch::Missing
            };
            (line, line_match)
        });
        Code { lines: lines.collect() }
    }
}

/// The lines of code of the Markdown that the HTML does not have, by their shapes. Only shapes with enough
/// letters to identify a line, and with one line, are included.
fn lines_without_equal<'a>(markdown: &'a MarkdownPage, reference: &[&TextBlock]) -> HashMap<String, &'a str> {
    let in_html: HashSet<_> = reference.iter().flat_map(|block| block.text.lines()).map(compact).collect();
    let mut by_shape: HashMap<String, Vec<&str>> = HashMap::new();
    for line in markdown.code.iter().flat_map(|(_, code)| code.lines()) {
        let shape = shape(line);
        let count = shape.chars().filter(|c| c.is_alphabetic()).count();
        if count >= MIN_LETTERS && !in_html.contains(&compact(line)) {
            by_shape.entry(shape).or_default().push(line);
        }
    }
    let single = by_shape.into_iter().filter_map(|(shape, lines)| match lines[..] {
        [line] => Some((shape, line)),
        _ => None,
    });
    single.collect()
}

/// The [`compact`] line with `0` in place of each number or version.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    let mut is_number = false;
    for c in compact(line).chars() {
        let continues = c.is_ascii_digit() || is_number && c == '.';
        if !continues {
            shape.push(c);
        } else if !is_number {
            shape.push('0');
        }
        is_number = continues;
    }
    shape
}

/// The first indented line of a code block that the Markdown has only without indentation.
pub(super) fn lost_indentation<'a>(comparison: &'a Comparison<'_>) -> Option<&'a str> {
    let compacted = |code: &str| -> Vec<String> {
        code.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let code = comparison.markdown.code.iter();
    let flat = code.map(|(_, code)| code).filter(|code| indented_line(code).is_none());
    let flat: HashSet<_> = flat.map(|code| compacted(code)).collect();
    let kept = comparison.markdown.code.iter().filter(|(_, code)| indented_line(code).is_some());
    let kept: HashSet<_> = kept.map(|(_, code)| compacted(code)).collect();
    let blocks = comparison.page.reference.code.iter().map(|(_, code)| code);
    blocks.into_iter().find_map(|code| {
        let lines = compacted(code);
        indented_line(code).filter(|_| flat.contains(&lines) && !kept.contains(&lines))
    })
}

/// The first line, apart from the first line of the code, that is indented more than another such line;
/// `None` if there is none. Blank lines are ignored. The first line does not count, because templates often
/// indent all lines but that one by accident.
fn indented_line(code: &str) -> Option<&str> {
    let lines = || code.lines().skip(1).filter(|line| !line.trim().is_empty());
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let least = lines().map(indentation).min()?;
    lines().find(|line| indentation(line) > least)
}

/// Removes all white space, and the marks of shell prompts, diffs and `#` comments at the start of a line.
fn compact(line: &str) -> String {
    let line = line.trim_start().trim_start_matches(['$', '>', '#', '+', '-', '%', '❯']);
    line.chars().filter(|c| !c.is_whitespace()).collect()
}

fn letters(line: &str) -> String {
    line.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Decodes the character references that converters leave in code by mistake.
fn decode(line: &str) -> String {
    let references = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    references.iter().fold(line.to_owned(), |line, (reference, character)| line.replace(reference, character))
}
