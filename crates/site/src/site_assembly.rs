//! Composes a site from its pages, assets, files in `static/` and redirects from pages' former paths.

use std::sync::Arc;

use http::HeaderValue;
use http::header::CONTENT_SECURITY_POLICY;

use super::document::{Document, PageKind};
use super::file::{Blob, Cache, File, cors_header};
use super::image_variants::insert_variants;
use super::language::Language;
use super::link_rewriting::rewrite_links;
use super::markdown_twin;
use super::options::PagesOptions;
use super::page_bodies::{Bodies, Content};
use super::path::{self, encode};
use super::rendered_pages::LaidOutPage;
use super::rules::robots_rules::RobotsRules;
use super::site::{FEED_LENGTH, Page, PageSummary, Redirect, Role, Site, SiteEntry};
use super::site_files::Asset;
use super::structure::{Structure, StructureInputs};
use super::translations::LanguageLink;
use frontdesk_publish::media_type::{encoded_media_type, folder_of, loader_folders, media_type_of};

/// Composes the site, without a build's files and generated resources. `pages` are in the order of
/// [`Structure::all`]. `verbatim` are the files in `static/`, by their names relative to that folder. Pages
/// that the `robots.txt` among them forbids to all crawlers are in no list for programs.
pub(super) fn compose_site(
    structure: &Structure,
    pages: &[Arc<LaidOutPage>],
    bodies: &Bodies,
    verbatim: &[(String, Blob)],
) -> Site {
    let StructureInputs { options, languages, sources, .. } = &*structure.inputs;
    let documents = structure.documents();
    let (pages, without_url) = pages.split_at(documents.len());
    let mut site = new_site(options, without_url.iter().map(|page| page.page.clone()).collect(), languages);
    (site.scheduled, site.drafts) = (sources.scheduled.clone(), sources.drafts.clone());
    site.expired.clone_from(&sources.expired);
    site.languages.clone_from(languages);
    site.entries.reserve(8 * pages.len() + verbatim.len() + 2 * structure.assets.len());
    insert_variants(
        &mut site,
        structure.assets.iter().filter_map(|asset| {
            Some((asset, structure.catalog.images.get(&asset.path)?.variants.as_slice()))
        }),
    );
    let robots = verbatim.iter().find(|(name, _)| name == "robots.txt");
    let robots = robots.map(|(_, blob)| RobotsRules::parse(&blob.bytes)).unwrap_or_default();
    insert_files(&mut site, verbatim, &structure.assets);
    let mut posts = vec![0; languages.len()];
    for (document, page) in documents.iter().zip(pages) {
        let translations = translation_paths(&page.view.translations, languages);
        let (body, posts) = (bodies.of(document), &mut posts[document.language]);
        let summary = if robots.forbids(&document.path) {
            None
        } else {
            summarize(document, body, options, translations, posts)
        };
        site.insert_page(&document.path, page.page.clone(), summary);
    }
    insert_aliases(&mut site, documents);
    site
}

/// The content security policy of a drawing (SVG): its own styles, which programs that draw diagrams write
/// into the file, apply, but it runs no inline scripts and loads nothing from other hosts.
const DRAWING_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                              font-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// Inserts the files from `static/`, and each asset at two paths: the fingerprinted path, at which caches may
/// keep it, and the plain path, unless a file from `static/` has that path. `static/x/index.html` is also
/// served at `/x/`, to which `/x` redirects, but `static/index.html` is not served at `/`. SVG files get
/// [`DRAWING_POLICY`], files in `/.well-known/` the header of [`cors_header`], and compressed files the
/// content coding of [`encoded_media_type`].
fn insert_files(site: &mut Site, verbatim: &[(String, Blob)], assets: &[Asset]) {
    let of_assets = assets.iter().map(|asset| asset.path.trim_start_matches('/'));
    let loaders = loader_folders(verbatim.iter().map(|(name, _)| &**name).chain(of_assets));
    let file = |path: &str, cache, blob: &Blob| {
        let name = path.trim_start_matches('/');
        let encoded = encoded_media_type(name, &blob.bytes, loaders.contains(folder_of(name)));
        let media_type = encoded.map_or_else(|| media_type_of(name, &blob.bytes), |(kind, _)| kind);
        let file = File::from_blob(media_type, cache, blob.clone());
        let mut file = encoded.map(|(_, coding)| coding).into_iter().fold(file, File::encoded_as);
        file.headers.extend(cors_header(path));
        if media_type == "image/svg+xml" {
            file.headers.push((CONTENT_SECURITY_POLICY, HeaderValue::from_static(DRAWING_POLICY)));
        }
        Arc::new(file)
    };
    for (name, blob) in verbatim {
        let path = format!("/{name}");
        let file = file(&path, Cache::Revalidate, blob);
        // Like a static file server, also serve `/x/index.html` at `/x/`.
        if let Some(folder) = path.strip_suffix("/index.html").filter(|folder| !folder.is_empty()) {
            let served = format!("{folder}/");
            let redirect = Redirect::permanent(encode(&served));
            site.entries.insert(folder.into(), SiteEntry::Redirect(redirect));
            site.entries.insert(served.into(), SiteEntry::File(file.clone(), Role::Asset));
        }
        site.entries.insert(path.into(), SiteEntry::File(file, Role::Asset));
    }
    for Asset { path, fingerprinted, blob, .. } in assets {
        let name = path::decode(fingerprinted).unwrap_or_default();
        let named = file(path, Cache::Immutable, blob);
        site.entries.insert(name.into(), SiteEntry::File(named, Role::Asset));
        let plain = || SiteEntry::File(file(path, Cache::Revalidate, blob), Role::Asset);
        site.entries.entry(path.as_str().into()).or_insert_with(plain);
    }
}

