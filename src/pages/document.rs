//! One page on its way from source to site, and the pages that are made of other pages.

use std::collections::{BTreeMap, HashMap};

use jiff::civil::Date;
use serde::Serialize;

use super::front_matter::{self, FrontMatter};
use super::markdown::Rendered;
use super::path::{self, encode, slug};
use super::tree::Source;
use super::{Options, in_parallel};
use crate::fault::Fault;

/// A subject and its page.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub(super) struct Tag {
    pub name: String,
    /// Percent-encoded.
    pub path: String,
    /// How many posts have it.
    pub count: usize,
}

/// What a page is, which decides about its template and what it lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Home,
    Page,
    Post,
    Blog,
    Tags,
    Tag(String),
    NotFound,
}

impl Kind {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Page => "page",
            Self::Post => "post",
            Self::Blog => "blog",
            Self::Tags => "tags",
            Self::Tag(_) => "tag",
            Self::NotFound => "404",
        }
    }
}

/// One page on its way from source to site. Where it comes from no longer matters once `rendered` is there.
#[derive(Debug)]
pub(super) struct Document {
    /// The source file, relative to the site's folder; empty for generated pages.
    pub file: String,
    /// Decoded, ends in a slash.
    pub path: String,
    pub kind: Kind,
    pub front_matter: FrontMatter,
    /// Markdown, until it is rendered.
    pub body: String,
    /// The line of the file on which the body begins.
    pub body_line: usize,
    pub updated: Date,
    pub rendered: Rendered,
    /// The preview image's path, percent-encoded.
    pub image: Option<String>,
}

impl Document {
    /// The source file as faults name it.
    pub fn place(&self) -> &str {
        if self.file.is_empty() { "the generated pages" } else { &self.file }
    }

    pub fn template(&self) -> &str {
        match (&self.front_matter.template, &self.kind) {
            (Some(template), Kind::Home | Kind::Page | Kind::Post) => template,
            (_, kind) => kind.name(),
        }
    }

    pub fn short_title(&self) -> &str {
        self.front_matter.nav_title.as_deref().unwrap_or(&self.front_matter.title)
    }

    /// At 220 words a minute, at least one.
    pub fn reading_minutes(&self) -> usize {
        self.rendered.words.div_ceil(220).max(1)
    }

    pub fn generated(path: &str, kind: Kind, title: &str, description: &str, updated: Date) -> Self {
        Self {
            file: String::new(),
            path: path.to_owned(),
            kind,
            front_matter: FrontMatter {
                title: title.to_owned(),
                description: Some(description.to_owned()).filter(|text| !text.is_empty()),
                ..FrontMatter::default()
            },
            body: String::new(),
            body_line: 1,
            updated,
            rendered: Rendered::default(),
            image: None,
        }
    }
}

/// Reads the front matter of all sources; drafts are left out.
pub(super) fn read_documents(sources: &[Source], faults: &mut Vec<Fault>) -> Vec<Document> {
    let read = in_parallel(sources, |Source { file, text, changed }| {
        let mut faults = Vec::new();
        let parsed = front_matter::parse(file, text, &mut faults);
        let document = parsed.filter(|parsed| !parsed.front_matter.draft).map(|parsed| {
            let mut front_matter = parsed.front_matter;
            let (path, kind) = place_of(file, &mut front_matter);
            if front_matter.description.is_none() {
                let fault = Fault::warning(file, Some(1), "the page has no `description`");
                faults
                    .push(fault.hint("search results, previews and llms.txt show it: one or two sentences"));
            }
            Document {
                file: file.clone(),
                path,
                kind,
                updated: front_matter.updated.or(front_matter.date).unwrap_or(*changed),
                front_matter,
                body: parsed.body.to_owned(),
                body_line: parsed.body_line,
                rendered: Rendered::default(),
                image: None,
            }
        });
        (document, faults)
    });
    let mut documents = Vec::with_capacity(read.len());
    for (document, mut found) in read {
        faults.append(&mut found);
        documents.extend(document);
    }
    documents
}

/// The path and the kind of the page that a source file makes. A post takes its date from its name where it has no other.
fn place_of(file: &str, front_matter: &mut FrontMatter) -> (String, Kind) {
    let is_post = file.starts_with("posts/");
    let relative = file.split_once('/').map_or(file, |(_, rest)| rest);
    let stem =
        relative.strip_suffix(".md").or_else(|| relative.strip_suffix(".markdown")).unwrap_or(relative);
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let is_index = matches!(name, "index" | "_index");
    let (folder, name) =
        if is_index { folder.rsplit_once('/').unwrap_or(("", folder)) } else { (folder, name) };
    let mut name = name.to_owned();
    if is_post
        && let Some((day, rest)) = name.get(..10).and_then(|day| day.parse::<Date>().ok()).zip(name.get(11..))
        && !rest.is_empty()
    {
        front_matter.date.get_or_insert(day);
        name = rest.to_owned();
    }
    if let Some(slug) = &front_matter.slug {
        name.clone_from(slug);
    }
    let mut path = String::from(if is_post { "/blog/" } else { "/" });
    for segment in [folder, &name] {
        if !segment.is_empty() {
            path.push_str(segment);
            path.push('/');
        }
    }
    let kind = match path.as_str() {
        _ if is_post && path != "/blog/" => Kind::Post,
        "/" => Kind::Home,
        "/blog/" => Kind::Blog,
        _ => Kind::Page,
    };
    (path, kind)
}

