//! Extracts the article from a page of a stranger's site. Guesses what belongs to it, and so loses parts of
//! pages that are not articles. Pages of the operator's own site are read by [`super::main_content`].

use super::account::Rule;
use super::block::Block;
use super::clean;
use super::dom::{Dom, NodeId, Tag};
use super::main_content::{is_table_of_contents, move_heading_into, move_to_one_element};
use super::notices;
use super::plain_words;

/// The amount of text in an element, in bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Measure {
    pub(super) text: usize,
    /// Text inside links.
    pub(super) linked: usize,
    /// Text outside links, in paragraphs and other long pieces.
    pub(super) prose: usize,
}

impl Measure {
    /// The fraction of the text that is inside links, from 0 to 1.
    fn link_density(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        if self.text == 0 { 0.0 } else { self.linked as f64 / self.text as f64 }
    }
}

/// Measures `root` and all nodes below it, by [`NodeId`].
pub(super) fn measure_elements(dom: &Dom, root: NodeId) -> Vec<Measure> {
    let mut measures = vec![Measure::default(); dom.nodes.len()];
    let order: Vec<NodeId> = std::iter::once(root).chain(dom.descendants(root)).collect();
    for &id in order.iter().rev() {
        let mut own = measures[id as usize];
        match dom.tag(id) {
            Tag::Text => {
                own.text =
                    dom.text(id).unwrap_or_default().split_ascii_whitespace().map(|w| w.len() + 1).sum();
                own.prose = if own.text > 40 { own.text } else { 0 };
            }
            Tag::A => (own.linked, own.prose) = (own.text, 0),
            Tag::P if own.text > own.linked + 60 => own.prose = own.text - own.linked,
            _ => {}
        }
        measures[id as usize] = own;
        if let Some(parent) = dom.parent(id).filter(|_| id != root) {
            let parent = &mut measures[parent as usize];
            parent.text += own.text;
            parent.linked += own.linked;
            parent.prose += own.prose;
        }
    }
    measures
}

/// Removes navigation and other boilerplate, and returns the element that contains the content.
pub(super) fn isolate_content(dom: &mut Dom) -> NodeId {
    let body = clean::find_body(dom);
    let marked = dom.outermost(body, |id| dom.has_attribute(id, "data-pagefind-body"));
    if !marked.is_empty() {
        let root = move_to_one_element(dom, &marked);
        clean::remove_hidden(dom, root, true);
        // Pagefind does not index these elements either.
        clean::remove(dom, root, Rule::Article, |dom, id| {
            matches!(dom.tag(id), Tag::Nav | Tag::Form) || is_page_footer(dom, id)
        });
        return root;
    }
    clean::remove_hidden(dom, body, true);
    let measures = measure_elements(dom, body);
    let total = measures[body as usize];
    clean::remove(dom, body, Rule::Article, |dom, id| {
        let own = measures[id as usize];
        let is_most = !matches!(dom.tag(id), Tag::Footer | Tag::Nav)
            && (own.prose * 2 > total.prose && total.prose > 0 || own.text * 10 > total.text * 6);
        (!is_most || own.link_density() > 0.7 && own.prose * 2 <= total.prose) && is_boilerplate(dom, id, own)
    });
    let measures = measure_elements(dom, body);
    let root = choose_content_root(dom, body, &measures);
    remove_link_lists(dom, root, &measures);
    move_heading_into(dom, body, root, |_| false);
    root
}

/// The content is narrowed from `<main>` or `<article>` to a child element only if the text outside the child
/// is shorter than this many bytes, with prose counted four times. Longer text may be content, such as the
/// introduction to a list.
const MAX_LOSS: usize = 2000;

/// Chooses the element that contains the content: one that a known generator marks as content, `<main>`,
/// `<article>`, or the innermost element with nearly all of the text.
fn choose_content_root(dom: &Dom, body: NodeId, measures: &[Measure]) -> NodeId {
    let total = measures[body as usize];
    let weight = |id: NodeId| measures[id as usize].prose * 3 + measures[id as usize].text;
    let whole = total.prose * 3 + total.text;
    let known = dom
        .descendants(body)
        .filter(|&id| has_known_content_name(dom, id))
        .max_by_key(|&id| (weight(id), std::cmp::Reverse(id)));
    if let Some(known) = known.filter(|&id| weight(id) * 10 >= whole * 4) {
        return known;
    }
    let is_main = |id: NodeId| dom.tag(id) == Tag::Main || dom.attribute(id, "role") == Some("main");
    let main = dom.descendants(body).filter(|&id| is_main(id)).max_by_key(|&id| weight(id));
    let mut root = main.filter(|&id| weight(id) * 10 >= whole * 3).unwrap_or(body);
    let article = dom
        .descendants(root)
        .filter(|&id| dom.tag(id) == Tag::Article)
        .max_by_key(|&id| (weight(id), std::cmp::Reverse(id)));
    if let Some(article) = article.filter(|&id| weight(id) * 10 >= weight(root) * 6) {
        root = article;
    }
    let is_marked = root != body;
    loop {
        let child = dom.child_elements(root).max_by_key(|&id| weight(id));
        match child.filter(|&id| {
            weight(id) * 100 >= weight(root) * 92
                && (!is_marked || weight(root) - weight(id) < MAX_LOSS)
                && matches!(
                    dom.tag(id),
                    Tag::Div | Tag::Section | Tag::Article | Tag::Main | Tag::Center | Tag::Form
                )
        }) {
            Some(child) => root = child,
            None => return root,
        }
    }
}

