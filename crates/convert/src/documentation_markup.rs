//! Recognizes admonitions, tab panels, permalinks and copy buttons in the markup of documentation generators.

use super::dom::{Dom, FOR_SCREEN_READERS, NodeId, Tag, clip};
use super::inline_spacing::shown_text;
use std::collections::{HashMap, HashSet};

/// An admonition, which is converted to a GitHub alert.
pub(super) struct Notice {
    pub(super) kind: &'static str,
    pub(super) title: Option<NodeId>,
    /// The element with an icon, or with a text that only names the kind, such as "Note". It may be in the
    /// title.
    pub(super) icon: Option<NodeId>,
    /// Whether the title says more than the name of the kind, such as "Note".
    pub(super) has_own_title: bool,
    /// The element that contains the text of the admonition, and possibly its title.
    pub(super) body: NodeId,
}

/// The kinds of GitHub alerts: the words that say no more than the kind, and the other words that generators
/// use for such an admonition.
#[rustfmt::skip]
const KINDS: [(&str, &[&str], &[&str]); 5] = [
    ("NOTE", &["note", "info"], &["information", "seealso", "abstract", "summary", "tldr", "todo", "question", "help", "faq", "example",
        "quote", "cite", "primary", "secondary"]),
    ("TIP", &["tip", "hint"], &["success", "check", "done", "okay"]),
    ("IMPORTANT", &["important"], &[]),
    ("WARNING", &["warning", "attention", "warn"], &[]),
    ("CAUTION", &["caution", "danger"], &["error", "failure", "fail", "bug", "missing"]),
];

/// Maps a generator's word for an admonition to a kind of GitHub alert, such as `danger` to `CAUTION`.
fn alert_kind(word: &str) -> Option<&'static str> {
    let mut kinds = KINDS.iter();
    kinds.find(|(_, names, others)| names.contains(&word) || others.contains(&word)).map(|(kind, ..)| *kind)
}

/// Whether the text of an element only names the kind of the alert, such as "Note:".
fn says_kind(dom: &Dom, id: NodeId, kind: &str) -> bool {
    let text = dom.collapsed_text(id).to_lowercase();
    let word = text.trim_end_matches([':', '.']);
    KINDS.iter().any(|(other, names, _)| *other == kind && names.contains(&word))
}

/// Reads an admonition; `None` if the element is not one.
pub(super) fn find_notice(dom: &Dom, id: NodeId) -> Option<Notice> {
    let mut notice = find_layout_notice(dom, id).or_else(|| find_plain_notice(dom, id))?;
    // Quarto begins a title with the kind of the admonition, which only screen readers read.
    let is_label = |&d: &NodeId| dom.has_class_in(d, FOR_SCREEN_READERS) && says_kind(dom, d, notice.kind);
    let label = notice.title.and_then(|title| dom.descendants(title).take(5).find(is_label));
    // MDN begins the text with the kind of the admonition in bold, such as "Note:".
    let is_lead = |&d: &NodeId| {
        matches!(dom.tag(d), Tag::Strong | Tag::B)
            && says_kind(dom, d, notice.kind)
            && dom.text_content(d).trim_end().ends_with(':')
    };
    let is_shown = |d: &NodeId| !dom.is_blank(*d);
    let mut start = dom.descendants(notice.body).filter(is_shown).take(2);
    let lead = start.find(is_lead).filter(|_| notice.title.is_none());
    notice.icon = notice.icon.or(label).or(lead);
    let is_own = |title| !dom.is_blank(title) && !says_kind(dom, title, notice.kind);
    notice.has_own_title = notice.title.is_some_and(is_own);
    Some(notice)
}

/// Reads an admonition of Asciidoctor, DocBook, DocFX or Doxygen. These are laid out as tables or lists, or
/// have a class that is too common to decide alone.
fn find_layout_notice(dom: &Dom, id: NodeId) -> Option<Notice> {
    const COMMON: [&str; 7] = ["note", "tip", "hint", "important", "warning", "caution", "attention"];
    if !matches!(dom.tag(id), Tag::Div | Tag::Dl | Tag::Aside) {
        return None;
    }
    let common = |class: &str| COMMON.into_iter().find(|name| name.eq_ignore_ascii_case(class));
    let kind = dom.classes(id).find_map(common).and_then(alert_kind)?;
    let is_kind = |d: NodeId| says_kind(dom, d, kind);
    let notice = |icon, title, body| Some(Notice { kind, title, icon, has_own_title: false, body });
    let first = dom.child_elements(id).next()?;
    if dom.tag(id) == Tag::Dl {
        let is_title = dom.tag(first) == Tag::Dt && is_kind(first);
        return notice(None, Some(first), id).filter(|_| is_title);
    }
    let Some(table) = dom.child_elements(id).find(|&c| dom.tag(c) == Tag::Table) else {
        // A heading or paragraph can be the title only if content follows it.
        let has_text_after = || dom.nodes_after(first).any(|node| !dom.is_blank(node));
        let is_label = || (dom.is_heading(first) || dom.tag(first) == Tag::P) && has_text_after();
        let is_title = dom.has_class(first, "title") || is_label() && is_kind(first);
        return notice(None, Some(first), id).filter(|_| is_title);
    };
    let cells = dom.descendants(table).take(200).filter(|&d| matches!(dom.tag(d), Tag::Td | Tag::Th)).take(4);
    let is_empty = |cell| dom.collapsed_text(cell).is_empty();
    match *cells.collect::<Vec<NodeId>>() {
        [icon, body] if dom.has_class(icon, "icon") && (is_empty(icon) || is_kind(icon)) => {
            let title = dom.child_elements(body).next().filter(|&t| dom.has_class(t, "title"));
            notice(Some(icon), title, body)
        }
        [icon, title, body] if dom.find(icon, Tag::Img).is_some() && is_empty(icon) => {
            notice(None, Some(title), body)
        }
        _ => None,
    }
}

