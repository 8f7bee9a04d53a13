//! Reads a page's elements: for callers that check HTML and do not convert it.

use super::dom::{DOCUMENT, Dom, NodeId};
use super::parse;
use super::select::Selector;
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
}

impl<'a> HtmlElement<'a> {
    /// The local name in lower case, such as `a`.
    pub fn name(self) -> &'a str {
        self.dom.name(self.id)
    }

    /// The value of an attribute, by its lower-case name.
    pub fn attribute(self, name: &str) -> Option<&'a str> {
        self.dom.attribute(self.id, name)
    }

    /// The text of the element and those in it, with white space collapsed. Includes scripts and styles.
    pub fn text(self) -> String {
        self.dom.collapsed_text(self.id)
    }

    /// The elements around this one, innermost first.
    pub fn ancestors(self) -> impl Iterator<Item = HtmlElement<'a>> {
        let HtmlElement { dom, id } = self;
        dom.ancestors(id).skip(1).filter(|&id| dom.element(id).is_some()).map(|id| HtmlElement { dom, id })
    }

    /// The elements in this one that match a selector, in document order.
    pub fn all(self, selector: &Selector) -> Vec<HtmlElement<'a>> {
        selector.all(self.dom, self.id).into_iter().map(|id| HtmlElement { dom: self.dom, id }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
