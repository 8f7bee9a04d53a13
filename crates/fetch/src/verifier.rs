//! Verifies the certificates of servers: those of authorities, and those that the operator trusts themselves.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Verifies certificates like [`WebPkiServerVerifier`]. Also accepts a certificate that is one of `trusted`,
/// if its dates are valid, and its name if it has any: older ones have only a common name, which TLS ignores.
/// A self-signed one usually says that it is an authority (`openssl req -x509`), which webpki refuses as the
/// certificate of a server.
#[derive(Debug)]
pub(crate) struct CertificateVerifier {
    pub authorities: Arc<WebPkiServerVerifier>,
    pub trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for CertificateVerifier {
    /// Verifies as webpki does, except that a certificate in `trusted` needs no trusted issuer, may be an
    /// authority's, and may contain no names.
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if !self.trusted.contains(end_entity) {
            return verified;
        }
        let verified = match verified {
            Err(error) if is_about_issuer(&error) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)
                    .map(|()| ServerCertVerified::assertion())
            }
            verified => verified,
        };
        match verified {
            Err(error) if has_no_name(&error) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Whether webpki refused a certificate only because it has no trusted issuer or is that of an authority.
/// webpki checks the dates first, so they are valid then.
fn is_about_issuer(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}

/// Whether a certificate was refused because it contains no names at all.
fn has_no_name(error: &Error) -> bool {
    use CertificateError::NotValidForNameContext;
    matches!(error, Error::InvalidCertificate(NotValidForNameContext { presented, .. }) if presented.is_empty())
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
    use tokio_rustls::rustls::crypto::aws_lc_rs;
    use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
    use tokio_rustls::rustls::version::{TLS12, TLS13};
    use tokio_rustls::rustls::{ClientConnection, ServerConfig, ServerConnection, SupportedProtocolVersion};

    use super::*;
    use crate::{ExtraRoots, tls_config};

    /// A certificate of an authority for `localhost` that is valid in these years.
    fn authority(first_year: i32, last_year: i32) -> CertificateParams {
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, "An authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) =
            (date_time_ymd(first_year, 1, 1), date_time_ymd(last_year, 1, 1));
        params
    }

    fn new_key() -> KeyPair {
        KeyPair::generate().expect("a key")
    }

    /// Shakes hands with a server that has this certificate and key. `Ok` if the client accepts it.
    fn shake_hands(
        trusted: &rcgen::Certificate,
        shown: &rcgen::Certificate,
        key: &KeyPair,
        name: &'static str,
        version: &'static SupportedProtocolVersion,
    ) -> Result<(), Error> {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let key = CertifiedKey::new(vec![shown.der().clone()], aws_lc_rs::sign::any_supported_type(&key)?);
        let server = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[version])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        let roots = ExtraRoots::parse(trusted.pem().as_bytes()).expect("a certificate");
        let client = tls_config(Some(&roots)).expect("a configuration");
        let name = ServerName::try_from(name).expect("a name");
        let mut client = ClientConnection::new(Arc::new(client), name)?;
        let mut server = ServerConnection::new(Arc::new(server))?;
        while client.is_handshaking() {
            let mut sent = Vec::new();
            client.write_tls(&mut sent).expect("memory");
            server.read_tls(&mut sent.as_slice()).expect("memory");
            server.process_new_packets()?;
            sent.clear();
            while server.wants_write() {
                server.write_tls(&mut sent).expect("memory");
            }
            client.read_tls(&mut sent.as_slice()).expect("memory");
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn a_trusted_certificate_needs_no_issuer_but_its_name_dates_and_key() {
        let (key, other_key) = (new_key(), new_key());
        let own = authority(2020, 4000).self_signed(&key).expect("a certificate");
        for version in [&TLS12, &TLS13] {
            shake_hands(&own, &own, &key, "localhost", version).expect("it is trusted");
            let error = shake_hands(&own, &own, &key, "mail.example", version).expect_err("another name");
            assert!(error.to_string().contains("not valid for name"), "{error}");
            let other = authority(2020, 4000).self_signed(&other_key).expect("a certificate");
            shake_hands(&own, &other, &other_key, "localhost", version).expect_err("another certificate");
            let error = shake_hands(&own, &own, &other_key, "localhost", version).expect_err("another key");
            assert_eq!(error, Error::InvalidCertificate(CertificateError::BadSignature));
            for (first, last, expected) in [(2020, 2021, "expired"), (3000, 4000, "not valid yet")] {
                let own = authority(first, last).self_signed(&key).expect("a certificate");
                let error = shake_hands(&own, &own, &key, "localhost", version).expect_err("its dates");
                assert!(error.to_string().contains(expected), "{error}");
            }
        }
        // A certificate with only a common name, of an authority or not.
        for is_ca in [IsCa::Ca(BasicConstraints::Unconstrained), IsCa::NoCa, IsCa::ExplicitNoCa] {
            let mut params = authority(2020, 4000);
            (params.is_ca, params.subject_alt_names) = (is_ca, Vec::new());
            let nameless = params.self_signed(&key).expect("a certificate");
            shake_hands(&nameless, &nameless, &key, "localhost", &TLS13).expect("it is trusted");
            let other = params.self_signed(&other_key).expect("a certificate");
            shake_hands(&nameless, &other, &other_key, "localhost", &TLS13).expect_err("another certificate");
        }
        // A certificate of an authority that is not trusted.
        let issuer = Issuer::new(authority(2020, 4000), other_key);
        let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let leaf = params.signed_by(&key, &issuer).expect("a certificate");
        shake_hands(&leaf, &leaf, &key, "localhost", &TLS13).expect("it is trusted");
        let other = params.self_signed(&new_key()).expect("a certificate");
        let error = shake_hands(&other, &leaf, &key, "localhost", &TLS13).expect_err("it is not trusted");
        assert_eq!(error, Error::InvalidCertificate(CertificateError::UnknownIssuer));
    }
}
