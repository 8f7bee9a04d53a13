//! The selected representation of a resource, and the head of its response.
//!
//! Both hyper and the fast path serialize the headers that [`Selection::head`] defines.

use std::ops::Range;
use std::sync::Arc;

use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName,
    HeaderValue, LINK, VARY,
};
use http::{Response, StatusCode};

use super::response::{HttpResponse, file_unavailable};
use frontdesk_http::{CROSS_ORIGIN_RESOURCE_POLICY, FileBody, JoinedBody, ResponseBody};
use frontdesk_negotiate::{Codings, Encoding};
use frontdesk_site::disk_file::DiskFileChanged;
use frontdesk_site::file::{CACHE_SLOTS, EncodedBody, File};

/// Capacity for all headers of a response; without it, the map would be reallocated several times.
const HEADER_CAPACITY: usize = 16;

/// A file in the encoding that the client prefers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selection<'a> {
    pub(super) body: &'a EncodedBody,
    file: &'a File,
    encoding: Encoding,
    pub(super) kind: ResponseKind,
    /// Whether a different `Accept` could have selected a different file.
    is_negotiated: bool,
    /// The path of the page that the file represents; `None` for other files.
    page: Option<&'a Arc<str>>,
}

/// The kinds of response that have a selected representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseKind {
    /// 200
    Full,
    /// 304 (RFC 9110 §15.4.5)
    NotModified,
    /// 404 with the site's error page
    NotFound,
    /// 410 with the site's error page
    Gone,
}

impl<'a> Selection<'a> {
    /// Selects the client's preferred encoding of `file`. `codings` is called only if the file is
    /// compressible.
    pub(super) fn new(
        file: &'a File,
        kind: ResponseKind,
        is_negotiated: bool,
        codings: impl FnOnce() -> Codings,
    ) -> Self {
        let encoding = if file.compressible {
            codings().choose(|encoding| file.has_encoding(encoding))
        } else {
            Encoding::Identity
        };
        Self { body: file.body(encoding), file, encoding, kind, is_negotiated, page: None }
    }

    /// Marks the file as a representation of a page, so that its views are counted.
    pub(super) fn of_page(self, page: Option<&'a Arc<str>>) -> Self {
        Self { page, ..self }
    }

