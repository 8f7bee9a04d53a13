//! A certificate from an authority that is asked over ACME (RFC 8555), by TLS-ALPN-01 (RFC 8737): on the TLS socket itself.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream as _;
use rustls_acme::{AccountCache, AcmeConfig, AcmeState, CertCache, EventOk};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::{Current, Identity, StartError};

/// After so many failures in a row something is wrong that does not mend itself within seconds.
const QUICK_RETRIES: u32 = 3;

/// The wait from then on, at least. Public authorities allow five failed checks of a name an hour and then refuse to look at all.
const SLOW_RETRY: Duration = Duration::from_mins(30);

/// An error's text in the log is cut off here, in characters: it may quote the authority's whole answer.
const LONGEST_ERROR: usize = 600;

/// The problem of a request whose nonce the authority does not take.
const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";

/// How a certificate is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acme {
    /// The names that the certificate is to have, all of which must lead here.
    pub domains: Vec<String>,
    /// Whom the authority may write to; empty for nobody.
    pub email: String,
    /// The address of the authority's directory.
    pub directory: String,
    /// Certificates in PEM that vouch for the authority itself, beside the public ones.
    pub ca_file: Option<PathBuf>,
    /// The folder for account, key and certificate.
    pub cache: PathBuf,
}

impl Acme {
    /// Whom the authority's own address is believed to.
    pub(super) fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
        let Some(path) = &self.ca_file else { return Ok(roots) };
        let expected = || "one or more certificates in PEM are expected".to_owned();
        let mut number = 0;
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
            roots.add(certificate.map_err(|_| expected())?).map_err(|_| expected())?;
            number += 1;
        }
        if number == 0 { Err(expected()) } else { Ok(roots) }
    }
}

/// Begins to see to it that `current` is a certificate of the authority, from the cache or a new one, and is renewed when a third
/// of its life is left. What is returned answers the connections by which the authority looks whether a name is ours.
pub(super) fn start(acme: &Acme, current: Arc<Current>) -> Result<Arc<ServerConfig>, StartError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(acme.roots().map_err(StartError::Roots)?)
        .with_no_client_auth();
    let cache = Cache::open(&acme.cache, current)?;
    let contact = Some(&acme.email).filter(|email| !email.is_empty()).map(|email| format!("mailto:{email}"));
    let state = AcmeConfig::new_with_client_config(&acme.domains, Arc::new(client))
        .directory(&acme.directory)
        .contact(contact)
        .cache(cache)
        .state();
    let challenge = state.challenge_rustls_config();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new().name("acme".into()).spawn(move || runtime.block_on(run(state)))?;
    Ok(challenge)
}

/// Never ends: there is always a next renewal.
async fn run(mut state: AcmeState<io::Error, io::Error>) {
    let mut failures = 0;
    while let Some(event) = std::future::poll_fn(|cx| Pin::new(&mut state).poll_next(cx)).await {
        match event {
            Ok(event) => {
                let what = match event {
                    EventOk::DeployedCachedCert => "the certificate of the last run is in use",
                    EventOk::DeployedNewCert => "the authority has issued a certificate",
                    EventOk::CertCacheStore => "the certificate is kept for the next start",
                    EventOk::AccountCacheStore => "an account with the authority is kept for the next start",
                };
                failures = 0;
                tracing::info!("{what}");
            }
            Err(error) => {
                let error: String = error.to_string().chars().take(LONGEST_ERROR).collect();
                // An order that ends by a stale nonce says nothing about the names, and is simply made again (RFC 8555 §6.5).
                failures += u32::from(!error.contains(BAD_NONCE));
                tracing::warn!(%error, failures, "there is no new certificate yet, it is tried again");
                tokio::time::sleep(pause(failures)).await;
            }
        }
    }
}

/// The wait after so many failures in a row, beside the library's own, which begins with a second and doubles up to 18 hours.
fn pause(failures: u32) -> Duration {
    if failures > QUICK_RETRIES { SLOW_RETRY } else { Duration::ZERO }
}

/// Account and certificate on the disk, readable by nobody else; a certificate that comes by is put into use.
struct Cache {
    folder: PathBuf,
    current: Arc<Current>,
}

impl Cache {
    fn open(folder: &Path, current: Arc<Current>) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
        Ok(Self { folder: folder.to_owned(), current })
    }

    /// The file for what belongs to these names or contacts, at this authority.
    fn file(&self, kind: &str, whose: &[String], directory: &str) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        for text in whose.iter().map(String::as_str).chain([directory]) {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        self.folder.join(format!("{kind}-{}.pem", &hasher.finalize().to_hex()[..16]))
    }

    fn load(file: &Path) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(file) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whole or not at all, whatever happens meanwhile.
    fn store(file: &Path, content: &[u8]) -> io::Result<()> {
        let draft = file.with_extension("new");
        let mut written =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        written.write_all(content)?;
        written.sync_all()?;
        std::fs::rename(&draft, file)
    }

    fn use_certificate(&self, pem: &[u8]) {
        // What cannot be used is the library's to complain of.
        if let Ok(identity) = Identity::parse(pem, pem) {
            self.current.0.store(Some(Arc::new(identity)));
        }
    }
}

