//! Decides which files of a site's folder or of a build are published.
//!
//! [`ServedFolders`] lists the files and opens no file that has changed since. [`Publication`] decides by
//! name, mode, place and content, and collects an [`Exclusion`] for each file that is left out.
//! [`find_template_syntax`] recognizes a copy of a generator's source among its output. [`FrontMatterMarks`]
//! finds the front matter of a Markdown file.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod disk_file;
mod file_list;
mod fingerprinted_names;
mod front_matter;
pub mod media_type;
mod publication;
mod unrendered_templates;

pub use file_list::{FileChanged, FoundFile, MAX_FILE_BYTES, ServedFolders, open_unchanged};
pub use fingerprinted_names::is_fingerprinted;
pub use front_matter::FrontMatterMarks;
pub use publication::{
    Audience, ContentMark, Exclusion, ExclusionReason, PrivatePath, Publication, PublicationOptions,
    PublicationResult, examine, find_containing_folder, resolve_path,
};
pub use unrendered_templates::{TemplateSyntax, directive, find_template_syntax};
