//! Inbox maintenance: removes expired submissions and old counts, encrypts ("seals") delivered submissions,
//! sends the team a daily digest and each user a daily mail, and notifies the team at once of floods and of a
//! reached limit of mails to visitors.

#![expect(clippy::disallowed_methods, reason = "the maintenance loop reads the clock")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use tokio::sync::Notify;
use uuid::Uuid;

use super::channel::Channel;
use super::daily_user_reminder::{self, Reminder, ReminderOptions};
use super::notification::Notification;
use super::problem_digest::{self, Digest, last_due};
use frontdesk_age::Recipient;
use frontdesk_inbox::store::{DatabaseUrl, FormScope, InboxReader, Store, StoreError};
use frontdesk_inbox::submission::Submission;
use frontdesk_inbox::submission::delivery::DeliveryState;
use frontdesk_inbox::submission::delivery_outcome::{LONGEST_ATTEMPT, Outcome};
use frontdesk_inbox::submission::visitor_mail::is_visitor_channel;
use frontdesk_process::disk_space::MinFree;
use frontdesk_process::failure_log::FailureLog;
use frontdesk_process::panics::{self, Part};

/// Time between two runs of maintenance, unless a digest is due earlier.
const INTERVAL: Duration = Duration::from_mins(15);
/// The delay between sealing a submission and truncating the write-ahead log, which still contains the
/// submission's plaintext.
const TRUNCATE_DELAY: Duration = Duration::from_secs(2);
/// Maximum number of rows that one query selects to be encrypted, or that one transaction removes.
const BATCH: usize = 200;
/// How many days, including today, the inbox keeps the counts of refused requests.
const REFUSAL_DAYS: i32 = 30;
/// How many days, including today, the inbox keeps the counts of page views.
const VIEW_DAYS: i32 = 400;
/// Test submissions of the canary that are older than this belong to a run that never ended.
const CANARY_LIFETIME: Duration = Duration::from_hours(1);
/// The key under which the inbox stores the due time of the last completed digest.
const DIGEST_KEY: &str = "digest";
/// The key under which the inbox stores the time of the last flood notification.
const FLOOD_KEY: &str = "flood";
/// Minimum time between two flood notifications.
const FLOOD_INTERVAL: SignedDuration = SignedDuration::from_hours(1);
/// The time between two digests, and between two mails to a user.
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// The date of the source from which a release is built, in Unix time (reproducible-builds.org). `None` in
/// other builds.
pub const BUILT_AT: Option<&str> = option_env!("SOURCE_DATE_EPOCH");
/// The delay before another attempt to send a flood notification, or one about the limit of mails to
/// visitors.
const NOTIFICATION_RETRY: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Default)]
pub struct MaintenanceOptions {
    /// How long submissions are kept after their arrival, except held ones and those with unfinished or
    /// parked deliveries to the team. `None` keeps them forever.
    pub retention: Option<Duration>,
    /// The retention of each form that has its own, by form name; it replaces `retention`. `None` keeps the
    /// form's submissions forever.
    pub form_retention: BTreeMap<String, Option<Duration>>,
    /// How long held submissions are kept, except those of a flood and those that the visitor can still
    /// confirm. `None` keeps them forever.
    pub retention_held: Option<Duration>,
    /// How long unconfirmed entries are kept after their links have expired. `None` keeps them until
    /// `retention_held` removes them.
    pub retention_unconfirmed: Option<Duration>,
    /// The time of day, in UTC, at which the daily digest is sent. `None` disables the digest.
    pub digest_at: Option<Time>,
    /// The daily mails to the users of the inbox. `None` disables them.
    pub reminders: Option<ReminderOptions>,
    /// `store.min_free`: the digest warns when less than twice this reserve is free.
    pub min_free: MinFree,
    /// The public key that encrypts a submission once all its deliveries are done. `None` disables
    /// encryption.
    pub recipient: Option<Recipient>,
}

/// The time when the last digest was due, if that is more than an hour ago and the digest is not done. `None`
/// also if digests are disabled, or if the inbox has no record of an earlier one.
pub fn undelivered_digest(
    inbox: &InboxReader,
    digest_at: Option<Time>,
    now: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    let Some(due) = digest_at.map(|at| last_due(now, at)) else { return Ok(None) };
    let last = inbox.stored_time(DIGEST_KEY)?;
    Ok(last.is_some_and(|last| is_undelivered(last, due, now)).then_some(due))
}