/// Reads an admonition from an element with a class or an attribute that names its kind: a box such as a
/// `<div>` or `<blockquote>`, or a paragraph with a class such as `admonition`.
fn find_plain_notice(dom: &Dom, id: NodeId) -> Option<Notice> {
    // Accept a paragraph only with these classes: others, such as `hint`, also mark parts of forms.
    let is_admonition =
        |c: &str| matches!(c, "admonition" | "alert" | "callout") || c.starts_with("notice--");
    let is_paragraph = || dom.tag(id) == Tag::P && dom.classes(id).any(is_admonition);
    let is_box = matches!(dom.tag(id), Tag::Div | Tag::Aside | Tag::Section | Tag::Blockquote | Tag::Other);
    if !is_box && !is_paragraph() {
        return None;
    }
    let kind = kind_by_class(dom, id)?;
    let is_title = |c: &str| {
        ["admonition-title", "alert-title", "callout-title"].iter().any(|end| c.ends_with(end))
            || matches!(
                c,
                "custom-block-title"
                    | "starlight-aside__title"
                    | "alert-heading"
                    | "blockquote-tag-title"
                    | "callout-title-container"
                    | "callout-caption-container"
                    | "hint-container-title"
                    | "note__title"
                    | "admonition-header"
                    | "prompt__title"
            )
            || c.starts_with("admonitionHeading")
    };
    // A title after a paragraph is a heading in the text of the admonition.
    // The class `title` of a paragraph is common, so it counts only at the start.
    let is_first = |d| dom.parent(d) == Some(id) && dom.nodes_before(d).all(|node| dom.is_blank(node));
    let is_named = |d| dom.tag(d) == Tag::P && dom.has_class(d, "title") && is_first(d);
    let is_marked = |d| dom.classes(d).any(is_title) || is_named(d);
    let mut start = dom.descendants(id).take(30);
    let title = start.find(|&d| is_marked(d) || dom.tag(d) == Tag::P && !dom.is_blank(d));
    let title = title.filter(|&title| is_marked(title));
    // Ignore the title of a nested admonition.
    let is_inside = |title: NodeId| {
        dom.ancestors(title).skip(1).take_while(|&a| a != id).any(|a| kind_by_class(dom, a).is_some())
    };
    let title = title.filter(|&title| !is_inside(title));
    Some(Notice { kind, title, icon: None, has_own_title: false, body: id })
}

/// Class prefixes that precede the kind of an admonition.
#[rustfmt::skip]
const KIND_PREFIXES: [&str; 13] = [
    "markdown-alert-", "theme-admonition-", "starlight-aside--", "admonition-", "callout-", "callout_", "hint-", "alert--",
    "alert-", "blockquote-tag-", "confluence-information-macro-", "notice--", "prompt--",
];

/// More such prefixes, which other classes have too: only a name of a kind may follow, such as `tip`, and
/// not another word, such as `example`.
const COMMON_PREFIXES: [&str; 3] = ["note_", "prompt-", "rmd"];

/// Classes of admonitions. Another class of the element, such as `note`, names the kind.
#[rustfmt::skip]
const ADMONITIONS: [&str; 8] = [
    "admonition", "custom-block", "callout", "hint", "alert", "admonitionblock", "hint-container", "notecard",
];

/// The kind of the alert that the classes, `data-callout` or `data-callout-type` of an element name, or
/// `data-type` with the class `prompt` of Writerside. An element with the class `admonition` but without a
/// known kind is a note.
fn kind_by_class(dom: &Dom, id: NodeId) -> Option<&'static str> {
    let prefixed =
        |class: &str| KIND_PREFIXES.iter().find_map(|prefix| alert_kind(class.strip_prefix(prefix)?));
    let named = |class: &str| {
        let word = COMMON_PREFIXES.iter().find_map(|prefix| class.strip_prefix(prefix))?;
        KINDS.iter().find(|(_, names, _)| names.contains(&word)).map(|(kind, ..)| *kind)
    };
    // Documenter.jl writes kinds as Bulma does, such as `is-warning`.
    let bulma_kind = |class: &str| alert_kind(class.strip_prefix("is-").unwrap_or(class));
    dom.classes(id)
        .find_map(|class| prefixed(class).or_else(|| named(class)))
        .or_else(|| alert_kind(dom.first_attribute(id, &["data-callout", "data-callout-type"])?))
        .or_else(|| dom.has_class_in(id, &ADMONITIONS).then(|| dom.classes(id).find_map(bulma_kind))?)
        .or_else(|| alert_kind(dom.attribute(id, "data-type").filter(|_| dom.has_class(id, "prompt"))?))
        .or_else(|| dom.has_class(id, "admonition").then_some("NOTE"))
}

/// The tabs of a page and the panels that they open.
#[derive(Default)]
pub(super) struct Tabs {
    /// The label of each panel whose tab has text.
    pub(super) labels: HashMap<NodeId, String>,
    /// The tabs that label a panel. The Markdown shows their text only as the label.
    pub(super) tabs: HashSet<NodeId>,
}

/// Maximum length in bytes of a panel's label. A longer one is truncated, because any number of panels may
/// have the same tab.
const MAX_LABEL: usize = 200;

/// Finds the tab of each panel below `root`: the one that the panel's or the tab's attributes name, or else
/// the one at the panel's position. Searches the nearest of four elements around the panel that has several
/// tabs, or a list of a single tab. Ignores tabs without a label, headings directly before their panels, and
/// elements around their panels. Also finds other tabs of the same panels ([`add_other_tabs`]), and tabs
/// without roles ([`add_tabs_without_roles`]).
pub(super) fn find_labeled_panels(dom: &Dom, root: NodeId) -> Tabs {
    // The tabs found below each element, so that each element is searched only once.
    let mut tabs: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
    // For each parent, the number of its panels so far.
    let mut positions: HashMap<NodeId, usize> = HashMap::new();
    let mut texts: HashMap<NodeId, String> = HashMap::new();
    let mut found = Tabs::default();
    for id in dom.descendants(root) {
        let Some(parent) = dom.parent(id).filter(|&parent| is_tab_panel(dom, id, parent)) else { continue };
        let position = positions.entry(parent).or_default();
        let before = std::mem::replace(position, *position + 1);
        let mut above = dom.ancestors(id).skip(1).take(4);
        // A `tablist` with a single tab is complete: tabs outside of it belong to other panels.
        let is_list = |c| dom.attribute(c, "role") == Some("tablist");
        let container = above.find(|&a| {
            let tabs = tabs.entry(a).or_insert_with(|| find_tabs(dom, a));
            tabs.len() > 1 || tabs.len() == 1 && dom.child_elements(a).take(10).any(is_list)
        });
        let Some(tabs) = container.and_then(|container| tabs.get(&container)) else { continue };
        let [name, own] = ["aria-labelledby", "id"].map(|a| dom.attribute(id, a).filter(|v| !v.is_empty()));
        let opens = |tab: NodeId| {
            let targets = ["aria-controls", "data-bs-target", "data-target", "href"];
            let mut targets = targets.iter().filter_map(|name| dom.attribute(tab, name));
            targets.any(|target| Some(target.trim_start_matches('#')) == own)
        };
        let pane = dom.attribute(id, "data-w-tab");
        let named = |tab: NodeId| {
            name.is_some() && dom.attribute(tab, "id") == name
                || pane.is_some() && dom.attribute(tab, "data-w-tab") == pane
                || opens(tab)
        };
        let Some(&tab) = tabs.iter().find(|&&tab| named(tab)).or_else(|| tabs.get(before)) else { continue };
        if is_heading_above(dom, tab, id) || dom.ancestors(id).any(|a| a == tab) {
            continue;
        }
        let text = texts.entry(tab).or_insert_with(|| label_of_tab(dom, tab));
        if !text.is_empty() {
            found.labels.insert(id, text.clone());
            found.tabs.insert(tab);
        }
    }
    add_other_tabs(dom, root, &mut found);
    add_tabs_without_roles(dom, root, &mut found);
    found
}

