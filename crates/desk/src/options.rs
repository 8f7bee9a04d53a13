//! Options of the inbox's web interface, and the limits of its clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::cross_site_guard::HostName;
use super::mailto::ReplyTemplate;
use super::role::User;
use frontdesk_deliver::ChannelOptions;
use frontdesk_deliver::smtp::SmtpOptions;
use frontdesk_forms::FormSet;
use frontdesk_http::tls::Hsts;
use frontdesk_http::{ForwardedHeader, Network, PrivateOptions};
use frontdesk_screening::Lexicon;

/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 128;
/// Maximum number of threads for queries and changes. Exports use additional threads.
const MAX_THREADS: usize = 8;
/// Maximum number of exports at a time. Each one occupies a thread while its client reads it.
pub(super) const MAX_EXPORTS: usize = 4;
/// How long a client may take to send the header of a request, and how long a connection may be idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a connection may stay open. Browsers then open a new one for a live list.
const MAX_CONNECTION_TIME: Duration = Duration::from_mins(15);

#[derive(Debug, Clone, Default)]
pub struct DeskOptions {
    /// The name of the site, for titles and replies.
    pub title: String,
    /// The host name of the interface over TLS. Over TLS, requests for other hosts are refused.
    pub domain: Option<HostName>,
    /// The site's public TLS port, for links to `domain` if the interface has no address of its own.
    pub tls_port: u16,
    /// The `Strict-Transport-Security` header of responses over TLS.
    pub hsts: Option<Hsts>,
    /// Host names at which the interface is reached, in addition to its address and `localhost`.
    pub hosts: Vec<HostName>,
    /// The request header, in lower case, in which trusted proxies name the user.
    pub user_header: Option<http::HeaderName>,
    /// Peers whose [`DeskOptions::user_header`] is trusted.
    pub trusted_proxies: Vec<Network>,
    /// The header in which trusted proxies report the client's address; `None` for `X-Forwarded-For`.
    pub forwarded_header: Option<ForwardedHeader>,
    /// The users who can log in by mail, with their roles. The roles also apply to users of a proxy. Without
    /// users, only `frontdesk inbox open` and a proxy log in.
    pub users: Vec<User>,
    /// The mail server and the sender of login links. `None` if there are no users.
    pub login_mail: Option<SmtpOptions>,
    /// The channels through which test messages can be sent.
    pub channels: Vec<ChannelOptions>,
    /// Whether any form asks visitors to confirm an address. If so, lists offer a filter for unconfirmed
    /// submissions.
    pub confirms_addresses: bool,
    /// The texts of replies, by form, for the forms that configure one.
    pub replies: BTreeMap<String, ReplyTemplate>,
    /// The operator's lexicon; `None` for the built-in one.
    pub lexicon: Option<Arc<Lexicon>>,
    /// The site's forms. Lists offer filters for these forms and for the forms of stored submissions.
    pub form_set: FormSet,
    /// The percent-encoded paths of pages that show a form.
    pub form_pages: Vec<String>,
    pub view_counting: ViewCounting,
    /// The names under which AI agents are counted in page views.
    pub ai_agents: Vec<&'static str>,
    /// The names under which browsers are counted in page views.
    pub browsers: Vec<&'static str>,
}

impl DeskOptions {
    /// The lexicon with which lessons are read when a user decides about a submission: the operator's, or
    /// else the built-in one.
    pub(super) fn lexicon(&self) -> Arc<Lexicon> {
        self.lexicon.clone().unwrap_or_else(Lexicon::built_in)
    }

    /// The configured users. Empty if a proxy names the users, because it may also name others.
    pub fn only_users(&self) -> &[User] {
        if self.user_header.is_some() { &[] } else { &self.users }
    }
}

/// Whether the server counts page views.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ViewCounting {
    #[default]
    On,
    /// The configuration disables counting.
    Off,
    /// Page views are not counted, because the server runs for an author of pages (`serve --watch`).
    Watching,
}

/// The options of the HTTP server for the interface: its limits, HSTS, and the trusted proxies.
pub fn options(options: &DeskOptions) -> PrivateOptions {
    PrivateOptions {
        max_connections: MAX_CONNECTIONS,
        trusted_proxies: options.trusted_proxies.clone(),
        hsts: options.hsts.clone(),
        keep_alive: true,
        header_timeout: HEADER_TIMEOUT,
        connection_timeout: MAX_CONNECTION_TIME,
        blocking_threads: MAX_THREADS + MAX_EXPORTS,
    }
}
