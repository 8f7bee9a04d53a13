//! Refuses requests that a proxy may have parsed differently (request smuggling), and reads the host name.

use http::header::{HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::Authority;
use http::{Method, Version};

use super::refusal::Refusal;

/// Why to refuse a request: it has an unsupported transfer coding, uses CONNECT, does not name exactly one
/// valid host (an empty `Host` is valid, and HTTP/1.0 needs none), or, in HTTP/2, has a field value that
/// begins or ends with whitespace. `None` if it is fine.
pub(super) fn refusal(head: &Parts) -> Option<Refusal> {
    if !has_supported_coding(&head.headers) {
        return Some(Refusal::TransferCoding);
    }
    if head.method == Method::CONNECT {
        // Close the connection: the client may have sent tunneled data, which must not be parsed as HTTP.
        return Some(Refusal::Ambiguous { reason: "this server is not a proxy", closes: true });
    }
    let hosts = head.headers.get_all(HOST);
    if !hosts.iter().all(|host| host.is_empty() || is_valid_host(host.as_bytes()))
        || head.uri.authority().is_some_and(|authority| !is_valid_host(authority.as_str().as_bytes()))
    {
        return Some(Refusal::ambiguous("it does not name a valid host"));
    }
    // Surrounding whitespace is malformed in HTTP/2 (RFC 9113 §8.2.1); HTTP/1 parsers trim it.
    let is_padded = |value: &HeaderValue| value.as_bytes().trim_ascii().len() != value.len();
    if head.version == Version::HTTP_2 && head.headers.values().any(is_padded) {
        return Some(Refusal::ambiguous("the value of a header field begins or ends with whitespace"));
    }
    (!has_one_host(head)).then_some(Refusal::ambiguous("the request must name exactly one host"))
}

/// Whether the request names exactly one host. If a request names several, a proxy and this server may choose
/// different ones. HTTP/1.1 requires one Host (RFC 9112 §3.2), and HTTP/1.0 permits none; in HTTP/2, Host
/// must not differ from `:authority` (RFC 9113 §8.3.1), except in case. Does not compare Host with an
/// absolute target in HTTP/1.
fn has_one_host(head: &Parts) -> bool {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (host, is_single) = (hosts.next(), hosts.next().is_none());
    match (head.version, head.uri.authority(), host) {
        (Version::HTTP_2, Some(authority), Some(host)) => {
            is_single && host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes())
        }
        (Version::HTTP_2, Some(_), None) => true,
        (Version::HTTP_2, None, None) => false,
        (version, _, None) => version != Version::HTTP_11,
        (_, _, Some(_)) => is_single,
    }
}

/// Whether the request has no transfer coding or only `chunked` (RFC 9112 §7). hyper checks only the last
/// coding, and would mistake a compressed body for plain data.
fn has_supported_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(only), None) => only.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// The host that a request names, with its port: from its target or, without one there, from the first
/// `Host`, which may be empty. A target with a host takes precedence (RFC 9112 §3.2.2), as in proxies. `None`
/// if there is neither, or if `Host` is not ASCII.
pub fn host_of(head: &Parts) -> Option<&str> {
    let host = || head.headers.get(HOST).and_then(|host| host.to_str().ok());
    head.uri.authority().map(Authority::as_str).or_else(host)
}

/// Whether the value is one host with an optional port (RFC 9110 §7.2), without user information or path. The
/// port may be empty, and is not limited to 65535.
pub(super) fn is_valid_host(value: &[u8]) -> bool {
    // Check for a simple host first: most hosts are simple, and this check does not allocate.
    if is_simple_host(value) {
        return true;
    }
    is_valid_authority(value)
}

/// Like [`is_valid_host`], for hosts of all kinds, such as IPv6 addresses in brackets.
fn is_valid_authority(value: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(value) else { return false };
    let (text, host) = (authority.as_str(), authority.host());
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    match text.strip_prefix(host) {
        Some("") => true,
        Some(port) => port.strip_prefix(':').is_some_and(is_port),
        // The value has user information before the host, which is not permitted.
        None => false,
    }
}

