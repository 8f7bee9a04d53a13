//! The document tree: an arena of nodes that the parser fills, and the converter prunes and reads.

use super::omission_reason::Rule;
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, LocalName, QualName, ns};
use std::borrow::Cow;
use std::cell::RefCell;
use std::num::NonZeroU32;

/// Identifies a node of a [`Dom`]. Ids increase in the order in which the parser created the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(NonZeroU32);

pub(super) const DOCUMENT: NodeId = NodeId(NonZeroU32::MIN);

/// Common names of classes for text that only screen readers read.
#[rustfmt::skip]
pub(super) const FOR_SCREEN_READERS: &[&str] = &[
    "sr-only", "visually-hidden", "visuallyhidden", "screen-reader-text", "screen-reader-only", "element-invisible",
];

impl NodeId {
    /// The node's index in lists that have one value for each node.
    pub(super) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Maximum length in bytes of the part of a `class` or `style` attribute that is read. Children check the
/// classes of their parent, so a longer list would be read once for each of them.
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
            /// The tag of an element name in lower case; `Other` if the converter does not distinguish it.
            /// Obsolete names, such as `xmp`, have the tag of an element that browsers show in the same way.
            pub(super) fn from_name(name: &str) -> Self {
                match name {
                    $($block_name => Self::$block,)*
                    $($name => Self::$other,)*
                    "listing" | "plaintext" | "xmp" => Self::Pre,
                    "dir" => Self::Ul,
                    _ => Self::Other,
                }
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
    Figcaption "figcaption" Figure "figure" Footer "footer" Form "form" Frame "frame" Frameset "frameset"
    H1 "h1" H2 "h2" H3 "h3" H4 "h4"
    H5 "h5" H6 "h6" Header "header" Hgroup "hgroup" Hr "hr" Html "html" Legend "legend" Li "li" Main "main"
    Menu "menu" Nav "nav" Ol "ol" Optgroup "optgroup" Option "option" P "p" Pre "pre" Search "search"
    Section "section" Summary "summary" Table "table" Tbody "tbody" Td "td" Tfoot "tfoot" Th "th"
    Thead "thead" Tr "tr" Ul "ul" ;
    A "a" Abbr "abbr" Audio "audio" B "b" Br "br" Button "button" Canvas "canvas" Cite "cite" Code "code"
    Col "col" Colgroup "colgroup" Del "del" Dfn "dfn" Em "em" Embed "embed"
    Head "head" I "i" Iframe "iframe" Img "img" Input "input" Ins "ins" Kbd "kbd" Label "label" Link "link"
    Mark "mark" Math "math" Meta "meta" Noframes "noframes" Noscript "noscript" Object "object"
    Picture "picture" Q "q" Rp "rp" Rt "rt" S "s" Samp "samp"
    Script "script" Select "select" Slot "slot" Small "small" Source "source" Span "span"
    Strike "strike" Strong "strong" Style "style" Sub "sub" Sup "sup" Svg "svg" Template "template"
    Textarea "textarea" Time "time" Title "title" Track "track" Tt "tt" U "u" Var "var" Video "video"
    Wbr "wbr"
}

impl Tag {
    /// The level of a heading, 1 to 6; `None` for other elements.
    pub(super) fn heading_level(self) -> Option<u8> {
        // The variants `H1` to `H6` are adjacent, so the distance from `H1` gives the level.
        let level = (self as u8).wrapping_sub(Self::H1 as u8).wrapping_add(1);
        (1..=6).contains(&level).then_some(level)
    }
}

pub(super) enum Data {
    Text(StrTendril),
    Element(Box<Element>),
    Comment(StrTendril),
    /// The document, a processing instruction, or the element that the converter puts around several regions.
    Empty,
}

pub(super) struct Element {
    pub(super) name: QualName,
    pub(super) attributes: Vec<Attribute>,
}

pub(super) struct Node {
    pub(super) parent: Option<NodeId>,
    pub(super) previous: Option<NodeId>,
    pub(super) next: Option<NodeId>,
    pub(super) first: Option<NodeId>,
    pub(super) last: Option<NodeId>,
    /// Number of ancestors when the node was inserted.
    pub(super) depth: u16,
    pub(super) tag: Tag,
    /// A bit set of the names of the element's attributes; see [`name_bit`].
    attribute_bits: u32,
    /// A bit set of the element's classes; see [`name_bit`].
    class_bits: u32,
    pub(super) data: Data,
}

/// One of 32 bits for the name of an attribute or a class. An element without the bit has no attribute or
/// class of this name. Most elements lack most attributes and classes that the converter looks for, so the
/// attribute bits save a tenth of its time, and the class bits 4 % of its instructions.
#[inline]
fn name_bit(name: &str) -> u32 {
    let name = name.as_bytes();
    let (first, last) = (name.first().copied().unwrap_or(0), name.last().copied().unwrap_or(0));
    // These factors give the most frequent names, such as `class` and `href`, bits of their own.
    let mixed = usize::from(first) + 2 * usize::from(last) + 10 * name.len();
    1 << (mixed % 32)
}

/// The union of the bits of several names ([`name_bit`]).
#[inline]
fn name_bits<'n>(names: impl Iterator<Item = &'n str>) -> u32 {
    names.map(name_bit).fold(0, |bits, bit| bits | bit)
}

