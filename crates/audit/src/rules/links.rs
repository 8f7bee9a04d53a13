//! Rules of the group links.

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[];
