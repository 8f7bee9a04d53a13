//! GET and HEAD: finds what is at a path, negotiates its representation and encoding, and answers from memory.
//!
//! Whatever chooses here also writes the headers that say so: no answer at a negotiated URL can lack its `Vary`.

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, IF_MATCH, IF_NONE_MATCH, LINK, LOCATION, VARY,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::Full;

use super::answer::{Answer, CROSS_ORIGIN_RESOURCE_POLICY, method_not_allowed, text, unknown_endpoint};
use super::metrics::{Class, Representation, Seen};
use crate::pages::file::{Body, File};
use crate::pages::negotiate::{self, Codings, Encoding, Media};
use crate::pages::{Entry, Page, Role, Site};

/// The header of an answer with a file has at most so many fields.
const MOST_FIELDS: usize = 16;

/// Paths below this one are for programs: an unknown one is answered with an error in JSON, as the forms' endpoints answer theirs.
pub(super) const API: &str = "/api/";

/// What is to be answered to a request for anything but the forms.
#[derive(Debug)]
pub(super) enum Choice<'a> {
    /// Something that is in memory.
    Send(Sent<'a>),
    /// There is nothing, and the client takes neither HTML nor Markdown.
    NothingAtAll,
    /// There is nothing at this path below [`API`].
    UnknownEndpoint,
    /// There is a page, in no representation that the client takes.
    NotAcceptable(&'a Page),
    /// `If-Match` does not name the selected representation; the answer's `Vary`.
    PreconditionFailed(Option<&'static str>),
    /// It has another address.
    Elsewhere(&'a str),
    /// It can only be read.
    ReadOnly,
}

/// A file as it is sent, or spoken of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent<'a> {
    pub(super) body: &'a Body,
    pub(super) file: &'a File,
    pub(super) encoding: Encoding,
    pub(super) form: Form,
    /// Whether another `Accept` could have led to something else.
    pub(super) is_negotiated: bool,
}

/// What an answer with a file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Here it is: 200.
    Whole,
    /// You have it: 304 (RFC 9110 §15.4.5).
    Unmodified,
    /// This stands in for what is missing: 404.
    Missing,
}

/// What a request says that decides about its answer. Each is asked for only where it matters.
pub(super) trait Asked {
    /// What `Accept` comes to.
    fn media(&self) -> Option<Media>;

    /// What `Accept-Encoding` says.
    fn codings(&self) -> Codings;

    /// Whether the request has an `If-Match` that does not name this body's validator.
    fn fails_if_match(&self, body: &Body) -> bool;

    /// Whether `If-None-Match` names this body's validator.
    fn has(&self, body: &Body) -> bool;
}

/// Chooses what is answered to a request for `path`, which is decoded, and what that is counted as.
pub(super) fn choose<'a>(
    site: &'a Site,
    path: &str,
    is_read: bool,
    asked: &impl Asked,
) -> (Choice<'a>, Seen) {
    let entry = site.get(path);
    let class = class(entry);
    match entry {
        None if path.starts_with(API) => (Choice::UnknownEndpoint, Seen::other(class)),
        None => {
            let media = asked.media();
            let choice = match representation_of(site.not_found(), media) {
                // A validator would let a cache keep answering 304 for a page that has come into being since.
                Some(file) => Choice::Send(Sent::new(file, Form::Missing, true, asked)),
                None => Choice::NothingAtAll,
            };
            (choice, Seen { class, representation: media.into() })
        }
        Some(_) if !is_read => (Choice::ReadOnly, Seen::other(class)),
        Some(Entry::Page(page)) => {
            let media = asked.media();
            let choice = match representation_of(page, media) {
                Some(file) => Choice::conditional(file, true, asked),
                None => Choice::NotAcceptable(page),
            };
            (choice, Seen { class, representation: media.into() })
        }
        Some(Entry::File(file, _)) => {
            let seen = Seen { class, representation: representation(file) };
            (Choice::conditional(file, false, asked), seen)
        }
        Some(Entry::Redirect(to)) => (Choice::Elsewhere(to), Seen::other(class)),
    }
}

