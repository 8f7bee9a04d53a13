//! Puts a new site and configuration in the place of those that are served: all of it at once, or nothing and why.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use notify::{EventKind, RecursiveMode, Watcher as _};

use super::notify::Notify;
use super::{heap, idle};
use crate::cli::site;
use crate::config::{Config, Flag};
use crate::deliver::worker::{self, Worker};
use crate::fault::{Fault, Severity};
use crate::limits::ByteLimiter;
use crate::limits::gate::Gate;
use crate::pages::{Encodings, Previous};
use crate::web::agent::Agents;
use crate::web::{Desk, Live};

/// Who saves a file often does so in several steps, and who copies a site in many: this long it must be quiet before it is read.
const QUIET: Duration = Duration::from_millis(200);

/// And then it is read all the same: somebody may write all the time.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Why the site is to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// Somebody has asked for it.
    Asked,
    /// Something in its folder has changed.
    Changed,
    /// What is served can be served in fewer bytes.
    Encoded,
}

/// Bodies of this many bytes are compressed before a new site is served. It is less than at the start: what is compressed already
/// is taken over, and an edit should be seen at once.
const COMPRESSED_AT_RELOAD: usize = 128 << 10;

/// How often is looked whether the last request has done with a site that is served no longer.
const RETIREMENT: Duration = Duration::from_secs(1);

/// How often free memory is returned to the system, for what connections and submissions have left.
const RELEASE_INTERVAL: Duration = Duration::from_mins(1);

/// What is needed to do it.
pub(super) struct Reloader {
    pub(super) folder: PathBuf,
    pub(super) flags: Vec<Flag>,
    /// Links begin with it where no base URL is configured.
    pub(super) address: Option<SocketAddr>,
    pub(super) desk: Arc<Desk>,
    pub(super) worker: Arc<Worker>,
    pub(super) notify: Arc<Notify>,
    /// What is served now.
    pub(super) config: Config,
    /// What loading it has found out.
    pub(super) previous: Previous,
    pub(super) encodings: Arc<Encodings>,
    /// For reasons of our own.
    pub(super) reasons: Sender<Reason>,
}

/// States that are served no longer. A large site takes its time to be freed, which should not be that of a request: so we keep
/// each until nobody else does.
type Retired = Vec<Arc<Live>>;

