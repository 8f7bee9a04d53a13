//! Rules of the group files.

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[];
