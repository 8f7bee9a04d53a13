//! The requests of the group files: `/.well-known/`, and the description of the API.

use std::collections::HashSet;
use std::sync::Arc;

use frontdesk_convert::Url;
use jiff::Timestamp;
use serde_json::Value;

use super::first_requests::FirstRequests;
use crate::client::Client;
use crate::exchange::{Exchange, Request};
use crate::link_header::parse_link_header;
use crate::openapi::OpenApi;
use crate::rule_group::Group;

/// Maximum number of API catalog links that are requested, besides the API description.
const MAX_CATALOG_LINKS: usize = 1;

/// Maximum number of sitemaps from `robots.txt` to request, besides those that are requested first.
const MAX_FURTHER_SITEMAPS: usize = 3;

/// Maximum number of links that are read from the API catalog.
const MAX_TARGETS: usize = 100;

/// The relations of the API catalog whose targets are documents. Those of `item` may be endpoints, which need
/// not answer GET.
const DOCUMENT_RELATIONS: [&str; 4] = ["service-desc", "service-doc", "service-meta", "status"];

/// The responses to the requests of the group files. Each is the last of a chain of redirects, and missing if
/// the request was not sent. `robots.txt` and `llms.txt` are in [`FirstRequests`].
#[derive(Default)]
pub struct FilesSurvey {
    /// The time of the audit, to which expiry dates are compared.
    pub now: Timestamp,
    pub security_txt: Option<Arc<Exchange>>,
    /// The responses for the sitemaps of this site that `robots.txt` names after the first, at most
    /// [`MAX_FURTHER_SITEMAPS`], without redirects.
    pub further_sitemaps: Vec<Arc<Exchange>>,
    /// The response to `/.well-known/api-catalog`.
    pub api_catalog: Option<Arc<Exchange>>,
    /// Documents of this site to which the API catalog links: the description of the API, if it is among
    /// them, and at most [`MAX_CATALOG_LINKS`] others.
    pub catalog_links: Vec<Arc<Exchange>>,
    /// The response to `/.well-known/agent-skills/index.json`.
    pub skills_index: Option<Arc<Exchange>>,
    /// The first skill file in the index that has a digest.
    pub skill: Option<SkillFile>,
    /// The response to the URL of the API description.
    pub openapi: Option<Arc<Exchange>>,
    pub openapi_source: OpenApiSource,
    /// The API description, if it can be parsed and names its version of OpenAPI or Swagger.
    pub api: Option<OpenApi>,
}

/// How the URL of the API description was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenApiSource {
    /// The API catalog links to the description.
    Catalog,
    /// A page links to the description as `service-desc`, in HTML or in the `Link` header field.
    Page,
    /// The site declares no URL, so the audit tries `/openapi.json`.
    #[default]
    Guess,
}

/// A skill file that the index of agent skills lists with a digest, and the response to its URL.
pub struct SkillFile {
    /// The skill's name in the index; empty if the index has none.
    pub name: String,
    /// The digest as the index gives it; a valid digest is `sha256:` and 64 lower-case hexadecimal digits.
    pub digest: String,
    pub exchange: Arc<Exchange>,
}

impl FilesSurvey {
    /// Sends the requests of the group `files`: at most nine, and one more for each redirect.
    #[expect(clippy::disallowed_methods, reason = "rules compare expiry dates to the time of the survey")]
    pub(crate) async fn survey(client: &Client, first_requests: &FirstRequests) -> FilesSurvey {
        let now = Timestamp::now();
        let security_txt = fetch(client, &first_requests.url, "/.well-known/security.txt", "*/*").await;
        let accept = "application/linkset+json, application/json;q=0.9, */*;q=0.1";
        let api_catalog = fetch(client, &first_requests.url, "/.well-known/api-catalog", accept).await;
        let index = fetch(client, &first_requests.url, "/.well-known/agent-skills/index.json", "*/*").await;
        let skill = survey_skill(client, index.as_deref()).await;

        let links = api_catalog.as_deref().map_or_else(Vec::new, catalog_targets);
        let links: Vec<_> = links.into_iter().filter(|(_, url)| client.is_same_site(url)).collect();
        let (openapi_source, url) = locate_openapi(client, first_requests, &links);
        let accept = "application/json, application/yaml;q=0.9, */*;q=0.5";
        let openapi =
            fetch(client, &first_requests.url, url.as_ref().map_or("/openapi.json", Url::as_str), accept)
                .await;
        let readable = openapi.as_deref().filter(|openapi| openapi.success().is_some_and(|r| !r.is_page()));
        let api = readable.and_then(|openapi| OpenApi::parse(openapi).ok());
        let api = api.filter(|api| !api.version().is_empty());

        let others = links.iter().filter(|(_, link)| Some(link) != url.as_ref()).take(MAX_CATALOG_LINKS);
        let mut catalog_links = Vec::new();
        if openapi_source == OpenApiSource::Catalog {
            catalog_links.extend(openapi.clone());
        }
        for (_, link) in others {
            catalog_links.extend(fetch(client, &first_requests.url, link.as_str(), "*/*").await);
        }
        FilesSurvey {
            now,
            security_txt,
            further_sitemaps: survey_further_sitemaps(client, first_requests).await,
            api_catalog,
            catalog_links,
            skills_index: index,
            skill,
            openapi,
            openapi_source,
            api,
        }
    }
}