/// Whether the digest that was due at `due`, more than an hour ago, is not done. `last` is the due time of
/// the last completed digest.
fn is_undelivered(last: Timestamp, due: Timestamp, now: Timestamp) -> bool {
    last < due && now.duration_since(due) > SignedDuration::from_hours(1)
}

pub(super) struct Maintenance {
    pub options: MaintenanceOptions,
    pub place: DatabaseUrl,
    pub store: Store,
    pub channels: Vec<(String, Rc<Channel>)>,
    /// Notified when a submission has been encrypted.
    pub sealed: Rc<Notify>,
    /// The number of panics that digests have reported since the process started.
    pub reported_panics: Rc<Cell<u64>>,
}

impl Maintenance {
    /// Runs maintenance at once, every [`INTERVAL`] and when the digest is due, until the caller drops the
    /// future. In between, sends other notifications when they are due, and truncates the database's log soon
    /// after a submission is sealed. Retention waits for a reliable clock ([`ClockCheck`]). Errors are only
    /// logged.
    pub async fn run(&self) {
        let options = &self.options;
        // Truncate the write-ahead log at startup, because the previous process may not have truncated it.
        let mut log_is_stale = [options.retention, options.retention_held, options.retention_unconfirmed]
            .iter()
            .chain(options.form_retention.values())
            .any(Option::is_some)
            || options.recipient.is_some();
        self.warn_about_removed_channels().await;
        // Scanning the inbox is slow, so sealing a submission triggers only a truncation of the log, not a
        // full run.
        let mut run_at = Instant::now();
        let mut flood_at = Some(Instant::now());
        let (mut mail_limit_at, mut mail_limit_from) = (None, Instant::now());
        let mut clock = ClockCheck::default();
        let mut failure_log = FailureLog::default();
        let (mut flood_failure_log, mut limit_failure_log) = (FailureLog::default(), FailureLog::default());
        loop {
            let now = Timestamp::now();
            let is_time = Instant::now() >= run_at;
            let is_reliable = is_time && clock.runs_evenly(Instant::now(), now) && !is_before_build(now);
            match self.run_tasks(now, is_time, is_reliable, &mut log_is_stale).await {
                Ok(()) if failure_log.record_success() => tracing::info!("inbox maintenance succeeds again"),
                Err(error) if failure_log.record_failure() => {
                    tracing::warn!(%error, "inbox maintenance failed: retention, encryption and the digest may be late; will retry within 15 minutes");
                }
                _ => {}
            }
            if flood_at.is_some_and(|at| Instant::now() >= at) {
                let sent =
                    contain("flood notification", self.send_flood_notification(now, &mut flood_failure_log));
                let retry = match sent.await {
                    Ok(retry) => retry,
                    Err(error) => {
                        if flood_failure_log.record_failure() {
                            tracing::warn!(%error, "could not read or record in the inbox whether forms are being flooded; the notification may be late or repeated; will retry every minute");
                        }
                        Some(NOTIFICATION_RETRY)
                    }
                };
                flood_at = retry.map(|wait| Instant::now() + wait);
            }
            let is_limit_due = mail_limit_at.is_some_and(|at| Instant::now() >= at);
            if is_time || is_limit_due {
                let sent = self.send_mail_limit_notification(now, &mut limit_failure_log).await;
                let is_done = sent.unwrap_or_else(|error| {
                    if limit_failure_log.record_failure() {
                        tracing::warn!(%error, "could not read or record in the inbox whether mails to visitors have reached their limit; the notification to the team may be late or repeated; will retry every minute");
                    }
                    false
                });
                mail_limit_at = (!is_done).then(|| Instant::now() + NOTIFICATION_RETRY);
            }
            if is_limit_due {
                // Each mail that the limit blocks wakes this loop: check the database at most once a minute.
                mail_limit_from = Instant::now() + NOTIFICATION_RETRY;
            }
            if is_time {
                run_at = Instant::now() + time_to_next_run(options.digest_at, Timestamp::now());
            }
            let wake_at = if log_is_stale { run_at.min(Instant::now() + TRUNCATE_DELAY) } else { run_at };
            let wake_at = [flood_at, mail_limit_at].into_iter().flatten().fold(wake_at, Instant::min);
            tokio::select! {
                () = tokio::time::sleep_until(wake_at.into()) => {}
                // A flood notification that is already scheduled will include this flood.
                () = self.store.events().flooded.notified(), if flood_at.is_none() => flood_at = Some(Instant::now()),
                () = self.store.events().mails_limited.notified(), if mail_limit_at.is_none() => mail_limit_at = Some(mail_limit_from.max(Instant::now())),
                () = self.sealed.notified() => {
                    log_is_stale = true;
                    // Wait, so that submissions encrypted at about the same time need only one truncation.
                    tokio::time::sleep(TRUNCATE_DELAY).await;
                }
            }
        }
    }

