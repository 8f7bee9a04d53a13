//! Reads a site's folder: sources, assets and theme in, a [`Site`] out, with every fault found on the way.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use jiff::civil::Date;

use super::document::{Document, Kind, Tag, add_blog, read_documents};
use super::file::{Cache, File, media_type};
use super::highlight::Highlighter;
use super::html::{ids, rewrite_links};
use super::layout::Layout;
use super::link::{Catalog, Place};
use super::markdown::{self, Remark};
use super::names::{Found, Names, check_links};
use super::path::{self, encode};
use super::theme::Theme;
use super::tree::{Asset, Tree, name_assets};
use super::{Entry, Form, Options, Page, Role, Site, Summary, in_parallel, twin};
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
    let mut faults = Vec::new();
    let tree = Tree::read(folder, &mut faults);
    let theme = Theme::new(tree.theme);
    let (mut documents, drafts) = read_documents(&tree.sources, &mut faults);
    let drafts: Vec<String> = drafts.iter().map(|folder| path::published(folder)).collect();
    let of_a_draft = |path: &str| drafts.iter().any(|folder| path.starts_with(folder));
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
    let mut links = render(&mut documents, &catalog, &mut faults);
    let missing = missing_page(&mut documents);
    links.extend(footer_links(options, &catalog));

    let custom_css = asset_urls.get("custom.css").cloned();
    let found_before = faults.len();
    let environment = theme.templates(Arc::new(asset_urls), &mut faults);
    let compiled = faults.len() == found_before;
    let layout = Layout::new(options, forms, environment, &documents, custom_css.as_deref());
    // Pages of a theme that does not compile would only repeat its faults.
    let pages = compiled.then(|| lay_out_all(&documents, &missing, &layout, &mut faults)).flatten();
    let anchors = pages.iter().flat_map(|(pages, _)| documents.iter().zip(pages));
    let anchors = anchors.map(|(document, page)| (document.path.clone(), anchors_of(&page.html))).collect();
    faults.extend(check_links(&links, &names, &anchors));
    faults.sort_by(|a, b| (&a.place, a.line, &a.message).cmp(&(&b.place, b.line, &b.message)));
    faults.dedup();

    let sound = faults.iter().all(|fault| fault.severity != Severity::Error);
    let site = pages.filter(|_| sound).map(|(pages, not_found)| {
        let mut site = Site::new(&options.base_url, not_found);
        insert_files(&mut site, tree.verbatim, assets);
        let summaries: Vec<_> = documents.iter().map(|document| summary(document, options)).collect();
        for ((document, page), summary) in documents.iter().zip(pages).zip(summaries) {
            site.insert_page(&document.path, page, summary);
        }
        insert_aliases(&mut site, &documents);
        site
    });
    Loaded { site, faults }
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
    verbatim: &[(String, Vec<u8>)],
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
fn footer_links(options: &Options, catalog: &Catalog) -> Vec<Found> {
    let place = Place { file: "", path: "/" };
    let links = options.footer.iter().flat_map(|group| &group.links);
    links
        .filter_map(|link| catalog.resolve(place, &link.href).target)
        .map(|target| Found { place: "frontdesk.toml".to_owned(), line: None, target })
        .collect()
}

