//! Reads a build, the output folder of a site generator, and converts each page to Markdown. The HTML is
//! served unchanged, unless the options add a link to the Markdown or the reload script. Files in the build
//! take precedence over everything that is generated.

mod boilerplate;
mod content_security_policy;
mod fingerprint;
mod forms;
mod html_pages;
mod rule_files;
mod source;
mod urls;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blake3::Hash;
use frontdesk_convert::{
    Converted, Embedded, Loss, Metadata, Options, Selector, convert, forbids_index, parse_url, title_ends,
    title_without,
};
use http::{HeaderName, HeaderValue};
use jiff::civil::Date;

use self::boilerplate::find_boilerplate;
use self::content_security_policy::content_security_policy;
use self::fingerprint::is_fingerprinted;
use self::forms::FormTexts;
use self::html_pages::{HtmlPage, separate_fragments};
use self::rule_files::read_rules;
use self::source::find_template_syntax;
use self::urls::{redirect_names, twin_names};
use super::file::{Blob, Cache, File, document_version};
use super::live_reload::{add_reload_script, end_of_head, insert_at};
use super::media_type::media_type_of;
use super::memo::MemoMap;
use super::options::{BuildOptions, PageForm, PagesOptions};
use super::parallel::in_parallel;
use super::path::encode;
use super::path_registry::PathRegistry;
use super::rules::{HeaderRule, RedirectRule, RuleList, headers_for};
use super::site::{Page, PageSummary, Redirect, Role, Site, SiteEntry};
use super::site_files::{BuildFile, FileCache, read_build};
use crate::fault::Fault;
use frontdesk_process::panics::{self, Panic, Part};
use frontdesk_publish::{FileChanged, Publication};

/// Whether `folder` is a build: it contains a file `index.html`, and no Markdown sources in `pages`. `false`
/// for the empty path.
pub fn is_build(folder: &Path) -> bool {
    has_home_page(folder) && find_source(folder).is_none()
}

/// Whether `folder` contains a file `index.html`, as every build does. `false` for the empty path.
pub fn has_home_page(folder: &Path) -> bool {
    !folder.as_os_str().is_empty() && folder.join("index.html").is_file()
}

