//! Reads a build, the output folder of a site generator, and converts each page to Markdown. The HTML is
//! served unchanged, unless the options add a link to the Markdown or the reload script. Files in the build
//! take precedence over everything that is generated.

mod asset_files;
mod base_path_and_redirect_faults;
mod boilerplate;
mod conversion;
mod conversion_cache;
mod converter;
mod duplicates_by_canonical;
mod encoded_names;
mod form_control_check;
mod forms;
mod home_page_metadata;
mod html_extensions;
mod html_pages;
mod page_headers;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blake3::Hash;
use frontdesk_convert::{Metadata, common_site_name, forbids_index, title_ends, title_without};
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};
use jiff::civil::Date;

use self::base_path_and_redirect_faults::{report_base_path, report_shadowed};
use self::boilerplate::find_boilerplate;
use self::conversion::{Conversion, Facts, Shared};
pub(super) use self::conversion_cache::CachePlaces;
pub use self::conversion_cache::ConversionCache;
use self::converter::PageConverter;
use self::duplicates_by_canonical::find_originals;
use self::encoded_names::{decode_names, redirect_written_names};
use self::forms::FormTexts;
use self::html_pages::{HtmlPage, separate_fragments};
use self::page_headers::{HTML_TYPES, apply_to_rewrites, html_headers};
use super::file::{Blob, Cache, File, document_version, noindex_header};
use super::header_rules::{at_path, restrict_content_type, with_headers, with_noindex};
use super::live_reload::{add_reload_script, end_of_head, insert_at};
use super::options::{BuildOptions, PageForm, PagesOptions};
use super::path::encode;
use super::path_registry::PathRegistry;
use super::redirects::MAX_HOPS;
use super::rules::page_paths::{not_found_folder, redirect_names, twin_names};
use super::rules::robots_rules::RobotsRules;
use super::rules::rule_files::read_rules;
use super::rules::{HeaderRule, RedirectRule, RuleList, RulesDialect, headers_for, parse_redirects};
use super::site::{Page, PageSummary, Redirect, Role, Site, SiteEntry};
use super::site_files::{BuildFile, FileCache, HOME_PAGES, is_html, read_build};
use crate::fault::Fault;
use frontdesk_process::memo::MemoMap;
use frontdesk_process::page_spill::PageSpill;
use frontdesk_process::panics::{self, Panic, Part};
use frontdesk_process::parallel::in_parallel;
use frontdesk_publish::{FileChanged, MAX_FILE_BYTES, Publication, find_template_syntax};

/// Whether `folder` is a generator's output: it has a home page, and [`find_source`] finds no source in it.
pub fn is_build(folder: &Path) -> bool {
    has_home_page(folder) && find_source(folder).is_none()
}

/// Whether `folder` contains a file `index.html` or `index.htm`, or a rule for `/` in `_redirects`, as the
/// builds of sites in several languages do. `false` for the empty path.
pub fn has_home_page(folder: &Path) -> bool {
    let is_redirected = || {
        let rules = fs::read_to_string(folder.join("_redirects")).unwrap_or_default();
        applies_to(&parse_redirects(&rules, RulesDialect::Netlify, "_redirects", &mut Vec::new()), "/")
    };
    !folder.as_os_str().is_empty()
        && (HOME_PAGES.iter().any(|name| folder.join(name).is_file()) || is_redirected())
}

/// Whether one of the rules applies to this path and has neither placeholders nor query parameters.
fn applies_to(rules: &[RedirectRule], path: &str) -> bool {
    rules.iter().any(|rule| rule.literal_paths().iter().any(|literal| literal == path))
}

