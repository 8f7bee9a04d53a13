//! Accounts for the text of a page: which elements the Markdown leaves out and by which rule, and whether all
//! other text of the main region is in it.

use super::dom::{Dom, NodeId, clip, collapse, count_letters};
use super::inline_markdown_tokenizer::{Kind, Parts};
use super::markdown_block::Block;
use super::omission_reason::Rule;
use memchr::memmem;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// An element with text that the Markdown leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omission {
    pub rule: Rule,
    /// The start tag with its `id`, `class`, `role` and `href` only. Empty values and values of more than 60
    /// bytes are dropped, and the others are not escaped.
    pub tag: String,
    /// The start of the text, with white space collapsed. Ends with `…` if the text is truncated.
    pub text: String,
    /// Number of letters and digits in the text.
    pub letters: usize,
}

/// How much of the main region's text is missing from the Markdown although readers of the page see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Number of letters and digits that are missing.
    pub letters: usize,
    /// Number of letters and digits in the main region, with the missing ones, but without what rules leave
    /// out on purpose.
    pub of: usize,
    /// The start of the first missing text; empty if nothing is missing.
    pub first: String,
    /// The name of the innermost element that contains the first missing text; empty if nothing is missing.
    pub element: String,
    /// The rule that left this text out. `None` if a defect of the converter lost it, or if nothing is
    /// missing.
    pub rule: Option<Rule>,
}

/// Maximum length in bytes of a text in [`Omission`] and [`Loss`], without the `…` at its end.
const MAX_EXCERPT: usize = 80;

/// Maximum length in bytes of an attribute in [`Omission::tag`].
const MAX_ATTRIBUTE: usize = 60;

/// The elements that were left out, and the outermost ones outside the main region `root`, in the order of
/// the page, except that elements which the converter added come last. Elements without letters or digits are
/// not listed, nor are scripts and styles. Of several rules for an element, the first one is listed.
pub(super) fn list_omissions(dom: &Dom, root: NodeId) -> Vec<Omission> {
    let body = dom.body();
    let mut nodes = dom.omitted.borrow().clone();
    if root != body {
        let above: HashSet<NodeId> = dom.ancestors(root).collect();
        let outermost = dom.outermost(body, |id| id == root || !above.contains(&id));
        // If several regions are selected, the root that contains them is not an element.
        let is_outside = |&id: &NodeId| !dom.ancestors(id).any(|above| above == root);
        nodes.extend(outermost.into_iter().filter(is_outside).map(|node| (node, Rule::Outside)));
    }
    nodes.sort_by_key(|&(node, _)| node);
    nodes.dedup_by_key(|&mut (node, _)| node);
    let omission = |&(node, rule): &(NodeId, Rule)| {
        let text = dom.text_content(node);
        let letters = count_letters(&text);
        let text = collapse(&text);
        (letters > 0).then(|| Omission {
            rule,
            tag: abbreviated_start_tag(dom, node),
            text: excerpt(&text),
            letters,
        })
    };
    nodes.iter().filter_map(omission).collect()
}

fn excerpt(text: &str) -> String {
    let clipped = clip(text, MAX_EXCERPT);
    if clipped.len() < text.len() { format!("{clipped}…") } else { text.to_owned() }
}

/// The start tag as [`Omission::tag`] describes it; empty if the node is not an element.
fn abbreviated_start_tag(dom: &Dom, id: NodeId) -> String {
    let Some(element) = dom.element(id) else { return String::new() };
    let mut tag = format!("<{}", element.name.local);
    for name in ["id", "class", "role", "href"] {
        let value = dom.attribute(id, name).unwrap_or_default();
        if !value.is_empty() && value.len() <= MAX_ATTRIBUTE {
            tag += &format!(" {name}=\"{value}\"");
        }
    }
    tag + ">"
}

