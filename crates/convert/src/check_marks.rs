//! Reads check marks, crosses and check boxes from the classes of symbols. Without them, a list of features
//! would say the opposite.

use super::dom::{Dom, FOR_SCREEN_READERS, NodeId, Tag, clip};

/// Words in classes that name a symbol set, such as `fa` in `fa-check`. Words that contain `icon` also count.
#[rustfmt::skip]
const SETS: [&str; 23] = [
    "bi", "bx", "bxs", "fa", "far", "fas", "feather", "icofont", "ion", "la", "las", "lni", "lucide", "material", "mdi",
    "ph", "pi", "ri", "tabler", "ti", "uil", "uis", "svg",
];

/// Attributes with the name of a symbol, such as `check`, or its collection and name, such as `mdi:check`.
const NAMES: [&str; 5] = ["data-icon", "icon", "data-lucide", "data-feather", "uk-icon"];

/// Words for a check mark in the names of symbols.
#[rustfmt::skip]
const CHECK_MARKS: [&str; 10] =
    ["accept", "check", "check2", "checked", "checkmark", "done", "marked", "ok", "tick", "yes"];

/// Words for a cross in the names of symbols.
const CROSSES: [&str; 8] = ["cancel", "close", "cross", "no", "remove", "times", "x", "xmark"];

/// Words in the names of symbols that only change how the symbol is drawn.
#[rustfmt::skip]
const SHAPES: [&str; 25] = [
    "alt", "big", "bold", "checkbox", "circle", "circled", "double", "duotone", "fill", "filled", "large", "lg", "light", "line",
    "mark", "o", "outline", "outlined", "round", "rounded", "sign", "solid", "square", "thick", "thin",
];

/// The first digits in the paths of drawings that often have no name, by Material Design, Heroicons and
/// Lucide.
#[rustfmt::skip]
const PATHS: [(&str, &str); 11] = [
    ("217919", "✓"), ("91617483", "✓"), ("51344197", "✓"), ("4512756", "✓"), ("1670752931", "✓"), ("1670441537", "✓"),
    ("2069175", "✓"), ("1964117595", "✗"), ("6181866612", "✗"), ("4293429311", "✗"), ("62852275", "✗"),
];

/// `✓` or `✗` for an element that draws a check mark or a cross, by its classes, an attribute such as
/// `data-icon`, or the symbol that the first element in an `<svg>` uses or draws. If its text may be the name
/// of a symbol in a Material font, only the text counts. `None` for tags other than `<i>`, `<em>`, `<span>`,
/// `<div>`, `<svg>` and unknown ones, and for elements with other text, except an `<svg>`.
pub(super) fn answer_of(dom: &Dom, id: NodeId) -> Option<&'static str> {
    if !matches!(dom.tag(id), Tag::I | Tag::Span | Tag::Svg | Tag::Em | Tag::Div | Tag::Other) {
        return None;
    }
    if is_ligature(dom, id) {
        let text = dom.text_content(id);
        // In Material fonts, `clear` is a cross; in other fonts, it is a symbol for clear weather.
        return if text.trim() == "clear" { Some("✗") } else { answer_to(&words_of(&text)) };
    }
    let is_empty =
        || dom.descendants(id).take(20).all(|d| dom.text(d).is_none_or(|text| text.trim().is_empty()));
    if dom.tag(id) != Tag::Svg && !is_empty() {
        return None;
    }
    let attribute = dom.first_attribute(id, &NAMES).map(|name| name.split(';').next().unwrap_or(name));
    // In `data-icon`, the name `x` is the logo of the network X.
    let attribute = attribute.filter(|_| dom.attribute(id, "data-icon") != Some("x"));
    // In a set of flags, `no` is the flag of Norway.
    let attribute = attribute.filter(|name| !name.contains("flag"));
    let attribute = attribute.map(|name| name.rsplit(':').next().unwrap_or(name));
    let is_element = dom.tag(id) == Tag::Other && dom.name(id).contains("icon");
    let own = is_element.then(|| dom.first_attribute(id, &["name", "shape"])).flatten();
    let component = dom.attribute(id, "data-testid").filter(|name| name.ends_with("Icon"));
    let names = [attribute, own, component, used_symbol(dom, id)];
    answer_of_classes(dom, id)
        .or_else(|| names.into_iter().flatten().find_map(|name| answer_to(&words_of(name))))
        .or_else(|| drawn_answer(dom, id))
}

