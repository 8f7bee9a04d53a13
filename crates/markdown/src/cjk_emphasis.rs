//! Recognizes emphasis beside the punctuation of Chinese, Japanese and Korean texts, such as `**注意：**请`.
//! CommonMark takes these delimiters as text, because it expects spaces between words.

use std::ops::Range;

use comrak::Arena;
use comrak::nodes::{Node, NodeValue, Sourcepos};
use comrak::options::Options;

use crate::dollar_disambiguation;
use crate::source_text::SourceText;

/// Parses the body, see [`dollar_disambiguation::parse`]. Also returns the edits that make its emphasis
/// readable for programs that follow CommonMark: in each block with emphasis that CommonMark does not
/// recognize, tags such as `<strong>` replace all delimiters. A body without such emphasis is parsed as
/// CommonMark.
pub fn parse<'a>(
    arena: &'a Arena<'a>,
    body: &str,
    options: &Options<'_>,
) -> (Node<'a>, Vec<(Range<usize>, String)>) {
    let standard = dollar_disambiguation::parse(arena, body, options);
    if body.is_ascii() || !body.contains(['*', '_', '~']) || !body.contains(is_cjk) {
        return (standard, Vec::new());
    }
    let mut friendly = options.clone();
    friendly.extension.cjk_friendly_emphasis = true;
    let root = dollar_disambiguation::parse(arena, body, &friendly);
    let blocks = |root: Node<'a>| root.descendants().filter(|node| node.data().value.contains_inlines());
    let mut edits = Vec::new();
    let source = SourceText::new(body);
    for (block, in_standard) in blocks(root).zip(blocks(standard)) {
        if !emphasis(block).eq(emphasis(in_standard)) {
            let found = block.descendants().filter_map(|node| tags_of(node, &source));
            edits.extend(found.flatten());
        }
    }
    if edits.is_empty() {
        return (standard, edits);
    }
    copy_quotation_marks(standard, root);
    (root, edits)
}

/// Whether a character is a letter or punctuation mark of Chinese, Japanese or Korean. Rare ones do not
/// count: common ones are in the same text.
pub(crate) fn is_cjk(c: char) -> bool {
    matches!(
        c,
        '\u{2e80}'..='\u{d7fb}' | '\u{f900}'..='\u{faff}' | '\u{ff01}'..='\u{ffee}' | '\u{20000}'..='\u{3fffd}'
    )
}

/// The name of the HTML element for emphasis, strong emphasis or strikethrough; `None` for other nodes.
fn element(value: &NodeValue) -> Option<&'static str> {
    match value {
        NodeValue::Emph => Some("em"),
        NodeValue::Strong => Some("strong"),
        NodeValue::Strikethrough => Some("del"),
        _ => None,
    }
}

/// The HTML element ([`element`]) and the position of each emphasis node in a block.
fn emphasis(block: Node<'_>) -> impl Iterator<Item = (&'static str, Sourcepos)> {
    block.descendants().filter_map(|node| {
        let data = node.data();
        Some((element(&data.value)?, data.sourcepos))
    })
}

/// The edits that replace the delimiters of emphasis with tags. `None` for other nodes, and if the parser's
/// position is wrong: no delimiters are there.
fn tags_of(node: Node<'_>, source: &SourceText<'_>) -> Option<[(Range<usize>, String); 2]> {
    let data = node.data();
    let name = element(&data.value)?;
    let range = source.byte_range(data.sourcepos)?;
    let text = &source.text[range.clone()];
    let delimiters: &[&str] = match name {
        "em" => &["*", "_"],
        "strong" => &["**", "__"],
        _ => &["~~", "~"],
    };
    let delimiter = delimiters.iter().find(|it| text.starts_with(**it) && text.ends_with(**it))?;
    let length = delimiter.len();
    (text.len() > 2 * length).then(|| {
        [
            (range.start..range.start + length, format!("<{name}>")),
            (range.end - length..range.end, format!("</{name}>")),
        ]
    })
}

