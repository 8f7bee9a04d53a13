//! The other origins from which pages may load content (`[security.allow]`).

use frontdesk_forms::email::is_domain;

/// The permitted origins by kind of content. The content security policy of the built-in theme's pages names
/// them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContentOrigins {
    pub script: Vec<AllowedOrigin>,
    pub frame: Vec<AllowedOrigin>,
    pub connect: Vec<AllowedOrigin>,
    pub image: Vec<AllowedOrigin>,
    pub style: Vec<AllowedOrigin>,
    pub font: Vec<AllowedOrigin>,
}

/// A source expression of the content security policy: an HTTPS origin, or a pattern for all subdomains of a
/// host (`https://*.example.com`). In lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedOrigin(String);

impl AllowedOrigin {
    /// Parses an origin, and converts it to lower case. Rejects other schemes than `https`, paths, IP
    /// addresses and names of one label. The error says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        if lower == "*" || lower == "https:" || lower == "https://*" {
            return Err("it would permit every host".to_owned());
        }
        if lower.contains('\'') || lower.starts_with("unsafe-") {
            return Err(
                "it is a keyword of the policy, and only hosts can be permitted; move inline code to a file"
                    .to_owned(),
            );
        }
        let Some(authority) = lower.strip_prefix("https://") else {
            return Err(match lower.split_once(':') {
                Some((_, rest)) if rest.starts_with("//") => "it must begin with `https://`".to_owned(),
                Some((scheme, _)) if !scheme.contains('.') => {
                    format!("`{scheme}:` is a scheme, not a host")
                }
                _ => format!("write `https://{text}`"),
            });
        };
        if let Some(at) = authority.find(['/', '?', '#']) {
            let origin = &authority[..at];
            return Err(format!(
                "it has a path or a query, but only whole hosts can be permitted: write `https://{origin}`"
            ));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        let is_port =
            |port: &str| port.parse::<u16>().is_ok_and(|number| number.to_string() == port && number > 0);
        if let Some(port) = port.filter(|port| !is_port(port)) {
            return Err(format!("`:{port}` is not a port from 1 to 65535"));
        }
        let name = host.strip_prefix("*.").unwrap_or(host);
        if name.contains('*') {
            return Err("`*` may stand only for all subdomains, as in `https://*.example.com`".to_owned());
        }
        if !is_host_name(name) {
            return Err(format!(
                "`{name}` is not a domain name such as `plausible.example.com` (international ones in Punycode)"
            ));
        }
        Ok(Self(lower))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a policy with this origin permits a URL (CSP Level 3 §6.7.2.8). A URL that begins with `//`
    /// counts as HTTPS. A URL with another scheme, or without a host, is not permitted.
    fn permits(&self, url: &str) -> bool {
        let url = url.to_ascii_lowercase();
        let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("//")) else {
            return false;
        };
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        let without_default = |authority| str::strip_suffix(authority, ":443").unwrap_or(authority);
        let own = without_default(self.0.trim_start_matches("https://"));
        let authority = without_default(authority);
        match own.strip_prefix('*') {
            Some(end) => authority.len() > end.len() && authority.ends_with(end) && !authority.contains('@'),
            None => authority == own,
        }
    }
}

/// Whether one of the origins permits the URL.
pub fn any_permits(origins: &[AllowedOrigin], url: &str) -> bool {
    origins.iter().any(|origin| origin.permits(url))
}

/// Whether the text is a domain name of at least two labels (RFC 1123 §2.1). The last label must contain a
/// letter, which excludes IPv4 addresses.
fn is_host_name(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253
        && text.contains('.')
        && is_domain(text)
        && last.bytes().any(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_origins_are_accepted() {
        for accepted in [
            "https://plausible.example.com",
            "https://*.example.com",
            "https://example.com:8443",
            "https://*.cdn.example.co.uk:443",
            "https://xn--bcher-kva.example",
        ] {
            assert_eq!(AllowedOrigin::parse(accepted).as_ref().map(AllowedOrigin::as_str), Ok(accepted));
        }
        assert_eq!(
            AllowedOrigin::parse("HTTPS://Example.COM").map(|origin| origin.0),
            Ok("https://example.com".into())
        );
        for (refused, why) in [
            ("", "write `https://`"),
            ("*", "every host"),
            ("https:", "every host"),
            ("https://*", "every host"),
            ("https://*.com", "not a domain name"),
            ("https://a.*.com", "only for all subdomains"),
            ("https://*example.com", "only for all subdomains"),
            ("'unsafe-inline'", "keyword"),
            ("unsafe-inline", "keyword"),
            ("'self'", "keyword"),
            ("data:", "`data:` is a scheme"),
            ("blob:", "`blob:` is a scheme"),
            ("javascript:alert(1)", "`javascript:` is a scheme"),
            ("http://example.com", "must begin with `https://`"),
            ("wss://example.com", "must begin with `https://`"),
            ("example.com", "write `https://example.com`"),
            ("example.com:443", "write `https://example.com:443`"),
            (
                "https://example.com/",
                "has a path or a query, but only whole hosts can be permitted: write `https://example.com`",
            ),
            ("https://example.com/js/a.js", "has a path"),
            ("https://example.com?a", "has a path"),
            ("https://example.com:0", "port"),
            ("https://example.com:*", "port"),
            ("https://example.com:65536", "port"),
            ("https://example.com:+80", "port"),
            ("https://example.com; script-src *", "only for all subdomains"),
            ("https://example.com https://example.org", "has a path"),
            ("https://example.com,https:", "port"),
            ("https://example.com;a", "not a domain name"),
            ("https://a@example.com", "not a domain name"),
            ("https://localhost", "not a domain name"),
            ("https://192.0.2.1", "not a domain name"),
            ("https://[2001:db8::1]", "port"),
            ("https://-a.example.com", "not a domain name"),
            ("https://a..example.com", "not a domain name"),
            ("https://bücher.example", "not a domain name"),
        ] {
            let error = AllowedOrigin::parse(refused).expect_err(refused);
            assert!(error.contains(why), "{refused}: {error}");
        }
    }

    #[test]
    fn an_origin_permits_the_urls_that_browsers_permit() {
        for (origin, url, expected) in [
            ("https://a.example.com", "https://a.example.com/x.png", true),
            ("https://a.example.com", "https://A.EXAMPLE.COM", true),
            ("https://a.example.com", "https://a.example.com:443/x", true),
            ("https://a.example.com:443", "//a.example.com/x", true),
            ("https://a.example.com", "https://a.example.com:8443/x", false),
            ("https://a.example.com", "http://a.example.com/x", false),
            ("https://a.example.com", "https://a.example.com.evil.example/x", false),
            ("https://a.example.com", "https://a.example.com@evil.example/x", false),
            ("https://*.example.com", "https://a.b.example.com/x", true),
            ("https://*.example.com", "https://example.com/x", false),
            ("https://*.example.com", "https://evilexample.com/x", false),
            ("https://a.example.com", "/x.png", false),
        ] {
            let origins = [AllowedOrigin::parse(origin).expect(origin)];
            assert_eq!(any_permits(&origins, url), expected, "{origin} {url}");
        }
    }
}