    /// Runs the periodic tasks if `is_time`, and retention if the clock `is_reliable`. Truncates the
    /// database's log if a task removed or sealed something or `log_is_stale` is set, and clears
    /// `log_is_stale` if that succeeds. Returns at the first error: the remaining tasks wait for the next
    /// run. A panic ends only its own task.
    async fn run_tasks(
        &self,
        now: Timestamp,
        is_time: bool,
        is_reliable: bool,
        log_is_stale: &mut bool,
    ) -> Result<(), StoreError> {
        let today = now.to_zoned(TimeZone::system()).date();
        if is_reliable {
            *log_is_stale |= contain("retention", self.remove_expired(now)).await? > 0;
            *log_is_stale |= contain("retention of held", self.remove_long_held(now)).await? > 0;
            *log_is_stale |= contain("retention of unconfirmed", self.remove_unconfirmed(now)).await? > 0;
            contain("page views", remove_old_view_counts(&self.store, today)).await?;
        }
        if is_time {
            *log_is_stale |= contain("encryption", self.seal_settled()).await? > 0;
            contain("refusals", remove_old_refusal_counts(&self.store, today)).await?;
            contain("visitor mails", self.tidy_visitor_mails(now)).await?;
            contain("canary", self.remove_abandoned_canaries(now)).await?;
        }
        if *log_is_stale {
            *log_is_stale = !self.store.truncate_wal().await?;
        }
        if is_time {
            contain("digest", self.send_digest(now, is_reliable)).await?;
            contain("reminders", self.send_reminders(now, is_reliable)).await?;
        }
        Ok(())
    }

    /// Reads the inbox on a blocking thread, so that a slow database does not delay deliveries. Returns the
    /// default value if the inbox does not exist yet, and [`StoreError::Panicked`] if the query panics.
    async fn query_inbox<T: Default + Send + 'static>(
        &self,
        query: impl FnOnce(&InboxReader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let place = self.place.clone();
        match tokio::task::spawn_blocking(move || query(&InboxReader::open(&place)?)).await {
            Ok(Err(StoreError::Missing(_))) => Ok(T::default()),
            result => result.unwrap_or_else(|_| {
                Err(StoreError::Panicked("a defect in frontdesk ended a query of the inbox".to_owned()))
            }),
        }
    }

    /// Logs a warning for each channel to the team that is no longer configured but has waiting or held
    /// deliveries. Does nothing if the inbox cannot be read.
    async fn warn_about_removed_channels(&self) {
        let Ok(mut removed) = self.query_inbox(InboxReader::channels).await else { return };
        removed.retain(|known| {
            !is_visitor_channel(&known.name) && !self.channels.iter().any(|(name, _)| *name == known.name)
        });
        for channel in removed {
            let waiting = channel.count(DeliveryState::Waiting) + channel.count(DeliveryState::Held);
            if waiting > 0 {
                tracing::warn!(
                    channel = channel.name,
                    waiting,
                    "deliveries are waiting for a channel that is no longer configured; they resume once a `[[channel]]` has this name again"
                );
            }
        }
    }

