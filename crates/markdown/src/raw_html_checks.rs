//! Finds the parts of raw HTML that the content security policy blocks, images without alternative text, and
//! tags that hide text.

use std::collections::HashSet;

use comrak::nodes::{Node, NodeValue, Sourcepos};

/// The beginnings of raw HTML that the content security policy blocks, each with a hint.
pub const BLOCKED: [(&str, &str); 6] = [
    ("<script", "move the code to a file in assets/ and load it with `src`"),
    ("<style", "move the rules to theme/style.css"),
    (
        "<iframe",
        "link to the embedded page instead, or add its host to `frame` in `[security.allow]` in frontdesk.toml",
    ),
    ("<object", "link to the file instead"),
    ("<embed", "link to the file instead"),
    (" style=", "give the element a class, and add a rule for the class to theme/style.css"),
];

/// For an image on another site: what the policy blocks, and the hint of the warning.
pub const BLOCKED_IMAGE: (&str, &str) = (
    "images from other sites",
    "copy the image to assets/, or add its host to `image` in `[security.allow]` in frontdesk.toml",
);
pub const BLOCKED_SCRIPT: (&str, &str) = (
    "scripts from other sites",
    "copy the script to assets/, or add its host to `script` in `[security.allow]` in frontdesk.toml",
);
pub const BLOCKED_MEDIA: (&str, &str) =
    ("audio and video from other sites", "copy the file to assets/, or link to it instead");
pub const BLOCKED_FORM: (&str, &str) = (
    "forms that are sent to other sites",
    "define the form in forms/ and write `form: NAME` in the front matter, or link to a page of the other site",
);

/// The address in the `attribute` of each element in `html` whose tag begins with `tag`, such as `<img` (or
/// `<image`); `None` for an element without one. All arguments are in lower case, and a space separates
/// attributes. Finds an attribute only if `=` follows it immediately.
pub fn element_addresses<'a>(
    html: &'a str,
    tag: &'a str,
    attribute: &'a str,
) -> impl Iterator<Item = Option<&'a str>> {
    let attribute = format!(" {attribute}=");
    html.match_indices(tag).map(move |(at, _)| {
        let element = html[at..].split('>').next()?;
        let (_, value) = element.split_once(&attribute)?;
        match value.strip_prefix(['"', '\'']) {
            Some(quoted) => quoted.split(['"', '\'']).next(),
            None => value.split_ascii_whitespace().next(),
        }
    })
}

/// Whether an `img` element in the HTML, also in a comment, has no `alt` attribute. Ignores the bare tag
/// `<img>`.
pub fn has_image_without_alternative(html: &str) -> bool {
    let lower = html.to_ascii_lowercase();
    lower.match_indices("<img").any(|(at, start)| {
        let tag = &lower[at + start.len()..];
        let is_image = tag.starts_with(|c: char| c.is_whitespace() || c == '/');
        let names = without_quoted_values(tag);
        let is_alternative = |word: &str| {
            let name = word.trim_start_matches('/');
            name == "alt" || name.starts_with("alt=") || name == "alt/"
        };
        is_image && !names.split_whitespace().any(is_alternative)
    })
}

/// Whether an HTML block begins with a tag with the attribute `markdown`, as in Python-Markdown and kramdown,
/// and has more lines: without an empty line after the tag, these are not Markdown.
pub fn has_markdown_as_text(html: &str) -> bool {
    let Some(tag) = html.trim_start().strip_prefix('<') else { return false };
    let names = without_quoted_values(tag);
    let is_name = |word: &str| word == "markdown" || word.starts_with("markdown=");
    tag.starts_with(|c: char| c.is_ascii_alphabetic())
        && names.split_whitespace().skip(1).any(is_name)
        && html.trim().contains('\n')
}

/// The text of a tag up to the next `<` or `>`, with each quoted value replaced by a space. A quotation mark
/// without an end drops the rest.
fn without_quoted_values(tag: &str) -> String {
    let mut rest = String::new();
    let mut quote = None;
    for c in tag.chars() {
        match (quote, c) {
            (Some(mark), c) if c == mark => {
                quote = None;
                rest.push(' ');
            }
            (Some(_), _) => {}
            (None, '<' | '>') => break,
            (None, '"' | '\'') => quote = Some(c),
            (None, c) => rest.push(c),
        }
    }
    rest
}

/// Elements whose content browsers read as text up to the end tag. Without an end tag, they hide the rest of
/// the page. `plaintext` has no end tag.
const TEXT_ELEMENTS: [&str; 9] =
    ["title", "textarea", "xmp", "plaintext", "noembed", "noframes", "script", "style", "iframe"];

/// The elements of HTML, including obsolete ones and the roots of SVG and MathML, without [`TEXT_ELEMENTS`].
const ELEMENTS: &str = " a abbr acronym address applet area article aside audio b base basefont bdi bdo bgsound big blink \
     blockquote body br button canvas caption center cite code col colgroup data datalist dd del details dfn dialog dir \
     div dl dt em embed fieldset figcaption figure font footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup \
     hr html i image img input ins kbd keygen label legend li link listing main map mark marquee math menu meta meter \
     nav nobr noscript object ol optgroup option output p param picture portal pre progress q rb rp rt rtc ruby s samp \
     search section select slot small source spacer span strike strong sub summary sup svg table tbody td template \
     tfoot th thead time tr track tt u ul var video wbr ";

