//! Reloads the site and its configuration together. After an error, the server keeps the previous ones.

#![expect(clippy::disallowed_methods, reason = "reloads are timed")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use super::canary_inputs;
use super::log::log_fault;
use super::options::{self, ServeOptions};
use super::process;
use super::service_manager::ServiceManager;
use super::trial_load::TrialLoad;
use super::watch::{ReloadReason, SiteWatcher, wait_for_quiet_period};
use crate::cli::config_and_site_loading::{self, SiteCache};
use crate::cli::diagnostics::{count_faults, counted};
use frontdesk_app::agent_signature::Agents;
use frontdesk_app::{AppState, Snapshot};
use frontdesk_canary::Canary;
use frontdesk_config::{Config, Effect, Flag};
use frontdesk_deliver::worker::{DeliveryWorker, WorkerOptions};
use frontdesk_desk::{DeskOptions, ViewCounting};
use frontdesk_limits::ByteLimiter;
use frontdesk_limits::rate_limiter::RateLimiter;
use frontdesk_process::allocator;
use frontdesk_process::disk_space::MinFree;
use frontdesk_process::panics::{self, Part};
use frontdesk_site::fault::{Fault, Severity};
use frontdesk_site::{ConversionCache, Encodings, Site};

/// How many bytes of response bodies are compressed before a new site is served. Fewer than at startup,
/// because unchanged bodies keep their encodings, and an edit should be visible at once.
const COMPRESSED_AT_RELOAD: usize = 128 << 10;
/// How often replaced sites are checked for requests that still use them.
const RETIREMENT_CHECK: Duration = Duration::from_secs(1);
/// How often free memory is returned to the system.
const RELEASE_INTERVAL: Duration = Duration::from_mins(1);

/// Delay before the retry of a failed reload that should publish or take down a page.
const PUBLICATION_RETRY: SignedDuration = SignedDuration::from_mins(10);
/// Maximum number of faults that one reload logs and shows in open pages.
const MAX_SHOWN_FAULTS: usize = 50;

/// Reloads the site in its own thread.
pub(super) struct Reloader {
    pub(super) folder: PathBuf,
    pub(super) flags: Vec<Flag>,
    pub(super) options: ServeOptions,
    pub(super) trial: TrialLoad,
    /// The address to use in links if no base URL is configured.
    pub(super) address: Option<SocketAddr>,
    pub(super) app: Arc<AppState>,
    pub(super) worker: Arc<DeliveryWorker>,
    pub(super) canary: Arc<Canary>,
    pub(super) service: Arc<ServiceManager>,
    pub(super) config: Config,
    /// Results of the last load, which are reused for unchanged files.
    pub(super) cache: SiteCache,
    pub(super) encodings: Arc<Encodings>,
    pub(super) conversions: Arc<ConversionCache>,
    /// The encoding thread reports its results and its end through clones of this sender.
    pub(super) reasons: Sender<ReloadReason>,
    /// Triggers a reload after changes in the site's folder; `None` if it is not watched.
    pub(super) watcher: Option<SiteWatcher>,
    /// Whether the log is JSON.
    pub(super) is_json: bool,
}

