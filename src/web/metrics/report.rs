//! Writes all metrics of `/metrics`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use jiff::Timestamp;

use super::exposition::{Exposition, Kind};
use super::process;
use super::queue_cache::{QueueCache, QueueCount};
use super::{BOUNDS, Class, CloseReason, Metrics, Representation, STATUSES, SubmissionResult};
use crate::forms::FORMS;
use crate::limits::rate_limiter;
use crate::web::conn_limits::Connections;
use crate::web::state::{AppState, Snapshot};

use Kind::{Counter, Gauge, Histogram};

/// The response body for a scrape, and its media type. Waits at most half a second for the inbox.
pub(in crate::web) async fn report(
    app: &AppState,
    open: &Connections,
    queue: &Arc<QueueCache>,
    now: Timestamp,
) -> (String, &'static str) {
    let snapshot = app.snapshot.load_full();
    let count = queue.get(snapshot.options.inbox.clone(), Instant::now()).await;
    let mut out = Exposition::default();
    requests(&mut out, &app.metrics);
    submissions(&mut out, &app.metrics);
    connections(&mut out, &app.metrics);
    memory(&mut out, open, &snapshot);
    limits(&mut out, app, &snapshot);
    out.single(
        "frontdesk_repeats_total",
        Counter,
        "Accepted forms that repeated an earlier submission, as this server has found when it processed them.",
        app.intake.repeats(),
    );
    out.single(
        "frontdesk_held_total",
        Counter,
        "Accepted forms that became a submission which is held, as this server has found when it processed them.",
        app.intake.held(),
    );
    inbox(&mut out, app, &snapshot, count.as_ref(), now);
    disk(&mut out, app);
    site(&mut out, app, &snapshot);
    let lost = app.metrics.shared.lost_lines.load(Relaxed);
    out.single(
        "frontdesk_log_lines_lost_total",
        Counter,
        "Lines of the log that standard error did not take in time.",
        lost,
    );
    process::report(&mut out);
    (out.finish(), super::exposition::MEDIA_TYPE)
}

fn requests(out: &mut Exposition, metrics: &Metrics) {
    let mut family = out.family(
        "frontdesk_requests_total",
        Counter,
        "Answers by what was asked for, what was handed out, and status. Combinations that have not occurred are left out.",
    );
    for class in Class::ALL {
        for representation in Representation::ALL {
            let counts = metrics.sums(|shard| &shard.requests[*class as usize][*representation as usize]);
            let statuses = STATUSES.iter().map(u16::to_string).chain(["other".to_owned()]);
            for (status, count) in statuses.zip(counts).filter(|(_, count)| *count > 0) {
                let labels =
                    [("class", class.name()), ("representation", representation.name()), ("status", &status)];
                family.sample(&labels, count);
            }
        }
    }
    let mut family = out.family(
        "frontdesk_request_duration_seconds",
        Histogram,
        "From the end of a request's header to the answer being ready, by what was asked for.",
    );
    for class in Class::ALL {
        let mut sum = 0;
        let counts = metrics.sums(|shard| &shard.durations[*class as usize]);
        let bounds = BOUNDS.iter().map(|(_, text)| *text).chain(["+Inf"]);
        for (bound, count) in bounds.zip(counts) {
            sum += count;
            family.suffixed("_bucket", &[("class", class.name()), ("le", bound)], sum);
        }
        let took = metrics.sum(|shard| &shard.took[*class as usize]);
        family.suffixed("_sum", &[("class", class.name())], seconds(took));
        family.suffixed("_count", &[("class", class.name())], sum);
    }
}

/// Formats nanoseconds as seconds.
fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}

fn submissions(out: &mut Exposition, metrics: &Metrics) {
    let mut family =
        out.family("frontdesk_submissions_total", Counter, "Forms that were sent, by what became of them.");
    for (place, form) in FORMS.iter().enumerate() {
        let counts = metrics.sums(|shard| &shard.submissions[place]);
        for (result, count) in SubmissionResult::ALL.iter().zip(counts) {
            family.sample(&[("form", form.name), ("verdict", result.name())], count);
        }
    }
}

