//! Lays out pages: builds the context of a template and renders it to HTML.
//!
//! The context has three parts: the data that all pages share ([`SiteContext`]), the page itself
//! ([`Document`]), and the other pages that the page links to ([`RelatedPages`]). A reload reuses the HTML of
//! a page if none of these parts has changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::civil::Date;
use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;
use serde_json::json;

use super::brand::Brand;
use super::document::{Document, PageKind, Tag, listed_posts_newest_first, listed_tags};
use super::options::{PageForm, PagesOptions};
use super::path::{encode, twin_path};
use super::schedule::{Unpublished, format_time};
use super::theme::{CompiledTheme, template_fault};
use crate::fault::Fault;

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
    /// Every footer link in these options has a title.
    pub options: PagesOptions,
    pub forms: Vec<PageForm>,
    navigation: Vec<NavLink>,
    pub tags: Vec<Tag>,
    /// The URL of the stylesheet with the operator's additions.
    custom_css: Option<String>,
    brand: Brand,
}

/// The templates and the data that all pages share.
#[derive(Debug)]
pub(super) struct SiteContext {
    pub data: SiteData,
    templates: Arc<CompiledTheme>,
    // Parts of `data` as template values, converted once.
    operator: Value,
    footer: Value,
    brand: Value,
    tags: Value,
    forms: Value,
    tag_index: HashMap<String, usize>,
}

impl SiteContext {
    /// Creates the context, or returns `before` if nothing has changed.
    pub fn new(
        documents: &[Document],
        options: &PagesOptions,
        forms: &[PageForm],
        templates: Arc<CompiledTheme>,
        (custom_css, brand): (Option<String>, Brand),
        before: Option<&Arc<SiteContext>>,
    ) -> Arc<Self> {
        let navigation = navigation_pages(documents).into_iter();
        let mut options = options.clone();
        // Pages show only the year, so truncate the date: a new day must not invalidate all cached pages.
        options.today = options.today.first_of_year();
        options.now = None;
        name_footer_links(&mut options, documents);
        let data = SiteData {
            options,
            forms: forms.to_vec(),
            navigation: navigation.map(|page| NavLink::new(page.nav_title_or_title(), page)).collect(),
            tags: listed_tags(documents),
            custom_css,
            brand,
        };
        let same = before.filter(|before| Arc::ptr_eq(&before.templates, &templates) && before.data == data);
        same.cloned().unwrap_or_else(|| {
            let forms: BTreeMap<_, _> = data.forms.iter().map(|form| (form.name, form)).collect();
            Arc::new(Self {
                operator: to_template_value(&data.options.operator),
                footer: to_template_value(&data.options.footer),
                brand: to_template_value(&data.brand),
                tags: to_template_value(&data.tags),
                forms: to_template_value(forms),
                tag_index: data.tags.iter().map(|tag| tag.name.clone()).zip(0..).collect(),
                data,
                templates,
            })
        })
    }

    fn find_tag(&self, name: &str) -> Option<&Tag> {
        self.tag_index.get(name).map(|at| &self.data.tags[*at])
    }

    fn absolute_url(&self, path: &str) -> String {
        format!("{}{}", self.data.options.base_url, encode(path))
    }
}

fn navigation_pages(documents: &[Document]) -> Vec<&Document> {
    let mut pages: Vec<&Document> =
        documents.iter().filter(|document| document.front_matter.nav.is_some()).collect();
    pages.sort_by_key(|document| document.front_matter.nav);
    pages
}

/// Fills in missing footer link titles: the short title of the linked page, or the link's address if there is
/// no such page.
fn name_footer_links(options: &mut PagesOptions, documents: &[Document]) {
    for link in options.footer.iter_mut().flat_map(|group| &mut group.links) {
        let page = || documents.iter().rfind(|document| document.path == link.href);
        let title = link.title.clone().or_else(|| Some(page()?.nav_title_or_title().to_owned()));
        link.title = Some(title.unwrap_or_else(|| link.href.clone()));
    }
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
    /// Links to the main pages as Markdown, for the 404 page.
    pub help: String,
}

pub(super) struct PageIndex<'a> {
    documents: &'a [Document],
    shared: &'a SiteContext,
    by_path: HashMap<&'a str, &'a Document>,
    /// Newest first.
    posts: Vec<&'a Document>,
    post_index: HashMap<&'a str, usize>,
    /// Newest first.
    posts_by_tag: HashMap<&'a str, Vec<&'a Document>>,
}

