//! `forms/NAME.toml`: the operator's own forms, and changes to the built-in ones.

use std::collections::BTreeMap;
use std::path::Path;

use super::reader::Reader;
use super::toml_folder;
use frontdesk_forms::{Form, FormFile, FormSet, MAX_FORMS};
use frontdesk_site::fault::Fault;

/// The folder of the form definitions, within the site's folder.
pub const FORMS_FOLDER: &str = "forms";
/// The configuration table with the keys of all forms: `forms.NAME.…`.
const KEYS: &str = "forms";

/// Reads all definitions, and returns the forms in the order of [`FormSet`]. The settings in the files are
/// then read as the keys `forms.NAME.…`. If a file has faults, records them, leaves the form out, and lists
/// it as faulty; a built-in form then keeps its embedded definition. A form is also faulty if another form
/// has its operation ID, or if it is beyond [`MAX_FORMS`]. All forms beyond that limit share one error.
pub(super) fn read(r: &mut Reader<'_>) -> FormSet {
    let folder = r.site_folder().join(FORMS_FOLDER);
    let names = toml_folder::list(r, FORMS_FOLDER, KEYS);
    let mut forms: Vec<&'static Form> = FormSet::built_in().iter().collect();
    // The form that uses each operation ID. IDs must differ, or agents would see two forms as one tool.
    let mut operations: BTreeMap<&'static str, &'static str> =
        forms.iter().map(|form| (form.operation_id, form.name)).collect();
    let mut faulty: Vec<String> = Vec::new();
    let mut has_too_many = false;
    for name in names {
        let place = format!("{FORMS_FOLDER}/{name}{}", toml_folder::EXTENSION);
        let Some(file) = read_file(r, &folder, &name, &place) else {
            faulty.push(name);
            continue;
        };
        for (key, value, line) in &file.settings {
            r.add_form_setting(&name, key, value, &place, *line);
        }
        let form = file.form;
        if let Some(known) = forms.iter_mut().find(|known| known.name == form.name) {
            *known = form;
        } else if let Some(other) = operations.insert(form.operation_id, form.name) {
            let message =
                format!("the forms `{other}` and `{name}` would have the same `operationId` in openapi.json");
            r.report(Fault::error(place, None, message).hint("rename one of them").about(KEYS));
            faulty.push(name);
        } else if forms.len() == MAX_FORMS {
            let message = format!("there are more than {MAX_FORMS} forms, including the two built-in ones");
            if !std::mem::replace(&mut has_too_many, true) {
                r.report(Fault::error(FORMS_FOLDER, None, message).about(KEYS));
            }
            faulty.push(name);
        } else {
            forms.push(form);
        }
    }
    for name in faulty.iter().filter(|name| FormSet::built_in().named(name).is_none()) {
        // The keys of a faulty form are not read; skip them, or they would be reported as unknown.
        r.in_table(format!("{KEYS}.{name}."), Reader::skip_table);
    }
    FormSet::new(forms).with_faulty(faulty)
}

/// Reads the definition in one file, which extends the built-in form of this name, if there is one. If the
/// file has faults, records them and returns `None`.
fn read_file(r: &mut Reader<'_>, folder: &Path, name: &str, place: &str) -> Option<FormFile> {
    let text = toml_folder::read(folder, name);
    let file = match (text, FormSet::built_in().named(name)) {
        (Err(error), _) => Err(vec![Fault::error(place, None, format!("cannot be read: {error}"))]),
        (Ok(text), Some(base)) => FormFile::extend(base, &text, place),
        (Ok(text), None) => FormFile::read(name, &text, place),
    };
    file.map_err(|faults| faults.into_iter().for_each(|fault| r.report(fault.about(KEYS)))).ok()
}
