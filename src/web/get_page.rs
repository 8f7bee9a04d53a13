//! GET and HEAD: finds what is at a path, negotiates its representation and encoding, and answers from memory.
//!
//! Whatever chooses here also writes the headers that say so: no answer at a negotiated URL can lack its `Vary`.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, IF_NONE_MATCH, LINK, LOCATION, VARY,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::Full;

use super::answer::{Answer, CROSS_ORIGIN_RESOURCE_POLICY, method_not_allowed, text};
use super::metrics::{Class, Representation, Seen};
use crate::pages::file::File;
use crate::pages::negotiate::{Encoding, Media, choose, choose_encoding};
use crate::pages::{Entry, Page, Role, Site};

/// Answers a request for anything but the forms, and says what it is counted as; `path` is decoded.
pub(super) fn answer(site: &Site, path: &str, head: &Parts) -> (Answer, Seen) {
    let headers = &head.headers;
    let media = || choose(lines(headers, &ACCEPT));
    let entry = site.get(path);
    let class = class(entry);
    match entry {
        None => {
            let media = media();
            (not_found(site.not_found(), media, headers), Seen { class, representation: media.into() })
        }
        Some(_) if head.method != Method::GET && head.method != Method::HEAD => {
            (method_not_allowed("GET, HEAD"), Seen::other(class))
        }
        Some(Entry::Page(page)) => {
            let media = media();
            (negotiated(site, page, media, headers), Seen { class, representation: media.into() })
        }
        Some(Entry::File(file, _)) => {
            let seen = Seen { class, representation: representation(file) };
            (embeddable(conditional(file, false, headers)), seen)
        }
        Some(Entry::Redirect(to)) => (redirect(to, head.uri.query()), Seen::other(class)),
    }
}

fn class(entry: Option<&Entry>) -> Class {
    match entry {
        None => Class::None,
        Some(Entry::Page(_)) => Class::Page,
        Some(Entry::File(_, Role::Twin)) => Class::Twin,
        Some(Entry::File(_, Role::Resource)) => Class::Resource,
        Some(Entry::File(_, Role::Asset)) => Class::Asset,
        Some(Entry::Redirect(_)) => Class::Redirect,
    }
}

/// What a file counts as that has a single representation.
fn representation(file: &File) -> Representation {
    match file.media_type.split(';').next() {
        Some("text/html") => Representation::Html,
        Some("text/markdown") => Representation::Markdown,
        _ => Representation::Other,
    }
}

impl From<Option<Media>> for Representation {
    fn from(media: Option<Media>) -> Self {
        match media {
            Some(Media::Html) => Self::Html,
            Some(Media::Markdown) => Self::Markdown,
            None => Self::Other,
        }
    }
}

/// Images, feeds and guides may be shown elsewhere, in a feed reader for one; pages may not.
fn embeddable(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("cross-origin"));
    answer
}

/// The representation of a page that the client asked for, or 406.
fn negotiated(site: &Site, page: &Page, media: Option<Media>, headers: &HeaderMap) -> Answer {
    match media {
        Some(Media::Html) => conditional(&page.html, true, headers),
        Some(Media::Markdown) => conditional(&page.markdown, true, headers),
        None => not_acceptable(site, page),
    }
}

/// A file, or 304 where the client has it already (RFC 9110 §13.1.2).
fn conditional(file: &File, negotiated: bool, headers: &HeaderMap) -> Answer {
    let (mut answer, etag) = whole(file, negotiated, headers);
    if lines(headers, &IF_NONE_MATCH).any(|line| matches_etag(line, etag)) {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        *answer.body_mut() = Full::default();
        answer.headers_mut().remove(CONTENT_TYPE);
        answer.headers_mut().remove(CONTENT_ENCODING);
    }
    answer
}

/// A file in the encoding that the client likes best, with its validator.
fn whole<'a>(file: &'a File, negotiated: bool, request: &HeaderMap) -> (Answer, &'a str) {
    let encoding = if file.compressible {
        choose_encoding(lines(request, &ACCEPT_ENCODING), |encoding| file.has(encoding))
    } else {
        Encoding::Identity
    };
    let body = file.body(encoding);
    let mut answer = Response::new(Full::new(body.bytes.clone()));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(file.cache.control()));
    if let Ok(etag) = HeaderValue::from_str(&body.etag) {
        headers.insert(ETAG, etag);
    }
    if let Some(token) = encoding.token() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(token));
    }
    if let Some(link) = file.link.as_deref().and_then(|link| HeaderValue::from_str(link).ok()) {
        headers.insert(LINK, link);
    }
    if let Some(vary) = vary(negotiated, file.compressible) {
        headers.insert(VARY, HeaderValue::from_static(vary));
    }
    (answer, &body.etag)
}

