//! Reads the text and the language of code blocks from the markup of Shiki, Prism, highlight.js, Chroma,
//! Pygments, Rouge, rehype-pretty-code, Expressive Code and CodeMirror.

use super::dom::{Dom, NodeId, Tag, clip, remove_invisible};
use super::inline_spacing::edge;
use super::omission_reason::Rule;

/// Classes of elements in a code block that contain the numbers of lines. Some highlighters also set these
/// classes on the lines themselves.
#[rustfmt::skip]
const LINE_NUMBERS: &[&str] = &[
    "line-number", "line-numbers", "line-numbers-rows", "linenos", "linenodiv", "lineno", "lineNumber",
    "lnt", "lnlinks", "ln", "linenumber", "react-syntax-highlighter-line-number", "gl",
    "rouge-gutter", "blob-num", "source-line-no", "sourceLineNo", "line-no", "line-num", "code-line-number",
    "CodeMirror-linenumber", "hljs-ln-numbers", "hljs-ln-n", "ltx_tag_listingline", "lines-num",
    "giallo-ln", "zalo-ln", "linenr", "LineNr",
];

/// Classes of elements in a code block that are not code: copy buttons, hidden texts, popups, the name of the
/// language, and links to documentation or to an editor.
#[rustfmt::skip]
const NOT_CODE: &[&str] = &[
    "ttc", "copy-button", "copybtn", "clipboard-copy", "btn-copy",
    "cm-gutters", "CodeMirror-gutter-wrapper", "sr-only", "visually-hidden",
    "code-block-copy", "rehype-pretty-copy",
    "twoslash-popup-container", "ltx_listing_data", "code-annotation-anchor",
    "viewcode-back", "language-id", "playground-link", "twoslash-completion-list", "idlHeader",
    "error-behind",
];

/// Classes of a `<div>` or a table cell that is not code. On other elements, they mark highlighted words.
const NOT_CODE_BLOCKS: &[&str] = &["buttons", "copy", "gutter"];

/// Classes of elements that contain one line of code.
#[rustfmt::skip]
const LINES: &[&str] = &[
    "line", "cl", "code-line", "ec-line", "cm-line", "CodeMirror-line", "view-line", "token-line", "hljs-ln-code", "codeline",
    "gatsby-highlight-code-line", "block", "d-block", "giallo-l", "zalo-l",
];

/// Classes of tables that place line numbers beside code.
#[rustfmt::skip]
const CODE_TABLES: &[&str] = &[
    "highlighttable", "lntable", "rouge-table", "hljs-ln", "codehilitetable", "crayon-table",
    "js-file-line-container",
];

/// Classes of tables in which Scribble, the documentation tool of Racket, writes a line of code in each row.
const LINE_TABLES: &[&str] = &["RktBlk", "SVerbatim"];

/// Classes of `<div>` elements that contain code and no `<pre>`: those of CodeMirror, LaTeXML, Quill and
/// Redoc.
const CODE_BLOCKS: &[&str] =
    &["cm-content", "CodeMirror-code", "ltx_lstlisting", "ql-code-block-container", JSON_TREE];

/// The class of a `<div>` in which Redoc writes JSON as lists in lists.
const JSON_TREE: &str = "redoc-json";

/// Parts of the names of monospace fonts, in lower case.
const MONOSPACE_NAMES: &[&str] = &["mono", "code", "consol", "courier", "menlo", "monaco", "hack", "iosevka"];

/// Whether an element is a code block: a `<pre>` that is neither verse nor a formula, or what highlighters,
/// editors and documentation generators use instead.
pub(super) fn is_code_block(dom: &Dom, id: NodeId) -> bool {
    match dom.tag(id) {
        Tag::Pre => !is_verse(dom, id) && !dom.has_attribute(id, "data-math-style"),
        Tag::Div => {
            let only_lines = || dom.child_elements(id).next().is_some_and(|c| dom.has_class(c, "line"));
            let is_inline = |d| !dom.tag(d).is_block() && dom.tag(d) != Tag::Button;
            dom.has_class_in(id, CODE_BLOCKS)
                || is_diagram(dom, id)
                || is_code_with_breaks(dom, id)
                || is_pasted_code(dom, id)
                // Doxygen marks code blocks with the class `fragment`, and Writerside with `code-block`.
                || dom.has_class(id, "fragment") && only_lines()
                || dom.has_class(id, "code-block")
                    && dom.has_attribute(id, "data-lang")
                    && dom.descendants(id).all(is_inline)
        }
        Tag::Table => is_code_table(dom, id),
        Tag::Other => dom.name(id) == "d-code" && dom.has_attribute(id, "block"),
        Tag::Code => {
            dom.has_class(id, "block") && !dom.is_in(id, &[Tag::P, Tag::Pre, Tag::Li, Tag::Td])
                || dom.style(id, "white-space").is_some_and(|value| value.contains("pre"))
                    && dom.text_content(id).trim().contains('\n')
                || dom.find(id, Tag::Pre).is_some()
                || is_unwrapped_code(dom, id)
        }
        _ => false,
    }
}

/// Whether an element is a `<div>` in which TeX4ht or coqdoc writes code with `<br>` at the ends of lines and
/// with no-break spaces: it has only text, line breaks and inline elements. The class of TeX4ht may also name
/// other text, so that code must have a no-break space, and neither a link nor an image.
fn is_code_with_breaks(dom: &Dom, id: NodeId) -> bool {
    let is_token = |d| dom.has_class(d, "id") && dom.has_attribute(d, "title");
    let is_content = |d| dom.tag(d) == Tag::Img || dom.tag(d) == Tag::A && dom.has_attribute(d, "href");
    let is_verbatim = || dom.text_content(id).contains('\u{a0}') && !dom.descendants(id).any(is_content);
    dom.tag(id) == Tag::Div
        && (dom.has_class(id, "verbatim") && is_verbatim()
            || dom.has_class(id, "code") && dom.descendants(id).any(is_token))
        && !dom.is_blank(id)
        && dom.descendants(id).all(|d| !dom.tag(d).is_block() && dom.tag(d) != Tag::Button)
}

