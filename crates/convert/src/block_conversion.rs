//! Converts the tree of a page to Markdown blocks.

use super::check_marks::drawn_checkbox;
use super::code;
use super::documentation_markup;
use super::dom::{Dom, NodeId, Tag, collapse};
use super::inline::{Emphasis, Inline};
use super::inline_markdown_tokenizer::{Kind, Parts};
use super::links;
use super::list_numbers::{ItemNumbers, number_attribute};
use super::main_content::leads_around;
use super::markdown_block::{Block, Item, List};
use super::markdown_cleanup;
use super::math::{self, Formula};
use super::media;
use super::omission_reason::Rule;
use super::phrasing::{Converter, component_title, is_without_text};
use super::table::{self, Table};
use super::writer::needs_blank_line;

/// Maximum number of blocks in a card. A longer element is not linked as a whole.
const MAX_CARD_BLOCKS: usize = 6;

impl Converter<'_> {
    /// Converts the children of `root` to blocks, or `root` itself if it is code, a table, `<ul>` or `<ol>`.
    /// The footnotes of the page follow.
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
            self.append_nodes(definition.nodes.iter().copied(), &mut blocks);
            out.push(Block::Footnote { label: definition.label.clone(), blocks });
        }
        out
    }

    pub(super) fn blocks_in(&self, parent: NodeId) -> Vec<Block> {
        let mut blocks = Vec::new();
        self.append_children(parent, &mut blocks);
        blocks
    }

    fn append_children(&self, parent: NodeId, out: &mut Vec<Block>) {
        self.append_nodes(self.dom.children(parent), out);
    }

    /// Appends the blocks of sibling nodes, except of the node in `skipped`. Inline content between blocks
    /// becomes paragraphs or, if it is a display formula, a formula. Adjacent flat items, which Word and
    /// editors write without nesting ([`Self::flat_items`]), become nested lists.
    fn append_nodes(&self, nodes: impl IntoIterator<Item = NodeId>, out: &mut Vec<Block>) {
        let mut inline = Inline::default();
        let mut items = Vec::new();
        for node in nodes.into_iter().filter(|&node| self.skipped.get() != Some(node)) {
            let is_block = self.is_block(node);
            let mut flat_items = if is_block { self.flat_items(node) } else { Vec::new() };
            if flat_items.is_empty() && !items.is_empty() && !self.dom.is_blank(node) {
                self.append_flat_items(std::mem::take(&mut items), out);
            }
            let formula = if is_block { None } else { math::read_formula(self.dom, node) };
            let formula = formula.filter(|formula| formula.is_display);
            if !is_block && formula.is_none() {
                self.write_inline(node, &mut inline);
                continue;
            }
            out.extend(std::mem::take(&mut inline).finish().into_iter().map(math::paragraph_or_formula));
            match formula {
                Some(formula) => self.append_formula(node, formula, out),
                None if flat_items.is_empty() => self.append_block(node, out),
                None => items.append(&mut flat_items),
            }
        }
        self.append_flat_items(items, out);
        out.extend(inline.finish().into_iter().map(math::paragraph_or_formula));
    }

    fn append_formula(&self, id: NodeId, formula: Formula, out: &mut Vec<Block>) {
        self.dom.skip(id, Rule::Formula);
        out.extend((!formula.tex.is_empty()).then_some(Block::Math(formula.tex)));
    }

    /// Appends the blocks for a block element. A panel follows the label of its tab. A form with a
    /// description becomes that description. If an empty link covers a `<div>` or the like, links a part of
    /// it ([`Self::link_card`]). Tabs and form controls produce no blocks, nor, except in exact mode (for
    /// fragments), do empty code blocks and quotations.
    fn append_block(&self, id: NodeId, out: &mut Vec<Block>) {
        let dom = self.dom;
        if let Some(label) = self.tabs.labels.get(&id) {
            out.push(Block::Paragraph(Inline::strong(label)));
        }
        if code::is_code_block(dom, id) {
            if let Some(title) = code::title(dom, id) {
                self.append_children(title, out);
            }
            let text = code::code_text(dom, id);
            if !text.trim().is_empty() || self.mode.is_exact {
                out.push(Block::Code { language: code::language(dom, id), text });
            }
            return;
        }
        if self.append_alert(id, out) || self.tabs.tabs.contains(&id) {
            return;
        }
        if let Some(formula) = math::read_formula(dom, id) {
            return self.append_formula(id, formula, out);
        }
        match dom.tag(id) {
            _ if let Some(level) = heading_level(dom, id) => self.append_heading(id, level, out),
            _ if let Some(rows) = table::read_grid(dom, id) => self.append_grid(&rows, out),
            // In Scribble, a `<blockquote>` with this class indents code and is not a quote.
            Tag::Blockquote if !dom.has_class(id, "SCodeFlow") => {
                let blocks = self.blocks_in(id);
                out.extend((!blocks.is_empty() || self.mode.is_exact).then_some(Block::Quote(blocks)));
            }
            Tag::Ul | Tag::Ol | Tag::Menu => self.append_list(id, out),
            Tag::Dl => self.append_definition_list(id, out),
            Tag::Table => self.append_table(id, out),
            Tag::Form if let Some(markdown) = self.described_form(id) => {
                dom.skip(id, Rule::Form);
                out.push(Block::Html(markdown.trim().to_owned()));
            }
            Tag::Hr => out.push(Block::Rule),
            Tag::Details => self.append_details(id, out),
            Tag::A => self.append_linked_blocks(id, out),
            Tag::Pre => self.append_verse(id, out),
            Tag::Svg if holds_only_html(dom, id) => self.append_children(id, out),
            tag if tag == Tag::Svg || self.is_image(id) => {
                let mut inline = Inline::default();
                self.write_inline(id, &mut inline);
                out.extend(inline.finish().into_iter().map(Block::Paragraph));
            }
            tag if Emphasis::of(tag) == Some(Emphasis::Deleted) => {
                let mut blocks = self.blocks_in(id);
                let is_deleted = |a| Emphasis::of(dom.tag(a)) == Some(Emphasis::Deleted);
                if !dom.ancestors(id).skip(1).any(is_deleted) {
                    strike(&mut blocks);
                }
                out.append(&mut blocks);
            }
            tag if is_without_text(tag) => dom.skip(id, Rule::Control),
            tag if media::is_embedded(tag) => self.append_embedded(id, out),
            _ => {
                let title = component_title(dom, id);
                out.extend(title.map(|title| Block::Paragraph(Inline::strong(title))));
                let start = out.len();
                self.append_children(id, out);
                if let Some((link, address)) = self.card_link(id) {
                    let mut blocks = out.split_off(start);
                    self.link_card(link, &address, &mut blocks);
                    out.append(&mut blocks);
                }
            }
        }
    }

    /// Appends a link to an embedded video, audio file or page, and without an address, the content of the
    /// element, which is a fallback. Also appends the fallback after a link to a file for a plugin that
    /// browsers no longer run.
    fn append_embedded(&self, id: NodeId, out: &mut Vec<Block>) {
        let link = self.embedded_link(id);
        let is_fallback = link.is_some() && !media::is_for_plugin(self.dom, id);
        out.extend(link.map(Block::Paragraph));
        if is_fallback {
            self.dom.skip(id, Rule::Fallback);
        } else {
            self.append_children(id, out);
        }
    }

    /// Appends a poem as paragraphs. Keeps the line breaks, except in the text of elements inside it, but not
    /// the indentation; a blank line begins the next paragraph.
    fn append_verse(&self, id: NodeId, out: &mut Vec<Block>) {
        let mut inline = Inline::default();
        for child in self.dom.children(id) {
            let Some(text) = self.dom.text(child) else {
                self.write_inline(child, &mut inline);
                continue;
            };
            for (at, line) in text.split('\n').enumerate() {
                if at > 0 {
                    inline.add_line_break();
                }
                inline.add_text(line);
            }
        }
        out.extend(inline.finish().into_iter().map(Block::Paragraph));
    }

    /// Appends an admonition as an alert, in which a title of its own becomes a bold paragraph. Leaves out
    /// the icon, and a title that only names the kind, such as "Note". Returns whether the element is an
    /// admonition; an empty one is dropped.
    fn append_alert(&self, id: NodeId, out: &mut Vec<Block>) -> bool {
        let Some(notice) = documentation_markup::find_notice(self.dom, id) else { return false };
        let mut blocks = Vec::new();
        if let Some(title) = notice.title.filter(|_| notice.has_own_title) {
            let mut inline = Inline::default();
            let outer = self.skipped.replace(notice.icon);
            self.write_emphasis(title, Emphasis::Strong, &mut inline);
            self.skipped.set(outer);
            blocks.push(Block::Paragraph(inline.finish_line()));
        }
        let dropped = notice.title.filter(|_| !notice.has_own_title);
        dropped.into_iter().chain(notice.icon).for_each(|node| self.dom.skip(node, Rule::AlertTitle));
        let outer = self.skipped.replace(notice.title);
        self.append_children(notice.body, &mut blocks);
        self.skipped.set(outer);
        out.extend((!blocks.is_empty()).then_some(Block::Alert { kind: notice.kind, blocks }));
        true
    }

    /// Appends a heading without its permalinks, and without a link to a fragment around its whole text.
    /// Drops an empty heading, except in exact mode.
    fn append_heading(&self, id: NodeId, level: u8, out: &mut Vec<Block>) {
        let mut inline = Inline::default();
        // mdBook and others wrap the text of a heading in a link to the heading. Convert only the link's
        // content.
        let whole = self.dom.collapsed_text(id);
        let own =
            self.dom.child_elements(id).find(|&c| documentation_markup::is_self_link(self.dom, c, &whole));
        let children = self.dom.children(id).flat_map(|child| match own {
            Some(link) if link == child => self.dom.children(link).collect(),
            _ => vec![child],
        });
        for child in children {
            if documentation_markup::is_permalink(self.dom, child) {
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

    /// Appends a list. Starts another list at an item whose number does not follow, because Markdown counts
    /// on from the first number. A child that is not an item belongs to the item before it, or is appended
    /// before the list; tabs are left out. Drops lists without items. Except in exact mode, also drops lists
    /// in which all items are empty, and items without blocks and without a checkbox, but not a blank one
    /// without a link that another element follows.
    fn append_list(&self, id: NodeId, out: &mut Vec<Block>) {
        let dom = self.dom;
        let own_start = number_attribute(dom, id, "start");
        let start = (dom.tag(id) == Tag::Ol).then(|| own_start.unwrap_or(1));
        let mut list = List { start, is_loose: false, items: Vec::new() };
        // Markdown numbers items consecutively, so an item with any other number starts a new list.
        let mut lists: Vec<List> = Vec::new();
        let children = self.children_through_wrappers(id, &[Tag::Li]);
        let mut linked = None;
        let is_reversed = dom.has_attribute(id, "reversed");
        let count = children.iter().filter(|&&child| dom.tag(child) == Tag::Li).count();
        let mut numbers = ItemNumbers::new(dom, id, count);
        for child in children.into_iter().filter(|child| !self.tabs.tabs.contains(child)) {
            if dom.tag(child) != Tag::Li {
                self.append_nodes([child], list.items.last_mut().map_or(&mut *out, |item| &mut item.blocks));
                continue;
            }
            let next = list.start.and_then(|start| start.checked_add(u32::try_from(list.items.len()).ok()?));
            // In a list that counts up, an item has the next number unless its `value` sets another one.
            let value = if is_reversed {
                u32::try_from(numbers.number(child)).ok()
            } else {
                number_attribute(dom, child, "value")
            };
            let mut blocks = self.blocks_in_item(child, value.or(next));
            self.link_item(id, child, &mut linked, &mut blocks);
            if let Some((link, address)) = self.card_link(child) {
                self.link_card(link, &address, &mut blocks);
            }
            if value.is_some() && next.is_some() && value != next {
                let following = List { start: value, is_loose: list.is_loose, items: Vec::new() };
                let before = std::mem::replace(&mut list, following);
                lists.extend((!before.items.is_empty()).then_some(before));
            }
            list.is_loose |= dom.child_elements(child).any(|c| dom.tag(c) == Tag::P);
            let checked = self.checkbox_state(child);
            if !blocks.is_empty()
                || self.mode.is_exact
                || checked.is_some()
                || is_blank_item(dom, child) && dom.next_element(child).is_some()
            {
                list.items.push(Item { checked, blocks });
            }
        }
        lists.push(list);
        lists.retain(|list| list.items.iter().any(|i| self.mode.is_exact || !i.blocks.is_empty()));
        for list in &mut lists {
            // Markdown treats a list with a blank line inside an item as a loose list.
            let has_blank =
                |item: &Item| item.blocks.windows(2).any(|pair| needs_blank_line(&pair[0], &pair[1]));
            list.is_loose |= list.items.iter().any(has_blank);
        }
        out.extend(lists.into_iter().map(Block::List));
    }

    /// The blocks of a list item. A marker that the page writes before them is left out if it is a bullet or
    /// the item's own `number`. Any other marker begins the first paragraph, or is a paragraph of its own if
    /// another block is first.
    fn blocks_in_item(&self, item: NodeId, number: Option<u32>) -> Vec<Block> {
        let dom = self.dom;
        let Some((marker, text)) = item_marker(dom, item) else { return self.blocks_in(item) };
        let outer = self.skipped.replace(Some(marker));
        let mut blocks = self.blocks_in(item);
        self.skipped.set(outer);
        let own = text.trim_matches(['(', ')', '[', ']', '.']);
        if !own.contains(char::is_alphanumeric) || number.is_some_and(|number| own == number.to_string()) {
            dom.skip(marker, Rule::FootnoteMark);
            return blocks;
        }
        let mut line = Inline::of_text(&text).finish_line();
        if let Some(Block::Paragraph(first)) = blocks.first_mut() {
            line = format!("{line} {}", std::mem::take(first));
            *first = line;
        } else {
            blocks.insert(0, Block::Paragraph(line));
        }
        blocks
    }

    /// The children of an element. Replaces a wrapper, which is an element such as `<div>` with a child that
    /// has one of `tags`, by its own children, because browsers lay these out as if the wrapper were not
    /// there.
    fn children_through_wrappers(&self, parent: NodeId, tags: &[Tag]) -> Vec<NodeId> {
        use Tag::{A, B, Code, Div, Em, I, Other, Small, Span, Strong};
        let dom = self.dom;
        let mut children = Vec::new();
        for child in dom.children(parent) {
            let is_wrapper =
                matches!(dom.tag(child), A | B | Code | Div | Em | I | Other | Small | Span | Strong);
            if is_wrapper && dom.child_elements(child).any(|c| tags.contains(&dom.tag(c))) {
                children.extend(self.children_through_wrappers(child, tags));
            } else {
                children.push(child);
            }
        }
        children
    }

    /// Whether the checkbox of a list item is checked: the one that the item's attributes state, or the first
    /// one before any text or list in it. A mixed checkbox counts as unchecked. `None` without a checkbox.
    pub(super) fn checkbox_state(&self, item: NodeId) -> Option<bool> {
        let dom = self.dom;
        // Rich-text editors mark the list item as a checkbox: most with an attribute, Evernote with a style.
        let is_checkbox = dom.attribute(item, "role").is_some_and(|role| role.ends_with("checkbox"));
        let state = dom
            .attribute(item, "data-checked")
            .or_else(|| dom.attribute(item, "data-list"))
            .or_else(|| dom.attribute(item, "aria-checked").filter(|_| is_checkbox))
            .or_else(|| dom.style(item, "--en-checked"));
        match state {
            Some("true" | "checked") => return Some(true),
            Some("false" | "mixed" | "unchecked") => return Some(false),
            _ => {}
        }
        // Zim marks the list item as a checkbox with a class.
        if dom.has_class_in(item, &["checked-box", "unchecked-box"]) {
            return Some(dom.has_class(item, "checked-box"));
        }
        // Confluence marks the list item itself with `data-inline-task-id`.
        if dom.has_attribute(item, "data-inline-task-id") {
            return Some(dom.has_class(item, "checked"));
        }
        for id in dom.descendants(item) {
            match dom.tag(id) {
                Tag::Input if dom.attribute(id, "type") == Some("checkbox") => {
                    return Some(dom.has_attribute(id, "checked"));
                }
                // Asciidoctor shows a checkbox as an icon. Its class says whether the checkbox is checked.
                Tag::I if dom.has_class(id, "fa-check-square-o") => return Some(true),
                Tag::I if dom.has_class(id, "fa-square-o") => return Some(false),
                Tag::Div if let Some(is_checked) = drawn_checkbox(dom, id) => return Some(is_checked),
                Tag::Ul | Tag::Ol => return None,
                Tag::Text if !dom.is_blank(id) => return None,
                _ => {}
            }
        }
        None
    }

    /// Appends the blocks of the terms and explanations of a `<dl>` one after another, because GitHub
    /// Flavored Markdown has no definition lists. Links terms and explanations like the items of lists
    /// ([`Self::link_item`], [`Self::link_card`]).
    fn append_definition_list(&self, id: NodeId, out: &mut Vec<Block>) {
        let mut linked = None;
        for child in self.children_through_wrappers(id, &[Tag::Dt, Tag::Dd]) {
            let mut blocks = Vec::new();
            self.append_nodes([child], &mut blocks);
            self.link_item(id, child, &mut linked, &mut blocks);
            if let Some((link, address)) = self.card_link(child) {
                self.link_card(link, &address, &mut blocks);
            }
            out.append(&mut blocks);
        }
    }

    /// Appends the caption of a table and then, depending on its purpose, a Markdown table, a numbered list,
    /// or the blocks or formulas in its cells.
    fn append_table(&self, id: NodeId, out: &mut Vec<Block>) {
        let dom = self.dom;
        if let Some(caption) = dom.child_elements(id).find(|&c| dom.tag(c) == Tag::Caption) {
            self.append_children(caption, out);
        }
        match table::read_table(dom, id) {
            Table::Callouts(texts) => {
                let items =
                    texts.into_iter().map(|text| Item { checked: None, blocks: self.blocks_in(text) });
                out.push(Block::List(List { start: Some(1), is_loose: false, items: items.collect() }));
            }
            Table::Layout(rows) => rows.iter().for_each(|cells| self.append_layout_row(cells, out)),
            Table::Equations(cells) => {
                for cell in cells {
                    let mut blocks = self.blocks_in(cell);
                    if let [Block::Paragraph(text)] = &*blocks
                        && let Some(tex) = text.strip_prefix('$').and_then(|t| t.strip_suffix('$'))
                    {
                        blocks = vec![Block::Math(tex.trim_matches('$').to_owned())];
                    }
                    out.append(&mut blocks);
                }
            }
            Table::Data { captions, rows } => {
                for caption in captions {
                    self.append_children(caption, out);
                }
                self.append_grid(&rows, out);
            }
        }
    }

    fn append_grid(&self, rows: &[NodeId], out: &mut Vec<Block>) {
        out.extend(table::fill_grid(self.dom, rows, |cell| self.cell_line(cell)).map(Block::Table));
    }

    /// Appends the blocks in the cells of a row. A marker in the first of two cells, such as `(1)`, begins
    /// the first block of the other one, if that is a paragraph or a heading.
    fn append_layout_row(&self, cells: &[NodeId], out: &mut Vec<Block>) {
        let start = out.len();
        let pair = table::read_marked_row(self.dom, cells);
        for &cell in cells {
            self.append_children(cell, out);
        }
        let is_text = |block: &Block| matches!(block, Block::Paragraph(_) | Block::Heading { .. });
        if pair.is_none() || !out.get(start + 1).is_some_and(is_text) {
            return;
        }
        if let Block::Paragraph(marker) = &mut out[start] {
            let marker = std::mem::take(marker);
            out.remove(start);
            if let Some(Block::Paragraph(text) | Block::Heading { text, .. }) = out.get_mut(start) {
                *text = format!("{marker} {text}");
            }
        }
    }

    /// Appends a `<details>` element as HTML tags with Markdown blocks between them. Drops an empty one.
    /// Without a `<summary>`, the summary is "Details", as in browsers.
    fn append_details(&self, id: NodeId, out: &mut Vec<Block>) {
        let dom = self.dom;
        let summary = dom.child_elements(id).find(|&c| dom.tag(c) == Tag::Summary);
        let mut blocks = Vec::new();
        self.append_nodes(dom.children(id).filter(|c| Some(*c) != summary), &mut blocks);
        let title = summary.map(|summary| collapse(&self.inline_html(summary))).unwrap_or_default();
        if blocks.is_empty() && title.is_empty() {
            return;
        }
        let title = if title.is_empty() { "Details".to_owned() } else { title };
        out.push(Block::Html(format!("<details>\n<summary>{title}</summary>")));
        out.append(&mut blocks);
        out.push(Block::Html("</details>".to_owned()));
    }

    /// Appends the content of a link around blocks, and links a part of it ([`Self::link_blocks`]). If the
    /// link contains no blocks, appends it with its label ([`Self::write_labeled_link`]).
    fn append_linked_blocks(&self, id: NodeId, out: &mut Vec<Block>) {
        let mut blocks = self.blocks_in(id);
        self.link_blocks(id, &mut blocks);
        if blocks.is_empty() {
            let mut inline = Inline::default();
            self.write_labeled_link(id, &mut inline);
            blocks.extend(inline.finish().into_iter().map(Block::Paragraph));
        }
        out.append(&mut blocks);
    }

    /// Makes the first heading without a link, or else the first such paragraph, the text of the link `id`,
    /// which is an `<a>` around the blocks, or covers them. If there are no headings and paragraphs, adds the
    /// link after the blocks. Does nothing if all headings and paragraphs have links, if there are no blocks,
    /// or if the address is missing, unusable or begins with `#`.
    fn link_blocks(&self, id: NodeId, blocks: &mut Vec<Block>) {
        let address = self.address(id, "href").filter(|address| !address.starts_with('#'));
        let Some(address) = address.filter(|_| !blocks.is_empty()) else { return };
        let is_linked = |text: &str| Parts::new(text).any(|(kind, _)| kind == Kind::Destination);
        let mut has_text = false;
        for is_heading in [true, false] {
            let text = find_text(blocks, is_heading, &mut |text| {
                has_text = true;
                !is_linked(text)
            });
            if let Some(text) = text {
                *text = format!("[{}]({address})", escape_brackets(&text.replace('\n', " ")));
                return;
            }
        }
        if !has_text {
            match self.dom.first_attribute(id, &["aria-label", "title"]) {
                Some(label) => {
                    let mut inline = Inline::default();
                    inline.add_link(&address, label);
                    blocks.push(Block::Paragraph(inline.finish_line()));
                }
                None => markdown_cleanup::add_link(blocks, &address),
            }
        }
    }

    /// The empty link that covers an element, with its address: the only link among its children that shows
    /// nothing of its own ([`Self::is_bare_link`]), apart from those that lead around ([`leads_around`]). A
    /// link with a symbol counts only if no such link shows nothing at all. `None` in exact mode.
    pub(super) fn card_link(&self, card: NodeId) -> Option<(NodeId, String)> {
        let dom = self.dom;
        let is_cover = |&id: &NodeId| self.is_bare_link(id) && !leads_around(dom, id);
        let covers = dom.child_elements(card).filter(is_cover);
        let (symbols, empty): (Vec<_>, Vec<_>) = covers.partition(|&link| links::shows_symbol(dom, link));
        let covers = if empty.is_empty() { symbols } else { empty };
        let [link] = covers[..] else { return None };
        Some((link, self.address(link, "href").filter(|_| !self.mode.is_exact)?))
    }

    /// Links a card to the address of the empty link that covers it. If the card has no heading and the empty
    /// link has a label, adds a paragraph with the label as the link. Otherwise, the first heading without a
    /// link, or else the first such paragraph, becomes the link. Does nothing if the card has a link to the
    /// address, a first-level heading or too many blocks.
    pub(super) fn link_card(&self, link: NodeId, address: &str, blocks: &mut Vec<Block>) {
        let mut has =
            |is_heading, part: &str| find_text(blocks, is_heading, &mut |text| text.contains(part)).is_some();
        // In a Markdown link, `)` ends the address, or a space separates it from the title.
        let targets = [format!("]({address})"), format!("]({address} ")];
        let is_linked = targets.iter().any(|target| has(true, target) || has(false, target));
        let has_heading = has(true, "");
        let is_title = |block: &Block| matches!(block, Block::Heading { level: 1, .. });
        if is_linked || blocks.len() > MAX_CARD_BLOCKS || blocks.iter().any(is_title) {
            return;
        }
        match self.dom.first_attribute(link, &["aria-label", "title"]).filter(|_| !has_heading) {
            Some(label) => {
                let mut inline = Inline::default();
                inline.add_link(address, label);
                blocks.push(Block::Paragraph(inline.finish_line()));
            }
            None => self.link_blocks(link, blocks),
        }
    }

    /// Links the blocks of an item if an `<a>` between the list and its item contains the item. Of several
    /// items in one `<a>`, links only the first: `linked` is the `<a>` around the item before.
    fn link_item(&self, list: NodeId, item: NodeId, linked: &mut Option<NodeId>, blocks: &mut Vec<Block>) {
        let mut around = self.dom.ancestors(item).skip(1).take_while(|&a| a != list);
        let link = around.find(|&a| self.dom.tag(a) == Tag::A);
        if let Some(link) = link.filter(|_| *linked != link) {
            self.link_blocks(link, blocks);
        }
        *linked = link;
    }
}

/// Whether a list item is blank and has no link. A link without text counts, because it may show a symbol.
fn is_blank_item(dom: &Dom, item: NodeId) -> bool {
    dom.is_blank(item) && dom.find(item, Tag::A).is_none()
}

/// The text of the first heading or, if `is_heading` is false, of the first paragraph that matches, also in
/// quotes, alerts and lists. Calls `is_match` with the texts in order, up to this one.
fn find_text<'b>(
    blocks: &'b mut [Block],
    is_heading: bool,
    is_match: &mut impl FnMut(&str) -> bool,
) -> Option<&'b mut String> {
    blocks.iter_mut().find_map(|block| match block {
        Block::Heading { text, .. } if is_heading => is_match(text).then_some(text),
        Block::Paragraph(text) if !is_heading => is_match(text).then_some(text),
        Block::Quote(blocks) | Block::Alert { blocks, .. } => find_text(blocks, is_heading, is_match),
        Block::List(list) => {
            list.items.iter_mut().find_map(|item| find_text(&mut item.blocks, is_heading, is_match))
        }
        _ => None,
    })
}

