//! Live lists: sends an event to open pages when the list may have changed (Server-Sent Events).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, watch};

use super::auth::InboxUser;
use super::response_body::{ChunkSender, DeskBody, StreamChunk, stream};
use super::state::DeskState;
use frontdesk_inbox::store::notifier::notify_on_change;
use frontdesk_inbox::store::{DatabaseUrl, InboxReader};

/// After a change, further changes are collected for this long and reported in one event.
const COLLECT: Duration = Duration::from_millis(250);
/// How often a stream without events sends a comment, so that a closed connection is noticed.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// How long a stream lasts. The browser then reconnects, and the server checks its session again.
const MAX_STREAM_TIME: Duration = Duration::from_mins(10);

/// Watches the inbox for changes by any process, as long as the runtime lives. Announces a new version if a
/// list may have changed ([`InboxReader::list_stamp`]) and a page is open. Skips a change after which the
/// inbox cannot be read. If the inbox cannot be watched, logs a warning and returns.
pub(super) async fn watch_list(inbox: Arc<DeskState>, database: DatabaseUrl) {
    let changed = Arc::new(Notify::new());
    if let Err(error) = notify_on_change(&database, &changed) {
        tracing::warn!(%error, "cannot watch the inbox; its pages are not updated live until the server is restarted");
        return;
    }
    let mut last = None;
    loop {
        changed.notified().await;
        tokio::time::sleep(COLLECT).await;
        if inbox.live.version.receiver_count() == 0 {
            last = None;
            continue;
        }
        let reader = inbox.clone();
        let stamp = tokio::task::spawn_blocking(move || reader.readers.with(InboxReader::list_stamp)).await;
        let Ok(Ok(stamp)) = stamp else { continue };
        if last.as_ref() != Some(&stamp) {
            last = Some(stamp);
            inbox.live.version.send_modify(|version| *version += 1);
        }
    }
}

/// Starts a stream of events, which is cut off after [`MAX_STREAM_TIME`]. `None` if there are too many
/// streams.
pub(super) fn open_stream(inbox: &Arc<DeskState>, operator: InboxUser) -> Option<DeskBody> {
    let place = inbox.live.streams.clone().try_acquire_owned().ok()?;
    let (sender, body) = stream();
    let (inbox, versions) = (inbox.clone(), inbox.live.version.subscribe());
    tokio::spawn(async move {
        let _ = tokio::time::timeout(MAX_STREAM_TIME, send_events(&inbox, &operator, versions, sender)).await;
        drop(place);
    });
    Some(body)
}

/// Sends an event for each new version, or a comment after [`HEARTBEAT`] without one, until the client is
/// gone or [`InboxUser::is_still_logged_in`] is false. First sends the delay after which the browser
/// reconnects.
async fn send_events(
    inbox: &Arc<DeskState>,
    operator: &InboxUser,
    mut versions: watch::Receiver<u64>,
    sender: ChunkSender,
) {
    if sender.send(StreamChunk::Bytes(Bytes::from_static(b"retry: 5000\n\n"))).await.is_err() {
        return;
    }
    loop {
        let event = tokio::select! {
            changed = versions.changed() => match changed {
                Ok(()) => Bytes::from_static(b"event: changed\ndata:\n\n"),
                Err(_) => return,
            },
            () = sender.closed() => return,
            () = tokio::time::sleep(HEARTBEAT) => Bytes::from_static(b":\n\n"),
        };
        let (app, of) = (inbox.clone(), operator.clone());
        let is_logged_in = tokio::task::spawn_blocking(move || of.is_still_logged_in(&app)).await;
        if !is_logged_in.unwrap_or(false) {
            let _ = sender.send(StreamChunk::End).await;
            return;
        }
        if sender.send(StreamChunk::Bytes(event)).await.is_err() {
            return;
        }
    }
}
