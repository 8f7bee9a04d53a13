//! `frontdesk serve`: binds the sockets, loads the site, opens the inbox, and serves until a signal stops it.

mod canary_inputs;
mod listen;
mod log;
mod options;
mod preflight;
mod process;
mod reload;
mod service_manager;
mod signals;
mod start_report;
mod trial_load;
mod watch;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail};
use arc_swap::ArcSwap;

use self::listen::{ListeningAddresses, bind_sockets};
use self::log::ServerLog;
pub(super) use self::options::ServeOptions;
use self::reload::Reloader;
use self::service_manager::ServiceManager;
use self::signals::{HangUps, install_signal_handlers};
use self::start_report::StartReport;
use self::trial_load::TrialLoad;
use self::watch::SiteWatcher;
use super::config_and_site_loading::{self, SiteCache};
use super::config_needs;
use super::diagnostics::{count_faults, counted, with_hint};
use frontdesk_app::{self as app, AppState, LiveReload, Metrics, PageViews, Snapshot};
use frontdesk_canary::Canary;
use frontdesk_config::{Config, Flag};
use frontdesk_deliver::worker::DeliveryWorker;
use frontdesk_http::tls::Tls;
use frontdesk_http::{PrivateName, Server};
use frontdesk_inbox::intake::Intake;
use frontdesk_inbox::store::Store;
use frontdesk_process::allocator;
use frontdesk_process::disk_space::DiskMonitor;
use frontdesk_site::fault::{Fault, Severity};
use frontdesk_site::{ConversionCache, Encodings, Site};

/// Number of bytes of response bodies to compress before the first request.
const COMPRESSED_AT_START: usize = 2 << 20;

/// Serves until SIGTERM or SIGINT; SIGHUP reloads the site and its configuration, also if it arrives during
/// the start. Starts the log of this process once the configuration has been read. If the log is JSON, it
/// also gets the error if the server then cannot start. With `isolated`, the inbox is in a temporary folder,
/// which is removed at the end.
pub(super) fn run(folder: &Path, flags: &[Flag], options: ServeOptions) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    allocator::configure_allocator();
    let hang_ups = HangUps::catch().context("cannot handle signals")?;
    let (mut config, warnings) =
        config_and_site_loading::read_configuration(folder, flags, config_needs::EVERYTHING)?;
    // The temporary folder is removed when the server has ended.
    let scratch = options.isolated.then(tempfile::tempdir).transpose()?;
    if let Some(scratch) = &scratch {
        config = options::isolate(config, scratch.path());
    }
    let log = ServerLog::start(config.log);
    log.log_faults(&warnings);
    log.conclude(serve(folder, flags, options, config, &log, hang_ups, started))
}

