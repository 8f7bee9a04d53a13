//! Determines the address of the client that sent a request, even if the client is behind trusted proxies.
//!
//! A client can forge everything to the left of the members that the trusted proxies append. The header is
//! therefore parsed from the right, byte by byte: malformed text on the left cannot change how the proxies'
//! members are parsed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::HeaderMap;

use super::socket::Peer;
use super::trusted_proxies::{FORWARDED, Network, X_FORWARDED_FOR, is_trusted};

/// The header in which trusted proxies report the client's address. The other header is ignored, because a
/// proxy that sets one of the two forwards the client's value of the other unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`: addresses, separated by commas.
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl ForwardedHeader {
    /// The field name, as in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => X_FORWARDED_FOR,
            Self::Forwarded => FORWARDED,
        }
    }

    /// The index at which the last member of a list begins. In `Forwarded`, commas in quoted strings do not
    /// separate members. Quotes are matched from the right as well: otherwise, a quote that the client leaves
    /// open would swallow the members that proxies append.
    fn last_member_start(self, list: &[u8]) -> usize {
        let mut quoted = false;
        for (at, byte) in list.iter().enumerate().rev() {
            match byte {
                b',' if !quoted => return at + 1,
                b'"' if self == Self::Forwarded => {
                    let escapes = list[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
                    // From the right, the first quote closes a string, and the next one that no backslash
                    // escapes opens it.
                    quoted = !quoted || escapes % 2 == 1;
                }
                _ => {}
            }
        }
        0
    }
}

/// The address of the client that sent a request on a connection from `peer`: the peer itself or, if the peer
/// is a trusted proxy, the right-most address in `header` that is not a trusted proxy's (the left-most if all
/// are). IPv4-mapped IPv6 addresses are returned as IPv4 addresses.
///
/// A hop that cannot be parsed ends the chain of trust: the result is the address of the proxy that wrote it,
/// and all such clients share that address's limits. `unknown` and obfuscated names (`_hidden`) count as hops
/// that cannot be parsed (RFC 7239 §6.2, §6.3).
pub fn client_ip(peer: Peer, headers: &HeaderMap, proxies: &[Network], header: ForwardedHeader) -> IpAddr {
    let reported = if is_trusted(proxies, peer) { forwarded_client(headers, proxies, header) } else { None };
    reported.unwrap_or(peer.address)
}

/// The client's address as reported by a peer, which the caller must have found to be trusted: chosen among
/// the hops as [`client_ip`] describes. `None` if the peer reports none, or if the right-most hop cannot be
/// parsed.
pub fn forwarded_client(headers: &HeaderMap, proxies: &[Network], header: ForwardedHeader) -> Option<IpAddr> {
    let mut client = None;
    // Lines with the same name form one list, in order (RFC 9110 §5.3).
    for line in headers.get_all(header.name()).iter().rev() {
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            let begin = header.last_member_start(rest);
            let member = rest[begin..].trim_ascii();
            rest = &rest[..begin.saturating_sub(1)];
            // Empty members are ignored (RFC 9110 §5.6.1.2).
            if member.is_empty() {
                continue;
            }
            let address = match header {
                ForwardedHeader::XForwardedFor => parse_address(member),
                ForwardedHeader::Forwarded => forwarded_for(member),
            };
            let Some(address) = address else { return client };
            client = Some(address);
            if !is_trusted(proxies, Peer::at(address)) {
                return client;
            }
        }
    }
    client
}

/// Parses the address in the `for` parameter of a forwarded-element (RFC 7239 §4). `None` unless there is
/// exactly one. Other parameters may have any value, as long as their ends can be found, because they may
/// contain text from the client.
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = element;
    loop {
        let pair = rest.trim_ascii_start();
        if pair.is_empty() {
            break;
        }
        let length = pair.iter().position(|byte| matches!(byte, b'=' | b';')).unwrap_or(pair.len());
        let (name, after) = pair.split_at(length);
        let (value, after) = match after {
            [b'=', b'"', quoted @ ..] => unquote(quoted)?,
            [b'=', token @ ..] => {
                let length = token.iter().position(|byte| *byte == b';').unwrap_or(token.len());
                (token[..length].trim_ascii_end().to_vec(), &token[length..])
            }
            after => (Vec::new(), after),
        };
        rest = match after.trim_ascii_start() {
            [] => &[],
            [b';', after @ ..] => after,
            _ => return None,
        };
        // RFC 7239 permits one `for` per element. Reject two, because the client may have forged one of them.
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
    }
    parse_address(&found?)
}