/// Fetches a file, and follows its redirects within the site. Returns the last response; `None` if the
/// first request may not be sent.
async fn fetch(client: &Client, base: &Url, address: &str, accept: &str) -> Option<Arc<Exchange>> {
    let request = Request::get(&base.join(address).ok()?).accept(accept);
    client.follow(Group::Files, request).await.ok()?.pop()
}

/// Requests further sitemaps of this site that `robots.txt` names, at most [`MAX_FURTHER_SITEMAPS`]. Skips
/// the first one, which was requested before.
async fn survey_further_sitemaps(client: &Client, first_requests: &FirstRequests) -> Vec<Arc<Exchange>> {
    let named = first_requests.rules.sitemaps.iter();
    let mut urls: Vec<_> = named.filter_map(|name| first_requests.robots.url().join(name).ok()).collect();
    let mut seen: HashSet<_> = first_requests.sitemaps.iter().map(|known| known.url().clone()).collect();
    urls.retain(|url| client.is_same_site(url));
    // Also skip the URL of the first sitemap: if it was redirected, the URL of its response is different.
    seen.extend(urls.first().cloned());
    urls.retain(|url| seen.insert(url.clone()));
    let requests = urls.iter().take(MAX_FURTHER_SITEMAPS).map(|url| Request::get(url).accept("*/*"));
    client.send_all(Group::Files, requests.collect()).await.into_iter().flatten().collect()
}

/// The JSON of a file. `None` unless the status is 200 and the body is not an HTML page; the error says why
/// the body is not JSON.
pub(crate) fn json_of(exchange: &Exchange) -> Option<Result<Value, serde_json::Error>> {
    let response = exchange.success().filter(|response| !response.is_page())?;
    Some(serde_json::from_str(response.text().trim_start_matches('\u{feff}')))
}

/// The documents to which an API catalog (RFC 9727, RFC 9264) links by [`DOCUMENT_RELATIONS`]: the relations
/// and the absolute URLs without fragments, each URL once, at most [`MAX_TARGETS`]. Empty if the catalog is
/// not JSON.
pub(crate) fn catalog_targets(catalog: &Exchange) -> Vec<(String, Url)> {
    let mut targets: Vec<(String, Url)> = Vec::new();
    let Some(Ok(value)) = json_of(catalog) else { return targets };
    for context in value.get("linkset").and_then(Value::as_array).into_iter().flatten() {
        for relation in DOCUMENT_RELATIONS {
            for link in context.get(relation).and_then(Value::as_array).into_iter().flatten() {
                let href = link.get("href").and_then(Value::as_str);
                let Some(mut url) = href.and_then(|href| catalog.url().join(href).ok()) else { continue };
                url.set_fragment(None);
                if !targets.iter().any(|(_, other)| *other == url) {
                    targets.push((relation.to_owned(), url));
                }
                if targets.len() == MAX_TARGETS {
                    return targets;
                }
            }
        }
    }
    targets
}

/// The first description on this site that the API catalog or else the first page (its HTML before its
/// `Link`) names; `None` if neither does, for the usual URL. `links` are those of the catalog on this site.
fn locate_openapi(
    client: &Client,
    first_requests: &FirstRequests,
    links: &[(String, Url)],
) -> (OpenApiSource, Option<Url>) {
    if let Some((_, url)) = links.iter().find(|(relation, _)| relation == "service-desc") {
        return (OpenApiSource::Catalog, Some(url.clone()));
    }
    let page = &first_requests.pages[0];
    let elements = page.select("link[rel~=service-desc][href]");
    let from_html = elements.iter().filter_map(|link| page.resolve(link.attribute("href")?));
    let fields = parse_link_header(&page.response().header(http::header::LINK));
    let from_field = fields.iter().filter(|link| link.has_rel("service-desc"));
    let from_field = from_field.filter_map(|link| link.resolve(&page.url));
    match from_html.chain(from_field).find(|url| client.is_same_site(url)) {
        Some(url) => (OpenApiSource::Page, Some(url)),
        None => (OpenApiSource::Guess, None),
    }
}

/// Fetches the first file of this site with a digest that the index of agent skills names. Reads version
/// 0.2.0 of the discovery draft (`url` and `digest`), and its earlier form (`files`, only the first of each
/// skill). `None` also if the index is not JSON or the request may not be sent.
async fn survey_skill(client: &Client, index: Option<&Exchange>) -> Option<SkillFile> {
    let index = index?;
    let value = json_of(index)?.ok()?;
    for skill in value.get("skills")?.as_array()? {
        let name = skill.get("name").and_then(Value::as_str).unwrap_or_default();
        let first = skill.get("files").and_then(|files| files.get(0));
        let path = first.and_then(|file| file.get("path")).and_then(Value::as_str);
        let address = skill.get("url").and_then(Value::as_str).map(str::to_owned);
        let Some(address) = address.or_else(|| Some(format!("{name}/{}", path?))) else { continue };
        let digest = first.unwrap_or(skill).get("digest").and_then(Value::as_str);
        let (Ok(url), Some(digest)) = (index.url().join(&address), digest) else { continue };
        if client.is_same_site(&url) {
            let exchange = fetch(client, &url, url.as_str(), "*/*").await?;
            return Some(SkillFile { name: name.to_owned(), digest: digest.to_owned(), exchange });
        }
    }
    None
}
