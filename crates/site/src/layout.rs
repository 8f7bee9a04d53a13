//! Lays out pages: builds the context of a template, and renders the template to HTML.
//!
//! The context has four parts: the data that all pages share ([`SiteContext`]), the page ([`Document`]), its
//! body ([`Content`]), and the other pages that it links to ([`RelatedPages`]). A reload reuses a page's HTML
//! if none of these parts has changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;

use super::brand::Brand;
use super::content::{Bodies, Content};
use super::document::{Document, PageKind, Tag, listed_posts_newest_first, listed_tags};
use super::form_page::{FieldMarkers, message_marker};
use super::language::Language;
use super::maps::HashMap;
use super::options::{FooterGroup, PageForm, PagesOptions};
use super::pagination::{ListPage, Pagination, post_range};
use super::path::{encode, twin_path};
use super::schedule::{Unpublished, format_time};
use super::search::index_path;
use super::section::{NavSection, SectionPage, sections};
use super::structured_data::{PageThing, Thing, to_json_ld};
use super::theme::{CompiledTheme, template_fault};
use super::translations::{LanguageLink, Translations};
use super::words::WordList;
use crate::fault::Fault;
use frontdesk_forms::text::escape_html;
use frontdesk_forms::{Field, FieldKind};
use frontdesk_process::panics;

/// A page or a tag in a list.
#[derive(Debug, Clone, Default, Serialize, PartialEq)]
pub(super) struct ListItem {
    pub title: String,
    /// Percent-encoded.
    pub path: String,
    pub description: Option<String>,
    pub date: Option<String>,
    pub date_human: Option<String>,
    pub author: Option<String>,
    pub tags: Vec<Tag>,
    pub reading_minutes: usize,
    /// Whether only a preview shows the page.
    pub draft: bool,
}

#[derive(Debug, Clone, Serialize, PartialEq)]
pub(super) struct NavLink {
    title: String,
    /// Percent-encoded.
    path: String,
}

impl NavLink {
    fn new(title: &str, page: &Document) -> Self {
        Self { title: title.to_owned(), path: encode(&page.path).into_owned() }
    }
}

#[derive(Debug, PartialEq)]
pub(super) struct SiteData {
    /// Without footer, words and languages, which [`LanguageData`] contains.
    pub options: PagesOptions,
    pub forms: Vec<PageForm>,
    /// In the order of the site's languages.
    pub languages: Vec<LanguageData>,
    /// The URL of the stylesheet with the operator's additions.
    custom_css: Option<String>,
    brand: Brand,
    has_search: bool,
}

/// The data that all pages in one language share.
#[derive(Debug, PartialEq)]
pub(super) struct LanguageData {
    pub language: Language,
    navigation: Vec<NavLink>,
    pub tags: Vec<Tag>,
    /// Every link has a title.
    footer: Vec<FooterGroup>,
    /// The path of the home page in this language, or in the default language if there is none.
    home: String,
    sections: Vec<NavSection>,
}

/// Parts of [`LanguageData`] as template values, converted once.
#[derive(Debug)]
struct LanguageValues {
    words: Value,
    /// The words of the forms' script as JSON.
    form_words: Option<String>,
    footer: Value,
    tags: Value,
    forms: Value,
    tag_index: HashMap<String, usize>,
}

/// A form in the language of a page.
#[derive(Serialize)]
struct FormValues<'a> {
    name: &'a str,
    action: &'a str,
    tool: &'a str,
    description: &'a str,
    fields: Vec<FieldValues<'a>>,
    works_without_script: bool,
}

#[derive(Serialize)]
struct FieldValues<'a> {
    label: &'a str,
    description: &'a str,
    name: &'a str,
    kind: FieldKind,
    required: bool,
    max: usize,
    autocomplete: &'a str,
    /// The markers for values and errors, only on a page that answers a form without JavaScript.
    answer: Option<FieldMarkers>,
}

/// The site's documents, and the options and files that affect all pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayoutInputs<'a> {
    pub documents: &'a [Document],
    pub options: &'a PagesOptions,
    pub languages: &'a [Language],
    pub forms: &'a [PageForm],
    /// The URL of the stylesheet with the operator's additions.
    pub custom_css: Option<&'a str>,
    pub brand: &'a Brand,
}

/// The templates and the data that all pages share.
#[derive(Debug)]
pub(super) struct SiteContext {
    pub data: SiteData,
    templates: Arc<CompiledTheme>,
    // Parts of `data`, converted to template values once.
    operator: Value,
    brand: Value,
    /// In the order of the site's languages.
    languages: Vec<LanguageValues>,
}