/// The text of a tab, or the `aria-label` of a radio button, as daisyUI uses for tabs; at most [`MAX_LABEL`]
/// bytes. Labels of other empty elements do not count: most are dots below a slider.
fn label_of_tab(dom: &Dom, tab: NodeId) -> String {
    let label = dom.attribute(tab, "aria-label").filter(|_| dom.tag(tab) == Tag::Input);
    let text = label.map_or_else(|| shown_text(dom, tab), |label| label.trim().to_owned());
    clip(&text, MAX_LABEL).to_owned()
}

/// Adds the tabs that have neither roles nor known classes: the controls in a row or a list, if there are
/// several, each is a plain label ([`is_plain_label`]) and opens a panel of its own ([`opened_panels`]), and
/// the panels are siblings that do not contain their controls. Leaves out a row with a heading for a control
/// directly before its panel, as in accordions. If a control is a link or calls a function, the HTML must
/// hide at least one of the panels: other links are a table of contents, and other functions copy or scroll.
/// The class of W3Schools' example for panels also suffices for functions.
fn add_tabs_without_roles(dom: &Dom, root: NodeId, found: &mut Tabs) {
    const NAMES: [&str; 5] = ["id", "name", "data-tab-item", "data-tab-content", "x-show"];
    let elements = || dom.descendants(root).filter(|&id| dom.element(id).is_some());
    let (mut rows, mut places) = (Vec::<Vec<(NodeId, Vec<String>)>>::new(), HashMap::new());
    for (id, keys) in elements().map(|id| (id, opened_panels(dom, id))).filter(|(_, keys)| !keys.is_empty()) {
        let row = dom.ancestors(id).skip(1).find(|&a| dom.tag(a) != Tag::Li);
        let place = *places.entry(row).or_insert(rows.len());
        rows.resize(rows.len().max(place + 1), Vec::new());
        rows[place].push((id, keys));
    }
    let controls: HashSet<NodeId> = rows.iter().flatten().map(|(id, _)| *id).collect();
    rows.retain(|row| row.len() > 1);
    if rows.is_empty() {
        return;
    }
    let mut panels = HashMap::new();
    for id in elements().filter(|id| !controls.contains(id)) {
        for name in NAMES.iter().filter_map(|name| Some(panel_key(name, dom.attribute(id, name)?))) {
            panels.entry(name).or_insert(id);
        }
    }
    for row in rows {
        let opened =
            row.iter().map(|(tab, keys)| Some((*tab, *keys.iter().find_map(|key| panels.get(key))?)));
        let Some(opened) = opened.collect::<Option<Vec<(NodeId, NodeId)>>>() else { continue };
        let parent = dom.parent(opened[0].1);
        let distinct: HashSet<NodeId> = opened.iter().map(|&(_, panel)| panel).collect();
        let is_hidden = |id| dom.has_attribute(id, "hidden") || dom.style(id, "display") == Some("none");
        let is_panel = |&(tab, panel): &(NodeId, NodeId)| {
            dom.parent(panel) == parent
                && !found.labels.contains_key(&panel)
                && is_plain_label(dom, tab)
                && !dom.ancestors(tab).any(|a| a == panel)
                && !is_heading_above(dom, tab, panel)
        };
        let is_doubtful = |&(tab, panel): &(NodeId, NodeId)| {
            dom.has_attribute(tab, "href")
                || dom.has_attribute(tab, "onclick") && !dom.has_class(panel, "tabcontent")
        };
        let has_hidden_panel = || opened.iter().any(|&(_, panel)| is_hidden(panel));
        if distinct.len() == opened.len()
            && opened.iter().all(is_panel)
            && (!opened.iter().any(is_doubtful) || has_hidden_panel())
        {
            let is_item = |&id: &NodeId| dom.tag(id) == Tag::Li && dom.child_elements(id).nth(1).is_none();
            let items = opened.iter().filter_map(|&(tab, _)| dom.parent(tab).filter(is_item));
            found.tabs.extend(opened.iter().map(|&(tab, _)| tab).chain(items));
            found.labels.extend(opened.iter().map(|&(tab, panel)| (panel, label_of_tab(dom, tab))));
        }
    }
}

/// Whether an element is only a label, so that its text may stand for it: it has a text of at most
/// [`MAX_LABEL`] bytes, no image and no block except `<div>`, and leads to no other page.
fn is_plain_label(dom: &Dom, id: NodeId) -> bool {
    let is_rich = |d| dom.tag(d) == Tag::Img || dom.tag(d).is_block() && dom.tag(d) != Tag::Div;
    let leads_away = |href: &str| !href.starts_with('#') && !href.starts_with("javascript:");
    let text = shown_text(dom, id);
    !text.is_empty()
        && text.len() <= MAX_LABEL
        && !dom.descendants(id).any(is_rich)
        && !dom.first_attribute(id, &["href"]).is_some_and(leads_away)
}

