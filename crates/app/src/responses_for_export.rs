//! Describes a site's responses for each URL, so that `frontdesk export` can publish them on other servers.
//!
//! This module records the responses of `get_page::choose`, so it defines no headers of its own.

use std::io;

use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_RANGES, HeaderMap, HeaderValue};

use super::get_page::{API, choose};
use super::response::{HttpResponse, add_security_headers, bad_request};
use frontdesk_negotiate::{Encoding, Media};
use frontdesk_site::{CONFIRM_PATH, File, Site, SiteEntry, path};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedResponse {
    pub status: u16,
    /// Headers with lower-case names, in the order in which they are sent, without `content-length` and
    /// `accept-ranges`.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

impl RecordedResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A representation in each prepared encoding: first identity, then the others in order of preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedResponses(pub Vec<(Encoding, RecordedResponse)>);

impl EncodedResponses {
    pub fn identity(&self) -> &RecordedResponse {
        &self.0[0].1
    }
}

/// The responses to GET requests for one URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlResponses {
    /// `Accept` selects the representation.
    Negotiated {
        html: EncodedResponses,
        markdown: EncodedResponses,
        /// The response if `Accept` allows neither HTML nor Markdown.
        neither: RecordedResponse,
    },
    /// The response is the same for every `Accept`.
    Single(EncodedResponses),
    /// A redirect, for example to the page of an alias.
    Moved(RecordedResponse),
    /// An endpoint that was removed for good (410), for any method and `Accept`.
    RemovedEndpoint(RecordedResponse),
}

impl UrlResponses {
    /// Whether the page at this URL was removed for good (410).
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Negotiated { html, .. } if html.identity().status == 410)
    }
}

#[derive(Debug)]
pub struct Description {
    /// The responses by decoded path, sorted.
    pub urls: Vec<(String, UrlResponses)>,
    /// The 404 responses for all other paths, except below `/api/`. Redirect rules with placeholders, which
    /// apply to some of these paths, are not described.
    pub missing: UrlResponses,
    /// The 404 responses in folders with a 404 page of their own, by the folder's decoded path without a
    /// trailing slash. Folders come before those that contain them.
    pub missing_in: Vec<(String, UrlResponses)>,
    /// The response for unknown paths below `/api/`, with any method and `Accept`.
    pub unknown_endpoint: RecordedResponse,
    /// The response to methods other than GET and HEAD at the URLs of pages and files.
    pub read_only: RecordedResponse,
    /// The response to an ambiguous path, which other servers may interpret differently.
    pub ambiguous: RecordedResponse,
    /// Paths that only this server can serve: the forms' endpoints, and confirmation links if the site has
    /// them. A path that ends with a slash stands for all paths below it.
    pub endpoints: Vec<&'static str>,
}

/// Describes the responses of `site`, in the encodings that have been prepared. `policy` is the content
/// security policy. Fails if a file on the disk cannot be read.
pub fn describe(site: &Site, policy: &HeaderValue) -> io::Result<Description> {
    let recorder = Recorder { site, policy };
    let mut urls: Vec<(String, UrlResponses)> = site
        .entries()
        .map(|(path, entry)| {
            let responses = recorder.describe_url(&path, Some(entry))?;
            Ok((path.into_owned(), responses))
        })
        .collect::<io::Result<_>>()?;
    urls.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    // No page has this path, because paths have no empty segments.
    let nowhere = "//";
    let without_rules = site.without_rules();
    let missing = Recorder { site: &without_rules, policy };
    let missing_in = site
        .folder_not_found
        .iter()
        .map(|(folder, _)| Ok((folder.clone(), missing.describe_url(&format!("{folder}{nowhere}"), None)?)));
    let no_endpoint = format!("{API}/");
    let some = urls.first().map_or("/", |(path, _)| path);
    let ambiguous = path::PathError::Ambiguous.to_string();
    Ok(Description {
        read_only: recorder.record_response_to(some, &Method::POST, None, Encoding::Identity)?,
        missing: missing.describe_url(nowhere, None)?,
        missing_in: missing_in.collect::<io::Result<_>>()?,
        unknown_endpoint: missing.record_response_to(&no_endpoint, &Method::GET, None, Encoding::Identity)?,
        ambiguous: recorder.record(bad_request(&ambiguous))?,
        endpoints: site
            .form_set
            .iter()
            .map(|form| form.path)
            .chain(site.confirms_addresses.then_some(CONFIRM_PATH))
            .collect(),
        urls,
    })
}

/// Records the responses of a site.
#[derive(Clone, Copy)]
struct Recorder<'a> {
    site: &'a Site,
    policy: &'a HeaderValue,
}

