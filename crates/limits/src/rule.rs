//! The quotas of both layers, and what follows from their debts: which layer refuses a request, for how long,
//! and the status of each quota. With Redis, `gcra.lua` decides whether a request is allowed.

use std::time::Duration;

use super::gcra::{self, WindowQuota};
use super::quota::{Admission, Layer, LimitDecision, LimitOptions, QuotaStatuses};

/// The quotas of a source and of a network, per minute and per hour, in the ticks that `gcra.lua` uses.
#[derive(Clone, Copy, Debug)]
pub struct LimitRule {
    pub(super) source: [WindowQuota; 2],
    pub(super) network: [WindowQuota; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptReply {
    pub is_allowed: bool,
    /// Debts in ticks after this request: the source's per minute and per hour, then its network's.
    pub debts: [u32; 4],
}

impl LimitRule {
    /// Takes the quotas from the options. Raises a network's quota to at least the quota of a source.
    pub fn new(options: &LimitOptions) -> LimitRule {
        let network = options.network.at_least(options.source);
        LimitRule {
            source: gcra::window_quotas(options.source, ["minute", "hour"]),
            network: gcra::window_quotas(network, ["network-minute", "network-hour"]),
        }
    }

    /// The quotas of the source, and then those of the network: requests per minute and per hour.
    pub fn quotas(&self) -> [[u32; 2]; 2] {
        [self.source, self.network].map(|windows| windows.map(|window| window.quota))
    }

    /// Converts the script's reply to a decision about a request. `None` if the reply contradicts this rule:
    /// a debt exceeds its maximum, or the request is refused although both layers allow it.
    pub fn decide(&self, reply: ScriptReply) -> Option<LimitDecision> {
        let statuses = self.statuses(reply.debts)?;
        let [a, b, c, d] = reply.debts;
        let waits =
            [gcra::time_until_allowed(&self.source, [a, b]), gcra::time_until_allowed(&self.network, [c, d])];
        let admission = if reply.is_allowed { Admission::Allowed } else { refusal(waits)? };
        Some(LimitDecision { admission, statuses: Some(statuses) })
    }

    /// The status of each quota, given these debts. `None` if a debt exceeds the maximum for its quota.
    pub fn statuses(&self, debts: [u32; 4]) -> Option<QuotaStatuses> {
        let [[a, b], [c, d]] = [self.source, self.network];
        let windows = [a, b, c, d];
        if windows.iter().zip(debts).any(|(window, debt)| debt > window.max_debt()) {
            return None;
        }
        Some(std::array::from_fn(|at| windows[at].status_for_debt(debts[at])))
    }
}

/// A refusal that asks the client to wait for the longer of the two times. `None` if both are zero.
pub(super) fn refusal([source, network]: [Duration; 2]) -> Option<Admission> {
    match source.max(network) {
        Duration::ZERO => None,
        retry_after if source >= network => Some(Admission::Refused { by: Layer::Source, retry_after }),
        retry_after => Some(Admission::Refused { by: Layer::Network, retry_after }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quota;

    /// The number of ticks in a window if the quota is a power of two.
    const WINDOW: u32 = 1 << 24;

    #[test]
    fn the_numbers_are_the_quotas_in_the_order_of_the_layers() {
        let options = LimitOptions {
            source: Quota { per_minute: 8, per_hour: 16 },
            network: Quota { per_minute: 4, per_hour: 32 },
            ..LimitOptions::default()
        };
        // A network has at least the quota of one of its sources.
        assert_eq!(LimitRule::new(&options).quotas(), [[8, 16], [8, 32]]);
    }

    #[test]
    fn the_layer_with_the_longest_wait_refuses() {
        let refused = |debts| match rule().decide(entry(false, debts)).unwrap().admission {
            Admission::Refused { by, retry_after } => (by, retry_after.as_secs_f64().round()),
            Admission::Allowed => panic!("{debts:?}"),
        };
        // A request costs a quarter of each of the source's quotas, and an eighth of each of the network's.
        assert_eq!(refused([WINDOW, 0, 0, 0]), (Layer::Source, 15.0));
        assert_eq!(refused([WINDOW, WINDOW, 0, 0]), (Layer::Source, 900.0));
        assert_eq!(refused([0, 0, WINDOW, 0]), (Layer::Network, 8.0));
        assert_eq!(refused([WINDOW, 0, WINDOW, WINDOW]), (Layer::Network, 450.0));
        assert_eq!(refused([WINDOW, 0, WINDOW, 0]), (Layer::Source, 15.0));
    }

    #[test]
    fn an_allowed_request_reports_its_quotas() {
        let decision = rule().decide(entry(true, [WINDOW / 4, WINDOW / 2, WINDOW / 8, 1])).unwrap();
        assert_eq!(decision.admission, Admission::Allowed);
        let said =
            decision.statuses.unwrap().map(|status| (status.remaining, status.effective_window_seconds));
        assert_eq!(said, [(3, 15), (2, 900), (7, 8), (7, 1)]);
    }

    #[test]
    fn a_reply_that_contradicts_the_rule_is_no_decision() {
        assert_eq!(rule().decide(entry(false, [0; 4])), None);
        assert_eq!(rule().decide(entry(false, [WINDOW - WINDOW / 4, 0, 0, 0])), None);
        for at in 0..4 {
            let mut debts = [0; 4];
            debts[at] = WINDOW;
            assert!(rule().statuses(debts).is_some(), "{at}");
            debts[at] += 1;
            assert_eq!((rule().decide(entry(true, debts)), rule().statuses(debts)), (None, None), "{at}");
        }
    }

    fn rule() -> LimitRule {
        let quota = |count| Quota { per_minute: count, per_hour: count };
        LimitRule::new(&LimitOptions { source: quota(4), network: quota(8), ..LimitOptions::default() })
    }

    fn entry(is_allowed: bool, debts: [u32; 4]) -> ScriptReply {
        ScriptReply { is_allowed, debts }
    }
}