/// The `<span>` with the marker at the start of a list item, before other nodes, and its text: a bullet, one
/// to four letters and digits with punctuation such as `(a)` or `1.`, or a short text that LaTeXML marks as a
/// tag.
fn item_marker(dom: &Dom, item: NodeId) -> Option<(NodeId, String)> {
    const BULLETS: [&str; 7] =
        ["\u{2022}", "\u{25e6}", "\u{25aa}", "\u{25ab}", "\u{2023}", "\u{2043}", "\u{2219}"];
    let is_space = |&id: &NodeId| dom.text(id).is_some_and(|text| text.trim().is_empty());
    let mut nodes = dom.children(item).skip_while(is_space);
    let marker = nodes.next().filter(|&id| dom.tag(id) == Tag::Span)?;
    let after = nodes.next()?;
    let inner = dom.descendants(marker).take(4).collect::<Vec<_>>();
    // A marker contains at most three nodes, each a `<span>` or a text of at most 12 bytes.
    if inner.len() == 4
        || inner.iter().any(|&id| dom.text(id).map_or(dom.tag(id) != Tag::Span, |t| t.len() > 12))
    {
        return None;
    }
    let text = dom.collapsed_text(marker);
    let is_tag = dom.has_class(marker, "ltx_tag");
    let is_number = || {
        let number = text.trim_start_matches(['(', '[']).strip_suffix([')', ']', '.']);
        let is_short = |number: &str| (1..=4).contains(&number.len());
        number.is_some_and(|n| is_short(n) && n.bytes().all(|b| b.is_ascii_alphanumeric()))
            // A digit directly after the marker continues a number: `1.` and `50` are 1.50.
            && !dom.text(after).is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()))
    };
    (BULLETS.contains(&&*text) || is_tag && !text.is_empty() || is_number()).then_some((marker, text))
}

