//! Loads a site's folder: reads sources, assets and theme, and builds a [`Site`] or reports all faults.
//!
//! [`LoadCache`] stores each intermediate result with its inputs. A reload repeats only the steps whose
//! inputs have changed.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use blake3::Hash;
use jiff::civil::Date;

use super::brand::BrandCache;
use super::confirm::confirm_documents;
use super::content::Content;
use super::document::{
    Document, PageKind, ParsedSource, SourcePages, Tag, add_blog_pages, add_list_pages, folders_above,
    read_documents,
};
use super::file::{Blob, Cache, File, media_type};
use super::form_page::{FormPage, FormPages, THANKS};
use super::front_matter::Button;
use super::highlight::Highlighter;
use super::html::{id_attributes, rewrite_links};
use super::images::catalog_images;
use super::language::Language;
use super::layout::{ListItem, PageIndex, RelatedPages, SiteContext, TemplateContext};
use super::link::{LinkCatalog, LinkOrigin, LinkTarget};
use super::live_reload::add_reload_script;
use super::markdown::{self, BodyWarning};
use super::options::{PageForm, PagesOptions};
use super::parallel::in_parallel;
use super::path::{self, encode};
use super::path_registry::{Anchors, CheckedLinks, LinkUse, PathRegistry, check_links};
use super::plain_page::{insert_plain_pages, plain_form_page, thanks_texts};
use super::prebuilt::{self, BuildCache, Prebuilt};
use super::redirects::{self, CompiledRedirects};
use super::search::{self, SearchCache, SearchDocument};
use super::site::{FEED_LENGTH, Page, PageSummary, Redirect, Role, Site, SiteEntry};
use super::site_files::{Asset, FileCache, FileChanged, SiteFiles, SourceFile, name_assets};
use super::theme::{CompiledTheme, Theme};
use super::translations::{LanguageLink, report_repeated_translations};
use super::variants::insert_variants;
use super::{twin, words};
use crate::allocator;
use crate::fault::{Fault, Severity, closest};

#[derive(Debug)]
pub struct LoadResult {
    /// `None` if any fault is an error.
    pub site: Option<Site>,
    /// Errors and warnings, sorted by place.
    pub faults: Vec<Fault>,
    /// The options. A missing title or description is taken from the build's home page.
    pub options: PagesOptions,
}

/// Loads the site in `folder`, and reports all faults at once.
///
/// `pages/**.md` become pages, and `posts/**.md` become blog posts. `assets/**` and the media files next to
/// pages get fingerprinted names. `static/**` is served unchanged, and `theme/**` replaces files in the
/// built-in theme.
pub fn load(folder: &Path, options: &PagesOptions, forms: &[PageForm]) -> LoadResult {
    LoadCache::default().load(folder, options, forms)
}

/// The results of a folder's last load, which the next load reuses. Takes little memory, because rendered
/// bodies are shared with the last site.
#[derive(Debug, Default)]
pub struct LoadCache {
    build: BuildCache,
    files: FileCache,
    brand: BrandCache,
    /// The language tags with which `parsed` was computed.
    languages: Vec<String>,
    parsed: HashMap<String, Arc<ParsedSource>>,
    templates: Option<Arc<CompiledTheme>>,
    catalog: LinkCatalog,
    contents: HashMap<String, CachedBody>,
    shared: Option<Arc<SiteContext>>,
    pages: HashMap<String, RenderedPage>,
    links: CheckedLinks,
    /// In the order of the site's languages.
    search: Vec<SearchCache>,
}

/// A rendered body with its inputs, except the link catalog.
#[derive(Debug)]
struct CachedBody {
    hash: Hash,
    path: String,
    content: Content,
}

#[derive(Debug)]
struct RenderedPage {
    shared: Arc<SiteContext>,
    document: Document,
    view: RelatedPages,
    page: Page,
    anchors: Arc<HashSet<Box<str>>>,
}

/// Sorts faults by place, and removes duplicates. Returns whether none of them is an error.
fn sort_faults(faults: &mut Vec<Fault>) -> bool {
    faults.sort_unstable_by(|a, b| (&a.place, a.line, &a.message).cmp(&(&b.place, b.line, &b.message)));
    faults.dedup();
    faults.iter().all(|fault| fault.severity != Severity::Error)
}

