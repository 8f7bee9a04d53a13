//! Removes the numbers of footnotes and their backlinks to the text.

use super::dom::{Data, Dom, NodeId, Tag};
use super::footnote_references::{fragment, is_marked_as_back, with_ascii_digits};
use super::omission_reason::Rule;
use super::unlinked_footnotes::{bold_start, first_text, is_isotope, numbered_text};
use std::collections::HashSet;

/// Maximum length in characters of a backlink's text, such as "Jump back to footnote 1 in the text".
const MAX_BACK_LINK: usize = 60;

/// The classes of backlinks and of the elements around them, and of the numbers of notes. The class `label`
/// counts only on a note's own number.
#[rustfmt::skip]
const BACK_CLASSES: &[&str] = &[
    "footnote-backref", "mw-cite-backlink", "footnote-back", "data-footnote-backref", "footnote-definition-label",
    "easy-footnote-to-top", "fn-backref", "footnote_plugin_index",
];

/// The classes of the numbers that LaTeXML and Tufte CSS repeat in a note.
pub(super) const NUMBER_CLASSES: &[&str] = &["ltx_tag_note", "ltx_note_mark", "sidenote-number", "os-number"];

/// Removes a note's backlinks to the text, its number if it is marked up as one, and the separators,
/// brackets and arrows between and around these. `leads_back` returns whether the target of a link is a
/// reference. An element with a class of [`BACK_CLASSES`], and a link to a fragment or a script whose text is
/// a symbol, need not lead to one. If the text of a backlink is a part of the note ([`split_contents`]), the
/// text stays.
pub(super) fn remove_back_links(
    dom: &mut Dom,
    note: NodeId,
    number: &str,
    leads_back: impl Fn(&Dom, NodeId) -> bool,
) {
    let is_number = |dom: &Dom, id| {
        let text = with_ascii_digits(&dom.collapsed_text(id));
        text.trim_matches(['[', ']', '.', ':', ')', '(', ' ']) == number
    };
    let is_back_link = |id| {
        let text = dom.collapsed_text(id);
        let length = text.chars().count();
        let is_symbol = length <= 12 && !text.contains(char::is_alphanumeric);
        let is_script = || dom.attribute(id, "href").is_none_or(|h| h.starts_with("javascript"));
        // A text such as "1" may also belong to another link, so check where the link leads.
        (fragment(dom, id).is_some() || is_script())
            && (is_symbol || length <= MAX_BACK_LINK && leads_back(dom, id))
    };
    let is_back = |&id: &NodeId| {
        dom.has_class_in(id, BACK_CLASSES)
            || dom.has_class(id, "label") && is_number(dom, id)
            || dom.tag(id) == Tag::A && is_back_link(id)
    };
    let links: Vec<NodeId> = dom.descendants(note).filter(is_back).collect();
    let (contents, links) = split_contents(dom, note, number, links);
    for link in contents {
        dom.move_children_before(link, link);
        dom.detach(link);
    }
    remove_separators(dom, &links);
    let first = first_text(dom, note);
    let raised = first.and_then(|first| dom.ancestors(first).take(3).find(|&a| dom.tag(a) == Tag::Sup));
    let raised = raised.filter(|&raised| is_number(dom, raised) && !is_isotope(dom, note, raised));
    let has_links = !links.is_empty();
    let mut parents: Vec<NodeId> = Vec::new();
    for link in links {
        parents.extend(dom.parent(link).filter(|&p| p != note));
        dom.omit(link, Rule::FootnoteMark);
    }
    // Also remove the parents that now contain only brackets and arrows.
    let mut seen = HashSet::new();
    for parent in parents.into_iter().filter(|&parent| seen.insert(parent)) {
        let is_symbol = |c: char| "[]()^.:,;|/&↑↩ \u{a0}".contains(c);
        if dom.text_content(parent).trim().chars().all(is_symbol) && dom.find(parent, Tag::Img).is_none() {
            dom.omit(parent, Rule::FootnoteMark);
        }
    }
    // Links with the symbol of permalinks have been removed before, but not the separators between them: two
    // texts follow each other there. Punctuation directly after a word belongs to the text.
    let last = dom.descendants(note).filter(|&id| dom.text(id).is_some_and(|t| !t.trim().is_empty())).last();
    let is_after_text = |last| {
        let previous = dom.node(last).previous.and_then(|previous| dom.text(previous));
        let is_list = dom.text(last).is_some_and(|separator| !separator.contains([';', '&']));
        is_list && previous.is_some_and(|previous| !previous.ends_with(char::is_alphanumeric))
    };
    if let Some(last) = last.filter(|&last| is_separator(dom, last) && is_after_text(last)) {
        dom.node_mut(last).data = Data::Text("".into());
    }
    if let Some(raised) = raised {
        dom.omit(raised, Rule::FootnoteMark);
    }
    let Some(first) = first else { return };
    if dom.ancestors(first).all(|a| a != note) {
        trim_note_start(dom, note);
    } else if has_links
        && let Data::Text(text) = &mut dom.node_mut(first).data
        && text.trim().chars().all(|c| "[]()^.:↑↩".contains(c))
    {
        *text = "".into();
        trim_note_start(dom, note);
    }
}

