//! Wakes threads and tasks of this process after commits.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

/// The events of one store.
#[derive(Default)]
pub struct Events {
    /// Submissions were accepted.
    pub accepted: WakeUp,
    /// A batch of the intake was processed.
    pub processed: watch::Sender<()>,
    /// Deliveries may have been queued.
    pub queued: Notify,
    /// Submissions are held because of a flood.
    pub flooded: Notify,
}

/// Wakes one thread. A wake-up before the thread waits is not lost.
#[derive(Default)]
pub struct WakeUp {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl WakeUp {
    /// Wakes the thread.
    pub fn notify(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for a wake-up since the last call, or until the timeout.
    pub fn wait(&self, timeout: Duration) {
        let is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_set, timeout, |is_set| !*is_set);
        let (mut is_set, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *is_set = false;
    }
}
