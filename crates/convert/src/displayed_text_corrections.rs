//! Replaces texts that differ from what visitors see: counters that a script counts up, dates that a script
//! writes, and values that a page has twice, for the screen and for screen readers. Also reads check marks
//! and line breaks.

use std::collections::HashMap;

use super::code::is_code_block;
use super::dom::{Data, Dom, FOR_SCREEN_READERS, NodeId, Tag};
use super::omission_reason::Rule;
use super::unlinked_footnotes::first_text;

/// Words in the names of `data-` attributes that hold the final number of a counter, as in `data-target`.
#[rustfmt::skip]
const FINAL_NUMBERS: [&str; 14] = [
    "count", "counter", "countup", "end", "final", "num", "number", "percent", "purecounter", "stop", "target", "to", "val",
    "value",
];

/// Words in the names of `data-` attributes that hold a number other than the final one, such as a duration.
#[rustfmt::skip]
const OTHER_NUMBERS: [&str; 14] = [
    "begin", "decimals", "delay", "digits", "duration", "from", "id", "index", "order", "slide", "sort", "speed", "start",
    "step",
];

/// Attributes that hold the number at which a counter starts.
const FIRST_NUMBERS: [&str; 5] =
    ["data-from-value", "data-from", "data-start", "data-start-value", "data-purecounter-start"];

/// Number of nodes in a counter that are searched for the element that shows its number.
const COUNTER_NODES: usize = 20;

/// Maximum number of `<br>` elements that [`show_line_breaks`] adds to a page, to bound its memory.
const MAX_ADDED_BREAKS: usize = 20_000;

/// Adds a `<br>` for each line break that the page shows: outside of code, if the nearest element with a
/// style or a class of Tailwind for white space, such as `whitespace-pre-line`, keeps line breaks. Adds none
/// at the start and end of a block or beside another `<br>`, and at most [`MAX_ADDED_BREAKS`].
pub(super) fn show_line_breaks(dom: &mut Dom, root: NodeId) {
    let keeps_breaks = |dom: &Dom, id| {
        let class = dom.classes(id).find_map(|class| class.strip_prefix("whitespace-"));
        let value = dom.style(id, "white-space").or(class)?;
        Some(value.starts_with("pre") || value == "break-spaces")
    };
    let styled = dom.ancestors(root).chain(dom.descendants(root));
    let kept: HashMap<NodeId, bool> = styled.filter_map(|id| Some((id, keeps_breaks(dom, id)?))).collect();
    // Return early: few pages have an element that keeps line breaks.
    if !kept.values().any(|is_kept| *is_kept) {
        return;
    }
    let is_code = |id| matches!(dom.tag(id), Tag::Pre | Tag::Code) || is_code_block(dom, id);
    let is_broken = |id: &NodeId| {
        dom.text(*id).is_some_and(|text| text.contains('\n') && !text.trim().is_empty())
            && dom.ancestors(*id).skip(1).find_map(|a| kept.get(&a)) == Some(&true)
    };
    let texts: Vec<NodeId> = dom.walk(root, is_code).filter(is_broken).collect();
    let mut left = MAX_ADDED_BREAKS;
    for id in texts {
        let is_in_block = dom.parent(id).is_none_or(|parent| dom.tag(parent).is_block());
        let is_edge = |node: Option<NodeId>| {
            node.map_or(is_in_block, |node| dom.tag(node) == Tag::Br || dom.tag(node).is_block())
        };
        let mut text = dom.text(id).unwrap_or_default();
        text = if is_edge(dom.node(id).previous) { text.trim_start() } else { text };
        text = if is_edge(dom.node(id).next) { text.trim_end() } else { text };
        for (at, line) in text.to_owned().splitn(left + 1, '\n').enumerate() {
            if at > 0 {
                left -= 1;
                let line_break = dom.push_element("br", &[]);
                dom.insert_before(id, line_break);
            }
            let line = dom.push_text(line);
            dom.insert_before(id, line);
        }
        dom.detach(id);
    }
}

