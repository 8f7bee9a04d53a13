//! `frontdesk serve`: binds the sockets, loads the site, opens the inbox, and serves until a signal stops it.

mod log;
mod notify;
mod process;
mod reload;

use std::fs::DirBuilder;
use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use arc_swap::ArcSwap;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use self::log::ServerLog;
use self::notify::ServiceManager;
use self::reload::{ReloadReason, Reloader};
use super::output::{DIM, ERROR, GOOD, count_faults, print_faults, with_hint};
use super::site;
use crate::config::{Config, Flag};
use crate::deliver::worker::DeliveryWorker;
use crate::fault::Severity;
use crate::intake::Intake;
use crate::limits::ByteLimiter;
use crate::limits::rate_limiter::RateLimiter;
use crate::pages::{Encodings, LoadCache, Site};
use crate::store::Store;
use crate::store::disk::DiskMonitor;
use crate::web::agent::Agents;
use crate::web::tls::Tls;
use crate::web::{self, Address, AppState, Metrics, ShutdownPhase, Snapshot, Socket, Sockets};

/// Bytes of bodies that are compressed before the first request; the rest is compressed in the background.
const COMPRESSED_AT_START: usize = 2 << 20;

/// Serves until SIGTERM or SIGINT. SIGHUP reloads the site and its configuration, and with `watch` so does
/// every change in its folder.
pub(super) fn run(folder: &Path, flags: &[Flag], watch: bool) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    process::configure_allocator();
    let (config, warnings) = site::read_configuration(folder, flags)?;
    let log = ServerLog::start(config.log);
    log.faults(&warnings);
    log.conclude(serve(folder, flags, watch, config, &log, started))
}

fn serve(
    folder: &Path,
    flags: &[Flag],
    watch: bool,
    config: Config,
    log: &ServerLog,
    started: Instant,
) -> anyhow::Result<ExitCode> {
    // Binds before loading, so that an occupied port fails at once. The base URL may contain the bound port.
    let sockets = bind(&config)?;
    let addresses = ListeningAddresses::of(&sockets)?;
    let mut config = config.at(addresses.first());
    process::raise_descriptor_limit(&mut config);
    check_certificate(&config)?;

    let encodings = Arc::new(Encodings::new(site::encodings_folder(&config)));
    let mut previous = LoadCache::default();
    let site = process::run_in_new_thread(|| load(folder, &config, &mut previous, &encodings, log))?;
    log.faults(&config.memory_faults(site.size()));
    let is_new = config.store.url.file().is_some_and(|file| !file.exists());
    let store = Store::open(&config.store)
        .with_context(|| format!("cannot store submissions in {}", config.store.url))?;
    let intake = Intake::start(store.clone(), config.intake.clone())?;
    create_data_folder(&config);
    let worker = Arc::new(DeliveryWorker::start(reload::deliveries(&config), store.clone())?);
    let live = Snapshot {
        site: Arc::new(site),
        confirmations: worker.confirmations(),
        limiter: Arc::new(RateLimiter::new(&config.limits, config.shared_limits.as_ref())),
        byte_limiter: Arc::new(ByteLimiter::new(&config.byte_limits)),
        agents: Arc::new(Agents::new(&config.agents)),
        options: Arc::new(config.web.clone()),
        generation: 1,
    };
    let (data, min_free) = (data_folder(&config).to_owned(), reload::min_free(&config));
    let monitor = DiskMonitor::start(data, min_free).context("cannot monitor the free disk space")?;
    let tls = config.web.tls.source.as_ref().map(Tls::start).transpose().context("cannot start TLS")?;
    let desk = Arc::new(AppState {
        store,
        intake,
        refusals: Arc::default(),
        disk: monitor,
        snapshot: Arc::new(ArcSwap::from_pointee(live)),
        tls,
        metrics: Metrics::new(log.lost()),
        release_memory: process::release_memory,
    });
    let notify = Arc::new(ServiceManager::from_environment());
    let (reasons, asked) = mpsc::channel();
    let _watcher = watch.then(|| reload::watch(folder, &config, reasons.clone())).transpose()?;
    let stage = install_signal_handlers(reasons.clone(), notify.clone(), desk.snapshot.clone())?;
    if log.is_json() {
        log_start(&config, &desk, &addresses, is_new, started.elapsed());
    } else {
        log.flush();
        // Errors are ignored: a closed standard error must not stop the server.
        let _ = print_banner(&config, &desk, &addresses, is_new, started.elapsed());
    }
    let _ = addresses.print();
    notify.ready(&format!("{} pages at {}", desk.snapshot.load().site.page_count, config.pages.base_url));
    let reloader = Reloader {
        folder: folder.to_owned(),
        flags: flags.to_vec(),
        address: addresses.first(),
        desk: desk.clone(),
        worker: worker.clone(),
        notify,
        config,
        previous,
        encodings,
        reasons,
    };
    std::thread::Builder::new().name("reload".into()).spawn(move || reloader.run(&asked))?;
    web::serve(&desk, sockets, &stage)?;
    store_refusals(&desk);
    worker.stop();
    desk.intake.clone().close();
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The folder whose free space is monitored: a SQLite database's folder, otherwise the data folder.
fn data_folder(config: &Config) -> &Path {
    config.store.url.file().and_then(Path::parent).unwrap_or(&config.data_dir)
}

/// Creates the data folder if the inbox is in PostgreSQL; for SQLite the store has created it. A running
/// server never creates the folder: if it disappears, its file system may be unmounted.
fn create_data_folder(config: &Config) {
    let created = match config.store.url.file() {
        Some(_) => Ok(()),
        None => DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir),
    };
    if let Err(error) = created {
        tracing::warn!(%error, "cannot create the data folder {}", config.data_dir.display());
    }
}

