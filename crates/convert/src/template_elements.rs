//! Moves what a page carries in templates to where browsers show it: declarative shadow trees, the content of
//! Astro's components, and the parts that React and Solid stream after the page.

use super::dom::{DOCUMENT, Data, Dom, NodeId, Tag, clip};
use super::parse::{MAX_TREE_DEPTH, detach_deep_nodes};
use std::collections::{HashMap, HashSet};

/// Maximum number of bytes to read from the arguments of a streaming function, such as React's `$RC`.
const MAX_ARGUMENT_BYTES: usize = 200;

/// Puts the content of declarative shadow trees and of Astro's components, and the parts that React and Solid
/// stream, where browsers show them. Other templates stay as they are. If there is a shadow tree, replaces
/// every `<slot>` of the page with its content. Then detaches nodes that are too deep.
pub(super) fn show_templates(dom: &mut Dom) {
    let templates: Vec<NodeId> =
        dom.descendants(DOCUMENT).filter(|&id| dom.tag(id) == Tag::Template).collect();
    show_streamed_parts(dom, &templates);
    let mut has_slots = false;
    for &id in &templates {
        // If a component runs only in the browser, Astro puts the content for it into a template.
        if dom.has_attribute(id, "data-astro-template") {
            dom.move_children_before(id, id);
            dom.detach(id);
            continue;
        }
        let is_shadow = dom
            .attribute(id, "shadowrootmode")
            .is_some_and(|mode| ["open", "closed"].iter().any(|name| mode.eq_ignore_ascii_case(name)));
        if is_shadow && let Some(host) = dom.parent(id) {
            show_shadow_tree(dom, host, id);
            has_slots = true;
        }
    }
    // Replace each slot with its content: items and rows must be direct children of their list or table.
    let slots = dom.descendants(DOCUMENT).filter(|&id| has_slots && dom.tag(id) == Tag::Slot);
    for slot in slots.collect::<Vec<NodeId>>() {
        dom.move_children_before(slot, slot);
        dom.detach(slot);
    }
    // Moving makes nodes deeper, up to the sum of the depths of their old and new places.
    if !templates.is_empty() {
        detach_deep_nodes(dom);
    }
}

/// Replaces the children of `host` with its shadow tree, and moves those children into its slots (DOM
/// §4.2.2.3). Children without a slot are dropped, because browsers do not show them. A slot without children
/// of the host keeps its own content.
fn show_shadow_tree(dom: &mut Dom, host: NodeId, template: NodeId) {
    let mut slots: HashMap<String, NodeId> = HashMap::new();
    // The slots in a nested template belong to another host.
    let is_other = |id| id != template && dom.tag(id) == Tag::Template;
    for slot in dom.walk(template, is_other).filter(|&id| dom.tag(id) == Tag::Slot) {
        slots.entry(dom.attribute(slot, "name").unwrap_or_default().to_owned()).or_insert(slot);
    }
    let children: Vec<NodeId> = dom.children(host).filter(|&child| child != template).collect();
    let mut filled = HashSet::new();
    for child in children {
        let is_blank =
            dom.element(child).is_none() && dom.text(child).is_none_or(|text| text.trim().is_empty());
        let slot = slots.get(dom.attribute(child, "slot").unwrap_or_default()).copied();
        match slot {
            Some(slot) if !is_blank => {
                if filled.insert(slot) {
                    dom.detach_children(slot);
                }
                dom.append(slot, child);
            }
            // White space separates words, but does not fill a slot.
            Some(slot) if filled.contains(&slot) => dom.append(slot, child),
            _ => dom.detach(child),
        }
    }
    dom.move_children_before(template, template);
    dom.detach(template);
}

/// Moves the parts that React streams in hidden elements, and Solid in templates, to the templates that mark
/// their places, as the scripts on the page do: `$RC("B:0","S:0")` and `$df("0")` replace the template and
/// the fallback after it, and `$RS("S:1","P:1")` replaces only the template.
fn show_streamed_parts(dom: &mut Dom, templates: &[NodeId]) {
    let templates_by_id: HashMap<String, NodeId> =
        templates.iter().filter_map(|&id| Some((dom.attribute(id, "id")?.to_owned(), id))).collect();
    let is_target_id = |name: &String| name.contains("B:") || name.contains("P:") || name.starts_with(SOLID);
    if !templates_by_id.keys().any(is_target_id) {
        return;
    }
    let (mut parts, mut calls) = (HashMap::new(), Vec::new());
    for id in dom.descendants(DOCUMENT) {
        if dom.tag(id) == Tag::Script {
            read_calls(&dom.text_content(id), &mut calls);
        } else if let Some(name) = dom.attribute(id, "id").filter(|name| name.contains("S:")) {
            parts.entry(name.to_owned()).or_insert(id);
        }
    }
    for (target_id, part_id) in calls {
        let part = parts.get(&part_id).or_else(|| templates_by_id.get(&part_id));
        let (Some(&target), Some(&part)) = (templates_by_id.get(&target_id), part) else { continue };
        // Skip a part that contains the template to replace, or that has already been moved.
        let above: Vec<NodeId> = dom.ancestors(target).take(MAX_TREE_DEPTH).collect();
        if above.len() == MAX_TREE_DEPTH
            || above.contains(&part)
            || dom.parent(target).is_none()
            || dom.parent(part).is_none()
        {
            continue;
        }
        match dom.attribute(target, "id") {
            Some(name) if name.starts_with(SOLID) => {
                let end = name.to_owned();
                remove_fallback(dom, target, &end);
            }
            Some(name) if name.contains("B:") => remove_fallback(dom, target, "/$"),
            _ => {}
        }
        dom.move_children_before(target, part);
        dom.detach(target);
        dom.detach(part);
    }
}