/// Counts the letters and digits of the texts below `roots` that `blocks` lack. Finds most texts that
/// `blocks` have at another place; each place counts for one text only. An element that a rule leaves out is
/// missing as a whole if the last rule for it is a loss ([`Rule::is_loss`]); otherwise, its text does not
/// count at all. The first missing text is the one with the lowest id.
pub(super) fn find_loss(dom: &Dom, roots: impl Iterator<Item = NodeId>, blocks: &[Block]) -> Loss {
    let omitted = dom.omitted.borrow();
    let skipped: HashMap<NodeId, Rule> = omitted.iter().copied().collect();
    let (mut texts, mut letters) = (Vec::new(), String::new());
    let mut missing: Vec<(NodeId, usize, Option<Rule>)> = Vec::new();
    for root in roots {
        let mut next = Some(root);
        while let Some(id) = next {
            let rule = skipped.get(&id).copied();
            let start = letters.len();
            if let Some(rule) = rule.filter(|rule| rule.is_loss()) {
                letters.extend(letter_runs(&dom.text_content(id)));
                missing.push((id, letters[start..].chars().count(), Some(rule)));
            } else if let Some(text) = dom.text(id).filter(|_| rule.is_none()) {
                letters.extend(letter_runs(text));
                texts.push((id, start..letters.len()));
            }
            next = dom.following(id, root, rule.is_some());
        }
    }
    texts.retain(|(_, range)| !range.is_empty());
    let mut written = Letters::default();
    written.add_blocks(blocks);
    // Each round looks for the texts that the round before has not found, in the letters that are left.
    // A text may occur elsewhere by chance, so it first counts there only if it is long, or if the next one
    // follows it.
    for (min_length, as_words) in [(LONG, true), (LONG, true), (0, true), (0, false)] {
        if texts.is_empty() {
            break;
        }
        (written, texts) = written.subtract(&letters, &texts, min_length, as_words);
    }
    missing.extend(texts.into_iter().map(|(id, range)| (id, letters[range].chars().count(), None)));
    let mut loss = Loss { of: letters.chars().count(), ..Loss::default() };
    loss.letters = missing.iter().map(|(_, count, _)| count).sum();
    if let Some(&(id, _, rule)) = missing.iter().filter(|(_, count, _)| *count > 0).min_by_key(|(id, ..)| *id)
    {
        let element = dom.ancestors(id).find_map(|a| dom.element(a));
        loss.element = element.map(|element| element.name.local.to_string()).unwrap_or_default();
        loss.first = excerpt(&dom.collapsed_text(id));
        loss.rule = rule;
    }
    loss
}

/// Maximum distance in bytes from the end of one found text to the start of the next.
const WINDOW: usize = 4000;

/// A text of at least this many bytes is unlikely to occur twice by chance.
const LONG: usize = 40;

/// The letters and digits of a text, and the positions where its words start.
#[derive(Default)]
struct Letters {
    text: String,
    starts: Vec<usize>,
    is_in_word: bool,
}

impl Letters {
    /// Adds the letters and digits of a text. Its first word continues the last word, unless a block or a tag
    /// separates them.
    fn push_str(&mut self, text: &str) {
        for (number, run) in letter_runs(text).enumerate() {
            self.is_in_word &= number == 0;
            if !run.is_empty() {
                if !self.is_in_word {
                    self.starts.push(self.text.len());
                }
                self.text.push_str(run);
                self.is_in_word = true;
            }
        }
    }