/// Stores the refusals counted since the last call.
fn store_refusals(desk: &AppState) {
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() {
        // A failure loses only these figures.
        let _ = runtime.block_on(desk.store_refusals());
    }
}

/// Loads the site and compresses part of it. Fails on errors; logs the number of warnings.
fn load(
    folder: &Path,
    config: &Config,
    previous: &mut LoadCache,
    encodings: &Encodings,
    log: &ServerLog,
) -> anyhow::Result<Site> {
    let progress = Progress::begin("loading the site", log);
    let (site, faults) = site::load_again(folder, config, previous);
    let Some(site) = site else {
        progress.end();
        log.faults(&faults);
        bail!("the site cannot be served ({})", count_faults(&faults));
    };
    site.compress(COMPRESSED_AT_START, Some(encodings));
    progress.end();
    if !faults.is_empty() {
        tracing::warn!("{}: `frontdesk check {}` lists them", count_faults(&faults), folder.display());
    }
    debug_assert!(faults.iter().all(|fault| fault.severity == Severity::Warning));
    Ok(site)
}

/// Fails if the certificate or its key is unusable, and prints the faults.
fn check_certificate(config: &Config) -> anyhow::Result<()> {
    let mut faults = config.certificate_faults();
    faults.retain(|fault| fault.severity == Severity::Error);
    if faults.is_empty() {
        return Ok(());
    }
    print_faults(&faults);
    bail!("TLS is not possible ({})", count_faults(&faults))
}

/// Adds a hint to an error from binding an address.
fn explain_bind_error(error: web::BindError, flag: &str) -> anyhow::Error {
    let hint = match error.cause.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("another program is listening there; `{flag} ADDR:PORT` uses another port")
        }
        std::io::ErrorKind::PermissionDenied => {
            "only root may bind ports below 1024; a service manager can pass the socket, or a proxy can forward to a higher port".to_owned()
        }
        std::io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        _ => format!("`{flag} ADDR:PORT` uses another address"),
    };
    with_hint(error, hint)
}

