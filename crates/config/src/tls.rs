//! `[tls]`: the HTTPS listener, its certificate, and redirects from plain HTTP.

#![expect(clippy::disallowed_methods, reason = "a certificate's validity depends on the current time")]

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use super::reader::{Reader, Setting, fault_of, requests, restart};
use super::server;
use super::value_parsers::{self, ParseResult, Raw};
use frontdesk_fetch::Url;
use frontdesk_forms::email::ascii_spelling;
use frontdesk_http::Address;
use frontdesk_http::tls::{
    Acme, CertificateFiles, CertificateSource, Hsts, HttpsRedirect, TlsOptions, check_certificate,
};
use frontdesk_site::fault::Fault;

/// Maximum `max-age` of HSTS: about a century.
const MAX_HSTS_AGE: Duration = Duration::from_hours(24 * 36_500);

/// Reads `[tls]`. Returns the addresses of the HTTPS listener, which are empty if it is disabled, the TLS
/// options, and the ACME options, whose domains are empty if `tls.acme_domains` is not set.
/// A listener without a source of certificates is a fault. Does not open the files: [`certificate_faults`]
/// checks them. The redirect is on only if there is a source of certificates, and has no destination until
/// [`complete_redirect`] sets it.
pub(super) fn read(r: &mut Reader<'_>, data_dir: &Path) -> (Vec<Address>, TlsOptions, Acme) {
    let mut listen = r.get(
        restart("tls.listen"),
        "[]",
        "The addresses of the HTTPS listener, such as \"[::]:443\", in the format of `server.listen`. Sockets \
         named `https` that a service manager passes replace them. Guide: docs/pages/tls.md.",
        value_parsers::listen_addresses_or_none,
    );
    for address in &mut listen {
        server::resolve_socket_path(address, r.site_folder());
    }
    let (source, acme) = read_source(r, data_dir);
    let redirect = r.get(
        requests("tls.redirect"),
        "true",
        "Whether plain HTTP requests are redirected to HTTPS. Requests from trusted proxies and Unix sockets \
         are redirected if X-Forwarded-Proto says \"http\".",
        value_parsers::parse_bool,
    );
    let hsts = r.get(
        requests("tls.hsts"),
        "365d",
        "How long browsers remember to use HTTPS only: \"365d\", \"365d; includeSubDomains\", \"730d; \
         includeSubDomains; preload\", or \"off\".",
        parse_hsts,
    );
    r.refuse_if(
        !listen.is_empty() && source.is_none() && !r.is_unusable("tls.acme_domains"),
        "tls.listen",
        "needs a certificate: `tls.certificate` and `tls.key`, or `tls.acme_domains`",
    );
    // `complete_redirect` fills in the destination.
    let redirect = (redirect && source.is_some()).then(HttpsRedirect::default);
    (listen, TlsOptions { source, redirect, hsts }, acme)
}

/// Reads where the certificate comes from: files, or a certificate authority; `None` if neither is set. One
/// file without the other is an error, and is ignored. Files together with domains are an error, too; if both
/// files are set, they take precedence. Also returns the options of ACME.
fn read_source(r: &mut Reader<'_>, data_dir: &Path) -> (Option<CertificateSource>, Acme) {
    let certificate = r.file(
        restart("tls.certificate"),
        "The certificate followed by its intermediates, and its private key: PEM files, relative to this \
         folder. The server notices when these files are renewed, and uses the new certificate for new \
         connections.",
    );
    let private_key = r.file(restart("tls.key"), "");
    let domains = r.get(
        restart("tls.acme_domains"),
        "[]",
        "Alternatively, the names for which to request a certificate over ACME, such as [\"www.example.com\", \
         \"example.com\"]. Port 443 of each name must lead to `listen` above. Setting this accepts the terms \
         of service of the certificate authority.",
        parse_acme_domains,
    );
    let acme = read_acme(r, domains, data_dir);
    r.refuse_if(
        certificate.is_none() && private_key.is_some(),
        "tls.key",
        "is set, but `tls.certificate` is not",
    );
    r.refuse_if(
        private_key.is_none() && certificate.is_some(),
        "tls.certificate",
        "is set, but `tls.key` is not",
    );
    r.refuse_if(
        !acme.domains.is_empty() && certificate.is_some(),
        "tls.acme_domains",
        "is set together with `tls.certificate`: a certificate comes either from files or from an authority",
    );
    let source = match (certificate, private_key) {
        (Some(certificate), Some(key)) => {
            Some(CertificateSource::Files(CertificateFiles { certificate, key }))
        }
        _ if acme.domains.is_empty() => None,
        _ => Some(CertificateSource::Acme(acme.clone())),
    };
    (source, acme)
}

