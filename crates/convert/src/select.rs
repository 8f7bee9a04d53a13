//! Matches CSS selectors against a [`Dom`].

use super::dom::{Dom, NodeId, Tag};
use cssparser::{Parser, ToCss};
use html5ever::{LocalName, Namespace, QualName};
use precomputed_hash::PrecomputedHash;
use selectors::attr::{AttrSelectorOperation, CaseSensitivity, NamespaceConstraint};
use selectors::bloom::BloomFilter;
use selectors::context::{
    MatchingContext, MatchingForInvalidation, MatchingMode, NeedsSelectorFlags, QuirksMode, SelectorCaches,
};
use selectors::matching::{ElementSelectorFlags, matches_selector_list};
use selectors::parser::{ParseRelative, SelectorList, SelectorParseErrorKind};
use selectors::{Element, OpaqueElement};
use std::fmt;

/// A parsed list of CSS selectors.
#[derive(Clone, Debug)]
pub struct Selector(SelectorList<Css>);

impl Selector {
    /// Parses a list of selectors, for example `main, .content > article`. Fails if its syntax is invalid,
    /// for pseudo-elements, and for pseudo-classes such as `:hover` that depend on how a page is displayed.
    pub fn parse(css: &str) -> Result<Self, String> {
        let mut parser = Parser::new(css);
        SelectorList::parse(&Rules, &mut parser, ParseRelative::No).map(Self).map_err(|_| {
            format!("not a CSS selector: {css} (`:hover`, `::before` and the like are not supported)")
        })
    }

    /// The matching elements below `root`, in document order, except those inside another match.
    pub(super) fn outermost(&self, dom: &Dom, root: NodeId) -> Vec<NodeId> {
        let mut caches = SelectorCaches::default();
        let mut context = matching_context(&mut caches);
        dom.outermost(root, |id| matches_selector_list(&self.0, ElementRef { dom, id }, &mut context))
    }

    /// The matching elements below `root`, in document order.
    pub(super) fn all(&self, dom: &Dom, root: NodeId) -> Vec<NodeId> {
        let mut caches = SelectorCaches::default();
        let mut context = matching_context(&mut caches);
        let is_match = |&id: &NodeId| {
            dom.element(id).is_some() && matches_selector_list(&self.0, ElementRef { dom, id }, &mut context)
        };
        dom.descendants(root).filter(is_match).collect()
    }
}

fn matching_context(caches: &mut SelectorCaches) -> MatchingContext<'_, Css> {
    MatchingContext::new(
        MatchingMode::Normal,
        None,
        caches,
        QuirksMode::NoQuirks,
        NeedsSelectorFlags::No,
        MatchingForInvalidation::No,
    )
}

/// An element in the form that the `selectors` crate requires.
#[derive(Clone, Copy)]
struct ElementRef<'a> {
    dom: &'a Dom,
    id: NodeId,
}

impl fmt::Debug for ElementRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "element {:?}", self.id)
    }
}

impl<'a> ElementRef<'a> {
    fn with_id(self, id: Option<NodeId>) -> Option<Self> {
        id.map(|id| Self { dom: self.dom, id })
    }

    fn name(self) -> Option<&'a QualName> {
        self.dom.element(self.id).map(|element| &element.name)
    }
}

/// Methods that are false for all elements, because there are no shadow trees, pseudo-elements, custom states
/// and Bloom filters.
macro_rules! never {
    ($($name:ident($($argument:ty)?))*) => { $(fn $name(&self $(, _: $argument)?) -> bool { false })* };
}