    /// Removes submissions that are older than the retention of their form or, if the form has none of its
    /// own, than `store.retention`. Returns their number. Keeps held ones and those with unfinished or parked
    /// deliveries to the team. Leaves those that another process has locked for the next run.
    async fn remove_expired(&self, now: Timestamp) -> Result<usize, StoreError> {
        let MaintenanceOptions { retention, form_retention, .. } = &self.options;
        let others = FormScope::Except(form_retention.keys().cloned().collect());
        let own = form_retention.iter().map(|(form, age)| (FormScope::Only(form.clone()), *age));
        let mut total = 0;
        for (forms, age) in std::iter::once((others, *retention)).chain(own) {
            let Some(before) = age.and_then(|age| now.checked_sub(age).ok()) else { continue };
            // Each step continues after the id that the previous step returned; the last one returns none.
            let (mut removed, mut after) = (0, Some(Uuid::nil()));
            while let Some(last) = after {
                let scope = forms.clone();
                let expired = self.store.change(move |tx| tx.expire(before, &scope, last)).await?;
                removed += expired.removed;
                after = expired.after;
            }
            if removed > 0 {
                let key = match forms {
                    FormScope::Only(form) => format!("forms.{form}.retention"),
                    FormScope::Except(_) => "store.retention".to_owned(),
                };
                tracing::info!(removed, "removed submissions older than `{key}`");
            }
            total += removed;
        }
        Ok(total)
    }

    /// Removes submissions held for longer than `store.retention_held`, and returns their number. Keeps those
    /// that a flood holds, those that a visitor can still confirm, and those whose first mail is yet to be
    /// sent.
    async fn remove_long_held(&self, now: Timestamp) -> Result<usize, StoreError> {
        let before = self.options.retention_held.and_then(|age| now.checked_sub(age).ok());
        let Some(before) = before else { return Ok(0) };
        let mut removed = 0;
        while let more @ 1.. = self.store.change(move |tx| tx.expire_held(before, now)).await? {
            removed += more;
        }
        if removed > 0 {
            tracing::info!(removed, "removed submissions held for longer than `store.retention_held`");
        }
        Ok(removed)
    }

    /// Removes entries whose links expired more than `store.retention_unconfirmed` ago, and returns their
    /// number. Keeps those whose first mail is yet to be sent.
    async fn remove_unconfirmed(&self, now: Timestamp) -> Result<usize, StoreError> {
        let before = self.options.retention_unconfirmed.and_then(|age| now.checked_sub(age).ok());
        let Some(before) = before else { return Ok(0) };
        let mut removed = 0;
        while let more @ 1.. = self.store.change(move |tx| tx.expire_unconfirmed(before)).await? {
            removed += more;
        }
        if removed > 0 {
            tracing::info!(
                removed,
                "removed unconfirmed entries whose links expired more than `store.retention_unconfirmed` ago"
            );
        }
        Ok(removed)
    }

    /// Removes outdated records of mails to visitors, and mails that have waited for a day although no
    /// channel sends them any more. Also repairs times that were stored before the clock was set back. Uses
    /// transactions of limited size until none are left.
    async fn tidy_visitor_mails(&self, now: Timestamp) -> Result<(), StoreError> {
        let channels = self.store.channels.load_full();
        loop {
            let channels = channels.clone();
            if !self.store.change(move |tx| tx.tidy_visitor_mails(now, &channels)).await? {
                return Ok(());
            }
        }
    }

    /// Removes the test submissions of canary runs that never ended because their process ended first: those
    /// older than [`CANARY_LIFETIME`].
    async fn remove_abandoned_canaries(&self, now: Timestamp) -> Result<(), StoreError> {
        let before = now.saturating_sub(CANARY_LIFETIME).unwrap_or(Timestamp::MIN);
        self.store.change(move |tx| tx.remove_canaries(before)).await
    }

    /// Seals submissions that were not sealed right after their last delivery, because the process ended
    /// first or sealing was configured later. Also seals held submissions that no configured channel would
    /// deliver after their release. Returns the number of sealed submissions. Does nothing without a
    /// recipient, and skips rows that cannot be read.
    async fn seal_settled(&self) -> Result<usize, StoreError> {
        let Some(recipient) = &self.options.recipient else { return Ok(0) };
        let channels = self.store.channels.load_full();
        let (mut sealed, mut after) = (0, Some(Uuid::nil()));
        while let Some(last) = after {
            let channels = channels.clone();
            let (settled, next) =
                self.query_inbox(move |inbox| inbox.to_be_sealed(&channels, last, BATCH)).await?;
            for submission in settled {
                sealed += usize::from(seal_submission(&self.store, recipient, &submission).await?);
            }
            after = next;
        }
        Ok(sealed)
    }