/// The panels that a button, a link or a web component such as `<sl-tab>` may open, as [`panel_key`] writes
/// them, the most probable first. Empty for other elements.
fn opened_panels(dom: &Dom, id: NodeId) -> Vec<String> {
    const TARGETS: [&str; 5] = ["data-tab", "data-tab-item", "data-tab-target", "panel", "aria-controls"];
    let is_component = dom.tag(id) == Tag::Other && dom.name(id).ends_with("-tab");
    if !matches!(dom.tag(id), Tag::A | Tag::Button) && !is_component {
        return Vec::new();
    }
    let targets = TARGETS.iter().filter_map(|name| Some(panel_key(name, dom.attribute(id, name)?)));
    let handler = dom.click_handler(id).map(|handler| panel_key("@click", handler));
    let href = dom.attribute(id, "href").filter(|href| href.starts_with('#') && href.len() > 1);
    let call = dom.attribute(id, "onclick").map(|call| clip(call, MAX_LABEL));
    let quoted = call.and_then(|call| call.split(['\'', '"']).nth(1));
    let names = href.into_iter().chain(quoted).map(|name| panel_key("id", name));
    targets.chain(handler).chain(names).collect()
}

/// The name of a panel in an attribute of the panel or its tab. For the conditions of Alpine, such as
/// `tab === 'a'`, and the clicks that make them true, such as `tab = 'a'`, this is `=` and the letters.
fn panel_key(attribute: &str, value: &str) -> String {
    let value = clip(value, MAX_LABEL).trim();
    if !matches!(attribute, "@click" | "x-show") {
        return value.trim_start_matches('#').to_owned();
    }
    let is_part = |c: &char| c.is_alphanumeric() || matches!(c, '!' | '.' | '_' | '$' | '-');
    std::iter::once('=').chain(value.chars().filter(is_part)).collect()
}

/// Adds the tabs that also open a labeled panel and have its label as their text, for other widths of the
/// screen, or that only filter the rows in it, as in Javadoc.
fn add_other_tabs(dom: &Dom, root: NodeId, found: &mut Tabs) {
    let named = found.labels.iter().filter_map(|(&panel, label)| Some((dom.attribute(panel, "id")?, label)));
    let labels: HashMap<&str, &String> = named.collect();
    let is_other = |&tab: &NodeId| {
        let label = dom.attribute(tab, "aria-controls").and_then(|panel| labels.get(panel));
        dom.attribute(tab, "role") == Some("tab")
            && label.is_some_and(|&label| dom.has_class(tab, "table-tab") || label_of_tab(dom, tab) == *label)
    };
    found.tabs.extend(dom.descendants(root).filter(is_other));
}

/// Whether a tab is a heading, or in one or has one, directly before its panel, as in accordions. Such a tab
/// stays a heading.
fn is_heading_above(dom: &Dom, tab: NodeId, panel: NodeId) -> bool {
    let mut places = dom.ancestors(tab).take(3);
    places.any(|place| {
        dom.next_element(place) == Some(panel) && dom.subtree(place).take(20).any(|d| dom.is_heading(d))
    })
}

/// The tabs among the first 2000 nodes below `container`: by their role, or by a class of Webflow or daisyUI,
/// or of a list around them.
fn find_tabs(dom: &Dom, container: NodeId) -> Vec<NodeId> {
    const LISTS: [&str; 2] = ["tablist", "et_pb_tabs_controls"];
    let is_tab = |&d: &NodeId| match dom.tag(d) {
        Tag::Label if dom.parent(d).is_some_and(|p| dom.has_class_in(p, &["tabbed-labels", "tabs"])) => true,
        Tag::Li if dom.ancestors(d).skip(1).take(2).any(|a| dom.has_class_in(a, &LISTS)) => true,
        Tag::Input if dom.has_class(d, "tab") => true,
        _ => dom.attribute(d, "role") == Some("tab") || dom.has_class(d, "w-tab-link"),
    };
    dom.descendants(container).take(2000).filter(is_tab).collect()
}

/// Whether an element is a panel of tabs: by its role, or by a class of a known generator: Material for
/// MkDocs, VitePress, Asciidoctor, Webflow, Divi or daisyUI.
fn is_tab_panel(dom: &Dom, id: NodeId, parent: NodeId) -> bool {
    dom.element(id).is_some()
        && (dom.attribute(id, "role") == Some("tabpanel")
            || dom.has_class_in(id, &["tabbed-block", "tabpanel", "w-tab-pane", "et_pb_tab"])
            || dom.has_class(id, "tab-content")
                && dom.previous_element(id).is_some_and(|p| dom.tag(p) == Tag::Input)
            || dom.has_class(parent, "blocks")
                && dom.parent(parent).is_some_and(|g| dom.has_class(g, "vp-code-group")))
}

/// The characters of permalinks. [`is_permalink`] also accepts private use characters, which icon fonts show
/// as symbols.
const PERMALINK_SYMBOLS: &[char] =
    &['#', '¶', '⁋', '§', '◆', '♦', '🔗', '\u{fe0f}', '\u{200b}', '\u{feff}', '∞', '⚓', '↩', ' '];

#[rustfmt::skip]
const PERMALINKS: &[&str] = &[
    "anchor", "headerlink", "header-anchor", "hash-link", "permalink", "heading-anchor", "anchorjs-link", "heading-link",
];

/// The texts of permalinks, in lower case. A description of the target may follow.
#[rustfmt::skip]
const PERMALINK_LABELS: [&str; 7] = [
    "link to", "permalink", "permanent link", "direct link", "anchor", "section titled", "copy link",
];

/// Words that may precede the name of the target in a permalink's text, as in "Link to the section Prices".
#[rustfmt::skip]
const PERMALINK_WORDS: [&str; 11] = [
    "to", "for", "of", "the", "link", "anchor", "section", "heading", "header", "title", "clipboard",
];

