//! Reads the lessons of operators' decisions into memory, where screening uses them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::IntakeOptions;
use super::batch_processing::Screener;
use crate::store::{InboxReader, Store, StoreError};
use frontdesk_screening::Learned;
use frontdesk_screening::learned::LearnedModel;

/// How often to check for new lessons while submissions are being processed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often old lessons are removed.
const EXPIRY_INTERVAL: Duration = Duration::from_hours(24);

/// Reads the lessons from the database again when they have changed.
#[derive(Default)]
pub(super) struct LessonReader {
    /// The version of the lessons that the screener has.
    version: Option<u128>,
    /// The `suspicious_threshold` that the screener's model was built for.
    marked_from: u32,
    /// The setting `screening.learn` that this process has last stored in the database.
    learns: Option<bool>,
    checked_at: Option<Instant>,
    expired_at: Option<Instant>,
}

impl LessonReader {
    /// Gives the screener the current lessons, if they or the threshold have changed; none if learning is
    /// switched off. Also stores whether decisions teach and, while they do, removes old lessons once a day.
    /// Does nothing within [`CHECK_INTERVAL`] of the last check. A failure leaves the previous lessons in
    /// place; a later call tries again.
    pub fn refresh(
        &mut self,
        store: &Store,
        options: &IntakeOptions,
        screener: &Screener,
    ) -> Result<(), StoreError> {
        if self.checked_at.is_some_and(|at| at.elapsed() < CHECK_INTERVAL) {
            return Ok(());
        }
        self.checked_at = Some(Instant::now());
        let (learn, now) = (options.screening.learn, (options.clock)());
        if self.learns != Some(learn) {
            store.change_blocking(move |tx| tx.set_learns(learn))?;
            self.learns = Some(learn);
        }
        if !learn {
            screener.learned.store(None);
            self.version = None;
            return Ok(());
        }
        if self.expired_at.is_none_or(|at| at.elapsed() > EXPIRY_INTERVAL) {
            store.change_blocking(move |tx| tx.expire_lessons(now))?;
            self.expired_at = Some(Instant::now());
        }
        let marked_from = options.screening.suspicious_threshold;
        let known = self.version.filter(|_| self.marked_from == marked_from);
        let reader = InboxReader::open(store.url().clone())?;
        if let Some(lessons) = reader.lessons(known, now)? {
            let model = LearnedModel::new(&lessons.lessons, marked_from);
            screener.learned.store(Some(Arc::new(Learned { model, key: lessons.key })));
            self.version = Some(lessons.version);
            self.marked_from = marked_from;
        }
        Ok(())
    }
}