/// The operator's own files as they are, and every asset under both its names.
fn insert_files(site: &mut Site, verbatim: Vec<(String, Vec<u8>)>, assets: Vec<Asset>) {
    for (name, bytes) in verbatim {
        let path = format!("/{name}");
        let file = Arc::new(File::new(media_type(&name), Cache::Revalidate, bytes));
        // A prebuilt page is also what its folder shows, as static servers have it.
        if let Some(folder) = path.strip_suffix("index.html").filter(|folder| folder.len() > 1) {
            let to = encode(folder).into_owned();
            site.entries.insert(folder.trim_end_matches('/').into(), Entry::Redirect(to));
            site.entries.insert(folder.into(), Entry::File(file.clone(), Role::Asset));
        }
        site.entries.insert(path.into(), Entry::File(file, Role::Asset));
    }
    for asset in assets {
        let media_type = media_type(&asset.path);
        let named = File::new(media_type, Cache::Immutable, asset.bytes.clone());
        let name = path::decode(&asset.fingerprinted).map(std::borrow::Cow::into_owned).unwrap_or_default();
        site.entries.insert(name.into(), Entry::File(Arc::new(named), Role::Asset));
        site.insert_file(&asset.path, media_type, asset.bytes, Role::Asset);
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

/// All pages and the one for what is missing; none if a template fails.
fn lay_out_all(
    documents: &[Document],
    missing: &Document,
    layout: &Layout<'_>,
    faults: &mut Vec<Fault>,
) -> Option<(Vec<Page>, Page)> {
    let results = in_parallel(documents, |document| lay_out(document, layout));
    let mut pages = Vec::with_capacity(results.len() + 1);
    for result in results.into_iter().chain([lay_out(missing, layout)]) {
        match result {
            Ok(page) => pages.push(page),
            Err(fault) => faults.push(fault),
        }
    }
    let not_found = pages.pop()?;
    (pages.len() == documents.len()).then_some((pages, not_found))
}

/// Renders all bodies in parallel and resolves the links of front matter. Returns all links.
fn render(documents: &mut [Document], catalog: &Catalog, faults: &mut Vec<Fault>) -> Vec<Found> {
    let mut links = Vec::new();
    let highlighter = Highlighter::default();
    let rendered = in_parallel(documents, |document| {
        let place = Place { file: &document.file, path: &document.path };
        markdown::render(&document.body, document.body_line, place, catalog, &highlighter)
    });
    for (document, mut rendered) in documents.iter_mut().zip(rendered) {
        let file = document.file.clone();
        for Remark { line, message, hint } in rendered.remarks.drain(..) {
            faults.push(Fault::warning(&file, Some(line), message).hint(hint));
        }
        let mut note = |target, line| links.push(Found { place: file.clone(), line, target });
        rendered.links.drain(..).for_each(|(target, line)| note(target, Some(line)));
        document.rendered = rendered;
        document.body = String::new();

        let (cta, highlights, image) =
            (document.line("cta"), document.line("highlights"), document.line("image"));
        let place = Place { file: &document.file, path: &document.path };
        let matter = &mut document.front_matter;
        let buttons = matter.cta.iter_mut().map(|button| (&mut button.href, cta));
        let cards = matter.highlights.iter_mut().filter_map(|card| Some((card.href.as_mut()?, highlights)));
        for (href, line) in buttons.chain(cards) {
            let resolved = catalog.resolve(place, href);
            *href = resolved.href;
            resolved.target.into_iter().for_each(|target| note(target, line));
        }
        if let Some(written) = &matter.image {
            let resolved = catalog.resolve(place, written);
            document.image = Some(match resolved.target {
                Some(_) => format!("{}{}", catalog.base_url, resolved.href),
                None => resolved.absolute,
            });
            resolved.target.into_iter().for_each(|target| note(target, image));
        }
    }
    links
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
    let help = if document.kind == Kind::NotFound { not_found_help(layout) } else { String::new() };
    let markdown = twin::compose(&twin::Parts {
        document,
        help: &help,
        url: &url,
        base_url: &options.base_url,
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
    for page in home.into_iter().chain(layout.navigation.iter().copied().filter(|page| page.path != "/")) {
        let description = page.front_matter.description.as_deref().unwrap_or_default();
        text.push_str(&format!("- [{}]({base}{}): {description}\n", page.short_title(), encode(&page.path)));
    }
    text
}

/// The anchors of a page are all ids in it, those of the template included.
fn anchors_of(html: &File) -> HashSet<String> {
    ids(&String::from_utf8_lossy(&html.identity().bytes)).map(str::to_owned).collect()
}

/// What guides, sitemaps and the feed say of a page; none if it is not listed.
fn summary(document: &Document, options: &Options) -> Option<Summary> {
    let matter = &document.front_matter;
    let is_post = document.kind == Kind::Post;
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
        feed_html: if is_post { absolute_html(document, options) } else { String::new() },
    })
}

/// The body for a feed reader, where a path or an anchor alone would lead nowhere.
fn absolute_html(document: &Document, options: &Options) -> String {
    let base = &options.base_url;
    rewrite_links(&document.rendered.html, |url, _| match url.as_bytes().first() {
        Some(b'/') if !url.starts_with("//") => format!("{base}{url}"),
        Some(b'#') => format!("{base}{}{url}", encode(&document.path)),
        _ => url.to_owned(),
    })
}
