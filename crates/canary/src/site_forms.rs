//! Finds the forms on this server's pages, those that are no longer marked, and the scripts that send forms:
//! pure functions.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use memchr::{memchr2_iter, memmem};

use crate::form_comparison::{self, FormSenders, OwnForm};
use crate::report::{Outcome, Step, StepResult};
use crate::shown_form::PageContent;
use frontdesk_forms::{Field, Form};

/// Maximum number of pages whose HTML is read in a run.
const MAX_READ: usize = 200;

/// The content of this server's site that the check of pages needs. Clones share the bytes of the files.
#[derive(Clone, Default)]
pub struct SiteContent {
    /// All pages, in any order.
    pub pages: Vec<SitePage>,
    /// All files with JavaScript: their paths and their text.
    pub scripts: Vec<(String, Bytes)>,
    /// Whether the endpoints accept forms that browsers send without a script.
    pub accepts_posts: bool,
}

/// A page as this server sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitePage {
    /// The percent-encoded path of the page.
    pub path: String,
    pub html: Bytes,
}

impl fmt::Debug for SiteContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SiteContent({} pages, {} scripts)", self.pages.len(), self.scripts.len())
    }
}

/// The forms that this server's pages show.
#[derive(Debug, Default)]
pub(crate) struct SiteForms {
    /// The pages with a form, in the order of their paths.
    pub pages: Vec<(SitePage, PageContent)>,
    pub senders: FormSenders,
    /// Faults found in this server's own pages, such as a page that has lost its form.
    pub faults: Vec<StepResult>,
    /// The subjects of pages with a form, for the next run: those that show it now, and those that fail
    /// because they have lost it.
    pub known: Vec<String>,
}

/// The subject of the step that checks a form on a page.
pub(crate) fn subject(path: &str, form: &Form) -> String {
    format!("{path} {}", form.name)
}

impl SiteForms {
    /// Finds the forms of the site at `origin`. `known` are the subjects of pages that showed a form at
    /// earlier runs. Reads at most [`MAX_READ`] pages with a `<form`: first those that are known or have a
    /// mark of a form, then those with the names of all required fields.
    pub(crate) fn find(
        site: &SiteContent,
        forms: &[&'static Form],
        origin: &str,
        known: &[String],
    ) -> SiteForms {
        let mut senders = FormSenders {
            endpoints: forms.iter().map(|form| form.path.to_owned()).collect(),
            accepts_posts: site.accepts_posts,
            ..FormSenders::default()
        };
        let sending =
            site.scripts.iter().filter(|(_, body)| senders.is_sender(&String::from_utf8_lossy(body)));
        senders.scripts = sending.map(|(path, _)| path.clone()).collect();
        let mut found = SiteForms { senders, ..SiteForms::default() };
        let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
        let is_known = |page: &SitePage| forms.iter().any(|form| known.contains(&*subject(&page.path, form)));
        let mut candidates: Vec<(bool, &SitePage)> = site
            .pages
            .iter()
            .filter_map(|page| {
                if !has_markup(page, "<form") {
                    return None;
                }
                let is_first = is_known(page) || is_marked(page, forms);
                (is_first || may_look_like_one(page, forms)).then_some((!is_first, page))
            })
            .collect();
        candidates.sort_by(|a, b| (a.0, &a.1.path).cmp(&(b.0, &b.1.path)));
        for (_, page) in candidates.into_iter().take(MAX_READ) {
            let content = PageContent::read(&String::from_utf8_lossy(&page.html), origin, &page.path);
            found.examine(page, content, forms, &known);
        }
        found
    }

    /// Adds a page if it shows a form, and the faults of the page: forms that have lost their mark, forms
    /// without a mark, and an unknown name in `data-frontdesk` if there is no other fault. A form stays
    /// known while the page shows it or fails because of it.
    fn examine(&mut self, page: &SitePage, content: PageContent, forms: &[&Form], known: &BTreeSet<&str>) {
        let mut shows_form = false;
        for form in forms {
            let subject = subject(&page.path, form);
            if content.forms.iter().any(|shown| shown.is_marked_as(form)) {
                shows_form = true;
                self.known.push(subject);
                continue;
            }
            let is_known = known.contains(&*subject);
            let judge = if is_known { form_comparison::judge_lost } else { form_comparison::judge_unmarked };
            let Some((outcome, text)) = judge(form, &content) else { continue };
            if outcome == Outcome::Failed {
                self.known.push(subject.clone());
            }
            self.faults.push(fault(subject, outcome, text));
        }
        let has_lost = self.faults.iter().any(|step| step.subject.starts_with(&format!("{} ", page.path)));
        if let Some((outcome, text)) =
            form_comparison::judge_unknown_names(forms, &content).filter(|_| !has_lost)
        {
            self.faults.push(fault(page.path.clone(), outcome, text));
        }
        if shows_form {
            self.pages.push((page.clone(), content));
        }
    }

    /// The `forms` that a page shows, each with the first `<form>` element that is marked as that form.
    pub(crate) fn on<'a>(
        page: &'a PageContent,
        forms: &'a [&'static Form],
    ) -> impl Iterator<Item = OwnForm<'a>> {
        forms.iter().filter_map(move |form| {
            let shown = page.forms.iter().find(|shown| shown.is_marked_as(form))?;
            Some(OwnForm { form, shown, page })
        })
    }
}