/// Adds the pages that list posts, where the operator has not written them.
pub(super) fn add_blog(documents: &mut Vec<Document>, options: &Options, faults: &mut Vec<Fault>) {
    let latest =
        documents.iter().filter(|document| document.kind == Kind::Post).map(|post| post.updated).max();
    let Some(latest) = latest else { return };
    let has = |documents: &[Document], path: &str| documents.iter().any(|document| document.path == path);
    if !has(documents, "/blog/") {
        let description = format!("Everything that {} has published, newest first.", options.title);
        documents.push(Document::generated("/blog/", Kind::Blog, "Blog", &description, latest));
    }
    for document in documents.iter_mut().filter(|document| document.kind == Kind::Blog) {
        document.updated = document.updated.max(latest);
    }
    let tags = tags_of(documents);
    if tags.is_empty() {
        return;
    }
    if !has(documents, "/blog/tags/") {
        documents.push(Document::generated(
            "/blog/tags/",
            Kind::Tags,
            "Tags",
            "The subjects of our posts.",
            latest,
        ));
    }
    let mut taken: HashMap<String, String> = HashMap::new();
    for tag in tags {
        let slug = slug(&tag.name);
        let place = || {
            documents
                .iter()
                .find(|document| document.front_matter.tags.contains(&tag.name))
                .map_or("posts/", Document::place)
        };
        if slug.is_empty() {
            let message = format!("the tag `{}` has no letter or digit that could name its page", tag.name);
            faults.push(Fault::error(place(), Some(1), message));
            continue;
        }
        if let Some(other) = taken.insert(slug.clone(), tag.name.clone()) {
            let message =
                format!("the tags `{other}` and `{}` would share the path `/blog/tags/{slug}/`", tag.name);
            faults.push(
                Fault::error(place(), Some(1), message)
                    .hint("write them alike, or call one of them something else"),
            );
            continue;
        }
        let path = format!("/blog/tags/{slug}/");
        let updated = documents.iter().filter(|document| document.front_matter.tags.contains(&tag.name));
        let updated = updated.map(|document| document.updated).max().unwrap_or(latest);
        if !has(documents, &path) {
            let description = format!("What {} has written about {}.", options.title, tag.name);
            documents.push(Document::generated(
                &path,
                Kind::Tag(tag.name.clone()),
                &tag.name,
                &description,
                updated,
            ));
        }
    }
}

/// All tags of posts, by name.
pub(super) fn tags_of(documents: &[Document]) -> Vec<Tag> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for document in documents.iter().filter(|document| document.kind == Kind::Post) {
        for tag in &document.front_matter.tags {
            *counts.entry(tag.clone()).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .map(|(name, count)| Tag {
            path: encode(&format!("/blog/tags/{}/", slug(&name))).into_owned(),
            name,
            count,
        })
        .collect()
}

pub(super) fn posts_of(documents: &[Document]) -> Vec<&Document> {
    let mut posts: Vec<&Document> = documents
        .iter()
        .filter(|document| document.kind == Kind::Post && !document.front_matter.unlisted)
        .collect();
    posts.sort_by(|a, b| (b.front_matter.date, &a.path).cmp(&(a.front_matter.date, &b.path)));
    posts
}

/// Two pages cannot have one path, nor can an alias be a page's.
pub(super) fn refuse_duplicates(documents: &[Document], faults: &mut Vec<Fault>) {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for document in documents {
        // Twins share a name space with pages: `/a/` has its twin at `/a.md`.
        let key = document.path.to_lowercase();
        if let Some(other) = seen.insert(key, document.place()) {
            let message = format!("the path `{}` is also that of {other}", document.path);
            faults.push(
                Fault::error(document.place(), Some(1), message).hint("give one of them a `slug` of its own"),
            );
        }
    }
    for document in documents {
        for alias in &document.front_matter.aliases {
            let alias = format!("{}/", path::join("/", alias).trim_end_matches('/'));
            if let Some(other) =
                seen.get(alias.to_lowercase().as_str()).filter(|other| **other != document.file)
            {
                let message = format!("the alias `{alias}` is the path of {other}");
                faults.push(Fault::error(&document.file, Some(1), message));
            }
        }
    }
}
