//! Responds to plain requests for representations in memory, without allocating (the HTTP server's fast
//! path). Representations keep their serialized headers, so that most of a header is copied in one piece.

use http::Method;
use tokio::time::Instant;

use super::access_log::{self, ServedRequest};
use super::confirm::is_link;
use super::get_page::{self, ChosenResponse, RequestPreferences, matches_etag};
use super::header_lines::serialize;
use super::page_views::PageView;
use super::preferences::PreferenceCache;
use super::public_site::PublicSite;
use super::range::ByteRange;
use super::state::Snapshot;
use frontdesk_http::{
    FieldLines, FileBody, PlainRequest, PlainResponse, RequestContext, RequestId, ResponseBody, Scheme,
    X_REQUEST_ID,
};
use frontdesk_negotiate::{self as negotiate, Codings, Media};
use frontdesk_site::file::EncodedBody;
use frontdesk_site::path;

impl PublicSite {
    /// Writes the response and counts the request. If views are counted, a GET request for a page also counts
    /// as a view, unless it is a prefetch. Returns the current time. `None` without any effect if
    /// [`PublicSite`] must respond by way of hyper: forms, links, redirects, most errors, and files that
    /// cannot be opened or sent here.
    pub(super) fn send_plain(
        &self,
        snapshot: &Snapshot,
        context: RequestContext,
        request: &PlainRequest<'_, '_>,
        response: &mut PlainResponse<'_>,
    ) -> Option<Instant> {
        let path = path::decode(request.path).ok()?;
        if snapshot.site.form_set.at(&path).is_some() || is_link(&path) {
            return None;
        }
        let preferences = PlainPreferences { request, cache: &self.preferences };
        let method = if request.is_head { &Method::HEAD } else { &Method::GET };
        let (ChosenResponse::Send(selection), labels) =
            get_page::choose(&snapshot.site, &path, request.query, method, &preferences)
        else {
            return None;
        };
        let content_length = selection.content_length();
        let has_body = !request.is_head && content_length.is_some();
        let file = match selection.body.disk_file() {
            Some(_) if has_body && !response.sends_files() => return None,
            Some(file) => {
                Some(FileBody::new(file.open().ok()?, 0, file.len()).unchanged_since(file.modified()))
            }
            None => None,
        };
        let mut lines = self.lines.borrow_mut();
        if lines.generation != snapshot.generation {
            lines.prepare(snapshot);
        }
        let policy = &snapshot.options.content_security_policy;
        // If the file has its own headers, the first piece already contains the security headers.
        let head = [
            selection.body.cached(selection.cache_slot(), || serialize(&selection, policy)),
            if selection.has_own_headers() { &[] } else { &lines.security },
            if context.scheme == Scheme::Https { &lines.hsts } else { &[] },
        ];
        match file.filter(|_| has_body) {
            Some(file) => response.write_body(&head, ResponseBody::File(file)),
            None if has_body && selection.body.parts().is_some() => {
                response.write_body(&head, selection.content().ok()?);
            }
            None => response.write(&head, has_body.then_some(&selection.body.bytes)),
        }
        if let Some(page) = selection.viewed_page(snapshot.options.count_views && !request.is_head)
            && !request.is_prefetch
        {
            self.app.page_views.record(&PageView {
                page,
                representation: labels.representation,
                user_agent: request.user_agent,
                referer: request.referer,
                host: request.host,
                base_url: &snapshot.site.base_url,
            });
        }
        let now = Instant::now();
        let served = ServedRequest {
            method: method.as_str(),
            path: request.path,
            labels,
            status: selection.status(),
            length: content_length.unwrap_or_default(),
            took: now - context.began,
        };
        access_log::record(&self.app, snapshot, &served, || {
            let proxies = &snapshot.options.http.trusted_proxies;
            RequestId::from_proxy_or_new(context.peer, request.values_of(X_REQUEST_ID.as_str()), proxies)
        });
        Some(now)
    }
}

/// The preferences of a plain request, which has neither `Range` nor `If-Match`. Most values are cached.
struct PlainPreferences<'a> {
    request: &'a PlainRequest<'a, 'a>,
    cache: &'a PreferenceCache,
}

impl RequestPreferences for PlainPreferences<'_> {
    fn media(&self) -> Option<Media> {
        match self.request.accept {
            FieldLines::None => negotiate::choose([]),
            FieldLines::One(line) => self.cache.media(line),
            FieldLines::Many => negotiate::choose(self.request.values_of("accept")),
        }
    }

    fn codings(&self) -> Codings {
        match self.request.accept_encoding {
            FieldLines::None => Codings::default(),
            FieldLines::One(line) => self.cache.codings(line),
            FieldLines::Many => Codings::parse(self.request.values_of("accept-encoding")),
        }
    }

    /// Always false, because requests with `If-Match` are not plain.
    fn fails_if_match(&self, _: &EncodedBody) -> bool {
        false
    }

    fn matches_if_none_match(&self, body: &EncodedBody) -> bool {
        match self.request.if_none_match {
            FieldLines::None => false,
            FieldLines::One(line) => matches_etag(line, body.etag()),
            FieldLines::Many => {
                self.request.values_of("if-none-match").any(|line| matches_etag(line, body.etag()))
            }
        }
    }

    /// Always `None`, because requests with `Range` are not plain.
    fn range(&self) -> Option<ByteRange> {
        None
    }

    /// Always false, because `If-Range` only matters with `Range`.
    fn fails_if_range(&self, _: &EncodedBody) -> bool {
        false
    }
}
