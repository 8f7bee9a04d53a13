//! Finds the main region of a page of the operator's own site. Nothing that readers would call content is
//! removed from it: losing a sentence is worse than keeping a menu.

use super::Options;
use super::clean;
use super::content_outside_region::{has_other_content, has_word_in_name};
use super::documentation_markup::{self, find_labeled_panels};
use super::dom::{DOCUMENT, Data, Dom, NodeId, Tag, count_letters};
use super::header_before_main_content::find_page_header;
use super::inline_spacing::shown_text;
use super::omission_reason::Rule;
use super::panels::Panels;
use super::text_measure::{Measures, measure_elements};
use super::titles::Titles;
use std::cell::OnceCell;
use std::collections::HashSet;

/// Removes what browsers never show ([`clean::remove_invisible`]), and the elements of the body that
/// [`Options::exclude`] or an attribute excludes. Then returns the element that [`Options::main`] selects,
/// without the hidden elements in it; moves several selected elements into a new one. `None` if the option is
/// not set or selects nothing, in which case hidden elements stay.
pub(super) fn select_content(dom: &mut Dom, options: &Options) -> Option<NodeId> {
    let body = dom.body();
    clean::remove_invisible(dom, body, options.article);
    dom.omit_each(body, |dom, id| is_ignored(dom, id).then_some(Rule::Excluded));
    for id in options.exclude.as_ref().map(|exclude| exclude.outermost(dom, body)).unwrap_or_default() {
        dom.omit(id, Rule::Excluded);
    }
    let chosen = options.main.as_ref()?.outermost(dom, DOCUMENT);
    if chosen.is_empty() {
        return None;
    }
    let root = move_to_one_element(dom, &chosen);
    clean::remove_hidden(dom, root, options.article);
    Some(root)
}

/// Whether an attribute excludes the element, with any value: `data-pagefind-ignore`, or
/// `data-markdown-ignore` (AFDocs). As in AFDocs, the latter does not apply to the main region and to what
/// contains it, because the Markdown would then have only what surrounds the content. Starlight sets the
/// former on its trees of files, only to keep their names out of its search.
fn is_ignored(dom: &Dom, id: NodeId) -> bool {
    let is_main = |d| dom.tag(d) == Tag::Main || dom.attribute(d, "role") == Some("main");
    dom.has_attribute(id, "data-pagefind-ignore") && dom.name(id) != "starlight-file-tree"
        || dom.has_attribute(id, "data-markdown-ignore") && !dom.subtree(id).any(is_main)
}

/// Removes hidden elements from the page and, unless it marks its main region, what surrounds the content.
/// Returns the element with the main region: the marked one, or else the only outermost `<article>` if it has
/// most of the text, or else the body. Moves a first-level heading before the region into it
/// ([`find_heading_before`]), unless the heading is a name of the site; with the header of the page
/// ([`find_page_header`]) if the heading is the title of the page or on the home page. On other pages than
/// the home page, a logo that is a first-level heading before another one becomes a paragraph and, without a
/// marked region, the name of the site in the header is added to `titles`.
pub(super) fn isolate_region(dom: &mut Dom, titles: &mut Titles, is_home: bool) -> NodeId {
    let body = dom.body();
    clean::remove_hidden(dom, body, false);
    mark_title_of_doxygen(dom, body);
    let root = isolate_explicit_region(dom, body).unwrap_or_else(|| {
        let keeps_logo = is_home && !titles.has_title_heading(dom, body);
        let logo = find_logo_in_header(dom, titles, body).filter(|_| !is_home);
        if let Some(logo) = logo {
            titles.add_site_name(&shown_text(dom, logo));
        }
        let is_logo = |dom: &Dom, id| !keeps_logo && titles.is_logo(dom, id) || Some(id) == logo;
        remove_surroundings(dom, body, is_logo);
        find_lone_article(dom, body).unwrap_or(body)
    });
    let first = dom.descendants(root).find(|&id| dom.is_heading(id) && !dom.is_blank(id));
    let own = first.map(|id| shown_text(dom, id)).filter(|_| root != body);
    // A heading is also the name of the site if a declared title consists of the region's first heading and
    // it.
    let is_site = |heading: &str| own.as_deref().is_some_and(|own| titles.joins(own, heading));
    let is_logo = |heading: &str| titles.is_site_name(heading) || is_site(heading);
    if let Some(heading) = find_heading_before(dom, body, root, is_logo) {
        let is_title = is_home || titles.is_title(&shown_text(dom, heading));
        // A region with `data-pagefind-body` is the exact content, so add only the heading to it.
        let is_exact = dom.subtree(root).any(|id| dom.has_attribute(id, "data-pagefind-body"));
        let header =
            if is_title && !is_exact { find_page_header(dom, titles, root, heading) } else { vec![heading] };
        move_to_start(dom, root, &header);
    }
    let first: Vec<NodeId> = dom.descendants(root).filter(|&id| dom.tag(id) == Tag::H1).take(2).collect();
    if let [logo, _] = first[..]
        && !is_home
        && titles.is_logo(dom, logo)
    {
        dom.node_mut(logo).tag = Tag::P;
    }
    root
}

/// Turns Doxygen's title of the page, which is a `<div>`, into a first-level heading. Blocks in it, which
/// link to the groups of a class, move behind it. A space separates its labels, such as `abstract`.
fn mark_title_of_doxygen(dom: &mut Dom, body: NodeId) {
    let is_title = |&id: &NodeId| {
        dom.tag(id) == Tag::Div
            && dom.has_class(id, "title")
            && dom.parent(id).is_some_and(|parent| dom.has_class(parent, "headertitle"))
    };
    let Some(title) = dom.descendants(body).find(is_title) else { return };
    dom.node_mut(title).tag = Tag::H1;
    let blocks: Vec<NodeId> = dom.children(title).filter(|&child| dom.tag(child).is_block()).collect();
    for block in blocks {
        if let Some(parent) = dom.parent(title) {
            dom.append(parent, block);
        }
    }
    let labels: Vec<NodeId> = dom.descendants(title).filter(|&d| dom.has_class(d, "mlabels")).collect();
    for label in labels {
        let space = dom.push_text(" ");
        dom.insert_before(label, space);
    }
}

