//! The server certificate: a certificate chain with its private key, parsed from PEM.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, Error, InconsistentKeys, ServerConfig};
use x509_cert::der::{self, AnyRef, Decode as _, Reader as _, SliceReader, Tag};
use x509_cert::time;

use frontdesk_fetch::without_byte_order_marks;

/// How long before expiry the server warns. Renewal tools act earlier, so a warning means that they failed.
const EXPIRES_SOON: Duration = Duration::from_hours(14 * 24);

/// A certificate chain with the private key of its first certificate.
#[derive(Debug, Clone)]
pub struct ServerCertificate {
    key: Arc<CertifiedKey>,
    /// The beginning of the validity of the server's own certificate.
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

/// Why a certificate and its key cannot be used. `what` completes a sentence that begins with the faulty
/// part, and `hint` explains how to fix the fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateDefect {
    #[error("the certificate {what}")]
    Certificate { what: String, hint: &'static str },
    #[error("the private key {what}")]
    Key { what: String, hint: &'static str },
}

/// The text that marks an encrypted key: in the PKCS #8 label, or in `Proc-Type` (RFC 1421 §4.6.1.1).
const ENCRYPTED: &[u8] = b"ENCRYPTED";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Validity {
    NotYet,
    Valid,
    ExpiresSoon,
    Expired,
}

impl ServerCertificate {
    /// Parses a PEM chain that begins with the server's own certificate, and the certificate's key. Other PEM
    /// sections are skipped, so one file may hold both. Accepts expired certificates.
    pub fn parse(chain: &[u8], key: &[u8]) -> Result<Self, CertificateDefect> {
        const CHAIN: &str = "expected a PEM file with the server's own certificate first (`-----BEGIN CERTIFICATE-----`), then its issuers";
        const KEY: &str = "expected a PEM file with `-----BEGIN PRIVATE KEY-----`, without a password";
        let chain_defect = |what: String| CertificateDefect::Certificate { what, hint: CHAIN };
        let (chain, key) = (without_byte_order_marks(chain), without_byte_order_marks(key));
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&chain)
            .collect::<Result<_, _>>()
            .map_err(|error| chain_defect(format!("is not valid PEM: {}", pem_rule(&error))))?;
        let own = chain.first().ok_or_else(|| chain_defect("is missing from its file".to_owned()))?;
        let (not_before, not_after) = validity_period(own)
            .map_err(|_| chain_defect("cannot be parsed, although its file is valid PEM".to_owned()))?;
        if let Some(number) = first_damaged(&chain) {
            return Err(chain_defect(format!(
                "cannot be used: certificate number {number} in its file cannot be parsed"
            )));
        }
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| {
            let what = match error {
                _ if key.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) => {
                    "has a password".to_owned()
                }
                pem::Error::NoItemsFound => "is missing from its file".to_owned(),
                error => format!("is not valid PEM: {}", pem_rule(&error)),
            };
            CertificateDefect::Key { what, hint: KEY }
        })?;
        let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
        // Do not quote the library's error, so that the message cannot expose any part of the private key.
        let key = key.map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => CertificateDefect::Key {
                what: "does not belong to the certificate".to_owned(),
                hint: "the key must be the one that the certificate was issued for, and the server's own certificate must come first in its file",
            },
            Error::InvalidCertificate(_) => {
                chain_defect("cannot be used: it is damaged, or not an X.509 certificate of version 3".to_owned())
            }
            _ => CertificateDefect::Key {
                what: "cannot be used: it is damaged, or of a kind that is not supported".to_owned(),
                hint: "supported keys are ECDSA with P-256 or P-384, RSA with 2048 to 8192 bits, and Ed25519",
            },
        })?;
        Ok(Self { key: Arc::new(key), not_before, not_after })
    }

    /// The first and the last second of the certificate's validity.
    pub fn validity_period(&self) -> (Timestamp, Timestamp) {
        (self.not_before, self.not_after)
    }

    /// Whether the certificate is issued for this host name or IP address; an IPv6 address may be in
    /// brackets.
    pub fn covers(&self, host: &str) -> bool {
        let own = self.key.end_entity_cert().and_then(ParsedCertificate::try_from);
        let name = ServerName::try_from(host.trim_matches(['[', ']']));
        own.is_ok_and(|own| name.is_ok_and(|name| verify_server_name(&own, &name).is_ok()))
    }

    /// Whether the certificate is valid at `now`, and whether it expires within [`EXPIRES_SOON`].
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

/// The certificate for new connections, once one is available. Open connections keep theirs.
#[derive(Debug, Default)]
pub(super) struct CurrentCertificate(ArcSwapOption<ServerCertificate>);

impl CurrentCertificate {
    pub(super) fn get(&self) -> Option<Arc<ServerCertificate>> {
        self.0.load_full()
    }

    pub(super) fn replace(&self, certificate: ServerCertificate) {
        self.0.store(Some(Arc::new(certificate)));
    }
}

impl ResolvesServerCert for CurrentCertificate {
    /// Ignores the name that the client requests: the client decides whether to accept the certificate.
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load().as_ref().map(|certificate| certificate.key.clone())
    }
}