/// Finds a Markdown file (`*.md`) below `pages` in `folder` without its HTML beside it: the source of a page,
/// as in a site's folder. In a build, such a folder has the HTML of each Markdown file. Returns the file's
/// path relative to `folder`, or `None`. Skips folders that cannot be read.
pub fn find_source(folder: &Path) -> Option<PathBuf> {
    let mut folders = vec![PathBuf::from("pages")];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(folder.join(&inner)).into_iter().flatten().flatten() {
            let name = inner.join(entry.file_name());
            // Symbolic links to folders are not followed, so they cannot form a loop.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(name);
            } else if name.extension().is_some_and(|extension| extension == "md") {
                let is_index = name.file_stem().is_some_and(|stem| stem == "index");
                let html = [
                    Some(name.with_extension("html")),
                    Some(name.with_extension("").join("index.html")),
                    name.parent().filter(|_| is_index).map(|page| page.with_added_extension("html")),
                ];
                if !html.into_iter().flatten().any(|html| folder.join(html).is_file()) {
                    return Some(name);
                }
            }
        }
    }
    None
}

/// The results of a build's last load, which the next load reuses.
#[derive(Debug, Default)]
pub(super) struct BuildCache {
    files: FileCache,
    /// The conversion of each page on its own, including the blocks that other pages share. If the conversion
    /// panicked: the result of [`Conversion::unconverted`], and the panic.
    alone: MemoMap<Hash, (Conversion, Option<Panic>)>,
    /// The conversion of each page without the blocks of links and the site name that it shares with others,
    /// and the panic of this or the first conversion.
    without_shared: MemoMap<Hash, (Conversion, Option<Panic>)>,
    /// The input hashes of the conversions that the cache on disk lacks.
    uncached: HashSet<Hash>,
    places: CachePlaces,
}

/// The pages, files and rules of a build.
#[derive(Debug)]
pub(super) struct Prebuilt {
    /// The pages: the home page first, and the others sorted by path.
    pages: Vec<PrebuiltPage>,
    /// Files by their decoded paths.
    files: BTreeMap<String, Arc<File>>,
    /// The 404 pages, by the decoded paths of their folders without a trailing slash. The folder is empty for
    /// the 404 page that applies to the whole site.
    not_found: Vec<(String, Page)>,
    /// The rules of `_redirects`.
    pub redirects: Vec<RedirectRule>,
    /// The rules of `_headers`.
    pub headers: RuleList<HeaderRule>,
    /// The names of the site's forms that the pages show.
    pub forms: Vec<&'static str>,
    /// The path under which the build is served, with a slash at both ends.
    mount: String,
    /// The site's name, if it can be derived from the titles of the pages.
    site_name: Option<String>,
    /// The percent-encoded names of files on disk, each with its decoded name.
    decoded_names: Vec<(String, String)>,
}

#[derive(Debug)]
struct PrebuiltPage {
    /// The name of the HTML file in the build.
    name: String,
    /// The decoded path.
    path: String,
    page: Page,
    summary: Option<PageSummary>,
    metadata: Metadata,
    /// The decoded paths of the page's Markdown.
    twins: Vec<String>,
    /// The decoded paths that redirect to the page.
    redirects: Vec<String>,
}

impl BuildCache {
    /// An empty cache. Later loads keep conversions and large bodies at `places`.
    pub fn new(places: CachePlaces) -> Self {
        Self { places, ..Self::default() }
    }

    /// Returns an empty cache that keeps its results at the same places.
    #[must_use]
    pub fn cleared(self) -> Self {
        Self::new(self.places)
    }

    /// The storage that holds the pages of a large build on disk.
    pub fn spill(&self) -> &Arc<PageSpill> {
        &self.places.spill
    }

