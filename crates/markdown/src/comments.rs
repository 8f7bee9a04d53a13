//! Finds comments, which are not for readers: of Markdown, HTML, other Markdown programs and templates.

use std::borrow::Cow;
use std::ops::Range;

use comrak::Arena;
use comrak::nodes::NodeValue;
use comrak::options::Options;

use crate::dollar_disambiguation;
use crate::source_text::{SourceText, find_definition, without_markers};
use frontdesk_process::hash_maps::HashSet;

/// The start of each kind of comment, and the delimiters that may end it. [`liquid_tag`] finds Liquid's
/// delimiters.
const DELIMITERS: [(&str, &[&str]); 8] = [
    // Go's templates (Hugo) trim white space before and after a comment independently of each other.
    ("{{/*", &["*/}}", "*/ -}}"]),
    ("{{- /*", &["*/}}", "*/ -}}"]),
    // MDX
    ("{/*", &["*/}"]),
    // Jinja, Nunjucks and Twig
    ("{# ", &[" #}", "-#}"]),
    ("{#-", &["-#}", " #}"]),
    // ERB and EJS
    ("<%#", &["%>"]),
    // kramdown (Jekyll)
    ("{::comment}", &["{:/comment}", "{:/}"]),
    // CriticMarkup
    ("{>>", &["<<}"]),
];

/// The delimiter at both ends of an Obsidian comment.
const PERCENT: &str = "%%";

/// In MyST, a line that begins with this is a comment. In other dialects, the line is text.
const LINE_MARK: &str = "% ";

/// A body without comments.
pub struct Uncommented<'a> {
    pub body: Cow<'a, str>,
    /// Warnings with hints, and with line numbers in the original body, counted from 1.
    pub warnings: Vec<(usize, String, &'static str)>,
    /// For each removed line, the line number in `body` of the line after it.
    left_out: Vec<usize>,
}

impl Uncommented<'_> {
    /// Converts line numbers in the body without comments to line numbers in the original. The bodies begin
    /// on line `first_line` of their file.
    pub fn restore_lines<'l>(&self, lines: impl Iterator<Item = &'l mut usize>, first_line: usize) {
        for line in lines {
            *line += self.left_out.partition_point(|next| first_line + next - 1 <= *line);
        }
    }
}

/// How the text after the beginning of a comment is treated.
enum Ending {
    /// The comment is removed.
    Found,
    /// The comment extends to the end of the body.
    Missing,
    /// The text may not be a comment, so it is shown.
    Doubtful,
}

impl Ending {
    /// The end of the sentence that warns, and its hint. No warning if a comment is plain: removed, and
    /// without text beside it on its lines.
    fn warning(&self, is_plain: bool) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Missing => Some((
                "is a comment without an end, so the rest of the page is left out",
                "end it with `%%` on a line of its own, or write `\\%%` for percent signs",
            )),
            Self::Doubtful => Some((
                "may be a comment, but is shown",
                "for a comment, write `%%` on lines of its own; for text, write `\\` before the mark",
            )),
            Self::Found if is_plain => None,
            Self::Found => {
                Some(("is left out as a comment", "delete it, or write `\\` before the mark to show it"))
            }
        }
    }
}