/// Finds a Markdown file (`*.md`) below `pages` in `folder` without its HTML beside it: the source of a page,
/// as in a site's folder. In a build, such a folder has the HTML of each Markdown file. Returns the file's
/// path relative to `folder`, or `None`. Skips folders that cannot be read.
pub fn find_source(folder: &Path) -> Option<PathBuf> {
    let mut folders = vec![PathBuf::from("pages")];
    while let Some(inner) = folders.pop() {
        for entry in std::fs::read_dir(folder.join(&inner)).into_iter().flatten().flatten() {
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

/// The minimum number of pages whose titles must share a part for it to be the site's name.
const MIN_TITLES: usize = 3;

/// A page with scripts and fewer letters and digits than this probably needs its scripts to show its text.
const MIN_SHELL_LETTERS: usize = 30;

/// The results of a build's last load, which the next load reuses.
#[derive(Debug, Default)]
pub(super) struct BuildCache {
    files: FileCache,
    /// The conversion of each page on its own, including the blocks that other pages share. If the conversion
    /// panicked: the result of [`unconverted`], and the panic.
    alone: MemoMap<ConversionInputs, (Arc<Converted>, Option<Panic>)>,
    /// The conversion of each page without the parts that it shares with others.
    without_shared: MemoMap<(ConversionInputs, Shared), Arc<Converted>>,
}

/// The hash of the HTML, the URL, the selectors, and the forms.
type ConversionInputs = (Hash, String, String, String, FormTexts);

/// The parts of a page that belong to the site, because other pages have them too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Shared {
    /// Hashes of blocks of links.
    links: HashSet<u64>,
    /// The name of the site, if the title or the first-level heading of the Markdown contains it.
    site_name: Option<String>,
}

/// The pages, files and rules of a build.
#[derive(Debug)]
pub(super) struct Prebuilt {
    /// The home page first, then by path.
    pages: Vec<PrebuiltPage>,
    /// Files by their decoded paths.
    files: BTreeMap<String, Arc<File>>,
    /// The 404 pages, by the decoded paths of their folders without a trailing slash. The folder of the
    /// build's own one is empty: it applies to the whole site.
    not_found: Vec<(String, Page)>,
    /// The rules of `_redirects`.
    pub redirects: Vec<RedirectRule>,
    /// The names of the site's forms that the pages show.
    pub forms: Vec<&'static str>,
    /// The path under which the build is served, with a slash at both ends.
    mount: String,
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
        let files = read_build(&build.folder, &served_path, publication, &mut self.files, faults)?;
        if !files.iter().any(|file| file.name == "index.html") {
            let fault = Fault::error("index.html", None, "the build has no home page");
            let missing = || format!("let the generator write an index.html to {}", build.folder.display());
            faults.push(fault.hint(publication.explain("index.html").unwrap_or_else(missing)));
        }
        let (redirects, headers) = read_rules(&build.folder, build.rules, faults);
        let (html, others): (Vec<BuildFile>, _) =
            files.into_iter().partition(|file| urls::is_html(&file.name));
        let (pages, fragments) = separate_fragments(&html, build, options);
        let mut prebuilt = Prebuilt {
            pages: Vec::with_capacity(pages.len()),
            files: BTreeMap::new(),
            not_found: Vec::new(),
            redirects,
            forms: Vec::new(),
            mount: build.mount.clone(),
        };
        for file in others.iter().chain(fragments) {
            prebuilt.add_file(file, &headers);
        }
        let converted = self.convert_pages(&pages, build, &forms::texts(forms), faults);
        let shown = pages.iter().zip(&converted).map(|(page, it)| (page.file.name.as_str(), &it.forms[..]));
        prebuilt.forms = forms::find_forms(shown, forms, &options.form_set, faults);
        prebuilt.remove_sources(&pages, &converted, faults);
        let site_name = common_site_name(converted.iter().map(|page| page.declared_title.as_deref()));
        let names = prebuilt.assign_names(&pages, &options.reserved);
        let context = ComposeContext { build, options, headers: &headers, site_name: site_name.as_deref() };
        let all: Vec<_> = pages.iter().zip(converted).zip(names).collect();
        let pages = in_parallel(&all, |((source, converted), names)| {
            let written = prebuilt.files.get(&names.0[0]).cloned();
            compose_page(source, converted, written, names.clone(), &context)
        });
        for page in pages {
            match not_found_folder(&page.name) {
                Some("") => prebuilt.not_found.push((String::new(), page.page)),
                // It may be a page about the status 404, so it is also served at its own path.
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
        Ok(prebuilt)
    }

    /// Converts the pages in parallel: first each on its own, then again without what many pages share.
    /// Reports incomplete conversions and panics. A page whose conversion panics gets the result of
    /// [`unconverted`].
    fn convert_pages(
        &mut self,
        pages: &[HtmlPage<'_>],
        build: &BuildOptions,
        forms: &FormTexts,
        faults: &mut Vec<Fault>,
    ) -> Vec<Arc<Converted>> {
        // Invalid selectors were rejected when the configuration was read.
        let selector =
            |css: &str| Some(css).filter(|css| !css.is_empty()).and_then(|css| Selector::parse(css).ok());
        let base = Options {
            main: selector(&build.main),
            exclude: selector(&build.exclude),
            forms: forms.clone(),
            ..Options::default()
        };
        let run = |page: &HtmlPage<'_>, Shared { links: boilerplate, site_name }| {
            let url = parse_url(&page.url).ok();
            panics::catch(Part::Content, || {
                panics::inject("build-page", &page.file.name);
                let options = Options { url, boilerplate, site_name, ..base.clone() };
                Arc::new(forms::with_all_forms(convert(&page.html, &options), forms))
            })
        };
        let inputs = |page: &HtmlPage<'_>| {
            let selectors = (build.main.clone(), build.exclude.clone());
            (page.file.blob.hash, page.url.clone(), selectors.0, selectors.1, forms.clone())
        };
        let alone = self.alone.get_all(
            pages,
            |page| page.name(),
            |page, _| inputs(page),
            |page, _, _| match run(page, Shared::default()) {
                Ok(converted) => Ok::<_, Infallible>((converted, None)),
                Err(panic) => Ok((Arc::new(unconverted(page)), Some(panic))),
            },
        );
        let alone: Vec<_> = alone.into_iter().map(|Ok(converted)| converted).collect();
        let boilerplate = find_boilerplate(alone.iter().map(|(page, _)| &**page));
        let site_name = common_site_name(alone.iter().map(|(page, _)| page.declared_title.as_deref()));
        let both: Vec<_> = pages.iter().zip(&alone).collect();
        let results = self.without_shared.get_all(
            &both,
            |(page, _)| page.name(),
            |(page, (alone, _)), _| {
                let hashes = alone.link_blocks.iter().flatten().copied();
                let links = hashes.filter(|hash| boilerplate.contains(hash)).collect();
                let site_name = site_name.clone().filter(|name| depends_on(alone, name));
                (inputs(page), Shared { links, site_name })
            },
            |(page, (alone, _)), (_, shared), _| {
                let cleaned = (*shared != Shared::default()).then(|| run(page, shared.clone()).ok());
                // If the second conversion panics, the first one is used.
                Ok::<_, Infallible>(cleaned.flatten().unwrap_or_else(|| alone.clone()))
            },
        );
        let results: Vec<Arc<Converted>> = results.into_iter().map(|Ok(converted)| converted).collect();
        for ((page, (_, defect)), result) in both.iter().zip(&results) {
            let consequence = "the page's Markdown only links to its HTML";
            faults.extend(match defect {
                Some(panic) => Some(Fault::defect(&page.file.name, panic, consequence)),
                None => conversion_fault(page, result),
            });
        }
        self.alone.keep_only(pages.iter().map(HtmlPage::name));
        self.without_shared.keep_only(pages.iter().map(HtmlPage::name));
        if !build.main.is_empty() && !results.iter().any(|page| page.is_selected) {
            let message =
                format!("`convert.main`: the selector `{}` matches nothing on any page", build.main);
            let fault = Fault::warning("frontdesk.toml", None, message);
            faults.push(fault.hint("try a selector with `frontdesk convert FILE --selector …`"));
        }
        results
    }
}

/// The result for a page whose conversion panicked: Markdown that links to the HTML. The page's inline code
/// is unknown. `has_policy` prevents a content security policy that would block it.
fn unconverted(page: &HtmlPage<'_>) -> Converted {
    Converted {
        metadata: Metadata { title: Some(page.path.clone()), ..Metadata::default() },
        embedded: Embedded { has_policy: true, ..Embedded::default() },
        forms: Vec::new(),
        markdown: format!("This page is available as HTML: <{}>\n", page.url),
        link_blocks: Vec::new(),
        declared_title: None,
        has_title_as_heading: false,
        is_selected: false,
        page_letters: 0,
        is_truncated: false,
        loss: Loss::default(),
        omissions: Vec::new(),
    }
}

/// A warning if text that readers of the page see is missing from its Markdown, or if there is hardly any
/// text. At most one, the first that applies. Pages that forbid indexing are only checked for missing text.
fn conversion_fault(page: &HtmlPage<'_>, converted: &Converted) -> Option<Fault> {
    let fault = |message: String| Fault::warning(&page.file.name, None, message);
    if converted.is_truncated {
        let message = "the page is too large or too deeply nested to be converted completely";
        return Some(fault(message.to_owned()));
    }
    if converted.loss.letters > 0 {
        let Loss { letters, of, first, element, rule } = &converted.loss;
        let reason = rule.map_or_else(|| "no rule removes it".to_owned(), |rule| rule.to_string());
        let message = format!(
            "{letters} of {of} letters of the main region are missing from the Markdown; the first missing text is \
             {first:?} in <{element}> ({reason})"
        );
        return Some(
            fault(message).hint("`frontdesk convert --explain FILE` shows what is left out, and why"),
        );
    }
    if converted.metadata.is_unlisted {
        return None;
    }
    if converted.page_letters < MIN_SHELL_LETTERS && page.html.contains("<script") {
        let fault = fault("the page has almost no text unless its scripts run".to_owned());
        let hint = "agents do not run scripts: configure the generator to render the page to HTML";
        return Some(fault.hint(hint));
    }
    let hint = "in frontdesk.toml, set `[convert] main = \"…\"` to a CSS selector for the main content; \
                try a selector with `frontdesk convert FILE --selector …`";
    (converted.page_letters > 0 && !converted.markdown.contains(char::is_alphanumeric))
        .then(|| fault("no main content was found".to_owned()).hint(hint))
}

/// The 404 page, in English, for a build that has none.
pub(super) fn plain_not_found_page() -> Page {
    let text = "There is nothing at this address.";
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Not found</title>\n<h1>Not found</h1>\n\
         <p>{text} <a href=\"/\">Home page</a></p>\n"
    );
    let markdown = format!("# Not found\n\n{text} All pages: [sitemap.md](/sitemap.md)\n");
    let file = |media_type, text: String| Arc::new(File::new(media_type, Cache::Revalidate, text));
    Page {
        html: file("text/html; charset=utf-8", html),
        markdown: file("text/markdown; charset=utf-8", markdown),
        path: "/404.html".into(),
        twin: "/404.md".into(),
    }
}

/// The inputs of [`compose_page`] that are the same for all pages.
struct ComposeContext<'a> {
    build: &'a BuildOptions,
    options: &'a PagesOptions,
    headers: &'a RuleList<HeaderRule>,
    /// The name of the site, which is removed from titles.
    site_name: Option<&'a str>,
}

