//! Lays a page out: gathers what a template sees and renders it to HTML.

use std::collections::{BTreeMap, HashMap};

use jiff::civil::Date;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use serde::Serialize;
use serde_json::json;

use super::document::{Document, Kind, Tag, posts_of, tags_of};
use super::path::{encode, twin};
use super::theme::template_fault;
use super::{FooterLink, Form, Options};
use crate::fault::Fault;

/// A page or a tag as lists show it.
#[derive(Debug, Clone, Serialize)]
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

#[derive(Debug, Clone, Serialize)]
struct Step {
    title: String,
    path: String,
}

/// Everything that pages share: the templates, the navigation, the lists.
pub(super) struct Layout<'a> {
    pub options: &'a Options,
    pub forms: &'a [Form],
    pub environment: Environment<'static>,
    pub documents: &'a [Document],
    /// Index into `documents` by path.
    pub by_path: BTreeMap<&'a str, usize>,
    /// Newest first.
    pub posts: Vec<&'a Document>,
    pub tags: Vec<Tag>,
    /// The pages of the main navigation, in their order.
    pub navigation: Vec<&'a Document>,
    /// Index into `posts` by path.
    place_among_posts: HashMap<&'a str, usize>,
    /// The address of the operator's additions to the stylesheet, if there are any.
    pub custom_css: Option<&'a str>,
}

impl<'a> Layout<'a> {
    pub fn new(
        options: &'a Options,
        forms: &'a [Form],
        environment: Environment<'static>,
        documents: &'a [Document],
        custom_css: Option<&'a str>,
    ) -> Self {
        let mut navigation: Vec<&Document> =
            documents.iter().filter(|document| document.front_matter.nav.is_some()).collect();
        navigation.sort_by_key(|document| document.front_matter.nav);
        let posts = posts_of(documents);
        let place_among_posts = posts.iter().enumerate().map(|(at, post)| (post.path.as_str(), at)).collect();
        Self {
            options,
            forms,
            environment,
            documents,
            by_path: documents
                .iter()
                .enumerate()
                .map(|(at, document)| (document.path.as_str(), at))
                .collect(),
            navigation,
            place_among_posts,
            posts,
            tags: tags_of(documents),
            custom_css,
        }
    }

    /// The page as HTML.
    pub fn html(&self, document: &Document) -> Result<String, Fault> {
        let name = format!("{}.html", document.template());
        let template = self.environment.get_template(&name).map_err(|error| template_fault(&error))?;
        template.render(self.context(document)).map_err(|error| template_fault(&error))
    }

    fn context(&self, document: &Document) -> Value {
        let matter = &document.front_matter;
        let url = self.url(&document.path);
        let tag = match &document.kind {
            Kind::Tag(name) => self.tags.iter().find(|tag| tag.name == *name),
            _ => None,
        };
        let crumbs = self.breadcrumbs(document);
        // What is missing has neither an address nor a date.
        let is_page = document.kind != Kind::NotFound;
        let newest = self.place_among_posts.get(document.path.as_str()).copied();
        let neighbour = |at: Option<usize>| {
            at.and_then(|at| self.posts.get(at)).map(|post| Step {
                title: post.front_matter.title.clone(),
                path: encode(&post.path).into_owned(),
            })
        };
        let toc: Vec<_> =
            document.rendered.headings.iter().filter(|heading| matches!(heading.level, 2 | 3)).collect();
        let page = context! {
            path => encode(&document.path),
            url => url.as_str(),
            twin => is_page.then(|| encode(&twin(&document.path)).into_owned()),
            title => matter.title.as_str(),
            head_title => self.head_title(document),
            description => matter.description.as_deref(),
            kicker => matter.kicker.as_deref(),
            html => Value::from_safe_string(document.rendered.html.clone()),
            toc => value(matter.toc.then_some(toc)),
            date => matter.date.map(|date| date.to_string()),
            date_human => matter.date.map(human),
            updated => is_page.then(|| document.updated.to_string()),
            updated_human => is_page.then(|| human(document.updated)),
            author => matter.author.as_deref(),
            tags => value(self.tags_of(document)),
            image_url => document.image.as_deref(),
            kind => document.kind.name(),
            form => matter.form.as_deref(),
            cta => value(&matter.cta),
            highlights => value(&matter.highlights),
            reading_minutes => document.reading_minutes(),
            json_ld => is_page.then(|| Value::from_safe_string(self.json_ld(document, &url, &crumbs))),
            breadcrumbs => value(&crumbs),
            previous => value(neighbour(newest.map(|at| at + 1))),
            next => value(neighbour(newest.and_then(|at| at.checked_sub(1)))),
        };
        context! {
            site => self.site(document),
            page => page,
            posts => value(self.listing(document).unwrap_or_default()),
            tags => value(&self.tags),
            tag => value(tag),
            forms => value(self.forms.iter().map(|form| (form.name, form)).collect::<BTreeMap<_, _>>()),
        }
    }

