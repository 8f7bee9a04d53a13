//! `frontdesk serve`: binds, loads, opens the store, says so, and serves until it is told to stop.

mod heap;
mod idle;
mod log;
mod notify;
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

use self::log::Log;
use self::notify::Notify;
pub(super) use self::reload::encodings;
use self::reload::{Reason, Reloader};
use super::{site, style};
use crate::config::{Config, Flag};
use crate::deliver::worker::Worker;
use crate::fault::Severity;
use crate::limits::ByteLimiter;
use crate::limits::gate::Gate;
use crate::pages::{Encodings, Previous, Site};
use crate::store::Store;
use crate::store::disk::{DiskMonitor, MinFree};
use crate::web::agent::Agents;
use crate::web::tls::Tls;
use crate::web::{self, Address, Desk, Live, Metrics, Socket, Sockets, Stage};

/// Bodies of this many bytes are compressed before the first request is answered, the rest in the background.
const COMPRESSED_AT_START: usize = 2 << 20;

/// Runs until SIGTERM or SIGINT. SIGHUP has the site and its configuration read again; with `watch`, so does every change in its
/// folder.
pub(super) fn run(folder: &Path, flags: &[Flag], watch: bool) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    heap::configure();
    let (config, warnings) = site::examine(folder, flags)?;
    let log = Log::start(config.log);
    log.faults(&warnings);
    log.conclude(serve(folder, flags, watch, config, &log, started))
}

fn serve(
    folder: &Path,
    flags: &[Flag],
    watch: bool,
    config: Config,
    log: &Log,
    started: Instant,
) -> anyhow::Result<ExitCode> {
    // Bound first: a port that is taken should not cost the time of loading, and the base URL may follow from it.
    let sockets = bind(&config)?;
    let addresses = Addresses::of(&sockets)?;
    let mut config = config.at(addresses.first());
    raise_descriptor_limit(&mut config);
    certificate_is_usable(&config)?;

    let encodings = Arc::new(Encodings::new(reload::encodings(&config)));
    let mut previous = Previous::default();
    let site = on_a_thread_of_its_own(|| load(folder, &config, &mut previous, &encodings, log))?;
    log.faults(&config.memory_faults(site.size()));
    let is_new = config.store.place.file().is_some_and(|file| !file.exists());
    let store = Store::open(&config.store)
        .with_context(|| format!("cannot keep submissions in {}", config.store.place))?;
    create_data_folder(&config);
    let worker = Arc::new(Worker::start(reload::deliveries(&config), store.clone())?);
    let live = Live {
        site: Arc::new(site),
        confirmations: worker.confirmations(),
        limiter: Arc::new(Gate::new(&config.limits, config.shared_limits.as_ref())),
        byte_limiter: Arc::new(ByteLimiter::new(&config.byte_limits)),
        agents: Arc::new(Agents::new(&config.agents)),
        options: Arc::new(config.web.clone()),
        generation: 1,
    };
    let (data, min_free) = (data_folder(&config).to_owned(), reserve(&config));
    let monitor = DiskMonitor::start(data, min_free).context("cannot watch the free space")?;
    let tls = config.web.tls.source.as_ref().map(Tls::start).transpose().context("cannot speak TLS")?;
    let desk = Arc::new(Desk {
        store,
        pressure: Arc::default(),
        disk: monitor,
        live: Arc::new(ArcSwap::from_pointee(live)),
        tls,
        metrics: Metrics::new(log.lost()),
        release_memory: heap::release,
    });
    let notify = Arc::new(Notify::from_environment());
    let (reasons, asked) = mpsc::channel();
    let _watcher = watch.then(|| reload::watch(folder, &config, reasons.clone())).transpose()?;
    let stage = heed_signals(reasons.clone(), notify.clone(), desk.live.clone())?;
    if log.is_json() {
        announce_to_programs(&config, &desk, &addresses, is_new, started.elapsed());
    } else {
        log.flush();
        // Who does not listen to this is served all the same.
        let _ = announce(&config, &desk, &addresses, is_new, started.elapsed());
    }
    let _ = addresses.tell();
    notify.ready(&format!("{} pages at {}", desk.live.load().site.page_count(), config.pages.base_url));
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
    note_pressure(&desk);
    worker.stop();
    desk.store.clone().close();
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The folder whose file system is watched: that of the database, or the data folder if the inbox is on a PostgreSQL server.
fn data_folder(config: &Config) -> &Path {
    config.store.place.file().and_then(Path::parent).unwrap_or(&config.data_dir)
}

/// How much space is to stay free there. No submission is written there if the inbox is on a PostgreSQL server.
fn reserve(config: &Config) -> MinFree {
    match config.store.place.file() {
        Some(_) => config.housekeeping.min_free,
        None => MinFree::Off,
    }
}

/// Creates the data folder where the inbox is on a PostgreSQL server; otherwise the store has. A running server never creates it: if it
/// is missing later, its file system may be unmounted.
fn create_data_folder(config: &Config) {
    let created = match config.store.place.file() {
        Some(_) => Ok(()),
        None => DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir),
    };
    if let Err(error) = created {
        tracing::warn!(%error, "cannot create the data folder {}", config.data_dir.display());
    }
}

