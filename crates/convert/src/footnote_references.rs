//! Reads references to footnotes: their numbers, and the notes that they lead to or name.

use super::dom::{DOCUMENT, Dom, NodeId, Tag, clip};
use std::cell::OnceCell;
use std::collections::HashMap;

/// The `<sup>`, `<span>` or `<small>` directly around a link to a note, if it has no text beside this link
/// but brackets, or else the link itself.
pub(super) fn whole_reference(dom: &Dom, link: NodeId) -> NodeId {
    let is_outer = |&p: &NodeId| matches!(dom.tag(p), Tag::Sup | Tag::Span | Tag::Small);
    dom.parent(link).filter(is_outer).filter(|_| is_alone_in_parent(dom, link)).unwrap_or(link)
}

/// Whether the siblings of an element contain no text but white space and brackets.
pub(super) fn is_alone_in_parent(dom: &Dom, id: NodeId) -> bool {
    let is_bracket = |t: &str| t.chars().all(|c| c.is_whitespace() || matches!(c, '[' | ']' | '(' | ')'));
    let is_blank = |id| dom.subtree(id).all(|d| dom.text(d).is_none_or(is_bracket));
    dom.nodes_before(id).chain(dom.nodes_after(id)).all(is_blank)
}

/// Attributes that may hold the note's id in a reference that is not a link to its note.
const NOTE_IDS: [&str; 4] = ["aria-describedby", "data-definition", "data-footnote-id", "popovertarget"];

/// The id of the note that an attribute of a reference names. `None` unless the text is a [`note_number`],
/// and the element is raised, is named like a reference ([`is_named_as_note`]) or has the id in a `data-`
/// attribute. Also `None` for elements with [`MAX_REFERENCE_NODES`] or more nodes in them.
pub(super) fn note_name(dom: &Dom, id: NodeId) -> Option<&str> {
    let (attribute, name) = NOTE_IDS.iter().find_map(|&name| Some((name, dom.attribute(id, name)?)))?;
    // Count the nodes first: reading the text of large elements inside each other would take quadratic time.
    if dom.descendants(id).take(MAX_REFERENCE_NODES).count() == MAX_REFERENCE_NODES {
        return None;
    }
    let is_reference = attribute.starts_with("data-")
        || dom.is_in(id, &[Tag::Sup])
        || dom.find(id, Tag::Sup).is_some()
        || is_named_as_note(dom, id);
    note_number(dom, id).filter(|_| is_reference).map(|_| name)
}

/// An element that contains at least this many nodes is not a reference.
const MAX_REFERENCE_NODES: usize = 8;

/// Maps the ids of elements and the names of `<a>` elements to the elements. Also contains the backlinks to
/// references: the key of a link is [`BACK`] followed by its fragment without the first `_ref`, or else
/// without the first `ref`. Built when it is first needed, because most pages have no footnotes.
#[derive(Default)]
pub(super) struct Ids(OnceCell<IdMaps>);

#[derive(Default)]
struct IdMaps {
    /// The first element with each id or name. For a key that starts with [`BACK`], the first backlink.
    first: HashMap<String, NodeId>,
    /// The elements after the first one for each key, in document order.
    others: HashMap<String, Vec<NodeId>>,
}

impl Ids {
    /// The first element whose id or name is `name`, or the first backlink with this key (see [`Ids`]).
    pub(super) fn get(&self, dom: &Dom, name: &str) -> Option<NodeId> {
        self.maps(dom).first.get(name).copied()
    }

    /// The first element with a key after a node, or else the first element with the key: a page with several
    /// articles may repeat the ids of notes.
    fn get_after(&self, dom: &Dom, name: &str, node: NodeId) -> Option<NodeId> {
        let first = self.get(dom, name)?;
        let others = self.maps(dom).others.get(name).filter(|_| first < node);
        let after = others.and_then(|others| others.get(others.partition_point(|&id| id <= node)));
        Some(after.copied().unwrap_or(first))
    }