/// Words in the texts of backlinks. A word with letters outside of ASCII also counts inside a longer word.
#[rustfmt::skip]
const BACK_WORDS: [&str; 43] = [
    "back", "return", "jump", "up", "top", "text", "article", "reference", "zurück", "anfang", "oben", "retour", "retourner",
    "revenir", "remonter", "haut", "texte", "volver", "regresar", "arriba", "texto", "voltar", "topo", "terug", "boven",
    "tekst", "torna", "tornare", "indietro", "testo", "tillbaka", "tilbage", "tilbake", "powrót", "wróć", "вернуться",
    "наверх", "назад", "тексту", "戻", "返回", "回到", "돌아가",
];

/// Divides `links`, the backlinks of a note in document order, into content and mere backlinks. The text of
/// the first kind is a part of the note, such as the verse that it explains: it has more than three letters
/// and digits, does not end with the number of the note and has none of [`BACK_WORDS`]. Such a link has no
/// class or role of backlinks. It begins the note, perhaps after its number, or directly follows other text,
/// and other text of the note follows it.
fn split_contents(dom: &Dom, note: NodeId, number: &str, links: Vec<NodeId>) -> (Vec<NodeId>, Vec<NodeId>) {
    if links.is_empty() {
        return (Vec::new(), links);
    }
    let number = number.to_lowercase();
    let is_marked = |id| is_marked_as_back(dom, id) || dom.has_class_in(id, BACK_CLASSES);
    let is_back_word =
        |word: &str| BACK_WORDS.iter().any(|&back| word == back || !back.is_ascii() && word.contains(back));
    let is_content = |id| {
        let text = dom.collapsed_text(id).to_lowercase();
        let mut words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let is_symbol = !number.is_empty() && !number.contains(char::is_alphanumeric);
        text.chars().filter(|c| c.is_alphanumeric()).count() > 3
            && words.clone().next_back().is_some_and(|last| last != number)
            && !(is_symbol && text.trim_end_matches([')', ']', ' ']).ends_with(&number))
            && !words.any(is_back_word)
    };
    let all: HashSet<NodeId> = links.iter().copied().collect();
    let has_letters = |id| dom.text(id).is_some_and(|text| text.contains(char::is_alphanumeric));
    let is_text = |&id: &NodeId| has_letters(id) && !dom.ancestors(id).take(4).any(|a| all.contains(&a));
    let texts: Vec<NodeId> = dom.descendants(note).filter(is_text).collect();
    let last = texts.last().copied();
    let is_number =
        |id| dom.text(id).is_some_and(|t| t.trim_matches(|c: char| !c.is_alphanumeric()) == number);
    // The first text in the note other than the note's number.
    let first = texts.into_iter().find(|&id| !is_number(id));
    let mut at_start = true;
    let mut contents: HashSet<NodeId> = HashSet::new();
    for id in dom.descendants(note).take_while(|&id| Some(id) != last) {
        at_start &= Some(id) != first;
        if all.contains(&id) && (at_start || dom.node(id).previous.is_some_and(has_letters)) {
            contents.insert(id);
        }
    }
    links.into_iter().partition(|id| contents.contains(id) && !is_marked(*id) && is_content(*id))
}