    /// The time that is stored under `key`; `None` if there is none. Also `None` if it is more than `period`
    /// after `now` and the clock `is_reliable`: the clock was set back since, and a task must not wait until
    /// it shows that time again.
    async fn last_time(
        &self,
        key: &'static str,
        period: SignedDuration,
        now: Timestamp,
        is_reliable: bool,
    ) -> Result<Option<Timestamp>, StoreError> {
        let last = self.store.change(move |tx| tx.stored_time(key)).await?;
        Ok(last.filter(|last| !is_reliable || last.duration_since(now) <= period))
    }

    /// Sends the daily digest, if it is due and not empty, through the first channel that accepts it. The day
    /// counts as done also if there is nothing to send or no channel to send it, and if the inbox is new. If
    /// no channel accepts the digest, the next run tries again. Unless the clock `is_reliable`, a completed
    /// day in the future stays completed: the clock may be behind until it is synchronized after a start.
    async fn send_digest(&self, now: Timestamp, is_reliable: bool) -> Result<(), StoreError> {
        let Some(due) = self.options.digest_at.map(|at| last_due(now, at)) else { return Ok(()) };
        let done = || self.store.change(move |tx| tx.store_time(DIGEST_KEY, due));
        match self.last_time(DIGEST_KEY, DAY, now, is_reliable).await? {
            Some(last) if last >= due => return Ok(()),
            Some(_) => {}
            // The inbox is new, or the clock was set back: skip this digest, and start with the next one.
            None => return done().await,
        }
        let (at, min_free) = (self.place.clone(), self.options.min_free);
        let mut digest = self.query_inbox(move |inbox| Digest::read(inbox, &at, min_free, now)).await?;
        let panics = panics::total();
        digest.panics = panics.saturating_sub(self.reported_panics.get());
        if digest.is_empty() || self.channels.is_empty() {
            return done().await;
        }
        let notice = digest.notification(now);
        let order = digest.channels_to_try(self.channels.iter().map(|(name, _)| name.as_str()));
        if order.is_empty() {
            tracing::warn!(
                "the inbox needs attention, but every channel is switched off; see `frontdesk inbox digest`"
            );
            return done().await;
        }
        let find = |name| self.channels.iter().find(|(other, _)| other == name);
        if let Some(channel) = send_through_first_working(order.into_iter().filter_map(find), &notice).await {
            tracing::info!(channel, "sent the digest to the team");
            self.reported_panics.set(panics);
            return done().await;
        }
        tracing::warn!(
            "no channel accepted the digest of what needs attention in the inbox; will retry within 15 minutes"
        );
        Ok(())
    }

    /// Sends each user of the inbox the daily mail about due follow-ups and new submissions, in the first run
    /// after it is due. Replicas send it only once. Sends none if there is nothing to say. If the mail server
    /// fails, later runs try again, until [`reminder::MAX_DELAY`] is over. After an error of the store, the
    /// remaining users wait for the next run. A mail is lost if the process is killed while it sends it.
    /// `is_reliable` is as for [`Self::send_digest`].
    async fn send_reminders(&self, now: Timestamp, is_reliable: bool) -> Result<(), StoreError> {
        let Some(options) = &self.options.reminders else { return Ok(()) };
        let now = daily_user_reminder::local(now);
        let Some(due) = daily_user_reminder::due_at(&now, options.at) else { return Ok(()) };
        for user in &options.users {
            // The key of the claim contains a hash instead of the user's address.
            let key = format!("reminder {}", &blake3::hash(user.as_bytes()).to_hex()[..32]);
            let claim = key.clone();
            // Ignore a stored time that is later than this: it was stored before the clock was set back.
            let latest = if is_reliable { now.timestamp().saturating_add(DAY) } else { Ok(Timestamp::MAX) };
            let latest = latest.unwrap_or(Timestamp::MAX);
            // `advance_time` returns false if today's mail is done, or if another replica has claimed it.
            if !self.store.change(move |tx| tx.advance_time(&claim, due, latest)).await? {
                continue;
            }
            let (name, at) = (user.clone(), now.clone());
            let read = self.query_inbox(move |inbox| Reminder::read(inbox, &name, &at)).await;
            let failure = match &read {
                Ok(reminder) if reminder.is_empty() => None,
                Ok(reminder) => {
                    let sent = daily_user_reminder::send(options, user, reminder, due);
                    match tokio::time::timeout(LONGEST_ATTEMPT, sent).await {
                        Ok(outcome) if outcome.has_reached_anyone() => None,
                        Ok(Outcome::Failed(failure)) => Some(failure.cause.to_string()),
                        Ok(_) => Some("no recipient".to_owned()),
                        Err(_) => Some("no reply in time".to_owned()),
                    }
                }
                Err(error) => Some(error.to_string()),
            };
            if let Some(cause) = failure {
                tracing::warn!(
                    cause,
                    "could not prepare or send the daily mail to a user of the inbox; will retry for up to 4 hours"
                );
                let before = due.saturating_sub(SignedDuration::from_secs(1)).unwrap_or(due);
                self.store.change(move |tx| tx.store_time(&key, before)).await?;
            }
            read?;
        }
        Ok(())
    }

