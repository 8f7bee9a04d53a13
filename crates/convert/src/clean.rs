//! Removes the parts of a page that visitors do not see: scripts, styles, hidden elements and copies. Also
//! reads the base URL, and counts the letters of a page before parts are removed.

use super::check_marks::{answer_of, is_material_font, move_into_paragraphs};
use super::code;
use super::copies::{CopyMark, copy_mark, is_shown_on_wide_screens, remove_copies};
use super::displayed_text_corrections;
use super::dom::{DOCUMENT, Dom, FOR_SCREEN_READERS, NodeId, Tag, clip, count_letters};
use super::media;
use super::never_shown::{is_never_shown, is_out_of_sight};
use super::omission_reason::Rule;
use super::panels::{Panels, follows_control, has_other_name, is_closed_panel, is_hidden_page};
use html5ever::Attribute;
use url::Url;

/// Maximum length in bytes of the URL in `<base>`.
const MAX_REFERENCE: usize = 2000;

/// The base URL for relative links: the URL in the page's first `<base>` with `href`, or else the page's own
/// URL. Ignores the `<base>` if its URL is invalid or longer than 2000 bytes, or if it is beyond the first
/// 2000 nodes.
pub(super) fn base_url(dom: &Dom, url: Option<&Url>) -> Option<Url> {
    let is_base = |id: &NodeId| dom.element(*id).is_some_and(|e| &*e.name.local == "base");
    let mut bases = dom.descendants(DOCUMENT).take(2000).filter(is_base);
    // Ignore a long base URL: each relative link would repeat it and so multiply the output.
    let declared = bases.find_map(|id| dom.attribute(id, "href"));
    let declared = declared.filter(|href| href.len() <= MAX_REFERENCE);
    match (declared, url) {
        (Some(href), Some(url)) => url.join(href).ok().or_else(|| Some(url.clone())),
        (Some(href), None) => Url::parse(href).ok(),
        (None, url) => url.cloned(),
    }
}

/// Counts the letters and digits in the body of a page, except those directly in `<script>`, `<style>`,
/// `<noscript>` and `<template>`. Stops at the end of the text in which the count reaches `limit`.
pub(super) fn count_page_letters(dom: &Dom, limit: usize) -> usize {
    let is_in_code = |id| matches!(dom.tag(id), Tag::Script | Tag::Style | Tag::Noscript | Tag::Template);
    let is_text = |id: &NodeId| !dom.parent(*id).is_some_and(is_in_code);
    let mut count = 0;
    for text in dom.descendants(dom.body()).filter(is_text).filter_map(|id| dom.text(id)) {
        count += count_letters(text);
        if count >= limit {
            break;
        }
    }
    count
}

/// Removes scripts, styles and other elements that browsers never show, except the TeX of formulas; in an
/// `<svg>`, only scripts. Replaces or drops each `<noscript>` ([`show_fallbacks`]), and corrects texts
/// ([`displayed_text`]).
pub(super) fn remove_invisible(dom: &mut Dom, root: NodeId, is_article: bool) {
    let invisible = dom.outermost(root, |id| match dom.tag(id) {
        Tag::Style | Tag::Template | Tag::Head | Tag::Link | Tag::Meta | Tag::Title => {
            !dom.is_in(id, &[Tag::Svg])
        }
        Tag::Script => !dom.attribute(id, "type").is_some_and(|t| t.starts_with("math/tex")),
        _ => false,
    });
    for id in invisible {
        dom.detach(id);
    }
    show_fallbacks(dom, root, is_article);
    displayed_text_corrections::show_final_numbers(dom, root);
    displayed_text_corrections::show_dates(dom, root);
    displayed_text_corrections::show_line_breaks(dom, root);
    displayed_text_corrections::show_separators_of_menus(dom, root);
    displayed_text_corrections::mark_check_lists(dom, root);
    displayed_text_corrections::merge_spoken_copies(dom, root);
}

/// Replaces each `<noscript>` with its content, which is for readers without scripts. Of a `<noscript>`
/// without text, only the first image is used, and it also replaces a placeholder image in the element
/// before, if that has no text. Of one without an image, only the first embedded page or media file is used,
/// unless its height is 0 or 1. Drops a `<noscript>` whose image or embedded page is beside it, or that has
/// none of these and no text. In an article, also drops one with less than half of the page's text
/// ([`Rule::Article`]).
fn show_fallbacks(dom: &mut Dom, root: NodeId, is_article: bool) {
    let fallbacks: Vec<NodeId> = dom.descendants(root).filter(|&id| dom.tag(id) == Tag::Noscript).collect();
    let page = if is_article && !fallbacks.is_empty() { dom.letters(root) } else { 0 };
    for id in fallbacks {
        if !dom.text_content(id).trim().is_empty() {
            if is_article && dom.letters(id) * 2 < page {
                dom.skip(id, Rule::Article);
            } else {
                dom.move_children_before(id, id);
            }
        } else if let Some(image) = dom.find(id, Tag::Img).filter(|&image| !is_loaded_after(dom, id, image)) {
            let holds_only_image = |before: &NodeId| dom.text_content(*before).trim().is_empty();
            let before = dom.previous_element(id).filter(holds_only_image);
            let placeholder = before.and_then(|before| dom.subtree(before).find(|&d| dom.tag(d) == Tag::Img));
            dom.insert_before(id, image);
            if let Some(placeholder) = placeholder {
                dom.detach(placeholder);
            }
        } else if let Some(frame) = fallback_frame(dom, id) {
            dom.insert_before(id, frame);
        }
        dom.detach(id);
    }
}

/// Whether the element after the `<noscript>` is an image with the same source as `image`, which is in the
/// `<noscript>`. A script loads that image.
fn is_loaded_after(dom: &Dom, id: NodeId, image: NodeId) -> bool {
    let source = dom.attribute(image, "src").filter(|source| !source.is_empty());
    let next = dom.next_element(id).filter(|&next| dom.tag(next) == Tag::Img);
    let names = ["src", "data-src", "data-image", "data-lazy-src"];
    source.is_some() && next.is_some_and(|next| names.iter().any(|name| dom.attribute(next, name) == source))
}

