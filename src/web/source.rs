//! Blocks of addresses, and how many connections a source holds.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Options;
use super::metrics::Shed;
use super::socket::{Peer, Trust};
use crate::inbox::limit::Source;

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

/// Counts the open connections, in all and by source.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_source: HashMap<Source, usize>,
}

impl Open {
    /// Counts one more connection of `source`, unless it has as many as it may.
    fn count(&mut self, source: Source, most: usize) -> bool {
        let held = self.by_source.entry(source).or_default();
        let is_room = *held < most;
        *held += usize::from(is_room);
        is_room
    }

    fn forget(&mut self, source: Source) {
        if let Some(held) = self.by_source.get_mut(&source) {
            *held -= 1;
            if *held == 0 {
                self.by_source.remove(&source);
            }
        }
    }
}

impl Connections {
    /// A place for a connection from `peer`, held until it is dropped; an error if the server or the source has too many. A proxy
    /// that is trusted is no source.
    pub(super) fn admit(self: &Arc<Self>, peer: Peer, options: &Options) -> Result<Place, Shed> {
        let source = (!is_trusted(options, peer)).then(|| Source::from(peer.address));
        let mut open = self.lock();
        if open.all >= options.max_connections {
            return Err(Shed::All);
        }
        if source.is_some_and(|source| !open.count(source, options.max_connections_per_source)) {
            return Err(Shed::Source);
        }
        open.all += 1;
        Ok(Place { connections: self.clone(), source })
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
}

impl Place {
    /// Counts the connection as one of `client`, on behalf of whom a proxy has opened it; false if he has too many.
    pub(super) fn belongs_to(&mut self, client: Peer, options: &Options) -> bool {
        if is_trusted(options, client) {
            return true;
        }
        let source = Source::from(client.address);
        let mut open = self.connections.lock();
        if !open.count(source, options.max_connections_per_source) {
            return false;
        }
        if let Some(before) = self.source.replace(source) {
            open.forget(before);
        }
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.all -= 1;
        if let Some(source) = self.source {
            open.forget(source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
