//! Rules of the group negotiation.

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[];