/// Prefix of the ids of the templates that mark where Solid inserts streamed parts.
const SOLID: &str = "pl-";

/// Collects the arguments of each call of a streaming function: the id of the template to replace, and the
/// id of the part that replaces it. The calls of Solid come first; React's `$RS` has the part as its first
/// argument, `$RC` and `$RR` have the template.
fn read_calls(script: &str, calls: &mut Vec<(String, String)>) {
    for call in script.split("$df(\"").skip(1) {
        if let Some((part_id, _)) = clip(call, MAX_ARGUMENT_BYTES).split_once('"') {
            calls.push((format!("{SOLID}{part_id}"), part_id.to_owned()));
        }
    }
    let mut rest = script;
    while let Some(at) = rest.find("$R") {
        rest = &rest[at + 2..];
        let arguments = ["C(\"", "R(\"", "S(\""].iter().find_map(|name| rest.strip_prefix(name));
        let mut texts = clip(arguments.unwrap_or_default(), MAX_ARGUMENT_BYTES).split('"');
        if let (Some(first), Some(","), Some(second)) = (texts.next(), texts.next(), texts.next()) {
            let (target_id, part_id) = if rest.starts_with('S') { (second, first) } else { (first, second) };
            calls.push((target_id.to_owned(), part_id.to_owned()));
        }
    }
}

/// Removes the fallback that a boundary shows until its content arrives: the nodes up to the comment
/// `ending`, which ends the boundary. Removes nothing if there is no such comment.
fn remove_fallback(dom: &mut Dom, target: NodeId, ending: &str) {
    let mut fallback = Vec::new();
    let mut depth = 0;
    let mut ends = false;
    for id in dom.nodes_after(target) {
        if let Data::Comment(text) = &dom.node(id).data {
            match &**text {
                text if text == ending && depth == 0 => {
                    ends = true;
                    break;
                }
                // Solid uses comments such as `$` for other things. Its fallback ends with a comment that
                // has the id of the template.
                _ if ending != "/$" => {}
                "/$" => depth -= 1,
                "$" | "$?" | "$!" | "$~" => depth += 1,
                _ => {}
            }
        }
        fallback.push(id);
    }
    if ends {
        for id in fallback {
            dom.detach(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    fn declarative_shadow_trees_are_content() {
        for (html, expected) in [
            ("<x-a><template shadowrootmode=open><style>p{}</style><p>a</template></x-a>", "a\n"),
            (
                "<x-a>b<i slot=t>c</i><u slot=no>d</u><template shadowrootmode=closed><p><slot name=t>e</slot><p><slot>f</slot></template></x-a>",
                "*c*\n\nb\n",
            ),
            ("<x-a><template shadowrootmode=open><slot>f</slot></template></x-a>", "f\n"),
            (
                "<x-a><template shadowrootmode=open><slot>f</slot></template> <b>a</b> <i>b</i></x-a>",
                "**a** *b*\n",
            ),
            (
                "<x-a><template shadowrootmode=open><ul><slot></slot></ul></template><li>a<li>b</x-a>",
                "- a\n- b\n",
            ),
            (
                "<x-a><template shadowrootmode=open><x-b><template shadowrootmode=open><p>g<slot></slot></template>h</x-b></template></x-a>",
                "gh\n",
            ),
            (
                "<x-a><template shadowrootmode=open><x-b><template shadowrootmode=open><div><slot></slot></div></template><slot></slot></x-b></template><p>i</x-a>",
                "i\n",
            ),
            (
                "<x-a><template shadowrootmode=open><template><slot name=s></slot></template><slot name=s></slot></template><p slot=s>j</x-a>",
                "j\n",
            ),
            ("<x-a><template shadowrootmode=Open><p>k</template></x-a>", "k\n"),
            ("a<template><p>b</template>", "a\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn nested_shadow_trees_cannot_make_the_tree_too_deep() {
        let divs = |tag: &str| tag.repeat(100);
        let start = format!(
            "<template shadowrootmode=open>{}<slot></slot>{}</template>",
            divs("<div>"),
            divs("</div>")
        );
        let html = format!("y<x-a>{start}").repeat(100);
        assert_eq!(markdown(&html), "y\n\ny\n\ny\n\ny\n");
    }

    #[test]
    fn streamed_parts_replace_what_is_shown_meanwhile() {
        let page = "<!doctype html><title>t</title><body><main><h1>t</h1><!--$?--><template id=B:0></template><p>Loading</p>\
            <!--$--><p>more</p><!--/$--><!--/$--><p>end</main><div hidden id=S:0><p>a</p><template id=P:1></template></div>\
            <script>$RC(\"B:0\",\"S:0\")</script><div hidden id=S:1><p>b</div><script>$RS(\"S:1\",\"P:1\")</script>";
        assert_eq!(markdown(page), "# t\n\na\n\nb\n\nend\n");
        let solid = "<main><template id=pl-0-0></template><!--$--><p>Loading<p>more</p><!--pl-0-0--><p>end</main>\
            <template id=0-0><p>a<template id=pl-0-1></template><!--pl-0-1--></template><script>$df(\"0-0\");$df(\"x\")\
            </script><template id=0-1>b</template><script>$df(\"0-1\")</script>";
        assert_eq!(markdown(solid), "ab\n\nend\n");
        assert_eq!(markdown(&solid.replace("$df", "no")), "Loading\n\nmore\n\nend\n");
        // Without a call of React's function, the template and the hidden part stay as they are.
        let page = page.replace("$RC", "no");
        assert_eq!(markdown(&page), "# t\n\nLoading\n\nmore\n\nend\n");
    }
}
