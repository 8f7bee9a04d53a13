//! Pages for sites without the theme, such as the output of a site generator: the form that answers visitors
//! without JavaScript, and the thank-you page. They have the built-in theme's stylesheet, but no navigation.

use minijinja::context;
use minijinja::value::Serde;

use super::file::{Cache, File};
use super::form_answer::{FormPage, THANKS, thanks_texts};
use super::form_view::FormView;
use super::language::{Language, is_right_to_left};
use super::options::{PageForm, PagesOptions};
use super::path::twin_path;
use super::site::{Page, Site};
use super::theme::{BUILT_IN, Theme, template_fault};
use crate::fault::Fault;

/// The path of the stylesheet of plain pages.
const STYLE: &str = "/_frontdesk/style.css";

const TEMPLATE: &str = include_str!("plain_page.html");

/// Builds the page that answers a form without JavaScript, for a form that no page of the site answers. Its
/// title is that of the site, or else that of the form. `None` if the template does not show all of the
/// form's fields. Fails if the template does.
pub(super) fn plain_form_page(
    form: &PageForm,
    language: &Language,
    options: &PagesOptions,
) -> Result<Option<FormPage>, Fault> {
    let name = form.definition.name;
    let view = FormView::answering(language, None);
    let form_title = view.title(form.definition);
    let title = if language.title.is_empty() { form_title } else { &language.title };
    let head_title = language.words.fill("answer_title", &[("title", form_title)]);
    // The page has no path of its own. With `/`, answers to its form use the site's default language.
    let page = context! { title, head_title, path => "/", form => name };
    let html = render(page, language, options, std::slice::from_ref(form))?;
    Ok(FormPage::new(&html, form, view.labels(form.definition), 0, language, &options.operator.email))
}

/// Inserts the stylesheet and the thank-you page if forms work without JavaScript. Replaces nothing: there is
/// no thank-you page if its path or that of its Markdown is in use, nor if its template fails. The page is
/// unlisted, and in the site's default language if `language` is `None`.
pub(super) fn insert_plain_pages(site: &mut Site, language: Option<&Language>, options: &PagesOptions) {
    if !options.html_posts {
        return;
    }
    let language = &language.unwrap_or(&site.languages[0]).clone();
    let style = BUILT_IN.iter().find_map(|(name, text)| (*name == "style.css").then_some(*text));
    let style = style.unwrap_or_default().to_owned();
    site.insert_resource(STYLE, File::new("text/css; charset=utf-8", Cache::Revalidate, style));
    let (title, text) = thanks_texts(language, options);
    let page = context! { title, head_title => title, description => text };
    let Ok(html) = render(page, language, options, &[]) else { return };
    if site.get(THANKS).is_none() && site.get(&twin_path(THANKS)).is_none() {
        let markdown = format!("# {title}\n\n{text}\n");
        let html = File::new("text/html; charset=utf-8", Cache::Revalidate, html);
        let markdown = File::new("text/markdown; charset=utf-8", Cache::Revalidate, markdown);
        let twin = twin_path(THANKS).into();
        site.insert_page(THANKS, Page::new(html.into(), markdown.into(), THANKS.into(), twin));
    }
}

/// Renders the template of plain pages, with the partials of the built-in theme instead of the site's. `page`
/// has the values of one page, except those of its language. The page shows the first form of `forms`, if
/// there is one, with the markers for answers.
fn render(
    page: minijinja::Value,
    language: &Language,
    options: &PagesOptions,
    forms: &[PageForm],
) -> Result<String, Fault> {
    let theme = Theme::new([]).compile(std::collections::BTreeMap::new());
    let site = context! { operator => minijinja::Value::from(Serde(&options.operator)) };
    let view = FormView::answering(language, forms.first().map(|form| form.definition.name));
    let tag = language.tag.as_str();
    let values = context! {
        page => context! { language => tag, is_rtl => is_right_to_left(tag), ..page },
        site,
        style => STYLE,
        forms => view.values(forms),
        words => language.words.to_template_value(),
    };
    let template = theme.environment.template_from_named_str("plain.html", TEMPLATE);
    template.and_then(|template| template.render(values)).map_err(|error| {
        // The operator can neither see nor replace this template, so the fault does not name its file.
        let message = format!(
            "the built-in page that answers forms cannot be rendered: {}",
            template_fault(&error).message
        );
        Fault::error("frontdesk.toml", None, message)
            .hint("please report this; until it is fixed, set `forms.html_posts` to false: forms then work only with JavaScript")
    })
}
