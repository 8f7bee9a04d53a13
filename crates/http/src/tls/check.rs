//! Checks the TLS options for `frontdesk check`, before the server uses them.

use std::os::unix::fs::PermissionsExt as _;

use jiff::Timestamp;

use super::certificate::{CertificateDefect, ServerCertificate, Validity};
use super::certificate_reload::CertificateFiles;
use super::{CertificateSource, TlsOptions};

/// A problem in the TLS options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFinding {
    /// The configuration key in `[tls]`.
    pub key: &'static str,
    /// Whether the problem prevents the server from starting with TLS.
    pub is_error: bool,
    /// A description of the problem, to be appended to the key to form a sentence.
    pub message: String,
    pub hint: &'static str,
}

/// Checks that the certificate files are usable and valid, cover this host and do not expire soon, and that
/// not every user can read the key. With ACME, checks that the domains include the host, that the file of
/// roots is usable, and that the certificate in the cache, if there is one, does not expire soon. Finds
/// nothing if TLS is disabled.
pub fn check_certificate(options: &TlsOptions, host: &str, now: Timestamp) -> Vec<TlsFinding> {
    options.source.as_ref().map_or_else(Vec::new, |source| check_source(source, host, "`base_url`", now))
}

/// Like [`check_certificate`], for the private name in `inbox.domain`.
pub fn check_private_certificate(
    source: &CertificateSource,
    domain: &str,
    now: Timestamp,
) -> Vec<TlsFinding> {
    check_source(source, domain, "`inbox.domain`", now)
}

/// Checks a certificate source like [`check_certificate`], for the host that the key `host_key` configures.
fn check_source(source: &CertificateSource, host: &str, host_key: &str, now: Timestamp) -> Vec<TlsFinding> {
    let mut findings = Vec::new();
    let mut add = |is_error, key, message: String, hint| {
        findings.push(TlsFinding { key, is_error, message, hint });
    };
    match source {
        CertificateSource::Files(files) => check_files(files, (host, host_key), now, add),
        CertificateSource::Acme(acme) => {
            if let Err(error) = acme.load_roots() {
                let message = format!("cannot be used: {error}");
                add(true, "acme_ca_file", message, AUTHORITY);
            }
            if !acme.domains.iter().any(|domain| domain.eq_ignore_ascii_case(host)) {
                let message = format!("does not contain {host:?}, the host of {host_key}");
                add(false, "acme_domains", message, ADD_NAME);
            }
            let renewal = |certificate: ServerCertificate| {
                let not_after = certificate.not_after;
                match certificate.validity(now) {
                    Validity::Expired => Some(format!("has a certificate that expired on {not_after}")),
                    Validity::ExpiresSoon => {
                        Some(format!("has a certificate that expires soon, on {not_after}"))
                    }
                    Validity::Valid | Validity::NotYet => None,
                }
            };
            if let Some(message) = acme.cached_certificate().and_then(renewal) {
                add(false, "acme_domains", message, RENEWAL_FAILS);
            }
        }
    }
    findings
}

const AUTHORITY: &str = "name a PEM file with the authority's root certificates, or leave it empty if the authority is publicly trusted";
const RENEWAL_FAILS: &str = "read in the server's log why orders fail: the server should have renewed it";
const RENEW: &str = "renew it; a running server loads the new one";
const ADD_NAME: &str = "add the host: browsers reject a certificate that does not cover it";
const OTHER_NAMES: &str = "get a certificate that covers this host: browsers reject one that does not";

/// Checks the certificate's validity and host, and who may read the key. Calls `add` for each finding:
/// whether it is an error, and its key, message and hint. If the files cannot be used, that error is the only
/// finding; all others are warnings.
fn check_files(
    files: &CertificateFiles,
    (host, host_key): (&str, &str),
    now: Timestamp,
    mut add: impl FnMut(bool, &'static str, String, &'static str),
) {
    let certificate = match files.read() {
        Ok(certificate) => certificate,
        Err(CertificateDefect::Certificate { what, hint }) => return add(true, "certificate", what, hint),
        Err(CertificateDefect::Key { what, hint }) => return add(true, "key", what, hint),
    };
    let not_after = certificate.not_after;
    let mut warn = |key, message: String, hint| add(false, key, message, hint);
    match certificate.validity(now) {
        Validity::Valid => {}
        Validity::NotYet => {
            let message = format!("is not valid before {}", certificate.not_before);
            warn(
                "certificate",
                message,
                "check the system clock, or use a certificate that is already valid",
            );
        }
        Validity::ExpiresSoon => warn("certificate", format!("expires soon, on {not_after}"), RENEW),
        Validity::Expired => warn("certificate", format!("expired on {not_after}"), RENEW),
    }
    if !certificate.covers(host) {
        warn("certificate", format!("is not for {host:?}, the host of {host_key}"), OTHER_NAMES);
    }
    if std::fs::metadata(&files.key).is_ok_and(|data| data.permissions().mode() & 0o004 != 0) {
        let message = "can be read by every user on this machine".to_owned();
        warn("key", message, "run `chmod o-rwx` on the file, and make the server's user or group its owner");
    }
}

