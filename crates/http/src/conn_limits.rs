//! Limits the number of connections: in total, per source and per network. When the server is nearly full, it
//! closes idle connections from the sources that have the most, and busy ones as soon as they are idle.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection_memory::{Closing, Slot};
use super::counters::CloseReason;
use super::options::Options;
use super::socket::Peer;
use super::trusted_proxies::is_trusted;
use frontdesk_limits::{Source, SourceNetwork};

/// The open connections on the public sockets of a server.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<OpenConns>,
}

#[derive(Debug, Default)]
struct OpenConns {
    all: usize,
    by_source: HashMap<Source, Vec<Arc<Slot>>>,
    by_network: HashMap<SourceNetwork, usize>,
    evicted_at: Option<Instant>,
    /// Sources that are refused until the given time, because their connections held the most memory.
    blocked: HashMap<Source, Instant>,
}

/// The reserve is a sixteenth of `max_connections`. Once only the reserve is left, idle connections are
/// evicted, up to a sixteenth of `max_connections` at a time.
const RESERVE_DIVISOR: usize = 16;
/// Networks with this many connections cannot open further ones while only the reserve is free.
const MAX_IN_RESERVE: usize = 4;
/// The minimum time between two evictions. Evicted connections take a moment to close.
const EVICT_EVERY: Duration = Duration::from_millis(50);

impl OpenConns {
    /// Whether at most a sixteenth of `max_connections`, the reserve, is free.
    fn is_nearly_full(&self, options: &Options) -> bool {
        self.all + options.max_connections / RESERVE_DIVISOR >= options.max_connections
    }

    /// Evicts connections from the sources that have the most: idle ones now, busy ones after their response.
    /// At most a sixteenth of `max_connections` are then closing; if that many were closing before, one more.
    /// Spares trusted proxies. Does nothing if the last eviction was less than [`EVICT_EVERY`] ago.
    fn make_room(&mut self, options: &Options) {
        let now = Instant::now();
        if self.evicted_at.is_some_and(|at| now.duration_since(at) < EVICT_EVERY) {
            return;
        }
        self.evicted_at = Some(now);
        let mut sources: Vec<&Vec<Arc<Slot>>> = self.by_source.values().collect();
        sources.sort_unstable_by_key(|slots| std::cmp::Reverse(slots.len()));
        // Evict at least one connection per call: those that are already closing may take a long time to end.
        let closing = self.by_source.values().flatten().filter(|slot| slot.closing().is_some()).count();
        let most = (options.max_connections / RESERVE_DIVISOR).saturating_sub(closing).max(1);
        let slots = sources.into_iter().flatten().filter(|slot| slot.closing().is_none());
        slots.take(most).for_each(|slot| slot.close(Closing::WhenIdle));
    }

    /// Counts a connection for `source` and its network, but not in `all`. Fails if the source is blocked, if
    /// the source or its network is at its limit, or if the network has [`MAX_IN_RESERVE`] connections while
    /// only the reserve is left.
    fn count(&mut self, source: Source, slot: &Arc<Slot>, options: &Options) -> Result<(), CloseReason> {
        let network = source.network();
        let in_network = self.by_network.get(&network).copied().unwrap_or_default();
        // Busy connections cannot be evicted, so keep the reserve for networks with few connections.
        if self.is_nearly_full(options) && in_network >= MAX_IN_RESERVE {
            return Err(CloseReason::All);
        }
        let of_network = options.max_connections_per_network.max(options.max_connections_per_source);
        if self.blocked.get(&source).is_some_and(|until| Instant::now() < *until) {
            return Err(CloseReason::Memory);
        }
        if self.by_source.get(&source).is_some_and(|held| held.len() >= options.max_connections_per_source) {
            return Err(CloseReason::Source);
        }
        if in_network >= of_network {
            return Err(CloseReason::Network);
        }
        self.by_source.entry(source).or_default().push(slot.clone());
        *self.by_network.entry(network).or_default() += 1;
        Ok(())
    }

