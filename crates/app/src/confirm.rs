//! Double opt-in: shows the page of a confirmation link, and confirms the address when the visitor presses
//! the button on this page.
//!
//! Mail scanners follow links, so GET confirms nothing; the button sends POST.

#![expect(clippy::disallowed_methods, reason = "links expire")]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY, RETRY_AFTER,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use jiff::Timestamp;

use super::get_page::field_values;
use super::post_form::whole_seconds;
use super::response::{HttpResponse, method_not_allowed, text};
use super::state::{AppState, Snapshot};
use frontdesk_http::{Peer, RequestId, X_REQUEST_ID, client_ip};
use frontdesk_inbox::store::{LinkState, LinkToken, StoreError};
use frontdesk_limits::{Admission, Source};
use frontdesk_site::{CONFIRM_PATH, ConfirmPage};

/// Whether a decoded path has the prefix of confirmation links. The token may still be invalid.
pub(super) fn is_link(path: &str) -> bool {
    path.starts_with(CONFIRM_PATH)
}

pub(super) struct ConfirmRequest<'a> {
    pub(super) app: &'a Arc<AppState>,
    pub(super) snapshot: &'a Snapshot,
    pub(super) peer: Peer,
    pub(super) head: &'a Parts,
    /// The decoded path of the request.
    pub(super) path: &'a str,
}

impl ConfirmRequest<'_> {
    /// GET shows the link's state, and POST confirms the address; both count towards the rate limit, unless
    /// the token is malformed. 405 for other methods, 404 for an unknown or malformed token, 410 for an
    /// expired one, 429 if the client is over its rate limit, and 500 if the store fails.
    pub(super) async fn respond(&self) -> HttpResponse {
        let Self { snapshot, peer, head, path, .. } = *self;
        let confirms = match head.method {
            Method::GET | Method::HEAD => false,
            Method::POST => true,
            _ => return method_not_allowed("GET, HEAD, POST"),
        };
        // Malformed tokens cause no database query.
        let Some(token) = path.strip_prefix(CONFIRM_PATH).and_then(LinkToken::parse) else {
            return self.page(StatusCode::NOT_FOUND, ConfirmPage::Invalid);
        };
        let options = &snapshot.options.http;
        let client = client_ip(peer, &head.headers, &options.trusted_proxies, options.forwarded_header);
        let decision = snapshot.limiter.check(Source::from(client), Instant::now()).await;
        if let Admission::Refused { retry_after, .. } = decision.admission {
            let seconds = whole_seconds(retry_after);
            let mut response = text(
                StatusCode::TOO_MANY_REQUESTS,
                format!("Too many requests. Try again in {seconds} s.\n"),
            );
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
            add_headers(response.headers_mut());
            return response;
        }
        match self.read_or_confirm(token, confirms).await {
            Ok(LinkState::Open) => self.page(StatusCode::OK, ConfirmPage::Ask),
            Ok(LinkState::Confirmed) => self.page(StatusCode::OK, ConfirmPage::Done),
            Ok(LinkState::Expired) => self.page(StatusCode::GONE, ConfirmPage::Invalid),
            Ok(LinkState::Unknown) => self.page(StatusCode::NOT_FOUND, ConfirmPage::Invalid),
            Err(error) => {
                let lines = field_values(&head.headers, X_REQUEST_ID);
                let request = RequestId::from_proxy_or_new(peer, lines, &options.trusted_proxies);
                tracing::error!(%request, %error, "cannot read or store the state of a confirmation link; the visitor got a 500 and can try again");
                let mut response = self.page(StatusCode::INTERNAL_SERVER_ERROR, ConfirmPage::Failed);
                response.headers_mut().insert(X_REQUEST_ID, request.0);
                response
            }
        }
    }

    /// Reads the link's state or, if `confirms` is set, confirms the address and wakes the delivery worker.
    /// After success, the confirmation is on stable storage. Repeating it changes nothing.
    async fn read_or_confirm(&self, token: LinkToken, confirms: bool) -> Result<LinkState, StoreError> {
        let store = &self.app.store;
        if !confirms {
            return store.change(move |tx| tx.link_state(&token, Timestamp::now())).await;
        }
        let channels = store.channels.load_full();
        let confirmed = store.change(move |tx| tx.confirm(&token, Timestamp::now(), &channels));
        let (state, is_new) = confirmed.await?;
        if is_new {
            store.events().queued.notify_one();
        }
        Ok(state)
    }

    /// The site's page for this outcome, or plain HTML if the site has none. Never cached.
    fn page(&self, status: StatusCode, page: ConfirmPage) -> HttpResponse {
        let body = self.snapshot.site.confirm_page(page);
        let body = body.map_or_else(
            || Bytes::from_static(page.plain_html().as_bytes()),
            |file| file.unencoded().bytes.clone(),
        );
        let mut response = Response::new(body.into());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        add_headers(headers);
        response
    }
}

/// Keeps the link, which contains the token, out of `Referer` headers and search engines.
fn add_headers(headers: &mut HeaderMap) {
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex"));
}
