//! Rules of the group caches.

mod age_exceeds_lifetime;
mod cache_ignores_vary;
mod cache_serves_html_to_agents;
mod cache_serves_markdown_to_browsers;
mod encoding_mixed;
mod etag_invalid;
mod etag_missing_in_not_modified;
mod etag_shared_by_encodings;
mod etag_shared_by_representations;
mod etag_wrong_not_modified;
mod fresh_url_is_cached;
mod immutable_page;
mod markdown_cached_differently;
mod misserved;
mod shared;
mod vary_missing_encoding;
mod vary_missing_head;
mod vary_missing_language;
mod vary_missing_not_acceptable;
mod vary_missing_not_found;
mod vary_missing_not_modified;
mod vary_missing_page;
mod vary_missing_redirect;
mod vary_user_agent;

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[
    &cache_serves_html_to_agents::RULE,
    &cache_serves_markdown_to_browsers::RULE,
    &cache_ignores_vary::RULE,
    &vary_missing_page::RULE,
    &vary_missing_redirect::RULE,
    &vary_missing_language::RULE,
    &vary_missing_not_found::RULE,
    &vary_missing_not_acceptable::RULE,
    &vary_missing_not_modified::RULE,
    &vary_missing_head::RULE,
    &vary_missing_encoding::RULE,
    &vary_user_agent::RULE,
    &encoding_mixed::RULE,
    &etag_invalid::RULE,
    &etag_wrong_not_modified::RULE,
    &etag_shared_by_representations::RULE,
    &etag_shared_by_encodings::RULE,
    &etag_missing_in_not_modified::RULE,
    &age_exceeds_lifetime::RULE,
    &markdown_cached_differently::RULE,
    &immutable_page::RULE,
    &fresh_url_is_cached::RULE,
];
