//! Reads the numbers of footnotes without links: raised numbers, except fractions, exponents, verses and
//! isotopes, and numbers at the beginning of notes.

use super::documentation_markup::find_notice;
use super::dom::{Dom, NodeId, Tag};
use super::footnote_references::{is_alone_in_parent, with_ascii_digits};
use super::list_numbers::ItemNumbers;
use std::collections::{HashMap, HashSet};

/// A raised number, and the paragraph, list item, `<div>` or `<aside>` that begins with it, if there is one.
pub(super) struct RaisedNumber {
    pub(super) id: NodeId,
    pub(super) number: String,
    pub(super) note: Option<NodeId>,
}

/// The raised numbers of at most three digits below `root`, except those of expressions ([`is_expression`]),
/// and those directly before a letter in the middle of a block, which number verses or isotopes. Leaves out a
/// number at the start of a block with several of them, which has verses and is not one note.
pub(super) fn raised_numbers(dom: &Dom, root: NodeId) -> Vec<RaisedNumber> {
    // Caches the first text node of each block.
    let mut starts: HashMap<NodeId, Option<NodeId>> = HashMap::new();
    let mut counts: HashMap<NodeId, usize> = HashMap::new();
    let mut found = Vec::new();
    for id in dom.descendants(root).filter(|&id| dom.tag(id) == Tag::Sup) {
        let number = dom.collapsed_text(id);
        if number.is_empty() || number.len() > 3 || !number.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let block = dom.ancestors(id).skip(1).find(|&a| dom.tag(a).is_block());
        let note = block.filter(|&b| {
            let start = *starts.entry(b).or_insert_with(|| first_text(dom, b));
            matches!(dom.tag(b), Tag::P | Tag::Li | Tag::Div | Tag::Aside)
                && start.is_some_and(|f| dom.ancestors(f).take(4).any(|a| a == id))
        });
        if is_expression(dom, id) {
            continue;
        }
        if let Some(block) = block {
            *counts.entry(block).or_default() += 1;
        }
        // A verse or the name of an isotope begins with the number, and a note only at the start of a block.
        // Scripts without spaces between words, such as Chinese, have no case.
        let after = dom.node(id).next.and_then(|next| dom.text(next));
        let is_before_letter =
            after.is_some_and(|text| text.starts_with(|c: char| c.is_lowercase() || c.is_uppercase()));
        if note.is_some() || !is_before_letter {
            found.push(RaisedNumber { id, number, note });
        }
    }
    found.retain(|raised| raised.note.is_none_or(|note| counts.get(&note) == Some(&1)));
    found
}

/// Units that may have an exponent, and 10, which has one in powers of ten.
const BEFORE_EXPONENTS: [&str; 13] =
    ["m", "cm", "mm", "km", "dm", "nm", "µm", "ft", "in", "yd", "mi", "s", "10"];

/// Whether a raised number is a part of a fraction, or an exponent of a unit, of ten or of a variable such as
/// `x`. A `<sub>` after the number is a denominator, and a slash is that of a fraction if a digit, `<sub>`,
/// `<small>` or `<span>` follows. A 1 after a unit or ten is no exponent, because that would not be written.
fn is_expression(dom: &Dom, raised: NodeId) -> bool {
    let next = dom.node(raised).next;
    let is_fraction = |next| {
        let denominator = dom.text(next).and_then(|text| text.strip_prefix(['/', '⁄', '∕']));
        dom.tag(next) == Tag::Sub
            || denominator.is_some_and(|rest| {
                let after = dom.node(next).next.filter(|_| rest.is_empty());
                rest.starts_with(|c: char| c.is_ascii_digit())
                    || after.is_some_and(|after| matches!(dom.tag(after), Tag::Sub | Tag::Small | Tag::Span))
            })
    };
    if next.is_some_and(is_fraction) {
        return true;
    }
    let previous = dom.node(raised).previous.and_then(|id| {
        let inner = std::iter::successors(Some(id), |&id| dom.node(id).last);
        dom.text(inner.take(4).last()?)
    });
    let Some(text) = previous else { return false };
    let start = text.char_indices().rev().take(4).take_while(|(_, c)| c.is_alphanumeric()).last();
    let word = start.map_or("", |(at, _)| &text[at..]);
    let is_variable = word.len() == 1 && word.contains(|c| matches!(c, 'i'..='k' | 'n' | 'p'..='z'));
    is_variable || BEFORE_EXPONENTS.contains(&word) && dom.collapsed_text(raised) != "1"
}

/// Whether `raised`, the number at the beginning of a note, belongs to the name of an isotope, such as ¹⁴C:
/// a capital letter follows it, and the note is a list item, which already has a number from its list.
pub(super) fn is_isotope(dom: &Dom, note: NodeId, raised: NodeId) -> bool {
    let after = dom.node(raised).next.and_then(|next| dom.text(next));
    dom.tag(note) == Tag::Li && after.is_some_and(|text| text.starts_with(char::is_uppercase))
}

/// Maximum length in bytes of a number at the start of a note.
const MAX_NUMBER: usize = 16;

