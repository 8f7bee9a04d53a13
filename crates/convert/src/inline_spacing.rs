//! Decides where the layout of a page separates inline content without white space between it in the HTML.

use super::dom::{Dom, FOR_SCREEN_READERS, NodeId, Tag, collapse, is_block_display};

/// The values of `display` of flex and grid containers, which lay out each child and text as an item.
const CONTAINERS: [&str; 4] = ["flex", "grid", "inline-flex", "inline-grid"];

/// Whether a style or a utility class of Tailwind or Bootstrap makes an inline element a block, at any width
/// of the screen. An element that floats is none, because a drop cap continues the word after it.
pub(super) fn is_laid_out_as_block(dom: &Dom, id: NodeId) -> bool {
    displays(dom, id).any(is_block_display) && !is_floating(dom, id)
}

fn is_floating(dom: &Dom, id: NodeId) -> bool {
    dom.style(id, "float").is_some() || dom.classes(id).any(|class| class.starts_with("float-"))
}

/// Whether a utility class of Tailwind or Bootstrap, such as `mr-2`, sets a margin between two texts. Not
/// before closing or after opening punctuation, nor at subscripts and superscripts.
fn has_margin_between(dom: &Dom, before: NodeId, id: NodeId) -> bool {
    let has_margin = |id, sides: [&str; 3]| {
        dom.classes(id).any(|class| {
            let class = class.rsplit(':').next().unwrap_or_default();
            let size = class.split_once('-').filter(|(side, _)| sides.contains(side)).map(|(_, size)| size);
            size.is_some_and(|size| size.starts_with(|c| matches!(c, '1'..='9')))
        })
    };
    let is_script = |id| matches!(dom.tag(id), Tag::Sub | Tag::Sup);
    edge(dom, before, false).is_some_and(|c| !"([“‘«„".contains(c))
        && edge(dom, id, true).is_some_and(|c| !".,;:!?)]'’”»…。，、".contains(c))
        && !is_script(before)
        && !is_script(id)
        && !is_floating(dom, before)
        && (has_margin(before, ["mr", "me", "mx"]) || has_margin(id, ["ml", "ms", "mx"]))
}

/// Whether an element is a flex or grid container, which lays out each child and text separately.
fn is_container(dom: &Dom, id: NodeId) -> bool {
    displays(dom, id).any(|display| CONTAINERS.contains(&display))
}

/// The `display` in the style of an element, and all of its classes, without prefixes: `md:flex` and `d-flex`
/// become `flex`.
fn displays(dom: &Dom, id: NodeId) -> impl Iterator<Item = &str> {
    let classes = dom.classes(id).map(|class| {
        let class = class.rsplit(':').next().unwrap_or_default();
        class.strip_prefix("d-").unwrap_or(class)
    });
    dom.style(id, "display").into_iter().chain(classes)
}

/// Whether the page's layout separates a node from the one before it, although the HTML has no white space
/// between them. Parts of a price, a signature or a word are not separate. Ignores form fields between the
/// two nodes. Words are separate at a `<time>`, a tooltip and a text for screen readers, and before a link in
/// brackets, where a price, a number or a badge meets other text ([`is_price_after`], [`is_number_of_name`],
/// [`is_badge_beside`]), and at a margin ([`has_margin_between`]). Elsewhere, a text and an element are
/// separate only in a flex or grid container, or if the element is a title before the text (`is_lead`). For
/// two elements, their kinds, classes and texts and the kind of their parent also decide.
pub(super) fn needs_space_before(dom: &Dom, id: NodeId) -> bool {
    let Some(before) = before_without_fields(dom, id) else { return false };
    let Some(parent) = dom.parent(id) else { return false };
    let is_space = |c: Option<char>| c.is_some_and(char::is_whitespace);
    if is_space(edge(dom, before, false)) || is_space(edge(dom, id, true)) {
        return false;
    }
    if is_spoken_apart(dom, before, id) || is_tooltip(dom, id) && joins_words(dom, before, id) {
        return !is_one_word(dom, before, id);
    }
    if (dom.tag(id) == Tag::Time || dom.tag(before) == Tag::Time) && joins_words(dom, before, id) {
        return !is_one_word(dom, before, id);
    }
    if is_bracketed_link(dom, id) {
        return edge(dom, before, false).is_some_and(|end| end.is_alphanumeric() || end == ')');
    }
    if is_price_after(dom, before, id)
        || is_number_of_name(dom, parent, before, id)
        || has_margin_between(dom, before, id) && !is_one_word(dom, before, id)
    {
        return true;
    }
    if dom.text(id).is_some() {
        // A single letter before a text may be a drop cap, the first letter of the text's first word.
        let is_initial = || dom.text_content(before).trim().chars().nth(1).is_none();
        return dom.element(before).is_some()
            && (is_container(dom, parent) || is_lead(dom, before, id))
            && joins_words(dom, before, id)
            && !is_initial()
            && !is_one_word(dom, before, id);
    }
    if dom.text(before).is_some() {
        return is_badge_beside(dom, before, id)
            || is_container(dom, parent) && !is_one_word(dom, before, id);
    }
    if is_marked_as_part(dom, id) && is_marked_as_part(dom, before) {
        return true;
    }
    let is_link = |id| dom.tag(id) == Tag::A && dom.has_attribute(id, "href");
    let has_class = |id| dom.has_attribute(id, "class");
    let are_items = is_item(dom, id) && is_item(dom, before);
    let are_parts = are_items && has_class(id) && has_class(before) || is_link(id) && is_link(before);
    if (dom.tag(before), dom.tag(id)) == (Tag::Code, Tag::Code) {
        return are_separate_codes(dom, parent, before, id);
    }
    let are_labels = dom.tag(id) == Tag::Label && dom.tag(before) == Tag::Label;
    let are_words = || {
        are_parts && holds_items(dom, parent)
            || is_custom(dom, before) && is_custom(dom, id)
            || are_items && (are_named_apart(dom, before, id) || has_unlike_ends(dom, parent, before, id))
            || are_phrases(dom, before, id)
            || are_items && is_badge_beside(dom, before, id)
            || are_date_parts(dom, before, id)
            || are_name_and_value(dom, parent, before, id)
            || dom.tag(before) == Tag::Code && is_item(dom, id) && is_badge(dom, id)
    };
    let is_separate = is_container(dom, parent)
        || are_labels
        || are_parts && is_layout(dom, parent)
        || joins_words(dom, before, id) && are_words();
    is_separate && !is_one_word(dom, before, id) && !is_in_address(dom, before, id)
}

