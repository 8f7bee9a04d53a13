//! Renders a page's Markdown body to HTML, and to Markdown with absolute links.

mod alerts;
mod content_policy_warnings;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;

use blake3::Hash;
use comrak::nodes::{
    ListType, Node, NodeCodeBlock, NodeLink, NodeList, NodeMath, NodeValue, Sourcepos, TableAlignment,
};
use comrak::options::Plugins;
use comrak::{Anchorizer, Arena};
use frontdesk_markdown::{
    cjk_emphasis, comments, dollar_disambiguation, foreign_syntax, parser_options, quotation_marks,
};
use frontdesk_media::ImageSize;

use super::images::{ImageFacts, Variant, should_have_size};
use super::link_resolution::{LinkCatalog, LinkOrigin, LinkTarget, ResolvedLink};
use super::link_rewriting::rewrite_links;
use super::words::WordList;
use crate::fault::REPORT_DEFECT;
use frontdesk_forms::text::escape_html;
use frontdesk_markdown::heading_html::AnchoredHeadings;
use frontdesk_markdown::raw_html_checks::{
    BLOCKED_IMAGE, has_image_without_alternative, has_markdown_as_text, show_unclosed_html,
};
use frontdesk_markdown::source_text::{SourceText, find_definition, format_destination, shown_lines};
use frontdesk_markdown::word_count::count_words;
use frontdesk_process::hash_maps::{HashMap, HashSet};
use frontdesk_process::panics::{self, Panic, Part};
use frontdesk_typeset::code_block::{self, CodeBlock};
use frontdesk_typeset::highlight::Highlighter;
use frontdesk_typeset::math::{self, MathError};

/// A body as HTML and as Markdown, without the page's title, which the layout adds.
#[derive(Debug, Default)]
pub struct RenderedBody {
    pub html: String,
    /// Markdown with absolute links.
    pub markdown: String,
    pub facts: BodyFacts,
    /// The code blocks in document order, each as a hash of its info string and source, and its HTML. Without
    /// formulas, and without blocks whose highlighting panicked.
    pub blocks: Vec<(Hash, String)>,
}

/// Properties of a body that rendering collects.
#[derive(Debug, Default)]
pub struct BodyFacts {
    pub headings: Vec<Heading>,
    /// The links and images that lead to this site, with their line numbers.
    pub links: Vec<(LinkTarget, usize)>,
    pub warnings: Vec<BodyWarning>,
    /// The number of words, without code, formulas and alternative texts of images.
    pub words: usize,
    pub lookups: LinkLookups,
}

/// The links to this site that a rendering has resolved, and a hash of the results. While the results and the
/// site's options stay the same, rendering the same source gives the same body.
#[derive(Debug, Default)]
pub struct LinkLookups {
    links: Box<[Box<str>]>,
    results: u64,
}

impl LinkLookups {
    /// Whether `catalog` still resolves all recorded links as it did when the body was rendered.
    pub fn are_current(&self, place: LinkOrigin<'_>, catalog: &LinkCatalog) -> bool {
        let mut now = LookupRecorder::default();
        for link in &self.links {
            now.look_up(catalog, place, link);
        }
        now.finish().results == self.results
    }
}

/// Collects the [`LinkLookups`] of a rendering.
#[derive(Default)]
struct LookupRecorder {
    links: Vec<Box<str>>,
    results: DefaultHasher,
}

impl LookupRecorder {
    /// Resolves a link, and records the result if the link leads to this site.
    fn look_up(&mut self, catalog: &LinkCatalog, place: LinkOrigin<'_>, link: &str) -> ResolvedLink {
        let resolved = catalog.resolve(place, link);
        if let Some(target) = &resolved.target {
            // Record the image's size too: a changed image in static/ keeps its path.
            (&resolved, catalog.images.get(&*target.path)).hash(&mut self.results);
            self.links.push(link.into());
        }
        resolved
    }

    fn finish(self) -> LinkLookups {
        LinkLookups { links: self.links.into(), results: self.results.finish() }
    }
}

/// A part of the body that probably does not render as the author expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyWarning {
    pub line: usize,
    pub message: String,
    pub hint: &'static str,
}

/// A heading of a body. Rendering warns if the author chooses an id that an earlier heading has.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Heading {
    /// The level, from 1 to 6.
    pub level: u8,
    pub id: String,
    /// The text without formatting.
    pub title: String,
}

/// The HTML of code blocks from an earlier rendering, keyed by a hash of the parsed info string and the
/// source.
pub type HighlightCache<'a> = HashMap<Hash, &'a str>;

/// Renders `body`, which begins on line `first_line` of its file. `words` has the accessible names of tables,
/// tasks and links back from footnotes, the titles of alerts, and the quotation marks.
///
/// The syntax is GitHub Flavored Markdown with footnotes, alerts, formulas and typographic quotes. Raw HTML
/// is kept, because the author is the operator. Comments are removed, but the HTML keeps HTML comments. Code
/// blocks in `earlier` are not highlighted again. [`cjk_emphasis`] extends emphasis.
pub fn render(
    body: &str,
    first_line: usize,
    place: LinkOrigin<'_>,
    catalog: &LinkCatalog,
    highlighter: &Highlighter,
    words: &WordList,
    earlier: &HighlightCache<'_>,
) -> RenderedBody {
    let arena = Arena::new();
    let options = parser_options();
    let uncommented = comments::remove(body, &options);
    let body = &*uncommented.body;
    let (root, emphasis) = cjk_emphasis::parse(&arena, body, &options);
    let mut work = BodyRenderer {
        arena: &arena,
        source: SourceText::new(body),
        first_line,
        place,
        catalog,
        highlighter,
        words,
        earlier,
        edits: Vec::new(),
        shown_lines: shown_lines(root),
        tables: 0,
        has_aligned_cells: false,
        images: 0,
        anchorizer: Anchorizer::new(),
        lookups: LookupRecorder::default(),
        rendered: RenderedBody::default(),
    };
    quotation_marks::localize(root, &work.source, words.get("quotation_marks"));
    alerts::localize(root, &work.source, words);
    for (position, message, hint) in show_unclosed_html(root) {
        work.warn(position, message, hint);
    }
    let mut nodes = root.descendants().collect::<Vec<Node<'_>>>().into_iter();
    while let Some(node) = nodes.next() {
        // The HTML of an image already contains the text of its child nodes, so skip these nodes.
        let inside = match node.data().value {
            NodeValue::Image(_) => node.descendants().count() - 1,
            _ => 0,
        };
        work.process_node(node);
        nodes.by_ref().take(inside).for_each(drop);
    }
    work.resolve_reference_definitions();
    let mut rendered = std::mem::take(&mut work.rendered);
    let BodyFacts { warnings, links, .. } = &mut rendered.facts;
    let lines = warnings.iter_mut().map(|it| &mut it.line).chain(links.iter_mut().map(|it| &mut it.1));
    uncommented.restore_lines(lines, first_line);
    let of_comments = uncommented.warnings.iter().map(|(line, message, hint)| BodyWarning {
        line: first_line + line - 1,
        message: message.clone(),
        hint,
    });
    warnings.splice(0..0, of_comments);
    // Free unused capacity, because these facts stay in memory as long as the page.
    rendered.facts.links.shrink_to_fit();
    rendered.facts.headings.shrink_to_fit();
    rendered.facts.lookups = std::mem::take(&mut work.lookups).finish();
    work.edits.extend(emphasis);
    rendered.markdown = work.source.apply_edits(std::mem::take(&mut work.edits));
    let headings = AnchoredHeadings::new(rendered.facts.headings.iter().map(|heading| heading.id.clone()));
    let mut plugins = Plugins::default();
    plugins.render.heading_adapter = Some(&headings);
    // Writing to a string cannot fail.
    let _ = comrak::format_html_with_plugins(root, &options, &mut rendered.html, &plugins);
    alerts::label_links_back(&mut rendered.html, words);
    if work.has_aligned_cells {
        // Replace `align` with a class: the attribute is obsolete, and the policy forbids inline styles. A
        // cell in raw HTML with other attributes may have a class, and keeps `align`.
        for (tag, side) in ["td", "th"].iter().flat_map(|tag| ["left", "center", "right"].map(|it| (tag, it)))
        {
            let cell = |attribute: &str| format!("<{tag} {attribute}=\"{side}\">");
            rendered.html = rendered.html.replace(&cell("align"), &cell("class"));
        }
    }
    rendered
}

