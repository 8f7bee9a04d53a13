//! Converts the tree of a page to Markdown blocks.

use super::account::Rule;
use super::block::{Block, Item, List};
use super::code;
use super::dom::{Dom, NodeId, Tag, clip, collapse, valid};
use super::footnotes::Footnotes;
use super::inline::{Emphasis, Inline};
use super::math;
use super::media;
use super::notices::{self, Tabs};
use super::scan::{Kind, Parts};
use super::table;
use super::writer::needs_blank_line;
use std::cell::Cell;
use url::Url;

/// Converts the tree of one page. The recursion is bounded, because the parser limits the depth of the tree.
pub(super) struct Converter<'a> {
    dom: &'a Dom,
    /// The base URL for relative links.
    base: Option<Url>,
    /// For each node, whether it contains block elements.
    has_blocks: Vec<bool>,
    pub(super) footnotes: Footnotes,
    tabs: Tabs,
    /// The title of the admonition that is being converted; it has been written already.
    skipped: Cell<Option<NodeId>>,
    mode: Mode,
}

#[derive(Clone, Copy)]
pub(super) struct Mode {
    /// Whether to keep elements without a visible effect: empty ones, and emphasis inside emphasis of the
    /// same kind.
    pub(super) is_exact: bool,
    /// Whether to leave out the buttons of a page.
    pub(super) is_article: bool,
    /// Whether a script on the page renders TeX in text as formulas.
    pub(super) has_math: bool,
}

impl<'a> Converter<'a> {
    pub(super) fn new(
        dom: &'a Dom,
        root: NodeId,
        base: Option<Url>,
        footnotes: Footnotes,
        mode: Mode,
    ) -> Self {
        let mut has_blocks = vec![false; dom.nodes.len()];
        let roots =
            std::iter::once(root).chain(footnotes.definitions.iter().flat_map(|d| d.nodes.iter().copied()));
        for root in roots {
            for id in dom.descendants(root) {
                if is_block_element(dom, id) {
                    for ancestor in dom.ancestors(id).skip(1) {
                        if std::mem::replace(&mut has_blocks[ancestor as usize], true) {
                            break;
                        }
                    }
                }
            }
        }
        let tabs = notices::find_labelled_panels(dom, root);
        tabs.tabs.iter().for_each(|&tab| dom.skip(tab, Rule::Tab));
        Self { dom, base, has_blocks, footnotes, tabs, skipped: Cell::new(None), mode }
    }

    /// Converts `root` and the footnotes of the page to blocks.
    pub(super) fn convert_document(&self, root: NodeId) -> Vec<Block> {
        let mut out = Vec::new();
        if code::is_code_block(self.dom, root) || matches!(self.dom.tag(root), Tag::Table | Tag::Ul | Tag::Ol)
        {
            self.append_block(root, &mut out);
        } else {
            self.append_children(root, &mut out);
        }
        for definition in &self.footnotes.definitions {
            let mut blocks = Vec::new();
            self.append_blocks_of(definition.nodes.iter().copied(), &mut blocks);
            out.push(Block::Footnote { label: definition.label.clone(), blocks });
        }
        out
    }

    fn resolve(&self, link: &str) -> Option<String> {
        media::resolve_link(self.base.as_ref(), link)
    }

    /// Appends the blocks of a node. Inline content becomes paragraphs.
    fn append_node(&self, id: NodeId, out: &mut Vec<Block>) {
        if is_block_element(self.dom, id) || self.has_blocks[id as usize] {
            return self.append_block(id, out);
        }
        let mut inline = Inline::default();
        self.write_inline(id, &mut inline);
        out.extend(inline.finish().into_iter().map(Block::Paragraph));
    }

    pub(super) fn append_children(&self, parent: NodeId, out: &mut Vec<Block>) {
        self.append_blocks_of(self.dom.children(parent), out);
    }

    /// Appends the blocks of sibling nodes. Inline content between blocks becomes paragraphs.
    fn append_blocks_of(&self, children: impl Iterator<Item = NodeId>, out: &mut Vec<Block>) {
        let mut inline = Inline::default();
        for child in children.filter(|&child| self.skipped.get() != Some(child)) {
            let is_block = is_block_element(self.dom, child) || self.has_blocks[child as usize];
            let display =
                if is_block { None } else { math::read_formula(self.dom, child).filter(|f| f.is_display) };
            if !is_block && display.is_none() {
                self.write_inline(child, &mut inline);
                continue;
            }
            out.extend(std::mem::take(&mut inline).finish().into_iter().map(math::paragraph_or_formula));
            match display {
                Some(formula) => {
                    self.dom.skip(child, Rule::Formula);
                    out.extend((!formula.tex.is_empty()).then_some(Block::Math(formula.tex)));
                }
                None => self.append_block(child, out),
            }
        }
        out.extend(inline.finish().into_iter().map(math::paragraph_or_formula));
    }

