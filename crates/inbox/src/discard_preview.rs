//! Previews what a discard would remove and what cannot be discarded, and removes no more than was previewed.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use crate::store::{Editor, Erased, HeldFilter, HeldSummary, InboxReader, StoreError};
use crate::submission::Submission;

/// The selected submissions: held ones, which will be discarded, and all others, which stay.
#[derive(Clone, Debug, Default)]
pub struct DiscardPreview {
    pub held: Vec<Submission>,
    pub others: Vec<Submission>,
}

impl DiscardPreview {
    pub fn new(found: Vec<Submission>) -> DiscardPreview {
        let (held, others) = found.into_iter().partition(|submission| submission.held.is_some());
        DiscardPreview { held, others }
    }

    /// When the earliest and the latest of the held submissions were received; `None` if there are none.
    pub fn received(&self) -> Option<(Timestamp, Timestamp)> {
        let received = || self.held.iter().map(|submission| submission.received_at);
        received().min().zip(received().max())
    }

    /// The ids of the held submissions only.
    pub fn ids(&self) -> Vec<Uuid> {
        self.held.iter().map(|submission| submission.id).collect()
    }

    /// Discards the submissions in `held`, except any released or removed since; see [`Editor::discard`].
    pub fn discard(&self, editor: &mut Editor, now: Timestamp) -> Result<Discarded, StoreError> {
        let erased = editor.discard(&self.ids(), now)?;
        let stayed = self.held.len().saturating_sub(erased.submissions);
        Ok(Discarded { erased, stayed })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    pub erased: Erased,
    /// The number of previewed submissions that were not discarded, because they were released or removed
    /// meanwhile.
    pub stayed: usize,
}

/// The number of held submissions that a filter selects, or the reason why they must not be discarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldPreview {
    /// This many sources match the filter's prefix, but it must match at most one.
    SeveralSources(usize),
    Held(HeldSummary),
}

/// Counts the held submissions that a filter selects, unless it has a source prefix that is ambiguous.
pub fn preview_held(reader: &InboxReader, filter: &HeldFilter) -> Result<HeldPreview, StoreError> {
    let held = reader.held(filter)?;
    let is_ambiguous = filter.source.is_some() && held.sources > 1;
    Ok(if is_ambiguous { HeldPreview::SeveralSources(held.sources) } else { HeldPreview::Held(held) })
}

/// The filter, limited to submissions received up to the last one that the preview showed, because the
/// operator did not confirm the removal of later ones. Selects none if the preview showed none. Earlier
/// submissions that have become held since the preview are selected.
pub fn confirmed_filter(filter: &HeldFilter, shown: &HeldSummary) -> HeldFilter {
    let before = shown.received.map_or(Timestamp::MIN, |(_, last)| last + Duration::from_millis(1));
    HeldFilter { before: Some(before), ..filter.clone() }
}
