//! Recognizes admonitions, tab panels and permalinks in the markup of documentation generators.

use super::dom::{Dom, NodeId, Tag, clip};
use std::collections::HashMap;

/// An admonition, which is converted to a GitHub alert.
pub(super) struct Notice {
    pub(super) kind: &'static str,
    /// The title, unless it only repeats the kind.
    pub(super) title: Option<String>,
    pub(super) title_node: Option<NodeId>,
}

/// Maps a generator's word for an admonition to a kind of GitHub alert, such as `danger` to `CAUTION`.
fn alert_kind(word: &str) -> Option<&'static str> {
    Some(match word {
        "note" | "info" | "seealso" | "abstract" | "summary" | "tldr" | "todo" | "question" | "help"
        | "faq" | "example" | "quote" | "cite" | "primary" | "secondary" => "NOTE",
        "tip" | "hint" | "success" | "check" | "done" => "TIP",
        "important" => "IMPORTANT",
        "warning" | "attention" | "warn" => "WARNING",
        "caution" | "danger" | "error" | "failure" | "fail" | "bug" | "missing" => "CAUTION",
        _ => return None,
    })
}

/// The kind and the title of an admonition; `None` if the element is not an admonition.
pub(super) fn find_notice(dom: &Dom, id: NodeId) -> Option<Notice> {
    if !matches!(dom.tag(id), Tag::Div | Tag::Aside | Tag::Section | Tag::Blockquote | Tag::Other) {
        return None;
    }
    let found = dom.classes(id).find_map(|class| {
        [
            "markdown-alert-",
            "theme-admonition-",
            "starlight-aside--",
            "admonition-",
            "callout-",
            "alert--",
            "alert-",
            "blockquote-tag-",
        ]
        .into_iter()
        .find_map(|prefix| alert_kind(class.strip_prefix(prefix)?))
    });
    let is_container = |c: &str| {
        matches!(c, "admonition" | "custom-block" | "callout" | "hint" | "alert" | "admonitionblock")
    };
    let kind = found
        .or_else(|| alert_kind(dom.attribute(id, "data-callout")?))
        .or_else(|| dom.classes(id).any(is_container).then(|| dom.classes(id).find_map(alert_kind)).flatten())
        .or_else(|| dom.has_class(id, "admonition").then_some("NOTE"))?;
    let is_title = |&d: &NodeId| {
        dom.classes(d).any(|c| {
            c.ends_with("admonition-title")
                || c.ends_with("alert-title")
                || c.ends_with("callout-title")
                || c == "custom-block-title"
                || c == "starlight-aside__title"
                || c.starts_with("admonitionHeading")
                || c == "alert-heading"
                || c == "blockquote-tag-title"
        })
    };
    let title_node = dom.descendants(id).take(30).find(is_title);
    let title = title_node.map(|t| dom.collapsed_text(t));
    let title = title.filter(|t| !t.is_empty() && alert_kind(&t.to_lowercase()).is_none());
    Some(Notice { kind, title, title_node })
}

/// Whether the element is a list of tabs. It is dropped, because each panel gets the label of its tab.
pub(super) fn is_tab_list(dom: &Dom, id: NodeId) -> bool {
    dom.attribute(id, "role") == Some("tablist")
        || dom.has_class(id, "tabbed-labels")
        || dom.has_class(id, "tabs") && dom.parent(id).is_some_and(|p| dom.has_class(p, "vp-code-group"))
}

/// Maximum length in bytes of a panel's label. A longer one is truncated, because any number of panels may
/// have the same tab.
const MAX_LABEL: usize = 200;

/// The label of each tab panel below `root` whose tab has text.
pub(super) fn tab_labels(dom: &Dom, root: NodeId) -> HashMap<NodeId, String> {
    // The tabs in an ancestor of a panel, and the number of panels so far among the children of a parent.
    let mut tabs: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
    let mut positions: HashMap<NodeId, usize> = HashMap::new();
    let mut texts: HashMap<NodeId, String> = HashMap::new();
    let mut labels = HashMap::new();
    for id in dom.descendants(root) {
        let Some(parent) = dom.parent(id).filter(|&parent| is_tab_panel(dom, id, parent)) else { continue };
        let position = positions.entry(parent).or_default();
        let before = std::mem::replace(position, *position + 1);
        let container = dom
            .ancestors(id)
            .skip(1)
            .take(4)
            .find(|&a| tabs.entry(a).or_insert_with(|| find_tabs(dom, a)).len() > 1);
        let Some(tabs) = container.and_then(|container| tabs.get(&container)) else { continue };
        let name = dom.attribute(id, "aria-labelledby").filter(|name| !name.is_empty());
        let named = name.and_then(|name| tabs.iter().find(|&&tab| dom.attribute(tab, "id") == Some(name)));
        let Some(&tab) = named.or_else(|| tabs.get(before)) else { continue };
        let text = texts.entry(tab).or_insert_with(|| clip(&dom.collapsed_text(tab), MAX_LABEL).to_owned());
        if !text.is_empty() {
            labels.insert(id, text.clone());
        }
    }
    labels
}

