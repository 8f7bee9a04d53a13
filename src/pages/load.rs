//! Reads a site's folder: sources, assets and theme in, a [`Site`] out, with every fault found on the way.
//!
//! What a load finds out is kept in [`Previous`], each result with all that it was made of, so that the next load makes anew only
//! what would come out differently.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use blake3::Hash;
use jiff::civil::Date;

use super::blob::Blob;
use super::content::Content;
use super::document::{Document, Kind, Parsed, Tag, add_blog, folders_above, read_documents};
use super::file::{Cache, File, media_type};
use super::highlight::Highlighter;
use super::html::{ids, rewrite_links};
use super::layout::{Layout, Listing, Shared, Sheet, View};
use super::link::{Catalog, Place, Target};
use super::markdown::{self, Remark};
use super::names::{Found, Names, check_links};
use super::path::{self, encode};
use super::theme::{Compiled, Theme};
use super::tree::{Asset, Known, Source, Stale, Tree, name_assets};
use super::{Entry, FEED_LENGTH, Form, Options, Page, Role, Site, Summary, in_parallel, twin};
use crate::fault::{Fault, Severity, closest};

/// A loaded site with what was noticed while loading it.
#[derive(Debug)]
pub struct Loaded {
    /// None if a fault keeps the site from being served.
    pub site: Option<Site>,
    /// Everything that is not as it should be, by place.
    pub faults: Vec<Fault>,
}

/// Loads the site in `folder`. Reports every fault at once; where one of them is an error there is no site.
///
/// `pages/**.md` become pages, `posts/**.md` the blog, `assets/**` and what lies beside pages become assets with
/// fingerprinted names, `static/**` is served as it is, `theme/**` replaces files of the built-in theme.
pub fn load(folder: &Path, options: &Options, forms: &[Form]) -> Loaded {
    Previous::default().load(folder, options, forms)
}

/// What earlier loads of a folder have found out, for the next one. It holds little beside the bodies that the last site has, too.
#[derive(Debug, Default)]
pub struct Previous {
    files: Known,
    parsed: HashMap<String, Arc<Parsed>>,
    templates: Option<Arc<Compiled>>,
    catalog: Catalog,
    /// By source file.
    contents: HashMap<String, Kept>,
    shared: Option<Arc<Shared>>,
    /// By path.
    pages: HashMap<String, LaidOut>,
}

/// A rendered body with what it was made of, beside the catalog.
#[derive(Debug)]
struct Kept {
    hash: Hash,
    path: String,
    content: Content,
}

/// A page with what it was made of.
#[derive(Debug)]
struct LaidOut {
    shared: Arc<Shared>,
    document: Document,
    view: View,
    page: Page,
    anchors: Arc<HashSet<Box<str>>>,
}

impl Previous {
    /// The same as [`load()`] with the same result, but what has not changed since the last time is neither read nor made again.
    pub fn load(&mut self, folder: &Path, options: &Options, forms: &[Form]) -> Loaded {
        // A file may change while we look. The second time everything is read at once, and then nothing can be out of date.
        self.attempt(folder, options, forms).unwrap_or_else(|Stale| {
            self.files.distrust();
            self.attempt(folder, options, forms).unwrap_or_else(|Stale| Loaded {
                site: None,
                faults: vec![Fault::error("pages/", None, "the files change while they are read")],
            })
        })
    }