/// The result for a build without Markdown pages.
fn load_build_alone(
    build: Prebuilt,
    options: &PagesOptions,
    forms: &[PageForm],
    mut faults: Vec<Fault>,
) -> LoadResult {
    let mut names = PathRegistry::default();
    options.reserved.iter().for_each(|path| names.reserve(path));
    // Ignore faults in the build's paths: they do not matter on a site without other pages.
    build.register(&mut names, &mut Vec::new());
    let redirects = redirects::compile(&options.redirects, &mut names, &mut faults);
    faults.extend(check_links(&redirect_links(&redirects), &names, &HashMap::new()));
    let mut form_pages = FormPages::default();
    let mut words = words::load(&[&options.language], &[], &options.words, &mut faults);
    let language = Language::list(options, vec![words.swap_remove(0)]).swap_remove(0);
    if options.html_posts {
        let pages = forms.iter().map(|form| plain_form_page(form, &language, options));
        form_pages.0.extend(pages.filter_map(|page| page.map_err(|fault| faults.push(fault)).ok()?));
    }
    let site = sort_faults(&mut faults).then(|| {
        let mut site = Site::new(options, prebuilt::plain_not_found_page());
        build.insert_into(&mut site);
        site.form_pages = form_pages;
        site.add_rules(redirects.rules);
        insert_plain_pages(&mut site, Some(&language), options);
        site
    });
    LoadResult { site, faults, options: options.clone() }
}

/// Uses the brand's image as the image of documents that have none. `image` is its path.
fn set_default_image(documents: &mut [Document], image: Option<&str>, base_url: &str) {
    let Some(image) = image else { return };
    for document in documents {
        document.image.get_or_insert_with(|| format!("{base_url}{image}"));
    }
}

/// The targets of the footer's links, except those on other sites.
fn footer_links(options: &PagesOptions, catalog: &LinkCatalog) -> Vec<LinkTarget> {
    let place = LinkOrigin { file: "", path: "/" };
    let links = options.footer.iter().flat_map(|group| &group.links);
    links.filter_map(|link| catalog.resolve(place, &link.href).target).collect()
}

/// The targets that links may name.
fn link_catalog(
    documents: &[Document],
    assets: &[Asset],
    verbatim: &[(String, Blob)],
    options: &PagesOptions,
) -> LinkCatalog {
    let written = documents.iter().filter(|document| !document.file.is_empty());
    LinkCatalog {
        base_url: options.base_url.clone(),
        pages: written.map(|document| (document.file.clone(), document.path.clone())).collect(),
        assets: assets.iter().map(|asset| (asset.path.clone(), asset.fingerprinted.clone())).collect(),
        images: catalog_images(assets, verbatim),
        allowed: options.allowed.clone(),
    }
}

impl LoadCache {
    /// Like [`load()`], but reads and renders only the files that have changed since the last load.
    pub fn load(&mut self, folder: &Path, options: &PagesOptions, forms: &[PageForm]) -> LoadResult {
        // A file may change after its metadata was checked. The second attempt reads every file, so it does
        // not depend on metadata.
        self.load_once(folder, options, forms).unwrap_or_else(|FileChanged| {
            self.files.invalidate();
            self.load_once(folder, options, forms).unwrap_or_else(|FileChanged| LoadResult {
                site: None,
                faults: vec![Fault::error("pages/", None, "files changed while the site was being loaded")],
                options: options.clone(),
            })
        })
    }