    /// Appends the blocks for a block element. Elements that are not displayed produce no blocks.
    fn append_block(&self, id: NodeId, out: &mut Vec<Block>) {
        let dom = self.dom;
        if code::is_code_block(dom, id) {
            let text = code::code_text(dom, id);
            if !text.is_empty() || self.mode.is_exact {
                out.push(Block::Code { language: code::language(dom, id), text });
            }
            return;
        }
        if let Some(notice) = notices::find_notice(dom, id) {
            let mut blocks = Vec::new();
            if let Some(title) = notice.title_node.filter(|_| notice.has_own_title) {
                let mut inline = Inline::default();
                self.write_emphasis(title, Emphasis::Strong, &mut inline);
                blocks.push(Block::Paragraph(inline.finish_line()));
            }
            for dropped in notice.title_node.filter(|_| !notice.has_own_title).into_iter().chain(notice.icon)
            {
                dom.skip(dropped, Rule::AlertTitle);
            }
            let outer = self.skipped.replace(notice.title_node);
            for &body in &notice.bodies {
                self.append_children(body, &mut blocks);
            }
            self.skipped.set(outer);
            if !blocks.is_empty() {
                out.push(Block::Alert { kind: notice.kind, blocks });
            }
            return;
        }
        if let Some(formula) = math::read_formula(dom, id) {
            dom.skip(id, Rule::Formula);
            out.extend((!formula.tex.is_empty()).then_some(Block::Math(formula.tex)));
            return;
        }
        if self.tabs.tabs.contains(&id) {
            return;
        }
        if let Some(label) = self.tabs.labels.get(&id) {
            out.push(Block::Paragraph(Inline::strong(label)));
        }
        match dom.tag(id) {
            _ if heading_level(dom, id).is_some() => self.append_heading(id, out),
            Tag::Blockquote => {
                let mut blocks = Vec::new();
                self.append_children(id, &mut blocks);
                if !blocks.is_empty() || self.mode.is_exact {
                    out.push(Block::Quote(blocks));
                }
            }
            Tag::Ul | Tag::Ol | Tag::Menu => self.append_list(id, out),
            Tag::Dl => self.append_definition_list(id, out),
            Tag::Table => table::append_table(dom, id, self, out),
            Tag::Hr => out.push(Block::Rule),
            Tag::Details => self.append_details(id, out),
            Tag::A => self.append_linked_blocks(id, out),
            Tag::Svg => {
                let mut inline = Inline::default();
                self.write_drawing(id, &mut inline);
                out.extend(inline.finish().into_iter().map(Block::Paragraph));
            }
            tag if is_without_text(tag) => dom.skip(id, Rule::Control),
            _ => self.append_children(id, out),
        }
    }

    fn append_heading(&self, id: NodeId, out: &mut Vec<Block>) {
        let level = heading_level(self.dom, id).unwrap_or(6);
        let mut inline = Inline::default();
        // mdBook and others wrap the text of a heading in a link to the heading. Convert only the link's
        // content.
        let whole = self.dom.collapsed_text(id);
        let own = self.dom.child_elements(id).find(|&c| notices::is_self_link(self.dom, c, &whole));
        for child in self.dom.children(own.unwrap_or(id)) {
            if notices::is_permalink(self.dom, child) {
                self.dom.skip(child, Rule::Permalink);
            } else {
                self.write_inline(child, &mut inline);
            }
        }
        let text = inline.finish_line();
        if !text.is_empty() || self.mode.is_exact {
            out.push(Block::Heading { level, text });
        }
    }

