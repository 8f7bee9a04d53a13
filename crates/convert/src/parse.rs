//! Parses HTML into a [`Dom`] with html5ever, within limits on depth, nodes and attributes.

use super::dom::{DOCUMENT, Data, Dom, Element, NodeId, Tag, clip};
use super::tag_scan::{
    Markup, Tag as ScannedTag, find_end_tag, next_attribute, next_markup, position, position_after,
};
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag as TagToken, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};
use html5ever::{Attribute, LocalName, QualName, ns};
use memchr::{memchr2, memchr3};
use std::borrow::Cow;
use std::cell::{Cell, Ref, RefCell};

/// Start tags nested deeper than this are ignored. For many tags, html5ever scans its whole stack of open
/// elements, so parsing time would grow with the square of the depth. Browsers allow 512.
const MAX_DEPTH: u16 = 256;

/// Nodes nested deeper than this are detached, which bounds the recursion of the converter. Misnested
/// formatting can make the tree builder nest nodes deeper than their tags.
pub(super) const MAX_TREE_DEPTH: usize = 320;

/// The parser stops when the document has this many nodes, which take about 300 MB, or
/// [`MAX_NODES_PER_BYTE`] for each byte of a short page. The tree builder repeats formatting that is not
/// closed in each block after it, so the nodes could grow with the square of the length.
const MAX_NODES: usize = 3_000_000;
const MAX_NODES_PER_BYTE: usize = 4;
const MIN_NODE_LIMIT: usize = 20_000;

/// Maximum number of attributes per tag; the rest are dropped. html5ever compares each attribute with all
/// those before it.
const MAX_ATTRIBUTES: usize = 200;

/// Maximum length in bytes of a page; the rest is missing. The parser's strings cannot grow beyond 2 GiB, and
/// it replaces a NUL by three bytes.
const MAX_PAGE: usize = 1 << 29;

/// Length in bytes of one piece of the input. The parser checks the number of nodes before each one.
const PIECE: usize = 64 * 1024;

/// Parses a document. Never fails, because HTML defines a tree for every input. Sets [`Dom::is_truncated`] if
/// parts beyond the limits on depth and nodes are missing, but not for dropped attributes.
pub(super) fn parse(html: &str) -> Dom {
    let html = html.strip_prefix('\u{feff}').unwrap_or(html);
    let page = StrTendril::from_slice(clip(html, MAX_PAGE));
    let tokenizer = tokenizer(page.len());
    let mut feeder = Feeder { tokenizer, input: BufferQueue::default(), page: &page, fed: 0 };
    let is_whole = feeder.feed().is_some() && page.len() == html.len();
    let mut dom = finish(feeder.tokenizer);
    dom.is_truncated |= !is_whole;
    dom
}

/// A tokenizer for a page of `length` bytes without its byte order mark.
fn tokenizer(length: usize) -> Tokenizer<Limiter> {
    let sink = Sink { dom: RefCell::new(Dom::new()), last_inserted: Cell::new(DOCUMENT) };
    let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let limiter = Limiter {
        builder: TreeBuilder::new(sink, options),
        max_nodes: MAX_NODES.min(MIN_NODE_LIMIT.max(length.saturating_mul(MAX_NODES_PER_BYTE))),
        current: Cell::new(DOCUMENT),
        is_raw: Cell::new(false),
        is_truncated: Cell::new(false),
    };
    // The tokenizer would drop a mark at the start of each piece.
    Tokenizer::new(limiter, TokenizerOpts { discard_bom: false, ..TokenizerOpts::default() })
}

/// Ends the page, and returns its tree.
fn finish(tokenizer: Tokenizer<Limiter>) -> Dom {
    tokenizer.end();
    let mut dom = tokenizer.sink.builder.sink.dom.into_inner();
    dom.is_truncated = tokenizer.sink.is_truncated.get();
    detach_deep_nodes(&mut dom);
    dom
}

