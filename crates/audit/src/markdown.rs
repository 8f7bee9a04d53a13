//! Parses Markdown into the parts that the rules compare: headings, links, code, tables and blocks of text.

use comrak::arena_tree::NodeEdge;
use comrak::nodes::{AstNode, NodeValue};
use comrak::{Arena, Options, parse_document};

/// Maximum number of bytes that are parsed: some input takes quadratic time.
const MAX_BYTES: usize = 256 * 1024;

/// The parts of a Markdown document, without its front matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkdownPage {
    /// The levels and texts of headings, in order.
    pub headings: Vec<(u8, String)>,
    /// The targets of links and autolinks as written, in order, without images.
    pub links: Vec<String>,
    /// The info strings and contents of code blocks, in order.
    pub code: Vec<(String, String)>,
    /// The raw HTML: each HTML block and each piece of inline HTML.
    pub html: Vec<String>,
    /// All text, including code but not raw HTML. Single spaces separate the parts.
    pub text: String,
    /// The front matter with its delimiters; empty if there is none.
    pub front_matter: String,
    /// The targets of images as written, in order.
    pub images: Vec<String>,
    /// The blocks that have text of their own, in order.
    pub blocks: Vec<TextBlock>,
    pub tables: Vec<Table>,
    /// Whether the rest of a long document is missing.
    pub is_truncated: bool,
}

/// A table of a Markdown document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The text of the last heading before the table; empty if there is none.
    pub heading: String,
    /// The texts of the cells row by row, including the header, with single spaces between words.
    pub rows: Vec<Vec<String>>,
}

/// A block of a Markdown document that has text and no other blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextBlock {
    pub kind: BlockKind,
    /// The text with single spaces, without the texts of images. Of code, the content as written. Of raw
    /// HTML, the content without tags but with comments.
    pub text: String,
    /// The number of letters and digits in the links of the block.
    pub linked: usize,
    /// The targets of the block's links as written, in order.
    pub links: Vec<String>,
    /// Whether the block begins a list item, or begins with bold text.
    pub is_marked: bool,
}

/// The kind of a [`TextBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// A heading with its level, from 1 to 6.
    Heading(u8),
    /// A paragraph, including one in a list item, or a table cell.
    Prose,
    Code,
    Html,
}

impl MarkdownPage {
    /// Parses the first [`MAX_BYTES`] of a document in GitHub Flavored Markdown. The descriptions of images
    /// are part of `headings` and `text`, but not of the text of blocks.
    pub fn parse(source: &str) -> MarkdownPage {
        let mut options = Options::default();
        options.extension.table = true;
        options.extension.strikethrough = true;
        options.extension.autolink = true;
        options.extension.tasklist = true;
        options.extension.footnotes = true;
        options.extension.front_matter_delimiter = Some("---".to_owned());
        let arena = Arena::new();
        let is_truncated = source.len() > MAX_BYTES;
        let source = &source[..source.floor_char_boundary(MAX_BYTES)];
        let root = parse_document(&arena, source.trim_start_matches('\u{feff}'), &options);
        let mut page = MarkdownPage { is_truncated, ..MarkdownPage::default() };
        let mut words: Vec<String> = Vec::new();
        for node in root.descendants() {
            let data = node.data.borrow();
            page.blocks.extend(read_block(node));
            match &data.value {
                NodeValue::FrontMatter(text) => page.front_matter.clone_from(text),
                NodeValue::Image(image) => page.images.push(image.url.clone()),
                NodeValue::Heading(heading) => {
                    let mut text = String::new();
                    for inner in node.descendants() {
                        match &inner.data.borrow().value {
                            NodeValue::Text(part) => text += part,
                            NodeValue::Code(code) => text += &code.literal,
                            NodeValue::SoftBreak | NodeValue::LineBreak => text.push(' '),
                            _ => {}
                        }
                    }
                    page.headings.push((heading.level, text.trim().to_owned()));
                    words.push(" ".to_owned());
                }
                NodeValue::Table(_) => {
                    let heading = page.headings.last().map(|(_, text)| text.clone()).unwrap_or_default();
                    page.tables.push(Table { heading, rows: read_rows(node) });
                }
                NodeValue::Link(link) => page.links.push(link.url.clone()),
                NodeValue::CodeBlock(code) => {
                    page.code.push((code.info.clone(), code.literal.clone()));
                    words.push(format!(" {} ", code.literal));
                }
                NodeValue::HtmlBlock(html) => page.html.push(html.literal.clone()),
                NodeValue::HtmlInline(html) => {
                    page.html.push(html.clone());
                    page.blocks.extend(read_comment(html));
                }
                NodeValue::Text(text) => words.push(text.to_string()),
                NodeValue::Code(code) => words.push(code.literal.clone()),
                value if value.block() || matches!(value, NodeValue::SoftBreak | NodeValue::LineBreak) => {
                    words.push(" ".to_owned());
                }
                _ => {}
            }
        }
        page.text = words.concat().split_whitespace().collect::<Vec<_>>().join(" ");
        page
    }
}

