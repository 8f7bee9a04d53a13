//! Loads a site's folder: reads sources, assets and theme, and builds a [`Site`] or reports all faults.
//!
//! [`LoadCache`] stores each intermediate result with its inputs. A reload repeats only the steps whose
//! inputs have changed.

use std::path::Path;
use std::sync::Arc;

use super::brand::BrandCache;
use super::content::{Bodies, Body, Content};
use super::document::{Document, PageKind, ParsedSource, Tag, read_documents, served_path};
use super::file::{Blob, Cache, File};
use super::file_list::FileChanged;
use super::form_page::{FormPage, FormPages};
use super::highlight::Highlighter;
use super::html::{id_attributes, rewrite_links};
use super::language::Language;
use super::layout::{ListItem, PageIndex, RelatedPages, SiteContext, TemplateContext};
use super::link::LinkOrigin;
use super::live_reload::add_reload_script;
use super::maps::{HashMap, HashSet};
use super::markdown::{self, BodyFacts, BodyWarning, RenderedBody};
use super::media_type::{media_type, media_type_of};
use super::options::{PageForm, PagesOptions};
use super::parallel::in_parallel;
use super::path::{self, encode};
use super::path_registry::{Anchors, CheckedLinks, LinkUse, PathRegistry, check_links};
use super::plain_page::{insert_plain_pages, plain_form_page};
use super::prebuilt::{self, BuildCache, Prebuilt};
use super::publication::{Publication, PublicationResult};
use super::redirects::{self, CompiledRedirects};
use super::search::{self, SearchCache, SearchDocument};
use super::site::{FEED_LENGTH, Page, PageSummary, Redirect, Role, Site, SiteEntry};
use super::site_files::{Asset, FileCache, SiteFiles, SourceFile};
use super::structure::{Structure, StructureInputs};
use super::theme::{CompiledTheme, Theme};
use super::translations::LanguageLink;
use super::variants::insert_variants;
use super::{twin, words};
use crate::fault::{Fault, Severity};
use frontdesk_process::allocator;
use frontdesk_process::panics::{self, Part};

#[derive(Debug)]
pub struct LoadResult {
    /// `None` if any fault is an error.
    pub site: Option<Site>,
    /// Errors and warnings, sorted by place.
    pub faults: Vec<Fault>,
    /// The options. A missing title or description is taken from the build's home page.
    pub options: PagesOptions,
    /// The files that are not published.
    pub publication: PublicationResult,
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
    parsed: HashMap<String, ParsedSource>,
    templates: Option<Arc<CompiledTheme>>,
    /// The structure of the last load that rendered its bodies. `bodies` are valid for its link catalog.
    structure: Option<Arc<Structure>>,
    bodies: Bodies,
    /// The data that pages share, with the structure from which it was created.
    shared: Option<(Arc<Structure>, Arc<SiteContext>)>,
    pages: HashMap<String, RenderedPage>,
    links: CheckedLinks,
    /// In the order of the site's languages.
    search: Vec<SearchCache>,
}

#[derive(Debug)]
struct RenderedPage {
    shared: Arc<SiteContext>,
    structure: Arc<Structure>,
    /// The index of the page's document among all of the structure's documents.
    index: usize,
    content: Content,
    view: RelatedPages,
    page: Page,
    anchors: Arc<HashSet<Box<str>>>,
    /// The warning about a panic of the page's template.
    defect: Option<Fault>,
}

/// Sorts faults by place, and removes duplicates. Returns whether none of them is an error.
fn sort_faults(faults: &mut Vec<Fault>) -> bool {
    faults.sort_unstable_by(|a, b| (&a.place, a.line, &a.message).cmp(&(&b.place, b.line, &b.message)));
    faults.dedup();
    faults.iter().all(|fault| fault.severity != Severity::Error)
}

