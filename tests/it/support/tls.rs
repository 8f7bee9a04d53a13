//! A private certificate authority, and a client that trusts it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use super::{Connection, PATIENCE};

/// A connection over TLS.
pub type Secure = Connection<StreamOwned<ClientConnection, TcpStream>>;

/// An authority with its certificate in a file.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    folder: tempfile::TempDir,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key).expect("a certificate").pem();
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("ca.pem"), &pem).expect("it can be written");
        Self { issuer: Issuer::new(parameters, key), pem, folder }
    }

    /// The file with the authority's certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A new certificate for localhost and 127.0.0.1, and its key, both in PEM.
    pub fn issue(&self) -> (String, String) {
        self.issue_for(vec!["localhost".into(), "127.0.0.1".into()])
    }

    pub fn issue_for(&self, names: Vec<String>) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new(names).expect("names");
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    /// A certificate for localhost and 127.0.0.1 that began 90 days ago and expires in this number of days
    /// and an hour, and its key.
    pub fn issue_until(&self, days_left: u64) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut parameters =
            CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).expect("names");
        let days = |days: u64| std::time::Duration::from_secs(days * 86_400 + 3600);
        let now = std::time::SystemTime::now();
        parameters.not_before = (now - days(90)).into();
        parameters.not_after = (now + days(days_left)).into();
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    /// A certificate for 127.0.0.1 that expired in 2020, and its key.
    pub fn issue_expired(&self) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(vec!["127.0.0.1".into()]).expect("names");
        parameters.not_before = rcgen::date_time_ymd(2019, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    /// A client that trusts only this authority.
    pub fn client(&self) -> Client {
        Client::trusting(self.pem.as_bytes())
    }
}

/// A client's TLS parameters.
#[derive(Clone)]
pub struct Client {
    config: ClientConfig,
    name: &'static str,
}

impl Client {
    /// A client that trusts these authorities, offers HTTP/1.1 and requests localhost.
    pub fn trusting(pem: &[u8]) -> Self {
        Self::with(pem, &[])
    }

    fn with(pem: &[u8], versions: &[&'static SupportedProtocolVersion]) -> Self {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.expect("a certificate")).expect("it can be read");
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = if versions.is_empty() {
            builder.with_safe_default_protocol_versions()
        } else {
            builder.with_protocol_versions(versions)
        };
        let mut config = builder.expect("versions").with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { config, name: "localhost" }
    }

    /// A client that supports only this version.
    pub fn speaking(authority: &Authority, version: &'static SupportedProtocolVersion) -> Self {
        Self::with(authority.pem.as_bytes(), &[version])
    }

    pub fn offering(mut self, protocols: &[&str]) -> Self {
        self.config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    pub fn asking_for(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// The parameters, for clients of other kinds.
    pub fn config(self) -> ClientConfig {
        self.config
    }

    /// Connects and completes the handshake.
    pub fn connect(&self, address: SocketAddr) -> io::Result<Secure> {
        self.greet(TcpStream::connect(address)?)
    }

    /// Completes the handshake over an open stream.
    pub fn greet(&self, mut stream: TcpStream) -> io::Result<Secure> {
        let name = ServerName::try_from(self.name).expect("a name");
        let mut session =
            ClientConnection::new(Arc::new(self.config.clone()), name).expect("the configuration is right");
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(Connection::over(StreamOwned::new(session, stream)))
    }
}

/// Replaces a file atomically.
pub fn replace(file: &Path, content: &str) {
    let draft = file.with_extension("draft");
    std::fs::write(&draft, content).expect("it can be written");
    std::fs::rename(&draft, file).expect("it can be renamed");
}