fn connections(out: &mut Exposition, metrics: &Metrics) {
    // Read `closed` first: otherwise, connections that open in between could make the difference negative.
    let closed = metrics.sum(|shard| &shard.closed);
    let opened = metrics.sum(|shard| &shard.opened);
    let open = opened.saturating_sub(closed);
    out.single("frontdesk_connections_open", Gauge, "Connections to the public address.", open);
    out.single(
        "frontdesk_connections_total",
        Counter,
        "Connections to the public address that were let in.",
        opened,
    );
    let mut family = out.family(
        "frontdesk_connections_shed_total",
        Counter,
        "Connections that were closed by the server, by the bound that they met.",
    );
    for (reason, count) in CloseReason::ALL.iter().zip(metrics.sums(|shard| &shard.close_reasons)) {
        family.sample(&[("reason", reason.name())], count);
    }
}

fn memory(out: &mut Exposition, open: &Connections, snapshot: &Snapshot) {
    out.single(
        "frontdesk_connections_memory_bytes",
        Gauge,
        "About how much memory connections to the public address hold, those of trusted proxies excepted.",
        open.held(),
    );
    if let Some(limit) = snapshot.options.max_memory {
        out.single(
            "frontdesk_max_memory_bytes",
            Gauge,
            "The limit of the process's resident memory. Left out where there is none.",
            limit,
        );
    }
}

fn limits(out: &mut Exposition, app: &AppState, snapshot: &Snapshot) {
    let sources = snapshot.limiter.sources();
    out.single(
        "frontdesk_limiter_sources",
        Gauge,
        "About how many sources have used something of their limits.",
        sources,
    );
    let tally = snapshot.limiter.counts();
    let mut family = out.family(
        "frontdesk_limited_total",
        Counter,
        "Requests to the forms past a limit: refused for their source or network, held for the form's.",
    );
    family.sample(&[("layer", "source")], tally.refused_by_source);
    family.sample(&[("layer", "network")], tally.refused_by_network);
    family.sample(&[("layer", "form")], app.intake.held_in_floods());
    let tally = snapshot.byte_limiter.refusals();
    let mut family = out.family(
        "frontdesk_byte_limited_total",
        Counter,
        "Forms that were refused because they did not fit into the byte budget of their source or network.",
    );
    family.sample(&[("layer", "source")], tally.refused_by_source);
    family.sample(&[("layer", "network")], tally.refused_by_network);
    if let Some(figures) = snapshot.limiter.metrics() {
        shared_limits(out, &figures);
    }
}

fn shared_limits(out: &mut Exposition, figures: &rate_limiter::RedisMetrics) {
    out.single(
        "frontdesk_limits_shared",
        Gauge,
        "Whether limits are shared (1), or this server's own because Redis cannot be used (0). Left out where they are not to be shared.",
        u8::from(figures.is_connected),
    );
    let mut family = out.family(
        "frontdesk_limits_fallbacks_total",
        Counter,
        "Requests that this server's own limits decided instead of the shared ones, by the reason.",
    );
    for (reason, count) in rate_limiter::Fallback::ALL.iter().zip(figures.fallbacks) {
        family.sample(&[("reason", reason.name())], count);
    }
    let mut family = out.family(
        "frontdesk_limits_round_trip_seconds",
        Histogram,
        "How long shared limits took to answer, where they did in time.",
    );
    let mut sum = 0;
    let bounds = rate_limiter::BOUNDS.iter().map(|(_, text)| *text).chain(["+Inf"]);
    for (bound, count) in bounds.zip(figures.durations) {
        sum += count;
        family.suffixed("_bucket", &[("le", bound)], sum);
    }
    family.suffixed("_sum", &[], seconds(figures.took));
    family.suffixed("_count", &[], sum);
}

