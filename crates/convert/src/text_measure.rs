//! Measures how much text the elements of a page have, and how much of it is in links and in sentences.

use super::dom::{Dom, NodeId, Tag};
use std::ops::Index;

/// The amount of text in an element, in bytes: the length of each word, and one for the space after it.
#[derive(Clone, Copy, Default)]
pub(super) struct Measure {
    pub(super) text: usize,
    /// The part of the text inside links, in bytes.
    pub(super) linked: usize,
    /// Text outside links: that of text nodes with more than 40 bytes, and of paragraphs with more than 60
    /// bytes outside links.
    pub(super) prose: usize,
}

impl Measure {
    /// The size of the text, in which prose counts four times.
    pub(super) fn weight(self) -> usize {
        self.prose * 3 + self.text
    }
}

/// The measures of the nodes that a page had when it was measured. Indexing by a newer node panics.
pub(super) struct Measures(Vec<Measure>);

impl Index<NodeId> for Measures {
    type Output = Measure;

    fn index(&self, id: NodeId) -> &Measure {
        &self.0[id.index()]
    }
}

/// Measures the text of `root` and of all nodes below it; the measures of other nodes are 0.
pub(super) fn measure_elements(dom: &Dom, root: NodeId) -> Measures {
    let mut measures = vec![Measure::default(); dom.node_count()];
    let order: Vec<NodeId> = dom.subtree(root).collect();
    for &id in order.iter().rev() {
        let mut own = measures[id.index()];
        match dom.tag(id) {
            Tag::Text => {
                own.text =
                    dom.text(id).unwrap_or_default().split_ascii_whitespace().map(|w| w.len() + 1).sum();
                own.prose = if own.text > 40 { own.text } else { 0 };
            }
            Tag::A => (own.linked, own.prose) = (own.text, 0),
            Tag::P if own.text > own.linked + 60 => own.prose = own.text - own.linked,
            _ => {}
        }
        measures[id.index()] = own;
        if let Some(parent) = dom.parent(id).filter(|_| id != root) {
            let parent = &mut measures[parent.index()];
            parent.text += own.text;
            parent.linked += own.linked;
            parent.prose += own.prose;
        }
    }
    Measures(measures)
}
