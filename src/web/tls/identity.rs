//! A certificate chain with its private key, from PEM to what handshakes are signed with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, InconsistentKeys};
use x509_cert::der::{self, AnyRef, Decode as _, Reader as _, SliceReader, Tag};
use x509_cert::time;

/// So long before the end somebody must be told: whatever renews it had its time by then.
const EXPIRES_SOON: Duration = Duration::from_hours(14 * 24);

/// A certificate chain and the key that belongs to it.
#[derive(Debug, Clone)]
pub struct Identity {
    key: Arc<CertifiedKey>,
    not_before: Timestamp,
    not_after: Timestamp,
}

/// Which of the two is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The certificate, with those that vouch for it.
    Certificate,
    /// The private key.
    Key,
}

/// Why a certificate and a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} {what}")]
pub struct Defect {
    /// Where to look.
    pub part: Part,
    /// What is wrong, as the rest of a sentence that begins with the part.
    pub what: String,
    /// What would be right.
    pub hint: &'static str,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate => "the certificate",
            Self::Key => "the private key",
        })
    }
}

impl Defect {
    pub(super) fn new(part: Part, what: impl Into<String>, hint: &'static str) -> Self {
        Self { part, what: what.into(), hint }
    }
}

/// Where a certificate stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Validity {
    NotYet,
    Valid,
    ExpiresSoon,
    Expired,
}

impl Identity {
    /// Reads a chain, the server's own certificate first, and the key; both in PEM. What else is in there is skipped, so that it
    /// may be one text with everything.
    pub fn parse(chain: &[u8], key: &[u8]) -> Result<Self, Defect> {
        const CHAIN: &str = "a PEM file is expected with the server's own certificate first (`-----BEGIN CERTIFICATE-----`), then those that vouch for it";
        const KEY: &str = "a PEM file is expected with `-----BEGIN PRIVATE KEY-----`, without a password";
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| Defect::new(Part::Certificate, format!("is no PEM: {error}"), CHAIN))?;
        let Some(own) = chain.first() else {
            return Err(Defect::new(Part::Certificate, "is not in its file", CHAIN));
        };
        let (not_before, not_after) = validity_period(own)
            .map_err(|_| Defect::new(Part::Certificate, "cannot be read, though it is PEM", CHAIN))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => Defect::new(Part::Key, "is not in its file", KEY),
            error => Defect::new(Part::Key, format!("is no PEM: {error}"), KEY),
        })?;
        let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => Defect::new(
                Part::Key,
                "does not belong to the certificate",
                "the two must be made together; where a file has several certificates the server's own comes first",
            ),
            error => Defect::new(
                Part::Key,
                format!("cannot be used: {error}"),
                "ECDSA on P-256 or P-384, RSA of 2048 to 8192 bits and Ed25519 are possible",
            ),
        })?;
        Ok(Self { key: Arc::new(key), not_before, not_after })
    }

    /// What handshakes are signed with.
    pub(super) fn certified_key(&self) -> Arc<CertifiedKey> {
        self.key.clone()
    }

    /// The time from which the server's own certificate is valid.
    pub(super) fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// Until when the server's own certificate is valid.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Whether the certificate is for this name or address.
    pub fn covers(&self, host: &str) -> bool {
        let own = self.key.end_entity_cert().and_then(ParsedCertificate::try_from);
        let name = ServerName::try_from(host.trim_matches(['[', ']']));
        own.is_ok_and(|own| name.is_ok_and(|name| verify_server_name(&own, &name).is_ok()))
    }

    pub(super) fn validity(&self, now: Timestamp) -> Validity {
        if now < self.not_before {
            Validity::NotYet
        } else if now > self.not_after {
            Validity::Expired
        } else if now + EXPIRES_SOON > self.not_after {
            Validity::ExpiresSoon
        } else {
            Validity::Valid
        }
    }
}

/// The start and the end of a certificate's validity (RFC 5280 §4.1.2.5).
///
/// Reads the fields up to the validity and no further. The TLS library checks the rest of the certificate.
fn validity_period(certificate: &[u8]) -> der::Result<(Timestamp, Timestamp)> {
    let certificate = AnyRef::from_der(certificate)?;
    let tbs_certificate = AnyRef::decode(&mut SliceReader::new(certificate.value())?)?;
    let mut fields = SliceReader::new(tbs_certificate.value())?;
    // A version 1 certificate has no version field.
    let has_version = matches!(fields.peek_tag()?, Tag::ContextSpecific { .. });
    let skipped = if has_version { 4 } else { 3 }; // version, serialNumber, signature, issuer
    for _ in 0..skipped {
        AnyRef::decode(&mut fields)?;
    }
    let time::Validity { not_before, not_after } = time::Validity::decode(&mut fields)?;
    Ok((timestamp(not_before), timestamp(not_after)))
}