fn representation_of(page: &Page, media: Option<Media>) -> Option<&File> {
    match media? {
        Media::Html => Some(&page.html),
        Media::Markdown => Some(&page.markdown),
    }
}

impl<'a> Sent<'a> {
    /// The file in the encoding that the client likes best.
    fn new(file: &'a File, form: Form, is_negotiated: bool, asked: &impl Asked) -> Self {
        let encoding = if file.compressible {
            asked.codings().choose(|encoding| file.has(encoding))
        } else {
            Encoding::Identity
        };
        Self { body: file.body(encoding), file, encoding, form, is_negotiated }
    }

    pub(super) fn status(&self) -> StatusCode {
        match self.form {
            Form::Whole => StatusCode::OK,
            Form::Unmodified => StatusCode::NOT_MODIFIED,
            Form::Missing => StatusCode::NOT_FOUND,
        }
    }

    /// The value of `Vary`: which of the request's fields have decided (RFC 9110 §12.5.5).
    pub(super) fn vary(&self) -> Option<&'static str> {
        match (self.is_negotiated, self.file.compressible) {
            (true, true) => Some("Accept, Accept-Encoding"),
            (true, false) => Some("Accept"),
            (false, true) => Some("Accept-Encoding"),
            (false, false) => None,
        }
    }

    /// Whether other sites may show it. Images, feeds and guides they may, in a feed reader for one; pages not.
    pub(super) fn is_embeddable(&self) -> bool {
        !self.is_negotiated
    }

    fn answer(&self) -> Answer {
        let is_whole = self.form != Form::Unmodified;
        let bytes = if is_whole { self.body.bytes.clone() } else { Bytes::new() };
        let mut answer = Response::new(Full::new(bytes));
        *answer.status_mut() = self.status();
        let headers = answer.headers_mut();
        // For those below and what every answer carries: growing step by step would place each of them anew.
        headers.reserve(MOST_FIELDS);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(self.file.cache().control()));
        if is_whole {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.file.media_type()));
            if let Some(token) = self.encoding.token() {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static(token));
            }
        }
        if self.form != Form::Missing
            && let Ok(etag) = HeaderValue::from_maybe_shared(self.body.shared_etag())
        {
            headers.insert(ETAG, etag);
        }
        if let Some(link) = self.file.link().and_then(|link| HeaderValue::from_maybe_shared(link).ok()) {
            headers.insert(LINK, link);
        }
        if let Some(vary) = self.vary() {
            headers.insert(VARY, HeaderValue::from_static(vary));
        }
        if self.is_embeddable() {
            headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("cross-origin"));
        }
        answer
    }
}

impl Asked for HeaderMap {
    fn media(&self) -> Option<Media> {
        negotiate::choose(lines(self, &ACCEPT))
    }

    fn codings(&self) -> Codings {
        Codings::read(lines(self, &ACCEPT_ENCODING))
    }

    fn fails_if_match(&self, body: &Body) -> bool {
        let mut lines = lines(self, &IF_MATCH).peekable();
        lines.peek().is_some() && !lines.any(|line| matches_etag_strongly(line, body.etag()))
    }

    fn has(&self, body: &Body) -> bool {
        lines(self, &IF_NONE_MATCH).any(|line| matches_etag(line, body.etag()))
    }
}

/// Answers a request for anything but the forms, and says what it is counted as; `path` is decoded.
pub(super) fn answer(site: &Site, path: &str, head: &Parts) -> (Answer, Seen) {
    let is_read = head.method == Method::GET || head.method == Method::HEAD;
    let (choice, seen) = choose(site, path, is_read, &head.headers);
    (choice.into_answer(site, head.uri.query()), seen)
}