impl RenderedBody {
    /// The body of a page whose rendering panicked: the source in both representations, and a warning. Leaves
    /// out comments; if this panics, too, the body is empty. Its links are not resolved.
    pub fn from_source(source: &str, first_line: usize, panic: &Panic) -> Self {
        let message = format!("{}: the page shows its source", panic.with_message());
        let shown = panics::catch(Part::Content, || comments::remove_all(source, &parser_options()));
        let source = &*shown.unwrap_or_default();
        let warning = BodyWarning { line: first_line, message, hint: REPORT_DEFECT };
        let words = count_words(source);
        Self {
            html: format!("<pre>{}</pre>\n", escape_html(source.trim())),
            markdown: source.to_owned(),
            facts: BodyFacts { warnings: vec![warning], words, ..BodyFacts::default() },
            blocks: Vec::new(),
        }
    }
}

/// Rewrites the nodes of a body for HTML. Collects facts, warnings, and the edits for Markdown.
struct BodyRenderer<'a, 'b> {
    arena: &'a Arena<'a>,
    source: SourceText<'b>,
    first_line: usize,
    place: LinkOrigin<'b>,
    catalog: &'b LinkCatalog,
    highlighter: &'b Highlighter,
    words: &'b WordList,
    earlier: &'b HashMap<Hash, &'b str>,
    /// Edits to the source that produce the Markdown representation.
    edits: Vec<(Range<usize>, String)>,
    /// The numbers of lines with text, code or HTML. No link definition begins on these lines.
    shown_lines: HashSet<usize>,
    /// The number of tables so far. The accessible name of a table contains its number.
    tables: usize,
    has_aligned_cells: bool,
    /// The number of images so far. All images except the first are loaded lazily.
    images: usize,
    anchorizer: Anchorizer,
    lookups: LookupRecorder,
    rendered: RenderedBody,
}