/// The first heading outside of `<nav>`, if it is a first-level heading in a header and the name of the site:
/// the title that the page declares consists of the next heading and this one, which comes last unless it is
/// a known name of the site. `None` in an article or a section. Also `None` if the next heading is itself a
/// known name of the site, or is in a footer, which may repeat the name of the site below the page's own
/// heading.
fn find_logo_in_header(dom: &Dom, titles: &Titles, body: NodeId) -> Option<NodeId> {
    let is_in_header = |a| {
        dom.tag(a) == Tag::Header
            || dom.attribute(a, "role") == Some("banner")
            || dom.classes(a).chain(dom.attribute(a, "id")).any(|name| HEADERS.contains(&name))
    };
    let is_heading = |&id: &NodeId| dom.is_heading(id) && !dom.is_blank(id) && !dom.is_in(id, &[Tag::Nav]);
    let mut headings = dom.descendants(body).filter(is_heading);
    let (logo, own) = (headings.next()?, headings.next()?);
    if dom.tag(logo) != Tag::H1
        || !dom.ancestors(logo).any(is_in_header)
        || dom.is_in(logo, &[Tag::Article, Tag::Section])
        || dom.is_in(own, &[Tag::Footer])
    {
        return None;
    }
    let (site, own) = (shown_text(dom, logo), shown_text(dom, own));
    let is_site = titles.joins(&own, &site) && !titles.is_site_name(&own);
    (is_site && (titles.is_site_name(&site) || titles.end_with(&site))).then_some(logo)
}

/// Classes and ids of the header of a site, or of the site's name in it.
const HEADERS: &[&str] =
    &["header", "site-header", "masthead", "banner", "branding", "site-branding", "site-title", "logo"];

/// Finds the region that the page marks as its content: with `data-pagefind-body`, else with `<main>` or its
/// role, else with the class or `itemprop` of a known generator. A generator's mark must occur once; if the
/// page's only outermost `<article>` contains the marked element, that article is the region, or else the
/// nearest element around it that is marked as an entry ([`is_entry`]). It is no region if the page has other
/// content outside of it ([`has_other_content`]). `None` if no region is marked. Blank regions, and regions
/// inside others of the same kind, do not count.
///
/// Changes the tree: moves several regions into one new element, and removes what is beside a generator's
/// content in a single region ([`remove_links_beside`]) or in an entry ([`remove_beside_in_entry`]).
fn isolate_explicit_region(dom: &mut Dom, body: NodeId) -> Option<NodeId> {
    // Three kinds of regions: `data-pagefind-body`, `<main>`, and the content of known generators.
    let mut found: [Vec<NodeId>; 3] = Default::default();
    for id in dom.descendants(body) {
        let Some(element) = dom.element(id) else { continue };
        let mut is_kind = [false, dom.tag(id) == Tag::Main, false];
        for attribute in &element.attributes {
            match (&*attribute.name.local, &*attribute.value) {
                ("data-pagefind-body", _) => is_kind[0] = true,
                ("role", "main") => is_kind[1] = true,
                ("itemprop", "articleBody") => is_kind[2] = true,
                ("class", _) => is_kind[2] |= dom.has_class_in(id, CONTENT_OF_GENERATORS),
                // Dokka's content has this attribute and the class `main-content`.
                ("data-page-type", _) => is_kind[2] |= dom.has_class(id, "main-content"),
                _ => {}
            }
        }
        for (found, _) in found.iter_mut().zip(is_kind).filter(|(_, is_kind)| *is_kind) {
            if !found.last().is_some_and(|&last| dom.ancestors(id).any(|a| a == last)) && !dom.is_blank(id) {
                found.push(id);
            }
        }
    }
    let [marked, mains, known] = found;
    let regions = if marked.is_empty() { mains } else { marked };
    match (&*known, &*regions) {
        ([known], []) => {
            let articles = dom.outermost(body, |id| dom.tag(id) == Tag::Article);
            let around: Vec<NodeId> = dom.ancestors(*known).take_while(|&a| a != body).collect();
            // Prefer the `<article>`: besides the known element, it contains the date and the tags.
            let article = articles.first().copied().filter(|a| articles.len() == 1 && around.contains(a));
            let entry = around.iter().copied().find(|&a| article.is_none() && is_entry(dom, a));
            let region = article.or(entry).unwrap_or(*known);
            // A tab on a product page may have the class of an article's content.
            let is_tab = dom.attribute(region, "role") == Some("tabpanel");
            if is_tab || has_other_content(dom, body, region) {
                return None;
            }
            if let Some(entry) = entry {
                remove_beside_in_entry(dom, entry, *known);
            }
            return Some(region);
        }
        ([known], [region]) => remove_links_beside(dom, *region, *known),
        _ => {}
    }
    (!regions.is_empty()).then(|| move_to_one_element(dom, &regions))
}

/// Whether an element is an entry in a vocabulary: microdata of an article, a posting, a recipe or a review,
/// or a class of microformats. It has the date, the summary and the author of the content in it.
fn is_entry(dom: &Dom, id: NodeId) -> bool {
    let kind = dom.attribute(id, "itemtype").filter(|_| dom.has_attribute(id, "itemscope"));
    kind.is_some_and(|kind| ["Article", "Posting", "Recipe", "Review"].iter().any(|end| kind.ends_with(end)))
        || dom.has_class_in(id, &["hentry", "h-entry"])
}

/// Removes what is beside the `content` of an entry: lists of links and sidebars at any depth. Among the
/// siblings after the content, or after an element around it, also removes navigation, footers, elements
/// named for sharing, comments and the like ([`AFTER_CONTENT`]), elements with at least half of their text in
/// links, and the heading directly before any of these.
fn remove_beside_in_entry(dom: &mut Dom, entry: NodeId, content: NodeId) {
    let measures = measure_elements(dom, entry);
    let is_linked = |id: NodeId| measures[id].linked > 0 && measures[id].linked * 2 >= measures[id].text;
    let is_list = |id| {
        matches!(dom.tag(id), Tag::Nav | Tag::Ul | Tag::Ol) && is_linked(id)
            || has_word_in_name(dom, id, &["sidebar"])
    };
    let is_after = |id| {
        matches!(dom.tag(id), Tag::Nav | Tag::Footer)
            || is_linked(id)
            || has_word_in_name(dom, id, AFTER_CONTENT)
    };
    let mut beside = Vec::new();
    for around in dom.ancestors(content).take_while(|&a| a != entry) {
        let mut is_before = true;
        for id in dom.parent(around).into_iter().flat_map(|parent| dom.child_elements(parent)) {
            if id == around {
                is_before = false;
            } else if is_list(id) || !is_before && is_after(id) {
                let above = dom.previous_element(id).filter(|&above| !is_before && above != around);
                let title = above.filter(|&above| dom.is_heading(above));
                beside.extend(title.into_iter().chain([id]));
            } else {
                beside.extend(dom.outermost(id, is_list));
            }
        }
    }
    for id in beside {
        dom.omit(id, Rule::Outside);
    }
}

/// Words in the classes and ids of elements that follow an entry's content.
#[rustfmt::skip]
const AFTER_CONTENT: &[&str] = &[
    "author", "comment", "footer", "navigation", "newsletter", "related", "share", "sharing", "sidebar", "social",
    "subscribe",
];

