//! Detects floods: more new submissions to a form than its quota allows. No function reads a clock or the
//! database.
//!
//! During a flood, submissions beyond the quota are held until the flood ends if their network has recently
//! sent [`A_FEW`] or more to the form. Others are delivered, so a flood does not silence visitors from other
//! networks. The number of submissions from a network also determines the order in which they are delivered.
//!
//! Times are Unix time in microseconds, except `received_at`, `latest` and `over_at`, which are in
//! milliseconds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::store::{FormRate, FormRates, Hash, NetworkRates};
use crate::submission::delivery::{HIGH_VOLUME_RANK, SUSPICIOUS_RANK};
use frontdesk_limits::{Gcra, Quota};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// A network's first submissions to a form, up to this number, are never part of a flood. The network's count
/// decreases by this number per hour, so one that sends no more often than that is never held by a flood.
const A_FEW: u32 = 3;
/// A network that sends more than this number of submissions per day, to all forms combined, is a
/// high-volume network. A used-up allowance recovers by one submission a day.
const DAILY_ALLOWANCE: u32 = 2;
/// The maximum of [`NetworkLoad::in_days`], the count of a network's submissions to all forms.
const MAX_COUNTED: u32 = 8;
/// The name under which a network's daily allowance is stored. No form has this name.
const ALLOWANCE: &str = "";
/// The name under which a network's count for all forms is stored. No form has this name.
const ALL_FORMS: &str = "*";

/// Counts a submission against a form's quotas per minute and per hour, and returns true. If either is used
/// up, only records in [`FormRate::over_at`] that it was exceeded at `now`, and returns false.
fn count_in_quota(rate: &mut FormRate, quota: Quota, now: i64) -> bool {
    let minute = Gcra::per(MINUTE, quota.per_minute).charge(rate.minute, now);
    let hour = Gcra::per(HOUR, quota.per_hour).charge(rate.hour, now);
    if let (Ok(minute), Ok(hour)) = (minute, hour) {
        (rate.minute, rate.hour) = (minute, hour);
        return true;
    }
    rate.over_at = Some(now / 1000);
    false
}

/// How busy a submission's form and network were when it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Whether the submission belongs to a flood: it exceeds its form's quota, and its network has sent
    /// [`A_FEW`] or more before it.
    pub is_flood: bool,
    pub network: NetworkLoad,
}

/// How much a network had sent before a submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetworkLoad {
    /// A count of the network's submissions to the same form, at most 72, which decreases by [`A_FEW`] each
    /// hour.
    pub before: u64,
    /// Whether the network has used up its daily allowance.
    pub is_high_volume: bool,
    /// A count of the network's submissions to all forms, at most [`MAX_COUNTED`], which decreases by one
    /// each day.
    pub in_days: u64,
}

/// The rates of forms and networks, and the changes that a batch makes to them.
#[derive(Debug)]
pub(crate) struct Rates<'a> {
    /// The quota of forms without an entry in `own_quotas`; `None` disables flood detection for all forms.
    pub quota: Option<Quota>,
    /// The quotas of individual forms, by form name.
    pub own_quotas: &'a BTreeMap<String, Quota>,
    pub forms: FormRates,
    pub networks: NetworkRates,
    /// The networks whose rates have changed.
    pub changed: BTreeSet<Hash>,
    /// The current time by the database's clock, in milliseconds; `i64::MAX` if the database has no clock of
    /// its own. A submission with a later time counts as received at this time.
    pub latest: i64,
}