/// Starts all parts of the server, prints or logs its addresses, and serves until a signal stops it.
fn serve(
    folder: &Path,
    flags: &[Flag],
    options: ServeOptions,
    config: Config,
    log: &ServerLog,
    hang_ups: HangUps,
    started: Instant,
) -> anyhow::Result<ExitCode> {
    preflight::report_environment();
    // Check before binding, so that no client connects to a server that is about to exit.
    preflight::require_usable_database(&config)?;
    // Bind before loading: a port in use is reported at once, and links may contain the bound port.
    let sockets = bind_sockets(&config)?;
    let mut addresses = ListeningAddresses::from_sockets(&sockets)?;
    let mut config = options.apply_to(config).with_base_url(addresses.first);
    addresses.name_inbox(&config);
    process::raise_descriptor_limit(&mut config);
    preflight::require_usable_certificate(&config)?;

    let encodings = Arc::new(Encodings::new(config_and_site_loading::encodings_folder(&config)));
    let conversions = Arc::new(ConversionCache::new(config_and_site_loading::conversions_folder(&config)));
    let mut cache = SiteCache::new(&config, conversions.clone());
    let (site, warnings) = load(folder, &config, options, &mut cache, &encodings, log)?;
    config.intake.screening.profile =
        Arc::new(config_and_site_loading::read_profile(&config.intake.screening.lexicon, &site));
    canary_inputs::complete(&mut config, &site);
    let is_new = config.store.url.file().is_some_and(|file| !file.exists());
    let (store, intake) = open_inbox(&config, options)?;
    let worker = Arc::new(DeliveryWorker::start(reload::worker_options(&config), store.clone())?);
    let canary = Arc::new(Canary::start(config.canary.clone(), store.clone(), worker.canary.clone())?);
    let snapshot = Arc::new(ArcSwap::from_pointee(reload::compose_snapshot(&config, site, &worker, None)));

    let service = Arc::new(ServiceManager::from_environment());
    let (reload_sender, reload_reasons) = mpsc::channel();
    let shutdown =
        install_signal_handlers(hang_ups, reload_sender.clone(), service.clone(), snapshot.clone())?;
    if options.isolated {
        process::end_with_input()?;
    }
    let live_reload =
        options.watch.then(|| Arc::new(LiveReload::new(first_version(), &warnings, shutdown.clone())));
    let name = start_private_name(&config, addresses.inbox_port)?;
    let app = Arc::new(compose_app(&config, store, intake, (snapshot, name), live_reload, log)?);
    let watcher =
        options.watch.then(|| SiteWatcher::start(folder, &config, reload_sender.clone())).transpose()?;

    StartReport { config: &config, app: &app, addresses: &addresses, is_new, took: started.elapsed() }
        .publish(log);
    options.warn_about_authoring();
    let _ = addresses.print();
    let pages = counted(app.snapshot.load().site.page_count, "page");
    service.notify_ready(&format!("{pages} at {}", config.pages.base_url));
    let reloader = Reloader {
        trial: TrialLoad::after_load(folder),
        folder: folder.to_owned(),
        flags: flags.to_vec(),
        options,
        address: addresses.first,
        app: app.clone(),
        worker: worker.clone(),
        canary: canary.clone(),
        service,
        config,
        cache,
        encodings,
        conversions,
        reasons: reload_sender,
        watcher,
        is_json: log.is_json,
    };
    std::thread::Builder::new().name("reload".into()).spawn(move || reloader.run(&reload_reasons))?;
    app::serve(&app, sockets, &shutdown)?;
    canary.stop();
    stop(&app, &worker);
    Ok(ExitCode::SUCCESS)
}

/// Starts TLS for the inbox's domain: on the inbox's own socket if `own_port` names its port, otherwise on
/// the public sockets. `None` without a domain or a certificate for it.
fn start_private_name(config: &Config, own_port: Option<u16>) -> anyhow::Result<Option<Arc<PrivateName>>> {
    let (Some(domain), Some(source)) = (&config.web.inbox_pages.domain, &config.inbox_certificate) else {
        return Ok(None);
    };
    let tls = Tls::start_private(source)
        .with_context(|| format!("cannot start TLS for `inbox.domain` ({domain})"))?;
    let authority = config.inbox_authority(own_port).unwrap_or_default();
    let new = if own_port.is_some() { PrivateName::on_own_socket } else { PrivateName::on_public_sockets };
    Ok(Some(Arc::new(new(domain.to_string(), authority, tls))))
}

/// Starts TLS and the disk monitor, and composes the state that all requests share.
fn compose_app(
    config: &Config,
    store: Store,
    intake: Intake,
    (snapshot, name): (Arc<ArcSwap<Snapshot>>, Option<Arc<PrivateName>>),
    live_reload: Option<Arc<LiveReload>>,
    log: &ServerLog,
) -> anyhow::Result<AppState> {
    let tls = config.web.http.tls.source.as_ref().map(Tls::start).transpose().context("cannot start TLS")?;
    let server = Server::new(snapshot.clone(), tls).with_private_name(name);
    Ok(AppState {
        server: Arc::new(server.with_copies_in(&config.data_dir)),
        desk: Arc::new(ArcSwap::from_pointee(reload::desk_options(config, &snapshot.load().site))),
        store,
        intake,
        refusals: Arc::default(),
        page_views: PageViews::default(),
        disk: DiskMonitor::start(config.inbox_folder().to_owned(), reload::min_free(config))
            .context("cannot start the thread that monitors free disk space")?,
        snapshot,
        metrics: Metrics::new(log.queue.lost.clone()),
        live_reload,
    })
}

