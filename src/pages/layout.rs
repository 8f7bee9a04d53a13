//! Lays a page out: gathers what a template sees and renders it to HTML.
//!
//! What a template sees is in three parts: what all pages share ([`Shared`]), the page itself ([`Document`]), and what it shows of
//! other pages ([`View`]). Where all three are the same as before, so is the page.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::civil::Date;
use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;
use serde_json::json;

use super::document::{Document, Kind, Tag, posts_of, tags_of};
use super::path::{encode, twin};
use super::theme::{Compiled, template_fault};
use super::{FooterLink, Form, Options};
use crate::fault::Fault;

/// A page or a tag as lists show it.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub(super) struct Listing {
    pub title: String,
    /// Percent-encoded.
    pub path: String,
    pub description: Option<String>,
    pub date: Option<String>,
    pub date_human: Option<String>,
    pub author: Option<String>,
    pub tags: Vec<Tag>,
    pub reading_minutes: usize,
}

#[derive(Debug, Clone, Serialize, PartialEq)]
pub(super) struct Step {
    title: String,
    /// Percent-encoded.
    path: String,
}

/// A page of the main navigation.
#[derive(Debug, PartialEq)]
struct Destination {
    step: Step,
    /// Decoded.
    path: String,
}

#[derive(Debug, Serialize, PartialEq)]
struct Group {
    title: String,
    links: Vec<Step>,
}

/// What all pages show alike.
#[derive(Debug, PartialEq)]
struct Common {
    options: Options,
    forms: Vec<Form>,
    /// The pages of the main navigation, in their order.
    navigation: Vec<Destination>,
    footer: Vec<Group>,
    tags: Vec<Tag>,
    /// The address of the operator's additions to the stylesheet, if there are any.
    custom_css: Option<String>,
}

/// What all pages share: the templates, the navigation, the site's data.
#[derive(Debug)]
pub(super) struct Shared {
    common: Common,
    templates: Arc<Compiled>,
    /// `common` as templates see it, made once.
    values: Values,
}

#[derive(Debug)]
struct Values {
    operator: Value,
    footer: Value,
    tags: Value,
    forms: Value,
    /// Index into the tags by name.
    place_of_tag: HashMap<String, usize>,
}

impl Shared {
    /// The same as `before` where nothing of it has changed.
    pub fn new(
        documents: &[Document],
        options: &Options,
        forms: &[Form],
        templates: Arc<Compiled>,
        custom_css: Option<&str>,
        before: Option<&Arc<Shared>>,
    ) -> Arc<Self> {
        let mut navigation: Vec<&Document> =
            documents.iter().filter(|document| document.front_matter.nav.is_some()).collect();
        navigation.sort_by_key(|document| document.front_matter.nav);
        // The day is shown nowhere, the year is.
        let today = options.today.first_of_year();
        let common = Common {
            options: Options { today, ..options.clone() },
            forms: forms.to_vec(),
            navigation: navigation
                .into_iter()
                .map(|page| Destination { step: step(page), path: page.path.clone() })
                .collect(),
            footer: footer(documents, options),
            tags: tags_of(documents),
            custom_css: custom_css.map(str::to_owned),
        };
        let same = before
            .filter(|before| Arc::ptr_eq(&before.templates, &templates) && before.common == common)
            .cloned();
        same.unwrap_or_else(|| {
            let forms: BTreeMap<_, _> = common.forms.iter().map(|form| (form.name, form)).collect();
            let values = Values {
                operator: value(&common.options.operator),
                footer: value(&common.footer),
                tags: value(&common.tags),
                forms: value(forms),
                place_of_tag: common.tags.iter().map(|tag| tag.name.clone()).zip(0..).collect(),
            };
            Arc::new(Self { common, templates, values })
        })
    }

    pub fn options(&self) -> &Options {
        &self.common.options
    }

    pub fn form(&self, name: &str) -> Option<&Form> {
        self.common.forms.iter().find(|form| form.name == name)
    }

    pub fn tags(&self) -> &[Tag] {
        &self.common.tags
    }

    fn tag(&self, name: &str) -> Option<&Tag> {
        self.values.place_of_tag.get(name).map(|at| &self.common.tags[*at])
    }

    fn url(&self, path: &str) -> String {
        format!("{}{}", self.common.options.base_url, encode(path))
    }
}

/// A page as navigation shows it.
fn step(page: &Document) -> Step {
    Step { title: page.short_title().to_owned(), path: encode(&page.path).into_owned() }
}

/// The footer's groups; a page that is named by its path alone brings its title along.
fn footer(documents: &[Document], options: &Options) -> Vec<Group> {
    let step = |link: &FooterLink| {
        let title = link.title.clone().or_else(|| {
            let page = documents.iter().rfind(|document| document.path == link.href);
            page.map(|page| page.short_title().to_owned())
        });
        Step { title: title.unwrap_or_else(|| link.href.clone()), path: link.href.clone() }
    };
    options
        .footer
        .iter()
        .map(|group| Group { title: group.title.clone(), links: group.links.iter().map(step).collect() })
        .collect()
}

