//! Converts HTML pages to Markdown: finds the main region and writes it as GitHub Flavored Markdown. Leaves
//! out nothing that a reader of the page would call content, except beyond the limits and in the mode for
//! articles.
//!
//! A conversion goes through these stages. They share the tree (`dom`, `omission_rule`, `select`,
//! `text_measure`) and the Markdown (`markdown_block`, `inline`, `inline_markdown_parts`, `autolink`).
//!
//! 1. `parse` builds the tree. `inline_scripts` and `metadata` read the inline scripts and the metadata of
//!    the page.
//! 2. `templates`, `markdown_source`, `script_embeds`, `mail_addresses`, `clean`, `copies`, `never_shown` and
//!    `displayed_text` change the tree to what visitors see.
//! 3. `main_content` finds the main region; `article` guesses the one of a page of another site.
//! 4. `footnotes` takes the notes out of the text, with `footnote_references`, `footnote_marks`,
//!    `footnote_blocks` and `footnote_numbers`.
//! 5. `phrasing` and `block_conversion` convert the region to blocks, with readers for the markup of
//!    generators: `documentation_markup`, `answer_symbols`, `code`, `math`, `links`, `media` and `table`.
//!    `spacing` decides where the layout of a page separates words.
//! 6. `omitted_text` compares the text of the blocks with that of the region.
//! 7. `markdown_document` gives the blocks one title, and `writer` writes them.

mod article;
mod autolink_detection;
mod block_conversion;
mod check_marks;
mod clean;
mod code;
mod content_outside_region;
mod copies;
mod csp_inline_scripts;
mod decode;
mod displayed_text_corrections;
mod div_and_span_tables;
mod documentation_markup;
mod dom;
mod embedded_markdown_source;
mod flat_lists;
mod footnote_cleanup;
mod footnote_references;
mod footnote_splitting;
mod footnotes;
mod header_before_main_content;
mod html_tree;
mod inline;
mod inline_markdown_tokenizer;
mod inline_spacing;
mod language_tag;
mod links;
mod list_numbers;
mod mail_addresses;
mod main_content;
mod markdown_block;
mod markdown_cleanup;
mod math;
mod mathml;
mod media;
mod metadata;
mod never_shown;
mod omission_reason;
mod omitted_text;
mod panels;
mod parse;
mod phrasing;
mod script_embeds;
mod select;
mod table;
mod tag_scan;
mod template_elements;
mod text_measure;
mod titles;
mod unlinked_footnotes;
mod writer;

pub use csp_inline_scripts::Embedded;
pub use decode::{declared_encoding, decode_html};
pub use html_tree::{HtmlElement, HtmlTree};
pub use markdown_cleanup::is_fragment;
pub use metadata::{Metadata, forbids_index};
pub use omission_reason::Rule;
pub use omitted_text::{Loss, Omission};
use phrasing::{Converter, Mode};
pub use select::Selector;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
pub use tag_scan::{Attributes, attributes};
pub use titles::{common_site_name, title_ends, title_without};
pub use url::Url;

/// The options of a conversion: which parts of a page to convert, and facts about the page and its site.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The address of the page, used to make relative links absolute.
    pub url: Option<Url>,
    /// Selects the elements that contain the main content. If this is `None` or matches nothing, the content
    /// is detected.
    pub main: Option<Selector>,
    /// Selects the elements to leave out. Has no effect on a fragment; see [`convert`].
    pub exclude: Option<Selector>,
    /// Hashes (from [`Converted::link_blocks`]) of blocks of links that repeat across the pages of a site.
    /// These blocks are left out.
    pub boilerplate: HashSet<u64>,
    /// The name of the site, which the converter removes from the beginning or the end of a page's title.
    pub site_name: Option<String>,
    /// Whether most pages of the site declare its name as their title. A first-level heading with this name
    /// then is not the title of a page either, except of the home page.
    pub has_common_title: bool,
    /// Markdown that replaces the elements `<form data-frontdesk="NAME">`, by name: it says how to send the
    /// form. Forms with other names are converted like other content.
    pub forms: Arc<[(String, String)]>,
    /// Whether to extract the main content of a page of another site: also removes what is probably not part
    /// of it, such as comments and lists of links, and so may lose content.
    pub article: bool,
    /// Whether to list the elements that are left out in [`Converted::omissions`].
    pub explain: bool,
}

