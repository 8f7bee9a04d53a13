//! Refuses requests that another site could have caused: by DNS rebinding, forged forms or embedding.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, StatusCode};

use frontdesk_http::{Address, Scheme};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// A host name in lower case, such as `inbox.example.com`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

impl FromStr for HostName {
    type Err = ();

    /// Accepts at most 253 ASCII letters, digits, hyphens and dots, in labels of 1 to 63 characters. Converts
    /// the name to lower case.
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
    /// Over TLS, the request is for a host other than the inbox's domain.
    Misdirected,
    /// The request comes from another site.
    OtherSite,
}

impl GuardError {
    pub(super) fn status(self) -> StatusCode {
        match self {
            // RFC 9110 §15.5.20: the client may send the request again on another connection.
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::Host | Self::OtherSite => StatusCode::FORBIDDEN,
        }
    }

    /// The error in a sentence for the operator.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Host => {
                "The host name of this request is not one of the inbox's. Use the inbox's own address, or add the name to `inbox.host`."
            }
            Self::Misdirected => "This connection serves the inbox's own domain only.",
            Self::OtherSite => "The inbox accepts requests from its own pages only.",
        }
    }
}

/// Checks that `Host` means this listener and that the request does not come from another site. For GET and
/// HEAD, links from other sites are permitted, but not frames. Other methods must have an `Origin` with the
/// same host and port. `Sec-Fetch-Site` may be missing, because old browsers do not send it. Over TLS, the
/// only host is the domain, which the connection has requested (SNI), and `Origin` must be https.
pub(super) fn check(
    head: &Parts,
    scheme: Scheme,
    listen: Option<&Address>,
    domain: Option<&HostName>,
    names: &[HostName],
) -> Result<(), GuardError> {
    let host = single(&head.headers, &HOST);
    if scheme == Scheme::Https && !host.is_some_and(|host| is_for_domain(head, host, domain)) {
        return Err(GuardError::Misdirected);
    }
    let host = host.ok_or(GuardError::Host)?;
    if scheme == Scheme::Http && !is_own_host(host, listen, names) {
        return Err(GuardError::Host);
    }
    let site = single(&head.headers, &SEC_FETCH_SITE);
    if head.method == Method::GET || head.method == Method::HEAD {
        // A link on another site may lead to the inbox, but a script or a frame there may load nothing: a
        // hidden frame could open submissions, which marks them as read. Browsers before 2020 send no
        // destination.
        let is_link = single(&head.headers, &SEC_FETCH_MODE) == Some("navigate")
            && matches!(single(&head.headers, &SEC_FETCH_DEST), None | Some("document"));
        let is_own = matches!(site, None | Some("same-origin" | "none"));
        return if is_own || is_link { Ok(()) } else { Err(GuardError::OtherSite) };
    }
    // Every browser sends `Origin` with a POST request.
    let origin = single(&head.headers, &ORIGIN).ok_or(GuardError::OtherSite)?;
    let is_same_host = ["https://", "http://"]
        .iter()
        .take(if scheme == Scheme::Https { 1 } else { 2 })
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

/// Whether `Host` (with any port) and the authority of an absolute target, if present, name the domain.
fn is_for_domain(head: &Parts, host: &str, domain: Option<&HostName>) -> bool {
    let is_domain = |host: &str| {
        let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
        let is_name = domain.is_some_and(|domain| domain.0.eq_ignore_ascii_case(name));
        is_name && (port.is_none() || is_port(port))
    };
    is_domain(host) && head.uri.authority().is_none_or(|authority| is_domain(authority.as_str()))
}

/// Whether a `Host` header names this listener: `localhost`, a loopback address, the listener's own address
/// (any address if it listens on all interfaces), or one of `names`. Addresses are safe, because DNS
/// rebinding needs a name. Any port is permitted, because a container or a tunnel may map it.
fn is_own_host(host: &str, listen: Option<&Address>, names: &[HostName]) -> bool {
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
                Some(Address::Tcp(own)) => {
                    own.ip().is_unspecified() || own.ip().to_canonical() == address.to_canonical()
                }
                Some(Address::Unix(_)) | None => false,
            };
    }
    let name = name.to_ascii_lowercase();
    name == "localhost" || names.iter().any(|own| own.0 == name)
}

