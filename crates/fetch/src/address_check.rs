//! Checks addresses before the client connects: a third party's host name may point into the operator's
//! network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::url::Host;

/// Addresses at which cloud services hand out credentials; refused even if private addresses are permitted.
const METADATA: [IpAddr; 9] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), // instance metadata of AWS, Azure, Google Cloud and others
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),   // task credentials of Amazon ECS
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),  // Pod Identity of Amazon EKS
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), // Alibaba Cloud
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),   // Azure's wire server
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),     // Oracle Cloud
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)), // AWS
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)), // Pod Identity of Amazon EKS
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), // Google Cloud
];

/// Networks outside the public Internet, with their prefix lengths.
const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::UNSPECIFIED, 8),           // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // carrier-grade NAT
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarking
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved, broadcast
];

/// The network of all global unicast addresses that IANA has allocated so far.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Networks within [`GLOBAL_V6`] that do not belong to the public Internet.
const SPECIAL_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments: Teredo, ORCHID, benchmarking
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Returns an error if there is no address, or if any address is refused: a name with public and private
/// addresses indicates an attack. The error is a clause that names the first refused address.
pub fn check_addresses(host: &Host, found: &[IpAddr], allow_private: bool) -> Result<(), String> {
    if found.is_empty() {
        return Err("the name has no address".to_owned());
    }
    found.iter().find_map(|address| refusal_reason(host, *address, allow_private)).map_or(Ok(()), Err)
}

/// Why the client must not connect to `address`; `None` if it may. Metadata addresses are always refused. A
/// loopback host needs a loopback address, and any other host needs a public one unless `allow_private` is
/// set.
fn refusal_reason(host: &Host, address: IpAddr, allow_private: bool) -> Option<String> {
    if is_metadata(address) {
        return Some(format!(
            "{address} belongs to the metadata service of a cloud, which may reveal credentials; frontdesk never connects to it"
        ));
    }
    if host.is_loopback() {
        return (!unmapped(address).is_loopback())
            .then(|| format!("the name leads to {address}, which is not a loopback address"));
    }
    (!allow_private && !is_public(address))
        .then(|| format!("{address} is not on the public Internet (`allow_private = true` permits it)"))
}

/// Whether packets to this address could reach [`METADATA`], directly or through a tunnel or a translator.
fn is_metadata(address: IpAddr) -> bool {
    let embedded = if let IpAddr::V6(address) = address { embedded_ipv4(address) } else { Vec::new() };
    embedded.into_iter().map(IpAddr::V4).chain([address]).any(|address| METADATA.contains(&address))
}

/// Converts an IPv6 address to the IPv4 address that it represents, if it is IPv4-mapped (RFC 4291 §2.5.5.2)
/// or uses NAT64 with the well-known prefix (RFC 6052 §2.1). Returns other addresses unchanged.
fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match (v6.segments(), &embedded_ipv4(v6)[..]) {
            ([0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, ..], [inner]) => IpAddr::V4(*inner),
            _ => address,
        },
        IpAddr::V4(_) => address,
    }
}

/// The IPv4 addresses that an IPv6 address may embed: several for local NAT64, whose prefix length is
/// unknown, and for Teredo, which embeds the addresses of the server and the client. Empty for other
/// prefixes.
fn embedded_ipv4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let o = address.octets();
    let at = |places: [usize; 4]| Ipv4Addr::from(places.map(|place| o[place]));
    match address.segments() {
        // IPv4-compatible, -mapped (RFC 4291 §2.5.5), -translated (RFC 2765 §2.1), and NAT64 (RFC 6052 §2.1).
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            vec![at([12, 13, 14, 15])]
        }
        // Local NAT64 (RFC 8215), with a prefix of 96, 64, 56 or 48 bits (RFC 6052 §2.2).
        [0x64, 0xff9b, 1, ..] => {
            [[12, 13, 14, 15], [9, 10, 11, 12], [7, 9, 10, 11], [6, 7, 9, 10]].map(at).to_vec()
        }
        // 6to4 (RFC 3056 §2).
        [0x2002, ..] => vec![at([2, 3, 4, 5])],
        // Teredo (RFC 4380 §4), in which the bits of the client's address are inverted.
        [0x2001, 0, ..] => vec![at([4, 5, 6, 7]), Ipv4Addr::from_bits(!at([12, 13, 14, 15]).to_bits())],
        _ => Vec::new(),
    }
}