/// Feeds a page to the tokenizer in pieces, or to the tree builder. Leaves out attributes beyond
/// [`MAX_ATTRIBUTES`] per tag.
struct Feeder<'a> {
    tokenizer: Tokenizer<Limiter>,
    input: BufferQueue,
    /// The page, which shares its memory with its parts.
    page: &'a StrTendril,
    /// Number of bytes of the page that have been fed or left out.
    fed: usize,
}

impl Feeder<'_> {
    /// Feeds the whole page. `None` if the document has reached its maximum number of nodes before its end.
    fn feed(&mut self) -> Option<()> {
        let page = self.page.as_bytes();
        while let Some((start, markup)) = next_markup(page, self.fed, MAX_ATTRIBUTES) {
            let end = match markup {
                Markup::Other(end) => end,
                Markup::Cdata => {
                    self.feed_to(start)?;
                    let is_foreign =
                        self.tokenizer.sink.adjusted_current_node_present_but_not_in_html_namespace();
                    position_after(page, start, if is_foreign { b"]]>" } else { b">" })
                }
                Markup::Tag(tag) if tag.may_begin_raw_text() => self.feed_raw_text(&tag)?,
                Markup::Tag(tag) => {
                    self.feed_tag(start, &tag)?;
                    tag.end
                }
            };
            self.feed_to(end)?;
        }
        self.feed_to(page.len())
    }

    /// Feeds a start tag, and returns where it ends. If the tree builder reads no tags after it, instead
    /// returns where the end tag or, without one, the page ends. `None` if the document has reached its
    /// maximum number of nodes.
    fn feed_raw_text(&mut self, start: &ScannedTag<'_>) -> Option<usize> {
        self.leave_out(start.excess)?;
        self.feed_to(start.end)?;
        if !self.tokenizer.sink.is_raw.get() {
            return Some(start.end);
        }
        let page = self.page.as_bytes();
        let has_end = !start.name.eq_ignore_ascii_case(b"plaintext");
        let end_tag = find_end_tag(page, start.end, start.name, MAX_ATTRIBUTES).filter(|_| has_end);
        self.leave_out(end_tag.as_ref().and_then(|tag| tag.excess))?;
        Some(end_tag.map_or(page.len(), |tag| tag.end))
    }

    /// Feeds a tag and the text before it. `None` if the document has reached its maximum number of nodes.
    ///
    /// Most of them pass the tokenizer by, which reads names letter by letter. This saves a fifth of the
    /// instructions of a conversion. The tokenizer reads what [`decode`] and [`tag_token`] leave to it.
    /// After such a text, it also reads the tag, which ends the last character reference.
    fn feed_tag(&mut self, start: usize, tag: &ScannedTag<'_>) -> Option<()> {
        let page = self.page;
        if let Some(text) = decode(page, &page.as_bytes()[self.fed..start]) {
            if !text.is_empty() {
                self.insert(Token::CharacterTokens(text), start)?;
            }
            if let Some(token) = tag_token(page, tag) {
                return self.insert(Token::TagToken(token), tag.end);
            }
        }
        self.leave_out(tag.excess)
    }

    /// Passes on a token that ends at `end` in the page. `None` if the document has reached its maximum
    /// number of nodes.
    fn insert(&mut self, token: Token, end: usize) -> Option<()> {
        let limiter = &self.tokenizer.sink;
        if limiter.node_count() >= limiter.max_nodes {
            return None;
        }
        // Only the start tags of raw text, which the tokenizer reads, change how it goes on.
        let _ = limiter.process_token(token, 1);
        self.fed = end;
        Some(())
    }

    /// Feeds the page up to the excess attributes of a tag, and leaves these out. Does nothing without them.
    /// `None` as for [`Self::feed_to`].
    fn leave_out(&mut self, excess: Option<(usize, usize)>) -> Option<()> {
        if let Some((start, end)) = excess {
            self.feed_to(start)?;
            self.fed = end;
        }
        Some(())
    }

    /// Feeds the page up to `end`. `None` if the document has reached its maximum number of nodes.
    fn feed_to(&mut self, end: usize) -> Option<()> {
        while self.fed < end {
            let limiter = &self.tokenizer.sink;
            if limiter.node_count() >= limiter.max_nodes {
                return None;
            }
            let piece = self.page.floor_char_boundary(end.min(self.fed + PIECE));
            self.input.push_back(part(self.page, &self.page.as_bytes()[self.fed..piece]));
            self.fed = piece;
            // The tokenizer returns after each script, so that browsers can run it. Continue with the rest.
            while !self.input.is_empty() {
                let _ = self.tokenizer.feed(&self.input);
            }
        }
        Some(())
    }
}

