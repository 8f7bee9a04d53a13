//! Documents: pages before layout. A document is read from a source file, or generated to list posts or tags.

use std::collections::BTreeMap;
use std::sync::Arc;

use blake3::Hash;
use frontdesk_media::ImageSize;
use jiff::Timestamp;
use jiff::civil::Date;
use serde::Serialize;

use super::front_matter::{self, FrontMatter};
use super::language::{Language, find_language, position_of};
use super::link_resolution::LinkOrigin;
use super::options::PagesOptions;
use super::pagination::{ListPage, page_count, page_path, post_range};
use super::path::{self, encode, slug};
use super::schedule::{ScheduledPage, Unpublished, parse_time, start_of_day, unpublished};
use super::site_files::SourceFile;
use super::visibility::Visibility;
use crate::fault::{Fault, did_you_mean};
use frontdesk_process::hash_maps::{HashMap, HashSet};
use frontdesk_process::memo::{ByPointer, MemoMap};
use frontdesk_process::panics::{self, Panic, Part};
use frontdesk_publish::FileChanged;

/// A tag that at least one listed post in a language has.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub(super) struct Tag {
    pub name: String,
    /// The percent-encoded path of the tag's page.
    pub path: String,
    /// The number of listed posts with the tag.
    pub count: usize,
}

/// The kind of a page, which determines its template and the pages that it lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum PageKind {
    Home,
    #[default]
    Page,
    Post,
    Blog,
    Tags,
    Tag(String),
    /// A page without a URL: a 404 page, or a page that confirmation links open.
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

/// A page with its path and front matter.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Document {
    /// The source file, relative to the site's folder; empty for generated pages.
    pub file: String,
    /// The page's path, decoded and with a trailing slash.
    pub path: String,
    pub kind: PageKind,
    /// The index of the page's language.
    pub language: usize,
    /// A key that files with the same name in the folders of all languages share. `None` for generated pages,
    /// home pages and lists of posts: these are translations of each other if their paths are equal without
    /// the language's prefix.
    pub source_key: Option<String>,
    pub front_matter: Arc<FrontMatter>,
    /// The byte offset of the body in the source.
    pub body_at: usize,
    /// The line of the source file on which the body begins.
    pub body_line: usize,
    /// The source line of each front matter key.
    pub lines: Arc<HashMap<&'static str, usize>>,
    pub updated: Date,
    /// The URL of the preview image.
    pub image: Option<String>,
    pub image_size: Option<ImageSize>,
    /// Why only a preview shows the page; `None` for a published page.
    pub unpublished: Option<Unpublished>,
    /// Whether the page asks search engines not to index it.
    pub noindex: bool,
    /// The part of the list that the page shows, if it lists posts and the list is divided into pages.
    pub list_page: Option<ListPage>,
}

impl Document {
    /// The source file, or a description of a generated page, for error messages.
    pub fn place(&self) -> &str {
        if self.file.is_empty() { "a generated page" } else { &self.file }
    }

    /// The line of a front matter key: 1 if the key is missing, `None` for a generated page.
    pub fn line(&self, key: &str) -> Option<usize> {
        self.lines.get(key).copied().or((!self.file.is_empty()).then_some(1))
    }

    /// The file and path against which the document's links are resolved.
    pub fn origin(&self) -> LinkOrigin<'_> {
        LinkOrigin { file: &self.file, path: &self.path }
    }

    pub fn error_at_key(&self, key: &str, message: impl Into<String>) -> Fault {
        Fault::error(self.place(), self.line(key), message)
    }

    pub fn warning_at_key(&self, key: &str, message: impl Into<String>) -> Fault {
        Fault::warning(self.place(), self.line(key), message)
    }

    /// The path of an alias. As in Hugo, one that does not begin with a slash is relative to the folder that
    /// contains the page: for `/blog/post/`, to `/blog/`.
    pub fn alias_path(&self, alias: &str) -> String {
        path::resolve_relative(self.path.trim_end_matches('/'), alias)
    }

    /// The template's name without `.html`. The front matter can replace the kind's template only for home
    /// pages, ordinary pages and posts, and for generated pages without a URL.
    pub fn template_name(&self) -> &str {
        match (&self.front_matter.template, &self.kind) {
            (Some(template), PageKind::Home | PageKind::Page | PageKind::Post) => template,
            // A generated page without a URL may have its own template, as the pages that confirmation links
            // open do.
            (Some(template), PageKind::NotFound) if self.file.is_empty() => template,
            (_, kind) => kind.name(),
        }
    }

    pub fn nav_title_or_title(&self) -> &str {
        self.front_matter.nav_title.as_deref().unwrap_or(&self.front_matter.title)
    }

    /// A page without a source file. An empty `description` counts as missing.
    pub fn new_generated(
        language: usize,
        path: &str,
        kind: PageKind,
        title: &str,
        description: &str,
        updated: Date,
    ) -> Self {
        let front_matter = Arc::new(FrontMatter {
            title: title.to_owned(),
            description: Some(description.to_owned()).filter(|text| !text.is_empty()),
            ..FrontMatter::default()
        });
        Self { path: path.to_owned(), kind, language, front_matter, updated, ..Self::default() }
    }
}

