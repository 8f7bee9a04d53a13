//! Handles GET and HEAD: looks up the path, negotiates the representation and the encoding, evaluates
//! preconditions, and selects a byte range of a file.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_RANGE, HOST, HeaderMap, HeaderName, HeaderValue,
    IF_MATCH, IF_NONE_MATCH, IF_RANGE, LINK, LOCATION, RANGE, REFERER, USER_AGENT, VARY,
};
use http::request::Parts;
use http::{Method, StatusCode};

use super::metrics::{Class, Representation, RequestLabels};
use super::page_views::{PageView, PageViews};
use super::range::ByteRange;
use super::response::{
    HttpResponse, method_not_allowed, negotiated_text, removed_endpoint, text, unknown_endpoint, with_header,
};
use super::selected_representation::{ResponseKind, Selection};
use frontdesk_http::is_prefetch;
use frontdesk_negotiate::{self as negotiate, Codings, Media};
use frontdesk_site::file::{EncodedBody, File};
use frontdesk_site::{Page, Redirect, Role, Site, SiteEntry, path};

/// The path prefix of the API endpoints. An unknown path below it gets a JSON 404, because the endpoints'
/// errors are JSON as well.
pub(super) const API: &str = "/api/";

/// The response to a request for any path other than a form endpoint.
pub(super) enum ChosenResponse<'a> {
    /// A representation, a 304 response for it, or the site's page for 404 or 410.
    Send(Selection<'a>),
    /// 404 for clients that accept neither HTML nor Markdown.
    NotFound,
    /// 404 for an unknown path below [`API`], for any `Accept`.
    UnknownEndpoint,
    /// 410 for clients that accept neither HTML nor Markdown.
    Gone,
    /// 410 for a removed path below [`API`], for any `Accept`.
    RemovedEndpoint,
    /// 406: the client accepts no representation of this page.
    NotAcceptable(&'a Page),
    /// 412: `If-Match` does not match the selected representation. Contains the value of `Vary`.
    PreconditionFailed(Option<&'static str>),
    /// 206: a part of a file.
    Part(Selection<'a>, Range<u64>),
    /// 416: the file has none of the requested bytes.
    RangeNotSatisfiable(Selection<'a>),
    Redirect(Cow<'a, Redirect>),
    /// 405: only GET and HEAD are allowed.
    ReadOnly,
}

/// The request headers that select the response. Each is parsed only when it is needed.
pub(super) trait RequestPreferences {
    /// The preferred representation; `None` if the client accepts neither HTML nor Markdown.
    fn media(&self) -> Option<Media>;

    /// The content codings that the client accepts.
    fn codings(&self) -> Codings;

    /// Whether `If-Match` is present, is not `*`, and does not list this body's ETag.
    fn fails_if_match(&self, body: &EncodedBody) -> bool;

    /// Whether `If-None-Match` is `*`, or lists this body's ETag.
    fn matches_if_none_match(&self, body: &EncodedBody) -> bool;

    /// The only range in `Range`; `None` if the header is missing, repeated or to be ignored
    /// ([`ByteRange::parse`]).
    fn range(&self) -> Option<ByteRange>;

    /// Whether `If-Range` is present and does not match this body's ETag.
    fn fails_if_range(&self, body: &EncodedBody) -> bool;
}

/// Chooses the response for a decoded `path` and an encoded `query`, and its metrics labels.
///
/// The order is: redirect rules with query parameters, the site's entries, other rules. A rule with query
/// parameters applies to a page or file only if it is forced. Unknown and removed paths, and redirects of
/// rules, have the same response for every method; everything else permits only GET and HEAD.
pub(super) fn choose<'a>(
    site: &'a Site,
    path: &str,
    query: Option<&str>,
    method: &Method,
    preferences: &impl RequestPreferences,
) -> (ChosenResponse<'a>, RequestLabels) {
    let mut representation = Representation::Other;
    let ruled = query.and_then(|query| site.find_query_rule(path, query));
    // Rules return redirects and removals as owned entries, and the targets of rewrites as borrowed ones.
    let entry = ruled.or_else(|| site.get(path).map(Cow::Borrowed)).or_else(|| site.find_rule(path));
    let entry = match entry {
        Some(Cow::Owned(SiteEntry::Redirect(to))) => {
            let labels = RequestLabels { class: Class::Redirect, representation };
            return (ChosenResponse::Redirect(Cow::Owned(to)), labels);
        }
        Some(Cow::Owned(SiteEntry::Gone)) => Some(&SiteEntry::Gone),
        Some(Cow::Borrowed(entry)) => Some(entry),
        _ => None,
    };
    let mut error_page = |kind, otherwise| {
        let media = preferences.media();
        representation = media.into();
        representation_of(site.not_found_at(path), media).map_or(otherwise, |file| {
            ChosenResponse::Send(Selection::new(file, kind, true, || preferences.codings()))
        })
    };
    let choice = match entry {
        None if path.starts_with(API) => ChosenResponse::UnknownEndpoint,
        None => error_page(ResponseKind::NotFound, ChosenResponse::NotFound),
        Some(SiteEntry::Gone) if path.starts_with(API) => ChosenResponse::RemovedEndpoint,
        Some(SiteEntry::Gone) => error_page(ResponseKind::Gone, ChosenResponse::Gone),
        Some(_) if !matches!(*method, Method::GET | Method::HEAD) => ChosenResponse::ReadOnly,
        Some(SiteEntry::Page(page)) => {
            let media = preferences.media();
            representation = media.into();
            representation_of(page, media).map_or(ChosenResponse::NotAcceptable(page), |file| {
                ChosenResponse::conditional(file, true, Some(&page.path), None, preferences)
            })
        }
        Some(SiteEntry::File(file, role)) => {
            representation = representation_label(file);
            let page = if let Role::Twin(page) = role { Some(page) } else { None };
            // Ranges are defined for GET only (RFC 9110 §14.2).
            let range = if *method == Method::GET { preferences.range() } else { None };
            ChosenResponse::conditional(file, false, page, range, preferences)
        }
        Some(SiteEntry::Redirect(to)) => ChosenResponse::Redirect(Cow::Borrowed(to)),
    };
    (choice, RequestLabels { class: class_label(entry), representation })
}

/// The page in the preferred representation; `None` if the client accepts neither HTML nor Markdown.
fn representation_of(page: &Page, media: Option<Media>) -> Option<&File> {
    match media? {
        Media::Html => Some(&page.html),
        Media::Markdown => Some(&page.markdown),
    }
}

/// The metrics label for a URL with this entry; [`Class::None`] for unknown and removed URLs.
fn class_label(entry: Option<&SiteEntry>) -> Class {
    match entry {
        None | Some(SiteEntry::Gone) => Class::None,
        Some(SiteEntry::Page(_)) => Class::Page,
        Some(SiteEntry::File(_, Role::Twin(_))) => Class::Twin,
        Some(SiteEntry::File(_, Role::Resource)) => Class::Resource,
        Some(SiteEntry::File(_, Role::Asset)) => Class::Asset,
        Some(SiteEntry::Redirect(_)) => Class::Redirect,
    }
}

/// The metrics label of a file whose representation is not negotiated.
fn representation_label(file: &File) -> Representation {
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

impl RequestPreferences for HeaderMap {
    fn media(&self) -> Option<Media> {
        negotiate::choose(field_values(self, ACCEPT))
    }

    fn codings(&self) -> Codings {
        Codings::parse(field_values(self, ACCEPT_ENCODING))
    }

    fn fails_if_match(&self, body: &EncodedBody) -> bool {
        let mut lines = field_values(self, IF_MATCH).peekable();
        lines.peek().is_some() && !lines.any(|line| matches_etag_strongly(line, body.etag()))
    }

    fn matches_if_none_match(&self, body: &EncodedBody) -> bool {
        field_values(self, IF_NONE_MATCH).any(|line| matches_etag(line, body.etag()))
    }

    fn range(&self) -> Option<ByteRange> {
        let mut lines = field_values(self, RANGE);
        lines.next().filter(|_| lines.next().is_none()).and_then(ByteRange::parse)
    }

    fn fails_if_range(&self, body: &EncodedBody) -> bool {
        // A date never matches, because no representation has a modification date (RFC 9110 §13.1.5).
        field_values(self, IF_RANGE).any(|value| value.trim_ascii() != body.etag().as_bytes())
    }
}

/// Chooses the response to a request for any decoded path other than a form endpoint, and its metrics labels.
/// Counts a 200 or 304 for a page as a view in `views`, if it is given and the request is a GET and not a
/// prefetch.
pub(super) fn choose_and_count<'a>(
    site: &'a Site,
    path: &str,
    head: &Parts,
    preferences: &impl RequestPreferences,
    views: Option<&PageViews>,
) -> (ChosenResponse<'a>, RequestLabels) {
    let (choice, labels) = choose(site, path, head.uri.query(), &head.method, preferences);
    if let (ChosenResponse::Send(selection), Some(views)) = (&choice, views)
        && let Some(page) = selection.viewed_page(head.method == Method::GET)
    {
        record_view(views, page, labels.representation, site, head);
    }
    (choice, labels)
}

/// Counts the view of a page, unless the request is a prefetch.
fn record_view(
    views: &PageViews,
    page: &Arc<str>,
    representation: Representation,
    site: &Site,
    head: &Parts,
) {
    let mut purposes = [SEC_PURPOSE, PURPOSE].into_iter().flat_map(|name| field_values(&head.headers, name));
    if purposes.any(is_prefetch) {
        return;
    }
    let value = |name| head.headers.get(name).map(HeaderValue::as_bytes);
    let host = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    views.record(&PageView {
        page,
        representation,
        user_agent: value(USER_AGENT),
        referer: value(REFERER),
        host: host.or_else(|| value(HOST)).unwrap_or_default(),
        base_url: &site.base_url,
    });
}

/// The header that marks a prefetch (Fetch). Older browsers send [`PURPOSE`] instead.
const SEC_PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");
const PURPOSE: HeaderName = HeaderName::from_static("purpose");

impl<'a> ChosenResponse<'a> {
    /// Evaluates the request's preconditions in the order of RFC 9110 §13.2.2, then its range.
    ///
    /// Ignores `If-Modified-Since` and `If-Unmodified-Since`, because no representation has a modification
    /// date (§13.1.3, §13.1.4). Preconditions do not change a response that would not be 200 (§13.2.1).
    ///
    /// A range applies to the unencoded body, which is the same for all clients and after a restart. If the
    /// range is then ignored, the whole body is sent unencoded.
    fn conditional(
        file: &'a File,
        is_negotiated: bool,
        page: Option<&'a Arc<str>>,
        range: Option<ByteRange>,
        preferences: &impl RequestPreferences,
    ) -> Self {
        let codings = || if range.is_some() { Codings::default() } else { preferences.codings() };
        let selection = Selection::new(file, ResponseKind::Full, is_negotiated, codings);
        let mut selection = selection.of_page(page);
        if preferences.fails_if_match(selection.body) {
            return Self::PreconditionFailed(selection.vary());
        }
        if preferences.matches_if_none_match(selection.body) {
            selection.kind = ResponseKind::NotModified;
            return Self::Send(selection);
        }
        let length = selection.body.len();
        // An empty file is sent whole, because some clients add a range to all requests to limit the
        // response.
        match range.filter(|_| length > 0 && !preferences.fails_if_range(selection.body)) {
            None => Self::Send(selection),
            Some(range) => match range.of(length) {
                Some(bytes) => Self::Part(selection, bytes),
                None => Self::RangeNotSatisfiable(selection),
            },
        }
    }

    /// Builds the response, without the security headers. Uses the request's `query` only in redirects.
    pub(super) fn into_response(self, site: &Site, query: Option<&str>) -> HttpResponse {
        match self {
            Self::Send(selection) => selection.to_response(),
            Self::NotFound => negotiated_text(
                StatusCode::NOT_FOUND,
                "There is nothing at this address. All pages: /sitemap.md\n",
            ),
            Self::UnknownEndpoint => unknown_endpoint(&site.form_set),
            Self::Gone => {
                negotiated_text(StatusCode::GONE, "This page has been removed. All pages: /sitemap.md\n")
            }
            Self::RemovedEndpoint => removed_endpoint(&site.form_set),
            Self::NotAcceptable(page) => not_acceptable(site, page),
            Self::PreconditionFailed(vary) => precondition_failed(vary),
            Self::Part(selection, bytes) => selection.to_partial_response(bytes),
            Self::RangeNotSatisfiable(selection) => range_not_satisfiable(&selection),
            Self::Redirect(to) => redirect(&to, query),
            Self::ReadOnly => method_not_allowed("GET, HEAD"),
        }
    }
}

/// 406 with the address of each representation (RFC 9110 §15.5.7).
fn not_acceptable(site: &Site, page: &Page) -> HttpResponse {
    let (path, twin) = (&page.path, &page.twin);
    let base = &site.base_url;
    let body = format!(
        "This page has two representations, and the Accept header allows neither:

text/html      {base}{path}
text/markdown  {base}{twin}
"
    );
    let mut response = negotiated_text(StatusCode::NOT_ACCEPTABLE, body);
    let links = format!(
        "<{path}>; rel=\"alternate\"; type=\"text/html\", <{twin}>; rel=\"alternate\"; type=\"text/markdown\""
    );
    if let Ok(links) = HeaderValue::from_str(&links) {
        response.headers_mut().insert(LINK, links);
    }
    response
}

/// 412 (RFC 9110 §15.5.13), with `vary` as the value of `Vary`.
fn precondition_failed(vary: Option<&'static str>) -> HttpResponse {
    let body =
        "If-Match does not match the current representation. Send the request without If-Match to get it.\n";
    let response = text(StatusCode::PRECONDITION_FAILED, body);
    if let Some(vary) = vary { with_header(response, VARY, vary) } else { response }
}

/// 416 with the length of the file (RFC 9110 §15.5.17).
fn range_not_satisfiable(selection: &Selection<'_>) -> HttpResponse {
    let length = selection.body.len();
    let body = format!("The requested range is not in this file, which has {length} bytes.\n");
    let mut response = text(StatusCode::RANGE_NOT_SATISFIABLE, body);
    if let Ok(range) = HeaderValue::try_from(format!("bytes */{length}")) {
        response.headers_mut().insert(CONTENT_RANGE, range);
    }
    if let Some(vary) = selection.vary() { with_header(response, VARY, vary) } else { response }
}

/// A redirect (RFC 9110 §15.4). Keeps the request's query, unless the target has its own or the redirect
/// comes from a rule with query parameters. Caches must revalidate it, even if it is permanent.
fn redirect(Redirect { to, status, keeps_query }: &Redirect, query: Option<&str>) -> HttpResponse {
    let (path, fragment) = to.split_at(to.find('#').unwrap_or(to.len()));
    let location = match query.filter(|_| *keeps_query && !path.contains('?')) {
        Some(query) => format!("{path}?{query}{fragment}"),
        None => to.clone(),
    };
    let response = negotiated_text(*status, format!("This page is at {to}\n"));
    let mut response = with_header(response, CACHE_CONTROL, "no-cache");
    // A client may send its query as raw UTF-8, but `Location` is a URI reference (RFC 9110 §10.2.2).
    if let Ok(location) = HeaderValue::from_str(&path::encode_non_ascii(&location)) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// The values of all lines of a header field, in order.
pub(super) fn field_values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    headers.get_all(name).iter().map(HeaderValue::as_bytes)
}

/// Whether a line of `If-None-Match` matches `etag` by weak comparison (RFC 9110 §8.8.3.2).
pub(super) fn matches_etag(line: &[u8], etag: &str) -> bool {
    any_etag(line, |candidate| candidate.strip_prefix("W/").unwrap_or(candidate) == etag)
}

/// Whether a line of `If-Match` matches `etag` strongly (RFC 9110 §8.8.3.2): weak validators never match.
fn matches_etag_strongly(line: &[u8], etag: &str) -> bool {
    any_etag(line, |candidate| candidate == etag)
}

/// Whether a line of `If-Match` or `If-None-Match` is `*`, or lists an ETag that `is_match` accepts.
fn any_etag(line: &[u8], is_match: impl Fn(&str) -> bool) -> bool {
    if line.trim_ascii() == b"*" {
        return true;
    }
    let Ok(line) = std::str::from_utf8(line) else { return false };
    // The server's ETags contain no commas, so splitting at every comma is safe.
    line.split(',').map(str::trim).any(is_match)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use frontdesk_negotiate::Encoding;
    use frontdesk_site::file::Cache;

    #[tokio::test]
    async fn a_response_shares_the_bytes_of_the_file() {
        let file = |media_type| {
            let file = File::new(media_type, Cache::Revalidate, "A line that repeats itself.\n".repeat(50));
            file.compress();
            Arc::new(file)
        };
        let (html, markdown) = (file("text/html; charset=utf-8"), file("text/markdown; charset=utf-8"));
        let page = Page::new(html, markdown, "/".into(), "/index.md".into());
        for accept in ["text/html", "text/markdown"] {
            for encoding in [Encoding::Identity, Encoding::Gzip, Encoding::Brotli, Encoding::Zstd] {
                let mut headers = HeaderMap::new();
                headers.insert(ACCEPT, HeaderValue::from_static(accept));
                headers.insert(
                    ACCEPT_ENCODING,
                    HeaderValue::from_static(encoding.token().unwrap_or("identity")),
                );
                let file = if accept == "text/html" { &page.html } else { &page.markdown };
                let response =
                    Selection::new(file, ResponseKind::Full, true, || headers.codings()).to_response();
                let sent = response.into_body().collect().await.expect("it is in memory").to_bytes();
                assert_eq!(sent.as_ptr(), file.body(encoding).bytes.as_ptr(), "{accept} {encoding:?}");
            }
        }
    }

    #[test]
    fn locations_are_ascii() {
        for (to, query, expected) in [
            ("/caf%C3%A9/", "x=ü&y=%C3%BC", "/caf%C3%A9/?x=%C3%BC&y=%C3%BC"),
            ("/a/#b", "x={|}", "/a/?x={|}#b"),
            ("/a/?x=1", "x=ü", "/a/?x=1"),
        ] {
            let response = redirect(&Redirect::permanent(to), Some(query));
            assert_eq!(response.headers()[LOCATION], expected);
        }
    }

    #[test]
    fn validators_match_by_weak_or_strong_comparison() {
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