    #[expect(clippy::too_many_lines, reason = "the steps of a load, in order")]
    fn load_once(
        &mut self,
        folder: &Path,
        options: &PagesOptions,
        forms: &[PageForm],
    ) -> Result<LoadResult, FileChanged> {
        let mut faults = Vec::new();
        let mut build = options.build.as_ref().map(|build| self.build.load(build, options, &mut faults));
        let options = &build.as_ref().map_or_else(|| options.clone(), |build| build.complete(options));
        if let Some(build) = build.take_if(|_| !folder.join("pages").is_dir()) {
            return Ok(load_build_alone(build, options, forms, faults));
        }
        let mut tree = SiteFiles::read(folder, &mut self.files, &mut faults);
        let tags = options.language_tags();
        let languages = Language::list(options, words::load(&tags, &tree.theme, &options.words, &mut faults));
        let theme = Theme::new(tree.theme);
        self.discard_other_languages(&tags);
        let SourcePages { mut documents, left_out_folders, scheduled, drafts, invalid } =
            read_documents(&tree.sources, options, &mut self.parsed, &mut faults)?;
        let left_out: HashSet<String> =
            left_out_folders.iter().map(|folder| path::public_path(folder)).collect();
        let is_left_out = |path: &str| folders_above(path).any(|folder| left_out.contains(folder));
        let published = tree.assets.iter().filter(|(path, _)| !is_left_out(path));
        let (mut assets, mut asset_urls) = name_assets(published, &theme);
        let brand = self.brand.apply(&options.brand, &mut assets, &mut asset_urls, &mut faults);
        add_blog_pages(&mut documents, &languages, &mut faults);
        add_list_pages(&mut documents, &languages, options);
        report_repeated_translations(&documents, &mut faults);
        check_documents(&mut documents, &theme, options, forms, &mut faults);
        let mut names = claim_paths(
            build.as_ref(),
            options,
            &languages,
            &documents,
            &tree.verbatim,
            &assets,
            &mut faults,
        );
        report_missing_home_pages(&mut names, &invalid, &languages, &mut faults);
        let redirects = redirects::compile(&options.redirects, &mut names, &mut faults);
        add_thanks_pages(options, &mut documents, &languages, &mut names, &mut faults);
        let mut catalog = link_catalog(&documents, &assets, &tree.verbatim, options);
        catalog.pages.extend(invalid);
        self.render_bodies(&mut documents, &tree.sources, catalog, &mut faults)?;
        tree.sources.clear();
        let mut missing = take_pages_without_url(&mut documents, &languages, options);
        let all = documents.iter_mut().chain(&mut missing);
        let links_of_matter: Vec<_> =
            all.map(|document| resolve_front_matter(document, &self.catalog)).collect();
        set_default_image(&mut documents, brand.image.as_deref(), &options.base_url);
        let links_of_footer = footer_links(options, &self.catalog);
        let indexes = self.search_indexes(&documents, &languages, options);
        if self.pages.is_empty() && documents.len() >= LARGE_SITE {
            allocator::release_memory();
        }

        let custom_css = asset_urls.get("custom.css").cloned();
        let templates = theme.compile(asset_urls, self.templates.as_ref());
        faults.extend(templates.faults.iter().cloned());
        // If the theme does not compile, rendering would only repeat its faults.
        let pages = if templates.faults.is_empty() {
            self.templates = Some(templates.clone());
            let before = self.shared.as_ref();
            let extras = (custom_css, brand, !indexes.is_empty());
            let shared = SiteContext::new(&documents, options, &languages, forms, templates, extras, before);
            self.shared = Some(shared.clone());
            self.lay_out_pages(&mut documents, &mut missing, &languages, &shared, &mut faults)
        } else {
            None
        };
        let anchors = pages.iter().flat_map(|_| documents.iter()).filter_map(|document| {
            let laid_out = self.pages.get(&document.path)?;
            Some((document.path.as_str(), &laid_out.anchors))
        });
        let anchors: Anchors<'_> = anchors.collect();
        self.links.forget_unless_targets_remain(&names, &anchors);
        let all = documents.iter().chain(&missing);
        let is_intact = |document: &Document| self.links.is_intact(&document.file, &document.content.facts);
        let mut links = collect_links(all, &links_of_matter, &links_of_footer, is_intact);
        links.extend(redirect_links(&redirects));
        let broken = check_links(&links, &names, &anchors);
        let bodies = documents.iter().chain(&missing).map(|page| (page.file.as_str(), &page.content.facts));
        self.links.record(names, &anchors, bodies, &broken);
        faults.extend(broken);
        let form_pages = pages.as_ref().map(|_| self.form_pages(&documents, forms, &mut faults));
        let site = pages.filter(|_| sort_faults(&mut faults)).map(|(pages, without_url)| {
            let mut site = new_site(options, without_url, &languages);
            (site.scheduled, site.drafts) = (scheduled, drafts);
            site.entries.reserve(8 * pages.len() + tree.verbatim.len() + 2 * assets.len());
            insert_variants(
                &mut site,
                assets.iter().filter_map(|asset| {
                    Some((asset, self.catalog.images.get(&asset.path)?.variants.as_slice()))
                }),
            );
            insert_files(&mut site, tree.verbatim, assets);
            let mut posts = vec![0; languages.len()];
            for (document, page) in documents.iter().zip(pages) {
                let translations = self.pages.get(&document.path).map(|page| &*page.view.translations);
                let translations = translation_paths(translations.unwrap_or_default(), &languages);
                let summary = summarize(document, options, translations, &mut posts[document.language]);
                site.insert_page(&document.path, page, summary);
            }
            insert_aliases(&mut site, &documents);
            site.form_pages = form_pages.unwrap_or_default();
            if let Some(mut build) = build {
                // Written 404 pages replace those of the build, which replace generated ones.
                let written = languages.iter().zip(&missing).filter(|(_, page)| !page.file.is_empty());
                written.for_each(|(language, _)| build.remove_not_found(&language.prefix));
                build.insert_into(&mut site);
            }
            site.languages = languages;
            site.add_rules(redirects.rules);
            insert_plain_pages(&mut site, None, options);
            for (path, index) in indexes {
                let file = File::from_blob(media_type(&path), Cache::Revalidate, index);
                site.insert_resource(&path, file);
            }
            site
        });
        Ok(LoadResult { site, faults, options: options.clone() })
    }