impl<'a> BodyRenderer<'a, '_> {
    /// Rewrites a node with the function for its kind, if there is one. Puts a table into a region with a
    /// number in its accessible name. An image loses its child nodes, whose text its HTML contains.
    fn process_node(&mut self, node: Node<'a>) {
        let position = node.data().sourcepos;
        // Text is handled without a copy, because most nodes are text.
        if let NodeValue::Text(text) = &node.data().value {
            self.process_text(text, position);
            return;
        }
        let value = node.data().value.clone();
        match value {
            NodeValue::Heading(heading) => self.set_anchor(node, heading.level, position),
            NodeValue::CodeBlock(block) => {
                node.data_mut().value = NodeValue::Raw(self.render_code(&block, position));
            }
            NodeValue::Table(table) => {
                self.has_aligned_cells |= table.alignments.iter().any(|it| *it != TableAlignment::None);
                self.tables += 1;
                let name = self.words.fill("table", &[("n", &self.tables.to_string())]);
                let region = format!(
                    "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n",
                    escape_html(&name)
                );
                node.insert_before(self.new_raw_node(region, position));
                node.insert_after(self.new_raw_node("</div>\n".to_owned(), position));
            }
            NodeValue::TaskItem(item) => self.render_task(node, item.symbol.is_some(), position),
            NodeValue::Link(link) => {
                let resolved = self.resolve_link(&link.url, position.start.line);
                self.replace_destination(node, &link.url, &resolved.1);
                if let NodeValue::Link(link) = &mut node.data_mut().value {
                    link.url = resolved.0;
                }
            }
            NodeValue::Image(image) => {
                let html = self.render_image(node, &image, position);
                for child in node.children().collect::<Vec<_>>() {
                    child.detach();
                }
                node.data_mut().value = NodeValue::Raw(html);
            }
            NodeValue::HtmlBlock(block) => {
                let html = self.resolve_html(node, &block.literal, position);
                if let NodeValue::HtmlBlock(block) = &mut node.data_mut().value {
                    block.literal = html;
                }
            }
            NodeValue::HtmlInline(literal) => {
                node.data_mut().value = NodeValue::HtmlInline(self.resolve_html(node, &literal, position));
            }
            NodeValue::Math(math) => self.render_formula(node, &math, position),
            _ => {}
        }
    }

    /// Counts words, and warns about the syntax of other Markdown programs.
    fn process_text(&mut self, text: &str, position: Sourcepos) {
        self.rendered.facts.words += count_words(text);
        if let Some((message, hint)) = foreign_syntax::find(text, &self.source, position) {
            self.warn(position, message, hint);
        }
    }

    /// Renders an image with its size and its smaller variants, if they are known, so that the text below
    /// does not move when the image loads. The first image of a page loads immediately, because it is often
    /// visible without scrolling; others are lazy. Removes a size behind `|` from the alternative text.
    /// Records the target, makes it absolute in the Markdown, and warns about blocked hosts, missing
    /// alternative texts and unreadable sizes.
    fn render_image(&mut self, node: Node<'a>, image: &NodeLink, position: Sourcepos) -> String {
        let catalog = self.catalog;
        self.warn_about_blocked_host(&image.url, BLOCKED_IMAGE, &catalog.allowed.image, position);
        let mut alternative = node.collect_text();
        // In Obsidian, `![Alt|100](a.png)` and `![Alt|100x50](a.png)` have a size.
        if let Some((text, size)) = alternative.rsplit_once('|')
            && size.starts_with(|c: char| c.is_ascii_digit())
            && size.bytes().all(|byte| byte.is_ascii_digit() || byte == b'x')
        {
            alternative.truncate(text.len());
        }
        if alternative.trim().is_empty() {
            let message = format!("the image `{}` has no alternative text", image.url);
            self.warn(position, message, NO_ALTERNATIVE);
        }
        let ResolvedLink { href, absolute, target } =
            self.lookups.look_up(self.catalog, self.place, &image.url);
        let known = target.as_ref().and_then(|target| self.catalog.images.get(&*target.path));
        let is_damaged = target.as_ref().is_some_and(|target| {
            known.is_none()
                && self.catalog.assets.contains_key(&*target.path)
                && should_have_size(&target.path)
        });
        if is_damaged {
            let message = format!("the size of the image `{}` cannot be read", image.url);
            self.warn(position, message, "export it again: it may be damaged or have a wrong extension");
        }
        if let Some(target) = target {
            self.rendered.facts.links.push((target, self.first_line + position.start.line - 1));
        }
        self.replace_destination(node, &image.url, &absolute);
        let mut html = format!("<img src=\"{}\" alt=\"{}\"", escape_html(&href), escape_html(&alternative));
        if !image.title.is_empty() {
            html.push_str(&format!(" title=\"{}\"", escape_html(&image.title)));
        }
        if let Some(ImageFacts { size: ImageSize { width, height }, variants }) = known {
            html.push_str(&format!(" width=\"{width}\" height=\"{height}\""));
            // Omit the smaller variants if the address has a query: it may select another image.
            if !variants.is_empty() && !href.contains('?') {
                let candidate = |variant: &Variant| format!("{} {}w, ", variant.href, variant.width);
                let smaller: String = variants.iter().map(candidate).collect();
                let srcset = escape_html(&format!("{smaller}{href} {width}w"));
                html.push_str(&format!(" srcset=\"{srcset}\" sizes=\"{IMAGE_SIZES}\""));
            }
        }
        if self.images > 0 {
            html.push_str(" loading=\"lazy\"");
        }
        self.images += 1;
        html.push_str(" decoding=\"async\">");
        html
    }

    /// Renders `$…$` and `$$…$$` with [`Self::formula_html`]. Keeps `$…$` as text if the dollar signs are
    /// probably those of prices or of names such as `$HOME/$USER`.
    fn render_formula(&mut self, node: Node<'a>, math: &NodeMath, position: Sourcepos) {
        let value = if dollar_disambiguation::is_text(&self.source, math, position) {
            self.rendered.facts.words += count_words(&math.literal);
            NodeValue::Text(format!("${}$", math.literal).into())
        } else {
            NodeValue::Raw(self.formula_html(&math.literal, math.display_math, position))
        };
        node.data_mut().value = value;
    }

    /// A formula as MathML. If the formula is invalid, warns and returns its source as code.
    fn formula_html(&mut self, formula: &str, is_block: bool, position: Sourcepos) -> String {
        math::render(formula, is_block).unwrap_or_else(|MathError { message, line }| {
            let mut at = position;
            at.start.line += line;
            let message = format!("the formula cannot be shown: {message}");
            self.warn(
                at,
                message,
                "write formulas in TeX notation, as in `$\\sqrt{2}$`, and a dollar sign as `\\$`",
            );
            format!("<code>{}</code>", escape_html(formula.trim()))
        })
    }

    /// Renders a code block, or takes its HTML from an earlier rendering; a `math` block becomes a formula.
    /// Warns about a missing end, invalid attributes, diagrams and unknown languages. If highlighting panics,
    /// shows the code without colors. In Markdown, the block keeps only its language and title.
    fn render_code(&mut self, block: &NodeCodeBlock, position: Sourcepos) -> String {
        if block.fenced && !block.closed {
            let hint = "end the block with a line like its first one, but without the language";
            self.warn(
                position,
                "the code block has no end, so the text below it is shown as code".to_owned(),
                hint,
            );
        }
        if block.info.trim() == "math" {
            let mut inside = position;
            inside.start.line += 1;
            return format!("<p>{}</p>\n", self.formula_html(&block.literal, true, inside));
        }
        let mut warnings = Vec::new();
        let code = block.literal.trim_end_matches('\n');
        let lines = code.split('\n').count();
        let parsed = CodeBlock::parse(block.info.trim(), lines, &mut |warning| warnings.push(warning));
        for warning in warnings {
            self.warn(
                position,
                warning,
                "begin the block, for example, with ```rust title=\"main.rs\" {1,3-5} showLineNumbers",
            );
        }
        if is_diagram(&parsed.language) {
            let message = format!("the `{}` diagram is shown as source code", parsed.language);
            self.warn(
                position,
                message,
                "export it as SVG, put the file into assets/, and show it as an image",
            );
        }
        let grammar = parsed.grammar();
        if !is_diagram(&parsed.language) && !self.highlighter.knows(grammar) {
            let hint = "use the language `text` for code without highlighting";
            self.warn(position, code_block::describe_unknown_language(grammar), hint);
        }
        if parsed.has_attributes() {
            self.replace_info(block, position, &parsed.plain_info());
        }
        let of = blake3::hash(format!("{parsed:?}\0{}", block.literal).as_bytes());
        if let Some(html) = self.earlier.get(&of) {
            self.rendered.blocks.push((of, (*html).to_owned()));
            return (*html).to_owned();
        }
        let highlight = || {
            panics::inject("highlight", &block.literal);
            parsed.render(&self.highlighter.highlight(&block.literal, parsed.grammar()))
        };
        match panics::catch(Part::Content, || self.highlighter.block(of, highlight)) {
            Ok(html) => {
                self.rendered.blocks.push((of, html.to_string()));
                html.to_string()
            }
            Err(panic) => {
                let message = format!("{}: the code block is not highlighted", panic.with_message());
                self.warn(position, message, REPORT_DEFECT);
                parsed.render(&escape_html(code))
            }
        }
    }

    /// Replaces the info string of a fenced code block in the Markdown representation. Skips indented blocks.
    fn replace_info(&mut self, block: &NodeCodeBlock, position: Sourcepos, info: &str) {
        let Some((start, line)) = self.source.line_at(position.start.line) else { return };
        let from = position.start.column.saturating_sub(1);
        let fence = |rest: &str| rest.len() - rest.trim_start_matches(char::from(block.fence_char)).len();
        if let Some(rest) = line.get(from..).filter(|_| block.fenced) {
            self.edits.push((start + from + fence(rest)..start + line.len(), info.to_owned()));
        }
    }

    /// Gives a heading its anchor, and records it: the author's anchor, or a unique one derived from the
    /// title. Warns about first-level headings, and about an author's anchor that an earlier heading has. The
    /// heading keeps that anchor.
    fn set_anchor(&mut self, node: Node<'a>, level: u8, position: Sourcepos) {
        let chosen = self.take_anchor(node);
        let title = node.collect_text();
        if level == 1 {
            let message = format!("a second first-level heading, `{title}`");
            self.warn(
                position,
                message,
                "the page's title is its first-level heading; use `##` or lower for others",
            );
        }
        // A title without letters and digits yields no usable anchor, so derive the anchor from `section`.
        let derived = if title.contains(char::is_alphanumeric) { &title } else { "section" };
        // Register the author's anchors as well, so that no derived anchor collides with them.
        let unique = self.anchorizer.anchorize(chosen.as_deref().unwrap_or(derived));
        if let Some(chosen) = &chosen
            && self.rendered.facts.headings.iter().any(|heading| heading.id == *chosen)
        {
            let message = format!("an earlier heading of this page already has the anchor `#{chosen}`");
            self.warn(position, message, "choose another anchor: links lead to the first heading with it");
        }
        let id = chosen.unwrap_or(unique);
        self.rendered.facts.headings.push(Heading { level, id, title });
    }

    /// Removes the author's anchors (`## Title {#anchor}`) from a heading in both representations, and
    /// returns the first one. An anchor with a backslash before it is text.
    fn take_anchor(&mut self, node: Node<'a>) -> Option<String> {
        let last = node.last_child()?;
        let mut last = last.data_mut();
        let (start, line) = self.source.line_at(last.sourcepos.end.line)?;
        let NodeValue::Text(text) = &mut last.value else { return None };
        // The heading may end with `#` characters that are not shown (CommonMark, "ATX headings").
        let unclosed = line.trim_end().trim_end_matches('#');
        let shown = if unclosed.ends_with([' ', '\t']) { unclosed } else { line }.trim_end();
        let at_end = |text: &str| {
            let (before, id) = text.trim_end().strip_suffix('}')?.rsplit_once("{#")?;
            let is_anchor = !id.is_empty() && !id.contains(char::is_whitespace) && !before.ends_with('\\');
            is_anchor.then(|| (before.trim_end().to_owned(), id.to_owned()))
        };
        let (mut rest, mut chosen) = (shown.to_owned(), None);
        // Take the anchor from the source, because the text has typographic dashes for `--`.
        while let Some((source, id)) = at_end(&rest)
            && let Some((title, _)) = at_end(text)
        {
            (rest, chosen) = (source, Some(id.replace('\\', "")));
            *text = title.into();
        }
        if chosen.is_some() {
            self.edits.push((start + rest.len()..start + shown.len(), String::new()));
        }
        chosen
    }

    fn warn(&mut self, position: Sourcepos, message: String, hint: &'static str) {
        let line = self.first_line + position.start.line - 1;
        self.rendered.facts.warnings.push(BodyWarning { line, message, hint });
    }

    /// Renders an item of a task list with a disabled checkbox, which has a label for screen readers.
    fn render_task(&mut self, node: Node<'a>, done: bool, position: Sourcepos) {
        let (state, checked) = if done { ("task_done", " checked") } else { ("task_open", "") };
        let state = escape_html(self.words.get(state));
        let html = format!("<input type=\"checkbox\" disabled{checked} aria-label=\"{state}\"> ");
        node.data_mut().value =
            NodeValue::Item(NodeList { list_type: ListType::Bullet, ..NodeList::default() });
        let raw = self.new_raw_node(html, position);
        match node.first_child() {
            Some(first) if matches!(first.data().value, NodeValue::Paragraph) => first.prepend(raw),
            _ => node.prepend(raw),
        }
    }

    fn new_raw_node(&self, html: String, position: Sourcepos) -> Node<'a> {
        self.arena.alloc(comrak::nodes::Ast::new(NodeValue::Raw(html), position.start).into())
    }

    /// Resolves a link, and records its target if it is on this site. Returns the link for the HTML, and the
    /// absolute link for the Markdown. Warns about a `javascript:` link.
    fn resolve_link(&mut self, url: &str, line: usize) -> (String, String) {
        let scheme = url.trim_start().split(':').next().unwrap_or_default();
        if scheme.eq_ignore_ascii_case("javascript") {
            let message = "the content security policy blocks this `javascript:` link".to_owned();
            self.warn(
                (line, 1, line, 1).into(),
                message,
                "move the code to a file in assets/ that handles the `click` event",
            );
        }
        let resolved = self.lookups.look_up(self.catalog, self.place, url);
        if let Some(target) = resolved.target {
            self.rendered.facts.links.push((target, self.first_line + line - 1));
        }
        (resolved.href, resolved.absolute)
    }

    /// Replaces the destination of an inline link or image in the Markdown representation. Reference links
    /// are handled by [`Self::resolve_reference_definitions`], and autolinks are already absolute.
    fn replace_destination(&mut self, node: Node<'a>, url: &str, absolute: &str) {
        if url == absolute {
            return;
        }
        let after = self.edits.last().map_or(0, |(range, _)| range.end);
        if let Some(range) = self.source.link_destination(node, url, after) {
            self.edits.push((range, format_destination(absolute)));
        }
    }

    /// Makes the destinations of link reference definitions absolute in the Markdown representation, and
    /// removes definitions that are only comments. The parser does not keep their positions, so this function
    /// searches the source for them.
    fn resolve_reference_definitions(&mut self) {
        for number in 1..=self.source.lines.len() {
            let lines = (number..).map_while(|number| {
                self.source.line_at(number).filter(|_| !self.shown_lines.contains(&number))
            });
            let Some(range) = find_definition(lines) else { continue };
            if let Some(range) =
                comments::find_in_definition(&self.source, number, range.clone(), &self.shown_lines)
            {
                self.edits.push((range, String::new()));
                continue;
            }
            let raw = self.source.text[range.clone()].trim_matches(['<', '>']).to_owned();
            let absolute = self.lookups.look_up(self.catalog, self.place, &raw).absolute;
            if absolute != raw {
                self.edits.push((range, format_destination(&absolute)));
            }
        }
    }

    /// Resolves the links in raw HTML for both representations, and returns the HTML. Empties or removes
    /// the comments in the Markdown. Warns about blocked content, images without `alt`, and Markdown that is
    /// not rendered.
    fn resolve_html(&mut self, node: Node<'a>, literal: &str, position: Sourcepos) -> String {
        let shown = comments::without_html_comments(literal, false);
        self.warn_about_blocked_html(&shown, position);
        if has_image_without_alternative(&shown) {
            let message = "an `img` element has no `alt` attribute".to_owned();
            self.warn(
                position,
                message,
                "describe the image in `alt`, or write `alt=\"\"` if it is decoration",
            );
        }
        if has_markdown_as_text(literal) {
            let message =
                "the content of an element with the attribute `markdown` is not converted from Markdown"
                    .to_owned();
            self.warn(position, message, "leave an empty line after the tag and before the end tag");
        }
        // `line` is the source line of `counted`, the offset in `literal` up to which line breaks are
        // counted.
        let (mut line, mut counted) = (position.start.line, 0);
        let mut found = Vec::new();
        let html = rewrite_links(literal, |url, offset| {
            line += literal[counted..offset].matches('\n').count();
            counted = offset;
            let (href, absolute) = self.resolve_link(url, line);
            found.push((url.to_owned(), absolute));
            href
        });
        let after = self.edits.last().map_or(0, |(range, _)| range.end);
        if (!found.is_empty() || literal.contains("<!--"))
            && let Some(range) = self.source.raw_html(node, literal, after)
        {
            let mut absolutes = found.into_iter();
            let edited = rewrite_links(&self.source.text[range.clone()], |url, _| {
                let known = absolutes.next().filter(|(seen, _)| seen == url);
                known.map_or(url.to_owned(), |(_, absolute)| absolute)
            });
            let is_block = matches!(node.data().value, NodeValue::HtmlBlock(_));
            self.edits.push((range, comments::without_html_comments(&edited, is_block)));
        }
        html
    }
}