/// The text of a `<div>` with code ([`is_code_with_breaks`]), without line breaks at its start and end. As in
/// browsers, white space in the HTML is one space, and none at the start and end of a line. No-break spaces
/// become spaces.
fn text_with_breaks(dom: &Dom, root: NodeId) -> String {
    let mut text = String::new();
    for id in dom.descendants(root) {
        if dom.tag(id) == Tag::Br {
            text.push('\n');
        }
        for c in dom.text(id).unwrap_or_default().chars() {
            if !c.is_ascii_whitespace() {
                text.push(c);
            } else if !text.is_empty() && !text.ends_with([' ', '\n']) {
                text.push(' ');
            }
        }
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").replace('\u{a0}', " ").trim_matches('\n').to_owned()
}

/// Whether an element is a `<div>` with lines of code as Visual Studio Code writes them to the clipboard: its
/// style is monospace and keeps white space, and it has only text, line breaks, `<span>` and `<div>`. Its
/// lines are `<div>` elements, or one of several lines is indented; a letter in such a font has neither.
fn is_pasted_code(dom: &Dom, id: NodeId) -> bool {
    let is_part = |d| matches!(dom.tag(d), Tag::Div | Tag::Span | Tag::Br | Tag::Text | Tag::Ignored);
    let has_indent = || {
        let piece = |d| if dom.tag(d) == Tag::Br { "\n" } else { dom.text(d).unwrap_or_default() };
        let text: String = dom.descendants(id).map(piece).collect();
        let is_indented = |line: &str| line.starts_with([' ', '\t', '\u{a0}']) && !line.trim().is_empty();
        text.trim_end().contains('\n') && text.lines().any(is_indented)
    };
    dom.tag(id) == Tag::Div
        && matches!(dom.style(id, "white-space"), Some("pre" | "pre-wrap" | "break-spaces"))
        && dom.attribute(id, "style").is_some_and(is_monospace)
        && !dom.is_blank(id)
        && dom.descendants(id).all(is_part)
        && (dom.child_elements(id).any(|c| dom.tag(c) == Tag::Div) || has_indent())
}

/// Whether the font families in a style are monospace: the generic one, and the first one, judged by its
/// name. The generic family at the end of a list does not suffice: the browser uses it only if it lacks the
/// other fonts. Of several rules, the last one counts.
fn is_monospace(style: &str) -> bool {
    let families = style.split(';').filter_map(|rule| rule.split_once(':'));
    let is_font = |name: &str| ["font", "font-family"].iter().any(|font| name.eq_ignore_ascii_case(font));
    let mut families = families.filter(|(name, _)| is_font(name.trim()));
    families.next_back().is_some_and(|(_, families)| {
        let first = families.split(',').next().unwrap_or_default().to_ascii_lowercase();
        families.contains("monospace") && MONOSPACE_NAMES.iter().any(|name| first.contains(name))
    })
}

/// Whether an element with the class `mermaid` contains only text: the source of a diagram, which a script
/// draws.
fn is_diagram(dom: &Dom, id: NodeId) -> bool {
    dom.has_class(id, "mermaid")
        && !dom.is_blank(id)
        && dom.descendants(id).all(|d| matches!(dom.tag(d), Tag::Text | Tag::Ignored))
}

/// Whether a `<code>` element with a class `language-…` and several lines stands alone in a `<div>` or the
/// like, instead of in a `<pre>`.
fn is_unwrapped_code(dom: &Dom, id: NodeId) -> bool {
    let is_block = |p| matches!(dom.tag(p), Tag::Div | Tag::Section | Tag::Figure | Tag::Other);
    dom.classes(id).any(|class| class.starts_with("language-"))
        && dom.parent(id).is_some_and(is_block)
        && !dom.is_in(id, &[Tag::P, Tag::Pre])
        && dom.text_content(id).trim().contains('\n')
        && dom.nodes_before(id).chain(dom.nodes_after(id)).all(|sibling| dom.is_blank(sibling))
}

/// Whether a `<pre>` is a verse block of WordPress or Asciidoctor, and not code.
pub(super) fn is_verse(dom: &Dom, id: NodeId) -> bool {
    dom.tag(id) == Tag::Pre
        && (dom.has_class(id, "wp-block-verse")
            || dom.has_class(id, "content") && dom.parent(id).is_some_and(|p| dom.has_class(p, "verseblock")))
}

/// Whether a table only places line numbers beside code, judging by its classes, its rows or the element
/// around it.
fn is_code_table(dom: &Dom, id: NodeId) -> bool {
    let is_gutter = || {
        // A table for line numbers has one row with two cells: the line numbers, and the code.
        let rows = dom.descendants(id).take(4).filter(|&d| dom.tag(d) == Tag::Tr);
        let cells: Vec<NodeId> = rows.flat_map(|row| dom.child_elements(row)).take(3).collect();
        matches!(*cells, [numbers, code] if is_line_numbers(dom, numbers) && dom.find(code, Tag::Pre).is_some())
    };
    let is_line = |d| dom.tag(d) == Tag::Td && dom.has_class_in(d, &["blob-code", "lines-code"]);
    dom.has_class_in(id, CODE_TABLES)
        || dom.has_class_in(id, LINE_TABLES) && dom.find(id, Tag::Img).is_none()
        || is_gutter()
        || dom.descendants(id).take(8).any(is_line)
        || dom.parent(id).is_some_and(|p| {
            matches!(dom.tag(p), Tag::Pre | Tag::Code)
                || dom.has_class_in(p, &["syntaxhighlighter", "codecolorer-container"])
                || dom.has_class(p, "highlight")
                    && (dom.tag(p) == Tag::Figure && dom.find(id, Tag::Pre).is_some()
                        || dom.descendants(id).any(|d| dom.has_class(d, "gutter")))
        })
}

/// The title of a code block that is a table: the caption of SyntaxHighlighter, or the row with the name of
/// the file above the code that Pygments writes.
pub(super) fn title(dom: &Dom, root: NodeId) -> Option<NodeId> {
    let is_title = |&d: &NodeId| dom.tag(d) == Tag::Caption || dom.has_class(d, "filename");
    dom.descendants(root).take(6).find(is_title).filter(|_| dom.tag(root) == Tag::Table)
}

/// Reads the text of a code block without its [`title`], line numbers, prompts, buttons and zero-width
/// characters, and notes the elements that this leaves out ([`Rule::NotCode`]). Images become their
/// alternative texts. If CSS marks lines as added or removed, each line begins with a sign or a space.
/// Removes the blank lines that highlighters add around the code; of a plain `<pre><code>`, only one line
/// break at the end. Except in a `<pre>`, in Doxygen's fragments and in pasted code ([`is_pasted_code`]),
/// also trims the first and the last line. White space in a `<div>` with line breaks collapses
/// ([`text_with_breaks`]).
pub(super) fn code_text(dom: &Dom, root: NodeId) -> String {
    // CodeMirror puts a title and other elements around the code, so read only the code.
    let editor = dom.descendants(root).find(|&d| dom.has_class(d, "cm-content"));
    if let Some(editor) = editor {
        let frame: Vec<NodeId> = dom.ancestors(editor).take_while(|&a| a != root).collect();
        let parts = dom.outermost(root, |id| id == editor || !frame.contains(&id));
        parts.into_iter().filter(|&part| part != editor).for_each(|part| dom.skip(part, Rule::NotCode));
        return code_text(dom, editor);
    }
    if is_code_with_breaks(dom, root) {
        return text_with_breaks(dom, root);
    }
    let mut text = String::new();
    let (is_diff, is_pasted) = (is_diff(dom, root), is_pasted_code(dom, root));
    // The open elements for single lines of code, and whether each has content besides its line number.
    let mut lines: Vec<(NodeId, bool)> = Vec::new();
    // Whether the previous line still lacks the line break at its end.
    let mut is_owed = false;
    // The separator after an element that is not code. It is dropped if the next text begins with it.
    let mut separator = None;
    let title = title(dom, root);
    let mut next = dom.following(root, root, false);
    while let Some(id) = next {
        while let Some(&(line, has_text)) = lines.last() {
            if dom.ancestors(id).any(|a| a == line) {
                break;
            }
            lines.pop();
            is_owed = !text.ends_with('\n') || !has_text;
        }
        let is_title = Some(id) == title;
        let is_skipped = is_title || is_not_code(dom, id);
        match dom.tag(id) {
            _ if is_title => {}
            _ if is_skipped => {
                separator = separator_after(dom, id, &text);
                dom.skip(id, Rule::NotCode);
            }
            Tag::Text | Tag::Img => {
                let piece = node_text(dom, id);
                let piece = separator.take().and_then(|c| piece.strip_prefix(c)).unwrap_or(piece);
                let is_between = lines.is_empty() && is_owed && piece.trim().is_empty();
                if is_owed && !piece.starts_with('\n') && !is_between {
                    text.push('\n');
                }
                if !is_between || piece.contains('\n') {
                    is_owed = false;
                    text.push_str(&indentation(dom, root, id, &text));
                    text.push_str(piece);
                }
            }
            Tag::Br if lines.last().is_none_or(|(_, has_text)| *has_text) => {
                // Between the lines of a pasted block, a `<br>` is a blank line.
                let is_line = is_owed && lines.is_empty() && is_pasted;
                is_owed = is_line;
                text.push('\n');
            }
            _ if is_code_line(dom, id) => {
                if std::mem::take(&mut is_owed) || (!text.is_empty() && !text.ends_with('\n')) {
                    text.push('\n');
                }
                text.extend(diff_sign(dom, id).or(Some(' ')).filter(|_| is_diff));
                let has_text = has_code(dom, id);
                lines.push((id, has_text));
            }
            _ => {}
        }
        next = dom.following(id, root, is_skipped);
    }
    if dom.has_class_in(root, LINE_TABLES) {
        text = text.replace('\u{a0}', " ");
    }
    let text = remove_invisible(&text.replace("\r\n", "\n")).into_owned();
    without_blank_ends(dom, root, &text)
}

/// The text of a text node in code, or the alternative text of an image; empty for other nodes.
fn node_text(dom: &Dom, id: NodeId) -> &str {
    let alternative = || dom.attribute(id, "alt").filter(|_| dom.tag(id) == Tag::Img);
    dom.text(id).or_else(alternative).unwrap_or_default()
}

/// The code in an element as one line, or several lines if it has `<br>`.
pub(super) fn lines_between_breaks(dom: &Dom, root: NodeId) -> String {
    let line = |d| if dom.tag(d) == Tag::Br { "\n".to_owned() } else { one_line(node_text(dom, d)) };
    dom.subtree(root).map(line).collect()
}

/// The code without the blank lines that highlighters add around it, as [`code_text`] describes.
fn without_blank_ends(dom: &Dom, root: NodeId, text: &str) -> String {
    if is_plain(dom, root) && !text.trim().is_empty() {
        return text.strip_suffix('\n').unwrap_or(text).to_owned();
    }
    let start = text.char_indices().find(|(_, c)| !c.is_whitespace()).map_or(0, |(at, _)| at);
    let start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let end = text.trim_end().len();
    let end = text[end..].find('\n').map_or(text.len(), |at| end + at);
    let text = &text[start.min(end)..end];
    // A `<pre>`, the fragments of Doxygen and pasted blocks keep their indentation.
    let is_exact = dom.tag(root) == Tag::Pre || dom.has_class(root, "fragment") || is_pasted_code(dom, root);
    if is_exact { text.to_owned() } else { text.trim().to_owned() }
}

/// The white space before a node of JSON that is written as lists: two spaces for each of at most 20 items
/// around it. Empty in other code, and if the node does not begin a line. `text` is the code before the node.
fn indentation(dom: &Dom, root: NodeId, id: NodeId, text: &str) -> String {
    if !dom.has_class(root, JSON_TREE) || !text.is_empty() && !text.ends_with('\n') {
        return String::new();
    }
    let is_item = |a: &NodeId| dom.tag(*a) == Tag::Li;
    "  ".repeat(dom.ancestors(id).take_while(|&a| a != root).filter(is_item).take(20).count())
}

/// Whether a line of code has more than its number: any text, even white space, or an image.
fn has_code(dom: &Dom, line: NodeId) -> bool {
    let is_number = |d| d != line && is_not_code(dom, d) && is_line_numbers(dom, d);
    dom.walk(line, is_number).any(|d| {
        let is_text = dom.tag(d) == Tag::Img || dom.text(d).is_some_and(|text| !text.is_empty());
        is_text && !is_number(d)
    })
}

/// The character that highlighters add after an element that is not code: Doxygen writes a no-break space
/// between the number of a line and its code, and Sphinx a line break after a link that has its own line.
/// `text` is the code before the element.
fn separator_after(dom: &Dom, id: NodeId, text: &str) -> Option<char> {
    let is_own_line = || dom.has_class(id, "viewcode-back") && text.ends_with('\n');
    if dom.has_class(id, "lineno") { Some('\u{a0}') } else { is_own_line().then_some('\n') }
}

/// The `+` or `-` that CSS shows before an added or removed line of code; `None` for other lines.
fn diff_sign(dom: &Dom, line: NodeId) -> Option<char> {
    let has = |class| dom.has_class(line, class);
    let is_marked = has("diff") || has("ec-line");
    let signs = [("remove", '-'), ("del", '-'), ("add", '+'), ("ins", '+')];
    signs.into_iter().find(|&(class, _)| is_marked && has(class)).map(|(_, sign)| sign)
}

/// Whether code has lines that were added or removed, and does not show this with signs in its text. Looks at
/// the text of the first such line only.
fn is_diff(dom: &Dom, root: NodeId) -> bool {
    let marked = |id| Some((id, diff_sign(dom, id)?));
    dom.descendants(root).find_map(marked).is_some_and(|(line, sign)| {
        let text = dom.text_content(line);
        let rest = text.strip_prefix(sign);
        // Outside of diffs, a doubled sign such as `--` is an operator.
        let is_operator = rest.is_some_and(|rest| rest.starts_with(sign));
        rest.is_none() || is_operator && declared_language(dom, root) != "diff"
    })
}

/// Whether the element is a `<pre>` that contains one `<code>` and no other elements. It may contain text.
fn is_plain(dom: &Dom, root: NodeId) -> bool {
    let mut elements = dom.descendants(root).filter(|&id| id != root && dom.element(id).is_some());
    dom.tag(root) == Tag::Pre
        && elements.next().is_some_and(|id| dom.tag(id) == Tag::Code && dom.parent(id) == Some(root))
        && elements.next().is_none()
}

/// Whether an element in a code block is one line of code, judging by its tag, attributes, classes and style.
fn is_code_line(dom: &Dom, id: NodeId) -> bool {
    match dom.tag(id) {
        Tag::Tr | Tag::Li | Tag::P => true,
        Tag::Div => {
            // A cell beside a line number is part of its row, not a line of its own.
            let is_row = |p| dom.has_class_in(p, &["flex-row", "ec-line"]) || dom.tag(p) == Tag::Tr;
            !dom.parent(id).is_some_and(is_row) && !dom.has_class(id, "code")
        }
        Tag::Span | Tag::Code | Tag::Other => {
            ["data-line", "data-line-number"].iter().any(|name| dom.has_attribute(id, name))
                // Tokens of Prism may have a class of `LINES`, too: `block` in Handlebars, `line` in diffs.
                || dom.has_class_in(id, LINES) && !dom.has_class(id, "token")
                || dom.is_styled_as_block(id)
        }
        _ => false,
    }
}

/// Whether an element in a code block is not code, such as a button, a line number, a prompt or a popup.
fn is_not_code(dom: &Dom, id: NodeId) -> bool {
    match dom.tag(id) {
        Tag::Button | Tag::Style | Tag::Script | Tag::Template | Tag::Svg | Tag::Input | Tag::Select => true,
        Tag::Text | Tag::Ignored => false,
        Tag::Code if is_only_code(dom, id) => false,
        // The number of lines that Expressive Code collapses.
        Tag::Summary => dom.parent(id).is_some_and(|p| dom.has_class(p, "ec-section")),
        _ => {
            dom.has_class_in(id, NOT_CODE)
                || matches!(dom.tag(id), Tag::Div | Tag::Td) && dom.has_class_in(id, NOT_CODE_BLOCKS)
                || is_line_anchor(dom, id)
                || is_marked_line_number(dom, id)
                || is_unselectable_mark(dom, id)
                || is_bare_line_number(dom, id)
        }
    }
}

/// Whether a style keeps readers from copying an element that is not code: a prefix of at most [`MAX_PREFIX`]
/// bytes with code after it on its line, such as `user@host:~$`, or lines that are blank or have only digits
/// or only punctuation. Other text stays, such as the output of a command.
fn is_unselectable_mark(dom: &Dom, id: NodeId) -> bool {
    if !["user-select", "-webkit-user-select"].iter().any(|p| dom.style(id, p) == Some("none")) {
        return false;
    }
    let text = dom.text_content(id);
    let is_mark = |line: &str| {
        let line = line.trim();
        line.bytes().all(|b| b.is_ascii_digit()) || !line.contains(char::is_alphanumeric)
    };
    let ends_line =
        |node: Option<NodeId>| node.is_some_and(|node| edge(dom, node, false).is_none_or(|end| end == '\n'));
    let starts_line = |node: Option<NodeId>| {
        node.is_none_or(|node| edge(dom, node, true).is_some_and(|start| start == '\n'))
    };
    let node = dom.node(id);
    let is_prefix = || {
        text.len() <= MAX_PREFIX
            && !text.contains('\n')
            && (node.previous.is_none() || ends_line(node.previous))
            && !starts_line(node.next)
    };
    text.lines().all(is_mark) || is_prefix()
}

/// Maximum length in bytes of a prefix, such as `user@host:~$`, that is not part of the code after it.
const MAX_PREFIX: usize = 40;

/// Whether an element is a link that points to itself and whose text is the number of its line.
fn is_line_anchor(dom: &Dom, id: NodeId) -> bool {
    let href = if dom.tag(id) == Tag::A { dom.attribute(id, "href") } else { None };
    href.and_then(|href| href.strip_prefix('#')).is_some_and(|name| {
        dom.attribute(id, "id").or_else(|| dom.attribute(id, "name")) == Some(name)
            && is_line_numbers(dom, id)
            && name.trim_start_matches(|c: char| !c.is_ascii_digit() || c == '0')
                == dom.text_content(id).trim().trim_start_matches('0')
    })
}

/// Whether the element is the only element in a `<pre>`.
fn is_only_code(dom: &Dom, id: NodeId) -> bool {
    dom.parent(id).is_some_and(|p| dom.tag(p) == Tag::Pre)
        && dom.previous_element(id).is_none()
        && dom.next_element(id).is_none()
}

/// Whether a class or an attribute marks the element as a line number, and its text can be one: it is blank,
/// or has only digits and separators. The mark alone is not enough, because it may also be on code. False for
/// elements with a class of [`LINES`], which contain code. With only `data-line-number`, an element is also
/// code if it has a line break, or if it is all of its line and shows another number or nothing.
fn is_marked_line_number(dom: &Dom, id: NodeId) -> bool {
    let is_listing = |p| dom.has_class(p, "lstlisting");
    let is_named = dom.has_class_in(id, LINE_NUMBERS)
        || dom.has_class(id, "label") && dom.parent(id).is_some_and(is_listing);
    if !is_named && !dom.has_attribute(id, "data-line-number") || dom.has_class_in(id, LINES) {
        return false;
    }
    let is_separator = |c: char| is_named && !c.is_alphabetic() && (!c.is_ascii() || ".:|+-".contains(c));
    let text = dom.text_content(id);
    let is_line = || {
        let has_break = |node: NodeId| dom.text(node).is_some_and(|text| text.contains('\n'));
        let is_edge = |node: Option<NodeId>| node.is_none_or(has_break);
        let node = dom.node(id);
        dom.tag(id) == Tag::Span
            && dom.attribute(id, "data-line-number") != Some(text.trim())
            && (text.contains('\n') || is_edge(node.previous) && is_edge(node.next))
    };
    text.chars().all(|c| c.is_whitespace() || c.is_ascii_digit() || is_separator(c))
        && (is_named || !is_line())
}

/// Whether the element is a line number that precedes the code in its row.
fn is_bare_line_number(dom: &Dom, id: NodeId) -> bool {
    let Some(row) = dom.parent(id) else { return false };
    let is_row = dom.has_class(row, "flex-row") || dom.tag(row) == Tag::Tr;
    is_row && dom.previous_element(id).is_none() && dom.next_element(id).is_some() && is_line_numbers(dom, id)
}

/// Whether an element shows the line numbers of the code block beside it, as in VitePress and VuePress.
pub(super) fn is_line_number_column(dom: &Dom, id: NodeId) -> bool {
    let has_code = |id: NodeId| dom.subtree(id).take(4).any(|d| dom.tag(d) == Tag::Pre);
    matches!(dom.tag(id), Tag::Div | Tag::Span)
        && dom.classes(id).any(|class| class.contains("line-number"))
        && dom.nodes_before(id).take(5).chain(dom.nodes_after(id).take(5)).any(has_code)
        && dom.find(id, Tag::Pre).is_none()
        && is_line_numbers(dom, id)
}

/// Whether the text of an element consists of one or more numbers in ASCII digits.
fn is_line_numbers(dom: &Dom, id: NodeId) -> bool {
    let text = dom.text_content(id);
    let text = text.trim();
    !text.is_empty() && text.split_whitespace().all(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

/// The text of a code span on one line. As in browsers, a line break is one space, with the white space
/// around it. Each other tab or carriage return becomes a space.
pub(super) fn one_line(code: &str) -> String {
    let mut lines = code.split('\n');
    let mut joined = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        joined.truncate(joined.trim_ascii_end().len());
        joined.push(' ');
        joined.push_str(line.trim_ascii_start());
    }
    joined.replace(['\r', '\t'], " ")
}

/// The language of a code block, other than plain text. If none is named, it is `diff` if lines are marked as
/// added or removed without signs in their text ([`is_diff`]), or else empty.
pub(super) fn language(dom: &Dom, root: NodeId) -> String {
    let name = declared_language(dom, root);
    if name.is_empty() && is_diff(dom, root) { "diff".to_owned() } else { name }
}

/// The language that a code block, the first elements in it, or the nearest elements around it name, or else
/// the text of a label in it (class `language-id`); empty if none does. A name for plain text is skipped,
/// because highlighters write it if they detected no language; an element further outside may then name one.
/// The trees of Redoc are always `json`, and the class `RktBlk` of Scribble is always `racket`.
fn declared_language(dom: &Dom, root: NodeId) -> String {
    let code = dom.descendants(root).filter(|&d| dom.tag(d) == Tag::Code).take(3);
    let is_page = |id| matches!(dom.tag(id), Tag::Body | Tag::Article | Tag::Main);
    let wrappers = dom.ancestors(root).skip(1).take(4).take_while(|&id| !is_page(id));
    let line = dom.child_elements(root).next().filter(|_| dom.tag(root) == Tag::Div);
    let mut candidates = std::iter::once(root).chain(code).chain(line).chain(wrappers);
    let label = || dom.descendants(root).take(4).find(|&d| dom.has_class(d, "language-id"));
    let labeled = || normalize_language(&dom.collapsed_text(label()?));
    if dom.has_class(root, JSON_TREE) {
        return "json".to_owned();
    }
    if dom.has_class(root, "RktBlk") {
        return "racket".to_owned();
    }
    candidates.find_map(|id| element_language(dom, id)).or_else(labeled).unwrap_or_default()
}

/// Class prefixes that precede the name of a language.
#[rustfmt::skip]
const PREFIXES: [&str; 9] = [
    "language-", "lang-", "lang:", "highlight-source-", "highlight-text-", "brush:", "src-", "ltx_lst_language_",
    "mw-highlight-lang-",
];

/// Class prefixes that precede the name of a language or some other word.
const AMBIGUOUS_PREFIXES: [&str; 4] = ["hl-", "source-", "sh_", "type-"];

/// The untrimmed value of `brush` in an attribute such as `brush: java; gutter: false`. Reads the first 200
/// bytes.
fn brush(settings: &str) -> Option<&str> {
    clip(settings, 200).split_once("brush:")?.1.split(';').next()
}

/// The language that the attributes or the classes of one element name. A class without a prefix must be a
/// known language, and follow the class of a highlighter or be on a highlighter's, a diagram's, a `<pre>` or
/// a `<code>` element.
fn element_language(dom: &Dom, id: NodeId) -> Option<String> {
    let is_code = matches!(dom.tag(id), Tag::Pre | Tag::Code);
    let attributes = ["data-language", "data-lang", "data-code-lang", "data-enlighter-language", "language"];
    let named = dom.first_attribute(id, &attributes);
    let named = named.or_else(|| dom.attribute(id, "lang").filter(|_| is_code));
    let named = named.or_else(|| brush(dom.attribute(id, "data-syntaxhighlighter-params")?));
    if let Some(name) = named.and_then(normalize_language) {
        return Some(name);
    }
    let mut previous = "";
    let (mut found, mut is_highlighter) = (None, false);
    let classes = dom.classes(id).map(|class| class.split(';').next().unwrap_or_default());
    for class in classes.map(|class| class.trim_matches('"')) {
        let prefixed = PREFIXES.iter().find_map(|p| class.strip_prefix(p));
        let prefixed = prefixed.filter(|n| !matches!(*n, "block" | "toolbar"));
        // Sphinx puts `highlight-` and the language on the parent of a `<div class=highlight>`. Elsewhere,
        // other words may follow `highlight-`, as in `highlight-container`.
        let is_block = |c| dom.tag(c) == Tag::Div && dom.has_class(c, "highlight");
        let has_block = || dom.child_elements(id).take(3).any(is_block);
        let sphinx = class.strip_prefix("highlight-").filter(|name| {
            !is_code && (is_known_language(name) || dom.has_class(id, "notranslate") || has_block())
        });
        let mut ambiguous = AMBIGUOUS_PREFIXES.iter().filter_map(|p| class.strip_prefix(p));
        let ambiguous = ambiguous.find(|name| is_known_language(name));
        if let Some(name) = prefixed.or(sphinx).or(ambiguous).and_then(normalize_language) {
            return Some(name);
        }
        let is_name_after =
            matches!(previous, "hljs" | "sourceCode" | "brush:" | "highlight" | "chroma" | "prettyprint");
        if is_name_after && is_known_language(class) {
            found = normalize_language(class);
        }
        is_highlighter |= matches!(
            class,
            "hljs"
                | "sourceCode"
                | "highlight"
                | "src"
                | "shiki"
                | "syntaxhighlighter"
                | "codecolorer-container"
        );
        previous = class;
    }
    found.or_else(|| {
        // A single letter after another class, as in `wide r`, is more likely a position than a language.
        let is_name =
            |&(at, c): &(usize, &str)| is_known_language(c) && (at == 0 || c.len() > 1 || is_highlighter);
        let known = dom.classes(id).enumerate().find(is_name).map(|(_, class)| class);
        known.filter(|_| is_highlighter || is_code || is_diagram(dom, id)).and_then(normalize_language)
    })
}

/// Normalizes the name of a language for use after a code fence; `None` for plain text, for names with
/// characters other than letters, digits and `+-#_.`, and for those of more than 30 bytes.
fn normalize_language(name: &str) -> Option<String> {
    let name = name.trim().trim_end_matches(';').trim_matches('"').to_ascii_lowercase();
    let name = name.strip_prefix("lang-").unwrap_or(&name).to_owned();
    let is_word = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '+' | '-' | '#' | '_' | '.'));
    let is_plain = matches!(
        &*name,
        "" | "plaintext"
            | "plain"
            | "text"
            | "txt"
            | "none"
            | "default"
            | "undefined"
            | "nohighlight"
            | "generic"
            | "auto"
            | "unknown"
            | "null"
            | "no-highlight"
            | "plain-text"
    );
    (is_word && !is_plain && name.len() <= 30).then_some(name)
}

