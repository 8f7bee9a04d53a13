//! The result of the canary's last run, as `frontdesk doctor` prints it.

use jiff::Timestamp;

use super::check_result::CheckResult;
use frontdesk_canary::{Outcome, StepResult, stored_report};
use frontdesk_deliver::problem_digest::CanaryProblem;
use frontdesk_desk::time::format_distance;
use frontdesk_inbox::store::CanaryStatus;

/// The canary's last run in words, and each step that was not successful: pairs of a subject and a result.
/// `is_on` says whether the canary is configured. A single note if it is off, or has not run yet; no steps if
/// another version stored them in another format.
pub(super) fn describe(
    status: Option<&CanaryStatus>,
    is_on: bool,
    now: Timestamp,
) -> Vec<(String, CheckResult)> {
    let note = |text: &str| vec![("canary".to_owned(), CheckResult::Unknown(text.to_owned()))];
    let Some(status) = status.filter(|_| is_on) else {
        return note(if is_on {
            "it has not run yet; a running server runs it within a minute"
        } else {
            "it is off, so nothing notices if submissions stop arriving (docs/pages/canary.md)"
        });
    };
    let age = format_distance(status.ended_at, now);
    let summary = match CanaryProblem::of(status, now) {
        None => CheckResult::Good(format!("the last run succeeded ({age}): {}", status.summary)),
        Some(CanaryProblem { failure: None, .. }) => CheckResult::Bad(format!(
            "the last run succeeded, but was too long ago ({age}): check whether the server is running"
        )),
        Some(CanaryProblem { since, .. }) => {
            CheckResult::Bad(format!("the last run failed ({age}); failing since {since:.0}"))
        }
    };
    let steps = stored_report(status).map(|report| report.steps).unwrap_or_default();
    let steps = steps.iter().filter(|step| step.outcome != Outcome::Ok).map(describe_step);
    std::iter::once(("canary".to_owned(), summary)).chain(steps).collect()
}

/// Every step of the last run, including the successful ones, as pairs of a subject and a result. Empty if
/// another version stored them in another format.
pub(super) fn describe_all(status: &CanaryStatus) -> Vec<(String, CheckResult)> {
    let steps = stored_report(status).map(|report| report.steps).unwrap_or_default();
    steps.iter().map(describe_step).collect()
}

/// The subject and the result of a step. A warning counts as a problem, and a skipped step as a remark.
fn describe_step(step: &StepResult) -> (String, CheckResult) {
    let subject = format!("canary {} {}", step.step, step.subject);
    let text = step.text.clone();
    let result = match step.outcome {
        Outcome::Ok => CheckResult::Good(text),
        Outcome::Skipped => CheckResult::Unknown(text),
        Outcome::Warning | Outcome::Failed => CheckResult::Bad(text),
    };
    (subject.trim_end().to_owned(), result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_canary::{Report, Step};
    use std::time::Duration;

    #[test]
    fn the_last_run_is_described_with_its_age() {
        let check = |status: Option<&CanaryStatus>, is_on, now, expected: &[&str]| {
            let lines = describe(status, is_on, at(now));
            let lines: Vec<String> = lines
                .into_iter()
                .map(|(subject, result)| {
                    let (word, text) = result.word_and_text();
                    format!("{word} {subject}: {text}")
                })
                .collect();
            assert_eq!(lines, expected);
        };
        check(
            None,
            false,
            0,
            &[
                "note canary: it is off, so nothing notices if submissions stop arriving (docs/pages/canary.md)",
            ],
        );
        check(None, true, 0, &["note canary: it has not run yet; a running server runs it within a minute"]);
        let good = status(Outcome::Ok);
        check(Some(&good), true, 60, &["ok canary: the last run succeeded (1 min ago): 1 step succeeded"]);
        check(
            Some(&good),
            true,
            3 * 3600,
            &[
                "fix canary: the last run succeeded, but was too long ago (3 h ago): check whether the server is running",
            ],
        );
        check(
            Some(&status(Outcome::Failed)),
            true,
            60,
            &[
                "fix canary: the last run failed (1 min ago); failing since 2027-01-15T08:00:00Z",
                "fix canary form contact: a sentence",
            ],
        );
    }

    fn status(outcome: Outcome) -> CanaryStatus {
        let step = StepResult {
            step: Step::Form,
            subject: "contact".to_owned(),
            outcome,
            text: "a sentence".to_owned(),
            took: Duration::ZERO,
        };
        let report =
            Report { started_at: at(-5), ended_at: at(0), steps: vec![step], form_pages: Vec::new() };
        CanaryStatus {
            started_at: at(-5),
            ended_at: at(0),
            is_ok: report.is_ok(),
            every: 3600,
            last_success_at: None,
            failing_since: (!report.is_ok()).then(|| at(0)),
            is_notified: false,
            summary: report.summary(),
            report: serde_json::to_value(&report).expect("it is JSON"),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }
}
