//! Compares the forms on a page, as visitors get it, with their definitions and with the same page on this
//! server: pure functions.

use std::collections::BTreeSet;

use crate::report::Outcome;
use crate::shown_form::{PageAddress, PageContent, ShownForm};
use frontdesk_forms::Form;
use frontdesk_forms::json_post::HONEYPOT_MEMBER;
use frontdesk_forms::text::{cut, visible};

/// Maximum length of a quoted address, title or name.
const MAX_QUOTED_CHARS: usize = 120;

/// The scripts that send this site's forms, the endpoints, and whether forms also work without a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FormSenders {
    /// The paths of the site's scripts that send forms.
    pub scripts: BTreeSet<String>,
    /// The paths of the forms' endpoints.
    pub endpoints: Vec<String>,
    /// Whether endpoints accept forms that a browser sends without a script (`forms.html_posts`).
    pub accepts_posts: bool,
}

impl FormSenders {
    /// Whether a script seems to send forms: its text contains `data-frontdesk` or the path of an endpoint.
    pub(crate) fn is_sender(&self, script: &str) -> bool {
        script.contains("data-frontdesk") || self.endpoints.iter().any(|path| script.contains(&**path))
    }

    /// Whether a page includes one of the scripts that send forms.
    fn has_script_on(&self, page: &PageContent) -> bool {
        self.scripts.iter().any(|script| page.scripts.contains(script))
            || self.is_sender(&page.inline_scripts)
    }
}

/// A form on one of this server's own pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnForm<'a> {
    pub form: &'a Form,
    pub shown: &'a ShownForm,
    pub page: &'a PageContent,
}

/// Compares the page that visitors get with that of this server. The compared form is the one that is marked
/// as `own.form`, or else one that is sent to its endpoint. Returns the first difference that is a failure,
/// or else the first warning; [`Outcome::Ok`] if there is no difference. A page without the form is a
/// failure.
pub(crate) fn judge(own: OwnForm<'_>, page: &PageContent, senders: &FormSenders) -> (Outcome, String) {
    let form = own.form;
    let marked = page.forms.iter().find(|shown| shown.is_marked_as(form));
    let shown = marked.or_else(|| page.forms.iter().find(|shown| shown.sends_to(form)));
    let Some(shown) = shown else { return judge_missing(own, page) };
    let mut found: Vec<(Outcome, String)> = Vec::new();
    if own.shown.attribute.is_some() && shown.attribute != own.shown.attribute {
        let change = shown
            .attribute
            .as_ref()
            .map_or("has lost it".to_owned(), |name| format!("says \"{}\"", quoted(name)));
        found.push(failed(format!(
            "the form of this server's page has `data-frontdesk=\"{}\"`, but the form that visitors get {change}: purge caches, and check \
             the proxy that changes the page",
            form.name
        )));
    }
    let is_scripted = senders.has_script_on(page);
    found.extend(judge_address(own, shown, is_scripted, senders));
    found.extend(judge_fields(own, shown));
    if senders.has_script_on(own.page) && !is_scripted {
        let outcome = if senders.accepts_posts && shown.is_post && shown.sends_to(form) {
            Outcome::Warning
        } else {
            Outcome::Failed
        };
        let script = senders.scripts.iter().find(|script| own.page.scripts.contains(*script));
        let script = script.map_or("in the page".to_owned(), |script| format!("`{script}`"));
        found.push((
            outcome,
            format!("visitors get the page without the script that sends the form ({script}): purge caches, and check the proxy that \
             changes the page"),
        ));
    }
    let worst = found.iter().position(|(outcome, _)| *outcome == Outcome::Failed).unwrap_or(0);
    if found.is_empty() {
        return (Outcome::Ok, "the form has its address, its fields and its script".to_owned());
    }
    found.swap_remove(worst)
}

