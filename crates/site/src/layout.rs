//! Lays out pages: builds the context of a template, and renders the template to HTML.
//!
//! The context has four parts: the data that all pages share ([`SiteContext`]), the page ([`Document`]), its
//! body ([`Content`]), and the other pages that it links to ([`RelatedPages`]). A reload reuses a page's HTML
//! if none of these parts has changed.

use minijinja::context;
use minijinja::value::Value;
use serde_json::{Value as Json, json};

use super::document::{Document, PageKind, Tag};
use super::form_answer::THANKS;
use super::form_view::FormView;
use super::language::{Language, is_right_to_left};
use super::link_rewriting::json_for_script;
use super::page_bodies::Content;
use super::page_navigation::RelatedPages;
use super::path::{encode, twin_path};
use super::schedule::{Unpublished, format_time};
use super::site_context::{LanguageData, NavLink, SiteContext, to_template_value};
use super::theme::template_fault;
use super::translations::LanguageLink;
use crate::fault::Fault;
use frontdesk_forms::text::escape_html;
use frontdesk_process::panics;

/// The data for rendering a page's template: the site, the page, its body and its related pages.
#[derive(Clone, Copy)]
pub(super) struct TemplateContext<'a> {
    pub shared: &'a SiteContext,
    pub document: &'a Document,
    pub content: &'a Content,
    pub view: &'a RelatedPages,
}