/// The result of a conversion. For a fragment (see [`convert`]), there is no metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    pub metadata: Metadata,
    pub embedded: Embedded,
    /// The names from all `<form data-frontdesk="NAME">` elements, including forms outside the main region.
    pub forms: Vec<String>,
    /// The Markdown without front matter.
    pub markdown: String,
    /// The hashes of the blocks that consist only of links to pages, for finding those that the pages of a
    /// site share. Each block has one for its distance from the start of the page and one for that from the
    /// end.
    pub link_blocks: Vec<[u64; 2]>,
    /// The title that the page declares, including the name of the site.
    pub declared_title: Option<String>,
    /// Whether the first-level heading is the title from the page's metadata, because the content has none.
    pub has_title_as_heading: bool,
    /// Whether [`Options::main`] selected the content.
    pub is_selected: bool,
    /// Number of letters and digits in the page's body, without scripts, styles, templates and `<noscript>`.
    /// Not all are counted if there are more than [`COUNTED_LETTERS`].
    pub page_letters: usize,
    /// Whether a part is missing because the page exceeded a limit on nodes, depth or output.
    pub is_truncated: bool,
    /// The text of the main region that is missing although readers of the page see it. Not counted in the
    /// mode for articles.
    pub loss: Loss,
    /// The elements that are left out, in document order, if [`Options::explain`] is set.
    pub omissions: Vec<Omission>,
}

impl Converted {
    /// The Markdown with front matter, if there is metadata. Otherwise, a rule at the start is written as
    /// `***`.
    pub fn document(&self) -> String {
        let front_matter = self.metadata.front_matter(&[]);
        // At the start of a document, `---` would begin front matter.
        match self.markdown.strip_prefix("---\n").filter(|_| front_matter.is_empty()) {
            Some(rest) => format!("***\n{rest}"),
            None => front_matter + &self.markdown,
        }
    }
}

/// Parses an absolute URL of any scheme. The error says what is wrong with it.
pub fn parse_url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|e| format!("not an absolute URL: {text}: {e}"))
}

/// Escapes text for inline Markdown, also between the brackets of a link, and puts it on one line. Collapses
/// white space, drops invisible characters and escapes `|` only if the text has a line feed or another
/// character that may be syntax.
pub fn escape_text(text: &str) -> Cow<'_, str> {
    if text.contains(['\\', '*', '_', '`', '[', ']', '<', '&', '~', '\n']) {
        inline::Inline::description(text).into()
    } else {
        text.into()
    }
}

/// Like [`escape_text`], but for text outside of links, in which renderers make links of addresses. If the
/// text has an address, does not escape characters inside it, nor brackets that cannot begin a link, nor `|`.
pub fn escape_sentence(text: &str) -> Cow<'_, str> {
    match escape_text(text) {
        Cow::Owned(_) if text.contains("://") || text.contains("www.") => {
            inline::Inline::of_text(text).finish_line().into()
        }
        escaped => escaped,
    }
}

/// Escapes text for a paragraph of its own: like [`escape_sentence`], and also a beginning that would start
/// another block, as in `1. April`.
pub fn escape_paragraph(text: &str) -> String {
    let mut out = String::new();
    writer::push_escaped_line(&mut out, escape_sentence(text).trim(), false);
    out
}

/// Escapes text for a heading: like [`escape_sentence`], and also `#` at its end.
pub fn escape_heading(text: &str) -> String {
    writer::escape_heading_end(escape_sentence(text).trim())
}

/// The writer stops once the output is longer than [`MIN_OUTPUT`] bytes plus this many times the input.
const MAX_EXPANSION: usize = 4;
const MIN_OUTPUT: usize = 64 * 1024;

/// [`Converted::page_letters`] is only counted up to the end of the text that reaches this number. This is
/// enough to tell pages without text from others.
pub const COUNTED_LETTERS: usize = 1000;

