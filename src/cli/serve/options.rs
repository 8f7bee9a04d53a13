//! The options of `frontdesk serve` that can be set only on the command line.

use std::net::Ipv4Addr;
use std::path::Path;

use frontdesk_config::Config;
use frontdesk_http::Address;
use frontdesk_http::tls::TlsOptions;
use frontdesk_inbox::store::{DatabaseUrl, StoreOptions};

/// The options of `frontdesk serve` that are not configuration keys.
#[derive(Debug, Clone, Copy, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command")]
pub(in crate::cli) struct ServeOptions {
    /// For authors: reload the site, its configuration and open pages whenever a file changes
    #[arg(long)]
    pub(super) watch: bool,
    /// For authors: also show drafts, scheduled pages and expired pages
    #[arg(long)]
    pub(super) drafts: bool,
    /// Start even if the inbox cannot be written: the pages are served, and the forms answer 500
    #[arg(long)]
    pub(super) pages_only: bool,
    /// For `frontdesk audit DIR`: until standard input ends, only on a free loopback port, without TLS,
    /// channels, private listeners and shared services, with an inbox in a temporary folder
    #[arg(long, hide = true)]
    pub(super) isolated: bool,
}

impl ServeOptions {
    /// Applies the options to a configuration that was just read. With `watch`, page views are not counted.
    /// With an option for authors, there is no canary.
    pub(super) fn apply_to(self, mut config: Config) -> Config {
        config.pages.has_reload_script = self.watch;
        config.pages.shows_unpublished = self.drafts;
        // `--watch` is for authors, whose own views must not count.
        config.web.count_views &= !self.watch;
        // The canary of a preview must not send test submissions to the public site.
        if self.watch || self.drafts {
            config.canary.every = None;
        }
        config
    }

    /// Logs a warning for each option that is for authors only.
    pub(super) fn warn_about_authoring(self) {
        if self.watch {
            tracing::warn!(
                "pages contain a script that reloads them after changes: `--watch` is for authors, not for production"
            );
            tracing::warn!("page views are not counted: with `--watch`, they would be the author's own");
        }
        if self.drafts {
            tracing::warn!(
                "drafts, scheduled pages and expired pages are shown to everyone: `--drafts` is for authors, not for production"
            );
        }
    }
}

/// The configuration for a server that reaches nothing but a folder for its data and one loopback port: no
/// base URL, TLS, channels, mails to visitors, digest, canary, private listeners or shared services (Redis,
/// rspamd). Its log is text, and it counts no page views.
pub(super) fn isolate(mut config: Config, data: &Path) -> Config {
    config.base_url = None;
    config.listen = vec![Address::Tcp((Ipv4Addr::LOCALHOST, 0).into())];
    config.tls_listen.clear();
    config.web.http.tls = TlsOptions::default();
    config.ops_listen = None;
    config.inbox_listen = None;
    config.inbox_certificate = None;
    config.web.inbox_pages.domain = None;
    config.web.count_views = false;
    data.clone_into(&mut config.data_dir);
    config.store = StoreOptions::new(DatabaseUrl::Sqlite(data.join("inbox.db")));
    config.web.inbox = config.store.url.clone();
    config.channels.clear();
    config.canary.every = None;
    config.visitor_channels.clear();
    config.maintenance.digest_at = None;
    config.maintenance.reminders = None;
    config.limits.shared = None;
    config.intake.rspamd = None;
    config.log.is_json = Some(false);
    config
}
