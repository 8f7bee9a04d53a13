//! `frontdesk serve`: binds, loads, opens the store, says so, and serves until it is told to stop.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use arc_swap::ArcSwap;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::{site, style};
use crate::config::{Config, Flag};
use crate::fault::Severity;
use crate::inbox::deliver::worker::{self, Worker};
use crate::inbox::limit::Limiter;
use crate::inbox::store::Store;
use crate::pages::Site;
use crate::web::tls::Tls;
use crate::web::{self, Address, Desk, Live, Socket, Sockets};

/// Bodies of this many bytes are compressed before the first request is answered, the rest in the background.
const COMPRESSED_AT_START: usize = 2 << 20;

/// Runs until SIGTERM, SIGINT or SIGHUP.
pub(super) fn run(folder: &Path, flags: &[Flag]) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    log_to_stderr();
    let config = site::configuration(folder, flags)?;
    // Bound first: a port that is taken should not cost the time of loading, and the base URL may follow from it.
    let sockets = bind(&config)?;
    let addresses = Addresses::of(&sockets)?;
    let config = config.at(addresses.first());
    raise_descriptor_limit(&config);
    certificate_is_usable(&config)?;

    let site = load(folder, &config)?;
    let is_new = !config.store.path.exists();
    let store = Store::open(&config.store)
        .with_context(|| format!("cannot keep submissions in {}", config.store.path.display()))?;
    let worker = Worker::start(
        worker::Options {
            database: config.store.path.clone(),
            channels: config.store.channels.clone(),
            housekeeping: config.housekeeping.clone(),
            grace: config.web.shutdown_grace,
        },
        store.clone(),
    )?;
    let live = Live {
        site: Arc::new(site),
        confirmations: worker.confirmations(),
        limiter: Arc::new(Limiter::new(&config.limits)),
        options: Arc::new(config.web.clone()),
    };
    let rest = live.site.clone();
    let tls = config.web.tls.source.as_ref().map(Tls::start).transpose().context("cannot speak TLS")?;
    let desk = Arc::new(Desk { store, live: ArcSwap::from_pointee(live), tls });
    let stop = stop_on_signals()?;
    // Who does not listen to this is served all the same.
    let _ = announce(&config, &desk, &addresses, is_new, started.elapsed());
    let _ = addresses.tell();
    std::thread::Builder::new().name("compress".into()).spawn(move || rest.compress(usize::MAX))?;
    web::serve(&desk, sockets, &stop)?;
    worker.stop();
    if let Some(desk) = Arc::into_inner(desk) {
        desk.store.close();
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The site, compressed as far as it should be before the first answer. Warnings are counted, errors end it.
fn load(folder: &Path, config: &Config) -> anyhow::Result<Site> {
    let progress = Progress::begin("loading the site");
    let (site, faults) = site::load(folder, config);
    let Some(site) = site else {
        progress.end();
        site::print(&faults);
        bail!("the site cannot be served ({})", site::count(&faults));
    };
    site.compress(COMPRESSED_AT_START);
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
            writeln!(stderr, "  submissions are kept in {}{new}", config.store.path.display())?;
        }
        Err(error) => {
            let (bad, bad_end) = (style::ERROR, style::ERROR.render_reset());
            writeln!(
                stderr,
                "  {bad}submissions cannot be kept{bad_end} in {}: {error}",
                config.store.path.display()
            )?;
        }
    }
    let channels: Vec<String> = config
        .store
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

/// Becomes true on SIGTERM, SIGINT or SIGHUP; a second signal ends the process at once.
fn stop_on_signals() -> anyhow::Result<watch::Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let nohup = hang_up_is_ignored();
    let (mut terminate, mut interrupt, mut hang_up) = {
        let _guard = runtime.enter();
        // A file that may not grow any further is an error for whoever writes it; unhandled, the signal would end the process.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
        (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            (!nohup).then(|| signal(SignalKind::hangup())).transpose()?,
        )
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            let mut next = async || {
                let terminal_gone = async {
                    match &mut hang_up {
                        Some(hang_up) => hang_up.recv().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {}, _ = terminal_gone => {} }
            };
            next().await;
            // Nobody listens any more if the server has ended by itself.
            let _ = sender.send(true);
            tracing::info!("stopping: requests that are under way may finish");
            next().await;
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

/// Every connection takes a descriptor, and the usual soft limit of 1,024 is far below what is configured.
fn raise_descriptor_limit(config: &Config) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let wanted = config.web.max_connections as u64 + 128;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |most| most.min(wanted)));
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
        if limit.current.is_some_and(|current| current < wanted) {
            let possible = limit.current.unwrap_or_default().saturating_sub(128);
            let wanted = config.web.max_connections;
            tracing::warn!(
                "the limit of open files allows about {possible} connections, not `server.max_connections` = {wanted}"
            );
        }
    }
}

/// To standard error, with colours where somebody sees them. A line that cannot be written is lost, and nothing else is: whoever
/// closes our standard error, or lets its disk run full, must not stop the server.
fn log_to_stderr() {
    let ansi =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(ansi)
        .with_target(false)
        .log_internal_errors(false);
    // A second call, in tests, leaves the first one in place.
    let _ = subscriber.try_init();
}

/// One line on a terminal while something takes its time; nothing elsewhere.
struct Progress {
    shown: bool,
}

impl Progress {
    fn begin(what: &str) -> Self {
        let mut stderr = std::io::stderr();
        let shown = stderr.is_terminal() && write!(stderr, "{what} …").and_then(|()| stderr.flush()).is_ok();
        Self { shown }
    }

    fn end(self) {
        if self.shown {
            // The cursor goes back and the line is cleared.
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}