/// Whether one of two adjacent nodes is text for screen readers, by its class, which must not be joined to
/// the other. False if neither has a letter or digit where they meet, nor the first one a colon, and for
/// letters of scripts without spaces, such as Chinese. Also false if the text is a part of the word or number
/// beside it, such as `day` after `Mon` and the comma in a price, or a sign such as `+`.
fn is_spoken_apart(dom: &Dom, before: NodeId, id: NodeId) -> bool {
    let is_name = |class: &str| {
        !class.ends_with("not-sr-only") && FOR_SCREEN_READERS.iter().any(|name| class.ends_with(name))
    };
    let is_for_screen_readers = |id| dom.classes(id).any(is_name);
    let (end, start) = (edge(dom, before, false), edge(dom, id, true));
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && c < '\u{2e80}');
    // Whether `id`, a node for screen readers, continues the word at the end of `before`.
    let continues = |before: NodeId, id: NodeId| {
        edge(dom, before, false).is_some_and(char::is_alphabetic)
            && edge(dom, id, true).is_some_and(char::is_lowercase)
            && !short_text(dom, id).trim().contains(' ')
    };
    let is_part = || {
        let separates = matches!(short_text(dom, before).trim(), "," | ":" | "." | "/" | "-");
        separates && start.is_some_and(|c| c.is_ascii_digit())
            || before_without_fields(dom, before).is_some_and(|earlier| continues(earlier, before))
    };
    let is_sign = |id| {
        is_for_screen_readers(id)
            && matches!(short_text(dom, id).trim(), "/" | "+" | "=" | "−" | "×" | "÷" | "–" | "~")
    };
    (is_word(end) || is_word(start) || end == Some(':'))
        && !is_sign(before)
        && !is_sign(id)
        && (is_for_screen_readers(before) && !is_part()
            || is_for_screen_readers(id) && !continues(before, id))
}

/// Whether an element is a popup that explains the word before it.
fn is_tooltip(dom: &Dom, id: NodeId) -> bool {
    let is_name = |class: &str| class.contains("tooltip") && !class.contains("has-tooltip");
    dom.attribute(id, "role") == Some("tooltip") || dom.classes(id).any(is_name)
}

/// Whether an element is a link with a word of at least three letters in brackets, such as `[source]` after a
/// signature in Sphinx. Shorter ones, such as `[a]` and `[iv]`, are often notes.
fn is_bracketed_link(dom: &Dom, id: NodeId) -> bool {
    if dom.tag(id) != Tag::A || !dom.has_attribute(id, "href") {
        return false;
    }
    let text = short_text(dom, id);
    let word = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    word.is_some_and(|word| word.chars().count() > 2 && word.chars().all(char::is_alphabetic))
}

/// Whether an element is the title or the mark at the start of a block, and the text after it begins another
/// phrase with a capital: the element has a class, ends with a lower-case letter, and has several words or is
/// a mark such as a badge.
fn is_lead(dom: &Dom, id: NodeId, text: NodeId) -> bool {
    let is_first = || dom.nodes_before(id).take(4).all(|node| dom.is_blank(node));
    dom.has_attribute(id, "class")
        && edge(dom, id, false).is_some_and(char::is_lowercase)
        && edge(dom, text, true).is_some_and(char::is_uppercase)
        && (short_text(dom, id).trim().contains(' ') || is_badge(dom, id))
        && dom.parent(id).is_some_and(|parent| dom.tag(parent).is_block())
        && is_first()
}