/// The classes of the elements in which known generators put the content, and nothing else.
#[rustfmt::skip]
const CONTENT_OF_GENERATORS: &[&str] = &[
    "sl-markdown-content", "theme-doc-markdown", "md-content__inner", "markdown-section", "mw-parser-output",
    "entry-content", "gh-content", "theme-default-content", "nextra-content", "available-content",
];

/// Whether an element is the content of a page by its `itemprop` or a class of [`CONTENT_OF_GENERATORS`].
fn is_known_content(dom: &Dom, id: NodeId) -> bool {
    dom.attribute(id, "itemprop") == Some("articleBody") || dom.has_class_in(id, CONTENT_OF_GENERATORS)
}

/// Removes the links and buttons that a generator puts beside its `content` in the region `main`: elements
/// without other text, headings and images, whose links all lead to the pages before and after, to sections
/// of this page or to its source. Does nothing if `content` is not inside `main`.
fn remove_links_beside(dom: &mut Dom, main: NodeId, content: NodeId) {
    let around: Vec<NodeId> = dom.ancestors(content).take_while(|&a| a != main).collect();
    if dom.parent(*around.last().unwrap_or(&content)) != Some(main) {
        return;
    }
    let parents = around.iter().filter_map(|&id| dom.parent(id));
    let beside: Vec<NodeId> =
        parents.flat_map(|parent| dom.child_elements(parent)).filter(|id| !around.contains(id)).collect();
    for id in beside {
        let is_link = |d: &NodeId| dom.tag(*d) == Tag::A;
        let is_around = dom.subtree(id).filter(is_link).all(|link| leads_around(dom, link));
        if is_around && has_link_or_button(dom, id) && !has_own_text(dom, id) {
            dom.omit(id, Rule::Navigation);
        }
    }
}

/// Whether a link leads to the page before, after or above, according to its `rel`, to a place on the same
/// page, or to its source: the `rel` is `edit`, or the address contains `/edit/`, `/blob/` or `/tree/`.
pub(super) fn leads_around(dom: &Dom, link: NodeId) -> bool {
    let rel = dom.attribute(link, "rel").unwrap_or_default();
    let href = dom.attribute(link, "href").unwrap_or_default();
    rel.split_ascii_whitespace().any(|rel| is_step(rel) || rel == "edit")
        || href.starts_with('#')
        || ["/edit/", "/blob/", "/tree/"].iter().any(|part| href.contains(part))
}

fn is_control(dom: &Dom, id: NodeId) -> bool {
    matches!(dom.tag(id), Tag::A | Tag::Button)
}

fn has_link_or_button(dom: &Dom, id: NodeId) -> bool {
    dom.subtree(id).any(|d| is_control(dom, d))
}

/// Whether an element has letters or digits outside of links and buttons, or a heading or an image anywhere.
fn has_own_text(dom: &Dom, root: NodeId) -> bool {
    let mut outside = dom.walk(root, |id| is_control(dom, id));
    dom.subtree(root).any(|id| dom.tag(id) == Tag::Img || dom.is_heading(id))
        || outside.any(|id| dom.text(id).is_some_and(|text| count_letters(text) > 0))
}

/// The only outermost `<article>` of the page, if it contains more than half of the text and there is no
/// other content outside of it ([`has_other_content`]).
fn find_lone_article(dom: &Dom, body: NodeId) -> Option<NodeId> {
    match *dom.outermost(body, |id| dom.tag(id) == Tag::Article) {
        [article] if dom.letters(article) * 2 > dom.letters(body) => {
            (!has_other_content(dom, body, article)).then_some(article)
        }
        _ => None,
    }
}

/// Removes what surrounds the content of a page without a main region: headers, footers, search fields,
/// blocks of links to the pages before and after, and blocks of links in elements named for navigation. Also
/// removes a first-level heading for which `is_logo` returns true. Headers stay if they have a first-level
/// heading, or a sentence and less than half of their text in links. Headers and footers inside an article, a
/// section, a quote, a figure or the content of a known generator stay. Dialogs about cookies go.
fn remove_surroundings(dom: &mut Dom, body: NodeId, is_logo: impl Fn(&Dom, NodeId) -> bool) {
    let measures = measure_elements(dom, body);
    let steps = linked_steps(dom);
    let is_around = |dom: &Dom, id| {
        let is_nested = || {
            dom.is_in(id, &[Tag::Article, Tag::Section, Tag::Blockquote, Tag::Figure])
                || dom.ancestors(id).any(|a| is_known_content(dom, a))
        };
        let measure = measures[id];
        // `prose` is the text outside of links that is long enough for a sentence.
        let is_text = measure.prose > 0 && measure.linked * 2 < measure.text;
        match (dom.tag(id), dom.attribute(id, "role").unwrap_or_default()) {
            (_, "banner") | (Tag::Header, _) => !is_nested() && !is_text && dom.find(id, Tag::H1).is_none(),
            (_, "contentinfo") | (Tag::Footer, _) => !is_nested(),
            (Tag::Search, _) | (_, "search") => true,
            (_, "dialog" | "alertdialog") => has_word_in_name(dom, id, &["cookie", "consent", "gdpr"]),
            (Tag::H1, _) => is_logo(dom, id),
            (tag, _) => {
                tag.is_block() && measure.text < MAX_STEPS_BYTES && is_sequential_navigation(dom, id, &steps)
                    || measure.prose == 0
                        && measure.linked > 0
                        && measure.linked * 2 >= measure.text
                        && dom.classes(id).chain(dom.attribute(id, "id")).any(|n| NAVIGATION.contains(&n))
            }
        }
    };
    dom.omit_each(body, |dom, id| is_around(dom, id).then_some(Rule::Outside));
}

/// Classes and ids of elements for navigation.
#[rustfmt::skip]
const NAVIGATION: &[&str] = &[
    "navheader", "navfooter", "navbar", "navigation", "nav", "breadcrumb", "breadcrumbs", "sidebar", "sphinxsidebar",
];

/// Maximum length in bytes of the text of a block with links to the previous and the next page.
const MAX_STEPS_BYTES: usize = 500;

fn is_step(rel: &str) -> bool {
    matches!(rel, "next" | "prev" | "previous" | "up")
}

/// The addresses of the pages before, after and above, as the page writes them in its first
/// [`MAX_LINKED_STEPS`] `<link>` elements for these pages.
fn linked_steps(dom: &Dom) -> HashSet<String> {
    let is_link = |id: &NodeId| dom.tag(*id) == Tag::Link && dom.attribute(*id, "rel").is_some_and(is_step);
    let links = dom.descendants(DOCUMENT).filter(is_link).take(MAX_LINKED_STEPS);
    links.filter_map(|id| dom.attribute(id, "href")).map(str::to_owned).collect()
}