/// The name of the symbol of a sprite to which the first element in an `<svg>` refers with `<use>`. `None`
/// for `x`, which may be the logo of the network X, and in a sprite of flags.
fn used_symbol(dom: &Dom, id: NodeId) -> Option<&str> {
    let part = dom.child_elements(id).next().filter(|&part| dom.name(part) == "use")?;
    let target = dom.first_attribute(part, &["href", "xlink:href"]).filter(|href| !href.contains("flag"))?;
    target.rsplit_once('#').map(|(_, name)| name).filter(|&name| name != "x")
}

/// The character in [`PATHS`], such as `✓`, for the path that begins an `<svg>`.
fn drawn_answer(dom: &Dom, id: NodeId) -> Option<&'static str> {
    let part = dom.child_elements(id).next().filter(|_| dom.tag(id) == Tag::Svg)?;
    let path = clip(dom.attribute(part, "d")?, 60);
    let digits: String = path.chars().filter(char::is_ascii_digit).collect();
    PATHS.iter().find(|(start, _)| digits.starts_with(start)).map(|(_, answer)| *answer)
}

/// The character for the first of at most 20 classes that names a symbol: the class has several words, and
/// its first word names a set ([`SETS`]), is another class of the element (as in `bx bx-check`), or is `i`
/// before the name of a collection, or one of the element's classes has a word with `icon`. Only Dashicons
/// have `no` for a cross; elsewhere, it is the code of Norway or a word for a number.
fn answer_of_classes(dom: &Dom, id: NodeId) -> Option<&'static str> {
    let classes = || dom.classes(id).take(20);
    let is_icon = || classes().any(|class| class.to_ascii_lowercase().contains("icon"));
    classes().find_map(|class| {
        let words = words_of(class);
        let (set, name) = words.split_once(' ')?;
        let name = if set == "i" { name.split_once(' ')?.1 } else { name };
        let answer =
            answer_to(name).filter(|_| set == "dashicons" || name.split(' ').all(|word| word != "no"))?;
        (set == "i" || SETS.contains(&set) || dom.has_class(id, set) || is_icon()).then_some(answer)
    })
}

/// The words in the first 60 bytes of a name, in lower case and with a space between them. Punctuation and
/// capitals divide a name into words.
fn words_of(name: &str) -> String {
    let mut words = String::new();
    for c in clip(name, 60).chars() {
        let is_start = c.is_ascii_uppercase() || !c.is_alphanumeric();
        if is_start && !words.is_empty() && !words.ends_with(' ') {
            words.push(' ');
        }
        if c.is_alphanumeric() {
            words.push(c.to_ascii_lowercase());
        }
    }
    words.truncate(words.trim_end().len());
    words
}

/// The character for the words in the name of a symbol, such as `check` and `circle`: the only word besides
/// numbers and those of [`SHAPES`] and [`SETS`] must be one for a check mark or a cross. Remix Icon calls a
/// check mark in a circle `checkbox-circle`; other boxes may be empty.
fn answer_to(name: &str) -> Option<&'static str> {
    let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    let is_part = |word: &str| SHAPES.contains(&word) || SETS.contains(&word) || word.contains("icon");
    let mut names = name.split(' ').filter(|word| !is_number(word) && !is_part(word));
    match (names.next(), names.next()) {
        (Some(word), None) if CHECK_MARKS.contains(&word) => Some("✓"),
        (Some(word), None) if CROSSES.contains(&word) => Some("✗"),
        (None, _) => (name.contains("checkbox") && name.contains("circle")).then_some("✓"),
        _ => None,
    }
}

/// Whether a class selects one of the Material fonts, such as `material-icons-round`.
pub(super) fn is_material_font(class: &str) -> bool {
    class.starts_with("material-icons") || class.starts_with("material-symbols")
}