/// Returns the failure of a page that visitors get without the form. If another form on it has the required
/// fields, says how that form differs.
fn judge_missing(own: OwnForm<'_>, page: &PageContent) -> (Outcome, String) {
    let form = own.form;
    let Some(other) = page.forms.iter().find(|shown| shown.has_required_fields_of(form)) else {
        let title = &page.title;
        let title = if *title == own.page.title || title.is_empty() {
            String::new()
        } else {
            format!(" (\"{}\")", quoted(title))
        };
        return failed(format!(
            "visitors get a page{title} without the form that this server's page has: purge caches, or forward the page to this \
             server"
        ));
    };
    let difference = match (&own.shown.attribute, &other.attribute, &other.action) {
        (_, Some(name), _) => format!("`data-frontdesk` says \"{}\"", quoted(name)),
        (_, None, PageAddress::Path(address) | PageAddress::Elsewhere(address)) => {
            format!("it is sent to {}, and must be sent to `{}`", quoted(address), form.path)
        }
        (Some(_), None, PageAddress::Missing) => "it has lost `data-frontdesk`".to_owned(),
        (None, None, PageAddress::Missing) => {
            format!("it is sent to its own page, and must be sent to `{}`", form.path)
        }
    };
    failed(format!(
        "visitors get a form that differs from the one on this server's page: {difference}; purge caches, and check the proxy that changes the \
         page"
    ))
}

/// Judges the address and, only if that is the form's endpoint, the method. A difference that the page on
/// this server has as well is a decision of its author, and only fails if no script sends the form. A missing
/// address is a failure if this server's page has one. If not, it is no fault if a known script of either
/// page sends the form, a warning if another script of this server's page may send it, and otherwise a
/// failure.
fn judge_address(
    own: OwnForm<'_>,
    shown: &ShownForm,
    is_scripted: bool,
    senders: &FormSenders,
) -> Option<(Outcome, String)> {
    let form = own.form;
    let by_author = |is_same: bool| {
        if is_same && is_scripted { Outcome::Warning } else { Outcome::Failed }
    };
    let required = format!("it must be `{}`", form.path);
    match &shown.action {
        PageAddress::Path(path) if path == form.path => {}
        PageAddress::Path(address) | PageAddress::Elsewhere(address) => {
            let outcome = by_author(shown.action == own.shown.action);
            let consequence = if outcome == Outcome::Warning { " without JavaScript" } else { "" };
            return Some((
                outcome,
                format!("the form is sent to {}{consequence}: {required}", quoted(address)),
            ));
        }
        PageAddress::Missing if own.shown.action != PageAddress::Missing => {
            return Some(failed(format!("visitors get the form without an address (`action`): {required}")));
        }
        PageAddress::Missing if !is_scripted && !senders.has_script_on(own.page) => {
            let outcome = if own.page.has_foreign_scripts || !own.page.scripts.is_empty() {
                // Only warn, because another script may send the form in a way that is not detected.
                Outcome::Warning
            } else {
                Outcome::Failed
            };
            return Some((
                outcome,
                "nothing sends the form: the page has neither a script that does, such as `/_frontdesk/forms.js`, nor an address \
                 (`action`)"
                    .to_owned(),
            ));
        }
        PageAddress::Missing => return None,
    }
    (!shown.is_post).then(|| {
        let outcome = by_author(!own.shown.is_post);
        (
            outcome,
            "the form has the method GET, which puts what visitors write into the address: it must be POST"
                .to_owned(),
        )
    })
}