/// Writes down whose requests were refused since that was last done.
fn note_pressure(desk: &Desk) {
    let refused = desk.pressure.drain();
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build()
        && !refused.is_empty()
    {
        // It is as good as gone if it cannot be written now.
        let _ = runtime.block_on(desk.store.pressed(refused, jiff::Timestamp::now()));
    }
}

/// Runs what takes much memory for a short time. A thread keeps some of what it has freed for its own next use, and gives it back
/// when it ends.
fn on_a_thread_of_its_own<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let result = std::thread::scope(|scope| scope.spawn(work).join());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The site, compressed as far as it should be before the first answer. Warnings are counted, errors end it.
fn load(
    folder: &Path,
    config: &Config,
    previous: &mut Previous,
    encodings: &Encodings,
    log: &Log,
) -> anyhow::Result<Site> {
    let progress = Progress::begin("loading the site", log);
    let (site, faults) = site::load_again(folder, config, previous);
    let Some(site) = site else {
        progress.end();
        log.faults(&faults);
        bail!("the site cannot be served ({})", site::count(&faults));
    };
    site.compress_with(COMPRESSED_AT_START, Some(encodings));
    progress.end();
    if !faults.is_empty() {
        tracing::warn!("{}: `frontdesk check {}` tells more", site::count(&faults), folder.display());
    }
    debug_assert!(faults.iter().all(|fault| fault.severity == Severity::Warning));
    Ok(site)
}

/// Errors of the certificate's files end it, with their place and a remedy; warnings are for `frontdesk check` and the log.
fn certificate_is_usable(config: &Config) -> anyhow::Result<()> {
    let mut faults = config.certificate_faults();
    faults.retain(|fault| fault.severity == Severity::Error);
    if faults.is_empty() {
        return Ok(());
    }
    site::print(&faults);
    bail!("TLS cannot be spoken ({})", site::count(&faults))
}

/// What is wrong with an address that cannot be listened on, and what would help.
fn listening(error: web::BindError, flag: &str) -> anyhow::Error {
    let hint = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("another program listens there; `{flag} ADDR:PORT` takes another port")
        }
        std::io::ErrorKind::PermissionDenied => {
            "ports below 1024 are for root; a service manager can hand the socket over, or a proxy stand before a higher one".to_owned()
        }
        std::io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        _ => format!("`{flag} ADDR:PORT` takes another address"),
    };
    anyhow::Error::new(error).context(hint)
}