    /// The path of the page if the response counts as a view of it: with the status 200 or 304. `is_counted`
    /// says whether the request can count: views are counted, and the method is GET.
    pub(super) fn viewed_page(&self, is_counted: bool) -> Option<&'a Arc<str>> {
        self.page.filter(|_| is_counted && self.kind != ResponseKind::NotFound)
    }

    pub(super) fn status(&self) -> StatusCode {
        match self.kind {
            ResponseKind::Full => StatusCode::OK,
            ResponseKind::NotModified => StatusCode::NOT_MODIFIED,
            ResponseKind::NotFound => StatusCode::NOT_FOUND,
            ResponseKind::Gone => StatusCode::GONE,
        }
    }

    /// `Vary`: the request headers that can change the response (RFC 9110 §12.5.5), if any.
    pub(super) fn vary(&self) -> Option<&'static str> {
        match (self.is_negotiated, self.file.compressible) {
            (true, true) => Some("Accept, Accept-Encoding"),
            (true, false) => Some("Accept"),
            (false, true) => Some("Accept-Encoding"),
            (false, false) => None,
        }
    }

    /// `Content-Length`; `None` if the response has no content. hyper derives the same value from the body.
    pub(super) fn content_length(&self) -> Option<u64> {
        (self.kind != ResponseKind::NotModified).then_some(self.body.len())
    }

    /// Passes the headers that depend on the representation to `add`, except for `Content-Length`. The file's
    /// own headers replace others of the same name.
    pub(super) fn head(&self, mut add: impl FnMut(HeaderName, HeaderValue)) {
        for (name, value) in &self.file.headers {
            add(name.clone(), value.clone());
        }
        let mut add = |name, value| {
            if !self.has_own_header(&name) {
                add(name, value);
            }
        };
        add(CACHE_CONTROL, HeaderValue::from_static(self.file.cache.control()));
        if self.content_length().is_some() {
            add(CONTENT_TYPE, HeaderValue::from_static(self.file.media_type));
            if let Some(token) = self.encoding.token() {
                add(CONTENT_ENCODING, HeaderValue::from_static(token));
            }
        }
        // Error pages have no `ETag`: caches cannot revalidate a stored error and must fetch the page again.
        if !matches!(self.kind, ResponseKind::NotFound | ResponseKind::Gone)
            && let Ok(etag) = HeaderValue::from_maybe_shared(self.body.shared_etag())
        {
            add(ETAG, etag);
        }
        if let Some(Ok(link)) = self.file.link.clone().map(HeaderValue::from_maybe_shared) {
            add(LINK, link);
        }
        if let Some(vary) = self.vary() {
            add(VARY, HeaderValue::from_static(vary));
        }
        // Ranges of negotiated pages are not supported: their representations are short.
        if self.kind == ResponseKind::Full && !self.is_negotiated {
            add(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        }
        // Other sites may embed images and load feeds, but not pages.
        let embeddable = if self.is_negotiated { "same-origin" } else { "cross-origin" };
        add(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static(embeddable));
    }

    /// Whether the file has headers of its own, which replace default headers of the same name.
    pub(super) fn has_own_headers(&self) -> bool {
        !self.file.headers.is_empty()
    }

    pub(super) fn has_own_header(&self, name: &HeaderName) -> bool {
        self.file.headers.iter().any(|(own, _)| own == name)
    }

    /// The index of the response's head in [`EncodedBody::cached`]. Responses with the same body and the same
    /// index have the same head.
    pub(super) fn cache_slot(&self) -> usize {
        const KINDS: usize = CACHE_SLOTS / 2;
        self.kind as usize + if self.is_negotiated { KINDS } else { 0 }
    }

    /// The response's content; empty if the response has none. Fails if the content is on the disk and has
    /// changed since the site was loaded, or cannot be opened.
    pub(super) fn content(&self) -> Result<ResponseBody, DiskFileChanged> {
        self.part(0..self.content_length().unwrap_or_default())
    }

    /// Returns this range of the content. Fails if the file on the disk has changed, like [`Self::content`].
    fn part(&self, bytes: Range<u64>) -> Result<ResponseBody, DiskFileChanged> {
        let length = bytes.end - bytes.start;
        if let Some(parts) = self.body.parts() {
            return Ok(ResponseBody::Joined(JoinedBody::new(parts.clone(), bytes.start, length)));
        }
        let Some(file) = self.body.disk_file() else {
            let index = |position| usize::try_from(position).unwrap_or(usize::MAX);
            return Ok(self.body.bytes.slice(index(bytes.start)..index(bytes.end)).into());
        };
        let part = FileBody::new(file.open()?, bytes.start, length);
        Ok(ResponseBody::File(part.unchanged_since(file.modified())))
    }

    /// The response without the security headers, or 503 if the file on the disk has changed or cannot be
    /// opened.
    pub(super) fn to_response(self) -> HttpResponse {
        self.content().map_or_else(|DiskFileChanged| file_unavailable(), |body| self.with_body(body))
    }

    /// The response with its status and the headers of the representation, without `Content-Length`.
    fn with_body(&self, body: ResponseBody) -> HttpResponse {
        let mut response = Response::new(body);
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.reserve(HEADER_CAPACITY);
        self.head(|name, value| {
            headers.insert(name, value);
        });
        response
    }

    /// 206 with this range, which must not be empty (RFC 9110 §15.3.7); 503 if the file has changed.
    pub(super) fn to_partial_response(self, bytes: Range<u64>) -> HttpResponse {
        let range = format!("bytes {}-{}/{}", bytes.start, bytes.end - 1, self.body.len());
        let Ok(body) = self.part(bytes) else { return file_unavailable() };
        let mut response = self.with_body(body);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        if let Ok(range) = HeaderValue::try_from(range) {
            response.headers_mut().insert(CONTENT_RANGE, range);
        }
        response
    }
}