    /// Reverses [`OpenConns::count`], and drops entries that become empty.
    fn uncount(&mut self, source: Source, slot: &Arc<Slot>) {
        if let Entry::Occupied(mut slots) = self.by_source.entry(source) {
            slots.get_mut().retain(|other| !Arc::ptr_eq(other, slot));
            if slots.get().is_empty() {
                slots.remove();
            }
        }
        if let Entry::Occupied(mut count) = self.by_network.entry(source.network()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// The memory that one connection holds.
pub(super) struct Holding {
    pub(super) source: Source,
    pub(super) bytes: usize,
    pub(super) slot: Arc<Slot>,
}

impl Connections {
    /// Admits a connection if no limit has been reached and its source is not blocked. Connections from
    /// trusted proxies count only towards the total. If only the reserve is left, also evicts connections.
    pub(super) fn admit(self: &Arc<Self>, peer: Peer, options: &Options) -> Result<ConnPermit, CloseReason> {
        let source = (!is_trusted(&options.trusted_proxies, peer)).then(|| Source::from(peer.address));
        let mut open = self.lock();
        if open.is_nearly_full(options) {
            open.make_room(options);
        }
        if open.all >= options.max_connections {
            return Err(CloseReason::All);
        }
        let slot = Arc::new(Slot::default());
        if let Some(source) = source {
            open.count(source, &slot, options)?;
        }
        open.all += 1;
        Ok(ConnPermit { connections: self.clone(), source, slot })
    }

    /// The memory that each connection holds. Connections from trusted proxies are left out.
    pub(super) fn holdings(&self) -> Vec<Holding> {
        let open = self.lock();
        let slots =
            open.by_source.iter().flat_map(|(source, slots)| slots.iter().map(|slot| (*source, slot)));
        slots.map(|(source, slot)| Holding { source, bytes: slot.cost(), slot: slot.clone() }).collect()
    }

    /// The total memory of the connections that [`Connections::holdings`] returns, in bytes.
    pub(super) fn total_memory(&self) -> usize {
        self.lock().by_source.values().flatten().map(|slot| slot.cost()).sum()
    }

    /// Closes the connections in `holdings` at once, and refuses new ones from their sources until `until`.
    pub(super) fn close_and_block(&self, holdings: &[Holding], until: Instant) {
        let mut open = self.lock();
        open.blocked.extend(holdings.iter().map(|holding| (holding.source, until)));
        drop(open);
        for holding in holdings {
            holding.slot.close(Closing::Now);
        }
    }

    pub(super) fn lift_expired_blocks(&self, now: Instant) {
        self.lock().blocked.retain(|_, until| now < *until);
    }

    fn lock(&self) -> MutexGuard<'_, OpenConns> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one admitted connection towards the limits until the permit is dropped.
pub(super) struct ConnPermit {
    connections: Arc<Connections>,
    source: Option<Source>,
    pub(super) slot: Arc<Slot>,
}

impl ConnPermit {
    /// Counts a proxy's connection as one from `client`, unless that is a trusted proxy too. Fails as
    /// [`OpenConns::count`] does, and then changes nothing.
    pub(super) fn assign_client(&mut self, client: Peer, options: &Options) -> Result<(), CloseReason> {
        if is_trusted(&options.trusted_proxies, client) {
            return Ok(());
        }
        let source = Source::from(client.address);
        let mut open = self.connections.lock();
        open.count(source, &self.slot, options)?;
        if let Some(before) = self.source.replace(source) {
            open.uncount(before, &self.slot);
        }
        Ok(())
    }
}

impl Drop for ConnPermit {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.all -= 1;
        if let Some(source) = self.source {
            open.uncount(source, &self.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_memory::cost;

    #[test]
    fn the_reserve_is_for_networks_with_few_connections() {
        let options = Options { max_connections: 1600, ..Options::default() };
        let connections = Arc::new(Connections::default());
        let admit = |network: u8| {
            let peer = Peer::at([10, 0, network, 1].into());
            connections.admit(peer, &options).ok()
        };
        // All permits are held, as if requests were in progress, so eviction makes no room.
        let held: Vec<_> = (0..20).flat_map(|network| (0..200).filter_map(move |_| admit(network))).collect();
        assert!((1500..1600).contains(&held.len()), "{}", held.len());
        assert!(admit(0).is_none() && admit(200).is_some());
    }

    #[test]
    fn connections_are_limited_by_source_and_network() {
        let options =
            Options { max_connections_per_source: 2, max_connections_per_network: 3, ..Options::default() };
        let connections = Arc::new(Connections::default());
        let admit = |address: &str| {
            let peer = Peer::at(address.parse().expect("an address"));
            connections.admit(peer, &options).map_err(|reason| reason as usize)
        };
        for [first, second, elsewhere] in [
            ["192.0.2.1", "192.0.2.200", "198.51.100.1"],
            ["2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:2:1::1"],
        ] {
            let mut held = vec![admit(first).expect("room"), admit(first).expect("room")];
            assert_eq!(admit(first).err(), Some(CloseReason::Source as usize));
            held.push(admit(second).expect("room for another source of the network"));
            assert_eq!(admit(second).err(), Some(CloseReason::Network as usize));
            held.push(admit(elsewhere).expect("another network is not affected"));
            held.remove(0);
            held.push(admit(second).expect("room again"));
            drop(held);
        }
        let open = connections.lock();
        assert!(open.all == 0 && open.by_source.is_empty() && open.by_network.is_empty());
    }

    #[test]
    fn a_source_whose_connections_were_shed_is_refused_for_a_while() {
        let options = Options::default();
        let connections = Arc::new(Connections::default());
        let admit = |address: &str| {
            let peer = Peer::at(address.parse().expect("an address"));
            connections.admit(peer, &options).map_err(|reason| reason as usize)
        };
        let (first, other) = (admit("192.0.2.1").expect("room"), admit("192.0.2.2").expect("room"));
        let charge = first.slot.charge(1000);
        let mut holdings = connections.holdings();
        assert_eq!(connections.total_memory(), 2 * cost::CONNECTION + 1000);
        holdings.retain(|holding| holding.bytes > cost::CONNECTION);
        let until = Instant::now() + Duration::from_hours(1);
        connections.close_and_block(&holdings, until);
        assert_eq!((first.slot.closing(), other.slot.closing()), (Some(Closing::Now), None));
        assert_eq!(admit("192.0.2.1").err(), Some(CloseReason::Memory as usize));
        assert!(admit("192.0.2.2").is_ok(), "its neighbor is not affected");
        connections.lift_expired_blocks(until);
        assert!(admit("192.0.2.1").is_ok());
        drop((charge, first, other, holdings));
        assert_eq!(connections.total_memory(), 0);
    }
}