/// The parsed front matter of all sources, by file. The inputs are the hash of the source, the date of its
/// last change, and the language tags.
pub(super) type ParsedSources = MemoMap<(Hash, Date, Arc<[String]>), ByPointer<ParsedMatter>>;

/// The result of parsing a source's front matter.
#[derive(Debug, PartialEq)]
pub(super) struct ParsedMatter {
    /// The page; `None` if the front matter is invalid. An unknown `lang` is a fault, but keeps the page.
    document: Option<Document>,
    /// The faults of the front matter.
    faults: Vec<Fault>,
    /// Faults of the page's path or description, reported only if the site includes the page.
    page_faults: Vec<Fault>,
}

impl ParsedMatter {
    /// The result for a source if parsing its front matter panicked. The site is served without the page.
    fn unreadable(file: &str, panic: &Panic) -> Self {
        let fault = Fault::defect(file, panic, "the page is left out");
        Self { document: None, faults: vec![fault], page_faults: Vec::new() }
    }
}

/// A source that the site includes: a published one or, in a preview, also a draft, a scheduled or an expired
/// one. A reload keeps the pointer if the parsed front matter is equal.
#[derive(Debug, PartialEq)]
struct SourcePage {
    matter: ByPointer<ParsedMatter>,
    unpublished: Option<Unpublished>,
    /// Whether the page is left out of lists: by its front matter, or by `cascade` in an index file above it.
    unlisted: bool,
    /// Whether the page asks search engines not to index it.
    noindex: bool,
}

/// The pages that a site's sources define.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SourcePages {
    included: Vec<SourcePage>,
    /// The folders, such as `posts/secret/`, whose `index.md` or `_index.md` is left out and which contain no
    /// included page, and likewise folders `_drafts`. Their other files are not published either. Never
    /// `pages/` or `posts/`.
    pub left_out_folders: Vec<String>,
    /// The pages that are published or taken down later, ordered by that time.
    pub scheduled: Vec<ScheduledPage>,
    /// The source files of drafts.
    pub drafts: Vec<String>,
    /// The source files of pages that are no longer published.
    pub expired: Vec<String>,
    /// The sources with invalid front matter, each with the path that follows from its name. Links to them
    /// are not broken.
    pub invalid: Vec<(String, String)>,
}

impl SourcePages {
    /// Records why a page is not published, or when a published one will be taken down.
    fn note_schedule(&mut self, file: &str, unpublished: Option<Unpublished>, expire_at: Option<Timestamp>) {
        let file = file.to_owned();
        match (unpublished, expire_at) {
            (Some(Unpublished::Until(at)), _) => {
                self.scheduled.push(ScheduledPage { at, file, expires: false });
            }
            (Some(Unpublished::Draft), _) => self.drafts.push(file),
            (Some(Unpublished::Expired), _) => self.expired.push(file),
            (None, Some(at)) => self.scheduled.push(ScheduledPage { at, file, expires: true }),
            (None, None) => {}
        }
    }

    /// The documents of the included sources, with the visibility that they inherit from folders.
    pub fn documents(&self) -> impl Iterator<Item = Document> {
        self.included.iter().filter_map(|page| {
            let mut document = page.matter.0.document.clone()?;
            if document.front_matter.unlisted != page.unlisted {
                Arc::make_mut(&mut document.front_matter).unlisted = page.unlisted;
            }
            Some(Document { unpublished: page.unpublished, noindex: page.noindex, ..document })
        })
    }
}

