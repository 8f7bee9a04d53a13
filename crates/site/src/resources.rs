//! Machine-readable files, generated from the pages and the form definitions. The operator can replace each
//! of them with a file at the same path in `static/`.

mod agents;
mod feed;
mod formatting;
mod forms;
mod llms;
mod openapi;
mod options;
mod robots;
mod sitemap;
mod skill;
mod well_known;
mod wording;

use std::sync::Arc;

use crate::file::{Cache, File, cors_header};
use crate::path::decode;
use crate::{
    FORMS_SCRIPT, Language, PageSummary, PagesOptions, RELOAD_SCRIPT, RELOAD_SCRIPT_PATH, Site, SiteEntry,
    in_parallel,
};
use frontdesk_forms::FormSet;
use frontdesk_process::memo::{ByValue, Memo};

pub use forms::page_forms;
pub use options::ResourceOptions;
pub(super) use robots::check_robots_txt;

/// Links to the resources, for the home page's `Link` header (RFC 8288, RFC 8631, RFC 9727). Without forms,
/// there is no link to `/openapi.json`.
pub fn home_links(set: &FormSet) -> Vec<String> {
    let links = [
        "</.well-known/api-catalog>; rel=\"api-catalog\"",
        "</openapi.json>; rel=\"service-desc\"; type=\"application/json\"",
        "</agents.md>; rel=\"service-doc\"; type=\"text/markdown\"",
        "</llms.txt>; rel=\"describedby\"; type=\"text/plain\"",
    ];
    let is_needed = |link: &&str| set.iter().len() > 0 || !link.contains("service-desc");
    links.into_iter().filter(is_needed).map(str::to_owned).collect()
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown; charset=utf-8";
const XML: &str = "application/xml";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const RSS: &str = "application/rss+xml";
const LINKSET: &str = "application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"";

/// Builds a resource's text. `None` if a required option is missing, or if the resource is built elsewhere.
type Build = fn(&Site, &PagesOptions, &ResourceOptions) -> Option<String>;

/// The path, the media type and the builder of each resource.
const RESOURCES: [(&str, &str, Build); 14] = [
    ("/_frontdesk/forms.js", JAVASCRIPT, |_, _, _| Some(FORMS_SCRIPT.to_owned())),
    // Built elsewhere: once for each language, together with the guides to folders.
    ("/llms.txt", TEXT, |_, _, _| None),
    ("/llms-full.txt", TEXT, |_, _, _| None),
    // Built elsewhere: together with the agent skill, which contains its text.
    ("/agents.md", MARKDOWN, |_, _, _| None),
    ("/openapi.json", JSON, |site, options, more| Some(openapi::build(&site.pages, options, more))),
    ("/sitemap-index.xml", XML, |site, options, _| Some(sitemap::sitemap_index(&site.pages, options))),
    ("/sitemap.xml", XML, |site, _, _| {
        Some(sitemap::to_xml(sitemap::divide(&site.pages)[0].1, &site.languages, &site.base_url))
    }),
    ("/sitemap.md", MARKDOWN, |site, _, _| {
        Some(sitemap::sitemap_markdown(&site.pages, &site.languages[0], &site.base_url))
    }),
    ("/robots.txt", TEXT, |_, options, _| Some(robots::build_robots_txt(&options.base_url, options.signals))),
    ("/blog/rss.xml", RSS, |site, _, _| Some(build_feed(site, 0))),
    ("/.well-known/security.txt", TEXT, |site, options, more| {
        // Without a contact, build no `security.txt`: RFC 9116 §2.5.3 requires a contact.
        let contact = Some(more.security_email.as_str()).filter(|contact| !contact.is_empty())?;
        Some(well_known::security_txt(&site.pages, options, contact))
    }),
    (skill::SKILL_PATH, MARKDOWN, |_, _, _| None),
    (skill::INDEX_PATH, JSON, |_, _, _| None),
    ("/.well-known/api-catalog", LINKSET, |site, options, _| {
        Some(well_known::api_catalog(&site.pages, options))
    }),
];

fn build_feed(site: &Site, language: usize) -> String {
    feed::build_rss(&site.pages, &site.base_url, language, &site.languages[language])
}

/// The paths of resources and of the endpoints of all forms in `set`, which pages must not use. Lacks the
/// resources of other languages, and those that depend on the pages, such as `/sitemap-2.xml`.
pub fn reserved_paths(set: &FormSet) -> Vec<&'static str> {
    let endpoints = set.iter().map(|form| form.path);
    RESOURCES.iter().map(|(path, ..)| *path).chain(endpoints).collect()
}

/// The resources of the last load, which the next load reuses if their inputs are the same. `llms-full.txt`
/// has its own inputs, because it changes with every listed page.
#[derive(Debug, Default)]
pub struct ResourceCache {
    resources: Memo<Inputs, Arc<Resources>>,
    /// The `llms-full.txt` of each language.
    full_texts: Vec<Arc<File>>,
}

#[derive(Debug)]
struct Resources {
    /// The page summaries that the files were built from.
    pages: Arc<Vec<PageSummary>>,
    files: Vec<(String, Arc<File>)>,
}