/// Copies the quotation marks of `from` to `to`, another parse of the same text. The option for emphasis also
/// changes the direction of the marks that the parser writes in place of straight ones: in `说："好"`, the
/// first mark would be a closing one. Does nothing if the numbers of marks differ.
fn copy_quotation_marks(from: Node<'_>, to: Node<'_>) {
    let is_mark = |c: &char| matches!(c, '“' | '”' | '‘' | '’');
    let marks_of = |root: Node<'_>| {
        let mut marks = Vec::new();
        for node in root.descendants() {
            if let NodeValue::Text(text) = &node.data().value {
                marks.extend(text.chars().filter(is_mark));
            }
        }
        marks
    };
    let marks = marks_of(from);
    if marks.len() != marks_of(to).len() {
        return;
    }
    let mut marks = marks.into_iter();
    for node in to.descendants() {
        if let NodeValue::Text(text) = &mut node.data_mut().value
            && text.contains(|c| is_mark(&c))
        {
            let copied = text.chars().map(|c| if is_mark(&c) { marks.next().unwrap_or(c) } else { c });
            *text = copied.collect::<String>().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser_options;

    fn to_html(root: Node<'_>) -> String {
        let mut html = String::new();
        comrak::format_html(root, &parser_options(), &mut html).expect("a string is writable");
        html.trim_end().to_owned()
    }

    #[test]
    fn emphasis_beside_cjk_punctuation_is_the_same_in_markdown() {
        for (source, html, markdown) in [
            (
                "**注意：**请先阅读。",
                "<strong>注意：</strong>请先阅读。",
                "<strong>注意：</strong>请先阅读。",
            ),
            (
                "这是**“重点”**内容。",
                "这是<strong>“重点”</strong>内容。",
                "这是<strong>“重点”</strong>内容。",
            ),
            ("**「台灣」**主題", "<strong>「台灣」</strong>主題", "<strong>「台灣」</strong>主題"),
            (
                "これは**重要です。**次へ",
                "これは<strong>重要です。</strong>次へ",
                "これは<strong>重要です。</strong>次へ",
            ),
            (
                "**강조(emphasis)**를",
                "<strong>강조(emphasis)</strong>를",
                "<strong>강조(emphasis)</strong>를",
            ),
            (
                "*注意：*请 ~~注意：~~请",
                "<em>注意：</em>请 <del>注意：</del>请",
                "<em>注意：</em>请 <del>注意：</del>请",
            ),
            ("***注意：***请", "<em><strong>注意：</strong></em>请", "<em><strong>注意：</strong></em>请"),
            (
                "**a：**b **[c](/d)** `**`\n> **注意：**请\n> **e：** f",
                "<strong>a：</strong>b <strong><a href=\"/d\">c</a></strong> <code>**</code></p>\n<blockquote>\n\
                 <p><strong>注意：</strong>请\n<strong>e：</strong> f</p>\n</blockquote>",
                "<strong>a：</strong>b <strong>[c](/d)</strong> `**`\n> <strong>注意：</strong>请\n> <strong>e：</strong> f",
            ),
            (
                "**a：**b\n\n**c**",
                "<strong>a：</strong>b</p>\n<p><strong>c</strong>",
                "<strong>a：</strong>b\n\n**c**",
            ),
            (
                "他说：\"好\"，**注意：**请",
                "他说：“好”，<strong>注意：</strong>请",
                "他说：\"好\"，<strong>注意：</strong>请",
            ),
            // CommonMark recognizes these.
            (
                "这是**重点**内容，他说：\"好\"。",
                "这是<strong>重点</strong>内容，他说：“好”。",
                "这是**重点**内容，他说：\"好\"。",
            ),
            ("**Note:**next 中", "**Note:**next 中", "**Note:**next 中"),
            ("**Note:**next", "**Note:**next", "**Note:**next"),
        ] {
            let arena = Arena::new();
            let (root, edits) = parse(&arena, source, &parser_options());
            let shown = to_html(root);
            assert!(shown.contains(html), "{source}: {shown}");
            let written = SourceText::new(source).apply_edits(edits);
            assert_eq!(written, markdown);
            let read = to_html(comrak::parse_document(&arena, &written, &parser_options()));
            assert_eq!(read, shown, "{source}");
        }
    }
}