/// Whether a class without a prefix such as `language-` is, ignoring case, one of the languages listed here.
#[rustfmt::skip]
fn is_known_language(class: &str) -> bool {
    matches!(class.to_ascii_lowercase().as_str(), "asm" | "awk" | "bash" | "c" | "c++" | "clojure" | "cmake" | "console" | "cpp"
        | "cs" | "csharp" | "css" | "csv" | "dart" | "diff" | "docker" | "dockerfile" | "elixir" | "elm" | "erlang" | "fish"
        | "fsharp" | "go" | "golang" | "graphql" | "groovy" | "haskell" | "hcl" | "html" | "http" | "ini" | "ipython3" | "java"
        | "javascript" | "js" | "json" | "json5" | "jsonc" | "jsx" | "julia" | "kotlin" | "latex" | "lean" | "less" | "lisp"
        | "lua" | "makefile" | "markdown" | "matlab" | "md" | "mermaid" | "nginx" | "nim" | "nix" | "objc" | "ocaml" | "perl"
        | "php" | "plsql" | "powershell" | "proto" | "protobuf" | "ps1" | "puppet" | "py" | "python" | "python3" | "r"
        | "rb" | "regex" | "rs" | "rst" | "ruby" | "rust" | "sass" | "scala" | "scheme" | "scss" | "sh" | "shell" | "solidity"
        | "sql" | "svelte" | "swift" | "tcl" | "terraform" | "tex" | "toml" | "ts" | "tsx" | "typescript" | "vb" | "verilog"
        | "vim" | "vue" | "wasm" | "xml" | "yaml" | "yml" | "zig" | "zsh")
}

