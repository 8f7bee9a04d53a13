//! Loads a site from a folder into memory and renders it once, so that requests need no further rendering.
//!
//! In reading order: [`load()`] turns a folder into a [`Site`]; [`mod@file`] holds the bytes that the server
//! sends. [`Site::insert_page`] adds pages that do not come from Markdown.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

// Loading: reads the changed files, renders what depends on them, and composes a site.
mod load;
mod options;
mod site;
mod site_assembly;
mod site_files;
mod structure;

// Documents: the front matter of source files, and the pages that result from it.
mod document;
pub mod front_matter;
mod language;
mod pagination;
mod schedule;
mod section;
mod translations;
mod visibility;

// Bodies: converts Markdown to HTML, and to Markdown with absolute links.
mod images;
mod link_check;
pub mod link_resolution;
mod link_rewriting;
pub mod markdown;
mod page_bodies;

// Layout: the theme, its words, and the variables of its templates.
mod brand;
mod layout;
mod markdown_twin;
mod page_navigation;
mod placeholder;
mod rendered_pages;
mod search;
mod site_context;
mod theme;
mod words;

// Forms: the pages that answer visitors, and the texts of mails.
mod confirm;
mod form_answer;
mod form_function;
mod form_view;
mod mail_text;
mod no_script_form_pages;
mod plain_page;

// Builds: the output of site generators, with its rules for redirects and headers.
mod header_rules;
mod prebuilt;
mod redirects;

// Responses: paths, representations, encodings, and generated files.
mod content_signals;
mod image_variants;
mod live_reload;
mod path_registry;
pub mod resources;

#[cfg(debug_assertions)]
pub mod fuzzing;

/// Faults in the configuration or the site.
pub use frontdesk_fault as fault;
pub use frontdesk_files as file;
pub use frontdesk_publish::disk_file;
use frontdesk_site_rules as rules;
pub use frontdesk_site_rules::path;

// Loading a site.
pub use frontdesk_process::parallel::{STACK_BYTES, in_parallel};
pub use load::{LoadCache, LoadResult, SITE_FILES, load};
pub use options::{BuildOptions, FooterGroup, FooterLink, Operator, PageForm, PagesOptions};
pub use prebuilt::{ConversionCache, find_source, has_home_page, is_build};
pub use site_files::SITE_FOLDERS;

// The types of individual options.
pub use brand::{BrandOptions, Color};
pub use content_signals::ContentSignals;
pub use redirects::RedirectOption;
pub use rules::RulesDialect;
pub use rules::content_origins::{AllowedOrigin, ContentOrigins};
pub use words::{WordList, WordOverride};

// The files that the site does not publish, and why.
pub use frontdesk_publish::{
    Exclusion, ExclusionReason, PrivatePath, PublicationOptions, PublicationResult, find_containing_folder,
    resolve_path,
};

// The loaded site, which the server uses to answer requests.
pub use confirm::{CONFIRM_PATH, ConfirmPage};
pub use form_answer::{FormMessage, FormPage};
pub use frontdesk_files::{Encodings, File};
pub use language::Language;
pub use live_reload::{RELOAD_SCRIPT, RELOAD_SCRIPT_PATH};
pub use schedule::{ScheduledPage, format_time, start_of_day};
pub use site::{FEED_LENGTH, Page, PageSummary, Redirect, Role, Site, SiteEntry};

// The built-in theme, and functions that escape Markdown and parse mails.
pub use frontdesk_convert::{escape_sentence, escape_text};
pub use mail_text::{ParsedMail, Placeholder, parse_mail};
pub use theme::{BUILT_IN as BUILT_IN_THEME, FORMS_SCRIPT};
