//! Rules of the group basics.

mod asset_broken;
mod button_text_missing;
mod charset_undeclared;
mod content_late;
mod control_label_missing;
mod description_missing;
mod duplicate_host;
mod duplicate_id;
mod encoding_untrue;
mod heading_first_missing;
mod heading_first_repeated;
mod heading_levels_skipped;
mod hsts_missing;
mod http2_missing;
mod http_not_redirected;
mod https_missing;
mod image_alt_missing;
mod language_invalid;
mod language_missing;
mod link_text_missing;
mod main_landmark_missing;
mod meta_refresh;
mod mixed_content;
mod no_compression;
mod noindex_listed;
mod page_cut;
mod page_size;
mod server_errors;
mod shared;
mod slow_first_byte;
#[cfg(test)]
mod tests;
mod title_missing;
mod viewport_missing;

pub(super) use self::language_invalid::is_language_tag;
use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[
    &server_errors::RULE,
    &encoding_untrue::RULE,
    &asset_broken::RULE,
    &https_missing::RULE,
    &http_not_redirected::RULE,
    &mixed_content::RULE,
    &hsts_missing::RULE,
    &http2_missing::RULE,
    &duplicate_host::RULE,
    &slow_first_byte::RULE,
    &no_compression::RULE,
    &page_size::RULE,
    &page_cut::RULE,
    &content_late::RULE,
    &noindex_listed::RULE,
    &meta_refresh::RULE,
    &charset_undeclared::RULE,
    &language_missing::RULE,
    &language_invalid::RULE,
    &title_missing::RULE,
    &description_missing::RULE,
    &viewport_missing::RULE,
    &heading_first_missing::RULE,
    &heading_first_repeated::RULE,
    &heading_levels_skipped::RULE,
    &main_landmark_missing::RULE,
    &image_alt_missing::RULE,
    &control_label_missing::RULE,
    &link_text_missing::RULE,
    &button_text_missing::RULE,
    &duplicate_id::RULE,
];
