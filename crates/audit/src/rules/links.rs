//! Rules of the group links.

mod alternate_broken;
mod alternate_missing;
mod alternate_wrong_type;
mod anchor_missing;
mod canonical_broken;
mod canonical_disagrees;
mod canonical_foreign;
mod canonical_markdown;
mod canonical_other_page;
mod feed_broken;
mod feed_invalid;
mod language_link_broken;
mod language_link_invalid;
mod language_link_not_mutual;
mod language_link_wrong;
mod link_header_disagrees;
mod link_header_invalid;
mod list_texts;
mod llms_format;
mod llms_link_broken;
mod llms_link_not_markdown;
mod llms_sitemap_disagree;
mod markdown_link_broken;
mod page_link_broken;
mod production_host;
mod redirect_loop;
mod redirect_loses_representation;
mod redirect_to_loopback;
mod shared;
mod sitemap_foreign_urls;
mod sitemap_invalid;
mod sitemap_lastmod_invalid;
mod sitemap_link_broken;
mod soft_not_found;

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[
    &llms_link_broken::RULE,
    &llms_link_not_markdown::RULE,
    &llms_format::RULE,
    &llms_sitemap_disagree::RULE,
    &sitemap_invalid::RULE,
    &sitemap_link_broken::RULE,
    &sitemap_foreign_urls::RULE,
    &sitemap_lastmod_invalid::RULE,
    &alternate_broken::RULE,
    &alternate_wrong_type::RULE,
    &alternate_missing::RULE,
    &link_header_invalid::RULE,
    &link_header_disagrees::RULE,
    &feed_broken::RULE,
    &feed_invalid::RULE,
    &soft_not_found::RULE,
    &redirect_loses_representation::RULE,
    &redirect_to_loopback::RULE,
    &redirect_loop::RULE,
    &canonical_foreign::RULE,
    &canonical_broken::RULE,
    &canonical_markdown::RULE,
    &canonical_other_page::RULE,
    &canonical_disagrees::RULE,
    &language_link_broken::RULE,
    &language_link_not_mutual::RULE,
    &language_link_wrong::RULE,
    &language_link_invalid::RULE,
    &page_link_broken::RULE,
    &markdown_link_broken::RULE,
    &anchor_missing::RULE,
];
