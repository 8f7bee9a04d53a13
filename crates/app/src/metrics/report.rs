//! Writes the metrics that `/metrics` returns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use jiff::Timestamp;

use super::exposition::{Exposition, MEDIA_TYPE};
use super::process;
use super::queue_cache::{QueueCache, QueueCount};
use super::{BOUNDS, Class, MAX_NAMES, Metrics, Representation, STATUSES, SubmissionResult};
use crate::state::{AppState, Snapshot};
use frontdesk_canary::{Outcome, Step};
use frontdesk_forms::FormSet;
use frontdesk_inbox::store::CanaryStatus;
use frontdesk_inbox::submission::visitor_mail::MailLimit;
use frontdesk_limits::rate_limiter;
use frontdesk_process::panics::{self, Part};

/// The response body for a scrape, and its media type. Waits at most half a second for the inbox.
pub(crate) async fn report(
    app: &AppState,
    queue: &Arc<QueueCache>,
    now: Timestamp,
) -> (String, &'static str) {
    let snapshot = app.snapshot.load_full();
    let count = queue.get(snapshot.options.inbox.clone(), Instant::now()).await;
    let mut out = Exposition::default();
    write_requests(&mut out, &app.metrics);
    write_submissions(&mut out, &app.metrics, &snapshot.site.form_set);
    write_connections(&mut out, app);
    if let Some(limit) = snapshot.options.http.max_memory {
        out.single("frontdesk_max_memory_bytes", limit);
    }
    write_limits(&mut out, app, &snapshot);
    out.single("frontdesk_repeats_total", app.intake.counts().repeats.load(Relaxed));
    out.single("frontdesk_held_total", app.intake.counts().held.load(Relaxed));
    let mut family = out.family("frontdesk_visitor_mails_skipped_total");
    for (limit, count) in MailLimit::ALL.iter().zip(&app.intake.counts().skipped_mails) {
        family.sample(&[("limit", limit.name())], count.load(Relaxed));
    }
    let opinions = &app.intake.counts().opinions;
    out.family("frontdesk_opinions_total")
        .sample(&[("result", "clean")], opinions.clean.load(Relaxed))
        .sample(&[("result", "spam")], opinions.spam.load(Relaxed))
        .sample(&[("result", "failed")], opinions.failed.load(Relaxed));
    write_inbox(&mut out, app, count.as_ref(), now);
    if let Some(canary) = count.as_ref().and_then(|count| count.canary.as_deref()) {
        write_canary(&mut out, canary);
    }
    write_disk(&mut out, app);
    write_site(&mut out, app, &snapshot);
    let mut family = out.family("frontdesk_panics_total");
    for part in Part::ALL {
        family.sample(&[("part", part.name())], panics::count(part));
    }
    out.single("frontdesk_log_lines_lost_total", app.metrics.shared.lost_lines.load(Relaxed));
    process::write_process(&mut out);
    (out.text, MEDIA_TYPE)
}

/// Writes the counts of responses, except zeros, and the histograms of their durations.
fn write_requests(out: &mut Exposition, metrics: &Metrics) {
    let mut family = out.family("frontdesk_requests_total");
    for class in Class::ALL {
        for representation in Representation::ALL {
            let counts = metrics.totals(|shard| &shard.requests[*class as usize][*representation as usize]);
            let statuses = STATUSES.iter().map(u16::to_string).chain(["other".to_owned()]);
            for (status, count) in statuses.zip(counts).filter(|(_, count)| *count > 0) {
                let labels =
                    [("class", class.name()), ("representation", representation.name()), ("status", &status)];
                family.sample(&labels, count);
            }
        }
    }
    let mut family = out.family("frontdesk_request_duration_seconds");
    for class in Class::ALL {
        let counts = metrics.totals(|shard| &shard.durations[*class as usize]);
        let took = metrics.total(|shard| &shard.took[*class as usize]);
        family.histogram(Some(("class", class.name())), &BOUNDS, &counts, took);
    }
}

