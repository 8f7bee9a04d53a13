//! Validated URLs: `https` for any host, and `http` only for this machine, unless the caller permits it.
//!
//! The parser follows RFC 3986 and corrects nothing. Browsers correct backslashes, tabs and `0x7f.1`, but
//! such a correction can select a different server from the one that the configuration seems to name.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use tokio_rustls::rustls::pki_types::ServerName;

/// Maximum length of a URL, in bytes. A valid URL is ASCII, so each byte is one character.
const MAX_LENGTH: usize = 2_000;

/// A URL whose path may be secret, as in webhook URLs of chat services: errors and debug output omit it.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    scheme: UrlScheme,
    host: Host,
    port: u16,
    target: String,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlScheme {
    /// Unencrypted, so [`Url::parse`] permits it only for this machine.
    Http,
    Https,
}

/// The host of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A host name in lower case.
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// Whether the host is `localhost` or a loopback address; false for an IPv4-mapped one. The host may then
    /// resolve only to loopback addresses.
    pub fn is_loopback(&self) -> bool {
        match self {
            Host::Name(name) => name == "localhost",
            Host::Address(address) => address.is_loopback(),
        }
    }
}

impl Url {
    /// Parses a URL: `https` for any host, or `http` for `localhost` and loopback addresses. The error is a
    /// sentence for the operator, without the path. Host names that are not ASCII are refused rather than
    /// converted, so that the configuration shows the name to which the client connects. Fragments, user
    /// names, passwords, port 0 and URLs of more than 2,000 bytes are refused as well.
    pub fn parse(text: &str) -> Result<Url, String> {
        let url = Url::parse_unencrypted(text)?;
        if url.scheme == UrlScheme::Http && !url.host.is_loopback() {
            return Err(
                "expected `https://` (unencrypted `http://` is permitted only for `localhost` and loopback addresses such as 127.0.0.1)"
                    .to_owned(),
            );
        }
        Ok(url)
    }

    /// Like [`Url::parse`], but permits `http` for any host: for public pages, which are not secret.
    pub fn parse_unencrypted(text: &str) -> Result<Url, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("the URL has {} bytes; at most {MAX_LENGTH} are permitted", text.len()));
        }
        if text.contains('#') {
            return Err("a fragment (`#…`) never reaches the server: leave it out".to_owned());
        }
        if !text.is_ascii() {
            return Err("a URL must be ASCII, with the host name in its `xn--` form and other characters \
                        percent-encoded"
                .to_owned());
        }
        let expected = "expected a URL such as `https://hooks.example.com/frontdesk`";
        let uri: Uri = text.parse().map_err(|_| expected.to_owned())?;
        let scheme = match uri.scheme_str() {
            Some("https") => UrlScheme::Https,
            Some("http") => UrlScheme::Http,
            _ => return Err(expected.to_owned()),
        };
        let authority = uri.authority().ok_or(expected)?;
        if authority.as_str().contains('@') {
            return Err(
                "a user name or password in the URL is not sent: leave it out (a webhook's receiver verifies \
                        the signature made with `secret`)"
                    .to_owned(),
            );
        }
        let host = parse_host(authority.host())?;
        let port = match authority.port_u16() {
            Some(0) => return Err("port 0 is not valid: a port is a number from 1 to 65535".to_owned()),
            Some(port) => port,
            // The text after the colon is not a valid port number.
            None if authority.as_str().len() != authority.host().len() => {
                return Err("the port is not valid: a port is a number from 1 to 65535".to_owned());
            }
            None if scheme == UrlScheme::Https => 443,
            None => 80,
        };
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let target = if target.starts_with('?') { format!("/{target}") } else { target };
        Ok(Url { scheme, host, port, target })
    }

    /// A URL with the same scheme, host and port, but another path and query. `target` must begin with a
    /// slash.
    #[must_use]
    pub fn with_target(&self, target: &str) -> Url {
        Url { target: target.to_owned(), ..self.clone() }
    }

    pub fn scheme(&self) -> UrlScheme {
        self.scheme
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port; if the URL has none, the scheme's default port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path and query, as in the request line (RFC 9112 §3.2.1).
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The value of the `Host` header, which omits the scheme's default port (RFC 9110 §7.2).
    pub fn authority(&self) -> String {
        match (self.scheme, self.port) {
            (UrlScheme::Https, 443) | (UrlScheme::Http, 80) => self.host.to_string(),
            _ => self.host_and_port(),
        }
    }

    /// The host and port, even if the port is the scheme's default.
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// Parses a host name, an IPv4 address with four decimal parts, or an IPv6 address in brackets. Converts a
/// name to lower case, and refuses one with a label that begins with `0x`.
fn parse_host(text: &str) -> Result<Host, String> {
    let wrong =
        || format!("the host `{text}` is neither a name such as `hooks.example.com` nor an IP address");
    if let Some(address) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return address.parse().map(|address| Host::Address(IpAddr::V6(address))).map_err(|_| wrong());
    }
    let name = text.to_ascii_lowercase();
    match ServerName::try_from(name.as_str()) {
        Ok(ServerName::IpAddress(_)) => text.parse().map(Host::Address).map_err(|_| wrong()),
        // Refuse `0x7f.1`: system resolvers take it for an address, so it would hide the destination.
        Ok(ServerName::DnsName(_)) if !name.split('.').any(|label| label.starts_with("0x")) => {
            Ok(Host::Name(name))
        }
        _ => Err(wrong()),
    }
}