/// The name of the site, such as `Python documentation`: what the titles of more than half of the pages, and
/// of at least [`MIN_TITLES`], begin with, end with or consist of.
fn common_site_name<'a>(titles: impl ExactSizeIterator<Item = Option<&'a str>>) -> Option<String> {
    let needed = (titles.len() / 2 + 1).max(MIN_TITLES);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for title in titles.flatten() {
        for end in title_ends(title) {
            *counts.entry(end).or_default() += 1;
        }
    }
    let (name, count) = counts.into_iter().max_by_key(|(name, count)| (*count, *name))?;
    (count >= needed).then(|| name.to_owned())
}

/// Whether the Markdown of a page changes if `name` is the name of the site.
fn depends_on(page: &Converted, name: &str) -> bool {
    page.metadata
        .title
        .as_deref()
        .is_some_and(|title| title == name || page.has_title_as_heading && title_ends(title).contains(&name))
}

/// Composes both representations of a page. `written` is the build's own Markdown file for the page, if any.
/// The first of `twins` is the main path of the Markdown.
fn compose_page(
    source: &HtmlPage<'_>,
    converted: &Converted,
    written: Option<Arc<File>>,
    (twins, redirects): (Vec<String>, Vec<String>),
    &ComposeContext { build, options, headers: rules, site_name }: &ComposeContext<'_>,
) -> PrebuiltPage {
    let path = encode(&source.path).into_owned();
    let twin = encode(&twins[0]).into_owned();
    let mut metadata = converted.metadata.clone();
    // The date of an RFC 3339 timestamp.
    let date_of = |text: &Option<String>| text.as_ref()?.get(..10)?.parse::<Date>().ok();
    let (published, modified) = (date_of(&metadata.published), date_of(&metadata.modified));
    let updated = modified.or(published).unwrap_or(source.file.changed);
    metadata.url = Some(source.url.clone());
    if let (Some(title), Some(name)) = (&mut metadata.title, site_name) {
        *title = title_without(title, name).to_owned();
    }
    metadata.modified = Some(updated.to_string());

    let mut html = html_file(source, converted, &twin, build, options);
    let mut canonical = format!("<{}>; rel=\"canonical\"", source.url);
    if not_found_folder(&source.file.name).is_some() {
        html.link = None;
        // A 404 page represents other URLs than its own.
        let Metadata { title, language, .. } = metadata;
        metadata = Metadata { title, language, is_unlisted: true, ..Metadata::default() };
        canonical.clear();
    }
    let headers = std::mem::take(&mut html.headers);
    let mut html = with_headers(html, headers, rules, &source.path);
    restrict_content_type(&mut html, &["text/html", "application/xhtml+xml"]);
    options.signals.add_to(&mut html);
    let robots = html.headers.iter().filter(|(name, _)| name == X_ROBOTS_TAG);
    metadata.is_unlisted |= robots.filter_map(|(_, value)| value.to_str().ok()).any(forbids_index);
    let written = written.map(|file| {
        let mut markdown = file.without_encodings();
        restrict_content_type(&mut markdown, &["text/markdown"]);
        options.signals.add_to(&mut markdown);
        if markdown.is_like(&file) { file } else { Arc::new(markdown) }
    });
    let markdown = written.unwrap_or_else(|| {
        let version = document_version(&converted.markdown);
        let guide = format!("{}/llms.txt", options.base_url);
        let front_matter = metadata.front_matter(&[("llms_txt", &guide), ("doc_version", &version)]);
        let text = front_matter + &converted.markdown;
        let mut file = File::new("text/markdown; charset=utf-8", Cache::Revalidate, text);
        if !canonical.is_empty() {
            file = file.with_link(canonical);
        }
        let mut file = with_headers(file, Vec::new(), rules, &source.path);
        restrict_content_type(&mut file, &["text/markdown"]);
        options.signals.add_to(&mut file);
        Arc::new(file)
    });
    let title = metadata.title.clone().unwrap_or_else(|| source.path.clone());
    let summary = (!metadata.is_unlisted).then(|| PageSummary {
        path: path.clone(),
        twin: twin.clone(),
        title,
        description: metadata.description.clone(),
        date: published,
        updated,
        author: metadata.author.clone(),
        ..PageSummary::default()
    });
    let page = Page { html: Arc::new(html), markdown, path: path.into(), twin: twin.into() };
    let (name, path) = (source.file.name.clone(), source.path.clone());
    PrebuiltPage { name, path, page, summary, metadata, twins, redirects }
}

