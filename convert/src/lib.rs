//! Converts HTML pages to Markdown: finds the main content and writes it as GitHub Flavored Markdown.

mod block;
mod blocks;
mod clean;
mod code;
mod dom;
mod embedded;
mod footnotes;
mod inline;
mod main_content;
mod math;
mod media;
mod metadata;
mod notices;
mod parse;
mod select;
mod table;
mod writer;

use block::Block;
use blocks::Converter;
pub use embedded::Embedded;
pub use metadata::Metadata;
pub use select::Selector;
use std::collections::HashSet;
pub use url::Url;

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The address of the page, used to make relative links absolute.
    pub url: Option<Url>,
    /// Selects the elements that contain the main content. If this is `None` or matches nothing, the content
    /// is detected.
    pub main: Option<Selector>,
    /// Selects the elements to leave out.
    pub exclude: Option<Selector>,
    /// Hashes (from [`Converted::block_hashes`]) of blocks that repeat across the pages of a site. These
    /// blocks are left out, except for headings and code blocks that directly precede a block that is kept.
    pub boilerplate: HashSet<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    pub metadata: Metadata,
    pub embedded: Embedded,
    /// The Markdown without front matter.
    pub markdown: String,
    /// The hash of each Markdown block, for finding the blocks that the pages of a site share.
    pub block_hashes: Vec<u64>,
    /// Whether [`Options::main`] selected the content.
    pub is_selected: bool,
    /// Number of letters and digits in the page's body, without scripts and styles.
    pub page_letters: usize,
    /// Number of letters and digits in [`Converted::markdown`].
    pub letters: usize,
    /// Whether a part is missing because the page exceeded a limit.
    pub is_truncated: bool,
}

impl Converted {
    /// The Markdown with front matter.
    pub fn document(&self) -> String {
        let front_matter = self.metadata.front_matter(&[]);
        // At the start of a document, `---` would begin front matter.
        match self.markdown.strip_prefix("---\n").filter(|_| front_matter.is_empty()) {
            Some(rest) => format!("***\n{rest}"),
            None => front_matter + &self.markdown,
        }
    }
}

/// Parses the absolute address of a page.
pub fn parse_url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|e| format!("not an absolute URL: {text}: {e}"))
}

/// The writer stops once the output is longer than [`MIN_OUTPUT`] bytes plus this many times the input.
const MAX_EXPANSION: usize = 4;
const MIN_OUTPUT: usize = 64 * 1024;

/// Converts a page in time and memory proportional to its length.
pub fn convert(html: &str, options: &Options) -> Converted {
    let mut dom = parse::parse(html);
    let base = clean::base_url(&dom, options.url.as_ref());
    let metadata = metadata::read_metadata(&dom, base.as_ref());
    let has_math = math::has_math_script(&dom);
    let embedded = Embedded::read(&dom);
    let page_letters = clean::count_letters(&dom);
    let is_fragment = is_fragment(html) && options.main.is_none();
    let mut is_selected = false;
    let root = if is_fragment {
        let body = clean::find_body(&dom);
        clean::remove_invisible(&mut dom, body);
        clean::remove_hidden(&mut dom, body);
        body
    } else if let Some(root) =
        main_content::select_content(&mut dom, options.main.as_ref(), options.exclude.as_ref())
    {
        is_selected = true;
        root
    } else {
        main_content::isolate_content(&mut dom)
    };
    let metadata = if is_fragment { Metadata::default() } else { metadata };
    let footnotes = footnotes::extract_footnotes(&mut dom, root);
    let converter = Converter::new(&dom, root, base, footnotes, is_fragment, has_math);
    let mut blocks = converter.convert_document(root);
    if !is_fragment {
        tidy_blocks(&mut blocks, metadata.author.as_deref());
    }
    let limit = html.len().saturating_mul(MAX_EXPANSION).saturating_add(MIN_OUTPUT);
    let mut block_hashes: Vec<u64> = blocks.iter().map(|block| block_hash(block, limit)).collect();
    if !options.boilerplate.is_empty() {
        remove_boilerplate(&mut blocks, &mut block_hashes, &options.boilerplate);
    }
    if let Some(title) = metadata.title.as_deref()
        && !blocks.iter().any(|b| matches!(b, Block::Heading { level: 1, .. }))
    {
        let words = plain_words(title);
        let level = blocks.iter_mut().take(6).find_map(|block| match block {
            Block::Heading { level: level @ 2, text } if plain_words(text) == words => Some(level),
            _ => None,
        });
        if let Some(level) = level {
            *level = 1;
        } else {
            let text = inline::Inline::of_text(title).finish_line();
            blocks.insert(0, Block::Heading { level: 1, text });
        }
    }
    let markdown = writer::write_markdown(&blocks, limit);
    let is_truncated = dom.is_truncated || markdown.len() > limit;
    let letters = clean::letters(&markdown);
    Converted { metadata, embedded, markdown, block_hashes, is_selected, page_letters, letters, is_truncated }
}