const MAX_LINKED_STEPS: usize = 20;

/// Whether an element only links to the pages before, after and above, according to the `rel` of its links or
/// to the `<link>` elements of the page, whose targets are `linked`. Links to the start, the index and the
/// like, and links with an access key may be among them. If no link has a `rel` for the page before, after or
/// above, at least one such link and two targets in `linked` are needed. Each link may have a short label,
/// such as "Next:". False if there is a heading or an image outside of the links.
fn is_sequential_navigation(dom: &Dom, root: NodeId, linked: &HashSet<String>) -> bool {
    let is_start = |rel: &str| matches!(rel, "contents" | "index" | "start" | "top" | "first" | "last");
    // `keys`: links to `linked` with an access key. `is_marked`: whether a link leads to the start or the
    // like, or has an access key. `named`: the targets among `linked`.
    let (mut links, mut labels, mut keys, mut has_step, mut is_marked) = (0, 0, 0, false, false);
    let mut named = HashSet::new();
    for id in dom.walk(root, |id| dom.tag(id) == Tag::A) {
        if dom.tag(id) == Tag::A {
            let mut rels = dom.attribute(id, "rel").unwrap_or_default().split_ascii_whitespace();
            let (is_to_step, is_to_start) = (rels.clone().any(is_step), rels.any(is_start));
            let target = dom.attribute(id, "href").filter(|href| linked.contains(*href));
            let has_key = dom.has_attribute(id, "accesskey");
            if target.is_none() && !has_key && !is_to_step && !is_to_start {
                return false;
            }
            has_step |= is_to_step;
            keys += usize::from(has_key && target.is_some());
            is_marked |= is_to_start || has_key;
            named.extend(target);
            links += 1;
        } else if dom.is_heading(id) || dom.tag(id) == Tag::Img {
            return false;
        }
        labels += dom.text(id).map_or(0, count_letters);
    }
    // Links to the pages before and after may also be content, such as the items of a list, so the labels
    // must be short. DocBook labels these links with page titles, but gives them access keys.
    (has_step || named.len() > 1 && is_marked) && (keys > 1 || labels <= links * MAX_LABEL)
}

/// Maximum average length of a label beside a link in sequential navigation, in letters and digits.
const MAX_LABEL: usize = 12;

/// Removes what is not content even inside the main region: navigation, lists of the page's own sections
/// below a heading for them, the title of such a list in a `<nav>`, permalinks, the numbers of the cells of
/// notebooks, buttons that copy and controls of scripts ([`is_script_control`]). Keeps a `<nav>` that
/// contains a paragraph of text (`holds_paragraph`) or a tab, that is a panel, or that has neither links nor
/// buttons. A fragment keeps the lists.
pub(super) fn remove_navigation(dom: &mut Dom, root: NodeId, is_fragment: bool) {
    // Computed when first needed, because most pages need none of these values.
    let (measures, panels, tabs) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
    let is_navigation = |dom: &Dom, id| {
        (dom.tag(id) == Tag::Nav || dom.attribute(id, "role") == Some("navigation"))
            && !holds_paragraph(dom, id, measures.get_or_init(|| measure_elements(dom, root)))
            && !panels.get_or_init(|| Panels::read(dom)).contains(dom, id)
            && has_link_or_button(dom, id)
            && !dom.descendants(id).any(|d| is_tab(dom, d))
            && !dom
                .descendants(id)
                .any(|d| tabs.get_or_init(|| find_labeled_panels(dom, root)).tabs.contains(&d))
    };
    if !is_fragment {
        let is_list = |id| matches!(dom.tag(id), Tag::Ul | Tag::Ol) && links_to_own_places(dom, id, 3);
        let is_contents = |id| is_list(id) || is_navigation(dom, id) && links_to_own_places(dom, id, 1);
        for list in dom.outermost(root, is_contents) {
            if let Some(title) = title_of_contents(dom, list) {
                dom.omit(title, Rule::Navigation);
                dom.omit(list, Rule::Navigation);
            }
        }
    }
    dom.omit_each(root, |dom, id| {
        if is_navigation(dom, id) {
            Some(Rule::Navigation)
        } else if documentation_markup::is_permalink(dom, id) {
            Some(Rule::Permalink)
        } else if documentation_markup::is_notebook_prompt(dom, id) {
            Some(Rule::NotCode)
        } else {
            (is_script_control(dom, id) || documentation_markup::is_copy_button(dom, id))
                .then_some(Rule::Control)
        }
    });
}

/// Whether an element is a link that moves a carousel of Bootstrap by one slide, or a link that closes a
/// message and leads to no other page, or contains the controls of a player in Ghost. Buttons for these are
/// left out elsewhere.
fn is_script_control(dom: &Dom, id: NodeId) -> bool {
    let moves = matches!(dom.first_attribute(id, &["data-slide", "data-bs-slide"]), Some("prev" | "next"));
    let closes = dom.first_attribute(id, &["data-dismiss", "data-bs-dismiss"]).is_some();
    let is_action = |href: &str| href.starts_with('#') || href.starts_with("javascript:");
    let leads_away = || dom.first_attribute(id, &["href"]).is_some_and(|href| !is_action(href));
    dom.tag(id) == Tag::A && (moves || closes && !leads_away())
        || dom.has_class_in(id, &["kg-audio-player", "kg-video-player"])
}

/// Whether an element opens a tab panel.
fn is_tab(dom: &Dom, id: NodeId) -> bool {
    let toggle = dom.first_attribute(id, &["data-bs-toggle", "data-toggle"]);
    dom.attribute(id, "role") == Some("tab") || matches!(toggle, Some("tab" | "pill" | "list"))
}

/// Whether an element for navigation holds a paragraph with text outside of links that is long enough for a
/// sentence, as the panels of some page builders do, and has less than half of its text in links.
fn holds_paragraph(dom: &Dom, id: NodeId, measures: &Measures) -> bool {
    let measure = measures[id];
    measure.linked * 2 < measure.text
        && measure.prose > 0
        && dom.descendants(id).any(|d| dom.tag(d) == Tag::P && measures[d].prose > 0)
}

/// Whether an element has at least `count` links, all to fragments of this page, and no letters outside of
/// links.
fn links_to_own_places(dom: &Dom, id: NodeId, count: usize) -> bool {
    let mut links = 0;
    for node in dom.walk(id, |node| dom.tag(node) == Tag::A) {
        let is_link = dom.tag(node) == Tag::A;
        if is_link && !dom.attribute(node, "href").is_some_and(|h| h.starts_with('#') && h.len() > 1)
            || dom.text(node).is_some_and(|text| text.contains(char::is_alphabetic))
        {
            return false;
        }
        links += usize::from(is_link);
    }
    links >= count
}