/// Whether an element has a class of the Material fonts and contains only a text that may be the name of a
/// symbol: lower-case letters, digits and underscores. These fonts show the symbol instead of the text.
pub(super) fn is_ligature(dom: &Dom, id: NodeId) -> bool {
    let is_name = |text: &str| {
        let text = text.trim();
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let only = dom.node(id).first.filter(|&only| dom.node(id).last == Some(only));
    dom.classes(id).any(is_material_font) && only.and_then(|only| dom.text(only)).is_some_and(is_name)
}

/// Whether an element is the first content of a paragraph, a list item, a term, an explanation or a table
/// cell at most four levels above, which must not be blank. False in a link or a button, before a block, for
/// a checked checkbox of Asciidoctor, and if the next element is a text for screen readers. Checks only the
/// nearest four nodes before and after it at each level.
pub(super) fn begins_item(dom: &Dom, id: NodeId, is_block: impl Fn(NodeId) -> bool) -> bool {
    let is_for_screen_readers = |beside| dom.has_class_in(beside, FOR_SCREEN_READERS);
    let is_content = |node: &NodeId| !dom.is_blank(*node);
    // Asciidoctor draws the checked checkbox of a list item as an icon with this class, which
    // `checkbox_state` reads.
    let is_checkbox = || dom.has_class(id, "fa-check-square-o") && dom.is_in(id, &[Tag::Li]);
    if dom.next_element(id).is_some_and(is_for_screen_readers) || is_checkbox() {
        return false;
    }
    for (inner, outer) in dom.ancestors(id).zip(dom.ancestors(id).skip(1)).take(4) {
        if matches!(dom.tag(inner), Tag::A | Tag::Button)
            || dom.nodes_before(inner).take(4).any(|before| is_content(&before))
            || dom.nodes_after(inner).take(4).find(is_content).is_some_and(&is_block)
        {
            return false;
        }
        if is_item(dom, outer) || dom.tag(outer) == Tag::P {
            return !dom.is_blank(outer) && !dom.is_in(outer, &[Tag::A, Tag::Button]);
        }
    }
    false
}

/// Whether an element is a list item, a term or a description in a `<dl>`, or a table cell.
fn is_item(dom: &Dom, id: NodeId) -> bool {
    matches!(dom.tag(id), Tag::Li | Tag::Dd | Tag::Dt | Tag::Td | Tag::Th)
}

/// Moves check marks and crosses that stand directly before a paragraph of an item ([`is_item`]) into this
/// paragraph. Symbols before a block of another kind, such as a heading, are decoration and stay.
pub(super) fn move_into_paragraphs(dom: &mut Dom, root: NodeId) {
    let is_in_item = |id| dom.ancestors(id).skip(1).take(4).any(|a| is_item(dom, a));
    let symbols = dom.descendants(root).filter(|&id| is_in_item(id) && answer_of(dom, id).is_some());
    let moves: Vec<_> = symbols.filter_map(|id| Some((id, paragraph_after(dom, id)?))).collect();
    for (id, first) in moves {
        dom.insert_before(first, id);
    }
}

/// The first content of the paragraph or `<div>` after an element that is at most four levels below an item.
/// `None` if other content is between the two, and if the paragraph begins with a block.
fn paragraph_after(dom: &Dom, id: NodeId) -> Option<NodeId> {
    let is_content = |node: &NodeId| !dom.is_blank(*node);
    let is_paragraph = |id: NodeId| matches!(dom.tag(id), Tag::P | Tag::Div);
    let is_end = |a| is_item(dom, a) || matches!(dom.tag(a), Tag::A | Tag::Button);
    let mut places = dom.ancestors(id).take(4).take_while(|&a| !is_end(a));
    let mut first = places.find_map(|a| dom.nodes_after(a).take(4).find(is_content))?;
    if !is_paragraph(first) {
        return None;
    }
    while is_paragraph(first) {
        first = dom.children(first).find(is_content)?;
    }
    (!dom.tag(first).is_block()).then_some(first)
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
            ("<i class=form-check></i>y", "<i class='fa-spell-check'></i>n", ("y", "n")),
            (
                "<i class='fa fa-star checked'></i>y",
                "<i class='mdi mdi-checkbox-blank-circle'></i>n",
                ("y", "n"),
            ),
            ("<i class='bx bx-checkbox'></i>y", "<i class='fa fa-user-times'></i>n", ("y", "n")),
            ("<svg><path d='M12 2C6 2 2 6 2 12'/></svg>y", "<i class=remove></i>n", ("y", "n")),
            ("<div class=i-carbon-checkmark></div>", "<div class=i-carbon:close></div>", ("✓", "✗")),
            ("<svg><use href=#x /></svg>y", "<svg><use href=#close /></svg>n", ("y", "✗ n")),
            ("<a-b name=check></a-b>y", "<i data-testid=close></i>n", ("y", "n")),
            ("<i class='fi fi-no'></i>y", "<i class='flag-icon flag-icon-no'></i>n", ("y", "n")),
            ("<i class='icon country-no'></i>y", "<i class='line line-no'></i>n", ("y", "n")),
            ("<iconify-icon icon=circle-flags:no></iconify-icon>y", "<i data-icon=no></i>", ("y", "✗")),
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
            ("<li data-inline-task-id=1 class=checked>a<li data-inline-task-id=2>b", "- [x] a\n- [ ] b\n"),
            ("<li><div class='checkbox checkbox-on'></div> <span>a</span>", "- [x] a\n"),
            ("<li><div class=checkbox-on>a</div>", "- a\n"),
            ("<li><svg class='lucide lucide-x'></svg><p>a</p><p>b", "- ✗ a\n\n  b\n"),
            ("<li><span><i class='fa fa-times'></i></span><div><p>a</p></div>", "- ✗ a\n"),
            ("<li><i class='fa fa-check'></i> a<ul><li>b</ul>", "- ✓ a\n  - b\n"),
            ("<li><p><i class='fa fa-times'></i> a</p>", "- ✗ a\n"),
            ("<li><i class='fa fa-check'></i><h3>a</h3><p>b", "- ### a\n\n  b\n"),
            ("<li><i class='fa fa-check'></i><div><h3>a</h3></div>", "- ### a\n"),
            ("<li><a href=/x><i class='fa fa-times'></i><p>a</a>", "- [a](/x)\n"),
            ("<li><b><i class='fa fa-check'></i></b><div><p>a</p></div><p>b", "- ✓ a\n\n  b\n"),
            ("<li><div><i class='fa fa-times'></i><span>a</span></div>", "- ✗ a\n"),
            ("<li><p>a <i class='fa fa-times'></i> b</p>", "- a b\n"),
        ] {
            assert_eq!(markdown(&format!("<ul>{html}</ul>")), expected, "{html}");
        }
        assert_eq!(
            markdown("<p><i class='fa fa-times'></i> Mail<p>a <i class='fa fa-times'></i>"),
            "✗ Mail\n\na\n"
        );
        // Sets of symbols: the check mark and the cross of each.
        for (yes, no) in [
            (
                "<span class='glyphicon glyphicon-ok'></span>",
                "<span class='glyphicon glyphicon-remove'></span>",
            ),
            ("<i class='fa-solid fa-square-check'></i>", "<i class='fas fa-square-xmark'></i>"),
            ("<i class='fas fa-check-double'></i>", "<i class=icon-remove></i>"),
            ("<span class='iconify i-lucide:check'></span>", "<i class='i-carbon:close'></i>"),
            ("<i class=i-heroicons-check-20-solid></i>", "<i class=i-heroicons-x-mark-20-solid></i>"),
            ("<i class='icon-[mdi--check]'></i>", "<i class='iconify lucide--x'></i>"),
            ("<i class='bx bxs-check-circle'></i>", "<i class='bx bx-x'></i>"),
            ("<i class='bi bi-check2'></i>", "<i class='bi bi-x-square'></i>"),
            ("<i class=ri-checkbox-circle-fill></i>", "<i class=ri-close-circle-line></i>"),
            ("<i class='mdi mdi-checkbox-marked-circle'></i>", "<i class='mdi mdi-close-thick'></i>"),
            ("<i class='dashicons dashicons-yes'></i>", "<i class='dashicons dashicons-no-alt'></i>"),
            ("<svg data-testid=CheckCircleIcon><path/></svg>", "<svg data-testid=CancelIcon><path/></svg>"),
            (
                "<svg class='sd-octicon sd-octicon-check'></svg>",
                "<svg class='sd-material-icon sd-material-icon-close'></svg>",
            ),
            ("<i class='ms-Icon ms-Icon--CheckMark'></i>", "<i class='ms-Icon ms-Icon--Cancel'></i>"),
            ("<i class='typcn typcn-tick'></i>", "<i class='zmdi zmdi-close'></i>"),
            (
                "<svg class='e-font-icon-svg e-fas-check'></svg>",
                "<svg class='e-font-icon-svg e-fas-times'></svg>",
            ),
            ("<ion-icon name=checkmark-circle></ion-icon>", "<cds-icon shape=times></cds-icon>"),
            ("<i uk-icon='icon: check; ratio: 2'></i>", "<i uk-icon=close></i>"),
            ("<svg><use href=/s.svg#tick /></svg>", "<svg><use xlink:href=/s.svg#cross /></svg>"),
            (
                "<span class=twemoji><svg><path d='M21 7 9 19l-5.5-5.5 1.41-1.41L9 16.17'/></svg></span>",
                "<span class=twemoji><svg><path d='M19 6.41 17.59 5 12 10.59'/></svg></span>",
            ),
            ("<svg><path d='M5 13l4 4L19 7'></svg>", "<svg><path d='M6 18L18 6M6 6l12 12'></svg>"),
        ] {
            assert_eq!(cells(yes, no), table("✓", "✗"), "{yes} {no}");
            let list = markdown(&format!("<ul><li>{yes} a<li>{no} b</ul>"));
            assert_eq!(list, "- ✓ a\n- ✗ b\n", "{yes} {no}");
        }
        // A cross in a summary closes it.
        let details = |summary: &str| markdown(&format!("<details><summary>{summary}</summary>b</details>"));
        let cross = details("A <i class='fa fa-plus'></i><i class='fa fa-times'></i>");
        assert!(cross.contains("<summary>A</summary>"), "{cross}");
        let check = details("<i class='fa fa-check'></i> A");
        assert!(check.contains("<summary>✓ A</summary>"), "{check}");
    }
}
