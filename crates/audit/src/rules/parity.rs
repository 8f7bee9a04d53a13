//! Rules of the group parity.

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[];
