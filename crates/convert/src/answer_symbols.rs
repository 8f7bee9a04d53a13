//! Reads check marks, crosses and check boxes from the classes of symbols. Without them, a list of features
//! would say the opposite.

use super::dom::{Dom, FOR_SCREEN_READERS, NodeId, Tag, clip};

/// The beginnings of the classes and ids of symbols in common icon fonts. A prefix comes after longer ones
/// that begin with it.
#[rustfmt::skip]
const PREFIXES: [&str; 29] = [
    "fa-", "bi-", "lucide-", "icon--", "icon-tabler-", "icon-", "ti-", "tabler-icon-", "glyphicon-", "mdi-", "ri-", "la-",
    "feather-", "dashicons-", "octicon-", "ph-", "pi-", "icofont-", "lni-", "uil-", "anticon-", "bxs-", "ion-", "el-icon-",
    "eicon-", "typcn-", "lnr-", "ms-Icon--", "sd-material-icon-",
];

/// Attributes with the name of a symbol, such as `check`, or its collection and name, such as `mdi:check`.
const NAMES: [&str; 7] = ["data-icon", "icon", "data-lucide", "data-feather", "uk-icon", "shape", "name"];

/// The beginnings of the drawings of a check mark and a cross in the Material icons, which Material for
/// MkDocs and MUI insert without a name.
const DRAWINGS: [(&str, &str); 4] =
    [("M21 7 9 19l", "✓"), ("M9 16.17 4.83 12", "✓"), ("M19 6.41 17.59 5", "✗"), ("M19 6.41L17.59 5", "✗")];

/// Words for a check mark in the names of symbols.
const CHECK_MARKS: [&str; 8] = ["check", "checkmark", "CheckMark", "check2", "tick", "yes", "checked", "ok"];

/// Words for a cross in the names of symbols.
const CROSSES: [&str; 8] = ["close", "cross", "times", "x", "xmark", "remove", "no", "cancel"];

/// The characters for names in the Material fonts whose words mean something else in other fonts, such as the
/// weather.
const LIGATURES: [(&str, &str); 3] = [("done", "✓"), ("cancel", "✗"), ("clear", "✗")];

/// Words in the names of symbols that only change how the symbol is drawn.
#[rustfmt::skip]
const SHAPES: [&str; 22] = [
    "alt", "bold", "circle", "circled", "double", "duotone", "fill", "filled", "lg", "light", "line", "mark", "o", "outline",
    "outlined", "round", "sharp", "solid", "square", "thick", "thin", "variant",
];

/// `✓` or `✗` for an element that draws a check mark or a cross, by its classes, an attribute such as
/// `data-icon`, or the symbol that the first element in an `<svg>` uses or draws ([`DRAWINGS`]). If its text
/// may be the name of a symbol in a Material font, only the text counts. `None` for tags other than `<i>`,
/// `<em>`, `<span>`, `<svg>` and unknown ones, and for elements with other text, except an `<svg>`.
pub(super) fn answer_of(dom: &Dom, id: NodeId) -> Option<&'static str> {
    if !matches!(dom.tag(id), Tag::I | Tag::Span | Tag::Svg | Tag::Em | Tag::Other) {
        return None;
    }
    if is_ligature(dom, id) {
        let text = dom.text_content(id);
        let own = LIGATURES.into_iter().find(|(name, _)| *name == text.trim());
        return own.map(|(_, answer)| answer).or_else(|| answer_to(text.trim()));
    }
    // An `<svg>` may refer to a symbol of a sprite with `<use>`.
    let uses = || {
        let part = dom.child_elements(id).next().filter(|&part| dom.name(part) == "use")?;
        let target = dom.first_attribute(part, &["href", "xlink:href"])?;
        target.rsplit_once('#').map(|(_, name)| name)
    };
    let sprite = if dom.tag(id) == Tag::Svg { uses() } else { None };
    let drawing = || {
        let path = dom.child_elements(id).find(|&part| dom.name(part) == "path")?;
        let path = dom.attribute(path, "d").filter(|_| dom.tag(id) == Tag::Svg)?;
        DRAWINGS.iter().find(|(start, _)| path.starts_with(start)).map(|(_, answer)| *answer)
    };
    let classes = dom.classes(id).take(20).filter_map(|class| symbol_name(dom, id, class));
    let sprite = sprite.map(|name| symbol_name(dom, id, name).unwrap_or(name));
    let attribute = dom.first_attribute(id, &NAMES).map(|name| name.rsplit(':').next().unwrap_or(name));
    // In `data-icon`, the name `x` is the logo of the network X. Other elements than components for symbols
    // have a `name`, too.
    let is_symbol = dom.tag(id) != Tag::Other || dom.name(id).contains("icon");
    let attribute = attribute.filter(|_| is_symbol && dom.attribute(id, "data-icon") != Some("x"));
    let answer = classes.chain(sprite).chain(attribute).find_map(answer_to).or_else(drawing)?;
    let is_empty =
        || dom.descendants(id).take(20).all(|d| dom.text(d).is_none_or(|text| text.trim().is_empty()));
    (dom.tag(id) == Tag::Svg || is_empty()).then_some(answer)
}

