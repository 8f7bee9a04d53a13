//! One page on its way from source to site, and the pages that are made of other pages.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use blake3::Hash;
use jiff::civil::Date;
use serde::Serialize;

use super::content::Content;
use super::front_matter::{self, FrontMatter};
use super::path::{self, encode, slug};
use super::tree::{Source, Stale};
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

/// One page on its way from source to site. Where it comes from no longer matters once `content` is there.
#[derive(Debug, Clone)]
pub(super) struct Document {
    /// The source file, relative to the site's folder; empty for generated pages.
    pub file: String,
    /// Decoded, ends in a slash.
    pub path: String,
    pub kind: Kind,
    pub front_matter: FrontMatter,
    /// Where the body begins in the source, in bytes.
    pub body_at: usize,
    /// The line of the file on which the body begins.
    pub body_line: usize,
    /// The lines of the file on which keys of the front matter are set.
    pub lines: Arc<HashMap<&'static str, usize>>,
    pub updated: Date,
    pub content: Content,
    /// The preview image's address.
    pub image: Option<String>,
}

impl Document {
    /// The source file as faults name it.
    pub fn place(&self) -> &str {
        if self.file.is_empty() { "the generated pages" } else { &self.file }
    }

    /// The line on which a key is set, for faults.
    pub fn line(&self, key: &str) -> Option<usize> {
        self.lines.get(key).copied().or((!self.file.is_empty()).then_some(1))
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
        self.content.facts.words.div_ceil(220).max(1)
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
            body_at: 0,
            body_line: 1,
            lines: Arc::default(),
            updated,
            content: Content::default(),
            image: None,
        }
    }
}

/// What the front matter of a source has said.
#[derive(Debug)]
pub(super) struct Parsed {
    hash: Hash,
    changed: Date,
    /// None for a draft, and where it cannot be read.
    document: Option<Document>,
    /// The folder of a draft.
    draft: Option<String>,
    faults: Vec<Fault>,
}

/// Reads the front matter of all sources, unless it is known. Drafts are left out; the second list has the folders
/// (`posts/secret/`) that hold nothing but a draft and its files, which are left out as well.
pub(super) fn read_documents(
    sources: &[Source],
    known: &mut HashMap<String, Arc<Parsed>>,
    faults: &mut Vec<Fault>,
) -> Result<(Vec<Document>, Vec<String>), Stale> {
    let read = in_parallel(sources, |source| match known.get(&source.file) {
        Some(known) if known.hash == source.hash && known.changed == source.changed => Ok(known.clone()),
        _ => source.text().map(|text| Arc::new(parse(source, &text))),
    });
    let read: Vec<Arc<Parsed>> = read.into_iter().collect::<Result<_, _>>()?;
    *known = sources.iter().map(|source| source.file.clone()).zip(read.iter().cloned()).collect();
    let mut documents = Vec::with_capacity(read.len());
    let mut drafts = Vec::new();
    for parsed in read {
        faults.extend(parsed.faults.iter().cloned());
        documents.extend(parsed.document.clone());
        drafts.extend(parsed.draft.clone());
    }
    // What lies beside a draft may belong to a page that is published.
    let folders: HashSet<&str> =
        documents.iter().flat_map(|document| folders_above(&document.file)).collect();
    drafts.retain(|folder: &String| folder.matches('/').count() > 1 && !folders.contains(folder.as_str()));
    Ok((documents, drafts))
}

/// `posts/`, `posts/a/` and so on, down to the one that holds the file.
pub(super) fn folders_above(file: &str) -> impl Iterator<Item = &str> {
    file.match_indices('/').map(|(at, _)| &file[..=at])
}

fn parse(source: &Source, text: &str) -> Parsed {
    let file = &source.file;
    let mut faults = Vec::new();
    let parsed = front_matter::parse(file, text, &mut faults);
    let draft = parsed.as_ref().filter(|parsed| parsed.front_matter.draft);
    let draft = draft.and_then(|_| file.strip_suffix("index.md")).map(str::to_owned);
    let document = parsed.filter(|parsed| !parsed.front_matter.draft).map(|parsed| {
        let mut front_matter = parsed.front_matter;
        let (path, kind) = place_of(file, &mut front_matter);
        if path::decode(&encode(&path)).as_deref() != Ok(path.as_str()) {
            let message = format!(
                "`{path}` cannot be asked for: it has a backslash, a control character or an empty segment"
            );
            faults.push(
                Fault::error(file, None, message).hint("give the file another name, or the page a `slug`"),
            );
        }
        if front_matter.description.is_none() {
            let fault = Fault::warning(file, Some(1), "the page has no `description`");
            faults.push(fault.hint("search results, previews and llms.txt show it: one or two sentences"));
        }
        Document {
            file: file.clone(),
            path,
            kind,
            updated: front_matter.updated.or(front_matter.date).unwrap_or(source.changed),
            front_matter,
            body_at: text.len() - parsed.body.len(),
            body_line: parsed.body_line,
            lines: Arc::new(parsed.lines),
            content: Content::default(),
            image: None,
        }
    });
    Parsed { hash: source.hash, changed: source.changed, document, draft, faults }
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
    // The list of posts stays what it is wherever it is put.
    let is_post = is_post && path != "/blog/";
    let path = front_matter.path.clone().unwrap_or(path);
    let kind = match path.as_str() {
        "/" => Kind::Home,
        "/blog/" => Kind::Blog,
        _ if is_post => Kind::Post,
        _ => Kind::Page,
    };
    (path, kind)
}

