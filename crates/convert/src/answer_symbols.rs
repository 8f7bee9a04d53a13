//! Reads check marks and crosses from the classes of symbols. Without them, a list of features would say the
//! opposite.

use super::documentation_markup::FOR_SCREEN_READERS;
use super::dom::{Dom, NodeId, Tag};

/// The beginnings of the classes and ids of symbols in common icon fonts.
#[rustfmt::skip]
const PREFIXES: [&str; 13] = [
    "fa-", "bi-", "lucide-", "icon-", "ti-", "tabler-icon-", "glyphicon-", "mdi-", "ri-", "la-", "feather-", "dashicons-",
    "octicon-",
];

#[rustfmt::skip]
const CHECK_MARKS: [&str; 12] = [
    "check", "tick", "checkmark", "check-mark", "check-circle", "circle-check", "check-lg", "check-bold", "check-circle-fill",
    "check-circle-o", "check-line", "yes",
];

#[rustfmt::skip]
const CROSSES: [&str; 14] = [
    "times", "xmark", "x", "cross", "x-mark", "times-circle", "circle-times", "x-circle", "circle-x", "circle-xmark", "x-lg",
    "x-circle-fill", "close", "close-line",
];

/// The character for an empty element whose class is that of a check mark or a cross; `None` for others.
pub(super) fn answer_of(dom: &Dom, id: NodeId) -> Option<&'static str> {
    if !matches!(dom.tag(id), Tag::I | Tag::Span | Tag::Svg | Tag::Em | Tag::Other) {
        return None;
    }
    // A drawing may refer to a symbol of a sprite.
    let uses = || {
        let part = dom.child_elements(id).next().filter(|&part| dom.name(part) == "use")?;
        let target = dom.first_attribute(part, &["href", "xlink:href"])?;
        target.rsplit_once('#').map(|(_, name)| name)
    };
    let sprite = if dom.tag(id) == Tag::Svg { uses() } else { None };
    let mut names = dom.classes(id).take(20).chain(sprite).filter_map(symbol_name);
    let answer = names.find_map(|name| {
        if CHECK_MARKS.contains(&name) { Some("✓") } else { CROSSES.contains(&name).then_some("✗") }
    })?;
    let is_empty =
        || dom.descendants(id).take(20).all(|d| dom.text(d).is_none_or(|text| text.trim().is_empty()));
    (dom.tag(id) == Tag::Svg || is_empty()).then_some(answer)
}

/// The name of a symbol, without the prefix of its icon font.
fn symbol_name(token: &str) -> Option<&str> {
    PREFIXES.iter().find_map(|prefix| token.strip_prefix(prefix))
}

/// Whether an element is the first content of a list item, an explanation or a table cell, and other content
/// follows. That parent must have no blocks, and the element no text for screen readers beside it.
pub(super) fn begins_item(dom: &Dom, id: NodeId, is_block: impl Fn(NodeId) -> bool) -> bool {
    let is_spoken = |beside| dom.has_class_in(beside, FOR_SCREEN_READERS);
    let is_item = |a| matches!(dom.tag(a), Tag::Li | Tag::Dd | Tag::Dt | Tag::Td | Tag::Th);
    if dom.next_element(id).is_some_and(is_spoken) {
        return false;
    }
    for (inner, outer) in dom.ancestors(id).zip(dom.ancestors(id).skip(1)).take(4) {
        if matches!(dom.tag(inner), Tag::A | Tag::Button)
            || dom.nodes_before(inner).take(4).any(|before| !dom.is_blank(before))
        {
            return false;
        }
        if is_item(outer) {
            return !dom.children(outer).any(is_block) && !dom.is_blank(outer);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
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
        ] {
            assert_eq!(cells(yes, no), table(marks.0, marks.1), "{yes} {no}");
        }
        for (html, expected) in [
            ("<li><i class='fa fa-times' aria-hidden=true></i> Support", "- ✗ Support\n"),
            ("<li><svg class='lucide lucide-check'><path/></svg><span>5 boats</span>", "- ✓ 5 boats\n"),
            ("<li>Press <i class='fa fa-times'></i> to close", "- Press to close\n"),
            ("<li><button><i class='fa fa-times'></i></button>a", "- a\n"),
            ("<li data-inline-task-id=1 class=checked>a<li data-inline-task-id=2>b", "- [x] a\n- [ ] b\n"),
            ("<li><div class='checkbox checkbox-on'></div> <span>a</span>", "- [x] a\n"),
        ] {
            assert_eq!(markdown(&format!("<ul>{html}</ul>")), expected, "{html}");
        }
    }
}
