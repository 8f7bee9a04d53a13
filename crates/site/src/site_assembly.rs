//! Composes a site from its pages, assets, files in `static/` and redirects from pages' former paths.

use std::sync::Arc;

use blake3::Hash;
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
use frontdesk_process::memo::{ByPointer, Memo};
use frontdesk_publish::media_type::{encoded_media_type, folder_of, loader_folders, media_type_of};

/// The summaries of the last load's pages, with their inputs.
pub(super) type SummaryCache = Memo<SummaryInputs, Arc<Vec<PageSummary>>>;

/// The inputs of the summaries of all pages.
#[derive(Debug, PartialEq)]
pub(super) struct SummaryInputs {
    structure: ByPointer<Structure>,
    /// The hash of the `robots.txt` in `static/`, if there is one.
    robots: Option<Hash>,
    /// The bodies of the posts in the feeds.
    feed: Vec<Content>,
}

/// Composes the site, without a build's files and generated resources. `pages` are in the order of
/// [`Structure::all`]. `verbatim` are the files in `static/`, by their names relative to that folder. Pages
/// that the `robots.txt` among them forbids to all crawlers are in no list for programs.
pub(super) fn compose_site(
    structure: &Arc<Structure>,
    pages: &[Arc<LaidOutPage>],
    bodies: &Bodies,
    verbatim: &[(String, Blob)],
    summaries: &mut SummaryCache,
) -> Site {
    let StructureInputs { options, languages, sources, .. } = &*structure.inputs;
    let documents = structure.documents();
    let (pages, without_url) = pages.split_at(documents.len());
    let mut site = new_site(options, without_url.iter().map(|page| page.page.clone()).collect(), languages);
    (site.scheduled, site.drafts) = (sources.scheduled.clone(), sources.drafts.clone());
    site.expired.clone_from(&sources.expired);
    site.languages.clone_from(languages);
    site.entries.reserve(pages.len() + verbatim.len() + 2 * structure.assets.len());
    insert_variants(
        &mut site,
        structure.assets.iter().filter_map(|asset| {
            Some((asset, structure.catalog.images.get(&asset.path)?.variants.as_slice()))
        }),
    );
    insert_files(&mut site, verbatim, &structure.assets);
    for (document, page) in documents.iter().zip(pages) {
        site.insert_page(&document.path, page.page.clone());
    }
    site.pages = summarize_all(structure, pages, bodies, verbatim, summaries);
    insert_aliases(&mut site, documents);
    site
}

/// The summaries of the listed pages, in the order of `pages`. Those of the last load, if their inputs are
/// the same.
fn summarize_all(
    structure: &Arc<Structure>,
    pages: &[Arc<LaidOutPage>],
    bodies: &Bodies,
    verbatim: &[(String, Blob)],
    summaries: &mut SummaryCache,
) -> Arc<Vec<PageSummary>> {
    let StructureInputs { options, languages, .. } = &*structure.inputs;
    let robots = verbatim.iter().find(|(name, _)| name == "robots.txt").map(|(_, blob)| blob);
    let rules = robots.map(|blob| RobotsRules::parse(&blob.bytes)).unwrap_or_default();
    let is_listed = |document: &Document| {
        !document.front_matter.unlisted && document.unpublished.is_none() && !rules.forbids(&document.path)
    };
    let mut posts = vec![0; languages.len()];
    let mut is_in_feed = |document: &Document| {
        posts[document.language] += usize::from(document.kind == PageKind::Post);
        document.kind == PageKind::Post && posts[document.language] <= FEED_LENGTH
    };
    let listed = structure.documents().iter().zip(pages).filter(|(document, _)| is_listed(document));
    let listed: Vec<_> = listed.map(|(document, page)| (document, page, is_in_feed(document))).collect();
    let feed = listed.iter().filter(|(.., is_in_feed)| *is_in_feed);
    let inputs = SummaryInputs {
        structure: ByPointer(structure.clone()),
        robots: robots.map(|blob| blob.hash),
        feed: feed.map(|(document, ..)| bodies.of(document).clone()).collect(),
    };
    summaries.get(inputs, |_| {
        let summarize = |(document, page, is_in_feed): &(&Document, &Arc<LaidOutPage>, bool)| {
            let feed_html = if *is_in_feed { feed_html(document, bodies, options) } else { String::new() };
            summarize(document, translation_paths(&page.view.translations, languages), feed_html)
        };
        Arc::new(listed.iter().map(summarize).collect())
    })
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
            site.insert_if_free(name, || SiteEntry::Redirect(Redirect::permanent(encode(&document.path))));
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

/// The body of a post, with absolute links.
fn feed_html(document: &Document, bodies: &Bodies, options: &PagesOptions) -> String {
    let base = &options.base_url;
    let url = format!("{base}{}", encode(&document.path));
    rewrite_links(&bodies.of(document).html, |link, _| markdown_twin::make_absolute(link, base, &url))
}

/// The summary of a listed page.
fn summarize(document: &Document, translations: Vec<(usize, String)>, feed_html: String) -> PageSummary {
    let matter = &document.front_matter;
    PageSummary {
        path: encode(&document.path).into_owned(),
        twin: encode(&path::twin_path(&document.path)).into_owned(),
        title: matter.title.clone(),
        description: matter.description.clone(),
        date: matter.date,
        dated_at: matter.dated_at,
        updated: document.updated,
        author: matter.author.clone(),
        tags: matter.tags.clone(),
        is_post: document.kind == PageKind::Post,
        is_generated: document.file.is_empty(),
        language: document.language,
        translations,
        feed_html,
    }
}
