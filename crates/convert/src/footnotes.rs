//! Recognizes footnotes, usually by the short link to each note and the backlink.

use super::code::is_verse;
use super::dom::{Data, Dom, NodeId, Tag};
use super::footnote_cleanup::{NUMBER_CLASSES, remove_back_links, remove_number};
use super::footnote_references::{
    Ids, MAX_NAME, fragment, is_alone_in_parent, is_marked_as_back, is_named_as_note, is_repeated_reference,
    leads_to_own_place, note_name, note_number, reference_number, reference_target, whole_reference,
};
use super::footnote_splitting::divide_notes;
use super::omission_reason::Rule;
use super::unlinked_footnotes::{RaisedNumber, is_aside, notes_in_asides, raised_numbers, starting_number};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The footnotes of a page. The notes have been detached from the tree.
pub(super) struct Footnotes {
    /// Maps each reference (a link, or the element around the link) to the label of its note.
    pub(super) references: HashMap<NodeId, String>,
    pub(super) definitions: Vec<Definition>,
}

pub(super) struct Definition {
    pub(super) label: String,
    /// The nodes that make up the content of the note.
    pub(super) nodes: Vec<NodeId>,
}

/// Finds the footnotes below `root`, also those in the margin, in popups and in the text, and detaches the
/// notes, without their numbers, backlinks and copies in the margin. Looks for notes without links only if
/// there are neither notes nor a bibliography with links. Returns the notes in document order.
pub(super) fn extract_footnotes(dom: &mut Dom, root: NodeId) -> Footnotes {
    let ids = Ids::default();
    let mut found = find_linked_notes(dom, root, &ids);
    let mut has_changed = false;
    // Skip the notes of bibliographies: they have been dropped, but `targets` still contains them.
    for (_, targets) in found.targets.iter().filter(|(note, _)| found.numbers.contains_key(note)) {
        has_changed |= targets.len() > 1 && divide_notes(dom, targets);
    }
    if has_changed {
        found = find_linked_notes(dom, root, &ids);
    }
    if found.order.is_empty() && !found.has_bibliography {
        found = find_unlinked_notes(dom, root, &ids);
    }
    for &note in &found.order {
        let number = &found.numbers[&note];
        remove_back_links(dom, note, number, |dom, link| {
            let target = fragment(dom, link).and_then(|fragment| ids.get(dom, fragment));
            target.is_some_and(|target| {
                let mut around = dom.ancestors(target).take(3).chain(dom.descendants(target).take(5));
                around.any(|id| found.references.contains_key(&id))
            })
        });
        remove_number(dom, note, number);
    }
    remove_side_copies(dom, root, &found);
    add_side_notes(dom, root, &ids, &mut found);
    add_inline_notes(dom, root, &mut found);
    for &note in &found.order {
        let is_number = |dom: &Dom, id| dom.has_class_in(id, NUMBER_CLASSES);
        dom.omit_each(note, |dom, id| is_number(dom, id).then_some(Rule::FootnoteMark));
    }
    let labels = found.labels();
    let references = found.references.iter().map(|(&id, note)| (id, labels[note].clone())).collect();
    // Sort the notes by node id, which increases in document order except for misnested tags. The new
    // elements around divided notes have larger ids than their contents.
    found.order.sort_by_cached_key(|&note| dom.node(note).first.map_or(note, |first| first.min(note)));
    Footnotes { references, definitions: detach_notes(dom, &found, labels) }
}

/// References and notes that have been found.
#[derive(Default)]
struct Found {
    /// Maps each reference to its note.
    references: HashMap<NodeId, NodeId>,
    /// The number or symbol that the page shows for each note.
    numbers: HashMap<NodeId, String>,
    /// For each note, the targets of the links to it, by the number that the link shows.
    targets: BTreeMap<NodeId, BTreeMap<String, NodeId>>,
    /// The notes in the order in which they were found.
    order: Vec<NodeId>,
    /// The asides that directly contain several notes, not as items of a list. In them, a block that is no
    /// note belongs to the note before it.
    asides: HashSet<NodeId>,
    /// Whether a bibliography was dropped from the notes. Its links stay in the text.
    has_bibliography: bool,
}

impl Found {
    /// Adds a note. Does nothing if the note has already been added, even with another number.
    fn add_note(&mut self, note: NodeId, number: String) {
        self.numbers.entry(note).or_insert_with(|| {
            self.order.push(note);
            number
        });
    }

    /// The labels of the notes: the page's own numbers if all have only digits and no two are equal, because
    /// the text may name them ("see note 3"), otherwise their positions in the order in which they were
    /// found.
    fn labels(&self) -> HashMap<NodeId, String> {
        let own: HashSet<&str> = self.numbers.values().map(String::as_str).collect();
        let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if own.len() == self.numbers.len() && own.iter().all(is_number) {
            return self.numbers.clone();
        }
        self.order.iter().zip(1..).map(|(&note, number): (_, u32)| (note, number.to_string())).collect()
    }
}

/// Finds the footnotes whose references are links to the notes: the text of the link is a [`note_number`],
/// and the note links back to it, or names mark it as a reference. Later references may have a suffix, as in
/// `1b`. Ignores links in code and in notes, those to headings, notes with headings, and years that name
/// works ([`NoteFacts::is_work_of`]). Drops bibliographies ([`drop_incomplete_lists`]).
fn find_linked_notes(dom: &Dom, root: NodeId, ids: &Ids) -> Found {
    let mut found = Found::default();
    // Caches the note of each target, and what each note contains: many links may have the same target, and
    // many targets may be in the same note.
    let mut notes: HashMap<NodeId, Option<NodeId>> = HashMap::new();
    let mut contents: HashMap<NodeId, NoteFacts<'_>> = HashMap::new();
    // Maps each target to a link that looks like a reference but is not one.
    let mut others: HashMap<NodeId, NodeId> = HashMap::new();
    let mut lists_with_links_back: HashSet<NodeId> = HashSet::new();
    for link in dom.descendants(root).filter(|&id| dom.tag(id) == Tag::A) {
        let has_target = fragment(dom, link).is_some() || dom.has_attribute(link, "onclick");
        let is_no_reference = || leads_to_own_place(dom, link) || is_marked_as_back(dom, link);
        if !has_target || is_no_reference() || is_in_code(dom, link) {
            continue;
        }
        let target = reference_target(dom, link, ids).filter(|&target| !dom.is_heading(target));
        let Some(target) = target else { continue };
        let Some(note) = *notes.entry(target).or_insert_with(|| note_around(dom, target)) else {
            others.extend(note_number(dom, link).map(|_| (target, link)));
            continue;
        };
        // Skip a backlink from a note that was not recognized: it is not a reference.
        let mut above = dom.ancestors(link).take(3).filter_map(|a| others.get(&a));
        if above.any(|&other| is_around(dom, target, other) || is_around(dom, other, target)) {
            continue;
        }
        // Other references to a note that has been found may have another text, such as `1:1`.
        let known = || found.numbers.get(&note).filter(|n| is_repeated_reference(dom, link, n)).cloned();
        let Some(number) = note_number(dom, link).or_else(known) else { continue };
        // A link inside a note is not a reference to a note.
        if dom.ancestors(link).any(|a| a == note || found.numbers.contains_key(&a)) {
            continue;
        }
        let content = contents.entry(note).or_insert_with(|| NoteFacts::read(dom, note, ids));
        let leads_back = content.leads_back_to(dom, link);
        if content.has_heading
            || content.is_work_of(&number)
            || !leads_back && !is_named_reference(dom, link, target, note)
        {
            others.insert(target, link);
            continue;
        }
        lists_with_links_back.extend(dom.parent(note).filter(|_| leads_back));
        found.targets.entry(note).or_default().entry(number.clone()).or_insert(target);
        found.add_note(note, number);
        found.references.insert(whole_reference(dom, link), note);
    }
    drop_incomplete_lists(dom, &mut found, &lists_with_links_back);
    found
}

/// Whether `outer` is `inner`, its parent or its grandparent.
fn is_around(dom: &Dom, outer: NodeId, inner: NodeId) -> bool {
    dom.ancestors(inner).take(3).any(|a| a == outer)
}

/// Whether a link is in a `<pre>` that holds code, not verse.
fn is_in_code(dom: &Dom, link: NodeId) -> bool {
    dom.ancestors(link).any(|a| dom.tag(a) == Tag::Pre && !is_verse(dom, a))
}

