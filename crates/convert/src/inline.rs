//! Builds inline Markdown: collapses white space, places delimiters next to words, and escapes syntax in
//! text.

use super::autolink_detection::{end_of_address, ends_with_address, may_hide_address, may_precede_address};
use super::dom::{Tag, remove_invisible};
use super::writer::longest_run;

/// A kind of emphasis, written with delimiters, or with tags where delimiters would not be recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emphasis {
    Regular,
    Strong,
    Deleted,
}

impl Emphasis {
    /// The emphasis that an element adds to its text.
    pub(super) fn of(tag: Tag) -> Option<Self> {
        Some(match tag {
            Tag::Em | Tag::I => Self::Regular,
            Tag::Strong | Tag::B => Self::Strong,
            Tag::Del | Tag::S | Tag::Strike => Self::Deleted,
            _ => return None,
        })
    }

    /// The delimiter, and the name of the HTML tag for places where the delimiter would not be recognized.
    fn syntax(self) -> (&'static str, &'static str) {
        match self {
            Self::Regular => ("*", "em"),
            Self::Strong => ("**", "strong"),
            Self::Deleted => ("~~", "del"),
        }
    }

    pub(super) fn tag(self) -> &'static str {
        self.syntax().1
    }
}

/// An inline element that is open while its content is added.
#[derive(Clone, Debug, PartialEq)]
enum Open {
    Emphasis(Emphasis),
    /// A link, with the Markdown that follows its text: `](…)`.
    Link(String),
    /// An element that is written as an HTML tag.
    Tag(&'static str),
    /// An element that adds no syntax, such as a link inside a link.
    Nothing,
}

/// Maximum length in bytes of a code span to which the next one is joined. Joining writes the first span
/// again, so a longer one is followed by a space instead.
const MAX_JOINED_CODE: usize = 1000;

/// The kind of text that follows the text to escape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// The end of the line or paragraph.
    End,
    /// The closing syntax of emphasis, a link or an HTML element.
    Closing,
    /// The opening syntax of emphasis, a link or an HTML element, or finished Markdown such as a code span.
    Syntax,
}

/// The beginning or end of emphasis, at a position in the text.
struct Mark {
    position: usize,
    emphasis: Emphasis,
    /// Index in [`Inline::marks`] of the mark at the other end, valid once the emphasis is closed.
    other: usize,
    is_start: bool,
    is_dropped: bool,
    is_tag: bool,
}

impl Mark {
    fn new(position: usize, emphasis: Emphasis, other: usize, is_start: bool) -> Self {
        Self { position, emphasis, other, is_start, is_dropped: false, is_tag: false }
    }
}

/// Inline Markdown under construction. A hard line break is `\n`; two of them separate paragraphs.
#[derive(Default)]
pub(super) struct Inline {
    text: String,
    /// The end of the text, which is not escaped yet: the text after it decides which characters need a
    /// backslash.
    raw: String,
    has_space: bool,
    stack: Vec<Open>,
    /// Number of elements at the bottom of `stack` whose opening syntax has been written. The opening syntax
    /// of the others is written once they have content.
    written: usize,
    /// The start marks of open emphasis, as indexes in `marks`.
    starts: Vec<usize>,
    marks: Vec<Mark>,
    /// The last code span: where it begins and ends, and its code.
    code: Option<(usize, usize, String)>,
    /// Position in `text` directly after the last number that [`Inline::add_number`] added.
    item_start: usize,
    /// Whether the text is for a table cell, in which `|` needs a backslash.
    pub(super) is_cell: bool,
    /// Whether the text is the description of an image, in which brackets need a backslash.
    is_description: bool,
}

impl Inline {
    /// Inline Markdown for a table cell, in which `|` is escaped and blocks are separated by line breaks.
    pub(super) fn for_cell() -> Self {
        Self { is_cell: true, ..Self::default() }
    }

    /// Converts plain text to inline Markdown.
    pub(super) fn of_text(text: &str) -> Self {
        let mut inline = Self::default();
        inline.add_text(text);
        inline
    }

    /// Converts plain text to the description of an image, on one line. Escapes `|`, because the image may be
    /// in a table cell.
    pub(super) fn description(text: &str) -> String {
        let mut inline = Self { is_description: true, is_cell: true, ..Self::default() };
        inline.add_text(text);
        inline.finish_line()
    }

    /// Converts plain text to bold Markdown on one line; empty if the text is blank.
    pub(super) fn strong(text: &str) -> String {
        let mut inline = Self::default();
        inline.open_emphasis(Emphasis::Strong, false);
        inline.add_text(text);
        inline.finish_line()
    }