/// Whether two adjacent spans are phrases of several words, in an element without other text. The second
/// phrase must begin with a capital or a digit.
fn are_phrases(dom: &Dom, before: NodeId, id: NodeId) -> bool {
    let is_phrase = |id| dom.tag(id) == Tag::Span && short_text(dom, id).trim().contains(' ');
    let is_text = |node: NodeId| dom.text(node).is_some_and(|text| !text.trim().is_empty());
    is_phrase(before)
        && is_phrase(id)
        && edge(dom, id, true).is_some_and(|c| c.is_uppercase() || c.is_ascii_digit())
        && !dom.nodes_before(before).take(4).chain(dom.nodes_after(id).take(4)).any(is_text)
}

/// Whether two adjacent code spans are separate. They are if their classes differ, unless punctuation joins
/// them to one signature or path, such as `os.path.` and `join`. They also are if the first ends and the
/// second begins with a letter or digit; in prose, the second must begin with a capital.
fn are_separate_codes(dom: &Dom, parent: NodeId, before: NodeId, id: NodeId) -> bool {
    let classes = [before, id].map(|id| dom.attribute(id, "class"));
    let is_upper = || edge(dom, id, true).is_some_and(char::is_uppercase);
    let is_prose = || !is_container(dom, parent) && !is_layout(dom, parent) && !holds_items(dom, parent);
    let is_continued = || {
        edge(dom, before, false).is_some_and(|end| matches!(end, '.' | ':' | '('))
            || edge(dom, id, true).is_some_and(|start| matches!(start, '(' | '.' | '<'))
    };
    classes[0] != classes[1] && classes.iter().all(Option::is_some) && !is_continued()
        || joins_words(dom, before, id) && (is_upper() || !is_prose())
}

/// Whether an element is an amount such as `$9`, after a digit or a lower-case letter. Capitals before it may
/// name the currency, as in `US$9`.
fn is_price_after(dom: &Dom, before: NodeId, id: NodeId) -> bool {
    (is_item(dom, id) || matches!(dom.tag(id), Tag::Del | Tag::Ins | Tag::S))
        && edge(dom, id, true).is_some_and(|start| "$€£¥".contains(start))
        && edge(dom, before, false).is_some_and(|end| end.is_ascii_digit() || end.is_lowercase())
        && short_text(dom, id).chars().nth(1).is_some_and(|c| c.is_ascii_digit())
}

/// Whether a number at the start of a block or `<time>` is followed by a name or a sentence with a capital,
/// and one of the two is an element: a number such as `14` before `June` in a heading, a `<time>` or a
/// layout, or the number of a section or a clause, such as `1.2` or `(1)`, before an element, if both have a
/// class.
fn is_number_of_name(dom: &Dom, parent: NodeId, before: NodeId, id: NodeId) -> bool {
    let ends_number = |end: char| end.is_ascii_digit() || matches!(end, ')' | '.');
    // A raised number before a name may be the mass number of an isotope.
    if matches!(dom.tag(before), Tag::Sup | Tag::Sub)
        || !edge(dom, before, false).is_some_and(ends_number)
        || !edge(dom, id, true).is_some_and(char::is_uppercase)
        || !dom.nodes_before(before).take(4).all(|node| dom.is_blank(node))
    {
        return false;
    }
    let (number, name) = (short_text(dom, before), short_text(dom, id));
    let number = number.trim();
    let digits = number.trim_start_matches('(').trim_end_matches([')', '.']);
    let is_numeric = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let is_title = || dom.tag(parent) == Tag::Time || dom.is_heading(parent);
    let have_classes = || [before, id].iter().all(|&id| dom.has_attribute(id, "class"));
    let is_clause = || digits.split('.').all(is_numeric) && dom.tag(parent).is_block() && have_classes();
    let is_apart = if is_numeric(number) {
        is_title() || is_layout(dom, parent) || holds_items(dom, parent)
    } else {
        is_clause()
    };
    // A single letter, or several capitals, may be a unit or a part of a name, as in 3D.
    let is_name = |second: char| second.is_lowercase() || second.is_whitespace();
    is_apart && name.chars().nth(1).is_some_and(is_name) && name.chars().nth(2).is_some()
}

/// Whether one of two adjacent nodes is a badge, and a capital begins the second after a lower-case letter or
/// a digit.
fn is_badge_beside(dom: &Dom, before: NodeId, id: NodeId) -> bool {
    edge(dom, before, false).is_some_and(|end| end.is_lowercase() || end.is_ascii_digit())
        && edge(dom, id, true).is_some_and(char::is_uppercase)
        && (is_badge(dom, before) || is_badge(dom, id))
}