/// Unescapes a quoted string after its opening quote. Also returns the rest after the closing quote. `None`
/// if there is no closing quote.
fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    let mut bytes = text.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((value, &text[at + 1..])),
            b'\\' => value.push(*bytes.next()?.1),
            byte => value.push(*byte),
        }
    }
    None
}

/// Parses `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`, `[2001:db8::1]:80`, or `2001:db8::1` without
/// brackets. The port may be obfuscated. Converts an IPv4-mapped address to IPv4.
fn parse_address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let (address, port): (IpAddr, &str) = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        (address.parse::<Ipv6Addr>().ok()?.into(), port)
    } else if let Ok(address) = text.parse() {
        (address, "")
    } else {
        let (address, _) = text.split_once(':')?;
        (address.parse::<Ipv4Addr>().ok()?.into(), &text[address.len()..])
    };
    (port.is_empty() || is_port(port.strip_prefix(':')?)).then(|| address.to_canonical())
}

/// Whether `port` is a port number or an obfuscated port (RFC 7239 §6).
fn is_port(port: &str) -> bool {
    match port.strip_prefix('_') {
        Some(name) => {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        }
        None => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use ForwardedHeader::{Forwarded, XForwardedFor};
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;
    use crate::socket::Trust;

    const PROXY: &str = "10.0.0.1";
    const CLIENT: &str = "203.0.113.9";

    #[test]
    fn the_client_is_the_right_most_untrusted_hop() {
        check(XForwardedFor, "198.51.100.1", &[CLIENT], "198.51.100.1"); // untrusted peer
        check(XForwardedFor, PROXY, &["203.0.113.9"], CLIENT);
        check(XForwardedFor, PROXY, &["1.1.1.1, 203.0.113.9"], CLIENT);
        check(XForwardedFor, PROXY, &["1.1.1.1,203.0.113.9"], CLIENT);
        check(XForwardedFor, PROXY, &["1.1.1.1\t,\t203.0.113.9\t"], CLIENT);
        check(XForwardedFor, PROXY, &["1.1.1.1, 203.0.113.9, 10.0.0.2"], CLIENT);
        check(XForwardedFor, PROXY, &["1.1.1.1", "203.0.113.9", "10.0.0.2"], CLIENT);
        check(XForwardedFor, PROXY, &["10.0.0.3, 10.0.0.2"], "10.0.0.3");
        check(XForwardedFor, PROXY, &[], PROXY);
        check(XForwardedFor, PROXY, &[""], PROXY);
        check(XForwardedFor, PROXY, &[", ,\t,"], PROXY);
        check(XForwardedFor, PROXY, &["203.0.113.9, , ", ""], CLIENT);
        check(XForwardedFor, "::ffff:10.0.0.1", &["::ffff:203.0.113.9"], CLIENT);
        check(Forwarded, "198.51.100.1", &["for=203.0.113.9"], "198.51.100.1");
        check(Forwarded, PROXY, &["for=203.0.113.9"], CLIENT);
        check(Forwarded, PROXY, &["for=1.1.1.1, for=203.0.113.9"], CLIENT);
        check(Forwarded, PROXY, &["for=1.1.1.1", "For=203.0.113.9;proto=https, FOR=10.0.0.2"], CLIENT);
        check(Forwarded, PROXY, &["proto=http;by=10.0.0.1;for=203.0.113.9;host=example.com"], CLIENT);
        check(Forwarded, PROXY, &["for=203.0.113.9 ; proto=https;"], CLIENT);
        check(Forwarded, PROXY, &[], PROXY);
        check(Forwarded, PROXY, &[""], PROXY);
        check(Forwarded, "::ffff:10.0.0.1", &["for=\"[::ffff:203.0.113.9]\""], CLIENT);
    }

    #[test]
    fn a_hop_may_have_a_port_and_brackets() {
        for (hop, expected) in [
            ("203.0.113.9:4711", CLIENT),
            ("203.0.113.9:_hidden", CLIENT),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("[2001:DB8::1]:_x.y-z_", "2001:db8::1"),
            ("[::ffff:203.0.113.9]:1", CLIENT),
        ] {
            check(XForwardedFor, PROXY, &[hop], expected);
            check(Forwarded, PROXY, &[&format!("for=\"{hop}\"")], expected);
            check(Forwarded, PROXY, &[&format!("for={hop};proto=http")], expected);
        }
    }

    #[test]
    fn a_hop_that_cannot_be_parsed_ends_the_chain_of_trust() {
        let long = "1".repeat(8000);
        for hop in [
            "nonsense",
            "unknown",
            "_hidden",
            "_",
            "203.0.113",
            "203.0.113.9.1",
            "203.0.113.09",
            "203.0.113.256",
            "3405803785",
            "0xcb007109",
            "203.0.113.9:",
            "203.0.113.9:65536",
            "203.0.113.9:-1",
            "203.0.113.9:+1",
            "203.0.113.9:_",
            "203.0.113.9:_a b",
            "203.0.113.9:1:1",
            "[203.0.113.9]",
            "[203.0.113.9]:80",
            "[2001:db8::1",
            "2001:db8::1]",
            "[2001:db8::1]4711",
            "[2001:db8::1]:",
            "[[2001:db8::1]]",
            "[]",
            "[]:80",
            ":80",
            "fe80::1%eth0",
            "[fe80::1%25eth0]",
            "[fe80::1%3]:80",
            "2001:db8::1::2",
            "::ffff:203.0.113.9:80:80",
            "203.0.113.9/32",
            "203.0.113.9 198.51.100.1",
            "203.0.113.9\t198.51.100.1",
            "localhost",
            "for=203.0.113.9=x",
            "*",
            &long,
        ] {
            check(XForwardedFor, PROXY, &[&format!("203.0.113.9, {hop}")], PROXY);
            check(XForwardedFor, PROXY, &[&format!("203.0.113.9, {hop}, 10.0.0.2")], "10.0.0.2");
            check(XForwardedFor, PROXY, &["203.0.113.9", hop, "10.0.0.2, 10.0.0.3"], "10.0.0.2");
            check(Forwarded, PROXY, &[&format!("for=203.0.113.9, for=\"{hop}\"")], PROXY);
            check(Forwarded, PROXY, &[&format!("for=203.0.113.9, for={hop}, for=10.0.0.2")], "10.0.0.2");
        }
        for element in [
            "203.0.113.9",
            "proto=https",
            "for",
            "for=",
            "for=;proto=https",
            "for=\"\"",
            "for=\"203.0.113.9",
            "for=203.0.113.9\"",
            "for=\"203.0.113.9\"x",
            "for=\"203.0.113.9\\\"",
            "for = 203.0.113.9",
            "for=203.0.113.9;for=203.0.113.9",
            "for=203.0.113.9;proto=http;FOR=198.51.100.1",
            "xfor=203.0.113.9",
            "for=for=203.0.113.9",
            "by=203.0.113.9",
            "for=\"203.0.113.9, 198.51.100.1\"",
        ] {
            check(Forwarded, PROXY, &[element], PROXY);
            check(Forwarded, PROXY, &[&format!("for=192.0.2.7, {element}, for=10.0.0.2")], "10.0.0.2");
        }
    }

    #[test]
    fn delimiters_in_quoted_strings_are_ignored() {
        for host in [
            "a,b",
            "a;for=1.1.1.1",
            ", for=1.1.1.1",
            "\\\", for=1.1.1.1;x=\\\"",
            "\\\\",
            "x\\\\\\\"",
            "",
            "\u{e9}\u{4e2d}",
            "=",
            "\t",
        ] {
            let element = format!("for=203.0.113.9;host=\"{host}\"");
            check(Forwarded, PROXY, &[&element], CLIENT);
            check(
                Forwarded,
                PROXY,
                &[&format!("for=1.1.1.1, host=\"{host}\" ; for=\"203.0.113.9:1\", for=10.0.0.9")],
                CLIENT,
            );
        }
        check(Forwarded, PROXY, &["for=\"203\\.0.113.9\""], CLIENT);
    }

    #[test]
    fn clients_cannot_forge_their_address() {
        let long = "1.1.1.1, ".repeat(1500);
        let forgeries: [&[u8]; 36] = [
            b"",
            b"1.1.1.1",
            b"10.0.0.7",
            b"127.0.0.1",
            b"::1",
            b"10.0.0.7, 10.0.0.8",
            b"1.1.1.1, 2.2.2.2, 3.3.3.3",
            b",",
            b", ,,",
            b"for=1.1.1.1",
            b"for=10.0.0.7",
            b"for=\"10.0.0.7",
            b"for=\"",
            b"\"",
            b"\"\"\"",
            b"\\",
            b"\\\"",
            b"for=\"\\",
            b"for=\"\\\\",
            b"for=\"1.1.1.1\\\"",
            b"host=\"a;b,c",
            b"for=1.1.1.1;for=10.0.0.7",
            b"unknown",
            b"_hidden",
            b"for=unknown",
            b"[",
            b"[::1",
            b"fe80::1%eth0",
            b"::ffff:10.0.0.7",
            b"\xff",
            b"\xc3\x28, \"\xff",
            b"for=\"\xff\xfe",
            b"\t",
            b"a=b;c=\"d",
            b";;;",
            long.as_bytes(),
        ];
        let honest = [
            (XForwardedFor, "203.0.113.9"),
            (XForwardedFor, "203.0.113.9, 10.0.0.2"),
            (XForwardedFor, "203.0.113.9:80,10.0.0.2:81"),
            (Forwarded, "for=203.0.113.9"),
            (Forwarded, "for=\"203.0.113.9:80\";host=\"\\\",\";proto=http, for=10.0.0.2"),
            (Forwarded, "proto=https;host=\"x\" ;for=203.0.113.9"),
        ];
        for forged in forgeries {
            for (header, honest) in honest {
                let same_line = [forged, b", ", honest.as_bytes()].concat();
                let tight = [forged, b",", honest.as_bytes()].concat();
                check_bytes(header, PROXY, &[(header, &same_line)], CLIENT);
                check_bytes(header, PROXY, &[(header, &tight)], CLIENT);
                check_bytes(header, PROXY, &[(header, forged), (header, honest.as_bytes())], CLIENT);
                for other in [XForwardedFor, Forwarded] {
                    // A client that connects directly may send either header; neither is trusted.
                    check_bytes(header, CLIENT, &[(other, forged), (other, honest.as_bytes())], CLIENT);
                    if other != header {
                        check_bytes(header, PROXY, &[(header, honest.as_bytes()), (other, forged)], CLIENT);
                        check_bytes(header, PROXY, &[(other, forged)], PROXY);
                    }
                }
            }
        }
    }

    #[test]
    fn on_a_unix_socket_the_header_alone_names_the_client() {
        let proxies = ["10.0.0.0/8".parse().unwrap()];
        let headers = |text: &'static str| {
            HeaderMap::from_iter([("x-forwarded-for".parse().unwrap(), HeaderValue::from_static(text))])
        };
        let found = |text| {
            forwarded_client(&headers(text), &proxies, XForwardedFor).map(|address| address.to_string())
        };
        assert_eq!(found("1.1.1.1, 203.0.113.9").as_deref(), Some(CLIENT));
        assert_eq!(found("1.1.1.1, 10.0.0.2").as_deref(), Some("1.1.1.1"));
        assert_eq!(found("1.1.1.1, unknown"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn without_a_named_client_a_connection_is_the_proxys_own() {
        for header in [XForwardedFor, Forwarded] {
            let proxies = ["10.0.0.0/8".parse().unwrap()];
            let forged = HeaderMap::from_iter([
                ("x-forwarded-for".parse().unwrap(), HeaderValue::from_static(CLIENT)),
                ("forwarded".parse().unwrap(), HeaderValue::from_static("for=203.0.113.9")),
            ]);
            let proxy = Peer::at(PROXY.parse().unwrap());
            assert_eq!(client_ip(proxy, &forged, &proxies, header).to_string(), CLIENT);
            let unnamed = Peer { trust: Trust::Never, ..proxy };
            assert_eq!(client_ip(unnamed, &forged, &proxies, header).to_string(), PROXY);
            assert_eq!(client_ip(Peer::LOCAL, &forged, &proxies, header).to_string(), CLIENT);
            let unnamed = Peer { trust: Trust::Never, ..Peer::LOCAL };
            assert_eq!(client_ip(unnamed, &forged, &proxies, header).to_string(), "127.0.0.1");
        }
    }

    proptest! {
        #[test]
        fn forged_members_and_headers_never_change_the_client(
            forged in prop::collection::vec(any_bytes(), 0..4),
            elsewhere in any_bytes(),
            hops in prop::collection::vec(0..3usize, 0..3),
            host in "[ -~]{0,20}",
            own_line in any::<bool>(),
            header in prop_oneof![Just(XForwardedFor), Just(Forwarded)],
        ) {
            // Each proxy appends a well-formed member with the address of its peer.
            let quoted = host.replace('\\', "\\\\").replace('"', "\\\"");
            let write = |address: &str| match header {
                XForwardedFor => address.to_owned(),
                Forwarded => format!("host=\"{quoted}\";for={address};proto=https"),
            };
            let mut honest = write(CLIENT);
            for hop in hops {
                honest = format!("{honest}, {}", write(["10.0.0.2", "10.1.1.1:80", "10.255.0.1"][hop]));
            }
            let other = if header == Forwarded { XForwardedFor } else { Forwarded };
            let mut lines: Vec<(ForwardedHeader, Vec<u8>)> = vec![(other, elsewhere)];
            lines.extend(forged.into_iter().map(|line| (header, line)));
            match lines.last_mut() {
                Some((last, line)) if *last == header && !own_line => {
                    line.extend_from_slice(format!(", {honest}").as_bytes());
                }
                _ => lines.push((header, honest.into_bytes())),
            }
            let lines: Vec<(ForwardedHeader, &[u8])> =
                lines.iter().map(|(header, line)| (*header, line.as_slice())).collect();
            check_bytes(header, PROXY, &lines, CLIENT);
            check_bytes(header, "198.51.100.1", &lines, "198.51.100.1");
        }
    }

    /// Bytes that a header line may contain, mostly delimiters.
    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            4 => prop::sample::select(b"\"\\,;=: \t[].1".to_vec()),
            1 => (32..=255u8).prop_filter("not in a header", |byte| *byte != 127),
        ];
        prop::collection::vec(byte, 0..40)
    }

    fn check(header: ForwardedHeader, peer: &str, lines: &[&str], expected: &str) {
        let lines: Vec<(ForwardedHeader, &[u8])> =
            lines.iter().map(|line| (header, line.as_bytes())).collect();
        check_bytes(header, peer, &lines, expected);
    }

    fn check_bytes(header: ForwardedHeader, peer: &str, lines: &[(ForwardedHeader, &[u8])], expected: &str) {
        let mut headers = HeaderMap::new();
        for (name, line) in lines {
            headers.append(name.name(), HeaderValue::from_bytes(line).expect("a header's value"));
        }
        let proxies = ["10.0.0.0/8".parse().expect("a block")];
        let client = client_ip(Peer::at(peer.parse().expect("an address")), &headers, &proxies, header);
        assert_eq!(client.to_string(), expected, "{peer} {headers:?}");
    }
}
