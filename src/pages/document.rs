//! Documents: pages before layout. A document is read from a source file, or generated to list posts or tags.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use blake3::Hash;
use jiff::civil::Date;
use serde::Serialize;

use super::content::Content;
use super::front_matter::{self, FrontMatter};
use super::options::PagesOptions;
use super::parallel::in_parallel;
use super::path::{self, encode, slug};
use super::schedule::{ScheduledPage, Unpublished, start_of_day, unpublished};
use super::site_files::{FileChanged, SourceFile};
use crate::fault::Fault;

#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub(super) struct Tag {
    pub name: String,
    /// Percent-encoded.
    pub path: String,
    pub count: usize,
}

/// Determines which template a page uses and which other pages it lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum PageKind {
    Home,
    #[default]
    Page,
    Post,
    Blog,
    Tags,
    Tag(String),
    NotFound,
}

impl PageKind {
    /// The kind's name, which is also the name of its built-in template.
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

/// A page with its path and front matter. Rendering fills in `content`.
#[derive(Debug, Clone, Default)]
pub(super) struct Document {
    /// The source file, relative to the site's folder; empty for generated pages.
    pub file: String,
    /// Decoded, with a trailing slash.
    pub path: String,
    pub kind: PageKind,
    pub front_matter: FrontMatter,
    /// The byte offset of the body in the source.
    pub body_at: usize,
    /// The line of the source file on which the body begins.
    pub body_line: usize,
    /// The source line of each front matter key.
    pub lines: Arc<HashMap<&'static str, usize>>,
    pub updated: Date,
    pub content: Content,
    pub image: Option<String>,
    /// Why only a preview shows the page; `None` for a published page.
    pub unpublished: Option<Unpublished>,
}

impl Document {
    /// The source file, or a description of a generated page, for error messages.
    pub fn place(&self) -> &str {
        if self.file.is_empty() { "a generated page" } else { &self.file }
    }

    /// The line of a front matter key, for error messages: 1 if the key is missing, `None` for a generated
    /// page.
    pub fn line(&self, key: &str) -> Option<usize> {
        self.lines.get(key).copied().or((!self.file.is_empty()).then_some(1))
    }

    pub fn error_at_key(&self, key: &str, message: impl Into<String>) -> Fault {
        Fault::error(self.place(), self.line(key), message)
    }

    pub fn warning_at_key(&self, key: &str, message: impl Into<String>) -> Fault {
        Fault::warning(self.place(), self.line(key), message)
    }

    pub fn template_name(&self) -> &str {
        match (&self.front_matter.template, &self.kind) {
            (Some(template), PageKind::Home | PageKind::Page | PageKind::Post) => template,
            (_, kind) => kind.name(),
        }
    }

    pub fn nav_title_or_title(&self) -> &str {
        self.front_matter.nav_title.as_deref().unwrap_or(&self.front_matter.title)
    }

    /// Reading time in whole minutes, at least one.
    pub fn reading_minutes(&self) -> usize {
        /// A common estimate of adults' silent reading speed.
        const WORDS_A_MINUTE: usize = 220;
        self.content.facts.words.div_ceil(WORDS_A_MINUTE).max(1)
    }

