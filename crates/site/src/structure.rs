//! The structure of a site: its documents in reading order, the owners of all paths, and the targets that
//! links may name.
//!
//! The structure depends on the configuration, the theme, a build, the names of files, the contents of assets
//! and of `static/`, and front matter with the dates of changes, but not on the bodies of pages. Most edits
//! change only a body, so a reload usually reuses the structure of the last load.

use std::collections::BTreeMap;
use std::sync::Arc;

use blake3::Hash;
use jiff::civil::Date;

use super::brand::{Brand, FontFacts, apply_brand};
use super::confirm::confirm_documents;
use super::document::{Document, PageKind, SourcePages, add_blog_pages, add_list_pages, folders_above};
use super::file::Blob;
use super::form_answer::{THANKS, thanks_texts};
use super::front_matter::Button;
use super::images::catalog_images;
use super::language::Language;
use super::link_resolution::{LinkCatalog, LinkOrigin, LinkTarget};
use super::options::{PageForm, PagesOptions, no_such_form};
use super::path;
use super::path_registry::PathRegistry;
use super::prebuilt::Prebuilt;
use super::redirects::{self, CompiledRedirects};
use super::site_files::{Asset, SiteFiles, name_assets};
use super::theme::Theme;
use super::translations::report_repeated_translations;
use crate::fault::{Fault, did_you_mean};
use frontdesk_forms::FormSet;
use frontdesk_process::hash_maps::HashSet;
use frontdesk_publish::Exclusion;

/// Marks the inputs of a site with a build, whose files they do not contain. Never equal, so that each load
/// with a build computes a new structure.
#[derive(Debug)]
struct AnyBuild;

impl PartialEq for AnyBuild {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

/// Everything that the structure of a site depends on.
#[derive(Debug, PartialEq)]
pub(super) struct StructureInputs {
    /// The options without `now`, which only decides which sources are published.
    pub options: PagesOptions,
    pub forms: Vec<PageForm>,
    pub languages: Vec<Language>,
    pub sources: SourcePages,
    /// The names and hashes of assets, files in `static/`, and files in the theme.
    files: [Vec<(String, Hash)>; 3],
    exclusions: Vec<Exclusion>,
    has_pages_folder: bool,
    build: Option<AnyBuild>,
}

impl StructureInputs {
    /// Copies the inputs: the names and hashes of files, and all options except the time of the load.
    pub fn new(
        options: &PagesOptions,
        forms: &[PageForm],
        languages: Vec<Language>,
        sources: SourcePages,
        files: &SiteFiles,
        exclusions: &[Exclusion],
        has_build: bool,
    ) -> Self {
        let hashes = |files: &[(String, Blob)]| {
            files.iter().map(|(name, blob)| (name.clone(), blob.hash)).collect::<Vec<_>>()
        };
        Self {
            options: PagesOptions { now: None, ..options.clone() },
            forms: forms.to_vec(),
            languages,
            sources,
            files: [&files.assets, &files.verbatim, &files.theme].map(|files| hashes(files)),
            exclusions: exclusions.to_vec(),
            has_pages_folder: files.has_pages_folder,
            build: has_build.then_some(AnyBuild),
        }
    }
}

/// The documents of a site in reading order, the owners of its paths, and the possible targets of links.
#[derive(Debug)]
pub(super) struct Structure {
    pub inputs: Arc<StructureInputs>,
    /// The pages with a URL in reading order, followed by the pages without a URL.
    documents: Vec<Document>,
    /// The number of pages with a URL.
    count: usize,
    pub names: Arc<PathRegistry>,
    pub redirects: CompiledRedirects,
    pub catalog: LinkCatalog,
    pub assets: Vec<Asset>,
    /// The URLs of assets, by the names that templates use.
    pub asset_urls: BTreeMap<String, String>,
    pub brand: Brand,
    /// For each document, the links in its front matter with their lines.
    pub links_of_matter: Vec<Vec<(LinkTarget, Option<usize>)>>,
    pub links_of_footer: Vec<LinkTarget>,
    pub faults: Vec<Fault>,
}

impl Structure {
    /// Adds generated pages to the sources, registers all paths, compiles the redirects, and resolves the
    /// links outside of bodies. Leaves out assets in the folders of pages that are left out. The faults are
    /// in the result.
    pub fn new(
        inputs: Arc<StructureInputs>,
        files: &SiteFiles,
        theme: &Theme,
        build: Option<&Prebuilt>,
        fonts: &mut FontFacts,
    ) -> Self {
        let mut faults = Vec::new();
        let StructureInputs { options, forms, languages, sources, has_pages_folder, .. } = &*inputs;
        let mut documents: Vec<Document> = sources.documents().collect();
        let left_out: HashSet<String> =
            sources.left_out_folders.iter().map(|folder| path::public_path(folder)).collect();
        let is_left_out = |path: &str| folders_above(path).any(|folder| left_out.contains(folder));
        let published = files.assets.iter().filter(|(file, _)| !is_left_out(&path::public_path(file)));
        let (mut assets, mut asset_urls) = name_assets(published, theme);
        let brand = apply_brand(&options.brand, &mut assets, &mut asset_urls, fonts, &mut faults);
        for (index, language) in languages.iter().enumerate() {
            add_blog_pages(index, language, &mut documents, &mut faults);
            add_list_pages(index, language, &mut documents, options.posts_per_page);
        }
        report_repeated_translations(&documents, &mut faults);
        check_documents(&mut documents, theme, options, forms, &mut faults);
        let verbatim = &files.verbatim;
        let mut names = claim_paths(build, options, languages, &documents, verbatim, &assets, &mut faults);
        names.exclusions.clone_from(&inputs.exclusions);
        report_missing_home_pages(&mut names, &sources.invalid, languages, *has_pages_folder, &mut faults);
        let redirects = redirects::compile(&options.redirects, &mut names, &mut faults);
        add_thanks_pages(options, &mut documents, languages, &mut names, &mut faults);
        let mut catalog = link_catalog(&documents, &assets, verbatim, options, &mut faults);
        catalog.pages.extend(sources.invalid.iter().cloned());
        catalog.markdown_files = markdown_files(&names, &catalog);
        let not_found = take_not_found_pages(&mut documents, languages);
        let count = documents.len();
        documents.extend(not_found);
        if options.confirms_addresses() {
            documents.extend(confirm_documents(languages));
        }
        let links_of_matter =
            documents.iter_mut().map(|document| resolve_front_matter(document, &catalog)).collect();
        set_default_image(&mut documents[..count], brand.image.as_deref(), &options.base_url);
        Self {
            links_of_footer: footer_links(options, &catalog),
            inputs,
            documents,
            count,
            names: Arc::new(names),
            redirects,
            catalog,
            assets,
            asset_urls,
            brand,
            links_of_matter,
            faults,
        }
    }