/// Whether `text` is present and consists of one to five digits.
fn is_port(text: Option<&str>) -> bool {
    text.is_some_and(|text| (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTEN: &str = "127.0.0.1:8082";

    fn verdict(method: &str, headers: &[(&str, &str)], listen: &str) -> Result<(), GuardError> {
        let names = ["inbox.example.com".parse().unwrap()];
        check(&head(method, "/", headers), Scheme::Http, Some(&listen.parse().unwrap()), None, &names)
    }

    fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    /// The domain is `desk.example.com`. `inbox.host` and the address of the listener do not matter.
    fn verdict_over_tls(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<(), GuardError> {
        let [domain, name] = ["Desk.example.com", "inbox.example.com"].map(|name| name.parse().unwrap());
        let (head, own_socket) = (head(method, target, headers), "0.0.0.0:8443".parse().unwrap());
        let check = |listen| check(&head, Scheme::Https, listen, Some(&domain), std::slice::from_ref(&name));
        let (on_public_sockets, on_own_socket) = (check(None), check(Some(&own_socket)));
        assert_eq!(on_public_sockets, on_own_socket);
        on_own_socket
    }

    #[test]
    fn over_tls_the_domain_is_the_only_host() {
        for host in ["desk.example.com", "DESK.example.com", "desk.example.com:443", "desk.example.com:8443"]
        {
            assert_eq!(verdict_over_tls("GET", "/", &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "www.example.com",
            "inbox.example.com",
            "localhost",
            "127.0.0.1:8443",
            "[::1]:8443",
            "192.0.2.1",
            "desk.example.com.",
            "desk.example.com:",
            "desk.example.com:x",
            "a.desk.example.com",
            "",
        ] {
            let found = verdict_over_tls("GET", "/", &[("host", host)]);
            assert_eq!(found, Err(GuardError::Misdirected), "{host}");
        }
        assert_eq!(verdict_over_tls("GET", "/", &[]), Err(GuardError::Misdirected));
        let own = ("host", "desk.example.com");
        assert_eq!(verdict_over_tls("GET", "/", &[own, own]), Err(GuardError::Misdirected));
        assert_eq!(verdict_over_tls("GET", "https://desk.example.com/", &[own]), Ok(()));
        let other = verdict_over_tls("GET", "https://www.example.com/", &[own]);
        assert_eq!(other, Err(GuardError::Misdirected));
        let unset = check(&head("GET", "/", &[own]), Scheme::Https, None, None, &[]);
        assert_eq!(unset, Err(GuardError::Misdirected), "a reload has removed the domain");
    }

    #[test]
    fn over_tls_only_pages_over_tls_may_post() {
        let verdict =
            |origin: &str| verdict_over_tls("POST", "/", &[("host", "desk.example.com"), ("origin", origin)]);
        assert_eq!(verdict("https://desk.example.com"), Ok(()));
        for origin in
            ["http://desk.example.com", "https://www.example.com", "https://desk.example.com:8443", "null"]
        {
            assert_eq!(verdict(origin), Err(GuardError::OtherSite), "{origin}");
        }
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
        let check = |site: &str, mode: &str, destination: &str, expected: bool| {
            let mut headers = vec![("host", "localhost"), ("sec-fetch-site", site), ("sec-fetch-mode", mode)];
            headers.extend(Some(("sec-fetch-dest", destination)).filter(|_| !destination.is_empty()));
            for method in ["GET", "HEAD"] {
                assert_eq!(verdict(method, &headers, LISTEN).is_ok(), expected, "{method} {headers:?}");
            }
        };
        for site in ["cross-site", "same-site", "same-origin", "none"] {
            check(site, "navigate", "document", true);
            check(site, "navigate", "", true);
        }
        check("same-origin", "cors", "empty", true);
        for site in ["cross-site", "same-site"] {
            for mode in ["no-cors", "cors", "websocket"] {
                check(site, mode, "empty", false);
                check(site, mode, "document", false);
            }
            for frame in ["iframe", "frame", "embed", "object", "fencedframe"] {
                check(site, "navigate", frame, false);
            }
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