impl Element for ElementRef<'_> {
    type Impl = Css;

    fn opaque(&self) -> OpaqueElement {
        OpaqueElement::new(self.dom.node(self.id))
    }

    fn parent_element(&self) -> Option<Self> {
        self.with_id(self.dom.parent(self.id).filter(|&p| self.dom.element(p).is_some()))
    }

    fn containing_shadow_host(&self) -> Option<Self> {
        None
    }

    never! {
        parent_node_is_shadow_root()
        is_pseudo_element()
        is_html_slot_element()
        has_custom_state(&Name)
        is_part(&Name)
        add_element_unique_hashes(&mut BloomFilter)
    }

    fn prev_sibling_element(&self) -> Option<Self> {
        self.with_id(self.dom.previous_element(self.id))
    }

    fn next_sibling_element(&self) -> Option<Self> {
        self.with_id(self.dom.next_element(self.id))
    }

    fn first_element_child(&self) -> Option<Self> {
        self.with_id(self.dom.child_elements(self.id).next())
    }

    fn is_html_element_in_html_document(&self) -> bool {
        self.has_namespace(&html5ever::ns!(html))
    }

    fn has_local_name(&self, name: &LocalName) -> bool {
        self.name().is_some_and(|own| own.local == *name)
    }

    fn has_namespace(&self, namespace: &Namespace) -> bool {
        self.name().is_some_and(|own| own.ns == *namespace)
    }

    fn is_same_type(&self, other: &Self) -> bool {
        self.name().map(|own| (&own.local, &own.ns)) == other.name().map(|own| (&own.local, &own.ns))
    }

    /// Whether a matching attribute exists, regardless of the attribute's namespace.
    fn attr_matches(
        &self,
        _: &NamespaceConstraint<&Namespace>,
        name: &Name,
        operation: &AttrSelectorOperation<&Name>,
    ) -> bool {
        self.dom.attribute(self.id, &name.0).is_some_and(|value| operation.eval_str(value))
    }

    fn match_non_ts_pseudo_class(&self, pseudo: &Pseudo, _: &mut MatchingContext<'_, Css>) -> bool {
        match *pseudo {}
    }

    fn match_pseudo_element(&self, pseudo: &Pseudo, _: &mut MatchingContext<'_, Css>) -> bool {
        match *pseudo {}
    }

    fn apply_selector_flags(&self, _: ElementSelectorFlags) {}

    fn is_link(&self) -> bool {
        self.dom.tag(self.id) == Tag::A && self.dom.has_attribute(self.id, "href")
    }

    fn has_id(&self, id: &Name, case: CaseSensitivity) -> bool {
        self.dom.attribute(self.id, "id").is_some_and(|own| case.eq(own.as_bytes(), id.0.as_bytes()))
    }

    /// Reads only the first 2000 bytes of the attribute, like [`Dom::classes`].
    fn has_class(&self, class: &Name, case: CaseSensitivity) -> bool {
        self.dom.classes(self.id).any(|own| case.eq(own.as_bytes(), class.0.as_bytes()))
    }

    fn imported_part(&self, _: &Name) -> Option<Name> {
        None
    }

    fn is_empty(&self) -> bool {
        let is_content = |c| self.dom.element(c).is_some() || self.dom.text(c).is_some_and(|t| !t.is_empty());
        !self.dom.children(self.id).any(is_content)
    }

    fn is_root(&self) -> bool {
        self.parent_element().is_none()
    }
}

/// The types that the `selectors` crate uses for the parts of a selector.
#[derive(Clone, Debug)]
struct Css;

impl selectors::SelectorImpl for Css {
    type ExtraMatchingData<'a> = ();
    type AttrValue = Name;
    type Identifier = Name;
    type LocalName = Name;
    type NamespaceUrl = Namespace;
    type NamespacePrefix = Name;
    type BorrowedNamespaceUrl = Namespace;
    type BorrowedLocalName = LocalName;
    type NonTSPseudoClass = Pseudo;
    type PseudoElement = Pseudo;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Name(LocalName);

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(LocalName::from(text))
    }
}

impl std::borrow::Borrow<LocalName> for Name {
    fn borrow(&self) -> &LocalName {
        &self.0
    }
}

impl ToCss for Name {
    fn to_css<W: fmt::Write>(&self, dest: &mut W) -> fmt::Result {
        dest.write_str(&self.0)
    }
}

impl PrecomputedHash for Name {
    fn precomputed_hash(&self) -> u32 {
        self.0.precomputed_hash()
    }
}

/// Pseudo-classes such as `:hover`, and pseudo-elements. Has no variants: selectors that contain them are
/// rejected as invalid, because pages are not displayed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pseudo {}

impl ToCss for Pseudo {
    fn to_css<W: fmt::Write>(&self, _: &mut W) -> fmt::Result {
        match *self {}
    }
}

impl selectors::parser::NonTSPseudoClass for Pseudo {
    fn is_active_or_hover(&self) -> bool {
        match *self {}
    }

    fn is_user_action_state(&self) -> bool {
        match *self {}
    }
}

impl selectors::parser::PseudoElement for Pseudo {}

struct Rules;

impl selectors::parser::Parser<'_> for Rules {
    type Impl = Css;
    type Error = SelectorParseErrorKind;

    fn parse_is_and_where(&self) -> bool {
        true
    }

    fn parse_has(&self) -> bool {
        true
    }

    fn parse_nth_child_of(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::dom::DOCUMENT;
    use super::super::parse::parse;
    use super::*;

    fn count(css: &str) -> usize {
        let dom = parse(
            "<main id=m><p class='a b'>x<p data-x=1>y<ul><li>1<li>2<li>3</ul></main><DIV class=a><div class=a></div></DIV>",
        );
        Selector::parse(css).expect("a selector").outermost(&dom, DOCUMENT).len()
    }

    #[test]
    fn matches_like_a_browser() {
        for (css, expected) in [
            ("p", 2),
            ("#m > p.a.b", 1),
            ("[data-x='1'], li:nth-child(2)", 2),
            ("main:has(li) p + p", 1),
            ("DIV.a", 1),
            (":is(ul, p):not(.a)", 2),
            ("aside", 0),
        ] {
            assert_eq!(count(css), expected, "{css}");
        }
    }

    #[test]
    fn an_element_with_only_a_comment_is_empty() {
        let dom = parse("<i></i><i><!-- x --></i><i><?x?></i><i> </i><i><b>x</b></i><i><!-- x -->y</i>");
        assert_eq!(Selector::parse("i:empty").expect("a selector").all(&dom, DOCUMENT).len(), 3);
    }

    #[test]
    fn rejects_what_is_no_selector() {
        for css in ["", "p >", "p:hover", "::before", "{"] {
            assert!(Selector::parse(css).is_err(), "{css}");
        }
    }
}
