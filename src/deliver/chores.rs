//! Maintenance of an inbox: removes expired submissions, encrypts delivered ones, sends the team a daily digest, and notifies the team
//! of a flood at once.

use std::rc::Rc;
use std::time::{Duration, Instant};

use jiff::civil::Time;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use uuid::Uuid;

use super::channel::Channel;
use super::digest::{self, Digest, last_due};
use super::notice::Notice;
use crate::store::disk::MinFree;
use crate::store::{Place, Reader, Store, StoreError};
use crate::submission::Submission;
use crate::submission::delivery::State;
use crate::submission::outcome::{LONGEST_ATTEMPT, Outcome};
use crate::submission::seal::Recipient;

/// How often it is looked whether something is to be done.
const EVERY: Duration = Duration::from_mins(15);
/// After something was sealed, how long until the log is cut off, in which it still stands.
const SOON: Duration = Duration::from_secs(2);
/// How many submissions are read to be sealed, and how many rows about refused sources one transaction removes, at most.
const AT_A_TIME: usize = 200;
/// For how long it is known who was refused, today included.
const PRESSURE_DAYS: u32 = 30;
/// Under which the inbox remembers when the last digest was due.
const DIGEST: &str = "digest";
/// The key under which the inbox stores when the last flood notice was sent.
const FLOOD: &str = "flood";
/// The shortest time between two notices of floods.
const FLOOD_EVERY: Duration = Duration::from_hours(1);
/// How long to wait before a flood notice is retried if no channel accepted it.
const FLOOD_AGAIN: Duration = Duration::from_mins(1);

/// What is to be done.
#[derive(Clone, Debug, Default)]
pub struct Housekeeping {
    /// For how long submissions are kept; for ever, if there is nothing here.
    pub retention: Option<Duration>,
    /// For how long a submission stays held before it is removed; for ever, if there is nothing here.
    pub retention_held: Option<Duration>,
    /// At which time of the day, in UTC, the team is told what needs attention; never, if there is nothing here.
    pub digest_at: Option<Time>,
    /// The reserve of free space (`store.min_free`). The digest warns when less than twice the reserve is free.
    pub min_free: MinFree,
    /// Who alone is to be able to read submissions with which nothing is to be done any more.
    pub recipient: Option<Recipient>,
}

/// Does it, for as long as it is polled.
pub(super) async fn run(
    housekeeping: Housekeeping,
    place: Place,
    store: Store,
    channels: Vec<(String, Rc<Channel>)>,
    sealed: Rc<Notify>,
) {
    let something_goes = housekeeping.recipient.is_some()
        || housekeeping.retention.is_some()
        || housekeeping.retention_held.is_some();
    // Something may have been sealed or removed just before the last process ended.
    let mut log_is_stale = something_goes;
    name_orphans(&place, &channels).await;
    // Looking through the inbox takes its time: what is sealed meanwhile only has the log cut off.
    let mut look_at = Instant::now();
    let mut flood_at = Some(Instant::now());
    let mut clock = Clock::default();
    loop {
        let now = Timestamp::now();
        let is_time = Instant::now() >= look_at;
        let done = async {
            if is_time && clock.runs_evenly(Instant::now(), now) {
                log_is_stale |= remove_expired(&housekeeping, &store, now).await? > 0;
                log_is_stale |= remove_held(&housekeeping, &store, now).await? > 0;
            }
            if is_time {
                log_is_stale |= seal_settled(&housekeeping, &place, &store).await? > 0;
                forget_pressure(&store, now).await?;
            }
            if log_is_stale {
                log_is_stale = !store.empty_log().await?;
            }
            if is_time {
                tell_digest(&housekeeping, &place, &store, &channels, now).await?;
            }
            Ok::<(), StoreError>(())
        };
        if let Err(error) = done.await {
            tracing::warn!(%error, "the inbox could not be looked after; it is tried again");
        }
        if flood_at.is_some_and(|at| Instant::now() >= at) {
            let told = tell_flood(&place, &store, &channels, now).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "sending the flood notice failed; will retry");
                Some(FLOOD_AGAIN)
            });
            flood_at = told.map(|wait| Instant::now() + wait);
        }
        if is_time {
            look_at = Instant::now() + pause(&housekeeping, Timestamp::now());
        }
        let wake_at = if log_is_stale { look_at.min(Instant::now() + SOON) } else { look_at };
        let wake_at = flood_at.map_or(wake_at, |at| wake_at.min(at));
        tokio::select! {
            () = tokio::time::sleep_until(wake_at.into()) => {}
            // If a notice is already scheduled, it will cover this flood.
            () = store.flooded(), if flood_at.is_none() => flood_at = Some(Instant::now()),
            () = sealed.notified() => {
                log_is_stale = true;
                // Others will follow.
                tokio::time::sleep(SOON).await;
            }
        }
    }
}

