//! Detects floods: more new submissions to a form than its quota allows. Pure.
//!
//! While a flood lasts, submissions beyond the quota are held until it ends if their network has sent more than a few lately. Others
//! are delivered, so a flood does not silence visitors from other networks. How much a network has sent also decides in which order
//! submissions are delivered.
//!
//! Quotas follow the generic cell rate algorithm, as in [`limit`](crate::limits). Times are Unix time in microseconds.

use std::collections::{BTreeSet, HashMap};

use super::fingerprint::Hash;
use crate::limits::Quota;

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;
/// How long one submission counts for its network, so that [`A_FEW`] an hour count as none.
const COUNTS_FOR: i64 = HOUR / A_FEW;
/// This many submissions of a network within an hour do not make it part of a flood.
const A_FEW: i64 = 3;
/// The longest time for which submissions count for their network, however many it has sent.
const COUNTS_AT_MOST: i64 = 24 * HOUR;

/// How much of its quota a form has used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FormRate {
    /// When the quota of a minute is restored.
    pub minute: i64,
    /// When the quota of an hour is restored.
    pub hour: i64,
    /// During a flood: when a submission last exceeded the quota, in milliseconds.
    pub over_at: Option<i64>,
}

impl FormRate {
    /// Counts one more submission if the quota allows it, and returns whether it does.
    fn count(&mut self, quota: Quota, now: i64) -> bool {
        let windows = [(&mut self.minute, MINUTE, quota.per_minute), (&mut self.hour, HOUR, quota.per_hour)];
        let after = windows.map(|(restored, window, quota)| {
            let step = window / i64::from(quota.max(1));
            let debt = debt(*restored, now, window);
            (restored, now + debt + step, debt + step <= window)
        });
        let fits = after.iter().all(|(_, _, fits)| *fits);
        if fits {
            for (restored, after, _) in after {
                *restored = after;
            }
        } else {
            self.over_at = Some(now / 1000);
        }
        fits
    }
}

/// How a new submission relates to what came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Whether it is part of a flood.
    pub is_flood: bool,
    /// How many submissions of its network count besides it.
    pub before: i64,
}

/// The rates of forms and networks, and which of them a batch of submissions has changed.
#[derive(Debug)]
pub(super) struct Rates {
    /// None where nothing is limited.
    pub quota: Option<Quota>,
    pub forms: HashMap<String, FormRate>,
    /// By form and network: when nothing of it counts any more.
    pub networks: HashMap<(String, Hash), i64>,
    /// The networks whose rates have changed.
    pub changed: BTreeSet<Hash>,
    /// The time in milliseconds by the database's clock, where it has one: a submission counts as received then at the latest.
    pub latest: i64,
}

/// How far a time lies ahead, and `most` at most. A time further ahead than that was written by a clock that was wrong, or has been set
/// back since, and counts for nothing.
fn debt(until: i64, now: i64, most: i64) -> i64 {
    let debt = until.saturating_sub(now);
    if debt > most + SLACK { 0 } else { debt.clamp(0, most) }
}

/// The number of submissions that a network's debt stands for.
fn submissions(debt: i64) -> i64 {
    (debt + COUNTS_FOR - 1) / COUNTS_FOR
}

/// How much the clocks of replicas may differ without a quota being forgotten.
const SLACK: i64 = 10_000_000;

impl Rates {
    /// The rates of nobody yet.
    pub(super) fn new(quota: Option<Quota>, latest: i64) -> Rates {
        Rates { quota, forms: HashMap::new(), networks: HashMap::new(), changed: BTreeSet::new(), latest }
    }

    /// Counts a request for its network alone, and returns how many count besides it. So a repeat, which is not delivered by itself, does
    /// not use up the form's quota.
    pub(super) fn count_for_network(&mut self, form: &str, network: Hash, received_at: i64) -> i64 {
        let now = self.time_of(received_at);
        let rested = self.networks.entry((form.to_owned(), network)).or_default();
        let debt = debt(*rested, now, COUNTS_AT_MOST);
        *rested = now + (debt + COUNTS_FOR).min(COUNTS_AT_MOST);
        self.changed.insert(network);
        submissions(debt)
    }