    fn attempt(&mut self, folder: &Path, options: &Options, forms: &[Form]) -> Result<Loaded, Stale> {
        let mut faults = Vec::new();
        let tree = Tree::read(folder, &mut self.files, &mut faults);
        let theme = Theme::new(tree.theme);
        let (mut documents, drafts) = read_documents(&tree.sources, &mut self.parsed, &mut faults)?;
        let drafts: HashSet<String> = drafts.iter().map(|folder| path::published(folder)).collect();
        let of_a_draft = |path: &str| folders_above(path).any(|folder| drafts.contains(folder));
        let published = tree.assets.iter().filter(|(path, _)| !of_a_draft(path));
        let (assets, asset_urls) = name_assets(published, &theme);
        add_blog(&mut documents, options, &mut faults);
        check_documents(&mut documents, &theme, options, forms, &mut faults);
        let names = name_everything(&documents, &tree.verbatim, &assets, options, &mut faults);
        let catalog = Catalog {
            base_url: options.base_url.clone(),
            pages: documents
                .iter()
                .filter(|document| !document.file.is_empty())
                .map(|document| (document.file.clone(), document.path.clone()))
                .collect(),
            assets: assets.iter().map(|asset| (asset.path.clone(), asset.fingerprinted.clone())).collect(),
        };
        self.render(&mut documents, &tree.sources, catalog, &mut faults)?;
        let links_of_matter: Vec<_> =
            documents.iter_mut().map(|document| resolve_front_matter(document, &self.catalog)).collect();
        let links_of_footer = footer_links(options, &self.catalog);
        let (files, contents): (Vec<String>, Vec<Content>) =
            documents.iter().map(|document| (document.file.clone(), document.content.clone())).unzip();
        let links = links(&files, &contents, &links_of_matter, &links_of_footer);
        let missing = missing_page(&mut documents);

        let custom_css = asset_urls.get("custom.css").cloned();
        let templates = theme.compiled(asset_urls, self.templates.as_ref());
        faults.extend(templates.faults.iter().cloned());
        // Pages of a theme that does not compile would only repeat its faults.
        let pages = if templates.faults.is_empty() {
            self.templates = Some(templates.clone());
            let shared = Shared::new(
                &documents,
                options,
                forms,
                templates,
                custom_css.as_deref(),
                self.shared.as_ref(),
            );
            self.shared = Some(shared.clone());
            self.lay_out(&documents, &missing, &shared, &mut faults)
        } else {
            None
        };
        let anchors = pages.iter().flat_map(|_| documents.iter()).filter_map(|document| {
            let laid_out = self.pages.get(&document.path)?;
            Some((document.path.as_str(), &*laid_out.anchors))
        });
        faults.extend(check_links(&links, &names, &anchors.collect()));
        faults.sort_by(|a, b| (&a.place, a.line, &a.message).cmp(&(&b.place, b.line, &b.message)));
        faults.dedup();

        let sound = faults.iter().all(|fault| fault.severity != Severity::Error);
        let site = pages.filter(|_| sound).map(|(pages, not_found)| {
            let mut site = Site::new(&options.base_url, not_found);
            site.entries.reserve(8 * pages.len() + tree.verbatim.len() + 2 * assets.len());
            insert_files(&mut site, tree.verbatim, assets);
            let mut posts = 0;
            for (document, page) in documents.iter().zip(pages) {
                let summary = summary(document, options, &mut posts);
                site.insert_page(&document.path, page, summary);
            }
            insert_aliases(&mut site, &documents);
            site
        });
        Ok(Loaded { site, faults })
    }

