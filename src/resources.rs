//! Machine-readable files, generated from the pages and the form definitions. The operator can replace each
//! of them with a file at the same path in `static/`.

mod agents;
mod feed;
mod forms;
mod llms;
mod openapi;
mod options;
mod robots;
mod sitemap;
mod skill;
mod text;
mod well_known;

use self::llms::GuideContext;
use crate::pages::file::{Cache, File};
use crate::pages::path::decode;
use crate::pages::{FORMS_SCRIPT, PagesOptions, RELOAD_SCRIPT, RELOAD_SCRIPT_PATH, Site, in_parallel};

pub use forms::page_forms;
pub use options::{ContentSignals, ResourceOptions};

/// Links to the resources, for the home page's `Link` header (RFC 8288, RFC 8631, RFC 9727).
pub fn home_links() -> Vec<String> {
    vec![
        "</.well-known/api-catalog>; rel=\"api-catalog\"".to_owned(),
        "</openapi.json>; rel=\"service-desc\"; type=\"application/json\"".to_owned(),
        "</agents.md>; rel=\"service-doc\"; type=\"text/markdown\"".to_owned(),
        "</llms.txt>; rel=\"describedby\"; type=\"text/plain\"".to_owned(),
    ]
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown; charset=utf-8";
const XML: &str = "application/xml";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const RSS: &str = "application/rss+xml";
const LINKSET: &str = "application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"";

/// Builds a resource's text. `None` if a required option is missing.
type Build = fn(&Site, &PagesOptions, &ResourceOptions) -> Option<String>;

const RESOURCES: [(&str, &str, Build); 14] = [
    ("/_frontdesk/forms.js", JAVASCRIPT, |_, _, _| Some(FORMS_SCRIPT.to_owned())),
    ("/llms.txt", TEXT, |site, _, _| Some(llms::build_guides(&GuideContext::of(site), 0).swap_remove(0).1)),
    ("/llms-full.txt", TEXT, |site, _, _| Some(llms::build_llms_full_txt(site, 0))),
    ("/agents.md", MARKDOWN, |site, options, more| Some(agents::build(&site.pages, options, more))),
    ("/openapi.json", JSON, |site, options, more| Some(openapi::build(&site.pages, options, more))),
    ("/sitemap-index.xml", XML, |site, options, _| Some(sitemap::sitemap_index(&site.pages, options))),
    ("/sitemap.xml", XML, |site, _, _| {
        Some(sitemap::to_xml(sitemap::divide(&site.pages)[0].1, &site.languages, &site.base_url))
    }),
    ("/sitemap.md", MARKDOWN, |site, _, _| {
        Some(sitemap::sitemap_markdown(&site.pages, &site.languages[0], &site.base_url))
    }),
    ("/robots.txt", TEXT, |_, options, more| Some(robots::build_robots_txt(&options.base_url, more.signals))),
    ("/blog/rss.xml", RSS, |site, _, _| Some(build_feed(site, 0))),
    ("/.well-known/security.txt", TEXT, |site, options, more| {
        // A contact is required (RFC 9116 §2.5.3).
        let contact = Some(more.security_email.as_str()).filter(|contact| !contact.is_empty())?;
        Some(well_known::security_txt(&site.pages, options, contact))
    }),
    (skill::SKILL_PATH, MARKDOWN, |site, options, more| Some(skill::build_skill(&site.pages, options, more))),
    (skill::INDEX_PATH, JSON, |site, options, more| Some(skill::build_index(site, options, more))),
    ("/.well-known/api-catalog", LINKSET, |site, options, _| {
        Some(well_known::api_catalog(&site.pages, options))
    }),
];

fn build_feed(site: &Site, language: usize) -> String {
    feed::build_rss(&site.pages, &site.base_url, language, &site.languages[language])
}

/// The paths of resources and endpoints, which pages must not use.
pub fn reserved_paths() -> Vec<&'static str> {
    let endpoints = crate::forms::FORMS.iter().map(|form| form.path);
    RESOURCES.iter().map(|(path, ..)| *path).chain(endpoints).collect()
}

/// Inserts every resource that the operator has not replaced.
pub fn add_resources(site: &mut Site, options: &PagesOptions, resources: &ResourceOptions) {
    let file = |media_type, text: String| File::new(media_type, Cache::Revalidate, text);
    let built = in_parallel(&RESOURCES, |(path, media_type, build)| {
        Some(((*path).to_owned(), file(media_type, build(site, options, resources)?)))
    });
    let sitemaps = sitemap::divide(&site.pages).into_iter().skip(1);
    let sitemaps = sitemaps
        .map(|(path, pages)| (path, file(XML, sitemap::to_xml(pages, &site.languages, &site.base_url))));
    let languages = 0..site.languages.len();
    let guides =
        languages.clone().flat_map(|index| llms::build_guides(&GuideContext::of(site), index)).skip(1);
    let guides = guides.filter_map(|(path, text)| Some((decode(&path).ok()?.into_owned(), file(TEXT, text))));
    let translated = languages.skip(1).flat_map(|index| {
        let prefix = &site.languages[index].prefix;
        [
            (format!("{prefix}/llms-full.txt"), file(TEXT, llms::build_llms_full_txt(site, index))),
            (format!("{prefix}/blog/rss.xml"), file(RSS, build_feed(site, index))),
        ]
    });
    let files: Vec<(String, File)> =
        built.into_iter().flatten().chain(sitemaps).chain(guides).chain(translated).collect();
    for (path, file) in files {
        site.insert_resource(&path, file);
    }
    if options.has_reload_script {
        site.insert_resource(RELOAD_SCRIPT_PATH, file(JAVASCRIPT, RELOAD_SCRIPT.to_owned()));
    }
}
