//! Reads a site's folder: sources, assets and theme in, a [`Site`] out, with every fault found on the way.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::civil::Date;

use super::file::{Cache, File, fingerprint, media_type};
use super::front_matter::{self, FrontMatter};
use super::layout::{Layout, Tag};
use super::link::{Catalog, Place, Target};
use super::markdown::{self, Rendered};
use super::path::{self, encode, slug};
use super::theme::Theme;
use super::{Form, Links, Options, Page, Site, Summary, in_parallel, twin};
use crate::fault::{Fault, Severity, closest};

/// A loaded site with what was noticed while loading it.
#[derive(Debug)]
pub struct Loaded {
    /// None if a fault keeps the site from being served.
    pub site: Option<Site>,
    /// Its links, to be checked once the resources are in place.
    pub links: Links,
    /// Everything that is not as it should be.
    pub faults: Vec<Fault>,
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
    body: String,
    body_line: usize,
    pub updated: Date,
    pub rendered: Rendered,
    /// The preview image's path, percent-encoded.
    pub image: Option<String>,
}

impl Document {
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

    fn generated(path: &str, kind: Kind, title: &str, description: &str, updated: Date) -> Self {
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

/// Loads the site in `folder`. Reports every fault; where one of them is an error there is no site.
///
/// `pages/**.md` become pages, `posts/**.md` the blog, `assets/**` and what lies beside pages become assets with
/// fingerprinted names, `static/**` is served as it is, `theme/**` replaces files of the built-in theme.
pub fn load(folder: &Path, options: &Options, forms: &[Form]) -> Loaded {
    let mut faults = Vec::new();
    let tree = Tree::read(folder, &mut faults);
    let theme = Theme::new(tree.theme);
    let (assets, asset_urls) = name_assets(&tree.assets, &theme);

    let mut documents = read_documents(&tree.sources, &mut faults);
    add_blog(&mut documents, options);
    refuse_duplicates(&documents, &mut faults);
    let catalog = Catalog {
        base_url: options.base_url.clone(),
        pages: documents.iter().map(|document| (document.file.clone(), document.path.clone())).collect(),
        assets: assets.iter().map(|asset| (asset.path.clone(), asset.fingerprinted.clone())).collect(),
    };
    let mut links = Links::default();
    render(&mut documents, &catalog, forms, &mut links, &mut faults);

    let mut environment_faults = Vec::new();
    let environment = theme.templates(Arc::new(asset_urls), &mut environment_faults);
    faults.append(&mut environment_faults);
    let mut missing = Document::generated(
        "/404/",
        Kind::NotFound,
        "There is nothing here",
        "The page may have moved, or the address may have been mistyped.",
        Date::default(),
    );
    let layout = Layout {
        options,
        forms,
        environment,
        documents: &documents,
        by_path: documents.iter().enumerate().map(|(at, document)| (document.path.as_str(), at)).collect(),
        posts: posts_of(&documents),
        tags: tags_of(&documents),
        year: documents.iter().map(|document| document.updated.year()).max().unwrap_or_default(),
    };
    missing.rendered.markdown = not_found_help(&layout);
    let pages = in_parallel(&documents, |document| lay_out(document, &layout));
    let not_found = lay_out(&missing, &layout);

    let mut built = Vec::with_capacity(pages.len());
    for (document, result) in documents.iter().zip(pages) {
        match result {
            Ok(page) => built.push((document, page)),
            Err(fault) if faults.contains(&fault) => {}
            Err(fault) => faults.push(fault),
        }
    }
    let not_found = match not_found {
        Ok(page) => Some(page),
        Err(fault) => {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
            None
        }
    };
    check_whole(&documents, options, &mut links, &mut faults);
    faults.sort_by(|a, b| (&a.place, a.line, &a.message).cmp(&(&b.place, b.line, &b.message)));
    let failed = faults.iter().any(|fault| fault.severity == Severity::Error);
    let site = not_found.filter(|_| !failed).map(|not_found| {
        let mut site = Site::new(&options.base_url, not_found);
        for (name, bytes) in tree.verbatim {
            let file = File::new(media_type(&name), Cache::Revalidate, bytes);
            site.entries.insert(format!("/{name}").into(), super::Entry::File(Arc::new(file)));
        }
        for asset in assets {
            site.insert_resource(&asset.path, media_type(&asset.path), asset.bytes.clone());
            let named = File::new(media_type(&asset.path), Cache::Immutable, asset.bytes);
            let name =
                path::decode(&asset.fingerprinted).map(std::borrow::Cow::into_owned).unwrap_or_default();
            site.entries.insert(name.into(), super::Entry::File(Arc::new(named)));
        }
        for (document, page) in built {
            links.anchors.insert(document.path.clone(), anchors(&page.html));
            site.insert_page(&document.path, page);
        }
        for document in &documents {
            for alias in &document.front_matter.aliases {
                let to = || super::Entry::Redirect(encode(&document.path).into_owned());
                let alias = path::join("/", alias);
                site.entries.entry(alias.trim_end_matches('/').into()).or_insert_with(to);
                site.entries.entry(alias.into()).or_insert_with(to);
            }
        }
        site.pages = summaries(&documents, options);
        site
    });
    Loaded { site, links, faults }
}

/// The files of the site's folder by what they are for.
#[derive(Default)]
struct Tree {
    /// Markdown below `pages/` and `posts/`: name, text, date of change.
    sources: Vec<(String, String, Date)>,
    /// Name below the site's root as served, without the leading slash, and content.
    assets: Vec<(String, Vec<u8>)>,
    /// The same for `static/`.
    verbatim: Vec<(String, Vec<u8>)>,
    theme: Vec<(String, Vec<u8>)>,
}

impl Tree {
    fn read(folder: &Path, faults: &mut Vec<Fault>) -> Self {
        let mut tree = Self::default();
        if !folder.join("pages").is_dir() {
            faults.push(
                Fault::error("pages/", None, "the site's folder has no folder `pages`")
                    .hint("`frontdesk init DIR` writes a small site to begin with"),
            );
        }
        for part in ["pages", "posts", "assets", "static", "theme"] {
            for (name, file) in walk(folder, part, faults) {
                match std::fs::read(&file) {
                    Ok(bytes) => tree.sort_in(part, name, bytes, &file, faults),
                    Err(error) => {
                        faults.push(Fault::error(format!("{part}/{name}"), None, error.to_string()));
                    }
                }
            }
        }
        tree
    }

    fn sort_in(&mut self, part: &str, name: String, bytes: Vec<u8>, file: &Path, faults: &mut Vec<Fault>) {
        match part {
            "pages" | "posts" if name.ends_with(".md") || name.ends_with(".markdown") => {
                let place = format!("{part}/{name}");
                match String::from_utf8(bytes) {
                    Ok(text) => self.sources.push((place, text.replace("\r\n", "\n"), changed(file))),
                    Err(error) => {
                        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                        let line = valid.split(|byte| *byte == b'\n').count();
                        faults.push(Fault::error(place, Some(line), "the file is not valid UTF-8"));
                    }
                }
            }
            "pages" => self.assets.push((name, bytes)),
            "posts" => self.assets.push((format!("blog/{name}"), bytes)),
            "assets" => self.assets.push((format!("assets/{name}"), bytes)),
            "static" => self.verbatim.push((name, bytes)),
            _ => self.theme.push((name, bytes)),
        }
    }
}

/// The files below a folder, sorted by name. Hidden ones are left out, except `.well-known`; a symbolic link must not lead
/// out of the site's folder.
fn walk(root: &Path, part: &str, faults: &mut Vec<Fault>) -> Vec<(String, PathBuf)> {
    let top = root.join(part);
    let boundary = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let mut found = Vec::new();
    let mut folders = vec![top.clone()];
    let mut seen = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        // A link back to a folder that contains it would be walked for ever.
        if !folder.canonicalize().is_ok_and(|real| seen.insert(real)) {
            continue;
        }
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                faults.push(Fault::error(display(root, &folder), None, error.to_string()));
                continue;
            }
        };
        for entry in entries.flatten() {
            let file = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                faults.push(Fault::error(display(root, &file), None, "the file's name is not valid UTF-8"));
                continue;
            };
            if (name.starts_with('.') && name != ".well-known") || name.ends_with('~') {
                continue;
            }
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if is_link && !file.canonicalize().is_ok_and(|real| real.starts_with(&boundary)) {
                let hint = "copy the file into the site's folder";
                faults.push(
                    Fault::error(
                        display(root, &file),
                        None,
                        "the symbolic link leads out of the site's folder",
                    )
                    .hint(hint),
                );
            } else if file.is_dir() {
                folders.push(file);
            } else if let Ok(relative) = file.strip_prefix(&top) {
                found.push((relative.to_string_lossy().into_owned(), file));
            }
        }
    }
    found.sort();
    found
}