    /// The pages with a URL, in reading order.
    pub fn documents(&self) -> &[Document] {
        &self.documents[..self.count]
    }

    /// The pages without a URL: the 404 page of each language, followed by the confirmation pages.
    pub fn without_url(&self) -> &[Document] {
        &self.documents[self.count..]
    }

    /// All pages: first the pages with a URL, then the pages without a URL.
    pub fn all(&self) -> &[Document] {
        &self.documents
    }
}

/// Gives each document without an image the brand's image, which is at the path `image`.
fn set_default_image(documents: &mut [Document], image: Option<&str>, base_url: &str) {
    let Some(image) = image else { return };
    for document in documents {
        document.image.get_or_insert_with(|| format!("{base_url}{image}"));
    }
}

/// The targets of the footer's links. Skips links with a scheme or a host, even this site's.
fn footer_links(options: &PagesOptions, catalog: &LinkCatalog) -> Vec<LinkTarget> {
    let place = LinkOrigin { file: "", path: "/" };
    let links = options.footer.iter().flat_map(|group| &group.links);
    links.filter_map(|link| catalog.resolve(place, &link.href).target).collect()
}

/// Collects the possible targets of links, except for `markdown_files`: pages with a source, assets, files in
/// `static/` (`verbatim`), and the images among these with their sizes. Reports a panic that occurs while the
/// size of an image is read.
fn link_catalog(
    documents: &[Document],
    assets: &[Asset],
    verbatim: &[(String, Blob)],
    options: &PagesOptions,
    faults: &mut Vec<Fault>,
) -> LinkCatalog {
    let written = documents.iter().filter(|document| !document.file.is_empty());
    LinkCatalog {
        base_url: options.base_url.clone(),
        pages: written.map(|document| (document.file.clone(), document.path.clone())).collect(),
        assets: assets.iter().map(|asset| (asset.path.clone(), asset.fingerprinted.clone())).collect(),
        static_files: verbatim.iter().map(|(name, _)| format!("/{name}")).collect(),
        images: catalog_images(assets, verbatim, faults),
        allowed: options.allowed.clone(),
        ..LinkCatalog::default()
    }
}

/// The registered paths that end with `.md` or `.markdown`, except those that pages with a source have
/// claimed.
fn markdown_files(names: &PathRegistry, catalog: &LinkCatalog) -> HashSet<String> {
    let is_page =
        |owner: &Option<String>| owner.as_ref().is_some_and(|file| catalog.pages.contains_key(file));
    let files = names
        .owners
        .iter()
        .filter(|(path, owner)| (path.ends_with(".md") || path.ends_with(".markdown")) && !is_page(owner));
    files.map(|(path, _)| path.clone()).collect()
}

/// Generates the thank-you page of each language, unlisted and with a link to the home page, if forms work
/// without JavaScript. Skips a language in which the path of the page or of its Markdown is in use.
fn add_thanks_pages(
    options: &PagesOptions,
    documents: &mut Vec<Document>,
    languages: &[Language],
    names: &mut PathRegistry,
    faults: &mut Vec<Fault>,
) {
    let updated = documents.iter().map(|document| document.updated).max().unwrap_or_default();
    for (index, language) in languages.iter().enumerate().filter(|_| options.html_posts) {
        let path = format!("{}{THANKS}", language.prefix);
        if names.has_path(&path) || names.has_path(&path::twin_path(&path)) {
            continue;
        }
        let (title, text) = thanks_texts(language, options);
        let mut document = Document::new_generated(index, &path, PageKind::Page, title, text, updated);
        let matter = Arc::make_mut(&mut document.front_matter);
        matter.unlisted = true;
        let href =
            Some(language.home()).filter(|home| names.has_path(home)).unwrap_or_else(|| "/".to_owned());
        matter.cta = vec![Button { label: language.words.get("home").to_owned(), href }];
        claim_document(names, &document, faults);
        documents.push(document);
    }
}

/// Sorts the documents in reading order: by language; then the home page, pages, posts and others; then by
/// `nav`, age and path. Reports faults of dates, templates and forms, such as a form on a site without the
/// operator's e-mail address. Skips forms whose files have faults. Replaces a missing template with the
/// default template for the page's kind.
fn check_documents(
    documents: &mut [Document],
    theme: &Theme,
    options: &PagesOptions,
    forms: &[PageForm],
    faults: &mut Vec<Fault>,
) {
    documents.sort_by_cached_key(|document| {
        let rank = match document.kind {
            PageKind::Home => 0,
            PageKind::Page => 1,
            PageKind::Post => 2,
            _ => 3,
        };
        let matter = &document.front_matter;
        let rank = (document.language, rank);
        (rank, matter.nav.unwrap_or(i64::MAX), matter.age(), document.path.clone())
    });
    for document in documents {
        let matter = &document.front_matter;
        // Allow tomorrow's date, because tomorrow may already have begun in time zones ahead of UTC.
        let tomorrow = options.today.tomorrow().unwrap_or(options.today);
        if document.unpublished.is_none() && matter.updated.is_some_and(|date| date > tomorrow) {
            let fault = document.warning_at_key("updated", "`updated` is in the future");
            faults.push(
                fault.hint("correct it; `updated` does not delay publication, but a future `date` does"),
            );
        }
        if document.kind == PageKind::Post && matter.date.is_none() {
            let fault = document.warning_at_key("date", "the post has no `date`");
            faults.push(fault.hint(
                "posts are listed by date; add a date, or begin the file name with one, as in 2026-01-15-hello.md",
            ));
        }
        let template = document.template_name().to_owned();
        if !theme.has_template(&template) {
            let message =
                format!("there is no template `{template}.html`, so `{}.html` is used", document.kind.name());
            let fault = document.warning_at_key("template", message);
            faults
                .push(fault.hint(format!(
                    "create theme/{template}.html in the site's folder, or remove `template`"
                )));
            Arc::make_mut(&mut document.front_matter).template = None;
        }
        let Some(form) = &document.front_matter.form else { continue };
        if options.form_set.is_faulty(form) {
            continue;
        }
        if !forms.iter().any(|known| known.definition.name == form) {
            let names: Vec<&str> = forms.iter().map(|form| form.definition.name).collect();
            let (message, hint) = if FormSet::built_in().named(form).is_some() {
                let hint = format!("remove this line or the page, or `enabled = false` in [forms.{form}]");
                (format!("the form `{form}` is switched off"), hint)
            } else {
                let hint = did_you_mean(form, names.iter().copied(), || no_such_form(&names));
                (format!("there is no form `{form}`"), hint)
            };
            faults.push(document.error_at_key("form", message).hint(hint));
        } else if options.operator.email.is_empty() {
            let fault = document.error_at_key("form", "the form needs `operator.email` in frontdesk.toml");
            let hint = "set this address: the page shows it to visitors who cannot send the form, without JavaScript or after an error";
            faults.push(fault.hint(hint));
        }
    }
}

/// Registers the owners of all paths, and reserves those of generated resources. Reports paths with two
/// owners: the build claims its paths first, then `static/`, assets and pages. The fault is at the later one.
fn claim_paths(
    build: Option<&Prebuilt>,
    options: &PagesOptions,
    languages: &[Language],
    documents: &[Document],
    verbatim: &[(String, Blob)],
    assets: &[Asset],
    faults: &mut Vec<Fault>,
) -> PathRegistry {
    let mut names = PathRegistry::default();
    options.reserved.iter().for_each(|path| names.reserve(path));
    for language in languages.iter().skip(1) {
        for path in TRANSLATED_RESOURCES {
            names.reserve(&format!("{}{path}", language.prefix));
        }
    }
    for language in languages {
        names.reserve(&language.search_index_path());
    }
    if let Some(build) = build {
        build.register(&mut names, faults);
    }
    register_paths(&mut names, documents, verbatim, assets, faults);
    names
}

/// Accepts links to the sources in `invalid`, whose front matter has faults. Reports each language without a
/// home page, unless the page's source is one of them. For the default language, this is an error, unless the
/// folder `pages` is missing; for others, a warning.
fn report_missing_home_pages(
    names: &mut PathRegistry,
    invalid: &[(String, String)],
    languages: &[Language],
    has_pages_folder: bool,
    faults: &mut Vec<Fault>,
) {
    for (_, path) in invalid {
        names.add_secondary(path.clone());
    }
    if !names.has_path("/") && has_pages_folder {
        let excluded = names.exclusions.iter().find(|known| known.covers("/", None));
        let own = languages.first().filter(|own| names.has_path(&format!("/{}/", own.tag)));
        let missing = || match own.map(|own| &own.tag) {
            Some(tag) => {
                format!("move the files in `pages/{tag}/` to `pages/`: `{tag}` is the default language")
            }
            None => "create `pages/index.md`".to_owned(),
        };
        let hint = excluded.map_or_else(missing, ToString::to_string);
        faults.push(Fault::error("pages/", None, "there is no home page").hint(hint));
    }
    for language in languages.iter().skip(1).filter(|language| !names.has_path(&language.home())) {
        let fault =
            Fault::warning("pages/", None, format!("the language `{}` has no home page", language.tag));
        faults.push(fault.hint(format!("create `pages/{}/index.md`", language.tag)));
    }
}

/// Registers the paths of files in `static/`, assets and pages, and the aliases of pages. An `index.html` in
/// a folder of `static/` also claims the path of the folder. Ignores an alias that is the page's own path,
/// and repeated ones. If the path of an alias has an owner other than an earlier alias, the alias counts from
/// the root instead, unless that path has an owner, too. A link to its path from the root is valid.
fn register_paths(
    names: &mut PathRegistry,
    documents: &[Document],
    verbatim: &[(String, Blob)],
    assets: &[Asset],
    faults: &mut Vec<Fault>,
) {
    for (name, _) in verbatim {
        let place = format!("static/{name}");
        names.claim_static(&format!("/{name}"), &place, faults);
        if let Some(folder) = name.strip_suffix("/index.html") {
            names.claim(&format!("/{folder}/"), &place, None, faults);
            names.add_secondary(format!("/{folder}"));
        }
    }
    for asset in assets {
        names.claim(&asset.path, &asset.file, None, faults);
    }
    for document in documents {
        claim_document(names, document, faults);
    }
    let mut claimed = HashSet::default();
    for document in documents {
        let mut own = HashSet::default();
        for alias in &document.front_matter.aliases {
            let root = path::resolve_relative("/", alias);
            let alias = document.alias_path(alias);
            names.add_secondary(root.clone());
            // In Zola, an alias is relative to the root, so another page may have the path that is relative
            // to the folder.
            let is_page = names.owners.contains_key(&alias) && !claimed.contains(&alias);
            let alias = if is_page && !names.owners.contains_key(&root) { root } else { alias };
            if alias.trim_end_matches('/') == document.path.trim_end_matches('/')
                || !own.insert(alias.clone())
            {
                continue;
            }
            let (line, hint) = (document.line("aliases"), "remove the alias");
            names.claim_or_hint(&alias, document.place(), line, hint, faults);
            names.add_secondary(alias.trim_end_matches('/').to_owned());
            claimed.insert(alias);
        }
    }
}

/// Registers the paths of a page and its twin for its source, and its other paths as link targets. If the
/// path of the page has another owner, reports that, and does not claim the path of the twin.
fn claim_document(names: &mut PathRegistry, document: &Document, faults: &mut Vec<Fault>) {
    let (place, line) = (document.place(), document.line("slug"));
    let hint = "rename the page's file or its folder, or set `slug` in the page";
    if names.claim_or_hint(&document.path, place, line, hint, faults) {
        names.claim_or_hint(&path::twin_path(&document.path), place, line, hint, faults);
    }
    path::markdown_paths(&document.path)
        .into_iter()
        .chain(path::redirect_paths(&document.path))
        .for_each(|name| names.add_secondary(name));
}

/// Returns the 404 page of each language, in the order of `languages`: the page at `/404/` in the language's
/// folder, such as `pages/404.md`, which is removed from `documents`. A language without one, also the
/// default language, gets a generated page.
fn take_not_found_pages(documents: &mut Vec<Document>, languages: &[Language]) -> Vec<Document> {
    let mut take = |(index, language): (usize, &Language)| {
        let path = format!("{}/404/", language.prefix);
        let Some(at) = documents.iter().position(|document| document.path == path) else {
            let word = |name| language.words.get(name);
            let (title, description) = (word("not_found_title"), word("not_found_description"));
            let kind = PageKind::NotFound;
            return Document::new_generated(index, &path, kind, title, description, Date::default());
        };
        Document { kind: PageKind::NotFound, language: index, ..documents.remove(at) }
    };
    languages.iter().enumerate().map(&mut take).collect()
}

/// The resources that each language has in its own folder.
const TRANSLATED_RESOURCES: [&str; 3] = ["/llms.txt", "/llms-full.txt", "/blog/rss.xml"];

/// Resolves the links in a document's front matter, and sets its image and the image's size. Returns the
/// targets on this site with line numbers.
fn resolve_front_matter(document: &mut Document, catalog: &LinkCatalog) -> Vec<(LinkTarget, Option<usize>)> {
    let mut links = Vec::new();
    let (cta, highlights, image) =
        (document.line("cta"), document.line("highlights"), document.line("image"));
    let place = LinkOrigin { file: &document.file, path: &document.path };
    // Skip pages without buttons and cards: `make_mut` would copy front matter shared with the parsed source.
    if !document.front_matter.cta.is_empty() || !document.front_matter.highlights.is_empty() {
        let matter = Arc::make_mut(&mut document.front_matter);
        let buttons = matter.cta.iter_mut().map(|button| (&mut button.href, cta));
        let cards = matter.highlights.iter_mut().filter_map(|card| Some((card.href.as_mut()?, highlights)));
        for (href, line) in buttons.chain(cards) {
            let resolved = catalog.resolve(place, href);
            *href = resolved.href;
            links.extend(resolved.target.map(|target| (target, line)));
        }
    }
    if let Some(written) = &document.front_matter.image {
        let resolved = catalog.resolve(place, written);
        let known = resolved.target.as_ref().and_then(|target| catalog.images.get(&*target.path));
        document.image_size = known.map(|image| image.size);
        document.image = Some(match resolved.target {
            Some(_) => format!("{}{}", catalog.base_url, resolved.href),
            None => resolved.absolute,
        });
        links.extend(resolved.target.map(|target| (target, image)));
    }
    links
}