impl TemplateContext<'_> {
    pub fn render_html(&self) -> Result<String, Fault> {
        panics::inject("template", &self.document.file);
        self.render(self.template_values())
    }

    /// Renders the page's title and content without a template, for a page whose template panics.
    pub fn render_without_theme(&self) -> String {
        let language = &self.shared.language(self.document).language.tag;
        let title = escape_html(&self.document.front_matter.title);
        format!(
            "<!doctype html>\n<html lang=\"{language}\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <main>\n<h1>{title}</h1>\n{}</main>\n</html>\n",
            &*self.content.html
        )
    }

    /// Renders the page as the answer to the form `form` without JavaScript, with the title of an answer, and
    /// with markers for what depends on the request.
    pub fn render_answer(&self, form: &str) -> Result<String, Fault> {
        let data = &self.shared.data;
        let words = &self.shared.language(self.document).language.words;
        let values = self.template_values();
        let title = words.fill("answer_title", &[("title", &self.html_title())]);
        let page = values.get_attr("page").unwrap_or_default();
        let page = context! { head_title => title, ..page };
        let view = FormView::answering(&self.shared.language(self.document).language, Some(form));
        self.render(context! { page, forms => view.values(&data.forms), ..values })
    }

    /// Renders the page's template with the variables in `values`. Fails if the template is missing or fails.
    fn render(&self, values: Value) -> Result<String, Fault> {
        let name = format!("{}.html", self.document.template_name());
        let environment = &self.shared.templates.environment;
        let template = environment.get_template(&name).map_err(|error| template_fault(&error))?;
        template.render(values).map_err(|error| template_fault(&error))
    }

    /// Builds the variables that every page template receives. `docs/pages/theme.md` documents them.
    fn template_values(&self) -> Value {
        let Self { shared, document, content, view } = *self;
        let matter = &document.front_matter;
        let url = shared.absolute_url(&document.path);
        let find_tag = |name: &String| shared.find_tag(name, document.language);
        let tag = if let PageKind::Tag(name) = &document.kind { find_tag(name) } else { None };
        let tags: Vec<&Tag> = matter.tags.iter().filter_map(find_tag).collect();
        let Language { tag: language, words, .. } = &shared.language(document).language;
        let values = &shared.languages[document.language];
        // `NotFound` is the kind of 404 pages and confirmation pages, which have neither a URL nor a date.
        let is_page = document.kind != PageKind::NotFound;
        let headings = &content.facts.headings;
        let toc: Vec<_> = headings.iter().filter(|heading| matches!(heading.level, 2 | 3)).collect();
        let scheduled = match document.unpublished {
            Some(Unpublished::Until(time)) => Some(time),
            _ => None,
        };
        let page = context! {
            path => encode(&document.path),
            url => url.as_str(),
            twin => is_page.then(|| encode(&twin_path(&document.path)).into_owned()),
            copy_markdown => is_page && self.has_copy_link(),
            title => matter.title.as_str(),
            head_title => self.html_title(),
            description => matter.description.as_deref(),
            kicker => matter.kicker.as_deref(),
            html => Value::from_safe_string((*content.html).to_owned()),
            toc => to_template_value(matter.toc.then_some(toc)),
            date => matter.date.map(|date| date.to_string()),
            date_human => matter.date.map(|date| words.date(date)),
            updated => is_page.then(|| document.updated.to_string()),
            updated_human => is_page.then(|| words.date(document.updated)),
            author => matter.author.as_deref(),
            tags => to_template_value(tags),
            image_url => document.image.as_deref(),
            image_width => document.image_size.map(|size| size.width),
            image_height => document.image_size.map(|size| size.height),
            kind => document.kind.name(),
            draft => document.unpublished.is_some(),
            noindex => document.noindex,
            scheduled => scheduled.map(format_time),
            form => matter.form.as_deref().filter(|name| shared.has_form(name)),
            cta => to_template_value(&matter.cta),
            highlights => to_template_value(&matter.highlights),
            reading_minutes => content.reading_minutes(),
            json_ld => is_page.then(|| Value::from_safe_string(self.json_ld(&url))),
            breadcrumbs => to_template_value(&view.breadcrumbs),
            previous => to_template_value(&view.previous),
            next => to_template_value(&view.next),
            language => language.as_str(),
            is_rtl => is_right_to_left(language),
            locale => shared.language(document).language.open_graph_locale(),
            translations => to_template_value(&view.translations),
            default_url => default_url(&view.translations, &shared.data.options.language),
            extra => to_template_value(&matter.extra),
        };
        context! {
            site => self.site_values(),
            page => page,
            posts => to_template_value(&view.listing),
            pagination => to_template_value(&view.pagination),
            section => self.section(),
            tags => &values.tags,
            tag => to_template_value(tag),
            forms => &values.forms,
            words => &values.words,
            form_words => values.form_words.as_deref().map(|json| Value::from_safe_string(json.to_owned())),
        }
    }

    /// Whether the page has a link that copies its Markdown: not if the options hide these links, and not on
    /// a thank-you page, whose visitors have no use for it.
    fn has_copy_link(&self) -> bool {
        let options = &self.shared.data.options;
        let prefix = &self.shared.language(self.document).language.prefix;
        let is_thanks =
            options.html_posts && self.document.path.strip_prefix(prefix.as_str()) == Some(THANKS);
        !options.hides_copy_link && !is_thanks
    }

    /// The navigation of the innermost section that contains the page. `None` if there is none, and for
    /// posts, lists and pages without a URL.
    fn section(&self) -> Option<Value> {
        let path = self.document.path.as_str();
        if !matches!(self.document.kind, PageKind::Page | PageKind::Home) {
            return None;
        }
        let sections = &self.shared.language(self.document).sections;
        let sections = sections.iter().filter(|section| section.contains(path));
        let section = sections.max_by_key(|section| section.depth())?;
        let [previous, next] = section.neighbors(path).map(|page| {
            let (path, title) = page?;
            Some(NavLink { title: title.to_owned(), path: encode(path).into_owned() })
        });
        Some(context! {
            entries => to_template_value(section.entries(path)),
            previous => to_template_value(previous),
            next => to_template_value(next),
        })
    }

    /// Builds the template variable `site`. A link of the navigation is current on the page to which it leads
    /// and, unless that is the home page, on all pages below it.
    fn site_values(&self) -> Value {
        let SiteContext { data, operator, brand, .. } = self.shared;
        let options = &data.options;
        let path = encode(&self.document.path);
        let LanguageData { language, navigation, home, .. } = self.shared.language(self.document);
        let footer = &self.shared.languages[self.document.language].footer;
        let nav = navigation.iter().map(|page| {
            context! {
                title => page.title.as_str(),
                path => page.path.as_str(),
                current => path == page.path || (page.path != *home && path.starts_with(&page.path)),
            }
        });
        context! {
            title => language.title.as_str(),
            tagline => language.tagline.as_str(),
            description => language.description.as_str(),
            home => home.as_str(),
            prefix => language.prefix.as_str(),
            languages => to_template_value(&self.view.switcher),
            language => options.language.as_str(),
            base_url => options.base_url.as_str(),
            operator,
            brand,
            nav => nav.collect::<Vec<_>>(),
            footer,
            year => options.today.year(),
            custom_css => data.custom_css.as_deref(),
            confirms_waitlist => options.confirms_addresses(),
            search => data.has_search.then(|| language.search_index_path()),
            extra => to_template_value(&options.extra),
        }
    }

    /// The text of `<title>`: the page's title and the site's, or, on a home page, the site's title and its
    /// tagline, if it has one. Only the page's title if the site has no title or the same one.
    fn html_title(&self) -> String {
        let document = self.document;
        let Language { title: site, tagline, .. } = &self.shared.language(document).language;
        let title = &document.front_matter.title;
        if site.is_empty() || title == site {
            title.clone()
        } else if document.kind == PageKind::Home && !tagline.is_empty() {
            format!("{site}: {tagline}")
        } else {
            format!("{title} · {site}")
        }
    }

    /// Structured data (schema.org) as JSON-LD about the page, its breadcrumbs and, on a home page, the site.
    /// Only posts have a headline, an author and keywords.
    fn json_ld(&self, url: &str) -> String {
        let Self { shared, document, content: _, view } = *self;
        let options = &shared.data.options;
        let LanguageData { language, home, .. } = shared.language(document);
        let matter = &document.front_matter;
        let is_post = document.kind == PageKind::Post;
        let mut page = json!({
            "@type": if is_post { "BlogPosting" } else { "WebPage" },
            "@id": url,
            "url": url,
            "name": matter.title,
            "inLanguage": language.tag,
            "dateModified": document.updated,
            "publisher": {
                "@type": "Organization",
                "name": if options.operator.name.is_empty() { &language.name } else { &options.operator.name },
                "url": shared.absolute_url("/"),
            },
        });
        let author = matter.author.as_ref().filter(|_| is_post);
        let more = [
            ("description", matter.description.as_deref().map(Json::from)),
            ("datePublished", matter.date.map(|date| json!(date))),
            ("image", document.image.as_deref().map(Json::from)),
            ("headline", is_post.then(|| matter.title.as_str().into())),
            ("author", author.map(|name| json!({ "@type": "Person", "name": name }))),
            ("keywords", (is_post && !matter.tags.is_empty()).then(|| matter.tags.join(", ").into())),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                page[name] = value;
            }
        }
        let mut things = vec![page];
        if !view.breadcrumbs.is_empty() {
            let items = view.breadcrumbs.iter().zip(1..).map(|(link, position)| {
                let url = [&*options.base_url, &link.path].concat();
                json!({ "@type": "ListItem", "position": position, "name": link.title, "item": url })
            });
            let items: Vec<Json> = items.collect();
            things.push(json!({ "@type": "BreadcrumbList", "itemListElement": items }));
        }
        if document.kind == PageKind::Home {
            let (name, description) = (&language.title, &language.description);
            let url = shared.absolute_url(home);
            things.push(json!({ "@type": "WebSite", "name": name, "url": url, "description": description }));
        }
        json_for_script(&json!({ "@context": "https://schema.org", "@graph": things }))
    }
}

/// The URL for `hreflang="x-default"`, for visitors whose language is not among the translations: that of the
/// page in the default language. `None` if there is no such translation.
fn default_url<'a>(translations: &'a [LanguageLink], default: &str) -> Option<&'a str> {
    translations.iter().find(|link| link.language == default).map(|link| link.url.as_str())
}