    /// Adds the text that readers of the Markdown see, without markers, labels and descriptions of images.
    fn add_blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            match block {
                Block::Heading { text, .. } | Block::Paragraph(text) => self.add_inline(text),
                Block::Code { text, .. } | Block::Math(text) => self.push_str(text),
                Block::Quote(blocks) | Block::Alert { blocks, .. } | Block::Footnote { blocks, .. } => {
                    self.add_blocks(blocks);
                }
                Block::List(list) => list.items.iter().for_each(|item| self.add_blocks(&item.blocks)),
                Block::Table(table) => table.rows.iter().flatten().for_each(|cell| self.add_inline(cell)),
                Block::Html(html) => self.add_html(html),
                Block::Rule => {}
            }
            self.is_in_word = false;
        }
    }

    /// Adds inline Markdown without tags, images and the destinations of links.
    fn add_inline(&mut self, text: &str) {
        for (kind, part) in Parts::new(text) {
            match kind {
                Kind::Image | Kind::Tag | Kind::Destination => self.is_in_word = false,
                Kind::Text | Kind::Escape | Kind::Code | Kind::Open | Kind::Close => self.push_str(part),
            }
        }
    }

    /// Adds the text of HTML that the converter wrote, without tags and character references.
    fn add_html(&mut self, html: &str) {
        let mut rest = html;
        while let Some(at) = rest.find(['<', '&']) {
            self.push_str(&rest[..at]);
            self.is_in_word = false;
            let end = if rest[at..].starts_with('<') { '>' } else { ';' };
            rest = rest[at..].split_once(end).map_or("", |(_, after)| after);
        }
        self.push_str(rest);
    }

    /// Searches for texts, given as ranges of `letters`, one after the other. Returns the letters between
    /// those that were found, and the texts that were not found.
    ///
    /// A text that does not directly follow the one before must have at least `min_length` bytes, or the next
    /// text must directly follow it. With `as_words`, it must also begin a word and, unless the next text
    /// follows it, end one. Only its first 40 occurrences that start within [`WINDOW`] bytes are checked.
    fn subtract<T: Copy>(
        &self,
        letters: &str,
        texts: &[(T, Range<usize>)],
        min_length: usize,
        as_words: bool,
    ) -> (Self, Vec<(T, Range<usize>)>) {
        let is_start = |at: usize| at == self.text.len() || self.starts.binary_search(&at).is_ok();
        let (mut gaps, mut not_found, mut at) = (Self::default(), Vec::new(), 0);
        for (number, (id, range)) in texts.iter().enumerate() {
            let text = &letters[range.clone()];
            let rest = &self.text[at..];
            let found = if rest.starts_with(text) {
                Some(at)
            } else {
                let next = texts.get(number + 1).map_or("", |(_, range)| &letters[range.clone()]);
                let window = clip(rest, WINDOW.saturating_add(text.len()));
                let matches = memmem::find_iter(window.as_bytes(), text.as_bytes()).map(|start| at + start);
                matches.take(WINDOW / 100).find(|&start| {
                    let end = start + text.len();
                    let is_followed = !next.is_empty() && self.text[end..].starts_with(next);
                    (!as_words || is_start(start) && (is_followed || is_start(end)))
                        && (is_followed || text.len() >= min_length)
                })
            };
            match found {
                Some(start) => {
                    gaps.add_part(self, at..start);
                    at = start + text.len();
                }
                None => not_found.push((*id, range.clone())),
            }
        }
        gaps.add_part(self, at..self.text.len());
        (gaps, not_found)
    }

    /// Appends a part of `other`. The start of the part counts as the start of a word, even inside a word.
    fn add_part(&mut self, other: &Self, part: Range<usize>) {
        if part.is_empty() {
            return;
        }
        let offset = self.text.len();
        let first = other.starts.partition_point(|&start| start <= part.start);
        let starts = other.starts[first..].iter().take_while(|&&start| start < part.end);
        self.starts.push(offset);
        self.starts.extend(starts.map(|&start| start - part.start + offset));
        self.text += &other.text[part];
    }
}