/// The HTML file of a page, with its `Link` and the other headers that pages of builds have. Adds the link
/// element and the reload script to the HTML if the options ask for them.
fn html_file(
    source: &HtmlPage<'_>,
    converted: &Converted,
    twin: &str,
    build: &BuildOptions,
    options: &PagesOptions,
) -> File {
    // These replace the server's headers of the same name, because generators and their themes use features
    // that the built-in theme does not.
    let header = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
    let headers = vec![
        header("cross-origin-opener-policy", "same-origin-allow-popups"),
        header("permissions-policy", "browsing-topics=()"),
        (http::header::CONTENT_SECURITY_POLICY, content_security_policy(&converted.embedded)),
    ];
    let mut link = format!("<{twin}>; rel=\"alternate\"; type=\"text/markdown\"");
    if source.path == build.mount {
        for more in &options.home_links {
            link.push_str(", ");
            link.push_str(more);
        }
    }
    let blob =
        if build.adds_link_element { add_link_element(source, twin) } else { source.file.blob.clone() };
    let blob = if options.has_reload_script { Blob::new(add_reload_script(&blob.bytes)) } else { blob };
    let mut html = File::from_blob(source.media_type, Cache::Revalidate, blob).with_link(link);
    html.headers = headers;
    html
}

/// Replaces the headers of a file with `headers` and those of the rules that match `path`. The rules take
/// precedence, but their `Link` is appended to that of the file.
fn with_headers(
    mut file: File,
    mut headers: Vec<(HeaderName, HeaderValue)>,
    rules: &RuleList<HeaderRule>,
    path: &str,
) -> File {
    for (name, value) in headers_for(rules, path) {
        headers.retain(|(own, _)| *own != name);
        if name == http::header::LINK {
            let ours = file.link.take().unwrap_or_default();
            let both = [&*String::from_utf8_lossy(&ours), &*String::from_utf8_lossy(value.as_bytes())];
            file = file.with_link(both.join(if ours.is_empty() { "" } else { ", " }));
        } else {
            headers.push((name, value));
        }
    }
    file.headers = headers;
    file
}

