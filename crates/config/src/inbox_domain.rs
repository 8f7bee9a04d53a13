//! `inbox.domain`: the inbox's own host name, the certificate for it, and what contradicts it.

#![expect(clippy::disallowed_methods, reason = "a certificate's validity depends on the current time")]

use super::reader::{Reader, Setting, fault_of, restart};
use super::tls::{host_of_url, parse_domain};
use super::value_parsers::{self, parse_text};
use frontdesk_desk::{DeskOptions, HostName};
use frontdesk_http::Address;
use frontdesk_http::tls::{Acme, CertificateFiles, CertificateSource, check_private_certificate};
use frontdesk_site::fault::Fault;

/// Reads `inbox.domain`; `None` if the inbox has no host name of its own.
pub(super) fn read(r: &mut Reader<'_>) -> Option<HostName> {
    r.get(
        restart("inbox.domain").with_example("\"desk.example.com\""),
        "",
        "A host name of the inbox's own, which serves it over TLS with its own certificate: on the addresses of \
         `[tls]` if `listen` is \"off\", otherwise on `listen`. Requests for other names never reach the inbox, \
         and requests for this one never reach the site. Guide: docs/pages/inbox.md.",
        value_parsers::optional(|raw| {
            parse_text(raw, "a host name such as \"desk.example.com\"", |text| parse_domain(text)?.parse().ok())
        }),
    )
}

/// Reads where the domain's certificate comes from: files, or the authority of `[tls]`. `None` without a
/// domain; a certificate is then an error. If only one of the two files is set, records an error and returns
/// the authority.
pub(super) fn read_certificate(
    r: &mut Reader<'_>,
    domain: Option<&HostName>,
    authority: Acme,
) -> Option<CertificateSource> {
    let certificate = r.file(
        restart("inbox.certificate"),
        "The certificate for `domain` and its private key, as in `[tls]`. Without them, the server requests a \
         certificate over ACME with the keys `tls.acme_email`, `tls.acme_directory` and `tls.acme_ca_file`. Port \
         443 of the domain must then lead to the inbox or to the addresses of `[tls]`. Setting `domain` accepts \
         the terms of service of the certificate authority.",
    );
    let key = r.file(restart("inbox.key"), "");
    r.refuse_if(
        certificate.is_none() && key.is_some(),
        "inbox.key",
        "is set, but `inbox.certificate` is not",
    );
    r.refuse_if(
        key.is_none() && certificate.is_some(),
        "inbox.certificate",
        "is set, but `inbox.key` is not",
    );
    r.refuse_if(
        certificate.is_some() && domain.is_none(),
        "inbox.certificate",
        "has no effect without `inbox.domain`",
    );
    let domains = vec![domain?.to_string()];
    Some(match (certificate, key) {
        (Some(certificate), Some(key)) => CertificateSource::Files(CertificateFiles { certificate, key }),
        _ => CertificateSource::Acme(Acme { domains, ..authority }),
    })
}