/// Removes comments of Obsidian (`%%`), Liquid and other programs outside of code, and keeps those of
/// Obsidian that begin in HTML. Warns if a removed comment shares a line with text, if one that begins with
/// `%%` and text on the same line contains an empty line, and if text is shown although it may be a comment.
/// If `%%` alone on a line, without a list marker before it, has no end, warns and removes the rest of the
/// body; other comments without an end are shown. Keeps HTML comments. The line breaks of a comment stay,
/// unless its lines are within a paragraph, a table or a list ([`Uncommented::restore_lines`]).
pub fn remove<'a>(body: &'a str, options: &Options<'_>) -> Uncommented<'a> {
    let mut kept = Uncommented { body: Cow::Borrowed(body), warnings: Vec::new(), left_out: Vec::new() };
    let starts: Vec<usize> = candidates(body).collect();
    if starts.is_empty() {
        return kept;
    }
    let ranges = BodyRanges::new(body, options);
    let mut text = String::with_capacity(body.len());
    // The end of the text that was copied or left out, the end of the last doubtful text, the line number at
    // the offset `counted`, and that offset.
    let (mut done, mut doubtful, mut line, mut counted) = (0, 0, 1, 0);
    // Opening delimiters (`None` for a tag of Liquid) without an end in the rest of the body. Search the body
    // for such an end only once.
    let mut unclosed: Vec<Option<&str>> = Vec::new();
    for start in starts {
        let is_percent = body[start..].starts_with('%');
        let open = delimiter(&body[start..]).map(|(open, _)| open);
        let is_unclosed = !is_percent && unclosed.contains(&open);
        if start < done || is_unclosed || ranges.is_code(start) || is_percent && is_in(&ranges.html, start) {
            continue;
        }
        let Some((end, ending)) = end_of_comment(body, start, &ranges) else {
            if !is_percent {
                unclosed.push(open);
            }
            continue;
        };
        line += body[counted..start].matches('\n').count();
        counted = start;
        let written = body[start..end].split('\n').next().unwrap_or_default().trim_end();
        let mark =
            delimiter(written).map_or(written.get(..2).unwrap_or(written), |(open, _)| open.trim_end());
        let mark = liquid_tag(written, "comment").map_or(mark, |length| &written[..length]);
        if matches!(ending, Ending::Doubtful) && start < doubtful {
            continue;
        }
        let has_paragraphs = is_percent && written != PERCENT && has_empty_line(&body[start..end]);
        let is_plain = has_own_lines(body, start..end) && !has_paragraphs;
        if let Some((what, hint)) = ending.warning(is_plain) {
            kept.warnings.push((line, format!("the text after `{mark}` {what}"), hint));
        }
        if matches!(ending, Ending::Doubtful) {
            doubtful = end;
            continue;
        }
        let (before, after) = line_around(body, start..end);
        text.push_str(&body[done..start]);
        // Leave out whole lines, because an empty line would split a paragraph, a table or a list.
        if has_own_lines(body, start..end)
            && end + after.len() < body.len()
            && !has_empty_line(&body[start..end])
            && is_inside_block(&text[..text.len() - before.len()], &body[end + after.len() + 1..])
        {
            text.truncate(text.len() - before.len());
            done = end + after.len() + 1;
            let breaks = body[start..done].matches('\n').count();
            kept.left_out.extend(std::iter::repeat_n(line - kept.left_out.len(), breaks));
            continue;
        }
        let breaks = body[start..end].matches('\n').count();
        if breaks > 0 || body[end..].starts_with(['\n', '\r']) {
            // Two spaces at the end of a line would become a line break.
            text.truncate(text.trim_end_matches([' ', '\t']).len());
        }
        text.extend(std::iter::repeat_n('\n', breaks));
        done = end;
    }
    if done > 0 {
        text.push_str(&body[done..]);
        kept.body = Cow::Owned(text);
    }
    kept
}

/// The HTML without comments, except one without an end. In a block, each comment becomes an empty one,
/// because comments separate lists.
pub fn without_html_comments(html: &str, is_block: bool) -> String {
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(start) = rest.find("<!--")
        && let Some(length) = html_comment_length(&rest[start..])
    {
        text.push_str(&rest[..start]);
        text.push_str(if is_block { "<!-- -->" } else { "" });
        rest = &rest[start + length..];
    }
    text + rest
}

/// The length of the HTML comment at the beginning of `html`, which ends in `-->` or `--!>` as in browsers.
/// Its first dashes can be those of its end, as in `<!-->`. `None` if it has no end.
pub fn html_comment_length(html: &str) -> Option<usize> {
    let is_end = |at: &usize| {
        html[2..*at].ends_with("--") || html.get(4..*at).is_some_and(|text| text.ends_with("--!"))
    };
    memchr::memchr_iter(b'>', html.as_bytes()).find(is_end).map(|at| at + 1)
}

/// The body without comments, and, also in code, without HTML comments and lines with link definitions that
/// may be comments.
pub fn remove_all(body: &str, options: &Options<'_>) -> String {
    let text = without_html_comments(&remove(body, options).body, false);
    let is_comment = |line: &&str| {
        line.trim_start().starts_with('[') && ["]: #", "]: <"].iter().any(|it| line.contains(it))
    };
    text.split_inclusive('\n').filter(|line| !is_comment(line)).collect()
}

