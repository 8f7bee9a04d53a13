//! Blocks of addresses, and limits on connections: in all, of one source and of one network. When the server is nearly full, idle
//! connections are closed, those of the largest source first.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::Options;
use super::metrics::Shed;
use super::socket::{Peer, Trust};
use crate::inbox::limit::{Neighbourhood, Source};

/// A block of addresses in CIDR notation (RFC 4632), or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Whether `address` is in the block. An IPv4 address that is mapped into IPv6 counts as what it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                u32::from(network) & mask == u32::from(address) & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                u128::from(network) & mask == u128::from(address) & mask
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!("`{text}` is no address or block such as `10.0.0.0/8`, `192.0.2.7` or `2001:db8::/32`")
        };
        let (address, prefix) =
            text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => longest,
            Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= longest).ok_or_else(expected)?,
        };
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Whether `peer` is a proxy whose headers are trusted.
pub(super) fn is_trusted(options: &Options, peer: Peer) -> bool {
    match peer.trust {
        Trust::ByAddress => options.trusted_proxies.iter().any(|network| network.contains(peer.address)),
        Trust::Always => true,
        Trust::Never => false,
    }
}

/// Counts the open connections, in all, by source and by network.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_source: HashMap<Source, Vec<Arc<Slot>>>,
    by_network: HashMap<Neighbourhood, usize>,
    /// When idle connections were last evicted.
    evicted_at: Option<Instant>,
}

/// Idle connections are evicted while fewer than this part of all places is free; as many are evicted at a time.
const RESERVE: usize = 16;
/// The shortest time between two evictions: connections that are evicted take a moment to close.
const EVICT_EVERY: Duration = Duration::from_millis(50);

impl Open {
    /// Evicts connections of the largest sources. One that has a request under way is closed after its response.
    fn make_room(&mut self, options: &Options) {
        let now = Instant::now();
        if self.evicted_at.is_some_and(|at| now.duration_since(at) < EVICT_EVERY) {
            return;
        }
        self.evicted_at = Some(now);
        let mut sources: Vec<&Vec<Arc<Slot>>> = self.by_source.values().collect();
        sources.sort_unstable_by_key(|slots| std::cmp::Reverse(slots.len()));
        let slots = sources.into_iter().flatten().filter(|slot| !slot.is_evicted());
        slots.take((options.max_connections / RESERVE).max(1)).for_each(|slot| slot.evict());
    }

    /// Counts one more connection of `source`, unless it or its network has as many as it may.
    fn count(&mut self, source: Source, slot: &Arc<Slot>, options: &Options) -> Result<(), Shed> {
        let network = source.neighbourhood();
        let of_network = options.max_connections_per_network.max(options.max_connections_per_source);
        if self.by_source.get(&source).is_some_and(|held| held.len() >= options.max_connections_per_source) {
            return Err(Shed::Source);
        }
        if self.by_network.get(&network).is_some_and(|held| *held >= of_network) {
            return Err(Shed::Network);
        }
        self.by_source.entry(source).or_default().push(slot.clone());
        *self.by_network.entry(network).or_default() += 1;
        Ok(())
    }

    /// Counts one less. What has no connections takes no memory.
    fn forget(&mut self, source: Source, slot: &Arc<Slot>) {
        if let Entry::Occupied(mut slots) = self.by_source.entry(source) {
            slots.get_mut().retain(|other| !Arc::ptr_eq(other, slot));
            if slots.get().is_empty() {
                slots.remove();
            }
        }
        if let Entry::Occupied(mut count) = self.by_network.entry(source.neighbourhood()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// What the server tells one connection from another thread: that its place is needed.
#[derive(Debug, Default)]
pub(super) struct Slot {
    is_evicted: AtomicBool,
    /// Wakes the connection's task.
    waker: OnceLock<Waker>,
}

impl Slot {
    /// Names the task that is to be woken when the connection is evicted.
    pub(super) fn is_served_by(&self, waker: &Waker) {
        let _ = self.waker.set(waker.clone());
    }

    /// Whether the connection is to be closed as soon as it is idle.
    pub(super) fn is_evicted(&self) -> bool {
        self.is_evicted.load(Relaxed)
    }

    fn evict(&self) {
        self.is_evicted.store(true, Relaxed);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

impl Connections {
    /// A place for a connection from `peer`, held until it is dropped; an error if the server, the source or its network has too many. A
    /// trusted proxy is no source.
    pub(super) fn admit(self: &Arc<Self>, peer: Peer, options: &Options) -> Result<Place, Shed> {
        let source = (!is_trusted(options, peer)).then(|| Source::from(peer.address));
        let mut open = self.lock();
        if open.all + options.max_connections / RESERVE >= options.max_connections {
            open.make_room(options);
        }
        if open.all >= options.max_connections {
            return Err(Shed::All);
        }
        let slot = Arc::new(Slot::default());
        if let Some(source) = source {
            open.count(source, &slot, options)?;
        }
        open.all += 1;
        Ok(Place { connections: self.clone(), source, slot })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's place; dropping it makes room.
#[derive(Debug)]
pub(super) struct Place {
    connections: Arc<Connections>,
    source: Option<Source>,
    slot: Arc<Slot>,
}

impl Place {
    pub(super) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Counts the connection as one of `client`, for which a proxy has opened it; an error if the client or its network has too many.
    pub(super) fn belongs_to(&mut self, client: Peer, options: &Options) -> Result<(), Shed> {
        if is_trusted(options, client) {
            return Ok(());
        }
        let source = Source::from(client.address);
        let mut open = self.connections.lock();
        open.count(source, &self.slot, options)?;
        if let Some(before) = self.source.replace(source) {
            open.forget(before, &self.slot);
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.all -= 1;
        if let Some(source) = self.source {
            open.forget(source, &self.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_limited_by_source_and_network() {
        let options =
            Options { max_connections_per_source: 2, max_connections_per_network: 3, ..Options::default() };
        let connections = Arc::new(Connections::default());
        let admit = |address: &str| {
            let peer = Peer::at(address.parse().expect("an address"));
            connections.admit(peer, &options).map_err(|shed| shed as usize)
        };
        for [first, second, elsewhere] in [
            ["192.0.2.1", "192.0.2.200", "198.51.100.1"],
            ["2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:2:1::1"],
        ] {
            let mut held = vec![admit(first).expect("room"), admit(first).expect("room")];
            assert_eq!(admit(first).err(), Some(Shed::Source as usize));
            held.push(admit(second).expect("room for another source of the network"));
            assert_eq!(admit(second).err(), Some(Shed::Network as usize));
            held.push(admit(elsewhere).expect("another network is not affected"));
            held.remove(0);
            held.push(admit(second).expect("room again"));
            drop(held);
        }
        let open = connections.lock();
        assert!(open.all == 0 && open.by_source.is_empty() && open.by_network.is_empty());
    }

    #[test]
    fn networks_are_read_and_compared_by_their_prefix() {
        let network = |text: &str| text.parse::<Network>();
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert!(network("10.0.0.0/8").expect("valid").contains(address("10.200.1.1")));
        assert!(!network("10.0.0.0/8").expect("valid").contains(address("11.0.0.1")));
        assert!(network("0.0.0.0/0").expect("valid").contains(address("11.0.0.1")));
        assert!(network("::/0").expect("valid").contains(address("2001:db8::1")));
        assert!(network("2001:db8::/32").expect("valid").contains(address("2001:db8:1::1")));
        assert!(network("192.0.2.7").expect("valid").contains(address("::ffff:192.0.2.7")));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "localhost", "10.0.0.0/"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }
}
