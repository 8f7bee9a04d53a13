//! Writes blocks as GitHub Flavored Markdown.

use super::inline_markdown_tokenizer::find_unescaped;
use super::markdown_block::{Alignment, Block, List, MarkdownTable};

/// Lists and quotes nested deeper than this are written at this depth, so that indentation cannot multiply
/// the output.
const MAX_NESTING: usize = 24;

/// Writes a document, which ends with one line break unless it is empty. Stops early once the output exceeds
/// `limit` bytes.
pub(super) fn write_markdown(blocks: &[Block], limit: usize) -> String {
    let mut writer =
        MarkdownWriter { out: String::new(), prefix: String::new(), nesting: 0, has_marker: false, limit };
    writer.write_blocks(blocks, false);
    writer.out.truncate(writer.out.trim_end().len());
    if !writer.out.is_empty() {
        writer.out.push('\n');
    }
    writer.out
}

struct MarkdownWriter {
    out: String,
    /// The text at the beginning of each line inside quotes and list items.
    prefix: String,
    nesting: usize,
    /// Whether the current line already begins with a marker, such as `- ` or `> `.
    has_marker: bool,
    limit: usize,
}

impl MarkdownWriter {
    /// Writes the prefix of the enclosing quotes and items, unless the line already begins with a marker.
    fn start_line(&mut self) {
        if !std::mem::take(&mut self.has_marker) {
            self.out.push_str(&self.prefix);
        }
    }

    fn write_line(&mut self, text: &str) {
        self.start_line();
        self.out.push_str(text);
        self.end_line();
    }

    /// Ends the line, and removes spaces before its end.
    fn end_line(&mut self) {
        let end = self.out.trim_end_matches(' ').len();
        self.out.truncate(end);
        self.out.push('\n');
    }

    fn write_lines(&mut self, text: &str) {
        for line in text.split('\n') {
            self.write_line(line);
        }
    }

    /// Writes blocks with blank lines between them, but in a tight list item only where necessary. Of two
    /// adjacent lists, the second begins a new one: a comment separates two ordered lists, and of unordered
    /// lists every other one gets another marker. Leaves out the rest once the output exceeds the limit.
    fn write_blocks(&mut self, blocks: &[Block], is_tight: bool) {
        let mut alternates = false;
        for (i, block) in blocks.iter().enumerate() {
            if self.out.len() > self.limit {
                return;
            }
            let previous = i.checked_sub(1).map(|i| &blocks[i]);
            if previous.is_some_and(|p| !is_tight || needs_blank_line(p, block)) {
                self.write_line("");
            }
            alternates = match (previous, block) {
                (Some(Block::List(a)), Block::List(b)) => match (a.start, b.start) {
                    // Ordered lists are always written with `1.` and the like, so a comment separates two of
                    // them.
                    (Some(_), Some(_)) => {
                        self.write_line("<!-- -->");
                        self.write_line("");
                        false
                    }
                    (None, None) => !alternates,
                    _ => false,
                },
                _ => false,
            };
            self.write_block(block, alternates);
        }
    }

    /// Writes a block. If `alternates` is true, an unordered list gets the other kind of marker, so that it
    /// does not continue the list before it. Beyond [`MAX_NESTING`] levels, quotations and alerts lose their
    /// marks.
    fn write_block(&mut self, block: &Block, alternates: bool) {
        match block {
            Block::Heading { level, text } => {
                let text = text.replace('\n', " ");
                self.write_line(&format!("{} {}", "#".repeat((*level).into()), escape_heading_end(&text)));
            }
            Block::Paragraph(text) => self.write_paragraph(text),
            Block::Code { language, text } => self.write_code(language, text),
            Block::Math(tex) => {
                self.write_line("$$");
                self.write_lines(tex);
                self.write_line("$$");
            }
            Block::Quote(blocks) | Block::Alert { blocks, .. } if self.nesting >= MAX_NESTING => {
                self.write_blocks(blocks, false);
            }
            Block::Quote(blocks) => self.write_marked("> ", "> ", blocks, false),
            Block::Alert { kind, blocks } => {
                self.write_line(&format!("> [!{kind}]"));
                self.write_nested("> ", blocks, false);
            }
            Block::List(list) => self.write_list(list, alternates),
            Block::Table(table) => self.write_table(table),
            // After a list marker, `---` or `***` would turn the whole line into a rule, as in `- ---`.
            Block::Rule => self.write_line(if self.has_marker { "___" } else { "---" }),
            Block::Html(html) => self.write_lines(html),
            Block::Footnote { label, blocks } => {
                self.write_marked(&format!("[^{label}]: "), "    ", blocks, false);
            }
        }
    }