/// Reads a heading, a paragraph, a table cell, a code block or a block of raw HTML; `None` for other nodes.
/// The text lacks HTML tags outside of code, descriptions of images, and comments outside of blocks of raw
/// HTML.
fn read_block<'a>(node: &'a AstNode<'a>) -> Option<TextBlock> {
    let (kind, text) = match &node.data.borrow().value {
        NodeValue::Heading(heading) => (BlockKind::Heading(heading.level), None),
        NodeValue::Paragraph | NodeValue::TableCell => (BlockKind::Prose, None),
        NodeValue::CodeBlock(code) => (BlockKind::Code, Some(code.literal.clone())),
        NodeValue::HtmlBlock(html) => (BlockKind::Html, Some(without_tags(&html.literal))),
        _ => return None,
    };
    if let Some(text) = text {
        return Some(TextBlock { kind, text, linked: 0, links: Vec::new(), is_marked: false });
    }
    let (mut text, mut linked, mut targets) = (String::new(), 0, Vec::new());
    // The number of links, and the number of images, that contain the current node.
    let (mut link_depth, mut image_depth) = (0, 0);
    for edge in node.traverse() {
        let (inner, is_start) = match edge {
            NodeEdge::Start(inner) => (inner, true),
            NodeEdge::End(inner) => (inner, false),
        };
        let data = inner.data.borrow();
        let own = match &data.value {
            NodeValue::Link(link) => {
                targets.extend(is_start.then(|| link.url.clone()));
                link_depth = if is_start { link_depth + 1 } else { link_depth - 1 };
                continue;
            }
            NodeValue::Image(_) => {
                image_depth = if is_start { image_depth + 1 } else { image_depth - 1 };
                continue;
            }
            _ if !is_start || image_depth > 0 => continue,
            NodeValue::Text(part) => part,
            NodeValue::Code(code) => &*code.literal,
            NodeValue::SoftBreak | NodeValue::LineBreak | NodeValue::HtmlInline(_) => " ",
            _ => continue,
        };
        if link_depth > 0 {
            linked += own.chars().filter(|c| c.is_alphanumeric()).count();
        }
        text += own;
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_value = |node: Option<&AstNode<'_>>, is: fn(&NodeValue) -> bool| {
        node.is_some_and(|node| is(&node.data.borrow().value))
    };
    let is_first = node.previous_sibling().is_none();
    let is_item =
        is_first && is_value(node.parent(), |is| matches!(is, NodeValue::Item(_) | NodeValue::TaskItem(_)));
    let is_marked = is_item || is_value(node.first_child(), |is| matches!(is, NodeValue::Strong));
    Some(TextBlock { kind, text, linked, links: targets, is_marked })
}

/// The text of each cell, row by row.
fn read_rows<'a>(table: &'a AstNode<'a>) -> Vec<Vec<String>> {
    let cells = |row: &'a AstNode<'a>| row.children().filter_map(read_block).map(|cell| cell.text).collect();
    table.children().map(cells).collect()
}

/// Reads a comment within a paragraph as a block of its own, because readers of the page do not see it.
/// `None` for other HTML and for empty comments.
fn read_comment(html: &str) -> Option<TextBlock> {
    let text = Some(without_tags(html)).filter(|text| html.starts_with("<!--") && !text.is_empty())?;
    Some(TextBlock { kind: BlockKind::Html, text, linked: 0, links: Vec::new(), is_marked: false })
}

/// The text of raw HTML without its tags. Comments stay, because agents read them.
fn without_tags(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        text += &rest[..start];
        rest = &rest[start..];
        let (skipped, end) =
            if rest.starts_with("<!--") { (4, Some(4)) } else { (1, rest.find('>').map(|end| end + 1)) };
        text.push(' ');
        rest = &rest[end.unwrap_or(skipped)..];
    }
    text += rest;
    text.replace("-->", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_document_are_found() {
        let page = MarkdownPage::parse(
            "---\ntitle: x\n---\n# One `a`\n\nText **bo**ld [link](/x) <b>y</b>\n\n```rust\nfn a() {}\n```\n\n- two\n- three\n",
        );
        assert_eq!(page.headings, [(1, "One a".to_owned())]);
        assert_eq!(page.links, ["/x"]);
        assert_eq!(page.code, [("rust".to_owned(), "fn a() {}\n".to_owned())]);
        assert_eq!(page.html, ["<b>", "</b>"]);
        assert_eq!(page.text, "One a Text bold link y fn a() {} two three");
    }

    #[test]
    fn blocks_have_their_own_text() {
        let page = MarkdownPage::parse(
            "---\ntitle: x\n---\n## One *two*\n\n- a [b c](/x) ![d](/i.png)<br>e<!-- m --><!-- -->\n\n| f |\n| - |\n| g |\n\n<div\nclass=h>i <!-- j --></div>\n\n```\nk\n```\n",
        );
        let rows = vec![vec!["f".to_owned()], vec!["g".to_owned()]];
        assert_eq!(page.tables, [Table { heading: "One two".to_owned(), rows }]);
        let blocks: Vec<_> =
            page.blocks.iter().map(|block| (block.kind, &*block.text, block.linked)).collect();
        let expected = [
            (BlockKind::Heading(2), "One two", 0),
            (BlockKind::Prose, "a b c e", 2),
            (BlockKind::Html, "m", 0),
            (BlockKind::Prose, "f", 0),
            (BlockKind::Prose, "g", 0),
            (BlockKind::Html, "i j", 0),
            (BlockKind::Code, "k\n", 0),
        ];
        assert_eq!(blocks, expected);
        assert_eq!(
            (page.images, page.front_matter.trim()),
            (vec!["/i.png".to_owned()], "---\ntitle: x\n---")
        );
    }
}
