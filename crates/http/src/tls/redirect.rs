//! Decides which requests came over plain HTTP, and redirects them to HTTPS.

use http::Uri;
use http::header::HeaderValue;
use http::request::Parts;
use http::uri::Authority;

use crate::ambiguity::host_of;
use crate::refusal::Refusal;
use crate::socket::{Peer, Scheme};
use crate::trusted_proxies::{Network, all_proxies_report, is_trusted};

/// The path prefix of ACME HTTP-01 challenges (RFC 8555 §8.3). Requests for challenges are not redirected,
/// because an authority may refuse to follow a redirect to a host that has no certificate yet.
const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// Where plain HTTP requests are redirected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpsRedirect {
    /// The site's own host, with the port unless the port is 443.
    pub authority: String,
    /// The host names of this server. A request for one of them is redirected to the same name.
    pub names: Vec<String>,
}

impl HttpsRedirect {
    /// The URL of the same resource over TLS, or of `/` if the target has no path. Its host is the requested
    /// one if that is one of this server's names, and otherwise the site's own, so a forged `Host` cannot
    /// cause a redirect to another server. Its port is always that of the site.
    fn location(&self, host: Option<&str>, target: &Uri) -> String {
        let asked: Option<Authority> = host.and_then(|host| host.parse().ok());
        let name = asked.and_then(|asked| {
            self.names.iter().find(|name| name.eq_ignore_ascii_case(asked.host())).map(String::as_str)
        });
        let own: Option<Authority> = self.authority.parse().ok();
        let port = own.and_then(|own| own.port_u16()).map_or_else(String::new, |port| format!(":{port}"));
        let path = path_and_query(target);
        match name {
            Some(name) => format!("https://{name}{port}{path}"),
            None => format!("https://{}{path}", self.authority),
        }
    }
}