/// The character for the name of a symbol, such as `check_circle`: the only word besides those of [`SHAPES`]
/// must be one for a check mark or a cross. Reads the first 40 bytes of the name.
fn answer_to(name: &str) -> Option<&'static str> {
    let is_size = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    let mut words = clip(name, 40).split(['-', '_']).filter(|word| !SHAPES.contains(word) && !is_size(word));
    match (words.next()?, words.next()) {
        // Without the mark, this word names an empty box.
        ("checkbox", None) if name.contains("circle") => Some("✓"),
        ("checkbox", Some("marked")) => Some("✓"),
        (word, None) if CHECK_MARKS.contains(&word) => Some("✓"),
        (word, None) if CROSSES.contains(&word) => Some("✗"),
        _ => None,
    }
}

/// The name of a symbol in a class of the element `id`, without the prefix of its icon font, which may also
/// be another class of the element, or without the name of its collection in a class such as `i-lucide-check`
/// or `icon-[mdi--check]`. `None` without a known prefix.
fn symbol_name<'a>(dom: &Dom, id: NodeId, token: &'a str) -> Option<&'a str> {
    let of_collection = || {
        let name = token.strip_prefix("icon-[").and_then(|name| name.strip_suffix(']'));
        name.or_else(|| dom.has_class(id, "iconify").then_some(token))?.split_once("--")
    };
    let known = || PREFIXES.iter().find_map(|prefix| token.strip_prefix(prefix));
    let own = || {
        token
            .rmatch_indices('-')
            .find_map(|(at, _)| dom.has_class(id, &token[..at]).then(|| &token[at + 1..]))
    };
    of_collection()
        .map(|(_, name)| name)
        .or_else(known)
        .or_else(|| Some(token.strip_prefix("i-")?.split_once(['-', ':'])?.1))
        .or_else(own)
}

/// The check mark or cross at the start of a list item whose text is in blocks, before any text, among the
/// first [`MAX_LEAD`] nodes. `None` in links and buttons, and before a text for screen readers.
pub(super) fn leading_answer(dom: &Dom, item: NodeId) -> Option<&'static str> {
    let is_end = |&d: &NodeId| {
        matches!(dom.tag(d), Tag::A | Tag::Button) || dom.text(d).is_some_and(|text| !text.trim().is_empty())
    };
    let mut start = dom.descendants(item).take(MAX_LEAD).take_while(|d| !is_end(d));
    let (symbol, answer) = start.find_map(|d| Some((d, answer_of(dom, d)?)))?;
    let is_said = dom.next_element(symbol).is_some_and(|next| dom.has_class_in(next, FOR_SCREEN_READERS));
    (!is_said).then_some(answer)
}

/// Maximum number of nodes before and with the symbol at the start of a list item.
const MAX_LEAD: usize = 6;