/// The first embedded page or media file in a `<noscript>`. `None` if the element before embeds the same
/// address, or if the height is at most 1: such a page counts visitors.
fn fallback_frame(dom: &Dom, id: NodeId) -> Option<NodeId> {
    let frame = dom.descendants(id).find(|&d| media::is_embedded(dom.tag(d)))?;
    let source = media::embedded_source(dom, frame);
    let before = dom.previous_element(id).into_iter().flat_map(|before| dom.subtree(before).take(12));
    let mut embedded = before.filter(|&d| media::is_embedded(dom.tag(d)));
    let is_tiny = matches!(dom.attribute(frame, "height"), Some("0" | "1"));
    (!is_tiny && embedded.all(|d| media::embedded_source(dom, d) != source)).then_some(frame)
}

/// Removes hidden elements, copies of others, line numbers beside code, and labels that Markdown expresses by
/// itself, and separates words that would be joined ([`separate_words`]). In an article, also guesses from
/// class names which elements are hidden; otherwise removes the text of icons that are all that a link shows
/// ([`empty_symbols_of_links`]). Keeps closed panels, blocks after the control that opens them, formulas, and
/// the page itself if a script probably shows it later ([`is_hidden_page`]). If hidden elements have more
/// than 40 words and more than 90 % of all words, also keeps those with at least a quarter of all words. Also
/// moves check marks and crosses into the paragraphs after them ([`move_into_paragraphs`]).
pub(super) fn remove_hidden(dom: &mut Dom, root: NodeId, is_article: bool) {
    dom.omit_each(root, |dom, id| {
        if is_language_label(dom, id) || code::is_line_number_column(dom, id) {
            return Some(Rule::NotCode);
        }
        (is_redundant_label(dom, id) || is_never_shown(dom, id) && !holds_formula(dom, id))
            .then_some(Rule::Hidden)
    });
    if !is_article {
        empty_symbols_of_links(dom, root);
    }
    let panels = Panels::read(dom);
    let mut hidden = dom.outermost(root, |id| {
        (is_hidden(dom, id) && !is_closed_panel(dom, id)
            || is_out_of_sight(dom, id)
            || is_article && is_hidden_by_name(dom, id))
            && !panels.contains(dom, id)
            && !follows_control(dom, id)
            && !holds_formula(dom, id)
    });
    if !hidden.is_empty() {
        let length = |id| dom.text_content(id).split_whitespace().count();
        let words = length(root);
        let lengths: Vec<usize> = hidden.iter().map(|&id| length(id)).collect();
        let hidden_words: usize = lengths.iter().sum();
        let is_most = hidden_words > 40 && words - hidden_words.min(words) < words / 10;
        let mut lengths = lengths.into_iter();
        hidden.retain(|&id| {
            let own = lengths.next().unwrap_or_default();
            !(is_most && own * 4 >= words || is_hidden_page(dom, root, id, own * 2 >= words))
        });
    }
    separate_words(dom, root);
    for id in hidden {
        dom.omit(id, Rule::Hidden);
    }
    remove_copies(dom, root);
    move_into_paragraphs(dom, root);
}

/// Whether an element names the language of the code block beside it, as in VitePress.
fn is_language_label(dom: &Dom, id: NodeId) -> bool {
    let mut beside = dom.nodes_after(id).take(5).chain(dom.nodes_before(id).take(5));
    dom.tag(id) == Tag::Span && dom.has_class(id, "lang") && beside.any(|beside| dom.tag(beside) == Tag::Pre)
}

/// Whether the element's own attributes hide it, it is a popover or a closed `<dialog>`, it is decoration
/// that screen readers skip and not the symbol of a link, it is a text for screen readers in a button, or
/// LaTeXML hides it in a footnote mark. `hidden=until-found` does not count, and neither does
/// `visibility: hidden` that a script probably removes on scrolling ([`is_shown_by_scrolling`]).
fn is_hidden(dom: &Dom, id: NodeId) -> bool {
    let Some(element) = dom.element(id) else { return false };
    let style_is = |name, value| dom.style(id, name).is_some_and(|own: &str| own.eq_ignore_ascii_case(value));
    let is_mark_of_footnote = |p| dom.has_class(p, "ltx_role_footnotemark");
    let hides = |attribute: &Attribute| match &*attribute.name.local {
        "hidden" => !attribute.value.eq_ignore_ascii_case("until-found"),
        "popover" => matches!(&*attribute.value, "" | "auto" | "hint" | "manual"),
        "aria-hidden" => &*attribute.value == "true" && is_decoration(dom, id) && !is_symbol_of_link(dom, id),
        "style" => {
            style_is("display", "none") || style_is("visibility", "hidden") && !is_shown_by_scrolling(dom, id)
        }
        "class" => dom.classes(id).any(|c| {
            // In a button, text for screen readers only names a symbol.
            FOR_SCREEN_READERS.contains(&c) && dom.is_in(id, &[Tag::Button])
                // LaTeXML hides this element with CSS in a footnote mark, where it contains no note.
                || c == "ltx_note_outer" && dom.parent(id).is_some_and(is_mark_of_footnote)
        }),
        _ => false,
    };
    element.attributes.iter().any(hides) || dom.tag(id) == Tag::Dialog && !dom.has_attribute(id, "open")
}

/// Whether an invisible element is probably one that a script shows with an animation once the visitor
/// scrolls to it: a class or an attribute of a library for this says so, or the style also sets a property
/// that such an animation changes. False for positioned elements and for those in navigation, dialogs and
/// forms, which are menus, popups and messages, and for those with a name for these.
fn is_shown_by_scrolling(dom: &Dom, id: NodeId) -> bool {
    const PROPERTIES: [&str; 5] = ["animation-name", "opacity", "transform", "transition", "translate"];
    const ATTRIBUTES: [&str; 5] = ["data-aos", "data-animate", "data-sal", "data-sr-id", "data-wow-delay"];
    let is_name = |c: &str| matches!(c, "wow" | "splitting") || c.contains("reveal") || c.contains("animat");
    let is_overlay = |a: NodeId| {
        matches!(dom.tag(a), Tag::Dialog | Tag::Nav | Tag::Menu | Tag::Form)
            || matches!(dom.attribute(a, "role"), Some("dialog" | "menu" | "navigation" | "tooltip"))
            || has_other_name(dom, a)
    };
    (PROPERTIES.iter().any(|property| dom.style(id, property).is_some())
        || ATTRIBUTES.iter().any(|name| dom.has_attribute(id, name))
        || dom.classes(id).any(is_name))
        && !matches!(dom.style(id, "position"), Some("absolute" | "fixed"))
        && !dom.ancestors(id).take_while(|&a| dom.tag(a) != Tag::Main && a != dom.body()).any(is_overlay)
}