/// Adds the pages that list posts, where the operator has not written them.
pub(super) fn add_blog(documents: &mut Vec<Document>, options: &Options, faults: &mut Vec<Fault>) {
    let latest =
        documents.iter().filter(|document| document.kind == Kind::Post).map(|post| post.updated).max();
    let Some(latest) = latest else { return };
    let paths: HashSet<String> = documents.iter().map(|document| document.path.clone()).collect();
    if !paths.contains("/blog/") {
        let description = format!("Everything that {} has published, newest first.", options.title);
        documents.push(Document::generated("/blog/", Kind::Blog, "Blog", &description, latest));
    }
    for document in documents.iter_mut().filter(|document| document.kind == Kind::Blog) {
        document.updated = document.updated.max(latest);
    }
    unify_tags(documents, faults);
    let tags = tags_of(documents);
    if tags.is_empty() {
        return;
    }
    if !paths.contains("/blog/tags/") {
        let description = "The subjects of our posts.";
        documents.push(Document::generated("/blog/tags/", Kind::Tags, "Tags", description, latest));
    }
    let mut updated: HashMap<&str, Date> = HashMap::new();
    for document in documents.iter() {
        for tag in &document.front_matter.tags {
            let newest = updated.entry(tag).or_insert(document.updated);
            *newest = document.updated.max(*newest);
        }
    }
    let mut pages = Vec::new();
    for tag in tags {
        let path = tag_path(&tag.name);
        if !paths.contains(&path) {
            let updated = updated.get(tag.name.as_str()).copied().unwrap_or(latest);
            let description = format!("What {} has written about {}.", options.title, tag.name);
            let kind = Kind::Tag(tag.name.clone());
            pages.push(Document::generated(&path, kind, &tag.name, &description, updated));
        }
    }
    documents.extend(pages);
}

/// Gives tags that differ only in case one spelling, the first. Two tags that would share a path for another reason (`C` and
/// `C++`), or have none, are faults.
fn unify_tags(documents: &mut [Document], faults: &mut Vec<Fault>) {
    let mut spellings: HashMap<String, String> = HashMap::new();
    for document in documents.iter_mut().filter(|document| document.kind == Kind::Post) {
        let (place, line) = (document.file.clone(), document.line("tags"));
        document.front_matter.tags.retain_mut(|tag| {
            let slug = slug(tag);
            if slug.is_empty() {
                let message = format!("the tag `{tag}` has no letter or digit that could name its page");
                faults.push(Fault::error(&place, line, message));
                return false;
            }
            let spelling = spellings.entry(slug).or_insert_with(|| tag.clone());
            let alike = spelling.to_lowercase() == tag.to_lowercase();
            if alike {
                tag.clone_from(spelling);
            } else {
                let message = format!("the tag `{tag}` would have the same page as `{spelling}`");
                faults.push(Fault::error(&place, line, message).hint("call one of them something else"));
            }
            alike
        });
        let mut seen = HashSet::new();
        document.front_matter.tags.retain(|tag| seen.insert(tag.clone()));
    }
}

/// Decoded.
fn tag_path(name: &str) -> String {
    format!("/blog/tags/{}/", slug(name))
}

/// All tags of listed posts, by name.
pub(super) fn tags_of(documents: &[Document]) -> Vec<Tag> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for post in posts_of(documents) {
        for tag in &post.front_matter.tags {
            *counts.entry(tag.clone()).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .map(|(name, count)| Tag { path: encode(&tag_path(&name)).into_owned(), name, count })
        .collect()
}

/// Listed posts, newest first.
pub(super) fn posts_of(documents: &[Document]) -> Vec<&Document> {
    let mut posts: Vec<&Document> = documents
        .iter()
        .filter(|document| document.kind == Kind::Post && !document.front_matter.unlisted)
        .collect();
    posts.sort_by(|a, b| (b.front_matter.date, &a.path).cmp(&(a.front_matter.date, &b.path)));
    posts
}