    /// Discards the parsed sources if the site's languages have changed, because paths depend on them.
    fn discard_other_languages(&mut self, tags: &[&str]) {
        if self.languages != tags {
            self.languages = tags.iter().map(|tag| (*tag).to_owned()).collect();
            self.parsed.clear();
        }
    }

    /// Renders the documents' bodies in parallel. Reuses a body if its source, path and link targets are
    /// unchanged.
    fn render_bodies(
        &mut self,
        documents: &mut [Document],
        sources: &[SourceFile],
        catalog: LinkCatalog,
        faults: &mut Vec<Fault>,
    ) -> Result<(), FileChanged> {
        let sources: HashMap<&str, &SourceFile> =
            sources.iter().map(|source| (source.file.as_str(), source)).collect();
        let highlighter = Highlighter::default();
        let is_same_catalog = catalog == self.catalog;
        // Render all bodies again if the base URL or the permitted hosts have changed: the checks for content
        // from other sites use them, and `lookups` does not record that.
        let has_same_hosts =
            catalog.base_url == self.catalog.base_url && catalog.allowed == self.catalog.allowed;
        // `None` means that the cached body is unchanged.
        let contents = in_parallel(documents, |document| {
            let Some(source) = sources.get(document.file.as_str()) else {
                return Ok(Some(Content::default()));
            };
            let place = LinkOrigin { file: &document.file, path: &document.path };
            let kept = self.contents.get(&document.file);
            let same = kept.filter(|kept| {
                kept.hash == source.hash
                    && kept.path == document.path
                    && (is_same_catalog
                        || (has_same_hosts && kept.content.facts.lookups.are_current(place, &catalog)))
            });
            if same.is_some() {
                return Ok(None);
            }
            let text = source.take_text()?;
            let blocks = kept.map(|kept| kept.content.blocks()).unwrap_or_default();
            let body = &text[document.body_at..];
            let rendered = markdown::render(body, document.body_line, place, &catalog, &highlighter, &blocks);
            Ok(Some(Content::from(rendered)))
        });
        let contents: Vec<Option<Content>> = contents.into_iter().collect::<Result<_, _>>()?;
        let mut count = 0;
        for (document, content) in documents.iter_mut().zip(contents) {
            let Document { file, path, .. } = &*document;
            let hash = sources.get(file.as_str()).map(|source| source.hash);
            count += usize::from(hash.is_some());
            if let (Some(content), Some(hash)) = (&content, hash) {
                let body = CachedBody { hash, path: path.clone(), content: content.clone() };
                self.contents.insert(file.clone(), body);
            }
            let cached = || Some(self.contents.get(file)?.content.clone());
            document.content = content.or_else(cached).unwrap_or_default();
            for BodyWarning { line, message, hint } in &document.content.facts.warnings {
                faults.push(Fault::warning(&document.file, Some(*line), message).hint(*hint));
            }
        }
        self.catalog = catalog;
        if self.contents.len() > count {
            let files: HashSet<&str> = documents.iter().map(|document| document.file.as_str()).collect();
            self.contents.retain(|file, _| files.contains(file.as_str()));
        }
        Ok(())
    }

    /// The indexes of all listed pages and posts, one for each language, with their paths. Empty if the site
    /// has no search.
    fn search_indexes(
        &mut self,
        documents: &[Document],
        languages: &[Language],
        options: &PagesOptions,
    ) -> Vec<(String, Blob)> {
        let mut listed: Vec<Vec<SearchDocument<'_>>> = vec![Vec::new(); languages.len()];
        for document in documents {
            let is_listed = !document.front_matter.unlisted && document.unpublished.is_none();
            if is_listed && !document.file.is_empty() {
                listed[document.language].push(SearchDocument {
                    path: encode(&document.path),
                    title: &document.front_matter.title,
                    description: document.front_matter.description.as_deref().unwrap_or_default(),
                    content: &document.content,
                });
            }
        }
        let count = listed.iter().map(Vec::len).sum::<usize>();
        if !options.search.unwrap_or(count >= search::MIN_PAGES) {
            return Vec::new();
        }
        self.search.resize_with(languages.len(), SearchCache::default);
        let indexes = self.search.iter_mut().zip(&listed).map(|(cache, listed)| cache.build(listed));
        languages.iter().map(search::index_path).zip(indexes).collect()
    }