/// Removes the text of symbols that are hidden from screen readers and are all that a link shows, such as the
/// name of a symbol in a font. The elements stay, so that the link still shows a symbol.
fn empty_symbols_of_links(dom: &mut Dom, root: NodeId) {
    let is_symbol = |id: &NodeId| {
        dom.attribute(*id, "aria-hidden") == Some("true")
            && is_decoration(dom, *id)
            && is_symbol_of_link(dom, *id)
    };
    let symbols = dom.descendants(root).filter(is_symbol);
    let is_text = |&d: &NodeId| dom.text(d).is_some() && !dom.is_blank(d) && !dom.is_in(d, &[Tag::Svg]);
    let texts: Vec<NodeId> = symbols.flat_map(|id| dom.descendants(id)).filter(is_text).collect();
    for text in texts {
        dom.omit(text, Rule::Hidden);
    }
}

/// Whether an element is inside a link, at most four levels up, that shows no text and no image beside it.
/// The link must have at most 20 nodes outside of the element and of drawings.
fn is_symbol_of_link(dom: &Dom, id: NodeId) -> bool {
    let is_link = |&a: &NodeId| dom.tag(a) == Tag::A && dom.has_attribute(a, "href");
    let Some(link) = dom.ancestors(id).skip(1).take(4).find(is_link) else { return false };
    let is_shown = |d| dom.tag(d) == Tag::Img || dom.text(d).is_some_and(|text| !text.trim().is_empty());
    let beside = dom.walk(link, |d| d == id || dom.tag(d) == Tag::Svg);
    let mut count = 0;
    beside.take(21).all(|d| {
        count += 1;
        count <= 20 && !is_shown(d)
    })
}

/// Whether an element that is hidden from screen readers has no text of its own: it is empty, a symbol that
/// says nothing ([`is_meaningful_symbol`]), or a lower-case name with a class of the Material fonts or one
/// that ends with the word `icon`: the font shows the icon instead. False for check marks and crosses,
/// [`CONTENT`], and elements that contain an image.
fn is_decoration(dom: &Dom, id: NodeId) -> bool {
    if CONTENT.contains(&dom.tag(id)) || answer_of(dom, id).is_some() || dom.find(id, Tag::Img).is_some() {
        return false;
    }
    let text = dom.text_content(id);
    let is_name = |class: &str| matches!(class.rsplit(['-', '_']).next(), Some("icon" | "icons"));
    let is_icon = || {
        dom.classes(id).any(|class| is_name(class) || is_material_font(class))
            && text.trim().chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    count_letters(&text) == 0 && !is_meaningful_symbol(dom, id, text.trim()) || is_icon()
}

/// Whether the symbols in an element say something that the text beside them does not: a mark such as `✓`, a
/// part of the text ([`is_in_text`]), a sign at a number that is not a toggle ([`is_toggle`]), or the only
/// text of a table cell, unless that is an icon of a font. False without symbols, in buttons and code, beside
/// a text for screen readers, which says the same, and beside another row of stars.
fn is_meaningful_symbol(dom: &Dom, id: NodeId, symbols: &str) -> bool {
    let is_for_screen_readers = |beside| dom.has_class_in(beside, FOR_SCREEN_READERS);
    // A rating may be two rows of stars on top of each other: the width of the upper row shows the rating.
    let is_row =
        |text: &str| text.len() > '★'.len_utf8() && text.chars().all(|c| matches!(c, '★' | '☆' | ' '));
    let is_overlay = |beside| is_row(symbols) && is_row(dom.text_content(beside).trim());
    if symbols.is_empty()
        || dom.is_in(id, &[Tag::Button, Tag::Pre, Tag::Code])
        || [dom.previous_element(id), dom.next_element(id)]
            .into_iter()
            .flatten()
            .any(|b| is_for_screen_readers(b) || is_overlay(b))
    {
        return false;
    }
    let is_cell = |id| matches!(dom.tag(id), Tag::Td | Tag::Th);
    let is_only_child = |a| {
        let mut beside = dom.nodes_after(a).take(3).chain(dom.nodes_before(a).take(3));
        beside.all(|node| dom.is_blank(node))
    };
    let fills_cell = || {
        dom.ancestors(id).take(4).any(is_cell)
            && dom.ancestors(id).take_while(|&a| !is_cell(a)).all(is_only_child)
    };
    symbols.chars().all(|c| MARKS.contains(&c) || c.is_whitespace())
        || symbols.chars().all(is_sign) && is_at_number(dom, id) && !is_toggle(dom, id, symbols)
        || is_in_text(dom, id, symbols)
        || fills_cell() && !symbols.contains(|c: char| ('\u{e000}'..='\u{f8ff}').contains(&c))
}

/// Symbols that express an answer or a rating.
const MARKS: [char; 11] = ['✓', '✔', '✗', '✘', '☑', '☒', '✅', '❌', '★', '☆', '\u{fe0f}'];

/// Whether a character is a common currency sign, or a sign beside numbers such as `+`, `±`, `%` and `<`.
fn is_sign(c: char) -> bool {
    "$¢£¤¥₿+-−±×%<>".contains(c) || ('\u{20a0}'..='\u{20cf}').contains(&c)
}

/// Whether a number directly precedes or follows an element, ignoring spaces.
fn is_at_number(dom: &Dom, id: NodeId) -> bool {
    text_beside(dom, id, false).trim_end().ends_with(|c: char| c.is_ascii_digit())
        || text_beside(dom, id, true).trim_start().starts_with(|c: char| c.is_ascii_digit())
}

/// Whether a sign at the end of a title is the symbol of an accordion or a link, and not a part of the number
/// before it: the title is a heading, a `<summary>`, a `<dt>`, a link or, if a class names the symbol, the
/// element around it, and has a word, unlike a figure such as `500+`. A `+` counts only with such a class, in
/// an accordion, or after a year, because it may also follow a figure with words, as in `Clients: 500+`.
fn is_toggle(dom: &Dom, id: NodeId, symbols: &str) -> bool {
    const NAMES: [&str; 6] = ["icon", "toggle", "arrow", "plus", "chevron", "caret"];
    let is_title = |&a: &NodeId| matches!(dom.tag(a), Tag::Summary | Tag::Dt | Tag::A) || dom.is_heading(a);
    let is_named = dom.classes(id).any(|class| NAMES.iter().any(|name| class.contains(name)));
    let title = dom.ancestors(id).skip(1).take(3).find(is_title);
    let Some(title) = title.or(dom.parent(id).filter(|_| is_named)) else { return false };
    // Ignore what follows with `aria-hidden`, such as the minus sign of an open accordion.
    let is_empty = |after| dom.is_blank(after) || dom.attribute(after, "aria-hidden") == Some("true");
    let is_last = |node| dom.nodes_after(node).take(4).all(is_empty);
    let is_control = |a| {
        dom.tag(a) == Tag::Summary
            || dom.attribute(a, "role") == Some("button")
            || dom.has_attribute(a, "aria-expanded")
    };
    let is_known = || is_named || dom.ancestors(id).take(5).any(is_control) || is_after_year(dom, id);
    matches!(symbols, "+" | "-" | "−" | "×" | "<" | ">")
        && (symbols != "+" || is_known())
        && dom.ancestors(id).take_while(|&a| a != title).all(is_last)
        && dom.first_text(title, 50).contains(char::is_alphabetic)
}

/// Whether a year of the last or this century is directly before an element, except for spaces. A round
/// number such as 2000 is more likely a figure.
fn is_after_year(dom: &Dom, id: NodeId) -> bool {
    let before = text_beside(dom, id, false);
    let before = before.trim_end();
    let start = before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let number = &before[start..];
    let is_century = number.starts_with("19") || number.starts_with("20");
    number.len() == 4 && is_century && !number.ends_with("00")
}

/// Whether one or two symbols in an inline element are a part of the text around it: they are between two
/// phrases, as in `9–17`, or without a space before or after a word, as in `@ann` and `12°`. Arrows, bullets
/// and signs that open and close are decoration unless they are between two phrases. So are the `#` of a
/// heading, which is a permalink, and the quotation marks of a quotation, which Markdown shows by itself.
/// False for links.
fn is_in_text(dom: &Dom, id: NodeId, symbols: &str) -> bool {
    const BEFORE_WORDS: &str = "@#©(“„‘‚\"'";
    const AFTER_WORDS: &str = "#°%‰′″™®:;,.…)”’\"'†‡";
    let is_symbol = |c: char| {
        c.is_ascii_punctuation()
            || matches!(c, '\u{a1}'..='\u{bf}' | '×' | '÷' | '\u{2010}'..='\u{205e}' | '\u{2100}'..='\u{22ff}')
            || matches!(c, '\u{3000}'..='\u{303f}' | '・' | '\u{ff01}'..='\u{ff65}')
    };
    let tag = dom.tag(id);
    if tag.is_block() || tag == Tag::A || symbols.chars().count() > 2 || !symbols.chars().all(is_symbol) {
        return false;
    }
    let is_quote = |c: char| "“”„‘’‚\"'".contains(c);
    let is_expressed = symbols == "#" && dom.ancestors(id).any(|a| dom.is_heading(a))
        || symbols.chars().all(is_quote) && dom.is_in(id, &[Tag::Blockquote, Tag::Figure]);
    let (before, after) = (text_beside(dom, id, false), text_beside(dom, id, true));
    let is_all_in = |list: &str| symbols.chars().all(|c| list.contains(c));
    let has_word = |text: &str| text.contains(char::is_alphanumeric);
    has_word(&before) && has_word(&after)
        || !is_expressed && after.starts_with(char::is_alphanumeric) && is_all_in(BEFORE_WORDS)
        || !is_expressed && before.ends_with(char::is_alphanumeric) && is_all_in(AFTER_WORDS)
}

/// The nearest text before or after an inline element, with the spaces between: at most the nearest 100 bytes
/// of each text. Blank if the next four siblings have none, or none before a block or a `<br>`.
fn text_beside(dom: &Dom, id: NodeId, is_after: bool) -> String {
    let step = |id: NodeId| if is_after { dom.node(id).next } else { dom.node(id).previous };
    let near = |text: &'_ str| {
        let start = text.ceil_char_boundary(text.len().saturating_sub(100));
        if is_after { clip(text, 100).to_owned() } else { text[start..].to_owned() }
    };
    let mut found = String::new();
    for node in std::iter::successors(step(id), |&id| step(id)).take(4) {
        if dom.tag(node).is_block() || dom.tag(node) == Tag::Br {
            break;
        }
        let text: String = dom.subtree(node).take(32).filter_map(|d| dom.text(d)).map(near).collect();
        found = if is_after { found + &text } else { text + &found };
        if !found.trim().is_empty() {
            break;
        }
    }
    found
}

