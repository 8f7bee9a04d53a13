//! Rules of the group forms.

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[];