impl Reloader {
    /// Handles triggers until the process exits: reloads, publishes scheduled pages at their times, serves
    /// stronger encodings once they are ready, frees replaced sites, and returns free memory to the system.
    pub(super) fn run(mut self, reasons: &Receiver<ReloadReason>) {
        // Replaced snapshots that requests may still use. Freeing a large site takes time, so this thread
        // keeps the last reference to each.
        let mut retired: Vec<Arc<Snapshot>> = Vec::new();
        let mut encoding = self.start_encoding();
        let mut last_reload = None;
        loop {
            let interval = if retired.is_empty() { RELEASE_INTERVAL } else { RETIREMENT_CHECK };
            let page = self.app.snapshot.load().site.scheduled.first().cloned();
            let publication = page.as_ref().map(|page| publication_reload(page.at, last_reload));
            let reason = match reasons.recv_timeout(shortened(interval, publication, Timestamp::now())) {
                Err(RecvTimeoutError::Timeout) if publication.is_some_and(|at| at <= Timestamp::now()) => {
                    let (file, expires) = page.map(|page| (page.file, page.expires)).unwrap_or_default();
                    let change = if expires { "take down" } else { "publish" };
                    tracing::info!(file, "reloading to {change} a page at its scheduled time");
                    Ok(ReloadReason::Scheduled)
                }
                reason => reason,
            };
            let before = self.app.snapshot.load_full();
            match reason {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(ReloadReason::Encoded) => self.serve_stronger_encodings(&before),
                // Return the encoders' memory now. Below, memory is returned only if no replaced snapshot is
                // in use, and an idle worker uses one until its next request.
                Ok(ReloadReason::EncodingEnded) => allocator::release_memory(),
                Ok(reason) => {
                    if reason == ReloadReason::Changed {
                        // Put the other reasons back into the queue, because this reload may fail.
                        for other in wait_for_quiet_period(reasons, self.config.pages.build.as_ref()) {
                            // Sending does not fail, because the receiver exists.
                            let _ = self.reasons.send(other);
                        }
                    }
                    if let Some(watcher) = &mut self.watcher {
                        watcher.watch_new_folders();
                    }
                    // Read the clock before the load does, so that every publication time that the load finds
                    // to be in the future is later than `last_reload`.
                    last_reload = Some(Timestamp::now());
                    if self.reload() {
                        encoding.store(true, Ordering::Relaxed);
                        encoding = self.start_encoding();
                    }
                }
            }
            retired.push(before);
            let served = self.app.snapshot.load();
            retired.retain(|state| Arc::strong_count(state) > 1 && !Arc::ptr_eq(state, &served));
            if retired.is_empty() {
                allocator::release_memory();
            }
        }
    }

    /// Replaces the bodies of the served site with those that the encoding thread has made. A failure is only
    /// logged; the site then stays as it is.
    fn serve_stronger_encodings(&self, before: &Snapshot) {
        match process::run_in_new_thread(|| before.site.strengthened(&self.encodings)) {
            Ok(site) => {
                let site = Arc::new(site);
                self.app.snapshot.store(Arc::new(Snapshot { site, ..before.clone() }));
            }
            Err(error) => {
                tracing::error!(
                    "{error}: files are still served with quick compression, which makes them larger"
                );
            }
        }
    }

    /// Compresses the served site in the background, first quickly and then as strongly as possible, and
    /// creates smaller variants of large images. Sends [`ReloadReason::Encoded`] when there are new ones.
    /// Also caches the Markdown of a build's pages. Failures are only logged. Setting the returned flag stops
    /// all of this except the quick compression. Sends [`ReloadReason::EncodingEnded`] at the end.
    fn start_encoding(&self) -> Arc<AtomicBool> {
        let stop = Arc::new(AtomicBool::new(false));
        let (site, encodings) = (self.app.snapshot.load().site.clone(), self.encodings.clone());
        let conversions = self.conversions.clone();
        let (stopped, reasons, ended) = (stop.clone(), self.reasons.clone(), self.reasons.clone());
        let work = move || {
            // Release memory at normal priority, because other threads may have to wait until that is done.
            allocator::release_memory();
            process::release_program_pages();
            // Store conversions at normal priority too: that takes a fraction of a second, and shortens the
            // next start by seconds.
            if let Err(error) = conversions.store(&stopped) {
                let folder = conversions.folder().display();
                tracing::warn!(%error, "cannot cache the Markdown of the build's pages in {folder}; every start converts them again");
            }
            process::enter_idle_class();
            site.compress(usize::MAX, Some(&encodings));
            let folder = encodings.folder.display();
            let publish = |is_new: bool| {
                if is_new && !stopped.load(Ordering::Relaxed) {
                    // Sending fails only if the server has stopped.
                    let _ = reasons.send(ReloadReason::Encoded);
                }
            };
            match site.create_missing_variants(&encodings, &stopped) {
                Ok(is_new) => publish(is_new),
                Err(error) => {
                    tracing::warn!(%error, "cannot cache smaller variants of images in {folder}; serving the originals");
                }
            }
            match site.strengthen(&encodings, &stopped) {
                Ok(is_new) => publish(is_new),
                Err(error) => {
                    tracing::warn!(%error, "cannot store strongly compressed files in {folder}; serving quickly compressed ones, which are larger");
                }
            }
            process::release_program_pages();
        };
        let work = move || {
            if let Err(panic) = panics::catch(Part::Content, work) {
                tracing::error!(
                    "{}: some files are served with quick compression, which makes them larger, or uncompressed",
                    panic.with_message()
                );
            }
            let _ = ended.send(ReloadReason::EncodingEnded);
        };
        if let Err(error) = std::thread::Builder::new().name("encode".into()).spawn(work) {
            tracing::warn!(%error, "cannot start the thread that compresses files; serving large files uncompressed until the next reload");
        }
        stop
    }