    /// The pages that answer forms without JavaScript: for each form and language, the first page in reading
    /// order that has the form. If no page has it, or the theme does not show errors, a plain page.
    fn form_pages(&self, documents: &[Document], forms: &[PageForm], faults: &mut Vec<Fault>) -> FormPages {
        let Some(shared) = self.shared.as_ref().filter(|shared| shared.data.options.html_posts) else {
            return FormPages::default();
        };
        let mail = &shared.data.options.operator.email;
        let languages: Vec<&Language> = shared.data.languages.iter().map(|data| &data.language).collect();
        let mut pages = FormPages::default();
        for form in forms {
            for (index, language) in languages.iter().enumerate() {
                let document = documents.iter().find(|document| {
                    document.language == index && document.front_matter.form.as_deref() == Some(form.name)
                });
                let rendered = document.and_then(|document| {
                    let view = &self.pages.get(&document.path)?.view;
                    Some(TemplateContext { shared, document, view }.render_answer())
                });
                let rendered = rendered.and_then(|html| html.map_err(|fault| faults.push(fault)).ok());
                let Some(html) = rendered else { continue };
                let page = FormPage::new(&html, form, index, language, mail);
                if page.is_none() && html.contains(form.action) {
                    faults.push(form_without_answers(form.name));
                }
                pages.0.extend(page);
            }
            if pages.find(form.name, 0).is_none() {
                let page = plain_form_page(form, languages[0], &shared.data.options);
                pages.0.extend(page.map_err(|fault| faults.push(fault)).ok().flatten());
            }
        }
        pages
    }

    /// Lays out all pages and the 404 page of each language. `None` if any of them fails.
    fn lay_out_pages(
        &mut self,
        documents: &mut [Document],
        missing: &mut [Document],
        languages: &[Language],
        shared: &Arc<SiteContext>,
        faults: &mut Vec<Fault>,
    ) -> Option<(Vec<Page>, Vec<Page>)> {
        // Only the cache holds the texts meanwhile, so that each is freed once its page contains it.
        for document in documents.iter_mut().chain(&mut *missing) {
            document.content = document.content.without_text();
        }
        let layout = PageIndex::new(documents, languages, shared);
        let all: Vec<&Document> = documents.iter().chain(&*missing).collect();
        let mut pages = Vec::with_capacity(all.len());
        let mut seen = HashSet::with_capacity(all.len());
        let is_large = self.pages.is_empty() && all.len() >= LARGE_SITE;
        for batch in all.chunks(LAYOUT_BATCH) {
            // `None` means that the cached page is unchanged.
            let new = in_parallel(batch, |document| {
                let view = layout.related_pages(document);
                let content =
                    self.contents.get(&document.file).map_or(&document.content, |body| &body.content);
                let same = self.pages.get(&document.path).filter(|before| {
                    Arc::ptr_eq(&before.shared, shared)
                        && before.view == view
                        && *content == before.document.content
                        && has_same_context(document, &before.document)
                });
                let document = || Document { content: content.clone(), ..(*document).clone() };
                if same.is_some() { Ok(None) } else { lay_out_page(document(), view, shared).map(Some) }
            });
            for (document, new) in batch.iter().zip(new) {
                let Ok(mut new) = new.map_err(|fault| faults.push(fault)) else { continue };
                if !seen.insert(document.path.as_str()) && new.is_none() {
                    // Another document with this path has replaced the cached page. The conflict has been
                    // reported.
                    let body = self.contents.get(&document.file);
                    let content = body.map_or(&document.content, |body| &body.content).clone();
                    let document = Document { content, ..(*document).clone() };
                    let view = layout.related_pages(&document);
                    new = lay_out_page(document, view, shared).map_err(|fault| faults.push(fault)).ok();
                }
                if let Some(page) = new {
                    self.pages.insert(document.path.clone(), page);
                }
                let Some(page) = self.pages.get_mut(&document.path) else { continue };
                if let Some(kept) = self.contents.get_mut(&document.file) {
                    // Take the text from the page, where it is a slice of the page's files. Take the facts
                    // from this load, because line numbers may have changed even if the text has not.
                    page.document.content.take_facts_of(&kept.content);
                    kept.content = page.document.content.clone();
                }
                pages.push(page.page.clone());
            }
            if is_large {
                allocator::release_memory();
            }
        }
        if self.pages.len() > all.len() {
            let paths: HashSet<&str> = all.iter().map(|document| document.path.as_str()).collect();
            self.pages.retain(|path, _| paths.contains(path.as_str()));
        }
        for document in documents.iter_mut().chain(&mut *missing) {
            if let Some(body) = self.contents.get(&document.file) {
                document.content = body.content.clone();
            }
        }
        (pages.len() == documents.len() + missing.len()).then(|| {
            let not_found = pages.split_off(documents.len());
            (pages, not_found)
        })
    }
}