/// The token of a tag. Drops attributes beyond [`MAX_ATTRIBUTES`], and those with the name of an earlier one.
/// `None` if the page ends inside the tag, or if it has a carriage return, NUL or a character reference that
/// [`decode`] does not read.
fn tag_token(page: &StrTendril, tag: &ScannedTag<'_>) -> Option<TagToken> {
    let mut rest = &page.as_bytes()[tag.name_end..tag.end];
    if !tag.is_closed || [tag.name, rest].into_iter().any(|part| memchr2(b'\r', 0, part).is_some()) {
        return None;
    }
    let mut attrs: Vec<Attribute> = Vec::new();
    let found = std::iter::from_fn(|| next_attribute(&mut rest)).take(MAX_ATTRIBUTES);
    let mut had_duplicate_attributes = false;
    for (name, value) in found {
        let name = local_name(name);
        if attrs.iter().any(|attribute| attribute.name.local == name) {
            had_duplicate_attributes = true;
        } else {
            let value = value.map_or(Some(StrTendril::new()), |value| decode(page, value))?;
            attrs.push(Attribute { name: QualName::new(None, ns!(), name), value });
        }
    }
    Some(TagToken {
        kind: if tag.is_end { TagKind::EndTag } else { TagKind::StartTag },
        name: local_name(tag.name),
        self_closing: tag.is_self_closing,
        attrs,
        had_duplicate_attributes,
    })
}

/// Decodes a text or an attribute's value. `None` if it has a carriage return, NUL, or a `&` before a
/// letter, a digit or `#` that begins no character reference with a semicolon and a frequent name or the
/// number of a printable character.
fn decode(page: &StrTendril, text: &[u8]) -> Option<StrTendril> {
    let find = |text: &[u8]| memchr3(b'&', b'\r', 0, text);
    let Some(mut at) = find(text) else { return Some(part(page, text)) };
    let mut rest = str::from_utf8(text).ok()?;
    let mut decoded = StrTendril::new();
    loop {
        decoded.push_slice(&rest[..at]);
        rest = rest[at..].strip_prefix('&')?;
        if rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '#') {
            let (name, after) = rest.split_once(';')?;
            decoded.push_char(match name {
                "amp" => '&',
                "apos" => '\'',
                "gt" => '>',
                "lt" => '<',
                "nbsp" => '\u{a0}',
                "quot" => '"',
                _ => numeric_character(name)?,
            });
            rest = after;
        } else {
            decoded.push_char('&');
        }
        let Some(next) = find(rest.as_bytes()) else { break };
        at = next;
    }
    decoded.push_slice(rest);
    Some(decoded)
}

/// The character of a numeric reference such as `#39` or `#x27`. `None` for control characters, because
/// the standard replaces some of them, and for other texts.
fn numeric_character(name: &str) -> Option<char> {
    let number = name.strip_prefix('#')?;
    let (digits, radix) = number.strip_prefix(['x', 'X']).map_or((number, 10), |digits| (digits, 16));
    let is_number = digits.bytes().all(|byte| char::from(byte).is_digit(radix));
    let code = u32::from_str_radix(digits, radix).ok().filter(|_| is_number)?;
    char::from_u32(code).filter(|c| !c.is_control())
}