    fn site(&self, document: &Document) -> Value {
        let options = self.options;
        let nav: Vec<_> = self
            .navigation
            .iter()
            .map(|page| {
                context! {
                    title => page.short_title(),
                    path => encode(&page.path),
                    current => document.path == page.path || (page.path != "/" && document.path.starts_with(&page.path)),
                }
            })
            .collect();
        let footer: Vec<_> = options
            .footer
            .iter()
            .map(|group| {
                let links: Vec<_> = group.links.iter().map(|link| self.footer_link(link)).collect();
                context! { title => group.title.as_str(), links => value(links) }
            })
            .collect();
        context! {
            title => options.title.as_str(),
            tagline => options.tagline.as_str(),
            description => options.description.as_str(),
            language => options.language.as_str(),
            base_url => options.base_url.as_str(),
            operator => value(&options.operator),
            nav => nav,
            footer => footer,
            year => options.today.year(),
            custom_css => self.custom_css,
        }
    }

    /// What stands in the list of this page: posts on the blog's and a tag's page, three on the home page, tags on theirs.
    pub fn listing(&self, document: &Document) -> Option<Vec<Listing>> {
        let posts = self.posts.iter();
        let listed: Vec<Listing> = match &document.kind {
            Kind::Blog => posts.map(|post| self.entry(post)).collect(),
            Kind::Home => posts.take(3).map(|post| self.entry(post)).collect(),
            Kind::Tag(name) => posts
                .filter(|post| post.front_matter.tags.contains(name))
                .map(|post| self.entry(post))
                .collect(),
            _ => return None,
        };
        Some(listed)
    }

    fn entry(&self, document: &Document) -> Listing {
        let matter = &document.front_matter;
        Listing {
            title: matter.title.clone(),
            path: encode(&document.path).into_owned(),
            description: matter.description.clone(),
            date: matter.date.map(|date| date.to_string()),
            date_human: matter.date.map(human),
            author: matter.author.clone(),
            tags: self.tags_of(document),
            reading_minutes: document.reading_minutes(),
        }
    }

    fn tags_of(&self, document: &Document) -> Vec<Tag> {
        let names = &document.front_matter.tags;
        names.iter().filter_map(|name| self.tags.iter().find(|tag| tag.name == *name)).cloned().collect()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{}", self.options.base_url, encode(path))
    }

    /// A link of the footer; a page that is named by its path alone brings its title along.
    fn footer_link(&self, link: &FooterLink) -> Step {
        let title = link.title.clone().or_else(|| {
            let page = self.by_path.get(link.href.as_str()).map(|at| &self.documents[*at]);
            page.map(|page| page.short_title().to_owned())
        });
        Step { title: title.unwrap_or_else(|| link.href.clone()), path: link.href.clone() }
    }

    fn head_title(&self, document: &Document) -> String {
        let (title, site) = (&document.front_matter.title, &self.options.title);
        if site.is_empty() || title == site {
            title.clone()
        } else if document.kind == Kind::Home && !self.options.tagline.is_empty() {
            format!("{site}: {}", self.options.tagline)
        } else {
            format!("{title} · {site}")
        }
    }

    /// The pages above this one, from the home page down to the page itself.
    fn breadcrumbs(&self, document: &Document) -> Vec<Step> {
        if matches!(document.kind, Kind::Home | Kind::NotFound) {
            return Vec::new();
        }
        let ends = document.path.match_indices('/').map(|(at, _)| &document.path[..=at]);
        ends.filter_map(|path| self.by_path.get(path))
            .map(|at| {
                let page = &self.documents[*at];
                let title = if page.path == "/" { "Home" } else { page.short_title() };
                Step { title: title.to_owned(), path: encode(&page.path).into_owned() }
            })
            .collect()
    }

    /// Structured data (schema.org) as JSON that is safe inside a script element.
    fn json_ld(&self, document: &Document, url: &str, crumbs: &[Step]) -> String {
        let options = self.options;
        let matter = &document.front_matter;
        let publisher =
            json!({ "@type": "Organization", "name": options.operator.name, "url": self.url("/") });
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
            graph.push(json!({ "@type": "WebSite", "name": options.title, "url": self.url("/"), "description": options.description }));
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
