//! The document tree: an arena of nodes that the parser fills, and the converter prunes and reads.

use super::account::Rule;
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, QualName};
use std::cell::RefCell;

/// Index of a node in its [`Dom`].
pub(super) type NodeId = u32;

/// Stands for a missing parent, sibling or child.
pub(super) const NONE: NodeId = NodeId::MAX;

pub(super) const DOCUMENT: NodeId = 0;

/// Maximum length in bytes of the part of a `class` attribute that is read. Children check the classes of
/// their parent, so a longer list would be read once for each of them.
const MAX_CLASSES: usize = 2000;

#[cfg(test)]
thread_local! {
    /// The number of times that this thread read a node: a measure of the work that a conversion takes.
    pub(super) static NODE_READS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Defines [`Tag`] with the element name of each variant. Browsers lay out the elements before the `;` as
/// blocks.
macro_rules! tags {
    ($($block:ident $block_name:literal)* ; $($other:ident $name:literal)*) => {
        /// Element kinds that the converter distinguishes; all others are `Other`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Tag { $($block,)* $($other,)* Other, Text, Document, Ignored }

        impl Tag {
            pub(super) fn from_name(name: &str) -> Self {
                match name { $($block_name => Self::$block,)* $($name => Self::$other,)* _ => Self::Other }
            }

            pub(super) fn is_block(self) -> bool {
                matches!(self, $(Self::$block)|*)
            }
        }
    };
}

tags! {
    Address "address" Article "article" Aside "aside" Blockquote "blockquote" Body "body" Caption "caption"
    Center "center" Dd "dd" Details "details" Dialog "dialog" Div "div" Dl "dl" Dt "dt" Fieldset "fieldset"
    Figcaption "figcaption" Figure "figure" Footer "footer" Form "form" H1 "h1" H2 "h2" H3 "h3" H4 "h4"
    H5 "h5" H6 "h6" Header "header" Hgroup "hgroup" Hr "hr" Html "html" Legend "legend" Li "li" Main "main"
    Menu "menu" Nav "nav" Ol "ol" Optgroup "optgroup" Option "option" P "p" Pre "pre" Search "search"
    Section "section" Summary "summary" Table "table" Tbody "tbody" Td "td" Tfoot "tfoot" Th "th"
    Thead "thead" Tr "tr" Ul "ul" ;
    A "a" Abbr "abbr" Audio "audio" B "b" Br "br" Button "button" Canvas "canvas" Cite "cite" Code "code"
    Col "col" Colgroup "colgroup" Del "del" Dfn "dfn" Em "em" Embed "embed" Frame "frame" Frameset "frameset"
    Head "head" I "i" Iframe "iframe" Img "img" Input "input" Ins "ins" Kbd "kbd" Label "label" Link "link"
    Mark "mark" Math "math" Meta "meta" Noscript "noscript" Object "object" Picture "picture" Q "q" Rp "rp" Rt "rt" S "s"
    Samp "samp" Script "script" Select "select" Slot "slot" Small "small" Source "source" Span "span"
    Strike "strike" Strong "strong" Style "style" Sub "sub" Sup "sup" Svg "svg" Template "template"
    Textarea "textarea" Time "time" Title "title" Track "track" Tt "tt" U "u" Var "var" Video "video"
    Wbr "wbr"
}

impl Tag {
    /// The level of a heading, 1 to 6; `None` for other elements.
    pub(super) fn heading_level(self) -> Option<u8> {
        Some(match self {
            Self::H1 => 1,
            Self::H2 => 2,
            Self::H3 => 3,
            Self::H4 => 4,
            Self::H5 => 5,
            Self::H6 => 6,
            _ => return None,
        })
    }
}

pub(super) enum Data {
    Text(StrTendril),
    Element(Box<Element>),
    Comment(StrTendril),
    /// The document or a processing instruction.
    Empty,
}

pub(super) struct Element {
    pub(super) name: QualName,
    pub(super) attributes: Vec<Attribute>,
}

pub(super) struct Node {
    pub(super) parent: NodeId,
    pub(super) previous: NodeId,
    pub(super) next: NodeId,
    pub(super) first: NodeId,
    pub(super) last: NodeId,
    /// Number of ancestors when the node was inserted.
    pub(super) depth: u16,
    pub(super) tag: Tag,
    pub(super) data: Data,
}

/// The tree of one document.
pub(super) struct Dom {
    pub(super) nodes: Vec<Node>,
    /// Whether the parser dropped part of the input because it exceeded a limit.
    pub(super) is_truncated: bool,
    /// The nodes that the Markdown leaves out, and why.
    pub(super) omitted: RefCell<Vec<(NodeId, Rule)>>,
}

impl Dom {
    pub(super) fn new() -> Self {
        let mut dom = Self { nodes: Vec::new(), is_truncated: false, omitted: RefCell::default() };
        dom.push(Tag::Document, Data::Empty);
        dom
    }

    /// Adds a node without a parent.
    pub(super) fn push(&mut self, tag: Tag, data: Data) -> NodeId {
        let id = NodeId::try_from(self.nodes.len()).unwrap_or(NONE);
        self.nodes.push(Node {
            parent: NONE,
            previous: NONE,
            next: NONE,
            first: NONE,
            last: NONE,
            depth: 0,
            tag,
            data,
        });
        id
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        #[cfg(test)]
        NODE_READS.set(NODE_READS.get() + 1);
        &self.nodes[id as usize]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    pub(super) fn tag(&self, id: NodeId) -> Tag {
        self.node(id).tag
    }

    pub(super) fn element(&self, id: NodeId) -> Option<&Element> {
        match &self.node(id).data {
            Data::Element(element) => Some(element),
            _ => None,
        }
    }

    pub(super) fn text(&self, id: NodeId) -> Option<&str> {
        match &self.node(id).data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value of an attribute, by its lower-case name.
    pub(super) fn attribute(&self, id: NodeId, name: &str) -> Option<&str> {
        let element = self.element(id)?;
        element.attributes.iter().find(|a| &*a.name.local == name).map(|a| &*a.value)
    }

    /// The trimmed value of the first attribute in `names` that has a value other than white space.
    pub(super) fn first_attribute(&self, id: NodeId, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.attribute(id, name).map(str::trim).filter(|v| !v.is_empty()))
    }

    pub(super) fn has_attribute(&self, id: NodeId, name: &str) -> bool {
        self.attribute(id, name).is_some()
    }

    /// The classes in the first [`MAX_CLASSES`] bytes of the attribute.
    pub(super) fn classes(&self, id: NodeId) -> impl Iterator<Item = &str> {
        clip(self.attribute(id, "class").unwrap_or_default(), MAX_CLASSES).split_ascii_whitespace()
    }

    pub(super) fn has_class(&self, id: NodeId, class: &str) -> bool {
        self.classes(id).any(|c| c == class)
    }

    /// The node itself or its nearest ancestor with one of the tags.
    pub(super) fn closest(&self, id: NodeId, tags: &[Tag]) -> Option<NodeId> {
        self.ancestors(id).find(|&a| tags.contains(&self.tag(a)))
    }

    /// The node and its ancestors, innermost first.
    pub(super) fn ancestors(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(id), |&id| valid(self.node(id).parent))
    }

    pub(super) fn parent(&self, id: NodeId) -> Option<NodeId> {
        valid(self.node(id).parent)
    }

    pub(super) fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(valid(self.node(id).first), |&id| valid(self.node(id).next))
    }

    pub(super) fn child_elements(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        self.children(id).filter(|&c| self.element(c).is_some())
    }

    /// The next sibling element.
    pub(super) fn next_element(&self, id: NodeId) -> Option<NodeId> {
        std::iter::successors(valid(self.node(id).next), |&id| valid(self.node(id).next))
            .find(|&n| self.element(n).is_some())
    }

    /// The previous sibling element.
    pub(super) fn previous_element(&self, id: NodeId) -> Option<NodeId> {
        std::iter::successors(valid(self.node(id).previous), |&id| valid(self.node(id).previous))
            .find(|&n| self.element(n).is_some())
    }

    /// The node after `id` in document order inside `root`. If `skip`, the descendants of `id` are skipped.
    pub(super) fn following(&self, id: NodeId, root: NodeId, skip: bool) -> Option<NodeId> {
        let node = self.node(id);
        if !skip && node.first != NONE {
            return Some(node.first);
        }
        let mut id = id;
        while id != root {
            let node = self.node(id);
            if node.next != NONE {
                return Some(node.next);
            }
            id = valid(node.parent)?;
        }
        None
    }

    /// All nodes below `root` in document order.
    pub(super) fn descendants(&self, root: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.following(root, root, false), move |&id| self.following(id, root, false))
    }

    /// The first node below `root` with this tag, in document order.
    pub(super) fn find(&self, root: NodeId, tag: Tag) -> Option<NodeId> {
        self.descendants(root).find(|&id| self.tag(id) == tag)
    }

    /// The matching elements below `root`, in document order, except those inside another match.
    pub(super) fn outermost(&self, root: NodeId, mut is_match: impl FnMut(NodeId) -> bool) -> Vec<NodeId> {
        let found = self.outermost_with(root, |id| is_match(id).then_some(()));
        found.into_iter().map(|(id, ())| id).collect()
    }

    /// The elements below `root` for which `find` returns a value, and these values, in document order,
    /// except elements inside another one.
    pub(super) fn outermost_with<T>(
        &self,
        root: NodeId,
        mut find: impl FnMut(NodeId) -> Option<T>,
    ) -> Vec<(NodeId, T)> {
        let mut found = Vec::new();
        let mut next = self.following(root, root, false);
        while let Some(id) = next {
            let value = if self.element(id).is_some() { find(id) } else { None };
            next = self.following(id, root, value.is_some());
            found.extend(value.map(|value| (id, value)));
        }
        found
    }

    /// The text of all descendants, unchanged.
    pub(super) fn text_content(&self, root: NodeId) -> String {
        if let Some(text) = self.text(root) {
            return text.to_owned();
        }
        self.descendants(root).filter_map(|id| self.text(id)).collect()
    }

    /// The text of all descendants with white space collapsed.
    pub(super) fn collapsed_text(&self, root: NodeId) -> String {
        collapse(&self.text_content(root))
    }

    /// Whether the node contains only white space, and no image or other embedded content.
    pub(super) fn is_blank(&self, root: NodeId) -> bool {
        let is_blank = |id| match self.tag(id) {
            Tag::Text => self.text(id).is_none_or(|t| t.trim().is_empty()),
            Tag::Img | Tag::Video | Tag::Audio | Tag::Iframe | Tag::Math | Tag::Svg | Tag::Hr => false,
            _ => true,
        };
        is_blank(root) && self.descendants(root).all(is_blank)
    }

    /// Notes that the Markdown leaves out a node that stays in the tree.
    pub(super) fn skip(&self, node: NodeId, rule: Rule) {
        self.omitted.borrow_mut().push((node, rule));
    }

    /// Removes a node and its descendants from the tree, and notes the reason.
    pub(super) fn omit(&mut self, node: NodeId, rule: Rule) {
        self.skip(node, rule);
        self.detach(node);
    }

    /// Removes a node and its descendants from the tree, if they move to another place or have no text.
    pub(super) fn detach(&mut self, id: NodeId) {
        let Node { parent, previous, next, .. } = *self.node(id);
        if previous != NONE {
            self.node_mut(previous).next = next;
        } else if parent != NONE {
            self.node_mut(parent).first = next;
        }
        if next != NONE {
            self.node_mut(next).previous = previous;
        } else if parent != NONE {
            self.node_mut(parent).last = previous;
        }
        let node = self.node_mut(id);
        (node.parent, node.previous, node.next) = (NONE, NONE, NONE);
    }

    /// Moves a node to the end of the children of `parent`.
    pub(super) fn append(&mut self, parent: NodeId, id: NodeId) {
        self.detach(id);
        let Node { last, depth, .. } = *self.node(parent);
        let node = self.node_mut(id);
        (node.parent, node.previous, node.depth) = (parent, last, depth.saturating_add(1));
        if last == NONE {
            self.node_mut(parent).first = id;
        } else {
            self.node_mut(last).next = id;
        }
        self.node_mut(parent).last = id;
    }

    /// Moves the children of `parent` to the position before `sibling`.
    pub(super) fn move_children_before(&mut self, sibling: NodeId, parent: NodeId) {
        while let Some(child) = valid(self.node(parent).first) {
            self.insert_before(sibling, child);
        }
    }

    /// Moves a node to the position before `sibling`.
    pub(super) fn insert_before(&mut self, sibling: NodeId, id: NodeId) {
        self.detach(id);
        let Node { parent, previous, depth, .. } = *self.node(sibling);
        let node = self.node_mut(id);
        node.depth = depth;
        (node.parent, node.previous, node.next) = (parent, previous, sibling);
        self.node_mut(sibling).previous = id;
        if previous != NONE {
            self.node_mut(previous).next = id;
        } else if parent != NONE {
            self.node_mut(parent).first = id;
        }
    }
}

/// Converts [`NONE`] to `None`.
pub(super) fn valid(id: NodeId) -> Option<NodeId> {
    (id != NONE).then_some(id)
}

/// The first `max` bytes of `text`, or a few less if a character would be divided.
pub(super) fn clip(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Replaces each run of white space with one space and trims the ends.
pub(super) fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
