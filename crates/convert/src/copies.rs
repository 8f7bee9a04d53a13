//! Removes the parts of a page that repeat others: for sliders and animations, for other widths of the screen
//! and for dark mode.

use super::dom::{Dom, FOR_SCREEN_READERS, NodeId, Tag};
use super::omission_reason::Rule;
use std::collections::{HashMap, HashSet};

/// Removes what repeats a table for narrow screens ([`is_narrow_variant`]), and images for dark mode
/// ([`is_dark_variant`]). Then removes elements with the same text and images as a sibling, if a class or
/// `aria-hidden` marks them as copies for sliders, animations or screen widths. A copy for a screen width
/// must be next to the original, and have other classes but no other links. Items and short values may be
/// equal by chance, so most need a class for widths on the original, too.
pub(super) fn remove_copies(dom: &mut Dom, root: NodeId) {
    // Omit variants first, or two elements could each be omitted as a copy of the other.
    dom.omit_each(root, |dom, id| {
        (is_narrow_variant(dom, id) || is_dark_variant(dom, id)).then_some(Rule::Copy)
    });
    let copies = dom.outermost_with(root, |id| copy_mark(dom, id));
    let marked: HashSet<NodeId> = copies.iter().map(|&(id, _)| id).collect();
    let mut slides: HashMap<NodeId, HashSet<String>> = HashMap::new();
    let is_repeated = |&(id, mark): &(NodeId, CopyMark)| {
        let Some(parent) = dom.parent(id) else { return false };
        if mark == CopyMark::Slide {
            let content = comparable_content(dom, id);
            let slides = slides.entry(parent).or_insert_with(|| {
                let others = dom.children(parent).filter(|c| !marked.contains(c));
                others.map(|other| comparable_content(dom, other)).collect()
            });
            return !content.is_empty() && !slides.insert(content);
        }
        let next = dom.next_element(id).filter(|next| !marked.contains(next));
        // Siblings with the same classes are shown on screens of the same widths, so neither is a copy for
        // other widths.
        let is_other = |o: &NodeId| dom.attribute(*o, "class") != dom.attribute(id, "class");
        let has_width = |id| dom.classes(id).any(names_width);
        let is_enough = || {
            dom.has_class_in(id, FOR_SCREEN_READERS)
                || dom.has_class_in(id, HIDDEN) && !has_width(id)
                || !is_item(dom, id) && !is_value(dom, id)
        };
        let beside = dom.previous_element(id).into_iter().chain(next).filter(is_other);
        let originals: Vec<NodeId> = beside.filter(|&other| has_width(other) || is_enough()).collect();
        if originals.is_empty() {
            return false;
        }
        let content = comparable_content(dom, id);
        let is_original =
            |&other: &NodeId| comparable_content(dom, other) == content && !links_differ(dom, id, other);
        !content.is_empty() && originals.iter().any(is_original)
    };
    let repeated: Vec<_> = copies.into_iter().filter(is_repeated).collect();
    for (id, _) in repeated {
        dom.omit(id, Rule::Copy);
    }
}

/// Minimum number of different words in an element that may repeat a table for narrow screens.
const MIN_WORDS: usize = 8;

/// Whether an element repeats the table beside it for narrow screens, as price lists made with Tailwind do:
/// classes show the one and hide the other from some width on, and all of its words, at least [`MIN_WORDS`],
/// and all addresses of its links, images and media are also in the element with the table.
fn is_narrow_variant(dom: &Dom, id: NodeId) -> bool {
    let is_hidden = |class: &str| {
        let bootstrap = || class.strip_prefix("d-")?.strip_suffix("-none");
        class.strip_suffix(":hidden").or_else(bootstrap).is_some_and(|width| BREAKPOINTS.contains(&width))
    };
    let is_wide =
        |&other: &NodeId| dom.has_class_in(other, HIDDEN) && dom.classes(other).any(is_shown_on_wide_screens);
    if !dom.classes(id).any(is_hidden) || dom.find(id, Tag::Table).is_some() {
        return false;
    }
    let words = |id| -> HashSet<String> {
        let texts = dom.subtree(id).filter_map(|d| dom.text(d));
        texts.flat_map(|text| text.split_whitespace().map(str::to_lowercase)).collect()
    };
    let addresses = |id| -> HashSet<&str> {
        let address = |d| dom.attribute(d, "href").or_else(|| dom.attribute(d, "src"));
        dom.subtree(id).filter_map(address).collect()
    };
    let beside = [dom.previous_element(id), dom.next_element(id)];
    let has_table = |&other: &NodeId| dom.find(other, Tag::Table).is_some();
    beside.into_iter().flatten().filter(is_wide).filter(has_table).any(|other| {
        let own = words(id);
        own.len() >= MIN_WORDS && own.is_subset(&words(other)) && addresses(id).is_subset(&addresses(other))
    })
}