fn is_same_folder(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// The result for a build without Markdown pages.
fn load_build_alone(
    build: Prebuilt,
    options: &PagesOptions,
    forms: &[PageForm],
    publication: PublicationResult,
    mut faults: Vec<Fault>,
) -> LoadResult {
    let mut names = PathRegistry::default();
    names.exclusions.clone_from(&publication.exclusions);
    options.reserved.iter().for_each(|path| names.reserve(path));
    // Ignore faults in the build's paths: they do not matter on a site without other pages.
    build.register(&mut names, &mut Vec::new());
    let redirects = redirects::compile(&options.redirects, &mut names, &mut faults);
    faults.extend(check_links(&redirect_links(&redirects), &names, &HashMap::default()));
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
    LoadResult { site, faults, options: options.clone(), publication }
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
                publication: PublicationResult::default(),
            })
        })
    }

    fn load_once(
        &mut self,
        folder: &Path,
        options: &PagesOptions,
        forms: &[PageForm],
    ) -> Result<LoadResult, FileChanged> {
        panics::inject("site", "");
        let mut faults = Vec::new();
        let publication_options = options.publication.clone();
        let mut publication = Publication::new(&publication_options);
        let mut build = options
            .build
            .as_ref()
            .map(|build| self.build.load(build, options, &mut publication, &mut faults))
            .transpose()?;
        let options = &build.as_ref().map_or_else(|| options.clone(), |build| build.complete(options));
        // A folder `pages` in the build is a part of it.
        let has_sources = folder.join("pages").is_dir()
            && options.build.as_ref().is_none_or(|build| !is_same_folder(&build.folder, folder));
        if let Some(build) = build.take_if(|_| !has_sources) {
            let publication = publication.finish(&mut faults);
            return Ok(load_build_alone(build, options, forms, publication, faults));
        }
        let tags = options.language_tags();
        let served_path = |file: &str| served_path(file, &tags);
        let mut files =
            SiteFiles::read(folder, &served_path, &mut publication, &mut self.files, &mut faults)?;
        let publication = publication.finish(&mut faults);
        let languages =
            Language::list(options, words::load(&tags, &files.theme, &options.words, &mut faults));
        let theme = Theme::new(files.theme.iter().cloned());
        self.discard_other_languages(&tags);
        let sources = read_documents(&files.sources, options, &mut self.parsed, &mut faults)?;
        let inputs =
            StructureInputs::new(options, forms, languages, sources, &files, &publication.exclusions);
        let structure = self.update_structure(inputs, &files, &theme, build.as_ref());
        faults.extend(structure.faults.iter().cloned());
        self.render_bodies(&structure, &files.sources, &mut faults)?;
        self.structure = Some(structure.clone());
        files.sources.clear();
        let indexes = panics::catch(Part::Content, || self.search_indexes(&structure));
        let indexes = indexes.unwrap_or_else(|panic| {
            self.search.clear();
            faults.push(Fault::defect("pages/", &panic, "the site has no search"));
            Vec::new()
        });
        if self.pages.is_empty() && structure.documents().len() >= LARGE_SITE {
            allocator::release_memory();
        }

        let templates = theme.compile(&structure.asset_urls, self.templates.as_ref());
        faults.extend(templates.faults.iter().cloned());
        // If the theme does not compile, rendering would only repeat its faults.
        let pages = if templates.faults.is_empty() {
            self.templates = Some(templates.clone());
            let shared = self.update_shared(&structure, templates, !indexes.is_empty());
            self.lay_out_pages(&structure, &shared, &mut faults)
        } else {
            None
        };
        self.check_links(&structure, pages.is_some(), &mut faults);
        let form_pages = pages.as_ref().map(|_| self.form_pages(&structure, &mut faults));
        let site = pages.filter(|_| sort_faults(&mut faults)).map(|pages| {
            let mut site = self.compose_site(&structure, pages, files.verbatim);
            site.form_pages = form_pages.unwrap_or_default();
            if let Some(mut build) = build {
                // Written 404 pages replace those of the build, which replace generated ones.
                let written = site.languages.iter().zip(structure.without_url());
                let written = written.filter(|(_, page)| !page.file.is_empty());
                written.for_each(|(language, _)| build.remove_not_found(&language.prefix));
                build.insert_into(&mut site);
            }
            site.add_rules(structure.redirects.rules.clone());
            insert_plain_pages(&mut site, None, options);
            for (path, index) in indexes {
                let file = File::from_blob(media_type(&path), Cache::Revalidate, index);
                site.insert_resource(&path, file);
            }
            site
        });
        Ok(LoadResult { site, faults, options: options.clone(), publication })
    }

    /// Returns the structure of the last load if its inputs are equal and neither load has a build. Otherwise
    /// creates one.
    fn update_structure(
        &mut self,
        inputs: StructureInputs,
        files: &SiteFiles,
        theme: &Theme,
        build: Option<&Prebuilt>,
    ) -> Arc<Structure> {
        let is_same =
            |before: &&Arc<Structure>| build.is_none() && !before.has_build && before.inputs == inputs;
        let same = self.structure.as_ref().filter(is_same).cloned();
        same.unwrap_or_else(|| Arc::new(Structure::new(inputs, files, theme, build, &mut self.brand)))
    }

    /// Returns the data that all pages share. Reuses that of the last load if it is equal.
    fn update_shared(
        &mut self,
        structure: &Arc<Structure>,
        templates: Arc<CompiledTheme>,
        has_search: bool,
    ) -> Arc<SiteContext> {
        let before = self.shared.take();
        let is_same = |(of, before): &&(Arc<Structure>, Arc<SiteContext>)| {
            Arc::ptr_eq(of, structure) && before.was_created_with(&templates, has_search)
        };
        let same = before.as_ref().filter(is_same).map(|(_, shared)| shared.clone());
        let before = before.map(|(_, shared)| shared);
        let shared = same.unwrap_or_else(|| {
            SiteContext::new(structure.layout_inputs(), templates, has_search, before.as_ref())
        });
        self.shared = Some((structure.clone(), shared.clone()));
        shared
    }

    /// Checks the links of all pages, of their front matter, of the footer and of redirects. `has_anchors`
    /// says whether the pages are laid out.
    fn check_links(&mut self, structure: &Structure, has_anchors: bool, faults: &mut Vec<Fault>) {
        let laid_out = structure.documents().iter().filter(|_| has_anchors);
        let anchors = laid_out
            .filter_map(|document| Some((document.path.as_str(), &self.pages.get(&document.path)?.anchors)));
        let anchors: Anchors<'_> = anchors.collect();
        let names = &structure.names;
        self.links.forget_unless_targets_remain(names, &anchors);
        let bodies = structure.all().iter().map(|page| (page.file.as_str(), &self.bodies.of(page).facts));
        let mut links = collect_links(bodies.clone(), structure, &self.links);
        links.extend(redirect_links(&structure.redirects));
        let broken = check_links(&links, names, &anchors);
        self.links.record(names, &anchors, bodies, &broken);
        faults.extend(broken);
    }

    /// The site with all of its pages and files.
    fn compose_site(
        &self,
        structure: &Structure,
        mut pages: Vec<Page>,
        verbatim: Vec<(String, Blob)>,
    ) -> Site {
        let StructureInputs { options, languages, sources, .. } = &structure.inputs;
        let documents = structure.documents();
        let without_url = pages.split_off(documents.len());
        let mut site = new_site(options, without_url, languages);
        (site.scheduled, site.drafts) = (sources.scheduled.clone(), sources.drafts.clone());
        site.languages.clone_from(languages);
        site.entries.reserve(8 * pages.len() + verbatim.len() + 2 * structure.assets.len());
        insert_variants(
            &mut site,
            structure.assets.iter().filter_map(|asset| {
                Some((asset, structure.catalog.images.get(&asset.path)?.variants.as_slice()))
            }),
        );
        insert_files(&mut site, verbatim, &structure.assets);
        let mut posts = vec![0; languages.len()];
        for (document, page) in documents.iter().zip(pages) {
            let translations = self.pages.get(&document.path).map(|page| &*page.view.translations);
            let translations = translation_paths(translations.unwrap_or_default(), languages);
            let body = self.bodies.of(document);
            let summary = summarize(document, body, options, translations, &mut posts[document.language]);
            site.insert_page(&document.path, page, summary);
        }
        insert_aliases(&mut site, documents);
        site
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
        structure: &Structure,
        sources: &[SourceFile],
        faults: &mut Vec<Fault>,
    ) -> Result<(), FileChanged> {
        let sources: HashMap<&str, &SourceFile> =
            sources.iter().map(|source| (source.file.as_str(), source)).collect();
        let highlighter = Highlighter::default();
        let catalog = &structure.catalog;
        let before = self.structure.as_ref().map(|before| &before.catalog);
        let is_same_catalog = before.is_some_and(|before| std::ptr::eq(before, catalog) || before == catalog);
        // Render all bodies again if the base URL or the permitted hosts have changed: the checks for content
        // from other sites use them, and `lookups` does not record that.
        let has_same_hosts = before
            .is_some_and(|before| catalog.base_url == before.base_url && catalog.allowed == before.allowed);
        let written: Vec<(&Document, &SourceFile)> = structure
            .all()
            .iter()
            .filter_map(|document| Some((document, *sources.get(document.file.as_str())?)))
            .collect();
        // `None` means that the cached body is unchanged.
        let contents = in_parallel(&written, |(document, source)| {
            let place = LinkOrigin { file: &document.file, path: &document.path };
            let kept = self.bodies.by_file.get(&document.file);
            let same = kept.filter(|kept| {
                kept.hash == source.hash
                    && kept.path == document.path
                    && (is_same_catalog
                        || (has_same_hosts && kept.content.facts.lookups.are_current(place, catalog)))
            });
            if same.is_some() {
                return Ok(None);
            }
            let text = source.take_text()?;
            let blocks = kept.map(|kept| kept.content.blocks()).unwrap_or_default();
            let body = &text[document.body_at..];
            let first_line = document.body_line;
            let rendered = panics::catch(Part::Content, || {
                panics::inject("page", &document.file);
                Content::from(markdown::render(body, first_line, place, catalog, &highlighter, &blocks))
            });
            let from_source = |panic| RenderedBody::from_source(body, first_line, &panic).into();
            Ok(Some(rendered.unwrap_or_else(from_source)))
        });
        let contents: Vec<Option<Content>> = contents.into_iter().collect::<Result<_, _>>()?;
        for ((document, source), content) in written.iter().zip(contents) {
            if let Some(content) = content {
                let body = Body { hash: source.hash, path: document.path.clone(), content };
                self.bodies.by_file.insert(document.file.clone(), body);
            }
            for BodyWarning { line, message, hint } in &self.bodies.of(document).facts.warnings {
                faults.push(Fault::warning(&document.file, Some(*line), message).hint(*hint));
            }
        }
        if self.bodies.by_file.len() > written.len() {
            let files: HashSet<&str> = written.iter().map(|(document, _)| document.file.as_str()).collect();
            self.bodies.by_file.retain(|file, _| files.contains(file.as_str()));
        }
        Ok(())
    }

    /// The indexes of all listed pages and posts, one for each language, with their paths. Empty if the site
    /// has no search.
    fn search_indexes(&mut self, structure: &Structure) -> Vec<(String, Blob)> {
        let StructureInputs { options, languages, .. } = &structure.inputs;
        let mut listed: Vec<Vec<SearchDocument<'_>>> = vec![Vec::new(); languages.len()];
        for document in structure.documents() {
            let is_listed = !document.front_matter.unlisted && document.unpublished.is_none();
            if is_listed && !document.file.is_empty() {
                listed[document.language].push(SearchDocument {
                    path: encode(&document.path),
                    title: &document.front_matter.title,
                    description: document.front_matter.description.as_deref().unwrap_or_default(),
                    content: self.bodies.of(document),
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
    fn form_pages(&self, structure: &Structure, faults: &mut Vec<Fault>) -> FormPages {
        let shared = self.shared.as_ref().map(|(_, shared)| shared);
        let Some(shared) = shared.filter(|shared| shared.data.options.html_posts) else {
            return FormPages::default();
        };
        let (documents, forms) = (structure.documents(), &structure.inputs.forms);
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
                    let content = self.bodies.of(document);
                    let page = TemplateContext { shared, document, content, view };
                    let render = || page.render_answer();
                    let defect =
                        |panic| Fault::defect(&document.file, &panic, "the form's answers are plain pages");
                    Some(panics::catch(Part::Content, render).map_err(defect).flatten())
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

    /// Lays out all pages, in the order of the structure. `None` if any of them fails.
    fn lay_out_pages(
        &mut self,
        structure: &Arc<Structure>,
        shared: &Arc<SiteContext>,
        faults: &mut Vec<Fault>,
    ) -> Option<Vec<Page>> {
        let layout = PageIndex::new(structure.layout_inputs(), shared, &self.bodies);
        let all: Vec<(usize, &Document)> = structure.all().iter().enumerate().collect();
        let mut pages = Vec::with_capacity(all.len());
        let mut seen = HashSet::default();
        let is_large = self.pages.is_empty() && all.len() >= LARGE_SITE;
        for batch in all.chunks(LAYOUT_BATCH) {
            // `None` means that the cached page is unchanged.
            let new = in_parallel(batch, |(index, document)| {
                let content = self.bodies.of(document);
                let same = self.pages.get(&document.path);
                let same =
                    same.filter(|before| Arc::ptr_eq(&before.shared, shared) && before.content == *content);
                // Only lists of posts depend on the texts of other pages.
                let has_same_view = |before: &&RenderedPage| {
                    Arc::ptr_eq(&before.structure, structure)
                        && before.index == *index
                        && before.view.listing.is_empty()
                };
                if same.is_some_and(|before| has_same_view(&before)) {
                    return Ok(None);
                }
                let view = layout.related_pages(document);
                let same = same.filter(|before| {
                    before.view == view && has_same_context(document, &before.structure.all()[before.index])
                });
                let position = (structure, *index);
                if same.is_some() {
                    Ok(None)
                } else {
                    lay_out_page(position, content, view, shared).map(Some)
                }
            });
            for ((index, document), new) in batch.iter().zip(new) {
                let Ok(mut new) = new.map_err(|fault| faults.push(fault)) else { continue };
                if !seen.insert(document.path.as_str()) && new.is_none() {
                    // Another document with this path has replaced the cached page. The conflict has been
                    // reported.
                    let (content, view) = (self.bodies.of(document), layout.related_pages(document));
                    let page = lay_out_page((structure, *index), content, view, shared);
                    new = page.map_err(|fault| faults.push(fault)).ok();
                }
                if let Some(page) = new {
                    self.pages.insert(document.path.clone(), page);
                }
                let Some(page) = self.pages.get_mut(&document.path) else { continue };
                faults.extend(page.defect.clone());
                (page.structure, page.index) = (structure.clone(), *index);
                if let Some(kept) = self.bodies.by_file.get_mut(&document.file) {
                    // Take the text from the page, where it is a slice of the page's files, so that the
                    // other copy is freed. Take the facts from this load, because line numbers may have
                    // changed even if the text has not.
                    page.content.take_facts_of(&kept.content);
                    kept.content = page.content.clone();
                }
                pages.push(page.page.clone());
            }
            if is_large {
                allocator::release_memory();
            }
        }
        // Also forgets pages that could not be rendered, so that they do not keep an old structure in memory.
        if self.pages.len() > seen.len() {
            self.pages.retain(|path, _| seen.contains(path.as_str()));
        }
        (pages.len() == all.len()).then_some(pages)
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

/// Whether both documents produce the same template context.
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

/// All links in front matter, footer and the bodies that are not known to be intact, with file and line.
/// `bodies` are those of all documents.
fn collect_links<'a>(
    bodies: impl Iterator<Item = (&'a str, &'a Arc<BodyFacts>)>,
    structure: &'a Structure,
    checked: &CheckedLinks,
) -> Vec<LinkUse<'a>> {
    let pages = bodies.zip(&structure.links_of_matter).flat_map(|((file, facts), matter)| {
        let body = if checked.is_intact(file, facts) { &[][..] } else { &facts.links };
        let body = body.iter().map(|(target, line)| (target, Some(*line)));
        let links = body.chain(matter.iter().map(|(target, line)| (target, *line)));
        links.map(move |(target, line)| LinkUse { place: file, line, target })
    });
    let footer = structure.links_of_footer.iter();
    let footer = footer.map(|target| LinkUse { place: "frontdesk.toml", line: None, target });
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
fn insert_files(site: &mut Site, verbatim: Vec<(String, Blob)>, assets: &[Asset]) {
    let file = |media_type, cache, blob: &Blob| Arc::new(File::from_blob(media_type, cache, blob.clone()));
    for (name, blob) in verbatim {
        let path = format!("/{name}");
        let file = file(media_type_of(&name, &blob.bytes), Cache::Revalidate, &blob);
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
        let media_type = media_type(path);
        let name = path::decode(fingerprinted).unwrap_or_default();
        let named = file(media_type, Cache::Immutable, blob);
        site.entries.insert(name.into(), SiteEntry::File(named, Role::Asset));
        let plain = || SiteEntry::File(file(media_type, Cache::Revalidate, blob), Role::Asset);
        site.entries.entry(path.as_str().into()).or_insert_with(plain);
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

fn translation_paths(links: &[LanguageLink], languages: &[Language]) -> Vec<(usize, String)> {
    let index = |link: &LanguageLink| languages.iter().position(|language| language.tag == link.language);
    links.iter().filter_map(|link| Some((index(link)?, link.path.clone()))).collect()
}

/// Renders a document's HTML, composes its Markdown twin, and collects the anchors in the HTML. Fails if the
/// template does.
fn lay_out_page(
    (structure, index): (&Arc<Structure>, usize),
    content: &Content,
    view: RelatedPages,
    shared: &Arc<SiteContext>,
) -> Result<RenderedPage, Fault> {
    let document = &structure.all()[index];
    let template = TemplateContext { shared, document, content, view: &view };
    let options = &shared.data.options;
    let path = encode(&document.path).into_owned();
    let twin_path = encode(&path::twin_path(&document.path)).into_owned();
    let url = format!("{}{path}", options.base_url);
    let (html, defect) = match panics::catch(Part::Content, || template.render_html()) {
        Ok(html) => (html?, None),
        Err(panic) => {
            let fault = Fault::defect(&document.file, &panic, "the page is shown without the theme");
            (template.render_without_theme(), Some(fault))
        }
    };
    let is_list_of_tags = document.kind == PageKind::Tags;
    let item = |tag: &Tag| {
        let title = format!("{} ({})", tag.name, tag.count);
        ListItem { title, path: tag.path.clone(), ..ListItem::default() }
    };
    let tags: Vec<ListItem> =
        shared.language(document).tags.iter().filter(|_| is_list_of_tags).map(item).collect();
    let markdown = twin::compose(&template, &url, if is_list_of_tags { &tags } else { &view.listing });
    let mut link = format!("<{twin_path}>; rel=\"alternate\"; type=\"text/markdown\"");
    if document.kind == PageKind::Home {
        let guide = format!("<{}/llms.txt>", shared.language(document).language.prefix);
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
    let content = content.as_slices_of(&html.unencoded().bytes, &markdown.unencoded().bytes);
    let page = Page {
        html: Arc::new(html),
        markdown: Arc::new(markdown),
        path: path.into(),
        twin: twin_path.into(),
    };
    let (shared, structure, anchors) = (shared.clone(), structure.clone(), Arc::new(anchors));
    Ok(RenderedPage { shared, structure, index, content, view, page, anchors, defect })
}

/// A page's summary, or `None` for an unlisted or unpublished page. Increments `posts` for a listed post.
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
    let absolute = |link: &str, _| twin::make_absolute(link, base, &url);
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

#[cfg(test)]
mod tests;
