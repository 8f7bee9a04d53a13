//! Compares this machine's clock with those of other servers.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::report::{Outcome, Step, StepResult};

/// The largest tolerated difference between two clocks, in seconds. Beyond it, receivers of webhooks refuse
/// signatures, and certificates may not be valid yet.
const MAX_SECONDS: i64 = 60;

/// The time that another server reported in a response, and this machine's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClockReading {
    /// A description of the server: a host, or the receiver of a channel.
    pub server: String,
    pub theirs: Timestamp,
    pub ours: Timestamp,
}

impl ClockReading {
    fn ahead(&self) -> SignedDuration {
        self.ours.duration_since(self.theirs)
    }

    fn differs(&self) -> bool {
        self.ahead().as_secs().abs() > MAX_SECONDS
    }
}

/// Judges the clock. The step fails if more servers differ from it than agree; otherwise, the servers that
/// differ are wrong, and the step succeeds. Without readings, the step is skipped unless `is_synchronized`,
/// which says whether a time service of this machine has synchronized the clock; `None` if that is not known.
pub(crate) fn judge(readings: &[ClockReading], is_synchronized: Option<bool>) -> StepResult {
    let (differing, agreeing): (Vec<&ClockReading>, Vec<&ClockReading>) =
        readings.iter().partition(|reading| reading.differs());
    let (subject, outcome, text) = match (differing.first(), agreeing.first()) {
        (Some(differing), _) if agreeing.len() < readings.len() - agreeing.len() || agreeing.is_empty() => {
            let text = format!(
                "this machine's clock is {} the clock of {}: receivers refuse signatures, and certificates may not be valid; synchronize \
                 it with NTP{}",
                describe_difference(differing.ahead()),
                differing.server,
                if is_synchronized == Some(true) { ", unless the other server is wrong" } else { "" }
            );
            (differing.server.clone(), Outcome::Failed, text)
        }
        (Some(differing), Some(agreeing)) => {
            let text = format!(
                "this machine's clock agrees with the clock of {}; the clock of {} seems to be wrong",
                agreeing.server, differing.server
            );
            (agreeing.server.clone(), Outcome::Ok, text)
        }
        (None, Some(agreeing)) => (
            agreeing.server.clone(),
            Outcome::Ok,
            "this machine's clock agrees with the clock of another server".to_owned(),
        ),
        (_, None) if is_synchronized == Some(true) => {
            (String::new(), Outcome::Ok, "a time service has synchronized the clock".to_owned())
        }
        (_, None) => {
            let text = "not compared, because no other server has sent its time: receivers of webhooks and the service of `canary.ping_url` do";
            (String::new(), Outcome::Skipped, text.to_owned())
        }
    };
    StepResult { step: Step::Clock, subject, outcome, text, took: Duration::ZERO }
}

/// Describes a time difference, for example `120 s ahead of` or `3 hours behind`.
fn describe_difference(ahead: SignedDuration) -> String {
    let seconds = ahead.as_secs().abs();
    let amount = match seconds {
        0..600 => format!("{seconds} s"),
        600..7200 => format!("{} minutes", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    };
    format!("{amount} {}", if ahead.is_positive() { "ahead of" } else { "behind" })
}

/// Whether systemd's time service has synchronized the clock since boot; `None` without that service.
pub(crate) fn is_synchronized() -> Option<bool> {
    let state = std::path::Path::new("/run/systemd/timesync");
    state.is_dir().then(|| state.join("synchronized").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading of a server whose clock is `ahead` seconds behind this machine's.
    fn reading(server: &str, ahead: i64) -> ClockReading {
        let ours: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
        ClockReading { server: server.to_owned(), theirs: ours - SignedDuration::from_secs(ahead), ours }
    }

    fn check(readings: &[ClockReading], synchronized: Option<bool>, outcome: Outcome, expected: &str) {
        let step = judge(readings, synchronized);
        assert!(step.outcome == outcome && step.text.starts_with(expected), "{readings:?}: {step:?}");
    }

    #[test]
    fn a_minute_of_difference_is_tolerated() {
        use Outcome::{Failed, Ok, Skipped};
        check(&[reading("crm", 60)], None, Ok, "this machine's clock agrees");
        check(&[reading("crm", -60)], None, Ok, "this machine's clock agrees");
        check(&[reading("crm", 61)], None, Failed, "this machine's clock is 61 s ahead of the clock of crm");
        check(&[reading("crm", -120)], None, Failed, "this machine's clock is 120 s behind the clock of crm");
        check(&[reading("crm", 7200)], None, Failed, "this machine's clock is 2 hours ahead");
        check(&[reading("crm", -900)], None, Failed, "this machine's clock is 15 minutes behind");
        check(&[], None, Skipped, "not compared");
        check(&[], Some(false), Skipped, "not compared");
        check(&[], Some(true), Ok, "a time service has synchronized");
    }

    #[test]
    fn the_majority_of_servers_decides() {
        let (good, other, bad) = (reading("a", 1), reading("b", 2), reading("c", 900));
        check(
            &[good.clone(), bad.clone()],
            None,
            Outcome::Ok,
            "this machine's clock agrees with the clock of a; the clock of c seems",
        );
        check(
            &[bad.clone(), good.clone(), other],
            None,
            Outcome::Ok,
            "this machine's clock agrees with the clock of a",
        );
        check(
            &[bad.clone(), good, reading("d", 950)],
            None,
            Outcome::Failed,
            "this machine's clock is 15 minutes",
        );
        check(
            &[bad],
            Some(true),
            Outcome::Failed,
            "this machine's clock is 15 minutes ahead of the clock of c",
        );
    }
}