    /// Reads the ids of the whole document on the first call.
    fn maps(&self, dom: &Dom) -> &IdMaps {
        self.0.get_or_init(|| {
            let mut maps = IdMaps::default();
            for id in dom.descendants(DOCUMENT) {
                let names =
                    [dom.attribute(id, "id"), dom.attribute(id, "name").filter(|_| dom.tag(id) == Tag::A)];
                for name in names.into_iter().flatten().filter(|n| !n.is_empty()) {
                    maps.add(name.to_owned(), id);
                }
                if dom.tag(id) == Tag::A
                    && let Some((before, after)) =
                        fragment(dom, id).and_then(|f| f.split_once("_ref").or_else(|| f.split_once("ref")))
                {
                    maps.add(format!("{BACK}{before}{after}"), id);
                }
            }
            maps
        })
    }
}

impl IdMaps {
    /// Records an element for `key`, unless it is the first one recorded for it.
    fn add(&mut self, key: String, id: NodeId) {
        match self.first.get(&key) {
            None => drop(self.first.insert(key, id)),
            Some(&first) if first == id => {}
            Some(_) => self.others.entry(key).or_default().push(id),
        }
    }
}

/// The element that a reference links to: of several with the name, the first one after the reference, or
/// else the first one. Notes from Word and some other programs have no id, but the fragment of their link
/// back is the reference's fragment with `ref` inserted; this link is the target then. References from
/// Wikidot and some plugins have no fragment, but their `onclick` script names the note.
pub(super) fn reference_target(dom: &Dom, link: NodeId, ids: &Ids) -> Option<NodeId> {
    let script = || {
        let (call, arguments) = clip(dom.attribute(link, "onclick")?, MAX_NAME).split_once("('")?;
        ids.get(dom, arguments.split('\'').next()?).filter(|_| call.contains("ToReference"))
    };
    let Some(fragment) = fragment(dom, link) else { return script() };
    let back = || ids.get_after(dom, &format!("{BACK}{fragment}"), link);
    ids.get_after(dom, fragment, link).or_else(back)
}

/// Whether a link leads to its own place: it, its block or an element between them has the id or name in its
/// fragment.
pub(super) fn leads_to_own_place(dom: &Dom, link: NodeId) -> bool {
    let Some(fragment) = fragment(dom, link) else { return false };
    let block = dom.ancestors(link).find(|&a| dom.tag(a).is_block());
    let below = dom.ancestors(link).take_while(|&a| Some(a) != block);
    below.chain(block).any(|a| ["id", "name"].iter().any(|name| dom.attribute(a, name) == Some(fragment)))
}

/// Prefix of the keys under which [`Ids`] stores the backlinks to references.
const BACK: &str = "\u{1}";

/// Maximum length in bytes of a fragment, and of the part of an attribute in which the name of a note is
/// looked for.
pub(super) const MAX_NAME: usize = 400;

/// The fragment in the address of a link; `None` if it is empty, missing or longer than [`MAX_NAME`], or if
/// the address before it ends with `.js`. The address may be that of another page.
pub(super) fn fragment(dom: &Dom, link: NodeId) -> Option<&str> {
    let (page, fragment) = dom.attribute(link, "href")?.split_once('#')?;
    // Ignore the address before the fragment: it may be the page's own, and the fragments of other pages
    // normally match no id on this page.
    ((1..=MAX_NAME).contains(&fragment.len()) && (page.is_empty() || !page.ends_with(".js")))
        .then_some(fragment)
}

/// The number or symbol of a reference, without brackets, colons and `^` at its ends, and without asterisks
/// before digits. Digits of other scripts become ASCII digits. `None` unless the rest is one to four ASCII
/// letters, digits or symbols such as `†`.
pub(super) fn reference_number(dom: &Dom, link: NodeId) -> Option<String> {
    let text = with_ascii_digits(&dom.collapsed_text(link));
    let text = text.trim_matches(['[', ']', '(', ')', ' ', ':', '\u{fe0e}', '^']);
    let number = text.trim_start_matches('*');
    let text = if number.starts_with(|c: char| c.is_ascii_digit()) { number } else { text };
    let is_short = (1..=4).contains(&text.chars().count());
    let is_mark = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '*' | '†' | '‡' | '§' | '¶'));
    (is_short && is_mark).then(|| text.to_owned())
}