    /// Whether links are ignored: because a link is open, or because this is the description of an image.
    pub(super) fn is_in_link(&self) -> bool {
        self.is_description || self.stack.iter().any(|o| matches!(o, Open::Link(_)))
    }

    /// Opens emphasis. Emphasis inside emphasis of the same kind is written as an HTML tag if `is_exact`, and
    /// otherwise ignored.
    pub(super) fn open_emphasis(&mut self, emphasis: Emphasis, is_exact: bool) {
        let open = Open::Emphasis(emphasis);
        let is_nested = self.stack.contains(&open);
        self.stack.push(match is_nested {
            true if is_exact => Open::Tag(emphasis.tag()),
            true => Open::Nothing,
            false => open,
        });
    }

    /// Opens a link. [`Inline::close`] ends it by writing `destination`, which has the form `](…)`. A link
    /// inside a link is ignored.
    pub(super) fn open_link(&mut self, destination: String) {
        let open = if self.is_in_link() { Open::Nothing } else { Open::Link(destination) };
        self.stack.push(open);
    }

    /// Adds a link with plain text. The caller has escaped `address` for Markdown.
    pub(super) fn add_link(&mut self, address: &str, text: &str) {
        self.open_link(format!("]({address})"));
        self.add_text(text);
        self.close();
    }

    /// Whether the innermost open element has no content yet.
    pub(super) fn is_empty_element(&self) -> bool {
        self.written < self.stack.len()
    }

    /// Opens an HTML element. An element inside another of the same kind is ignored.
    pub(super) fn open_tag(&mut self, tag: &'static str) {
        let open = Open::Tag(tag);
        let open = if self.stack.contains(&open) { Open::Nothing } else { open };
        self.stack.push(open);
    }

    /// Closes the innermost open element; there must be one. An element without content leaves nothing in the
    /// text.
    pub(super) fn close(&mut self) {
        if self.written == self.stack.len() {
            self.write_closing();
        }
        self.stack.pop();
    }

    /// Writes the closing syntax of the innermost element whose opening syntax has been written. There must
    /// be one; it stays on the stack.
    fn write_closing(&mut self) {
        if self.stack[self.written - 1] != Open::Nothing {
            self.write_raw(After::Closing);
        }
        self.written -= 1;
        // Line breaks at the end come after the closing syntax, but before a closing tag.
        let end = self.text.trim_end_matches('\n').len();
        match &self.stack[self.written] {
            Open::Emphasis(emphasis) => {
                let Some(start) = self.starts.pop() else { return };
                self.marks[start].other = self.marks.len();
                self.marks.push(Mark::new(end, *emphasis, start, false));
            }
            Open::Link(destination) => self.text.insert_str(end, destination),
            Open::Tag(tag) => self.text.push_str(&format!("</{tag}>")),
            Open::Nothing => {}
        }
    }

    /// Writes the pending space, and the opening syntax of elements that have just been opened.
    fn write_pending(&mut self) {
        if std::mem::take(&mut self.has_space) && self.last_char().is_some_and(|c| c != '\n') {
            self.raw.push(' ');
        }
        while self.written < self.stack.len() {
            if self.stack[self.written] != Open::Nothing {
                self.write_raw(After::Syntax);
            }
            match self.stack[self.written] {
                Open::Emphasis(emphasis) => self.open_emphasis_mark(emphasis),
                Open::Link(_) => {
                    // `![` would begin an image, unless an emphasis delimiter comes between.
                    if self.text.ends_with('!') && !self.is_after_mark() {
                        self.text.insert(self.text.len() - 1, '\\');
                    }
                    self.text.push('[');
                }
                Open::Tag(tag) => self.text.push_str(&format!("<{tag}>")),
                Open::Nothing => {}
            }
            self.written += 1;
        }
    }

    /// Marks the beginning of emphasis, or continues emphasis of the same kind that ended at this position.
    /// Emphasis of another kind that ended here is written with tags.
    fn open_emphasis_mark(&mut self, emphasis: Emphasis) {
        let position = self.text.len();
        if let Some(end) =
            self.marks.last_mut().filter(|m| !m.is_start && m.position == position && !m.is_dropped)
        {
            let start = end.other;
            if end.emphasis == emphasis {
                // CommonMark would not parse `**a****b**` as intended, so continue the previous emphasis.
                self.starts.push(start);
                self.marks.pop();
                return;
            }
            end.is_tag = true;
            self.marks[start].is_tag = true;
        }
        self.starts.push(self.marks.len());
        self.marks.push(Mark::new(position, emphasis, usize::MAX, true));
    }

    /// The last character of the Markdown written so far, without a pending space.
    fn last_char(&self) -> Option<char> {
        self.raw.chars().next_back().or_else(|| self.text.chars().next_back())
    }