/// Replaces the text of each counter, which is empty, zero or the number at which it starts, by its final
/// number. Keeps the signs around it, such as `$` and `+`.
pub(super) fn show_final_numbers(dom: &mut Dom, root: NodeId) {
    let counters: Vec<(NodeId, String)> =
        dom.descendants(root).filter_map(|id| find_counter(dom, id, final_number(dom, id)?)).collect();
    for (id, text) in counters {
        if let Some(only) = dom.node(id).first {
            dom.node_mut(only).data = Data::Text(text.into());
        } else {
            let text = dom.push_text(&text);
            dom.append(id, text);
        }
    }
}

/// The number in a `data-` attribute that the element shows in the end if it is a counter. `None` if there is
/// none, and for links, buttons and table cells.
fn final_number(dom: &Dom, id: NodeId) -> Option<&str> {
    if matches!(dom.tag(id), Tag::A | Tag::Button | Tag::Td | Tag::Th) {
        return None;
    }
    let mut attributes = dom.element(id)?.attributes.iter();
    let is_final = |name: &str, value: &str| {
        let Some(name) = name.strip_prefix("data-").filter(|_| is_number(value)) else { return false };
        let has = |words: &[&str]| name.split('-').any(|word| words.contains(&word));
        has(&FINAL_NUMBERS) && !has(&OTHER_NUMBERS)
    };
    attributes.find(|a| is_final(&a.name.local, a.value.trim())).map(|a| a.value.trim())
}

/// The element that shows the number of a counter, and its text with the final number: the counter itself, or
/// an element in it that is named for a value and contains no elements. `None` if the text has a number other
/// than zero or the one from which the element counts, decimals that `value` lacks, or more than three
/// characters before or after the number. An empty element, and one with elements in it, is a counter only if
/// its class says so.
fn find_counter(dom: &Dom, id: NodeId, value: &str) -> Option<(NodeId, String)> {
    let first = FIRST_NUMBERS.iter().find_map(|name| dom.attribute(id, name)).map(str::trim);
    let shown = |place: NodeId| -> Option<&str> {
        let only = dom.node(place).first;
        let is_only = dom.node(place).last == only;
        only.map_or(Some(""), |only| dom.text(only).map(str::trim)).filter(|_| is_only)
    };
    let with_value = |place: NodeId| {
        let shown = shown(place)?;
        let Some(start) = shown.find(|c: char| c.is_ascii_digit()) else {
            return (shown.is_empty() && value.contains(|c| c != '0')).then(|| value.to_owned());
        };
        let end = shown.rfind(|c: char| c.is_ascii_digit())? + 1;
        let (before, number, after) = (&shown[..start], &shown[start..end], &shown[end..]);
        let is_start = !number.contains(|c| matches!(c, '1'..='9')) || Some(shown) == first;
        let is_sign = before.chars().count() <= 3 && after.chars().count() <= 3;
        // If the shown number has decimals and the attribute has none, its value may be in cents.
        let has_decimals = number.rfind(['.', ',']).is_some_and(|at| number.len() - at <= 3);
        let is_like = !has_decimals || value.contains(['.', ',']);
        (is_number(number) && is_start && is_sign && is_like).then(|| format!("{before}{value}{after}"))
    };
    let is_counter = has_word(dom, id, &["count", "counter", "countup", "counterup", "odometer", "chart"]);
    if shown(id).is_some() {
        let is_shown = is_counter || shown(id) != Some("");
        return with_value(id).filter(|_| is_shown).map(|text| (id, text));
    }
    let is_value = |d: &NodeId| has_word(dom, *d, &["count", "counter", "value", "number", "percent"]);
    let mut places = dom.descendants(id).take(COUNTER_NODES).filter(|_| is_counter).filter(is_value);
    places.find_map(|place| Some((place, with_value(place)?)))
}

/// Whether a class of an element has one of the words, or ends one of its words with one of them if that is
/// `counter` or `chart`, as in `purecounter`. A `countdown`, which shows another number each second, has
/// none.
fn has_word(dom: &Dom, id: NodeId, words: &[&str]) -> bool {
    let is_word = |word: &str| {
        let word = word.to_ascii_lowercase();
        let end = ["counter", "chart"].into_iter().find(|end| word.ends_with(end));
        words.contains(&&*word) || end.is_some_and(|end| words.contains(&end))
    };
    let classes = || dom.classes(id).take(20);
    !classes().any(|class| class.contains("countdown"))
        && classes().any(|class| class.split(['-', '_']).any(is_word))
}

