//! Corrects texts that differ from what visitors see: counters that a script counts up, and values that a
//! page has twice, for the screen and for screen readers.

use super::documentation_markup::FOR_SCREEN_READERS;
use super::dom::{Data, Dom, NodeId, collapse};
use super::omission_rule::Rule;

/// Attributes with the number that a counter shows in the end.
#[rustfmt::skip]
const FINAL_NUMBERS: [&str; 9] = [
    "data-to-value", "data-count", "data-target", "data-to", "data-end", "data-number", "data-count-to", "data-end-value",
    "data-purecounter-end",
];

/// Attributes with the number from which a counter counts.
const FIRST_NUMBERS: [&str; 5] =
    ["data-from-value", "data-from", "data-start", "data-start-value", "data-purecounter-start"];

/// Replaces the text of each counter, which is zero or the number at which it starts, by its final number.
pub(super) fn show_final_numbers(dom: &mut Dom, root: NodeId) {
    let counters: Vec<(NodeId, String)> = dom
        .descendants(root)
        .filter_map(|id| {
            let value = FINAL_NUMBERS.iter().find_map(|name| dom.attribute(id, name))?.trim();
            let text = dom.node(id).first.filter(|&only| dom.node(id).last == Some(only))?;
            let shown = dom.text(text)?.trim();
            let is_first =
                || FIRST_NUMBERS.iter().any(|name| dom.attribute(id, name).map(str::trim) == Some(shown));
            let is_start = is_number(shown) && (!shown.contains(|c| matches!(c, '1'..='9')) || is_first());
            (is_start && is_number(value)).then(|| (text, value.to_owned()))
        })
        .collect();
    for (text, value) in counters {
        dom.node_mut(text).data = Data::Text(value.into());
    }
}

/// Whether a text is a number of at most 30 characters.
fn is_number(text: &str) -> bool {
    text.len() <= 30
        && text.contains(|c: char| c.is_ascii_digit())
        && text
            .strip_prefix('-')
            .unwrap_or(text)
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | ','))
}

/// Omits a value with `aria-hidden` beside the same value for screen readers, such as `$9` beside
/// `9 dollars`. Separates the two by a space if they differ.
pub(super) fn merge_spoken_copies(dom: &mut Dom, root: NodeId) {
    let hidden = |id: &NodeId| dom.attribute(*id, "aria-hidden") == Some("true");
    let (mut copies, mut joined) = (Vec::new(), Vec::new());
    for id in dom.descendants(root).filter(hidden) {
        let beside = [dom.previous_element(id), dom.next_element(id)];
        let spoken = beside.into_iter().flatten().find(|&beside| is_spoken(dom, beside));
        let Some(spoken) = spoken else { continue };
        if is_said_by(&short_text(dom, id), &short_text(dom, spoken)) {
            copies.push(id);
        } else if dom.node(id).previous == Some(spoken) {
            joined.push(id);
        } else if dom.node(id).next == Some(spoken) {
            joined.push(spoken);
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

/// Whether the class of an element says that only screen readers present it.
fn is_spoken(dom: &Dom, id: NodeId) -> bool {
    dom.has_class_in(id, FOR_SCREEN_READERS) || dom.has_class(id, "a-offscreen")
}

/// The text of the first nodes of an element, which suffices for a value and bounds the time.
fn short_text(dom: &Dom, id: NodeId) -> String {
    let texts: String = dom.subtree(id).take(50).filter_map(|d| dom.text(d)).collect();
    collapse(&texts)
}

/// Whether `spoken` has the digits of `value` in whole numbers that follow each other, as in "49 dollars and
/// 99 cents", and its words, except for short ones such as abbreviations.
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
    fn counters_show_their_final_number() {
        for (html, expected) in [
            ("<p><span data-to-value=350 data-from-value=0>0</span>+ boats", "350+ boats\n"),
            ("<div data-count=1,250> 0 </div>", "1,250\n"),
            ("<p><b data-from=10 data-to=90>10</b>%", "**90**%\n"),
            ("<p><span data-count=3>7</span> likes", "7 likes\n"),
            ("<p><span data-target='#menu'>0</span>", "0\n"),
            ("<p><span data-count=5><b>0</b> of 5</span>", "**0** of 5\n"),
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
                    "<p><{spoken}>$49.99</span><{shown}><span>$</span><span>49</span><sup>99</sup></span>"
                ),
                "$49.99\n",
            ),
            (format!("<p><{shown}>Sale: $9</span><{spoken}>9 dollars</span>"), "Sale: $9 9 dollars\n"),
            (format!("<p><{shown}>$9</span><{spoken}>8 dollars</span>"), "$9 8 dollars\n"),
            (format!("<p><{shown}>4</span><{spoken}>24 reviews</span>"), "4 24 reviews\n"),
            (format!("<p><{shown}>4.5</span><{spoken}>Rated 4.5 of 5</span>"), "Rated 4.5 of 5\n"),
            (format!("<p><{shown}>Oak</span> <{spoken}>Elm</span>"), "Oak Elm\n"),
        ] {
            assert_eq!(markdown(&html), expected, "{html}");
        }
    }
}
