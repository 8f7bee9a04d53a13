//! Refuses requests that another site could have caused: by DNS rebinding, forged forms or embedding.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method};

use frontdesk_http::Address;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// A host name in lower case, such as `inbox.example.com`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

impl FromStr for HostName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let is_valid = text.len() <= 253 && text.split('.').all(is_label);
        if is_valid { Ok(Self(text.to_ascii_lowercase())) } else { Err(()) }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuardError {
    /// The `Host` header names another host, or is missing.
    Host,
    /// The request comes from another site.
    OtherSite,
}

impl GuardError {
    /// The message for the operator.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Host => {
                "The host name of this request is not one of the inbox. Use the inbox's own address, or add the name to `inbox.host`."
            }
            Self::OtherSite => "The inbox accepts requests from its own pages only.",
        }
    }
}

/// Checks that `Host` means this listener and that the request does not come from another site. For GET and
/// HEAD, links from other sites are permitted; other methods must have an `Origin` with the same host.
pub(super) fn check(head: &Parts, listen: &Address, names: &[HostName]) -> Result<(), GuardError> {
    let host = single(&head.headers, &HOST).ok_or(GuardError::Host)?;
    if !is_own_host(host, listen, names) {
        return Err(GuardError::Host);
    }
    let site = single(&head.headers, &SEC_FETCH_SITE);
    if head.method == Method::GET || head.method == Method::HEAD {
        // A link on another site may lead here; another site's script or frame may not load anything.
        let is_link = single(&head.headers, &SEC_FETCH_MODE) == Some("navigate");
        let is_own = matches!(site, None | Some("same-origin" | "none"));
        return if is_own || is_link { Ok(()) } else { Err(GuardError::OtherSite) };
    }
    // Every browser sends `Origin` with a POST request.
    let origin = single(&head.headers, &ORIGIN).ok_or(GuardError::OtherSite)?;
    let is_same_host = ["http://", "https://"]
        .iter()
        .filter_map(|scheme| origin.strip_prefix(scheme))
        .any(|rest| rest.eq_ignore_ascii_case(host));
    if is_same_host && matches!(site, None | Some("same-origin")) {
        Ok(())
    } else {
        Err(GuardError::OtherSite)
    }
}

/// The value of a header that occurs exactly once; otherwise, or if it is not visible ASCII, `None`.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether a `Host` header names this listener: `localhost`, a loopback address, the listener's own address
/// (any address if it listens on all interfaces), or one of `names`. Addresses are safe, because DNS
/// rebinding needs a name. Any port is permitted, because a container or a tunnel may map it.
fn is_own_host(host: &str, listen: &Address, names: &[HostName]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, "")) => address,
            Some((address, port)) if is_port(port.strip_prefix(':')) => address,
            _ => return false,
        },
        None => match host.split_once(':') {
            None => host,
            Some((name, port)) if is_port(Some(port)) => name,
            Some(_) => return false,
        },
    };
    if let Ok(address) = name.parse::<IpAddr>() {
        return address.is_loopback()
            || match listen {
                Address::Tcp(own) => {
                    own.ip().is_unspecified() || own.ip().to_canonical() == address.to_canonical()
                }
                Address::Unix(_) => false,
            };
    }
    let name = name.to_ascii_lowercase();
    name == "localhost" || names.iter().any(|own| own.0 == name)
}

fn is_port(text: Option<&str>) -> bool {
    text.is_some_and(|text| (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTEN: &str = "127.0.0.1:8082";

    fn verdict(method: &str, headers: &[(&str, &str)], listen: &str) -> Result<(), GuardError> {
        let mut request = http::Request::builder().method(method).uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let head = request.body(()).unwrap().into_parts().0;
        check(&head, &listen.parse().unwrap(), &["inbox.example.com".parse().unwrap()])
    }

    #[test]
    fn only_its_own_names_are_accepted_as_the_host() {
        let check = |host: &str, listen: &str, expected: bool| {
            let found = verdict("GET", &[("host", host)], listen);
            assert_eq!(found, if expected { Ok(()) } else { Err(GuardError::Host) }, "{host} at {listen}");
        };
        for host in [
            "127.0.0.1:8082",
            "localhost:8082",
            "LOCALHOST",
            "[::1]:8082",
            "localhost:9000",
            "Inbox.Example.com",
            "inbox.example.com:443",
        ] {
            check(host, LISTEN, true);
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:8082",
            "localhost.evil.example",
            "localhost.",
            "192.0.2.1:8082",
            "",
            ":8082",
            "localhost:",
            "localhost:80x",
            "localhost:8082@evil.example",
            "[::1",
            "[::1]x",
            "a.inbox.example.com",
        ] {
            check(host, LISTEN, false);
        }
        check("192.0.2.1:8082", "192.0.2.1:8082", true);
        check("192.0.2.1:8082", "0.0.0.0:8082", true);
        check("evil.example", "0.0.0.0:8082", false);
        check("localhost", "unix:/run/a.sock", true);
        check("192.0.2.1", "unix:/run/a.sock", false);
        assert_eq!(verdict("GET", &[], LISTEN), Err(GuardError::Host));
        let two = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(verdict("GET", &two, LISTEN), Err(GuardError::Host));
    }

    #[test]
    fn only_its_own_pages_may_post() {
        let check = |origin: Option<&str>, site: Option<&str>, expected: bool| {
            let mut headers = vec![("host", "localhost:8082")];
            headers.extend(origin.map(|origin| ("origin", origin)));
            headers.extend(site.map(|site| ("sec-fetch-site", site)));
            let found = verdict("POST", &headers, LISTEN);
            assert_eq!(found.is_ok(), expected, "{headers:?}");
        };
        check(Some("http://localhost:8082"), Some("same-origin"), true);
        check(Some("https://LOCALHOST:8082"), None, true);
        for origin in [
            "null",
            "http://evil.example",
            "http://localhost:9999",
            "http://localhost",
            "localhost:8082",
            "http://localhost:8082.evil.example",
            "",
        ] {
            check(Some(origin), Some("same-origin"), false);
        }
        check(None, Some("same-origin"), false);
        check(None, None, false);
        for site in ["cross-site", "same-site", "none", ""] {
            check(Some("http://localhost:8082"), Some(site), false);
        }
    }

    #[test]
    fn other_sites_may_link_here_but_load_nothing() {
        let check = |site: &str, mode: &str, expected: bool| {
            let headers = [("host", "localhost"), ("sec-fetch-site", site), ("sec-fetch-mode", mode)];
            assert_eq!(verdict("GET", &headers, LISTEN).is_ok(), expected, "{headers:?}");
        };
        check("cross-site", "navigate", true);
        check("none", "navigate", true);
        check("same-origin", "cors", true);
        for mode in ["no-cors", "cors", "websocket"] {
            check("cross-site", mode, false);
            check("same-site", mode, false);
        }
    }

    #[test]
    fn a_host_name_has_labels_of_letters_digits_and_hyphens() {
        assert_eq!("Inbox.Example.com".parse::<HostName>().unwrap().to_string(), "inbox.example.com");
        for wrong in ["", "a..b", "a b", "a:80", "https://a", "a/b", "*.example.com", &"a".repeat(64)] {
            assert!(wrong.parse::<HostName>().is_err(), "{wrong}");
        }
    }
}
