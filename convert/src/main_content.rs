//! Finds the main region of a page of the operator's own site. Nothing that readers would call content is
//! removed from it: losing a sentence is worse than keeping a menu.

use super::account::Rule;
use super::article::{Measure, measure_elements};
use super::clean;
use super::dom::{DOCUMENT, Data, Dom, NONE, NodeId, Tag};
use super::notices;
use super::select::Selector;
use std::cell::OnceCell;

/// Returns an element that contains all elements matching `main`, or `None` if there are none. Always removes
/// scripts and the elements matching `exclude`.
pub(super) fn select_content(
    dom: &mut Dom,
    main: Option<&Selector>,
    exclude: Option<&Selector>,
    is_article: bool,
) -> Option<NodeId> {
    let body = clean::find_body(dom);
    clean::remove_invisible(dom, body, is_article);
    clean::remove(dom, body, Rule::Excluded, |dom, id| dom.has_attribute(id, "data-pagefind-ignore"));
    if let Some(exclude) = exclude {
        for id in exclude.outermost(dom, body) {
            dom.omit(id, Rule::Excluded);
        }
    }
    let chosen = main?.outermost(dom, DOCUMENT);
    if chosen.is_empty() {
        return None;
    }
    let root = move_to_one_element(dom, &chosen);
    clean::remove_hidden(dom, root, is_article);
    Some(root)
}

/// Reduces the page to its main region and returns the element that contains it.
pub(super) fn isolate_region(dom: &mut Dom, is_logo: impl Fn(&str) -> bool) -> NodeId {
    let body = clean::find_body(dom);
    clean::remove_hidden(dom, body, false);
    let root = find_explicit_region(dom, body).unwrap_or_else(|| {
        remove_surroundings(dom, body);
        find_lone_article(dom, body).unwrap_or(body)
    });
    move_heading_into(dom, body, root, is_logo);
    root
}

/// The region that the page marks as its content: for search engines, as a known generator does, or with
/// `<main>` or the role.
fn find_explicit_region(dom: &mut Dom, body: NodeId) -> Option<NodeId> {
    let filled = |dom: &Dom, is_match: &dyn Fn(NodeId) -> bool| {
        let mut found = dom.outermost(body, is_match);
        found.retain(|&id| !dom.is_blank(id));
        found
    };
    let marked = filled(dom, &|id| dom.has_attribute(id, "data-pagefind-body"));
    if !marked.is_empty() {
        return Some(move_to_one_element(dom, &marked));
    }
    let is_main = |id: NodeId| dom.tag(id) == Tag::Main || dom.attribute(id, "role") == Some("main");
    let mains = filled(dom, &is_main);
    let known = filled(dom, &|id| is_content_of_generator(dom, id));
    if let [known] = *known
        && (mains.is_empty() || dom.ancestors(known).any(|a| mains.contains(&a)))
    {
        return Some(known);
    }
    (!mains.is_empty()).then(|| move_to_one_element(dom, &mains))
}

/// The only `<article>` of the page, if it contains most of the text.
fn find_lone_article(dom: &Dom, body: NodeId) -> Option<NodeId> {
    let articles = dom.outermost(body, |id| dom.tag(id) == Tag::Article);
    let letters = |id| clean::letters(&dom.text_content(id));
    match *articles {
        [article] if letters(article) * 2 > letters(body) => Some(article),
        _ => None,
    }
}

/// Whether the element is the one in which a known generator puts the content, and nothing else.
fn is_content_of_generator(dom: &Dom, id: NodeId) -> bool {
    let is_class = |c: &str| {
        matches!(
            c,
            "sl-markdown-content"
                | "theme-doc-markdown"
                | "md-content__inner"
                | "markdown-section"
                | "mw-parser-output"
                | "entry-content"
                | "gh-content"
                | "theme-default-content"
                | "nextra-content"
                | "available-content"
        )
    };
    dom.attribute(id, "itemprop") == Some("articleBody") || dom.classes(id).any(is_class)
}

