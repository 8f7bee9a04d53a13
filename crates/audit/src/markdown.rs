//! Reads Markdown: what the parity of a page and its links need.

use comrak::nodes::NodeValue;
use comrak::{Arena, Options, parse_document};

/// The parts of a Markdown document, without its front matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkdownPage {
    /// Levels and texts, in order.
    pub headings: Vec<(u8, String)>,
    /// The targets of links and autolinks as written, in order, without images.
    pub links: Vec<String>,
    /// The contents of code blocks, in order, with their info strings.
    pub code: Vec<(String, String)>,
    /// Raw HTML, block by block and inline.
    pub html: Vec<String>,
    /// All text with single spaces between the parts, also that of code; without raw HTML.
    pub text: String,
}

impl MarkdownPage {
    /// Parses GitHub Flavored Markdown.
    pub fn parse(source: &str) -> MarkdownPage {
        let mut options = Options::default();
        options.extension.table = true;
        options.extension.strikethrough = true;
        options.extension.autolink = true;
        options.extension.tasklist = true;
        options.extension.footnotes = true;
        options.extension.front_matter_delimiter = Some("---".to_owned());
        let arena = Arena::new();
        let root = parse_document(&arena, source.trim_start_matches('\u{feff}'), &options);
        let mut page = MarkdownPage::default();
        let mut words: Vec<String> = Vec::new();
        for node in root.descendants() {
            let data = node.data.borrow();
            match &data.value {
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
                NodeValue::Link(link) => page.links.push(link.url.clone()),
                NodeValue::CodeBlock(code) => {
                    page.code.push((code.info.clone(), code.literal.clone()));
                    words.push(format!(" {} ", code.literal));
                }
                NodeValue::HtmlBlock(html) => page.html.push(html.literal.clone()),
                NodeValue::HtmlInline(html) => page.html.push(html.clone()),
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
}
