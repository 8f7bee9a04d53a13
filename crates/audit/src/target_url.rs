//! Parses the URL of the site to audit.

use std::net::IpAddr;

use frontdesk_convert::Url;

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
