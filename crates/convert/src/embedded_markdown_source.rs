//! Shows Markdown source in a page, which a script would render in the browser, such as slides, as code.

use super::dom::{Dom, NodeId, Tag, count_letters};

/// Custom elements whose text is Markdown.
const MARKDOWN_ELEMENTS: [&str; 2] = ["md-block", "mark-down"];

/// Which scripts that render the Markdown of a whole page or deck are on the page, judging by their addresses
/// and code.
#[derive(Clone, Copy, Default)]
struct Renderers {
    remark: bool,
    strapdown: bool,
    markdeep: bool,
}

/// Replaces Markdown source by a code block with it, because the parts of a page that are not visible until a
/// script runs would otherwise be missing or on one line. It stays source: HTML in it is not checked. A
/// `<script>` that its parent does not render, with no more text than the rest of the page, is a copy for
/// tools and stays hidden. With Markdeep, the whole body is source, unless at least half of its text is in
/// elements.
pub(super) fn show_markdown_source(dom: &mut Dom) {
    let body = dom.body();
    let mut renderers = Renderers::default();
    for id in dom.descendants(body).filter(|&id| dom.tag(id) == Tag::Script) {
        let source = dom.attribute(id, "src").unwrap_or_default();
        let has_call =
            || dom.children(id).filter_map(|text| dom.text(text)).any(|t| t.contains("remark.create("));
        renderers.remark |= source.split('/').any(is_remark) || has_call();
        renderers.strapdown |= source.contains("strapdown");
        renderers.markdeep |= source.contains("markdeep");
    }
    let is_code = |id| matches!(dom.tag(id), Tag::Script | Tag::Style | Tag::Noscript);
    if renderers.markdeep {
        let own: usize = dom.children(body).filter_map(|id| dom.text(id)).map(count_letters).sum();
        let source: String = dom.walk(body, is_code).filter_map(|id| dom.text(id)).collect();
        // A page with most of its text in elements is HTML, and uses Markdeep only for diagrams.
        if own * 2 > count_letters(&source) {
            dom.detach_children(body);
            let block = code_block(dom, &source);
            dom.append(body, block);
            return;
        }
    }
    let mut sources = dom.outermost(body, |id| is_source(dom, id, renderers));
    let is_copy =
        |id: &NodeId| dom.tag(*id) == Tag::Script && !dom.parent(*id).is_some_and(|p| renders(dom, p));
    if sources.iter().any(is_copy) {
        let shown: usize = dom.walk(body, is_code).filter_map(|id| dom.text(id)).map(count_letters).sum();
        sources.retain(|id| !is_copy(id) || shown < dom.letters(*id));
    }
    for id in sources {
        let source = dom.text_content(id);
        let block = code_block(dom, &source);
        dom.insert_before(id, block);
        dom.detach(id);
    }
}

/// Whether a part of a script's path is the file or the package of remark, such as `remark.min.js`, rather
/// than one whose name is a longer word.
fn is_remark(part: &str) -> bool {
    part.strip_prefix("remark").is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
}

/// Whether an element renders the Markdown of a `<script>` inside it.
fn renders(dom: &Dom, id: NodeId) -> bool {
    dom.has_attribute(id, "data-markdown") || dom.name(id) == "zero-md"
}

/// Whether a text has Markdown syntax for a heading, a list, a quote, code, a link or strong emphasis.
fn has_marks(text: &str) -> bool {
    let begins = |line: &str| {
        let line = line.trim_start();
        let marks = ["# ", "## ", "### ", "- ", "* ", "> ", "1. ", "```"];
        marks.iter().any(|mark| line.starts_with(mark))
    };
    text.lines().any(begins) || ["](", "**"].iter().any(|mark| text.contains(mark))
}