    /// Reads the published files of the build and its rules, and converts its pages. Reuses the results of
    /// the last load for unchanged pages. Fails if a file changes in the meantime; all other problems are
    /// faults.
    pub fn load(
        &mut self,
        build: &BuildOptions,
        options: &PagesOptions,
        forms: &[PageForm],
        publication: &mut Publication<'_>,
        faults: &mut Vec<Fault>,
    ) -> Result<Prebuilt, FileChanged> {
        let served_path = |name: &str| format!("{}{name}", build.mount);
        let spill = &self.places.spill;
        let mut files = read_build(&build.folder, &served_path, publication, &mut self.files, spill, faults)?;
        let decoded_names = decode_names(&mut files);
        report_base_path(&files, &build.mount, faults);
        let (redirects, headers) = read_rules(&build.folder, build.rules, MAX_FILE_BYTES, faults);
        let has_home_page = files.iter().any(|file| HOME_PAGES.contains(&&*file.name));
        if !has_home_page && !applies_to(&redirects, &build.mount) {
            let fault = Fault::error("index.html", None, "the build has no home page");
            let missing = || format!("let the generator write an index.html to {}", build.folder.display());
            faults.push(fault.hint(publication.explain("index.html").unwrap_or_else(missing)));
        }
        let (html, others): (Vec<BuildFile>, _) = files.into_iter().partition(|file| is_html(&file.name));
        let (pages, fragments) = separate_fragments(&html, &others, build, options, spill, faults);
        let mut prebuilt = Prebuilt {
            pages: Vec::with_capacity(pages.len()),
            files: asset_files::serve(&others, &fragments, &build.mount, &headers),
            not_found: Vec::new(),
            redirects,
            headers: RuleList::default(),
            forms: Vec::new(),
            mount: build.mount.clone(),
            site_name: None,
            decoded_names,
        };
        let converted = self.convert_pages(&pages, build, &forms::texts(forms), faults);
        let shown = pages.iter().zip(&converted).map(|(page, it)| (page.name(), &it.facts.forms[..]));
        prebuilt.forms = forms::find_forms(shown, forms, &options.form_set, faults);
        let shown = pages.iter().zip(&converted).map(|(page, it)| (page, &it.facts.controls[..]));
        faults.extend(form_control_check::find_faults(shown, forms));
        prebuilt.remove_sources(&pages, &converted, faults);
        let site_name = common_site_name(converted.iter().map(|page| page.facts.declared_title.as_deref()));
        let names = prebuilt.assign_names(&pages, &options.reserved);
        let context = ComposeContext {
            build,
            options,
            headers: &headers,
            site_name: site_name.as_deref(),
            robots: prebuilt.robots_rules(),
            spill: &self.places.spill,
        };
        let originals = find_originals(&pages, &converted, &build.mount, |page| context.withholds(page));
        let all: Vec<_> = pages.iter().zip(converted).zip(names.into_iter().zip(originals)).collect();
        let pages = in_parallel(&all, |((source, converted), (names, original))| {
            // `assign_names` puts the path of the build's own Markdown file first.
            let written = prebuilt.files.get(&names.0[0]).cloned();
            compose_page(source, converted, written, names.clone(), original.as_deref(), &context)
        });
        self.share_markdown(&pages);
        for page in pages {
            match not_found_folder(&page.name) {
                Some("") => prebuilt.not_found.push((String::new(), page.page)),
                // A folder's 404 page may be an article about the status 404, so also serve it at its path.
                Some(folder) => {
                    prebuilt.not_found.push((format!("{}{folder}", build.mount), page.page.clone()));
                    prebuilt.pages.push(page);
                }
                None => prebuilt.pages.push(page),
            }
        }
        prebuilt
            .pages
            .sort_unstable_by(|a, b| (a.path != build.mount, &a.path).cmp(&(b.path != build.mount, &b.path)));
        Ok(Prebuilt { headers, site_name, ..prebuilt })
    }