/// Removes what surrounds the content of a page without a main region: headers without a heading, footers,
/// and blocks of links in elements named for navigation.
fn remove_surroundings(dom: &mut Dom, body: NodeId) {
    let measures = measure_elements(dom, body);
    clean::remove(dom, body, Rule::Outside, |dom, id| {
        let is_nested =
            || dom.closest(id, &[Tag::Article, Tag::Section, Tag::Blockquote, Tag::Figure]).is_some();
        let measure = measures[id as usize];
        match (dom.tag(id), dom.attribute(id, "role").unwrap_or_default()) {
            (_, "banner") | (Tag::Header, _) => !is_nested() && dom.find(id, Tag::H1).is_none(),
            (_, "contentinfo") | (Tag::Footer, _) => !is_nested(),
            (Tag::Search, _) | (_, "search") => true,
            _ if measure.prose > 0 || measure.linked * 2 < measure.text || measure.linked == 0 => false,
            _ => dom.classes(id).chain(dom.attribute(id, "id")).any(|name| match name {
                "navheader" | "navfooter" | "navbar" | "navigation" | "nav" | "breadcrumb"
                | "breadcrumbs" | "sidebar" | "sphinxsidebar" => true,
                "toc" | "tableofcontents" | "table-of-contents" => {
                    let link = dom.find(id, Tag::A).and_then(|link| dom.attribute(link, "href"));
                    link.is_some_and(|href| href.starts_with('#'))
                }
                _ => false,
            }),
        }
    });
}

/// Removes what is not content even inside the main region: navigation, lists of the page's own sections
/// that have a title, permalinks and buttons that copy.
pub(super) fn remove_navigation(dom: &mut Dom, root: NodeId) {
    let measures = measure_elements(dom, root);
    let panels = OnceCell::new();
    let rule_for = |dom: &Dom, id: NodeId| {
        let is_navigation = dom.tag(id) == Tag::Nav || dom.attribute(id, "role") == Some("navigation");
        if is_navigation
            && !holds_text(measures[id as usize])
            && !panels.get_or_init(|| clean::Panels::read(dom)).contains(dom, id)
            && !dom.descendants(id).any(|d| dom.attribute(d, "role") == Some("tab"))
        {
            Some(Rule::Navigation)
        } else if notices::is_permalink(dom, id) {
            Some(Rule::Permalink)
        } else {
            notices::is_copy_button(dom, id).then_some(Rule::Control)
        }
    };
    let mut rules = Vec::new();
    let found = dom.outermost(root, |id| {
        let rule = rule_for(dom, id);
        rules.extend(rule);
        rule.is_some()
    });
    for (id, rule) in found.into_iter().zip(rules) {
        dom.omit(id, rule);
    }
    let lists = dom.outermost(root, |id| {
        matches!(dom.tag(id), Tag::Ul | Tag::Ol) && is_table_of_contents(dom, id, measures[id as usize])
    });
    for list in lists {
        if let Some(title) = title_of_contents(dom, list) {
            dom.omit(title, Rule::Navigation);
            dom.omit(list, Rule::Navigation);
        }
    }
}

/// Whether an element for navigation holds sentences, as the panels of some page builders do.
fn holds_text(measure: Measure) -> bool {
    measure.prose > 0 && measure.linked * 2 < measure.text
}

/// Whether a list consists of links to places on the same page.
fn is_table_of_contents(dom: &Dom, id: NodeId, measure: Measure) -> bool {
    let mut links = 0;
    for link in dom.descendants(id).filter(|&d| dom.tag(d) == Tag::A) {
        links += 1;
        if !dom.attribute(link, "href").is_some_and(|h| h.starts_with('#') && h.len() > 1) {
            return false;
        }
    }
    links > 2 && measure.linked * 10 >= measure.text * 9
}

/// The title before a table of contents, such as "On this page".
fn title_of_contents(dom: &Dom, list: NodeId) -> Option<NodeId> {
    let title = dom.ancestors(list).take(4).find_map(|id| dom.previous_element(id))?;
    let is_title = matches!(
        dom.collapsed_text(title).trim_end_matches(':').to_lowercase().as_str(),
        "contents"
            | "table of contents"
            | "on this page"
            | "in this article"
            | "on this page:"
            | "page contents"
            | "inhalt"
            | "inhaltsverzeichnis"
            | "auf dieser seite"
            | "sommaire"
            | "contenido"
            | "indice"
            | "índice"
    );
    is_title.then_some(title)
}