    /// Whether GitHub Flavored Markdown would autolink `address` if it were added next.
    pub(super) fn may_start_address(&self, address: &str) -> bool {
        !self.is_in_link()
            && (self.has_space || self.last_char().is_none_or(|c| may_precede_address(c, address)))
    }

    /// Whether the last thing written is the beginning or the end of emphasis.
    fn is_after_mark(&self) -> bool {
        self.marks.last().is_some_and(|mark| mark.position == self.text.len())
    }

    /// Adds finished Markdown, such as a code span or an image, without escaping it.
    pub(super) fn add_markdown(&mut self, markdown: &str) {
        self.write_pending();
        self.write_raw(After::Syntax);
        self.text.push_str(markdown);
    }

    /// Adds a code span. Joins it to one that ends here, because CommonMark would read the backticks between
    /// them as one run; after one of more than [`MAX_JOINED_CODE`] bytes, adds a space instead. The code must
    /// not be empty.
    pub(super) fn add_code(&mut self, code: &str) {
        self.write_pending();
        self.write_raw(After::Syntax);
        let is_after_mark = self.is_after_mark();
        let mut before = self.code.take().filter(|(_, end, _)| *end == self.text.len() && !is_after_mark);
        if before.take_if(|(.., code)| code.len() > MAX_JOINED_CODE).is_some() {
            self.text.push(' ');
        }
        let (start, _, mut joined) = before.unwrap_or((self.text.len(), 0, String::new()));
        joined.push_str(code);
        let code = joined;
        self.text.truncate(start);
        let fence = "`".repeat(longest_run(&code, '`') + 1);
        let is_padded = code.starts_with('`')
            || code.ends_with('`')
            || code.starts_with(' ') && code.ends_with(' ') && !code.trim_matches(' ').is_empty();
        let pad = if is_padded { " " } else { "" };
        self.text.push_str(&format!("{fence}{pad}{code}{pad}{fence}"));
        self.code = Some((start, self.text.len(), code));
    }

    /// Adds a space before the next content, unless that content begins a line.
    pub(super) fn add_space(&mut self) {
        self.has_space = true;
    }

    /// Adds a space before the next content if the text ends with a letter, a digit or `)`, as links do.
    pub(super) fn add_space_after_word(&mut self) {
        self.has_space |= self.last_char().is_some_and(|c| c.is_alphanumeric() || c == ')');
    }

    /// Adds a hard line break; a second one in a row ends the paragraph, and open elements continue in the
    /// next paragraph. Further ones in a row have no effect, nor does one at the start.
    pub(super) fn add_line_break(&mut self) {
        self.has_space = false;
        self.write_raw(After::End);
        if self.text.is_empty() || self.text.ends_with("\n\n") {
            return;
        }
        if self.text.ends_with('\n') {
            while self.written > 0 {
                self.write_closing();
            }
        }
        self.text.push('\n');
    }

