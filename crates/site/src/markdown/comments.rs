//! Finds comments, which are not for readers: of Markdown, HTML, other Markdown programs and templates.

use std::borrow::Cow;
use std::ops::Range;

use comrak::Arena;
use comrak::nodes::NodeValue;
use comrak::options::Options;

use super::source::{SourceText, find_definition, without_markers};
use frontdesk_process::maps::HashSet;

/// The delimiters of comments in Hugo, MDX and Jinja. [`liquid_tag`] finds those of Liquid.
const DELIMITERS: [(&str, &str); 4] =
    [("{{/*", "*/}}"), ("{{- /*", "*/ -}}"), ("{/*", "*/}"), ("{# ", " #}")];

/// The delimiter of both ends of a comment in Obsidian.
const PERCENT: &str = "%%";

/// A body without comments. Each keeps its line ends, so that other lines keep their numbers.
pub(super) struct Uncommented<'a> {
    pub body: Cow<'a, str>,
    /// The lines of the body on which comments between `%%` within a sentence begin, counted from 1.
    pub in_sentences: Vec<usize>,
}

/// Removes comments outside of code. Those between `%%` begin and end at a space, a punctuation mark or an
/// end of their line; one that begins with a line of its own and has no end extends to the end of the body.
pub(super) fn remove<'a>(body: &'a str, options: &Options<'_>) -> Uncommented<'a> {
    let mut kept = Uncommented { body: Cow::Borrowed(body), in_sentences: Vec::new() };
    let starts: Vec<usize> = candidates(body).collect();
    if starts.is_empty() {
        return kept;
    }
    let opaque = Opaque::new(body, options);
    let mut text = String::with_capacity(body.len());
    let (mut done, mut lines) = (0, 0);
    for start in starts {
        if start < done || opaque.contains(start, body[start..].starts_with(PERCENT)) {
            continue;
        }
        let Some(end) = end_of_comment(body, start, &opaque) else { continue };
        lines += body[done..start].matches('\n').count();
        if body[start..].starts_with(PERCENT) && !has_own_lines(body, start..end) {
            kept.in_sentences.push(lines + 1);
        }
        text.push_str(&body[done..start]);
        let breaks = body[start..end].matches('\n').count();
        if breaks > 0 || body[end..].starts_with(['\n', '\r']) {
            // Spaces at the end of a line would break the line.
            text.truncate(text.trim_end_matches([' ', '\t']).len());
        }
        text.extend(std::iter::repeat_n('\n', breaks));
        (done, lines) = (end, lines + breaks);
    }
    if done > 0 {
        text.push_str(&body[done..]);
        kept.body = Cow::Owned(text);
    }
    kept
}

/// The HTML without comments. In a block, each leaves an empty one, because comments separate lists.
pub(super) fn without_html_comments(html: &str, is_block: bool) -> String {
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, comment)) = rest.split_once("<!--")
        && let Some((_, after)) = comment.split_once("-->")
    {
        text.push_str(before);
        text.push_str(if is_block { "<!-- -->" } else { "" });
        rest = after;
    }
    text + rest
}

/// The position of a link definition that is only a comment, such as `[//]: # (comment)`: it leads nowhere,
/// and no link uses it. The definition begins on line `number`, and has its destination at `destination`.
/// `None` for other definitions.
pub(super) fn find_in_definition(
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
    if source.text.matches(label).nth(1).is_some() {
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

/// The offsets at which a comment may begin.
fn candidates(body: &str) -> impl Iterator<Item = usize> {
    memchr::memchr2_iter(b'%', b'{', body.as_bytes()).filter(|at| {
        let (before, rest) = (body[..*at].chars().next_back(), &body[*at..]);
        if let Some(inside) = rest.strip_prefix(PERCENT) {
            let is_longer = inside.starts_with('%');
            return !is_longer && before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '%' | '\\'));
        }
        before != Some('\\') && (delimiter(rest).is_some() || liquid_tag(rest, "comment").is_some())
    })
}

fn delimiter(rest: &str) -> Option<(&'static str, &'static str)> {
    DELIMITERS.into_iter().find(|(open, _)| rest.starts_with(open))
}

/// The length of the tag of Liquid or Twig with which `rest` begins, if it has this name.
fn liquid_tag(rest: &str, name: &str) -> Option<usize> {
    let inner = rest.strip_prefix("{%")?.trim_start_matches('-').trim_start();
    let after = inner.strip_prefix(name)?.trim_start().trim_start_matches('-').strip_prefix("%}")?;
    Some(rest.len() - after.len())
}

