//! The options of `frontdesk serve` that can be set only on the command line.

use frontdesk_config::Config;

/// The options of `frontdesk serve` that are not configuration keys.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(in crate::cli) struct ServeOptions {
    /// For authors: reload the site, its configuration and open pages whenever a file changes
    #[arg(long)]
    pub(super) watch: bool,
    /// For authors: also show drafts and pages with a date in the future
    #[arg(long)]
    pub(super) drafts: bool,
    /// Start even if the inbox cannot be written: the pages are served, and the forms answer 500
    #[arg(long)]
    pub(super) pages_only: bool,
}

impl ServeOptions {
    /// Applies the options to a configuration that was just read. With `watch`, page views are not counted.
    pub(super) fn apply_to(self, mut config: Config) -> Config {
        config.pages.has_reload_script = self.watch;
        config.pages.shows_unpublished = self.drafts;
        // Authors should not count their own views.
        config.web.count_views &= !self.watch;
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
            tracing::warn!("drafts and pages with a date in the future are shown to everyone");
        }
    }
}
