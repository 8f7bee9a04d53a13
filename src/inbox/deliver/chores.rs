//! What is to be done in an inbox beside deliveries: what is too old is removed, what is delivered is sealed, and once a day
//! the team is told what needs attention.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Time;

use super::channel::Channel;
use super::digest::{Digest, last_due};
use super::outcome::{LONGEST_ATTEMPT, Outcome};
use crate::inbox::seal::Recipient;
use crate::inbox::store::{Reader, Store, StoreError};
use crate::inbox::submission::Submission;

/// How often it is looked whether something is to be done.
const EVERY: Duration = Duration::from_mins(15);
/// How many submissions one transaction removes at most, so that it holds up nobody.
const AT_A_TIME: usize = 200;
/// Under which the inbox remembers when the last digest was due.
const DIGEST: &str = "digest";

/// What is to be done.
#[derive(Clone, Debug, Default)]
pub struct Housekeeping {
    /// For how long submissions are kept; for ever, if there is nothing here.
    pub retention: Option<Duration>,
    /// At which time of the day, in UTC, the team is told what needs attention; never, if there is nothing here.
    pub digest_at: Option<Time>,
    /// Who alone is to be able to read submissions with which nothing is to be done any more.
    pub recipient: Option<Recipient>,
}

/// Does it, for as long as it is polled.
pub(super) async fn run(
    housekeeping: Housekeeping,
    database: PathBuf,
    store: Store,
    channels: Vec<(String, Rc<Channel>)>,
) {
    loop {
        let now = Timestamp::now();
        let done = async {
            remove_expired(&housekeeping, &store, now).await?;
            seal_settled(&housekeeping, &database, &store).await?;
            tell_digest(&housekeeping, &database, &store, &channels, now).await
        };
        if let Err(error) = done.await {
            tracing::warn!(%error, "the inbox could not be looked after; it is tried again");
        }
        tokio::time::sleep(pause(&housekeeping, Timestamp::now())).await;
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
) -> Result<(), StoreError> {
    let Some(before) = housekeeping.retention.and_then(|retention| now.checked_sub(retention).ok()) else {
        return Ok(());
    };
    let mut removed = 0;
    loop {
        let more = store.expire(before, AT_A_TIME).await?;
        removed += more;
        if more < AT_A_TIME {
            break;
        }
    }
    if removed > 0 {
        tracing::info!(removed, "submissions that are older than `store.retention` are removed");
    }
    Ok(())
}

/// Seals what was not sealed when it was delivered: because the process ended just then, or nobody had asked for it yet.
async fn seal_settled(housekeeping: &Housekeeping, database: &Path, store: &Store) -> Result<(), StoreError> {
    let Some(recipient) = &housekeeping.recipient else { return Ok(()) };
    loop {
        let settled = Reader::open(database)?.to_be_sealed(AT_A_TIME)?;
        let count = settled.len();
        for submission in settled {
            seal(store, recipient, &submission).await?;
        }
        if count < AT_A_TIME {
            return Ok(());
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
    database: &Path,
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
    let digest = Digest::read(&Reader::open(database)?)?;
    if digest.is_empty() || channels.is_empty() {
        return store.remember(DIGEST, due).await;
    }
    let notice = digest.notice(now);
    for name in digest.order(channels.iter().map(|(name, _)| name.as_str())) {
        let Some((_, channel)) = channels.iter().find(|(other, _)| other == name) else { continue };
        let sent = tokio::time::timeout(LONGEST_ATTEMPT, channel.send(&notice)).await;
        if matches!(sent, Ok(Outcome::Delivered(_))) {
            tracing::info!(channel = name, "the team is told what needs attention");
            return store.remember(DIGEST, due).await;
        }
    }
    tracing::warn!("no channel takes the word that something needs attention; it is tried again");
    Ok(())
}