/// Puts spaces around symbols that the layout of a page separates from the words beside them: separators such
/// as `·`, and icons and symbols that are decoration, without which two words would be joined. Also separates
/// the variants of a word for different widths of the screen, such as `Monday` and `Mon`, and the parts of a
/// block in BEM ([`is_apart_in_bem`]). Leaves code as it is.
fn separate_words(dom: &mut Dom, root: NodeId) {
    let is_joint = |id: &NodeId| {
        let (id, tag) = (*id, dom.tag(*id));
        if is_icon(dom, id) {
            return !dom.is_in(id, &[Tag::Pre, Tag::Code])
                && text_beside(dom, id, false).ends_with(char::is_alphanumeric)
                && text_beside(dom, id, true).starts_with(char::is_alphanumeric);
        }
        if dom.attribute(id, "aria-hidden") != Some("true")
            || tag.is_block()
            || dom.descendants(id).take(4).count() > 3
            || dom.is_in(id, &[Tag::Pre, Tag::Code])
        {
            return false;
        }
        let text = dom.text_content(id);
        let is_separator = matches!(text.trim(), "•" | "·" | "|" | "›" | "»" | "→");
        let is_near = |c: char| c.is_alphanumeric() || is_separator && !c.is_whitespace();
        !text.trim().is_empty()
            && (is_separator || is_decoration(dom, id))
            && text_beside(dom, id, false).ends_with(is_near)
            && text_beside(dom, id, true).starts_with(is_near)
    };
    let joints: Vec<NodeId> = dom.descendants(root).filter(is_joint).collect();
    let is_inline = |id| dom.has_attribute(id, "class") && !dom.tag(id).is_block();
    let is_variant = |id| is_inline(id) && copy_mark(dom, id) == Some(CopyMark::Width);
    let follows_variant = |id| {
        let before = dom.node(id).previous.filter(|&before| is_inline(before));
        before.is_some_and(|before| is_variant(id) && is_variant(before))
    };
    let is_apart = |id: &NodeId| {
        (follows_variant(*id) || is_apart_in_bem(dom, *id)) && !dom.is_in(*id, &[Tag::Pre, Tag::Code])
    };
    let apart: Vec<NodeId> = dom.descendants(root).filter(is_apart).collect();
    for id in apart {
        let space = dom.push_text(" ");
        dom.insert_before(id, space);
    }
    for id in joints {
        for place in [Some(id), dom.node(id).next].into_iter().flatten() {
            let space = dom.push_text(" ");
            dom.insert_before(place, space);
        }
    }
}

