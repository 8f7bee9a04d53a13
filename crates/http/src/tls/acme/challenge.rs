//! TLS-ALPN-01 (RFC 8737): the authority validates a name with a handshake in which the server presents a
//! special certificate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

/// The ALPN protocol ID of validation handshakes.
pub(super) const ACME_TLS: &[u8] = b"acme-tls/1";

/// Whether the client offers [`ACME_TLS`] and no other protocol (RFC 8737 §3).
pub(crate) fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello.alpn().into_iter().flatten().eq([ACME_TLS])
}

/// The challenge certificates for the current order, by domain name.
#[derive(Debug, Default)]
pub(super) struct Challenges(Mutex<HashMap<String, Arc<CertifiedKey>>>);

impl Challenges {
    /// Adds or replaces the challenge certificate for a name. `digest` is the SHA-256 of the key
    /// authorization.
    pub fn insert(&self, name: &str, digest: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
        let certificate = self_signed(name, digest)?;
        let mut responses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        responses.insert(name.to_owned(), Arc::new(certificate));
        Ok(())
    }

    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl ResolvesServerCert for Challenges {
    /// The challenge certificate for the name that the authority requests; `None` without one.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?.to_ascii_lowercase();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }
}

/// A self-signed certificate for `name` with the acmeIdentifier extension (RFC 8737 §3), which contains
/// `digest`. Fails unless that has 32 bytes.
fn self_signed(name: &str, digest: &[u8]) -> Result<CertifiedKey, Box<dyn std::error::Error>> {
    let digest: &[u8; 32] = digest.try_into()?;
    let mut parameters = CertificateParams::new([name.to_owned()])?;
    parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let certificate = parameters.self_signed(&key)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let key = aws_lc_rs::default_provider().key_provider.load_private_key(key.into())?;
    // `CertifiedKey::from_der` would reject the critical extension, which the TLS library does not support.
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
    use tokio_rustls::rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use tokio_rustls::rustls::server::Acceptor;
    use tokio_rustls::rustls::{
        ClientConfig, ClientConnection, DigitallySignedStruct, Error, ServerConfig, ServerConnection,
        SignatureScheme,
    };

    use super::*;
    use crate::tls::certificate;

    /// Accepts every certificate, as an authority does during validation.
    #[derive(Debug)]
    struct AnyCertificate;

    impl ServerCertVerifier for AnyCertificate {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
        }
    }

    fn client(name: &str, protocols: &[&[u8]]) -> ClientConnection {
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate))
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        ClientConnection::new(Arc::new(config), name).expect("a client")
    }

    #[test]
    fn only_a_client_that_offers_nothing_else_validates() {
        for (protocols, expected) in [
            (&[ACME_TLS][..], true),
            (&[], false),
            (&[b"h2", b"http/1.1"], false),
            (&[ACME_TLS, b"h2"], false),
            (&[b"h2", ACME_TLS], false),
            (&[b"acme-tls/2"], false),
        ] {
            let mut hello = Vec::new();
            client("www.example.com", protocols).write_tls(&mut hello).expect("it can be written");
            let mut acceptor = Acceptor::default();
            acceptor.read_tls(&mut &*hello).expect("it can be read");
            let accepted = acceptor.accept().expect("a valid hello").expect("a whole hello");
            assert_eq!(is_challenge(&accepted.client_hello()), expected, "{protocols:?}");
        }
    }

    #[test]
    fn a_validation_handshake_shows_the_digest_for_its_name() {
        let challenges = Arc::new(Challenges::default());
        challenges.insert("www.example.com", &[7; 32]).expect("a certificate");
        challenges.insert("example.com", &[9; 32]).expect("a certificate");
        assert!(challenges.insert("example.net", &[7; 31]).is_err());
        let config =
            certificate::tls_config(challenges.clone(), &[ACME_TLS]).map(Arc::new).expect("a configuration");
        for (name, digest) in
            [("www.example.com", Some([7; 32])), ("EXAMPLE.com", Some([9; 32])), ("example.net", None)]
        {
            let shown = shown(&config, name);
            assert_eq!(shown.is_some(), digest.is_some(), "{name}");
            let Some((shown, digest)) = shown.zip(digest) else { continue };
            // OID 1.3.6.1.5.5.7.1.31, critical, an OCTET STRING in the extension's OCTET STRING (RFC 8737
            // §3).
            let mut extension =
                b"\x06\x08\x2b\x06\x01\x05\x05\x07\x01\x1f\x01\x01\xff\x04\x22\x04\x20".to_vec();
            extension.extend_from_slice(&digest);
            assert!(shown.windows(extension.len()).any(|window| window == extension), "{name}: {shown:x?}");
        }
        challenges.clear();
        assert_eq!(shown(&config, "www.example.com"), None);
    }

    /// The certificate that the server presents in a validation handshake for this name; `None` if the
    /// handshake fails.
    fn shown(config: &Arc<ServerConfig>, name: &str) -> Option<CertificateDer<'static>> {
        let mut client = client(name, &[ACME_TLS]);
        let mut server = ServerConnection::new(config.clone()).expect("a server");
        while client.is_handshaking() {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).expect("it can be written");
            }
            let mut rest = &*bytes;
            while !rest.is_empty() {
                server.read_tls(&mut rest).expect("it can be read");
                server.process_new_packets().ok()?;
            }
            let mut bytes = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut bytes).expect("it can be written");
            }
            let mut rest = &*bytes;
            while !rest.is_empty() {
                client.read_tls(&mut rest).expect("it can be read");
                client.process_new_packets().ok()?;
            }
        }
        assert_eq!(client.alpn_protocol(), Some(ACME_TLS));
        client.peer_certificates().map(|chain| chain[0].clone().into_owned())
    }
}