impl Recorder<'_> {
    /// The responses to GET requests for `path`, whose entry in the site is `entry`. Without an entry and for
    /// a removed page, these are the representations of the error page (404 or 410).
    fn describe_url(self, path: &str, entry: Option<&SiteEntry>) -> io::Result<UrlResponses> {
        let encoded = |media, file: &File| {
            let encodings = [Encoding::Identity].into_iter().chain(Encoding::PREFERENCE);
            let prepared = encodings.filter(|encoding| file.has_encoding(*encoding));
            let responses = prepared.map(|encoding| {
                Ok((encoding, self.record_response_to(path, &Method::GET, media, encoding)?))
            });
            responses.collect::<io::Result<_>>().map(EncodedResponses)
        };
        let neither = || self.record_response_to(path, &Method::GET, None, Encoding::Identity);
        let negotiated = |html, markdown| {
            let html = encoded(Some(Media::Html), html)?;
            let markdown = encoded(Some(Media::Markdown), markdown)?;
            Ok(UrlResponses::Negotiated { html, markdown, neither: neither()? })
        };
        match entry {
            Some(SiteEntry::Page(page)) => negotiated(&page.html, &page.markdown),
            Some(SiteEntry::File(file, _)) => encoded(None, file).map(UrlResponses::Single),
            Some(SiteEntry::Redirect(_)) => neither().map(UrlResponses::Moved),
            Some(SiteEntry::Gone) if path.starts_with(API) => neither().map(UrlResponses::RemovedEndpoint),
            None | Some(SiteEntry::Gone) => {
                let missing = self.site.not_found_at(path);
                negotiated(&missing.html, &missing.markdown)
            }
        }
    }

    /// Records the response to a client that accepts only `media`; `None` means neither HTML nor Markdown.
    fn record_response_to(
        self,
        path: &str,
        method: &Method,
        media: Option<Media>,
        encoding: Encoding,
    ) -> io::Result<RecordedResponse> {
        let accept = match media {
            Some(Media::Html) => "text/html",
            Some(Media::Markdown) => "text/markdown",
            None => "application/octet-stream",
        };
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        if let Some(token) = encoding.token() {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(token));
        }
        self.record(choose(self.site, path, None, method, &headers).0.into_response(self.site, None)).map_err(
            |error| io::Error::new(error.kind(), format!("the file that is served at {path}: {error}")),
        )
    }

    /// Records a response with the security headers, without `Accept-Ranges`. Reads a file body into memory.
    fn record(self, response: HttpResponse) -> io::Result<RecordedResponse> {
        let (head, body) = add_security_headers(response, self.policy).into_parts();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        // Omit `Accept-Ranges`: whether ranges are supported depends on the server, not on the site.
        let headers = head.headers.iter().filter(|(name, _)| *name != ACCEPT_RANGES);
        let headers = headers.map(|(name, value)| (name.as_str().to_owned(), text(value)));
        let (status, headers) = (head.status.as_u16(), headers.collect());
        Ok(RecordedResponse { status, headers, body: body.into_bytes()? })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use frontdesk_site::file::Cache;
    use frontdesk_site::{Page, PagesOptions};

    fn file(media_type: &'static str) -> Arc<File> {
        let file = File::new(media_type, Cache::Revalidate, "A line that repeats itself.\n".repeat(50));
        file.compress();
        Arc::new(file)
    }

    #[test]
    fn a_page_is_described_in_each_representation_and_encoding() {
        let (html, markdown) = (file("text/html; charset=utf-8"), file("text/markdown; charset=utf-8"));
        let page = Page::new(html, markdown, "/".into(), "/index.md".into());
        let options = PagesOptions { base_url: "https://www.example.com".into(), ..PagesOptions::default() };
        let mut site = Site::new(&options, page.clone());
        site.insert_page("/", page);
        let description = describe(&site, &HeaderValue::from_static("default-src 'none'")).unwrap();
        let paths: Vec<&str> = description.urls.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["/", "/index.html", "/index.html.md", "/index.md"]);
        let UrlResponses::Negotiated { html, markdown, neither } = &description.urls[0].1 else {
            panic!("{:?}", description.urls[0]);
        };
        let etags = |of: &EncodedResponses| -> Vec<String> {
            of.0.iter().map(|(_, reply)| reply.header("etag").expect("a validator").to_owned()).collect()
        };
        assert_eq!((html.0.len(), etags(html).len(), markdown.0.len()), (4, 4, 4));
        assert_eq!(neither.status, 406);
        assert!(
            matches!(&description.urls[1].1, UrlResponses::Moved(reply) if reply.header("location") == Some("/"))
        );
        let UrlResponses::Negotiated { html, .. } = &description.missing else { panic!("{description:?}") };
        assert_eq!((html.identity().status, html.identity().header("etag")), (404, None));
        assert_eq!((description.read_only.status, description.ambiguous.status), (405, 400));
        let unknown = &description.unknown_endpoint;
        assert_eq!((unknown.status, unknown.header("content-type")), (404, Some("application/json")));
        assert_eq!(html.identity().header("content-security-policy"), Some("default-src 'none'"));
    }
}