/// Refuses a domain that is one of the site's names, or that no listener can serve, and a header that names
/// users if the inbox has no listener of its own. Warns about `inbox.host`, which the domain replaces, and
/// about a loopback address. `source` supplies the site's certificate. Checks nothing without a domain.
pub(super) fn check(
    r: &mut Reader<'_>,
    desk: &DeskOptions,
    listen: Option<&Address>,
    base_url: Option<&str>,
    source: Option<&CertificateSource>,
) {
    let DeskOptions { domain: Some(domain), hosts, user_header, .. } = desk else { return };
    let domain = domain.to_string();
    let authorized = match source {
        Some(CertificateSource::Acme(acme)) => &acme.domains[..],
        _ => &[],
    };
    let own = base_url.map(host_of_url);
    let is_site = own.into_iter().chain(authorized.iter().map(String::as_str));
    r.refuse_if(
        is_site.into_iter().any(|name| name.eq_ignore_ascii_case(&domain)),
        "inbox.domain",
        "is also a name of the site (`base_url` or `tls.acme_domains`): the inbox needs a name of its own",
    );
    r.refuse_if(
        listen.is_none() && source.is_none(),
        "inbox.domain",
        "needs a listener with TLS: set `[tls]` for the site, or `inbox.listen` to an address of its own, such \
         as \"0.0.0.0:8443\"",
    );
    r.refuse_if(
        matches!(listen, Some(Address::Unix(_))),
        "inbox.domain",
        "cannot be used with a Unix socket, which has no TLS: name the host behind a proxy in `inbox.host`",
    );
    r.warn_if(
        !hosts.is_empty(),
        "inbox.host",
        "`inbox.host` has no effect with `inbox.domain`",
        "remove one of them: over TLS, the domain is the only name; `host` is for a proxy that has the certificate",
    );
    r.refuse_if(
        user_header.is_some() && listen.is_none(),
        "inbox.user_header",
        "has no effect on the addresses of `[tls]`: a proxy that names users needs `inbox.listen`",
    );
    let is_loopback = matches!(listen, Some(Address::Tcp(address)) if address.ip().is_loopback());
    r.warn_if(
        is_loopback,
        "inbox.listen",
        "`inbox.listen` is a loopback address, so only this machine reaches the inbox at `inbox.domain`",
        "set `listen = \"off\"` to serve it on the addresses of `[tls]`, or an address such as \"0.0.0.0:8443\"",
    );
}

