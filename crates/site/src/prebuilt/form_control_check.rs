//! Compares the controls of the forms on a build's pages with the fields of the forms.

use std::collections::BTreeMap;

use frontdesk_convert::{HtmlElement, HtmlTree, Selector, attributes};
use frontdesk_forms::{Field, FieldKind, Form, InvalidField, Problem};
use serde::{Deserialize, Serialize};

use super::html_pages::HtmlPage;
use crate::fault::{Fault, did_you_mean};
use crate::options::PageForm;

/// Maximum number of faults that are reported for a form on one page.
const MAX_FAULTS: usize = 10;

/// The types of `<input>` and `<button>` whose `value` browsers never send.
const UNSENT_TYPES: [&str; 3] = ["button", "reset", "image"];

/// A form on a page, `<form data-frontdesk="NAME">`, with its named controls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShownForm {
    name: String,
    controls: Vec<Control>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Control {
    name: String,
    /// The type of an `<input>` or `<button>` in lower case, or else the name of the element.
    kind: String,
    /// The non-empty values that the page sets for a menu, check box, radio button, button or hidden control.
    values: Vec<String>,
}

/// Reads the forms of a page. Leaves out forms without `data-frontdesk`, and the controls for which
/// `read_control` returns `None`.
pub(super) fn read_forms(html: &str) -> Vec<ShownForm> {
    let Ok(options) = Selector::parse("option:not([disabled])") else { return Vec::new() };
    let tree = HtmlTree::parse(html);
    let forms = tree.forms().into_iter().filter_map(|(form, controls)| {
        let name = form.attribute("data-frontdesk")?.to_owned();
        let controls = controls.into_iter().filter_map(|control| read_control(control, &options)).collect();
        Some(ShownForm { name, controls })
    });
    forms.collect()
}

/// Reads a control. `None` if it has no name, if it belongs to the theme's script, whose names begin with
/// `desk_`, if it is a button that sends no value, or if browsers fill it in (`_charset_`). `options` selects
/// the options of a menu.
fn read_control(control: HtmlElement<'_>, options: &Selector) -> Option<Control> {
    let name = control.attribute("name").filter(|name| !name.is_empty() && !name.starts_with("desk_"))?;
    let kind = match control.name() {
        "input" => control.attribute("type").unwrap_or("text").to_ascii_lowercase(),
        "button" => control.attribute("type").unwrap_or("submit").to_ascii_lowercase(),
        element => element.to_owned(),
    };
    let value = |default: &str| control.attribute("value").unwrap_or(default).to_owned();
    let mut values = match &*kind {
        "select" => {
            let text = |option: HtmlElement| option.attribute("value").map_or(option.text(), str::to_owned);
            control.all(options).into_iter().map(text).collect()
        }
        "checkbox" | "radio" => vec![value("on")],
        "hidden" | "submit" => vec![value("")],
        _ => Vec::new(),
    };
    values.retain(|value| !value.is_empty());
    let is_sent = name != "_charset_" && !UNSENT_TYPES.contains(&&*kind);
    is_sent.then(|| Control { name: name.to_owned(), kind, values })
}