    /// Writes blocks with `prefix` at the start of each line. Adds no prefix beyond [`MAX_NESTING`] levels.
    fn write_nested(&mut self, prefix: &str, blocks: &[Block], is_tight: bool) {
        let length = self.prefix.len();
        if self.nesting < MAX_NESTING {
            self.prefix.push_str(prefix);
        }
        self.nesting += 1;
        self.write_blocks(blocks, is_tight);
        self.nesting -= 1;
        self.prefix.truncate(length);
    }

    /// Writes a marker such as `- `, and then the blocks. All lines after the first begin with `prefix`.
    fn write_marked(&mut self, marker: &str, prefix: &str, blocks: &[Block], is_tight: bool) {
        self.start_line();
        self.out.push_str(marker);
        self.has_marker = true;
        self.write_nested(prefix, blocks, is_tight);
        // If no block was written after the marker, end its line.
        if std::mem::take(&mut self.has_marker) {
            self.end_line();
        }
    }

    /// Writes a paragraph. Line feeds in the text become hard line breaks.
    fn write_paragraph(&mut self, text: &str) {
        let mut lines = text.split('\n').enumerate().peekable();
        while let Some((i, line)) = lines.next() {
            self.start_line();
            push_escaped_line(&mut self.out, line, i > 0);
            if lines.peek().is_some() {
                self.out.push_str("  \n");
            } else {
                self.end_line();
            }
        }
    }

    /// Writes a fenced code block. The fence is longer than any run of backticks in the code, and lines keep
    /// the spaces at their ends.
    fn write_code(&mut self, language: &str, text: &str) {
        let fence = "`".repeat(longest_run(text, '`').max(2) + 1);
        self.write_line(&format!("{fence}{language}"));
        for line in text.split('\n').take(if text.is_empty() { 0 } else { usize::MAX }) {
            self.start_line();
            self.out.push_str(line);
            if line.is_empty() { self.end_line() } else { self.out.push('\n') }
        }
        self.write_line(&fence);
    }

    /// Writes a list with the marker `-`, or `*` if `alternates`, or with numbers. Larger numbers than the
    /// nine digits of CommonMark are written as 999999999. Leaves out the items beyond the limit.
    fn write_list(&mut self, list: &List, alternates: bool) {
        for (i, item) in list.items.iter().enumerate() {
            if self.out.len() > self.limit {
                return;
            }
            if i > 0 && list.is_loose {
                self.write_line("");
            }
            let mut marker = match list.start {
                Some(start) => {
                    let number = start.saturating_add(u32::try_from(i).unwrap_or(u32::MAX)).min(999_999_999);
                    format!("{number}. ")
                }
                None if alternates => "* ".to_owned(),
                None => "- ".to_owned(),
            };
            let indent = " ".repeat(marker.len());
            match item.checked {
                Some(true) => marker.push_str("[x] "),
                Some(false) => marker.push_str("[ ] "),
                None => {}
            }
            self.write_marked(&marker, &indent, &item.blocks, !list.is_loose);
        }
    }

    /// Writes a table, whose first row is the header. Adds empty cells to short rows. Leaves out the rows
    /// beyond the limit.
    fn write_table(&mut self, table: &MarkdownTable) {
        for (i, row) in table.rows.iter().enumerate() {
            self.start_line();
            self.out.push('|');
            for cell in row {
                self.out.push(' ');
                self.out.push_str(cell);
                self.out.push_str(if cell.is_empty() { "|" } else { " |" });
            }
            for _ in row.len()..table.alignments.len() {
                self.out.push_str(" |");
            }
            self.end_line();
            if i == 0 {
                let rule = |a: &Alignment| match a {
                    Alignment::None => " --- |",
                    Alignment::Left => " :--- |",
                    Alignment::Center => " :---: |",
                    Alignment::Right => " ---: |",
                };
                let rules: String = table.alignments.iter().map(rule).collect();
                self.write_line(&format!("|{rules}"));
            }
            if self.out.len() > self.limit {
                return;
            }
        }
    }
}

/// Whether a block needs a blank line before it even in a tight list item.
pub(super) fn needs_blank_line(previous: &Block, block: &Block) -> bool {
    match (previous, block) {
        (Block::Heading { .. } | Block::Code { .. } | Block::Rule, block) => {
            matches!(block, Block::Table(_) | Block::Html(_))
        }
        (Block::Paragraph(_) | Block::Quote(_), Block::Code { .. } | Block::Heading { .. })
        | (Block::Paragraph(_), Block::Quote(_)) => false,
        (Block::Paragraph(_), Block::List(list)) => list.start.is_some_and(|start| start != 1),
        _ => true,
    }
}