    /// Gives every document its content: rendered now, in parallel, or as it was where source, path and what its links lead to are
    /// the same.
    fn render(
        &mut self,
        documents: &mut [Document],
        sources: &[Source],
        catalog: Catalog,
        faults: &mut Vec<Fault>,
    ) -> Result<(), Stale> {
        let sources: HashMap<&str, &Source> =
            sources.iter().map(|source| (source.file.as_str(), source)).collect();
        let highlighter = Highlighter::default();
        let leads_the_same = catalog == self.catalog;
        // What else it is asked is told by the links.
        let has_same_base = catalog.base_url == self.catalog.base_url;
        let contents = in_parallel(documents, |document| {
            let Some(source) = sources.get(document.file.as_str()) else { return Ok(Content::default()) };
            let place = Place { file: &document.file, path: &document.path };
            let kept = self.contents.get(&document.file);
            let same = kept.filter(|kept| {
                kept.hash == source.hash
                    && kept.path == document.path
                    && (leads_the_same
                        || (has_same_base && kept.content.facts.consulted.holds(place, &catalog)))
            });
            if let Some(same) = same {
                return Ok(same.content.clone());
            }
            let text = source.text()?;
            let blocks = kept.map(|kept| kept.content.blocks()).unwrap_or_default();
            let body = &text[document.body_at..];
            let rendered = markdown::render(body, document.body_line, place, &catalog, &highlighter, &blocks);
            Ok(Content::from(rendered))
        });
        for (document, content) in documents.iter_mut().zip(contents) {
            document.content = content?;
            for Remark { line, message, hint } in &document.content.facts.remarks {
                faults.push(Fault::warning(&document.file, Some(*line), message).hint(*hint));
            }
        }
        self.catalog = catalog;
        self.contents = documents
            .iter()
            .filter_map(|document| {
                let kept = Kept {
                    hash: sources.get(document.file.as_str())?.hash,
                    path: document.path.clone(),
                    content: document.content.clone(),
                };
                Some((document.file.clone(), kept))
            })
            .collect();
        Ok(())
    }

    /// All pages and the one for what is missing; none if a template fails. Afterwards these are the previous ones.
    fn lay_out(
        &mut self,
        documents: &[Document],
        missing: &Document,
        shared: &Arc<Shared>,
        faults: &mut Vec<Fault>,
    ) -> Option<(Vec<Page>, Page)> {
        let layout = Layout::new(documents, shared);
        let all: Vec<&Document> = documents.iter().chain([missing]).collect();
        // None: as it was.
        let new = in_parallel(&all, |document| {
            let view = layout.view(document);
            let same = self.pages.get(&document.path).filter(|before| {
                Arc::ptr_eq(&before.shared, shared)
                    && before.view == view
                    && is_shown_like(document, &before.document)
            });
            if same.is_some() { Ok(None) } else { lay_out(document, view, shared).map(Some) }
        });
        let mut laid_out = HashMap::with_capacity(all.len());
        let mut pages = Vec::with_capacity(all.len());
        for (document, new) in all.iter().zip(new) {
            let page = match new {
                Ok(Some(new)) => Ok(new),
                // Of two that claim one path, which is a fault that has been told, the first has taken what there was.
                Ok(None) => match self.pages.remove(&document.path) {
                    Some(same) => Ok(same),
                    None => lay_out(document, layout.view(document), shared),
                },
                Err(fault) => Err(fault),
            };
            let mut page = match page {
                Ok(page) => page,
                Err(fault) => {
                    faults.push(fault);
                    continue;
                }
            };
            if let Some(kept) = self.contents.get_mut(&document.file) {
                // The text is that of the page. What is known of it is of now: the same text may stand on other lines.
                let Content { html, markdown, .. } = page.document.content;
                page.document.content = Content { html, markdown, facts: document.content.facts.clone() };
                kept.content = page.document.content.clone();
            }
            pages.push(page.page.clone());
            laid_out.insert(document.path.clone(), page);
        }
        self.pages = laid_out;
        let is_whole = pages.len() == all.len();
        let not_found = pages.pop()?;
        is_whole.then_some((pages, not_found))
    }
}

/// Whether templates see the same of both.
fn is_shown_like(document: &Document, other: &Document) -> bool {
    document.content == other.content
        && document.path == other.path
        && document.kind == other.kind
        && document.front_matter == other.front_matter
        && document.updated == other.updated
        && document.image == other.image
}

