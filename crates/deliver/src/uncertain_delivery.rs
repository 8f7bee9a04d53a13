//! Marks the time from which a receiver may have a whole notification, so that an attempt that is aborted
//! later counts as uncertain.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

tokio::task_local! {
    static POSSIBLE_RECEIPT: PossibleReceipt;
}

/// Whether the receiver may already have the whole notification of an attempt but has not replied yet.
#[derive(Clone, Debug, Default)]
pub struct PossibleReceipt(Arc<AtomicBool>);

impl PossibleReceipt {
    /// Runs an attempt, in which [`mark`] sets the value. Clears it when the attempt ends by itself; the
    /// value of an attempt that is aborted stays.
    pub async fn track<T>(&self, attempt: impl Future<Output = T>) -> T {
        let result = POSSIBLE_RECEIPT.scope(self.clone(), attempt).await;
        self.0.store(false, Ordering::Relaxed);
        result
    }

    pub fn is_pending(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Records that the receiver may have the whole notification from now on. Has no effect outside of
/// [`PossibleReceipt::track`].
pub fn mark() {
    let _ = POSSIBLE_RECEIPT.try_with(|receipt| receipt.0.store(true, Ordering::Relaxed));
}
