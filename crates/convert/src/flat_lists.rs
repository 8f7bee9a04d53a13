//! Converts lists that are flat in HTML although they have levels: the paragraphs of Microsoft Word, the
//! items of the editor Quill, and exports that write each item or level as a list of its own.

use super::dom::{Dom, NodeId, Tag};
use super::list_numbers::number_attribute;
use super::markdown_block::{Block, Item, List};
use super::omission_reason::Rule;
use super::phrasing::Converter;
use std::iter::Peekable;

/// The deepest level of a list: twice the number of levels in Word, because [`mark_filtered_items`] counts
/// levels by their indents of a quarter or half an inch.
const MAX_LEVEL: usize = 18;

/// An element that is shown as an item of a list at some level.
pub(super) struct FlatItem {
    /// The level of the item, from 1 to [`MAX_LEVEL`].
    level: usize,
    /// The number of the item, or for an item of an HTML list, the first number of that list; `None` if its
    /// marker is a bullet.
    number: Option<u32>,
    /// The element that contains the marker; `None` if the browser generates the marker.
    marker: Option<NodeId>,
    /// Whether the item begins a new list, even if it follows another item.
    begins_list: bool,
    element: NodeId,
}

impl Converter<'_> {
    /// Reads a paragraph of Word as one item ([`Self::word_item`]), or an HTML list as several
    /// ([`read_flat_list`]). Empty for other blocks.
    pub(super) fn flat_items(&self, id: NodeId) -> Vec<FlatItem> {
        match self.dom.tag(id) {
            Tag::P => self.word_item(id).into_iter().collect(),
            Tag::Ul | Tag::Ol => read_flat_list(self.dom, id).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Reads a paragraph as an item of a Word list; `None` for other paragraphs, and if the first ten nodes
    /// in it have no marker.
    fn word_item(&self, id: NodeId) -> Option<FlatItem> {
        let dom = self.dom;
        let style = dom.attribute(id, "style")?;
        let (_, list) = style.split_once("mso-list:")?;
        let digits = list.split(';').next()?.split_once("level")?.1;
        let level = digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        let is_marker = |&d: &NodeId| {
            dom.attribute(d, "style").is_some_and(|s| s.replace(' ', "").contains("mso-list:Ignore"))
        };
        let marker = dom.descendants(id).take(10).find(is_marker)?;
        let number = marker_number(&dom.collapsed_text(marker)).map(str::to_owned);
        let begins_list = number.as_deref().is_some_and(is_first);
        let (level, number) = (usize::clamp(level, 1, MAX_LEVEL), number.as_deref().map(number_of));
        Some(FlatItem { level, number, marker: Some(marker), begins_list, element: id })
    }

    /// Appends consecutive items as nested lists, without their markers.
    pub(super) fn append_flat_items(&self, items: Vec<FlatItem>, out: &mut Vec<Block>) {
        self.append_level(&mut items.into_iter().peekable(), 1, out);
    }

    /// Appends the items up to one of a lower level than `level` as lists. Deeper ones become lists in the
    /// item before them, or in `out` if there is none. An item with `begins_list` begins a new list, and so
    /// does a change between numbers and bullets.
    fn append_level(
        &self,
        items: &mut Peekable<impl Iterator<Item = FlatItem>>,
        level: usize,
        out: &mut Vec<Block>,
    ) {
        let mut list: Option<List> = None;
        let mut last_number = None;
        while let Some(next) = items.peek().filter(|next| next.level >= level) {
            if next.level > level {
                let parent = list.as_mut().and_then(|list| list.items.last_mut());
                self.append_level(items, level + 1, parent.map_or(&mut *out, |item| &mut item.blocks));
                continue;
            }
            let Some(item) = items.next() else { break };
            let is_other = |list: &List| list.start.is_some() != item.number.is_some();
            // After an item `h`, an item `i` is the letter and not the Roman numeral 1.
            let is_letter = || {
                let text = item.marker.map(|marker| self.dom.collapsed_text(marker)).unwrap_or_default();
                marker_number(&text).is_some_and(|number| number.eq_ignore_ascii_case("i"))
            };
            let begins_list = item.begins_list && !(last_number == Some(8) && is_letter());
            last_number = item.number;
            if list.as_ref().is_some_and(|list| begins_list || is_other(list)) {
                out.extend(list.take().map(Block::List));
            }
            let outer = self.skipped.get();
            if let Some(marker) = item.marker {
                self.dom.skip(marker, Rule::FootnoteMark);
                self.skipped.set(Some(marker));
            }
            let mut blocks = self.blocks_in(item.element);
            self.skipped.set(outer);
            if let Some((link, address)) = self.card_link(item.element) {
                self.link_card(link, &address, &mut blocks);
            }
            let list = list.get_or_insert(List { start: item.number, is_loose: false, items: Vec::new() });
            list.is_loose |= self.dom.child_elements(item.element).any(|c| self.dom.tag(c) == Tag::P);
            let checked = item.marker.is_none().then(|| self.checkbox_state(item.element)).flatten();
            list.items.push(Item { checked, blocks });
        }
        out.extend(list.map(Block::List));
    }
}

/// Restores the styles that Word's format "Web Page, Filtered" removes from the items of lists. The level
/// replaces all of the paragraph's `style`. A new element around the marker and the space after it gets the
/// style of a marker.
pub(super) fn mark_filtered_items(dom: &mut Dom, root: NodeId) {
    let paragraphs = dom.descendants(root).filter(|&id| dom.tag(id) == Tag::P);
    let items: Vec<_> = paragraphs.filter_map(|id| Some((id, filtered_marker(dom, id)?))).collect();
    for (id, [marker, space]) in items {
        // `MsoListParagraph` has a margin of half an inch in the style sheet.
        let level = dom.style(id, "margin-left").and_then(quarter_inches).unwrap_or(2).max(1);
        dom.set_attribute(id, "style", &format!("mso-list:level{level}"));
        let element = dom.push_element("span", &[("style", "mso-list:Ignore")]);
        dom.insert_before(marker, element);
        dom.append(element, marker);
        dom.append(element, space);
    }
}

/// The marker of an item in Word's filtered format, and the space after it. The paragraph has a negative
/// indent, and its first text is the marker before no-break spaces of 7 points. A marker is one character
/// other than a digit, or a number or letters with a dot or bracket behind them. `None` for other paragraphs.
fn filtered_marker(dom: &Dom, id: NodeId) -> Option<[NodeId; 2]> {
    dom.style(id, "text-indent").filter(|indent| indent.starts_with('-'))?;
    let mut texts = dom.descendants(id).take(10).filter(|&d| dom.text(d).is_some());
    let marker = texts.find(|&text| !dom.is_blank(text))?;
    let space = texts.next().filter(|&space| dom.is_blank(space))?;
    let font = dom.attribute(dom.parent(space)?, "style")?.replace(' ', "");
    let text = dom.collapsed_text(marker);
    let is_number = |number: &str| number.len() <= 5 && number.bytes().all(|b| b.is_ascii_alphanumeric());
    let is_bullet = text.chars().count() == 1 && !text.starts_with(|c: char| c.is_ascii_digit());
    let is_marker = marker_number(&text).map_or(is_bullet, is_number);
    (font.starts_with("font:7.0pt") && is_marker).then_some([marker, space])
}

/// A length in inches, centimeters or points of CSS as the nearest number of quarter inches; 0 for a negative
/// length. `None` for other units and for more than 63 inches.
fn quarter_inches(length: &str) -> Option<u8> {
    let units = [("in", 4.0), ("cm", 4.0 / 2.54), ("pt", 4.0 / 72.0)];
    let (number, quarters) = units.iter().find_map(|(unit, q)| Some((length.strip_suffix(unit)?, q)))?;
    let quarters = number.parse::<f64>().ok()? * quarters;
    (0..u8::MAX).find(|&count| quarters < f64::from(count) + 0.5)
}

/// Reads a list whose items name their levels or kinds, or whose class names its level, as in Google Docs, or
/// a list with one item that continues another one ([`is_continued`]) or is continued. `None` for other
/// lists, and if a list contains anything but items.
fn read_flat_list(dom: &Dom, list: NodeId) -> Option<Vec<FlatItem>> {
    let suffix =
        |class: &str, prefix: &str| class.strip_prefix(prefix)?.rsplit('-').next()?.parse::<usize>().ok();
    let level_of = |id, prefix: &str| dom.classes(id).find_map(|class| suffix(class, prefix));
    let own_level = level_of(list, "lst-kix_");
    let mut children = dom.children(list).filter(|&child| !dom.is_blank(child));
    let kind_of = |id| {
        let kind = dom.attribute(id, "data-list");
        kind.filter(|kind| matches!(*kind, "ordered" | "bullet" | "checked" | "unchecked"))
    };
    let has_level = |id| kind_of(id).is_some() || level_of(id, "ql-indent-").is_some();
    let is_flat = own_level.is_some()
        || dom.child_elements(list).any(has_level)
        || dom.previous_element(list).is_some_and(|before| is_continued(dom, before, list))
        || dom.next_element(list).is_some_and(|after| is_continued(dom, list, after));
    if !is_flat || !children.all(|child| dom.tag(child) == Tag::Li) {
        return None;
    }
    let number = number_attribute(dom, list, "start").unwrap_or(1);
    let begins_list = match own_level {
        Some(_) => dom.has_class(list, "start"),
        None => !dom.previous_element(list).is_some_and(|before| is_continued(dom, before, list)),
    };
    let mut items: Vec<FlatItem> = Vec::new();
    for element in dom.child_elements(list) {
        let is_ordered = match kind_of(element) {
            Some(kind) => kind == "ordered",
            None => dom.tag(list) == Tag::Ol,
        };
        let level = own_level.or_else(|| level_of(element, "ql-indent-")).unwrap_or(0).saturating_add(1);
        let begins_list = begins_list && items.is_empty();
        let number = is_ordered.then_some(number);
        items.push(FlatItem { level: level.min(MAX_LEVEL), number, marker: None, begins_list, element });
    }
    Some(items)
}

/// Whether a list and the one after it have one item each, and the second continues the first: they are of
/// the same kind and have the same non-empty `class`, and if they are ordered, the second has the next
/// number.
fn is_continued(dom: &Dom, list: NodeId, next: NodeId) -> bool {
    let is_single = |list| dom.child_elements(list).nth(1).is_none() && dom.find(list, Tag::Li).is_some();
    let class = dom.attribute(list, "class").filter(|class| !class.is_empty());
    let start = |list| number_attribute::<u32>(dom, list, "start").unwrap_or(1);
    dom.tag(list) == dom.tag(next)
        && class.is_some()
        && class == dom.attribute(next, "class")
        && is_single(list)
        && is_single(next)
        && (dom.tag(list) == Tag::Ul || start(list).checked_add(1) == Some(start(next)))
}

/// The last part of the number or letter in a marker of Word, such as `2` in `1.2.` and `b` in `(b)`. `None`
/// for a bullet.
fn marker_number(marker: &str) -> Option<&str> {
    marker.trim_start_matches('(').strip_suffix(['.', ')'])?.rsplit('.').next()
}

/// Whether a number or letter of a marker is the first one of a list, such as `1`, `01`, `a` or `i`.
fn is_first(number: &str) -> bool {
    matches!(number, "a" | "A" | "i" | "I") || number.parse() == Ok(1)
}

/// The number that a marker without its punctuation shows: digits, or a single letter, so `b` is 2. `i` is
/// probably the Roman one. Anything else is 1.
fn number_of(marker: &str) -> u32 {
    match *marker.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() && !letter.eq_ignore_ascii_case(&b'i') => {
            u32::from(letter.to_ascii_lowercase() - b'a') + 1
        }
        _ => marker.parse().unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    fn paragraphs_with_markers_of_word_are_lists() {
        let item = |level: u32, marker: &str, text: &str| {
            format!(
                "<p class=MsoListParagraph style='text-indent:-.25in;mso-list:l0 level{level} lfo1'><![if !supportLists]>\
                 <span style='font-family:Symbol'><span style='mso-list:Ignore'>{marker}<span>&nbsp;&nbsp; </span></span></span>\
                 <![endif]>{text}</p>\n"
            )
        };
        for (items, expected) in [
            (
                vec![(1, "·", "a <b>b</b>"), (2, "o", "c"), (3, "§", "d"), (1, "·", "e")],
                "- a **b**\n  - c\n    - d\n- e\n",
            ),
            (
                vec![(1, "3.", "a"), (2, "(i)", "b"), (2, "(ii)", "c"), (1, "4.", "d")],
                "3. a\n   1. b\n   2. c\n4. d\n",
            ),
            (vec![(1, "b)", "a"), (1, "c)", "b")], "2. a\n3. b\n"),
            (
                vec![(1, "1.", "a"), (2, "a)", "b"), (1, "2.", "c"), (2, "a)", "d"), (1, "1.", "e")],
                "1. a\n   1. b\n2. c\n   1. d\n\n<!-- -->\n\n1. e\n",
            ),
            (
                vec![(1, "i.", "a"), (1, "ii.", "b"), (1, "i.", "c"), (1, "02.", "d"), (1, "01.", "e")],
                "1. a\n2. b\n\n<!-- -->\n\n1. c\n2. d\n\n<!-- -->\n\n1. e\n",
            ),
            (vec![(1, "h)", "a"), (1, "i)", "b"), (1, "j)", "c")], "8. a\n9. b\n10. c\n"),
            (vec![(1, "1.2.", "a"), (1, "·", "b")], "2. a\n\n- b\n"),
            (vec![(3, "·", "a"), (1, "·", "b")], "- a\n\n* b\n"),
        ] {
            let html: String = items.iter().map(|(level, marker, text)| item(*level, marker, text)).collect();
            assert_eq!(markdown(&format!("<p>x</p>{html}<p>y")), format!("x\n\n{expected}\ny\n"), "{html}");
        }
        let plain = "<p style='mso-list:l0 level1 lfo1'>a<p style='mso-list:none'><span style='mso-list:Ignore'>1.</span> b";
        assert_eq!(markdown(plain), "a\n\n1\\. b\n");
    }

    #[test]
    fn paragraphs_of_filtered_exports_of_word_are_lists() {
        let space = "<span style='font:7.0pt \"Times New Roman\"'>&nbsp;&nbsp; </span>";
        let item = |style: &str, start: &str, text: &str| {
            format!("<p class=MsoListParagraph style='text-indent:-.25in;{style}'>{start}{text}</p>\n")
        };
        let bullet = |sign: &str| format!("<span style='font-family:Symbol'>{sign}{space}</span>");
        let number = |number: &str| format!("{number}{space}");
        for (items, expected) in [
            (
                vec![
                    ("", bullet("·"), "a <b>b</b>"),
                    ("margin-left:1.0in", bullet("o"), "c"),
                    ("", bullet("\u{f0b7}"), "d"),
                ],
                "- a **b**\n  - c\n- d\n",
            ),
            (
                vec![
                    ("", number("1."), "a"),
                    ("margin-left:72.0pt", number("a)"), "b"),
                    ("margin-left:1.27cm", number("2."), "c"),
                ],
                "1. a\n   1. b\n2. c\n",
            ),
            (vec![("", number("<b>iv)"), "</b>a")], "1. a\n"),
            // The text beside the marker stays, and the levels of an outline differ by about a quarter inch.
            (vec![("", number("<b>2."), "a</b> b")], "2. **a** b\n"),
            (
                vec![("margin-left:.25in", number("1."), "a"), ("margin-left:.55in", number("1.1."), "b")],
                "1. a\n   1. b\n",
            ),
            // These paragraphs are not items.
            (
                vec![("", number("[1]"), "a"), ("", number("1.1"), "b")],
                "[1]\u{a0}\u{a0} a\n\n1.1\u{a0}\u{a0} b\n",
            ),
            (vec![("text-indent:0", "1. ".to_owned(), "a"), ("", "· ".to_owned(), "b")], "1\\. a\n\n· b\n"),
            (vec![("", number("Article I."), "a")], "Article I.\u{a0}\u{a0} a\n"),
        ] {
            let html: String = items.iter().map(|(style, start, text)| item(style, start, text)).collect();
            assert_eq!(markdown(&format!("<p>x</p>{html}<p>y")), format!("x\n\n{expected}\ny\n"), "{html}");
        }
        let plain = item("", &number("1."), "a").replace("text-indent", "x");
        assert_eq!(markdown(&plain), "1.\u{a0}\u{a0} a\n");
    }

    #[test]
    fn flat_lists_of_editors_and_exports_are_nested() {
        for (html, expected) in [
            (
                "<ol><li data-list=bullet>a<li data-list=bullet class=ql-indent-1>b<li data-list=ordered>c<li data-list=checked>d\
                 <li data-list=unchecked>e</ol>",
                "- a\n  - b\n\n1. c\n\n- [x] d\n- [ ] e\n",
            ),
            (
                "<ul><li>a<li class=ql-indent-1>b<li class=ql-indent-2>c<li>d</ul>",
                "- a\n  - b\n    - c\n- d\n",
            ),
            (
                "<ol class='lst-kix_x-0 start'><li>a</ol> <ul class='lst-kix_x-1 start'><li>b<li>c</ul><ol class=lst-kix_x-0 start=2>\
                 <li>d<li>e</ol>",
                "1. a\n   - b\n   - c\n2. d\n3. e\n",
            ),
            (
                "<ul class='lst-kix_x-0 start'><li>a</ul><ul class='lst-kix_y-0 start'><li>b</ul>",
                "- a\n\n* b\n",
            ),
            (
                "<ol class=n start=3><li>a<ul><li>b</ul></ol><ol class=n start=4><li>c</ol><ol class=n start=1><li>d</ol>",
                "3. a\n   - b\n4. c\n\n<!-- -->\n\n1. d\n",
            ),
            ("<ul class=n><li>a</ul><ul class=n><li>b</ul><ul class=m><li>c</ul>", "- a\n- b\n\n* c\n"),
            // These lists stay separate.
            ("<ol class=n start=4><li>a</ol><ol class=n start=3><li>b</ol>", "4. a\n\n<!-- -->\n\n3. b\n"),
            (
                "<ol class=n start=3><li>a</ol><ol class=n start=4><li>b</ol><ol class=n start=3><li>c</ol>",
                "3. a\n4. b\n\n<!-- -->\n\n3. c\n",
            ),
            ("<ul class=n><li>a<li>b</ul><ul class=n><li>c</ul>", "- a\n- b\n\n* c\n"),
            ("<ul><li>a</ul><ul><li>b</ul>", "- a\n\n* b\n"),
            ("<ul class=n><li>a</ul><p>x</p><ul class=n><li>b</ul>", "- a\n\nx\n\n- b\n"),
            ("<ol start=3><li data-list=x>a<li value=7>b</ol>", "3. a\n\n<!-- -->\n\n7. b\n"),
            ("<ul class=lst-kix_x-1>y<li>a</ul>", "y\n\n- a\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
        let card = "<main><ul class=n><li><a href=/a></a><h3>a</h3></ul><ul class=n><li>b</ul></main>";
        assert_eq!(crate::convert(card, &crate::Options::default()).markdown, "- ### [a](/a)\n- b\n");
    }

    #[test]
    fn items_of_lists_say_whether_a_task_is_done() {
        for (item, expected) in [
            ("<li data-checked=true>a", "- [x] a\n"),
            ("<li data-checked=false><p>a</p>", "- [ ] a\n"),
            ("<li role=checkbox aria-checked=true>a", "- [x] a\n"),
            ("<li role=menuitemcheckbox aria-checked=mixed>a", "- [ ] a\n"),
            ("<li style='--en-checked:true;'>a", "- [x] a\n"),
            ("<li data-checked>a", "- a\n"),
            ("<li aria-checked=true>a", "- a\n"),
            ("<li style='--en-checked:false;'>a", "- [ ] a\n"),
            ("<li class=unchecked-box>a", "- [ ] a\n"),
            ("<li class=checked-box>a", "- [x] a\n"),
            ("<li class=box style='--en-todo:true'>a", "- a\n"),
        ] {
            assert_eq!(markdown(&format!("<ul>{item}</ul>")), expected, "{item}");
        }
    }
}