    /// Converts the pages in parallel: first each on its own, then again without the blocks of links and the
    /// site's name that many pages share. A page without these keeps its first result. Reuses results whose
    /// inputs are unchanged, and notes those that the cache on disk lacks. Reports incomplete conversions,
    /// panics, and a selector in `convert.main` that matches nothing. If the first conversion panics, uses
    /// [`Conversion::unconverted`]; for the second conversion, see [`PageConverter::convert_again`].
    fn convert_pages(
        &mut self,
        pages: &[HtmlPage<'_>],
        build: &BuildOptions,
        forms: &FormTexts,
        faults: &mut Vec<Fault>,
    ) -> Vec<Conversion> {
        let converter = PageConverter::new(build, forms, &self.places);
        let alone = self.alone.get_all(
            pages,
            |page| page.name(),
            |page, _| converter.inputs(page, &Shared::default()),
            |page, inputs, _| {
                Ok::<_, Infallible>(match converter.convert(page, inputs, &Shared::default(), false) {
                    Ok(conversion) => (conversion, None),
                    Err(panic) => (Conversion::unconverted(page), Some(panic)),
                })
            },
        );
        let alone: Vec<_> = alone.into_iter().map(|Ok(conversion)| conversion).collect();
        let boilerplate = find_boilerplate(alone.iter().map(|(page, _)| &*page.facts));
        let site_name = common_site_name(alone.iter().map(|(page, _)| page.facts.declared_title.as_deref()));
        let is_named = |facts: &Facts| site_name.is_some() && facts.declared_title == site_name;
        let named = alone.iter().filter(|(page, _)| is_named(&page.facts)).count();
        let is_most = named >= 3 && named * 2 > alone.len();
        let both: Vec<_> = pages.iter().zip(alone).collect();
        let shared = |facts: &Facts| {
            let hashes = facts.link_blocks.iter().flatten().copied();
            let links = hashes.filter(|hash| boilerplate.contains(hash)).collect();
            let site_name = site_name.clone().filter(|name| depends_on(facts, name));
            Shared { links, has_common_title: is_most && site_name.is_some(), site_name }
        };
        let results = self.without_shared.get_all(
            &both,
            |(page, _)| page.name(),
            |(page, (alone, _)), _| converter.inputs(page, &shared(&alone.facts)),
            |(page, first @ (alone, panic)), inputs, _| {
                let shared = shared(&alone.facts);
                // `share_markdown` may have dropped the Markdown of the first conversion.
                let is_alone = panic.is_some() || (shared == Shared::default() && alone.markdown.is_some());
                if is_alone {
                    return Ok::<_, Infallible>(first.clone());
                }
                Ok(converter.convert_again(page, inputs, &shared, alone))
            },
        );
        let results: Vec<_> = results.into_iter().map(|Ok(converted)| converted).collect();
        for ((page, _), (result, defect)) in both.iter().zip(&results) {
            faults.extend(match defect {
                Some(panic) => Some(result.defect(page, panic)),
                None if page.is_shell => None,
                None => result.facts.problem.as_ref().map(|problem| problem.fault(&page.file.name)),
            });
        }
        self.alone.keep_only(pages.iter().map(HtmlPage::name));
        self.without_shared.keep_only(pages.iter().map(HtmlPage::name));
        self.uncached.extend(converter.into_uncached());
        if !build.main.is_empty() && !results.iter().any(|(page, _)| page.facts.is_selected) {
            let message =
                format!("`convert.main`: the selector `{}` matches nothing on any page", build.main);
            let fault = Fault::warning("frontdesk.toml", None, message);
            faults.push(fault.hint("try a selector with `frontdesk convert FILE --selector …`"));
        }
        results.into_iter().map(|(conversion, _)| conversion).collect()
    }

    /// Lets each used conversion share its Markdown with the page's file, which saves a copy, and drops the
    /// Markdown of unused conversions. Then tells the cache on disk which conversions the site uses.
    fn share_markdown(&mut self, pages: &[PrebuiltPage]) {
        for page in pages {
            let file = &page.page.markdown.unencoded().bytes;
            let Some((used, (conversion, _))) = self.without_shared.get_mut(&page.name) else { continue };
            if let Some(text) = &conversion.markdown
                && file.ends_with(text)
            {
                conversion.markdown = Some(file.slice(file.len() - text.len()..));
            }
            if let Some((inputs, (alone, _))) = self.alone.get_mut(&page.name) {
                alone.markdown = conversion.markdown.clone().filter(|_| inputs == used);
            }
        }
        let Some(cache) = &self.places.conversions else { return };
        let all = || {
            let both = self.alone.iter().chain(self.without_shared.iter());
            both.map(|(inputs, (conversion, _))| (inputs, conversion))
        };
        let uncached = all().filter(|(inputs, _)| self.uncached.contains(inputs));
        let uncached: HashMap<_, _> = uncached.map(|(inputs, it)| (*inputs, it.clone())).collect();
        cache.set_used(all().map(|(inputs, _)| *inputs).collect(), uncached);
        self.uncached.clear();
    }
}

/// The 404 page, in English, for a build that has none, with the headers of the rules for `/404.html` except
/// `Content-Type`.
pub(super) fn plain_not_found_page(rules: &RuleList<HeaderRule>) -> Page {
    let text = "There is nothing at this address.";
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Not found</title>\n<h1>Not found</h1>\n\
         <p>{text} <a href=\"/\">Home page</a></p>\n"
    );
    let markdown = format!("# Not found\n\n{text} All pages: [sitemap.md](/sitemap.md)\n");
    let file = |media_type, text: String| {
        let mut file =
            with_headers(File::new(media_type, Cache::Revalidate, text), Vec::new(), rules, "/404.html");
        file.headers.retain(|(name, _)| name != CONTENT_TYPE);
        Arc::new(file)
    };
    let (html, markdown) =
        (file("text/html; charset=utf-8", html), file("text/markdown; charset=utf-8", markdown));
    Page::new(html, markdown, "/404.html".into(), "/404.md".into())
}