/// Drops the notes of each list that also has items without a reference, unless the list has backlinks to
/// the text. Blocks other than list items count only between the first and the last note. Such a list is a
/// bibliography: the text may name a range of its numbers ("1–3"), and without some of its items it would
/// show others. Sets `has_bibliography` to whether there is such a list.
fn drop_incomplete_lists(dom: &Dom, found: &mut Found, lists_with_links_back: &HashSet<NodeId>) {
    // The first note of each list, and the number of its notes.
    let mut lists: HashMap<NodeId, (NodeId, usize)> = HashMap::new();
    for &note in &found.order {
        if let Some(list) = dom.parent(note).filter(|list| !lists_with_links_back.contains(list)) {
            lists.entry(list).or_insert((note, 0)).1 += 1;
        }
    }
    lists.retain(|&list, &mut (note, count)| {
        let class = dom.attribute(note, "class");
        let is_entry = |&id: &NodeId| {
            dom.tag(id) == dom.tag(note)
                && (dom.tag(id) == Tag::Li || class.is_some() && dom.attribute(id, "class") == class)
        };
        let entries: Vec<NodeId> = dom.child_elements(list).filter(is_entry).collect();
        // Other paragraphs may have the class of notes, so count only from the first to the last known note.
        let is_note = |id: &NodeId| dom.tag(note) == Tag::Li || found.numbers.contains_key(id);
        let first = entries.iter().position(is_note).unwrap_or_default();
        entries.iter().rposition(is_note).is_some_and(|last| last + 1 - first > count)
    });
    found.has_bibliography = !lists.is_empty();
    let is_dropped = |note| dom.parent(note).is_some_and(|list| lists.contains_key(&list));
    found.order.retain(|&note| !is_dropped(note));
    found.numbers.retain(|&note, _| !is_dropped(note));
    found.references.retain(|_, note| !is_dropped(*note));
}

/// Finds footnotes without links, whose references are superscript numbers. The note is a later block that
/// begins with the same superscript number, a note in an `<aside>` ([`notes_in_asides`]), a paragraph that
/// follows the last `<hr>` and begins with the number, or, if a class marks the number as a reference, an
/// element with an id such as `fn1`. Finds nothing on pages without a note 1.
fn find_unlinked_notes(dom: &Dom, root: NodeId, ids: &Ids) -> Found {
    let mut found = Found::default();
    let mut references: Vec<(NodeId, String)> = Vec::new();
    let mut numbers: HashSet<String> = HashSet::new();
    let mut notes: HashMap<String, NodeId> = HashMap::new();
    let mut add_note = |note, number: &str| {
        if !notes.contains_key(number) {
            notes.insert(number.to_owned(), note);
            found.add_note(note, number.to_owned());
        }
    };
    for RaisedNumber { id, number, note } in raised_numbers(dom, root) {
        match note {
            Some(note) if numbers.contains(&number) => add_note(note, &number),
            Some(_) => {}
            None => {
                numbers.insert(number.clone());
                references.push((id, number));
            }
        }
    }
    if references.is_empty() {
        return found;
    }
    let asides = notes_in_asides(dom, root, &references, &numbers);
    let (items, asides): (Vec<_>, Vec<_>) =
        asides.into_iter().partition(|(note, _)| dom.tag(*note) == Tag::Li);
    for (note, number) in &items {
        add_note(*note, number);
    }
    let rule = dom.descendants(root).filter(|&id| dom.tag(id) == Tag::Hr).last();
    for note in std::iter::successors(rule, |&id| dom.next_element(id)).filter(|&id| dom.tag(id) == Tag::P) {
        if let Some(number) = starting_number(dom, note, &numbers) {
            add_note(note, &number);
        }
    }
    for (id, number) in &references {
        let is_named = |a| dom.classes(a).any(|c| c.contains("footnote") || c.contains("reference"));
        let mut names = ["fn", "fn-", "footnote-", "fn:"].into_iter().map(|start| format!("{start}{number}"));
        let note = names.find_map(|n| ids.get(dom, &n)).filter(|_| dom.ancestors(*id).take(3).any(is_named));
        if let Some(note) = note {
            add_note(note, number);
        }
    }
    for (note, number) in &asides {
        add_note(*note, number);
    }
    let parents = asides.iter().filter_map(|(note, _)| dom.parent(*note));
    found.asides = parents.filter(|&parent| is_aside(dom, parent)).collect();
    // Without a note 1, the numbers are exponents or the numbers of paragraphs, not of footnotes.
    if !notes.contains_key("1") {
        return Found::default();
    }
    let references = references.into_iter().filter_map(|(id, number)| Some((id, *notes.get(&number)?)));
    found.references = references.collect();
    found
}

/// Detaches the notes, which must be in document order, with the blocks that continue them, and returns their
/// contents. Omits the rules, titles and sections that are left without notes.
fn detach_notes(dom: &mut Dom, found: &Found, mut labels: HashMap<NodeId, String>) -> Vec<Definition> {
    let mut definitions = Vec::new();
    // Whether any note so far continues in blocks that follow its first paragraph or its heading.
    let mut has_continued = false;
    // Maps the element directly after a series of detached notes to the element before the series. A search
    // in the tree would visit the text between the detached notes again for each note.
    let mut above: HashMap<NodeId, Option<NodeId>> = HashMap::new();
    let mut titles: HashMap<NodeId, bool> = HashMap::new();
    let mut before_notes: HashSet<NodeId> = HashSet::new();
    let mut containers: BTreeSet<(usize, NodeId)> = BTreeSet::new();
    let mut emptied: HashSet<NodeId> = HashSet::new();
    for &note in &found.order {
        let label = labels.remove(&note).unwrap_or_default();
        let container = dom.parent(note);
        let mut parts = vec![note];
        let mut previous = above.remove(&note).unwrap_or_else(|| dom.previous_element(note));
        // Skip paragraphs that are blank because all notes in them have been detached.
        while let Some(id) = previous.filter(|id| emptied.contains(id)) {
            previous = above.remove(&id).unwrap_or_else(|| dom.previous_element(id));
        }
        let mut next = dom.next_element(note);
        before_notes.extend(previous);
        let is_section = match previous {
            Some(above) => {
                dom.tag(above) == Tag::Hr
                    || *titles.entry(above).or_insert_with(|| is_title_of_notes(dom, above))
            }
            None => container.is_some_and(|p| {
                dom.classes(p).chain(dom.attribute(p, "id")).any(|name| name.to_lowercase().contains("note"))
            }),
        };
        let is_section = is_section || container.is_some_and(|aside| found.asides.contains(&aside));
        let is_heading = dom.is_heading(note);
        if dom.tag(note) == Tag::P && is_section || is_heading {
            let is_known = is_heading || is_only_for_notes(dom, container, previous);
            let (blocks, end) = continuing_blocks(dom, next, &labels, is_known, has_continued);
            has_continued |= !blocks.is_empty();
            for &block in &blocks {
                dom.detach(block);
            }
            parts.extend(blocks);
            next = end;
        }
        if is_heading {
            parts.remove(0);
        }
        if matches!(dom.tag(note), Tag::Li | Tag::Div | Tag::Aside) {
            parts = dom.children(note).collect();
        }
        // Sphinx puts the label of a note into a `<dt>`, and the text into the `<dd>` that follows.
        if let Some(detail) = next.filter(|&n| dom.tag(note) == Tag::Dt && dom.tag(n) == Tag::Dd) {
            next = dom.next_element(detail);
            parts = dom.children(detail).collect();
            dom.detach(detail);
        }
        dom.detach(note);
        emptied.extend(container.filter(|&p| next.is_none() && dom.tag(p) == Tag::P && dom.is_blank(p)));
        if let Some(next) = next {
            above.insert(next, previous);
        } else {
            let is_title = |p: NodeId| dom.is_heading(p) && titles.get(&p).is_some_and(|is_title| *is_title);
            if let Some(above) = previous.filter(|&p| dom.tag(p) == Tag::Hr || is_title(p)) {
                dom.omit(above, Rule::FootnoteMark);
            }
        }
        containers.extend(container.map(|container| (dom.ancestors(container).count(), container)));
        definitions.push(Definition { label, nodes: parts });
    }
    remove_empty_containers(dom, containers, before_notes);
    definitions
}