/// Faults that a document has by itself, or with the theme and the forms. A template that is not there falls back to its kind's.
fn check_documents(
    documents: &mut [Document],
    theme: &Theme,
    options: &Options,
    forms: &[Form],
    faults: &mut Vec<Fault>,
) {
    if !documents.iter().any(|document| document.path == "/") {
        faults.push(Fault::error("pages/", None, "there is no home page").hint("write `pages/index.md`"));
    }
    let place_in_order = |document: &Document| {
        let rank = match document.kind {
            Kind::Home => 0,
            Kind::Page => 1,
            Kind::Post => 2,
            _ => 3,
        };
        let matter = &document.front_matter;
        (rank, matter.nav.unwrap_or(i64::MAX), std::cmp::Reverse(matter.date), document.path.clone())
    };
    documents.sort_by_cached_key(place_in_order);
    for document in documents {
        let matter = &document.front_matter;
        for (key, date) in [("date", matter.date), ("updated", matter.updated)] {
            // Somewhere on earth it is tomorrow already.
            if date.is_some_and(|date| date > options.today.tomorrow().unwrap_or(options.today)) {
                let fault = Fault::warning(
                    document.place(),
                    document.line(key),
                    format!("`{key}` is ahead of today"),
                );
                faults.push(fault.hint("the page is published all the same; `draft: true` holds it back"));
            }
        }
        if document.kind == Kind::Post && matter.date.is_none() {
            let fault = Fault::warning(document.place(), Some(1), "the post has no `date`");
            faults.push(fault.hint(
                "posts are listed by date; it may also begin the file's name, as in 2026-01-15-hello.md",
            ));
        }
        let template = document.template().to_owned();
        if !theme.has_template(&template) {
            let message =
                format!("there is no template `{template}.html`, so `{}.html` is used", document.kind.name());
            let fault = Fault::warning(document.place(), document.line("template"), message);
            faults.push(fault.hint("templates of your own go into theme/ in the site's folder"));
            document.front_matter.template = None;
        }
        let Some(form) = &document.front_matter.form else { continue };
        if !forms.iter().any(|known| known.name == form) {
            let fault =
                Fault::error(document.place(), document.line("form"), format!("there is no form `{form}`"));
            let names: Vec<&str> = forms.iter().map(|form| form.name).collect();
            let hint = match closest(form, names.iter().copied()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("the forms are {}", names.join(", ")),
            };
            faults.push(fault.hint(hint));
        } else if options.operator.email.is_empty() {
            let message = "the form needs `operator.email` in frontdesk.toml";
            let fault = Fault::error(document.place(), document.line("form"), message);
            faults
                .push(fault.hint(
                    "it is shown where the form cannot be sent: without JavaScript, or after an error",
                ));
        }
    }
}

/// Every path and whose it is. Two that want the same are a fault.
fn name_everything(
    documents: &[Document],
    verbatim: &[(String, Blob)],
    assets: &[Asset],
    options: &Options,
    faults: &mut Vec<Fault>,
) -> Names {
    let mut names = Names::default();
    for path in &options.reserved {
        names.reserve(path);
    }
    for (name, _) in verbatim {
        let place = format!("static/{name}");
        names.file(&format!("/{name}"), &place, faults);
        if let Some(folder) = name.strip_suffix("index.html").filter(|folder| !folder.is_empty()) {
            names.claim(&format!("/{folder}"), &place, None, faults);
            names.aside(format!("/{}", folder.trim_end_matches('/')));
        }
    }
    for asset in assets {
        names.claim(&asset.path, asset.path.trim_start_matches('/'), None, faults);
    }
    for document in documents {
        let line = document.line("slug");
        if names.claim(&document.path, document.place(), line, faults) {
            names.claim(&path::twin(&document.path), document.place(), line, faults);
        }
        path::twins(&document.path)
            .into_iter()
            .chain(path::redirects(&document.path))
            .for_each(|name| names.aside(name));
    }
    for document in documents {
        let mut own = HashSet::new();
        for alias in &document.front_matter.aliases {
            let alias = path::join("/", alias);
            if alias.trim_end_matches('/') == document.path.trim_end_matches('/')
                || !own.insert(alias.clone())
            {
                continue;
            }
            names.claim(&alias, document.place(), document.line("aliases"), faults);
            names.aside(alias.trim_end_matches('/').to_owned());
        }
    }
    names
}