    /// Reloads the site and its configuration. Logs the result, records it in the metrics, notifies the
    /// service manager, and with `--watch` shows it in the pages that authors have open. A panic, or a
    /// thread that cannot be started, counts as a failed reload and empties the cache. Returns whether site
    /// and configuration were replaced.
    fn reload(&mut self) -> bool {
        let began = Instant::now();
        self.service.notify_reloading();
        let reloaded = process::run_in_new_thread(|| self.try_reload()).unwrap_or_else(|error| {
            self.cache.clear();
            let message = format!("the site cannot be reloaded: {error}");
            Err(vec![Fault::error(self.folder.display().to_string(), None, message).hint(error.hint())])
        });
        self.app.metrics.record_reload(reloaded.is_ok(), jiff::Timestamp::now());
        let pages = counted(self.app.snapshot.load().site.page_count, "page");
        self.service.notify_ready(&format!("{pages} at {}", self.config.pages.base_url));
        match reloaded {
            Ok((snapshot, warnings)) => {
                if let Some(live_reload) = &self.app.live_reload {
                    live_reload.publish_site(&warnings);
                }
                let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                let (pages, generation) = (snapshot.site.page_count, snapshot.generation);
                tracing::info!(pages, generation, took_ms, "site and configuration reloaded");
                true
            }
            Err(faults) => {
                if let Some(live_reload) = &self.app.live_reload {
                    let errors = faults.iter().filter(|fault| fault.severity == Severity::Error);
                    live_reload.publish_errors(&errors.take(MAX_SHOWN_FAULTS).collect::<Vec<_>>());
                }
                log_faults(&faults, self.is_json);
                let count = count_faults(&faults);
                tracing::error!("reload failed ({count}); still serving the previous site");
                false
            }
        }
    }

    /// Loads the site and its configuration, puts both into effect, and returns the warnings. A changed theme
    /// or configuration is first loaded in another process ([`TrialLoad`]). If there are errors, keeps the
    /// previous ones, and returns all faults that were found up to the failed step.
    fn try_reload(&mut self) -> Result<(Arc<Snapshot>, Vec<Fault>), Vec<Fault>> {
        self.trial.run(&self.folder).map_err(|fault| vec![fault])?;
        let (mut config, waiting, mut faults) = self.read_configuration()?;
        let (site, found) = config_and_site_loading::load_site(&self.folder, &config, &mut self.cache);
        faults.extend(found);
        let Some(mut site) = site else { return Err(faults) };
        site.use_variants(&self.encodings);
        faults.extend(config.memory_faults(site.size()));
        let before = self.app.snapshot.load_full();
        // Reuse the old site's files only if the policy is the same: their cached headers contain the policy.
        if config.web.content_security_policy == self.config.web.content_security_policy {
            site.adopt(&before.site);
        }
        site.compress(COMPRESSED_AT_RELOAD, Some(&self.encodings));

        let screening = &mut config.intake.screening;
        screening.profile = Arc::new(config_and_site_loading::read_profile(&screening.lexicon, &site));
        canary_inputs::complete(&mut config, &site);

        // The steps below cannot fail, so a failed reload changes nothing that the server serves.
        for key in waiting {
            tracing::warn!("the change to `{key}` takes effect after a restart");
        }
        let snapshot = self.apply(config, site, &before);
        self.log_warnings(&snapshot.site, &faults);
        Ok((snapshot, faults))
    }