/// Whether an element has a class of the Material fonts and contains only a text that may be the name of a
/// symbol: lower-case letters, digits and underscores. These fonts show the symbol instead of the text.
pub(super) fn is_ligature(dom: &Dom, id: NodeId) -> bool {
    let is_font = |class: &str| class.starts_with("material-icons") || class.starts_with("material-symbols");
    let is_name = |text: &str| {
        let text = text.trim();
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let only = dom.node(id).first.filter(|&only| dom.node(id).last == Some(only));
    dom.classes(id).any(is_font) && only.and_then(|only| dom.text(only)).is_some_and(is_name)
}

/// Whether an element is the first content of a list item, a term, an explanation or a table cell at most
/// four levels above, which must not be blank and have no blocks as children. False in a link or a button,
/// and if the next element is a text for screen readers. Checks only the nearest four nodes before it at each
/// level.
pub(super) fn begins_item(dom: &Dom, id: NodeId, is_block: impl Fn(NodeId) -> bool) -> bool {
    let is_for_screen_readers = |beside| dom.has_class_in(beside, FOR_SCREEN_READERS);
    let is_item = |a| matches!(dom.tag(a), Tag::Li | Tag::Dd | Tag::Dt | Tag::Td | Tag::Th);
    if dom.next_element(id).is_some_and(is_for_screen_readers) {
        return false;
    }
    for (inner, outer) in dom.ancestors(id).zip(dom.ancestors(id).skip(1)).take(4) {
        if matches!(dom.tag(inner), Tag::A | Tag::Button)
            || dom.nodes_before(inner).take(4).any(|before| !dom.is_blank(before))
        {
            return false;
        }
        if is_item(outer) {
            // In a list, this symbol is the checkbox of a task, as Asciidoctor writes it.
            let is_checkbox = dom.tag(outer) == Tag::Li && dom.has_class(id, "fa-check-square-o");
            return !is_checkbox && !dom.children(outer).any(is_block) && !dom.is_blank(outer);
        }
    }
    false
}

/// Whether the checkbox that Notion draws with a blank `<div>` is checked. `None` for other elements.
pub(super) fn drawn_checkbox(dom: &Dom, id: NodeId) -> Option<bool> {
    let is_checked = dom.has_class(id, "checkbox-on");
    let is_checkbox = is_checked || dom.has_class(id, "checkbox-off");
    (dom.tag(id) == Tag::Div && is_checkbox && dom.is_blank(id)).then_some(is_checked)
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn check_marks_and_crosses_stay() {
        let cells = |yes: &str, no: &str| {
            markdown(&format!("<table><tr><th>a<th>b<th>c<tr><td>d<td>{yes}<td>{no}</table>"))
        };
        let table = |yes, no| format!("| a | b | c |\n| --- | --- | --- |\n| d | {yes} | {no} |\n");
        for (yes, no, marks) in [
            ("<i class='fa fa-check' title=Yes></i>", "<i class='fa fa-times' title=No></i>", ("Yes", "No")),
            (
                "<i class='fas fa-check' aria-hidden=true></i>",
                "<svg class='lucide lucide-x'></svg>",
                ("✓", "✗"),
            ),
            ("<svg><use href=/i.svg#icon-check /></svg>", "<span aria-label=None></span>", ("✓", "None")),
            ("<i class='bi bi-check-lg'></i> 5 GB", "<i class='bi bi-gear'></i> x", ("✓ 5 GB", "x")),
            ("<i class='fa-check' aria-hidden=true></i><b class=sr-only>Yes</b>", "e", ("**Yes**", "e")),
            ("<input type=checkbox checked disabled>", "<input type=checkbox disabled>", ("[x]", "[ ]")),
            (
                "<div class='checkbox checkbox-on'></div>",
                "<div class='checkbox checkbox-off'></div>",
                ("[x]", "[ ]"),
            ),
            (
                "<div class=checkbox-on>Free</div>",
                "<div class=checkbox-off><b>9</b> €</div>",
                ("Free", "**9** €"),
            ),
            (
                "<i class=material-icons>check_circle</i>",
                "<div><span class=material-symbols-outlined aria-hidden=true>close</span></div>",
                ("✓", "✗"),
            ),
            (
                "<svg role=img><title>Included</title><path/></svg>",
                "<svg><title>Not *here*</title></svg>",
                ("Included", "Not \\*here\\*"),
            ),
            (
                "<i class='ph-bold ph-check'></i>",
                "<iconify-icon icon=mdi:close-circle></iconify-icon>",
                ("✓", "✗"),
            ),
            ("<i class=i-lucide-check></i>", "<svg data-icon=xmark></svg>", ("✓", "✗")),
            ("<i class='icon icon--check'></i>", "<svg class=icon-tabler-x></svg>", ("✓", "✗")),
            ("<i class=icon-clear></i>y", "<svg data-icon=x></svg>n", ("y", "n")),
            ("<i class=material-icons>done</i>", "<i class=material-icons>clear</i>", ("✓", "✗")),
            ("<i class='bx bx-check'></i>", "<i class='bx bxs-x-circle'></i>", ("✓", "✗")),
            ("<i class='glyphicon glyphicon-ok'></i>", "<i class=icon-remove></i>", ("✓", "✗")),
            ("<i class='fa fa-square-check'></i>", "<i class='mdi mdi-close-thick'></i>", ("✓", "✗")),
            ("<i class='iconify i-lucide:check'></i>", "<i class='iconify mdi--close'></i>", ("✓", "✗")),
            ("<i class='icon-[mdi--check]'></i>", "<i class=i-heroicons-x-mark-20-solid></i>", ("✓", "✗")),
            ("<svg><use href=/s.svg#tick /></svg>", "<ion-icon name=close-circle></ion-icon>", ("✓", "✗")),
            (
                "<svg><path d='M21 7 9 19l-5.5-5.5z'/></svg>",
                "<i class='ri-checkbox-blank-line'></i>n",
                ("✓", "n"),
            ),
            ("<i class=form-check></i>y", "<i class='fa-spell-check'></i>n", ("y", "n")),
        ] {
            assert_eq!(cells(yes, no), table(marks.0, marks.1), "{yes} {no}");
        }
        for (html, expected) in [
            ("<li><i class='fa fa-times' aria-hidden=true></i> Support", "- ✗ Support\n"),
            ("<li><svg class='lucide lucide-check'><path/></svg><span>5 boats</span>", "- ✓ 5 boats\n"),
            ("<li>Press <i class='fa fa-times'></i> to close", "- Press to close\n"),
            ("<li><span class=material-icons aria-hidden=true>close</span> Support", "- ✗ Support\n"),
            (
                "<li><i class=material-icons>arrow_forward</i> Go <b class=material-icons>A b</b>",
                "- Go **A b**\n",
            ),
            ("<li><button><i class='fa fa-times'></i></button>a", "- a\n"),
            ("<li><svg class='lucide lucide-x'></svg><p>Backups</p>", "- ✗ Backups\n"),
            ("<li><b><i class='fa fa-check'></i></b><div><p>SSL</p></div><p>b", "- ✓ SSL\n\n  b\n"),
            ("<li><div><i class='fa fa-times'></i><span>Mail</span></div>", "- ✗ Mail\n"),
            ("<li><p>a <i class='fa fa-times'></i> b</p>", "- a b\n"),
            ("<li data-inline-task-id=1 class=checked>a<li data-inline-task-id=2>b", "- [x] a\n- [ ] b\n"),
            ("<li><div class='checkbox checkbox-on'></div> <span>a</span>", "- [x] a\n"),
            ("<li><div class=checkbox-on>a</div>", "- a\n"),
        ] {
            assert_eq!(markdown(&format!("<ul>{html}</ul>")), expected, "{html}");
        }
        // A cross in a summary closes it.
        let details = |summary: &str| markdown(&format!("<details><summary>{summary}</summary>b</details>"));
        let cross = details("A <i class='fa fa-plus'></i><i class='fa fa-times'></i>");
        assert!(cross.contains("<summary>A</summary>"), "{cross}");
        let check = details("<i class='fa fa-check'></i> A");
        assert!(check.contains("<summary>✓ A</summary>"), "{check}");
    }
}