    /// Separates blocks in inline text: with a line break in a table cell, except after the number of an
    /// item, and with a space elsewhere.
    pub(super) fn add_block_boundary(&mut self) {
        if !self.is_cell {
            self.has_space = true;
            return;
        }
        self.write_raw(After::End);
        self.has_space = self.item_start == self.text.len();
        if !self.has_space && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Adds the number of a list item. The first block of the item begins on the same line.
    pub(super) fn add_number(&mut self, number: i64) {
        self.add_text(&format!("{number}."));
        self.write_raw(After::End);
        self.item_start = self.text.len();
        self.has_space = true;
    }

    /// Adds text from the page. Collapses its white space, except no-break spaces, drops invisible characters
    /// and escapes Markdown syntax.
    pub(super) fn add_text(&mut self, text: &str) {
        let text = remove_invisible(text);
        let mut rest = &*text;
        while !rest.is_empty() {
            let end = rest.bytes().position(is_html_space).unwrap_or(rest.len());
            if end > 0 {
                self.write_pending();
                self.raw.push_str(&rest[..end]);
            }
            self.has_space |= end < rest.len();
            rest = rest.get(end + 1..).unwrap_or_default();
        }
    }

    /// Escapes and writes the text that has been added last.
    fn write_raw(&mut self, after: After) {
        let mut raw = std::mem::take(&mut self.raw);
        if raw.bytes().any(|b| is_syntax(b) || b == NO_BREAK_SPACE.as_bytes()[0])
            || after == After::Syntax && ends_with_address(&raw)
        {
            let mut at = 0;
            for word in raw.split_inclusive(' ') {
                let end = at + word.trim_end_matches(' ').len();
                self.write_word(&raw, at, end, after);
                at += word.len();
                self.text.push_str(&raw[end..at]);
            }
        } else {
            self.text.push_str(&raw);
        }
        raw.clear();
        self.raw = raw;
    }

    /// Writes `text[start..end]`, which contains no white space but no-break spaces, and escapes its Markdown
    /// syntax. Replaces no-break spaces after an autolink with spaces.
    fn write_word(&mut self, text: &str, start: usize, end: usize, after: After) {
        // If an element is open, its closing syntax follows, so this text does not end the line.
        let is_end = after == After::End && self.written == 0;
        // A link on the stack whose opening syntax is not written yet begins after this text, so ignore it.
        let is_in_link =
            self.is_description || self.stack[..self.written].iter().any(|o| matches!(o, Open::Link(_)));
        let (mut copied, mut address_end) = (start, start);
        for (at, &byte) in text.as_bytes()[..end].iter().enumerate().skip(start) {
            let may_start =
                at >= address_end && matches!(byte, b'h' | b'w' | b'f' | b'H' | b'F') && !is_in_link;
            if may_start && let Some((found, mark)) = self.address_at(text, at, end, after) {
                address_end = found;
                if let Some(mark) = mark {
                    self.text.push_str(&text[copied..mark]);
                    self.text.push('\\');
                    (copied, address_end) = (mark, start);
                }
            }
            // GitHub Flavored Markdown would take a no-break space as a part of the address.
            if address_end > start && text.as_bytes()[at..].starts_with(NO_BREAK_SPACE.as_bytes()) {
                self.text.push_str(&text[copied..at]);
                copied = at + NO_BREAK_SPACE.len();
                let is_last = copied == end && (is_end || end < text.len());
                self.text.push_str(if is_last { "" } else { " " });
            }
            if (at >= address_end || byte == b'|' && self.is_cell)
                && is_syntax(byte)
                && self.needs_backslash(text, at, is_in_link, is_end)
            {
                self.text.push_str(&text[copied..at]);
                self.text.push('\\');
                copied = at;
            }
        }
        self.text.push_str(&text[copied..end]);
    }

    /// Returns the end of the autolink that starts at `at` in the word that ends at `end`; `None` if none
    /// starts there. If the autolink would also take in syntax in or after the word, also returns the
    /// position of the character whose escape prevents the autolink.
    fn address_at(&self, text: &str, at: usize, end: usize, after: After) -> Option<(usize, Option<usize>)> {
        // Directly after a tag, a link or code, `www.` begins no address. After an emphasis delimiter it may
        // begin one, unless the delimiter is written as a tag in the end.
        let is_after_syntax = at == 0 && text.starts_with('w') && self.text.ends_with(['>', ')', '`']);
        if is_after_syntax && !self.is_after_mark() {
            return None;
        }
        let found = end_of_address(&text[..end], at)?;
        let is_joined = is_after_syntax
            || after == After::Syntax && end == text.len()
            || text.as_bytes()[found..end].iter().any(|&b| is_syntax(b))
            || text[at..found].contains('>');
        let mark = || at + text[at..].find([':', '.']).unwrap_or_default();
        Some((found, is_joined.then(mark)))
    }

    /// Whether the character at `at` needs a backslash so that it is not read as Markdown syntax. `is_end`
    /// says that nothing follows `text`.
    fn needs_backslash(&self, text: &str, at: usize, is_in_link: bool, is_end: bool) -> bool {
        let next = text[at + 1..].chars().next();
        let before = text[..at].chars().next_back();
        let previous = if at == 0 { self.text.chars().next_back() } else { before };
        let is_apart = previous.is_none_or(char::is_whitespace)
            && next.map_or(is_end, char::is_whitespace)
            && !(at == 0 && self.is_after_mark());
        match text.as_bytes()[at] {
            b'\\' => next.is_none_or(|c| c.is_ascii_punctuation()),
            // At the start of a line, `*` could begin a list.
            b'*' => !is_apart || previous.is_none_or(|c| c == '\n'),
            b'_' => !is_apart && ![previous, next].iter().all(|c| c.is_some_and(char::is_alphanumeric)),
            b'`' => true,
            b'[' => is_in_link || may_be_link(&text[at..]) || may_hide_address(&text[at..]),
            b']' => is_in_link,
            b'<' => next.map_or(!is_end, |c| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')),
            b'&' => {
                next.map_or(!is_end, |c| c == '#' || c.is_ascii_alphabetic())
                    && may_be_entity(&text[at..], !is_end)
            }
            b'~' => !is_apart,
            b'|' => self.is_cell,
            _ => false,
        }
    }

    /// Closes all open elements, and returns the text as paragraphs; none if the text is blank.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.write_raw(if self.written == 0 { After::End } else { After::Closing });
        while !self.stack.is_empty() {
            self.close();
        }
        let text = if self.marks.is_empty() { self.text } else { insert_delimiters(&self.text, self.marks) };
        if !text.contains('\n') {
            return if text.trim().is_empty() { Vec::new() } else { vec![text] };
        }
        let paragraphs = text.split("\n\n").map(|p| p.trim_matches(['\n', ' ']));
        paragraphs.filter(|p| !p.trim().is_empty()).map(str::to_owned).collect()
    }

    /// Closes all open elements, and returns the text as one line, with spaces instead of line breaks.
    pub(super) fn finish_line(self) -> String {
        self.finish().join(" ").replace('\n', " ")
    }
}

const NO_BREAK_SPACE: &str = "\u{a0}";

/// Whether a byte may need a backslash.
fn is_syntax(byte: u8) -> bool {
    matches!(byte, b'\\' | b'*' | b'_' | b'`' | b'[' | b']' | b'<' | b'&' | b'~' | b'|')
}

fn is_html_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

/// Whether the `[` at the start of `text` may begin a link, a task's checkbox or a footnote reference. Looks
/// for the end of a link's text in the first 300 bytes only.
fn may_be_link(text: &str) -> bool {
    if text.starts_with("[^") || text.starts_with("[ ]") || text.starts_with("[x]") || text.starts_with("[X]")
    {
        return true;
    }
    let window = &text.as_bytes()[..text.len().min(300)];
    window.windows(2).any(|w| matches!(w, b"](" | b"][" | b"]:"))
}

/// Whether the `&` at the start of `text` may begin a character reference, which may continue after the text
/// if `is_open`.
pub(super) fn may_be_entity(text: &str, is_open: bool) -> bool {
    let window = &text.as_bytes()[1..text.len().min(34)];
    match window.iter().position(|b| !(b.is_ascii_alphanumeric() || *b == b'#')) {
        Some(end) => window[end] == b';',
        None => is_open,
    }
}

/// Whether a version of CommonMark treats the character as punctuation. Since 0.31, symbols such as `€`
/// count; before, as on GitHub, they do not. Also true for marks and invisible characters, which never count.
fn may_be_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || (!c.is_ascii() && !c.is_alphanumeric() && !c.is_whitespace())
}