    fn append_list(&self, id: NodeId, out: &mut Vec<Block>) {
        let dom = self.dom;
        let start = (dom.tag(id) == Tag::Ol).then(|| number_attribute(dom, id, "start").unwrap_or(1));
        let mut list = List { start, is_loose: false, items: Vec::new() };
        // The items before one whose number does not follow are a list of their own.
        let mut lists: Vec<List> = Vec::new();
        let children = self.children_through_wrappers(id, &[Tag::Li]);
        // A reversed list counts down to 1, or from its start.
        let mut reversed = dom.has_attribute(id, "reversed").then(|| {
            let count = children.iter().filter(|&&child| dom.tag(child) == Tag::Li).count();
            number_attribute(dom, id, "start").unwrap_or_else(|| u32::try_from(count).unwrap_or(u32::MAX))
        });
        for child in children.into_iter().filter(|child| !self.tabs.tabs.contains(child)) {
            if dom.tag(child) == Tag::Li {
                let mut blocks = Vec::new();
                self.append_children(child, &mut blocks);
                let next =
                    list.start.and_then(|start| start.checked_add(u32::try_from(list.items.len()).ok()?));
                let value = number_attribute(dom, child, "value").or(reversed);
                reversed = reversed.and_then(|_| value?.checked_sub(1));
                let value = value.filter(|&value| next.is_some_and(|next| next != value));
                if value.is_some() {
                    let following = List { start: value, is_loose: list.is_loose, items: Vec::new() };
                    let before = std::mem::replace(&mut list, following);
                    lists.extend((!before.items.is_empty()).then_some(before));
                }
                list.is_loose |= dom.child_elements(child).any(|c| dom.tag(c) == Tag::P);
                let checked = self.checkbox_state(child);
                if !blocks.is_empty()
                    || self.mode.is_exact
                    || checked.is_some()
                    || dom.is_blank(child) && dom.next_element(child).is_some()
                {
                    list.items.push(Item { checked, blocks });
                }
                continue;
            }
            let mut blocks = Vec::new();
            self.append_node(child, &mut blocks);
            match list.items.last_mut() {
                Some(item) => item.blocks.append(&mut blocks),
                None => out.append(&mut blocks),
            }
        }
        lists.push(list);
        lists.retain(|list| list.items.iter().any(|i| self.mode.is_exact || !i.blocks.is_empty()));
        for mut list in lists {
            // Markdown reads a list with a blank line in an item as a loose one.
            let has_blank =
                |item: &Item| item.blocks.windows(2).any(|pair| needs_blank_line(&pair[0], &pair[1]));
            list.is_loose |= list.items.iter().any(has_blank);
            out.push(Block::List(list));
        }
    }

    /// The children of an element. An element around children with one of the tags, which a browser lays out
    /// as if it were not there, is replaced by its own children.
    fn children_through_wrappers(&self, parent: NodeId, tags: &[Tag]) -> Vec<NodeId> {
        let dom = self.dom;
        let is_wrapper = |id: NodeId| {
            use Tag::{A, B, Code, Div, Em, I, Other, Small, Span, Strong};
            matches!(dom.tag(id), A | B | Code | Div | Em | I | Other | Small | Span | Strong)
        };
        let mut children = Vec::new();
        for child in dom.children(parent) {
            let has_item = || dom.child_elements(child).any(|c| tags.contains(&dom.tag(c)));
            if is_wrapper(child) && has_item() {
                children.extend(self.children_through_wrappers(child, tags));
            } else {
                children.push(child);
            }
        }
        children
    }

    /// Whether the checkbox at the beginning of a list item is checked; `None` if the item has no checkbox.
    fn checkbox_state(&self, item: NodeId) -> Option<bool> {
        let dom = self.dom;
        let mut next = dom.following(item, item, false);
        while let Some(id) = next {
            match dom.tag(id) {
                Tag::Input if dom.attribute(id, "type") == Some("checkbox") => {
                    return Some(dom.has_attribute(id, "checked"));
                }
                // The icons of Asciidoctor.
                Tag::I if dom.has_class(id, "fa-check-square-o") => return Some(true),
                Tag::I if dom.has_class(id, "fa-square-o") => return Some(false),
                Tag::Text if dom.text(id).is_some_and(|t| !t.trim().is_empty()) => return None,
                Tag::Ul | Tag::Ol => return None,
                _ => next = dom.following(id, item, false),
            }
        }
        None
    }