/// The inputs of [`compose_page`] that are the same for all pages.
struct ComposeContext<'a> {
    build: &'a BuildOptions,
    options: &'a PagesOptions,
    headers: &'a RuleList<HeaderRule>,
    /// The name of the site, which is removed from titles.
    site_name: Option<&'a str>,
    robots: RobotsRules,
    spill: &'a PageSpill,
}

impl ComposeContext<'_> {
    /// Whether a page is a shell or an error page, or `robots.txt` or `_headers` keeps it out of indexes.
    fn withholds(&self, page: &HtmlPage<'_>) -> bool {
        let file_path = format!("{}{}", self.build.mount, page.name());
        let forbids = |(name, value): &(HeaderName, HeaderValue)| {
            name == X_ROBOTS_TAG && value.to_str().is_ok_and(forbids_index)
        };
        page.is_shell
            || self.robots.forbids(&page.path)
            || self.robots.forbids_file(&file_path)
            || headers_for(self.headers, &page.path).iter().any(forbids)
    }
}

/// Whether the Markdown of a page changes if `name` is the name of the site.
fn depends_on(page: &Facts, name: &str) -> bool {
    page.metadata
        .title
        .as_deref()
        .is_some_and(|title| title == name || page.has_title_as_heading && title_ends(title).contains(&name))
}

