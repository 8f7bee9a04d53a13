//! Loads a site's folder: reads sources, assets and theme, and builds a [`Site`] or reports all faults.
//!
//! [`LoadCache`] stores each intermediate result with its inputs. A reload repeats only the steps whose
//! inputs have changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::brand::FontFacts;
use super::document::{ParsedSources, read_documents, served_path};
use super::file::{Blob, Cache, File};
use super::form_answer::FormPages;
use super::language::Language;
use super::link_check::{LinkChecker, check_links, redirect_links};
use super::no_script_form_pages::form_pages;
use super::options::{PageForm, PagesOptions};
use super::page_bodies::Bodies;
use super::path::encode;
use super::path_registry::PathRegistry;
use super::plain_page::{insert_plain_pages, plain_form_page};
use super::prebuilt::{self, BuildCache, CachePlaces, ConversionCache, Prebuilt};
use super::redirects;
use super::rendered_pages::{LaidOutPage, PageFiles};
use super::resources::check_robots_txt;
use super::search::{self, SearchCache, SearchDocument};
use super::site::Site;
use super::site_assembly::{SummaryCache, compose_site};
use super::site_context::{SiteContext, SiteData};
use super::site_files::{FileCache, SiteFiles};
use super::structure::{Structure, StructureInputs};
use super::theme::{CompiledTheme, TemplateInputs, Theme};
use super::words;
use crate::fault::{Fault, Severity};
use frontdesk_process::allocator;
use frontdesk_process::hash_maps::HashMap;
use frontdesk_process::memo::{ByPointer, Memo};
use frontdesk_process::page_spill::PageSpill;
use frontdesk_process::panics::{self, Part};
use frontdesk_publish::media_type::media_type;
use frontdesk_publish::{FileChanged, Publication, PublicationResult};

/// The result of a load. If it contains no site, the server keeps serving the current one.
#[derive(Debug)]
pub struct LoadResult {
    /// `None` if any fault is an error.
    pub site: Option<Site>,
    /// Errors and warnings, sorted by place and without duplicates.
    pub faults: Vec<Fault>,
    /// The options of the load. A missing title or description is taken from the build's home page.
    pub options: PagesOptions,
    /// The files that are not published.
    pub publication: PublicationResult,
}

/// Loads the site in `folder` and the build in the options, if any, and reports all faults at once.
///
/// `pages/**.md` become pages, and `posts/**.md` become blog posts. `assets/**` and the media files next to
/// pages get fingerprinted names. `static/**` is served unchanged, and `theme/**` replaces files in the
/// built-in theme. With a build, `folder` is read only if it has a folder `pages` and is not the build's
/// folder.
pub fn load(folder: &Path, options: &PagesOptions, forms: &[PageForm]) -> LoadResult {
    LoadCache::default().load(folder, options, forms)
}

/// The results of a folder's last load, which the next load reuses. Takes little memory, because rendered
/// bodies are shared with the last site.
#[derive(Debug, Default)]
pub struct LoadCache {
    files: FileCache,
    build: BuildCache,
    sources: ParsedSources,
    fonts: FontFacts,
    structure: Memo<Arc<StructureInputs>, Arc<Structure>>,
    bodies: Bodies,
    /// The search indexes, in the order of the site's languages.
    search: Vec<SearchCache>,
    templates: Memo<TemplateInputs, Arc<CompiledTheme>>,
    data: Memo<(ByPointer<Structure>, bool), Arc<SiteData>>,
    shared: Memo<(Arc<SiteData>, ByPointer<CompiledTheme>), Arc<SiteContext>>,
    pages: PageFiles,
    links: LinkChecker,
    summaries: SummaryCache,
}

/// The place of a fault that concerns all files of the site or the build, not a single file.
pub const SITE_FILES: &str = "the site's files";

/// Sorts faults by place, and removes duplicates. Returns whether none of them is an error.
fn sort_faults(faults: &mut Vec<Fault>) -> bool {
    faults.sort_unstable();
    faults.dedup();
    faults.iter().all(|fault| fault.severity != Severity::Error)
}