    /// Appends the terms and explanations of a `<dl>` as paragraphs, because GitHub Flavored Markdown has no
    /// definition lists.
    fn append_definition_list(&self, id: NodeId, out: &mut Vec<Block>) {
        let dom = self.dom;
        for child in self.children_through_wrappers(id, &[Tag::Dt, Tag::Dd]) {
            if dom.tag(child) == Tag::Dt && !self.has_blocks[child as usize] {
                let mut inline = Inline::default();
                self.write_inline_children(child, &mut inline);
                let term = inline.finish_line();
                out.extend((!term.is_empty()).then_some(Block::Paragraph(term)));
            } else {
                self.append_node(child, out);
            }
        }
    }

    /// Appends a `<details>` element as HTML tags with Markdown blocks between them.
    fn append_details(&self, id: NodeId, out: &mut Vec<Block>) {
        let dom = self.dom;
        let summary = dom.child_elements(id).find(|&c| dom.tag(c) == Tag::Summary);
        let mut blocks = Vec::new();
        self.append_blocks_of(dom.children(id).filter(|c| Some(*c) != summary), &mut blocks);
        // Markdown inside a block of HTML is not parsed.
        let title = summary.map(|summary| collapse(&self.inline_html(summary))).unwrap_or_default();
        if blocks.is_empty() && title.is_empty() {
            return;
        }
        let title = if title.is_empty() { "Details".to_owned() } else { title };
        out.push(Block::Html(format!("<details>\n<summary>{title}</summary>")));
        out.append(&mut blocks);
        out.push(Block::Html("</details>".to_owned()));
    }

    /// The inline content of an element as HTML.
    fn inline_html(&self, id: NodeId) -> String {
        let dom = self.dom;
        let mut out = String::new();
        for child in dom.children(id) {
            if let Some(text) = dom.text(child) {
                out.push_str(&escape_html(text));
                continue;
            }
            if let Some(formula) = math::read_formula(dom, child) {
                dom.skip(child, Rule::Formula);
                out.push_str(&escape_html(&format!("${}$", formula.tex)));
                continue;
            }
            let inner = self.inline_html(child);
            let name = match dom.tag(child) {
                Tag::Strong | Tag::B => "strong",
                Tag::Em | Tag::I => "em",
                Tag::Del | Tag::S | Tag::Strike => "del",
                Tag::Code | Tag::Samp | Tag::Tt => "code",
                Tag::Kbd => "kbd",
                Tag::Sub => "sub",
                Tag::Sup => "sup",
                Tag::Mark => "mark",
                Tag::Br => {
                    out.push_str("<br>");
                    continue;
                }
                Tag::A => {
                    match dom.attribute(child, "href").and_then(|href| self.resolve(href)) {
                        Some(to) if !inner.trim().is_empty() => {
                            out.push_str(&format!("<a href=\"{}\">{inner}</a>", escape_html(&to)));
                        }
                        _ => out.push_str(&inner),
                    }
                    continue;
                }
                Tag::Img => {
                    let alt = dom.attribute(child, "alt").unwrap_or_default();
                    if let Some(source) = dom.attribute(child, "src").and_then(|source| self.resolve(source))
                    {
                        out.push_str(&format!(
                            "<img src=\"{}\" alt=\"{}\">",
                            escape_html(&source),
                            escape_html(alt)
                        ));
                    }
                    continue;
                }
                tag if is_without_text(tag) => {
                    dom.skip(child, Rule::Control);
                    continue;
                }
                // Headings stay headings.
                Tag::H1 | Tag::H2 | Tag::H3 | Tag::H4 | Tag::H5 | Tag::H6 if !inner.trim().is_empty() => {
                    let level = dom.tag(child).heading_level().unwrap_or(6);
                    out.push_str(&format!("<h{level}>{}</h{level}>", inner.trim()));
                    continue;
                }
                tag => {
                    let gap = if tag.is_block() { " " } else { "" };
                    out.push_str(&format!("{gap}{inner}{gap}"));
                    continue;
                }
            };
            if !inner.trim().is_empty() {
                out.push_str(&format!("<{name}>{inner}</{name}>"));
            }
        }
        out
    }

