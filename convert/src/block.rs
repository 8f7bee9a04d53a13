//! The blocks of a Markdown document: an intermediate form between the HTML tree and the Markdown text.

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
