//! A client for TLS 1.3 that counts new handshakes: connects, shakes hands in full, asks for one page, closes.
//!
//! All servers are asked for the same: X25519, AES-128-GCM, an ECDSA certificate on P-256, no resumption. The client compares the
//! certificate with the one it expects instead of verifying signatures, so that it has less to do than the server.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, StreamOwned};

use crate::cores::keep_to;
use crate::http::{self, Answer};
use crate::latency::Latencies;
use crate::load::{Load, Sample, connect_from, sample};
use crate::process;

/// A key and a certificate that vouches for itself.
#[derive(Debug)]
pub struct Identity {
    /// PEM.
    pub certificate: PathBuf,
    /// PEM.
    pub key: PathBuf,
}

impl Identity {
    /// Makes one in `folder`, for `www.example.com` and the loopback address, by the `openssl` command.
    pub fn make(folder: &Path) -> Result<Self> {
        let made = Self { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        let output = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "30",
            ])
            .args([
                "-subj",
                "/CN=www.example.com",
                "-addext",
                "subjectAltName=DNS:www.example.com,IP:127.0.0.1",
            ])
            .arg("-keyout")
            .arg(&made.key)
            .arg("-out")
            .arg(&made.certificate)
            .output()
            .context("openssl cannot be run")?;
        ensure!(
            output.status.success(),
            "openssl makes no certificate: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(made)
    }
}

/// Believes one certificate alone.
#[derive(Debug)]
struct Same(CertificateDer<'static>);

impl ServerCertVerifier for Same {
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
            Err(rustls::Error::General("another certificate".into()))
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 was not offered".into()))
    }

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

/// How to connect to whoever has this identity.
pub fn client(identity: &Identity) -> Result<Arc<ClientConfig>> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
    let certificate = CertificateDer::from_pem_file(&identity.certificate)
        .map_err(|error| anyhow!("the certificate cannot be read: {error}"))?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Same(certificate)))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// One connection from its beginning to its end, with one answer.
pub fn once(
    config: &Arc<ClientConfig>,
    source: usize,
    address: SocketAddr,
    request: &[u8],
) -> Result<Answer> {
    let stream = connect_from(source, address)?;
    stream.set_nonblocking(false)?;
    let name = ServerName::try_from("www.example.com").context("it is a name")?;
    let mut tls = StreamOwned::new(ClientConnection::new(config.clone(), name)?, stream);
    tls.write_all(request)?;
    let mut bytes = Vec::new();
    let mut piece = [0; 16 * 1024];
    let answer = loop {
        let count = tls.read(&mut piece)?;
        ensure!(count > 0, "the server has closed a connection within an answer");
        bytes.extend_from_slice(&piece[..count]);
        if let Some((answer, _)) = http::parse(&bytes)? {
            break answer;
        }
    };
    tls.conn.send_close_notify();
    tls.flush()?;
    Ok(answer)
}

/// As many handshakes as `load.connections` threads on the generator's core can make, each after its last. Only the answer that is
/// `right` is accepted.
pub fn handshakes(
    load: &Load,
    config: &Arc<ClientConfig>,
    address: SocketAddr,
    server: u32,
    request: &[u8],
    right: &Answer,
) -> Result<Sample> {
    let cores = load.machine.numbers(load.cores);
    let start = Instant::now() + load.warm_up;
    let end = start + load.length;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..load.connections)
            .map(|number| {
                let cores = &cores;
                scope.spawn(move || -> Result<Latencies> {
                    keep_to(cores)?;
                    let mut latencies = Latencies::default();
                    loop {
                        let began = Instant::now();
                        let answer = once(config, number % 8, address, request)?;
                        if answer.status != right.status || answer.body != right.body {
                            bail!("the answer over TLS is not the right one");
                        }
                        let now = Instant::now();
                        if now >= end {
                            return Ok(latencies);
                        }
                        if now >= start {
                            latencies.note((now - began).as_nanos() as u64);
                        }
                    }
                })
            })
            .collect();
        let own = std::process::id();
        std::thread::sleep(start.saturating_duration_since(Instant::now()));
        let (began, before, ours) = (Instant::now(), process::usage(server), process::usage(own));
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        let (elapsed, after, then) = (began.elapsed(), process::usage(server), process::usage(own));
        let mut latencies = Latencies::default();
        for thread in threads {
            latencies.add(&thread.join().map_err(|_| anyhow!("the client has panicked"))??);
        }
        ensure!(latencies.total() > 0, "{address} has shaken no hands");
        let busy = std::time::Duration::from_nanos(then.since(&ours).iter().sum());
        let busy = busy.mul_f64(load.length.as_secs_f64() / elapsed.as_secs_f64());
        Ok(sample(latencies.total(), load.length, elapsed, &before, &after, busy).with(&latencies))
    })
}
