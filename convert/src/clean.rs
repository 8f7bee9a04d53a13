//! Removes the parts of a page that visitors do not see: scripts, styles and hidden elements.

use super::dom::{DOCUMENT, Dom, NodeId, Tag};
use std::collections::HashSet;
use url::Url;

/// Maximum length in bytes of the URL in `<base>`; a longer one is ignored.
const MAX_BASE: usize = 2000;

/// The base URL for relative links: the URL in the page's `<base>`, or else the page's own URL.
pub(super) fn base_url(dom: &Dom, url: Option<&Url>) -> Option<Url> {
    let is_base = |id: &NodeId| dom.element(*id).is_some_and(|e| &*e.name.local == "base");
    let element = dom.descendants(DOCUMENT).take(2000).find(is_base);
    // Each relative link is joined to the whole base, so a long one would multiply the output.
    let declared = element.and_then(|id| dom.attribute(id, "href")).filter(|href| href.len() <= MAX_BASE);
    match (declared, url) {
        (Some(href), Some(url)) => url.join(href).ok().or_else(|| Some(url.clone())),
        (Some(href), None) => Url::parse(href).ok(),
        (None, url) => url.cloned(),
    }
}

/// The `<body>` element, or the document if there is none.
pub(super) fn find_body(dom: &Dom) -> NodeId {
    let html = dom.child_elements(DOCUMENT).find(|&id| dom.tag(id) == Tag::Html);
    let body = html.and_then(|html| dom.child_elements(html).find(|&id| dom.tag(id) == Tag::Body));
    body.unwrap_or(DOCUMENT)
}

/// Detaches each element below `root` for which `is_unwanted` returns true.
pub(super) fn remove(dom: &mut Dom, root: NodeId, is_unwanted: impl Fn(&Dom, NodeId) -> bool) {
    for id in dom.outermost(root, |id| is_unwanted(dom, id)) {
        dom.detach(id);
    }
}

/// Counts the letters and digits in the body of a page, except in scripts and styles.
pub(super) fn count_letters(dom: &Dom) -> usize {
    let is_text = |id: &NodeId| {
        let parent = dom.parent(*id).map(|parent| dom.tag(parent));
        !matches!(parent, Some(Tag::Script | Tag::Style | Tag::Noscript | Tag::Template))
    };
    let texts = dom.descendants(find_body(dom)).filter(is_text).filter_map(|id| dom.text(id));
    texts.map(letters).sum()
}

/// The number of letters and digits.
pub(super) fn letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}

/// Removes scripts, styles and other elements that browsers never show, except the TeX of formulas.
pub(super) fn remove_invisible(dom: &mut Dom, root: NodeId) {
    remove(dom, root, |dom, id| match dom.tag(id) {
        Tag::Style | Tag::Template | Tag::Head | Tag::Link | Tag::Meta | Tag::Title => {
            dom.closest(id, &[Tag::Svg]).is_none()
        }
        Tag::Script => !dom.attribute(id, "type").is_some_and(|t| t.starts_with("math/tex")),
        _ => false,
    });
    replace_placeholder_images(dom, root);
}

/// Replaces each placeholder image with the image in the `<noscript>` after it, and removes all `<noscript>`
/// elements.
fn replace_placeholder_images(dom: &mut Dom, root: NodeId) {
    let fallbacks: Vec<NodeId> = dom.descendants(root).filter(|&id| dom.tag(id) == Tag::Noscript).collect();
    for id in fallbacks {
        let image = dom.find(id, Tag::Img);
        let text = dom.text_content(id);
        if let Some(image) = image.filter(|_| text.trim().is_empty()) {
            let placeholder = dom.previous_element(id).and_then(|p| {
                if dom.tag(p) == Tag::Img {
                    Some(p)
                } else {
                    dom.find(p, Tag::Img).filter(|_| dom.text_content(p).trim().is_empty())
                }
            });
            dom.insert_before(id, image);
            if let Some(placeholder) = placeholder {
                dom.detach(placeholder);
            }
        }
        dom.detach(id);
    }
}

/// Removes elements that the page hides. If these contain nearly all of the text, keeps the large ones,
/// because a script probably shows them later.
pub(super) fn remove_hidden(dom: &mut Dom, root: NodeId) {
    let code_parents: HashSet<NodeId> =
        dom.descendants(root).filter(|&id| dom.tag(id) == Tag::Pre).filter_map(|id| dom.parent(id)).collect();
    remove(dom, root, |dom, id| is_permalink_symbol(dom, id) || is_language_label(dom, id, &code_parents));
    let mut hidden = dom.outermost(root, |id| is_hidden(dom, id));
    let length = |dom: &Dom, id: NodeId| dom.text_content(id).split_whitespace().count();
    let hidden_words: usize = hidden.iter().map(|&id| length(dom, id)).sum();
    if hidden_words > 40 {
        let words = length(dom, root);
        if words - hidden_words.min(words) < words / 10 {
            hidden.retain(|&id| length(dom, id) * 4 < words);
        }
    }
    for id in hidden {
        dom.detach(id);
    }
}