/// The number of pages that are laid out before the texts of their bodies are freed.
const LAYOUT_BATCH: usize = 1_000;

/// The first load of a site with at least this many pages returns freed memory to the system after each step:
/// otherwise, fragments of sources and bodies would add more than 100 MB to its peak with 10,000 pages.
const LARGE_SITE: usize = 4_000;

/// A warning about a theme whose form has no place for the answers to visitors without JavaScript.
fn form_without_answers(form: &str) -> Fault {
    let message = format!("the form `{form}` does not show errors to visitors without JavaScript");
    Fault::warning("theme/", None, message).hint(
        "they get a plain page instead: copy `partials/fields.html` and `partials/form-*.html` from the built-in \
         theme again, or set `forms.html_posts` to false",
    )
}

/// Generates the thank-you page of each language, unless its path is in use, if forms work without
/// JavaScript.
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
        document.front_matter.unlisted = true;
        let href =
            Some(language.home()).filter(|home| names.has_path(home)).unwrap_or_else(|| "/".to_owned());
        document.front_matter.cta = vec![Button { label: language.words.get("home").to_owned(), href }];
        claim_document(names, &document, faults);
        documents.push(document);
    }
}

/// Whether both documents produce the same template context, apart from their contents.
fn has_same_context(document: &Document, other: &Document) -> bool {
    document.path == other.path
        && document.language == other.language
        && document.kind == other.kind
        && document.front_matter == other.front_matter
        && document.updated == other.updated
        && document.image == other.image
        && document.image_size == other.image_size
        && document.unpublished == other.unpublished
        && document.list_page == other.list_page
}

/// Sorts the documents in reading order, and checks dates, templates and forms. Replaces a missing template
/// with the default template for the page's kind.
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
        (rank, matter.nav.unwrap_or(i64::MAX), std::cmp::Reverse(matter.date), document.path.clone())
    });
    for document in documents {
        let matter = &document.front_matter;
        // Allow tomorrow's date, because tomorrow may already have begun in time zones ahead of UTC.
        let tomorrow = options.today.tomorrow().unwrap_or(options.today);
        if document.unpublished.is_none() && matter.updated.is_some_and(|date| date > tomorrow) {
            let fault = document.warning_at_key("updated", "`updated` is in the future");
            faults.push(fault.hint("the page is published anyway; a `date` in the future holds it back"));
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
            faults.push(fault.hint("put your own templates into theme/ in the site's folder"));
            document.front_matter.template = None;
        }
        let Some(form) = &document.front_matter.form else { continue };
        if !forms.iter().any(|known| known.name == form) {
            let fault = document.error_at_key("form", format!("there is no form `{form}`"));
            let names: Vec<&str> = forms.iter().map(|form| form.name).collect();
            let hint = match closest(form, names.iter().copied()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("the forms are {}", names.join(", ")),
            };
            faults.push(fault.hint(hint));
        } else if options.operator.email.is_empty() {
            let fault = document.error_at_key("form", "the form needs `operator.email` in frontdesk.toml");
            let hint = "the page shows this address if the form cannot be sent: without JavaScript, or after an error";
            faults.push(fault.hint(hint));
        }
    }
}

/// Registers the owners of all paths. Reports paths with two owners.
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
        names.reserve(&search::index_path(language));
    }
    if let Some(build) = build {
        build.register(&mut names, faults);
    }
    register_paths(&mut names, documents, verbatim, assets, faults);
    names
}

/// Accepts links to the sources in `invalid`, whose front matter has faults. Reports languages without a home
/// page, unless its source is one of them or the folder `pages` is missing.
fn report_missing_home_pages(
    names: &mut PathRegistry,
    invalid: &[(String, String)],
    languages: &[Language],
    faults: &mut Vec<Fault>,
) {
    for (_, path) in invalid {
        names.add_secondary(path.clone());
    }
    let has_no_pages = faults.iter().any(|fault| fault.place == "pages/");
    if !names.has_path("/") && !has_no_pages {
        faults.push(Fault::error("pages/", None, "there is no home page").hint("create `pages/index.md`"));
    }
    for language in languages.iter().skip(1).filter(|language| !names.has_path(&language.home())) {
        let fault = Fault::warning("pages/", None, format!("there is no home page in `{}`", language.tag));
        faults.push(fault.hint(format!("create `pages/{}/index.md`", language.tag)));
    }
}

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
        if let Some(folder) = name.strip_suffix("index.html").filter(|folder| !folder.is_empty()) {
            names.claim(&format!("/{folder}"), &place, None, faults);
            names.add_secondary(format!("/{}", folder.trim_end_matches('/')));
        }
    }
    for asset in assets {
        names.claim(&asset.path, asset.path.trim_start_matches('/'), None, faults);
    }
    for document in documents {
        claim_document(names, document, faults);
    }
    for document in documents {
        let mut own = HashSet::new();
        for alias in &document.front_matter.aliases {
            let alias = path::resolve_relative("/", alias);
            if alias.trim_end_matches('/') == document.path.trim_end_matches('/')
                || !own.insert(alias.clone())
            {
                continue;
            }
            names.claim(&alias, document.place(), document.line("aliases"), faults);
            names.add_secondary(alias.trim_end_matches('/').to_owned());
        }
    }
}