/// Whether the element has a class or an `itemprop` that known generators and themes use for the content.
fn has_known_content_name(dom: &Dom, id: NodeId) -> bool {
    let is_class = |c: &str| {
        matches!(
            c,
            "sl-markdown-content"
                | "theme-doc-markdown"
                | "vp-doc"
                | "md-content__inner"
                | "markdown-body"
                | "markdown-section"
                | "mw-parser-output"
                | "entry-content"
                | "post-content"
                | "gh-content"
                | "article-body"
                | "article-content"
                | "post-body"
                | "article__body"
                | "article__content"
                | "rst-content"
                | "theme-default-content"
                | "nextra-content"
                | "story-body"
                | "available-content"
                | "blog-post-content"
                | "article-text"
                | "articleBody"
                | "postcontent"
        )
    };
    dom.attribute(id, "itemprop") == Some("articleBody") || dom.classes(id).any(is_class)
}

/// Removes tables of contents from the main content. If it has enough prose, also removes blocks of links,
/// unless these contain at least half of the text.
fn remove_link_lists(dom: &mut Dom, root: NodeId, measures: &[Measure]) {
    let whole = measures[root as usize];
    let measure = |id: NodeId| measures[id as usize];
    clean::remove(dom, root, Rule::Article, |dom, id| {
        matches!(dom.tag(id), Tag::Ul | Tag::Ol) && is_table_of_contents(dom, id, measure(id))
    });
    if whole.prose <= 500 {
        return;
    }
    let lists = dom.outermost(root, |id| {
        matches!(dom.tag(id), Tag::Ul | Tag::Ol | Tag::Div | Tag::Section | Tag::Table | Tag::Aside)
            && measure(id).link_density() > 0.75
            && measure(id).prose == 0
            && measure(id).text * 4 < whole.text
            && dom.closest(id, &[Tag::P, Tag::Td]).is_none()
            && dom.descendants(id).filter(|&d| dom.tag(d) == Tag::A).count() > 2
    });
    if lists.iter().map(|&id| measure(id).text).sum::<usize>() * 2 < whole.text {
        for id in lists {
            dom.omit(id, Rule::Article);
        }
    }
}

fn is_boilerplate(dom: &Dom, id: NodeId, measure: Measure) -> bool {
    match dom.tag(id) {
        Tag::Nav | Tag::Search | Tag::Dialog => return true,
        Tag::Footer => return is_page_footer(dom, id),
        Tag::Aside => {
            let is_footnote = dom.classes(id).any(|class| class.starts_with("footnote"));
            return !is_footnote && notices::find_notice(dom, id).is_none();
        }
        Tag::Header
            if dom.closest(id, &[Tag::Main, Tag::Article]).is_none() && dom.find(id, Tag::H1).is_none() =>
        {
            return true;
        }
        Tag::Body | Tag::Main | Tag::Article | Tag::Html | Tag::Pre | Tag::Code | Tag::P => return false,
        tag if tag.heading_level().is_some() => return false,
        _ => {}
    }
    let role = dom.attribute(id, "role").unwrap_or_default();
    if matches!(
        role,
        "navigation"
            | "search"
            | "banner"
            | "contentinfo"
            | "complementary"
            | "dialog"
            | "alertdialog"
            | "menu"
            | "menubar"
            | "toolbar"
            | "tablist"
    ) {
        return true;
    }
    if dom.closest(id, &[Tag::Pre, Tag::Code, Tag::P]).is_some() {
        return false;
    }
    let is_prose = measure.prose > 400 && measure.link_density() < 0.2;
    [dom.attribute(id, "id"), dom.attribute(id, "class")].into_iter().flatten().any(|names| {
        is_boilerplate_name(names, is_prose)
            || !is_prose && names_contents(names) && !lists_other_pages(dom, id)
    })
}

/// Whether an id or a list of classes names a table of contents.
fn names_contents(names: &str) -> bool {
    let names = &names[..names.floor_char_boundary(400)];
    split_identifier(names).any(|word| matches!(&*word, "toc" | "tableofcontents"))
}

