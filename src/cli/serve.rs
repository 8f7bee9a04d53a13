//! `frontdesk serve`: binds the sockets, loads the site, opens the inbox, and serves until a signal stops it.

mod log;
mod notify;
mod options;
mod process;
mod reload;
mod trial;

use std::fs::DirBuilder;
use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use arc_swap::ArcSwap;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use self::log::ServerLog;
use self::notify::ServiceManager;
pub(super) use self::options::ServeOptions;
use self::reload::{ReloadReason, Reloader, SiteWatcher};
use self::trial::TrialLoad;
use super::output::{DIM, ERROR, GOOD, count_faults, counted, print_faults, with_hint};
use super::site::{self, SiteCache};
use crate::app::{self, AppState, LiveReload, Metrics, PageViews, Snapshot, Sockets};
use crate::config::{Config, Flag};
use frontdesk_deliver::worker::DeliveryWorker;
use frontdesk_http::tls::Tls;
use frontdesk_http::{Address, BindError, Server, ShutdownPhase, Socket};
use frontdesk_inbox::intake::Intake;
use frontdesk_inbox::store::disk::DiskMonitor;
use frontdesk_inbox::store::{self, Store, StoreError};
use frontdesk_process::allocator;
use frontdesk_site::fault::{Fault, Severity};
use frontdesk_site::{Encodings, Site, format_time};

/// Number of bytes of response bodies to compress before the first request.
const COMPRESSED_AT_START: usize = 2 << 20;

/// Serves until SIGTERM or SIGINT. SIGHUP reloads the site and its configuration.
pub(super) fn run(folder: &Path, flags: &[Flag], options: ServeOptions) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    allocator::configure_allocator();
    let (config, warnings) = site::read_configuration(folder, flags)?;
    let log = ServerLog::start(config.log);
    log.log_faults(&warnings);
    log.conclude(serve(folder, flags, options, config, &log, started))
}