/// Uses the sockets that a service manager has passed, and binds the configured addresses of missing ones.
fn bind(config: &Config) -> anyhow::Result<Sockets> {
    let mut sockets = Sockets::inherited().context("cannot use the sockets of the service manager")?;
    let is_https_passed = !sockets.https.is_empty();
    if !is_https_passed {
        let secure = config.tls_listen.iter().map(Socket::bind).collect::<Result<_, _>>();
        sockets.https = secure.map_err(|error| explain_bind_error(error, "tls.listen ="))?;
    }
    if sockets.http.is_empty() && !is_https_passed {
        let public = config.listen.iter().map(Socket::bind).collect::<Result<_, _>>();
        sockets.http = public.map_err(|error| explain_bind_error(error, "--listen"))?;
    }
    match (&config.web.tls.source, sockets.https.is_empty()) {
        (None, false) => {
            bail!(
                "the service manager passed a socket for TLS, but neither `tls.certificate` nor `tls.acme_domains` is set"
            )
        }
        (Some(_), true) => {
            bail!("a certificate is configured, but there is no socket for TLS: set `tls.listen`")
        }
        _ => {}
    }
    if sockets.ops.is_none() {
        let private = config.ops_listen.as_ref().map(Socket::bind).transpose();
        sockets.ops = private.map_err(|error| explain_bind_error(error, "--ops-listen"))?;
    }
    Ok(sockets)
}

/// The bound addresses.
struct ListeningAddresses {
    public: Vec<Address>,
    secure: Vec<Address>,
    private: Option<Address>,
}

impl ListeningAddresses {
    fn of(sockets: &Sockets) -> std::io::Result<Self> {
        Ok(Self {
            public: sockets.http.iter().map(Socket::address).collect::<Result<_, _>>()?,
            secure: sockets.https.iter().map(Socket::address).collect::<Result<_, _>>()?,
            private: sockets.ops.as_ref().map(Socket::address).transpose()?,
        })
    }

    /// The first TCP address for links, over TLS if it is configured. `None` if all are Unix sockets.
    fn first(&self) -> Option<SocketAddr> {
        self.secure.iter().chain(&self.public).find_map(|address| match address {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        })
    }

    /// One line per address.
    fn lines(&self) -> impl Iterator<Item = String> {
        let public = self.public.iter().map(|address| format!("listening on {}", url("http", address)));
        let secure = self.secure.iter().map(|address| format!("listening on {}", url("https", address)));
        public
            .chain(secure)
            .chain(self.private.iter().map(|address| format!("private listener on {}", url("http", address))))
    }

    /// Prints the addresses to standard output for a parent process. On a terminal the banner has them.
    fn print(&self) -> std::io::Result<()> {
        let mut stdout = std::io::stdout().lock();
        if stdout.is_terminal() {
            return Ok(());
        }
        for line in self.lines() {
            writeln!(stdout, "{line}")?;
        }
        stdout.flush()
    }
}

fn url(scheme: &str, address: &Address) -> String {
    match address {
        Address::Tcp(address) => format!("{scheme}://{address}"),
        Address::Unix(_) => address.to_string(),
    }
}

/// Prints the banner on standard error.
fn print_banner(
    config: &Config,
    desk: &AppState,
    addresses: &ListeningAddresses,
    is_new: bool,
    took: Duration,
) -> anyhow::Result<()> {
    let (site, store) = (desk.snapshot.load().site.clone(), &desk.store);
    // Queried before standard error is locked: other threads may log first.
    let health = store.health();
    let mut stderr = anstream::stderr().lock();
    let (good, dim) = (GOOD, DIM);
    let (good_end, dim_end) = (good.render_reset(), dim.render_reset());
    writeln!(stderr, "{good}frontdesk {}{good_end}", env!("CARGO_PKG_VERSION"))?;
    for line in addresses.lines() {
        writeln!(stderr, "  {line}")?;
    }
    let milliseconds = took.as_millis();
    writeln!(stderr, "  {} pages, {} KiB, loaded in {milliseconds} ms", site.page_count, site.size() / 1024)?;
    match health {
        Ok(()) => {
            let new = if is_new { " (new, and empty)" } else { "" };
            writeln!(stderr, "  submissions are stored in {}{new}", config.store.url)?;
        }
        Err(error) => {
            let (bad, bad_end) = (ERROR, ERROR.render_reset());
            writeln!(
                stderr,
                "  {bad}submissions cannot be stored{bad_end} in {}: {error}",
                config.store.url
            )?;
        }
    }
    let channels: Vec<String> = config
        .channels
        .iter()
        .map(|channel| match &channel.forms[..] {
            [] => format!("{} ({})", channel.name, channel.kind.name()),
            forms => format!("{} ({}, {})", channel.name, channel.kind.name(), forms.join(" and ")),
        })
        .collect();
    if channels.is_empty() {
        writeln!(stderr, "  {dim}no channel is configured: a `[[channel]]` delivers submissions{dim_end}")?;
    } else {
        writeln!(stderr, "  and delivered to {}", channels.join(", "))?;
    }
    if config.base_url.is_none() {
        let base_url = &config.pages.base_url;
        writeln!(
            stderr,
            "  {dim}links begin with {base_url}: set `base_url` before you publish this site{dim_end}"
        )?;
    }
    stderr.flush()?;
    Ok(())
}