/// Whether the first link in the element leads to another page.
fn lists_other_pages(dom: &Dom, id: NodeId) -> bool {
    let link = dom.find(id, Tag::A).and_then(|link| dom.attribute(link, "href"));
    link.is_some_and(|href| !href.starts_with('#'))
}

/// Whether the element is a `<footer>` that does not belong to a quotation or a figure.
fn is_page_footer(dom: &Dom, id: NodeId) -> bool {
    dom.tag(id) == Tag::Footer && dom.closest(id, &[Tag::Blockquote, Tag::Figure]).is_none()
}

/// Whether an id or a list of classes contains a word for boilerplate, such as `sidebar`.
fn is_boilerplate_name(names: &str, is_prose: bool) -> bool {
    let names = &names[..names.floor_char_boundary(400)];
    // Skip `anchorTargetStickyNavbar_x1UC`: Docusaurus sets it on the target of each anchor, not on a navbar.
    for name in names.split_ascii_whitespace().filter(|name| !name.starts_with("anchorTarget")) {
        let mut previous = String::new();
        for word in split_identifier(name) {
            let is_state = matches!(
                &*previous,
                "footnotes"
                    | "footnote"
                    | "has"
                    | "no"
                    | "with"
                    | "without"
                    | "hide"
                    | "is"
                    | "not"
                    | "layout"
                    | "left"
                    | "right"
            );
            let is_named =
                SURROUNDING.contains(&&*word) || !is_prose && is_boilerplate_word(&word, &previous);
            if !is_state && is_named {
                return true;
            }
            previous = word;
        }
    }
    false
}

/// Words that mark an element as boilerplate, even if it contains paragraphs of text.
#[rustfmt::skip]
const SURROUNDING: &[&str] = &[
    "footer", "sidebar", "cookie", "cookies", "consent", "gdpr", "newsletter", "comments", "disqus",
    "related", "navbar", "copyright", "navheader", "navfooter", "nav", "advert", "advertisement",
    "outbrain", "taboola", "recommendations", "megamenu",
];

/// Whether a word, in addition to [`SURROUNDING`], marks an element without paragraphs of text as
/// boilerplate.
fn is_boilerplate_word(word: &str, previous: &str) -> bool {
    matches!(
        word,
        "navigation"
            | "breadcrumb"
            | "breadcrumbs"
            | "sidenav"
            | "subscribe"
            | "share"
            | "sharing"
            | "social"
            | "sharedaddy"
            | "recommended"
            | "pagination"
            | "pager"
            | "skiplink"
            | "popup"
            | "modal"
            | "promo"
            | "ads"
            | "advertising"
            | "sponsor"
            | "sponsored"
            | "masthead"
            | "login"
            | "signup"
            | "searchbox"
            | "searchform"
            | "toolbar"
            | "trending"
            | "offcanvas"
            | "submenu"
    ) || word == "menu" && previous != "food"
}

/// Splits an identifier into lower-case words, at punctuation and before capitals after lower-case letters.
fn split_identifier(name: &str) -> impl Iterator<Item = String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        let is_break = !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && was_lower);
        if is_break && !word.is_empty() {
            out.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase();
    }
    out.push(word);
    out.into_iter().filter(|w| !w.is_empty())
}

/// Removes bylines, labels of page controls, and headings at the end.
pub(super) fn tidy_blocks(blocks: &mut Vec<Block>, author: Option<&str>) {
    remove_bylines(blocks, author);
    blocks.retain(|b| !matches!(b, Block::Paragraph(text) if is_page_control(text)));
    let notes = blocks.iter().rposition(|b| !matches!(b, Block::Footnote { .. })).map_or(0, |at| at + 1);
    let mut end = notes;
    while end > 0 && matches!(blocks[end - 1], Block::Rule | Block::Heading { .. }) {
        end -= 1;
    }
    blocks.drain(end..notes);
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
    use super::super::{Options, convert};

    #[test]
    fn what_is_probably_not_part_of_an_article_is_left_out() {
        let text =
            "A sentence of the article that is long enough to be prose, like those of other articles. "
                .repeat(8);
        let links = "<a href=/a>A</a> <a href=/b>B</a> <a href=/c>C</a>";
        let html = format!(
            "<!doctype html><title>Title</title><meta name=author content=Ada><body><div class=navbar>{links}</div><main><article><h1>Title</h1>\
             <p>By Ada on 4 May 2026</p><p>{text}</p><p>Share</p><ul><li>{links}</ul><aside><p>Aside</p></aside>\
             <div class=related><p>Another article</p></div><h2>More</h2></article></main>"
        );
        let article = |article| convert(&html, &Options { article, ..Options::default() }).markdown;
        assert_eq!(article(true), format!("# Title\n\n{}\n", text.trim()));
        for kept in ["By Ada on 4 May 2026", "Share", "[B](/b)", "Aside", "Another article", "## More"] {
            assert!(article(false).contains(kept), "{kept}");
        }
    }
}