fn claim_document(names: &mut PathRegistry, document: &Document, faults: &mut Vec<Fault>) {
    let line = document.line("slug");
    if names.claim(&document.path, document.place(), line, faults) {
        names.claim(&path::twin_path(&document.path), document.place(), line, faults);
    }
    path::markdown_paths(&document.path)
        .into_iter()
        .chain(path::redirect_paths(&document.path))
        .for_each(|name| names.add_secondary(name));
}

/// All links in front matter, footer and the bodies that are not known to be intact, with file and line.
fn collect_links<'a>(
    documents: impl Iterator<Item = &'a Document>,
    of_matter: &'a [Vec<(LinkTarget, Option<usize>)>],
    of_footer: &'a [LinkTarget],
    is_intact: impl Fn(&Document) -> bool,
) -> Vec<LinkUse<'a>> {
    let pages = documents.zip(of_matter).flat_map(|(document, matter)| {
        let body = if is_intact(document) { &[][..] } else { &document.content.facts.links };
        let body = body.iter().map(|(target, line)| (target, Some(*line)));
        let links = body.chain(matter.iter().map(|(target, line)| (target, *line)));
        links.map(|(target, line)| LinkUse { place: &document.file, line, target })
    });
    let footer = of_footer.iter().map(|target| LinkUse { place: "frontdesk.toml", line: None, target });
    pages.chain(footer).collect()
}

/// The targets of redirects, as links in the configuration.
fn redirect_links(redirects: &CompiledRedirects) -> Vec<LinkUse<'_>> {
    let links = redirects.targets.iter().map(|(target, line)| LinkUse {
        place: "frontdesk.toml",
        line: *line,
        target,
    });
    links.collect()
}

/// Inserts the files from `static/`, and every asset under both of its names.
fn insert_files(site: &mut Site, verbatim: Vec<(String, Blob)>, assets: Vec<Asset>) {
    let file = |media_type, cache, blob: &Blob| Arc::new(File::from_blob(media_type, cache, blob.clone()));
    for (name, blob) in verbatim {
        let path = format!("/{name}");
        let file = file(media_type(&name), Cache::Revalidate, &blob);
        // Like a static file server, also serve `/x/index.html` at `/x/`.
        if let Some(folder) = path.strip_suffix("index.html").filter(|folder| folder.len() > 1) {
            let to = encode(folder).into_owned();
            site.entries
                .insert(folder.trim_end_matches('/').into(), SiteEntry::Redirect(Redirect::permanent(to)));
            site.entries.insert(folder.into(), SiteEntry::File(file.clone(), Role::Asset));
        }
        site.entries.insert(path.into(), SiteEntry::File(file, Role::Asset));
    }
    for Asset { path, fingerprinted, blob } in assets {
        let media_type = media_type(&path);
        let name = path::decode(&fingerprinted).map(std::borrow::Cow::into_owned).unwrap_or_default();
        let named = file(media_type, Cache::Immutable, &blob);
        site.entries.insert(name.into(), SiteEntry::File(named, Role::Asset));
        let plain = || SiteEntry::File(file(media_type, Cache::Revalidate, &blob), Role::Asset);
        site.entries.entry(path.into()).or_insert_with(plain);
    }
}

/// Inserts redirects from pages' former paths, with and without a trailing slash, unless a path is in use.
fn insert_aliases(site: &mut Site, documents: &[Document]) {
    for document in documents {
        for alias in &document.front_matter.aliases {
            let alias = path::resolve_relative("/", alias);
            for name in [alias.trim_end_matches('/'), &alias] {
                let to = || SiteEntry::Redirect(Redirect::permanent(encode(&document.path)));
                site.entries.entry(name.into()).or_insert_with(to);
            }
        }
    }
}

/// The 404 page of each language, and the pages behind links that confirm addresses.
fn take_pages_without_url(
    documents: &mut Vec<Document>,
    languages: &[Language],
    options: &PagesOptions,
) -> Vec<Document> {
    let mut pages = take_not_found_pages(documents, languages);
    if options.confirms_waitlist {
        pages.extend(confirm_documents(languages));
    }
    pages
}