/// Reads the front matter of all sources, and reuses the results in `known` for unchanged ones. Leaves out
/// pages that are never rendered and, except in a preview, drafts, scheduled and expired pages. By default, a
/// page is published at the start of its date, and files that [`is_draft_by_name`] finds are always drafts.
/// Reports all faults of front matter, but other faults only of included pages. Fails if a source changes
/// meanwhile.
pub(super) fn read_documents(
    sources: &[SourceFile],
    options: &PagesOptions,
    known: &mut ParsedSources,
    faults: &mut Vec<Fault>,
) -> Result<SourcePages, FileChanged> {
    let languages = options.language_tags();
    let tags: Arc<[String]> = languages.iter().map(|tag| (*tag).to_owned()).collect();
    let read = known.get_all(
        sources,
        |source| &source.file,
        |source, _| (source.hash, source.changed, tags.clone()),
        |source, _, last| {
            source.with_text(|text| {
                let new = panics::catch(Part::Content, || parse_source(source, text, &languages));
                let new = new.unwrap_or_else(|panic| ParsedMatter::unreadable(&source.file, &panic));
                let same = last.filter(|matter| *matter.0 == new);
                same.cloned().unwrap_or_else(|| ByPointer(Arc::new(new)))
            })
        },
    );
    let read: Vec<_> = read.into_iter().collect::<Result<_, FileChanged>>()?;
    known.keep_only(sources.iter().map(|source| source.file.as_str()));
    let mut pages = SourcePages { included: Vec::with_capacity(read.len()), ..SourcePages::default() };
    let cascades = folder_visibility(&read, &languages);
    for (SourceFile { file, .. }, matter) in sources.iter().zip(&read) {
        let parsed = &matter.0;
        faults.extend(parsed.faults.iter().cloned());
        let Some(document) = &parsed.document else {
            pages.invalid.push((file.clone(), served_path(file, &languages)));
            continue;
        };
        let FrontMatter { publish_at, date, expire_at, visibility, .. } = *document.front_matter;
        let publish_at = publish_at.or_else(|| start_of_day(date?));
        // A page's own value overrides inherited values, and an inner folder's value that of an outer one.
        // An index file without a language at the end of its name applies to pages in all languages.
        let indexes = |folder| [(folder, None), (folder, Some(document.language))];
        let inherited = folders_above(file).flat_map(indexes).filter_map(|index| cascades.get(&index));
        let inherited = inherited.fold(Visibility::default(), |above, here| here.or(above));
        let Visibility { draft, unrendered, unlisted, noindex } = visibility.or(inherited);
        let is_draft = draft == Some(true) || is_draft_by_name(file, &languages);
        let unpublished = unpublished(is_draft, publish_at, expire_at, options.now);
        let is_unrendered = unrendered == Some(true);
        if !is_unrendered {
            pages.note_schedule(file, unpublished, expire_at);
        }
        if is_unrendered || (unpublished.is_some() && !options.shows_unpublished) {
            let own = folder_of_index(file, &languages).map(|(folder, _)| folder);
            pages.left_out_folders.extend(own.into_iter().chain(drafts_folder(file)).map(str::to_owned));
        } else {
            faults.extend(parsed.page_faults.iter().cloned());
            let unlisted = unlisted == Some(true);
            // Ignore an inherited `noindex` if the page or an inner folder states that the page is listed.
            let noindex = unlisted && noindex;
            pages.included.push(SourcePage { matter: matter.clone(), unpublished, unlisted, noindex });
        }
    }
    pages.scheduled.sort_unstable();
    if !pages.left_out_folders.is_empty() {
        // Publish the other files in a folder with a published page, because they may belong to the page.
        let published = pages.included.iter().filter_map(|page| page.matter.0.document.as_ref());
        let folders: HashSet<&str> = published.flat_map(|document| folders_above(&document.file)).collect();
        pages
            .left_out_folders
            .retain(|folder: &String| folder.matches('/').count() > 1 && !folders.contains(folder.as_str()));
    }
    Ok(pages)
}

/// The path of a Markdown file without `.md` or `.markdown`. Keeps other extensions.
fn stem(file: &str) -> &str {
    file.strip_suffix(".md").or_else(|| file.strip_suffix(".markdown")).unwrap_or(file)
}

/// Splits `about.de` into the name and the index of the language, as in Hugo. If the site has only one
/// language, or the name does not end with a language's tag, returns the whole name and `None`.
fn split_language<'a>(stem: &'a str, languages: &[&str]) -> (&'a str, Option<usize>) {
    let split = stem.rsplit_once('.').filter(|_| languages.len() > 1);
    let split = split.and_then(|(name, tag)| Some((name, Some(position_of(tag, languages)?))));
    split.unwrap_or((stem, None))
}

/// The folder (`posts/a/`) of an index file (`posts/a/index.md` or `_index.md`), and the language at the end
/// of the file's name (`posts/a/index.de.md`). `None` for other files.
fn folder_of_index<'a>(file: &'a str, languages: &[&str]) -> Option<(&'a str, Option<usize>)> {
    let (stem, language) = split_language(stem(file), languages);
    let folder = stem.strip_suffix("/index").or_else(|| stem.strip_suffix("/_index"))?;
    Some((&file[..=folder.len()], language))
}

/// The folder of drafts that contains the file, as in Jekyll: `posts/_drafts/`. `None` for other files.
fn drafts_folder(file: &str) -> Option<&str> {
    folders_above(file).find(|folder| folder.ends_with("/_drafts/"))
}

/// Whether the file is in a folder of drafts or, as in Nuxt Content, has a name that ends with `.draft.md`.
/// The tag of a language may stand before or after `.draft`.
fn is_draft_by_name(file: &str, languages: &[&str]) -> bool {
    let stem = stem(file);
    let ends = [stem, split_language(stem, languages).0];
    drafts_folder(file).is_some() || ends.iter().any(|stem| stem.ends_with(".draft"))
}

