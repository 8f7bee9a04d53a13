//! Converts phrasing content (text, links, emphasis, code) to inline Markdown.

use super::check_marks::{answer_of, begins_item, drawn_checkbox, is_ligature};
use super::code;
use super::documentation_markup::{self, Tabs};
use super::dom::{Dom, NodeId, Tag, collapse, escape_html, remove_invisible};
use super::footnotes::Footnotes;
use super::inline::{Emphasis, Inline};
use super::inline_spacing::{is_laid_out_as_block, needs_space_before};
use super::links;
use super::list_numbers::ItemNumbers;
use super::main_content::leads_around;
use super::math;
use super::media;
use super::omission_reason::Rule;
use std::cell::Cell;
use url::Url;

/// Converts the tree of one page. The recursion is bounded, because the parser limits the depth of the tree.
/// [`super::block_conversion`] adds the methods for blocks.
pub(super) struct Converter<'a> {
    pub(super) dom: &'a Dom,
    /// The base URL for relative links.
    base: Option<Url>,
    pub(super) footnotes: Footnotes,
    pub(super) tabs: Tabs,
    /// A node in the element that is being converted which has been written already or says nothing: the
    /// title or icon of an admonition, or the marker of an item of a list. It is not converted with the
    /// others.
    pub(super) skipped: Cell<Option<NodeId>>,
    pub(super) mode: Mode,
    /// The Markdown for forms by name, from [`Options::forms`](super::Options::forms).
    forms: &'a [(String, String)],
    /// For each node, whether it contains block elements.
    has_blocks: Vec<bool>,
}

/// The value of `data-frontdesk`, by which the forms' script recognizes a form; `None` for other forms and
/// other elements.
fn form_name(dom: &Dom, id: NodeId) -> Option<&str> {
    (dom.tag(id) == Tag::Form).then(|| dom.attribute(id, "data-frontdesk")).flatten()
}

/// The names of all forms with `data-frontdesk` in the body of a page, in document order.
pub(super) fn form_names(dom: &Dom) -> Vec<String> {
    dom.descendants(dom.body()).filter_map(|id| form_name(dom, id)).map(str::to_owned).collect()
}

/// The properties of a page and of its conversion that change the Markdown.
#[derive(Clone, Copy)]
pub(super) struct Mode {
    /// Whether to keep elements without a visible effect: empty ones, and emphasis inside emphasis of the
    /// same kind.
    pub(super) is_exact: bool,
    /// Whether to convert only an article: without links that show only a symbol, and without buttons outside
    /// of headings and paragraphs.
    pub(super) is_article: bool,
    /// Whether a script on the page renders TeX in text as formulas.
    pub(super) has_math: bool,
}

/// Prefixes of the labels of symbols for sharing or editing the page, in lower case.
const TOOL_LABELS: [&str; 6] =
    ["edit this page", "view source", "share on", "share via", "share this", "share with"];

impl<'a> Converter<'a> {
    /// Finds the tabs below `root`, and the elements there and in the footnotes that contain blocks. Records
    /// each tab that labels a panel as left out.
    pub(super) fn new(
        dom: &'a Dom,
        root: NodeId,
        base: Option<Url>,
        footnotes: Footnotes,
        mode: Mode,
        forms: &'a [(String, String)],
    ) -> Self {
        let tabs = documentation_markup::find_labeled_panels(dom, root);
        let mut has_blocks = vec![false; dom.node_count()];
        let notes = footnotes.definitions.iter().flat_map(|definition| &definition.nodes);
        for id in notes.copied().chain([root]).flat_map(|root| dom.descendants(root)) {
            // A web component that is the panel of a tab is a block, because the tab's label becomes a block.
            let is_panel = tabs.labels.contains_key(&id);
            if is_panel || is_block_element(dom, id) {
                let mut above = dom.ancestors(id).skip(usize::from(!is_panel));
                while above.next().is_some_and(|a| !std::mem::replace(&mut has_blocks[a.index()], true)) {}
            }
        }
        tabs.tabs.iter().for_each(|&tab| dom.skip(tab, Rule::Tab));
        Self { dom, base, footnotes, tabs, skipped: Cell::new(None), mode, forms, has_blocks }
    }

