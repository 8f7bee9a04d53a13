//! Parses a body in which dollar signs stand for formulas, prices and variables. The parser takes the text
//! between two dollar signs as a formula even if the first one belongs to a price, or if the second one is
//! in a code span. Then the links and code between them would become text.

use std::borrow::Cow;
use std::ops::Range;

use comrak::Arena;
use comrak::nodes::{Node, NodeMath, NodeValue, Sourcepos};
use comrak::options::Options;
use memchr::memchr;

use crate::source_text::{SourceText, parse_document};
use frontdesk_typeset::math;

/// Control characters that can stand in for a dollar sign, because the parser treats them as text.
const STAND_INS: Range<u8> = 1..9;

/// Maximum number of times that the body is parsed again. Each time, one dollar sign of each paragraph
/// becomes text; the last time, all that are left.
const MAX_ROUNDS: usize = 8;

/// Parses the body, and then again with a stand-in for dollar signs that the parser took for the beginning of
/// a formula, but that are text: [`is_text`] says so, or the formula would end inside code, HTML, a URL or
/// the destination of a link. Replaces one dollar sign per paragraph at a time, because that changes which
/// others begin a formula; the last time (`MAX_ROUNDS`), all that are left. If the body contains all of
/// `STAND_INS`, the parser alone decides.
pub fn parse<'a>(arena: &'a Arena<'a>, body: &str, options: &Options<'_>) -> Node<'a> {
    let mut root = parse_document(arena, body, options);
    let source = SourceText::new(body);
    let is_unused = |stand_in: &u8| memchr(*stand_in, body.as_bytes()).is_none();
    let stand_in = memchr(b'$', body.as_bytes()).and_then(|_| STAND_INS.into_iter().find(is_unused));
    let Some(stand_in) = stand_in.map(char::from) else { return root };
    let mut masked = String::new();
    let mut opaque = None;
    for round in 1..=MAX_ROUNDS {
        let mut openings = Vec::new();
        for block in root.descendants().filter(|node| node.data().value.contains_inlines()) {
            let found = block.descendants().filter_map(|node| {
                let NodeValue::Math(math) = &node.data().value else { return None };
                let range = source.byte_range(node.data().sourcepos)?;
                let may_cross = || math.literal.contains(['`', '<', ']', ':']);
                let is_text = body[range.clone()].starts_with('$')
                    && (is_text(&source, math, node.data().sourcepos)
                        // A formula that would end inside code, HTML, a URL or a link destination is text.
                        || may_cross() && {
                            let opaque = opaque.get_or_insert_with(|| opaque_ranges(body, options));
                            let before = opaque.partition_point(|it| it.start < range.end);
                            opaque[..before]
                                .last()
                                .is_some_and(|it| it.start > range.start && range.end <= it.end)
                        });
                is_text.then_some(range.start)
            });
            openings.extend(found.take(if round == MAX_ROUNDS { usize::MAX } else { 1 }));
        }
        if openings.is_empty() {
            break;
        }
        if masked.is_empty() {
            masked.push_str(body);
        }
        for at in openings {
            masked.replace_range(at..=at, stand_in.encode_utf8(&mut [0]));
        }
        root = parse_document(arena, &masked, options);
    }
    if !masked.is_empty() {
        root.descendants().for_each(|node| restore(node, stand_in));
    }
    root
}

/// Whether the dollar signs around a formula in a sentence are probably those of prices, judging by the text
/// between them, or of names such as `$HOME/$USER`, because a letter or digit is next to them. Never for
/// `$$…$$`, or if backticks follow the dollar sign.
pub fn is_text(source: &SourceText<'_>, math: &NodeMath, position: Sourcepos) -> bool {
    let is_glued = || {
        source.byte_range(position).is_some_and(|range| {
            let text = source.text;
            let (before, after) = (text[..range.start].chars().next_back(), text[range.end..].chars().next());
            text[range].starts_with('$') && [before, after].into_iter().flatten().any(char::is_alphanumeric)
        })
    };
    math.dollar_math && !math.display_math && (math::is_price(&math.literal) || is_glued())
}

/// The ranges of code spans, raw HTML in sentences, URLs and link destinations, in ascending order. They do
/// not overlap.
fn opaque_ranges(body: &str, options: &Options<'_>) -> Vec<Range<usize>> {
    let arena = Arena::new();
    let mut options = options.clone();
    options.extension.math_dollars = false;
    let source = SourceText::new(body);
    let ranges = parse_document(&arena, body, &options).descendants().filter_map(|node| {
        let range = source.byte_range(node.data().sourcepos)?;
        match node.data().value {
            NodeValue::Link(_) | NodeValue::Image(_) if body[range.clone()].starts_with(['[', '!']) => {
                let text = node.last_child().and_then(|child| source.byte_range(child.data().sourcepos));
                let start = text.map_or(range.start, |text| text.end.min(range.end));
                Some(start..range.end)
            }
            NodeValue::Code(_) | NodeValue::HtmlInline(_) | NodeValue::Link(_) => Some(range),
            _ => None,
        }
    });
    let mut ranges: Vec<_> = ranges.collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges
}

/// Turns the stand-in into a dollar sign in the text, the URL and the title of a node, but not in its
/// children.
fn restore(node: Node<'_>, stand_in: char) {
    let mut data = node.data_mut();
    let texts: [Option<&mut String>; 2] = match &mut data.value {
        NodeValue::Text(text) => {
            if text.contains(stand_in) {
                *text = Cow::Owned(text.replace(stand_in, "$"));
            }
            return;
        }
        NodeValue::Code(code) => [Some(&mut code.literal), None],
        NodeValue::HtmlInline(literal) => [Some(literal), None],
        NodeValue::Math(math) => [Some(&mut math.literal), None],
        NodeValue::Link(link) | NodeValue::Image(link) => [Some(&mut link.url), Some(&mut link.title)],
        _ => return,
    };
    for text in texts.into_iter().flatten().filter(|text| text.contains(stand_in)) {
        *text = text.replace(stand_in, "$");
    }
}