/// The element with the title of a table of contents, such as "On this page": the one before the table, or
/// else before the nearest of three elements around it. The title of a list must be a heading. `None` if the
/// text of the element is not one of [`CONTENTS`].
fn title_of_contents(dom: &Dom, list: NodeId) -> Option<NodeId> {
    let title = dom.ancestors(list).take(4).find_map(|id| dom.previous_element(id))?;
    if matches!(dom.tag(list), Tag::Ul | Tag::Ol) && !dom.subtree(title).any(|id| dom.is_heading(id)) {
        return None;
    }
    let text = dom.collapsed_text(title).to_lowercase();
    CONTENTS.contains(&text.trim_matches(|c: char| !c.is_alphanumeric())).then_some(title)
}

/// The titles of tables of contents.
#[rustfmt::skip]
const CONTENTS: &[&str] = &[
    "contents", "table of contents", "on this page", "in this article", "page contents", "inhalt", "inhaltsverzeichnis",
    "auf dieser seite", "sommaire", "table des matières", "contenido", "tabla de contenido", "tabla de contenidos", "indice",
    "índice", "sumário", "inhoud", "inhoudsopgave", "innehåll", "innehållsförteckning", "indhold", "indholdsfortegnelse",
    "innhold", "innholdsfortegnelse", "sisällys", "sisällysluettelo", "spis treści", "obsah", "içindekiler", "содержание",
    "оглавление", "зміст", "目次", "目录", "目錄", "목차",
];

/// Moves `nodes` into a new element in the place of the first one, and returns that element. A node inside an
/// earlier one stays in it. Returns a single node itself, without moving it.
fn move_to_one_element(dom: &mut Dom, nodes: &[NodeId]) -> NodeId {
    if let [only] = nodes {
        return *only;
    }
    let root = dom.push(Tag::Div, Data::Empty);
    if let Some(&first) = nodes.first() {
        dom.insert_before(first, root);
    }
    for &id in nodes {
        if !dom.ancestors(id).any(|a| a == root) {
            dom.append(root, id);
        }
    }
    root
}

/// Moves the heading before the main content `root` to the beginning of `root` ([`find_heading_before`]).
pub(super) fn move_heading_into(dom: &mut Dom, body: NodeId, root: NodeId) {
    let heading = find_heading_before(dom, body, root, |_| false);
    move_to_start(dom, root, heading.as_slice());
}

/// The last first-level heading before the main content `root`. `None` if the content has a first-level
/// heading, is the whole body, or is inside that heading. Ignores headings for whose text `is_logo` returns
/// true.
fn find_heading_before(
    dom: &Dom,
    body: NodeId,
    root: NodeId,
    is_logo: impl Fn(&str) -> bool,
) -> Option<NodeId> {
    if dom.find(root, Tag::H1).is_some() || root == body {
        return None;
    }
    let before = dom.descendants(body).take_while(|&id| id != root);
    let heading = before.filter(|&id| dom.tag(id) == Tag::H1 && !is_logo(&shown_text(dom, id))).last();
    heading.filter(|&h| !dom.ancestors(root).any(|a| a == h))
}

