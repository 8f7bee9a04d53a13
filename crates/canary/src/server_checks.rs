//! Runs the checks that the server supplies, which may block: of its disk, certificate files and inbox, and
//! of the DNS records of senders' domains. The checks themselves are in `src/cli/serve/canary_inputs.rs`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::report::{Outcome, Step, StepResult};
use frontdesk_process::panics::{self, Part};

/// A check that the server supplies, for example of the free disk space. It may block for some seconds.
#[derive(Clone)]
pub struct ServerCheck {
    pub step: Step,
    /// The subject of the result if the check panics or takes too long: the step then counts as skipped.
    pub subject: String,
    /// Runs the check, which returns any number of results.
    pub run: Arc<dyn Fn() -> Vec<StepResult> + Send + Sync>,
}

impl fmt::Debug for ServerCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerCheck({} {})", self.step, self.subject)
    }
}

/// Runs the checks at the same time, and returns their results in order. A check that takes longer than
/// `limit` or panics gives a skipped step with the reason; a slow check keeps its thread until it ends.
pub(crate) async fn run(checks: &[ServerCheck], limit: Duration) -> Vec<StepResult> {
    let start = |check: &ServerCheck| {
        let run = check.run.clone();
        let work = tokio::task::spawn_blocking(move || panics::catch(Part::Background, || run()));
        timeout(limit, work)
    };
    let started: Vec<_> = checks.iter().map(|check| (check, tokio::spawn(start(check)))).collect();
    let mut steps = Vec::new();
    for (check, work) in started {
        let skipped = |text: String| StepResult {
            step: check.step,
            subject: check.subject.clone(),
            outcome: Outcome::Skipped,
            text,
            took: limit,
        };
        steps.extend(match work.await {
            Ok(Ok(Ok(Ok(found)))) => found,
            Ok(Err(_)) => {
                vec![skipped(format!("not known, because this took more than {} s", limit.as_secs()))]
            }
            Ok(Ok(Ok(Err(panic)))) => {
                vec![skipped(format!("not known, because of {panic}"))]
            }
            Ok(Ok(Err(_))) | Err(_) => vec![skipped("not known, because the check was canceled".to_owned())],
        });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(subject: &str, run: impl Fn() -> Vec<StepResult> + Send + Sync + 'static) -> ServerCheck {
        ServerCheck { step: Step::Disk, subject: subject.to_owned(), run: Arc::new(run) }
    }

    fn good(subject: &str) -> Vec<StepResult> {
        vec![StepResult {
            step: Step::Disk,
            subject: subject.to_owned(),
            outcome: Outcome::Ok,
            text: "fine".to_owned(),
            took: Duration::ZERO,
        }]
    }

    fn outcomes(steps: &[StepResult]) -> Vec<(&str, Outcome)> {
        steps.iter().map(|step| (step.subject.as_str(), step.outcome)).collect()
    }

    #[tokio::test]
    async fn a_check_that_takes_too_long_is_skipped() {
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let slow = check("slow", move || {
            let _ = wait.lock().unwrap().recv();
            good("slow")
        });
        let steps = run(&[slow], Duration::from_millis(50)).await;
        drop(release);
        assert_eq!(outcomes(&steps), [("slow", Outcome::Skipped)]);
        assert!(steps[0].text.contains("took more than"), "{}", steps[0].text);
    }

    #[tokio::test]
    async fn a_check_that_panics_is_skipped_with_the_reason() {
        let checks = [check("broken", || panic!("a defect")), check("good", || good("good"))];
        let steps = run(&checks, Duration::from_mins(5)).await;
        assert_eq!(outcomes(&steps), [("broken", Outcome::Skipped), ("good", Outcome::Ok)]);
        assert!(steps[0].text.contains("a defect in frontdesk"), "{}", steps[0].text);
    }
}