/// Logs the content of the banner as one event.
fn log_start(config: &Config, desk: &AppState, addresses: &ListeningAddresses, is_new: bool, took: Duration) {
    let site = desk.snapshot.load().site.clone();
    let of = |scheme, addresses: &[Address]| -> Vec<String> {
        addresses.iter().map(|address| url(scheme, address)).collect()
    };
    let public = [of("http", &addresses.public), of("https", &addresses.secure)].concat();
    let channels: Vec<&str> = config.channels.iter().map(|channel| channel.name.as_str()).collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        public = public.join(" "),
        private = addresses.private.as_ref().map(|address| url("http", address)),
        base_url = config.pages.base_url,
        pages = site.page_count,
        bytes = site.size(),
        loaded_in_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        inbox = %config.store.url,
        inbox_is_new = is_new,
        channels = channels.join(" "),
        "serving"
    );
    if let Err(error) = desk.store.health() {
        tracing::error!(%error, "submissions cannot be stored");
    }
}

/// Handles signals in a thread. The first SIGTERM or SIGINT starts draining, the next one ends the drain, and
/// another one exits at once. SIGHUP reloads, or stops the server if its terminal was closed.
fn install_signal_handlers(
    reload: Sender<ReloadReason>,
    notify: Arc<ServiceManager>,
    snapshot: Arc<ArcSwap<Snapshot>>,
) -> anyhow::Result<watch::Receiver<ShutdownPhase>> {
    let (sender, receiver) = watch::channel(ShutdownPhase::Serving);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let has_terminal = std::io::stderr().is_terminal() && !hang_up_is_ignored();
    let (mut terminate, mut interrupt, mut hang_up) = {
        let _guard = runtime.enter();
        // Turns a write beyond the file size limit into an error. Unhandled, the signal would end the
        // process.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?)
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            let mut end = async || loop {
                tokio::select! {
                    _ = terminate.recv() => return,
                    _ = interrupt.recv() => return,
                    _ = hang_up.recv() => {
                        if has_terminal && !std::io::stderr().is_terminal() {
                            return;
                        }
                        let _ = reload.send(ReloadReason::Signal);
                    }
                }
            };
            end().await;
            notify.stopping();
            // Sending fails if the server has stopped already.
            let drain = snapshot.load().options.drain;
            if !drain.is_zero() {
                let _ = sender.send(ShutdownPhase::Draining);
                tracing::info!(
                    seconds = drain.as_secs_f64(),
                    "draining: /readyz responds with 503, requests are still being served"
                );
                let _ = tokio::time::timeout(drain, end()).await;
            }
            let _ = sender.send(ShutdownPhase::Stopping);
            tracing::info!("stopping: open requests may finish");
            end().await;
            std::process::exit(1);
        });
    })?;
    Ok(receiver)
}

/// Whether SIGHUP was ignored at the start, as `nohup` does to let a process outlive its terminal.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// A line on a terminal during a long operation.
struct Progress {
    shown: bool,
}

impl Progress {
    /// Shows the line if standard error is a terminal and the log is text.
    fn begin(what: &str, log: &ServerLog) -> Self {
        let mut stderr = std::io::stderr();
        let shown = !log.is_json()
            && stderr.is_terminal()
            && write!(stderr, "{what} …").and_then(|()| stderr.flush()).is_ok();
        Self { shown }
    }

    fn end(self) {
        if self.shown {
            // Returns the cursor and clears the line.
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}
