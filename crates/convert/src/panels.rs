//! Recognizes hidden elements that visitors can open: the panels of tabs, accordions and lists of questions,
//! the other items of a slider or a list, and the rest of a text.

use super::documentation_markup::is_copy_button;
use super::dom::{DOCUMENT, Dom, NodeId, Tag, clip};
use super::footnote_references::note_name;
use std::collections::HashSet;

/// Ids of panels are read from at most this many bytes of an attribute.
const MAX_REFERENCE: usize = 2000;

/// Maximum length in bytes of a title above a panel.
const MAX_TITLE: usize = 200;

/// Parts of the class names of panels.
const PANELS: [&str; 10] = [
    "accordion",
    "answer",
    "collaps",
    "disclosure",
    "expand",
    "faq",
    "spoiler",
    "tab-content",
    "tab-pane",
    "toggle",
];

/// Parts of the class names of slides and tabs. A page shows only one slide or tab at a time.
const SLIDES: [&str; 6] = ["carousel", "pane", "slide", "step", "tab", "testimonial"];

/// How the first class of a card or a price ends. A filter or a switch on the page shows some cards or prices
/// and hides the others.
const CARDS: [&str; 6] = ["amount", "card", "grid-item", "plan", "price", "pricing"];

/// Parts of the names of hidden elements that are not panels: states, templates, menus, overlays and copies.
#[rustfmt::skip]
const OTHERS: [&str; 30] = [
    "ad-", "alert", "banner", "cart", "consent", "cookie", "desktop", "dialog", "dropdown", "empty", "error", "lightbox",
    "loader", "loading", "login", "menu", "message", "mobile", "modal", "nav", "overlay", "popover", "popup", "print",
    "share", "spinner", "success", "template", "toast", "tooltip",
];

/// The ids of elements that a control on the page opens. Such an element is content even while it is hidden.
pub(super) struct Panels {
    controlled: HashSet<String>,
    /// The ids in fragment links, `onclick`, `data-src` and `data-tab`. Some may be ids of menus.
    targets: HashSet<String>,
}

impl Panels {
    /// Reads the controlled ids from `aria-controls`, `data-target` and similar attributes, from references
    /// to notes, and from the fragments of tabs and other links that toggle an element. Reads the other
    /// targets from the fragments of all links, from strings in `onclick`, and from `data-src` and
    /// `data-tab`.
    pub(super) fn read(dom: &Dom) -> Self {
        let (mut ids, mut targets) = (HashSet::new(), HashSet::new());
        for (id, element) in dom.descendants(DOCUMENT).filter_map(|id| Some((id, dom.element(id)?))) {
            let (mut href, mut is_control) = (None, false);
            let mut add = |value: &str| {
                let names = clip(value, MAX_REFERENCE).split_ascii_whitespace();
                ids.extend(names.map(|name| name.trim_start_matches('#').to_owned()));
            };
            for attribute in &element.attributes {
                let value = &*attribute.value;
                match &*attribute.name.local {
                    "aria-controls" | "data-bs-target" | "data-target" | "data-controls"
                    | "popovertarget" | "commandfor" | "interestfor" => {
                        add(value);
                    }
                    "data-definition" | "data-footnote-id" => {
                        note_name(dom, id).into_iter().for_each(&mut add);
                    }
                    "data-bs-toggle" | "data-toggle" => is_control = true,
                    "role" => is_control |= value == "tab",
                    "href" => href = Some(value).filter(|href| href.starts_with('#')),
                    "data-src" | "data-tab" => {
                        let target = clip(value, MAX_REFERENCE).trim_start_matches('#');
                        targets.insert(target.to_owned());
                    }
                    "onclick" => {
                        let quoted = clip(value, MAX_REFERENCE).split(['\'', '"']).skip(1).step_by(2);
                        targets.extend(quoted.map(|name| name.trim_start_matches('#').to_owned()));
                    }
                    _ => {}
                }
            }
            href.filter(|_| is_control).into_iter().for_each(&mut add);
            targets.extend(href.map(|href| clip(&href[1..], MAX_REFERENCE).to_owned()));
        }
        Self { controlled: ids, targets }
    }

