//! Reports that the server has started: addresses, pages, the inbox and channels.

use std::io::Write as _;
use std::time::Duration;

use super::listen::ListeningAddresses;
use super::log::ServerLog;
use crate::cli::diagnostics::{DIM, ERROR, GOOD, counted};
use frontdesk_app::AppState;
use frontdesk_config::Config;
use frontdesk_site::format_time;

/// The facts that the server reports once it is ready to serve requests.
pub(super) struct StartReport<'a> {
    pub(super) config: &'a Config,
    pub(super) app: &'a AppState,
    pub(super) addresses: &'a ListeningAddresses,
    /// Whether this start created the inbox's file; false with PostgreSQL.
    pub(super) is_new: bool,
    /// The time from the start of the process until the server was ready.
    pub(super) took: Duration,
}

impl StartReport<'_> {
    /// Logs one event for programs, or prints a banner for people.
    pub(super) fn publish(&self, log: &ServerLog) {
        if log.is_json {
            self.log();
        } else {
            log.queue.flush();
            // Ignore errors, because a closed standard error must not stop the server.
            let _ = writeln!(anstream::stderr(), "{}", self.banner().join("\n  "));
        }
    }

    /// The lines of the banner: version, addresses, pages, inbox, channels, the next scheduled page, and a
    /// reminder to set `base_url`.
    fn banner(&self) -> Vec<String> {
        let Self { config, app, addresses, is_new, took } = self;
        let site = app.snapshot.load().site.clone();
        let mut lines = vec![format!("{GOOD}frontdesk {}{GOOD:#}", env!("CARGO_PKG_VERSION"))];
        lines.extend(addresses.lines());
        if addresses.inbox.is_some() {
            lines.push(format!(
                "{DIM}`frontdesk inbox open` prints a link that logs you in to the inbox{DIM:#}"
            ));
        }
        let (kibibytes, milliseconds) = (site.size() / 1024, took.as_millis());
        let folder = config.pages.build.as_ref().map(|build| format!(" from {}", build.folder.display()));
        let folder = folder.unwrap_or_default();
        lines.push(format!(
            "{}{folder}, {kibibytes} KiB, loaded in {milliseconds} ms",
            counted(site.page_count, "page")
        ));
        let database = &config.store.url;
        lines.push(match app.store.health() {
            Ok(()) if *is_new => format!("submissions are stored in {database} (new, and empty)"),
            Ok(()) => format!("submissions are stored in {database}"),
            Err(error) => format!("{ERROR}submissions cannot be stored{ERROR:#} in {database}: {error}"),
        });
        let channels = config.channels.iter().map(|channel| match &channel.forms[..] {
            [] => format!("{} ({})", channel.name, channel.kind.name()),
            forms => format!("{} ({}, {})", channel.name, channel.kind.name(), forms.join(" and ")),
        });
        lines.push(match channels.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => {
                format!("{DIM}no channel is configured: a `[[channel]]` delivers submissions{DIM:#}")
            }
            channels => format!("and delivered to {channels}"),
        });
        let mut later = site.scheduled.iter().filter(|page| !page.expires);
        if let Some(next) = later.next() {
            let (count, at) = (counted(1 + later.count() as u64, "page"), format_time(next.at));
            lines.push(format!("{count} to be published later; the next one is {} on {at}", next.file));
        }
        if config.base_url.is_none() {
            let base_url = &config.pages.base_url;
            lines.push(format!(
                "{DIM}links begin with {base_url}: set `base_url` before you publish this site{DIM:#}"
            ));
        }
        lines
    }

    /// Logs the main contents of the banner as one event, and an error if submissions cannot be stored.
    fn log(&self) {
        let Self { config, app, addresses, is_new, took } = self;
        let site = app.snapshot.load().site.clone();
        let channels: Vec<&str> = config.channels.iter().map(|channel| channel.name.as_str()).collect();
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            public = addresses.public.join(" "),
            private = addresses.private,
            inbox_pages = addresses.inbox,
            base_url = config.pages.base_url,
            pages = site.page_count,
            bytes = site.size(),
            loaded_in_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            inbox = %config.store.url,
            inbox_is_new = is_new,
            channels = channels.join(" "),
            "serving"
        );
        if let Err(error) = app.store.health() {
            tracing::error!(%error, "submissions cannot be stored in the inbox; until the inbox works, forms respond with an error");
        }
    }
}