fn display(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

/// The day on which a file was last changed, in UTC.
fn changed(file: &Path) -> Date {
    let modified = file.metadata().and_then(|meta| meta.modified()).ok();
    modified
        .and_then(|time| jiff::Timestamp::try_from(time).ok())
        .map(|at| at.to_zoned(jiff::tz::TimeZone::UTC).date())
        .unwrap_or_default()
}

/// An asset under both its names.
struct Asset {
    /// Decoded, `/assets/diagram.svg`.
    path: String,
    /// Percent-encoded, `/assets/diagram.0a1b2c3d4e.svg`.
    fingerprinted: String,
    bytes: bytes::Bytes,
}

/// Gives every asset its fingerprinted name; also returns the URLs by the names that templates use.
fn name_assets(files: &[(String, Vec<u8>)], theme: &Theme) -> (Vec<Asset>, BTreeMap<String, String>) {
    let themed = theme.assets().map(|(name, bytes)| (format!("assets/{name}"), bytes));
    let own = files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice()));
    // The operator's come last and win.
    let all: BTreeMap<String, &[u8]> = themed.chain(own).collect();
    let assets: Vec<Asset> = all
        .into_iter()
        .map(|(name, bytes)| {
            let print = fingerprint(bytes, 10);
            let (folder, file) =
                name.rsplit_once('/').map_or(("", name.as_str()), |(folder, file)| (folder, file));
            let fingerprinted = match file.rsplit_once('.') {
                Some((stem, ending)) => format!("{stem}.{print}.{ending}"),
                None => format!("{file}.{print}"),
            };
            let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
            let fingerprinted = encode(&format!("/{folder}{fingerprinted}")).into_owned();
            Asset { path: format!("/{name}"), fingerprinted, bytes: bytes.to_vec().into() }
        })
        .collect();
    let named = |asset: &Asset| asset.path.trim_start_matches("/assets/").trim_start_matches('/').to_owned();
    let urls = assets.iter().map(|asset| (named(asset), asset.fingerprinted.clone())).collect();
    (assets, urls)
}