/// Returns the faults that [`check_private_certificate`] finds, at the keys of `[inbox]` or at
/// `tls.acme_ca_file`. Returns nothing without a domain.
pub(super) fn certificate_faults(
    domain: Option<&HostName>,
    source: Option<&CertificateSource>,
    settings: &[Setting],
) -> Vec<Fault> {
    let (Some(domain), Some(source)) = (domain, source) else { return Vec::new() };
    let now = jiff::Timestamp::now();
    let findings = check_private_certificate(source, &domain.to_string(), now).into_iter().map(|finding| {
        let key = match finding.key {
            "acme_domains" => "inbox.domain".to_owned(),
            "acme_ca_file" => "tls.acme_ca_file".to_owned(),
            key => format!("inbox.{key}"),
        };
        let new = if finding.is_error { Fault::error } else { Fault::warning };
        fault_of(settings, &key, new, format!("`{key}` {}", finding.message)).hint(finding.hint)
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Config;
    use crate::tests::{accept_text, refuse_text};

    const TLS: &str = "[tls]\nlisten = \"[::]:443\"\n\
                       acme_domains = [\"www.example.com\"]\nacme_email = \"a@example.com\"\n";

    #[test]
    fn the_certificate_is_its_own_and_from_the_same_authority() {
        let config = accept_text(&format!("{TLS}[inbox]\ndomain = \"Desk.example.com\"\n"));
        let Some(CertificateSource::Acme(own)) = &config.inbox_certificate else {
            panic!("it is from files")
        };
        assert_eq!((&*own.domains, &*own.email), (&["desk.example.com".to_owned()][..], "a@example.com"));
        let Some(CertificateSource::Acme(site)) = &config.web.http.tls.source else {
            panic!("it is from files")
        };
        assert_eq!(site.domains, ["www.example.com"]);
        assert_ne!(own.certificate_file(), site.certificate_file());
        let files = "domain = \"desk.example.com\"\ncertificate = \"c.pem\"\nkey = \"/k.pem\"\n";
        let config = accept_text(&format!("{TLS}[inbox]\n{files}"));
        let expected = CertificateFiles { certificate: "/site/c.pem".into(), key: "/k.pem".into() };
        assert_eq!(config.inbox_certificate, Some(CertificateSource::Files(expected)));
        assert!(accept_text(TLS).inbox_certificate.is_none());
    }

    #[test]
    fn the_domain_has_the_port_of_its_listener() {
        let authority = |text: &str, port| accept_text(text).with_base_url(None).inbox_authority(port);
        let own = |listen: &str| format!("[inbox]\ndomain = \"desk.example.com\"\nlisten = \"{listen}\"\n");
        assert_eq!(authority(&own("0.0.0.0:8443"), None).as_deref(), Some("desk.example.com:8443"));
        assert_eq!(authority(&own("0.0.0.0:443"), None).as_deref(), Some("desk.example.com"));
        assert_eq!(authority(&own("0.0.0.0:0"), Some(4433)).as_deref(), Some("desk.example.com:4433"));
        let shared = format!("{TLS}[inbox]\ndomain = \"desk.example.com\"\n");
        assert_eq!(authority(&shared, None).as_deref(), Some("desk.example.com"));
        let mapped = format!("base_url = \"https://www.example.com:8443\"\n{shared}");
        assert_eq!(authority(&mapped, None).as_deref(), Some("desk.example.com:8443"));
        assert_eq!(authority(TLS, None), None);
    }

    #[test]
    fn an_open_address_needs_no_permission_with_a_domain() {
        accept_text("[inbox]\ndomain = \"desk.example.com\"\nlisten = \"0.0.0.0:8443\"\n");
        refuse_text(
            "[inbox]\nlisten = \"0.0.0.0:8443\"\n",
            "frontdesk.toml:2: `inbox.listen` is not a loopback address",
        );
    }

    #[test]
    fn contradictions_are_refused() {
        let inbox = |keys: &str| format!("{TLS}[inbox]\n{keys}\n");
        let domain = "domain = \"desk.example.com\"";
        for wrong in
            ["192.0.2.1", "*.example.com", "https://desk.example.com", "a b", "desk.example.com:8443", "-a.b"]
        {
            refuse_text(
                &inbox(&format!("domain = \"{wrong}\"")),
                "frontdesk.toml:6: `inbox.domain` must be a host name such as",
            );
        }
        refuse_text(
            &inbox("domain = \"WWW.example.com\""),
            "frontdesk.toml:6: `inbox.domain` is also a name of the site",
        );
        let base = format!("base_url = \"https://desk.example.com\"\n{}", inbox(domain));
        refuse_text(&base, "frontdesk.toml:7: `inbox.domain` is also a name of the site");
        refuse_text(
            &format!("[inbox]\n{domain}\n"),
            "frontdesk.toml:2: `inbox.domain` needs a listener with TLS: set `[tls]`",
        );
        let socket = format!("{domain}\nlisten = \"unix:inbox.sock\"");
        refuse_text(&inbox(&socket), "frontdesk.toml:6: `inbox.domain` cannot be used with a Unix socket");
        let header = format!("{domain}\nuser_header = \"x-user\"\ntrusted_proxies = [\"127.0.0.1\"]");
        refuse_text(
            &inbox(&header),
            "frontdesk.toml:7: `inbox.user_header` has no effect on the addresses of `[tls]`",
        );
        refuse_text(
            &inbox("certificate = \"c\"\nkey = \"k\""),
            "frontdesk.toml:6: `inbox.certificate` has no effect without",
        );
        refuse_text(
            &inbox(&format!("{domain}\nkey = \"k\"")),
            "frontdesk.toml:7: `inbox.key` is set, but `inbox.certificate` is not",
        );
        let half = format!("{domain}\ncertificate = \"c\"");
        refuse_text(&inbox(&half), "frontdesk.toml:7: `inbox.certificate` is set, but `inbox.key` is not");
    }

    #[test]
    fn a_loopback_address_and_another_name_cause_warnings() {
        let domain = "[inbox]\ndomain = \"desk.example.com\"\n";
        let text = format!("{domain}listen = \"127.0.0.1:8443\"\nhost = [\"inbox.example.com\"]\n");
        let faults = Config::parse(&text, Path::new("/site"), [], &[]).1;
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        for expected in [
            "frontdesk.toml:3: `inbox.listen` is a loopback address, so only this machine",
            "frontdesk.toml:4: `inbox.host` has no effect with `inbox.domain`",
        ] {
            assert!(said.iter().any(|found| found.starts_with(expected)), "{said:?}");
        }
    }

    #[test]
    fn missing_certificate_files_are_reported_with_their_key() {
        let files = "domain = \"desk.example.com\"\ncertificate = \"/no/such\"\nkey = \"/no/such\"\n";
        let config = accept_text(&format!("{TLS}[inbox]\n{files}")).with_base_url(None);
        let said: Vec<String> = config.certificate_faults().iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("frontdesk.toml:7: `inbox.certificate` cannot be read from /no/such"));
    }
}
