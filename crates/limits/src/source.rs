//! Request sources and their networks. Rate limits and stored submissions use them to distinguish senders.

use std::fmt;
use std::net::IpAddr;

/// A sender: an IPv4 address, or the /64 network of an IPv6 subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// An IPv4 address, including those that arrive as IPv4-mapped IPv6 addresses (`::ffff:a.b.c.d`).
    V4([u8; 4]),
    V6([u8; 8]),
}

impl From<IpAddr> for Source {
    /// Keeps the first 64 bits of an IPv6 address. An IPv4-mapped address becomes IPv4.
    fn from(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V4(v4) => Source::V4(v4.octets()),
            IpAddr::V6(v6) => {
                let octets = v6.octets();
                Source::V6(std::array::from_fn(|i| octets[i]))
            }
        }
    }
}

impl Source {
    /// The bytes of the address or network: four or eight.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Source::V4(octets) => octets,
            Source::V6(network) => network,
        }
    }

    /// The leading bytes of [`Source::as_bytes`] that identify the source's network: three or six.
    pub fn network_as_bytes(&self) -> &[u8] {
        match self {
            Source::V4(octets) => &octets[..3],
            Source::V6(octets) => &octets[..6],
        }
    }

    /// The source's network: an IPv4 /24 or an IPv6 /48.
    ///
    /// Makes a new value. With `mut self`, rustc 1.95 passes the caller's own value at optimization level 1,
    /// and changes it: the caller's source then is its network.
    pub fn network(self) -> SourceNetwork {
        SourceNetwork(match self {
            Source::V4([first, second, third, _]) => Source::V4([first, second, third, 0]),
            Source::V6(octets) => Source::V6(std::array::from_fn(|i| if i < 6 { octets[i] } else { 0 })),
        })
    }
}

/// The number of requests to one form that the limits refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedRequests {
    /// The sender; `None` for the sum of all senders that are not counted individually.
    pub source: Option<Source>,
    pub form: &'static str,
    pub count: u64,
}

/// Shows only the address family: logs must not contain addresses.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::V4(_) => "V4(…)",
            Source::V6(_) => "V6(…)",
        })
    }
}

/// The network of a source: an IPv4 /24 or an IPv6 /48, which is usually the largest block that a provider
/// assigns to one customer and within which a sender can easily change its address. Represented by the
/// network's first source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceNetwork(Source);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_an_ipv4_address_or_an_ipv6_64() {
        check("192.0.2.1", "::ffff:192.0.2.1", true, true);
        check("192.0.2.1", "192.0.2.2", false, true);
        check("192.0.2.1", "192.0.3.1", false, false);
        check("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true, true);
        check("2001:db8:1:2::1", "2001:db8:1:3::1", false, true);
        check("2001:db8:1:2::1", "2001:db8:2:2::1", false, false);
        check("192.0.2.1", "c000:201::", false, false);
    }

    #[test]
    fn an_address_is_not_shown() {
        assert_eq!(format!("{:?} {:?}", source("192.0.2.1"), source("2001:db8::1")), "V4(…) V6(…)");
    }

    #[test]
    fn the_bytes_are_those_of_the_address_or_network() {
        assert_eq!(source("192.0.2.1").as_bytes(), [192, 0, 2, 1]);
        assert_eq!(source("2001:db8:1:2::3").as_bytes(), [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2]);
        assert_eq!(source("192.0.2.1").network_as_bytes(), [192, 0, 2]);
        assert_eq!(source("2001:db8:1:2::3").network_as_bytes(), [0x20, 0x01, 0x0d, 0xb8, 0, 1]);
    }

    fn source(address: &str) -> Source {
        Source::from(address.parse::<IpAddr>().unwrap())
    }

    fn check(a: &str, b: &str, same_source: bool, same_neighborhood: bool) {
        let (first, second) = (source(a), source(b));
        assert_eq!(first == second, same_source, "{a} {b}");
        assert_eq!(first.network() == second.network(), same_neighborhood, "{a} {b}");
    }
}