/// Splits a text into runs of letters and digits. Two adjacent separators have an empty run between them.
fn letter_runs(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::super::{Options, convert};
    use super::*;

    fn paragraph(text: &str) -> Block {
        Block::Paragraph(text.to_owned())
    }

    /// The missing letters of a page, and the first missing text.
    fn loss(html: &str, blocks: &[Block]) -> (usize, String) {
        let dom = super::super::parse::parse(html);
        let loss = find_loss(&dom, std::iter::once(dom.body()), blocks);
        (loss.letters, loss.first)
    }

    #[test]
    fn missing_text_is_found() {
        let html =
            "<h2>Parameters</h2><p>one two <b>th</b>ree<h2>Parameters</h2><p>four<pre>x = [1](2)</pre>";
        let heading = || Block::Heading { level: 2, text: "Parameters".into() };
        let code = || Block::Code { language: "rust".into(), text: "x = [1](2)".into() };
        let all = || vec![heading(), paragraph("one two **th**ree"), heading(), paragraph("four"), code()];
        assert_eq!(loss(html, &all()), (0, String::new()));
        for (missing, letters, first) in [
            (0, 10, "Parameters"),
            (1, 11, "one two"),
            (2, 10, "Parameters"),
            (3, 4, "four"),
            (4, 3, "x = [1](2)"),
        ] {
            let mut blocks = all();
            blocks.remove(missing);
            assert_eq!(loss(html, &blocks), (letters, first.to_owned()), "{missing}");
        }
        assert_eq!(loss("<p>a<p>a", &[paragraph("a")]), (1, "a".to_owned()), "each text counts once");
        // Destinations, tags and the titles of links are not text.
        assert_eq!(
            loss("<p>a<p>secret<p>b", &[paragraph("[a](/secret \"secret\")<secret>"), paragraph("b")]).0,
            6
        );
    }

    #[test]
    fn text_in_another_order_or_with_additions_is_not_missing() {
        for (html, blocks) in [
            (
                "<p>C<p>D<p>in C we do it<p>in D, too",
                ["**C**", "in C we do it", "**D**", "in D, too"].as_slice(),
            ),
            (
                "<p>see a note: <b>text of the note</b><p>and more",
                &["and more", "see a note:", "text of the note"],
            ),
            ("<p>a<p>b", &["![an image of a](a.png) a", "[^1] b"]),
            ("<p>a`b*c\\d", &["a\\`b\\*c\\d"]),
            ("<p>a<code>`b`</code>", &["a`` `b` ``"]),
            ("<p>[a]( b)", &["\\[a]( b)"]),
        ] {
            let blocks: Vec<Block> = blocks.iter().map(|text| paragraph(text)).collect();
            assert_eq!(loss(html, &blocks), (0, String::new()), "{html}");
        }
        let html = "<p>a &lt;b> &amp;amp; c";
        assert_eq!(loss(html, &[Block::Html("<b class=\"x\">a &lt;b&gt; &amp;amp; c</b>".into())]).0, 0);
    }

    #[test]
    fn each_omission_has_a_rule() {
        let html = "<!doctype html><title>t</title><body><header>site</header><main><nav><a href=/x>menu</a></nav>\
            <h2 id=a>b<a class=headerlink href=#a>Permalink to this</a></h2><p hidden>secret</p><button>Copy</button>\
            <select><option>one</select><div class='admonition tip'><p class=admonition-title>Tip</p>c</div>\
            <div class=slide>d</div><div class='slide clone'>d</div><i data-pagefind-ignore>no</i>\
            <b data-markdown-ignore>human</b></main>";
        let converted = convert(html, &Options { explain: true, ..Options::default() });
        assert_eq!(converted.loss, Loss { of: 3, ..Loss::default() });
        let rules: Vec<_> = converted
            .omissions
            .iter()
            .map(|o| (o.rule, o.tag.as_str(), o.text.as_str(), o.letters))
            .collect();
        assert_eq!(
            rules,
            [
                (Rule::Outside, "<header>", "site", 4),
                (Rule::Navigation, "<nav>", "menu", 4),
                (Rule::Permalink, "<a class=\"headerlink\" href=\"#a\">", "Permalink to this", 15),
                (Rule::Hidden, "<p>", "secret", 6),
                (Rule::Control, "<button>", "Copy", 4),
                (Rule::Control, "<select>", "one", 3),
                (Rule::AlertTitle, "<p class=\"admonition-title\">", "Tip", 3),
                (Rule::Copy, "<div class=\"slide clone\">", "d", 1),
                (Rule::Excluded, "<i>", "no", 2),
                (Rule::Excluded, "<b>", "human", 5),
            ]
        );
        let regions = "<!doctype html><title>t</title><body><div><p data-pagefind-body>a</p><p>b</p></div>\
            <p data-pagefind-body>c</p>";
        let converted = convert(regions, &Options { explain: true, ..Options::default() });
        let texts: Vec<&str> = converted.omissions.iter().map(|omission| &*omission.text).collect();
        assert_eq!((&*converted.markdown, texts), ("# t\n\na\n\nc\n", vec!["b"]));
    }

    #[test]
    fn columns_beyond_the_limit_are_a_loss() {
        let html = format!("<table><tr>{}<tr>{}</table>", "<th>a".repeat(201), "<td>b".repeat(200));
        let loss = convert(&html, &Options::default()).loss;
        assert_eq!(
            (loss.letters, &*loss.first, &*loss.element, loss.rule),
            (1, "a", "th", Some(Rule::TooWide))
        );
    }
}