/// Moves nodes to the beginning of `root`. Does nothing if `root` is empty.
fn move_to_start(dom: &mut Dom, root: NodeId, nodes: &[NodeId]) {
    if let Some(first) = dom.node(root).first {
        for &node in nodes {
            dom.insert_before(first, node);
        }
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
    fn a_heading_above_the_content_may_name_the_site() {
        for (title, expected) in [("Oak? - Forum", "# Oak?\n\nx\n"), ("Forum", "# Forum\n\n## Oak?\n\nx\n")] {
            let page = format!(
                "<!doctype html><title>{title}</title><header><h1>Forum</h1></header><main><h2>Oak?</h2>x</main>"
            );
            assert_eq!(convert(&page, &Options::default()).markdown, expected, "{title}");
        }
    }

    #[test]
    fn a_logo_in_the_main_region_is_no_title() {
        let converted = |title: &str, path: &str, logo: &str| {
            let page = format!(
                "<!doctype html><title>{title}</title><main><h1 class=logo>{logo}</h1><h1>Ropes</h1><h2>Hemp</h2></main>"
            );
            let url = parse_url(&format!("https://oak.example/{path}")).ok();
            let page = convert(&page, &Options { url, ..Options::default() });
            (page.metadata.title.unwrap_or_default(), page.markdown)
        };
        let text = "[Oak](https://oak.example/)";
        let image = "[![Oak](https://oak.example/a.png)](https://oak.example/)";
        for (title, logo, expected, shown) in [
            ("Ropes - Oak", "<a href=/>Oak</a>", "Ropes", text),
            ("All ropes | Oak", "<a href=/><svg><title>Oak</title></svg></a>", "All ropes", text),
            ("Oak", "<a href=/>Oak</a>", "Ropes", text),
            ("Ropes", "<a href=/><img src=/a.png alt=Oak></a>", "Ropes", image),
        ] {
            let (found, markdown) = converted(title, "ropes", logo);
            let body = format!("{shown}\n\n# Ropes\n\n## Hemp\n");
            assert_eq!((&*found, markdown), (expected, body), "{title} {logo}");
        }
        // A heading that links elsewhere is content, and so is the one of the home page.
        let (_, markdown) = converted("Sails", "ropes", "<a href=/sails>Sails</a>");
        assert!(markdown.starts_with("# [Sails](https://oak.example/sails)\n\n## Ropes"), "{markdown}");
        let (_, markdown) = converted("Oak", "", "<a href=/>Oak</a>");
        assert!(markdown.starts_with("# [Oak](https://oak.example/)\n\n## Ropes"), "{markdown}");
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
                "<nav><ul><li><a href=/a>a</a><li>The title of a page, which is longer than those of the others</ul></nav>c",
                "c\n",
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
                "<div><h2>Contents <a href=#x>¶</a></h2><nav><ul><li><a href=#a>a</a><li><a href=#b>b</a></ul></nav></div>c",
                "c\n",
            ),
            ("<div><p>目次</p></div><nav><a href=#a>a</a></nav><p>c", "c\n"),
            ("<h2>Contents</h2><nav><a href=/a>a</a></nav>c", "## Contents\n\nc\n"),
            (
                "<h2>Contents</h2><nav><a href=#a data-toggle=tab>a</a></nav>c",
                "## Contents\n\n[a](#a)\n\nc\n",
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
            (
                "<h2>Contents</h2><ul><li><a href=#a>a</a><li><a href=#b>b</a> new<li><a href=#c>c</a></ul>",
                "## Contents\n\n- [a](#a)\n- [b](#b) new\n- [c](#c)\n",
            ),
            ("<nav><ol><li>Unpack.<li>Plug in.</ol></nav>", "1. Unpack.\n2. Plug in.\n"),
            (
                "<nav><ul><li><a data-toggle=tab href=#a>A</a></ul></nav><div id=a class=tab-pane>x</div>",
                "- [A](#a)\n\nx\n",
            ),
            ("<h2>1. <a class=header-anchor href=#a>Title</a></h2>", "## 1. Title\n"),
        ] {
            assert_eq!(body(&format!("<main>{html}</main>")), expected, "{html}");
        }
    }

    #[test]
    fn text_beside_the_content_of_a_generator_stays_and_links_go() {
        for (html, expected) in [
            (
                "<div><p>a</p><div class=theme-doc-markdown>b</div><footer><a href=https://h/r/edit/main/a.md>Edit</a></footer></div><ul><li><a href=#x>x</a></ul>",
                "a\n\nb\n",
            ),
            (
                "<div class=entry-content>b</div><aside><h3>More</h3><ul><li><a href=/x>x</a></ul></aside><p>c",
                "b\n\n### More\n\n- [x](/x)\n\nc\n",
            ),
            (
                "<button>On this page</button><div class=sl-markdown-content>b</div><a href=/n rel=next>Next</a>",
                "b\n",
            ),
            (
                "<div data-pagefind-body><div class=entry-content>b</div><footer><a href=/r/blob/a.md>Edit</a></footer></div>",
                "b\n",
            ),
            (
                "<div class=entry-content>b</div><p><a href=/apply>Apply</a><ul><li><a href=/f.pdf>Form</a></ul>",
                "b\n\n[Apply](/apply)\n\n- [Form](/f.pdf)\n",
            ),
            ("<div class=entry-content>b</div><p>c <a href=/d>d</a>", "b\n\nc [d](/d)\n"),
            ("<a href=/x><img src=/i alt=i></a><div class=entry-content>b</div>", "[![i](/i)](/x)\n\nb\n"),
        ] {
            assert_eq!(body(&format!("<main>{html}</main>")), expected, "{html}");
        }
        for (html, expected) in [
            (
                "<div itemscope itemtype=https://schema.org/BlogPosting><p>a<div itemprop=articleBody>b</div><p>c</div>d",
                "a\n\nb\n\nc\n",
            ),
            ("<div class='post hentry'><p>a<div><p class=entry-content>b</div></div><p>c", "a\n\nb\n"),
            (
                "<div class='post hentry'><p>By <a href=/ann>Ann</a><ul><li><a href=/x>x</a></ul><img src=/i alt=i>\
                 <div class=entry-content>b</div><p>Corrected: c <a href=/d>d</a><div class=addtoany_share>Share</div>\
                 <div class=author-box>Ann builds boats.</div><div id=comments><p>No comments</div>\
                 <h3>More</h3><div><a href=/y>y</a></div><div class=post-footer>Posted by Ann</div></div>",
                "By [Ann](/ann)\n\n![i](/i)\n\nb\n\nCorrected: c [d](/d)\n",
            ),
            (
                "<div class='single hentry'><div><div class=entry-content>b</div></div><div class=sidebar-main>s</div></div>",
                "b\n",
            ),
            (
                "<div itemscope itemtype=https://schema.org/Blog><p>a<div class=entry-content>b</div></div>",
                "b\n",
            ),
        ] {
            assert_eq!(body(html), expected, "{html}");
        }
        let page = "<!doctype html><body class=hentry><p>a</p><div class=entry-content>b</div>";
        assert_eq!(convert(page, &Options::default()).markdown, "b\n");
        let article = "<article><p>a</p><div itemprop=articleBody>b</div><footer><a href=/t>t</a></footer></article><p>no";
        assert_eq!(body(article), "a\n\nb\n\n[t](/t)\n");
        assert_eq!(
            body("<main class=entry-content><p>a</p><ul><li><a href=/x>x</a></ul></main>"),
            "a\n\n- [x](/x)\n"
        );
    }

    #[test]
    fn an_attribute_leaves_out_parts_of_pages() {
        for (html, expected) in [
            ("<main>a<p data-markdown-ignore>b<i>c</i></p><p>d</main>", "a\n\nd\n"),
            ("<main><p data-markdown-ignore=false>a</p><p data-markdown-ignore=true>b</p>c</main>", "c\n"),
            ("<body data-markdown-ignore><main>a<p data-markdown-ignore>b</main>", "a\n"),
            ("<header>x</header><main data-markdown-ignore>a<p data-markdown-ignore>b</main>", "a\n"),
            ("<p>x</p><div data-markdown-ignore><p>y</p><div role=main>a</div></div>", "a\n"),
            ("<article>a</article><article data-markdown-ignore>b</article>", "a\n"),
            ("<main><pre><code>a\n<span data-markdown-ignore>b</span></code></pre></main>", "```\na\n```\n"),
            ("<main><p data-markdown-ignore=false data-pagefind-ignore>a</p>b</main>", "b\n"),
            (
                "<main><starlight-file-tree data-pagefind-ignore><ul><li>a</ul></starlight-file-tree></main>",
                "- a\n",
            ),
        ] {
            assert_eq!(body(html), expected, "{html}");
        }
        let html = "<!doctype html><html data-markdown-ignore><title>Title</title><main>\
            <h1 data-markdown-ignore>Only for people</h1><p>a</main>";
        let converted = convert(html, &Options::default());
        assert_eq!(converted.metadata.title.as_deref(), Some("Title"));
        assert_eq!((&*converted.markdown, converted.loss.letters), ("# Title\n\na\n", 0));
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
        "<svg><title>!</title><g><text>@<tspan>@</tspan></text></g></svg>",
        "<ol reversed><li>@<li>@</ol><nav><ol><li>@<li>@</ol></nav>",
        "<h2>Contents</h2><ul><li><a href=#a>@</a> @<li><a href=#b>@</a><li><a href=#c>@</a></ul>",
        "<p>https://a.de/<em>@</em>/<code>@</code><br>* @<br>--- | ---<br>www.a.de/*@* _ @</p>",
        "<div class='admonition example'><p class=admonition-title>@</p>@<div class='admonition bug'>@</div></div>",
        "<div class='hidden md:block'>@</div><p>5 m<sup>2</sup> @</p><p><sup>2</sup>@</p>",
        "<h4><button aria-expanded=false>@</button></h4><div hidden>@</div>",
        "<pre>@ <span class=copy>@</span><a href=#1 id=1>1</a> @</pre>",
        "<p>Contents</p><ul><li><a href=#a>@</a><li><a href=#b>@</a><li><a href=#c>@</a></ul>",
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
    fn a_heading_is_moved_only_from_before_the_content() {
        for (html, expected) in [
            ("<h1>t</h1><main>a</main>", "# t\n\na\n"),
            ("<main>a</main><h1>t</h1>", "a\n"),
            ("<h1>t</h1><main>a</main><main>b</main>", "# t\n\na\n\nb\n"),
            ("<main>a</main><main>b</main><h1>t</h1>", "a\n\nb\n"),
            ("<main>a</main><h1>t</h1><main>b</main>", "a\n\nb\n"),
        ] {
            assert_eq!(body(html), expected, "{html}");
        }
    }

    #[test]
    fn a_page_without_a_main_region_loses_its_surroundings() {
        let text = "<h1>t</h1><p>text<div id=comments><p>note</div>";
        let page = format!(
            "<header><a href=/>Logo</a></header><div class=breadcrumbs><a href=/a>A</a></div>{text}<footer>F</footer>"
        );
        assert_eq!(body(&page), "# t\n\ntext\n\nnote\n");
        let hero =
            "<header><h2>a</h2><p>We build wooden boats by hand, and repair those of others, too.</header>";
        assert!(body(&format!("{hero}<p>b")).starts_with("## a\n\nWe build"));
    }

    #[test]
    fn links_to_the_pages_around_leave_a_page_without_a_main_region() {
        let steps = "<div><p>Next: <a href=n rel=next>N</a>, Up: <a href=u rel=up>U</a> [<a href=c rel=contents>C</a>]</div>";
        assert_eq!(body(&format!("<div>{steps}<h1>t</h1><p>text</div>")), "# t\n\ntext\n");
        let named = |links: &str| {
            let head = "<!doctype html><link rel=next href=n><link rel=up href=u><title>t</title>";
            convert(&format!("{head}<body><p>{links}</p><p>text"), &Options::default()).markdown
        };
        assert_eq!(named("Next: <a href=n accesskey=n>N</a>, Up: <a href=u>U</a>"), "# t\n\ntext\n");
        assert_eq!(named("<a href=n>N</a>, <a href=u>U</a>"), "# t\n\n[N](n), [U](u)\n\ntext\n");
        for kept in [
            "<p><a href=n rel=next>N</a> <a href=x>x</a>",
            "<p>See also the chapter <a href=n rel=next>N</a>",
        ] {
            assert!(body(&format!("<div>{kept}</p><h1>t</h1><p>text</div>")).contains("[N](n)"), "{kept}");
        }
        assert!(body(&format!("<main>{steps}<h1>t</h1><p>text</main>")).contains("[N](n)"));
    }

    #[test]
    fn a_heading_with_the_name_of_the_site_is_not_that_of_a_page() {
        for (href, path, expected) in [
            ("../index.html", "a/b.html", "# Page\n"),
            ("index.html", "a/b.html", "# Page\n"),
            ("https://www.example.com", "b.html", "# Page\n"),
            ("index.html", "", "# [Site](https://www.example.com/index.html)\n"),
            ("index.html", "a/", "# [Site](https://www.example.com/a/index.html)\n"),
            ("b.html", "c.html", "# [Site](https://www.example.com/b.html)\n"),
        ] {
            let page = format!(
                "<!doctype html><title>Page — Site</title><body><div><h1><a href='{href}'>Site</a></h1></div><h2>Page</h2><p>x"
            );
            let url = parse_url(&format!("https://www.example.com/{path}")).ok();
            let converted = convert(&page, &Options { url, ..Options::default() });
            assert!(converted.markdown.starts_with(expected), "{href} on {path}: {}", converted.markdown);
        }
    }

    #[test]
    fn the_name_of_the_site_in_a_header_is_not_the_heading() {
        for (title, header, expected) in [
            ("Page | Site", "<div id=h><a href=/><h1>Site</h1></a></div><h2>Page</h2>", "# Page\n\nx\n"),
            ("Site: Page", "<a href=../><h1>Site</h1></a><h2>Page</h2>", "# Page\n\nx\n"),
            ("Page - Site", "<header><h1>Site</h1></header><h2>Page</h2>", "# Page\n\nx\n"),
            (
                "Page - Site",
                "<header><h1>Site</h1><p>We rent cranes to small harbours.</p></header><h2>Page</h2>",
                "We rent cranes to small harbours.\n\n# Page\n\nx\n",
            ),
            (
                "Page - Site",
                "<div id=header><h1>Site</h1><nav><h2>Menu</h2><a href=/a>A</a></nav></div><h3>page</h3>",
                "# page\n\nx\n",
            ),
            ("Page - Site", "<h1 class=site-title>Site</h1><article><h2>Page</h2>", "# Page\n\nx\n"),
            // Here the first heading is that of the page.
            (
                "Site - Page</title><meta property=og:site_name content=Site><title>",
                "<header><h1>Page</h1></header><h2>Site</h2>",
                "# Page\n\n## Site\n\nx\n",
            ),
            ("Page - Site", "<header><h1>Page</h1></header><h2>Site</h2>", "# Page\n\n## Site\n\nx\n"),
            ("Page - Site", "<h1>Site</h1><h2>Page</h2>", "# Site\n\n## Page\n\nx\n"),
            ("Page - Site", "<header><h1>Site</h1></header><h2>Part</h2>", "# Site\n\n## Part\n\nx\n"),
            (
                "Part - Page",
                "<article><header><h1>Page</h1></header><h2>Part</h2>",
                "# Page\n\n## Part\n\nx\n",
            ),
        ] {
            let page = format!("<!doctype html><title>{title}</title><body>{header}<p>x");
            assert_eq!(convert(&page, &Options::default()).markdown, expected, "{title} {header}");
        }
    }

    #[test]
    fn a_known_name_of_the_site_is_not_the_title() {
        let title = |head: &str, body: &str| {
            let page = format!("<!doctype html><title>{head}</title><body>{body}");
            let converted =
                convert(&page, &Options { site_name: Some("Manual".to_owned()), ..Options::default() });
            (converted.metadata.title.unwrap_or_default(), converted.markdown)
        };
        assert_eq!(
            title("Manual", "<h2>4.1 Page</h2><p>x"),
            ("4.1 Page".to_owned(), "# 4.1 Page\n\nx\n".to_owned())
        );
        assert_eq!(title("Page - Manual", "<p>x"), ("Page".to_owned(), "# Page\n\nx\n".to_owned()));
        assert_eq!(title("Manual", "<p>x"), ("Manual".to_owned(), "# Manual\n\nx\n".to_owned()));
    }

    #[test]
    fn a_heading_that_most_pages_have_is_not_the_title() {
        for (path, has_common_title, body, expected) in [
            ("a", true, "<h1>Site</h1><p>x<h2>Page</h2><h2>b</h2>", "Page"),
            ("a", false, "<h1>Site</h1><h2>Page</h2>", "Site"),
            ("", true, "<h1>Site</h1><h2>Page</h2>", "Site"),
            ("a", true, "<h1>Site</h1><p>x", "Site"),
        ] {
            let page = format!("<!doctype html><title>Site</title><body><main>{body}</main>");
            let url = parse_url(&format!("https://www.example.com/{path}")).ok();
            let site_name = Some("Site".to_owned());
            let converted =
                convert(&page, &Options { url, site_name, has_common_title, ..Options::default() });
            assert_eq!(converted.metadata.title.as_deref(), Some(expected), "{path} {body}");
            assert!(converted.markdown.starts_with("# Site\n"), "{}", converted.markdown);
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn titles_are_those_of_the_page() {
        let logo = "<header><h1><a href=/>Site</a></h1></header>";
        let meta = |name: &str, title: &str, own: &str| {
            format!("<title>{title}</title><meta property={name} content='{own}'>")
        };
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
            (
                "<title>Page | FrontDesk</title>",
                "<a rel=home href=/><b>Front</b><span>Desk</span></a><p>x",
                "Page",
                "# Page\n",
            ),
            ("<title>A - B</title>", "<h1>C</h1>", "A - B", "# C\n"),
            (
                "<title>Use (Lib (1.2))</title>",
                "<h3>6.1 Use</h3><p>x<h4>a</h4>",
                "Use",
                "# 6.1 Use\n\nx\n\n#### a\n",
            ),
            ("<title>Report (2024)</title>", "<h1>2024 Report</h1>", "Report (2024)", "# 2024 Report\n"),
            ("<title>Use</title>", "<h2>1. Use</h2><h2>2. Care</h2>", "Use", "# Use\n\n## 1. Use\n"),
            ("<title>Use (planet)</title>", "<h2>Use</h2>", "Use (planet)", "# Use (planet)\n\n## Use\n"),
            (
                "<title>Lib: crane.h File Reference</title>",
                "<div class=headertitle><div class=title>crane.h File Reference<div class=ingroups><a href=g>G</a></div></div></div><h2>x</h2>",
                "crane.h File Reference",
                "# crane.h File Reference\n\n[G](https://www.example.com/g)\n\n## x\n",
            ),
            (
                "<title>Lib: A Class Reference</title>",
                "<div class=headertitle><div class=title>A Class Reference<span class=mlabels><span class=mlabel>final</span><span class=mlabel>abstract</span></span></div></div><h2>x</h2>",
                "Lib: A Class Reference",
                "# A Class Reference final abstract\n\n## x\n",
            ),
            // A `<meta>` may have the same title on all pages.
            (&meta("og:title", "Page | Site", "Know where to go"), "<h2>Page</h2>", "Page", "# Page\n"),
            (&meta("twitter:title", "Page | Other", "Site: cranes"), "<h1>Page</h1>", "Page", "# Page\n"),
            (&meta("dc.title", "Page", "Other"), "<h1>Site</h1><h2>Part</h2>", "Page", "# Site\n"),
            (&meta("og:title", "Site", "A page"), "<h2>Part</h2>", "A page", "# A page\n"),
            (&meta("og:title", "Page | X: go", "X: go"), "<h1>The page</h1>", "Page | X: go", "# The page\n"),
            (&meta("og:title", "Page | Site", "Page"), "<h1>Site Ltd</h1>", "Page", "# Site Ltd\n"),
            (&meta("og:title", "X | A page: go", "A page: go"), "<h1>Part</h1>", "A page: go", "# Part\n"),
            (&meta("og:title", "Rent now", "A page | Site"), "<h1>A page</h1>", "A page", "# A page\n"),
            (&meta("og:title", "A page by Ann | X", "A page"), "<p>x", "A page", "# A page\n"),
            (
                &meta("og:title", "Page - Site", "page: all of it"),
                "<p>x",
                "page: all of it",
                "# page: all of it\n",
            ),
            (&meta("og:title", "Site", "Know where to go"), "<h1>Page</h1>", "Page", "# Page\n"),
            (&meta("og:title", "Site", "A page"), "<h1>A page</h1>", "A page", "# A page\n"),
            (&meta("og:title", "Site", "A page"), "<h1>Site</h1>", "A page", "# Site\n"),
            (&meta("og:title", "", "A page"), "<h2>Part</h2>", "A page", "# A page\n"),
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

    #[test]
    fn links_with_attributes_of_bootstrap_to_other_pages_stay() {
        for (html, expected) in [
            ("<ul><li><a href=/boats data-slide=1>Boats</a></ul>", "- [Boats](/boats)\n"),
            (
                "<p><a href=/offer data-bs-dismiss=alert>Read our summer offer</a>",
                "[Read our summer offer](/offer)\n",
            ),
            ("<p>x<a href=#c data-slide=next>Next</a><a href=# data-dismiss=alert>Close</a>", "x\n"),
        ] {
            let page = format!("<!doctype html><title>t</title><main><h1>t</h1>{html}</main>");
            assert_eq!(convert(&page, &Options::default()).markdown, format!("# t\n\n{expected}"), "{html}");
        }
        let card = "<a data-slide=2 href=/oak><h3>Oak</h3><p>Our best boat.</p></a>";
        let card = convert(&format!("<main>{card}</main>"), &Options::default()).markdown;
        assert!(card.contains("Oak") && card.contains("Our best boat."), "{card}");
    }

    #[test]
    fn a_logo_is_the_title_of_a_home_page_without_another_one() {
        let logo = "<h1><a href=#>Site 3</a></h1>";
        for (head, html, start) in [
            ("Guide — Site 3", "<h1>Guide</h1>", "# Guide\n"),
            ("Guide — Site 3", "<h2>Guide</h2>", "# Guide\n"),
            ("Site 3", "<h2>Guide</h2>", "# Site 3\n\n## Guide\n"),
            ("Site 3 — Cranes for harbours", "<h2>Guide</h2>", "# Site 3\n\n## Guide\n"),
        ] {
            let page = format!("<!doctype html><title>{head}</title><body>{logo}{html}<p>x");
            let url = parse_url("https://www.example.com/").ok();
            let site_name = Some("Site 3".to_owned());
            let home = convert(&page, &Options { url, site_name, ..Options::default() }).markdown;
            let home = home.replace("[Site 3](#)", "Site 3");
            assert!(home.starts_with(start), "{head}: {home}");
        }
    }
}