/// The position of a link definition that is only a comment, such as `[//]: # (comment)`, with its title: the
/// destination is `#` or empty, and the label occurs only where definitions begin. The definition begins on
/// line `number`, and has its destination at `destination`. `None` for other definitions.
#[expect(clippy::implicit_hasher, reason = "all maps of the workspace have the same hasher")]
pub fn find_in_definition(
    source: &SourceText<'_>,
    number: usize,
    destination: Range<usize>,
    shown_lines: &HashSet<usize>,
) -> Option<Range<usize>> {
    if !["#", "<#>", "<>"].contains(&&source.text[destination.clone()]) {
        return None;
    }
    let start = without_markers(source.line_at(number)?, true).0;
    let label = source.text[start..destination.start].rsplit_once(':')?.0;
    let is_use = |(at, _): (usize, &str)| {
        let begins_line = || without_markers((0, line_around(source.text, at..at).0), true).1.is_empty();
        !(source.text[at + label.len()..].starts_with(':') && begins_line())
    };
    if source.text.match_indices(label).any(is_use) {
        return None;
    }
    let lines_from = |number: usize| {
        (number..).map_while(|number| source.line_at(number).filter(|_| !shown_lines.contains(&number)))
    };
    let title = lines_from(number + 1).zip(number + 1..).take_while(|(line, number)| {
        !without_markers(*line, false).1.is_empty() && find_definition(lines_from(*number)).is_none()
    });
    let last = title.last().map_or_else(|| source.line_at(number), |(line, _)| Some(line))?;
    Some(start..last.0 + last.1.len())
}

/// The offsets at which a comment may begin: those of all delimiters without a backslash before them. A `%%`
/// must not follow a letter or digit, nor be a part of a longer run of `%`. [`LINE_MARK`] must begin a line.
fn candidates(body: &str) -> impl Iterator<Item = usize> {
    memchr::memchr3_iter(b'%', b'{', b'<', body.as_bytes()).filter(|at| {
        let (before, rest) = (body[..*at].chars().next_back(), &body[*at..]);
        if let Some(inside) = rest.strip_prefix(PERCENT) {
            let is_longer = inside.starts_with('%');
            return !is_longer && before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '%' | '\\'));
        }
        if rest.starts_with(LINE_MARK) {
            return before.is_none_or(|c| c == '\n');
        }
        before != Some('\\') && (delimiter(rest).is_some() || liquid_tag(rest, "comment").is_some())
    })
}