/// The footer's links, which stand in the configuration.
fn footer_links(options: &Options, catalog: &Catalog) -> Vec<Target> {
    let place = Place { file: "", path: "/" };
    let links = options.footer.iter().flat_map(|group| &group.links);
    links.filter_map(|link| catalog.resolve(place, &link.href).target).collect()
}

/// All links with the places where they stand.
fn links<'a>(
    files: &'a [String],
    contents: &'a [Content],
    of_matter: &'a [Vec<(Target, Option<usize>)>],
    of_footer: &'a [Target],
) -> Vec<Found<'a>> {
    let bodies = files.iter().zip(contents).flat_map(|(place, content)| {
        content.facts.links.iter().map(|(target, line)| Found { place, line: Some(*line), target })
    });
    let matter = files
        .iter()
        .zip(of_matter)
        .flat_map(|(place, links)| links.iter().map(|(target, line)| Found { place, line: *line, target }));
    let footer = of_footer.iter().map(|target| Found { place: "frontdesk.toml", line: None, target });
    bodies.chain(matter).chain(footer).collect()
}

/// The operator's own files as they are, and every asset under both its names.
fn insert_files(site: &mut Site, verbatim: Vec<(String, Blob)>, assets: Vec<Asset>) {
    let file = |media_type, cache, blob: &Blob| {
        Arc::new(File::with_hash(media_type, cache, blob.bytes.clone(), blob.hash))
    };
    for (name, blob) in verbatim {
        let path = format!("/{name}");
        let file = file(media_type(&name), Cache::Revalidate, &blob);
        // A prebuilt page is also what its folder shows, as static servers have it.
        if let Some(folder) = path.strip_suffix("index.html").filter(|folder| folder.len() > 1) {
            let to = encode(folder).into_owned();
            site.entries.insert(folder.trim_end_matches('/').into(), Entry::Redirect(to));
            site.entries.insert(folder.into(), Entry::File(file.clone(), Role::Asset));
        }
        site.entries.insert(path.into(), Entry::File(file, Role::Asset));
    }
    for Asset { path, fingerprinted, blob } in assets {
        let media_type = media_type(&path);
        let name = path::decode(&fingerprinted).map(std::borrow::Cow::into_owned).unwrap_or_default();
        let named = file(media_type, Cache::Immutable, &blob);
        site.entries.insert(name.into(), Entry::File(named, Role::Asset));
        let plain = || Entry::File(file(media_type, Cache::Revalidate, &blob), Role::Asset);
        site.entries.entry(path.into()).or_insert_with(plain);
    }
}

/// Former paths, with and without their slash, lead to the page; none displaces anything.
fn insert_aliases(site: &mut Site, documents: &[Document]) {
    for document in documents {
        for alias in &document.front_matter.aliases {
            let alias = path::join("/", alias);
            for name in [alias.trim_end_matches('/'), &alias] {
                let to = || Entry::Redirect(encode(&document.path).into_owned());
                site.entries.entry(name.into()).or_insert_with(to);
            }
        }
    }
}

/// The page for what is missing: the operator's own `pages/404.md`, which is then no page of its own, or ours.
fn missing_page(documents: &mut Vec<Document>) -> Document {
    let own = documents.iter().position(|document| document.path == "/404/");
    let Some(at) = own else {
        let title = "There is nothing here";
        let description = "The page may have moved, or the address may have been mistyped.";
        return Document::generated("/404/", Kind::NotFound, title, description, Date::default());
    };
    Document { kind: Kind::NotFound, ..documents.remove(at) }
}