/// Writes the date of each `<time>` and each custom element such as `<relative-time>` that has no content: a
/// script writes it in the reader's language. Skips dates that [`written_date`] does not know.
pub(super) fn show_dates(dom: &mut Dom, root: NodeId) {
    let is_date = |name: &str| name == "time" || name.ends_with("-time") || name.ends_with("-date");
    let empty = dom.descendants(root).filter(|&id| {
        is_date(dom.name(id))
            && dom
                .children(id)
                .take(2)
                .all(|child| dom.text(child).is_some_and(|text| text.trim().is_empty()))
    });
    let read = |id| Some((id, written_date(dom.first_attribute(id, &["datetime", "date"])?)?));
    let dates: Vec<(NodeId, String)> = empty.filter_map(read).collect();
    for (id, date) in dates {
        let text = dom.push_text(&date);
        dom.append(id, text);
    }
}

/// Marks the items of Asciidoctor's check lists that begin with a check mark or an empty box as checked or
/// not, and removes this sign. A sign in code is text.
pub(super) fn mark_check_lists(dom: &mut Dom, root: NodeId) {
    let is_item = |id| {
        let list = dom.parent(id).filter(|_| dom.tag(id) == Tag::Li);
        let is_wrapper = |p| dom.has_class(p, "ulist") && dom.has_class(p, "checklist");
        list.and_then(|list| dom.parent(list)).is_some_and(is_wrapper)
    };
    let start = |item| {
        let first = first_text(dom, item)?;
        let is_own = dom.ancestors(first).find(|&a| dom.tag(a) == Tag::Li) == Some(item);
        let is_own = is_own && !dom.is_in(first, &[Tag::Code, Tag::Pre]);
        let text = dom.text(first).filter(|_| is_own)?.trim_start();
        let state = if text.starts_with('✓') { "true" } else { "false" };
        Some((item, state, first, text.strip_prefix(['✓', '❏'])?.trim_start().to_owned()))
    };
    let items: Vec<_> = dom.descendants(root).filter(|&id| is_item(id)).filter_map(start).collect();
    for (item, state, first, rest) in items {
        dom.set_attribute(item, "data-checked", state);
        dom.node_mut(first).data = Data::Text(rest.as_str().into());
    }
}

/// A date and time of the form `2024-02-12T06:20:00.000Z`, as `2024-02-12 06:20 UTC`. Without a time, with a
/// time whose zone [`written_zone`] cannot read, and with midnight in UTC, only the date. `None` if the text
/// does not begin with a date.
fn written_date(datetime: &str) -> Option<String> {
    let date = datetime.get(..10).filter(|date| is_like(date, "0000-00-00"))?;
    let rest = datetime[10..].trim_start_matches(['T', ' ']);
    let time = rest.get(..5).filter(|time| is_like(time, "00:00"));
    Some(match time.zip(time.and_then(|_| written_zone(&rest[5..]))) {
        Some((time, zone)) if time != "00:00" || zone != " UTC" => format!("{date} {time}{zone}"),
        _ => date.to_owned(),
    })
}

/// The zone behind the minutes and optional seconds of a time, such as ` UTC` or ` +02:00`, with a space
/// before it; empty if there is none. An offset may have no colon and no minutes, and a name in brackets may
/// follow, as in `+02:00[Europe/Berlin]`. `None` for other texts, such as ` PM`, without which the time would
/// be wrong.
fn written_zone(after_minutes: &str) -> Option<String> {
    let is_second = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.' | ',');
    let zone = after_minutes.trim_start_matches(is_second).trim();
    if zone.is_empty() {
        return Some(String::new());
    }
    let zone = zone.split_once('[').map_or(zone, |(zone, _)| zone.trim());
    let Some(offset) = zone.strip_prefix(['+', '-']) else {
        return matches!(zone, "Z" | "z" | "UTC" | "GMT").then(|| " UTC".to_owned());
    };
    let forms = ["00:00", "0000", "00"];
    forms.iter().find(|form| is_like(offset, form))?;
    let (hours, minutes) = offset.split_at(2);
    let minutes = minutes.trim_start_matches(':');
    let minutes = if minutes.is_empty() { "00" } else { minutes };
    let is_utc = hours == "00" && minutes == "00";
    Some(if is_utc { " UTC".to_owned() } else { format!(" {}{hours}:{minutes}", &zone[..1]) })
}