/// The entry of [`DELIMITERS`] for the comment at the beginning of `rest`. `None` for the ID of a heading
/// that begins like a comment of Jinja, such as `{#--force}`.
fn delimiter(rest: &str) -> Option<(&'static str, &'static [&'static str])> {
    let is_id = |inside: &str| {
        let end = inside.find(|c: char| c.is_whitespace() || matches!(c, '{' | '}'));
        end.is_some_and(|end| inside[end..].starts_with('}') && !inside[..end].ends_with('#'))
    };
    let found = DELIMITERS.into_iter().find(|(open, _)| rest.starts_with(open))?;
    (found.0 != "{#-" || !is_id(&rest[3..])).then_some(found)
}

/// The length of the Liquid or Twig tag at the beginning of `rest`, if the tag has only this name.
fn liquid_tag(rest: &str, name: &str) -> Option<usize> {
    let inner = rest.strip_prefix("{%")?.trim_start_matches('-').trim_start();
    let after = inner.strip_prefix(name)?.trim_start().trim_start_matches('-').strip_prefix("%}")?;
    Some(rest.len() - after.len())
}

/// The end of the comment that may begin at `start`, and how the text up to there is treated. `None` if it
/// has no end and is shown without a warning. An end in code does not count, unless the comment begins its
/// line and the code is in `BodyRanges::loose`; if none counts, the text up to the first one is doubtful. For
/// `%%`, see [`end_of_percent`]. A line that begins with [`LINE_MARK`] is doubtful.
fn end_of_comment(body: &str, start: usize, ranges: &BodyRanges) -> Option<(usize, Ending)> {
    let rest = &body[start..];
    if rest.starts_with(PERCENT) {
        return end_of_percent(body, start, ranges);
    }
    if rest.starts_with(LINE_MARK) {
        return Some((start + line_around(body, start..start).1.len(), Ending::Doubtful));
    }
    let inside = start + liquid_tag(rest, "comment").or_else(|| Some(delimiter(rest)?.0.len()))?;
    let next_end = |from: usize| match delimiter(rest) {
        Some((_, ends)) => ends.iter().fold(None, |first: Option<usize>, end| {
            let found = body[from..first.unwrap_or(body.len())].find(end);
            found.map(|at| from + at + end.len()).or(first)
        }),
        None => body[from..]
            .match_indices("{%")
            .find_map(|(at, _)| Some(from + at + liquid_tag(&body[from + at..], "endcomment")?)),
    };
    let begins_line = is_empty_line(line_around(body, start..start).0);
    let is_code = |end: usize| ranges.is_code(end - 1) && !(begins_line && is_in(&ranges.loose, end - 1));
    let first = next_end(inside)?;
    let end = std::iter::successors(Some(first), |end| next_end(*end)).find(|end| !is_code(*end));
    Some(end.map_or((first, Ending::Doubtful), |end| (end, Ending::Found)))
}

/// The end of the comment between `%%` that begins at `start`, and how the text up to there is treated. A
/// comment may end in the same paragraph or table cell. If it begins its line, it may also end at the end of
/// any line, and if `%%` is alone on its line, anywhere; stricter rules apply in lists and tables. The text
/// is doubtful if the next `%%` is elsewhere, or if the text is probably not a comment. Without a second
/// `%%`, the result is [`Ending::Missing`] if the first is alone on its line, and otherwise doubtful; `None`
/// if the first does not begin its line or follows a list marker.
fn end_of_percent(body: &str, start: usize, ranges: &BodyRanges) -> Option<(usize, Ending)> {
    let inside = start + PERCENT.len();
    let (before, after) = line_around(body, start..inside);
    let is_alone = after.trim().is_empty();
    let begins_line = without_markers((0, before), true).1.is_empty();
    let is_item = !before.trim_start_matches([' ', '\t', '>']).is_empty();
    let end = body[inside..].match_indices(PERCENT).map(|(at, _)| inside + at).find(|at| {
        let after = body[at + PERCENT.len()..].chars().next();
        let is_mark = after.is_none_or(|c| !c.is_alphanumeric() && c != '%');
        // HTML inside the comment may make the parser treat the closing `%%` as a part of that HTML.
        let may_be_html = || is_alone && has_own_lines(body, *at..at + PERCENT.len());
        is_mark && !ranges.is_code(*at) && (!is_in(&ranges.html, *at) || may_be_html())
    });
    let Some(end) = end else {
        let ending = if is_alone { (body.len(), Ending::Missing) } else { (inside, Ending::Doubtful) };
        return (begins_line && !is_item).then_some(ending);
    };
    let inner = &body[inside..end];
    let (end_before, end_after) = line_around(body, end..end + PERCENT.len());
    let is_block = begins_line
        && if is_alone {
            // In a list item, the closing `%%` must be alone on an indented line.
            !is_item || end_after.trim().is_empty() && !end_before.is_empty() && end_before.trim().is_empty()
        } else {
            let crosses_cell = is_in(&ranges.cells, start) && inner.contains('|');
            end_after.trim().is_empty() && !crosses_cell && !(is_item && inner.contains('\n'))
        };
    let is_in_sentence = || {
        let block = range_at(&ranges.texts, start);
        let is_spaced = inner.starts_with(' ') && inner.ends_with(' ') && end_after.trim().is_empty();
        block.is_some_and(|block| end < block.end)
            && (is_spaced || is_tight(body[..start].chars().next_back(), inner))
    };
    let ending = if is_block || is_in_sentence() { Ending::Found } else { Ending::Doubtful };
    Some((end + PERCENT.len(), ending))
}

/// Whether the text between two `%%` is probably a comment. If a sentence mentions `%%` twice, the text in
/// between begins with a space, closing punctuation or the character `before` the first `%%`, or ends with a
/// space, an opening bracket or an opening quotation mark.
fn is_tight(before: Option<char>, inner: &str) -> bool {
    !inner.starts_with(|c: char| c.is_whitespace() || ".,;:!?)]}”’»".contains(c) || Some(c) == before)
        && !inner.ends_with(|c: char| c.is_whitespace() || "([{“„‘«".contains(c))
}

/// The text before the range on its first line, and the text after the range on its last line.
fn line_around(body: &str, Range { start, end }: Range<usize>) -> (&str, &str) {
    let before = body[..start].rsplit('\n').next().unwrap_or_default();
    (before, body[end..].split('\n').next().unwrap_or_default())
}

/// Whether the range shares its lines only with white space, and with blockquote markers before it.
fn has_own_lines(body: &str, range: Range<usize>) -> bool {
    let (before, after) = line_around(body, range);
    is_empty_line(before) && after.trim().is_empty()
}

/// Whether a line has only white space and blockquote markers.
fn is_empty_line(line: &str) -> bool {
    line.trim_start_matches([' ', '\t', '>']).trim().is_empty()
}

/// Whether the lines before and after a comment may be part of the same block. A link definition begins
/// another one, and the next line must not turn the one before into a heading.
fn is_inside_block(before: &str, after: &str) -> bool {
    let before = before.strip_suffix('\n').and_then(|before| before.rsplit('\n').next());
    let after = after.split('\n').next().unwrap_or_default();
    before.is_some_and(|before| !is_empty_line(before))
        && !is_empty_line(after)
        && find_definition(std::iter::once((0, after))).is_none()
        && !after.trim_start_matches([' ', '>']).trim_end().trim_matches(['-', '=']).is_empty()
}

/// Whether a line between the first and the last line of the text is empty, apart from white space and
/// markers of quotes ([`is_empty_line`]).
fn has_empty_line(text: &str) -> bool {
    let between = text.split_once('\n').and_then(|(_, rest)| rest.rsplit_once('\n'));
    between.is_some_and(|(between, _)| between.split('\n').any(is_empty_line))
}

/// Elements of HTML whose content is code.
const CODE_ELEMENTS: [&str; 4] = ["code", "pre", "kbd", "samp"];

/// The ranges of a body that determine where comments begin and end. Each list is in ascending order.
struct BodyRanges {
    /// Code and formulas.
    code: Vec<Range<usize>>,
    /// Indented code and elements of HTML, also in `code`. A comment that begins its line may end in these:
    /// they may be part of the comment.
    loose: Vec<Range<usize>>,
    /// HTML, where template comments are removed but `%%` does not begin a comment.
    html: Vec<Range<usize>>,
    /// Paragraphs, headings and cells of tables.
    texts: Vec<Range<usize>>,
    cells: Vec<Range<usize>>,
}

impl BodyRanges {
    /// Parses the body, and collects the ranges.
    fn new(body: &str, options: &Options<'_>) -> Self {
        let (arena, source) = (Arena::new(), SourceText::new(body));
        let root = dollar_disambiguation::parse(&arena, body, options);
        let ranges = |is: fn(&NodeValue) -> bool| {
            let nodes = root.descendants().filter(|node| is(&node.data().value));
            merge(nodes.filter_map(|node| source.byte_range(node.data().sourcepos)).collect())
        };
        let mut code = ranges(|value| {
            matches!(value, NodeValue::Code(_) | NodeValue::CodeBlock(_) | NodeValue::Math(_))
        });
        let html = ranges(|value| matches!(value, NodeValue::HtmlBlock(_) | NodeValue::HtmlInline(_)));
        let mut loose = code_elements(body, &html);
        code.extend(loose.iter().cloned());
        loose.extend(ranges(|value| matches!(value, NodeValue::CodeBlock(block) if !block.fenced)));
        Self {
            code: merge(code),
            loose: merge(loose),
            html,
            texts: ranges(NodeValue::contains_inlines),
            cells: ranges(|value| matches!(value, NodeValue::TableCell)),
        }
    }

    fn is_code(&self, at: usize) -> bool {
        is_in(&self.code, at)
    }
}

/// The ranges of the [`CODE_ELEMENTS`] whose start and end tags are in `html`, without the end tags and
/// without elements inside of others. An element ends at the first end tag with its name.
fn code_elements(body: &str, html: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut elements: Vec<Range<usize>> = Vec::new();
    if html.is_empty() {
        return elements;
    }
    let lower = body.to_ascii_lowercase();
    for (at, _) in lower.match_indices('<') {
        let is_inside = elements.last().is_some_and(|last| at < last.end);
        let name = CODE_ELEMENTS.into_iter().find(|name| {
            let after = lower[at + 1..].strip_prefix(name);
            after.is_some_and(|after| after.starts_with(|c: char| c == '>' || c.is_ascii_whitespace()))
        });
        if let Some(name) = name.filter(|_| !is_inside && is_in(html, at)) {
            let tag = format!("</{name}");
            let mut ends = lower[at..].match_indices(&tag).map(|(end, _)| at + end);
            elements.extend(ends.find(|end| is_in(html, *end)).map(|end| at..end));
        }
    }
    elements
}

/// Sorts the ranges, and merges ranges that overlap.
fn merge(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let overlaps = next.start < last.end;
        last.end = if overlaps { last.end.max(next.end) } else { last.end };
        overlaps
    });
    ranges
}