    /// Appends the blocks inside an `<a>`. The first heading, or else the first paragraph, becomes the link.
    fn append_linked_blocks(&self, id: NodeId, out: &mut Vec<Block>) {
        let mut blocks = Vec::new();
        self.append_children(id, &mut blocks);
        let destination = self.dom.attribute(id, "href").and_then(|href| self.resolve(href));
        if let Some(destination) = destination.filter(|d| !d.starts_with('#')) {
            let at = blocks
                .iter()
                .position(|b| matches!(b, Block::Heading { .. }))
                .or_else(|| blocks.iter().position(|b| matches!(b, Block::Paragraph(_))));
            if let Some(Block::Heading { text, .. } | Block::Paragraph(text)) = at.map(|at| &mut blocks[at])
                && !Parts::new(text).any(|(kind, _)| kind == Kind::Destination)
            {
                *text = format!("[{}]({})", escape_brackets(&text.replace('\n', " ")), destination);
            }
        }
        out.append(&mut blocks);
    }

    /// Converts the content of a table cell to one line of inline Markdown.
    pub(super) fn cell_line(&self, id: NodeId) -> String {
        let mut inline = Inline::for_cell();
        self.write_inline_children(id, &mut inline);
        inline.finish().join("\n").replace('\n', "<br>")
    }

    fn write_inline_children(&self, id: NodeId, out: &mut Inline) {
        for child in self.dom.children(id) {
            self.write_inline(child, out);
        }
    }

    fn write_inline(&self, id: NodeId, out: &mut Inline) {
        let dom = self.dom;
        let tag = dom.tag(id);
        if tag == Tag::Text {
            let text = dom.text(id).unwrap_or_default();
            return if self.mode.has_math {
                math::add_text_with_formulas(text, out);
            } else {
                out.add_text(text);
            };
        }
        if self.tabs.tabs.contains(&id) || self.skipped.get() == Some(id) {
            return;
        }
        if let Some(label) = self.footnotes.references.get(&id) {
            dom.skip(id, Rule::FootnoteMark);
            return out.add_markdown(&format!("[^{label}]"));
        }
        if let Some(formula) = math::read_formula(dom, id) {
            dom.skip(id, Rule::Formula);
            if !formula.tex.is_empty() {
                let tex = if out.is_cell { formula.tex.replace('|', "\\|") } else { formula.tex };
                let tex = tex.replace('\n', " ");
                out.add_markdown(&if formula.is_display { format!("$${tex}$$") } else { format!("${tex}$") });
            }
            return;
        }
        match tag {
            Tag::Br => out.add_line_break(),
            Tag::Strong | Tag::B if !is_plain_weight(dom, id) => {
                self.write_emphasis(id, Emphasis::Strong, out);
            }
            Tag::Em | Tag::I => self.write_emphasis(id, Emphasis::Regular, out),
            Tag::Del | Tag::S | Tag::Strike => self.write_emphasis(id, Emphasis::Deleted, out),
            Tag::Code | Tag::Samp | Tag::Tt => self.write_code_span(id, out),
            Tag::Kbd => self.write_tagged(id, "kbd", out),
            Tag::Sub => self.write_tagged(id, "sub", out),
            Tag::Sup => self.write_tagged(id, "sup", out),
            Tag::Mark => self.write_tagged(id, "mark", out),
            Tag::Q => {
                out.add_text("\u{201c}");
                self.write_inline_children(id, out);
                out.add_text("\u{201d}");
            }
            Tag::A => self.write_link(id, out),
            Tag::Img => media::add_image(dom, self.base.as_ref(), id, out),
            Tag::Video | Tag::Audio | Tag::Iframe | Tag::Embed | Tag::Object => {
                dom.skip(id, Rule::Fallback);
                media::add_embedded(dom, self.base.as_ref(), id, out);
            }
            Tag::Button => {
                // The text of a button inside a heading or paragraph is part of it, as in an accordion.
                let is_text = |p| dom.tag(p) == Tag::P || dom.tag(p).heading_level().is_some();
                if !self.mode.is_article || dom.ancestors(id).skip(1).take(3).any(is_text) {
                    out.add_space();
                    self.write_inline_children(id, out);
                    out.add_space();
                } else {
                    dom.skip(id, Rule::Article);
                }
            }
            Tag::Svg => self.write_drawing(id, out),
            Tag::Rp => dom.skip(id, Rule::Control),
            Tag::Rt => {
                out.add_text("(");
                self.write_inline_children(id, out);
                out.add_text(")");
            }
            _ if is_without_text(tag) => dom.skip(id, Rule::Control),
            Tag::Ol if out.is_cell => self.write_numbered_lines(id, out),
            _ if out.is_cell && code::is_code_block(dom, id) => {
                out.add_block_boundary();
                for (at, line) in code::code_text(dom, id).lines().enumerate() {
                    if at > 0 {
                        out.add_line_break();
                    }
                    Self::write_code_line(line, None, out);
                }
                out.add_block_boundary();
            }
            _ if tag.is_block() || is_styled_as_block(dom, id) => {
                out.add_block_boundary();
                self.write_inline_children(id, out);
                out.add_block_boundary();
            }
            _ => {
                if needs_space_before(dom, id) {
                    out.add_space();
                }
                self.write_inline_children(id, out);
            }
        }
    }