fn inbox(
    out: &mut Exposition,
    app: &AppState,
    snapshot: &Snapshot,
    count: Option<&QueueCount>,
    now: Timestamp,
) {
    let is_writable = u8::from(app.store.health().is_ok());
    out.single(
        "frontdesk_inbox_writable",
        Gauge,
        "Whether submissions can be kept (1) or not (0).",
        is_writable,
    );
    let queue = count.and_then(|count| count.queue.as_deref());
    let is_readable = u8::from(queue.is_some());
    out.single(
        "frontdesk_inbox_readable",
        Gauge,
        "Whether the inbox could be counted (1); the figures that need it are left out otherwise (0).",
        is_readable,
    );
    let (Some(count), Some(queue)) = (count, queue) else { return };
    let age = |then: Timestamp| now.duration_since(then).as_secs_f64().max(0.0);
    out.single(
        "frontdesk_inbox_figures_age_seconds",
        Gauge,
        "How old the figures about submissions and deliveries are.",
        age(count.at),
    );
    out.single(
        "frontdesk_intake_pending",
        Gauge,
        "Accepted submissions that are not processed yet.",
        queue.pending,
    );
    out.single(
        "frontdesk_intake_oldest_seconds",
        Gauge,
        "How long ago the oldest of them was received; 0 where there is none.",
        queue.pending_since.map_or(0.0, age),
    );
    out.single(
        "frontdesk_intake_set_aside",
        Gauge,
        "Accepted submissions that could not be processed.",
        queue.set_aside,
    );
    out.single(
        "frontdesk_submissions_held",
        Gauge,
        "Submissions that wait for the operator's release.",
        queue.held,
    );

    // Idle channels are reported as well, so that alerts see zeros and not missing series.
    let known = queue.channels.iter().map(|channel| channel.name.as_str());
    let configured = snapshot.options.channels.iter().map(String::as_str);
    let mut names: Vec<&str> = known.chain(configured).collect();
    names.sort_unstable();
    names.dedup();
    let none = crate::store::ChannelQueue::default();
    let channels: Vec<_> = names
        .iter()
        .map(|name| (*name, queue.channels.iter().find(|channel| channel.name == *name).unwrap_or(&none)))
        .collect();
    let mut family =
        out.family("frontdesk_deliveries", Gauge, "Deliveries that are still to be done, by channel.");
    for (name, channel) in &channels {
        family.sample(&[("channel", name), ("state", "waiting")], channel.waiting);
        family.sample(&[("channel", name), ("state", "parked")], channel.parked);
    }
    let mut family = out.family(
        "frontdesk_deliveries_oldest_waiting_seconds",
        Gauge,
        "How long ago the oldest submission was received whose delivery waits; 0 where none does.",
    );
    for (name, channel) in &channels {
        family.sample(&[("channel", name)], channel.oldest.map_or(0.0, age));
    }
    let mut family = out.family(
        "frontdesk_channel_obstructed",
        Gauge,
        "Whether a channel is paused because it fails, or off because the other side is gone (1).",
    );
    for (name, channel) in &channels {
        family.sample(&[("channel", name), ("obstacle", "paused")], u8::from(channel.is_paused));
        family.sample(&[("channel", name), ("obstacle", "off")], u8::from(channel.is_off));
    }
}

fn disk(out: &mut Exposition, app: &AppState) {
    out.single(
        "frontdesk_disk_low",
        Gauge,
        "Whether large submissions are refused because less than the reserve is free (1).",
        u8::from(app.disk.is_low()),
    );
    let Some((space, reserve)) = app.disk.last() else { return };
    out.single(
        "frontdesk_disk_free_bytes",
        Gauge,
        "Free space on the file system of the data folder, as far as this user may use it.",
        space.free,
    );
    out.single("frontdesk_disk_size_bytes", Gauge, "Size of the file system of the data folder.", space.size);
    out.single(
        "frontdesk_disk_reserve_bytes",
        Gauge,
        "Free space below which large submissions are refused; 0 if none are.",
        reserve,
    );
}

fn site(out: &mut Exposition, app: &AppState, snapshot: &Snapshot) {
    let version = env!("CARGO_PKG_VERSION");
    out.family("frontdesk_build_info", Gauge, "Which frontdesk this is.").sample(&[("version", version)], 1);
    let pages = snapshot.site.page_count().to_string();
    let labels = [("hash", snapshot.site.hash()), ("pages", &*pages)];
    out.family("frontdesk_site_info", Gauge, "Which site is served; the hash is over all paths and bodies.")
        .sample(&labels, 1);
    let [done, failed] = [0, 1].map(|place| app.metrics.shared.reloads[place].load(Relaxed));
    out.single(
        "frontdesk_site_generation",
        Gauge,
        "1 at the start, and one more after each reload.",
        snapshot.generation,
    );
    let mut family =
        out.family("frontdesk_reloads_total", Counter, "Attempts to replace site and configuration.");
    family.sample(&[("result", "done")], done);
    family.sample(&[("result", "failed")], failed);
    let at = app.metrics.shared.reloaded_at.load(Relaxed);
    if at != 0 {
        out.single(
            "frontdesk_last_reload_timestamp_seconds",
            Gauge,
            "When the last attempt was, in seconds since 1970.",
            at,
        );
    }
    if let Some(not_after) = app.tls.as_ref().and_then(|tls| tls.not_after()) {
        out.single(
            "frontdesk_certificate_expiry_timestamp_seconds",
            Gauge,
            "Until when the certificate holds, in seconds since 1970.",
            not_after.as_second(),
        );
    }
}