/// Whether an image is shown only in dark mode, and another one with the same description beside it, or
/// beside an element with nothing else, only in light mode.
fn is_dark_variant(dom: &Dom, id: NodeId) -> bool {
    if dom.tag(id) != Tag::Img {
        return false;
    }
    // The first image in an element; `None` if the element has text.
    let only_image = |id| {
        let nodes: Vec<NodeId> = dom.subtree(id).take(8).collect();
        let is_text = |&d: &NodeId| dom.text(d).is_some_and(|text| !text.trim().is_empty());
        let image = nodes.iter().copied().find(|&d| dom.tag(d) == Tag::Img);
        image.filter(|_| !nodes.iter().any(is_text))
    };
    let is_light = |&other: &NodeId| {
        only_image(other).is_some_and(|image| dom.attribute(image, "alt") == dom.attribute(id, "alt"))
            && dom.subtree(other).take(8).any(|d| has_theme(dom, d, &LIGHT))
    };
    let around = || dom.ancestors(id).take(3).take_while(|&a| only_image(a) == Some(id));
    let beside = |a| [dom.previous_element(a), dom.next_element(a)].into_iter().flatten();
    around().any(|a| has_theme(dom, a, &DARK)) && around().flat_map(beside).any(|other| is_light(&other))
}

/// Classes, and fragments of addresses, that mark an image for light mode only, in themes, on GitHub and in
/// site generators.
const LIGHT: [&str; 6] = [
    "only-light",
    "gh-light-mode-only",
    "dark:hidden",
    "dark:sl-hidden",
    "light-only",
    "themedComponent--light",
];

/// Classes, and fragments of addresses, that mark an image for dark mode only.
const DARK: [&str; 6] =
    ["only-dark", "gh-dark-mode-only", "dark:block", "light:sl-hidden", "dark-only", "themedComponent--dark"];

/// Whether an element has one of the `marks` in its classes or as the fragment of its address. A suffix after
/// `_` is ignored, which Docusaurus adds, as in `themedComponent--dark_x`.
fn has_theme(dom: &Dom, id: NodeId, marks: &[&str]) -> bool {
    let fragment =
        dom.attribute(id, "src").and_then(|src| src.rsplit_once('#')).map(|(_, fragment)| fragment);
    dom.classes(id)
        .chain(fragment)
        .any(|name| marks.contains(&name.split_once('_').map_or(name, |(mark, _)| mark)))
}

/// Whether a utility class of Tailwind, such as `md:table-cell`, or of Bootstrap, such as `d-md-flex`, shows
/// an element from some width of the screen on.
pub(super) fn is_shown_on_wide_screens(class: &str) -> bool {
    const DISPLAYS: [&str; 12] = [
        "block",
        "flex",
        "grid",
        "inline",
        "inline-block",
        "inline-flex",
        "inline-grid",
        "list-item",
        "table",
        "table-cell",
        "table-row",
        "contents",
    ];
    let bootstrap = || class.strip_prefix("d-")?.split_once('-');
    let parts = class.split_once(':').or_else(bootstrap);
    parts.is_some_and(|(width, display)| BREAKPOINTS.contains(&width) && DISPLAYS.contains(&display))
}

/// The names of screen widths in utility classes of Tailwind and Bootstrap.
const BREAKPOINTS: [&str; 7] = ["sm", "md", "lg", "xl", "2xl", "xxl", "3xl"];