    /// Whether the element is a panel by its role, its class or that of its parent, or because a control
    /// opens it. If it is only in `targets` or shown by a framework (`is_shown_by_script`), it must be a
    /// block of text (`is_text_block`) outside of forms. An element with the role of a dialog is not a panel.
    pub(super) fn contains(&self, dom: &Dom, id: NodeId) -> bool {
        match dom.attribute(id, "role").unwrap_or_default() {
            "tabpanel" => return true,
            "region" if dom.has_attribute(id, "aria-labelledby") => return true,
            "dialog" | "alertdialog" => return false,
            _ => {}
        }
        let name = dom.attribute(id, "id");
        name.is_some_and(|name| self.controlled.contains(name))
            || (name.is_some_and(|name| self.targets.contains(name)) || is_shown_by_script(dom, id))
                && is_text_block(dom, id)
                // Hidden parts of forms are usually messages that appear once the form is sent, not content.
                && !dom.is_in(id, &[Tag::Form])
            || dom.has_class_in(id, &["callout-content", "MCExpandingBody", "MCDropDownBody"])
            || dom.parent(id).is_some_and(|p| dom.has_class_in(p, &["blocks", "tabbed-content"]))
    }
}

/// Whether a framework for scripts shows and hides the element: Webflow, or Alpine and Vue if there is a
/// button or an element with a click handler near it. Without one, the element shows a state, such as
/// "Loading".
fn is_shown_by_script(dom: &Dom, id: NodeId) -> bool {
    let is_control = |d: NodeId| {
        dom.tag(d) == Tag::Button || dom.attribute(d, "role") == Some("button") || is_clickable(dom, d)
    };
    dom.has_attribute(id, "data-w-id")
        || (dom.has_attribute(id, "x-show") || dom.has_attribute(id, "v-show"))
            && dom.ancestors(id).skip(1).take(2).any(|a| dom.subtree(a).take(50).any(is_control))
}

fn is_clickable(dom: &Dom, id: NodeId) -> bool {
    dom.has_attribute(id, "onclick") || dom.click_handler(id).is_some()
}

/// Whether an element is a block that is not a dialog, has no role, and is not a menu: less than half of its
/// letters and digits are in links. False without letters and digits.
fn is_text_block(dom: &Dom, id: NodeId) -> bool {
    let linked = || dom.outermost(id, |d| dom.tag(d) == Tag::A).into_iter().map(|link| dom.letters(link));
    is_plain_block(dom, id) && linked().sum::<usize>() * 2 < dom.letters(id)
}

/// Whether an element is a block without a role, other than `<dialog>`, `<nav>` and `<menu>`.
fn is_plain_block(dom: &Dom, id: NodeId) -> bool {
    dom.tag(id).is_block()
        && !matches!(dom.tag(id), Tag::Dialog | Tag::Nav | Tag::Menu)
        && !dom.has_attribute(id, "role")
}

/// Whether an element is a plain block ([`is_plain_block`]) that follows a control, as in a list of
/// questions: an element with `aria-expanded`, or a button or clickable heading. After a button that copies
/// something, or if the block is not text ([`is_text_block`]) or belongs to a form, only `aria-expanded`
/// counts.
pub(super) fn follows_control(dom: &Dom, id: NodeId) -> bool {
    let Some(before) = dom.previous_element(id).filter(|_| is_plain_block(dom, id)) else { return false };
    let is_opener = |d: NodeId| dom.has_attribute(d, "aria-expanded");
    let is_button = |d: NodeId| {
        dom.tag(d) == Tag::Button
            || dom.attribute(d, "role") == Some("button")
            || dom.is_heading(d) && is_clickable(dom, d)
    };
    let is_title = dom.is_heading(before) || dom.tag(before) == Tag::Dt;
    let mut first = dom.subtree(before).take(if is_title { 3 } else { 1 });
    dom.subtree(before).take(6).any(is_opener)
        || first.any(|d| is_button(d) && !is_copy_button(dom, d))
            && dom.tag(id) != Tag::Form
            && !dom.is_in(id, &[Tag::Form])
            && is_text_block(dom, id)
}

/// Whether a hidden element is a closed panel, judging by its place: an answer to a term or a question, the
/// text of a heading that has no other, an item beside items that are shown, or the rest of a text before a
/// link that opens it. Forms, dialogs, menus, footers, unfilled templates and parts of these are not panels,
/// nor are elements with one of `OTHERS` in a class or the id.
pub(super) fn is_closed_panel(dom: &Dom, id: NodeId) -> bool {
    let is_enclosed = |a: NodeId| {
        matches!(dom.tag(a), Tag::Form | Tag::Dialog | Tag::Nav | Tag::Menu | Tag::Button | Tag::Footer)
            || matches!(dom.attribute(a, "role"), Some("dialog" | "alertdialog" | "menu" | "navigation"))
    };
    // Form fields and the double braces of a template that was not filled in are not the content of a panel.
    let is_unfit = |d: NodeId| is_form_part(dom, d) || dom.text(d).is_some_and(|text| text.contains("{{"));
    let is_price = || dom.tag(id) == Tag::Span && is_beside_shown(dom, id);
    (is_rest_of_text(dom, id)
        || is_answer(dom, id)
        || is_price()
        || is_text_block(dom, id) && is_panel(dom, id))
        && !has_other_name(dom, id)
        && !dom.ancestors(id).any(is_enclosed)
        && !dom.subtree(id).any(is_unfit)
}