/// The values in `cascade` of index files, for the pages in their folders: by folder and by the language at
/// the end of the file's name. Of two index files in one folder, the value that withholds pages wins.
fn folder_visibility<'a>(
    read: &'a [ByPointer<ParsedMatter>],
    languages: &[&str],
) -> HashMap<(&'a str, Option<usize>), Visibility> {
    let mut all = HashMap::<_, Visibility>::default();
    for document in read.iter().filter_map(|matter| matter.0.document.as_ref()) {
        let cascade = document.front_matter.cascade;
        if cascade != Visibility::default()
            && let Some(index) = folder_of_index(&document.file, languages)
        {
            let values = all.entry(index).or_default();
            *values = values.stricter(cascade);
        }
    }
    all
}

/// The folders that contain the file: `posts/`, `posts/a/` and so on.
pub(super) fn folders_above(file: &str) -> impl Iterator<Item = &str> {
    file.match_indices('/').map(|(at, _)| &file[..=at])
}

/// Reads the front matter of a source, and derives the path, kind and language of the page. A `lang` that the
/// site has replaces the language, but not in the path. Reports any other `lang`, a path that requests cannot
/// have, and a missing description. `updated` is by default the page's date, or else that of the file's last
/// change. Does not parse the body.
fn parse_source(source: &SourceFile, text: &str, languages: &[&str]) -> ParsedMatter {
    let file = &source.file;
    panics::inject("front-matter", file);
    let (mut faults, mut page_faults) = (Vec::new(), Vec::new());
    let document = front_matter::parse(file, text, &mut faults).map(|parsed| {
        let mut front_matter = parsed.front_matter;
        let PageIdentity { path, kind, mut language, source_key } =
            identify(file, languages, &mut front_matter);
        if let Some(tag) = &front_matter.lang {
            let index = find_language(tag, languages);
            if index.is_none() {
                let line = parsed.lines.get("lang").copied();
                let fault = Fault::warning(
                    file,
                    line,
                    format!("`lang` is ignored: `{tag}` is not a language of this site"),
                );
                let otherwise = || "add it to `site.languages` in frontdesk.toml".to_owned();
                faults.push(fault.hint(did_you_mean(tag, languages.iter().copied(), otherwise)));
            }
            language = index.unwrap_or(language);
        }
        if path::decode(&encode(&path)).as_deref() != Ok(path.as_str()) {
            let part = match &path {
                path if path.contains('\\') => "a backslash",
                path if path.contains(char::is_control) => "a control character",
                _ => "an empty or dot segment",
            };
            let message = format!("`{path}` cannot be requested: it has {part}");
            page_faults.push(Fault::error(file, None, message).hint("rename the file or its folder"));
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
            language,
            source_key,
            updated: front_matter.updated.or(front_matter.date).unwrap_or(source.changed),
            front_matter: Arc::new(front_matter),
            body_at: text.len() - parsed.body.len(),
            body_line: parsed.body_line,
            lines: Arc::new(parsed.lines),
            ..Document::default()
        }
    });
    ParsedMatter { document, faults, page_faults }
}

/// The properties of a page that follow from its file name, and from `slug` and `path` in its front matter.
struct PageIdentity {
    path: String,
    kind: PageKind,
    language: usize,
    source_key: Option<String>,
}

/// The decoded path at which a file or folder is served, as far as its name determines this.
pub(super) fn served_path(file: &str, languages: &[&str]) -> String {
    match file.split_once('/') {
        Some(("static", rest)) => format!("/{rest}"),
        Some(("pages" | "posts", name)) if name.ends_with(".md") || name.ends_with(".markdown") => {
            identify(file, languages, &mut FrontMatter::default()).path
        }
        _ => path::public_path(file),
    }
}