/// Reads the keys for ACME except `tls.acme_domains`, which the caller has read.
fn read_acme(r: &mut Reader<'_>, domains: Vec<String>, data_dir: &Path) -> Acme {
    let email = r.get(
        restart("tls.acme_email"),
        "",
        "The contact address for the authority, the URL of its directory, and a PEM file with the root that \
         signed the directory's own certificate, if that root is not public.",
        value_parsers::email,
    );
    let directory = r.get(
        restart("tls.acme_directory"),
        "https://acme-v02.api.letsencrypt.org/directory",
        "",
        parse_acme_directory,
    );
    let ca_file = r.file(restart("tls.acme_ca_file"), "");
    Acme { domains, email, directory, ca_file, cache: data_dir.join("acme") }
}

/// The base URL of the first ACME domain. `None` if the certificate does not come from ACME.
pub(super) fn acme_base_url(options: &TlsOptions) -> Option<String> {
    let Some(CertificateSource::Acme(acme)) = &options.source else { return None };
    acme.domains.first().map(|domain| format!("https://{domain}"))
}

/// Fills in the destination of redirects, if they are on: the host of the base URL and a port, which is left
/// out if it is 443. The port is that of the base URL if its scheme is https, or else that of the listener.
/// Also fills in the names whose requests are redirected to the same name: that host, and the ACME domains.
pub(super) fn complete_redirect(options: &mut TlsOptions, base_url: &str, listening_on: SocketAddr) {
    let Some(redirect) = &mut options.redirect else { return };
    let own = host_of_url(base_url);
    redirect.authority = match base_url.strip_prefix("https://") {
        Some(authority) => authority.strip_suffix(":443").unwrap_or(authority).to_owned(),
        None if listening_on.port() == 443 => own.to_owned(),
        None => format!("{own}:{}", listening_on.port()),
    };
    redirect.names = vec![own.to_owned()];
    if let Some(CertificateSource::Acme(acme)) = &options.source {
        redirect.names.extend(acme.domains.iter().filter(|domain| *domain != own).cloned());
    }
}

/// The host of a base URL, without the port. An IPv6 address keeps its brackets.
pub(super) fn host_of_url(base_url: &str) -> &str {
    let authority = base_url.split_once("://").map_or(base_url, |(_, authority)| authority);
    let after = authority.rfind(']').map_or(0, |at| at + 1);
    let end = authority[after..].find(':').map_or(authority.len(), |at| after + at);
    &authority[..end]
}

/// Returns the faults that [`check_certificate`] finds, and a warning if the base URL begins with `http://`.
/// Returns nothing if the site is not served over TLS.
pub(super) fn certificate_faults(options: &TlsOptions, base_url: &str, settings: &[Setting]) -> Vec<Fault> {
    let findings = check_certificate(options, host_of_url(base_url), jiff::Timestamp::now()).into_iter().map(
        |finding| {
            let key = format!("tls.{}", finding.key);
            let new = if finding.is_error { Fault::error } else { Fault::warning };
            let message = format!("`{key}` {}", finding.message);
            fault_of(settings, &key, new, message).hint(finding.hint)
        },
    );
    let mut faults: Vec<Fault> = findings.collect();
    if options.source.is_some() && base_url.starts_with("http://") {
        let message = "`base_url` begins with http://, but the site is served over TLS";
        let fault = fault_of(settings, "base_url", Fault::warning, message.to_owned());
        faults
            .push(fault.hint("links in feeds, sitemaps and `/llms.txt` begin with `base_url`: use https://"));
    }
    faults
}

/// Parses an ASCII domain name, of one label or more, into lower case. `None` for IP addresses, wildcards,
/// names with a final dot and invalid names.
pub(super) fn parse_domain(name: &str) -> Option<String> {
    let is_label = |label: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        (1..=63).contains(&label.len())
            && label.chars().all(fits)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let name = name.to_ascii_lowercase();
    let is_name = name.len() <= 253 && name.split('.').all(is_label) && name.parse::<IpAddr>().is_err();
    is_name.then_some(name)
}