/// Whether a hidden element is the page itself, which a script shows later, for example to avoid a flash of
/// text without styles: it contains the main region, or most of the words and either all first-level headings
/// or, with a `visibility` in its style, paragraphs. Dialogs, menus, forms, elements with another role, and
/// those with one of `OTHERS` in a class or the id do not count. `root` is the part of the page that is
/// converted.
pub(super) fn is_hidden_page(dom: &Dom, root: NodeId, id: NodeId, has_most_words: bool) -> bool {
    let is_main = |d: NodeId| dom.tag(d) == Tag::Main || dom.attribute(d, "role") == Some("main");
    let headings = |of| {
        let is_title = |&d: &NodeId| dom.tag(d).heading_level() == Some(1) && !dom.is_blank(d);
        dom.subtree(of).filter(is_title).count()
    };
    let is_only_invisible = || dom.style(id, "visibility").is_some() && dom.find(id, Tag::P).is_some();
    dom.tag(id).is_block()
        && !matches!(dom.tag(id), Tag::Dialog | Tag::Nav | Tag::Menu | Tag::Form)
        && dom.attribute(id, "role").is_none_or(|role| role == "main")
        && !has_other_name(dom, id)
        && (dom.subtree(id).any(is_main)
            || has_most_words && (is_only_invisible() || headings(id) > 0 && headings(id) == headings(root)))
}

/// Whether a class or the id of an element contains one of [`OTHERS`].
pub(super) fn has_other_name(dom: &Dom, id: NodeId) -> bool {
    let id_name = dom.attribute(id, "id").map(|name| clip(name, MAX_TITLE));
    dom.classes(id).take(20).chain(id_name).any(|name| contains_any(name, &OTHERS))
}

fn is_form_part(dom: &Dom, id: NodeId) -> bool {
    matches!(dom.tag(id), Tag::Form | Tag::Input | Tag::Textarea | Tag::Select)
}

fn contains_any(name: &str, parts: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    parts.iter().any(|part| name.contains(part))
}

/// Whether an element is the explanation of a shown `<dt>`, or the accepted answer in the vocabulary of
/// schema.org.
fn is_answer(dom: &Dom, id: NodeId) -> bool {
    let is_term = |before: NodeId| dom.tag(before) == Tag::Dt && !dom.has_attribute(before, "hidden");
    let is_accepted = |a: NodeId| dom.attribute(a, "itemprop") == Some("acceptedAnswer");
    dom.tag(id) == Tag::Dd && dom.nodes_before(id).take(8).any(is_term)
        || dom.tag(id).is_block() && dom.ancestors(id).take(2).any(is_accepted)
}

/// Whether the place of a hidden block is that of a panel: beside a shown one, or after a short title, which
/// is a question, a heading below the first level whose section ends with the block, or mainly a link for a
/// script. After another short text, a class of that text, of the block or of two elements around it must
/// contain one of [`PANELS`]. False after form fields. Without a short text before the block, only a class of
/// its own for the content of a tab counts.
fn is_panel(dom: &Dom, id: NodeId) -> bool {
    if is_beside_shown(dom, id) {
        return true;
    }
    let has_name = |node: NodeId| dom.classes(node).take(20).any(|class| contains_any(class, &PANELS));
    let Some((before, title)) = dom.previous_element(id).and_then(|b| Some((b, short_text(dom, b)?))) else {
        return dom.classes(id).take(20).any(|c| c.contains("tab-pane") || c.contains("tab-content"));
    };
    // A hidden block after a form is usually a message that appears once the form is sent.
    if dom.subtree(before).any(|d| is_form_part(dom, d)) {
        return false;
    }
    let is_question = title.trim_end_matches(|c: char| !c.is_alphanumeric() && !"?？".contains(c));
    let mut start = dom.subtree(before).take(4);
    let is_title = |d: NodeId| {
        dom.tag(d).heading_level().is_some_and(|level| level > 1)
            || dom.attribute(d, "role") == Some("heading")
    };
    // If more content follows in the section, the hidden block may be for one state only, such as no results.
    let ends_section = || {
        dom.next_element(id).is_none_or(|next| {
            dom.is_heading(next) || dom.tag(next) == dom.tag(before) && is_alike(dom, next, before)
        })
    };
    is_question.ends_with(['?', '？'])
        || has_name(before)
        || dom.ancestors(id).take(3).any(has_name)
        || start.any(|d| {
            let is_all = || dom.collapsed_text(d).len() * 2 > title.len();
            is_title(d) && ends_section() || is_script_link(dom, d) && is_all()
        })
}