/// The range that contains the offset `at`. `ranges` must be in ascending order and must not overlap.
fn range_at(ranges: &[Range<usize>], at: usize) -> Option<&Range<usize>> {
    let before = ranges.partition_point(|range| range.start <= at);
    ranges[..before].last().filter(|range| at < range.end)
}

fn is_in(ranges: &[Range<usize>], at: usize) -> bool {
    range_at(ranges, at).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str, lines: &[usize]) {
        let kept = remove(body, &crate::parser_options());
        let found: Vec<usize> = kept.warnings.iter().map(|it| it.0).collect();
        assert_eq!((&*kept.body, &*found), (expected, lines), "{body:?} {:?}", kept.warnings);
    }

    #[test]
    fn comments_are_removed_and_lines_keep_their_numbers() {
        for (body, expected, lines) in [
            ("a %%b%% c\n", "a  c\n", &[1][..]),
            ("a b %% c d %%\ne\n", "a b\ne\n", &[1]),
            ("a %%b\nc%% d\n", "a\n d\n", &[1]),
            ("## a %%b%%\n\n- %% c %%\n- %%\n  d\n  %%\n", "## a\n\n-\n-\n\n\n", &[1, 3, 4]),
            ("| a %%b\\|c%% | d |\n|---|---|\n", "| a  | d |\n|---|---|\n", &[1]),
            ("a %%b%%\nc\n", "a\nc\n", &[1]),
            ("a\n\n%% b\n\n`c` %%\n\nd %%e%%\n", "a\n\n\n\n\n\nd\n", &[3, 7]),
            ("> %%b%%\n", ">\n", &[]),
            ("a\n\n%%\nb\n\nc\n", "a\n\n\n\n\n\n", &[3]),
            ("a\n\n%%\nb\n\nc\n%%\nd\n", "a\n\n\n\n\n\n\nd\n", &[]),
            ("{% comment %}a\n{{ b }}{%- endcomment -%}c", "\nc", &[1]),
            ("{% comment %}\n\n    a\n\n    {% endcomment %}\n", "\n\n\n\n\n", &[]),
            ("a {{/* b */}} c {{- /* d */ -}}{/* e */} {# f #}g", "a  c  g", &[1, 1, 1, 1]),
            ("a {{- /* b */}} c {{/* d */ -}} e", "a  c  e", &[1, 1]),
            ("{{- /* a */}}\n\nb\n\n{{- /* c */ -}}\n\nd\n", "\n\nb\n\n\n\nd\n", &[]),
            ("a {#- b -#} c {# d -#} e {#- f #}g", "a  c  e g", &[1, 1, 1]),
            ("## a {#--b}\n\nc\n\n{# d #}\n", "## a {#--b}\n\nc\n\n\n", &[]),
            ("a {#-b-#} c {#-{{d}} e -#}f", "a  c f", &[1, 1]),
            ("a <%# b %> c {>>d<<} e", "a  c  e", &[1, 1]),
            ("a {::comment}b{:/comment} c {::comment}d{:/} e {:/comment}", "a  c  e {:/comment}", &[1, 1]),
            ("{::comment}\na\n\nb\n{:/comment}\n\nc\n", "\n\n\n\n\n\nc\n", &[]),
            ("a {# b `c #}` d #} e", "a  e", &[1]),
            ("{# <code> #}\n\n<code>a</code>\n", "\n\n<code>a</code>\n", &[]),
            ("<code>a</code> {# b #}\n", "<code>a</code>\n", &[1]),
            ("a $5 %%b%% $6\n", "a $5  $6\n", &[1]),
            ("<div>\n{/* a */}\n</div>\n", "<div>\n</div>\n", &[]),
            ("a\n%%b%%\n{# c\nd #}\ne\n\n%%f%%\ng\n%%h%%\n---\n", "a\ne\n\n\ng\n\n---\n", &[]),
            ("%%\n<div>\n%%\n\na\n", "\n\n\n\na\n", &[]),
            ("a\n%%b%%\n[c]: /d\n", "a\n\n[c]: /d\n", &[]),
            ("> a\r\n> %%b%%\r\n> c", "> a\r\n> c", &[]),
            ("a\n%%\nb\n\nc\n%%\nd\n", "a\n\n\n\n\n\nd\n", &[]),
        ] {
            check(body, expected, lines);
        }
    }

    #[test]
    fn html_comments_end_where_browsers_end_them() {
        for (html, expected) in [
            ("<!-- a -->b", "b"),
            ("<!-->a<!-- b -->", "a"),
            ("<!--->a<!-- b -->", "a"),
            ("<!-- a --!>b<!-- c -->", "b"),
            ("<!--!>a-->b", "b"),
            ("<!-- > a->-- >-->b", "b"),
            ("a<!-- b", "a<!-- b"),
            ("a<!--", "a<!--"),
        ] {
            assert_eq!(without_html_comments(html, false), expected, "{html}");
        }
        assert_eq!(without_html_comments("<!--> a <!-- b -->", true), "<!-- --> a <!-- -->");
    }

    #[test]
    fn other_text_is_not_a_comment() {
        for body in [
            "100%% and 50%% of it",
            "In C, write %% for a percent sign",
            "`%%a%%` and ``{/* a */}``\n",
            "```text\n%%a%%\n{% comment %}\n{% endcomment %}\n```\n",
            "    %%a%%\n",
            "\\%%a%%\n",
            "%%%%%%%%\n",
            "<p>\n%%a%%\n</p>\n",
            "$a %% b %% c$\n",
            "## A {#id}\n\n{% comment %} a\n\n{{< b >}} and \\{/* c */}\n",
            "/a%%b [c](/d%%e%%f)",
            "Use <code>{/* a */}</code> and <KBD class=\"b\">%%c%%</KBD>\n",
            "<pre>\n{# a #}\n\n{% comment %}{% endcomment %}\n</pre>\n",
            "[a]: /x\nUse `%%a%%` here\n",
            "## a {#-b}\n\n{::nomarkdown}c{:/} <% d %>\n",
            "### `--force` {#--force}\n\nText.\n\n-#}\n",
            "a % b\n\n    % c\n\n$$\n% d\n$$\n\n\\% e\n",
        ] {
            check(body, body, &[]);
        }
    }

    #[test]
    fn text_that_may_be_a_comment_is_shown_with_a_warning() {
        for (body, line) in [
            ("In printf, write %% for a percent sign.\n\nMore.\n\nIn batch files, %% too.\n", 1),
            ("Both\nwrite %% for one, and \"%%\" for two.\n", 2),
            ("Write (%%) or (%%), or **%%**.\n", 1),
            ("| a | b |\n|---|---|\n| 100 %% | 50 %% |\n| %%a | b%% |\n", 3),
            ("%% | 50 %%\n---|---\n", 1),
            ("a\n\n%% is text, and %% too\n", 3),
            ("- %%\n- %d\n- use %%\n", 1),
            ("%% a\n", 1),
            ("a %%b\n\nc%% d\n", 1),
            ("a\n\n% b\n", 3),
            ("a\n\n% \n", 3),
            ("A comment starts with {# and\n\n```text\n{# x #}\n```\n", 1),
            ("A comment starts with {/* and {% comment %}:\n\n    */} {% endcomment %}\n", 1),
        ] {
            let kept = remove(body, &crate::parser_options());
            assert_eq!((&*kept.body, kept.warnings[0].0), (body, line), "{:?}", kept.warnings);
        }
    }
}