/// Parses host names. Rejects IP addresses, and wildcards, which TLS-ALPN-01 cannot validate. Converts names
/// to lower case, and drops repeated ones.
fn parse_acme_domains(raw: &Raw) -> ParseResult<Vec<String>> {
    let expected = "a list of host names such as [\"www.example.com\", \"example.com\"]";
    let parse = |name: &str| {
        parse_domain(name).ok_or_else(|| {
            match ascii_spelling(name).filter(|ascii| parse_domain(ascii).is_some()) {
                _ if name.starts_with("*.") => {
                    "a wildcard needs a certificate from files (`tls.certificate`)".to_owned()
                }
                Some(ascii) => format!("write it in Punycode, \"{ascii}\""),
                None => "it is not a host name".to_owned(),
            }
        })
    };
    let mut names = value_parsers::parse_list(raw, expected, usize::MAX, parse)?;
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok(names)
}

/// Parses the URL of an ACME directory; RFC 8555 §6.1 requires https.
fn parse_acme_directory(raw: &Raw) -> ParseResult<String> {
    let expected =
        "the https URL of an ACME directory, such as \"https://acme-v02.api.letsencrypt.org/directory\"";
    let address = value_parsers::web_address(raw).ok();
    let address = address.filter(|address| address.starts_with("https://") && Url::parse(address).is_ok());
    address.ok_or_else(|| expected.to_owned())
}