/// What a page shows of other pages.
#[derive(Debug, Default, PartialEq)]
pub(super) struct View {
    /// The pages above this one, from the home page down to the page itself.
    breadcrumbs: Vec<Step>,
    /// The post before this one, and the one after it.
    previous: Option<Step>,
    next: Option<Step>,
    /// What stands in its list.
    pub listing: Vec<Listing>,
    /// Where the main pages are, for the page that says that there is none.
    pub help: String,
}

/// All pages in the order and by the names by which they show each other.
pub(super) struct Layout<'a> {
    documents: &'a [Document],
    shared: &'a Shared,
    by_path: HashMap<&'a str, &'a Document>,
    /// Newest first.
    posts: Vec<&'a Document>,
    /// Index into `posts` by path.
    place_among_posts: HashMap<&'a str, usize>,
    /// Newest first.
    posts_by_tag: HashMap<&'a str, Vec<&'a Document>>,
}

impl<'a> Layout<'a> {
    pub fn new(documents: &'a [Document], shared: &'a Shared) -> Self {
        let posts = posts_of(documents);
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
            place_among_posts: posts.iter().enumerate().map(|(at, post)| (post.path.as_str(), at)).collect(),
            posts,
            posts_by_tag,
        }
    }

    /// What a page shows of others.
    pub fn view(&self, document: &Document) -> View {
        let newest = self.place_among_posts.get(document.path.as_str()).copied();
        let neighbour = |at: Option<usize>| {
            at.and_then(|at| self.posts.get(at)).map(|post| Step {
                title: post.front_matter.title.clone(),
                path: encode(&post.path).into_owned(),
            })
        };
        View {
            breadcrumbs: self.breadcrumbs(document),
            previous: neighbour(newest.map(|at| at + 1)),
            next: neighbour(newest.and_then(|at| at.checked_sub(1))),
            listing: self.listing(document),
            help: if document.kind == Kind::NotFound { self.help() } else { String::new() },
        }
    }

    /// Posts on the blog's and a tag's page, three on the home page.
    fn listing(&self, document: &Document) -> Vec<Listing> {
        let posts: &[&Document] = match &document.kind {
            Kind::Blog => &self.posts,
            Kind::Home => &self.posts[..self.posts.len().min(3)],
            Kind::Tag(name) => self.posts_by_tag.get(name.as_str()).map_or(&[], Vec::as_slice),
            _ => &[],
        };
        posts.iter().map(|post| self.entry(post)).collect()
    }

    fn entry(&self, document: &Document) -> Listing {
        let matter = &document.front_matter;
        let tags = matter.tags.iter().filter_map(|name| self.shared.tag(name));
        Listing {
            title: matter.title.clone(),
            path: encode(&document.path).into_owned(),
            description: matter.description.clone(),
            date: matter.date.map(|date| date.to_string()),
            date_human: matter.date.map(human),
            author: matter.author.clone(),
            tags: tags.cloned().collect(),
            reading_minutes: document.reading_minutes(),
        }
    }

    fn breadcrumbs(&self, document: &Document) -> Vec<Step> {
        if matches!(document.kind, Kind::Home | Kind::NotFound) {
            return Vec::new();
        }
        let ends = document.path.match_indices('/').map(|(at, _)| &document.path[..=at]);
        ends.filter_map(|path| self.by_path.get(path))
            .map(|page| {
                let title = if page.path == "/" { "Home" } else { page.short_title() };
                Step { title: title.to_owned(), path: encode(&page.path).into_owned() }
            })
            .collect()
    }

    /// What a missing page tells those who read Markdown: where everything is.
    fn help(&self) -> String {
        let base = &self.shared.common.options.base_url;
        let mut text = String::from("These are the main pages:\n\n");
        let mut navigation: Vec<&Document> = self
            .documents
            .iter()
            .filter(|document| document.front_matter.nav.is_some() && document.path != "/")
            .collect();
        navigation.sort_by_key(|document| document.front_matter.nav);
        for page in self.by_path.get("/").into_iter().chain(&navigation) {
            let description = page.front_matter.description.as_deref().unwrap_or_default();
            text.push_str(&format!(
                "- [{}]({base}{}): {description}\n",
                page.short_title(),
                encode(&page.path)
            ));
        }
        text
    }
}

/// A page with all that its template sees.
#[derive(Clone, Copy)]
pub(super) struct Sheet<'a> {
    pub shared: &'a Shared,
    pub document: &'a Document,
    pub view: &'a View,
}

