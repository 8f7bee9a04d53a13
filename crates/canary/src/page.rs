//! Compares the forms on a page, as visitors get it, with those of the same page in this server: pure functions.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use bytes::Bytes;

use crate::report::Outcome;
use frontdesk_convert::{HtmlElement, HtmlTree, Selector};
use frontdesk_forms::Form;
use frontdesk_forms::text::{cut, visible};

/// Maximum length of a quoted address.
const MAX_QUOTED_CHARS: usize = 120;

/// A page of this server that shows a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormPage {
    /// Percent-encoded.
    pub path: String,
    /// The page as this server sends it.
    pub html: Bytes,
}

/// A form on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownForm {
    /// The address that it is sent to, without the site's own origin; empty if it names none.
    action: String,
    is_post: bool,
    /// The name in `data-frontdesk`.
    attribute: Option<String>,
    /// The names of its controls.
    controls: BTreeSet<String>,
}

static FORM: LazyLock<Selector> = LazyLock::new(|| selector("form"));
static CONTROL: LazyLock<Selector> = LazyLock::new(|| selector("input, textarea, select"));
static SCRIPT: LazyLock<Selector> = LazyLock::new(|| selector("script"));

fn selector(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|_| panic!("`{text}` is a selector"))
}

/// The forms on a page at `origin`, such as `https://www.example.com`.
pub(crate) fn forms_on(html: &str, origin: &str) -> Vec<ShownForm> {
    let tree = HtmlTree::parse(html);
    tree.all(&FORM).into_iter().map(|form| read_form(form, origin)).collect()
}

fn read_form(form: HtmlElement<'_>, origin: &str) -> ShownForm {
    let action = form.attribute("action").unwrap_or_default().trim();
    let controls = form.all(&CONTROL).into_iter().filter_map(|control| control.attribute("name"));
    ShownForm {
        action: action.strip_prefix(origin).unwrap_or(action).to_owned(),
        is_post: form.attribute("method").is_some_and(|method| method.eq_ignore_ascii_case("post")),
        attribute: form.attribute("data-frontdesk").map(str::to_owned),
        controls: controls.map(str::to_owned).collect(),
    }
}

/// The paths of the site's own scripts on a page, without queries.
pub(crate) fn scripts_on(html: &str, origin: &str) -> BTreeSet<String> {
    let tree = HtmlTree::parse(html);
    let own = |script: HtmlElement<'_>| {
        let source = script.attribute("src")?.trim();
        let path = source.strip_prefix(origin).unwrap_or(source);
        let is_path = path.starts_with('/') && !path.starts_with("//");
        is_path.then(|| path.split(['?', '#']).next().unwrap_or_default().to_owned())
    };
    tree.all(&SCRIPT).into_iter().filter_map(own).collect()
}

impl ShownForm {
    /// Whether the form is sent to this form's endpoint.
    pub(crate) fn sends_to(&self, form: &Form) -> bool {
        self.action.split(['?', '#']).next() == Some(form.path)
    }

    /// Whether the form has all controls that this form requires.
    fn looks_like(&self, form: &Form) -> bool {
        let required = form.fields.iter().filter(|field| field.required);
        let names: Vec<&str> = required.map(|field| field.name).collect();
        !names.is_empty() && names.iter().all(|name| self.controls.contains(*name))
    }
}

/// Compares the form that visitors get (`found`) with that on this server's page (`own`).
pub(crate) fn compare(form: &Form, own: &ShownForm, found: &[ShownForm]) -> (Outcome, String) {
    let Some(shown) = found.iter().find(|found| found.sends_to(form)) else {
        let Some(other) = found.iter().find(|found| found.looks_like(form)) else {
            let text = format!(
                "visitors get a page without the form that this server's page has: a cache or another server sends another \
                 version; purge it, or forward the page to this server (form {})",
                form.name
            );
            return (Outcome::Failed, text);
        };
        let action = if other.action.is_empty() { "its own page".to_owned() } else { quoted(&other.action) };
        let text = format!("the form is sent to {action}, and must be sent to `{}`", form.path);
        return (Outcome::Failed, text);
    };
    let missing: Vec<&str> = own.controls.difference(&shown.controls).map(String::as_str).collect();
    let required = |name: &&str| form.field(name).is_some_and(|field| field.required);
    if !missing.is_empty() {
        let is_needed = missing.iter().any(required);
        let outcome = if is_needed { Outcome::Failed } else { Outcome::Warning };
        let fields = missing.iter().map(|name| format!("`{}`", quoted(name))).collect::<Vec<_>>().join(", ");
        return (
            outcome,
            format!("visitors get the form without {fields}: a proxy or a cache changes the page"),
        );
    }
    if own.is_post && !shown.is_post {
        return (
            Outcome::Failed,
            "visitors get the form with the method GET, and it must be POST".to_owned(),
        );
    }
    (Outcome::Ok, "the form has its address and its fields".to_owned())
}