    /// The Markdown that replaces a form; `None` if the element is not a form that
    /// [`Options::forms`](super::Options::forms) names.
    pub(super) fn described_form(&self, id: NodeId) -> Option<&'a str> {
        let name = form_name(self.dom, id)?;
        self.forms.iter().find(|(known, _)| known == name).map(|(_, markdown)| markdown.as_str())
    }

    /// Whether a node is converted to blocks instead of inline Markdown.
    pub(super) fn is_block(&self, id: NodeId) -> bool {
        self.has_blocks[id.index()] || is_block_element(self.dom, id)
    }

    /// The address in an attribute of a link or an image as [`links::resolve_link`] returns it; `None` also
    /// if the attribute is missing.
    pub(super) fn address(&self, id: NodeId, attribute: &str) -> Option<String> {
        links::resolve_link(self.base.as_ref(), self.dom.attribute(id, attribute)?)
    }

    /// Converts the content of a table cell to one line of inline Markdown. Line breaks become `<br>`. A cell
    /// without text shows the label, or else the check mark or cross, of a symbol among its first ten nodes.
    pub(super) fn cell_line(&self, id: NodeId) -> String {
        let mut inline = Inline::for_cell();
        self.write_inline_children(id, &mut inline);
        let line = inline.finish().join("\n").replace('\n', "<br>");
        if !line.is_empty() {
            return line;
        }
        // In a cell without text, write the label of its symbol, or else the check mark or cross it shows.
        let dom = self.dom;
        let symbols = || dom.descendants(id).take(10);
        let is_symbol = |&d: &NodeId| {
            dom.attribute(d, "role") == Some("img") || matches!(dom.tag(d), Tag::Svg | Tag::I | Tag::Span)
        };
        let title = |d| dom.child_elements(d).find(|&child| dom.name(child) == "title");
        let label = symbols().filter(is_symbol).find_map(|d| {
            let label = dom.first_attribute(d, &["aria-label", "title"]).map(str::to_owned);
            label.or_else(|| title(d).map(|title| dom.collapsed_text(title)).filter(|text| !text.is_empty()))
        });
        let label = label.or_else(|| symbols().find_map(|d| answer_of(dom, d)).map(str::to_owned));
        let mut inline = Inline::for_cell();
        inline.add_text(&label.unwrap_or_default());
        inline.finish_line()
    }

    pub(super) fn write_inline_children(&self, id: NodeId, out: &mut Inline) {
        for child in self.dom.children(id) {
            self.write_inline(child, out);
        }
    }

    /// Writes a node, with its descendants, as inline Markdown. Adds a space where only the layout separates
    /// it from the node before it. Leaves out tabs, the node in [`Self::skipped`], and what
    /// [`Self::write_symbol`] and [`Self::write_element`] leave out. Replaces footnote references and
    /// formulas; in text, formulas only if the page has a script for them.
    pub(super) fn write_inline(&self, id: NodeId, out: &mut Inline) {
        let dom = self.dom;
        if let Some(text) = dom.text(id) {
            if needs_space_before(dom, id) {
                out.add_space();
            }
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
            return formula.write(out);
        }
        if self.write_symbol(id, out) {
            return;
        }
        let is_block = is_laid_out_as_block(dom, id);
        if is_block {
            out.add_block_boundary();
        } else if needs_space_before(dom, id) {
            out.add_space();
        }
        self.write_element(id, out);
        if is_block {
            out.add_block_boundary();
        }
    }

    /// Writes an element whose meaning is not in its text: a check mark or a cross at the start of an item or
    /// a paragraph, an image by its role or in AMP, a drawn checkbox in a cell, outside of forms an `<input>`
    /// one in a cell or a disabled one outside of items, or a control with a fixed text (a field's as code).
    /// Leaves out names of symbols in fonts, and in articles `<input>` buttons. Returns `false` for others.
    fn write_symbol(&self, id: NodeId, out: &mut Inline) -> bool {
        let dom = self.dom;
        // A checkbox that visitors cannot change is written, and so is any in a table cell. Elsewhere, one in
        // a list item belongs to the item.
        let is_state = || out.is_cell || dom.has_attribute(id, "disabled") && !dom.is_in(id, &[Tag::Li]);
        let is_checkbox = || {
            dom.tag(id) == Tag::Input
                && is_state()
                && dom.attribute(id, "type") == Some("checkbox")
                && !dom.is_in(id, &[Tag::Form])
        };
        let is_ligature = is_ligature(dom, id);
        if is_ligature {
            dom.skip(id, Rule::Control);
        }
        if let Some(answer) = answer_of(dom, id).filter(|_| begins_item(dom, id, |d| self.is_block(d))) {
            out.add_text(answer);
            out.add_space();
        } else if is_ligature {
            // Write nothing: an icon font shows a symbol instead of this text.
        } else if self.is_image(id) {
            media::add_description(dom, id, &self.image_label(id), out);
            dom.skip(id, Rule::Control);
        } else if is_checkbox() {
            out.add_markdown(if dom.has_attribute(id, "checked") { "[x]" } else { "[ ]" });
        } else if out.is_cell
            && let Some(is_checked) = drawn_checkbox(dom, id)
        {
            out.add_markdown(if is_checked { "[x]" } else { "[ ]" });
        } else if let Some(text) = media::control_text(dom, id) {
            let is_button = dom.tag(id) == Tag::Input && !dom.has_attribute(id, "readonly");
            if is_button && !self.mode.is_article {
                out.add_space();
                out.add_text(&text);
                out.add_space();
            } else if !is_button {
                write_code_lines(text.lines(), out);
            }
        } else if dom.name(id) == "amp-img" && dom.find(id, Tag::Img).is_none() {
            media::add_image(dom, self.base.as_ref(), id, out);
        } else {
            return false;
        }
        true
    }

    /// Writes an element, by its tag. Blocks are separated by spaces or, in a table cell, by line breaks.
    /// Form controls, scripts, templates and other elements without visible text are left out, and in
    /// articles also buttons outside of headings and paragraphs. A link replaces embedded media and their
    /// fallback content; only an `<object>` without a usable address shows its own.
    fn write_element(&self, id: NodeId, out: &mut Inline) {
        let dom = self.dom;
        match dom.tag(id) {
            Tag::Br => out.add_line_break(),
            // Text pasted from Google Docs is in a `<b>` whose style turns bold off.
            Tag::B | Tag::Strong if matches!(dom.style(id, "font-weight"), Some("normal" | "400")) => {
                self.write_inline_children(id, out);
            }
            Tag::I | Tag::Em if dom.style(id, "font-style") == Some("normal") => {
                self.write_inline_children(id, out);
            }
            Tag::Code | Tag::Samp | Tag::Tt => self.write_code_span(id, out),
            tag if let Some(emphasis) = Emphasis::of(tag) => {
                self.write_emphasis(id, emphasis, out);
            }
            tag if let Some(name) = html_tag(tag) => {
                out.open_tag(name);
                self.write_inline_children(id, out);
                out.close();
            }
            Tag::Q => self.write_between(id, "\u{201c}", "\u{201d}", out),
            Tag::Rt => self.write_between(id, "(", ")", out),
            Tag::A => self.write_link(id, out),
            Tag::Other if is_link_component(dom, id) => self.write_link(id, out),
            Tag::Img => media::add_image(dom, self.base.as_ref(), id, out),
            Tag::Other if dom.name(id) == "area" => media::add_area(dom, self.base.as_ref(), id, out),
            tag if media::is_embedded(tag) => {
                out.add_space();
                if media::add_embedded(dom, self.base.as_ref(), id, out) || tag != Tag::Object {
                    dom.skip(id, Rule::Fallback);
                } else {
                    self.write_inline_children(id, out);
                }
                out.add_space();
            }
            Tag::Button => {
                // The text of a button inside a heading or paragraph belongs to the heading or paragraph.
                let is_text = |p| dom.tag(p) == Tag::P || dom.is_heading(p);
                if self.mode.is_article && !dom.ancestors(id).skip(1).take(3).any(is_text) {
                    return dom.skip(id, Rule::Article);
                }
                out.add_space();
                self.write_inline_children(id, out);
                out.add_space();
            }
            Tag::Svg => self.write_drawing(id, out),
            tag if is_without_text(tag) || tag == Tag::Rp => dom.skip(id, Rule::Control),
            Tag::Ol if out.is_cell => self.write_numbered_lines(id, out),
            _ if out.is_cell && code::is_code_block(dom, id) => {
                out.add_block_boundary();
                write_code_lines(code::code_text(dom, id).lines(), out);
                out.add_block_boundary();
            }
            // Write each row of a nested table on one line, with `|` between its cells.
            Tag::Td | Tag::Th if out.is_cell && !out.is_in_link() => {
                if dom.previous_element(id).is_some_and(|p| matches!(dom.tag(p), Tag::Td | Tag::Th)) {
                    out.add_text(" | ");
                }
                let line = self.cell_line(id);
                if !line.is_empty() {
                    out.add_markdown(&line);
                }
            }
            tag if tag.is_block() => {
                out.add_block_boundary();
                self.write_inline_children(id, out);
                out.add_block_boundary();
            }
            _ => self.write_styled(id, out),
        }
    }

    /// Writes the content of an element with the emphasis that its style gives it: bold and italic text (not
    /// in headings and header cells, which are bold by themselves), text with a line through it, and
    /// superscripts and subscripts. Only reads the style of `<span>`, `<font>` and `<u>`.
    fn write_styled(&self, id: NodeId, out: &mut Inline) {
        let dom = self.dom;
        let is_styled = matches!(dom.tag(id), Tag::Span | Tag::U) || dom.name(id) == "font";
        if !is_styled || !dom.has_attribute(id, "style") {
            return self.write_inline_children(id, out);
        }
        let is = |name, values: &[&str]| dom.style(id, name).is_some_and(|value| values.contains(&value));
        let is_bold = is("font-weight", &["bold", "bolder", "600", "700", "800", "900"]);
        let is_italic = is("font-style", &["italic", "oblique"]);
        let is_title = || dom.ancestors(id).any(|a| dom.is_heading(a) || dom.tag(a) == Tag::Th);
        let is_emphasized = (is_bold || is_italic) && !is_title();
        let is_deleted =
            ["text-decoration", "text-decoration-line"].iter().any(|name| is(name, &["line-through"]));
        let kinds = [
            (Emphasis::Strong, is_bold && is_emphasized),
            (Emphasis::Regular, is_italic && is_emphasized),
            (Emphasis::Deleted, is_deleted),
        ];
        let open = kinds.into_iter().filter(|(_, is_open)| *is_open);
        let mut count = open.map(|(emphasis, _)| out.open_emphasis(emphasis, false)).count();
        for (value, tag) in [("super", "sup"), ("sub", "sub")] {
            if is("vertical-align", &[value]) {
                out.open_tag(tag);
                count += 1;
            }
        }
        self.write_inline_children(id, out);
        (0..count).for_each(|_| out.close());
    }

    /// Whether an element is an image by its role, with a label of at least two words, and shows no text. The
    /// content of a canvas is only for screen readers. In links, buttons and headings, such a label often
    /// repeats the text.
    pub(super) fn is_image(&self, id: NodeId) -> bool {
        let dom = self.dom;
        dom.attribute(id, "role") == Some("img")
            && dom.tag(id) != Tag::Img
            && self.image_label(id).contains(' ')
            && !dom.ancestors(id).any(|a| matches!(dom.tag(a), Tag::A | Tag::Button) || dom.is_heading(a))
            && (dom.tag(id) == Tag::Canvas
                || !dom.descendants(id).take(50).any(|d| {
                    let is_shown = dom.parent(d).is_none_or(|p| !matches!(dom.name(p), "title" | "desc"));
                    dom.tag(d) == Tag::Img || is_shown && dom.text(d).is_some_and(|t| !t.trim().is_empty())
                }))
    }

    fn image_label(&self, id: NodeId) -> String {
        collapse(self.dom.attribute(id, "aria-label").unwrap_or_default())
    }

    /// The link to embedded content, as inline Markdown; `None` without a usable address.
    pub(super) fn embedded_link(&self, id: NodeId) -> Option<String> {
        let mut inline = Inline::default();
        let is_linked = media::add_embedded(self.dom, self.base.as_ref(), id, &mut inline);
        is_linked.then(|| inline.finish_line())
    }

    /// Writes the content of an element between two plain texts, such as quotation marks. Escapes Markdown in
    /// these texts.
    fn write_between(&self, id: NodeId, start: &str, end: &str, out: &mut Inline) {
        out.add_text(start);
        self.write_inline_children(id, out);
        out.add_text(end);
    }

    /// Writes a numbered list in a table cell as lines that begin with their numbers.
    fn write_numbered_lines(&self, list: NodeId, out: &mut Inline) {
        let count = self.dom.child_elements(list).filter(|&child| self.dom.tag(child) == Tag::Li).count();
        let mut numbers = ItemNumbers::new(self.dom, list, count);
        for child in self.dom.children(list) {
            out.add_block_boundary();
            if self.dom.tag(child) != Tag::Li {
                self.write_inline(child, out);
                continue;
            }
            out.add_number(numbers.number(child));
            self.write_inline_children(child, out);
        }
        out.add_block_boundary();
    }

    /// Writes the text, links and images that an `<svg>` shows, such as labels of a diagram. Records all
    /// other elements as left out, such as shapes and definitions, and the parts of a `<switch>` other than
    /// the one that browsers show.
    pub(super) fn write_drawing(&self, id: NodeId, out: &mut Inline) {
        let dom = self.dom;
        let shown = (dom.name(id) == "switch").then(|| self.shown_part(id));
        for child in dom.child_elements(id) {
            if shown.is_some_and(|shown| shown != Some(child)) {
                dom.skip(child, Rule::Fallback);
                continue;
            }
            match dom.name(child) {
                "a" if let Some(address) = self.address(child, "href") => {
                    out.add_space();
                    out.open_link(format!("]({address})"));
                    self.write_drawing(child, out);
                    out.close();
                    out.add_space();
                }
                "g" | "a" | "svg" | "switch" => self.write_drawing(child, out),
                "text" | "foreignObject" => {
                    out.add_space();
                    for part in dom.children(child) {
                        self.write_inline(part, out);
                        out.add_space();
                    }
                }
                "image" if let Some(address) = self.address(child, "href") => {
                    let label = dom.first_attribute(child, &["aria-label"]).unwrap_or_default();
                    out.add_markdown(&format!("![{}]({address})", Inline::description(&collapse(label))));
                }
                _ => dom.skip(child, Rule::Control),
            }
        }
    }

    /// The first part of a `<switch>` in a drawing that is for all languages or for that of the page; `None`
    /// if all parts are for other languages.
    fn shown_part(&self, switch: NodeId) -> Option<NodeId> {
        let dom = self.dom;
        let page = dom.ancestors(switch).find_map(|a| dom.attribute(a, "lang")).unwrap_or_default();
        let primary =
            |language: &str| language.trim().split('-').next().unwrap_or_default().to_ascii_lowercase();
        let is_own = |languages: &str| languages.split(',').any(|own| primary(own) == primary(page));
        dom.child_elements(switch).find(|&part| dom.attribute(part, "systemLanguage").is_none_or(is_own))
    }

    pub(super) fn write_emphasis(&self, id: NodeId, emphasis: Emphasis, out: &mut Inline) {
        out.open_emphasis(emphasis, self.mode.is_exact);
        self.write_inline_children(id, out);
        out.close();
    }

    /// Writes a link. Writes only its content if the address is missing or unusable, or if the link is in a
    /// heading and leads to the same page. With [`Mode::is_exact`], an empty address is usable. Writes only
    /// its text if that is autolinked. Outside of headings, [`Self::write_labeled_link`] writes a link
    /// without content.
    fn write_link(&self, id: NodeId, out: &mut Inline) {
        let dom = self.dom;
        let empty = || (self.mode.is_exact && dom.attribute(id, "href") == Some("")).then(String::new);
        let is_in_heading = || dom.ancestors(id).take(8).any(|a| dom.is_heading(a));
        let destination = self.address(id, "href").or_else(empty);
        let Some(destination) = destination.filter(|to| !to.starts_with('#') || !is_in_heading()) else {
            return self.write_inline_children(id, out);
        };
        if let Some(address) = links::bare_address(dom, id).filter(|address| out.may_start_address(address)) {
            return out.add_text(&address);
        }
        out.open_link(format!("]({destination}{})", links::quoted_title(dom, id)));
        self.write_inline_children(id, out);
        let is_empty = out.is_empty_element();
        out.close();
        if is_empty && !is_in_heading() {
            self.write_labeled_link(id, out);
        }
    }

    /// Writes a link that shows only a symbol with its label ([`Self::symbol_label`]). Writes nothing in
    /// articles, and without a label.
    pub(super) fn write_labeled_link(&self, id: NodeId, out: &mut Inline) {
        if let Some((destination, label)) = self.symbol_label(id).filter(|_| !self.mode.is_article) {
            out.add_space_after_word();
            out.add_link(&destination, &label);
        }
    }

    /// The address of a link that shows only a symbol, and the label for screen readers, or else the mail
    /// address, the phone number or the host to which it leads. `None` without these, for links to the page's
    /// own places, to the pages around it and to its source, and for links that share it.
    pub(super) fn symbol_label(&self, id: NodeId) -> Option<(String, String)> {
        let dom = self.dom;
        // A link without a child element shows no symbol. If the link covers a card, `link_card` writes it.
        dom.child_elements(id).next()?;
        let destination = self.address(id, "href").filter(|to| !to.starts_with('#'))?;
        let label_of = |node| {
            let title = || (dom.name(node) == "title").then(|| dom.collapsed_text(node));
            let label = dom.first_attribute(node, &["aria-label", "title"]).map(collapse);
            label.or_else(title).filter(|label| !label.is_empty())
        };
        let label = dom.subtree(id).take(10).find_map(label_of);
        let label = label.or_else(|| links::label_of_symbol_link(dom, id, self.base.as_ref()))?;
        let start = label.to_lowercase();
        let is_tool = leads_around(dom, id)
            || links::shares_page(dom, id, self.base.as_ref())
            || TOOL_LABELS.iter().any(|label| start.starts_with(label));
        (!is_tool).then_some((destination, label))
    }

    /// Whether a link shows nothing, or only a symbol that says nothing of its own: the link has no label and
    /// leads to a page of this site ([`links::leads_to_own_page`]).
    pub(super) fn is_bare_link(&self, id: NodeId) -> bool {
        let dom = self.dom;
        let is_shown = |d| {
            dom.tag(d) == Tag::Img
                || media::is_embedded(dom.tag(d))
                || dom.text(d).is_some_and(|text| !text.trim().is_empty())
        };
        let is_arrow =
            || self.symbol_label(id).is_none() && links::leads_to_own_page(dom, id, self.base.as_ref());
        dom.tag(id) == Tag::A
            && !dom.subtree(id).any(is_shown)
            && (!links::shows_symbol(dom, id) || is_arrow())
    }

    /// Writes code as code spans, divided at each `<br>` and, outside of links, at links.
    fn write_code_span(&self, id: NodeId, out: &mut Inline) {
        let dom = self.dom;
        // A Markdown code span cannot contain links, so links divide the code.
        let is_link = |d| dom.tag(d) == Tag::A && self.address(d, "href").is_some();
        if !out.is_in_link() && dom.descendants(id).any(is_link) {
            return self.write_linked_code(id, out);
        }
        // A code span cannot contain line breaks, so each `<br>` ends one.
        let code = code::lines_between_breaks(dom, id);
        if !code.contains('\n') {
            // White space at the edges is shown, unless it belongs to a line break of the source.
            let trimmed = code.trim_ascii();
            let is_wrapped = trimmed.len() < code.len() && dom.text_content(id).contains('\n');
            return write_code(if is_wrapped { trimmed } else { &code }, out);
        }
        write_code_lines(code.lines().map(str::trim).filter(|line| !line.is_empty()), out);
    }

    /// Writes the code below an element as code spans. Code in a link becomes a link around a code span.
    fn write_linked_code(&self, parent: NodeId, out: &mut Inline) {
        let dom = self.dom;
        for child in dom.children(parent) {
            match (dom.tag(child), dom.text(child)) {
                (Tag::Br, _) => out.add_line_break(),
                (Tag::Img, _) => write_code(&code::lines_between_breaks(dom, child), out),
                (_, Some(text)) if text.trim().is_empty() => out.add_text(text),
                (_, Some(text)) => write_code(&code::one_line(text), out),
                (Tag::A, _) => {
                    let code = code::one_line(&code::lines_between_breaks(dom, child));
                    let Some(address) = self.address(child, "href").filter(|_| !code.is_empty()) else {
                        write_code(&code, out);
                        continue;
                    };
                    out.open_link(format!("]({address})"));
                    write_code(&code, out);
                    out.close();
                }
                _ => self.write_linked_code(child, out),
            }
        }
    }

    /// The inline content of an element as HTML, because Markdown inside a block of HTML is not parsed.
    pub(super) fn inline_html(&self, id: NodeId) -> String {
        self.dom.children(id).map(|child| self.node_as_html(child)).collect()
    }

    /// Writes a node as inline HTML with the few tags that Markdown has a meaning for. Form controls,
    /// drawings and the names of symbols in fonts are left out, blocks and words that the layout separates
    /// are separated by spaces, and empty elements are dropped. A formula is TeX between dollar signs. A
    /// reference to a footnote is its label, because a link to it would be dead. Embedded media become links,
    /// or, without a usable address, their fallback content.
    fn node_as_html(&self, id: NodeId) -> String {
        let dom = self.dom;
        let space = if needs_space_before(dom, id) { " " } else { "" };
        if let Some(text) = dom.text(id) {
            return format!("{space}{}", escape_html(text));
        }
        if let Some(label) = self.footnotes.references.get(&id) {
            dom.skip(id, Rule::FootnoteMark);
            return format!("[{label}]");
        }
        // A cross in a `<summary>` is a button that closes the details, so only a check mark is an answer.
        if let Some(answer) = answer_of(dom, id).filter(|answer| *answer == "✓" && dom.is_blank(id)) {
            return format!(" {answer} ");
        }
        if let Some(formula) = math::read_formula(dom, id) {
            dom.skip(id, Rule::Formula);
            return escape_html(&format!("${}$", formula.tex));
        }
        let tag = dom.tag(id);
        if is_without_text(tag) || tag == Tag::Rp || is_ligature(dom, id) {
            dom.skip(id, Rule::Control);
            return String::new();
        }
        if let Some(link) = media::embedded_as_html(dom, self.base.as_ref(), id) {
            dom.skip(id, Rule::Fallback);
            return link;
        }
        let inner = self.inline_html(id);
        let heading = tag.heading_level().map(|level| format!("h{level}"));
        let code = matches!(tag, Tag::Code | Tag::Samp | Tag::Tt).then_some("code");
        let name = html_tag(tag).or(Emphasis::of(tag).map(Emphasis::tag)).or(code).or(heading.as_deref());
        match (tag, name) {
            (Tag::Br, _) => "<br>".to_owned(),
            (Tag::Img, _) => media::image_as_html(dom, self.base.as_ref(), id),
            (Tag::Q, _) => format!("{space}\u{201c}{inner}\u{201d}"),
            (Tag::Rt, _) => format!("({inner})"),
            (Tag::A, _) if !inner.trim().is_empty() => match self.address(id, "href") {
                Some(to) => format!("{space}<a href=\"{}\">{inner}</a>", escape_html(&to)),
                None => inner,
            },
            (_, Some(name)) if !inner.trim().is_empty() => {
                let inner = if heading.is_some() { inner.trim() } else { &inner };
                format!("{space}<{name}>{inner}</{name}>")
            }
            (_, Some(_)) if heading.is_none() => String::new(),
            _ if tag.is_block() || is_laid_out_as_block(dom, id) => format!(" {inner} "),
            _ => format!("{space}{inner}"),
        }
    }
}