/// Whether an inline element and the one before it are different parts of one block in BEM, by classes such
/// as `schema__name` and `schema__type`, in a part that contains them, such as `schema__row`, and letters
/// meet between them. Empty elements, which draw a divider, do not count.
fn is_apart_in_bem(dom: &Dom, id: NodeId) -> bool {
    if dom.tag(id).is_block() {
        return false;
    }
    let part = |id| dom.classes(id).find_map(|class| class.split_once("__"));
    let Some((block, name)) = part(id) else { return false };
    let is_divider = |&node: &NodeId| dom.text(node).is_none() && dom.is_blank(node);
    let before = dom.nodes_before(id).take(3).find(|node| !is_divider(node));
    let is_other = |node| part(node).is_some_and(|(own, other)| own == block && other != name);
    dom.parent(id).and_then(part).is_some_and(|(own, _)| own == block)
        && before.is_some_and(is_other)
        && text_beside(dom, id, false).ends_with(char::is_alphabetic)
        && dom.first_text(id, 20).starts_with(char::is_alphabetic)
}

/// Whether an element only draws an icon: a drawing without text other than its title, an empty `<i>` with a
/// class, as icon fonts use it, or a `<span>` around one of these.
fn is_icon(dom: &Dom, id: NodeId) -> bool {
    let mut icon = id;
    while let Some(only) = dom.node(icon).first.filter(|&only| dom.node(icon).last == Some(only)) {
        if dom.tag(icon) != Tag::Span {
            break;
        }
        icon = only;
    }
    let is_name = |text| dom.parent(text).is_some_and(|p| matches!(dom.name(p), "title" | "desc"));
    let is_text = |d| dom.text(d).is_some_and(|text| !text.trim().is_empty());
    match dom.tag(icon) {
        Tag::Svg => !dom.descendants(icon).any(|d| is_text(d) && !is_name(d)),
        Tag::I => dom.node(icon).first.is_none() && dom.has_attribute(icon, "class"),
        _ => false,
    }
}

/// Elements that are content even if they are hidden from screen readers.
const CONTENT: [Tag; 5] = [Tag::Img, Tag::Pre, Tag::Code, Tag::Table, Tag::Figure];

/// Whether `aria-hidden` or a common class name suggests that the element is hidden. This is a guess, because
/// pages may use the same names for something else. `aria-hidden` does not count on paragraphs, [`CONTENT`]
/// and symbols that say something, nor do `hidden` and `d-none` beside a class for wide screens
/// ([`is_shown_on_wide_screens`]).
fn is_hidden_by_name(dom: &Dom, id: NodeId) -> bool {
    let is_aria_hidden = dom.attribute(id, "aria-hidden") == Some("true")
        && !CONTENT.contains(&dom.tag(id))
        && dom.tag(id) != Tag::P
        && !(dom.letters(id) == 0 && is_meaningful_symbol(dom, id, dom.text_content(id).trim()));
    is_aria_hidden
        || dom.has_class_in(id, FOR_SCREEN_READERS)
        || dom.has_class_in(id, &["noprint", "mw-editsection", "u-hidden", "is-hidden"])
        || dom.has_class_in(id, &["hidden", "d-none"]) && !dom.classes(id).any(is_shown_on_wide_screens)
        // Tailwind classes such as `not-print:hidden` hide an element, except in print.
        || dom.classes(id).any(|c| c.starts_with("not-") && c.ends_with(":hidden"))
}

/// Whether an element is a label that a generator adds for screen readers to what Markdown expresses by
/// itself: the title of a terminal in Expressive Code, and that of the notes in GitHub Flavored Markdown.
fn is_redundant_label(dom: &Dom, id: NodeId) -> bool {
    let is_frame = |figure| dom.has_class(figure, "frame");
    let is_labeled = |parent| {
        dom.tag(parent) == Tag::Figcaption && dom.parent(parent).is_some_and(is_frame)
            || dom.has_attribute(parent, "data-footnotes")
    };
    dom.parent(id).is_some_and(is_labeled) && dom.has_class_in(id, FOR_SCREEN_READERS)
}