/// Composes both representations of a page. `written` is the build's own Markdown file for the page, which
/// replaces the converted Markdown. The first of `twins` is the main path of the Markdown, and `original` the
/// URL of the canonical page, if that is another one. A 404 page has no `Link` of its own. These pages have
/// no summary: 404 pages, shells, pages without a title other than the home page, those with an `original`,
/// and those that their metadata, headers or `robots.txt` exclude from indexes.
fn compose_page(
    source: &HtmlPage<'_>,
    converted: &Conversion,
    written: Option<Arc<File>>,
    (twins, redirects): (Vec<String>, Vec<String>),
    original: Option<&str>,
    context: &ComposeContext<'_>,
) -> PrebuiltPage {
    let &ComposeContext { build, options, headers: rules, site_name, .. } = context;
    let path = encode(&source.path).into_owned();
    let twin = encode(&twins[0]).into_owned();
    let mut metadata = converted.facts.metadata.clone();
    // An RFC 3339 timestamp begins with its date, which has ten characters.
    let date_of = |text: &Option<String>| text.as_ref()?.get(..10)?.parse::<Date>().ok();
    let (published, modified) = (date_of(&metadata.published), date_of(&metadata.modified));
    let updated = modified.or(published).unwrap_or(source.file.changed);
    metadata.url = Some(source.url.clone());
    if let (Some(title), Some(name)) = (&mut metadata.title, site_name) {
        *title = title_without(title, name).to_owned();
    }
    metadata.modified = Some(updated.to_string());

    let mut html = html_file(source, &converted.facts, &twin, context);
    let mut canonical = format!("<{}>; rel=\"canonical\"", original.unwrap_or(&source.url));
    // Repeat the HTML's `noindex` as a header.
    let noindex = metadata.forbids_index.then(noindex_header);
    metadata.is_unlisted |= original.is_some() || context.withholds(source);
    if not_found_folder(source.name()).is_some() {
        html.link = None;
        // Keep only title and language. A 404 page is sent for any URL, so other metadata would mislead.
        let Metadata { title, language, .. } = metadata;
        metadata = Metadata { title, language, is_unlisted: true, ..Metadata::default() };
        canonical.clear();
    }
    let headers = std::mem::take(&mut html.headers);
    let mut html = with_headers(html, headers, rules, &source.path);
    restrict_content_type(&mut html, &HTML_TYPES);
    options.signals.add_to(&mut html);
    let written = written.map(|file| {
        let mut markdown = with_noindex(file.without_encodings(), noindex.is_some());
        restrict_content_type(&mut markdown, &["text/markdown"]);
        options.signals.add_to(&mut markdown);
        if markdown.is_like(&file) { file } else { Arc::new(markdown) }
    });
    let markdown = written.unwrap_or_else(|| {
        let version = document_version(converted.text());
        let guide = format!("{}/llms.txt", options.base_url);
        let front_matter = metadata.front_matter(&[("llms_txt", &guide), ("doc_version", &version)]);
        let text = front_matter + converted.text();
        let mut file = File::new("text/markdown; charset=utf-8", Cache::Revalidate, text);
        if !canonical.is_empty() {
            file = file.with_link(canonical);
        }
        let mut file = with_headers(file, noindex.clone().into_iter().collect(), rules, &source.path);
        restrict_content_type(&mut file, &["text/markdown"]);
        options.signals.add_to(&mut file);
        Arc::new(file)
    });
    let is_named = metadata.title.is_some() || source.path == build.mount;
    let title = metadata.title.clone().unwrap_or_else(|| source.path.clone());
    let summary = (is_named && !metadata.is_unlisted).then(|| PageSummary {
        path: path.clone(),
        twin: twin.clone(),
        title,
        description: metadata.description.clone(),
        date: published,
        updated,
        author: metadata.author.clone(),
        ..PageSummary::default()
    });
    let page = Page::new(Arc::new(html), markdown, path.into(), twin.into());
    let (name, path) = (source.file.name.clone(), source.path.clone());
    PrebuiltPage { name, path, page, summary, metadata, twins, redirects }
}

