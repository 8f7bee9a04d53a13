//! Rules of the group files.

mod api_catalog_invalid;
mod api_catalog_link_broken;
mod content_signal_invalid;
mod content_usage_invalid;
mod file_content_type;
mod file_is_page;
mod llms_missing;
mod llms_too_long;
mod openapi_invalid;
mod openapi_servers_foreign;
mod robots_blocks_llms;
mod robots_faulty_lines;
mod robots_is_html;
mod robots_server_error;
mod robots_sitemap_broken;
mod security_txt_expired;
mod security_txt_invalid;
mod security_txt_missing;
mod shared;
mod skills_digest_wrong;
mod skills_index_invalid;
mod usage_signals_disagree;

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[
    &robots_is_html::RULE,
    &robots_server_error::RULE,
    &robots_faulty_lines::RULE,
    &robots_blocks_llms::RULE,
    &robots_sitemap_broken::RULE,
    &content_signal_invalid::RULE,
    &content_usage_invalid::RULE,
    &usage_signals_disagree::RULE,
    &file_is_page::RULE,
    &file_content_type::RULE,
    &llms_missing::RULE,
    &llms_too_long::RULE,
    &security_txt_missing::RULE,
    &security_txt_invalid::RULE,
    &security_txt_expired::RULE,
    &api_catalog_invalid::RULE,
    &api_catalog_link_broken::RULE,
    &skills_index_invalid::RULE,
    &skills_digest_wrong::RULE,
    &openapi_invalid::RULE,
    &openapi_servers_foreign::RULE,
];
