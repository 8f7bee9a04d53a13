//! Titles of alerts (`> [!NOTE]`) and labels of links back from footnotes, in the language of the page.

use comrak::Arena;
use comrak::nodes::{AlertType, Node, NodeAlert, NodeValue};
use comrak::options::{Options, Parse};

use crate::words::WordList;
use frontdesk_forms::text::escape_html;
use frontdesk_markdown::parser_options;
use frontdesk_markdown::source_text::SourceText;

/// The marker of each kind of alert, its type, and the name of the word for its default title.
const KINDS: [(&str, AlertType, &str); 5] = [
    ("note", AlertType::Note, "alert_note"),
    ("tip", AlertType::Tip, "alert_tip"),
    ("important", AlertType::Important, "alert_important"),
    ("warning", AlertType::Warning, "alert_warning"),
    ("caution", AlertType::Caution, "alert_caution"),
];

/// Characters that may follow the marker of an alert directly.
const MARKS: [char; 3] = ['-', '+', ':'];

/// Gives each alert a title: the author's, without formatting and without one of `MARKS` before it, or else
/// the default one. The parser recognizes only `> [!NOTE]` with one space. Like GitHub, this function also
/// makes alerts of other quotations that begin with the marker.
pub(super) fn localize(root: Node<'_>, source: &SourceText<'_>, words: &WordList) {
    for node in root.descendants().filter(|node| !node.data().value.contains_inlines()).collect::<Vec<_>>() {
        let recognized = match &node.data().value {
            NodeValue::BlockQuote => recognize(node, source),
            NodeValue::Alert(alert) => Some((**alert).clone()),
            _ => None,
        };
        let Some(mut alert) = recognized else { continue };
        let line = source.line_at(node.data().sourcepos.start.line);
        let marker_end = line.and_then(|(_, line)| line.split_once("[!")?.1.split_once(']'));
        let written = alert.title.take().map(|title| {
            // Drop a leading colon, or the `-` or `+` that makes an alert foldable in Obsidian.
            let is_marked = marker_end.is_some_and(|(_, rest)| rest.starts_with(MARKS));
            title[usize::from(is_marked && title.starts_with(MARKS))..].trim().to_owned()
        });
        let default =
            KINDS.iter().find(|kind| kind.1 == alert.alert_type).map_or("alert_note", |kind| kind.2);
        let title = written.filter(|title| !title.is_empty()).map(|title| without_formatting(&title));
        alert.title = Some(title.unwrap_or_else(|| words.get(default).to_owned()));
        node.data_mut().value = NodeValue::Alert(Box::new(alert));
    }
}

/// The text of a title in Markdown, because the parser writes titles as text. Keeps tags of HTML, which may
/// be placeholders, and dollar signs.
fn without_formatting(title: &str) -> String {
    // Put a word before the title, so that `1.` or `#` at its beginning starts no list or heading.
    let (arena, after_word) = (Arena::new(), format!("a {title}"));
    let mut options = Options { parse: Parse::default(), ..parser_options() };
    options.extension.math_dollars = false;
    let root = comrak::parse_document(&arena, &after_word, &options);
    for node in root.descendants() {
        let value = &mut node.data_mut().value;
        if let NodeValue::HtmlInline(tag) = value {
            *value = NodeValue::Text(std::mem::take(tag).into());
        }
    }
    let text = root.collect_text();
    text.strip_prefix("a ").map_or_else(|| title.to_owned(), str::to_owned)
}

/// If a quotation begins with the marker of an alert, removes its first line and returns the alert.
/// Everything behind the marker is the title, which must be plain text.
fn recognize(quotation: Node<'_>, source: &SourceText<'_>) -> Option<NodeAlert> {
    let paragraph =
        quotation.first_child().filter(|node| matches!(node.data().value, NodeValue::Paragraph))?;
    let marker = paragraph.first_child()?;
    let position = marker.data().sourcepos.start;
    let (before, after) =
        source.line_at(position.line)?.1.split_at_checked(position.column.checked_sub(1)?)?;
    let is_escaped = before.ends_with('\\') || !after.starts_with("[!");
    let (alert_type, title) = match &marker.data().value {
        NodeValue::Text(text) => {
            let (kind, title) = text.strip_prefix("[!")?.split_once(']')?;
            let (_, kind, _) = KINDS.iter().find(|(name, ..)| kind.eq_ignore_ascii_case(name))?;
            (*kind, title.trim().to_owned())
        }
        _ => return None,
    };
    let break_after = marker.next_sibling();
    let is_line = |node: Node<'_>| matches!(node.data().value, NodeValue::SoftBreak | NodeValue::LineBreak);
    if is_escaped || break_after.is_some_and(|node| !is_line(node)) {
        return None;
    }
    for node in [marker].into_iter().chain(break_after) {
        node.detach();
    }
    if paragraph.first_child().is_none() {
        paragraph.detach();
    }
    let title = Some(title).filter(|title| !title.is_empty());
    Some(NodeAlert { alert_type, title, multiline: false, fence_length: 1, fence_offset: 0 })
}