/// The blocks from `next` that continue a note after its first paragraph, and the node after them: all up to
/// the next note or heading. After the last note of a page's content, where other content may follow
/// (`is_known` is false), only paragraphs and lists, and none unless an earlier note has such blocks.
fn continuing_blocks(
    dom: &Dom,
    next: Option<NodeId>,
    labels: &HashMap<NodeId, String>,
    is_known: bool,
    has_continued: bool,
) -> (Vec<NodeId>, Option<NodeId>) {
    let after = std::iter::successors(next, |&id| dom.next_element(id));
    let mut blocks: Vec<NodeId> =
        after.take_while(|id| !labels.contains_key(id) && !dom.is_heading(*id)).collect();
    let end = blocks.last().map_or(next, |&last| dom.next_element(last));
    if is_known || end.is_some_and(|end| labels.contains_key(&end)) {
        return (blocks, end);
    }
    let is_text = |id: &NodeId| matches!(dom.tag(*id), Tag::P | Tag::Ul | Tag::Ol);
    let length = blocks.iter().take_while(|id| has_continued && is_text(id)).count();
    let end = blocks.get(length).copied().or(end);
    blocks.truncate(length);
    (blocks, end)
}

/// Whether the element around notes has no other content: nothing is before the first note or before the
/// title or rule above the notes, `previous`, and it is not the page's own content.
fn is_only_for_notes(dom: &Dom, container: Option<NodeId>, previous: Option<NodeId>) -> bool {
    let is_content = |id| matches!(dom.tag(id), Tag::Article | Tag::Body | Tag::Main);
    previous.is_none_or(|title| dom.previous_element(title).is_none()) && !container.is_some_and(is_content)
}

/// Whether an element is a note in the margin, or a phrase that LaTeXML or a plugin shows like one.
fn is_side_note(dom: &Dom, id: NodeId) -> bool {
    matches!(dom.tag(id), Tag::Span | Tag::Small | Tag::Aside)
        && dom.has_class_in(id, &["sidenote", "marginnote", "ltx_note_outer", "footnote_tooltip"])
}

/// Whether a `<span>` or `<small>` is a tooltip or popup at most four levels inside a paragraph, a list item,
/// a `<td>` or a `<dd>`.
fn is_popup(dom: &Dom, id: NodeId) -> bool {
    let is_marked = || dom.attribute(id, "role") == Some("tooltip") || dom.has_attribute(id, "popover");
    let is_text = |a| matches!(dom.tag(a), Tag::P | Tag::Li | Tag::Td | Tag::Dd);
    matches!(dom.tag(id), Tag::Span | Tag::Small)
        && is_marked()
        && dom.ancestors(id).skip(1).take(4).any(is_text)
}

/// The reference of a note in the margin or in a popup: the number or the empty label directly before it. A
/// link with an address is none.
fn side_reference(dom: &Dom, note: NodeId) -> Option<NodeId> {
    let mut before =
        dom.nodes_before(note).skip_while(|&id| dom.text(id).is_some_and(|text| text.trim().is_empty()));
    let reference = before.next()?;
    match dom.tag(reference) {
        Tag::Label if dom.is_blank(reference) => Some(reference),
        Tag::A if dom.has_attribute(reference, "href") => None,
        Tag::Label | Tag::Sup | Tag::Button | Tag::A => note_number(dom, reference).map(|_| reference),
        _ => None,
    }
}

/// Adds the notes of Distill, which are in the text, and puts an empty element as a reference before each.
/// Ignores blank notes and notes inside others. The notes have no numbers.
fn add_inline_notes(dom: &mut Dom, root: NodeId, found: &mut Found) {
    for note in dom.outermost(root, |id| dom.name(id) == "d-footnote") {
        if !dom.is_blank(note) && !dom.ancestors(note).any(|a| found.numbers.contains_key(&a)) {
            let reference = dom.push(Tag::Other, Data::Empty);
            dom.insert_before(note, reference);
            found.add_note(note, String::new());
            found.references.insert(reference, note);
        }
    }
}

/// Removes the copies of notes that pages show in the margin: with the same letters and digits as a note that
/// has been found, except for a number at the start.
fn remove_side_copies(dom: &mut Dom, root: NodeId, found: &Found) {
    if found.order.is_empty() {
        return;
    }
    let content = |dom: &Dom, id| {
        let text: String = dom.text_content(id).chars().filter(|c| c.is_alphanumeric()).collect();
        // Ignore digits at the start: a copy of a note in the margin begins with the number of the note.
        text.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned()
    };
    let texts: HashSet<String> = found.order.iter().map(|&note| content(dom, note)).collect();
    dom.omit_each(root, |dom, id| {
        let is_side_note = is_side_note(dom, id) && !found.numbers.contains_key(&id);
        (is_side_note && texts.contains(&content(dom, id))).then_some(Rule::Copy)
    });
}

/// Adds notes in the margin and in popups, and those whose reference names their id. A note in the margin or
/// in a popup follows its reference directly, except in Tufte CSS: there, a checkbox shows the note on small
/// screens, and the label of the checkbox is the reference. Ignores notes and references that have been found
/// or are inside such ones, and references inside their own note.
fn add_side_notes(dom: &Dom, root: NodeId, ids: &Ids, found: &mut Found) {
    let side_notes = dom.descendants(root).filter(|&id| is_side_note(dom, id) || is_popup(dom, id));
    let side_notes = side_notes.filter_map(|note| {
        let input = dom.previous_element(note).filter(|&input| dom.tag(input) == Tag::Input);
        let label = input.and_then(|input| {
            let label = dom.previous_element(input).filter(|&label| dom.tag(label) == Tag::Label)?;
            let name = dom.attribute(label, "for")?;
            (dom.attribute(input, "id") == Some(name)).then_some(label)
        });
        Some((label.or_else(|| side_reference(dom, note))?, note))
    });
    let named_notes = dom.descendants(root).filter_map(|id| {
        let note = named_note(dom, id, ids)?;
        Some((whole_reference(dom, id), note))
    });
    for (reference, note) in side_notes.chain(named_notes) {
        let is_known = |id| found.numbers.contains_key(&id) || found.references.contains_key(&id);
        let is_inside = |id| is_known(id) || id == note;
        if !dom.ancestors(note).any(is_known) && !dom.ancestors(reference).any(is_inside) {
            found.add_note(note, reference_number(dom, reference).unwrap_or_default());
            found.references.insert(reference, note);
        }
    }
}

/// The note that an attribute of a reference names. A heading or a table cell is not a note.
fn named_note(dom: &Dom, id: NodeId, ids: &Ids) -> Option<NodeId> {
    let is_note = |&note: &NodeId| {
        matches!(
            dom.tag(note),
            Tag::Aside | Tag::Div | Tag::Li | Tag::P | Tag::Section | Tag::Small | Tag::Span
        )
    };
    ids.get(dom, note_name(dom, id)?).filter(is_note)
}

/// The block that is the note around `target`: the nearest `<li>`, `<p>`, `<div>` or the like among `target`
/// and its five nearest ancestors. If it is a `<p>` at the start of a list item, the item is the note; of a
/// table that is a note, the first row. `None` if there is no such block.
fn note_around(dom: &Dom, target: NodeId) -> Option<NodeId> {
    // Docutils before version 0.18 lays out a note as a table with one row.
    if dom.tag(target) == Tag::Table && dom.has_class(target, "footnote") {
        return dom.find(target, Tag::Tr);
    }
    let is_note = |&a: &NodeId| {
        // Texinfo puts the number of a note into a heading.
        is_number_heading(dom, a)
            || matches!(dom.tag(a), Tag::Li | Tag::P | Tag::Dt | Tag::Aside | Tag::Tr | Tag::Div)
            || is_side_note(dom, a)
    };
    let note = dom.ancestors(target).take(6).find(is_note)?;
    // If the block is the first paragraph of a list item, the whole item is the note.
    let item = dom.parent(note).filter(|&p| dom.tag(note) == Tag::P && dom.tag(p) == Tag::Li);
    Some(item.filter(|&item| dom.child_elements(item).next() == Some(note)).unwrap_or(note))
}

/// Whether an element is a heading that consists of a link with the number of a note.
fn is_number_heading(dom: &Dom, id: NodeId) -> bool {
    dom.is_heading(id)
        && dom
            .find(id, Tag::A)
            .is_some_and(|link| reference_number(dom, link).is_some() && is_alone_in_parent(dom, link))
}

/// Facts about a note that show whether a link to the note is a reference.
struct NoteFacts<'a> {
    has_heading: bool,
    /// The fragments of the links that lead out of the note.
    fragments: HashSet<&'a str>,
    /// The fragment and the number of the link at the start of the note.
    start: Option<(&'a str, String)>,
    /// The text of the first [`MAX_START`] nodes.
    text: String,
}

/// Number of nodes at the start of a note that are searched for the year of a work.
const MAX_START: usize = 50;

