//! Derives the stored status from the report of a run, and what to tell the operator.

use std::time::Duration;

use crate::report::{Outcome, Report, Step};
use frontdesk_inbox::store::CanaryStatus;

/// Whether an outage began or ended with the last run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    Failed,
    Recovered,
}

/// The status after a run, and whether an outage began or ended with it. During an outage, the status keeps
/// whether the team was notified. A failed run without a `previous` one begins an outage.
pub(crate) fn next(
    previous: Option<&CanaryStatus>,
    report: &Report,
    every: Duration,
) -> (CanaryStatus, Change) {
    let is_ok = report.is_ok();
    let was_failing = previous.filter(|previous| !previous.is_ok);
    let status = CanaryStatus {
        started_at: report.started_at,
        ended_at: report.ended_at,
        is_ok,
        every: every.as_secs(),
        last_success_at: if is_ok {
            Some(report.ended_at)
        } else {
            previous.and_then(|previous| previous.last_success_at)
        },
        failing_since: (!is_ok)
            .then(|| was_failing.and_then(|failing| failing.failing_since).unwrap_or(report.ended_at)),
        is_notified: !is_ok && was_failing.is_some_and(|failing| failing.is_notified),
        summary: report.summary(),
        report: serde_json::to_value(report).unwrap_or_default(),
    };
    let change = match (was_failing.is_some(), is_ok) {
        (false, false) => Change::Failed,
        (true, true) => Change::Recovered,
        _ => Change::None,
    };
    (status, change)
}

/// Lists the failed steps for the log, without their texts, which may quote other servers.
pub(crate) fn failed_steps(report: &Report) -> String {
    let names = report.failures().map(|failed| format!("{} {}", failed.step, failed.subject));
    names.collect::<Vec<String>>().join(", ")
}

/// The names of the channels that did not accept the canary's message. An empty name stands for channels
/// that did not respond in time.
pub(crate) fn failed_channels(report: &Report) -> Vec<String> {
    let is_failed = |step: &&crate::StepResult| step.step == Step::Channel && step.outcome == Outcome::Failed;
    report.steps.iter().filter(is_failed).map(|step| step.subject.clone()).collect()
}

/// The report in a stored status. `None` if another version has written it in another format.
pub fn stored_report(status: &CanaryStatus) -> Option<Report> {
    serde_json::from_value(status.report.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StepResult;
    use jiff::Timestamp;

    const EVERY: Duration = Duration::from_hours(6);

    #[test]
    fn an_outage_begins_with_its_first_failed_run_and_ends_with_a_success() {
        let (first, change) = next(None, &report(1, true), EVERY);
        assert_eq!((change, first.last_success_at, first.failing_since), (Change::None, Some(at(1)), None));
        let (failed, change) = next(Some(&first), &report(2, false), EVERY);
        assert_eq!(change, Change::Failed);
        assert_eq!((failed.last_success_at, failed.failing_since), (Some(at(1)), Some(at(2))));
        assert!(!failed.is_notified);
        let notified = CanaryStatus { is_notified: true, ..failed };
        let (again, change) = next(Some(&notified), &report(3, false), EVERY);
        assert_eq!((change, again.failing_since, again.is_notified), (Change::None, Some(at(2)), true));
        let (recovered, change) = next(Some(&again), &report(4, true), EVERY);
        assert_eq!((change, recovered.failing_since), (Change::Recovered, None));
        assert!(!recovered.is_notified, "the next outage is notified again");
        assert_eq!(stored_report(&recovered), Some(report(4, true)));
    }

    #[test]
    fn a_first_run_that_fails_begins_an_outage() {
        let (status, change) = next(None, &report(1, false), EVERY);
        assert_eq!((change, status.last_success_at), (Change::Failed, None));
    }

    #[test]
    fn log_lines_name_failed_steps_without_their_texts() {
        let report = report(1, false);
        assert_eq!(failed_steps(&report), "channel crm");
        assert_eq!(failed_channels(&report), ["crm"]);
    }

    fn report(second: i64, is_ok: bool) -> Report {
        let outcome = if is_ok { Outcome::Ok } else { Outcome::Failed };
        let step = StepResult {
            step: Step::Channel,
            subject: "crm".to_owned(),
            outcome,
            text: "a reply".to_owned(),
            took: Duration::ZERO,
        };
        Report { started_at: at(second - 1), ended_at: at(second), steps: vec![step], form_pages: Vec::new() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }
}
