//! `screening/NAME.toml`: the operator's own phrases for screening.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::reader::Reader;
use super::toml_folder::{self, EXTENSION};
use frontdesk_screening::Lexicon;
use frontdesk_site::fault::Fault;

/// The folder of the lexicon files, within the site's folder.
pub const LEXICON_FOLDER: &str = "screening";
/// The configuration table that faults in lexicon files refer to.
const KEYS: &str = "screening";

/// Reads the files, and builds the lexicon. Records faults, and leaves out files that cannot be read. Without
/// files, or after a fault in a file's content, returns the built-in lexicon.
pub(super) fn read(r: &mut Reader<'_>) -> Arc<Lexicon> {
    let folder = r.site_folder().join(LEXICON_FOLDER);
    let mut files = BTreeMap::new();
    for name in toml_folder::list(r, LEXICON_FOLDER, KEYS) {
        let file = format!("{name}{EXTENSION}");
        match toml_folder::read(&folder, &name) {
            Ok(text) => drop(files.insert(file, text)),
            Err(error) => {
                let place = format!("{LEXICON_FOLDER}/{file}");
                r.report(Fault::error(place, None, format!("cannot be read: {error}")).about(KEYS));
            }
        }
    }
    if files.is_empty() {
        return Lexicon::built_in();
    }
    match Lexicon::with_files(&files) {
        Ok(lexicon) => Arc::new(lexicon),
        Err(fault) => {
            let place = format!("{LEXICON_FOLDER}/{}", fault.file);
            r.report(Fault::error(place, fault.line, fault.message).about(KEYS));
            Lexicon::built_in()
        }
    }
}