impl<'a> Rates<'a> {
    /// Creates rates that count no submissions yet.
    pub(crate) fn new(
        quota: Option<Quota>,
        own_quotas: &'a BTreeMap<String, Quota>,
        latest: i64,
    ) -> Rates<'a> {
        Rates {
            quota,
            own_quotas,
            forms: FormRates::new(),
            networks: NetworkRates::new(),
            changed: BTreeSet::new(),
            latest,
        }
    }

    /// Counts a submission for its network, but not against the form's quota, and returns what the network
    /// had sent before. That is enough for a repeat, which is not delivered separately.
    pub(crate) fn count_for_network(&mut self, form: &str, network: Hash, received_at: i64) -> NetworkLoad {
        let now = self.microseconds_by_database_clock(received_at);
        self.changed.insert(network);
        let mut count = |form: &str, step: Duration, burst: Duration| {
            let rested = self.networks.entry((form.to_owned(), network)).or_default();
            let before;
            (before, *rested) = Gcra::new(step, burst).count(*rested, now);
            before
        };
        let before = count(form, HOUR / A_FEW, DAY);
        let is_high_volume = count(ALLOWANCE, DAY, DAY * DAILY_ALLOWANCE) >= DAILY_ALLOWANCE.into();
        NetworkLoad { before, is_high_volume, in_days: count(ALL_FORMS, DAY, DAY * MAX_COUNTED) }
    }

    /// Counts a submission, which screening must not have held, for its network and against the form's quota.
    /// Returns the load before it. A submission beyond the quota counts only for its network.
    pub(crate) fn count(&mut self, form: &str, network: Hash, received_at: i64) -> Load {
        let network = self.count_for_network(form, network, received_at);
        let now = self.microseconds_by_database_clock(received_at);
        let quota = self.quota.map(|quota| self.own_quotas.get(form).copied().unwrap_or(quota));
        let is_over = quota
            .is_some_and(|quota| !count_in_quota(self.forms.entry(form.to_owned()).or_default(), quota, now));
        Load { is_flood: is_over && network.before >= A_FEW.into(), network }
    }

    /// Converts milliseconds to microseconds, capped at [`Rates::latest`].
    fn microseconds_by_database_clock(&self, received_at: i64) -> i64 {
        received_at.min(self.latest).saturating_mul(1000)
    }
}