/// Writes the counters of the site's forms and former forms. Then writes the counters that all further forms
/// share, unless all of these are 0.
fn write_submissions(out: &mut Exposition, metrics: &Metrics, forms: &FormSet) {
    let names = &metrics.shared.form_names;
    // Allocate counters for each form, so that forms without submissions are reported with zeros.
    for form in forms.iter() {
        names.index_for(form.name);
    }
    let mut family = out.family("frontdesk_submissions_total");
    for (index, name) in names.iter().chain([(MAX_NAMES, "other")]) {
        let counts = metrics.totals(|shard| &shard.submissions.0[index]);
        if index == MAX_NAMES && counts.iter().all(|count| *count == 0) {
            continue;
        }
        for (result, count) in SubmissionResult::ALL.iter().zip(counts) {
            family.sample(&[("form", name), ("verdict", result.name())], count);
        }
    }
}

/// Writes how many connections are open, were admitted or were closed by the server, and their memory use.
fn write_connections(out: &mut Exposition, app: &AppState) {
    let counters = &app.server.counters;
    out.single("frontdesk_connections_open", counters.open());
    out.single("frontdesk_connections_total", counters.opened());
    let mut family = out.family("frontdesk_connections_shed_total");
    for (reason, count) in counters.closed_by_server() {
        family.sample(&[("reason", reason)], count);
    }
    out.single("frontdesk_connections_memory_bytes", app.server.connections_memory());
}

/// Writes the state of the rate limits, and what they and the budgets of bytes refused; the metrics of Redis
/// only if the limits are shared.
fn write_limits(out: &mut Exposition, app: &AppState, snapshot: &Snapshot) {
    out.single("frontdesk_limiter_sources", snapshot.limiter.local.estimate_sources());
    let tally = snapshot.limiter.local.counts();
    out.family("frontdesk_limited_total")
        .sample(&[("layer", "source")], tally.refused_by_source)
        .sample(&[("layer", "network")], tally.refused_by_network)
        .sample(&[("layer", "form")], app.intake.counts().in_flood.load(Relaxed));
    let tally = snapshot.byte_limiter.counts();
    out.family("frontdesk_byte_limited_total")
        .sample(&[("layer", "source")], tally.refused_by_source)
        .sample(&[("layer", "network")], tally.refused_by_network);
    let Some(shared) = snapshot.limiter.metrics() else { return };
    out.single("frontdesk_limits_shared", u8::from(shared.is_connected));
    let mut family = out.family("frontdesk_limits_fallbacks_total");
    for (reason, count) in rate_limiter::Fallback::NAMES.into_iter().zip(shared.fallbacks) {
        family.sample(&[("reason", reason)], count);
    }
    let mut family = out.family("frontdesk_limits_round_trip_seconds");
    family.histogram(None, &rate_limiter::BOUNDS, &shared.durations, shared.took);
}

/// Writes the state of the inbox. If `count` or its `queue` is `None`, because the inbox has not been counted
/// or could not be read, writes only whether it is writable and readable.
fn write_inbox(out: &mut Exposition, app: &AppState, count: Option<&QueueCount>, now: Timestamp) {
    out.single("frontdesk_inbox_writable", u8::from(app.store.health().is_ok()));
    let queue = count.and_then(|count| count.queue.as_deref());
    out.single("frontdesk_inbox_readable", u8::from(queue.is_some()));
    let (Some(count), Some(queue)) = (count, queue) else { return };
    let age = |then: Timestamp| now.duration_since(then).as_secs_f64().max(0.0);
    out.single("frontdesk_inbox_figures_age_seconds", age(count.at));
    out.single("frontdesk_intake_pending", queue.pending);
    out.single("frontdesk_intake_oldest_seconds", queue.pending_since.map_or(0.0, age));
    out.single("frontdesk_intake_set_aside", queue.set_aside);
    out.single("frontdesk_submissions_held", queue.held);
    out.single("frontdesk_confirmation_mails_pending", queue.unasked);

    // Idle channels are reported as well, so that alerts see zeros instead of missing series.
    let configured = app.store.channels.load();
    let none = frontdesk_inbox::store::ChannelQueue::default();
    let mut channels: BTreeMap<&str, _> =
        configured.iter().map(|channel| (channel.name.as_str(), &none)).collect();
    channels.extend(queue.channels.iter().map(|channel| (channel.name.as_str(), channel)));
    let mut family = out.family("frontdesk_deliveries");
    for (name, channel) in &channels {
        family.sample(&[("channel", name), ("state", "waiting")], channel.waiting);
        family.sample(&[("channel", name), ("state", "parked")], channel.parked);
    }
    let mut family = out.family("frontdesk_deliveries_oldest_waiting_seconds");
    for (name, channel) in &channels {
        family.sample(&[("channel", name)], channel.oldest.map_or(0.0, age));
    }
    let mut family = out.family("frontdesk_channel_obstructed");
    for (name, channel) in &channels {
        family.sample(&[("channel", name), ("obstacle", "paused")], u8::from(channel.is_paused));
        family.sample(&[("channel", name), ("obstacle", "off")], u8::from(channel.is_off));
    }
}