/// Converts a page in time and memory proportional to its length.
///
/// HTML whose start has no tag such as `<html>` or `<main>` is a fragment, unless [`Options::main`] is set:
/// all of it is converted, except for hidden elements and navigation, without detection of the main content,
/// title or metadata. The title of a page becomes its first-level heading if the content has none. Adds a
/// link to the target of a `<meta>` redirect, unless the Markdown already links to it. Leaves out what
/// exceeds a limit ([`Converted::is_truncated`]).
pub fn convert(html: &str, options: &Options) -> Converted {
    let mut dom = parse::parse(html);
    let url = options.url.as_ref();
    let base = clean::base_url(&dom, url);
    let (mut metadata, mut titles) = metadata::read_metadata(&dom, url, options.site_name.as_deref());
    let is_home = url.is_some_and(|url| url.path() == "/");
    let has_math = math::has_math_script(&dom);
    let embedded = Embedded::read(&dom);
    let forms = phrasing::form_names(&dom);
    let declared = options.article.then(|| article::Declared::read(&dom));
    let page_letters = clean::count_page_letters(&dom, COUNTED_LETTERS);
    show_written_content(&mut dom);

    let is_fragment = markdown_cleanup::is_fragment(html) && options.main.is_none();
    let mut is_selected = false;
    let root = if is_fragment {
        let body = dom.body();
        clean::remove_invisible(&mut dom, body, options.article);
        clean::remove_hidden(&mut dom, body, options.article);
        body
    } else if let Some(root) = main_content::select_content(&mut dom, options) {
        is_selected = true;
        root
    } else if let Some(declared) = &declared {
        article::isolate_content(&mut dom, declared)
    } else {
        main_content::isolate_region(&mut dom, &mut titles, is_home)
    };
    div_and_span_tables::mark_tables(&mut dom, root);
    flat_lists::mark_filtered_items(&mut dom, root);
    main_content::remove_navigation(&mut dom, root, is_fragment);
    metadata.title = titles.choose(&dom, root, is_home, options.has_common_title);
    let metadata = if is_fragment { Metadata::default() } else { metadata };

    let footnotes = footnotes::extract_footnotes(&mut dom, root);
    let mode = Mode { is_exact: is_fragment, is_article: options.article, has_math };
    let converter = Converter::new(&dom, root, base, footnotes, mode, &options.forms);
    let mut blocks = converter.convert_document(root);
    let notes = converter.footnotes.definitions.iter().flat_map(|definition| &definition.nodes);
    let roots = std::iter::once(root).chain(notes.copied());
    let loss = if options.article { Loss::default() } else { omitted_text::find_loss(&dom, roots, &blocks) };
    let omissions = if options.explain { omitted_text::list_omissions(&dom, root) } else { Vec::new() };

    if !is_fragment {
        markdown_cleanup::tidy_blocks(&mut blocks);
    }
    let limit = html.len().saturating_mul(MAX_EXPANSION).saturating_add(MIN_OUTPUT);
    let link_blocks = markdown_cleanup::remove_boilerplate(&mut blocks, &options.boilerplate, limit);
    let has_title_as_heading =
        metadata.title.as_ref().is_some_and(|t| markdown_cleanup::add_title(&mut blocks, t));
    if !is_fragment {
        markdown_cleanup::keep_one_title(&mut blocks);
    }
    let mut markdown = writer::write_markdown(&blocks, limit);
    // Agents do not follow `<meta>` redirects, so the page links to its target.
    if let Some(target) = metadata.redirect.as_ref().filter(|to| !markdown.contains(&format!("]({to})"))) {
        markdown_cleanup::add_link(&mut blocks, target);
        markdown = writer::write_markdown(&blocks, limit);
    }
    Converted {
        is_truncated: dom.is_truncated || markdown.len() > limit,
        metadata,
        embedded,
        forms,
        markdown,
        link_blocks,
        declared_title: titles.into_declared(),
        has_title_as_heading,
        is_selected,
        page_letters,
        loss,
        omissions,
    }
}