/// A certificate without an expiry date ends with the year 9999, which is two hours after the last [`Timestamp`].
fn timestamp(time: time::Time) -> Timestamp {
    let seconds = time.to_unix_duration().as_secs();
    i64::try_from(seconds)
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pair {
        chain: String,
        key: String,
    }

    fn pair(names: &[&str]) -> Pair {
        let key = rcgen::KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = rcgen::CertificateParams::new(names).expect("names");
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let chain = parameters.self_signed(&key).expect("a certificate").pem();
        Pair { chain, key: key.serialize_pem() }
    }

    #[test]
    fn a_pair_is_read_whatever_else_is_in_its_files() {
        let Pair { chain, key } = pair(&["www.example.com", "*.example.net", "192.0.2.7"]);
        let both = format!("# by hand\n{key}\n{chain}");
        for (chain, key) in [(&chain, &key), (&both, &both)] {
            let identity = Identity::parse(chain.as_bytes(), key.as_bytes()).expect("it can be used");
            assert_eq!(identity.not_after().to_string(), "2026-04-01T00:00:00Z");
            for (host, covered) in [
                ("www.example.com", true),
                ("WWW.example.com", true),
                ("desk.example.net", true),
                ("192.0.2.7", true),
                ("example.com", false),
                ("a.b.example.net", false),
                ("192.0.2.8", false),
                ("[2001:db8::1]", false),
                ("no name", false),
            ] {
                assert_eq!(identity.covers(host), covered, "{host}");
            }
        }
    }

    #[test]
    fn each_defect_names_the_part_and_the_remedy() {
        let (one, other) = (pair(&["www.example.com"]), pair(&["www.example.com"]));
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let torn = &one.chain[..one.chain.len() / 2];
        check("", &one.key, "the certificate is not in its file");
        check("no PEM at all", &one.key, "the certificate is not in its file");
        check(torn, &one.key, "the certificate is no PEM");
        check(garbage, &one.key, "the certificate cannot be read");
        check(&one.chain, "", "the private key is not in its file");
        check(&one.chain, &one.chain, "the private key is not in its file");
        check(
            &one.chain,
            &one.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
            "the private key is not in its file",
        );
        check(&one.chain, &other.key, "the private key does not belong to the certificate");
    }

    #[test]
    fn the_end_is_seen_two_weeks_before() {
        let Pair { chain, key } = pair(&["www.example.com"]);
        let identity = Identity::parse(chain.as_bytes(), key.as_bytes()).expect("it can be used");
        for (now, expected) in [
            ("2025-12-31T23:59:59Z", Validity::NotYet),
            ("2026-01-01T00:00:00Z", Validity::Valid),
            ("2026-03-18T00:00:00Z", Validity::Valid),
            ("2026-03-18T00:00:01Z", Validity::ExpiresSoon),
            ("2026-04-01T00:00:00Z", Validity::ExpiresSoon),
            ("2026-04-01T00:00:01Z", Validity::Expired),
        ] {
            assert_eq!(identity.validity(now.parse().expect("a time")), expected, "{now}");
        }
    }

    #[test]
    fn every_key_type_and_both_time_formats_are_read() {
        use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};
        for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519, &PKCS_RSA_SHA256] {
            let key = rcgen::KeyPair::generate_for(algorithm).expect("a key");
            // UTCTime until 2049, GeneralizedTime from 2050 (RFC 5280 §4.1.2.5).
            for year in [2049, 2050] {
                let mut parameters =
                    rcgen::CertificateParams::new(["www.example.com".to_owned()]).expect("names");
                parameters.not_before = rcgen::date_time_ymd(1999, 12, 31);
                parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
                let chain = parameters.self_signed(&key).expect("a certificate").pem();
                let identity = Identity::parse(chain.as_bytes(), key.serialize_pem().as_bytes())
                    .unwrap_or_else(|defect| panic!("{algorithm:?}: {defect}"));
                assert_eq!(identity.not_before().to_string(), "1999-12-31T00:00:00Z");
                assert_eq!(identity.not_after().to_string(), format!("{year}-01-01T00:00:00Z"));
            }
        }
    }

    #[test]
    fn a_certificate_without_an_expiry_date_is_read() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(["www.example.com".to_owned()]).expect("names");
        parameters.not_after = rcgen::date_time_ymd(9999, 12, 31);
        let chain = parameters.self_signed(&key).expect("a certificate").pem();
        let identity = Identity::parse(chain.as_bytes(), key.serialize_pem().as_bytes()).expect("usable");
        assert!(identity.not_after() > "9999-12-30T00:00:00Z".parse().expect("a time"));
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        assert_eq!(identity.validity(now), Validity::Valid);
    }

    fn check(chain: &str, key: &str, expected: &str) {
        let defect = Identity::parse(chain.as_bytes(), key.as_bytes()).expect_err("it cannot be used");
        let said = defect.to_string();
        assert!(said.starts_with(expected), "{said:?} does not begin with {expected:?}");
        assert!(!defect.hint.is_empty());
    }
}