/// Whether a node is a text that consists of white space and separators, such as commas.
fn is_separator(dom: &Dom, id: NodeId) -> bool {
    let is_sign = |c: char| c.is_whitespace() || ",;|/&".contains(c);
    dom.text(id).is_some_and(|text| text.chars().all(is_sign))
}

/// Replaces the separators between adjacent `links` with spaces. If brackets surround such a series or a
/// single link, removes the brackets and the separators.
fn remove_separators(dom: &mut Dom, links: &[NodeId]) {
    let all: HashSet<NodeId> = links.iter().copied().collect();
    let mut seen: HashSet<NodeId> = HashSet::new();
    for &start in links {
        let (mut end, mut separators) = (start, Vec::new());
        while seen.insert(end) {
            let Some(next) = dom.node(end).next else { break };
            if all.contains(&next) {
                end = next;
            } else if let Some(after) = dom.node(next).next.filter(|after| all.contains(after))
                && is_separator(dom, next)
            {
                dom.node_mut(next).data = Data::Text(" ".into());
                separators.push(next);
                end = after;
            }
        }
        let Some((before, after)) = dom.node(start).previous.zip(dom.node(end).next) else { continue };
        let Some((left, right)) = dom.text(before).zip(dom.text(after)) else { continue };
        for brackets in ["()", "[]"] {
            let (open, close) = brackets.split_at(1);
            if let Some(left) = left.trim_end().strip_suffix(open)
                && let Some(right) = right.trim_start().strip_prefix(close)
            {
                let left = if right.starts_with(['.', ',', ';']) { left.trim_end() } else { left };
                let (left, right) = (left.into(), right.into());
                dom.node_mut(before).data = Data::Text(left);
                dom.node_mut(after).data = Data::Text(right);
                for separator in separators {
                    dom.node_mut(separator).data = Data::Text("".into());
                }
                break;
            }
        }
    }
}

/// Removes the number at the beginning of a note, if it is bold or in a form of [`numbered_text`], and the
/// punctuation after it. An item of an ordered list keeps a number that is neither bold nor after a
/// bracket, because browsers number the items.
pub(super) fn remove_number(dom: &mut Dom, note: NodeId, number: &str) {
    let Some(first) = first_text(dom, note) else { return };
    let is_item = dom.tag(note) == Tag::Li && dom.parent(note).is_some_and(|list| dom.tag(list) == Tag::Ol);
    if let Some(bold) = bold_start(dom, note).filter(|&bold| dom.collapsed_text(bold) == number) {
        dom.omit(bold, Rule::FootnoteMark);
        trim_note_start(dom, note);
    } else if !dom.is_in(first, &CODE)
        && let Data::Text(text) = &mut dom.node_mut(first).data
        && (!is_item || text.trim_start().starts_with('['))
        && let Some(rest) = numbered_text(text.trim_start(), number)
    {
        *text = rest.into();
    }
}

/// Elements that hold code. Their text is never shortened.
const CODE: [Tag; 4] = [Tag::Code, Tag::Kbd, Tag::Pre, Tag::Samp];