/// Whether an element is a permalink: a link to a fragment, outside of code, that is empty, a symbol, or a
/// phrase such as "Link to this section" beside other text. An empty link must have a class of
/// [`PERMALINKS`], or be in PreTeXt's element for permalinks, and have no image but a `data:` one.
/// With such a class, a phrase must lead to the same page. Without it, a link must lead to its own place.
/// There are two exceptions: `↩`, and a symbol in a heading or a term, which must have text beside it
/// instead.
pub(super) fn is_permalink(dom: &Dom, link: NodeId) -> bool {
    let Some(href) = dom.attribute(link, "href").filter(|_| dom.tag(link) == Tag::A) else { return false };
    if !href.contains('#') || dom.is_in(link, &[Tag::Pre, Tag::Code]) {
        return false;
    }
    let text = dom.collapsed_text(link).to_lowercase();
    let is_symbol =
        text.chars().all(|c| PERMALINK_SYMBOLS.contains(&c) || matches!(c, '\u{e000}'..='\u{f8ff}'));
    let is_marked = |parent| dom.has_class(parent, "autopermalink");
    let is_named = dom.has_class_in(link, PERMALINKS) || dom.parent(link).is_some_and(is_marked);
    let says_so = || is_permalink_label(&text, &text_beside(dom, link));
    match text.as_str() {
        "" => {
            let is_inline = |image| dom.attribute(image, "src").is_some_and(|src| src.starts_with("data:"));
            is_named && dom.find(link, Tag::Img).is_none_or(is_inline)
        }
        _ if is_named => is_symbol || href.starts_with('#') && says_so(),
        // Without a class for permalinks, a link may be about the symbol, so its place decides; `↩` needs no
        // place.
        _ if is_symbol => {
            let is_title = |id| dom.tag(id) == Tag::Dt || dom.is_heading(id);
            let title = dom.ancestors(link).take(4).any(is_title);
            text.contains('↩')
                || title && !text_beside(dom, link).is_empty()
                || !title && leads_to_own_place(dom, link, href)
        }
        _ => leads_to_own_place(dom, link, href) && says_so(),
    }
}

/// Whether the text of a link is a label of a permalink, alone or before "this", words such as "section", or
/// the letters of the text `beside` the link. False if nothing is beside the link, because its text is then
/// content.
fn is_permalink_label(text: &str, beside: &str) -> bool {
    let beside: String = beside.chars().filter(|c| c.is_alphanumeric()).collect();
    let describes = |rest: &str| {
        let words = rest.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let mut words = words.skip_while(|word| PERMALINK_WORDS.contains(word)).peekable();
        words.peek() == Some(&"this") || beside.contains(&words.collect::<String>())
    };
    let rests = PERMALINK_LABELS.iter().filter_map(|label| text.strip_prefix(label));
    let mut rests = rests.filter(|rest| !rest.starts_with(char::is_alphanumeric));
    !beside.is_empty() && rests.any(describes)
}

/// The text beside a link in the block around it, or around a `<div>` with only the link, in lower case and
/// without white space. Reads at most 100 nodes of each block, and counts an image as the letter `i`.
fn text_beside(dom: &Dom, link: NodeId) -> String {
    let blocks = dom.ancestors(link).skip(1).take(6).filter(|&id| dom.tag(id).is_block());
    for block in blocks {
        let mut beside = String::new();
        for id in dom.walk(block, |id| id == link).take(100) {
            let text = if dom.tag(id) == Tag::Img { "i" } else { dom.text(id).unwrap_or_default() };
            let lower = clip(text, MAX_LABEL).to_lowercase();
            beside.extend(lower.split_whitespace());
        }
        if !beside.is_empty() || dom.tag(block) != Tag::Div {
            return beside;
        }
    }
    String::new()
}

/// Whether the target of a link is the link itself, one of the three nearest elements around it, or at the
/// start of the element before it.
fn leads_to_own_place(dom: &Dom, link: NodeId, href: &str) -> bool {
    let Some(name) = href.strip_prefix('#').filter(|name| !name.is_empty()) else { return false };
    let before = dom.previous_element(link).into_iter().flat_map(|id| dom.subtree(id).take(6));
    let mut places = dom.ancestors(link).take(4).chain(before);
    places.any(|id| dom.attribute(id, "id") == Some(name) || dom.attribute(id, "name") == Some(name))
}

/// The texts of buttons that copy something, before and after a click.
#[rustfmt::skip]
const COPY_LABELS: &[&str] = &[
    "copy", "copied", "copied!", "copy code", "copy to clipboard", "copy text", "copy snippet", "copy command", "copy link",
    "copy page", "copy copied!",
];

/// Classes that nbsphinx, JupyterLab and older versions of nbconvert give to the prompts of notebooks.
const PROMPTS: &[&str] = &["prompt", "jp-InputPrompt", "jp-OutputPrompt"];

/// Maximum number of nodes in a prompt of a notebook. The limit bounds the time for elements inside each
/// other.
const MAX_PROMPT: usize = 20;

/// Whether an element numbers a cell of a notebook or its output, as in `In [1]:`. It has a class of
/// [`PROMPTS`], no other text and at most [`MAX_PROMPT`] nodes.
pub(super) fn is_notebook_prompt(dom: &Dom, id: NodeId) -> bool {
    if !dom.has_class_in(id, PROMPTS) || dom.subtree(id).nth(MAX_PROMPT).is_some() {
        return false;
    }
    let text = dom.collapsed_text(id);
    let number = text.strip_prefix("In").or_else(|| text.strip_prefix("Out")).unwrap_or(&text).trim_start();
    let number = number.strip_prefix('[').and_then(|number| number.strip_suffix("]:"));
    number.is_some_and(|number| number.chars().all(|c| c.is_ascii_digit() || c == '*' || c.is_whitespace()))
}

/// Whether an element is a button that copies code or a link, judging by its text, the description of its
/// image, or its title. An element with the role `button` counts unless it leads to another page.
pub(super) fn is_copy_button(dom: &Dom, id: NodeId) -> bool {
    let is_action = |href: &str| href.starts_with('#') || href.starts_with("javascript:");
    let leads_away = || dom.attribute(id, "href").is_some_and(|href| !is_action(href));
    if dom.tag(id) != Tag::Button && (dom.attribute(id, "role") != Some("button") || leads_away()) {
        return false;
    }
    let mut text = dom.collapsed_text(id).to_lowercase();
    // A hidden field may hold the text that the button copies.
    let has_copied_text = || dom.descendants(id).any(|d| dom.tag(d) == Tag::Textarea);
    let name = || dom.first_attribute(id, &["title", "aria-label"]).unwrap_or_default().to_lowercase();
    if COPY_LABELS.contains(&&*name()) && has_copied_text() {
        return true;
    }
    if text.is_empty() {
        let image = dom.find(id, Tag::Img).and_then(|image| dom.first_attribute(image, &["alt"]));
        text = image.unwrap_or_default().to_lowercase();
    }
    // The title or label of a copy button may say more than its text.
    let is_named = || {
        let name = name();
        text.starts_with("copy ") && name.starts_with(&text) && name.ends_with("clipboard")
    };
    COPY_LABELS.contains(&text.as_str()) || is_named()
}

