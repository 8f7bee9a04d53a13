//! The forms on the pages of a build: `<form data-frontdesk="NAME">`.

use std::sync::Arc;

use crate::fault::{Fault, did_you_mean};
use crate::options::{PageForm, no_such_form};
use frontdesk_convert::Converted;
use frontdesk_forms::FormSet;

/// The Markdown of each form, by name.
pub(super) type FormTexts = Arc<[(String, String)]>;

pub(super) fn texts(forms: &[PageForm]) -> FormTexts {
    forms.iter().map(|form| (form.definition.name.to_owned(), form.markdown.clone())).collect()
}

/// Adds the Markdown of the page's forms that the page's Markdown lacks, such as those outside of the main
/// region, at its end.
pub(super) fn with_all_forms(mut converted: Converted, forms: &[(String, String)]) -> Converted {
    for (_, markdown) in forms.iter().filter(|(name, _)| converted.forms.contains(name)) {
        if !converted.markdown.contains(markdown.trim()) {
            converted.markdown.extend(["\n", markdown.trim(), "\n"]);
        }
    }
    converted
}

/// The names of the site's forms that pages show, each once. `shown` are the files of the pages, and the
/// names that each uses. Warns of names that no form has, except for those of forms whose files have faults.
pub(super) fn find_forms<'a>(
    shown: impl Iterator<Item = (&'a str, &'a [String])>,
    forms: &[PageForm],
    set: &FormSet,
    faults: &mut Vec<Fault>,
) -> Vec<&'static str> {
    let names: Vec<&'static str> = forms.iter().map(|form| form.definition.name).collect();
    let mut found = Vec::new();
    for (file, name) in shown.flat_map(|(file, names)| names.iter().map(move |name| (file, name))) {
        match names.iter().find(|known| *known == name) {
            Some(known) if found.contains(known) => {}
            Some(known) => found.push(*known),
            None if set.is_faulty(name) => {}
            None => {
                let message = format!("there is no form `{name}`, which `data-frontdesk` names");
                let hint = did_you_mean(name, names.iter().copied(), || no_such_form(&names));
                faults.push(Fault::warning(file, None, message).hint(hint));
            }
        }
    }
    found
}
