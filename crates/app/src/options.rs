//! The options of the website and its forms, in addition to those of the HTTP server.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;

use super::cors::PageOrigin;
use super::response::content_security_policy;
use frontdesk_desk::DeskOptions;
use frontdesk_inbox::store::DatabaseUrl;
use frontdesk_site::ContentOrigins;

/// Options of the form endpoints: requests that they accept in addition to JSON from this site, and what they
/// store.
#[derive(Debug, Clone)]
pub struct FormOptions {
    /// Whether browsers may send the forms of this site's pages without JavaScript.
    pub html_posts: bool,
    /// The other origins whose pages may send the forms.
    pub allowed_origins: Vec<PageOrigin>,
    /// Whether the source of the lead is stored with each submission.
    pub lead_source: bool,
}

impl Default for FormOptions {
    fn default() -> Self {
        Self { html_posts: false, allowed_origins: Vec::new(), lead_source: true }
    }
}

#[derive(Debug, Clone)]
pub struct WebOptions {
    /// The options of the public server.
    pub http: frontdesk_http::Options,
    /// Names of the forms whose 200 response waits until a channel has confirmed the submission.
    pub confirmed_forms: Vec<&'static str>,
    /// Time limit for a confirmation. After this time, the response is 500, but delivery continues.
    pub confirm_timeout: Duration,
    pub forms: FormOptions,
    pub log_requests: bool,
    /// Whether page views are counted.
    pub count_views: bool,
    /// Options of the inbox's web interface.
    pub inbox_pages: DeskOptions,
    /// The inbox database, whose submissions and deliveries `/metrics` counts.
    pub inbox: DatabaseUrl,
    /// The content security policy of responses without one of their own.
    pub content_security_policy: HeaderValue,
}

impl Default for WebOptions {
    fn default() -> Self {
        Self {
            http: frontdesk_http::Options::default(),
            confirmed_forms: Vec::new(),
            confirm_timeout: Duration::from_secs(15),
            forms: FormOptions::default(),
            log_requests: false,
            count_views: true,
            inbox_pages: DeskOptions::default(),
            inbox: DatabaseUrl::Sqlite(PathBuf::new()),
            content_security_policy: content_security_policy(&ContentOrigins::default()),
        }
    }
}
