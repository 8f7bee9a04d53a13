//! Chooses and renders, for each form and language, the page that answers browsers without JavaScript.

use std::sync::Arc;

use super::form_answer::{FormPage, FormPages};
use super::form_view::FormView;
use super::language::Language;
use super::layout::TemplateContext;
use super::page_bodies::Bodies;
use super::plain_page::plain_form_page;
use super::rendered_pages::LaidOutPage;
use super::site_context::SiteContext;
use super::structure::Structure;
use crate::fault::Fault;
use frontdesk_process::panics::{self, Part};

/// The pages that answer forms without JavaScript: for each form and language, the first page in reading
/// order that has the form. If no page has the form and shows errors, a plain page in the default language.
/// Empty unless the options accept forms without JavaScript. Warns if the form on the first page does not
/// show errors, and reports a page whose template fails. Tries no other page in that language.
pub(super) fn form_pages(
    structure: &Structure,
    shared: &SiteContext,
    pages: &[Arc<LaidOutPage>],
    bodies: &Bodies,
    faults: &mut Vec<Fault>,
) -> FormPages {
    if !shared.data.options.html_posts {
        return FormPages::default();
    }
    let forms = &structure.inputs.forms;
    let mail = &shared.data.options.operator.email;
    let languages: Vec<&Language> = shared.data.languages.iter().map(|data| &data.language).collect();
    let mut answers = FormPages::default();
    for form in forms {
        let name = form.definition.name;
        for (index, language) in languages.iter().enumerate() {
            let found = structure
                .documents()
                .iter()
                .zip(pages)
                .find(|(document, page)| document.language == index && page.forms.contains(&name));
            let rendered = found.map(|(document, page)| {
                let content = bodies.of(document);
                let page = TemplateContext { shared, document, content, view: &page.view };
                let defect = |panic| {
                    let consequence = format!(
                        "visitors who send the form `{name}` without JavaScript see the answer on another page"
                    );
                    Fault::defect(&document.file, &panic, &consequence)
                };
                panics::catch(Part::Content, || page.render_answer(name)).map_err(defect).flatten()
            });
            let rendered = rendered.and_then(|html| html.map_err(|fault| faults.push(fault)).ok());
            let Some(html) = rendered else { continue };
            let labels = FormView::answering(language, Some(name)).labels(form.definition);
            let page = FormPage::new(&html, form, labels, index, language, mail);
            // Do not warn if the HTML lacks the endpoint: the template does not show the form that the front
            // matter names.
            if page.is_none() && html.contains(form.definition.path) {
                faults.push(form_without_answers(name));
            }
            answers.0.extend(page);
        }
        // `find` also returns a page in another language, so `None` means that no language has one.
        if answers.find(name, 0).is_none() {
            let page = plain_form_page(form, languages[0], &shared.data.options);
            answers.0.extend(page.map_err(|fault| faults.push(fault)).ok().flatten());
        }
    }
    answers
}

/// Warns that the theme does not show the errors of a form to visitors without JavaScript.
fn form_without_answers(form: &str) -> Fault {
    let message = format!("the form `{form}` does not show errors to visitors without JavaScript");
    Fault::warning("theme/", None, message).hint(
        "copy `partials/fields.html` and `partials/form.html` from the built-in theme again, or set \
         `forms.html_posts` to false; until then, these visitors see errors on a page without the theme",
    )
}