/// Writes each line as a code span, with hard line breaks between them.
fn write_code_lines<'t>(lines: impl Iterator<Item = &'t str>, out: &mut Inline) {
    for (at, line) in lines.enumerate() {
        if at > 0 {
            out.add_line_break();
        }
        write_code(line, out);
    }
}

/// Writes a code span without invisible characters, unless the text is empty.
fn write_code(text: &str, out: &mut Inline) {
    let text = remove_invisible(text);
    if !text.is_empty() {
        out.add_code(&if out.is_cell { text.replace('|', "\\|") } else { text.into_owned() });
    }
}

/// The tag name of an element that Markdown writes as an HTML tag; `None` for other elements.
fn html_tag(tag: Tag) -> Option<&'static str> {
    let tags = [(Tag::Kbd, "kbd"), (Tag::Sub, "sub"), (Tag::Sup, "sup"), (Tag::Mark, "mark")];
    tags.into_iter().find_map(|(other, name)| (other == tag).then_some(name))
}

/// Whether an element is always converted to blocks instead of inline Markdown, regardless of its content.
fn is_block_element(dom: &Dom, id: NodeId) -> bool {
    let has_role = || matches!(dom.attribute(id, "role"), Some("heading" | "paragraph"));
    // Akoma Ntoso, a format for laws, gives its paragraphs this class.
    let is_paragraph = || dom.attribute(id, "data-as") == Some("p") || dom.has_class(id, "akn-p");
    dom.tag(id).is_block()
        || matches!(dom.tag(id), Tag::Code | Tag::Other) && code::is_code_block(dom, id)
        || dom.tag(id) == Tag::Span && (is_paragraph() || has_role())
        || component_title(dom, id).is_some()
}