impl<'a> PageIndex<'a> {
    pub fn new(documents: &'a [Document], shared: &'a SiteContext) -> Self {
        let posts = listed_posts_newest_first(documents);
        let mut posts_by_tag: HashMap<&str, Vec<&Document>> = HashMap::new();
        for &post in &posts {
            for tag in &post.front_matter.tags {
                posts_by_tag.entry(tag).or_default().push(post);
            }
        }
        Self {
            documents,
            shared,
            by_path: documents.iter().map(|document| (document.path.as_str(), document)).collect(),
            post_index: posts.iter().enumerate().map(|(at, post)| (post.path.as_str(), at)).collect(),
            posts,
            posts_by_tag,
        }
    }

    /// The other pages that the template of `document` shows.
    pub fn related_pages(&self, document: &Document) -> RelatedPages {
        let newest = self.post_index.get(document.path.as_str()).copied();
        let neighbour = |at: Option<usize>| {
            let post = self.posts.get(at?)?;
            Some(NavLink::new(&post.front_matter.title, post))
        };
        RelatedPages {
            breadcrumbs: self.breadcrumbs(document),
            previous: neighbour(newest.map(|at| at + 1)),
            next: neighbour(newest.and_then(|at| at.checked_sub(1))),
            listing: self.listed_posts(document),
            help: if document.kind == PageKind::NotFound { self.main_pages() } else { String::new() },
        }
    }

    /// The posts that a page lists: all posts on the blog page, the tag's posts on a tag page, and the three
    /// newest posts on the home page.
    fn listed_posts(&self, document: &Document) -> Vec<ListItem> {
        let posts: &[&Document] = match &document.kind {
            PageKind::Blog => &self.posts,
            PageKind::Home => &self.posts[..self.posts.len().min(3)],
            PageKind::Tag(name) => self.posts_by_tag.get(name.as_str()).map_or(&[], Vec::as_slice),
            _ => &[],
        };
        posts.iter().map(|post| self.list_item(post)).collect()
    }

    fn list_item(&self, document: &Document) -> ListItem {
        let matter = &document.front_matter;
        let tags = matter.tags.iter().filter_map(|name| self.shared.find_tag(name));
        ListItem {
            title: matter.title.clone(),
            path: encode(&document.path).into_owned(),
            description: matter.description.clone(),
            date: matter.date.map(|date| date.to_string()),
            date_human: matter.date.map(format_date),
            author: matter.author.clone(),
            tags: tags.cloned().collect(),
            reading_minutes: document.reading_minutes(),
            draft: document.unpublished.is_some(),
        }
    }

    fn breadcrumbs(&self, document: &Document) -> Vec<NavLink> {
        if matches!(document.kind, PageKind::Home | PageKind::NotFound) {
            return Vec::new();
        }
        let ends = document.path.match_indices('/').map(|(at, _)| &document.path[..=at]);
        ends.filter_map(|path| self.by_path.get(path))
            .map(|page| NavLink::new(if page.path == "/" { "Home" } else { page.nav_title_or_title() }, page))
            .collect()
    }

    /// The 404 page's list of main pages, as Markdown.
    fn main_pages(&self) -> String {
        let base = &self.shared.data.options.base_url;
        let mut text = String::from("These are the main pages:\n\n");
        let mut navigation = navigation_pages(self.documents);
        navigation.retain(|document| document.path != "/");
        for page in self.by_path.get("/").into_iter().chain(&navigation) {
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
    pub view: &'a RelatedPages,
}

impl TemplateContext<'_> {
    pub fn render_html(&self) -> Result<String, Fault> {
        let name = format!("{}.html", self.document.template_name());
        let environment = &self.shared.templates.environment;
        let template = environment.get_template(&name).map_err(|error| template_fault(&error))?;
        template.render(self.template_values()).map_err(|error| template_fault(&error))
    }

    fn template_values(&self) -> Value {
        let Self { shared, document, view } = *self;
        let matter = &document.front_matter;
        let url = shared.absolute_url(&document.path);
        let tag = if let PageKind::Tag(name) = &document.kind { shared.find_tag(name) } else { None };
        let tags: Vec<&Tag> = matter.tags.iter().filter_map(|name| shared.find_tag(name)).collect();
        // The 404 page has neither a URL nor a date.
        let is_page = document.kind != PageKind::NotFound;
        let headings = &document.content.facts.headings;
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
            html => Value::from_safe_string((*document.content.html).to_owned()),
            toc => to_template_value(matter.toc.then_some(toc)),
            date => matter.date.map(|date| date.to_string()),
            date_human => matter.date.map(format_date),
            updated => is_page.then(|| document.updated.to_string()),
            updated_human => is_page.then(|| format_date(document.updated)),
            author => matter.author.as_deref(),
            tags => to_template_value(tags),
            image_url => document.image.as_deref(),
            kind => document.kind.name(),
            draft => document.unpublished.is_some(),
            scheduled => scheduled.map(format_time),
            form => matter.form.as_deref(),
            cta => to_template_value(&matter.cta),
            highlights => to_template_value(&matter.highlights),
            reading_minutes => document.reading_minutes(),
            json_ld => is_page.then(|| Value::from_safe_string(self.json_ld(&url))),
            breadcrumbs => to_template_value(&view.breadcrumbs),
            previous => to_template_value(&view.previous),
            next => to_template_value(&view.next),
        };
        context! {
            site => self.site_values(),
            page => page,
            posts => to_template_value(&view.listing),
            tags => &shared.tags,
            tag => to_template_value(tag),
            forms => &shared.forms,
        }
    }