/// Writes IPv6 addresses in brackets, as in a URL.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V4(address)) => address.fmt(f),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({:?}, {}, …)", self.scheme, self.host_and_port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_url_has_host_port_and_target() {
        check(
            "https://hooks.example.com/frontdesk",
            Ok(("hooks.example.com:443", "hooks.example.com", "/frontdesk")),
        );
        check("https://Hooks.Example.com:8443/a%20b?x=1&y=2", {
            Ok(("hooks.example.com:8443", "hooks.example.com:8443", "/a%20b?x=1&y=2"))
        });
        check("https://hooks.example.com", Ok(("hooks.example.com:443", "hooks.example.com", "/")));
        check("https://hooks.example.com?x=1", Ok(("hooks.example.com:443", "hooks.example.com", "/?x=1")));
        check("https://192.0.2.7/", Ok(("192.0.2.7:443", "192.0.2.7", "/")));
        check("https://[2001:db8::7]:444/", Ok(("[2001:db8::7]:444", "[2001:db8::7]:444", "/")));
        check(
            "https://xn--bcher-kva.example/",
            Ok(("xn--bcher-kva.example:443", "xn--bcher-kva.example", "/")),
        );
        check("http://localhost:8080/x", Ok(("localhost:8080", "localhost:8080", "/x")));
        check("http://127.0.0.9/x", Ok(("127.0.0.9:80", "127.0.0.9", "/x")));
        check("http://[::1]/x", Ok(("[::1]:80", "[::1]", "/x")));
    }

    #[test]
    fn unsafe_urls_are_refused_with_a_hint() {
        check("", Err("expected a URL"));
        check("hooks.example.com/x", Err("expected a URL"));
        check("/x", Err("expected a URL"));
        check("ftp://hooks.example.com/", Err("expected a URL"));
        check("https:///x", Err("expected a URL"));
        check("https://hooks.example.com\\@192.0.2.1/", Err("expected a URL"));
        check("https://hooks.example.com/a b", Err("expected a URL"));
        check("https://hooks.example.com/\r\nX: y", Err("expected a URL"));
        check("http://hooks.example.com/", Err("https://"));
        check("http://localhost.example.com/", Err("https://"));
        check("http://192.0.2.7/", Err("https://"));
        check("https://user:password@hooks.example.com/", Err("name or password"));
        check("https://hooks.example.com/#part", Err("fragment"));
        check("https://bücher.example/", Err("xn--"));
        check("https://hooks.example.com/ü", Err("percent-encoded"));
        check("https://2130706433/", Err("neither a name"));
        check("https://0x7f.0.0.1/", Err("neither a name"));
        check("https://0x7f000001/", Err("neither a name"));
        check("https://127.1/", Err("neither a name"));
        check("https://0177.0.0.1/", Err("neither a name"));
        check("https://[::1%25eth0]/", Err("neither a name"));
        check("https://-x.example.com/", Err("neither a name"));
        check("https://hooks.example.com:0/", Err("port 0"));
        check("https://hooks.example.com:/", Err("port"));
        check("https://hooks.example.com:99999/", Err("port"));
        check(&format!("https://hooks.example.com/{}", "x".repeat(MAX_LENGTH)), Err("at most 2000"));
    }

    #[test]
    fn debug_output_does_not_contain_the_path() {
        let url = Url::parse("https://hooks.example.com/services/T0/B0/secret?token=secret").unwrap();
        assert_eq!(format!("{url:?}"), "Url(Https, hooks.example.com:443, …)");
    }

    fn check(text: &str, expected: Result<(&str, &str, &str), &str>) {
        match (Url::parse(text), expected) {
            (Ok(url), Ok((place, authority, target))) => {
                assert_eq!(
                    (&*url.host_and_port(), &*url.authority(), url.target()),
                    (place, authority, target),
                    "{text}"
                );
            }
            (Err(fault), Err(part)) => assert!(fault.contains(part), "{text}: {fault}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }
}
