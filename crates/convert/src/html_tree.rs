//! Reads a page's elements: for callers that check HTML and do not convert it.

use super::dom::{DOCUMENT, Dom, NodeId};
use super::parse;
use super::select::Selector;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// A parsed page, as a browser without JavaScript sees it. Parts beyond the limits of the parser are missing.
pub struct HtmlTree(Dom);

/// An element of an [`HtmlTree`].
#[derive(Clone, Copy)]
pub struct HtmlElement<'a> {
    dom: &'a Dom,
    id: NodeId,
}

/// Elements are equal if they are the same element of the same page.
impl PartialEq for HtmlElement<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.dom, other.dom) && self.id == other.id
    }
}

impl Eq for HtmlElement<'_> {}

impl Hash for HtmlElement<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl HtmlTree {
    /// Parses a page. Never fails, because HTML defines a tree for every input.
    pub fn parse(html: &str) -> HtmlTree {
        HtmlTree(parse::parse(html))
    }

    /// Returns the elements that match a selector, in document order, including those inside another match.
    pub fn all(&self, selector: &Selector) -> Vec<HtmlElement<'_>> {
        selector.all(&self.0, DOCUMENT).into_iter().map(|id| HtmlElement { dom: &self.0, id }).collect()
    }

    /// Returns the forms with their controls (`input`, `select`, `textarea` and `button`), both in document
    /// order. A control with the attribute `form` belongs to the form with this `id`, and another one to the
    /// innermost form around it. Leaves out controls that belong to no form, and what is in a `<template>`:
    /// browsers neither show nor send that.
    pub fn forms(&self) -> Vec<(HtmlElement<'_>, Vec<HtmlElement<'_>>)> {
        let elements = self.0.descendants(DOCUMENT).map(|id| HtmlElement { dom: &self.0, id });
        let is_shown = |element: &HtmlElement| element.ancestors().all(|outer| outer.name() != "template");
        let names = ["form", "input", "select", "textarea", "button"];
        let found = elements.filter(|element| names.contains(&element.name())).filter(is_shown);
        let (forms, controls): (Vec<_>, Vec<_>) = found.partition(|element| element.name() == "form");
        let places: HashMap<NodeId, usize> = forms.iter().map(|form| form.id).zip(0..).collect();
        let mut ids = HashMap::new();
        for (form, place) in forms.iter().zip(0..) {
            if let Some(id) = form.attribute("id").filter(|id| !id.is_empty()) {
                ids.entry(id).or_insert(place);
            }
        }
        let mut forms: Vec<_> = forms.into_iter().map(|form| (form, Vec::new())).collect();
        for control in controls {
            let place = match control.attribute("form") {
                Some(id) => ids.get(id),
                None => control.ancestors().find_map(|outer| places.get(&outer.id)),
            };
            if let Some((_, controls)) = place.and_then(|place| forms.get_mut(*place)) {
                controls.push(control);
            }
        }
        forms
    }
}

impl<'a> HtmlElement<'a> {
    /// The local name, such as `a`: in lower case, except for some SVG names, such as `foreignObject`.
    pub fn name(self) -> &'a str {
        self.dom.name(self.id)
    }

    /// The value of an attribute by its local name: lower case, except some names in SVG and MathML.
    pub fn attribute(self, name: &str) -> Option<&'a str> {
        self.dom.attribute(self.id, name)
    }

    /// The text in the element and its descendants, with white space collapsed. Includes scripts and styles.
    pub fn text(self) -> String {
        self.dom.collapsed_text(self.id)
    }

    /// The elements around this one, innermost first.
    pub fn ancestors(self) -> impl Iterator<Item = HtmlElement<'a>> {
        let HtmlElement { dom, id } = self;
        dom.ancestors(id).skip(1).filter(|&id| dom.element(id).is_some()).map(|id| HtmlElement { dom, id })
    }

    /// The elements in this one that match a selector, in document order. Their ancestors outside of this
    /// element count for the match.
    pub fn all(self, selector: &Selector) -> Vec<HtmlElement<'a>> {
        selector.all(self.dom, self.id).into_iter().map(|id| HtmlElement { dom: self.dom, id }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_belong_to_the_form_that_sends_them() {
        let tree = HtmlTree::parse(
            "<input name=a form=y><form id=x><p><input name=b></p><select name=c></select><input name=d form=y>\
             <template><input name=e></template></form><form id=y><textarea name=f></textarea></form>\
             <form id=y></form><button name=g><template><form><input name=h></form></template><input name=i form=z>",
        );
        let names = |controls: &[HtmlElement]| -> String {
            controls.iter().filter_map(|control| control.attribute("name")).collect()
        };
        let found: Vec<String> = tree.forms().iter().map(|(_, controls)| names(controls)).collect();
        assert_eq!(found, ["bc", "adf", ""]);
    }

    #[test]
    fn elements_are_selected_with_their_attributes_and_text() {
        let tree = HtmlTree::parse("<main><ul><li id=a>x <b>y</b><ul><li id=b>z</ul></ul></main><li id=c>w");
        let selector = Selector::parse("main li").unwrap();
        let found: Vec<_> = tree.all(&selector);
        let read = |element: &HtmlElement| (element.attribute("id").unwrap().to_owned(), element.text());
        assert_eq!(
            found.iter().map(read).collect::<Vec<_>>(),
            [("a".to_owned(), "x yz".to_owned()), ("b".to_owned(), "z".to_owned())]
        );
        let names: Vec<_> = found[1].ancestors().map(HtmlElement::name).collect();
        assert_eq!(names, ["ul", "li", "ul", "main", "body", "html"]);
        let inner = Selector::parse("li").unwrap();
        assert_eq!(found[0].all(&inner).len(), 1);
        assert!(found[0].all(&inner)[0] == found[1] && found[0] != found[1]);
    }
}