/// Writes the result of the canary's last run. A kind of step has failed if one of its steps has. Leaves out
/// kinds whose steps were all skipped, and all kinds if the stored report cannot be read.
fn write_canary(out: &mut Exposition, status: &CanaryStatus) {
    out.single("frontdesk_canary_ok", u8::from(status.is_ok));
    out.single("frontdesk_canary_last_run_timestamp_seconds", status.ended_at.as_second());
    if let Some(at) = status.last_success_at {
        out.single("frontdesk_canary_last_success_timestamp_seconds", at.as_second());
    }
    let Some(report) = frontdesk_canary::stored_report(status) else { return };
    let mut family = out.family("frontdesk_canary_step_ok");
    for kind in Step::ALL {
        let tried =
            || report.steps.iter().filter(|step| step.step == kind && step.outcome != Outcome::Skipped);
        if tried().next().is_some() {
            let is_ok = tried().all(|step| step.outcome != Outcome::Failed);
            family.sample(&[("step", kind.name())], u8::from(is_ok));
        }
    }
}

/// Writes whether disk space is low and, if it has been measured, the free space, the size and the reserve.
fn write_disk(out: &mut Exposition, app: &AppState) {
    out.single("frontdesk_disk_low", u8::from(app.disk.is_low()));
    let Some((space, reserve)) = app.disk.last() else { return };
    out.single("frontdesk_disk_free_bytes", space.free);
    out.single("frontdesk_disk_size_bytes", space.size);
    out.single("frontdesk_disk_reserve_bytes", reserve);
}

/// Writes the versions of the program and the site, the reloads, and when each TLS certificate expires.
fn write_site(out: &mut Exposition, app: &AppState, snapshot: &Snapshot) {
    out.family("frontdesk_build_info").sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let pages = snapshot.site.page_count.to_string();
    out.family("frontdesk_site_info").sample(&[("hash", snapshot.site.hash()), ("pages", &pages)], 1);
    let [done, failed] = [0, 1].map(|index| app.metrics.shared.reloads[index].load(Relaxed));
    out.single("frontdesk_site_generation", snapshot.generation);
    out.family("frontdesk_reloads_total")
        .sample(&[("result", "done")], done)
        .sample(&[("result", "failed")], failed);
    let at = app.metrics.shared.reloaded_at.load(Relaxed);
    if at != 0 {
        out.single("frontdesk_last_reload_timestamp_seconds", at);
    }
    if let Some(not_after) = app.server.tls.as_ref().and_then(|tls| tls.not_after()) {
        out.single("frontdesk_certificate_expiry_timestamp_seconds", not_after.as_second());
    }
    if let Some((_, not_after)) = app.server.private_name.as_ref().and_then(|name| name.certificate_expiry())
    {
        out.single("frontdesk_inbox_certificate_expiry_timestamp_seconds", not_after.as_second());
    }
}
