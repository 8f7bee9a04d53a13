//! The options of an audit, and the errors that end it.

use std::net::IpAddr;
use std::time::Duration;

use frontdesk_convert::Url;
use frontdesk_fetch::ExtraRoots;
use http::{HeaderName, HeaderValue};

/// The options of an audit.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum number of requests that the audit sends. TLS handshakes without a request count as well.
    pub max_requests: usize,
    /// The number of pages that are compared with their Markdown, including the one that the URL names.
    pub pages: usize,
    /// Fields that requests carry, such as the credentials of a staging site. They are sent to the origin
    /// of the named URL, and over TLS to the same site.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The `User-Agent` that replaces the audit's own.
    pub user_agent: Option<HeaderValue>,
    /// Certificate authorities to trust in addition to the public ones, for example to audit a staging site.
    pub extra_roots: Option<ExtraRoots>,
    /// Whether to submit each form once with valid values. Otherwise only invalid requests are sent.
    pub submits: bool,
    /// The minimum time between the starts of two requests. Zero for sites on this machine.
    pub pace: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_requests: 60,
            pages: 3,
            headers: Vec::new(),
            user_agent: None,
            extra_roots: None,
            submits: false,
            pace: Duration::from_millis(150),
        }
    }
}

/// Why a site could not be audited.
#[derive(Debug)]
pub enum AuditError {
    /// The page cannot be fetched: DNS, the connection, TLS or HTTP failed. Contains a sentence.
    Unreachable(String),
    /// The URL redirects to another host, or returns a login, a challenge or an error. Contains a sentence.
    NotServed(String),
}

impl std::fmt::Display for AuditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AuditError::Unreachable(sentence) | AuditError::NotServed(sentence) => f.write_str(sentence),
        }
    }
}

impl std::error::Error for AuditError {}

/// Parses the URL of a site, and removes its fragment. Adds `https://` to a text without a scheme, or
/// `http://` if its host is this computer ([`is_loopback`]). Fails for other schemes and for a URL with a
/// user name or password. The error is a sentence.
pub fn parse_target(text: &str) -> Result<Url, String> {
    let text = text.trim();
    let expected = || format!("`{text}` is not a URL such as `https://www.example.com/`");
    // `://` in a path or a query belongs to another URL.
    let has_scheme = text.split_once("://").is_some_and(|(scheme, _)| !scheme.contains(['/', '?', '#']));
    let with_scheme = if has_scheme {
        text.to_owned()
    } else {
        let local = Url::parse(&format!("http://{text}")).ok().filter(is_loopback);
        local.map_or_else(|| format!("https://{text}"), String::from)
    };
    let mut url = Url::parse(&with_scheme).map_err(|_| expected())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(expected());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "the URL has a user name or password: send it with `--header 'Authorization: …'`".to_owned()
        );
    }
    url.set_fragment(None);
    Ok(url)
}

/// Whether the host is this computer: the name `localhost` or one below it, 127.0.0.0/8, 0.0.0.0, `::1` or
/// `::`.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_own = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    host == "localhost" || host.ends_with(".localhost") || host.parse().is_ok_and(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_needs_no_scheme() {
        for (text, expected) in [
            ("www.example.com", Ok("https://www.example.com/")),
            ("localhost:8080/docs", Ok("http://localhost:8080/docs")),
            ("127.0.0.1:8080", Ok("http://127.0.0.1:8080/")),
            ("Localhost?q", Ok("http://localhost/?q")),
            ("[::1]:8080", Ok("http://[::1]:8080/")),
            ("0.0.0.0:8080", Ok("http://0.0.0.0:8080/")),
            ("app.localhost:8080", Ok("http://app.localhost:8080/")),
            ("example.com/?u=http://a", Ok("https://example.com/?u=http://a")),
            ("localhost/http://a", Ok("http://localhost/http://a")),
            ("example.com#a://b", Ok("https://example.com/")),
            ("localhost.example.com", Ok("https://localhost.example.com/")),
            ("localhosts:8080", Ok("https://localhosts:8080/")),
            ("127.example.com/a", Ok("https://127.example.com/a")),
            ("www.example.com:80", Ok("https://www.example.com:80/")),
            (" http://example.com/a#b ", Ok("http://example.com/a")),
            ("ftp://example.com", Err("is not a URL")),
            ("file:///etc/passwd", Err("is not a URL")),
            ("https://user@example.com/", Err("--header")),
            ("", Err("is not a URL")),
            ("not a url", Err("is not a URL")),
        ] {
            match (parse_target(text), expected) {
                (Ok(url), Ok(expected)) => assert_eq!(url.as_str(), expected, "{text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
