//! Fuzzes forwarding headers: entries to the left of those that trusted proxies added do not change the
//! client address.
//!
//! The first byte of the input selects the header and how the trusted proxies add to it. The rest is forged
//! header lines.

#![no_main]

use std::net::IpAddr;

use frontdesk_http::{ForwardedHeader, Peer, client_ip, forwarded_client};
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;

const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const STRANGER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1));
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9));

fuzz_target!(|input: &[u8]| {
    let Some((how, forged)) = input.split_first() else { return };
    let lines: Vec<&[u8]> = forged.split(|byte| *byte == b'\n').collect();
    if lines.iter().any(|line| HeaderValue::from_bytes(line).is_err()) {
        return;
    }
    let (header, other) = if how & 1 == 0 {
        (ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded)
    } else {
        (ForwardedHeader::Forwarded, ForwardedHeader::XForwardedFor)
    };
    let proxies = ["10.0.0.0/8".parse().expect("a block")];
    let who = |peer, headers: &HeaderMap| client_ip(Peer::at(peer), headers, &proxies, header);

    let mut all_forged = HeaderMap::new();
    add(&mut all_forged, header, &lines);
    assert_eq!(who(STRANGER, &all_forged), STRANGER, "headers from untrusted peers are ignored");
    let found = forwarded_client(&all_forged, &proxies, header);
    assert_eq!(who(PROXY, &all_forged), found.unwrap_or(PROXY));

    let honest: &[u8] = match (header, how & 2 == 0) {
        (ForwardedHeader::XForwardedFor, true) => b"203.0.113.9",
        (ForwardedHeader::XForwardedFor, false) => b"203.0.113.9:4711, 10.0.0.2",
        (ForwardedHeader::Forwarded, true) => b"for=203.0.113.9",
        (ForwardedHeader::Forwarded, false) => {
            b"host=\"a\\\",;\\\\\";for=\"203.0.113.9:4711\";proto=https, for=10.0.0.2"
        }
    };
    let mut headers = HeaderMap::new();
    let (last, earlier) = lines.split_last().expect("at least one line");
    add(&mut headers, header, earlier);
    let appended = [last, b", ".as_slice(), honest].concat();
    if how & 4 == 0 {
        add(&mut headers, header, &[&appended]);
    } else {
        add(&mut headers, header, &[last, honest]);
    }
    assert_eq!(who(PROXY, &headers), CLIENT, "forged entries on the left are ignored");
    add(&mut headers, other, &lines);
    assert_eq!(who(PROXY, &headers), CLIENT, "the other header is ignored");
});

fn add(headers: &mut HeaderMap, name: ForwardedHeader, lines: &[&[u8]]) {
    for line in lines {
        headers.append(name.name(), HeaderValue::from_bytes(line).expect("checked above"));
    }
}
