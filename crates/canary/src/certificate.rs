//! How long the certificate of the public address is still valid.

use jiff::Timestamp;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use crate::report::Outcome;

/// Programs that renew certificates do so a month or a third of the lifetime before they expire.
const WARNING_DAYS: i64 = 14;
const FAILURE_DAYS: i64 = 3;

/// When a certificate in DER expires; `None` if it cannot be read.
pub(crate) fn expiry(der: &[u8]) -> Option<Timestamp> {
    let certificate = Certificate::from_der(der).ok()?;
    let seconds = certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs();
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}

/// Judges the time that is left. A certificate of six days renews within its last two.
pub(crate) fn judge(not_after: Timestamp, now: Timestamp) -> (Outcome, String) {
    let hours = not_after.duration_since(now).as_hours();
    let days = hours / 24;
    let left = if days >= 2 { format!("{days} days") } else { format!("{} hours", hours.max(0)) };
    let outcome = match days {
        days if days < FAILURE_DAYS => Outcome::Failed,
        days if days < WARNING_DAYS => Outcome::Warning,
        _ => Outcome::Ok,
    };
    if outcome == Outcome::Ok {
        return (outcome, format!("the certificate is valid for {left}"));
    }
    (
        outcome,
        format!("the certificate expires in {left} and was not renewed: check the program that renews it"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_warns_two_weeks_and_fails_three_days_before_it_expires() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        for (hours, outcome, expected) in [
            (24 * 60, Outcome::Ok, "valid for 60 days"),
            (24 * 14, Outcome::Ok, "valid for 14 days"),
            (24 * 14 - 1, Outcome::Warning, "expires in 13 days"),
            (24 * 3, Outcome::Warning, "expires in 3 days"),
            (24 * 3 - 1, Outcome::Failed, "expires in 2 days"),
            (5, Outcome::Failed, "expires in 5 hours"),
        ] {
            let (found, text) = judge(now + jiff::SignedDuration::from_hours(hours), now);
            assert_eq!(found, outcome, "{hours}: {text}");
            assert!(text.contains(expected), "{hours}: {text}");
        }
        assert_eq!(expiry(b"no certificate"), None);
    }
}