/// Removes blocks that repeat across pages. Keeps repeated headings and code that precede other content,
/// because pages of the same kind share headings such as "Examples".
fn remove_boilerplate(blocks: &mut Vec<Block>, hashes: &mut Vec<u64>, repeated: &HashSet<u64>) {
    // From the end, because a block stays depending on the block after it.
    let mut precedes_content = false;
    let is_kept: Vec<bool> = std::iter::zip(&*blocks, &*hashes)
        .rev()
        .map(|(block, hash)| {
            let is_structure = matches!(block, Block::Heading { .. } | Block::Code { .. });
            precedes_content = !repeated.contains(hash) || is_structure && precedes_content;
            precedes_content
        })
        .collect();
    let mut is_kept_block = is_kept.iter().rev();
    blocks.retain(|_| is_kept_block.next() == Some(&true));
    let mut is_kept_hash = is_kept.iter().rev();
    hashes.retain(|_| is_kept_hash.next() == Some(&true));
}

/// Whether the HTML is a fragment, which is converted as a whole: its first 4096 bytes contain none of the
/// tags that indicate a page, such as `<html>`.
fn is_fragment(html: &str) -> bool {
    let start = &html.as_bytes()[..html.len().min(4096)];
    let has = |tag: &[u8]| start.windows(tag.len()).any(|w| w.eq_ignore_ascii_case(tag));
    ![&b"<!doctype"[..], b"<html", b"<head>", b"<body", b"<title", b"<meta", b"<main"].into_iter().any(has)
}