/// Whether an element is a list item, or a row or cell by its role. Two of these may have the same text
/// without being copies of each other.
fn is_item(dom: &Dom, id: NodeId) -> bool {
    let role = dom.attribute(id, "role");
    dom.tag(id) == Tag::Li || matches!(role, Some("cell" | "gridcell" | "listitem" | "row"))
}

/// Whether an element has at most two words and no image. Texts this short may be equal by chance.
fn is_value(dom: &Dom, id: NodeId) -> bool {
    let is_image = |d| dom.tag(d) == Tag::Img;
    !dom.subtree(id).any(is_image) && dom.text_content(id).split_whitespace().nth(2).is_none()
}

/// The letters and digits of the texts and of the addresses of images in a node. Of an address, the
/// parameters for the size of the image are left out.
fn comparable_content(dom: &Dom, id: NodeId) -> String {
    let is_size = |part: &&str| part.split_once('=').is_some_and(|(name, _)| IMAGE_SIZES.contains(&name));
    let mut content = String::new();
    for node in dom.subtree(id) {
        let text = match dom.tag(node) {
            Tag::Img => dom.attribute(node, "src"),
            _ => dom.text(node),
        };
        for part in text.unwrap_or_default().split(['?', '&']).filter(|part| !is_size(part)) {
            content.extend(part.chars().filter(|c| c.is_alphanumeric()));
        }
    }
    content
}

/// Whether both nodes have links, and these lead to different pages or to the same pages in another order.
/// Ignores queries and fragments.
fn links_differ(dom: &Dom, id: NodeId, other: NodeId) -> bool {
    let links = |root| {
        let addresses = dom.subtree(root).filter(|&d| dom.tag(d) == Tag::A);
        let addresses = addresses.filter_map(|link| dom.attribute(link, "href")?.split(['#', '?']).next());
        addresses.filter(|address| !address.is_empty())
    };
    links(id).next().is_some() && links(other).next().is_some() && !links(id).eq(links(other))
}

/// The parameters in URLs that set the size or quality of an image.
const IMAGE_SIZES: [&str; 8] = ["scale-down-to", "width", "height", "w", "h", "dpr", "q", "quality"];

/// Why an element may be a copy of a sibling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CopyMark {
    /// The element is shown only at some screen widths.
    Width,
    /// A slider or an animation shows the element more than once.
    Slide,
}

/// The mark of an element as a copy, by `aria-hidden` or a class. [`CopyMark::Slide`] wins if there are
/// several. `None` for the cells of tables and definition lists, because columns may have the same value.
pub(super) fn copy_mark(dom: &Dom, id: NodeId) -> Option<CopyMark> {
    if matches!(dom.tag(id), Tag::Td | Tag::Th | Tag::Dd | Tag::Dt) {
        return None;
    }
    if dom.attribute(id, "aria-hidden") == Some("true") {
        return Some(CopyMark::Slide);
    }
    dom.classes(id).filter_map(copy_mark_of_class).max()
}

/// The mark that a class gives: one of [`COPIES`] as its last word, or a name for what is hidden, for screen
/// readers, or shown or hidden at some screen widths.
fn copy_mark_of_class(class: &str) -> Option<CopyMark> {
    let start = class.bytes().rposition(|b| matches!(b, b'-' | b'_')).map_or(0, |at| at + 1);
    if COPIES.contains(&&class[start..]) {
        return Some(CopyMark::Slide);
    }
    let is_mark = || {
        HIDDEN.contains(&class)
            || FOR_SCREEN_READERS.contains(&class)
            || has_word(class, &VISIBILITY) && names_width(class)
    };
    is_mark().then_some(CopyMark::Width)
}

/// Words at the end of the class names that sliders and animations give to copies.
const COPIES: [&str; 4] = ["clone", "cloned", "duplicate", "duplicated"];

/// Classes that hide an element, unless another class shows the element at some screen widths.
const HIDDEN: &[&str] = &["hide", "hidden", "d-none"];

/// Words of class names that show or hide an element.
const VISIBILITY: [&str; 7] = ["hidden", "hide", "none", "only", "show", "visible", "invisible"];

/// Words of class names for screen widths, as in `md:hidden` and `hideOnMobile`, for print, and for browsers
/// with JavaScript.
#[rustfmt::skip]
const WIDTHS: [&str; 16] = [
    "xs", "sm", "md", "lg", "xl", "xxl", "2xl", "small", "medium", "large", "mobile", "phone", "tablet", "desktop",
    "print", "js",
];

