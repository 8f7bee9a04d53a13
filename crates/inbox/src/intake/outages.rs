//! The outages of the processor's steps, of which only the start and the end are logged.

use crate::store::StoreError;
use frontdesk_process::failure_log::FailureLog;

/// The steps of a pass of the processor, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassStep {
    Intake,
    Floods,
    Confirmations,
}

impl PassStep {
    pub const ALL: [PassStep; 3] = [PassStep::Intake, PassStep::Floods, PassStep::Confirmations];

    pub fn log_failure(self, error: &StoreError) {
        match self {
            PassStep::Intake => {
                tracing::warn!(%error, "could not process the intake, so accepted submissions are neither screened nor delivered; will retry every second");
            }
            PassStep::Floods => {
                tracing::warn!(%error, "could not release the submissions that a flood held until it ended; will retry every second");
            }
            PassStep::Confirmations => {
                tracing::warn!(%error, "could not queue the mails that ask visitors to confirm their addresses; will retry every second");
            }
        }
    }

    pub fn log_recovery(self) {
        match self {
            PassStep::Intake => tracing::info!("the intake is being processed again"),
            PassStep::Floods => tracing::info!("submissions that floods held are being released again"),
            PassStep::Confirmations => {
                tracing::info!("mails that ask visitors to confirm their addresses are being queued again");
            }
        }
    }
}

/// For each step, whether its outage has been logged.
#[derive(Default)]
pub(super) struct Outages([FailureLog; PassStep::ALL.len()]);

impl Outages {
    /// Records a pass, which ended with the step `failed`, or with the last step if that is `None`. Returns
    /// the steps whose outage has begun (`failed`) or ended (the others), in order. Steps after `failed` did
    /// not run, so their outages go on.
    pub fn record(&mut self, failed: Option<PassStep>) -> Vec<PassStep> {
        let mut changed = Vec::new();
        for (step, log) in PassStep::ALL.into_iter().zip(&mut self.0) {
            if failed == Some(step) {
                changed.extend(log.record_failure().then_some(step));
                break;
            }
            changed.extend(log.record_success().then_some(step));
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::PassStep::{Confirmations, Floods, Intake};
    use super::*;

    #[test]
    fn the_start_and_the_end_of_the_outage_of_each_step_are_logged() {
        let mut outages = Outages::default();
        for (failed, changed) in [
            (None, vec![]),
            (Some(Confirmations), vec![Confirmations]),
            (Some(Confirmations), vec![]),
            (Some(Intake), vec![Intake]),
            (Some(Floods), vec![Intake, Floods]),
            (None, vec![Floods, Confirmations]),
            (None, vec![]),
        ] {
            assert_eq!(outages.record(failed), changed, "{failed:?}");
        }
    }
}