impl<'a> Choice<'a> {
    /// The file, 304 or 412: evaluates the request's preconditions against the selected representation, in the order of RFC 9110
    /// §13.2.2.
    ///
    /// `If-Modified-Since` and `If-Unmodified-Since` are ignored, whatever date they have: no representation has a modification date
    /// (§13.1.3, §13.1.4). Preconditions do not change an answer that is no 200 without them (§13.2.1).
    fn conditional(file: &'a File, is_negotiated: bool, asked: &impl Asked) -> Self {
        let sent = Sent::new(file, Form::Whole, is_negotiated, asked);
        if asked.fails_if_match(sent.body) {
            return Self::PreconditionFailed(sent.vary());
        }
        let form = if asked.has(sent.body) { Form::Unmodified } else { Form::Whole };
        Self::Send(Sent { form, ..sent })
    }

    /// What is answered, to a request with this query.
    pub(super) fn into_answer(self, site: &Site, query: Option<&str>) -> Answer {
        match self {
            Self::Send(sent) => sent.answer(),
            Self::NothingAtAll => nothing_at_all(),
            Self::UnknownEndpoint => unknown_endpoint(),
            Self::NotAcceptable(page) => not_acceptable(site, page),
            Self::PreconditionFailed(vary) => precondition_failed(vary),
            Self::Elsewhere(to) => redirect(to, query),
            Self::ReadOnly => method_not_allowed("GET, HEAD"),
        }
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
    match file.media_type().split(';').next() {
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

/// 404 to who takes neither HTML nor Markdown.
fn nothing_at_all() -> Answer {
    let mut answer =
        text(StatusCode::NOT_FOUND, "There is nothing at this address. All pages: /sitemap.md\n");
    answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
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

/// 412 to a request whose `If-Match` names other representations (RFC 9110 §15.5.13).
fn precondition_failed(vary: Option<&'static str>) -> Answer {
    let mut answer = text(
        StatusCode::PRECONDITION_FAILED,
        "If-Match does not name the current representation. Send the request without If-Match to get it.\n",
    );
    if let Some(vary) = vary {
        answer.headers_mut().insert(VARY, HeaderValue::from_static(vary));
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
pub(super) fn matches_etag(line: &[u8], etag: &str) -> bool {
    lists(line, |candidate| candidate.strip_prefix("W/").unwrap_or(candidate) == etag)
}

/// Whether a line of `If-Match` names `etag`, by strong comparison (RFC 9110 §8.8.3.2): a weak validator never matches.
fn matches_etag_strongly(line: &[u8], etag: &str) -> bool {
    lists(line, |candidate| candidate == etag)
}

/// Whether a line of validators is `*` or has a member that `is_match` accepts.
fn lists(line: &[u8], is_match: impl Fn(&str) -> bool) -> bool {
    if line.trim_ascii() == b"*" {
        return true;
    }
    let Ok(line) = std::str::from_utf8(line) else { return false };
    // Our validators hold no comma, so that splitting at every one is safe.
    line.split(',').map(str::trim).any(is_match)
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
                let answer = Sent::new(file, Form::Whole, true, &headers).answer();
                let sent = answer.into_body().collect().await.expect("it is in memory").to_bytes();
                assert_eq!(sent.as_ptr(), file.body(encoding).bytes.as_ptr(), "{accept} {encoding:?}");
            }
        }
    }

    #[test]
    fn a_validator_is_found_in_a_list_weakly_or_strongly() {
        for (line, weakly, strongly) in [
            ("\"a\"", true, true),
            ("W/\"a\"", true, false),
            ("\"b\", \"a\"", true, true),
            ("\"b\",W/\"a\"", true, false),
            ("*", true, true),
            (" * ", true, true),
            ("W/*", false, false),
            ("\"b\"", false, false),
            ("a", false, false),
            ("", false, false),
            (",", false, false),
            ("\"a-br\"", false, false),
        ] {
            assert_eq!(matches_etag(line.as_bytes(), "\"a\""), weakly, "{line}");
            assert_eq!(matches_etag_strongly(line.as_bytes(), "\"a\""), strongly, "{line}");
        }
    }
}
