//! A TLS 1.3 client that measures full handshakes: it connects, requests one page, and closes the connection.
//!
//! All servers use X25519, AES-128-GCM and an ECDSA certificate on P-256, without resumption. Instead of
//! verifying signatures, the client compares the certificate with the expected one, so that it needs less CPU
//! time than the server.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, StreamOwned};

use super::{Load, Recorder, Sample, connect_from, measure};
use crate::http::{self, Response};
use crate::peer::Identity;
use crate::peer::Peer;
use crate::settings::pin;

#[derive(Debug)]
struct PinnedCertificate(CertificateDer<'static>);

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *end_entity == self.0 {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::General("unexpected certificate".into()))
        }
    }

    /// Never called, because the client offers only TLS 1.3.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 was not offered".into()))
    }

    /// Accepts any signature, to save CPU time. The servers under test are trusted.
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

/// The client's configuration: one cipher suite, one key exchange group, and the certificate that it expects.
pub fn client_config(identity: &Identity) -> Result<Arc<ClientConfig>> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
    let certificate = CertificateDer::from_pem_file(&identity.certificate)
        .with_context(|| format!("cannot read {}", identity.certificate.display()))?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedCertificate(certificate)))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Sends a request on a new TLS connection from loopback address number `source`.
pub fn send(
    config: &Arc<ClientConfig>,
    source: usize,
    address: SocketAddr,
    request: &[u8],
) -> Result<Response> {
    let stream = connect_from(source, address)?;
    let name = ServerName::try_from("www.example.com").context("invalid server name")?;
    let mut tls = StreamOwned::new(ClientConnection::new(config.clone(), name)?, stream);
    tls.write_all(request)?;
    let response = http::read_response(&mut tls)?;
    tls.conn.send_close_notify();
    tls.flush()?;
    Ok(response)
}

/// Measures new connections: each of `load.connections` threads opens the next one after the previous
/// response.
pub fn run(
    load: &Load,
    config: &Arc<ClientConfig>,
    server: &Peer,
    request: &[u8],
    expected: &Response,
) -> Result<Sample> {
    let generate = |number, mut recorder: Recorder| loop {
        let began = Instant::now();
        let response = send(config, number % 8, server.secure, request)?;
        let is_expected = response.status == expected.status && response.body == expected.body;
        ensure!(is_expected, "the response over TLS differs from the expected one");
        let now = Instant::now();
        if now >= recorder.end {
            return Ok(recorder);
        }
        recorder.record(began, now);
    };
    let prepare = |number| pin(None, &load.cores).map(|()| number);
    measure(load, server, load.connections, prepare, generate)
}