/// Whether the classes of two adjacent elements name different parts of a date, such as its day and month.
fn are_date_parts(dom: &Dom, before: NodeId, id: NodeId) -> bool {
    let part = |id| {
        let is_named = |part: &&str| dom.classes(id).any(|class| class.contains(*part));
        ["day", "month", "year"].into_iter().find(is_named)
    };
    part(id).is_some_and(|own| part(before).is_some_and(|other| own != other))
}

/// Whether two adjacent spans are all of a list item or another layout, and are a word and a value that
/// begins with a digit, as in opening hours. A single digit may be a part of a name.
fn are_name_and_value(dom: &Dom, parent: NodeId, before: NodeId, id: NodeId) -> bool {
    let is_other = |node: NodeId| node != before && node != id && !dom.is_blank(node);
    [before, id].iter().all(|&span| dom.tag(span) == Tag::Span)
        && is_layout(dom, parent)
        && edge(dom, before, false).is_some_and(char::is_lowercase)
        && edge(dom, id, true).is_some_and(|start| start.is_ascii_digit())
        && [before, id].iter().all(|&span| short_text(dom, span).chars().nth(1).is_some())
        && !dom.children(parent).any(is_other)
}

/// The text or element before a node; skips the form fields between the two, which are not written. `None` if
/// the node is neither a text nor an element, or if the four nodes before it have none.
fn before_without_fields(dom: &Dom, id: NodeId) -> Option<NodeId> {
    let is_field = |node| matches!(dom.tag(node), Tag::Input | Tag::Select | Tag::Textarea);
    let is_content = |node| dom.text(node).is_some() || dom.element(node).is_some();
    dom.nodes_before(id).take(4).find(|&node| is_content(node) && !is_field(node)).filter(|_| is_content(id))
}

/// Whether the `role` or a class marks an element as a row or a cell of a table, or the `role` as an item of
/// a list.
fn is_marked_as_part(dom: &Dom, id: NodeId) -> bool {
    const CLASSES: [&str; 5] = ["td", "th", "tr", "cell", "row"];
    let role = dom.attribute(id, "role");
    matches!(role, Some("cell" | "gridcell" | "columnheader" | "rowheader" | "listitem" | "row"))
        || dom.classes(id).any(|class| class.split(['-', '_']).any(|part| CLASSES.contains(&part)))
}

/// Whether an element may be one of several values, labels or links in a row.
fn is_item(dom: &Dom, id: NodeId) -> bool {
    use Tag::{A, B, Em, I, Label, Small, Span, Strong, Time};
    matches!(dom.tag(id), A | B | Em | I | Label | Small | Span | Strong | Time)
}

/// Whether an element usually arranges its children by layout, such as a `<div>`: adjacent inline elements in
/// it may be separate words even without a space between them.
fn is_layout(dom: &Dom, id: NodeId) -> bool {
    use Tag::{A, Article, Button, Div, Figcaption, Footer, Header, Label, Li, Section};
    matches!(dom.tag(id), Article | Button | Div | Figcaption | Footer | Header | Label | Li | Section)
        || dom.tag(id) == A && dom.has_attribute(id, "class")
}

/// Whether adjacent words in an element are separate if each has a class of its own: in a cell, an
/// explanation or another block without prose.
fn holds_items(dom: &Dom, id: NodeId) -> bool {
    use Tag::{Address, Aside, Caption, Dd, Fieldset, Form, Legend, Main, Nav, Summary, Td, Th};
    matches!(
        dom.tag(id),
        Address | Aside | Caption | Dd | Fieldset | Form | Legend | Main | Nav | Summary | Td | Th
    )
}

/// Whether an element is a web component.
fn is_custom(dom: &Dom, id: NodeId) -> bool {
    dom.tag(id) == Tag::Other && dom.name(id).contains('-')
}

/// Whether the classes of two adjacent elements say that they are separate, in a paragraph, a heading or
/// another element with prose: both are marks of one kind, or they have different classes, and one of them is
/// a mark or has several words. In the latter case, the second must begin with a capital or a digit.
fn are_named_apart(dom: &Dom, before: NodeId, id: NodeId) -> bool {
    let (class, other) = (dom.attribute(id, "class"), dom.attribute(before, "class"));
    if class.is_none() || other.is_none() {
        return false;
    }
    if class == other {
        return is_badge(dom, id);
    }
    let has_words = |id| short_text(dom, id).contains(' ');
    let is_start = edge(dom, id, true).is_some_and(|c| c.is_uppercase() || c.is_ascii_digit());
    is_badge(dom, id) || is_badge(dom, before) || is_start && (has_words(id) || has_words(before))
}