#[cfg(test)]
mod tests {
    use super::super::dom::DOCUMENT;
    use super::super::parse::parse;
    use super::super::tests::markdown;
    use super::*;

    fn code(html: &str) -> (String, String) {
        let dom = parse(html);
        let id = dom.descendants(DOCUMENT).find(|&id| is_code_block(&dom, id)).expect("a code block");
        (language(&dom, id), code_text(&dom, id))
    }

    #[test]
    fn numbers_links_and_labels_are_no_code() {
        for (html, expected) in [
            (
                "<pre><span class=sourceLineNo>001</span><a>/*</a>\n<span class=sourceLineNo>002</span> *</pre>",
                "/*\n *",
            ),
            (
                "<pre>a\n<div><a class=viewcode-back href=a>[docs]</a>    def b(self):\n</div></pre>",
                "a\n    def b(self):",
            ),
            (
                "<pre><details class=ec-section><summary>2 collapsed lines</summary><div class=ec-line>a</div>\
                 <div class=ec-line>b</div></details><div class=ec-line>c</div></pre>",
                "a\nb\nc",
            ),
            (
                "<pre><div class=line>a</div><span class=error><span>No a.</span></span>\
                 <span class=error-behind>No a.</span><div class=line>b</div></pre>",
                "a\nNo a.\nb",
            ),
            ("<pre>a\n\n<a class=viewcode-back href=a>[docs]</a>\ndef b():</pre>", "a\n\ndef b():"),
        ] {
            assert_eq!(code(html).1, expected, "{html}");
        }
        let labeled = "<pre class=shiki><div class=language-id>ts</div><div class=code-container><code>\
                       <div class=line>a</div></code><a class=playground-link>Try</a></div></pre>";
        assert_eq!(code(labeled), ("ts".to_owned(), "a".to_owned()));
    }