/// Starts all parts of the server, prints or logs its addresses, and serves until a signal stops it.
fn serve(
    folder: &Path,
    flags: &[Flag],
    options: ServeOptions,
    config: Config,
    log: &ServerLog,
    started: Instant,
) -> anyhow::Result<ExitCode> {
    report_environment();
    // Check before binding: a client that connects to a server which then ends takes it for a crash.
    require_usable_database(&config)?;
    // Bind before loading: a port in use is reported at once, and links may contain the bound port.
    let sockets = bind_sockets(&config)?;
    let addresses = ListeningAddresses::from_sockets(&sockets)?;
    let mut config = options.apply_to(config).with_base_url(addresses.first);
    process::raise_descriptor_limit(&mut config);
    require_usable_certificate(&config)?;
    let encodings = Arc::new(Encodings::new(site::encodings_folder(&config)));
    let mut previous = SiteCache::default();
    let load = || load_and_compress(folder, &config, &mut previous, &encodings, log, options.watch);
    let (site, warnings) = process::run_in_new_thread(load)
        .unwrap_or_else(|panic| Err(anyhow!("the site cannot be loaded: {}", panic.with_message())))?;
    log.log_notes(&site::summarize_exclusions(&previous.publication, folder));
    log.log_faults(&config.memory_faults(site.size()));
    if options.watch && !options.drafts {
        log.log_notes(&site::describe_unpublished(&site));
    }
    let is_new = config.store.url.file().is_some_and(|file| !file.exists());
    let store = Store::open(&config.store)
        .with_context(|| format!("cannot store submissions in {}", config.store.url))?;
    if !options.pages_only {
        require_writable_inbox(&store, &config)?;
    }
    let intake = Intake::start(store.clone(), config.intake.clone())?;
    // For SQLite, the store has already created the data folder. After startup, the server never creates the
    // folder: if the folder disappears, its file system may have been unmounted.
    if config.store.url.file().is_none()
        && let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir)
    {
        tracing::warn!(%error, "cannot create the data folder {}", config.data_dir.display());
    }
    let worker = Arc::new(DeliveryWorker::start(reload::worker_options(&config), store.clone())?);
    let live = reload::compose_snapshot(&config, site, &worker, None);
    let monitor = DiskMonitor::start(config.inbox_folder().to_owned(), reload::min_free(&config))
        .context("cannot monitor free disk space")?;
    let tls = config.web.http.tls.source.as_ref().map(Tls::start).transpose().context("cannot start TLS")?;
    let inbox_pages = reload::desk_options(&config, &live.site);
    let snapshot = Arc::new(ArcSwap::from_pointee(live));
    let notify = Arc::new(ServiceManager::from_environment());
    let (reasons, asked) = mpsc::channel();
    let stage = install_signal_handlers(reasons.clone(), notify.clone(), snapshot.clone())?;
    let desk = Arc::new(AppState {
        store,
        intake,
        refusals: Arc::default(),
        page_views: PageViews::default(),
        disk: monitor,
        server: Arc::new(Server::new(snapshot.clone(), tls)),
        desk: Arc::new(ArcSwap::from_pointee(inbox_pages)),
        snapshot,
        metrics: Metrics::new(log.queue.lost.clone()),
        live_reload: options
            .watch
            .then(|| Arc::new(LiveReload::new(first_version(), &warnings, stage.clone()))),
    });
    let watcher = options.watch.then(|| SiteWatcher::start(folder, &config, reasons.clone())).transpose()?;
    if log.is_json {
        log_start(&config, &desk, &addresses, is_new, started.elapsed());
    } else {
        log.queue.flush();
        let banner = banner(&config, &desk, &addresses, is_new, started.elapsed());
        // Errors are ignored: a closed standard error must not stop the server.
        let _ = writeln!(anstream::stderr(), "{}", banner.join("\n  "));
    }
    if options.watch {
        tracing::warn!(
            "pages contain a script that reloads them after changes: `--watch` is for authors, not for production"
        );
    }
    if options.drafts {
        tracing::warn!("drafts and pages with a date in the future are shown to everyone");
    }
    let _ = addresses.print();
    notify.notify_ready(&format!(
        "{} pages at {}",
        desk.snapshot.load().site.page_count,
        config.pages.base_url
    ));
    let reloader = Reloader {
        trial: TrialLoad::after_load(folder),
        folder: folder.to_owned(),
        flags: flags.to_vec(),
        options,
        address: addresses.first,
        desk: desk.clone(),
        worker: worker.clone(),
        notify,
        config,
        previous,
        encodings,
        reasons,
        watcher,
        is_json: log.is_json,
    };
    std::thread::Builder::new().name("reload".into()).spawn(move || reloader.run(&asked))?;
    app::serve(&desk, sockets, &stage)?;
    // On failure, only the refusals counted since the last write are lost.
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() {
        let _ = runtime.block_on(desk.store_refusals());
    }
    worker.stop();
    desk.intake.clone().close();
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The date of the source from which a release is built, in Unix time (reproducible-builds.org).
const BUILT_AT: Option<&str> = option_env!("SOURCE_DATE_EPOCH");

/// Logs what is wrong with the clock and the time zone of this machine.
#[expect(clippy::disallowed_methods, reason = "the clock is checked here")]
fn report_environment() {
    if let Some(built_at) = BUILT_AT.and_then(|at| is_clock_wrong(Timestamp::now(), at)) {
        tracing::error!(
            %built_at,
            "the clock shows a time before this version was built: set it, for example with `timedatectl set-ntp true`"
        );
    }
    // Without `TZ`, a machine that has no time zone is in UTC.
    if std::env::var_os("TZ").is_some()
        && let Err(error) = TimeZone::try_system()
    {
        tracing::error!(
            %error,
            "the time zone is unknown, so times are in UTC: set `TZ` to a name such as Europe/Berlin, and install tzdata"
        );
    }
}