/// The rank of a submission's deliveries, which are sent in this order: those of networks within their daily
/// allowance before those of high-volume networks, in either case suspicious ones last. Otherwise, a
/// network's first submission has rank 0, and the rank grows with the logarithm of the number of its
/// submissions. For high-volume networks, it grows with [`NetworkLoad::in_days`], so that a visitor's third
/// submission precedes those of networks that have sent more, even if they sent slowly.
pub(crate) fn rank(network: NetworkLoad, is_suspicious: bool) -> i64 {
    let of_network = if network.is_high_volume {
        HIGH_VOLUME_RANK + i64::try_from(network.in_days).unwrap_or(i64::MAX)
    } else {
        i64::from(u64::BITS - network.before.leading_zeros())
    };
    of_network + if is_suspicious { SUSPICIOUS_RANK } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "contact";
    const SECOND: i64 = 1000;

    static NO_QUOTAS: BTreeMap<String, Quota> = BTreeMap::new();

    fn rates(per_minute: u32, per_hour: u32) -> Rates<'static> {
        Rates::new(Some(Quota { per_minute, per_hour }), &NO_QUOTAS, i64::MAX)
    }

    #[test]
    fn beyond_the_quota_only_networks_that_sent_many_are_in_the_flood() {
        let mut rates = rates(10, 1000);
        let flood: Vec<bool> = (0..20).map(|n| rates.count(FORM, [1; 16], n).is_flood).collect();
        assert_eq!(flood.iter().position(|is_flood| *is_flood), Some(10));
        assert!(flood[10..].iter().all(|is_flood| *is_flood));
        for n in 0..6 {
            let load = rates.count(FORM, [2; 16], 20);
            assert_eq!(
                (load.is_flood, load.network.before),
                (n >= A_FEW.into(), n),
                "submission {n} of another network"
            );
        }
        assert_eq!(rates.forms[FORM].over_at, Some(20));
        assert!(!rates.count("waitlist", [1; 16], 20).is_flood, "another form");
        // A minute later the quota is restored.
        assert!(!rates.count(FORM, [1; 16], 61 * SECOND).is_flood);
    }

    #[test]
    fn a_quota_of_an_hour_outlasts_the_minute() {
        let mut rates = rates(1000, 5);
        let mut count = |at| rates.count(FORM, [1; 16], at).is_flood;
        assert!((0..5).all(|at| !count(at)) && count(5) && count(600 * SECOND));
        assert!(!count(721 * SECOND), "a fifth of an hour later, one more fits");
    }

    #[test]
    fn without_limits_there_is_no_flood() {
        let mut rates = Rates::new(None, &NO_QUOTAS, i64::MAX);
        assert!((0..1000).all(|_| !rates.count(FORM, [1; 16], 0).is_flood));
        assert!(rates.forms.is_empty());
    }

    #[test]
    fn submissions_count_for_their_network_for_a_day_at_most() {
        let mut rates = rates(1, 1);
        let counted: Vec<u64> = (0..200).map(|_| rates.count(FORM, [1; 16], 0).network.before).collect();
        assert_eq!((counted[1], counted[71], counted[199]), (1, 71, 72));
        assert_eq!(rates.count(FORM, [1; 16], 24 * 3600 * SECOND).network.before, 0);
    }

    #[test]
    fn a_wrong_clock_makes_no_flood() {
        let mut rates = rates(3, 100);
        // One replica's clock is seven minutes ahead, and another's is correct.
        for n in 0..4 {
            rates.count(FORM, [1; 16], 420 * SECOND + n);
        }
        assert_eq!(rates.forms[FORM].over_at, Some(420 * SECOND + 3));
        assert!(!rates.count(FORM, [1; 16], 0).is_flood);
        // The database's clock caps the times.
        let mut rates = Rates { latest: 0, ..rates };
        assert!(!rates.count(FORM, [1; 16], 420 * SECOND).is_flood);
        assert_eq!(rates.forms[FORM].minute, 40_000_000);
    }

    #[test]
    fn ranks_grow_with_the_logarithm_and_suspicion_comes_last() {
        let load = |before, is_high_volume| NetworkLoad { before, is_high_volume, in_days: 3 };
        assert_eq!([0, 1, 2, 3, 4, 72].map(|before| rank(load(before, false), false)), [0, 1, 2, 2, 3, 7]);
        assert!(rank(load(0, true), false) > rank(load(72, false), false));
        assert!(rank(load(0, false), true) < rank(load(1, false), true));
        let more = NetworkLoad { in_days: MAX_COUNTED.into(), ..load(0, true) };
        assert!(rank(load(0, true), false) < rank(more, false));
        assert!(rank(more, false) < rank(load(0, true), true));
        assert!(rank(load(72, false), true) < rank(load(0, true), false));
    }

    #[test]
    fn a_network_has_two_submissions_a_day_over_all_forms() {
        let mut rates = rates(100, 1000);
        let mut is_high_volume =
            |form, hour: i64| rates.count_for_network(form, [1; 16], hour * 3600 * SECOND).is_high_volume;
        assert_eq!(
            [("contact", 0), ("waitlist", 0), ("contact", 1)].map(|(form, at)| is_high_volume(form, at)),
            [false, false, true]
        );
        // The allowance recovers by one submission a day. Submissions beyond the allowance delay its
        // recovery by at most a day.
        assert!(is_high_volume("contact", 20) && !is_high_volume("contact", 45));
    }

    #[test]
    fn a_network_that_sends_slowly_all_day_ranks_after_a_third_submission() {
        let mut rates = rates(100, 1000);
        let mut last = |network: u8, minutes: &[i64]| {
            let loads = minutes.iter().map(|minute| rates.count(FORM, [network; 16], minute * 60 * SECOND));
            rank(loads.last().expect("at least one load").network, false)
        };
        let every_20_minutes: Vec<i64> = (0..12).map(|n| n * 20).collect();
        assert!(last(1, &[239, 239, 240]) < last(2, &every_20_minutes));
    }
}