    /// Reads the configuration, in which keys that need a restart keep their values, and raises the limit on
    /// open files for it. Returns it with the changed ones of these keys and the warnings, or all faults.
    fn read_configuration(&self) -> Result<(Config, Vec<String>, Vec<Fault>), Vec<Fault>> {
        let load = |running| {
            let (mut config, faults) =
                Config::load(&self.folder, config_and_site_loading::environment(), &self.flags, running);
            if self.options.isolated {
                config = options::isolate(config, &self.config.data_dir);
            }
            refuse_errors(faults).map(|warnings| (config, warnings))
        };
        let (changed, mut faults) = load(None)?;
        // Check the new certificate even though it may take effect only after a restart.
        faults.extend(changed.clone().with_base_url(self.address).certificate_faults());
        let warnings = refuse_errors(faults)?;
        let waiting = changed.keys_needing_restart(&self.config).into_iter().map(str::to_owned).collect();
        let (effective, _) = load(Some(&self.config))?;
        let mut config = self.options.apply_to(effective).with_base_url(self.address);
        process::raise_descriptor_limit(&mut config);
        Ok((config, waiting, warnings))
    }

    /// Puts a configuration and a site into effect for new requests, submissions and deliveries. Reloads the
    /// certificates. Each key declares what a change to it affects.
    fn apply(&mut self, config: Config, site: Site, before: &Snapshot) -> Arc<Snapshot> {
        let snapshot = Arc::new(compose_snapshot(&config, site, &self.worker, Some((&self.config, before))));
        // New submissions are queued for the new channels before the worker delivers to these channels.
        self.app.store.channels.store(config.store.channels.clone().into());
        self.app.intake.reconfigure(config.intake.clone());
        self.app.disk.reconfigure(min_free(&config));
        if config.changes_deliveries(&self.config) {
            self.worker.reconfigure(worker_options(&config));
        }
        self.canary.reconfigure(config.canary.clone());
        self.app.desk.store(Arc::new(desk_options(&config, &snapshot.site)));
        self.app.snapshot.store(snapshot.clone());
        if let Some(tls) = &self.app.server.tls {
            tls.reload();
        }
        if let Some(name) = &self.app.server.private_name {
            name.tls.reload();
        }
        self.config = config;
        snapshot
    }

    /// Logs a summary of what is not published. With `--watch`, logs the first warnings ([`log_faults`]) and,
    /// without `--drafts`, the unpublished pages; otherwise the number of warnings.
    fn log_warnings(&self, site: &Site, warnings: &[Fault]) {
        for note in config_and_site_loading::summarize_exclusions(&self.cache.publication, &self.folder) {
            tracing::info!("{note}");
        }
        if self.options.watch {
            log_faults(warnings, self.is_json);
            if !self.options.drafts {
                for note in config_and_site_loading::describe_unpublished(site) {
                    tracing::info!("{note}");
                }
            }
        } else if !warnings.is_empty() {
            let count = count_faults(warnings);
            tracing::warn!("{count}; run `frontdesk check {}` for details", self.folder.display());
        }
    }
}

/// The time at which to reload the site for `publication`, the next publication time of a page. If a reload
/// since then has not published the page, the result is [`PUBLICATION_RETRY`] after that reload.
fn publication_reload(publication: Timestamp, last_reload: Option<Timestamp>) -> Timestamp {
    match last_reload {
        Some(last) if last >= publication => last.saturating_add(PUBLICATION_RETRY).unwrap_or(Timestamp::MAX),
        _ => publication,
    }
}

/// The shorter of `interval` and the time from `now` to `until`, which is zero if `until` has passed.
fn shortened(interval: Duration, until: Option<Timestamp>, now: Timestamp) -> Duration {
    let rest = until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default());
    rest.map_or(interval, |rest| rest.min(interval))
}

/// Logs the first faults with their files and lines, and how many more there are.
fn log_faults(faults: &[Fault], is_json: bool) {
    faults.iter().take(MAX_SHOWN_FAULTS).for_each(|fault| log_fault(fault, is_json));
    if let Some(others @ [_, ..]) = faults.get(MAX_SHOWN_FAULTS..) {
        tracing::warn!(
            "the log leaves out further faults ({}); `frontdesk check` lists all of them",
            count_faults(others)
        );
    }
}

/// Returns the warnings. Fails with all faults if one of them is an error.
fn refuse_errors(faults: Vec<Fault>) -> Result<Vec<Fault>, Vec<Fault>> {
    if faults.iter().any(|fault| fault.severity == Severity::Error) { Err(faults) } else { Ok(faults) }
}