/// The time of the build, if `now` is more than a day earlier.
fn is_clock_wrong(now: Timestamp, built_at: &str) -> Option<Timestamp> {
    let built_at = Timestamp::from_second(built_at.parse().ok()?).ok()?;
    (now < built_at.saturating_sub(SignedDuration::from_hours(24)).unwrap_or(built_at)).then_some(built_at)
}

/// Fails if the inbox can never be stored in the database. Logs a warning about its collation.
fn require_usable_database(config: &Config) -> anyhow::Result<()> {
    let warning = store::check_environment(&config.store.url)
        .with_context(|| format!("cannot store submissions in {}", config.store.url))?;
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// Prints the errors of the certificate and its key, and fails if there are any.
fn require_usable_certificate(config: &Config) -> anyhow::Result<()> {
    let mut faults = config.certificate_faults();
    faults.retain(|fault| fault.severity == Severity::Error);
    if faults.is_empty() {
        return Ok(());
    }
    print_faults(&faults);
    bail!("cannot serve over TLS ({})", count_faults(&faults));
}

/// Fails if the inbox is not writable. Otherwise every form would answer 500, and only the log would say so.
/// Checks up to three times while there is no connection to the database: a server that is busy or starting
/// may respond a moment later.
#[expect(clippy::disallowed_methods, reason = "the start waits for the database; nothing is served yet")]
fn require_writable_inbox(store: &Store, config: &Config) -> anyhow::Result<()> {
    // The writer has already tried to open the database, and its error names the cause.
    let check = || store.health().and_then(|()| store.check_writable());
    let mut checked = check();
    for _ in 0..2 {
        if !matches!(checked, Err(StoreError::Unreachable { .. } | StoreError::Slow)) {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
        checked = check();
    }
    checked.map_err(|error| {
        let pages_only = "`--pages-only` serves the pages without the inbox";
        let hint = match error.hint() {
            Some(hint) => format!("{hint}; {pages_only}"),
            None => pages_only.to_owned(),
        };
        let error =
            anyhow::Error::new(error).context(format!("cannot write to the inbox in {}", config.store.url));
        with_hint(error, hint)
    })
}

/// Loads the site and compresses part of it. Fails if the site has errors. Logs the warnings if
/// `shows_warnings`, otherwise their number, and returns them with the site.
fn load_and_compress(
    folder: &Path,
    config: &Config,
    previous: &mut SiteCache,
    encodings: &Encodings,
    log: &ServerLog,
    shows_warnings: bool,
) -> anyhow::Result<(Site, Vec<Fault>)> {
    let mut stderr = std::io::stderr();
    let shows_progress = !log.is_json
        && stderr.is_terminal()
        && write!(stderr, "loading the site …").and_then(|()| stderr.flush()).is_ok();
    let (site, faults) = site::load_site(folder, config, previous);
    let site = site.map(|mut site| {
        site.use_variants(encodings);
        site.compress(COMPRESSED_AT_START, Some(encodings));
        site
    });
    if shows_progress {
        // Moves the cursor to the start of the line and clears it.
        let _ = write!(stderr, "\r\x1b[2K");
    }
    let Some(site) = site else {
        log.log_faults(&faults);
        bail!("the site cannot be served ({})", count_faults(&faults));
    };
    if shows_warnings {
        log.log_faults(&faults);
    } else if !faults.is_empty() {
        tracing::warn!("{}; run `frontdesk check {}` for details", count_faults(&faults), folder.display());
    }
    debug_assert!(faults.iter().all(|fault| fault.severity == Severity::Warning));
    Ok((site, faults))
}

/// The initial version of the live reload state: the current time, so that it is higher after a restart.
#[expect(clippy::disallowed_methods, reason = "the start of the process")]
fn first_version() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default()
}

/// Explains why addresses could not be bound, each given with the option that sets it. Reports all addresses
/// that fail for the first one's reason, so that the operator can change all of them at once.
fn explain_bind_errors(errors: Vec<(BindError, &str)>) -> anyhow::Result<()> {
    let Some(kind) = errors.first().map(|(error, _)| error.cause.kind()) else { return Ok(()) };
    let same: Vec<_> = errors.into_iter().filter(|(error, _)| error.cause.kind() == kind).collect();
    let addresses: Vec<String> = same.iter().map(|(error, _)| error.address.to_string()).collect();
    let mut flags: Vec<String> = same.iter().map(|(_, flag)| format!("{flag} ADDR:PORT")).collect();
    flags.dedup();
    let flags = flags.join(" ");
    let hint = match kind {
        std::io::ErrorKind::AddrInUse => {
            let is = if same.len() == 1 { "program is" } else { "program or several are" };
            format!("another {is} listening there; `{flags}` uses another port")
        }
        std::io::ErrorKind::PermissionDenied => {
            "only root may bind ports below 1024; a service manager can pass the socket, or a proxy can forward to a higher port".to_owned()
        }
        std::io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        _ => format!("`{flags}` uses another address"),
    };
    let cause = same.into_iter().next().map(|(error, _)| anyhow::Error::new(error.cause));
    let message = format!("cannot listen on {}", addresses.join(" and "));
    Err(with_hint(
        cause.map_or_else(|| anyhow!(message.clone()), |cause| cause.context(message.clone())),
        hint,
    ))
}

/// Takes the sockets that a service manager passed, and binds the addresses of the other listeners.
fn bind_sockets(config: &Config) -> anyhow::Result<Sockets> {
    let mut sockets = Sockets::inherited().context("cannot use the sockets passed by the service manager")?;
    let is_https_passed = !sockets.https.is_empty();
    let mut errors = Vec::new();
    let mut bind_with = |bind: fn(&Address) -> Result<Socket, BindError>, addresses: &[Address], flag| {
        let bind = |address| bind(address).map_err(|error| errors.push((error, flag))).ok();
        addresses.iter().filter_map(bind).collect::<Vec<Socket>>()
    };
    let mut bind = |addresses: &[Address], flag| bind_with(Socket::bind, addresses, flag);
    if !is_https_passed {
        sockets.https = bind(&config.tls_listen, "tls.listen =");
    }
    if sockets.http.is_empty() && !is_https_passed {
        sockets.http = bind(&config.listen, "--listen");
    }
    if sockets.ops.is_none() {
        sockets.ops = bind(config.ops_listen.as_slice(), "--ops-listen").pop();
    }
    if sockets.inbox.is_none() {
        let addresses = config.inbox_listen.as_slice();
        sockets.inbox = bind_with(Socket::bind_private, addresses, "inbox.listen =").pop();
    }
    explain_bind_errors(errors)?;
    match (&config.web.http.tls.source, sockets.https.is_empty()) {
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
    Ok(sockets)
}

struct ListeningAddresses {
    public: Vec<String>,
    private: Option<String>,
    inbox: Option<String>,
    /// The first TCP address, for links: over TLS if TLS is configured. `None` with only Unix sockets.
    first: Option<SocketAddr>,
}

impl ListeningAddresses {
    fn from_sockets(sockets: &Sockets) -> std::io::Result<Self> {
        let addresses =
            |sockets: &[Socket]| sockets.iter().map(Socket::address).collect::<std::io::Result<Vec<_>>>();
        let (http, https) = (addresses(&sockets.http)?, addresses(&sockets.https)?);
        let private = sockets.ops.as_ref().map(Socket::address).transpose()?;
        let inbox = sockets.inbox.as_ref().map(Socket::address).transpose()?;
        let url = |scheme: &str, address: &Address| match address {
            Address::Tcp(address) => format!("{scheme}://{address}"),
            Address::Unix(_) => address.to_string(),
        };
        let first = https.iter().chain(&http).find_map(|address| match address {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        });
        let https = https.iter().map(|address| url("https", address));
        let public = http.iter().map(|address| url("http", address)).chain(https).collect();
        let [private, inbox] = [private, inbox].map(|address| address.map(|address| url("http", &address)));
        Ok(Self { public, private, inbox, first })
    }

    /// One line for each address, such as `listening on http://127.0.0.1:8080`.
    fn lines(&self) -> impl Iterator<Item = String> {
        let public = self.public.iter().map(|url| format!("listening on {url}"));
        let private = self.private.iter().map(|url| format!("private listener on {url}"));
        public.chain(private).chain(self.inbox.iter().map(|url| format!("inbox on {url}")))
    }

    /// Prints the addresses to standard output, for programs. On a terminal, the banner shows them instead.
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

fn banner(
    config: &Config,
    desk: &AppState,
    addresses: &ListeningAddresses,
    is_new: bool,
    took: Duration,
) -> Vec<String> {
    let site = desk.snapshot.load().site.clone();
    let mut lines = vec![format!("{GOOD}frontdesk {}{GOOD:#}", env!("CARGO_PKG_VERSION"))];
    lines.extend(addresses.lines());
    if addresses.inbox.is_some() {
        lines.push(format!("{DIM}`frontdesk inbox open` prints a link that logs you in to the inbox{DIM:#}"));
    }
    let (kibibytes, milliseconds) = (site.size() / 1024, took.as_millis());
    let folder = config.pages.build.as_ref().map(|build| format!(" from {}", build.folder.display()));
    let folder = folder.unwrap_or_default();
    lines.push(format!("{} pages{folder}, {kibibytes} KiB, loaded in {milliseconds} ms", site.page_count));
    let database = &config.store.url;
    lines.push(match desk.store.health() {
        Ok(()) if is_new => format!("submissions are stored in {database} (new, and empty)"),
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
    if let Some(next) = site.scheduled.first() {
        let (count, at) = (counted(site.scheduled.len() as u64, "page"), format_time(next.at));
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

/// Logs the contents of the banner as one event.
fn log_start(config: &Config, desk: &AppState, addresses: &ListeningAddresses, is_new: bool, took: Duration) {
    let site = desk.snapshot.load().site.clone();
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
    if let Err(error) = desk.store.health() {
        tracing::error!(%error, "submissions cannot be stored");
    }
}

/// Handles signals in a separate thread. The first SIGTERM or SIGINT starts draining, the next one ends the
/// drain, and another one exits at once. SIGHUP reloads, or stops the server if its terminal was closed.
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
        // With a handler for SIGXFSZ, a write beyond the file size limit fails without killing the process.
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
            notify.notify_stopping();
            // Sending fails if the server has already stopped.
            let drain = snapshot.load().options.http.drain;
            if !drain.is_zero() {
                let _ = sender.send(ShutdownPhase::Draining);
                tracing::info!(
                    seconds = drain.as_secs_f64(),
                    "draining: /readyz responds with 503, but requests are still being served"
                );
                let _ = tokio::time::timeout(drain, end()).await;
            }
            let _ = sender.send(ShutdownPhase::Stopping);
            tracing::info!("stopping: waiting for open requests to finish");
            end().await;
            std::process::exit(1);
        });
    })?;
    Ok(receiver)
}

/// Whether SIGHUP was ignored when the process started, as under `nohup`.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_from_before_the_build_is_wrong() {
        let built_at: Timestamp = "2026-11-20T14:00:00Z".parse().expect("a time");
        let text = built_at.as_second().to_string();
        for (now, is_wrong) in [
            ("1970-01-01T00:00:00Z", true),
            ("2026-11-19T13:59:59Z", true),
            ("2026-11-19T14:00:00Z", false),
            ("2030-01-01T00:00:00Z", false),
        ] {
            let found = is_clock_wrong(now.parse().expect("a time"), &text);
            assert_eq!(found, is_wrong.then_some(built_at), "{now}");
        }
        assert_eq!(is_clock_wrong(Timestamp::UNIX_EPOCH, "no number"), None);
    }
}