/// Moves `nodes` into one element.
fn move_to_one_element(dom: &mut Dom, nodes: &[NodeId]) -> NodeId {
    if let [only] = nodes {
        return *only;
    }
    let root = dom.push(Tag::Div, Data::Empty);
    for &id in nodes {
        if !dom.ancestors(id).any(|a| a == root) {
            dom.append(root, id);
        }
    }
    root
}

/// Moves the page's first-level heading into the main content if the heading comes before the content and is
/// not the name of the site.
pub(super) fn move_heading_into(dom: &mut Dom, body: NodeId, root: NodeId, is_logo: impl Fn(&str) -> bool) {
    if dom.find(root, Tag::H1).is_some() || root == body {
        return;
    }
    let before = dom.descendants(body).take_while(|&id| id != root);
    let heading = before.filter(|&id| dom.tag(id) == Tag::H1 && !is_logo(&dom.collapsed_text(id))).last();
    let first = dom.node(root).first;
    if let Some(heading) = heading.filter(|&h| first != NONE && !dom.ancestors(root).any(|a| a == h)) {
        dom.insert_before(first, heading);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Options, convert, parse_url};

    /// The Markdown of a page with this body, without its title.
    fn body(html: &str) -> String {
        let page =
            format!("<!doctype html><html><head><meta charset=utf-8></head><body>{html}</body></html>");
        convert(&page, &Options::default()).markdown
    }

    #[test]
    fn names_do_not_remove_content_of_the_main_region() {
        for name in
            ["cookies", "comments", "related", "sidebar", "footer", "share", "social-buttons", "promo", "toc"]
        {
            for html in [
                format!("<section id={name}><h2>a</h2><p>b</section>"),
                format!("<div class='{name} {name}-box'><h2>a</h2><p>b</div>"),
                format!("<h2 class={name}>a</h2><p id={name}>b"),
                format!(
                    "<h2><a class=toc-backref role=doc-backlink href=#{name}>a</a></h2><button class={name}>b</button>"
                ),
            ] {
                assert_eq!(body(&format!("<main>{html}</main>")), "## a\n\nb\n", "{html}");
            }
        }
    }

    #[test]
    fn the_whole_main_region_is_content() {
        let long = "<p>A sentence that is as long as the others of this section about boats and cranes.</p>"
            .repeat(30);
        for (html, first, last) in [
            (format!("<main><p>first<section>{long}</section><p>last</main>"), "first", "last"),
            (
                format!("<main><p>first<article>{long}</article><article><p>last</article></main>"),
                "first",
                "last",
            ),
            (format!("<main>first</main><p>no</p><main>{long}last</main>"), "first", "last"),
            (
                format!("<main>{long}<ul><li><a href=/x>first</a></ul><aside>b</aside><h2>last</h2></main>"),
                "A sent",
                "## last",
            ),
            (
                format!("<div role=main><footer>first</footer>{long}<dl><dt>Email<dd>last</dl></div>"),
                "first",
                "last",
            ),
            (format!("<article><p>first{long}<p>12 May 2026</article><p>no"), "first", "12 May 2026"),
        ] {
            let text = body(&html);
            assert!(text.starts_with(first) && text.trim_end().ends_with(last), "{text}");
            assert!(!text.contains("no\n"), "{text}");
        }
    }

    #[test]
    fn only_navigation_leaves_the_main_region() {
        for (html, expected) in [
            ("<nav><a href=/a>a</a></nav><div role=navigation><a href=/b>b</a></div>c", "c\n"),
            (
                "<nav><p>These are the sentences of a panel that a page builder puts into a menu.</p></nav>c",
                "These are the sentences of a panel that a page builder puts into a menu.\n\nc\n",
            ),
            (
                "<h2>Contents</h2><ul><li><a href=#a>a</a><li><a href=#b>b</a><li><a href=#c>c</a></ul>c",
                "c\n",
            ),
            (
                "<div><h2>Contents</h2></div><div><ul><li><a href=#a>a</a><li><a href=#b>b</a><li><a href=#c>c</a></ul></div>c",
                "c\n",
            ),
            (
                "<h2>Parts</h2><ul><li><a href=#a>a</a><li><a href=#b>b</a><li><a href=#c>c</a></ul>",
                "## Parts\n\n- [a](#a)\n- [b](#b)\n- [c](#c)\n",
            ),
            ("<pre>x</pre><button>Copy</button><dl><dt>Copy<dd>d</dl>", "```\nx\n```\n\nCopy\n\nd\n"),
            (
                "<h2 id=a>C#</h2><a href=#a class=anchor><i></i></a><p>b <a class=headerlink href=#a>\u{f0c1}</a>",
                "## C#\n\nb\n",
            ),
            ("<h2>1. <a class=header-anchor href=#a>Title</a></h2>", "## 1. Title\n"),
        ] {
            assert_eq!(body(&format!("<main>{html}</main>")), expected, "{html}");
        }
    }

    /// Parts of pages. `@` stands for a word that readers see, in the order of the Markdown, and `!` for one
    /// that they do not see.
    const PARTS: &[&str] = &[
        "<p>@</p>",
        "<p>@ <a href=/x>@</a> <code>@</code> <b>@</b></p>",
        "<section id=cookies><h2>@</h2><p>@</p></section>",
        "<div class='related sidebar promo'><a href=/x>@</a></div>",
        "<ul class=share><li><a href=/x>@</a><li>@<ul><li>@</ul></ul>",
        "<ol><li>@<li value=7>@<li>@</ol>",
        "<h3><button aria-expanded=false aria-controls=p#>@</button></h3><div id=p# hidden><p>@</p></div>",
        "<div><div role=tablist><button role=tab aria-controls=t#>@</button></div><div role=tabpanel id=t# hidden>@</div></div>",
        "<div role=tablist><a role=tab href=/x>@</a></div>",
        "<details><summary>@ <i>@</i></summary><p>@</p></details>",
        "<table><caption>@</caption><tr><th>@<th>@<tr><td>@<td><p>@<pre>@</pre></table>",
        "<pre><code>@\n@</code></pre>",
        "<aside><p>@</p></aside><footer>@</footer><header>@</header>",
        "<dl><dt>@<dd>@</dl><dl class='section note'><dt>Note<dd>@</dl>",
        "<blockquote>@</blockquote><figure><img src=x alt=@><figcaption>@</figcaption></figure>",
        "<x-a><template shadowrootmode=open><p>@</p><slot></slot></template>@</x-a><noscript><p>@</p></noscript>",
        "<button class=footer>@</button><label>@ <input></label><time>@</time>",
        "<h2 id=h#>@<a class=headerlink href=#h#>\u{b6}</a></h2><p class=byline>@</p>",
        "<p hidden=until-found>@</p><p aria-hidden=true>@</p>",
        "<div class=admonitionblock><p>@</p></div><div class='admonition tip'><p class=admonition-title>@</p>@</div>",
        "<nav><a href=/x>!</a></nav><div role=navigation><a href=/x>!</a></div>",
        "<p hidden>!</p><p style='display: none'>!</p><template><p>!</p></template><dialog>!</dialog>",
        "<p>@<script>!</script><style>!</style></p><span class=sr-only>@</span>",
        "<button><svg></svg><span class=sr-only>!</span></button>",
    ];

    /// Appends random parts, up to `depth` levels deep, and the words that readers see.
    fn append_parts(state: &mut u64, depth: usize, html: &mut String, seen: &mut Vec<String>) {
        let mut random = |below: usize| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(*state >> 33).expect("31 bits") % below
        };
        for _ in 0..=random(5) {
            let (choice, number) = (random(PARTS.len() + 4), random(1_000_000_000));
            if let Some(part) = PARTS.get(choice) {
                for (at, c) in part.char_indices() {
                    match c {
                        '@' | '!' => {
                            let word = format!("w{number}n{at}");
                            html.push_str(&word);
                            seen.extend((c == '@').then_some(word));
                        }
                        '#' if part[..at].ends_with(['p', 't', 'h']) => html.push_str(&number.to_string()),
                        c => html.push(c),
                    }
                }
            } else if depth > 0 {
                let tag = ["div", "section", "article", "div class=nav"][choice - PARTS.len()];
                html.push_str(&format!("<{tag}>"));
                let mut inner = number as u64;
                append_parts(&mut inner, depth - 1, html, seen);
                html.push_str(&format!("</{}>", tag.split(' ').next().unwrap_or(tag)));
            }
        }
    }

    /// The Markdown as GitHub renders it.
    fn render(markdown: &str) -> String {
        let mut options = comrak::Options::default();
        let extension = &mut options.extension;
        (extension.table, extension.strikethrough, extension.tasklist) = (true, true, true);
        (extension.footnotes, extension.alerts, extension.autolink) = (true, true, true);
        options.render.r#unsafe = true;
        comrak::markdown_to_html(markdown, &options)
    }

    #[test]
    fn converting_the_rendered_markdown_changes_nothing() {
        for seed in 0..400 {
            let (mut main, mut seen) = (String::new(), Vec::new());
            append_parts(&mut { seed }, 3, &mut main, &mut seen);
            let page = format!("<!doctype html><title>Title</title><body><main>{main}</main>");
            let markdown = convert(&page, &Options::default()).markdown;
            let again = convert(&render(&markdown), &Options::default()).markdown;
            assert_eq!(again, markdown, "seed {seed}:\n{main}");
        }
    }

    #[test]
    fn readers_of_the_markdown_see_what_readers_of_the_page_see() {
        for seed in 0..400 {
            let (mut main, mut seen) = (String::new(), Vec::new());
            append_parts(&mut { seed }, 3, &mut main, &mut seen);
            let html = format!(
                "<!doctype html><title>Title</title><body><header>no</header><main>{main}</main><footer>no</footer>"
            );
            let converted = convert(&html, &Options::default());
            assert_eq!(converted.loss.letters, 0, "seed {seed}:\n{main}\n\n{:?}", converted.loss);
            let text = converted.markdown;
            let words: Vec<&str> = text
                .split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|word| word.starts_with('w') && word.contains('n'))
                .collect();
            assert_eq!(words, seen, "seed {seed}:\n{main}\n\n{text}");
        }
    }

    #[test]
    fn a_page_without_a_main_region_loses_its_surroundings() {
        let text = "<h1>t</h1><p>text<div id=comments><p>note</div>";
        let page = format!(
            "<header><a href=/>Logo</a></header><div class=breadcrumbs><a href=/a>A</a></div>{text}<footer>F</footer>"
        );
        assert_eq!(body(&page), "# t\n\ntext\n\nnote\n");
    }

    #[test]
    fn titles_are_those_of_the_page() {
        let logo = "<header><h1><a href=/>Site</a></h1></header>";
        for (head, html, title, start) in [
            ("<title>Page | Site</title>", "<h2>Page</h2>", "Page", "# Page\n"),
            ("<title>Site - Page</title>", "<h2>Page</h2>", "Page", "# Page\n"),
            ("<title>Page :: Site</title>", "<p>x", "Page", "# Page\n"),
            ("<title>Site</title>", "<h2>Page</h2>", "Page", "# Page\n"),
            (
                "<title>Page | Site</title><meta property=og:title content=Site><meta property=og:site_name content=Site>",
                "<p>x",
                "Page",
                "# Page\n",
            ),
            ("<title>A - B</title>", "<h1>C</h1>", "A - B", "# C\n"),
            (
                "<title>A</title>",
                "<h1>A</h1><h2>b</h2><h1>C</h1><h2>d</h2>",
                "A",
                "# A\n\n### b\n\n## C\n\n### d\n",
            ),
        ] {
            let page = format!("<!doctype html>{head}<body>{logo}<main>{html}</main>");
            let url = parse_url("https://www.example.com/a").ok();
            let converted = convert(&page, &Options { url, ..Options::default() });
            assert_eq!(converted.metadata.title.as_deref(), Some(title), "{head}");
            assert!(converted.markdown.starts_with(start), "{head}: {}", converted.markdown);
        }
        let home = convert(
            &format!("<!doctype html><title>Site</title><body>{logo}<main><h1>Page</h1></main>"),
            &Options { url: parse_url("https://www.example.com/").ok(), ..Options::default() },
        );
        assert_eq!(home.metadata.title.as_deref(), Some("Site"));
    }
}
