//! Blocks of addresses, and limits on connections: in all, of one source and of one network. When the server is nearly full, idle
//! connections are closed, those of the largest source first. Each connection's slot counts the memory that it holds (`memory.rs`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::Options;
use super::memory::{Charge, Holding, cost};
use super::metrics::Shed;
use super::socket::{Peer, Trust};
use crate::limits::{Neighbourhood, Source};

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
    /// Sources that are refused because their connections held the most memory, and until when.
    blocked: HashMap<Source, Instant>,
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
        // Connections that were evicted before may need a moment to close. One more is evicted nevertheless, because a slow request
        // can keep them open.
        let closing = self.by_source.values().flatten().filter(|slot| slot.closing().is_some()).count();
        let most = (options.max_connections / RESERVE).saturating_sub(closing).max(1);
        let slots = sources.into_iter().flatten().filter(|slot| slot.closing().is_none());
        slots.take(most).for_each(|slot| slot.close(Closing::WhenIdle));
    }

    /// Counts one more connection of `source`, unless it or its network has as many as it may.
    fn count(&mut self, source: Source, slot: &Arc<Slot>, options: &Options) -> Result<(), Shed> {
        let network = source.neighbourhood();
        let of_network = options.max_connections_per_network.max(options.max_connections_per_source);
        if self.blocked.get(&source).is_some_and(|until| Instant::now() < *until) {
            return Err(Shed::Memory);
        }
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

/// When a connection whose place is needed is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// As soon as it has no request under way and no response that is still being sent.
    WhenIdle,
    /// At once.
    Now,
}

/// What other threads know of a connection and tell it: how much memory it holds, and that it is to be closed.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// 0, or a [`Closing`].
    closing: AtomicU8,
    /// Wakes the connection's task.
    waker: OnceLock<Waker>,
    /// The sum of its charges, in bytes.
    held: AtomicUsize,
}

impl Slot {
    /// Names the task that is to be woken when the connection is to be closed.
    pub(super) fn is_served_by(&self, waker: &Waker) {
        let _ = self.waker.set(waker.clone());
    }

    /// Whether the connection is to be closed, and when.
    pub(super) fn closing(&self) -> Option<Closing> {
        match self.closing.load(Relaxed) {
            0 => None,
            1 => Some(Closing::WhenIdle),
            _ => Some(Closing::Now),
        }
    }

    fn close(&self, closing: Closing) {
        let state = match closing {
            Closing::WhenIdle => 1,
            Closing::Now => 2,
        };
        self.closing.fetch_max(state, Relaxed);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Runs `future` to its end; none if the connection is to be closed at once.
    pub(super) async fn unless_shed<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let poll = |cx: &mut Context<'_>| match self.closing() {
            Some(Closing::Now) => Poll::Ready(None),
            _ => future.as_mut().poll(cx).map(Some),
        };
        std::future::poll_fn(poll).await
    }

    /// Counts so many bytes as held by the connection, until the charge is dropped.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        Charge::new(self.clone(), bytes)
    }

    /// The sum of the connection's charges, for [`Charge`] to change.
    pub(super) fn held(&self) -> &AtomicUsize {
        &self.held
    }

    /// What the connection holds, in bytes.
    fn cost(&self) -> usize {
        cost::CONNECTION + self.held.load(Relaxed)
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

    /// What each connection holds, connections of trusted proxies excepted.
    pub(super) fn holdings(&self) -> Vec<Holding> {
        let open = self.lock();
        let slots =
            open.by_source.iter().flat_map(|(source, slots)| slots.iter().map(|slot| (*source, slot)));
        slots.map(|(source, slot)| Holding { source, bytes: slot.cost(), slot: slot.clone() }).collect()
    }

    /// What these connections hold together, in bytes.
    pub(super) fn held(&self) -> usize {
        self.lock().by_source.values().flatten().map(|slot| slot.cost()).sum()
    }

    /// Closes these connections at once, and refuses further ones of their sources until `until`.
    pub(super) fn shed(&self, holdings: &[Holding], until: Instant) {
        let mut open = self.lock();
        open.blocked.extend(holdings.iter().map(|holding| (holding.source, until)));
        drop(open);
        for holding in holdings {
            holding.slot.close(Closing::Now);
        }
    }

    /// Forgets the sources that are refused no longer.
    pub(super) fn unblock(&self, now: Instant) {
        self.lock().blocked.retain(|_, until| now < *until);
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
    fn a_source_whose_connections_were_shed_is_refused_for_a_while() {
        let options = Options::default();
        let connections = Arc::new(Connections::default());
        let admit = |address: &str| {
            let peer = Peer::at(address.parse().expect("an address"));
            connections.admit(peer, &options).map_err(|shed| shed as usize)
        };
        let (first, other) = (admit("192.0.2.1").expect("room"), admit("192.0.2.2").expect("room"));
        let charge = first.slot().charge(1000);
        let mut holdings = connections.holdings();
        assert_eq!(connections.held(), 2 * cost::CONNECTION + 1000);
        holdings.retain(|holding| holding.bytes > cost::CONNECTION);
        let until = Instant::now() + Duration::from_hours(1);
        connections.shed(&holdings, until);
        assert_eq!((first.slot().closing(), other.slot().closing()), (Some(Closing::Now), None));
        assert_eq!(admit("192.0.2.1").err(), Some(Shed::Memory as usize));
        assert!(admit("192.0.2.2").is_ok(), "its neighbour is not affected");
        connections.unblock(until);
        assert!(admit("192.0.2.1").is_ok());
        drop((charge, first, other, holdings));
        assert_eq!(connections.held(), 0);
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
