//! Gives each footnote an element of its own where a block has several.

use super::dom::{Dom, NodeId, Tag};
use super::footnote_references::with_ascii_digits;
use std::collections::{BTreeMap, HashMap};

/// Text with at most this many letters and digits may be the number of a note.
const MAX_NUMBER: usize = 3;

/// Puts a `<div>` around each of the notes that begin at `targets`, which have the numbers of the notes as
/// keys, if these are in different children of one element that is not a list, `<table>` or row. A note
/// begins with its target, or with the line of its target if neither another note nor a title comes before it
/// there, and ends before the next note. The last note ends before the next block, or with the element if
/// there are blocks between other notes. Targets in the same child are one note. Changes nothing if a note
/// would have no text but its number. Returns whether the tree has changed.
pub(super) fn divide_notes(dom: &mut Dom, targets: &BTreeMap<String, NodeId>) -> bool {
    let ids: Vec<NodeId> = targets.values().copied().collect();
    let Some(parent) = common_parent(dom, &ids) else { return false };
    let child = |target| dom.ancestors(target).find(|&a| dom.parent(a) == Some(parent));
    let numbers = targets.iter().filter_map(|(number, &target)| Some((child(target)?, &**number)));
    let numbers: HashMap<NodeId, &str> = numbers.collect();
    if numbers.len() < 2 || matches!(dom.tag(parent), Tag::Tr | Tag::Table | Tag::Ul | Tag::Ol | Tag::Dl) {
        return false;
    }
    let parts = divide(dom, parent, &numbers);
    let has_text = |&(start, end, number): &(NodeId, Option<NodeId>, &str)| {
        let nodes = std::iter::successors(Some(start), |&id| dom.node(id).next);
        let nodes = nodes.take_while(|&id| Some(id) != end).flat_map(|id| dom.subtree(id));
        let text = nodes.filter_map(|id| dom.text(id)).flat_map(str::chars).filter(|c| c.is_alphanumeric());
        let text = with_ascii_digits(&text.take(number.len() + 1).collect::<String>());
        !text.is_empty() && text != number
    };
    if !parts.iter().all(has_text) {
        return false;
    }
    for (start, end, _) in parts {
        let note = dom.push_element("div", &[]);
        dom.insert_before(start, note);
        while let Some(next) = dom.node(note).next.filter(|&next| Some(next) != end) {
            dom.append(note, next);
        }
    }
    true
}

/// The first node of each note in `parent`, the node after the note, and its number. `numbers` has the
/// children with the targets of the notes. The last note ends at the first block after its target, unless
/// another note contains a block.
fn divide<'a>(
    dom: &Dom,
    parent: NodeId,
    numbers: &HashMap<NodeId, &'a str>,
) -> Vec<(NodeId, Option<NodeId>, &'a str)> {
    let mut starts: Vec<(NodeId, &str)> = Vec::new();
    // The first node of the current line, where a note may begin; `None` if no other note can begin there.
    let mut line_start = dom.node(parent).first;
    // Number of letters and digits before the first note of the current line.
    let mut letters_before = 0;
    // The first block after the start of the latest note. If no other note follows, the note may end there.
    let mut next_block = None;
    let mut has_blocks = false;
    for node in dom.children(parent) {
        let is_block = dom.tag(node).is_block();
        if let Some(number) = numbers.get(&node) {
            has_blocks |= next_block.is_some();
            // Text before the target on its line belongs to the previous note, unless the target ends the
            // line, as a backlink does.
            let goes_on = letters_before > MAX_NUMBER && !starts.is_empty() && !ends_line(dom, node);
            starts.push((line_start.take().filter(|_| !goes_on).unwrap_or(node), number));
            next_block = None;
        } else if is_block || dom.tag(node) == Tag::Br {
            line_start = dom.node(node).next;
            letters_before = 0;
            next_block = next_block.or(Some(node).filter(|_| is_block && !starts.is_empty()));
        } else if line_start.is_some() {
            letters_before += dom.letters(node);
            // Before the first note, text that is too long for a number is a title, and not part of the note.
            line_start = line_start.filter(|_| !starts.is_empty() || letters_before <= MAX_NUMBER);
        }
    }
    let ends =
        starts.iter().skip(1).map(|&(start, _)| Some(start)).chain([next_block.filter(|_| !has_blocks)]);
    starts.iter().zip(ends).map(|(&(start, number), end)| (start, end, number)).collect()
}

/// Whether an element is a link or has at most [`MAX_NUMBER`] letters and digits, and no letter or digit
/// follows it on its line.
fn ends_line(dom: &Dom, id: NodeId) -> bool {
    let is_line = |&id: &NodeId| !dom.tag(id).is_block() && dom.tag(id) != Tag::Br;
    (dom.tag(id) == Tag::A || dom.letters(id) <= MAX_NUMBER)
        && dom.nodes_after(id).take_while(is_line).all(|after| dom.letters(after) == 0)
}

/// The innermost element around all `targets`, at most six levels above each.
fn common_parent(dom: &Dom, targets: &[NodeId]) -> Option<NodeId> {
    let (first, others) = targets.split_first()?;
    let mut common: Vec<NodeId> = dom.ancestors(*first).skip(1).take(6).collect();
    for &target in others {
        let above: Vec<NodeId> = dom.ancestors(target).skip(1).take(6).collect();
        common.retain(|parent| above.contains(parent));
    }
    common.first().copied()
}
