//! The report of a run: steps in the order in which they ran, each with its outcome and one sentence.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub steps: Vec<StepResult>,
    /// The subjects of pages that show a form, or have lost it. With these, the next run recognizes that a
    /// form has lost its attribute.
    #[serde(default)]
    pub form_pages: Vec<String>,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepResult {
    pub step: Step,
    /// The thing that was checked: a form, a channel, a host or a path. Never a secret.
    pub subject: String,
    pub outcome: Outcome,
    /// One sentence: the fault and how to repair it, or what was checked if there is no fault.
    pub text: String,
    #[serde(rename = "took_ms", with = "milliseconds")]
    pub took: Duration,
}

/// A kind of check. The names are part of stored reports and of the labels in `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The name in `base_url` resolves.
    Dns,
    Connect,
    Tls,
    /// A page that shows a form has the form's `action`, fields and script.
    Page,
    /// The response to the test submission came from this server, and says that it was accepted.
    Form,
    /// This inbox stored and processed the test submission.
    Intake,
    /// A channel accepted the canary's message.
    Channel,
    /// The canary's mail arrived in a mailbox.
    Mailbox,
    Certificate,
    Clock,
    Disk,
    /// The DNS records of the domain that mails are sent from.
    MailDomain,
    Digest,
    /// The request to `ping_url` after a run without a failure.
    Ping,
}

impl Step {
    pub const ALL: [Step; 14] = [
        Step::Dns,
        Step::Connect,
        Step::Tls,
        Step::Page,
        Step::Form,
        Step::Intake,
        Step::Channel,
        Step::Mailbox,
        Step::Certificate,
        Step::Clock,
        Step::Disk,
        Step::MailDomain,
        Step::Digest,
        Step::Ping,
    ];

    /// The name in stored reports, in `/metrics` and in the output of commands.
    pub const fn name(self) -> &'static str {
        match self {
            Step::Dns => "dns",
            Step::Connect => "connect",
            Step::Tls => "tls",
            Step::Page => "page",
            Step::Form => "form",
            Step::Intake => "intake",
            Step::Channel => "channel",
            Step::Mailbox => "mailbox",
            Step::Certificate => "certificate",
            Step::Clock => "clock",
            Step::Disk => "disk",
            Step::MailDomain => "mail-domain",
            Step::Digest => "digest",
            Step::Ping => "ping",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Ok,
    /// Submissions still arrive, but the operator should act.
    Warning,
    /// Submissions are lost, or cannot be sent.
    Failed,
    /// The step has no result: an earlier one failed, nothing is configured for it, or it did not end in
    /// time.
    Skipped,
}

impl Report {
    /// Whether no step failed. Warnings and skipped steps do not count.
    pub fn is_ok(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The steps that failed; warnings are not among them.
    pub fn failures(&self) -> impl Iterator<Item = &StepResult> {
        self.with_outcome(Outcome::Failed)
    }

    /// The steps with a warning, which do not make the run fail.
    pub fn warnings(&self) -> impl Iterator<Item = &StepResult> {
        self.with_outcome(Outcome::Warning)
    }

    fn with_outcome(&self, outcome: Outcome) -> impl Iterator<Item = &StepResult> {
        self.steps.iter().filter(move |step| step.outcome == outcome)
    }

    /// One sentence: the first failure, or else the first warning, and how many more there are. Without
    /// these, how many steps succeeded, and how many were skipped.
    pub fn summary(&self) -> String {
        let failures: Vec<&StepResult> = self.failures().collect();
        let (found, what) =
            if failures.is_empty() { (self.warnings().collect(), "warning") } else { (failures, "failure") };
        match found.as_slice() {
            [] => {
                let skipped = self.with_outcome(Outcome::Skipped).count();
                let plural = if self.steps.len() - skipped == 1 { "" } else { "s" };
                match (self.steps.len() - skipped, skipped) {
                    (0, _) => "no step was tried".to_owned(),
                    (count, 0) => format!("{count} step{plural} succeeded"),
                    (count, _) => format!("{count} step{plural} succeeded, {skipped} skipped"),
                }
            }
            [only] => only.to_string(),
            [first, rest @ ..] => {
                let plural = if rest.len() == 1 { "" } else { "s" };
                format!("{first} ({} more {what}{plural})", rest.len())
            }
        }
    }
}

/// Formats a result as `STEP SUBJECT: TEXT`.
impl fmt::Display for StepResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.subject.is_empty() { "" } else { " " };
        write!(f, "{}{space}{}: {}", self.step, self.subject, self.text)
    }
}

/// Serializes durations as whole milliseconds.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(took: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_ok_unless_a_step_failed() {
        for (outcome, is_ok) in [
            (Outcome::Ok, true),
            (Outcome::Warning, true),
            (Outcome::Skipped, true),
            (Outcome::Failed, false),
        ] {
            assert_eq!(
                report(&[(Step::Dns, Outcome::Ok), (Step::Form, outcome)]).is_ok(),
                is_ok,
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn the_summary_prefers_failures_to_warnings() {
        use Outcome::{Failed, Ok, Skipped, Warning};
        check(&[(Step::Dns, Ok), (Step::Form, Ok)], "2 steps succeeded");
        check(&[(Step::Dns, Ok), (Step::Form, Skipped)], "1 step succeeded, 1 skipped");
        check(&[(Step::Form, Skipped)], "no step was tried");
        check(&[(Step::Ping, Warning), (Step::Form, Failed)], "form example: text");
        check(&[(Step::Ping, Warning)], "ping example: text");
        check(&[(Step::Form, Failed), (Step::Channel, Failed)], "form example: text (1 more failure)");
        check(
            &[(Step::Disk, Warning), (Step::Clock, Warning), (Step::Ping, Warning)],
            "disk example: text (2 more warnings)",
        );
    }

    #[test]
    fn stored_reports_are_read_back_unchanged() {
        let report = report(&Step::ALL.map(|step| (step, Outcome::Ok)));
        let json = serde_json::to_value(&report).unwrap();
        for (step, stored) in Step::ALL.iter().zip(json["steps"].as_array().unwrap()) {
            assert_eq!(stored["step"], step.name());
        }
        assert_eq!(json["steps"][0]["took_ms"], 7);
        assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
    }

    fn check(steps: &[(Step, Outcome)], summary: &str) {
        assert_eq!(report(steps).summary(), summary);
    }

    /// A report with these steps, each with the subject `example` and the text `text`.
    fn report(steps: &[(Step, Outcome)]) -> Report {
        let step = |(step, outcome): &(Step, Outcome)| StepResult {
            step: *step,
            subject: "example".to_owned(),
            outcome: *outcome,
            text: "text".to_owned(),
            took: Duration::from_millis(7),
        };
        Report {
            started_at: Timestamp::UNIX_EPOCH,
            ended_at: Timestamp::UNIX_EPOCH,
            steps: steps.iter().map(step).collect(),
            form_pages: vec!["/contact/ contact".to_owned()],
        }
    }
}