/// Inserts redirects from pages' former paths, unless a path is in use. A former path with a trailing slash
/// also redirects without the slash. A relative one also redirects from the root, as in Zola, unless that
/// path is in use. If several pages have the same former path, the first one is the target.
fn insert_aliases(site: &mut Site, documents: &[Document]) {
    let mut insert = |document: &Document, alias: &str| {
        for name in [alias.trim_end_matches('/'), alias] {
            let to = || SiteEntry::Redirect(Redirect::permanent(encode(&document.path)));
            site.entries.entry(name.into()).or_insert_with(to);
        }
    };
    let aliases = documents
        .iter()
        .flat_map(|document| document.front_matter.aliases.iter().map(move |alias| (document, alias)));
    for (document, alias) in aliases.clone() {
        insert(document, &document.alias_path(alias));
    }
    for (document, alias) in aliases.filter(|(_, alias)| !alias.starts_with('/')) {
        insert(document, &path::resolve_relative("/", alias));
    }
}

/// A site without entries. `pages` are the pages without a URL: the 404 page of each language, followed by
/// the pages that confirmation links open.
fn new_site(options: &PagesOptions, mut pages: Vec<Page>, languages: &[Language]) -> Site {
    let confirm_pages = pages.split_off(languages.len());
    let translated = pages.split_off(1);
    let mut site = Site::new(options, pages.swap_remove(0));
    for (language, page) in languages.iter().skip(1).zip(translated) {
        site.set_not_found(&language.prefix, page);
    }
    site.confirm_pages = confirm_pages;
    site
}

/// The path of each translation, with the index of its language. Leaves out languages that the site lacks.
fn translation_paths(links: &[LanguageLink], languages: &[Language]) -> Vec<(usize, String)> {
    let index = |link: &LanguageLink| languages.iter().position(|language| language.tag == link.language);
    links.iter().filter_map(|link| Some((index(link)?, link.path.clone()))).collect()
}

/// A page's summary, or `None` for an unlisted or unpublished page. Increments `posts`, the number of listed
/// posts so far in the page's language, for a listed post. The first [`FEED_LENGTH`] posts get `feed_html`.
fn summarize(
    document: &Document,
    content: &Content,
    options: &PagesOptions,
    translations: Vec<(usize, String)>,
    posts: &mut usize,
) -> Option<PageSummary> {
    let matter = &document.front_matter;
    let is_post = document.kind == PageKind::Post;
    let is_listed = !matter.unlisted && document.unpublished.is_none();
    *posts += usize::from(is_post && is_listed);
    let is_fed = is_post && *posts <= FEED_LENGTH;
    let base = &options.base_url;
    let url = format!("{base}{}", encode(&document.path));
    let absolute = |link: &str, _| markdown_twin::make_absolute(link, base, &url);
    is_listed.then(|| PageSummary {
        path: encode(&document.path).into_owned(),
        twin: encode(&path::twin_path(&document.path)).into_owned(),
        title: matter.title.clone(),
        description: matter.description.clone(),
        date: matter.date,
        dated_at: matter.dated_at,
        updated: document.updated,
        author: matter.author.clone(),
        tags: matter.tags.clone(),
        is_post,
        is_generated: document.file.is_empty(),
        language: document.language,
        translations,
        feed_html: if is_fed { rewrite_links(&content.html, absolute) } else { String::new() },
    })
}
