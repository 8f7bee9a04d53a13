//! Rules of the group negotiation.

mod accept_lines_ignored;
mod accept_parameters;
mod accept_refused;
mod agent_gets_html;
mod any_gets_markdown;
mod browser_gets_markdown;
mod charset_missing;
mod charset_wrong;
mod content_type_untrue;
mod head_differs;
mod markdown_content_type;
mod media_type_case;
mod not_acceptable;
mod not_found_format;
mod q_values_ignored;
mod q_zero_ignored;
mod shared;
mod substring_negotiation;
mod user_agent_changes_content;
mod user_agent_refused;
mod user_agent_selects_format;
mod wildcard_subtype_ignored;

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[
    &agent_gets_html::RULE,
    &browser_gets_markdown::RULE,
    &any_gets_markdown::RULE,
    &accept_refused::RULE,
    &q_values_ignored::RULE,
    &q_zero_ignored::RULE,
    &wildcard_subtype_ignored::RULE,
    &accept_lines_ignored::RULE,
    &media_type_case::RULE,
    &accept_parameters::RULE,
    &substring_negotiation::RULE,
    &not_acceptable::RULE,
    &head_differs::RULE,
    &not_found_format::RULE,
    &content_type_untrue::RULE,
    &markdown_content_type::RULE,
    &charset_missing::RULE,
    &charset_wrong::RULE,
    &user_agent_selects_format::RULE,
    &user_agent_changes_content::RULE,
    &user_agent_refused::RULE,
];
