//! Reads a site's folder: sources, assets and theme in, a [`Site`] out, with every fault found on the way.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use jiff::civil::Date;

use super::document::{Document, Kind, Tag, add_blog, read_documents, refuse_duplicates};
use super::file::{Cache, File, media_type};
use super::layout::Layout;
use super::link::{Catalog, Place, Target};
use super::markdown;
use super::path::{self, encode};
use super::theme::Theme;
use super::tree::{Asset, Tree, name_assets};
use super::{Entry, Form, Links, Options, Page, Site, Summary, in_parallel, twin};
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
    add_blog(&mut documents, options, &mut faults);
    refuse_duplicates(&documents, &mut faults);
    let catalog = Catalog {
        base_url: options.base_url.clone(),
        pages: documents.iter().map(|document| (document.file.clone(), document.path.clone())).collect(),
        assets: assets.iter().map(|asset| (asset.path.clone(), asset.fingerprinted.clone())).collect(),
    };
    let mut links = Links::default();
    render(&mut documents, &catalog, forms, &mut links, &mut faults);
    check_whole(&documents, options, &mut links, &mut faults);

    let environment = theme.templates(Arc::new(asset_urls), &mut faults);
    let pages = lay_out_all(&documents, &Layout::new(options, forms, environment, &documents), &mut faults);
    faults.sort_by(|a, b| (&a.place, a.line, &a.message).cmp(&(&b.place, b.line, &b.message)));
    faults.dedup();
    let sound = faults.iter().all(|fault| fault.severity != Severity::Error);
    let site = pages.filter(|_| sound).map(|(pages, not_found)| {
        let mut site = Site::new(&options.base_url, not_found);
        insert_files(&mut site, tree.verbatim, assets);
        for (document, page) in documents.iter().zip(pages) {
            links.anchors.insert(document.path.clone(), anchors(&page.html));
            site.insert_page(&document.path, page);
        }
        insert_aliases(&mut site, &documents);
        site.pages = summaries(&documents, options);
        site
    });
    Loaded { site, links, faults }
}

/// The operator's own files as they are, and every asset under both its names.
fn insert_files(site: &mut Site, verbatim: Vec<(String, Vec<u8>)>, assets: Vec<Asset>) {
    for (name, bytes) in verbatim {
        site.insert_resource(&format!("/{name}"), media_type(&name), bytes);
    }
    for asset in assets {
        let media_type = media_type(&asset.path);
        let named = File::new(media_type, Cache::Immutable, asset.bytes.clone());
        let name = path::decode(&asset.fingerprinted).map(std::borrow::Cow::into_owned).unwrap_or_default();
        site.entries.insert(name.into(), Entry::File(Arc::new(named)));
        site.insert_resource(&asset.path, media_type, asset.bytes);
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

/// All pages and the one for what is missing; none if a template fails.
fn lay_out_all(
    documents: &[Document],
    layout: &Layout<'_>,
    faults: &mut Vec<Fault>,
) -> Option<(Vec<Page>, Page)> {
    let mut missing = Document::generated(
        "/404/",
        Kind::NotFound,
        "There is nothing here",
        "The page may have moved, or the address may have been mistyped.",
        Date::default(),
    );
    missing.rendered.markdown = not_found_help(layout);
    let results = in_parallel(documents, |document| lay_out(document, layout));
    let mut pages = Vec::with_capacity(results.len() + 1);
    for result in results.into_iter().chain([lay_out(&missing, layout)]) {
        match result {
            Ok(page) => pages.push(page),
            Err(fault) => faults.push(fault),
        }
    }
    let not_found = pages.pop()?;
    (pages.len() == documents.len()).then_some((pages, not_found))
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
