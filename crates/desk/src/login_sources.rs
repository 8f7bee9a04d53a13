//! Limits the login links that one network can ask for in the name of a user, so that it cannot use up those
//! that the user may have.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use frontdesk_limits::{Source, SourceNetwork};

/// Maximum number of login links of one user for one network within [`PERIOD`].
pub(super) const MAX_LINKS: usize = 3;
pub(super) const PERIOD: SignedDuration = SignedDuration::from_mins(10);
/// Maximum number of pairs of a user and a network that are remembered at a time. Further pairs get no link.
const MAX_NETWORKS: usize = 5_000;

/// The times of the login links within the last [`PERIOD`], by user and network.
#[derive(Default)]
pub(super) struct LoginSources(Mutex<HashMap<(String, SourceNetwork), Vec<Timestamp>>>);

impl LoginSources {
    /// Counts a link for a user, who must exist. Returns false, and counts nothing, if the network of
    /// `source` has had [`MAX_LINKS`] for this user within the last [`PERIOD`]. Does the same if it had none
    /// and [`MAX_NETWORKS`] pairs of a user and a network are remembered.
    pub(super) fn take(&self, user: &str, source: Source, now: Timestamp) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, times| {
            times.retain(|at| now.duration_since(*at) < PERIOD);
            !times.is_empty()
        });
        let key = (user.to_owned(), source.network());
        if known.len() >= MAX_NETWORKS && !known.contains_key(&key) {
            return false;
        }
        let times = known.entry(key).or_default();
        let is_free = times.len() < MAX_LINKS;
        if is_free {
            times.push(now);
        }
        is_free
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_network_gets_few_links_of_a_user() {
        let sources = LoginSources::default();
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        let at = |after| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(after);
        let take = |user, text, after| sources.take(user, source(text), at(after));
        assert!((0..3).all(|n| take("ada", "192.0.2.1", n)));
        assert!(!take("ada", "192.0.2.1", 3) && !take("ada", "192.0.2.77", 4), "the same network");
        assert!(take("grace", "192.0.2.1", 5) && take("ada", "198.51.100.1", 5));
        assert!(!take("ada", "192.0.2.1", 599) && take("ada", "192.0.2.1", 600));
    }
}