/// The HTML file of a page, with its `Link` and the other headers that pages of builds have. Adds the link
/// element and the reload script to the HTML if the options ask for them. A page whose head has no end tag
/// gets no link element.
fn html_file(
    source: &HtmlPage<'_>,
    facts: &Facts,
    twin: &str,
    &ComposeContext { build, options, spill, .. }: &ComposeContext<'_>,
) -> File {
    let mut link = format!("<{twin}>; rel=\"alternate\"; type=\"text/markdown\"");
    if source.path == build.mount {
        for more in &options.home_links {
            link.push_str(", ");
            link.push_str(more);
        }
    }
    let html = &source.file.blob.bytes;
    let changed = build.adds_link_element.then(|| add_link_element(html, twin)).flatten();
    let changed = if options.has_reload_script {
        Some(add_reload_script(changed.as_deref().unwrap_or(html)))
    } else {
        changed
    };
    let blob = changed.map_or_else(|| source.file.blob.clone(), |html| Blob::in_spill(html, spill));
    let mut html = File::from_blob(source.media_type, Cache::Revalidate, blob).with_link(link);
    html.headers = html_headers(&facts.policy);
    html
}

const X_ROBOTS_TAG: &str = "x-robots-tag";

/// The page's HTML with a link to its Markdown at the end of the head. `None` if the head has no end tag.
fn add_link_element(html: &[u8], twin: &str) -> Option<Vec<u8>> {
    let element = format!("<link rel=\"alternate\" type=\"text/markdown\" href=\"{twin}\">");
    Some(insert_at(html, end_of_head(html)?, element.as_bytes()))
}

impl Prebuilt {
    /// The rules of the build's `robots.txt`; none if no file of the build is served at `/robots.txt`.
    fn robots_rules(&self) -> RobotsRules {
        self.files.get("/robots.txt").map(|it| RobotsRules::parse(&it.unencoded().bytes)).unwrap_or_default()
    }