/// Whether an address is on the public Internet (RFC 6890, RFC 8190). IPv4-mapped and NAT64 addresses are
/// judged by the IPv4 address that they embed. Those of other transition mechanisms (6to4, Teredo,
/// IPv4-compatible, local NAT64) are never public, because public servers do not need them.
pub fn is_public(address: IpAddr) -> bool {
    match unmapped(address) {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            !SPECIAL_V4.iter().any(|(network, length)| (bits ^ network.to_bits()) >> (32 - length) == 0)
        }
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let is_in =
                |(network, length): &(Ipv6Addr, u32)| (bits ^ network.to_bits()) >> (128 - length) == 0;
            is_in(&GLOBAL_V6) && !SPECIAL_V6.iter().any(is_in)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn global_unicast_addresses_are_public() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.0.3.1",
            "192.88.98.1",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.1",
            "203.0.112.1",
            "203.0.114.1",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450:4001:800::200e",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "3fff:1000::1",
            // 8.8.8.8 as an IPv4-mapped address and through NAT64.
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn private_reserved_and_embedded_addresses_are_not_public() {
        for text in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.1",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::2",
            "::8.8.8.8",
            "::10.0.0.1",
            "100::1",
            "64:ff9b:1::1",
            "64:ff9b:1::8.8.8.8",
            "2001::1",
            "2001:0:1234::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2001:0:4136:e378:8000:63bf:f7f7:f7f7",
            "2002:808:808::1",
            "2002:a00:1::1",
            "2002:7f00:1::",
            "3fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "feff::1",
            "ff02::1",
            "ffff::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0.0.0.0",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::a9fe:a9fe",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn localhost_needs_loopback_and_other_hosts_public_addresses() {
        check_addresses("hooks.example.com", &["8.8.8.8", "2606:4700:4700::1111"], false, None);
        check_addresses("hooks.example.com", &["192.168.1.2"], false, Some("allow_private"));
        check_addresses("hooks.example.com", &["192.168.1.2"], true, None);
        check_addresses("hooks.example.com", &["127.0.0.1"], false, Some("allow_private"));
        check_addresses("hooks.example.com", &["127.0.0.1"], true, None);
        check_addresses("hooks.example.com", &[], true, Some("no address"));
        check_addresses("localhost", &["127.0.0.1", "::1"], false, None);
        check_addresses("localhost", &["8.8.8.8"], false, Some("not a loopback address"));
        check_addresses("localhost", &["8.8.8.8"], true, Some("not a loopback address"));
        check_addresses("localhost", &["127.0.0.1", "192.168.1.2"], true, Some("not a loopback address"));
    }

    #[test]
    fn one_refused_address_refuses_the_host() {
        check_addresses("hooks.example.com", &["8.8.8.8", "10.0.0.1"], false, Some("10.0.0.1"));
        check_addresses("hooks.example.com", &["10.0.0.1", "8.8.8.8"], false, Some("10.0.0.1"));
        check_addresses("hooks.example.com", &["8.8.8.8", "10.0.0.1"], true, None);
        check_addresses("hooks.example.com", &["10.0.0.1", "169.254.169.254"], true, Some("credentials"));
    }

    #[test]
    fn metadata_services_are_refused_even_with_private_addresses() {
        for text in [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
        ] {
            check_addresses("hooks.example.com", &[text], true, Some("credentials"));
            check_addresses("hooks.example.com", &[text], false, Some("credentials"));
        }
    }

    #[test]
    fn no_ipv6_form_leads_to_a_metadata_service() {
        for text in [
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "::ffff:0:169.254.169.254",
            "64:ff9b::169.254.169.254",
            // Local NAT64 with prefixes of 96, 64, 56 and 48 bits.
            "64:ff9b:1::169.254.169.254",
            "64:ff9b:1:0:a9:fea9:fe00:0",
            "64:ff9b:1:a9:fe:a9fe::",
            "64:ff9b:1:a9fe:a9:fe00::",
            "2002:a9fe:a9fe::1",
            // Teredo: as the server, and as the client with inverted bits.
            "2001:0:a9fe:a9fe::1",
            "2001:0:4136:e378:8000:63bf:5601:5601",
            "2001:0:4136:e378:8000:63bf:5601:55e8",
        ] {
            check_addresses("hooks.example.com", &[text], true, Some("credentials"));
        }
        // A private address that is not a metadata address, in the same forms.
        for text in
            ["64:ff9b::10.0.0.1", "64:ff9b:1::10.0.0.1", "2002:a00:1::1", "::10.0.0.1", "2001:0:a00:1::1"]
        {
            check_addresses("hooks.example.com", &[text], true, None);
            check_addresses("hooks.example.com", &[text], false, Some("allow_private"));
        }
    }

    fn check_addresses(host: &str, found: &[&str], allow_private: bool, refused: Option<&str>) {
        let found: Vec<IpAddr> = found.iter().map(|text| text.parse().unwrap()).collect();
        match (super::check_addresses(&Host::Name(host.to_owned()), &found, allow_private), refused) {
            (Ok(()), None) => {}
            (Err(reason), Some(part)) => assert!(reason.contains(part), "{reason}"),
            (result, _) => panic!("{host} {found:?}: {result:?}"),
        }
    }
}
