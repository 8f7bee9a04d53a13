//! Refuses requests that servers understand differently: whoever stands before us may have gone by another meaning.

use http::header::{CONNECTION, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::Authority;
use http::{Method, StatusCode, Version};

use super::answer::{Answer, bad_request, text};

/// The answer to a request that has more than one meaning.
pub(super) fn refusal(head: &Parts) -> Option<Answer> {
    if !is_understood(&head.headers) {
        let reason = "Of transfer codings only `chunked` is understood here, and only once.\n";
        return Some(last(text(StatusCode::NOT_IMPLEMENTED, reason)));
    }
    if head.method == Method::CONNECT {
        // Somebody who takes the tunnel for granted sends on at once, and that is no HTTP.
        return Some(last(bad_request("this is no proxy")));
    }
    let hosts = head.headers.get_all(HOST);
    if !hosts.iter().all(|host| host.is_empty() || names_host(host.as_bytes()))
        || head.uri.authority().is_some_and(|authority| !names_host(authority.as_str().as_bytes()))
    {
        return Some(bad_request("it names no valid host"));
    }
    if head.version == Version::HTTP_2 && head.headers.values().any(|value| is_padded(value.as_bytes())) {
        return Some(bad_request("a field's value begins or ends with white space"));
    }
    None
}

/// HTTP/1 has taken it away by now; in HTTP/2 it makes a request malformed (RFC 9113 §8.2.1).
fn is_padded(value: &[u8]) -> bool {
    value.trim_ascii().len() != value.len()
}

/// Whether the body is encoded as RFC 9112 §7 has it: not at all, or `chunked` and nothing else. hyper looks at the last coding
/// alone, and would take what is compressed for the body.
fn is_understood(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(only), None) => only.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// Whether it is a host with or without a port, as RFC 9110 §7.2 has it: no user, no path, no list.
pub(super) fn names_host(value: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(value) else { return false };
    let (text, host) = (authority.as_str(), authority.host());
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    match text.strip_prefix(host) {
        Some("") => true,
        Some(port) => port.strip_prefix(':').is_some_and(is_port),
        // A user stands before it.
        None => false,
    }
}

fn last(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunked_is_understood_and_nothing_else() {
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
            assert_eq!(is_understood(&headers), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_padded_value_is_refused_in_http_2() {
        let refused = |version: Version, value: &'static str| {
            let request = http::Request::builder().version(version).header("x", value);
            let (head, ()) = request.body(()).expect("a request").into_parts();
            refusal(&head).is_some_and(|answer| answer.status() == StatusCode::BAD_REQUEST)
        };
        for (value, expected) in [(" a", true), ("a\t", true), ("a b", false), ("", false)] {
            assert_eq!(refused(Version::HTTP_2, value), expected, "{value:?}");
            assert!(!refused(Version::HTTP_11, value), "{value:?}");
        }
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
            assert_eq!(names_host(value.as_bytes()), expected, "{value:?}");
        }
    }
}
