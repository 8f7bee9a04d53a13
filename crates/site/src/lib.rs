//! Loads a site from a folder into memory and renders it once, so that requests need no further rendering.
//!
//! In reading order: [`load()`] turns a folder into a [`Site`]; [`negotiate`] chooses a representation;
//! [`mod@file`] holds the bytes that the server sends. [`Site::insert_page`] adds pages that do not come from
//! Markdown.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

mod allowed_hosts;
mod answer_pages;
mod brand;
mod code_block;
mod compose;
mod confirm;
mod content;
mod document;
pub mod encodings;
pub mod fault;
pub mod file;
mod file_list;
mod form_page;
pub mod front_matter;
#[cfg(debug_assertions)]
pub mod fuzzing;
pub mod highlight;
pub mod html;
mod images;
mod language;
mod layout;
pub mod link;
mod link_check;
mod live_reload;
mod load;
mod mail_text;
mod maps;
pub mod markdown;
mod math;
mod media_type;
mod memo;
pub mod negotiate;
mod options;
mod page_files;
mod pagination;
mod parallel;
pub mod path;
mod path_registry;
mod placeholder;
mod plain_page;
mod prebuilt;
mod publication;
mod redirects;
mod related_pages;
pub mod resources;
mod rule_index;
mod rules;
mod schedule;
mod search;
mod section;
mod site;
mod site_context;
mod site_files;
mod structure;
mod theme;
mod translations;
mod twin;
mod variants;
mod words;

pub use allowed_hosts::{AllowedHosts, AllowedOrigin};
pub use brand::{BrandOptions, Color};
pub use confirm::{CONFIRM_PATH, ConfirmPage};
pub use encodings::Encodings;
pub use file::File;
pub use file_list::SITE_FOLDERS;
pub use form_page::{FormMessage, FormPage};
pub use frontdesk_convert::escape_text;
pub use language::Language;
pub use live_reload::{RELOAD_SCRIPT, RELOAD_SCRIPT_PATH};
pub use load::{LoadCache, LoadResult, load};
pub use mail_text::{ParsedMail, Placeholder, parse_mail};
pub use options::{BuildOptions, FooterGroup, FooterLink, Operator, PageForm, PagesOptions};
pub use parallel::{STACK_BYTES, in_parallel};
pub use prebuilt::{decode_html, find_source, has_home_page, is_build};
pub use publication::{
    Exclusion, ExclusionReason, PrivatePath, PublicationOptions, PublicationResult, find_containing_folder,
    resolve_path,
};
pub use redirects::RedirectOption;
pub use rules::RulesDialect;
pub use schedule::{ScheduledPage, format_time, start_of_day};
pub use site::{FEED_LENGTH, Page, PageSummary, Redirect, Role, Site, SiteEntry};
pub use theme::{BUILT_IN as BUILT_IN_THEME, FORMS_SCRIPT};
pub use words::{WordList, WordOverride};
