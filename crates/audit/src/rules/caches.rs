//! Rules of the group caches.

mod vary_missing_page;

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[&vary_missing_page::RULE];
