//! The options of an audit.

use std::time::Duration;

use frontdesk_fetch::ExtraRoots;
use http::{HeaderName, HeaderValue};

/// The options of an audit.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum number of requests that the audit sends. TLS handshakes without a request count as well.
    pub max_requests: usize,
    /// The number of pages that are compared with their Markdown, including the one that the URL names.
    pub pages: usize,
    /// Fields that requests carry, such as the credentials of a staging site. They are sent to the origin
    /// of the named URL, and over TLS to the same site.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The `User-Agent` that replaces the audit's own.
    pub user_agent: Option<HeaderValue>,
    /// Certificate authorities to trust in addition to the public ones, for example to audit a staging site.
    pub extra_roots: Option<ExtraRoots>,
    /// Whether to submit each form once with valid values. Otherwise only invalid requests are sent.
    pub submits: bool,
    /// The minimum time between the starts of two requests. Zero for sites on this machine.
    pub pace: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_requests: 60,
            pages: 3,
            headers: Vec::new(),
            user_agent: None,
            extra_roots: None,
            submits: false,
            pace: Duration::from_millis(150),
        }
    }
}