/// Whether a class says that an element is a short mark, such as a badge, a tag or a status.
fn is_badge(dom: &Dom, id: NodeId) -> bool {
    const BADGE_CLASSES: [&str; 7] = ["label", "badge", "tag", "chip", "pill", "status", "type"];
    let ends =
        |class: &str| class.split(['-', '_']).any(|part| BADGE_CLASSES.iter().any(|m| part.ends_with(m)));
    dom.classes(id).any(ends)
}

/// Whether two adjacent elements with different tags are two words, judging by the characters that meet: the
/// first ends in a digit, and the second begins with a capital or at least three letters; or the first has
/// several characters and does not end in a capital, and the second begins with one; or the first does not
/// end in a digit, and the second is a `<time>` that begins with one. False if there is text beside them or
/// at an end of their parent, and if the parent is not a layout ([`is_layout`], [`holds_items`]).
fn has_unlike_ends(dom: &Dom, parent: NodeId, before: NodeId, id: NodeId) -> bool {
    let is_text = |node: Option<NodeId>| {
        node.and_then(|node| dom.text(node)).is_some_and(|text| !text.trim().is_empty())
    };
    // Text beside the two elements means that their parent contains prose.
    let in_prose = || {
        is_text(dom.node(before).previous)
            || is_text(dom.node(id).next)
            || is_text(dom.node(parent).first)
            || is_text(dom.node(parent).last)
    };
    if !is_layout(dom, parent) && !holds_items(dom, parent) || dom.tag(id) == dom.tag(before) || in_prose() {
        return false;
    }
    let (Some(end), Some(start)) = (edge(dom, before, false), edge(dom, id, true)) else { return false };
    let letters = |id| short_text(dom, id).chars().take_while(|c| c.is_alphabetic()).count();
    match (end.is_ascii_digit(), start.is_uppercase()) {
        (true, is_upper) => is_upper || letters(id) > 2,
        // A single letter before a capital is a part of a name, such as the `i` of iPhone.
        (false, true) => !end.is_uppercase() && short_text(dom, before).chars().nth(1).is_some(),
        (false, false) => start.is_ascii_digit() && dom.tag(id) == Tag::Time,
    }
}

/// The text of the first 20 nodes of an element, which is enough to tell a word from a phrase.
fn short_text(dom: &Dom, id: NodeId) -> String {
    dom.first_text(id, 20)
}

/// Whether letters or digits meet where two nodes are adjacent. Not if both are Chinese or Japanese, which
/// have no spaces between words.
fn joins_words(dom: &Dom, before: NodeId, id: NodeId) -> bool {
    let is_spaceless = |c: char| ('\u{2e80}'..='\u{9fff}').contains(&c);
    let (Some(end), Some(start)) = (edge(dom, before, false), edge(dom, id, true)) else { return false };
    end.is_alphanumeric() && start.is_alphanumeric() && !(is_spaceless(end) && is_spaceless(start))
}

/// The first or last character of a node; `None` if its first or last inner node is not a text, or is empty.
pub(super) fn edge(dom: &Dom, id: NodeId, is_start: bool) -> Option<char> {
    let inner = |&id: &NodeId| if is_start { dom.node(id).first } else { dom.node(id).last };
    let text = dom.text(std::iter::successors(Some(id), inner).last()?)?;
    if is_start { text.chars().next() } else { text.chars().next_back() }
}

/// The text of a node as the page lays it out, with white space collapsed: words are separate at line breaks,
/// blocks and where [`needs_space_before`] says so.
pub(super) fn shown_text(dom: &Dom, id: NodeId) -> String {
    let mut text = String::new();
    push_shown_text(dom, id, &mut text);
    collapse(&text)
}

/// Appends the text below `parent` as [`shown_text`] describes it, but without collapsing white space.
fn push_shown_text(dom: &Dom, parent: NodeId, out: &mut String) {
    for id in dom.children(parent) {
        let is_block = dom.tag(id) == Tag::Br || dom.tag(id).is_block() || is_laid_out_as_block(dom, id);
        if is_block || needs_space_before(dom, id) {
            out.push(' ');
        }
        out.push_str(dom.text(id).unwrap_or_default());
        push_shown_text(dom, id, out);
        if is_block {
            out.push(' ');
        }
    }
}

/// Whether two adjacent elements in a link together show a part of its address, as in posts of Mastodon.
fn is_in_address(dom: &Dom, before: NodeId, id: NodeId) -> bool {
    let href = dom.parent(id).filter(|&p| dom.tag(p) == Tag::A).and_then(|p| dom.attribute(p, "href"));
    href.is_some_and(|href| href.contains(&(dom.collapsed_text(before) + &dom.collapsed_text(id))))
}

