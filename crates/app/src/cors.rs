//! Cross-origin requests to the forms (CORS, Fetch Standard §3.3): the permitted origins, preflight
//! responses, and the headers of other responses.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, CACHE_CONTROL,
    HeaderMap, HeaderValue, ORIGIN, VARY,
};
use http::request::Parts;
use http::{Method, StatusCode};

use super::response::{HttpResponse, text, with_header};

/// An origin as browsers and apps send it in `Origin` (RFC 6454 §6.2): in lower case, without the default
/// port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOrigin(String);

impl PageOrigin {
    /// Parses an exact origin: ASCII, any scheme except `file`, and no path, not even `/`. Normalizes case
    /// and IPv6 addresses, and removes default ports. The error says what is wrong with the text, which it
    /// calls "it".
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.contains('*') || text == "null" {
            return Err("each origin must be named exactly".to_owned());
        }
        if !text.is_ascii() {
            return Err("write the host name in its `xn--` form".to_owned());
        }
        let lower = text.to_ascii_lowercase();
        // Apps send origins such as `capacitor://localhost`: on iOS, they cannot use `https` instead.
        let Some((scheme, authority)) = lower.split_once("://").filter(|(scheme, _)| is_scheme(scheme))
        else {
            return Err("it must begin with `https://`, `http://` or the scheme of an app".to_owned());
        };
        if let Some(at) = authority.find(['/', '?', '#']) {
            return Err(format!("it has a path or a query: write `{scheme}://{}`", &authority[..at]));
        }
        // Look for the port after the bracket that ends an IPv6 address, which has colons of its own.
        let end = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[end..].split_once(':') {
            Some((rest, port)) => (&authority[..end + rest.len()], Some(port)),
            None => (authority, None),
        };
        let host = normal_host(host).ok_or("it has no valid host name such as `www.example.com`")?;
        let default = match scheme {
            "https" => 443,
            "http" => 80,
            _ => 0,
        };
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port @ 1..)) => Some(port).filter(|port| *port != default),
            Some(_) => return Err("its port must be a number from 1 to 65535".to_owned()),
        };
        Ok(Self(match port {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        }))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a text in lower case is a URI scheme (RFC 3986 §3.1) other than `file`, whose origin is `null`.
