//! The blocks of a Markdown document: an intermediate form between the HTML tree and the Markdown text.

use super::inline_markdown_tokenizer::{Kind, Parts};

/// A block. Except in code, formulas and HTML, text is inline Markdown, in which `\n` is a hard line break.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Block {
    Heading {
        level: u8,
        text: String,
    },
    Paragraph(String),
    Code {
        language: String,
        text: String,
    },
    /// The TeX of a display formula.
    Math(String),
    Quote(Vec<Block>),
    /// A GitHub alert; `kind` is in upper case, for example `NOTE`.
    Alert {
        kind: &'static str,
        blocks: Vec<Block>,
    },
    List(List),
    Table(MarkdownTable),
    Rule,
    /// Lines of raw HTML, which Markdown passes through.
    Html(String),
    Footnote {
        label: String,
        blocks: Vec<Block>,
    },
}

impl Block {
    /// Whether the block is a paragraph or list that consists of links, with none to an e-mail address or a
    /// telephone number.
    pub(super) fn is_only_links(&self) -> bool {
        match self {
            Self::Paragraph(text) => is_only_links(text),
            Self::List(list) => {
                let mut blocks = list.items.iter().flat_map(|item| &item.blocks);
                !list.items.is_empty()
                    && list.items.iter().all(|i| !i.blocks.is_empty())
                    && blocks.all(Self::is_only_links)
            }
            _ => false,
        }
    }
}

/// Whether inline Markdown consists of links: there is at least one, no letter, digit or image is outside of
/// them, and none is to an e-mail address or a telephone number.
fn is_only_links(text: &str) -> bool {
    let (mut depth, mut has_link) = (0_usize, false);
    for (kind, part) in Parts::new(text) {
        match kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::Destination => {
                if part.starts_with("](tel:") || part.starts_with("](mailto:") {
                    return false;
                }
                (depth, has_link) = (depth.saturating_sub(1), true);
            }
            Kind::Image if depth == 0 => return false,
            Kind::Text | Kind::Code if depth == 0 && part.contains(char::is_alphanumeric) => return false,
            Kind::Text | Kind::Code | Kind::Image | Kind::Escape | Kind::Tag => {}
        }
    }
    has_link
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct List {
    /// The first number of an ordered list; `None` for an unordered list.
    pub(super) start: Option<u32>,
    /// Whether blank lines separate the items.
    pub(super) is_loose: bool,
    pub(super) items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    /// Whether the task's checkbox is checked; `None` if the item is not a task.
    pub(super) checked: Option<bool>,
    pub(super) blocks: Vec<Block>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Alignment {
    #[default]
    None,
    Left,
    Center,
    Right,
}

/// A table of inline Markdown. There is one alignment for each column; the missing cells at the end of a row
/// are empty. The first row is the header.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MarkdownTable {
    pub(super) alignments: Vec<Alignment>,
    pub(super) rows: Vec<Vec<String>>,
}