/// A part of a page, which shares the page's memory unless it is short.
fn part(page: &StrTendril, bytes: &[u8]) -> StrTendril {
    let size = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
    page.subtendril(size(position(bytes, page.as_bytes())), size(bytes.len()))
}

/// The name of a tag or an attribute in lower case.
fn local_name(name: &[u8]) -> LocalName {
    let name = str::from_utf8(name).unwrap_or_default();
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        LocalName::from(name.to_ascii_lowercase())
    } else {
        LocalName::from(name)
    }
}

/// Passes tokens on to the tree builder, except start tags beyond the limits on depth and nodes.
struct Limiter {
    builder: TreeBuilder<NodeId, Sink>,
    max_nodes: usize,
    /// Estimate of the innermost open element. Exact after each start tag, when the tree reflects implied end
    /// tags.
    current: Cell<NodeId>,
    /// Whether the tokenizer reads raw text, which only an end tag ends.
    is_raw: Cell<bool>,
    is_truncated: Cell<bool>,
}

impl Limiter {
    fn node_count(&self) -> usize {
        self.builder.sink.dom.borrow().node_count()
    }

    /// Sets `current` to the parent of the element that an end tag closes. Does nothing if no element of that
    /// name is open.
    fn follow_end_tag(&self, name: &LocalName) {
        let dom = self.builder.sink.dom.borrow();
        let is_named = |&id: &NodeId| dom.element(id).is_some_and(|e| e.name.local == *name);
        if let Some(parent) = dom.ancestors(self.current.get()).find(is_named).and_then(|id| dom.parent(id)) {
            self.current.set(parent);
        }
    }
}

impl TokenSink for Limiter {
    type Handle = NodeId;