#[cfg(test)]
mod tests {
    use super::super::Acme;
    use super::*;

    #[test]
    fn a_cached_certificate_that_was_not_renewed_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let acme = Acme {
            domains: vec!["www.example.com".into()],
            email: String::new(),
            directory: "https://acme.example.net/dir".into(),
            ca_file: None,
            cache: folder.path().to_owned(),
        };
        let options =
            TlsOptions { source: Some(CertificateSource::Acme(acme.clone())), ..TlsOptions::default() };
        let look =
            |now: &str| said(&check_certificate(&options, "www.example.com", now.parse().expect("a time")));
        assert!(look("2026-05-01T00:00:00Z").is_empty(), "nothing was ordered yet");
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(acme.domains.clone()).expect("names");
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let chain = parameters.self_signed(&key).expect("a certificate").pem();
        std::fs::write(acme.certificate_file(), key.serialize_pem() + &chain).expect("written");
        assert!(look("2026-02-01T00:00:00Z").is_empty());
        let expired = look("2026-05-01T00:00:00Z");
        assert!(
            expired[0].starts_with("warning: acme_domains has a certificate that expired on"),
            "{expired:?}"
        );
    }

    #[test]
    fn certificate_files_are_checked_for_every_fault() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = CertificateFiles {
            certificate: folder.path().join("chain.pem"),
            key: folder.path().join("key.pem"),
        };
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(["www.example.com".to_owned()]).expect("names");
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let chain = parameters.self_signed(&key).expect("a certificate").pem();
        let look = |host: &str, now: &str| {
            let options =
                TlsOptions { source: Some(CertificateSource::Files(files.clone())), ..TlsOptions::default() };
            said(&check_certificate(&options, host, now.parse().expect("a time")))
        };
        let in_time = "2026-02-01T00:00:00Z";
        assert_eq!(look("www.example.com", in_time).len(), 1);
        assert!(look("www.example.com", in_time)[0].starts_with("error: certificate cannot be read from"));
        std::fs::write(&files.certificate, chain).expect("written");
        assert!(look("www.example.com", in_time)[0].starts_with("error: key cannot be read from"));
        std::fs::write(&files.key, key.serialize_pem()).expect("written");
        let set_mode = |mode| {
            std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(mode)).expect("ours");
        };
        set_mode(0o640);
        assert_eq!(look("www.example.com", in_time), [""; 0]);
        assert_eq!(
            look("example.com", "2026-03-31T00:00:00Z"),
            [
                "warning: certificate expires soon, on 2026-04-01T00:00:00Z",
                "warning: certificate is not for \"example.com\", the host of `base_url`",
            ]
        );
        set_mode(0o644);
        assert_eq!(
            look("www.example.com", "2027-01-01T00:00:00Z"),
            [
                "warning: certificate expired on 2026-04-01T00:00:00Z",
                "warning: key can be read by every user on this machine",
            ]
        );
        let other = rcgen::KeyPair::generate().expect("a key");
        std::fs::write(&files.key, other.serialize_pem()).expect("written");
        assert_eq!(look("www.example.com", in_time), ["error: key does not belong to the certificate"]);
    }

    #[test]
    fn acme_options_must_match_the_site() {
        let acme = |ca_file: Option<&str>| Acme {
            domains: vec!["www.example.com".into()],
            email: String::new(),
            directory: "https://acme.example.net/dir".into(),
            ca_file: ca_file.map(Into::into),
            cache: "/nowhere".into(),
        };
        let look = |acme: Acme, host: &str| {
            let options = TlsOptions { source: Some(CertificateSource::Acme(acme)), ..TlsOptions::default() };
            said(&check_certificate(&options, host, Timestamp::now()))
        };
        assert_eq!(look(acme(None), "WWW.example.com"), [""; 0]);
        assert_eq!(
            look(acme(None), "example.com"),
            ["warning: acme_domains does not contain \"example.com\", the host of `base_url`"]
        );
        assert!(
            look(acme(Some("/dev/null")), "www.example.com")[0]
                .starts_with("error: acme_ca_file cannot be used")
        );
        assert!(
            look(acme(Some("/no/such")), "www.example.com")[0]
                .starts_with("error: acme_ca_file cannot be used")
        );
    }

    fn said(findings: &[TlsFinding]) -> Vec<String> {
        let word = |finding: &TlsFinding| if finding.is_error { "error" } else { "warning" };
        findings
            .iter()
            .map(|finding| format!("{}: {} {}", word(finding), finding.key, finding.message))
            .collect()
    }
}