/// Whether the element is a formula's MathML, or has it as a child. Pages hide the MathML if they show the
/// formula as an image or in a web font.
fn holds_formula(dom: &Dom, id: NodeId) -> bool {
    dom.tag(id) == Tag::Math || dom.child_elements(id).any(|c| dom.tag(c) == Tag::Math)
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    fn visible(html: &str, is_article: bool) -> String {
        let mut dom = parse(html);
        let root = dom.body();
        remove_invisible(&mut dom, root, is_article);
        remove_hidden(&mut dom, root, is_article);
        dom.collapsed_text(root)
    }

    #[test]
    fn drops_hidden_elements() {
        let html = "a<p hidden>b</p><p style='display : none'>c</p><span class=sr-only>d</span><script>e</script>\
            <p class='hidden md:block'>f</p><p class='d-none d-md-table-cell'>F</p><p class='d-none d-print-block'>x</p><div role=tabpanel hidden>g</div><b class='not-print:hidden'>h</b>\
            <div class=callout-content style=display:none>i</div><i class=hidden>j</i><b aria-hidden=true>•</b>\
            <b aria-hidden=true>k</b><i class=icon aria-hidden=true>arrow_down</i><p hidden=until-found>l</p>\
            <p style='--menu-display: none; color: red'>m</p><p style='VISIBILITY:hidden'>n</p>\
            <dialog>o</dialog><div popover>b</div><noscript><p>p</p></noscript><button>q<i class=sr-only>r</i></button>";
        assert_eq!(visible(html, false), "adfFxghij • klmpq");
        assert_eq!(visible(html, true), "afFgi • lmq");
    }

    #[test]
    fn parts_of_a_block_in_bem_are_separate_words() {
        for (html, expected) in [
            (
                "<i class=api__row><b class=api__name>id</b><i class=api__type>integer</i><i class=api__line></i><i class=api__need>required</i></i>",
                "id integer required",
            ),
            ("<i class=api><b class=api__a>Front</b><b class=api__b>desk</b></i>", "Frontdesk"),
            ("<i class=p__row><b class=p__a>12</b><b class=p__b>90</b></i>", "1290"),
            ("<i class=p__row><b class=p__a>c</b><b class=p__a>rane</b><b class=q__b>s</b></i>", "cranes"),
        ] {
            assert_eq!(visible(html, false), expected, "{html}");
        }
    }

    #[test]
    fn a_page_that_a_script_shows_later_stays() {
        for (html, expected) in [
            ("<main style='visibility: hidden'><h1>a</h1><p>b</main>c", "abc"),
            ("<div hidden><div role=main>a</div></div>b", "ab"),
            ("<main hidden role=main>a</main>b", "ab"),
            ("<div id=app style='display:none'><h1>a</h1><p>b</div>c", "abc"),
            ("<h1>a</h1>b <div style='visibility:hidden; opacity:0'><p>c d e</div>", "ab c d e"),
            // Other parts of a page.
            ("<h1>a</h1><div style=display:none><h1>b c d e</h1></div>", "a"),
            ("<div style=display:none><h1>b</h1></div>a c d", "a c d"),
            ("a <div class=cookie-box style='visibility:hidden'><p>b c d e</div>", "a"),
            ("<dialog><main><h1>b c d</h1></main></dialog>a", "a"),
            ("a <i style='visibility:hidden'>b c d e</i>", "a"),
        ] {
            assert_eq!(visible(html, false), expected, "{html}");
        }
    }

    #[test]
    fn what_an_animation_shows_when_visitors_scroll_stays() {
        for (html, is_shown) in [
            ("<div class='wow fadeInUp' style='visibility: hidden; animation-name: none;'>b</div>", true),
            ("<h2 style='opacity: 0; visibility: hidden; transform: translate(0px, 50px)'>b</h2>", true),
            ("<p class=js-reveal style=visibility:hidden>b", true),
            ("<p data-aos=fade-up style=visibility:hidden>b", true),
            ("<p style=visibility:hidden>b", false),
            ("<div class='dropdown wow' style=visibility:hidden;opacity:0>b</div>", false),
            ("<div style='visibility:hidden; opacity:0; position:absolute'>b</div>", false),
            ("<form><div style=visibility:hidden;opacity:0>b</div></form>", false),
            ("<p class=wow style=visibility:hidden;display:none>b", false),
        ] {
            assert_eq!(visible(&format!("<main>a {html}</main>"), false).contains('b'), is_shown, "{html}");
        }
    }

    #[test]
    fn symbols_that_say_something_stay() {
        for (html, expected) in [
            (
                "<table><tr><td><b aria-hidden=true>✗</b><td><i><b aria-hidden=true>–</b></i><td></table>",
                "✗–",
            ),
            (
                "<p><i aria-hidden=true>−</i>5 °C, <i aria-hidden=true>$</i>49, 3<b aria-hidden=true>%</b>",
                "−5 °C, $49, 3%",
            ),
            ("<p><b aria-hidden=true>★★☆</b> <i aria-hidden=true>✔</i> a", "★★☆ ✔ a"),
            ("<td><b aria-hidden=true>✓</b><b class=sr-only>Yes</b>", "Yes"),
            ("<i aria-hidden=true>★ ★</i><i aria-hidden=true>☆ ☆</i>a", "a"),
            ("<button><b aria-hidden=true>×</b></button><a href=/><b aria-hidden=true>></b> a</a>", "a"),
            (
                "<pre><b aria-hidden=true>$</b> 7z</pre><table><tr><td>a <b aria-hidden=true>→</b></table>",
                "7za",
            ),
        ] {
            assert_eq!(visible(html, false), expected, "{html}");
        }
    }

    #[test]
    fn symbols_between_two_texts_or_at_a_word_stay() {
        let mark = |html: &str| html.replace("<b>", "<b aria-hidden=true>");
        for (html, expected) in [
            ("9<b>–</b>17, 3<b>:</b>1, 1<b>,</b>000, $9<b>/</b>mo", "9–17, 3:1, 1,000, $9/mo"),
            (
                "C<b>#</b>, <b>@</b>ann, 12<b>°</b>C, Oak<b>™</b>, <b>(</b>a<b>)</b>",
                "C#, @ann, 12°C, Oak™, (a)",
            ),
            ("<i>2 May</i><b>&middot;</b><i>6 min</i>", "2 May · 6 min"),
            ("<a href=/a>A</a><b>›</b><a href=/b>B</a> <b>→</b> C", "A › B → C"),
            ("<p><b>“</b>a<b>”</b><blockquote><b>“</b>a<b>”</b></blockquote>", "“a”a"),
            // Decoration.
            ("<i>2 May</i><b>🎉</b><i>6 min</i>", "2 May 6 min"),
            ("9<b>🎉</b>.5, a<b></b>b", "9.5, ab"),
            ("9<b> – </b><i class=sr-only>to</i> 17", "9 to 17"),
            ("<ul><li><b>•</b>a<li>b<b>›</b><li><b>→</b>c<b>+</b></ul>", "abc"),
            ("<h2>a<b>#</b></h2><h2>a <a href='#a' aria-hidden=true>#</a> b</h2>", "aa b"),
            ("<ol><li>a<li aria-hidden=true>/<li>b</ol>", "ab"),
            ("<pre><code>a<b>→</b>b</code></pre>", "ab"),
        ] {
            assert_eq!(visible(&mark(html), false), expected, "{html}");
        }
        assert_eq!(visible(&mark("9<b>–</b>17 <b>🎉</b>"), true), "9–17");
    }

    #[test]
    fn the_sign_that_opens_a_title_is_no_part_of_its_number() {
        let mark = |html: &str| html.replace("<b", "<b aria-hidden=true");
        for (html, expected) in [
            ("<h2>Season 2025<b>+</b></h2>", "Season 2025"),
            ("<summary><i>Terms of 2024</i> <i><b>+</b></i><b>−</b></summary>", "Terms of 2024"),
            ("<a href=/v>Version 3<b>></b></a>", "Version 3"),
            ("<dl><dt>Year 2<b>×</b></dl>", "Year 2"),
            ("<div>Plans for 2025<b class=faq-icon>+</b></div>", "Plans for 2025"),
            ("<h3>Step 3<b class=icon-plus>+</b></h3>", "Step 3"),
            ("<h3 aria-expanded=false>Step 3<b>+</b></h3>", "Step 3"),
            ("<div role=button><h3>Step 3 <b>+</b></h3></div>", "Step 3"),
            // Parts of numbers.
            ("<h3>500<b>+</b></h3>", "500+"),
            ("<div>500<b class=plus>+</b></div><div>Oak 500<b>+</b></div>", "500+Oak 500+"),
            ("<h2>Over 500<b>+</b> boats</h2>", "Over 500+ boats"),
            ("<h3>Happy clients: 500<b>+</b></h3>", "Happy clients: 500+"),
            (
                "<a href=/c>Clients: 2000<b>+</b></a><dl><dt>Boats 12025<b>+</b></dl>",
                "Clients: 2000+Boats 12025+",
            ),
            (
                "<h2>Up by 5<b>%</b></h2><h2>From 9<b>€</b></h2><h2>Now <b>+</b>5</h2>",
                "Up by 5%From 9€Now +5",
            ),
        ] {
            assert_eq!(visible(&mark(html), false), expected, "{html}");
        }
    }

    #[test]
    fn an_icon_separates_the_words_beside_it() {
        for (html, expected) in [
            ("<b>Oslo</b><svg><path/></svg><b>Bergen</b>", "Oslo Bergen"),
            ("<b>Oslo</b><svg aria-hidden=true><path/></svg><b>Bergen</b>", "Oslo Bergen"),
            ("Save<span class=icon><svg></svg></span>now<i class='fa fa-save'></i>or", "Save now or"),
            ("9<svg><text>8</text></svg>7", "987"),
            ("(<svg></svg>a<svg></svg>), b<i></i>c, d<span></span>e", "(a), bc, de"),
            ("<p>a</p><svg></svg><p>b</p><pre>a<i class=b></i>c</pre>", "abac"),
            ("<b class='hidden md:inline'>Monday</b><b class=md:hidden>Mon</b>s", "Monday Mons"),
            ("<b class='d-none d-md-inline'>Oak</b><b class=d-md-none>Oak</b>", "Oak"),
            ("<b class=bold>Mon</b><b class=md:hidden>day</b>", "Monday"),
        ] {
            assert_eq!(visible(html, false), expected, "{html}");
        }
    }

    #[test]
    fn labels_for_screen_readers_are_text_unless_markdown_says_the_same() {
        let html = "<p class=visually-hidden>a</p><section data-footnotes><h2 class=sr-only>b</h2>c</section>\
            <figure class='frame is-terminal'><figcaption><span></span><span class=sr-only>d</span></figcaption>e</figure>";
        assert_eq!(visible(html, false), "ace");
        assert_eq!(visible(html, true), "ce");
    }

    #[test]
    fn panels_that_a_control_opens_are_content() {
        for html in [
            "<button aria-controls=p>q</button><div id=p hidden>a</div>",
            "<button data-bs-toggle=collapse data-bs-target='#p'>q</button><div id=p style=display:none>a</div>",
            "<a data-toggle=collapse href='#p'>q</a><div id=p aria-hidden=true hidden>a</div>",
            "<button aria-expanded=false>q</button><div style=display:none>a</div>",
            "<h3><b aria-expanded=false>q</b></h3><div hidden>a</div>",
            "<b id=q>q</b><div role=region aria-labelledby=q hidden>a</div>",
            "<button>q</button><div hidden>a</div>",
            "<h3><b role=button>q</b></h3><div hidden>a</div>",
            "<h3 onclick=x()>q</h3><div style=display:none>a</div>",
            "<ul><li><a href='#p'>q</a></ul><div id=p style=display:none>a</div>",
            "<button onclick=\"show(event, 'p')\">q</button><hr><div id=p style=display:none>a</div>",
            "<a data-src='#p'>q</a><div id=p style=display:none>a</div>",
            "<li data-tab=p>q<hr><div id=p hidden>a</div>",
            "<div><h3><b>q</b></h3><p></p><div x-show=open style=display:none>a</div><i @click=x></i></div>",
            "<div><h3><b>q</b></h3><p></p><div x-show=open style=display:none>a</div><i @click.prevent=x></i></div>",
            "<div data-w-id=1 style=display:none>qa</div>",
            "<dl><dt>q</dt><dd hidden>a</dd></dl>",
            "<h3>q</h3><div style=display:none><p>a</div>",
            "<ul><li>q<li style=display:none>a</ul>",
            "<div class='slide on'>q</div><div class=slide hidden>a</div>",
            "<div class=expand-control>q</div><div style=display:none>a</div>",
            "<div class=faq><p>q</p><div hidden>a</div></div>",
            "<a class=b href=#>q</a><div hidden>a</div>",
            "<b>q</b><section class=tab-pane hidden>a</section>",
            "<p>q<div itemprop=acceptedAnswer hidden><p itemprop=text hidden>a</div>",
            "<p><a href=#>q</a><span class=MCExpandingBody style=display:none>a</span>",
            "<p><a href='javascript:x()'>q</a></p><div class=MCDropDownBody style=display:none>a</div>",
        ] {
            assert_eq!(visible(html, false), "qa", "{html}");
        }
        for html in [
            "<button aria-controls=p>q</button><div id=p role=dialog hidden>a</div>",
            "<button>q</button><div hidden><a href=/x>a</a></div>",
            "<form><button>q</button><div hidden>a</div></form>",
            "<a href='#p'>q</a><nav id=p hidden>a</nav>",
            "<a href='#p'>q</a><div id=p role=menu hidden>a</div>",
            "<a href='#p'>q</a><div id=p style=display:none><a href=/x>a</a></div>",
            "<p>q</p><div x-show=open style=display:none role=dialog>a</div>",
            "<p>q<span class=x-body style=display:none>a</span>",
            "<p>q</p><div v-show=loading style=display:none>Loading</div>",
            "<form><button onclick=\"show('p')\">q</button><p id=p hidden>a</p></form>",
            "<form>q<button></button><p x-show=sent style=display:none>Sent</p></form>",
            "<button aria-expanded=false>q</button><span hidden>a</span>",
            "<button aria-expanded=false>q</button><ul role=menu hidden><li>a</ul>",
            "<p>q</p><div hidden>a</div>",
            "<h1>q</h1><div hidden>a</div>",
            "<h3 hidden>a</h3><dl><dt hidden>a</dt><dd hidden>a</dd></dl><p>q</p>",
            "<h3></h3><p hidden>a</p><p>q</p>",
            "<form><h3>q</h3><div hidden>a</div></form>",
            "<h3>q</h3><div hidden><label>a</label><input></div>",
            "<h3>q</h3><div class=cookie-bar hidden>a</div>",
            "<div><h3>q</h3><form><input></form></div><div hidden><h3>a</h3></div>",
            "<ul><li>q<li hidden>{{ a }}<li hidden><a href=/a>a</a></ul>",
            "<a href=/x>q</a><div hidden>a</div>",
            "q <a href=#></a><span hidden>a a a</span>",
        ] {
            assert_eq!(visible(html, false), "q", "{html}");
        }
        for (html, expected) in [
            ("<p class=q>q?</p><div class=a hidden>a</div>", "q?a"),
            ("<p>q <span hidden>a b c</span> <a href='javascript:;'>more</a>", "q a b c more"),
            ("<button commandfor=d command=show-popover>q</button> <div popover id=d>a</div>", "q a"),
            ("<button interestfor=d>q</button> <div popover id=d>a</div>", "q a"),
            ("<p>q <span hidden>a b c</span></p><button>more</button>", "q a b cmore"),
            ("<h3>q</h3><div hidden>a</div><h3>r</h3><div hidden>b</div>", "qarb"),
            ("<h3>q</h3><p hidden>None</p><ul><li>r</ul>", "qr"),
        ] {
            assert_eq!(visible(html, false), expected, "{html}");
        }
    }

    #[test]
    fn rows_cards_and_prices_beside_shown_ones_are_content() {
        for html in [
            "<table><tr><td>q<tr hidden><td>a</table>",
            "<div class='card oak'>q</div><div class='card elm' style=display:none>a</div>",
            "<p><span class='price monthly'>q</span><span class='price yearly' hidden>a</span>",
        ] {
            assert_eq!(visible(html, false), "qa", "{html}");
        }
        for html in [
            "<table><tr><td>q<tr hidden><td>{{ a }}</table>",
            "<div class='row on'>q</div><div class=row hidden>a</div>",
            "<div class=card>q</div><div class='card empty' hidden>a</div>",
            "<div class=card>q</div><div class='card thanks' hidden>a</div>",
            "<table><tr><td>q<td><tr hidden><td colspan=2>a</table>",
            "<table><tr><td>q<td><tr hidden><td>a<td>$0.00</table>",
        ] {
            assert_eq!(visible(html, false), "q", "{html}");
        }
        let price = "<p><span class='price new'>$9</span><span class='price old' hidden>";
        for other in ["$0.00", "Sold out"] {
            assert_eq!(visible(&format!("{price}{other}</span>"), false), "$9", "{other}");
        }
    }

    #[test]
    fn copies_of_siblings_are_dropped() {
        for (html, expected) in [
            ("<div><p>a b</p><p aria-hidden=true>a <b>b</b></p></div>", "a b"),
            ("<div><p class=slick-cloned>b</p><p>a</p><p>b</p><p class=slick-cloned>a</p></div>", "ab"),
            ("<p class=slide--clone>a</p><p>a</p><p class=cyclone>b</p><p>b</p>", "abb"),
            ("<p class=clone-count>1</p><p>1</p>", "11"),
            ("a<b class=nav-icon aria-hidden=true>b</b><b class=icon-text aria-hidden=true>c</b>", "a c"),
            (
                "a<b class=lexicon aria-hidden=true>b</b><b class=material-icons-round aria-hidden=true>c</b>",
                "ab",
            ),
            ("<div><p class='d-none d-md-block'>a</p><p class=d-md-none>a</p></div>", "a"),
            ("<div><p class=hidden-x>a</p><p class=hidden-y>b</p></div>", "ab"),
            ("<p>a</p><p>a</p>", "aa"),
            (
                "<p class='hidden md:block'>a</p><p class='hidden md:block'>a</p><p class=md:hidden>a</p>",
                "aa",
            ),
            ("<p class='title hideOnMobile'>a b c</p><p class=title>a b c</p>", "a b c"),
            ("<p class=sr-only>a</p><p>a</p>", "a"),
            ("<div class=no-js-hidden>a b c</div><div>a b c</div>", "a b c"),
            (
                "<div class=hidden-xs><img src=i?width=9>a b</div><div class=visible-xs><img src=i>a b</div>",
                "a b",
            ),
            ("<b>a</b><b class='tip hide'>a</b>", "a"),
            (
                "<p class='v hidden-1a hidden-2b'>a</p><p class='v hidden-3c'>a</p><p class='v hidden-2b'>a</p>",
                "a",
            ),
            // Equal values of columns, items and cards.
            ("<p class='hidden md:block'>9 m</p><p class=cell>9 m</p>", "9 m9 m"),
            ("<ol><li class=read-only>a<li>a<li class=hide-sm>a b c</li><li>a b c</ol>", "aaa b ca b c"),
            ("<p class=members-only>a b c</p><p>a b c</p>", "a b ca b c"),
            ("<div class='card hide-border'>a b c</div><div class=card>a b c</div>", "a b ca b c"),
            (
                "<p class=hide-sm><a href=/a>a</a> b c</p><p class=show-sm><a href=/b>a</a> b c</p>",
                "a b ca b c",
            ),
            ("<h3>b</h3><p class=desktop-only>a</p><h3>c</h3><p class=mobile-only>a</p>", "baca"),
            ("<table><tr><td class=hide-s>a<td>a</table><p class=overflow-hidden>b</p><p>b</p>", "aabb"),
        ] {
            assert_eq!(visible(html, false), expected, "{html}");
        }
        let dom = |html: &str| {
            let mut dom = parse(html);
            let root = dom.body();
            remove_invisible(&mut dom, root, false);
            remove_hidden(&mut dom, root, false);
            dom.descendants(root).filter(|&id| dom.tag(id) == Tag::Img).count()
        };
        assert_eq!(
            dom("<noscript><img src=a></noscript><img data-src=a><noscript><img src=b></noscript>"),
            2
        );
        assert_eq!(dom("<p class=hide-sm><img src='i?u=a&w=9'></p><p><img src='i?u=b&w=9'></p>"), 2);
        assert_eq!(dom("<p class=hide-sm><img src='i?u=a&w=9'></p><p><img src='i?u=a&w=5'></p>"), 1);
        assert_eq!(dom("<div class=clone><img src=a></div><div><img src=a></div><div><img src=b></div>"), 2);
    }

    #[test]
    fn keeps_hidden_text_if_there_is_no_other() {
        let text = "word ".repeat(100);
        let html = format!("<div hidden>{text}</div><div style=display:none>x</div>");
        assert_eq!(visible(&html, false), text.trim());
    }
}