    /// Writes a numbered list in a table cell as lines that begin with their numbers.
    fn write_numbered_lines(&self, list: NodeId, out: &mut Inline) {
        let mut next = number_attribute(self.dom, list, "start").unwrap_or(1);
        for child in self.dom.children(list) {
            out.add_block_boundary();
            if self.dom.tag(child) != Tag::Li {
                self.write_inline(child, out);
                continue;
            }
            let number = number_attribute(self.dom, child, "value").unwrap_or(next);
            next = number.saturating_add(1);
            out.add_number(number);
            self.write_inline_children(child, out);
        }
        out.add_block_boundary();
    }

    /// Writes the text that a drawing shows, such as the labels of a diagram.
    fn write_drawing(&self, id: NodeId, out: &mut Inline) {
        let dom = self.dom;
        for child in dom.child_elements(id) {
            match dom.element(child).map_or("", |element| &*element.name.local) {
                "g" | "a" | "svg" | "switch" => self.write_drawing(child, out),
                "text" | "foreignObject" => {
                    out.add_space();
                    for part in dom.children(child) {
                        self.write_inline(part, out);
                        out.add_space();
                    }
                }
                _ => dom.skip(child, Rule::Control),
            }
        }
    }

    fn write_emphasis(&self, id: NodeId, emphasis: Emphasis, out: &mut Inline) {
        out.open_emphasis(emphasis, self.mode.is_exact);
        self.write_inline_children(id, out);
        out.close();
    }

    fn write_tagged(&self, id: NodeId, tag: &'static str, out: &mut Inline) {
        out.open_tag(tag);
        self.write_inline_children(id, out);
        out.close();
    }

    fn write_link(&self, id: NodeId, out: &mut Inline) {
        let dom = self.dom;
        let empty = || (self.mode.is_exact && dom.attribute(id, "href") == Some("")).then(String::new);
        let destination = dom.attribute(id, "href").and_then(|href| self.resolve(href)).or_else(empty);
        let Some(destination) = destination else {
            return self.write_inline_children(id, out);
        };
        if dom.ancestors(id).take(8).any(|a| dom.tag(a).heading_level().is_some())
            && destination.starts_with('#')
        {
            return self.write_inline_children(id, out);
        }
        if needs_space_before(dom, id) {
            out.add_space();
        }
        if let Some(address) = media::bare_address(dom, id).filter(|address| out.may_start_address(address)) {
            return out.add_text(&address);
        }
        out.open_link(format!("]({destination}{})", media::quoted_title(dom, id)));
        self.write_inline_children(id, out);
        out.close();
    }

    fn write_code_span(&self, id: NodeId, out: &mut Inline) {
        let dom = self.dom;
        // A Markdown code span cannot contain links, so links divide the code.
        let is_link = |d| {
            dom.tag(d) == Tag::A && dom.attribute(d, "href").and_then(|href| self.resolve(href)).is_some()
        };
        if !out.is_in_link() && dom.descendants(id).any(is_link) {
            return self.write_linked_code(id, out);
        }
        // A code span cannot contain line breaks either.
        let mut lines = vec![String::new()];
        for child in dom.descendants(id) {
            match (dom.tag(child), dom.text(child), lines.last_mut()) {
                (Tag::Br, ..) => lines.push(String::new()),
                (_, Some(text), Some(last)) => last.push_str(&text.replace(['\n', '\r', '\t'], " ")),
                _ => {}
            }
        }
        if let [line] = &*lines {
            return Self::write_code_line(line, None, out);
        }
        for (at, line) in lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).enumerate() {
            if at > 0 {
                out.add_line_break();
            }
            Self::write_code_line(line, None, out);
        }
    }

    /// Writes the code below an element as code spans, those in links inside Markdown links.
    fn write_linked_code(&self, parent: NodeId, out: &mut Inline) {
        let dom = self.dom;
        let code = |text: &str| text.replace(['\n', '\r', '\t'], " ");
        for child in dom.children(parent) {
            match (dom.tag(child), dom.text(child)) {
                (Tag::Br, _) => out.add_line_break(),
                (_, Some(text)) if text.trim().is_empty() => out.add_text(text),
                (_, Some(text)) => Self::write_code_line(&code(text), None, out),
                (Tag::A, _) => {
                    let destination = dom.attribute(child, "href").and_then(|href| self.resolve(href));
                    Self::write_code_line(&code(&dom.text_content(child)), destination, out);
                }
                _ => self.write_linked_code(child, out),
            }
        }
    }

    fn write_code_line(text: &str, destination: Option<String>, out: &mut Inline) {
        if text.is_empty() {
            return;
        }
        let text = if out.is_cell { text.replace('|', "\\|") } else { text.to_owned() };
        let has_link = destination.is_some();
        if let Some(destination) = destination {
            out.open_link(format!("]({destination})"));
        }
        out.add_code(&text);
        if has_link {
            out.close();
        }
    }
}