/// Whether an element is an item beside one that is shown, a row beside one with no more cells, a slide or
/// tab beside one with its classes, or a card or a price beside one with its first class and as many others:
/// one with more classes is another state of the card. A `<span>` must have digits if the shown one has some,
/// and not only zeros. A row with a currency must not have only zeros either.
fn is_beside_shown(dom: &Dom, id: NodeId) -> bool {
    let is_item = matches!(dom.tag(id), Tag::Li | Tag::Tr);
    let is_slide = dom.classes(id).take(8).any(|class| contains_any(class, &SLIDES));
    let first = dom.classes(id).next();
    let is_card = first.is_some_and(|class| CARDS.iter().any(|end| class.ends_with(end)));
    let cells =
        |row| dom.child_elements(row).take(20).filter(|&d| matches!(dom.tag(d), Tag::Td | Tag::Th)).count();
    let is_shown = |other: NodeId| {
        let is_hidden = dom.has_attribute(other, "hidden") || dom.style(other, "display") == Some("none");
        let is_like_card = || {
            dom.classes(other).next() == first
                && dom.classes(other).take(8).count() >= dom.classes(id).take(8).count()
        };
        dom.tag(other) == dom.tag(id)
            && !is_hidden
            && (is_item && cells(other) <= cells(id)
                || is_slide && is_alike(dom, id, other)
                || is_card && is_like_card())
    };
    let others = || dom.child_elements(dom.parent(id)?).take(20).find(|&other| is_shown(other));
    let is_empty = |other| match dom.tag(id) {
        Tag::Span => is_zero(dom, id).unwrap_or(is_zero(dom, other).is_some()),
        Tag::Tr => is_zero(dom, id) == Some(true) && dom.text_content(id).contains(['$', '€', '£', '¥']),
        _ => false,
    };
    (is_item || is_slide || is_card) && others().is_some_and(|other| !is_empty(other))
}

/// Whether all digits of an element are zeros; `None` if it has no digits.
fn is_zero(dom: &Dom, id: NodeId) -> Option<bool> {
    let text = dom.text_content(id);
    let mut digits = text.chars().filter(char::is_ascii_digit).peekable();
    digits.peek().is_some().then(|| digits.all(|digit| digit == '0'))
}

/// Whether the second element has all classes of the first one, which may have none. Reads at most 8 and 16
/// classes.
fn is_alike(dom: &Dom, id: NodeId, other: NodeId) -> bool {
    dom.classes(id).take(8).all(|class| dom.classes(other).take(16).any(|c| c == class))
}

/// Whether an element is the rest of a text: it has at least three words and continues a text, and a link for
/// a script or, after a `<span>`, a button follows.
fn is_rest_of_text(dom: &Dom, id: NodeId) -> bool {
    let is_block = dom.tag(id).is_block();
    if !(dom.tag(id) == Tag::Span || is_block && is_text_block(dom, id)) {
        return false;
    }
    let continues =
        dom.nodes_before(id).take(3).find(|&before| !dom.is_blank(before)).is_some_and(|before| {
            dom.text(before).is_some()
                || matches!(dom.tag(before), Tag::P | Tag::Span | Tag::B | Tag::I | Tag::Em)
        });
    let outside = || dom.parent(id).filter(|&p| dom.tag(p) == Tag::P).and_then(|p| dom.next_element(p));
    let opener = dom.next_element(id).or_else(outside).filter(|&next| short_text(dom, next).is_some());
    let is_opener =
        opener.is_some_and(|next| is_script_link(dom, next) || !is_block && dom.tag(next) == Tag::Button);
    continues && is_opener && dom.text_content(id).split_whitespace().nth(2).is_some()
}

/// Whether an element is a link without an address, or with one such as `#` or `javascript:…`: a script
/// handles clicks on it.
fn is_script_link(dom: &Dom, id: NodeId) -> bool {
    let is_script = |href: &str| {
        matches!(href.trim(), "" | "#" | "#!" | "#0") || href.trim_start().starts_with("javascript:")
    };
    dom.tag(id) == Tag::A && dom.attribute(id, "href").is_none_or(is_script)
}

/// The trimmed text of an element; `None` if it is empty or longer than [`MAX_TITLE`], or if the element has
/// more than 50 nodes or much white space.
fn short_text(dom: &Dom, id: NodeId) -> Option<String> {
    let mut text = String::new();
    for (count, node) in dom.subtree(id).enumerate() {
        text.push_str(dom.text(node).unwrap_or_default());
        if count >= 50 || text.len() > 4 * MAX_TITLE {
            return None;
        }
    }
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_TITLE).then(|| text.to_owned())
}
