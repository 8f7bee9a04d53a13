//! The forms on the pages of a build: `<form data-frontdesk="NAME">`.

use std::sync::Arc;

use super::html_pages::HtmlPage;
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

/// Warns about pages at the endpoints of forms, which take precedence.
pub(super) fn report_endpoints(pages: &[HtmlPage<'_>], forms: &FormSet, faults: &mut Vec<Fault>) {
    for page in pages {
        let Some(form) = forms.iter().find(|form| form.path == page.path) else { continue };
        let (path, name) = (form.path, form.name);
        let message = format!("the page cannot be reached: `{path}` is the endpoint of the form `{name}`");
        let hint = format!("rename the page, or write `enabled = false` below `[forms.{name}]`");
        faults.push(Fault::warning(page.name(), None, message).hint(hint));
    }
}