    pub fn new_generated(path: &str, kind: PageKind, title: &str, description: &str, updated: Date) -> Self {
        let front_matter = FrontMatter {
            title: title.to_owned(),
            description: Some(description.to_owned()).filter(|text| !text.is_empty()),
            ..FrontMatter::default()
        };
        Self { path: path.to_owned(), kind, front_matter, updated, ..Self::default() }
    }
}

/// The result of parsing a source's front matter, kept for the next load.
#[derive(Debug)]
pub(super) struct ParsedSource {
    hash: Hash,
    changed: Date,
    /// `None` if the front matter is invalid.
    document: Option<Document>,
    /// The faults of the front matter.
    faults: Vec<Fault>,
    /// Other faults, which a page has only if it is published.
    page_faults: Vec<Fault>,
}

/// The pages that a site's sources define.
#[derive(Debug, Default)]
pub(super) struct SourcePages {
    pub documents: Vec<Document>,
    /// The folders that contain only a page that is left out and its files, such as `posts/secret/`. These
    /// files are not published either.
    pub left_out_folders: Vec<String>,
    /// The pages that are published later, in the order of their times.
    pub scheduled: Vec<ScheduledPage>,
}

/// Reads the front matter of all sources, and reuses the results in `known` for unchanged ones. Leaves out
/// pages that are not published, unless the options ask for a preview.
pub(super) fn read_documents(
    sources: &[SourceFile],
    options: &PagesOptions,
    known: &mut HashMap<String, Arc<ParsedSource>>,
    faults: &mut Vec<Fault>,
) -> Result<SourcePages, FileChanged> {
    let read = in_parallel(sources, |source| match known.get(&source.file) {
        Some(known) if known.hash == source.hash && known.changed == source.changed => Ok(known.clone()),
        _ => source.text().map(|text| Arc::new(parse_source(source, &text))),
    });
    let read: Vec<Arc<ParsedSource>> = read.into_iter().collect::<Result<_, _>>()?;
    *known = sources.iter().map(|source| source.file.clone()).zip(read.iter().cloned()).collect();
    let mut pages = SourcePages { documents: Vec::with_capacity(read.len()), ..SourcePages::default() };
    for parsed in read {
        faults.extend(parsed.faults.iter().cloned());
        let Some(document) = &parsed.document else { continue };
        let matter = &document.front_matter;
        let publish_at = matter.publish_at.or_else(|| start_of_day(matter.date?));
        let unpublished = unpublished(matter.draft, publish_at, options.now);
        if let (Some(Unpublished::Until(at)), false) = (unpublished, document.front_matter.is_unrendered) {
            pages.scheduled.push(ScheduledPage { at, file: document.file.clone() });
        }
        if document.front_matter.is_unrendered || (unpublished.is_some() && !options.shows_unpublished) {
            pages.left_out_folders.extend(document.file.strip_suffix("index.md").map(str::to_owned));
        } else {
            faults.extend(parsed.page_faults.iter().cloned());
            pages.documents.push(Document { unpublished, ..document.clone() });
        }
    }
    pages.scheduled.sort_unstable();
    // Exclude folders that also contain a published page, because their other files may belong to that page.
    let folders: HashSet<&str> =
        pages.documents.iter().flat_map(|document| folders_above(&document.file)).collect();
    pages
        .left_out_folders
        .retain(|folder: &String| folder.matches('/').count() > 1 && !folders.contains(folder.as_str()));
    Ok(pages)
}

/// The folders that contain the file: `posts/`, `posts/a/` and so on.
pub(super) fn folders_above(file: &str) -> impl Iterator<Item = &str> {
    file.match_indices('/').map(|(at, _)| &file[..=at])
}

/// Reads the front matter of a page, and derives its path and kind. Does not parse the body.
fn parse_source(source: &SourceFile, text: &str) -> ParsedSource {
    let file = &source.file;
    let (mut faults, mut page_faults) = (Vec::new(), Vec::new());
    let document = front_matter::parse(file, text, &mut faults).map(|parsed| {
        let mut front_matter = parsed.front_matter;
        let (path, kind) = path_and_kind(file, &mut front_matter);
        if path::decode(&encode(&path)).as_deref() != Ok(path.as_str()) {
            let reason = "it has a backslash, a control character or an empty segment";
            let fault = Fault::error(file, None, format!("`{path}` cannot be requested: {reason}"));
            page_faults.push(fault.hint("rename the file, or give the page a `slug`"));
        }
        if front_matter.description.is_none() {
            let fault = Fault::warning(file, Some(1), "the page has no `description`");
            page_faults
                .push(fault.hint("add one or two sentences for search results, previews and llms.txt"));
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
            ..Document::default()
        }
    });
    ParsedSource { hash: source.hash, changed: source.changed, document, faults, page_faults }
}

/// Derives a page's path and kind from its file name. A post without a `date` gets the date from its file
/// name.
fn path_and_kind(file: &str, front_matter: &mut FrontMatter) -> (String, PageKind) {
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
    // `posts/index.md` is the page that lists posts, not a post.
    let is_post = is_post && path != "/blog/";
    let path = front_matter.path.clone().unwrap_or(path);
    let kind = match path.as_str() {
        "/" => PageKind::Home,
        "/blog/" => PageKind::Blog,
        _ if is_post => PageKind::Post,
        _ => PageKind::Page,
    };
    (path, kind)
}

/// Adds the pages that list posts and tags, unless the operator has written them, and unifies the spelling of
/// tags.
pub(super) fn add_blog_pages(documents: &mut Vec<Document>, options: &PagesOptions, faults: &mut Vec<Fault>) {
    // Unpublished posts determine nothing about a list that also has published ones.
    let age = |document: &Document| (document.unpublished.is_none(), document.updated);
    let latest = documents.iter().filter(|document| document.kind == PageKind::Post).map(age).max();
    let Some((has_published, latest)) = latest else { return };
    let unpublished_if = |is_unpublished: bool| is_unpublished.then_some(Unpublished::Draft);
    let paths: HashSet<String> = documents.iter().map(|document| document.path.clone()).collect();
    if !paths.contains("/blog/") {
        let description = format!("Everything that {} has published, newest first.", options.title);
        documents.push(Document {
            unpublished: unpublished_if(!has_published),
            ..Document::new_generated("/blog/", PageKind::Blog, "Blog", &description, latest)
        });
    }
    for document in documents.iter_mut().filter(|document| document.kind == PageKind::Blog) {
        document.updated = document.updated.max(latest);
    }
    unify_tags(documents, faults);
    let tags = listed_tags(documents);
    if tags.is_empty() {
        return;
    }
    if !paths.contains("/blog/tags/") {
        let description = "The subjects of our posts.";
        documents.push(Document {
            unpublished: unpublished_if(!has_published),
            ..Document::new_generated("/blog/tags/", PageKind::Tags, "Tags", description, latest)
        });
    }
    let mut updated: HashMap<String, (bool, Date)> = HashMap::new();
    for document in documents.iter() {
        for tag in &document.front_matter.tags {
            let newest = updated.entry(tag.clone()).or_insert_with(|| age(document));
            *newest = age(document).max(*newest);
        }
    }
    for tag in tags {
        let path = tag_path(&tag.name);
        if !paths.contains(&path) {
            let (has_published, updated) = updated.get(&tag.name).copied().unwrap_or((true, latest));
            let description = format!("What {} has written about {}.", options.title, tag.name);
            let kind = PageKind::Tag(tag.name.clone());
            documents.push(Document {
                unpublished: unpublished_if(!has_published),
                ..Document::new_generated(&path, kind, &tag.name, &description, updated)
            });
        }
    }
}

/// Replaces tags that differ only in case with the first spelling. Reports tags that cannot be turned into a
/// path, and different tags that would share a path (`C` and `C++`).
fn unify_tags(documents: &mut [Document], faults: &mut Vec<Fault>) {
    let mut spellings: HashMap<String, String> = HashMap::new();
    for document in documents.iter_mut().filter(|document| document.kind == PageKind::Post) {
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
                faults.push(Fault::error(&place, line, message).hint("rename one of them"));
            }
            alike
        });
        let mut seen = HashSet::new();
        document.front_matter.tags.retain(|tag| seen.insert(tag.clone()));
    }
}

fn tag_path(name: &str) -> String {
    format!("/blog/tags/{}/", slug(name))
}

/// The tags of all listed posts, sorted by name, each with its number of posts.
pub(super) fn listed_tags(documents: &[Document]) -> Vec<Tag> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for post in listed_posts_newest_first(documents) {
        for tag in &post.front_matter.tags {
            *counts.entry(tag.clone()).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .map(|(name, count)| Tag { path: encode(&tag_path(&name)).into_owned(), name, count })
        .collect()
}

pub(super) fn listed_posts_newest_first(documents: &[Document]) -> Vec<&Document> {
    let mut posts: Vec<&Document> = documents
        .iter()
        .filter(|document| document.kind == PageKind::Post && !document.front_matter.unlisted)
        .collect();
    posts.sort_unstable_by(|a, b| (b.front_matter.date, &a.path).cmp(&(a.front_matter.date, &b.path)));
    posts
}