    #[test]
    fn the_title_of_a_table_with_code_stands_above_it() {
        for table in [
            "<table class=highlighttable><tr><th colspan=2 class=filename><span class=filename>a.py</span></th></tr>\
             <tr><td class=linenos><pre>1</pre></td><td class=code><pre>b\n</pre></td></tr></table>",
            "<div class=syntaxhighlighter><table><caption>a.py</caption><tr><td class=gutter>1</td>\
             <td class=code><code>b</code></td></tr></table></div>",
        ] {
            assert_eq!(markdown(table), "a.py\n\n```\nb\n```\n", "{table}");
        }
    }

    #[test]
    fn images_in_code_are_their_alternative_texts() {
        for (html, expected) in [
            ("<p>Press <code><img src=/a.png alt=x></code>.", "Press `x`.\n"),
            ("<p><code>a <img src=/a.png alt='b c'> d</code>", "`a b c d`\n"),
            ("<p><code>a<img src=/a.png></code>", "`a`\n"),
            ("<p><code>a<br><img src=/a.png alt=b></code>", "`a`  \n`b`\n"),
            (
                "<p><code><img src=/a.png alt=a><a href=/b>b<img src=/c.png alt=c></a></code>",
                "`a`[`bc`](/b)\n",
            ),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn a_block_of_white_space_is_left_out() {
        for html in ["<pre>   </pre>", "<pre> \n\t\n </pre>", "<pre><code>  </code></pre>"] {
            let page = format!("<!doctype html><main><p>a</p>{html}<p>b</p></main>");
            assert_eq!(markdown(&page), "a\n\nb\n", "{html}");
        }
    }

    #[test]
    fn a_pasted_block_of_lines_is_code() {
        let style = "font-family: Consolas, 'Courier New', monospace;font-size: 14px;white-space: pre;";
        let html = |style: &str| {
            format!(
                "<div style=\"{style}\"><div><span>  if</span> a {{</div><br><div>  b</div><div>}}</div></div>"
            )
        };
        assert_eq!(code(&html(style)).1, "  if a {\n\n  b\n}");
        for other in
            ["font-family: monospace", "white-space: pre", "font-family: monospace;white-space: pre-line"]
        {
            let dom = parse(&html(other));
            assert!(!dom.descendants(DOCUMENT).any(|id| is_code_block(&dom, id)), "{other}");
        }
        let courier = "font-family: Courier, monospace; white-space: pre-wrap";
        for (style, lines, is_code) in [
            (courier, "a {<br>  b<br>}", true),
            (courier, "a {\n\tb\n}", true),
            (courier, "<div>a</div>", true),
            ("font: 14px Courier, monospace; white-space: pre", "a {<br><span>  b</span>", true),
            (courier, "  a", false),
            ("font-family: 'Monotype Corsiva', cursive; white-space: pre-wrap", "<div>a</div>", false),
            ("font-family: Helvetica, monospace; white-space: pre-wrap", "<div>a</div>", false),
            ("font-family: Helvetica, monospace; white-space: pre-wrap", "Dear reader,<br>  a", false),
            (courier, "Dear reader,<br>a<br>b", false),
        ] {
            let dom = parse(&format!("<div style=\"{style}\">{lines}</div>"));
            let found = dom.descendants(DOCUMENT).any(|id| is_code_block(&dom, id));
            assert_eq!(found, is_code, "{style} {lines}");
        }
    }

    #[test]
    fn code_with_line_breaks_instead_of_lines_is_code() {
        for (html, expected) in [
            (
                "<div class=verbatim>let a&nbsp;=&nbsp;1\n&nbsp;<br />&nbsp;&nbsp;let <i>b</i>\n</div>",
                "let a = 1\n  let b",
            ),
            (
                "<div class=code>\n<span class=id title=keyword>Lemma</span> x.<br/>\n&nbsp;&nbsp;auto.<br/></div>",
                "Lemma x.\n  auto.",
            ),
            (
                "<table class=RktBlk><tr><td>(f<span>&nbsp;</span>x)<tr><td><span>&nbsp;&nbsp;</span>y<tr><td><p>1</p></table>",
                "(f x)\n  y\n1",
            ),
            (
                "<pre class=lstlisting><span class=label><a id=x></a><span>1</span></span>a=1\n<span class=label>2</span>b</pre>",
                "a=1\nb",
            ),
            ("<pre><span class=label>1</span>a</pre>", "1a"),
        ] {
            assert_eq!(code(html).1, expected, "{html}");
        }
        for (html, expected) in [
            ("<div class=code>Use<br>OAK9</div>", "Use  \nOAK9\n"),
            ("<div class=verbatim><p>a</p><p>b</p></div>", "a\n\nb\n"),
            (
                "<div class=verbatim>We loved&nbsp;it. See <a href=/oak>Oak</a>.<br>Ann <img src=/ann.jpg alt=Ann></div>",
                "We loved\u{a0}it. See [Oak](/oak).  \nAnn ![Ann](/ann.jpg)\n",
            ),
            ("<div class=verbatim>We loved it.<br>Ann</div>", "We loved it.  \nAnn\n"),
            (
                "<table class=SVerbatim><tr><td>a<tr><td><img src=/oak.png alt=image></table>",
                "a\n\n![image](/oak.png)\n",
            ),
            (
                "<blockquote class=SCodeFlow><table class=RktBlk><tr><td>a</table></blockquote>",
                "```racket\na\n```\n",
            ),
        ] {
            assert_eq!(super::super::tests::markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn tokens_of_prism_are_no_lines() {
        for (html, expected) in [
            (
                "<pre><code><i></i><span class='token deleted'><span class='token prefix'>-</span><span class='token line'>a\n</span></span><span class='token prefix'>+</span><span class='token line'>b\n</span></code></pre>",
                "-a\n+b",
            ),
            (
                "<pre><code><span class=token-line>-<span class='token deleted line'>a</span><br></span><span class=token-line>+<span class='token line'>b</span><br></span></code></pre>",
                "-a\n+b",
            ),
            ("<pre><code>{{<span class='token block keyword'>#if</span> x}}</code></pre>", "{{#if x}}"),
        ] {
            assert_eq!(code(html).1, expected, "{html}");
        }
    }

    #[test]
    fn text_that_readers_cannot_copy_is_code_except_before_a_line() {
        for (html, expected) in [
            ("$ ls\n<i style='user-select: none'>a.txt\nb.txt</i>", "$ ls\na.txt\nb.txt"),
            ("<i style='user-select:none'>output only</i>", "output only"),
            ("<i style=user-select:none>ann@oak:~$ </i>ls\n<i style=user-select:none>$ </i>ls", "ls\nls"),
            ("<i style='-webkit-user-select:none'>1\n2\n</i>a", "a"),
        ] {
            assert_eq!(code(&format!("<pre><code>{html}</code></pre>")).1, expected, "{html}");
        }
    }

    #[test]
    fn lines_with_a_number_as_an_attribute_are_code() {
        for (html, expected) in [
            (
                "<b data-line-number=1>sum(</b>\n<b data-line-number=2>42</b>\n<b data-line-number=3>)</b>",
                "sum(\n42\n)",
            ),
            (
                "<b data-line-number=1>[\n</b><b data-line-number=2>42\n</b><b data-line-number=3>\n</b><b data-line-number=4>]\n</b>",
                "[\n42\n\n]",
            ),
            ("<b data-line-number=1></b>a\n<b data-line-number=2></b>b", "a\nb"),
            ("<b data-line-number=1>1</b>a\n<b data-line-number=2>2</b>b", "a\nb"),
        ] {
            let html = html.replace("<b", "<span").replace("</b>", "</span>");
            assert_eq!(code(&format!("<pre><code>{html}</code></pre>")).1, expected, "{html}");
        }
    }

    #[test]
    fn obsolete_elements_for_preformatted_text_are_code() {
        for name in ["xmp", "listing", "plaintext"] {
            assert_eq!(code(&format!("<p>x<{name}>\na\n  b</{name}>")).1.lines().next(), Some("a"), "{name}");
        }
        assert_eq!(code("<xmp><b>a</b>\n  c</xmp>").1, "<b>a</b>\n  c");
    }

    #[test]
    fn a_highlighted_figure_without_code_is_a_table() {
        let dom = |html: &str| parse(&format!("<figure class=highlight>{html}</figure>"));
        let is_code = |html: &str| {
            let dom = dom(html);
            dom.descendants(DOCUMENT).any(|id| dom.tag(id) == Tag::Table && is_code_block(&dom, id))
        };
        assert!(is_code("<table><tr><td class=code><pre>a</pre></table>"));
        assert!(!is_code("<table><tr><td>Oak<td>9 m</table>"));
    }

    #[test]
    fn reads_the_markup_of_each_highlighter() {
        let expected = "let a = 1;\n\nlet b;";
        for html in [
            // Shiki, rehype-pretty-code
            "<pre class='shiki nord' data-language=rust><code><span class=line>let <i>a</i> = 1;</span>\n<span class=line></span>\n<span class=line>let b;</span></code></pre>",
            "<pre data-language=rust><code style='display:grid'><span data-line>let a = 1;</span>\n<span data-line> </span>\n<span data-line>let b;</span></code></pre>",
            // Prism, highlight.js
            "<pre class=language-rust><code class=language-rust>let a = <span>1</span>;\n\nlet b;\n<span class=line-numbers-rows><span></span></span></code></pre>",
            "<pre><code class='hljs rust'>let a = 1;\n\nlet b;</code></pre>",
            // Chroma
            "<div class=highlight><pre class=chroma><code class=language-rust data-lang=rust><span class=line><span class=ln>1</span><span class=cl>let a = 1;\n</span></span><span class=line><span class=ln>2</span><span class=cl>\n</span></span><span class=line><span class=ln>3</span><span class=cl>let b;</span></span></code></pre></div>",
            // Pygments, Rouge
            "<div class='highlight-rust notranslate'><div class=highlight><pre><span></span><span class=linenos>1</span>let a = 1;\n<span class=linenos>2</span>\n<span class=linenos>3</span>let b;\n</pre></div></div>",
            "<div class='language-rust highlighter-rouge'><div class=highlight><table class=rouge-table><tr><td class='rouge-gutter gl'><pre>1\n2\n3\n</pre><td class=rouge-code><pre>let a = 1;\n\nlet b;\n</pre></table></div></div>",
            // Doxygen, Javadoc, a table of line numbers, SyntaxHighlighter
            "<div class='fragment language-rust'><div class=line><span class=keyword>let</span> a = 1;</div>\n<div class=line></div>\n<div class=line>let b;</div>\n</div>",
            "<pre class=language-rust><span class=source-line-no>001</span><span id=line-1>let a = 1;</span>\n<span class=source-line-no>002</span>\n<span class=source-line-no>003</span><span>let b;</span>\n</pre>",
            "<table class=language-rust><tr><td><pre>1\n2\n3</pre><td><pre>let a = 1;\n\nlet b;</pre></table>",
            "<pre class='brush: rust; title: x'>let a = 1;\n\nlet b;</pre>",
            "<div class='syntaxhighlighter rust'><table><tr><td class=gutter><div class='line number1'>1</div><div class=line>2</div><div class=line>3</div><td class=code><div class=container><div class=line><code class=keyword>let</code> <code>a = 1;</code></div><div class=line> </div><div class=line><code>let b;</code></div></div></table></div>",
            "<div class='codecolorer-container rust default'><table><tr><td class=line-numbers><div>1<br>2<br>3<br></div><td><div class='rust codecolorer'>let a = 1;<br><br>let b;<br></div></table></div>",
            "<div class=code-block data-lang=rust>let a = 1;\n\nlet b;</div>",
            // LaTeXML
            "<div class='ltx_lstlisting ltx_lst_language_Rust'><div class=ltx_listing_data><a href=data:,x>x</a></div><div class=ltx_listingline><span class=ltx_tag_listingline>1</span>let a = 1;</div><div class=ltx_listingline></div><div class=ltx_listingline>let b;</div></div>",
            // Giallo
            "<pre class=giallo><code data-lang=rust><span class=giallo-l><i>let</i><i> a = 1;</i></span><span class=giallo-l></span><span class=giallo-l><i>let</i> b;</span></code></pre>",
            "<pre class=giallo><code data-lang=rust><span class=giallo-l><span class=giallo-ln> 9</span>let a = 1;</span><span class=giallo-l><span class=giallo-ln>10</span></span><span class=giallo-l><span class=giallo-ln>11</span>let b;</span></code></pre>",
            // Expressive Code, CodeMirror
            "<figure class=frame><pre data-language=rust><code><div class=ec-line><div class=gutter>1</div><div class=code>let a = 1;</div></div><div class=ec-line><div class=code>\n</div></div><div class=ec-line><div class=code>let b;</div></div></code></pre><div class=copy><button>Copy</button></div></figure>",
            "<div class=cm-content data-language=rust><div class=cm-line>let a = 1;</div><div class=cm-line><br></div><div class=cm-line>let b;</div></div>",
        ] {
            let (language, text) = code(html);
            assert_eq!(text.replace("\n \n", "\n\n"), expected, "{html}");
            assert_eq!(language, "rust", "{html}");
        }
    }

    #[test]
    fn words_named_like_parts_of_a_page_are_code() {
        assert_eq!(code("<pre>a.<span class=copy>copy</span>() <i class=gutter>b</i></pre>").1, "a.copy() b");
        let rustdoc =
            "<pre class=rust><code><a href=#1 id=1>1</a>fn a() {\n<a href=#2 id=2>2</a>}</code></pre>";
        assert_eq!(code(rustdoc).1, "fn a() {\n}");
        assert_eq!(code("<pre>see <a href=#2>2</a> <a href=#L10 id=L10>7</a></pre>").1, "see 2 7");
    }

    #[test]
    fn code_that_is_marked_as_a_line_number_stays() {
        for html in [
            "<pre><code><span class='code-line line-number' line=1>a(1)\n</span><span class='code-line line-number' line=2>})\n</span></code></pre>",
            "<pre><code><table class=hljs-ln><tr><td class=hljs-ln-numbers data-line-number=1><div class=hljs-ln-n data-line-number=1></div><td class='hljs-ln-line hljs-ln-code' data-line-number=1>a(1)<tr><td class=hljs-ln-numbers data-line-number=2><td class=hljs-ln-code data-line-number=2>})</table></code></pre>",
            "<pre><code class='language-js line-numbers'>a(1)\n})</code></pre>",
            "<pre><span class=line data-line-number=1>a(1)</span><span class=line data-line-number=2>})</span></pre>",
            "<pre><span data-line-number=1>a(1)</span><span data-line-number=2>})</span></pre>",
            "<pre><span class=linenr>1: </span>a(1)\n<span class=linenr>2: </span>})</pre>",
            "<pre><span class=idlHeader><a>WebIDL</a></span>a(1)\n})</pre>",
            "<pre><span class=linenos>1:</span>a(1)\n<span class=linenos> 2 |</span>})</pre>",
            "<pre><code style='user-select: none'>a(1)\n})</code></pre>",
        ] {
            assert_eq!(code(html).1, "a(1)\n})", "{html}");
        }
        assert_eq!(code("<pre><code class=line-numbers>42</code></pre>").1, "42");
        assert_eq!(code("<pre><code class=lineno>1</code><code>42</code></pre>").1, "42");
    }

    #[test]
    fn names_of_wrappers_are_no_languages() {
        for (class, inner, expected) in [
            ("highlight-container", "<figure class='highlight js'><pre>x</pre></figure>", "js"),
            ("highlight-container", "<pre>x</pre>", ""),
            ("highlight-pycon3", "<div class=highlight><pre>x</pre></div>", "pycon3"),
            ("'highlight-ipython notranslate'", "<pre>x</pre>", "ipython"),
            ("highlight-sql", "<pre>x</pre>", "sql"),
        ] {
            assert_eq!(code(&format!("<div class={class}>{inner}</div>")).0, expected, "{class} {inner}");
        }
    }

    #[test]
    fn highlighters_of_wordpress_name_the_language() {
        for attribute in ["data-enlighter-language=php", "class='lang:php decode:true'"] {
            assert_eq!(code(&format!("<pre {attribute}>x</pre>")).0, "php", "{attribute}");
            assert_eq!(code(&format!("<pre><code {attribute}>x</code></pre>")).0, "php", "{attribute}");
        }
        assert_eq!(code("<pre data-enlighter-language=generic>x</pre>").0, "");
    }

    #[test]
    fn added_and_removed_lines_have_signs() {
        let diff = "-a()\n+b()\n c()";
        let line = |class: &str, text: &str| format!("<span class='line {class}'>{text}</span>\n");
        let lines = [line("diff remove", "a()"), line("diff add", "b()"), line("", "c()")].concat();
        let page = |language: &str| code(&format!("<pre><code class='{language}'>{lines}</code></pre>"));
        assert_eq!(page("language-js"), ("js".to_owned(), diff.to_owned()));
        assert_eq!(page(""), ("diff".to_owned(), diff.to_owned()));
        let line = |class: &str, text: &str| {
            format!("<div class='ec-line {class}'><div class=code>{text}</div></div>")
        };
        let lines = [line("highlight del", "a()"), line("highlight ins", "b()"), line("", "c()")].concat();
        assert_eq!(code(&format!("<pre>{lines}</pre>")).1, diff);
        let own = "<pre class=language-diff><span class='line diff remove'>-a()</span></pre>";
        assert_eq!(code(own).1, "-a()");
        assert_eq!(code("<pre class=ts><span class='line diff add'>+ a</span></pre>").1, "+ a");
        assert_eq!(code("<pre class=ts><span class='line diff add'>++a</span></pre>").1, "+++a");
        assert_eq!(code("<pre><span class=line>a</span><span class='line add'>b</span></pre>").1, "a\nb");
    }

    #[test]
    fn code_without_pre_is_a_block() {
        for (html, language, text) in [
            ("<div class=mermaid>\ngraph TD\n  A--&gt;B\n</div>", "mermaid", "graph TD\n  A-->B"),
            ("<d-code block language=js>\nif (a) {\n  b()\n}\n</d-code>", "js", "if (a) {\n  b()\n}"),
            ("<div><code class=language-js>if (a) {\n  b()\n}</code></div>", "js", "if (a) {\n  b()\n}"),
            (
                "<div class=ql-code-block-container><div class=ql-code-block data-language=js>if (a)</div><div class=ql-code-block>  b()</div></div>",
                "js",
                "if (a)\n  b()",
            ),
            (
                "<div class='data type-python'><table class='highlight js-file-line-container'><tr><td class=blob-num></td><td class=blob-code>if a:</td></tr><tr><td class=blob-num></td><td class=blob-code>  b</td></tr></table></div>",
                "python",
                "if a:\n  b",
            ),
            (
                "<table><tr><td class=lines-num><span data-line-number=1></span><td class=lines-code><code>if a:\n</code><tr><td class=lines-num><td class=lines-code><code>  b\n</code></table>",
                "",
                "if a:\n  b",
            ),
        ] {
            assert_eq!(code(html), (language.to_owned(), text.to_owned()), "{html}");
        }
        for html in [
            "<div class=mermaid><svg><text>a</text></svg></div>",
            "<div class=mermaid></div>",
            "<p>a <d-code>b</d-code>",
            "<div>Use <code class=language-js>a\nb</code></div>",
            "<p><code class=language-js>a\nb</code>",
            "<div><code>a\nb</code></div>",
        ] {
            let dom = parse(html);
            assert!(!dom.descendants(DOCUMENT).any(|id| is_code_block(&dom, id)), "{html}");
        }
    }

    #[test]
    fn json_in_nested_lists_is_indented_code() {
        let line = |text: &str| format!("<li><div class=hoverable>{text}</div></li>");
        let inner = format!("\"b\": [<ul>{}{}</ul>],", line("1,"), line("2"));
        let html = format!(
            "<div class=redoc-json><code><button></button><i>{{</i><i class=ellipsis></i><ul>{}{}{}</ul><i>}}</i></code></div>",
            line("<i>\"a\"</i>: <i>0</i>,"),
            line(&inner),
            line("\"c\": {}"),
        );
        let expected = "{\n  \"a\": 0,\n  \"b\": [\n    1,\n    2\n  ],\n  \"c\": {}\n}";
        assert_eq!(code(&html), ("json".to_owned(), expected.to_owned()));
    }

    #[test]
    fn annotations_are_no_code() {
        let anchor = "<a class=code-annotation-anchor data-target-annotation=1>1</a>";
        assert_eq!(code(&format!("<pre><code>{anchor}a(b)</code></pre>")).1, "a(b)");
    }

    #[test]
    fn classes_and_settings_name_the_language() {
        for (html, expected) in [
            ("<div class='mw-highlight mw-highlight-lang-python'><pre>x</pre></div>", "python"),
            ("<div class='cpp source-cpp'><pre>x</pre></div>", "cpp"),
            ("<div class='highlight hl-ipython3'><pre>x</pre></div>", "ipython3"),
            ("<pre class='code file php'>x</pre>", "php"),
            ("<pre class=sh_java>x</pre>", "java"),
            ("<pre class=r>x</pre>", "r"),
            ("<pre class='wide r'>x</pre>", ""),
            ("<pre data-syntaxhighlighter-params='brush: java; gutter: false'>x</pre>", "java"),
            ("<div class='source-view type-box'><pre class=wide>x</pre></div>", ""),
            ("<pre data-language=lang-auto>x</pre>", ""),
            ("<pre class='brush:js;toolbar:false'>x</pre>", "js"),
            ("<pre class='brush: &quot;php&quot;; html-script: true'>x</pre>", "php"),
        ] {
            assert_eq!(code(html).0, expected, "{html}");
        }
        for plain in ["auto", "unknown", "null", "no-highlight", "plain-text"] {
            assert_eq!(code(&format!("<pre><code class=language-{plain}>x</code></pre>")).0, "", "{plain}");
        }
    }

    #[test]
    fn plain_text_has_no_language() {
        assert_eq!(
            code("<pre><code class=language-plaintext>  a\n b\n</code></pre>"),
            (String::new(), "  a\n b".to_owned())
        );
    }

    #[test]
    fn the_first_line_keeps_its_indentation() {
        let lines = "<div class=line>    }, {</div><div class=line>  b</div>";
        assert_eq!(code(&format!("<div class=fragment>{lines}</div>")).1, "    }, {\n  b");
    }

    #[test]
    fn inline_elements_that_are_laid_out_as_blocks_are_lines() {
        for html in [
            "<pre><code>a\n<span class=gatsby-highlight-code-line>b</span>c</code></pre>",
            "<pre><code>a\n<span class=gatsby-highlight-code-line>b</span><span class=gatsby-highlight-code-line>c</span></code></pre>",
            "<pre>a\n<span style='display: block'>b</span><span style='display:flex'>c</span></pre>",
            "<pre>a\n<span class='block x'>b\n</span><span class=d-block>c</span></pre>",
        ] {
            assert_eq!(code(html).1, "a\nb\nc", "{html}");
        }
        assert_eq!(code("<pre>a <code style='display:block'>b</code></pre>").1, "a \nb");
        assert_eq!(code("<pre><code class=block>b</code></pre>").1, "b");
        assert_eq!(code("<pre><code style='display:grid'>b\n</code></pre>").1, "b");
    }

    #[test]
    fn images_in_code_are_their_descriptions() {
        assert_eq!(code("<pre><img src=d alt='[DIR]'> <a href=b/>b/</a><img src=e></pre>").1, "[DIR] b/");
    }

    #[test]
    fn verses_are_lines_of_text() {
        for html in [
            "<pre class=wp-block-verse>*a<br>  to <a href=/b>b\nc</a>\n\n<em>d</em></pre>",
            "<div class=verseblock><pre class=content>*a\nto <a href=/b>b c</a>\n\n<em>d</em></pre></div>",
        ] {
            assert_eq!(super::super::tests::markdown(html), "\\*a  \nto [b c](/b)\n\n*d*\n", "{html}");
        }
    }

    #[test]
    fn line_breaks_of_html_are_lines() {
        assert_eq!(code("<pre>a<br>b<br><br>c</pre>").1, "a\nb\n\nc");
        let line = "<div class=line><a name=l1></a><span class=lineno> 1</span>&nbsp; a</div>";
        assert_eq!(code(&format!("<div class=fragment>{line}</div>")).1, " a");
    }
}