/// The inputs of all resources except `llms-full.txt`.
#[derive(Debug, PartialEq)]
struct Inputs {
    pages: ByValue<Vec<PageSummary>>,
    languages: Vec<Language>,
    options: PagesOptions,
    resources: ResourceOptions,
    /// The ETag of the operator's `SKILL.md`; `None` if there is no such file.
    skill: Option<String>,
}

impl ResourceCache {
    /// Inserts every resource that the operator has not replaced, and the reload script if the options have
    /// it. Reuses those of the last load, and its summaries of pages, if their inputs are the same.
    pub fn add_resources(&mut self, site: &mut Site, options: &PagesOptions, resources: &ResourceOptions) {
        let inputs = Inputs {
            pages: ByValue(site.pages.clone()),
            languages: site.languages.clone(),
            // Leave out the exact time, because no resource depends on it.
            options: PagesOptions { now: None, ..options.clone() },
            resources: resources.clone(),
            skill: written_skill(site).map(|file| file.unencoded().etag().to_owned()),
        };
        let made = self.resources.get(inputs, |inputs| {
            let files = build_files(site, &inputs.options, resources);
            Arc::new(Resources { pages: inputs.pages.0.clone(), files })
        });
        let languages: Vec<usize> = (0..site.languages.len()).collect();
        let last = &self.full_texts;
        let texts =
            in_parallel(&languages, |index| llms::build_llms_full_txt(site, *index, last.get(*index)));
        for (index, text) in texts.iter().enumerate() {
            let path = format!("{}/llms-full.txt", site.languages[index].prefix);
            site.insert_resource(&path, text.clone());
        }
        self.full_texts = texts;
        // Share the summaries with the previous site, so that memory holds them only once.
        site.pages.clone_from(&made.pages);
        for (path, file) in &made.files {
            site.insert_resource(path, file.clone());
        }
        if options.has_reload_script {
            site.insert_resource(RELOAD_SCRIPT_PATH, new_file(JAVASCRIPT, RELOAD_SCRIPT.to_owned()));
        }
    }
}

/// The operator's `SKILL.md`, if there is one. Call this before the generated `SKILL.md` is inserted.
fn written_skill(site: &Site) -> Option<&File> {
    match site.get(skill::SKILL_PATH) {
        Some(SiteEntry::File(file, _)) => Some(file),
        _ => None,
    }
}

/// A job that builds files, each with its path.
type Job<'a> = Box<dyn Fn() -> Vec<(String, File)> + Sync + 'a>;

/// Builds all resources except `llms-full.txt` and the script for reloads, in parallel. Those in
/// `/.well-known/` get the header of [`cors_header`]. If the operator has written a `SKILL.md`, the index of
/// skills describes that one instead of the generated one. Leaves out guides whose path cannot be decoded;
/// pages with such a path are faults when the site is loaded.
fn build_files(site: &Site, options: &PagesOptions, more: &ResourceOptions) -> Vec<(String, Arc<File>)> {
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for (index, language) in site.languages.iter().enumerate() {
        jobs.push(Box::new(move || {
            let guides = llms::build_guides(&site.pages, &site.languages, options, index).into_iter();
            let guide = |(path, text): (String, String)| {
                Some((decode(&path).ok()?.into_owned(), new_file(TEXT, text)))
            };
            guides.filter_map(guide).collect()
        }));
        // The feed of the first language is one of `RESOURCES`, and so is the first sitemap below.
        if index > 0 {
            let path = format!("{}/blog/rss.xml", language.prefix);
            jobs.push(Box::new(move || vec![(path.clone(), new_file(RSS, build_feed(site, index)))]));
        }
    }
    for (path, pages) in sitemap::divide(&site.pages).into_iter().skip(1) {
        let build = move || sitemap::to_xml(pages, &site.languages, &site.base_url);
        jobs.push(Box::new(move || vec![(path.clone(), new_file(XML, build()))]));
    }
    jobs.push(Box::new(|| {
        let guide = agents::build(&site.pages, options, more);
        let skill = skill::build_skill(&guide, options);
        let served = written_skill(site).map_or(skill.as_bytes(), |file| &file.unencoded().bytes);
        let index = skill::build_index(served, options);
        let files = [
            ("/agents.md", MARKDOWN, guide),
            (skill::SKILL_PATH, MARKDOWN, skill),
            (skill::INDEX_PATH, JSON, index),
        ];
        files.map(|(path, kind, text)| (path.to_owned(), new_file(kind, text))).into()
    }));
    for (path, media_type, build) in RESOURCES {
        jobs.push(Box::new(move || {
            let text = build(site, options, more);
            text.map(|text| (path.to_owned(), new_file(media_type, text))).into_iter().collect()
        }));
    }
    let built = in_parallel(&jobs, |job| job());
    let built = built.into_iter().flatten().map(|(path, mut file)| {
        file.headers.extend(cors_header(&path));
        (path, Arc::new(file))
    });
    built.collect()
}

fn new_file(media_type: &'static str, text: String) -> File {
    File::new(media_type, Cache::Revalidate, text)
}

#[cfg(test)]
mod tests;