fn is_same_folder(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// The result for a build without Markdown pages, in the default language. Ignores conflicts between the
/// build's paths, and checks no links except those of redirects. Has no site if any fault is an error.
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
    // Ignore path conflicts within the build: they matter only on a site that has other pages.
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
        let mut site = Site::new(options, prebuilt::plain_not_found_page(&build.headers));
        site.shown_forms.clone_from(&build.forms);
        build.insert_into(&mut site, &mut faults);
        site.form_pages = form_pages;
        site.add_rules(redirects.rules);
        insert_plain_pages(&mut site, Some(&language), options);
        site
    });
    LoadResult { site, faults, options: options.clone(), publication }
}

impl LoadCache {
    /// An empty cache. Conversions of the pages of a build are read from `conversions`, and the pages of a
    /// large site are kept on disk in the first of `folders` whose file system supports unnamed files
    /// (`O_TMPFILE`) and has enough free space; without one, on the heap.
    pub fn new(conversions: Arc<ConversionCache>, folders: &[PathBuf]) -> Self {
        let spill = || Arc::new(PageSpill::new(folders.to_vec()));
        let places = CachePlaces { conversions: Some(conversions), spill: spill() };
        Self {
            build: BuildCache::new(places),
            bodies: Bodies::new(spill()),
            pages: PageFiles::new(spill()),
            ..Self::default()
        }
    }

    /// Forgets all results, for example because parts of them may not match each other after a panic. Keeps
    /// the conversions of a build's pages, and the storage on disk.
    pub fn clear(&mut self) {
        let Self { build, bodies, pages, .. } = std::mem::take(self);
        let (build, bodies) = (build.cleared(), bodies.cleared());
        *self = Self { build, bodies, pages: pages.cleared(), ..Self::default() };
    }

    /// Like [`load()`], but reads and renders only the files that have changed since the last load. If a file
    /// changes during the load, tries a second time; if one changes again, the result is an error.
    pub fn load(&mut self, folder: &Path, options: &PagesOptions, forms: &[PageForm]) -> LoadResult {
        // A file may change after its metadata was checked. The second attempt reads every file, so it does
        // not depend on metadata.
        let mut result = self.load_once(folder, options, forms).unwrap_or_else(|FileChanged| {
            self.files.invalidate();
            self.load_once(folder, options, forms).unwrap_or_else(|FileChanged| LoadResult {
                site: None,
                faults: vec![
                    Fault::error(SITE_FILES, None, "changed while they were being loaded, twice in a row").hint(
                        "once no program writes to the site's folder or to the build, repeat the command, or \
                         send a running server SIGHUP",
                    ),
                ],
                options: options.clone(),
                publication: PublicationResult::default(),
            })
        });
        let LoadResult { site, faults, options, .. } = &mut result;
        if let Some(site) = site {
            let spills = [self.build.spill(), self.bodies.spill(), self.pages.spill()];
            site.spills = spills.into_iter().cloned().collect();
        }
        faults.extend(site.as_ref().and_then(|site| check_robots_txt(site, options.signals)));
        sort_faults(faults);
        result
    }

    /// One attempt to load the site. Fails if a file changes between its listing and its last use. Other
    /// faults are in the result, which has no site if any of them is an error. If there is a build, but no
    /// folder `pages` outside of it, `load_build_alone` makes the result. The caller checks `robots.txt`.
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
            .map(|build| self.build.load(build, options, forms, &mut publication, &mut faults))
            .transpose()?;
        // Take a title or description that the configuration lacks from the home page of the build.
        let options = &build.as_ref().map_or_else(|| options.clone(), |build| build.complete(options));
        // A folder `pages` inside the build is a part of the build, not of the site.
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
        let sources = read_documents(&files.sources, options, &mut self.sources, &mut faults)?;
        let exclusions = &publication.exclusions;
        let inputs =
            StructureInputs::new(options, forms, languages, sources, &files, exclusions, build.is_some());
        let structure = self.structure.get(Arc::new(inputs), |inputs| {
            Arc::new(Structure::new(inputs.clone(), &files, &theme, build.as_ref(), &mut self.fonts))
        });
        faults.extend(structure.faults.iter().cloned());
        self.bodies.update(&structure, &files.sources, &mut faults)?;
        files.sources.clear();
        let indexes = panics::catch(Part::Content, || self.search_indexes(&structure));
        let indexes = indexes.unwrap_or_else(|panic| {
            self.search.clear();
            faults.push(Fault::defect(SITE_FILES, &panic, "the site has no search"));
            Vec::new()
        });
        if self.pages.needs_trimming(&structure) {
            allocator::release_memory();
        }