impl<'a> NoteFacts<'a> {
    /// Collects the facts about a note that show whether a link to it is a reference. A heading with only
    /// the number of the note does not count.
    fn read(dom: &'a Dom, note: NodeId, ids: &Ids) -> Self {
        let links = dom.subtree(note).filter(|&id| dom.tag(id) == Tag::A);
        let is_inside = |target| dom.ancestors(target).any(|a| a == note);
        let leads_out = |fragment: &&str| !ids.get(dom, fragment).is_some_and(is_inside);
        Self {
            has_heading: dom.descendants(note).any(|id| dom.is_heading(id) && !is_number_heading(dom, id)),
            fragments: links.filter_map(|link| fragment(dom, link)).filter(leads_out).collect(),
            start: link_at_start(dom, note).and_then(|link| fragment(dom, link).zip(note_number(dom, link))),
            text: dom.first_text(note, MAX_START),
        }
    }

    /// Whether a number is the year of the work in this note: the text names it after a word. In author–year
    /// citations, such as "Oak (2020)", only the year may be a link.
    fn is_work_of(&self, number: &str) -> bool {
        let is_year = number.len() == 4 && ("1500".."2100").contains(&number);
        is_year && self.text.find(number).is_some_and(|at| self.text[..at].contains(char::is_alphabetic))
    }

    /// Whether the note has a link to a reference: to the id of the link, of an element in it, or of one of
    /// the two elements around it. The id of a block counts only if the link is raised, because paragraphs
    /// that refer to each other are no notes, or if the note begins with a link with the same number and the
    /// block does not begin with the reference.
    fn leads_back_to(&self, dom: &Dom, link: NodeId) -> bool {
        let is_raised = dom.is_in(link, &[Tag::Sup]) || dom.find(link, Tag::Sup).is_some();
        let is_start = |block| {
            let start = self.start.as_ref().filter(|(name, _)| dom.attribute(block, "id") == Some(*name));
            start.is_some_and(|(_, number)| note_number(dom, link).is_some_and(|n| n == *number))
                && link_at_start(dom, block).is_none_or(|first| first != link)
        };
        let around = dom.ancestors(link).take(3);
        let around = around.filter(|&a| is_raised || !dom.tag(a).is_block() || is_start(a));
        let around = around.filter_map(|a| dom.attribute(a, "id").or_else(|| dom.attribute(a, "name")));
        let own = dom.descendants(link).filter_map(|a| dom.attribute(a, "id"));
        around.chain(own).any(|name| name.len() <= MAX_NAME && self.fragments.contains(name))
    }
}

/// The link at the start of an element, perhaps after brackets. Reads at most 50 nodes.
fn link_at_start(dom: &Dom, id: NodeId) -> Option<NodeId> {
    let is_text = |&id: &NodeId| {
        dom.text(id).is_some_and(|t| !t.chars().all(|c| c.is_whitespace() || "[]()".contains(c)))
    };
    let text = dom.descendants(id).take(50).find(is_text)?;
    dom.ancestors(text).take(4).find(|&a| dom.tag(a) == Tag::A)
}

/// Whether a link refers to the footnote `note`, although the note does not lead back to it: the link is
/// raised, and leads to a backlink, a named element ([`is_named_as_note`]) or a list item; or the link or
/// its parent is named, and it is raised or leads to a named element.
fn is_named_reference(dom: &Dom, link: NodeId, target: NodeId, note: NodeId) -> bool {
    let is_raised = dom.is_in(link, &[Tag::Sup]);
    let is_named = |id| is_named_as_note(dom, id);
    let is_back = dom.tag(target) == Tag::A && fragment(dom, target).is_some_and(|f| f.contains("ref"));
    is_raised && (is_back || is_named(target) || dom.tag(note) == Tag::Li)
        || (is_named(link) || dom.parent(link).is_some_and(is_named))
            && (is_raised || is_named(target) || is_named(note))
}

/// Removes the `containers` of notes that are now empty or have only a title, such as "Notes", along with the
/// rule or title before them. Then does the same with their parents. Each container comes with its depth;
/// `before_notes` has the elements before series of notes. Containers with an image stay, and so do `<body>`,
/// `<main>` and `<article>`.
fn remove_empty_containers(
    dom: &mut Dom,
    mut containers: BTreeSet<(usize, NodeId)>,
    mut before_notes: HashSet<NodeId>,
) {
    // Examine the deepest containers first, so that each parent is examined once, and containers of one depth
    // from last to first, so that the elements before a container are still in the tree.
    while let Some((depth, id)) = containers.pop_last() {
        let Some(parent) = dom.parent(id) else { continue };
        let is_content = matches!(dom.tag(id), Tag::Body | Tag::Article | Tag::Main);
        if is_content || dom.find(id, Tag::Img).is_some() {
            continue;
        }
        let text = dom.text_content(id);
        if !text.trim().is_empty() && !is_title_of_notes(dom, id) && !has_only_title(dom, id, &before_notes) {
            continue;
        }
        if let Some(previous) = dom.previous_element(id) {
            before_notes.insert(previous);
            let is_title = dom.is_heading(previous) && is_title_of_notes(dom, previous);
            if is_title || dom.tag(previous) == Tag::Hr {
                dom.omit(previous, Rule::FootnoteMark);
            }
        }
        dom.omit(id, Rule::FootnoteMark);
        containers.insert((depth - 1, parent));
    }
}

/// Titles of sections that contain notes, in lower case.
#[rustfmt::skip]
const TITLES: [&str; 25] = [
    "footnotes", "notes", "references", "endnotes", "footnote", "citations", "fußnoten", "anmerkungen", "einzelnachweise",
    "notes de bas de page", "références", "notas", "notas al pie", "notas de rodapé", "note", "voetnoten", "fotnoter",
    "przypisy", "примечания", "сноски", "脚注", "注釈", "注释", "註釋", "각주",
];

/// Whether the text of an element is the title of a section of notes, such as "References". "Note" is the
/// title in several languages, but only as a heading without a colon: in English, it begins a remark.
fn is_title_of_notes(dom: &Dom, id: NodeId) -> bool {
    let text = dom.collapsed_text(id).to_lowercase();
    let title = text.trim_end_matches(':');
    TITLES.contains(&title) && (title != "note" || title == text && dom.is_heading(id))
}