/// The configured options of the inbox's web interface, plus the site's form pages, how views are counted,
/// the public TLS port and the lexicon of screening.
pub(super) fn desk_options(config: &Config, site: &Site) -> DeskOptions {
    let view_counting = match config.web.count_views {
        true => ViewCounting::On,
        false if config.pages.has_reload_script => ViewCounting::Watching,
        false => ViewCounting::Off,
    };
    let form_pages = site.form_paths.clone();
    let tls_port = config.public_tls_port();
    let lexicon = Some(config.intake.screening.lexicon.clone());
    DeskOptions { form_pages, view_counting, tls_port, lexicon, ..config.web.inbox_pages.clone() }
}

/// Composes the state for new requests. Keeps the parts of `running` whose options have not changed. May wait
/// two seconds for Redis if the shared limits are new.
pub(super) fn compose_snapshot(
    config: &Config,
    site: Site,
    worker: &DeliveryWorker,
    running: Option<(&Config, &Snapshot)>,
) -> Snapshot {
    let kept = |is_same: fn(&Config, &Config) -> bool| {
        running.filter(|(before, _)| is_same(before, config)).map(|(_, state)| state)
    };
    let limiter = kept(|before, now| {
        before.limits.requests == now.limits.requests && before.limits.shared == now.limits.shared
    });
    let byte_limiter = kept(|before, now| before.limits.bytes == now.limits.bytes);
    let agents =
        kept(|before, now| !before.changes(now, Effect::Agents) && before.agents.origin == now.agents.origin);
    Snapshot {
        site: Arc::new(site),
        confirmations: worker.confirmations.clone(),
        limiter: limiter.map_or_else(
            || Arc::new(RateLimiter::new(&config.limits.requests, config.limits.shared.as_ref())),
            |state| state.limiter.clone(),
        ),
        byte_limiter: byte_limiter.map_or_else(
            || Arc::new(ByteLimiter::new(&config.limits.bytes)),
            |state| state.byte_limiter.clone(),
        ),
        agents: agents.map_or_else(|| Arc::new(Agents::new(&config.agents)), |state| state.agents.clone()),
        options: Arc::new(config.web.clone()),
        generation: running.map_or(0, |(_, state)| state.generation) + 1,
    }
}

/// The options of the delivery worker, which delivers to the team's channels and sends mail to visitors.
pub(super) fn worker_options(config: &Config) -> WorkerOptions {
    WorkerOptions {
        place: config.store.url.clone(),
        channels: config.channels.iter().chain(&config.visitor_channels).cloned().collect(),
        maintenance: config.maintenance.clone(),
        grace: config.web.http.shutdown_grace,
    }
}

/// The space to keep free on the inbox's file system: none with PostgreSQL, because submissions are then not
/// on this machine's disk.
pub(super) fn min_free(config: &Config) -> MinFree {
    match config.store.url.file() {
        Some(_) => config.maintenance.min_free,
        None => MinFree::Off,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_page_is_published_by_a_reload_at_its_time() {
        let check = |publication: &str, last_reload: Option<&str>, expected: &str| {
            let reload = publication_reload(time(publication), last_reload.map(time));
            assert_eq!(reload, time(expected), "{publication} {last_reload:?}");
        };
        check("2026-12-01T00:00Z", None, "2026-12-01T00:00Z");
        check("2026-12-01T00:00Z", Some("2026-11-30T23:59:59Z"), "2026-12-01T00:00Z");
        // The page is still unpublished after a reload at its time, so the reload has failed.
        check("2026-12-01T00:00Z", Some("2026-12-01T00:00Z"), "2026-12-01T00:10Z");
        check("2026-12-01T00:00Z", Some("2026-12-01T00:10:01Z"), "2026-12-01T00:20:01Z");
    }

    #[test]
    fn the_reload_thread_wakes_at_the_publication_time() {
        let check = |until: Option<&str>, expected: u64| {
            let (interval, now) = (Duration::from_mins(1), time("2026-11-30T23:59:30Z"));
            let wait = shortened(interval, until.map(time), now);
            assert_eq!(wait, Duration::from_secs(expected), "{until:?}");
        };
        check(None, 60);
        check(Some("2026-12-01T00:00Z"), 30);
        check(Some("2026-12-01T09:00Z"), 60);
        check(Some("2026-11-30T23:59:30Z"), 0);
        check(Some("2026-01-01T00:00Z"), 0);
    }
}