/// The path and query of a request's target, or `/` if it has no path. Bytes outside of ASCII, which some
/// clients send, are percent-encoded, because a URL in `Location` has none (RFC 3986 §2).
pub(crate) fn path_and_query(target: &Uri) -> String {
    let path = target.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut encoded = String::with_capacity(path.len());
    for byte in if path.starts_with('/') { path } else { "/" }.bytes() {
        match char::from(byte) {
            letter if letter.is_ascii() => encoded.push(letter),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// The redirect for a plain HTTP request; `None` if the request is to be served, as are ACME challenges.
///
/// A trusted proxy, or any peer on a Unix socket, may have terminated TLS. Its requests are redirected only
/// if `X-Forwarded-Proto` reports that the client used plain HTTP; without the header, a redirect could loop.
pub(crate) fn redirect_to_https(
    redirect: Option<&HttpsRedirect>,
    proxies: &[Network],
    scheme: Scheme,
    peer: Peer,
    head: &Parts,
) -> Option<Refusal> {
    let redirect = redirect?;
    if !is_plain_http(proxies, scheme, peer, head) || is_acme_challenge(head) {
        return None;
    }
    let location = HeaderValue::from_str(&redirect.location(host_of(head), &head.uri)).ok()?;
    Some(Refusal::Redirect(location))
}

/// Whether the client used plain HTTP, according to the connection or to a trusted proxy's headers. False if
/// a trusted proxy reports nothing.
pub(crate) fn is_plain_http(proxies: &[Network], scheme: Scheme, peer: Peer, head: &Parts) -> bool {
    scheme == Scheme::Http && (!is_trusted(proxies, peer) || all_proxies_report("http", &head.headers))
}

pub(crate) fn is_acme_challenge(head: &Parts) -> bool {
    head.uri.path().starts_with(CHALLENGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Trust;

    fn redirected(scheme: Scheme, peer: Peer, head: &Parts) -> Option<Refusal> {
        let redirect = HttpsRedirect {
            authority: "www.example.com:8443".into(),
            names: vec!["example.com".into(), "www.example.com".into()],
        };
        redirect_to_https(Some(&redirect), &["10.0.0.0/8".parse().expect("a block")], scheme, peer, head)
    }

    fn head(target: &str, headers: &[(&'static str, &str)]) -> Parts {
        let mut request = http::Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn redirects_keep_path_and_query_and_use_our_host() {
        let own = "https://www.example.com:8443";
        for (host, target, expected) in [
            ("www.example.com", "/a/?b=c&d", format!("{own}/a/?b=c&d")),
            ("www.example.com:8080", "/", format!("{own}/")),
            ("EXAMPLE.com", "/a", "https://example.com:8443/a".to_owned()),
            ("evil.example.net", "/a", format!("{own}/a")),
            ("user@example.com", "/a", "https://example.com:8443/a".to_owned()),
            ("no host", "/a", format!("{own}/a")),
            ("", "/%2e%2e/a", format!("{own}/%2e%2e/a")),
            ("example.com", "//evil.example.net/", "https://example.com:8443//evil.example.net/".to_owned()),
            ("example.com", "http://evil.example.net/a?b", format!("{own}/a?b")),
            ("evil.example.net", "http://example.com/a?b", "https://example.com:8443/a?b".to_owned()),
            ("", "/über?q=ü", format!("{own}/%C3%BCber?q=%C3%BC")),
            ("example.com", "*", "https://example.com:8443/".to_owned()),
        ] {
            let (peer, head) = (peer("192.0.2.7"), head(target, &[("host", host)]));
            let expected = HeaderValue::try_from(expected).expect("a URL");
            let found = redirected(Scheme::Http, peer, &head);
            assert_eq!(found, Some(Refusal::Redirect(expected)), "{host} {target}");
        }
    }

    #[test]
    fn only_plain_http_requests_are_redirected() {
        let local = Peer::LOCAL;
        let stranger = peer("192.0.2.7");
        let proxy = peer("10.0.0.1");
        check(Scheme::Http, stranger, "/", &[], true);
        check(Scheme::Https, stranger, "/", &[], false);
        check(Scheme::Http, stranger, "/api/contact", &[], true);
        check(Scheme::Http, stranger, "/.well-known/acme-challenge/x", &[], false);
        check(Scheme::Http, stranger, "/.well-known/security.txt", &[], true);
        // The server ignores `X-Forwarded-Proto` from untrusted clients, and on a proxy's connection if the
        // PROXY header names no client.
        check(Scheme::Http, stranger, "/", &["https"], true);
        let unnamed = Peer { trust: Trust::Never, ..proxy };
        for said in [&[][..], &["https"], &["http"]] {
            check(Scheme::Http, unnamed, "/", said, true);
            check(Scheme::Https, unnamed, "/", said, false);
        }
        for trusted in [local, proxy] {
            check(Scheme::Http, trusted, "/", &[], false);
            check(Scheme::Http, trusted, "/", &["https"], false);
            check(Scheme::Http, trusted, "/", &["http"], true);
            check(Scheme::Http, trusted, "/", &["HTTP"], true);
            check(Scheme::Http, trusted, "/", &["https, http"], false);
            check(Scheme::Http, trusted, "/", &["http", "https"], false);
            check(Scheme::Http, trusted, "/", &["http", "http"], true);
            check(Scheme::Http, trusted, "/", &[""], false);
            check(Scheme::Https, trusted, "/", &["http"], false);
        }
        assert!(redirect_to_https(None, &[], Scheme::Http, stranger, &head("/", &[])).is_none());
    }

    fn peer(address: &str) -> Peer {
        Peer::at(address.parse().expect("an address"))
    }

    fn check(scheme: Scheme, peer: Peer, path: &str, forwarded: &[&str], expected: bool) {
        let headers: Vec<_> = forwarded.iter().map(|scheme| ("x-forwarded-proto", *scheme)).collect();
        let answer = redirected(scheme, peer, &head(path, &headers));
        assert_eq!(answer.is_some(), expected, "{scheme:?} {peer:?} {path} {forwarded:?}");
    }
}