const X_ROBOTS_TAG: &str = "x-robots-tag";

/// Removes a `Content-Type` that is not among `permitted`: rules for the HTML also apply to the Markdown at
/// the same URL.
fn restrict_content_type(file: &mut File, permitted: &[&str]) {
    file.headers.retain(|(name, value)| {
        let media_type = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
        name != http::header::CONTENT_TYPE
            || permitted.iter().any(|permitted| permitted.eq_ignore_ascii_case(media_type.trim()))
    });
}

/// If a file is a 404 page, the folder in which it is sent for missing paths; empty for the whole build.
fn not_found_folder(name: &str) -> Option<&str> {
    match name {
        "404.html" | "404/index.html" => Some(""),
        _ => name.strip_suffix("/404.html"),
    }
}

/// The page's HTML with a link to its Markdown at the end of the head. Unchanged if the head has no end tag.
fn add_link_element(source: &HtmlPage<'_>, twin: &str) -> Blob {
    let html = &source.file.blob.bytes;
    let Some(at) = end_of_head(html) else { return source.file.blob.clone() };
    let element = format!("<link rel=\"alternate\" type=\"text/markdown\" href=\"{twin}\">");
    Blob::new(insert_at(html, at, element.as_bytes()))
}

impl Prebuilt {
    fn add_file(&mut self, file: &BuildFile, rules: &RuleList<HeaderRule>) {
        let path = format!("{}{}", self.mount, file.name);
        let cache = if is_fingerprinted(&file.name) { Cache::Immutable } else { Cache::Revalidate };
        let new = File::from_blob(media_type_of(&file.name, &file.blob.bytes), cache, file.blob.clone());
        let new = with_headers(new, Vec::new(), rules, &path);
        self.files.insert(path, Arc::new(new));
    }