/// Compares the system's clock with the monotonic clock. A clock that is set forward by mistake, or is wrong until the network corrects
/// it, must not expire submissions.
#[derive(Debug, Default)]
struct Clock {
    last: Option<(Instant, Timestamp)>,
}

impl Clock {
    /// Whether both clocks have advanced by the same time since the last call, give or take a minute. False at the first call.
    fn runs_evenly(&mut self, instant: Instant, now: Timestamp) -> bool {
        self.last.replace((instant, now)).is_some_and(|(earlier, then)| {
            let expected = then + instant.saturating_duration_since(earlier);
            now.duration_since(expected).abs() < SignedDuration::from_mins(1)
        })
    }
}

/// Asks the inbox on a thread that may wait: a server may take its time, and what is being sent must not wait for that.
async fn read<T: Send + 'static>(
    place: &Place,
    ask: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let place = place.clone();
    let asked = tokio::task::spawn_blocking(move || ask(&Reader::open(&place)?)).await;
    asked.unwrap_or(Err(StoreError::Closed))
}

/// Says which deliveries wait for a channel that is configured no more: nobody will ever make them.
async fn name_orphans(place: &Place, channels: &[(String, Rc<Channel>)]) {
    let Ok(known) = read(place, Reader::channels).await else { return };
    for channel in known.iter().filter(|known| !channels.iter().any(|(name, _)| *name == known.name)) {
        let waiting = channel.count(State::Waiting) + channel.count(State::Held);
        if waiting > 0 {
            tracing::warn!(
                channel = channel.name,
                waiting,
                "deliveries wait for a channel that is not configured any more"
            );
        }
    }
}

/// Until the next digest is due, or a while.
fn pause(housekeeping: &Housekeeping, now: Timestamp) -> Duration {
    let Some(at) = housekeeping.digest_at else { return EVERY };
    let next = last_due(now, at) + Duration::from_hours(24);
    Duration::try_from(next.duration_since(now)).unwrap_or_default().clamp(Duration::from_secs(1), EVERY)
}

async fn remove_expired(
    housekeeping: &Housekeeping,
    store: &Store,
    now: Timestamp,
) -> Result<usize, StoreError> {
    let Some(before) = housekeeping.retention.and_then(|retention| now.checked_sub(retention).ok()) else {
        return Ok(0);
    };
    let (mut removed, mut after) = (0, Some(Uuid::nil()));
    while let Some(last) = after {
        let expired = store.expire(before, last).await?;
        removed += expired.removed;
        after = expired.after;
    }
    if removed > 0 {
        tracing::info!(removed, "submissions that are older than `store.retention` are removed");
    }
    Ok(removed)
}

/// Removes what has been held for too long, and returns how many submissions those are.
async fn remove_held(
    housekeeping: &Housekeeping,
    store: &Store,
    now: Timestamp,
) -> Result<usize, StoreError> {
    let Some(before) = housekeeping.retention_held.and_then(|retention| now.checked_sub(retention).ok())
    else {
        return Ok(0);
    };
    let mut removed = 0;
    loop {
        let more = store.expire_held(before).await?;
        if more == 0 {
            break;
        }
        removed += more;
    }
    if removed > 0 {
        tracing::info!(
            removed,
            "submissions that were held for longer than `store.retention_held` are removed"
        );
    }
    Ok(removed)
}

/// Who pressed the door long ago is nobody's concern any more.
async fn forget_pressure(store: &Store, now: Timestamp) -> Result<(), StoreError> {
    let Ok(before) = now.checked_sub(Duration::from_hours(24) * (PRESSURE_DAYS - 1)) else {
        return Ok(());
    };
    while store.forget_pressure(before, AT_A_TIME).await? == AT_A_TIME {}
    Ok(())
}

