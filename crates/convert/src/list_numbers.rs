//! Reads numbers from attributes, and numbers the items of ordered lists as browsers do.

use super::dom::{Dom, NodeId};
use std::str::FromStr;

/// The number in an attribute; `None` if the attribute is missing or not a number of this type.
pub(super) fn number_attribute<T: FromStr>(dom: &Dom, id: NodeId, name: &str) -> Option<T> {
    dom.attribute(id, name)?.trim().parse().ok()
}

/// Numbers the items of an ordered list as browsers do. Numbers may be negative.
pub(super) struct ItemNumbers<'a> {
    dom: &'a Dom,
    next: i64,
    step: i64,
}

impl<'a> ItemNumbers<'a> {
    /// Starts at the attribute `start`; without it, at 1, or at the number of items, `count`, if the list is
    /// reversed.
    pub(super) fn new(dom: &'a Dom, list: NodeId, count: usize) -> Self {
        let is_reversed = dom.has_attribute(list, "reversed");
        let (first, step) = if is_reversed { (i64::try_from(count).unwrap_or(i64::MAX), -1) } else { (1, 1) };
        ItemNumbers { dom, next: number_attribute(dom, list, "start").unwrap_or(first), step }
    }

    /// The number of an item: its attribute `value`, or the one that follows the item before. Call this for
    /// each item in order.
    pub(super) fn number(&mut self, item: NodeId) -> i64 {
        let number = number_attribute(self.dom, item, "value").unwrap_or(self.next);
        self.next = number.saturating_add(self.step);
        number
    }
}