fn read_documents(sources: &[(String, String, Date)], faults: &mut Vec<Fault>) -> Vec<Document> {
    let read = in_parallel(sources, |(file, text, changed)| {
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
    let stem = relative.trim_end_matches(".md").trim_end_matches(".markdown");
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
fn add_blog(documents: &mut Vec<Document>, options: &Options) {
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
    for tag in tags {
        let path = format!("/blog/tags/{}/", slug(&tag.name));
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
fn tags_of(documents: &[Document]) -> Vec<Tag> {
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

fn posts_of(documents: &[Document]) -> Vec<&Document> {
    let mut posts: Vec<&Document> = documents
        .iter()
        .filter(|document| document.kind == Kind::Post && !document.front_matter.unlisted)
        .collect();
    posts.sort_by(|a, b| (b.front_matter.date, &a.path).cmp(&(a.front_matter.date, &b.path)));
    posts
}

fn refuse_duplicates(documents: &[Document], faults: &mut Vec<Fault>) {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for document in documents {
        // Twins share a name space with pages: `/a/` has its twin at `/a.md`.
        let key = document.path.to_lowercase();
        if let Some(other) = seen.insert(key, &document.file) {
            let message = format!("the path `{}` is also that of {other}", document.path);
            faults.push(
                Fault::error(&document.file, Some(1), message).hint("give one of them a `slug` of its own"),
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

/// Renders all bodies in parallel and resolves the links of front matter.
fn render(
    documents: &mut [Document],
    catalog: &Catalog,
    forms: &[Form],
    links: &mut Links,
    faults: &mut Vec<Fault>,
) {
    let rendered = in_parallel(documents, |document| {
        let place = Place { file: &document.file, path: &document.path };
        markdown::render(&document.body, document.body_line, place, catalog)
    });
    for (document, rendered) in documents.iter_mut().zip(rendered) {
        document.rendered = rendered;
        document.body = String::new();
        let file = document.file.clone();
        let path = document.path.clone();
        let place = Place { file: &file, path: &path };
        let note = |links: &mut Links, target: Option<_>, line| {
            links.found.extend(target.map(|target| (file.clone(), line, target)));
        };
        for (target, line) in std::mem::take(&mut document.rendered.links) {
            note(links, Some(target), line);
        }
        let matter = &mut document.front_matter;
        let hrefs = matter.cta.iter_mut().map(|button| &mut button.href);
        for href in hrefs.chain(matter.highlights.iter_mut().filter_map(|card| card.href.as_mut())) {
            let resolved = catalog.resolve(place, href);
            *href = resolved.href;
            note(links, resolved.target, 1);
        }
        if let Some(image) = &matter.image {
            let resolved = catalog.resolve(place, image);
            note(links, resolved.target, 1);
            document.image = Some(resolved.href).filter(|href| href.starts_with('/'));
        }
        if let Some(form) = &document.front_matter.form
            && !forms.iter().any(|known| known.name == form)
        {
            let fault = Fault::error(&file, Some(1), format!("there is no form `{form}`"));
            let names: Vec<&str> = forms.iter().map(|form| form.name).collect();
            let hint = closest(form, names.iter().copied()).map_or_else(
                || format!("the forms are {}", names.join(", ")),
                |name| format!("did you mean `{name}`?"),
            );
            faults.push(fault.hint(hint));
        }
    }
}

fn lay_out(document: &Document, layout: &Layout<'_>) -> Result<Page, Fault> {
    let options = layout.options;
    let path = encode(&document.path).into_owned();
    let twin_path = encode(&path::twin(&document.path)).into_owned();
    let url = format!("{}{path}", options.base_url);
    let html = layout.html(document)?;
    let mut listing = layout.listing(document).unwrap_or_default();
    if document.kind == Kind::Tags {
        listing = layout.tags.iter().map(tag_entry).collect();
    }
    let form = document
        .front_matter
        .form
        .as_ref()
        .and_then(|name| layout.forms.iter().find(|form| form.name == name));
    let markdown = twin::compose(&twin::Parts {
        document,
        url: &url,
        base_url: &options.base_url,
        updated: &document.updated.to_string(),
        listing: &listing,
        form: form.map(|form| form.markdown.as_str()),
        operator: &options.operator,
    });
    let mut link = format!("<{twin_path}>; rel=\"alternate\"; type=\"text/markdown\"");
    if document.kind == Kind::Home {
        for more in &options.home_links {
            link.push_str(", ");
            link.push_str(more);
        }
    }
    let mut html = File::new("text/html; charset=utf-8", Cache::Revalidate, html);
    let mut markdown = File::new("text/markdown; charset=utf-8", Cache::Revalidate, markdown);
    // What is missing has no address of its own that a link could name.
    if document.kind != Kind::NotFound {
        html = html.with_link(link);
        markdown = markdown.with_link(format!("<{url}>; rel=\"canonical\""));
    }
    Ok(Page { html: Arc::new(html), markdown: Arc::new(markdown), path, twin: twin_path })
}

fn tag_entry(tag: &Tag) -> super::layout::Listing {
    super::layout::Listing {
        title: format!("{} ({})", tag.name, tag.count),
        path: tag.path.clone(),
        description: None,
        date: None,
        date_human: None,
        author: None,
        tags: Vec::new(),
        reading_minutes: 0,
    }
}

/// What a missing page tells those who read Markdown: where everything is.
fn not_found_help(layout: &Layout<'_>) -> String {
    let base = &layout.options.base_url;
    let mut text = String::from("These are the main pages:\n\n");
    let home = layout.by_path.get("/").map(|at| &layout.documents[*at]);
    for page in home.into_iter().chain(layout.navigation().filter(|page| page.path != "/")) {
        let description = page.front_matter.description.as_deref().unwrap_or_default();
        text.push_str(&format!("- [{}]({base}{}): {description}\n", page.short_title(), encode(&page.path)));
    }
    text
}

/// The anchors of a page are all ids in it, those of the template included.
fn anchors(html: &File) -> HashSet<String> {
    let html = String::from_utf8_lossy(&html.identity().bytes);
    html.split(" id=\"")
        .skip(1)
        .filter_map(|part| part.split_once('"'))
        .map(|(id, _)| id.to_owned())
        .collect()
}

/// Looks at what only makes sense for the site as a whole.
fn check_whole(documents: &[Document], options: &Options, links: &mut Links, faults: &mut Vec<Fault>) {
    if !documents.iter().any(|document| document.path == "/") {
        faults.push(Fault::error("pages/", None, "there is no home page").hint("write `pages/index.md`"));
    }
    let hrefs = options.footer.iter().flat_map(|group| &group.links).map(|link| link.href.as_str());
    for href in hrefs.filter(|href| href.starts_with('/')) {
        links.found.push((
            String::from("frontdesk.toml"),
            1,
            Target { path: href.to_owned(), fragment: None },
        ));
    }
}

fn summaries(documents: &[Document], options: &Options) -> Vec<Summary> {
    let mut listed: Vec<&Document> =
        documents.iter().filter(|document| !document.front_matter.unlisted).collect();
    let rank = |document: &Document| match document.kind {
        Kind::Home => 0,
        Kind::Page => 1,
        Kind::Post => 2,
        _ => 3,
    };
    listed.sort_by(|a, b| {
        let key = |document: &Document| (rank(document), document.front_matter.nav.unwrap_or(i64::MAX));
        key(a).cmp(&key(b)).then(b.front_matter.date.cmp(&a.front_matter.date)).then(a.path.cmp(&b.path))
    });
    listed
        .into_iter()
        .map(|document| {
            let matter = &document.front_matter;
            let path = encode(&document.path).into_owned();
            let is_post = document.kind == Kind::Post;
            Summary {
                file: document.file.clone(),
                twin: encode(&path::twin(&document.path)).into_owned(),
                title: matter.title.clone(),
                description: matter.description.clone(),
                date: matter.date,
                updated: document.updated,
                author: matter.author.clone(),
                tags: matter.tags.clone(),
                is_post,
                is_generated: document.file.is_empty(),
                feed_html: if is_post { absolute_html(document, options) } else { String::new() },
                path,
            }
        })
        .collect()
}

/// The body for a feed reader, where a path or an anchor alone would lead nowhere.
fn absolute_html(document: &Document, options: &Options) -> String {
    let base = &options.base_url;
    markdown::rewrite_attributes(&document.rendered.html, |url, _| match url.as_bytes().first() {
        Some(b'/') if !url.starts_with("//") => format!("{base}{url}"),
        Some(b'#') => format!("{base}{}{url}", encode(&document.path)),
        _ => url.to_owned(),
    })
}