/// Opens the inbox, starts its intake, and creates the data folder. Fails if the inbox is not writable,
/// except with `--pages-only`.
fn open_inbox(config: &Config, options: ServeOptions) -> anyhow::Result<(Store, Intake)> {
    let store = Store::open(&config.store)
        .with_context(|| format!("cannot store submissions in {}", config.store.url))?;
    if !options.pages_only {
        preflight::require_writable_inbox(&store, config)?;
    }
    let intake = Intake::start(store.clone(), config.intake.clone())?;
    preflight::create_data_folder(config);
    Ok((store, intake))
}

/// Stores the counts of refused requests, ends deliveries, and closes the inbox. Ignores errors.
fn stop(app: &AppState, worker: &DeliveryWorker) {
    // On failure, only the refusals counted since the last write are lost.
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() {
        let _ = runtime.block_on(app.store_refusals());
    }
    worker.stop();
    app.intake.clone().close();
    tracing::info!("stopped");
}

/// Loads the site in a thread of its own, while a terminal shows "loading the site …", and compresses up to
/// [`COMPRESSED_AT_START`] bytes of it. Fails if the site has errors, after logging all faults. Logs the
/// warnings with `--watch`, otherwise only their number; the number of files that are not published; and a
/// warning if `server.max_memory` is too low. With `--watch` and without `--drafts`, also lists the drafts,
/// and the pages that are scheduled or have expired. Returns the site and the warnings.
fn load(
    folder: &Path,
    config: &Config,
    options: ServeOptions,
    cache: &mut SiteCache,
    encodings: &Encodings,
    log: &ServerLog,
) -> anyhow::Result<(Site, Vec<Fault>)> {
    let mut stderr = std::io::stderr();
    let shows_progress = !log.is_json
        && stderr.is_terminal()
        && write!(stderr, "loading the site …").and_then(|()| stderr.flush()).is_ok();
    let loaded = process::run_in_new_thread(|| {
        let (site, faults) = config_and_site_loading::load_site(folder, config, cache);
        let site = site.map(|mut site| {
            site.use_variants(encodings);
            site.compress(COMPRESSED_AT_START, Some(encodings));
            site
        });
        (site, faults)
    });
    if shows_progress {
        // Moves the cursor to the start of the line and clears it.
        let _ = write!(stderr, "\r\x1b[2K");
    }
    let (site, faults) = loaded.map_err(|error| {
        let hint = error.hint();
        with_hint(anyhow!("the site in {} cannot be loaded: {error}", folder.display()), hint)
    })?;
    let Some(site) = site else {
        log.log_faults(&faults);
        bail!("the site cannot be served ({})", count_faults(&faults));
    };
    if options.watch {
        log.log_faults(&faults);
    } else if !faults.is_empty() {
        tracing::warn!("{}; run `frontdesk check {}` for details", count_faults(&faults), folder.display());
    }
    debug_assert!(faults.iter().all(|fault| fault.severity == Severity::Warning));
    log.log_notes(&config_and_site_loading::summarize_exclusions(&cache.publication, folder));
    log.log_faults(&config.memory_faults(site.size()));
    if options.watch && !options.drafts {
        log.log_notes(&config_and_site_loading::describe_unpublished(&site));
    }
    Ok((site, faults))
}

/// The initial version of the live reload state: the current time, so that it is higher after a restart.
#[expect(clippy::disallowed_methods, reason = "the start of the process")]
fn first_version() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default()
}
