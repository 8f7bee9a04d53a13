//! Rules of the group basics.

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[];