/// Derives a page's path, kind and language from its file name, and from `slug` and `path` in its front
/// matter. The language is named at the end of the file name (`about.de.md`), or else by the folder
/// (`de/about.md`), or else is the default one. A date at the beginning of a post's name, and a time after
/// it, are left out of the path. If the front matter has no `date`, they become the date and time of the
/// post, and the time also its time of publication if that is missing. A file `index` or `_index` has the
/// path of its folder. `slug` replaces the last segment of the path, and `path` the whole path, also the
/// language's folder. In each language, the page at `/` is the home page, and the page at `/blog/` the list
/// of posts.
fn identify(file: &str, languages: &[&str], front_matter: &mut FrontMatter) -> PageIdentity {
    let is_post = file.starts_with("posts/");
    let relative = file.split_once('/').map_or(file, |(_, rest)| rest);
    let in_folder = relative.split_once('/').and_then(|(folder, rest)| {
        let index = position_of(folder, languages).filter(|index| *index > 0)?;
        Some((index, rest))
    });
    let (mut language, relative) = in_folder.unwrap_or((0, relative));
    let (stem, named) = split_language(stem(relative), languages);
    language = named.unwrap_or(language);
    let prefix = if language == 0 { String::new() } else { format!("/{}", languages[language]) };
    let (mut folder, mut name) = stem.rsplit_once('/').unwrap_or(("", stem));
    if matches!(name, "index" | "_index") {
        (folder, name) = folder.rsplit_once('/').unwrap_or(("", folder));
    }
    if is_post && let Some((day, time, title)) = split_date(name) {
        if front_matter.date.is_none() {
            (front_matter.date, front_matter.dated_at) = (Some(day), time);
            front_matter.publish_at = front_matter.publish_at.or(time);
        }
        name = title;
    }
    let source_key = format!("{} {stem}", if is_post { "post" } else { "page" });
    let mut path = format!("{prefix}{}", if is_post { "/blog/" } else { "/" });
    for segment in [folder, front_matter.slug.as_deref().unwrap_or(name)] {
        if !segment.is_empty() {
            path.push_str(segment);
            path.push('/');
        }
    }
    // `posts/index.md` is the page that lists posts, not a post.
    let is_post = is_post && path.strip_prefix(&prefix) != Some("/blog/");
    let path = front_matter.path.clone().unwrap_or(path);
    let kind = match path.strip_prefix(&prefix) {
        Some("/") => PageKind::Home,
        Some("/blog/") => PageKind::Blog,
        _ if is_post => PageKind::Post,
        _ => PageKind::Page,
    };
    let source_key = matches!(kind, PageKind::Page | PageKind::Post).then_some(source_key);
    PageIdentity { path, kind, language, source_key }
}

/// Splits a post's name into its date, the time after it, and the rest without the spaces, dashes and other
/// separators at its beginning. `None` if the name does not begin with a date, if a letter or digit that is
/// not part of a time follows the date, or if there is no rest.
fn split_date(name: &str) -> Option<(Date, Option<Timestamp>, &str)> {
    let (day, rest) = name.split_at_checked("2026-11-20".len())?;
    let date = day.parse().ok()?;
    let (time, rest) = split_time(day, rest).map_or((None, rest), |(time, rest)| (Some(time), rest));
    let is_separator = |c: char| {
        c.is_whitespace() || "-_.,:;+~".contains(c) || matches!(c, '\u{2010}'..='\u{2015}' | '\u{2212}')
    };
    let title = rest.trim_start_matches(is_separator);
    (!rest.starts_with(char::is_alphanumeric) && !title.is_empty()).then_some((date, time, title))
}

/// Splits the text after a day into a time on that day, such as `T10:00:00Z`, and the rest. The time may have
/// hyphens instead of colons (`T10-00`), because names of files on Windows cannot have colons. `None` if the
/// text does not begin with a time, if it ends with the time, or if a letter or digit follows the time.
fn split_time<'a>(day: &str, text: &'a str) -> Option<(Timestamp, &'a str)> {
    let clock = text.strip_prefix('T')?;
    let is_end = |at: usize, c: char| at >= "10:00".len() && !c.is_alphanumeric() && c != ':';
    let mut ends = clock.char_indices().rev().filter(|&(at, c)| is_end(at, c));
    ends.find_map(|(end, _)| {
        let (clock, rest) = clock.split_at(end);
        let has_hyphens = clock.chars().all(|c| c.is_ascii_digit() || c == '-');
        let clock = if has_hyphens { clock.replace('-', ":") } else { clock.to_owned() };
        Some((parse_time(&format!("{day}T{clock}"))?, rest))
    })
}

/// Unifies the tags of a language's posts, see `unify_tags`. Then, if the language has listed posts, adds the
/// pages that list them: all posts, the tags if there are any, and the posts with each tag. Adds no page at a
/// path that a document has, such as one that the operator has written.
///
/// A list has the latest `updated` of its listed posts, and the operator's own list of all posts gets it if
/// its own is earlier. Unpublished posts, which only a preview has, count for this only in a list without
/// others. Such a list is a draft if it is generated.
pub(super) fn add_blog_pages(
    index: usize,
    language: &Language,
    documents: &mut Vec<Document>,
    faults: &mut Vec<Fault>,
) {
    let Language { prefix, words, name, .. } = language;
    unify_tags(index, documents, faults);
    let age = |post: &Document| (post.unpublished.is_none(), post.updated);
    let posts = listed_posts_newest_first(documents, index);
    let Some(latest @ (_, updated)) = posts.iter().map(|post| age(post)).max() else { return };
    let mut tags: BTreeMap<String, (bool, Date)> = BTreeMap::new();
    for post in posts {
        for tag in &post.front_matter.tags {
            let newest = tags.entry(tag.clone()).or_insert_with(|| age(post));
            *newest = age(post).max(*newest);
        }
    }
    for document in documents.iter_mut() {
        if document.language == index && document.kind == PageKind::Blog {
            document.updated = document.updated.max(updated);
        }
    }
    let paths: HashSet<String> = documents.iter().map(|document| document.path.clone()).collect();
    let mut generate =
        |path: &str, kind, title: &str, description: &str, (is_published, updated): (bool, Date)| {
            if !paths.contains(path) {
                documents.push(Document {
                    unpublished: (!is_published).then_some(Unpublished::Draft),
                    ..Document::new_generated(index, path, kind, title, description, updated)
                });
            }
        };
    let description = words.fill("blog_description", &[("site", name)]);
    generate(&format!("{prefix}/blog/"), PageKind::Blog, words.get("blog"), &description, latest);
    if let Some(latest) = tags.values().max() {
        let (path, description) = (format!("{prefix}/blog/tags/"), words.get("tags_description"));
        generate(&path, PageKind::Tags, words.get("tags"), description, *latest);
    }
    for (tag, latest) in tags {
        let description = words.fill("tag_description", &[("site", name), ("tag", &tag)]);
        generate(&tag_path(prefix, &tag), PageKind::Tag(tag.clone()), &tag, &description, latest);
    }
}