    fn site_values(&self) -> Value {
        let SiteContext { data, operator, footer, brand, .. } = self.shared;
        let options = &data.options;
        let path = encode(&self.document.path);
        let nav = data.navigation.iter().map(|page| {
            context! {
                title => page.title.as_str(),
                path => page.path.as_str(),
                current => path == page.path || (page.path != "/" && path.starts_with(&page.path)),
            }
        });
        context! {
            title => options.title.as_str(),
            tagline => options.tagline.as_str(),
            description => options.description.as_str(),
            language => options.language.as_str(),
            base_url => options.base_url.as_str(),
            operator,
            brand,
            nav => nav.collect::<Vec<_>>(),
            footer,
            year => options.today.year(),
            custom_css => data.custom_css.as_deref(),
        }
    }

    fn html_title(&self) -> String {
        let (document, options) = (self.document, &self.shared.data.options);
        let (title, site) = (&document.front_matter.title, &options.title);
        if site.is_empty() || title == site {
            title.clone()
        } else if document.kind == PageKind::Home && !options.tagline.is_empty() {
            format!("{site}: {}", options.tagline)
        } else {
            format!("{title} · {site}")
        }
    }

    /// Structured data (schema.org) as JSON, escaped for use in a script element.
    fn json_ld(&self, url: &str) -> String {
        let Self { shared, document, view } = *self;
        let (options, crumbs) = (&shared.data.options, &view.breadcrumbs);
        let matter = &document.front_matter;
        let publisher = json!({ "@type": "Organization", "name": options.operator.name, "url": shared.absolute_url("/") });
        let mut page = json!({
            "@type": if document.kind == PageKind::Post { "BlogPosting" } else { "WebPage" },
            "@id": url,
            "url": url,
            "name": matter.title,
            "inLanguage": options.language,
            "dateModified": document.updated.to_string(),
            "publisher": publisher,
        });
        let mut set = |key: &str, value: Option<serde_json::Value>| {
            if let Some(value) = value {
                page[key] = value;
            }
        };
        set("description", matter.description.clone().map(Into::into));
        set("datePublished", matter.date.map(|date| date.to_string().into()));
        set("image", document.image.clone().map(Into::into));
        if document.kind == PageKind::Post {
            set("headline", Some(matter.title.clone().into()));
            set("author", matter.author.as_ref().map(|name| json!({ "@type": "Person", "name": name })));
            set("keywords", (!matter.tags.is_empty()).then(|| matter.tags.join(", ").into()));
        }
        let mut graph = vec![page];
        if !crumbs.is_empty() {
            let items: Vec<_> = crumbs
                .iter()
                .enumerate()
                .map(|(at, link)| {
                    json!({ "@type": "ListItem", "position": at + 1, "name": link.title, "item": format!("{}{}", options.base_url, link.path) })
                })
                .collect();
            graph.push(json!({ "@type": "BreadcrumbList", "itemListElement": items }));
        }
        if document.kind == PageKind::Home {
            graph.push(json!({ "@type": "WebSite", "name": options.title, "url": shared.absolute_url("/"), "description": options.description }));
        }
        json!({ "@context": "https://schema.org", "@graph": graph })
            .to_string()
            .replace("</", "<\\/")
            .replace("<!--", "<\\u0021--")
    }
}

fn to_template_value(value: impl Serialize) -> Value {
    Value::from(Serde(value))
}

/// Formats a date for readers: `20 November 2026`.
fn format_date(date: Date) -> String {
    date.strftime("%-d %B %Y").to_string()
}