fn is_scheme(text: &str) -> bool {
    text != "file"
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Checks a host in lower case and shortens an IPv6 address; `None` if the host is invalid. Does not
/// normalize an IPv4 address such as `127.1`.
fn normal_host(host: &str) -> Option<String> {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse().ok().map(|address: std::net::Ipv6Addr| format!("[{address}]"));
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    (host.len() <= 253 && host.split('.').all(is_label)).then(|| host.to_owned())
}

/// The request's origin, if it is permitted and the request has only one `Origin` line.
pub(super) fn permitted_origin(permitted: &[PageOrigin], headers: &HeaderMap) -> Option<HeaderValue> {
    let mut lines = headers.get_all(ORIGIN).iter();
    let origin = lines.next().filter(|_| lines.next().is_none())?;
    permitted.iter().any(|permitted| permitted.0.as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

/// The response to a preflight request from a permitted origin; `None` for other requests. Browsers compare
/// the method and headers with those that they want to send.
pub(super) fn preflight(permitted: &[PageOrigin], head: &Parts) -> Option<HttpResponse> {
    let is_preflight =
        head.method == Method::OPTIONS && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let origin = permitted_origin(permitted, &head.headers).filter(|_| is_preflight)?;
    let mut response = text(StatusCode::NO_CONTENT, "");
    let headers = response.headers_mut();
    headers.remove(http::header::CONTENT_TYPE);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let response = with_header(response, ACCESS_CONTROL_ALLOW_METHODS, "POST");
    let response = with_header(response, ACCESS_CONTROL_ALLOW_HEADERS, "content-type, idempotency-key");
    // Browsers cache the preflight result for this many seconds. Chromium permits at most two hours.
    let response = with_header(response, ACCESS_CONTROL_MAX_AGE, "7200");
    let vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";
    Some(with_header(response, VARY, vary))
}

/// Lets the scripts of a permitted origin read the response, its rate limit headers and its request ID.
pub(super) fn expose(headers: &mut HeaderMap, origin: HeaderValue) {
    const EXPOSED: &str = "Retry-After, RateLimit, RateLimit-Policy, X-Request-Id";
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn an_origin_is_normalized_as_browsers_do() {
        for (text, expected) in [
            ("https://www.example.com", "https://www.example.com"),
            ("HTTPS://Www.Example.COM:443", "https://www.example.com"),
            ("http://localhost:4321", "http://localhost:4321"),
            ("http://example.com:080", "http://example.com"),
            ("https://example.com:80", "https://example.com:80"),
            ("https://192.0.2.1:8443", "https://192.0.2.1:8443"),
            ("https://[2001:DB8:0::1]:443", "https://[2001:db8::1]"),
            ("https://xn--bcher-kva.example", "https://xn--bcher-kva.example"),
            ("Capacitor://localhost", "capacitor://localhost"),
            ("tauri://localhost:80", "tauri://localhost:80"),
            ("chrome-extension://abcdefghijklmnop", "chrome-extension://abcdefghijklmnop"),
        ] {
            assert_eq!(PageOrigin::parse(text).as_ref().map(PageOrigin::as_str), Ok(expected), "{text}");
        }
        for (text, why) in [
            ("*", "exactly"),
            ("https://*.example.com", "exactly"),
            ("null", "exactly"),
            ("", "must begin"),
            ("www.example.com", "must begin"),
            ("file:///", "must begin"),
            ("1a://b", "must begin"),
            ("a_b://c", "must begin"),
            ("https:/example.com", "must begin"),
            ("https://bücher.example", "xn--"),
            ("https://example.com/", "write `https://example.com`"),
            ("https://example.com/a", "write `https://example.com`"),
            ("https://example.com?a", "has a path"),
            ("https://", "no valid host"),
            ("https://a b", "no valid host"),
            ("https://a..b", "no valid host"),
            ("https://a@b", "no valid host"),
            ("https://a,https://b", "has a path"),
            ("https://a,b", "no valid host"),
            ("https://[::1", "no valid host"),
            ("https://[1]", "no valid host"),
            ("https://example.com:0", "port"),
            ("https://example.com:", "port"),
            ("https://example.com:65536", "port"),
            ("https://a:1:2", "port"),
        ] {
            let error = PageOrigin::parse(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn only_a_permitted_origin_gets_a_preflight_response() {
        let check = |method: &str, headers: &[(&str, &str)], expected: bool| {
            let mut request = Request::builder().method(method).uri("/api/contact");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (head, ()) = request.body(()).expect("a request").into_parts();
            let permitted = [PageOrigin::parse("https://a.example").expect("an origin")];
            assert_eq!(preflight(&permitted, &head).is_some(), expected, "{method} {headers:?}");
            assert!(preflight(&[], &head).is_none());
        };
        let (origin, wanted) = (("origin", "https://a.example"), ("access-control-request-method", "POST"));
        check("OPTIONS", &[origin, wanted], true);
        check("OPTIONS", &[wanted], false);
        check("OPTIONS", &[origin], false);
        check("POST", &[origin, wanted], false);
        check("OPTIONS", &[("origin", "https://b.example"), wanted], false);
        check("OPTIONS", &[("origin", "https://a.example.b.example"), wanted], false);
        check("OPTIONS", &[("origin", "http://a.example"), wanted], false);
        check("OPTIONS", &[("origin", "https://a.example:8443"), wanted], false);
        check("OPTIONS", &[("origin", "null"), wanted], false);
        check("OPTIONS", &[origin, origin, wanted], false);
    }
}
