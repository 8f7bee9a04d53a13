//! `/agents.md`: a guide to the site and its forms, for agents.

use minijinja::context;
use minijinja::value::{Serde, Value};

use super::formatting::{format_duration, heading, list_item, render};
use super::forms::{CONFIRMATION, form_section};
use super::options::ResourceOptions;
use super::wording;
use crate::{PageSummary, PagesOptions, escape_text};
use frontdesk_convert::escape_paragraph;
use frontdesk_forms::{CONTACT, DedupKey, Form, FormSet, WAITLIST};

/// Builds `agents.md`: how to use the forms, their limits, and the pages of all languages except posts and
/// lists.
pub(super) fn build(pages: &[PageSummary], options: &PagesOptions, resources: &ResourceOptions) -> String {
    let base = &options.base_url;
    let pages = pages.iter().filter(|page| !page.is_post && !page.is_generated);
    let forms = &options.form_set;
    let title = match wording::site_name(options) {
        "" => "Guide for agents".to_owned(),
        name => format!("{name}: guide for agents"),
    };
    let values = context! {
        heading => heading(&title, &options.description),
        introduction => escape_paragraph(&wording::introduction(options)),
        endpoints => endpoints(forms),
        access => wording::access(forms.iter().len(), resources),
        base => base.as_str(),
        operator => Value::from(Serde(&options.operator)),
        confirmation => CONFIRMATION,
        forms => forms.iter().map(|form| form_section(form, base)).collect::<Vec<_>>(),
        repeats => repeats(forms),
        has_contact_form => forms.named(CONTACT.name).is_some(),
        confirms_waitlist => options.confirming.contains(&WAITLIST.name),
        quotas => resources.quotas.map(|(minute, hour)| [minute, hour]),
        duplicate_window => format_duration(resources.duplicate_window),
        pages => pages.map(|page| list_item(base, &page.twin, page)).collect::<String>(),
    };
    render(include_str!("agents.md"), values)
}

/// A Markdown sentence that says how many endpoints there are, and names them.
fn endpoints(forms: &FormSet) -> String {
    let titles = escape_text(&wording::titles(forms)).into_owned();
    match forms.iter().len() {
        _ if wording::has_default_forms(forms) => {
            "There are exactly two HTTP endpoints, a waitlist request and a contact message.".to_owned()
        }
        0 => "It has no forms, and there are no HTTP endpoints.".to_owned(),
        1 => format!("There is exactly one HTTP endpoint, {titles}."),
        2 => format!("There are exactly two HTTP endpoints, {titles}."),
        n => format!("There are exactly {n} HTTP endpoints: {titles}."),
    }
}

/// Completes a sentence with a clause for each form that counts submissions with the same value of a field
/// as one.
fn repeats(forms: &FormSet) -> String {
    let clause = |form: &Form| match form.dedup_key {
        DedupKey::Field(_) if form.name == WAITLIST.name => {
            Some(", and an address joins the waitlist once".to_owned())
        }
        DedupKey::Field(field) => Some(format!(", and `{}` counts each `{field}` once", form.path)),
        DedupKey::Content => None,
    };
    forms.iter().filter_map(clause).collect()
}
