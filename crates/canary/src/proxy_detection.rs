//! Describes where the name of the public address leads: to this machine, or to a proxy or CDN in front of
//! it.

use std::net::{IpAddr, UdpSocket};

use http::HeaderMap;
use http::header::{SERVER, VIA};

use frontdesk_forms::text::{cut, visible};

/// Maximum number of addresses that a report names.
const MAX_NAMED: usize = 4;
const MAX_QUOTED_CHARS: usize = 60;

/// Response headers that identify a CDN or a cache, each with the name of the product.
const SIGNS: [(&str, &str); 7] = [
    ("cf-ray", "Cloudflare"),
    ("x-amz-cf-id", "Amazon CloudFront"),
    ("x-fastly-request-id", "Fastly"),
    ("x-azure-ref", "Azure Front Door"),
    ("x-vercel-id", "Vercel"),
    ("x-nf-request-id", "Netlify"),
    ("x-varnish", "Varnish"),
];

/// Whether an address belongs to an interface of this machine: only then can a socket be bound to it.
pub(crate) fn is_local(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Describes the addresses of the public address's name: at most [`MAX_NAMED`] of this machine's, and as many
/// others. `headers` are those of a response from there: if an address is not this machine's, the text also
/// names the proxy that they reveal.
pub(crate) fn describe(
    addresses: &[IpAddr],
    is_local: impl Fn(IpAddr) -> bool,
    headers: Option<&HeaderMap>,
) -> String {
    let list = |wanted: bool| {
        let found: Vec<String> = addresses
            .iter()
            .filter(|address| is_local(**address) == wanted)
            .map(ToString::to_string)
            .collect();
        let others = found.len().saturating_sub(MAX_NAMED);
        let more = if others > 0 { format!(" and {others} more") } else { String::new() };
        (!found.is_empty()).then(|| format!("{}{more}", found[..found.len().min(MAX_NAMED)].join(", ")))
    };
    let proxy = headers.and_then(proxy_name).map(|name| format!(" ({name})")).unwrap_or_default();
    match (list(true), list(false)) {
        (Some(own), None) => format!("the name leads to this machine ({own})"),
        (None, Some(others)) => format!(
            "the name leads to {others}, which this machine does not have: a proxy, a CDN or a router is in between{proxy}"
        ),
        (Some(own), Some(others)) => {
            format!("the name leads to this machine ({own}) and to {others}, which it does not have{proxy}")
        }
        (None, None) => "the name has no address".to_owned(),
    }
}

/// The name of the proxy or CDN that added headers to the response, or else the `Via` or `Server` header.
fn proxy_name(headers: &HeaderMap) -> Option<String> {
    let known = SIGNS.iter().find(|(header, _)| headers.contains_key(*header));
    if let Some((_, name)) = known {
        return Some((*name).to_owned());
    }
    [("Via", VIA), ("Server", SERVER)].into_iter().find_map(|(name, header)| {
        let value = String::from_utf8_lossy(headers.get(header)?.as_bytes()).into_owned();
        Some(format!("`{name}: {}`", visible(cut(&value, MAX_QUOTED_CHARS))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::HeaderName;

    fn check(addresses: &[&str], header: Option<(&'static str, &'static str)>, expected: &str) {
        let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let headers = header.map(|(name, value)| {
            HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))])
        });
        let own: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(describe(&addresses, |address| address == own, headers.as_ref()), expected);
    }

    #[test]
    fn addresses_are_those_of_this_machine_or_of_a_proxy() {
        check(&["192.0.2.1"], None, "the name leads to this machine (192.0.2.1)");
        let others = "which this machine does not have: a proxy, a CDN or a router is in between";
        check(&["192.0.2.2"], None, &format!("the name leads to 192.0.2.2, {others}"));
        check(
            &["192.0.2.2", "2001:db8::2"],
            Some(("cf-ray", "8f")),
            &format!("the name leads to 192.0.2.2, 2001:db8::2, {others} (Cloudflare)"),
        );
        check(
            &["192.0.2.2"],
            Some(("via", "1.1 varnish")),
            &format!("the name leads to 192.0.2.2, {others} (`Via: 1.1 varnish`)"),
        );
        check(
            &["192.0.2.2", "192.0.2.1"],
            Some(("server", "nginx")),
            "the name leads to this machine (192.0.2.1) and to 192.0.2.2, which it does not have (`Server: nginx`)",
        );
        let many = ["192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6"];
        let expected = format!("the name leads to {} and 1 more, {others}", many[..4].join(", "));
        check(&many, None, &expected);
    }

    #[test]
    fn the_loopback_address_is_local_and_a_documentation_address_is_not() {
        assert!(is_local("127.0.0.1".parse().unwrap()));
        assert!(!is_local("192.0.2.1".parse().unwrap()));
    }
}