/// The sockets that a service manager has handed over; those that are configured take the place of what is missing.
fn bind(config: &Config) -> anyhow::Result<Sockets> {
    let mut sockets = Sockets::inherited().context("cannot use the sockets that were handed over")?;
    let is_handed_https = !sockets.https.is_empty();
    if !is_handed_https {
        let secure = config.tls_listen.iter().map(Socket::bind).collect::<Result<_, _>>();
        sockets.https = secure.map_err(|error| listening(error, "tls.listen ="))?;
    }
    if sockets.http.is_empty() && !is_handed_https {
        let public = config.listen.iter().map(Socket::bind).collect::<Result<_, _>>();
        sockets.http = public.map_err(|error| listening(error, "--listen"))?;
    }
    match (&config.web.tls.source, sockets.https.is_empty()) {
        (None, false) => {
            bail!("a socket is handed over for TLS, and `tls.certificate` and `tls.acme_domains` are not set")
        }
        (Some(_), true) => {
            bail!("there is a certificate, and nothing listens for TLS: `tls.listen` is not set")
        }
        _ => {}
    }
    if sockets.ops.is_none() {
        let private = config.ops_listen.as_ref().map(Socket::bind).transpose();
        sockets.ops = private.map_err(|error| listening(error, "--ops-listen"))?;
    }
    Ok(sockets)
}

/// Where the server listens in the end.
struct Addresses {
    public: Vec<Address>,
    /// Those over TLS.
    secure: Vec<Address>,
    private: Option<Address>,
}

impl Addresses {
    fn of(sockets: &Sockets) -> std::io::Result<Self> {
        Ok(Self {
            public: sockets.http.iter().map(Socket::address).collect::<Result<_, _>>()?,
            secure: sockets.https.iter().map(Socket::address).collect::<Result<_, _>>()?,
            private: sockets.ops.as_ref().map(Socket::address).transpose()?,
        })
    }

    /// The first that links can lead to, over TLS if that is spoken.
    fn first(&self) -> Option<SocketAddr> {
        self.secure.iter().chain(&self.public).find_map(|address| match address {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        })
    }

    /// One line each, with what comes before a private address.
    fn lines(&self) -> impl Iterator<Item = String> {
        let public = self.public.iter().map(|address| format!("listening on {}", url("http", address)));
        let secure = self.secure.iter().map(|address| format!("listening on {}", url("https", address)));
        public
            .chain(secure)
            .chain(self.private.iter().map(|address| format!("private listener on {}", url("http", address))))
    }

    /// To standard output, for whoever started us to read; on a terminal the banner says them.
    fn tell(&self) -> std::io::Result<()> {
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

/// Says on standard error what is served where.
fn announce(
    config: &Config,
    desk: &Desk,
    addresses: &Addresses,
    is_new: bool,
    took: Duration,
) -> anyhow::Result<()> {
    let (site, store) = (desk.live.load().site.clone(), &desk.store);
    // Asked before standard error is ours: others may want to say something before they can answer.
    let health = store.health();
    let mut stderr = anstream::stderr().lock();
    let (good, dim) = (style::GOOD, style::DIM);
    let (good_end, dim_end) = (good.render_reset(), dim.render_reset());
    writeln!(stderr, "{good}frontdesk {}{good_end}", env!("CARGO_PKG_VERSION"))?;
    for line in addresses.lines() {
        writeln!(stderr, "  {line}")?;
    }
    let milliseconds = took.as_millis();
    writeln!(
        stderr,
        "  {} pages, {} KiB, loaded in {milliseconds} ms",
        site.page_count(),
        site.size() / 1024
    )?;
    match health {
        Ok(()) => {
            let new = if is_new { " (new, and empty)" } else { "" };
            writeln!(stderr, "  submissions are kept in {}{new}", config.store.place)?;
        }
        Err(error) => {
            let (bad, bad_end) = (style::ERROR, style::ERROR.render_reset());
            writeln!(
                stderr,
                "  {bad}submissions cannot be kept{bad_end} in {}: {error}",
                config.store.place
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
        writeln!(stderr, "  {dim}nobody is told of them: a `[[channel]]` sends them on{dim_end}")?;
    } else {
        writeln!(stderr, "  and delivered to {}", channels.join(", "))?;
    }
    if config.base_url.is_none() {
        let base_url = &config.pages.base_url;
        writeln!(
            stderr,
            "  {dim}links say {base_url}: set `base_url` before the public reaches this site{dim_end}"
        )?;
    }
    stderr.flush()?;
    Ok(())
}

/// The same as one event.
fn announce_to_programs(config: &Config, desk: &Desk, addresses: &Addresses, is_new: bool, took: Duration) {
    let site = desk.live.load().site.clone();
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
        pages = site.page_count(),
        bytes = site.size(),
        loaded_in_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        inbox = %config.store.place,
        inbox_is_new = is_new,
        channels = channels.join(" "),
        "serving"
    );
    if let Err(error) = desk.store.health() {
        tracing::error!(%error, "submissions cannot be kept");
    }
}

/// Tells the stages: SIGTERM or SIGINT begins to drain, which such a signal cuts short, and once nobody is let in any more such a
/// signal ends the process at once. SIGHUP is a reason to reload, unless it says that the terminal that we were started on is gone.
fn heed_signals(
    reload: Sender<Reason>,
    notify: Arc<Notify>,
    live: Arc<ArcSwap<Live>>,
) -> anyhow::Result<watch::Receiver<Stage>> {
    let (sender, receiver) = watch::channel(Stage::Serving);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let has_terminal = std::io::stderr().is_terminal() && !hang_up_is_ignored();
    let (mut terminate, mut interrupt, mut hang_up) = {
        let _guard = runtime.enter();
        // A file that may not grow any further is an error for whoever writes it; unhandled, the signal would end the process.
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
                        let _ = reload.send(Reason::Asked);
                    }
                }
            };
            end().await;
            notify.stopping();
            // Nobody listens any more if the server has ended by itself.
            let drain = live.load().options.drain;
            if !drain.is_zero() {
                let _ = sender.send(Stage::Draining);
                tracing::info!(seconds = drain.as_secs_f64(), "draining: balancers are told to go elsewhere");
                let _ = tokio::time::timeout(drain, end()).await;
            }
            let _ = sender.send(Stage::Stopping);
            tracing::info!("stopping: requests that are under way may finish");
            end().await;
            std::process::exit(1);
        });
    })?;
    Ok(receiver)
}