/// Whether the text of an element is Markdown that a script renders. `data-markdown` says so, but may also
/// mean the origin of HTML, so outside of slides (`<section>`) the text needs marks of Markdown. Except in
/// `<script>`, `<textarea>` and `<xmp>`, it must also have several lines and no elements. A `<script>` needs
/// a type for Markdown. A `<textarea>` needs the id that remark reads, or a parent with the attribute. An
/// `<xmp>` counts only if the page has Strapdown.
fn is_source(dom: &Dom, id: NodeId, renderers: Renderers) -> bool {
    let is_marked = |id: NodeId| dom.has_attribute(id, "data-markdown");
    let text =
        || dom.node(id).first.filter(|&only| dom.node(id).last == Some(only)).and_then(|only| dom.text(only));
    let has_lines = || text().is_some_and(|text| text.trim().contains('\n'));
    let is_rendered = || dom.name(id) == "section" || text().is_some_and(has_marks);
    match (dom.tag(id), dom.name(id)) {
        (Tag::Textarea, _) => {
            renderers.remark && dom.attribute(id, "id") == Some("source")
                || dom.parent(id).is_some_and(is_marked)
        }
        (Tag::Script, _) => dom.attribute(id, "type").is_some_and(|kind| {
            matches!(kind, "text/markdown" | "text/x-markdown")
                || kind == "text/template" && dom.parent(id).is_some_and(is_marked)
        }),
        (_, "xmp") => renderers.strapdown,
        (_, name) => (MARKDOWN_ELEMENTS.contains(&name) || is_marked(id) && is_rendered()) && has_lines(),
    }
}

/// Adds a code block with Markdown, without a parent. Removes the indentation that all lines with text share,
/// then empty lines at the start and white space at the end.
fn code_block(dom: &mut Dom, source: &str) -> NodeId {
    let lines = || source.lines().filter(|line| !line.trim().is_empty());
    let indentation = lines().map(|line| line.len() - line.trim_start_matches([' ', '\t']).len()).min();
    let mut text = String::with_capacity(source.len());
    for line in source.trim_end().lines() {
        text.push_str(line.get(indentation.unwrap_or(0)..).unwrap_or_default());
        text.push('\n');
    }
    let block = dom.push_element("pre", &[]);
    let code = dom.push_element("code", &[("class", "language-markdown")]);
    let text = dom.push_text(text.trim_start_matches('\n'));
    dom.append(code, text);
    dom.append(block, code);
    block
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    fn markdown_that_a_script_renders_is_a_code_block() {
        let block = |text: &str| format!("```markdown\n{text}\n```\n");
        for (html, expected) in [
            (
                "<textarea id=source>\n# A\n\n---\n\n- b\n</textarea><script src=/remark.min.js></script>",
                block("# A\n\n---\n\n- b"),
            ),
            (
                "<section data-markdown><textarea data-template>\n  ## A\n\n    b\n</textarea></section>",
                block("## A\n\n  b"),
            ),
            ("<p data-markdown><script type=text/template>## A\n</script>", block("## A")),
            ("<zero-md><script type=text/markdown>## A</script></zero-md>", block("## A")),
            ("<md-block>\n## A\n\n- b\n</md-block>", block("## A\n\n- b")),
            ("<xmp style=display:none># A\n*b*</xmp><script src=/strapdown.js></script>", block("# A\n*b*")),
            (
                "    **A**\n\nWood\n====\n\n* <b>red</b><style>c{}</style><script src=markdeep.min.js></script>",
                block("**A**\n\nWood\n====\n\n* red"),
            ),
            (
                "<h1>A</h1><p>b **c**</p>d<script src=markdeep.min.js></script>",
                "# A\n\nb \\*\\*c\\*\\*\n\nd\n".to_owned(),
            ),
            (
                "<h1>A</h1><p>Oak</p><md-block>\n## B\n\n- c\n</md-block><script src=markdeep.min.js></script>",
                format!("# A\n\nOak\n\n{}", block("## B\n\n- c")),
            ),
            // Other fields and templates stay hidden, and texts on one line or without marks stay text.
            (
                "<p>a<textarea id=source># A</textarea><script type=text/template># B</script>",
                "a\n".to_owned(),
            ),
            ("<p data-markdown>a</p><div data-markdown><h2>b</h2>\n</div>", "a\n\n## b\n".to_owned()),
            ("<p data-markdown>Oak lasts\nand is strong.</p>", "Oak lasts and is strong.\n".to_owned()),
            ("<div data-markdown>A\n\n- b</div>", block("A\n\n- b")),
            ("<section data-markdown>A\n\nb</section>", block("A\n\nb")),
            ("<h2>A</h2><p>b c</p><script type=text/markdown>## A\nb</script>", "## A\n\nb c\n".to_owned()),
            ("<p>A</p><script type=text/markdown>## A\nb</script>", format!("A\n\n{}", block("## A\nb"))),
            ("<p>a<textarea id=source># A</textarea><script src=/remarketing.js></script>", "a\n".to_owned()),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }
}