// Small files, on a thread that does nothing else: they are read and written without further ado.
#[async_trait]
impl CertCache for Cache {
    type EC = io::Error;

    async fn load_cert(&self, domains: &[String], directory: &str) -> io::Result<Option<Vec<u8>>> {
        let pem = Self::load(&self.file("certificate", domains, directory))?;
        self.use_certificate(pem.as_deref().unwrap_or_default());
        Ok(pem)
    }

    async fn store_cert(&self, domains: &[String], directory: &str, pem: &[u8]) -> io::Result<()> {
        // First of all it is served: where the disk is full that matters more.
        self.use_certificate(pem);
        Self::store(&self.file("certificate", domains, directory), pem)
    }
}

#[async_trait]
impl AccountCache for Cache {
    type EA = io::Error;

    async fn load_account(&self, contact: &[String], directory: &str) -> io::Result<Option<Vec<u8>>> {
        Self::load(&self.file("account", contact, directory))
    }

    async fn store_account(&self, contact: &[String], directory: &str, key: &[u8]) -> io::Result<()> {
        Self::store(&self.file("account", contact, directory), key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[tokio::test]
    async fn what_the_authority_hands_out_is_kept_for_nobody_else_and_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || Cache::open(&folder.path().join("data/acme"), Arc::default()).expect("a folder");
        let (domains, directory) = (texts(&["www.example.com"]), "https://acme.example.net/dir");
        let cache = open();
        assert!(cache.load_cert(&domains, directory).await.expect("readable").is_none());
        assert!(cache.current.0.load().is_none());
        let made = rcgen::generate_simple_self_signed(domains.clone()).expect("a certificate");
        let pem = made.signing_key.serialize_pem() + &made.cert.pem();
        cache.store_cert(&domains, directory, pem.as_bytes()).await.expect("it can be written");
        cache.store_account(&[], directory, b"key").await.expect("it can be written");
        assert!(cache.current.0.load().is_some(), "it is served at once");

        let later = open();
        let kept = later.load_cert(&domains, directory).await.expect("readable");
        assert_eq!(kept.as_deref(), Some(pem.as_bytes()));
        assert!(later.current.0.load().is_some(), "it is served after a restart");
        assert_eq!(later.load_account(&[], directory).await.expect("readable").as_deref(), Some(&b"key"[..]));
        // Other names, another authority or another contact are other things.
        assert!(later.load_cert(&texts(&["example.com"]), directory).await.expect("readable").is_none());
        assert!(later.load_cert(&domains, "https://other.example.net/").await.expect("readable").is_none());
        assert!(later.load_account(&domains, directory).await.expect("readable").is_none());

        let permissions =
            |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(permissions(&later.folder), 0o700);
        let mut files = 0;
        for entry in std::fs::read_dir(&later.folder).expect("a folder").flatten() {
            assert_eq!(permissions(&entry.path()), 0o600, "{:?}", entry.file_name());
            files += 1;
        }
        assert_eq!(files, 2);
    }

    #[tokio::test]
    async fn a_certificate_that_cannot_be_kept_is_served_all_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(&folder.path().join("acme"), Arc::default()).expect("a folder");
        std::fs::remove_dir(&cache.folder).expect("it is empty");
        let made = rcgen::generate_simple_self_signed(texts(&["www.example.com"])).expect("a certificate");
        let pem = made.signing_key.serialize_pem() + &made.cert.pem();
        assert!(cache.store_cert(&texts(&["www.example.com"]), "https://x/", pem.as_bytes()).await.is_err());
        assert!(cache.current.0.load().is_some());
    }

    #[test]
    fn an_authority_is_not_asked_more_often_than_it_allows() {
        // The library waits 1, 2, 4, 8… seconds; public authorities allow five failures an hour.
        let library = |failures: u32| Duration::from_secs(1 << (failures - 1).min(16));
        let mut at = Duration::ZERO;
        let mut attempts = vec![at];
        for failures in 1..40 {
            at += pause(failures) + library(failures).saturating_sub(pause(failures));
            attempts.push(at);
        }
        for (number, begin) in attempts.iter().enumerate() {
            let within =
                attempts[number..].iter().filter(|at| **at < *begin + Duration::from_hours(1)).count();
            assert!(within <= 5, "{within} within the hour after {begin:?}");
        }
    }
}