/// Whether an element is a symbol that links to a place on the page, such as the `¶` after a term.
fn is_permalink_symbol(dom: &Dom, id: NodeId) -> bool {
    dom.tag(id) == Tag::A
        && dom.attribute(id, "href").is_some_and(|href| href.starts_with('#'))
        && matches!(dom.collapsed_text(id).as_str(), "¶" | "#" | "§" | "🔗")
}

/// Whether an element names the language of the code block beside it, as in VitePress. `code_parents` are the
/// elements with a code block.
fn is_language_label(dom: &Dom, id: NodeId, code_parents: &HashSet<NodeId>) -> bool {
    dom.tag(id) == Tag::Span
        && dom.has_class(id, "lang")
        && dom.parent(id).is_some_and(|parent| code_parents.contains(&parent))
}

/// Whether browsers hide the element, or show it only to screen readers. Tab panels and collapsed
/// callouts count as visible.
pub(super) fn is_hidden(dom: &Dom, id: NodeId) -> bool {
    let Some(element) = dom.element(id) else { return false };
    let is_panel = || {
        dom.attribute(id, "role") == Some("tabpanel")
            || dom
                .parent(id)
                .is_some_and(|p| dom.has_class(p, "blocks") || dom.has_class(p, "tabbed-content"))
            || dom.has_class(id, "callout-content")
    };
    for attribute in &element.attributes {
        let value = &*attribute.value;
        let hides = match &*attribute.name.local {
            "hidden" => !value.eq_ignore_ascii_case("until-found"),
            "aria-hidden" => {
                value == "true"
                    && !matches!(
                        dom.tag(id),
                        Tag::Img | Tag::Pre | Tag::Code | Tag::Table | Tag::Figure | Tag::P
                    )
            }
            "style" => {
                let style: String = value.chars().filter(|c| !c.is_whitespace()).take(400).collect();
                let style = style.to_ascii_lowercase();
                style.contains("display:none") || style.contains("visibility:hidden")
            }
            "class" => dom.classes(id).any(|c| {
                matches!(
                    c,
                    "sr-only"
                        | "visually-hidden"
                        | "visuallyhidden"
                        | "screen-reader-text"
                        | "screen-reader-only"
                        | "element-invisible"
                        | "noprint"
                        | "mw-editsection"
                        | "u-hidden"
                        | "d-none"
                        | "is-hidden"
                        | "hidden"
                ) && !(matches!(c, "hidden" | "d-none") && is_shown_on_wide_screens(dom, id))
                    // Tailwind classes such as `not-print:hidden`, which hides an element except in print.
                    || c.starts_with("not-") && c.ends_with(":hidden")
                    // LaTeXML hides this part of a footnote mark; it contains no note.
                    || c == "ltx_note_outer"
                        && dom.parent(id).is_some_and(|p| dom.has_class(p, "ltx_role_footnotemark"))
            }),
            _ => false,
        };
        if hides {
            return !is_panel() && !holds_formula(dom, id);
        }
    }
    dom.tag(id) == Tag::Dialog && !dom.has_attribute(id, "open")
}

/// Whether the element contains a formula's MathML, which pages hide if they show the formula as an image or
/// in a web font.
fn holds_formula(dom: &Dom, id: NodeId) -> bool {
    dom.tag(id) == Tag::Math || dom.child_elements(id).any(|c| dom.tag(c) == Tag::Math)
}

/// Whether Tailwind or Bootstrap utility classes show an otherwise hidden element on wide screens.
fn is_shown_on_wide_screens(dom: &Dom, id: NodeId) -> bool {
    dom.classes(id).any(|c| {
        let tailwind = c.split_once(':').is_some_and(|(at, display)| {
            matches!(at, "sm" | "md" | "lg" | "xl" | "2xl")
                && matches!(
                    display,
                    "block"
                        | "flex"
                        | "grid"
                        | "inline"
                        | "inline-block"
                        | "inline-flex"
                        | "table"
                        | "contents"
                )
        });
        tailwind
            || c.starts_with("d-")
                && c != "d-none"
                && (c.ends_with("-block") || c.ends_with("-flex") || c.ends_with("-inline"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    fn visible(html: &str) -> String {
        let mut dom = parse(html);
        let root = find_body(&dom);
        remove_invisible(&mut dom, root);
        remove_hidden(&mut dom, root);
        dom.collapsed_text(root)
    }

    #[test]
    fn drops_hidden_elements() {
        let html = "a<p hidden>b</p><p style='display : none'>c</p><span class=sr-only>d</span><script>e</script>\
            <p class='hidden md:block'>f</p><div role=tabpanel hidden>g</div><b class='not-print:hidden'>h</b>\
            <div class=callout-content style=display:none>i</div>";
        assert_eq!(visible(html), "afgi");
    }

    #[test]
    fn keeps_hidden_text_if_there_is_no_other() {
        let text = "word ".repeat(100);
        assert_eq!(visible(&format!("<div hidden>{text}</div><div style=display:none>x</div>")), text.trim());
    }
}