/// Parses a duration, optionally followed by `includeSubDomains` and `preload` in any order; `preload` needs
/// a year and `includeSubDomains`. `None` for "off".
fn parse_hsts(raw: &Raw) -> ParseResult<Option<Hsts>> {
    let year = Duration::from_hours(365 * 24);
    let expected = || {
        "\"off\", or a duration such as \"365d\", with \"; includeSubDomains\" or \"; includeSubDomains; preload\" after it".to_owned()
    };
    let text = raw.as_text().ok_or_else(expected)?;
    let mut parts = text.split(';').map(str::trim);
    let first = Raw::Text(parts.next().unwrap_or_default().to_owned());
    let Some(max_age) = value_parsers::off_or(value_parsers::duration(Duration::ZERO..=MAX_HSTS_AGE))(&first)
        .map_err(|_| expected())?
    else {
        return if parts.next().is_none() { Ok(None) } else { Err(expected()) };
    };
    let (mut include_subdomains, mut preload) = (false, false);
    for part in parts {
        match part {
            "includeSubDomains" => include_subdomains = true,
            "preload" => preload = true,
            _ => return Err(expected()),
        }
    }
    if preload && (!include_subdomains || max_age < year) {
        return Err(
            "at least \"365d; includeSubDomains; preload\": the HSTS preload list accepts nothing less"
                .to_owned(),
        );
    }
    Ok(Some(Hsts::new(max_age, include_subdomains, preload)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{accept_text, refuse_text};

    #[test]
    fn nothing_is_served_over_tls_by_default() {
        let options = accept_text("").web.http.tls;
        assert!(options.source.is_none() && options.redirect.is_none());
    }

    #[test]
    fn a_certificate_comes_from_files_or_from_an_authority() {
        let config = accept_text(
            "[tls]\nlisten = \"[::]:443\"\ncertificate = \"tls/chain.pem\"\nkey = \"/etc/key.pem\"\n",
        );
        let files =
            CertificateFiles { certificate: "/site/tls/chain.pem".into(), key: "/etc/key.pem".into() };
        assert_eq!(config.web.http.tls.source, Some(CertificateSource::Files(files)));
        assert_eq!(config.tls_listen.len(), 1);
        let config = accept_text(
            "[tls]\nacme_domains = [\"WWW.example.com\", \"example.com\", \"www.example.com\"]\n",
        );
        let Some(CertificateSource::Acme(acme)) = config.web.http.tls.source else {
            panic!("the certificate is not from ACME")
        };
        assert_eq!(acme.domains, ["www.example.com", "example.com"]);
        assert_eq!(acme.cache, Path::new("/site/data/acme"));

        refuse_text(
            "[tls]\nkey = \"k\"\n",
            "frontdesk.toml:2: `tls.key` is set, but `tls.certificate` is not",
        );
        refuse_text(
            "[tls]\ncertificate = \"c\"\n",
            "frontdesk.toml:2: `tls.certificate` is set, but `tls.key` is not",
        );
        refuse_text(
            "[tls]\ncertificate = \"c\"\nkey = \"k\"\nacme_domains = [\"example.com\"]\n",
            "frontdesk.toml:4: `tls.acme_domains` is set together with `tls.certificate`",
        );
        refuse_text("[tls]\nlisten = \"[::]:443\"\n", "frontdesk.toml:2: `tls.listen` needs a certificate");
        for (name, reason) in [
            ("*.example.com", "a wildcard needs a certificate from files (`tls.certificate`)"),
            ("müller.de", "write it in Punycode, \"xn--mller-kva.de\""),
            ("192.0.2.7", "it is not a host name"),
        ] {
            refuse_text(
                &format!("[tls]\nlisten = \"[::]:443\"\nacme_domains = [\"example.com\", {name:?}]\n"),
                &format!(
                    "frontdesk.toml:3: `tls.acme_domains` must be a list of host names such as \
                     [\"www.example.com\", \"example.com\"]; `{name}` is not valid: {reason}"
                ),
            );
        }
        for url in
            ["http://ca.example.com/", "https://ca.example.com/#directory", "https://ca.example.com:0/"]
        {
            let line = format!("[tls]\nacme_directory = {url:?}\n");
            refuse_text(&line, "frontdesk.toml:2: `tls.acme_directory` must be");
        }
        for name in ["*.example.com", "192.0.2.7", "", "a..b", "-a.example.com", "https://example.com", "a b"]
        {
            let line = format!("[tls]\nacme_domains = [{name:?}]\n");
            refuse_text(&line, "frontdesk.toml:2: `tls.acme_domains` must be a list of host names");
        }
    }

    #[test]
    fn hsts_has_a_duration_and_optional_directives() {
        let year = Duration::from_hours(365 * 24);
        let read = |text: &str| parse_hsts(&Raw::Text(text.to_owned()));
        assert_eq!(read("off"), Ok(None));
        assert_eq!(read("365d"), Ok(Some(Hsts::new(year, false, false))));
        assert_eq!(read("0s"), Ok(Some(Hsts::new(Duration::ZERO, false, false))));
        assert_eq!(read("365d; includeSubDomains"), Ok(Some(Hsts::new(year, true, false))));
        assert_eq!(read("365d;preload;includeSubDomains"), Ok(Some(Hsts::new(year, true, true))));
        for wrong in [
            "",
            "365",
            "365d; subdomains",
            "off; preload",
            "365d; preload",
            "364d; includeSubDomains; preload",
            "365d;",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_base_url_and_redirects_follow_from_the_certificate() {
        let files = "[tls]\ncertificate = \"c\"\nkey = \"k\"\n";
        let acme = "[tls]\nacme_domains = [\"www.example.com\", \"example.com\"]\n";
        let with = |base_url: &str, tls: &str| format!("base_url = {base_url:?}\n{tls}");
        for (text, listening_on, base_url, authority, names) in [
            (
                files.to_owned(),
                "127.0.0.1:8443",
                "https://127.0.0.1:8443",
                "127.0.0.1:8443",
                vec!["127.0.0.1"],
            ),
            (files.to_owned(), "[::]:443", "https://127.0.0.1:443", "127.0.0.1", vec!["127.0.0.1"]),
            (
                acme.to_owned(),
                "0.0.0.0:443",
                "https://www.example.com",
                "www.example.com",
                vec!["www.example.com", "example.com"],
            ),
            (
                with("https://example.com", acme),
                "0.0.0.0:443",
                "https://example.com",
                "example.com",
                vec!["example.com", "www.example.com"],
            ),
            (
                with("https://example.com:8443", files),
                "0.0.0.0:443",
                "https://example.com:8443",
                "example.com:8443",
                vec!["example.com"],
            ),
            (
                with("http://example.com:8080", files),
                "0.0.0.0:443",
                "http://example.com:8080",
                "example.com",
                vec!["example.com"],
            ),
            (
                with("http://[::1]:8080", files),
                "[::1]:8443",
                "http://[::1]:8080",
                "[::1]:8443",
                vec!["[::1]"],
            ),
        ] {
            let config = accept_text(&text).with_base_url(listening_on.parse().ok());
            assert_eq!(config.pages.base_url, base_url);
            let redirect = config.web.http.tls.redirect.expect("plain requests are redirected");
            assert_eq!(
                (redirect.authority.as_str(), redirect.names),
                (authority, names.into_iter().map(str::to_owned).collect())
            );
        }
        let off = accept_text(&format!("{files}redirect = false\n")).with_base_url("[::]:443".parse().ok());
        assert!(off.web.http.tls.redirect.is_none());
    }

    #[test]
    fn faults_of_the_files_have_their_line() {
        let text =
            "base_url = \"http://www.example.com\"\n[tls]\ncertificate = \"/no/such\"\nkey = \"/no/such\"\n";
        let said: Vec<String> = accept_text(text)
            .with_base_url(None)
            .certificate_faults()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(
            said[0].starts_with("frontdesk.toml:3: `tls.certificate` cannot be read from /no/such: "),
            "{said:?}"
        );
        assert!(said[1].starts_with("frontdesk.toml:1: `base_url` begins with http://"), "{said:?}");
        assert_eq!(said.len(), 2);
    }
}