/// Whether an element that is named `footnotes` has no content but rules and at most one heading, which is in
/// `before_notes` and not of the first level.
fn has_only_title(dom: &Dom, id: NodeId, before_notes: &HashSet<NodeId>) -> bool {
    let mut names = dom.classes(id).chain(dom.attribute(id, "id"));
    let is_title = |c| dom.tag(c).heading_level().is_some_and(|level| level > 1) && before_notes.contains(&c);
    let mut content = dom.children(id).filter(|&c| dom.tag(c) != Tag::Hr && !dom.is_blank(c));
    names.any(|name| name == "footnotes" || name.starts_with("footnotes-"))
        && content.next().is_none_or(is_title)
        && content.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    fn reads_the_footnotes_of_generators() {
        let expected = "a[^1] b[^2]\n\n[^1]: one *x*\n\n[^2]: two\n";
        for html in [
            // GitHub, remark
            "<p>a<sup><a href=#fn-1 id=fnref-1 data-footnote-ref>1</a></sup> b<sup><a href=#fn-2 id=fnref-2>2</a></sup><section class=footnotes><h2 class=sr-only>Footnotes</h2><ol><li id=fn-1><p>one <em>x</em> <a href=#fnref-1 class=data-footnote-backref>↩</a><li id=fn-2><p>two <a href=#fnref-2>↩</a></ol></section>",
            // Sphinx
            "<p>a<a class='footnote-reference brackets' href=#id3 id=id1>1</a> b<a class='footnote-reference brackets' href=#id4 id=id2>2</a></p><aside class=footnote id=id3><span class=label>[<a href=#id1>1</a>]</span><p>one <em>x</em></aside><aside class=footnote id=id4><span class=label>[<a href=#id2>2</a>]</span><p>two</aside>",
            "<p>a<a class=footnote-reference href=#id3 id=id1>[1]</a> b<a class=footnote-reference href=#id4 id=id2>[2]</a></p><table class=footnote id=id3><tr><td class=label><a class=fn-backref href=#id1>[1]</a><td>one <em>x</em></table><table class=footnote id=id4><tr><td class=label><a class=fn-backref href=#id2>[2]</a><td>two</table>",
            // Asciidoctor, Texinfo, lists in asides
            "<p>a<sup class=footnote>[<a id=_footnoteref_1 class=footnote href=#_footnotedef_1>1</a>]</sup> b<sup class=footnote>[<a id=_footnoteref_2 href=#_footnotedef_2>2</a>]</sup></p><div id=footnotes><hr><div class=footnote id=_footnotedef_1><a href=#_footnoteref_1>1</a>. one <em>x</em></div><div class=footnote id=_footnotedef_2><a href=#_footnoteref_2>2</a>. two</div></div>",
            "<p>a<a id=DOCF1 href=#FOOT1><sup>1</sup></a> b<a id=DOCF2 href=#FOOT2><sup>2</sup></a></p><div class=footnotes-segment><hr><h4>Footnotes</h4><h5><a id=FOOT1 href=#DOCF1>(1)</a></h5><p>one <em>x</em></p><h5><a id=FOOT2 href=#DOCF2>(2)</a></h5><p>two</div>",
            "<div><p>a<sup>1</sup> b<sup>2</sup></div><aside><ol><li>one <em>x</em></ol></aside><aside><ol start=2><li>two</ol></aside>",
            // Org mode
            "<p>a<sup><a id=fnr.1 class=footref href=#fn.1 role=doc-backlink>1</a></sup> b<sup><a id=fnr.2 class=footref href=#fn.2 role=doc-backlink>2</a></sup></p><div id=footnotes><h2 class=footnotes>Footnotes: </h2><div id=text-footnotes><div class=footdef><sup><a id=fn.1 class=footnum href=#fnr.1 role=doc-backlink>1</a></sup> <div class=footpara role=doc-footnote><p>one <em>x</em></p></div></div><div class=footdef><sup><a id=fn.2 class=footnum href=#fnr.2 role=doc-backlink>2</a></sup> <div class=footpara role=doc-footnote><p>two</p></div></div></div></div>",
            // Word
            "<p>a<a href=#_ftn1 name=_ftnref1>[1]</a> b<a href=#_ftn2 name=_ftnref2>[2]</a><p><a href=#_ftnref1 name=_ftn1>[1]</a> one <em>x</em><p><a href=#_ftnref2 name=_ftn2>[2]</a> two",
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn notes_continue_until_the_next_number() {
        for html in [
            "<p>a<sup>1</sup> b<sup>2</sup><hr><p><b>1</b> one<ul><li>x</ul><p><b>2</b> two<p>more",
            "<p>a<span class=fn><a href=#note1>1</a></span> b<span class=fn><a href=#note2>2</a></span>\
             <div class=note><p>Notes<p id=note1>1. one<ul><li>x</ul><p id=note2>2. two<p>more</div>",
        ] {
            let expected = "a[^1] b[^2]\n\n[^1]: one\n\n    - x\n\n[^2]: two\n\n    more\n";
            assert_eq!(markdown(html), expected, "{html}");
        }
        let rule = "<p>a<sup>1</sup><p>b<hr><p>1 of 3 visitors";
        assert!(markdown(rule).ends_with("1 of 3 visitors\n"), "{}", markdown(rule));
    }

    #[test]
    fn links_in_notes_stay_unless_they_lead_back() {
        let note = |links: &str| {
            let html = format!(
                "<p>a<sup><a href=#fn-1 id=r>1</a></sup><h2 id=s>S</h2>\
                 <section class=footnotes><ol><li id=fn-1><p>b {links} <a href=#r>↩</a></ol></section>"
            );
            markdown(&html)
        };
        for link in ["[1998](#s)", "[JUMP_IF](x#jump)", "[Back to S](#s)", "[4.2](#s)"] {
            let (text, target) = link[1..link.len() - 1].split_once("](").expect("a link");
            let markdown = note(&format!("<a href={target}>{text}</a>"));
            let start = format!("a[^1]\n\n## S\n\n[^1]: b [{text}]({target})\n");
            assert_eq!(markdown, start);
        }
        for link in ["↩", "^", "back", "Jump back to footnote 1 in the text"] {
            let markdown = note(&format!("<a href=#r>{link}</a>"));
            assert_eq!(markdown, "a[^1]\n\n## S\n\n[^1]: b\n", "{link}");
        }
    }

    #[test]
    fn notes_in_the_margin_are_footnotes_unless_they_repeat_one() {
        let side = "<label for=s class=margin-toggle></label><input type=checkbox id=s><span class=sidenote>one <i>x</i></span>";
        assert_eq!(markdown(&format!("<p>a{side} b.")), "a[^1] b.\n\n[^1]: one *x*\n");
        let page = |side: &str| {
            let note = "<ol><li id=n><p>two <a href=#r>↩</a></ol>";
            markdown(&format!("<p>a<sup><a id=r href=#n>1</a></sup>{side} b{note}"))
        };
        assert_eq!(page("<span class=sidenote><sup>1</sup> two</span>"), "a[^1] b\n\n[^1]: two\n");
        assert_eq!(page("<span class=marginnote> three</span>"), "a[^1] three b\n\n[^1]: two\n");
        assert_eq!(page(side), "a[^1][^2] b\n\n[^2]: one *x*\n\n[^1]: two\n");
    }

    #[test]
    fn a_note_directly_after_its_number_is_a_footnote() {
        for note in [
            "<label for=s class=sidenote-number></label><small class=sidenote>one</small>",
            "<label for=s>1</label> <span class=marginnote>one</span>",
            "<sup>1</sup><span role=tooltip id=t>one</span>",
            "<button popovertarget=p>1</button><span popover id=p>one</span>",
        ] {
            assert_eq!(
                markdown(&format!("<p>a{note} b.")).replace("a [", "a["),
                "a[^1] b.\n\n[^1]: one\n",
                "{note}"
            );
        }
        for plain in [
            "<b>a</b> <span role=tooltip>one</span>",
            "a<sup>2</sup> b <span role=tooltip>one</span>",
            "<button popovertarget=p>About it</button> <span popover id=p>one</span>",
            "<a data-definition=p>API</a> <span id=p>one</span>",
            "<button class=btn-refresh popovertarget=p>Menu</button> <span popover id=p>one</span>",
            "<button>Info</button> <span role=tooltip>one</span>",
        ] {
            let text = markdown(&format!("<p>{plain} c"));
            assert!(text.contains("one c\n") && !text.contains("[^"), "{text}");
        }
    }

    #[test]
    fn a_note_of_latexml_does_not_repeat_its_number() {
        let note = |number: &str, text: &str| {
            let mark = format!("<sup class=ltx_note_mark>{number}</sup>");
            format!(
                "<span class='ltx_note ltx_role_footnote'>{mark}<span class=ltx_note_outer>\
                 <span class=ltx_note_content>{mark}<span class=ltx_tag_note>{number}</span>{text}</span></span></span>"
            )
        };
        let html = format!("<p>a{} b{} c", note("1", ".NET"), note("2", "two"));
        assert_eq!(markdown(&html), "a[^1] b[^2] c\n\n[^1]: .NET\n\n[^2]: two\n");
    }

    #[test]
    fn notes_in_the_text_and_in_tables_of_plugins_are_footnotes() {
        let html = "<p>a<d-footnote>one <i>x</i></d-footnote> b<d-footnote>two</d-footnote> c";
        assert_eq!(markdown(html), "a[^1] b[^2] c\n\n[^1]: one *x*\n\n[^2]: two\n");
        let tooltip = "<span class=footnote_tooltip>one</span>";
        let text = |call: &str| {
            format!(
                "<p>a<span class=footnote_referrer><a role=button {call}><sup>1</sup></a>{tooltip}</span> b."
            )
        };
        let table = "<div><p>References</p><table><caption>References<tr><th id=fn_1 class=footnote_plugin_index>\
                     <a role=button>\u{2191}1</a><td>one</table></div>";
        let called = text("onclick=\"moveToReference('fn_1')\"");
        for html in [format!("{called}{table}"), text("")] {
            assert_eq!(markdown(&html), "a[^1] b.\n\n[^1]: one\n", "{html}");
        }
    }

    #[test]
    fn a_hidden_note_that_its_reference_names_is_a_footnote() {
        for (reference, state) in [
            ("<span data-definition=n><a href=#>*</a></span>", "style='display:none'"),
            ("<sup data-footnote-id=n>1</sup>", "hidden"),
            ("<button class=footnote-button popovertarget=n>1</button>", "popover"),
            ("<sup><a aria-describedby=n href='javascript:void(0)'>1</a></sup>", ""),
        ] {
            let html = format!("<p>a{reference} b<p>c<aside id=n {state}>one <i>x</i></aside>");
            assert_eq!(markdown(&html), "a[^1] b\n\nc\n\n[^1]: one *x*\n", "{reference}");
        }
        let label = "<h2 id=n>Footnotes</h2>";
        for plain in ["<b aria-describedby=n>4</b>", "<sup><a aria-describedby=n href=/x>1</a></sup>"] {
            let text = markdown(&format!("<p>a{plain} b</p>{label}<p>c"));
            assert!(!text.contains("[^"), "{text}");
        }
    }

    #[test]
    fn notes_keep_their_numbers_unless_two_are_equal() {
        let page = |first: &str, second: &str| {
            markdown(&format!(
                "<p>a<sup><a href=#m>{first}</a></sup> b<sup><a href=#n>{second}</a></sup> see 2\
                 <ol><li id=n><p>one<li id=m><p>two</ol>"
            ))
        };
        assert_eq!(page("2", "1"), "a[^2] b[^1] see 2\n\n[^1]: one\n\n[^2]: two\n");
        assert_eq!(page("*", "1"), "a[^1] b[^2] see 2\n\n[^2]: one\n\n[^1]: two\n");
        assert_eq!(page("1", "1"), "a[^1] b[^2] see 2\n\n[^2]: one\n\n[^1]: two\n");
    }

    #[test]
    fn years_of_works_are_no_numbers_of_notes() {
        let list = |entry: &dyn Fn(u32, &str) -> String| {
            format!("{}{}", entry(1, "Oak (2020) Ropes."), entry(2, "Elm, Bo. 2020. Knots."))
        };
        let latexml = list(&|id, text| {
            format!("<li id=bib.bib{id} class=ltx_bibitem><span class=ltx_tag_bibitem>{text}</span>")
        });
        let pandoc =
            list(&|id, text| format!("<div id=bib.bib{id} class=csl-entry role=listitem>{text}</div>"));
        for (html, is_list) in
            [(format!("<ul>{latexml}</ul>"), true), (format!("<div>{pandoc}</div>"), false)]
        {
            let cite = |id: u32| format!("<a href=#bib.bib{id} role=doc-biblioref>2020</a>");
            let html = format!("<p>(Oak, {}; Elm, {})<h2>References</h2>{html}", cite(1), cite(2));
            let start = "(Oak, [2020](#bib.bib1); Elm, [2020](#bib.bib2))\n\n## References\n\n";
            let entries = ["Oak (2020) Ropes.", "Elm, Bo. 2020. Knots."];
            let entries = if is_list {
                format!("- {}\n- {}\n", entries[0], entries[1])
            } else {
                entries.join("\n\n") + "\n"
            };
            assert_eq!(markdown(&html), format!("{start}{entries}"));
        }
        let html =
            "<p>a<sup><a href=#n1999 id=r>1999</a></sup><ol><li id=n1999>1999. in 1999 <a href=#r>↩</a></ol>";
        assert!(markdown(html).starts_with("a[^1999]\n"), "{}", markdown(html));
    }

    #[test]
    fn a_bibliography_that_is_cited_in_part_stays_a_list() {
        let page = |list: &str| {
            markdown(&format!("<p>a<sup><a href=#bib1 id=r>1</a>-<a href=#bib3>3</a></sup>{list}"))
        };
        let cited = "a<sup>[1](#bib1)-[3](#bib3)</sup>\n\n";
        let list = page("<ol><li id=bib1>b<li id=bib2>c<li id=bib3>d</ol>");
        assert_eq!(list, format!("{cited}1. b\n2. c\n3. d\n"));
        let entries =
            "<div><div class=e id=bib1>b</div><div class=e>c</div><div class=e id=bib3>d</div></div>";
        assert_eq!(page(entries), format!("{cited}b\n\nc\n\nd\n"));
        let uncited = "<p>a<a href=#fn1 class=footnote-ref><sup>1</sup></a><ol><li id=fn1>b<li id=fn2>c</ol>";
        assert_eq!(markdown(uncited), "a[<sup>1</sup>](#fn1)\n\n1. b\n2. c\n");
        let paragraphs = "<p class=e>a<sup><a href=#note1>1</a></sup><p class=e>b<p class=e id=note1>1. c";
        assert_eq!(markdown(paragraphs), "a[^1]\n\nb\n\n[^1]: c\n");
        let notes = "a<sup>[^1]-[^3]</sup>\n\n";
        let whole = "<ol><li id=bib1>b<li id=bib3>d</ol>";
        assert_eq!(page(whole), format!("{notes}[^1]: b\n\n[^3]: d\n"));
        let linked_back = page("<ul><li id=bib1>b <a href=#r>^</a><li>c<li id=bib3>d</ul>");
        assert_eq!(linked_back, format!("{notes}- c\n\n[^1]: b\n\n[^3]: d\n"));
    }

    #[test]
    fn exponents_are_no_footnotes() {
        for html in [
            "<p>5 m<sup>2</sup><p><sup>2</sup>H",
            "<p>5 m<sup>2</sup><hr><p>1. a<p>2. b",
            "<p>5 m<sup>3</sup><aside><ol start=3><li>a</ol></aside>",
            // Fractions, powers, isotopes and verses.
            "<p>Use <sup>1</sup>/<sub>2</sub> l<ol><li><sup>1</sup>/<sub>2</sub> cup</ol>",
            "<p>x<sup>1</sup> + <i>x</i><sup>2</sup><hr><p>1. a<p>2. b",
            "<p>The <sup>1</sup>H spectrum<p><sup>1</sup>H NMR",
            "<p>Chapter<sup>1</sup><p><sup>1</sup>a <sup>2</sup>b",
        ] {
            assert!(!markdown(html).contains("[^"), "{}", markdown(html));
        }
    }

    #[test]
    fn numbers_after_words_that_are_also_units_are_footnotes() {
        let notes = "<hr><p>1. b<p>2. c";
        for (html, expected) in [
            ("Free shipping<sup>1</sup>/returns<sup>2</sup>", "Free shipping[^1]/returns[^2]"),
            ("Windows 10<sup>1</sup> a<sup>2</sup>", "Windows 10[^1] a[^2]"),
            ("Brought in<sup>1</sup>, a<sup>2</sup>", "Brought in[^1], a[^2]"),
        ] {
            let expected = format!("{expected}\n\n[^1]: b\n\n[^2]: c\n");
            assert_eq!(markdown(&format!("<p>{html}{notes}")), expected);
        }
    }

    #[test]
    fn exponents_beside_footnotes_stay() {
        let html = "<p>5 m<sup>2</sup> a<sup>1</sup><hr><p>1. b<p>2. c";
        assert_eq!(markdown(html), "5 m<sup>2</sup> a[^1]\n\n---\n\n2\\. c\n\n[^1]: b\n");
        for note in ["b 3 m<sup>2</sup>", "b"] {
            let html = format!("<p>語<sup>1</sup>語<p><sup>1</sup>{note}");
            assert_eq!(markdown(&html), format!("語[^1]語\n\n[^1]: {note}\n"));
        }
    }

    #[test]
    fn the_beginning_of_a_note_stays() {
        let linked = |list: &str, note: &str| {
            markdown(&format!(
                "<p>a<sup id=r><a href=#fn1>1</a></sup><{list}>{note} <a href=#r>↩</a></{list}>"
            ))
        };
        for (note, expected) in [
            (".NET", ".NET"),
            ("-40 °C", "-40 °C"),
            ("–5 %", "–5 %"),
            ("1.5 m", "1.5 m"),
            ("1) b, 2) c", "1\\) b, 2) c"),
            ("<code>:root</code>", "`:root`"),
            ("<sup>14</sup>C", "<sup>14</sup>C"),
            ("<sup>1</sup>H", "<sup>1</sup>H"),
            ("b <i class=label>c</i>", "b *c*"),
            // Marks of the note.
            ("<sup>1</sup> b", "b"),
            ("[1] b", "b"),
            ("<b>1</b>. b", "b"),
            ("<i class=label>1.</i> b", "b"),
            ("<a href=#r>^</a> .NET", ".NET"),
            ("<a href=#r>1</a>. b", "b"),
            ("^ <a href=#r>1</a> b", "b"),
        ] {
            assert_eq!(
                linked("ol", &format!("<li id=fn1>{note}")),
                format!("a[^1]\n\n[^1]: {expected}\n"),
                "{note}"
            );
        }
        assert_eq!(linked("div", "<p id=fn1>1. b"), "a[^1]\n\n[^1]: b\n");
        assert_eq!(linked("div", "<p id=fn1>1.5 b"), "a[^1]\n\n[^1]: 1.5 b\n");
    }

    #[test]
    fn content_after_the_last_note_is_no_part_of_it() {
        let note = "a<sup>1</sup><hr><p>1. b";
        let after = "<p>c</p><table><tr><th>d<th>e</table>";
        let end = "---\n\nc\n\n| d | e |\n| --- | --- |\n\n[^1]: b\n";
        assert_eq!(markdown(&format!("<p>{note}{after}")), format!("a[^1]\n\n{end}"));
        let two = format!("<p>a<sup>1</sup> a<sup>2</sup><hr><p>1. b<p>b<p>2. b{after}");
        let end = "---\n\n| d | e |\n| --- | --- |\n\n[^1]: b\n\n    b\n\n[^2]: b\n\n    c\n";
        assert_eq!(markdown(&two), format!("a[^1] a[^2]\n\n{end}"));
    }

    #[test]
    fn numbers_that_link_to_themselves_are_no_footnotes() {
        let verse = |text: &str| format!("<p><sup><a id=v1 href=#v1>1</a></sup>{text}");
        let clause = |text: &str| format!("<p id=p1><a href=#p1>1</a> {text}");
        for number in [verse, clause] {
            let [first, second] = ["One.", "Two."].map(number);
            let text = markdown(&format!("<h2>A</h2>{first}<h2>B</h2>{second}"));
            let places = ["A", "One.", "B", "Two."].map(|part| text.find(part));
            assert!(places.is_sorted() && !text.contains("[^"), "{text}");
        }
        let line = "<pre><span class=line-numbers><a href=#n1 name=n1>1</a></span>x</pre>";
        let verse =
            "<pre class=wp-block-verse>a<sup><a href=#n id=r>1</a></sup></pre><p id=n>b <a href=#r>^</a>";
        assert_eq!(markdown(verse), "a[^1]\n\n[^1]: b\n");
        assert_eq!(markdown(&format!("{line}<p>a{line}")), "```\nx\n```\n\na\n\n```\nx\n```\n");
        let inside = "<p>a <a id=b href=#a>1</a><div><p id=a>c<p id=b>d <a href=#b>1</a></div>";
        assert!(markdown(inside).contains("[1](#a)"), "{}", markdown(inside));
    }

    #[test]
    fn all_references_to_a_note_are_recognized() {
        let note = "<ol><li id=fn1>b <a href=#r1>\u{21a9}</a> <a href=#r1:1>\u{21a9}</a></ol>";
        for second in ["<sup><a href=#fn1 id=r1:1>[1:1]</a></sup>", "<sup id=r1:1><a href=#fn1>1b</a></sup>"]
        {
            let html = format!("<p>a<sup><a href=#fn1 id=r1>[1]</a></sup> a{second} c{note}");
            assert_eq!(markdown(&html), "a[^1] a[^1] c\n\n[^1]: b\n", "{second}");
        }
        for other in ["1, p. 5", "pp. 3-5", "1-3", "table", "TM"] {
            let html =
                format!("<p>a<sup><a href=#fn1 id=r1>1</a></sup> a<sup><a href=#fn1>{other}</a></sup>{note}");
            let expected = format!("a[^1] a<sup>[{other}](#fn1)</sup>\n\n[^1]: b\n");
            assert_eq!(markdown(&html), expected);
        }
    }

    #[test]
    fn references_in_paragraphs_with_ids_need_not_be_raised() {
        let page = |text: &str| markdown(&format!("<p id=r>{text}<p>b<p id=n><a href=#r>[1]</a> c"));
        assert_eq!(page("a <a href=#n>[1]</a>"), "a [^1]\n\nb\n\n[^1]: c\n");
        for plain in ["<a href=#n>[1]</a> a", "a <a href=#n>[2]</a>"] {
            assert!(!page(plain).contains("[^"), "{}", page(plain));
        }
    }

    #[test]
    fn notes_that_share_a_block_are_separate() {
        let text = "<p>a<sup><a href=#n1 id=m1>1</a></sup> b<sup><a href=#n2 id=m2>2</a></sup>";
        for notes in [
            "<p><a id=n1 href=#m1>1</a> one<br><a id=n2 href=#m2>2</a> two",
            "<p>1. <a id=n1 href=#m1>^</a> one<br>2. <a id=n2 href=#m2>^</a> two",
            "<p>Notes:<br>[<a id=n1 href=#m1>1</a>] one<br>[<a id=n2 href=#m2>2</a>] two",
            "<div><span id=n1><a href=#m1>1</a> one</span><br><span id=n2><a href=#m2>2</a> two</span></div>",
            "<div><span><i id=n1></i><a href=#m1>[1]</a> one</span><span><i id=n2></i><a href=#m2>[2]</a> two</span></div>",
        ] {
            let expected = "a[^1] b[^2]\n\n[^1]: one\n\n[^2]: two\n";
            assert_eq!(markdown(&format!("{text}{notes}")), expected, "{notes}");
        }
        let loose = "<p>a<a id=r href=#n>1</a></p><a id=n href=#r>1</a> b";
        assert_eq!(markdown(loose), "a[1](#n)\n\n[1](#r) b\n");
        let titled = "<p>a<a id=r href=#n>1</a></p><div><h2>c</h2><a id=n href=#r>1</a> b</div>";
        assert_eq!(markdown(titled), "a[1](#n)\n\n## c\n\n[1](#r) b\n");
        let index =
            "<p><a href=#p1>1</a><p id=p1>a<sup><a id=r href=#n>1</a></sup><p id=n>b <a href=#r>^</a>";
        assert_eq!(markdown(index), "[1](#p1)\n\na[^1]\n\n[^1]: b\n");
        let one = "<ol><li id=n1><b id=n2>one</b> <a href=#m1>^</a> <a href=#m2>^</a></ol>";
        assert_eq!(markdown(&format!("{text}{one}")), "a[^1] b[^1]\n\n[^1]: **one**\n");
    }

    #[test]
    fn blocks_stay_with_the_last_of_the_notes_that_share_an_element() {
        let text = "<p>a<sup><a href=#n1 id=m1>1</a></sup> b<sup><a href=#n2 id=m2>2</a></sup></p>";
        let expected = "a[^1] b[^2]\n\n[^1]: one\n\n[^2]: two\n";
        for notes in [
            "<div class=notes><a name=n1></a><p>one <a href=#m1>^</a></p><a name=n2></a><p>two <a href=#m2>^</a></p></div>",
            "<div><a id=n1 href=#m1>1</a><p>one</p><a id=n2 href=#m2>2</a><p>two</p></div>",
            "<div><hr><a id=n1 href=#m1>1</a><p>one</p><a id=n2 href=#m2>2</a><p>two</p></div>",
        ] {
            assert_eq!(markdown(&format!("{text}{notes}")), expected, "{notes}");
        }
        let lists =
            "<div><a id=n1 href=#m1>1</a> one<ul><li>x</ul><a id=n2 href=#m2>2</a> two<ul><li>y</ul></div>";
        let expected = "a[^1] b[^2]\n\n[^1]: one\n\n    - x\n\n[^2]: two\n\n    - y\n";
        assert_eq!(markdown(&format!("{text}{lists}")), expected);
        let cells = "<table><tr><td><a id=n1 href=#m1>1</a><br><a id=n2 href=#m2>2</a><td>one<br>two</table>";
        let page = markdown(&format!("{text}{cells}"));
        assert!(page.starts_with("a[^1] b[^1]\n\n[^1]: ") && page.contains("one"), "{page}");
    }

    #[test]
    fn a_note_that_begins_within_a_line_does_not_take_the_line() {
        let text = "<p>a<sup><a href=#n1 id=m1>1</a></sup> b<sup><a href=#n2 id=m2>2</a></sup></p>";
        for (notes, expected) in [
            (
                "<p><a id=n1 href=#m1>1</a> First note,<br>which continues here. <a id=n2 href=#m2>2</a> Second note",
                "[^1]: First note,  \n    which continues here.\n\n[^2]: Second note\n",
            ),
            (
                "<p>1. one <a id=n1 href=#m1>^</a><br>2. two <a id=n2 href=#m2>^</a>",
                "[^1]: one  \n    2\\. two\n",
            ),
        ] {
            let number = if expected.contains("[^2]") { 2 } else { 1 };
            let expected = format!("a[^1] b[^{number}]\n\n{expected}");
            assert_eq!(markdown(&format!("{text}{notes}")), expected, "{notes}");
        }
    }

    #[test]
    fn notes_that_share_a_block_stay_in_order_and_below_their_title() {
        let text = "<p>a<sup><a href=#n1 id=m1>1</a></sup> b<sup><a href=#n2 id=m2>2</a></sup> c<sup><a href=#n3 id=m3>3</a></sup></p>";
        let notes = "<p><a id=n1 href=#m1>1</a> one<br><a id=n2 href=#m2>2</a> two</p><p><a id=n3 href=#m3>3</a> three</p>";
        let expected = "a[^1] b[^2] c[^3]\n\n[^1]: one\n\n[^2]: two\n\n[^3]: three\n";
        assert_eq!(markdown(&format!("{text}{notes}")), expected);
        let section = format!("{text}<div><p>Notes</p>{notes}<p>more of three</p></div>");
        assert_eq!(markdown(&section), format!("{expected}\n    more of three\n"));
    }

    #[test]
    fn entries_of_a_bibliography_that_share_an_item_stay_together() {
        let html = "<p>a<sup><a href=#bib1>1</a></sup> b<sup><a href=#bib2>2</a></sup> c<sup><a href=#bib4>4</a></sup></p>\
                    <ul><li id=bib0>zero<li><a name=bib1></a>[1] one<br><a name=bib2></a>[2] two<li>[3] three<li><a name=bib4></a>[4] four</ul>";
        let text = markdown(html);
        assert!(!text.contains("[^") && text.contains("one  \n"), "{text}");
        let places = ["zero", "one", "two", "three", "four"].map(|part| text.find(part));
        assert!(places.is_sorted() && places[0].is_some(), "{text}");
    }

    #[test]
    fn numbers_may_have_asterisks_and_digits_of_other_scripts() {
        for (number, note) in [
            ("*1", "<a href=#r>*1</a>: b"),
            ("**", "<a href=#r>**</a> b"),
            ("[۱]", "<a href=#r>۱</a> b"),
            ("১", "<b><a href=#r>↑</a></b> b"),
            ("[१]", "[१] b"),
            ("１", "１. b"),
        ] {
            let html = format!("<p>a<sup id=r><a href=#fn1>{number}</a></sup><p id=fn1>{note}");
            assert_eq!(markdown(&html), "a[^1]\n\n[^1]: b\n", "{html}");
        }
    }

    #[test]
    fn the_title_of_the_notes_goes_with_them_in_any_language() {
        let note = "<ol><li id=n>b <a href=#r>^</a></ol>";
        for section in [
            format!("<h2>Fußnoten:</h2>{note}"),
            format!("<section class=footnotes><h2>Tanımlar</h2>{note}</section>"),
            format!("<section class=footnotes><span class=footnotes-title>脚注</span>{note}</section>"),
        ] {
            let html = format!("<p>a<sup><a href=#n id=r>1</a></sup>{section}");
            assert_eq!(markdown(&html), "a[^1]\n\n[^1]: b\n", "{html}");
        }
        let other = format!("<p>a<sup><a href=#n id=r>1</a></sup><h2>Tanımlar</h2>{note}<p>c");
        assert_eq!(markdown(&other), "a[^1]\n\n## Tanımlar\n\nc\n\n[^1]: b\n");
        for (section, rest) in [
            (format!("<div class='post has-footnotes'><h2>c</h2>{note}</div>"), "## c"),
            (format!("<section class=footnotes>{note}<h2>c</h2></section>"), "## c"),
            (format!("<section class=footnotes><h2>c</h2><h2>Fußnoten</h2>{note}</section>"), "## c"),
            ("<div><h2>Note:</h2><p id=n><a href=#r>1</a> b<p>c<p>d</div>".to_owned(), "## Note:\n\nc\n\nd"),
            ("<div><p>Note:<p id=n><a href=#r>1</a> b<p>c<p>d</div>".to_owned(), "Note:\n\nc\n\nd"),
        ] {
            let html = format!("<p>a<sup><a href=#n id=r>1</a></sup></p>{section}");
            assert!(markdown(&html).contains(&format!("\n\n{rest}\n")), "{}", markdown(&html));
        }
    }

    #[test]
    fn asides_below_their_references_are_footnotes() {
        let page = |first: &str, second: &str| {
            markdown(&format!("<p>a<sup>1</sup></p>{first}<div><p>b<sup>2</sup></p></div>{second}<p>c"))
        };
        for (first, second) in [
            ("<aside><sup>1</sup> one</aside>", "<aside><sup>2</sup> two</aside>"),
            ("<aside>1. one</aside>", "<aside><p><small>2. two</small></aside>"),
            ("<aside><ol><li>one</ol></aside>", "<aside><ol><li value=2>two</ol></aside>"),
            ("<div role=note><ol start=1><li>one</ol></div>", "<div role=note>[2] two</div>"),
        ] {
            let expected = "a[^1]\n\nb[^2]\n\nc\n\n[^1]: one\n\n[^2]: two\n";
            assert_eq!(page(first, second), expected, "{first}{second}");
        }
        let both = "<p>a<sup>1</sup> b<sup>2</sup></p><aside><p>1. one<p>2. two</aside>";
        assert_eq!(markdown(both), "a[^1] b[^2]\n\n[^1]: one\n\n[^2]: two\n");
        let reversed = "<p>a<sup>1</sup> b<sup>2</sup></p><aside><ol reversed><li>two<li>one</ol></aside>";
        assert_eq!(markdown(reversed), "a[^1] b[^2]\n\n[^2]: two\n\n[^1]: one\n");
        let below = "<p>a<sup>1</sup></p><aside>1. b</aside><hr><p>1. c";
        assert_eq!(markdown(below), "a[^1]\n\n1\\. b\n\n[^1]: c\n");
        let steps = "<p>a<sup>1</sup><p>b<aside>1. c</aside>";
        assert_eq!(markdown(steps), "a<sup>1</sup>\n\nb\n\n1\\. c\n");
        let side = "<label for=s class=sidenote-number>1</label><input type=checkbox id=s>\
                    <span class=sidenote><span class=sidenote-number>1</span> one</span>";
        assert_eq!(markdown(&format!("<p>a{side} b")), "a[^1] b\n\n[^1]: one\n");
    }

    #[test]
    fn asides_with_other_content_are_no_footnotes() {
        let page = |aside: &str| markdown(&format!("<p>a<sup>1</sup> b<sup>2</sup></p>{aside}"));
        for aside in [
            "<div role=note class=admonition><ol><li>c<li>d</ol></div>",
            "<div role=note class='admonition warning'><p>1. c<p>d</div>",
            "<aside><b>1</b> c</aside>",
            "<p>c<div role=note><ol><li>d<li>e</ol></div>",
            "<aside><ol start=-1><li>c<li>d</ol></aside>",
            "<aside><ol reversed start=0><li>c<li>d</ol></aside>",
            "<aside><p>1. c<p>2. d<p>3. e</aside>",
        ] {
            assert!(page(aside).starts_with("a<sup>1</sup> b<sup>2</sup>\n\n"), "{}", page(aside));
        }
        let blocks = "<div role=note><p>1. one<p>more one<p>2. two<p>more two</div>";
        let expected = "a[^1] b[^2]\n\n[^1]: one\n\n    more one\n\n[^2]: two\n\n    more two\n";
        assert_eq!(page(blocks), expected);
        let bold = "<aside><b>1.</b> one</aside><aside><b>2</b>) two</aside>";
        assert_eq!(page(bold), "a[^1] b[^2]\n\n[^1]: one\n\n[^2]: two\n");
    }

    #[test]
    fn articles_may_repeat_the_ids_of_notes() {
        let article = |text: &str, note: &str| {
            format!(
                "<article><p>{text}<sup id=r><a href=#n>1</a></sup><ol><li id=n>{note} <a href=#r>^</a></ol></article>"
            )
        };
        let html = article("a", "one") + &article("b", "two");
        assert_eq!(markdown(&html), "a[^1]\n\nb[^2]\n\n[^1]: one\n\n[^2]: two\n");
    }

    #[test]
    fn links_to_sections_are_no_footnotes() {
        let section =
            "<div>see <a href=#notes-2>2</a></div><div><p>b<section id=notes-2><h2>N</h2>x</section></div>";
        assert_eq!(markdown(section), "see [2](#notes-2)\n\nb\n\n## N\n\nx\n");
        let html = "<p>see <a href=#two>2</a><h2 id=two>Two</h2><p>x";
        assert_eq!(markdown(html), "see [2](#two)\n\n## Two\n\nx\n");
    }
}
