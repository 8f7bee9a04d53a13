//! Routes requests to the public address by their URL: forms, confirmation links, live reload, the site.

use std::borrow::Cow;
use std::sync::Arc;

use http::Method;
use http::header::VARY;
use http::request::Parts;
use tokio::time::Instant;

use super::access_log::{self, ServedRequest};
use super::confirm::{self, ConfirmRequest};
use super::get_page::{self, API, ChosenResponse};
use super::live_reload;
use super::metrics::{Class, RequestLabels};
use super::post_form::FormRequest;
use super::preferences::HeaderPreferences;
use super::public_site::PublicSite;
use super::response::{HttpResponse, add_security_headers, bad_request, with_header};
use super::state::Snapshot;
use frontdesk_http::{
    Handler, PlainRequest, PlainResponse, PublicHandler, Refusal, Request, RequestBody, RequestContext,
    RequestId, ResponseBody, X_REQUEST_ID,
};
use frontdesk_process::panics;
use frontdesk_site::path::{self, PathError};
use frontdesk_site::{Redirect, Site};

impl PublicSite {
    /// Passes the request to the form, the confirmation link, live reload or the site, by its decoded path.
    /// Confirmation links exist only if the site confirms addresses, live reload only under `serve --watch`;
    /// otherwise the site responds. Refuses or redirects a path that is invalid or ambiguous
    /// ([`refuse_path`]). Counts page views if that is enabled.
    async fn route(
        &self,
        snapshot: &Snapshot,
        context: RequestContext,
        head: &Parts,
        body: &mut RequestBody,
    ) -> Routed {
        const FORM: RequestLabels = RequestLabels::other(Class::Form);
        const NONE: RequestLabels = RequestLabels::other(Class::None);
        let (app, options) = (&self.app, &snapshot.options);
        let path = match path::decode(head.uri.path()) {
            Ok(path) => path,
            Err(error) => return refuse_path(&snapshot.site, head, error).into(),
        };
        // Box the handlers' futures; otherwise every request's future would be as large as the largest one.
        if let Some(form) = snapshot.site.form_set.at(&path) {
            let request = FormRequest { app, snapshot, form, peer: context.peer, head };
            return (Box::pin(request.respond(body)).await, FORM).into();
        }
        if confirm::is_link(&path) && snapshot.site.confirms_addresses {
            let request = ConfirmRequest { app, snapshot, peer: context.peer, head, path: &path };
            return (Box::pin(request.respond()).await, NONE).into();
        }
        if let Some(live_reload) = &app.live_reload
            && live_reload::is_wait(&path, head)
        {
            return (Box::pin(live_reload.respond(head, options.http.timeouts.exchange)).await, NONE).into();
        }
        let preferences = HeaderPreferences { headers: &head.headers, cache: &self.preferences };
        let views = options.count_views.then_some(&app.page_views);
        let (choice, labels) = get_page::choose_and_count(&snapshot.site, &path, head, &preferences, views);
        // Leave files on the disk to the code below, which responds with 503 if a file has changed.
        if let ChosenResponse::Send(selection) = choice
            && selection.body.disk_file().is_none()
        {
            let response =
                self.heads.borrow_mut().respond(&selection, context.scheme, snapshot, context.began);
            return Routed { response, labels, has_all_headers: true };
        }
        (choice.into_response(&snapshot.site, head.uri.query()), labels).into()
    }

    /// Counts the request, and logs it if that is enabled. The request ID in the log is that of the response
    /// or of a trusted proxy, or else a new one.
    fn record(
        &self,
        snapshot: &Snapshot,
        head: &Parts,
        context: RequestContext,
        labels: RequestLabels,
        response: &HttpResponse,
    ) {
        let served = ServedRequest {
            method: head.method.as_str(),
            path: head.uri.path(),
            labels,
            status: response.status(),
            length: response.body().len(),
            took: context.began.elapsed(),
        };
        access_log::record(&self.app, snapshot, &served, || {
            let lines = get_page::field_values(&head.headers, X_REQUEST_ID);
            let proxies = &snapshot.options.http.trusted_proxies;
            let new = || RequestId::from_proxy_or_new(context.peer, lines, proxies);
            response.headers().get(X_REQUEST_ID).cloned().map_or_else(new, RequestId)
        });
    }
}

impl Handler for PublicSite {
    type Snapshot = Snapshot;
    type Body = ResponseBody;

    /// Routes the request, counts it, logs it if enabled, and adds the headers that every response carries.
    async fn respond(&self, snapshot: &Arc<Snapshot>, request: Request<'_>) -> HttpResponse {
        let Request { head, body, context } = request;
        panics::inject("request", head.uri.path());
        let Routed { response, labels, has_all_headers } = self.route(snapshot, context, head, body).await;
        self.record(snapshot, head, context, labels, &response);
        if has_all_headers {
            return response;
        }
        snapshot.add_common_headers(context.scheme, response)
    }
}

impl PublicHandler for PublicSite {
    /// Also counts the refused request, logs it if that is enabled, and adds the headers of all responses.
    /// Adds `Vary: Accept` to a redirect. If the request has not been parsed, only adds the security headers.
    fn refuse(
        &self,
        snapshot: &Arc<Snapshot>,
        request: Option<&Request<'_>>,
        refusal: Refusal,
    ) -> HttpResponse {
        let is_redirect = matches!(refusal, Refusal::Redirect(_));
        let mut response = refusal.into_response();
        let Some(Request { head, context, .. }) = request else {
            return add_security_headers(response, &snapshot.options.content_security_policy);
        };
        if is_redirect {
            response = with_header(response, VARY, "Accept");
        }
        let class = if is_redirect { Class::Redirect } else { Class::None };
        self.record(snapshot, head, *context, RequestLabels::other(class), &response);
        snapshot.add_common_headers(context.scheme, response)
    }

    fn respond_plain(
        &self,
        snapshot: &Arc<Snapshot>,
        context: RequestContext,
        request: &PlainRequest<'_, '_>,
        response: &mut PlainResponse<'_>,
    ) -> Option<Instant> {
        self.send_plain(snapshot, context, request, response)
    }
}

/// A permanent redirect for GET and HEAD if the path is only ambiguous because of empty segments, which links
/// have that join a base URL and a path, each with a slash. The redirect keeps the query. Otherwise, and
/// below [`API`], 400.
fn refuse_path(site: &Site, head: &Parts, error: PathError) -> (HttpResponse, RequestLabels) {
    let merged = path::merge_slashes(head.uri.path()).filter(|to| !to.starts_with(API));
    match merged.filter(|_| matches!(head.method, Method::GET | Method::HEAD)) {
        Some(to) => {
            let redirect = ChosenResponse::Redirect(Cow::Owned(Redirect::permanent(to)));
            (redirect.into_response(site, head.uri.query()), RequestLabels::other(Class::Redirect))
        }
        None => (bad_request(&error.to_string()), RequestLabels::other(Class::None)),
    }
}

struct Routed {
    response: HttpResponse,
    labels: RequestLabels,
    /// Whether the response already has the headers that every response carries.
    has_all_headers: bool,
}

impl From<(HttpResponse, RequestLabels)> for Routed {
    fn from((response, labels): (HttpResponse, RequestLabels)) -> Self {
        Self { response, labels, has_all_headers: false }
    }
}