/// The zeros of the scripts in which pages write numbers; the other digits follow each: Arabic, Persian, the
/// scripts of India, Thai, Khmer, and the wide digits of East Asia.
const ZEROS: [char; 15] = ['٠', '۰', '०', '০', '੦', '૦', '୦', '௦', '౦', '೦', '൦', '๐', '၀', '០', '０'];

/// The text with the digits of other scripts ([`ZEROS`]) replaced with ASCII digits.
pub(super) fn with_ascii_digits(text: &str) -> String {
    let digit = |c: char| {
        let value = ZEROS.iter().map(|&zero| u32::from(c).wrapping_sub(u32::from(zero))).find(|&v| v < 10)?;
        char::from_digit(value, 10)
    };
    text.chars().map(|c| if c.is_ascii() { c } else { digit(c).unwrap_or(c) }).collect()
}

/// The number of a reference ([`reference_number`]), if it has only digits or only symbols, or is a single
/// character. Other short texts, such as "API", may be words.
pub(super) fn note_number(dom: &Dom, link: NodeId) -> Option<String> {
    let is_number = |n: &String| {
        n.bytes().all(|b| b.is_ascii_digit()) || !n.contains(char::is_alphanumeric) || n.chars().count() == 1
    };
    reference_number(dom, link).filter(is_number)
}

/// Whether a link is a later reference to the note with a number, such as `1:2` or `1b`: it is raised or has
/// the class of references, and its text is the number and perhaps a suffix of `:`, `.` or a letter, and
/// digits. A `-` may be that of a range of notes.
pub(super) fn is_repeated_reference(dom: &Dom, link: NodeId, number: &str) -> bool {
    if !dom.has_class(link, "footnote-ref") && !dom.is_in(link, &[Tag::Sup]) {
        return false;
    }
    let text = with_ascii_digits(&dom.collapsed_text(link));
    let Some(suffix) = text.trim_matches(['[', ']', '(', ')', ' ']).strip_prefix(number) else {
        return false;
    };
    let digits = suffix.strip_prefix([':', '.']).filter(|digits| !digits.is_empty());
    let is_digit_before = number.ends_with(|c: char| c.is_ascii_digit());
    let letter = suffix.strip_prefix(|c: char| is_digit_before && c.is_ascii_alphabetic());
    let rest = if suffix.is_empty() { Some(suffix) } else { digits.or(letter) };
    rest.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether a link has a role or a class that marks it as a backlink to a reference. Org mode also gives this
/// role to references, which have the class `footref`.
pub(super) fn is_marked_as_back(dom: &Dom, link: NodeId) -> bool {
    dom.attribute(link, "role") == Some("doc-backlink") && !dom.has_class(link, "footref")
        || dom.classes(link).any(|c| c.contains("backref") || c.contains("backlink"))
}

/// Words that occur in the ids and classes of references and notes.
const NAMES: [&str; 8] = ["fn", "ftn", "cite_note", "note", "endnote", "sidenote", "bib", "ref"];

/// Whether an attribute of an element, such as its class or `href`, is like those of references and notes: a
/// word ends with `note` and perhaps digits, `footnote` or `noteref` is anywhere in it, or a name such as
/// `fn` or `ref` is at the start or after a `-`.
pub(super) fn is_named_as_note(dom: &Dom, id: NodeId) -> bool {
    let attributes = ["id", "class", "role", "href", "rel", "epub:type", "data-type"];
    attributes.into_iter().filter_map(|name| dom.attribute(id, name)).any(|value| {
        let value = clip(value, MAX_NAME).to_ascii_lowercase();
        let mut words = value.split_ascii_whitespace();
        let start = value.trim_start_matches(['#', '_']);
        words.any(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with("note"))
            || value.contains("footnote")
            || value.contains("noteref")
            || NAMES.iter().any(|name| start.starts_with(name) || value.contains(&format!("-{name}")))
    })
}