    /// Notifies the team, at most once an hour, that submissions are being held because of a flood. Without
    /// channels, the notification counts as sent. Returns the time until the next check; `None` if there is
    /// no flood.
    async fn send_flood_notification(
        &self,
        now: Timestamp,
        failure_log: &mut FailureLog,
    ) -> Result<Option<Duration>, StoreError> {
        let floods = self.query_inbox(InboxReader::floods).await?;
        if floods.is_empty() {
            failure_log.record_success();
            return Ok(None);
        }
        // A repeated notification is better than a missed one.
        let last = self.last_time(FLOOD_KEY, FLOOD_INTERVAL, now, true).await?;
        let wait = last.map_or(SignedDuration::ZERO, |last| last.duration_since(now) + FLOOD_INTERVAL);
        if let Some(wait) = Duration::try_from(wait).ok().filter(|wait| !wait.is_zero()) {
            return Ok(Some(wait));
        }
        let forms: Vec<&str> = floods.iter().map(|flood| flood.form.as_str()).collect();
        let held: usize = floods.iter().map(|flood| flood.held).sum();
        if !failure_log.is_failing() {
            tracing::warn!(
                forms = forms.join(", "),
                held,
                "form quota exceeded: submissions from networks that have sent several are held until the flood ends"
            );
        }
        let notice = problem_digest::flood_notification(&floods, now);
        let channel = send_through_first_working(&self.channels, &notice).await;
        if let Some(channel) = channel {
            tracing::info!(
                channel,
                forms = forms.join(", "),
                "notified the team that forms are being flooded"
            );
        }
        if channel.is_some() || self.channels.is_empty() {
            self.store.change(move |tx| tx.store_time(FLOOD_KEY, now)).await?;
            failure_log.record_success();
            return Ok(Some(FLOOD_INTERVAL.unsigned_abs()));
        }
        if failure_log.record_failure() {
            tracing::warn!(
                forms = forms.join(", "),
                "no channel accepted the notification that forms are being flooded; will retry every minute"
            );
        }
        Ok(Some(NOTIFICATION_RETRY))
    }

    /// Notifies the team, once per episode, that mails to visitors have reached the limit for all of them.
    /// Ignores an episode that began a day or more ago, or more than a day in the future. Returns false if no
    /// channel has accepted the notification. Without channels, the notification counts as sent.
    async fn send_mail_limit_notification(
        &self,
        now: Timestamp,
        failure_log: &mut FailureLog,
    ) -> Result<bool, StoreError> {
        let Some(since) = self.store.change(move |tx| tx.unannounced_mail_limit(now)).await? else {
            failure_log.record_success();
            return Ok(true);
        };
        if !self.channels.is_empty() {
            let notice = problem_digest::mail_limit_notification(since, now);
            let Some(channel) = send_through_first_working(&self.channels, &notice).await else {
                if failure_log.record_failure() {
                    tracing::warn!(
                        "no channel accepted the notification that mails to visitors have reached their limit; will retry every minute"
                    );
                }
                return Ok(false);
            };
            tracing::info!(channel, "notified the team that mails to visitors have reached their limit");
        }
        self.store.change(move |tx| tx.record_mail_limit_notice(since)).await?;
        failure_log.record_success();
        Ok(true)
    }
}