/// The position, the text and the hint of a warning.
type Warning = (Sourcepos, String, &'static str);

const AS_TEXT: &str = "to show a tag, write `\\<` instead of `<`, or put it in backticks";

/// Turns tags and comments that would hide the rest of the page into text. Returns warnings about these, at
/// most one for each HTML block, and about unknown tags in sentences, which browsers hide. Tags with
/// attributes or with an end tag count as known.
pub fn show_unclosed_html(root: Node<'_>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    // The loop runs backwards. These are the names of the end tags after the current node: in HTML blocks,
    // and in the same paragraph.
    let (mut in_blocks, mut in_paragraph) = (HashSet::new(), HashSet::new());
    for node in root.descendants().collect::<Vec<_>>().into_iter().rev() {
        let mut data = node.data_mut();
        let position = data.sourcepos;
        match &mut data.value {
            NodeValue::HtmlBlock(block) => {
                let lower = block.literal.to_ascii_lowercase();
                let unclosed = find_unclosed(&lower, &in_blocks);
                if let Some(&first) = unclosed.first() {
                    let mut at = position;
                    at.start.line += lower[..first].matches('\n').count();
                    warnings.push(unclosed_warning(at, &lower[first..]));
                }
                let mut shown = String::with_capacity(lower.len());
                let mut done = 0;
                for at in unclosed {
                    shown.push_str(&block.literal[done..at]);
                    shown.push_str("&lt;");
                    done = at + 1;
                }
                shown.push_str(&block.literal[done..]);
                block.literal = shown;
                let ends = lower.split("</").skip(1).map(tag_name).filter(|name| !name.is_empty());
                in_blocks.extend(ends.map(str::to_owned));
            }
            NodeValue::HtmlInline(literal) => {
                let lower = literal.to_ascii_lowercase();
                let name = tag_name(lower.trim_start_matches(['<', '/']));
                if lower.starts_with("</") {
                    in_paragraph.insert(name.to_owned());
                    continue;
                }
                // Comments, declarations and processing instructions have no name, and are always complete.
                let has_end = (in_paragraph.contains(name) && name != "plaintext") || name.is_empty();
                if !has_end && TEXT_ELEMENTS.contains(&name) {
                    warnings.push(unclosed_warning(position, &lower));
                    let text = std::mem::take(literal);
                    data.value = NodeValue::Text(text.into());
                } else if !has_end
                    && lower.len() == name.len() + 2
                    && !ELEMENTS.contains(&format!(" {name} "))
                {
                    let message = format!("browsers hide `{literal}`, because HTML has no such element");
                    warnings.push((position, message, AS_TEXT));
                }
            }
            value if value.contains_inlines() => in_paragraph.clear(),
            _ => {}
        }
    }
    warnings.reverse();
    warnings
}

fn unclosed_warning(position: Sourcepos, html: &str) -> Warning {
    let name = if html.starts_with("<!--") { "<!--" } else { &html[..=tag_name(&html[1..]).len()] };
    (position, format!("`{name}` is not closed in its block or paragraph, so it is shown as text"), AS_TEXT)
}

/// The name at the beginning of the text after `<` or `</`; empty if the text does not begin with a letter.
fn tag_name(text: &str) -> &str {
    let end = text.find(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>' | '<'));
    let name = &text[..end.unwrap_or(text.len())];
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { "" }
}

/// The positions of the comments and [`TEXT_ELEMENTS`] without an end in an HTML block in lower case.
/// `later` has the names of the end tags in later blocks. If one of them ends an element of this block, the
/// rest of this block is not searched.
fn find_unclosed(lower: &str, later: &HashSet<String>) -> Vec<usize> {
    let mut unclosed = Vec::new();
    // End tags that were searched for and do not occur in the rest of the block.
    let mut missing = HashSet::new();
    let mut at = 0;
    while let Some(start) = lower[at..].find('<').map(|found| at + found) {
        at = start + 1;
        let (name, end) = match tag_name(&lower[at..]) {
            _ if lower[at..].starts_with("!--") => ("", "-->".to_owned()),
            name if TEXT_ELEMENTS.contains(&name) => (name, format!("</{name}")),
            _ => continue,
        };
        let may_end = name != "plaintext" && !missing.contains(name);
        let found = may_end.then(|| lower[at + 1..].find(&end)).flatten();
        if let Some(found) = found {
            at += 1 + found + end.len();
        } else if later.contains(name) {
            break;
        } else {
            missing.insert(name);
            unclosed.push(start);
        }
    }
    unclosed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_an_alternative_is_found() {
        for html in [
            "<img src=a>",
            "<p>a</p><IMG/src=/alt/x.png>",
            "<img src=\"/alt/x.png\"/>",
            "<img src=a title='an alt text'>",
            "<img src=\"a\"title=\"alt=\">",
            "<img src=a><p alt=x>",
        ] {
            assert!(has_image_without_alternative(html), "{html}");
        }
        for html in [
            "<img alt>",
            "<img src=\"a\"alt=\"b\">",
            "<img/alt=b/>",
            "<img\nsrc=a ALT = ''>",
            "<image src=a>",
        ] {
            assert!(!has_image_without_alternative(html), "{html}");
        }
    }
}