/// A site without entries. `pages` are the pages without a URL: first the 404 page of each language.
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

/// Removes the operator's `pages/404.md` and its translations from the documents and returns them. Generates
/// the 404 pages of other languages.
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

fn translation_paths(links: &[LanguageLink], languages: &[Language]) -> Vec<(usize, String)> {
    let index = |link: &LanguageLink| languages.iter().position(|language| language.tag == link.language);
    links.iter().filter_map(|link| Some((index(link)?, link.path.clone()))).collect()
}

/// Resolves the links in a document's front matter. Returns their targets with line numbers.
fn resolve_front_matter(document: &mut Document, catalog: &LinkCatalog) -> Vec<(LinkTarget, Option<usize>)> {
    let mut links = Vec::new();
    let (cta, highlights, image) =
        (document.line("cta"), document.line("highlights"), document.line("image"));
    let place = LinkOrigin { file: &document.file, path: &document.path };
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
        let known = resolved.target.as_ref().and_then(|target| catalog.images.get(&target.path));
        document.image_size = known.map(|image| image.size);
        document.image = Some(match resolved.target {
            Some(_) => format!("{}{}", catalog.base_url, resolved.href),
            None => resolved.absolute,
        });
        links.extend(resolved.target.map(|target| (target, image)));
    }
    links
}

/// Renders a document's HTML, composes its Markdown twin, and collects the anchors in the HTML. Fails if the
/// template does.
fn lay_out_page(
    document: Document,
    view: RelatedPages,
    shared: &Arc<SiteContext>,
) -> Result<RenderedPage, Fault> {
    let template = TemplateContext { shared, document: &document, view: &view };
    let options = &shared.data.options;
    let path = encode(&document.path).into_owned();
    let twin_path = encode(&path::twin_path(&document.path)).into_owned();
    let url = format!("{}{path}", options.base_url);
    let html = template.render_html()?;
    let is_list_of_tags = document.kind == PageKind::Tags;
    let item = |tag: &Tag| {
        let title = format!("{} ({})", tag.name, tag.count);
        ListItem { title, path: tag.path.clone(), ..ListItem::default() }
    };
    let tags: Vec<ListItem> =
        shared.language(&document).tags.iter().filter(|_| is_list_of_tags).map(item).collect();
    let markdown = twin::compose(&template, &url, if is_list_of_tags { &tags } else { &view.listing });
    let mut link = format!("<{twin_path}>; rel=\"alternate\"; type=\"text/markdown\"");
    if document.kind == PageKind::Home {
        let guide = format!("<{}/llms.txt>", shared.language(&document).language.prefix);
        for more in &options.home_links {
            link.push_str(", ");
            link.push_str(&more.replace("</llms.txt>", &guide));
        }
    }
    let anchors = id_attributes(&html).map(Into::into).collect();
    let mut html =
        if options.has_reload_script { add_reload_script(html.as_bytes()) } else { html.into_bytes() };
    html.shrink_to_fit();
    let mut html = File::new("text/html; charset=utf-8", Cache::Revalidate, html);
    let mut markdown = File::new("text/markdown; charset=utf-8", Cache::Revalidate, markdown);
    // The 404 page has no URL.
    if document.kind != PageKind::NotFound {
        html = html.with_link(link);
        markdown = markdown.with_link(format!("<{url}>; rel=\"canonical\""));
    }
    let content = document.content.as_slices_of(&html.unencoded().bytes, &markdown.unencoded().bytes);
    let page =
        Page { html: Arc::new(html), markdown: Arc::new(markdown), path: path.into(), twin: twin_path };
    let document = Document { content, ..document };
    Ok(RenderedPage { shared: shared.clone(), document, view, page, anchors: Arc::new(anchors) })
}

/// A page's summary, or `None` for an unlisted or unpublished page. Increments `posts` for a listed post.
fn summarize(
    document: &Document,
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
    let absolute = |link: &str, _| twin::make_absolute(link, base, &url);
    is_listed.then(|| PageSummary {
        path: encode(&document.path).into_owned(),
        twin: encode(&path::twin_path(&document.path)).into_owned(),
        title: matter.title.clone(),
        description: matter.description.clone(),
        date: matter.date,
        updated: document.updated,
        author: matter.author.clone(),
        tags: matter.tags.clone(),
        is_post,
        is_generated: document.file.is_empty(),
        language: document.language,
        translations,
        feed_html: if is_fed { rewrite_links(&document.content.html, absolute) } else { String::new() },
    })
}

#[cfg(test)]
mod tests;