/// Divides the lists of posts in a language into pages: adds the second and later pages of each list that has
/// more than `per_page` posts, with the date and visibility of the first page, and a redirect from a path
/// such as `/blog/page/1/` to the first page. Does nothing if `per_page` is 0.
pub(super) fn add_list_pages(
    index: usize,
    language: &Language,
    documents: &mut Vec<Document>,
    per_page: usize,
) {
    let all = listed_posts_newest_first(documents, index).len();
    let tags = listed_tags(documents, index, &language.prefix);
    let counts: HashMap<String, usize> = tags.into_iter().map(|tag| (tag.name, tag.count)).collect();
    let mut more = Vec::new();
    for document in documents.iter_mut().filter(|document| document.language == index) {
        let posts = match &document.kind {
            PageKind::Blog => all,
            PageKind::Tag(name) => counts.get(name).copied().unwrap_or_default(),
            _ => continue,
        };
        let count = page_count(posts, per_page);
        if count < 2 {
            continue;
        }
        let page = |number| ListPage { base: document.path.clone(), number, count };
        for number in 2..=count {
            let (title, n) = (document.front_matter.title.as_str(), number.to_string());
            let title = language.words.fill("list_page_title", &[("title", title), ("n", &n)]);
            let shown = post_range(number, per_page, posts);
            let [first, last, total] = [shown.start + 1, shown.end, posts].map(|n| n.to_string());
            let values = [("first", first.as_str()), ("last", &last), ("total", &total)];
            let description = language.words.fill("list_page_description", &values);
            let path = page_path(&document.path, number);
            let kind = document.kind.clone();
            let mut other =
                Document::new_generated(index, &path, kind, &title, &description, document.updated);
            Arc::make_mut(&mut other.front_matter).unlisted = document.front_matter.unlisted;
            (other.unpublished, other.noindex) = (document.unpublished, document.noindex);
            more.push(Document { list_page: Some(page(number)), ..other });
        }
        document.list_page = Some(page(1));
        Arc::make_mut(&mut document.front_matter).aliases.push(format!("{}page/1/", document.path));
    }
    documents.append(&mut more);
}

/// Replaces tags of a language's posts that share a slug with the first spelling, and removes duplicates.
/// Warns about those that differ from it in more than case.
fn unify_tags(language: usize, documents: &mut [Document], faults: &mut Vec<Fault>) {
    let mut spellings: HashMap<String, String> = HashMap::default();
    let is_post = |document: &&mut Document| document.language == language && document.kind == PageKind::Post;
    for document in documents.iter_mut().filter(is_post) {
        let (place, line) = (&document.file, document.line("tags"));
        let mut tags = document.front_matter.tags.clone();
        for tag in &mut tags {
            let spelling = spellings.entry(slug(tag)).or_insert_with(|| tag.clone());
            if spelling.to_lowercase() != tag.to_lowercase() {
                let message = format!("the tag `{tag}` has the same page as `{spelling}`");
                faults.push(
                    Fault::warning(place, line, message).hint("write the tag in the same way everywhere"),
                );
            }
            tag.clone_from(spelling);
        }
        let mut seen = HashSet::default();
        tags.retain(|tag| seen.insert(tag.clone()));
        if tags != document.front_matter.tags {
            Arc::make_mut(&mut document.front_matter).tags = tags;
        }
    }
}

fn tag_path(prefix: &str, name: &str) -> String {
    format!("{prefix}/blog/tags/{}/", slug(name))
}

