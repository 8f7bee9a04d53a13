//! The TLS options: where the certificate comes from, redirects to HTTPS, and HSTS.

use std::time::Duration;

use http::header::HeaderValue;

use super::acme::Acme;
use super::files::CertificateFiles;
use super::redirect::HttpsRedirect;

#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// Where the certificate comes from. With `None`, TLS is disabled.
    pub source: Option<CertificateSource>,
    /// Where plain HTTP requests are redirected. With `None`, they are served.
    pub redirect: Option<HttpsRedirect>,
    /// The `Strict-Transport-Security` header. With `None`, it is not sent.
    pub hsts: Option<Hsts>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// Two files that another program renews.
    Files(CertificateFiles),
    /// A certificate authority, over ACME (RFC 8555).
    Acme(Acme),
}

/// The value of `Strict-Transport-Security` (RFC 6797): browsers reach this host only over TLS until it
/// expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hsts(HeaderValue);

impl Hsts {
    /// `max_age` is rounded down to seconds.
    pub fn new(max_age: Duration, include_subdomains: bool, preload: bool) -> Self {
        let mut value = format!("max-age={}", max_age.as_secs());
        if include_subdomains {
            value.push_str("; includeSubDomains");
        }
        if preload {
            value.push_str("; preload");
        }
        Self(HeaderValue::from_str(&value).unwrap_or_else(|_| HeaderValue::from_static("max-age=0")))
    }

    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    pub(in crate::web) fn value(&self) -> HeaderValue {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hsts_has_the_configured_directives_only() {
        let check = |hsts: &Hsts, expected: &str| assert_eq!(hsts.value(), expected);
        let year = Duration::from_hours(365 * 24);
        check(&Hsts::new(year, false, false), "max-age=31536000");
        check(&Hsts::new(year, true, false), "max-age=31536000; includeSubDomains");
        check(&Hsts::new(year, true, true), "max-age=31536000; includeSubDomains; preload");
        check(&Hsts::new(Duration::from_millis(1500), false, false), "max-age=1");
    }
}