/// The end of the comment that begins at `start`. `None` if it has no end.
fn end_of_comment(body: &str, start: usize, opaque: &Opaque) -> Option<usize> {
    let rest = &body[start..];
    if rest.starts_with(PERCENT) {
        let inside = start + PERCENT.len();
        let ends = body[inside..].match_indices(PERCENT).map(|(at, _)| inside + at);
        let is_end = |at: &usize| {
            let after = body[at + PERCENT.len()..].chars().next();
            after.is_none_or(|c| !c.is_alphanumeric() && c != '%') && !opaque.contains(*at, true)
        };
        let end = ends.into_iter().find(is_end).map(|at| at + PERCENT.len());
        let line_end = body[inside..].find('\n').map_or(body.len(), |at| inside + at);
        return end.or_else(|| {
            has_own_lines(body, start..line_end)
                .then_some(body.len())
                .filter(|_| body[inside..line_end].trim().is_empty())
        });
    }
    if let Some(tag) = liquid_tag(rest, "comment") {
        let inside = start + tag;
        let ends = body[inside..].match_indices("{%").map(|(at, _)| inside + at);
        return ends.into_iter().find_map(|at| Some(at + liquid_tag(&body[at..], "endcomment")?));
    }
    let (open, close) = delimiter(rest)?;
    let inside = start + open.len();
    Some(inside + body[inside..].find(close)? + close.len())
}

/// Whether only spaces precede and follow the range on its first and last line.
fn has_own_lines(body: &str, Range { start, end }: Range<usize>) -> bool {
    let before = body[..start].rsplit('\n').next().unwrap_or_default();
    let after = body[end..].split('\n').next().unwrap_or_default();
    before.trim_start_matches([' ', '\t', '>']).is_empty() && after.trim().is_empty()
}

/// The ranges of a body whose text is shown as it is, in ascending order.
struct Opaque {
    /// Code and formulas.
    code: Vec<Range<usize>>,
    /// Blocks of HTML, in which templates have comments, but Markdown has none.
    html: Vec<Range<usize>>,
}

impl Opaque {
    fn new(body: &str, options: &Options<'_>) -> Self {
        let (arena, source) = (Arena::new(), SourceText::new(body));
        let root = comrak::parse_document(&arena, body, options);
        let ranges = |is: fn(&NodeValue) -> bool| {
            let nodes = root.descendants().filter(|node| is(&node.data().value));
            let mut ranges: Vec<_> =
                nodes.filter_map(|node| source.byte_range(node.data().sourcepos)).collect();
            ranges.sort_unstable_by_key(|range| range.start);
            ranges
        };
        Self {
            code: ranges(|value| {
                matches!(value, NodeValue::Code(_) | NodeValue::CodeBlock(_) | NodeValue::Math(_))
            }),
            html: ranges(|value| matches!(value, NodeValue::HtmlBlock(_) | NodeValue::HtmlInline(_))),
        }
    }

    fn contains(&self, at: usize, with_html: bool) -> bool {
        let is_in = |ranges: &[Range<usize>]| {
            let before = ranges.partition_point(|range| range.start <= at);
            ranges[..before].last().is_some_and(|range| at < range.end)
        };
        is_in(&self.code) || with_html && is_in(&self.html)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str, lines: &[usize]) {
        let kept = remove(body, &super::super::parser_options());
        assert_eq!((&*kept.body, &*kept.in_sentences), (expected, lines), "{body:?}");
    }

    #[test]
    fn comments_are_removed_and_lines_keep_their_numbers() {
        for (body, expected, lines) in [
            ("a %%b%% c\n", "a  c\n", &[1][..]),
            ("a %%b%%\nc\n", "a\nc\n", &[1]),
            ("a\n\n%% b\n\n`c` %%\n\nd %%e%%\n", "a\n\n\n\n\n\nd\n", &[7]),
            ("> %%b%%\n", ">\n", &[]),
            ("a\n\n%%\nb\n\nc\n", "a\n\n\n\n\n\n", &[]),
            ("{% comment %}a\n{{ b }}{%- endcomment -%}c", "\nc", &[]),
            ("a {{/* b */}} c {{- /* d */ -}}{/* e */} {# f #}g", "a  c  g", &[]),
            ("<div>\n{/* a */}\n</div>\n", "<div>\n\n</div>\n", &[]),
        ] {
            check(body, expected, lines);
        }
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
        ] {
            check(body, body, &[]);
        }
    }
}