impl SiteContext {
    /// Creates the context, or returns `before` if nothing has changed.
    pub fn new(
        inputs: LayoutInputs<'_>,
        templates: Arc<CompiledTheme>,
        has_search: bool,
        before: Option<&Arc<SiteContext>>,
    ) -> Arc<Self> {
        let LayoutInputs { documents, options, languages, forms, custom_css, brand } = inputs;
        let links = Translations::new(documents, languages, &options.base_url);
        let by_path: HashMap<&str, &Document> =
            documents.iter().map(|document| (document.path.as_str(), document)).collect();
        let language_data = languages.iter().enumerate().map(|(index, language)| {
            let navigation = navigation_pages(documents, index).into_iter();
            let home = language.home();
            LanguageData {
                navigation: navigation.map(|page| NavLink::new(page.nav_title_or_title(), page)).collect(),
                tags: listed_tags(documents, index, &language.prefix),
                footer: footer_in(index, language, &options.footer, &by_path, &links),
                home: if by_path.contains_key(home.as_str()) { home } else { "/".to_owned() },
                sections: sections(&section_pages(documents, index)),
                language: language.clone(),
            }
        });
        let language_data: Vec<LanguageData> = language_data.collect();
        let mut options = options.clone();
        // Pages show only the year. A new day must not invalidate all cached pages.
        options.today = options.today.first_of_year();
        options.footer.clear();
        options.words.clear();
        options.redirects.clear();
        let data = SiteData {
            options,
            forms: forms.to_vec(),
            languages: language_data,
            custom_css: custom_css.map(str::to_owned),
            brand: brand.clone(),
            has_search,
        };
        let same = before.filter(|before| Arc::ptr_eq(&before.templates, &templates) && before.data == data);
        same.cloned().unwrap_or_else(|| {
            let english = WordList::english();
            let languages = data.languages.iter();
            Arc::new(Self {
                operator: to_template_value(&data.options.operator),
                brand: to_template_value(&data.brand),
                languages: languages.map(|of| LanguageValues::new(of, &data, &english)).collect(),
                data,
                templates,
            })
        })
    }

    /// Whether the context was created with these templates and this value of `has_search`.
    pub fn was_created_with(&self, templates: &Arc<CompiledTheme>, has_search: bool) -> bool {
        Arc::ptr_eq(&self.templates, templates) && self.data.has_search == has_search
    }

    /// The data of the page's language.
    pub fn language(&self, document: &Document) -> &LanguageData {
        &self.data.languages[document.language]
    }

    fn find_tag(&self, name: &str, language: usize) -> Option<&Tag> {
        self.languages[language].tag_index.get(name).map(|at| &self.data.languages[language].tags[*at])
    }

    fn absolute_url(&self, path: &str) -> String {
        format!("{}{}", self.data.options.base_url, encode(path))
    }
}

impl LanguageValues {
    fn new(data: &LanguageData, site: &SiteData, english: &WordList) -> Self {
        let words = &data.language.words;
        Self {
            words: words.to_template_value(),
            form_words: words.of_script(english),
            footer: to_template_value(&data.footer),
            tags: to_template_value(&data.tags),
            forms: form_values(&site.forms, words, site.options.html_posts, false),
            tag_index: data.tags.iter().map(|tag| tag.name.clone()).zip(0..).collect(),
        }
    }
}

/// The forms by name. `is_answer` adds the markers for a page that answers a form without JavaScript.
pub(super) fn form_values(
    forms: &[PageForm],
    words: &WordList,
    works_without_script: bool,
    is_answer: bool,
) -> Value {
    let new = |form| FormValues::new(form, words, works_without_script, is_answer);
    let forms: BTreeMap<&str, FormValues<'_>> = forms.iter().map(|form| (form.name, new(form))).collect();
    to_template_value(forms)
}

impl<'a> FormValues<'a> {
    fn new(form: &'a PageForm, words: &'a WordList, works_without_script: bool, is_answer: bool) -> Self {
        let field = |field: &'a Field| {
            let word = |end: &str, otherwise| {
                words.find(&format!("{}_{}{end}", form.name, field.name)).unwrap_or(otherwise)
            };
            FieldValues {
                label: word("", field.label),
                description: word("_hint", field.description),
                name: field.name,
                kind: field.kind,
                required: field.required,
                max: field.max_chars,
                autocomplete: field.autocomplete,
                answer: is_answer.then(|| FieldMarkers::new(field.name)),
            }
        };
        Self {
            name: form.name,
            action: form.action,
            tool: form.tool,
            description: words.find(&format!("{}_description", form.name)).unwrap_or(form.description),
            fields: form.fields.iter().map(field).collect(),
            works_without_script,
        }
    }
}