/// The tabs among the first 2000 nodes below `container`.
fn find_tabs(dom: &Dom, container: NodeId) -> Vec<NodeId> {
    let is_tab = |&d: &NodeId| {
        let in_labels =
            || dom.parent(d).is_some_and(|p| dom.has_class(p, "tabbed-labels") || dom.has_class(p, "tabs"));
        dom.attribute(d, "role") == Some("tab") || dom.tag(d) == Tag::Label && in_labels()
    };
    dom.descendants(container).take(2000).filter(is_tab).collect()
}

fn is_tab_panel(dom: &Dom, id: NodeId, parent: NodeId) -> bool {
    dom.element(id).is_some()
        && (dom.attribute(id, "role") == Some("tabpanel")
            || dom.has_class(id, "tabbed-block")
            || dom.has_class(parent, "blocks")
                && dom.parent(parent).is_some_and(|g| dom.has_class(g, "vp-code-group")))
}

/// Whether a child of a heading is its permalink, such as a `#` that links to the heading. `heading` is the
/// collapsed text of the heading.
pub(super) fn is_permalink(dom: &Dom, id: NodeId, heading: &str) -> bool {
    if dom.element(id).is_none() {
        return false;
    }
    let text = dom.collapsed_text(id);
    let is_symbol = text.chars().all(|c| {
        matches!(c, '#' | '¶' | '§' | '🔗' | '\u{fe0f}' | '\u{200b}' | '∞' | '↩' | ' ' | '\u{f0c1}')
    });
    let is_named = |c: &str| {
        matches!(
            c,
            "anchor"
                | "headerlink"
                | "header-anchor"
                | "hash-link"
                | "permalink"
                | "heading-anchor"
                | "anchorjs-link"
                | "heading-link"
        )
    };
    let link = if dom.tag(id) == Tag::A { Some(id) } else { dom.find(id, Tag::A) };
    let Some(link) = link else {
        return is_symbol && !text.is_empty() || dom.classes(id).any(|c| c.contains("permalink"));
    };
    let leads_here = dom.attribute(link, "href").is_some_and(|h| h.contains('#'));
    let is_all = text == heading;
    leads_here
        && !is_all
        && (is_symbol || dom.classes(link).any(is_named) || text.to_lowercase().contains("link to"))
        || is_symbol && !text.is_empty()
        || is_symbol && leads_here && !dom.descendants(id).any(|d| dom.tag(d) == Tag::Img)
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
        let titled = "<div class='admonition danger'><p class=admonition-title>Do not</p><p>x</div>";
        assert_eq!(markdown(titled), "> [!CAUTION]\n> **Do not**\n>\n> x\n");
    }

    #[test]
    fn tab_panels_carry_their_labels() {
        let html = "<div><ul role=tablist><li role=tab>npm</li><li role=tab>pnpm</li></ul>\
            <div><div role=tabpanel><p>a</div><div role=tabpanel hidden><p>b</div></div></div>";
        assert_eq!(markdown(html), "**npm**\n\na\n\n**pnpm**\n\nb\n");
    }

    #[test]
    fn headings_lose_their_permalinks() {
        for html in [
            "<h2>A b<a class=headerlink href=#a>¶</a></h2>",
            "<h2 id=a><a class=header href=#a>A b</a></h2>",
            "<h2>A b <a href=#a aria-label='Link to this'>#</a></h2>",
        ] {
            assert_eq!(markdown(html), "## A b\n", "{html}");
        }
        let term = "<dl><dt>f()<a class=headerlink href=#f>¶</a><dd>x</dl>";
        assert_eq!(markdown(term), "f()\n\nx\n");
    }
}