/// The length of the longest run of a character.
pub(super) fn longest_run(text: &str, c: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for other in text.chars() {
        run = if other == c { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Escapes `#` at the end of a heading, which Markdown would otherwise drop as a closing sequence.
pub(super) fn escape_heading_end(text: &str) -> String {
    let stem = text.trim_end_matches('#');
    if stem.len() < text.len() && (stem.is_empty() || stem.ends_with(' ')) {
        return format!("{stem}\\{}", &text[stem.len()..]);
    }
    text.to_owned()
}

/// Appends a line of a paragraph. Escapes a beginning that would start another block, define a link, or turn
/// the line before it into a heading or a table.
pub(super) fn push_escaped_line(out: &mut String, line: &str, is_continuation: bool) {
    let bytes = line.as_bytes();
    let ends_marker = |at: usize| matches!(bytes.get(at), None | Some(b' ' | b'\t'));
    // Markdown reads a line of dashes as a rule. After a list marker, even a single dash is one.
    let is_dashes = bytes.iter().all(|&b| b == b'-' || b == b' ');
    let is_underline = |c: u8| is_continuation && line.trim_end().bytes().all(|b| b == c);
    // A line such as `--|--` would turn the line before it into the header of a table.
    let is_delimiter_row = is_continuation
        && bytes.contains(&b'-')
        && bytes.iter().all(|b| matches!(b, b'-' | b':' | b'|' | b' '));
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let at = match bytes.first() {
        Some(b'#') => {
            let level = bytes.iter().take_while(|&&b| b == b'#').count();
            (level <= 6 && ends_marker(level)).then_some(0)
        }
        Some(b'>' | b'|') => Some(0),
        _ if is_delimiter_row => Some(0),
        Some(b'-') => (ends_marker(1) || is_dashes || is_underline(b'-')).then_some(0),
        Some(b'+') => ends_marker(1).then_some(0),
        Some(b'_') => (bytes.len() > 2 && bytes.iter().all(|&b| b == b'_' || b == b' ')).then_some(0),
        Some(b'=') => is_underline(b'=').then_some(0),
        Some(b'~') => line.starts_with("~~~").then_some(0),
        // A line such as `[a]: b` would define the address of a link.
        Some(b'[') => {
            find_unescaped(line, |b| b == b']').filter(|end| bytes.get(end + 1) == Some(&b':')).map(|_| 0)
        }
        _ if (1..=9).contains(&digits) && matches!(bytes.get(digits), Some(b'.' | b')')) => {
            ends_marker(digits + 1).then_some(digits)
        }
        _ => None,
    };
    match at {
        Some(at) => {
            out.push_str(&line[..at]);
            out.push('\\');
            out.push_str(&line[at..]);
        }
        None => out.push_str(line),
    }
}

#[cfg(test)]
mod tests {
    use super::super::markdown_block::Item;
    use super::*;

    fn paragraph(text: &str) -> Block {
        Block::Paragraph(text.to_owned())
    }

    fn item(blocks: Vec<Block>) -> Item {
        Item { checked: None, blocks }
    }

    #[test]
    fn nests_lists_in_quotes() {
        let inner = List { start: Some(1), is_loose: false, items: vec![item(vec![paragraph("x")]); 2] };
        let blocks = vec![paragraph("first"), Block::List(inner)];
        let outer = List { start: None, is_loose: false, items: vec![item(blocks), item(vec![])] };
        let text = write_markdown(&[Block::Quote(vec![paragraph("a"), Block::List(outer)])], 1000);
        assert_eq!(text, "> a\n>\n> - first\n>   1. x\n>   2. x\n> -\n");
    }

    #[test]
    fn escapes_only_what_would_start_a_block() {
        for (text, expected) in [
            ("1. x", "1\\. x"),
            ("1.5 x", "1.5 x"),
            ("# x", "\\# x"),
            ("#x", "#x"),
            ("- x", "\\- x"),
            ("-x", "-x"),
            ("a\n---", "a  \n\\---"),
            ("_ _ _", "\\_ _ _"),
            ("_ a", "_ a"),
            ("a | b\n--- | :-:", "a | b  \n\\--- | :-:"),
            ("a\n:-", "a  \n\\:-"),
            ("--- | ---", "--- | ---"),
            ("> x", "\\> x"),
            ("[a]: b", "\\[a]: b"),
            ("[a \\[b\\]:](c)", "[a \\[b\\]:](c)"),
        ] {
            assert_eq!(write_markdown(&[paragraph(text)], 1000).trim_end(), expected);
        }
    }

    #[test]
    fn fences_code_that_contains_fences() {
        let code = Block::Code { language: "md".to_owned(), text: "```\nx\n```".to_owned() };
        assert_eq!(write_markdown(&[code], 1000), "````md\n```\nx\n```\n````\n");
    }

    #[test]
    fn separates_adjacent_lists_by_their_markers() {
        let list =
            Block::List(List { start: None, is_loose: false, items: vec![item(vec![paragraph("x")])] });
        assert_eq!(write_markdown(&[list.clone(), list], 1000), "- x\n\n* x\n");
    }
}