/// Judges the names of the controls, and returns at most one finding. Fails if a required field of the form
/// is missing. Otherwise warns of controls that only this server's page has, or else of required controls
/// that the form does not define ([`ShownForm::unknown_required`]).
fn judge_fields(own: OwnForm<'_>, shown: &ShownForm) -> Option<(Outcome, String)> {
    let form = own.form;
    let missing = shown.missing_fields_of(form);
    if !missing.is_empty() {
        return Some(failed(format!(
            "the form is refused, because it lacks {}, which its definition requires",
            names(&missing)
        )));
    }
    let lost = own.shown.controls.keys().filter(|name| !shown.controls.contains_key(*name));
    let lost: Vec<&str> = lost.map(String::as_str).collect();
    if !lost.is_empty() {
        let purpose =
            if lost.contains(&HONEYPOT_MEMBER) { ", which programs that send spam fill in" } else { "" };
        let text = format!(
            "visitors get the form without {}{purpose}: a proxy or a cache changes the page",
            names(&lost)
        );
        return Some((Outcome::Warning, text));
    }
    let unknown = shown.unknown_required(form);
    (!unknown.is_empty()).then(|| {
        let text = format!(
            "the form requires {}, which its definition does not have, so that what visitors write there is dropped: add it to \
             `forms/{}.toml`",
            names(&unknown),
            form.name
        );
        (Outcome::Warning, text)
    })
}

/// Judges a page of this server on which nothing is marked as `form`. The caller passes only pages that
/// showed the form at an earlier run. Returns a warning if the form has no `data-frontdesk` and is now sent
/// to another site, otherwise a failure. `None` if no form on the page looks like it any more
/// ([`ShownForm::has_required_fields_of`]).
pub(crate) fn judge_lost(form: &Form, page: &PageContent) -> Option<(Outcome, String)> {
    let lost = page.forms.iter().find(|shown| shown.has_required_fields_of(form))?;
    match (&lost.attribute, &lost.action) {
        (Some(name), _) => Some(failed(format!(
            "the form had `data-frontdesk=\"{}\"`, and now says \"{}\": what visitors send does not arrive",
            form.name,
            quoted(name)
        ))),
        (None, PageAddress::Elsewhere(address)) => {
            let text = format!("the form was sent to this inbox, and is now sent to {}", quoted(address));
            Some((Outcome::Warning, text))
        }
        (None, _) => Some(failed(format!(
            "the form has lost its attribute `data-frontdesk=\"{}\"`, so that what visitors send does not arrive: add it to the \
             template of the site's generator",
            form.name
        ))),
    }
}

/// Looks for a form that was never marked: one with all required fields of `form`, no fields that `form`
/// lacks except `desk_…`, and neither an attribute nor an address. Only a warning, because a script of
/// another service may send it. `None` if `form` requires no fields. Call [`judge_lost`] instead if an
/// earlier run has seen `form` on the page.
pub(crate) fn judge_unmarked(form: &Form, page: &PageContent) -> Option<(Outcome, String)> {
    let is_unmarked = |shown: &&ShownForm| {
        shown.attribute.is_none()
            && shown.action == PageAddress::Missing
            && shown.has_required_fields_of(form)
            && shown.has_only_fields_of(form)
    };
    page.forms.iter().find(is_unmarked)?;
    let text = format!(
        "a form has the fields of `{0}`, but neither `data-frontdesk=\"{0}\"` nor an address (`action`): add the attribute, or the \
         address of the program that gets it",
        form.name
    );
    Some((Outcome::Warning, text))
}

/// Reports the first form on a page whose attribute names none of `forms`: the endpoint that the script uses
/// does not exist. `None` if there is no such form.
pub(crate) fn judge_unknown_names(forms: &[&Form], page: &PageContent) -> Option<(Outcome, String)> {
    let is_known = |name: &str| forms.iter().any(|form| form.name == name);
    let mut names = page.forms.iter().filter_map(|shown| shown.attribute.as_deref());
    let unknown = names.find(|name| !is_known(name))?;
    Some(failed(format!(
        "there is no form `{0}`, which `data-frontdesk=\"{0}\"` names, so that what visitors send does not arrive",
        quoted(unknown)
    )))
}

fn failed(text: String) -> (Outcome, String) {
    (Outcome::Failed, text)
}

fn names(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{}`", quoted(name))).collect::<Vec<_>>().join(", ")
}

fn quoted(text: &str) -> String {
    visible(cut(text, MAX_QUOTED_CHARS))
}

#[cfg(test)]
mod tests;