/// Whether all versions of CommonMark treat the character as punctuation; false for the punctuation of rare
/// scripts.
fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(
            c,
            '¡' | '§' | '«' | '¶' | '·' | '»' | '¿' | '\u{37e}' | '\u{387}' | '\u{589}' | '\u{5be}'
                | '،' | '؛' | '؟' | '۔' | '।' | '॥' | '‐'..='‧' | '‰'..='⁃' | '⁅'..='⁑' | '⁓'..='⁞'
                | '、'..='〃' | '〈'..='】' | '〔'..='〟' | '〰' | '・' | '！'..='＃' | '％'..='＊' | '，'..='／'
                | '：' | '；' | '？' | '＠' | '［'..='］' | '＿' | '｛' | '｝' | '｟'..='･'
        )
}

/// Inserts emphasis delimiters into `text`, or tags where CommonMark would not recognize a delimiter. Drops
/// emphasis that is empty or not closed.
fn insert_delimiters(text: &str, mut marks: Vec<Mark>) -> String {
    for i in 0..marks.len() {
        let mark = &marks[i];
        if mark.is_start && (mark.other == usize::MAX || mark.position >= marks[mark.other].position) {
            let other = mark.other;
            marks[i].is_dropped = true;
            marks.get_mut(other).into_iter().for_each(|mark| mark.is_dropped = true);
        }
    }
    // The open emphasis around the current mark. Emphasis inside emphasis is decided first, because its tags
    // change which delimiters around it are recognized.
    let mut open: Vec<usize> = Vec::new();
    for end in 0..marks.len() {
        if marks[end].is_dropped {
            continue;
        }
        if marks[end].is_start {
            open.push(end);
            continue;
        }
        let start = marks[end].other;
        open.pop_if(|innermost| *innermost == start);
        if marks[start].is_tag || marks[end].is_tag || needs_tags(text, &marks, start, &open) {
            marks[start].is_tag = true;
            marks[end].is_tag = true;
        }
    }
    let mut out = String::with_capacity(text.len() + marks.len() * 4);
    let mut copied = 0;
    for mark in marks.iter().filter(|m| !m.is_dropped) {
        out.push_str(&text[copied..mark.position.max(copied)]);
        copied = mark.position.max(copied);
        let (delimiter, tag) = mark.emphasis.syntax();
        match (mark.is_tag, mark.is_start) {
            (true, true) => out.push_str(&format!("<{tag}>")),
            (true, false) => out.push_str(&format!("</{tag}>")),
            (false, _) => out.push_str(delimiter),
        }
    }
    out.push_str(&text[copied..]);
    out
}

