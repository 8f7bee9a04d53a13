//! The same rule over debts that are kept exactly and elsewhere: which numbers whoever keeps them counts with, and what becomes
//! of a request with what he answers.

use std::time::Duration;

use super::gcra::{self, Pace};
use super::{Admission, Decision, Layer, Options, Standings};

/// The quotas of all layers. The numbers that leave it are quotas and ticks (`gcra.rs`).
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub(super) source: [Pace; 2],
    pub(super) network: [Pace; 2],
}

/// What a ledger has to say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whether it goes on, and was charged.
    pub is_allowed: bool,
    /// In ticks, after this request: the source's over a minute and an hour, then its network's.
    pub debts: [u32; 4],
}

impl Rule {
    /// What the operator decides; a network never gets less than a source.
    pub fn new(options: &Options) -> Rule {
        let network = options.network.at_least(options.source);
        Rule { source: options.source.paces(Layer::Source), network: network.paces(Layer::Network) }
    }

    /// How many requests fit into a minute and an hour: of the source and of the network.
    pub fn quotas(&self) -> [[u32; 2]; 2] {
        [self.source, self.network].map(|paces| paces.map(Pace::quota))
    }

    /// What becomes of a request; none if this rule cannot have led there.
    pub fn decide(&self, entry: Entry) -> Option<Decision> {
        let standings = self.standings(entry.debts)?;
        let (source, network) = halves(entry.debts);
        let waits = [gcra::wait(&self.source, source), gcra::wait(&self.network, network)];
        let admission = if entry.is_allowed { Admission::Allowed } else { refusal(waits)? };
        Some(Decision { admission, standings: Some(standings) })
    }

    /// What is said of these debts; none if they are larger than this rule lets them become.
    pub fn standings(&self, debts: [u32; 4]) -> Option<Standings> {
        let [[a, b], [c, d]] = [self.source, self.network];
        let paces = [a, b, c, d];
        if paces.iter().zip(debts).any(|(pace, debt)| debt > pace.most()) {
            return None;
        }
        Some(std::array::from_fn(|at| paces[at].standing(debts[at])))
    }
}

fn halves([a, b, c, d]: [u32; 4]) -> ([u32; 2], [u32; 2]) {
    ([a, b], [c, d])
}

/// Who makes a request wait the longest, and for how long; none if neither source nor network does.
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
    use crate::limits::Quota;

    /// A tick is a 2⁻²⁴th of the window where the quota is a power of two.
    const WINDOW: u32 = 1 << 24;

    #[test]
    fn the_numbers_are_the_quotas_in_the_order_of_the_layers() {
        let options = Options {
            source: Quota { per_minute: 8, per_hour: 16 },
            network: Quota { per_minute: 4, per_hour: 32 },
            ..Options::default()
        };
        // Nobody has less than those whom he consists of.
        assert_eq!(Rule::new(&options).quotas(), [[8, 16], [8, 32]]);
    }

    #[test]
    fn who_must_wait_the_longest_is_told() {
        let refused = |debts| match rule().decide(entry(false, debts)).unwrap().admission {
            Admission::Refused { by, retry_after } => (by, retry_after.as_secs_f64().round()),
            Admission::Allowed => panic!("{debts:?}"),
        };
        // A request of the source costs a quarter of its minute, one of the network an eighth.
        assert_eq!(refused([WINDOW, 0, 0, 0]), (Layer::Source, 15.0));
        assert_eq!(refused([WINDOW, WINDOW, 0, 0]), (Layer::Source, 900.0));
        assert_eq!(refused([0, 0, WINDOW, 0]), (Layer::Network, 8.0));
        assert_eq!(refused([WINDOW, 0, WINDOW, WINDOW]), (Layer::Network, 450.0));
        assert_eq!(refused([WINDOW, 0, WINDOW, 0]), (Layer::Source, 15.0));
    }

    #[test]
    fn an_allowed_request_is_told_where_it_stands() {
        let decision = rule().decide(entry(true, [WINDOW / 4, WINDOW / 2, WINDOW / 8, 1])).unwrap();
        assert_eq!(decision.admission, Admission::Allowed);
        let said = decision.standings.unwrap().map(|standing| (standing.remaining, standing.reset_seconds));
        assert_eq!(said, [(3, 15), (2, 1800), (7, 8), (7, 1)]);
    }

    #[test]
    fn what_the_rule_cannot_have_led_to_is_no_decision() {
        assert_eq!(rule().decide(entry(false, [0; 4])), None);
        assert_eq!(rule().decide(entry(false, [WINDOW - WINDOW / 4, 0, 0, 0])), None);
        for at in 0..4 {
            let mut debts = [0; 4];
            debts[at] = WINDOW;
            assert!(rule().standings(debts).is_some(), "{at}");
            debts[at] += 1;
            assert_eq!((rule().decide(entry(true, debts)), rule().standings(debts)), (None, None), "{at}");
        }
    }

    fn rule() -> Rule {
        let quota = |count| Quota { per_minute: count, per_hour: count };
        Rule::new(&Options { source: quota(4), network: quota(8), ..Options::default() })
    }

    fn entry(is_allowed: bool, debts: [u32; 4]) -> Entry {
        Entry { is_allowed, debts }
    }
}
