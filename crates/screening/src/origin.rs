//! The origin of a request according to the header fields `Origin` (RFC 6454 §7) and `Sec-Fetch-Site` (Fetch
//! Metadata).

use serde::{Deserialize, Serialize};

/// Where a request comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The request has neither an `Origin` nor a `Sec-Fetch-Site` header, so it does not come from a
    /// browser.
    #[default]
    NotABrowser,
    /// This site. Callers also use this variant for origins that the operator permits.
    Same,
    /// The client is a browser, but `Origin` is missing, empty or `null`. Browsers send `Origin` with every
    /// POST.
    Missing,
    /// Another site. Browsers make a preflight request before they send JSON to another site, and the server
    /// rejects the preflight, so such a request should not arrive.
    Foreign,
}

impl Origin {
    /// Classifies a request by the values of `Origin` and `Sec-Fetch-Site`. `own` contains this site's base
    /// URL and the request's `Host`, each with or without scheme and port; schemes are not compared. An
    /// origin that the operator permits is [`Origin::Foreign`] here. With `cross-site`, the result is always
    /// [`Origin::Foreign`]; with `same-origin`, it is [`Origin::Same`] for any `Origin` that is not empty or
    /// `null`.
    pub fn classify(origin: Option<&str>, sec_fetch_site: Option<&str>, own: &[&str]) -> Origin {
        let site = sec_fetch_site.map(str::trim);
        let says = |value: &str| site.is_some_and(|site| site.eq_ignore_ascii_case(value));
        if says("cross-site") {
            return Origin::Foreign;
        }
        match origin.map(str::trim) {
            None if site.is_none() => Origin::NotABrowser,
            None | Some("" | "null") => Origin::Missing,
            // Trust the browser's own comparison: a proxy may have changed the names that the server sees.
            Some(_) if says("same-origin") => Origin::Same,
            Some(origin) if own.iter().any(|own| authority(own).eq_ignore_ascii_case(authority(origin))) => {
                Origin::Same
            }
            Some(_) => Origin::Foreign,
        }
    }
}

/// The authority of a URL, without the port 443 or 80: `www.example.com` for `https://www.example.com:443/`.
fn authority(url: &str) -> &str {
    let rest = url.trim().split_once("://").map_or(url.trim(), |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    authority.strip_suffix(":443").or_else(|| authority.strip_suffix(":80")).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_browser_headers_is_not_a_browser() {
        check(None, None, Origin::NotABrowser);
    }

    #[test]
    fn the_own_origin_is_recognized_by_host_and_port() {
        for own in [
            "https://www.example.com",
            "http://www.example.com",
            "https://www.example.com:443",
            "HTTPS://WWW.EXAMPLE.COM",
            "http://127.0.0.1:8080",
        ] {
            check(Some(own), None, Origin::Same);
            check(Some(own), Some("same-origin"), Origin::Same);
            check(Some(own), Some("same-site"), Origin::Same);
        }
    }

    #[test]
    fn another_origin_is_foreign() {
        for foreign in [
            "https://example.com",
            "https://www.example.com:8443",
            "https://www.example.com.example.net",
            "http://127.0.0.1:8081",
            "https://xwww.example.com",
        ] {
            check(Some(foreign), None, Origin::Foreign);
            check(Some(foreign), Some("same-site"), Origin::Foreign);
        }
        check(Some("https://www.example.com"), Some("cross-site"), Origin::Foreign);
        check(None, Some("Cross-Site"), Origin::Foreign);
    }

    #[test]
    fn sec_fetch_site_outweighs_a_host_changed_by_a_proxy() {
        check(Some("https://shop.example.net"), Some("same-origin"), Origin::Same);
    }

    #[test]
    fn a_missing_origin_is_not_a_foreign_one() {
        check(None, Some("same-origin"), Origin::Missing);
        check(None, Some("none"), Origin::Missing);
        check(Some("null"), None, Origin::Missing);
        check(Some(""), None, Origin::Missing);
        check(Some("null"), Some("same-origin"), Origin::Missing);
    }

    fn check(origin: Option<&str>, site: Option<&str>, expected: Origin) {
        let own = ["https://www.example.com/", "127.0.0.1:8080"];
        assert_eq!(Origin::classify(origin, site, &own), expected, "{origin:?} {site:?}");
    }
}