    /// Passes a token on to the tree builder. Drops parse errors, and start tags beyond the limits, for which
    /// it sets `is_truncated`.
    fn process_token(&self, token: Token, line_number: u64) -> TokenSinkResult<NodeId> {
        let Token::TagToken(tag) = &token else {
            return match token {
                Token::ParseError(_) => TokenSinkResult::Continue,
                token => self.builder.process_token(token, line_number),
            };
        };
        let sink = &self.builder.sink;
        if tag.kind == TagKind::EndTag {
            self.is_raw.set(false);
            self.follow_end_tag(&tag.name);
            return self.builder.process_token(token, line_number);
        }
        if self.node_count() >= self.max_nodes
            || sink.dom.borrow().node(self.current.get()).depth >= MAX_DEPTH
        {
            self.is_truncated.set(true);
            return TokenSinkResult::Continue;
        }
        let is_open = !tag.self_closing && !VOID.contains(&&*tag.name);
        let before = sink.last_inserted.get();
        let result = self.builder.process_token(token, line_number);
        self.is_raw.set(matches!(result, TokenSinkResult::RawData(_) | TokenSinkResult::Plaintext));
        let inserted = sink.last_inserted.get();
        if is_open && inserted != before {
            self.current.set(inserted);
        }
        result
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// Builds the tree for html5ever.
struct Sink {
    dom: RefCell<Dom>,
    /// The most recently inserted node that is not text.
    last_inserted: Cell<NodeId>,
}

impl Sink {
    /// Returns the id of a child that is about to be inserted. Creates a node for text, and records other
    /// children in `last_inserted`.
    fn child_id(&self, child: NodeOrText<NodeId>) -> NodeId {
        match child {
            NodeOrText::AppendNode(id) => {
                self.last_inserted.set(id);
                id
            }
            NodeOrText::AppendText(text) => self.dom.borrow_mut().push(Tag::Text, Data::Text(text)),
        }
    }

    /// If both are text, appends the text of `child` to the node `id` and returns true.
    fn merge_text(&self, id: Option<NodeId>, child: &NodeOrText<NodeId>) -> bool {
        let (Some(id), NodeOrText::AppendText(text)) = (id, child) else { return false };
        let mut dom = self.dom.borrow_mut();
        let Data::Text(existing) = &mut dom.node_mut(id).data else { return false };
        existing.push_tendril(text);
        true
    }
}

impl TreeSink for Sink {
    type Handle = NodeId;
    type Output = ();
    type ElemName<'a> = Ref<'a, QualName>;

    fn finish(self) {}

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> NodeId {
        DOCUMENT
    }

    fn elem_name<'a>(&'a self, target: &'a NodeId) -> Ref<'a, QualName> {
        Ref::map(self.dom.borrow(), |dom| match &dom.node(*target).data {
            Data::Element(element) => &element.name,
            _ => unreachable!("html5ever asks only for the names of elements"),
        })
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, _: ElementFlags) -> NodeId {
        let tag = Tag::from_name(&name.local);
        self.dom.borrow_mut().push(tag, Data::Element(Box::new(Element { name, attributes })))
    }

    fn create_comment(&self, text: StrTendril) -> NodeId {
        self.dom.borrow_mut().push(Tag::Ignored, Data::Comment(text))
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> NodeId {
        self.dom.borrow_mut().push(Tag::Ignored, Data::Empty)
    }

    /// Appends a child. Text is merged with a text node at the end.
    fn append(&self, parent: &NodeId, child: NodeOrText<NodeId>) {
        let last = self.dom.borrow().node(*parent).last;
        if !self.merge_text(last, &child) {
            let child = self.child_id(child);
            self.dom.borrow_mut().append(*parent, child);
        }
    }

    /// Inserts a child before `sibling`. Text is merged with a text node directly before `sibling`.
    fn append_before_sibling(&self, sibling: &NodeId, child: NodeOrText<NodeId>) {
        let previous = self.dom.borrow().node(*sibling).previous;
        if !self.merge_text(previous, &child) {
            let child = self.child_id(child);
            self.dom.borrow_mut().insert_before(*sibling, child);
        }
    }

    /// Inserts a child before `element` if `element` is in the tree, or else at the end of `previous`.
    fn append_based_on_parent_node(&self, element: &NodeId, previous: &NodeId, child: NodeOrText<NodeId>) {
        if self.dom.borrow().parent(*element).is_some() {
            self.append_before_sibling(element, child);
        } else {
            self.append(previous, child);
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    /// Templates are not rendered: their content stays below `target`, which the converter drops.
    fn get_template_contents(&self, target: &NodeId) -> NodeId {
        *target
    }

    fn same_node(&self, a: &NodeId, b: &NodeId) -> bool {
        a == b
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    /// Adds attributes that the element does not have. Drops those beyond [`MAX_ATTRIBUTES`].
    fn add_attrs_if_missing(&self, target: &NodeId, attributes: Vec<Attribute>) {
        let mut dom = self.dom.borrow_mut();
        if let Data::Element(element) = &mut dom.node_mut(*target).data {
            for attribute in attributes {
                let is_new = element.attributes.iter().all(|a| a.name != attribute.name);
                if is_new && element.attributes.len() < MAX_ATTRIBUTES {
                    element.attributes.push(attribute);
                }
            }
        }
        dom.note_attributes(*target);
    }

    fn remove_from_parent(&self, target: &NodeId) {
        self.dom.borrow_mut().detach(*target);
    }

    /// Moves all children of `node` to the end of the children of `new_parent`.
    fn reparent_children(&self, node: &NodeId, new_parent: &NodeId) {
        let mut dom = self.dom.borrow_mut();
        while let Some(child) = dom.node(*node).first {
            dom.append(*new_parent, child);
        }
    }
}

/// Void elements, which never have content.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
];

/// Detaches the nodes deeper than [`MAX_TREE_DEPTH`], and sets [`Dom::is_truncated`] if there are any.
pub(super) fn detach_deep_nodes(dom: &mut Dom) {
    let (mut id, mut depth) = (DOCUMENT, 0);
    loop {
        if let Some(first) = dom.node(id).first {
            if depth < MAX_TREE_DEPTH {
                (id, depth) = (first, depth + 1);
                continue;
            }
            dom.detach_children(id);
            dom.is_truncated = true;
        }
        id = loop {
            if let Some(next) = dom.node(id).next {
                break next;
            }
            let Some(parent) = dom.parent(id) else { return };
            (id, depth) = (parent, depth - 1);
        };
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn depth(dom: &Dom) -> usize {
        dom.descendants(DOCUMENT).map(|id| dom.ancestors(id).count()).max().unwrap_or(0)
    }

    #[test]
    fn builds_the_tree_of_the_standard() {
        use Tag::{Body, Head, Html, P, Table, Tbody, Td, Text, Tr};
        let dom = parse("<p>one<p>two<table><tr><td>cell</table>");
        let tags: Vec<_> = dom.descendants(DOCUMENT).map(|id| dom.tag(id)).collect();
        assert_eq!(tags, [Html, Head, Body, P, Text, P, Text, Table, Tbody, Tr, Td, Text]);
    }

    #[test]
    fn limits_the_depth_of_nested_elements() {
        for tag in ["div", "b", "ul><li", "table><tr><td", "blockquote", "svg", "a"] {
            let dom = parse(&format!("<{tag}>").repeat(20_000));
            assert!(depth(&dom) <= MAX_TREE_DEPTH + 2, "{tag}: {}", depth(&dom));
        }
    }

    #[test]
    fn sibling_elements_do_not_count_as_depth() {
        let dom = parse(&"<p><b>x</b><br><img></p><ul><li>y</ul>".repeat(2000));
        assert!(!dom.is_truncated);
        assert_eq!(dom.text_content(DOCUMENT).len(), 4000);
    }

    #[test]
    fn drops_excess_attributes_of_a_tag() {
        let many: String = (0..1000).map(|i| format!(" a{i}=\"b > c\"")).collect();
        let html = format!("<p{many}>text</p><p class=x>more");
        let dom = parse(&html);
        assert_eq!(dom.text_content(DOCUMENT), "textmore");
        let p = dom.find(DOCUMENT, Tag::P).expect("a paragraph");
        assert_eq!(dom.element(p).expect("an element").attributes.len(), MAX_ATTRIBUTES);
    }

    #[test]
    fn only_attributes_are_dropped() {
        let words: String = (0..1000).map(|i| format!(" w{i}")).collect();
        for before in [
            format!("<script>if(a<b){{{words}}}</script>"),
            format!("<script type=application/ld+json>{{\"text\":\"a <b ='{words}\"}}</script>"),
            format!("<SCRIPT><!-- <script> a<b{words} </script x> a</b{words} --></script>"),
            format!("<!-- a<b{words} -->"),
            format!("<style>a<b{words}</style {words}>"),
            format!("<textarea><b{words}</textarea>"),
            format!("<script><!-- <script> document.write('</script{words}')</script>"),
            format!("<script><!--<script></script a=\"></script><p title='\">{words}'>"),
            format!("<svg><desc><![CDATA[<b{words}]]></desc></svg>"),
            format!("<p title = '<b{words}>'></p{words}>"),
        ] {
            let html = format!("{before}<p{words}>text");
            let tree = tree_of_parser(&html);
            assert_eq!(tree, tree_of_html5ever(&html), "{html}");
            assert!(tree.contains("w199= text"), "{html}");
        }
    }

    /// The tree of a page. Checks that no element has more than the maximum number of attributes.
    fn tree_of_parser(html: &str) -> String {
        let dom = parse(html);
        let elements = || dom.descendants(DOCUMENT).filter_map(|id| dom.element(id));
        assert!(elements().all(|element| element.attributes.len() <= MAX_ATTRIBUTES), "{html}");
        tree(&dom)
    }

    /// The tree of a page that html5ever reads alone and at once.
    fn tree_of_html5ever(html: &str) -> String {
        let tokenizer = tokenizer(html.len());
        let input = BufferQueue::default();
        input.push_back(StrTendril::from_slice(html.strip_prefix('\u{feff}').unwrap_or(html)));
        while !input.is_empty() {
            let _ = tokenizer.feed(&input);
        }
        tree(&finish(tokenizer))
    }

    /// The elements, comments and texts of a tree, each element with its first [`MAX_ATTRIBUTES`] attributes.
    fn tree(dom: &Dom) -> String {
        let mut out = String::new();
        for id in dom.descendants(DOCUMENT) {
            match &dom.node(id).data {
                Data::Element(element) => {
                    let attributes = element.attributes.iter().take(MAX_ATTRIBUTES);
                    let attributes = attributes.map(|a| format!("{}={} ", a.name.local, a.value));
                    let attributes: String = attributes.collect();
                    let level = dom.ancestors(id).count();
                    write!(out, "<{level} {} {attributes}", element.name.local).expect("a string");
                }
                Data::Comment(text) => write!(out, "<!--{text}-->").expect("a string"),
                _ => out.push_str(&dom.text_content(id)),
            }
        }
        out
    }

    /// The parts of random pages.
    const PARTS: [&str; 68] = [
        "<",
        ">",
        "</",
        "/>",
        "/",
        "<!--",
        "-->",
        "--!>",
        "<!",
        "<?",
        "-",
        "=",
        "\"",
        "'",
        " ",
        "\n",
        "a",
        "B",
        "<p",
        "<a",
        "</p",
        "<script",
        "</script",
        "<script>",
        "</script>",
        "<style>",
        "</style>",
        "<svg>",
        "</svg>",
        "<title>",
        "</title>",
        "<textarea",
        "</textarea>",
        "<![CDATA[",
        "]]>",
        "<math>",
        "<desc>",
        "<select>",
        "<table>",
        "<plaintext>",
        "<xmp>",
        "</xmp>",
        "<noscript>",
        "<iframe>",
        "</iframe>",
        "é",
        "&lt;",
        "&amp",
        "&amp;",
        "&nbsp;",
        "&#x4A;",
        "&#129;",
        "&#39",
        "&notit;",
        "&",
        ";",
        "<a href='b&#38;c&",
        "\0",
        "\r",
        "\u{feff}",
        "</plaintext>",
        "<BR/>",
        "<g id=a/>",
        "<i C='d' c=e>",
        "<a É=1 <b>",
        "</I j=k/>",
        "<pre>",
        "<input =\"x\"=y>",
    ];

    #[test]
    fn random_markup_loses_only_attributes() {
        let mut seed = 1_u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).expect("31 bits") % below
        };
        let words: String = (0..MAX_ATTRIBUTES + 20).map(|i| format!(" w{i}=v{i}")).collect();
        for _ in 0..20_000 {
            let mut html = ["", "", "<script>", "<script><!--<script>"][next(4)].to_owned();
            for _ in 0..next(14) {
                html.push_str(PARTS[next(PARTS.len())]);
                if next(6) == 0 {
                    html.push_str(&words);
                }
            }
            assert_eq!(tree_of_parser(&html), tree_of_html5ever(&html), "{html}");
        }
    }

    #[test]
    fn repeated_formatting_cannot_multiply_nodes() {
        let html: String =
            (0..300).map(|i| format!("<b id={i}>")).collect::<String>() + &"<p>x".repeat(100_000);
        let dom = parse(&html);
        assert!(dom.node_count() < MAX_NODES + 1000);
        let html: String = (0..1000).map(|i| format!("<p><b id={i}></p>")).collect();
        let dom = parse(&html);
        assert!(dom.is_truncated && dom.node_count() < MAX_NODES_PER_BYTE * html.len() + 1000);
    }
}