/// Whether whoever started us wants us to outlive the terminal, as `nohup` does; a handler of ours would undo that.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Descriptors that are kept for anything but connections: the inbox, deliveries, what is read again.
const DESCRIPTORS_OF_OURS: u64 = 128;

/// Every connection takes a descriptor, and the usual soft limit of 1,024 is far below what is configured. Where the limit cannot be
/// raised that far there are fewer connections: visitors must not take away what their submissions are kept and delivered with.
fn raise_descriptor_limit(config: &mut Config) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let wanted = config.web.max_connections as u64 + DESCRIPTORS_OF_OURS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let before = limit.current;
        limit.current = Some(limit.maximum.map_or(wanted, |most| most.min(wanted)));
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot raise the limit of open files");
            limit.current = before;
        }
        if let Some(current) = limit.current.filter(|current| *current < wanted) {
            let (wanted, possible) = (config.web.max_connections, connections_within(current));
            tracing::warn!(
                "the limit of open files allows {possible} connections, not `server.max_connections` = {wanted}"
            );
            config.web.max_connections = possible;
        }
    }
}

/// How many connections there is room for with so many descriptors, half of which stay ours where there are few.
fn connections_within(descriptors: u64) -> usize {
    let possible = descriptors - DESCRIPTORS_OF_OURS.min(descriptors / 2);
    usize::try_from(possible).unwrap_or(usize::MAX).max(1)
}

/// One line on a terminal while something takes its time; nothing elsewhere.
struct Progress {
    shown: bool,
}

impl Progress {
    fn begin(what: &str, log: &Log) -> Self {
        let mut stderr = std::io::stderr();
        let shown = !log.is_json()
            && stderr.is_terminal()
            && write!(stderr, "{what} …").and_then(|()| stderr.flush()).is_ok();
        Self { shown }
    }

    fn end(self) {
        if self.shown {
            // The cursor goes back and the line is cleared.
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_left_for_what_is_not_a_connection() {
        for (descriptors, connections) in
            [(0, 1), (1, 1), (100, 50), (256, 128), (1024, 896), (10_128, 10_000)]
        {
            assert_eq!(connections_within(descriptors), connections, "{descriptors}");
        }
    }
}