/// Escapes the brackets in inline Markdown that becomes the text of a link, except those of code and images.
fn escape_brackets(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4);
    for (kind, part) in Parts::new(text) {
        if matches!(kind, Kind::Open | Kind::Close) {
            out.push('\\');
        }
        out.push_str(part);
    }
    out
}

/// Escapes text for HTML, in content and in quoted attributes.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Whether an element is converted to blocks instead of inline Markdown.
fn is_block_element(dom: &Dom, id: NodeId) -> bool {
    dom.tag(id).is_block()
        || matches!(dom.tag(id), Tag::Div | Tag::Code) && code::is_code_block(dom, id)
        || dom.tag(id) == Tag::Span && dom.attribute(id, "data-as") == Some("p")
}

/// Whether elements with this tag are dropped with their content: form controls, drawings and scripts.
#[rustfmt::skip]
fn is_without_text(tag: Tag) -> bool {
    use Tag::{Canvas, Head, Ignored, Input, Noscript, Optgroup, Option, Script, Select, Style, Svg, Template, Textarea};
    matches!(tag, Canvas | Head | Ignored | Input | Noscript | Optgroup | Option | Script | Select | Style | Svg
        | Template | Textarea)
}

fn number_attribute(dom: &Dom, id: NodeId, name: &str) -> Option<u32> {
    dom.attribute(id, name)?.trim().parse().ok()
}

/// The level of a heading, 1 to 6, by its tag or its role; `None` for other elements.
fn heading_level(dom: &Dom, id: NodeId) -> Option<u8> {
    let by_role = || {
        dom.attribute(id, "role").filter(|role| *role == "heading")?;
        // WAI-ARIA §6.6: the level is 2 by default.
        let level = dom.attribute(id, "aria-level").and_then(|level| level.trim().parse().ok());
        Some(level.unwrap_or(2_u8).clamp(1, 6))
    };
    dom.tag(id).heading_level().or_else(by_role)
}

/// Whether a style makes an inline element a block.
fn is_styled_as_block(dom: &Dom, id: NodeId) -> bool {
    dom.tag(id) == Tag::Span
        && dom.attribute(id, "style").is_some_and(|style| {
            let mut rules = clip(style, 500).split(';').filter_map(|rule| rule.split_once(':'));
            rules.any(|(name, value)| {
                name.trim() == "display" && matches!(value.trim(), "block" | "flex" | "grid")
            })
        })
}

/// Whether the element's style turns bold off, as in text pasted from Google Docs.
fn is_plain_weight(dom: &Dom, id: NodeId) -> bool {
    dom.attribute(id, "style").is_some_and(|s| s.replace(' ', "").contains("font-weight:normal"))
}

/// Whether the page's layout separates the element from the one before it, although the HTML has no white
/// space between them.
fn needs_space_before(dom: &Dom, id: NodeId) -> bool {
    let is_item =
        |id: NodeId| matches!(dom.tag(id), Tag::Span | Tag::A | Tag::Time | Tag::Small | Tag::Label);
    let node = dom.node(id);
    let in_layout =
        valid(node.parent).is_some_and(|p| matches!(dom.tag(p), Tag::Div | Tag::Header | Tag::Footer));
    in_layout
        && is_item(id)
        && dom.has_attribute(id, "class")
        && valid(node.previous).is_some_and(|p| is_item(p) && dom.has_attribute(p, "class"))
}