/// Whether two adjacent elements are parts of one word, price or signature, judging by the characters where
/// they meet. A `<sup>` or `<sub>` continues a word, and a `<span>` with a single letter that is not a
/// capital continues a `<span>` with a single letter and the same class.
fn is_one_word(dom: &Dom, before: NodeId, id: NodeId) -> bool {
    let (Some(end), Some(start)) = (edge(dom, before, false), edge(dom, id, true)) else { return false };
    let is_fraction = || {
        let text = dom.collapsed_text(id);
        text.chars().nth(1).is_none_or(|c| c.is_ascii_digit())
    };
    let is_single = |id: NodeId| {
        let only = dom.node(id).first.filter(|&only| dom.node(id).last == Some(only));
        only.and_then(|only| dom.text(only)).is_some_and(|text| text.chars().count() == 1)
    };
    let is_raised = |id| matches!(dom.tag(id), Tag::Sup | Tag::Sub);
    let is_letter = |id| dom.tag(id) == Tag::Span && is_single(id);
    // Whether `id` begins with the end of an ordinal such as `3rd`, a decade such as `1980s`, or a rounded
    // number such as `10k`.
    let ends_number = || {
        let text = short_text(dom, id);
        let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        matches!(word, "st" | "nd" | "rd" | "th" | "s" | "er" | "k" | "K")
    };
    let is_opened = || dom.nodes_before(id).take(5).any(|other| edge(dom, other, true) == Some('<'));
    match (end, start) {
        ('(' | '[' | '<', _)
        | (_, ')' | ']' | ',' | ';' | ':' | '!' | '?' | '%' | '°')
        | ('$' | '€' | '£' | '¥', '0'..='9') => true,
        ('0'..='9', '/') => short_text(dom, id).chars().nth(1).is_some_and(|c| c != ' '),
        (_, c) if end.is_alphanumeric() && c.is_alphanumeric() && is_raised(id) => true,
        ('0'..='9', 'e' | 's' | 'n' | 'r' | 't' | 'k' | 'K') if ends_number() => true,
        ('0'..='9', '.') => is_fraction(),
        ('.' | '@' | '#', _) if is_single(before) => true,
        (_, '(' | '[' | '<' | '.') | ('0'..='9' | 'k' | 'K', '+') => is_single(id),
        (_, '>') => is_opened(),
        _ => {
            end.is_alphabetic()
                && start.is_alphabetic()
                && !start.is_uppercase()
                && is_letter(before)
                && is_letter(id)
                && dom.attribute(before, "class") == dom.attribute(id, "class")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    fn parts_that_the_layout_separates_get_a_space() {
        for (html, expected) in [
            (
                "<h1><span class='name clip'>Oak</span><span class=text>Boats and more</span></h1>",
                "# Oak Boats and more",
            ),
            (
                "<h2><span class=block>Cut your</span><span class=block>own oak</span></h2>",
                "## Cut your own oak",
            ),
            ("<p>Name<span class='d-block small'>Use</span>", "Name Use"),
            (
                "<p><b class=me-2>Phone:</b>+49 30</p><p>Ann<i class='x md:ml-2'>CEO</i>",
                "**Phone:** +49 30\n\nAnn *CEO*",
            ),
            (
                "<p><span class=mx-1>12</span>days <a class=mr-4 href=/a>A</a><a href=/b>b</a>",
                "12 days [A](/a) [b](/b)",
            ),
            (
                "<p><a class='text-sm md:block' href=/a>Oak</a><b style=display:block>Elm</b>",
                "[Oak](/a) **Elm**",
            ),
            ("<div class='flex justify-between'><span>Width</span><span>2 m</span></div>", "Width 2 m"),
            (
                "<ul><li class='grid grid-cols-2'><b>Mon</b><i>9–17</i><li style=display:flex>a<b>b</b></ul>",
                "- **Mon** *9–17*\n- a **b**",
            ),
            ("<p><a class=inline-flex href=/a><span>Oak</span>boats</a>", "[Oak boats](/a)"),
            ("<div><strong>250</strong><span>boats</span></div>", "**250** boats"),
            ("<div><time>2 May</time><span>Bergen</span></div>", "2 May Bergen"),
            ("<div><b>Key</b><i>Value</i></div>", "**Key** *Value*"),
            (
                "<table><tr><th>a<tr><td><span class=badge>New</span><span class=badge>Beta</span></table>",
                "| a |\n| --- |\n| New Beta |",
            ),
            ("<dl><dt><span class=name>timeout</span><span class=type>number</span></dl>", "timeout number"),
            (
                "<p><a class=a href=/a>Ann</a><time class=b>2 Jan 2026</time><span class=c>5 min read</span>",
                "[Ann](/a) 2 Jan 2026 5 min read",
            ),
            (
                "<p>f <span class=mlabels><span class=mlabel>inline</span><span class=mlabel>static</span></span>",
                "f inline static",
            ),
            ("<label>Name</label><input><label>Mail</label>", "Name Mail"),
            ("<div><label><input type=radio>S</label><label><input type=radio>M</label></div>", "S M"),
            ("<div><code class=m>GET</code><code class=p>/a</code></div>", "`GET` `/a`"),
            ("<p><span class=price>$9</span><span class=price>$7</span>", "$9 $7"),
            ("<p>Bread<span class=price>$2</span>, <del>$10</del><ins>$8</ins>", "Bread $2, ~~$10~~ $8"),
            ("<p><s>$10</s><b>$8</b>", "~~$10~~ **$8**"),
            ("<ul><li><span>Mon</span><span>9–17</span></ul>", "- Mon 9–17"),
            ("<p><span class=day>14</span><span class=month>Jun</span> 2025", "14 Jun 2025"),
            ("<time><b class=month>Jun</b><b class=day>14</b></time>", "**Jun** **14**"),
            ("<div><span>14</span>Jun</div><h3>14<small>Jun</small></h3>", "14 Jun\n\n### 14 Jun"),
            ("<h2><span class=a>1.2</span><span class=b>Ropes</span></h2>", "## 1.2 Ropes"),
            ("<p><span class=No>(1)</span><span class=Text>A ship", "(1) A ship"),
            ("<p><code>Ctrl</code><code>C</code>", "`Ctrl` `C`"),
            ("<div><x-tag>Oak</x-tag><x-tag>Elm</x-tag></div>", "Oak Elm"),
            (
                "<p><span class=t_tr><span class=t_td>a</span><span class=t_td>b</span></span><span class=t_tr><span class=t_td>c</span></span>",
                "a b c",
            ),
        ] {
            assert_eq!(markdown(html), format!("{expected}\n"), "{html}");
        }
    }

    #[test]
    fn labels_titles_and_phrases_are_apart_from_other_text() {
        for (html, expected) in [
            ("<a href=/a>Oak<span class=sr-only>Opens</span></a>", "[Oak Opens](/a)"),
            (
                "<p>Oak<span class=tooltiptext>A tree</span>, <dfn>elm</dfn><i role=tooltip>Tree</i>",
                "Oak A tree, elm *Tree*",
            ),
            (
                "<p><span>Ann Oak</span><time>2 May</time><a href=/a>News</a>, on the <time>3</time>rd",
                "Ann Oak 2 May [News](/a), on the 3rd",
            ),
            (
                "<p><code>id</code><span class=param-type>string</span>, <code>a</code><i>s</i>",
                "`id` string, `a`*s*",
            ),
            ("<dl><dt>a() -> str<a href=/a><b>[source]</b></a></dl>", "a() -> str [**\\[source\\]**](/a)"),
            (
                "<ul><li><b class=title>Our boats</b>We build.<li><span class='tag is-new'>New</span>Oak",
                "- **Our boats** We build.\n- New Oak",
            ),
            (
                "<h3><a href=/x>Pro</a><i class=badge>New</i></h3><h3>Pro<i class=badge>New</i></h3>",
                "### [Pro](/x) *New*\n\n### Pro *New*",
            ),
            ("<ul><li><span class=badge>Fixed</span><span>Bug in rope</span></ul>", "- Fixed Bug in rope"),
            ("<p><span class=sr-only>Price:</span>$<span>19</span>", "Price: $19"),
            (
                "<p><span>Ann Oak</span><span>Head of Sales</span><span>3 years</span>",
                "Ann Oak Head of Sales 3 years",
            ),
            (
                "<p>Oak<i class=visually-hidden>(new)</i>, <i class=sr-only>Price</i>$9",
                "Oak *(new)*, *Price* $9",
            ),
            (
                "<p><span class=x-visually-hidden>Folder</span>src, 5<span class=sr-only>stars</span>",
                "Folder src, 5 stars",
            ),
        ] {
            assert_eq!(markdown(html), format!("{expected}\n"), "{html}");
        }
    }

    #[test]
    fn spoken_parts_of_words_and_ends_of_numbers_stay_together() {
        for (html, expected) in [
            (
                "<p>19<span class=visually-hidden>,</span>99 M<span class=sr-only>onda</span>y 10<span class=sr-only>:</span>30",
                "19,99 Monday 10:30",
            ),
            (
                "<p>Open<span class=not-sr-only>AI</span> Daten<span class=has-tooltip>bank</span>",
                "OpenAI Datenbank",
            ),
            (
                "<p>the <time>3</time>rd of May, the <time>1980</time>s were, <time>1990</time>er Jahre",
                "the 3rd of May, the 1980s were, 1990er Jahre",
            ),
        ] {
            assert_eq!(markdown(html), format!("{expected}\n"), "{html}");
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn parts_of_a_word_stay_together() {
        for (html, expected) in [
            (
                "<p><b class=b>Open</b>Data, a <b class=b>New Ze</b>Al, <i class=b>Low to</i>p",
                "**Open**Data, a **New Ze**Al, *Low to*p",
            ),
            ("<ul><li><sup>1</sup>H is light</ul>", "- <sup>1</sup>H is light"),
            ("<p>1<span class=sr-only>/</span><span>2</span> x<span class=sr-only>=</span>−3", "1/2 x=−3"),
            ("<p><span>One sente</span><span>nce is</span>", "One sentence is"),
            ("<p>a<a href=/b>[1]</a>", "a[\\[1\\]](/b)"),
            ("<p>Mon<span class=sr-only>day</span>, <span class=sr-only>a</span>, b", "Monday, a, b"),
            (
                "<p><span>H</span><span>ello</span> <b>bold</b>ed, <b>in</b><i>side</i>",
                "Hello **bold**ed, <strong>in</strong>*side*",
            ),
            (
                "<div><span>H</span><span>ello</span></div><div><b>Bold</b><i>er</i></div>",
                "Hello\n\n<strong>Bold</strong>*er*",
            ),
            (
                "<p><span class='block float-left'>H</span>ello <span class=cap>O</span><span class=rest>ak</span>",
                "Hello Oak",
            ),
            ("<p><i class=typewriter>O</i><i class=typewriter>ak</i>", "*Oak*"),
            ("<p class=flex><b>O</b>ak", "**O**ak"),
            (
                "<p><i class='float-left mr-2'>O</i>ak (<i class=mr-1>a</i>)<i class=mr-0>b</i><i class=mr-auto>c</i>",
                "*O*ak (*a*)*bc*",
            ),
            ("<p><span class=mr-1>$</span>49 <a href=/a>a<i class=ml-1></i></a>.", "$49 [a](/a)."),
            (
                "<p>“<em class=mr-1>a</em>” <b class=mr-1>Ann</b>'s H<sub class=mx-1>2</sub>O <i class=me-1>你</i>。",
                "“*a*” **Ann**'s H<sub>2</sub>O *你*。",
            ),
            (
                "<div class=flex><i>O</i><i>a</i></div><h2><span class=c>O</span><span class=c>A</span></h2>",
                "*O* *a*\n\n## OA",
            ),
            ("<p>US<span>$9</span>, <code>a<span>$1</span></code>", "US$9, `a$1`"),
            ("<p><code><i class=tag>a</i><i class=tag>B</i>c<i class=tag>D</i></code>", "`aBcD`"),
            (
                "<div><span>H</span><span>20</span></div><div><span>mp</span><span>3</span></div>",
                "H20\n\nmp3",
            ),
            (
                "<h2><span>3</span>D</h2><p><span>1</span>Password, <b>Rev</b>2",
                "## 3D\n\n1Password, **Rev**2",
            ),
            ("<p>5<span class=unit>m</span>, <span class=n>5</span><span class=unit>m</span>", "5m, 5m"),
            (
                "<div>5<b>m</b>, <b>2</b><i>x</i> <b>3</b><span>rd</span></div>",
                "5**m**, <strong>2</strong>*x* **3**rd",
            ),
            (
                "<p><span class=el>H</span><span class=n>2</span><span class=el>O</span> H<sub>2</sub>O",
                "H2O H<sub>2</sub>O",
            ),
            ("<div class=flex><span>$</span><span>49</span><span>.99</span></div>", "$49.99"),
            (
                "<p><code><span class=k>let</span><span class=v>X</span></code> <code>a</code><code>.b()</code>",
                "`letX` `a.b()`",
            ),
            (
                "<dl><dt><code class=descclassname>os.path.</code><code class=descname>join</code><code class=a>(b)</code></dl>",
                "`os.path.join(b)`",
            ),
            (
                "<div><em>i</em><b>Phone</b></div><p class=flex>$29<span>/month</span>",
                "<em>i</em>**Phone**\n\n$29/month",
            ),
            (
                "<p class=flex><b>4.8</b><span>/5</span></p><p class=flex>10<span>k</span><span>+</span>",
                "**4.8**/5\n\n10k+",
            ),
            (
                "<p class=flex>3<span>rd</span> <b>23</b>rd</p><p class=flex>Oak<sup>TM</sup></p><p class=flex>1<sup>st</sup>",
                "3rd **23**rd\n\nOak<sup>TM</sup>\n\n1<sup>st</sup>",
            ),
            ("<p class=flex>a (<!-- -->34<!-- -->)<!-- -->.", "a (34)."),
            ("<div class=flex>27<span>&nbsp;boats</span></div>", "27\u{a0}boats"),
            ("<td><span class=a>\u{6728}</span><span class=b>\u{6728}</span>", "\u{6728}\u{6728}"),
            (
                "<dl><dt><span class=p>os.</span><span class=n>path</span><span class=q>(</span><em class=a>x</em>",
                "os.path(*x*",
            ),
        ] {
            assert_eq!(markdown(html), format!("{expected}\n"), "{html}");
        }
    }
}