/// Whether a class has a word from [`WIDTHS`], or begins with `hidden-`, as Framer's `hidden-72rtr7` does.
fn names_width(class: &str) -> bool {
    class.starts_with("hidden-") || has_word(class, &WIDTHS)
}

/// Whether a class name has one of `words`. Punctuation and capital letters divide a class name into words.
fn has_word(class: &str, words: &[&str]) -> bool {
    let mut rest = class.as_bytes();
    loop {
        let capital = usize::from(rest.first().is_some_and(u8::is_ascii_uppercase));
        let is_end = |b: &u8| !matches!(b, b'a'..=b'z' | b'0'..=b'9');
        let length = rest[capital..].iter().position(is_end).map_or(rest.len(), |at| capital + at);
        let (word, after) = rest.split_at(length);
        if words.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes())) {
            return true;
        }
        rest = match after {
            [] => return false,
            [first, after @ ..] if !first.is_ascii_uppercase() => after,
            capital => capital,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    fn a_list_for_narrow_screens_beside_its_table_is_a_copy() {
        let list =
            "<h3>Pro</h3><dl><dt>Boats<dd>9<dt>Cranes<dd>4<dt>Support<dd>Phone<dt>Storage<dd>Winter</dl>";
        let table = "<table><tr><th><th>Pro<tr><th>Boats<td>9<tr><th>Cranes<td>4<tr><th>Support<td>Phone<tr><th>Storage<td>Winter</table>";
        let page = |narrow: &str, list: &str, wide: &str| {
            markdown(&format!("<div class='{narrow}'>{list}</div><div class='{wide}'>{table}</div>"))
        };
        for (narrow, wide) in [("lg:hidden", "hidden lg:block"), ("d-md-none", "d-none d-md-block")] {
            let markdown = page(narrow, list, wide);
            assert!(markdown.starts_with("| | Pro |"), "{narrow}: {markdown}");
            let other = list.replace("Winter", "All seasons, call for prices");
            assert!(page(narrow, &other, wide).contains("call for prices"), "{narrow}");
            let linked = list.replace("Phone", "<a href=/phone>Phone</a>");
            assert!(page(narrow, &linked, wide).contains("/phone"), "{narrow}");
            let closed = format!("{list}<p>Closed on Sundays.");
            assert!(page(narrow, &closed, wide).contains("Sundays"), "{narrow}");
            let image = format!("{list}<img src=/oak.jpg alt=Pro>");
            assert!(page(narrow, &image, wide).contains("/oak.jpg"), "{narrow}");
        }
        assert!(page("lg:hidden", list, "wide").starts_with("### Pro"));
    }

    #[test]
    fn an_image_for_dark_mode_beside_one_for_light_mode_is_a_copy() {
        for html in [
            "<img src=/a.png#gh-light-mode-only alt=a><img src=/b.png#gh-dark-mode-only alt=a>",
            "<a href=/c><img src=/b.png alt=a class='themedComponent--dark_x'></a><a href=/c><img src=/a.png alt=a class='themedComponent--light_x'></a>",
            "<img src=/a.png class=only-light> <img src=/b.png class=only-dark>",
            "<div class='dark:hidden'><img src=/a.png></div><div class='hidden dark:block'><img src=/b.png></div>",
        ] {
            let markdown = markdown(html);
            assert!(markdown.contains("/a.png") && !markdown.contains("/b.png"), "{html}: {markdown}");
        }
        for html in [
            "<img src=/b.png class=only-dark alt=a>",
            "<img src=/a.png class=only-light alt=a><img src=/b.png class=only-dark alt=b>",
            "<div class=only-light>a</div><img src=/b.png class=only-dark>",
            "<div class='card card--dark'><img src=/b.png alt=''></div><div class='card card--light'><img src=/a.png alt=''></div>",
            "<div class=overlay--darken><img src=/b.png alt=a></div><div class=overlay--lighten><img src=/a.png alt=a></div>",
        ] {
            assert!(markdown(html).contains("/b.png"), "{html}");
        }
    }
}
