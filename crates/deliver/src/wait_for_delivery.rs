//! Requests that respond only after a channel to the team has confirmed their submission.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use uuid::Uuid;

use frontdesk_inbox::store::{Store, StoreError};

/// Requests that are answered only after a channel has confirmed their submission.
#[derive(Clone, Debug, Default)]
pub struct Confirmations {
    waiting: Arc<Mutex<HashMap<Uuid, Vec<oneshot::Sender<()>>>>>,
}

impl Confirmations {
    /// Waits until at least one of the team's channels has confirmed an accepted submission or, for a repeat,
    /// the original submission. Returns false after `timeout`. A submission that stays held always times out.
    pub async fn wait(&self, store: &Store, id: Uuid, timeout: Duration) -> Result<bool, StoreError> {
        let deadline = tokio::time::Instant::now() + timeout;
        let Ok(accepted) = tokio::time::timeout_at(deadline, store.settle(id)).await else {
            return Ok(false);
        };
        let id = accepted?.id();
        // Must be dropped after the receiver, and is therefore declared before it: dropping this value
        // removes only registrations whose receiver is closed.
        let _registration = Waiter { confirmations: self, id };
        let (sender, mut confirmed) = oneshot::channel();
        self.lock().entry(id).or_default().push(sender);
        let is_confirmed = || store.change(move |tx| tx.has_reached_team(id));
        loop {
            // The submission may have been confirmed before this request registered, or by another process.
            if is_confirmed().await? {
                return Ok(true);
            }
            let check_again = deadline.min(tokio::time::Instant::now() + Duration::from_secs(1));
            tokio::select! {
                told = &mut confirmed => return Ok(told.is_ok()),
                () = tokio::time::sleep_until(check_again) => {}
            }
            if tokio::time::Instant::now() >= deadline {
                return is_confirmed().await;
            }
        }
    }

    /// Wakes the requests that wait for this submission.
    pub(super) fn notify_waiting(&self, id: Uuid) {
        for waiting in self.lock().remove(&id).unwrap_or_default() {
            let _ = waiting.send(());
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Vec<oneshot::Sender<()>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request in [`Confirmations`]. Dropping this value removes it, for example when the client disconnects.
struct Waiter<'a> {
    confirmations: &'a Confirmations,
    id: Uuid,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.confirmations.lock();
        if let Some(others) = waiting.get_mut(&self.id) {
            others.retain(|other| !other.is_closed());
            if others.is_empty() {
                waiting.remove(&self.id);
            }
        }
    }
}