/// Hashes the Markdown of a block, up to `limit` bytes.
fn block_hash(block: &Block, limit: usize) -> u64 {
    let hash = blake3::hash(writer::write_markdown(std::slice::from_ref(block), limit).as_bytes());
    hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Turns all first-level headings except the first into second-level headings. Removes bylines, labels of
/// page controls, rules at the start and the end, headings at the end, and repeated rules.
fn tidy_blocks(blocks: &mut Vec<Block>, author: Option<&str>) {
    let mut is_first = true;
    for block in blocks.iter_mut() {
        if let Block::Heading { level: level @ 1, .. } = block
            && !std::mem::replace(&mut is_first, false)
        {
            *level = 2;
        }
    }
    remove_bylines(blocks, author);
    blocks.retain(|b| !matches!(b, Block::Paragraph(text) if is_page_control(text)));
    let notes = blocks.iter().rposition(|b| !matches!(b, Block::Footnote { .. })).map_or(0, |at| at + 1);
    let mut end = notes;
    while end > 0 && matches!(blocks[end - 1], Block::Rule | Block::Heading { .. }) {
        end -= 1;
    }
    blocks.drain(end..notes);
    let start = blocks.iter().take_while(|b| matches!(b, Block::Rule)).count();
    blocks.drain(..start);
    blocks.dedup_by(|b, a| matches!((a, b), (Block::Rule, Block::Rule)));
}

/// Removes bylines at the beginning, because they repeat the front matter.
fn remove_bylines(blocks: &mut Vec<Block>, author: Option<&str>) {
    let is_text = |b: &Block| {
        matches!(b, Block::Paragraph(text) if text.len() > 200) || matches!(b, Block::Code { .. })
    };
    let start = blocks.iter().take(8).position(is_text).unwrap_or(blocks.len().min(4));
    let mut at = 0;
    blocks.retain(|block| {
        at += 1;
        let text = match block {
            Block::Paragraph(text) => text.as_str(),
            Block::List(list) if list.items.len() == 1 => match list.items[0].blocks.as_slice() {
                [Block::Paragraph(text)] => text,
                _ => return true,
            },
            _ => return true,
        };
        at > start || !is_byline(text, author)
    });
}

/// Whether a line consists only of dates, reading times and the author's name.
fn is_byline(text: &str, author: Option<&str>) -> bool {
    if text.len() > 250 || text.starts_with("![") || text.starts_with("[![") {
        return false;
    }
    let words = plain_words(text);
    let author: Vec<String> = author.map(plain_words).unwrap_or_default();
    let mut has_date = false;
    let is_known = |word: &String| {
        let number = word.parse::<u32>().ok();
        let is_month = word.len() >= 3 && MONTHS.iter().any(|m| m.starts_with(word.as_str()) || *m == word);
        has_date |= is_month || number.is_some_and(|n| (1990..2100).contains(&n)) || word == "read";
        number.is_some() || is_month || author.contains(word) || BYLINE_WORDS.contains(&word.as_str())
    };
    let is_all_known = !words.is_empty() && words.len() <= 16 && words.iter().all(is_known);
    is_all_known && (has_date || !author.is_empty() && words.iter().any(|w| author.contains(w)))
}

#[rustfmt::skip]
const MONTHS: &[&str] = &[
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
];

#[rustfmt::skip]
const BYLINE_WORDS: &[&str] = &[
    "a", "am", "and", "at", "author", "by", "date", "est", "gmt", "last", "min", "mins", "minute",
    "minutes", "mon", "on", "pm", "posted", "published", "read", "reading", "sat", "sun", "the", "thu",
    "time", "tue", "updated", "utc", "wed", "written", "fri", "st", "nd", "rd", "th", "monday",
    "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "modified", "created",
];

/// The words of inline Markdown in lower case, without link destinations.
fn plain_words(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("](") {
        plain.push_str(&rest[..at]);
        plain.push(' ');
        rest = rest[at..].split_once(')').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    plain.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_lowercase).collect()
}

/// Whether a paragraph is only the label of a page control, such as "share" or "back to top".
fn is_page_control(text: &str) -> bool {
    text.len() <= 200 && CONTROLS.contains(&plain_words(text).join(" ").as_str())
}

#[rustfmt::skip]
const CONTROLS: &[&str] = &[
    "share", "share this", "share this article", "share this post", "print", "tweet", "copy link",
    "email", "advertisement", "copy", "skip to content", "skip to main content", "back to top",
    "edit this page", "edit this page on github", "edit on github", "leave a comment", "comments",
    "reply", "log in", "sign in", "sign up", "subscribe", "load more", "show more", "loading",
    "was this page helpful", "was this helpful", "report a problem", "improve this page", "next",
    "previous", "table of contents", "on this page", "in this article", "facebook", "twitter",
    "linkedin", "close", "menu", "search", "listen to this article",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The Markdown of a fragment.
    pub(super) fn markdown(html: &str) -> String {
        convert(html, &Options::default()).markdown
    }

    #[test]
    fn converts_the_elements_of_a_page() {
        for (html, expected) in [
            ("<h1>a</h1><p>b <strong>c</strong><hr>", "# a\n\nb **c**\n\n---\n"),
            ("<ul><li>a<ol><li>b</ol><li>c</ul>", "- a\n  1. b\n- c\n"),
            ("<ul><li><p>a<li><p>b</ul>", "- a\n\n- b\n"),
            ("<ul><li><input type=checkbox checked> a<li><input type=checkbox> b</ul>", "- [x] a\n- [ ] b\n"),
            ("<blockquote><p>a<p>b</blockquote>", "> a\n>\n> b\n"),
            ("<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\n\nb\n\nc\n\nd\n"),
            ("a<br>b<br><br>c", "a  \nb\n\nc\n"),
            (
                "<p>a<sub>1</sub> <kbd>b</kbd> <mark>c</mark> <del>d</del>",
                "a<sub>1</sub> <kbd>b</kbd> <mark>c</mark> ~~d~~\n",
            ),
            (
                "<details><summary>a</summary><p>b</details>",
                "<details>\n<summary>a</summary>\n\nb\n\n</details>\n",
            ),
            (
                "<div class=language-rust><span class=lang>rust</span><pre><code>x</code></pre></div>",
                "```rust\nx\n```\n",
            ),
            ("<p><code>a`b</code> <a href='/x y' title=t>c</a>", "``a`b`` [c](/x%20y \"t\")\n"),
            ("<a href=/x><h3>a</h3><p>b</a>", "### [a](/x)\n\n[b](/x)\n"),
            ("<figure><img src=/a.png alt=b><figcaption>c</figcaption></figure>", "![b](/a.png)\n\nc\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn a_page_has_one_first_level_heading() {
        for (body, expected) in [
            ("<h2>A b</h2><p>c", "# A b\n\nc\n"),
            ("<p>c<h2>d</h2><p>e", "# A b\n\nc\n\n## d\n\ne\n"),
            ("<h1>c</h1><p>d<h1>e</h1><p>f", "# c\n\nd\n\n## e\n\nf\n"),
        ] {
            assert_eq!(markdown(&format!("<title>A\u{a0}b</title>{body}")), expected, "{body}");
        }
    }

    #[test]
    fn a_list_of_the_chapters_pages_stays_and_one_of_its_sections_goes() {
        let page = |links: &str| markdown(&format!("<title>A</title><body><p>b<div class=toc>{links}</div>"));
        assert_eq!(page("<a href=c.html>C</a>"), "# A\n\nb\n\n[C](c.html)\n");
        assert_eq!(page("<a href=#c>C</a>"), "# A\n\nb\n");
    }

    /// The number of nodes read by the conversion of `start`, then `piece` so many times, then `end`.
    fn work(start: &str, piece: &str, end: &str, count: usize) -> u64 {
        let html = format!("<!doctype html><title>t</title><body>{start}{}{end}", piece.repeat(count));
        let before = dom::NODE_READS.get();
        convert(&html, &Options::default());
        dom::NODE_READS.get() - before
    }

    #[test]
    fn a_page_that_is_twice_as_long_takes_twice_the_work() {
        for (start, piece, end) in [
            ("", "<p>x", ""),
            ("<pre><span class=line>", "<br>", ""),
            ("<pre><span class=line>", "<i>x</i><br>", ""),
            ("<h2>", "<a href=#x>y</a>", ""),
            ("<h2 id=x>", "<i>x</i>", ""),
            ("<picture>", "<img>", ""),
            ("<picture>", "<source><img>", ""),
            ("<div>", "<span class=lang>x</span>", ""),
            ("<table>", "<tr><td>x<td>y", ""),
            // Many references to one large note, and many notes.
            ("<p>", "<sup><a href=#n>1</a></sup>", "<p id=n>x <a href=#r>y</a>"),
            ("<p id=n>x <a href=#r>y</a></p><p><span>", "<a href=#n id=r>1</a>", "</span>"),
            ("<p><sup><a id=r href=#n>1</a></sup><ol><li id=n>x<p>", "<a href=#r>^</a>", ""),
            ("<ol>", "<li id=n>x <a href=#r>^</a>", "</ol><p><sup><a href=#n id=r>1</a></sup>"),
            ("", "<p>x<sup>1</sup>", ""),
            ("<p>", "<i></i><sup>1</sup>", ""),
            ("<p>x<sup>1</sup><hr>", "<p>1. x", ""),
        ] {
            let (once, twice) = (work(start, piece, end, 1000), work(start, piece, end, 2000));
            assert!(twice * 10 <= once * 22, "{start} {piece} {end}: {once}, {twice}");
        }
    }

    #[test]
    fn many_footnotes_take_work_in_proportion() {
        let page = |count: usize| {
            let part = |f: &dyn Fn(usize) -> String| (0..count).map(f).collect::<String>();
            let references = part(&|i| format!("<sup><a href=#n{i} id=r{i}>{}</a></sup> ", i % 1000));
            let notes = part(&|i| format!("<p id=n{i}>x <a href=#r{i}>^</a></p>y"));
            let lists = part(&|i| format!("<ol><li id=m{i}>x <a href=#s{i}>^</a></ol>z"));
            let more = part(&|i| format!("<sup><a href=#m{i} id=s{i}>*</a></sup>"));
            let html = format!("<p>{references}{more}</p><div class=notes>{notes}</div><hr>{lists}");
            let before = dom::NODE_READS.get();
            let converted = convert(&html, &Options::default());
            assert_eq!(converted.markdown.matches("\n[^").count(), 2 * count, "all notes are found");
            dom::NODE_READS.get() - before
        };
        let (once, twice) = (page(300), page(600));
        assert!(twice * 10 <= once * 22, "{once}, {twice}");
    }

    #[test]
    fn repeated_blocks_are_removed_except_before_content() {
        let page = "<title>t</title><body><h1>t</h1><p>links<h2>Examples</h2><pre>a</pre><p>own<p>links<h2>See also</h2><p>links";
        let alone = convert(page, &Options::default());
        let hashes = alone.block_hashes.iter().enumerate();
        let boilerplate: HashSet<u64> =
            hashes.filter(|(index, _)| *index != 4).map(|(_, hash)| *hash).collect();
        let converted = convert(page, &Options { boilerplate, ..Options::default() });
        assert_eq!(converted.markdown, "# t\n\n## Examples\n\n```\na\n```\n\nown\n");
        assert_eq!(converted.block_hashes, alone.block_hashes[2..5]);
    }

    #[test]
    fn repeated_blocks_are_removed_in_one_pass() {
        // One pass takes an instant. Moving the rest of the page for each block would take minutes.
        let block = |text: &str| Block::Paragraph(text.to_owned());
        let mut blocks: Vec<Block> = (0..300_000).map(|_| block("")).collect();
        let mut hashes: Vec<u64> = (0..300_000).map(|index| index % 2).collect();
        remove_boilerplate(&mut blocks, &mut hashes, &HashSet::from([0]));
        assert_eq!((blocks.len(), hashes.len()), (150_000, 150_000));
    }

    #[test]
    fn deep_and_large_pages_stay_bounded() {
        for piece in [
            "<div>",
            "<ul><li>x",
            "<blockquote>x",
            "<b>",
            "<table><tr><td>x",
            "<a href=x>",
            "<span>x",
            "</p>",
            "<dl><dd>x",
            "<details>x",
        ] {
            let html = piece.repeat(200_000 / piece.len());
            let converted = convert(&html, &Options::default());
            assert!(
                converted.markdown.len() <= html.len() * 5 + MIN_OUTPUT,
                "{piece}: {}",
                converted.markdown.len()
            );
        }
    }
}