impl Sheet<'_> {
    /// The page as HTML.
    pub fn html(&self) -> Result<String, Fault> {
        let name = format!("{}.html", self.document.template());
        let environment = &self.shared.templates.environment;
        let template = environment.get_template(&name).map_err(|error| template_fault(&error))?;
        template.render(self.context()).map_err(|error| template_fault(&error))
    }

    fn context(&self) -> Value {
        let Self { shared, document, view } = *self;
        let matter = &document.front_matter;
        let url = shared.url(&document.path);
        let tag = match &document.kind {
            Kind::Tag(name) => shared.tag(name),
            _ => None,
        };
        let tags: Vec<&Tag> = matter.tags.iter().filter_map(|name| shared.tag(name)).collect();
        // What is missing has neither an address nor a date.
        let is_page = document.kind != Kind::NotFound;
        let headings = &document.content.facts.headings;
        let toc: Vec<_> = headings.iter().filter(|heading| matches!(heading.level, 2 | 3)).collect();
        let page = context! {
            path => encode(&document.path),
            url => url.as_str(),
            twin => is_page.then(|| encode(&twin(&document.path)).into_owned()),
            title => matter.title.as_str(),
            head_title => self.head_title(),
            description => matter.description.as_deref(),
            kicker => matter.kicker.as_deref(),
            html => Value::from_safe_string((*document.content.html).to_owned()),
            toc => value(matter.toc.then_some(toc)),
            date => matter.date.map(|date| date.to_string()),
            date_human => matter.date.map(human),
            updated => is_page.then(|| document.updated.to_string()),
            updated_human => is_page.then(|| human(document.updated)),
            author => matter.author.as_deref(),
            tags => value(tags),
            image_url => document.image.as_deref(),
            kind => document.kind.name(),
            form => matter.form.as_deref(),
            cta => value(&matter.cta),
            highlights => value(&matter.highlights),
            reading_minutes => document.reading_minutes(),
            json_ld => is_page.then(|| Value::from_safe_string(self.json_ld(&url))),
            breadcrumbs => value(&view.breadcrumbs),
            previous => value(&view.previous),
            next => value(&view.next),
        };
        context! {
            site => self.site(),
            page => page,
            posts => value(&view.listing),
            tags => &shared.values.tags,
            tag => value(tag),
            forms => &shared.values.forms,
        }
    }

    fn site(&self) -> Value {
        let Self { shared: Shared { common, values, .. }, document, .. } = *self;
        let options = &common.options;
        let nav: Vec<_> = common
            .navigation
            .iter()
            .map(|page| {
                context! {
                    title => page.step.title.as_str(),
                    path => page.step.path.as_str(),
                    current => document.path == page.path || (page.path != "/" && document.path.starts_with(&page.path)),
                }
            })
            .collect();
        context! {
            title => options.title.as_str(),
            tagline => options.tagline.as_str(),
            description => options.description.as_str(),
            language => options.language.as_str(),
            base_url => options.base_url.as_str(),
            operator => &values.operator,
            nav => nav,
            footer => &values.footer,
            year => options.today.year(),
            custom_css => common.custom_css.as_deref(),
        }
    }

    fn head_title(&self) -> String {
        let (document, options) = (self.document, self.shared.options());
        let (title, site) = (&document.front_matter.title, &options.title);
        if site.is_empty() || title == site {
            title.clone()
        } else if document.kind == Kind::Home && !options.tagline.is_empty() {
            format!("{site}: {}", options.tagline)
        } else {
            format!("{title} · {site}")
        }
    }

    /// Structured data (schema.org) as JSON that is safe inside a script element.
    fn json_ld(&self, url: &str) -> String {
        let Self { shared, document, view } = *self;
        let (options, crumbs) = (shared.options(), &view.breadcrumbs);
        let matter = &document.front_matter;
        let publisher =
            json!({ "@type": "Organization", "name": options.operator.name, "url": shared.url("/") });
        let mut page = json!({
            "@type": if document.kind == Kind::Post { "BlogPosting" } else { "WebPage" },
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
        if document.kind == Kind::Post {
            set("headline", Some(matter.title.clone().into()));
            set("author", matter.author.as_ref().map(|name| json!({ "@type": "Person", "name": name })));
            set("keywords", (!matter.tags.is_empty()).then(|| matter.tags.join(", ").into()));
        }
        let mut graph = vec![page];
        if !crumbs.is_empty() {
            let items: Vec<_> = crumbs
                .iter()
                .enumerate()
                .map(|(at, step)| {
                    json!({ "@type": "ListItem", "position": at + 1, "name": step.title, "item": format!("{}{}", options.base_url, step.path) })
                })
                .collect();
            graph.push(json!({ "@type": "BreadcrumbList", "itemListElement": items }));
        }
        if document.kind == Kind::Home {
            graph.push(json!({ "@type": "WebSite", "name": options.title, "url": shared.url("/"), "description": options.description }));
        }
        json!({ "@context": "https://schema.org", "@graph": graph })
            .to_string()
            .replace("</", "<\\/")
            .replace("<!--", "<\\u0021--")
    }
}

/// Anything that can be serialized, as templates see it.
fn value(value: impl Serialize) -> Value {
    Value::from(Serde(value))
}

/// A date as a person writes it: 20 November 2026.
pub(super) fn human(date: Date) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let month = usize::try_from(date.month() - 1).ok().and_then(|at| MONTHS.get(at)).unwrap_or(&"");
    format!("{} {month} {}", date.day(), date.year())
}