/// Whether a child of a heading is a link to a fragment and contains the heading's whole text, `heading`.
pub(super) fn is_self_link(dom: &Dom, id: NodeId, heading: &str) -> bool {
    dom.tag(id) == Tag::A
        && dom.attribute(id, "href").is_some_and(|h| h.starts_with('#'))
        && dom.collapsed_text(id) == heading
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn admonitions_become_alerts() {
        for html in [
            "<div class='markdown-alert markdown-alert-tip'><p class=markdown-alert-title>Tip</p><p>x</div>",
            "<div class='admonition tip'><p class=admonition-title>Tip</p><p>x</div>",
            "<aside class='starlight-aside starlight-aside--tip'><p class=starlight-aside__title>Tip</p><section><p>x</section></aside>",
            "<div class='tip custom-block'><p class=custom-block-title>TIP</p><p>x</div>",
            "<div class='theme-admonition theme-admonition-tip alert alert--success'><div class=admonitionHeading_x><span>tip</span></div><div><p>x</div></div>",
        ] {
            assert_eq!(markdown(html), "> [!TIP]\n> x\n", "{html}");
        }
        for html in [
            // Asciidoctor, DocBook, Doxygen
            "<div class='admonitionblock tip'><table><tr><td class=icon><i class='fa icon-tip' title=Tip></i><td class=content><p>x</table></div>",
            "<div class='admonitionblock tip'><table><tr><td class=icon><div class=title>Tip</div><td class=content>x</table></div>",
            "<div class=tip><table><tr><td rowspan=2><img alt='[Tip]' src=t.png><th>Tip<tr><td><p>x</table></div>",
            "<div class=tip><h3 class=title>Tip</h3><p>x</div>",
            "<dl class='section tip'><dt>Tip<dd>x</dl>",
            "<dl class=tip><dt><b>Tip:</b><dd>x</dl>",
            // DocFX
            "<div class=TIP><h5>Tip</h5><p>x</div>",
            "<div class=TIP><p>Tip</p><p>x</div>",
        ] {
            assert_eq!(markdown(html), "> [!TIP]\n> x\n", "{html}");
        }
        let plain =
            "<div class=note><p>x</div><dl class=note><dt>a<dd>b</dl><div class=tip><h3>c</h3>d</div>";
        assert_eq!(markdown(plain), "x\n\na\n\nb\n\n### c\n\nd\n");
        let titled = "<div class='admonitionblock tip'><table><tr><td class=icon><td class=content><div class=title>a*b <i>c</i></div>x</table></div>";
        assert_eq!(markdown(titled), "> [!TIP]\n> **a\\*b *c***\n>\n> x\n");
        for (html, expected) in [
            // Other words than those that GitHub shows stay.
            (
                "<div class='admonition example'><p class=admonition-title>Example</p><p>x</div>",
                "> [!NOTE]\n> **Example**\n>\n> x\n",
            ),
            (
                "<div class='admonition danger'><p class=admonition-title>Danger</p><p>x</div>",
                "> [!CAUTION]\n> x\n",
            ),
            // Quarto
            (
                "<div class='callout callout-note'><div class=callout-title-container><span class=screen-reader-only>Note</span>y z</div><div><p>x</div></div>",
                "> [!NOTE]\n> **y z**\n>\n> x\n",
            ),
            (
                "<div class='callout callout-note'><div class=callout-title-container>Note</div><p>x</div>",
                "> [!NOTE]\n> x\n",
            ),
            ("<div class='hint hint-info'>x</div>", "> [!NOTE]\n> x\n"),
            ("<div class=callout data-callout-type=warning>x</div>", "> [!WARNING]\n> x\n"),
            (
                "<p class='callout warning'>x</p><p class='alert alert-info'>y</p>",
                "> [!WARNING]\n> x\n\n> [!NOTE]\n> y\n",
            ),
            ("<p class=hint>x</p><p class='note info'>y</p><p class=callout>z</p>", "x\n\ny\n\nz\n"),
            // DITA, VuePress, MDN, Confluence, ReadMe, Chirpy, bookdown and Minimal Mistakes
            (
                "<div class='note caution note_caution'><span class=note__title>Caution:</span> x</div>",
                "> [!CAUTION]\n> x\n",
            ),
            (
                "<div class='hint-container caution'><p class=hint-container-title>Achtung</p><p>x</div>",
                "> [!CAUTION]\n> **Achtung**\n>\n> x\n",
            ),
            ("<div class='notecard warning'><p><b>Warning:</b> x</div>", "> [!WARNING]\n> **Warning:** x\n"),
            (
                "<div class='confluence-information-macro confluence-information-macro-information'><p class=title>y</p><span class='aui-icon confluence-information-macro-icon'></span><div><p>x</div></div>",
                "> [!NOTE]\n> **y**\n>\n> x\n",
            ),
            ("<blockquote class='callout callout_okay'>x</blockquote>", "> [!TIP]\n> x\n"),
            ("<blockquote class=prompt-danger><p>x</blockquote>", "> [!CAUTION]\n> x\n"),
            ("<div class=note><p>Note</p></div>", "Note\n"),
            ("<div class=important><h2>Important</h2></div>y", "## Important\n\ny\n"),
            (
                "<div class='alert alert-info'>x<p class=title>y</p><p>z</div>",
                "> [!NOTE]\n> x\n>\n> y\n>\n> z\n",
            ),
            ("<div class=prompt-example><p>x</div><div class=note_summary>y</div>", "x\n\ny\n"),
            ("<div class=rmdwarning><p>x</div><div class=rmd><p>y</div>", "> [!WARNING]\n> x\n\ny\n"),
            ("<blockquote class=prompt data-type=warning>x</blockquote>", "> [!WARNING]\n> x\n"),
            ("<p class=notice--warning>x</p><p class=notice>y", "> [!WARNING]\n> x\n\ny\n"),
            // The title is that of the admonition inside.
            (
                "<div class='admonition note'><p>x</p><div class='admonition tip'><p class=admonition-title>y</p><p>z</div></div>",
                "> [!NOTE]\n> x\n>\n> > [!TIP]\n> > **y**\n> >\n> > z\n",
            ),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
        let titled = "<div class='admonition danger'><p class=admonition-title>Do not</p><p>x</div>";
        assert_eq!(markdown(titled), "> [!CAUTION]\n> **Do not**\n>\n> x\n");
        let late = "<div class='alert alert-info'><p>x</p><h4 class=alert-heading>y</h4><p>z</div>";
        assert_eq!(markdown(late), "> [!NOTE]\n> x\n>\n> #### y\n>\n> z\n");
    }

    #[test]
    fn tabs_without_roles_label_their_panels() {
        for html in [
            "<nav class=tabs><a href=#a>A</a><a href=#b>B</a></nav><div id=a><p>1</div><div id=b hidden><p>2</div>",
            "<div><button data-tab=a>A</button><button data-tab=b>B</button></div><div id=a>1</div><div id=b style='display:none'>2</div>",
            "<ul><li><button data-tab-item=a>A</button><li><button data-tab-item=b>B</button></ul><p data-tab-item=a>1<p data-tab-item=b>2",
            "<sl-tab-group><sl-tab panel=a>A</sl-tab><sl-tab panel=b>B</sl-tab><sl-tab-panel name=a>1</sl-tab-panel><sl-tab-panel name=b>2</sl-tab-panel></sl-tab-group>",
            "<div><button @click='tab=1'>A</button><button @click='tab=2'>B</button><p x-show='tab == 1'>1<p x-show='tab == 2'>2</div>",
            "<nav><a href=# @click.prevent='tab=1'>A</a><a href=# x-on:click.prevent.stop='tab=2'>B</a></nav><div x-show='tab==1'>1</div><div x-show='tab==2' style=display:none>2</div>",
            "<div><button aria-controls=a>A</button><button aria-controls=b>B</button></div><section id=a>1</section><section id=b hidden>2</section>",
            "<div><button onclick=\"show(event, 'a')\">A</button><button onclick=\"show(event, 'b')\">B</button></div><div id=a class=tabcontent>1</div><div id=b class=tabcontent>2</div>",
            "<ul><li><a href=#a aria-controls=x>A</a><li><a href=#b aria-controls=y>B</a></ul><div id=a>1</div><div id=b hidden>2</div>",
            "<ul><li><a href=#a @click.prevent='track()'>A</a><li><a href=#b @click.prevent='track()'>B</a></ul><div id=a>1</div><div id=b hidden>2</div>",
            "<div class=tabs><input type=radio class=tab aria-label=A><div class=tab-content>1</div><input type=radio class=tab aria-label=B><div class=tab-content>2</div></div>",
            "<div role=tablist><input type=radio role=tab aria-label=A><p role=tabpanel>1</p><input type=radio role=tab aria-label=B><p role=tabpanel>2</div>",
        ] {
            assert_eq!(markdown(html), "**A**\n\n1\n\n**B**\n\n2\n", "{html}");
        }
        for (start, end, shown) in [
            ("<button data-tab=a><h3>", "</h3><p>Long</p></button>", "### A"),
            ("<button data-tab=a>", "<img src=/oak.jpg alt=Oak></button>", "/oak.jpg"),
            ("<a data-tab=a href=/prices>", "</a>", "[A](/prices)"),
        ] {
            let html =
                format!("<div>{start}A{end}<button data-tab=b>B</button></div><p id=a>1<p id=b hidden>2");
            assert!(markdown(&html).contains(shown), "{}", markdown(&html));
        }
        let contents = "<ul><li><a href=#a>A</a><li><a href=#b>B</a></ul><h2 id=a>A</h2><h2 id=b>B</h2>";
        assert_eq!(markdown(contents), "- [A](#a)\n- [B](#b)\n\n## A\n\n## B\n");
        let headings = "<button data-tab=a><h3>A</h3></button><p id=a>1</p><button data-tab=b><h3>B</h3></button><p id=b>2";
        assert_eq!(markdown(headings), "### A\n\n1\n\n### B\n\n2\n");
    }

    #[test]
    fn tab_panels_carry_their_labels() {
        let html = "<div><ul role=tablist><li role=tab>npm</li><li role=tab>pnpm</li></ul>\
            <div><div role=tabpanel><p>a</div><div role=tabpanel hidden><p>b</div></div></div>";
        assert_eq!(markdown(html), "**npm**\n\na\n\n**pnpm**\n\nb\n");
        let one = "<div><ul role=tablist><li role=tab>Bash</ul><div><div role=tabpanel>c</div></div></div>";
        assert_eq!(
            markdown(&format!("<div>{html}{one}</div>")),
            "**npm**\n\na\n\n**pnpm**\n\nb\n\n**Bash**\n\nc\n"
        );
        let code = "<div><div role=tablist><p role=tab id=t>sh</p></div><pre role=tabpanel aria-labelledby=t>ls</pre></div>";
        assert_eq!(markdown(code), "**sh**\n\n```\nls\n```\n");
        for html in [
            // Elementor, Webflow, Asciidoctor, Divi
            "<div><div role=tablist><p role=tab aria-controls=p>A</p><p role=tab aria-controls=q>B</p></div><div><p role=tab aria-controls=p>A</p><div role=tabpanel id=p>x</div><p role=tab aria-controls=q>B</p><div role=tabpanel id=q>y</div></div></div>",
            "<div><div><a data-w-tab=1 class=w-tab-link><div>A</div></a><a data-w-tab=2 class=w-tab-link>B</a></div><div><div data-w-tab=1 class=w-tab-pane>x</div><div data-w-tab=2 class=w-tab-pane>y</div></div></div>",
            "<div class=content><div class=tablist><ul><li class=tab><p>A</p><li class=tab><p>B</p></ul></div><div class=tabpanel>x</div><div class=tabpanel>y</div></div>",
            "<div><ul class=et_pb_tabs_controls><li><a href=#>A</a><li><a href=#>B</a></ul><div><div class=et_pb_tab>x</div><div class=et_pb_tab>y</div></div></div>",
        ] {
            assert_eq!(markdown(html), "**A**\n\nx\n\n**B**\n\ny\n", "{html}");
        }
        let html = html.replace("pnpm<", "<b class=n>Oak</b><span class=l>9 m</span><br>old<");
        assert_eq!(markdown(&html), "**npm**\n\na\n\n**Oak 9 m old**\n\nb\n");
    }

    #[test]
    fn headings_above_their_panels_stay_headings() {
        let item = |name: &str| {
            format!(
                "<div><div role=tab id=t{name}><h4><a href=#p{name}>{name}</a></h4></div><div id=p{name} role=tabpanel aria-labelledby=t{name}><p>x</div></div>"
            )
        };
        let html = format!("<div role=tablist>{}{}</div>", item("a"), item("b"));
        assert_eq!(markdown(&html), "#### a\n\nx\n\n#### b\n\nx\n");
        let around = "<div role=tablist><div role=tab id=t><h4>a</h4><div role=tabpanel aria-labelledby=t>x</div></div></div>";
        assert_eq!(markdown(around), "#### a\n\nx\n");
    }

    #[test]
    fn numbers_of_the_cells_of_a_notebook_are_left_out() {
        for (html, expected) in [
            (
                "<div class=nbinput><div class='prompt highlight-none'><div class=highlight><pre><span></span>[1]:\n</pre></div></div><div class=input_area><pre>a\n</pre></div></div>",
                "```\na\n```\n",
            ),
            ("<div class=jp-InputPrompt>In&nbsp;[ ]:</div><pre>a</pre>", "```\na\n```\n"),
            ("<div class='prompt output_prompt'>Out[12]:</div><p>a", "a\n"),
            ("<div class=prompt>[1]: a</div><div class=prompt>Why?</div>", "\\[1]: a\n\nWhy?\n"),
            ("<div>[1]:</div>", "\\[1]:\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
        let long = format!("<div class=prompt>[1]:{}a</div>", "<br>".repeat(30));
        assert!(markdown(&long).ends_with("a\n"), "{}", markdown(&long));
    }

    #[test]
    fn headings_lose_their_permalinks() {
        for html in [
            "<h2>A b<a class=headerlink href=#a>¶</a></h2>",
            "<h2><span class=permalink><a href=#a>◆&nbsp;</a></span>A b</h2>",
            "<h2 id=a><a class=header href=#a>A b</a></h2>",
            "<h2>A b <a href=#a aria-label='Link to this'>#</a></h2>",
        ] {
            assert_eq!(markdown(html), "## A b\n", "{html}");
        }
        let field = "<p>a</p><span role=button aria-label=Copy><pre aria-hidden=true><textarea readonly>b</textarea></pre></span>";
        assert_eq!(markdown(field), "a\n");
        let copy = "<h2>A b&nbsp;<button title='Copy item path to clipboard'>Copy item path</button></h2>";
        assert_eq!(markdown(copy), "## A b\n");
        assert_eq!(markdown("<pre>a <a href=#b>#</a></pre>"), "```\na #\n```\n");
        let wrapped =
            "<div><h2 id=a>A b</h2><a class=sl-anchor-link href=#a><span>Section titled A b</span></a></div>";
        assert_eq!(markdown(wrapped), "## A b\n");
        assert_eq!(markdown("<p id=c>an <a href=#a>anchor</a>"), "an [anchor](#a)\n");
        assert_eq!(markdown("the <a href=b.html#c>#</a> register"), "the [#](b.html#c) register\n");
        let characters =
            "<p>the <a href=#hash>#</a> key, <a href=#s>§</a> 3, <a class=anchor href=a#b>Anchor</a>";
        assert_eq!(markdown(characters), "the [#](#hash) key, [§](#s) 3, [Anchor](a#b)\n");
        assert_eq!(
            markdown("<p id=a>b <a href=#a>¶</a> <a role=button href=/copy>Copy</a>"),
            "b [Copy](/copy)\n"
        );
        let term = "<dl><dt>f()<a class=headerlink href=#f>¶</a><dd>x</dl>";
        assert_eq!(markdown(term), "f()\n\nx\n");
    }

    #[test]
    fn a_link_with_the_whole_title_is_no_permalink() {
        for (html, expected) in [
            ("<h2 id=anchors><a class=header href=#anchors>Anchors</a></h2>", "## Anchors\n"),
            ("<h2 id=a><a class=header-anchor href=#a><span>Anchor text</span></a></h2>", "## Anchor text\n"),
            ("<h2 id=a><a href=#a>Permalink</a> <a class=hash-link href=#a>#</a></h2>", "## Permalink\n"),
            (
                "<h2 id=a><a href=#a>Link to a page</a><a class=anchor href=#a>Anchor</a></h2>",
                "## Link to a page\n",
            ),
            ("<dl><dt id=i>∞ <a href=#i>¶</a><dd>Infinity</dl>", "∞\n\nInfinity\n"),
            ("<dl><dt id=hash><a href=#hash>#</a><dd>Comment</dl>", "[#](#hash)\n\nComment\n"),
            ("<p>See <a class=anchor href=#a>Anchor text</a>.", "See [Anchor text](#a).\n"),
            ("<ul><li><a class=anchor href=#b>Anchor bolts</a></ul>", "- [Anchor bolts](#b)\n"),
            ("<p id=p1><a href=#p1>Anchor chains</a> hold.", "[Anchor chains](#p1) hold.\n"),
            ("<h2 id=a>Oak <a class=anchor href=#a>Anchor link to “Oak”</a></h2>", "## Oak\n"),
            ("<h2 id=a>Oak<a href=#a>Direct link to this heading</a></h2>", "## Oak\n"),
            ("<div><h2 id=a>Oak</h2></div><div><a class=anchor href=#a>Permalink</a></div>", "## Oak\n"),
            (
                "<section><div><h2 id=a>Oak</h2><a class=b href=#a><i>Section titled “Oak”</i></a></div><p>x</section>",
                "## Oak\n\nx\n",
            ),
            ("<h2><img src=i alt=Oak><a href=#a>#</a></h2>", "## ![Oak](i)\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }
}