/// The tree of one document.
pub(super) struct Dom {
    nodes: Vec<Node>,
    /// Whether the parser dropped part of the input because it exceeded a limit.
    pub(super) is_truncated: bool,
    /// The nodes that the Markdown leaves out, and why. A node may have several entries.
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
        self.nodes.push(Node {
            parent: None,
            previous: None,
            next: None,
            first: None,
            last: None,
            depth: 0,
            tag,
            attribute_bits: 0,
            class_bits: 0,
            data,
        });
        let id =
            NodeId(u32::try_from(self.nodes.len()).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX));
        self.note_attributes(id);
        id
    }

    /// Adds an HTML element without a parent.
    pub(super) fn push_element(&mut self, name: &str, attributes: &[(&str, &str)]) -> NodeId {
        let name_of = |name| QualName::new(None, ns!(html), LocalName::from(name));
        let element = Element { name: name_of(name), attributes: Vec::new() };
        let id = self.push(Tag::from_name(name), Data::Element(Box::new(element)));
        for (name, value) in attributes {
            self.set_attribute(id, name, value);
        }
        id
    }

    /// Sets the value of an element's attribute. Does nothing for other nodes.
    pub(super) fn set_attribute(&mut self, id: NodeId, name: &str, value: &str) {
        let Data::Element(element) = &mut self.node_mut(id).data else { return };
        match element.attributes.iter_mut().find(|attribute| &*attribute.name.local == name) {
            Some(attribute) => attribute.value = value.into(),
            None => element.attributes.push(Attribute {
                name: QualName::new(None, ns!(), LocalName::from(name)),
                value: value.into(),
            }),
        }
        self.note_attributes(id);
    }

    /// Creates a text node, which has no parent yet.
    pub(super) fn push_text(&mut self, text: &str) -> NodeId {
        self.push(Tag::Text, Data::Text(text.into()))
    }

    /// Updates the bits of an element's attributes and classes. Call this after adding attributes, because
    /// otherwise [`Dom::attribute`] and [`Dom::has_class`] may not find them.
    pub(super) fn note_attributes(&mut self, id: NodeId) {
        let Data::Element(element) = &self.node(id).data else { return };
        let names = element.attributes.iter().map(|attribute| &*attribute.name.local);
        self.node_mut(id).attribute_bits = name_bits(names);
        self.node_mut(id).class_bits = name_bits(self.classes(id));
    }

    /// The number of nodes, including nodes that are not in the tree.
    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    // The compiler does not inline `node`, `element` and `text` by itself. Without `#[inline]`, a
    // conversion takes 1.5 % more instructions.
    #[inline]
    pub(super) fn node(&self, id: NodeId) -> &Node {
        #[cfg(test)]
        NODE_READS.set(NODE_READS.get() + 1);
        &self.nodes[id.index()]
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    pub(super) fn tag(&self, id: NodeId) -> Tag {
        self.node(id).tag
    }

    #[inline]
    pub(super) fn element(&self, id: NodeId) -> Option<&Element> {
        match &self.node(id).data {
            Data::Element(element) => Some(element),
            _ => None,
        }
    }

    /// The local name of an element; empty for other nodes.
    pub(super) fn name(&self, id: NodeId) -> &str {
        self.element(id).map_or("", |element| &*element.name.local)
    }

    #[inline]
    pub(super) fn text(&self, id: NodeId) -> Option<&str> {
        match &self.node(id).data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value of an attribute by its local name: lower case, except some names in SVG and MathML.
    #[inline]
    pub(super) fn attribute(&self, id: NodeId, name: &str) -> Option<&str> {
        if self.node(id).attribute_bits & name_bit(name) == 0 {
            return None;
        }
        self.find_attribute(id, name)
    }

    fn find_attribute(&self, id: NodeId, name: &str) -> Option<&str> {
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

    /// The click handler in an attribute of Alpine or Vue, whose name may have modifiers, as in
    /// `@click.prevent`.
    pub(super) fn click_handler(&self, id: NodeId) -> Option<&str> {
        const NAMES: [&str; 3] = ["@click", "x-on:click", "v-on:click"];
        let is_click = |name: &str| name.split('.').next().is_some_and(|event| NAMES.contains(&event));
        self.element(id)?.attributes.iter().find(|a| is_click(&a.name.local)).map(|a| &*a.value)
    }

    /// The classes in the first [`MAX_CLASSES`] bytes of the `class` attribute.
    pub(super) fn classes(&self, id: NodeId) -> impl Iterator<Item = &str> {
        clip(self.attribute(id, "class").unwrap_or_default(), MAX_CLASSES).split_ascii_whitespace()
    }

    #[inline]
    pub(super) fn has_class(&self, id: NodeId, class: &str) -> bool {
        self.node(id).class_bits & name_bit(class) != 0 && self.find_class(id, &[class])
    }

    #[inline]
    pub(super) fn has_class_in(&self, id: NodeId, classes: &[&str]) -> bool {
        self.node(id).class_bits & name_bits(classes.iter().copied()) != 0 && self.find_class(id, classes)
    }

    fn find_class(&self, id: NodeId, classes: &[&str]) -> bool {
        self.classes(id).any(|c| classes.contains(&c))
    }

    /// The first word of a property's value in the first 2000 bytes of the `style` attribute, without
    /// `!important`. Of several values, this is the first one, although browsers use the last.
    pub(super) fn style(&self, id: NodeId, property: &str) -> Option<&str> {
        let style = clip(self.attribute(id, "style")?, MAX_CLASSES);
        let rules = style.split(';').filter_map(|rule| rule.split_once(':'));
        let mut values = rules.filter(|(name, _)| name.trim().eq_ignore_ascii_case(property));
        values.next().map(|(_, value)| value.trim().split(['!', ' ']).next().unwrap_or_default())
    }

    /// Whether the `style` attribute gives the element the `display` of a block ([`is_block_display`]).
    pub(super) fn is_styled_as_block(&self, id: NodeId) -> bool {
        self.style(id, "display").is_some_and(is_block_display)
    }

    /// Whether the element is one of `<h1>` to `<h6>`. The role `heading` does not count.
    pub(super) fn is_heading(&self, id: NodeId) -> bool {
        self.tag(id).heading_level().is_some()
    }

    /// Whether the node or one of its ancestors has one of the tags.
    pub(super) fn is_in(&self, id: NodeId, tags: &[Tag]) -> bool {
        self.ancestors(id).any(|a| tags.contains(&self.tag(a)))
    }

    /// The node and its ancestors, innermost first.
    pub(super) fn ancestors(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(id), |&id| self.parent(id))
    }

    pub(super) fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.node(id).parent
    }

    pub(super) fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.node(id).first, |&id| self.node(id).next)
    }

    pub(super) fn child_elements(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        self.children(id).filter(|&c| self.element(c).is_some())
    }

    /// The siblings after a node, nearest first.
    pub(super) fn nodes_after(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.node(id).next, |&id| self.node(id).next)
    }

    /// The siblings before a node, nearest first.
    pub(super) fn nodes_before(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.node(id).previous, |&id| self.node(id).previous)
    }

    /// The next sibling element.
    pub(super) fn next_element(&self, id: NodeId) -> Option<NodeId> {
        self.nodes_after(id).find(|&n| self.element(n).is_some())
    }

    /// The previous sibling element.
    pub(super) fn previous_element(&self, id: NodeId) -> Option<NodeId> {
        self.nodes_before(id).find(|&n| self.element(n).is_some())
    }

    /// The `<body>` element, or else the `<frameset>`, or the document if there is none.
    pub(super) fn body(&self) -> NodeId {
        let child = |parent, tag| self.child_elements(parent).find(|&id| self.tag(id) == tag);
        let content = |html| child(html, Tag::Body).or_else(|| child(html, Tag::Frameset));
        child(DOCUMENT, Tag::Html).and_then(content).unwrap_or(DOCUMENT)
    }

    /// The node after `id` in document order inside `root`. If `skip`, the descendants of `id` are skipped.
    pub(super) fn following(&self, id: NodeId, root: NodeId, skip: bool) -> Option<NodeId> {
        let mut node = self.node(id);
        if let Some(first) = node.first.filter(|_| !skip) {
            return Some(first);
        }
        let mut id = id;
        while id != root {
            if node.next.is_some() {
                return node.next;
            }
            id = node.parent?;
            node = self.node(id);
        }
        None
    }

    /// `root` and the nodes below it in document order, except those below a node for which `is_closed`
    /// returns true.
    pub(super) fn walk(
        &self,
        root: NodeId,
        is_closed: impl Fn(NodeId) -> bool,
    ) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(root), move |&id| self.following(id, root, is_closed(id)))
    }

    /// `root` and all nodes below it in document order.
    pub(super) fn subtree(&self, root: NodeId) -> impl Iterator<Item = NodeId> {
        self.walk(root, |_| false)
    }

    /// All nodes below `root` in document order.
    pub(super) fn descendants(&self, root: NodeId) -> impl Iterator<Item = NodeId> {
        self.subtree(root).skip(1)
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

    /// The text of the node and all nodes below it, unchanged.
    pub(super) fn text_content(&self, root: NodeId) -> String {
        self.subtree(root).filter_map(|id| self.text(id)).collect()
    }

    /// Number of letters and digits in the node.
    pub(super) fn letters(&self, root: NodeId) -> usize {
        self.subtree(root).filter_map(|id| self.text(id)).map(count_letters).sum()
    }

    /// The text of the node and all nodes below it, with white space collapsed.
    pub(super) fn collapsed_text(&self, root: NodeId) -> String {
        collapse(&self.text_content(root))
    }

    /// The text of the first `nodes` nodes of a subtree, with white space collapsed. The limit bounds the
    /// time for elements inside each other.
    pub(super) fn first_text(&self, root: NodeId, nodes: usize) -> String {
        collapse(&self.subtree(root).take(nodes).filter_map(|id| self.text(id)).collect::<String>())
    }

    /// Whether the node contains only white space, and neither is nor contains an image, other embedded
    /// content, `<math>` or `<hr>`. Form controls without text count as blank.
    pub(super) fn is_blank(&self, root: NodeId) -> bool {
        self.subtree(root).all(|id| match self.tag(id) {
            Tag::Text => self.text(id).is_none_or(|t| t.trim().is_empty()),
            Tag::Img
            | Tag::Video
            | Tag::Audio
            | Tag::Iframe
            | Tag::Frame
            | Tag::Embed
            | Tag::Object
            | Tag::Math
            | Tag::Svg
            | Tag::Hr => false,
            _ => true,
        })
    }

    /// Records in [`Dom::omitted`] that the Markdown leaves out a node. The tree does not change.
    pub(super) fn skip(&self, node: NodeId, rule: Rule) {
        self.omitted.borrow_mut().push((node, rule));
    }

    /// Removes a node and its descendants from the tree, and records the reason.
    pub(super) fn omit(&mut self, node: NodeId, rule: Rule) {
        self.skip(node, rule);
        self.detach(node);
    }

    /// Omits the outermost elements below `root` for which `rule_for` returns a rule.
    pub(super) fn omit_each(&mut self, root: NodeId, rule_for: impl Fn(&Self, NodeId) -> Option<Rule>) {
        for (id, rule) in self.outermost_with(root, |id| rule_for(self, id)) {
            self.omit(id, rule);
        }
    }

    /// Removes a node and its descendants from the tree without noting it: for nodes that move to another
    /// place or that no reader sees. For others, call [`Dom::omit`].
    pub(super) fn detach(&mut self, id: NodeId) {
        let Node { parent, previous, next, .. } = *self.node(id);
        match (previous, parent) {
            (Some(previous), _) => self.node_mut(previous).next = next,
            (None, Some(parent)) => self.node_mut(parent).first = next,
            (None, None) => {}
        }
        match (next, parent) {
            (Some(next), _) => self.node_mut(next).previous = previous,
            (None, Some(parent)) => self.node_mut(parent).last = previous,
            (None, None) => {}
        }
        let node = self.node_mut(id);
        (node.parent, node.previous, node.next) = (None, None, None);
    }

    pub(super) fn detach_children(&mut self, parent: NodeId) {
        while let Some(child) = self.node(parent).first {
            self.detach(child);
        }
    }

    /// Moves a node to the end of the children of `parent`.
    pub(super) fn append(&mut self, parent: NodeId, id: NodeId) {
        self.detach(id);
        let Node { last, depth, .. } = *self.node(parent);
        let node = self.node_mut(id);
        (node.parent, node.previous, node.depth) = (Some(parent), last, depth.saturating_add(1));
        match last {
            Some(last) => self.node_mut(last).next = Some(id),
            None => self.node_mut(parent).first = Some(id),
        }
        self.node_mut(parent).last = Some(id);
    }

    /// Moves the children of `parent` to the position before `sibling`.
    pub(super) fn move_children_before(&mut self, sibling: NodeId, parent: NodeId) {
        while let Some(child) = self.node(parent).first {
            self.insert_before(sibling, child);
        }
    }

    /// Moves a node to the position before `sibling`.
    pub(super) fn insert_before(&mut self, sibling: NodeId, id: NodeId) {
        self.detach(id);
        let Node { parent, previous, depth, .. } = *self.node(sibling);
        let node = self.node_mut(id);
        (node.parent, node.previous, node.next, node.depth) = (parent, previous, Some(sibling), depth);
        self.node_mut(sibling).previous = Some(id);
        match (previous, parent) {
            (Some(previous), _) => self.node_mut(previous).next = Some(id),
            (None, Some(parent)) => self.node_mut(parent).first = Some(id),
            (None, None) => {}
        }
    }
}