/// Whether a version of CommonMark would not recognize the delimiters of the emphasis that begins at
/// `marks[start]`, or would read them as a part of an address.
/// `open` has the emphasis around it, as indexes in `marks`.
fn needs_tags(text: &str, marks: &[Mark], start: usize, open: &[usize]) -> bool {
    let end = marks[start].other;
    let (opening, closing) = (Run::around(text, marks, start), Run::around(text, marks, end));
    // A delimiter directly after an autolink would become part of its address.
    let is_in_address = text[marks[end].position..].starts_with(|c: char| !c.is_whitespace())
        && ends_with_address(&text[marks[start].position..marks[end].position]);
    // The delimiter could also end emphasis around it, unless the lengths prevent that (CommonMark §6.2,
    // rules 9 and 10).
    let is_ambiguous = || {
        open.iter().any(|&outer| {
            let run = Run::around(text, marks, outer);
            let is_multiple_of_3 =
                (run.length + opening.length).is_multiple_of(3) && !run.length.is_multiple_of(3);
            marks[outer].position < marks[start].position
                && !marks[outer].is_tag
                && run.delimiter == opening.delimiter
                && !is_multiple_of_3
        })
    };
    is_in_address || !opening.can_open() || !closing.can_close() || opening.may_close() && is_ambiguous()
}

/// Adjacent delimiters of one character, which CommonMark reads together, and the characters around them.
struct Run {
    delimiter: char,
    length: usize,
    before: Option<char>,
    after: Option<char>,
}

impl Run {
    /// The run that contains the delimiter of `marks[at]`.
    fn around(text: &str, marks: &[Mark], at: usize) -> Self {
        let position = marks[at].position;
        let syntax = |mark: &Mark| mark.emphasis.syntax().0;
        let delimiter_of = |mark: &Mark| syntax(mark).chars().next();
        let is_in_run = |mark: &&Mark| !mark.is_tag && delimiter_of(mark) == delimiter_of(&marks[at]);
        let is_here = |mark: &&Mark| mark.position == position;
        let before = || marks[..at].iter().rev().take_while(is_here).filter(|mark| !mark.is_dropped);
        let after = || marks[at + 1..].iter().take_while(is_here).filter(|mark| !mark.is_dropped);
        let run = before().take_while(is_in_run).chain(after().take_while(is_in_run));
        let length = syntax(&marks[at]).len() + run.map(|mark| syntax(mark).len()).sum::<usize>();
        // A tag counts as punctuation, like a delimiter with another character.
        let beyond = |mark: Option<&Mark>| mark.map(|_| '<');
        Self {
            delimiter: delimiter_of(&marks[at]).unwrap_or_default(),
            length,
            before: beyond(before().find(|mark| !is_in_run(mark)))
                .or_else(|| text[..position].chars().next_back()),
            after: beyond(after().find(|mark| !is_in_run(mark))).or_else(|| text[position..].chars().next()),
        }
    }

    /// True only if all versions of CommonMark let the run begin emphasis, as a left-flanking delimiter run.
    fn can_open(&self) -> bool {
        flanks(self.after, self.before, may_be_punctuation, is_punctuation)
    }

    /// True only if all versions of CommonMark let the run end emphasis, as a right-flanking delimiter run.
    fn can_close(&self) -> bool {
        flanks(self.before, self.after, may_be_punctuation, is_punctuation)
    }

    /// False only if no version of CommonMark lets the run end emphasis.
    fn may_close(&self) -> bool {
        flanks(self.before, self.after, is_punctuation, may_be_punctuation)
    }
}

