//! How long a certificate is still valid.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::time::Time;

use crate::report::{Outcome, Step, StepResult};

/// A shorter remaining validity is a warning. Renewal programs renew earlier, a month or a third of the
/// lifetime before the end.
const WARNING: SignedDuration = SignedDuration::from_hours(14 * 24);
/// Minimum remaining validity; a certificate that expires sooner is a failure.
const FAILURE: SignedDuration = SignedDuration::from_hours(3 * 24);

/// The first and the last second of a certificate's validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateValidity {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl CertificateValidity {
    /// Reads a certificate in DER; `None` if it cannot be read.
    pub(crate) fn of(der: &[u8]) -> Option<CertificateValidity> {
        let validity = Certificate::from_der(der).ok()?.tbs_certificate.validity;
        // The end of 9999 means no expiry date (RFC 5280 §4.1.2.5).
        let time = |time: Time| {
            let seconds = i64::try_from(time.to_unix_duration().as_secs()).ok();
            seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or(Timestamp::MAX)
        };
        Some(CertificateValidity {
            not_before: time(validity.not_before),
            not_after: time(validity.not_after),
        })
    }

    /// Judges the time that is left: a warning below 14 days or a quarter of the lifetime, whichever is
    /// shorter, and a failure below 3 days or an eighth of it. The fractions are for certificates of six
    /// days, which are renewed in their last two or three. Fails if the certificate has expired or is not
    /// valid yet.
    pub fn judge(self, now: Timestamp) -> (Outcome, String) {
        if now < self.not_before {
            return (
                Outcome::Failed,
                format!(
                    "the certificate is not valid before {:.0}: check the clock of this machine, which may be behind",
                    self.not_before
                ),
            );
        }
        if now > self.not_after {
            let text = format!("the certificate expired at {:.0}: renew it", self.not_after);
            return (Outcome::Failed, text);
        }
        let lifetime = self.not_after.duration_since(self.not_before);
        let hours = self.not_after.duration_since(now).as_hours();
        let left = if hours >= 48 { format!("{} days", hours / 24) } else { format!("{hours} hours") };
        let rest = self.not_after.duration_since(now);
        let outcome = if rest < FAILURE.min(lifetime / 8) {
            Outcome::Failed
        } else if rest < WARNING.min(lifetime / 4) {
            Outcome::Warning
        } else {
            return (Outcome::Ok, format!("the certificate is valid for {left}"));
        };
        (
            outcome,
            format!(
                "the certificate expires in {left} and was not renewed: check the program that renews it"
            ),
        )
    }

    /// The result of the certificate step. `subject` is a host or a file.
    pub fn step(self, subject: &str, now: Timestamp) -> StepResult {
        let (outcome, text) = self.judge(now);
        let subject = subject.to_owned();
        StepResult { step: Step::Certificate, subject, outcome, text, took: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges a certificate with this lifetime in days, and this number of hours left.
    fn check(days: i64, hours: i64, outcome: Outcome, expected: &str) {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let not_after = now + SignedDuration::from_hours(hours);
        let validity =
            CertificateValidity { not_before: not_after - SignedDuration::from_hours(24 * days), not_after };
        let (found, text) = validity.judge(now);
        assert!(found == outcome && text.contains(expected), "{days} {hours}: {found:?} {text}");
    }

    #[test]
    fn a_certificate_warns_two_weeks_and_fails_three_days_before_it_expires() {
        check(90, 24 * 60, Outcome::Ok, "valid for 60 days");
        check(90, 24 * 14, Outcome::Ok, "valid for 14 days");
        check(90, 24 * 14 - 1, Outcome::Warning, "expires in 13 days");
        check(90, 24 * 3, Outcome::Warning, "expires in 3 days");
        check(90, 24 * 3 - 1, Outcome::Failed, "expires in 2 days");
        check(90, 5, Outcome::Failed, "expires in 5 hours");
        check(90, -1, Outcome::Failed, "the certificate expired at 2027-01-15T07:00:00Z");
        check(90, 24 * 91, Outcome::Failed, "is not valid before");
    }

    #[test]
    fn short_certificates_may_be_renewed_late() {
        check(6, 48, Outcome::Ok, "valid for 2 days");
        check(6, 35, Outcome::Warning, "expires in 35 hours");
        check(6, 17, Outcome::Failed, "expires in 17 hours");
        check(47, 24 * 13, Outcome::Ok, "valid for 13 days");
    }

    #[test]
    fn the_validity_is_read_from_the_certificate() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["www.example.com".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let certificate = parameters.self_signed(&key).unwrap();
        let validity = CertificateValidity::of(certificate.der()).unwrap();
        assert_eq!(validity.not_before.to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(validity.not_after.to_string(), "2026-04-01T00:00:00Z");
        assert_eq!(CertificateValidity::of(b"no certificate"), None);
    }
}