    /// The paths of each page's Markdown, and the paths that redirect to it. The first page that claims an
    /// additional path gets it; paths of files, pages and generated resources are taken. The path of a
    /// Markdown file in the build comes first, even if another page has it, too. A page without any path for
    /// its Markdown gets its own path with `.html.md`, even if that is taken.
    fn assign_names(&self, pages: &[HtmlPage<'_>], reserved: &[&str]) -> Vec<(Vec<String>, Vec<String>)> {
        let paths: HashSet<&str> = pages.iter().map(|page| &*page.path).collect();
        let mut claimed: HashSet<String> = HashSet::new();
        let mut claim = |mut names: Vec<String>| {
            names.retain(|name| {
                let is_taken = self.files.contains_key(name)
                    || paths.contains(name.as_str())
                    || reserved.contains(&name.as_str());
                !is_taken && claimed.insert(name.clone())
            });
            names
        };
        let names = pages.iter().map(|page| {
            let path = &page.path;
            let candidates = twin_names(path);
            let written = candidates.iter().find(|name| self.files.contains_key(*name)).cloned();
            let mut twins: Vec<String> = written.into_iter().chain(claim(candidates)).collect();
            if twins.is_empty() {
                twins.push(format!("{path}.html.md"));
            }
            (twins, claim(redirect_names(path, page.name())))
        });
        names.collect()
    }

    /// Removes Markdown files that would be the Markdown of a page, but are copies of its source with
    /// template syntax. Reports the first one, with the number of others. Also removes and reports each file
    /// in which the search for template syntax panics.
    fn remove_sources(&mut self, pages: &[HtmlPage<'_>], converted: &[Conversion], faults: &mut Vec<Fault>) {
        let mut sources = Vec::new();
        for (page, converted) in pages.iter().zip(converted) {
            for name in twin_names(&page.path) {
                let Some(file) = self.files.get(&name) else { continue };
                let text = String::from_utf8_lossy(&file.unencoded().bytes);
                let found = panics::catch(Part::Content, || {
                    panics::inject("template-syntax", &name);
                    find_template_syntax(&text, converted.text())
                });
                match found {
                    Ok(None) => continue,
                    Ok(Some(syntax)) => sources.push((name.clone(), syntax)),
                    Err(panic) => {
                        let place = name.strip_prefix(&*self.mount).unwrap_or(&name);
                        let consequence = "the Markdown of the page is made from its HTML";
                        faults.push(Fault::defect(place, &panic, consequence));
                    }
                }
                self.files.remove(&name);
            }
        }
        let Some((name, syntax)) = sources.first() else { return };
        let (place, kind) = (name.strip_prefix(&*self.mount).unwrap_or(name), syntax.kind.trim());
        let others = match sources.len() - 1 {
            0 => String::new(),
            1 => ", as does one other file".to_owned(),
            count => format!(", as do {count} other files"),
        };
        let message =
            format!("has template syntax (`{kind}`){others}; the Markdown of the page is made from its HTML");
        let hint = "the file looks like a copy of the page's source; leave such copies out of the build";
        faults.push(Fault::warning(place, Some(syntax.line), message).hint(hint));
    }

    /// Removes the build's 404 page for a folder, because the site has its own. The page of a folder other
    /// than the root stays at its own path.
    pub fn remove_not_found(&mut self, folder: &str) {
        self.not_found.retain(|(known, _)| known != folder);
    }

    /// Claims the paths of all files and pages in `names`, and reports conflicts. The other paths of pages
    /// become secondary ones, which cannot conflict.
    pub fn register(&self, names: &mut PathRegistry, faults: &mut Vec<Fault>) {
        let files = self.files.keys().map(|path| (path.as_str(), path.trim_start_matches('/')));
        let pages = self.pages.iter().map(|page| (page.path.as_str(), page.name.as_str()));
        for (path, place) in files.chain(pages) {
            names.claim_static(path, place, faults);
        }
        for page in &self.pages {
            page.twins.iter().chain(&page.redirects).for_each(|path| names.add_secondary(path.clone()));
        }
    }

    /// Inserts the pages, files and rules into a site. Pages, 404 pages and files replace those that the site
    /// already has. The other paths of pages, their converted Markdown, names with escapes on the disk and,
    /// below a mount, `/` and the mount without its final slash replace nothing. The rules precede those of
    /// the site, and forced ones replace entries. Reports rules that are circular or have no effect.
    pub fn insert_into(mut self, site: &mut Site, faults: &mut Vec<Fault>) {
        for (folder, page) in self.not_found {
            site.set_not_found(&folder, page);
        }
        site.header_rules.clone_from(&self.headers);
        for PrebuiltPage { path, page, summary, twins, redirects, .. } in self.pages {
            site.page_count += 1;
            site.list_page(summary);
            for twin in twins {
                let markdown = at_path(page.markdown.clone(), &self.headers, &twin);
                let entry = SiteEntry::File(markdown, Role::Twin(page.path.clone()));
                // Remove the build's Markdown file at this path, if any, and serve `page.markdown` instead.
                let is_own = self.files.remove(&twin).is_some();
                if is_own || site.entry_at(&twin).is_none() {
                    site.entries.insert(twin.into(), entry);
                }
            }
            for name in redirects {
                site.insert_if_free(&name, || SiteEntry::Redirect(Redirect::permanent(&*page.path)));
            }
            site.entries.insert(path.into(), SiteEntry::Page(page));
        }
        for (path, file) in self.files {
            site.entries.insert(path.into(), SiteEntry::File(file, Role::Asset));
        }
        redirect_written_names(site, &self.mount, &self.decoded_names);
        if self.mount != "/" {
            let to = || SiteEntry::Redirect(Redirect::permanent(encode(&self.mount)));
            for name in ["/", self.mount.trim_end_matches('/')] {
                site.insert_if_free(name, to);
            }
        }
        report_shadowed(&self.redirects, site, faults);
        apply_to_rewrites(site, &self.redirects, &self.headers);
        for (line, path) in site.add_rules(self.redirects) {
            let message = format!(
                "the rule is ignored for `{path}`: it leads back to this path, or through more than {MAX_HOPS} redirects"
            );
            faults.push(Fault::warning("_redirects", line, message));
        }
    }
}

#[cfg(test)]
mod tests;