fn fault(subject: String, outcome: Outcome, text: String) -> StepResult {
    StepResult { step: Step::Page, subject, outcome, text, took: Duration::ZERO }
}

fn has(page: &SitePage, text: &str) -> bool {
    memmem::find(&page.html, text.as_bytes()).is_some()
}

/// Whether a page contains `text`, which is a part of a tag, regardless of case (HTML §13.1.2).
fn has_markup(page: &SitePage, text: &str) -> bool {
    let text = text.as_bytes();
    let starts = memchr2_iter(text[0].to_ascii_lowercase(), text[0].to_ascii_uppercase(), &page.html);
    let mut found = starts.filter_map(|at| page.html.get(at..at + text.len()));
    found.any(|found| found.eq_ignore_ascii_case(text))
}

/// Whether a page contains the attribute `data-frontdesk` or the path of a form's endpoint.
fn is_marked(page: &SitePage, forms: &[&Form]) -> bool {
    has_markup(page, "data-frontdesk=") || forms.iter().any(|form| has(page, form.path))
}

/// Whether a page contains, anywhere in its HTML, the names of all required fields of at least one form or
/// its alternative. Always true if one of these has no required fields.
fn may_look_like_one(page: &SitePage, forms: &[&Form]) -> bool {
    let has_all =
        |fields: &Vec<Field>| fields.iter().filter(|field| field.required).all(|field| has(page, field.name));
    forms.iter().any(|form| std::iter::once(&form.fields).chain(&form.alternative).any(has_all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_forms::{CONTACT, WAITLIST};

    const ORIGIN: &str = "https://www.example.com";
    const FORM: &str = "<form data-frontdesk=contact><input name=name><input name=email><textarea name=message>\
        </textarea></form><script src=/_frontdesk/forms.js></script>";

    /// A site with these paths and HTML, with two scripts that send forms and one that does not.
    fn site(pages: &[(&str, &str)]) -> SiteContent {
        let page = |(path, html): &(&str, &str)| SitePage {
            path: (*path).to_owned(),
            html: Bytes::copy_from_slice(html.as_bytes()),
        };
        let script = |path: &str, text: &'static str| (path.to_owned(), Bytes::from_static(text.as_bytes()));
        SiteContent {
            pages: pages.iter().map(page).collect(),
            scripts: vec![
                script("/_frontdesk/forms.js", "querySelectorAll('form[data-frontdesk]')"),
                script("/menu.js", "toggle()"),
                script("/app.js", "fetch('/api/waitlist')"),
            ],
            accepts_posts: false,
        }
    }

    fn find(pages: &[(&str, &str)], known: &[&str]) -> SiteForms {
        let known: Vec<String> = known.iter().map(|known| (*known).to_owned()).collect();
        SiteForms::find(&site(pages), &[&CONTACT, &WAITLIST], ORIGIN, &known)
    }

    fn faults(found: &SiteForms) -> Vec<(&str, Outcome)> {
        found.faults.iter().map(|step| (step.subject.as_str(), step.outcome)).collect()
    }

    #[test]
    fn pages_with_forms_and_the_scripts_that_send_them_are_found() {
        let found =
            find(&[("/b/", FORM), ("/", "<p>none</p>"), ("/a/", FORM), ("/c/", "<form></form>")], &[]);
        let paths: Vec<&str> = found.pages.iter().map(|(page, _)| page.path.as_str()).collect();
        assert_eq!(paths, ["/a/", "/b/"]);
        assert_eq!(found.known, ["/a/ contact", "/b/ contact"]);
        assert_eq!(found.senders.scripts.iter().collect::<Vec<_>>(), ["/_frontdesk/forms.js", "/app.js"]);
        assert_eq!(SiteForms::on(&found.pages[0].1, &[&CONTACT, &WAITLIST]).count(), 1);
        assert!(faults(&found).is_empty());
    }

    #[test]
    fn tags_and_attributes_in_capitals_are_found() {
        let capitals =
            FORM.replace("form data-frontdesk", "FORM DATA-FRONTDESK").replace("</form>", "</Form>");
        let found = find(&[("/", &capitals)], &[]);
        assert_eq!((found.pages.len(), found.known), (1, vec!["/ contact".to_owned()]));
        let page =
            |html: &str| SitePage { path: "/".to_owned(), html: Bytes::copy_from_slice(html.as_bytes()) };
        assert!(is_marked(&page("<FORM Data-Frontdesk=contact>"), &[&CONTACT]));
        assert!(!is_marked(&page("<FORM data-frontdes"), &[&CONTACT]));
    }

    #[test]
    fn a_lost_attribute_is_reported_until_it_is_back() {
        let unmarked = FORM.replace(" data-frontdesk=contact", "");
        let first = find(&[("/contact/", &unmarked)], &["/contact/ contact"]);
        assert_eq!(faults(&first), [("/contact/ contact", Outcome::Failed)]);
        assert_eq!(first.known, ["/contact/ contact"]);
        let second = find(&[("/contact/", FORM)], &["/contact/ contact"]);
        assert!(faults(&second).is_empty() && second.known == ["/contact/ contact"]);
    }

    #[test]
    fn a_form_that_was_taken_away_is_forgotten() {
        for pages in [&[("/contact/", "<p>Write a mail</p>")][..], &[]] {
            let found = find(pages, &["/contact/ contact"]);
            assert!(faults(&found).is_empty() && found.known.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn an_unmarked_form_is_a_warning_and_not_known() {
        let unmarked = FORM.replace(" data-frontdesk=contact", "");
        let found = find(&[("/contact/", &unmarked)], &[]);
        assert_eq!(faults(&found), [("/contact/ contact", Outcome::Warning)]);
        assert!(found.known.is_empty() && found.pages.is_empty());
    }

    #[test]
    fn a_page_with_only_the_alternative_of_a_form_is_read() {
        let page =
            |html: &'static str| SitePage { path: "/".to_owned(), html: Bytes::from_static(html.as_bytes()) };
        let alternative =
            "<form><input name=email><input name=firstname><input name=lastname><input name=company></form>";
        assert!(may_look_like_one(&page(alternative), &[&CONTACT]));
        assert!(!may_look_like_one(
            &page("<form><input name=email><input name=firstname></form>"),
            &[&CONTACT]
        ));
    }

    #[test]
    fn a_name_without_a_form_is_reported_once() {
        let wrong = FORM.replace("=contact", "=contcat");
        let found = find(&[("/contact/", &wrong)], &[]);
        assert_eq!(faults(&found), [("/contact/", Outcome::Failed)]);
        let found = find(&[("/contact/", &wrong)], &["/contact/ contact"]);
        assert_eq!(faults(&found), [("/contact/ contact", Outcome::Failed)]);
    }
}