/// Judges a page that showed a form at the last run, and that no longer shows it on this server. `None` if the form was
/// taken away: nothing on the page looks like it.
pub(crate) fn judge_lost(form: &Form, found: &[ShownForm]) -> Option<(Outcome, String)> {
    let lost = found.iter().find(|found| found.looks_like(form) && !found.sends_to(form))?;
    let text = match &lost.attribute {
        Some(name) => {
            format!("the form says `data-frontdesk=\"{}\"`, and must say \"{}\"", quoted(name), form.name)
        }
        None => format!(
            "the form has lost its attribute `data-frontdesk=\"{}\"`, so what visitors send does not arrive: add it to the \
             template of the site's generator",
            form.name
        ),
    };
    Some((Outcome::Failed, text))
}

fn quoted(text: &str) -> String {
    visible(cut(text, MAX_QUOTED_CHARS)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_forms::CONTACT;

    const ORIGIN: &str = "https://www.example.com";
    const OWN: &str = r#"<form action="/api/contact" method="post" data-frontdesk="contact"><input name="name"><input name="email">
        <textarea name="message"></textarea><input name="desk_note"></form><script src="/assets/forms.js?v=1"></script>"#;

    fn judge(html: &str) -> (Outcome, String) {
        compare(&CONTACT, &forms_on(OWN, ORIGIN)[0], &forms_on(html, ORIGIN))
    }

    #[test]
    fn a_form_as_it_should_be_is_fine() {
        assert_eq!(judge(OWN).0, Outcome::Ok);
        assert_eq!(
            judge(&OWN.replace("action=\"/api", "action=\"https://www.example.com/api")).0,
            Outcome::Ok
        );
        assert_eq!(scripts_on(OWN, ORIGIN), BTreeSet::from(["/assets/forms.js".to_owned()]));
        assert_eq!(
            scripts_on("<script src=//cdn.example/x.js></script><script>1</script>", ORIGIN),
            BTreeSet::new()
        );
    }

    #[test]
    fn each_difference_is_named() {
        for (html, outcome, expected) in [
            ("<p>Down for maintenance</p>".to_owned(), Outcome::Failed, "without the form"),
            (format!("<!-- {} -->", OWN.replace("-->", "")), Outcome::Failed, "without the form"),
            (format!("<template>{OWN}</template>"), Outcome::Failed, "without the form"),
            (
                OWN.replace("/api/contact", "https://old.example/send"),
                Outcome::Failed,
                "is sent to https://old.example/send",
            ),
            (OWN.replace("action=\"/api/contact\"", ""), Outcome::Failed, "is sent to its own page"),
            (OWN.replace("name=\"email\"", "name=\"mail\""), Outcome::Failed, "without `email`"),
            (OWN.replace("<input name=\"desk_note\">", ""), Outcome::Warning, "without `desk_note`"),
            (OWN.replace("method=\"post\"", ""), Outcome::Failed, "the method GET"),
        ] {
            let (found, text) = judge(&html);
            assert_eq!(found, outcome, "{html}: {text}");
            assert!(text.contains(expected), "{html}: {text}");
        }
    }

    #[test]
    fn a_form_that_lost_its_attribute_is_told_from_one_that_was_taken_away() {
        let lost =
            OWN.replace(" data-frontdesk=\"contact\"", "").replace("action=\"/api/contact\"", "action=\"\"");
        let (outcome, text) = judge_lost(&CONTACT, &forms_on(&lost, ORIGIN)).unwrap();
        assert_eq!(outcome, Outcome::Failed);
        assert!(text.starts_with("the form has lost its attribute `data-frontdesk=\"contact\"`"), "{text}");
        let renamed = lost.replace("<form", "<form data-frontdesk=\"contcat\"");
        assert!(judge_lost(&CONTACT, &forms_on(&renamed, ORIGIN)).unwrap().1.contains("\"contcat\""));
        for gone in ["<p>No form</p>", "<form action=/search><input name=q></form>"] {
            assert_eq!(judge_lost(&CONTACT, &forms_on(gone, ORIGIN)), None, "{gone}");
        }
    }
}