/// Whether `text` matches `form`, in which each `0` stands for any digit.
fn is_like(text: &str, form: &str) -> bool {
    let is_alike = |(b, f): (u8, u8)| if f == b'0' { b.is_ascii_digit() } else { b == f };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(is_alike)
}

/// Whether a text is a number of at most 30 bytes: digits, dots and commas, after an optional minus sign.
fn is_number(text: &str) -> bool {
    text.len() <= 30
        && text.contains(|c: char| c.is_ascii_digit())
        && text
            .strip_prefix('-')
            .unwrap_or(text)
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | ','))
}

/// Writes `›` for the separators that Asciidoctor draws with an icon between a menu and its items.
pub(super) fn show_separators_of_menus(dom: &mut Dom, root: NodeId) {
    let is_part = |id| dom.has_class_in(id, &["menu", "submenu", "menuitem"]);
    let is_separator = |&id: &NodeId| {
        dom.tag(id) == Tag::I
            && dom.has_class(id, "caret")
            && dom.previous_element(id).is_some_and(is_part)
            && dom.next_element(id).is_some_and(is_part)
    };
    let separators: Vec<NodeId> = dom.descendants(root).filter(is_separator).collect();
    for id in separators {
        let text = dom.push_text("›");
        dom.insert_before(id, text);
    }
}

/// Omits a value with `aria-hidden` beside the same value for screen readers, such as `$9` and `9 dollars`.
/// The other value is the element before or after it, or the last child of the element before. Adjacent
/// inline elements with `aria-hidden` count as one value, such as both prices of a range, if they have text,
/// but no image and no letters without a digit. Separates the two by a space if they differ and are adjacent.
pub(super) fn merge_spoken_copies(dom: &mut Dom, root: NodeId) {
    let hidden = |id: &NodeId| dom.attribute(*id, "aria-hidden") == Some("true");
    let (mut copies, mut joined) = (Vec::new(), Vec::new());
    let is_space = |node: &NodeId| dom.text(*node).is_some_and(|text| text.trim().is_empty());
    let is_part = |node: &NodeId| {
        let text = short_text(dom, *node);
        let is_image = |d| dom.tag(d) == Tag::Img;
        let is_value = || text.contains(char::is_numeric) || !text.contains(char::is_alphabetic);
        hidden(node)
            && !dom.tag(*node).is_block()
            && !text.trim().is_empty()
            && is_value()
            && !dom.subtree(*node).take(50).any(is_image)
    };
    for id in dom.descendants(root).filter(hidden) {
        let before = dom.previous_element(id);
        let after = dom.nodes_after(id).filter(|node| !is_space(node)).take(MAX_VALUES);
        let run: Vec<NodeId> = std::iter::once(id).chain(after.take_while(is_part)).collect();
        let before_run = dom.nodes_before(id).find(|node| !is_space(node));
        // An element inside a run was read together with the first element of the run.
        let is_inside = is_part(&id) && before_run.is_some_and(|node| is_part(&node));
        let is_run = run.len() > 1 && is_part(&id);
        if is_run && !is_inside {
            let value = run.iter().map(|&id| short_text(dom, id)).collect::<Vec<_>>().join(" ");
            let after = run.last().and_then(|&last| dom.next_element(last));
            let mut spoken = [before, after].into_iter().flatten().filter(|&b| is_for_screen_readers(dom, b));
            if spoken.any(|spoken| is_said_by(&value, &short_text(dom, spoken))) {
                copies.extend(&run);
            }
        }
        if is_run || is_inside {
            continue;
        }
        let inner = before.and_then(|before| dom.child_elements(before).last());
        let beside = [before, inner, dom.next_element(id)];
        let spoken: Vec<NodeId> =
            beside.into_iter().flatten().filter(|&b| is_for_screen_readers(dom, b)).collect();
        let value = short_text(dom, id);
        if spoken.iter().any(|&spoken| is_said_by(&value, &short_text(dom, spoken))) {
            copies.push(id);
            continue;
        }
        for spoken in spoken {
            if dom.node(id).previous == Some(spoken) {
                joined.push(id);
            } else if dom.node(id).next == Some(spoken) {
                joined.push(spoken);
            }
        }
    }
    for id in joined {
        let space = dom.push_text(" ");
        dom.insert_before(id, space);
    }
    for id in copies {
        dom.omit(id, Rule::Copy);
    }
}