/// Whether the value has only letters, digits, `-`, `.` and `_`, as host names and IPv4 addresses do,
/// followed by an optional `:` and any number of digits.
pub(super) fn is_simple_host(value: &[u8]) -> bool {
    let end = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
    let (name, port) = value.split_at(end);
    !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(byte))
        && port.iter().skip(1).all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn simple_hosts_are_valid_hosts(value in "[a-z0-9._:-]{0,12}") {
            prop_assert!(!is_simple_host(value.as_bytes()) || is_valid_authority(value.as_bytes()));
        }
    }

    #[test]
    fn only_chunked_is_supported() {
        for (lines, expected) in [
            (&[][..], true),
            (&["chunked"], true),
            (&["Chunked "], true),
            (&["chunked", "chunked"], false),
            (&["chunked, chunked"], false),
            (&["gzip, chunked"], false),
            (&["gzip", "chunked"], false),
            (&["identity"], false),
            (&[""], false),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(TRANSFER_ENCODING, HeaderValue::from_static(line));
            }
            assert_eq!(has_supported_coding(&headers), expected, "{lines:?}");
        }
    }

    #[test]
    fn the_host_of_an_absolute_target_takes_precedence() {
        for (target, expected) in [("/b", "c"), ("http://a:81/b", "a:81"), ("*", "c")] {
            let request = http::Request::builder().uri(target).header(HOST, "c");
            let (head, ()) = request.body(()).expect("a request").into_parts();
            assert_eq!(host_of(&head), Some(expected), "{target}");
        }
    }

    #[test]
    fn a_padded_value_is_refused_in_http_2() {
        let refused = |version: Version, value: &'static str| {
            let request = http::Request::builder().version(version).uri("http://a/").header("x", value);
            let (head, ()) = request.header(HOST, "a").body(()).expect("a request").into_parts();
            refusal(&head).is_some()
        };
        for (value, expected) in [(" a", true), ("a\t", true), ("a b", false), ("", false)] {
            assert_eq!(refused(Version::HTTP_2, value), expected, "{value:?}");
            assert!(!refused(Version::HTTP_11, value), "{value:?}");
        }
    }

    #[test]
    fn a_request_has_one_host() {
        let check = |version: Version, uri: &str, hosts: &[&str], expected: bool| {
            let mut request = http::Request::builder().version(version).uri(uri);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            let (head, ()) = request.body(()).expect("a request").into_parts();
            assert_eq!(has_one_host(&head), expected, "{version:?} {uri} {hosts:?}");
        };
        check(Version::HTTP_10, "/", &[], true);
        check(Version::HTTP_10, "/", &["a"], true);
        check(Version::HTTP_10, "/", &["a", "b"], false);
        check(Version::HTTP_11, "/", &[], false);
        check(Version::HTTP_11, "/", &["a"], true);
        check(Version::HTTP_11, "/", &["a", "a"], false);
        check(Version::HTTP_2, "/", &[], false);
        check(Version::HTTP_2, "/", &["a"], true);
        check(Version::HTTP_2, "/", &["a", "a"], false);
        check(Version::HTTP_2, "http://a/", &[], true);
        check(Version::HTTP_2, "http://a:80/", &["A:80"], true);
        check(Version::HTTP_2, "http://a/", &["b"], false);
        check(Version::HTTP_2, "http://a/", &["a", "a"], false);
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_a_port() {
        for (value, expected) in [
            ("www.example.com", true),
            ("www.example.com:80", true),
            ("www.example.com:", true),
            ("192.0.2.1:80", true),
            ("[2001:db8::1]", true),
            ("[2001:db8::1]:80", true),
            ("", false),
            ("www.example.com:80x", false),
            ("www.example.com:80:81", false),
            ("[2001:db8::1]80", false),
            ("ada@www.example.com", false),
            ("a:b@www.example.com", false),
            ("www.example.com/", false),
            ("www.example.com?", false),
            ("www.example.com, www.example.com", false),
            ("www.example.com www.example.com", false),
            ("w%77w.example.com", false),
            ("exampl\u{e9}.com", false),
        ] {
            assert_eq!(is_valid_host(value.as_bytes()), expected, "{value:?}");
        }
    }
}