impl Reloader {
    /// Does it whenever there is a reason, for as long as the process lives.
    pub(super) fn run(mut self, reasons: &Receiver<Reason>) {
        let mut retired = Retired::new();
        let mut encoding = self.encode();
        loop {
            let reason = reasons.recv_timeout(if retired.is_empty() { RELEASE_INTERVAL } else { RETIREMENT });
            let before = self.desk.live.load_full();
            match reason {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Reason::Encoded) => self.take_encodings(),
                Ok(reason) => {
                    if reason == Reason::Changed {
                        settle(reasons);
                    }
                    if super::on_a_thread_of_its_own(|| self.reload()) {
                        encoding.store(true, Ordering::Relaxed);
                        encoding = self.encode();
                    }
                }
            }
            retired.push(before);
            retired.retain(|state| Arc::strong_count(state) > 1 && !self.is_served(state));
            if retired.is_empty() {
                heap::release();
            }
        }
    }

    fn is_served(&self, state: &Arc<Live>) -> bool {
        Arc::ptr_eq(state, &self.desk.live.load())
    }

    /// Compresses what is not compressed yet, and then all of it as strongly as it can be, beside everything else and while it is
    /// served already. Returns what ends it.
    fn encode(&self) -> Arc<AtomicBool> {
        let stop = Arc::new(AtomicBool::new(false));
        let (site, encodings) = (self.desk.live.load().site.clone(), self.encodings.clone());
        let (stopped, reasons) = (stop.clone(), self.reasons.clone());
        let work = move || {
            // Returns the memory that loading has freed. This may make other threads wait, so it is done at normal priority.
            heap::release();
            idle::enter();
            site.compress_with(usize::MAX, Some(&encodings));
            match encodings.strengthen(&site, &stopped) {
                Ok(true) if !stopped.load(Ordering::Relaxed) => {
                    // Nobody listens any more when the server ends.
                    let _ = reasons.send(Reason::Encoded);
                }
                Ok(_) => {}
                Err(error) => {
                    let folder = encodings.folder().display();
                    tracing::warn!(%error, "strong encodings cannot be kept in {folder}, and quick ones are sent");
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("encode".into()).spawn(work) {
            tracing::warn!(%error, "large files are sent uncompressed");
        }
        stop
    }

    /// Serves the same site in fewer bytes.
    fn take_encodings(&self) {
        let live = self.desk.live.load_full();
        let site = Arc::new(live.site.strengthened(&self.encodings));
        self.desk.live.store(Arc::new(Live {
            site,
            confirmations: live.confirmations.clone(),
            limiter: live.limiter.clone(),
            byte_limiter: live.byte_limiter.clone(),
            agents: live.agents.clone(),
            options: live.options.clone(),
            generation: live.generation,
        }));
    }

    /// Whether there is something new.
    fn reload(&mut self) -> bool {
        let began = Instant::now();
        self.notify.reloading();
        let reloaded = self.try_reload();
        self.desk.metrics.reloaded(reloaded.is_ok(), jiff::Timestamp::now());
        let live = self.desk.live.load_full();
        self.notify.ready(&format!("{} pages at {}", live.site.page_count(), self.config.pages.base_url));
        let is_new = reloaded.is_ok();
        match reloaded {
            Ok(live) => {
                let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                let (pages, generation) = (live.site.page_count(), live.generation);
                tracing::info!(pages, generation, took_ms, "the site and its configuration are read again");
            }
            Err(faults) => {
                for fault in &faults {
                    match fault.severity {
                        Severity::Error => tracing::error!("{fault}"),
                        Severity::Warning => tracing::warn!("{fault}"),
                    }
                }
                let count = site::count(&faults);
                tracing::error!("nothing is changed, and what was served before is served on ({count})");
            }
        }
        is_new
    }

    /// The new state, which is served already; or what is wrong with it, and then nothing has changed.
    fn try_reload(&mut self) -> Result<Arc<Live>, Vec<Fault>> {
        let (config, mut faults) = Config::load(&self.folder, site::environment(), &self.flags);
        if faults.iter().any(|fault| fault.severity == Severity::Error) {
            return Err(faults);
        }
        // Asked of all that is configured, the next start's part included.
        faults.extend(config.clone().at(self.address).certificate_faults());
        if faults.iter().any(|fault| fault.severity == Severity::Error) {
            return Err(faults);
        }
        let waiting = self.what_waits(&config);
        let mut config = self.without_what_waits(config).at(self.address);
        let (site, found) = site::load_again(&self.folder, &config, &mut self.previous);
        faults.extend(found);
        let Some(mut site) = site else { return Err(faults) };
        faults.extend(config.memory_faults(site.size()));
        let before = self.desk.live.load_full();
        site.adopt(&before.site);
        site.compress_with(COMPRESSED_AT_RELOAD, Some(&self.encodings));

        // From here on nothing can go wrong any more.
        for key in waiting {
            tracing::warn!("`{key}` takes effect when the server is started again");
        }
        super::raise_descriptor_limit(&mut config);
        let limiter =
            if config.limits == self.config.limits && config.shared_limits == self.config.shared_limits {
                before.limiter.clone()
            } else {
                Arc::new(Gate::new(&config.limits, config.shared_limits.as_ref()))
            };
        let byte_limiter = if config.byte_limits == self.config.byte_limits {
            before.byte_limiter.clone()
        } else {
            Arc::new(ByteLimiter::new(&config.byte_limits))
        };
        let agents = if config.has_the_same("agents.", &self.config)
            && config.agents.origin == self.config.agents.origin
        {
            before.agents.clone()
        } else {
            Arc::new(Agents::new(&config.agents))
        };
        let live = Arc::new(Live {
            site: Arc::new(site),
            confirmations: before.confirmations.clone(),
            limiter,
            byte_limiter,
            agents,
            options: Arc::new(config.web.clone()),
            generation: before.generation + 1,
        });
        // First new submissions are queued for the new channels, then the worker delivers to these.
        self.desk.store.reconfigure(&config.store);
        self.desk.disk.reconfigure(super::reserve(&config));
        if !config.delivers_like(&self.config) {
            self.worker.reconfigure(deliveries(&config));
        }
        self.desk.live.store(live.clone());
        if let Some(tls) = &self.desk.tls {
            tls.reload();
        }
        if !faults.is_empty() {
            let count = site::count(&faults);
            tracing::warn!("{count}: `frontdesk check {}` tells more", self.folder.display());
        }
        self.config = config;
        Ok(live)
    }

    /// The keys that say something else than at the start, by which they are settled.
    fn what_waits(&self, config: &Config) -> Vec<&'static str> {
        let settled = [
            ("server.listen", config.listen != self.config.listen),
            ("tls.listen", config.tls_listen != self.config.tls_listen),
            ("tls", config.web.tls.source != self.config.web.tls.source),
            ("server.ops_listen", config.ops_listen != self.config.ops_listen),
            ("server.workers", config.web.workers != self.config.web.workers),
            ("store.url", config.store.place != self.config.store.place),
            ("log.format", config.log.format != self.config.log.format),
            ("log.level", config.log.level != self.config.log.level),
        ];
        settled.into_iter().filter(|(_, has_changed)| *has_changed).map(|(key, _)| key).collect()
    }

    /// The configuration with all of that as it is in the running server: what else follows from it must not be ahead of it. Who
    /// was sent to an address over TLS would find nobody there, and figures would be of an inbox that is not used.
    fn without_what_waits(&self, mut config: Config) -> Config {
        let running = &self.config;
        config.listen.clone_from(&running.listen);
        config.tls_listen.clone_from(&running.tls_listen);
        config.ops_listen.clone_from(&running.ops_listen);
        config.web.workers = running.web.workers;
        if config.web.tls.source.is_some() != running.web.tls.source.is_some() {
            config.web.tls.redirect.clone_from(&running.web.tls.redirect);
        }
        config.web.tls.source.clone_from(&running.web.tls.source);
        config.store.place.clone_from(&running.store.place);
        config.data_dir.clone_from(&running.data_dir);
        config.web.inbox.clone_from(&running.web.inbox);
        config.log = running.log;
        config
    }
}

/// What the worker is to do.
pub(super) fn deliveries(config: &Config) -> worker::Options {
    worker::Options {
        place: config.store.place.clone(),
        channels: config.channels.clone(),
        housekeeping: config.housekeeping.clone(),
        grace: config.web.shutdown_grace,
    }
}

/// Waits until nothing has changed for a moment. Further reasons are taken as one with the first.
fn settle(reasons: &Receiver<Reason>) {
    let began = Instant::now();
    while began.elapsed() < LONGEST_WAIT {
        match reasons.recv_timeout(QUIET) {
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// What the folder of strong encodings is called.
const ENCODINGS: &str = "encodings";

/// Where strong encodings are kept: beside the inbox, where that is a file.
pub(in crate::cli) fn encodings(config: &Config) -> PathBuf {
    match config.store.place.file() {
        Some(file) => file.with_file_name(ENCODINGS),
        None => config.data_dir.join(ENCODINGS),
    }
}

/// Gives a reason whenever something in `folder` changes, but not for what is in the data folder, where `database` is. It does so
/// until it is dropped.
pub(super) fn watch(
    folder: &Path,
    config: &Config,
    reasons: Sender<Reason>,
) -> anyhow::Result<notify::RecommendedWatcher> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let root = real(folder);
    let database = config.store.place.file();
    let data = real(database.and_then(Path::parent).unwrap_or(&config.data_dir));
    let root_is_data = root.starts_with(&data);
    let name = database.and_then(Path::file_name).map(ToOwned::to_owned);
    let encodings = data.join(ENCODINGS);
    let concerns = move |path: &PathBuf| {
        // Where it is the site's own folder, the database is told by its name, and what SQLite keeps beside it as well; and the
        // encodings are.
        let of_encodings = path.starts_with(&encodings);
        let of_database = name.as_ref().zip(path.file_name()).is_some_and(|(name, file)| {
            file.as_encoded_bytes().starts_with(name.as_encoded_bytes()) && path.parent() == Some(&data)
        });
        !of_database && !of_encodings && (root_is_data || !path.starts_with(&data))
    };
    let tell = move |event: notify::Result<notify::Event>| {
        // Looking at a file changes nothing; where the kernel has lost count something may have changed.
        let changed = event.as_ref().map_or(true, |event| {
            !matches!(event.kind, EventKind::Access(_))
                && (event.paths.is_empty() || event.paths.iter().any(&concerns))
        });
        if changed {
            // Nobody listens any more when the server ends.
            let _ = reasons.send(Reason::Changed);
        }
    };
    let watching = || {
        let mut watcher = notify::recommended_watcher(tell)?;
        watcher.watch(&root, RecursiveMode::Recursive)?;
        Ok::<_, notify::Error>(watcher)
    };
    watching().with_context(|| format!("cannot watch {}", folder.display()))
}