/// Compares the system clock with the monotonic clock, so that no submissions expire and no mails are
/// repeated because the system clock was set by mistake or has not been synchronized yet.
#[derive(Debug, Default)]
struct ClockCheck {
    /// The monotonic time and the system time at the last call.
    last: Option<(Instant, Timestamp)>,
    /// The start of the current period in which both clocks have advanced at the same rate.
    even_since: Option<Instant>,
}

impl ClockCheck {
    /// Whether both clocks have advanced by the same amount for at least [`INTERVAL`], to within a minute
    /// from call to call. The first call returns false.
    fn runs_evenly(&mut self, instant: Instant, now: Timestamp) -> bool {
        let is_even = self.last.replace((instant, now)).is_some_and(|(earlier, then)| {
            let expected = then + instant.saturating_duration_since(earlier);
            now.duration_since(expected).abs() < SignedDuration::from_mins(1)
        });
        let since = self.even_since.filter(|_| is_even).unwrap_or(instant);
        self.even_since = Some(since);
        instant.saturating_duration_since(since) >= INTERVAL
    }
}

/// Whether the clock shows a time before this release was built, and so is wrong.
fn is_before_build(now: Timestamp) -> bool {
    BUILT_AT.and_then(|at| at.parse().ok()).is_some_and(|built_at: i64| now.as_second() < built_at)
}

/// Returns [`INTERVAL`], or the time until the next digest if that is shorter, but at least a second.
fn time_to_next_run(digest_at: Option<Time>, now: Timestamp) -> Duration {
    let Some(at) = digest_at else { return INTERVAL };
    let next = last_due(now, at) + Duration::from_hours(24);
    Duration::try_from(next.duration_since(now)).unwrap_or_default().clamp(Duration::from_secs(1), INTERVAL)
}

/// Removes the counts of refused requests that are older than [`REFUSAL_DAYS`], until none are left.
async fn remove_old_refusal_counts(store: &Store, today: Date) -> Result<(), StoreError> {
    let before = today.saturating_sub((REFUSAL_DAYS - 1).days());
    while store.change(move |tx| tx.forget_refusals(before, BATCH)).await? == BATCH {}
    Ok(())
}

/// Removes the counts of page views that are older than [`VIEW_DAYS`], until none are left.
async fn remove_old_view_counts(store: &Store, today: Date) -> Result<(), StoreError> {
    let before = today.saturating_sub((VIEW_DAYS - 1).days());
    while store.change(move |tx| tx.forget_page_views(before, BATCH)).await? == BATCH {}
    Ok(())
}

/// Replaces a submission's fields and the source of the lead with their encrypted copy. Returns false and
/// changes nothing if the submission is already encrypted, not processed or removed, or if a channel still
/// has to deliver it.
pub(super) async fn seal_submission(
    store: &Store,
    recipient: &Recipient,
    submission: &Submission,
) -> Result<bool, StoreError> {
    let sealed = recipient.encrypt(submission.plain_text().as_bytes()).map_err(|_| StoreError::NotSealed)?;
    let (id, channels) = (submission.id, store.channels.load_full());
    store.change(move |tx| tx.seal(id, &sealed, &channels)).await
}

/// Runs a task of maintenance. A panic is logged, ends only this task and results in the default value; the
/// next run repeats the task.
fn contain<T: Default>(
    task: &'static str,
    work: impl Future<Output = Result<T, StoreError>>,
) -> impl Future<Output = Result<T, StoreError>> {
    let work = panics::catch_async(Part::Maintenance, async move {
        panics::inject("maintenance", task);
        work.await
    });
    async move {
        work.await.unwrap_or_else(|panic| {
            tracing::error!(task, "{panic} ended a task of the inbox's maintenance; the next run repeats it");
            Ok(T::default())
        })
    }
}

/// Sends a notification through the first channel that accepts it for at least one recipient. Returns that
/// channel's name, or `None` if no channel accepts it. Waits up to [`LONGEST_ATTEMPT`] for each channel.
async fn send_through_first_working<'a>(
    channels: impl IntoIterator<Item = &'a (String, Rc<Channel>)>,
    notice: &Notification,
) -> Option<&'a str> {
    for (name, channel) in channels {
        let sent = tokio::time::timeout(LONGEST_ATTEMPT, channel.send(notice)).await;
        if sent.is_ok_and(|outcome| outcome.has_reached_anyone()) {
            return Some(name);
        }
    }
    None
}

#[cfg(test)]
mod tests;