/// The attributes of the links from a footnote to its references.
const LINK_BACK: &str = " class=\"footnote-backref\" data-footnote-backref ";

/// Labels the links back from footnotes in the language of the page, and removes their arrow: the
/// stylesheet adds it, so that it is not part of the footnote's text.
pub(super) fn label_links_back(html: &mut String, words: &WordList) {
    let Some((before, after)) = html.split_once(LINK_BACK) else { return };
    let label = |part: &str| {
        let (head, rest) = part.split_once("aria-label=\"Back to reference ")?;
        let (number, text) = rest.split_once("\">↩")?;
        let label = escape_html(&words.fill("footnote_back", &[("n", number)]));
        Some(format!("{head}aria-label=\"{label}\">{text}"))
    };
    let parts = after.split(LINK_BACK).map(|part| label(part).unwrap_or_else(|| part.to_owned()));
    *html = parts.fold(before.to_owned(), |html, part| html + LINK_BACK + &part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_have_titles_in_the_language_of_the_page() {
        let words = crate::words::load(&["de"], &[], &[], &mut Vec::new()).remove(0);
        for (source, kind, expected) in [
            ("> [!NOTE]\n> Text", "note", "Hinweis</p>\n<p>Text</p>"),
            ("> [!tip] Own\n> Text", "tip", "Own</p>\n<p>Text</p>"),
            ("> [!tip] *Own* `x` [y](z) a*b\n> Text", "tip", "Own x y a*b</p>\n<p>Text</p>"),
            ("> [!tip] 1. # \"Own\" \\*\n> Text", "tip", "1. # &quot;Own&quot; *</p>\n<p>Text</p>"),
            ("> [!TIP] Set $HOME/$USER\n> a", "tip", "Set $HOME/$USER</p>"),
            ("> [!tip] Replace <your-name> here\n> a", "tip", "Replace &lt;your-name&gt; here</p>"),
            ("> [!note]- Folded\n> Text", "note", "Folded</p>\n<p>Text</p>"),
            ("> [!note]+\n> Text", "note", "Hinweis</p>\n<p>Text</p>"),
            ("> [!NOTE]: Own\n> Text", "note", "Own</p>\n<p>Text</p>"),
            ("> [!note] - a\n> Text", "note", "- a</p>\n<p>Text</p>"),
            (">[!NOTE]\n>Text *a*", "note", "Hinweis</p>\n<p>Text <em>a</em></p>"),
            (">  [!Note]  \n> Text\n>\n> More", "note", "Hinweis</p>\n<p>Text</p>\n<p>More</p>"),
            (">[!TIP] Own\n>Text", "tip", "Own</p>\n<p>Text</p>"),
            ("- >[!NOTE]\n  > - a", "note", "Hinweis</p>\n<ul>"),
        ] {
            let html = render(source, &words);
            let start = format!(
                "<div class=\"markdown-alert markdown-alert-{kind}\">\n<p class=\"markdown-alert-title\">"
            );
            assert!(html.contains(&(start + expected)), "{source}: {html}");
        }
        for source in [
            "> \\[!NOTE]\n> a",
            ">\\[!NOTE]",
            ">[\\!NOTE]",
            ">[!NOTE] *a*",
            ">[!faq]",
            ">a [!NOTE]",
            "> `[!NOTE]`",
        ] {
            let html = render(source, &words);
            assert!(html.starts_with("<blockquote>"), "{source}: {html}");
        }
    }

    #[test]
    fn links_back_from_footnotes_have_labels_without_an_arrow() {
        let words = crate::words::load(&["de"], &[], &[], &mut Vec::new()).remove(0);
        let mut html = render("a[^1] b[^1] c[^x]\n\n[^1]: d ↩\n\n[^x]: e\n", &words);
        label_links_back(&mut html, &words);
        for expected in [
            "d ↩ <a href=\"#fnref-1\"",
            "aria-label=\"Zurück zum Verweis 1\"></a>",
            "aria-label=\"Zurück zum Verweis 1-2\"><sup class=\"footnote-ref\">2</sup></a>",
            "aria-label=\"Zurück zum Verweis 2\"></a>",
        ] {
            assert!(html.contains(expected), "{expected} is not in {html}");
        }
    }

    fn render(source: &str, words: &WordList) -> String {
        let (arena, options) = (comrak::Arena::new(), frontdesk_markdown::parser_options());
        let root = comrak::parse_document(&arena, source, &options);
        localize(root, &SourceText::new(source), words);
        let mut html = String::new();
        comrak::format_html(root, &options, &mut html).expect("a string");
        html
    }
}