/// Whether a box with this CSS `display` begins and ends a line. Recognizes only `block`, `flex` and `grid`.
pub(super) fn is_block_display(display: &str) -> bool {
    matches!(display, "block" | "flex" | "grid")
}

/// The number of letters and digits in `text`.
pub(super) fn count_letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}

/// The first `max` bytes of `text`, or up to three bytes fewer so that no character is split.
pub(super) fn clip(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Replaces each run of white space, which includes no-break spaces, with one space and trims the ends.
pub(super) fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Escapes text for HTML, in content and in quoted attributes.
pub(super) fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The characters that [`remove_invisible`] removes, at least in some places.
const INVISIBLE: [char; 6] = ['\u{feff}', '\u{2060}', '\u{ad}', '\u{200b}', '\u{200c}', '\u{200d}'];

/// Removes byte order marks, word joiners, soft hyphens, zero-width spaces, joiners and non-joiners. Keeps
/// zero-width spaces after letters of scripts without spaces between words, such as Khmer (U+0E00 to U+17FF).
/// Keeps joiners and non-joiners beside emoji and letters of other scripts than the European ones, to which
/// they belong. Webflow writes a joiner where its editor has an empty line.
pub(super) fn remove_invisible(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.contains(INVISIBLE) {
        return Cow::Borrowed(text);
    }
    let is_joined = |c: Option<char>| {
        c.is_some_and(|c| c >= '\u{590}' && !c.is_whitespace() && !('\u{2000}'..='\u{206f}').contains(&c))
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let before = out.chars().next_back();
        let is_removed = match c {
            '\u{feff}' | '\u{2060}' | '\u{ad}' => true,
            '\u{200b}' => !before.is_some_and(|c| ('\u{e00}'..='\u{17ff}').contains(&c)),
            '\u{200c}' | '\u{200d}' => !is_joined(before) && !is_joined(rest.clone().next()),
            _ => false,
        };
        if !is_removed {
            out.push(c);
        }
    }
    Cow::Owned(out)
}