/// Shows what scripts write into the page: the content of templates, Markdown sources, embedded media and
/// mail addresses.
fn show_written_content(dom: &mut dom::Dom) {
    template_elements::show_templates(dom);
    embedded_markdown_source::show_markdown_source(dom);
    script_embeds::show_embeds(dom);
    mail_addresses::show_mail_addresses(dom);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Markdown of a fragment.
    pub(super) fn markdown(html: &str) -> String {
        convert(html, &Options::default()).markdown
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn converts_the_elements_of_a_page() {
        for (html, expected) in [
            ("<h1>a</h1><p>b <strong>c</strong><hr>", "# a\n\nb **c**\n\n---\n"),
            ("<ul><li>a<ol><li>b</ol><li>c</ul>", "- a\n  1. b\n- c\n"),
            ("<meta http-equiv=refresh content='0; URL=\"/b_c/\"'><h1>a</h1>", "# a\n\n[/b_c/](/b_c/)\n"),
            ("<meta http-equiv=refresh content=0;url=/b><ul><li><a href=/b>c</a></ul>", "- [c](/b)\n"),
            ("<noscript><meta http-equiv=refresh content=0;url=/b></noscript><p>a", "a\n"),
            ("<a href='/x_(b'><pre>a</pre></a>", "```\na\n```\n\n[/x\\_(b](/x_\\(b)\n"),
            (
                "<meta http-equiv=refresh content='0;url=javascript:x'><meta http-equiv=refresh content=9><p>a",
                "a\n",
            ),
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
            (
                "<div><pre><code>x\ny</code></pre><div class=line-numbers-wrapper><span class=line-number>1</span><br><span class=line-number>2</span><br></div></div>",
                "```\nx\ny\n```\n",
            ),
            (
                "<div class=line-numbers><pre>1</pre></div><div class=line-numbers>a 2</div><div>3</div>",
                "```\n1\n```\n\na 2\n\n3\n",
            ),
            ("<p><code\n>\n  a\n  <i>b</i>\n\n  c  d</code>", "`a b c  d`\n"),
            ("<p><code>a`b</code> <a href='/x y' title=t>c</a>", "``a`b`` [c](/x%20y \"t\")\n"),
            (
                "<details><summary><b>a</b> b*c &lt;x> &amp;amp; <a href='/y'>d</a></summary>e</details>",
                "<details>\n<summary><strong>a</strong> b*c &lt;x&gt; &amp;amp; <a href=\"/y\">d</a></summary>\n\ne\n\n</details>\n",
            ),
            (
                "<details><summary><ruby>a<rp>(<rt>b</ruby> <q>c</q><span class=block>d</span>e <i class='fa fa-check'></i></summary></details>",
                "<details>\n<summary>a(b) \u{201c}c\u{201d} d e \u{2713}</summary>\n\n</details>\n",
            ),
            (
                "<details><summary>a<sup><a href=#n id=r>1</a></sup> <img src=data:, data-src=/i alt=b> <img class=emoji src=/e alt=\u{1f333}></summary>c</details><ol><li id=n>d <a href=#r>^</a></ol>",
                "<details>\n<summary>a[1] <img src=\"/i\" alt=\"b\"> \u{1f333}</summary>\n\nc\n\n</details>\n\n[^1]: d\n",
            ),
            (
                "<svg><foreignObject><section><h2>a</h2><ul><li>b</ul></section></foreignObject></svg>",
                "## a\n\n- b\n",
            ),
            ("<video src=/v.mp4><p>a</p></video><object><p>b</object>", "[Video](/v.mp4)\n\nb\n"),
            ("<ol><li>a<li value=9>b<li>c</ol>", "1. a\n\n<!-- -->\n\n9. b\n10. c\n"),
            ("<div role=heading aria-level=300>a</div>", "###### a\n"),
            (
                "<div role=heading aria-level=3>a</div><div role=heading><p>b</div><p>c",
                "### a\n\n## b\n\nc\n",
            ),
            (
                "<p><span style='text-decoration: line-through red'>$99</span> <span style=font-weight:700>not</span> <font style='font-style:italic'>a</font>",
                "~~$99~~ **not** *a*\n",
            ),
            (
                "<p>10<span style=vertical-align:super>2</span> x<span style=vertical-align:sub>1</span> <span style='font-weight:bold;font-style:italic'>b</span>",
                "10<sup>2</sup> x<sub>1</sub> ***b***\n",
            ),
            (
                "<h2><span style=font-weight:bold>a</span></h2><b>b <span style=font-weight:bold>c</span></b> <span style=font-weight:400>d</span><span style=font-weight:bold> </span>",
                "## a\n\n**b c** d\n",
            ),
            ("<p><span style='display: block'>a</span><span style=display:block>b</span>", "a b\n"),
            (
                "<del><p>a</p><p>b<br>c</p></del><s><h2>d</h2><ul><li>e <del>f</del></li></ul><pre>g</pre></s><p>h",
                "~~a~~\n\n~~b  \nc~~\n\n## ~~d~~\n\n- <del>e ~~f~~</del>\n\n```\ng\n```\n\nh\n",
            ),
            ("<del><del><p>a</p></del><p><s>b</s></p></del>", "~~a~~\n\n~~b~~\n"),
            ("<ol reversed><li>a<li>b</ol>", "2. a\n\n<!-- -->\n\n1. b\n"),
            (
                "<p>a <svg><title>b</title><g><text>c<tspan>d</tspan></text></g><path/><text>e</text></svg>f",
                "a c d e f\n",
            ),
            (
                "<svg><g><foreignObject><div>a</div><div><p>b</div></foreignObject></g><style>c</style></svg>",
                "a b\n",
            ),
            (
                "<svg><switch><foreignObject><div>a</div></foreignObject><text>a...</text></switch><switch><g/><a href=/x><text>b</text></a></switch></svg>",
                "a\n",
            ),
            (
                "<svg><switch><text systemLanguage=de>a</text><text>b</text></switch><a href=/x><text>c</text></a><image href=/y aria-label=d /></svg>",
                "b [c](/x) ![d](/y)\n",
            ),
            (
                "<p>a<svg lang=de-AT><switch><text systemLanguage='fr, de'>b</text><text>c</text></switch></svg>",
                "a b\n",
            ),
            (
                "<p><input type=checkbox checked disabled> a</p><p><input type=checkbox disabled> b</p><p><input type=checkbox> c",
                "[x] a\n\n[ ] b\n\nc\n",
            ),
            ("<ul><a><li>a<p>b</a><div><li>c</div></ul>", "- a\n\n  b\n\n- c\n"),
            ("<dl><b><dt>a</b><div><dd>b</div></dl>", "**a**\n\nb\n"),
            (
                "<details><summary><h3>a <code>b</code></h3></summary>c</details>",
                "<details>\n<summary><h3>a <code>b</code></h3></summary>\n\nc\n\n</details>\n",
            ),
            (
                "<x-details summary='a *b'>c</x-details><x-panel-item label=d><p>e</x-panel-item>",
                "**a \\*b**\n\nc\n\n**d**\n\ne\n",
            ),
            ("<x-details summary=a><b slot=summary>d</b> c</x-details>", "**d** c\n"),
            (
                "<p><x-panel title=a></x-panel><x-tip title=a>b</x-tip> <x-button title=c href=/d>e</x-button>",
                "b [e](/d \"c\")\n",
            ),
            ("<p><x-button href=javascript:a>b</x-button> <x-card href=/a>c</x-card>", "b c\n"),
            (
                "<ul><li> <span>•</span><p>a</p><li><span class=ltx_tag>–</span> b<li><span>–</span> 5</ul>\
                 <ol><li><span>1.</span><cite>a</cite><li><span>(a)</span><p>b<li><span>3.</span>5 m</ol>",
                "- a\n\n- b\n\n- – 5\n\n1. a\n\n2. (a) b\n\n3. 3.5 m\n",
            ),
            ("<ul><li>--<li>a<hr></ul>", "- \\--\n\n- a\n\n  ---\n"),
            ("<ol start=3><li value=5>a<li value=6>b<li value=x>c</ol>", "5. a\n6. b\n7. c\n"),
            ("<p>a <code>b<br>c</code>", "a `b`  \n`c`\n"),
            ("<table><tr><th>a<tr><td>b<pre>c\n d</pre></table>", "| a |\n| --- |\n| b<br>`c`<br>` d` |\n"),
            (
                "<div><span class=a>$</span><span class=b>49</span><span class=c>.99</span><span class=d>/ month</span></div>",
                "$49.99 / month\n",
            ),
            (
                "<div><span class=a>f</span><span class=b>.</span><span class=a>g</span><span class=b>(</span><a class=c>T</a><span class=b>&lt;</span><a class=c>a</a><span class=b>&gt;</span><span class=b>)</span></div>",
                "f.g(T\\<a>)\n",
            ),
            (
                "<div><a class=a href=#>One</a><a class=a href=#>Two</a><span class=b>&gt;</span><span class=c>Three:</span><span class=c>(4)</span><span class=d><img src=i></span><time class=e>5</time></div>",
                "One Two > Three: (4) ![](i) 5\n",
            ),
            (
                "<div><span class=a>C</span><span class=a>u</span><span class=a>t</span><a class=b>A</a><a class=b>b</a></div>",
                "Cut A b\n",
            ),
            (
                "<div><span class=a>.md</span><span class=a>.js</span><span class=a>C#</span><span class=b>go</span></div>",
                ".md .js C# go\n",
            ),
            (
                "<ul><li><span class=k>Width</span><span class=v>2 m</span><li><a href=/x>a</a><a href=/y>b</a></ul>",
                "- Width 2 m\n- [a](/x) [b](/y)\n",
            ),
            ("<a class=c href=/x><b class=t>Oak</b><span class=p>9 EUR</span></a>", "[**Oak** 9 EUR](/x)\n"),
            ("<div><span class=a>Ann</span><strong class=b>Head</strong></div>", "Ann **Head**\n"),
            (
                "<a class=c href=https://a.example/b><i></i><span class=d>https://</span><span class=e>a.example</span><span>/b</span></a>",
                "[https://a.example/b](https://a.example/b)\n",
            ),
            ("<p role=row><span role=cell>a</span><span role=cell>b</span>", "a b\n"),
            ("<dl><dt><span class=a>f.</span><span class=b>g</span></dl>", "f.g\n"),
            ("<ruby>a<rt>b</rt></ruby><ruby>c<rp>[</rp><rt>d</rt><rp>]</rp></ruby>", "a(b)c(d)\n"),
            ("<span data-as=p>a</span><span data-as=p>b</span>", "a\n\nb\n"),
            ("<span class=akn-p>a; or</span><span class=akn-p>b</span>", "a; or\n\nb\n"),
            (
                "<span role=heading aria-level=3>a</span><span role=paragraph>b</span><span role=paragraph>c</span>",
                "### a\n\nb\n\nc\n",
            ),
            (
                "<h2><span role=heading aria-level=3>a</span></h2><a href=/b><span role=heading>b</span></a>",
                "## a\n\n## [b](/b)\n",
            ),
            (
                "<ul class=checklist><li><p><i class='fa fa-check-square-o'></i> a<li><p><i class='fa fa-square-o'></i> b</ul>",
                "- [x] a\n\n- [ ] b\n",
            ),
            (
                "<div class=colist><table><tr><td><i class=conum></i><b>1</b><td>a<tr><td><b>2</b><td>b</table></div>",
                "1. a\n2. b\n",
            ),
            ("<p><a href=https://a.de/_b_/>https://a.de/_b_/</a>.", "https://a.de/_b_/.\n"),
            ("<p><a href=https://a.de/%C3%A4>https://a.de/\u{e4}</a>", "https://a.de/\u{e4}\n"),
            ("<p>(<a href=mailto:a_b@c.de>a_b@c.de</a>)", "(a_b@c.de)\n"),
            ("<p><a href=http://www.a.de>www.a.de</a><br>x", "www.a.de  \nx\n"),
            ("<p>x<a href=https://a.de>https://a.de</a>", "x[https://a.de](https://a.de)\n"),
            ("<p><a href=https://a.de>https://a.de</a><b>x</b>", "[https://a.de](https://a.de)**x**\n"),
            // The text after decides whether a character is syntax, also across elements.
            (
                "<p><i>a &</i> b<span> *</span> c <span>&</span>amp; <span>5 </span>*",
                "*a \\&* b * c \\&amp; 5 *\n",
            ),
            ("<p>see https://a.de/x.&nbsp;b", "see https://a.de/x. b\n"),
            ("<ul><li>a<blockquote>b</blockquote><hr><li>c</ul>", "- a\n\n  > b\n\n  ---\n\n- c\n"),
            ("<table><tr><td>a<td><tr><td><td></table>", "a\n"),
            ("<a href=/x><h3>[a] b</h3></a>", "### [\\[a\\] b](/x)\n"),
            ("<a href='/\u{e9}?[a]&amp;amp;'>b</a>", "[b](/%C3%A9?%5Ba%5D&amp;amp;)\n"),
            ("<p>a<sup>1</sup><h2>Notes</h2><p><sup>1</sup> b", "a[^1]\n\n[^1]: b\n"),
            ("<span data-math-style=inline>a_b</span>", "$a_b$\n"),
            ("<a href=/x><h3>a</h3><p>b</a>", "### [a](/x)\n\n[b](/x)\n"),
            (
                "<a href=/x><ul><li>a<li>b</ul></a><a href=/y><blockquote>c</a>",
                "- [a](/x)\n- b\n\n> [c](/y)\n",
            ),
            ("<ul><a href=/x><li>a</li><li>b</li></a></ul>", "- [a](/x)\n- b\n"),
            ("<dl><a href=/x><dt>a</dt><dd>b</dd></a></dl>", "[a](/x)\n\nb\n"),
            (
                "<a href=/x><pre>a</pre></a><a href=/y title=[b]><pre>c</pre></a>",
                "```\na\n```\n\n[/x](/x)\n\n```\nc\n```\n\n[\\[b\\]](/y)\n",
            ),
            ("<figure><img src=/a.png alt=b><figcaption>c</figcaption></figure>", "![b](/a.png)\n\nc\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn text_is_escaped_for_markdown() {
        for (text, expected) in [
            ("plain (text) 1 | 2", "plain (text) 1 | 2"),
            ("List<T> *a* __b__ [c] d_e", "List\\<T> \\*a\\* \\_\\_b\\_\\_ \\[c\\] d_e"),
            ("a\nb & c", "a b & c"),
        ] {
            assert_eq!(escape_text(text), expected);
        }
        for (text, paragraph, heading) in [
            ("1. April: *we* open", "1\\. April: \\*we\\* open", "1. April: \\*we\\* open"),
            ("# Hash", "\\# Hash", "# Hash"),
            (" - dash\n# a", "\\- dash # a", "- dash # a"),
            ("> quote", "\\> quote", "> quote"),
            ("Why F #", "Why F #", "Why F \\#"),
            ("C# and 1.5", "C# and 1.5", "C# and 1.5"),
            ("#1 of 3 ", "#1 of 3", "#1 of 3"),
        ] {
            assert_eq!((&*escape_paragraph(text), &*escape_heading(text)), (paragraph, heading));
        }
    }

    #[test]
    fn a_page_has_one_first_level_heading() {
        for (body, expected) in [
            ("<h2>A b</h2><p>c", "# A b\n\nc\n"),
            ("<p>c<h2>d</h2><p>e", "# A b\n\nc\n\n## d\n\ne\n"),
            ("<div>X</div><div>A b</div><p>c", "X\n\n# A b\n\nc\n"),
            ("<div>A b</div><h1>c</h1><h2>d</h2>", "A b\n\n# c\n\n## d\n"),
            ("<div>A b</div><h1>c</h1><h2>d</h2><h1>e</h1>", "# A b\n\n## c\n\n### d\n\n## e\n"),
            ("<p><img src=i alt='A b'><p>c", "# A b\n\n![A b](i)\n\nc\n"),
            ("<h1>c</h1><p>A b", "# c\n\nA b\n"),
            ("<h1>c</h1><p>d<h1>e</h1><p>f", "# c\n\nd\n\n## e\n\nf\n"),
            ("<ul><li><h1>c</h1>d<li><h1>e</h1></ul>", "# A b\n\n- ## c\n  d\n- ## e\n"),
        ] {
            assert_eq!(markdown(&format!("<title>A\u{a0}b</title>{body}")), expected, "{body}");
        }
    }

    #[test]
    fn a_fragment_keeps_its_table_of_contents() {
        let list = "<h2>Contents</h2><ul><li><a href=#a>a</a><li><a href=#b>b</a><li><a href=#c>c</a></ul>";
        assert_eq!(markdown(list), "## Contents\n\n- [a](#a)\n- [b](#b)\n- [c](#c)\n");
    }

    #[test]
    fn lists_of_chapters_and_of_sections_stay() {
        let page = |links: &str| markdown(&format!("<title>A</title><body><p>b<div class=toc>{links}</div>"));
        assert_eq!(page("<a href=c.html>C</a>"), "# A\n\nb\n\n[C](c.html)\n");
        assert_eq!(page("<a href=#c>C</a>"), "# A\n\nb\n\n[C](#c)\n");
    }

    /// The number of nodes that the conversion of `start`, `count` copies of `piece`, and `end` reads.
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
            ("<h2 id=x>", "<a href=#x>anchor</a>", ""),
            ("<h2 id=x>", "<i>x</i>", ""),
            ("<picture>", "<img>", ""),
            ("<picture>", "<source><img>", ""),
            ("<div>", "<span class=lang>x</span>", ""),
            ("<div>", "<span class=x>y</span>", ""),
            ("<div class=flex>", "<b>y</b>z<input>", ""),
            ("<p>", "<span class=badge>y</span><code>Y</code>", ""),
            ("<table>", "<tr><td>x<td>y", ""),
            ("<ul><li>x", "<li hidden>y", ""),
            ("<h3>", "<i>x</i>", "</h3><div hidden>y</div>"),
            // Many references to one large note, and many notes.
            ("<p>", "<sup><a href=#n>1</a></sup>", "<p id=n>x <a href=#r>y</a>"),
            ("<p id=n>x <a href=#r>y</a></p><p><span>", "<a href=#n id=r>1</a>", "</span>"),
            ("<p><sup><a id=r href=#n>1</a></sup><ol><li id=n>x<p>", "<a href=#r>^</a>", ""),
            ("<ol>", "<li id=n>x <a href=#r>^</a>", "</ol><p><sup><a href=#n id=r>1</a></sup>"),
            ("", "<p>x<sup>1</sup>", ""),
            ("<p>", "<i></i><sup>1</sup>", ""),
            ("<p>x<sup>1</sup><hr>", "<p>1. x", ""),
            // Content that scripts and styles show.
            ("", "<div class=youtube data-id=abcdefghijk><b></b>", ""),
            ("", r#"<div data-settings='{"a":"https://youtu.be/abcdefghijk"}'><b></b>"#, ""),
            ("", "<div class=counter data-count=5><b class=value></b><b></b>", ""),
            ("<p>", "<b data-cfemail=5439>x</b>", ""),
            ("<svg>", "<switch><g/><text>x</text></switch>", ""),
            ("<textarea id=source># x</textarea>", "<script>remark.create()</script>", ""),
            ("<p>", "x<d-footnote>y</d-footnote>", ""),
            ("<p><sup><a href=#n>1</a></sup><ol><li id=n>", "<li>x", ""),
            ("<ol>", "<li><span>1.</span>x", ""),
            ("<p id=r>a<sup><a href=#n>1</a></sup><ol><li id=n>", "<a href=#r>^</a>, ", ""),
            ("<p id=r>a<sup><a href=#n>1</a></sup><ol><li id=n>", "<a href=#r>Genesis</a> b", ""),
            ("<p>a<sup>1</sup>", "<aside>1. x</aside>", ""),
            ("<div class='ulist checklist'><ul>", "<li>", "✓"),
            // Code without a `<pre>`, marked lines, and formulas.
            ("<div>", "<code class=language-x>a\nb</code><i></i>", ""),
            ("<div>", "<div class=mermaid>a<!-- -->", ""),
            ("<div style='white-space:pre;font-family:monospace'>", "<div>x</div><br>", ""),
            ("<pre>", "<b class='line diff add'>a</b>", ""),
            ("<script src=mathjax.js></script><p>", "\\begin{align} ", ""),
            ("<table class=ltx_eqn_table>", "<tr><td><math alttext=x></math>", ""),
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
            let lines = part(&|i| format!("<a id=k{i} href=#t{i}>^</a> x<br>"));
            let last = part(&|i| format!("<sup><a href=#k{i} id=t{i}>{i}</a></sup>"));
            let html =
                format!("<p>{references}{more}{last}</p><div class=notes>{notes}</div><hr>{lists}<p>{lines}");
            let before = dom::NODE_READS.get();
            let converted = convert(&html, &Options::default());
            assert_eq!(converted.markdown.matches("\n[^").count(), 3 * count, "all notes are found");
            dom::NODE_READS.get() - before
        };
        let (once, twice) = (page(300), page(600));
        assert!(twice * 10 <= once * 22, "{once}, {twice}");
    }

    #[test]
    fn only_repeated_blocks_of_links_are_removed() {
        let page = "<!doctype html><title>t</title><main><h1>t</h1><p><a href=/a>A</a> | <a href=/b>B</a>\
            <p>See <a href=/a>A</a><h2><a href=/c>C</a></h2><p><a href=tel:1>1</a>\
            <ul><li><a href=/d>D</a><ul><li><a href=/e>E</a></ul></ul>\
            <table><tr><th>f<tr><td><a href=/f>F</a></table><pre>g</pre><p>own";
        let alone = convert(page, &Options::default());
        assert_eq!(alone.link_blocks.len(), 2, "{}", alone.markdown);
        let boilerplate = alone.link_blocks.iter().map(|both| both[1]).collect();
        let converted = convert(page, &Options { boilerplate, ..Options::default() });
        let expected = "# t\n\nSee [A](/a)\n\n## [C](/c)\n\n[1](tel:1)\n\n| f |\n| --- |\n| [F](/f) |\n\n```\ng\n```\n\nown\n";
        assert_eq!(converted.markdown, expected);
        assert_eq!(converted.link_blocks, alone.link_blocks);
        // The same block at another place is the page's own.
        let moved =
            convert(&page.replace("</h1>", "</h1><p>x</p>").replace("own", "<p>y"), &Options::default());
        assert!(
            moved.link_blocks.iter().all(|hashes| alone.link_blocks.iter().all(|others| others != hashes))
        );
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