/// Whether an `<svg>` contains only HTML and no shapes, as in Marp, which uses it to scale a slide.
fn holds_only_html(dom: &Dom, svg: NodeId) -> bool {
    let is_html = |child| dom.name(child) == "foreignObject";
    dom.child_elements(svg).next().is_some() && dom.child_elements(svg).all(is_html)
}

/// Strikes out the text of each heading, paragraph and table cell, also in quotes, alerts and lists, unless
/// all of it is between `~~` already. Other blocks, such as code, stay as they are.
fn strike(blocks: &mut [Block]) {
    let strike_text = |text: &mut String| {
        let whole = text.strip_prefix("~~").and_then(|text| text.strip_suffix("~~"));
        if text.is_empty() || whole.is_some_and(|text| !text.contains("~~")) {
            return;
        }
        // Text between `~~` cannot contain `~~`.
        let (start, end) = if text.contains("~~") { ("<del>", "</del>") } else { ("~~", "~~") };
        *text = format!("{start}{text}{end}");
    };
    for block in blocks {
        match block {
            Block::Heading { text, .. } | Block::Paragraph(text) => strike_text(text),
            Block::Quote(blocks) | Block::Alert { blocks, .. } => strike(blocks),
            Block::List(list) => list.items.iter_mut().for_each(|item| strike(&mut item.blocks)),
            Block::Table(table) => table.rows.iter_mut().flatten().for_each(strike_text),
            _ => {}
        }
    }
}

/// Escapes `[` and `]` in inline Markdown that becomes the text of a link. Leaves code, images, HTML tags and
/// existing escapes unchanged. `text` must not contain links.
fn escape_brackets(text: &str) -> String {
    let escape = |(kind, part)| match kind {
        Kind::Open | Kind::Close => ["\\", part],
        _ => ["", part],
    };
    Parts::new(text).flat_map(escape).collect()
}

/// The level of a heading, 1 to 6, by its tag, or else by the role `heading` and `aria-level`; `None` for
/// other elements.
fn heading_level(dom: &Dom, id: NodeId) -> Option<u8> {
    let by_role = || {
        dom.attribute(id, "role").filter(|role| *role == "heading")?;
        // WAI-ARIA §6.6: the level is 2 by default.
        let level = dom.attribute(id, "aria-level").and_then(|level| level.trim().parse::<u32>().ok());
        u8::try_from(level.unwrap_or(2).clamp(1, 6)).ok()
    };
    dom.tag(id).heading_level().or_else(by_role)
}
