//! Finds the main content of a page and removes the navigation, banners, footers and related links around it.

use super::clean;
use super::dom::{DOCUMENT, Data, Dom, NONE, NodeId, Tag};
use super::notices;
use super::select::Selector;

/// Returns an element that contains all elements matching `main`, or `None` if there are none. Always removes
/// scripts and the elements matching `exclude`.
pub(super) fn select_content(
    dom: &mut Dom,
    main: Option<&Selector>,
    exclude: Option<&Selector>,
) -> Option<NodeId> {
    let body = clean::find_body(dom);
    clean::remove_invisible(dom, body);
    clean::remove(dom, body, |dom, id| dom.has_attribute(id, "data-pagefind-ignore"));
    if let Some(exclude) = exclude {
        for id in exclude.outermost(dom, body) {
            dom.detach(id);
        }
    }
    let chosen = main?.outermost(dom, DOCUMENT);
    (!chosen.is_empty()).then(|| move_to_one_element(dom, &chosen))
}

/// Reduces the page to its main content and returns the element that contains it.
pub(super) fn isolate_content(dom: &mut Dom) -> NodeId {
    let body = clean::find_body(dom);
    let marked: Vec<NodeId> =
        dom.descendants(body).filter(|&id| dom.has_attribute(id, "data-pagefind-body")).collect();
    if !marked.is_empty() {
        let root = move_to_one_element(dom, &marked);
        // Pagefind does not index these elements either.
        clean::remove(dom, root, |dom, id| {
            matches!(dom.tag(id), Tag::Nav | Tag::Form) || is_page_footer(dom, id)
        });
        return root;
    }
    clean::remove_hidden(dom, body);
    detect_content(dom, body)
}

/// Moves `nodes` into one element, and removes hidden elements from it.
fn move_to_one_element(dom: &mut Dom, nodes: &[NodeId]) -> NodeId {
    let root = if let [only] = nodes {
        *only
    } else {
        let root = dom.push(Tag::Div, Data::Empty);
        for &id in nodes {
            if !dom.ancestors(id).any(|a| a == root) {
                dom.append(root, id);
            }
        }
        root
    };
    clean::remove_hidden(dom, root);
    root
}

/// The amount of text in an element, in bytes.
#[derive(Clone, Copy, Default)]
struct Measure {
    text: usize,
    /// Text inside links.
    linked: usize,
    /// Text outside links, in paragraphs and other long pieces.
    prose: usize,
}

impl Measure {
    /// The fraction of the text that is inside links, from 0 to 1.
    fn link_density(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        if self.text == 0 { 0.0 } else { self.linked as f64 / self.text as f64 }
    }
}

/// Measures `root` and all nodes below it, by [`NodeId`].
fn measure_elements(dom: &Dom, root: NodeId) -> Vec<Measure> {
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
fn detect_content(dom: &mut Dom, body: NodeId) -> NodeId {
    let measures = measure_elements(dom, body);
    let total = measures[body as usize];
    clean::remove(dom, body, |dom, id| {
        let own = measures[id as usize];
        let is_most = !matches!(dom.tag(id), Tag::Footer | Tag::Nav)
            && (own.prose * 2 > total.prose && total.prose > 0 || own.text * 10 > total.text * 6);
        (!is_most || own.link_density() > 0.7 && own.prose * 2 <= total.prose) && is_boilerplate(dom, id, own)
    });
    let measures = measure_elements(dom, body);
    let root = choose_content_root(dom, body, &measures);
    remove_link_lists(dom, root, &measures);
    move_heading_into(dom, body, root);
    root
}

/// Moves the page's first-level heading into the main content if the heading comes before the content.
fn move_heading_into(dom: &mut Dom, body: NodeId, root: NodeId) {
    if dom.find(root, Tag::H1).is_some() || root == body {
        return;
    }
    let before = dom.descendants(body).take_while(|&id| id != root);
    let heading = before.filter(|&id| dom.tag(id) == Tag::H1).last();
    let first = dom.node(root).first;
    if let Some(heading) = heading.filter(|&h| first != NONE && !dom.ancestors(root).any(|a| a == h)) {
        dom.insert_before(first, heading);
    }
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
    clean::remove(dom, root, |dom, id| {
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
            dom.detach(id);
        }
    }
}

/// Whether a list is a table of contents, which consists of links to places on the same page.
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