/// Maximum number of adjacent elements with `aria-hidden` that are read as one value, besides the first.
const MAX_VALUES: usize = 8;

/// Whether the class of an element says that only screen readers present it.
fn is_for_screen_readers(dom: &Dom, id: NodeId) -> bool {
    dom.has_class_in(id, FOR_SCREEN_READERS) || dom.has_class(id, "a-offscreen")
}

/// The text of the first 50 nodes of an element. A price or another number has fewer; large elements would
/// take long to compare.
fn short_text(dom: &Dom, id: NodeId) -> String {
    dom.first_text(id, 50)
}

/// Whether `spoken` says `value`: it is the same text, ignoring case and white space at the ends, or it has
/// the digits of `value` in whole numbers that follow each other, as in "49 dollars and 99 cents", and
/// contains its words of more than three letters. A `value` without digits or of more than 100 bytes must be
/// the same text.
fn is_said_by(value: &str, spoken: &str) -> bool {
    let own: String = value.chars().filter(char::is_ascii_digit).collect();
    let numbers: Vec<&str> =
        spoken.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty()).collect();
    let is_said = |first: usize| {
        let rest = numbers[first..].iter().try_fold(&*own, |rest, number| match rest {
            "" => Some(""),
            rest => rest.strip_prefix(number),
        });
        rest == Some("")
    };
    let (value, spoken) = (value.to_lowercase(), spoken.to_lowercase());
    if !value.trim().is_empty() && value.trim() == spoken.trim() {
        return true;
    }
    let mut words = value.split(|c: char| !c.is_alphabetic()).filter(|word| word.chars().count() > 3);
    !own.is_empty()
        && value.len() <= 100
        && (0..numbers.len()).any(is_said)
        && words.all(|word| spoken.contains(word))
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    fn line_breaks_that_a_style_keeps_are_shown() {
        for (html, expected) in [
            ("<p style='white-space: pre-line'>\n a\n b <b>c</b>\nd\n</p>", "a  \nb **c**  \nd\n"),
            ("<div class=whitespace-pre-wrap>a\nb\n\nc</div>", "a  \nb\n\nc\n"),
            ("<p style='white-space:pre-line'>a<b>\nb\n</b>c <i>d\n</i>e", "a  \n**b**  \nc *d*  \ne\n"),
            ("<p><span class=whitespace-pre>a\n</span><span class=whitespace-pre>b\n</span>", "a  \nb\n"),
            ("<div class=whitespace-pre-line>\n<p>a<br>\nb</p>\n</div>", "a  \nb\n"),
            ("<div class=whitespace-pre-line><p class=whitespace-normal>a\nb</div>", "a b\n"),
            ("<p class=whitespace-nowrap>a\nb <code class=whitespace-pre>c\nd</code>", "a b `c d`\n"),
            ("<div style=white-space:pre-wrap><pre>a\nb</pre></div>", "```\na\nb\n```\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn check_lists_of_asciidoctor_are_task_lists() {
        let list = "<li><p>&#10003; a</p><li><p>&#10063; <b>b</b></p><li><p>c</p><li><p><code>✓ d</code></p>";
        let tasks = "- [x] a\n\n- [ ] **b**\n\n- c\n\n- `✓ d`\n";
        assert_eq!(
            markdown(&format!("<div class='ulist checklist'><ul class=checklist>{list}</ul></div>")),
            tasks
        );
        assert_eq!(
            markdown(&format!("<ul class=checklist>{list}</ul>")),
            "- ✓ a\n\n- ❏ **b**\n\n- c\n\n- `✓ d`\n"
        );
    }

    #[test]
    fn menus_of_asciidoctor_have_separators() {
        let caret = "&#160;<i class='fa fa-angle-right caret'></i> ";
        let html = format!("<p><b class=menu>File</b>{caret}<b class=menuitem>Save</b>, a{caret}b");
        assert_eq!(markdown(&html), "**File**\u{a0}› **Save**, a\u{a0} b\n");
    }

    #[test]
    fn counters_show_their_final_number() {
        for (html, expected) in [
            ("<p><span data-to-value=350 data-from-value=0>0</span>+ boats", "350+ boats\n"),
            ("<div data-count=1,250> 0 </div>", "1,250\n"),
            ("<p><b data-from=10 data-to=90>10</b>%", "**90**%\n"),
            ("<p><span data-count=3>7</span> likes", "7 likes\n"),
            ("<p><span data-target='#menu'>0</span>", "0\n"),
            ("<p><span data-count=5><b>0</b> of 5</span>", "**0** of 5\n"),
            ("<p><b data-countup-number=120>0+</b> <b data-val=9.9>$0</b>", "**120+** **$9.9**\n"),
            ("<p><span class=odometer data-count=350></span> boats", "350 boats\n"),
            (
                "<div class=number-counter data-number-value=85><p><b class=percent-value></b><b class=sign>%</b></p></div>",
                "**85%**\n",
            ),
            (
                "<div class=pie-chart data-pie-value=75><b class=chart-value></b><h3>a</h3></div>",
                "**75**\n\n### a\n",
            ),
            // These numbers are not those of a counter.
            ("<div data-slide-to=2></div><p data-to=9></p>b", "b\n"),
            (
                "<p><b data-count-speed=20>0</b> <b data-max=9>0</b> <b data-count=5>0 of 9</b>",
                "**0** **0** **0 of 9**\n",
            ),
            ("<p><span class=cart-count data-count=0></span>a", "a\n"),
            ("<div class=countdown data-end=1767225600></div>a", "a\n"),
            ("<p class=countdown data-end=1767225600><b class=countdown-number>00</b> days", "**00** days\n"),
            ("<p>a <span class=discount data-value=20></span><b class=account data-value=9></b>", "a\n"),
            ("<p>$<span data-value=1999>0.00</span>", "$0.00\n"),
            ("<p>$<span data-value=19.99>0.00</span>", "$19.99\n"),
            ("<p><span class=purecounter data-purecounter-end=9></span> boats", "9 boats\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn dates_that_a_script_writes_are_in_the_text() {
        for (html, expected) in [
            (
                "<p>Updated: <time datetime=2024-02-12T06:20:00.000Z></time>",
                "Updated: 2024-02-12 06:20 UTC\n",
            ),
            ("<p>On <relative-time datetime=2024-05-01T00:00:00Z> </relative-time>", "On 2024-05-01\n"),
            (
                "<p><x-format-date date=2020-07-15T09:17:00-04:00></x-format-date>",
                "2020-07-15 09:17 -04:00\n",
            ),
            ("<p><time datetime='2024-05-01 18:00'></time>", "2024-05-01 18:00\n"),
            ("<p><time datetime='2024-05-01 18:00:00 +0200'></time>", "2024-05-01 18:00 +02:00\n"),
            ("<p><time datetime=2024-05-01T18:00-0330></time>", "2024-05-01 18:00 -03:30\n"),
            ("<p><time datetime=2024-05-01T18:00:00,5-03></time>", "2024-05-01 18:00 -03:00\n"),
            ("<p><time datetime='2024-05-01 18:00:00 UTC'></time>", "2024-05-01 18:00 UTC\n"),
            ("<p><time datetime=2024-05-01T18:00+00:00></time>", "2024-05-01 18:00 UTC\n"),
            ("<p><time datetime=2024-05-01T00:00:00+0000></time>", "2024-05-01\n"),
            ("<p><time datetime=2024-05-01T18:00z></time>", "2024-05-01 18:00 UTC\n"),
            (
                "<p><time datetime=2024-05-01T18:00:00+02:00[Europe/Berlin]></time>",
                "2024-05-01 18:00 +02:00\n",
            ),
            ("<p><time datetime=2024-05-01T18:00Z[UTC][u-ca=iso8601]></time>", "2024-05-01 18:00 UTC\n"),
            // A time without its zone would be wrong.
            ("<p><time datetime=2024-05-01T18:00[Europe/Berlin]></time>", "2024-05-01\n"),
            ("<p><time datetime='2024-05-01 18:00 Europe/Berlin'></time>", "2024-05-01\n"),
            ("<p><time datetime='2024-05-01 06:00 PM'></time>", "2024-05-01\n"),
            ("<p><time datetime=2024-05-01T18:00+2></time>", "2024-05-01\n"),
            ("<p><time datetime=2024-05-01T18:00+é></time>", "2024-05-01\n"),
            ("<p><time datetime=2024-05-01></time>", "2024-05-01\n"),
            ("<p><time datetime=2024-05-01>May</time>", "May\n"),
            ("<p>a<time datetime=PT2H></time><time></time><time datetime=2024-05-0é></time>", "a\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn values_for_screen_readers_replace_their_copies() {
        let (shown, spoken) = ("span aria-hidden=true", "span class=sr-only");
        for (html, expected) in [
            (format!("<p>Oak: <{shown}>$9</span><{spoken}>9 dollars</span>"), "Oak: 9 dollars\n"),
            (
                format!(
                    "<p><{shown}>$10</span> <{shown}>–</span> <{shown}>$30</span><{spoken}>Range: $10 to $30</span>"
                ),
                "Range: $10 to $30\n",
            ),
            (
                format!(
                    "<p><{spoken}>5 out of 10</span><{shown}>5</span><{shown}>/</span><{shown}>10</span>"
                ),
                "5 out of 10\n",
            ),
            (
                format!(
                    "<div aria-hidden=true>€ 303</div><div aria-hidden=true>/mo for 12</div><{spoken}>each month for 12</span>"
                ),
                "€ 303\n\neach month for 12\n",
            ),
            (
                format!("<p><{shown}>$10</span> <{shown}>$30</span><{spoken}>From $10</span>"),
                "$10 $30 From $10\n",
            ),
            (
                format!(
                    "<p><{spoken}>$49.99</span><{shown}><span>$</span><span>49</span><sup>99</sup></span>"
                ),
                "$49.99\n",
            ),
            (format!("<p><{shown}>Sale: $9</span><{spoken}>9 dollars</span>"), "Sale: $9 9 dollars\n"),
            (format!("<p><{shown}>$9</span><{spoken}>8 dollars</span>"), "$9 8 dollars\n"),
            (format!("<p><{shown}>4</span><{spoken}>24 reviews</span>"), "4 24 reviews\n"),
            (format!("<p><{shown}>4.5</span><{spoken}>Rated 4.5 of 5</span>"), "Rated 4.5 of 5\n"),
            (
                format!(
                    "<p><{shown}>$9</span> <{spoken}>Was $9.</span><{shown}>$7</span><{spoken}>Now $7.</span>"
                ),
                "Was $9. Now $7.\n",
            ),
            (format!("<p><b>15<{spoken}> min</span></b> <{shown}>min</span>"), "**15 min**\n"),
            (format!("<p><{shown}>Oak</span> <{spoken}>Elm</span>"), "Oak Elm\n"),
            (
                format!("<p><{shown}>Sale</span> <{shown}>$9</span><{spoken}>9 dollars</span>"),
                "Sale 9 dollars\n",
            ),
            (
                format!(
                    "<p><img aria-hidden=true src=/oak.jpg alt=Oak><{shown}>$9</span><{spoken}>9 dollars</span>"
                ),
                "![Oak](/oak.jpg) 9 dollars\n",
            ),
            (
                format!(
                    "<p><i class=material-icons aria-hidden=true>star</i><{shown}>$4.5</span><{spoken}>4.5 dollars</span>"
                ),
                "4.5 dollars\n",
            ),
        ] {
            assert_eq!(markdown(&html), expected, "{html}");
        }
    }
}