/// Whether a delimiter run flanks the text that begins or ends with `inner`, with `outer` on its other side.
/// Each of the two has its own test for punctuation, because the versions of CommonMark differ.
fn flanks(
    inner: Option<char>,
    outer: Option<char>,
    is_inner_punctuation: fn(char) -> bool,
    is_outer_punctuation: fn(char) -> bool,
) -> bool {
    let is_outside = outer.is_none_or(|c| c.is_whitespace() || is_outer_punctuation(c));
    inner.is_some_and(|c| !c.is_whitespace() && (!is_inner_punctuation(c) || is_outside))
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;
    use super::*;

    fn line(build: impl FnOnce(&mut Inline)) -> String {
        let mut inline = Inline::default();
        build(&mut inline);
        inline.finish().join("¶")
    }

    fn add_strong_between(inline: &mut Inline, before: &str, strong: &str, after: &str) {
        inline.add_text(before);
        inline.open_emphasis(Emphasis::Strong, false);
        inline.add_text(strong);
        inline.close();
        inline.add_text(after);
    }

    #[test]
    fn emphasis_beside_symbols_has_tags_where_versions_differ() {
        for (html, expected) in [
            ("<b>Price:</b>€90 <b>Sale!</b>🎉 b", "<strong>Price:</strong>€90 <strong>Sale!</strong>🎉 b"),
            (
                "🎉<b>(new)</b>, ⚠\u{fe0f}<b>“b”</b>",
                "🎉<strong>(new)</strong>, ⚠\u{fe0f}<strong>“b”</strong>",
            ),
            ("<em>Hello!</em>™ <del>a!</del>✓", "<em>Hello!</em>™ <del>a!</del>✓"),
            ("<b>A.</b>→<b>.B</b> b", "<strong>A.</strong>→<strong>.B</strong> b"),
            // These are the same in all versions.
            ("<b>Price</b>€90 🎉<b>new</b>→", "**Price**€90 🎉**new**→"),
            ("<b>“a”</b>—<b>(b)</b>。「<b>《c》</b>」", "**“a”**—**(b)**。「**《c》**」"),
            ("<b>a:</b>+5 <b>5 €</b> b", "**a:**+5 **5 €** b"),
        ] {
            assert_eq!(markdown(&format!("<p>{html}")), format!("{expected}\n"), "{html}");
        }
    }

    #[test]
    fn adjacent_code_spans_become_one() {
        for (html, expected) in [
            ("<code>a.</code><code>b</code>", "`a.b`\n"),
            ("<code>a</code> <code>b</code>", "`a` `b`\n"),
            ("<code>a`</code><code>b</code>", "``a`b``\n"),
            ("<code>a</code><a href=/x><code>b</code></a><code>c</code>", "`a`[`b`](/x)`c`\n"),
            ("<code>a</code><b><code>b</code></b> c", "`a`**`b`** c\n"),
            ("<a href=/x><code>a</code><code>b</code></a>", "[`ab`](/x)\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
        let long = "x".repeat(2000);
        assert_eq!(markdown(&format!("<code>{long}</code><code>y</code>")), format!("`{long}` `y`\n"));
    }

    #[test]
    fn moves_spaces_out_of_emphasis() {
        assert_eq!(line(|i| add_strong_between(i, "a", " b \n c ", "d")), "a **b c** d");
    }

    #[test]
    fn uses_tags_where_delimiters_fail() {
        assert_eq!(line(|i| add_strong_between(i, "a", "(b)", "c")), "a<strong>(b)</strong>c");
    }

    #[test]
    fn joins_adjacent_emphasis_and_drops_empty() {
        let text = line(|i| {
            for word in ["a", "b", " "] {
                i.open_emphasis(Emphasis::Regular, false);
                i.add_text(word);
                i.close();
            }
        });
        assert_eq!(text, "*ab*");
    }

    #[test]
    fn escapes_no_more_than_needed() {
        for (text, expected) in [
            ("snake_case 2 * 3 a*b", "snake_case 2 * 3 a\\*b"),
            ("[1] x[0]", "[1] x[0]"),
            ("[X] marks", "\\[X] marks"),
            ("[a](b) [^1] [ ] x", "\\[a](b) \\[^1] \\[ ] x"),
            ("a < b <c> AT&T &amp;", "a < b \\<c> AT&T \\&amp;"),
            ("9~12 and 13~17, ~/x ~ y", "9\\~12 and 13\\~17, \\~/x ~ y"),
            ("(see https://a.de/_b_/c*d*e).", "(see https://a.de/_b_/c*d*e)."),
            ("(see https://a.de/_b_/c*d*e_).", "(see https\\://a.de/\\_b\\_/c\\*d\\*e\\_)."),
            ("www.a.de/*b* xwww.a/*b*", "www\\.a.de/\\*b\\* xwww.a/\\*b\\*"),
            ("HTTP://A.DE/_B_/ Ftp://a.de/_b_/", "HTTP://A.DE/_B_/ Ftp://a.de/_b_/"),
            ("http://a.de/<b>*c*", "http\\://a.de/\\<b>\\*c\\*"),
            (
                "http://a.de/?b&amp; 1http://a.de/_b_ +www.a.de/*b*",
                "http\\://a.de/?b\\&amp; 1http\\://a.de/\\_b\\_ +www.a.de/\\*b\\*",
            ),
            ("<http://a.de>, 1.http://a.de", "\\<http\\://a.de>, 1.http://a.de"),
            ("_x_ `y` c:\\dir \\*", "\\_x\\_ \\`y\\` c:\\dir \\\\\\*"),
        ] {
            assert_eq!(line(|i| i.add_text(text)), expected);
        }
    }

    #[test]
    fn invisible_characters_in_words_are_dropped() {
        assert_eq!(
            line(|inline| inline.add_text("Schiff\u{ad}fahrt a\u{200b}/\u{feff}b")),
            "Schifffahrt a/b"
        );
        for kept in ["\u{1780}\u{200b}\u{1781}", "\u{645}\u{200c}\u{645}", "\u{1f468}\u{200d}\u{1f33e}"] {
            assert_eq!(line(|inline| inline.add_text(kept)), kept);
        }
    }

    #[test]
    fn a_style_can_turn_emphasis_off() {
        for (html, expected) in [
            ("<b style=font-weight:400>a</b> <strong style='font-weight: normal'>b</strong>", "a b\n"),
            ("<i style=font-style:normal>a</i> <em style=font-style:oblique>b</em>", "a *b*\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn joiners_are_kept_only_beside_what_they_join() {
        let text = "\u{200d}Oak\u{200d} \u{200d} “b”\u{200d} c\u{2060}d";
        assert_eq!(line(|inline| inline.add_text(text)), "Oak “b” cd");
        assert_eq!(line(|inline| inline.add_text("\u{200c}\u{645}")), "\u{200c}\u{645}");
        for (html, expected) in [
            ("<main><h2>\u{200d}</h2><p>\u{200d}<p>a <b>\u{200d}</b><ul><li>\u{200d}</ul>", "a\n"),
            ("<p><code>a\u{ad}b.\u{200b}c</code><pre>a\u{ad}b\u{200b}</pre>", "`ab.c`\n\n```\nab\n```\n"),
            ("<p><code>\u{200b}</code>a", "a\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn a_bracket_before_an_address_with_emphasis_is_escaped() {
        for (text, expected) in [
            ("[https://x.de/_a_]", "\\[https://x.de/_a_]"),
            ("[https://x.de/a] _", "[https://x.de/a] _"),
            ("[a] https://x.de/_a_b", "[a] https://x.de/_a_b"),
        ] {
            assert_eq!(line(|inline| inline.add_text(text)), expected);
        }
    }

    #[test]
    fn addresses_and_stars_keep_apart_from_markup() {
        for (html, expected) in [
            ("http://a.de/<em>b</em>/c", "http\\://a.de/*b*/c\n"),
            ("<b><a href=http://a.de>http://a.de</a></b>c", "<strong>http://a.de</strong>c\n"),
            ("<b>http://a.de/</b>c", "<strong>http://a.de/</strong>c\n"),
            ("<b>see http://a.de/</b> c", "**see http://a.de/** c\n"),
            ("http://a.de/<code>b</code>", "http\\://a.de/`b`\n"),
            ("www.a.de/<a href=/x>b</a>", "www\\.a.de/[b](/x)\n"),
            ("<a href=https://a.de>x</a><b>y</b>", "[x](https://a.de)**y**\n"),
            ("<b><i>a</i> (<i>: b</i></b>", "***a* (<em>: b</em>**\n"),
            ("<s><b>99</b></s>79", "<del>**99**</del>79\n"),
            ("79<b><s>99</s></b> <s><b>(9)</b></s>", "79<strong>~~99~~</strong> ~~**(9)**~~\n"),
            ("<i><b>a</b>b<b>c</b></i>d", "<em>**a**b<strong>c</strong></em>d\n"),
            ("a<i>b<b>c</b>d</i> <b><i>a</i>b</b>c", "a*b**c**d* ***a*b**c\n"),
            ("<b>a!</b><a href=/x>b</a> !<b><a href=/x>c</a></b>", "**a!**[b](/x) !**[c](/x)**\n"),
            ("<b>a!</b><b><a href=/x>b</a></b> <i>!<a href=/x>c</a></i>", "**a\\![b](/x)** *\\![c](/x)*\n"),
            ("<a href=/x>y</a>www.a.de/*b*", "[y](/x)www.a.de/\\*b\\*\n"),
            ("(<code>a</code><em>www.b.de/*</em>", "(`a`*www\\.b.de/\\**\n"),
            ("<b>a ~<br></b>b", "**a \\~**  \nb\n"),
            ("<em>* a</em> *", "*\\* a* *\n"),
            ("<del>~ a</del>", "~~\\~ a~~\n"),
            ("<sub>www.a.de/*b*</sub>", "<sub>www.a.de/\\*b\\*</sub>\n"),
            ("a<br>* b<br>_ _ _", "a  \n\\* b  \n\\_ _ _\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn two_line_breaks_separate_paragraphs_and_repeat_emphasis() {
        let text = line(|i| {
            i.open_emphasis(Emphasis::Strong, false);
            i.add_text("a");
            i.add_line_break();
            i.add_line_break();
            i.add_text("b");
            i.add_line_break();
            i.close();
            i.add_text("c");
        });
        assert_eq!(text, "**a**¶**b**\nc");
    }
}
