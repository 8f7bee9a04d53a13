//! Which submissions have been delivered or soon will be, so that repeats can rely on them.

use std::collections::BTreeSet;
use std::time::Duration;

use super::delivery_results::to_millis;
use super::{Row, Sql};
use crate::store::error::StoreError;
use crate::submission::delivery::Route;
use crate::submission::visitor_mail::is_visitor_channel;

/// The ids of submissions by the state of their deliveries.
#[derive(Default)]
pub(super) struct Reach {
    /// Submissions that a channel has delivered, or has parked after reaching some of its recipients.
    pub(super) delivered: BTreeSet<[u8; 16]>,
    /// Submissions with an unfinished delivery for a configured channel: held, in progress or due soon.
    pub(super) pending: BTreeSet<[u8; 16]>,
    /// Submissions with a delivery that a configured channel has parked or will not attempt soon. A repeat
    /// does not rely on the other channels of such a submission, because the stuck channel may be the only
    /// one that the operator reads.
    pub(super) stuck: BTreeSet<[u8; 16]>,
}

/// A repeat cannot rely on a delivery that is not due within this time, because the repeat would be sent at
/// once if it were stored as a new submission.
const SOON: Duration = Duration::from_mins(5);
/// A repeat cannot rely on a delivery that has failed more often than this, because the delivery would wait
/// for longer than [`SOON`] after one more failure.
const MAX_RELIABLE_FAILURES: i64 = 1;

impl Reach {
    /// Reads the deliveries of `submissions`, rows with a column `id`. Ignores mails to visitors, and
    /// unfinished deliveries for channels that are not configured. Empty if `channels` is empty. `now` is in
    /// milliseconds.
    pub(super) fn read(
        tx: &dyn Sql,
        submissions: &[Row],
        channels: &[Route],
        now: i64,
    ) -> Result<Reach, StoreError> {
        let mut reach = Reach::default();
        // Without channels, no channel would get a submission, so the deliveries do not matter.
        if channels.is_empty() {
            return Ok(reach);
        }
        let mut ids = submissions.iter().map(|row| row.get("id")).collect::<Result<Vec<[u8; 16]>, _>>()?;
        ids.sort_unstable();
        let select = "SELECT submission, state, channel, due_at, failures, recipients IS NOT NULL AS is_partial \
             FROM delivery WHERE";
        for row in tx.query_in(select, "submission", &ids, "")? {
            let (state, name) = (row.text("state")?, row.text("channel")?);
            if is_visitor_channel(name) {
                continue;
            }
            let is_reliable = (0..=MAX_RELIABLE_FAILURES).contains(&row.get("failures")?);
            let is_late = !is_reliable
                || state == "waiting"
                    && row
                        .get::<Option<i64>>("due_at")?
                        .is_some_and(|due_at| due_at.saturating_sub(to_millis(SOON)) > now);
            // If a channel refuses only some recipients, the others have the submission.
            if state == "delivered" || state == "parked" && row.get("is_partial")? {
                reach.delivered.insert(row.get("submission")?);
            } else if channels.iter().any(|channel| channel.name == name) {
                let found = if state == "parked" || is_late { &mut reach.stuck } else { &mut reach.pending };
                found.insert(row.get("submission")?);
            }
        }
        Ok(reach)
    }
}