/// A server configuration for TLS 1.2 and 1.3 with these certificates and ALPN protocols.
pub(super) fn tls_config(
    certificates: Arc<dyn ResolvesServerCert>,
    protocols: &[&[u8]],
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

/// Why TLS cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TlsStartError {
    #[error(transparent)]
    CertificateDefect(#[from] CertificateDefect),
    #[error("the certificates in `tls.acme_ca_file` cannot be used: {0}")]
    Roots(String),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// A thread, the runtime of the ACME client or the folder for its files could not be created.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The rule of PEM that a file breaks. The library's own message would print parts of the file: if the line
/// breaks are lost, the whole private key.
fn pem_rule(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } | pem::Error::IllegalSectionStart { .. } => {
            "each `-----BEGIN …-----` and each `-----END …-----` must be there, on a line of its own"
        }
        pem::Error::Base64Decode(_) => "only Base64 may be between `-----BEGIN …-----` and `-----END …-----`",
        _ => "it has no section that can be read",
    }
}

/// The validity of a DER certificate (RFC 5280 §4.1.2.5). The TLS library checks the rest of the certificate.
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
    Ok((to_timestamp(not_before), to_timestamp(not_after)))
}

/// The number, beginning with 1, of the first certificate that cannot be parsed, such as one with missing
/// lines. The TLS library parses only the server's own certificate, and clients may refuse the chain. Accepts
/// issuers that this library does not support, such as roots of version 1: clients may support or ignore
/// them.
fn first_damaged(chain: &[CertificateDer<'_>]) -> Option<usize> {
    chain.iter().position(|certificate| validity_period(certificate).is_err()).map(|index| index + 1)
}

/// Converts a time, capped at [`Timestamp::MAX`]. The end of 9999 means no expiry (RFC 5280 §4.1.2.5).
fn to_timestamp(time: time::Time) -> Timestamp {
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).ok();
    seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use x509_cert::der::Encode as _;

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
    fn a_pair_is_parsed_and_other_pem_sections_are_skipped() {
        let Pair { chain, key } = pair(&["www.example.com", "*.example.net", "192.0.2.7"]);
        let both = format!("# by hand\n{key}\n{chain}");
        let marked = format!("\u{feff}{key}\u{feff}{chain}");
        for (chain, key) in [(&chain, &key), (&both, &both), (&marked, &marked)] {
            let certificate =
                ServerCertificate::parse(chain.as_bytes(), key.as_bytes()).expect("it can be used");
            assert_eq!(certificate.not_after.to_string(), "2026-04-01T00:00:00Z");
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
                assert_eq!(certificate.covers(host), covered, "{host}");
            }
        }
    }

    #[test]
    fn each_defect_names_the_part_and_the_remedy() {
        let (one, other) = (pair(&["www.example.com"]), pair(&["www.example.com"]));
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let torn = &one.chain[..one.chain.len() / 2];
        check("", &one.key, "the certificate is missing from its file");
        check("no PEM at all", &one.key, "the certificate is missing from its file");
        check(torn, &one.key, "the certificate is not valid PEM");
        check(garbage, &one.key, "the certificate cannot be parsed");
        check(&one.chain, "", "the private key is missing from its file");
        check(&one.chain, &one.chain, "the private key is missing from its file");
        check(
            &one.chain,
            &one.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
            "the private key has a password",
        );
        let header = "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n";
        check(&one.chain, &one.key.replacen("KEY-----\n", header, 1), "the private key has a password");
        check(&one.chain, &other.key, "the private key does not belong to the certificate");
    }

    #[test]
    fn no_part_of_a_damaged_file_is_in_the_message() {
        type Damage = fn(&str) -> String;
        let Pair { chain, key } = pair(&["www.example.com"]);
        let both = format!("{key}{chain}");
        let damages: [(&str, Damage); 9] = [
            ("without line breaks", |pem| pem.replace('\n', "")),
            ("with spaces as line breaks", |pem| pem.replace('\n', " ")),
            ("with escaped line breaks", |pem| pem.replace('\n', "\\n")),
            ("without a line break before END", |pem| pem.replace("\n-----END", "-----END")),
            ("without a line break after BEGIN", |pem| pem.replace("KEY-----\n", "KEY-----")),
            ("on one line, without its end", |pem| pem.replace('\n', "")[..90].to_owned()),
            ("cut", |pem| pem[..90].to_owned()),
            ("with a header", |pem| pem.replace("-----\nM", "-----\nProc-Type: 4\n\nM")),
            ("with a changed byte", |pem| pem.replace("-----\nMI", "-----\nAA")),
        ];
        for (name, damage) in damages {
            for (chain, key) in [(&chain, &damage(&key)), (&damage(&both), &both), (&both, &damage(&both))] {
                let Err(defect) = ServerCertificate::parse(chain.as_bytes(), key.as_bytes()) else {
                    panic!("{name}: it can be used");
                };
                let message = format!("{defect} {defect:?}");
                assert!(message.contains("a line of its own") || !name.contains("line"), "{name}: {message}");
                // Neither text from the file, nor its bytes as numbers.
                let is_quoted = |part: &[u8]| message.contains(&*String::from_utf8_lossy(part));
                for body in both.lines().filter(|line| !line.starts_with("-----")) {
                    assert!(!body.as_bytes().windows(6).any(is_quoted), "{name}: {message}");
                }
                assert!(!message.contains("80, 82, 73"), "{name}: {message}");
                assert!(message.len() < 600 && !message.contains("Proc-Type"), "{name}: {message}");
            }
        }
    }

    #[test]
    fn every_certificate_of_the_chain_must_be_whole() {
        let (own, issuer) = (pair(&["www.example.com"]), pair(&["issuer.example.com"]));
        let whole = format!("{}{}", own.chain, issuer.chain);
        ServerCertificate::parse(whole.as_bytes(), own.key.as_bytes()).expect("it can be used");
        // Lines are missing, or the Base64 is of something else.
        let lines: Vec<&str> = issuer.chain.lines().collect();
        let torn = format!("{}\n{}\n", lines[..4].join("\n"), lines[lines.len() - 1]);
        let other = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        for damaged in [&torn, other] {
            let chain = format!("{whole}{damaged}");
            check(&chain, &own.key, "the certificate cannot be used: certificate number 3");
        }
    }

    #[test]
    fn issuers_need_neither_version_3_nor_known_extensions() {
        let own = pair(&["www.example.com"]);
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).expect("no names");
        let version_3 = parameters.self_signed(&key).expect("a certificate");
        // Version 1 has no version field.
        let certificate = AnyRef::from_der(version_3.der()).expect("it is DER");
        let mut parts = SliceReader::new(certificate.value()).expect("it is short");
        let tbs_certificate = AnyRef::decode(&mut parts).expect("a part");
        let signature = parts.read_slice(parts.remaining_len()).expect("the rest");
        let version_1 = sequence(&[&sequence(&[&tbs_certificate.value()[5..]]), signature]);
        assert!(ParsedCertificate::try_from(&version_1).is_err(), "the TLS library does not support it");
        let mut extension =
            rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999, 1], vec![5, 0]);
        extension.set_criticality(true);
        parameters.custom_extensions.push(extension);
        let unknown = parameters.self_signed(&key).expect("a certificate").der().clone();
        assert!(ParsedCertificate::try_from(&unknown).is_err(), "the TLS library does not support it");
        let own = CertificateDer::from_pem_slice(own.chain.as_bytes()).expect("it is PEM");
        assert_eq!(first_damaged(&[own, version_1, unknown]), None);
    }

    /// A SEQUENCE in DER with this content.
    fn sequence(parts: &[&[u8]]) -> CertificateDer<'static> {
        let content = parts.concat();
        AnyRef::new(Tag::Sequence, &content).and_then(|any| any.to_der()).expect("it can be encoded").into()
    }

    #[test]
    fn expiry_is_reported_two_weeks_before() {
        let Pair { chain, key } = pair(&["www.example.com"]);
        let certificate = ServerCertificate::parse(chain.as_bytes(), key.as_bytes()).expect("it can be used");
        for (now, expected) in [
            ("2025-12-31T23:59:59Z", Validity::NotYet),
            ("2026-01-01T00:00:00Z", Validity::Valid),
            ("2026-03-18T00:00:00Z", Validity::Valid),
            ("2026-03-18T00:00:01Z", Validity::ExpiresSoon),
            ("2026-04-01T00:00:00Z", Validity::ExpiresSoon),
            ("2026-04-01T00:00:01Z", Validity::Expired),
        ] {
            assert_eq!(certificate.validity(now.parse().expect("a time")), expected, "{now}");
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
                let certificate = ServerCertificate::parse(chain.as_bytes(), key.serialize_pem().as_bytes())
                    .unwrap_or_else(|defect| panic!("{algorithm:?}: {defect}"));
                assert_eq!(certificate.not_before.to_string(), "1999-12-31T00:00:00Z");
                assert_eq!(certificate.not_after.to_string(), format!("{year}-01-01T00:00:00Z"));
            }
        }
    }

    #[test]
    fn a_certificate_without_an_expiry_date_is_read() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(["www.example.com".to_owned()]).expect("names");
        parameters.not_after = rcgen::date_time_ymd(9999, 12, 31);
        let chain = parameters.self_signed(&key).expect("a certificate").pem();
        let certificate =
            ServerCertificate::parse(chain.as_bytes(), key.serialize_pem().as_bytes()).expect("usable");
        assert!(certificate.not_after > "9999-12-30T00:00:00Z".parse().expect("a time"));
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        assert_eq!(certificate.validity(now), Validity::Valid);
    }

    fn check(chain: &str, key: &str, expected: &str) {
        let defect =
            ServerCertificate::parse(chain.as_bytes(), key.as_bytes()).expect_err("it cannot be used");
        let error = defect.to_string();
        assert!(error.starts_with(expected), "{error:?} does not begin with {expected:?}");
        let (CertificateDefect::Certificate { hint, .. } | CertificateDefect::Key { hint, .. }) = defect;
        assert!(!hint.is_empty());
    }
}