    /// Counts a submission that is to be delivered and was received at a time in milliseconds.
    pub(super) fn count(&mut self, form: &str, network: Hash, received_at: i64) -> Load {
        let before = self.count_for_network(form, network, received_at);
        let now = self.time_of(received_at);
        let is_over =
            self.quota.is_some_and(|quota| !self.forms.entry(form.to_owned()).or_default().count(quota, now));
        Load { is_flood: is_over && before >= A_FEW, before }
    }

    /// When a submission counts as received, in microseconds.
    fn time_of(&self, received_at: i64) -> i64 {
        received_at.min(self.latest).saturating_mul(1000)
    }
}

/// The order of deliveries: those of the lowest rank come first. A network's first submission has rank 0, and the rank grows with the
/// logarithm of their number, so that a network with many leaves room for others. Suspicious submissions come after all others.
pub(super) fn rank(before: i64, is_suspicious: bool) -> i64 {
    let of_network = i64::from(i64::BITS - before.max(0).leading_zeros());
    of_network + if is_suspicious { SUSPICIOUS } else { 0 }
}

/// The lowest rank of a suspicious submission.
pub(super) const SUSPICIOUS: i64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "contact";
    const SECOND: i64 = 1000;

    fn rates(per_minute: u32, per_hour: u32) -> Rates {
        Rates::new(Some(Quota { per_minute, per_hour }), i64::MAX)
    }

    #[test]
    fn beyond_the_quota_only_networks_that_sent_many_are_in_the_flood() {
        let mut rates = rates(10, 1000);
        let flood: Vec<bool> = (0..20).map(|n| rates.count(FORM, [1; 16], n).is_flood).collect();
        assert_eq!(flood.iter().position(|is_flood| *is_flood), Some(10));
        assert!(flood[10..].iter().all(|is_flood| *is_flood));
        for n in 0..6 {
            let load = rates.count(FORM, [2; 16], 20);
            assert_eq!((load.is_flood, load.before), (n >= A_FEW, n), "the {n}th of another network");
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
        assert!(!count(721 * SECOND), "a fifth of an hour later there is room for one");
    }

    #[test]
    fn without_limits_there_is_no_flood() {
        let mut rates = Rates::new(None, i64::MAX);
        assert!((0..1000).all(|_| !rates.count(FORM, [1; 16], 0).is_flood));
        assert!(rates.forms.is_empty());
    }

    #[test]
    fn submissions_count_for_their_network_for_a_day_at_most() {
        let mut rates = rates(1, 1);
        let counted: Vec<i64> = (0..200).map(|_| rates.count(FORM, [1; 16], 0).before).collect();
        assert_eq!((counted[1], counted[71], counted[199]), (1, 71, 72));
        assert_eq!(rates.count(FORM, [1; 16], 24 * 3600 * SECOND).before, 0);
    }

    #[test]
    fn a_wrong_clock_makes_no_flood() {
        let mut rates = rates(3, 100);
        // A replica is seven minutes ahead, and another one is right.
        for n in 0..4 {
            rates.count(FORM, [1; 16], 420 * SECOND + n);
        }
        assert_eq!(rates.forms[FORM].over_at, Some(420 * SECOND + 3));
        assert!(!rates.count(FORM, [1; 16], 0).is_flood);
        // The database's clock says what is too late.
        let mut rates = Rates { latest: 0, ..rates };
        assert!(!rates.count(FORM, [1; 16], 420 * SECOND).is_flood);
        assert_eq!(rates.forms[FORM].minute, 40_000_000);
    }

    #[test]
    fn ranks_grow_with_the_logarithm_and_suspicion_comes_last() {
        assert_eq!([0, 1, 2, 3, 4, 72].map(|before| rank(before, false)), [0, 1, 2, 2, 3, 7]);
        assert!(rank(0, true) > rank(i64::MAX, false) && rank(0, true) < rank(1, true));
    }
}