/// Resolves the links of a document's front matter, and returns them with the lines on which they stand.
fn resolve_front_matter(document: &mut Document, catalog: &Catalog) -> Vec<(Target, Option<usize>)> {
    let mut links = Vec::new();
    let (cta, highlights, image) =
        (document.line("cta"), document.line("highlights"), document.line("image"));
    let place = Place { file: &document.file, path: &document.path };
    let matter = &mut document.front_matter;
    let buttons = matter.cta.iter_mut().map(|button| (&mut button.href, cta));
    let cards = matter.highlights.iter_mut().filter_map(|card| Some((card.href.as_mut()?, highlights)));
    for (href, line) in buttons.chain(cards) {
        let resolved = catalog.resolve(place, href);
        *href = resolved.href;
        links.extend(resolved.target.map(|target| (target, line)));
    }
    if let Some(written) = &matter.image {
        let resolved = catalog.resolve(place, written);
        document.image = Some(match resolved.target {
            Some(_) => format!("{}{}", catalog.base_url, resolved.href),
            None => resolved.absolute,
        });
        links.extend(resolved.target.map(|target| (target, image)));
    }
    links
}

fn lay_out(document: &Document, view: View, shared: &Arc<Shared>) -> Result<LaidOut, Fault> {
    let sheet = Sheet { shared, document, view: &view };
    let options = shared.options();
    let path = encode(&document.path).into_owned();
    let twin_path = encode(&path::twin(&document.path)).into_owned();
    let url = format!("{}{path}", options.base_url);
    let html = sheet.html()?;
    let tags: Vec<Listing> =
        if document.kind == Kind::Tags { shared.tags().iter().map(tag_entry).collect() } else { Vec::new() };
    let form = document.front_matter.form.as_ref().and_then(|name| shared.form(name));
    let markdown = twin::compose(&twin::Parts {
        document,
        help: &view.help,
        url: &url,
        base_url: &options.base_url,
        listing: if document.kind == Kind::Tags { &tags } else { &view.listing },
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
    let anchors = anchors_of(&html);
    let mut html = File::new("text/html; charset=utf-8", Cache::Revalidate, html);
    let mut markdown = File::new("text/markdown; charset=utf-8", Cache::Revalidate, markdown);
    // What is missing has no address of its own that a link could name.
    if document.kind != Kind::NotFound {
        html = html.with_link(link);
        markdown = markdown.with_link(format!("<{url}>; rel=\"canonical\""));
    }
    let content = document.content.within(&html.identity().bytes, &markdown.identity().bytes);
    let page = Page { html: Arc::new(html), markdown: Arc::new(markdown), path, twin: twin_path };
    let document = Document { content, ..document.clone() };
    Ok(LaidOut { shared: shared.clone(), document, view, page, anchors: Arc::new(anchors) })
}

fn tag_entry(tag: &Tag) -> Listing {
    Listing {
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

/// The anchors of a page are all ids in it, those of the template included.
fn anchors_of(html: &str) -> HashSet<Box<str>> {
    ids(html).map(Into::into).collect()
}

/// What guides, sitemaps and the feed say of a page; none if it is not listed. `posts` counts those that came before.
fn summary(document: &Document, options: &Options, posts: &mut usize) -> Option<Summary> {
    let matter = &document.front_matter;
    let is_post = document.kind == Kind::Post;
    *posts += usize::from(is_post && !matter.unlisted);
    let is_fed = is_post && *posts <= FEED_LENGTH;
    (!matter.unlisted).then(|| Summary {
        path: encode(&document.path).into_owned(),
        twin: encode(&path::twin(&document.path)).into_owned(),
        title: matter.title.clone(),
        description: matter.description.clone(),
        date: matter.date,
        updated: document.updated,
        author: matter.author.clone(),
        tags: matter.tags.clone(),
        is_post,
        is_generated: document.file.is_empty(),
        feed_html: if is_fed { absolute_html(document, options) } else { String::new() },
    })
}

/// The body for a feed reader, where a path or an anchor alone would lead nowhere.
fn absolute_html(document: &Document, options: &Options) -> String {
    let base = &options.base_url;
    rewrite_links(&document.content.html, |url, _| match url.as_bytes().first() {
        Some(b'/') if !url.starts_with("//") => format!("{base}{url}"),
        Some(b'#') => format!("{base}{}{url}", encode(&document.path)),
        _ => url.to_owned(),
    })
}

#[cfg(test)]
mod tests;