/// The `sizes` of images: the theme shows them as wide as the text column or a narrower window.
const IMAGE_SIZES: &str = "(min-width: 56rem) 52rem, 100vw";

const NO_ALTERNATIVE: &str = "describe the image between the brackets, as in `![Two servers](servers.svg)`; for mere decoration, write \
     `<img src=\"…\" alt=\"\">`";

/// Whether code in the language draws a diagram, which needs a script in the browser.
fn is_diagram(language: &str) -> bool {
    ["mermaid", "plantuml", "puml", "graphviz", "dot", "d2"].contains(&language)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_site_rules::content_origins::AllowedOrigin;

    #[test]
    fn the_source_that_a_page_shows_after_a_panic_has_no_comments() {
        let panic =
            panics::catch(Part::Content, || panic!("a defect")).map(|()| "none").expect_err("a panic");
        let source = "a %%b%%\n\n<!-- c\n\nd -->\n\n[//]: # (e)\n\n[f]: /g\n\n% \n";
        let body = RenderedBody::from_source(source, 1, &panic);
        assert_eq!(body.markdown, "a\n\n\n\n\n[f]: /g\n\n% \n");
        assert_eq!(body.html, "<pre>a\n\n\n\n\n[f]: /g\n\n%</pre>\n");
    }

    #[test]
    fn lines_end_as_in_commonmark() {
        for end in ["\n", "\r", "\r\n"] {
            let source =
                ["[a]", "", "[a]: /x/", "", "> ```rust title=\"x.rs\" {1}", "> fn main() {}", "> ```", ""]
                    .join(end);
            let rendered = render_body(&source);
            assert!(rendered.html.contains("<mark class=\"line marked\">"), "{end:?}: {}", rendered.html);
            let expected = source.replace("/x/", "https://www.example.com/x/").replace(" {1}", "");
            assert_eq!(rendered.markdown, expected, "{end:?}");
        }
        let mixed = SourceText::new("a\r\nb\rc\n\rd");
        let lines: Vec<_> = (0..=6).map(|number| mixed.line_at(number)).collect();
        assert_eq!(
            lines,
            [None, Some((0, "a")), Some((3, "b")), Some((5, "c")), Some((7, "")), Some((8, "d")), None]
        );
    }

    #[test]
    fn headings_get_anchors_that_links_can_name() {
        let titles = |source: &str| render_body(source).facts.headings.remove(0);
        for (source, id, title) in [
            ("## Two {#a}{#b}", "a", "Two"),
            ("## Two {#a} {#b}", "a", "Two"),
            ("## Text \\{#each}", "text-each", "Text {#each}"),
            ("## Text {#each} \\{#a}", "text-each-a", "Text {#each} {#a}"),
            ("## Text \\{#abc} {#a}", "a", "Text {#abc}"),
            ("## Text {#-a--b...} ##", "-a--b...", "Text"),
            ("## Text {#a\\_b}", "a_b", "Text"),
            ("One\nText {#a}\n---", "a", "One Text"),
            ("> ## `--a` *b* {#--a}", "--a", "--a b"),
        ] {
            let heading = titles(source);
            assert_eq!((&*heading.id, &*heading.title), (id, title), "{source}");
        }
        for (source, expected) in [
            ("## Two {#a}{#b}\n\nText", "## Two\n\nText"),
            ("> ## Text {#a} ##  \n", "> ## Text ##  \n"),
            ("One\nText {#a}\n---\n", "One\nText\n---\n"),
            ("## Text \\{#abc} {#a}", "## Text \\{#abc}"),
            ("## {#a}\n", "##\n"),
        ] {
            assert_eq!(render_body(source).markdown, expected, "{source}");
        }
        let rendered = render_body("## What it does\n\n### Chosen {#mine}\n\n## What it does\n");
        let ids: Vec<&str> = rendered.facts.headings.iter().map(|heading| heading.id.as_str()).collect();
        assert_eq!(ids, ["what-it-does", "mine", "what-it-does-1"]);
        assert!(
            rendered.html.contains("<h2 id=\"what-it-does\"><a class=\"anchor\" href=\"#what-it-does\""),
            "{}",
            rendered.html
        );
        assert!(rendered.html.contains("Chosen</h3>"), "{}", rendered.html);
        let rendered = render_body("## 🎉\n\n## ???\n\n## ❤\u{fe0f}\n\n## हिन्दी\n");
        let ids: Vec<&str> = rendered.facts.headings.iter().map(|heading| heading.id.as_str()).collect();
        assert_eq!(ids, ["section", "section-1", "section-2", "हिन्दी"]);
    }

    #[test]
    fn links_are_relative_to_the_site_in_html_and_absolute_in_markdown() {
        for (source, html, markdown) in [
            ("[a](/x/)", "href=\"/x/\"", "[a](https://www.example.com/x/)"),
            ("[a *b* `c`](/x/ \"t\")", "href=\"/x/\"", "[a *b* `c`](https://www.example.com/x/ \"t\")"),
            ("[](/x/)", "href=\"/x/\"", "[](https://www.example.com/x/)"),
            ("[a](</x y/>)", "href=\"/x%20y/\"", "[a](https://www.example.com/x%20y/)"),
            ("[a](/x_(y)/)", "href=\"/x_(y)/\"", "[a](<https://www.example.com/x_(y)/>)"),
            ("[a](#b)", "href=\"#b\"", "[a](https://www.example.com/here/#b)"),
            (
                "![i](/assets/i.svg)",
                "src=\"/assets/i.0123456789.svg\"",
                "![i](https://www.example.com/assets/i.svg)",
            ),
            (
                "[![i](/assets/i.svg)](/x/)",
                "href=\"/x/\"",
                "[![i](https://www.example.com/assets/i.svg)](https://www.example.com/x/)",
            ),
            ("[a][b]\n\n[b]: /x/ 'T'", "href=\"/x/\"", "[a][b]\n\n[b]: https://www.example.com/x/ 'T'"),
            ("[a]\n\n[a]:\n  /x/", "href=\"/x/\"", "[a]:\n  https://www.example.com/x/"),
            ("[a](//example.org/x)", "href=\"//example.org/x\"", "[a](https://example.org/x)"),
            ("| a |\n|---|\n| [b \\| c](/x/) |", "href=\"/x/\"", "| [b \\| c](https://www.example.com/x/) |"),
            ("- item\n  with [a](/x/)\n", "href=\"/x/\"", "with [a](https://www.example.com/x/)"),
            ("> quoted [a](/x/)\n", "href=\"/x/\"", "> quoted [a](https://www.example.com/x/)"),
            (
                "é ü [ä](/x/) and [b](/y/)",
                "href=\"/y/\"",
                "é ü [ä](https://www.example.com/x/) and [b](https://www.example.com/y/)",
            ),
            (
                "**[a](/x/)** text[^1]\n\n[^1]: note [n](/n/)\n",
                "href=\"/n/\"",
                "note [n](https://www.example.com/n/)",
            ),
            ("<p><a href=\"/x/\">a</a></p>", "href=\"/x/\"", "<a href=\"https://www.example.com/x/\">"),
            ("see <a href='/x/'>a</a>", "href='/x/'", "<a href='https://www.example.com/x/'>"),
            ("https://example.org/a", "href=\"https://example.org/a\"", "https://example.org/a"),
            ("[a\nb](/x/)", "href=\"/x/\"", "[a\nb](https://www.example.com/x/)"),
        ] {
            let rendered = render_body(source);
            assert!(rendered.html.contains(html), "{source:?} → {}", rendered.html);
            assert!(rendered.markdown.contains(markdown), "{source:?} → {}", rendered.markdown);
        }
    }

    #[test]
    fn links_are_absolute_where_the_parser_loses_their_position() {
        for source in [
            "| a | b |\n|---|---|\n| `string \\| null \\| x`, see [T](/x/#sec) | 2 |",
            "| a | b |\n|---|---|\n| a\\|b\\|c\\|d\\|e [T](/x/a) ![i](/x/b) <a href=\"/x/c\">d</a> | [U](/x/d) |",
            "| a | b |\n|---|---|\n| \\| [T](/x/a) [T](/x/a) | \\| [![i](/x/p.png)](/x/u) |",
            "[l](/x/1\n\"t\") and [m](/x/2)\nand [n](/x/3)",
            "- word [l](\n  /x/1) [m](/x/2) <a href=\"/x/3\">n</a>\n  [o](/x/4)",
            "> [l](/x/1\n> \"t\") and [m](/x/2)\n> and [n](/x/3)",
        ] {
            let expected = source.replace("/x/", "https://www.example.com/x/");
            assert_eq!(render_body(source).markdown, expected, "{source}");
        }
        // A destination in code is not that of a link.
        let source = "`[a](/x/)` and [b][x]\n\n[x]: /x/";
        assert_eq!(render_body(source).markdown, source.replace(": /x/", ": https://www.example.com/x/"));
    }

    #[test]
    fn comments_of_other_programs_are_in_neither_representation() {
        let source = "One %%secret%% two.\n\n%%\nsecret\n%%\n\n{% comment %}secret{% endcomment %}\n\n[a](/x/) [[Page]]\n";
        let rendered = render_body(source);
        assert!(!rendered.html.contains("secret") && !rendered.markdown.contains("secret"), "{rendered:?}");
        assert!(rendered.markdown.contains("[a](https://www.example.com/x/)"), "{}", rendered.markdown);
        let warnings: Vec<_> = rendered.facts.warnings.iter().map(|it| (it.line, &*it.message)).collect();
        let link = "`[[Page]]` is not supported; the page shows it as text";
        assert_eq!(warnings, [(10, "the text after `%%` is left out as a comment"), (18, link)]);
    }

    #[test]
    fn comments_within_a_block_do_not_split_it() {
        let source =
            "| a |\n|---|\n| b |\n%% c %%\n| d |\n\n- e\n{# f\n #}\n{# f #}\n- [g](/x/) [[g]]\n\nh [[h]]\n";
        let rendered = render_body(source);
        assert!(rendered.html.contains("<tr>\n<td>d</td>"), "{}", rendered.html);
        assert!(rendered.html.contains("<li>e</li>\n<li>"), "{}", rendered.html);
        let lines: Vec<_> = rendered.facts.warnings.iter().map(|it| it.line).collect();
        assert_eq!((lines, rendered.facts.links[0].1), (vec![20, 22], 20), "{rendered:?}");
    }

    #[test]
    fn comments_of_markdown_and_html_are_not_in_the_markdown() {
        for (source, expected) in [
            ("a\n\n[//]: # (secret)\n[b]: /x/\n", "a\n\n\n[b]: https://www.example.com/x/\n"),
            ("[//]: # (a)\nb\n\n[//]: # (c)\n> [//]: # (d)\n", "\nb\n\n\n> \n"),
            ("> a\n>\n> [comment]: <> (one\n> two)\n> b\n", "> a\n>\n> \n> b\n"),
            ("[top]: # (a)\n\n[top]\n", "[top]: https://www.example.com/here/# (a)\n\n[top]\n"),
            ("a <!-- b --> c\n", "a  c\n"),
            ("- a\n\n<!-- b\n\nc --> d\n\n- e\n", "- a\n\n<!-- --> d\n\n- e\n"),
            ("`<!-- a -->`\n", "`<!-- a -->`\n"),
        ] {
            assert_eq!(render_body(source).markdown, expected, "{source}");
        }
        assert!(render_body("<!-- b -->\n").html.contains("<!-- b -->"));
    }

    #[test]
    fn syntax_of_other_programs_is_reported_outside_of_code() {
        let lines = |source: &str| -> Vec<usize> {
            render_body(source).facts.warnings.iter().map(|warning| warning.line - 9).collect()
        };
        let source = "::: tip\nText `[[a]]` {: .b}\n:::\n\n> [!faq] Why?\n\n- !!! note\n\nA [[b]]\n";
        assert_eq!(lines(source), [1, 2, 5, 7, 9]);
        let code = "```text\n::: tip\n[[a]]\n{{ b }}\n```\n\n    !!! note\n\n`{% c %}` [[1]](/x/) :::\n";
        assert_eq!(lines(code), [0; 0]);
        let lists = "[Site](https://example.org/){:target=\"_blank\"} and\n[a](/x/){: rel=\"b c\" }\n\n\
                     ![Alt](/assets/i.svg){ width=\"300\" }\n\n| a |\n|---|\n| {a=b} |\n\n* TOC\n{:toc}\n\n[TOC]\n";
        assert_eq!(lines(lists), [1, 2, 4, 11, 13]);
        assert_eq!(lines("a [TOC]\n\n[TOC]\n\n[TOC]: /x/\n"), [0; 0]);
    }

    #[test]
    fn quotation_marks_are_those_of_the_language() {
        let marked = |language: &str, source: &str| {
            let words = crate::words::load(&[language], &[], &[], &mut Vec::new()).swap_remove(0);
            let place = LinkOrigin { file: "pages/here.md", path: "/here/" };
            let rest = (&test_catalog(), &Highlighter::default());
            render(source, 1, place, rest.0, rest.1, &words, &HashMap::default()).html
        };
        let source = "Er sagt: \"Hallo *Welt*\", it's `\"`.";
        assert!(marked("de", source).contains("„Hallo <em>Welt</em>“, it’s <code>&quot;</code>"));
        assert!(marked("en", source).contains("“Hallo <em>Welt</em>”"));
        assert!(marked("it", source).contains("“Hallo <em>Welt</em>”"));
        assert!(marked("fr", "\"Oui\"").contains("«\u{a0}Oui\u{a0}»"));
        assert!(marked("de", "„Ja“ und “yes”").contains("„Ja“ und “yes”"));
        for (language, source, expected) in [
            ("ja", "\"日本\"の\"テスト\"です", "“日本”の“テスト”です"),
            ("de", "\"日本\"の*x*\"テスト\"", "„日本“の<em>x</em>"),
            ("en", "彼は\"A\"と\"B\"と\"C\"。", "彼は“A”と“B”と“C”。"),
            ("en", "日本\"\n\nの\"x\"", "日本”</p>\n<p>の“x”"),
            ("en", "5\"の a\"b 語\" c", "5”の a”b 語” c"),
        ] {
            let html = marked(language, source);
            assert!(html.contains(expected), "{source}: {html}");
        }
    }

    #[test]
    fn emphasis_that_commonmark_does_not_see_has_tags_in_markdown() {
        let rendered = render_body("**注意：**请[看](/x/)。\n\n- **a**：[b](/x/)\n");
        let link = |text: &str| format!("[{text}](https://www.example.com/x/)");
        let expected = format!("<strong>注意：</strong>请{}。\n\n- **a**：{}\n", link("看"), link("b"));
        assert_eq!(rendered.markdown, expected);
        assert!(rendered.html.starts_with("<p><strong>注意：</strong>请<a href=\"/x/\">看</a>。</p>"));
    }

    #[test]
    fn markdown_in_html_is_reported_if_it_is_shown_as_text() {
        for (source, is_shown) in [
            ("<div class=\"grid\" markdown>\n- a\n</div>", true),
            ("<div markdown=\"1\">\n*a*\n</div>", true),
            ("<div markdown>\n\n- a\n\n</div>", false),
            ("<div class=\"a markdown b\">\na\n</div>", false),
            ("<markdown>\na\n</markdown>", false),
            ("<!-- markdown\na -->", false),
        ] {
            let warnings = render_body(source).facts.warnings;
            assert_eq!(warnings.iter().any(|it| it.message.contains("`markdown`")), is_shown, "{source}");
        }
        for (alternative, expected) in [("A|100", "A"), ("A|100x50", "A"), ("A|b", "A|b"), ("A|x", "A|x")] {
            let html = render_body(&format!("![{alternative}](/x.png)")).html;
            assert!(html.contains(&format!("alt=\"{expected}\"")), "{html}");
        }
    }

    #[test]
    fn links_with_scripts_are_reported_as_blocked() {
        for (source, lines) in [
            ("\n[a](javascript:b)", &[11][..]),
            ("<a href='JavaScript:void(0)'>a</a>", &[10]),
            ("<p>\n<a href=\"#b\" title=\"javascript:c\">", &[]),
        ] {
            let warnings = render_body(source).facts.warnings;
            let blocked = warnings.iter().filter(|warning| warning.message.contains("`javascript:`"));
            assert_eq!(blocked.map(|warning| warning.line).collect::<Vec<_>>(), lines, "{source}");
        }
    }

    #[test]
    fn only_link_definitions_become_absolute() {
        for source in [
            "[config]:\n```toml\nx = 1\n```\n",
            "[10:30]: Alice opens the gate.\n[10:45]: Bob closes it.",
            "The log says\n[WARN]: disk",
            "- [TODO]: call the office",
            "`code\n[d]: other.md\nend`",
            "[e]: other.md \"unclosed",
            "\\[g]: other.md",
            "[a]: https://example.org/x \"t\nu\"\n[10:30]: Alice opens it",
        ] {
            assert_eq!(render_body(source).markdown, source);
        }
        for source in [
            "[a]: /x/\ntext [a]",
            "[a]:\n/x/\n'T'\ntext [c](/x/)",
            "> [a]: /x/\n> *text* [c](/x/)\n> ===",
            "[a]: /x/\n[b]: /x/\n\n[a] [b]",
            "> [q]:\n> /x/\n>\n> [q]",
            "- [b]: /x/\n  [b]",
            "1. - [b]: </x/>\n\n   [c]: /x/",
            "[long\nlabel]: /x/",
            "> [long\n> label]:\n>   /x/ 'T'",
            "[A \\[b\\]]: /x/",
        ] {
            let expected = source.replace("/x/", "https://www.example.com/x/");
            assert_eq!(
                render_body(source).markdown.replace(['<', '>'], ""),
                expected.replace(['<', '>'], "")
            );
        }
    }

    #[test]
    fn a_body_that_needs_attention_gets_a_warning() {
        for (source, remarked) in [
            ("![a](https://example.org/a.png)", true),
            ("![a](//example.org/a.png)", true),
            ("![a](https://www.example.com/a.png)", false),
            ("![a](https://www.example.com?a=b)", false),
            ("![a](//WWW.example.com/a.png)", false),
            ("![a](https://www.example.com.other.example/a.png)", true),
            ("![a](https://www.example.com:8443/a.png)", true),
            ("![a](https://www.example.com@other.example/a.png)", true),
            ("![a](data:image/png;base64,AA//BB==)", false),
            ("<script>alert(1)</script>", true),
            ("<script src=\"/assets/a.js\"></script>", false),
            ("<script\tsrc=\"/assets/a.js\"></script>", false),
            ("<script\nsrc=\"https://example.org/a.js\"></script>", true),
            ("<img alt=\"\"\tsrc=\"https://example.org/a.png\">", true),
            ("<p\tstyle=\"color: red\">a</p>", true),
            ("<script type=\"application/ld+json\">{}</script>", false),
            ("<p style=\"color: red\">a</p>", true),
            ("{{ youtube(id=\"a\") }}", true),
            ("`{{ shown }}`", false),
            ("# A second title", true),
            ("![](/assets/i.svg)", true),
            ("![a](/assets/i.svg)", false),
            ("![a](/assets/broken.png)", true),
            ("<img src=\"/assets/i.svg\">", true),
            ("<img src=\"/assets/i.svg\" alt>", false),
            ("<p><IMG SRC=\"/assets/i.svg\" ALT=\"\"></p>", false),
            ("<imgs>", false),
            ("<!-- <img src=\"https://example.org/a.png\"> <style>x</style> -->", false),
            ("a <!-- <img src=\"/assets/i.svg\"> --> b", false),
            ("<div><!-- <script>\n --><style>a {}</style></div>", true),
            ("```mermaid\na --> b\n```", true),
            ("```rust {2}\nfn f() {}\n```", true),
            ("```rust {1}\nfn f() {}\n```", false),
        ] {
            assert_eq!(!render_body(source).facts.warnings.is_empty(), remarked, "{source}");
        }
    }

    #[test]
    fn tags_that_hide_text_are_shown_or_reported() {
        for (source, shown, warnings) in [
            ("Set the <title> of *it*.", "Set the &lt;title&gt; of <em>it</em>.", 1),
            ("A <textarea>, then </textarea>.", "A <textarea>, then </textarea>.", 0),
            ("Use <xmp> or <plaintext> </plaintext>.", "&lt;xmp&gt; or &lt;plaintext&gt;", 2),
            ("a <xmp>\n\nb </xmp>", "a &lt;xmp&gt;", 1),
            ("> <!-- todo\n\nb", "&lt;!-- todo", 1),
            ("<!-- <title> -->\n\nb", "<!-- <title> -->", 0),
            ("<TITLE>a\n\nb", "&lt;TITLE>a", 1),
            ("<script type=\"text/json\">\"<title>\"</script>", "\"<title>\"</script>", 0),
            ("<noframes>\n\na\n\n</noframes>", "<noframes>", 0),
            ("<svg><title>a</title></svg>", "<title>a</title>", 0),
            ("Replace <your-name> and Option<T>.", "<your-name>", 2),
            ("<b>a</b><br><wbr/> <x-y z>, <x-z>a</x-z>, <mi/>", "<x-y z>", 0),
        ] {
            let rendered = render_body(source);
            assert!(rendered.html.contains(shown), "{source}: {}", rendered.html);
            assert_eq!(rendered.facts.warnings.len(), warnings, "{source}: {:?}", rendered.facts.warnings);
            assert_eq!(rendered.markdown, source.replace("<!-- <title> -->", "<!-- -->"));
        }
    }

    #[test]
    fn permitted_hosts_get_no_warning() {
        let check = |source: &str, without: bool, with: bool| {
            let origins = |host: &str| vec![AllowedOrigin::parse(host).expect(host)];
            let mut catalog = test_catalog();
            let warns = |catalog: &LinkCatalog| !render_with(source, catalog).facts.warnings.is_empty();
            assert_eq!(warns(&catalog), without, "{source}");
            catalog.allowed.image = origins("https://img.example.org");
            catalog.allowed.frame = origins("https://*.example.org");
            catalog.allowed.script = origins("https://stats.example.org");
            assert_eq!(warns(&catalog), with, "{source}");
        };
        check("![a](https://img.example.org/a.png)", true, false);
        check("![a](//img.example.org/a.png)", true, false);
        check("![a](http://img.example.org/a.png)", true, true);
        check("![a](https://stats.example.org/a.png)", true, true);
        check("<img alt=\"\" src=\"https://img.example.org/a.png\">", true, false);
        check("<img alt=\"\" src='https://x.example.org/a.png'>", true, true);
        check("<img alt=\"\" src=\"/assets/i.svg\">", false, false);
        check("<iframe src=\"https://video.example.org/1\"></iframe>", true, false);
        check("<iframe title=\"a\"\nsrc=https://video.example.org/1></iframe>", true, false);
        check("<iframe src=\"https://example.org/1\"></iframe>", true, true);
        check("<iframe src=\"/here/\"></iframe>", true, true);
        check("<iframe></iframe>", true, true);
        let two =
            "<iframe src=\"https://a.example.org/\"></iframe><iframe src=\"https://b.example\"></iframe>";
        check(two, true, true);
        check("<script src=\"https://stats.example.org/s.js\"></script>", true, false);
        check("<script src=\"https://img.example.org/s.js\"></script>", true, true);
        check("<video src=\"/v.mp4\" poster=\"https://img.example.org/a.png\"></video>", true, false);
        check("<video\nsrc='https://img.example.org/v.mp4'></video>", true, true);
        check("<video><source src=\"//img.example.org/v.mp4\"></video>", true, true);
        check("<audio src=/a.mp3></audio>", false, false);
        check("<form method=post action=\"https://forms.example.org/x\"></form>", true, true);
        check("<form action=\"https://www.example.com/api/x\"></form>", false, false);
        check("<form action=/api/contact></form>", false, false);
    }

    #[test]
    fn aligned_cells_have_one_class() {
        let source =
            "| a |\n|--:|\n| b |\n\n<table><tr><td align=\"right\" class=\"c\">d</td></tr></table>\n";
        let html = render_body(source).html;
        assert!(html.contains("<th class=\"right\">a") && html.contains("<td class=\"right\">b"), "{html}");
        assert!(html.contains("<td align=\"right\" class=\"c\">d"), "{html}");
    }

    #[test]
    fn code_is_left_alone() {
        let source = "`[a](/x/)`\n\n```md\n[a](/x/)\n[b]: /y/\n```\n\n    [c](/z/)\n";
        let rendered = render_body(source);
        assert_eq!(rendered.markdown, source);
        assert!(rendered.facts.links.is_empty());
        assert!(rendered.html.contains("data-lang=\"md\""), "{}", rendered.html);
    }

    #[test]
    fn formulas_are_told_apart_from_dollars() {
        for (source, expected) in [
            ("$x$", "<math><mi>x</mi></math>"),
            ("a ($x$).", "(<math><mi>x</mi></math>)."),
            ("$`x`$, US$`x`$", "<math><mi>x</mi></math>, US<math>"),
            ("$$\nx\n$$", "<math display=\"block\"><mi>x</mi></math>"),
            ("```math\nx\n```", "<p><math display=\"block\"><mi>x</mi></math></p>"),
            ("costs $5 and $10", "<p>costs $5 and $10</p>"),
            ("from $5 to 10$", "<p>from $5 to 10$</p>"),
            ("US$5 or US$6", "<p>US$5 or US$6</p>"),
            ("$HOME/$USER", "<p>$HOME/$USER</p>"),
            ("é$x$ü", "<p>é$x$ü</p>"),
            ("\\$x\\$", "<p>$x$</p>"),
            ("`$x$`", "<code>$x$</code>"),
            ("$\\frac{<$", "<code>\\frac{&lt;</code>"),
            (
                "$5, [a](https://b.c), **b**, `c` and `$d`",
                "$5, <a href=\"https://b.c\">a</a>, <strong>b</strong>, <code>c</code> and <code>$d</code>",
            ),
            ("in US$; **b** in A$.", "in US$; <strong>b</strong> in A$."),
            ("*$5* and `${A}`, `x`", "<em>$5</em> and <code>${A}</code>, <code>x</code>"),
            ("US$5 ($x$) and `$a`", "US$5 (<math><mi>x</mi></math>) and <code>$a</code>"),
            ("$x = `$`", "<p>$x = <code>$</code></p>"),
            ("$x: <https://a.example/$>", "$x: <a href=\"https://a.example/$\">"),
            ("$5 <a title=\"$\">x</a>", "<p>$5 <a title=\"$\">x</a></p>"),
            ("$x [a](https://b.c/$)", "$x <a href=\"https://b.c/$\">a</a>"),
            ("$5 [price$](https://b.c)", "$5 <a href=\"https://b.c\">price$</a>"),
            ("$x ![a](https://b.c/x.png \"$\")", "title=\"$\""),
            ("$5 a, $`a$ $7 b$ c`", "<code>a$ $7 b$ c</code>"),
            ("| a |\n|---|\n| US$5, `a` and `$b` |", "US$5, <code>a</code> and <code>$b</code>"),
            ("## $5 *a* `$b`", "<h2 id=\"5-a-b\">"),
            ("$\\text{`a`}$, `$b`", "<math>"),
        ] {
            let rendered = render_body(source);
            assert!(rendered.html.contains(expected), "{source}: {}", rendered.html);
            assert_eq!(rendered.markdown, source);
        }
        for (source, line) in [("a\n\n$$\nx\n\\unknown\n$$\n", 14), ("```math\nx\n\\unknown\n```\n", 12)] {
            let warnings = render_body(source).facts.warnings;
            assert_eq!(warnings.iter().map(|warning| warning.line).collect::<Vec<_>>(), [line], "{source}");
        }
    }

    #[test]
    fn images_have_their_size_and_load_when_needed() {
        let html = render_body("![a](/assets/i.svg)\n\n![b](/assets/i.svg \"t\") ![c](/x.png)\n").html;
        let image = |rest: &str| format!("<img src=\"/assets/i.0123456789.svg\" {rest}>");
        for expected in [
            &image("alt=\"a\" width=\"30\" height=\"20\" decoding=\"async\""),
            &image("alt=\"b\" title=\"t\" width=\"30\" height=\"20\" loading=\"lazy\" decoding=\"async\""),
            "<img src=\"/x.png\" alt=\"c\" loading=\"lazy\" decoding=\"async\">",
        ] {
            assert!(html.contains(expected), "{expected} is not in {html}");
        }
    }

    #[test]
    fn attributes_of_code_blocks_stay_out_of_the_markdown() {
        for (source, markdown) in [
            ("```rust {1} title=\"a.rs\"\nx\n```\n", "```rust title=\"a.rs\"\nx\n```\n"),
            ("- a\n\n  ~~~~ rust,linenos\n  x\n  ~~~~\n", "- a\n\n  ~~~~rust\n  x\n  ~~~~\n"),
            ("> ```rs ins={1}\n> x\n> ```\n", "> ```rs\n> x\n> ```\n"),
            ("``` rust\nx\n```\n", "``` rust\nx\n```\n"),
        ] {
            assert_eq!(render_body(source).markdown, markdown);
        }
    }

    #[test]
    fn the_cache_of_code_blocks_knows_their_attributes() {
        let [plain, marked] = ["```rust\nx\n```\n", "```rust {1}\nx\n```\n"].map(render_body);
        assert!(marked.html.contains("<mark class=\"line marked\">"), "{}", marked.html);
        assert_ne!(plain.blocks[0].0, marked.blocks[0].0);
        assert_eq!(marked.blocks[0].0, render_body("```rust mark={1}\nx\n```\n").blocks[0].0);
    }

    #[test]
    fn links_remember_their_line() {
        let rendered = render_body("one\n\n[a](/x/#y)\n");
        let target = LinkTarget { path: "/x/".into(), fragment: Some("y".into()), written: None };
        assert_eq!(rendered.facts.links, [(target, 12)]);
    }

    #[test]
    fn github_flavour_is_understood() {
        let html = render_body("| a |\n|---|\n| b |\n\n- [x] done\n- [ ] open\n\n~~gone~~ www.example.com\n\n> [!NOTE]\n> Mind.\n\nText[^1]\n\n[^1]: Note.\n").html;
        for expected in [
            "<div class=\"table\" tabindex=\"0\"",
            "<input type=\"checkbox\" disabled checked aria-label=\"Done\"> done",
            "<del>gone</del>",
            "href=\"http://www.example.com\"",
            "markdown-alert-note",
            "data-footnote-ref",
            "class=\"footnotes\"",
            "aria-label=\"Back to reference 1\"></a>",
        ] {
            assert!(html.contains(expected), "{expected} is not in {html}");
        }
    }

    #[test]
    fn only_links_back_from_footnotes_lose_their_arrow() {
        let source = "a[^1] b[^1] [↩ back](/x/)\n\n[^1]: c [↩](/x/)\n";
        let html = render_body(source).html;
        for expected in [
            "<a href=\"/x/\">↩ back</a>",
            "c <a href=\"/x/\">↩</a> <a href=\"#fnref-1\"",
            "aria-label=\"Back to reference 1\"></a>",
            "aria-label=\"Back to reference 1-2\"><sup class=\"footnote-ref\">2</sup></a></p>",
        ] {
            assert!(html.contains(expected), "{expected} is not in {html}");
        }
    }

    fn test_catalog() -> LinkCatalog {
        let mut catalog =
            LinkCatalog { base_url: "https://www.example.com".into(), ..LinkCatalog::default() };
        catalog.assets.insert("/assets/i.svg".into(), "/assets/i.0123456789.svg".into());
        catalog.assets.insert("/assets/broken.png".into(), "/assets/broken.0123456789.png".into());
        let size = ImageSize { width: 30, height: 20 };
        catalog.images.insert("/assets/i.svg".into(), ImageFacts { size, variants: Vec::new() });
        catalog
    }

    fn render_body(source: &str) -> RenderedBody {
        render_with(source, &test_catalog())
    }

    fn render_with(source: &str, catalog: &LinkCatalog) -> RenderedBody {
        render(
            source,
            10,
            LinkOrigin { file: "pages/here.md", path: "/here/" },
            catalog,
            &Highlighter::default(),
            &WordList::english(),
            &HashMap::default(),
        )
    }
}