/// The title that a web component such as an accordion shows above its content, from an attribute. `None` if
/// a child takes its place or there is no content, and for components of other kinds: their labels and titles
/// may be tooltips, or repeat what they show.
pub(super) fn component_title(dom: &Dom, id: NodeId) -> Option<&str> {
    const TITLES: [&str; 7] = ["summary", "heading", "header-text", "header", "label", "title-text", "title"];
    if dom.tag(id) != Tag::Other || !dom.name(id).contains('-') {
        return None;
    }
    let is_kind = |kind: &&str| dom.name(id).contains(*kind);
    ["accordion", "collaps", "details", "disclosure", "expan", "panel"].iter().find(|kind| is_kind(kind))?;
    let title = dom.first_attribute(id, &TITLES).filter(|_| !dom.is_blank(id))?;
    let is_slot = |child| dom.attribute(child, "slot").is_some_and(|slot| TITLES.contains(&slot));
    (!dom.child_elements(id).any(is_slot)).then_some(title)
}

/// Whether an element is a web component that is a link, judging by its name and its `href`.
fn is_link_component(dom: &Dom, id: NodeId) -> bool {
    let is_link = |name: &str| name.contains('-') && (name.contains("button") || name.contains("link"));
    dom.tag(id) == Tag::Other && dom.has_attribute(id, "href") && is_link(dom.name(id))
}

/// Whether elements with this tag are dropped with their content: form controls, drawings and scripts. In
/// Markdown, `<svg>` is handled earlier, because [`Converter::write_drawing`] keeps its text.
#[rustfmt::skip]
pub(super) fn is_without_text(tag: Tag) -> bool {
    use Tag::{Canvas, Head, Ignored, Input, Noframes, Noscript, Optgroup, Option, Script, Select, Style, Svg,
        Template, Textarea};
    matches!(tag, Canvas | Head | Ignored | Input | Noframes | Noscript | Optgroup | Option | Script | Select
        | Style | Svg | Template | Textarea)
}
