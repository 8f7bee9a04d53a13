//! What `frontdesk check` says of a certificate before anybody is served with it.

use std::os::unix::fs::PermissionsExt as _;

use jiff::Timestamp;

use super::identity::Validity;
use super::{Files, Options, Part, Source};

/// Something that is to be mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The key of `[tls]` that it is about.
    pub key: &'static str,
    /// Whether TLS cannot be spoken like this.
    pub is_error: bool,
    /// What is wrong, as the rest of a sentence that begins with the key.
    pub message: String,
    /// What would be right.
    pub hint: String,
}

impl Finding {
    fn error(key: &'static str, message: impl Into<String>, hint: &str) -> Self {
        Self { key, is_error: true, message: message.into(), hint: hint.to_owned() }
    }

    fn warning(key: &'static str, message: impl Into<String>, hint: &str) -> Self {
        Self { is_error: false, ..Self::error(key, message, hint) }
    }
}

/// Looks at the files that TLS needs, for a site whose address has this host.
pub fn examine(options: &Options, host: &str, now: Timestamp) -> Vec<Finding> {
    match &options.source {
        None => Vec::new(),
        Some(Source::Files(files)) => examine_files(files, host, now),
        Some(Source::Acme(acme)) => {
            let mut findings = Vec::new();
            if let Err(error) = acme.roots() {
                findings.push(Finding::error(
                    "acme_ca_file",
                    format!("cannot be used: {error}"),
                    "leave it empty for an authority that the public trusts",
                ));
            }
            if !acme.domains.iter().any(|domain| domain.eq_ignore_ascii_case(host)) {
                findings.push(Finding::warning(
                    "acme_domains",
                    format!("does not have {host:?}, where `base_url` leads"),
                    "browsers refuse a certificate for other names",
                ));
            }
            findings
        }
    }
}

fn examine_files(files: &Files, host: &str, now: Timestamp) -> Vec<Finding> {
    let identity = match files.read() {
        Ok(identity) => identity,
        Err(defect) => {
            let key = match defect.part {
                Part::Certificate => "certificate",
                Part::Key => "key",
            };
            return vec![Finding::error(key, defect.what, defect.hint)];
        }
    };
    let mut findings = Vec::new();
    let not_after = identity.not_after();
    let mut warn = |key, message: String, hint| findings.push(Finding::warning(key, message, hint));
    match identity.validity(now) {
        Validity::Valid => {}
        Validity::NotYet => {
            warn("certificate", "is not valid yet".to_owned(), "is this machine's clock right?");
        }
        Validity::ExpiresSoon => {
            warn(
                "certificate",
                format!("expires soon, on {not_after}"),
                "renew it; a running server takes the new one up",
            );
        }
        Validity::Expired => {
            warn(
                "certificate",
                format!("has expired on {not_after}"),
                "renew it; a running server takes the new one up",
            );
        }
    }
    if !identity.covers(host) {
        let message = format!("is not for {host:?}, where `base_url` leads");
        warn("certificate", message, "browsers refuse a certificate for other names");
    }
    if std::fs::metadata(&files.key).is_ok_and(|data| data.permissions().mode() & 0o004 != 0) {
        let message = "can be read by every user of this machine".to_owned();
        warn("key", message, "`chmod o-rwx` on the file, and let the server's user or group own it");
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Acme;
    use super::*;

    #[test]
    fn a_certificate_is_looked_at_from_all_sides() {
        let folder = tempfile::tempdir().expect("a folder");
        let files =
            Files { certificate: folder.path().join("chain.pem"), key: folder.path().join("key.pem") };
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(["www.example.com".to_owned()]).expect("names");
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let chain = parameters.self_signed(&key).expect("a certificate").pem();
        let look = |host: &str, now: &str| {
            let options = Options { source: Some(Source::Files(files.clone())), ..Options::default() };
            said(&examine(&options, host, now.parse().expect("a time")))
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
                "warning: certificate is not for \"example.com\", where `base_url` leads",
            ]
        );
        set_mode(0o644);
        assert_eq!(
            look("www.example.com", "2027-01-01T00:00:00Z"),
            [
                "warning: certificate has expired on 2026-04-01T00:00:00Z",
                "warning: key can be read by every user of this machine",
            ]
        );
        let other = rcgen::KeyPair::generate().expect("a key");
        std::fs::write(&files.key, other.serialize_pem()).expect("written");
        assert_eq!(look("www.example.com", in_time), ["error: key does not belong to the certificate"]);
    }

    #[test]
    fn what_an_authority_is_asked_for_must_fit_the_site() {
        let acme = |ca_file: Option<&str>| Acme {
            domains: vec!["www.example.com".into()],
            email: String::new(),
            directory: "https://acme.example.net/dir".into(),
            ca_file: ca_file.map(Into::into),
            cache: "/nowhere".into(),
        };
        let look = |acme: Acme, host: &str| {
            let options = Options { source: Some(Source::Acme(acme)), ..Options::default() };
            said(&examine(&options, host, Timestamp::now()))
        };
        assert_eq!(look(acme(None), "WWW.example.com"), [""; 0]);
        assert_eq!(
            look(acme(None), "example.com"),
            ["warning: acme_domains does not have \"example.com\", where `base_url` leads"]
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

    fn said(findings: &[Finding]) -> Vec<String> {
        let word = |finding: &Finding| if finding.is_error { "error" } else { "warning" };
        findings
            .iter()
            .map(|finding| format!("{}: {} {}", word(finding), finding.key, finding.message))
            .collect()
    }
}