/// The rest of `text` after a leading `number` and punctuation, as in `1.` and `[1]`. The number may have the
/// digits of another script. `None` if `text` does not begin so, or if the number goes on, as in `1.5`.
pub(super) fn numbered_text<'a>(text: &'a str, number: &str) -> Option<&'a str> {
    const ENDS: [char; 4] = ['.', ')', ']', ':'];
    let text = text.strip_prefix('[').unwrap_or(text);
    let (start, rest) = text.split_once(ENDS).filter(|(start, _)| start.len() <= MAX_NUMBER)?;
    if with_ascii_digits(start) != number {
        return None;
    }
    let rest = rest.trim_start_matches(ENDS);
    (!rest.starts_with(|c: char| c.is_ascii_digit())).then(|| rest.trim_start())
}

/// The number at the start of a paragraph, if it is in `numbers`, and is bold or in a form of
/// [`numbered_text`].
pub(super) fn starting_number(dom: &Dom, paragraph: NodeId, numbers: &HashSet<String>) -> Option<String> {
    let bold = bold_start(dom, paragraph).map(|bold| dom.collapsed_text(bold));
    let is_known = |number: &String| numbers.contains(number);
    bold.filter(is_known).or_else(|| punctuated_number(dom, paragraph).filter(is_known))
}

/// The number in ASCII digits at the start of an element, if `.`, `)`, `]` or `:` follows, as in `1.` and
/// `[1]`, but not in `1.5`.
fn punctuated_number(dom: &Dom, id: NodeId) -> Option<String> {
    let text = dom.collapsed_text(id);
    let digits = text.strip_prefix('[').unwrap_or(&text);
    let digits = &digits[..digits.bytes().take_while(u8::is_ascii_digit).count()];
    (!digits.is_empty() && numbered_text(&text, digits).is_some()).then(|| digits.to_owned())
}

/// The `<b>` or `<strong>` directly around the first text of a note.
pub(super) fn bold_start(dom: &Dom, note: NodeId) -> Option<NodeId> {
    let parent = dom.parent(first_text(dom, note)?)?;
    matches!(dom.tag(parent), Tag::B | Tag::Strong).then_some(parent)
}

/// Maximum number of asides between a reference and its note.
const MAX_ASIDES: usize = 8;

/// Whether an element is an `<aside>` or has the role `note`, but is not an admonition.
pub(super) fn is_aside(dom: &Dom, id: NodeId) -> bool {
    (dom.tag(id) == Tag::Aside || dom.attribute(id, "role") == Some("note")) && find_notice(dom, id).is_none()
}

/// The notes in asides ([`is_aside`]) with their numbers: the items of a list that is alone in the aside; or
/// the aside itself, if it begins with a number; or its children, if several do so. All numbers must be those
/// of `references` in the block before the aside, or else the aside has no notes. The numbers of a list must
/// be in `numbers`; in an `<aside>`, this is enough.
pub(super) fn notes_in_asides(
    dom: &Dom,
    root: NodeId,
    references: &[(NodeId, String)],
    numbers: &HashSet<String>,
) -> Vec<(NodeId, String)> {
    let mut referring: HashSet<(NodeId, &str)> = HashSet::new();
    for (id, number) in references {
        referring.extend(dom.ancestors(*id).skip(1).take(4).map(|around| (around, &**number)));
    }
    let mut notes = Vec::new();
    for aside in dom.outermost(root, |id| is_aside(dom, id)) {
        let above = std::iter::successors(dom.previous_element(aside), |&id| dom.previous_element(id));
        let above = above.take(MAX_ASIDES).find(|&id| !is_aside(dom, id));
        let is_referred = |number: &str| above.is_some_and(|above| referring.contains(&(above, number)));
        if let Some(list) = dom.child_elements(aside).find(|&list| dom.tag(list) == Tag::Ol) {
            let items = if is_alone_in_parent(dom, list) { numbered_items(dom, list) } else { Vec::new() };
            let is_note = |(item, number): &(NodeId, String)| {
                dom.tag(*item) == Tag::Li
                    && numbers.contains(number)
                    && (dom.tag(aside) == Tag::Aside || is_referred(number))
            };
            if items.iter().all(is_note) {
                notes.extend(items);
            }
            continue;
        }
        let numbered = |id| Some((id, punctuated_number(dom, id)?));
        let mut parts: Vec<_> = dom.child_elements(aside).filter_map(numbered).collect();
        if parts.len() < 2 {
            parts = numbered(aside).into_iter().collect();
        }
        if parts.iter().all(|(_, number)| is_referred(number)) {
            notes.extend(parts);
        }
    }
    notes
}

/// The items of an ordered list with the numbers that browsers show.
fn numbered_items(dom: &Dom, list: NodeId) -> Vec<(NodeId, String)> {
    let mut numbers = ItemNumbers::new(dom, list, dom.child_elements(list).count());
    dom.child_elements(list).map(|item| (item, numbers.number(item).to_string())).collect()
}

/// The first text node below `root` that is not only white space.
pub(super) fn first_text(dom: &Dom, root: NodeId) -> Option<NodeId> {
    dom.descendants(root).find(|&id| dom.text(id).is_some_and(|t| !t.trim().is_empty()))
}
