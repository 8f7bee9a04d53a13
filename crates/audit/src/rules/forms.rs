//! Rules of the group forms.

mod api_cacheable;
mod api_charset_refused;
mod api_cors_open;
mod api_error_format;
mod api_error_undocumented;
mod api_get_broken;
mod api_invalid_accepted;
mod api_media_type_accepted;
mod api_method_not_allowed;
mod api_path_missing;
mod api_server_error;
mod api_valid_refused;
mod form_get_personal_data;
mod form_insecure_action;
mod form_no_method_fallback;
mod shared;

use crate::rule::Rule;

pub(super) const RULES: &[&Rule] = &[
    &api_path_missing::RULE,
    &api_get_broken::RULE,
    &api_method_not_allowed::RULE,
    &api_media_type_accepted::RULE,
    &api_charset_refused::RULE,
    &api_invalid_accepted::RULE,
    &api_server_error::RULE,
    &api_error_undocumented::RULE,
    &api_error_format::RULE,
    &api_cors_open::RULE,
    &api_cacheable::RULE,
    &api_valid_refused::RULE,
    &form_insecure_action::RULE,
    &form_get_personal_data::RULE,
    &form_no_method_fallback::RULE,
];
