//! Trusted proxies: their addresses, and the request headers that are trusted only if a proxy sends them.
//!
//! A proxy must overwrite or remove each of these headers, because a client can send them as well. Tests
//! check the packaged, documented and exported proxy configurations against [`TRUSTED_HEADERS`].

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::HeaderMap;

use super::socket::{Peer, Trust};

/// The addresses of the client and of the proxies before the last one, separated by commas.
pub const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// The same information as [`X_FORWARDED_FOR`], in the syntax of RFC 7239.
pub const FORWARDED: &str = "forwarded";

/// The scheme of the client's request: `https` or `http`.
pub const X_FORWARDED_PROTO: &str = "x-forwarded-proto";

/// An id that correlates a request with log entries of the proxy and the server. Also sent in 500 responses.
pub const X_REQUEST_ID: &str = "x-request-id";

/// All trusted headers, in lower case. The server reads only one of [`X_FORWARDED_FOR`] and [`FORWARDED`]
/// (`server.forwarded_header`).
pub const TRUSTED_HEADERS: [&str; 4] = [X_FORWARDED_FOR, FORWARDED, X_FORWARDED_PROTO, X_REQUEST_ID];

/// Whether `X-Forwarded-Proto` is present and every proxy in the chain reports `scheme`, in any case. The
/// headers must come from a trusted proxy.
pub fn all_proxies_report(scheme: &str, headers: &HeaderMap) -> bool {
    let lines = headers.get_all(X_FORWARDED_PROTO).iter();
    let mut reported = lines.flat_map(|line| line.to_str().unwrap_or_default().split(',')).peekable();
    reported.peek().is_some() && reported.all(|reported| reported.trim().eq_ignore_ascii_case(scheme))
}

/// Whether `peer` is a trusted proxy, by its address or because its connection is always trusted.
pub fn is_trusted(proxies: &[Network], peer: Peer) -> bool {
    match peer.trust {
        Trust::ByAddress => proxies.iter().any(|network| network.contains(peer.address)),
        Trust::Always => true,
        Trust::Never => false,
    }
}

/// The prefix length of `::ffff:0:0/96`, the block of all IPv4-mapped addresses (RFC 4291 §2.5.5.2).
const MAPPED_PREFIX: u8 = 96;

/// A block of addresses in CIDR notation (RFC 4632), or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Whether `address` is in the block. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                (network.to_bits() ^ address.to_bits()).leading_zeros() >= u32::from(self.prefix)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                (network.to_bits() ^ address.to_bits()).leading_zeros() >= u32::from(self.prefix)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    /// Parses an address, or an address and a prefix length such as `10.0.0.0/8`. Bits after the prefix are
    /// ignored. A block of IPv4-mapped IPv6 addresses becomes a block of IPv4 addresses.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "`{text}` is not an address or block such as `10.0.0.0/8`, `192.0.2.7` or `2001:db8::/32`"
            )
        };
        let (address, prefix) =
            text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix: u8 = match prefix {
            None => longest,
            Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= longest).ok_or_else(expected)?,
        };
        Ok(match address {
            IpAddr::V6(mapped) if prefix >= MAPPED_PREFIX => match mapped.to_canonical() {
                address @ IpAddr::V4(_) => Self { address, prefix: prefix - MAPPED_PREFIX },
                IpAddr::V6(_) => Self { address, prefix },
            },
            _ => Self { address, prefix },
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
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
        let mapped = network("::ffff:10.0.0.0/104").expect("valid");
        assert_eq!(mapped.to_string(), "10.0.0.0/8");
        assert!(mapped.contains(address("10.200.1.1")));
        assert!(!mapped.contains(address("11.0.0.1")));
        assert!(network("::ffff:192.0.2.7").expect("valid").contains(address("192.0.2.7")));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "localhost", "10.0.0.0/"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_scheme_counts_if_all_proxies_report_it() {
        for (lines, expected) in [
            (&[][..], None),
            (&["https"], Some("https")),
            (&["HTTPS, https"], Some("https")),
            (&["https", "https"], Some("https")),
            (&["http"], Some("http")),
            (&["https, http"], None),
            (&["https", "http"], None),
            (&["https,"], None),
            (&[""], None),
            (&["wss"], None),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(X_FORWARDED_PROTO, line.parse().expect("a header value"));
            }
            let found: Vec<&str> =
                ["https", "http"].into_iter().filter(|scheme| all_proxies_report(scheme, &headers)).collect();
            assert_eq!(found, Vec::from_iter(expected), "{lines:?}");
        }
    }
}