/// Removes the punctuation left at the beginning of a note after its number or a backlink has been removed
/// there. Punctuation between a space and a word belongs to the word, as in ` .NET`.
fn trim_note_start(dom: &mut Dom, note: NodeId) {
    let Some(first) = first_text(dom, note).filter(|&first| !dom.is_in(first, &CODE)) else { return };
    if let Data::Text(text) = &mut dom.node_mut(first).data {
        let start = text.trim_start();
        let rest = start.trim_start_matches([']', ':', '.', '↑', '^', ')', '-', '\u{2013}']);
        let is_in_word =
            start.len() < text.len() && !rest.is_empty() && !rest.starts_with(char::is_whitespace);
        if rest.len() < start.len() && !is_in_word {
            *text = rest.trim_start().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    fn note_with(content: &str) -> String {
        let html = format!(
            "<p>a<sup id=r><a href=#n>1</a></sup> b<sup id=s><a href=#n>1</a></sup><ol><li id=n>{content}</ol>"
        );
        let text = markdown(&html);
        text.strip_prefix("a[^1] b[^1]\n\n[^1]: ").unwrap_or(&text).to_owned()
    }

    #[test]
    fn lists_of_links_back_leave_nothing() {
        for content in [
            "<span>(<a href=#r>1</a>,<a href=#s>2</a>)</span><p>Note.</p>",
            "<table><tr><td><em>(<a href=#r>1</a>, <a href=#s>2</a>)</em> Note.</table>",
            "(<a href=#r>1</a>, <a href=#s>2</a>) Note.",
            "Note. (<a href=#r>1</a>, <a href=#s>2</a>)",
            "Note. <a href=#r>↩</a>, <a href=#s>↩<sup>2</sup></a>",
            "Note. <a href=#r>↩</a>, <a href=#s>↩</a>",
            "Note (<a href=#r>1</a>, <a href=#s>2</a>).",
            "Note. [<a href=#r>Return to text</a>]",
            "Note. [<a href=#r>a</a>|<a href=#s>b</a>]",
        ] {
            assert_eq!(note_with(content), "Note.\n", "{content}");
        }
        assert_eq!(note_with("See <i>b</i>; <a href=#r>^</a>"), "See *b*;\n");
        for end in [";", ",", "."] {
            let separated = note_with(&format!("A<span hidden>x</span>{end} <a href=#r>^</a>"));
            assert_eq!(separated, format!("A{end}\n"));
        }
        assert_eq!(note_with("(a) Note (b), c (<a href=/x>1</a>)."), "(a) Note (b), c ([1](/x)).\n");
    }

    #[test]
    fn the_text_of_a_link_back_stays_if_it_is_content() {
        for (content, expected) in [
            ("<a href=#r>Genesis 1:2</a> Or waste.", "Genesis 1:2 Or waste."),
            ("<a href=#r>Note</a> for the table.", "Note for the table."),
            ("<a href=#r>Note 1</a> For the table.", "For the table."),
            ("<a href=#r>Back up</a> Text.", "Text."),
            ("1. <a href=#r>Genesis 1:2</a> Or waste.", "1\\. Genesis 1:2 Or waste."),
            ("See <a href=#r>Genesis 1:2</a> also.", "See Genesis 1:2 also."),
            ("Text. <a href=#r>Zum Anfang</a>", "Text."),
            ("Text.<br><a href=#r>Takaisin</a><br>More.", "Text.\n\n    More."),
            ("<a href=#r>Retourner au texte</a> Text.", "Text."),
            ("<a href=#r>Revenir à l'appel</a> Text.", "Text."),
            ("<a href=#r>Вернуться к тексту</a> Text.", "Text."),
            ("<a href=#r>本文に戻る</a> Text.", "Text."),
            ("Text. <a href=#r>Наверх</a> (2020)", "Text. (2020)"),
            ("<a href=#r role=doc-backlink>Anmerkung</a> Text.", "Text."),
        ] {
            assert_eq!(note_with(content), format!("{expected}\n"), "{content}");
        }
    }
}
