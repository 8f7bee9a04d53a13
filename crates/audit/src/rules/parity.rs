//! Rules of the group parity.

mod changing_text;
mod code;
mod comparison;
mod markdown_code_altered;
mod markdown_code_missing;
mod markdown_cut;
mod markdown_empty;
mod markdown_extra_text;
mod markdown_garbled;
mod markdown_headings_missing;
mod markdown_leftovers;
mod markdown_links_missing;
mod markdown_menus;
mod markdown_numbers_differ;
mod markdown_table_missing;
mod markdown_text_missing;
mod markdown_title_differs;
mod markdown_title_missing;
mod numbers;
mod text_only_by_scripts;
mod twin_differs;

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[
    &markdown_empty::RULE,
    &markdown_cut::RULE,
    &markdown_text_missing::RULE,
    &markdown_numbers_differ::RULE,
    &markdown_table_missing::RULE,
    &markdown_extra_text::RULE,
    &markdown_headings_missing::RULE,
    &markdown_title_missing::RULE,
    &markdown_title_differs::RULE,
    &markdown_links_missing::RULE,
    &markdown_code_missing::RULE,
    &markdown_code_altered::RULE,
    &markdown_garbled::RULE,
    &markdown_leftovers::RULE,
    &markdown_menus::RULE,
    &twin_differs::RULE,
    &text_only_by_scripts::RULE,
];