fn vary(representation: bool, encoding: bool) -> Option<&'static str> {
    match (representation, encoding) {
        (true, true) => Some("Accept, Accept-Encoding"),
        (true, false) => Some("Accept"),
        (false, true) => Some("Accept-Encoding"),
        (false, false) => None,
    }
}

/// 404, in the representation that was asked for; in plain text where neither is acceptable.
fn not_found(page: &Page, media: Option<Media>, headers: &HeaderMap) -> Answer {
    let mut answer = match media {
        Some(Media::Html) => whole(&page.html, true, headers).0,
        Some(Media::Markdown) => whole(&page.markdown, true, headers).0,
        None => {
            let mut answer =
                text(StatusCode::NOT_FOUND, "There is nothing at this address. All pages: /sitemap.md\n");
            answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
            answer
        }
    };
    *answer.status_mut() = StatusCode::NOT_FOUND;
    // A validator would let a cache keep answering 304 for a page that has come into being since.
    answer.headers_mut().remove(ETAG);
    answer
}

/// 406, with every representation and where it is (RFC 9110 §15.5.7).
fn not_acceptable(site: &Site, page: &Page) -> Answer {
    let (path, twin) = (&page.path, &page.twin);
    let base = site.base_url();
    let body = format!(
        "This page has two representations, and the Accept header allows neither:

text/html      {base}{path}
text/markdown  {base}{twin}
"
    );
    let mut answer = text(StatusCode::NOT_ACCEPTABLE, body);
    let headers = answer.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    let links = format!(
        "<{path}>; rel=\"alternate\"; type=\"text/html\", <{twin}>; rel=\"alternate\"; type=\"text/markdown\""
    );
    if let Ok(links) = HeaderValue::from_str(&links) {
        headers.insert(LINK, links);
    }
    answer
}

/// 308 to where the page is, with the query it came with (RFC 9110 §15.4.9).
fn redirect(to: &str, query: Option<&str>) -> Answer {
    let location = match query {
        Some(query) => format!("{to}?{query}"),
        None => to.to_owned(),
    };
    let mut answer = text(StatusCode::PERMANENT_REDIRECT, format!("This page is at {to}\n"));
    let headers = answer.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(location) = HeaderValue::from_str(&location) {
        headers.insert(LOCATION, location);
    }
    answer
}

/// The lines of a header as bytes.
fn lines<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    headers.get_all(name).iter().map(HeaderValue::as_bytes)
}

/// Whether a line of `If-None-Match` names `etag`, by weak comparison (RFC 9110 §8.8.3.2).
fn matches_etag(line: &[u8], etag: &str) -> bool {
    if line.trim_ascii() == b"*" {
        return true;
    }
    let Ok(line) = std::str::from_utf8(line) else { return false };
    // Our validators hold no comma, so that splitting at every one is safe.
    line.split(',').map(str::trim).any(|candidate| candidate.strip_prefix("W/").unwrap_or(candidate) == etag)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt as _;

    use super::*;
    use crate::pages::file::Cache;

    #[tokio::test]
    async fn an_answer_is_a_reference_to_bytes_that_exist_already() {
        let file = |media_type| {
            let file = File::new(media_type, Cache::Revalidate, "A line that repeats itself.\n".repeat(50));
            file.compress();
            Arc::new(file)
        };
        let page = Page {
            html: file("text/html; charset=utf-8"),
            markdown: file("text/markdown; charset=utf-8"),
            path: "/".into(),
            twin: "/index.md".into(),
        };
        for accept in ["text/html", "text/markdown"] {
            for encoding in [Encoding::Identity, Encoding::Gzip, Encoding::Brotli, Encoding::Zstd] {
                let mut headers = HeaderMap::new();
                headers.insert(ACCEPT, HeaderValue::from_static(accept));
                headers.insert(
                    ACCEPT_ENCODING,
                    HeaderValue::from_static(encoding.token().unwrap_or("identity")),
                );
                let file = if accept == "text/html" { &page.html } else { &page.markdown };
                let answer = conditional(file, true, &headers);
                let sent = answer.into_body().collect().await.expect("it is in memory").to_bytes();
                assert_eq!(sent.as_ptr(), file.body(encoding).bytes.as_ptr(), "{accept} {encoding:?}");
            }
        }
    }

    #[test]
    fn a_validator_is_found_in_a_list_and_weakly() {
        for (line, expected) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            (" * ", true),
            ("\"b\"", false),
            ("a", false),
            ("", false),
            ("\"a-br\"", false),
        ] {
            assert_eq!(matches_etag(line.as_bytes(), "\"a\""), expected, "{line}");
        }
    }
}