/// Finds the controls that do not fit the definitions. `shown` are the pages, and the forms on each. A fault
/// that several pages have is reported for the first one, with their number. Skips forms that are not
/// defined.
pub(super) fn find_faults<'a>(
    shown: impl Iterator<Item = (&'a HtmlPage<'a>, &'a [ShownForm])>,
    forms: &[PageForm],
) -> Vec<Fault> {
    let named = |name: &str| forms.iter().map(|form| form.definition).find(|form| form.name == name);
    // Maps each form's mismatches to the first page, the last page and the number of pages with the mismatch.
    let mut found: BTreeMap<(&str, Mismatch), (&HtmlPage<'_>, &str, usize)> = BTreeMap::new();
    for (page, shown) in shown.flat_map(|(page, shown)| shown.iter().map(move |form| (page, form))) {
        for mismatch in named(&shown.name).map(|form| shown.mismatches(form)).unwrap_or_default() {
            let (_, last, count) = found.entry((&shown.name, mismatch)).or_insert((page, "", 0));
            *count += usize::from(*last != page.file.name);
            *last = &page.file.name;
        }
    }
    let fault = |((name, mismatch), (page, _, count)): ((&str, Mismatch), (&HtmlPage<'_>, &str, usize))| {
        Some(mismatch.fault(named(name)?, page, count))
    };
    found.into_iter().filter_map(fault).collect()
}

/// A difference between the controls of a form on a page and the form's definition.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mismatch {
    /// No field has the name of this control.
    Unknown(String),
    /// No control has the name of this required field.
    Missing(String),
    /// The page offers this value for a field that does not accept it.
    Refused { name: String, value: String },
    /// The control for a consent is not a check box.
    NoBox(String),
}

impl ShownForm {
    /// The first [`MAX_FAULTS`] mismatches. A form without controls has none: a script adds them. No field is
    /// missing if the form has all required fields of the alternative.
    fn mismatches(&self, form: &Form) -> Vec<Mismatch> {
        let has = |field: &Field| {
            self.controls
                .iter()
                .any(|control| form.posted_field(&control.name).is_some_and(|it| it.name == field.name))
        };
        let missing = |fields: &[Field]| -> Vec<&str> {
            fields.iter().filter(|field| field.required && !has(field)).map(|field| field.name).collect()
        };
        let is_alternative = form.alternative.as_ref().is_some_and(|fields| missing(fields).is_empty());
        let missing =
            if is_alternative || self.controls.is_empty() { Vec::new() } else { missing(&form.fields) };
        let missing = missing.into_iter().map(|name| Mismatch::Missing(name.to_owned()));
        self.controls
            .iter()
            .filter_map(|control| control.mismatch(form))
            .chain(missing)
            .take(MAX_FAULTS)
            .collect()
    }
}

impl Control {
    /// The reason why the control does not fit the field of its name; `None` if it fits. Hidden controls and
    /// buttons may have a name that no field has, and, except for a choice or a hidden field, any value that
    /// does not give a consent.
    fn mismatch(&self, form: &Form) -> Option<Mismatch> {
        let name = self.name.clone();
        let is_hidden = matches!(&*self.kind, "hidden" | "submit");
        let Some(field) = form.posted_field(&name) else {
            // Visitors enter nothing into a button or a hidden control, such as a token of the generator.
            return (!is_hidden).then_some(Mismatch::Unknown(name));
        };
        // A hidden control with a value that means consent would record a consent the visitor has not given.
        let is_given = || self.values.iter().any(|value| field.value_of_control(value).is_some());
        if field.kind == FieldKind::Consent && self.kind != "checkbox" && (!is_hidden || is_given()) {
            return Some(Mismatch::NoBox(name));
        }
        // Generators often add a hidden control to a check box, with the value to send if it is unchecked.
        let is_set = !is_hidden || matches!(field.kind, FieldKind::Hidden | FieldKind::Choice);
        let refused = self.values.iter().find(|value| field.value_of_control(value).is_none());
        refused.filter(|_| is_set).map(|value| Mismatch::Refused { name, value: value.clone() })
    }
}

impl Mismatch {
    /// Warns about this mismatch, which occurs on `pages` pages. `page` is the first of them.
    fn fault(&self, form: &'static Form, page: &HtmlPage<'_>, pages: usize) -> Fault {
        let also = match pages {
            ..=1 => String::new(),
            pages => format!(" ({pages} pages)"),
        };
        let (Mismatch::Unknown(name)
        | Mismatch::Missing(name)
        | Mismatch::Refused { name, .. }
        | Mismatch::NoBox(name)) = self;
        let expected = || {
            let problems = vec![Problem::NotAccepted];
            form.posted_field(name)
                .map(|field| InvalidField { field, problems }.to_string())
                .unwrap_or_default()
        };
        let (message, hint) = match self {
            Mismatch::Unknown(name) => {
                let names = || form.all_fields().map(|field| field.name);
                let list = || format!("its fields are: {}", names().collect::<Vec<_>>().join(", "));
                let message = format!(
                    "the form `{}` has no field `{name}`, so what visitors enter there is dropped",
                    form.name
                );
                (message, did_you_mean(name.strip_suffix("[]").unwrap_or(name), names(), list))
            }
            Mismatch::Missing(name) => (
                format!(
                    "the form `{}` requires `{name}`, but has no control of this name, so every submission is refused",
                    form.name
                ),
                format!("add a control with `name=\"{name}\"`, or change the form's definition"),
            ),
            Mismatch::Refused { name, value } => (
                format!("the control `{name}` offers {value:?}, which the form `{}` refuses", form.name),
                expected(),
            ),
            Mismatch::NoBox(name) => (
                format!(
                    "the field `{name}` of the form `{}` is a consent, but its control is not a check box",
                    form.name
                ),
                "use `<input type=\"checkbox\">`".to_owned(),
            ),
        };
        let html = page.html();
        let control = Some(name).filter(|_| !matches!(self, Mismatch::Missing(_)));
        let line = find_line(&html, form.name, control.map(String::as_str));
        Fault::warning(&page.file.name, line, message + &also).hint(hint)
    }
}

/// The line of the first control with this name in a form with the name `form`, or else of one elsewhere
/// whose attribute `form` is the ID of such a form, or else of the first form. `None` if a character of the
/// form's name is escaped in the HTML.
fn find_line(html: &str, form: &str, control: Option<&str>) -> Option<usize> {
    let html = without_scripts(html);
    let lower = html.to_ascii_lowercase();
    let all: Vec<_> = attributes(&html).collect();
    let find = |attribute: &str, text: &str| -> Vec<usize> {
        let has_name = |name: &str| name.eq_ignore_ascii_case(attribute);
        let found = all.iter().filter(|(name, value)| has_name(name) && html[value.clone()] == *text);
        found.map(|(_, value)| value.start).collect()
    };
    let forms = find("data-frontdesk", form);
    let controls = control.map(|name| find("name", name)).unwrap_or_default();
    let end = |start: usize| lower[start..].find("</form").map_or(html.len(), |length| start + length);
    let forms: Vec<_> = forms.into_iter().map(|start| start..end(start)).collect();
    let is_inside = |at: &&usize| forms.iter().any(|form| form.contains(*at));
    // Finds the value of `attribute` in the tag that contains the position `at`.
    let beside = |at: usize, attribute: &str| {
        let start = html[..at].rfind('<').unwrap_or_default();
        let tag = html[start..].split('>').next().unwrap_or_default();
        let found = attributes(tag).find(|(name, _)| name.eq_ignore_ascii_case(attribute));
        found.map(|(_, value)| tag[value].to_owned())
    };
    let ids: Vec<String> = forms.iter().filter_map(|form| beside(form.start, "id")).collect();
    let is_assigned = |at: &&usize| beside(**at, "form").is_some_and(|id| ids.contains(&id));
    let found = controls.iter().find(is_inside).or_else(|| controls.iter().find(is_assigned));
    let at = found.copied().or(Some(forms.first()?.start))?;
    Some(1 + html[..at].matches('\n').count())
}

/// Removes comments, scripts and styles up to their ends (`-->`, `</script>`), but keeps their line breaks.
/// Leaves unclosed ones unchanged.
fn without_scripts(html: &str) -> String {
    let lower = html.to_ascii_lowercase();
    let mut rest = String::with_capacity(html.len());
    let mut at = 0;
    while let Some(length) = lower[at..].find('<') {
        let start = at + length;
        let begins = |name: &str| {
            let after = lower[start + 1..].strip_prefix(name);
            after.is_some_and(|after| after.starts_with(|c: char| c.is_ascii_whitespace() || c == '>'))
        };
        let end = if lower[start..].starts_with("<!--") {
            lower[start..].find("-->")
        } else if begins("script") {
            lower[start..].find("</script")
        } else if begins("style") {
            lower[start..].find("</style")
        } else {
            None
        };
        rest.push_str(&html[at..start]);
        at = end.map_or(start + 1, |length| start + length);
        let skipped = &html[start..at];
        rest.extend(skipped.chars().filter(|&c| end.is_none() || c == '\n'));
    }
    rest + &html[at..]
}
