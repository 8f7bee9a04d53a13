//! Gives each footnote an element of its own where a block has several.

use super::dom::{Dom, NodeId, Tag};
use std::collections::HashSet;

/// Maximum number of letters and digits of a number before the target of a note.
const MAX_NUMBER: usize = 3;

/// Puts a `<div>` around each of the notes that begin at `targets`, if these are in different children of one
/// element. A note begins with its target, or with the line of its target if no other note begins there, and
/// ends before the next note; the last one ends before the next block. Returns whether the tree has changed.
pub(super) fn divide_notes(dom: &mut Dom, targets: &[NodeId]) -> bool {
    let Some(parent) = common_parent(dom, targets) else { return false };
    let child = |&target: &NodeId| dom.ancestors(target).find(|&a| dom.parent(a) == Some(parent));
    let children: HashSet<NodeId> = targets.iter().filter_map(child).collect();
    if children.len() < 2 || matches!(dom.tag(parent), Tag::Tr | Tag::Table | Tag::Ul | Tag::Ol | Tag::Dl) {
        return false;
    }
    let mut starts: Vec<NodeId> = Vec::new();
    // The first node of the current line, until a note begins on the line.
    let mut line = dom.node(parent).first;
    let mut end = None;
    for node in dom.children(parent) {
        let is_block = dom.tag(node).is_block();
        if children.contains(&node) {
            starts.push(line.take().unwrap_or(node));
            end = None;
        } else if is_block || dom.tag(node) == Tag::Br {
            line = dom.node(node).next;
            end = end.or(Some(node).filter(|_| is_block));
        } else if starts.is_empty() && dom.letters(node) > MAX_NUMBER {
            // The text before the first note is a title, not its number.
            line = None;
        }
    }
    let ends = starts.iter().skip(1).map(|&start| Some(start)).chain([end]);
    for (start, end) in starts.iter().zip(ends.collect::<Vec<_>>()) {
        let note = dom.push_element("div", &[]);
        dom.insert_before(*start, note);
        while let Some(next) = dom.node(note).next.filter(|&next| Some(next) != end) {
            dom.append(note, next);
        }
    }
    true
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