    /// The paths of each page's Markdown, and the paths that redirect to it. The first page that claims an
    /// additional path gets it; paths of files, pages and generated resources are taken.
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
        let names = pages.iter().map(|HtmlPage { path, .. }| {
            let candidates = twin_names(path);
            let written = candidates.iter().find(|name| self.files.contains_key(*name)).cloned();
            let mut twins: Vec<String> = written.into_iter().chain(claim(candidates)).collect();
            if twins.is_empty() {
                twins.push(format!("{path}.html.md"));
            }
            (twins, claim(redirect_names(path)))
        });
        names.collect()
    }

    /// Removes Markdown files that would be the Markdown of a page, but are copies of its source with
    /// template syntax. Reports the first one, with the number of others.
    fn remove_sources(
        &mut self,
        pages: &[HtmlPage<'_>],
        converted: &[Arc<Converted>],
        faults: &mut Vec<Fault>,
    ) {
        let mut sources = Vec::new();
        for (page, converted) in pages.iter().zip(converted) {
            for name in twin_names(&page.path) {
                let Some(file) = self.files.get(&name) else { continue };
                let text = String::from_utf8_lossy(&file.unencoded().bytes);
                // If the search panics, the file is used as it is.
                let found = panics::catch(Part::Content, || find_template_syntax(&text, &converted.markdown));
                if let Ok(Some(syntax)) = found {
                    self.files.remove(&name);
                    sources.push((name, syntax));
                }
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

    /// Removes the 404 page of a folder, because the site has another one.
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

    /// Returns `options` with a missing title or description filled in from the build's home page.
    pub fn complete(&self, options: &PagesOptions) -> PagesOptions {
        let mut options = options.clone();
        let home = self.pages.first().map(|home| home.metadata.clone()).unwrap_or_default();
        let fill = |text: &mut String, value: Option<String>| {
            if text.is_empty() {
                *text = value.unwrap_or_default();
            }
        };
        fill(&mut options.title, home.site.or(home.title));
        fill(&mut options.description, home.description);
        options
    }

    /// Inserts the pages, files, redirects and rules into a site. Pages, 404 pages and files replace those
    /// that the site already has, but redirects do not. The rules take precedence over those of the site. If
    /// the site has no home page, `/` redirects to the build.
    pub fn insert_into(self, site: &mut Site) {
        for (folder, page) in self.not_found {
            site.set_not_found(&folder, page);
        }
        for (path, file) in self.files {
            site.entries.insert(path.into(), SiteEntry::File(file, Role::Asset));
        }
        for PrebuiltPage { path, page, summary, twins, redirects, .. } in self.pages {
            site.page_count += 1;
            site.list_page(summary);
            for twin in twins {
                let entry = SiteEntry::File(page.markdown.clone(), Role::Twin(page.path.clone()));
                // The build's own Markdown was inserted above as an asset. Turn it into a twin.
                match site.entries.get_mut(twin.as_str()) {
                    Some(file @ SiteEntry::File(_, Role::Asset)) => *file = entry,
                    Some(_) => {}
                    None => drop(site.entries.insert(twin.into(), entry)),
                }
            }
            for name in redirects {
                let to = || SiteEntry::Redirect(Redirect::permanent(&*page.path));
                site.entries.entry(name.into()).or_insert_with(to);
            }
            site.entries.insert(path.into(), SiteEntry::Page(page));
        }
        if self.mount != "/" {
            let to = || SiteEntry::Redirect(Redirect::permanent(encode(&self.mount)));
            for name in ["/", self.mount.trim_end_matches('/')] {
                site.entries.entry(name.into()).or_insert_with(to);
            }
        }
        site.add_rules(self.redirects);
    }
}

#[cfg(test)]
mod tests;