/// The pages in one language that may be in a section: listed pages that are not posts or lists.
fn section_pages(documents: &[Document], language: usize) -> Vec<SectionPage> {
    let listed = documents.iter().filter(|document| {
        let matter = &document.front_matter;
        document.language == language
            && (matter.section || (document.kind == PageKind::Page && !matter.unlisted))
    });
    let page = |document: &Document| SectionPage {
        path: document.path.clone(),
        title: document.nav_title_or_title().to_owned(),
        weight: document.front_matter.weight,
        opens_section: document.front_matter.section,
    };
    listed.map(page).collect()
}

fn navigation_pages(documents: &[Document], language: usize) -> Vec<&Document> {
    let is_in_navigation =
        |document: &&Document| document.language == language && document.front_matter.nav.is_some();
    let mut pages: Vec<&Document> = documents.iter().filter(is_in_navigation).collect();
    pages.sort_by_key(|document| document.front_matter.nav);
    pages
}

/// The footer in a language. Links lead to translations, if there are any. Fills in missing titles: the short
/// title of the linked page, or the link's address if there is no such page.
fn footer_in(
    index: usize,
    language: &Language,
    groups: &[FooterGroup],
    by_path: &HashMap<&str, &Document>,
    translations: &Translations<'_>,
) -> Vec<FooterGroup> {
    let is_shown = |group: &&FooterGroup| {
        group.language.as_ref().is_none_or(|tag| tag.eq_ignore_ascii_case(&language.tag))
    };
    let mut groups: Vec<FooterGroup> = groups.iter().filter(is_shown).cloned().collect();
    for link in groups.iter_mut().flat_map(|group| &mut group.links) {
        let mut page = by_path.get(link.href.as_str()).copied();
        if let Some(path) = page.and_then(|page| translations.path_in(index, page)) {
            path.clone_into(&mut link.href);
            page = by_path.get(path).copied();
        }
        let title = link.title.clone().or_else(|| Some(page?.nav_title_or_title().to_owned()));
        link.title = Some(title.unwrap_or_else(|| link.href.clone()));
    }
    groups
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct RelatedPages {
    /// The path from the home page to this page. The last entry is this page.
    breadcrumbs: Vec<NavLink>,
    /// The next older post.
    previous: Option<NavLink>,
    /// The next newer post.
    next: Option<NavLink>,
    /// The posts that the page lists.
    pub listing: Vec<ListItem>,
    /// Links to the other pages of the list.
    pub pagination: Option<Pagination>,
    /// Links to the main pages as Markdown, for the 404 page.
    pub help: String,
    /// This page and its translations, if there are any.
    pub translations: Vec<LanguageLink>,
    /// Links to the site's languages, if there are several.
    switcher: Vec<LanguageLink>,
}

pub(super) struct PageIndex<'a> {
    documents: &'a [Document],
    shared: &'a SiteContext,
    by_path: HashMap<&'a str, &'a Document>,
    /// By language, newest first.
    posts: Vec<Vec<&'a Document>>,
    /// The index in the language's posts, by path.
    post_index: HashMap<&'a str, usize>,
    /// How long it takes to read each post, by path.
    reading_minutes: HashMap<&'a str, usize>,
    /// By language and tag, newest first.
    posts_by_tag: HashMap<(usize, &'a str), Vec<&'a Document>>,
    translations: Translations<'a>,
}

impl<'a> PageIndex<'a> {
    pub fn new(inputs: LayoutInputs<'a>, shared: &'a SiteContext, bodies: &Bodies) -> Self {
        let LayoutInputs { documents, languages, .. } = inputs;
        let posts = (0..languages.len()).map(|index| listed_posts_newest_first(documents, index));
        let posts: Vec<Vec<&Document>> = posts.collect();
        let mut posts_by_tag: HashMap<(usize, &str), Vec<&Document>> = HashMap::default();
        for &post in posts.iter().flatten() {
            for tag in &post.front_matter.tags {
                posts_by_tag.entry((post.language, tag)).or_default().push(post);
            }
        }
        Self {
            documents,
            shared,
            by_path: documents.iter().map(|document| (document.path.as_str(), document)).collect(),
            post_index: posts
                .iter()
                .flat_map(|posts| posts.iter().enumerate().map(|(at, post)| (post.path.as_str(), at)))
                .collect(),
            reading_minutes: posts
                .iter()
                .flatten()
                .map(|post| (post.path.as_str(), bodies.of(post).reading_minutes()))
                .collect(),
            posts,
            posts_by_tag,
            translations: Translations::new(documents, languages, &shared.data.options.base_url),
        }
    }

    /// The other pages that the template of `document` shows.
    pub fn related_pages(&self, document: &Document) -> RelatedPages {
        let newest = self.post_index.get(document.path.as_str()).copied();
        let neighbour = |at: Option<usize>| {
            let post = self.posts[document.language].get(at?)?;
            Some(NavLink::new(&post.front_matter.title, post))
        };
        RelatedPages {
            breadcrumbs: self.breadcrumbs(document),
            previous: neighbour(newest.map(|at| at + 1)),
            next: neighbour(newest.and_then(|at| at.checked_sub(1))),
            listing: self.listed_posts(document),
            pagination: document.list_page.as_ref().and_then(ListPage::links),
            help: if document.kind == PageKind::NotFound { self.main_pages(document) } else { String::new() },
            translations: self.translations.of(document),
            switcher: self.translations.switcher(document),
        }
    }

    fn listed_posts(&self, document: &Document) -> Vec<ListItem> {
        let all = &self.posts[document.language];
        let posts: &[&Document] = match &document.kind {
            PageKind::Blog => all,
            PageKind::Home => &all[..all.len().min(3)],
            PageKind::Tag(name) => {
                self.posts_by_tag.get(&(document.language, name.as_str())).map_or(&[], Vec::as_slice)
            }
            _ => &[],
        };
        let shown = match &document.list_page {
            Some(page) => post_range(page.number, self.shared.data.options.posts_per_page, posts.len()),
            None => 0..posts.len(),
        };
        posts[shown].iter().map(|post| self.list_item(post)).collect()
    }

    fn list_item(&self, document: &Document) -> ListItem {
        let matter = &document.front_matter;
        let tags = matter.tags.iter().filter_map(|name| self.shared.find_tag(name, document.language));
        let words = &self.shared.language(document).language.words;
        ListItem {
            title: matter.title.clone(),
            path: encode(&document.path).into_owned(),
            description: matter.description.clone(),
            date: matter.date.map(|date| date.to_string()),
            date_human: matter.date.map(|date| words.date(date)),
            author: matter.author.clone(),
            tags: tags.cloned().collect(),
            reading_minutes: self.reading_minutes.get(document.path.as_str()).copied().unwrap_or_default(),
            draft: document.unpublished.is_some(),
        }
    }

    fn breadcrumbs(&self, document: &Document) -> Vec<NavLink> {
        if matches!(document.kind, PageKind::Home | PageKind::NotFound) {
            return Vec::new();
        }
        let LanguageData { language, home, .. } = self.shared.language(document);
        let name = language.words.get("home");
        let title = |page: &Document| {
            if page.path == *home { name.to_owned() } else { page.nav_title_or_title().to_owned() }
        };
        let ends = document.path.match_indices('/').map(|(at, _)| &document.path[..=at]);
        // The home page of another language is not above this page.
        let below = ends.filter(|path| *path != "/" && *path != home);
        let above = std::iter::once(home.as_str()).chain(below).filter_map(|path| self.by_path.get(path));
        above.map(|page| NavLink::new(&title(page), page)).collect()
    }

    /// The 404 page's list of main pages, as Markdown.
    fn main_pages(&self, document: &Document) -> String {
        let base = &self.shared.data.options.base_url;
        let LanguageData { language, home, .. } = self.shared.language(document);
        let mut text = format!("{}\n\n", language.words.get("main_pages"));
        let mut navigation = navigation_pages(self.documents, document.language);
        navigation.retain(|document| document.path != *home);
        for page in self.by_path.get(home.as_str()).into_iter().chain(&navigation) {
            let description = page.front_matter.description.as_deref().unwrap_or_default();
            let (title, path) = (page.nav_title_or_title(), encode(&page.path));
            text.push_str(&format!("- [{title}]({base}{path}): {description}\n"));
        }
        text
    }
}

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

    /// The page's title and content without a template, for a page whose template panics.
    pub fn render_without_theme(&self) -> String {
        let language = &self.shared.language(self.document).language.tag;
        let title = escape_html(&self.document.front_matter.title);
        format!(
            "<!doctype html>\n<html lang=\"{language}\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <main>\n<h1>{title}</h1>\n{}</main>\n</html>\n",
            &*self.content.html
        )
    }

    /// Renders the page as the answer to a form without JavaScript, with markers for what depends on the
    /// request.
    pub fn render_answer(&self) -> Result<String, Fault> {
        let data = &self.shared.data;
        let words = &self.shared.language(self.document).language.words;
        let values = self.template_values();
        let title = words.fill("answer_title", &[("title", &self.html_title())]);
        let page = values.get_attr("page").unwrap_or_default();
        let page = context! { head_title => title, ..page };
        let forms = form_values(&data.forms, words, true, true);
        self.render(context! { page, forms, answer => message_marker(), ..values })
    }

    fn render(&self, values: Value) -> Result<String, Fault> {
        let name = format!("{}.html", self.document.template_name());
        let environment = &self.shared.templates.environment;
        let template = environment.get_template(&name).map_err(|error| template_fault(&error))?;
        template.render(values).map_err(|error| template_fault(&error))
    }

    fn template_values(&self) -> Value {
        let Self { shared, document, content, view } = *self;
        let matter = &document.front_matter;
        let url = shared.absolute_url(&document.path);
        let find_tag = |name: &String| shared.find_tag(name, document.language);
        let tag = if let PageKind::Tag(name) = &document.kind { find_tag(name) } else { None };
        let tags: Vec<&Tag> = matter.tags.iter().filter_map(find_tag).collect();
        let Language { tag: language, words, .. } = &shared.language(document).language;
        let values = &shared.languages[document.language];
        // The 404 page has neither a URL nor a date.
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
            scheduled => scheduled.map(format_time),
            form => matter.form.as_deref(),
            cta => to_template_value(&matter.cta),
            highlights => to_template_value(&matter.highlights),
            reading_minutes => content.reading_minutes(),
            json_ld => is_page.then(|| Value::from_safe_string(self.json_ld(&url))),
            breadcrumbs => to_template_value(&view.breadcrumbs),
            previous => to_template_value(&view.previous),
            next => to_template_value(&view.next),
            language => language.as_str(),
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

    /// The navigation of the page's section; `None` if the page is not in a section.
    fn section(&self) -> Option<Value> {
        let path = self.document.path.as_str();
        if !matches!(self.document.kind, PageKind::Page | PageKind::Home) {
            return None;
        }
        let sections = &self.shared.language(self.document).sections;
        let sections = sections.iter().filter(|section| section.contains(path));
        let section = sections.max_by_key(|section| section.depth())?;
        let [previous, next] = section.neighbours(path).map(|page| {
            let (path, title) = page?;
            Some(NavLink { title: title.to_owned(), path: encode(path).into_owned() })
        });
        Some(context! {
            entries => to_template_value(section.entries(path)),
            previous => to_template_value(previous),
            next => to_template_value(next),
        })
    }

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
            confirms_waitlist => options.confirms_waitlist,
            search => data.has_search.then(|| index_path(language)),
            extra => to_template_value(&options.extra),
        }
    }

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

    /// Structured data about the page as JSON-LD.
    fn json_ld(&self, url: &str) -> String {
        let Self { shared, document, content: _, view } = *self;
        let (options, crumbs) = (&shared.data.options, &view.breadcrumbs);
        let LanguageData { language, home, .. } = shared.language(document);
        let matter = &document.front_matter;
        let is_post = document.kind == PageKind::Post;
        let page = PageThing {
            id: url,
            url,
            name: &matter.title,
            in_language: &language.tag,
            date_modified: document.updated,
            publisher: Box::new(Thing::Organization {
                name: &options.operator.name,
                url: shared.absolute_url("/"),
            }),
            description: matter.description.as_deref(),
            date_published: matter.date,
            image: document.image.as_deref(),
            headline: is_post.then_some(&matter.title),
            author: matter.author.as_ref().filter(|_| is_post).map(|name| Box::new(Thing::Person { name })),
            keywords: (is_post && !matter.tags.is_empty()).then(|| matter.tags.join(", ")),
        };
        let mut things = vec![if is_post { Thing::BlogPosting(page) } else { Thing::WebPage(page) }];
        if !crumbs.is_empty() {
            let items = crumbs.iter().zip(1..).map(|(link, position)| Thing::ListItem {
                position,
                name: &link.title,
                item: [&*options.base_url, &link.path].concat(),
            });
            things.push(Thing::BreadcrumbList { item_list_element: items.collect() });
        }
        if document.kind == PageKind::Home {
            let (name, description) = (&language.title, &language.description);
            things.push(Thing::WebSite { name, url: shared.absolute_url(home), description });
        }
        to_json_ld(&things)
    }
}

/// The URL for visitors whose language is not among the translations: the page in the default language.
fn default_url<'a>(translations: &'a [LanguageLink], default: &str) -> Option<&'a str> {
    translations.iter().find(|link| link.language == default).map(|link| link.url.as_str())
}

fn to_template_value(value: impl Serialize) -> Value {
    Value::from(Serde(value))
}