/// The tags of all listed posts in a language, sorted by name, each with its number of posts. `prefix` is the
/// path of the language's folder.
pub(super) fn listed_tags(documents: &[Document], language: usize, prefix: &str) -> Vec<Tag> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for post in listed_posts_newest_first(documents, language) {
        for tag in &post.front_matter.tags {
            *counts.entry(tag.clone()).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .map(|(name, count)| Tag { path: encode(&tag_path(prefix, &name)).into_owned(), name, count })
        .collect()
}

/// The posts in a language that are not `unlisted`; in a preview, also unpublished ones. Posts without a date
/// come last, and posts of the same age are sorted by path.
pub(super) fn listed_posts_newest_first(documents: &[Document], language: usize) -> Vec<&Document> {
    let is_listed = |document: &&Document| {
        document.language == language && document.kind == PageKind::Post && !document.front_matter.unlisted
    };
    let mut posts: Vec<&Document> = documents.iter().filter(is_listed).collect();
    posts.sort_by_key(|post| (post.front_matter.age(), &post.path));
    posts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Severity;

    #[test]
    fn a_date_is_left_out_of_the_path_with_what_separates_it() {
        for (file, path, is_dated) in [
            ("2026-01-02-round.md", "/blog/round/", true),
            ("2026-01-02_round.md", "/blog/round/", true),
            ("2026-01-02.round.md", "/blog/round/", true),
            ("2026-01-02 - Round 2.md", "/blog/Round 2/", true),
            ("2026-01-02-round/index.md", "/blog/round/", true),
            ("2026-01-02nd-round.md", "/blog/2026-01-02nd-round/", false),
            ("2026-01-02é.md", "/blog/2026-01-02é/", false),
            ("2026-01-023.md", "/blog/2026-01-023/", false),
            ("2026-01-02-.md", "/blog/2026-01-02-/", false),
            ("2026-13-02-round.md", "/blog/2026-13-02-round/", false),
            ("2026-01-02 \u{2014} round.md", "/blog/round/", true),
            ("2026-01-02\u{2014}round.md", "/blog/round/", true),
            ("2026-01-02\u{a0}round.md", "/blog/round/", true),
            ("2026-01-02,round.md", "/blog/round/", true),
            ("2026-01-02+round.md", "/blog/round/", true),
            ("2026-01-02(round).md", "/blog/(round)/", true),
            ("2026-01-02-🎉.md", "/blog/🎉/", true),
            ("2026-01-02-$5.md", "/blog/$5/", true),
            ("2026-01-02T-shirt.md", "/blog/2026-01-02T-shirt/", false),
            ("2026-01-02T10:00:00Z.md", "/blog/2026-01-02T10:00:00Z/", false),
            ("2026-01-02T10-05.md", "/blog/2026-01-02T10-05/", false),
        ] {
            let mut front_matter = FrontMatter::default();
            let found = identify(&format!("posts/{file}"), &["en"], &mut front_matter);
            assert_eq!((&*found.path, front_matter.date.is_some()), (path, is_dated), "{file}");
        }
    }

    #[test]
    fn the_folder_of_a_language_may_be_written_in_another_way() {
        for (file, path, language) in [
            ("pages/zh-cn/a.md", "/zh-cn/a/", 1),
            ("pages/zh-CN/a.md", "/zh-cn/a/", 1),
            ("posts/ZH_CN/a.md", "/zh-cn/blog/a/", 1),
            ("pages/a.zh_CN.md", "/zh-cn/a/", 1),
            ("pages/zh/a.md", "/zh/a/", 0),
            ("pages/EN/a.md", "/EN/a/", 0),
            ("pages/zh-CN.md", "/zh-CN/", 0),
        ] {
            let found = identify(file, &["en", "zh-cn"], &mut FrontMatter::default());
            assert_eq!((&*found.path, found.language), (path, language), "{file}");
        }
    }

    #[test]
    fn a_tag_with_a_region_names_the_language_without_one() {
        for (tag, languages, expected) in [
            ("en-US", &["de", "en"][..], Some(1)),
            ("en_us", &["de", "en", "en-US"], Some(2)),
            ("EN", &["de", "en"], Some(1)),
            ("pt", &["en", "pt-BR"], Some(1)),
            ("pt", &["pt-PT", "pt-BR"], None),
            ("zh-TW", &["zh-CN"], None),
            ("english", &["en"], None),
            ("", &["en"], None),
        ] {
            assert_eq!(find_language(tag, languages), expected, "{tag} {languages:?}");
        }
    }

    #[test]
    fn tags_that_differ_in_signs_have_pages_of_their_own() {
        let post = |tags: &[&str]| {
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            let front_matter = Arc::new(FrontMatter { tags, ..FrontMatter::default() });
            Document { path: "/p/".into(), kind: PageKind::Post, front_matter, ..Document::default() }
        };
        let mut documents = vec![
            post(&["C", "C++", "C#"]),
            post(&["c", "NET", ".NET", "🚀", "&"]),
            post(&["web dev", "Web-Dev"]),
        ];
        let mut faults = Vec::new();
        add_blog_pages(0, &Language::only(&PagesOptions::default()), &mut documents, &mut faults);
        let found: Vec<_> = documents
            .iter()
            .filter_map(|document| {
                let PageKind::Tag(name) = &document.kind else { return None };
                Some((name.as_str(), document.path.trim_start_matches("/blog/tags/")))
            })
            .collect();
        let expected = [
            ("&", "u26/"),
            (".NET", "dot-net/"),
            ("C", "c/"),
            ("C#", "c-sharp/"),
            ("C++", "c-plus-plus/"),
            ("NET", "net/"),
            ("web dev", "web-dev/"),
            ("🚀", "🚀/"),
        ];
        assert_eq!(found, expected);
        let faults: Vec<_> = faults.iter().map(|fault| (fault.severity, fault.message.as_str())).collect();
        assert_eq!(faults, [(Severity::Warning, "the tag `Web-Dev` has the same page as `web dev`")]);
        assert_eq!(documents[1].front_matter.tags[0], "C");
        assert_eq!(documents[2].front_matter.tags, ["web dev"]);
    }

    #[test]
    fn a_time_after_the_date_of_a_posts_name_is_left_out_too() {
        for (file, path, time) in [
            ("2026-01-02T10:00:00Z-round.md", "/blog/round/", "10:00:00Z"),
            ("2026-01-02T10:00:00.5Z_round.md", "/blog/round/", "10:00:00.5Z"),
            ("2026-01-02T10:00:00+02:00-round.md", "/blog/round/", "08:00:00Z"),
            ("2026-01-02T10:00-round.md", "/blog/round/", "10:00:00Z"),
            ("2026-01-02T10-05-round.md", "/blog/round/", "10:05:00Z"),
            ("2026-01-02T10-05-30-round.md", "/blog/round/", "10:05:30Z"),
        ] {
            let mut front_matter = FrontMatter::default();
            let found = identify(&format!("posts/{file}"), &["en"], &mut front_matter);
            let time: Option<Timestamp> = format!("2026-01-02T{time}").parse().ok();
            assert_eq!((&*found.path, front_matter.dated_at), (path, time), "{file}");
            assert_eq!((front_matter.publish_at, front_matter.date.is_some()), (time, true), "{file}");
        }
        let date = Some(jiff::civil::date(2025, 1, 1));
        let mut front_matter = FrontMatter { date, ..FrontMatter::default() };
        identify("posts/2026-01-02T10:00:00Z-round.md", &["en"], &mut front_matter);
        assert_eq!((front_matter.date, front_matter.dated_at, front_matter.publish_at), (date, None, None));
    }

    #[test]
    fn lists_have_the_date_and_state_of_the_posts_that_they_show() {
        let page = |kind, day, tag: &str| {
            let front_matter = FrontMatter { tags: vec![tag.to_owned()], ..FrontMatter::default() };
            let updated = jiff::civil::date(2026, 1, day);
            let path = format!("/{day}/");
            Document { path, kind, updated, front_matter: Arc::new(front_matter), ..Document::default() }
        };
        let post = |day, tag| page(PageKind::Post, day, tag);
        let draft = |day, tag| Document { unpublished: Some(Unpublished::Draft), ..post(day, tag) };
        let unlisted = |day, tag| {
            let mut document = post(day, tag);
            Arc::make_mut(&mut document.front_matter).unlisted = true;
            document
        };
        let check = |mut documents: Vec<Document>, expected: &[(&str, i8, bool)]| {
            let count = documents.len();
            add_blog_pages(0, &Language::only(&PagesOptions::default()), &mut documents, &mut Vec::new());
            let added = documents[count..].iter();
            let added = added.map(|it| (&*it.path, it.updated.day(), it.unpublished.is_none()));
            assert_eq!(added.collect::<Vec<_>>(), expected);
        };
        let (blog, tags, tag) = ("/blog/", "/blog/tags/", "/blog/tags/a/");
        check(vec![unlisted(1, "a"), page(PageKind::Page, 2, "a")], &[]);
        check(
            vec![post(1, "a"), unlisted(2, "a"), page(PageKind::Page, 3, "a"), draft(4, "a")],
            &[(blog, 1, true), (tags, 1, true), (tag, 1, true)],
        );
        check(
            vec![post(3, "b"), draft(2, "a"), page(PageKind::Page, 1, "a"), unlisted(4, "c")],
            &[(blog, 3, true), (tags, 3, true), (tag, 2, false), ("/blog/tags/b/", 3, true)],
        );
        check(vec![unlisted(3, "a"), draft(2, "a")], &[(blog, 2, false), (tags, 2, false), (tag, 2, false)]);
        let mut untagged = post(3, "a");
        Arc::make_mut(&mut untagged.front_matter).tags.clear();
        check(vec![untagged, draft(2, "a")], &[(blog, 3, true), (tags, 2, false), (tag, 2, false)]);
    }
}