        let (pages, answers) = self.lay_out(&structure, &theme, !indexes.is_empty(), &mut faults);
        let is_valid = sort_faults(&mut faults);
        let site = pages.filter(|_| is_valid).map(|pages| {
            let (bodies, verbatim) = (&self.bodies, &files.verbatim);
            let mut site = compose_site(&structure, &pages, bodies, verbatim, &mut self.summaries);
            site.form_pages = answers;
            let of_build = build.iter().flat_map(|build| &build.forms);
            let shown = pages.iter().flat_map(|page| &page.forms).chain(of_build).copied();
            site.shown_forms = shown.collect::<BTreeSet<_>>().into_iter().collect();
            let showing = structure.documents().iter().zip(&pages).filter(|(_, page)| !page.forms.is_empty());
            site.form_paths = showing.map(|(page, _)| encode(&page.path).into_owned()).collect();
            if let Some(mut build) = build {
                // A 404 page in the site's folder replaces the build's, which replaces a generated one.
                let written = site.languages.iter().zip(structure.without_url());
                let written = written.filter(|(_, page)| !page.file.is_empty());
                written.for_each(|(language, _)| build.remove_not_found(&language.prefix));
                build.insert_into(&mut site, &mut faults);
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

    /// Lays out all pages, checks their links, and renders the pages that answer forms. If the theme or any
    /// page fails, returns `None` and no answers.
    fn lay_out(
        &mut self,
        structure: &Arc<Structure>,
        theme: &Theme,
        has_search: bool,
        faults: &mut Vec<Fault>,
    ) -> (Option<Vec<Arc<LaidOutPage>>>, FormPages) {
        let inputs = (theme.template_hashes(), structure.asset_urls.clone());
        let templates = self.templates.get(inputs, |(_, urls)| Arc::new(theme.compile(urls.clone())));
        faults.extend(templates.faults.iter().cloned());
        let inputs = (ByPointer(structure.clone()), has_search);
        let data = self.data.get(inputs, |(of, has_search)| Arc::new(SiteData::new(&of.0, *has_search)));
        let shared = self.shared.get((data, ByPointer(templates.clone())), |(data, templates)| {
            Arc::new(SiteContext::new(data.clone(), templates.0.clone()))
        });
        // If the theme does not compile, rendering would only repeat its faults.
        let compiles = templates.faults.is_empty();
        let pages =
            compiles.then(|| self.pages.update(structure, &shared, &mut self.bodies, faults)).flatten();
        faults.extend(self.links.check(structure, &self.bodies, pages.as_deref().unwrap_or_default()));
        let answers = pages.as_ref().map(|pages| form_pages(structure, &shared, pages, &self.bodies, faults));
        (pages, answers.unwrap_or_default())
    }

    /// The search indexes, one for each language, with their paths. They contain the listed and published
    /// pages and posts that have a source. Empty if the options switch search off or, if they leave it open,
    /// if there are fewer than [`search::MIN_PAGES`] such pages.
    fn search_indexes(&mut self, structure: &Structure) -> Vec<(String, Blob)> {
        let StructureInputs { options, languages, .. } = &*structure.inputs;
        let mut listed: Vec<Vec<SearchDocument<'_>>> = vec![Vec::new(); languages.len()];
        for document in structure.documents() {
            let is_listed = !document.front_matter.unlisted && document.unpublished.is_none();
            if is_listed && !document.file.is_empty() {
                listed[document.language].push(SearchDocument {
                    path: encode(&document.path),
                    title: &document.front_matter.title,
                    description: document.front_matter.description.as_deref().unwrap_or_default(),
                    content: self.bodies.of(document),
                    spill: Some(self.bodies.spill()),
                });
            }
        }
        let count = listed.iter().map(Vec::len).sum::<usize>();
        if !options.search.unwrap_or(count >= search::MIN_PAGES) {
            return Vec::new();
        }
        self.search.resize_with(languages.len(), SearchCache::default);
        let indexes = self.search.iter_mut().zip(&listed).map(|(cache, listed)| cache.build(listed));
        languages.iter().map(Language::search_index_path).zip(indexes).collect()
    }
}

#[cfg(test)]
mod tests;