/// Seals what was not sealed when it was delivered: because the process ended just then, nobody had asked for it yet, or it is held and
/// no configured channel has to deliver it after its release.
async fn seal_settled(
    housekeeping: &Housekeeping,
    place: &Place,
    store: &Store,
) -> Result<usize, StoreError> {
    let Some(recipient) = &housekeeping.recipient else { return Ok(0) };
    let channels = store.channels();
    let mut sealed = 0;
    loop {
        let channels = channels.clone();
        let settled = match read(place, move |inbox| inbox.to_be_sealed(&channels, AT_A_TIME)).await {
            Ok(settled) => settled,
            Err(StoreError::Missing(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        let count = settled.len();
        let before = sealed;
        for submission in settled {
            sealed += usize::from(seal(store, recipient, &submission).await?);
        }
        if count < AT_A_TIME || sealed == before {
            return Ok(sealed);
        }
    }
}

/// Makes a submission with which nothing is to be done any more readable for its recipient alone.
pub(super) async fn seal(
    store: &Store,
    recipient: &Recipient,
    submission: &Submission,
) -> Result<bool, StoreError> {
    let sealed = recipient.seal(submission.fields_json().as_bytes()).map_err(|_| StoreError::NotSealed)?;
    store.seal(submission.id, sealed).await
}

/// Tells the team what needs attention, if it is time and there is something to tell, over the first channel that takes it.
async fn tell_digest(
    housekeeping: &Housekeeping,
    place: &Place,
    store: &Store,
    channels: &[(String, Rc<Channel>)],
    now: Timestamp,
) -> Result<(), StoreError> {
    let Some(due) = housekeeping.digest_at.map(|at| last_due(now, at)) else { return Ok(()) };
    match store.remembered(DIGEST).await? {
        Some(last) if last >= due => return Ok(()),
        // A clock that was set back, or an inbox that is new: the next one is the first.
        Some(last) if last > now => return store.remember(DIGEST, due).await,
        None => return store.remember(DIGEST, due).await,
        Some(_) => {}
    }
    let (at, min_free) = (place.clone(), housekeeping.min_free);
    let digest = read(place, move |inbox| Digest::read(inbox, &at, min_free, now)).await?;
    if digest.is_empty() || channels.is_empty() {
        return store.remember(DIGEST, due).await;
    }
    let notice = digest.notice(now);
    let order = digest.order(channels.iter().map(|(name, _)| name.as_str()));
    if order.is_empty() {
        tracing::warn!(
            "something in the inbox needs attention, and every channel is switched off: `frontdesk inbox digest` tells"
        );
        return store.remember(DIGEST, due).await;
    }
    let in_order = order.into_iter().filter_map(|name| channels.iter().find(|(other, _)| other == name));
    if let Some(channel) = send_to_one(in_order, &notice).await {
        tracing::info!(channel, "sent the digest to the team");
        return store.remember(DIGEST, due).await;
    }
    tracing::warn!("digest not accepted by any channel; will retry");
    Ok(())
}

/// Sends a notice to the first channel that accepts it, and returns that channel's name.
async fn send_to_one<'a>(
    channels: impl IntoIterator<Item = &'a (String, Rc<Channel>)>,
    notice: &Notice,
) -> Option<&'a str> {
    for (name, channel) in channels {
        let sent = tokio::time::timeout(LONGEST_ATTEMPT, channel.send(notice)).await;
        if matches!(sent, Ok(Outcome::Delivered(_))) {
            return Some(name);
        }
    }
    None
}

/// Sends the team a notice while submissions are held because of a flood, at most one an hour. Returns the time until the next check;
/// none while no submission is held because of a flood.
async fn tell_flood(
    place: &Place,
    store: &Store,
    channels: &[(String, Rc<Channel>)],
    now: Timestamp,
) -> Result<Option<Duration>, StoreError> {
    let floods = match read(place, Reader::floods).await {
        Ok(floods) => floods,
        Err(StoreError::Missing(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    if floods.is_empty() {
        return Ok(None);
    }
    // Ignore a time in the future: the clock has been set back since.
    let last = store.remembered(FLOOD).await?.filter(|last| *last <= now);
    let since = last.and_then(|last| Duration::try_from(now.duration_since(last)).ok());
    if let Some(wait) = since.and_then(|since| FLOOD_EVERY.checked_sub(since)).filter(|wait| !wait.is_zero())
    {
        return Ok(Some(wait));
    }
    let forms: Vec<&str> = floods.iter().map(|flood| flood.form.as_str()).collect();
    let held: usize = floods.iter().map(|flood| flood.held).sum();
    tracing::warn!(
        forms = forms.join(", "),
        held,
        "form quota exceeded: submissions of busy networks are held until the flood ends"
    );
    let notice = digest::flood_notice(&floods, now);
    if let Some(channel) = send_to_one(channels, &notice).await {
        tracing::info!(channel, "sent the flood notice to the team");
        store.remember(FLOOD, now).await?;
        return Ok(Some(FLOOD_EVERY));
    }
    if channels.is_empty() {
        store.remember(FLOOD, now).await?;
        return Ok(Some(FLOOD_EVERY));
    }
    tracing::warn!("flood notice not accepted by any channel; will retry");
    Ok(Some(FLOOD_AGAIN))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;
    use crate::deliver::{Kind, Options as ChannelOptions, maildir};
    use crate::forms::{CONTACT, parse};
    use crate::limits::Source;
    use crate::limits::pressure::Refused;
    use crate::screening::{Evidence, Signal, Verdict};
    use crate::store::{self, Arrival};
    use crate::submission::delivery::{Route, Target};

    #[test]
    fn the_team_is_told_once_a_day_over_a_channel_that_works() {
        let folder = TempDir::new().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = store::Options::at(folder.path().join("inbox.db"));
        let store = Store::open(&options).unwrap();
        // In the place of this one's Maildir stands something else.
        std::fs::write(folder.path().join("broken"), "").unwrap();
        let channels: Vec<_> =
            ["off", "broken", "well"].map(|name| (name.to_owned(), open(&folder.path().join(name)))).into();
        let housekeeping =
            Housekeeping { digest_at: Some(Time::constant(7, 0, 0, 0)), ..Housekeeping::default() };
        let tell = |now: &str| {
            let now = now.parse().unwrap();
            runtime.block_on(tell_digest(&housekeeping, &options.place, &store, &channels, now)).unwrap();
            ["off", "well"].map(|name| mails(&folder.path().join(name)).len())
        };
        hold(&runtime, &store, "sesame", "2026-11-20T05:00:00Z");
        let gone = Target { name: "off".to_owned(), leads_to: String::new() };
        runtime.block_on(store.switch_off(gone, "410".to_owned(), Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(
            tell("2026-11-20T06:00:00Z"),
            [0, 0],
            "an inbox that is new has told nobody anything to be repeated"
        );
        assert_eq!(tell("2026-11-20T07:00:00Z"), [0, 1]);
        assert_eq!(tell("2026-11-20T23:59:00Z"), [0, 1], "once a day");
        assert_eq!(tell("2026-11-22T12:00:00Z"), [0, 2], "a day that was missed is not made up for");
        let mail = &mails(&folder.path().join("well"))[0];
        assert!(mail.contains("1 submission is held") && mail.contains("switched off"), "{mail}");
        assert!(!mail.contains("sesame") && !mail.contains("ada@example.com"), "{mail}");
    }

    #[test]
    fn nothing_expires_at_the_start_or_after_the_clock_was_set() {
        let (instant, now) = (Instant::now(), Timestamp::UNIX_EPOCH);
        let mut clock = Clock::default();
        let mut at = |passed, told| {
            clock.runs_evenly(instant + Duration::from_mins(passed), now + Duration::from_mins(told))
        };
        assert!(!at(0, 0), "the start");
        assert!(at(15, 15));
        assert!(!at(30, 1000), "set forward");
        assert!(at(45, 1015), "it has run evenly since");
        assert!(!at(60, 60), "set back");
    }

    #[test]
    fn held_submissions_expire_only_where_the_operator_wants_that() {
        let folder = TempDir::new().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let options = store::Options::at(folder.path().join("inbox.db"));
        let store = Store::open(&options).unwrap();
        let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
        // More than one transaction removes.
        for n in 0..=AT_A_TIME {
            hold(&runtime, &store, &n.to_string(), "2026-10-21T11:59:59Z");
        }
        hold(&runtime, &store, "not yet", "2026-10-21T12:00:00Z");
        let remove = |retention, retention_held| {
            let housekeeping = Housekeeping { retention, retention_held, ..Housekeeping::default() };
            let removed = runtime.block_on(async {
                remove_expired(&housekeeping, &store, now).await.unwrap()
                    + remove_held(&housekeeping, &store, now).await.unwrap()
            });
            (removed, Reader::open(&options.place).unwrap().queue().unwrap().held)
        };
        let days = |days: u64| Some(Duration::from_hours(24 * days));
        assert_eq!(remove(None, None), (0, AT_A_TIME + 2));
        assert_eq!(remove(days(1), None), (0, AT_A_TIME + 2), "the other retention is not about them");
        assert_eq!(remove(None, days(30)), (AT_A_TIME + 1, 1));
        assert_eq!(remove(None, days(30)), (0, 1));
    }

    #[test]
    fn a_held_submission_is_sealed_unless_a_channel_could_deliver_it() {
        let folder = TempDir::new().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut options = store::Options::at(folder.path().join("inbox.db"));
        options.channels = vec![Route::new("box")];
        let store = Store::open(&options).unwrap();
        hold(&runtime, &store, "sesame", "2026-11-20T05:00:00Z");
        let recipient =
            Recipient::parse("age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p").unwrap();
        let housekeeping = Housekeeping { recipient: Some(recipient), ..Housekeeping::default() };
        let seal = |channels: Vec<Route>| {
            store.reconfigure(&store::Options { channels, ..options.clone() });
            runtime.block_on(seal_settled(&housekeeping, &options.place, &store)).unwrap()
        };
        assert_eq!(seal(options.channels.clone()), 0);
        // After a release, the channel with the new name would deliver it.
        assert_eq!(seal(vec![Route::new("renamed")]), 0);
        let other_form = Route { forms: vec!["waitlist".to_owned()], ..Route::new("other") };
        assert_eq!(seal(vec![other_form]), 1);
        assert_eq!(seal(Vec::new()), 0);
        let held = Reader::open(&options.place).unwrap().list(&store::Filter::default()).unwrap().next();
        assert!(held.is_some_and(|held| held.unwrap().sealed.is_some()));
    }

    #[test]
    fn who_was_refused_is_known_for_thirty_days() {
        let folder = TempDir::new().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let options = store::Options::at(folder.path().join("inbox.db"));
        let store = Store::open(&options).unwrap();
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        for (at, sources) in
            [("2026-10-31T23:59:59Z", 500), ("2026-11-01T00:00:00Z", 2), ("2026-11-30T12:00:00Z", 3)]
        {
            let source = |n: u32| Some(Source::V4(n.to_be_bytes()));
            let refused = |n| Refused { source: source(n), form: "contact", count: 1 };
            runtime
                .block_on(store.pressed((0..sources).map(refused).collect(), at.parse().unwrap()))
                .unwrap();
        }
        let refused =
            || Reader::open(&options.place).unwrap().abuse(Timestamp::UNIX_EPOCH, 0).unwrap().refused;
        assert_eq!(refused(), 505);
        runtime.block_on(forget_pressure(&store, now)).unwrap();
        assert_eq!(refused(), 5);
    }

    #[test]
    fn it_sleeps_until_the_next_digest_but_not_for_long() {
        let at = |time: Option<Time>, now: &str| {
            let housekeeping = Housekeeping { digest_at: time, ..Housekeeping::default() };
            pause(&housekeeping, now.parse().unwrap())
        };
        let seven = Some(Time::constant(7, 0, 0, 0));
        assert_eq!(at(None, "2026-11-20T06:00:00Z"), EVERY);
        assert_eq!(at(seven, "2026-11-20T06:00:00Z"), EVERY);
        assert_eq!(at(seven, "2026-11-20T06:59:00Z"), Duration::from_mins(1));
        assert_eq!(at(seven, "2026-11-20T07:00:00Z"), EVERY);
    }

    /// Keeps a message as if screening had held it.
    fn hold(runtime: &tokio::runtime::Runtime, store: &Store, message: &str, received_at: &str) {
        let body = serde_json::json!({"message": message, "email": "ada@example.com", "name": "Ada"});
        let arrival = Arrival {
            entry: parse(&CONTACT, body.to_string().as_bytes()).unwrap(),
            idempotency_key: None,
            source: Source::V4([192, 0, 2, 1]),
            received_at: received_at.parse().unwrap(),
            evidence: Evidence::Verdict(Verdict::default()),
            agent: None,
        };
        runtime.block_on(store.keep(arrival.held_for(&[(Signal::Links, "4 links")]))).unwrap();
    }

    fn channel_options(name: &str, path: &Path) -> ChannelOptions {
        let options = maildir::Options {
            path: path.to_owned(),
            from: "desk@example.com".to_owned(),
            from_name: String::new(),
            to: vec!["team@example.com".to_owned()],
        };
        ChannelOptions {
            name: name.to_owned(),
            forms: Vec::new(),
            concurrency: 1,
            kind: Kind::Maildir(options),
        }
    }

    fn open(path: &Path) -> Rc<Channel> {
        Rc::new(Channel::open(&channel_options("", path).kind))
    }

    fn mails(maildir: &Path) -> Vec<String> {
        let Ok(files) = std::fs::read_dir(maildir.join("new")) else { return Vec::new() };
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
    }
}
